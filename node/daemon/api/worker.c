#include "node/daemon/api/worker.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/descriptors.h"
#include "base/err.h"
#include "node/daemon/api/query.h"
#include "node/daemon/peers/peers.h"
#include "node/daemon/wire/request.h"
#include "node/daemon/workers/end.h"
#include "node/daemon/workers/workers.h"

static struct daemon_worker *worker_of(struct daemon *daemon, const struct client *client)
{
    struct daemon_worker *worker = client->slot >= 0 ? &daemon->workers->slots[client->slot] : NULL;
    return worker != NULL && worker->client == client ? worker : NULL;
}

static void forget_client(struct daemon_worker *worker)
{
    worker->client->slot = -1;
    worker->client = NULL;
    worker->group_request = 0; /* the request's number means nothing on another connection */
}

static void notice(struct client *client, const char *name, const char *key, const char *text, uint64_t number)
{
    uint8_t bytes[128];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 2);
    pack_text(&writer, "notice");
    pack_text(&writer, name);
    pack_text(&writer, key);
    if (text != NULL) {
        pack_text(&writer, text);
    } else {
        pack_u64(&writer, number);
    }
    client_send(client, bytes, writer.used_bytes);
}

static void tell_stop(struct daemon_worker *worker)
{
    daemon_workers_stopping(worker);
    notice(worker->client, "stop", "reason", worker->stop_reason, 0);
}

static void leave_notice(const struct daemon_worker *worker)
{
    if (worker->client == NULL) {
        return; /* the worker is told when it connects */
    }
    uint8_t bytes[128];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 3);
    pack_text(&writer, "notice");
    pack_text(&writer, "regroup");
    pack_text(&writer, "generation");
    pack_u64(&writer, worker->leaving);
    pack_text(&writer, "at_once");
    pack_bool(&writer, worker->leaves_at_once);
    client_send(worker->client, bytes, writer.used_bytes);
}

/* True if the worker is connected by another process, which lives. A child made by fork may hold the connection of a process
 * that has ended. */
static bool has_other_process(const struct daemon_worker *worker, const struct client *client)
{
    int process = worker->client != NULL ? worker->client->process : 0;
    return process > 0 && client->process > 0 && process != client->process && (kill(process, 0) == 0 || errno == EPERM);
}

