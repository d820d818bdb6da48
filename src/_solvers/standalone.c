#include "solve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "logistic.h"
#include "minimize.h"
#include "scan.h"

static const double MAX_PASSES = 10000.0;

static int all_finite(int64_t n, const double *x) {
    for (int64_t i = 0; x && i < n; i++)
        if (!isfinite(x[i]))
            return 0;
    return 1;
}

static privlr_status check(const privlr_objective *f, double tolerance) {
    const int64_t n = f->X.n_rows, d = f->X.n_cols;
    if (n < 1 || d < 1 || !(f->ridge > 0.0) || !isfinite(f->ridge) || !(tolerance >= 0.0) ||
        (f->loss != PRIVLR_LOSS_LOGISTIC && f->loss != PRIVLR_LOSS_CAPPED))
        return PRIVLR_INVALID;
    for (int64_t i = 0; i < n; i++)
        if (fabs(f->y[i]) != 1.0 || (f->sample_weight && f->sample_weight[i] < 0.0))
            return PRIVLR_INVALID;
    return all_finite(n, f->sample_weight) && all_finite(n, f->offset) && all_finite(d, f->prior)
               ? PRIVLR_OK
               : PRIVLR_NONFINITE;
}

/* Finds the lengths of rows that passes do not find. */
static privlr_status look(privlr_design *X) {
    if (privlr_design_is_tall(X))
        return PRIVLR_OK;
    privlr_scan scan[1 + PRIVLR_SCAN_PARTS] = {{.X = X}};
    double *scratch = malloc(privlr_design_scan_scratch(scan, 1, 1) * sizeof *scratch);
    if (!scratch)
        return PRIVLR_NO_MEMORY;
    privlr_design_scan(scan, 1, NULL, scratch);
    free(scratch);
    *X->lengths = scan->lengths;
    return scan->lengths.longest <= privlr_design_most(X) ? PRIVLR_OK : PRIVLR_NONFINITE;
}

privlr_status privlr_solve(const privlr_blas *blas, int64_t n, int64_t d, const double *X,
                           int64_t row_stride, int64_t col_stride, const double *y,
                           const double *sample_weight, const double *offset, const double *prior,
                           double ridge, int loss, double tolerance, double *coef_out,
                           double *gradient_norm_out, double *passes_out) {
    privlr_lengths lengths = {0};
    privlr_objective f = {
        .X = {.n_rows = n,
              .n_cols = d,
              .values = X,
              .row_stride = row_stride,
              .col_stride = col_stride,
              .n_entries = n * d,
              .lengths = &lengths},
        .y = y,
        .sample_weight = sample_weight,
        .offset = offset,
        .prior = prior,
        .loss = loss,
        .n_outputs = 1,
        .ridge = ridge,
    };
    privlr_status status = check(&f, tolerance);
    if (status == PRIVLR_OK) {
        f.X.plain_blocks = privlr_design_plain_blocks(&f.X);
        status = look(&f.X);
    }
    if (status != PRIVLR_OK)
        return status;
    privlr_metric metric = {.width = d};
    double *w = calloc((size_t)d, sizeof *w);
    const privlr_options options = {tolerance, MAX_PASSES, 1, blas != NULL, NULL};
    privlr_progress progress;
    status = w ? PRIVLR_OK : PRIVLR_NO_MEMORY;
    if (status == PRIVLR_OK && blas)
        status = privlr_metric_init(&metric, &f);
    if (status == PRIVLR_OK)
        status = privlr_minimize(&f, blas, NULL, &options, &metric, w, &progress);
    if (status == PRIVLR_EXTREME)
        status = PRIVLR_NONFINITE;
    if (status != PRIVLR_NO_MEMORY && status != PRIVLR_NONFINITE) {
        memcpy(coef_out, w, (size_t)d * sizeof *w);
        if (gradient_norm_out)
            *gradient_norm_out = progress.gradient_norm;
        if (passes_out)
            *passes_out = progress.passes;
    }
    privlr_metric_free(&metric);
    free(w);
    return status;
}
