#include "tests/sim/twins.h"

#include <string.h>

#include "base/check.h"
#include "base/format.h"
#include "node/core/members/members.h"
#include "node/core/members/twin.h"
#include "tests/sim/checkers_inside.h"
#include "tests/sim/faults.h"
#include "tests/sim/world.h"

#define MOVED_MS 20000 /* in which a machine that has moved is found, by its own words or by a beacon */
#define BEACON_S 3
#define TOLD_APART_MS 60000 /* of undisturbed life of both */
#define STREAM_OF_KEYS 5000
#define STREAM_OF_JOINS 6000
#define STREAM_OF_TIDYING 7000

void twins_init(struct sim *sim)
{
    sim->machines = sim->plan.node_count;
    for (int i = 0; i < PLAN_NODES_MAX; i++) {
        format_text(sim->nodes[i].address, sizeof sim->nodes[i].address, "10.0.0.%d:4000", i + 1);
    }
    if (!sim->plan.has[FAULT_CLONE]) {
        return;
    }
    struct sim_node *machine = &sim->nodes[sim->machines++];
    machine->clock_offset_ms = 12345;
    machine->host_up = true;
    machine->is_twin = true;
}

/* A machine has had more than one key, or more than one address. */
static bool has_addresses(const struct sim *sim)
{
    return sim->plan.has[FAULT_CLONE] || sim->plan.has[FAULT_EVICT] || sim->plan.has[FAULT_MOVE];
}

static int machine_at(const struct sim *sim, const char *address)
{
    for (int i = 0; i < (int)sim->machines; i++) {
        if (strcmp(sim->nodes[i].address, address) == 0) {
            return i;
        }
    }
    return -1;
}

int twins_machine(const struct sim *sim)
{
    return sim->machines > sim->plan.node_count ? (int)sim->plan.node_count : -1;
}

/* ---- connections ---------------------------------------------------------------------------------------------------- */

static struct twins_link *link_of(const struct sim *sim, int node, node_id id)
{
    const struct sim_node *self = &sim->nodes[node];
    for (uint32_t i = 0; i < self->link_count; i++) {
        if (node_id_equal(self->links[i].id, id)) {
            return (struct twins_link *)&self->links[i];
        }
    }
    return NULL;
}

static struct twins_link *link_row(struct sim *sim, int node, node_id id)
{
    struct sim_node *self = &sim->nodes[node];
    struct twins_link *link = link_of(sim, node, id);
    if (link == NULL) {
        CHECK(self->link_count < TWINS_LINKS_MAX);
        link = &self->links[self->link_count++];
        *link = (struct twins_link){.id = id};
    }
    return link;
}

int twins_route(const struct sim *sim, int node, node_id id)
{
    if (!has_addresses(sim)) {
        return sim_find_node(sim, id);
    }
    const struct twins_link *link = link_of(sim, node, id);
    int machine = link != NULL ? machine_at(sim, link->address) : -1;
    return machine >= 0 ? machine : node_id_equal(id, sim->nodes[node].id) ? node : -1;
}

int twins_machine_at(const struct sim *sim, node_id id, const char *address)
{
    return has_addresses(sim) ? machine_at(sim, address) : sim_find_node(sim, id);
}

bool twins_admits(const struct sim *sim, int node, int from, node_id id)
{
    if (!has_addresses(sim)) {
        return sim->nodes[node].admit[from];
    }
    const struct twins_link *link = link_of(sim, node, id);
    return link != NULL && link->is_admitted && from != node;
}

/* Where the node's connections go now. */
static void refresh(struct sim *sim, int node)
{
    struct sim_node *self = &sim->nodes[node];
    memset(self->peer, 0, sizeof self->peer);
    for (uint32_t i = 0; i < self->link_count; i++) {
        int machine = machine_at(sim, self->links[i].address);
        if (machine >= 0) {
            self->peer[machine] = true;
        }
    }
}

void twins_peer(struct sim *sim, int node, const struct node_effect *effect)
{
    struct sim_node *self = &sim->nodes[node];
    if (!has_addresses(sim)) {
        int other = sim_find_node(sim, effect->u.peer.node);
        CHECK(other >= 0);
        self->peer[other] = !effect->u.peer.gone;
        return;
    }
    struct twins_link *link = link_row(sim, node, effect->u.peer.node);
    bytes_copy_text(link->address, sizeof link->address, effect->u.peer.gone ? "" : effect->u.peer.address);
    refresh(sim, node);
}

