#include "kernels.h"
#include "simd.h"

#include <float.h>

/* log(y) for y >= 1, within 0.03: the bits of a double, read as an integer, are its
 * logarithm with linear interpolation between powers of 2. */
static inline double rough_log(double y) {
    const double scaled = privlr_from_bits((privlr_bits(y) >> 12) | 0x4330000000000000u);
    return fma(scaled - 0x1p52, 0x1.62e42fefa39efp-41, -1022.957 * 0x1.62e42fefa39efp-1);
}

/* exp(x) for x <= 0, within a part in 1e5 down to exp(-700), where it stays; see privlr_exp. */
static inline double rough_exp(double x) {
    x = x < -700.0 ? -700.0 : x;
    const double shift = 0x1.8p52 + 1023.0;
    const double shifted = fma(x, 0x1.71547652b82fep+0, shift);
    const double power = privlr_from_bits(privlr_bits(shifted) << 52);
    const double r = fma(shifted - shift, -privlr_log2_hi, x);
    const double r2 = r * r;
    const double p = fma(fma(1.0 / 120.0, r, 1.0 / 24.0), r2, fma(1.0 / 6.0, r, 0.5));
    return fma(fma(p, r2, r), power, power);
}

/* log(1 + exp(-x)) for x >= 0, within 0.007. */
static inline double rough_softplus(double x) {
    x = x < 5.0 ? x : 5.0;
    return fma(fma(fma(-0.00988629, x, 0.11781056), x, -0.47961892), x, 0.68959032);
}

/* What the rounded sum a + b lost. */
static inline double sum_lost(double a, double b, double sum) {
    const double from_b = sum - a;
    return (a - (sum - from_b)) + (b - from_b);
}

/* f is concave for x >= 0: its tangent at 0 and its asymptote bound the root from below. */
static void start_tangent(ptrdiff_t padded, double kappa, const double *tau_hi, double *x) {
    const double inverse_slope = 1.0 / (1.0 + 0.25 * kappa);

    PRIVLR_FOR_LANES(i, padded) {
        const double tangent = (tau_hi[i] + 0.5 * kappa) * inverse_slope;
        x[i] = tangent > tau_hi[i] ? tangent : tau_hi[i];
    }
}

/* kappa exp(-x) = x - tau has the solution x = tau + W(kappa exp(-tau)), and
 * W(v) ~ L (1 - log(1 + L) / (2 + L)) with L = log(1 + v). For sigma(-x) in the place
 * of exp(-x), subtract log(1 + exp(-x)). Error below 0.4 for kappa >= 2. */
static void start_lambert(ptrdiff_t padded, double kappa, const double *tau_hi, double *x) {
    const double log_kappa = rough_log(kappa);

    PRIVLR_FOR_LANES(i, padded) {
        const double log_v = log_kappa - tau_hi[i];
        const double bend = rough_softplus(fabs(log_v));
        const double level = (log_v > 0.0 ? log_v : 0.0) + bend;
        const double drop = level * rough_log(1.0 + level) / (2.0 + level);
        /* tau + level, without cancellation */
        const double exponential = (log_v > 0.0 ? log_kappa : tau_hi[i]) + bend - drop;
        x[i] = exponential - rough_softplus(exponential > 0.0 ? exponential : 0.0);
    }
}

/* One fourth-order step (Householder's third method, as a series) for
 *     f(x) = x - tau - kappa sigma(-x),   tau = tau_hi + tau_lo.
 * With E = exp(-x), w = 1 + E, D = w^2 + kappa E:  f = (w (x - tau) - kappa E) / w,
 * f' = D / w^2, so one division serves the whole step. A first step that another follows
 * may be rough: it need not end closer than the other begins. */
