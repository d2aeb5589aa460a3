/* Messages between nodes, and the exchange of records by the bytes in them. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "gossip/exchange.h"
#include "gossip/message.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/seed_records.h"
#include "tests/unit/put_envelope.h"

#define TABLE_BYTES (2u << 20)

/* What the receiver holds: never changed by an input, so it is made once. */
static const struct records *table(void)
{
    static struct records records;
    static struct arena arena;
    static struct made made[SEED_RECORDS_MAX];
    static void *memory;
    if (memory == NULL) {
        memory = aligned_alloc(16, TABLE_BYTES);
        CHECK(memory != NULL);
        arena_init(&arena, memory, TABLE_BYTES);
        CHECK(records_init(&records, &arena) == 0);
        uint32_t count = seed_records_make(made);
        for (uint32_t i = 0; i < count; i++) {
            CHECK(put_envelope(&records, made[i].bytes, made[i].count, true, NULL) == 0);
        }
    }
    return &records;
}

static void exchange(const struct message *message)
{
    static uint8_t out[EXCHANGE_MESSAGE_BYTES_MAX], pull[EXCHANGE_MESSAGE_BYTES_MAX];
    size_t out_bytes = 0, pull_bytes = 0;
    record_ident start = {{(uint8_t)(message->boot >> 8)}};
    if (message->kind == MESSAGE_BUCKETS) {
        (void)exchange_on_buckets(table(), message->bytes, message->byte_count, message->boot & 0xff, out, sizeof out, &out_bytes);
    } else if (message->kind == MESSAGE_KEYS) {
        (void)exchange_on_keys(table(), message->bytes, message->byte_count, &start, pull, sizeof pull, &pull_bytes, out,
                               sizeof out, &out_bytes);
    } else if (message->kind == MESSAGE_PULL) {
        (void)exchange_on_pull(table(), message->bytes, message->byte_count, &start, out, sizeof out, &out_bytes);
    }
    CHECK(out_bytes <= sizeof out && pull_bytes <= sizeof pull);
}

/* What decodes must encode again, and the second decoding must agree with the first in its encoding. */
void fuzz_one(const uint8_t *data, size_t size)
{
    static uint8_t first[MESSAGE_BYTES_MAX], second[MESSAGE_BYTES_MAX];
    struct message message, again;
    if (message_decode(data, size, &message) != 0) {
        return;
    }
    exchange(&message);
    size_t first_bytes = message_encode(&message, first, sizeof first);
    CHECK(first_bytes > 0);
    CHECK(message_decode(first, first_bytes, &again) == 0);
    CHECK(message_encode(&again, second, sizeof second) == first_bytes && memcmp(first, second, first_bytes) == 0);
}

static void seed(const struct message *message)
{
    static uint8_t bytes[MESSAGE_BYTES_MAX];
    size_t count = message_encode(message, bytes, sizeof bytes);
    CHECK(count > 0);
    fuzz_seed(bytes, count);
}

static void seed_bytes(enum message_kind kind, const uint8_t *bytes, size_t count)
{
    struct message message = {.kind = kind, .boot = 1ull << 32, .bytes = bytes, .byte_count = (uint32_t)count};
    seed(&message);
}

/* As many rumours as there may be, and one more. */
static void seed_rumours(node_id about)
{
    uint8_t bytes[4096], shorter[4096];
    struct message message = {.kind = MESSAGE_SWIM, .boot = 1ull << 32};
    message.u.swim = (struct swim_message){.kind = SWIM_PING, .target = about, .rumour_count = SWIM_RUMOURS_MAX};
    for (size_t i = 0; i < SWIM_RUMOURS_MAX; i++) {
        message.u.swim.rumours[i] = (struct swim_rumour){.node = about, .state = SWIM_ALIVE};
    }
    size_t count = message_encode(&message, bytes, sizeof bytes - 64);
    message.u.swim.rumour_count--;
    size_t rumour_bytes = count - message_encode(&message, shorter, sizeof shorter);
    CHECK(count > 0 && rumour_bytes < 64);
    fuzz_seed(bytes, count);
    memcpy(bytes + count, bytes + count - rumour_bytes, rumour_bytes);
    bytes[count - SWIM_RUMOURS_MAX * rumour_bytes - 1]++;
    fuzz_seed(bytes, count + rumour_bytes);
}

void fuzz_seeds(void)
{
    static uint8_t buckets[EXCHANGE_BUCKETS_BYTES], keys[EXCHANGE_MESSAGE_BYTES_MAX];
    static struct made made[SEED_RECORDS_MAX];
    struct person a = make_person(0), b = make_person(1);
    for (int kind = SWIM_PING; kind <= SWIM_NACK; kind++) {
        struct message message = {.kind = MESSAGE_SWIM, .boot = 1ull << 32, .address = "a.host:7400"};
        message.u.swim = (struct swim_message){.kind = (enum swim_kind)kind, .target = b.id, .sequence = 7, .incarnation = 2};
        message.u.swim.rumour_count = 1;
        message.u.swim.rumours[0] = (struct swim_rumour){.node = b.id, .incarnation = 3, .state = SWIM_SUSPECT, .from = a.id};
        seed(&message);
    }
    seed_rumours(b.id);
    for (int kind = MESSAGE_RESERVE; kind <= MESSAGE_STALE; kind++) {
        struct message message = {.kind = (enum message_kind)kind, .boot = 1ull << 32};
        message.u.lease.attempt = make_attempt_id(0, 1, 1, 5, a.id);
        message.u.lease.code = kind == MESSAGE_RESERVE_ANSWER ? ERR_FULL : 0;
        message.u.lease.group_key[0] = 1;
        seed(&message);
    }
    struct message stored = {.kind = MESSAGE_STORED, .boot = 1ull << 32};
    struct message incumbent = {.kind = MESSAGE_INCUMBENT_ASK, .boot = 1ull << 32, .u.incumbent = {.about = a.id}};
    seed(&stored);
    seed(&incumbent);
    exchange_buckets(table(), buckets);
    seed_bytes(MESSAGE_BUCKETS, buckets, sizeof buckets);
    memset(buckets, 0, sizeof buckets);
    size_t key_bytes = 0;
    CHECK(exchange_on_buckets(table(), buckets, sizeof buckets, 0, keys, sizeof keys, &key_bytes) == 0 && key_bytes > 0);
    seed_bytes(MESSAGE_KEYS, keys, key_bytes);
    uint32_t count = seed_records_make(made);
    struct record record;
    CHECK(record_decode(made[0].bytes, made[0].count, &record) == 0);
    record_ident ident = record_ident_of(record.writer, record.kind, record.key, record.key_bytes);
    seed_bytes(MESSAGE_PULL, ident.bytes, sizeof ident.bytes);
    seed_bytes(MESSAGE_RECORDS, made[count - 1].bytes, made[count - 1].count);
}
