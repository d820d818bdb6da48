#include "design.h"

#include <string.h>

#include "stored.h"

enum {
    PIECE = 16,            /* rows and columns that are transposed at a time */
    BLOCK_DOUBLES = 16384, /* a fraction of a small second-level cache */
    BLOCK_MIN = 16,
    STEP_BYTES = 7168, /* a fraction of a small first-level cache, or of half of one */
    STEP_CACHED = 32,  /* rows, where all are in a cache: more of them share a call */
    CACHED_ENTRIES = 1 << 21,
    FETCH_ROWS = 32 /* from a step to the rows that are fetched meanwhile */
};

/* Whether the kernels walk a dense design column by column, in the caller's memory. */
static int is_by_column(const privlr_design *X) {
    return !X->index_bits && !privlr_design_is_narrow(X) && X->row_stride == 1 &&
           X->col_stride != 1;
}

int64_t privlr_design_block(const privlr_design *X) {
    if (privlr_design_is_narrow(X))
        return NARROW_BLOCK;
    if (is_by_column(X))
        return BLOCK_MAX; /* short pieces of columns come from memory several times as slowly */
    const int64_t rows = BLOCK_DOUBLES / X->n_cols / LANES * LANES;
    return rows < BLOCK_MIN ? BLOCK_MIN : rows > BLOCK_MAX ? BLOCK_MAX : rows;
}

size_t privlr_design_scratch(const privlr_design *X) {
    const size_t rows = (size_t)privlr_design_block(X);
    const size_t width = (size_t)privlr_design_width(X) + 1;
    return X->index_bits ? width : rows * width;
}

/* Rows as doubles, `ld` apart. */
static void copy_rows(const privlr_design *X, int64_t first, int64_t count, ptrdiff_t ld,
                      double *restrict out) {
    const int64_t rs = X->row_stride, cs = X->col_stride;
    if (cs == 1 && X->is_float32 && !X->columns) {
        for (int64_t i = 0; i < count; i++) {
            const float *restrict x = (const float *)X->values + row_at(X, first + i);
            for (int64_t j = 0; j < X->n_cols; j++)
                out[i * ld + j] = (double)x[j];
        }
        return;
    }
    /* Walk the source along its short stride; in square pieces, so that a line of the cache that
     * is written in columns stays until it is full. */
    const int tall = (rs < 0 ? -rs : rs) < (cs < 0 ? -cs : cs);
    const int64_t piece = tall ? PIECE : X->n_cols;
    for (int64_t j0 = 0; j0 < X->n_cols; j0 += piece) {
        const int64_t j1 = j0 + piece < X->n_cols ? j0 + piece : X->n_cols;
        for (int64_t i0 = 0; i0 < count; i0 += PIECE) {
            const int64_t i1 = i0 + PIECE < count ? i0 + PIECE : count;
            if (tall) {
                for (int64_t j = j0; j < j1; j++)
                    for (int64_t i = i0; i < i1; i++)
                        out[i * ld + j] = value_at(X, row_at(X, first + i) + column_at(X, j));
            } else {
                for (int64_t i = i0; i < i1; i++)
                    for (int64_t j = j0; j < j1; j++)
                        out[i * ld + j] = value_at(X, row_at(X, first + i) + column_at(X, j));
            }
        }
    }
}

