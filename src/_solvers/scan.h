/* One look at every row of a design before it is worked with: the lengths of the rows, the factors
 * that clip them, and the panels of short ones. */
#ifndef PRIVLR_SCAN_H
#define PRIVLR_SCAN_H

#include "design.h"
#include "status.h"
#include "team.h"

/* Adds the lengths of rows in a view, as they are stored; the design is not narrow. */
void privlr_design_measure(const privlr_design *X, const privlr_view *view, int64_t first,
                           int64_t count, privlr_lengths *known);

typedef struct {
    const privlr_design *X; /* row_scale is not looked at */
    double bound;           /* to which rows are clipped; unless scale_out is NULL */
    double *scale_out;
    privlr_status status;
    privlr_lengths lengths;
    int64_t plain_blocks; /* more than of dense rows where columns are emptier */
    int away;             /* panels are stored past the caches, where they would not stay */
} privlr_scan;

/* Parts of a scan at most, which a team shares out; the same for every number of members. */
enum { PRIVLR_SCAN_PARTS = 16 };

/* One look at every row of designs, of which all are narrow and cut from the same rows of one
 * matrix if there are several: together they read each row from memory once. Sets scale_out[i] to
 * the largest convenient factor <= 1 with ||scale_out[i] (x_i, intercept)|| <= bound in exact
 * arithmetic, and fills the panels. PRIVLR_NONFINITE: a row has a NaN or an infinity.
 * PRIVLR_EXTREME means that products with some rows could overflow: scale_out is complete, and
 * negative for those. Without scale_out it cannot fail. After the scans there is room for
 * PRIVLR_SCAN_PARTS times as many; scratch has as many doubles as privlr_design_scan_scratch()
 * says, for the members of the team (one without). */
size_t privlr_design_scan_scratch(const privlr_scan *scans, int64_t n_scans, int64_t members);
void privlr_design_scan(privlr_scan *scans, int64_t n_scans, privlr_team *team, double *scratch);

#endif
