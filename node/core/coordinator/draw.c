#include "node/core/coordinator/draw.h"

#include "base/err.h"
#include "base/probe.h"
#include "node/core/coordinator/search.h"
#include "node/core/ground/publish.h"
#include "train/search/pbt.h"
#include "train/search/tpe.h"

/* ---- tpe ------------------------------------------------------------------------------------------------------------- */

/* How many of the parameters are searched. */
static uint32_t searched_count(const struct search_space *space)
{
    struct pack_reader reader;
    struct search_head head;
    struct search_parameter parameter;
    uint32_t count = 0, searched = 0;
    pack_reader_init(&reader, space->bytes, space->byte_count);
    bool is_read = search_head_read(&reader, &head, &count) == 0;
    for (uint32_t i = 0; is_read && i < count; i++) {
        is_read = search_parameter_read(&reader, &parameter) == 0;
        searched += is_read && parameter.kind != SEARCH_CONST;
    }
    return searched;
}

static uint64_t length_of(const struct view_search *search, const struct search_halving *halving, const struct fact_judged *judged)
{
    uint32_t rungs = search->brackets.list[search->trials[judged->attempt.trial].bracket].rungs;
    return search_rung_target(halving, rungs, judged->rung);
}

/* Whether the decision is about a result of this length. That a paused trial is promoted or closed, or a trial has ended, is no result. */
static bool is_result_at(const struct view_search *search, const struct search_halving *halving, const struct fact_judged *judged,
                         uint64_t length)
{
    return judged->decision <= FACT_PAUSES && length_of(search, halving, judged) == length;
}

/* How many results there are of this length. */
static uint32_t count_at(const struct view_search *search, const struct search_halving *halving, uint64_t length)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < search->judged_count; i++) {
        count += is_result_at(search, halving, &search->judged[i].fact, length);
    }
    return count;
}

/* Whether the trial trains on behind its last decision, or has ended without another result: what it reaches is not known. */
static bool is_on_the_way(const struct fact_judged *last)
{
    return last == NULL || last->decision == FACT_GOES_ON || last->decision == FACT_PROMOTES || last->decision == FACT_ENDS;
}

/* The longest length, of all rungs of all brackets, with at least so many results; 0: none. */
static uint64_t length_to_see(const struct view_search *search, const struct search_halving *halving, uint32_t enough)
{
    uint64_t longest = 0;
    for (uint32_t b = 0; b < search->brackets.count; b++) {
        for (uint32_t rung = search->brackets.list[b].rungs; rung-- > 0;) {
            uint64_t length = search_rung_target(halving, search->brackets.list[b].rungs, rung);
            if (length > longest && count_at(search, halving, length) >= enough) {
                longest = length;
            }
        }
    }
    return longest;
}

/* What the state of the log says of a trial: its result at the length that is seen (`at`: its index plus 1, or 0), or that it was
 * stopped or paused before and how far it was by then, or that it runs. False: nothing, or of values that the log does not have. */
static bool observe(const struct view_experiment *experiment, const struct search_halving *halving, uint32_t trial, uint32_t at,
                    uint32_t parameters, struct tpe_observation *out)
{
    const struct view_search *search = &experiment->search;
    const struct view_searched *row = &search->trials[trial];
    const struct fact_judged *judged = at > 0 ? &search->judged[at - 1].fact : NULL;
    const struct fact_judged *last = row->last > 0 ? &search->judged[row->last - 1].fact : NULL;
    const struct view_created *created = row->created > 0 ? &search->created[row->created - 1] : NULL;
    bool runs = judged == NULL && is_on_the_way(last);
    const struct fact_judged *result = runs ? NULL : judged != NULL ? judged : last;
    created = result != NULL ? view_search_created(experiment, &result->attempt) : created;
    if (created == NULL || created->point_count != parameters || (runs && BUG(running_unseen, "a draw knows the trials that run"))) {
        return false;
    }
    *out = (struct tpe_observation){.trial = trial,
                                    .state = runs ? TPE_RUNNING : judged != NULL ? TPE_COMPLETED : TPE_STOPPED,
                                    .metric = runs ? 0 : result->metric,
                                    .step = runs ? 0 : length_of(search, halving, result),
                                    .has_metric = !runs,
                                    .point = created->point};
    return true;
}

