/* Ridge-regularised logistic regression with offsets:
 *
 *     F(w) = sum_i sample_weight_i phi(offset_i + x_i . w, y_i) + ridge/2 ||w - prior||^2
 *
 * A sum over samples, not a mean: ridge is n times the lambda of the mean objective. */
#ifndef PRIVLR_SOLVE_H
#define PRIVLR_SOLVE_H

#include <stdint.h>

#include "status.h"

/* The few BLAS and LAPACK routines of Hessians, passed in by the caller, so that the library
 * links to none. Fortran conventions: arguments by address, columns one after the other. */
typedef struct {
    void (*dsyrk)(char *uplo, char *trans, int *n, int *k, double *alpha, double *a, int *lda,
                  double *beta, double *c, int *ldc);
    void (*ssyrk)(char *uplo, char *trans, int *n, int *k, float *alpha, float *a, int *lda,
                  float *beta, float *c, int *ldc);
    void (*potrf)(char *uplo, int *n, double *a, int *lda, int *info);
    void (*trsv)(char *uplo, char *trans, char *diag, int *n, double *a, int *lda, double *x,
                 int *incx);
} privlr_blas;

/* Minimises F over dense rows from the origin.
 *
 * blas: NULL leaves Hessians out, which ill-conditioned columns pay for with many more passes.
 * X[i * row_stride + j * col_stride]: column j of x_i, n rows of d columns; strides may have
 *     any sign. Not copied.
 * y: -1 and +1. sample_weight (not negative), offset (n each) and prior (d): NULL for ones,
 *     zeros and zeros. loss: PRIVLR_LOSS_*.
 * tolerance: norm of F's gradient to reach. ||w - argmin F|| is at most that norm over ridge.
 *
 * Writes w to coef_out (d), its gradient's norm, from a last pass over all rows in double
 * precision, and the number of looks at all rows; NULL where one is not wanted. That is so with
 *     PRIVLR_OK        the norm is at most the tolerance
 *     PRIVLR_STALLED   rounding errors allow no smaller norm
 *     PRIVLR_MAX_ITER  10,000 passes did not get there
 * and nothing is written with
 *     PRIVLR_INVALID   an argument is outside its range
 *     PRIVLR_NONFINITE a NaN or an infinity, or a row longer than 1e153 / n, so that sums overflow
 *     PRIVLR_NO_MEMORY */
privlr_status privlr_solve(const privlr_blas *blas, int64_t n, int64_t d, const double *X,
                           int64_t row_stride, int64_t col_stride, const double *y,
                           const double *sample_weight, const double *offset, const double *prior,
                           double ridge, int loss, double tolerance, double *coef_out,
                           double *gradient_norm_out, double *passes_out);

#endif
