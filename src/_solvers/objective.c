#include "objective.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "logistic.h"
#include "rows.h"
#include "scan.h"

/* Chunks of a pass: enough that threads end nearly together, but their sums must not outweigh the
 * rows. */
enum { CHUNKS_MIN = 16, CHUNKS_MAX = 64, CHUNK_BLOCKS = 16, CHUNK_DOUBLES = 1 << 19 };

static int64_t min_int(int64_t a, int64_t b) {
    return a < b ? a : b;
}

privlr_status privlr_workspace_init(privlr_workspace *work, const privlr_objective *f,
                                    privlr_team *team) {
    const size_t rows = (size_t)privlr_design_block(&f->X), size = (size_t)privlr_objective_size(f);
    const size_t outputs = (size_t)f->n_outputs, members = (size_t)privlr_team_size(team);
    const int64_t affordable = min_int(CHUNK_DOUBLES / (int64_t)(2 * size), CHUNKS_MAX);
    const int64_t useful = f->X.n_rows / ((int64_t)rows * CHUNK_BLOCKS);
    work->team = team;
    work->backwards = 0;
    work->n_chunks = min_int(affordable, useful < CHUNKS_MIN ? CHUNKS_MIN : useful);
    work->n_chunks = work->n_chunks < 1 ? 1 : work->n_chunks;
    const size_t hessian = (size_t)privlr_objective_hessian_size(f);
    work->chunk = 2 * size + 6 + hessian;
    work->member = privlr_design_scratch(&f->X) + 3 * rows * outputs + size;
    const size_t chunks = team ? (size_t)work->n_chunks : 1;
    const size_t total = size + chunks * work->chunk + members * work->member + hessian;
    work->memory = malloc(total * sizeof(double));
    work->carry = work->memory;
    work->chunks = work->carry + size;
    work->members = work->chunks + chunks * work->chunk;
    work->hessian = work->members + members * work->member;
    return work->memory ? PRIVLR_OK : PRIVLR_NO_MEMORY;
}

void privlr_workspace_free(privlr_workspace *work) {
    free(work->memory);
    work->memory = NULL;
}

/* Neumaier's sum, one step: carry keeps what adding `value` to `*sum` rounds away.
 * Returns the square of value's length. */
static double add_compensated(int64_t n, const double *restrict value, double *restrict sum,
                              double *restrict carry) {
    double square[4] = {0.0, 0.0, 0.0, 0.0};
    int64_t j = 0;
    for (; j + 4 <= n; j += 4)
        for (int k = 0; k < 4; k++) {
            const double s = sum[j + k], v = value[j + k], t = s + v, z = t - s;
            carry[j + k] += (s - (t - z)) + (v - z);
            sum[j + k] = t;
            square[k] += v * v;
        }
    for (; j < n; j++) {
        const double s = sum[j], v = value[j], t = s + v, z = t - s;
        carry[j] += (s - (t - z)) + (v - z);
        sum[j] = t;
        square[0] += v * v;
    }
    return (square[0] + square[2]) + (square[1] + square[3]);
}

/* Softmax loss of one block, outputs x rows: raw in, slope out. Shifting by the
 * largest raw prediction keeps every exponential in [0, 1]. */
static double softmax_block(const privlr_objective *f, int64_t first, int64_t count, int64_t stride,
                            const double *raw, double *slope) {
    const int64_t outputs = f->n_outputs;
    double loss = 0.0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t label = (int64_t)f->y[first + i];
        const double weight = f->sample_weight ? f->sample_weight[first + i] : 1.0;
        double top = raw[i], total = 0.0;
        for (int64_t c = 1; c < outputs; c++)
            top = raw[c * stride + i] > top ? raw[c * stride + i] : top;
        for (int64_t c = 0; c < outputs; c++)
            total += slope[c * stride + i] = exp(raw[c * stride + i] - top);
        for (int64_t c = 0; c < outputs; c++)
            slope[c * stride + i] = weight * (slope[c * stride + i] / total - (c == label));
        loss += weight * (log(total) + (top - raw[label * stride + i]));
    }
    return loss;
}

