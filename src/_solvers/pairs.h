/* The memory of L-BFGS: the last steps and the changes of the gradient along them. */
#ifndef PRIVLR_PAIRS_H
#define PRIVLR_PAIRS_H

#include <math.h>

#include "metric.h"

enum { PRIVLR_PAIRS = 12 };

typedef struct {
    int64_t n;
    int in_span; /* vectors hold coefficients and products, as in span.h */
    int count, newest;
    double *s, *y, rho[PRIVLR_PAIRS];
    /* The metric's stand-in is scale / diagonal, right for the curvature of the last step. */
    const double *diagonal; /* NULL: ones */
    double scale;
} privlr_pairs;

static inline double privlr_dot(int64_t n, const double *a, const double *b) {
    double lane[8] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
    int64_t j = 0;
    for (; j + 8 <= n; j += 8)
        for (int k = 0; k < 8; k++)
            lane[k] += a[j + k] * b[j + k];
    for (; j < n; j++)
        lane[0] += a[j] * b[j];
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

static inline double privlr_norm(int64_t n, const double *a) {
    return sqrt(privlr_dot(n, a, a));
}

/* Remembers the step from (w, gradient) to (w_next, gradient_next). */
void privlr_pairs_add(privlr_pairs *p, const double *w, const double *gradient,
                      const double *w_next, const double *gradient_next);

/* Makes it the stand-in from now on; the pairs stay as they are. */
void privlr_pairs_set_diagonal(privlr_pairs *p, const double *diagonal);

/* direction = -(inverse Hessian estimate) gradient, by the two-loop recursion around
 * the metric, or around its stand-in where that has no factor. */
void privlr_pairs_direction(const privlr_pairs *p, const privlr_metric *metric,
                            const privlr_blas *blas, const double *gradient, double *direction);

#endif
