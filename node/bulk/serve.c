/* Answers the questions of peers: chunks in turn as buffers and bandwidth allow, checks one after the other in between,
 * all other questions at once. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "node/bulk/state.h"

#define ANSWERS_PER_TURN 16
#define TAKE_MAX 4096     /* messages taken from libzmq at a time */
#define LETTER_BYTES 512u /* memory that a letter takes beside its frames */
/* Room reserved for each member: one message of any size. More comes from the room that all members share. */
#define OWN_BYTES (BULK_WIRE_BODY_BYTES_MAX + BULK_WIRE_HEAD_BYTES_MAX + LETTER_BYTES)
#define TELL_MS 3000 /* how often waiting peers are told to wait */
_Static_assert(ZAP_KEYS_MAX <= QUOTA_SENDERS_MAX, "each key has its quota");

static bool letter_read(struct bulk *bulk, struct bulk_letter *letter)
{
    letter->frames = 0;
    for (;;) {
        zmq_msg_t extra, *into = letter->frames < 3 ? &letter->parts[letter->frames] : &extra;
        (void)zmq_msg_init(into);
        if (zmq_msg_recv(into, bulk->router, ZMQ_DONTWAIT) < 0) {
            (void)zmq_msg_close(into);
            return letter->frames > 0;
        }
        bool more = zmq_msg_more(into) != 0;
        if (into == &extra) {
            (void)zmq_msg_close(into);
        }
        letter->frames++;
        if (!more) {
            return true;
        }
    }
}

static void letter_free(struct bulk_letter *letter)
{
    for (int i = 0; i < letter->frames && i < 3; i++) {
        (void)zmq_msg_close(&letter->parts[i]);
    }
    free(letter);
}

