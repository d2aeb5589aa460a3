#include "tests/sim/swim_world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_REST_MS 1500 /* three periods, at the worst local health */
#define ARENA_BYTES (64u * 1024)

static void fail(struct world *world, int node, const char *text)
{
    if (world->failure[0] == '\0') {
        snprintf(world->failure, sizeof world->failure, "at %" PRIu64 " ms, node %d: %s", world->now_ms, node, text);
    }
}

static bool earlier(const struct world_packet *a, const struct world_packet *b)
{
    return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->order < b->order;
}

static void heap_put(struct world *world, struct world_packet *packet)
{
    if (world->heap_count == world->heap_capacity) {
        world->heap_capacity = world->heap_capacity == 0 ? 256 : world->heap_capacity * 2;
        world->heap = realloc(world->heap, world->heap_capacity * sizeof(struct world_packet *));
    }
    size_t at = world->heap_count++;
    while (at > 0 && earlier(packet, world->heap[(at - 1) / 2])) {
        world->heap[at] = world->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    world->heap[at] = packet;
}

static struct world_packet *heap_take(struct world *world)
{
    struct world_packet *first = world->heap[0];
    struct world_packet *last = world->heap[--world->heap_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= world->heap_count) {
            break;
        }
        if (child + 1 < world->heap_count && earlier(world->heap[child + 1], world->heap[child])) {
            child++;
        }
        if (!earlier(world->heap[child], last)) {
            break;
        }
        world->heap[at] = world->heap[child];
        at = child;
    }
    if (world->heap_count > 0) {
        world->heap[at] = last;
    }
    return first;
}

static int find(const struct world *world, node_id id)
{
    for (int i = 0; i < world->count; i++) {
        if (node_id_equal(world->nodes[i].id, id)) {
            return i;
        }
    }
    return -1;
}

static void deliver_later(struct world *world, int from, int to, const struct swim_message *message)
{
    struct world_packet *packet = malloc(sizeof *packet);
    uint64_t delay_ms =
        world->delay_min_ms + random_below(&world->random, world->delay_max_ms - world->delay_min_ms + 1);
    *packet = (struct world_packet){
        .at_ms = world->now_ms + delay_ms, .order = world->order++, .from = from, .to = to, .message = *message};
    heap_put(world, packet);
}

static void send_packet(struct world *world, int from, int to, const struct swim_message *message)
{
    world->packets_sent++;
    if (world->cut[from][to] || random_below(&world->random, 1000) < world->loss_permille) {
        return;
    }
    deliver_later(world, from, to, message);
    if (random_below(&world->random, 1000) < world->double_permille) {
        deliver_later(world, from, to, message);
    }
}

static void perform(struct world *world, int node, const struct swim_effects *effects)
{
    for (size_t i = 0; i < effects->count; i++) {
        const struct swim_effect *effect = &effects->items[i];
        int about = find(world, effect->node);
        if (about < 0 || about == node) {
            fail(world, node, "an effect about ourselves or nobody");
            return;
        }
        if (effect->kind == SWIM_SEND) {
            world->digest = random_mix(world->digest ^ effect->message.sequence);
            send_packet(world, node, about, &effect->message);
            continue;
        }
        world->digest = random_mix(world->digest ^ (world->now_ms << 16) ^ (uint64_t)(node * 64 + about) ^
                                   ((uint64_t)effect->new_state << 12));
        if (world->verbose) {
            printf("%8" PRIu64 " node %d: %d %s -> %s (incarnation %" PRIu64 ")\n", world->now_ms, node, about,
                   swim_state_name(effect->old_state), swim_state_name(effect->new_state),
                   swim_incarnation_of(&world->nodes[node].swim, effect->node) & 0xffffffff);
        }
        if (effect->old_state == effect->new_state) {
            fail(world, node, "a change that is none");
        }
        if (world->changed != NULL) {
            world->changed(world, node, about, effect->old_state, effect->new_state);
        }
    }
}

static void check_node(struct world *world, int index)
{
    struct world_node *node = &world->nodes[index];
    size_t total = 0;
    for (int state = 0; state < SWIM_STATE_COUNT; state++) {
        total += swim_state_count(&node->swim, (enum swim_state)state);
    }
    if (total != swim_member_count(&node->swim) || total != (size_t)world->count - 1) {
        fail(world, index, "the counts do not add up");
    }
    for (size_t i = 0; i < swim_member_count(&node->swim); i++) {
        if (node_id_equal(swim_member_at(&node->swim, i), node->id)) {
            fail(world, index, "is in its own list");
        }
    }
    for (int i = 0; i < world->count; i++) {
        uint64_t incarnation = swim_incarnation_of(&node->swim, world->nodes[i].id);
        if (incarnation < node->seen_incarnation[i]) {
            fail(world, index, "an incarnation went down");
        }
        node->seen_incarnation[i] = incarnation;
        if (swim_heard_ms(&node->swim, world->nodes[i].id) > world->now_ms) {
            fail(world, index, "heard somebody in the future");
        }
    }
}

void world_init(struct world *world, uint64_t seed, int count)
{
    memset(world, 0, sizeof *world);
    world->seed = seed;
    world->now_ms = 1000;
    world->count = count;
    world->delay_min_ms = 1;
    world->delay_max_ms = 5;
    random_init_stream(&world->random, seed, 1);
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < NODE_ID_BYTES; j++) {
            world->nodes[i].id.bytes[j] = (uint8_t)random_u64(&world->random);
        }
        world->nodes[i].memory = aligned_alloc(16, ARENA_BYTES);
    }
}

void world_free(struct world *world)
{
    for (int i = 0; i < world->count; i++) {
        free(world->nodes[i].memory);
    }
    for (size_t i = 0; i < world->heap_count; i++) {
        free(world->heap[i]);
    }
    free(world->heap);
    memset(world, 0, sizeof *world);
}

