# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Design matrices, the objective's passes and its minimisers."""

import numpy as np

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from scipy.linalg.cython_blas cimport dsyrk
from scipy.linalg.cython_lapack cimport dpotrf, dpotrs

LOSSES = ("logistic", "capped")
STATUS = {
    PRIVLR_OK: "converged",
    PRIVLR_MAX_ITER: "max_passes",
    PRIVLR_STALLED: "stalled",
    PRIVLR_NONFINITE: "nonfinite",
    PRIVLR_EXTREME: "extreme",
}


cdef void blas_init(privlr_blas *blas) noexcept:
    blas.syrk = <void *>dsyrk
    blas.potrf = <void *>dpotrf
    blas.potrs = <void *>dpotrs


cdef const double *optional(const double[::1] values) noexcept:
    return NULL if values is None else &values[0]


ctypedef fused csr_index:
    int32_t
    int64_t


def csr_form(const csr_index[::1] indices, const csr_index[::1] indptr, int64_t n_cols):
    """Tell how the structure of a CSR matrix may be used, whatever flags it carries.

    Returns
    -------
    str
        "canonical": sorted and unique indices in every row; "unordered"; or "broken":
        walking it would leave its arrays or its columns.
    """
    cdef int64_t i, k, stored = indices.shape[0], n = indptr.shape[0] - 1
    cdef bint broken, unordered = False
    with nogil:
        broken = n < 0 or indptr[0] != 0 or indptr[n] > stored
        i = 0
        while i < n and not broken:
            broken = indptr[i + 1] < indptr[i] or indptr[i + 1] > stored
            k = indptr[i]
            while not broken and k < indptr[i + 1]:
                broken = indices[k] < 0 or indices[k] >= n_cols
                if k > indptr[i] and indices[k] <= indices[k - 1]:
                    unordered = True
                k += 1
            i += 1
    return "broken" if broken else "unordered" if unordered else "canonical"


cdef class Design:
    """The rows of X as stored, with their clipping factors and a constant column.

    Parameters
    ----------
    X : ndarray of shape (n, d), or CSR triple (data, indices, indptr)
        float64 or float32; any strides. CSR indices are int32 or int64.
    shape : (int, int)
    intercept : float, default=0.0
        Value of the appended column; 0 for none.
    """

    def __init__(self, X, shape, double intercept=0.0):
        cdef const double[:, :] dense64
        cdef const float[:, :] dense32
        cdef const double[::1] data64
        cdef const float[::1] data32
        cdef const int32_t[::1] index32
        cdef const int64_t[::1] index64
        self.owner = X
        self.row_scale = None
        self.intercept = intercept
        self.X.n_rows, self.X.n_cols = shape
        self.X.intercept = intercept
        self.X.row_scale = NULL
        if isinstance(X, tuple):
            data, indices, indptr = X
            self.X.is_float32 = data.dtype == np.float32
            if data.size:
                if self.X.is_float32:
                    data32 = data
                    self.X.values = &data32[0]
                else:
                    data64 = data
                    self.X.values = &data64[0]
            if indptr.dtype == np.int32:
                self.X.index_bits = 32
                index32 = indptr
                self.X.indptr = &index32[0]
                if data.size:
                    index32 = indices
                    self.X.indices = &index32[0]
            else:
                self.X.index_bits = 64
                index64 = indptr
                self.X.indptr = &index64[0]
                if data.size:
                    index64 = indices
                    self.X.indices = &index64[0]
            return
        self.X.index_bits = 0
        self.X.is_float32 = X.dtype == np.float32
        if self.X.is_float32:
            dense32 = X
            self.X.values = &dense32[0, 0]
        else:
            dense64 = X
            self.X.values = &dense64[0, 0]
        # A dimension of length one has no stride of its own.
        self.X.row_stride = X.strides[0] // X.itemsize if X.shape[0] > 1 else X.shape[1]
        self.X.col_stride = X.strides[1] // X.itemsize if X.shape[1] > 1 else 1

    @property
    def shape(self):
        return self.X.n_rows, self.X.n_cols

    @property
    def width(self):
        """Number of coefficients: columns and the constant."""
        return privlr_design_width(&self.X)

    @property
    def block(self):
        """Rows that a pass sums up before it turns to compensated addition."""
        return privlr_design_block(&self.X)

    def clip(self, double bound):
        """Set the row factors so that no row is longer than `bound`.

        Returns
        -------
        status : str
            "converged", "nonfinite" or "extreme"; see ``design.h``.
        row : int
            The first row that holds a NaN or an infinity, else -1.
        """
        scale = np.empty(self.X.n_rows)
        cdef double[::1] view = scale
        cdef int64_t row = -1
        cdef privlr_status status
        with nogil:
            status = privlr_design_clip(&self.X, bound, &view[0], &row)
        self.row_scale = scale
        self.X.row_scale = &view[0]
        return STATUS[status], row

    def longest(self):
        """Length of the longest row after clipping; infinite or NaN if one is not finite."""
        cdef double length
        with nogil:
            length = privlr_design_longest(&self.X)
        return length

    def dots(self, const double[::1] w):
        """The raw predictions, shape (n,)."""
        out = np.empty(self.X.n_rows)
        cdef double[::1] view = out
        cdef int64_t first = 0, count, block = privlr_design_block(&self.X)
        if w.shape[0] != privlr_design_width(&self.X):
            raise ValueError("w has the wrong length")
        cdef double *scratch = <double *>malloc(
            privlr_design_scratch(&self.X) * sizeof(double))
        if scratch == NULL:
            raise MemoryError
        with nogil:
            while first < self.X.n_rows:
                count = min(block, self.X.n_rows - first)
                privlr_design_dots(&self.X, first, count, &w[0], scratch, &view[first])
                first += count
        free(scratch)
        return out


