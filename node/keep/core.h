#ifndef NODE_KEEP_CORE_H
#define NODE_KEEP_CORE_H
/* Decides when shoal-keep ends the processes below it; node/keep/main.c carries the decisions out. A core.
 *
 *     RUNNING --told, or lease over--> ASKED --the program went, or grace over--> HELPERS --their time over--> ENDING
 *        \________________ the program went by itself _______________________________/ \___ nothing lives below ___/--> GONE
 *
 * ASKED has sent the stop signal to the program once, and nothing to its helpers: the program may need them to save.
 * HELPERS has sent SIGTERM to all processes that are left. ENDING sends SIGKILL to all descendants again and again,
 * because a process may fork between the look at /proc and the signal. A grace of 0 leads to ENDING at once. GONE is
 * reached only by keep_core_none_left: the kernel reported that no child is left. Times are ms of a clock that stands
 * still while the machine sleeps; they never decrease. */

#include <stdbool.h>
#include <stdint.h>

#define KEEP_CORE_GRACE_MS 2000       /* after the end of a lease, and for the processes that a worker left behind */
#define KEEP_CORE_HELPERS_MS 300      /* from SIGTERM to SIGKILL for the helpers of a program that has used its whole grace */
#define KEEP_CORE_GRACE_MS_MAX 3600000 /* the longest grace that a daemon can give: an hour */
#define KEEP_CORE_KILL_MS_FIRST 10    /* the first pause between rounds of SIGKILL; each further pause is twice as long */
#define KEEP_CORE_KILL_MS_LAST 500    /* the longest such pause, for processes stuck in the kernel */
#define KEEP_CORE_STALL_MS 5000       /* a longer gap between calls is a stall of this process, which moves all timers */

/* Why a run ended. */
enum keep_reason {
    KEEP_EXITED = 1,      /* the worker ended by itself: see its code or signal */
    KEEP_KILLED = 2,      /* the daemon ended the worker: its code or signal tells how it reacted */
    KEEP_LEASE = 3,       /* no daemon renewed the lease in time */
    KEEP_NOT_STARTED = 4, /* nothing ran: `text` tells why */
};

/* The states of the drawing above. */
enum keep_phase { KEEP_RUNNING, KEEP_ASKED, KEEP_HELPERS, KEEP_ENDING, KEEP_GONE };

/* What the caller must do. */
enum keep_action {
    KEEP_DO_NOTHING,
    KEEP_DO_ASK,  /* the stop signal to the program, once */
    KEEP_DO_TERM, /* SIGTERM to every descendant, once */
    KEEP_DO_KILL, /* SIGKILL to every descendant */
    KEEP_DO_FINISH /* write the status, release the slot, tell the daemon, exit */
};

/* The state of one run; no pointers. */
struct keep_core {
    enum keep_phase phase;
    enum keep_reason reason; /* valid when the phase is not RUNNING */
    uint64_t now_ms;
    uint64_t lease_ms;
    uint64_t lease_end_ms;
    uint64_t grace_end_ms; /* ASKED: of the program; HELPERS: of the processes that are left */
    uint64_t kill_next_ms;
    uint64_t kill_interval_ms;
    bool signal_due; /* ASKED, HELPERS: the signal of the phase is not sent yet */
};

/* RUNNING, with a lease of lease_ms > 0 from now on. */
void keep_core_init(struct keep_core *core, uint64_t now_ms, uint64_t lease_ms);

/* Renews the lease: a daemon is there. */
void keep_core_heard(struct keep_core *core, uint64_t now_ms);

/* A daemon wants the end. If told again, the earlier end of the grace counts. */
void keep_core_told(struct keep_core *core, uint64_t now_ms, uint64_t grace_ms);

/* The program ended; its descendants may live on. */
void keep_core_worker_gone(struct keep_core *core, uint64_t now_ms);

/* No child is left. Call it only after keep_core_worker_gone. */
void keep_core_none_left(struct keep_core *core);

/* What to do now: one action per call. Read and report waiting messages first, so that a message that came while this
 * process was stopped counts before the end of its lease does. */
enum keep_action keep_core_tick(struct keep_core *core, uint64_t now_ms);

/* When to tick next: later than the last tick's now_ms, unless that tick returned KEEP_DO_FINISH. */
uint64_t keep_core_next_ms(const struct keep_core *core);

#endif
