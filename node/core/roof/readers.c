/* The readers that node/core/core.h declares: only through these functions the shell reads the inside of the core. */

#include "base/check.h"
#include "node/core/coordinator/custom.h"
#include "node/core/coordinator/placing.h"
#include "node/core/coordinator/waiting.h"
#include "node/core/copies/checkpoints.h"
#include "node/core/copies/outputs.h"
#include "node/core/members/clocks.h"
#include "node/core/members/quarantine.h"
#include "node/core/members/twin.h"
#include "node/core/members/versions.h"
#include "node/core/owner/owner.h"
#include "node/core/owner/slots.h"
#include "node/core/requests/members.h"
#include "node/core/requests/secrets.h"
#include "node/core/requests/tokens.h"
#include "node/core/requests/webhooks.h"
#include "node/core/requests/trials.h"
#include "node/core/view/retention.h"

const struct view *node_core_view(const struct node_core *core)
{
    return &core->view;
}

const struct records *node_core_records(const struct node_core *core)
{
    return &core->records;
}

const struct lease *node_core_lease(const struct node_core *core)
{
    return &core->owner->lease;
}

node_id node_core_self(const struct node_core *core)
{
    return core->options.self;
}

mesh_id node_core_mesh(const struct node_core *core)
{
    return core->options.mesh;
}

const struct fact_node *node_core_own_fact(const struct node_core *core)
{
    return &core->options.node;
}

const struct fact_addresses *node_core_own_addresses(const struct node_core *core)
{
    return &core->options.addresses.announced;
}

void node_core_host(const struct node_core *core, const attempt_id *attempt, char *out, size_t size)
{
    owner_host(core, attempt, out, size);
}

uint64_t node_core_wall_s(const struct node_core *core)
{
    return core->wall_s;
}

uint64_t node_core_mesh_wall_s(const struct node_core *core)
{
    return core_mesh_wall_s(core);
}

bool node_core_clock_ahead_s(const struct node_core *core, node_id node, int64_t *ahead_s)
{
    return core_clock_ahead_s(core, node, ahead_s);
}

bool node_core_is_syncing(const struct node_core *core)
{
    return core->members->syncing;
}

bool node_core_is_out(const struct node_core *core)
{
    return core->is_out;
}

bool node_core_is_disk_full(const struct node_core *core)
{
    return core->disk_full;
}

bool node_core_is_memory_short(const struct node_core *core)
{
    return core->memory.is_short;
}

void node_core_counters(const struct node_core *core, struct node_counters *out)
{
    *out = (struct node_counters){.malformed = core->counters.malformed + core->view.malformed_count,
                                  .strangers = core->counters.strangers,
                                  .equivocations = core->counters.equivocations,
                                  .stale_claims = core->counters.stale_refused,
                                  .jumps = core->view.jump_count,
                                  .full = core->counters.full,
                                  .copies_repaired = core->counters.copies_repaired};
}

/* ---- other nodes ------------------------------------------------------------------------------------------------ */

uint32_t node_core_peer_count(const struct node_core *core)
{
    return core->members->peer_count;
}

static struct node_peer peer_of(const struct core_peer *peer)
{
    return (struct node_peer){.id = peer->id, .state = peer->state, .address = peer->address};
}

struct node_peer node_core_peer(const struct node_core *core, uint32_t place)
{
    CHECK(place < core->members->peer_count);
    return peer_of(core->members->peers[place]);
}

bool node_core_find_peer(const struct node_core *core, node_id node, struct node_peer *out)
{
    const struct core_peer *peer = core_find_peer(core, node);
    if (peer != NULL) {
        *out = peer_of(peer);
    }
    return peer != NULL;
}

bool node_core_is_alive(const struct node_core *core, node_id node)
{
    return core_node_alive(core, node);
}

uint32_t node_core_peers_alive(const struct node_core *core)
{
    uint32_t alive = 0;
    for (uint32_t i = 0; i < core->members->peer_count; i++) {
        alive += core_node_alive(core, core->members->peers[i]->id);
    }
    return alive;
}

bool node_core_is_drained(const struct node_core *core, node_id node)
{
    return core_node_drained(core, node);
}

struct version_range node_core_versions(const struct node_core *core, node_id node)
{
    return core_node_versions(core, node);
}

bool node_core_speaks(const struct node_core *core, node_id node)
{
    return core_node_speaks(core, node);
}

bool node_core_twin(const struct node_core *core, struct node_twin *out)
{
    bool is_found = core->twin->life != 0;
    if (is_found) {
        *out = (struct node_twin){.address = core->twin->address, .is_yielding = core_twin_yields(core->twin)};
    }
    return is_found;
}

/* ---- experiments ------------------------------------------------------------------------------------------------- */

bool node_core_highest_claim(const struct node_core *core, experiment_id experiment, struct election_claim *claim,
                             bool *released)
{
    const struct core_coordination *coordination = core_find_coordination(core, experiment);
    if (coordination == NULL || coordination->election.highest.term == 0) {
        return false;
    }
    *claim = coordination->election.highest;
    *released = coordination->election.highest_released;
    return true;
}

bool node_core_secret_due(const struct node_core *core, struct node_secret_due *out)
{
    return requests_secret_due(core, out);
}

bool node_core_webhook_due(struct node_core *core, struct node_webhook_due *out)
{
    return requests_webhook_due(core, out);
}

bool node_core_webhook(const struct node_core *core, experiment_id experiment, uint32_t index, uint8_t id[FACT_HOOK_BYTES],
                       struct config_webhook *out)
{
    return requests_find_webhook(core, experiment, index, id, out);
}