cdef class Objective:
    """sum_i weight_i phi(offset_i + a_i . w, y_i) + ridge/2 ||w||^2 as in ``objective.h``.

    Parameters
    ----------
    design : Design
    y : ndarray of shape (n,), float64
        -1 and +1, or class indices where n_outputs > 1.
    sample_weight : ndarray of shape (n,) or None
    offset : ndarray of shape (n * n_outputs,) or None
    loss : {"logistic", "capped"}
    n_outputs : int
        1, or the number of classes of the softmax loss.
    ridge : float
    """

    cdef privlr_objective f
    cdef Design design
    cdef object arrays

    def __init__(self, Design design, const double[::1] y, *, double ridge,
                 const double[::1] sample_weight=None, const double[::1] offset=None,
                 loss="logistic", int64_t n_outputs=1):
        cdef int64_t n = design.X.n_rows
        if y.shape[0] != n or (sample_weight is not None and sample_weight.shape[0] != n) or (
                offset is not None and offset.shape[0] != n * n_outputs):
            raise ValueError("y, sample_weight and offset must match the rows of the design")
        self.design = design
        self.arrays = (y, sample_weight, offset)
        self.f.X = design.X
        self.f.y = &y[0]
        self.f.sample_weight = optional(sample_weight)
        self.f.offset = optional(offset)
        self.f.loss = LOSSES.index(loss)
        self.f.n_outputs = n_outputs
        self.f.ridge = ridge

    def evaluate(self, const double[::1] w):
        """Value and gradient at w."""
        gradient = np.empty(w.shape[0])
        cdef double[::1] view = gradient
        cdef privlr_workspace work
        cdef double value
        if w.shape[0] != self.design.width * self.f.n_outputs:
            raise ValueError("w has the wrong length")
        if privlr_workspace_init(&work, &self.f, 0) != PRIVLR_OK:
            raise MemoryError
        with nogil:
            value = privlr_objective_evaluate(&self.f, NULL, &work, &w[0], &view[0], NULL)
            privlr_workspace_free(&work)
        return value, gradient

    def minimize(self, method, *, double tolerance, int max_passes):
        """Minimise from the origin.

        Returns
        -------
        w : ndarray
        status : str
        gradient_norm : float
        passes : int
        """
        w = np.zeros(self.design.width * self.f.n_outputs)
        cdef double[::1] view = w
        cdef bint newton = method == "newton"
        cdef privlr_progress progress
        cdef privlr_status status
        cdef privlr_blas blas
        if newton and self.f.n_outputs > 1:
            raise ValueError("Newton's method is for one output")
        blas_init(&blas)
        with nogil:
            if newton:
                status = privlr_newton(&self.f, &blas, tolerance, max_passes, &view[0], &progress)
            else:
                status = privlr_lbfgs(&self.f, &blas, tolerance, max_passes, &view[0], &progress)
        if status == PRIVLR_NO_MEMORY:
            raise MemoryError
        return w, STATUS[status], progress.gradient_norm, progress.passes
