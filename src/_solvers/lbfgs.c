#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "minimize.h"
#include "pairs.h"
#include "single.h"
#include "span.h"

enum {
    SAMPLE_GROWTH = 4, /* every sample has this many times the rows of the last */
    SAMPLE_BLOCKS = 4, /* at least, to estimate the sampling error from their spread */
    SAMPLE_PER_COLUMN = 4,
    TRIALS = 25, /* of one line search */
    TRIALS_IN_NOISE = 2,
    STAGE_STEPS = 10, /* of Newton's method at one ridge, where L-BFGS fails */
    /* Iterations without a smaller gradient: on a sample; with a metric that may improve, beside
     * those that it costs, but no more than the most; at a norm that rounding errors nearly
     * explain; otherwise. */
    PATIENCE_SAMPLE = 5,
    PATIENCE_METRIC = 5,
    PATIENCE_MOST = 200,
    PATIENCE_COPY = 20,
    COPY_STEPS = 4, /* before a copy is thought of */
    PATIENCE_IN_NOISE = 10,
    PATIENCE_IN_HAZE = 100,
    PATIENCE = 1000
};

/* A sample is solved until its gradient is this share of its sampling error. */
static const double SAMPLE_ACCURACY = 0.5;
/* A copy in single precision costs as much as it saves in this many passes. It is used until
 * its gradient is this share of the true one where they were last the same. */
static const double COPY_PASSES = 11.0, COPY_ACCURACY = 1e-5;
/* Entries that may be looked at, for about a tenth of a second, before the caller is asked again
 * whether to go on. */
static const double UNASKED = 1e8;
/* From one ridge to the next; with a tenth, the steps of large margins never catch up. */
static const double STAGE = 0.5;
/* A Hessian of dense rows that costs more passes than this is made after half as many. */
static const double DEAR_PASSES = 60.0;
/* An estimate of the Hessian must promise to leave no more than this share of the cost. */
static const double GAIN = 0.7;
/* The rate over the error of an estimate: between 1.1, seen with 300 rows a column, and 1.6 with
 * ten. */
static const double RATE_BY_ERROR = 1.35;
/* The diagonal of the Hessian is looked for if the squares of all rows are more than so many times
 * the ridge, and an estimate of the whole costs more than so many passes. It is used if the mean of
 * its elements exceeds their harmonic mean by more than this share, and by more on a sample, whose
 * columns differ by chance. */
static const double COUPLED = 100.0, CHEAP_PASSES = 2.0, UNEVEN = 0.01;
/* It is looked for again where the norm is this share of what it was, until that has changed the
 * elements by no more than this share, on average. */
static const double FALLEN = 0.1, SETTLED = 0.05;
/* What the Hessian where a sample has led is taken to make of the norm, a step. */
static const double NEWTON_RATE = 3e-4;

typedef struct {
    double *w, *gradient, norm, value; /* value: with Newton's method only */
    double floor, haze;                /* norms that rounding errors explain, and may explain */
} point;

typedef struct {
    const privlr_objective *f;
    const privlr_blas *blas;
    const privlr_options *options;
    privlr_workspace work;
    privlr_metric *metric;
    privlr_pairs pairs;
    int64_t n, every; /* coefficients; blocks of rows, of which a pass uses one */
    double passes, noise;
    double built; /* passes when the metric was made, or before the first step */
    int newton;   /* the last resort: an exact Hessian for every step */
    privlr_single single;
    int copied; /* a copy was made, and may be given up */
    point here, next;
    /* Of the Hessian of sparse rows, and the norm where it was found; whether the next pass is to
     * find it, and whether it was the last to. */
    double *diagonal, measured;
    int with_diagonal, settled;
    double *direction, *memory;
} solver;

