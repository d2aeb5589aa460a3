/* What programs of trials write by MLflow. Each request becomes reports and texts of the trial whose token it carries;
 * a person's token reads, since a run is a trial, and trials are made by `shoal submit`. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/document.h"
#include "node/daemon/wire/texts.h"
#include "node/http/ask.h"
#include "node/http/mlflow/keys.h"
#include "node/http/mlflow/work.h"

#define BATCH_BYTES_MAX 1000000
#define METRICS_MAX 1000
#define PARAMS_MAX 100
#define TAGS_MAX 100
#define PARAM_CHARS_MAX 6000
#define TAG_CHARS_MAX 8000
#define TEXTS_BYTES (300u << 10) /* of a section that is sent at once, and one text more: less than the daemon takes \
                                  */
#define TEXTS_KEY_BYTES 1100     /* of a key with the number of a further run */
#define OWN_RUN "own"            /* the trial's own run among what is known of its runs */
#define EARLY_MS 60000           /* a time so far ahead of this machine's is a mistake */

/* ---- whose request it is ---------------------------------------------------------------------------------------- */

bool work_own_trial(struct work *work, struct work_run *out)
{
    msgpack_object session;
    if (!work_ask(work, "session", NULL, -1, &session) || !document_has(&session, "trial")) {
        return false;
    }
    *out =
        (struct work_run){.trial = document_number(&session, "trial"), .attempt = document_number(&session, "attempt")};
    document_text(&session, "experiment", out->experiment, sizeof out->experiment);
    return true;
}

bool write_nothing(struct work *work)
{
    msgpack_object session;
    if (!work_ask(work, "session", NULL, -1, &session)) {
        return false;
    }
    if (document_has(&session, "trial")) {
        return work_fail(work, 403, "PERMISSION_DENIED",
                         "The token of a trial writes to its own runs, and changes nothing else.");
    }
    if (document_true(&session, "read_only")) {
        return work_fail(work, 403, "PERMISSION_DENIED",
                         "The token is read-only; make one with `shoal token create` without --read-only.");
    }
    return work_fail(
        work, 501, "NOT_IMPLEMENTED",
        "Experiments and runs are made by `shoal submit`, and a trial's program writes to its run with the token that "
        "it finds in MLFLOW_TRACKING_TOKEN; from outside, MLflow reads.");
}

bool work_own_or_refuse(struct work *work, struct work_run *out)
{
    return work_own_trial(work, out) || (work->status == 200 && write_nothing(work));
}

/* ---- texts ------------------------------------------------------------------------------------------------------ */

/* Texts on their way to the daemon; each section is an object of texts, and of nulls for those that are taken back. */
struct sections {
    json_t *params, *tags, *names, *models;
};

static void sections_close(struct sections *sections)
{
    json_decref(sections->params);
    json_decref(sections->tags);
    json_decref(sections->names);
    json_decref(sections->models);
}

void work_begin_trial(const struct work *work, struct pack_writer *writer, const char *op, const struct work_run *run,
                      uint32_t arguments)
{
    ask_begin(writer, op, work->call->secret, arguments + 2);
    pack_text(writer, "experiment");
    pack_text(writer, run->experiment);
    pack_text(writer, "trial");
    pack_u64(writer, run->trial);
}

static bool put_trial(struct work *work, const struct work_run *run, const char *op, uint32_t arguments,
                      const struct pack_writer *rest)
{
    size_t bytes = rest->used_bytes + 1024;
    struct pack_writer writer;
    uint8_t *packed = malloc(bytes);
    if (packed == NULL || rest->failed) {
        free(packed);
        return work_fail_memory(work);
    }
    pack_writer_init(&writer, packed, bytes);
    work_begin_trial(work, &writer, op, run, arguments);
    pack_raw(&writer, rest->bytes, rest->used_bytes);
    bool is_sent = work_put(work, &writer);
    free(packed);
    return is_sent;
}

