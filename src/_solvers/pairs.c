#include "pairs.h"

static double *pair_at(const privlr_pairs *p, double *base, int age) {
    return base + (size_t)((p->newest - age + PRIVLR_PAIRS) % PRIVLR_PAIRS) * (size_t)p->n;
}

static double inner(const privlr_pairs *p, const double *a, const double *b) {
    const int64_t half = p->n / 2;
    return p->in_span ? privlr_dot(half, a, b + half) : privlr_dot(p->n, a, b);
}

/* y' D^-1 y */
static double inverse_square(const privlr_pairs *p, const double *y) {
    double sum = 0.0;
    if (!p->diagonal)
        return inner(p, y, y);
    for (int64_t j = 0; j < p->n; j++)
        sum += y[j] * y[j] / p->diagonal[j];
    return sum;
}

void privlr_pairs_set_diagonal(privlr_pairs *p, const double *diagonal) {
    p->diagonal = diagonal;
    if (p->count)
        p->scale = 1.0 / (p->rho[p->newest] * inverse_square(p, pair_at(p, p->y, 0)));
    else if (diagonal)
        p->scale = 1.0;
}

void privlr_pairs_add(privlr_pairs *p, const double *w, const double *gradient,
                      const double *w_next, const double *gradient_next) {
    p->newest = (p->newest + 1) % PRIVLR_PAIRS;
    double *s = pair_at(p, p->s, 0), *y = pair_at(p, p->y, 0);
    for (int64_t j = 0; j < p->n; j++) {
        s[j] = w_next[j] - w[j];
        y[j] = gradient_next[j] - gradient[j];
    }
    const double sy = inner(p, s, y), yy = inner(p, y, y);
    if (!(sy > 1e-14 * sqrt(yy * inner(p, s, s)))) {
        /* Curvature lost in rounding: the pair is worthless, and so are the older ones. */
        p->count = 0;
        return;
    }
    p->count = p->count < PRIVLR_PAIRS ? p->count + 1 : PRIVLR_PAIRS;
    p->rho[p->newest] = 1.0 / sy;
    p->scale = p->diagonal ? sy / inverse_square(p, y) : sy / yy;
}

void privlr_pairs_direction(const privlr_pairs *p, const privlr_metric *metric,
                            const privlr_blas *blas, const double *gradient, double *direction) {
    double alpha[PRIVLR_PAIRS];
    for (int64_t j = 0; j < p->n; j++)
        direction[j] = -gradient[j];
    for (int age = 0; age < p->count; age++) {
        const double *s = pair_at(p, p->s, age), *y = pair_at(p, p->y, age);
        const double rho = p->rho[(p->newest - age + PRIVLR_PAIRS) % PRIVLR_PAIRS];
        alpha[age] = rho * inner(p, s, direction);
        for (int64_t j = 0; j < p->n; j++)
            direction[j] -= alpha[age] * y[j];
    }
    if (metric->every)
        privlr_metric_solve(metric, blas, direction);
    else if (p->diagonal)
        for (int64_t j = 0; j < p->n; j++)
            direction[j] *= p->scale / p->diagonal[j];
    else
        for (int64_t j = 0; j < p->n; j++)
            direction[j] *= p->scale;
    for (int age = p->count - 1; age >= 0; age--) {
        const double *s = pair_at(p, p->s, age), *y = pair_at(p, p->y, age);
        const double rho = p->rho[(p->newest - age + PRIVLR_PAIRS) % PRIVLR_PAIRS];
        const double beta = rho * inner(p, y, direction);
        for (int64_t j = 0; j < p->n; j++)
            direction[j] += (alpha[age] - beta) * s[j];
    }
}
