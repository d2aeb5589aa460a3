#include "tests/sim/network.h"

#include <string.h>

#include "base/address.h"
#include "base/check.h"
#include "base/err.h"
#include "tests/sim/world.h"

/* From a quarter of it on. */
static uint32_t around(struct random *random, uint32_t value)
{
    return (uint32_t)(sim_log_between(random, value, (uint64_t)value * 4 * PLAN_LINK_MOST) / 4);
}

void network_init(struct sim *sim)
{
    struct random *random = &sim->random[STREAM_NETWORK];
    for (int i = 0; i < PLAN_NODES_MAX; i++) {
        for (int j = 0; j < PLAN_NODES_MAX; j++) {
            sim->network.links[i][j].base_ms = (uint32_t)sim_log_between(random, 1, 20);
            sim->network.links[i][j].loss_permille = sim->plan.loss_permille;
            sim->network.links[i][j].delay_ms = sim->plan.delay_ms;
        }
    }
    for (int i = 0; i < PLAN_NODES_MAX * PLAN_NODES_MAX && sim->plan.version > 6; i++) {
        struct network_link *link = &sim->network.links[i / PLAN_NODES_MAX][i % PLAN_NODES_MAX];
        link->loss_permille = around(random, sim->plan.loss_permille);
        link->delay_ms = around(random, sim->plan.delay_ms);
    }
}

bool network_is_cut(const struct sim *sim, int from, int to)
{
    return sim->now_ms < sim->network.links[from][to].cut_until_ms || !sim->nodes[from].host_up ||
           !sim->nodes[to].host_up;
}

bool network_both_ways(const struct sim *sim, int a, int b)
{
    return a == b || (!network_is_cut(sim, a, b) && !network_is_cut(sim, b, a));
}

bool network_talks(const struct sim *sim, int a, int b)
{
    return network_both_ways(sim, a, b) && versions_agree(sim, a, b, 0);
}

bool network_is_steady(const struct sim *sim, int a, int b, uint64_t for_ms)
{
    return network_both_ways(sim, a, b) && versions_agree(sim, a, b, for_ms) && sim->network.links[a][b].cut_until_ms + for_ms <= sim->now_ms &&
           sim->network.links[b][a].cut_until_ms + for_ms <= sim->now_ms;
}

/* When what is sent now has been put on the wire at last. */
static uint64_t leaves_ms(struct sim *sim, struct network_link *link, uint32_t bytes)
{
    uint64_t at_ms = sim->now_ms;
    if (sim->network.is_calm || sim->plan.version == 1) {
        return at_ms;
    }
    if (sim->plan.has[FAULT_CAPACITY]) {
        at_ms = link->busy_until_ms > at_ms ? link->busy_until_ms : at_ms;
        at_ms += (bytes + NETWORK_HEADER_BYTES) / sim->plan.link_bytes_per_ms;
        link->busy_until_ms = at_ms;
    }
    for (uint64_t again_ms = 200; sim->plan.uses_streams && sim->plan.has[FAULT_LOSS] && again_ms < 5000 &&
                                  sim_chance(&sim->random[STREAM_NETWORK], link->loss_permille);
         again_ms *= 2) {
        at_ms += again_ms;
    }
    if (sim->plan.uses_streams && sim->now_ms < link->cut_until_ms) {
        at_ms = link->cut_until_ms + sim_between(&sim->random[STREAM_NETWORK], 20, 1000);
    }
    return at_ms > link->clogged_until_ms ? at_ms : link->clogged_until_ms;
}

static uint64_t draw_delay(struct sim *sim, struct network_link *link, int to, uint32_t bytes)
{
    struct random *random = &sim->random[STREAM_NETWORK];
    uint64_t at_ms = leaves_ms(sim, link, bytes) + link->base_ms;
    if (sim->now_ms < sim->nodes[to].slow_until_ms) {
        at_ms += sim_wait(&sim->random[STREAM_SLOWNESS], sim->nodes[to].slow_ms);
    }
    if (!sim->network.is_calm && sim->plan.has[FAULT_DELAY]) {
        at_ms += sim_wait(random, link->delay_ms);
    }
    if (!sim->network.is_calm && sim->plan.has[FAULT_REORDER] && !sim->plan.uses_streams) {
        return at_ms + (sim_chance(random, sim->plan.reorder_permille) ? random_below(random, 1000) : 0);
    }
    at_ms = at_ms > link->last_at_ms ? at_ms : link->last_at_ms;
    link->last_at_ms = at_ms;
    return at_ms;
}

