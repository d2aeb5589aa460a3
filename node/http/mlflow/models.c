/* Logged models: each is a document among the texts of the trial whose program logged it, and files below models/ID.
 * Its id names the trial. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/document.h"
#include "node/http/mlflow/filter.h"
#include "node/http/mlflow/keys.h"
#include "node/http/mlflow/work.h"

#define FOUND_MAX 1000 /* of one search: as MLflow's default, 100, and its most */

static json_int_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (json_int_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static json_t *list_of(const json_t *pairs)
{
    json_t *list = json_array();
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)pairs, key, value)
    {
        work_add_tag(list, key, json_string_value(value));
    }
    return list;
}

/* The run that made the model: as its document says, else the trial's own. `room` is for the latter. */
static const char *source_of(const char *id, const json_t *own, char room[WORK_RUN_BYTES])
{
    const char *source = json_string_value(json_object_get(own, "source_run_id"));
    return source != NULL ? source : keys_model_run(id, room) ? room : "";
}

/* The model as clients get it, from its own document. */
static json_t *model_of(const char *id, const json_t *own)
{
    char run[WORK_RUN_BYTES], experiment[WORK_EXPERIMENT_BYTES], decimal[WORK_ID_BYTES], uri[128];
    if (!keys_model_run(id, run)) {
        return NULL;
    }
    (void)snprintf(experiment, sizeof experiment, "%.16s", run);
    work_decimal(experiment, decimal);
    (void)snprintf(uri, sizeof uri, "mlflow-artifacts:/%s/models/%s/artifacts", decimal, id);
    char source[WORK_RUN_BYTES];
    json_t *info =
        json_pack("{s:s, s:s, s:s, s:s, s:o}", "model_id", id, "experiment_id", decimal, "artifact_uri", uri,
                  "source_run_id", source_of(id, own, source), "tags", list_of(json_object_get(own, "tags")));
    static const char *const names[] = {"name", "model_type", "status", "creation_timestamp_ms",
                                        "last_updated_timestamp_ms"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        json_t *value = json_object_get(own, names[i]);
        if (value != NULL) {
            (void)json_object_set(info, names[i], value);
        }
    }
    return json_pack("{s:o, s:{s:o, s:[]}}", "info", info, "data", "params", list_of(json_object_get(own, "params")),
                     "metrics");
}

json_t *models_outputs(const json_t *models, const char *run)
{
    json_t *outputs = json_array(), *text;
    const char *id;
    char source[WORK_RUN_BYTES];
    json_error_t error;
    json_object_foreach((json_t *)(uintptr_t)models, id, text)
    {
        json_t *own = json_loads(json_string_value(text), 0, &error);
        if (json_is_object(own) && strcmp(source_of(id, own, source), run) == 0) {
            (void)json_array_append_new(outputs, json_pack("{s:s, s:I}", "model_id", id, "step",
                                                           json_integer_value(json_object_get(own, "step"))));
        }
        json_decref(own);
    }
    return outputs;
}

/* Reads a model's own document; the caller's. NULL: the answer is an error. */
static json_t *read_model(struct work *work, const char *id, struct work_run *run)
{
    char run_id[WORK_RUN_BYTES], index[WORK_ID_BYTES];
    json_t *texts = NULL, *own = NULL;
    json_error_t error;
    if (!keys_model_run(id, run_id) || !work_read_run_id(work, run_id, run)) {
        (void)work_fail(work, 404, "RESOURCE_DOES_NOT_EXIST",
                        "There is no such logged model: its id is not of this mesh.");
        return NULL;
    }
    if (!work_read_texts(work, run->experiment, (long long)run->trial, &texts)) {
        return NULL;
    }
    (void)snprintf(index, sizeof index, "%llu", (unsigned long long)run->trial);
    const char *text = json_string_value(json_object_get(json_object_get(json_object_get(texts, index), "models"), id));
    own = text != NULL ? json_loads(text, 0, &error) : NULL;
    json_decref(texts);
    if (own == NULL) {
        (void)work_fail(work, 404, "RESOURCE_DOES_NOT_EXIST", "There is no such logged model (any more).");
    }
    return own;
}

