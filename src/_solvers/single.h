/* A copy of large dense rows in single precision, from which a pass takes half as long. Its
 * objective has a linear term that makes its gradient right at one point, so that a minimiser
 * of it is wrong by a share of the distance from there alone, and the next point can be right
 * to seven more digits. What is known of the rows' lengths holds for those that were copied. */
#ifndef PRIVLR_SINGLE_H
#define PRIVLR_SINGLE_H

#include "objective.h"

typedef struct {
    privlr_objective f;
    float *rows; /* NULL: no copy */
    double *linear;
} privlr_single;

/* Where a metric is cheaper, and where rows come from the cache, none is made; nor where numbers
 * leave the range of a float, or memory is short. */
int privlr_single_is_apt(const privlr_objective *f);
void privlr_single_init(privlr_single *single, const privlr_objective *f);
void privlr_single_free(privlr_single *single);

/* Makes the gradient at a point what it is: the copy's own one there is given too. */
void privlr_single_correct(privlr_single *single, const double *gradient, const double *own);

#endif