static void push_packet(struct sim *sim, int from, int to, node_id to_id, const struct message *message)
{
    struct sim_event *event = sim_push(
        sim, draw_delay(sim, &sim->network.links[from][to], to, message->byte_count), SIM_MESSAGE, to);
    if (sim->plan.uses_codec) {
        static uint8_t encoded[MESSAGE_BYTES_MAX];
        size_t count = message_encode(message, encoded, sizeof encoded);
        CHECK(count > 0); /* the core may only say what fits */
        struct network_packet *packet = sim_payload(sim, event, (uint32_t)(sizeof *packet + count));
        packet->from = (uint8_t)from;
        packet->from_id = sim->nodes[from].id;
        packet->to_id = to_id;
        packet->life = sim->nodes[to].life;
        packet->is_encoded = true;
        packet->byte_count = (uint32_t)count;
        memcpy(packet->bytes, encoded, count);
        packet->bytes[0] = (uint8_t)versions_between(sim, from, to);
        return;
    }
    struct network_packet *packet = sim_payload(sim, event, (uint32_t)sizeof *packet + message->byte_count);
    packet->from = (uint8_t)from;
    packet->from_id = sim->nodes[from].id;
    packet->to_id = to_id;
    packet->life = sim->nodes[to].life;
    packet->version = versions_between(sim, from, to);
    packet->message = *message;
    packet->byte_count = message->byte_count;
    if (message->byte_count > 0) {
        memcpy(packet->bytes, message->bytes, message->byte_count);
    }
    packet->message.bytes = packet->bytes;
}

void network_send(struct sim *sim, int from, int to, node_id to_id, const struct message *message)
{
    struct random *random = &sim->random[STREAM_NETWORK];
    const struct network_link *link = &sim->network.links[from][to];
    bool is_lost = !sim->nodes[from].peer[to] || network_is_cut(sim, from, to);
    if (sim->plan.uses_streams) {
        bool is_broken = !sim->nodes[from].host_up || !sim->nodes[to].host_up || !sim_daemon_up(sim, to) ||
                         link->cut_until_ms > sim->now_ms + NETWORK_BREAKS_MS;
        is_lost = !sim->nodes[from].peer[to] || is_broken;
    } else if (!sim->network.is_calm && sim->plan.has[FAULT_LOSS] && sim_chance(random, link->loss_permille)) {
        is_lost = true;
    }
    is_lost |= link->busy_until_ms > sim->now_ms + NETWORK_QUEUE_MS;
    if (is_lost) {
        return;
    }
    struct message sent = *message;
    if (from == sim->plan.liar && message->kind == MESSAGE_RESERVE) {
        sent.u.lease.priority = 0;
        sent.u.lease.age = 0;
    }
    message = &sent;
    push_packet(sim, from, to, to_id, message);
    if (!sim->network.is_calm && !sim->plan.uses_streams && sim->plan.has[FAULT_DUPLICATE] &&
        sim_chance(random, sim->plan.duplicate_permille)) {
        push_packet(sim, from, to, to_id, message);
    }
}

/* When the faults end, what a link held back comes through. Else all that is said from then on would wait behind it, for as
 * long as the fault was to last. */
void network_hurry(struct sim *sim, struct sim_event *event)
{
    const struct network_packet *packet = event->payload;
    uint64_t soonest_ms = sim->now_ms + sim->network.links[packet->from][event->node].base_ms;
    event->at_ms = event->at_ms < soonest_ms ? event->at_ms : soonest_ms; /* those of one link stay in order */
}

/* The daemon reads the version off the bytes, or asks the same rule. */
static bool is_understood(struct sim *sim, int to, struct network_packet *packet)
{
    struct version_range speaks = sim->nodes[to].speaks;
    bool is_taken;
    if (packet->is_encoded) {
        packet->version = message_version(packet->bytes, packet->byte_count);
        int code = message_decode_as(speaks, packet->bytes, packet->byte_count, &packet->message);
        CHECK(code == 0 || code == ERR_VERSION);
        is_taken = code == 0;
    } else {
        is_taken = version_is_spoken(speaks, packet->version);
    }
    if (is_taken && (packet->version < speaks.oldest || packet->version > speaks.newest)) {
        sim_fail(sim, 6, "n%d takes a message of version %u and speaks %u to %u", to, packet->version, speaks.oldest,
                 speaks.newest);
    }
    return is_taken;
}

