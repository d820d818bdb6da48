/* privlr's kernels for C and C++.
 *
 *     cc program.c -I"$(python -c 'import privlr; print(privlr.get_include())')" \
 *         "$(python -c 'import privlr; print(privlr.get_library())')" -lm
 *
 * The library is static, knows no Python, keeps no state between calls and prints nothing.
 * Functions may be called from any thread. Labels are -1 and +1; arrays are contiguous but for
 * those that come with strides.
 */
#ifndef PRIVLR_H
#define PRIVLR_H

#ifdef __cplusplus
extern "C" {
#endif

#include "privlr/logistic.h"
#include "privlr/noise.h"
#include "privlr/solve.h"
#include "privlr/status.h"

#ifdef __cplusplus
}
#endif

#endif
