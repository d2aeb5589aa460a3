/* Messages between nodes as bytes (docs/wire.md, "Messages between nodes"): a version byte, a kind byte, then
 * MessagePack values in a fixed order without names, because pings and their answers are most of the traffic of an idle
 * mesh. */

#include "base/check.h"
#include "base/err.h"
#include "base/pack.h"
#include "gossip/lease.h"
#include "gossip/message.h"

#define HEAD_BYTES 2

/* With a second version, message_encode must choose a version for each peer: version_common. */
_Static_assert(VERSION_OLDEST == VERSION_NEWEST, "message_encode says everything in the one version there is");
#define CODE_LOWEST (-255) /* errors of base/err.h, with room for later ones */

static bool kind_has_lease(enum message_kind kind)
{
    return (kind >= MESSAGE_RESERVE && kind <= MESSAGE_STALE) || kind == MESSAGE_GROUP;
}

static bool kind_has_asking(enum message_kind kind)
{
    return kind == MESSAGE_RESERVE || kind == MESSAGE_RESERVE_ANSWER;
}

static bool kind_has_bytes(enum message_kind kind)
{
    return kind >= MESSAGE_BUCKETS && kind <= MESSAGE_RECORDS;
}

/* The id "none" takes one byte instead of eighteen. */
static void put_node(struct pack_writer *writer, node_id node)
{
    if (node_id_is_none(node)) {
        pack_nil(writer);
    } else {
        pack_bin(writer, node.bytes, NODE_ID_BYTES);
    }
}

static node_id get_node(struct pack_reader *reader)
{
    node_id node = {{0}};
    if (pack_peek(reader) == PACK_NIL) {
        pack_read_nil(reader);
    } else {
        pack_read_bin_exact(reader, node.bytes, NODE_ID_BYTES);
    }
    return node;
}

static void put_swim(struct pack_writer *writer, const struct message *message)
{
    const struct swim_message *swim = &message->u.swim;
    CHECK(swim->rumour_count <= SWIM_RUMOURS_MAX);
    uint8_t hash[16];
    bytes_put_u64(hash, message->hash.words[0]);
    bytes_put_u64(hash + 8, message->hash.words[1]);
    pack_bin(writer, hash, sizeof hash);
    pack_text(writer, message->address);
    pack_u64(writer, (uint64_t)swim->kind);
    put_node(writer, swim->target);
    pack_u64(writer, swim->sequence);
    pack_u64(writer, swim->incarnation);
    pack_array(writer, swim->rumour_count);
    for (uint8_t i = 0; i < swim->rumour_count; i++) {
        pack_array(writer, 4);
        put_node(writer, swim->rumours[i].node);
        pack_u64(writer, swim->rumours[i].incarnation);
        pack_u64(writer, (uint64_t)swim->rumours[i].state);
        put_node(writer, swim->rumours[i].from);
    }
}

/* An address is logged and passed on: only printable chars, no spaces. */
static void get_address(struct pack_reader *reader, char *out, size_t size)
{
    pack_read_text_copy(reader, out, size);
    for (size_t i = 0; !reader->failed && out[i] != '\0'; i++) {
        reader->failed = out[i] <= ' ' || out[i] > '~';
    }
}

static uint64_t get_incarnation(struct pack_reader *reader)
{
    return pack_read_u64_max(reader, SWIM_INCARNATION_MAX - 1);
}

static void get_rumour(struct pack_reader *reader, struct swim_rumour *rumour)
{
    if (pack_read_array(reader) != 4) {
        reader->failed = true;
    }
    rumour->node = get_node(reader);
    rumour->incarnation = get_incarnation(reader);
    rumour->state = (enum swim_state)pack_read_u64_max(reader, SWIM_LEFT);
    rumour->from = get_node(reader);
    if (rumour->state == SWIM_UNKNOWN || node_id_is_none(rumour->node)) {
        reader->failed = true;
    }
}

