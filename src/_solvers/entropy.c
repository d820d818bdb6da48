#if defined(__linux__)
#define _GNU_SOURCE
#endif

#include "entropy.h"

#include "chacha20.h"

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

void privlr_bits_refill(privlr_bits *bits) {
    privlr_chacha20_blocks(bits->key, bits->block, bits->words);
    bits->block += PRIVLR_CHACHA20_BLOCKS;
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
