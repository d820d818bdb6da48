#include "kernels.h"
#include "logistic.h"
#include "simd.h"

/* The logistic loss; value, slope and curvature within 2.5 ulp.
 *
 * With u = exp(-|m|), r = 1 / (1 + u) and p = u r, sigma(-m) is p or r = 1 - p,
 * phi'' = p (1 - p) and phi = max(-m, 0) + log(1 + u). One division serves both r and
 * the logarithm's argument s = f / (2 + f), where 1 + u = 1 + f, or 2 (1 + f) for
 * u >= 1/2 (there f = (u - 1) / 2 is exact).
 */
static inline void logistic_block(ptrdiff_t padded, int with_value, int with_curvature,
                                  const double *margin, double *value, double *slope,
                                  double *curvature) {
    PRIVLR_FOR_LANES(i, padded)
    value[i] = privlr_exp(-fabs(margin[i]));

    PRIVLR_FOR_LANES(i, padded) {
        const double m = margin[i];
        const double u = value[i];
        const double w = 1.0 + u;
        const double w_lost = u - (w - 1.0);
        const int upper = u >= 0.5;
        const double f = upper ? 0.5 * (u - 1.0) : u;
        const double v = 2.0 + f;
        const double inverse = 1.0 / (w * v);

        /* one Newton step also makes good what 1 + u lost in rounding */
        double r = v * inverse;
        r = fma(r, fma(-w_lost, r, fma(-w, r, 1.0)), r);

        if (with_value) {
            const double s = f * (w * inverse);
            const double bend = s * (privlr_log1p_remainder(s) - f);
            const double log1p_u =
                (upper ? privlr_log2_hi : 0.0) + (f + (upper ? bend + privlr_log2_lo : bend));
            value[i] = (m < 0.0 ? -m : 0.0) + log1p_u;
        }
        const double p = u * r;
        slope[i] = m < 0.0 ? r : p;
        if (with_curvature)
            curvature[i] = fma(-p, p, p);
    }
}

/* Below 0 the tangent at 0, where logistic_block gives slope 1/2. */
static inline void capped_block(ptrdiff_t padded, int with_value, int with_curvature,
                                double *margin, double *value, double *slope, double *curvature) {
    double linear[PRIVLR_BLOCK];

    PRIVLR_FOR_LANES(i, padded) {
        const double m = margin[i];
        linear[i] = m < 0.0 ? -m : 0.0;
        margin[i] = m < 0.0 ? 0.0 : m;
    }
    logistic_block(padded, with_value, with_curvature, margin, value, slope, curvature);
    PRIVLR_FOR_LANES(i, padded) {
        if (with_value)
            value[i] += 0.5 * linear[i];
        if (with_curvature)
            curvature[i] = linear[i] > 0.0 ? 0.0 : curvature[i];
    }
}

static double lane_sum(ptrdiff_t padded, const double *value) {
    double lane[PRIVLR_LANES] = {0.0};
    for (ptrdiff_t j = 0; j < padded; j += PRIVLR_LANES)
        for (ptrdiff_t k = 0; k < PRIVLR_LANES; k++)
            lane[k] += value[j + k];
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* One block; returns its loss, if that is asked for. */
static inline double evaluate_block(ptrdiff_t count, int loss, int with_value, int with_curvature,
                                    const double *raw_prediction, const double *label,
                                    const double *weight, double *gradient_out,
                                    double *hessian_out) {
    double margin[PRIVLR_BLOCK], value[PRIVLR_BLOCK], slope[PRIVLR_BLOCK], curvature[PRIVLR_BLOCK];
    const ptrdiff_t padded = privlr_padded(count);

#pragma omp simd
    for (ptrdiff_t i = 0; i < count; i++)
        margin[i] = label[i] * raw_prediction[i];
    for (ptrdiff_t i = count; i < padded; i++)
        margin[i] = 0.0;

    if (loss == PRIVLR_LOSS_CAPPED)
        capped_block(padded, with_value, with_curvature, margin, value, slope, curvature);
    else
        logistic_block(padded, with_value, with_curvature, margin, value, slope, curvature);

    if (weight) {
#pragma omp simd
        for (ptrdiff_t i = 0; i < count; i++) {
            if (with_value)
                value[i] *= weight[i];
            slope[i] *= weight[i];
            if (with_curvature)
                curvature[i] *= weight[i];
        }
    }
    if (gradient_out) {
#pragma omp simd
        for (ptrdiff_t i = 0; i < count; i++)
            gradient_out[i] = -label[i] * slope[i];
    }
    if (with_curvature)
        memcpy(hessian_out, curvature, (size_t)count * sizeof *curvature);
    if (!with_value)
        return 0.0;
    for (ptrdiff_t i = count; i < padded; i++)
        value[i] = 0.0;
    return lane_sum(padded, value);
}

static inline double evaluate(size_t n, int loss, int with_value, int with_curvature,
                              const double *raw_prediction, const double *y,
                              const double *sample_weight, double *gradient_out,
                              double *hessian_out) {
    double sum = 0.0;
    /* The samples of one step of a pass, in registers. */
    if (n == PRIVLR_LANES)
        return evaluate_block(PRIVLR_LANES, loss, with_value, with_curvature, raw_prediction, y,
                              sample_weight, gradient_out, hessian_out);
    for (size_t first = 0; first < n; first += PRIVLR_BLOCK)
        sum += evaluate_block(
            privlr_block_length(n - first), loss, with_value, with_curvature,
            raw_prediction + first, y + first, sample_weight ? sample_weight + first : NULL,
            gradient_out ? gradient_out + first : NULL, hessian_out ? hessian_out + first : NULL);
    return sum;
}

double PRIVLR_KERNEL(privlr_logistic_evaluate)(size_t n, int loss, const double *raw_prediction,
                                               const double *y, const double *sample_weight,
                                               double *gradient_out, double *hessian_out) {
    return hessian_out
               ? evaluate(n, loss, 1, 1, raw_prediction, y, sample_weight, gradient_out,
                          hessian_out)
               : evaluate(n, loss, 1, 0, raw_prediction, y, sample_weight, gradient_out, NULL);
}

void PRIVLR_KERNEL(privlr_logistic_slopes)(size_t n, int loss, const double *raw_prediction,
                                           const double *y, const double *sample_weight,
                                           double *gradient_out, double *hessian_out) {
    if (hessian_out)
        evaluate(n, loss, 0, 1, raw_prediction, y, sample_weight, gradient_out, hessian_out);
    else
        evaluate(n, loss, 0, 0, raw_prediction, y, sample_weight, gradient_out, NULL);
}