void api_worker_open(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    lease_token token;
    int slot = -1;
    if (request_token(&request->map, &token)) {
        slot = node_core_find_token(daemon->core, token);
    }
    struct daemon_worker *worker = slot >= 0 ? &daemon->workers->slots[slot] : NULL;
    bool has_process =
        worker != NULL && (worker->state == WORKER_RUNNING || worker->state == WORKER_SPAWNING) && !worker->last.is_taken;
    const struct view_experiment *experiment =
        has_process ? view_find_experiment(node_core_view(daemon->core), worker->prepare.u.worker.attempt.experiment) : NULL;
    struct client_reply reply;
    if (experiment == NULL || !experiment->known) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "The token is not valid here (any more): the lease of this slot has ended.");
        return;
    }
    if (has_other_process(worker, request->client)) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "Process %d of this slot is connected already, and a slot has one process that reports; give the "
                           "trial more slots to run more ranks.",
                           worker->client->process);
        return;
    }
    if (!client_reply_begin(&reply, request->id, true, 11)) {
        return;
    }
    /* A connection belongs to one worker: worker and client name each other, or neither does. */
    struct daemon_worker *before = worker_of(daemon, request->client);
    if (before != NULL) {
        forget_client(before);
    }
    if (worker->client != NULL) {
        forget_client(worker);
    }
    worker->client = request->client;
    worker->session = 0; /* an older program tells none */
    (void)client_argument_u64(request, "session", &worker->session);
    request->client->slot = slot;
    const struct node_effect *effect = &worker->prepare;
    char id[2 * EXPERIMENT_ID_BYTES + 1];
    bytes_to_hex(id, effect->u.worker.attempt.experiment.bytes, EXPERIMENT_ID_BYTES);
    struct pack_writer *w = &reply.writer;
    pack_text(w, "experiment");
    pack_text(w, id);
    pack_text(w, "trial");
    pack_u64(w, effect->u.worker.attempt.trial);
    pack_text(w, "attempt");
    pack_u64(w, effect->u.worker.attempt.number);
    pack_text(w, "generation");
    pack_u64(w, 1);
    pack_text(w, "rank");
    pack_u64(w, effect->u.worker.rank);
    pack_text(w, "size");
    pack_u64(w, worker->size);
    pack_text(w, "seed");
    pack_u64(w, worker->seed);
    pack_text(w, "hyperparameters");
    const struct config *config = daemon_config(daemon, experiment);
    const struct view_attempt *attempt = view_find_attempt(node_core_view(daemon->core), &effect->u.worker.attempt);
    if (config == NULL || view_attempt_values(config, attempt, effect->u.worker.attempt.trial, w) != 0) {
        pack_map(w, 0);
    }
    pack_text(w, "host");
    char host[FACT_ADDRESS_BYTES];
    node_core_host(daemon->core, &effect->u.worker.attempt, host, sizeof host);
    pack_text(w, host);
    pack_text(w, "step");
    pack_u64(w, effect->u.worker.step);
    pack_text(w, "balance");
    pack_bool(w, experiment->config->balance);
    client_reply_send(daemon, request->client, &reply, -1);
    if (worker->stop_reason[0] != '\0') {
        tell_stop(worker); /* the stop was asked before the worker connected */
    }
    if (worker->leaving != 0) {
        leave_notice(worker);
    }
}

static bool flag(const struct client_request *request, const char *key)
{
    struct pack_reader value = pack_find(&request->map, key);
    return pack_peek(&value) == PACK_BOOL && pack_read_bool(&value) && !value.failed;
}

void api_worker_group(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    struct daemon_worker *worker = request->worker;
    uint64_t port = 0;
    if (!client_argument_u64(request, "port", &port) || port == 0 || port > UINT16_MAX) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE, "worker_group wants a `port` of 1 to 65535.");
        return;
    }
    uint64_t generation = 0, step = 0;
    (void)client_argument_u64(request, "generation", &generation);
    (void)client_argument_u64(request, "step", &step);
    worker->group_request = request->id;
    worker->data_port = (uint32_t)port;
    worker->leaving = 0;
    struct node_event event = {.kind = NODE_EVENT_WORKER_LISTENS};
    event.u.worker.is_elastic = flag(request, "elastic");
    event.u.worker.has_state = flag(request, "has_state");
    event.u.worker.generation = generation <= UINT32_MAX ? (uint32_t)generation : 0;
    event.u.worker.step = step;
    event.u.worker.slot = (uint32_t)request->client->slot;
    event.u.worker.attempt = worker->prepare.u.worker.attempt;
    event.u.worker.port = (uint32_t)port;
    daemon_event(daemon, &event);
}

void api_worker_group_effect(struct daemon *daemon, const struct node_effect *effect)
{
    struct daemon_worker *worker = &daemon->workers->slots[effect->u.worker.slot];
    struct client_reply reply;
    if (worker->client == NULL || worker->group_request == 0 || worker->client->broken ||
        !client_reply_begin(&reply, worker->group_request, true, 6)) {
        return;
    }
    worker->group_request = 0;
    latest_take_back(&worker->latest, effect->u.worker.step);
    pack_text(&reply.writer, "generation");
    pack_u64(&reply.writer, effect->u.worker.generation);
    pack_text(&reply.writer, "rank");
    pack_u64(&reply.writer, effect->u.worker.rank);
    pack_text(&reply.writer, "size");
    pack_u64(&reply.writer, effect->u.worker.size);
    pack_text(&reply.writer, "step");
    pack_u64(&reply.writer, effect->u.worker.step);
    pack_text(&reply.writer, "key");
    pack_bin(&reply.writer, effect->u.worker.group_key, MESSAGE_KEY_BYTES);
    pack_text(&reply.writer, "members");
    pack_raw(&reply.writer, effect->bytes, effect->byte_count);
    client_reply_send(daemon, worker->client, &reply, -1);
}

