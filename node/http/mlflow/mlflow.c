#include "node/http/mlflow/mlflow.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/document.h"
#include "base/err.h"
#include "node/http/answer.h"
#include "node/http/ask.h"
#include "node/http/mlflow/filter.h"
#include "node/http/mlflow/keys.h"
#include "node/http/mlflow/work.h"

#define API "/api/2.0/mlflow/"
#define ARTIFACTS "/api/2.0/mlflow-artifacts/artifacts"
#define VERSION "3.5.0" /* of the API that clients are told of */
#define RUNS_MAX 50000  /* of one answer, as MLflow's */
#define RUNS_STANDARD 1000
#define ORDERS_MAX 8

/* ---- experiments ----------------------------------------------------------------------------------------------- */

void work_add_tag(json_t *tags, const char *key, const char *value)
{
    (void)json_array_append_new(tags, json_pack("{s:s, s:s}", "key", key, "value", value));
}

json_t *work_experiment(const msgpack_object *row)
{
    char id[WORK_EXPERIMENT_BYTES], decimal[WORK_ID_BYTES], name[256], text[256], location[64];
    document_text(row, "id", id, sizeof id);
    document_text(row, "name", name, sizeof name);
    work_decimal(id, decimal);
    (void)snprintf(location, sizeof location, "mlflow-artifacts:/%s", decimal);
    json_t *tags = json_array();
    work_add_tag(tags, "shoal.experiment", id);
    document_text(row, "state", text, sizeof text);
    work_add_tag(tags, "shoal.state", text);
    document_text(row, "description", text, sizeof text);
    if (text[0] != '\0') {
        work_add_tag(tags, "mlflow.note.content", text);
    }
    msgpack_object_map labels = document_pairs(document_find(row, "labels"));
    for (uint32_t i = 0; i < labels.size; i++) {
        char key[128];
        document_value_text(&labels.ptr[i].key, key, sizeof key);
        document_value_text(&labels.ptr[i].val, text, sizeof text);
        work_add_tag(tags, key, text);
    }
    json_int_t at_ms = (json_int_t)document_number(row, "submitted_s") * 1000;
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:o}", "experiment_id", decimal, "name", name, "artifact_location",
                     location, "lifecycle_stage", document_true(row, "archived") ? "deleted" : "active",
                     "creation_time", at_ms, "last_update_time", at_ms, "tags", tags);
}

static bool get_experiment(struct work *work)
{
    msgpack_object list;
    const char *id = work_argument(work, "experiment_id"), *name = work_argument(work, "experiment_name");
    if (id == NULL && name == NULL) {
        return work_fail(work, 400, "INVALID_PARAMETER_VALUE", "The request lacks experiment_id, or experiment_name.");
    }
    char own_id[WORK_ID_BYTES];
    struct work_run own;
    bool is_own = name != NULL && work_own_trial(work, &own); /* whose program calls it by a name of its own */
    if (work->status != 200 || !work_ask(work, "ls", NULL, -1, &list)) {
        return false;
    }
    if (is_own) {
        work_decimal(own.experiment, own_id);
        id = own_id;
        if (!work_write_tag(work, &own, "mlflow.experimentName", name)) {
            return false;
        }
    }
    const msgpack_object *row = work_find_experiment(&list, id, name);
    if (row->type != MSGPACK_OBJECT_MAP) {
        return work_fail(work, 404, "RESOURCE_DOES_NOT_EXIST",
                    "There is no such experiment in the mesh; `shoal ls` lists them.");
    }
    work->answer = json_pack("{s:o}", "experiment", work_experiment(row));
    return true;
}

/* Whether a view (ACTIVE_ONLY, DELETED_ONLY, ALL) has the experiment; an archived one counts as deleted, as in MLflow.
 */
static bool is_in_view(const struct work *work, const char *key, bool is_archived)
{
    const char *view = work_argument(work, key);
    if (view == NULL || strcmp(view, "ACTIVE_ONLY") == 0) {
        return !is_archived;
    }
    return strcmp(view, "DELETED_ONLY") != 0 || is_archived;
}

