#include "node/daemon/render/choice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "node/daemon/render/rows.h"

#define TRIALS_A_STEP 16       /* whose hyperparameters are drawn */
#define PLAIN_TRIALS_A_STEP 256 /* of which only what is in the records is wanted */
#define COMPARISONS_A_STEP 4096
#define NAMES_MAX (WHERE_CONDITIONS_MAX + 1)

bool render_sort_of(const char *name, struct render_wish *out)
{
    static const char *const names[] = {[RENDER_BY_INDEX] = "index",
                                        [RENDER_BY_STATE] = "state",
                                        [RENDER_BY_STEP] = "step",
                                        [RENDER_BY_METRIC] = "metric",
                                        [RENDER_BY_START] = "started_s"};
    size_t prefix = strlen(WHERE_PREFIX);
    if (strncmp(name, WHERE_PREFIX, prefix) == 0 && name[prefix] != '\0' && strlen(name + prefix) < sizeof out->hyperparameter) {
        out->sort = RENDER_BY_HYPERPARAMETER;
        bytes_copy_text(out->hyperparameter, sizeof out->hyperparameter, name + prefix);
        return true;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            out->sort = (enum render_sort)i;
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
    case RENDER_BY_HYPERPARAMETER:
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

/* ---- the chooser -------------------------------------------------------------------------------------------------- */

struct render_chooser {
    struct render_wish wish;
    struct where where;
    bool has_values;       /* hyperparameters are wanted */
    bool any_has_values;   /* of any trial */
    bool is_known[NAMES_MAX]; /* whether any trial has the hyperparameter of the condition; the last: of the sort */
    uint32_t trial_count, at; /* `at`: the next trial to look at */
    uint32_t count;           /* trials that match so far */
    /* A merge sort from below: runs of `width` trials, of which those from `left` on are merged into the other half. `next` counts what
     * has come from either run. */
    uint32_t width, left, next[2];
    bool is_made;
    struct render_choice choice;
    uint32_t *trials, *merged;
    double *keys; /* by trial */
    uint8_t values[SEARCH_VALUES_BYTES_MAX];
};

struct render_chooser *render_chooser_new(const struct view_experiment *experiment, const struct render_wish *wish)
{
    char error[WHERE_ERROR_BYTES];
    size_t trials = experiment->trial_count;
    struct render_chooser *chooser = calloc(1, sizeof *chooser);
    double *keys = malloc((trials + 1) * (sizeof *keys + 2 * sizeof(uint32_t)));
    if (chooser == NULL || keys == NULL) {
        free(chooser);
        free(keys);
        return NULL;
    }
    chooser->wish = *wish;
    (void)where_read(wish->where, &chooser->where, error); /* the wish has been checked */
    chooser->has_values = wish->sort == RENDER_BY_HYPERPARAMETER;
    for (uint32_t i = 0; i < chooser->where.count; i++) {
        chooser->has_values |= chooser->where.items[i].subject == WHERE_HYPERPARAMETER;
    }
    chooser->trial_count = experiment->trial_count;
    chooser->keys = keys;
    chooser->trials = (uint32_t *)(keys + trials + 1);
    chooser->merged = chooser->trials + trials;
    chooser->width = 1;
    return chooser;
}

void render_chooser_free(struct render_chooser *chooser)
{
    if (chooser != NULL) {
        free(chooser->keys);
        free(chooser);
    }
}

/* What of a trial a condition is about. */
static struct where_value value_of(struct render_chooser *chooser, const struct node_core *core, const struct view_experiment *experiment,
                                   uint32_t index, size_t bytes, uint32_t condition)
{
    const struct where_condition *wanted = &chooser->where.items[condition];
    if (wanted->subject == WHERE_HYPERPARAMETER) {
        struct where_value value = where_find(chooser->values, bytes, wanted->name);
        chooser->is_known[condition] |= value.kind != WHERE_ABSENT;
        return value;
    }
    enum render_sort sort = wanted->subject == WHERE_METRIC ? RENDER_BY_METRIC : RENDER_BY_STEP;
    double number = wanted->subject == WHERE_INDEX
                        ? (double)index
                        : key_of(core, experiment, view_find_trial(experiment, index), VIEW_TRIAL_QUEUED, sort);
    return (struct where_value){.kind = WHERE_NUMBER, .number = number};
}

/* Looks at one trial: whether it matches, and what it is sorted by. */
static void look_at(struct render_chooser *chooser, const struct node_core *core, const struct view_experiment *experiment,
                    const struct config *config, uint32_t index)
{
    const struct render_wish *wish = &chooser->wish;
    const struct view_trial *trial = view_find_trial(experiment, index);
    enum view_trial_state state = render_trial_state(experiment, index);
    struct pack_writer values;
    if (wish->states[0] != '\0' && !is_wanted(wish->states, render_trial_state_name(experiment, trial, state))) {
        return;
    }
    pack_writer_init(&values, chooser->values, sizeof chooser->values);
    bool has_values = chooser->has_values && config != NULL && view_attempt_values(config, view_trial_valued(trial), index, &values) == 0;
    size_t bytes = has_values ? values.used_bytes : 0;
    chooser->any_has_values |= has_values;
    bool passes = true;
    for (uint32_t i = 0; i < chooser->where.count; i++) { /* all: which names are known is asked of each */
        passes &= where_passes(&chooser->where.items[i], value_of(chooser, core, experiment, index, bytes, i));
    }
    if (wish->sort == RENDER_BY_HYPERPARAMETER) {
        struct where_value value = where_find(chooser->values, bytes, wish->hyperparameter);
        chooser->is_known[WHERE_CONDITIONS_MAX] |= value.kind != WHERE_ABSENT;
        chooser->keys[index] = where_key(value);
    } else if (wish->sort != RENDER_BY_INDEX && passes) {
        chooser->keys[index] = key_of(core, experiment, trial, state, wish->sort);
    }
    if (passes) {
        chooser->trials[chooser->count++] = index;
    }
}

/* Whether the trial stands before the other one. */
static bool is_before(const struct render_chooser *chooser, uint32_t trial, uint32_t other)
{
    double one = chooser->keys[trial], two = chooser->keys[other];
    if (isnan(one) != isnan(two)) {
        return isnan(two);
    }
    if (!isnan(one) && (one < two || one > two)) {
        return (one < two) != chooser->wish.descending;
    }
    return trial < other;
}

static void merge_some(struct render_chooser *chooser)
{
    for (uint32_t i = 0; i < COMPARISONS_A_STEP && chooser->width < chooser->count; i++) {
        uint32_t left = chooser->left, middle = left + chooser->width, end = middle + chooser->width;
        middle = middle < chooser->count ? middle : chooser->count;
        end = end < chooser->count ? end : chooser->count;
        uint32_t one = left + chooser->next[0], two = middle + chooser->next[1];
        bool takes_two = one == middle || (two < end && is_before(chooser, chooser->trials[two], chooser->trials[one]));
        chooser->merged[one + two - middle] = chooser->trials[takes_two ? two : one];
        chooser->next[takes_two]++;
        if (one + two - middle + 1 < end) {
            continue;
        }
        chooser->next[0] = chooser->next[1] = 0;
        chooser->left = end;
        if (end == chooser->count) { /* all runs of this width are merged in pairs */
            uint32_t *sorted = chooser->merged;
            chooser->merged = chooser->trials;
            chooser->trials = sorted;
            chooser->left = 0;
            chooser->width *= 2;
        }
    }
}

static void turn(struct render_chooser *chooser)
{
    for (uint32_t i = 0; i < chooser->count / 2; i++) {
        uint32_t moved = chooser->trials[i];
        chooser->trials[i] = chooser->trials[chooser->count - 1 - i];
        chooser->trials[chooser->count - 1 - i] = moved;
    }
}

static void cut(struct render_chooser *chooser)
{
    const struct render_wish *wish = &chooser->wish;
    uint32_t from = wish->from < chooser->count ? wish->from : chooser->count, left = chooser->count - from;
    chooser->choice = (struct render_choice){.trials = chooser->trials + from,
                                             .count = wish->limit != 0 && wish->limit < left ? wish->limit : left,
                                             .matching = chooser->count};
    chooser->is_made = true;
}

bool render_chooser_step(struct render_chooser *chooser, const struct node_core *core, const struct view_experiment *experiment,
                         const struct config *config)
{
    uint32_t trials = chooser->trial_count < experiment->trial_count ? chooser->trial_count : experiment->trial_count;
    bool is_sorted = chooser->wish.sort == RENDER_BY_INDEX;
    if (chooser->at < trials) {
        uint32_t step = chooser->has_values ? TRIALS_A_STEP : PLAIN_TRIALS_A_STEP;
        for (uint32_t i = 0; i < step && chooser->at < trials; i++) {
            look_at(chooser, core, experiment, config, chooser->at++);
        }
    } else if (!is_sorted && chooser->width < chooser->count) {
        merge_some(chooser);
    } else if (!chooser->is_made) {
        if (is_sorted && chooser->wish.descending) {
            turn(chooser);
        }
        cut(chooser);
    }
    return !chooser->is_made;
}

const struct render_choice *render_chooser_choice(const struct render_chooser *chooser)
{
    CHECK(chooser->is_made);
    return &chooser->choice;
}

const char *render_chooser_unknown(const struct render_chooser *chooser)
{
    for (uint32_t i = 0; i < chooser->where.count && chooser->any_has_values; i++) {
        if (chooser->where.items[i].subject == WHERE_HYPERPARAMETER && !chooser->is_known[i]) {
            return chooser->where.items[i].name;
        }
    }
    bool lacks_sort = chooser->wish.sort == RENDER_BY_HYPERPARAMETER && !chooser->is_known[WHERE_CONDITIONS_MAX];
    return lacks_sort && chooser->any_has_values ? chooser->wish.hyperparameter : NULL;
}
