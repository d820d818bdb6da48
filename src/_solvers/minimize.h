/* The minimiser of a privlr_objective. It stops on the gradient norm alone:
 * function values stall near the square root of the precision. */
#ifndef PRIVLR_MINIMIZE_H
#define PRIVLR_MINIMIZE_H

#include "metric.h"

typedef struct {
    double tolerance; /* gradient norm of the sum-form objective to reach */
    double max_passes;
    int use_samples;          /* begin with samples of the rows, at the better of two points, or in
                                 the span of the rows; 0: begin at the given point */
    int use_metric;           /* estimate Hessians where that pays */
    int (*interrupted)(void); /* asked now and then whether to give up; or NULL */
} privlr_options;

typedef struct {
    double gradient_norm; /* at the returned point, from a pass over all rows */
    double passes;        /* rows looked at by gradients and Hessians, over n */
} privlr_progress;

/* Limited-memory BFGS around a metric, after descent in the span of the rows where that is apt.
 * Takes the starting point in w and leaves the point with the smallest gradient norm there,
 * whatever the status: PRIVLR_OK when that norm is at most the tolerance, PRIVLR_STALLED when
 * rounding errors allow no smaller one, PRIVLR_MAX_ITER when max_passes were spent,
 * PRIVLR_EXTREME when rows, not clipped, are longer than privlr_design_most or not finite,
 * PRIVLR_INTERRUPTED when the caller wanted no more. The metric is the caller's: one that has a
 * factor already is used as it is at first. */
privlr_status privlr_minimize(const privlr_objective *f, const privlr_blas *blas, privlr_team *team,
                              const privlr_options *options, privlr_metric *metric, double *w,
                              privlr_progress *progress);

#endif
