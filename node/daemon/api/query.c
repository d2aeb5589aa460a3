#include "node/daemon/api/query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "node/config/config_document.h"
#include "node/daemon/api/documents.h"
#include "node/daemon/api/watched.h"
#include "node/daemon/api/webhooks.h"
#include "node/daemon/disk/disk.h"
#include "node/daemon/peers/peers.h"
#include "node/daemon/render/curves.h"
#include "node/daemon/render/experiment.h"
#include "node/daemon/render/render.h"
#include "node/daemon/render/rungs.h"
#include "node/daemon/wire/request.h"
#include "node/daemon/workers/warm.h"

#define STREAM_MS 500
#define SHARED_TRIALS_MAX 200 /* more are more than one part of a document */
#define WATCH_MS 100 /* an experiment is looked at less often (watched.h) */
#define CURVES_MS 1000 /* a worker's record changes at most every 2 s */
#define WAIT_S_MAX UINT32_MAX /* cap, so that no sum of times overflows */

/* ---- documents ------------------------------------------------------------------------------------------------- */

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

void query_put_blocked(const struct daemon *daemon, struct pack_writer *writer)
{
    struct render_blocked blocked[DAEMON_BLOCKED_MAX];
    uint32_t count = daemon_blocked_list(daemon, blocked);
    render_blocked(daemon->core, blocked, count, writer);
}

void query_status(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    struct control_statistics control;
    struct signer_statistics signer;
    struct bulk_statistics bulk;
    control_statistics(daemon->control, &control);
    signer_statistics(daemon->signer, &signer);
    bulk_statistics(daemon->bulk, &bulk);
    struct render_status_extra extra = {.mesh_name = daemon->mesh_name,
                                        .version = SHOAL_VERSION,
                                        .address = node_core_own_fact(daemon->core)->addresses[0],
                                        .uptime_s = (daemon_now_ms() - daemon->started_ms) / 1000,
                                        .memory_bytes = anonymous_bytes(),
                                        .is_polite = daemon->options.is_polite,
                                        .tells_webhooks = webhooks_are_told(daemon),
                                        .handshakes = control.refused + control.failed + bulk.failed,
                                        .oversized = control.oversized,
                                        .overrun = control.overrun,
                                        .malformed = control.malformed + signer.malformed + bulk.malformed,
                                        .strangers = signer.unknown + bulk.refused,
                                        .forged = signer.forged,
                                        .tokens = daemon->api->tokens_refused,
                                        .was = daemon->was,
                                        .was_address = daemon->was_address,
                                        .scrub_bytes = daemon->disk->scrub.checked_bytes,
                                        .scrub_passes = daemon->disk->scrub.passes,
                                        .scrub_damaged = daemon->disk->scrub.damaged,
                                        .scrub_restored = daemon->disk->scrub.restored};
    struct client_reply reply;
    if (client_reply_begin(&reply, request->id, true, RENDER_STATUS_PAIRS + RENDER_WAITING_PAIRS + RENDER_BLOCKED_PAIRS)) {
        render_status(daemon->core, &extra, &reply.writer);
        render_waiting(daemon->core, &reply.writer);
        query_put_blocked(daemon, &reply.writer);
        client_reply_send(daemon, request->client, &reply, -1);
    }
}

static void put_warm(const struct daemon *daemon, struct pack_writer *writer)
{
    struct render_warm warm[WARM_MAX];
    render_warm(daemon->core, warm, daemon_warm_list(daemon, warm), writer);
}

static bool part_nodes(const struct node_core *core, const struct shown *shown, uint32_t *from, struct pack_writer *writer)
{
    (void)shown;
    return render_nodes(core, from, writer);
}

static bool part_invites(const struct node_core *core, const struct shown *shown, uint32_t *from, struct pack_writer *writer)
{
    (void)shown;
    return render_invites(core, from, writer);
}

static bool part_slots(const struct node_core *core, const struct shown *shown, uint32_t *from, struct pack_writer *writer)
{
    (void)shown;
    return render_slots(core, from, writer);
}

static bool part_ls(const struct node_core *core, const struct shown *shown, uint32_t *from, struct pack_writer *writer)
{
    (void)shown;
    return render_ls(core, from, writer);
}

