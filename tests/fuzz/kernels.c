/* Every finite input of the element-wise kernels gives a finite and sound result.
 *
 * The bytes are read as a loss, a ratio and any number of samples.
 */
#include "logistic.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

enum { MOST = 512 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    double number[4 * MOST], gradient[MOST], hessian[MOST], z[MOST];
    double ratio[2];
    if (size < 1 + sizeof ratio)
        return 0;
    int loss = data[0] & 1 ? PRIVLR_LOSS_CAPPED : PRIVLR_LOSS_LOGISTIC;
    memcpy(ratio, data + 1, sizeof ratio);
    size_t n = (size - 1 - sizeof ratio) / (4 * sizeof(double));
    n = n < MOST ? n : MOST;
    memcpy(number, data + 1 + sizeof ratio, 4 * n * sizeof(double));
    double *margin = number, *s = number + n, *a = number + 2 * n, *weight = number + 3 * n;
    double y[MOST];
    int finite = 1;
    for (size_t i = 0; i < n; i++) {
        y[i] = signbit(weight[i]) ? -1.0 : 1.0;
        weight[i] = fmin(fabs(weight[i]), 1e100);
        finite &= isfinite(margin[i]) && isfinite(s[i]) && isfinite(a[i]) && !isnan(weight[i]);
    }

    double total = privlr_logistic_evaluate(n, loss, margin, y, weight, gradient, hessian);
    int status = privlr_logistic_prox(n, fabs(ratio[0]), fabs(ratio[1]), y, s, a, z);
    if (!finite)
        return 0;
    REQUIRE(total >= 0.0);
    for (size_t i = 0; i < n; i++) {
        double slope = fabs(gradient[i]);
        REQUIRE(slope <= weight[i] && gradient[i] * y[i] <= 0.0);
        REQUIRE(hessian[i] >= 0.0 && hessian[i] <= weight[i] / 4 * (1 + 1e-15));
        REQUIRE(loss == PRIVLR_LOSS_LOGISTIC || slope <= weight[i] / 2 * (1 + 1e-15));
        REQUIRE(status != 0 || isfinite(z[i]));
    }
    return 0;
}