static void raw_predictions(const privlr_objective *f, const privlr_view *view, int64_t stride,
                            const double *w, double *raw) {
    const int64_t width = privlr_design_width(&f->X), outputs = f->n_outputs;
    for (int64_t c = 0; c < outputs; c++) {
        privlr_design_dots(&f->X, view, w + c * width, raw + c * stride);
        if (f->offset)
            for (int64_t i = 0; i < view->count; i++)
                raw[c * stride + i] += f->offset[(view->first + i) * outputs + c];
    }
}

double *privlr_objective_curvature(const privlr_objective *f, const privlr_view *view,
                                   const double *w, double *raw) {
    const int64_t block = privlr_design_block(&f->X), outputs = f->n_outputs;
    const double *weight = f->sample_weight ? f->sample_weight + view->first : NULL;
    double *slope = raw + block * outputs;
    raw_predictions(f, view, block, w, raw);
    if (outputs == 1) {
        privlr_logistic_slopes((size_t)view->count, f->loss, raw, f->y + view->first, weight, NULL,
                               slope);
        return slope;
    }
    softmax_block(f, view->first, view->count, block, raw, slope);
    for (int64_t i = 0; i < view->count; i++) {
        const int64_t label = (int64_t)f->y[view->first + i];
        slope[label * block + i] += weight ? weight[i] : 1.0;
    }
    return slope;
}

typedef struct {
    const privlr_objective *f;
    privlr_workspace *work;
    const double *w;
    int64_t every, blocks, chunks; /* blocks and chunks of this pass */
    int with, at_origin, measures;
} pass;

/* What walking the rows of a chunk adds up beside the gradient. */
typedef struct {
    const privlr_objective *f;
    int with_value;
    double *value, *slopes; /* with a carry; sum of squares */
    double *curvature;      /* of one block; or NULL */
    privlr_lengths *known;  /* of the rows; NULL: not asked for */
} turn;

/* One raw prediction a sample to one slope. */
static void turn_to_slopes(void *context, const privlr_view *view, int64_t first, int64_t count,
                           double *raw, double *slope) {
    const turn *t = context;
    const privlr_objective *f = t->f;
    const double *weight = f->sample_weight ? f->sample_weight + first : NULL;
    if (f->offset)
        for (int64_t i = 0; i < count; i++)
            raw[i] += f->offset[first + i];
    if (t->with_value) {
        const double loss = privlr_logistic_evaluate((size_t)count, f->loss, raw, f->y + first,
                                                     weight, slope, t->curvature);
        add_compensated(1, &loss, t->value, t->value + 1);
    } else {
        privlr_logistic_slopes((size_t)count, f->loss, raw, f->y + first, weight, slope,
                               t->curvature);
    }
    privlr_rows_squares(1, (size_t)count, slope, 0, t->slopes);
    if (t->known)
        privlr_design_measure(&f->X, view, first, count, t->known);
}

/* Sums of one chunk: gradient, its carry, then value, carry, the squares of the blocks'
 * gradients, those of the slopes and of the rows' lengths, the longest, and the Hessian. */
