#ifdef __linux__
#define _DEFAULT_SOURCE
#include <sys/mman.h>
#endif

#include "single.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "metric.h"

enum { ENTRIES_MIN = 1 << 20 };
/* A Hessian that costs more passes than this is asked for only where the copy does not serve. */
static const double METRIC_COST = 60.0;

int privlr_single_is_apt(const privlr_objective *f) {
    return !f->X.index_bits && !f->X.is_float32 && f->n_outputs == 1 &&
           f->X.n_entries >= ENTRIES_MIN &&
           (!privlr_metric_is_affordable(f) ||
            privlr_metric_cost(f, privlr_metric_coarsest(f)) > METRIC_COST);
}

/* Returns 0 if a number is too large. */
static int copy_rows(privlr_design *X, float *rows) {
    const double *values = X->values;
    const int by_column = X->row_stride == 1;
    const int64_t outer = by_column ? X->n_cols : X->n_rows;
    const int64_t inner = by_column ? X->n_rows : X->n_cols;
    const int64_t far = by_column ? X->col_stride : X->row_stride;
    const int64_t near = by_column ? X->row_stride : X->col_stride;
    int fits = 1;
    for (int64_t i = 0; i < outer; i++) {
        const double *restrict from = values + i * far;
        float *restrict to = rows + i * inner;
        for (int64_t j = 0; j < inner; j++) {
            to[j] = (float)from[j * near];
            fits &= fabsf(to[j]) <= FLT_MAX;
        }
    }
    X->values = rows;
    X->is_float32 = 1;
    X->row_stride = by_column ? 1 : inner;
    X->col_stride = by_column ? inner : 1;
    return fits;
}

/* Large pages: half of the time would go into the tables of small ones. */
static void *allocate(size_t bytes) {
#ifdef __linux__
    void *memory = NULL;
    if (posix_memalign(&memory, 1 << 21, bytes) == 0)
        madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
#else
    return malloc(bytes);
#endif
}

void privlr_single_init(privlr_single *single, const privlr_objective *f) {
    const size_t width = (size_t)privlr_design_width(&f->X);
    single->f = *f;
    single->rows = allocate((size_t)f->X.n_entries * sizeof(float));
    single->linear = calloc(width, sizeof(double));
    if (f->linear && single->linear)
        memcpy(single->linear, f->linear, width * sizeof(double));
    single->f.linear = single->linear;
    if (!single->rows || !single->linear || !copy_rows(&single->f.X, single->rows))
        privlr_single_free(single);
}

void privlr_single_free(privlr_single *single) {
    free(single->rows);
    free(single->linear);
    single->rows = NULL;
    single->linear = NULL;
}

void privlr_single_correct(privlr_single *single, const double *gradient, const double *own) {
    for (int64_t j = 0; j < privlr_design_width(&single->f.X); j++)
        single->linear[j] += gradient[j] - own[j];
}