/* Draws from the state. As in BOHB (Falkner, Klein, Hutter, "BOHB: robust and efficient hyperparameter optimization at scale", ICML
 * 2018, section 4) the results that count first are those of the longest length that has enough of them: n_startup_trials, and where
 * trials are stopped early one more than parameters are searched. Behind them come, as in Optuna, the trials that were stopped, or are
 * paused, at a shorter length: without these all that is known to be bad would lie beside the best, since only good trials come so
 * far, and draws would lead away from there. False: no memory. */
static bool draw_tpe(struct node_core *core, const struct view_experiment *experiment, uint32_t trial, uint32_t parameters, double *point)
{
    const struct view_search *search = &experiment->search;
    const struct config *config = experiment->config;
    const struct search_space space = config_search_space(config);
    const struct search_halving halving = config_search_halving(config);
    uint32_t least = search_halves(config->searcher) ? searched_count(&space) + 1 : 0, count = 0;
    uint32_t enough = config->n_startup_trials > least ? config->n_startup_trials : least;
    size_t room_bytes = tpe_room_bytes(parameters, search->trial_count);
    struct tpe_observation *observations = arena_take(&core->arena, search->trial_count * sizeof *observations);
    uint32_t *at = arena_take(&core->arena, search->trial_count * sizeof *at);
    void *room = arena_take(&core->arena, room_bytes);
    bool is_made = observations != NULL && at != NULL && room != NULL;
    uint64_t length = length_to_see(search, &halving, enough);
    uint32_t startup = length > 0 ? enough : UINT32_MAX;
    for (uint32_t i = 0; is_made && i < search->judged_count; i++) {
        const struct fact_judged *judged = &search->judged[i].fact;
        at[judged->attempt.trial] = is_result_at(search, &halving, judged, length) ? i + 1 : at[judged->attempt.trial];
    }
    for (uint32_t t = 0; is_made && t < search->trial_count; t++) {
        count += observe(experiment, &halving, t, at[t], parameters, &observations[count]);
    }
    if (is_made) {
        count = tpe_keep_good(&space, observations, count, trial);
        is_made = tpe_draw(&space, observations, count, config->smaller_is_better, startup, config->seed, trial, room, room_bytes, point) == 0;
    }
    arena_give(&core->arena, observations, search->trial_count * sizeof *observations);
    arena_give(&core->arena, at, search->trial_count * sizeof *at);
    arena_give(&core->arena, room, room_bytes);
    core->counters.full += !is_made;
    return is_made;
}

/* ---- pbt ------------------------------------------------------------------------------------------------------------- */

/* The values of the trial's parent, as the state has them; NULL: it never had any. */
static const double *values_of_parent(const struct view_experiment *experiment, uint32_t parent, uint32_t parameters)
{
    const struct view_search *search = &experiment->search;
    const struct view_judged *judged = view_search_last(experiment, parent);
    const struct view_created *created = judged != NULL ? view_search_created(experiment, &judged->fact.attempt) : NULL;
    if (created == NULL && search->trials[parent].created > 0) {
        created = &search->created[search->trials[parent].created - 1];
    }
    return created != NULL && created->point_count == parameters ? created->point : NULL;
}

/* A trial of the first generation has random values, a later one those of its parent: as they are if the parent is the same member, else
 * with changes. `out` gets the parent, too. False: the parent is not known yet. */