static void look(solver *s, point *at, int with) {
    const privlr_pass found =
        privlr_objective_evaluate(s->f, &s->work, s->every, with, at->w, at->gradient);
    at->value = found.value;
    at->norm = privlr_norm(s->n, at->gradient);
    at->floor = 4.0 * DBL_EPSILON * found.rounding;
    at->haze = 4.0 * DBL_EPSILON * found.haze;
    s->noise = found.noise;
    s->passes += 1.0 / (double)s->every;
}

static void evaluate(solver *s, point *at) {
    look(s, at, (s->newton ? PRIVLR_WITH_VALUE : 0) | (s->with_diagonal ? PRIVLR_WITH_HESSIAN : 0));
}

/* Whether the diagonal of the Hessian, which comes along with a pass for less than half of another,
 * should stand in for a metric. Columns of sparse rows differ in how often they are hit, if not in
 * their scale, and have few rows in common. */
static int diagonal_pays(const solver *s) {
    const privlr_objective *f = s->f;
    if (!s->options->use_metric || s->metric->every || !f->X.index_bits || f->n_outputs > 1)
        return 0;
    const int is_cheap =
        s->metric->factor && privlr_metric_cost(f, privlr_metric_coarsest(f)) < CHEAP_PASSES;
    return !is_cheap && f->X.lengths->square_sum > COUPLED * f->ridge;
}

/* Takes the diagonal that the last look has found, here. */
static void adopt_diagonal(solver *s) {
    double change = 0.0, sum = 0.0, inverses = 0.0;
    for (int64_t j = 0; j < s->n; j++) {
        const double last = s->pairs.diagonal ? s->diagonal[j] : 0.0;
        s->diagonal[j] = s->work.hessian[j] + s->f->ridge;
        change += fabs(last / s->diagonal[j] - 1.0);
        sum += s->diagonal[j];
        inverses += 1.0 / s->diagonal[j];
    }
    const double n = (double)s->n;
    const int uneven = sum * inverses > (1.0 + UNEVEN * (double)s->every) * n * n;
    privlr_pairs_set_diagonal(&s->pairs, uneven ? s->diagonal : NULL);
    s->settled = s->every == 1 && change <= SETTLED * n;
    s->measured = s->here.norm;
    s->with_diagonal = 0;
}

static int is_in_noise(const point *at) {
    return at->norm <= 10.0 * at->floor;
}

static int patience(const point *at) {
    return is_in_noise(at) ? PATIENCE_IN_NOISE : at->norm <= at->haze ? PATIENCE_IN_HAZE : PATIENCE;
}

/* From here along the direction until the slope there has changed sign or shrunk by a
 * tenth, but has not grown to half its size on the other side. F is convex, so the slopes
 * say it all. Leaves the last point tried in next. */
static void line_search(solver *s, double slope) {
    const int trials = is_in_noise(&s->here) ? TRIALS_IN_NOISE : TRIALS;
    const double enough = s->newton ? 0.5 : 0.9;
    const double noise = 16.0 * DBL_EPSILON * fabs(s->here.value);
    const int in_noise = -slope <= noise; /* values tell nothing */
    double low = 0.0, low_ratio = 1.0, high = INFINITY, high_ratio = -INFINITY, step = 1.0;
    for (int trial = 1;; trial++) {
        for (int64_t j = 0; j < s->n; j++)
            s->next.w[j] = s->here.w[j] + step * s->direction[j];
        evaluate(s, &s->next);
        double ratio = privlr_dot(s->n, s->next.gradient, s->direction) / slope;
        if (s->newton && !in_noise && s->next.value > s->here.value + noise)
            ratio = -INFINITY;
        if ((ratio <= enough && ratio >= -0.5) || trial == trials)
            return;
        if (ratio > enough && isfinite(ratio)) {
            low = step;
            low_ratio = ratio;
        } else {
            high = step;
            high_ratio = isfinite(ratio) ? ratio : -INFINITY;
        }
        if (isinf(high)) {
            const double secant = low_ratio < 1.0 ? 1.0 / (1.0 - low_ratio) : INFINITY;
            step *= fmin(10.0, fmax(2.0, secant));
        } else if (low == 0.0 && trial > 1) {
            step = 0.1 * high; /* slopes that only change sign tell nothing of the distance */
        } else {
            const double width = high - low;
            const double secant = isfinite(high_ratio)
                                      ? low + width * low_ratio / (low_ratio - high_ratio)
                                      : low + 0.25 * width;
            step = fmin(high - 0.1 * width, fmax(low + 0.05 * width, secant));
        }
    }
}

