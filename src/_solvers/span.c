#include "span.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "logistic.h"
#include "pairs.h"

enum {
    STEPS_MAX = 200,
    PATIENCE = 40, /* steps without a smaller norm: it often rests before it falls */
    TRIALS = 40,
    /* Entries a column up to which they cost less than long vectors: every step looks at
     * them twice. */
    SPARSE_ENTRIES = 32,
    DENSE_ENTRIES = 128,
    CACHED_ENTRIES = 1 << 22
};

/* The gradient is brought below this share of the tolerance, as it is found again otherwise. */
static const double SHARE = 0.9;
/* A step ends where the slope along it is this share of what it was. */
static const double ENOUGH = 0.4;

int privlr_span_is_apt(const privlr_objective *f) {
    const privlr_design *X = &f->X;
    const double coupling = X->lengths->square_sum / ((double)X->n_rows * f->ridge);
    int64_t most = X->index_bits ? SPARSE_ENTRIES : DENSE_ENTRIES;
    /* With a small ridge the steps are many, and a search along a line is often worth it. */
    if (coupling > 1.0 && X->n_entries <= CACHED_ENTRIES)
        most *= 8;
    return f->n_outputs == 1 && X->n_rows < X->n_cols && X->n_entries / most < X->n_cols &&
           !privlr_design_is_narrow(X);
}

/* Vectors of the span: factors of the n rows, then products with them. */
typedef struct {
    const privlr_objective *f;
    int64_t n;
    double *here, *gradient, *next, *next_gradient, *direction;
    double *factor, *vector, *scratch; /* n, width and what views need */
} span;

static privlr_view block_at(const span *s, int64_t first) {
    const int64_t block = privlr_design_block(&s->f->X), rest = s->n - first;
    return privlr_design_view(&s->f->X, first, rest < block ? rest : block, s->scratch);
}

/* out = X vector */
static void multiply(const span *s, double *out) {
    for (int64_t i = 0; i < s->n; i += privlr_design_block(&s->f->X)) {
        const privlr_view rows = block_at(s, i);
        privlr_design_dots(&s->f->X, &rows, s->vector, out + i);
    }
}

/* vector += sum_i factor_i a_i */
static void add_rows(const span *s, const double *factor) {
    memcpy(s->factor, factor, (size_t)s->n * sizeof *factor);
    for (int64_t i = 0; i < s->n; i += privlr_design_block(&s->f->X)) {
        const privlr_view rows = block_at(s, i);
        privlr_design_sums(&s->f->X, &rows, s->factor + i, s->vector);
    }
}

static void center(const span *s) {
    const privlr_objective *f = s->f;
    for (int64_t j = 0; j < privlr_design_width(&f->X); j++)
        s->vector[j] = (f->prior ? f->prior[j] : 0.0) - (f->linear ? f->linear[j] / f->ridge : 0.0);
}

/* The gradient's factors at a point. */
static void find_factors(const span *s, const double *point, double *factor) {
    const privlr_objective *f = s->f;
    privlr_logistic_slopes((size_t)s->n, f->loss, point + s->n, f->y, f->sample_weight, factor,
                           NULL);
    for (int64_t i = 0; i < s->n; i++)
        factor[i] += f->ridge * point[i];
}

/* Their products too. Returns the gradient's length. */
static double find_gradient(const span *s, const double *point, double *gradient) {
    const int64_t width = privlr_design_width(&s->f->X);
    find_factors(s, point, gradient);
    memset(s->vector, 0, (size_t)width * sizeof *s->vector);
    add_rows(s, gradient);
    multiply(s, gradient + s->n);
    return privlr_norm(width, s->vector);
}

/* Points along the direction cost no look at the rows. */
static void search(const span *s) {
    double low = 0.0, high = INFINITY, step = 1.0;
    const double *products = s->direction + s->n;
    const double slope = privlr_dot(s->n, s->gradient, products);
    for (int trial = 0; trial < TRIALS; trial++) {
        for (int64_t i = 0; i < 2 * s->n; i++)
            s->next[i] = s->here[i] + step * s->direction[i];
        find_factors(s, s->next, s->next_gradient);
        const double ratio = privlr_dot(s->n, s->next_gradient, products) / slope;
        if (fabs(ratio) <= ENOUGH)
            return;
        if (ratio > 0.0)
            low = step;
        else
            high = step;
        step = isinf(high) ? 2.0 * step : 0.5 * (low + high);
    }
}

static void swap(double **a, double **b) {
    double *other = *a;
    *a = *b;
    *b = other;
}

privlr_status privlr_span_descent(const privlr_objective *f, double tolerance, double *w,
                                  double *passes) {
    const int64_t n = f->X.n_rows, width = privlr_design_width(&f->X);
    const int64_t scratch = (int64_t)privlr_design_scratch(&f->X);
    const int64_t size = (4 * PRIVLR_PAIRS + 11) * n + width + scratch;
    double *memory = malloc((size_t)size * sizeof *memory);
    if (!memory)
        return PRIVLR_NO_MEMORY;
    double *pairs_memory = memory + 11 * n, *vector = pairs_memory + 4 * PRIVLR_PAIRS * n;
    span s = {.f = f,
              .n = n,
              .here = memory,
              .gradient = memory + 2 * n,
              .next = memory + 4 * n,
              .next_gradient = memory + 6 * n,
              .direction = memory + 8 * n,
              .factor = memory + 10 * n,
              .vector = vector,
              .scratch = vector + width};
    const privlr_metric none = {0};
    privlr_pairs pairs = {
        .n = 2 * n, .in_span = 1, .s = pairs_memory, .y = pairs_memory + 2 * PRIVLR_PAIRS * n};
    pairs.scale = 1.0 / (f->ridge + 0.25 * f->X.lengths->square_sum / (double)n);

    memset(s.here, 0, (size_t)(2 * n) * sizeof *s.here);
    if (f->prior || f->linear) {
        center(&s);
        multiply(&s, s.here + n);
    }
    for (int64_t i = 0; f->offset && i < n; i++)
        s.here[n + i] += f->offset[i];
    double norm = find_gradient(&s, s.here, s.gradient), least = norm;
    *passes += 1.0;
    int idle = 0;
    for (int k = 0; k < STEPS_MAX && norm > SHARE * tolerance && idle < PATIENCE; k++) {
        privlr_pairs_direction(&pairs, &none, NULL, s.gradient, s.direction);
        search(&s);
        norm = find_gradient(&s, s.next, s.next_gradient);
        *passes += 1.0;
        privlr_pairs_add(&pairs, s.here, s.gradient, s.next, s.next_gradient);
        swap(&s.here, &s.next);
        swap(&s.gradient, &s.next_gradient);
        idle = norm <= 0.7 * least ? 0 : idle + 1;
        least = fmin(least, norm);
    }
    center(&s);
    add_rows(&s, s.here);
    memcpy(w, s.vector, (size_t)width * sizeof *w);
    free(memory);
    return PRIVLR_OK;
}
