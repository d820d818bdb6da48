/* A round of ADMM sharing, block of rows by block: the shares D_m x_m of all parties, the
 * z-minimisation of their sum, and the moments D_m' v_m of what the parties are to fit next.
 * Between its two products a block stays in the cache, so that one round reads every matrix
 * from memory once. A party that is alone takes the same steps for all rows at a time; every
 * bit is the same if the block is. */
#ifndef PRIVLR_SHARING_H
#define PRIVLR_SHARING_H

#include <stdint.h>

#include "design.h"

/* Rows of a block at most. */
enum { PRIVLR_SHARING_ROWS = 128 };

/* What a party keeps for every row, and the matrix. */
typedef struct {
    privlr_design X;        /* float64, C-ordered or CSR, without factors or a constant */
    double over_relaxation; /* of the anchor */
    double clip;            /* of the target; infinite for none */
    double *share;          /* as it left the party */
    double *anchor;         /* the party's copy of its part of the consensus, plus the dual */
    double *message;        /* the last one */
    double *target;         /* what the columns are to fit */
    double *moment;         /* X' target; NULL where nobody needs it */
} privlr_columns;

/* What the coordinator keeps for every row, and squared norms of what one round changed. */
typedef struct {
    const double *y; /* -1 or +1 */
    double *center, *z;
    double rho, over_relaxation;
    double averaged; /* parties that divide the dual among them */
    double loss, gap, change, total, level, dual;
} privlr_labels;

/* out = X w for the block; count <= PRIVLR_SHARING_ROWS */
void privlr_columns_product(const privlr_columns *p, int64_t first, int64_t count, const double *w,
                            double *out);

/* slope += X' (X w - target) for the block */
void privlr_columns_slope(const privlr_columns *p, int64_t first, int64_t count, const double *w,
                          double *slope);

/* Takes a block of the coordinator's message; the block at row 0 begins a new moment. */
void privlr_columns_absorb(privlr_columns *p, int64_t first, int64_t count, const double *message);

/* Takes a block of the sum of all shares and gives that block of the message. */
void privlr_labels_step(privlr_labels *l, int64_t first, int64_t count, const double *total,
                        double *message);

/* All blocks of a round of m parties that hide nothing from each other. */
void privlr_sharing_exchange(int64_t m, privlr_columns *const *parties, const double *const *w,
                             privlr_labels *labels, int64_t n, int64_t block);

#endif
