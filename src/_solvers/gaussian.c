#include "noise.h"

#include <math.h>

#include "entropy.h"
#include "refine.h"
#include "variates.h"

/* In units of the grid, with z the normal, the computed value is within
 * 13 u |sigma z| + u |mean| of the ideal one: 11 u for z, 1 u for the product,
 * 1 u for the sum. ERROR is above that, and leaves at most 1/4 within RANGE, so
 * that only the boundary nearest to the computed value can be in doubt. */
#define ERROR 0x1p-48
#define RANGE 0x1p46
#define NORMAL_MAX 16.0

#define SCALE_MIN 0x1p-500
#define SCALE_MAX 0x1p500

/* Adding and subtracting it rounds |x| < 2^51 to an integer, and never to -0,
 * which would tell the sign of what was rounded. */
#define ROUNDER 0x1.8p52

typedef struct {
    privlr_bits bits;
    privlr_uniform_block radii, angles;
    double normal[2 * PRIVLR_BLOCK], reach[2 * PRIVLR_BLOCK];
    uint64_t first_pair; /* index of the block's first pair in the call */
} gaussian_workspace;

/* The integer nearest to center + scale z, z the ideal normal. */
static double round_refined(wide square, double normal, double scale, double center) {
    double value = center + scale * normal;
    double nearest = (value + ROUNDER) - ROUNDER;
    double boundary = value > nearest ? nearest + 0.5 : nearest - 0.5;
    int above = normal > 0.0 ? privlr_refined_exceeds(square, scale, center, boundary)
                             : !privlr_refined_exceeds(square, scale, -center, -boundary);
    return above ? boundary + 0.5 : boundary - 0.5;
}

/* Decides again what of the block's pair `i` is in doubt. */
static void pair_decide(const gaussian_workspace *work, size_t i, double scale, double per_grid,
                        double grid, const double *mean, double *out) {
    privlr_refined_pair pair =
        privlr_pair_refine(&work->bits, work->first_pair + i, work->radii.word[i],
                           work->radii.uniform[i], work->angles.word[i], work->angles.uniform[i]);
    for (size_t j = 0; j < 2; j++) {
        size_t k = 2 * i + j;
        if (work->reach[k] >= 0.5) {
            out[k] =
                grid * round_refined(pair.square[j], work->normal[k], scale, mean[k] * per_grid);
        }
    }
    privlr_memory_wipe(&pair, sizeof pair);
}

static void block_round(gaussian_workspace *work, size_t n, double scale, double per_grid,
                        double grid, const double *restrict mean, double *restrict out) {
    size_t pairs = (n + 1) / 2;
    privlr_normals_draw(&work->bits, pairs, &work->radii, &work->angles, work->normal);
    work->reach[2 * pairs - 1] = 0.0; /* an odd block's last normal is not used */
    for (size_t i = 0; i < n; i++) {
        double center = mean[i] * per_grid, step = scale * work->normal[i];
        double value = center + step;
        double nearest = (value + ROUNDER) - ROUNDER;
        work->reach[i] = fabs(value - nearest) + ERROR * (fabs(center) + fabs(step));
        out[i] = grid * nearest;
    }
    for (size_t i = 0; i < pairs; i++) {
        if (work->reach[2 * i] >= 0.5 || work->reach[2 * i + 1] >= 0.5) {
            pair_decide(work, i, scale, per_grid, grid, mean, out);
        }
    }
}

static int is_power_of_two(double x) {
    int exponent;
    return x >= SCALE_MIN && x <= SCALE_MAX && frexp(x, &exponent) == 0.5;
}

privlr_status privlr_noise_rounded_gaussian(const uint8_t *key, size_t n, double sigma,
                                            const double *mean, double grid, double *out) {
    double scale = sigma / grid;
    if (!is_power_of_two(grid) || !(scale >= SCALE_MIN && NORMAL_MAX * scale <= RANGE)) {
        return PRIVLR_EXTREME;
    }
    double limit = (RANGE - NORMAL_MAX * scale) * grid;
    int inside = 1;
    for (size_t i = 0; i < n; i++) {
        inside &= fabs(mean[i]) <= limit; /* false for NaN */
    }
    if (!inside) {
        return PRIVLR_EXTREME;
    }
    gaussian_workspace work;
    privlr_status status = privlr_bits_open(&work.bits, key);
    if (status != PRIVLR_OK) {
        return status;
    }
    for (size_t start = 0; start < n; start += 2 * PRIVLR_BLOCK) {
        size_t count = n - start < 2 * PRIVLR_BLOCK ? n - start : 2 * PRIVLR_BLOCK;
        work.first_pair = start / 2;
        block_round(&work, count, scale, 1.0 / grid, grid, mean + start, out + start);
    }
    privlr_memory_wipe(&work, sizeof work);
    return PRIVLR_OK;
}