/* Sends `texts`, packed pairs, as one section. */
static bool send_section(struct work *work, const struct work_run *run, const char *section, uint32_t count,
                         const struct pack_writer *texts)
{
    size_t bytes = texts->used_bytes + 64;
    uint8_t *packed = malloc(bytes);
    struct pack_writer writer;
    if (packed == NULL) {
        return work_fail_memory(work);
    }
    pack_writer_init(&writer, packed, bytes);
    pack_text(&writer, "texts");
    pack_map(&writer, 1);
    pack_text(&writer, section);
    pack_map(&writer, count);
    pack_raw(&writer, texts->bytes, texts->used_bytes);
    msgpack_object reply;
    bool is_sent = put_trial(work, run, "trial_texts", 1, &writer) && work_take(work, &reply);
    free(packed);
    return is_sent;
}

/* Sends in parts of about TEXTS_BYTES. */
bool work_write_section(struct work *work, const struct work_run *run, const char *section, json_t *texts)
{
    struct pack_writer writer;
    const char *key;
    json_t *value;
    size_t most = TEXTS_BYTES + (300u << 10);
    uint32_t count = 0;
    bool is_good = true;
    if (json_object_size(texts) == 0) {
        return true;
    }
    uint8_t *packed = malloc(most);
    if (packed == NULL) {
        return work_fail_memory(work);
    }
    pack_writer_init(&writer, packed, most);
    json_object_foreach(texts, key, value)
    {
        char own[TEXTS_KEY_BYTES];
        (void)snprintf(own, sizeof own, "%s%c%s", run->further, TEXTS_FURTHER_MARK, key);
        pack_text(&writer, run->further[0] != '\0' ? own : key);
        if (json_is_string(value)) {
            pack_text_n(&writer, json_string_value(value), json_string_length(value));
        } else {
            pack_nil(&writer);
        }
        count++;
        if (writer.used_bytes >= TEXTS_BYTES) {
            is_good = is_good && send_section(work, run, section, count, &writer);
            pack_writer_init(&writer, packed, most);
            count = 0;
        }
    }
    is_good = is_good && (count == 0 || send_section(work, run, section, count, &writer));
    free(packed);
    return is_good;
}

/* Parameters first, which may be refused. */
static bool write_sections(struct work *work, const struct work_run *run, const struct sections *sections)
{
    return work_write_section(work, run, "params", sections->params) &&
           work_write_section(work, run, "names", sections->names) &&
           work_write_section(work, run, "tags", sections->tags) &&
           work_write_section(work, run, "models", sections->models);
}

bool work_write_tag(struct work *work, const struct work_run *run, const char *key, const char *value)
{
    json_t *tags = json_pack("{s:s}", key, value);
    if (tags == NULL) {
        return work_fail_argument(work, "The text of %s is no UTF-8.", key);
    }
    bool is_sent = work_write_section(work, run, "tags", tags);
    json_decref(tags);
    return is_sent;
}

/* ---- what is written -------------------------------------------------------------------------------------------- */

/* `what`: metric, parameter or tag. */
static bool check_key(struct work *work, const char *what, const char *key)
{
    if (key == NULL || key[0] == '\0') {
        return work_fail_argument(work, "The request lacks the key of a %s.", what);
    }
    if (keys_chars(key) > KEYS_CHARS_MAX) {
        return work_fail_argument(work, "The %s name '%.300s' exceeds the maximum length of %d characters", what, key,
                                  KEYS_CHARS_MAX);
    }
    if (!keys_is_key(key)) {
        return work_fail_argument(
            work,
            "Invalid %s name: '%.300s'. Names may only contain alphanumerics, underscores (_), dashes (-), "
            "periods (.), spaces ( ), colon(:) and slashes (/), and must not resolve to other names as paths.",
            what, key);
    }
    return true;
}