static bool part_show(const struct node_core *core, const struct shown *shown, uint32_t *from, struct pack_writer *writer)
{
    const struct render_choice *page = shown->is_page ? &shown->page : NULL;
    uint32_t trials = page != NULL ? page->count : shown->experiment->trial_count;
    if (*from < trials || (trials == 0 && *from == 0)) {
        bool more = render_show_choice(core, shown->experiment, shown->config, page, from, writer);
        *from += trials == 0; /* the document of an empty page is written once, too */
        return more || shown->curves != NULL;
    }
    uint32_t curve = *from - trials; /* behind the trials come the curves */
    bool more = render_curves(shown->curves, shown->experiment, &curve, writer);
    *from = trials + curve;
    return more;
}

static bool part_checkpoints(const struct node_core *core, const struct shown *shown, uint32_t *from, struct pack_writer *writer)
{
    return render_checkpoints(core, shown->experiment, shown->trial, from, writer);
}

static bool part_rungs(const struct node_core *core, const struct shown *shown, uint32_t *from, struct pack_writer *writer)
{
    return render_rungs(core, shown->experiment, from, writer);
}

static bool part_queue(const struct node_core *core, const struct shown *shown, uint32_t *from, struct pack_writer *writer)
{
    return render_queue(core, &shown->queue, from, writer);
}

static bool part_generations(const struct node_core *core, const struct shown *shown, uint32_t *from,
                             struct pack_writer *writer)
{
    return render_generations(core, shown->experiment, from, writer);
}

/* Notes the curves of the experiment as they are now, if they are wanted. False: they are not, or cannot be shown. */
static bool note_curves(struct daemon *daemon, const struct view_experiment *experiment, bool are_wanted)
{
    if (are_wanted && daemon->api->curves != NULL) {
        curves_note(daemon->api->curves, daemon->core, experiment, daemon_now_ms());
    }
    return are_wanted && daemon->api->curves != NULL;
}

/* ---- pages ----------------------------------------------------------------------------------------------------------- */

/* Reads the arguments of a page. False, after an error reply: one is wrong. All zero without such arguments. */
static bool read_wish(struct daemon *daemon, const struct client_request *request, struct render_wish *out)
{
    char sort[RENDER_SORT_BYTES], error[WHERE_ERROR_BYTES];
    struct where where;
    uint64_t from = 0, limit = 0;
    *out = (struct render_wish){0};
    (void)client_argument_u64(request, "from", &from);
    (void)client_argument_u64(request, "limit", &limit);
    out->from = from < UINT32_MAX ? (uint32_t)from : UINT32_MAX;
    out->limit = limit < UINT32_MAX ? (uint32_t)limit : UINT32_MAX;
    out->descending = request_flag(&request->map, "descending");
    (void)request_text(&request->map, "states", out->states, sizeof out->states);
    if (request_text(&request->map, "sort", sort, sizeof sort) && !render_sort_of(sort, out)) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "Trials are sorted by index, state, step, metric, started_s or hp.NAME, a hyperparameter, and not by %s.", sort);
        return false;
    }
    if (!pack_find(&request->map, "where").failed && !request_text(&request->map, "where", out->where, sizeof out->where)) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE, "The conditions have more than %d bytes.", WHERE_BYTES - 1);
        return false;
    }
    if (!where_read(out->where, &where, error)) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE, "%s", error);
        return false;
    }
    return true;
}

static bool is_page(const struct render_wish *wish)
{
    return wish->from != 0 || wish->limit != 0 || wish->sort != RENDER_BY_INDEX || wish->descending || wish->states[0] != '\0' ||
           wish->where[0] != '\0';
}

/* Whether the values of each trial have to be drawn to choose. */
static bool is_slow(const struct render_wish *wish)
{
    return wish->sort == RENDER_BY_HYPERPARAMETER || wish->where[0] != '\0';
}

/* A document of the experiment's trials, those of the page if one is wished for. */
static struct document show_document(struct daemon *daemon, const struct view_experiment *experiment, const struct render_wish *wish,
                                     bool has_curves)
{
    struct document document = {.part = part_show, .experiment = experiment->id};
    document.chooser = is_page(wish) ? render_chooser_new(experiment, wish) : NULL;
    document.is_page = document.chooser != NULL;
    document.has_curves = note_curves(daemon, experiment, has_curves);
    return document;
}

/* ---- replies --------------------------------------------------------------------------------------------------------- */

/* ---- streams of documents -------------------------------------------------------------------------------------- */