static inline void refine(int rough, ptrdiff_t padded, double kappa, double kappa_lo,
                          const double *tau_hi, const double *tau_lo, double *x) {
    double exponential[PRIVLR_BLOCK];

    PRIVLR_FOR_LANES(i, padded)
    exponential[i] = rough ? rough_exp(-x[i]) : privlr_exp(-x[i]);

    PRIVLR_FOR_LANES(i, padded) {
        const double e = exponential[i];
        const double w = 1.0 + e;
        const double pull = kappa * e;
        const double pull_lo = rough ? 0.0 : fma(kappa_lo, e, fma(kappa, e, -pull));
        const double d = fma(w, w, pull);
        const double inverse = 1.0 / (w * d);
        const double inverse_d = w * inverse;
        const double tail = (x[i] - tau_hi[i]) - (rough ? 0.0 : tau_lo[i]);
        const double h = (fma(-w, tail, pull) + pull_lo) * (w * inverse_d);
        const double g = pull * inverse_d;          /* -f'' / (f' c) */
        const double c = (1.0 - e) * (d * inverse); /* tanh(x / 2) */
        const double second = fma(c * c, fma(0.5, g, -0.25), 1.0 / 12.0);
        x[i] += h * fma(g * h, fma(h, second, 0.5 * c), 1.0);
    }
}

/* With y = +-1 and t = y z, the minimum is where t - kappa sigma(-t) = tau,
 * kappa = c / rho, tau = y (s + a / rho). tau and kappa are kept to twice the working
 * precision, since s and a / rho may cancel, and so may tau and kappa.
 *
 * t(-kappa - tau) = -t(tau), hence t >= 0 can be had, where neither the start nor f
 * loses digits. The steps' number is fixed: from the start's error (below kappa / 4
 * and 0.4) each fourth-order step leaves less than its fourth power.
 */
void PRIVLR_KERNEL(privlr_logistic_prox)(size_t n, double c, double rho, const double *y,
                                         const double *s, const double *a, double *z_out) {
    const double kappa = c / rho;
    const double kappa_lo = fma(-kappa, rho, c) / rho;
    const double inverse = 1.0 / rho;
    const double inverse_lo = fma(-inverse, rho, 1.0) / rho;
    double sign[PRIVLR_BLOCK], tau_hi[PRIVLR_BLOCK], tau_lo[PRIVLR_BLOCK], x[PRIVLR_BLOCK];

    for (size_t first = 0; first < n; first += PRIVLR_BLOCK) {
        const ptrdiff_t count = privlr_block_length(n - first);
        const ptrdiff_t padded = privlr_padded(count);

#pragma omp simd
        for (ptrdiff_t i = 0; i < count; i++) {
            const double label = y[first + i];
            const double ratio = a[first + i] * inverse;
            const double ratio_lo = fma(a[first + i], inverse, -ratio) + a[first + i] * inverse_lo;
            const double total = s[first + i] + ratio;
            const double lost = sum_lost(s[first + i], ratio, total) + ratio_lo;
            const double hi = label * total;
            const double lo = label * lost;

            const int mirrored = hi + 0.5 * kappa < 0.0;
            const double sum = hi + kappa;
            /* Dekker's short form: if mirrored, -hi >= kappa or the sum is exact */
            const double sum_lo = (kappa - (sum - hi)) + (lo + kappa_lo);
            /* hi and kappa may cancel altogether: the start reads the leading part only */
            const double part = mirrored ? -sum : hi;
            const double part_lo = mirrored ? -sum_lo : lo;
            const double folded = part + part_lo;
            const int overflow = (part > DBL_MAX) | (folded > DBL_MAX);
            tau_hi[i] = overflow ? DBL_MAX : folded;
            tau_lo[i] = overflow ? 0.0 : sum_lost(part, part_lo, folded);
            sign[i] = mirrored ? -label : label;
        }
        for (ptrdiff_t i = count; i < padded; i++)
            tau_hi[i] = tau_lo[i] = 0.0;

        if (kappa <= 2.0)
            start_tangent(padded, kappa, tau_hi, x);
        else
            start_lambert(padded, kappa, tau_hi, x);
        if (kappa > 0.01)
            refine(1, padded, kappa, kappa_lo, tau_hi, tau_lo, x);
        refine(0, padded, kappa, kappa_lo, tau_hi, tau_lo, x);

#pragma omp simd
        for (ptrdiff_t i = 0; i < count; i++)
            z_out[first + i] = sign[i] * x[i];
    }
}
