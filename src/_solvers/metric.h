/* A cheap metric for the minimiser: the Cholesky factor of the Hessian at some point,
 * estimated from a sample of the rows. It decides how fast a solve is, never where it ends. */
#ifndef PRIVLR_METRIC_H
#define PRIVLR_METRIC_H

#include "objective.h"
#include "solve.h"

typedef struct {
    int64_t width;  /* coefficients */
    int64_t every;  /* blocks of rows, of which one was used; 0: no factor yet */
    double *factor; /* upper triangle, column-major */
} privlr_metric;

/* Whether one is worth its memory at all. */
int privlr_metric_is_affordable(const privlr_objective *f);

/* The largest `every` whose sample is not too small for a useful estimate. */
int64_t privlr_metric_coarsest(const privlr_objective *f);

/* About how many passes over all rows take as long as an update. */
double privlr_metric_cost(const privlr_objective *f, int64_t every);

privlr_status privlr_metric_init(privlr_metric *metric, const privlr_objective *f);
void privlr_metric_free(privlr_metric *metric);

/* Single precision will do, and is twice as fast, unless columns are nearly dependent. */
privlr_status privlr_metric_update(privlr_metric *metric, const privlr_objective *f,
                                   const privlr_blas *blas, privlr_workspace *work, int64_t every,
                                   int precise, const double *w);

/* The same with the Hessian that a pass has just left in the workspace. */
void privlr_metric_adopt(privlr_metric *metric, const privlr_objective *f, const privlr_blas *blas,
                         const privlr_workspace *work, int64_t every);

/* v <- (estimated Hessian)^-1 v */
void privlr_metric_solve(const privlr_metric *metric, const privlr_blas *blas, double *v);

#endif
