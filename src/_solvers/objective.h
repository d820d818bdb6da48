/* The ridge-regularised logistic objective
 *
 *     F(w) = sum_i weight_i phi(offset_i + a_i . w, label_i)
 *            + ridge/2 ||w - prior||^2 + linear . w
 *
 * for one raw prediction a sample (logistic and capped loss, labels -1 and +1)
 * or for n_outputs > 1 of them (softmax, labels 0 .. n_outputs - 1; w and the
 * gradient are n_outputs x width, row-major; offsets are n x n_outputs). */
#ifndef PRIVLR_OBJECTIVE_H
#define PRIVLR_OBJECTIVE_H

#include "design.h"
#include "status.h"
#include "team.h"

typedef struct {
    privlr_design X;
    const double *y;
    const double *sample_weight; /* NULL: ones */
    const double *offset;        /* NULL: zeros */
    const double *prior;         /* NULL: zeros */
    const double *linear;        /* NULL: zeros */
    int loss;                    /* PRIVLR_LOSS_*, for one output */
    int64_t n_outputs;
    double ridge;
} privlr_objective;

/* Number of coefficients. */
static inline int64_t privlr_objective_size(const privlr_objective *f) {
    return privlr_design_width(&f->X) * f->n_outputs;
}

/* Whether a pass can add the Hessian up on its way: columns are few and rows in panels. */
static inline int privlr_objective_is_small(const privlr_objective *f) {
    return f->n_outputs == 1 && privlr_design_is_narrow(&f->X);
}

/* Elements of the Hessian that a pass can leave behind: of a small objective the whole, of sparse
 * rows the diagonal. */
static inline int64_t privlr_objective_hessian_size(const privlr_objective *f) {
    const int64_t width = privlr_design_width(&f->X);
    return privlr_objective_is_small(f)           ? width * width
           : f->n_outputs == 1 && f->X.index_bits ? width
                                                  : 0;
}

/* Scratch memory of the passes, made once a solve, and who works on them. */
typedef struct {
    privlr_team *team;    /* NULL: the caller alone */
    int64_t n_chunks;     /* at most; the same for every number of threads */
    size_t chunk, member; /* doubles that one of each has below */
    double *carry, *chunks, *members, *memory;
    double *hessian; /* upper triangle, column-major, or diagonal; see evaluate */
    int backwards;   /* the next pass begins with the rows that this one leaves in the cache */
} privlr_workspace;

privlr_status privlr_workspace_init(privlr_workspace *work, const privlr_objective *f,
                                    privlr_team *team);
void privlr_workspace_free(privlr_workspace *work);

/* What a pass finds beside the gradient. */
typedef struct {
    double value; /* F(w); 0 unless asked for */
    double noise; /* length by which the gradient of a sample may be off, one sigma */
    /* In units of the precision: about the gradient's rounding error, and what that is where
     * the sign of large margins is at stake. */
    double rounding, haze;
} privlr_pass;

enum { PRIVLR_WITH_VALUE = 1, PRIVLR_WITH_HESSIAN = 2 };

/* Gradient, and what else `with` asks for, from every `every`-th block of rows, the data
 * term scaled up to all rows. What a pass can add up of the Hessian is left in the workspace,
 * without the ridge. With every = 1 the sum over samples is exact to a block's rounding: blocks are
 * added with compensated sums. This one function decides what a minimiser is worth; everything
 * else only proposes points to it. Over more rows than were ever looked at, unless rows are short,
 * it finds their lengths, too. */
privlr_pass privlr_objective_evaluate(const privlr_objective *f, privlr_workspace *work,
                                      int64_t every, int with, const double *w,
                                      double *gradient_out);

/* What the Hessian of one block is made of: the weighted second derivative of each loss, or
 * for softmax the weighted probabilities, outputs x block. Returns where in raw, which has
 * room for two blocks of raw predictions, they are. */
double *privlr_objective_curvature(const privlr_objective *f, const privlr_view *view,
                                   const double *w, double *raw);

#endif
