/* Ideal normals to 224 bits, and the one question asked of them. Slow (tens of
 * microseconds) and rare. */
#ifndef PRIVLR_REFINE_H
#define PRIVLR_REFINE_H

#include <stdint.h>

#include "entropy.h"
#include "wide.h"

/* Squares of the two ideal normals of a pair, in output order. */
typedef struct {
    wide square[2];
} privlr_refined_pair;

/* Carries the mantissas of the two uniforms of pair `pair` on by 171 bits each
 * and evaluates the pair's formula on them. The bits are the first six words of
 * block 2^63 + pair of the stream, three for the radius, three for the angle,
 * least significant first: the key alone defines the ideal normals, whichever
 * of them are ever looked at so closely. */
privlr_refined_pair privlr_pair_refine(const privlr_bits *bits, uint64_t pair, uint64_t radius_word,
                                       double radius_uniform, uint64_t angle_word,
                                       double angle_uniform);

/* Whether center + scale sqrt(square) > bound. Wrong only when the two sides'
 * difference is below the arithmetic's resolution, for a normal's square with
 * probability below 2^-100. 0 < scale; |center|, |bound| and scale < 2^500. */
int privlr_refined_exceeds(wide square, double scale, double center, double bound);

#endif
