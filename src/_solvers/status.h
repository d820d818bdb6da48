/* What the core's functions return. Outputs are complete only on PRIVLR_OK
 * unless a function says otherwise. */
#ifndef PRIVLR_STATUS_H
#define PRIVLR_STATUS_H

typedef enum {
    PRIVLR_OK = 0,
    PRIVLR_NO_MEMORY = 1,
    PRIVLR_MAX_ITER = 2,   /* the iteration limit came before the tolerance */
    PRIVLR_STALLED = 3,    /* rounding errors allow no further progress */
    PRIVLR_NONFINITE = 4,  /* a NaN or an infinity in the input */
    PRIVLR_EXTREME = 5,    /* finite, but products would leave the range of a double */
    PRIVLR_NO_ENTROPY = 6, /* the random bits are missing, or cannot be random */
    PRIVLR_INVALID = 7,    /* an argument is outside its range */
    PRIVLR_INTERRUPTED = 8 /* the caller wanted no more */
} privlr_status;

#endif
