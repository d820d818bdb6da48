/* Chooses the instruction set of the kernels that meson compiles for several.
 *
 * On x86-64 the choice is made once, by a constructor: the loader runs it before any
 * thread can call in, so nothing here is written while others read it. The
 * environment variable PRIVLR_SIMD lowers the choice; it cannot name what the
 * processor lacks. Other processors have one variant and nothing to choose.
 */
#include "chacha20.h"
#include "kernels.h"
#include "logistic.h"
#include "rows.h"
#include "transform.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *name;
    double (*evaluate)(size_t, int, const double *, const double *, const double *, double *,
                       double *);
    void (*slopes)(size_t, int, const double *, const double *, const double *, double *, double *);
    void (*prox)(size_t, double, double, const double *, const double *, const double *, double *);
    void (*dots)(size_t, size_t, const double *, ptrdiff_t, const double *, int, double *);
    void (*sums)(size_t, size_t, const double *, ptrdiff_t, const double *, const double *,
                 double *);
    void (*squares)(size_t, size_t, const double *, ptrdiff_t, double *);
    size_t (*factors)(size_t, double, double, const double *, double *, double *);
    void (*single_dots)(size_t, size_t, const float *, ptrdiff_t, const double *, int, double *);
    void (*single_sums)(size_t, size_t, const float *, ptrdiff_t, const double *, const float *,
                        double *);
    void (*single_squares)(size_t, size_t, const float *, ptrdiff_t, double *);
    void (*panels_dots)(size_t, size_t, const double *, const double *, double *);
    void (*panels_cut)(size_t, size_t, const double *, const int64_t *, const int64_t *, ptrdiff_t,
                       size_t, double *);
    void (*panels_single_cut)(size_t, size_t, const float *, const int64_t *, const int64_t *,
                              ptrdiff_t, size_t, double *);
    void (*panels_scale)(size_t, size_t, const double *, size_t, double, const double *, int,
                         double *);
    void (*panels_squares)(size_t, size_t, const double *, size_t, double, double *);
    void (*panels_sums)(size_t, size_t, const double *, const double *, double *);
    void (*panels_outer)(size_t, size_t, const double *, const double *, double *);
    void (*chacha20_blocks)(const uint32_t *, uint64_t, uint64_t *);
    void (*uniform_map)(size_t, int, const uint64_t *, double *);
    void (*exponential_map)(size_t, const uint64_t *, const double *, double *);
    void (*normal_map)(size_t, const uint64_t *, const double *, const uint64_t *, const double *,
                       double *);
} kernel_set;