privlr_view privlr_design_view(const privlr_design *X, int64_t first, int64_t count,
                               double *scratch) {
    privlr_view view = {
        .first = first, .count = count, .x = scratch, .stride = (ptrdiff_t)X->n_cols};
    if (X->index_bits) {
        view.layout = PRIVLR_CSR;
    } else if (privlr_design_is_narrow(X)) {
        view.layout = PRIVLR_PANELS;
        if (X->panels) {
            view.x = X->panels + first * privlr_design_width(X);
        } else {
            const int64_t width = privlr_design_width(X);
            int64_t start[NARROW_BLOCK];
            find_rows(X, first, count, start);
            cut_panels(X, X->columns, X->n_cols, start, count, width, scratch);
            if (X->row_scale || X->intercept != 0.0 || count % LANES) {
                double factor[NARROW_BLOCK];
                for (int64_t i = 0; i < count; i++)
                    factor[i] = X->row_scale ? X->row_scale[first + i] : 1.0;
                fill_up(factor, count);
                privlr_panels_scale(panels_of(count), (size_t)X->n_cols, scratch, (size_t)width,
                                    X->intercept, factor, 0, scratch);
            }
        }
    } else if (X->col_stride == 1 || X->row_stride == 1) {
        const int by_row = X->col_stride == 1;
        const int64_t start = first * X->row_stride;
        if (X->is_float32)
            view.single = (const float *)X->values + start;
        else
            view.x = (const double *)X->values + start;
        view.stride = (ptrdiff_t)(by_row ? X->row_stride : X->col_stride);
        view.layout = by_row ? PRIVLR_ROWS : PRIVLR_COLUMNS;
    } else {
        copy_rows(X, first, count, (ptrdiff_t)X->n_cols, scratch);
    }
    return view;
}

/* With the rows of a view from `i` on; near as in rows.h. */
static void rows_dots(const privlr_view *view, int64_t i, size_t rows, size_t length,
                      const double *w, int near, double *out) {
    const ptrdiff_t start = (ptrdiff_t)i * view->stride;
    if (view->single)
        privlr_rows_single_dots(rows, length, view->single + start, view->stride, w, near, out);
    else
        privlr_rows_dots(rows, length, view->x + start, view->stride, w, near, out);
}

/* The rows that are fetched begin `ahead` after these, unless it is 0. */
static void rows_sums(const privlr_view *view, int64_t i, size_t rows, size_t length,
                      const double *c, int64_t ahead, double *out) {
    const ptrdiff_t start = (ptrdiff_t)i * view->stride, soon = (ptrdiff_t)ahead * view->stride;
    if (view->single) {
        const float *x = view->single + start;
        privlr_rows_single_sums(rows, length, x, view->stride, c, ahead ? x + soon : NULL, out);
    } else {
        const double *x = view->x + start;
        privlr_rows_sums(rows, length, x, view->stride, c, ahead ? x + soon : NULL, out);
    }
}

/* From products with the rows as stored to those with the samples. */
static void finish_dots(const privlr_design *X, int64_t first, int64_t count, const double *w,
                        double *out) {
    const double constant = X->intercept != 0.0 ? X->intercept * w[X->n_cols] : 0.0;
    if (X->row_scale)
        for (int64_t i = 0; i < count; i++)
            out[i] = X->row_scale[first + i] * (out[i] + constant);
    else if (constant != 0.0)
        for (int64_t i = 0; i < count; i++)
            out[i] += constant;
}

static void scale_factors(const privlr_design *X, int64_t first, int64_t count, double *c) {
    if (X->row_scale)
        for (int64_t i = 0; i < count; i++)
            c[i] *= X->row_scale[first + i];
}

static void add_constants(const privlr_design *X, int64_t count, const double *c, double *out) {
    if (X->intercept != 0.0) {
        double constant = 0.0;
        for (int64_t i = 0; i < count; i++)
            constant += c[i];
        out[X->n_cols] += X->intercept * constant;
    }
}

void privlr_design_dots(const privlr_design *X, const privlr_view *view, const double *w,
                        double *out) {
    const size_t count = (size_t)view->count, n_cols = (size_t)X->n_cols;
    if (view->layout == PRIVLR_PANELS) {
        privlr_panels_dots(panels_of(view->count), (size_t)privlr_design_width(X), view->x, w, out);
        return;
    }
    memset(out, 0, count * sizeof *out);
    if (view->layout == PRIVLR_ROWS) {
        rows_dots(view, 0, count, n_cols, w, 0, out);
    } else if (view->layout == PRIVLR_COLUMNS) {
        rows_sums(view, 0, n_cols, count, w, 0, out);
    } else {
        const privlr_csr csr = csr_of(X);
        privlr_csr_dots(&csr, view->first, view->count, w, out);
    }
    finish_dots(X, view->first, view->count, w, out);
}