void api_worker_leave_effect(struct daemon *daemon, const struct node_effect *effect)
{
    struct daemon_worker *worker = &daemon->workers->slots[effect->u.worker.slot];
    if (attempt_id_equal(&worker->prepare.u.worker.attempt, &effect->u.worker.attempt)) {
        worker->leaving = effect->u.worker.generation;
        worker->leaves_at_once = effect->u.worker.at_once;
        leave_notice(worker);
    }
}

void api_worker_durable_effect(struct daemon *daemon, const struct node_effect *effect)
{
    struct daemon_worker *worker = &daemon->workers->slots[effect->u.worker.slot];
    tally_durable(&daemon->workers->tally, effect->u.worker.slot, &effect->u.worker.attempt, effect->u.worker.step,
                  daemon_now_ms());
    if (worker->client != NULL && attempt_id_equal(&worker->prepare.u.worker.attempt, &effect->u.worker.attempt)) {
        notice(worker->client, "durable", "step", NULL, effect->u.worker.step);
    }
}

void api_worker_stop_effect(struct daemon *daemon, const struct node_effect *effect)
{
    if (daemon_workers_stop(daemon, effect)) {
        tell_stop(&daemon->workers->slots[effect->u.worker.slot]);
    }
}

void api_worker_forget(struct daemon_worker *worker)
{
    forget_client(worker);
}

/* The answer to a report that is on its way to the disk. */
struct api_answer {
    struct api_answer *next;
    uint64_t append_id; /* the answer is due with the event of this one, or of a later one */
    uint64_t serial;
    uint32_t slot;
    struct points_source source; /* `request` is the request's id, also without a session */
};

/* Puts the answer behind the others. The api owns it. */
static void answer_put(struct daemon *daemon, struct api_answer *answer)
{
    struct daemon_api *api = daemon->api;
    if (api->answers == NULL) {
        api->answers_end = &api->answers;
    }
    *api->answers_end = answer;
    api->answers_end = &answer->next;
}

struct api_answer *api_answer_new(struct daemon *daemon, const struct client_request *request,
                                  const struct daemon_worker *worker)
{
    struct api_answer *answer = calloc(1, sizeof *answer);
    if (answer != NULL) {
        *answer = (struct api_answer){.append_id = ++daemon->request_id,
                                      .serial = request->client->serial,
                                      .slot = worker->prepare.u.worker.slot,
                                      .source = {0, request->id}};
    }
    return answer;
}

uint64_t api_answer_id(const struct api_answer *answer)
{
    return answer->append_id;
}

void api_answer_later(struct daemon *daemon, struct api_answer *answer)
{
    daemon->api->append_id = answer->append_id;
    answer_put(daemon, answer);
}

