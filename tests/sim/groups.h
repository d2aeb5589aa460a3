#ifndef TESTS_SIM_GROUPS_H
#define TESTS_SIM_GROUPS_H
/* Groups of workers that change: programs that leave a group when it is broken, wait, and enter the next one with what
 * they have in memory, as those that link libshoal do. A group makes steps while all of its members are in it, live and
 * reach each other. Of a step that a death cuts short each survivor has applied all or nothing. */

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "gossip/message.h"
#include "tests/sim/plan.h"

#define GROUPS_MAX 128
#define GROUPS_RANKS_MAX 16
#define GROUPS_PATIENCE_MS 60000 /* a collective, or a group that forms, in which nothing moves fails by itself */

struct sim;
struct sim_event;
struct node_effect;
struct worker_process;

struct elastic_group {
    bool is_used, is_formed, is_broken, is_done;
    bool is_leaving; /* after the step under way all leave */
    uint32_t serial;
    attempt_id attempt;
    uint32_t generation, experiment, size, entered;
    uint8_t key[MESSAGE_KEY_BYTES];
    struct {
        bool is_in; /* it was told of the group */
        uint8_t node, slot;
        uint32_t serial;
        bool has_state;
    } ranks[GROUPS_RANKS_MAX];
    uint64_t start_step, step; /* the highest that anybody in it has applied */
    uint64_t idle_ms;          /* since when nothing moves */
};

struct groups {
    struct elastic_group all[GROUPS_MAX];
    uint32_t serial;
    uint32_t forgotten; /* groups up to this serial were made before a disk forgot */
};

/* Effects for a process that is elastic. */
void groups_enter(struct sim *sim, int node, struct worker_process *process, const struct node_effect *effect);
void groups_leave(struct sim *sim, int node, uint32_t slot, const struct node_effect *effect);

/* Events. */
void groups_step(struct sim *sim, struct sim_event *event);
void groups_left(struct sim *sim, struct sim_event *event);

/* A disk forgets: names of attempts may be given again (DESIGN 13.7). Of groups that were made before nothing is claimed any
 * more once nobody lives in them. */
void groups_forget(struct sim *sim);

/* The process has died, or was asked to stop: the others notice, if they can. */
void groups_lost(struct sim *sim, int node, uint32_t slot);

/* One that lives, with members in it on two machines if `is_spread`; NULL: there is none. */
struct elastic_group *groups_pick(struct sim *sim, struct random *random, bool is_spread);

/* The process of this rank while it is in the group, or NULL; all are in it, and none is on its way out. */
struct worker_process *groups_member(struct sim *sim, const struct elastic_group *group, uint32_t rank);
bool groups_is_whole(struct sim *sim, const struct elastic_group *group);

#endif