static void get_swim(struct pack_reader *reader, struct message *message)
{
    struct swim_message *swim = &message->u.swim;
    uint8_t hash[16] = {0};
    pack_read_bin_exact(reader, hash, sizeof hash);
    message->hash.words[0] = bytes_get_u64(hash);
    message->hash.words[1] = bytes_get_u64(hash + 8);
    get_address(reader, message->address, sizeof message->address);
    swim->kind = (enum swim_kind)pack_read_u64_max(reader, SWIM_NACK);
    swim->target = get_node(reader);
    swim->sequence = (uint32_t)pack_read_u64_max(reader, UINT32_MAX);
    swim->incarnation = get_incarnation(reader);
    uint32_t rumour_count = pack_read_array(reader);
    if (swim->kind < SWIM_PING || rumour_count > SWIM_RUMOURS_MAX) {
        reader->failed = true;
        return;
    }
    swim->rumour_count = (uint8_t)rumour_count;
    for (uint32_t i = 0; i < rumour_count && !reader->failed; i++) {
        get_rumour(reader, &swim->rumours[i]);
    }
}

static void put_lease(struct pack_writer *writer, const struct message *message)
{
    static const uint8_t no_key[MESSAGE_KEY_BYTES];
    const attempt_id *attempt = &message->u.lease.attempt;
    pack_bin(writer, attempt->experiment.bytes, EXPERIMENT_ID_BYTES);
    pack_u64(writer, attempt->trial);
    pack_u64(writer, attempt->number);
    pack_u64(writer, attempt->term);
    put_node(writer, attempt->coordinator);
    pack_u64(writer, message->u.lease.slot);
    pack_u64(writer, kind_has_asking(message->kind) ? message->u.lease.asking : message->u.lease.rank);
    pack_u64(writer, message->u.lease.priority);
    pack_u64(writer, message->kind == MESSAGE_GROUP ? message->u.lease.generation : message->u.lease.age);
    pack_i64(writer, message->u.lease.code);
    pack_u64(writer, message->u.lease.claim.term);
    put_node(writer, message->u.lease.claim.node);
    if (memcmp(message->u.lease.group_key, no_key, sizeof no_key) == 0) {
        pack_nil(writer);
    } else {
        pack_bin(writer, message->u.lease.group_key, MESSAGE_KEY_BYTES);
    }
}

static void get_lease(struct pack_reader *reader, struct message *message)
{
    attempt_id *attempt = &message->u.lease.attempt;
    pack_read_bin_exact(reader, attempt->experiment.bytes, EXPERIMENT_ID_BYTES);
    attempt->trial = (uint32_t)pack_read_u64_max(reader, UINT32_MAX);
    attempt->number = (uint32_t)pack_read_u64_max(reader, UINT32_MAX);
    attempt->term = pack_read_u64(reader);
    attempt->coordinator = get_node(reader);
    message->u.lease.slot = (uint32_t)pack_read_u64_max(reader, LEASE_SLOTS_MAX - 1);
    uint32_t rank = (uint32_t)pack_read_u64_max(reader, UINT16_MAX);
    message->u.lease.rank = kind_has_asking(message->kind) ? 0 : rank;
    message->u.lease.asking = kind_has_asking(message->kind) ? (uint16_t)rank : 0;
    message->u.lease.priority = (uint32_t)pack_read_u64_max(reader, UINT32_MAX);
    if (message->kind == MESSAGE_GROUP) {
        message->u.lease.generation = (uint32_t)pack_read_u64_max(reader, UINT32_MAX);
    } else {
        message->u.lease.age = pack_read_u64(reader);
    }
    int64_t code = pack_read_i64(reader);
    message->u.lease.claim.term = pack_read_u64(reader);
    message->u.lease.claim.node = get_node(reader);
    if (pack_peek(reader) == PACK_NIL) {
        pack_read_nil(reader);
    } else {
        pack_read_bin_exact(reader, message->u.lease.group_key, MESSAGE_KEY_BYTES);
    }
    if (code > 0 || code < CODE_LOWEST) {
        reader->failed = true;
        return;
    }
    message->u.lease.code = (int32_t)code;
}

static void put_twin(struct pack_writer *writer, const struct message *message)
{
    pack_u64(writer, message->u.twin.life);
    pack_bool(writer, message->u.twin.is_yielding);
    pack_text(writer, message->u.twin.address);
}

static void get_twin(struct pack_reader *reader, struct message *message)
{
    message->u.twin.life = pack_read_u64(reader);
    message->u.twin.is_yielding = pack_read_bool(reader);
    get_address(reader, message->u.twin.address, sizeof message->u.twin.address);
}

