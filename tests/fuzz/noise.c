/* Whatever the scales and the keystream, noise is drawn or refused. */
#include "noise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

enum { MOST = 300 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct {
        uint8_t key[32];
        uint16_t length;
        int64_t scale;
        double rate, sigma, grid;
    } input;
    if (size < sizeof input)
        return 0;
    memcpy(&input, data, sizeof input);
    size_t n = 1 + input.length % MOST;

    double b[MOST], mean[MOST], out[MOST], radius;
    int64_t integer[MOST];
    double rate = fabs(input.rate);
    if (rate >= 1e-100 && rate <= 1e100) {
        REQUIRE(privlr_noise_sphere(input.key, n, rate, b, &radius) == PRIVLR_OK);
        double square = 0.0;
        for (size_t i = 0; i < n; i++)
            square += b[i] * b[i] * rate * rate;
        REQUIRE(radius > 0.0 && fabs(sqrt(square) / radius - 1.0) < 1e-12);
    }

    privlr_status status = privlr_noise_discrete_laplace(input.key, n, input.scale, integer);
    int legal = input.scale >= 1 && input.scale <= PRIVLR_LAPLACE_SCALE_MAX;
    REQUIRE(status == (legal ? PRIVLR_OK : PRIVLR_EXTREME));
    for (size_t i = 0; legal && i < n; i++)
        REQUIRE(integer[i] < (int64_t)1 << 60 && integer[i] > -((int64_t)1 << 60));

    double grid = ldexp(1.0, isfinite(input.grid) ? (int)fmod(input.grid, 600.0) : 0);
    for (size_t i = 0; i < n; i++)
        mean[i] = ldexp((double)(int16_t)(i * 40503u), (int)(input.length % 64) - 32) * grid;
    status = privlr_noise_rounded_gaussian(input.key, n, fabs(input.sigma), mean, grid, out);
    for (size_t i = 0; status == PRIVLR_OK && i < n; i++)
        REQUIRE(fmod(out[i], grid) == 0.0);
    return 0;
}