static void take_step(solver *s) {
    privlr_pairs *p = &s->pairs;
    privlr_pairs_direction(p, s->metric, s->blas, s->here.gradient, s->direction);
    double slope = privlr_dot(s->n, s->here.gradient, s->direction);
    if (!(slope < 0.0)) { /* rounding spoilt the memory */
        p->count = 0;
        privlr_pairs_direction(p, s->metric, s->blas, s->here.gradient, s->direction);
        slope = privlr_dot(s->n, s->here.gradient, s->direction);
    }
    line_search(s, slope);
    privlr_pairs_add(p, s->here.w, s->here.gradient, s->next.w, s->next.gradient);
    const point last = s->here;
    s->here = s->next;
    s->next = last;
    if (s->with_diagonal)
        adopt_diagonal(s);
    else if (p->diagonal && !s->metric->every && !s->settled)
        s->with_diagonal = s->here.norm < FALLEN * s->measured;
}

static privlr_status update_metric(solver *s, int64_t every, int precise) {
    s->passes += 1.0 / (double)every;
    s->built = s->passes;
    s->pairs.count = 0;
    s->with_diagonal = 0;
    return privlr_metric_update(s->metric, s->f, s->blas, &s->work, every, precise, s->here.w);
}

/* The norm at which this sample, or the whole solve, is done. */
static double target_norm(const solver *s) {
    const double enough = s->every > 1 ? SAMPLE_ACCURACY * s->noise : 0.0;
    return fmax(fmax(enough, s->options->tolerance), s->here.floor);
}

/* Whether an estimate of the Hessian would save more passes than it costs, at the rate at
 * which the norm shrinks now, and from which sample: 0 for none. With m rows for d columns
 * the error of an estimate is about sqrt(d / m), and the rate to come in proportion. */
static int64_t worthwhile_metric(const solver *s, double rate) {
    const double digits = log(s->here.norm / target_norm(s)) / (double)s->every;
    if (!(digits > 0.0))
        return 0;
    double least = GAIN * (rate < 1.0 ? digits / -log(rate) : INFINITY);
    int64_t best = 0, every = privlr_metric_coarsest(s->f);
    const int64_t finer = (s->metric->every + 1) / 2; /* the last one disappointed */
    for (every = finer && finer < every ? finer : every;; every = (every + 1) / 2) {
        const int exact = every <= s->every; /* for the rows that are in use */
        every = exact ? s->every : every;
        const double rows = (double)s->f->X.n_rows / (double)every;
        const double next_rate = exact ? 0.0 : RATE_BY_ERROR * sqrt((double)s->n / rows);
        const double price = privlr_metric_cost(s->f, every);
        const double cost = price + digits / -log(fmax(next_rate, 0.05));
        /* The rate of two steps says too little for a high price, or where the diagonal serves. */
        const double paid = s->passes - s->built;
        const int dear = !s->f->X.index_bits && price > fmax(DEAR_PASSES, 2.0 * paid);
        const int hasty = s->pairs.diagonal ? price > paid : dear;
        if (cost < least && !hasty) {
            least = cost;
            best = every;
        }
        if (exact)
            return best;
    }
}

/* Whether the Hessian of few columns should come along with the first look at all rows, so that a
 * step of Newton's leads on from where the samples have led; at the rate of the last step. */