static bool take_text(struct work *work, json_t *into, const char *what, const char *key, const char *value,
                      size_t chars_max)
{
    if (!check_key(work, what, key)) {
        return false;
    }
    if (value == NULL) {
        return work_fail_argument(work, "The %s '%s' has no value, or one that is no text.", what, key);
    }
    if (keys_chars(value) > chars_max) {
        return work_fail_argument(
            work, "The value of the %s '%s' had length %zu, which exceeds the length limit of %zu characters", what,
            key, keys_chars(value), chars_max);
    }
    const char *before = json_string_value(json_object_get(into, key));
    if (before != NULL && strcmp(what, "param") == 0 && strcmp(before, value) != 0) {
        return work_fail_argument(work, "Duplicate parameter keys have been submitted: '%s', with two values.", key);
    }
    (void)json_object_set_new(into, key, json_string(value));
    return true;
}

static bool take_pairs(struct work *work, const char *list, const char *what, size_t chars_max, json_t *into)
{
    size_t i;
    const json_t *pair;
    json_array_foreach(json_object_get(work->body, list), i, pair)
    {
        if (!take_text(work, into, what, json_string_value(json_object_get(pair, "key")),
                       json_string_value(json_object_get(pair, "value")), chars_max)) {
            return false;
        }
    }
    return true;
}

/* A metric as a client has sent it. */
struct metric {
    struct metric_place place;
    double value;
    uint64_t step, wall_ms;
};

/* A signed number as JSON's, or as a text. False: it is none, or below zero. */
static bool whole_of(const json_t *from, const char *key, uint64_t *out)
{
    const json_t *value = json_object_get(from, key);
    if (value == NULL || json_is_null(value)) {
        *out = 0;
        return true;
    }
    long long number = json_is_integer(value) ? json_integer_value(value)
                       : json_is_real(value)  ? (long long)json_real_value(value)
                                              : -1;
    if (json_is_string(value)) {
        char *end;
        number = strtoll(json_string_value(value), &end, 10);
        number = end == json_string_value(value) || *end != '\0' ? -1 : number;
    }
    *out = number >= 0 ? (uint64_t)number : 0;
    return number >= 0;
}

static bool value_of(const json_t *value, double *out)
{
    const char *text = json_string_value(value);
    if (json_is_number(value)) {
        *out = json_number_value(value);
    } else if (json_is_null(value) || (text != NULL && strcmp(text, "NaN") == 0)) {
        *out = (double)NAN;
    } else if (text != NULL && (strcmp(text, "Infinity") == 0 || strcmp(text, "-Infinity") == 0)) {
        *out = text[0] == '-' ? -(double)INFINITY : (double)INFINITY;
    } else {
        return false;
    }
    return true;
}

/* The place of a metric of the run: a further run's are all in one group. */
static bool place(const struct work_run *run, const char *key, const char *searched, struct metric_place *out)
{
    if (run->further[0] == '\0') {
        return keys_place(key, searched, out);
    }
    *out = (struct metric_place){.is_bare = false};
    (void)snprintf(out->group, sizeof out->group, TEXTS_FURTHER_GROUP "%s", run->further);
    (void)snprintf(out->name, sizeof out->name, "%s", key);
    return strlen(key) < sizeof out->name;
}

static bool read_metric(struct work *work, const struct work_run *run, const json_t *from, const char *searched,
                        json_t *names, struct metric *out)
{
    const char *key = json_string_value(json_object_get(from, "key"));
    if (!check_key(work, "metric", key)) {
        return false;
    }
    if (!place(run, key, searched, &out->place)) {
        return work_fail_argument(work, "The metric '%.200s' has a name of more than %d bytes behind its group.", key,
                                  KEYS_NAME_BYTES - 1);
    }
    if (json_object_get(from, "value") == NULL || !value_of(json_object_get(from, "value"), &out->value)) {
        return work_fail_argument(work, "The value of the metric '%s' is no number.", key);
    }
    if (!whole_of(from, "step", &out->step) || !whole_of(from, "timestamp", &out->wall_ms)) {
        return work_fail_argument(
            work, "The step and the timestamp of the metric '%s' have to be whole numbers from 0 on.", key);
    }
    uint64_t now_ms = (uint64_t)time(NULL) * 1000;
    out->wall_ms = out->wall_ms <= now_ms + EARLY_MS ? out->wall_ms : 0;
    if (out->place.is_bare) {
        (void)json_object_set_new(names, out->place.name, json_string(out->place.group));
    }
    return true;
}

