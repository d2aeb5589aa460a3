/* Trials as data: what the document says of each, the hyperparameters that differ, and the order. */

#include "tools/shoal/trials.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/document.h"
#include "base/visible.h"
#include "tools/shoal/print.h"

#define TRIALS_MAX 100000

/* ---- hyperparameters ----------------------------------------------------------------------------------------------- */

static bool is_branch(const msgpack_object *value)
{
    return value->type == MSGPACK_OBJECT_MAP && value->via.map.size > 0;
}

void parameter_name(const struct parameter *parameter, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < parameter->depth && used + 16 < size; i++) {
        char key[96];
        const msgpack_object_str *text = &parameter->keys[i]->via.str;
        (void)snprintf(key, sizeof key, "%.*s", (int)text->size, text->ptr);
        if (i > 0) {
            out[used++] = '.';
        }
        used += visible_text(out + used, size - used, key);
    }
}

static const msgpack_object *value_of_key(const msgpack_object *map, const msgpack_object *key)
{
    static const msgpack_object none = {.type = MSGPACK_OBJECT_NIL};
    msgpack_object_map pairs = document_pairs(map);
    for (uint32_t i = 0; i < pairs.size; i++) {
        if (msgpack_object_equal(pairs.ptr[i].key, *key)) {
            return &pairs.ptr[i].val;
        }
    }
    return &none;
}

const msgpack_object *parameter_value(const struct parameter *parameter, const msgpack_object *hyperparameters)
{
    const msgpack_object *at = hyperparameters;
    for (size_t i = 0; i < parameter->depth; i++) {
        at = value_of_key(at, parameter->keys[i]);
    }
    return at;
}

static bool is_same(const struct parameter *parameter, const msgpack_object *const *keys, size_t depth)
{
    bool same = parameter->depth == depth;
    for (size_t i = 0; same && i < depth; i++) {
        same = msgpack_object_equal(*parameter->keys[i], *keys[i]);
    }
    return same;
}

static void take_leaf(struct trials *trials, const msgpack_object *const *keys, size_t depth, const msgpack_object *value)
{
    for (size_t i = 0; i < trials->parameter_count; i++) {
        struct parameter *known = &trials->parameters[i];
        if (is_same(known, keys, depth)) {
            known->trials++;
            known->differs |= !msgpack_object_equal(*known->value, *value);
            return;
        }
    }
    if (trials->parameter_count < PARAMETERS_MAX) {
        struct parameter *fresh = &trials->parameters[trials->parameter_count++];
        *fresh = (struct parameter){.depth = depth, .value = value, .trials = 1};
        memcpy(fresh->keys, keys, depth * sizeof(const msgpack_object *));
    }
}

static void take_leaves(struct trials *trials, const msgpack_object *map, const msgpack_object **keys, size_t depth)
{
    msgpack_object_map pairs = document_pairs(map);
    for (uint32_t i = 0; i < pairs.size; i++) {
        if (pairs.ptr[i].key.type != MSGPACK_OBJECT_STR) {
            continue;
        }
        keys[depth] = &pairs.ptr[i].key;
        if (is_branch(&pairs.ptr[i].val) && depth + 1 < PARAMETER_DEPTH_MAX) {
            take_leaves(trials, &pairs.ptr[i].val, keys, depth + 1);
        } else {
            take_leaf(trials, keys, depth + 1, &pairs.ptr[i].val);
        }
    }
}

/* Trials whose hyperparameters are not known here do not count. */
static void read_parameters(struct trials *trials)
{
    const msgpack_object *keys[PARAMETER_DEPTH_MAX];
    uint32_t known = 0;
    for (size_t i = 0; i < trials->count; i++) {
        const msgpack_object *map = document_find(trials->items[i].row, "hyperparameters");
        known += map->type == MSGPACK_OBJECT_MAP;
        take_leaves(trials, map, keys, 0);
    }
    for (size_t i = 0; i < trials->parameter_count; i++) {
        trials->parameters[i].differs |= trials->parameters[i].trials < known;
    }
}

/* ---- one trial ----------------------------------------------------------------------------------------------------- */

/* The number under one of these names in any group of metrics. */
static bool find_metric(const msgpack_object *trial, const char *const *names, double *out)
{
    msgpack_object_map groups = document_pairs(document_find(trial, "metrics"));
    for (uint32_t g = 0; g < groups.size; g++) {
        for (size_t i = 0; names[i] != NULL; i++) {
            if (document_double(document_find(&groups.ptr[g].val, names[i]), out) && isfinite(*out)) {
                return true;
            }
        }
    }
    return false;
}

