/* Requests that read: documents out of the core's state (node/daemon/render.h), streams of them, and what is fetched from other
 * nodes first: metric points, logs, checkpoints. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "node/daemon/local.h"
#include "node/daemon/render.h"
#include "node/daemon/request.h"

#define STREAM_MS 500
#define LOG_FOLLOW_MS 500
#define BLOB_TRIES 3
#define WAIT_S_MAX UINT32_MAX /* longer waits end by then, so that no sum overflows */

/* ---- documents -------------------------------------------------------------------------------------------------------------- */

static uint64_t anonymous_bytes(void)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    unsigned long long kib = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "RssAnon: %llu kB", &kib) == 1) {
            break;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return kib * 1024;
}

static void reply_status(struct daemon *daemon, const struct local_request *request)
{
    struct control_statistics control;
    struct edge_statistics edge;
    struct bulk_statistics bulk;
    control_statistics(daemon->control, &control);
    edge_statistics(daemon->edge, &edge);
    bulk_statistics(daemon->bulk, &bulk);
    struct render_status_extra extra = {.mesh_name = daemon->mesh_name,
                                        .version = SHOAL_VERSION,
                                        .address = daemon->core->options.node.addresses[0],
                                        .uptime_s = (daemon_now_ms() - daemon->started_ms) / 1000,
                                        .memory_bytes = anonymous_bytes(),
                                        .handshakes = control.refused + control.failed + bulk.failed,
                                        .oversized = control.oversized,
                                        .overrun = control.overrun,
                                        .malformed = control.malformed + edge.malformed + bulk.malformed,
                                        .strangers = edge.unknown + bulk.refused,
                                        .forged = edge.forged,
                                        .was = daemon->was,
                                        .was_address = daemon->was_address,
                                        .scrub_bytes = daemon->scrub.checked_bytes,
                                        .scrub_passes = daemon->scrub.passes,
                                        .scrub_damaged = daemon->scrub.damaged,
                                        .scrub_restored = daemon->scrub.restored};
    struct local_reply reply;
    if (local_reply_begin(&reply, request->id, true, RENDER_STATUS_PAIRS)) {
        render_status(daemon->core, &extra, &reply.writer);
        local_reply_send(daemon, request->client, &reply, -1);
    }
}

typedef bool part_fn(const struct node_core *core, const struct view_experiment *experiment, uint64_t argument,
                     uint32_t *from, struct pack_writer *writer);

static bool part_nodes(const struct node_core *core, const struct view_experiment *e, uint64_t argument, uint32_t *from,
                       struct pack_writer *writer)
{
    (void)e;
    (void)argument;
    return render_nodes(core, from, writer);
}

static bool part_invites(const struct node_core *core, const struct view_experiment *e, uint64_t argument, uint32_t *from,
                         struct pack_writer *writer)
{
    (void)e;
    (void)argument;
    return render_invites(core, from, writer);
}

static bool part_slots(const struct node_core *core, const struct view_experiment *e, uint64_t argument, uint32_t *from,
                       struct pack_writer *writer)
{
    (void)e;
    (void)argument;
    return render_slots(core, from, writer);
}

static bool part_ls(const struct node_core *core, const struct view_experiment *e, uint64_t argument, uint32_t *from,
                    struct pack_writer *writer)
{
    (void)e;
    (void)argument;
    return render_ls(core, from, writer);
}

static bool part_show(const struct node_core *core, const struct view_experiment *experiment, uint64_t argument,
                      uint32_t *from, struct pack_writer *writer)
{
    (void)argument;
    return render_show(core, experiment, from, writer);
}

static bool part_checkpoints(const struct node_core *core, const struct view_experiment *experiment, uint64_t argument,
                             uint32_t *from, struct pack_writer *writer)
{
    return render_checkpoints(core, experiment, (uint32_t)argument, from, writer);
}

