/* The maps of transform.h, compiled once per instruction set. Only operations that are
 * rounded correctly, so that every processor gives the same bits. */
#include "kernels.h"
#include "simd.h"

#include <float.h>

#if FLT_EVAL_METHOD != 0
#error "the error bounds assume that doubles are evaluated as doubles"
#endif

#define SIGN_BIT ((uint64_t)1 << 63)
#define MANTISSA_BITS (((uint64_t)1 << 52) - 1)
#define ONE_BITS ((uint64_t)1023 << 52)
#define TWO_52_BITS ((uint64_t)1075 << 52) /* 2^52; its low bits count units */

/* A bit as the sign of a double: comparing doubles, unlike testing 64-bit
 * integers, vectorises on every instruction set. */
static inline double sign_of_bit(uint64_t word, int bit) {
    return privlr_from_bits((word << (63 - bit) & SIGN_BIT) | ONE_BITS);
}

void PRIVLR_KERNEL(privlr_uniform_map)(size_t n, int field_bits, const uint64_t *restrict word,
                                       double *restrict uniform_out) {
    const uint64_t field_mask = ((uint64_t)1 << field_bits) - 1;
    for (size_t i = 0; i < n; i++) {
        /* Converted to a double, the field shows its leading bit as exponent. */
        double field = privlr_from_bits((word[i] >> 52 & field_mask) | TWO_52_BITS) - 0x1p52;
        uint64_t exponent = (privlr_bits(field) >> 52) - (uint64_t)field_bits;
        uniform_out[i] = privlr_from_bits(exponent << 52 | (word[i] & MANTISSA_BITS));
    }
}

/* -log(U), or -log1p(-U) for the upper half, with U = uniform / 2: relative
 * error below 2 u. Both are -(k log 2 + log1p(N)) with N exact and
 * sqrt(1/2) - 1 <= N <= sqrt(2) - 1; then with s = N / (2 + N)
 * log1p(N) = N - (N^2/2 - s (N^2/2 + R)), R = 2 atanh(s)/s - 2 = s^2 L(s^2),
 * where the polynomial L adds a relative error below 2^-57. */
static inline double exponential(double uniform, double upper_sign) {
    const double log2_high = 0x1.62e42fee00000p-1,
                 log2_low = 0x1.a39ef35793c76p-33; /* k * log2_high is exact */
    const double sqrt2 = 0x1.6a09e667f3bcdp+0;
    const double small = 0x1.2bec333018867p-2; /* 1 - sqrt(1/2) */
    double u = 0.5 * uniform;

    double f = privlr_from_bits((privlr_bits(u) & MANTISSA_BITS) | ONE_BITS);
    double k_lower = privlr_from_bits(privlr_bits(u) >> 52 | TWO_52_BITS) - (0x1p52 + 1023.0);
    k_lower = f > sqrt2 ? k_lower + 1.0 : k_lower;
    double n_lower = (f > sqrt2 ? 0.5 * f : f) - 1.0;
    double k_upper = u < small ? 0.0 : -1.0;
    double n_upper = u < small ? -u : 1.0 - 2.0 * u;

    double k = upper_sign < 0.0 ? k_upper : k_lower;
    double n = upper_sign < 0.0 ? n_upper : n_lower;
    double s = n / (2.0 + n), w = s * s, half_square = 0.5 * n * n;
    double r = 0x1.2b66019bccca4p-3;
    r = 0x1.39fd375866f03p-3 + w * r;
    r = 0x1.7462be1319000p-3 + w * r;
    r = 0x1.c71c62c26f912p-3 + w * r;
    r = 0x1.2492492e0ec12p-2 + w * r;
    r = 0x1.99999999951c1p-2 + w * r;
    r = w * (0x1.5555555555558p-1 + w * r);
    return ((half_square - (s * (half_square + r) + k * log2_low)) - n) - k * log2_high;
}

/* sin and cos on [0, pi/4], relative errors below 2 u; the polynomials add
 * less than 2^-58. */
static inline void sine_cosine(double angle, double *sine, double *cosine) {
    double w = angle * angle;
    double s = 0x1.5d924c5e9773cp-33;
    s = -0x1.ae5e63e02493dp-26 + w * s;
    s = 0x1.71de3574d1543p-19 + w * s;
    s = -0x1.a01a019c0e659p-13 + w * s;
    s = 0x1.111111110f862p-7 + w * s;
    s = -0x1.5555555555549p-3 + w * s;
    *sine = angle + angle * (w * s);
    double c = -0x1.8faffe0c9d477p-37;
    c = 0x1.1ee9ef027b84cp-29 + w * c;
    c = -0x1.27e4f80f49139p-22 + w * c;
    c = 0x1.a01a019cba8a4p-16 + w * c;
    c = -0x1.6c16c16c151ebp-10 + w * c;
    c = 0x1.555555555554cp-5 + w * c;
    *cosine = 1.0 - (0.5 * w - w * w * c);
}

void PRIVLR_KERNEL(privlr_exponential_map)(size_t n, const uint64_t *restrict word,
                                           const double *restrict uniform, double *restrict out) {
    for (size_t i = 0; i < n; i++) {
        out[i] = exponential(uniform[i], sign_of_bit(word[i], 63));
    }
}

void PRIVLR_KERNEL(privlr_normal_map)(size_t pairs, const uint64_t *restrict radius_word,
                                      const double *restrict radius_uniform,
                                      const uint64_t *restrict angle_word,
                                      const double *restrict angle_uniform, double *restrict out) {
    for (size_t i = 0; i < pairs; i++) {
        uint64_t word = angle_word[i];
        double sine, cosine;
        double radius = sqrt(2.0 * exponential(radius_uniform[i], sign_of_bit(radius_word[i], 63)));
        sine_cosine(0x1.921fb54442d18p-1 * angle_uniform[i], &sine, &cosine);
        double swap = sign_of_bit(word, 61);
        double first = radius * (swap < 0.0 ? sine : cosine);
        double second = radius * (swap < 0.0 ? cosine : sine);
        out[2 * i] = privlr_from_bits(privlr_bits(first) ^ (word & SIGN_BIT));
        out[2 * i + 1] = privlr_from_bits(privlr_bits(second) ^ (word << 1 & SIGN_BIT));
    }
}