static void sum_chunk(const pass *p, int64_t chunk, int member, double *sum) {
    const privlr_objective *f = p->f;
    const int64_t block = privlr_design_block(&f->X), width = privlr_design_width(&f->X);
    const int64_t size = privlr_objective_size(f), outputs = f->n_outputs;
    double *carry = sum + size, *value = carry + size, *squares = value + 2, *slopes = value + 3;
    double *raw = p->work->members + (size_t)member * p->work->member;
    double *slope = raw + block * outputs, *curvature = slope + block * outputs;
    double *block_sum = curvature + block * outputs, *scratch = block_sum + size;
    double *hessian = p->with & PRIVLR_WITH_HESSIAN ? slopes + 3 : NULL;
    const int64_t hessian_size = hessian ? privlr_objective_hessian_size(f) : 0;
    memset(sum, 0, (size_t)(2 * size + 6 + hessian_size) * sizeof *sum);
    const int64_t plain_blocks = p->every == 1 ? f->X.plain_blocks : 1;
    const int64_t end = (chunk + 1) * p->blocks / p->chunks;
    const int64_t begin = chunk * p->blocks / p->chunks;
    /* One plain sum needs no other, unless the noise does. */
    double *plain_sum = end - begin <= plain_blocks && p->every == 1 ? sum : block_sum;
    privlr_lengths known = {0};
    turn to_slopes = {
        .f = f,
        .with_value = p->with & PRIVLR_WITH_VALUE,
        .value = value,
        .slopes = slopes,
        .curvature = hessian ? curvature : NULL,
        .known = p->measures ? &known : NULL,
    };
    int64_t pending = 0; /* blocks in plain_sum */
    for (int64_t b = begin; b < end; b++) {
        const int64_t first = b * p->every * block, count = min_int(block, f->X.n_rows - first);
        const privlr_view view = privlr_design_view(&f->X, first, count, scratch);
        if (pending == 0 && plain_sum == block_sum)
            memset(block_sum, 0, (size_t)size * sizeof *block_sum);
        if (outputs == 1) {
            privlr_design_walk(&f->X, &view, (p->every - 1) * block, p->at_origin ? NULL : p->w,
                               turn_to_slopes, &to_slopes, raw, slope, plain_sum);
            if (hessian && f->X.index_bits)
                privlr_design_squares(&f->X, &view, curvature, hessian);
            else if (hessian)
                privlr_design_outer(&f->X, &view, curvature, hessian);
        } else {
            raw_predictions(f, &view, block, p->w, raw);
            const double loss = softmax_block(f, first, count, block, raw, slope);
            add_compensated(1, &loss, value, value + 1);
            if (p->measures)
                privlr_design_measure(&f->X, &view, first, count, &known);
            for (int64_t c = 0; c < outputs; c++) {
                privlr_rows_squares(1, (size_t)count, slope + c * block, 0, slopes);
                privlr_design_sums(&f->X, &view, slope + c * block, plain_sum + c * width);
            }
        }
        if ((++pending == plain_blocks || b + 1 == end) && plain_sum == block_sum) {
            *squares += add_compensated(size, block_sum, sum, carry);
            pending = 0;
        }
    }
    slopes[1] = known.square_sum;
    slopes[2] = known.longest;
}

/* The chunk that a pass adds k-th. */
static int64_t chunk_at(const pass *p, int64_t k) {
    return p->work->backwards ? p->chunks - 1 - k : k;
}

static void run_chunk(void *context, int64_t k, int member) {
    const pass *p = context;
    const int64_t chunk = chunk_at(p, k);
    sum_chunk(p, chunk, member, p->work->chunks + (size_t)chunk * p->work->chunk);
}

typedef struct {
    double value, squares, slopes;
    privlr_lengths lengths;
} pass_sums;