static int newton_pays(const solver *s, double rate) {
    if (!s->options->use_metric || !s->metric->factor || !privlr_objective_is_small(s->f))
        return 0;
    const double digits = log(s->noise / fmax(s->options->tolerance, s->here.floor));
    return privlr_metric_cost(s->f, 1) - 1.0 + digits / -log(NEWTON_RATE) < digits / -log(rate);
}

/* On to the next sample, much larger where one step makes up for that easily: Newton's, or one
 * that shrinks the norm as the last did. */
static void look_at_more(solver *s, double rate) {
    const int newton = newton_pays(s, rate);
    const int far = newton || rate * SAMPLE_GROWTH * SAMPLE_GROWTH < SAMPLE_ACCURACY;
    const int64_t growth = far ? SAMPLE_GROWTH * SAMPLE_GROWTH : SAMPLE_GROWTH;
    s->every = s->every > growth ? s->every / growth : 1;
    if (s->every > 1 || !newton) {
        s->with_diagonal = s->pairs.diagonal && !s->metric->every;
        evaluate(s, &s->here);
        if (s->with_diagonal)
            adopt_diagonal(s);
        return;
    }
    look(s, &s->here, PRIVLR_WITH_HESSIAN);
    privlr_metric_adopt(s->metric, s->f, s->blas, &s->work, s->every);
    s->pairs.count = 0;
}

static int64_t first_sample(const privlr_objective *f) {
    const int64_t blocks = f->X.n_rows / privlr_design_block(&f->X);
    const int64_t size = SAMPLE_PER_COLUMN * privlr_design_width(&f->X);
    int64_t every = 1;
    while (blocks / (every * SAMPLE_GROWTH) >= SAMPLE_BLOCKS &&
           f->X.n_rows / (every * SAMPLE_GROWTH) >= size)
        every *= SAMPLE_GROWTH;
    return every;
}

/* The last resort, for margins in the thousands and more, where the loss is all but a bent
 * line: Newton's method from the origin while the ridge falls to its value in stages. */
static privlr_status follow_ridge(solver *s) {
    const privlr_objective *f = s->f;
    privlr_objective easier = *f;
    s->newton = 1;
    s->f = &easier;
    memset(s->here.w, 0, (size_t)s->n * sizeof *s->here.w);
    easier.ridge = f->X.lengths->square_sum / (double)privlr_design_width(&f->X);
    for (; easier.ridge > f->ridge; easier.ridge *= STAGE) {
        evaluate(s, &s->here);
        const double enough = 0.1 * s->here.norm;
        for (int step = 0; step < STAGE_STEPS && s->here.norm > enough; step++) {
            if (update_metric(s, 1, 1) != PRIVLR_OK)
                return PRIVLR_NO_MEMORY;
            take_step(s);
        }
    }
    s->f = f;
    evaluate(s, &s->here);
    return PRIVLR_OK;
}

/* Whether so many passes are to come, at the rate of the last `steps` from the norm `begun`, that
 * a copy in single precision saves more than it costs. */
static int copy_pays(const solver *s, int steps, double begun) {
    const double digits = log(s->here.norm / target_norm(s));
    const double rate = steps ? log(begun / s->here.norm) / steps : INFINITY;
    return !s->copied && s->options->use_samples && steps >= COPY_STEPS &&
           digits > COPY_PASSES * rate && privlr_single_is_apt(s->f);
}

static void make_copy(solver *s) {
    const privlr_objective *exact = s->f;
    s->copied = 1;
    privlr_single_init(&s->single, exact);
    if (!s->single.rows)
        return;
    s->f = &s->single.f;
    memcpy(s->next.w, s->here.w, (size_t)s->n * sizeof *s->next.w);
    evaluate(s, &s->next);
    privlr_single_correct(&s->single, s->here.gradient, s->next.gradient);
    s->f = exact;
}

/* Goes on with the copy while its gradient is worth something, and gives it up if that was
 * little, or if a Hessian would have cost less. */
