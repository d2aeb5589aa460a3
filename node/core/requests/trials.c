/* Stops and retries of single trials (DESIGN 5): values of one register of the trial (struct fact_stop). */

#include "base/err.h"
#include "base/format.h"
#include "node/core/copies/acks.h"
#include "node/core/copies/checkpoints.h"
#include "node/core/copies/collection.h"
#include "node/core/copies/outputs.h"
#include "node/core/ground/effects.h"
#include "node/core/ground/publish.h"
#include "node/core/members/members.h"
#include "node/core/owner/runtime.h"
#include "node/core/requests/trials.h"
#include "node/core/view/retention.h"

static const hash256 no_blob = {{0}};

const struct view_member *requests_find_unable(const struct node_core *core, uint64_t reads)
{
    for (uint32_t i = 0; i < core->view.member_count; i++) {
        const struct view_member *member = core->view.members[i];
        if (!node_id_equal(member->id, core->options.self) && member->has_node && core_node_alive(core, member->id) &&
            (member->reads & reads) != reads) {
            return member;
        }
    }
    return NULL;
}

/* The experiment with the trial that the request is about; NULL: there is none, and the client has been answered. */
static const struct view_experiment *find_trial_asked(struct node_core *core, const struct node_event *event)
{
    uint32_t index = event->u.request.trial;
    const struct view_experiment *experiment = view_find_experiment(&core->view, event->u.request.experiment);
    char text[NODE_REPLY_BYTES];
    if (experiment == NULL || !experiment->known) {
        core_reply(core, event->u.request.client, ERR_NOT_FOUND, 0, "There is no such experiment; `shoal ls` lists them.");
        return NULL;
    }
    if (index >= experiment->trial_count) {
        format_text(text, sizeof text, "There is no trial %u: the trials of %s are 0 to %u.", index, experiment->config->name,
                    experiment->trial_count - 1);
        core_reply(core, event->u.request.client, ERR_NOT_FOUND, 0, text);
        return NULL;
    }
    return experiment;
}

static bool refused_for_version(struct node_core *core, uint64_t client, uint64_t reads, const char *what)
{
    const struct view_member *unable = requests_find_unable(core, reads);
    char text[NODE_REPLY_BYTES];
    if (unable == NULL) {
        return false;
    }
    format_text(text, sizeof text, "%s runs a version of Shoal that cannot %s a single trial; update that node first.",
                view_label(&core->view, unable->id).text, what);
    core_reply(core, client, ERR_REFUSED, 0, text);
    return true;
}

/* ---- stop ---------------------------------------------------------------------------------------------------------------- */

/* Refuses a stop that would end nothing. A stop can be repeated, so a trial that is stopped already is stopped again. */
static bool refused_to_stop(struct node_core *core, uint64_t client, const struct view_experiment *experiment, uint32_t index)
{
    char text[NODE_REPLY_BYTES];
    enum view_trial_state state = view_trial_state(experiment, index);
    bool is_cancelled = view_experiment_state(experiment) == VIEW_CANCELLED;
    if (is_cancelled || (view_trial_over(state) && state != VIEW_TRIAL_STOPPED)) {
        format_text(text, sizeof text, "%s %u is %s already, so there is nothing to stop.",
                    is_cancelled ? "The experiment of trial" : "Trial", index,
                    is_cancelled ? "cancelled" : view_trial_state_name(state));
        core_reply(core, client, ERR_REFUSED, 0, text);
        return true;
    }
    return refused_for_version(core, client, FACT_READS_STOP, "stop");
}

void requests_stop(struct node_core *core, const struct node_event *event)
{
    uint64_t client = event->u.request.client;
    const struct view_experiment *experiment = find_trial_asked(core, event);
    if (experiment != NULL && !refused_to_stop(core, client, experiment, event->u.request.trial)) {
        (void)core_ack_begin(core, client, owner_put_stop(core, experiment, event->u.request.trial, true, false), no_blob, no_blob);
    }
}

/* ---- retry --------------------------------------------------------------------------------------------------------------- */

/* What is left of a trial's checkpoints, or of its files. */
struct remains {
    bool is_any;   /* the trial had some */
    bool is_there; /* a living node holds a copy */
    bool is_away;  /* no living node does, but `holder` may */
    node_id holder;
};

static struct remains checkpoints_left(const struct node_core *core, const struct view_trial *trial)
{
    struct remains left = {.is_any = trial->manifests != NULL};
    for (const struct view_manifest *row = trial->manifests; row != NULL; row = row->next) {
        bool is_let_go = (row->is_passed_over && !row->is_kept) || !view_trial_continues(trial, &row->attempt);
        left.is_there |= !is_let_go && core_checkpoint_is_there(core, row);
        for (uint32_t i = 0; i < row->holder_count && !is_let_go; i++) {
            left.holder = left.is_away ? left.holder : row->holders[i];
            left.is_away = true;
        }
    }
    return left;
}

