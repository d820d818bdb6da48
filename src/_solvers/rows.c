#include <float.h>
#include <math.h>

#include "kernels.h"
#include "lanes.h"
#include "rows.h"

/* Four rows share every load of w, and every load and store of a sum. */
enum { TOGETHER = 4, PANEL_LENGTH_MAX = 64, PANELS_MAX = 32 };
/* Columns by columns whose products are summed in registers, where there are 32 of eight. */
enum { TILE = 4 };
/* Panels further on, in the next block, that the sums ask for: they are found in the first-level
 * cache, and leave the memory idle. */
enum { AHEAD = 16 };
/* Rows too short for the processor to foresee four at a time: read one after the other they
 * come from memory half as fast again, unless they are near. The order of the additions is the
 * same. */
enum { SHORT = 512 };

LANES_FUNCTION lanes multiply_add(lanes sum, const double *x, lanes w) {
    return lanes_add(sum, lanes_multiply(lanes_load(x), w));
}

LANES_FUNCTION lanes multiply_add_head(lanes sum, const double *x, ptrdiff_t count, lanes w) {
    return lanes_add(sum, lanes_multiply(lanes_load_head(x, count), w));
}

static double row_dot(ptrdiff_t length, const double *x, const double *w) {
    const ptrdiff_t whole = length / PRIVLR_LANES * PRIVLR_LANES;
    lanes sum = lanes_zero();
    for (ptrdiff_t j = 0; j < whole; j += PRIVLR_LANES)
        sum = multiply_add(sum, x + j, lanes_load(w + j));
    if (whole < length)
        sum = multiply_add_head(sum, x + whole, length - whole,
                                lanes_load_head(w + whole, length - whole));
    return lanes_total(sum);
}

void PRIVLR_KERNEL(privlr_rows_dots)(size_t rows, size_t length, const double *x, ptrdiff_t stride,
                                     const double *w, int near, double *out) {
    const ptrdiff_t whole = (ptrdiff_t)length / PRIVLR_LANES * PRIVLR_LANES;
    const ptrdiff_t rest = (ptrdiff_t)length - whole;
    const lanes w_rest = lanes_load_head(w + whole, rest);
    size_t i = 0;
    for (; (near || length > SHORT) && i + TOGETHER <= rows;
         i += TOGETHER, x += TOGETHER * stride) {
        lanes a = lanes_zero(), b = a, c = a, d = a;
        for (ptrdiff_t j = 0; j < whole; j += PRIVLR_LANES) {
            const lanes w_j = lanes_load(w + j);
            a = multiply_add(a, x + j, w_j);
            b = multiply_add(b, x + stride + j, w_j);
            c = multiply_add(c, x + 2 * stride + j, w_j);
            d = multiply_add(d, x + 3 * stride + j, w_j);
        }
        if (rest) {
            const double *tail = x + whole;
            a = multiply_add_head(a, tail, rest, w_rest);
            b = multiply_add_head(b, tail + stride, rest, w_rest);
            c = multiply_add_head(c, tail + 2 * stride, rest, w_rest);
            d = multiply_add_head(d, tail + 3 * stride, rest, w_rest);
        }
        out[i] += lanes_total(a);
        out[i + 1] += lanes_total(b);
        out[i + 2] += lanes_total(c);
        out[i + 3] += lanes_total(d);
    }
    for (; i < rows; i++, x += stride)
        out[i] += row_dot((ptrdiff_t)length, x, w);
}

void PRIVLR_KERNEL(privlr_rows_squares)(size_t rows, size_t length, const double *x,
                                        ptrdiff_t stride, double *out) {
    for (size_t i = 0; i < rows; i++, x += stride)
        out[i] += row_dot((ptrdiff_t)length, x, x);
}

/* The lines of four rows are asked for in their order, four at a time: all at once they would hold
 * up the loads. */
