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

#define API "/api/2.0/mlflow/"
#define VERSION "3.5.0" /* of the API that clients are told of */
#define RUNS_MAX 50000  /* of one answer, as MLflow's */
#define RUNS_STANDARD 1000
#define ORDERS_MAX 8
#define ID_TEXT_BYTES 24
#define EXPERIMENT_TEXT_BYTES 17
#define RUN_TEXT_BYTES 33

/* A request under way. `answer` is the JSON object to send; `status` other than 200: an error, with `error_code` and
 * `message`. */
struct work {
    const struct mlflow_call *call;
    struct channel channel;
    json_t *body; /* NULL: none, or GET */
    json_t *answer;
    int status;
    const char *error_code;
    char message[512];
};

static bool fail(struct work *work, int status, const char *error_code, const char *message)
{
    work->status = status;
    work->error_code = error_code;
    (void)snprintf(work->message, sizeof work->message, "%s", message);
    return false;
}

/* ---- arguments ------------------------------------------------------------------------------------------------- */

/* A text of the body, or of the query. NULL: none. */
static const char *argument(const struct work *work, const char *name)
{
    const json_t *value = json_object_get(work->body, name);
    return json_is_string(value) ? json_string_value(value)
                                 : MHD_lookup_connection_value(work->call->connection, MHD_GET_ARGUMENT_KIND, name);
}

/* A number as JSON's, or as a text: clients send 64-bit numbers either way. */
static uint64_t number_argument(const struct work *work, const char *name, uint64_t standard)
{
    const json_t *value = json_object_get(work->body, name);
    const char *text = argument(work, name);
    if (json_is_integer(value) && json_integer_value(value) >= 0) {
        return (uint64_t)json_integer_value(value);
    }
    return text != NULL ? strtoull(text, NULL, 10) : standard;
}

/* ---- the mesh's documents -------------------------------------------------------------------------------------- */

/* False: the daemon has refused, or does not answer. */
static bool is_good(struct work *work, int code, const msgpack_object *reply)
{
    char text[512];
    if (code == 0 && document_true(reply, "ok")) {
        return true;
    }
    if (code != 0) {
        return fail(work, 503, "TEMPORARILY_UNAVAILABLE", "The daemon does not answer now; try again in some seconds.");
    }
    document_text(reply, "error", text, sizeof text);
    switch (document_number(reply, "code")) {
    case 4:
        return fail(work, 404, "RESOURCE_DOES_NOT_EXIST", text);
    case 6:
        return fail(work, 401, "UNAUTHENTICATED",
                    "Set MLFLOW_TRACKING_TOKEN to a token of `shoal token create --read-only --name mlflow`.");
    case 7:
        return fail(work, 403, "PERMISSION_DENIED", text);
    default:
        return fail(work, 400, "INVALID_PARAMETER_VALUE", text);
    }
}

static bool ask(struct work *work, const char *op, const char *experiment, long long trial, msgpack_object *out)
{
    int code = experiment == NULL ? ask_document(&work->channel, op, work->call->secret, out)
                                  : ask_experiment(&work->channel, op, work->call->secret, experiment, trial, out);
    return is_good(work, code, out);
}

/* ---- ids ------------------------------------------------------------------------------------------------------- */

/* Clients read ids as signed 64-bit numbers in decimal digits: an experiment's has the first bit off. */
static void decimal_of(const char *experiment, char out[ID_TEXT_BYTES])
{
    (void)snprintf(out, ID_TEXT_BYTES, "%llu", strtoull(experiment, NULL, 16) & INT64_MAX);
}

/* The experiment of a list with this id or this name; a nil if there is none. Of several with one name the newest. */
static const msgpack_object *find_experiment(const msgpack_object *list, const char *id, const char *name)
{
    static const msgpack_object nil = {.type = MSGPACK_OBJECT_NIL};
    const msgpack_object *found = &nil;
    msgpack_object_array rows = document_list(list, "experiments");
    for (uint32_t i = 0; i < rows.size; i++) {
        char own[EXPERIMENT_TEXT_BYTES], decimal[ID_TEXT_BYTES], own_name[256];
        document_text(&rows.ptr[i], "id", own, sizeof own);
        document_text(&rows.ptr[i], "name", own_name, sizeof own_name);
        decimal_of(own, decimal);
        bool is_it = id != NULL ? strcmp(id, decimal) == 0 : strcmp(name, own_name) == 0;
        if (is_it &&
            (found == &nil || document_number(&rows.ptr[i], "submitted_s") > document_number(found, "submitted_s"))) {
            found = &rows.ptr[i];
        }
    }
    return found;
}

