from libc.stdint cimport int64_t


cdef extern from "minimize.h" nogil:
    ctypedef enum privlr_status:
        PRIVLR_OK
        PRIVLR_NO_MEMORY
        PRIVLR_MAX_ITER
        PRIVLR_STALLED
        PRIVLR_NONFINITE
        PRIVLR_EXTREME

    ctypedef struct privlr_design:
        int64_t n_rows
        int64_t n_cols
        const void *values
        int is_float32
        int64_t row_stride
        int64_t col_stride
        const void *indices
        const void *indptr
        int index_bits
        const double *row_scale
        double intercept

    ctypedef struct privlr_blas:
        void *syrk
        void *potrf
        void *potrs

    ctypedef struct privlr_objective:
        privlr_design X
        const double *y
        const double *sample_weight
        const double *offset
        int loss
        int64_t n_outputs
        double ridge

    ctypedef struct privlr_workspace:
        double *scratch

    ctypedef struct privlr_progress:
        double gradient_norm
        int passes

    int64_t privlr_design_width(const privlr_design *X)
    int64_t privlr_design_block(const privlr_design *X)
    size_t privlr_design_scratch(const privlr_design *X)
    void privlr_design_dots(const privlr_design *X, int64_t first, int64_t count,
                            const double *w, double *scratch, double *out)
    privlr_status privlr_design_clip(const privlr_design *X, double bound,
                                     double *scale_out, int64_t *row)
    double privlr_design_longest(const privlr_design *X)

    privlr_status privlr_workspace_init(privlr_workspace *work, const privlr_objective *f,
                                        int with_hessian)
    void privlr_workspace_free(privlr_workspace *work)
    double privlr_objective_evaluate(const privlr_objective *f, const privlr_blas *blas,
                                     privlr_workspace *work, const double *w,
                                     double *gradient_out, double *hessian_out)
    privlr_status privlr_newton(const privlr_objective *f, const privlr_blas *blas,
                                double tolerance, int max_passes, double *w,
                                privlr_progress *progress)
    privlr_status privlr_lbfgs(const privlr_objective *f, const privlr_blas *blas,
                               double tolerance, int max_passes, double *w,
                               privlr_progress *progress)


cdef class Design:
    cdef privlr_design X
    cdef object owner
    cdef readonly object row_scale
    cdef readonly double intercept
