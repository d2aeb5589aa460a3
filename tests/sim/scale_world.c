#include "tests/sim/scale_world.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/format.h"
#include "node/core/members/members.h"

#define WALL_S 1700000000u
#define WHEEL_MS 16384u /* longer than anything is on its way */
#define INDEX_SLOTS 4096u
#define ARENA_BYTES ((size_t)4 << 30) /* of address space */
#define RTO_MS 200u
#define UNACKNOWLEDGED_MS 3000u
#define RECONNECT_MS 100u
#define EPISODE_MS 60000u

/* TCP and IP heads with time stamps; a full segment; what CURVE puts around a message: "\x07MESSAGE", nonce, MAC, flags. */
#define HEAD_BYTES 52u
#define SEGMENT_BYTES 1448u
#define CURVE_BYTES (8u + 8u + 16u + 1u)

enum scale_event_kind { EVENT_TICK, EVENT_MESSAGE, EVENT_PERSISTED, EVENT_LINK };

struct scale_event {
    struct scale_event *next;
    enum scale_event_kind kind;
    uint32_t node, from;
    uint64_t boots; /* of the node: meant for that life */
    uint64_t ticket;
    struct message message;
    uint8_t *payload;
};

/* Address space only: pages appear as they are used. */
static void *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

/* ---- events: one list for each millisecond to come ---------------------------------------------------------------------- */

static struct scale_event *post(struct scale_world *world, uint64_t at_ms, enum scale_event_kind kind, uint32_t node)
{
    CHECK(at_ms >= world->now_ms && at_ms - world->now_ms < WHEEL_MS);
    struct scale_event *event = arena_take(&world->arena, sizeof *event);
    CHECK(event != NULL);
    event->kind = kind;
    event->node = node;
    event->boots = world->nodes[node].boots;
    struct scale_wheel *slot = &world->wheel[at_ms % WHEEL_MS];
    if (slot->last != NULL) {
        slot->last->next = event;
    } else {
        slot->first = event;
    }
    slot->last = event;
    return event;
}

static void drop(struct scale_world *world, struct scale_event *event)
{
    arena_give(&world->arena, event->payload, event->message.byte_count);
    arena_give(&world->arena, event, sizeof *event);
}

static uint32_t hash(node_id id)
{
    return bytes_get_u32(id.bytes) % INDEX_SLOTS;
}

static uint32_t find(const struct scale_world *world, node_id id)
{
    uint32_t slot = hash(id);
    while (!node_id_equal(world->nodes[world->index[slot]].person.id, id)) {
        slot = (slot + 1) % INDEX_SLOTS;
    }
    return world->index[slot];
}

/* ---- the network --------------------------------------------------------------------------------------------------------- */

static bool is_lost(struct scale_world *world)
{
    return random_below(&world->random, 1000) < world->options.loss_permille;
}

static uint64_t delay_ms(struct scale_world *world)
{
    return 1 + random_below(&world->random, SCALE_DELAY_MS_MAX);
}

static void deliver(struct scale_world *world, uint64_t at_ms, uint32_t from, uint32_t to, const struct message *message)
{
    struct scale_event *event = post(world, at_ms, EVENT_MESSAGE, to);
    event->from = from;
    event->message = *message;
    if (message->byte_count > 0) {
        event->payload = arena_take(&world->arena, message->byte_count);
        CHECK(event->payload != NULL);
        memcpy(event->payload, message->bytes, message->byte_count);
        event->message.bytes = event->payload;
    }
}

static void send_datagram(struct scale_world *world, uint32_t from, uint32_t to, const struct message *message)
{
    if (is_lost(world)) {
        return;
    }
    uint64_t late_ms = random_below(&world->random, 100) == 0 ? random_below(&world->random, 50) : 0;
    deliver(world, world->now_ms + delay_ms(world) + late_ms, from, to, message);
    if (random_below(&world->random, 100) == 0) {
        deliver(world, world->now_ms + delay_ms(world), from, to, message);
    }
}

