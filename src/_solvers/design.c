#include "design.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "rows.h"

/* About a quarter of a small second-level cache. */
enum { BLOCK_DOUBLES = 32768, BLOCK_MIN = 16, BLOCK_MAX = 256 };

/* Beyond this length a product of a row with plausible coefficients may overflow. */
static const double EXTREME_LENGTH = 1e150;

int64_t privlr_design_block(const privlr_design *X) {
    int64_t rows = BLOCK_DOUBLES / (X->n_cols > 0 ? X->n_cols : 1);
    return rows < BLOCK_MIN ? BLOCK_MIN : rows > BLOCK_MAX ? BLOCK_MAX : rows;
}

size_t privlr_design_scratch(const privlr_design *X) {
    if (X->index_bits)
        return 1;
    return (size_t)privlr_design_block(X) * (size_t)X->n_cols;
}

static int64_t csr_at(const void *p, int bits, int64_t k) {
    return bits == 32 ? (int64_t)((const int32_t *)p)[k] : ((const int64_t *)p)[k];
}

static double value_at(const privlr_design *X, int64_t k) {
    return X->is_float32 ? (double)((const float *)X->values)[k] : ((const double *)X->values)[k];
}

/* A view of `count` dense rows as doubles that the row kernels can walk:
 * the caller's memory if it is laid out for that, else a copy in scratch. */
typedef struct {
    const double *x;
    ptrdiff_t stride;
    int by_columns;
} block_view;

static void copy_rows(const privlr_design *X, int64_t first, int64_t count, ptrdiff_t ld,
                      double *out) {
    const int64_t rs = X->row_stride, cs = X->col_stride;
    /* Walk the source along its short stride; sixteen rows at a time keep the
     * destination's lines in the cache when that means writing columns. */
    const int tall = (rs < 0 ? -rs : rs) < (cs < 0 ? -cs : cs);
    for (int64_t i0 = 0; i0 < count; i0 += 16) {
        const int64_t i1 = i0 + 16 < count ? i0 + 16 : count;
        if (tall) {
            for (int64_t j = 0; j < X->n_cols; j++)
                for (int64_t i = i0; i < i1; i++)
                    out[i * ld + j] = value_at(X, (first + i) * rs + j * cs);
        } else {
            for (int64_t i = i0; i < i1; i++)
                for (int64_t j = 0; j < X->n_cols; j++)
                    out[i * ld + j] = value_at(X, (first + i) * rs + j * cs);
        }
    }
}

static block_view view_block(const privlr_design *X, int64_t first, int64_t count,
                             double *scratch) {
    if (!X->is_float32 && X->col_stride == 1)
        return (block_view){(const double *)X->values + first * X->row_stride,
                            (ptrdiff_t)X->row_stride, 0};
    if (!X->is_float32 && X->row_stride == 1)
        return (block_view){(const double *)X->values + first, (ptrdiff_t)X->col_stride, 1};
    copy_rows(X, first, count, (ptrdiff_t)X->n_cols, scratch);
    return (block_view){scratch, (ptrdiff_t)X->n_cols, 0};
}

static double csr_row_dot(const privlr_design *X, int64_t i, const double *w) {
    const int64_t end = csr_at(X->indptr, X->index_bits, i + 1);
    double total = 0.0;
    for (int64_t k = csr_at(X->indptr, X->index_bits, i); k < end; k++)
        total += value_at(X, k) * w[csr_at(X->indices, X->index_bits, k)];
    return total;
}

void privlr_design_dots(const privlr_design *X, int64_t first, int64_t count, const double *w,
                        double *scratch, double *out) {
    memset(out, 0, (size_t)count * sizeof *out);
    if (X->index_bits) {
        for (int64_t i = 0; i < count; i++)
            out[i] = csr_row_dot(X, first + i, w);
    } else {
        const block_view b = view_block(X, first, count, scratch);
        if (b.by_columns)
            privlr_rows_sums((size_t)X->n_cols, (size_t)count, b.x, b.stride, w, out);
        else
            privlr_rows_dots((size_t)count, (size_t)X->n_cols, b.x, b.stride, w, out);
    }
    const double constant = X->intercept != 0.0 ? X->intercept * w[X->n_cols] : 0.0;
    if (X->row_scale)
        for (int64_t i = 0; i < count; i++)
            out[i] = X->row_scale[first + i] * (out[i] + constant);
    else
        for (int64_t i = 0; i < count; i++)
            out[i] += constant;
}

void privlr_design_sums(const privlr_design *X, int64_t first, int64_t count, const double *c,
                        double *scratch, double *out) {
    double scaled[BLOCK_MAX];
    double constant = 0.0;
    for (int64_t i = 0; i < count; i++) {
        scaled[i] = X->row_scale ? c[i] * X->row_scale[first + i] : c[i];
        constant += scaled[i];
    }
    memset(out, 0, (size_t)privlr_design_width(X) * sizeof *out);
    if (X->index_bits) {
        for (int64_t i = 0; i < count; i++) {
            const int64_t end = csr_at(X->indptr, X->index_bits, first + i + 1);
            for (int64_t k = csr_at(X->indptr, X->index_bits, first + i); k < end; k++)
                out[csr_at(X->indices, X->index_bits, k)] += scaled[i] * value_at(X, k);
        }
    } else {
        const block_view b = view_block(X, first, count, scratch);
        if (b.by_columns)
            privlr_rows_dots((size_t)X->n_cols, (size_t)count, b.x, b.stride, scaled, out);
        else
            privlr_rows_sums((size_t)count, (size_t)X->n_cols, b.x, b.stride, scaled, out);
    }
    if (X->intercept != 0.0)
        out[X->n_cols] = X->intercept * constant;
}