/* Writes the document, or takes it back (NULL). */
static bool write_model(struct work *work, const struct work_run *run, const char *id, json_t *own)
{
    char *text = NULL;
    if (own != NULL) {
        (void)json_object_set_new(own, "last_updated_timestamp_ms", json_integer(now_ms()));
        text = json_dumps(own, JSON_COMPACT);
    }
    json_t *texts = json_pack("{s:o}", id, text != NULL ? json_string(text) : json_null());
    bool is_written = (own == NULL || text != NULL) && texts != NULL ? work_write_section(work, run, "models", texts)
                                                                     : work_fail_memory(work);
    json_decref(texts);
    free(text);
    return is_written;
}

/* Sets the pairs of a list of the body in the document's part. */
static bool set_pairs(struct work *work, json_t *own, const char *part, const char *list, size_t chars_max)
{
    size_t i;
    const json_t *pair;
    json_t *into = json_object_get(own, part);
    if (into == NULL) {
        into = json_object();
        (void)json_object_set_new(own, part, into);
    }
    json_array_foreach(json_object_get(work->body, list), i, pair)
    {
        const char *key = json_string_value(json_object_get(pair, "key")),
                   *value = json_string_value(json_object_get(pair, "value"));
        if (key == NULL || key[0] == '\0' || value == NULL || keys_chars(key) > KEYS_CHARS_MAX ||
            keys_chars(value) > chars_max) {
            return work_fail_argument(
                work, "A pair of %s lacks its key or value, or they are longer than %d and %zu characters.", list,
                KEYS_CHARS_MAX, chars_max);
        }
        (void)json_object_set_new(into, key, json_string(value));
    }
    return true;
}

static bool answer_model(struct work *work, const char *id, const json_t *own)
{
    work->answer = json_pack("{s:o}", "model", model_of(id, own));
    return work->answer != NULL || work_fail_memory(work);
}

bool models_create(struct work *work)
{
    struct work_run run;
    uint8_t drawn[4];
    char id[40];
    const char *name = work_argument(work, "name"), *type = work_argument(work, "model_type"),
               *source = work_argument(work, "source_run_id");
    if (!work_own_or_refuse(work, &run)) {
        return false;
    }
    if (name != NULL && (name[0] == '\0' || strpbrk(name, "/:.%\"'") != NULL || keys_chars(name) > KEYS_CHARS_MAX)) {
        return work_fail_argument(work, "Invalid model name '%.300s': it cannot be empty or contain / : . %% \" '.",
                                  name);
    }
    (void)getentropy(drawn, sizeof drawn);
    (void)snprintf(id, sizeof id, "m-%.16s%08x%02x%02x%02x%02x", run.experiment, (unsigned)run.trial,
                   (unsigned)drawn[0], (unsigned)drawn[1], (unsigned)drawn[2], (unsigned)drawn[3]);
    json_t *own = json_pack("{s:s, s:s, s:I, s:I}", "name", name != NULL ? name : id, "status", "LOGGED_MODEL_PENDING",
                            "creation_timestamp_ms", now_ms(), "step", (json_int_t)0);
    if (type != NULL) {
        (void)json_object_set_new(own, "model_type", json_string(type));
    }
    if (source != NULL) {
        struct work_run maker;
        bool is_own = work_read_run_id(work, source, &maker) && maker.trial == run.trial &&
                      strcmp(maker.experiment, run.experiment) == 0;
        if (!is_own) {
            json_decref(own);
            return work_fail(work, 403, "PERMISSION_DENIED",
                             "The token of a trial writes to its own runs, and changes nothing else.");
        }
        (void)json_object_set_new(own, "source_run_id", json_string(source));
    }
    bool is_good = set_pairs(work, own, "params", "params", 6000) && set_pairs(work, own, "tags", "tags", 8000) &&
                   write_model(work, &run, id, own) && answer_model(work, id, own);
    json_decref(own);
    return is_good;
}

/* The status of the body: PENDING, READY or UPLOAD_FAILED, by name or number. */
static bool set_status(struct work *work, json_t *own)
{
    static const char *const names[] = {NULL, "LOGGED_MODEL_PENDING", "LOGGED_MODEL_READY",
                                        "LOGGED_MODEL_UPLOAD_FAILED"};
    const char *text = work_argument(work, "status");
    uint64_t number = work_number(work, "status", 0);
    for (size_t i = 1; i < sizeof names / sizeof names[0]; i++) {
        if (number == i || (text != NULL && strcmp(text, names[i]) == 0)) {
            (void)json_object_set_new(own, "status", json_string(names[i]));
            return true;
        }
    }
    return work_fail_argument(
        work, "status has to be LOGGED_MODEL_PENDING, LOGGED_MODEL_READY or LOGGED_MODEL_UPLOAD_FAILED.");
}

