cdef extern from "logistic.h" nogil:
    int PRIVLR_LOSS_LOGISTIC
    int PRIVLR_LOSS_CAPPED

    double privlr_logistic_evaluate(
        size_t n, int loss, const double *raw_prediction, const double *y,
        const double *sample_weight, double *gradient_out, double *hessian_out) noexcept
    const char *privlr_simd_level() noexcept

cdef int loss_code(str name) except -1
