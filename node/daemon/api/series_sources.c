#include "node/daemon/api/series.h"

#include <stdlib.h>
#include <string.h>

static bool was_rank_0(const struct view_attempt *attempt, uint32_t number, node_id owner)
{
    bool was = number == 0;
    for (const struct view_group *group = attempt->groups; group != NULL; group = group->next) {
        was |= group->member_count > 0 && group->places[0].number == number && node_id_equal(group->places[0].node, owner);
    }
    return was;
}

bool series_has_begun(const struct view_attempt *attempt)
{
    bool has_begun = false;
    for (const struct view_worker *worker = attempt->workers; worker != NULL; worker = worker->next) {
        has_begun |= worker->has_started;
    }
    return has_begun;
}

/* The step from which the attempt goes on. UINT64_MAX: it begins with files of its program's, which do not tell the step. */
static uint64_t begins_at(const struct view_trial *trial, const struct view_attempt *attempt)
{
    if (attempt->start_step > 0 || attempt->beginning_count == 0) {
        return attempt->start_step;
    }
    for (const struct view_output *output = trial->outputs; output != NULL; output = output->next) {
        for (uint32_t i = 0; i < attempt->beginning_count; i++) {
            if (hash256_equal(output->fact.blob, attempt->beginnings[i].blob) && output->fact.saved.step > 0) {
                return output->fact.saved.step;
            }
        }
    }
    return UINT64_MAX;
}

/* The last step of the attempt from which a later one went on; UINT64_MAX: no later attempt has begun, or none that tells. */
static uint64_t last_step_of(const struct view_trial *trial, const struct view_attempt *attempt)
{
    uint64_t last = UINT64_MAX;
    for (const struct view_attempt *later = attempt->next; later != NULL; later = later->next) {
        uint64_t step = series_has_begun(later) ? begins_at(trial, later) : UINT64_MAX;
        last = step < last ? step : last;
    }
    return last;
}

static bool find_place(const struct fact_place *places, uint32_t count, uint32_t number, node_id node, uint32_t *local_rank)
{
    *local_rank = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (places[i].number == number && node_id_equal(places[i].node, node)) {
            return true;
        }
        *local_rank += node_id_equal(places[i].node, node);
    }
    return false;
}

/* LOCAL_RANK of the worker at its start. */
static uint32_t local_rank_of(const struct view_attempt *attempt, uint32_t number, node_id node)
{
    uint32_t local_rank;
    bool is_found = find_place(attempt->first, attempt->first_count, number, node, &local_rank);
    for (const struct view_group *group = attempt->groups; !is_found && group != NULL; group = group->next) {
        is_found = find_place(group->places, group->member_count, number, node, &local_rank);
    }
    return is_found ? local_rank : 0;
}

bool series_add(struct query_series *series, const struct view_trial *trial, const struct view_attempt *attempt, uint32_t number,
                       node_id owner)
{
    struct series_source *bigger = realloc(series->sources, (series->source_count + 1) * sizeof *bigger);
    if (bigger == NULL) {
        return false;
    }
    series->sources = bigger;
    series->newest = attempt->id.number > series->newest ? attempt->id.number : series->newest;
    bigger[series->source_count++] =
        (struct series_source){.attempt = attempt->id,
                        .number = number,
                        .local_rank = local_rank_of(attempt, number, owner),
                        .owner = owner,
                        .last_step = series->kind == 'm' ? last_step_of(trial, attempt) : UINT64_MAX,
                        .is_silent = series->kind == 't' || series->kind == 'e' || series->kind == 'n' ||
                                     (series->kind == 'm' && !was_rank_0(attempt, number, owner))};
    return true;
}

void series_add_workers(struct query_series *series, const struct view_trial *trial, const struct view_attempt *attempt,
                               uint32_t only)
{
    for (uint32_t number = 0; attempt->assigned && number < attempt->first_count; number++) {
        bool is_wanted = series->kind == 'l' || series->kind == 's' || series->kind == 'n' || number == 0 || attempt->groups != NULL;
        if (is_wanted && (only == UINT32_MAX || number == only)) {
            (void)series_add(series, trial, attempt, number, attempt->first[number].node);
        }
    }
    for (const struct view_worker *worker = attempt->workers; worker != NULL && attempt->assigned; worker = worker->next) {
        if (worker->number >= attempt->first_count && (only == UINT32_MAX || worker->number == only)) {
            (void)series_add(series, trial, attempt, worker->number, worker->writer);
        }
    }
}

struct attempt_numbers series_attempts_of(const struct view_trial *trial)
{
    struct attempt_numbers had = {.count = 0};
    for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
        if (!a->assigned || (had.count > 0 && had.numbers[had.count - 1] == a->id.number)) {
            continue;
        }
        if (had.count == SERIES_ATTEMPTS_MAX) {
            memmove(had.numbers, had.numbers + 1, --had.count * sizeof *had.numbers);
            had.has_more = true;
        }
        had.numbers[had.count++] = a->id.number;
    }
    return had;
}

const struct view_trial *series_trial(const struct daemon *daemon, const struct query_series *series)
{
    const struct view_experiment *experiment = view_find_experiment(node_core_view(daemon->core), series->experiment);
    return experiment != NULL ? view_find_trial(experiment, series->trial) : NULL;
}

bool series_is_points(const struct query_series *series)
{
    return series->kind == 'm' || series->kind == 's';
}

bool series_is_question(const struct query_series *series)
{
    return (series->points > 0 && !series->is_looking) || series->is_chosen;
}
