#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "line_search.h"
#include "minimize.h"

/* Pairs kept, and iterations without a smaller gradient or value that end the run. */
enum { PAIRS = 20, PATIENCE = 30 };

typedef struct {
    int64_t n;
    int count, newest;
    double *s, *y, rho[PAIRS], alpha[PAIRS], scale;
} pairs;

static double *pair_at(const pairs *p, double *base, int age) {
    return base + (size_t)((p->newest - age + 2 * PAIRS) % PAIRS) * (size_t)p->n;
}

static void pairs_add(pairs *p, const privlr_point *from, const privlr_point *to) {
    p->newest = (p->newest + 1) % PAIRS;
    double *s = pair_at(p, p->s, 0), *y = pair_at(p, p->y, 0);
    for (int64_t j = 0; j < p->n; j++) {
        s[j] = to->w[j] - from->w[j];
        y[j] = to->gradient[j] - from->gradient[j];
    }
    const double sy = privlr_dot(p->n, s, y), yy = privlr_dot(p->n, y, y);
    if (!(sy > 1e-14 * sqrt(yy * privlr_dot(p->n, s, s)))) {
        /* Curvature lost in rounding: the pair is worthless, and so are the older ones. */
        p->count = 0;
        return;
    }
    p->count = p->count < PAIRS ? p->count + 1 : PAIRS;
    p->rho[p->newest] = 1.0 / sy;
    p->scale = sy / yy;
}

/* The two-loop recursion: direction = -(inverse Hessian estimate) gradient. */
static void pairs_direction(pairs *p, const double *gradient, double *direction) {
    for (int64_t j = 0; j < p->n; j++)
        direction[j] = -gradient[j];
    for (int age = 0; age < p->count; age++) {
        const double *s = pair_at(p, p->s, age), *y = pair_at(p, p->y, age);
        const int slot = (p->newest - age + PAIRS) % PAIRS;
        p->alpha[age] = p->rho[slot] * privlr_dot(p->n, s, direction);
        for (int64_t j = 0; j < p->n; j++)
            direction[j] -= p->alpha[age] * y[j];
    }
    for (int64_t j = 0; j < p->n; j++)
        direction[j] *= p->scale;
    for (int age = p->count - 1; age >= 0; age--) {
        const double *s = pair_at(p, p->s, age), *y = pair_at(p, p->y, age);
        const int slot = (p->newest - age + PAIRS) % PAIRS;
        const double beta = p->rho[slot] * privlr_dot(p->n, y, direction);
        for (int64_t j = 0; j < p->n; j++)
            direction[j] += (p->alpha[age] - beta) * s[j];
    }
}

privlr_status privlr_lbfgs(const privlr_objective *f, const privlr_blas *blas, double tolerance,
                           int max_passes, double *w, privlr_progress *progress) {
    const size_t n = (size_t)privlr_objective_size(f);
    privlr_workspace work;
    privlr_status status = privlr_workspace_init(&work, f, 0);
    double *memory = malloc((2 * PAIRS + 5) * n * sizeof *memory);
    if (status != PRIVLR_OK || !memory) {
        if (status == PRIVLR_OK)
            privlr_workspace_free(&work);
        free(memory);
        return PRIVLR_NO_MEMORY;
    }
    pairs p = {.n = (int64_t)n, .s = memory, .y = memory + PAIRS * n};
    double *direction = memory + 2 * PAIRS * n;
    privlr_point here = {direction + n, direction + 2 * n, NULL, 0.0};
    privlr_point next = {direction + 3 * n, direction + 4 * n, NULL, 0.0};

    memcpy(here.w, w, n * sizeof *w);
    here.value = privlr_objective_evaluate(f, blas, &work, here.w, here.gradient, NULL);
    double norm = sqrt(privlr_dot((int64_t)n, here.gradient, here.gradient)), best = norm;
    int passes = 1, idle = 0;
    while (!(best <= tolerance)) {
        if (passes >= max_passes || idle >= PATIENCE || !isfinite(norm)) {
            status = passes >= max_passes ? PRIVLR_MAX_ITER : PRIVLR_STALLED;
            break;
        }
        double slope = 0.0;
        if (p.count) {
            pairs_direction(&p, here.gradient, direction);
            slope = privlr_dot((int64_t)n, here.gradient, direction);
        }
        if (!(slope < 0.0)) {
            /* No memory, or rounding spoilt it: steepest descent, one unit long at first. */
            p.count = 0;
            p.scale = 1.0 / (norm > f->ridge ? norm : f->ridge);
            pairs_direction(&p, here.gradient, direction);
            slope = privlr_dot((int64_t)n, here.gradient, direction);
        }
        passes += privlr_line_search(f, blas, &work, &here, direction, slope, 0.9, &next);
        pairs_add(&p, &here, &next);
        const privlr_point last = here;
        here = next;
        next = last;
        norm = sqrt(privlr_dot((int64_t)n, here.gradient, here.gradient));
        idle = norm <= 0.9 * best || privlr_descended(&last, &here) ? 0 : idle + 1;
        if (norm < best) {
            best = norm;
            memcpy(w, here.w, n * sizeof *w);
        }
    }
    progress->gradient_norm = best;
    progress->passes = passes;
    free(memory);
    privlr_workspace_free(&work);
    return status;
}
