/* Exponentials and normals in blocks, as explicit functions of the keystream.
 *
 * Every variate stands for an ideal one: the same formula in exact arithmetic
 * on uniforms whose mantissas go on for ever. No step rejects, so the computed
 * variate is a small relative error away from its ideal, always. With
 * u = 2^-53 the errors are at most
 *
 *   uniform      the mantissa's tail is dropped                          2 u
 *   exponential  2 u grows to 2.9 u through the logarithm; kernel 2 u    5 u
 *   normal       radius 5/2 u + 1 u; angle 2 u + 2 u; sin or cos 2 u;
 *                product 1 u                                            11 u
 *
 * both relative to the variate itself, however small it is. Uniforms below
 * 2^-140 are not told apart; they come up with less than that probability.
 *
 * Words: a block of uniforms takes one word each; then, in order, every uniform
 * whose exponent field is all zeros reads its further zeros from a word of its
 * own (two, if that is zero). A block of exponentials is one block of uniforms;
 * a block of normals is one for the radii of its pairs, then one for the
 * angles. */
#ifndef PRIVLR_VARIATES_H
#define PRIVLR_VARIATES_H

#include <stddef.h>
#include <stdint.h>

#include "entropy.h"

enum { PRIVLR_BLOCK = 128 };

/* Words of one block and the uniforms in (0, 1) read from them: bits 0-51 are
 * the mantissa, and the run of zeros at the top of the exponent field above it
 * is the exponent. */
typedef struct {
    uint64_t word[PRIVLR_BLOCK];
    double uniform[PRIVLR_BLOCK];
} privlr_uniform_block;

/* Exponential word: bit 63 chooses the half, bits 52-62 are the exponent field.
 * E = -log(U) or -log1p(-U), U = uniform / 2. */
static inline int privlr_word_is_upper_half(uint64_t word) {
    return (int)(word >> 63);
}

/* Angle word: bits 63, 62 are the signs of the pair, bit 61 swaps the pair
 * (cos, sin), bits 52-60 are the exponent field. angle = pi/4 * uniform. */
static inline int privlr_word_swaps_pair(uint64_t word) {
    return (int)(word >> 61 & 1);
}

/* n <= PRIVLR_BLOCK exponentials into `out`. */
void privlr_exponentials_draw(privlr_bits *bits, size_t n, privlr_uniform_block *block,
                              double *out);

/* `pairs` <= PRIVLR_BLOCK pairs of normals into out[0 .. 2 pairs - 1]. The
 * blocks keep what the pairs were made from, for refinement. */
void privlr_normals_draw(privlr_bits *bits, size_t pairs, privlr_uniform_block *radii,
                         privlr_uniform_block *angles, double *out);

#endif
