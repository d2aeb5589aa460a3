/* Fetches, pushes, series fetches and checks, and the replication of series. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "node/bulk/state.h"
#include "store/hash.h"

#define FETCH_IN_FLIGHT 8
#define PUSH_IN_FLIGHT 3
#define PUSH_PASSES_MAX 8
/* How often a long job asks for all its chunks, to keep them. Until a blob's manifest is stored, its chunks belong to
 * no known blob, and may be collected when nobody has asked for them for an hour, or for some minutes on a full disk
 * (CORE_COLLECT_FULL_IDLE_S). */
#define LOOK_MS 240000
#define APPENDS_PER_PEER 2
#define ENTRIES_PER_STEP 256
#define NAME_BYTES 13 /* enough digits of a hash or node id for people */

static const char *name_of(const uint8_t *bytes, char out[NAME_BYTES])
{
    bytes_to_hex(out, bytes, NAME_BYTES / 2);
    return out;
}

void bulk_job_free(struct bulk_job *job)
{
    if (job == NULL) {
        return;
    }
    free(job->encoded);
    free(job->manifest.chunks);
    free(job->slots);
    bulk_check_close(&job->check);
    free(job->event);
    free(job->command);
    free(job);
}

static void job_finish(struct bulk *bulk, struct bulk_job *job, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void job_finish(struct bulk *bulk, struct bulk_job *job, int code, const char *format, ...)
{
    if (job->finished) {
        return;
    }
    static const enum bulk_event_kind kinds[] = {
        [BULK_DO_FETCH] = BULK_FETCHED, [BULK_DO_PUSH] = BULK_PUSHED, [BULK_DO_READ] = BULK_SERIES,
        [BULK_DO_VERIFY] = BULK_VERIFIED};
    job->finished = true;
    bulk_link_forget(bulk, job);
    struct bulk_event *event = &job->event->event;
    event->kind = kinds[job->command->kind];
    event->code = code;
    event->id = job->command->id;
    event->hash = job->command->hash;
    event->node = job->command->kind == BULK_DO_FETCH ? (node_id){{0}} : job->command->nodes[0];
    event->bytes = job->bytes;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(event->text, sizeof event->text, format, arguments);
    va_end(arguments);
    job->event->counter = &bulk->requests;
    bulk_event_put(bulk, job->event);
    job->event = NULL;
    bulk->again = true;
}

/* Finishes a job with the reason why a peer did not do what it was asked. */
static void job_finish_peer(struct bulk *bulk, struct bulk_job *job, node_id node, const struct bulk_message *message,
                            int code)
{
    char name[NAME_BYTES];
    (void)name_of(node.bytes, name);
    if (message == NULL && (code == ERR_TIMEOUT || code == ERR_CLOSED)) {
        job_finish(bulk, job, code, code == ERR_TIMEOUT ? "Node %s did not answer in time; the transfer was given up."
                                                        : "Node %s is gone; the transfer was given up.", name);
        return;
    }
    if (message == NULL) {
        job_finish(bulk, job, code, "The transfer to node %s failed on this node: %s.", name, err_text(code));
        return;
    }
    int status = message->kind != BULK_STATUS ? BULK_UNKNOWN : message->status;
    switch (status) {
    case BULK_FULL:
        job_finish(bulk, job, ERR_NO_SPACE, "The disk of node %s is full.", name);
        break;
    case BULK_MISSING:
        job_finish(bulk, job, ERR_NOT_FOUND, "Node %s does not have the data.", name);
        break;
    case BULK_DAMAGED:
        job_finish(bulk, job, ERR_CORRUPT, "Node %s found the data damaged.", name);
        break;
    case BULK_UNKNOWN:
        job_finish(bulk, job, ERR_VERSION, "Node %s does not understand the request; run the same version of Shoal on both nodes.", name);
        break;
    default:
        job_finish(bulk, job, ERR_IO, "Node %s could not store or read the data.", name);
        break;
    }
}

/* Copies the encoded manifest into the job and decodes it. On an error the job is finished. */
static int job_manifest(struct bulk *bulk, struct bulk_job *job, const uint8_t *bytes, size_t count)
{
    char name[NAME_BYTES];
    uint32_t chunk_count;
    uint64_t total_bytes;
    int code = blob_decode_counts(bytes, count, &chunk_count, &total_bytes);
    if (code == 0) {
        job->encoded = malloc(count);
        struct blob_chunk *chunks = calloc(chunk_count + 1u, sizeof *chunks);
        job->slots = calloc(chunk_count + 1u, sizeof *job->slots);
        if (job->encoded == NULL || chunks == NULL || job->slots == NULL) {
            free(chunks);
            code = ERR_MEMORY;
        } else {
            memcpy(job->encoded, bytes, count);
            job->encoded_bytes = count;
            CHECK(blob_decode(bytes, count, chunks, chunk_count, &job->manifest) == 0);
        }
    }
    if (code != 0) {
        job_finish(bulk, job, code, "Blob %s cannot be moved: its manifest is unusable (%s).",
                   name_of(job->command->hash.bytes, name), err_name(code));
    }
    return code;
}

/* ---- fetch ---- */

static bool is_wanted(const struct bulk_job *job, const struct blob_piece *piece)
{
    const struct blob_range *ranges = (const struct blob_range *)(const void *)job->command->bytes;
    return blob_is_wanted(piece, ranges, job->command->byte_count / sizeof *ranges);
}

/* chunks_has for every chunk that is wanted; true if all of them are stored. */
static bool has_wanted(struct bulk *bulk, const struct bulk_job *job)
{
    struct blob_piece piece = {0};
    bool has_all = true;
    while (blob_next(&job->manifest, &piece)) {
        has_all &= !is_wanted(job, &piece) || chunks_has(bulk->chunks, piece.hash);
    }
    return has_all;
}

/* Plans a fetch: the chunks, the holders, and the chunks that are here already. */
static void fetch_plan(struct bulk *bulk, struct bulk_job *job)
{
    blob_fetch_init(&job->fetch, &job->manifest, job->slots, FETCH_IN_FLIGHT);
    for (uint32_t i = 0; i < job->command->node_count; i++) {
        if (bulk_link_peer(bulk, job->command->nodes[i]) != NULL) {
            (void)blob_fetch_add_holder(&job->fetch, job->command->nodes[i]);
        }
    }
    struct blob_piece piece = {0};
    while (blob_next(&job->manifest, &piece)) {
        if (!is_wanted(job, &piece) || chunks_has(bulk->chunks, piece.hash)) {
            (void)blob_fetch_present(&job->fetch, piece.index);
        }
    }
    job->look_ms = bulk->now_ms;
}

static void fetch_begin(struct bulk *bulk, struct bulk_job *job, const uint8_t *bytes, size_t count)
{
    if (job_manifest(bulk, job, bytes, count) == 0) {
        fetch_plan(bulk, job);
        job->state = BULK_JOB_CHUNKS;
    }
}

static void fetch_start(struct bulk *bulk, struct bulk_job *job)
{
    uint8_t *buffer;
    size_t count;
    job->state = BULK_JOB_MANIFEST;
    if (bulk_chunk_read(bulk, job->command->hash, &buffer, &count) == 0) {
        fetch_begin(bulk, job, buffer, count);
        bulk_unmap(buffer);
    }
}

static void fetch_manifest(struct bulk *bulk, struct bulk_job *job)
{
    char name[NAME_BYTES];
    while (job->outstanding == 0) {
        if (job->holder_next == job->command->node_count) {
            job_finish(bulk, job, ERR_NOT_FOUND, "No reachable node has the manifest of blob %s.",
                       name_of(job->command->hash.bytes, name));
            return;
        }
        node_id holder = job->command->nodes[job->holder_next];
        if (bulk_link_peer(bulk, holder) != NULL && !bulk_link_ask(bulk, job, BULK_GET, holder, job->command->hash, 0)) {
            return;
        }
        job->holder_next++;
    }
}

/* Puts the manifest into the job's event. False: no memory. */
static bool fetch_give_manifest(struct bulk_job *job)
{
    struct bulk_event_node *node = calloc(1, sizeof *node + sizeof node->items[0]);
    if (node == NULL) {
        return false;
    }
    node->body = job->encoded;
    node->items[0] = (struct bulk_item){.bytes = node->body, .count = job->encoded_bytes};
    node->event.items = node->items;
    node->event.item_count = 1;
    free(job->event);
    job->event = node;
    job->encoded = NULL;
    return true;
}

static void fetch_end(struct bulk *bulk, struct bulk_job *job)
{
    char name[NAME_BYTES];
    bool is_of_ranges = job->command->byte_count > 0;
    if (!has_wanted(bulk, job)) { /* chunks from before a suspend were collected after it */
        fetch_plan(bulk, job);
        bulk->again = true;
        return;
    }
    bool is_complete = !is_of_ranges || chunks_has_all(bulk->chunks, &job->manifest);
    int code = is_complete ? bulk_store_result(bulk, chunks_put(bulk->chunks, job->command->hash, job->encoded, job->encoded_bytes)) : 0;
    if (code == 0 && is_of_ranges && !fetch_give_manifest(job)) {
        job_finish(bulk, job, ERR_MEMORY, "No memory is left for the manifest of blob %s.", name_of(job->command->hash.bytes, name));
    } else if (code == 0) {
        job_finish(bulk, job, 0, "%s", "");
    } else {
        job_finish(bulk, job, code, "The manifest of blob %s could not be stored here: %s.",
                   name_of(job->command->hash.bytes, name), err_text(code));
    }
}

static void fetch_chunks(struct bulk *bulk, struct bulk_job *job)
{
    char name[NAME_BYTES], chunk[NAME_BYTES];
    if (bulk->now_ms - job->look_ms >= LOOK_MS) {
        (void)has_wanted(bulk, job); /* to keep the chunks; a lost one is noticed at the end */
        job->look_ms = bulk->now_ms;
    }
    while (bulk->question_count < BULK_QUESTIONS_MAX) {
        struct blob_ask ask;
        int code = blob_fetch_next(&job->fetch, &ask);
        /* The chunk came with another blob, or occurs twice. */
        if (code == 0 && chunks_has(bulk->chunks, ask.piece.hash)) {
            (void)blob_fetch_answer(&job->fetch, ask.piece.index, ask.holder, BLOB_ANSWER_STORED);
        } else if (code == 0) {
            CHECK(bulk_link_ask(bulk, job, BULK_GET, ask.holder, ask.piece.hash, ask.piece.index));
        } else {
            if (code == ERR_EXISTS) {
                fetch_end(bulk, job);
            } else if (code == ERR_NOT_FOUND) {
                job_finish(bulk, job, ERR_NOT_FOUND, "No reachable node has a good copy of chunk %s of blob %s.",
                           name_of(ask.piece.hash.bytes, chunk), name_of(job->command->hash.bytes, name));
            }
            return;
        }
    }
}

static void fetch_answer_manifest(struct bulk *bulk, struct bulk_job *job, const struct bulk_question *question,
                                  const struct bulk_message *message)
{
    if (message == NULL || message->kind != BULK_DATA) {
        return; /* the next holder will be asked */
    }
    if (!hash256_equal(hash_bytes(message->body, message->body_bytes), job->command->hash)) {
        bulk_notice_corrupt(bulk, job->command->hash, question->node);
        return;
    }
    job->bytes += message->body_bytes;
    fetch_begin(bulk, job, message->body, message->body_bytes);
}

static void fetch_answer(struct bulk *bulk, struct bulk_job *job, const struct bulk_question *question,
                         const struct bulk_message *message)
{
    if (message != NULL) {
        bulk_count_received(bulk, question->node, message->body_bytes);
    }
    if (job->state == BULK_JOB_MANIFEST) {
        fetch_answer_manifest(bulk, job, question, message);
        return;
    }
    enum blob_answer answer = BLOB_ANSWER_FAILED;
    if (message != NULL && message->kind == BULK_DATA) {
        int code = bulk_store_result(bulk,
                                     chunks_put(bulk->chunks, question->hash, message->body, message->body_bytes));
        if (code == 0) {
            answer = BLOB_ANSWER_STORED;
            job->bytes += message->body_bytes;
        } else if (code == ERR_CORRUPT || code == ERR_USAGE) { /* USAGE: the answer has no bytes */
            answer = BLOB_ANSWER_CORRUPT;
            bulk_notice_corrupt(bulk, question->hash, question->node);
        } else {
            job_finish(bulk, job, code, "A chunk could not be stored here: %s.", err_text(code));
            return;
        }
    }
    (void)blob_fetch_answer(&job->fetch, question->index, question->node, answer);
}

/* ---- push ---- */

static void push_start(struct bulk *bulk, struct bulk_job *job)
{
    char name[NAME_BYTES];
    node_id to = job->command->nodes[0];
    if (!node_id_equal(to, bulk->self) && bulk_link_peer(bulk, to) == NULL) {
        job_finish(bulk, job, ERR_NOT_FOUND, "Nothing can be sent to node %s: its address is not known.",
                   name_of(to.bytes, name));
        return;
    }
    uint8_t *buffer;
    size_t count;
    int code = bulk_chunk_read(bulk, job->command->hash, &buffer, &count);
    if (code != 0) {
        job_finish(bulk, job, code, "The manifest of blob %s cannot be read here: %s.",
                   name_of(job->command->hash.bytes, name), err_text(code));
        return;
    }
    if (job_manifest(bulk, job, buffer, count) == 0) {
        job->state = BULK_JOB_CHUNKS;
        job->look_ms = bulk->now_ms;
    }
    bulk_unmap(buffer);
}

/* A push to this node only checks that the blob is complete here. */
static void push_to_self(struct bulk *bulk, struct bulk_job *job)
{
    for (uint32_t i = 0; i < job->manifest.chunk_count; i++) {
        if (!chunks_has(bulk->chunks, job->manifest.chunks[i].hash)) {
            job_finish(bulk, job, ERR_NOT_FOUND, "The blob is not complete on this node.");
            return;
        }
    }
    job_finish(bulk, job, 0, "%s", "");
}

/* Asks the peer once more about the whole blob, since some of the sent chunks may be gone again. `is_pass`: all were
 * sent. The push ends when the peer lacks nothing, or keeps so little that it never will be complete. */
static void push_again(struct bulk *bulk, struct bulk_job *job, bool is_pass)
{
    char name[NAME_BYTES];
    bool is_endless = job->sent_count > (uint64_t)PUSH_PASSES_MAX * job->manifest.chunk_count;
    job->passes += is_pass;
    if (job->passes > PUSH_PASSES_MAX || is_endless) {
        job_finish(bulk, job, ERR_AGAIN, "Node %s does not keep what is sent to it; the transfer was given up.",
                   name_of(job->command->nodes[0].bytes, name));
        return;
    }
    job->has_sent &= !is_pass;
    job->batch_from = 0;
    job->look_ms = bulk->now_ms;
}

static void push_chunks(struct bulk *bulk, struct bulk_job *job)
{
    node_id to = job->command->nodes[0];
    if (node_id_equal(to, bulk->self)) {
        push_to_self(bulk, job);
        return;
    }
    while (!job->finished) {
        if (job->batch_count == 0 && job->batch_from == job->manifest.chunk_count && job->has_sent) {
            push_again(bulk, job, true);
            continue;
        }
        if (job->batch_count == 0 && job->batch_from == job->manifest.chunk_count) {
            if (bulk_link_ask(bulk, job, BULK_PUT, to, job->command->hash, 0)) {
                job->state = BULK_JOB_LAST;
            }
            return;
        }
        if (job->batch_count == 0) {
            if (bulk_link_ask(bulk, job, BULK_HAS, to, job->command->hash, 0)) {
                uint32_t left = job->manifest.chunk_count - job->batch_from;
                job->batch_count = left < BULK_WIRE_HAS_MAX ? left : BULK_WIRE_HAS_MAX;
                job->batch_next = 0;
                job->batch_known = false;
                job->batch_sent = false;
            }
            return;
        }
        while (job->batch_known && job->batch_next < job->batch_count && job->outstanding < PUSH_IN_FLIGHT) {
            uint32_t i = job->batch_next;
            bool is_held = (job->held[i / 8] & (1u << (i % 8))) != 0;
            if (!is_held && !bulk_link_ask(bulk, job, BULK_PUT, to, job->manifest.chunks[job->batch_from + i].hash, 0)) {
                return;
            }
            job->has_sent |= !is_held;
            job->sent_count += !is_held;
            job->batch_sent |= !is_held;
            job->batch_next++;
        }
        if (!job->batch_known || job->batch_next < job->batch_count || job->outstanding > 0) {
            return;
        }
        job->batch_from += job->batch_count;
        job->batch_count = 0;
        if (job->batch_sent && bulk->now_ms - job->look_ms >= LOOK_MS) {
            push_again(bulk, job, false);
        }
    }
}

static void push_answer(struct bulk *bulk, struct bulk_job *job, const struct bulk_question *question,
                        const struct bulk_message *message, int code)
{
    if (question->kind == BULK_HAS && message != NULL && message->kind == BULK_HELD &&
        message->bits_bytes == (job->batch_count + 7) / 8) {
        memcpy(job->held, message->bits, message->bits_bytes);
        job->batch_known = true;
        return;
    }
    bool stored = question->kind == BULK_PUT && message != NULL && message->kind == BULK_STATUS &&
                  message->status == BULK_STORED;
    bool is_incomplete = job->state == BULK_JOB_LAST && message != NULL && message->kind == BULK_STATUS &&
                         message->status == BULK_MISSING;
    if (is_incomplete) {
        job->state = BULK_JOB_CHUNKS;
        push_again(bulk, job, true);
    } else if (!stored) {
        job_finish_peer(bulk, job, question->node, message, code);
    } else if (job->state == BULK_JOB_LAST) {
        job_finish(bulk, job, 0, "%s", "");
    }
}

/* ---- series fetch ---- */

static void read_finish(struct bulk *bulk, struct bulk_job *job, const uint8_t *body, size_t body_bytes, bool more)
{
    struct pack_reader reader;
    uint64_t sequence;
    const uint8_t *bytes;
    size_t count;
    uint32_t items = 0;
    pack_reader_init(&reader, body, body_bytes);
    while (bulk_wire_entry_read(&reader, &sequence, &bytes, &count)) {
        items++;
    }
    struct bulk_event_node *node = calloc(1, sizeof *node + items * sizeof node->items[0]);
    uint8_t *copy = malloc(body_bytes + 1);
    if (node == NULL || copy == NULL) {
        free(node);
        free(copy);
        job_finish(bulk, job, ERR_MEMORY, "No memory is left for the entries of a series.");
        return;
    }
    memcpy(copy, body, body_bytes);
    pack_reader_init(&reader, copy, body_bytes);
    for (uint32_t i = 0; i < items && bulk_wire_entry_read(&reader, &sequence, &bytes, &count); i++) {
        node->items[i] = (struct bulk_item){.sequence = sequence, .bytes = bytes, .count = count};
    }
    node->body = copy;
    node->event.items = node->items;
    node->event.item_count = items;
    node->event.more = more;
    free(job->event);
    job->event = node;
    job->bytes = body_bytes;
    job_finish(bulk, job, 0, "%s", "");
}

static void read_start(struct bulk *bulk, struct bulk_job *job)
{
    char name[NAME_BYTES];
    const struct bulk_command *command = job->command;
    node_id from = command->nodes[0];
    if (!node_id_equal(from, bulk->self)) {
        if (bulk_link_peer(bulk, from) == NULL) {
            job_finish(bulk, job, ERR_NOT_FOUND, "Node %s cannot be asked: its address is not known.",
                       name_of(from.bytes, name));
        } else if (bulk_link_ask(bulk, job, command->byte_count > 0 ? BULK_ASK : BULK_READ, from, command->hash, 0)) {
            job->state = BULK_JOB_LAST;
        }
        return;
    }
    uint8_t *buffer = bulk_map();
    size_t bytes;
    uint64_t last;
    uint32_t count;
    bool more;
    int code = buffer == NULL ? ERR_MEMORY : 0;
    if (code == 0 && command->byte_count > 0) {
        code = bulk_series_answer(bulk, command->prefix, command->prefix_bytes, command->sequence, command->bytes,
                                  command->byte_count, buffer, &bytes, &more);
    } else if (code == 0) {
        code = bulk_series_pack(bulk, command->prefix, command->prefix_bytes, command->sequence, BULK_SERIES_BYTES, buffer,
                                &bytes, &last, &count, &more);
    }
    if (code == 0) {
        read_finish(bulk, job, buffer, bytes, more);
    } else {
        job_finish(bulk, job, code, "A series cannot be read here: %s.", err_text(code));
    }
    if (buffer != NULL) {
        bulk_unmap(buffer);
    }
}

static void read_answer(struct bulk *bulk, struct bulk_job *job, const struct bulk_question *question,
                        const struct bulk_message *message, int code)
{
    if (message != NULL && message->kind == BULK_ITEMS) {
        bulk_count_received(bulk, question->node, message->body_bytes);
        read_finish(bulk, job, message->body, message->body_bytes, message->more);
    } else {
        job_finish_peer(bulk, job, question->node, message, code);
    }
}

/* ---- checks ---- */

static void verify_start(struct bulk *bulk, struct bulk_job *job)
{
    char name[NAME_BYTES];
    node_id node = job->command->nodes[0];
    if (node_id_equal(node, bulk->self)) {
        job->check.hash = job->command->hash;
        job->state = BULK_JOB_CHUNKS;
    } else if (bulk_link_peer(bulk, node) == NULL) {
        job_finish(bulk, job, ERR_CLOSED, "Node %s cannot be asked: its address is not known.",
                   name_of(node.bytes, name));
    } else if (bulk_link_ask(bulk, job, BULK_VERIFY, node, job->command->hash, 0)) {
        job->state = BULK_JOB_LAST;
    }
}

/* Checks one chunk per turn, as for a peer. */
static void verify_self(struct bulk *bulk, struct bulk_job *job)
{
    char name[NAME_BYTES];
    int code = bulk_check_step(bulk, &job->check);
    (void)name_of(job->command->hash.bytes, name);
    if (code == 0) {
        job_finish(bulk, job, 0, "%s", "");
    } else if (code != ERR_AGAIN) {
        job_finish(bulk, job, code, "Blob %s is not complete on this node: %s.", name, err_text(code));
    }
    bulk->again = true;
}

static void verify_answer(struct bulk *bulk, struct bulk_job *job, const struct bulk_question *question,
                          const struct bulk_message *message, int code)
{
    if (message != NULL && message->kind == BULK_STATUS && message->status == BULK_STORED) {
        job_finish(bulk, job, 0, "%s", "");
    } else {
        job_finish_peer(bulk, job, question->node, message, code);
    }
}

/* ---- replication of series ---- */

static uint64_t hash_of(node_id node, const uint8_t *prefix, size_t prefix_bytes)
{
    return bytes_hash64(prefix, prefix_bytes, bytes_hash64(node.bytes, NODE_ID_BYTES, 1));
}

/* Takes out what is remembered of the peer: the first entry that it may lack; 0: nothing is remembered. */
static uint64_t sent_take(struct bulk *bulk, uint64_t series)
{
    struct bulk_sent *set = bulk->sent[series % BULK_SENT_SETS];
    for (uint32_t i = 0; i < BULK_SENT_WAYS; i++) {
        if (set[i].next != 0 && set[i].series == series) {
            uint64_t next = set[i].next;
            memmove(set + i, set + i + 1, (BULK_SENT_WAYS - 1 - i) * sizeof *set);
            set[BULK_SENT_WAYS - 1] = (struct bulk_sent){0};
            return next;
        }
    }
    return 0;
}

static void sent_put(struct bulk *bulk, uint64_t series, uint64_t next)
{
    struct bulk_sent *set = bulk->sent[series % BULK_SENT_SETS];
    memmove(set + 1, set, (BULK_SENT_WAYS - 1) * sizeof *set);
    set[0] = (struct bulk_sent){.series = series, .next = next};
}

static void cursor_end(struct bulk *bulk, struct bulk_cursor *cursor)
{
    sent_put(bulk, hash_of(cursor->node, cursor->prefix, cursor->prefix_bytes), cursor->next);
    bulk->cursor_count -= cursor->waits == 0;
    *cursor = (struct bulk_cursor){0};
}

/* Ends a cursor although its peer lacks entries; a later cursor goes on where this one was. */
static void cursor_forget(struct bulk *bulk, struct bulk_cursor *cursor)
{
    CHECK(!cursor->asked); /* an open question would take the next cursor in this place for its own */
    cursor_end(bulk, cursor);
    bulk_count(bulk, &bulk->statistics.forgotten, 1);
}

static struct bulk_cursor *cursor_find(struct bulk *bulk, node_id node, const struct bulk_command *command)
{
    struct bulk_cursor *free_one = NULL;
    for (int i = 0; i < BULK_CURSORS_MAX; i++) {
        struct bulk_cursor *cursor = &bulk->cursors[i];
        if (!cursor->used) {
            free_one = cursor;
        } else if (node_id_equal(cursor->node, node) && cursor->prefix_bytes == command->prefix_bytes &&
                   memcmp(cursor->prefix, command->prefix, cursor->prefix_bytes) == 0) {
            return cursor;
        }
    }
    return free_one;
}

/* Frees the place of the cursor that has waited for its peer the longest: that peer may never come. NULL: none waits. */
static struct bulk_cursor *cursor_displace(struct bulk *bulk)
{
    struct bulk_cursor *longest = NULL;
    for (int i = 0; i < BULK_CURSORS_MAX; i++) {
        struct bulk_cursor *cursor = &bulk->cursors[i];
        if (cursor->used && cursor->waits != 0 && (longest == NULL || cursor->waits < longest->waits)) {
            longest = cursor;
        }
    }
    if (longest != NULL) {
        cursor_forget(bulk, longest);
    }
    return longest;
}

/* A new entry is on this disk, and `node` shall get it, as soon as its address is known. */
static void cursor_note(struct bulk *bulk, node_id node, const struct bulk_command *command)
{
    if (node_id_equal(node, bulk->self)) {
        return;
    }
    bool is_known = bulk_link_peer(bulk, node) != NULL;
    struct bulk_cursor *cursor = cursor_find(bulk, node, command);
    uint64_t sequence = command->sequence;
    if (cursor == NULL && is_known) {
        cursor = cursor_displace(bulk);
    }
    if (cursor == NULL) {
        bulk_count(bulk, &bulk->statistics.forgotten, 1);
        return;
    }
    if (!cursor->used) {
        uint64_t next = sent_take(bulk, hash_of(node, command->prefix, command->prefix_bytes));
        *cursor = (struct bulk_cursor){.used = true, .node = node, .prefix_bytes = command->prefix_bytes,
                                       .next = next < sequence ? next : sequence,
                                       .waits = is_known ? 0 : ++bulk->last_wait};
        memcpy(cursor->prefix, command->prefix, command->prefix_bytes);
        bulk->cursor_count += is_known;
        return;
    }
    if (cursor->asked && sequence <= cursor->sent_last && (!cursor->rewound || sequence < cursor->rewound_to)) {
        cursor->rewound = true;
        cursor->rewound_to = sequence;
    }
    if (sequence < cursor->next) {
        cursor->next = sequence;
    }
}

static void cursor_answer(struct bulk *bulk, struct bulk_cursor *cursor, const struct bulk_message *message, int code)
{
    cursor->asked = false;
    if (message == NULL && code == ERR_NOT_FOUND) { /* no entry is left to send */
        cursor_end(bulk, cursor);
        return;
    }
    if (message == NULL || message->kind != BULK_STATUS || message->status != BULK_STORED) {
        bool full = message != NULL && message->kind == BULK_STATUS && message->status == BULK_FULL;
        cursor->not_before_ms = bulk->now_ms + (full ? BULK_RETRY_FULL_MS : BULK_RETRY_MS);
        return;
    }
    uint64_t last;
    if (cursor->rewound) {
        cursor->next = cursor->rewound_to;
        return;
    }
    bool is_last = cursor->sent_last == UINT64_MAX ||
                   series_last(bulk->chunks, cursor->prefix, cursor->prefix_bytes, &last) != 0 || last <= cursor->sent_last;
    cursor->next = cursor->sent_last == UINT64_MAX ? UINT64_MAX : cursor->sent_last + 1;
    if (is_last) {
        cursor_end(bulk, cursor);
    }
}

static unsigned appends_asked(const struct bulk *bulk, node_id node)
{
    unsigned asked = 0;
    for (int i = 0; i < BULK_CURSORS_MAX; i++) {
        asked += bulk->cursors[i].used && bulk->cursors[i].asked && node_id_equal(bulk->cursors[i].node, node);
    }
    return asked;
}

static void cursors_pump(struct bulk *bulk)
{
    static const hash256 none = {{0}};
    for (uint32_t i = 0; i < BULK_CURSORS_MAX && bulk->cursor_count > 0; i++) {
        struct bulk_cursor *cursor = &bulk->cursors[i];
        if (cursor->used && cursor->waits == 0 && !cursor->asked && cursor->not_before_ms <= bulk->now_ms &&
            appends_asked(bulk, cursor->node) < APPENDS_PER_PEER) {
            cursor->asked = bulk_link_ask(bulk, NULL, BULK_APPEND, cursor->node, none, i);
            cursor->sent_last = 0;
        }
    }
}

/* Tells the result of the appends from `first` to before `end`: one event, which stands for all of them. */
static void tell_appended(struct bulk *bulk, struct bulk_command *first, const struct bulk_command *end, int code)
{
    struct bulk_command *last = NULL;
    for (; first != end; first = first->next) {
        last = first->event != NULL ? first : last;
    }
    if (last == NULL) {
        return;
    }
    struct bulk_event_node *node = last->event;
    last->event = NULL;
    node->event.kind = BULK_APPENDED;
    node->event.id = last->id;
    node->event.code = code;
    (void)snprintf(node->event.text, sizeof node->event.text, "%s%s", code != 0 ? "It cannot be stored on this node: " : "",
                   code != 0 ? err_text(code) : "");
    bulk_event_put(bulk, node);
}

void bulk_jobs_append(struct bulk *bulk, struct bulk_command *first)
{
    while (first != NULL) {
        struct series_entry entries[ENTRIES_PER_STEP];
        size_t count = 0;
        struct bulk_command *end = first;
        for (; end != NULL && count < ENTRIES_PER_STEP; end = end->next) {
            entries[count++] = (struct series_entry){.prefix = end->prefix, .prefix_bytes = end->prefix_bytes,
                                                     .sequence = end->sequence, .bytes = end->bytes,
                                                     .count = end->byte_count};
        }
        int code = bulk_series_store(bulk, entries, count);
        tell_appended(bulk, first, end, code);
        for (; first != end; first = first->next) {
            for (uint32_t i = 0; i < first->node_count && code == 0; i++) {
                cursor_note(bulk, first->nodes[i], first);
            }
        }
    }
}

/* ---- all ---- */

void bulk_jobs_command(struct bulk *bulk, struct bulk_command *command)
{
    struct bulk_job *job = command->job;
    job->next = NULL;
    if (command->kind == BULK_DO_READ && node_id_equal(command->nodes[0], bulk->self)) {
        read_start(bulk, job); /* reads this disk at once, behind no other request */
        bulk_job_free(job);
        return;
    }
    *bulk->waiting_end = job;
    bulk->waiting_end = &job->next;
}

void bulk_jobs_answer(struct bulk *bulk, const struct bulk_question *question, const struct bulk_message *message, int code)
{
    if (question->kind == BULK_APPEND) {
        cursor_answer(bulk, &bulk->cursors[question->index], message, code);
        return;
    }
    struct bulk_job *job = question->job;
    CHECK(!job->finished); /* the questions of a finished job are forgotten */
    switch (job->command->kind) {
    case BULK_DO_FETCH:
        fetch_answer(bulk, job, question, message);
        break;
    case BULK_DO_PUSH:
        push_answer(bulk, job, question, message, code);
        break;
    case BULK_DO_VERIFY:
        verify_answer(bulk, job, question, message, code);
        break;
    default:
        read_answer(bulk, job, question, message, code);
        break;
    }
}

void bulk_jobs_peer_known(struct bulk *bulk, node_id node)
{
    for (int i = 0; i < BULK_CURSORS_MAX; i++) {
        struct bulk_cursor *cursor = &bulk->cursors[i];
        if (cursor->used && cursor->waits != 0 && node_id_equal(cursor->node, node)) {
            cursor->waits = 0;
            bulk->cursor_count++;
        }
    }
}

void bulk_jobs_peer_gone(struct bulk *bulk, node_id node)
{
    for (int i = 0; i < BULK_CURSORS_MAX; i++) {
        if (bulk->cursors[i].used && node_id_equal(bulk->cursors[i].node, node)) {
            cursor_forget(bulk, &bulk->cursors[i]); /* its question has ended before */
        }
    }
    for (struct bulk_job *job = bulk->active; job != NULL; job = job->next) {
        if (job->command->kind == BULK_DO_FETCH && job->state == BULK_JOB_CHUNKS) {
            (void)blob_fetch_holder_gone(&job->fetch, node);
        } else if (job->command->kind != BULK_DO_FETCH && node_id_equal(job->command->nodes[0], node)) {
            job_finish_peer(bulk, job, node, NULL, ERR_CLOSED); /* the job could not ask anything yet */
        }
    }
}

static void job_step(struct bulk *bulk, struct bulk_job *job)
{
    if (job->state == BULK_JOB_START) {
        if (job->command->kind == BULK_DO_FETCH) {
            fetch_start(bulk, job);
        } else if (job->command->kind == BULK_DO_PUSH) {
            push_start(bulk, job);
        } else if (job->command->kind == BULK_DO_VERIFY) {
            verify_start(bulk, job);
        } else {
            read_start(bulk, job);
        }
    }
    if (!job->finished && job->state == BULK_JOB_MANIFEST) {
        fetch_manifest(bulk, job);
    }
    if (!job->finished && job->state == BULK_JOB_CHUNKS) {
        if (job->command->kind == BULK_DO_FETCH) {
            fetch_chunks(bulk, job);
        } else if (job->command->kind == BULK_DO_VERIFY) {
            verify_self(bulk, job);
        } else {
            push_chunks(bulk, job);
        }
    }
}

/* A push, a series fetch or a check waits while its peer is busy, or a dead peer would take all places. A fetch can
 * turn to other holders. Checks take long and nothing depends on them, so they leave most places free. */
static bool job_may_start(const struct bulk *bulk, const struct bulk_job *job)
{
    unsigned busy = 0, checks = 0;
    bool checked = false;
    for (const struct bulk_job *each = bulk->active; each != NULL && job->command->kind != BULK_DO_FETCH; each = each->next) {
        bool same = each->command->kind != BULK_DO_FETCH &&
                    node_id_equal(each->command->nodes[0], job->command->nodes[0]);
        bool check = each->command->kind == BULK_DO_VERIFY;
        busy += same;
        checks += check;
        checked = checked || (check && same);
    }
    return busy < BULK_ACTIVE_PEER &&
           (job->command->kind != BULK_DO_VERIFY || (checks < BULK_VERIFY_ACTIVE && !checked));
}

static void jobs_start(struct bulk *bulk)
{
    struct bulk_job **at = &bulk->waiting;
    while (*at != NULL && bulk->active_count < BULK_ACTIVE_MAX) {
        struct bulk_job *job = *at;
        if (!job_may_start(bulk, job)) {
            at = &job->next;
            continue;
        }
        *at = job->next;
        if (*at == NULL) {
            bulk->waiting_end = at;
        }
        struct bulk_job **end = &bulk->active; /* behind older jobs, so that the older ones ask first */
        while (*end != NULL) {
            end = &(*end)->next;
        }
        job->next = NULL;
        *end = job;
        bulk->active_count++;
    }
}

void bulk_jobs_pump(struct bulk *bulk)
{
    jobs_start(bulk);
    for (struct bulk_job **at = &bulk->active; *at != NULL;) {
        struct bulk_job *job = *at;
        if (!job->finished) {
            job_step(bulk, job);
        }
        if (job->finished) {
            *at = job->next;
            bulk->active_count--;
            bulk->again |= bulk->waiting != NULL; /* jobs_start has run already in this turn, and nothing else would wake
                                                     the thread */
            bulk_job_free(job);
        } else {
            at = &job->next;
        }
    }
    cursors_pump(bulk);
}

void bulk_jobs_close(struct bulk *bulk)
{
    struct bulk_job *lists[] = {bulk->waiting, bulk->active};
    for (int i = 0; i < 2; i++) {
        while (lists[i] != NULL) {
            struct bulk_job *next = lists[i]->next;
            bulk_job_free(lists[i]);
            lists[i] = next;
        }
    }
    bulk->waiting = bulk->active = NULL;
}
