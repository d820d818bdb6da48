from libc.stdint cimport int64_t
from scipy.linalg.cython_blas cimport dsyrk, dtrsv, ssyrk
from scipy.linalg.cython_lapack cimport dpotrf


cdef extern from "csr.h" nogil:
    ctypedef enum privlr_csr_form:
        PRIVLR_CSR_CANONICAL
        PRIVLR_CSR_UNORDERED
        PRIVLR_CSR_BROKEN

    ctypedef struct privlr_csr:
        const void *indices
        const void *indptr
        int index_bits

    privlr_csr_form privlr_csr_check(const privlr_csr *X, int64_t n_rows, int64_t n_cols,
                                     int64_t stored)


cdef extern from "minimize.h" nogil:
    ctypedef enum privlr_status:
        PRIVLR_OK
        PRIVLR_NO_MEMORY
        PRIVLR_MAX_ITER
        PRIVLR_STALLED
        PRIVLR_NONFINITE
        PRIVLR_EXTREME
        PRIVLR_INVALID
        PRIVLR_INTERRUPTED

    ctypedef struct privlr_lengths:
        int64_t n_rows
        double longest

    ctypedef struct privlr_design:
        int64_t n_rows
        int64_t n_cols
        const void *values
        int is_float32
        int64_t row_stride
        int64_t col_stride
        const int64_t *rows
        const int64_t *columns
        const void *indices
        const void *indptr
        int index_bits
        int64_t n_entries
        const double *row_scale
        double intercept
        double *panels
        privlr_lengths *lengths
        int64_t plain_blocks

    ctypedef struct privlr_view:
        int64_t first

    enum: PRIVLR_NARROW

    int64_t privlr_design_width(const privlr_design *X)
    int privlr_design_is_narrow(const privlr_design *X)
    int privlr_design_is_tall(const privlr_design *X)
    double privlr_design_most(const privlr_design *X)
    int64_t privlr_design_plain_blocks(const privlr_design *X)
    int64_t privlr_design_block(const privlr_design *X)
    size_t privlr_design_scratch(const privlr_design *X)
    privlr_view privlr_design_view(const privlr_design *X, int64_t first, int64_t count,
                                   double *scratch)
    void privlr_design_dots(const privlr_design *X, const privlr_view *view, const double *w,
                            double *out)
    ctypedef struct privlr_team:
        pass

    privlr_team *privlr_team_new(int helpers)
    void privlr_team_free(privlr_team *team)
    void privlr_team_help(privlr_team *team)
    void privlr_team_dismiss(privlr_team *team)

    ctypedef struct privlr_objective:
        privlr_design X
        const double *y
        const double *sample_weight
        const double *offset
        const double *prior
        const double *linear
        int loss
        int64_t n_outputs
        double ridge

    ctypedef struct privlr_workspace:
        double *memory

    cdef enum:
        PRIVLR_WITH_VALUE

    ctypedef struct privlr_pass:
        double value

    int64_t privlr_objective_size(const privlr_objective *f)
    privlr_status privlr_workspace_init(privlr_workspace *work, const privlr_objective *f,
                                        privlr_team *team)
    void privlr_workspace_free(privlr_workspace *work)
    privlr_pass privlr_objective_evaluate(const privlr_objective *f, privlr_workspace *work,
                                          int64_t every, int with_, const double *w,
                                          double *gradient_out)

    ctypedef struct privlr_blas:
        void *dsyrk
        void *ssyrk
        void *potrf
        void *trsv

    ctypedef struct privlr_metric:
        int64_t width
        int64_t every
        double *factor

    privlr_status privlr_metric_init(privlr_metric *metric, const privlr_objective *f)
    void privlr_metric_free(privlr_metric *metric)
    privlr_status privlr_metric_update(privlr_metric *metric, const privlr_objective *f,
                                       const privlr_blas *blas, privlr_workspace *work,
                                       int64_t every, int precise, const double *w)
    void privlr_metric_solve(const privlr_metric *metric, const privlr_blas *blas, double *v)

    ctypedef struct privlr_options:
        double tolerance
        double max_passes
        int use_samples
        int use_metric
        int (*interrupted)() noexcept nogil

    ctypedef struct privlr_progress:
        double gradient_norm
        double passes

    privlr_status privlr_minimize(const privlr_objective *f, const privlr_blas *blas,
                                  privlr_team *team, const privlr_options *options,
                                  privlr_metric *metric, double *w, privlr_progress *progress)


cdef extern from "scan.h" nogil:
    cdef enum:
        PRIVLR_SCAN_PARTS

    ctypedef struct privlr_scan:
        const privlr_design *X
        double bound
        double *scale_out
        privlr_status status
        privlr_lengths lengths
        int64_t plain_blocks

    size_t privlr_design_scan_scratch(const privlr_scan *scans, int64_t n_scans, int64_t members)
    void privlr_design_scan(privlr_scan *scans, int64_t n_scans, privlr_team *team,
                            double *scratch)


cdef extern from "solve.h" nogil:
    privlr_status privlr_solve(
        const privlr_blas *blas, int64_t n, int64_t d, const double *X, int64_t row_stride,
        int64_t col_stride, const double *y, const double *sample_weight, const double *offset,
        const double *prior, double ridge, int loss, double tolerance, double *coef_out,
        double *gradient_norm_out, double *passes_out) noexcept


cdef inline void blas_init(privlr_blas *blas) noexcept nogil:
    """SciPy's routines."""
    blas.dsyrk = <void *>dsyrk
    blas.ssyrk = <void *>ssyrk
    blas.potrf = <void *>dpotrf
    blas.trsv = <void *>dtrsv


cdef class Design:
    cdef privlr_design X
    cdef object owner, packed
    cdef const int64_t[::1] rows, columns
    cdef readonly object row_scale
    cdef readonly double intercept
    cdef public int n_threads
    cdef privlr_lengths lengths
    cdef bint is_seen(self) noexcept
    cdef int64_t panel_size(self) noexcept
