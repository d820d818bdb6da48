/* ChaCha20's block function (RFC 8439), with an all-zero nonce and a 64-bit block counter. */
#ifndef PRIVLR_CHACHA20_H
#define PRIVLR_CHACHA20_H

#include <stdint.h>

enum { PRIVLR_CHACHA20_BLOCKS = 8 };

/* Blocks `block` to `block + 7`, 64 words in all; each word is eight bytes of the keystream,
 * little endian, on every machine. */
void privlr_chacha20_blocks(const uint32_t key[8], uint64_t block, uint64_t *out);

#endif