static void descend_on_copy(solver *s) {
    const privlr_objective *exact = s->f;
    const double most =
        privlr_metric_is_affordable(exact) ? 2.0 * privlr_metric_cost(exact, 1) : INFINITY;
    int steps = 0; /* that cost half a pass */
    const double start = s->here.norm;
    const double enough = fmax(0.9 * s->options->tolerance, COPY_ACCURACY * start);
    double idle_norm = start;
    s->f = &s->single.f;
    for (int idle = 0; s->here.norm > enough && idle < PATIENCE_COPY && steps < most; steps++) {
        take_step(s);
        idle = s->here.norm <= 0.7 * idle_norm ? 0 : idle + 1;
        idle_norm = fmin(idle_norm, s->here.norm);
    }
    s->f = exact;
    memcpy(s->direction, s->here.gradient, (size_t)s->n * sizeof *s->direction);
    evaluate(s, &s->here);
    privlr_single_correct(&s->single, s->here.gradient, s->direction);
    if (!(s->here.norm < 0.1 * start) || steps >= most)
        privlr_single_free(&s->single);
}

/* Whether rows that a pass has measured may be worked with; others were clipped or looked at. */
static int is_fit(const privlr_design *X) {
    return X->row_scale || X->lengths->longest <= privlr_design_most(X);
}

/* Solves on ever larger samples and at last on all rows; w and best hold the best point of
 * those. */
static privlr_status run(solver *s, double *w, point *best) {
    const privlr_options *options = s->options;
    double idle_norm = INFINITY;
    double norm_1 = INFINITY, norm_2 = INFINITY; /* one and two steps ago, or unknown */
    double rate = 0.0;                           /* of the norm, a step; 0: not known */
    double built = INFINITY;                     /* norm where the metric was made */
    int idle = 0, steps = 0;
    const double begun = s->here.norm;
    double asked = s->passes;
    for (;;) {
        if (s->every > 1 && (s->here.norm <= target_norm(s) || idle >= PATIENCE_SAMPLE ||
                             !isfinite(s->here.norm))) {
            look_at_more(s, s->here.norm / norm_1);
            idle_norm = norm_1 = norm_2 = INFINITY;
            built = s->metric->every == 1 ? s->here.norm : INFINITY;
            idle = 0;
            continue;
        }
        if (s->every == 1) {
            if (!is_fit(&s->f->X))
                return PRIVLR_EXTREME;
            if (s->here.norm < best->norm || isinf(best->norm)) {
                *best = s->here;
                memcpy(w, s->here.w, (size_t)s->n * sizeof *w);
            }
            if (best->norm <= options->tolerance)
                return PRIVLR_OK;
            if (best->norm <= best->floor || !isfinite(s->here.norm) || idle >= patience(best))
                return PRIVLR_STALLED;
            if (s->passes >= options->max_passes)
                return PRIVLR_MAX_ITER;
        }

        if (options->interrupted && (s->passes - asked) * (double)s->f->X.n_entries > UNASKED) {
            asked = s->passes;
            if (options->interrupted())
                return PRIVLR_INTERRUPTED;
        }
        if (isfinite(norm_2))
            rate = sqrt(s->here.norm / norm_2);
        if (copy_pays(s, steps++, begun))
            make_copy(s);
        if (s->single.rows) {
            descend_on_copy(s);
            norm_1 = norm_2 = idle_norm = INFINITY;
            idle = 0;
            continue;
        }
        if (options->use_metric && s->metric->factor) {
            /* Another would be the same. */
            const int fresh = s->metric->every <= s->every && s->here.norm > 0.5 * built;
            int64_t every = rate > 0.0 && !fresh ? worthwhile_metric(s, rate) : 0;
            /* Where nothing else helps, an exact Hessian is worth any price, in the end. */
            if (idle >= fmin(PATIENCE_METRIC + 2.0 * privlr_metric_cost(s->f, 1), PATIENCE_MOST) &&
                !s->newton && !is_in_noise(&s->here)) {
                if (s->metric->every != 1)
                    every = 1;
                else if (follow_ridge(s) != PRIVLR_OK)
                    return PRIVLR_NO_MEMORY;
                idle = 0;
                idle_norm = s->here.norm;
            }
            if (s->newton)
                every = 1;
            if (every) {
                if (update_metric(s, every, s->newton) != PRIVLR_OK)
                    return PRIVLR_NO_MEMORY;
                built = s->here.norm;
                norm_1 = norm_2 = INFINITY;
                rate = 0.0;
            }
        }
        norm_2 = norm_1;
        norm_1 = s->here.norm;
        idle = s->here.norm <= 0.7 * idle_norm ? 0 : idle + 1;
        idle_norm = fmin(idle_norm, s->here.norm);
        take_step(s);
        if (s->newton && s->next.value - s->here.value > 1e-12 * fabs(s->next.value))
            idle = 0; /* across kinks the value falls first */
    }
}