static struct filter_value text_value(const char *text)
{
    return (struct filter_value){.kind = text != NULL ? FILTER_TEXT : FILTER_ABSENT, .text = text};
}

static struct filter_value number_value(double number)
{
    return (struct filter_value){.kind = FILTER_NUMBER, .number = number};
}

static struct filter_value tag_of(const json_t *tags, const char *key)
{
    size_t i;
    const json_t *tag;
    json_array_foreach(tags, i, tag)
    {
        const char *own = json_string_value(json_object_get(tag, "key"));
        if (own != NULL && strcmp(own, key) == 0) {
            return text_value(json_string_value(json_object_get(tag, "value")));
        }
    }
    return text_value(NULL);
}

static struct filter_value of_experiment(const json_t *experiment, const struct filter_term *term)
{
    if (term->of == FILTER_TAG) {
        return tag_of(json_object_get(experiment, "tags"), term->key);
    }
    const json_t *value = json_object_get(experiment, term->key);
    return json_is_string(value)    ? text_value(json_string_value(value))
           : json_is_integer(value) ? number_value((double)json_integer_value(value))
                                    : text_value(NULL);
}

static bool search_experiments(struct work *work)
{
    msgpack_object list;
    struct filter *filter = calloc(1, sizeof *filter);
    char error[256];
    if (filter == NULL || !filter_read(work_argument(work, "filter"), filter, error)) {
        bool is_read = filter != NULL;
        free(filter);
        return is_read ? work_fail(work, 400, "INVALID_PARAMETER_VALUE", error)
                       : work_fail(work, 503, "TEMPORARILY_UNAVAILABLE", "No memory is left.");
    }
    if (!work_ask(work, "ls", NULL, -1, &list)) {
        free(filter);
        return false;
    }
    json_t *experiments = json_array();
    msgpack_object_array rows = document_list(&list, "experiments");
    for (uint32_t i = 0; i < rows.size; i++) {
        json_t *experiment = work_experiment(&rows.ptr[i]);
        bool passes = is_in_view(work, "view_type", document_true(&rows.ptr[i], "archived"));
        for (size_t k = 0; k < filter->count && passes; k++) {
            passes = filter_passes(&filter->terms[k], of_experiment(experiment, &filter->terms[k]));
        }
        if (passes) {
            (void)json_array_append_new(experiments, experiment);
        } else {
            json_decref(experiment);
        }
    }
    free(filter);
    work->answer = json_pack("{s:o}", "experiments", experiments);
    return true;
}

/* ---- runs ------------------------------------------------------------------------------------------------------ */

static const char *status_of(const char *state)
{
    static const char *const names[][2] = {{"running", "RUNNING"},  {"stopping", "RUNNING"}, {"completed", "FINISHED"},
                                           {"stopped", "FINISHED"}, {"failed", "FAILED"},    {"cancelled", "KILLED"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(state, names[i][0]) == 0) {
            return names[i][1];
        }
    }
    return "SCHEDULED";
}

/* JSON has no NaN; the client's reader of 64-bit numbers takes these texts. */
static json_t *metric_value(double value)
{
    return isnan(value)   ? json_string("NaN")
           : isinf(value) ? json_string(value > 0 ? "Infinity" : "-Infinity")
                          : json_real(value);
}

/* The name by which a client knows a metric: without its group if the trial's program calls it so. */
static void metric_key(const json_t *names, const char *group, const char *name, char *out, size_t size)
{
    const char *bare = json_string_value(json_object_get(names, name));
    bool is_bare = bare != NULL && strcmp(bare, group) == 0;
    (void)snprintf(out, size, "%s%s%s", is_bare ? "" : group, is_bare ? "" : "/", name);
}

