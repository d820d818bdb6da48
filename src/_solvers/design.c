#include "design.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "csr.h"
#include "rows.h"

enum {
    LANES = 8,
    NARROW_BLOCK = 128,    /* rows; 32 columns of them fill the first-level cache */
    BLOCK_DOUBLES = 16384, /* a fraction of a small second-level cache */
    BLOCK_MIN = 16,
    BLOCK_MAX = 256
};

/* Beyond this length a product of a row with plausible coefficients may overflow. */
static const double EXTREME_LENGTH = 1e150;

int64_t privlr_design_block(const privlr_design *X) {
    if (privlr_design_is_narrow(X))
        return NARROW_BLOCK;
    const int64_t rows = BLOCK_DOUBLES / X->n_cols / LANES * LANES;
    return rows < BLOCK_MIN ? BLOCK_MIN : rows > BLOCK_MAX ? BLOCK_MAX : rows;
}

size_t privlr_design_scratch(const privlr_design *X) {
    const size_t rows = (size_t)privlr_design_block(X);
    const size_t width = (size_t)privlr_design_width(X) + 1;
    return X->index_bits ? width : rows * width;
}

static privlr_csr csr_of(const privlr_design *X) {
    return (privlr_csr){X->values, X->indices, X->indptr, X->is_float32, X->index_bits};
}

static double value_at(const privlr_design *X, int64_t k) {
    return X->is_float32 ? (double)((const float *)X->values)[k] : ((const double *)X->values)[k];
}