void twins_admit(struct sim *sim, int node, const struct node_effect *effect)
{
    int other = sim_find_node(sim, effect->u.peer.node);
    if (effect->u.peer.invite) {
        return; /* whoever joins is let in by other means here */
    }
    if (has_addresses(sim)) {
        link_row(sim, node, effect->u.peer.node)->is_admitted = !effect->u.peer.gone;
    }
    CHECK(other >= 0 || has_addresses(sim)); /* a node that is vouched for and not yet there */
    if (other >= 0 && other != node) { /* its own key is for a twin */
        sim->nodes[node].admit[other] = !effect->u.peer.gone;
    }
}

/* ---- moves ---------------------------------------------------------------------------------------------------------- */

uint32_t twins_stranger_at(const char *address)
{
    return (uint32_t)(bytes_hash64(address, strlen(address), 9) % 3);
}

void twins_move(struct sim *sim, int node, struct random *random)
{
    struct sim_node *self = &sim->nodes[node];
    if (self->is_twin || self->is_gone || sim_paused(sim, node)) {
        return;
    }
    char before[TWINS_ADDRESS_BYTES];
    bytes_copy_text(before, sizeof before, self->address);
    const char *another = sim->former_count > 0 && sim_chance(random, 300)
                              ? sim->former[random_below(random, sim->former_count < TWINS_FORMER_MAX ? sim->former_count : TWINS_FORMER_MAX)]
                              : NULL;
    if (another != NULL && machine_at(sim, another) < 0) {
        bytes_copy_text(self->address, sizeof self->address, another);
    } else {
        format_text(self->address, sizeof self->address, "10.0.%u.%d:4000", (unsigned)++sim->move_count, node + 1);
    }
    bytes_copy_text(sim->former[sim->former_count++ % TWINS_FORMER_MAX], TWINS_ADDRESS_BYTES, before);
    SIM_TRACE(sim, node, "MOVES from %s to %s", before, self->address);
    for (int other = 0; other < (int)sim->machines; other++) {
        refresh(sim, other);
    }
    faults_upset(sim, node, sim->now_ms + MOVED_MS);
    if (sim_runs(sim, node)) {
        struct node_event event = {.kind = NODE_EVENT_ADDRESSES};
        event.u.addresses.announced.count = 1;
        bytes_copy_text(event.u.addresses.announced.items[0].text, FACT_ADDRESS_BYTES, self->address);
        event.u.addresses.announced.items[0].speed = 1000;
        sim_step(sim, node, &event);
    }
}

/* Beacons: where machines have moved, each hears now and then where those are that it does not hear. */
static void tell_where(struct sim *sim, int node)
{
    for (int other = 0; other < (int)sim->plan.node_count && !sim->failed && sim_runs(sim, node); other++) {
        node_id id = sim->nodes[other].id;
        if (other != node && sim_runs(sim, other) && network_both_ways(sim, node, other) &&
            core_find_peer(sim->nodes[node].core, id) != NULL && !core_node_alive(sim->nodes[node].core, id)) {
            struct node_event event = {.kind = NODE_EVENT_HINT};
            event.u.hint.node = id;
            bytes_copy_text(event.u.hint.address, sizeof event.u.hint.address, sim->nodes[other].address);
            sim_step(sim, node, &event);
        }
    }
}

/* ---- another node --------------------------------------------------------------------------------------------------- */

static void push_own(struct sim *sim, int node, enum sim_event_kind kind)
{
    sim_push(sim, sim->now_ms + 1, kind, node)->serial = sim->nodes[node].life;
}

static bool is_for_another_life(struct sim *sim, struct sim_event *event)
{
    if (sim->nodes[event->node].core == NULL || sim->nodes[event->node].life != event->serial) {
        return true;
    }
    if (sim_paused(sim, event->node)) {
        sim_again(sim, event, sim->nodes[event->node].paused_until_ms);
        return true;
    }
    return false;
}

