/* Branch-free double-precision exp and log1p for loops that the compiler vectorises.
 *
 * libm's calls cannot be vectorised and differ between systems. These use only
 * operations that IEEE 754 rounds correctly (+ - * / fma and moving bits), so a
 * lane gives the same bits at every vector width and on every processor. Without
 * hardware fma the library function computes it: as exact, but slow.
 *
 * The sources that include this are compiled once per instruction set, each time
 * with another PRIVLR_VARIANT; dispatch.c chooses among the results.
 */
#ifndef PRIVLR_SIMD_H
#define PRIVLR_SIMD_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PRIVLR_PASTE_(name, variant) name##_##variant
#define PRIVLR_PASTE(name, variant) PRIVLR_PASTE_(name, variant)
#define PRIVLR_KERNEL(name) PRIVLR_PASTE(name, PRIVLR_VARIANT)

/* Loops run over whole groups of lanes and sums keep one partial sum a lane, whatever
 * the register width: the order of additions is then the same everywhere. Arrays are
 * worked on in blocks that stay in the first-level cache, padded to whole groups, in
 * several short loops: a long body would wait for its own results. */
enum { PRIVLR_LANES = 8, PRIVLR_BLOCK = 16 * PRIVLR_LANES };

static inline ptrdiff_t privlr_block_length(size_t remaining) {
    return remaining < PRIVLR_BLOCK ? (ptrdiff_t)remaining : PRIVLR_BLOCK;
}

static inline ptrdiff_t privlr_padded(ptrdiff_t count) {
    return (count + PRIVLR_LANES - 1) / PRIVLR_LANES * PRIVLR_LANES;
}

/* for (i = 0; i < padded; i++) body, vectorised without a scalar remainder */
#define PRIVLR_FOR_LANES(i, padded)                                                                \
    for (ptrdiff_t group_ = 0; group_ < (padded); group_ += PRIVLR_LANES)                          \
    _Pragma("omp simd") for (ptrdiff_t i = group_; i < group_ + PRIVLR_LANES; i++)

static const double privlr_log2_hi = 0x1.62e42fefa39efp-1;
static const double privlr_log2_lo = 0x1.abc9e3b39803fp-56;

static inline uint64_t privlr_bits(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double privlr_from_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* exp(x) for x <= 600, NaN for NaN; 1.1 ulp. Results below 2^-1022 are rounded once.
 *
 * x = k log 2 + r with |r| <= log(2)/2. Adding 1.5 * 2^52 + bias to x / log 2 rounds
 * it to an integer and leaves that integer plus the bias in the low bits, from where
 * a shift moves it into the exponent field. The bias is 128 too large, so that the
 * power of two is a normal number for every k; the last product takes 2^128 away.
 * Where exp(x) < 2^-1075 that product is with 0: an underflow would cost 100 cycles.
 *
 * Polynomials are summed pairwise (Estrin): a loop is bound by latency otherwise.
 */
static inline double privlr_exp(double x) {
    const double scale = x < -746.0 ? 0.0 : 0x1p-128;
    x = x < -746.0 ? -746.0 : x;
    const double shift = 0x1.8p52 + 1151.0;
    const double shifted = fma(x, 0x1.71547652b82fep+0, shift);
    const double power = privlr_from_bits(privlr_bits(shifted) << 52);
    const double k = shifted - shift;
    const double r = fma(k, -0x1.a39ef35793c76p-33, fma(k, -0x1.62e42feep-1, x));
    const double r2 = r * r;
    const double r4 = r2 * r2;
    const double p01 = fma(0x1.5555555555556p-3, r, 0.5);
    const double p23 = fma(0x1.11111111109b3p-7, r, 0x1.5555555553d63p-5);
    const double p45 = fma(0x1.a01a01a7c41d5p-13, r, 0x1.6c16c1788bd90p-10);
    const double p67 = fma(0x1.71de0dae63bb3p-19, r, 0x1.a019b90d2ae7ap-16);
    const double p89 = fma(0x1.af38a9b0ec855p-26, r, 0x1.289185613a3d6p-22);
    const double high = fma(p89, r4, fma(p67, r2, p45));
    const double p = fma(high, r4, fma(p23, r2, p01));
    return fma(fma(p, r2, r), power, power) * scale;
}

/* For s = f / (2 + f), log(1 + f) = f - s (f - R) with R = s^2 P(s^2) = 2/3 s^2 + ...;
 * |s| <= 1/5. Returns R. */
static inline double privlr_log1p_remainder(double s) {
    const double z = s * s;
    const double z2 = z * z;
    const double p01 = fma(0x1.9999999999f4ap-2, z, 0x1.5555555555555p-1);
    const double p23 = fma(0x1.c71c72e6a0bf3p-3, z, 0x1.24924923d8d53p-2);
    const double p45 = fma(0x1.3b2a29705fb2cp-3, z, 0x1.745caa083f891p-3);
    const double p67 = fma(0x1.16d0d0a09926bp-3, z, 0x1.0e857c4765545p-3);
    return z * fma(fma(p67, z2, p45), z2 * z2, fma(p23, z2, p01));
}

#endif
