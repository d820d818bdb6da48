#include "kernels.h"
#include "lanes.h"

/* The products of rows.c with rows of floats, which are widened as they come. */
enum { TOGETHER = 4 };

typedef float float_part __attribute__((vector_size(PRIVLR_PART * 4), aligned(4), may_alias));

LANES_FUNCTION lanes widen(const float *x) {
#if defined(__AVX512F__)
    return (lanes){{(privlr_part)_mm512_cvtps_pd(_mm256_loadu_ps(x))}};
#else
    lanes v;
    EACH_PART(i) {
        const float_part part = *(const float_part *)(x + i * PRIVLR_PART);
        v.part[i] = __builtin_convertvector(part, privlr_part);
    }
    return v;
#endif
}

/* Rows that are not near are asked for early, those after the next: the processor does not foresee
 * four at a time. */
LANES_FUNCTION void rows_dots(size_t rows, size_t length, const float *x, ptrdiff_t stride,
                              const double *w, int near, double *out) {
    const ptrdiff_t whole = (ptrdiff_t)length / PRIVLR_LANES * PRIVLR_LANES;
    size_t i = 0;
    for (; i + TOGETHER <= rows; i += TOGETHER, x += TOGETHER * stride) {
        const float *x1 = x + stride, *x2 = x1 + stride, *x3 = x2 + stride;
        lanes a = lanes_zero(), b = a, c = a, d = a;
        for (ptrdiff_t j = 0; j < whole; j += PRIVLR_LANES) {
            const lanes w_j = lanes_load(w + j);
            for (int k = 0; !near && k < TOGETHER; k++)
                __builtin_prefetch(x + (TOGETHER + k) * stride + j, 0, 2);
            a = lanes_add(a, lanes_multiply(widen(x + j), w_j));
            b = lanes_add(b, lanes_multiply(widen(x1 + j), w_j));
            c = lanes_add(c, lanes_multiply(widen(x2 + j), w_j));
            d = lanes_add(d, lanes_multiply(widen(x3 + j), w_j));
        }
        double rest[TOGETHER] = {0.0};
        for (ptrdiff_t j = whole; j < (ptrdiff_t)length; j++)
            for (int k = 0; k < TOGETHER; k++)
                rest[k] += (double)x[k * stride + j] * w[j];
        out[i] += lanes_total(a) + rest[0];
        out[i + 1] += lanes_total(b) + rest[1];
        out[i + 2] += lanes_total(c) + rest[2];
        out[i + 3] += lanes_total(d) + rest[3];
    }
    for (; i < rows; i++, x += stride) {
        lanes sum = lanes_zero();
        double rest = 0.0;
        for (ptrdiff_t j = 0; j < whole; j += PRIVLR_LANES)
            sum = lanes_add(sum, lanes_multiply(widen(x + j), lanes_load(w + j)));
        for (ptrdiff_t j = whole; j < (ptrdiff_t)length; j++)
            rest += (double)x[j] * w[j];
        out[i] += lanes_total(sum) + rest;
    }
}

void PRIVLR_KERNEL(privlr_rows_single_dots)(size_t rows, size_t length, const float *x,
                                            ptrdiff_t stride, const double *w, int near,
                                            double *out) {
    if (near)
        rows_dots(rows, length, x, stride, w, 1, out);
    else
        rows_dots(rows, length, x, stride, w, 0, out);
}

void PRIVLR_KERNEL(privlr_rows_single_squares)(size_t rows, size_t length, const float *x,
                                               ptrdiff_t stride, double *out) {
    const ptrdiff_t whole = (ptrdiff_t)length / PRIVLR_LANES * PRIVLR_LANES;
    for (size_t i = 0; i < rows; i++, x += stride) {
        lanes sum = lanes_zero();
        double rest = 0.0;
        for (ptrdiff_t j = 0; j < whole; j += PRIVLR_LANES)
            sum = lanes_add(sum, lanes_multiply(widen(x + j), widen(x + j)));
        for (ptrdiff_t j = whole; j < (ptrdiff_t)length; j++)
            rest += (double)x[j] * (double)x[j];
        out[i] += lanes_total(sum) + rest;
    }
}

/* See rows.c. */
LANES_FUNCTION void rows_sums(size_t rows, size_t length, const float *x, ptrdiff_t stride,
                              const double *c, int fetch, const float *soon, double *restrict out) {
    enum { LINE = 64 / sizeof(float) };
    const ptrdiff_t whole = (ptrdiff_t)length / PRIVLR_LANES * PRIVLR_LANES;
    size_t i = 0;
    for (; i + TOGETHER <= rows; i += TOGETHER, x += TOGETHER * stride) {
        const float *x1 = x + stride, *x2 = x1 + stride, *x3 = x2 + stride, *fetched = soon;
        const double c0 = c[i], c1 = c[i + 1], c2 = c[i + 2], c3 = c[i + 3];
        for (ptrdiff_t j = 0; j < whole; j += PRIVLR_LANES) {
            for (int k = 0; fetch && k < TOGETHER / 2; k++, fetched += LINE)
                __builtin_prefetch(fetched, 0, 2);
            const lanes a =
                lanes_add(lanes_scale(widen(x + j), c0), lanes_scale(widen(x1 + j), c1));
            const lanes b =
                lanes_add(lanes_scale(widen(x2 + j), c2), lanes_scale(widen(x3 + j), c3));
            lanes_store(out + j, lanes_add(lanes_load(out + j), lanes_add(a, b)));
        }
        for (ptrdiff_t j = whole; j < (ptrdiff_t)length; j++)
            out[j] += (c0 * (double)x[j] + c1 * (double)x1[j]) +
                      (c2 * (double)x2[j] + c3 * (double)x3[j]);
        if (fetch)
            for (soon += TOGETHER * stride; fetched < soon; fetched += LINE)
                __builtin_prefetch(fetched, 0, 2);
    }
    for (; i < rows; i++, x += stride)
        for (size_t j = 0; j < length; j++)
            out[j] += c[i] * (double)x[j];
}

void PRIVLR_KERNEL(privlr_rows_single_sums)(size_t rows, size_t length, const float *x,
                                            ptrdiff_t stride, const double *c, const float *soon,
                                            double *out) {
    if (soon)
        rows_sums(rows, length, x, stride, c, 1, soon, out);
    else
        rows_sums(rows, length, x, stride, c, 0, NULL, out);
}