/* What a request changes; `below`: of the path, behind the model's id. False with status 200: it is no request of
 * MLflow's. */
static bool change(struct work *work, json_t *own, const char *below)
{
    const char *method = work->call->method;
    if (strcmp(method, "PATCH") == 0 && below[0] == '\0') {
        return set_status(work, own);
    }
    if (strcmp(method, "POST") == 0 && strcmp(below, "/params") == 0) {
        return set_pairs(work, own, "params", "params", 6000);
    }
    if (strcmp(method, "PATCH") == 0 && strcmp(below, "/tags") == 0) {
        return set_pairs(work, own, "tags", "tags", 8000);
    }
    if (strcmp(method, "DELETE") == 0 && strncmp(below, "/tags/", 6) == 0) {
        (void)json_object_del(json_object_get(own, "tags"), below + 6);
        return true;
    }
    return strcmp(method, "DELETE") == 0 && below[0] == '\0';
}

/* Whether the request sets only the tag in which MLflow's client, after register_model, notes the versions that are a model. */
static bool notes_versions(const struct work *work, const char *below)
{
    size_t i;
    const json_t *tag, *tags = json_object_get(work->body, "tags");
    bool is_it = strcmp(work->call->method, "PATCH") == 0 && strcmp(below, "/tags") == 0 && json_array_size(tags) > 0;
    json_array_foreach(tags, i, tag)
    {
        const char *key = json_string_value(json_object_get(tag, "key"));
        is_it = is_it && key != NULL && strcmp(key, "mlflow.modelVersions") == 0;
    }
    return is_it;
}

/* The caller may change the registry, and is no trial. False after an error, too. */
static bool is_registrar(struct work *work)
{
    msgpack_object session;
    return work_ask(work, "session", NULL, -1, &session) && !document_has(&session, "trial") && !document_true(&session, "read_only");
}

bool models_one(struct work *work)
{
    struct work_run run, writer;
    char id[40];
    const char *below = work->rest + strcspn(work->rest, "/");
    bool reads = strcmp(work->call->method, "GET") == 0 && below[0] == '\0';
    reads = reads || (notes_versions(work, below) && is_registrar(work)); /* the registry has that, so the tag is not kept */
    if (work->status != 200) {
        return false;
    }
    (void)snprintf(id, sizeof id, "%.*s", (int)(below - work->rest < 39 ? below - work->rest : 39), work->rest);
    json_t *own = !reads && !work_own_or_refuse(work, &writer) ? NULL : read_model(work, id, &run);
    if (own == NULL) {
        return false;
    }
    bool is_deleted = strcmp(work->call->method, "DELETE") == 0 && below[0] == '\0';
    bool is_good = reads || change(work, own, below);
    if (!is_good && work->status == 200) {
        (void)work_fail(work, 404, "ENDPOINT_NOT_FOUND",
                        "This door has no such path of MLflow's API; docs/mlflow.md lists those that it has.");
    }
    is_good = is_good && (reads || write_model(work, &run, id, is_deleted ? NULL : own)) && answer_model(work, id, own);
    json_decref(own);
    return is_good;
}

bool models_outputs_of_run(struct work *work)
{
    struct work_run own;
    size_t i;
    const json_t *model;
    if (!work_own_or_refuse(work, &own)) {
        return false;
    }
    json_array_foreach(json_object_get(work->body, "models"), i, model)
    {
        struct work_run run;
        const char *id = json_string_value(json_object_get(model, "model_id"));
        const json_t *step = json_object_get(model, "step");
        json_t *found = read_model(work, id != NULL ? id : "", &run);
        if (found == NULL) {
            return false;
        }
        (void)json_object_set_new(
            found, "step",
            json_integer(json_is_string(step) ? strtoll(json_string_value(step), NULL, 10) : json_integer_value(step)));
        bool is_written = write_model(work, &run, id, found);
        json_decref(found);
        if (!is_written) {
            return false;
        }
    }
    work->answer = json_object();
    return true;
}

