#include "node/daemon/render/experiment.h"

#include <string.h>

#include "node/daemon/render/put.h"
#include "node/daemon/render/render.h"
#include "node/daemon/render/rows.h"

static struct election_claim highest_claim(const struct node_core *core, const struct view_experiment *experiment,
                                           bool *released)
{
    struct election_claim highest = {0};
    if (node_core_highest_claim(core, experiment->id, &highest, released)) {
        return highest; /* absurd terms are sorted out there */
    }
    return view_claim_highest(experiment, released);
}

bool render_coordinator(const struct node_core *core, const struct view_experiment *experiment, node_id *node,
                        uint64_t *term)
{
    bool released;
    struct election_claim claim = highest_claim(core, experiment, &released);
    const struct view_member *member = view_find_member(node_core_view(core), claim.node);
    *node = claim.node;
    *term = claim.term;
    return claim.term > 0 && !released && member != NULL && render_node_lives(core, member);
}

const char *render_waiting_name(const struct view_experiment *experiment)
{
    return view_experiment_cancelled(experiment) ? "cancelled" : view_experiment_paused(experiment) ? "paused" : "queued";
}

struct render_trial_counts render_count_trials(const struct view_experiment *experiment)
{
    uint32_t counts[VIEW_TRIAL_STATES] = {0}, searched = 0;
    for (uint32_t i = 0; i < experiment->trial_count && i < experiment->trial_slots; i++) {
        enum view_trial_state state = render_trial_state(experiment, i);
        counts[state]++;
        searched += state == VIEW_TRIAL_QUEUED && view_search_paused(experiment, i) != NULL;
    }
    uint32_t others = counts[VIEW_TRIAL_RUNNING] + counts[VIEW_TRIAL_COMPLETED] + counts[VIEW_TRIAL_FAILED] + counts[VIEW_TRIAL_STOPPED];
    uint32_t waiting = experiment->trial_count - others;
    const char *name = render_waiting_name(experiment);
    bool is_queued = strcmp(name, "queued") == 0;
    return (struct render_trial_counts){.queued = is_queued ? waiting - searched : 0,
                                        .paused = strcmp(name, "paused") == 0 ? waiting : is_queued ? searched : 0,
                                        .cancelled = strcmp(name, "cancelled") == 0 ? waiting : 0,
                                        .running = counts[VIEW_TRIAL_RUNNING],
                                        .completed = counts[VIEW_TRIAL_COMPLETED],
                                        .failed = counts[VIEW_TRIAL_FAILED],
                                        .stopped = counts[VIEW_TRIAL_STOPPED]};
}

static void put_counts(const struct view_experiment *experiment, msgpack_packer *packer)
{
    struct render_trial_counts counts = render_count_trials(experiment);
    (void)msgpack_pack_map(packer, 8);
    render_put_u64(packer, "total", experiment->trial_count);
    render_put_u64(packer, "queued", counts.queued);
    render_put_u64(packer, "paused", counts.paused);
    render_put_u64(packer, "cancelled", counts.cancelled);
    render_put_u64(packer, "running", counts.running);
    render_put_u64(packer, "completed", counts.completed);
    render_put_u64(packer, "failed", counts.failed);
    render_put_u64(packer, "stopped", counts.stopped);
}

static void put_best(const struct node_core *core, const struct view_experiment *experiment, msgpack_packer *packer)
{
    uint32_t trial;
    double value;
    if (!view_experiment_best(node_core_view(core), experiment, &trial, &value)) {
        (void)msgpack_pack_nil(packer);
        return;
    }
    (void)msgpack_pack_map(packer, 3);
    render_put_u64(packer, "trial", trial);
    render_put_text(packer, "metric", experiment->config->metric);
    render_put_string(packer, "value");
    (void)msgpack_pack_double(packer, value);
}

/* What users have noted, or the configuration has of it. */
#define NOTE_PAIRS 5
static void put_notes(const struct view_experiment *experiment, msgpack_packer *packer)
{
    struct view_label_text labels[VIEW_LABELS_MAX];
    char description[FACT_NOTE_BYTES];
    uint32_t count = view_experiment_labels(experiment, labels);
    view_experiment_description(experiment, description);
    render_put_string(packer, "labels");
    (void)msgpack_pack_map(packer, count);
    for (uint32_t i = 0; i < count; i++) {
        render_put_text(packer, labels[i].name, labels[i].value);
    }
    render_put_string(packer, "description");
    render_put_text_or_nil(packer, description);
    render_put_bool(packer, "archived", view_experiment_archived(experiment));
    render_put_bool(packer, "pinned", view_experiment_pinned(experiment));
    render_put_u64(packer, "priority", view_experiment_priority(experiment));
}

/* Of a search in which a program decides: what is wrong with it, and whether anything goes on all the same. */
#define TROUBLE_PAIRS 2
static void put_trouble(const struct node_core *core, const struct view_experiment *experiment, msgpack_packer *packer)
{
    char trouble[NODE_CORE_WAITING_BYTES] = "";
    (void)node_core_search_trouble(experiment, trouble, sizeof trouble);
    render_put_string(packer, "trouble");
    render_put_text_or_nil(packer, trouble);
    render_put_bool(packer, "halted", node_core_is_halted(core, experiment));
}

