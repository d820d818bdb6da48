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

#include <stddef.h>

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
void privlr_panels_squares(size_t panels, size_t length, const double *p, double *out);

/* length[i] = sqrt(square[i]); factor[i] = min(1, most / length[i]); n is a multiple of 8 */
void privlr_rows_factors(size_t n, double most, const double *square, double *length,
                         double *factor);

/* upper triangle (column-major) += sum_i h[i] x[i, :] x[i, :]'; at most 32 panels */
void privlr_panels_outer(size_t panels, size_t length, const double *p, const double *h,
                         double *upper);

#endif
