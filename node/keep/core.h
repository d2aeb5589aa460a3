#ifndef NODE_KEEP_CORE_H
#define NODE_KEEP_CORE_H
/* When shoal-keep ends what runs below it: the deciding part of node/keep/main.c.
 *
 *     RUNNING --told, lease over, or the worker went by itself--> ASKED --grace over--> ENDING
 *        \______________________ nothing lives below any more ________________________/--> GONE
 *
 * ASKED has sent SIGTERM once; ENDING sends SIGKILL to everything again and again, because a process may fork between
 * the look at /proc and the signal. GONE is reached only by keep_core_none_left: the kernel said that there is no child.
 * Times in ms of a clock that stands still while the machine sleeps; they never decrease. */

#include <stdbool.h>
#include <stdint.h>

#define KEEP_CORE_GRACE_MS 2000       /* for a lease that is over, and for what a worker left behind */
#define KEEP_CORE_GRACE_MS_MAX 3600000
#define KEEP_CORE_KILL_MS_FIRST 10    /* between rounds of SIGKILL: doubles ... */
#define KEEP_CORE_KILL_MS_LAST 500    /* ... up to this, for processes stuck in the kernel */
#define KEEP_CORE_STALL_MS 5000       /* a longer gap between calls is a stall of this process: timers are shifted */

enum keep_reason {
    KEEP_EXITED = 1,      /* the worker ended by itself: code or signal say how */
    KEEP_KILLED = 2,      /* the daemon told it to end; code or signal say how the worker took it */
    KEEP_LEASE = 3,       /* no daemon renewed the lease in time */
    KEEP_NOT_STARTED = 4, /* `text` says why; nothing ran */
};

enum keep_phase { KEEP_RUNNING, KEEP_ASKED, KEEP_ENDING, KEEP_GONE };

enum keep_action {
    KEEP_DO_NOTHING,
    KEEP_DO_TERM, /* SIGTERM to every descendant, once */
    KEEP_DO_KILL, /* SIGKILL to every descendant */
    KEEP_DO_FINISH /* write the status, release the slot, tell the daemon, exit */
};

struct keep_core {
    enum keep_phase phase;
    enum keep_reason reason; /* once the phase is not RUNNING */
    uint64_t now_ms;
    uint64_t lease_ms;
    uint64_t lease_end_ms;
    uint64_t grace_end_ms;
    uint64_t kill_next_ms;
    uint64_t kill_interval_ms;
    bool term_due;
};

/* lease_ms > 0. */
void keep_core_init(struct keep_core *core, uint64_t now_ms, uint64_t lease_ms);

/* A daemon is there. */
void keep_core_heard(struct keep_core *core, uint64_t now_ms);

/* A daemon wants the end. Told again, the earlier end of the grace counts. */
void keep_core_told(struct keep_core *core, uint64_t now_ms, uint64_t grace_ms);

/* The worker itself ended; others may live on below. */
void keep_core_worker_gone(struct keep_core *core, uint64_t now_ms);

/* There is no child left. Only after keep_core_worker_gone. */
void keep_core_none_left(struct keep_core *core);

/* What to do now: one action per call. Read waiting messages first and report them, so that a daemon's word that came
 * while this process was stopped counts before its lease does. */
enum keep_action keep_core_tick(struct keep_core *core, uint64_t now_ms);

/* When to tick next: > now_ms after a tick that did not answer FINISH. */
uint64_t keep_core_next_ms(const struct keep_core *core);

#endif
