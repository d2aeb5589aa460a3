#include "tests/scenario/core_world_inside.h"

#include <stdio.h>

#include "base/check.h"
#include "node/core/ground/state.h"

/* Who listens there; UINT32_MAX: nobody. */
static uint32_t number_at(const struct world *world, const char *address)
{
    for (uint32_t i = 0; i < world->node_count; i++) {
        if (strcmp(world->nodes[i].address, address) == 0) {
            return i;
        }
    }
    return UINT32_MAX;
}

static uint32_t number_of(const struct world *world, node_id id)
{
    for (uint32_t i = 0; i < world->node_count; i++) {
        if (node_id_equal(world->nodes[i].person.id, id)) {
            return i;
        }
    }
    return UINT32_MAX;
}

bool world_is_asleep(const struct world *world, uint32_t number)
{
    return world->now_ms < world->nodes[number].asleep_until_ms;
}

bool world_is_apart(const struct world *world, uint32_t a, uint32_t b)
{
    return world_is_asleep(world, a) || world_is_asleep(world, b) || world->nodes[a].is_cut || world->nodes[b].is_cut ||
           world->nodes[a].side != world->nodes[b].side || (world->nodes[a].hidden >> b & 1) != 0 ||
           (world->nodes[b].hidden >> a & 1) != 0;
}

/* A node with a known address is talked to there: two may have one id. */
static uint32_t receiver(const struct world *world, uint32_t number, node_id id)
{
    const struct world_node *node = &world->nodes[number];
    for (uint32_t i = 0; i < node->link_count; i++) {
        if (node_id_equal(node->links[i].id, id)) {
            return number_at(world, node->links[i].address);
        }
    }
    return node_id_equal(id, node->person.id) ? UINT32_MAX : number_of(world, id);
}

void world_connect_peer(struct world *world, uint32_t number, const struct node_effect *effect)
{
    struct world_node *node = &world->nodes[number];
    uint32_t at = 0;
    while (at < node->link_count && !node_id_equal(node->links[at].id, effect->u.peer.node)) {
        at++;
    }
    if (effect->u.peer.gone) {
        world_say(world, number, '>', "disconnect");
        if (at < node->link_count) {
            node->links[at] = node->links[--node->link_count];
        }
        return;
    }
    CHECK(at < WORLD_LINKS_MAX);
    node->link_count += at == node->link_count;
    node->links[at].id = effect->u.peer.node;
    bytes_copy_text(node->links[at].address, sizeof node->links[at].address, effect->u.peer.address);
}

static struct version_range speaks(const struct world *world, uint32_t number)
{
    const struct fact_node *said = &world->nodes[number].core->options.node;
    return (struct version_range){said->protocol_min, said->protocol_max};
}

/* Of a message: the highest that both speak, else the sender's own. */
static uint32_t version_between(const struct world *world, uint32_t from, uint32_t to)
{
    uint32_t common = version_common(speaks(world, from), speaks(world, to));
    return common != 0 ? common : speaks(world, from).oldest;
}

/* What is left of a message of records: those by writers whom the receiver knows, or is told of in it. Returns its bytes. */
static uint32_t drop_unknown(const struct world *world, uint32_t to, const struct message *message, uint8_t *out)
{
    node_id told[256];
    uint32_t told_count = 0, used = 0;
    size_t length;
    for (uint32_t at = 0; at < message->byte_count; at += (uint32_t)length) {
        struct record record;
        CHECK(record_length(message->bytes + at, message->byte_count - at, &length) == 0);
        CHECK(record_decode(message->bytes + at, length, &record) == 0);
        bool is_known = view_find_member(&world->nodes[to].core->view, record.writer) != NULL;
        for (uint32_t i = 0; i < told_count; i++) {
            is_known |= node_id_equal(told[i], record.writer);
        }
        if (is_known && record.kind == FACT_MEMBER && told_count < 256) {
            memcpy(told[told_count++].bytes, record.key, NODE_ID_BYTES);
        }
        if (is_known) {
            memcpy(out + used, message->bytes + at, length);
            used += (uint32_t)length;
        }
    }
    return used;
}

