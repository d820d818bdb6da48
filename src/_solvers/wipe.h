#ifndef PRIVLR_WIPE_H
#define PRIVLR_WIPE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Zeroes memory in a way that the compiler may not drop. */
static inline void privlr_memory_wipe(void *memory, size_t n) {
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

#endif