void api_worker_report(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    struct daemon_worker *worker = request->worker;
    struct request_report report;
    if (request_report_read(&request->map, &report) != 0) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "worker_report wants `group` (at most %d bytes), `step` and `metrics`, a map of names (at most %d "
                           "bytes) to numbers; the bytes of the names and 12 for each may be %u at most.",
                           REQUEST_GROUP_BYTES - 1, REQUEST_METRIC_BYTES - 1, REQUEST_METRICS_BYTES_MAX);
        return;
    }
    if (request->id == 0) { /* the client wants no answer */
        (void)daemon_series_report(daemon, worker, 0, 0, report.group, report.step, 0, report.metrics);
        return;
    }
    bool is_repeated = worker->session != 0 && worker->reported.session == worker->session &&
                       request->id <= worker->reported.request;
    struct api_answer *answer = calloc(1, sizeof *answer);
    if (answer == NULL) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED, "the report was not stored: no memory is left");
        return;
    }
    *answer = (struct api_answer){.append_id = is_repeated ? daemon->api->append_id : ++daemon->request_id,
                                  .serial = request->client->serial,
                                  .slot = (uint32_t)request->client->slot,
                                  .source = {worker->session, request->id}};
    int error = is_repeated ? 0
                            : daemon_series_report(daemon, worker, answer->append_id, request->id, report.group, report.step,
                                                   0, report.metrics);
    if (error != 0) {
        free(answer);
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED, "the report was not stored: %s", err_text(error));
        return;
    }
    daemon->api->append_id = answer->append_id;
    if (is_repeated && daemon->api->answers == NULL) { /* on the disk */
        client_reply_empty(daemon, request->client, request->id);
        free(answer);
        return;
    }
    answer_put(daemon, answer);
}

void api_worker_appended(struct daemon *daemon, uint64_t id, int code)
{
    struct api_answer *answer;
    while ((answer = daemon->api->answers) != NULL && answer->append_id <= id) {
        daemon->api->answers = answer->next;
        struct client *client = client_find(daemon, answer->serial);
        struct points_source *reported = &daemon->workers->slots[answer->slot].reported;
        bool is_of_it = answer->source.session != 0 && answer->source.session == reported->session;
        if (client != NULL && code == 0) {
            client_reply_empty(daemon, client, answer->source.request);
        } else if (client != NULL) {
            client_reply_error(daemon, client, answer->source.request, EXIT_REFUSED,
                               "the report could not be stored on this node: %s", err_text(code));
        } else if (code != 0 && is_of_it && reported->request >= answer->source.request) {
            reported->request = answer->source.request - 1; /* the program repeats the report */
        }
        free(answer);
    }
}

void api_worker_close(struct daemon *daemon)
{
    while (daemon->api->answers != NULL) {
        struct api_answer *answer = daemon->api->answers;
        daemon->api->answers = answer->next;
        free(answer);
    }
}

struct save_job {
    struct job job;
    struct chunks *chunks;
    uint64_t serial, id;
    uint32_t slot;
    attempt_id attempt;
    struct request_save wanted;
    uint8_t metrics[FACT_METRICS_BYTES_MAX]; /* the metrics at the save */
    uint32_t metrics_bytes;
    int fd;
    hash256 blob;
    int result;
    char error[256];
};

/* Reads the cuts, which lie behind the checkpoint, in place. ERR_IO. */
static int read_cuts(const struct save_job *save, uint64_t *cuts)
{
    uint32_t count = save->wanted.cut_count;
    if (descriptor_read_at(save->fd, cuts, count * sizeof *cuts, save->wanted.bytes) != 0) {
        return ERR_IO;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint8_t packed[sizeof *cuts];
        memcpy(packed, &cuts[i], sizeof packed);
        cuts[i] = bytes_get_u64(packed);
    }
    return 0;
}

/* The memory is shared with the worker, so what is checked is a copy of the cuts. */
static void save_work(struct job *job)
{
    struct save_job *save = (struct save_job *)job;
    uint32_t count = save->wanted.cut_count;
    uint64_t *cuts = malloc((count + 1) * sizeof *cuts);
    save->result = cuts == NULL ? ERR_MEMORY : read_cuts(save, cuts);
    if (save->result != 0) {
        snprintf(save->error, sizeof save->error, "cannot read the %u cuts of a checkpoint: %s", count, err_text(save->result));
    } else {
        save->result = chunks_put_blob_cut_at(save->chunks, save->fd, save->wanted.bytes, cuts, count, &save->blob, save->error,
                                              sizeof save->error);
    }
    if (save->result == ERR_USAGE) {
        snprintf(save->error, sizeof save->error, "the cuts of a checkpoint have to ascend and to lie below its %llu bytes",
                 (unsigned long long)save->wanted.bytes);
    }
    free(cuts);
    (void)close(save->fd);
}

