/* The design matrix: n rows as the caller stores them, each scaled by its
 * clipping factor and followed by an optional constant column. Row i is
 *
 *     a_i = row_scale[i] * (x_i, intercept)
 *
 * in exact arithmetic; it is never formed in memory. */
#ifndef PRIVLR_DESIGN_H
#define PRIVLR_DESIGN_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

typedef struct {
    int64_t n_rows, n_cols; /* of the stored matrix, without the constant column */
    const void *values;     /* float64 or float32; CSR data if index_bits != 0 */
    int is_float32;
    int64_t row_stride, col_stride; /* dense, in elements; any sign */
    const void *indices, *indptr;   /* CSR */
    int index_bits;                 /* 32 or 64 for CSR, 0 for dense */
    const double *row_scale;        /* NULL: every factor is 1 */
    double intercept;               /* 0: no constant column */
} privlr_design;

/* Number of coefficients: columns and, where there is one, the constant. */
static inline int64_t privlr_design_width(const privlr_design *X) {
    return X->n_cols + (X->intercept != 0.0);
}

/* Rows that one block of a pass holds, so that a block stays in the cache. */
int64_t privlr_design_block(const privlr_design *X);

/* Doubles of scratch that dots, sums and pack below need. */
size_t privlr_design_scratch(const privlr_design *X);

/* out[i - first] = a_i . w       for `count` rows, count <= block */
void privlr_design_dots(const privlr_design *X, int64_t first, int64_t count, const double *w,
                        double *scratch, double *out);

/* out[:] = sum_i c[i - first] a_i */
void privlr_design_sums(const privlr_design *X, int64_t first, int64_t count, const double *c,
                        double *scratch, double *out);

/* packed[i - first, :] = factor[i - first] a_i, row-major, width columns (dense only) */
void privlr_design_pack(const privlr_design *X, int64_t first, int64_t count, const double *factor,
                        double *packed);

/* upper triangle (column-major) += sum_i h[i - first] a_i a_i'  (CSR only) */
void privlr_design_outer(const privlr_design *X, int64_t first, int64_t count, const double *h,
                         double *upper);

/* scale_out[i] = the largest convenient factor <= 1 with ||scale_out[i] (x_i, intercept)|| <= bound
 * in exact arithmetic. PRIVLR_NONFINITE names the first bad row in *row. PRIVLR_EXTREME means
 * that products with some rows could overflow: scale_out is complete, and negative for those. */
privlr_status privlr_design_clip(const privlr_design *X, double bound, double *scale_out,
                                 int64_t *row);

/* Length of the longest row after scaling. */
double privlr_design_longest(const privlr_design *X);

#endif
