/* Products of a block of samples with vectors, in two layouts.
 *
 * Rows: equally long rows, `stride` apart. A C-ordered block of samples gives its
 * margins with dots() and its gradient with sums(); an F-ordered block is the same
 * matrix with the roles of the two exchanged, so that neither is copied.
 *
 * Panels: eight samples side by side, element after element; short rows would leave
 * most lanes idle. A block is padded with zero samples to whole panels.
 *
 * Additions run in a fixed order that depends on the shape alone. */
#ifndef PRIVLR_ROWS_H
#define PRIVLR_ROWS_H

#include <float.h>
#include <stddef.h>
#include <stdint.h>

/* out[i] += x[i, :] . w; near: the rows are in a cache */
void privlr_rows_dots(size_t rows, size_t length, const double *x, ptrdiff_t stride,
                      const double *w, int near, double *out);
/* out[:] += sum_i c[i] x[i, :]; meanwhile as many rows from `soon` on are fetched into the
 * second-level cache, unless it is NULL */
void privlr_rows_sums(size_t rows, size_t length, const double *x, ptrdiff_t stride,
                      const double *c, const double *soon, double *out);
/* out[i] += x[i, :] . x[i, :] */
void privlr_rows_squares(size_t rows, size_t length, const double *x, ptrdiff_t stride,
                         double *out);

/* The same products, in double, of rows of floats. */
void privlr_rows_single_dots(size_t rows, size_t length, const float *x, ptrdiff_t stride,
                             const double *w, int near, double *out);
void privlr_rows_single_sums(size_t rows, size_t length, const float *x, ptrdiff_t stride,
                             const double *c, const float *soon, double *out);
void privlr_rows_single_squares(size_t rows, size_t length, const float *x, ptrdiff_t stride,
                                double *out);

/* The same products of ceil(count / 8) panels; out of dots and c of sums have eight
 * elements a panel, those of c beyond the samples being zero. */
void privlr_panels_dots(size_t panels, size_t length, const double *p, const double *w,
                        double *out);
void privlr_panels_sums(size_t panels, size_t length, const double *p, const double *c,
                        double *out);

/* The first columns of panels that have room for `width`: rows that begin at x[start[i]] and have
 * an element every `stride`, of which the `length` in `columns` (or NULL: the first) count. start
 * has eight elements a panel, as have the arrays of rows below. */
void privlr_panels_cut(size_t panels, size_t length, const double *x, const int64_t *start,
                       const int64_t *columns, ptrdiff_t stride, size_t width, double *out);
void privlr_panels_single_cut(size_t panels, size_t length, const float *x, const int64_t *start,
                              const int64_t *columns, ptrdiff_t stride, size_t width, double *out);

/* The sums of the squares of the same columns and of the constant */
void privlr_panels_squares(size_t panels, size_t length, const double *p, size_t width,
                           double constant, double *out);

/* The first `length` columns of panels that have `width` of them, followed by the constant unless
 * that is 0, with row i times factor[i]; out may be p, unless they are to go away: past the caches,
 * if out is a multiple of 64 bytes, and seen by other threads after a full fence */
void privlr_panels_scale(size_t panels, size_t length, const double *p, size_t width,
                         double constant, const double *factor, int away, double *out);

/* Squares of lengths that are safe to work with: the products of such rows do not overflow. */
#define PRIVLR_LARGEST_SQUARE 1e300

/* No NaN either, nor one that has lost digits. */
static inline int privlr_square_is_ordinary(double square) {
    return square >= DBL_MIN && square <= PRIVLR_LARGEST_SQUARE;
}

/* factor[i] = min(1, most / root) and length[i] = root, or `bound` where that is beyond `most`, for
 * the root of square[i]; n is a multiple of 8. Returns how many squares are not ordinary,
 * or NaN: those rows call for more care. */
size_t privlr_rows_factors(size_t n, double most, double bound, const double *square,
                           double *length, double *factor);

/* upper triangle (column-major) += sum_i h[i] x[i, :] x[i, :]'; at most 32 panels */
void privlr_panels_outer(size_t panels, size_t length, const double *p, const double *h,
                         double *upper);

#endif
