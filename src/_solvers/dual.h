/* Dual coordinate ascent, for sparse rows that are fewer than the columns, where the ridge is
 * small: the minimiser is
 *
 *     w = prior - linear / ridge + sum_i theta_i weight_i y_i a_i / ridge,
 *     theta_i = sigma(-y_i (offset_i + a_i . w)),
 *
 * and one theta after the other is made right, which costs a look at one row. */
#ifndef PRIVLR_DUAL_H
#define PRIVLR_DUAL_H

#include "objective.h"

int privlr_dual_is_apt(const privlr_objective *f);

/* Leaves in w a point near the minimiser, whatever was there. Goes on until the gradient
 * seems to be within the tolerance, or as long as that is fast. Adds its looks at all rows
 * to passes. */
privlr_status privlr_dual_ascent(const privlr_objective *f, double tolerance, double *w,
                                 double *passes);

#endif