static void save_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct save_job *save = (struct save_job *)job;
    struct client *client = client_find(daemon, save->serial);
    if (save->result == 0) {
        struct node_event event = {.kind = NODE_EVENT_CHECKPOINT};
        event.u.blob.slot = save->slot;
        event.u.blob.attempt = save->attempt;
        event.u.blob.step = save->wanted.step;
        event.u.blob.part = save->wanted.part;
        event.u.blob.blob = save->blob;
        event.u.blob.bytes = save->wanted.bytes;
        event.bytes = save->metrics;
        event.byte_count = save->metrics_bytes;
        tally_saved(&daemon->workers->tally, save->slot, &save->attempt, save->wanted.step, save->wanted.bytes,
                    daemon_now_ms());
        daemon_event(daemon, &event);
    } else {
        daemon_line_of(daemon, event_of_attempt(EVENT_CHECKPOINT_FAILED, &save->attempt),
                       "the checkpoint of trial %u at step %llu could not be stored: %s", save->attempt.trial,
                       (unsigned long long)save->wanted.step, save->error);
    }
    if (client != NULL && save->result == 0) {
        client_reply_empty(daemon, client, save->id);
    } else if (client != NULL) {
        client_reply_error(daemon, client, save->id, EXIT_REFUSED, "%s", save->error);
    }
    struct daemon_worker *worker = &daemon->workers->slots[save->slot];
    if (worker->saves > 0 && attempt_id_equal(&worker->prepare.u.worker.attempt, &save->attempt)) {
        worker->saves--;
        if (worker->last.is_taken) {
            daemon_workers_poll(daemon, save->slot); /* the worker's end may have waited for this save */
        }
    }
    free(save);
}

/* An older node would take no notice of the parts, and could not go on from them. */
static bool refused_parts(struct daemon *daemon, struct client_request *request)
{
    const struct view_member *older = node_core_lacks_parts(daemon->core);
    if (older != NULL) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "the checkpoint of several parts is not saved: %s runs a version of Shoal that does not know such "
                           "checkpoints; update that node first, or save the whole state on one rank",
                           view_label(node_core_view(daemon->core), older->id).text);
    }
    return older != NULL;
}

void api_worker_save(struct daemon *daemon, struct client_request *request, int is_part)
{
    struct daemon_worker *worker = request->worker;
    struct save_job *save = calloc(1, sizeof *save);
    struct stat status;
    int fd = client_take_file(request);
    int error = save == NULL ? ERR_MEMORY : is_part ? request_save_part_read(&request->map, &save->wanted)
                                                    : request_save_read(&request->map, &save->wanted);
    bool ok = error == 0 && fd >= 0 && fstat(fd, &status) == 0 &&
              (uint64_t)status.st_size >= save->wanted.bytes;
    if (!ok) {
        free(save);
        if (fd >= 0) {
            (void)close(fd);
        }
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "worker_save wants `step`, `bytes`, at most %u `cuts`, and a descriptor with as many bytes%s.",
                           REQUEST_CUTS_MAX, is_part ? "; and a part `save`, `parts` (256 at most) and `part`" : "");
        return;
    }
    if (is_part && refused_parts(daemon, request)) {
        free(save);
        (void)close(fd);
        return;
    }
    save->job = (struct job){.work = save_work, .done = save_done};
    save->chunks = daemon->chunks;
    save->serial = request->client->serial;
    save->id = request->id;
    save->slot = (uint32_t)request->client->slot;
    save->attempt = worker->prepare.u.worker.attempt;
    save->metrics_bytes = daemon_series_metrics(daemon, worker, save->metrics);
    save->fd = fd;
    worker->saves++;
    jobs_run(daemon->blob_jobs, &save->job);
}

