# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The work of a round of ADMM sharing: of a party, of the label holder, of all together."""

import numpy as np

from libc.stdlib cimport free, malloc

from privlr._solvers.solve cimport Design, privlr_design_width

from privlr.exceptions import InvalidParameterError


cdef int64_t checked_block(int64_t block) except -1:
    if not 1 <= block <= PRIVLR_SHARING_ROWS:
        raise InvalidParameterError("block", f"from 1 to {PRIVLR_SHARING_ROWS}", block)
    return block


cdef class Columns:
    """A party's matrix and the numbers that it keeps for every row; see ``sharing.h``.

    Parameters
    ----------
    design : Design
        float64, C-ordered or CSR, without row factors or a constant.
    block : int
        Rows that are worked on together.
    over_relaxation : float
        Of the anchor.
    clip : float
        Bound on the targets; infinite for none.
    with_moment : bool
        Whether X' target is needed.

    Attributes
    ----------
    share, anchor, message, target : ndarray of shape (n,)
        To be written in place.
    moment : ndarray of shape (d,), or None
        X' target.
    """

    cdef privlr_columns columns
    cdef int64_t block
    cdef Design design
    cdef readonly object share, anchor, message, target, moment

    def __init__(self, Design design not None, *, int64_t block, double over_relaxation,
                 double clip, bint with_moment):
        cdef int64_t n = design.X.n_rows
        cdef double[::1] view
        if design.X.is_float32 or design.X.row_scale != NULL or design.X.intercept != 0.0 or (
                not design.X.index_bits and design.X.col_stride != 1):
            raise ValueError("the design must be float64, C-ordered or CSR, as it is")
        self.block, self.design, self.columns.X = checked_block(block), design, design.X
        self.columns.over_relaxation, self.columns.clip = over_relaxation, clip
        self.share = view = np.zeros(n)
        self.columns.share = &view[0]
        self.anchor = view = np.zeros(n)
        self.columns.anchor = &view[0]
        self.message = view = np.zeros(n)
        self.columns.message = &view[0]
        self.target = view = np.zeros(n)
        self.columns.target = &view[0]
        if with_moment:
            self.moment = view = np.zeros(privlr_design_width(&design.X))
            self.columns.moment = &view[0]

    cdef const double *checked(self, const double[::1] w) except NULL:
        if w.shape[0] != privlr_design_width(&self.columns.X):
            raise ValueError("w has the wrong length")
        return &w[0]

    def product(self, const double[::1] w not None):
        """X w."""
        cdef const double *coef = self.checked(w)
        cdef int64_t first = 0, n = self.columns.X.n_rows
        cdef double[::1] out = np.empty(n)
        with nogil:
            while first < n:
                privlr_columns_product(&self.columns, first, min(self.block, n - first), coef,
                                       &out[first])
                first += self.block
        return out.base

    def slope(self, const double[::1] w not None):
        """X' (X w - target), in one pass."""
        cdef const double *coef = self.checked(w)
        cdef int64_t first = 0, n = self.columns.X.n_rows
        cdef double[::1] out = np.zeros(w.shape[0])
        with nogil:
            while first < n:
                privlr_columns_slope(&self.columns, first, min(self.block, n - first), coef,
                                     &out[0])
                first += self.block
        return out.base

    def absorb(self, const double[::1] message not None):
        """Take a message: move the anchor, and find the target and its moment."""
        cdef int64_t first = 0, n = self.columns.X.n_rows
        if message.shape[0] != n:
            raise ValueError("message has the wrong length")
        with nogil:
            while first < n:
                privlr_columns_absorb(&self.columns, first, min(self.block, n - first),
                                      &message[first])
                first += self.block


cdef class Labels:
    """What the coordinator keeps for every row; see ``sharing.h``.

    Parameters
    ----------
    y : ndarray of shape (n,)
        -1 and +1.
    block : int
        Rows that are worked on together.
    rho : float
        Weight of the augmented Lagrangian.
    over_relaxation : float
        Of the center.
    averaged : int
        Parties that divide the dual among them.

    Attributes
    ----------
    y, center, z : ndarray of shape (n,)
        The last two to be written in place.

    Raises
    ------
    InvalidParameterError
        rho is out of range.
    """

    cdef privlr_labels labels
    cdef int64_t block
    cdef readonly object y, center, z

    def __init__(self, const double[::1] y not None, *, int64_t block, double rho,
                 double over_relaxation, int averaged):
        cdef double[::1] view
        if not 1e-200 <= rho <= 1e300:
            raise InvalidParameterError("rho", "from 1e-200 to 1e300", rho)
        self.block, self.y = checked_block(block), y.base
        self.labels.y, self.labels.rho = &y[0], rho
        self.labels.over_relaxation, self.labels.averaged = over_relaxation, averaged
        self.center = view = np.zeros(y.shape[0])
        self.labels.center = &view[0]
        self.z = view = np.zeros(y.shape[0])
        self.labels.z = &view[0]

    def begin(self):
        """Set the sums of a round to zero."""
        self.labels.loss = self.labels.gap = self.labels.change = 0.0
        self.labels.total = self.labels.level = self.labels.dual = 0.0

    @property
    def sums(self):
        """Loss of the shares, and squared norms: of (sum of shares - z), of the change of z,
        of the sum of shares, of z, and of the dual over rho."""
        return (self.labels.loss, self.labels.gap, self.labels.change, self.labels.total,
                self.labels.level, self.labels.dual)

    def step(self, const double[::1] total not None):
        """Take the sum of all shares and return the message."""
        cdef int64_t first = 0, n = self.y.shape[0]
        cdef double[::1] message = np.empty(n)
        if total.shape[0] != n:
            raise ValueError("total has the wrong length")
        self.begin()
        with nogil:
            while first < n:
                privlr_labels_step(&self.labels, first, min(self.block, n - first),
                                   &total[first], &message[first])
                first += self.block
        return message.base


def exchange(list parties not None, list vectors not None, Labels labels not None):
    """Run the exchange of a round in one pass: product of every party, step, absorb.

    Parameters
    ----------
    parties : list of Columns
    vectors : list of ndarray
        What the matrix of each party is multiplied by.
    labels : Labels
    """
    cdef Py_ssize_t m = len(parties), k
    cdef int64_t n = labels.y.shape[0]
    cdef Columns party
    cdef privlr_columns **columns = <privlr_columns **>malloc(m * sizeof(void *))
    cdef const double **w = <const double **>malloc(m * sizeof(void *))
    try:
        if columns == NULL or w == NULL:
            raise MemoryError
        for k in range(m):
            party = parties[k]
            if party.columns.X.n_rows != n:
                raise ValueError("parties and labels must have the same rows")
            columns[k], w[k] = &party.columns, party.checked(vectors[k])
        labels.begin()
        with nogil:
            privlr_sharing_exchange(m, columns, w, &labels.labels, n, labels.block)
    finally:
        free(columns)
        free(w)