/* On disk beside its own since it was last made. */
static void next_key(const struct sim *sim, int node, uint8_t out[PUBLIC_KEY_BYTES])
{
    struct random random;
    random_init_stream(&random, sim->seed,
                       STREAM_OF_KEYS + (uint64_t)node + (uint64_t)sim->nodes[node].keys_made * PLAN_NODES_MAX);
    for (size_t i = 0; i < PUBLIC_KEY_BYTES; i++) {
        out[i] = (uint8_t)random_u64(&random);
    }
}

void twins_new_key(struct sim *sim, int node, bool afresh)
{
    sim->nodes[node].keys_made += afresh;
    push_own(sim, node, SIM_KEY);
}

void twins_key(struct sim *sim, struct sim_event *event)
{
    if (is_for_another_life(sim, event)) {
        return;
    }
    struct node_event core_event = {.kind = NODE_EVENT_KEY};
    core_event.u.key.ok = true;
    next_key(sim, event->node, core_event.u.key.public_key);
    sim_step(sim, event->node, &core_event);
}

void twins_become(struct sim *sim, int node)
{
    push_own(sim, node, SIM_BECOMES);
}

void twins_became(struct sim *sim, struct sim_event *event)
{
    if (is_for_another_life(sim, event)) {
        return;
    }
    int node = event->node;
    struct sim_node *self = &sim->nodes[node];
    for (uint32_t slot = 0; slot < sim->plan.slots[node]; slot++) {
        if (self->processes[slot].is_alive) {
            sim_fail(sim, 1, "n%d becomes another node though the process of trial %u still lives in slot %u", node,
                     self->processes[slot].attempt.trial, slot);
        }
    }
    sim_crash(sim, node, false);
    self->was = self->id;
    next_key(sim, node, self->public_key);
    self->id = node_id_of_key(self->public_key);
    self->backup.capacity = 0; /* it has the old key */
    checkers_met(sim, PREMISE_2_BECAME);
    SIM_TRACE(sim, node, "BECOMES another node");
    bool is_kept = false;
    for (uint32_t i = 0; i < sim->machines; i++) {
        is_kept |= node_id_equal(sim->nodes[i].id, self->was);
    }
    if (!is_kept) {
        sim_fail(sim, 2, "n%d becomes another node, and so has its twin: nobody has their key any more", node);
    }
    if (sim->healed) {
        plan_be_patient(&sim->plan); /* what ran under the key that it had is waited for where it was */
    }
    if (sim->healed && faults_is_stranger(sim, node)) { /* all whom it told died in that moment */
        plan_leave_out(&sim->plan, node);
        self->is_gone = self->refuses = true;
        sim->unstable_until_ms = sim->now_ms;
        return;
    }
    sim_push(sim, sim->now_ms + 200, SIM_BOOT, node)->serial = self->life;
}

/* ---- a new key on an old machine ------------------------------------------------------------------------------------ */

static int pick_member(struct sim *sim, struct random *random)
{
    for (int tries = 0; tries < 20; tries++) {
        int node = (int)random_below(random, sim->plan.node_count);
        const struct sim_node *self = &sim->nodes[node];
        if (sim_runs(sim, node) && !self->is_evicted && !self->leaves && !self->is_twin) {
            return node;
        }
    }
    return -1;
}

/* Everything on its disk is gone; a member invites it, and is asked at once. */
void twins_join(struct sim *sim, struct sim_event *event)
{
    struct sim_node *self = &sim->nodes[event->node];
    struct random random;
    random_init_stream(&random, sim->seed, STREAM_OF_JOINS + ((uint64_t)event->node << 32 | event->serial));
    int member = pick_member(sim, &random);
    if (sim->healed || !self->is_evicted) {
        return;
    }
    sim_push(sim, sim->now_ms + 10000, SIM_JOINS, event->node)->serial = event->serial + 1; /* unless it is welcome */
    if (member < 0 || !self->is_gone) {
        return;
    }
    struct node_event invite = {.kind = NODE_EVENT_REQUEST};
    invite.u.request.client = FAULTS_EVICT_CLIENT;
    invite.u.request.kind = NODE_REQUEST_INVITE;
    invite.u.request.expires_s = 4000000000u;
    invite.u.request.public_key[0] = (uint8_t)event->node;
    struct node_event join = {.kind = NODE_EVENT_JOIN};
    join.u.join.client = FAULTS_JOIN_CLIENT + event->node;
    memcpy(join.u.join.invite_key, invite.u.request.public_key, PUBLIC_KEY_BYTES);
    next_key(sim, event->node, join.u.join.public_key);
    format_text(join.u.join.name, sizeof join.u.join.name, "n%d", (int)event->node);
    SIM_TRACE(sim, member, "JOIN of n%d with a new key", (int)event->node);
    sim_step(sim, member, &invite);
    sim_step(sim, member, &join);
}

