/* Noise of the private mechanisms. Each call has its own keystream: `key` is
 * PRIVLR_KEY_BYTES bytes (a seeded run, which carries no privacy), or NULL for
 * a fresh key of the system. Outputs are written on PRIVLR_OK only, unless said
 * otherwise; PRIVLR_NO_ENTROPY means that the system gave no bits. */
#ifndef PRIVLR_NOISE_H
#define PRIVLR_NOISE_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

/* Largest scale of the discrete Laplace distribution, 2^50. */
#define PRIVLR_LAPLACE_SCALE_MAX ((int64_t)1 << 50)

/* b in R^d, d >= 1, of density proportional to exp(-rate ||b||), rate > 0:
 * *radius_out = rate ||b||, of law Gamma(d, 1), and a uniform direction.
 * For b* the ideal vector on the same bits, ||b - b*|| <= 2^-47 ||b*||. The
 * caller compares the radius with the bound its proof assumes. `out` is scratch
 * until the end. */
privlr_status privlr_noise_sphere(const uint8_t *key, size_t d, double rate, double *out,
                                  double *radius_out);

/* n independent integers with P(k) proportional to exp(-|k| / scale), exactly.
 * PRIVLR_EXTREME unless 1 <= scale <= PRIVLR_LAPLACE_SCALE_MAX. |k| < 2^60. */
privlr_status privlr_noise_discrete_laplace(const uint8_t *key, size_t n, int64_t scale,
                                            int64_t *out);

/* The ideal mean[i] + sigma N_i, N_i independent standard normals, each rounded
 * to the nearest multiple of `grid`, a power of two. A value whose error interval
 * straddles a rounding boundary is decided in 224-bit arithmetic, on further
 * bits of the same uniforms: wrong with probability below 2^-100.
 * PRIVLR_EXTREME unless 2^-500 <= grid <= 2^500, 2^-500 <= sigma / grid and
 * |mean[i]| + 16 sigma <= 2^46 grid. `out` and `mean` do not overlap. */
privlr_status privlr_noise_rounded_gaussian(const uint8_t *key, size_t n, double sigma,
                                            const double *mean, double grid, double *out);

#endif
