/* Minimisers of a privlr_objective. They stop on the gradient norm alone:
 * function values stall near the square root of the precision. */
#ifndef PRIVLR_MINIMIZE_H
#define PRIVLR_MINIMIZE_H

#include "objective.h"

typedef struct {
    double gradient_norm; /* of the sum-form objective, at the returned point */
    int passes;           /* evaluations over all rows */
} privlr_progress;

/* Both take the starting point in w and leave the point with the smallest
 * gradient norm there, whatever the status: PRIVLR_OK when that norm is at most
 * `tolerance`, PRIVLR_STALLED when rounding errors allow no smaller one,
 * PRIVLR_MAX_ITER when max_passes were spent. */

/* Newton's method with a Cholesky factor; one output. */
privlr_status privlr_newton(const privlr_objective *f, const privlr_blas *blas, double tolerance,
                            int max_passes, double *w, privlr_progress *progress);

/* Limited-memory BFGS. */
privlr_status privlr_lbfgs(const privlr_objective *f, const privlr_blas *blas, double tolerance,
                           int max_passes, double *w, privlr_progress *progress);

#endif
