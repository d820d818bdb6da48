/* From words of a keystream to uniforms, exponentials and normals, element by element; what
 * the words mean is in variates.h. */
#ifndef PRIVLR_TRANSFORM_H
#define PRIVLR_TRANSFORM_H

#include <stddef.h>
#include <stdint.h>

/* Uniforms in (0, 1), up to those whose exponent field is all zeros. */
void privlr_uniform_map(size_t n, int field_bits, const uint64_t *word, double *uniform_out);

void privlr_exponential_map(size_t n, const uint64_t *word, const double *uniform, double *out);

/* Normals into out[0 .. 2 pairs - 1]. */
void privlr_normal_map(size_t pairs, const uint64_t *radius_word, const double *radius_uniform,
                       const uint64_t *angle_word, const double *angle_uniform, double *out);

#endif
