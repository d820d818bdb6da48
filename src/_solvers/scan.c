#include "scan.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "stored.h"

enum {
    CACHED_DOUBLES = 1 << 20, /* panels that may still be in the cache when they are all cut */
    SCAN_ROWS = 16,           /* of several designs that are cut at a time */
    SCAN_COLUMNS = 64,        /* where the matrix is stored by column */
    SOON = 2                  /* steps to the rows that are fetched meanwhile */
};

/* Beyond this length, the root of PRIVLR_LARGEST_SQUARE, a product of a row with plausible
 * coefficients may overflow. */
static const double EXTREME_LENGTH = 1e150;

/* The stored elements of row i. */
static int64_t row_length(const privlr_design *X, int64_t i) {
    const privlr_csr csr = csr_of(X);
    return X->index_bits ? privlr_csr_start(&csr, i + 1) - privlr_csr_start(&csr, i) : X->n_cols;
}

static double row_value(const privlr_design *X, int64_t i, int64_t j) {
    const privlr_csr csr = csr_of(X);
    return value_at(X,
                    X->index_bits ? privlr_csr_start(&csr, i) + j : row_at(X, i) + column_at(X, j));
}

/* Length of (x_i, intercept) where its square leaves the range of a double; infinite or
 * NaN where an entry is. */
static double careful_length(const privlr_design *X, int64_t i) {
    const int64_t length = row_length(X, i);
    double largest = fabs(X->intercept), total = 0.0;
    for (int64_t j = 0; j < length; j++) {
        const double x = fabs(row_value(X, i, j));
        if (!(x <= DBL_MAX))
            return x;
        largest = x > largest ? x : largest;
    }
    if (largest == 0.0)
        return 0.0;
    int exponent;
    frexp(largest, &exponent);
    for (int64_t j = 0; j < length; j++) {
        const double x = ldexp(row_value(X, i, j), -exponent);
        total += x * x;
    }
    const double constant = ldexp(X->intercept, -exponent);
    return ldexp(sqrt(total + constant * constant), exponent);
}

/* out[i] += square of row i's length, column by column */
#define DEFINE_COLUMN_SQUARES(type)                                                                \
    static void column_squares_##type(int64_t count, int64_t n_cols, const type *restrict x,       \
                                      ptrdiff_t stride, double *restrict out) {                    \
        for (int64_t j = 0; j < n_cols; j++, x += stride)                                          \
            for (int64_t i = 0; i < count; i++)                                                    \
                out[i] += (double)x[i] * (double)x[i];                                             \
    }
DEFINE_COLUMN_SQUARES(double)
DEFINE_COLUMN_SQUARES(float)

/* out[i] = ||(x_(first + i), intercept)||^2 as it comes, of rows of a view that is not of panels */
static void row_squares(const privlr_design *X, const privlr_view *view, int64_t first,
                        int64_t count, double *out) {
    const size_t rows = (size_t)count, n_cols = (size_t)X->n_cols;
    const ptrdiff_t skipped = (ptrdiff_t)(first - view->first);
    for (size_t i = 0; i < rows; i++)
        out[i] = X->intercept * X->intercept;
    if (view->layout == PRIVLR_CSR) {
        const privlr_csr csr = csr_of(X);
        privlr_csr_squares(&csr, first, count, out);
    } else if (view->layout == PRIVLR_COLUMNS && view->single) {
        column_squares_float(count, X->n_cols, view->single + skipped, view->stride, out);
    } else if (view->layout == PRIVLR_COLUMNS) {
        column_squares_double(count, X->n_cols, view->x + skipped, view->stride, out);
    } else if (view->single) {
        privlr_rows_single_squares(rows, n_cols, view->single + skipped * view->stride,
                                   view->stride, out);
    } else {
        privlr_rows_squares(rows, n_cols, view->x + skipped * view->stride, view->stride, out);
    }
}

static int row_is_finite(const privlr_design *X, int64_t i) {
    const int64_t length = row_length(X, i);
    for (int64_t j = 0; j < length; j++)
        if (!(fabs(row_value(X, i, j)) <= DBL_MAX))
            return 0;
    return 1;
}

/* Length and factor of a row whose square is no ordinary number. Returns 0 if the row is not
 * finite, and has to be. */
static int measure_carefully(privlr_scan *scan, int64_t i, double accept, double *length,
                             double *factor) {
    *length = careful_length(scan->X, i);
    if (!scan->scale_out)
        return 1;
    /* An overflowing length of finite entries is infinite too. */
    if (!(*length <= DBL_MAX) && !row_is_finite(scan->X, i)) {
        scan->status = PRIVLR_NONFINITE;
        return 0;
    }
    /* bound/DBL_MAX/2 stands in for a length that no double can hold. */
    *factor = *length <= accept    ? 1.0
              : *length <= DBL_MAX ? accept / *length
                                   : accept / DBL_MAX / (2.0 * sqrt((double)(scan->X->n_cols + 1)));
    if (*length > EXTREME_LENGTH) {
        scan->status = PRIVLR_EXTREME;
        *factor = -*factor;
    }
    if (*length > accept)
        *length = scan->bound;
    return 1;
}

