/* Nonnegative fixed-point numbers with 224 fractional bits: the arithmetic that
 * decides the rare roundings which doubles cannot. Plain schoolbook code; every
 * product and quotient is cut off, an error below 2^-224 each. */
#ifndef PRIVLR_WIDE_H
#define PRIVLR_WIDE_H

#include <math.h>
#include <stdint.h>

enum { WIDE_LIMBS = 8, WIDE_FRACTION_BITS = 32 * (WIDE_LIMBS - 1) };

/* sum of limb[i] 2^(32 i - WIDE_FRACTION_BITS); below 2^32. */
typedef struct {
    uint32_t limb[WIDE_LIMBS];
} wide;

static inline wide wide_of_int(uint32_t n) {
    return (wide){{0, 0, 0, 0, 0, 0, 0, n}};
}

/* 0 <= x < 2^32; bits below 2^-224 are dropped. */
static inline wide wide_of_double(double x) {
    wide result = {{0}};
    int exponent;
    uint64_t mantissa = (uint64_t)ldexp(frexp(x, &exponent), 53);
    int shift = exponent - 53 + WIDE_FRACTION_BITS;
    if (shift < 0) {
        mantissa = shift > -64 ? mantissa >> -shift : 0;
        shift = 0;
    }
    for (int i = shift / 32; mantissa != 0; i++, mantissa >>= 32) {
        uint64_t part = (mantissa & UINT32_MAX) << shift % 32;
        result.limb[i] |= (uint32_t)part;
        if (part >> 32 != 0) {
            result.limb[i + 1] = (uint32_t)(part >> 32);
        }
    }
    return result;
}

static inline double wide_to_double(wide a) {
    double x = 0.0;
    for (int i = WIDE_LIMBS - 1; i >= 0; i--) {
        x += ldexp((double)a.limb[i], 32 * i - WIDE_FRACTION_BITS);
    }
    return x;
}

static inline int wide_is_zero(wide a) {
    uint32_t any = 0;
    for (int i = 0; i < WIDE_LIMBS; i++) {
        any |= a.limb[i];
    }
    return any == 0;
}

static inline int wide_is_greater(wide a, wide b) {
    for (int i = WIDE_LIMBS - 1; i >= 0; i--) {
        if (a.limb[i] != b.limb[i]) {
            return a.limb[i] > b.limb[i];
        }
    }
    return 0;
}

static inline wide wide_add(wide a, wide b) {
    uint64_t carry = 0;
    for (int i = 0; i < WIDE_LIMBS; i++) {
        carry += (uint64_t)a.limb[i] + b.limb[i];
        a.limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    return a;
}

/* a >= b. */
static inline wide wide_subtract(wide a, wide b) {
    uint64_t borrow = 0;
    for (int i = 0; i < WIDE_LIMBS; i++) {
        uint64_t difference = (uint64_t)a.limb[i] - b.limb[i] - borrow;
        a.limb[i] = (uint32_t)difference;
        borrow = difference >> 63;
    }
    return a;
}

/* a b < 2^32. */
static inline wide wide_multiply(wide a, wide b) {
    uint32_t product[2 * WIDE_LIMBS] = {0};
    wide result;
    for (int i = 0; i < WIDE_LIMBS; i++) {
        uint64_t carry = 0;
        for (int j = 0; j < WIDE_LIMBS; j++) {
            carry += (uint64_t)a.limb[i] * b.limb[j] + product[i + j];
            product[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        product[i + WIDE_LIMBS] = (uint32_t)carry;
    }
    for (int i = 0; i < WIDE_LIMBS; i++) {
        result.limb[i] = product[i + WIDE_LIMBS - 1];
    }
    return result;
}

static inline wide wide_divide(wide a, uint32_t divisor) {
    uint64_t rest = 0;
    for (int i = WIDE_LIMBS - 1; i >= 0; i--) {
        rest = rest << 32 | a.limb[i];
        a.limb[i] = (uint32_t)(rest / divisor);
        rest %= divisor;
    }
    return a;
}

#endif