/* Rows as doubles, `ld` apart. */
static void copy_rows(const privlr_design *X, int64_t first, int64_t count, ptrdiff_t ld,
                      double *restrict out) {
    const int64_t rs = X->row_stride, cs = X->col_stride;
    if (cs == 1 && X->is_float32) {
        for (int64_t i = 0; i < count; i++) {
            const float *restrict x = (const float *)X->values + (first + i) * rs;
            for (int64_t j = 0; j < X->n_cols; j++)
                out[i * ld + j] = (double)x[j];
        }
        return;
    }
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

void privlr_design_pack_panels(const privlr_design *X, int64_t first, int64_t count,
                               double *panels) {
    const int64_t width = privlr_design_width(X), rs = X->row_stride, cs = X->col_stride;
    for (int64_t i = 0; i < count; i += LANES, panels += width * LANES) {
        const int64_t rows = count - i < LANES ? count - i : LANES;
        double scale[LANES] = {0.0};
        for (int64_t k = 0; k < rows; k++)
            scale[k] = X->row_scale ? X->row_scale[first + i + k] : 1.0;
        const int64_t start = (first + i) * rs;
        if (rows == LANES && !X->is_float32) {
            const double *x = (const double *)X->values + start;
            for (int64_t j = 0; j < X->n_cols; j++)
                for (int64_t k = 0; k < LANES; k++)
                    panels[j * LANES + k] = scale[k] * x[k * rs + j * cs];
        } else {
            for (int64_t j = 0; j < X->n_cols; j++)
                for (int64_t k = 0; k < LANES; k++)
                    panels[j * LANES + k] =
                        k < rows ? scale[k] * value_at(X, start + k * rs + j * cs) : 0.0;
        }
        if (X->intercept != 0.0)
            for (int64_t k = 0; k < LANES; k++)
                panels[X->n_cols * LANES + k] = scale[k] * X->intercept;
    }
}

privlr_view privlr_design_view(const privlr_design *X, int64_t first, int64_t count,
                               double *scratch) {
    privlr_view view = {first, count, scratch, (ptrdiff_t)X->n_cols, PRIVLR_ROWS};
    if (X->index_bits) {
        view.layout = PRIVLR_CSR;
    } else if (privlr_design_is_narrow(X)) {
        view.layout = PRIVLR_PANELS;
        if (X->panels)
            view.x = X->panels + first * privlr_design_width(X);
        else
            privlr_design_pack_panels(X, first, count, scratch);
    } else if (!X->is_float32 && X->col_stride == 1) {
        view.x = (const double *)X->values + first * X->row_stride;
        view.stride = (ptrdiff_t)X->row_stride;
    } else if (!X->is_float32 && X->row_stride == 1) {
        view.x = (const double *)X->values + first;
        view.stride = (ptrdiff_t)X->col_stride;
        view.layout = PRIVLR_COLUMNS;
    } else {
        copy_rows(X, first, count, (ptrdiff_t)X->n_cols, scratch);
    }
    return view;
}

void privlr_design_dots(const privlr_design *X, const privlr_view *view, const double *w,
                        double *out) {
    const size_t count = (size_t)view->count, n_cols = (size_t)X->n_cols;
    if (view->layout == PRIVLR_PANELS) {
        privlr_panels_dots((count + LANES - 1) / LANES, (size_t)privlr_design_width(X), view->x, w,
                           out);
        return;
    }
    memset(out, 0, count * sizeof *out);
    if (view->layout == PRIVLR_ROWS) {
        privlr_rows_dots(count, n_cols, view->x, view->stride, w, out);
    } else if (view->layout == PRIVLR_COLUMNS) {
        privlr_rows_sums(n_cols, count, view->x, view->stride, w, out);
    } else {
        const privlr_csr csr = csr_of(X);
        privlr_csr_dots(&csr, view->first, view->count, w, out);
    }
    const double constant = X->intercept != 0.0 ? X->intercept * w[X->n_cols] : 0.0;
    if (X->row_scale)
        for (size_t i = 0; i < count; i++)
            out[i] = X->row_scale[view->first + (int64_t)i] * (out[i] + constant);
    else if (constant != 0.0)
        for (size_t i = 0; i < count; i++)
            out[i] += constant;
}

void privlr_design_sums(const privlr_design *X, const privlr_view *view, double *c, double *out) {
    const size_t count = (size_t)view->count, n_cols = (size_t)X->n_cols;
    if (view->layout == PRIVLR_PANELS) {
        const size_t panels = (count + LANES - 1) / LANES;
        for (size_t i = count; i < panels * LANES; i++)
            c[i] = 0.0;
        privlr_panels_sums(panels, (size_t)privlr_design_width(X), view->x, c, out);
        return;
    }
    if (X->row_scale)
        for (size_t i = 0; i < count; i++)
            c[i] *= X->row_scale[view->first + (int64_t)i];
    if (view->layout == PRIVLR_ROWS) {
        privlr_rows_sums(count, n_cols, view->x, view->stride, c, out);
    } else if (view->layout == PRIVLR_COLUMNS) {
        privlr_rows_dots(n_cols, count, view->x, view->stride, c, out);
    } else {
        const privlr_csr csr = csr_of(X);
        privlr_csr_sums(&csr, view->first, view->count, c, out);
    }
    if (X->intercept != 0.0) {
        double constant = 0.0;
        for (size_t i = 0; i < count; i++)
            constant += c[i];
        out[X->n_cols] += X->intercept * constant;
    }
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

void privlr_design_outer(const privlr_design *X, int64_t first, int64_t count, double *h,
                         double *upper) {
    const int64_t width = privlr_design_width(X);
    const privlr_csr csr = csr_of(X);
    if (X->row_scale)
        for (int64_t i = 0; i < count; i++)
            h[i] *= X->row_scale[first + i] * X->row_scale[first + i];
    privlr_csr_outer(&csr, first, count, width, h, upper);
    if (X->intercept != 0.0) {
        double *last = upper + X->n_cols * width, total = 0.0;
        for (int64_t i = 0; i < count; i++) {
            h[i] *= X->intercept;
            total += h[i];
        }
        privlr_csr_sums(&csr, first, count, h, last);
        last[X->n_cols] += X->intercept * total;
    }
}

/* Where row i starts, how far apart its elements are, and how many there are. */
static void row_extent(const privlr_design *X, int64_t i, int64_t *start, int64_t *step,
                       int64_t *length) {
    if (X->index_bits) {
        const privlr_csr csr = csr_of(X);
        *start = privlr_csr_start(&csr, i);
        *length = privlr_csr_start(&csr, i + 1) - *start;
        *step = 1;
    } else {
        *start = i * X->row_stride;
        *length = X->n_cols;
        *step = X->col_stride;
    }
}

/* Length of (x_i, intercept) where its square leaves the range of a double; infinite or
 * NaN where an entry is. */
static double careful_length(const privlr_design *X, int64_t i) {
    int64_t start, step, length;
    row_extent(X, i, &start, &step, &length);
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

/* out[i] = ||(x_(first + i), intercept)||^2 as it comes; scratch holds a block. */
static void row_squares(const privlr_design *X, int64_t first, int64_t count, double *scratch,
                        double *out) {
    const size_t rows = (size_t)count, n_cols = (size_t)X->n_cols;
    for (size_t i = 0; i < rows; i++)
        out[i] = X->intercept * X->intercept;
    if (X->index_bits) {
        const privlr_csr csr = csr_of(X);
        privlr_csr_squares(&csr, first, count, out);
    } else if (!X->is_float32 && X->col_stride == 1) {
        privlr_rows_squares(rows, n_cols, (const double *)X->values + first * X->row_stride,
                            (ptrdiff_t)X->row_stride, out);
    } else {
        copy_rows(X, first, count, (ptrdiff_t)n_cols, scratch);
        privlr_rows_squares(rows, n_cols, scratch, (ptrdiff_t)n_cols, out);
    }
}

void privlr_design_squares(const privlr_design *X, int64_t first, int64_t count, double *scratch,
                           double *out) {
    row_squares(X, first, count, scratch, out);
    if (X->row_scale)
        for (int64_t i = 0; i < count; i++)
            out[i] *= X->row_scale[first + i] * X->row_scale[first + i];
}

void privlr_design_prefetch(const privlr_design *X, int64_t i) {
    const privlr_csr csr = csr_of(X);
    const int64_t start = privlr_csr_start(&csr, i), end = privlr_csr_start(&csr, i + 1);
    const int64_t value = X->is_float32 ? sizeof(float) : sizeof(double), index = X->index_bits / 8;
    for (int64_t byte = start * value; byte < end * value; byte += 64)
        __builtin_prefetch((const char *)X->values + byte);
    for (int64_t byte = start * index; byte < end * index; byte += 64)
        __builtin_prefetch((const char *)X->indices + byte);
}

static int row_is_finite(const privlr_design *X, int64_t i) {
    int64_t start, step, length;
    row_extent(X, i, &start, &step, &length);
    for (int64_t j = 0; j < length; j++)
        if (!(fabs(value_at(X, start + j * step)) <= DBL_MAX))
            return 0;
    return 1;
}

privlr_status privlr_design_scan(const privlr_design *X, double bound, double *scratch,
                                 double *scale_out, privlr_scan *scan) {
    /* The computed length has a relative error below (width + 4)/2 units, the
     * quotient one more; twice that covers the rounding of the margin itself. */
    const double slack = 1.0 - (double)(privlr_design_width(X) + 8) * DBL_EPSILON;
    const double accept = bound * slack;
    const int64_t block = privlr_design_block(X);
    double square[BLOCK_MAX];
    privlr_status status = PRIVLR_OK;
    *scan = (privlr_scan){0.0, 0.0, -1, BLOCK_MAX / block};
    if (X->index_bits && X->intercept == 0.0) {
        const privlr_csr csr = csr_of(X);
        if (privlr_csr_fullest_column(&csr, X->n_rows, X->n_cols, (int64_t *)scratch) <= BLOCK_MAX)
            scan->plain_blocks = X->n_rows;
    }
    for (int64_t first = 0; first < X->n_rows; first += block) {
        const int64_t count = first + block < X->n_rows ? block : X->n_rows - first;
        row_squares(X, first, count, scratch, square);
        for (int64_t i = 0; i < count; i++) {
            double length = square[i] <= DBL_MAX && square[i] >= DBL_MIN
                                ? sqrt(square[i])
                                : careful_length(X, first + i);
            if (scale_out) {
                /* An overflowing length of finite entries is infinite too. */
                if (!(length <= DBL_MAX) && !row_is_finite(X, first + i)) {
                    scan->bad_row = first + i;
                    return PRIVLR_NONFINITE;
                }
                /* bound/DBL_MAX/2 stands in for a length that no double can hold. */
                double factor = length <= accept ? 1.0
                                : length <= DBL_MAX
                                    ? accept / length
                                    : accept / DBL_MAX / (2.0 * sqrt((double)(X->n_cols + 1)));
                if (length > EXTREME_LENGTH) {
                    status = PRIVLR_EXTREME;
                    factor = -factor;
                }
                scale_out[first + i] = factor;
                length = length <= accept ? length : bound;
            }
            if (!(isnan(scan->longest) || scan->longest >= length))
                scan->longest = length;
            scan->square_sum += length * length;
        }
    }
    return status;
}