/* The sum runs over eights, however many rows come at a time. */
static void add_lengths(privlr_lengths *known, int64_t n, const double *length) {
    double top[LANES] = {0.0};
    for (int64_t i = 0; i < n; i += LANES) {
        double sum[LANES];
        for (int k = 0; k < LANES; k++) {
            sum[k] = length[i + k] * length[i + k];
            top[k] = length[i + k] > top[k] ? length[i + k] : top[k];
        }
        known->square_sum +=
            ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
    }
    for (int k = 0; k < LANES; k++)
        known->longest = top[k] > known->longest ? top[k] : known->longest;
    if (isnan(known->square_sum))
        known->longest = NAN;
}

/* Of rows with such squares; those of a narrow design are cut, and have the first columns of panels
 * that are `cut_width` columns wide. */
static void scan_rows(privlr_scan *scan, int64_t first, int64_t count, const double *square,
                      const double *cut, int64_t cut_width) {
    const privlr_design *X = scan->X;
    const int64_t width = privlr_design_width(X), padded = (int64_t)panels_of(count) * LANES;
    /* The computed length has a relative error below (width + 4)/2 units, the
     * quotient one more; twice that covers the rounding of the margin itself. */
    const double slack = 1.0 - (double)(width + 8) * DBL_EPSILON;
    const double accept = scan->scale_out ? scan->bound * slack : INFINITY;
    double length[BLOCK_MAX], factor[BLOCK_MAX];
    if (privlr_rows_factors((size_t)padded, accept, scan->bound, square, length, factor))
        for (int64_t i = 0; i < count; i++)
            if (!privlr_square_is_ordinary(square[i]) &&
                !measure_carefully(scan, first + i, accept, length + i, factor + i))
                return;
    fill_up(length, count);
    add_lengths(&scan->lengths, padded, length);
    if (scan->scale_out)
        memcpy(scan->scale_out + first, factor, (size_t)count * sizeof *factor);
    fill_up(factor, count);
    if (X->panels)
        privlr_panels_scale(panels_of(count), (size_t)X->n_cols, cut, (size_t)cut_width,
                            X->intercept, factor, scan->away, X->panels + first * width);
}

/* Asks for whole rows of the matrix that designs are cut from, if they use `columns` of it and
 * leave no more than as many. Inline, as GCC drops calls of what does nothing else. */
static inline __attribute__((always_inline)) void
prefetch_rows(const privlr_design *X, int64_t columns, int64_t first, int64_t end) {
    const int64_t size = X->is_float32 ? sizeof(float) : sizeof(double);
    if (X->col_stride != 1 || X->row_stride > 2 * columns)
        return;
    for (int64_t i = first; i < end && i < X->n_rows; i++)
        for (int64_t byte = 0; byte < X->row_stride * size; byte += 64)
            __builtin_prefetch((const char *)X->values + row_at(X, i) * size + byte, 0, 2);
}

typedef struct {
    privlr_scan *scans; /* n_scans as they begin, then those of each part */
    int64_t n_scans, blocks, parts;
    int64_t n_cols; /* of all designs together */
    const int64_t *columns;
    double *scratch;
    size_t scratch_size;
} scan_job;

/* Rows of several designs are cut a few at a time, so that each design finds its columns in the
 * first-level cache; more of a matrix that is stored by column. */
static int64_t scan_step(const privlr_design *X, int64_t n_scans) {
    return n_scans == 1 ? privlr_design_block(X) : X->col_stride == 1 ? SCAN_ROWS : SCAN_COLUMNS;
}

/* For each member: squares of every design's rows, and what the rows are cut or copied to. */
static size_t member_scratch(const privlr_scan *scans, int64_t n_scans, int64_t n_cols) {
    const privlr_design *X = scans->X;
    const int64_t step = scan_step(X, n_scans);
    return (size_t)(n_scans * step) +
           (n_scans == 1 ? privlr_design_scratch(X) : (size_t)(step * n_cols));
}

static int64_t columns_of(const privlr_scan *scans, int64_t n_scans) {
    int64_t n_cols = 0;
    for (int64_t k = 0; k < n_scans; k++)
        n_cols += scans[k].X->n_cols;
    return n_cols;
}

size_t privlr_design_scan_scratch(const privlr_scan *scans, int64_t n_scans, int64_t members) {
    const int64_t n_cols = columns_of(scans, n_scans);
    return (size_t)n_cols + (size_t)members * member_scratch(scans, n_scans, n_cols);
}