struct client_stream *query_new_stream(struct daemon *daemon, const struct client_request *request, enum stream_kind kind)
{
    for (int i = 0; i < CLIENT_STREAMS_MAX; i++) {
        struct client_stream *stream = &request->client->streams[i];
        if (stream->kind == STREAM_NONE) {
            *stream = (struct client_stream){.kind = kind, .id = request->id};
            daemon->api->watch_ms = daemon_now_ms();
            return stream;
        }
    }
    client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                       "This connection has %d streams open already; close one.", CLIENT_STREAMS_MAX);
    return NULL;
}

/* No news come of it unless somebody acts. */
static bool is_last(const struct daemon *daemon, const struct view_experiment *experiment)
{
    return view_experiment_over(experiment) || node_core_is_halted(daemon->core, experiment);
}

static void stream_wait(struct daemon *daemon, struct client *client, struct client_stream *stream,
                        const struct view_experiment *experiment, uint64_t now_ms)
{
    uint8_t bytes[4096];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    render_experiment_state(daemon->core, experiment, &writer);
    bool over = is_last(daemon, experiment);
    uint64_t hash = bytes_hash64(bytes, writer.used_bytes, over);
    struct client_reply reply;
    if (!over && stream->until_ms != 0 && now_ms >= stream->until_ms) {
        client_reply_error(daemon, client, stream->id, EXIT_TIMEOUT, "The experiment is still %s; wait longer with --timeout.",
                           view_experiment_state_name(view_experiment_state(experiment)));
        stream->kind = STREAM_NONE;
    } else if (hash != stream->last_hash && client_reply_begin(&reply, stream->id, over, RENDER_STATE_PAIRS)) {
        stream->last_hash = hash;
        pack_raw(&reply.writer, bytes, writer.used_bytes);
        client_reply_send(daemon, client, &reply, -1);
        stream->kind = over ? STREAM_NONE : stream->kind;
    }
}

static struct document watch_document(struct daemon *daemon, const struct client_stream *stream, const struct watched *watched,
                                      const struct view_experiment *experiment, uint64_t since)
{
    if (since == 0) {
        return show_document(daemon, experiment, &stream->wish, stream->has_curves);
    }
    struct document document = watched_delta(watched, experiment, since);
    document.part = part_show;
    return document;
}

/* What comes before the document. */
static void watch_begin(struct daemon *daemon, struct client *client, const struct client_stream *stream, bool is_delta)
{
    struct client_reply reply;
    if (client_reply_begin(&reply, stream->id, false, 4u + is_delta)) {
        pack_text(&reply.writer, "more");
        pack_bool(&reply.writer, true);
        if (is_delta) {
            pack_text(&reply.writer, "delta");
            pack_bool(&reply.writer, true);
        }
        pack_text(&reply.writer, "nodes_alive");
        pack_u64(&reply.writer, node_core_peers_alive(daemon->core) + 1u);
        pack_text(&reply.writer, "nodes_drained");
        pack_u64(&reply.writer, render_nodes_drained(daemon->core));
        pack_text(&reply.writer, "nodes");
        pack_u64(&reply.writer, node_core_peer_count(daemon->core) + 1u);
        client_reply_send(daemon, client, &reply, -1);
    }
}

/* What all who watch the same get is rendered once, if it is one part. */
static void stream_watch(struct daemon *daemon, struct client *client, struct client_stream *stream,
                         const struct view_experiment *experiment)
{
    struct watched *watched = watched_get(daemon, experiment);
    bool over = is_last(daemon, experiment);
    if (watched == NULL || watched_version(watched) == stream->version || documents_has(daemon, client, stream->id)) {
        return;
    }
    uint64_t since = stream->takes_deltas && !over ? stream->version : 0; /* the last one has all */
    bool is_long = since == 0 && experiment->trial_count > SHARED_TRIALS_MAX && (!is_page(&stream->wish) || is_slow(&stream->wish));
    bool is_shared = !stream->has_curves && !over && !is_long;
    struct document document = {.memory = NULL};
    struct watched_document *place = is_shared ? watched_place(watched, since, &stream->wish) : NULL;
    if (place == NULL || place->version == 0) {
        document = watch_document(daemon, stream, watched, experiment, since);
        document.end = over;
    }
    if (place != NULL && place->version == 0) {
        bool is_whole = documents_render(daemon, &document, &place->bytes, &place->count);
        place->hash = is_whole ? bytes_hash64(place->bytes, place->count, 1) : 0;
        place->version = watched_version(watched);
    }
    bool is_sent = place != NULL && place->bytes != NULL;
    bool is_same = is_sent && place->hash == stream->last_hash; /* of a page on which nothing has changed */
    stream->version = watched_version(watched);
    stream->last_hash = is_sent ? place->hash : 0;
    if (is_same) {
        document_free(&document);
        return;
    }
    watch_begin(daemon, client, stream, since != 0);
    if (is_sent) {
        documents_send_rendered(daemon, client, stream->id, place->bytes, place->count, false);
        document_free(&document);
    } else {
        if (document.part == NULL) { /* known to have more parts */
            document = watch_document(daemon, stream, watched, experiment, since);
        }
        documents_send(daemon, client, stream->id, &document);
    }
    stream->kind = over ? STREAM_NONE : stream->kind;
}