bool node_core_find_door_token(const struct node_core *core, const uint8_t hash[HASH_BYTES], struct fact_token *out)
{
    return core_find_door_token(core, hash, out);
}

bool node_core_invite_is_valid(const struct node_core *core, const uint8_t invite_key[PUBLIC_KEY_BYTES])
{
    return core_invite_is_valid(core, invite_key);
}

uint32_t node_core_outputs(const struct node_core *core, const struct view_experiment *experiment,
                           const struct view_trial *trial, const struct view_output *out[FACT_OUTPUTS_MAX])
{
    return core_outputs_choose(core, experiment, trial, out);
}

uint32_t node_core_output_holders(const struct node_core *core, const struct view_trial *trial, const struct view_output *output,
                                  node_id out[FACT_HOLDERS_MAX])
{
    return core_outputs_holders(core, trial, output, out);
}

bool node_core_keeps_outputs(const struct view_experiment *experiment, const struct view_trial *trial)
{
    return retention_keeps_outputs(experiment) ||
           retention_trial_lives(experiment, trial, view_experiment_over(experiment));
}

uint64_t node_core_output_sequence(const struct node_core *core, const attempt_id *attempt)
{
    return core_outputs_sequence(core, attempt);
}

bool node_core_output_is_united(const struct node_core *core, const attempt_id *attempt, uint64_t sequence)
{
    return core_outputs_are_united(core, attempt, sequence);
}

const struct view_manifest *node_core_unite_checkpoint(const struct node_core *core, const struct view_manifest *first,
                                                       struct view_manifest *out)
{
    return core_checkpoints_unite(core, first, out);
}

bool node_core_next_checkpoint(const struct node_core *core, const struct view_manifest **row, struct view_manifest *out)
{
    return core_checkpoints_next(core, row, out);
}

bool node_core_part(const struct node_core *core, const struct view_set *set, uint32_t part, struct view_manifest *out)
{
    const struct view_manifest *first = view_set_part(set, part);
    if (first != NULL) {
        (void)core_checkpoints_unite(core, first, out);
    }
    return first != NULL;
}

const struct view_member *node_core_lacks_parts(const struct node_core *core)
{
    return requests_find_unable(core, FACT_READS_PARTS);
}

bool node_core_waiting_reason(const struct node_core *core, const struct view_experiment *experiment, uint32_t trial, char *out,
                              size_t size)
{
    return waiting_reason(core, experiment, trial, out, size);
}

bool node_core_search_trouble(const struct view_experiment *experiment, char *out, size_t size)
{
    return experiment->is_custom && !view_experiment_over(experiment) && custom_reason(experiment, out, size);
}

bool node_core_is_halted(const struct node_core *core, const struct view_experiment *experiment)
{
    const struct view_searcher *row = experiment->is_custom ? view_custom_searcher(experiment) : NULL;
    bool is_halted = row != NULL && row->fact.is_given_up && core_node_alive(core, row->writer) &&
                     !view_experiment_paused(experiment) && !view_experiment_over(experiment);
    for (uint32_t t = 0; t < experiment->trial_count && is_halted; t++) {
        is_halted = !view_custom_is_created(experiment, t) || view_trial_over(view_trial_state(experiment, t));
    }
    return is_halted;
}

bool node_core_quarantine_reason(const struct node_core *core, const struct view_trial *trial, enum config_retry retry, char *out,
                                 size_t size)
{
    return core_quarantine_reason(core, trial, retry, out, size);
}

/* ---- workers here ------------------------------------------------------------------------------------------------ */

bool node_core_is_prepared(const struct node_core *core, uint32_t slot, const attempt_id *attempt)
{
    CHECK(slot < LEASE_SLOTS_MAX);
    const struct core_worker *worker = &core->owner->workers[slot];
    return worker->phase == CORE_WORKER_PREPARED && attempt_id_equal(&worker->attempt, attempt);
}

bool node_core_is_dropped(const struct node_core *core, uint32_t slot, const attempt_id *attempt)
{
    CHECK(slot < LEASE_SLOTS_MAX);
    const struct core_worker *worker = &core->owner->workers[slot];
    return worker->phase == CORE_WORKER_DROPPED && attempt_id_equal(&worker->attempt, attempt);
}

struct node_progress node_core_progress(const struct node_core *core, uint32_t slot)
{
    CHECK(slot < LEASE_SLOTS_MAX);
    const struct core_worker *worker = &core->owner->workers[slot];
    return (struct node_progress){.generation = worker->generation,
                                  .step = worker->step,
                                  .metrics = worker->metrics,
                                  .metrics_bytes = worker->metrics_bytes};
}

bool node_core_end_is_unwritten(const struct node_core *core, const attempt_id *attempt, uint32_t number)
{
    for (uint32_t slot = 0; slot < core->owner->lease.count; slot++) {
        const struct core_worker *worker = &core->owner->workers[slot];
        if (worker->phase == CORE_WORKER_GONE && worker->number == number && attempt_id_equal(&worker->attempt, attempt)) {
            return true; /* there was no memory for the record */
        }
    }
    struct fact_key key = fact_key_worker(attempt, number);
    const struct records_entry *entry =
        records_find(&core->records, record_ident_of(core->options.self, FACT_WORKER, key.bytes, key.count));
    struct fact_worker fact;
    return entry != NULL && !entry->on_disk && fact_worker_read(&entry->record, &fact) == 0 &&
           fact.state == FACT_WORKER_ENDED;
}