/* Whether two metrics are of one report, which has no name twice: `metrics` up to `end`, and the one there. */
static bool joins(const struct metric *metrics, size_t from, size_t end)
{
    const struct metric *one = &metrics[from], *next = &metrics[end];
    if (strcmp(one->place.group, next->place.group) != 0 || one->step != next->step || one->wall_ms != next->wall_ms) {
        return false;
    }
    for (size_t i = from; i < end; i++) {
        if (strcmp(metrics[i].place.name, next->place.name) == 0) {
            return false;
        }
    }
    return true;
}

/* Sends the metrics in their order, as many in one report as belong together, and then waits for all answers. */
static bool report(struct work *work, const struct work_run *run, const struct metric *metrics, size_t count)
{
    size_t reports = 0;
    for (size_t from = 0, end; from < count; from = end) {
        uint8_t *packed = malloc(METRICS_MAX * (KEYS_NAME_BYTES + 16) + 256);
        struct pack_writer writer;
        if (packed == NULL) {
            return work_fail_memory(work);
        }
        for (end = from + 1; end < count && joins(metrics, from, end);) {
            end++;
        }
        pack_writer_init(&writer, packed, METRICS_MAX * (KEYS_NAME_BYTES + 16) + 256);
        pack_text(&writer, "group");
        pack_text(&writer, metrics[from].place.group);
        pack_text(&writer, "step");
        pack_u64(&writer, metrics[from].step);
        pack_text(&writer, "wall_ms");
        pack_u64(&writer, metrics[from].wall_ms);
        pack_text(&writer, "metrics");
        pack_map(&writer, (uint32_t)(end - from));
        for (size_t i = from; i < end; i++) {
            pack_text(&writer, metrics[i].place.name);
            pack_double(&writer, metrics[i].value);
        }
        bool is_sent = put_trial(work, run, "trial_report", 4, &writer);
        free(packed);
        if (!is_sent) {
            return false;
        }
        reports++;
    }
    bool is_good = true;
    for (; reports > 0 && is_good; reports--) {
        msgpack_object reply;
        is_good = work_take(work, &reply);
    }
    return is_good;
}

/* The metric by which the trials of the experiment are compared; "": none. */
static bool read_searched(struct work *work, const struct work_run *run, char out[KEYS_NAME_BYTES])
{
    msgpack_object document;
    if (!work_ask(work, "trial", run->experiment, (long long)run->trial, &document)) {
        return false;
    }
    document_text(document_find(&document, "experiment"), "metric", out, KEYS_NAME_BYTES);
    return true;
}

/* Takes metrics, parameters and tags of the lists, each of which may be absent. */
static bool write_lists(struct work *work, const json_t *metrics)
{
    struct work_run run;
    struct sections sections = {json_object(), json_object(), json_object(), json_object()};
    struct metric *rows = NULL;
    size_t i, count = json_array_size(metrics);
    const json_t *metric;
    char searched[KEYS_NAME_BYTES] = "";
    bool is_good = work_read_run(work, &run) && take_pairs(work, "params", "param", PARAM_CHARS_MAX, sections.params) &&
                   take_pairs(work, "tags", "tag", TAG_CHARS_MAX, sections.tags);
    if (is_good && count > 0) {
        rows = calloc(count, sizeof *rows);
        is_good = rows != NULL ? read_searched(work, &run, searched) : work_fail_memory(work);
    }
    json_array_foreach(metrics, i, metric)
    {
        is_good = is_good && read_metric(work, &run, metric, searched, sections.names, &rows[i]);
    }
    is_good = is_good && write_sections(work, &run, &sections) && report(work, &run, rows, count);
    sections_close(&sections);
    free(rows);
    work->answer = is_good ? json_object() : NULL;
    return is_good;
}