static void stream_step(struct daemon *daemon, struct client *client, struct client_stream *stream, uint64_t now_ms)
{
    if (now_ms < stream->next_ms || !client_may_stream(client)) {
        return;
    }
    stream->next_ms = now_ms + (stream->kind == STREAM_WATCH ? WATCH_MS : STREAM_MS);
    if (stream->kind == STREAM_EVENTS) {
        query_events_stream(daemon, client, stream);
        return;
    }
    const struct view_experiment *experiment = view_find_experiment(node_core_view(daemon->core), stream->experiment);
    if (experiment == NULL || !experiment->known) {
        client_reply_error(daemon, client, stream->id, EXIT_NOT_FOUND, "The experiment does not exist any more.");
        stream->kind = STREAM_NONE;
    } else if (stream->kind == STREAM_WAIT) {
        stream_wait(daemon, client, stream, experiment, now_ms);
    } else {
        stream_watch(daemon, client, stream, experiment);
    }
}

void query_step_stream(struct daemon *daemon, struct client *client, struct client_stream *stream)
{
    stream_step(daemon, client, stream, daemon_now_ms());
}

void query_reply_no_trial(struct daemon *daemon, const struct client_request *request, const struct view_experiment *experiment,
                          uint64_t index)
{
    char has[64];
    (void)snprintf(has, sizeof has, experiment->trial_count == 1 ? "only trial 0" : "the trials 0 to %u",
                   experiment->trial_count - 1);
    client_reply_error(daemon, request->client, request->id, EXIT_NOT_FOUND, "There is no trial %llu: the experiment has %s.",
                       (unsigned long long)index, has);
}

bool query_argument_any_trial(struct daemon *daemon, struct client_request *request, struct view_experiment **experiment,
                              uint32_t *out, const struct view_trial **trial)
{
    uint64_t index = 0;
    if (!client_argument_experiment(daemon, request, experiment)) {
        return false;
    }
    if (!client_argument_u64(request, "trial", &index)) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE, "The request names no trial; give its index.");
        return false;
    }
    if (index >= (*experiment)->trial_count) {
        query_reply_no_trial(daemon, request, *experiment, index);
        return false;
    }
    *out = (uint32_t)index;
    *trial = view_find_trial(*experiment, *out);
    return true;
}

bool query_argument_trial(struct daemon *daemon, struct client_request *request, struct view_experiment **experiment,
                          const struct view_trial **trial)
{
    uint32_t index;
    if (!query_argument_any_trial(daemon, request, experiment, &index, trial)) {
        return false;
    }
    if (*trial == NULL || (*trial)->manifests == NULL) {
        client_reply_error(daemon, request->client, request->id, EXIT_NOT_FOUND, "Trial %u has no checkpoint (yet).", index);
        return false;
    }
    return true;
}

/* ---- requests -------------------------------------------------------------------------------------------------- */

void query_list(struct daemon *daemon, struct client_request *request, int list)
{
    static const struct document documents[] = {
        [QUERY_NODES] = {.part = part_nodes, .tail = query_put_blocked, .tail_pairs = RENDER_BLOCKED_PAIRS, .end = true},
        [QUERY_INVITES] = {.part = part_invites, .end = true},
        [QUERY_SLOTS] = {.part = part_slots, .tail = put_warm, .tail_pairs = RENDER_WARM_PAIRS, .end = true},
        [QUERY_EXPERIMENTS] = {.part = part_ls, .end = true}};
    documents_send(daemon, request->client, request->id, &documents[list]);
}

void query_queue(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    const struct view *view = node_core_view(daemon->core);
    struct queue_entry *entries = malloc((view->experiment_count + 1u) * sizeof *entries);
    if (entries == NULL) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED, "No memory is left for the queue.");
        return;
    }
    struct document document = {.part = part_queue, .memory = entries, .end = true};
    document.queue = (struct render_queue){entries, queue_list(view, entries, view->experiment_count)};
    documents_send(daemon, request->client, request->id, &document);
}

