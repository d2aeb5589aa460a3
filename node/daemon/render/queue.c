#include "node/daemon/render/queue.h"

#include "node/daemon/render/put.h"
#include "node/daemon/render/rows.h"

/* Since when the trial waits: since the end of its last attempt, else since the experiment was submitted. */
static uint64_t waits_since_s(const struct node_core *core, const struct view_experiment *experiment, uint32_t index)
{
    const struct view_trial *trial = view_find_trial(experiment, index);
    uint64_t since_s = experiment->submitted_s;
    for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
        uint64_t ended_s = render_attempt_times(core, a).ended_s;
        since_s = ended_s > since_s ? ended_s : since_s;
    }
    return since_s;
}

static void put_row(const struct node_core *core, const struct view_experiment *experiment, uint32_t trial, uint32_t position,
                    msgpack_packer *packer)
{
    static const char *const kinds[] = {"any", "cpu", "cuda"};
    char reason[NODE_CORE_WAITING_BYTES] = "the trial is about to begin";
    const struct config *config = experiment->config;
    (void)node_core_waiting_reason(core, experiment, trial, reason, sizeof reason);
    (void)msgpack_pack_map(packer, 11);
    render_put_u64(packer, "position", position);
    render_put_string(packer, "experiment");
    render_put_experiment_id(packer, experiment->id);
    render_put_text(packer, "name", config->name);
    render_put_u64(packer, "priority", view_experiment_priority(experiment));
    render_put_text(packer, "kind", kinds[config->slot_kind]);
    render_put_u64(packer, "slots", config->slots_per_trial);
    render_put_u64(packer, "slots_min", config->min_slots);
    render_put_u64(packer, "trials", render_count_trials(experiment).queued);
    render_put_u64(packer, "trial", trial);
    render_put_time(packer, "since_s", waits_since_s(core, experiment, trial));
    render_put_text(packer, "reason", reason);
}

bool render_queue(const struct node_core *core, const struct render_queue *queue, uint32_t *from, struct pack_writer *frame)
{
    msgpack_packer packer = render_packer(frame);
    render_put_string(&packer, "queue");
    struct render_list list = render_list_open(&packer);
    uint32_t i = *from;
    for (; i < queue->count && list.count < RENDER_QUEUE_ROWS; i++) {
        const struct view_experiment *experiment = view_find_experiment(node_core_view(core), queue->entries[i].experiment);
        uint32_t trial = experiment != NULL ? queue_next_trial(experiment) : FACT_NO_TRIAL;
        if (trial == FACT_NO_TRIAL) {
            continue;
        }
        put_row(core, experiment, trial, i + 1, &packer);
        if (!render_list_took_row(&list)) {
            break;
        }
    }
    render_list_close(&list);
    *from = i;
    return i < queue->count;
}
