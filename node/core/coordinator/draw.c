#include "node/core/coordinator/draw.h"

#include "base/err.h"
#include "base/probe.h"
#include "node/core/coordinator/search.h"
#include "node/core/ground/publish.h"
#include "train/search/tpe.h"

/* ---- tpe ------------------------------------------------------------------------------------------------------------- */

/* What the state of the log says of a trial. False: nothing, or of values that the log does not have. */
static bool observe(const struct view_search *search, const struct view_experiment *experiment, uint32_t trial,
                    struct tpe_observation *out)
{
    const struct view_searched *row = &search->trials[trial];
    const struct view_created *created = row->created > 0 ? &search->created[row->created - 1] : NULL;
    const struct fact_judged *judged = row->last > 0 ? &search->judged[row->last - 1].fact : NULL;
    if (judged != NULL) {
        created = view_search_created(experiment, &judged->attempt);
    }
    if (created == NULL || (judged == NULL && BUG(running_unseen, "a draw knows the trials that run"))) {
        return false;
    }
    *out = (struct tpe_observation){.trial = trial,
                                    .state = judged != NULL ? TPE_COMPLETED : TPE_RUNNING,
                                    .metric = judged != NULL ? judged->metric : 0,
                                    .has_metric = judged != NULL,
                                    .point = created->point};
    return true;
}

/* Draws from the state. False: no memory. */
static bool draw_tpe(struct node_core *core, const struct view_experiment *experiment, uint32_t trial, uint32_t parameters, double *point)
{
    const struct view_search *search = &experiment->search;
    const struct config *config = experiment->config;
    const struct search_space space = config_search_space(config);
    size_t bytes = search->created_count * sizeof(struct tpe_observation), room_bytes = tpe_room_bytes(parameters, search->created_count);
    struct tpe_observation *observations = arena_take(&core->arena, bytes);
    void *room = arena_take(&core->arena, room_bytes);
    uint32_t count = 0;
    bool is_made = room != NULL && (observations != NULL || bytes == 0);
    for (uint32_t t = 0; is_made && bytes > 0 && t < search->trial_count; t++) {
        bool fits = observe(search, experiment, t, &observations[count]) && search->created_count > 0;
        count += fits;
        if (count == search->created_count) {
            break; /* a trial with an observation has an entry of its own */
        }
    }
    if (is_made) {
        count = tpe_keep_good(&space, observations, count, trial);
        is_made = tpe_draw(&space, observations, count, config->smaller_is_better, config->n_startup_trials, config->seed, trial, room,
                           room_bytes, point) == 0;
    }
    arena_give(&core->arena, observations, bytes);
    arena_give(&core->arena, room, room_bytes);
    core->counters.full += !is_made;
    return is_made;
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
    if (created.is_drawn) {
        created.draw.count = count;
        created.draw.parent = FACT_NO_TRIAL;
        if (!draw_tpe(core, experiment, attempt->trial, count, created.draw.point)) {
            return false;
        }
    } else {
        MARK(values_taken_over);
    }
    if (count > 0 && !search_put_created(core, coordination, experiment, &created)) {
        return false;
    }
    *out = created.draw;
    return true;
}