void query_owner(struct daemon *daemon, struct client_request *request, int argument)
{
    node_id node;
    struct client_reply reply;
    (void)argument;
    if (client_argument_node(daemon, request, &node) && client_reply_begin(&reply, request->id, true, RENDER_OWNER_PAIRS)) {
        render_owner(daemon->core, node, &reply.writer);
        client_reply_send(daemon, request->client, &reply, -1);
    }
}

void query_show(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    struct view_experiment *experiment;
    struct render_wish wish;
    if (client_argument_experiment(daemon, request, &experiment) && read_wish(daemon, request, &wish)) {
        struct document document = show_document(daemon, experiment, &wish, request_flag(&request->map, "curves"));
        document.end = true;
        documents_send(daemon, request->client, request->id, &document);
    }
}

void query_rungs(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    struct view_experiment *experiment;
    if (!client_argument_experiment(daemon, request, &experiment)) {
        return;
    }
    enum search_kind searcher = experiment->config->searcher;
    if (!search_halves(searcher) && searcher != SEARCH_PBT) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "%s has no rungs: only the searchers asha, adaptive_asha and pbt compare trials on their way%s.",
                           experiment->config->name,
                           searcher == SEARCH_CUSTOM ? "; shoal why EXP/TRIAL tells what its program has decided" : "");
        return;
    }
    const struct document document = {
        .part = searcher == SEARCH_PBT ? part_generations : part_rungs, .experiment = experiment->id, .end = true};
    documents_send(daemon, request->client, request->id, &document);
}

/* An option that users have changed since the submit. */
struct changed_option {
    const char *key;
    uint64_t submitted, now;
};

/* "changed": {KEY: the value that was submitted}. */
static void put_changed(struct pack_writer *writer, const struct changed_option *options, size_t count)
{
    uint32_t changed = 0;
    for (size_t i = 0; i < count; i++) {
        changed += options[i].now != options[i].submitted;
    }
    pack_text(writer, "changed");
    pack_map(writer, changed);
    for (size_t i = 0; i < count; i++) {
        if (options[i].now != options[i].submitted) {
            pack_text(writer, options[i].key);
            pack_u64(writer, options[i].submitted);
        }
    }
}

/* The options in force, and those of them that users have changed. */
static void put_config(struct pack_writer *writer, const struct view_experiment *experiment, const struct config *submitted,
                       struct config *in_force)
{
    *in_force = *submitted;
    in_force->priority = view_experiment_priority(experiment);
    in_force->max_slots = view_experiment_max_slots(experiment);
    in_force->max_trials = view_experiment_is_extended(experiment) ? experiment->trial_count : submitted->max_trials;
    const struct changed_option options[] = {{"resources.priority", submitted->priority, in_force->priority},
                                             {"resources.max_slots", submitted->max_slots, in_force->max_slots},
                                             {"searcher.max_trials", submitted->max_trials, in_force->max_trials}};
    pack_text(writer, "config");
    config_document(writer, in_force);
    put_changed(writer, options, sizeof options / sizeof options[0]);
}

/* Those of a large experiment may first have to come from another node. */
void query_config(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    struct view_experiment *experiment;
    if (!client_argument_experiment(daemon, request, &experiment)) {
        return;
    }
    const struct config *config = daemon_config(daemon, experiment);
    struct client_reply reply;
    struct config *in_force = config != NULL ? malloc(sizeof *in_force) : NULL;
    if (config == NULL) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "The configuration is large, and is being fetched from another node; ask again in some seconds.");
    } else if (in_force == NULL || !client_reply_begin(&reply, request->id, true, 2)) {
        request->client->broken = true;
    } else {
        put_config(&reply.writer, experiment, config, in_force);
        if (reply.writer.failed) {
            free(reply.bytes);
            client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                               "The configuration is larger than an answer may be; shoal config --file shows its file.");
        } else {
            client_reply_send(daemon, request->client, &reply, -1);
        }
    }
    free(in_force);
}

