#ifndef NODE_CORE_QUEUE_ORDER_H
#define NODE_CORE_QUEUE_ORDER_H
/* The order in which experiments get slots (DESIGN 8). Pure: each owner computes it from its own records.
 *
 *   users          The user with the fewest running slots per share comes first; among equals the one with the least decayed usage
 *                  per share. `priority` and age are a user's own choice (age is the clock of the submitting node), so they order
 *                  nothing between two users; what is left is decided by the users' names.
 *   of one user    The smaller priority number first, then the older experiment, then the smaller id. */

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"

#define QUEUE_USER_BYTES 64

/* The next trial of an experiment, as its place follows from what it is compared by. */
struct queue_entry {
    char user[QUEUE_USER_BYTES]; /* empty: the experiment is nobody's, and all such experiments are as one user's */
    uint32_t share;              /* the user's, at least 1; 0 counts as 1 */
    uint32_t running;            /* slots that trials of the user hold */
    uint64_t usage;              /* slot-seconds of the user, decayed; values of one moment, or all of one landmark */
    uint32_t priority;           /* 1 ... 99, smaller first */
    uint64_t age;                /* when the experiment was submitted, in seconds since 1970 */
    experiment_id experiment;
};

bool queue_is_same_user(const struct queue_entry *a, const struct queue_entry *b);

/* Negative if `a` comes before `b`, positive if behind; 0 for two entries of one experiment. A total order over entries of which
 * those of one user have equal share, running and usage. */
int queue_compare(const struct queue_entry *a, const struct queue_entry *b);

#endif
