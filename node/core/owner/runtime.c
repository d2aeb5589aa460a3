#include "node/core/owner/runtime.h"

#include "base/probe.h"
#include "node/core/ground/effects.h"
#include "node/core/ground/publish.h"
#include "node/core/owner/workers.h"

struct core_pending *owner_put_stop(struct node_core *core, const struct view_experiment *experiment, uint32_t index, bool stopped,
                                    bool overran)
{
    const struct view_trial *trial = view_find_trial(experiment, index);
    const struct view_attempt *highest = trial != NULL ? view_trial_highest(trial) : NULL;
    struct lamport_top others = {0};
    uint64_t own = 0;
    if (trial != NULL) {
        others = view_stop_top(trial, &core->options.self);
    }
    for (const struct view_stop *row = trial != NULL ? trial->stops : NULL; row != NULL; row = row->next) {
        own = node_id_equal(row->writer, core->options.self) ? row->fact.lamport : own;
    }
    uint32_t since = highest != NULL ? highest->id.number : 0;
    for (const struct view_search_stop *row = trial != NULL ? trial->search_stops : NULL; row != NULL; row = row->next) {
        since = row->fact.number > since ? row->fact.number : since; /* a retry takes back the search's stop, too */
    }
    const struct fact_stop fact = {.lamport = lamport_next(&others, own), .stopped = stopped, .since = since, .overran = overran};
    uint8_t bytes[32];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_stop_pack(&writer, &fact);
    enum event_kind kind = stopped ? EVENT_TRIAL_STOPPED : EVENT_TRIAL_RETRIED;
    TRACE_EVENT(&core->options.trace, event_of_trial(kind, experiment->id, index),
                "%s trial %u is %s%s", experiment->config->name, index, stopped ? "stopped" : "retried",
                overran ? ": it has run for its max_runtime" : "");
    return core_put(core, FACT_STOP, fact_key_trial(experiment->id, index), &writer);
}

/* For how long the trial has run, as all records tell that count (view_attempt_counts). */
static uint64_t ran_by_records(const struct view_trial *trial)
{
    const struct fact_stop stop = view_trial_stop(trial);
    uint64_t ran_s = 0;
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        for (const struct view_worker *w = view_attempt_counts(&stop, a) ? a->workers : NULL; w != NULL; w = w->next) {
            ran_s = w->ran_s > ran_s ? w->ran_s : ran_s;
        }
    }
    return ran_s;
}

void owner_runtime_follow(struct node_core *core, uint32_t slot)
{
    struct core_worker *worker = &core->owner->workers[slot];
    const struct view_experiment *experiment =
        worker->phase == CORE_WORKER_RUNNING ? view_find_experiment(&core->view, worker->attempt.experiment) : NULL;
    if (experiment == NULL || !experiment->known || experiment->config->max_runtime_s == 0) {
        return;
    }
    const struct view_trial *trial = view_find_trial(experiment, worker->attempt.trial);
    const struct view_attempt *attempt = view_find_attempt(&core->view, &worker->attempt);
    if (trial == NULL || attempt == NULL || !attempt->assigned ||
        view_attempt_rank(attempt, core->options.self, slot, worker->number) != 0) {
        worker->ran_since_ms = 0;
        return;
    }
    if (worker->ran_since_ms == 0) {
        worker->ran_since_ms = core->now_ms;
        worker->ran_before_s = ran_by_records(trial);
    }
    worker->ran_s = worker->ran_before_s + (core->now_ms - worker->ran_since_ms) / 1000;
    worker->dirty |= core->now_ms - worker->published_ms >= CORE_RUNTIME_MS;
    if (worker->ran_s >= experiment->config->max_runtime_s && !view_trial_stopped(trial) && core_has_room(core, 256, 1u << 16)) {
        MARK(trial_overran);
        (void)owner_put_stop(core, experiment, trial->index, true, true);
    }
}
