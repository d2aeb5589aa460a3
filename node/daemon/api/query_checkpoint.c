/* Blobs for users: checkpoints (checkpoint_get; of workers: worker_load), the files that workers leave (output_ls, output_get,
 * output_files, output_file), and what was submitted (code_get, config_get). */

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/err.h"
#include "node/daemon/api/query.h"
#include "node/daemon/outputs/outputs.h"
#include "node/daemon/peers/peers.h"
#include "node/daemon/render/experiment.h"
#include "node/daemon/render/put.h"
#include "node/daemon/render/render.h"
#include "node/daemon/wire/request.h"
#include "node/daemon/workers/workers.h"
#include "store/snapshot.h"

#define BLOB_TRIES 3
#define LISTING_BYTES (64u << 10) /* of a snapshot, where its listing is expected; a longer one is read whole */

/* A checkpoint to be fetched if needed, read and handed over: to the command line, or to a worker. */
struct query_blob {
    struct job job;
    struct query_blob *next;
    struct chunks *chunks;
    uint64_t serial, id, request;
    experiment_id experiment;
    uint32_t trial;
    uint64_t step, bytes;
    uint32_t attempt;
    hash256 blob;
    uint32_t parts; /* of the checkpoint `set`; 0: it is the blob */
    hash256 set;
    node_id holders[DAEMON_HOLDERS_MAX];
    uint32_t holder_count;
    struct blob_range ranges[REQUEST_RANGES_MAX]; /* of a worker's part that are wanted; none: all of it */
    uint32_t range_count;
    uint8_t *manifest; /* of a blob of which only ranges are here, encoded */
    size_t manifest_bytes;
    uint32_t tries;
    enum { FOR_USER, FOR_WORKER, FOR_OUTPUT, FOR_FILES, FOR_FILE, FOR_CODE, FOR_SUBMIT } wanted_for;
    struct snapshot listing;          /* FOR_FILES, FOR_FILE: empty until it is read */
    const struct snapshot_entry *file; /* FOR_FILE: in `listing`, once it is found */
    char *path;                       /* FOR_FILE */
    bool wants_more;                  /* the listing is longer than what was read of the snapshot */
    query_fetched_fn *then; /* FOR_SUBMIT */
    void *context;
    bool is_large;         /* FOR_CODE: as struct view_experiment has it */
    bool keeps_links;      /* FOR_CODE: the code may hold links that lead out */
    const char *name;      /* for sentences: "checkpoint" */
    const char *directory; /* the daemon's */
    int fd;
    int result;
    hash256 blamed;
    char error[256];
};

static void blob_request_free(struct daemon *daemon, struct query_blob *wanted)
{
    struct query_blob **link = &daemon->api->blob_requests;
    while (*link != wanted) {
        link = &(*link)->next;
    }
    *link = wanted->next;
    if (wanted->fd >= 0) {
        (void)close(wanted->fd);
    }
    snapshot_free(&wanted->listing);
    free(wanted->path);
    free(wanted->manifest);
    free(wanted);
}

/* Reads the listing of a snapshot of which the first bytes are here; the rest of the file are holes. */
static void read_listing(struct query_blob *wanted)
{
    int code = snapshot_read(wanted->fd, wanted->bytes, &wanted->listing);
    wanted->wants_more = code == ERR_MALFORMED && wanted->ranges[0].count < wanted->bytes &&
                         wanted->ranges[0].count < SNAPSHOT_LISTING_BYTES_MAX;
    if (code != 0 && !wanted->wants_more) {
        wanted->result = code;
        (void)snprintf(wanted->error, sizeof wanted->error, "%s", err_text(code));
    }
}

