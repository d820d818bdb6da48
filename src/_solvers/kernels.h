/* The kernels that exist once per instruction set. Private to logistic.c,
 * logistic_prox.c, rows.c and dispatch.c; their meaning is in logistic.h and rows.h. */
#ifndef PRIVLR_KERNELS_H
#define PRIVLR_KERNELS_H

#include <stddef.h>

#define PRIVLR_DECLARE_KERNELS(variant)                                                            \
    double privlr_logistic_evaluate_##variant(size_t n, int loss, const double *raw_prediction,    \
                                              const double *y, const double *sample_weight,        \
                                              double *gradient_out, double *hessian_out);          \
    void privlr_logistic_prox_##variant(size_t n, double c, double rho, const double *y,           \
                                        const double *s, const double *a, double *z_out);          \
    void privlr_rows_dots_##variant(size_t rows, size_t length, const double *x, ptrdiff_t stride, \
                                    const double *w, double *out);                                 \
    void privlr_rows_sums_##variant(size_t rows, size_t length, const double *x, ptrdiff_t stride, \
                                    const double *c, double *out);

PRIVLR_DECLARE_KERNELS(baseline)
PRIVLR_DECLARE_KERNELS(x86_64_v3)
PRIVLR_DECLARE_KERNELS(x86_64_v4)

#endif