/* The last metrics of a trial, as its row has them. */
static json_t *metrics_of(const msgpack_object *trial, const json_t *names, json_int_t at_ms)
{
    json_t *metrics = json_array();
    msgpack_object_map groups = document_pairs(document_find(trial, "metrics"));
    json_int_t step = (json_int_t)document_number(trial, "step");
    for (uint32_t g = 0; g < groups.size; g++) {
        char group[64], name[160];
        document_value_text(&groups.ptr[g].key, group, sizeof group);
        msgpack_object_map values = document_pairs(&groups.ptr[g].val);
        for (uint32_t i = 0; i < values.size; i++) {
            char key[256];
            double value;
            document_value_text(&values.ptr[i].key, name, sizeof name);
            if (document_double(&values.ptr[i].val, &value)) {
                metric_key(names, group, name, key, sizeof key);
                (void)json_array_append_new(metrics, json_pack("{s:s, s:o, s:I, s:I}", "key", key, "value",
                                                               metric_value(value), "timestamp", at_ms, "step", step));
            }
        }
    }
    return metrics;
}

/* Pairs of an object as a list of maps with `key` and `value`. */
static json_t *list_of(json_t *pairs)
{
    json_t *list = json_array(), *value;
    const char *key;
    json_object_foreach(pairs, key, value)
    {
        work_add_tag(list, key, json_string_value(value));
    }
    json_decref(pairs);
    return list;
}

static void set_text(json_t *pairs, const char *key, const char *value)
{
    (void)json_object_set_new(pairs, key, json_string(value));
}

/* The hyperparameters, and what the program has written. */
static json_t *params_of(const msgpack_object *trial, json_t *written)
{
    json_t *params = json_object();
    msgpack_object_map pairs = document_pairs(document_find(trial, "hyperparameters"));
    for (uint32_t i = 0; i < pairs.size; i++) {
        char key[256], value[1024];
        document_value_text(&pairs.ptr[i].key, key, sizeof key);
        document_value(&pairs.ptr[i].val, value, sizeof value);
        set_text(params, key, value);
    }
    (void)json_object_update(params, written);
    return list_of(params);
}

json_t *work_run(const msgpack_object *experiment, const msgpack_object *trial, const json_t *texts)
{
    char decimal[WORK_ID_BYTES], run[WORK_RUN_BYTES], name[256], run_name[336], state[32], uri[128], text[64];
    struct work_run ids = {.trial = document_number(trial, "index")};
    document_text(experiment, "id", ids.experiment, sizeof ids.experiment);
    document_text(experiment, "name", name, sizeof name);
    document_text(trial, "state", state, sizeof state);
    work_decimal(ids.experiment, decimal);
    work_run_id(&ids, run);
    (void)snprintf(text, sizeof text, "%" PRIu64, ids.trial);
    json_t *written = json_object_get(texts, text);
    (void)snprintf(run_name, sizeof run_name, "%s/%s", name, text);
    (void)snprintf(uri, sizeof uri, "mlflow-artifacts:/%s/%s/artifacts", decimal, run);
    json_int_t started_ms = (json_int_t)document_number(trial, "started_s") * 1000,
               ended_ms = (json_int_t)document_number(trial, "ended_s") * 1000;
    json_t *tags = json_object();
    set_text(tags, "mlflow.runName", run_name);
    set_text(tags, "mlflow.source.name", name);
    set_text(tags, "mlflow.source.type", "JOB");
    (void)json_object_update(tags, json_object_get(written, "tags"));
    set_text(tags, "shoal.state", state);
    set_text(tags, "shoal.experiment", ids.experiment);
    set_text(tags, "shoal.trial", text);
    const char *user = json_string_value(json_object_get(tags, "mlflow.user"));
    json_t *info =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:s, s:s}", "run_id", run, "run_uuid", run, "run_name",
                  json_string_value(json_object_get(tags, "mlflow.runName")), "experiment_id", decimal, "user_id",
                  user != NULL ? user : "", "status", status_of(state), "start_time", started_ms, "artifact_uri", uri,
                  "lifecycle_stage", "active");
    if (ended_ms != 0) {
        (void)json_object_set_new(info, "end_time", json_integer(ended_ms));
    }
    return json_pack("{s:o, s:{s:o, s:o, s:o}, s:{s:[]}, s:{s:o}}", "info", info, "data", "metrics",
                     metrics_of(trial, json_object_get(written, "names"), ended_ms != 0 ? ended_ms : started_ms), "params",
                     params_of(trial, json_object_get(written, "params")), "tags", list_of(tags), "inputs",
                     "dataset_inputs", "outputs", "model_outputs", models_outputs(json_object_get(written, "models")));
}