/* A run's id: the experiment's, and its trial in 16 digits. */
static bool read_run_id(struct work *work, char experiment[EXPERIMENT_TEXT_BYTES], long long *trial)
{
    const char *id = argument(work, "run_id");
    id = id != NULL ? id : argument(work, "run_uuid");
    if (id == NULL || strlen(id) != RUN_TEXT_BYTES - 1 || strspn(id, "0123456789abcdef") != RUN_TEXT_BYTES - 1) {
        return fail(work, 400, "INVALID_PARAMETER_VALUE", "The request lacks run_id, 32 hexadecimal digits.");
    }
    memcpy(experiment, id, EXPERIMENT_TEXT_BYTES - 1);
    experiment[EXPERIMENT_TEXT_BYTES - 1] = '\0';
    *trial = (long long)(strtoull(id + EXPERIMENT_TEXT_BYTES - 1, NULL, 16) & INT64_MAX);
    return true;
}

/* ---- experiments ----------------------------------------------------------------------------------------------- */

static void add_tag(json_t *tags, const char *key, const char *value)
{
    (void)json_array_append_new(tags, json_pack("{s:s, s:s}", "key", key, "value", value));
}

static json_t *experiment_of(const msgpack_object *row)
{
    char id[EXPERIMENT_TEXT_BYTES], decimal[ID_TEXT_BYTES], name[256], text[256], location[64];
    document_text(row, "id", id, sizeof id);
    document_text(row, "name", name, sizeof name);
    decimal_of(id, decimal);
    (void)snprintf(location, sizeof location, "mlflow-artifacts:/%s", decimal);
    json_t *tags = json_array();
    add_tag(tags, "shoal.experiment", id);
    document_text(row, "state", text, sizeof text);
    add_tag(tags, "shoal.state", text);
    document_text(row, "description", text, sizeof text);
    if (text[0] != '\0') {
        add_tag(tags, "mlflow.note.content", text);
    }
    msgpack_object_map labels = document_pairs(document_find(row, "labels"));
    for (uint32_t i = 0; i < labels.size; i++) {
        char key[128];
        document_value_text(&labels.ptr[i].key, key, sizeof key);
        document_value_text(&labels.ptr[i].val, text, sizeof text);
        add_tag(tags, key, text);
    }
    json_int_t at_ms = (json_int_t)document_number(row, "submitted_s") * 1000;
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:o}", "experiment_id", decimal, "name", name, "artifact_location",
                     location, "lifecycle_stage", document_true(row, "archived") ? "deleted" : "active",
                     "creation_time", at_ms, "last_update_time", at_ms, "tags", tags);
}

static bool get_experiment(struct work *work)
{
    msgpack_object list;
    const char *id = argument(work, "experiment_id"), *name = argument(work, "experiment_name");
    if (id == NULL && name == NULL) {
        return fail(work, 400, "INVALID_PARAMETER_VALUE", "The request lacks experiment_id, or experiment_name.");
    }
    if (!ask(work, "ls", NULL, -1, &list)) {
        return false;
    }
    const msgpack_object *row = find_experiment(&list, id, name);
    if (row->type != MSGPACK_OBJECT_MAP) {
        return fail(work, 404, "RESOURCE_DOES_NOT_EXIST",
                    "There is no such experiment in the mesh; `shoal ls` lists them.");
    }
    work->answer = json_pack("{s:o}", "experiment", experiment_of(row));
    return true;
}

/* Whether a view (ACTIVE_ONLY, DELETED_ONLY, ALL) has the experiment; an archived one counts as deleted, as in MLflow.
 */