void query_trial(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    struct view_experiment *experiment;
    const struct view_trial *trial;
    uint32_t index;
    struct client_reply reply;
    struct pack_writer writer;
    uint8_t *bytes = malloc(RENDER_TRIAL_BYTES);
    if (bytes != NULL && query_argument_any_trial(daemon, request, &experiment, &index, &trial)) {
        struct shown shown = shown_of(daemon, experiment);
        pack_writer_init(&writer, bytes, RENDER_TRIAL_BYTES);
        render_trial(daemon->core, experiment, shown.config, index, &writer);
        if (!writer.failed && client_reply_begin(&reply, request->id, true, RENDER_TRIAL_PAIRS + 1)) {
            pack_text(&reply.writer, "syncing");
            pack_bool(&reply.writer, node_core_is_syncing(daemon->core));
            pack_raw(&reply.writer, bytes, writer.used_bytes);
            client_reply_send(daemon, request->client, &reply, -1);
        } else {
            request->client->broken = true;
        }
    }
    free(bytes);
}

void query_checkpoints(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    struct view_experiment *experiment;
    uint64_t trial = RENDER_ALL_TRIALS;
    bool one_trial = client_argument_u64(request, "trial", &trial);
    if (one_trial && trial >= SEARCH_TRIALS_MAX) {
        trial = SEARCH_TRIALS_MAX; /* no trial has this number */
    }
    if (client_argument_experiment(daemon, request, &experiment)) {
        const struct document document = {
            .part = part_checkpoints, .experiment = experiment->id, .trial = (uint32_t)trial, .end = true};
        documents_send(daemon, request->client, request->id, &document);
    }
}

void query_stream(struct daemon *daemon, struct client_request *request, int argument)
{
    enum stream_kind kind = (enum stream_kind)argument;
    struct view_experiment *experiment = NULL;
    struct render_wish wish = {0};
    if (!client_argument_experiment(daemon, request, &experiment)) {
        return;
    }
    if (kind == STREAM_WATCH && !read_wish(daemon, request, &wish)) {
        return;
    }
    struct client_stream *stream = query_new_stream(daemon, request, kind);
    if (stream == NULL) {
        return;
    }
    uint64_t timeout_s = 0;
    stream->experiment = experiment->id;
    if (kind == STREAM_WAIT && client_argument_u64(request, "timeout_s", &timeout_s)) {
        stream->until_ms = daemon_now_ms() + (timeout_s < WAIT_S_MAX ? timeout_s : WAIT_S_MAX) * 1000;
    }
    stream->wish = wish;
    stream->has_curves = request_flag(&request->map, "curves");
    stream->takes_deltas = request_flag(&request->map, "deltas") && !stream->has_curves && !is_page(&wish);
    stream_step(daemon, request->client, stream, daemon_now_ms());
}

/* Streams that had no time keep the time at which they are due. */
void query_tick(struct daemon *daemon, uint64_t now_ms)
{
    bool any = false, is_late = false;
    uint64_t until_us = daemon_now_us() + DOCUMENTS_TURN_US;
    daemon->api->spent_us = 0;
    is_late |= watched_tick(daemon, now_ms, until_us);
    for (struct client *client = daemon->api->clients; client != NULL; client = client->next) {
        for (int i = 0; i < CLIENT_STREAMS_MAX && !client->broken; i++) {
            if (client->streams[i].kind == STREAM_NONE) {
                continue;
            }
            any = true;
            if (!is_late && now_ms >= client->streams[i].next_ms) {
                stream_step(daemon, client, &client->streams[i], now_ms);
                is_late = daemon_now_us() >= until_us;
            }
        }
    }
    daemon->api->has_more = documents_tick(daemon, until_us) || is_late;
    daemon->api->watch_ms = any ? now_ms : 0;
    query_series_tick(daemon, now_ms);
    query_usage_tick(daemon, now_ms);
    query_events_tick(daemon, now_ms);
    query_trace_tick(daemon, now_ms);
    if (now_ms >= daemon->api->curves_ms) {
        daemon->api->curves_ms = now_ms + CURVES_MS;
        daemon->api->curves = daemon->api->curves != NULL ? daemon->api->curves : curves_new();
        if (daemon->api->curves != NULL) {
            curves_tick(daemon->api->curves, daemon->core, now_ms);
        }
    }
}

void query_close(struct daemon *daemon)
{
    query_series_close(daemon);
    query_checkpoint_close(daemon);
    query_verify_close(daemon);
    query_usage_close(daemon);
    query_events_close(daemon);
    query_trace_close(daemon);
    documents_close(daemon);
    watched_close(daemon);
    curves_free(daemon->api->curves);
    daemon->api->curves = NULL;
}