/* Takes a section of an entry: later texts replace earlier ones, and a nil takes one back. */
static void take_section(json_t *into, const msgpack_object *section)
{
    msgpack_object_map pairs = document_pairs(section);
    for (uint32_t i = 0; i < pairs.size; i++) {
        const msgpack_object *key = &pairs.ptr[i].key, *value = &pairs.ptr[i].val;
        char name[1024];
        document_value_text(key, name, sizeof name);
        if (value->type == MSGPACK_OBJECT_STR) {
            (void)json_object_set_new(into, name, json_stringn(value->via.str.ptr, value->via.str.size));
        } else {
            (void)json_object_del(into, name);
        }
    }
}

static json_t *part_of(json_t *object, const char *key)
{
    json_t *part = json_object_get(object, key);
    if (part == NULL) {
        part = json_object();
        (void)json_object_set_new(object, key, part);
    }
    return part;
}

bool work_read_texts(struct work *work, const char *experiment, long long trial, json_t **out)
{
    static const char *const sections[] = {"params", "tags", "names", "models"};
    msgpack_object document;
    if (!work_ask(work, "texts", experiment, trial, &document)) {
        return false;
    }
    *out = json_object();
    msgpack_object_array texts = document_list(&document, "texts");
    for (uint32_t i = 0; i < texts.size; i++) {
        char index[WORK_ID_BYTES];
        (void)snprintf(index, sizeof index, "%" PRIu64, document_number(&texts.ptr[i], "trial"));
        json_t *of_trial = part_of(*out, index);
        const msgpack_object *entry = document_find(&texts.ptr[i], "texts");
        for (size_t k = 0; k < sizeof sections / sizeof sections[0]; k++) {
            if (document_has(entry, sections[k])) {
                take_section(part_of(of_trial, sections[k]), document_find(entry, sections[k]));
            }
        }
    }
    return true;
}

/* The last values of all of a trial's metrics, out of its series: the trial's row has room for some, and may be seconds old. */
static bool read_metrics(struct work *work, const struct work_run *run, const json_t *names, json_t **out)
{
    msgpack_object document;
    uint8_t bytes[512];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    ask_begin(&writer, "metrics", work->call->secret, 3);
    pack_text(&writer, "experiment");
    pack_text(&writer, run->experiment);
    pack_text(&writer, "trial");
    pack_u64(&writer, run->trial);
    pack_text(&writer, "points");
    pack_u64(&writer, 1);
    if (!work_send(work, &writer, &document)) {
        return false;
    }
    json_t *found = json_object(), *value;
    msgpack_object_array sums = document_list(&document, "points");
    for (uint32_t i = 0; i < sums.size; i++) {
        char group[64], name[160], key[256];
        document_text(&sums.ptr[i], "group", group, sizeof group);
        msgpack_object_map metrics = document_pairs(document_find(&sums.ptr[i], "metrics"));
        for (uint32_t k = 0; k < metrics.size && !document_true(&sums.ptr[i], "void"); k++) {
            double last;
            document_value_text(&metrics.ptr[k].key, name, sizeof name);
            metric_key(names, group, name, key, sizeof key);
            if (document_double(document_find(&metrics.ptr[k].val, "last"), &last)) {
                (void)json_object_set_new(found, key,
                                          json_pack("{s:s, s:o, s:I, s:I}", "key", key, "value", metric_value(last), "timestamp",
                                                    (json_int_t)document_number(&sums.ptr[i], "wall_ms"), "step",
                                                    (json_int_t)document_number(&sums.ptr[i], "step")));
            }
        }
    }
    *out = json_array();
    const char *key;
    json_object_foreach(found, key, value)
    {
        (void)json_array_append(*out, value);
    }
    json_decref(found);
    return true;
}