static void scan_part(void *context, int64_t part, int member) {
    const scan_job *job = context;
    const privlr_design *X = job->scans->X;
    const int64_t block = privlr_design_block(X), n_scans = job->n_scans, n_cols = job->n_cols;
    const int64_t last = (part + 1) * job->blocks / job->parts * block;
    const int64_t end = last < X->n_rows ? last : X->n_rows, step = scan_step(X, n_scans);
    double *squares = job->scratch + (size_t)member * job->scratch_size;
    double *rows = squares + n_scans * step;
    privlr_scan *scans = job->scans + (part + 1) * n_scans;
    memcpy(scans, job->scans, (size_t)n_scans * sizeof *scans);
    for (int64_t first = part * job->blocks / job->parts * block; first < end; first += step) {
        const int64_t count = first + step < end ? step : end - first, soon = first + SOON * step;
        if (privlr_design_is_narrow(X)) {
            int64_t start[NARROW_BLOCK];
            find_rows(X, first, count, start);
            cut_panels(X, job->columns, n_cols, start, count, n_cols, rows);
            const double *cut = rows;
            for (int64_t k = 0; k < n_scans; cut += scans[k++].X->n_cols * LANES)
                privlr_panels_squares(panels_of(count), (size_t)scans[k].X->n_cols, cut,
                                      (size_t)n_cols, scans[k].X->intercept, squares + k * step);
        } else {
            const privlr_view view = privlr_design_view(X, first, count, rows);
            row_squares(X, &view, first, count, squares);
            for (int64_t i = count; i % LANES; i++)
                squares[i] = 1.0;
        }
        const double *cut = rows;
        for (int64_t k = 0; k < n_scans; cut += scans[k++].X->n_cols * LANES) {
            /* Few rows look to the processor like no stream that it would fetch ahead; and a few
             * at a time, as many would be waited for. */
            if (n_scans > 1)
                prefetch_rows(X, n_cols, soon + k * step / n_scans,
                              soon + (k + 1) * step / n_scans);
            if (scans[k].status != PRIVLR_NONFINITE)
                scan_rows(scans + k, first, count, squares + k * step, cut, n_cols);
        }
    }
    /* Panels were stored past the caches: others see them after this. */
    atomic_thread_fence(memory_order_seq_cst);
}

void privlr_design_measure(const privlr_design *X, const privlr_view *view, int64_t first,
                           int64_t count, privlr_lengths *known) {
    double square[BLOCK_MAX], sum = 0.0, top = 0.0;
    row_squares(X, view, first, count, square);
    for (int64_t i = 0; i < count; i++)
        if (privlr_square_is_ordinary(square[i])) {
            sum += square[i];
            top = square[i] > top ? square[i] : top;
        } else {
            const double length = careful_length(X, first + i);
            privlr_lengths_add(known, &(privlr_lengths){0, length * length, length});
        }
    privlr_lengths_add(known, &(privlr_lengths){0, sum, sqrt(top)});
}

static void add_scan(privlr_scan *total, const privlr_scan *part) {
    if (total->status == PRIVLR_NONFINITE)
        return;
    if (part->status != PRIVLR_OK)
        total->status = part->status;
    privlr_lengths_add(&total->lengths, &part->lengths);
}

void privlr_design_scan(privlr_scan *scans, int64_t n_scans, privlr_team *team, double *scratch) {
    const int64_t n_rows = scans->X->n_rows, block = privlr_design_block(scans->X);
    int64_t panels = 0;
    const int64_t n_cols = columns_of(scans, n_scans);
    int64_t *columns = n_scans > 1 ? (int64_t *)scratch : NULL;
    scan_job job = {
        .scans = scans,
        .n_scans = n_scans,
        .blocks = (n_rows + block - 1) / block,
        .n_cols = n_cols,
        .columns = columns ? columns : scans->X->columns,
        .scratch = scratch + n_cols,
        .scratch_size = member_scratch(scans, n_scans, n_cols),
    };
    job.parts = job.blocks < PRIVLR_SCAN_PARTS ? job.blocks : PRIVLR_SCAN_PARTS;
    for (privlr_scan *scan = scans; scan < scans + n_scans; scan++) {
        const privlr_design *X = scan->X;
        for (int64_t j = 0; columns && j < X->n_cols; j++)
            *columns++ = X->columns[j];
        panels += n_rows * privlr_design_width(X);
        *scan = (privlr_scan){X,         scan->bound,        scan->scale_out,
                              PRIVLR_OK, {n_rows, 0.0, 0.0}, privlr_design_plain_blocks(X)};
        /* Rows that fill their columns make up for the additions themselves. */
        if (X->index_bits && X->intercept == 0.0 &&
            (double)X->n_rows * (double)X->n_cols > 64.0 * (double)X->n_entries) {
            const privlr_csr csr = csr_of(X);
            if (privlr_csr_fullest_column(&csr, X->n_rows, X->n_cols, (int64_t *)job.scratch) <=
                BLOCK_MAX)
                scan->plain_blocks = X->n_rows;
        }
    }
    for (int64_t k = 0; k < n_scans; k++)
        scans[k].away = panels > CACHED_DOUBLES;
    privlr_team_run(team, scan_part, &job, job.parts);
    for (int64_t k = 0; k < job.parts * n_scans; k++)
        add_scan(scans + k % n_scans, scans + n_scans + k);
}
