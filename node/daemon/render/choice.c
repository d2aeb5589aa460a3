#include "node/daemon/render/choice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "node/daemon/render/rows.h"

bool render_sort_of(const char *name, enum render_sort *out)
{
    static const char *const names[] = {[RENDER_BY_INDEX] = "index",
                                        [RENDER_BY_STATE] = "state",
                                        [RENDER_BY_STEP] = "step",
                                        [RENDER_BY_METRIC] = "metric",
                                        [RENDER_BY_START] = "started_s"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (enum render_sort)i;
            return true;
        }
    }
    return false;
}

/* Whether the name is one of a list with commas. */
static bool is_wanted(const char *states, const char *name)
{
    size_t bytes = strlen(name);
    while (*states != '\0') {
        size_t next = strcspn(states, ",");
        if (next == bytes && memcmp(states, name, bytes) == 0) {
            return true;
        }
        states += next + (states[next] == ',');
    }
    return false;
}

/* What the trial is sorted by; NaN: it has no such number. */
static double key_of(const struct node_core *core, const struct view_experiment *experiment,
                     const struct view_trial *trial, enum view_trial_state state, enum render_sort sort)
{
    const struct view_attempt *shown = trial != NULL && sort != RENDER_BY_STATE ? render_shown_attempt(trial) : NULL;
    uint8_t metrics[FACT_METRICS_BYTES_MAX];
    double value;
    switch (sort) {
    case RENDER_BY_INDEX:
        break;
    case RENDER_BY_STATE:
        return (double)state;
    case RENDER_BY_STEP:
        return shown != NULL ? (double)render_attempt_step(shown) : (double)NAN;
    case RENDER_BY_START: {
        uint64_t started_s = shown != NULL ? render_attempt_times(core, shown).started_s : 0;
        return started_s != 0 ? (double)started_s : (double)NAN;
    }
    case RENDER_BY_METRIC: {
        uint32_t bytes = shown != NULL ? view_attempt_metrics(node_core_view(core), experiment, shown, metrics) : 0;
        return view_metric(metrics, bytes, "validation", experiment->config->metric, &value) ? value : (double)NAN;
    }
    }
    return 0;
}

/* What an order of trials goes by. */
struct keys {
    const double *of;
    bool descending;
};

static int by_key(const void *a, const void *b, void *context)
{
    const struct keys *keys = context;
    uint32_t trial = *(const uint32_t *)a, other = *(const uint32_t *)b;
    double one = keys->of[trial], two = keys->of[other];
    if (isnan(one) != isnan(two)) {
        return isnan(one) ? 1 : -1;
    }
    if (!isnan(one) && one != two) {
        return (one < two) == keys->descending ? 1 : -1;
    }
    return trial < other ? -1 : trial > other;
}

struct render_choice render_choose(const struct node_core *core, const struct view_experiment *experiment,
                                   const struct render_wish *wish, uint32_t *trials, double *keys)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < experiment->trial_count; i++) {
        const struct view_trial *trial = view_find_trial(experiment, i);
        enum view_trial_state state = render_trial_state(experiment, i);
        if (wish->states[0] != '\0' && !is_wanted(wish->states, render_trial_state_name(experiment, trial, state))) {
            continue;
        }
        if (wish->sort != RENDER_BY_INDEX) {
            keys[i] = key_of(core, experiment, trial, state, wish->sort);
        }
        trials[count++] = i;
    }
    if (wish->sort != RENDER_BY_INDEX) {
        struct keys order = {keys, wish->descending};
        qsort_r(trials, count, sizeof *trials, by_key, &order);
    } else if (wish->descending) {
        for (uint32_t i = 0; i < count / 2; i++) {
            uint32_t moved = trials[i];
            trials[i] = trials[count - 1 - i];
            trials[count - 1 - i] = moved;
        }
    }
    uint32_t from = wish->from < count ? wish->from : count;
    uint32_t left = count - from;
    return (struct render_choice){.trials = trials + from,
                                  .count = wish->limit != 0 && wish->limit < left ? wish->limit : left,
                                  .matching = count};
}
