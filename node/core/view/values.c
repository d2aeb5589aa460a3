/* The values of a trial: they follow from its number, or belong to its attempts (struct fact_draw). */

#include "node/core/view/view.h"

#include <math.h> /* isnan only */

#include "base/err.h"
#include "base/probe.h"

bool view_draw_is_same(uint32_t count, const double *point, uint32_t parent, uint32_t other_count, const double *other,
                       uint32_t other_parent)
{
    bool is_same = count == other_count && (count == 0 || parent == other_parent);
    for (uint32_t i = 0; i < count && is_same; i++) {
        is_same = point[i] == other[i] || (isnan(point[i]) && isnan(other[i]));
    }
    return is_same;
}

uint64_t view_attempt_draw(const struct view_attempt *attempt)
{
    return fact_draw_mark(attempt->point_count, attempt->point, attempt->parent);
}

bool view_result_counts(const struct view_attempt *attempt, const struct view_result *result)
{
    return result->fact.draw == 0 || result->fact.draw == view_attempt_draw(attempt) ||
           BUG(values_mixed, "what was made with other values than the trial's is not gone on from");
}

const struct view_attempt *view_trial_valued(const struct view_trial *trial)
{
    const struct view_attempt *completed = trial != NULL ? view_trial_completed(trial) : NULL;
    return completed != NULL ? completed : trial != NULL ? view_trial_highest(trial) : NULL;
}

bool view_trial_continues(const struct view_trial *trial, const attempt_id *attempt)
{
    const struct view_attempt *valued = NULL, *other = trial->attempts;
    for (const struct view_attempt *a = trial->attempts; a != NULL && valued == NULL; a = a->next) {
        valued = a->point_count > 0 ? view_trial_valued(trial) : NULL;
    }
    if (valued == NULL || valued->point_count == 0 || BUG(values_mixed, "what was made with other values than the trial's is not gone on from")) {
        return true;
    }
    while (other != NULL && !attempt_id_equal(&other->id, attempt)) {
        other = other->next;
    }
    return other != NULL && view_draw_is_same(valued->point_count, valued->point, valued->parent, other->point_count, other->point,
                                              other->parent);
}

/* The values in an attempt's record, which may come from any peer. */
static int drawn_values(const struct search_space *space, const struct view_attempt *attempt, struct pack_writer *writer)
{
    if (attempt == NULL || attempt->point_count == 0) {
        return ERR_NOT_FOUND;
    }
    return search_point_fits(space, attempt->point, attempt->point_count) ? search_point_pack(space, attempt->point, writer)
                                                                          : ERR_MALFORMED;
}

int view_attempt_values(const struct config *config, const struct view_attempt *attempt, uint32_t index, struct pack_writer *writer)
{
    struct search_space space = config_search_space(config);
    return config_is_drawn(config) ? drawn_values(&space, attempt, writer) : search_trial_values(&space, config->seed, index, writer);
}