static void get_work(struct job *job)
{
    struct query_blob *wanted = (struct query_blob *)job;
    bool is_snapshot = wanted->wanted_for == FOR_OUTPUT || wanted->wanted_for == FOR_FILES || wanted->wanted_for == FOR_FILE;
    if (wanted->fd >= 0) {
        (void)close(wanted->fd);
    }
    wanted->fd = is_snapshot ? daemon_outputs_file(wanted->directory)
                                                  : memfd_create("shoal-checkpoint", MFD_CLOEXEC);
    if (wanted->fd < 0) {
        wanted->result = ERR_IO;
    } else if (wanted->range_count > 0) {
        wanted->result = chunks_read_ranges_to_fd(wanted->chunks, wanted->manifest, wanted->manifest_bytes, wanted->ranges, wanted->range_count,
                                                  wanted->fd, &wanted->blamed, wanted->error, sizeof wanted->error);
    } else {
        wanted->result = chunks_read_blob_to_fd(wanted->chunks, wanted->blob, wanted->fd, &wanted->blamed, wanted->error, sizeof wanted->error);
    }
    if (wanted->result == ERR_CORRUPT) {
        (void)chunks_delete(wanted->chunks, wanted->blamed);
    }
    bool lists = wanted->wanted_for == FOR_FILES || (wanted->wanted_for == FOR_FILE && wanted->file == NULL);
    if (wanted->result == 0 && lists) {
        read_listing(wanted);
    }
}

static void reply_worker_load(struct daemon *daemon, struct client *client, struct query_blob *wanted)
{
    struct client_reply reply;
    struct stat status;
    if (fstat(wanted->fd, &status) == 0 && client_reply_begin(&reply, wanted->id, true, 3)) {
        pack_text(&reply.writer, "found");
        pack_bool(&reply.writer, true);
        pack_text(&reply.writer, "step");
        pack_u64(&reply.writer, wanted->step);
        pack_text(&reply.writer, "bytes");
        pack_u64(&reply.writer, (uint64_t)status.st_size);
        client_reply_send(daemon, client, &reply, wanted->fd);
        wanted->fd = -1;
    }
}

static void reply_code(struct daemon *daemon, struct client *client, struct query_blob *wanted)
{
    struct client_reply reply;
    struct stat status;
    if (fstat(wanted->fd, &status) == 0 && client_reply_begin(&reply, wanted->id, true, 5)) {
        char hex[2 * HASH_BYTES + 1];
        bytes_to_hex(hex, wanted->experiment.bytes, EXPERIMENT_ID_BYTES);
        pack_text(&reply.writer, "experiment");
        pack_text(&reply.writer, hex);
        pack_text(&reply.writer, "bytes");
        pack_u64(&reply.writer, (uint64_t)status.st_size);
        bytes_to_hex(hex, wanted->blob.bytes, HASH_BYTES);
        pack_text(&reply.writer, "hash");
        pack_text(&reply.writer, hex);
        pack_text(&reply.writer, "large");
        pack_bool(&reply.writer, wanted->is_large);
        pack_text(&reply.writer, "links");
        pack_bool(&reply.writer, wanted->keeps_links);
        client_reply_send(daemon, client, &reply, wanted->fd);
        wanted->fd = -1;
    }
}

static void fetched(struct daemon *daemon, struct query_blob *wanted, int code, const char *text);

static void get_fetch(struct daemon *daemon, struct query_blob *wanted)
{
    wanted->request = ++daemon->request_id;
    wanted->tries++;
    int code = wanted->range_count == 0 ? bulk_fetch(daemon->bulk, wanted->request, wanted->blob, wanted->holders, wanted->holder_count)
                                        : bulk_fetch_ranges(daemon->bulk, wanted->request, wanted->blob, wanted->holders,
                                                            wanted->holder_count, wanted->ranges, wanted->range_count);
    struct client *client = client_find(daemon, wanted->serial);
    if (code != 0 && wanted->wanted_for == FOR_SUBMIT) {
        fetched(daemon, wanted, code, err_text(code));
        return;
    }
    if (code != 0) {
        if (client != NULL) {
            client_reply_error(daemon, client, wanted->id, EXIT_REFUSED, "The %s cannot be fetched now: %s.",
                               wanted->name, err_text(code));
        }
        blob_request_free(daemon, wanted);
    }
}

/* ---- files of a snapshot --------------------------------------------------------------------------------------- */

