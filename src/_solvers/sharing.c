#include "sharing.h"

#include <string.h>

#include "logistic.h"
#include "rows.h"

/* Rows even where they are short: the parties' other vectors are not in panels. */
static privlr_view block_of(const privlr_design *X, int64_t first, int64_t count) {
    if (X->index_bits)
        return (privlr_view){.first = first, .count = count, .layout = PRIVLR_CSR};
    const double *x = (const double *)X->values + first * X->row_stride;
    return (privlr_view){
        .first = first, .count = count, .x = x, .stride = (ptrdiff_t)X->row_stride};
}

void privlr_columns_product(const privlr_columns *p, int64_t first, int64_t count, const double *w,
                            double *out) {
    const privlr_view view = block_of(&p->X, first, count);
    privlr_design_dots(&p->X, &view, w, out);
}

void privlr_columns_slope(const privlr_columns *p, int64_t first, int64_t count, const double *w,
                          double *slope) {
    const privlr_view view = block_of(&p->X, first, count);
    double residual[PRIVLR_SHARING_ROWS];
    privlr_design_dots(&p->X, &view, w, residual);
    for (int64_t i = 0; i < count; i++)
        residual[i] -= p->target[first + i];
    privlr_design_sums(&p->X, &view, residual, slope);
}

void privlr_columns_absorb(privlr_columns *p, int64_t first, int64_t count, const double *message) {
    const double *share = p->share + first;
    double *anchor = p->anchor + first, *last = p->message + first, *target = p->target + first;
    for (int64_t i = 0; i < count; i++) {
        anchor[i] += p->over_relaxation * ((share[i] - anchor[i]) + last[i]);
        last[i] = message[i];
        const double wanted = anchor[i] - 2.0 * message[i];
        const double capped = wanted > p->clip ? p->clip : wanted;
        target[i] = capped < -p->clip ? -p->clip : capped;
    }
    if (!p->moment)
        return;
    if (first == 0)
        memset(p->moment, 0, (size_t)privlr_design_width(&p->X) * sizeof *p->moment);
    const privlr_view view = block_of(&p->X, first, count);
    privlr_design_sums(&p->X, &view, target, p->moment);
}

static void add_square(int64_t count, const double *x, double *sum) {
    privlr_rows_squares(1, (size_t)count, x, 0, sum);
}

void privlr_labels_step(privlr_labels *l, int64_t first, int64_t count, const double *total,
                        double *message) {
    static const double zeros[PRIVLR_SHARING_ROWS];
    double gap[PRIVLR_SHARING_ROWS], next[PRIVLR_SHARING_ROWS], change[PRIVLR_SHARING_ROWS];
    const double *y = l->y + first;
    double *center = l->center + first, *z = l->z + first;
    for (int64_t i = 0; i < count; i++) {
        gap[i] = total[i] - z[i];
        center[i] += l->over_relaxation * gap[i];
    }
    privlr_logistic_prox((size_t)count, 1.0, l->rho, y, center, zeros, next);
    for (int64_t i = 0; i < count; i++) {
        change[i] = next[i] - z[i];
        z[i] = next[i];
        message[i] = center[i] - z[i];
    }
    l->loss +=
        privlr_logistic_evaluate((size_t)count, PRIVLR_LOSS_LOGISTIC, total, y, NULL, NULL, NULL);
    add_square(count, gap, &l->gap);
    add_square(count, change, &l->change);
    add_square(count, total, &l->total);
    add_square(count, z, &l->level);
    add_square(count, message, &l->dual);
    for (int64_t i = 0; i < count; i++)
        message[i] /= l->averaged;
}

void privlr_sharing_exchange(int64_t m, privlr_columns *const *parties, const double *const *w,
                             privlr_labels *labels, int64_t n, int64_t block) {
    double total[PRIVLR_SHARING_ROWS], message[PRIVLR_SHARING_ROWS];
    for (int64_t first = 0; first < n; first += block) {
        const int64_t count = n - first < block ? n - first : block;
        for (int64_t k = 0; k < m; k++) {
            double *share = parties[k]->share + first;
            privlr_columns_product(parties[k], first, count, w[k], share);
            for (int64_t i = 0; i < count; i++)
                total[i] = k ? total[i] + share[i] : share[i];
        }
        privlr_labels_step(labels, first, count, total, message);
        for (int64_t k = 0; k < m; k++)
            privlr_columns_absorb(parties[k], first, count, message);
    }
}
