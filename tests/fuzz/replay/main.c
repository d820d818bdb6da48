/* Calls a fuzz target with pseudo-random inputs: for checkers that need no fuzzer.
 *
 *     target RUNS
 */
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int count, char **arguments) {
    const long runs = count > 1 ? atol(arguments[1]) : 100;
    uint64_t state = 1;
    for (long run = 0; run < runs; run++) {
        uint8_t data[2048];
        for (size_t i = 0; i < sizeof data; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            data[i] = (uint8_t)(state >> 56);
        }
        LLVMFuzzerTestOneInput(data, sizeof data - (size_t)(state >> 40) % 1024);
    }
    return 0;
}