static void reply_files(struct daemon *daemon, struct client *client, const struct query_blob *wanted)
{
    static const char *const kinds[] = {"directory", "file", "link"};
    struct client_reply reply;
    if (!client_reply_begin(&reply, wanted->id, true, 2)) {
        return;
    }
    msgpack_packer packer = render_packer(&reply.writer);
    render_put_string(&packer, "files");
    struct render_list list = render_list_open(&packer);
    for (uint32_t i = 0; i < wanted->listing.count; i++) {
        const struct snapshot_entry *entry = &wanted->listing.entries[i];
        (void)msgpack_pack_map(&packer, 5);
        render_put_text(&packer, "path", entry->path);
        render_put_text(&packer, "kind", kinds[entry->kind]);
        render_put_u64(&packer, "bytes", entry->kind == SNAPSHOT_FILE ? entry->bytes : 0);
        render_put_u64(&packer, "modified_ms", entry->mtime_ns > 0 ? (uint64_t)(entry->mtime_ns / 1000000) : 0);
        render_put_string(&packer, "link");
        render_put_text_or_nil(&packer, entry->link != NULL ? entry->link : "");
        if (!render_list_took_row(&list)) {
            break;
        }
    }
    render_list_close(&list);
    render_put_bool(&packer, "cut", list.count < wanted->listing.count);
    client_reply_send(daemon, client, &reply, -1);
}

/* The file with the bytes stands in the snapshot's place; what lies around it are holes. */
static void reply_file(struct daemon *daemon, struct client *client, struct query_blob *wanted)
{
    struct client_reply reply;
    if (!client_reply_begin(&reply, wanted->id, true, 4)) {
        return;
    }
    pack_text(&reply.writer, "path");
    pack_text(&reply.writer, wanted->file->path);
    pack_text(&reply.writer, "offset");
    pack_u64(&reply.writer, wanted->file->offset);
    pack_text(&reply.writer, "bytes");
    pack_u64(&reply.writer, wanted->file->bytes);
    pack_text(&reply.writer, "modified_ms");
    pack_u64(&reply.writer, wanted->file->mtime_ns > 0 ? (uint64_t)(wanted->file->mtime_ns / 1000000) : 0);
    client_reply_send(daemon, client, &reply, wanted->fd);
    wanted->fd = -1;
}

/* The listing is here, or the file. True: more has to be read first, and the request lives on. */
static bool go_on_in_snapshot(struct daemon *daemon, struct client *client, struct query_blob *wanted)
{
    if (wanted->wants_more) {
        wanted->wants_more = false;
        wanted->ranges[0].count = wanted->bytes < SNAPSHOT_LISTING_BYTES_MAX ? wanted->bytes : SNAPSHOT_LISTING_BYTES_MAX;
        get_fetch(daemon, wanted);
        return true;
    }
    if (wanted->wanted_for == FOR_FILES) {
        reply_files(daemon, client, wanted);
        return false;
    }
    if (wanted->file != NULL) {
        reply_file(daemon, client, wanted);
        return false;
    }
    for (uint32_t i = 0; i < wanted->listing.count && wanted->file == NULL; i++) {
        const struct snapshot_entry *entry = &wanted->listing.entries[i];
        bool is_it = entry->kind == SNAPSHOT_FILE && strcmp(entry->path, wanted->path) == 0;
        wanted->file = is_it ? entry : NULL;
    }
    if (wanted->file == NULL) {
        client_reply_error(daemon, client, wanted->id, EXIT_NOT_FOUND,
                           "The worker has left no file %.200s; shoal output ls lists what there is.", wanted->path);
        return false;
    }
    if (wanted->file->bytes == 0) {
        reply_file(daemon, client, wanted);
        return false;
    }
    wanted->ranges[0] = (struct blob_range){.from = wanted->file->offset, .count = wanted->file->bytes};
    wanted->tries = 0;
    get_fetch(daemon, wanted);
    return true;
}