/* A document with a list, in as many replies as it takes. `end` is that of the last one. */
static void reply_parts(struct daemon *daemon, struct daemon_client *client, uint64_t id, part_fn *part,
                        const struct view_experiment *experiment, uint64_t argument, bool end)
{
    uint32_t from = 0;
    bool more = true;
    while (more && !client->broken) {
        struct local_reply body;
        uint8_t *bytes = malloc(FRAME_BYTES_MAX);
        if (bytes == NULL) {
            client->broken = true;
            return;
        }
        struct pack_writer writer;
        pack_writer_init(&writer, bytes, FRAME_BYTES_MAX - 128);
        more = part(daemon->core, experiment, argument, &from, &writer);
        if (!writer.failed && local_reply_begin(&body, id, end && !more, more ? 2 : 1)) {
            if (more) {
                pack_text(&body.writer, "more");
                pack_bool(&body.writer, true);
            }
            pack_raw(&body.writer, bytes, writer.used_bytes);
            local_reply_send(daemon, client, &body, -1);
        } else {
            client->broken = true;
        }
        free(bytes);
    }
}

/* ---- streams of documents ---------------------------------------------------------------------------------------------------- */

static struct client_stream *new_stream(struct daemon *daemon, const struct local_request *request, enum stream_kind kind)
{
    for (int i = 0; i < CLIENT_STREAMS_MAX; i++) {
        struct client_stream *stream = &request->client->streams[i];
        if (stream->kind == STREAM_NONE) {
            *stream = (struct client_stream){.kind = kind, .id = request->id};
            daemon->watch_ms = daemon_now_ms();
            return stream;
        }
    }
    local_reply_error(daemon, request->client, request->id, 1, "This connection has %d streams open already; close one.",
                      CLIENT_STREAMS_MAX);
    return NULL;
}

static void stream_wait(struct daemon *daemon, struct daemon_client *client, struct client_stream *stream,
                        const struct view_experiment *experiment, uint64_t now_ms)
{
    uint8_t bytes[4096];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    render_experiment_state(daemon->core, experiment, &writer);
    bool over = view_experiment_over(experiment);
    uint64_t hash = bytes_hash64(bytes, writer.used_bytes, over);
    struct local_reply reply;
    if (!over && stream->until_ms != 0 && now_ms >= stream->until_ms) {
        local_reply_error(daemon, client, stream->id, 5, "The experiment is still %s; wait longer with --timeout.",
                          view_experiment_state_name(view_experiment_state(experiment)));
        stream->kind = STREAM_NONE;
    } else if (hash != stream->last_hash && local_reply_begin(&reply, stream->id, over, RENDER_STATE_PAIRS)) {
        stream->last_hash = hash;
        pack_raw(&reply.writer, bytes, writer.used_bytes);
        local_reply_send(daemon, client, &reply, -1);
        stream->kind = over ? STREAM_NONE : stream->kind;
    }
}

static void stream_watch(struct daemon *daemon, struct daemon_client *client, struct client_stream *stream,
                         const struct view_experiment *experiment)
{
    uint8_t *bytes = malloc(FRAME_BYTES_MAX);
    if (bytes == NULL) {
        return;
    }
    struct pack_writer writer;
    uint32_t from = 0;
    pack_writer_init(&writer, bytes, FRAME_BYTES_MAX);
    (void)render_show(daemon->core, experiment, &from, &writer);
    bool over = view_experiment_over(experiment);
    uint32_t alive = 1;
    for (uint32_t i = 0; i < daemon->core->peer_count; i++) {
        alive += core_node_alive(daemon->core, daemon->core->peers[i]->id);
    }
    uint32_t drained = render_nodes_drained(daemon->core);
    uint64_t hash = bytes_hash64(bytes, writer.used_bytes, over + 2 * (alive + (uint64_t)NODE_MEMBERS_MAX * drained));
    free(bytes);
    if (hash == stream->last_hash) {
        return;
    }
    stream->last_hash = hash;
    struct local_reply reply;
    if (local_reply_begin(&reply, stream->id, false, 4)) {
        pack_text(&reply.writer, "more");
        pack_bool(&reply.writer, true);
        pack_text(&reply.writer, "nodes_alive");
        pack_u64(&reply.writer, alive);
        pack_text(&reply.writer, "nodes_drained");
        pack_u64(&reply.writer, drained);
        pack_text(&reply.writer, "nodes");
        pack_u64(&reply.writer, daemon->core->peer_count + 1u);
        local_reply_send(daemon, client, &reply, -1);
    }
    reply_parts(daemon, client, stream->id, part_show, experiment, 0, over);
    stream->kind = over ? STREAM_NONE : stream->kind;
}