static struct remains files_left(const struct node_core *core, const struct view_experiment *experiment, const struct view_trial *trial)
{
    const struct view_output *chosen[FACT_OUTPUTS_MAX];
    struct remains left = {.is_any = trial->outputs != NULL};
    bool are_kept = retention_keeps_outputs(experiment);
    left.is_there = are_kept && core_outputs_choose(core, experiment, trial, chosen) > 0;
    for (const struct view_output *row = trial->outputs; row != NULL && are_kept && !left.is_away; row = row->next) {
        left.is_away = row->fact.holder_count > 0;
        left.holder = left.is_away ? row->fact.holders[0] : left.holder;
    }
    return left;
}

/* Refuses a retry of a trial that could not go on from what it has made. */
static bool refused_for_copies(struct node_core *core, uint64_t client, const struct view_experiment *experiment,
                               const struct view_trial *trial)
{
    const struct remains checkpoints = checkpoints_left(core, trial), files = files_left(core, experiment, trial);
    bool are_files = !checkpoints.is_any || checkpoints.is_there;
    const struct remains *left = are_files ? &files : &checkpoints;
    const char *what = are_files ? "files" : "checkpoints";
    char text[NODE_REPLY_BYTES];
    if (!left->is_any || left->is_there) {
        return false;
    }
    if (left->is_away) {
        format_text(text, sizeof text, "The %s of trial %u cannot be reached now: a copy was on %s; retry the trial once that node is back.",
                    what, trial->index, view_label(&core->view, left->holder).text);
    } else {
        format_text(text, sizeof text,
                    "The %s of trial %u have been deleted, as the options save_... of its experiment ask; submit the experiment again.",
                    what, trial->index);
    }
    core_reply(core, client, ERR_REFUSED, 0, text);
    return true;
}

/* Refuses a retry of a trial that is not over, or that is done. */
static bool refused_for_state(struct node_core *core, uint64_t client, const struct view_experiment *experiment, uint32_t index)
{
    enum view_trial_state state = view_trial_state(experiment, index);
    char text[NODE_REPLY_BYTES];
    if (view_experiment_state(experiment) == VIEW_CANCELLED) {
        format_text(text, sizeof text, "The experiment of trial %u is cancelled, so none of its trials runs again; submit it again.", index);
    } else if (state == VIEW_TRIAL_COMPLETED) {
        format_text(text, sizeof text, "Trial %u is completed, so there is nothing to retry.", index);
    } else if (state == VIEW_TRIAL_RUNNING && view_trial_stopped(view_find_trial(experiment, index))) {
        format_text(text, sizeof text, "Trial %u is stopping; retry it once it is stopped.", index);
    } else if (state == VIEW_TRIAL_QUEUED && view_search_paused(experiment, index) != NULL) {
        format_text(text, sizeof text,
                    "Trial %u is paused by its search, so there is nothing to retry; to let it go on now, stop it, and retry it then.", index);
    } else if (view_trial_over(state) && experiment->is_custom && experiment->search.is_finished &&
               !view_custom_is_created(experiment, index)) {
        format_text(text, sizeof text,
                    "The program of the search has never created trial %u, and creates no more, so there is nothing to retry.", index);
    } else if (!view_trial_over(state)) {
        format_text(text, sizeof text, "Trial %u is %s, so there is nothing to retry; a failed or stopped trial can be retried.", index,
                    view_trial_state_name(state));
    } else {
        return false;
    }
    core_reply(core, client, ERR_REFUSED, 0, text);
    return true;
}

/* A retry can be repeated: the client is answered without a new record. False: the trial is not retried, or is over again. */
static bool is_retried_already(struct node_core *core, uint64_t client, const struct view_experiment *experiment, uint32_t index)
{
    const struct view_trial *trial = view_find_trial(experiment, index);
    uint64_t retried = view_trial_retried(trial);
    struct fact_key key = fact_key_trial(experiment->id, index);
    const struct records_entry *entry = NULL;
    if (retried == 0 || view_trial_over(view_trial_state(experiment, index)) || view_experiment_state(experiment) == VIEW_CANCELLED) {
        return false;
    }
    for (const struct view_stop *row = trial->stops; row != NULL && entry == NULL; row = row->next) {
        entry = row->fact.lamport == retried
                    ? records_find(&core->records, record_ident_of(row->writer, FACT_STOP, key.bytes, key.count))
                    : NULL;
    }
    if (entry == NULL) {
        return false;
    }
    struct core_ack *ack = core_ack_append(core, client, entry->ident, entry->record.version, no_blob, no_blob);
    if (ack != NULL) {
        ack->already = true;
    }
    if (ack != NULL && entry->on_disk) {
        core_ack_on_disk(core, client, entry->ident, entry->record.version);
    }
    return true;
}

void requests_retry(struct node_core *core, const struct node_event *event)
{
    uint64_t client = event->u.request.client;
    uint32_t index = event->u.request.trial;
    const struct view_experiment *experiment = find_trial_asked(core, event);
    if (experiment == NULL || is_retried_already(core, client, experiment, index) ||
        refused_for_state(core, client, experiment, index) || refused_for_version(core, client, FACT_READS_RETRY, "retry")) {
        return;
    }
    const struct view_trial *trial = view_find_trial(experiment, index);
    if (trial == NULL || !refused_for_copies(core, client, experiment, trial)) {
        (void)core_ack_begin(core, client, owner_put_stop(core, experiment, index, false, false), no_blob, no_blob);
    }
}