static void send_stream(struct scale_world *world, uint32_t from, uint32_t to, const struct message *message)
{
    struct scale_link *link = &world->links[(size_t)from * world->options.nodes + to];
    if (world->now_ms < link->down_ms) {
        return;
    }
    uint64_t waited_ms = 0, timeout_ms = RTO_MS;
    while (is_lost(world)) {
        waited_ms += timeout_ms;
        timeout_ms *= 2;
        if (waited_ms >= UNACKNOWLEDGED_MS) {
            uint64_t up_ms = world->now_ms + UNACKNOWLEDGED_MS + RECONNECT_MS;
            while (is_lost(world)) {
                up_ms += 1000; /* a lost SYN */
            }
            link->down_ms = (uint32_t)up_ms;
            link->last_ms = 0;
            return;
        }
    }
    uint64_t at_ms = world->now_ms + waited_ms + delay_ms(world);
    at_ms = at_ms > link->last_ms ? at_ms : link->last_ms;
    link->last_ms = (uint32_t)at_ms;
    deliver(world, at_ms, from, to, message);
}

void scale_wire_bytes(uint32_t encoded_bytes, uint32_t *sent, uint32_t *acknowledged)
{
    uint32_t boxed = encoded_bytes + CURVE_BYTES;
    boxed += boxed <= 255 ? 2 : 9; /* ZMTP */
    uint32_t segments = (boxed + SEGMENT_BYTES - 1) / SEGMENT_BYTES;
    *sent = boxed + segments * HEAD_BYTES;
    *acknowledged = (segments + 1) / 2 * HEAD_BYTES;
}

static void count_bytes(struct scale_world *world, uint32_t from, uint32_t to, const struct message *message)
{
    static uint8_t encoded[MESSAGE_BYTES_MAX];
    size_t count = message_encode(message, encoded, sizeof encoded);
    CHECK(count > 0);
    uint32_t sent, acknowledged;
    scale_wire_bytes((uint32_t)count, &sent, &acknowledged);
    world->nodes[from].sent_messages++;
    world->nodes[from].sent_bytes += sent;
    world->nodes[to].sent_bytes += acknowledged;
}

static void network_send(struct scale_world *world, uint32_t from, const struct node_effect *effect)
{
    uint32_t to = find(world, effect->u.send.to);
    const struct message *message = &effect->u.send.message;
    if (world->counts_bytes) {
        count_bytes(world, from, to, message);
    }
    world->nodes[from].sent_records += message->kind == MESSAGE_RECORDS;
    if (!world->nodes[to].is_up || (world->options.has_no_digests && message->kind == MESSAGE_BUCKETS)) {
        return;
    }
    if (world->options.model == SCALE_STREAM) {
        send_stream(world, from, to, message);
    } else {
        send_datagram(world, from, to, message);
    }
}

/* ---- what nodes believe --------------------------------------------------------------------------------------------------- */

static void believed_dead(struct scale_world *world, uint32_t about)
{
    struct scale_node *observer = &world->nodes[world->stepping];
    struct scale_node *node = &world->nodes[about];
    if (!node->is_up) {
        if ((int)about == world->victim && !observer->knows_death) {
            observer->knows_death = true;
            world->death_first_ms = world->death_count == 0 ? world->now_ms : world->death_first_ms;
            world->death_last_ms = world->now_ms;
            world->death_count++;
        }
        return;
    }
    if (world->now_ms - node->up_since_ms < EPISODE_MS && node->boots > 1) {
        return; /* late news of its last life */
    }
    world->false_observers++;
    world->false_deaths += node->false_death_ms == 0 || world->now_ms - node->false_death_ms >= EPISODE_MS;
    node->false_death_ms = world->now_ms;
}

void scale_observe(struct scale_world *world)
{
    world->suspicions = world->false_deaths = world->false_observers = 0;
    for (uint32_t i = 0; i < world->options.nodes; i++) {
        world->nodes[i].false_death_ms = 0;
    }
}

/* Nodes are named n0, n1, ...; the core says "n7 is dead". */
static void trace_line(void *context, const struct event_about *of, const char *text)
{
    (void)of;
    struct scale_world *world = context;
    uint32_t about = 0;
    const char *at = text + 1;
    if (text[0] != 'n' || *at < '0' || *at > '9') {
        return;
    }
    for (; *at >= '0' && *at <= '9'; at++) {
        about = 10 * about + (uint32_t)(*at - '0');
    }
    if (about >= world->options.nodes) {
        return;
    }
    world->suspicions += strcmp(at, " is suspect") == 0;
    if (strcmp(at, " is dead") == 0) {
        believed_dead(world, about);
    }
}

