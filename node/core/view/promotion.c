/* A search that promotes paused trials (DESIGN 14): the pauses of its trials, and the ladder that follows from the highest log. */

#include "node/core/view/promotion.h"

#include <math.h>

#include "base/err.h"
#include "base/probe.h"
#include "node/core/view/fold.h"

/* ---- pauses ---------------------------------------------------------------------------------------------------------- */

static int pause_order(const void *row, const void *wanted)
{
    const struct view_search_pause *a = row, *b = wanted;
    return node_id_compare(a->writer, b->writer);
}

int fold_search_pause(struct view *view, const struct records_entry *entry)
{
    const struct record *record = &entry->record;
    struct fact_search_pause fact;
    experiment_id id;
    uint32_t index;
    if (fact_search_pause_read(record, &fact) != 0 || fact_key_read_trial(record, &id, &index) != 0) {
        return ERR_MALFORMED;
    }
    struct view_experiment *experiment = view_experiment_row(view, id);
    struct view_trial *trial = experiment != NULL ? view_trial_row(view, experiment, index) : NULL;
    const struct view_search_pause wanted = {.writer = record->writer};
    struct view_search_pause *pause = trial != NULL ? view_row(view, &trial->search_pauses, &wanted, sizeof wanted, pause_order) : NULL;
    if (pause == NULL) {
        return ERR_FULL;
    }
    pause->fact = fact;
    experiment->changed = true;
    return 0;
}

bool view_attempt_is_paused(const struct view_trial *trial, const attempt_id *attempt)
{
    for (const struct view_search_pause *pause = trial != NULL ? trial->search_pauses : NULL; pause != NULL; pause = pause->next) {
        const attempt_id last = {.experiment = attempt->experiment,
                                 .trial = attempt->trial,
                                 .number = pause->fact.number,
                                 .term = pause->fact.term,
                                 .coordinator = pause->fact.coordinator};
        if (attempt_id_compare_order(attempt, &last) <= 0 ||
            BUG(pause_of_every_attempt, "a pause names the attempts that end, and a promoted trial's next one is not among them")) {
            return true;
        }
    }
    return false;
}

/* ---- the ladder ------------------------------------------------------------------------------------------------------ */

void view_promotion_free(struct view *view, struct view_search *search)
{
    struct search_ladder *ladder = &search->ladder;
    arena_give(view->arena, ladder->climbers, ladder->climber_count * sizeof *ladder->climbers);
    arena_give(view->arena, ladder->steps, search->step_slots * sizeof *ladder->steps);
    *ladder = (struct search_ladder){0};
    search->step_slots = 0;
}

bool view_promotion_make(struct view *view, struct view_experiment *experiment)
{
    struct view_search *search = &experiment->search;
    view_promotion_free(view, search);
    if (!experiment->needs_promotion) {
        return true;
    }
    struct search_climber *climbers = arena_take(view->arena, search->trial_count * sizeof *climbers);
    if (climbers == NULL) {
        return false;
    }
    search->ladder = (struct search_ladder){.divisor = experiment->config->divisor,
                                            .smaller_is_better = experiment->config->smaller_is_better,
                                            .brackets = &search->brackets,
                                            .climbers = climbers,
                                            .climber_count = search->trial_count};
    for (uint32_t t = 0; t < search->trial_count; t++) {
        climbers[t].bracket = search->trials[t].bracket;
    }
    search_ladder_clear(&search->ladder);
    return true;
}

bool view_promotion_has_room(struct view *view, struct view_search *search)
{
    struct search_ladder *ladder = &search->ladder;
    uint32_t wanted = ladder->step_count + FACT_JUDGED_MAX;
    if (ladder->climbers == NULL || wanted <= search->step_slots) {
        return true;
    }
    uint32_t more = search->step_slots * 2 > wanted ? search->step_slots * 2 : wanted;
    void *bigger = arena_grow(view->arena, ladder->steps, search->step_slots * sizeof *ladder->steps, more * sizeof *ladder->steps);
    if (bigger == NULL) {
        return false;
    }
    ladder->steps = bigger;
    search->step_slots = more;
    return true;
}

bool view_promotion_take(struct view_search *search, const struct fact_judged *judged)
{
    const struct search_step step = {(enum search_word)judged->decision, judged->attempt.trial, judged->rung, judged->metric};
    return search_ladder_take(&search->ladder, &step);
}

/* ---- for readers ----------------------------------------------------------------------------------------------------- */

/* Among the first `count` decisions there is a result of the trial at the rung. */
static bool has_result(const struct view_search *search, uint32_t count, uint32_t trial, uint32_t rung)
{
    bool found = false;
    for (uint32_t i = 0; i < count && !found; i++) {
        const struct fact_judged *judged = &search->judged[i].fact;
        found = judged->attempt.trial == trial && judged->rung == rung && judged->decision <= FACT_PAUSES;
    }
    return found;
}

struct view_standing view_promotion_standing(const struct view_experiment *experiment, uint32_t count, const struct view_judged *of)
{
    const struct view_search *search = &experiment->search;
    struct view_standing standing = {0, 0};
    uint32_t trial = of->fact.attempt.trial, rung = of->fact.rung, bracket = search->trials[trial].bracket;
    bool is_behind = false; /* behind the trial's own result */
    for (uint32_t i = 0; i < count; i++) {
        const struct fact_judged *judged = &search->judged[i].fact;
        bool is_result = judged->decision <= FACT_PAUSES, is_own = judged->attempt.trial == trial;
        is_behind |= is_own && is_result && judged->rung == rung;
        if (is_own || judged->rung != rung || search->trials[judged->attempt.trial].bracket != bracket ||
            !(is_result || (judged->decision == FACT_ENDS && !has_result(search, count, judged->attempt.trial, rung)))) {
            continue;
        }
        standing.entries++;
        standing.better += is_result && (search_is_better(judged->metric, of->fact.metric, experiment->config->smaller_is_better) ||
                                         (!is_behind && judged->metric == of->fact.metric));
    }
    return standing;
}

const struct view_judged *view_search_paused(const struct view_experiment *experiment, uint32_t trial)
{
    return view_search_course(experiment, trial) == VIEW_IS_PAUSED ? view_search_last(experiment, trial) : NULL;
}

bool view_search_is_promoted(const struct view_experiment *experiment, uint32_t trial)
{
    const struct view_judged *last = view_search_last(experiment, trial);
    return last != NULL && last->fact.decision == FACT_PROMOTES;
}