static void get_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct query_blob *wanted = (struct query_blob *)job;
    struct client *client = client_find(daemon, wanted->serial);
    bool can_repair = (wanted->result == ERR_CORRUPT || wanted->result == ERR_NOT_FOUND) && wanted->tries < BLOB_TRIES;
    if (can_repair && client != NULL) {
        char hex[17];
        bytes_to_hex(hex, wanted->blamed.bytes, 8);
        daemon_line_of(daemon, event_of_kind(EVENT_NODE_DISK_DAMAGED),
                       "chunk %s... is %s on this disk; another copy is used", hex,
                       wanted->result == ERR_CORRUPT ? "damaged" : "missing");
        get_fetch(daemon, wanted);
        return;
    }
    struct client_reply reply;
    if (client != NULL && wanted->result != 0) {
        client_reply_error(daemon, client, wanted->id, EXIT_REFUSED, "The %s cannot be read: %s", wanted->name,
                           wanted->error);
    } else if (client != NULL && (wanted->wanted_for == FOR_FILES || wanted->wanted_for == FOR_FILE)) {
        if (go_on_in_snapshot(daemon, client, wanted)) {
            return;
        }
    } else if (client != NULL && wanted->wanted_for == FOR_WORKER) {
        reply_worker_load(daemon, client, wanted);
    } else if (client != NULL && wanted->wanted_for == FOR_CODE) {
        reply_code(daemon, client, wanted);
    } else if (client != NULL && client_reply_begin(&reply, wanted->id, true, wanted->parts > 0 ? 8 : 6)) {
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
        if (wanted->parts > 0) {
            pack_text(w, "parts");
            pack_u64(w, wanted->parts);
            bytes_to_hex(hex, wanted->set.bytes, HASH_BYTES);
            pack_text(w, "set");
            pack_text(w, hex);
        }
        client_reply_send(daemon, client, &reply, wanted->fd);
        wanted->fd = -1;
    }
    blob_request_free(daemon, wanted);
}

static void fetched(struct daemon *daemon, struct query_blob *wanted, int code, const char *text)
{
    wanted->request = 0;
    if (wanted->wanted_for == FOR_SUBMIT) {
        query_fetched_fn *then = wanted->then;
        void *given = wanted->context;
        blob_request_free(daemon, wanted);
        then(daemon, given, code, text);
        return;
    }
    struct client *client = client_find(daemon, wanted->serial);
    if (code != 0) {
        if (client != NULL) {
            client_reply_error(daemon, client, wanted->id, EXIT_REFUSED,
                               "No complete copy of the %s can be reached: %s", wanted->name, text);
        }
        blob_request_free(daemon, wanted);
        return;
    }
    wanted->job = (struct job){.work = get_work, .done = get_done};
    jobs_run(daemon->blob_jobs, &wanted->job);
}

void query_fetched(struct daemon *daemon, const struct bulk_event *event)
{
    struct query_blob *wanted = daemon->api->blob_requests;
    while (wanted != NULL && wanted->request != event->id) {
        wanted = wanted->next;
    }
    if (wanted == NULL) {
        return;
    }
    int code = event->code;
    if (code == 0 && wanted->range_count > 0) {
        free(wanted->manifest);
        wanted->manifest_bytes = event->items[0].count;
        wanted->manifest = malloc(wanted->manifest_bytes);
        code = wanted->manifest == NULL ? ERR_MEMORY : 0;
    }
    if (code == 0 && wanted->range_count > 0) {
        memcpy(wanted->manifest, event->items[0].bytes, wanted->manifest_bytes);
    }
    fetched(daemon, wanted, code, code == event->code ? event->text : err_text(code));
}

/* The path below $SHOAL_CHECKPOINT_DIR of the checkpoint that the program has left without libshoal; NULL: there is none. */
static const char *saved_name(const struct daemon *daemon, const struct view_experiment *experiment, const struct view_trial *trial)
{
    const struct view_output *outputs[FACT_OUTPUTS_MAX];
    uint32_t count = trial != NULL && node_core_keeps_outputs(experiment, trial) ? node_core_outputs(daemon->core, experiment, trial, outputs) : 0;
    for (uint32_t i = 0; i < count; i++) {
        if (outputs[i]->fact.saved.name[0] != '\0') {
            return outputs[i]->fact.saved.name;
        }
    }
    return NULL;
}

/* The blob of the checkpoint, or of the part that the request names. False, after an error reply: there is no such part. */
static bool find_part(struct daemon *daemon, struct client_request *request, const struct view_set *set, hash256 *blob)
{
    uint64_t part = 0;
    struct view_manifest found;
    bool is_named = client_argument_u64(request, "part", &part);
    if (!is_named && set->key.count > 1) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "The checkpoint of step %llu has %u parts, which are read one by one: this shoal or libshoal is of an older version.",
                           (unsigned long long)set->key.step, set->key.count);
        return false;
    }
    if (part >= set->key.count) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "The checkpoint of step %llu has %u parts, and no part %llu.", (unsigned long long)set->key.step, set->key.count,
                           (unsigned long long)part);
        return false;
    }
    if (!node_core_part(daemon->core, set, (uint32_t)part, &found)) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "No node is known to hold part %llu of the checkpoint of step %llu (any more).", (unsigned long long)part,
                           (unsigned long long)set->key.step);
        return false;
    }
    *blob = found.blob;
    return true;
}

