#include "dual.h"

#include <math.h>
#include <stdlib.h>

#include "logistic.h"

/* Where ||a||^2 / ridge is less than this, L-BFGS solves the rows in few passes. */
static const double COUPLING_MIN = 1.0;
/* An epoch shall shrink the steps to this share; the first ones may take longer to. */
static const double SHARE = 0.9;
enum { EPOCHS_TO_SETTLE = 10, EPOCHS_MAX = 200 };

int privlr_dual_is_apt(const privlr_objective *f) {
    const privlr_design *X = &f->X;
    return X->index_bits && f->n_outputs == 1 && f->loss == PRIVLR_LOSS_LOGISTIC &&
           X->n_rows < X->n_cols && X->square_sum > COUPLING_MIN * f->ridge * (double)X->n_rows;
}

/* A fresh order every time: in a fixed one the ascent stalls. */
static void shuffle(int64_t n, int64_t *order, uint64_t *state) {
    for (int64_t i = n - 1; i > 0; i--) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        const int64_t j = (int64_t)((*state >> 32) * (uint64_t)(i + 1) >> 32);
        const int64_t other = order[j];
        order[j] = order[i];
        order[i] = other;
    }
}

/* Makes theta[i] right for the others, and returns the length by which the gradient moved. */
static double ascend(const privlr_objective *f, int64_t i, double square, double *theta,
                     double *w) {
    const privlr_view row = privlr_design_view(&f->X, i, 1, NULL);
    const double weight = f->sample_weight ? f->sample_weight[i] : 1.0, y = f->y[i];
    const double coupling = square * weight / f->ridge, one = 1.0, zero = 0.0;
    double margin, t;
    privlr_design_dots(&f->X, &row, w, &margin);
    margin = y * (f->offset ? margin + f->offset[i] : margin);
    /* t - coupling sigma(-t) = margin - coupling theta */
    const double tau = margin - coupling * *theta;
    if (!(coupling > 0.0) || privlr_logistic_prox(1, coupling, 1.0, &one, &tau, &zero, &t))
        return 0.0;
    const double next = 1.0 / (1.0 + exp(t)), move = weight * (next - *theta);
    double factor = y * move / f->ridge;
    privlr_design_sums(&f->X, &row, &factor, w);
    *theta = next;
    return move * sqrt(square);
}

privlr_status privlr_dual_ascent(const privlr_objective *f, double tolerance, double *w,
                                 double *passes) {
    const int64_t n = f->X.n_rows, width = privlr_design_width(&f->X);
    double *theta = calloc((size_t)(2 * n), sizeof *theta), *square = theta + n;
    int64_t *order = malloc((size_t)n * sizeof *order);
    if (!theta || !order) {
        free(theta);
        free(order);
        return PRIVLR_NO_MEMORY;
    }
    for (int64_t j = 0; j < width; j++)
        w[j] = (f->prior ? f->prior[j] : 0.0) - (f->linear ? f->linear[j] / f->ridge : 0.0);
    privlr_design_squares(&f->X, 0, n, NULL, square);
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    uint64_t state = 1;
    double last = INFINITY;
    for (int epoch = 0; epoch < EPOCHS_MAX; epoch++) {
        double moved = 0.0;
        shuffle(n, order, &state);
        for (int64_t k = 0; k < n; k++) {
            const int64_t i = order[k];
            if (k + 1 < n)
                privlr_design_prefetch(&f->X, order[k + 1]);
            const double move = ascend(f, i, square[i], theta + i, w);
            moved += move * move;
        }
        moved = sqrt(moved);
        *passes += 1.0;
        /* The gradient after an epoch is about as long as its moves together, or shorter. */
        if (moved <= tolerance || (epoch >= EPOCHS_TO_SETTLE && !(moved < SHARE * last)))
            break;
        last = moved;
    }
    free(theta);
    free(order);
    return PRIVLR_OK;
}
