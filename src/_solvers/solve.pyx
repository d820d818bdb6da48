# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Design matrices, the objective's passes and its minimiser."""

import threading

import numpy as np

from libc.math cimport fabs
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free, malloc

LOSSES = ("logistic", "capped")
NARROW = PRIVLR_NARROW
cdef enum:
    PACKED_MAX = 1 << 22  # doubles; a larger design is packed block by block in every pass

FORMS = {
    PRIVLR_CSR_CANONICAL: "canonical",
    PRIVLR_CSR_UNORDERED: "unordered",
    PRIVLR_CSR_BROKEN: "broken",
}
STATUS = {
    PRIVLR_OK: "converged",
    PRIVLR_MAX_ITER: "max_passes",
    PRIVLR_STALLED: "stalled",
    PRIVLR_NONFINITE: "nonfinite",
    PRIVLR_EXTREME: "extreme",
}


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
    cdef privlr_csr_form form
    cdef privlr_csr X
    if indptr.shape[0] < 1:
        return "broken"
    X.index_bits = 8 * sizeof(csr_index)
    X.indptr = &indptr[0]
    X.indices = &indices[0] if indices.shape[0] else NULL
    with nogil:
        form = privlr_csr_check(&X, indptr.shape[0] - 1, n_cols, indices.shape[0])
    return FORMS[form]


cdef bint exist(const int64_t[::1] places, int64_t size) noexcept:
    """Whether all of them are from 0 to size - 1."""
    cdef int64_t i
    cdef uint64_t largest = 0  # what is negative is larger than any
    for i in range(places.shape[0]):
        largest = max(largest, <uint64_t>places[i])
    return largest < <uint64_t>size


