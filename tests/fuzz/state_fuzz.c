/* The life of a node core as steps, each u8 kind, u16 length, bytes: what its disk held ('f' a fence, 'r' a record), then what
 * a peer says ('m' a message), with 't' the passing of time (u8 tenths of a second) and 'p' the disk's answers. Whatever
 * comes, the core goes on; what it says can be encoded, and what it stores can be loaded. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "gossip/exchange.h"
#include "node/core/core.h"
#include "node/core/ground/state.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/seed_records.h"

#define CORE_BYTES (8u << 20)
#define TICKETS_MAX 256
#define STEPS_MAX 200

struct life {
    struct node_core *core;
    struct node_effects effects;
    uint64_t now_ms;
    bool started;
    uint64_t tickets[TICKETS_MAX];
    size_t ticket_count;
};

static void look_at_effect(struct life *life, const struct node_effect *effect)
{
    static uint8_t bytes[MESSAGE_BYTES_MAX];
    struct record record;
    switch (effect->kind) {
    case NODE_EFFECT_SEND:
        CHECK(message_encode(&effect->u.send.message, bytes, sizeof bytes) > 0);
        break;
    case NODE_EFFECT_PERSIST_RECORD:
        CHECK(record_decode(effect->bytes, effect->byte_count, &record) == 0);
        break;
    default:
        break;
    }
    if ((effect->kind == NODE_EFFECT_PERSIST_RECORD || effect->kind == NODE_EFFECT_PERSIST_FENCE) &&
        effect->u.persist.ticket != 0 && life->ticket_count < TICKETS_MAX) {
        life->tickets[life->ticket_count++] = effect->u.persist.ticket;
    }
}

static void step(struct life *life, struct node_event *event)
{
    event->now_ms = life->now_ms;
    event->wall_s = 1700000000 + life->now_ms / 1000;
    life->effects.count = 0;
    life->effects.used_bytes = 0;
    node_core_step(life->core, event, &life->effects);
    for (uint32_t i = 0; i < life->effects.count; i++) {
        look_at_effect(life, &life->effects.items[i]);
    }
}

static void start(struct life *life)
{
    if (!life->started) {
        struct node_event event = {.kind = NODE_EVENT_START};
        life->started = true;
        step(life, &event);
    }
}

static void persisted(struct life *life)
{
    uint64_t tickets[TICKETS_MAX];
    size_t count = life->ticket_count;
    memcpy(tickets, life->tickets, count * sizeof tickets[0]);
    life->ticket_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct node_event event = {.kind = NODE_EVENT_PERSISTED};
        event.u.persisted.ticket = tickets[i];
        event.u.persisted.ok = true;
        step(life, &event);
    }
}

static void perform(struct life *life, uint8_t kind, const uint8_t *bytes, uint16_t count)
{
    struct node_event event = {.bytes = bytes, .byte_count = count};
    struct message message;
    if ((kind == 'f' || kind == 'r') && !life->started) {
        event.kind = kind == 'f' ? NODE_EVENT_LOAD_FENCE : NODE_EVENT_LOAD_RECORD;
        step(life, &event);
    } else if (kind == 'm' && message_decode(bytes, count, &message) == 0) {
        start(life);
        event = (struct node_event){.kind = NODE_EVENT_MESSAGE};
        event.u.message.from = make_person(1).id;
        event.u.message.message = &message;
        step(life, &event);
    } else if (kind == 't' && count == 1) {
        start(life);
        life->now_ms += 100 * (uint64_t)bytes[0];
        event.kind = NODE_EVENT_TICK;
        step(life, &event);
    } else if (kind == 'p') {
        persisted(life);
    }
}

void fuzz_one(const uint8_t *data, size_t size)
{
    static struct life life;
    static void *memory;
    if (memory == NULL) {
        memory = aligned_alloc(16, CORE_BYTES);
        life.effects.items = calloc(NODE_EFFECTS_MAX, sizeof *life.effects.items);
        life.effects.bytes = malloc(NODE_EFFECT_BYTES_MAX);
        CHECK(memory != NULL && life.effects.items != NULL && life.effects.bytes != NULL);
    }
    struct person self = make_person(0);
    struct node_options options = {.self = self.id, .mesh = make_mesh(), .boot = 9ull << 32, .now_ms = 1000, .memory = memory,
                                   .wall_s = 1700000000, .memory_bytes = CORE_BYTES, .node = make_node(&self, 2)};
    memcpy(options.public_key, self.public_key, sizeof options.public_key);
    life = (struct life){.core = node_core_init(&options), .effects = life.effects, .now_ms = 1000};
    CHECK(life.core != NULL);
    uint32_t steps = 0;
    for (size_t at = 0; size - at >= 3 && steps < STEPS_MAX; steps++) {
        uint16_t count = bytes_get_u16(data + at + 1);
        if (count > size - at - 3) {
            break;
        }
        perform(&life, data[at], data + at + 3, count);
        at += 3 + (size_t)count;
    }
    start(&life);
    struct node_event event = {.kind = NODE_EVENT_TICK};
    life.now_ms = node_core_next_ms(life.core);
    step(&life, &event);
}

struct steps {
    uint8_t bytes[FUZZ_INPUT_BYTES_MAX];
    size_t count;
};

static void add(struct steps *steps, char kind, const void *bytes, size_t count)
{
    CHECK(steps->count + 3 + count <= sizeof steps->bytes);
    steps->bytes[steps->count] = (uint8_t)kind;
    bytes_put_u16(steps->bytes + steps->count + 1, (uint16_t)count);
    memcpy(steps->bytes + steps->count + 3, bytes, count);
    steps->count += 3 + count;
}

static void add_message(struct steps *steps, const struct message *message)
{
    static uint8_t bytes[MESSAGE_BYTES_MAX];
    add(steps, 'm', bytes, message_encode(message, bytes, sizeof bytes));
}

static void add_records(struct steps *steps, bool from_disk)
{
    static struct made made[SEED_RECORDS_MAX];
    uint32_t count = seed_records_make(made);
    for (uint32_t i = 0; i < count; i++) {
        if (from_disk) {
            add(steps, 'r', made[i].bytes, made[i].count);
        } else {
            struct message message = {.kind = MESSAGE_RECORDS, .boot = 5ull << 32, .want_stored = true, .bytes = made[i].bytes,
                                      .byte_count = made[i].count};
            add_message(steps, &message);
        }
    }
}

static void add_fence(struct steps *steps)
{
    uint8_t bytes[64];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_array(&writer, 3);
    pack_bin(&writer, make_experiment_id(0).bytes, EXPERIMENT_ID_BYTES);
    pack_u64(&writer, 5);
    pack_bin(&writer, make_person(1).id.bytes, NODE_ID_BYTES);
    add(steps, 'f', bytes, writer.used_bytes);
}

static void add_talk(struct steps *steps)
{
    struct person peer = make_person(1);
    for (int kind = SWIM_PING; kind <= SWIM_NACK; kind++) {
        struct message message = {.kind = MESSAGE_SWIM, .boot = 5ull << 32, .address = "b.host:7400", .hash = {{1, 2}}};
        message.u.swim = (struct swim_message){.kind = (enum swim_kind)kind, .target = make_person(0).id, .sequence = 1};
        add_message(steps, &message);
    }
    for (int kind = MESSAGE_RESERVE; kind <= MESSAGE_STALE; kind++) {
        struct message message = {.kind = (enum message_kind)kind, .boot = 5ull << 32};
        message.u.lease.attempt = make_attempt_id(0, 2, 1, 6, peer.id);
        message.u.lease.claim.term = 6;
        message.u.lease.claim.node = peer.id;
        message.u.lease.priority = 42;
        add_message(steps, &message);
        add(steps, 'p', "", 0);
    }
    static const uint8_t buckets[EXCHANGE_BUCKETS_BYTES];
    struct message digest = {.kind = MESSAGE_BUCKETS, .boot = 5ull << 32, .bytes = buckets, .byte_count = sizeof buckets};
    add_message(steps, &digest);
    struct message ask = {.kind = MESSAGE_INCUMBENT_ASK, .boot = 5ull << 32, .u.incumbent = {.about = peer.id}};
    add_message(steps, &ask);
}

void fuzz_seeds(void)
{
    static struct steps steps;
    static const uint8_t second[] = {10}, long_time[] = {255};
    add_records(&steps, true);
    add_fence(&steps);
    add(&steps, 't', second, 1);
    add(&steps, 'p', "", 0);
    add_talk(&steps);
    add(&steps, 't', long_time, 1);
    fuzz_seed(steps.bytes, steps.count);
    steps.count = 0;
    add_fence(&steps);
    add(&steps, 't', second, 1);
    add_records(&steps, false);
    add(&steps, 'p', "", 0);
    add_talk(&steps);
    add(&steps, 't', second, 1);
    fuzz_seed(steps.bytes, steps.count);
}