static void stream_events(struct daemon *daemon, struct daemon_client *client, struct client_stream *stream)
{
    uint64_t oldest = daemon->line_seq > DAEMON_EVENTS_MAX ? daemon->line_seq - DAEMON_EVENTS_MAX + 1 : 1;
    uint64_t from = stream->seq < oldest ? oldest : stream->seq;
    bool end = !stream->follow;
    if (from > daemon->line_seq && !end) {
        return;
    }
    struct local_reply reply;
    if (!local_reply_begin(&reply, stream->id, end, 1)) {
        return;
    }
    uint64_t count = daemon->line_seq + 1 > from ? daemon->line_seq + 1 - from : 0;
    pack_text(&reply.writer, "events");
    pack_array(&reply.writer, (uint32_t)count);
    for (uint64_t seq = from; seq <= daemon->line_seq; seq++) {
        const struct daemon_line *line = &daemon->lines[(seq - 1) % DAEMON_EVENTS_MAX];
        pack_map(&reply.writer, 3);
        pack_text(&reply.writer, "seq");
        pack_u64(&reply.writer, line->seq);
        pack_text(&reply.writer, "wall_ms");
        pack_u64(&reply.writer, line->wall_ms);
        pack_text(&reply.writer, "text");
        pack_text(&reply.writer, line->text);
    }
    stream->seq = daemon->line_seq + 1;
    local_reply_send(daemon, client, &reply, -1);
    stream->kind = end ? STREAM_NONE : stream->kind;
}

static void stream_step(struct daemon *daemon, struct daemon_client *client, struct client_stream *stream, uint64_t now_ms)
{
    if (now_ms < stream->next_ms || client->queued_bytes > CLIENT_QUEUE_FULL) {
        return;
    }
    stream->next_ms = now_ms + STREAM_MS;
    if (stream->kind == STREAM_EVENTS) {
        stream_events(daemon, client, stream);
        return;
    }
    const struct view_experiment *experiment = view_find_experiment(&daemon->core->view, stream->experiment);
    if (experiment == NULL || !experiment->known) {
        local_reply_error(daemon, client, stream->id, 4, "The experiment does not exist any more.");
        stream->kind = STREAM_NONE;
    } else if (stream->kind == STREAM_WAIT) {
        stream_wait(daemon, client, stream, experiment, now_ms);
    } else {
        stream_watch(daemon, client, stream, experiment);
    }
}

/* ---- series ------------------------------------------------------------------------------------------------------------------- */

struct source {
    attempt_id attempt;
    uint32_t rank;
    node_id owner;
    uint64_t from_seq;
};

#define CANDIDATES_MAX 8

/* Reads one series after the other, each from the node that ran it if it lives, else from whoever has a copy. */
struct daemon_series {
    struct daemon_series *next;
    uint64_t serial, id;
    char kind;
    bool follow;
    experiment_id experiment;
    uint32_t trial;
    struct source *sources;
    uint32_t source_count, source_at;
    node_id candidates[CANDIDATES_MAX];
    uint32_t candidate_count, candidate_at;
    uint64_t request; /* under way; 0: none */
    uint64_t next_ms;
    bool got_any; /* of this source */
};

static bool series_add(struct daemon_series *series, const struct view_attempt *attempt, uint32_t rank)
{
    struct source *bigger = realloc(series->sources, (series->source_count + 1) * sizeof *bigger);
    if (bigger == NULL) {
        return false;
    }
    series->sources = bigger;
    bigger[series->source_count++] =
        (struct source){.attempt = attempt->id, .rank = rank, .owner = attempt->members[rank].node};
    return true;
}

static void series_candidates(const struct daemon *daemon, struct daemon_series *series)
{
    const struct source *source = &series->sources[series->source_at];
    series->candidate_count = 0;
    series->candidate_at = 0;
    series->got_any = false;
    if (core_node_alive(daemon->core, source->owner)) {
        series->candidates[series->candidate_count++] = source->owner;
    }
    node_id holders[CANDIDATES_MAX - 1];
    uint32_t count = daemon_holders(daemon, &source->attempt, holders, CANDIDATES_MAX - 1);
    for (uint32_t i = 0; i < count; i++) {
        if (!node_id_equal(holders[i], source->owner)) {
            series->candidates[series->candidate_count++] = holders[i];
        }
    }
}

