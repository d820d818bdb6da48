/* A step along a descent direction of a convex objective. */
#ifndef PRIVLR_LINE_SEARCH_H
#define PRIVLR_LINE_SEARCH_H

#include <float.h>
#include <math.h>

#include "objective.h"

static inline double privlr_dot(int64_t n, const double *a, const double *b) {
    double lane[4] = {0.0, 0.0, 0.0, 0.0};
    int64_t j = 0;
    for (; j + 4 <= n; j += 4)
        for (int k = 0; k < 4; k++)
            lane[k] += a[j + k] * b[j + k];
    for (; j < n; j++)
        lane[0] += a[j] * b[j];
    return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

/* A point with its value and gradient; hessian is NULL where it is not wanted. */
typedef struct {
    double *w, *gradient, *hessian;
    double value;
} privlr_point;

/* Below this decrease the values at two points differ by rounding only. */
static inline double privlr_value_noise(const privlr_point *at) {
    return 16.0 * DBL_EPSILON * fabs(at->value);
}

/* Whether a step made the value smaller. The gradient may grow for many steps
 * while it does, far from the minimum or across kinks of the slope. */
static inline int privlr_descended(const privlr_point *from, const privlr_point *to) {
    return from->value - to->value > privlr_value_noise(from);
}

/* Evaluates to = from + t direction for steps t = 1 and on until the slope along
 * the direction has shrunk to at most `shrink` of its first absolute value and
 * the value has not grown, both up to rounding, or until trials run out; `to` is
 * the last point tried. Returns the number of evaluations. */
int privlr_line_search(const privlr_objective *f, const privlr_blas *blas, privlr_workspace *work,
                       const privlr_point *from, const double *direction, double slope,
                       double shrink, privlr_point *to);

#endif