LANES_FUNCTION void rows_sums(size_t rows, size_t length, const double *x, ptrdiff_t stride,
                              const double *c, int fetch, const double *soon,
                              double *restrict out) {
    const ptrdiff_t whole = (ptrdiff_t)length / PRIVLR_LANES * PRIVLR_LANES;
    size_t i = 0;
    for (; i + TOGETHER <= rows; i += TOGETHER, x += TOGETHER * stride) {
        const double c0 = c[i], c1 = c[i + 1], c2 = c[i + 2], c3 = c[i + 3];
        const double *fetched = soon;
        for (ptrdiff_t j = 0; j < whole; j += PRIVLR_LANES) {
            for (int k = 0; fetch && k < TOGETHER; k++, fetched += PRIVLR_LANES)
                __builtin_prefetch(fetched, 0, 2);
            const lanes a = lanes_add(lanes_scale(lanes_load(x + j), c0),
                                      lanes_scale(lanes_load(x + stride + j), c1));
            const lanes b = lanes_add(lanes_scale(lanes_load(x + 2 * stride + j), c2),
                                      lanes_scale(lanes_load(x + 3 * stride + j), c3));
            lanes_store(out + j, lanes_add(lanes_load(out + j), lanes_add(a, b)));
        }
        for (ptrdiff_t j = whole; j < (ptrdiff_t)length; j++)
            out[j] += (c0 * x[j] + c1 * x[stride + j]) +
                      (c2 * x[2 * stride + j] + c3 * x[3 * stride + j]);
        if (fetch)
            for (soon += TOGETHER * stride; fetched < soon; fetched += PRIVLR_LANES)
                __builtin_prefetch(fetched, 0, 2);
    }
    for (; i < rows; i++, x += stride)
        for (size_t j = 0; j < length; j++)
            out[j] += c[i] * x[j];
}

void PRIVLR_KERNEL(privlr_rows_sums)(size_t rows, size_t length, const double *x, ptrdiff_t stride,
                                     const double *c, const double *soon, double *out) {
    if (soon)
        rows_sums(rows, length, x, stride, c, 1, soon, out);
    else
        rows_sums(rows, length, x, stride, c, 0, NULL, out);
}

void PRIVLR_KERNEL(privlr_panels_dots)(size_t panels, size_t length, const double *p,
                                       const double *w, double *out) {
    const size_t size = length * PRIVLR_LANES;
    size_t i = 0;
    for (; i + TOGETHER <= panels; i += TOGETHER, p += TOGETHER * size) {
        lanes a = lanes_zero(), b = a, c = a, d = a;
        for (size_t j = 0; j < length; j++) {
            const double *column = p + j * PRIVLR_LANES;
            a = lanes_add(a, lanes_scale(lanes_load(column), w[j]));
            b = lanes_add(b, lanes_scale(lanes_load(column + size), w[j]));
            c = lanes_add(c, lanes_scale(lanes_load(column + 2 * size), w[j]));
            d = lanes_add(d, lanes_scale(lanes_load(column + 3 * size), w[j]));
        }
        lanes_store(out + i * PRIVLR_LANES, a);
        lanes_store(out + (i + 1) * PRIVLR_LANES, b);
        lanes_store(out + (i + 2) * PRIVLR_LANES, c);
        lanes_store(out + (i + 3) * PRIVLR_LANES, d);
    }
    for (; i < panels; i++, p += size) {
        lanes a = lanes_zero();
        for (size_t j = 0; j < length; j++)
            a = lanes_add(a, lanes_scale(lanes_load(p + j * PRIVLR_LANES), w[j]));
        lanes_store(out + i * PRIVLR_LANES, a);
    }
}

/* One element of each of eight rows. */
#if defined(__AVX512F__)
#define ELEMENTS(row, j)                                                                           \
    {                                                                                              \
        {                                                                                          \
            (privlr_part) {                                                                        \
                (double)row[0][j], (double)row[1][j], (double)row[2][j], (double)row[3][j],        \
                    (double)row[4][j], (double)row[5][j], (double)row[6][j], (double)row[7][j]     \
            }                                                                                      \
        }                                                                                          \
    }
#elif defined(__AVX__)
#define ELEMENTS(row, j)                                                                           \
    {                                                                                              \
        {                                                                                          \
            (privlr_part){(double)row[0][j], (double)row[1][j], (double)row[2][j],                 \
                          (double)row[3][j]},                                                      \
                (privlr_part) {                                                                    \
                (double)row[4][j], (double)row[5][j], (double)row[6][j], (double)row[7][j]         \
            }                                                                                      \
        }                                                                                          \
    }
