/* A solve of any design ends with a status, finite coefficients and the norm that it reports.
 *
 * The bytes are read as a shape, a layout and numbers of any kind, which are made finite.
 * The routines of BLAS and LAPACK are the obvious loops.
 */
#include "solve.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "logistic.h"
#include "minimize.h"
#include "scan.h"

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

#define DEFINE_SYRK(name, number)                                                                  \
    static void name(char *uplo, char *trans, int *n, int *k, number *alpha, number *a, int *lda,  \
                     number *beta, number *c, int *ldc) {                                          \
        REQUIRE(*uplo == 'U' && *trans == 'N');                                                    \
        for (int j = 0; j < *n; j++)                                                               \
            for (int i = 0; i <= j; i++) {                                                         \
                number sum = 0;                                                                    \
                for (int l = 0; l < *k; l++)                                                       \
                    sum += a[i + l * *lda] * a[j + l * *lda];                                      \
                c[i + j * *ldc] = *alpha * sum + *beta * c[i + j * *ldc];                          \
            }                                                                                      \
    }
DEFINE_SYRK(dsyrk, double)
DEFINE_SYRK(ssyrk, float)

static void potrf(char *uplo, int *n, double *a, int *lda, int *info) {
    REQUIRE(*uplo == 'U');
    for (int j = 0; j < *n; j++)
        for (int i = 0; i <= j; i++) {
            double sum = a[i + j * *lda];
            for (int l = 0; l < i; l++)
                sum -= a[l + i * *lda] * a[l + j * *lda];
            if (i == j && !(sum > 0.0)) {
                *info = j + 1;
                return;
            }
            a[i + j * *lda] = i == j ? sqrt(sum) : sum / a[i + i * *lda];
        }
    *info = 0;
}

static void trsv(char *uplo, char *trans, char *diag, int *n, double *a, int *lda, double *x,
                 int *incx) {
    REQUIRE(*uplo == 'U' && *diag == 'N' && *incx == 1);
    const int transposed = *trans == 'T';
    for (int k = 0; k < *n; k++) {
        const int i = transposed ? k : *n - 1 - k;
        for (int l = transposed ? 0 : i + 1; l < (transposed ? i : *n); l++)
            x[i] -= (transposed ? a[l + i * *lda] : a[i + l * *lda]) * x[l];
        x[i] /= a[i + i * *lda];
    }
}

static const privlr_blas BLAS = {dsyrk, ssyrk, potrf, trsv};

enum { MOST_ROWS = 700, MOST_COLUMNS = 48, MOST = MOST_ROWS * MOST_COLUMNS };

/* What is left of the input; all zeros at the end. */
typedef struct {
    const uint8_t *data;
    size_t size, at;
    int magnitude; /* of the largest number, as a power of two */
} bytes;

static unsigned next_byte(bytes *in) {
    return in->size ? in->data[in->at++ % in->size] : 0;
}

static double next_number(bytes *in) {
    const int exponent = (int)(next_byte(in) % 16);
    return ldexp((double)(int8_t)next_byte(in), in->magnitude - exponent - 7);
}

static int is_finite(int64_t n, const double *x) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return 0;
    return 1;
}

/* The same rows as CSR with two kinds of indices and of values. */
typedef struct {
    double values[MOST];
    float floats[MOST];
    int32_t index32[MOST], start32[MOST_ROWS + 1];
    int64_t index64[MOST], start64[MOST_ROWS + 1];
} sparse;

static void compress(const double *X, int64_t n, int64_t d, sparse *out) {
    int64_t k = 0;
    for (int64_t i = 0; i < n; i++) {
        out->start64[i] = k;
        out->start32[i] = (int32_t)k;
        for (int64_t j = 0; j < d; j++)
            if (X[i * d + j] != 0.0) {
                out->values[k] = X[i * d + j];
                out->floats[k] = (float)X[i * d + j];
                out->index64[k] = j;
                out->index32[k++] = (int32_t)j;
            }
    }
    out->start64[n] = k;
    out->start32[n] = (int32_t)k;
}

