# Typed functions for other Cython modules: `from privlr.cython_kernels cimport ...`.
#
# None needs the GIL, and none raises: a status is returned, 0 for success; the numbers and
# what each function promises are those of the C header (privlr.get_include()).
from libc.stdint cimport int64_t, uint8_t

# loss: 0 logistic, 1 capped. Returns the sum of losses; each pointer but raw_prediction and
# y may be NULL.
cdef double logistic_loss(size_t n, int loss, const double *raw_prediction, const double *y,
                          const double *sample_weight, double *gradient_out,
                          double *hessian_out) noexcept nogil
# argmin_z c log(1 + exp(-y z)) - a z + rho/2 (s - z)^2, element by element
cdef int logistic_prox(size_t n, double c, double rho, const double *y, const double *s,
                       const double *a, double *z_out) noexcept nogil

# argmin_w sum_i sample_weight_i phi(offset_i + x_i . w) + ridge/2 ||w - prior||^2 over n x d
# dense rows, strides in elements, with SciPy's BLAS. All arguments are those of privlr/solve.h;
# 0: the gradient's norm is at most the tolerance.
cdef int solve(int64_t n, int64_t d, const double *X, int64_t row_stride, int64_t col_stride,
               const double *y, const double *sample_weight, const double *offset,
               const double *prior, double ridge, int loss, double tolerance, double *coef_out,
               double *gradient_norm_out, double *passes_out) noexcept nogil

# key: 32 bytes, or NULL for the system's generator (a given key repeats its noise, which then
# carries no privacy)
cdef int noise_sphere(const uint8_t *key, size_t d, double rate, double *out,
                      double *radius_out) noexcept nogil
cdef int noise_discrete_laplace(const uint8_t *key, size_t n, int64_t scale,
                                int64_t *out) noexcept nogil
cdef int noise_rounded_gaussian(const uint8_t *key, size_t n, double sigma, const double *mean,
                                double grid, double *out) noexcept nogil