#else
#define ELEMENTS(row, j)                                                                           \
    {                                                                                              \
        {                                                                                          \
            (privlr_part){(double)row[0][j], (double)row[1][j]},                                   \
                (privlr_part){(double)row[2][j], (double)row[3][j]},                               \
                (privlr_part){(double)row[4][j], (double)row[5][j]}, (privlr_part) {               \
                (double)row[6][j], (double)row[7][j]                                               \
            }                                                                                      \
        }                                                                                          \
    }
#endif

#define DEFINE_CUT(name, type)                                                                     \
    void PRIVLR_KERNEL(name)(size_t panels, size_t length, const type *x, const int64_t *start,    \
                             const int64_t *columns, ptrdiff_t stride, size_t width,               \
                             double *out) {                                                        \
        for (; panels > 0; panels--, start += PRIVLR_LANES, out += width * PRIVLR_LANES) {         \
            const type *row[PRIVLR_LANES];                                                         \
            for (int k = 0; k < PRIVLR_LANES; k++)                                                 \
                row[k] = x + start[k];                                                             \
            for (size_t j = 0; j < length; j++) {                                                  \
                const ptrdiff_t at = (columns ? (ptrdiff_t)columns[j] : (ptrdiff_t)j) * stride;    \
                const lanes column = ELEMENTS(row, at);                                            \
                lanes_store(out + j * PRIVLR_LANES, column);                                       \
            }                                                                                      \
        }                                                                                          \
    }
DEFINE_CUT(privlr_panels_cut, double)
DEFINE_CUT(privlr_panels_single_cut, float)

void PRIVLR_KERNEL(privlr_panels_squares)(size_t panels, size_t length, const double *p,
                                          size_t width, double constant, double *out) {
    const lanes of_constant = lanes_fill(constant * constant);
    for (; panels > 0; panels--, p += width * PRIVLR_LANES, out += PRIVLR_LANES) {
        lanes sum = lanes_zero();
        for (size_t j = 0; j < length; j++) {
            const lanes column = lanes_load(p + j * PRIVLR_LANES);
            sum = lanes_add(sum, lanes_multiply(column, column));
        }
        lanes_store(out, lanes_add(sum, of_constant));
    }
}

void PRIVLR_KERNEL(privlr_panels_scale)(size_t panels, size_t length, const double *p, size_t width,
                                        double constant, const double *factor, int away,
                                        double *out) {
    const int apt = away && (uintptr_t)out % (PRIVLR_LANES * sizeof *out) == 0;
    for (; panels > 0; panels--, p += width * PRIVLR_LANES, factor += PRIVLR_LANES) {
        const lanes f = lanes_load(factor);
        for (size_t j = 0; j < length; j++, out += PRIVLR_LANES) {
            const lanes scaled = lanes_multiply(lanes_load(p + j * PRIVLR_LANES), f);
            if (apt)
                lanes_stream(out, scaled);
            else
                lanes_store(out, scaled);
        }
        if (constant != 0.0) {
            lanes_store(out, lanes_scale(f, constant));
            out += PRIVLR_LANES;
        }
    }
}

size_t PRIVLR_KERNEL(privlr_rows_factors)(size_t n, double most, double bound,
                                          const double *restrict square, double *restrict length,
                                          double *restrict factor) {
    double odd[PRIVLR_LANES] = {0.0}, total = 0.0;
    for (size_t i = 0; i < n; i += PRIVLR_LANES)
        for (size_t k = 0; k < PRIVLR_LANES; k++) {
            const double s = square[i + k], root = sqrt(s);
            const int within = root <= most;
            length[i + k] = within ? root : bound;
            factor[i + k] = (within ? 1.0 : most) / (within ? 1.0 : root);
            odd[k] += s >= DBL_MIN && s <= PRIVLR_LARGEST_SQUARE ? 0.0 : 1.0;
        }
    for (int k = 0; k < PRIVLR_LANES; k++)
        total += odd[k];
    return (size_t)total;
}