void twins_welcome(struct sim *sim, const struct node_effect *effect)
{
    int node = (int)(effect->u.reply.client - FAULTS_JOIN_CLIENT);
    if (effect->u.reply.client < FAULTS_JOIN_CLIENT || node >= (int)sim->plan.node_count || effect->u.reply.code != 0 ||
        sim->healed || !sim->nodes[node].is_evicted || !sim->nodes[node].is_gone) {
        return;
    }
    struct sim_node *self = &sim->nodes[node];
    disk_wipe(sim, node);
    for (size_t offset = 0, length; offset < effect->byte_count; offset += length) {
        CHECK(record_length(effect->bytes + offset, effect->byte_count - offset, &length) == 0);
        disk_preload(sim, node, effect->bytes + offset, (uint32_t)length);
    }
    checkers_on_other_disk(sim, node);
    blobs_wipe(sim, node);
    self->was = self->id;
    next_key(sim, node, self->public_key);
    self->id = node_id_of_key(self->public_key);
    self->backup.capacity = 0;
    self->is_evicted = self->is_gone = false;
    self->host_up = true;
    checkers_met(sim, PREMISE_2_RETURNED);
    SIM_TRACE(sim, node, "JOINS with a new key");
    faults_upset(sim, node, sim->now_ms + 1000);
    sim_push(sim, sim->now_ms + 1000, SIM_BOOT, node)->serial = self->life;
}

/* ---- the copy ------------------------------------------------------------------------------------------------------- */

void twins_strike(struct sim *sim, int node)
{
    int copy = twins_machine(sim);
    struct sim_node *victim = &sim->nodes[node], *machine = &sim->nodes[copy < 0 ? 0 : copy];
    /* The simulated founder's key is the mesh's. */
    if (copy < 0 || machine->life != 0 || node == 0 || victim->leaves || victim->is_evicted || !node_id_is_none(victim->was)) {
        return;
    }
    struct random *random = &sim->strike_random;
    bool restarts = sim_chance(random, 500);
    uint64_t delay_ms = sim_log_between(random, 10, 20000), down_ms = sim_log_between(random, 100, 20000);
    SIM_TRACE(sim, node, "COPIED to n%d", copy);
    disk_clone(sim, copy, node);
    machine->id = victim->id;
    memcpy(machine->public_key, victim->public_key, PUBLIC_KEY_BYTES);
    machine->memory = sim_core_memory(sim, copy);
    victim->is_twin = true;
    faults_upset(sim, node, sim->plan.heal_ms); /* the copy runs until then */
    sim_push(sim, sim->now_ms + delay_ms, SIM_BOOT, copy);
    if (restarts) {
        sim_crash(sim, node, false);
        sim_push(sim, sim->now_ms + down_ms, SIM_BOOT, node)->serial = victim->life;
    }
}

void twins_heal(struct sim *sim)
{
    int copy = twins_machine(sim);
    if (sim->former_count > 0) {
        plan_be_patient(&sim->plan); /* a refusal proves nothing where it is not known that the node has moved there */
    }
    if (copy >= 0) {
        sim_crash(sim, copy, false);
        sim->nodes[copy].host_up = true; /* else what ran there is waited for, which no plan allows time for */
        sim->nodes[copy].is_gone = sim->nodes[copy].refuses = true;
        bool has_given_way = !node_id_is_none(sim->nodes[copy].was);
        if (sim->nodes[copy].life != 0 && !has_given_way && sim_find_node(sim, sim->nodes[copy].id) == copy) {
            plan_be_patient(&sim->plan); /* it is looked for where it was copied: who answers there has another key now */
        }
    }
}