static bool is_in_view(const struct work *work, const char *key, bool is_archived)
{
    const char *view = argument(work, key);
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
    if (filter == NULL || !filter_read(argument(work, "filter"), filter, error)) {
        bool is_read = filter != NULL;
        free(filter);
        return is_read ? fail(work, 400, "INVALID_PARAMETER_VALUE", error)
                       : fail(work, 503, "TEMPORARILY_UNAVAILABLE", "No memory is left.");
    }
    if (!ask(work, "ls", NULL, -1, &list)) {
        free(filter);
        return false;
    }
    json_t *experiments = json_array();
    msgpack_object_array rows = document_list(&list, "experiments");
    for (uint32_t i = 0; i < rows.size; i++) {
        json_t *experiment = experiment_of(&rows.ptr[i]);
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

/* The last metrics of a trial, each as group/name. */
static json_t *metrics_of(const msgpack_object *trial, json_int_t at_ms)
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
                (void)snprintf(key, sizeof key, "%s/%s", group, name);
                (void)json_array_append_new(metrics, json_pack("{s:s, s:o, s:I, s:I}", "key", key, "value",
                                                               metric_value(value), "timestamp", at_ms, "step", step));
            }
        }
    }
    return metrics;
}

static json_t *params_of(const msgpack_object *trial)
{
    json_t *params = json_array();
    msgpack_object_map pairs = document_pairs(document_find(trial, "hyperparameters"));
    for (uint32_t i = 0; i < pairs.size; i++) {
        char key[256], value[1024];
        document_value_text(&pairs.ptr[i].key, key, sizeof key);
        document_value(&pairs.ptr[i].val, value, sizeof value);
        add_tag(params, key, value);
    }
    return params;
}

/* The document of a trial's row; `experiment` is the map that `show` and `trial` have. */
static json_t *run_of(const msgpack_object *experiment, const msgpack_object *trial)
{
    char id[EXPERIMENT_TEXT_BYTES], decimal[ID_TEXT_BYTES], run[RUN_TEXT_BYTES], name[256], run_name[300], state[32],
        uri[128], text[64];
    unsigned long long index = document_number(trial, "index");
    document_text(experiment, "id", id, sizeof id);
    document_text(experiment, "name", name, sizeof name);
    document_text(trial, "state", state, sizeof state);
    decimal_of(id, decimal);
    (void)snprintf(run, sizeof run, "%.16s%016llx", id, index);
    (void)snprintf(run_name, sizeof run_name, "%s/%llu", name, index);
    (void)snprintf(uri, sizeof uri, "mlflow-artifacts:/%s/%s/artifacts", decimal, run);
    json_int_t started_ms = (json_int_t)document_number(trial, "started_s") * 1000,
               ended_ms = (json_int_t)document_number(trial, "ended_s") * 1000;
    json_t *tags = json_array();
    add_tag(tags, "mlflow.runName", run_name);
    add_tag(tags, "mlflow.source.name", name);
    add_tag(tags, "mlflow.source.type", "JOB");
    add_tag(tags, "shoal.state", state);
    add_tag(tags, "shoal.experiment", id);
    (void)snprintf(text, sizeof text, "%llu", index);
    add_tag(tags, "shoal.trial", text);
    json_t *info = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:s, s:s}", "run_id", run, "run_uuid", run,
                             "run_name", run_name, "experiment_id", decimal, "user_id", "", "status", status_of(state),
                             "start_time", started_ms, "artifact_uri", uri, "lifecycle_stage", "active");
    if (ended_ms != 0) {
        (void)json_object_set_new(info, "end_time", json_integer(ended_ms));
    }
    return json_pack("{s:o, s:{s:o, s:o, s:o}, s:{s:[]}}", "info", info, "data", "metrics",
                     metrics_of(trial, ended_ms != 0 ? ended_ms : started_ms), "params", params_of(trial), "tags", tags,
                     "inputs", "dataset_inputs");
}