static void series_free(struct daemon *daemon, struct daemon_series *series)
{
    struct daemon_series **link = &daemon->series;
    while (*link != series) {
        link = &(*link)->next;
    }
    *link = series->next;
    free(series->sources);
    free(series);
}

static bool trial_is_over(const struct daemon *daemon, const struct daemon_series *series)
{
    const struct view_experiment *experiment = view_find_experiment(&daemon->core->view, series->experiment);
    if (experiment == NULL) {
        return true;
    }
    enum view_trial_state state = view_trial_state(experiment, series->trial);
    return state == VIEW_TRIAL_COMPLETED || state == VIEW_TRIAL_FAILED || view_experiment_over(experiment);
}

static void series_ask(struct daemon *daemon, struct daemon_series *series)
{
    const struct source *source = &series->sources[series->source_at];
    uint8_t prefix[SERIES_PREFIX_BYTES_MAX];
    size_t bytes = daemon_series_prefix(series->kind, &source->attempt, source->rank, prefix);
    series->request = ++daemon->request_id;
    if (bulk_series_fetch(daemon->bulk, series->request, prefix, bytes, source->from_seq,
                          series->candidates[series->candidate_at]) != 0) {
        series->request = 0;
        series->next_ms = daemon_now_ms() + LOG_FOLLOW_MS;
    }
}

/* Goes on to the next source; after the last one the stream ends, or begins again where it is when it follows. */
static void series_step(struct daemon *daemon, struct daemon_series *series, uint64_t now_ms)
{
    struct daemon_client *client = local_find_client(daemon, series->serial);
    if (client == NULL) {
        series_free(daemon, series);
        return;
    }
    if (series->request != 0 || now_ms < series->next_ms || client->queued_bytes > CLIENT_QUEUE_FULL) {
        return;
    }
    if (series->source_at == series->source_count && series->follow && series->source_count > 0 &&
        !trial_is_over(daemon, series)) {
        series->source_at = 0;
        series->next_ms = now_ms + LOG_FOLLOW_MS;
        series_candidates(daemon, series);
        return;
    }
    if (series->source_at == series->source_count) {
        struct local_reply reply;
        if (local_reply_begin(&reply, series->id, true, 0)) {
            local_reply_send(daemon, client, &reply, -1);
        }
        series_free(daemon, series);
        return;
    }
    if (series->candidate_count == 0) {
        series_candidates(daemon, series);
    }
    if (series->candidate_at >= series->candidate_count) {
        series->source_at++;
        series->candidate_count = 0;
        return;
    }
    series_ask(daemon, series);
}

static void emit_points(struct daemon *daemon, struct daemon_client *client, uint64_t id, const struct bulk_event *event)
{
    struct local_reply reply;
    if (!local_reply_begin(&reply, id, false, 1)) {
        return;
    }
    pack_text(&reply.writer, "points");
    pack_array(&reply.writer, event->item_count);
    for (uint32_t i = 0; i < event->item_count; i++) {
        struct pack_reader reader;
        pack_reader_init(&reader, event->items[i].bytes, event->items[i].count);
        pack_skip(&reader);
        if (pack_at_end(&reader)) {
            pack_raw(&reply.writer, event->items[i].bytes, event->items[i].count);
        } else {
            pack_nil(&reply.writer); /* a peer sent nonsense */
        }
    }
    local_reply_send(daemon, client, &reply, -1);
}

static void emit_log(struct daemon *daemon, struct daemon_client *client, uint64_t id, const struct source *source,
                     const struct bulk_item *item)
{
    struct local_reply reply;
    if (!local_reply_begin(&reply, id, false, 3)) {
        return;
    }
    pack_text(&reply.writer, "attempt");
    pack_u64(&reply.writer, source->attempt.number);
    pack_text(&reply.writer, "rank");
    pack_u64(&reply.writer, source->rank);
    pack_text(&reply.writer, "bytes");
    pack_bin(&reply.writer, item->bytes, item->count);
    local_reply_send(daemon, client, &reply, -1);
}