json_t *work_get_run(struct work *work, const struct work_run *run)
{
    msgpack_object document;
    json_t *texts = NULL, *metrics = NULL, *result = NULL;
    char index[WORK_ID_BYTES];
    (void)snprintf(index, sizeof index, "%" PRIu64, run->trial);
    if (work_ask(work, "trial", run->experiment, (long long)run->trial, &document) &&
        work_read_texts(work, run->experiment, (long long)run->trial, &texts) &&
        read_metrics(work, run, json_object_get(json_object_get(texts, index), "names"), &metrics)) {
        result = work_run(document_find(&document, "experiment"), document_find(&document, "trial"), texts);
        (void)json_object_set(json_object_get(result, "data"), "metrics", metrics);
    }
    json_decref(metrics);
    json_decref(texts);
    return result;
}

static bool get_run(struct work *work)
{
    struct work_run run;
    json_t *found = work_read_run(work, &run) ? work_get_run(work, &run) : NULL;
    work->answer = found != NULL ? json_pack("{s:o}", "run", found) : NULL;
    return found != NULL;
}

static struct filter_value of_pairs(const json_t *pairs, const char *key, bool is_metric)
{
    size_t i;
    const json_t *pair;
    json_array_foreach(pairs, i, pair)
    {
        const char *own = json_string_value(json_object_get(pair, "key"));
        const char *slash = own != NULL && is_metric ? strchr(own, '/') : NULL;
        if (own == NULL || (strcmp(own, key) != 0 && (slash == NULL || strcmp(slash + 1, key) != 0))) {
            continue; /* a metric is found without its group, too */
        }
        const json_t *value = json_object_get(pair, "value");
        return is_metric ? number_value(json_is_number(value) ? json_number_value(value) : (double)NAN)
                         : text_value(json_string_value(value));
    }
    return text_value(NULL);
}

static struct filter_value of_run(const json_t *run, enum filter_of of, const char *key)
{
    const json_t *data = json_object_get(run, "data"), *info = json_object_get(run, "info");
    static const char *const names[][2] = {
        {"run_name", "run_name"}, {"Run name", "run_name"},  {"name", "run_name"},
        {"status", "status"},     {"run_id", "run_id"},      {"start_time", "start_time"},
        {"end_time", "end_time"}, {"created", "start_time"}, {"artifact_uri", "artifact_uri"},
        {"user_id", "user_id"}};
    switch (of) {
    case FILTER_METRIC:
        return of_pairs(json_object_get(data, "metrics"), key, true);
    case FILTER_PARAM:
        return of_pairs(json_object_get(data, "params"), key, false);
    case FILTER_TAG:
        return of_pairs(json_object_get(data, "tags"), key, false);
    case FILTER_ATTRIBUTE:
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            const json_t *value = strcmp(key, names[i][0]) == 0 ? json_object_get(info, names[i][1]) : NULL;
            if (value != NULL) {
                return json_is_string(value) ? text_value(json_string_value(value))
                                             : number_value((double)json_integer_value(value));
            }
        }
    }
    return text_value(NULL);
}

/* What runs are searched by. */
struct search {
    struct filter filter;
    struct filter_order orders[ORDERS_MAX];
    size_t order_count;
    uint64_t most, from;
};

/* A run on its way into an answer, with its place before sorting. */
struct found {
    json_t *run;
    size_t place;
};

static int by_orders(const void *a, const void *b, void *context)
{
    const struct search *search = context;
    const struct found *one = a, *other = b;
    for (size_t i = 0; i < search->order_count; i++) {
        const struct filter_order *order = &search->orders[i];
        int result = filter_compare(of_run(one->run, order->of, order->key), of_run(other->run, order->of, order->key),
                                    order->descending);
        if (result != 0) {
            return result;
        }
    }
    return one->place < other->place ? -1 : one->place > other->place;
}

