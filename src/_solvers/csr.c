#include "csr.h"

#include <string.h>

/* Two doubles as every instruction set holds them: entries come from memory in pairs, and two
 * pairs of sums run side by side, as one alone would wait for every addition. */
typedef double pair __attribute__((vector_size(16)));

/* The loops, once for each type of entry and index. */
#define DEFINE_KERNELS(suffix, value_t, index_t)                                                   \
    static void dots_##suffix(const privlr_csr *X, int64_t first, int64_t count,                   \
                              const double *restrict w, double *restrict out) {                    \
        const value_t *restrict x = X->values;                                                     \
        const index_t *restrict column = X->indices, *start = (const index_t *)X->indptr + first;  \
        for (int64_t i = 0; i < count; i++) {                                                      \
            const int64_t end = (int64_t)start[i + 1];                                             \
            int64_t k = (int64_t)start[i];                                                         \
            pair a = {0.0, 0.0}, b = a;                                                            \
            for (; k + 4 <= end; k += 4) {                                                         \
                a += (pair){x[k], x[k + 1]} * (pair){w[column[k]], w[column[k + 1]]};              \
                b += (pair){x[k + 2], x[k + 3]} * (pair){w[column[k + 2]], w[column[k + 3]]};      \
            }                                                                                      \
            if (k + 2 <= end) {                                                                    \
                a += (pair){x[k], x[k + 1]} * (pair){w[column[k]], w[column[k + 1]]};              \
                k += 2;                                                                            \
            }                                                                                      \
            if (k < end)                                                                           \
                b[0] += (double)x[k] * w[column[k]];                                               \
            a += b;                                                                                \
            out[i] = a[0] + a[1];                                                                  \
        }                                                                                          \
    }                                                                                              \
    static void sums_##suffix(const privlr_csr *X, int64_t first, int64_t count,                   \
                              const double *restrict c, double *restrict out) {                    \
        const value_t *restrict x = X->values;                                                     \
        const index_t *restrict column = X->indices, *start = (const index_t *)X->indptr + first;  \
        for (int64_t i = 0; i < count; i++) {                                                      \
            const int64_t end = (int64_t)start[i + 1];                                             \
            int64_t k = (int64_t)start[i];                                                         \
            for (; k + 2 <= end; k += 2) {                                                         \
                const pair product = c[i] * (pair){x[k], x[k + 1]};                                \
                const pair sum = (pair){out[column[k]], out[column[k + 1]]} + product;             \
                out[column[k]] = sum[0];                                                           \
                out[column[k + 1]] = sum[1];                                                       \
            }                                                                                      \
            if (k < end)                                                                           \
                out[column[k]] += c[i] * (double)x[k];                                             \
        }                                                                                          \
    }                                                                                              \
    static void squares_##suffix(const privlr_csr *X, int64_t first, int64_t count,                \
                                 double *restrict out) {                                           \
        const value_t *restrict x = X->values;                                                     \
        const index_t *start = (const index_t *)X->indptr + first;                                 \
        for (int64_t i = 0; i < count; i++) {                                                      \
            const int64_t end = (int64_t)start[i + 1];                                             \
            int64_t k = (int64_t)start[i];                                                         \
            double a = 0.0, b = 0.0, c = 0.0, d = 0.0;                                             \
            for (; k + 4 <= end; k += 4) {                                                         \
                a += (double)x[k] * (double)x[k];                                                  \
                b += (double)x[k + 1] * (double)x[k + 1];                                          \
                c += (double)x[k + 2] * (double)x[k + 2];                                          \
                d += (double)x[k + 3] * (double)x[k + 3];                                          \
            }                                                                                      \
            for (; k < end; k++)                                                                   \
                a += (double)x[k] * (double)x[k];                                                  \
            out[i] += (a + c) + (b + d);                                                           \
        }                                                                                          \
    }                                                                                              \
    static void diagonal_##suffix(const privlr_csr *X, int64_t first, int64_t count,               \
                                  const double *h, double *restrict out) {                         \
        const value_t *restrict x = X->values;                                                     \
        const index_t *restrict column = X->indices, *start = (const index_t *)X->indptr + first;  \
        for (int64_t i = 0; i < count; i++)                                                        \
            for (int64_t k = (int64_t)start[i]; k < (int64_t)start[i + 1]; k++)                    \
                out[column[k]] += h[i] * ((double)x[k] * (double)x[k]);                            \
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

void privlr_csr_diagonal(const privlr_csr *X, int64_t first, int64_t count, const double *h,
                         double *out) {
    CALL(diagonal, X, first, count, h, out);
}

void privlr_csr_outer(const privlr_csr *X, int64_t first, int64_t count, int64_t width,
                      const double *h, double *upper) {
    CALL(outer, X, first, count, width, h, upper);
}

/* What only looks at the structure. Branches would cost more than the comparisons. */
#define DEFINE_LOOKS(index_t, unsigned_t)                                                          \
    static privlr_csr_form form_##index_t(int64_t n_rows, int64_t n_cols, int64_t stored,          \
                                          const index_t *restrict start,                           \
                                          const index_t *restrict column) {                        \
        int broken = start[0] != 0 || start[n_rows] > stored;                                      \
        for (int64_t i = 0; i < n_rows; i++)                                                       \
            broken |= start[i + 1] < start[i];                                                     \
        if (broken)                                                                                \
            return PRIVLR_CSR_BROKEN;                                                              \
        const int64_t entries = (int64_t)start[n_rows];                                            \
        const unsigned_t most = (unsigned_t) - 1 / 2;                                              \
        const unsigned_t top = (uint64_t)n_cols > most ? most : (unsigned_t)(n_cols - 1);          \
        unsigned_t signs = 0, descents = 0; /* in a row, if not from one row to the next */        \
        for (int64_t k = 0; k < entries; k++)                                                      \
            signs |= (unsigned_t)column[k] | (top - (unsigned_t)column[k]);                        \
        if (signs > most)                                                                          \
            return PRIVLR_CSR_BROKEN;                                                              \
        for (int64_t k = 1; k < entries; k++)                                                      \
            descents += column[k] <= column[k - 1];                                                \
        for (int64_t i = 1; i < n_rows; i++) {                                                     \
            const int64_t k = (int64_t)start[i];                                                   \
            if (start[i + 1] > start[i] && k > 0)                                                  \
                descents -= column[k] <= column[k - 1];                                            \
        }                                                                                          \
        return descents ? PRIVLR_CSR_UNORDERED : PRIVLR_CSR_CANONICAL;                             \
    }                                                                                              \
    static int64_t fullest_column_##index_t(int64_t entries, int64_t n_cols,                       \
                                            const index_t *column, int64_t *counts) {              \
        int64_t fullest = 0;                                                                       \
        memset(counts, 0, (size_t)n_cols * sizeof *counts);                                        \
        for (int64_t k = 0; k < entries; k++)                                                      \
            counts[column[k]]++;                                                                   \
        for (int64_t j = 0; j < n_cols; j++)                                                       \
            fullest = counts[j] > fullest ? counts[j] : fullest;                                   \
        return fullest;                                                                            \
    }

DEFINE_LOOKS(int32_t, uint32_t)
DEFINE_LOOKS(int64_t, uint64_t)

privlr_csr_form privlr_csr_check(const privlr_csr *X, int64_t n_rows, int64_t n_cols,
                                 int64_t stored) {
    return X->index_bits == 32 ? form_int32_t(n_rows, n_cols, stored, X->indptr, X->indices)
                               : form_int64_t(n_rows, n_cols, stored, X->indptr, X->indices);
}

int64_t privlr_csr_fullest_column(const privlr_csr *X, int64_t n_rows, int64_t n_cols,
                                  int64_t *counts) {
    const int64_t entries = privlr_csr_start(X, n_rows);
    return X->index_bits == 32 ? fullest_column_int32_t(entries, n_cols, X->indices, counts)
                               : fullest_column_int64_t(entries, n_cols, X->indices, counts);
}
