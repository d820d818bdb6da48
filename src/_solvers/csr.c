#include "csr.h"

#include <string.h>

/* The loops, once for each type of entry and index. Four sums of a row run side by side:
 * one alone would wait for every addition. */
#define DEFINE_KERNELS(suffix, value_t, index_t)                                                   \
    static void dots_##suffix(const privlr_csr *X, int64_t first, int64_t count,                   \
                              const double *restrict w, double *restrict out) {                    \
        const value_t *restrict x = X->values;                                                     \
        const index_t *restrict column = X->indices, *start = (const index_t *)X->indptr + first;  \
        for (int64_t i = 0; i < count; i++) {                                                      \
            const int64_t end = (int64_t)start[i + 1];                                             \
            int64_t k = (int64_t)start[i];                                                         \
            double a = 0.0, b = 0.0, c = 0.0, d = 0.0;                                             \
            for (; k + 4 <= end; k += 4) {                                                         \
                a += (double)x[k] * w[column[k]];                                                  \
                b += (double)x[k + 1] * w[column[k + 1]];                                          \
                c += (double)x[k + 2] * w[column[k + 2]];                                          \
                d += (double)x[k + 3] * w[column[k + 3]];                                          \
            }                                                                                      \
            for (; k < end; k++)                                                                   \
                a += (double)x[k] * w[column[k]];                                                  \
            out[i] = (a + c) + (b + d);                                                            \
        }                                                                                          \
    }                                                                                              \
    static void sums_##suffix(const privlr_csr *X, int64_t first, int64_t count,                   \
                              const double *restrict c, double *restrict out) {                    \
        const value_t *restrict x = X->values;                                                     \
        const index_t *restrict column = X->indices, *start = (const index_t *)X->indptr + first;  \
        for (int64_t i = 0; i < count; i++)                                                        \
            for (int64_t k = (int64_t)start[i]; k < (int64_t)start[i + 1]; k++)                    \
                out[column[k]] += c[i] * (double)x[k];                                             \
    }                                                                                              \
    static void squares_##suffix(const privlr_csr *X, int64_t first, int64_t count, double *out) { \
        const value_t *x = X->values;                                                              \
        const index_t *start = (const index_t *)X->indptr + first;                                 \
        for (int64_t i = 0; i < count; i++)                                                        \
            for (int64_t k = (int64_t)start[i]; k < (int64_t)start[i + 1]; k++)                    \
                out[i] += (double)x[k] * (double)x[k];                                             \
    }                                                                                              \
    /* Columns of a row ascend, so the pairs below the diagonal come first. */                     \
    static void outer_##suffix(const privlr_csr *X, int64_t first, int64_t count, int64_t width,   \
                               const double *h, double *restrict upper) {                          \
        const value_t *restrict x = X->values;                                                     \
        const index_t *restrict column = X->indices, *start = (const index_t *)X->indptr + first;  \
        for (int64_t i = 0; i < count; i++)                                                        \
            for (int64_t k = (int64_t)start[i]; k < (int64_t)start[i + 1]; k++) {                  \
                double *restrict above = upper + (int64_t)column[k] * width;                       \
                const double hx = h[i] * (double)x[k];                                             \
                for (int64_t l = (int64_t)start[i]; l <= k; l++)                                   \
                    above[column[l]] += hx * (double)x[l];                                         \
            }                                                                                      \
    }                                                                                              \
    static void count_##suffix(const privlr_csr *X, int64_t entries, int64_t *counts) {            \
        for (int64_t k = 0; k < entries; k++)                                                      \
            counts[((const index_t *)X->indices)[k]]++;                                            \
    }

DEFINE_KERNELS(f64_i32, double, int32_t)
DEFINE_KERNELS(f64_i64, double, int64_t)
DEFINE_KERNELS(f32_i32, float, int32_t)
DEFINE_KERNELS(f32_i64, float, int64_t)

#define CALL(name, X, ...)                                                                         \
    do {                                                                                           \
        if ((X)->is_float32 && (X)->index_bits == 32)                                              \
            name##_f32_i32(X, __VA_ARGS__);                                                        \
        else if ((X)->is_float32)                                                                  \
            name##_f32_i64(X, __VA_ARGS__);                                                        \
        else if ((X)->index_bits == 32)                                                            \
            name##_f64_i32(X, __VA_ARGS__);                                                        \
        else                                                                                       \
            name##_f64_i64(X, __VA_ARGS__);                                                        \
    } while (0)

void privlr_csr_dots(const privlr_csr *X, int64_t first, int64_t count, const double *w,
                     double *out) {
    CALL(dots, X, first, count, w, out);
}

void privlr_csr_sums(const privlr_csr *X, int64_t first, int64_t count, const double *c,
                     double *out) {
    CALL(sums, X, first, count, c, out);
}

void privlr_csr_squares(const privlr_csr *X, int64_t first, int64_t count, double *out) {
    CALL(squares, X, first, count, out);
}

void privlr_csr_outer(const privlr_csr *X, int64_t first, int64_t count, int64_t width,
                      const double *h, double *upper) {
    CALL(outer, X, first, count, width, h, upper);
}

int64_t privlr_csr_fullest_column(const privlr_csr *X, int64_t n_rows, int64_t n_cols,
                                  int64_t *counts) {
    int64_t fullest = 0;
    memset(counts, 0, (size_t)n_cols * sizeof *counts);
    CALL(count, X, privlr_csr_start(X, n_rows), counts);
    for (int64_t j = 0; j < n_cols; j++)
        fullest = counts[j] > fullest ? counts[j] : fullest;
    return fullest;
}
