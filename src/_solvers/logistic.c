#include "logistic.h"

#include <math.h>

double privlr_logistic_evaluate(size_t n, int loss, const double *raw_prediction,
                                const double *y, const double *sample_weight,
                                double *gradient_out, double *hessian_out)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double label = y[i];
        const double weight = sample_weight ? sample_weight[i] : 1.0;
        const double m = label * raw_prediction[i];
        const int linear = loss == PRIVLR_LOSS_CAPPED && m < 0.0;
        const double u = exp(-fabs(m));
        const double r = 1.0 / (1.0 + u);
        const double value = linear ? 0.6931471805599453 - 0.5 * m
                                    : (m < 0.0 ? -m : 0.0) + log1p(u);
        const double slope = linear ? 0.5 : (m < 0.0 ? r : u * r);
        sum += weight * value;
        if (gradient_out)
            gradient_out[i] = -weight * label * slope;
        if (hessian_out)
            hessian_out[i] = linear ? 0.0 : weight * (u * r * r);
    }
    return sum;
}

const char *privlr_simd_level(void)
{
    return "baseline";
}
