#include "node/core/coordinator/promotion.h"

#include <math.h>

#include "base/probe.h"
#include "node/core/ground/effects.h"
#include "node/core/ground/publish.h"

/* A decision about a trial that is paused. */
static void add_of_paused(const struct view_experiment *experiment, const struct search_step *step, struct fact_search_log *draft)
{
    struct fact_judged judged = view_search_last(experiment, step->trial)->fact;
    judged.decision = (enum fact_decision)step->word;
    draft->judged[draft->judged_count++] = judged;
}

static void add_closings(const struct view_experiment *experiment, struct fact_search_log *draft)
{
    const struct search_ladder *ladder = &experiment->search.ladder;
    struct search_step step;
    for (uint32_t from = 0; draft->judged_count < FACT_JUDGED_MAX && search_ladder_closes(ladder, from, &step); from = step.trial + 1) {
        add_of_paused(experiment, &step, draft);
    }
}

static void add_result(const struct view_experiment *experiment, const attempt_id *attempt, uint32_t rung, const struct fact_result *result,
                       struct fact_search_log *draft)
{
    const struct search_ladder *ladder = &experiment->search.ladder;
    enum search_word word = search_ladder_judge(ladder, attempt->trial, result->metric);
    draft->judged[draft->judged_count++] = (struct fact_judged){.attempt = *attempt,
                                                                .rung = rung,
                                                                .decision = (enum fact_decision)word,
                                                                .step = result->step,
                                                                .length = result->length,
                                                                .metric = result->metric};
}

static void add_ends(const struct view_experiment *experiment, struct fact_search_log *draft)
{
    const struct search_ladder *ladder = &experiment->search.ladder;
    struct search_step step;
    for (uint32_t t = view_next_unsettled(experiment, 0);
         t < experiment->trial_slots && t < ladder->climber_count && draft->judged_count < FACT_JUDGED_MAX;
         t = view_next_unsettled(experiment, t + 1)) {
        const struct view_trial *trial = view_find_trial(experiment, t);
        if (trial == NULL || !view_trial_over(view_trial_state(experiment, t)) || !search_ladder_ends(ladder, t, &step)) {
            continue;
        }
        const struct view_attempt *highest = view_trial_highest(trial);
        attempt_id attempt = highest != NULL ? highest->id : (attempt_id){.experiment = experiment->id, .trial = t};
        draft->judged[draft->judged_count++] =
            (struct fact_judged){.attempt = attempt, .rung = step.rung, .decision = FACT_ENDS, .metric = NAN};
    }
}

void promotion_draft(const struct view_experiment *experiment, const attempt_id *attempt, uint32_t rung, const struct fact_result *result,
                     struct fact_search_log *draft)
{
    const struct search_ladder *ladder = &experiment->search.ladder;
    struct search_step step;
    if (search_ladder_promotes(ladder, &step) &&
        !BUG(paused_for_ever, "a paused trial goes on as soon as it is among the best of its rung")) {
        MARK(paused_trial_promoted);
        add_of_paused(experiment, &step, draft);
        return;
    }
    add_closings(experiment, draft);
    if (draft->judged_count == 0 && attempt != NULL) {
        add_result(experiment, attempt, rung, result, draft);
    }
    if (draft->judged_count == 0) {
        add_ends(experiment, draft);
    }
}

void promotion_pause_trials(struct node_core *core, const struct view_experiment *experiment)
{
    for (uint32_t t = 0; t < experiment->search.ladder.climber_count && core_has_room(core, 64, 1u << 16); t++) {
        const struct view_judged *paused = view_search_paused(experiment, t);
        const struct view_trial *trial = paused != NULL ? view_find_trial(experiment, t) : NULL;
        const struct view_attempt *highest = trial != NULL ? view_trial_highest(trial) : NULL;
        if (highest == NULL || view_attempt_verdict(highest) != NULL || view_attempt_is_paused(trial, &highest->id)) {
            continue;
        }
        const struct fact_search_pause fact = {.number = highest->id.number,
                                               .term = highest->id.term,
                                               .coordinator = highest->id.coordinator,
                                               .rung = paused->fact.rung,
                                               .writer = paused->log->writer,
                                               .log = paused->log->name,
                                               .record = paused->number};
        uint8_t bytes[128];
        struct pack_writer writer;
        pack_writer_init(&writer, bytes, sizeof bytes);
        fact_search_pause_pack(&writer, &fact);
        TRACE_EVENT(&core->options.trace, event_of_trial(EVENT_TRIAL_PAUSED, experiment->id, t),
                    "%s trial %u is paused by the search at rung %u (step %llu)", experiment->config->name, t, fact.rung,
                    (unsigned long long)paused->fact.step);
        (void)core_put(core, FACT_SEARCH_PAUSE, fact_key_trial(experiment->id, t), &writer);
    }
}

bool promotion_waits(const struct view_experiment *experiment, uint32_t trial)
{
    return view_search_is_promoted(experiment, trial) && view_trial_state(experiment, trial) == VIEW_TRIAL_QUEUED;
}
