/* The design matrix: n rows as the caller stores them, each scaled by its
 * clipping factor and followed by an optional constant column. Row i is
 *
 *     a_i = row_scale[i] * (x_i, intercept)
 *
 * in exact arithmetic; it is formed in memory only where rows are short. */
#ifndef PRIVLR_DESIGN_H
#define PRIVLR_DESIGN_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* What is known of the rows' lengths, after scaling. */
typedef struct {
    int64_t n_rows;    /* looked at so far */
    double square_sum; /* of all lengths, estimated from those */
    double longest;    /* of those; infinite or NaN if one is */
} privlr_lengths;

/* Adds the sum and the longest of other rows. */
static inline void privlr_lengths_add(privlr_lengths *total, const privlr_lengths *part) {
    if (!(isnan(total->longest) || total->longest >= part->longest))
        total->longest = part->longest;
    total->square_sum += part->square_sum;
}

typedef struct {
    int64_t n_rows, n_cols; /* of the stored matrix, without the constant column */
    const void *values;     /* float64 or float32; CSR data if index_bits != 0 */
    int is_float32;
    int64_t row_stride, col_stride; /* dense, in elements; any sign */
    const int64_t *rows, *columns;  /* narrow: those of the matrix that count; NULL: all */
    const void *indices, *indptr;   /* CSR */
    int index_bits;                 /* 32 or 64 for CSR, 0 for dense */
    int64_t n_entries;              /* stored */
    const double *row_scale;        /* NULL: every factor is 1 */
    double intercept;               /* 0: no constant column */
    double *panels;                 /* a narrow design: room for all rows; filled by the scan */
    privlr_lengths *lengths;        /* found by the scan, or by the first passes */
    int64_t plain_blocks;           /* see privlr_design_plain_blocks; 1 is always right */
} privlr_design;

/* Number of coefficients: columns and, where there is one, the constant. */
static inline int64_t privlr_design_width(const privlr_design *X) {
    return X->n_cols + (X->intercept != 0.0);
}

/* Dense rows this short are worked on in panels of eight; see rows.h. */
enum { PRIVLR_NARROW = 32 };

static inline int privlr_design_is_narrow(const privlr_design *X) {
    return !X->index_bits && privlr_design_width(X) <= PRIVLR_NARROW;
}

/* Whether passes over dense rows find their lengths as they go, since the rows are in the cache by
 * then: a scan of their own would take nearly as long as a pass. */
static inline int privlr_design_is_tall(const privlr_design *X) {
    return !X->index_bits && !privlr_design_is_narrow(X) && X->n_rows >= X->n_cols;
}

/* No row may be longer without clipping: squares of sums over the rows have to be doubles. */
static inline double privlr_design_most(const privlr_design *X) {
    return 1e153 / (double)X->n_rows;
}

/* Rows that one block of a pass holds, a multiple of 8, so that a block stays in the cache. */
int64_t privlr_design_block(const privlr_design *X);

/* Terms of a plain sum that the bound on rounding errors allows for in every column. */
enum { PRIVLR_PLAIN_ROWS = 256 };

/* Blocks of dense rows between compensated additions, which cost the width each. */
static inline int64_t privlr_design_plain_blocks(const privlr_design *X) {
    return PRIVLR_PLAIN_ROWS / privlr_design_block(X);
}

/* Doubles of scratch that the functions below need. */
size_t privlr_design_scratch(const privlr_design *X);

/* A block of rows as the kernels walk it: the caller's memory if it is laid out
 * for that, else a copy in scratch. Unused for CSR. */
typedef struct {
    int64_t first, count;
    const double *x;
    const float *single; /* or NULL: floats in place of x, rows or columns */
    ptrdiff_t stride;
    enum { PRIVLR_ROWS, PRIVLR_COLUMNS, PRIVLR_PANELS, PRIVLR_CSR } layout;
} privlr_view;

/* Rows first .. first + count - 1, count <= block; first is a multiple of 8. */
privlr_view privlr_design_view(const privlr_design *X, int64_t first, int64_t count,
                               double *scratch);

/* out[i] = a_(first + i) . w; room for count rounded up to 8 */
void privlr_design_dots(const privlr_design *X, const privlr_view *view, const double *w,
                        double *out);

/* out[:] += sum_i c[i] a_(first + i); c has room for count rounded up to 8, and is used up */
void privlr_design_sums(const privlr_design *X, const privlr_view *view, double *c, double *out);

/* Makes factors c of the raw predictions of samples first .. first + count - 1 of a view. */
typedef void (*privlr_turn)(void *context, const privlr_view *view, int64_t first, int64_t count,
                            double *raw, double *c);

/* Both products with one walk over the rows: raw as in dots (of zeros for w NULL), c by turn, which
 * is called once or several times, and out as in sums. The next walk begins `skip` rows after
 * these. */
void privlr_design_walk(const privlr_design *X, const privlr_view *view, int64_t skip,
                        const double *w, privlr_turn turn, void *context, double *raw, double *c,
                        double *out);

/* packed[i, :] = factor[i] a_(first + i), row-major, width columns (dense only) */
void privlr_design_pack(const privlr_design *X, int64_t first, int64_t count, const double *factor,
                        double *packed);

/* upper triangle (column-major) += sum_i h[i] a_(first + i) a_(first + i)'  (CSR and panels only);
 * h has room for count rounded up to 8, and is used up */
void privlr_design_outer(const privlr_design *X, const privlr_view *view, double *h, double *upper);
/* The diagonal of the same alone (CSR only); h is used up too */
void privlr_design_squares(const privlr_design *X, const privlr_view *view, double *h,
                           double *diagonal);

#endif