static bool read_search(struct work *work, struct search *out)
{
    char error[256];
    size_t i;
    const json_t *text, *orders = json_object_get(work->body, "order_by");
    if (!filter_read(work_argument(work, "filter"), &out->filter, error)) {
        return work_fail(work, 400, "INVALID_PARAMETER_VALUE", error);
    }
    json_array_foreach(orders, i, text)
    {
        if (out->order_count == ORDERS_MAX || !json_is_string(text)) {
            return work_fail(work, 400, "INVALID_PARAMETER_VALUE",
                        "order_by wants at most 8 texts such as metrics.loss ASC.");
        }
        if (!filter_read_order(json_string_value(text), &out->orders[out->order_count++], error)) {
            return work_fail(work, 400, "INVALID_PARAMETER_VALUE", error);
        }
    }
    const char *page = work_argument(work, "page_token");
    out->most = work_number(work, "max_results", RUNS_STANDARD);
    out->from = page != NULL ? strtoull(page, NULL, 10) : 0;
    if (out->most == 0 || out->most > RUNS_MAX) {
        return work_fail(work, 400, "INVALID_PARAMETER_VALUE", "max_results wants a number from 1 to 50000.");
    }
    return true;
}

/* Appends the runs of an experiment that pass. False: memory is short. */
static bool collect(const struct search *search, const msgpack_object *document, const json_t *texts, struct found **found,
                    size_t *count, size_t *size)
{
    const msgpack_object *experiment = document_find(document, "experiment");
    msgpack_object_array trials = document_list(experiment, "trials");
    for (uint32_t i = 0; i < trials.size; i++) {
        json_t *run = work_run(experiment, &trials.ptr[i], texts);
        bool passes = run != NULL;
        for (size_t k = 0; k < search->filter.count && passes; k++) {
            const struct filter_term *term = &search->filter.terms[k];
            passes = filter_passes(term, of_run(run, term->of, term->key));
        }
        if (!passes) {
            json_decref(run);
            continue;
        }
        if (*count == *size) {
            *size = *size == 0 ? 256 : 2 * *size;
            struct found *grown = realloc(*found, *size * sizeof *grown);
            if (grown == NULL) {
                json_decref(run);
                return false;
            }
            *found = grown;
        }
        (*found)[*count] = (struct found){run, *count};
        (*count)++;
    }
    return true;
}

/* The runs of all experiments that are asked for, from the newest experiment on. */
static bool search_all(struct work *work, struct search *search, struct found **found, size_t *count)
{
    msgpack_object list, document;
    size_t i, size = 0;
    const json_t *id, *ids = json_object_get(work->body, "experiment_ids");
    if (!work_ask(work, "ls", NULL, -1, &list)) {
        return false;
    }
    json_array_foreach(ids, i, id)
    {
        const msgpack_object *row = json_is_string(id) ? work_find_experiment(&list, json_string_value(id), NULL) : &list;
        char experiment[WORK_EXPERIMENT_BYTES];
        if (row->type != MSGPACK_OBJECT_MAP || row == &list) {
            continue; /* as MLflow: of an experiment that is not there, there are no runs */
        }
        document_text(row, "id", experiment, sizeof experiment);
        json_t *texts = NULL;
        if (!work_ask(work, "show", experiment, -1, &document) || !work_read_texts(work, experiment, -1, &texts)) {
            return false;
        }
        bool is_collected = collect(search, &document, texts, found, count, &size);
        json_decref(texts);
        if (!is_collected) {
            return work_fail_memory(work);
        }
    }
    return true;
}

static bool search_runs(struct work *work)
{
    struct search *search = calloc(1, sizeof *search);
    struct found *found = NULL;
    size_t count = 0;
    if (search == NULL) {
        return work_fail(work, 503, "TEMPORARILY_UNAVAILABLE", "No memory is left.");
    }
    bool is_done = read_search(work, search) && search_all(work, search, &found, &count);
    if (is_done) {
        json_t *runs = json_array();
        if (count > 0) {
            qsort_r(found, count, sizeof *found, by_orders, search);
        }
        for (size_t i = search->from; i < count && i - search->from < search->most; i++) {
            (void)json_array_append(runs, found[i].run);
        }
        work->answer = json_pack("{s:o}", "runs", runs);
        if (search->from < count && count - search->from > search->most) {
            char next[WORK_ID_BYTES];
            (void)snprintf(next, sizeof next, "%" PRIu64, search->from + search->most);
            (void)json_object_set_new(work->answer, "next_page_token", json_string(next));
        }
    }
    for (size_t i = 0; i < count; i++) {
        json_decref(found[i].run);
    }
    free(found);
    free(search);
    return is_done;
}