/* Adds the chunks in one order or the other, and turns that round. */
static pass_sums sum_chunks(pass *p, double *gradient_out) {
    privlr_workspace *work = p->work;
    const int64_t size = privlr_objective_size(p->f);
    double *carry = work->carry, value_carry = 0.0;
    pass_sums total = {0};
    const int64_t hessian = p->with & PRIVLR_WITH_HESSIAN ? privlr_objective_hessian_size(p->f) : 0;
    memset(work->hessian, 0, (size_t)hessian * sizeof *work->hessian);
    if (work->team)
        privlr_team_run(work->team, run_chunk, p, p->chunks);
    for (int64_t k = 0; k < p->chunks; k++) {
        const int64_t c = chunk_at(p, k);
        const double *sum = work->chunks + (work->team ? (size_t)c * work->chunk : 0);
        if (!work->team)
            sum_chunk(p, c, 0, work->chunks);
        if (k == 0) {
            memcpy(gradient_out, sum, (size_t)size * sizeof *sum);
            memcpy(carry, sum + size, (size_t)size * sizeof *sum);
        } else {
            add_compensated(size, sum, gradient_out, carry);
            for (int64_t j = 0; j < size; j++)
                carry[j] += sum[size + j];
        }
        add_compensated(1, sum + 2 * size, &total.value, &value_carry);
        value_carry += sum[2 * size + 1];
        total.squares += sum[2 * size + 2];
        total.slopes += sum[2 * size + 3];
        privlr_lengths_add(&total.lengths,
                           &(privlr_lengths){0, sum[2 * size + 4], sum[2 * size + 5]});
        for (int64_t j = 0; j < hessian; j++)
            work->hessian[j] += sum[2 * size + 6 + j];
    }
    work->backwards = !work->backwards;
    for (int64_t j = 0; j < size; j++)
        gradient_out[j] += carry[j];
    total.value += value_carry;
    return total;
}

static int is_zero(int64_t n, const double *x) {
    for (int64_t j = 0; j < n; j++)
        if (x[j] != 0.0)
            return 0;
    return 1;
}

privlr_pass privlr_objective_evaluate(const privlr_objective *f, privlr_workspace *work,
                                      int64_t every, int with, const double *w,
                                      double *gradient_out) {
    const int64_t block = privlr_design_block(&f->X), size = privlr_objective_size(f);
    const int64_t all = (f->X.n_rows + block - 1) / block, blocks = (all + every - 1) / every;
    const int64_t last = (blocks - 1) * every * block;
    const int64_t rows = (blocks - 1) * block + min_int(block, f->X.n_rows - last);
    const double factor = (double)f->X.n_rows / (double)rows;
    const int at_origin = !f->offset && is_zero(size, w);
    privlr_lengths *lengths = f->X.lengths;
    const int measures = rows > lengths->n_rows && !privlr_design_is_narrow(&f->X);
    pass p = {f,    work,      w,       every, blocks, min_int(blocks, work->n_chunks),
              with, at_origin, measures};
    double data = 0.0, penalty = 0.0, linear = 0.0, slope = 0.0, length = 0.0;
    const pass_sums sums = sum_chunks(&p, gradient_out);

    if (measures)
        *lengths = (privlr_lengths){rows, factor * sums.lengths.square_sum, sums.lengths.longest};
    for (int64_t k = 0; with & PRIVLR_WITH_HESSIAN && k < privlr_objective_hessian_size(f); k++)
        work->hessian[k] *= factor;
    for (int64_t j = 0; j < size; j++) {
        const double from_prior = f->prior ? w[j] - f->prior[j] : w[j];
        const double b = f->linear ? f->linear[j] : 0.0;
        data += gradient_out[j] * gradient_out[j];
        length += w[j] * w[j];
        penalty += from_prior * from_prior;
        linear += b * b;
        slope += b * w[j];
        gradient_out[j] = factor * gradient_out[j] + f->ridge * from_prior + b;
    }
    const double spread = sums.squares - data / (double)blocks;
    const double unseen = 1.0 - (double)blocks / (double)all;
    /* Rounding errors of margins and products wander, and grow with the usual margin. */
    const double mean_square = lengths->square_sum / (double)f->X.n_rows;
    const double margin = sqrt(length * mean_square / (double)size);
    return (privlr_pass){
        .value =
            with & PRIVLR_WITH_VALUE ? factor * sums.value + 0.5 * f->ridge * penalty + slope : 0.0,
        .noise = blocks > 1 && spread > 0.0
                     ? factor * sqrt(spread * unseen * (double)blocks / (double)(blocks - 1))
                     : 0.0,
        .rounding = factor * sqrt(sums.slopes * mean_square) * (1.0 + margin) +
                    f->ridge * sqrt(penalty) + sqrt(linear),
        .haze = sqrt(lengths->square_sum) * margin,
    };
}
