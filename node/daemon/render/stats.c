#include "node/daemon/render/stats.h"

#include <string.h>

#include "node/daemon/render/experiment.h"
#include "node/daemon/render/put.h"
#include "node/daemon/render/rows.h"

static void put_double(msgpack_packer *packer, const char *key, double value)
{
    render_put_string(packer, key);
    (void)msgpack_pack_double(packer, value);
}

static void put_known(msgpack_packer *packer, const char *key, uint64_t value)
{
    render_put_string(packer, key);
    if (value == RENDER_STATS_UNKNOWN) {
        (void)msgpack_pack_nil(packer);
    } else {
        (void)msgpack_pack_uint64(packer, value);
    }
}

/* ---- experiments ----------------------------------------------------------------------------------------------- */

#define EXPERIMENT_STATES (VIEW_FAILED + 1)

static void put_experiments(const struct node_core *core, msgpack_packer *packer)
{
    uint64_t states[EXPERIMENT_STATES] = {0}, coordinated = 0;
    struct {
        uint64_t queued, paused, cancelled, running, completed, failed, stopped;
    } trials = {0};
    for (uint32_t i = 0; i < node_core_view(core)->experiment_count; i++) {
        const struct view_experiment *experiment = node_core_view(core)->experiments[i];
        if (!experiment->known) {
            continue;
        }
        node_id coordinator;
        uint64_t term;
        states[view_experiment_state(experiment)]++;
        coordinated += view_experiment_live(experiment) && render_coordinator(core, experiment, &coordinator, &term) &&
                       node_id_equal(coordinator, node_core_self(core));
        struct render_trial_counts counts = render_count_trials(experiment);
        trials.queued += counts.queued;
        trials.paused += counts.paused;
        trials.cancelled += counts.cancelled;
        trials.running += counts.running;
        trials.completed += counts.completed;
        trials.failed += counts.failed;
        trials.stopped += counts.stopped;
    }
    render_put_string(packer, "experiments");
    (void)msgpack_pack_map(packer, EXPERIMENT_STATES);
    for (uint32_t state = 0; state < EXPERIMENT_STATES; state++) {
        render_put_u64(packer, view_experiment_state_name((enum view_experiment_state)state), states[state]);
    }
    render_put_string(packer, "trials");
    (void)msgpack_pack_map(packer, 7);
    render_put_u64(packer, "queued", trials.queued);
    render_put_u64(packer, "paused", trials.paused);
    render_put_u64(packer, "cancelled", trials.cancelled);
    render_put_u64(packer, "running", trials.running);
    render_put_u64(packer, "completed", trials.completed);
    render_put_u64(packer, "failed", trials.failed);
    render_put_u64(packer, "stopped", trials.stopped);
    render_put_u64(packer, "coordinated", coordinated);
}

/* ---- what was counted ------------------------------------------------------------------------------------------ */

static void put_histogram(msgpack_packer *packer, const char *key, const struct tally_histogram *histogram)
{
    render_put_string(packer, key);
    (void)msgpack_pack_map(packer, 3);
    render_put_string(packer, "bounds");
    (void)msgpack_pack_array(packer, histogram->count);
    for (uint32_t i = 0; i < histogram->count; i++) {
        (void)msgpack_pack_double(packer, histogram->bounds[i]);
    }
    render_put_string(packer, "counts");
    (void)msgpack_pack_array(packer, histogram->count + 1);
    for (uint32_t i = 0; i <= histogram->count; i++) {
        (void)msgpack_pack_uint64(packer, histogram->in[i]);
    }
    put_double(packer, "sum", histogram->sum);
}

static void put_tally(const struct tally *tally, uint64_t now_ms, msgpack_packer *packer)
{
    put_histogram(packer, "queue_wait_s", &tally->queue_wait_s);
    put_histogram(packer, "checkpoint_bytes", &tally->checkpoint_bytes);
    put_histogram(packer, "checkpoint_s", &tally->checkpoint_s);
    render_put_u64(packer, "checkpoints_durable", tally->durable);
    put_double(packer, "checkpoint_waiting_s", (double)tally_waiting_ms(tally, now_ms) / 1000);
    render_put_string(packer, "restarts");
    (void)msgpack_pack_map(packer, FACT_REASONS);
    for (uint32_t reason = 0; reason < FACT_REASONS; reason++) {
        render_put_u64(packer, fact_reason_name((enum fact_reason)reason), tally->restarts[reason]);
    }
    render_put_string(packer, "slot_s");
    (void)msgpack_pack_map(packer, 2);
    put_double(packer, "cpu", (double)tally->slot_ms[FACT_SLOT_CPU] / 1000);
    put_double(packer, "cuda", (double)tally->slot_ms[FACT_SLOT_CUDA] / 1000);
}