static const char *const sample_names[] = {"samples_per_second", "train_samples_per_second", "samples_per_s", "images_per_second",
                                           "tokens_per_second", NULL};
static const char *const progress_names[] = {"progress", NULL};
static const char *const length_names[] = {"max_steps", "total_steps", "num_steps", "steps", NULL};

static void read_elapsed(struct trial_facts *facts, uint64_t now_s)
{
    uint64_t started_s = document_number(facts->row, "started_s"), ended_s = document_number(facts->row, "ended_s");
    uint64_t until_s = ended_s > 0 ? ended_s : facts->runs ? now_s : started_s;
    facts->has_elapsed = started_s > 0;
    facts->elapsed_s = document_number(facts->row, "before_s") + (until_s > started_s ? until_s - started_s : 0);
}

/* The speed as this node has seen it of late, else over the whole time. */
static void read_rate(const struct trials *trials, struct trial_facts *facts)
{
    double rate;
    bool is_average = facts->has_elapsed && facts->elapsed_s > 0 && facts->step > 0;
    if (trials->rates_are_samples) {
        facts->has_rate = find_metric(facts->row, sample_names, &facts->rate);
    } else if (facts->runs && facts->curve != NULL && document_double(document_find(facts->curve, "rate"), &rate)) {
        facts->has_rate = true;
        facts->rate = rate;
    } else if (is_average) {
        facts->has_rate = true;
        facts->rate = (double)facts->step / (double)facts->elapsed_s;
    }
}

/* The part of the work that is done, as the program reports it under the name "progress", or by the hyperparameter that gives the
 * number of steps. */
static bool find_done(const struct trial_facts *facts, double *done)
{
    const msgpack_object *hyperparameters = document_find(facts->row, "hyperparameters");
    double length;
    if (find_metric(facts->row, progress_names, done)) {
        return *done > 0 && *done <= 1;
    }
    for (size_t i = 0; length_names[i] != NULL; i++) {
        if (document_double(document_find(hyperparameters, length_names[i]), &length) && length >= 1 && (double)facts->step <= length) {
            *done = (double)facts->step / length;
            return facts->step > 0;
        }
    }
    return false;
}

static void read_left(const struct trials *trials, struct trial_facts *facts)
{
    double done;
    if (!facts->runs || !find_done(facts, &done)) {
        return;
    }
    double left_s = -1;
    if (facts->step > 0 && facts->has_rate && facts->rate > 0 && !trials->rates_are_samples) {
        left_s = ((double)facts->step / done - (double)facts->step) / facts->rate;
    } else if (facts->has_elapsed) {
        left_s = (double)facts->elapsed_s * (1 - done) / done;
    }
    facts->has_left = left_s >= 0 && left_s < 1e9;
    facts->left_s = facts->has_left ? (uint64_t)(left_s + 0.5) : 0;
}

static bool is_better(const struct trials *trials, double value, double than)
{
    return trials->smaller_is_better ? value < than : value > than;
}

static void read_values(const struct trials *trials, struct trial_facts *facts)
{
    double value;
    facts->has_value = trials->metric[0] != '\0' && print_metric(facts->row, "validation", trials->metric, &facts->value);
    facts->has_best = facts->curve != NULL && document_double(document_find(facts->curve, "best"), &value);
    facts->best = facts->has_best ? value : 0;
    if (facts->has_value && isfinite(facts->value) && (!facts->has_best || is_better(trials, facts->value, facts->best))) {
        facts->has_best = true;
        facts->best = facts->value;
    }
}

static bool runs_now(const char *state)
{
    return strcmp(state, "running") == 0 || strcmp(state, "stopping") == 0;
}

static void read_trial(const struct trials *trials, struct trial_facts *facts, uint64_t now_s)
{
    const msgpack_object *best = document_find(trials->experiment, "best");
    facts->index = document_number(facts->row, "index");
    facts->step = document_number(facts->row, "step");
    document_text(facts->row, "state", facts->state, sizeof facts->state);
    facts->runs = runs_now(facts->state);
    facts->is_best = document_has(trials->experiment, "best") && document_number(best, "trial") == facts->index;
    read_elapsed(facts, now_s);
    read_values(trials, facts);
    read_rate(trials, facts);
    read_left(trials, facts);
}

