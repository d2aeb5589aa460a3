#ifndef NODE_DAEMON_RENDER_ROWS_H
#define NODE_DAEMON_RENDER_ROWS_H
/* Parts of the documents about experiments, for the files of this room. */

#include <msgpack.h>

#include "node/daemon/render/experiment.h"
#include "node/daemon/render/render.h"

/* The state of the experiment's trials that neither run nor are over, as users read it: nothing is queued where nothing will
 * begin. */
const char *render_waiting_name(const struct view_experiment *experiment);

/* The state of a trial as users read it: a trial that has reached the last rung of its search has completed, though its record is a stop. */
enum view_trial_state render_trial_state(const struct view_experiment *experiment, uint32_t index);
const char *render_trial_state_name(const struct view_experiment *experiment, const struct view_trial *trial, enum view_trial_state state);

/* The last step that is known of an attempt, and the attempt's state as users read it. */
uint64_t render_attempt_step(const struct view_attempt *attempt);
const char *render_attempt_state(const struct view_attempt *attempt);

/* How many trials of the experiment are in each state, as users read them. */
struct render_trial_counts {
    uint32_t queued, paused, cancelled, running, completed, failed, stopped;
};
struct render_trial_counts render_count_trials(const struct view_experiment *experiment);

/* When the first rank's program began and ended, in seconds since 1970 by its node's clock; 0: not (yet), or not known. */
struct render_times {
    uint64_t started_s, ended_s;
};
struct render_times render_attempt_times(const struct node_core *core, const struct view_attempt *attempt);

/* Writes why the trial is quarantined, else why the shown attempt (NULL: none) ended. False, and `out` unchanged: neither. */
#define RENDER_TRIAL_REASON_BYTES (RENDER_REASON_BYTES + 256)
bool render_trial_reason(const struct node_core *core, const struct view_experiment *experiment, uint32_t index,
                         const struct view_attempt *shown, char out[RENDER_TRIAL_REASON_BYTES]);

/* The state of a slot, by its node's record; of a slot of this node as it is now, with reservations, which no record has. */
struct view_slot render_slot_now(const struct node_core *core, const struct view_member *member, uint32_t slot);

/* A slot that its owner withholds while a worker runs is shown as releasing, though the lease lives until the worker has
 * saved. */
const char *render_slot_state(const struct view_slot *slot);

/* "hours", "activity" or "load": why the owner's policy has taken a slot back; "": it has not. */
const char *render_slot_why(const struct view_member *member, uint32_t slot);

/* Writes one value: the policy of a node's owner, as in render_owner; nil: there is none. */
void render_put_policy(const struct view_member *member, msgpack_packer *packer);

/* Writes one pair: seconds since 1970, nil for 0. */
void render_put_time(msgpack_packer *packer, const char *key, uint64_t seconds);

/* Writes the row of a trial, a map. `config` may be NULL: hyperparameters are nil. */
void render_put_trial(const struct node_core *core, const struct view_experiment *experiment, const struct config *config, uint32_t index,
                      msgpack_packer *packer);

/* Writes an array of maps `first last count reason`: runs of waiting trials with one reason. */
void render_put_waiting(const struct node_core *core, const struct view_experiment *experiment, msgpack_packer *packer);

/* Writes the reason of the first waiting trial, or nil. */
void render_put_first_waiting(const struct node_core *core, const struct view_experiment *experiment, msgpack_packer *packer);

#endif