/* Scans, clips where asked to, solves and compares the norm with a pass of its own. */
static void solve_design(privlr_design X, double bound, privlr_objective f, double tolerance,
                         int use_metric) {
    double w[MOST_COLUMNS + 1] = {0.0}, gradient[MOST_COLUMNS + 1], scale[MOST_ROWS];
    privlr_scan scan[1 + PRIVLR_SCAN_PARTS] = {
        {.X = &X, .bound = bound, .scale_out = bound > 0.0 ? scale : NULL}};
    double *scratch = malloc(privlr_design_scan_scratch(scan, 1, 1) * sizeof *scratch);
    REQUIRE(scratch);
    privlr_design_scan(scan, 1, NULL, scratch);
    free(scratch);
    if (scan->status != PRIVLR_OK || !isfinite(scan->lengths.square_sum))
        return;
    for (int64_t i = 0; X.panels && i < (X.n_rows + 7) / 8 * 8 * privlr_design_width(&X); i++)
        REQUIRE(fabs(X.panels[i]) <= scan->lengths.longest);
    X.row_scale = bound > 0.0 ? scale : NULL;
    X.lengths = &scan->lengths;
    X.plain_blocks = scan->plain_blocks;
    REQUIRE(bound == 0.0 || scan->lengths.longest <= bound);
    f.X = X;

    privlr_metric metric;
    privlr_workspace work;
    privlr_progress progress;
    const privlr_options options = {tolerance, 300, 1, use_metric, NULL};
    REQUIRE(privlr_metric_init(&metric, &f) == PRIVLR_OK);
    const privlr_status status = privlr_minimize(&f, &BLAS, NULL, &options, &metric, w, &progress);
    REQUIRE(status == PRIVLR_OK || status == PRIVLR_STALLED || status == PRIVLR_MAX_ITER);
    REQUIRE(is_finite(privlr_objective_size(&f), w) && progress.passes >= 1.0);
    REQUIRE(privlr_workspace_init(&work, &f, NULL) == PRIVLR_OK);
    privlr_objective_evaluate(&f, &work, 1, 0, w, gradient);
    double square = 0.0;
    for (int64_t j = 0; j < privlr_objective_size(&f); j++)
        square += gradient[j] * gradient[j];
    REQUIRE(fabs(sqrt(square) - progress.gradient_norm) <= 1e-12 * progress.gradient_norm);
    REQUIRE(status != PRIVLR_OK || progress.gradient_norm <= tolerance);
    privlr_workspace_free(&work);
    privlr_metric_free(&metric);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static double X[MOST], turned[MOST], y[MOST_ROWS], weight[MOST_ROWS], offset[MOST_ROWS];
    static float floats[MOST];
    static sparse csr;
    if (size < 16)
        return 0;
    bytes in = {data, size, 0, 0};
    const unsigned how = next_byte(&in), more = next_byte(&in);
    const int64_t n = 1 + (int64_t)(next_byte(&in) * 256 + next_byte(&in)) % MOST_ROWS;
    const int64_t d = 1 + next_byte(&in) % MOST_COLUMNS;
    const double ridge = ldexp(1.0, (int)(next_byte(&in) % 64) - 48);
    in.magnitude = (int)(next_byte(&in) % 40) - 10;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < d; j++) {
            const double x = how & 64 && next_byte(&in) % 8 ? 0.0 : next_number(&in);
            X[i * d + j] = turned[(d - 1 - j) * n + i] = x;
            floats[i * d + j] = (float)x;
        }
        y[i] = next_byte(&in) & 1 ? 1.0 : -1.0;
        weight[i] = ldexp((double)(next_byte(&in) % 5), 0);
        offset[i] = next_number(&in);
    }
    double prior[MOST_COLUMNS + 1], linear[MOST_COLUMNS + 1], coef[MOST_COLUMNS];
    for (int64_t j = 0; j <= d; j++) {
        prior[j] = next_number(&in);
        linear[j] = next_number(&in);
    }
    privlr_objective f = {
        .y = y,
        .sample_weight = how & 1 ? weight : NULL,
        .offset = how & 2 ? offset : NULL,
        .prior = how & 4 ? prior : NULL,
        .linear = how & 8 ? linear : NULL,
        .loss = how & 16 ? PRIVLR_LOSS_CAPPED : PRIVLR_LOSS_LOGISTIC,
        .n_outputs = 1,
        .ridge = ridge,
    };
    const double tolerance = ridge * 1e-6, bound = how & 32 ? 1.0 : 0.0;
    const int use_metric = !(how & 128);
    const double intercept = more & 1 ? 0.5 : 0.0;
    privlr_design design = {.n_rows = n, .n_cols = d, .n_entries = n * d, .plain_blocks = 1};
    design.intercept = intercept;
    double norm, passes;
    privlr_status status;

    switch (more / 2 % 6) {
    case 0: /* columns backwards, one after the other */
        status = privlr_solve(use_metric ? &BLAS : NULL, n, d, turned + (d - 1) * n, 1, -n, y,
                              f.sample_weight, f.offset, f.prior, ridge, f.loss, tolerance, coef,
                              &norm, &passes);
        REQUIRE(status == PRIVLR_OK || status == PRIVLR_STALLED || status == PRIVLR_MAX_ITER);
        REQUIRE(is_finite(d, coef) && norm >= 0.0 && passes >= 1.0);
        return 0;
    case 1:
        design.values = floats;
        design.is_float32 = 1;
        break;
    case 2:
        design.values = X;
        break;
    default:
        compress(X, n, d, &csr);
        design.n_entries = csr.start64[n];
        design.is_float32 = more / 2 % 6 == 3;
        design.index_bits = more / 2 % 6 == 4 ? 32 : 64;
        design.values = design.is_float32 ? (const void *)csr.floats : csr.values;
        design.indices = design.index_bits == 32 ? (const void *)csr.index32 : csr.index64;
        design.indptr = design.index_bits == 32 ? (const void *)csr.start32 : csr.start64;
        solve_design(design, bound, f, tolerance, use_metric);
        return 0;
    }
    design.row_stride = d;
    design.col_stride = 1;
    double panels[(MOST_ROWS + 7) * PRIVLR_NARROW];
    int64_t rows[MOST_ROWS], columns[MOST_COLUMNS];
    if (privlr_design_is_narrow(&design)) {
        design.panels = more & 64 ? panels : NULL;
        for (int64_t i = 0; i < n; i++)
            rows[i] = next_byte(&in) % n;
        for (int64_t j = 0; j < d; j++)
            columns[j] = next_byte(&in) % d;
        design.rows = more & 128 ? rows : NULL;
        design.columns = more & 128 ? columns : NULL;
    }
    solve_design(design, bound, f, tolerance, use_metric);
    return 0;
}
