/* The document about one trial: its row, all its attempts, its checkpoints, and why it is in its state. */

#include "node/daemon/render/experiment.h"
#include "node/daemon/render/put.h"
#include "node/daemon/render/rows.h"
#include "node/daemon/render/why.h"

#define ATTEMPTS_MAX 32 /* the newest: a document has room for them */
#define NODES_MAX 16    /* of one attempt */

static void put_nodes(const struct node_core *core, const struct view_attempt *attempt, msgpack_packer *packer)
{
    struct render_list list = render_list_open(packer);
    for (uint32_t i = 0; attempt->assigned && i < attempt->member_count && list.count < NODES_MAX; i++) {
        bool is_listed = false;
        for (uint32_t k = 0; k < i; k++) {
            is_listed |= node_id_equal(attempt->members[k].node, attempt->members[i].node);
        }
        if (!is_listed) {
            render_put_string(packer, render_node_label(core, attempt->members[i].node).text);
            list.count++;
        }
    }
    render_list_close(&list);
}

static void put_attempt(const struct node_core *core, const struct view_attempt *attempt, msgpack_packer *packer)
{
    char reason[RENDER_REASON_BYTES];
    struct render_times times = render_attempt_times(core, attempt);
    (void)msgpack_pack_map(packer, 9);
    render_put_u64(packer, "attempt", attempt->id.number);
    render_put_text(packer, "state", render_attempt_state(attempt));
    render_put_u64(packer, "start_step", attempt->start_step);
    render_put_u64(packer, "step", render_attempt_step(attempt));
    render_put_u64(packer, "workers", attempt->assigned ? attempt->member_count : 0);
    render_put_time(packer, "started_s", times.started_s);
    render_put_time(packer, "ended_s", times.ended_s);
    render_put_string(packer, "reason");
    render_put_text_or_nil(packer, render_attempt_reason(core, attempt, reason) ? reason : "");
    render_put_string(packer, "nodes");
    put_nodes(core, attempt, packer);
}

static void put_attempts(const struct node_core *core, const struct view_trial *trial, msgpack_packer *packer)
{
    uint32_t total = 0, position = 0;
    for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
        total += a->assigned || a->verdicts != NULL;
    }
    struct render_list list = render_list_open(packer);
    for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
        bool is_there = a->assigned || a->verdicts != NULL;
        if (is_there && position++ + ATTEMPTS_MAX >= total) {
            put_attempt(core, a, packer);
            list.count++;
        }
    }
    render_list_close(&list);
}

void render_trial(const struct node_core *core, const struct view_experiment *experiment, const struct config *config, uint32_t index,
                  struct pack_writer *frame)
{
    msgpack_packer packer = render_packer(frame);
    uint32_t from = 0;
    render_put_string(&packer, "experiment");
    (void)msgpack_pack_map(&packer, 7);
    render_put_string(&packer, "id");
    render_put_experiment_id(&packer, experiment->id);
    render_put_text(&packer, "name", experiment->config->name);
    render_put_text(&packer, "state", view_experiment_state_name(view_experiment_state(experiment)));
    render_put_text(&packer, "metric", experiment->config->metric);
    render_put_bool(&packer, "smaller_is_better", experiment->config->smaller_is_better);
    render_put_u64(&packer, "trials", experiment->trial_count);
    render_put_u64(&packer, "replicas", experiment->config->checkpoint_replicas);
    render_put_string(&packer, "trial");
    render_put_trial(core, experiment, config, index, &packer);
    render_put_string(&packer, "why");
    render_put_why(core, experiment, index, &packer);
    render_put_string(&packer, "attempts");
    put_attempts(core, view_find_trial(experiment, index), &packer);
    (void)render_checkpoints(core, experiment, index, &from, frame);
}