bool write_metric(struct work *work)
{
    json_t *metrics = json_pack("[O]", work->body != NULL ? work->body : json_null());
    bool is_good = metrics != NULL ? write_lists(work, metrics) : work_fail_memory(work);
    json_decref(metrics);
    return is_good;
}

static bool check_count(struct work *work, const char *what, size_t most, size_t count)
{
    return count <= most ||
           work_fail_argument(work,
                              "A batch logging request can contain at most %zu %s. Got %zu %s. Please split up %s "
                              "across multiple requests and try again.",
                              most, what, count, what, what);
}

bool write_batch(struct work *work)
{
    const json_t *list = json_object_get(work->body, "metrics");
    size_t metrics = json_array_size(list), params = json_array_size(json_object_get(work->body, "params")),
           tags = json_array_size(json_object_get(work->body, "tags"));
    if (work->call->body_bytes > BATCH_BYTES_MAX) {
        return work_fail_argument(work,
                                  "Batched logging API requests must be at most %d bytes, got a request of size %zu.",
                                  BATCH_BYTES_MAX, work->call->body_bytes);
    }
    return check_count(work, "metrics", METRICS_MAX, metrics) && check_count(work, "params", PARAMS_MAX, params) &&
           check_count(work, "tags", TAGS_MAX, tags) &&
           check_count(work, "metrics, params, and tags", METRICS_MAX, metrics + params + tags) &&
           write_lists(work, list);
}

/* Writes one text into a section; `value` NULL takes the key back. */
static bool write_text(struct work *work, const char *what, const char *section, size_t chars_max, bool takes_back)
{
    struct work_run run;
    json_t *texts = json_object();
    const char *key = work_argument(work, "key");
    bool is_good = work_read_run(work, &run) &&
                   (takes_back ? check_key(work, what, key)
                               : take_text(work, texts, what, key, work_argument(work, "value"), chars_max));
    if (is_good && takes_back) {
        (void)json_object_set_new(texts, key, json_null());
    }
    is_good = is_good && work_write_section(work, &run, section, texts);
    json_decref(texts);
    work->answer = is_good ? json_object() : NULL;
    return is_good;
}

bool write_parameter(struct work *work)
{
    return write_text(work, "param", "params", PARAM_CHARS_MAX, false);
}

bool write_tag(struct work *work)
{
    return write_text(work, "tag", "tags", TAG_CHARS_MAX, false);
}

bool write_delete_tag(struct work *work)
{
    return write_text(work, "tag", "tags", 0, true);
}

/* Data sets are not kept: autologging sends them with every run. */
bool write_inputs(struct work *work)
{
    struct work_run run, own;
    if (!work_read_run(work, &run) || !work_own_or_refuse(work, &own)) {
        return false;
    }
    work->answer = json_object();
    return true;
}

/* Clients before MLflow 3 write a model's description beside its files, which say the same. */
bool write_model_json(struct work *work)
{
    return write_inputs(work);
}

/* ---- experiments and runs --------------------------------------------------------------------------------------- */

bool write_create_experiment(struct work *work)
{
    struct work_run own;
    char decimal[WORK_ID_BYTES];
    const char *name = work_argument(work, "name");
    if (name == NULL) {
        return work_fail_argument(work, "The request lacks name.");
    }
    if (!work_own_or_refuse(work, &own) || !work_write_tag(work, &own, "mlflow.experimentName", name)) {
        return false;
    }
    work_decimal(own.experiment, decimal);
    work->answer = json_pack("{s:s}", "experiment_id", decimal);
    return true;
}