void query_checkpoint_get(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    struct view_experiment *experiment;
    const struct view_trial *trial;
    uint64_t step = 0;
    uint32_t index;
    if (!query_argument_any_trial(daemon, request, &experiment, &index, &trial)) {
        return;
    }
    const struct view_manifest *row = trial != NULL ? trial->manifests : NULL;
    struct view_manifest found;
    bool any_step = !client_argument_u64(request, "step", &step) || step == 0;
    bool is_found = node_core_next_checkpoint(daemon->core, &row, &found);
    while (is_found && !any_step && found.step != step) {
        is_found = node_core_next_checkpoint(daemon->core, &row, &found);
    }
    /* The parts of a checkpoint are got one by one. Between two requests a newer save of the same step may have come. */
    char set_name[2 * HASH_BYTES + 1] = "", asked_name[2 * HASH_BYTES + 1] = "";
    bool is_set_named = request_text(&request->map, "set", asked_name, sizeof asked_name);
    while (is_found && is_set_named) {
        bytes_to_hex(set_name, found.blob.bytes, HASH_BYTES);
        if (strcmp(set_name, asked_name) == 0) {
            break;
        }
        is_found = node_core_next_checkpoint(daemon->core, &row, &found);
    }
    const struct view_set *set = is_found ? found.set : NULL;
    hash256 set_blob = {{0}};
    if (set != NULL && !find_part(daemon, request, set, &set_blob)) {
        return;
    }
    if (set != NULL) {
        uint64_t part = 0;
        (void)client_argument_u64(request, "part", &part);
        (void)node_core_part(daemon->core, set, (uint32_t)part, &found);
    }
    struct query_blob *wanted = is_found ? calloc(1, sizeof *wanted) : NULL;
    const char *saved = is_found ? NULL : saved_name(daemon, experiment, trial);
    if (saved != NULL) {
        client_reply_error(daemon, request->client, request->id, EXIT_NOT_FOUND,
                           "The checkpoint of trial %u is checkpoint/%s, which its program has left; `shoal output get EXP/%u checkpoint DIR` "
                           "gets it.",
                           index, saved, index);
        return;
    }
    if (!is_found && any_step) {
        client_reply_error(daemon, request->client, request->id, EXIT_NOT_FOUND, "Trial %u has no checkpoint (yet).", index);
        return;
    }
    if (wanted == NULL) {
        client_reply_error(daemon, request->client, request->id, EXIT_NOT_FOUND,
                           "Trial %u has no checkpoint of step %llu; `shoal checkpoint ls` lists them.", index,
                           (unsigned long long)step);
        return;
    }
    wanted->chunks = daemon->chunks;
    wanted->name = "checkpoint";
    wanted->serial = request->client->serial;
    wanted->id = request->id;
    wanted->experiment = experiment->id;
    wanted->trial = index;
    wanted->step = found.step;
    wanted->bytes = found.bytes;
    wanted->attempt = found.attempt.number;
    wanted->blob = found.blob;
    wanted->parts = set != NULL ? set->key.count : 0;
    wanted->set = set != NULL ? set->name : (hash256){{0}};
    wanted->holder_count = found.holder_count;
    memcpy(wanted->holders, found.holders, sizeof found.holders);
    wanted->fd = -1;
    wanted->next = daemon->api->blob_requests;
    daemon->api->blob_requests = wanted;
    get_fetch(daemon, wanted);
}

void query_fetch_checkpoint(struct daemon *daemon, const struct view_manifest *checkpoint, query_fetched_fn *then, void *context)
{
    struct query_blob *wanted = calloc(1, sizeof *wanted);
    if (wanted == NULL) {
        then(daemon, context, ERR_MEMORY, err_text(ERR_MEMORY));
        return;
    }
    wanted->wanted_for = FOR_SUBMIT;
    wanted->then = then;
    wanted->context = context;
    wanted->name = "checkpoint";
    wanted->blob = checkpoint->blob;
    wanted->holder_count = checkpoint->holder_count;
    memcpy(wanted->holders, checkpoint->holders, sizeof checkpoint->holders);
    wanted->fd = -1;
    wanted->next = daemon->api->blob_requests;
    daemon->api->blob_requests = wanted;
    get_fetch(daemon, wanted);
}