void network_deliver(struct sim *sim, struct sim_event *event)
{
    struct network_packet *packet = event->payload;
    int to = event->node;
    struct network_link *link = &sim->network.links[packet->from][to];
    if (packet->is_held) {
        packet->is_held = false;
        link->held--;
    }
    bool is_broken = sim->plan.uses_streams && packet->life != sim->nodes[to].life;
    if (!sim_daemon_up(sim, to) || !twins_admits(sim, to, packet->from, packet->from_id) || is_broken ||
        !node_id_equal(packet->to_id, sim->nodes[to].id)) {
        return;
    }
    if (sim_paused(sim, to)) {
        if (link->held < NETWORK_HELD_MAX) {
            link->held++;
            packet->is_held = true;
            sim_again(sim, event, sim->nodes[to].paused_until_ms);
        }
        return;
    }
    if (!is_understood(sim, to, packet)) {
        versions_refused(sim, to, packet->from_id, packet->version);
        return;
    }
    struct node_event core_event = {.kind = NODE_EVENT_MESSAGE};
    core_event.u.message.from = packet->from_id;
    core_event.u.message.message = &packet->message;
    char host[FACT_ADDRESS_BYTES];
    address_host(sim->nodes[packet->from].address, host, sizeof host);
    core_event.u.message.host = sim->plan.has[FAULT_MOVE] ? host : NULL;
    SIM_TRACE(sim, to, "message %d from n%d, %u bytes", (int)packet->message.kind, packet->from,
              packet->message.byte_count);
    sim_step(sim, to, &core_event);
}

void network_probe(struct sim *sim, int node, int target, node_id id, const char *address)
{
    bool is_silent = target == NETWORK_STRANGER
                         ? twins_stranger_at(address) == 0
                         : !network_both_ways(sim, node, target) ||
                               (sim_paused(sim, target) && sim->nodes[target].is_suspended);
    uint64_t delay_ms = is_silent ? 1000 : 2 * sim->network.links[node][target % PLAN_NODES_MAX].base_ms;
    struct sim_event *event = sim_push(sim, sim->now_ms + delay_ms, SIM_LINK, node);
    struct network_probe *probe = sim_payload(sim, event, sizeof *probe);
    probe->target = (uint8_t)target;
    probe->id = id;
    probe->life = sim->nodes[node].life;
    bytes_copy_text(probe->address, sizeof probe->address, address);
}

void network_probed(struct sim *sim, struct sim_event *event)
{
    const struct network_probe *probe = event->payload;
    int node = event->node, target = probe->target;
    if (!sim_daemon_up(sim, node) || sim->nodes[node].life != probe->life) {
        return;
    }
    if (target == NETWORK_STRANGER) {
        target = node; /* itself, which is there, and asked for another key */
    }
    if (sim_paused(sim, node)) {
        sim_again(sim, event, sim->nodes[node].paused_until_ms);
        return;
    }
    struct node_event core_event = {.kind = NODE_EVENT_LINK};
    core_event.u.link.peer = probe->id;
    bytes_copy_text(core_event.u.link.address, sizeof core_event.u.link.address, probe->address);
    bool is_silent = !network_both_ways(sim, node, target) ||
                     (sim_paused(sim, target) && sim->nodes[target].is_suspended);
    if (probe->target == NETWORK_STRANGER) {
        core_event.u.link.refused = twins_stranger_at(probe->address) == 1;
        core_event.u.link.open = twins_stranger_at(probe->address) == 2;
    } else if (!is_silent) {
        core_event.u.link.open = sim_daemon_up(sim, target); /* a stopped process' socket still accepts */
        core_event.u.link.refused = !core_event.u.link.open;
        core_event.u.link.reached = core_event.u.link.open && !sim_paused(sim, target) &&
                                    node_id_equal(sim->nodes[target].id, probe->id) &&
                                    twins_admits(sim, target, node, sim->nodes[node].id);
        core_event.u.link.round_trip_us = 2000 * sim->network.links[node][target].base_ms;
    }
    sim_step(sim, node, &core_event);
}
