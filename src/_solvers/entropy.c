#if defined(__linux__)
#define _GNU_SOURCE
#endif

#include "entropy.h"

#include <errno.h>
#include <string.h>

#if defined(_WIN32)
#include <windows.h>
#include <bcrypt.h>
#elif defined(__linux__) || defined(__APPLE__)
#include <sys/random.h>
#else
#include <unistd.h>
#endif

privlr_status privlr_entropy_read(size_t n, uint8_t *out) {
    while (n > 0) {
        size_t chunk = n < 256 ? n : 256; /* getentropy gives no more at a time */
#if defined(_WIN32)
        NTSTATUS failed = BCryptGenRandom(NULL, out, (ULONG)chunk, BCRYPT_USE_SYSTEM_PREFERRED_RNG);
        if (failed != 0) {
            return PRIVLR_NO_ENTROPY;
        }
#elif defined(__linux__)
        ssize_t got = getrandom(out, chunk, 0);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return PRIVLR_NO_ENTROPY;
        }
        chunk = (size_t)got;
#else
        if (getentropy(out, chunk) != 0) {
            return PRIVLR_NO_ENTROPY;
        }
#endif
        out += chunk;
        n -= chunk;
    }
    return PRIVLR_OK;
}

void privlr_memory_wipe(void *memory, size_t n) {
#if defined(__GNUC__)
    memset(memory, 0, n);
    /* The memory is said to be read here, so the store above is needed. */
    __asm__ __volatile__("" : : "r"(memory) : "memory");
#else
    volatile uint8_t *byte = memory;
    while (n-- > 0) {
        *byte++ = 0;
    }
#endif
}

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
_Static_assert(PRIVLR_BITS_WORDS % (LANES * BLOCK_WORDS) == 0,
               "whole groups of blocks fill the buffer");

#define ROTATE(x, n) (((x) << (n)) | ((x) >> (32 - (n))))
#define QUARTER_ROUND(a, b, c, d)                                                                  \
    do {                                                                                           \
        a += b, d ^= a, d = ROTATE(d, 16);                                                         \
        c += d, b ^= c, b = ROTATE(b, 12);                                                         \
        a += b, d ^= a, d = ROTATE(d, 8);                                                          \
        c += d, b ^= c, b = ROTATE(b, 7);                                                          \
    } while (0)

/* Blocks `block` to `block + LANES - 1` as LANES * BLOCK_WORDS words. */
static void chacha20_blocks(const uint32_t key[8], uint64_t block, uint64_t *out) {
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

void privlr_bits_refill(privlr_bits *bits) {
    for (size_t i = 0; i < PRIVLR_BITS_WORDS; i += LANES * BLOCK_WORDS) {
        chacha20_blocks(bits->key, bits->block, bits->words + i);
        bits->block += LANES;
    }
    bits->next = 0;
}

privlr_status privlr_bits_open(privlr_bits *bits, const uint8_t *key) {
    uint8_t fresh[PRIVLR_KEY_BYTES];
    if (key == NULL) {
        privlr_status status = privlr_entropy_read(sizeof fresh, fresh);
        if (status != PRIVLR_OK) {
            return status;
        }
        key = fresh;
    }
    for (int i = 0; i < 8; i++) {
        const uint8_t *byte = key + 4 * i;
        bits->key[i] = (uint32_t)byte[0] | (uint32_t)byte[1] << 8 | (uint32_t)byte[2] << 16 |
                       (uint32_t)byte[3] << 24;
    }
    privlr_memory_wipe(fresh, sizeof fresh);
    bits->block = 0;
    bits->next = PRIVLR_BITS_WORDS;
    return PRIVLR_OK;
}

void privlr_bits_fill(privlr_bits *bits, size_t n, uint64_t *out) {
    while (n > 0) {
        if (bits->next == PRIVLR_BITS_WORDS) {
            privlr_bits_refill(bits);
        }
        size_t left = PRIVLR_BITS_WORDS - bits->next;
        size_t chunk = n < left ? n : left;
        memcpy(out, bits->words + bits->next, chunk * sizeof *out);
        bits->next += chunk;
        out += chunk;
        n -= chunk;
    }
}
