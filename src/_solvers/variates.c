#include "variates.h"

#include <math.h>
#include <string.h>

#include "transform.h"

#define SIGN_BIT ((uint64_t)1 << 63)
#define MANTISSA_BITS (((uint64_t)1 << 52) - 1)
#define ONE_BITS ((uint64_t)1023 << 52)

enum { EXPONENTIAL_FIELD = 11, ANGLE_FIELD = 9 };

/* The uniform of a word whose exponent field holds `zeros` zeros only. */
static double deep_uniform(privlr_bits *bits, int zeros, uint64_t mantissa) {
    uint64_t in_one_two = ONE_BITS | mantissa;
    double scaled;
    for (int further = 0; further < 2; further++) {
        uint64_t word = privlr_bits_next(bits);
        if (word == 0) {
            zeros += 64;
            continue;
        }
        for (; word < SIGN_BIT; word <<= 1) {
            zeros++;
        }
        break;
    }
    memcpy(&scaled, &in_one_two, sizeof scaled);
    return ldexp(scaled, -1 - zeros);
}

static void uniforms_draw(privlr_bits *bits, size_t n, int field_bits,
                          privlr_uniform_block *block) {
    const uint64_t field_mask = ((uint64_t)1 << field_bits) - 1;
    privlr_bits_fill(bits, n, block->word);
    privlr_uniform_map(n, field_bits, block->word, block->uniform);
    for (size_t i = 0; i < n; i++) {
        if ((block->word[i] >> 52 & field_mask) == 0) {
            block->uniform[i] = deep_uniform(bits, field_bits, block->word[i] & MANTISSA_BITS);
        }
    }
}

void privlr_exponentials_draw(privlr_bits *bits, size_t n, privlr_uniform_block *block,
                              double *out) {
    uniforms_draw(bits, n, EXPONENTIAL_FIELD, block);
    privlr_exponential_map(n, block->word, block->uniform, out);
}

void privlr_normals_draw(privlr_bits *bits, size_t pairs, privlr_uniform_block *radii,
                         privlr_uniform_block *angles, double *out) {
    uniforms_draw(bits, pairs, EXPONENTIAL_FIELD, radii);
    uniforms_draw(bits, pairs, ANGLE_FIELD, angles);
    privlr_normal_map(pairs, radii->word, radii->uniform, angles->word, angles->uniform, out);
}