static void watch_change(struct scale_world *world, struct scale_node *node)
{
    if (world->has_change_under_way && !node->has_change && node->core->records.count >= world->change_records) {
        node->has_change = true;
        world->change_count++;
        world->change_ms = world->now_ms;
    }
}

/* ---- steps ---------------------------------------------------------------------------------------------------------------- */

static void wake(struct scale_world *world, uint32_t number)
{
    struct scale_node *node = &world->nodes[number];
    uint64_t next_ms = node_core_next_ms(node->core);
    next_ms = next_ms > world->now_ms ? next_ms : world->now_ms + 1;
    if (next_ms < node->wake_ms) {
        node->wake_ms = next_ms;
        (void)post(world, next_ms, EVENT_TICK, number);
    }
}

static void step(struct scale_world *world, uint32_t number, struct node_event *event)
{
    struct scale_node *node = &world->nodes[number];
    event->now_ms = world->now_ms;
    event->wall_s = WALL_S + world->now_ms / 1000;
    world->steps++;
    world->stepping = number;
    world->effects.count = 0;
    world->effects.used_bytes = 0;
    node_core_step(node->core, event, &world->effects);
    for (uint32_t i = 0; i < world->effects.count; i++) {
        const struct node_effect *effect = &world->effects.items[i];
        if (effect->kind == NODE_EFFECT_SEND) {
            network_send(world, number, effect);
        } else if (effect->kind == NODE_EFFECT_PERSIST_RECORD || effect->kind == NODE_EFFECT_PERSIST_FENCE) {
            struct scale_event *written = post(world, world->now_ms + SCALE_DISK_MS, EVENT_PERSISTED, number);
            written->ticket = effect->u.persist.ticket;
        } else if (effect->kind == NODE_EFFECT_CHECK_LINK) {
            struct scale_event *checked = post(world, world->now_ms + SCALE_DISK_MS, EVENT_LINK, number);
            checked->from = find(world, effect->u.peer.node);
        }
    }
    watch_change(world, node);
    wake(world, number);
}

static void step_event(struct scale_world *world, struct scale_event *event)
{
    struct scale_node *node = &world->nodes[event->node];
    if (!node->is_up || node->boots != event->boots) {
        return;
    }
    struct node_event core_event = {.kind = NODE_EVENT_TICK};
    if (event->kind == EVENT_TICK) {
        if (node->wake_ms != world->now_ms) {
            return; /* it was wanted earlier, and has been */
        }
        node->wake_ms = UINT64_MAX;
    } else if (event->kind == EVENT_MESSAGE) {
        core_event.kind = NODE_EVENT_MESSAGE;
        core_event.u.message.from = world->nodes[event->from].person.id;
        core_event.u.message.message = &event->message;
    } else if (event->kind == EVENT_LINK) {
        const struct scale_node *peer = &world->nodes[event->from];
        core_event.kind = NODE_EVENT_LINK; /* each node has one address */
        core_event.u.link.peer = peer->person.id;
        core_event.u.link.reached = core_event.u.link.open = peer->is_up;
        core_event.u.link.round_trip_us = 500;
    } else {
        core_event.kind = NODE_EVENT_PERSISTED;
        core_event.u.persisted.ticket = event->ticket;
        core_event.u.persisted.ok = true;
    }
    step(world, event->node, &core_event);
}

static void step_ms(struct scale_world *world)
{
    world->now_ms++;
    struct scale_wheel *slot = &world->wheel[world->now_ms % WHEEL_MS];
    while (slot->first != NULL) {
        struct scale_event *event = slot->first;
        slot->first = event->next;
        slot->last = slot->first == NULL ? NULL : slot->last;
        step_event(world, event);
        drop(world, event);
    }
}

void scale_run(struct scale_world *world, uint64_t ms)
{
    for (uint64_t until_ms = world->now_ms + ms; world->now_ms < until_ms;) {
        step_ms(world);
    }
}

/* ---- life ----------------------------------------------------------------------------------------------------------------- */