void trials_points(const struct trial_facts *facts, struct curve_points *out)
{
    memset(out, 0, sizeof *out);
    if (facts->curve == NULL) {
        return;
    }
    msgpack_object_array steps = document_list(facts->curve, "steps"), values = document_list(facts->curve, "values");
    for (uint32_t i = 0; i < steps.size && i < values.size; i++) {
        double step, value;
        if (document_double(&steps.ptr[i], &step) && step >= 0 && document_double(&values.ptr[i], &value)) {
            curve_points_add(out, (uint64_t)step, value);
        }
    }
}

/* ---- all trials ---------------------------------------------------------------------------------------------------- */

/* Both lists are in the order of the trials' numbers. */
static void match_curves(struct trials *trials, msgpack_object_array curves)
{
    uint32_t at = 0;
    for (size_t i = 0; i < trials->count; i++) {
        uint64_t index = document_number(trials->items[i].row, "index");
        while (at < curves.size && document_number(&curves.ptr[at], "index") < index) {
            at++;
        }
        bool is_its = at < curves.size && document_number(&curves.ptr[at], "index") == index;
        trials->items[i].curve = is_its ? &curves.ptr[at] : NULL;
    }
}

static bool read_rows(const msgpack_object *document, const msgpack_object *rows, uint32_t count, uint64_t now_s, struct trials *out)
{
    memset(out, 0, sizeof *out);
    out->experiment = document_find(document, "experiment");
    document_text(out->experiment, "metric", out->metric, sizeof out->metric);
    out->smaller_is_better = document_true(out->experiment, "smaller_is_better");
    out->replicas = document_number(out->experiment, "replicas");
    out->items = calloc(count > 0 ? count : 1, sizeof *out->items);
    if (out->items == NULL) {
        return false;
    }
    out->count = count;
    for (size_t i = 0; i < count; i++) {
        double rate;
        out->items[i].row = &rows[i];
        out->rates_are_samples |= find_metric(&rows[i], sample_names, &rate);
    }
    match_curves(out, document_list(document, "curves"));
    for (size_t i = 0; i < count; i++) {
        read_trial(out, &out->items[i], now_s);
    }
    read_parameters(out);
    return true;
}

bool trials_read(const msgpack_object *document, uint64_t now_s, struct trials *out)
{
    msgpack_object_array list = document_list(document_find(document, "experiment"), "trials");
    return read_rows(document, list.ptr, list.size < TRIALS_MAX ? list.size : TRIALS_MAX, now_s, out);
}

bool trials_read_one(const msgpack_object *document, uint64_t now_s, struct trials *out)
{
    return read_rows(document, document_find(document, "trial"), 1, now_s, out);
}

void trials_free(struct trials *trials)
{
    free(trials->items);
    trials->items = NULL;
    trials->count = 0;
}

/* ---- the order ----------------------------------------------------------------------------------------------------- */

/* The order of states: what runs, what has failed, what is done, the rest. */
static int rank_of(const char *state)
{
    return runs_now(state)                    ? 0
           : strcmp(state, "failed") == 0    ? 1
           : strcmp(state, "completed") == 0 ? 2
           : strcmp(state, "stopped") == 0   ? 3
                                             : 4;
}

/* What one trial is compared by: a number, or the text of a value that is none. */
struct sort_item {
    bool is_known;
    double number;
    char text[48];
    struct trial_facts facts;
};

static int compare(const void *left, const void *right)
{
    const struct sort_item *a = left, *b = right;
    if (a->is_known != b->is_known) {
        return a->is_known ? -1 : 1;
    }
    int by_text = strcmp(a->text, b->text);
    return a->number < b->number   ? -1
           : a->number > b->number ? 1
           : by_text != 0          ? by_text
                                   : (a->facts.index > b->facts.index) - (a->facts.index < b->facts.index);
}

static int compare_turned(const void *left, const void *right)
{
    const struct sort_item *a = left, *b = right;
    return a->is_known == b->is_known ? compare(right, left) : compare(left, right);
}

static void take_number(struct sort_item *item, bool is_known, double number)
{
    item->is_known = is_known && !isnan(number);
    item->number = item->is_known ? number : 0;
}

