#include "noise.h"

#include <math.h>

#include "entropy.h"
#include "variates.h"

enum { SUM_LANES = 8 };

/* A running sum of nonnegative terms with the rounding error of every addition
 * kept aside (Knuth's two-sum), in lanes so that it vectorises. The relative
 * error of the total is below 2 u for any number of terms under 2^40. */
typedef struct {
    double high[SUM_LANES], low[SUM_LANES];
} compensated_sum;

static inline void sum_add(compensated_sum *sum, int lane, double x) {
    double total = sum->high[lane] + x;
    double part = total - sum->high[lane];
    sum->low[lane] += (sum->high[lane] - (total - part)) + (x - part);
    sum->high[lane] = total;
}

static void sum_add_array(compensated_sum *sum, size_t n, const double *x) {
    compensated_sum s = *sum;
    size_t i = 0;
    for (; i + SUM_LANES <= n; i += SUM_LANES) {
        for (int lane = 0; lane < SUM_LANES; lane++) {
            sum_add(&s, lane, x[i + (size_t)lane]);
        }
    }
    for (int lane = 0; i < n; i++, lane++) {
        sum_add(&s, lane, x[i]);
    }
    *sum = s;
}

static double sum_total(const compensated_sum *sum) {
    compensated_sum total = {{0}, {0}};
    double low = 0.0;
    for (int lane = 0; lane < SUM_LANES; lane++) {
        sum_add(&total, 0, sum->high[lane]);
        low += sum->low[lane];
    }
    return total.high[0] + (total.low[0] + low);
}

typedef struct {
    privlr_bits bits;
    privlr_uniform_block radii, angles;
    double normal[2 * PRIVLR_BLOCK];
    compensated_sum radius, square_norm;
} sphere_workspace;

/* Errors in units of u = 2^-53: radius 5 (exponentials) + 2 (sum) + 1 (division
 * by the rate); direction 11 (normals) + 1.5 (squares and their sum, halved by
 * the root) + 1 (root) + 1 (division); product 1. In all below 25 < 64. */
privlr_status privlr_noise_sphere(const uint8_t *key, size_t d, double rate, double *out,
                                  double *radius_out) {
    sphere_workspace work;
    privlr_status status = privlr_bits_open(&work.bits, key);
    if (status != PRIVLR_OK) {
        return status;
    }
    work.radius = work.square_norm = (compensated_sum){{0}, {0}};
    for (size_t start = 0; start < d; start += PRIVLR_BLOCK) {
        size_t n = d - start < PRIVLR_BLOCK ? d - start : PRIVLR_BLOCK;
        privlr_exponentials_draw(&work.bits, n, &work.radii, work.normal);
        sum_add_array(&work.radius, n, work.normal);
    }
    for (size_t start = 0; start < d; start += 2 * PRIVLR_BLOCK) {
        size_t n = d - start < 2 * PRIVLR_BLOCK ? d - start : 2 * PRIVLR_BLOCK;
        privlr_normals_draw(&work.bits, (n + 1) / 2, &work.radii, &work.angles, work.normal);
        for (size_t i = 0; i < n; i++) {
            out[start + i] = work.normal[i];
            work.normal[i] *= work.normal[i];
        }
        sum_add_array(&work.square_norm, n, work.normal);
    }
    double radius = sum_total(&work.radius);
    double norm = sqrt(sum_total(&work.square_norm));
    for (size_t i = 0; i < d; i++) {
        out[i] = out[i] / norm * (radius / rate);
    }
    *radius_out = radius;
    privlr_memory_wipe(&work, sizeof work);
    return PRIVLR_OK;
}