void world_start(struct world *world, int index)
{
    struct world_node *node = &world->nodes[index];
    node->boot++;
    node->running = true;
    node->left = false;
    node->paused_until_ms = 0;
    memset(node->seen_incarnation, 0, sizeof node->seen_incarnation);
    arena_init(&node->arena, node->memory, ARENA_BYTES);
    struct swim_options options = {
        .self = node->id, .seed = random_u64(&world->random), .now_ms = world->now_ms, .incarnation = node->boot << 16};
    if (swim_init(&node->swim, &options, &node->arena) != 0) {
        fail(world, index, "init failed");
        return;
    }
    for (int i = 0; i < world->count; i++) {
        if (swim_member_add(&node->swim, world->now_ms, world->nodes[i].id) != 0) {
            fail(world, index, "adding a member failed");
        }
    }
    if (world->verbose) {
        printf("%8" PRIu64 " node %d starts\n", world->now_ms, index);
    }
}

void world_crash(struct world *world, int index)
{
    world->nodes[index].running = false;
    if (world->verbose) {
        printf("%8" PRIu64 " node %d crashes\n", world->now_ms, index);
    }
}

void world_pause(struct world *world, int index, uint64_t ms)
{
    world->nodes[index].paused_since_ms = world->now_ms;
    world->nodes[index].paused_until_ms = world->now_ms + ms;
    if (world->verbose) {
        printf("%8" PRIu64 " node %d pauses for %" PRIu64 " ms\n", world->now_ms, index, ms);
    }
}

void world_leave(struct world *world, int index)
{
    struct swim_effects effects;
    swim_leave(&world->nodes[index].swim, world->now_ms, &effects);
    world->nodes[index].left = true;
    perform(world, index, &effects);
}

void world_heal(struct world *world)
{
    memset(world->cut, 0, sizeof world->cut);
}

static uint64_t wake_ms(const struct world *world, int index)
{
    const struct world_node *node = &world->nodes[index];
    if (!node->running) {
        return UINT64_MAX;
    }
    uint64_t next_ms = swim_next_ms(&node->swim);
    if (next_ms < world->now_ms) {
        next_ms = world->now_ms; /* a receive made it due at once */
    }
    return next_ms > node->paused_until_ms ? next_ms : node->paused_until_ms;
}

/* As the daemon does it: the first thing after a long gap is to move the timers. */
static void wake_up(struct world *world, int index)
{
    struct world_node *node = &world->nodes[index];
    if (node->paused_until_ms != 0 && world->now_ms >= node->paused_until_ms) {
        uint64_t gap_ms = node->paused_until_ms - node->paused_since_ms;
        if (gap_ms > 5000) {
            swim_shift(&node->swim, gap_ms);
        }
        node->paused_until_ms = 0;
    }
}

static void step_packet(struct world *world)
{
    struct world_packet *packet = heap_take(world);
    struct world_node *node = &world->nodes[packet->to];
    if (node->running && world->now_ms < node->paused_until_ms) {
        packet->at_ms =
            node->paused_until_ms; /* before its tick of the same time, as a shell reads its sockets first */
        heap_put(world, packet);
        return;
    }
    if (node->running) {
        struct swim_effects effects;
        wake_up(world, packet->to);
        if (swim_receive(&node->swim, world->now_ms, world->nodes[packet->from].id, &packet->message, &effects) != 0) {
            fail(world, packet->to, "an honest message was refused");
        }
        perform(world, packet->to, &effects);
        check_node(world, packet->to);
    }
    free(packet);
}

static void step_tick(struct world *world, int index)
{
    struct world_node *node = &world->nodes[index];
    struct swim_effects effects;
    wake_up(world, index);
    swim_tick(&node->swim, world->now_ms, &effects);
    if (swim_next_ms(&node->swim) <= world->now_ms) {
        fail(world, index, "the next tick is not later than this one");
    }
    if (!node->left && swim_next_ms(&node->swim) > world->now_ms + LONGEST_REST_MS) {
        fail(world, index, "rests longer than the longest probe");
    }
    perform(world, index, &effects);
    check_node(world, index);
}

void world_run(struct world *world, uint64_t until_ms)
{
    while (world->failure[0] == '\0') {
        uint64_t at_ms = UINT64_MAX;
        int ticking = -1;
        for (int i = 0; i < world->count; i++) {
            uint64_t wake = wake_ms(world, i);
            if (wake < at_ms) {
                at_ms = wake;
                ticking = i;
            }
        }
        bool packet = world->heap_count > 0 && world->heap[0]->at_ms <= at_ms;
        if (packet) {
            at_ms = world->heap[0]->at_ms;
        }
        if (at_ms > until_ms) {
            break;
        }
        world->now_ms = at_ms;
        world->steps++;
        if (packet) {
            step_packet(world);
        } else {
            step_tick(world, ticking);
        }
    }
    if (world->now_ms < until_ms) {
        world->now_ms = until_ms;
    }
}

enum swim_state world_view(const struct world *world, int node, int about)
{
    return swim_state_of(&world->nodes[node].swim, world->nodes[about].id);
}

bool world_agrees(const struct world *world)
{
    for (int i = 0; i < world->count; i++) {
        for (int j = 0; j < world->count && world->nodes[i].running && !world->nodes[i].left; j++) {
            const struct world_node *other = &world->nodes[j];
            bool alive = world_view(world, i, j) == SWIM_ALIVE;
            if (alive != (other->running && !other->left)) {
                return false;
            }
            if (alive &&
                swim_incarnation_of(&world->nodes[i].swim, other->id) != swim_incarnation_of(&other->swim, other->id)) {
                return false;
            }
        }
    }
    return true;
}
