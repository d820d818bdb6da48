#include "line_search.h"

#include <math.h>

enum { TRIALS = 30, TRIALS_IN_NOISE = 3 };

int privlr_line_search(const privlr_objective *f, const privlr_blas *blas, privlr_workspace *work,
                       const privlr_point *from, const double *direction, double slope,
                       double shrink, privlr_point *to) {
    const int64_t size = privlr_objective_size(f);
    /* Where the values are rounding noise, only slopes count. */
    const double noise = privlr_value_noise(from);
    const int in_noise = fabs(slope) <= noise;
    const double target = shrink * fabs(slope);
    double low = 0.0, low_slope = slope, high = INFINITY, high_slope = 0.0, step = 1.0;
    int evaluations = 0;

    for (;;) {
        for (int64_t j = 0; j < size; j++)
            to->w[j] = from->w[j] + step * direction[j];
        to->value = privlr_objective_evaluate(f, blas, work, to->w, to->gradient, to->hessian);
        evaluations++;
        const double here = privlr_dot(size, to->gradient, direction);
        const int finite = isfinite(to->value) && isfinite(here);
        const int grown = !in_noise && to->value > from->value + noise;
        if (finite && !grown && fabs(here) <= target)
            return evaluations;
        if (evaluations >= (in_noise ? TRIALS_IN_NOISE : TRIALS))
            return evaluations;
        if (!finite || grown || here > 0.0) {
            high = step;
            high_slope = finite ? here : INFINITY;
        } else {
            low = step;
            low_slope = here;
        }
        if (isinf(high)) {
            /* Still descending: extrapolate the slope to zero, two to ten times further. */
            const double secant = low_slope > slope ? step * slope / (slope - low_slope) : INFINITY;
            step *= fmin(10.0, fmax(2.0, secant / step));
        } else {
            const double width = high - low;
            const double secant = high_slope > 0.0 && isfinite(high_slope)
                                      ? low + width * low_slope / (low_slope - high_slope)
                                      : low + 0.25 * width;
            step = fmin(high - 0.1 * width, fmax(low + 0.1 * width, secant));
        }
    }
}
