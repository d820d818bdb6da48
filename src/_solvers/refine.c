#include "refine.h"

#include <math.h>

#include "variates.h"

static const wide LOG_2 = {
    {0x8a0d175b, 0x7298b62d, 0x40f34326, 0x03f2f6af, 0xc9e3b398, 0xd1cf79ab, 0xb17217f7, 0}};
static const wide HALF_PI = {
    {0x04177d4c, 0x14cf98e8, 0x52049c11, 0x01b839a2, 0x898cc517, 0x42d18469, 0x921fb544, 1}};

/* x in (0, 1) is the beginning of a longer binary fraction 2^-*shift m: returns
 * m in [1/2, 1), its 53 bits carried on to 224. */
static wide mantissa_extend(privlr_bits *bits, double x, int *shift) {
    int exponent;
    wide mantissa = wide_of_double(frexp(x, &exponent));
    uint32_t tail[6];
    for (int i = 0; i < 6; i += 2) {
        uint64_t word = privlr_bits_next(bits);
        tail[i] = (uint32_t)word;
        tail[i + 1] = (uint32_t)(word >> 32);
    }
    for (int i = 0; i < 5; i++) {
        mantissa.limb[i] = tail[i];
    }
    mantissa.limb[5] |= tail[5] & 0x7ff; /* 224 = 53 + 11 + 5 * 32 */
    *shift = -exponent;
    return mantissa;
}

static wide shift_right(wide a, int shift) {
    return wide_multiply(a, wide_of_double(ldexp(1.0, -shift)));
}

/* -log x, 1/2 <= x <= 1. With a double y just below it, x e^y = 1 - r, where
 * 0 <= r < 2^-48, and -log x = y + r + r^2/2 + r^3/3 + ... */
static wide negative_log(wide x) {
    wide y = wide_of_double(fmax(0.0, -log(wide_to_double(x)) - 0x1p-50));
    wide term = wide_of_int(1), exponential = term;
    for (uint32_t k = 1; !wide_is_zero(term); k++) {
        term = wide_divide(wide_multiply(term, y), k);
        exponential = wide_add(exponential, term);
    }
    wide r = wide_subtract(wide_of_int(1), wide_multiply(x, exponential));
    wide power = r;
    for (uint32_t k = 1; !wide_is_zero(power); k++) {
        y = wide_add(y, wide_divide(power, k));
        power = wide_multiply(power, r);
    }
    return y;
}

/* 1 - cos x, 0 <= x <= pi/2. */
static wide one_minus_cosine(wide x) {
    wide square = wide_multiply(x, x), term = wide_of_int(1);
    wide positive = wide_of_int(0), negative = wide_of_int(0);
    for (uint32_t k = 1; !wide_is_zero(term); k += 4) {
        term = wide_divide(wide_multiply(term, square), k * (k + 1));
        positive = wide_add(positive, term);
        term = wide_divide(wide_multiply(term, square), (k + 2) * (k + 3));
        negative = wide_add(negative, term);
    }
    return wide_subtract(positive, negative);
}

privlr_refined_pair privlr_pair_refine(const privlr_bits *bits, uint64_t pair, uint64_t radius_word,
                                       double radius_uniform, uint64_t angle_word,
                                       double angle_uniform) {
    privlr_bits further = *bits;
    further.block = ((uint64_t)1 << 63) + pair;
    further.next = PRIVLR_BITS_WORDS;
    int shift;
    wide exponential, mantissa = mantissa_extend(&further, 0.5 * radius_uniform, &shift);
    if (privlr_word_is_upper_half(radius_word)) {
        exponential = negative_log(wide_subtract(wide_of_int(1), shift_right(mantissa, shift)));
    } else {
        exponential =
            wide_add(negative_log(mantissa), wide_multiply(LOG_2, wide_of_int((uint32_t)shift)));
    }
    mantissa = mantissa_extend(&further, angle_uniform, &shift);
    privlr_memory_wipe(&further, sizeof further);
    /* (sqrt(2 E) sin a)^2 = E (1 - cos 2a), the other square is the rest of 2 E. */
    wide sine = wide_multiply(
        exponential, one_minus_cosine(wide_multiply(HALF_PI, shift_right(mantissa, shift))));
    wide cosine = wide_subtract(wide_add(exponential, exponential), sine);
    return privlr_word_swaps_pair(angle_word) ? (privlr_refined_pair){{sine, cosine}}
                                              : (privlr_refined_pair){{cosine, sine}};
}

int privlr_refined_exceeds(wide square, double scale, double center, double bound) {
    /* distance + rest = bound - center exactly. */
    double distance = bound - center, part = distance - bound;
    double rest = (bound - (distance - part)) + (-center - part);
    if (distance <= 0.0) {
        return 1;
    }
    if (distance > 16.0 * scale) {
        return 0; /* no normal is that large */
    }
    int exponent;
    wide fraction = wide_of_double(frexp(scale, &exponent));
    wide reach = wide_of_double(ldexp(distance, -exponent));
    wide correction = wide_of_double(ldexp(fabs(rest), -exponent));
    reach = rest < 0.0 ? wide_subtract(reach, correction) : wide_add(reach, correction);
    return wide_is_greater(wide_multiply(square, wide_multiply(fraction, fraction)),
                           wide_multiply(reach, reach));
}
