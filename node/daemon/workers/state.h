#ifndef NODE_DAEMON_WORKERS_STATE_H
#define NODE_DAEMON_WORKERS_STATE_H
/* The states of the worker in one slot, and which move to which. A core.
 *
 *      NONE --prepare--> FETCHING --all is here--> UNPACKING --done--> READY --spawn--> SPAWNING --started--> RUNNING
 *                            ^                         |
 *                            '-- a chunk is damaged ---'
 *
 *      any --its end, a failure, a lease that is over--> NONE        NONE --adopted from an earlier daemon--> RUNNING
 */

#include <stdbool.h>

enum worker_state {
    WORKER_NONE,
    WORKER_FETCHING,  /* its code, then its checkpoint, are brought here */
    WORKER_UNPACKING, /* a job makes its directory */
    WORKER_READY,     /* the directory is ready, the core decides */
    WORKER_SPAWNING,  /* a job has shoal-keep start it */
    WORKER_RUNNING,   /* until everything of it is gone and taken */
    WORKER_STATES
};

/* Whether the move is one of the table's. */
bool worker_state_may(enum worker_state from, enum worker_state to);

#endif