static struct node_core *core_new(struct scale_world *world, uint32_t number, void *memory, size_t bytes)
{
    struct scale_node *node = &world->nodes[number];
    struct node_options options = {.self = node->person.id, .mesh = make_mesh(),
                                   .boot = node->boots << 32 | (number + 1), .seed = random_u64(&world->random),
                                   .now_ms = world->now_ms, .wall_s = WALL_S + world->now_ms / 1000,
                                   .node = make_node(&node->person, world->options.slots),
                                   .trace = {trace_line, world}, .memory = memory, .memory_bytes = bytes};
    memcpy(options.public_key, node->person.public_key, sizeof options.public_key);
    bytes_put_u32(options.secret, number);
    struct node_core *core = node_core_init(&options);
    CHECK(core != NULL);
    return core;
}

static void envelope_add(struct scale_world *world, const uint8_t *bytes, uint32_t count, uint32_t owner)
{
    if (world->envelope_count == world->envelope_room) {
        world->envelope_room = 2 * world->envelope_room + 64;
        world->envelopes = realloc(world->envelopes, world->envelope_room * sizeof *world->envelopes);
        CHECK(world->envelopes != NULL);
    }
    struct scale_envelope *envelope = &world->envelopes[world->envelope_count++];
    *envelope = (struct scale_envelope){.bytes = malloc(count), .count = count, .owner = owner};
    memcpy(envelope->bytes, bytes, count);
}

/* The members' records, by the founder; and what each node will say of itself when it starts, so that all know it already
 * and the mesh begins in step. */
static void write_disks(struct scale_world *world)
{
    uint32_t nodes = world->options.nodes;
    for (uint32_t i = 0; i < nodes; i++) {
        struct fact_member member = make_member(&world->nodes[i].person);
        struct made made;
        make_record(&made, world->nodes[0].person.id, 1, i + 1, FACT_MEMBER, fact_key_node_id(world->nodes[i].person.id),
                    &member);
        envelope_add(world, made.bytes, made.count, nodes);
    }
    for (uint32_t i = 0; i < nodes; i++) {
        struct node_core *core = core_new(world, i, world->nodes[i].memory, world->core_bytes);
        struct node_event start = {.kind = NODE_EVENT_START, .now_ms = world->now_ms, .wall_s = WALL_S};
        world->effects.count = 0;
        world->effects.used_bytes = 0;
        node_core_step(core, &start, &world->effects);
        for (uint32_t j = 0; j < world->effects.count; j++) {
            const struct node_effect *effect = &world->effects.items[j];
            if (effect->kind == NODE_EFFECT_PERSIST_RECORD) {
                envelope_add(world, effect->bytes, effect->byte_count, i);
            }
        }
    }
}

static void start(struct scale_world *world, uint32_t number)
{
    struct scale_node *node = &world->nodes[number];
    node->core = core_new(world, number, node->memory, world->core_bytes);
    node->is_up = true;
    node->up_since_ms = world->now_ms;
    node->wake_ms = UINT64_MAX;
    world->up_count++;
    for (uint32_t i = 0; i < world->envelope_count; i++) {
        const struct scale_envelope *envelope = &world->envelopes[i];
        if (envelope->owner != number || node->boots > 1) {
            struct node_event load = {.kind = NODE_EVENT_LOAD_RECORD, .now_ms = world->now_ms, .bytes = envelope->bytes,
                                      .byte_count = envelope->count};
            world->effects.count = 0;
            world->effects.used_bytes = 0;
            node_core_step(node->core, &load, &world->effects);
        }
    }
    struct node_event event = {.kind = NODE_EVENT_START};
    step(world, number, &event);
}

