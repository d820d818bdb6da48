/* The ridge-regularised logistic objective with per-sample offsets,
 *
 *     F(w) = sum_i weight_i phi(offset_i, a_i . w, label_i) + ridge/2 ||w||^2,
 *
 * for one raw prediction a sample (logistic and capped loss, labels -1 and +1)
 * or for n_outputs > 1 of them (softmax, labels 0 .. n_outputs - 1; w and the
 * gradient are n_outputs x width, row-major; offsets are n x n_outputs). */
#ifndef PRIVLR_OBJECTIVE_H
#define PRIVLR_OBJECTIVE_H

#include "design.h"

/* The few BLAS and LAPACK routines that the core needs, passed in by the
 * caller, so that the core links to none. Fortran conventions. */
typedef struct {
    void (*syrk)(char *uplo, char *trans, int *n, int *k, double *alpha, double *a, int *lda,
                 double *beta, double *c, int *ldc);
    void (*potrf)(char *uplo, int *n, double *a, int *lda, int *info);
    void (*potrs)(char *uplo, int *n, int *nrhs, double *a, int *lda, double *b, int *ldb,
                  int *info);
} privlr_blas;

typedef struct {
    privlr_design X;
    const double *y;
    const double *sample_weight; /* NULL: ones */
    const double *offset;        /* NULL: zeros */
    int loss;                    /* PRIVLR_LOSS_*, for one output */
    int64_t n_outputs;
    double ridge;
} privlr_objective;

/* Number of coefficients. */
static inline int64_t privlr_objective_size(const privlr_objective *f) {
    return privlr_design_width(&f->X) * f->n_outputs;
}

/* Scratch memory of the passes, made once a solve. */
typedef struct {
    double *scratch, *raw, *slope, *curvature, *packed, *block_sum, *carry;
    double *memory;
} privlr_workspace;

privlr_status privlr_workspace_init(privlr_workspace *work, const privlr_objective *f,
                                    int with_hessian);
void privlr_workspace_free(privlr_workspace *work);

/* F(w), and its gradient and the upper triangle of its Hessian where asked for
 * (one output only). The sum over samples is exact to a block's rounding:
 * blocks are added with a compensated sum. */
double privlr_objective_evaluate(const privlr_objective *f, const privlr_blas *blas,
                                 privlr_workspace *work, const double *w, double *gradient_out,
                                 double *hessian_out);

#endif