/* ---- outputs ------------------------------------------------------------------------------------------------------- */

/* The outputs of the trial, after an error reply 0. */
static uint32_t find_outputs(struct daemon *daemon, struct client_request *request, struct view_experiment **experiment,
                             uint32_t *index, const struct view_trial **trial, const struct view_output *out[FACT_OUTPUTS_MAX])
{
    if (!query_argument_any_trial(daemon, request, experiment, index, trial)) {
        return 0;
    }
    uint32_t count = *trial != NULL ? node_core_outputs(daemon->core, *experiment, *trial, out) : 0;
    bool is_kept = count > 0 && node_core_keeps_outputs(*experiment, *trial);
    if (is_kept) {
        return count;
    }
    if (count > 0) {
        client_reply_error(daemon, request->client, request->id, EXIT_NOT_FOUND,
                           "The files of trial %u were not kept after its end, as the keys checkpoint.save_... say.", *index);
    } else if (*trial != NULL && (*trial)->outputs != NULL) {
        client_reply_error(daemon, request->client, request->id, EXIT_NOT_FOUND,
                           "No node that holds the files of trial %u can be reached now; shoal nodes shows which are away.", *index);
    } else {
        bool is_over = view_trial_over(view_trial_state(*experiment, *index)) || view_experiment_over(*experiment);
        client_reply_error(daemon, request->client, request->id, EXIT_NOT_FOUND,
                           "Trial %u has left no files%s; what the key keep names, and $SHOAL_OUTPUT_DIR, is kept%s.", *index,
                           is_over ? "" : " (yet)", is_over ? "; shoal events tells what could not be" : "");
    }
    return 0;
}

void query_outputs(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    struct view_experiment *experiment;
    const struct view_trial *trial;
    const struct view_output *outputs[FACT_OUTPUTS_MAX];
    uint32_t index;
    uint32_t count = find_outputs(daemon, request, &experiment, &index, &trial, outputs);
    struct client_reply reply;
    if (count > 0 && client_reply_begin(&reply, request->id, true, RENDER_OUTPUTS_PAIRS)) {
        render_outputs(daemon->core, experiment, trial, outputs, count, &reply.writer);
        client_reply_send(daemon, request->client, &reply, -1);
    }
}

/* The output that the request names, as a blob to be fetched; NULL after an error reply. */
static struct query_blob *wish_output(struct daemon *daemon, struct client_request *request)
{
    struct view_experiment *experiment;
    const struct view_trial *trial;
    const struct view_output *outputs[FACT_OUTPUTS_MAX];
    uint32_t index;
    uint64_t at = 0;
    (void)client_argument_u64(request, "number", &at);
    uint32_t count = find_outputs(daemon, request, &experiment, &index, &trial, outputs), found = 0;
    while (found < count && outputs[found]->number != at) {
        found++;
    }
    if (count == 0) {
        return NULL;
    }
    struct query_blob *wanted = found < count ? calloc(1, sizeof *wanted) : NULL;
    if (wanted == NULL) {
        client_reply_error(daemon, request->client, request->id, EXIT_NOT_FOUND,
                           "Worker %llu of trial %u has left no files; shoal output ls lists them.", (unsigned long long)at, index);
        return NULL;
    }
    const struct view_output *output = outputs[found];
    wanted->wanted_for = FOR_OUTPUT;
    wanted->name = "copy of the files";
    wanted->directory = daemon->dir;
    wanted->chunks = daemon->chunks;
    wanted->serial = request->client->serial;
    wanted->id = request->id;
    wanted->experiment = experiment->id;
    wanted->trial = index;
    wanted->step = output->fact.sequence;
    wanted->bytes = output->fact.bytes;
    wanted->attempt = output->attempt.number;
    wanted->blob = output->fact.blob;
    wanted->holder_count = daemon_holders_output(daemon, &output->attempt, output->fact.blob, wanted->holders);
    wanted->fd = -1;
    return wanted;
}

static void fetch_output(struct daemon *daemon, struct query_blob *wanted)
{
    wanted->next = daemon->api->blob_requests;
    daemon->api->blob_requests = wanted;
    daemon_bulk_peers(daemon);
    get_fetch(daemon, wanted);
}

