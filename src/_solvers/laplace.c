/* The exact sampler of the discrete Laplace distribution by Canonne, Kamath and
 * Steinke (NeurIPS 2020, Algorithms 1 and 2), in integers only. */
#include "noise.h"

#include "entropy.h"

/* An honest stream passes these counts with probability below 2^-1000: 1/K!
 * and exp(-K). Passing them is reported as a broken stream. */
enum { FACTORIAL_MAX = 180, GEOMETRIC_MAX = 700 };

/* |k| < scale (GEOMETRIC_MAX + 1) has to fit. */
_Static_assert(PRIVLR_LAPLACE_SCALE_MAX <= ((int64_t)1 << 60) / (GEOMETRIC_MAX + 1),
               "no result overflows");

typedef enum { NO = 0, YES = 1, BROKEN = 2 } verdict;

/* The bits of the largest value below n, as a mask. */
static inline uint64_t mask_below(uint64_t n) {
    uint64_t mask = n - 1;
    for (int shift = 1; shift < 64; shift *= 2) {
        mask |= mask >> shift;
    }
    return mask;
}

/* Uniform on {0, .., n - 1}; mask = mask_below(n). */
static inline uint64_t uniform_below(privlr_bits *bits, uint64_t n, uint64_t mask) {
    if (mask == 0) {
        return 0; /* no choice, no bits */
    }
    uint64_t x;
    do {
        x = privlr_bits_next(bits) & mask;
    } while (x >= n);
    return x;
}

/* YES with probability exp(-numerator / denominator), 0 <= numerator <=
 * denominator. Bernoulli(gamma / K) is drawn as Bernoulli(gamma) and
 * Bernoulli(1 / K), so that no product is ever formed. */
static verdict bernoulli_exp(privlr_bits *bits, uint64_t numerator, uint64_t denominator,
                             uint64_t mask) {
    for (uint64_t k = 1; k <= FACTORIAL_MAX; k++) {
        if (uniform_below(bits, denominator, mask) >= numerator ||
            uniform_below(bits, k, mask_below(k)) != 0) {
            return k % 2 == 1 ? YES : NO;
        }
    }
    return BROKEN;
}

/* Geometric with P(v) proportional to exp(-v), or -1 from a broken stream. */
static int64_t geometric(privlr_bits *bits) {
    for (int64_t v = 0; v <= GEOMETRIC_MAX; v++) {
        verdict more = bernoulli_exp(bits, 1, 1, 0);
        if (more != YES) {
            return more == NO ? v : -1;
        }
    }
    return -1;
}

static privlr_status laplace_draw(privlr_bits *bits, uint64_t scale, uint64_t mask, int64_t *out) {
    for (;;) {
        uint64_t low = uniform_below(bits, scale, mask);
        verdict keep = bernoulli_exp(bits, low, scale, mask);
        if (keep == NO) {
            continue;
        }
        int64_t high = keep == YES ? geometric(bits) : -1;
        if (high < 0) {
            return PRIVLR_NO_ENTROPY;
        }
        int64_t magnitude = (int64_t)low + (int64_t)scale * high;
        int negative = (int)(privlr_bits_next(bits) & 1);
        if (!(negative && magnitude == 0)) { /* zero would count twice */
            *out = negative ? -magnitude : magnitude;
            return PRIVLR_OK;
        }
    }
}

privlr_status privlr_noise_discrete_laplace(const uint8_t *key, size_t n, int64_t scale,
                                            int64_t *out) {
    if (scale < 1 || scale > PRIVLR_LAPLACE_SCALE_MAX) {
        return PRIVLR_EXTREME;
    }
    privlr_bits bits;
    privlr_status status = privlr_bits_open(&bits, key);
    if (status != PRIVLR_OK) {
        return status;
    }
    uint64_t mask = mask_below((uint64_t)scale);
    for (size_t i = 0; i < n && status == PRIVLR_OK; i++) {
        status = laplace_draw(&bits, (uint64_t)scale, mask, out + i);
    }
    privlr_memory_wipe(&bits, sizeof bits);
    return status;
}