void privlr_design_pack(const privlr_design *X, int64_t first, int64_t count, const double *factor,
                        double *packed) {
    const int64_t width = privlr_design_width(X);
    copy_rows(X, first, count, (ptrdiff_t)width, packed);
    for (int64_t i = 0; i < count; i++) {
        double *row = packed + i * width;
        const double f = X->row_scale ? factor[i] * X->row_scale[first + i] : factor[i];
        if (X->intercept != 0.0)
            row[X->n_cols] = X->intercept;
        for (int64_t j = 0; j < width; j++)
            row[j] *= f;
    }
}

void privlr_design_outer(const privlr_design *X, int64_t first, int64_t count, const double *h,
                         double *upper) {
    const int64_t width = privlr_design_width(X), last = X->n_cols;
    for (int64_t i = 0; i < count; i++) {
        const double s = X->row_scale ? X->row_scale[first + i] : 1.0;
        const double weight = h[i] * s * s;
        const int64_t begin = csr_at(X->indptr, X->index_bits, first + i);
        const int64_t end = csr_at(X->indptr, X->index_bits, first + i + 1);
        for (int64_t k = begin; k < end; k++) {
            const int64_t a = csr_at(X->indices, X->index_bits, k);
            const double wx = weight * value_at(X, k);
            for (int64_t l = begin; l <= k; l++) {
                const int64_t b = csr_at(X->indices, X->index_bits, l);
                upper[a > b ? b + a * width : a + b * width] += wx * value_at(X, l);
            }
            if (X->intercept != 0.0)
                upper[a + last * width] += wx * X->intercept;
        }
        if (X->intercept != 0.0)
            upper[last + last * width] += weight * X->intercept * X->intercept;
    }
}

/* Where row i starts, how far apart its elements are, and how many there are. */
static void row_extent(const privlr_design *X, int64_t i, int64_t *start, int64_t *step,
                       int64_t *length) {
    if (X->index_bits) {
        *start = csr_at(X->indptr, X->index_bits, i);
        *length = csr_at(X->indptr, X->index_bits, i + 1) - *start;
        *step = 1;
    } else {
        *start = i * X->row_stride;
        *length = X->n_cols;
        *step = X->col_stride;
    }
}

/* Length of (x_i, intercept), safe for any finite input; infinite or NaN otherwise. */
static double row_length(const privlr_design *X, int64_t i) {
    int64_t start, step, length;
    row_extent(X, i, &start, &step, &length);
    double square = X->intercept * X->intercept;
    if (step == 1 && !X->is_float32) {
        const double *x = (const double *)X->values + start;
        privlr_rows_dots(1, (size_t)length, x, 0, x, &square);
    } else {
        for (int64_t j = 0; j < length; j++) {
            const double x = value_at(X, start + j * step);
            square += x * x;
        }
    }
    if (square <= DBL_MAX && square >= DBL_MIN)
        return sqrt(square);
    double largest = fabs(X->intercept), total = 0.0;
    for (int64_t j = 0; j < length; j++) {
        const double x = fabs(value_at(X, start + j * step));
        if (!(x <= DBL_MAX))
            return x;
        largest = x > largest ? x : largest;
    }
    if (largest == 0.0)
        return 0.0;
    int exponent;
    frexp(largest, &exponent);
    for (int64_t j = 0; j < length; j++) {
        const double x = ldexp(value_at(X, start + j * step), -exponent);
        total += x * x;
    }
    const double constant = ldexp(X->intercept, -exponent);
    return ldexp(sqrt(total + constant * constant), exponent);
}

privlr_status privlr_design_clip(const privlr_design *X, double bound, double *scale_out,
                                 int64_t *row) {
    /* The computed length has a relative error below (width + 4)/2 units, the
     * quotient one more; twice that covers the rounding of the margin itself. */
    const double slack = 1.0 - (double)(privlr_design_width(X) + 8) * DBL_EPSILON;
    const double accept = bound * slack;
    privlr_status status = PRIVLR_OK;
    for (int64_t i = 0; i < X->n_rows; i++) {
        const double length = row_length(X, i);
        if (!(length <= DBL_MAX)) {
            /* An overflowing length of finite entries is infinite too. */
            int64_t start, step, count;
            row_extent(X, i, &start, &step, &count);
            for (int64_t j = 0; j < count; j++)
                if (!(fabs(value_at(X, start + j * step)) <= DBL_MAX)) {
                    *row = i;
                    return PRIVLR_NONFINITE;
                }
        }
        /* bound/DBL_MAX/2 stands in for a length that no double can hold. */
        scale_out[i] = length <= accept ? 1.0
                       : length <= DBL_MAX
                           ? accept / length
                           : accept / DBL_MAX / (2.0 * sqrt((double)(X->n_cols + 1)));
        if (length > EXTREME_LENGTH) {
            status = PRIVLR_EXTREME;
            scale_out[i] = -scale_out[i];
        }
    }
    return status;
}

double privlr_design_longest(const privlr_design *X) {
    double longest = 0.0;
    for (int64_t i = 0; i < X->n_rows; i++) {
        const double length = row_length(X, i) * (X->row_scale ? X->row_scale[i] : 1.0);
        longest = longest >= length ? longest : length;
    }
    return longest;
}
