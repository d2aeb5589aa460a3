#ifndef NODE_DAEMON_WORKERS_STATE_H
#define NODE_DAEMON_WORKERS_STATE_H
/* The states of the worker in one slot, and the allowed moves. A core.
 *
 *      NONE --prepare--> FETCHING --all is here--> UNPACKING --done--> READY --spawn--> SPAWNING --started--> RUNNING
 *                            ^                       |   |               ^
 *                            '- a chunk is damaged --'   '-> INSTALLING -' packages are wanted
 *
 *      any --its end, a failure, a lease that is over--> NONE        NONE --adopted from an earlier daemon--> RUNNING */

#include <stdbool.h>

/* The states; WORKER_STATES is their number. */
enum worker_state {
    WORKER_NONE,
    WORKER_FETCHING,  /* bulk fetches the code, then the checkpoint */
    WORKER_UNPACKING, /* a job makes the worker's directory */
    WORKER_INSTALLING, /* a process makes the packages ready */
    WORKER_READY,     /* the directory is ready; the core decides about the start */
    WORKER_SPAWNING,  /* a job lets shoal-keep start the program */
    WORKER_RUNNING,   /* until the process is gone and its end is taken */
    WORKER_STATES
};

/* Whether the table allows the move. */
bool worker_state_may(enum worker_state from, enum worker_state to);

#endif
