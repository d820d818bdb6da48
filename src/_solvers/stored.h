/* Where the elements of a design's matrix lie, and its rows in panels: for design.c and scan.c. */
#ifndef PRIVLR_STORED_H
#define PRIVLR_STORED_H

#include "csr.h"
#include "design.h"
#include "rows.h"

enum {
    LANES = 8,
    NARROW_BLOCK = 128, /* rows; 32 columns of them fill the first-level cache */
    BLOCK_MAX = PRIVLR_PLAIN_ROWS
};

static inline privlr_csr csr_of(const privlr_design *X) {
    return (privlr_csr){X->values, X->indices, X->indptr, X->is_float32, X->index_bits};
}

static inline double value_at(const privlr_design *X, int64_t k) {
    return X->is_float32 ? (double)((const float *)X->values)[k] : ((const double *)X->values)[k];
}

/* Where row i and column j of a dense matrix lie: their sum is the place of an element. */
static inline int64_t row_at(const privlr_design *X, int64_t i) {
    return (X->rows ? X->rows[i] : i) * X->row_stride;
}

static inline int64_t column_at(const privlr_design *X, int64_t j) {
    return (X->columns ? X->columns[j] : j) * X->col_stride;
}

static inline size_t panels_of(int64_t count) {
    return (size_t)(count + LANES - 1) / LANES;
}

/* start[i] is where row first + i begins; a last panel is filled up with the first of these. */
static inline void find_rows(const privlr_design *X, int64_t first, int64_t count, int64_t *start) {
    for (int64_t i = 0; i < count; i++)
        start[i] = row_at(X, first + i);
    for (int64_t i = count; i % LANES; i++)
        start[i] = start[0];
}

/* `length` columns of the matrix that X is part of, unscaled, in panels of eight rows that have
 * room for `width`. */
static inline void cut_panels(const privlr_design *X, const int64_t *columns, int64_t length,
                              const int64_t *start, int64_t count, int64_t width, double *panels) {
    if (X->is_float32)
        privlr_panels_single_cut(panels_of(count), (size_t)length, X->values, start, columns,
                                 (ptrdiff_t)X->col_stride, (size_t)width, panels);
    else
        privlr_panels_cut(panels_of(count), (size_t)length, X->values, start, columns,
                          (ptrdiff_t)X->col_stride, (size_t)width, panels);
}

/* With zeros, to whole panels. */
static inline void fill_up(double *c, int64_t count) {
    for (int64_t i = count; i % LANES; i++)
        c[i] = 0.0;
}

#endif