/* Answers with the trial's own run, under `key`: all of it, or its `info`. */
static bool answer_run(struct work *work, const struct work_run *own, const char *key, bool is_info)
{
    json_t *run = work_get_run(work, own);
    work->answer = run != NULL ? json_pack("{s:O}", key, is_info ? json_object_get(run, "info") : run) : NULL;
    json_decref(run);
    return work->answer != NULL;
}

/* Keeps what is to be known of a run: `key`, the number of a further one, or OWN_RUN. */
static bool write_about(struct work *work, const struct work_run *own, const char *key, json_t *about)
{
    char *text = json_dumps(about, JSON_COMPACT);
    json_t *runs = text != NULL ? json_pack("{s:s}", key, text) : NULL;
    bool is_written = runs != NULL ? work_write_section(work, own, "runs", runs) : work_fail_memory(work);
    json_decref(runs);
    free(text);
    return is_written;
}

/* Reads what is known of a run; an empty object: nothing is. NULL: the answer is an error. */
static json_t *read_about(struct work *work, const struct work_run *own, const char *key)
{
    json_t *texts = NULL;
    json_error_t error;
    char index[WORK_ID_BYTES];
    if (!work_read_texts(work, own->experiment, (long long)own->trial, &texts)) {
        return NULL;
    }
    (void)snprintf(index, sizeof index, "%llu", (unsigned long long)own->trial);
    const char *text = json_string_value(json_object_get(json_object_get(json_object_get(texts, index), "runs"), key));
    json_t *about = text != NULL ? json_loads(text, 0, &error) : NULL;
    json_decref(texts);
    return about != NULL ? about : json_object();
}

static bool is_over(const char *status)
{
    return status != NULL &&
           (strcmp(status, "FINISHED") == 0 || strcmp(status, "FAILED") == 0 || strcmp(status, "KILLED") == 0);
}

/* Whether the program has ended the trial's own run in this attempt, so that the next run is a further one. False, too,
 * after an error. */
static bool has_ended_own(struct work *work, const struct work_run *own)
{
    json_t *about = read_about(work, own, OWN_RUN);
    bool has_ended = is_over(json_string_value(json_object_get(about, "status"))) &&
                     (uint64_t)json_integer_value(json_object_get(about, "attempt")) == own->attempt;
    json_decref(about);
    return has_ended;
}

static uint64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Makes the run a further one, with a number that is not zero. */
static bool begin_further(struct work *work, struct work_run *run)
{
    uint8_t drawn[4];
    const struct work_run own = *run;
    (void)getentropy(drawn, sizeof drawn);
    (void)snprintf(run->further, sizeof run->further, "%02x%02x%02x%02x", (unsigned)(drawn[0] | 1), (unsigned)drawn[1],
                   (unsigned)drawn[2], (unsigned)drawn[3]);
    json_t *about = json_pack("{s:I, s:s}", "start_time", (json_int_t)work_number(work, "start_time", now_ms()),
                              "status", "RUNNING");
    bool is_written = about != NULL ? write_about(work, &own, run->further, about) : work_fail_memory(work);
    json_decref(about);
    return is_written;
}

/* A trial is one run: whatever run its program starts first, it is that. A run below another one, and one after the end
 * of the trial's own, is a further one. */
