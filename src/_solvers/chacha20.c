/* The block function of chacha20.h, compiled once per instruction set. */
#include "chacha20.h"
#include "kernels.h"
#include "simd.h"
#include "wipe.h"

/* One lane is one block. The cipher below reads the same for a vector of lanes
 * and for a single word. */
#if defined(__GNUC__)
enum { LANES = 8 };
typedef uint32_t lanes __attribute__((vector_size(4 * LANES)));
#else
enum { LANES = 1 };
typedef uint32_t lanes;
#endif

enum { BLOCK_WORDS = 8 };
_Static_assert(PRIVLR_CHACHA20_BLOCKS % LANES == 0, "lanes fill whole groups of blocks");

#define ROTATE(x, n) (((x) << (n)) | ((x) >> (32 - (n))))
#define QUARTER_ROUND(a, b, c, d)                                                                  \
    do {                                                                                           \
        a += b, d ^= a, d = ROTATE(d, 16);                                                         \
        c += d, b ^= c, b = ROTATE(b, 12);                                                         \
        a += b, d ^= a, d = ROTATE(d, 8);                                                          \
        c += d, b ^= c, b = ROTATE(b, 7);                                                          \
    } while (0)

/* Blocks `block` to `block + LANES - 1` as LANES * BLOCK_WORDS words. */
static void lanes_fill(const uint32_t key[8], uint64_t block, uint64_t *out) {
    static const uint32_t constants[4] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
    uint32_t start[16][LANES], end[16][LANES];
    lanes s[16];
    for (int lane = 0; lane < LANES; lane++) {
        for (int i = 0; i < 4; i++) {
            start[i][lane] = constants[i];
        }
        for (int i = 0; i < 8; i++) {
            start[4 + i][lane] = key[i];
        }
        start[12][lane] = (uint32_t)(block + (uint64_t)lane);
        start[13][lane] = (uint32_t)((block + (uint64_t)lane) >> 32);
        start[14][lane] = start[15][lane] = 0;
    }
    memcpy(s, start, sizeof s);
    for (int i = 0; i < 10; i++) {
        QUARTER_ROUND(s[0], s[4], s[8], s[12]);
        QUARTER_ROUND(s[1], s[5], s[9], s[13]);
        QUARTER_ROUND(s[2], s[6], s[10], s[14]);
        QUARTER_ROUND(s[3], s[7], s[11], s[15]);
        QUARTER_ROUND(s[0], s[5], s[10], s[15]);
        QUARTER_ROUND(s[1], s[6], s[11], s[12]);
        QUARTER_ROUND(s[2], s[7], s[8], s[13]);
        QUARTER_ROUND(s[3], s[4], s[9], s[14]);
    }
    memcpy(end, s, sizeof end);
    for (int lane = 0; lane < LANES; lane++) {
        for (int i = 0; i < BLOCK_WORDS; i++) {
            uint32_t low = end[2 * i][lane] + start[2 * i][lane];
            uint32_t high = end[2 * i + 1][lane] + start[2 * i + 1][lane];
            out[lane * BLOCK_WORDS + i] = (uint64_t)high << 32 | low;
        }
    }
    privlr_memory_wipe(start, sizeof start);
    privlr_memory_wipe(end, sizeof end);
    privlr_memory_wipe(s, sizeof s);
}

void PRIVLR_KERNEL(privlr_chacha20_blocks)(const uint32_t key[8], uint64_t block, uint64_t *out) {
    for (int i = 0; i < PRIVLR_CHACHA20_BLOCKS; i += LANES) {
        lanes_fill(key, block + (uint64_t)i, out + i * BLOCK_WORDS);
    }
}
