#include "node/core/owner/results.h"

#include "node/core/ground/publish.h"
#include "node/core/owner/workers.h"

/* The trial has a result at the rung, since a user's last retry or of this attempt. */
static bool has_result(const struct view_trial *trial, const struct view_attempt *own, uint32_t rung)
{
    uint32_t since = view_trial_retried_from(trial);
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        bool counts = a == own || (a->id.number > since && a->results != NULL && view_trial_continues(trial, &a->id));
        for (const struct view_result *r = counts ? a->results : NULL; r != NULL; r = r->next) {
            if (r->rung == rung && view_result_counts(a, r)) {
                return true;
            }
        }
    }
    return false;
}

/* The seconds that the trial has trained: since the program's start, and before, up to the checkpoint that the attempt began with, as far
 * as its earlier results tell. */
static uint64_t seconds_of(const struct node_core *core, const struct core_worker *worker, const struct view_trial *trial,
                           const struct view_attempt *attempt)
{
    uint64_t before = 0, since = core->wall_s > worker->started_s ? core->wall_s - worker->started_s : 0;
    for (const struct view_attempt *a = trial->attempts; a != NULL && a != attempt; a = a->next) {
        for (const struct view_result *r = a->results; r != NULL; r = r->next) {
            before = r->fact.step <= attempt->start_step && r->fact.length > before ? r->fact.length : before;
        }
    }
    return worker->started_s != 0 ? before + since : before;
}

void owner_result(struct node_core *core, const struct node_event *event)
{
    const struct core_worker *worker = &core->owner->workers[event->u.worker.slot];
    const struct view_experiment *experiment = view_find_experiment(&core->view, worker->attempt.experiment);
    const struct view_attempt *attempt = view_find_attempt(&core->view, &worker->attempt);
    if (experiment == NULL || !experiment->known || !search_judges(experiment->config->searcher) || attempt == NULL ||
        !attempt->assigned || !owner_has_draw(worker, attempt) || worker->attempt.trial >= SEARCH_TRIALS_MAX ||
        view_attempt_rank(attempt, core->options.self, event->u.worker.slot, worker->number) != 0) {
        return;
    }
    const struct search_halving halving = config_search_halving(experiment->config);
    struct search_brackets brackets;
    search_brackets_make(&halving, &brackets);
    uint32_t rungs = brackets.list[search_trial_bracket(&brackets, worker->attempt.trial)].rungs;
    struct fact_result fact = {event->u.worker.step, event->u.worker.length, event->u.worker.metric, view_attempt_draw(attempt)};
    if (config_search_time(experiment->config) == CONFIG_TIME_SECONDS) {
        fact.length = seconds_of(core, worker, view_find_trial(experiment, worker->attempt.trial), attempt);
    }
    for (uint32_t rung = 0; rung < rungs && fact.length >= config_rung_target(experiment->config, worker->attempt.trial, rungs, rung); rung++) {
        if (has_result(view_find_trial(experiment, worker->attempt.trial), attempt, rung)) {
            continue;
        }
        uint8_t bytes[64];
        struct pack_writer writer;
        pack_writer_init(&writer, bytes, sizeof bytes);
        fact_result_pack(&writer, &fact);
        (void)core_put(core, FACT_RESULT, fact_key_result(&worker->attempt, rung), &writer);
    }
}
