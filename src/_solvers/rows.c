#include "kernels.h"
#include "simd.h"

enum { LANES = 16, PANEL = 4 };

static double lanes_total(const double *lane) {
    double half[LANES / 2];
    for (int k = 0; k < LANES / 2; k++)
        half[k] = lane[k] + lane[k + LANES / 2];
    return ((half[0] + half[4]) + (half[2] + half[6])) +
           ((half[1] + half[5]) + (half[3] + half[7]));
}

static double row_dot(size_t length, const double *restrict x, const double *restrict w) {
    double lane[LANES] = {0};
    size_t j = 0;
    for (; j + LANES <= length; j += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += x[j + k] * w[j + k];
    for (int k = 0; j < length; j++, k++)
        lane[k] += x[j] * w[j];
    return lanes_total(lane);
}

/* Four rows share every load of w. */
static void panel_dots(size_t length, const double *restrict x, ptrdiff_t stride,
                       const double *restrict w, double *restrict out) {
    const double *x0 = x, *x1 = x + stride, *x2 = x + 2 * stride, *x3 = x + 3 * stride;
    double a[LANES] = {0}, b[LANES] = {0}, c[LANES] = {0}, d[LANES] = {0};
    size_t j = 0;
    for (; j + LANES <= length; j += LANES)
        for (int k = 0; k < LANES; k++) {
            const double wk = w[j + k];
            a[k] += x0[j + k] * wk;
            b[k] += x1[j + k] * wk;
            c[k] += x2[j + k] * wk;
            d[k] += x3[j + k] * wk;
        }
    for (int k = 0; j < length; j++, k++) {
        a[k] += x0[j] * w[j];
        b[k] += x1[j] * w[j];
        c[k] += x2[j] * w[j];
        d[k] += x3[j] * w[j];
    }
    out[0] += lanes_total(a);
    out[1] += lanes_total(b);
    out[2] += lanes_total(c);
    out[3] += lanes_total(d);
}

void PRIVLR_KERNEL(privlr_rows_dots)(size_t rows, size_t length, const double *x, ptrdiff_t stride,
                                     const double *w, double *out) {
    size_t i = 0;
    for (; i + PANEL <= rows; i += PANEL)
        panel_dots(length, x + (ptrdiff_t)i * stride, stride, w, out + i);
    for (; i < rows; i++)
        out[i] += row_dot(length, x + (ptrdiff_t)i * stride, w);
}

void PRIVLR_KERNEL(privlr_rows_sums)(size_t rows, size_t length, const double *x, ptrdiff_t stride,
                                     const double *c, double *restrict out) {
    size_t i = 0;
    for (; i + PANEL <= rows; i += PANEL) {
        const double *restrict x0 = x + (ptrdiff_t)i * stride;
        const double *restrict x1 = x0 + stride;
        const double *restrict x2 = x1 + stride;
        const double *restrict x3 = x2 + stride;
        const double c0 = c[i], c1 = c[i + 1], c2 = c[i + 2], c3 = c[i + 3];
        for (size_t j = 0; j < length; j++)
            out[j] += (c0 * x0[j] + c1 * x1[j]) + (c2 * x2[j] + c3 * x3[j]);
    }
    for (; i < rows; i++) {
        const double *restrict x0 = x + (ptrdiff_t)i * stride;
        for (size_t j = 0; j < length; j++)
            out[j] += c[i] * x0[j];
    }
}