#define KERNEL_SET(name, variant)                                                                  \
    {name,                                                                                         \
     privlr_logistic_evaluate_##variant,                                                           \
     privlr_logistic_slopes_##variant,                                                             \
     privlr_logistic_prox_##variant,                                                               \
     privlr_rows_dots_##variant,                                                                   \
     privlr_rows_sums_##variant,                                                                   \
     privlr_rows_squares_##variant,                                                                \
     privlr_rows_factors_##variant,                                                                \
     privlr_rows_single_dots_##variant,                                                            \
     privlr_rows_single_sums_##variant,                                                            \
     privlr_rows_single_squares_##variant,                                                         \
     privlr_panels_dots_##variant,                                                                 \
     privlr_panels_cut_##variant,                                                                  \
     privlr_panels_single_cut_##variant,                                                           \
     privlr_panels_scale_##variant,                                                                \
     privlr_panels_squares_##variant,                                                              \
     privlr_panels_sums_##variant,                                                                 \
     privlr_panels_outer_##variant,                                                                \
     privlr_chacha20_blocks_##variant,                                                             \
     privlr_uniform_map_##variant,                                                                 \
     privlr_exponential_map_##variant,                                                             \
     privlr_normal_map_##variant}

#ifdef PRIVLR_X86_VARIANTS

static const kernel_set variants[] = {
    KERNEL_SET("baseline", baseline),
    KERNEL_SET("x86-64-v3", x86_64_v3),
    KERNEL_SET("x86-64-v4", x86_64_v4),
};
static const kernel_set *chosen = &variants[0];

__attribute__((constructor)) static void choose_variant(void) {
    __builtin_cpu_init();
    int best = 0;
    if (__builtin_cpu_supports("x86-64-v3"))
        best = 1;
    if (__builtin_cpu_supports("x86-64-v4"))
        best = 2;

    const char *wanted = getenv("PRIVLR_SIMD");
    for (int i = 0; wanted && i < best; i++)
        if (strcmp(wanted, variants[i].name) == 0)
            best = i;
    chosen = &variants[best];
}

#else

static const kernel_set only = KERNEL_SET("baseline", baseline);
static const kernel_set *const chosen = &only;

#endif

double privlr_logistic_evaluate(size_t n, int loss, const double *raw_prediction, const double *y,
                                const double *sample_weight, double *gradient_out,
                                double *hessian_out) {
    return chosen->evaluate(n, loss, raw_prediction, y, sample_weight, gradient_out, hessian_out);
}

void privlr_logistic_slopes(size_t n, int loss, const double *raw_prediction, const double *y,
                            const double *sample_weight, double *gradient_out,
                            double *hessian_out) {
    chosen->slopes(n, loss, raw_prediction, y, sample_weight, gradient_out, hessian_out);
}

int privlr_logistic_prox(size_t n, double c, double rho, const double *y, const double *s,
                         const double *a, double *z_out) {
    if (!(c >= 0.0 && c / rho <= 1e200 && rho >= 1e-300 && rho <= DBL_MAX))
        return -1;
    chosen->prox(n, c, rho, y, s, a, z_out);
    return 0;
}

void privlr_rows_dots(size_t rows, size_t length, const double *x, ptrdiff_t stride,
                      const double *w, int near, double *out) {
    chosen->dots(rows, length, x, stride, w, near, out);
}

void privlr_rows_sums(size_t rows, size_t length, const double *x, ptrdiff_t stride,
                      const double *c, const double *soon, double *out) {
    chosen->sums(rows, length, x, stride, c, soon, out);
}

void privlr_rows_squares(size_t rows, size_t length, const double *x, ptrdiff_t stride,
                         double *out) {
    chosen->squares(rows, length, x, stride, out);
}

size_t privlr_rows_factors(size_t n, double most, double bound, const double *square,
                           double *length, double *factor) {
    return chosen->factors(n, most, bound, square, length, factor);
}

void privlr_rows_single_dots(size_t rows, size_t length, const float *x, ptrdiff_t stride,
                             const double *w, int near, double *out) {
    chosen->single_dots(rows, length, x, stride, w, near, out);
}

void privlr_rows_single_sums(size_t rows, size_t length, const float *x, ptrdiff_t stride,
                             const double *c, const float *soon, double *out) {
    chosen->single_sums(rows, length, x, stride, c, soon, out);
}

void privlr_rows_single_squares(size_t rows, size_t length, const float *x, ptrdiff_t stride,
                                double *out) {
    chosen->single_squares(rows, length, x, stride, out);
}

void privlr_panels_dots(size_t panels, size_t length, const double *p, const double *w,
                        double *out) {
    chosen->panels_dots(panels, length, p, w, out);
}

void privlr_panels_cut(size_t panels, size_t length, const double *x, const int64_t *start,
                       const int64_t *columns, ptrdiff_t stride, size_t width, double *out) {
    chosen->panels_cut(panels, length, x, start, columns, stride, width, out);
}

void privlr_panels_single_cut(size_t panels, size_t length, const float *x, const int64_t *start,
                              const int64_t *columns, ptrdiff_t stride, size_t width, double *out) {
    chosen->panels_single_cut(panels, length, x, start, columns, stride, width, out);
}

void privlr_panels_scale(size_t panels, size_t length, const double *p, size_t width,
                         double constant, const double *factor, int away, double *out) {
    chosen->panels_scale(panels, length, p, width, constant, factor, away, out);
}

void privlr_panels_squares(size_t panels, size_t length, const double *p, size_t width,
                           double constant, double *out) {
    chosen->panels_squares(panels, length, p, width, constant, out);
}

void privlr_panels_sums(size_t panels, size_t length, const double *p, const double *c,
                        double *out) {
    chosen->panels_sums(panels, length, p, c, out);
}

void privlr_panels_outer(size_t panels, size_t length, const double *p, const double *h,
                         double *upper) {
    chosen->panels_outer(panels, length, p, h, upper);
}

void privlr_chacha20_blocks(const uint32_t key[8], uint64_t block, uint64_t *out) {
    chosen->chacha20_blocks(key, block, out);
}

void privlr_uniform_map(size_t n, int field_bits, const uint64_t *word, double *uniform_out) {
    chosen->uniform_map(n, field_bits, word, uniform_out);
}

void privlr_exponential_map(size_t n, const uint64_t *word, const double *uniform, double *out) {
    chosen->exponential_map(n, word, uniform, out);
}

void privlr_normal_map(size_t pairs, const uint64_t *radius_word, const double *radius_uniform,
                       const uint64_t *angle_word, const double *angle_uniform, double *out) {
    chosen->normal_map(pairs, radius_word, radius_uniform, angle_word, angle_uniform, out);
}

const char *privlr_simd_level(void) {
    return chosen->name;
}