/* With ZMQ_ROUTER_MANDATORY the first frame fails if the peer is gone or takes no more; nothing is sent then. */
static bool address(struct bulk *bulk, const void *routing_id, size_t bytes)
{
    return zmq_send(bulk->router, routing_id, bytes, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0;
}

static void reply(struct bulk *bulk, struct bulk_letter *letter, const struct bulk_message *message)
{
    if (address(bulk, zmq_msg_data(&letter->parts[0]), zmq_msg_size(&letter->parts[0]))) {
        (void)bulk_link_send(bulk->router, message);
        bulk_link_spend(bulk, message->body_bytes);
        bulk_count_sent(bulk, letter->from.node, message->body_bytes);
    }
}

static void reply_status(struct bulk *bulk, struct bulk_letter *letter, uint32_t tag, uint8_t status)
{
    reply(bulk, letter, &(struct bulk_message){.kind = BULK_STATUS, .tag = tag, .status = status});
}

static uint8_t status_of(int code)
{
    switch (code) {
    case 0:
        return BULK_STORED;
    case ERR_NO_SPACE:
        return BULK_FULL;
    case ERR_NOT_FOUND:
        return BULK_MISSING;
    case ERR_CORRUPT:
        return BULK_DAMAGED;
    default:
        return BULK_FAILED;
    }
}

/* ---- chunks ---- */

static struct bulk_serve *serve_at(struct bulk *bulk, uint32_t position)
{
    return &bulk->serves[(bulk->serve_first + position) % BULK_SERVE_MAX];
}

static uint8_t serve_enqueue(struct bulk *bulk, struct bulk_letter *letter, const struct bulk_message *message)
{
    size_t bytes = zmq_msg_size(&letter->parts[0]);
    if (bytes > BULK_ROUTING_ID_BYTES) {
        return BULK_FAILED;
    }
    uint64_t owner = bytes_hash64(zmq_msg_data(&letter->parts[0]), bytes, 2);
    unsigned owned = 0;
    for (uint32_t i = 0; i < bulk->serve_count; i++) {
        owned += serve_at(bulk, i)->used && serve_at(bulk, i)->owner == owner;
    }
    if (bulk->serve_count == BULK_SERVE_MAX || owned >= BULK_SERVE_PEER) {
        return BULK_BUSY;
    }
    struct bulk_serve *serve = serve_at(bulk, bulk->serve_count++);
    *serve = (struct bulk_serve){.used = true, .routing_id_bytes = bytes, .owner = owner, .from = letter->from.node,
                                 .tag = message->tag, .hash = message->hash, .told_ms = bulk->now_ms};
    memcpy(serve->routing_id, zmq_msg_data(&letter->parts[0]), bytes);
    return BULK_WAIT;
}

static void serve_chunk(struct bulk *bulk, struct bulk_serve *serve, struct bulk_slot *slot)
{
    uint8_t *buffer;
    size_t count;
    int code = bulk_chunk_read(bulk, serve->hash, &buffer, &count);
    if (!address(bulk, serve->routing_id, serve->routing_id_bytes)) {
        if (code == 0) {
            bulk_unmap(buffer);
        }
        return;
    }
    if (code == 0) {
        struct bulk_message head = {.kind = BULK_DATA, .tag = serve->tag};
        (void)bulk_pool_send(bulk, bulk->router, serve->from, slot, &head, buffer, count);
        return;
    }
    struct bulk_message status = {.kind = BULK_STATUS, .tag = serve->tag, .status = status_of(code)};
    (void)bulk_link_send(bulk->router, &status);
}

/* Sends a status. False: the peer is gone. */
static bool tell_status(struct bulk *bulk, const uint8_t *routing_id, size_t routing_id_bytes, uint32_t tag, uint8_t status)
{
    struct bulk_message message = {.kind = BULK_STATUS, .tag = tag, .status = status};
    return address(bulk, routing_id, routing_id_bytes) && bulk_link_send(bulk->router, &message);
}

static void serve_pump(struct bulk *bulk)
{
    for (uint32_t i = 0; i < bulk->serve_count; i++) {
        struct bulk_serve *serve = serve_at(bulk, i);
        struct bulk_slot *slot = NULL;
        if (serve->used && bulk_link_may_send(bulk)) {
            slot = bulk_pool_slot(bulk, serve->owner);
        }
        if (slot != NULL) {
            serve_chunk(bulk, serve, slot);
            serve->used = false;
        } else if (serve->used && bulk->now_ms - serve->told_ms >= TELL_MS) {
            serve->told_ms = bulk->now_ms;
            serve->used = tell_status(bulk, serve->routing_id, serve->routing_id_bytes, serve->tag, BULK_WAIT);
        }
    }
    while (bulk->serve_count > 0 && !serve_at(bulk, 0)->used) {
        bulk->serve_first = (bulk->serve_first + 1) % BULK_SERVE_MAX;
        bulk->serve_count--;
    }
}

/* ---- checks ---- */

static uint8_t check_enqueue(struct bulk *bulk, struct bulk_letter *letter, const struct bulk_message *message)
{
    size_t bytes = zmq_msg_size(&letter->parts[0]);
    if (bytes > BULK_ROUTING_ID_BYTES) {
        return BULK_FAILED;
    }
    uint64_t owner = bytes_hash64(zmq_msg_data(&letter->parts[0]), bytes, 2);
    unsigned owned = 0;
    for (uint32_t i = 0; i < bulk->check_count; i++) {
        owned += bulk->checks[i].owner == owner;
    }
    if (bulk->check_count == BULK_VERIFY_MAX || owned >= BULK_VERIFY_PEER) {
        return BULK_BUSY;
    }
    struct bulk_serve_check *check = &bulk->checks[bulk->check_count++];
    *check = (struct bulk_serve_check){.routing_id_bytes = bytes, .owner = owner, .tag = message->tag,
                                       .check.hash = message->hash, .told_ms = bulk->now_ms};
    memcpy(check->routing_id, zmq_msg_data(&letter->parts[0]), bytes);
    return BULK_WAIT;
}

static void check_remove(struct bulk *bulk, uint32_t index)
{
    CHECK(index < bulk->check_count);
    bulk_check_close(&bulk->checks[index].check);
    bulk->check_count--;
    memmove(&bulk->checks[index], &bulk->checks[index + 1], (bulk->check_count - index) * sizeof bulk->checks[0]);
}

/* One reading answers every peer that has asked about the blob meanwhile: all nodes may check the same blob. */
static void answer_all(struct bulk *bulk, hash256 hash, uint8_t status)
{
    for (uint32_t i = 0; i < bulk->check_count;) {
        struct bulk_serve_check *check = &bulk->checks[i];
        if (hash256_equal(check->check.hash, hash)) {
            (void)tell_status(bulk, check->routing_id, check->routing_id_bytes, check->tag, status);
            check_remove(bulk, i);
        } else {
            i++;
        }
    }
}

/* Checks one chunk of the first check per turn, so that a question for a chunk waits for one read at most. */
static void checks_pump(struct bulk *bulk)
{
    if (bulk->check_count == 0) {
        return;
    }
    struct bulk_serve_check *first = &bulk->checks[0];
    int code = bulk_check_step(bulk, &first->check);
    if (code != ERR_AGAIN) {
        answer_all(bulk, first->check.hash, status_of(code));
    }
    for (uint32_t i = 0; i < bulk->check_count;) {
        struct bulk_serve_check *check = &bulk->checks[i];
        bool gone = false;
        if (bulk->now_ms - check->told_ms >= TELL_MS) {
            check->told_ms = bulk->now_ms;
            gone = !tell_status(bulk, check->routing_id, check->routing_id_bytes, check->tag, BULK_WAIT);
        }
        if (gone) {
            check_remove(bulk, i);
        } else {
            i++;
        }
    }
    bulk->again = bulk->again || bulk->check_count > 0;
}

void bulk_serve_pump(struct bulk *bulk)
{
    serve_pump(bulk);
    checks_pump(bulk);
}

/* ---- all other questions ---- */

/* A stored manifest means that the whole blob is stored. So ERR_NOT_FOUND: these bytes are a manifest, and some of its
 * chunks never came or were collected since. (A chunk of data that happens to read as a manifest is refused, too; that
 * does not occur by chance.) */
static int check_manifest(struct bulk *bulk, const uint8_t *bytes, size_t count)
{
    uint32_t chunk_count;
    uint64_t total_bytes;
    struct blob_manifest manifest;
    if (blob_decode_counts(bytes, count, &chunk_count, &total_bytes) != 0) {
        return 0;
    }
    struct blob_chunk *chunks = calloc(chunk_count + 1u, sizeof *chunks);
    if (chunks == NULL) {
        return ERR_MEMORY;
    }
    CHECK(blob_decode(bytes, count, chunks, chunk_count, &manifest) == 0);
    bool is_whole = chunks_has_all(bulk->chunks, &manifest);
    free(chunks);
    return is_whole ? 0 : ERR_NOT_FOUND;
}

static void serve_put(struct bulk *bulk, struct bulk_letter *letter, const struct bulk_message *message)
{
    int code = check_manifest(bulk, message->body, message->body_bytes);
    if (code == 0) {
        code = bulk_store_result(bulk, chunks_put(bulk->chunks, message->hash, message->body, message->body_bytes));
    }
    reply_status(bulk, letter, message->tag, status_of(code == ERR_USAGE ? ERR_CORRUPT : code));
}

static void serve_has(struct bulk *bulk, struct bulk_letter *letter, const struct bulk_message *message)
{
    uint8_t bits[BULK_WIRE_HAS_MAX / 8] = {0};
    for (uint32_t i = 0; i < message->hash_count; i++) {
        hash256 hash;
        memcpy(hash.bytes, message->hashes + (size_t)i * HASH_BYTES, HASH_BYTES);
        if (chunks_has(bulk->chunks, hash)) {
            bits[i / 8] |= (uint8_t)(1u << (i % 8));
        }
    }
    reply(bulk, letter, &(struct bulk_message){.kind = BULK_HELD, .tag = message->tag, .bits = bits,
                                                .bits_bytes = (message->hash_count + 7) / 8});
}

#define ENTRIES_PER_STEP 256

static int entries_store(struct bulk *bulk, const struct bulk_message *message)
{
    struct pack_reader reader;
    pack_reader_init(&reader, message->body, message->body_bytes);
    for (;;) {
        struct series_entry entries[ENTRIES_PER_STEP];
        size_t count = 0;
        const uint8_t *bytes;
        while (count < ENTRIES_PER_STEP &&
               bulk_wire_entry_read(&reader, &entries[count].sequence, &bytes, &entries[count].count)) {
            entries[count].bytes = bytes;
            entries[count].prefix = message->prefix;
            entries[count].prefix_bytes = message->prefix_bytes;
            count++;
        }
        if (count == 0) {
            return 0;
        }
        int code = bulk_series_store(bulk, entries, count);
        if (code != 0) {
            return code;
        }
    }
}

static void serve_read(struct bulk *bulk, struct bulk_letter *letter, const struct bulk_message *message)
{
    uint8_t *buffer = bulk_map();
    if (buffer == NULL) {
        reply_status(bulk, letter, message->tag, BULK_FAILED);
        return;
    }
    struct bulk_message items = {.kind = BULK_ITEMS, .tag = message->tag, .body = buffer};
    size_t most = message->bytes_max < BULK_SERIES_BYTES ? message->bytes_max : BULK_SERIES_BYTES;
    uint64_t last;
    uint32_t count;
    int code = bulk_series_pack(bulk, message->prefix, message->prefix_bytes, message->from_sequence, most, buffer,
                                &items.body_bytes, &last, &count, &items.more);
    if (code == 0) {
        reply(bulk, letter, &items);
    } else {
        reply_status(bulk, letter, message->tag, BULK_FAILED);
    }
    bulk_unmap(buffer);
}

static void serve_ask(struct bulk *bulk, struct bulk_letter *letter, const struct bulk_message *message)
{
    uint8_t *buffer = bulk_map();
    struct bulk_message items = {.kind = BULK_ITEMS, .tag = message->tag, .body = buffer};
    int code = buffer == NULL ? ERR_MEMORY
                              : bulk_series_answer(bulk, message->prefix, message->prefix_bytes, message->from_sequence,
                                                   message->question, message->question_bytes, buffer, &items.body_bytes,
                                                   &items.more);
    if (code == 0) {
        reply(bulk, letter, &items);
    } else {
        bool is_foreign = code == ERR_VERSION || code == ERR_MALFORMED || code == ERR_USAGE;
        reply_status(bulk, letter, message->tag, is_foreign ? BULK_UNKNOWN : BULK_FAILED);
    }
    if (buffer != NULL) {
        bulk_unmap(buffer);
    }
}

static void serve(struct bulk *bulk, struct bulk_letter *letter, const struct bulk_message *message)
{
    switch (message->kind) {
    case BULK_GET:
    case BULK_VERIFY: {
        uint8_t status = message->kind == BULK_GET ? serve_enqueue(bulk, letter, message)
                                                   : check_enqueue(bulk, letter, message);
        if (status != BULK_WAIT) {
            reply_status(bulk, letter, message->tag, status);
        }
        break;
    }
    case BULK_PUT:
        serve_put(bulk, letter, message);
        break;
    case BULK_HAS:
        serve_has(bulk, letter, message);
        break;
    case BULK_APPEND:
        reply_status(bulk, letter, message->tag, status_of(entries_store(bulk, message)));
        break;
    case BULK_READ:
        serve_read(bulk, letter, message);
        break;
    case BULK_ASK:
        serve_ask(bulk, letter, message);
        break;
    case BULK_OPEN:
    case BULK_SEGMENT:
    case BULK_RESET:
        bulk_streams_take(bulk, letter->from.node, zmq_msg_data(&letter->parts[0]), zmq_msg_size(&letter->parts[0]), message);
        return;
    default:
        bulk_count(bulk, &bulk->statistics.malformed, 1); /* an answer, where only questions are expected */
        return;
    }
    bulk_count(bulk, &bulk->statistics.questions, 1);
}

bool bulk_serve_stream_send(struct bulk *bulk, const uint8_t *routing_id, size_t routing_id_bytes, const struct bulk_message *message)
{
    return address(bulk, routing_id, routing_id_bytes) && bulk_link_send(bulk->router, message);
}

/* ---- inbox ---- */

void bulk_serve_open(struct bulk *bulk)
{
    bulk->inbox_end = &bulk->inbox;
    quota_init(&bulk->quota, &(struct quota_options){.messages_max = BULK_INBOX_PEER,
                                                     .bytes_max = BULK_INBOX_PEER_BYTES,
                                                     .own_bytes = OWN_BYTES,
                                                     .shared_bytes_max = BULK_INBOX_BYTES});
}

static int letter_decode(struct bulk_letter *letter, struct bulk_message *out)
{
    zmq_msg_t *head = &letter->parts[1], *body = letter->frames == 3 ? &letter->parts[2] : NULL;
    return bulk_wire_decode(zmq_msg_data(head), zmq_msg_size(head), body != NULL ? zmq_msg_data(body) : NULL,
                            body != NULL ? zmq_msg_size(body) : 0, out);
}

/* True if the letter is a well-formed message of a member; notes the member. Call it while the letter is fresh: later
 * another connection may have the same descriptor. */
static bool letter_accept(struct bulk *bulk, struct bulk_letter *letter)
{
    if (letter->frames < 2 || letter->frames > 3) {
        bulk_count(bulk, &bulk->statistics.malformed, 1);
        return false;
    }
    if (zap_identify(bulk->zap, &letter->parts[1], bulk->port, &letter->from) != 0 || letter->from.kind != ZAP_MEMBER) {
        bulk_count(bulk, &bulk->statistics.refused, 1);
        return false;
    }
    letter->bytes = LETTER_BYTES + zmq_msg_size(&letter->parts[1]) + (letter->frames == 3 ? zmq_msg_size(&letter->parts[2]) : 0);
    return true;
}

/* Tells the member to ask again, if too much of this member or of all members waits already. */
static void inbox_put(struct bulk *bulk, struct bulk_letter *letter)
{
    if (!quota_take(&bulk->quota, letter->from.slot, letter->bytes)) {
        struct bulk_message message;
        int code = letter_decode(letter, &message);
        if (code == 0 || code == ERR_VERSION) {
            reply_status(bulk, letter, message.tag, BULK_BUSY);
        }
        bulk_count(bulk, &bulk->statistics.deferred, 1);
        letter_free(letter);
        return;
    }
    letter->next = NULL;
    *bulk->inbox_end = letter;
    bulk->inbox_end = &letter->next;
}

static struct bulk_letter *inbox_take(struct bulk *bulk)
{
    struct bulk_letter *letter = bulk->inbox;
    if (letter != NULL) {
        bulk->inbox = letter->next;
        bulk->inbox_end = bulk->inbox == NULL ? &bulk->inbox : bulk->inbox_end;
        quota_give(&bulk->quota, letter->from.slot, letter->bytes);
    }
    return letter;
}

/* Takes received messages from libzmq, where they would pile up in a queue without a limit (gossip/socket.c). */
static void inbox_fill(struct bulk *bulk)
{
    for (int i = 0; i < TAKE_MAX; i++) {
        struct bulk_letter *letter = calloc(1, sizeof *letter);
        if (letter == NULL || !letter_read(bulk, letter)) {
            free(letter);
            return;
        }
        bulk->trim = true;
        inflow_brought(&bulk->inflow, zmq_msg_get(&letter->parts[letter->frames > 1], ZMQ_SRCFD));
        if (letter_accept(bulk, letter)) {
            inbox_put(bulk, letter);
        } else {
            letter_free(letter);
        }
    }
    bulk->again = true;
}

static void letter_answer(struct bulk *bulk, struct bulk_letter *letter)
{
    struct bulk_message message;
    if (!zap_admits(bulk->zap, &letter->from)) {
        bulk_count(bulk, &bulk->statistics.refused, 1);
        return;
    }
    int code = letter_decode(letter, &message);
    if (code == ERR_VERSION) {
        reply_status(bulk, letter, message.tag, BULK_UNKNOWN);
    } else if (code != 0) {
        bulk_count(bulk, &bulk->statistics.malformed, 1);
    } else {
        bulk_count_received(bulk, letter->from.node, message.body_bytes);
        serve(bulk, letter, &message);
    }
}

void bulk_serve_receive(struct bulk *bulk)
{
    inbox_fill(bulk);
    for (int i = 0; i < ANSWERS_PER_TURN && bulk->inbox != NULL; i++) {
        struct bulk_letter *letter = inbox_take(bulk);
        letter_answer(bulk, letter);
        letter_free(letter);
        inbox_fill(bulk); /* messages may have come while an answer waited for the disk */
    }
    bulk->again = bulk->again || bulk->inbox != NULL;
}

void bulk_serve_close(struct bulk *bulk)
{
    while (bulk->check_count > 0) {
        check_remove(bulk, bulk->check_count - 1);
    }
    for (struct bulk_letter *letter; (letter = inbox_take(bulk)) != NULL;) {
        letter_free(letter);
    }
}
