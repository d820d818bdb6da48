#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "line_search.h"
#include "minimize.h"

/* Iterations without a smaller gradient or value that end the run. */
enum { PATIENCE = 3 };

/* Solves (H + shift I) direction = -gradient. The strict lower triangle and
 * `diagonal` keep H, so that a factorisation that fails can be tried again
 * with a larger shift: only rounding makes H indefinite. */
static void newton_direction(int n, const privlr_blas *blas, double *hessian, double *diagonal,
                             const double *gradient, double *direction) {
    double trace = 0.0, shift = 0.0;
    for (int j = 0; j < n; j++) {
        diagonal[j] = hessian[j + (size_t)j * n];
        trace += diagonal[j];
        for (int i = 0; i < j; i++)
            hessian[j + (size_t)i * n] = hessian[i + (size_t)j * n];
    }
    for (;;) {
        int info = 0, one = 1;
        blas->potrf("U", &n, hessian, &n, &info);
        if (info == 0) {
            for (int j = 0; j < n; j++)
                direction[j] = -gradient[j];
            blas->potrs("U", &n, &one, hessian, &n, direction, &n, &info);
            return;
        }
        shift = shift == 0.0 ? 1e-16 * trace : 10.0 * shift;
        for (int j = 0; j < n; j++) {
            for (int i = 0; i < j; i++)
                hessian[i + (size_t)j * n] = hessian[j + (size_t)i * n];
            hessian[j + (size_t)j * n] = diagonal[j] + shift;
        }
    }
}

privlr_status privlr_newton(const privlr_objective *f, const privlr_blas *blas, double tolerance,
                            int max_passes, double *w, privlr_progress *progress) {
    const size_t n = (size_t)privlr_objective_size(f);
    privlr_workspace work;
    privlr_status status = privlr_workspace_init(&work, f, 1);
    double *memory = malloc((n * n + 6 * n) * sizeof *memory);
    if (status != PRIVLR_OK || !memory) {
        if (status == PRIVLR_OK)
            privlr_workspace_free(&work);
        free(memory);
        return PRIVLR_NO_MEMORY;
    }
    /* The Hessian is used up before the next point needs room for its own. */
    double *hessian = memory, *direction = hessian + n * n, *diagonal = direction + n;
    privlr_point here = {diagonal + n, diagonal + 2 * n, hessian, 0.0};
    privlr_point next = {diagonal + 3 * n, diagonal + 4 * n, hessian, 0.0};

    memcpy(here.w, w, n * sizeof *w);
    here.value = privlr_objective_evaluate(f, blas, &work, here.w, here.gradient, hessian);
    double norm = sqrt(privlr_dot((int64_t)n, here.gradient, here.gradient)), best = norm;
    int passes = 1, idle = 0;
    while (!(best <= tolerance)) {
        if (passes >= max_passes || idle >= PATIENCE || !isfinite(norm)) {
            status = passes >= max_passes ? PRIVLR_MAX_ITER : PRIVLR_STALLED;
            break;
        }
        newton_direction((int)n, blas, hessian, diagonal, here.gradient, direction);
        const double slope = privlr_dot((int64_t)n, here.gradient, direction);
        passes += privlr_line_search(f, blas, &work, &here, direction, slope, 0.5, &next);
        const privlr_point last = here;
        here = next;
        next = last;
        norm = sqrt(privlr_dot((int64_t)n, here.gradient, here.gradient));
        idle = norm <= 0.5 * best || privlr_descended(&last, &here) ? 0 : idle + 1;
        if (norm < best) {
            best = norm;
            memcpy(w, here.w, n * sizeof *w);
        }
    }
    progress->gradient_norm = best;
    progress->passes = passes;
    free(memory);
    privlr_workspace_free(&work);
    return status;
}
