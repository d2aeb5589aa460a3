#include "node/daemon/api/trial.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "node/daemon/api/worker.h"
#include "node/daemon/wire/request.h"
#include "node/daemon/workers/workers.h"

bool api_trial_is_own(struct daemon *daemon, const struct client_request *request)
{
    const attempt_id *attempt = &request->worker->prepare.u.worker.attempt;
    experiment_id experiment;
    uint64_t trial;
    bool is_named = request_experiment_id(&request->map, &experiment) && request_u64(&request->map, "trial", &trial);
    if (is_named && memcmp(experiment.bytes, attempt->experiment.bytes, EXPERIMENT_ID_BYTES) == 0 &&
        trial == attempt->trial) {
        return true;
    }
    char own[2 * EXPERIMENT_ID_BYTES + 1];
    bytes_to_hex(own, attempt->experiment.bytes, EXPERIMENT_ID_BYTES);
    client_reply_error(daemon, request->client, request->id, EXIT_NO_RIGHTS,
                       "The token is that of trial %u of experiment %s, and writes to no other one.", attempt->trial,
                       own);
    return false;
}

/* Ends a request whose answer is ready: `error` is the appending's. */
static void finish(struct daemon *daemon, const struct client_request *request, struct api_answer *answer, int error,
                   const char *what)
{
    if (error == 0) {
        api_answer_later(daemon, answer);
        return;
    }
    free(answer);
    client_reply_error(daemon, request->client, request->id, EXIT_REFUSED, "The %s not stored: %s.", what,
                       err_text(error));
}

void api_trial_report(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    struct request_report report;
    uint64_t wall_ms = 0;
    if (!api_trial_is_own(daemon, request)) {
        return;
    }
    (void)request_u64(&request->map, "wall_ms", &wall_ms);
    if (request_report_read(&request->map, &report) != 0) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "trial_report wants `group`, `step` and `metrics` as worker_report does.");
        return;
    }
    struct api_answer *answer = api_answer_new(daemon, request, request->worker);
    int error = answer == NULL ? ERR_MEMORY
                               : daemon_series_report(daemon, request->worker, api_answer_id(answer), 0, report.group,
                                                      report.step, wall_ms, report.metrics);
    finish(daemon, request, answer, error, "metrics are");
}

void api_trial_texts(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    struct pack_reader texts = pack_find(&request->map, "texts");
    struct texts_clash *clash = malloc(sizeof *clash);
    struct api_answer *answer = NULL;
    size_t count = 0;
    const uint8_t *bytes = texts.failed ? NULL : pack_read_any(&texts, &count);
    int error = ERR_MALFORMED;
    if (!api_trial_is_own(daemon, request)) {
        free(clash);
        return;
    }
    if (bytes != NULL && !texts.failed) {
        answer = api_answer_new(daemon, request, request->worker);
        error = answer == NULL || clash == NULL
                    ? ERR_MEMORY
                    : daemon_series_texts(daemon, request->worker, api_answer_id(answer), bytes, count, clash);
    }
    if (error == ERR_EXISTS) {
        char experiment[2 * EXPERIMENT_ID_BYTES + 1];
        const attempt_id *attempt = &request->worker->prepare.u.worker.attempt;
        bytes_to_hex(experiment, attempt->experiment.bytes, EXPERIMENT_ID_BYTES);
        client_reply_error(
            daemon, request->client, request->id, EXIT_USAGE,
            "Changing param values is not allowed. Param with key='%s' was already logged with value='%s' for run "
            "ID='%s%016x'. Attempted logging new value '%s'.",
            clash->key, clash->was, experiment, attempt->trial, clash->wanted);
        free(answer);
    } else if (error == ERR_MALFORMED) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "trial_texts wants `texts` of the sections params, tags, names, models and runs, with texts "
                           "within their bounds.");
        free(answer);
    } else if (error == ERR_FULL && request->worker->params.count >= TEXTS_PARAMS_MAX) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE, "A trial has at most %d parameters.",
                           TEXTS_PARAMS_MAX);
        free(answer);
    } else {
        finish(daemon, request, answer, error, "texts are");
    }
    free(clash);
}

bool api_trial_must_wait(struct daemon *daemon)
{
    return !bulk_series_has_room(daemon->bulk, DAEMON_POINT_BYTES_MAX);
}
