/* Products of compressed sparse rows with vectors; see design.h for what they mean. */
#ifndef PRIVLR_CSR_H
#define PRIVLR_CSR_H

#include <stdint.h>

typedef struct {
    const void *values, *indices, *indptr;
    int is_float32, index_bits; /* 32 or 64 */
} privlr_csr;

/* Position of row i's first entry. */
static inline int64_t privlr_csr_start(const privlr_csr *X, int64_t i) {
    return X->index_bits == 32 ? (int64_t)((const int32_t *)X->indptr)[i]
                               : ((const int64_t *)X->indptr)[i];
}

/* out[i] = x_(first + i) . w */
void privlr_csr_dots(const privlr_csr *X, int64_t first, int64_t count, const double *w,
                     double *out);
/* out[:] += sum_i c[i] x_(first + i) */
void privlr_csr_sums(const privlr_csr *X, int64_t first, int64_t count, const double *c,
                     double *out);
/* out[i] += ||x_(first + i)||^2 */
void privlr_csr_squares(const privlr_csr *X, int64_t first, int64_t count, double *out);
/* out[j] += sum_i h[i] x_(first + i, j)^2 */
void privlr_csr_diagonal(const privlr_csr *X, int64_t first, int64_t count, const double *h,
                         double *out);
/* upper triangle (column-major, `width` columns) += sum_i h[i] x x', x = x_(first + i) */
void privlr_csr_outer(const privlr_csr *X, int64_t first, int64_t count, int64_t width,
                      const double *h, double *upper);
/* How a structure may be used: with ascending columns in every row; with columns out of order
 * or twice; or not at all, as walking it would leave its arrays or its columns. `stored` is the
 * length of indices; indptr has n_rows + 1 elements. */
typedef enum { PRIVLR_CSR_CANONICAL, PRIVLR_CSR_UNORDERED, PRIVLR_CSR_BROKEN } privlr_csr_form;
privlr_csr_form privlr_csr_check(const privlr_csr *X, int64_t n_rows, int64_t n_cols,
                                 int64_t stored);
/* Entries in the fullest of n_cols columns; counts is scratch. */
int64_t privlr_csr_fullest_column(const privlr_csr *X, int64_t n_rows, int64_t n_cols,
                                  int64_t *counts);

#endif