/* The minimiser is near prior - linear / ridge if the linear term outweighs the data. */
static void try_center(solver *s) {
    const privlr_objective *f = s->f;
    for (int64_t j = 0; j < s->n; j++)
        s->next.w[j] = (f->prior ? f->prior[j] : 0.0) - (f->linear ? f->linear[j] / f->ridge : 0.0);
    evaluate(s, &s->next);
    if (s->next.norm < s->here.norm) {
        const point start = s->here;
        s->here = s->next;
        s->next = start;
    }
}

privlr_status privlr_minimize(const privlr_objective *f, const privlr_blas *blas, privlr_team *team,
                              const privlr_options *options, privlr_metric *metric, double *w,
                              privlr_progress *progress) {
    const int64_t n = privlr_objective_size(f);
    solver s = {.f = f, .blas = blas, .options = options, .metric = metric, .n = n};
    privlr_status status = privlr_workspace_init(&s.work, f, team);
    if (status != PRIVLR_OK)
        return status;
    double *p = s.memory = malloc((size_t)((2 * PRIVLR_PAIRS + 6) * n) * sizeof *p);
    if (!p) {
        privlr_workspace_free(&s.work);
        return PRIVLR_NO_MEMORY;
    }
    s.here = (point){.w = p, .gradient = p + n};
    s.next = (point){.w = p + 2 * n, .gradient = p + 3 * n};
    s.direction = p + 4 * n;
    s.diagonal = p + 5 * n;
    s.pairs = (privlr_pairs){.n = n, .s = p + 6 * n, .y = p + (6 + PRIVLR_PAIRS) * n};
    s.every = options->use_samples ? first_sample(f) : 1;

    memcpy(s.here.w, w, (size_t)n * sizeof *w);
    const int in_span = options->use_samples && privlr_span_is_apt(f);
    if (in_span)
        status = privlr_span_descent(f, options->tolerance, s.here.w, &s.passes);
    s.built = s.passes;
    const int with_diagonal = diagonal_pays(&s);
    s.with_diagonal = with_diagonal && !in_span;
    evaluate(&s, &s.here);
    /* The mean eigenvalue of the Hessian at most: a first guess that secants correct. */
    s.pairs.scale =
        1.0 / (f->ridge + 0.25 * f->X.lengths->square_sum / (double)privlr_design_width(&f->X));
    if (s.with_diagonal)
        adopt_diagonal(&s);
    s.with_diagonal = with_diagonal && in_span; /* unless no step is to come */
    if (in_span && !isfinite(s.here.norm)) {
        memcpy(s.here.w, w, (size_t)n * sizeof *w);
        evaluate(&s, &s.here);
    }
    if (options->use_samples && !in_span && (f->linear || f->prior))
        try_center(&s);
    point best = {.norm = INFINITY};
    if (status == PRIVLR_OK)
        status = run(&s, w, &best);
    progress->gradient_norm = best.norm;
    progress->passes = s.passes;
    privlr_single_free(&s.single);
    free(s.memory);
    privlr_workspace_free(&s.work);
    return status;
}