/* The pairs that ls and show have in common, except `trials`. */
#define EXPERIMENT_PAIRS (10 + NOTE_PAIRS)
static void put_experiment(const struct node_core *core, const struct view_experiment *experiment,
                           msgpack_packer *packer)
{
    node_id coordinator;
    uint64_t term;
    bool has_coordinator = render_coordinator(core, experiment, &coordinator, &term);
    render_put_string(packer, "id");
    render_put_experiment_id(packer, experiment->id);
    render_put_text(packer, "name", experiment->config->name);
    render_put_text(packer, "state", view_experiment_state_name(view_experiment_state(experiment)));
    render_put_string(packer, "coordinator_label");
    render_put_text_or_nil(packer, has_coordinator ? render_node_label(core, coordinator).text : "");
    render_put_string(packer, "coordinator");
    if (has_coordinator) {
        render_put_node_id(packer, coordinator);
    } else {
        (void)msgpack_pack_nil(packer);
    }
    render_put_string(packer, "coordinator_name");
    render_put_text_or_nil(packer, has_coordinator ? render_node_name(core, coordinator) : "");
    render_put_string(packer, "term");
    if (term > 0) {
        (void)msgpack_pack_uint64(packer, term);
    } else {
        (void)msgpack_pack_nil(packer);
    }
    render_put_string(packer, "best");
    put_best(core, experiment, packer);
    render_put_u64(packer, "submitted_s", experiment->submitted_s);
    render_put_string(packer, "user");
    render_put_text_or_nil(packer, experiment->config->user);
    put_notes(experiment, packer);
}

bool render_ls(const struct node_core *core, uint32_t *from, struct pack_writer *frame)
{
    msgpack_packer packer = render_packer(frame);
    render_put_string(&packer, "experiments");
    struct render_list list = render_list_open(&packer);
    uint32_t i = *from;
    for (; i < node_core_view(core)->experiment_count; i++) {
        const struct view_experiment *experiment = node_core_view(core)->experiments[i];
        if (!experiment->known) {
            continue;
        }
        (void)msgpack_pack_map(&packer, EXPERIMENT_PAIRS + 2);
        put_experiment(core, experiment, &packer);
        render_put_string(&packer, "waiting");
        render_put_first_waiting(core, experiment, &packer);
        render_put_string(&packer, "trials");
        put_counts(experiment, &packer);
        if (!render_list_took_row(&list)) {
            break;
        }
    }
    render_list_close(&list);
    *from = i;
    return i < node_core_view(core)->experiment_count;
}

void render_experiment_state(const struct node_core *core, const struct view_experiment *experiment,
                             struct pack_writer *frame)
{
    msgpack_packer packer = render_packer(frame);
    render_put_text(&packer, "state", view_experiment_state_name(view_experiment_state(experiment)));
    render_put_string(&packer, "trials");
    put_counts(experiment, &packer);
    render_put_string(&packer, "best");
    put_best(core, experiment, &packer);
    put_trouble(core, experiment, &packer);
}

/* The map of an experiment up to its trials: its first part. */
static void put_show_head(const struct node_core *core, const struct view_experiment *experiment, const struct render_choice *choice,
                          struct pack_writer *frame)
{
    msgpack_packer packer = render_packer(frame);
    (void)msgpack_pack_map(&packer, EXPERIMENT_PAIRS + TROUBLE_PAIRS + 9u + (choice != NULL));
    put_experiment(core, experiment, &packer);
    render_put_string(&packer, "counts");
    put_counts(experiment, &packer);
    render_put_text(&packer, "metric", experiment->config->metric);
    render_put_bool(&packer, "smaller_is_better", experiment->config->smaller_is_better);
    render_put_u64(&packer, "slots_per_trial", experiment->config->slots_per_trial);
    render_put_u64(&packer, "replicas", experiment->config->checkpoint_replicas);
    put_trouble(core, experiment, &packer);
    if (choice != NULL) {
        render_put_u64(&packer, "matching", choice->matching);
    }
    render_lacks(core, experiment, frame);
    render_program(core, experiment, frame);
    render_put_string(&packer, "waiting");
    render_put_waiting(core, experiment, &packer);
}

void render_show_head(const struct node_core *core, const struct view_experiment *experiment, struct pack_writer *frame)
{
    put_show_head(core, experiment, NULL, frame);
}

void render_trial_row(const struct node_core *core, const struct view_experiment *experiment, const struct config *config,
                      uint32_t index, struct pack_writer *frame)
{
    msgpack_packer packer = render_packer(frame);
    render_put_trial(core, experiment, config, index, &packer);
}

bool render_show(const struct node_core *core, const struct view_experiment *experiment, const struct config *config,
                 uint32_t *from, struct pack_writer *frame)
{
    return render_show_choice(core, experiment, config, NULL, from, frame);
}

bool render_show_choice(const struct node_core *core, const struct view_experiment *experiment, const struct config *config,
                        const struct render_choice *choice, uint32_t *from, struct pack_writer *frame)
{
    msgpack_packer packer = render_packer(frame);
    uint32_t count = choice != NULL ? choice->count : experiment->trial_count;
    render_put_string(&packer, "experiment");
    if (*from == 0) {
        put_show_head(core, experiment, choice, frame);
    } else {
        (void)msgpack_pack_map(&packer, 1); /* the client has the rest */
    }
    render_put_string(&packer, "trials");
    struct render_list list = render_list_open(&packer);
    uint32_t i = *from;
    for (; i < count; i++) {
        render_put_trial(core, experiment, config, choice != NULL ? choice->trials[i] : i, &packer);
        if (!render_list_took_row(&list)) {
            break;
        }
    }
    render_list_close(&list);
    *from = i;
    return i < count;
}