void PRIVLR_KERNEL(privlr_panels_sums)(size_t panels, size_t length, const double *p,
                                       const double *c, double *out) {
    const size_t size = length * PRIVLR_LANES;
    double sum[PANEL_LENGTH_MAX * PRIVLR_LANES];
    size_t i = 0;
    memset(sum, 0, size * sizeof *sum);
    for (; i + TOGETHER <= panels; i += TOGETHER, p += TOGETHER * size) {
        const double *first = c + i * PRIVLR_LANES;
        const lanes c0 = lanes_load(first), c1 = lanes_load(first + PRIVLR_LANES);
        const lanes c2 = lanes_load(first + 2 * PRIVLR_LANES);
        const lanes c3 = lanes_load(first + 3 * PRIVLR_LANES);
        for (size_t j = 0; j < size; j += PRIVLR_LANES) {
            const lanes a = lanes_add(lanes_multiply(lanes_load(p + j), c0),
                                      lanes_multiply(lanes_load(p + size + j), c1));
            const lanes b = lanes_add(lanes_multiply(lanes_load(p + 2 * size + j), c2),
                                      lanes_multiply(lanes_load(p + 3 * size + j), c3));
            for (size_t k = 0; k < TOGETHER; k++)
                __builtin_prefetch(p + (AHEAD + k) * size + j, 0, 2);
            lanes_store(sum + j, lanes_add(lanes_load(sum + j), lanes_add(a, b)));
        }
    }
    for (; i < panels; i++, p += size) {
        const lanes c0 = lanes_load(c + i * PRIVLR_LANES);
        for (size_t j = 0; j < size; j += PRIVLR_LANES)
            lanes_store(sum + j,
                        lanes_add(lanes_load(sum + j), lanes_multiply(lanes_load(p + j), c0)));
    }
    for (size_t j = 0; j < length; j++)
        out[j] += lanes_total(lanes_load(sum + j * PRIVLR_LANES));
}

/* Adds the products of up to four columns with as many weighted ones; of those of the same four
 * columns, the upper triangle. */
LANES_FUNCTION void add_tile(size_t panels, size_t length, const double *column, const double *w,
                             int columns, int weighted, int same, double *upper) {
    lanes sum[TILE][TILE];
    for (int a = 0; a < TILE; a++)
        for (int b = 0; b < TILE; b++)
            sum[a][b] = lanes_zero();
    for (size_t i = 0; i < panels; i++, column += length * PRIVLR_LANES, w += TILE * PRIVLR_LANES)
        for (int a = 0; a < weighted; a++)
            for (int b = 0; b < columns && (!same || b <= a); b++)
                sum[a][b] = multiply_add(sum[a][b], column + b * PRIVLR_LANES,
                                         lanes_load(w + a * PRIVLR_LANES));
    for (int a = 0; a < weighted; a++, upper += length)
        for (int b = 0; b < columns && (!same || b <= a); b++)
            upper[b] += lanes_total(sum[a][b]);
}

/* Columns a .. a + count - 1 with themselves and all before. */
LANES_FUNCTION void add_columns(size_t panels, size_t length, const double *p, const double *h,
                                size_t a, int count, double *upper) {
    _Alignas(64) double weighted[TILE * PANELS_MAX * PRIVLR_LANES];
    for (size_t i = 0; i < panels; i++) {
        const lanes h_i = lanes_load(h + i * PRIVLR_LANES);
        for (int k = 0; k < count; k++)
            lanes_store(
                weighted + (TILE * i + (size_t)k) * PRIVLR_LANES,
                lanes_multiply(lanes_load(p + (i * length + a + (size_t)k) * PRIVLR_LANES), h_i));
    }
    upper += a * length;
    for (size_t b = 0; b < a; b += TILE)
        add_tile(panels, length, p + b * PRIVLR_LANES, weighted, TILE, count, 0, upper + b);
    add_tile(panels, length, p + a * PRIVLR_LANES, weighted, count, count, 1, upper + a);
}

void PRIVLR_KERNEL(privlr_panels_outer)(size_t panels, size_t length, const double *p,
                                        const double *h, double *upper) {
    size_t a = 0;
    for (; a + TILE <= length; a += TILE)
        add_columns(panels, length, p, h, a, TILE, upper);
    if (length - a == 3)
        add_columns(panels, length, p, h, a, 3, upper);
    else if (length - a == 2)
        add_columns(panels, length, p, h, a, 2, upper);
    else if (length - a == 1)
        add_columns(panels, length, p, h, a, 1, upper);
}
