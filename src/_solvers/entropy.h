/* Random bits: the operating system's generator, and a ChaCha20 keystream that
 * lives for one call.
 *
 * A keystream is keyed afresh inside each call and wiped before the call
 * returns, so no state exists that a fork could duplicate or a later memory
 * disclosure could reveal. */
#ifndef PRIVLR_ENTROPY_H
#define PRIVLR_ENTROPY_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"
#include "wipe.h"

enum { PRIVLR_KEY_BYTES = 32, PRIVLR_BITS_WORDS = 64 };

/* ChaCha20 (RFC 8439) with an all-zero nonce and a 64-bit block counter. Word i
 * of the stream is bytes 8i .. 8i+7, little endian, on every machine. */
typedef struct {
    uint32_t key[8];
    uint64_t block;                    /* the next block to produce */
    size_t next;                       /* the first unused word of the buffer */
    uint64_t words[PRIVLR_BITS_WORDS]; /* eight blocks of keystream */
} privlr_bits;

/* Fills `out` from the system's generator: PRIVLR_OK or PRIVLR_NO_ENTROPY. */
privlr_status privlr_entropy_read(size_t n, uint8_t *out);

/* Starts a stream at block 0 with `key`, or with a fresh system key if NULL.
 * The owner calls privlr_memory_wipe on it before returning. */
privlr_status privlr_bits_open(privlr_bits *bits, const uint8_t *key);

/* The next n words. */
void privlr_bits_fill(privlr_bits *bits, size_t n, uint64_t *out);

/* Replaces the buffer by the next eight blocks. */
void privlr_bits_refill(privlr_bits *bits);

/* The next word. */
static inline uint64_t privlr_bits_next(privlr_bits *bits) {
    if (bits->next == PRIVLR_BITS_WORDS) {
        privlr_bits_refill(bits);
    }
    return bits->words[bits->next++];
}

#endif