static bool draw_population(const struct view_experiment *experiment, uint32_t trial, struct fact_draw *out)
{
    const struct config *config = experiment->config;
    const struct search_space space = config_search_space(config);
    const struct pbt_explore explore = {config->resample_probability, config->perturb_factor};
    if (!view_population_has_parent(experiment, trial)) {
        return false;
    }
    uint32_t parent = experiment->search.trials[trial].parent;
    bool is_same = parent != FACT_NO_TRIAL && parent % config->population_size == trial % config->population_size;
    const double *from = parent != FACT_NO_TRIAL ? values_of_parent(experiment, parent, out->count) : NULL;
    out->parent = parent;
    if (from == NULL) {
        return search_trial_point(&space, config->seed, trial, out->point) == 0;
    }
    if (is_same) {
        memcpy(out->point, from, out->count * sizeof out->point[0]);
        return true;
    }
    return pbt_explore(&space, &explore, from, config->seed, trial, out->point) == 0;
}

/* ---- the values of an attempt ------------------------------------------------------------------------------------------ */

static uint32_t parameter_count(const struct search_space *space)
{
    struct pack_reader reader;
    struct search_head head;
    uint32_t count = 0;
    pack_reader_init(&reader, space->bytes, space->byte_count);
    return search_head_read(&reader, &head, &count) == 0 ? count : 0;
}

static bool take_over(const struct search_space *space, uint32_t count, const double *point, uint32_t parent, struct fact_draw *out)
{
    if (count == 0 || count > FACT_POINT_MAX || !search_point_fits(space, point, count)) {
        return false;
    }
    out->count = count;
    out->parent = parent;
    memcpy(out->point, point, count * sizeof out->point[0]);
    return true;
}

/* The values that the trial has by its attempts, else by the log alone: its first attempt never came to be. */
static bool find_values(const struct view_experiment *experiment, const struct search_space *space, uint32_t trial,
                        struct fact_draw *out)
{
    const struct view_search *search = &experiment->search;
    const struct view_attempt *valued = view_trial_valued(view_find_trial(experiment, trial));
    const struct view_created *created =
        search->trials[trial].created > 0 ? &search->created[search->trials[trial].created - 1] : NULL;
    if (valued != NULL && take_over(space, valued->point_count, valued->point, valued->parent, out)) {
        return true;
    }
    return created != NULL && take_over(space, created->point_count, created->point, created->parent, out);
}

bool draw_attempt(struct node_core *core, struct core_coordination *coordination, const attempt_id *attempt, struct fact_draw *out)
{
    struct view_experiment *experiment = view_find_experiment(&core->view, attempt->experiment);
    if (!search_log_make_ready(core, coordination, experiment) || attempt->trial >= experiment->search.trial_count) {
        return false;
    }
    const struct search_space space = config_search_space(experiment->config);
    struct fact_created created = {.attempt = *attempt};
    uint32_t count = parameter_count(&space);
    if (count > FACT_POINT_MAX) {
        return false;
    }
    created.is_drawn = !find_values(experiment, &space, attempt->trial, &created.draw) ||
                       BUG(values_drawn_again, "a trial keeps its values from attempt to attempt");
    if (created.is_drawn && experiment->is_custom) {
        return false; /* what its program has said does not fit into the space: another node's bytes */
    }
    if (created.is_drawn) {
        created.draw.count = count;
        created.draw.parent = FACT_NO_TRIAL;
        bool is_population = experiment->config->searcher == SEARCH_PBT;
        if (is_population ? !draw_population(experiment, attempt->trial, &created.draw)
                          : !draw_tpe(core, experiment, attempt->trial, count, created.draw.point)) {
            return false;
        }
    } else {
        MARK(values_taken_over);
    }
    bool is_unwritten = experiment->is_custom &&
                        BUG(custom_values_unwritten, "the values of an attempt stand in the log before the attempt is made");
    if (count > 0 && !is_unwritten && !search_put_created(core, coordination, experiment, &created)) {
        return false;
    }
    *out = created.draw;
    return true;
}
