/* Products of a block of equally long rows with vectors.
 *
 * A C-ordered block of samples gives its margins with dots() and its gradient
 * with sums(); an F-ordered block is the same matrix with the roles of the two
 * exchanged, so these two kernels serve both orders without a copy.
 * Additions run in a fixed order that depends on the shape alone. */
#ifndef PRIVLR_ROWS_H
#define PRIVLR_ROWS_H

#include <stddef.h>

/* out[i] += x[i, :] . w      rows of `length` elements, `stride` apart */
void privlr_rows_dots(size_t rows, size_t length, const double *x, ptrdiff_t stride,
                      const double *w, double *out);
/* out[:] += sum_i c[i] x[i, :] */
void privlr_rows_sums(size_t rows, size_t length, const double *x, ptrdiff_t stride,
                      const double *c, double *out);

#endif