void api_worker_parts(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    struct daemon_worker *worker = request->worker;
    const struct node_effect *effect = &worker->prepare;
    const struct view_set *set = daemon_set(daemon, &effect->u.worker.attempt, effect->u.worker.checkpoint);
    struct client_reply reply;
    if (client_reply_begin(&reply, request->id, true, 1)) {
        pack_text(&reply.writer, "parts");
        pack_u64(&reply.writer, set != NULL ? set->key.count : 0);
        client_reply_send(daemon, request->client, &reply, -1);
    }
}

void api_worker_load(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    struct daemon_worker *worker = request->worker;
    struct client_reply reply;
    if (hash256_is_none(worker->prepare.u.worker.checkpoint)) {
        if (client_reply_begin(&reply, request->id, true, 3)) {
            pack_text(&reply.writer, "found");
            pack_bool(&reply.writer, false);
            pack_text(&reply.writer, "step");
            pack_u64(&reply.writer, 0);
            pack_text(&reply.writer, "bytes");
            pack_u64(&reply.writer, 0);
            client_reply_send(daemon, request->client, &reply, -1);
        }
    } else {
        query_worker_load(daemon, request, worker);
    }
}

void api_worker_progress(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    uint64_t step = 0;
    if (!client_argument_u64(request, "step", &step)) {
        client_reply_no_request(daemon, request);
        return;
    }
    daemon_series_progress(daemon, request->worker, step);
    client_reply_empty(daemon, request->client, request->id);
}

void api_worker_blocked(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    char host[FACT_ADDRESS_BYTES];
    uint64_t port;
    if (!request_text(&request->map, "host", host, sizeof host) || !client_argument_u64(request, "port", &port) || port == 0 ||
        port > UINT16_MAX) {
        client_reply_no_request(daemon, request);
        return;
    }
    daemon_blocked_told(daemon, host, (uint16_t)port);
    client_reply_empty(daemon, request->client, request->id);
}

/* ---- connections ----------------------------------------------------------------------------------------------- */

#define SPLIT_MAX (1ull << 53) /* of steps and of ns, some 100 days: sums of many fit */

void api_worker_profile(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    struct profile_split split = {.steps = 0};
    uint64_t step = 0;
    bool is_whole = client_argument_u64(request, "step", &step) && client_argument_u64(request, "steps", &split.steps) &&
                    client_argument_u64(request, "step_ns", &split.step_ns) &&
                    client_argument_u64(request, "collective_ns", &split.collective_ns) &&
                    client_argument_u64(request, "data_ns", &split.data_ns);
    if (!is_whole || split.steps == 0 || split.steps > SPLIT_MAX || split.step_ns > SPLIT_MAX || split.collective_ns > SPLIT_MAX ||
        split.data_ns > SPLIT_MAX) {
        client_reply_no_request(daemon, request);
        return;
    }
    daemon_series_split(daemon, request->worker, step, &split);
    client_reply_empty(daemon, request->client, request->id);
}

bool api_worker_admit(struct daemon *daemon, struct client_request *request)
{
    struct daemon_worker *worker = worker_of(daemon, request->client);
    if (worker == NULL) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "This connection belongs to no worker (any more); begin with worker_open.");
        return false;
    }
    if (node_core_find_token(daemon->core, worker->token) != request->client->slot) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "The lease of this worker's slot has ended; its requests are refused from now on.");
        return false;
    }
    request->worker = worker;
    return true;
}

bool api_worker_must_wait(struct daemon *daemon, const struct client *client)
{
    return worker_of(daemon, client) != NULL && !bulk_series_has_room(daemon->bulk, DAEMON_POINT_BYTES_MAX);
}

void api_worker_gone(struct daemon *daemon, struct client *client)
{
    struct daemon_worker *worker = worker_of(daemon, client);
    if (worker != NULL) {
        forget_client(worker);
    }
}
