#include "team.h"

#include <stdatomic.h>
#include <stdlib.h>

#ifdef _WIN32
#include <windows.h>
#define yield_processor() SwitchToThread()
#else
#include <sched.h>
#define yield_processor() sched_yield()
#endif

/* Looks at a variable this often before the processor is offered to others. */
enum { SPINS = 4000 };

struct privlr_team {
    int size;
    atomic_int joined, dismissed;
    /* Job number << 32 | parts left. One word, so that a late helper cannot take a part
     * of one job for a part of the next. */
    _Atomic uint64_t ticket;
    atomic_llong unfinished;
    privlr_job job;
    void *context;
};

privlr_team *privlr_team_new(int helpers) {
    privlr_team *team = malloc(sizeof *team);
    if (!team)
        return NULL;
    team->size = 1 + helpers;
    atomic_init(&team->joined, 0);
    atomic_init(&team->dismissed, 0);
    atomic_init(&team->ticket, 0);
    atomic_init(&team->unfinished, 0);
    return team;
}

void privlr_team_free(privlr_team *team) {
    free(team);
}

int privlr_team_size(const privlr_team *team) {
    return team ? team->size : 1;
}

static void wait_a_little(int *spins) {
    if (++*spins < SPINS) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
    } else {
        yield_processor();
    }
}

/* Job and context may be read once a part is claimed: run() changes them only when no
 * part is unfinished. */
static int work_on_a_part(privlr_team *team, int member) {
    uint64_t ticket = atomic_load_explicit(&team->ticket, memory_order_acquire);
    while ((uint32_t)ticket != 0) {
        if (atomic_compare_exchange_weak(&team->ticket, &ticket, ticket - 1)) {
            team->job(team->context, (int64_t)(uint32_t)ticket - 1, member);
            atomic_fetch_sub_explicit(&team->unfinished, 1, memory_order_release);
            return 1;
        }
    }
    return 0;
}

void privlr_team_help(privlr_team *team) {
    const int member = 1 + atomic_fetch_add(&team->joined, 1);
    int spins = 0;
    while (!atomic_load(&team->dismissed)) {
        if (member < team->size && work_on_a_part(team, member))
            spins = 0;
        else
            wait_a_little(&spins);
    }
}

void privlr_team_dismiss(privlr_team *team) {
    atomic_store(&team->dismissed, 1);
}

void privlr_team_run(privlr_team *team, privlr_job job, void *context, int64_t parts) {
    if (!team) {
        for (int64_t part = parts - 1; part >= 0; part--)
            job(context, part, 0);
        return;
    }
    const uint64_t number = (atomic_load(&team->ticket) >> 32) + 1;
    team->job = job;
    team->context = context;
    atomic_store(&team->unfinished, parts);
    atomic_store_explicit(&team->ticket, number << 32 | (uint64_t)parts, memory_order_release);
    while (work_on_a_part(team, 0)) {
    }
    int spins = 0;
    while (atomic_load_explicit(&team->unfinished, memory_order_acquire) > 0)
        wait_a_little(&spins);
}