bool write_create_run(struct work *work)
{
    struct work_run run;
    char own_id[WORK_RUN_BYTES];
    const char *name = work_argument(work, "run_name");
    json_t *tags = json_object();
    bool is_good = work_own_or_refuse(work, &run) && take_pairs(work, "tags", "tag", TAG_CHARS_MAX, tags);
    if (is_good) {
        work_run_id(&run, own_id);
        bool is_below = json_object_get(tags, "mlflow.parentRunId") != NULL,
             is_next = !is_below && has_ended_own(work, &run);
        is_good = work->status == 200 && (!(is_below || is_next) || begin_further(work, &run));
        if (is_next) {
            (void)json_object_set_new(tags, "mlflow.parentRunId", json_string(own_id));
        }
    }
    if (is_good && name != NULL && name[0] != '\0') {
        (void)json_object_set_new(tags, "mlflow.runName", json_string(name));
    }
    is_good = is_good && work_write_section(work, &run, "tags", tags);
    json_decref(tags);
    return is_good && answer_run(work, &run, "run", false);
}

/* Keeps the state that the program gives a run. The trial's own run has the state of the trial, which ends with its
 * program; that the program has done with it is kept, too. */
static bool keep_status(struct work *work, const struct work_run *own, const struct work_run *run, const char *status)
{
    const char *key = run->further[0] != '\0' ? run->further : OWN_RUN;
    json_t *about = read_about(work, own, key);
    if (about == NULL) {
        return false;
    }
    const char *before = json_string_value(json_object_get(about, "status"));
    bool is_new = before != NULL ? strcmp(before, status) != 0 : is_over(status);
    (void)json_object_set_new(about, "status", json_string(status));
    (void)json_object_set_new(about, "attempt", json_integer((json_int_t)own->attempt));
    (void)json_object_set_new(about, "end_time", json_integer((json_int_t)work_number(work, "end_time", now_ms())));
    bool is_kept = !is_new || write_about(work, own, key, about);
    json_decref(about);
    return is_kept;
}

bool write_update_run(struct work *work)
{
    struct work_run run, own;
    const char *name = work_argument(work, "run_name"), *status = work_argument(work, "status");
    if (!work_read_run(work, &run) || !work_own_or_refuse(work, &own)) {
        return false;
    }
    if (run.trial != own.trial || strcmp(run.experiment, own.experiment) != 0) {
        return work_fail(work, 403, "PERMISSION_DENIED",
                         "The token of a trial writes to its own runs, and changes nothing else.");
    }
    if (status != NULL && !is_over(status) && strcmp(status, "RUNNING") != 0 && strcmp(status, "SCHEDULED") != 0) {
        return work_fail_argument(work, "status has to be RUNNING, SCHEDULED, FINISHED, FAILED or KILLED.");
    }
    if ((name != NULL && name[0] != '\0' && !work_write_tag(work, &run, "mlflow.runName", name)) ||
        (status != NULL && !keep_status(work, &own, &run, status))) {
        return false;
    }
    return answer_run(work, &run, "run_info", true);
}

/* A deleted experiment is an archived one. */
bool write_lifecycle(struct work *work)
{
    msgpack_object list, reply;
    char experiment[WORK_EXPERIMENT_BYTES];
    const char *id = work_argument(work, "experiment_id");
    if (id == NULL) {
        return work_fail_argument(work, "The request lacks experiment_id.");
    }
    if (!work_ask(work, "ls", NULL, -1, &list)) {
        return false;
    }
    const msgpack_object *row = work_find_experiment(&list, id, NULL);
    if (row->type != MSGPACK_OBJECT_MAP) {
        return work_fail(work, 404, "RESOURCE_DOES_NOT_EXIST",
                         "There is no such experiment in the mesh; `shoal ls` lists them.");
    }
    document_text(row, "id", experiment, sizeof experiment);
    bool is_restore = strstr(work->call->path, "/restore") != NULL;
    uint8_t bytes[512];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    ask_begin(&writer, "archive", work->call->secret, 1u + is_restore);
    pack_text(&writer, "experiment");
    pack_text(&writer, experiment);
    if (is_restore) {
        pack_text(&writer, "remove");
        pack_bool(&writer, true);
    }
    if (!work_send(work, &writer, &reply)) {
        return false;
    }
    work->answer = json_object();
    return true;
}
