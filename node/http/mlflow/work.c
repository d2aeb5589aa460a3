#include "node/http/mlflow/work.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/document.h"
#include "base/err.h"
#include "node/daemon/wire/texts.h"
#include "node/http/answer.h"
#include "node/http/ask.h"
#include "node/http/mlflow/keys.h"

#define CHANNEL_FILE_MS 600000 /* a large file comes from other nodes first */

bool work_fail(struct work *work, int status, const char *error_code, const char *message)
{
    work->status = status;
    work->error_code = error_code;
    (void)snprintf(work->message, sizeof work->message, "%s", message);
    return false;
}

bool work_fail_argument(struct work *work, const char *format, ...)
{
    va_list arguments;
    work->status = 400;
    work->error_code = "INVALID_PARAMETER_VALUE";
    va_start(arguments, format);
    (void)vsnprintf(work->message, sizeof work->message, format, arguments);
    va_end(arguments);
    return false;
}

bool work_fail_memory(struct work *work)
{
    return work_fail(work, 503, "TEMPORARILY_UNAVAILABLE", "No memory is left; ask for less at a time.");
}

/* ---- arguments ------------------------------------------------------------------------------------------------- */

const char *work_argument(const struct work *work, const char *name)
{
    const json_t *value = json_object_get(work->body, name);
    return json_is_string(value) ? json_string_value(value)
                                 : MHD_lookup_connection_value(work->call->connection, MHD_GET_ARGUMENT_KIND, name);
}

uint64_t work_number(const struct work *work, const char *name, uint64_t standard)
{
    const json_t *value = json_object_get(work->body, name);
    const char *text = work_argument(work, name);
    if (json_is_integer(value) && json_integer_value(value) >= 0) {
        return (uint64_t)json_integer_value(value);
    }
    return text != NULL ? strtoull(text, NULL, 10) : standard;
}

/* ---- the mesh's documents -------------------------------------------------------------------------------------- */

/* False: the daemon has refused, or does not answer. */
static bool is_good(struct work *work, int code, const msgpack_object *reply)
{
    char text[sizeof work->message];
    if (code == 0 && document_true(reply, "ok")) {
        return true;
    }
    if (code != 0) {
        return work_fail(work, 503, "TEMPORARILY_UNAVAILABLE",
                         "The daemon does not answer now; try again in some seconds.");
    }
    document_text(reply, "error", text, sizeof text);
    switch (document_number(reply, "code")) {
    case 1:
        return work_fail(work, 503, "TEMPORARILY_UNAVAILABLE", text);
    case 4:
        return work_fail(work, 404, "RESOURCE_DOES_NOT_EXIST", text);
    case 6:
        return work_fail(
            work, 401, "UNAUTHENTICATED",
            "Set MLFLOW_TRACKING_TOKEN to a token of `shoal token create --read-only --name mlflow`; that of a "
            "trial is valid while the trial's program runs.");
    case 7:
        return work_fail(work, 403, "PERMISSION_DENIED", text);
    default:
        return work_fail(work, 400, "INVALID_PARAMETER_VALUE", text);
    }
}

bool work_ask(struct work *work, const char *op, const char *experiment, long long trial, msgpack_object *out)
{
    int code = experiment == NULL ? ask_document(&work->channel, op, work->call->secret, out)
                                  : ask_experiment(&work->channel, op, work->call->secret, experiment, trial, out);
    return is_good(work, code, out);
}

bool work_put(struct work *work, const struct pack_writer *writer)
{
    if (writer->failed) {
        return work_fail_argument(work, "The request is larger than 1 MiB.");
    }
    return channel_send(&work->channel, writer->bytes, writer->used_bytes, -1) == 0 ||
           work_fail(work, 503, "TEMPORARILY_UNAVAILABLE",
                     "The daemon does not answer now; try again in some seconds.");
}

bool work_take(struct work *work, msgpack_object *out)
{
    *out = (msgpack_object){.type = MSGPACK_OBJECT_NIL};
    return is_good(work, ask_collect(&work->channel, out), out);
}

bool work_take_file(struct work *work, msgpack_object *out, int *fd)
{
    *out = (msgpack_object){.type = MSGPACK_OBJECT_NIL};
    *fd = -1;
    if (is_good(work, channel_next(&work->channel, CHANNEL_FILE_MS, out, fd), out)) {
        return true;
    }
    if (*fd >= 0) {
        (void)close(*fd);
    }
    *fd = -1;
    return false;
}

struct MHD_Response *work_answer(struct work *work, int *status)
{
    if (work->status != 200) {
        json_decref(work->answer);
        work->answer = json_pack("{s:s, s:s}", "error_code", work->error_code, "message", work->message);
    }
    char *text = work->answer != NULL ? json_dumps(work->answer, JSON_COMPACT) : NULL;
    json_decref(work->body);
    json_decref(work->answer);
    work->body = work->answer = NULL;
    struct MHD_Response *response = text != NULL ? answer_text(work->status, "application/json", text, status) : NULL;
    free(text);
    return response;
}

bool work_send(struct work *work, const struct pack_writer *writer, msgpack_object *out)
{
    return work_put(work, writer) && work_take(work, out);
}

/* ---- ids ------------------------------------------------------------------------------------------------------- */

void work_decimal(const char *experiment, char out[WORK_ID_BYTES])
{
    (void)snprintf(out, WORK_ID_BYTES, "%llu", strtoull(experiment, NULL, 16) & INT64_MAX);
}

void work_run_id(const struct work_run *run, char out[WORK_RUN_BYTES])
{
    (void)snprintf(out, WORK_RUN_BYTES, "%.16s%.8s%08x", run->experiment,
                   run->further[0] != '\0' ? run->further : "00000000", (unsigned)run->trial);
}

const msgpack_object *work_find_experiment(const msgpack_object *list, const char *id, const char *name)
{
    static const msgpack_object nil = {.type = MSGPACK_OBJECT_NIL};
    const msgpack_object *found = &nil;
    msgpack_object_array rows = document_list(list, "experiments");
    for (uint32_t i = 0; i < rows.size; i++) {
        char own[WORK_EXPERIMENT_BYTES], decimal[WORK_ID_BYTES], own_name[256];
        document_text(&rows.ptr[i], "id", own, sizeof own);
        document_text(&rows.ptr[i], "name", own_name, sizeof own_name);
        work_decimal(own, decimal);
        bool is_it = id != NULL ? strcmp(id, decimal) == 0 : strcmp(name, own_name) == 0;
        if (is_it &&
            (found == &nil || document_number(&rows.ptr[i], "submitted_s") > document_number(found, "submitted_s"))) {
            found = &rows.ptr[i];
        }
    }
    return found;
}

bool work_read_run_id(struct work *work, const char *id, struct work_run *out)
{
    if (id == NULL || strlen(id) != WORK_RUN_BYTES - 1 || strspn(id, "0123456789abcdef") != WORK_RUN_BYTES - 1) {
        return work_fail_argument(work, "The request lacks run_id, 32 hexadecimal digits.");
    }
    *out = (struct work_run){.trial = strtoull(id + 24, NULL, 16)};
    memcpy(out->experiment, id, WORK_EXPERIMENT_BYTES - 1);
    if (memcmp(id + 16, "00000000", TEXTS_FURTHER_CHARS) != 0) {
        memcpy(out->further, id + 16, TEXTS_FURTHER_CHARS);
    }
    return true;
}

bool work_read_run(struct work *work, struct work_run *out)
{
    const char *id = work_argument(work, "run_id");
    return work_read_run_id(work, id != NULL ? id : work_argument(work, "run_uuid"), out);
}
