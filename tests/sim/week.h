#ifndef TESTS_SIM_WEEK_H
#define TESTS_SIM_WEEK_H
/* A simulated week of a lab: users submit trials, owners of machines come and go, nodes die, a network is cut in two. The same
 * world is run by several orders (first come first served, a central scheduler with fair share, ...) and measured alike: what
 * each user got of the slots it was entitled to. Nothing here is the node core; orders are compared, no message is sent.
 *
 * Terms:
 *   work        seconds that a trial runs on a slot of speed 1, until it completes, fails or is cancelled
 *   demand      slots of all trials of a user that run or wait
 *   entitled    a user's part when the slots on offer are shared max-min by the demands of this moment
 *   deficit     entitled slot-seconds less those that the user got, decayed
 *   leaving     a trial was asked to leave and saves; its slots are occupied until then
 *   bid         the wish of a trial for which too few slots are free: asked, or go (its victims are leaving, its slots are held) */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WEEK_USERS_MAX = 12,
    WEEK_NODES_MAX = 24,
    WEEK_SLOTS_MAX = 40,
    WEEK_GANG_MAX = 8,
    WEEK_DAYS = 7,
    WEEK_DAY_S = 86400,
    WEEK_TRIALS_MAX = 1 << 16,
    WEEK_CHANGES_MAX = 1 << 13,
    WEEK_GROUPS_MAX = 1 << 13, /* experiments that run or wait at one time */
};

/* ---- the world --------------------------------------------------------------------------------------------------- */

struct week_trial {
    uint32_t submit_s, user, experiment, width, priority;
    uint32_t work_s;
    uint32_t limit_s; /* what its user says that it takes at most, on the slowest slot */
    uint32_t save_s;
    bool is_fixed; /* `preemptible: no`: the order never asks it to leave */
};

enum week_change_kind {
    WEEK_OWNER_COMES, /* the node's slots are withheld */
    WEEK_OWNER_GOES,
    WEEK_NODE_DIES,
    WEEK_NODE_RETURNS,
    WEEK_CUT,
    WEEK_HEAL,
};

struct week_change {
    uint32_t at_s;
    enum week_change_kind kind;
    uint32_t node; /* not of CUT and HEAL */
};

struct week_world {
    uint32_t user_count, node_count, slot_count, end_s;
    uint32_t slot_node[WEEK_SLOTS_MAX];
    double node_speed[WEEK_NODES_MAX];
    bool node_owned[WEEK_NODES_MAX]; /* an owner works at it */
    uint32_t node_side[WEEK_NODES_MAX];
    struct week_trial trials[WEEK_TRIALS_MAX]; /* in the order of submit_s */
    uint32_t trial_count;
    struct week_change changes[WEEK_CHANGES_MAX]; /* in the order of at_s */
    uint32_t change_count;
};

/* Draws 24 nodes with 40 slots, and trials whose work is `load` times what these slots can do in the week; `fixed` of the
 * experiments may not be preempted. With faults, nodes die and a cut parts the mesh for some hours. */
void week_world_draw(struct week_world *world, uint64_t seed, double load, double fixed, bool has_faults);

/* ---- pure parts -------------------------------------------------------------------------------------------------- */

/* Shares `capacity` max-min: nobody gets more than its demand, and what it leaves is shared by the others. */
void week_max_min(const double *demand, uint32_t count, double capacity, double *entitled);

/* Determined's fair share (fair_share.go): whole slots for each group, in rounds by (demand, index); a group that cannot run
 * its smallest task with what it was offered gets nothing, the last such group first. `smallest` 0: any offer is of use. */
void week_determined_offers(const uint32_t *demand, const double *weight, const uint32_t *smallest, uint32_t count,
                            uint32_t capacity, uint32_t *offers);

/* When slots will be free: step i lasts from at_s[i] to at_s[i + 1], the last one for ever. */
struct week_profile {
    uint32_t at_s[4 * WEEK_SLOTS_MAX + 512];
    int32_t free[4 * WEEK_SLOTS_MAX + 512];
    uint32_t count;
};

void week_profile_init(struct week_profile *profile, uint32_t now_s, int32_t free);

/* From at_s on `slots` more (or fewer, if negative) are free. */
void week_profile_add(struct week_profile *profile, uint32_t at_s, int32_t slots);

/* The first moment at which `width` slots are free for `for_s` seconds; UINT32_MAX: never. */
uint32_t week_profile_find(const struct week_profile *profile, uint32_t width, uint32_t for_s);

/* ---- a run of the week ------------------------------------------------------------------------------------------- */

enum week_order {
    WEEK_FIFO,       /* by submission; the first that does not fit stops all behind it */
    WEEK_SLURM,      /* fair tree and age; conservative backfill by limits, each 30 s */
    WEEK_DETERMINED, /* fair share of experiments; preempts what is above its offer */
    WEEK_PRIORITY,   /* (priority, age), passing over what does not fit */
    WEEK_SLOTS,      /* fewest slots running, then least decayed usage */
    WEEK_DEFICIT,    /* largest deficit, seen `horizon_h` ahead */
};

struct week_policy {
    const char *name;
    enum week_order order;
    bool preempts;
    bool is_free;         /* trials leave at once and lose nothing, and no brake holds */
    bool has_bids;        /* a gang that does not fit asks; what starts meanwhile is lent and goes back when it is met */
    double half_life_h;   /* of usage and of the deficit */
    uint32_t exempt_s;    /* not asked to leave so soon after its start, nor within 10 times its save time */
    uint32_t per_hour;    /* a trial is asked to leave at most so often in an hour */
    double over_part;     /* SLOTS: the victim's user is above its entitlement by this part or by over_slots */
    double over_slots;
    double turn_h;        /* SLOTS: a user with so many slot-hours per slot less usage may take over; 0: none does */
    double horizon_h;     /* DEFICIT: hours for which the running slots count as if they ran on */
    double threshold_h;   /* DEFICIT: further slot-hours that a deficit must be larger */
    bool has_floor;       /* a user that has nothing running takes one slot, and gives its last one only to a gang */
    double error_h;       /* known usage and deficits are wrong by up to so many slot-hours, each minute by others */
};

struct week_result {
    double deviation, within, minimum; /* over user-days above 2 slot-hours; of |got / entitled - 1| */
    uint32_t user_days;
    uint32_t longest_wait_s; /* of a user that has nothing running and something waiting */
    uint32_t longest_narrow_wait_s; /* of these waits, and a trial of one slot is among what waits */
    double utilisation;      /* slots occupied of min(slots, demand) */
    double lost;             /* slot-seconds lost to the order's preemptions, of those occupied */
    double preemptions;      /* by the order, a day */
    double evictions;        /* by owners, deaths and cuts, a day */
    uint32_t completed;
    double got_s[WEEK_USERS_MAX][WEEK_DAYS], entitled_s[WEEK_USERS_MAX][WEEK_DAYS];
    uint32_t user_wait_s[WEEK_USERS_MAX];
};

/* Where each trial was at the end, for tests. */
struct week_trial_result {
    bool has_begun, is_done;
    uint32_t first_s, end_s, preempted; /* first start; end; how often the order asked it to leave */
};

/* Runs the world by the policy; `trials` may be NULL. */
void week_run(const struct week_world *world, const struct week_policy *policy, struct week_result *result,
              struct week_trial_result *trials);

#endif