/* ---- metrics --------------------------------------------------------------------------------------------------- */

static bool get_history(struct work *work)
{
    msgpack_object document;
    struct work_run run;
    json_t *texts = NULL;
    const char *key = work_argument(work, "metric_key"), *page = work_argument(work, "page_token");
    uint64_t most = work_number(work, "max_results", 25000), from = page != NULL ? strtoull(page, NULL, 10) : 0, at = 0;
    if (key == NULL) {
        return work_fail(work, 400, "INVALID_PARAMETER_VALUE", "The request lacks metric_key.");
    }
    if (!work_read_run(work, &run) || !work_read_texts(work, run.experiment, (long long)run.trial, &texts) ||
        !work_ask(work, "metrics", run.experiment, (long long)run.trial, &document)) {
        json_decref(texts);
        return false;
    }
    char index[WORK_ID_BYTES], bare[64] = "";
    (void)snprintf(index, sizeof index, "%" PRIu64, run.trial);
    const char *of_name = json_string_value(json_object_get(json_object_get(json_object_get(texts, index), "names"), key));
    (void)snprintf(bare, sizeof bare, "%s", of_name != NULL ? of_name : "");
    json_decref(texts);
    const char *slash = bare[0] != '\0' ? NULL : strchr(key, '/');
    json_t *metrics = json_array();
    msgpack_object_array points = document_list(&document, "points");
    for (uint32_t i = 0; i < points.size; i++) {
        char group[64];
        double value;
        document_text(&points.ptr[i], "group", group, sizeof group);
        const msgpack_object *values = document_find(&points.ptr[i], "metrics");
        bool is_of_group =
            slash != NULL && strlen(group) == (size_t)(slash - key) && memcmp(group, key, strlen(group)) == 0;
        const msgpack_object *found = document_find(values, is_of_group ? slash + 1 : key);
        bool is_other = bare[0] != '\0' && strcmp(bare, group) != 0;
        if (is_other || document_true(&points.ptr[i], "void") || !document_double(found, &value)) {
            continue;
        }
        if (at >= from && at - from < most) {
            (void)json_array_append_new(metrics,
                                        json_pack("{s:s, s:o, s:I, s:I}", "key", key, "value", metric_value(value),
                                                  "timestamp", (json_int_t)document_number(&points.ptr[i], "wall_ms"),
                                                  "step", (json_int_t)document_number(&points.ptr[i], "step")));
        }
        at++;
    }
    work->answer = json_pack("{s:o}", "metrics", metrics);
    if (from < at && at - from > most) {
        char next[WORK_ID_BYTES];
        (void)snprintf(next, sizeof next, "%" PRIu64, from + most);
        (void)json_object_set_new(work->answer, "next_page_token", json_string(next));
    }
    return true;
}

/* ---- the rest -------------------------------------------------------------------------------------------------- */

static bool server_info(struct work *work)
{
    work->answer =
        json_pack("{s:s, s:b, s:b, s:b, s:b}", "store_type", "SqlStore", "workspaces_enabled", 0,
                  "trace_archival_enabled", 0, "multipart_uploads_enabled", 0, "multipart_downloads_enabled", 0);
    return true;
}

static bool no_models(struct work *work)
{
    work->answer = json_pack("{s:[], s:[]}", "registered_models", "model_versions");
    return true;
}

