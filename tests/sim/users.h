#ifndef TESTS_SIM_USERS_H
#define TESTS_SIM_USERS_H
/* People who submit, cancel, pause, resume, delete, stop and retry single trials, and ask for further ones at whatever node is up, and try again until somebody says that it is done;
 * and the oracle, which remembers what was acknowledged and on whose disks it was then. */

#include <stdbool.h>
#include <stdint.h>

#include "gossip/record.h"
#include "tests/sim/plan.h"

#define USERS_REQUESTS_MAX 64
#define USERS_PATIENCE_MS 12000

struct sim;
struct sim_event;
struct node_effect;

struct users_promise {
    bool is_acknowledged;
    uint64_t asked_ms, at_ms; /* of the request that was; when it was */
    uint32_t stored_on;
    uint32_t disks; /* bits: who had it on disk when it was acknowledged */
};

/* The pause or resume that was acknowledged last. */
struct users_control {
    struct users_promise promise; /* disks: with this version or a newer one of its writer */
    bool pauses;
    uint32_t number; /* it was the so many-th that a node wrote */
    uint64_t lamport;
    node_id writer;
    record_ident ident;
    struct record_version version;
};

/* The stop or retry of a trial that was acknowledged last. */
struct users_stop {
    struct users_promise promise; /* disks: with a record of that clock or a higher one */
    bool stops;
    uint64_t lamport; /* of the trial's register where it was asked, right then */
};

struct users_experiment {
    struct users_promise submitted, cancelled, deleted, extended;
    struct users_stop stopped[PLAN_TRIALS_MAX];
    uint32_t retried[PLAN_TRIALS_MAX]; /* how often a retry was acknowledged */
    uint64_t retried_ms;               /* when a retry of any of its trials, or further ones, were asked for last; 0: never */
    struct users_control control;
    uint32_t controls; /* pauses and resumes that some node wrote, acknowledged or not */
};

struct users_request {
    uint64_t client; /* 0: free */
    uint64_t asked_ms;
    uint8_t experiment, kind, node;
    uint8_t trial; /* STOP, RETRY */
    uint32_t control; /* PAUSE, RESUME: see struct users_control */
    uint64_t lamport; /* STOP, RETRY: see struct users_stop */
};

struct users {
    uint64_t clients;
    struct users_request requests[USERS_REQUESTS_MAX];
    struct users_experiment experiments[PLAN_EXPERIMENTS_MAX];
};

void users_init(struct sim *sim);
void users_act(struct sim *sim, struct sim_event *event);
void users_wait_over(struct sim *sim, struct sim_event *event);
void users_reply(struct sim *sim, int node, const struct node_effect *effect);
void users_heal(struct sim *sim); /* resumes what they paused */

/* Now and then, after the heal: pauses a search whose program was given up, so that it is tried once more when it is resumed. */
void users_look(struct sim *sim, struct sim_event *event);

#endif
