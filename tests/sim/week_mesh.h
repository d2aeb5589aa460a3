#ifndef TESTS_SIM_WEEK_MESH_H
#define TESTS_SIM_WEEK_MESH_H
/* The state of a simulated week while it runs: for week_run.c, which moves the clock, and week_orders.c, which decides. */

#include "base/random.h"
#include "tests/sim/week.h"

enum {
    WEEK_NO_TRIAL = UINT32_MAX,
    WEEK_GRACE_S = 60,        /* a trial that does not save in this time loses what came after its last checkpoint */
    WEEK_RESTART_S = 30,      /* from a start to the first new step, if the trial has run before */
    WEEK_CHECKPOINT_S = 600,
    WEEK_BIDS_MAX = 64,
    WEEK_SIDES = 2,
    WEEK_PUBLISH_S = 60,      /* so old are usage and deficits at most when they are compared */
    WEEK_WHOLE = WEEK_SIDES, /* the view of the whole mesh, which both sides have without a cut */
};

enum week_phase { WEEK_WAITS, WEEK_RUNS, WEEK_LEAVES, WEEK_DONE };

struct week_job {
    enum week_phase phase;
    uint32_t slots[WEEK_GANG_MAX];
    uint32_t begun_s, end_s;  /* RUNS: this start, and when its work will be done */
    uint32_t leave_s;         /* LEAVES: when it has saved */
    uint32_t bidder;          /* LEAVES: the trial that its slots are for */
    uint32_t lent_to;         /* RUNS: it was started while this trial's bid waited */
    uint32_t restart_s;       /* of this start */
    double left_s, speed;     /* work left at this start */
    uint32_t asked_s[2];      /* when the order last asked it to leave, the later one first; 0: never */
    bool was_asked_by_order;
};

struct week_bid {
    uint32_t trial, side, go_s;
    bool is_go;
};

/* What one side knows of a user. */
struct week_view {
    double usage[WEEK_USERS_MAX];    /* decayed slot-seconds, weighted by the speed of the slots */
    double deficit[WEEK_USERS_MAX];  /* decayed slot-seconds */
    double entitled[WEEK_USERS_MAX]; /* slots, now */
};

/* A user that has nothing running. */
struct week_wait {
    bool is_on;
    uint32_t since_s, longest_s;
};

struct week_mesh {
    const struct week_world *world;
    const struct week_policy *policy;
    struct week_result *result;
    uint32_t now_s, next_trial, next_change;
    bool is_cut;
    uint32_t heal_s; /* of the last cut; 0: none */
    bool is_withheld[WEEK_NODES_MAX], is_dead[WEEK_NODES_MAX];
    uint32_t victim_s[WEEK_NODES_MAX];     /* when a trial of this node was last asked to leave */
    uint32_t occupant[WEEK_SLOTS_MAX];     /* trial or WEEK_NO_TRIAL */
    uint32_t preferred[WEEK_SLOTS_MAX];    /* slots in the order in which they are given out */
    struct week_job *jobs;
    uint32_t *waiting, waiting_count;      /* trials in the order of their submission */
    uint32_t waiting_slots[WEEK_USERS_MAX], waiting_narrow[WEEK_USERS_MAX]; /* slots wanted; trials of one slot */
    uint32_t running_slots[WEEK_WHOLE + 1][WEEK_USERS_MAX]; /* occupied, of each side and of both */
    struct week_view views[WEEK_WHOLE + 1];
    struct week_view known[WEEK_WHOLE + 1]; /* usage and deficit as published last */
    uint32_t known_s;
    struct random random; /* of the errors of what is known */
    struct week_bid bids[WEEK_BIDS_MAX];
    uint32_t bid_count;
    uint32_t planned_s; /* when the backfill last planned */
    struct week_wait waits[WEEK_USERS_MAX], narrow_waits[WEEK_USERS_MAX];
    double occupied_s, wanted_s, lost_s;
    uint32_t preempted, evicted;
    struct week_trial_result *trials;
};

/* Whether the slot is on this side; each is of WEEK_WHOLE. */
bool week_is_on(const struct week_mesh *mesh, uint32_t slot, uint32_t side);

/* Free slots of a side. */
uint32_t week_free(const struct week_mesh *mesh, uint32_t side);

/* Starts a waiting trial; it must fit. */
void week_start(struct week_mesh *mesh, uint32_t trial, uint32_t side, uint32_t lent_to);

/* Asks a running trial to leave, for the order's sake. */
void week_ask(struct week_mesh *mesh, uint32_t trial, uint32_t bidder);

/* Starts what the policy wants to start and asks those to leave that have to go. */
void week_decide(struct week_mesh *mesh);

#endif
