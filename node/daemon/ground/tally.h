#ifndef NODE_DAEMON_GROUND_TALLY_H
#define NODE_DAEMON_GROUND_TALLY_H
/* What this daemon counts for /metrics since it began: what happened, and which trials work here. Pure: no clock is
 * read. The protocol thread alone uses it. */

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "node/core/facts/facts.h"

#define TALLY_BUCKETS_MAX 12
#define TALLY_TRIALS_MAX 512 /* rows; a trial without a row is not counted */
#define TALLY_SAVES_MAX 8    /* checkpoints of one slot that wait to be durable */
#define TALLY_KEPT_MS 60000  /* for so long after its end a trial is still told of */

/* A histogram with fixed bounds. */
struct tally_histogram {
    const double *bounds; /* ascending, `count` of them; constants of tally.c */
    uint32_t count;
    uint64_t
        in[TALLY_BUCKETS_MAX + 1]; /* values up to bounds[i] and above the bound before; the last: above all bounds */
    double sum;
};

void tally_observe(struct tally_histogram *histogram, double value);

/* A trial whose rank 0 is here, or was up to TALLY_KEPT_MS ago. */
struct tally_trial {
    experiment_id experiment;
    uint32_t trial;
    uint64_t steps;     /* that were made here; steps that are made again after a restart count again */
    uint64_t last_step; /* of the present attempt; only `attempt` gives it a meaning */
    uint32_t attempt;
    uint64_t seen_ms;    /* when rank 0 last ran here */
    uint64_t stepped_ms; /* when last_step was first seen */
    double step_s;       /* seconds of one step of late; 0: not known */
};

/* An attempt that began here, and the step that it began with. */
struct tally_begun {
    attempt_id attempt;
    uint64_t step;
};

/* The checkpoints of a slot's worker that are stored here and not durable yet, the oldest first. */
struct tally_saves {
    attempt_id attempt;
    uint32_t count;
    struct {
        uint64_t step, at_ms;
    } items[TALLY_SAVES_MAX];
};

struct tally {
    struct tally_histogram queue_wait_s, checkpoint_bytes, checkpoint_s;
    uint64_t restarts[FACT_REASONS]; /* attempts that rank 0 of began here, by the end of the one before */
    uint64_t durable;                /* checkpoints that became durable */
    uint64_t slot_ms[2];             /* time in which slots were held by workers, by enum fact_slot_kind */
    uint64_t held_ms[FACT_SLOTS_MAX]; /* up to when the time of the slot's worker is in slot_ms; 0: there is none */
    struct tally_saves saves[FACT_SLOTS_MAX];
    struct tally_begun
        begun[FACT_SLOTS_MAX]; /* all zero: the worker was begun by an earlier daemon, or there is none */
    uint32_t trial_count;
    struct tally_trial trials[TALLY_TRIALS_MAX]; /* by the order in which they came */
    uint64_t trials_dropped;                     /* reports of trials for which there was no row */
};

void tally_init(struct tally *tally);

/* A worker of the slot has stored a checkpoint here. */
void tally_saved(struct tally *tally, uint32_t slot, const attempt_id *attempt, uint64_t step, uint64_t bytes,
                 uint64_t now_ms);

/* A checkpoint of the slot's worker is durable, and so earlier ones of it wait no more. */
void tally_durable(struct tally *tally, uint32_t slot, const attempt_id *attempt, uint64_t step, uint64_t now_ms);

/* The slot has another worker, or none: nothing of earlier ones waits. */
void tally_forget_saves(struct tally *tally, uint32_t slot, const attempt_id *attempt);

/* For how long the oldest checkpoint has been waiting to be durable, in ms; 0: none waits. */
uint64_t tally_waiting_ms(const struct tally *tally, uint64_t now_ms);

/* The attempt begins in this slot with this step: those behind it are made here. */
void tally_trial_begins(struct tally *tally, uint32_t slot, const attempt_id *attempt, uint64_t step);

/* Rank 0 of this attempt runs in this slot, and is at this step. */
void tally_trial_runs(struct tally *tally, uint32_t slot, const attempt_id *attempt, uint64_t step, uint64_t now_ms);

/* A worker of the attempt runs here, whatever its rank: a trial that makes no step is told of, too. */
void tally_trial_lives(struct tally *tally, const attempt_id *attempt, uint64_t now_ms);

/* Drops the trials that ended more than TALLY_KEPT_MS ago. */
void tally_forget_trials(struct tally *tally, uint64_t now_ms);

/* After a suspend: moves all times by the gap. */
void tally_shift(struct tally *tally, uint64_t gap_ms);

#endif
