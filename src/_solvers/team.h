/* Threads that the caller lends to one solve. The core starts none itself.
 *
 * A job is cut into parts whose number depends on its shape alone; whoever is free
 * claims the next part, the caller included, and results are combined in the order of
 * the parts: they do not depend on how many threads came, or when. */
#ifndef PRIVLR_TEAM_H
#define PRIVLR_TEAM_H

#include <stdint.h>

enum { PRIVLR_TEAM_MAX = 64 };

typedef void (*privlr_job)(void *context, int64_t part, int member);

typedef struct privlr_team privlr_team;

/* A team of the caller and up to `helpers` further threads; NULL without memory. */
privlr_team *privlr_team_new(int helpers);
void privlr_team_free(privlr_team *team);

/* A helper thread spends its time in here until the team is dismissed. */
void privlr_team_help(privlr_team *team);
void privlr_team_dismiss(privlr_team *team);

/* Calls job(context, part, member) for every part and returns when all are done. The
 * caller is member 0. A team of NULL stands for the caller alone. */
void privlr_team_run(privlr_team *team, privlr_job job, void *context, int64_t parts);

/* How many members work at most. */
int privlr_team_size(const privlr_team *team);

#endif
