/* Logistic loss, slope and curvature, and the proximal step of that loss.
 *
 * Labels y are -1 or +1, m = y * raw_prediction is the margin, and
 *     logistic:  phi(m) = log(1 + exp(-m))
 *     capped:    phi(m) = log(1 + exp(-m)) for m >= 0, log 2 - m/2 for m < 0.
 * Every result is the same to the last bit on every instruction set.
 */
#ifndef PRIVLR_LOGISTIC_H
#define PRIVLR_LOGISTIC_H

#include <stddef.h>

enum { PRIVLR_LOSS_LOGISTIC = 0, PRIVLR_LOSS_CAPPED = 1 };

/* Returns sum_i w_i phi(m_i) and writes
 *     gradient_out[i] = w_i y_i phi'(m_i)      (derivative in raw_prediction)
 *     hessian_out[i]  = w_i phi''(m_i)         (0 where the capped loss is linear).
 * sample_weight NULL stands for ones; either output may be NULL, and either may
 * be the same array as raw_prediction. Finite for every finite margin, NaN for NaN;
 * each phi, slope and curvature within 2.5 ulp.
 */
double privlr_logistic_evaluate(size_t n, int loss, const double *raw_prediction, const double *y,
                                const double *sample_weight, double *gradient_out,
                                double *hessian_out);

/* The same slopes and curvatures, bit for bit, without the loss: half the work. */
void privlr_logistic_slopes(size_t n, int loss, const double *raw_prediction, const double *y,
                            const double *sample_weight, double *gradient_out, double *hessian_out);

/* z_out[i] = argmin_z  c log(1 + exp(-y_i z)) - a_i z + rho/2 (s_i - z)^2.
 * Within 4 ulp of max(1, |z|); saturates at the largest double, NaN for NaN. z_out
 * may be the same array as s, a or y. Returns 0, or -1 with nothing written unless
 * c >= 0, 1e-300 <= rho < infinity and c / rho <= 1e200.
 */
int privlr_logistic_prox(size_t n, double c, double rho, const double *y, const double *s,
                         const double *a, double *z_out);

/* "baseline", "x86-64-v3" or "x86-64-v4": the variant that the calls above use. */
const char *privlr_simd_level(void);

#endif