/* ---- search ---------------------------------------------------------------------------------------------------- */

static const char *text_of(const json_t *pairs, const char *key)
{
    size_t i;
    const json_t *pair;
    json_array_foreach(pairs, i, pair)
    {
        if (strcmp(json_string_value(json_object_get(pair, "key")), key) == 0) {
            return json_string_value(json_object_get(pair, "value"));
        }
    }
    return NULL;
}

static struct filter_value of_model(const json_t *model, enum filter_of of, const char *key)
{
    const json_t *info = json_object_get(model, "info"), *value = json_object_get(info, key);
    const char *text = of == FILTER_TAG     ? text_of(json_object_get(info, "tags"), key)
                       : of == FILTER_PARAM ? text_of(json_object_get(json_object_get(model, "data"), "params"), key)
                                            : json_string_value(value);
    if (of == FILTER_ATTRIBUTE && json_is_integer(value)) {
        return (struct filter_value){.kind = FILTER_NUMBER, .number = (double)json_integer_value(value)};
    }
    return (struct filter_value){.kind = text != NULL && of != FILTER_METRIC ? FILTER_TEXT : FILTER_ABSENT,
                                 .text = text};
}

static void collect(json_t *models, const json_t *of_trial, const struct filter *filter)
{
    const char *id;
    json_t *text;
    json_error_t error;
    json_object_foreach(json_object_get(of_trial, "models"), id, text)
    {
        json_t *own = json_loads(json_string_value(text), 0, &error);
        json_t *model = json_is_object(own) ? model_of(id, own) : NULL;
        bool passes = model != NULL && json_array_size(models) < FOUND_MAX;
        for (size_t i = 0; i < filter->count && passes; i++) {
            passes = filter_passes(&filter->terms[i], of_model(model, filter->terms[i].of, filter->terms[i].key));
        }
        if (passes) {
            (void)json_array_append(models, model);
        }
        json_decref(model);
        json_decref(own);
    }
}

/* The number of an experiment's trials, which `ls` has by their states. */
static uint64_t trials_of(const msgpack_object *row)
{
    uint64_t count = 0;
    msgpack_object_map states = document_pairs(document_find(row, "trials"));
    for (uint32_t i = 0; i < states.size; i++) {
        double number = 0;
        count += document_double(&states.ptr[i].val, &number) && number > 0 ? (uint64_t)number : 0;
    }
    return count;
}

static bool search(struct work *work, const struct filter *filter)
{
    msgpack_object list;
    size_t i;
    const json_t *id;
    if (!work_ask(work, "ls", NULL, -1, &list)) {
        return false;
    }
    json_t *models = json_array();
    json_array_foreach(json_object_get(work->body, "experiment_ids"), i, id)
    {
        const msgpack_object *row =
            json_is_string(id) ? work_find_experiment(&list, json_string_value(id), NULL) : &list;
        char experiment[WORK_EXPERIMENT_BYTES];
        json_t *texts = NULL, *of_trial;
        const char *trial;
        if (row->type != MSGPACK_OBJECT_MAP || row == &list) {
            continue;
        }
        document_text(row, "id", experiment, sizeof experiment);
        if (trials_of(row) > RUNS_TEXTS_MAX) {
            json_decref(models);
            return work_fail_argument(work,
                                      "Models are searched in experiments of %d trials at most; get them by their ids.",
                                      RUNS_TEXTS_MAX);
        }
        if (!work_read_texts(work, experiment, -1, &texts)) {
            json_decref(models);
            return false;
        }
        json_object_foreach(texts, trial, of_trial)
        {
            collect(models, of_trial, filter);
        }
        json_decref(texts);
    }
    work->answer = json_pack("{s:o}", "models", models);
    return true;
}

bool models_search(struct work *work)
{
    char error[256];
    struct filter *filter = calloc(1, sizeof *filter);
    if (filter == NULL) {
        return work_fail_memory(work);
    }
    bool is_good = filter_read(work_argument(work, "filter"), filter, error)
                       ? search(work, filter)
                       : work_fail(work, 400, "INVALID_PARAMETER_VALUE", error);
    free(filter);
    return is_good;
}
