#ifndef NODE_DAEMON_WORKERS_STALL_H
#define NODE_DAEMON_WORKERS_STALL_H
/* What a worker has lacked for a while: output and progress, processor time, or leave to run (state T). Pure: samples in, a
 * class out. Times are ms of the monotonic clock. */

#include <stdbool.h>
#include <stdint.h>

#include "node/core/facts/facts.h"

#define STALL_SHOWN_MS 300000  /* a worker without output is called silent after so long, or after an option's time if less */
#define STALL_SUSPENDED_MS 3000 /* a stopped process counts after so long: a debugger stops one for a moment */
#define STALL_BUSY_SHARE 50    /* a worker that uses 1/50 of a processor works: threads that only poll use less */

/* The watch of one worker. All zero: it has just started. */
struct worker_stall {
    uint64_t output_ms;    /* of the last output or progress */
    uint64_t busy_ms;      /* when processor time was last seen in use */
    uint64_t suspended_ms; /* since when a process is stopped; 0: none is */
    uint64_t sampled_ms;   /* 0: never */
    uint64_t cpu_ms;       /* processor time of all processes at sampled_ms */
};

struct worker_stall_state {
    enum fact_stall stall;
    uint64_t since_ms;
    bool is_overdue;      /* it has lasted for stall_timeout */
    bool is_past_barrier; /* no output and no progress for exit_barrier */
};

/* The worker has written output, or has reported progress. */
void worker_stall_heard(struct worker_stall *stall, uint64_t now_ms);

/* The worker's processes have used cpu_ms of processor time together so far. The sum may fall when a process ends. */
void worker_stall_sample(struct worker_stall *stall, uint64_t now_ms, uint64_t cpu_ms, bool is_suspended);

/* The class of the worker now. timeout_ms and barrier_ms: the options stall_timeout and exit_barrier, 0: none. Without any
 * sample the worker is active. */
struct worker_stall_state worker_stall_look(const struct worker_stall *stall, uint64_t now_ms, uint64_t timeout_ms, uint64_t barrier_ms);

/* Moves the times by a suspend of the machine or a stop of the daemon. */
void worker_stall_shift(struct worker_stall *stall, uint64_t gap_ms);

#endif