void daemon_query_series(struct daemon *daemon, struct bulk_event *event)
{
    struct daemon_series *series = daemon->series;
    while (series != NULL && series->request != event->id) {
        series = series->next;
    }
    struct daemon_client *client = series != NULL ? local_find_client(daemon, series->serial) : NULL;
    if (client == NULL) {
        return;
    }
    series->request = 0;
    struct source *source = &series->sources[series->source_at];
    if (event->code == 0 && event->item_count > 0) {
        series->got_any = true;
        source->from_seq = event->items[event->item_count - 1].sequence + 1;
        if (series->kind == 'm') {
            emit_points(daemon, client, series->id, event);
        }
        for (uint32_t i = 0; series->kind == 'l' && i < event->item_count; i++) {
            emit_log(daemon, client, series->id, source, &event->items[i]);
        }
    }
    if (event->code == 0 && event->more) {
        return; /* the same candidate goes on */
    }
    bool from_owner = node_id_equal(series->candidates[series->candidate_at], source->owner);
    if (series->got_any || (event->code == 0 && from_owner)) {
        series->source_at++;
        series->candidate_count = 0;
    } else {
        series->candidate_at++;
    }
}

static void request_series(struct daemon *daemon, struct local_request *request, char kind)
{
    struct view_experiment *experiment;
    if (!local_argument_experiment(daemon, request, &experiment)) {
        return;
    }
    uint64_t trial = 0, rank = 0;
    bool one_trial = local_argument_u64(request, "trial", &trial);
    bool one_rank = local_argument_u64(request, "rank", &rank);
    if ((one_trial && trial >= experiment->trial_count) || (kind == 'l' && !one_trial)) {
        local_reply_error(daemon, request->client, request->id, 4, "The experiment has no such trial; it has 0 to %u.",
                          experiment->trial_count - 1);
        return;
    }
    struct daemon_series *series = calloc(1, sizeof *series);
    if (series == NULL) {
        return;
    }
    *series = (struct daemon_series){.serial = request->client->serial,
                                     .id = request->id,
                                     .kind = kind,
                                     .follow = kind == 'l' && request_flag(&request->map, "follow"),
                                     .experiment = experiment->id,
                                     .trial = (uint32_t)trial,
                                     .next = daemon->series};
    for (uint32_t i = 0; i < experiment->trial_slots; i++) {
        const struct view_trial *row = experiment->trials[i];
        if (row == NULL || (one_trial && row->index != trial)) {
            continue;
        }
        if (kind == 'l') {
            const struct view_attempt *newest = view_trial_highest(row);
            for (uint32_t r = 0; newest != NULL && newest->assigned && r < newest->member_count; r++) {
                if (!one_rank || r == rank) {
                    (void)series_add(series, newest, r);
                }
            }
        }
        for (const struct view_attempt *a = row->attempts; kind == 'm' && a != NULL; a = a->next) {
            if (a->assigned) {
                (void)series_add(series, a, 0);
            }
        }
    }
    if (kind == 'l' && series->source_count == 0) {
        local_reply_error(daemon, request->client, request->id, 4,
                          "Trial %llu has no log (yet): it has no attempt, or not that rank.", (unsigned long long)trial);
        free(series->sources);
        free(series);
        return;
    }
    daemon->series = series;
}

/* ---- checkpoints ----------------------------------------------------------------------------------------------------------------- */

/* A checkpoint to be brought here, read and handed over: to the command line, or to a worker. */
struct daemon_blob_request {
    struct job job;
    struct daemon_blob_request *next;
    struct chunks *chunks;
    uint64_t serial, id, request;
    experiment_id experiment;
    uint32_t trial;
    uint64_t step, bytes;
    uint32_t attempt;
    hash256 blob;
    node_id holders[DAEMON_LIKELY_MAX];
    uint32_t holder_count;
    uint32_t tries;
    bool for_worker;
    int fd;
    int result;
    hash256 blamed;
    char error[256];
};