cdef class Design:
    """The rows of X as stored, with their clipping factors and a constant column.

    Parameters
    ----------
    X : ndarray of shape (n, d), or CSR triple (data, indices, indptr)
        float64 or float32; any strides. CSR indices are int32 or int64.
    shape : (int, int)
    intercept : float, default=0.0
        Value of the appended column; 0 for none.
    columns : ndarray of int64 or None
        Those of a dense X that a narrow design consists of, in this order; None: all.
    rows : ndarray of int64 or None
        Its rows, where it is given its columns.
    """

    def __init__(self, X, shape, double intercept=0.0, *, const int64_t[::1] rows=None,
                 const int64_t[::1] columns=None):
        cdef const double[:, :] dense64
        cdef const float[:, :] dense32
        cdef const double[::1] data64
        cdef const float[::1] data32
        cdef const int32_t[::1] index32
        cdef const int64_t[::1] index64
        self.owner = X
        self.row_scale = None
        self.n_threads = 1
        self.intercept = intercept
        self.X.n_rows, self.X.n_cols = shape
        self.X.intercept = intercept
        self.X.row_scale = NULL
        self.X.rows = NULL
        self.X.columns = NULL
        self.X.panels = NULL
        self.X.lengths = &self.lengths
        self.X.plain_blocks = 1
        if isinstance(X, tuple):
            data, indices, indptr = X
            self.X.n_entries = data.size
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
        self.X.n_entries = self.X.n_rows * self.X.n_cols
        if columns is not None:
            n_rows = X.shape[0] if rows is None else rows.shape[0]
            if shape != (n_rows, columns.shape[0]) or not self.is_narrow:
                raise ValueError("rows and columns must make up a narrow design of this shape")
            if not (exist(columns, X.shape[1]) and (rows is None or exist(rows, X.shape[0]))):
                raise ValueError("rows and columns must exist")
            self.columns = columns
            self.X.columns = &columns[0]
            if rows is not None:
                self.rows = rows
                self.X.rows = &rows[0]
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
        self.X.plain_blocks = privlr_design_plain_blocks(&self.X)

    cdef int64_t panel_size(self) noexcept:
        """Doubles that hold a narrow design, unless it is so large that passes pack it."""
        cdef int64_t size = (self.X.n_rows + 7) // 8 * 8 * privlr_design_width(&self.X)
        if not privlr_design_is_narrow(&self.X) or size > PACKED_MAX and self.X.rows == NULL:
            return 0
        return size

    cdef bint is_seen(self) noexcept:
        return self.lengths.n_rows == self.X.n_rows

    def longest(self):
        """Length of the longest row after clipping; infinite or NaN if one is not finite."""
        if not self.is_seen():
            scan([self])
        return self.lengths.longest

    @property
    def most(self):
        """Length up to which rows may be worked with, if they are not clipped."""
        return privlr_design_most(&self.X)

    @property
    def is_tall(self):
        """Whether passes over the rows find their lengths as they go."""
        return bool(privlr_design_is_tall(&self.X))

    @property
    def parts(self):
        """X as it was given."""
        return self.owner

    @property
    def is_narrow(self):
        """Whether its rows are so short that the kernels take them in panels of eight."""
        return bool(privlr_design_is_narrow(&self.X))

    @property
    def shape(self):
        return self.X.n_rows, self.X.n_cols

    @property
    def work(self):
        """Stored entries, of which a sparse one takes as long as four."""
        return self.X.n_entries * (4 if self.X.index_bits else 1)

    @property
    def width(self):
        """Number of coefficients: columns and the constant."""
        return privlr_design_width(&self.X)

    @property
    def block(self):
        """Rows that a pass sums up before it turns to compensated addition."""
        return privlr_design_block(&self.X)

    def dots(self, const double[::1] w):
        """The raw predictions, shape (n,)."""
        cdef int64_t first = 0, count, block = privlr_design_block(&self.X)
        padded = np.empty((self.X.n_rows + 7) // 8 * 8)
        cdef double[::1] out = padded
        cdef privlr_view view
        if w.shape[0] != privlr_design_width(&self.X):
            raise ValueError("w has the wrong length")
        cdef double *scratch = <double *>malloc(
            privlr_design_scratch(&self.X) * sizeof(double))
        if scratch == NULL:
            raise MemoryError
        with nogil:
            while first < self.X.n_rows:
                count = min(block, self.X.n_rows - first)
                view = privlr_design_view(&self.X, first, count, scratch)
                privlr_design_dots(&self.X, &view, &w[0], &out[first])
                first += count
            free(scratch)
        return padded[:self.X.n_rows]


cdef class Team:
    """Python threads that help one solve from its beginning to its end."""

    cdef privlr_team *team
    cdef list threads

    def __cinit__(self, int helpers):
        self.team = privlr_team_new(helpers)
        if self.team == NULL:
            raise MemoryError
        self.threads = [threading.Thread(target=self.help, daemon=True) for _ in range(helpers)]
        for thread in self.threads:
            thread.start()

    def __dealloc__(self):
        privlr_team_free(self.team)

    def help(self):
        """What a thread does."""
        with nogil:
            privlr_team_help(self.team)

    def dismiss(self):
        """Wait for the threads to end."""
        privlr_team_dismiss(self.team)
        for thread in self.threads:
            thread.join()


def scan(list designs, bounds=None):
    """Look at all rows once, and set their factors where there is a bound.

    Parameters
    ----------
    designs : list of Design
        Not yet looked at. Several must be narrow and cut from the same rows of one matrix,
        which is read once for all.
    bounds : sequence of float or None
        What no row of each design is to exceed in length.

    Returns
    -------
    list of str
        "converged", "nonfinite" or "extreme" for each; see ``design.h``.
    """
    cdef Design design, first = designs[0]
    cdef int64_t k, n = len(designs), total = 0, start
    cdef double[::1] view
    for design in designs:
        if design.is_seen() or n > 1 and not (
                design.is_narrow and design.owner is first.owner
                and design.X.rows == first.X.rows and design.X.n_rows == first.X.n_rows):
            raise ValueError("designs must be new, and several narrow and of the same rows")
        total += design.panel_size()
    # In one piece of memory, which the system gives in larger pages than it would many; it
    # begins with a cache line.
    panels = np.empty(total + 8)
    start = -(panels.ctypes.data // 8) % 8
    cdef int helpers = first.n_threads - 1
    cdef privlr_scan *scans = <privlr_scan *>malloc(
        n * (1 + PRIVLR_SCAN_PARTS) * sizeof(privlr_scan))
    cdef double *scratch = NULL
    cdef Team team = None
    cdef privlr_team *members = NULL
    try:
        if scans == NULL:
            raise MemoryError
        if helpers > 0:
            team = Team(helpers)
            members = team.team
        for k, design in enumerate(designs):
            scans[k].X = &design.X
            scans[k].bound = 0.0
            scans[k].scale_out = NULL
            if design.panel_size() > 0:
                design.packed = view = panels[start:start + design.panel_size()]
                design.X.panels = &view[0]
                start += view.shape[0]
            if bounds is not None:
                design.row_scale = view = np.empty(design.X.n_rows)
                scans[k].bound = bounds[k]
                scans[k].scale_out = &view[0]
        scratch = <double *>malloc(
            privlr_design_scan_scratch(scans, n, 1 + helpers) * sizeof(double))
        if scratch == NULL:
            raise MemoryError
        with nogil:
            privlr_design_scan(scans, n, members, scratch)
        for k, design in enumerate(designs):
            design.X.row_scale = scans[k].scale_out
            design.X.plain_blocks = scans[k].plain_blocks
            design.lengths = scans[k].lengths
        return [STATUS[scans[k].status] for k in range(n)]
    finally:
        if team is not None:
            team.dismiss()
        free(scans)
        free(scratch)


cdef extern from "Python.h":
    # cpython.exc declares it to raise at once, which only code with the lock may.
    int handle_signals "PyErr_CheckSignals"() noexcept


cdef int interrupted() noexcept nogil:
    """Let Python handle its signals; whether a handler raised."""
    with gil:
        return handle_signals() < 0


cdef int raise_from_handler() except -1:
    return -1  # the exception is set


def are_signs(const double[::1] y):
    """Whether all are -1 or +1."""
    cdef int64_t i, wrong = 0
    for i in range(y.shape[0]):
        wrong += fabs(y[i]) != 1.0
    return wrong == 0


cdef class Metric:
    """A factor of the Hessian that solves of one objective share; see ``metric.h``."""

    cdef privlr_metric metric

    @property
    def every(self):
        """Blocks of rows, of which the factor is made from one; 0 without a factor."""
        return self.metric.every

    def step(self, const double[::1] start, const double[::1] gradient):
        """Newton's step from a point, shape (n_outputs * width,); the point without a factor."""
        moved = np.array(gradient)
        cdef double[::1] view = moved
        cdef privlr_blas blas
        cdef int64_t j
        if start.shape[0] != self.metric.width or gradient.shape[0] != self.metric.width:
            raise ValueError("start and gradient must have an element a coefficient")
        if self.metric.every == 0:
            return np.array(start)
        blas_init(&blas)
        privlr_metric_solve(&self.metric, &blas, &view[0])
        for j in range(start.shape[0]):
            view[j] = start[j] - view[j]
        return moved

    def __dealloc__(self):
        privlr_metric_free(&self.metric)


cdef class Objective:
    """The objective of ``objective.h``: logistic loss, ridge, and a linear term.

    Parameters
    ----------
    design : Design
        Measured or clipped.
    y : ndarray of shape (n,), float64
        -1 and +1, or class indices where n_outputs > 1.
    ridge : float
    sample_weight : ndarray of shape (n,) or None
    offset : ndarray of shape (n * n_outputs,) or None
    prior_mean, linear : ndarray of shape (n_outputs * width,) or None
    loss : {"logistic", "capped"}
    n_outputs : int
        1, or the number of classes of the softmax loss.
    """

    cdef privlr_objective f
    cdef Design design
    cdef object arrays

    def __init__(self, Design design, const double[::1] y, *, double ridge,
                 const double[::1] sample_weight=None, const double[::1] offset=None,
                 const double[::1] prior_mean=None, const double[::1] linear=None,
                 str loss="logistic", int64_t n_outputs=1):
        cdef int64_t n = design.X.n_rows, size = n_outputs * privlr_design_width(&design.X)
        if y.shape[0] != n or (sample_weight is not None and sample_weight.shape[0] != n) or (
                offset is not None and offset.shape[0] != n * n_outputs):
            raise ValueError("y, sample_weight and offset must match the rows of the design")
        if (prior_mean is not None and prior_mean.shape[0] != size) or (
                linear is not None and linear.shape[0] != size):
            raise ValueError("prior_mean and linear must match the columns of the design")
        self.design = design
        self.arrays = (y, sample_weight, offset, prior_mean, linear)
        self.f.X = design.X
        self.f.y = &y[0]
        self.f.sample_weight = optional(sample_weight)
        self.f.offset = optional(offset)
        self.f.prior = optional(prior_mean)
        self.f.linear = optional(linear)
        self.f.loss = LOSSES.index(loss)
        self.f.n_outputs = n_outputs
        self.f.ridge = ridge

    def evaluate(self, const double[::1] w):
        """Value and gradient at w."""
        gradient = np.empty(w.shape[0])
        cdef double[::1] view = gradient
        cdef privlr_workspace work
        cdef privlr_pass found
        if w.shape[0] != privlr_objective_size(&self.f):
            raise ValueError("w has the wrong length")
        if privlr_workspace_init(&work, &self.f, NULL) != PRIVLR_OK:
            raise MemoryError
        with nogil:
            found = privlr_objective_evaluate(&self.f, &work, 1, PRIVLR_WITH_VALUE, &w[0], &view[0])
            privlr_workspace_free(&work)
        return found.value, gradient

    def minimize(self, *, double tolerance, double max_passes, const double[::1] start=None,
                 bint use_samples=True, bint use_metric=True, Metric metric=None):
        """Minimise from a point, or from the origin.

        Returns
        -------
        w : ndarray
        gradient_norm : float
            From a pass over all rows at exactly w.
        status : str
        passes : float
        """
        w = np.zeros(privlr_objective_size(&self.f))
        cdef double[::1] view = w
        cdef privlr_progress progress
        cdef privlr_status status
        cdef privlr_blas blas
        cdef privlr_options options
        cdef int helpers = self.design.n_threads - 1
        cdef Team team = Team(helpers) if helpers > 0 else None
        cdef privlr_team *members = NULL if team is None else team.team
        if start is not None:
            view[:] = start
        if metric is None:
            metric = Metric()
        if metric.metric.width == 0 and (
                privlr_metric_init(&metric.metric, &self.f) != PRIVLR_OK):
            raise MemoryError
        blas_init(&blas)
        options.tolerance = tolerance
        options.max_passes = max_passes
        options.use_samples = use_samples
        options.use_metric = use_metric
        options.interrupted = interrupted
        try:
            with nogil:
                status = privlr_minimize(&self.f, &blas, members, &options, &metric.metric,
                                         &view[0], &progress)
            if status == PRIVLR_INTERRUPTED:
                raise_from_handler()
        finally:
            if team is not None:
                team.dismiss()
        if status == PRIVLR_NO_MEMORY:
            raise MemoryError
        return w, progress.gradient_norm, STATUS[status], progress.passes

    def prepare(self, Metric metric, *, double tolerance, double max_passes):
        """Minimise, and leave the factor of the Hessian at the minimiser in the metric.

        Returns
        -------
        ndarray
            The minimiser.
        """
        cdef const double[::1] w = self.minimize(
            tolerance=tolerance, max_passes=max_passes, metric=metric)[0]
        cdef privlr_workspace work
        cdef privlr_blas blas
        cdef privlr_status status
        blas_init(&blas)
        if metric.metric.factor != NULL:
            if privlr_workspace_init(&work, &self.f, NULL) != PRIVLR_OK:
                raise MemoryError
            with nogil:
                status = privlr_metric_update(&metric.metric, &self.f, &blas, &work, 1, False,
                                              &w[0])
                privlr_workspace_free(&work)
            if status == PRIVLR_NO_MEMORY:
                raise MemoryError
        return np.asarray(w)