void privlr_design_sums(const privlr_design *X, const privlr_view *view, double *c, double *out) {
    const size_t count = (size_t)view->count, n_cols = (size_t)X->n_cols;
    if (view->layout == PRIVLR_PANELS) {
        fill_up(c, view->count);
        privlr_panels_sums(panels_of(view->count), (size_t)privlr_design_width(X), view->x, c, out);
        return;
    }
    scale_factors(X, view->first, view->count, c);
    if (view->layout == PRIVLR_ROWS) {
        rows_sums(view, 0, count, n_cols, c, 0, out);
    } else if (view->layout == PRIVLR_COLUMNS) {
        rows_dots(view, 0, n_cols, count, c, 0, out);
    } else {
        const privlr_csr csr = csr_of(X);
        privlr_csr_sums(&csr, view->first, view->count, c, out);
    }
    add_constants(X, view->count, c, out);
}

/* So many rows at a time that the second product finds them in the first-level cache, into which
 * they came from the second. 0: all of a block, since rows are long. */
static int64_t step_rows(const privlr_design *X) {
    const int64_t size = X->is_float32 ? sizeof(float) : sizeof(double);
    const int64_t rows = STEP_BYTES / size / X->n_cols;
    if (rows < LANES / 2)
        return 0;
    if (X->n_entries <= CACHED_ENTRIES)
        return STEP_CACHED;
    return rows < LANES ? LANES / 2 : rows / LANES * LANES;
}

void privlr_design_walk(const privlr_design *X, const privlr_view *view, int64_t skip,
                        const double *w, privlr_turn turn, void *context, double *raw, double *c,
                        double *out) {
    const int64_t count = view->count, stride = view->stride;
    const size_t n_cols = (size_t)X->n_cols;
    const int64_t step = w && view->layout == PRIVLR_ROWS ? step_rows(X) : 0;
    if (step == 0) {
        if (w)
            privlr_design_dots(X, view, w, raw);
        else
            memset(raw, 0, (size_t)count * sizeof *raw);
        turn(context, view, view->first, count, raw, c);
        privlr_design_sums(X, view, c, out);
        return;
    }
    const int fetch = X->col_stride == 1 && stride >= X->n_cols && stride <= 2 * X->n_cols;
    memset(raw, 0, (size_t)count * sizeof *raw);
    for (int64_t i = 0; i < count; i += step) {
        const int64_t rows = count - i < step ? count - i : step;
        const int64_t ahead = FETCH_ROWS + (i + FETCH_ROWS < count ? 0 : skip);
        const int there = fetch && view->first + i + ahead + step <= X->n_rows;
        rows_dots(view, i, (size_t)rows, n_cols, w, 1, raw + i);
        finish_dots(X, view->first + i, rows, w, raw + i);
        turn(context, view, view->first + i, rows, raw + i, c + i);
        scale_factors(X, view->first + i, rows, c + i);
        rows_sums(view, i, (size_t)rows, n_cols, c + i, there ? ahead : 0, out);
    }
    add_constants(X, count, c, out);
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

/* h of the samples to h of the rows as stored. */
static void scale_twice(const privlr_design *X, int64_t first, int64_t count, double *h) {
    if (X->row_scale)
        for (int64_t i = 0; i < count; i++)
            h[i] *= X->row_scale[first + i] * X->row_scale[first + i];
}

void privlr_design_squares(const privlr_design *X, const privlr_view *view, double *h,
                           double *diagonal) {
    const privlr_csr csr = csr_of(X);
    scale_twice(X, view->first, view->count, h);
    privlr_csr_diagonal(&csr, view->first, view->count, h, diagonal);
    if (X->intercept != 0.0)
        for (int64_t i = 0; i < view->count; i++)
            diagonal[X->n_cols] += X->intercept * X->intercept * h[i];
}

void privlr_design_outer(const privlr_design *X, const privlr_view *view, double *h,
                         double *upper) {
    const int64_t width = privlr_design_width(X), first = view->first, count = view->count;
    if (view->layout == PRIVLR_PANELS) {
        fill_up(h, count);
        privlr_panels_outer(panels_of(count), (size_t)width, view->x, h, upper);
        return;
    }
    const privlr_csr csr = csr_of(X);
    scale_twice(X, first, count, h);
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
