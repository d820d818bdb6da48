/* The kernels that exist once per instruction set. Private to their
 * sources and dispatch.c; their meaning is in logistic.h, rows.h, chacha20.h and transform.h. */
#ifndef PRIVLR_KERNELS_H
#define PRIVLR_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "rows.h"

#define PRIVLR_DECLARE_KERNELS(variant)                                                            \
    double privlr_logistic_evaluate_##variant(size_t n, int loss, const double *raw_prediction,    \
                                              const double *y, const double *sample_weight,        \
                                              double *gradient_out, double *hessian_out);          \
    void privlr_logistic_slopes_##variant(size_t n, int loss, const double *raw_prediction,        \
                                          const double *y, const double *sample_weight,            \
                                          double *gradient_out, double *hessian_out);              \
    void privlr_logistic_prox_##variant(size_t n, double c, double rho, const double *y,           \
                                        const double *s, const double *a, double *z_out);          \
    void privlr_rows_dots_##variant(size_t rows, size_t length, const double *x, ptrdiff_t stride, \
                                    const double *w, int near, double *out);                       \
    void privlr_rows_sums_##variant(size_t rows, size_t length, const double *x, ptrdiff_t stride, \
                                    const double *c, const double *soon, double *out);             \
    void privlr_rows_squares_##variant(size_t rows, size_t length, const double *x,                \
                                       ptrdiff_t stride, double *out);                             \
    size_t privlr_rows_factors_##variant(size_t n, double most, double bound,                      \
                                         const double *square, double *length, double *factor);    \
    void privlr_rows_single_dots_##variant(size_t rows, size_t length, const float *x,             \
                                           ptrdiff_t stride, const double *w, int near,            \
                                           double *out);                                           \
    void privlr_rows_single_sums_##variant(size_t rows, size_t length, const float *x,             \
                                           ptrdiff_t stride, const double *c, const float *soon,   \
                                           double *out);                                           \
    void privlr_rows_single_squares_##variant(size_t rows, size_t length, const float *x,          \
                                              ptrdiff_t stride, double *out);                      \
    void privlr_panels_dots_##variant(size_t panels, size_t length, const double *p,               \
                                      const double *w, double *out);                               \
    void privlr_panels_cut_##variant(size_t panels, size_t length, const double *x,                \
                                     const int64_t *start, const int64_t *columns,                 \
                                     ptrdiff_t stride, size_t width, double *out);                 \
    void privlr_panels_single_cut_##variant(size_t panels, size_t length, const float *x,          \
                                            const int64_t *start, const int64_t *columns,          \
                                            ptrdiff_t stride, size_t width, double *out);          \
    void privlr_panels_scale_##variant(size_t panels, size_t length, const double *p,              \
                                       size_t width, double constant, const double *factor,        \
                                       int away, double *out);                                     \
    void privlr_panels_squares_##variant(size_t panels, size_t length, const double *p,            \
                                         size_t width, double constant, double *out);              \
    void privlr_panels_sums_##variant(size_t panels, size_t length, const double *p,               \
                                      const double *c, double *out);                               \
    void privlr_panels_outer_##variant(size_t panels, size_t length, const double *p,              \
                                       const double *h, double *upper);                            \
    void privlr_chacha20_blocks_##variant(const uint32_t key[8], uint64_t block, uint64_t *out);   \
    void privlr_uniform_map_##variant(size_t n, int field_bits, const uint64_t *word,              \
                                      double *uniform_out);                                        \
    void privlr_exponential_map_##variant(size_t n, const uint64_t *word, const double *uniform,   \
                                          double *out);                                            \
    void privlr_normal_map_##variant(size_t pairs, const uint64_t *radius_word,                    \
                                     const double *radius_uniform, const uint64_t *angle_word,     \
                                     const double *angle_uniform, double *out);

PRIVLR_DECLARE_KERNELS(baseline)
PRIVLR_DECLARE_KERNELS(x86_64_v3)
PRIVLR_DECLARE_KERNELS(x86_64_v4)

#endif