static void blob_request_free(struct daemon *daemon, struct daemon_blob_request *wanted)
{
    struct daemon_blob_request **link = &daemon->blob_requests;
    while (*link != wanted) {
        link = &(*link)->next;
    }
    *link = wanted->next;
    if (wanted->fd >= 0) {
        (void)close(wanted->fd);
    }
    free(wanted);
}

static void get_work(struct job *job)
{
    struct daemon_blob_request *wanted = (struct daemon_blob_request *)job;
    if (wanted->fd >= 0) {
        (void)close(wanted->fd);
    }
    wanted->fd = memfd_create("shoal-checkpoint", MFD_CLOEXEC);
    wanted->result = wanted->fd < 0 ? ERR_IO
                                    : chunks_read_blob_to_fd(wanted->chunks, wanted->blob, wanted->fd, &wanted->blamed,
                                                             wanted->error, sizeof wanted->error);
    if (wanted->result == ERR_CORRUPT) {
        (void)chunks_delete(wanted->chunks, wanted->blamed);
    }
}

static void reply_worker_load(struct daemon *daemon, struct daemon_client *client, struct daemon_blob_request *wanted)
{
    struct local_reply reply;
    struct stat status;
    if (fstat(wanted->fd, &status) == 0 && local_reply_begin(&reply, wanted->id, true, 3)) {
        pack_text(&reply.writer, "found");
        pack_bool(&reply.writer, true);
        pack_text(&reply.writer, "step");
        pack_u64(&reply.writer, wanted->step);
        pack_text(&reply.writer, "bytes");
        pack_u64(&reply.writer, (uint64_t)status.st_size);
        local_reply_send(daemon, client, &reply, wanted->fd);
        wanted->fd = -1;
    }
}

static void get_fetch(struct daemon *daemon, struct daemon_blob_request *wanted)
{
    wanted->request = ++daemon->request_id;
    wanted->tries++;
    int code = bulk_fetch(daemon->bulk, wanted->request, wanted->blob, wanted->holders, wanted->holder_count);
    struct daemon_client *client = local_find_client(daemon, wanted->serial);
    if (code != 0) {
        if (client != NULL) {
            local_reply_error(daemon, client, wanted->id, 1, "The checkpoint cannot be fetched now: %s.", err_text(code));
        }
        blob_request_free(daemon, wanted);
    }
}

static void get_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct daemon_blob_request *wanted = (struct daemon_blob_request *)job;
    struct daemon_client *client = local_find_client(daemon, wanted->serial);
    bool can_mend = (wanted->result == ERR_CORRUPT || wanted->result == ERR_NOT_FOUND) && wanted->tries < BLOB_TRIES;
    if (can_mend && client != NULL) {
        char hex[17];
        bytes_to_hex(hex, wanted->blamed.bytes, 8);
        daemon_line(daemon, "chunk %s... is %s on this disk; another copy is used", hex,
                    wanted->result == ERR_CORRUPT ? "damaged" : "missing");
        get_fetch(daemon, wanted);
        return;
    }
    struct local_reply reply;
    if (client != NULL && wanted->result != 0) {
        local_reply_error(daemon, client, wanted->id, 1, "The checkpoint cannot be read: %s", wanted->error);
    } else if (client != NULL && wanted->for_worker) {
        reply_worker_load(daemon, client, wanted);
    } else if (client != NULL && local_reply_begin(&reply, wanted->id, true, 6)) {
        char hex[2 * HASH_BYTES + 1];
        struct pack_writer *w = &reply.writer;
        bytes_to_hex(hex, wanted->experiment.bytes, EXPERIMENT_ID_BYTES);
        pack_text(w, "experiment");
        pack_text(w, hex);
        pack_text(w, "trial");
        pack_u64(w, wanted->trial);
        pack_text(w, "step");
        pack_u64(w, wanted->step);
        pack_text(w, "attempt");
        pack_u64(w, wanted->attempt);
        pack_text(w, "bytes");
        pack_u64(w, wanted->bytes);
        bytes_to_hex(hex, wanted->blob.bytes, HASH_BYTES);
        pack_text(w, "hash");
        pack_text(w, hex);
        local_reply_send(daemon, client, &reply, wanted->fd);
        wanted->fd = -1;
    }
    blob_request_free(daemon, wanted);
}

