/* Runs as clients get them: a trial is one, and each further run that its program has started is another one, whose
 * texts have its number before their keys, and whose metrics are a group of the trial's. */

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/document.h"
#include "node/daemon/wire/texts.h"
#include "node/http/ask.h"
#include "node/http/mlflow/keys.h"
#include "node/http/mlflow/work.h"

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
json_t *runs_metric_value(double value)
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
                (void)json_array_append_new(metrics,
                                            json_pack("{s:s, s:o, s:I, s:I}", "key", key, "value",
                                                      runs_metric_value(value), "timestamp", at_ms, "step", step));
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
    json_decref(written);
    return list_of(params);
}

/* The texts of a section that are of one run: of the trial's own (`further` ""), or of a further one, without its
 * number. */
static json_t *section_of(const json_t *written, const char *section, const char *further)
{
    json_t *found = json_object(), *value;
    const char *key;
    json_object_foreach(json_object_get(written, section), key, value)
    {
        const char *bar = strchr(key, TEXTS_FURTHER_MARK);
        size_t bytes = bar != NULL ? (size_t)(bar - key) : 0;
        if (bytes == strlen(further) && memcmp(key, further, bytes) == 0) {
            (void)json_object_set(found, bar != NULL ? bar + 1 : key, value);
        }
    }
    return found;
}

/* The document of a further run; NULL: it is the trial's own, or there is none. */
static json_t *further_of(const json_t *written, const char *further)
{
    json_error_t error;
    const char *text =
        further[0] != '\0' ? json_string_value(json_object_get(json_object_get(written, "runs"), further)) : NULL;
    return text != NULL ? json_loads(text, 0, &error) : NULL;
}

/* What a run's `info` says of times and state. */
static void set_state(json_t *info, const msgpack_object *trial, json_t *further)
{
    char state[32];
    json_int_t started_ms = (json_int_t)document_number(trial, "started_s") * 1000,
               ended_ms = (json_int_t)document_number(trial, "ended_s") * 1000;
    document_text(trial, "state", state, sizeof state);
    const char *status = json_string_value(json_object_get(further, "status")), *of_trial = status_of(state);
    bool is_over = status != NULL && strcmp(status, "RUNNING") != 0 && strcmp(status, "SCHEDULED") != 0;
    if (further != NULL) {
        started_ms = json_integer_value(json_object_get(further, "start_time"));
        ended_ms = is_over ? json_integer_value(json_object_get(further, "end_time")) : ended_ms;
    }
    (void)json_object_set_new(info, "status", json_string(is_over ? status : of_trial));
    (void)json_object_set_new(info, "start_time", json_integer(started_ms));
    if (ended_ms != 0) {
        (void)json_object_set_new(info, "end_time", json_integer(ended_ms));
    }
}

/* The document of a run, out of its trial's, with `metrics`, which becomes its own. */
static json_t *make_run(const msgpack_object *experiment, const msgpack_object *trial, const json_t *written,
                        const char *further, json_t *metrics)
{
    char decimal[WORK_ID_BYTES], run[WORK_RUN_BYTES], name[256], run_name[336], state[32], uri[128], text[64];
    struct work_run ids = {.trial = document_number(trial, "index")};
    (void)snprintf(ids.further, sizeof ids.further, "%s", further);
    document_text(experiment, "id", ids.experiment, sizeof ids.experiment);
    document_text(experiment, "name", name, sizeof name);
    document_text(trial, "state", state, sizeof state);
    work_decimal(ids.experiment, decimal);
    work_run_id(&ids, run);
    (void)snprintf(text, sizeof text, "%" PRIu64, ids.trial);
    (void)snprintf(run_name, sizeof run_name, "%s/%s%s%s", name, text, further[0] != '\0' ? "/" : "", further);
    (void)snprintf(uri, sizeof uri, "mlflow-artifacts:/%s/%s/artifacts", decimal, run);
    json_t *tags = json_object(), *own_tags = section_of(written, "tags", further),
           *about = further_of(written, further);
    set_text(tags, "mlflow.runName", run_name);
    set_text(tags, "mlflow.source.name", name);
    set_text(tags, "mlflow.source.type", "JOB");
    (void)json_object_update(tags, own_tags);
    set_text(tags, "shoal.state", state);
    set_text(tags, "shoal.experiment", ids.experiment);
    set_text(tags, "shoal.trial", text);
    const char *user = json_string_value(json_object_get(tags, "mlflow.user"));
    json_t *info = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "run_id", run, "run_uuid", run, "run_name",
                             json_string_value(json_object_get(tags, "mlflow.runName")), "experiment_id", decimal,
                             "user_id", user != NULL ? user : "", "artifact_uri", uri, "lifecycle_stage", "active");
    set_state(info, trial, about);
    json_decref(own_tags);
    json_decref(about);
    json_t *params = section_of(written, "params", further);
    return json_pack("{s:o, s:{s:o, s:o, s:o}, s:{s:[]}, s:{s:o}}", "info", info, "data", "metrics", metrics, "params",
                     further[0] != '\0' ? list_of(params) : params_of(trial, params), "tags", list_of(tags), "inputs",
                     "dataset_inputs", "outputs", "model_outputs",
                     models_outputs(json_object_get(written, "models"), run));
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
    static const char *const sections[] = {"params", "tags", "names", "models", "runs"};
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

