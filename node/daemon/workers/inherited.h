#ifndef NODE_DAEMON_WORKERS_INHERITED_H
#define NODE_DAEMON_WORKERS_INHERITED_H
/* Which variables of the daemon's own environment a worker's program gets. The lists stand in shoald(8). Pure functions. */

#include <stdbool.h>
#include <stddef.h>

/* The rules of this node's owner (--worker-env): NAME; NAME=VALUE; or PREFIX*, all variables that begin so. */
struct inherited_rules {
    const char *const *items; /* borrowed */
    size_t count;
};

/* Checks one rule. NULL: it is good; else one sentence, static or in `text`. */
const char *inherited_refusal(const char *rule, char text[256]);

/* True if the variable ("NAME=value") of the daemon passes to workers. */
bool inherited_passes(const char *variable, const struct inherited_rules *rules);

/* The names that pass in any case and those that never do, each followed by NULL: for the test of the manual. A `*` at the end
 * stands for any rest. */
extern const char *const inherited_names[];
extern const char *const inherited_never[];

#endif