void daemon_query_fetched(struct daemon *daemon, uint64_t request, int code, const char *text)
{
    struct daemon_blob_request *wanted = daemon->blob_requests;
    while (wanted != NULL && wanted->request != request) {
        wanted = wanted->next;
    }
    if (wanted == NULL) {
        return;
    }
    wanted->request = 0;
    struct daemon_client *client = local_find_client(daemon, wanted->serial);
    if (code != 0) {
        if (client != NULL) {
            local_reply_error(daemon, client, wanted->id, 1, "No complete copy of the checkpoint can be reached: %s", text);
        }
        blob_request_free(daemon, wanted);
        return;
    }
    wanted->job = (struct job){.work = get_work, .done = get_done};
    jobs_run(daemon->blob_jobs, &wanted->job);
}

static bool argument_trial(struct daemon *daemon, struct local_request *request, struct view_experiment **experiment,
                           const struct view_trial **trial)
{
    uint64_t index = 0;
    if (!local_argument_experiment(daemon, request, experiment)) {
        return false;
    }
    *trial = local_argument_u64(request, "trial", &index) && index < (*experiment)->trial_count
                 ? view_find_trial(*experiment, (uint32_t)index)
                 : NULL;
    if (*trial == NULL || (*trial)->manifests == NULL) {
        local_reply_error(daemon, request->client, request->id, 4, "Trial %llu has no checkpoint (yet).",
                          (unsigned long long)index);
        return false;
    }
    return true;
}

static void request_checkpoint_get(struct daemon *daemon, struct local_request *request)
{
    struct view_experiment *experiment;
    const struct view_trial *trial;
    uint64_t step = 0;
    if (!argument_trial(daemon, request, &experiment, &trial)) {
        return;
    }
    const struct view_manifest *row = trial->manifests;
    struct view_manifest found;
    bool any_step = !local_argument_u64(request, "step", &step) || step == 0;
    bool is_found = core_replicas_next(daemon->core, &row, &found);
    while (is_found && !any_step && found.step != step) {
        is_found = core_replicas_next(daemon->core, &row, &found);
    }
    struct daemon_blob_request *wanted = is_found ? calloc(1, sizeof *wanted) : NULL;
    if (wanted == NULL) {
        local_reply_error(daemon, request->client, request->id, 4,
                          "Trial %u has no checkpoint of step %llu; `shoal checkpoint ls` lists them.", trial->index,
                          (unsigned long long)step);
        return;
    }
    wanted->chunks = daemon->chunks;
    wanted->serial = request->client->serial;
    wanted->id = request->id;
    wanted->experiment = experiment->id;
    wanted->trial = trial->index;
    wanted->step = found.step;
    wanted->bytes = found.bytes;
    wanted->attempt = found.attempt.number;
    wanted->blob = found.blob;
    wanted->holder_count = found.holder_count;
    memcpy(wanted->holders, found.holders, sizeof found.holders);
    wanted->fd = -1;
    wanted->next = daemon->blob_requests;
    daemon->blob_requests = wanted;
    get_fetch(daemon, wanted);
}

void query_worker_load(struct daemon *daemon, struct local_request *request, const struct daemon_run *run)
{
    struct daemon_blob_request *wanted = calloc(1, sizeof *wanted);
    if (wanted == NULL) {
        local_reply_error(daemon, request->client, request->id, 1, "The checkpoint cannot be read: no memory.");
        return;
    }
    wanted->chunks = daemon->chunks;
    wanted->serial = request->client->serial;
    wanted->id = request->id;
    wanted->for_worker = true;
    wanted->step = run->prepare.u.worker.step;
    wanted->blob = run->prepare.u.worker.checkpoint;
    wanted->holder_count = daemon_runs_likely(daemon, &run->prepare.u.worker.attempt, wanted->blob, true, wanted->holders);
    wanted->fd = -1;
    wanted->next = daemon->blob_requests;
    daemon->blob_requests = wanted;
    daemon_tell_bulk(daemon);
    get_fetch(daemon, wanted);
}

/* ---- dispatch ------------------------------------------------------------------------------------------------------------------------ */