/* Sums over all of a trial's metrics, out of its series: the trial's row has room for some, and may be seconds old. */
static bool read_sums(struct work *work, const struct work_run *run, msgpack_object *out)
{
    uint8_t bytes[512];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    work_begin_trial(work, &writer, "metrics", run, 1);
    pack_text(&writer, "points");
    pack_u64(&writer, 1);
    return work_send(work, &writer, out);
}

/* The last values of the metrics of one of the trial's runs. */
static json_t *last_of(const msgpack_object *sums, const json_t *names, const char *further)
{
    json_t *found = json_object(), *list = json_array(), *value;
    char wanted[KEYS_GROUP_BYTES];
    msgpack_object_array rows = document_list(sums, "points");
    (void)snprintf(wanted, sizeof wanted, TEXTS_FURTHER_GROUP "%s", further);
    for (uint32_t i = 0; i < rows.size; i++) {
        char group[64], name[160], key[256];
        document_text(&rows.ptr[i], "group", group, sizeof group);
        bool is_its = further[0] != '\0' ? strcmp(group, wanted) == 0 : !texts_is_further(group);
        msgpack_object_map metrics = document_pairs(document_find(&rows.ptr[i], "metrics"));
        for (uint32_t k = 0; k < metrics.size && is_its && !document_true(&rows.ptr[i], "void"); k++) {
            double last;
            document_value_text(&metrics.ptr[k].key, name, sizeof name);
            metric_key(names, group, name, key, sizeof key);
            if (document_double(document_find(&metrics.ptr[k].val, "last"), &last)) {
                const char *own_key = further[0] != '\0' ? name : key;
                (void)json_object_set_new(found, own_key,
                                          json_pack("{s:s, s:o, s:I, s:I}", "key", own_key, "value",
                                                    runs_metric_value(last), "timestamp",
                                                    (json_int_t)document_number(&rows.ptr[i], "wall_ms"), "step",
                                                    (json_int_t)document_number(&rows.ptr[i], "step")));
            }
        }
    }
    const char *key;
    json_object_foreach(found, key, value)
    {
        (void)json_array_append(list, value);
    }
    json_decref(found);
    return list;
}

json_t *work_get_run(struct work *work, const struct work_run *run)
{
    msgpack_object document, sums;
    json_t *texts = NULL, *result = NULL;
    char index[WORK_ID_BYTES];
    (void)snprintf(index, sizeof index, "%" PRIu64, run->trial);
    bool is_read = work_ask(work, "trial", run->experiment, (long long)run->trial, &document) &&
                   work_read_texts(work, run->experiment, (long long)run->trial, &texts);
    const json_t *written = json_object_get(texts, index);
    if (is_read && run->further[0] != '\0' && json_object_get(json_object_get(written, "runs"), run->further) == NULL) {
        (void)work_fail(work, 404, "RESOURCE_DOES_NOT_EXIST", "The trial's program has started no such run.");
    } else if (is_read && read_sums(work, run, &sums)) {
        result = make_run(document_find(&document, "experiment"), document_find(&document, "trial"), written,
                          run->further, last_of(&sums, json_object_get(written, "names"), run->further));
    }
    json_decref(texts);
    return result;
}

/* Appends the further runs of a trial. */
static bool add_further(struct work *work, const msgpack_object *experiment, const msgpack_object *trial,
                        const json_t *written, json_t *list)
{
    struct work_run run = {.trial = document_number(trial, "index")};
    msgpack_object sums = {.type = MSGPACK_OBJECT_NIL};
    const char *further;
    json_t *value;
    document_text(experiment, "id", run.experiment, sizeof run.experiment);
    json_object_foreach(json_object_get(written, "runs"), further, value)
    {
        if (strlen(further) != TEXTS_FURTHER_CHARS) {
            continue; /* the trial's own */
        }
        if (sums.type == MSGPACK_OBJECT_NIL && !read_sums(work, &run, &sums)) {
            return false;
        }
        (void)json_array_append_new(list, make_run(experiment, trial, written, further, last_of(&sums, NULL, further)));
    }
    return true;
}

bool runs_read(struct work *work, const char *id, json_t **out)
{
    msgpack_object document;
    json_t *texts = NULL;
    if (!work_ask(work, "show", id, -1, &document)) {
        return false;
    }
    const msgpack_object *experiment = document_find(&document, "experiment");
    msgpack_object_array trials = document_list(experiment, "trials");
    if (trials.size <= RUNS_TEXTS_MAX && !work_read_texts(work, id, -1, &texts)) {
        return false;
    }
    bool is_good = true;
    *out = json_array();
    for (uint32_t i = 0; i < trials.size && is_good; i++) {
        char index[WORK_ID_BYTES];
        (void)snprintf(index, sizeof index, "%" PRIu64, document_number(&trials.ptr[i], "index"));
        const json_t *written = json_object_get(texts, index);
        uint64_t at_s = document_number(&trials.ptr[i], "ended_s");
        at_s = at_s != 0 ? at_s : document_number(&trials.ptr[i], "started_s");
        json_t *metrics = metrics_of(&trials.ptr[i], json_object_get(written, "names"), (json_int_t)at_s * 1000);
        (void)json_array_append_new(*out, make_run(experiment, &trials.ptr[i], written, "", metrics));
        is_good = add_further(work, experiment, &trials.ptr[i], written, *out);
    }
    json_decref(texts);
    if (!is_good) {
        json_decref(*out);
        *out = NULL;
    }
    return is_good;
}