static void put_stored(struct pack_writer *writer, const struct message *message)
{
    pack_bin(writer, message->u.stored.ident.bytes, sizeof message->u.stored.ident.bytes);
    pack_u64(writer, message->u.stored.version.boot);
    pack_u64(writer, message->u.stored.version.seq);
}

static void get_stored(struct pack_reader *reader, struct message *message)
{
    pack_read_bin_exact(reader, message->u.stored.ident.bytes, sizeof message->u.stored.ident.bytes);
    message->u.stored.version.boot = pack_read_u64(reader);
    message->u.stored.version.seq = pack_read_u64(reader);
}

static void get_bytes(struct pack_reader *reader, struct message *message)
{
    if (message->kind == MESSAGE_RECORDS) {
        message->want_stored = pack_read_bool(reader);
    }
    size_t count = 0;
    message->bytes = pack_read_bin(reader, &count);
    message->byte_count = (uint32_t)count;
}

size_t message_encode(const struct message *message, uint8_t *out, size_t capacity)
{
    CHECK(message->kind >= MESSAGE_SWIM && message->kind < MESSAGE_KINDS);
    if (capacity < HEAD_BYTES) {
        return 0;
    }
    out[0] = VERSION_NEWEST;
    out[1] = (uint8_t)message->kind;
    size_t room = (capacity < MESSAGE_BYTES_MAX ? capacity : MESSAGE_BYTES_MAX) - HEAD_BYTES;
    struct pack_writer writer;
    pack_writer_init(&writer, out + HEAD_BYTES, room);
    pack_u64(&writer, message->boot);
    if (message->kind == MESSAGE_SWIM) {
        put_swim(&writer, message);
    } else if (kind_has_bytes(message->kind)) {
        if (message->kind == MESSAGE_RECORDS) {
            pack_bool(&writer, message->want_stored);
        }
        pack_bin(&writer, message->bytes, message->byte_count);
    } else if (message->kind == MESSAGE_STORED) {
        put_stored(&writer, message);
    } else if (kind_has_lease(message->kind)) {
        put_lease(&writer, message);
    } else if (message->kind == MESSAGE_TWIN) {
        put_twin(&writer, message);
    } else {
        put_node(&writer, message->u.incumbent.about);
        pack_bool(&writer, message->u.incumbent.hears);
    }
    return writer.failed ? 0 : HEAD_BYTES + writer.used_bytes;
}

uint32_t message_version(const uint8_t *bytes, size_t count)
{
    return count > 0 ? bytes[0] : 0;
}

int message_decode(const uint8_t *bytes, size_t count, struct message *out)
{
    return message_decode_as(version_ours(), bytes, count, out);
}

int message_decode_as(struct version_range speaks, const uint8_t *bytes, size_t count, struct message *out)
{
    if (count == 0 || count > MESSAGE_BYTES_MAX) {
        return ERR_MALFORMED;
    }
    if (!version_is_spoken(speaks, message_version(bytes, count))) {
        return ERR_VERSION; /* whatever the other bytes are */
    }
    if (count < HEAD_BYTES) {
        return ERR_MALFORMED;
    }
    if (bytes[1] < MESSAGE_SWIM || bytes[1] >= MESSAGE_KINDS) {
        return ERR_VERSION;
    }
    struct message message;
    memset(&message, 0, sizeof message);
    message.kind = (enum message_kind)bytes[1];
    struct pack_reader reader;
    pack_reader_init(&reader, bytes + HEAD_BYTES, count - HEAD_BYTES);
    message.boot = pack_read_u64(&reader);
    if (message.kind == MESSAGE_SWIM) {
        get_swim(&reader, &message);
    } else if (kind_has_bytes(message.kind)) {
        get_bytes(&reader, &message);
    } else if (message.kind == MESSAGE_STORED) {
        get_stored(&reader, &message);
    } else if (kind_has_lease(message.kind)) {
        get_lease(&reader, &message);
    } else if (message.kind == MESSAGE_TWIN) {
        get_twin(&reader, &message);
    } else {
        message.u.incumbent.about = get_node(&reader);
        message.u.incumbent.hears = pack_read_bool(&reader);
    }
    if (!pack_at_end(&reader)) {
        return ERR_MALFORMED;
    }
    *out = message;
    return 0;
}