static void put_running(const struct node_core *core, const struct tally *tally, msgpack_packer *packer)
{
    render_put_u64(packer, "running_dropped", tally->trials_dropped);
    render_put_string(packer, "running");
    (void)msgpack_pack_array(packer, tally->trial_count);
    for (uint32_t i = 0; i < tally->trial_count; i++) {
        const struct tally_trial *trial = &tally->trials[i];
        const struct view_experiment *experiment = view_find_experiment(node_core_view(core), trial->experiment);
        (void)msgpack_pack_map(packer, 5);
        render_put_string(packer, "experiment");
        render_put_experiment_id(packer, trial->experiment);
        render_put_text(packer, "name", experiment != NULL && experiment->known ? experiment->config->name : "");
        render_put_u64(packer, "trial", trial->trial);
        render_put_u64(packer, "steps", trial->steps);
        put_double(packer, "step_s", trial->step_s);
    }
}

/* ---- this node ------------------------------------------------------------------------------------------------- */

static void put_slots(const struct render_stats_extra *extra, msgpack_packer *packer)
{
    render_put_string(packer, "own_slots");
    (void)msgpack_pack_array(packer, extra->slot_count);
    for (uint32_t i = 0; i < extra->slot_count; i++) {
        const struct render_stats_slot *slot = &extra->slots[i];
        (void)msgpack_pack_map(packer, 13);
        render_put_u64(packer, "index", i);
        render_put_text(packer, "kind", slot->is_gpu ? "cuda" : "cpu");
        render_put_text(packer, "uuid", slot->uuid);
        render_put_text(packer, "model", slot->model);
        put_known(packer, "cpu_permille", slot->cpu_permille);
        put_known(packer, "memory_bytes", slot->worker_bytes);
        put_known(packer, "gpu_percent", slot->gpu_percent);
        put_known(packer, "gpu_memory_bytes", slot->gpu_used_bytes);
        put_known(packer, "gpu_memory_total_bytes", slot->is_gpu ? slot->memory_bytes : RENDER_STATS_UNKNOWN);
        put_known(packer, "gpu_celsius", slot->celsius);
        put_known(packer, "gpu_milliwatts", slot->milliwatts);
        put_known(packer, "gpu_millijoules", slot->millijoules);
        put_known(packer, "gpu_errors", slot->is_gpu ? slot->errors : RENDER_STATS_UNKNOWN);
    }
}

static void put_links(const struct node_core *core, const struct render_stats_extra *extra, msgpack_packer *packer)
{
    render_put_string(packer, "links");
    (void)msgpack_pack_array(packer, extra->link_count);
    for (uint32_t i = 0; i < extra->link_count; i++) {
        const struct render_stats_link *link = &extra->links[i];
        (void)msgpack_pack_map(packer, 5);
        render_put_string(packer, "node");
        render_put_node_id(packer, link->node);
        render_put_text(packer, "label", render_node_label(core, link->node).text);
        render_put_u64(packer, "sent_bytes", link->sent_bytes);
        render_put_u64(packer, "received_bytes", link->received_bytes);
        put_known(packer, "round_trip_us", link->round_trip_us != 0 ? link->round_trip_us : RENDER_STATS_UNKNOWN);
    }
}

static void put_process(const struct render_stats_process *process, msgpack_packer *packer)
{
    render_put_string(packer, "process");
    (void)msgpack_pack_map(packer, 6);
    put_double(packer, "cpu_s", process->cpu_s);
    render_put_u64(packer, "resident_bytes", process->resident_bytes);
    render_put_u64(packer, "virtual_bytes", process->virtual_bytes);
    render_put_u64(packer, "started_s", process->started_s);
    render_put_u64(packer, "descriptors", process->descriptors);
    render_put_u64(packer, "descriptors_max", process->descriptors_max);
}

void render_stats(const struct node_core *core, const struct render_stats_extra *extra, struct pack_writer *frame)
{
    struct node_counters counters;
    node_core_counters(core, &counters);
    msgpack_packer packer = render_packer(frame);
    render_put_u64(&packer, "protocol", extra->protocol);
    render_mesh_counts(core, frame);
    put_experiments(core, &packer);
    put_tally(extra->tally, extra->now_ms, &packer);
    render_put_string(&packer, "repairs");
    (void)msgpack_pack_map(&packer, 2);
    render_put_u64(&packer, "rot", extra->chunks_restored);
    render_put_u64(&packer, "holder", counters.copies_repaired);
    put_slots(extra, &packer);
    put_links(core, extra, &packer);
    put_running(core, extra->tally, &packer);
    put_process(&extra->process, &packer);
}
