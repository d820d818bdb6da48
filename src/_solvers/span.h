/* L-BFGS in the span of the rows, where their entries are few for so many columns: with
 *
 *     w = prior - linear / ridge + sum_i theta_i a_i
 *
 * the gradient is the sum of (slope_i + ridge theta_i) a_i. Every vector is kept as the factors
 * of the rows and its products with them, short ones both; the long vectors of the columns
 * are met twice a step. */
#ifndef PRIVLR_SPAN_H
#define PRIVLR_SPAN_H

#include "objective.h"

int privlr_span_is_apt(const privlr_objective *f);

/* Leaves in w a point near the minimiser, whatever was there; goes on until the gradient seems
 * to be within the tolerance, or shrinks no more. Adds its looks at all rows to passes. */
privlr_status privlr_span_descent(const privlr_objective *f, double tolerance, double *w,
                                  double *passes);

#endif
