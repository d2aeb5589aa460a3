#ifndef TESTS_SIM_WORKERS_H
#define TESTS_SIM_WORKERS_H
/* Processes on slots, and the groups that they form.
 *
 * A process lives on under its keep while the daemon is down, for the lease's time. A group makes a step only while all
 * of its ranks live, reach each other and have been told the group. Rank 0 reports and saves; after the last step all
 * ranks end with status 0. */

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "gossip/lease.h"
#include "gossip/message.h"
#include "node/core/facts/facts.h"
#include "tests/sim/plan.h"

#define WORKERS_GROUPS_MAX 64
#define WORKERS_ECHO_STATUS 2 /* of a rank that ends because another did */
#define WORKERS_KEEP_MS LEASE_MS
#define WORKERS_FETCH_MS 10000 /* after which a blob that nobody reachable holds is given up */

struct sim;
struct sim_event;
struct node_effect;

struct worker_process {
    bool is_alive;
    bool is_listening, is_stopping, is_killed;
    bool is_lost; /* its keep is gone or is ending it: no daemon can adopt it */
    uint32_t serial;
    attempt_id attempt;
    uint32_t number, rank, size, port;
    uint32_t generation; /* of the group that it was told; 0: none yet. Stored plus one. */
    uint8_t group_key[MESSAGE_KEY_BYTES];
    lease_token token;
    uint64_t draw; /* as SPAWN gave it */
    uint64_t dies_ms; /* 0: not dying */
    uint64_t hung_until_ms; /* it lives, and does nothing */
    bool hangs;             /* ... for ever */
    uint32_t group;   /* index */
    uint32_t experiment;
    /* A program that can change its group (tests/sim/groups.h); the group above is then none. */
    bool output_waits; /* copies of its last output are under way */
    uint64_t output_sequence; /* of the last output whose copies were made */
    bool is_elastic, waits, has_state;
    uint64_t applied, spawn_step;
    uint32_t elastic_serial;  /* of the group that it is in; 0: none */
    uint32_t last_generation; /* that it was in */
};

/* How a process ended while no daemon was there to hear it. */
struct worker_report {
    bool is_waiting;
    attempt_id attempt;
    int32_t code;
    bool is_killed, is_stopping;
};

struct worker_group {
    bool is_used, is_stepping, is_done;
    uint32_t serial;
    attempt_id attempt;
    uint8_t key[MESSAGE_KEY_BYTES];
    uint32_t experiment; /* index in the plan */
    uint32_t size, live;
    struct {
        bool is_set;
        uint8_t node, slot;
        uint32_t serial;
    } ranks[PLAN_NODES_MAX * PLAN_SLOTS_MAX];
    uint64_t step;
    uint64_t hang_step; /* after which a rank hangs or ends by itself; 0: never */
    uint64_t hung_ms;   /* when it did; 0: it has not */
    uint32_t hang_rank;
    bool ends_quietly;  /* the rank ends with status 0 */
};

struct workers {
    struct worker_group groups[WORKERS_GROUPS_MAX];
    uint32_t serial;
};

struct workers_prepare {
    attempt_id attempt;
    hash256 code, checkpoint;
    uint32_t number, size;
    uint32_t beginning_count;
    struct fact_beginning beginnings[PLAN_NODES_MAX * PLAN_SLOTS_MAX];
    uint32_t life;
    uint64_t until_ms;
};

struct workers_exit {
    attempt_id attempt;
    int32_t code;
    bool is_killed, is_stopping;
    uint32_t life; /* 0: of a process, whoever the daemon is now */
};

struct workers_save {
    attempt_id attempt;
    uint64_t step;
    struct fact_part_key part; /* count 0: the whole checkpoint */
};

/* Effects of a node. */
void workers_prepare(struct sim *sim, int node, const struct node_effect *effect);
void workers_spawn(struct sim *sim, int node, const struct node_effect *effect);
void workers_kill(struct sim *sim, int node, const struct node_effect *effect);
void workers_stop(struct sim *sim, int node, const struct node_effect *effect);
void workers_group(struct sim *sim, int node, const struct node_effect *effect);
void workers_leave(struct sim *sim, int node, const struct node_effect *effect);

/* Of the process in a slot: it waits for its next group; it ends by itself; it reports; it saves. */
void workers_wait(struct sim *sim, int node, uint32_t slot);
void workers_end(struct sim *sim, int node, uint32_t slot, uint64_t delay_ms);
void workers_report(struct sim *sim, int node, uint32_t slot, uint64_t step);
void workers_save(struct sim *sim, int node, uint32_t slot, uint64_t step);

/* The process saves its rank's part of the group's checkpoint. `serial`: of the group; a group saves a step once. */
void workers_save_part(struct sim *sim, int node, uint32_t slot, uint64_t step, uint64_t serial, uint32_t rank, uint32_t size);

/* When the step of an experiment that begins now is over there: later in a slot that is slow. The heal ends that too. */
uint64_t workers_step_ends_ms(const struct sim *sim, uint32_t experiment, int node, uint32_t slot);

/* What a trial of a search has reached at a step: any number, now and then none. */
double workers_metric(uint32_t trial, uint64_t step);

/* Every event of the queue that is about processes or groups. */
void workers_event(struct sim *sim, struct sim_event *event);

/* The daemon or the whole machine has gone; a daemon is about to start (adopts), has started (tells of the ends). */
void workers_daemon_down(struct sim *sim, int node);
void workers_host_down(struct sim *sim, int node);
void workers_adopt(struct sim *sim, int node);

/* Version 12: fails if an attempt with a rank that hangs outlives its time by much (DESIGN 13, 8). */
void workers_check_hung(struct sim *sim);
void workers_daemon_up(struct sim *sim, int node);

#endif
