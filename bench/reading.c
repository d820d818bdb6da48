/* Adds numbers up at the speed of the memory: what bench/threads.py measures solves against. */
#include <stddef.h>

typedef double eight __attribute__((vector_size(64), aligned(8)));

double add_up(const double *x, size_t n) {
    eight sum[4] = {{0.0}};
    for (size_t i = 0; i + 32 <= n; i += 32)
        for (size_t k = 0; k < 4; k++) {
            __builtin_prefetch(x + i + 8 * k + 512, 0, 2);
            sum[k] += *(const eight *)(x + i + 8 * k);
        }
    sum[0] += sum[1] + (sum[2] + sum[3]);
    double total = 0.0;
    for (size_t k = 0; k < 8; k++)
        total += sum[0][k];
    return total;
}