static bool take_column(const struct trials *trials, const char *key, const struct trial_facts *facts, struct sort_item *item)
{
    const double sign = trials->smaller_is_better ? 1 : -1;
    if (strcmp(key, "trial") == 0) {
        take_number(item, true, (double)facts->index);
    } else if (strcmp(key, "state") == 0) {
        take_number(item, true, rank_of(facts->state));
    } else if (strcmp(key, "value") == 0) {
        take_number(item, facts->has_value, sign * facts->value);
    } else if (strcmp(key, "best") == 0) {
        take_number(item, facts->has_best, sign * facts->best);
    } else if (strcmp(key, "step") == 0) {
        take_number(item, document_has(facts->row, "step"), -(double)facts->step);
    } else if (strcmp(key, "elapsed") == 0) {
        take_number(item, facts->has_elapsed, -(double)facts->elapsed_s);
    } else if (strcmp(key, "rate") == 0) {
        take_number(item, facts->has_rate, -facts->rate);
    } else if (strcmp(key, "left") == 0) {
        take_number(item, facts->has_left, (double)facts->left_s);
    } else if (strcmp(key, "attempt") == 0 || strcmp(key, "restarts") == 0) {
        take_number(item, document_has(facts->row, key), -(double)document_number(facts->row, key));
    } else if (strcmp(key, "description") == 0) {
        item->is_known = document_has(facts->row, key);
        document_text(facts->row, key, item->text, sizeof item->text);
    } else {
        return false;
    }
    return true;
}

static bool take_metric(const char *key, const struct trial_facts *facts, struct sort_item *item)
{
    msgpack_object_map groups = document_pairs(document_find(facts->row, "metrics"));
    const char *slash = strchr(key, '/');
    double number;
    for (uint32_t g = 0; g < groups.size; g++) {
        const msgpack_object_str *group = &groups.ptr[g].key.via.str;
        bool is_group = slash == NULL || (groups.ptr[g].key.type == MSGPACK_OBJECT_STR && group->size == (size_t)(slash - key) &&
                                          memcmp(group->ptr, key, group->size) == 0);
        if (is_group && document_double(document_find(&groups.ptr[g].val, slash == NULL ? key : slash + 1), &number)) {
            take_number(item, true, number);
            return true;
        }
    }
    return false;
}

static const struct parameter *find_parameter(const struct trials *trials, const char *key)
{
    for (size_t i = 0; i < trials->parameter_count; i++) {
        char name[256];
        parameter_name(&trials->parameters[i], name, sizeof name);
        if (strcmp(name, key) == 0) {
            return &trials->parameters[i];
        }
    }
    return NULL;
}

static void take_parameter(const struct parameter *parameter, const struct trial_facts *facts, struct sort_item *item)
{
    const msgpack_object *value = parameter_value(parameter, document_find(facts->row, "hyperparameters"));
    double number;
    item->is_known = value->type != MSGPACK_OBJECT_NIL;
    if (document_double(value, &number)) {
        take_number(item, true, number);
    } else if (item->is_known) {
        document_value(value, item->text, sizeof item->text);
    }
}

bool trials_sort(struct trials *trials, const char *key)
{
    bool is_turned = key[0] == '-', is_there = false;
    struct sort_item *items = calloc(trials->count > 0 ? trials->count : 1, sizeof *items);
    key += is_turned;
    bool is_named = strncmp(key, "hp.", 3) == 0; /* a hyperparameter, even of a column's name */
    const struct parameter *parameter = find_parameter(trials, is_named ? key + 3 : key);
    for (size_t i = 0; items != NULL && i < trials->count; i++) {
        items[i].facts = trials->items[i];
        if (!is_named && take_column(trials, key, &trials->items[i], &items[i])) {
            is_there = true;
        } else if (parameter != NULL) {
            take_parameter(parameter, &trials->items[i], &items[i]);
            is_there = true;
        } else if (!is_named) {
            is_there |= take_metric(key, &trials->items[i], &items[i]);
        }
    }
    if (is_there) {
        qsort(items, trials->count, sizeof *items, is_turned ? compare_turned : compare);
        for (size_t i = 0; i < trials->count; i++) {
            trials->items[i] = items[i].facts;
        }
    }
    free(items);
    return is_there || trials->count == 0;
}

void trials_summary(const struct trials *trials, size_t first, char out[TRIALS_SUMMARY_BYTES])
{
    static const char *const states[] = {"completed", "running", "stopping", "failed", "stopped", "queued", "paused", "cancelled"};
    size_t used = 0;
    out[0] = '\0';
    for (size_t s = 0; s < sizeof states / sizeof states[0]; s++) {
        size_t count = 0;
        for (size_t i = first; i < trials->count; i++) {
            count += strcmp(trials->items[i].state, states[s]) == 0;
        }
        if (count > 0 && used < TRIALS_SUMMARY_BYTES) {
            used += (size_t)snprintf(out + used, TRIALS_SUMMARY_BYTES - used, "%s%zu %s", used > 0 ? ", " : "", count, states[s]);
        }
    }
}