/* A row; `method` NULL: any. A path that ends in a star stands for all that begin so, and `rest` is what follows. */
static const struct row {
    const char *method, *path;
    bool (*take)(struct work *work);
} routes[] = {
    {NULL, API "experiments/get", get_experiment},
    {NULL, API "experiments/get-by-name", get_experiment},
    {NULL, API "experiments/search", search_experiments},
    {NULL, API "experiments/list", search_experiments},
    {NULL, API "runs/get", get_run},
    {NULL, API "runs/search", search_runs},
    {NULL, API "metrics/get-history", get_history},
    {NULL, API "artifacts/list", artifacts_list_run},
    {"GET", ARTIFACTS, artifacts_list},
    {"GET", ARTIFACTS "/*", artifacts_get},
    {"DELETE", ARTIFACTS "/*", artifacts_delete},
    {NULL, API "registered-models/search", no_models},
    {NULL, API "model-versions/search", no_models},
    {NULL, "/api/3.0/mlflow/server-info", server_info},
    {"POST", API "experiments/create", write_create_experiment},
    {"POST", API "experiments/delete", write_lifecycle},
    {"POST", API "experiments/restore", write_lifecycle},
    {"POST", API "experiments/update", write_nothing},
    {"POST", API "experiments/set-experiment-tag", write_nothing},
    {"POST", API "runs/create", write_create_run},
    {"POST", API "runs/update", write_update_run},
    {"POST", API "runs/log-metric", write_metric},
    {"POST", API "runs/log-parameter", write_parameter},
    {"POST", API "runs/log-batch", write_batch},
    {"POST", API "runs/log-inputs", write_inputs},
    {"POST", API "runs/log-model", write_model_json},
    {"POST", API "runs/set-tag", write_tag},
    {"POST", API "runs/delete-tag", write_delete_tag},
    {"POST", API "runs/delete", write_nothing},
    {"POST", API "runs/restore", write_nothing},
    {"POST", API "runs/outputs", models_outputs_of_run},
    {"POST", API "logged-models", models_create},
    {"POST", API "logged-models/search", models_search},
    {NULL, API "logged-models/*", models_one},
    {"POST", API "registered-models/create", write_nothing},
    {"POST", API "model-versions/create", write_nothing},
};

bool mlflow_has(const char *path)
{
    static const char *const prefixes[] = {API, "/api/2.0/mlflow-artifacts/", "/api/3.0/mlflow/", "/ajax-api/"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (strncmp(path, prefixes[i], strlen(prefixes[i])) == 0) {
            return true;
        }
    }
    return strcmp(path, "/health") == 0 || strcmp(path, "/version") == 0;
}

/* Whether the row is for the request; `*rest` is what the path has in place of the star. */
static bool fits(const struct row *row, const struct mlflow_call *call, const char **rest)
{
    size_t bytes = strlen(row->path);
    bool is_open = row->path[bytes - 1] == '*';
    bytes -= is_open;
    if (row->method != NULL && strcmp(row->method, call->method) != 0) {
        return false;
    }
    *rest = call->path + (strncmp(call->path, row->path, bytes) == 0 ? bytes : 0);
    return *rest > call->path && (is_open ? **rest != '\0' : **rest == '\0');
}

static bool read_body(struct work *work)
{
    json_error_t error;
    size_t count = work->call->body_bytes;
    if (count == 0) {
        return true;
    }
    char *quoted = malloc(keys_quoted_bytes(count));
    if (quoted == NULL) {
        return work_fail_memory(work);
    }
    work->body = json_loadb(quoted, keys_quote(work->call->body, count, quoted), JSON_REJECT_DUPLICATES, &error);
    free(quoted);
    return json_is_object(work->body) || work_fail(work, 400, "BAD_REQUEST", "The body is no JSON object.");
}

static bool take(struct work *work)
{
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        if (fits(&routes[i], work->call, &work->rest)) {
            return read_body(work) && routes[i].take(work);
        }
    }
    return work_fail(work, 404, "ENDPOINT_NOT_FOUND",
                     "This door has no such path of MLflow's API; docs/mlflow.md lists those that it has.");
}

struct MHD_Response *mlflow_answer(const struct mlflow_call *call, int *status)
{
    struct work work = {.call = call, .status = 200};
    if (strcmp(call->path, "/health") == 0 || strcmp(call->path, "/version") == 0) {
        return answer_text(200, "text/plain; charset=utf-8", strcmp(call->path, "/health") == 0 ? "OK" : VERSION,
                           status);
    }
    if (channel_open(&work.channel) != 0) {
        (void)work_fail(&work, 503, "TEMPORARILY_UNAVAILABLE", "The daemon does not answer now; try again in some seconds.");
    } else {
        (void)take(&work);
        channel_close(&work.channel);
    }
    if (work.file != NULL) {
        *status = 200;
        return work.file;
    }
    return work_answer(&work, status);
}