void world_send_message(struct world *world, uint32_t number, const struct node_effect *effect)
{
    static const char *const names[MESSAGE_KINDS] = {
        [MESSAGE_INCUMBENT_ASK] = "incumbent_ask", [MESSAGE_INCUMBENT_ANSWER] = "incumbent_answer",
        [MESSAGE_RESERVE] = "reserve",             [MESSAGE_RESERVE_ANSWER] = "reserve_answer",
        [MESSAGE_CONFIRM] = "confirm",             [MESSAGE_CONFIRM_ANSWER] = "confirm_answer",
        [MESSAGE_RENEW] = "renew",                 [MESSAGE_RELEASE] = "release",
        [MESSAGE_GROUP] = "group",
        [MESSAGE_STALE] = "stale",                 [MESSAGE_STORED] = "stored",
        [MESSAGE_TWIN] = "twin"};
    const struct message *message = &effect->u.send.message;
    uint32_t to = receiver(world, number, effect->u.send.to);
    if (to == UINT32_MAX || !node_id_equal(world->nodes[to].person.id, effect->u.send.to)) {
        return; /* on the roster, but nowhere in this world, or at an address that another node has now */
    }
    bool tells_clock = message->kind == MESSAGE_STORED && record_ident_equal(message->u.stored.ident, MESSAGE_CLOCK_IDENT);
    if (names[message->kind] != NULL && !tells_clock) {
        char line[64];
        snprintf(line, sizeof line, "send %s %s", names[message->kind], world->nodes[to].person.name);
        world_say(world, number, '>', line);
    }
    bool is_lost = world->loses_keys && message->kind == MESSAGE_GROUP;
    if (!world->nodes[to].is_up || world_is_apart(world, number, to) || is_lost) {
        return;
    }
    uint32_t version = version_between(world, number, to);
    if (!version_is_spoken(speaks(world, to), version)) {
        struct node_event refused = {.kind = NODE_EVENT_FOREIGN};
        refused.u.foreign.from = world->nodes[number].person.id;
        refused.u.foreign.version = version;
        world_post(world, world->now_ms, to, world->nodes[to].boots, &refused);
        return;
    }
    struct node_event event = {.kind = NODE_EVENT_MESSAGE};
    event.u.message.from = world->nodes[number].person.id;
    event.u.message.message = message;
    struct message known = *message;
    uint8_t bytes[MESSAGE_BYTES_MAX];
    if (world->checks_writers && message->kind == MESSAGE_RECORDS) {
        known.byte_count = drop_unknown(world, to, message, bytes);
        known.bytes = bytes;
        event.u.message.message = &known;
    }
    uint64_t late_ms = (world->late_from >> number & 1) != 0 ? world->late_ms : 0;
    uint64_t way_ms = message->kind == MESSAGE_RECORDS ? world->records_ms + late_ms : 0;
    world_post(world, world->now_ms + world->send_ms + way_ms, to, world->nodes[to].boots, &event);
}

void world_answer_link(struct world *world, uint32_t number, const struct node_effect *effect)
{
    uint32_t to = number_at(world, effect->u.peer.address); /* two machines may have one key */
    bool is_silent = to == UINT32_MAX || world_is_apart(world, number, to);
    struct node_event event = {.kind = NODE_EVENT_LINK};
    event.u.link.peer = effect->u.peer.node;
    event.u.link.refused = (!is_silent && !world->nodes[to].is_up) ||
                           (to == UINT32_MAX && strcmp(world->refusing, effect->u.peer.address) == 0);
    event.u.link.open = !is_silent && world->nodes[to].is_up;
    event.u.link.reached = event.u.link.open && node_id_equal(world->nodes[to].person.id, effect->u.peer.node);
    event.u.link.round_trip_us = 200;
    bytes_copy_text(event.u.link.address, sizeof event.u.link.address, effect->u.peer.address);
    world_post(world, world->now_ms, number, world->nodes[number].boots, &event);
}

void world_move(struct world *world, uint32_t number, const char *const *addresses, uint32_t count)
{
    struct node_event event = {.kind = NODE_EVENT_ADDRESSES};
    bytes_copy_text(world->nodes[number].address, sizeof world->nodes[number].address, addresses[0]);
    for (uint32_t i = 0; i < count; i++) {
        struct fact_address *address = &event.u.addresses.announced.items[i];
        bytes_copy_text(address->text, sizeof address->text, addresses[i]);
        address->prefix = 24;
        address->speed = 1000;
    }
    event.u.addresses.announced.count = count;
    world_step(world, number, &event);
}

void world_push_blob(struct world *world, uint32_t number, const struct node_effect *effect)
{
    uint32_t to = number_of(world, effect->u.push.to);
    struct node_event event = {.kind = NODE_EVENT_PUSHED};
    event.u.blob.attempt = effect->u.push.attempt;
    event.u.blob.step = effect->u.push.step;
    event.u.blob.blob = effect->u.push.blob;
    event.u.blob.node = effect->u.push.to;
    bool is_code = effect->u.push.blob.bytes[0] == WORLD_CODE_BYTE;
    bool is_checkpoint = !experiment_id_is_none(effect->u.push.attempt.experiment);
    if (to != UINT32_MAX && (is_code || is_checkpoint)) {
        char line[64];
        snprintf(line, sizeof line, "push %s %s", is_code ? "code" : "checkpoint", world->nodes[to].person.name);
        world_say(world, number, '>', line);
    }
    struct world_node *node = &world->nodes[number];
    event.u.blob.is_missing = node->lacks_code && !is_checkpoint;
    event.u.blob.ok = !event.u.blob.is_missing && to != UINT32_MAX && world->nodes[to].is_up &&
                      !world->nodes[to].disk_is_full && !world_is_apart(world, number, to);
    node->pushes++;
    node->pushes_most = node->pushes > node->pushes_most ? node->pushes : node->pushes_most;
    world_post(world, world->now_ms + world->push_ms, number, world->nodes[number].boots, &event);
}

void world_confirm_blob(struct world *world, uint32_t number, const struct node_effect *effect)
{
    uint32_t to = number_of(world, effect->u.push.to);
    bool is_there = to != UINT32_MAX && world->nodes[to].is_up && !world->nodes[to].is_cut && !world->nodes[number].is_cut;
    struct node_event event = {.kind = NODE_EVENT_CONFIRMED};
    event.u.blob.blob = effect->u.push.blob;
    event.u.blob.node = effect->u.push.to;
    event.u.blob.ok = is_there && !world->nodes[to].has_bad_copies;
    event.u.blob.is_missing = is_there && world->nodes[to].has_bad_copies;
    world_say(world, number, '>', "confirm");
    world_post(world, world->now_ms, number, world->nodes[number].boots, &event);
}