/* ---- what is looked at ---------------------------------------------------------------------------------------------- */

/* A daemon that the members reach at another address is found by its own words, so it has to know where the member is. One that
 * came to know few members before its disk was copied, all of them behind a blocked link now, tells nobody (roof/twin.c). */
static bool has_address_of(const struct sim *sim, int node, int member)
{
    const struct core_peer *peer = core_find_peer(sim->nodes[node].core, sim->nodes[member].id);
    return peer != NULL && peer->address[0] != '\0';
}

/* Somebody tells them of each other. */
static bool have_witness(const struct sim *sim, int a, int b)
{
    for (int node = 0; node < (int)sim->plan.node_count; node++) {
        const struct sim_node *self = &sim->nodes[node];
        if (node != a && sim_runs(sim, node) && !self->is_evicted && !self->leaves && !self->core->is_out &&
            self->calm_from_ms <= sim->now_ms && network_talks(sim, node, a) && network_talks(sim, node, b) &&
            core_find_peer(self->core, sim->nodes[a].id) != NULL && has_address_of(sim, a, node) &&
            has_address_of(sim, b, node)) {
            return true;
        }
    }
    return false;
}

/* A node that had yielded and went on as it was has vouched for a key with which nobody runs. Somebody tidies up: if it yields
 * again it needs another one. */
static void tidy(struct sim *sim, int node)
{
    const struct sim_node *self = &sim->nodes[node];
    struct random random;
    random_init_stream(&random, sim->seed, STREAM_OF_TIDYING + ((uint64_t)node << 32) + sim->now_ms / 1000);
    if (sim->plan.version < 6 || sim->healed || !sim_runs(sim, node) || self->core->is_out || !sim_chance(&random, 200)) {
        return;
    }
    uint8_t key[PUBLIC_KEY_BYTES];
    next_key(sim, node, key);
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.client = FAULTS_EVICT_CLIENT;
    event.u.request.kind = NODE_REQUEST_EVICT;
    event.u.request.node = node_id_of_key(key);
    const struct view_member *member = view_find_member(&self->core->view, event.u.request.node);
    if (member != NULL && !member->evicted && !member->has_node) {
        SIM_TRACE(sim, node, "EVICT of a key that nobody has");
        sim_step(sim, node, &event);
    }
}

void twins_watch(struct sim *sim)
{
    int copy = twins_machine(sim);
    for (int node = 0; node < (int)sim->plan.node_count && sim->plan.has[FAULT_MOVE] && sim->now_ms / 1000 % BEACON_S == 0; node++) {
        tell_where(sim, node);
    }
    for (int node = 0; copy >= 0 && node <= copy; node++) {
        if (sim->nodes[node].is_twin && !sim->failed) {
            tidy(sim, node);
        }
    }
    if (copy < 0 || !sim_runs(sim, copy)) {
        sim->twins_disturbed_ms = sim->now_ms;
        return;
    }
    for (int node = 0; node < (int)sim->plan.node_count; node++) {
        const struct sim_node *self = &sim->nodes[node];
        if (!node_id_equal(self->id, sim->nodes[copy].id)) {
            continue;
        }
        checkers_met(sim, PREMISE_2_TWINS);
        bool is_calm = sim_runs(sim, node) && network_talks(sim, node, copy) && have_witness(sim, node, copy) &&
                       sim->now_ms >= self->slow_until_ms && !sim->plan.blurs_time && !sim->plan.has[FAULT_LOSS] &&
                       !self->is_evicted && !self->leaves && !self->disk.is_full;
        bool yields = is_calm && core_twin_yields(self->core->twin);
        is_calm &= yields == core_twin_yields(sim->nodes[copy].core->twin); /* who yields waits for its last worker */
        if (!is_calm) {
            sim->twins_disturbed_ms = sim->now_ms;
        } else if (sim->now_ms - sim->twins_disturbed_ms > TOLD_APART_MS) {
            sim_fail(sim, 2, "n%d and n%d have had one key for %llu ms, undisturbed, and both %s", node, copy,
                     (unsigned long long)(sim->now_ms - sim->twins_disturbed_ms), yields ? "yield" : "go on");
        }
        return;
    }
}
