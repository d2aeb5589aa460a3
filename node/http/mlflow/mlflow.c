#include "node/http/mlflow/mlflow.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/document.h"
#include "base/err.h"
#include "node/daemon/wire/texts.h"
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

/* Appends those of the runs (a list) that pass. False: memory is short. */
static bool collect(const struct search *search, json_t *runs, struct found **found, size_t *count, size_t *size)
{
    size_t i;
    json_t *run;
    json_array_foreach(runs, i, run)
    {
        bool passes = run != NULL;
        for (size_t k = 0; k < search->filter.count && passes; k++) {
            const struct filter_term *term = &search->filter.terms[k];
            passes = filter_passes(term, of_run(run, term->of, term->key));
        }
        if (!passes) {
            continue;
        }
        if (*count == *size) {
            *size = *size == 0 ? 256 : 2 * *size;
            struct found *grown = realloc(*found, *size * sizeof *grown);
            if (grown == NULL) {
                return false;
            }
            *found = grown;
        }
        (*found)[*count] = (struct found){json_incref(run), *count};
        (*count)++;
    }
    return true;
}

/* The runs of all experiments that are asked for, from the newest experiment on. */
static bool search_all(struct work *work, struct search *search, struct found **found, size_t *count)
{
    msgpack_object list;
    size_t i, size = 0;
    const json_t *id, *ids = json_object_get(work->body, "experiment_ids");
    if (!work_ask(work, "ls", NULL, -1, &list)) {
        return false;
    }
    json_array_foreach(ids, i, id)
    {
        const msgpack_object *row =
            json_is_string(id) ? work_find_experiment(&list, json_string_value(id), NULL) : &list;
        char experiment[WORK_EXPERIMENT_BYTES];
        if (row->type != MSGPACK_OBJECT_MAP || row == &list) {
            continue; /* as MLflow: of an experiment that is not there, there are no runs */
        }
        document_text(row, "id", experiment, sizeof experiment);
        json_t *runs = NULL;
        if (!runs_read(work, experiment, &runs)) {
            return false;
        }
        bool is_collected = collect(search, runs, found, count, &size);
        json_decref(runs);
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
    const char *of_name =
        json_string_value(json_object_get(json_object_get(json_object_get(texts, index), "names"), key));
    (void)snprintf(bare, sizeof bare, "%s", of_name != NULL ? of_name : "");
    json_decref(texts);
    if (run.further[0] != '\0') {
        (void)snprintf(bare, sizeof bare, TEXTS_FURTHER_GROUP "%s", run.further);
    }
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
        bool is_other = bare[0] != '\0' ? strcmp(bare, group) != 0 : texts_is_further(group);
        if (is_other || document_true(&points.ptr[i], "void") || !document_double(found, &value)) {
            continue;
        }
        if (at >= from && at - from < most) {
            (void)json_array_append_new(metrics,
                                        json_pack("{s:s, s:o, s:I, s:I}", "key", key, "value", runs_metric_value(value),
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
    {NULL, API "registered-models/search", registry_search_models},
    {NULL, API "registered-models/get", registry_get_model},
    {NULL, API "registered-models/get-latest-versions", registry_latest},
    {"GET", API "registered-models/alias", registry_get_by_alias},
    {NULL, API "model-versions/search", registry_search_versions},
    {NULL, API "model-versions/get", registry_get_version},
    {NULL, API "model-versions/get-download-uri", registry_download_uri},
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
    {"POST", API "registered-models/create", registry_create_model},
    {"PATCH", API "registered-models/update", registry_describe},
    {"DELETE", API "registered-models/delete", registry_remove},
    {"POST", API "registered-models/rename", registry_refuse},
    {"POST", API "registered-models/set-tag", registry_set_tag},
    {"DELETE", API "registered-models/delete-tag", registry_set_tag},
    {"POST", API "registered-models/alias", registry_set_alias},
    {"DELETE", API "registered-models/alias", registry_set_alias},
    {"POST", API "model-versions/create", registry_create_version},
    {"PATCH", API "model-versions/update", registry_describe},
    {"DELETE", API "model-versions/delete", registry_remove},
    {"POST", API "model-versions/set-tag", registry_set_tag},
    {"DELETE", API "model-versions/delete-tag", registry_set_tag},
    {"POST", API "model-versions/transition-stage", registry_refuse},
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
        (void)work_fail(&work, 503, "TEMPORARILY_UNAVAILABLE",
                        "The daemon does not answer now; try again in some seconds.");
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