struct scale_world *scale_new(const struct scale_options *options)
{
    CHECK(options->nodes >= 2 && options->nodes <= SCALE_NODES_MAX);
    struct scale_world *world = calloc(1, sizeof *world);
    world->options = *options;
    world->now_ms = 1000;
    world->victim = -1;
    random_init(&world->random, options->seed);
    world->nodes = calloc(options->nodes, sizeof *world->nodes);
    world->index = calloc(INDEX_SLOTS, sizeof *world->index);
    world->links = map((size_t)options->nodes * options->nodes * sizeof *world->links);
    world->wheel = calloc(WHEEL_MS, sizeof *world->wheel);
    world->arena_memory = map(ARENA_BYTES);
    arena_init(&world->arena, world->arena_memory, ARENA_BYTES);
    world->effects.items = calloc(NODE_EFFECTS_MAX, sizeof *world->effects.items);
    world->effects.bytes = map(NODE_EFFECT_BYTES_MAX);
    world->core_bytes = ((size_t)8 << 20) + options->nodes * (size_t)(32u << 10);
    bool *taken = calloc(INDEX_SLOTS, 1);
    for (uint32_t i = 0; i < options->nodes; i++) {
        struct scale_node *node = &world->nodes[i];
        node->person = make_person(i);
        node->boots = 1;
        node->memory = map(world->core_bytes);
        format_text(node->person.name, sizeof node->person.name, "n%u", i);
        uint32_t slot = hash(node->person.id);
        while (taken[slot]) {
            slot = (slot + 1) % INDEX_SLOTS;
        }
        taken[slot] = true;
        world->index[slot] = (uint16_t)i;
    }
    free(taken);
    write_disks(world);
    for (uint32_t i = 0; i < options->nodes; i++) {
        scale_run(world, i % (1 + options->nodes / 1000) == 0);
        start(world, i);
    }
    return world;
}

void scale_free(struct scale_world *world)
{
    for (uint32_t i = 0; i < world->options.nodes; i++) {
        (void)munmap(world->nodes[i].memory, world->core_bytes);
    }
    for (uint32_t i = 0; i < world->envelope_count; i++) {
        free(world->envelopes[i].bytes);
    }
    (void)munmap(world->links, (size_t)world->options.nodes * world->options.nodes * sizeof *world->links);
    (void)munmap(world->arena_memory, ARENA_BYTES);
    (void)munmap(world->effects.bytes, NODE_EFFECT_BYTES_MAX);
    free(world->envelopes);
    free(world->effects.items);
    free(world->wheel);
    free(world->index);
    free(world->nodes);
    free(world);
}

static bool all_alive(const struct scale_world *world)
{
    for (uint32_t i = 0; i < world->options.nodes; i++) {
        const struct scale_node *node = &world->nodes[i];
        if (node->is_up && swim_state_count(&node->core->members->swim, SWIM_ALIVE) + 1 != world->up_count) {
            return false;
        }
    }
    return true;
}

bool scale_run_until_alive(struct scale_world *world, uint64_t max_ms)
{
    for (uint64_t until_ms = world->now_ms + max_ms; !all_alive(world);) {
        if (world->now_ms >= until_ms) {
            return false;
        }
        scale_run(world, 50);
    }
    return true;
}

uint64_t scale_change(struct scale_world *world, uint32_t number, uint64_t max_ms)
{
    world->change_records = world->nodes[number].core->records.count + 1;
    world->change_count = 0;
    world->has_change_under_way = true;
    for (uint32_t i = 0; i < world->options.nodes; i++) {
        world->nodes[i].has_change = false;
        world->nodes[i].sent_records = 0;
    }
    uint64_t begin_ms = world->now_ms;
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = NODE_REQUEST_INVITE;
    event.u.request.client = 1;
    event.u.request.expires_s = WALL_S + 1000000000u;
    for (uint32_t i = 0; i < PUBLIC_KEY_BYTES; i += 8) {
        bytes_put_u64(event.u.request.public_key + i, random_u64(&world->random));
    }
    step(world, number, &event);
    while (world->change_count < world->up_count && world->now_ms < begin_ms + max_ms) {
        step_ms(world);
    }
    world->has_change_under_way = false;
    return world->change_count == world->up_count ? world->change_ms - begin_ms : UINT64_MAX;
}

bool scale_death(struct scale_world *world, uint32_t number, uint64_t max_ms, uint64_t *first_ms, uint64_t *all_ms)
{
    for (uint32_t i = 0; i < world->options.nodes; i++) {
        world->nodes[i].knows_death = false;
    }
    uint64_t begin_ms = world->now_ms;
    world->nodes[number].is_up = false;
    world->up_count--;
    world->victim = (int)number;
    world->death_count = 0;
    while (world->death_count < world->up_count && world->now_ms < begin_ms + max_ms) {
        step_ms(world);
    }
    world->victim = -1;
    *first_ms = world->death_first_ms - begin_ms;
    *all_ms = world->death_last_ms - begin_ms;
    return world->death_count == world->up_count;
}

void scale_revive(struct scale_world *world, uint32_t number)
{
    CHECK(!world->nodes[number].is_up);
    world->nodes[number].boots++;
    start(world, number);
}
