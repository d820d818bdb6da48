cdef extern from "logistic.h" nogil:
    int privlr_logistic_prox(
        size_t n, double c, double rho, const double *y, const double *s,
        const double *a, double *z_out) noexcept
