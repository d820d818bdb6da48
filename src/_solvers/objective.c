#include "objective.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "logistic.h"

privlr_status privlr_workspace_init(privlr_workspace *work, const privlr_objective *f,
                                    int with_hessian) {
    const size_t rows = (size_t)privlr_design_block(&f->X);
    const size_t width = (size_t)privlr_design_width(&f->X);
    const size_t outputs = (size_t)f->n_outputs;
    const size_t scratch = privlr_design_scratch(&f->X);
    const size_t packed = with_hessian && !f->X.index_bits ? rows * width : 0;
    const size_t total = scratch + rows * (2 * outputs + 1) + packed + width + width * outputs;
    double *p = malloc(total * sizeof *p);
    if (!p)
        return PRIVLR_NO_MEMORY;
    work->memory = p;
    work->scratch = p, p += scratch;
    work->raw = p, p += rows * outputs;
    work->slope = p, p += rows * outputs;
    work->curvature = p, p += rows;
    work->packed = p, p += packed;
    work->block_sum = p, p += width;
    work->carry = p;
    return PRIVLR_OK;
}

void privlr_workspace_free(privlr_workspace *work) {
    free(work->memory);
    work->memory = NULL;
}

/* Neumaier's sum, one step: carry keeps what adding `value` to `*sum` rounds away. */
static void add_compensated(int64_t n, const double *value, double *sum, double *carry) {
    for (int64_t j = 0; j < n; j++) {
        const double s = sum[j], v = value[j], t = s + v, z = t - s;
        carry[j] += (s - (t - z)) + (v - z);
        sum[j] = t;
    }
}

/* Softmax loss of one block, outputs x rows: raw in, slope out. Shifting by the
 * largest raw prediction keeps every exponential in [0, 1]. */
static double softmax_block(const privlr_objective *f, int64_t first, int64_t count, double *raw,
                            double *slope) {
    const int64_t outputs = f->n_outputs;
    double loss = 0.0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t label = (int64_t)f->y[first + i];
        const double weight = f->sample_weight ? f->sample_weight[first + i] : 1.0;
        double top = raw[i], total = 0.0;
        for (int64_t c = 1; c < outputs; c++)
            top = raw[c * count + i] > top ? raw[c * count + i] : top;
        for (int64_t c = 0; c < outputs; c++)
            total += slope[c * count + i] = exp(raw[c * count + i] - top);
        for (int64_t c = 0; c < outputs; c++)
            slope[c * count + i] = weight * (slope[c * count + i] / total - (c == label));
        loss += weight * (log(total) + (top - raw[label * count + i]));
    }
    return loss;
}

static void raw_predictions(const privlr_objective *f, int64_t first, int64_t count,
                            const double *w, privlr_workspace *work) {
    const int64_t width = privlr_design_width(&f->X), outputs = f->n_outputs;
    for (int64_t c = 0; c < outputs; c++) {
        double *raw = work->raw + c * count;
        privlr_design_dots(&f->X, first, count, w + c * width, work->scratch, raw);
        if (f->offset)
            for (int64_t i = 0; i < count; i++)
                raw[i] += f->offset[(first + i) * outputs + c];
    }
}

static void add_curvature(const privlr_objective *f, const privlr_blas *blas, int64_t first,
                          int64_t count, privlr_workspace *work, double *hessian) {
    if (f->X.index_bits) {
        privlr_design_outer(&f->X, first, count, work->curvature, hessian);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        work->curvature[i] = sqrt(work->curvature[i]);
    privlr_design_pack(&f->X, first, count, work->curvature, work->packed);
    int width = (int)privlr_design_width(&f->X), rows = (int)count;
    double one = 1.0;
    blas->syrk("U", "N", &width, &rows, &one, work->packed, &width, &one, hessian, &width);
}

double privlr_objective_evaluate(const privlr_objective *f, const privlr_blas *blas,
                                 privlr_workspace *work, const double *w, double *gradient_out,
                                 double *hessian_out) {
    const int64_t n = f->X.n_rows, block = privlr_design_block(&f->X);
    const int64_t width = privlr_design_width(&f->X), size = privlr_objective_size(f);
    double loss = 0.0, loss_carry = 0.0;
    if (gradient_out) {
        memset(gradient_out, 0, (size_t)size * sizeof *gradient_out);
        memset(work->carry, 0, (size_t)size * sizeof *work->carry);
    }
    if (hessian_out)
        memset(hessian_out, 0, (size_t)(width * width) * sizeof *hessian_out);

    for (int64_t first = 0; first < n; first += block) {
        const int64_t count = first + block < n ? block : n - first;
        raw_predictions(f, first, count, w, work);
        const double part =
            f->n_outputs > 1
                ? softmax_block(f, first, count, work->raw, work->slope)
                : privlr_logistic_evaluate((size_t)count, f->loss, work->raw, f->y + first,
                                           f->sample_weight ? f->sample_weight + first : NULL,
                                           work->slope, hessian_out ? work->curvature : NULL);
        add_compensated(1, &part, &loss, &loss_carry);
        if (gradient_out)
            for (int64_t c = 0; c < f->n_outputs; c++) {
                privlr_design_sums(&f->X, first, count, work->slope + c * count, work->scratch,
                                   work->block_sum);
                add_compensated(width, work->block_sum, gradient_out + c * width,
                                work->carry + c * width);
            }
        if (hessian_out)
            add_curvature(f, blas, first, count, work, hessian_out);
    }

    double square = 0.0;
    for (int64_t j = 0; j < size; j++)
        square += w[j] * w[j];
    if (gradient_out)
        for (int64_t j = 0; j < size; j++)
            gradient_out[j] = (gradient_out[j] + work->carry[j]) + f->ridge * w[j];
    if (hessian_out)
        for (int64_t j = 0; j < width; j++)
            hessian_out[j + j * width] += f->ridge;
    return (loss + loss_carry) + 0.5 * f->ridge * square;
}