static bool get_run(struct work *work)
{
    msgpack_object document;
    char experiment[EXPERIMENT_TEXT_BYTES];
    long long trial;
    if (!read_run_id(work, experiment, &trial) || !ask(work, "trial", experiment, trial, &document)) {
        return false;
    }
    work->answer =
        json_pack("{s:o}", "run", run_of(document_find(&document, "experiment"), document_find(&document, "trial")));
    return true;
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
    if (!filter_read(argument(work, "filter"), &out->filter, error)) {
        return fail(work, 400, "INVALID_PARAMETER_VALUE", error);
    }
    json_array_foreach(orders, i, text)
    {
        if (out->order_count == ORDERS_MAX || !json_is_string(text)) {
            return fail(work, 400, "INVALID_PARAMETER_VALUE",
                        "order_by wants at most 8 texts such as metrics.loss ASC.");
        }
        if (!filter_read_order(json_string_value(text), &out->orders[out->order_count++], error)) {
            return fail(work, 400, "INVALID_PARAMETER_VALUE", error);
        }
    }
    const char *page = argument(work, "page_token");
    out->most = number_argument(work, "max_results", RUNS_STANDARD);
    out->from = page != NULL ? strtoull(page, NULL, 10) : 0;
    if (out->most == 0 || out->most > RUNS_MAX) {
        return fail(work, 400, "INVALID_PARAMETER_VALUE", "max_results wants a number from 1 to 50000.");
    }
    return true;
}