void query_output_get(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    struct query_blob *wanted = wish_output(daemon, request);
    if (wanted != NULL) {
        fetch_output(daemon, wanted);
    }
}

void query_output_files(struct daemon *daemon, struct client_request *request, int is_one)
{
    char path[SNAPSHOT_PATH_BYTES] = "";
    if (is_one && (!request_text(&request->map, "path", path, sizeof path) || path[0] == '\0')) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "The request names no file; give its `path`, as output_files has it.");
        return;
    }
    struct query_blob *wanted = wish_output(daemon, request);
    if (wanted == NULL) {
        return;
    }
    wanted->wanted_for = is_one ? FOR_FILE : FOR_FILES;
    wanted->ranges[0] = (struct blob_range){.from = 0, .count = wanted->bytes < LISTING_BYTES ? wanted->bytes : LISTING_BYTES};
    wanted->range_count = 1;
    wanted->path = is_one ? strdup(path) : NULL;
    if (is_one && wanted->path == NULL) {
        free(wanted);
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED, "The file cannot be read: no memory.");
        return;
    }
    fetch_output(daemon, wanted);
}

/* ---- what was submitted -------------------------------------------------------------------------------------------- */

void query_code_get(struct daemon *daemon, struct client_request *request, int which)
{
    struct view_experiment *experiment;
    if (!client_argument_experiment(daemon, request, &experiment)) {
        return;
    }
    struct query_blob *wanted = calloc(1, sizeof *wanted);
    if (wanted == NULL) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED, "The code cannot be read: no memory.");
        return;
    }
    wanted->chunks = daemon->chunks;
    wanted->serial = request->client->serial;
    wanted->id = request->id;
    wanted->wanted_for = FOR_CODE;
    wanted->name = which == QUERY_CODE ? "code" : "configuration";
    wanted->experiment = experiment->id;
    wanted->blob = which == QUERY_CODE ? experiment->code : experiment->config_text;
    wanted->is_large = experiment->is_large;
    wanted->keeps_links = experiment->config->context_links == CONFIG_LINKS_KEEP;
    wanted->holder_count = daemon_holders_code(daemon, experiment->id, 0, wanted->holders);
    wanted->fd = -1;
    wanted->next = daemon->api->blob_requests;
    daemon->api->blob_requests = wanted;
    daemon_bulk_peers(daemon);
    get_fetch(daemon, wanted);
}

void query_worker_load(struct daemon *daemon, struct client_request *request, const struct daemon_worker *worker)
{
    const struct node_effect *effect = &worker->prepare;
    const struct view_set *set = daemon_set(daemon, &effect->u.worker.attempt, effect->u.worker.checkpoint);
    hash256 blob = effect->u.worker.checkpoint;
    if (set != NULL && !find_part(daemon, request, set, &blob)) {
        return;
    }
    struct query_blob *wanted = calloc(1, sizeof *wanted);
    if (wanted == NULL) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED, "The checkpoint cannot be read: no memory.");
        return;
    }
    wanted->chunks = daemon->chunks;
    wanted->serial = request->client->serial;
    wanted->id = request->id;
    wanted->wanted_for = FOR_WORKER;
    wanted->name = "checkpoint";
    wanted->step = worker->prepare.u.worker.step;
    wanted->blob = blob;
    if (!request_ranges(&request->map, wanted->ranges, &wanted->range_count)) {
        free(wanted);
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "The `ranges` of worker_load are malformed: they are at most %d pairs of u64, first byte and bytes, each big-endian.",
                           REQUEST_RANGES_MAX);
        return;
    }
    wanted->holder_count = daemon_holders_checkpoint(daemon, &worker->prepare.u.worker.attempt, wanted->blob, wanted->holders);
    wanted->fd = -1;
    wanted->next = daemon->api->blob_requests;
    daemon->api->blob_requests = wanted;
    daemon_bulk_peers(daemon);
    get_fetch(daemon, wanted);
}

void query_checkpoint_close(struct daemon *daemon)
{
    while (daemon->api->blob_requests != NULL) {
        struct query_blob *wanted = daemon->api->blob_requests;
        query_fetched_fn *then = wanted->then;
        void *context = wanted->context;
        blob_request_free(daemon, wanted);
        if (then != NULL) {
            then(daemon, context, ERR_CLOSED, err_text(ERR_CLOSED));
        }
    }
}
