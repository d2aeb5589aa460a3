/* The generations of pbt (DESIGN 14): once all trials of one are judged, the parents of the next one follow from the log. */

#include "node/core/view/population.h"

#include "base/probe.h"

static bool is_population(const struct view_experiment *experiment)
{
    return experiment->known && experiment->config->searcher == SEARCH_PBT;
}

static uint32_t first_of(const struct view_experiment *experiment, uint32_t trial)
{
    return trial - trial % experiment->config->population_size;
}

void view_population_note(struct view_experiment *experiment, uint32_t trial)
{
    if (is_population(experiment)) {
        experiment->search.trials[first_of(experiment, trial)].judged_members++;
    }
}

/* Chooses the parents of the generation that begins with trial `first`. */
static bool choose_parents(struct view *view, struct view_experiment *experiment, uint32_t first)
{
    struct view_search *search = &experiment->search;
    const struct config *config = experiment->config;
    uint32_t population = config->population_size, before = first - population;
    struct pbt_result *results = arena_take(view->arena, population * sizeof *results);
    uint32_t *parents = arena_take(view->arena, population * sizeof *parents);
    void *room = arena_take(view->arena, pbt_room_bytes(population));
    bool is_made = results != NULL && parents != NULL && room != NULL;
    for (uint32_t m = 0; m < population && is_made; m++) {
        const struct fact_judged *judged = &search->judged[search->trials[before + m].last - 1].fact;
        results[m] = (struct pbt_result){judged->metric, judged->decision == FACT_ENDS};
    }
    if (is_made) {
        pbt_choose(results, population, pbt_replaced(population, config->truncate_fraction), config->smaller_is_better, room, parents);
    }
    for (uint32_t m = 0; m < population && is_made; m++) {
        search->trials[first + m].parent = before + parents[m];
    }
    arena_give(view->arena, results, population * sizeof *results);
    arena_give(view->arena, parents, population * sizeof *parents);
    arena_give(view->arena, room, pbt_room_bytes(population));
    return is_made;
}

bool view_population_follow(struct view *view, struct view_experiment *experiment)
{
    struct view_search *search = &experiment->search;
    if (!is_population(experiment)) {
        return true;
    }
    uint32_t population = experiment->config->population_size;
    for (uint32_t first = population; first < search->trial_count; first += population) {
        if (search->trials[first - population].judged_members < population) {
            break;
        }
        if (search->trials[first].parent == FACT_NO_TRIAL && !choose_parents(view, experiment, first)) {
            return false;
        }
    }
    return true;
}

bool view_population_has_parent(const struct view_experiment *experiment, uint32_t trial)
{
    const struct view_search *search = &experiment->search;
    return trial < search->trial_count &&
           (trial < experiment->config->population_size || search->trials[trial].parent != FACT_NO_TRIAL ||
            BUG(generation_unjudged, "a trial of pbt begins once the generation before it is judged"));
}

const struct view_trial *view_population_parent(const struct view_experiment *experiment, uint32_t trial)
{
    const struct view_search *search = &experiment->search;
    bool has_parent = is_population(experiment) && trial < search->trial_count && search->trials[trial].parent != FACT_NO_TRIAL;
    return has_parent ? view_find_trial(experiment, search->trials[trial].parent) : NULL;
}

bool view_population_is_parent(const struct view_experiment *experiment, uint32_t trial)
{
    const struct view_search *search = &experiment->search;
    if (!is_population(experiment)) {
        return false;
    }
    uint32_t population = experiment->config->population_size, next = first_of(experiment, trial) + population;
    return next < experiment->trial_count && (next >= search->trial_count || search->trials[next].judged_members < population) &&
           !BUG(parent_collected, "a checkpoint from which a trial of pbt may go on is kept");
}