/* Appends the runs of an experiment that pass. False: memory is short. */
static bool collect(const struct search *search, const msgpack_object *document, struct found **found, size_t *count,
                    size_t *size)
{
    const msgpack_object *experiment = document_find(document, "experiment");
    msgpack_object_array trials = document_list(experiment, "trials");
    for (uint32_t i = 0; i < trials.size; i++) {
        json_t *run = run_of(experiment, &trials.ptr[i]);
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
    if (!ask(work, "ls", NULL, -1, &list)) {
        return false;
    }
    json_array_foreach(ids, i, id)
    {
        const msgpack_object *row = json_is_string(id) ? find_experiment(&list, json_string_value(id), NULL) : &list;
        char experiment[EXPERIMENT_TEXT_BYTES];
        if (row->type != MSGPACK_OBJECT_MAP || row == &list) {
            continue; /* as MLflow: of an experiment that is not there, there are no runs */
        }
        document_text(row, "id", experiment, sizeof experiment);
        if (!ask(work, "show", experiment, -1, &document)) {
            return false;
        }
        if (!collect(search, &document, found, count, &size)) {
            return fail(work, 503, "TEMPORARILY_UNAVAILABLE", "No memory is left; ask for less at a time.");
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
        return fail(work, 503, "TEMPORARILY_UNAVAILABLE", "No memory is left.");
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
            char next[ID_TEXT_BYTES];
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
    char experiment[EXPERIMENT_TEXT_BYTES];
    long long trial;
    const char *key = argument(work, "metric_key"), *page = argument(work, "page_token");
    uint64_t most = number_argument(work, "max_results", 25000), from = page != NULL ? strtoull(page, NULL, 10) : 0,
             at = 0;
    if (key == NULL) {
        return fail(work, 400, "INVALID_PARAMETER_VALUE", "The request lacks metric_key.");
    }
    if (!read_run_id(work, experiment, &trial) || !ask(work, "metrics", experiment, trial, &document)) {
        return false;
    }
    const char *slash = strchr(key, '/');
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
        if (document_true(&points.ptr[i], "void") || !document_double(found, &value)) {
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
        char next[ID_TEXT_BYTES];
        (void)snprintf(next, sizeof next, "%" PRIu64, from + most);
        (void)json_object_set_new(work->answer, "next_page_token", json_string(next));
    }
    return true;
}

/* ---- the rest -------------------------------------------------------------------------------------------------- */

static bool list_artifacts(struct work *work)
{
    work->answer = json_pack("{s:s, s:[]}", "root_uri", "mlflow-artifacts:/", "files");
    return true;
}

static bool server_info(struct work *work)
{
    work->answer =
        json_pack("{s:s, s:b, s:b, s:b, s:b}", "store_type", "SqlStore", "workspaces_enabled", 0,
                  "trace_archival_enabled", 0, "multipart_uploads_enabled", 0, "multipart_downloads_enabled", 0);
    return true;
}

static bool no_models(struct work *work)
{
    work->answer = json_pack("{s:[], s:[], s:[]}", "registered_models", "model_versions", "models");
    return true;
}

static bool is_written_elsewhere(struct work *work)
{
    return fail(work, 501, "NOT_IMPLEMENTED",
                "This door reads: experiments are made by `shoal submit`, and trials report with `import shoal`; runs "
                "cannot be written by MLflow yet.");
}

static const struct {
    const char *path;
    bool (*take)(struct work *work);
} routes[] = {
    {API "experiments/get", get_experiment},
    {API "experiments/get-by-name", get_experiment},
    {API "experiments/search", search_experiments},
    {API "experiments/list", search_experiments},
    {API "runs/get", get_run},
    {API "runs/search", search_runs},
    {API "metrics/get-history", get_history},
    {API "artifacts/list", list_artifacts},
    {"/api/2.0/mlflow-artifacts/artifacts", list_artifacts},
    {API "registered-models/search", no_models},
    {API "model-versions/search", no_models},
    {API "logged-models/search", no_models},
    {"/api/3.0/mlflow/server-info", server_info},
    {API "experiments/create", is_written_elsewhere},
    {API "experiments/update", is_written_elsewhere},
    {API "experiments/delete", is_written_elsewhere},
    {API "experiments/restore", is_written_elsewhere},
    {API "experiments/set-experiment-tag", is_written_elsewhere},
    {API "runs/create", is_written_elsewhere},
    {API "runs/update", is_written_elsewhere},
    {API "runs/delete", is_written_elsewhere},
    {API "runs/restore", is_written_elsewhere},
    {API "runs/log-metric", is_written_elsewhere},
    {API "runs/log-parameter", is_written_elsewhere},
    {API "runs/log-batch", is_written_elsewhere},
    {API "runs/log-inputs", is_written_elsewhere},
    {API "runs/log-model", is_written_elsewhere},
    {API "runs/set-tag", is_written_elsewhere},
    {API "runs/delete-tag", is_written_elsewhere},
    {API "logged-models", is_written_elsewhere},
    {API "registered-models/create", is_written_elsewhere},
    {API "model-versions/create", is_written_elsewhere},
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

static bool take(struct work *work)
{
    const char *path = work->call->path;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        if (strcmp(path, routes[i].path) == 0) {
            json_error_t error;
            work->body = work->call->body_bytes > 0
                             ? json_loadb(work->call->body, work->call->body_bytes, JSON_REJECT_DUPLICATES, &error)
                             : NULL;
            if (work->call->body_bytes > 0 && !json_is_object(work->body)) {
                return fail(work, 400, "BAD_REQUEST", "The body is no JSON object.");
            }
            return routes[i].take(work);
        }
    }
    return fail(work, 404, "ENDPOINT_NOT_FOUND",
                "This door has no such path of MLflow's API; docs/mlflow.md lists those that it has.");
}

struct MHD_Response *mlflow_answer(const struct mlflow_call *call, int *status)
{
    struct work work = {.call = call, .status = 200};
    struct MHD_Response *response = NULL;
    if (strcmp(call->path, "/health") == 0 || strcmp(call->path, "/version") == 0) {
        return answer_text(200, "text/plain; charset=utf-8", strcmp(call->path, "/health") == 0 ? "OK" : VERSION,
                           status);
    }
    if (channel_open(&work.channel) != 0) {
        (void)fail(&work, 503, "TEMPORARILY_UNAVAILABLE", "The daemon does not answer now; try again in some seconds.");
    } else {
        bool is_done = take(&work);
        if (!is_done) {
            json_decref(work.answer);
            work.answer = NULL;
        }
        channel_close(&work.channel);
    }
    json_decref(work.body);
    if (work.answer == NULL && work.status != 200) {
        work.answer = json_pack("{s:s, s:s}", "error_code", work.error_code, "message", work.message);
    }
    char *text = work.answer != NULL ? json_dumps(work.answer, JSON_COMPACT) : NULL;
    json_decref(work.answer);
    if (text != NULL) {
        response = answer_text(work.status, "application/json", text, status);
    }
    free(text);
    return response;
}
