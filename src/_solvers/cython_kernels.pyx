# cython: language_level=3
"""Typed functions that other Cython modules ``cimport``; see cython_kernels.pxd."""

from libc.stdint cimport int64_t, uint8_t


from privlr._solvers cimport loss as losses
from privlr._solvers cimport noise, prox
from privlr._solvers cimport solve as solves

__all__ = []  # all is for cimport


cdef double logistic_loss(size_t n, int loss_code, const double *raw_prediction, const double *y,
                          const double *sample_weight, double *gradient_out,
                          double *hessian_out) noexcept nogil:
    return losses.privlr_logistic_evaluate(n, loss_code, raw_prediction, y, sample_weight,
                                           gradient_out, hessian_out)


cdef int logistic_prox(size_t n, double c, double rho, const double *y, const double *s,
                       const double *a, double *z_out) noexcept nogil:
    return prox.privlr_logistic_prox(n, c, rho, y, s, a, z_out)


cdef int solve(int64_t n, int64_t d, const double *X, int64_t row_stride, int64_t col_stride,
               const double *y, const double *sample_weight, const double *offset,
               const double *prior, double ridge, int loss, double tolerance, double *coef_out,
               double *gradient_norm_out, double *passes_out) noexcept nogil:
    cdef solves.privlr_blas blas
    solves.blas_init(&blas)
    return solves.privlr_solve(&blas, n, d, X, row_stride, col_stride, y, sample_weight, offset,
                               prior, ridge, loss, tolerance, coef_out, gradient_norm_out,
                               passes_out)


cdef int noise_sphere(const uint8_t *key, size_t d, double rate, double *out,
                      double *radius_out) noexcept nogil:
    return noise.privlr_noise_sphere(key, d, rate, out, radius_out)


cdef int noise_discrete_laplace(const uint8_t *key, size_t n, int64_t scale,
                                int64_t *out) noexcept nogil:
    return noise.privlr_noise_discrete_laplace(key, n, scale, out)


cdef int noise_rounded_gaussian(const uint8_t *key, size_t n, double sigma, const double *mean,
                                double grid, double *out) noexcept nogil:
    return noise.privlr_noise_rounded_gaussian(key, n, sigma, mean, grid, out)