static void request_stream(struct daemon *daemon, struct local_request *request, enum stream_kind kind)
{
    struct view_experiment *experiment = NULL;
    if (kind != STREAM_EVENTS && !local_argument_experiment(daemon, request, &experiment)) {
        return;
    }
    struct client_stream *stream = new_stream(daemon, request, kind);
    if (stream == NULL) {
        return;
    }
    uint64_t timeout_s = 0;
    if (experiment != NULL) {
        stream->experiment = experiment->id;
    }
    if (kind == STREAM_WAIT && local_argument_u64(request, "timeout_s", &timeout_s)) {
        stream->until_ms = daemon_now_ms() + (timeout_s < WAIT_S_MAX ? timeout_s : WAIT_S_MAX) * 1000;
    }
    stream->follow = request_flag(&request->map, "follow");
    (void)local_argument_u64(request, "from", &stream->seq);
    stream_step(daemon, request->client, stream, daemon_now_ms());
}

bool query_request(struct daemon *daemon, struct local_request *request, const char *op, size_t op_bytes)
{
    struct view_experiment *experiment;
    struct daemon_client *client = request->client;
    if (pack_text_is(op, op_bytes, "status")) {
        reply_status(daemon, request);
    } else if (pack_text_is(op, op_bytes, "nodes")) {
        reply_parts(daemon, client, request->id, part_nodes, NULL, 0, true);
    } else if (pack_text_is(op, op_bytes, "invites")) {
        reply_parts(daemon, client, request->id, part_invites, NULL, 0, true);
    } else if (pack_text_is(op, op_bytes, "slots")) {
        reply_parts(daemon, client, request->id, part_slots, NULL, 0, true);
    } else if (pack_text_is(op, op_bytes, "ls")) {
        reply_parts(daemon, client, request->id, part_ls, NULL, 0, true);
    } else if (pack_text_is(op, op_bytes, "show")) {
        if (local_argument_experiment(daemon, request, &experiment)) {
            reply_parts(daemon, client, request->id, part_show, experiment, 0, true);
        }
    } else if (pack_text_is(op, op_bytes, "checkpoint_ls")) {
        uint64_t trial = RENDER_ALL_TRIALS;
        bool one_trial = local_argument_u64(request, "trial", &trial);
        if (one_trial && trial >= SEARCH_TRIALS_MAX) {
            trial = SEARCH_TRIALS_MAX; /* none has this number */
        }
        if (local_argument_experiment(daemon, request, &experiment)) {
            reply_parts(daemon, client, request->id, part_checkpoints, experiment, trial, true);
        }
    } else if (pack_text_is(op, op_bytes, "wait")) {
        request_stream(daemon, request, STREAM_WAIT);
    } else if (pack_text_is(op, op_bytes, "watch")) {
        request_stream(daemon, request, STREAM_WATCH);
    } else if (pack_text_is(op, op_bytes, "events")) {
        request_stream(daemon, request, STREAM_EVENTS);
    } else if (pack_text_is(op, op_bytes, "metrics")) {
        request_series(daemon, request, 'm');
    } else if (pack_text_is(op, op_bytes, "logs")) {
        request_series(daemon, request, 'l');
    } else if (pack_text_is(op, op_bytes, "checkpoint_get")) {
        request_checkpoint_get(daemon, request);
    } else if (pack_text_is(op, op_bytes, "checkpoint_verify")) {
        const struct view_trial *trial;
        if (argument_trial(daemon, request, &experiment, &trial)) {
            query_verify(daemon, request, trial);
        }
    } else {
        return false;
    }
    return true;
}

void query_tick(struct daemon *daemon, uint64_t now_ms)
{
    bool any = false;
    for (struct daemon_client *client = daemon->clients; client != NULL; client = client->next) {
        for (int i = 0; i < CLIENT_STREAMS_MAX && !client->broken; i++) {
            if (client->streams[i].kind != STREAM_NONE) {
                any = true;
                stream_step(daemon, client, &client->streams[i], now_ms);
            }
        }
    }
    daemon->watch_ms = any ? now_ms : 0;
    for (struct daemon_series *series = daemon->series, *next; series != NULL; series = next) {
        next = series->next;
        series_step(daemon, series, now_ms);
    }
}
