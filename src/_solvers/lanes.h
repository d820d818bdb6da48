/* Eight doubles at a time, as the vector registers of the instruction set hold them.
 *
 * A group of lanes is added and multiplied element by element, so a result does not
 * depend on the register width. Private to the kernels; see simd.h. */
#ifndef PRIVLR_LANES_H
#define PRIVLR_LANES_H

#include "simd.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { PRIVLR_PART = 8 };
#elif defined(__AVX__)
enum { PRIVLR_PART = 4 };
#else
enum { PRIVLR_PART = 2 };
#endif

typedef double privlr_part __attribute__((vector_size(PRIVLR_PART * 8)));
typedef double privlr_loose_part
    __attribute__((vector_size(PRIVLR_PART * 8), aligned(8), may_alias));
typedef struct {
    privlr_part part[PRIVLR_LANES / PRIVLR_PART];
} lanes;

#define LANES_FUNCTION static inline __attribute__((always_inline))
#define EACH_PART(i) for (int i = 0; i < PRIVLR_LANES / PRIVLR_PART; i++)

LANES_FUNCTION lanes lanes_zero(void) {
    lanes v;
    EACH_PART(i) v.part[i] = (privlr_part){0};
    return v;
}

LANES_FUNCTION lanes lanes_fill(double x) {
    lanes v = lanes_zero();
    EACH_PART(i) v.part[i] += x;
    return v;
}

LANES_FUNCTION lanes lanes_load(const double *x) {
    lanes v;
    EACH_PART(i) v.part[i] = *(const privlr_loose_part *)(x + i * PRIVLR_PART);
    return v;
}

LANES_FUNCTION void lanes_store(double *x, lanes v) {
    EACH_PART(i) * (privlr_loose_part *)(x + i * PRIVLR_PART) = v.part[i];
}

/* Past the caches, to a multiple of 64 bytes; other threads see it only after a full fence. */
LANES_FUNCTION void lanes_stream(double *x, lanes v) {
#if defined(__AVX512F__)
    _mm512_stream_pd(x, (__m512d)v.part[0]);
#elif defined(__AVX__)
    EACH_PART(i) _mm256_stream_pd(x + i * PRIVLR_PART, (__m256d)v.part[i]);
#elif defined(__SSE2__)
    EACH_PART(i) _mm_stream_pd(x + i * PRIVLR_PART, (__m128d)v.part[i]);
#else
    lanes_store(x, v);
#endif
}

/* The first `count` < 8 elements, then zeros. */
LANES_FUNCTION lanes lanes_load_head(const double *x, ptrdiff_t count) {
#if defined(__AVX512F__)
    return (lanes){{(privlr_part)_mm512_maskz_loadu_pd((__mmask8)((1u << count) - 1u), x)}};
#else
    double padded[PRIVLR_LANES];
    for (int k = 0; k < PRIVLR_LANES; k++)
        padded[k] = k < count ? x[k] : 0.0;
    return lanes_load(padded);
#endif
}

LANES_FUNCTION lanes lanes_add(lanes a, lanes b) {
    EACH_PART(i) a.part[i] += b.part[i];
    return a;
}

LANES_FUNCTION lanes lanes_multiply(lanes a, lanes b) {
    EACH_PART(i) a.part[i] *= b.part[i];
    return a;
}

LANES_FUNCTION lanes lanes_scale(lanes a, double factor) {
    EACH_PART(i) a.part[i] *= factor;
    return a;
}

/* ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7)), halving the vector; by way of the memory it
 * would take as long as a short row's products. */
LANES_FUNCTION double lanes_total(lanes v) {
    typedef double pair __attribute__((vector_size(16)));
    typedef double quad __attribute__((vector_size(32)));
    quad four[2];
    pair two[2];
    memcpy(four, &v, sizeof four);
    four[0] += four[1];
    memcpy(two, four, sizeof two);
    two[0] += two[1];
    return two[0][0] + two[0][1];
}

#endif
