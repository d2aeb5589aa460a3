#include "tests/sim/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/probe.h"
#include "node/core/ground/publish.h"
#include "tests/sim/checkers.h"
#include "tests/sim/outputs.h"
#include "tests/sim/copies.h"
#include "tests/sim/faults.h"
#include "tests/sim/owners.h"
#include "tests/sim/trace.h"
#include "tests/sim/users.h"

#define CORE_MEMORY_BYTES ((size_t)8 << 20)
#define ARENA_BYTES ((size_t)256 << 20)
#define HEAP_MAX (1u << 16)
#define EVENTS_MAX 20000000u /* of one seed: a core that asks for ticks without end */

struct sim_memory {
    struct sim sim;
    struct users users;
    struct checkers *checkers;
    struct sim_blob *blobs;
    struct sim_event *heap;
    struct node_effect *effects;
    uint8_t *effect_bytes;
    uint8_t *cores;
    uint8_t *arena;
    uint8_t *scratch;
    char (*ring)[SIM_LINE_BYTES];
};

/* Address space only: pages appear as they are used, and stay for the next seed. */
static void *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

struct sim_memory *sim_memory_new(void)
{
    struct sim_memory *memory = map(sizeof *memory);
    memory->checkers = checkers_new();
    memory->blobs = map(BLOBS_MAX * sizeof *memory->blobs);
    memory->heap = map(HEAP_MAX * sizeof *memory->heap);
    memory->effects = map(NODE_EFFECTS_MAX * sizeof *memory->effects);
    memory->effect_bytes = map(NODE_EFFECT_BYTES_MAX);
    memory->cores = map(PLAN_NODES_MAX * CORE_MEMORY_BYTES);
    memory->arena = map(ARENA_BYTES);
    memory->scratch = map(SIM_SCRATCH_BYTES);
    memory->ring = map(SIM_RING_LINES * SIM_LINE_BYTES);
    CHECK(memory->checkers != NULL);
    return memory;
}

void sim_memory_destroy(struct sim_memory **memory)
{
    struct sim_memory *m = *memory;
    checkers_destroy(&m->checkers);
    (void)munmap(m->blobs, BLOBS_MAX * sizeof *m->blobs);
    (void)munmap(m->heap, HEAP_MAX * sizeof *m->heap);
    (void)munmap(m->effects, NODE_EFFECTS_MAX * sizeof *m->effects);
    (void)munmap(m->effect_bytes, NODE_EFFECT_BYTES_MAX);
    (void)munmap(m->cores, PLAN_NODES_MAX * CORE_MEMORY_BYTES);
    (void)munmap(m->arena, ARENA_BYTES);
    (void)munmap(m->scratch, SIM_SCRATCH_BYTES);
    (void)munmap(m->ring, SIM_RING_LINES * SIM_LINE_BYTES);
    (void)munmap(m, sizeof *m);
    *memory = NULL;
}

/* ---- draws ---------------------------------------------------------------------------------------------------------- */

uint64_t sim_between(struct random *random, uint64_t low, uint64_t high)
{
    CHECK(low <= high);
    return low + random_below(random, high - low + 1);
}

/* Integers only, so that every machine draws the same: a power of two, then uniform within it. */
uint64_t sim_log_between(struct random *random, uint64_t low, uint64_t high)
{
    CHECK(low > 0 && low <= high);
    uint64_t octaves = 0;
    while (low << octaves < high) {
        octaves++;
    }
    uint64_t from = low << (octaves > 0 ? random_below(random, octaves) : 0);
    uint64_t to = from * 2 < high ? from * 2 : high;
    return sim_between(random, from, to);
}

/* Geometric, in steps of an eighth of the mean. */
uint64_t sim_wait(struct random *random, uint64_t mean)
{
    uint64_t grain = mean / 8 + 1, steps = 0;
    while (steps < 80 && random_below(random, 8) != 0) {
        steps++;
    }
    return steps * grain + random_below(random, grain);
}

bool sim_chance(struct random *random, uint32_t permille)
{
    return random_below(random, 1000) < permille;
}

/* ---- the queue ------------------------------------------------------------------------------------------------------ */

static bool is_before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->order < b->order;
}

static struct sim_event *sift_up(struct sim *sim, struct sim_event moved)
{
    CHECK(sim->heap_count < HEAP_MAX);
    uint32_t i = sim->heap_count++;
    while (i > 0 && is_before(&moved, &sim->heap[(i - 1) / 2])) {
        sim->heap[i] = sim->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    sim->heap[i] = moved;
    return &sim->heap[i];
}

static void sift_down(struct sim *sim, uint32_t i, struct sim_event moved)
{
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= sim->heap_count) {
            break;
        }
        child += child + 1 < sim->heap_count && is_before(&sim->heap[child + 1], &sim->heap[child]);
        if (!is_before(&sim->heap[child], &moved)) {
            break;
        }
        sim->heap[i] = sim->heap[child];
        i = child;
    }
    sim->heap[i] = moved;
}

static struct sim_event pop(struct sim *sim)
{
    struct sim_event first = sim->heap[0];
    sim->heap_count--;
    sift_down(sim, 0, sim->heap[sim->heap_count]);
    return first;
}

struct sim_event *sim_push(struct sim *sim, uint64_t at_ms, enum sim_event_kind kind, int node)
{
    CHECK(at_ms >= sim->now_ms);
    return sift_up(sim, (struct sim_event){.at_ms = at_ms, .order = ++sim->order, .kind = (uint8_t)kind, .node = (uint8_t)node});
}

void *sim_payload(struct sim *sim, struct sim_event *event, uint32_t bytes)
{
    event->payload = arena_take(&sim->arena, bytes);
    event->payload_bytes = bytes;
    CHECK(event->payload != NULL);
    return event->payload;
}

void sim_again(struct sim *sim, struct sim_event *event, uint64_t at_ms)
{
    struct sim_event later = *event;
    later.at_ms = at_ms > sim->now_ms ? at_ms : sim->now_ms + 1;
    later.order = ++sim->order;
    (void)sift_up(sim, later);
    event->payload = NULL; /* goes with the new one */
}

/* ---- nodes ---------------------------------------------------------------------------------------------------------- */

bool sim_daemon_up(const struct sim *sim, int node)
{
    return sim->nodes[node].core != NULL;
}

bool sim_paused(const struct sim *sim, int node)
{
    return sim->now_ms < sim->nodes[node].paused_until_ms;
}

bool sim_runs(const struct sim *sim, int node)
{
    return sim_daemon_up(sim, node) && !sim_paused(sim, node);
}

int sim_find_node(const struct sim *sim, node_id id)
{
    for (uint32_t i = 0; i < sim->machines && !node_id_is_none(id); i++) {
        if (node_id_equal(sim->nodes[i].id, id)) {
            return (int)i;
        }
    }
    for (uint32_t i = 0; i < sim->machines; i++) {
        if (node_id_equal(sim->nodes[i].was, id) && !node_id_is_none(id)) {
            return (int)i;
        }
    }
    return -1;
}

void *sim_core_memory(struct sim *sim, int node)
{
    return sim->memory->cores + (size_t)node * CORE_MEMORY_BYTES;
}

void sim_hurry(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->heap_count; i++) {
        struct sim_event *event = &sim->heap[i];
        bool was_put_off = sim_paused(sim, event->node) && event->at_ms == sim->nodes[event->node].paused_until_ms;
        if (was_put_off || event->kind == SIM_DISK) {
            event->at_ms = sim->now_ms;
        } else if (event->kind == SIM_MESSAGE) {
            network_hurry(sim, event);
        }
    }
    for (uint32_t i = sim->heap_count; i-- > 0;) {
        sift_down(sim, i, sim->heap[i]);
    }
    for (uint32_t i = 0; i < sim->plan.node_count; i++) {
        sim->nodes[i].paused_until_ms = 0;
    }
}

/* ---- effects -------------------------------------------------------------------------------------------------------- */

/* True if tokens may have changed. */
static bool perform(struct sim *sim, int node, const struct node_effect *effect)
{
    int other;
    switch (effect->kind) {
    case NODE_EFFECT_SEND:
        other = twins_route(sim, node, effect->u.send.to);
        checkers_on_send(sim, node, effect);
        if (other >= 0 && other != node) {
            network_send(sim, node, other, effect->u.send.to, &effect->u.send.message);
        }
        return false;
    case NODE_EFFECT_PERSIST_RECORD:
    case NODE_EFFECT_PERSIST_FENCE:
    case NODE_EFFECT_FORGET_RECORD:
    case NODE_EFFECT_FORGET_FENCE:
        disk_write(sim, node, effect);
        return false;
    case NODE_EFFECT_PEER:
        twins_peer(sim, node, effect);
        return false;
    case NODE_EFFECT_ADMIT:
        twins_admit(sim, node, effect);
        return false;
    case NODE_EFFECT_CHECK_LINK:
        other = twins_machine_at(sim, effect->u.peer.node, effect->u.peer.address);
        if (other < 0 && sim->plan.has[FAULT_MOVE]) {
            other = NETWORK_STRANGER;
        }
        if (other >= 0) {
            network_probe(sim, node, other, effect->u.peer.node, effect->u.peer.address);
        }
        return false;
    case NODE_EFFECT_PREPARE:
        workers_prepare(sim, node, effect);
        return false;
    case NODE_EFFECT_SPAWN:
        SIM_TRACE(sim, node, "SPAWN trial %u attempt %u rank %u of %u in slot %u from step %llu", effect->u.worker.attempt.trial,
                  effect->u.worker.attempt.number, effect->u.worker.rank, effect->u.worker.size, effect->u.worker.slot,
                  (unsigned long long)effect->u.worker.step);
        workers_spawn(sim, node, effect);
        return true;
    case NODE_EFFECT_KILL:
        SIM_TRACE(sim, node, "KILL trial %u attempt %u in slot %u", effect->u.worker.attempt.trial,
                  effect->u.worker.attempt.number, effect->u.worker.slot);
        workers_kill(sim, node, effect);
        return true;
    case NODE_EFFECT_STOP_WORKER:
        SIM_TRACE(sim, node, "STOP trial %u in slot %u: %s", effect->u.worker.attempt.trial, effect->u.worker.slot,
                  effect->u.worker.text);
        checkers_on_asked(sim, node, &effect->u.worker.attempt, effect->u.worker.text);
        workers_stop(sim, node, effect);
        return false;
    case NODE_EFFECT_GROUP:
        workers_group(sim, node, effect);
        return false;
    case NODE_EFFECT_LEAVE_GROUP:
        workers_leave(sim, node, effect);
        return false;
    case NODE_EFFECT_COLLECT:
        copies_collect(sim, node, effect);
        return false;
    case NODE_EFFECT_CONFIRM:
    case NODE_EFFECT_PUSH:
        blobs_push(sim, node, effect);
        return false;
    case NODE_EFFECT_REPLY:
        SIM_TRACE(sim, node, "REPLY %d stored on %u: %s", (int)effect->u.reply.code, effect->u.reply.stored_on,
                  effect->u.reply.text);
        if (effect->u.reply.client == FAULTS_LEAVE_CLIENT) {
            faults_left(sim, node);
        } else if (effect->u.reply.client >= OWNERS_CLIENT) {
            owners_reply(sim, effect);
        } else {
            users_reply(sim, node, effect);
        }
        return false;
    case NODE_EFFECT_DURABLE:
        checkers_on_durable(sim, node, effect);
        return false;
    case NODE_EFFECT_SEARCHER_START:
    case NODE_EFFECT_SEARCHER_TELL:
    case NODE_EFFECT_SEARCHER_STOP:
        searchers_effect(sim, node, effect);
        return false;
    case NODE_EFFECT_OUTPUT_DONE:
        outputs_done(sim, node, effect);
        return false;
    case NODE_EFFECT_WELCOME:
        twins_welcome(sim, effect);
        return false;
    case NODE_EFFECT_NEW_KEY:
        twins_new_key(sim, node, effect->u.new_key.afresh);
        return false;
    case NODE_EFFECT_BECOME:
        twins_become(sim, node);
        return false;
    }
    return false;
}

uint64_t sim_clock(const struct sim *sim, int node, uint64_t at_ms)
{
    const struct sim_node *self = &sim->nodes[node];
    return self->clock_offset_ms + (uint64_t)((int64_t)at_ms + (int64_t)at_ms * self->drift_ppm / 1000000);
}

uint64_t sim_clock_reaches(const struct sim *sim, int node, uint64_t core_ms)
{
    const struct sim_node *self = &sim->nodes[node];
    if (core_ms <= self->clock_offset_ms) {
        return 0;
    }
    uint64_t shown_ms = core_ms - self->clock_offset_ms;
    if (self->drift_ppm == 0 || shown_ms > UINT32_MAX) {
        return shown_ms;
    }
    return (uint64_t)((int64_t)shown_ms * 1000000 / (1000000 + self->drift_ppm)) + 1;
}

/* What has come of a step, or of what was done to the core behind one. */
static void perform_all(struct sim *sim, int node, bool has_tokens)
{
    for (uint32_t i = 0; i < sim->effects.count; i++) {
        const struct node_effect *effect = &sim->effects.items[i];
        trace_effect(sim, effect, i > 0 ? effect - 1 : NULL);
        has_tokens |= perform(sim, node, effect);
    }
    if (has_tokens) {
        checkers_tokens(sim, node);
    }
}

void sim_step(struct sim *sim, int node, struct node_event *event)
{
    struct sim_node *self = &sim->nodes[node];
    event->now_ms = sim_clock(sim, node, sim->now_ms);
    event->wall_s = 1700000000u + (sim->now_ms + self->clock_offset_ms % 5000) / 1000 + (uint64_t)self->wall_shift_s;
    sim->steps++;
    sim->tracing_node = node;
    sim->effects.count = 0;
    sim->effects.used_bytes = 0;
    trace_event(sim, event);
    checkers_queue_before(sim, node);
    node_core_step(self->core, event, &sim->effects);
    checkers_queue_after(sim, node, event);
    perform_all(sim, node, event->kind == NODE_EVENT_WORKER_EXITED);
    checkers_on_step(sim, node);
    outputs_know(sim, node);
    checkers_incumbents(sim, node);
    uint64_t next_ms = sim_clock_reaches(sim, node, node_core_next_ms(self->core));
    self->tick_ms = next_ms > sim->now_ms ? next_ms : sim->now_ms + 1;
    if (sim->now_ms < self->slow_until_ms) {
        self->tick_ms += sim_wait(&sim->random[STREAM_SLOWNESS], self->slow_ms);
    }
}

bool sim_put(struct sim *sim, int node, uint16_t kind, const struct fact_key *key, const uint8_t *body, uint32_t count,
             struct record_version *version)
{
    struct node_core *core = sim->nodes[node].core;
    uint8_t bytes[RECORD_BODY_BYTES_MAX];
    CHECK(count <= sizeof bytes);
    memcpy(bytes, body, count);
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    writer.used_bytes = count;
    sim->effects.count = 0;
    sim->effects.used_bytes = 0;
    core->out = &sim->effects;
    bool is_put = core_put(core, (enum fact_kind)kind, *key, &writer) != NULL;
    core->out = NULL;
    const struct records_entry *entry =
        records_find(&core->records, record_ident_of(core->options.self, kind, key->bytes, key->count));
    if (is_put) {
        *version = entry->record.version;
        SIM_TRACE(sim, node, "WRITES a record of kind %u", (unsigned)kind);
    }
    perform_all(sim, node, false);
    return is_put;
}

static struct fact_node node_fact(const struct sim *sim, int node, struct version_range speaks)
{
    struct fact_node fact = {.protocol_min = speaks.oldest, .protocol_max = speaks.newest, .address_count = 1, .bulk_port = 4001};
    format_text(fact.name, sizeof fact.name, "n%d", node);
    bytes_copy_text(fact.version, sizeof fact.version, "0.1.0");
    bytes_copy_text(fact.addresses[0], sizeof fact.addresses[0], sim->nodes[node].address);
    fact.reads = (sim->plan.version > 12 ? FACT_READS_STOP : 0) |
                 (sim->plan.version > 14 ? FACT_READS_ANNOTATION | FACT_READS_SEARCH | FACT_READS_DRAWN | FACT_READS_PROMOTION |
                                               FACT_READS_EXTENSION | FACT_READS_POPULATION | FACT_READS_DRAWN_PROMOTION
                                         : 0);
    fact.reads |= sim->plan.version > 17 ? FACT_READS_PARTS : 0;
    fact.reads |= sim->plan.version > 18 ? FACT_READS_CUSTOM : 0;
    fact.reads |= sim->plan.version > 21 ? FACT_READS_USAGE : 0;
    fact.reads |= plan_has_retries(&sim->plan) ? FACT_READS_RETRY : 0;
    fact.slot_count = sim->plan.slots[node];
    for (uint32_t slot = 0; slot < fact.slot_count; slot++) {
        format_text(fact.slots[slot].uuid, sizeof fact.slots[slot].uuid, "cpu-%d-%u", node, slot);
        bytes_copy_text(fact.slots[slot].model, sizeof fact.slots[slot].model, "share of a CPU");
        fact.slots[slot].kind = FACT_SLOT_CPU;
        fact.slots[slot].memory_bytes = 1u << 30;
    }
    return fact;
}

static void load_disk(struct sim *sim, int node)
{
    const struct disk *disk = &sim->nodes[node].disk;
    for (uint32_t i = 0; i < disk->capacity; i++) {
        struct disk_entry *entry = &disk->entries[i];
        if (!entry->is_used || !entry->is_stored) {
            continue;
        }
        entry->seen = entry->is_fence ? (struct record_version){0} : entry->version;
        struct node_event event = {.kind = entry->is_fence ? NODE_EVENT_LOAD_FENCE : NODE_EVENT_LOAD_RECORD,
                                   .bytes = entry->bytes,
                                   .byte_count = entry->byte_count};
        sim_step(sim, node, &event);
    }
}

void sim_boot(struct sim *sim, int node)
{
    struct sim_node *self = &sim->nodes[node];
    CHECK(self->core == NULL && self->host_up);
    self->life++;
    self->boot = (uint64_t)(++self->disk.boots + 1) << 32 | (random_u64(&sim->random[STREAM_NODES]) & UINT32_MAX);
    self->disk.is_boot_synced = !BUG(boot_not_synced, "the number of a boot is on the disk before that life begins");
    memset(self->peer, 0, sizeof self->peer);
    memset(self->admit, 0, sizeof self->admit);
    self->link_count = 0;
    struct node_options options = {
        .self = self->id,
        .mesh = sim->mesh,
        .boot = self->boot,
        .seed = random_u64(&sim->random[STREAM_NODES]),
        .now_ms = sim_clock(sim, node, sim->now_ms),
        .wall_s = 1700000000u + sim->now_ms / 1000,
        .node = node_fact(sim, node, self->speaks),
        .memory = self->memory,
        .memory_bytes = CORE_MEMORY_BYTES,
    };
    memcpy(options.public_key, self->public_key, PUBLIC_KEY_BYTES);
    if (sim->tracing) {
        options.trace = (struct trace){trace_core_line, sim};
    }
    SIM_TRACE(sim, node, "BOOT, life %u", self->life);
    self->core = node_core_init(&options);
    CHECK(self->core != NULL);
    checkers_on_life(sim, node);
    load_disk(sim, node);
    workers_adopt(sim, node);
    checkers_on_adopted(sim, node);
    struct node_event start = {.kind = NODE_EVENT_START};
    sim_step(sim, node, &start);
    checkers_on_boot(sim, node);
    if (self->disk.is_full) {
        struct node_event full = {.kind = NODE_EVENT_DISK};
        full.u.disk.full = true;
        sim_step(sim, node, &full);
    }
    workers_daemon_up(sim, node);
}

void sim_crash(struct sim *sim, int node, bool host)
{
    struct sim_node *self = &sim->nodes[node];
    SIM_TRACE(sim, node, "CRASH of %s", host ? "the machine" : "the daemon");
    self->paused_until_ms = 0;
    self->is_suspended = false;
    if (self->core != NULL) {
        self->core = NULL;
        self->down_since_ms = sim->now_ms;
        disk_crash(sim, node);
        checkers_on_down(sim, node);
        searchers_daemon_down(sim, node);
        workers_daemon_down(sim, node);
    }
    if (host && self->host_up) {
        self->host_up = false;
        workers_host_down(sim, node);
    }
}

/* ---- the beginning -------------------------------------------------------------------------------------------------- */

static uint32_t encode(const struct sim *sim, int writer, enum fact_kind kind, struct fact_key key, uint64_t seq,
                       const struct pack_writer *body, uint8_t out[RECORD_ENVELOPE_BYTES_MAX])
{
    CHECK(!body->failed);
    struct record record = {.kind = (uint16_t)kind,
                            .writer = node_id_of_key(sim->nodes[writer].first_key),
                            .version = {(uint64_t)1 << 32, seq},
                            .key = key.bytes,
                            .key_bytes = key.count,
                            .body = body->bytes,
                            .body_bytes = (uint16_t)body->used_bytes};
    size_t count = record_encode(&record, out, RECORD_ENVELOPE_BYTES_MAX);
    CHECK(count > 0);
    disk_sign(out, count, out + count - RECORD_SIGNATURE_BYTES);
    return (uint32_t)count;
}

/* The founder has vouched for everybody. Either all know all of it, or the others know the founder and themselves, as
 * after a join, and the rest must spread. */
void sim_preload(struct sim *sim, int only)
{
    static const uint8_t nonce[16] = {7};
    uint8_t body[RECORD_BODY_BYTES_MAX], member[RECORD_ENVELOPE_BYTES_MAX], about[RECORD_ENVELOPE_BYTES_MAX];
    for (int node = 0; node < (int)sim->plan.node_count; node++) {
        struct fact_member fact = {0};
        struct pack_writer writer;
        memcpy(fact.public_key, sim->nodes[node].first_key, PUBLIC_KEY_BYTES);
        format_text(fact.name, sizeof fact.name, "n%d", node);
        if (node == 0) {
            memcpy(fact.nonce, nonce, sizeof nonce);
        }
        pack_writer_init(&writer, body, sizeof body);
        fact_member_pack(&writer, &fact);
        uint32_t member_bytes =
            encode(sim, 0, FACT_MEMBER, fact_key_node_id(node_id_of_key(fact.public_key)), (uint64_t)node + 1, &writer, member);
        struct fact_node itself = node_fact(sim, node, version_ours()); /* as it was then */
        pack_writer_init(&writer, body, sizeof body);
        fact_node_pack(&writer, &itself);
        uint32_t about_bytes = encode(sim, node, FACT_NODE, fact_key_empty(), 100, &writer, about);
        for (int at = 0; at < (int)sim->plan.node_count; at++) {
            bool is_known = !sim->plan.is_partial_roster || node == 0 || at == node;
            if (only >= 0 && at != only) {
                continue;
            }
            if (is_known || at == 0) {
                disk_preload(sim, at, member, member_bytes);
            }
            if (is_known) {
                disk_preload(sim, at, about, about_bytes);
            }
        }
    }
}

/* Something of a later version, on one disk only: it must be relayed all the same. */
static void preload_unknown_kind(struct sim *sim)
{
    static uint8_t body[40];
    uint8_t envelope[RECORD_ENVELOPE_BYTES_MAX];
    struct pack_writer writer;
    pack_writer_init(&writer, body, sizeof body);
    pack_text(&writer, "a kind that nobody here knows");
    int node = (int)sim->plan.node_count - 1;
    uint32_t count = encode(sim, node, (enum fact_kind)SIM_UNKNOWN_KIND, fact_key_empty(), 200, &writer, envelope);
    disk_preload(sim, node, envelope, count);
}

static void create_nodes(struct sim *sim)
{
    struct random *random = &sim->random[STREAM_NODES];
    static const uint8_t nonce[16] = {7};
    for (uint32_t i = 0; i < sim->plan.node_count; i++) {
        struct sim_node *node = &sim->nodes[i];
        for (size_t b = 0; b < PUBLIC_KEY_BYTES; b++) {
            node->public_key[b] = (uint8_t)random_u64(random);
        }
        memcpy(node->first_key, node->public_key, PUBLIC_KEY_BYTES);
        node->id = node_id_of_key(node->public_key);
        node->clock_offset_ms = sim_log_between(random, 1000, 1u << 30);
        if (sim->plan.has[FAULT_DRIFT]) {
            node->drift_ppm = (int64_t)random_below(&sim->random[STREAM_CLOCKS], 2 * sim->plan.drift_ppm + 1) -
                              (int64_t)sim->plan.drift_ppm;
        }
        node->memory = sim_core_memory(sim, (int)i);
        node->host_up = true;
    }
    sim->mesh = mesh_id_of_founder(sim->nodes[0].public_key, nonce);
}

static void begin(struct sim_memory *memory, const struct sim_run *run)
{
    struct sim *sim = &memory->sim;
    memset(sim, 0, sizeof *sim);
    memset(&memory->users, 0, sizeof memory->users);
    checkers_reset(memory->checkers);
    memset(memory->blobs, 0, BLOBS_MAX * sizeof *memory->blobs);
    sim->memory = memory;
    sim->seed = run->seed;
    sim->tracing = run->tracing;
    sim->verbose = run->verbose;
    sim->users = &memory->users;
    sim->checkers = memory->checkers;
    sim->scratch = memory->scratch;
    sim->blobs.all = memory->blobs;
    sim->heap = memory->heap;
    sim->ring = memory->ring;
    sim->effects.items = memory->effects;
    sim->effects.bytes = memory->effect_bytes;
    arena_init(&sim->arena, memory->arena, ARENA_BYTES);
    for (uint64_t i = 0; i < STREAM_COUNT; i++) {
        random_init_stream(&sim->random[i], run->seed, i);
    }
    plan_draw(&sim->plan, sim->random, run);
    sim->skipped = run->skipped;
    create_nodes(sim);
    versions_init(sim);
    twins_init(sim);
    network_init(sim);
    sim_preload(sim, -1);
    if (sim->plan.version > 1) {
        preload_unknown_kind(sim);
    }
    for (int node = 0; node < (int)sim->plan.node_count; node++) {
        (void)sim_push(sim, random_below(&sim->random[STREAM_NODES], 3000), SIM_BOOT, node);
    }
    users_init(sim);
    faults_init(sim);
    owners_init(sim);
    SIM_TRACE(sim, 0, "%u nodes, %s roster, %s", sim->plan.node_count, sim->plan.is_partial_roster ? "partial" : "whole",
              sim->plan.uses_codec ? "messages as bytes" : "messages as structs");
    for (int fault = 0; fault < FAULT_COUNT; fault++) {
        if (sim->plan.has[fault]) {
            SIM_TRACE(sim, 0, "this seed has %s", plan_fault_name((enum plan_fault)fault));
        }
    }
    (void)sim_push(sim, sim->plan.heal_ms, SIM_HEAL, 0);
    (void)sim_push(sim, 1000, SIM_SECOND, 0);
}

/* ---- the run -------------------------------------------------------------------------------------------------------- */

static void dispatch(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    switch ((enum sim_event_kind)event->kind) {
    case SIM_MESSAGE:
        network_deliver(sim, event);
        break;
    case SIM_DISK:
        disk_commit_done(sim, event);
        break;
    case SIM_BOOT:
        if (event->serial == node->life && !node->is_gone && node->host_up && node->core == NULL) {
            sim_boot(sim, event->node);
        }
        break;
    case SIM_HOST_UP:
        if (event->serial == node->life && !node->is_gone) {
            node->host_up = true;
        }
        break;
    case SIM_LINK:
        network_probed(sim, event);
        break;
    case SIM_USER:
        users_act(sim, event);
        break;
    case SIM_USER_WAITS:
        users_wait_over(sim, event);
        break;
    case SIM_OWNER:
        owners_act(sim, event);
        break;
    case SIM_FAULT:
        faults_strike(sim, event);
        break;
    case SIM_STRUCK_DOWN:
        faults_strike_down(sim, event);
        break;
    case SIM_DISK_ROOM:
        if (sim_paused(sim, event->node)) {
            sim_again(sim, event, node->paused_until_ms);
        } else {
            disk_set_full(sim, event->node, false);
        }
        break;
    case SIM_KEY:
        twins_key(sim, event);
        break;
    case SIM_BECOMES:
        twins_became(sim, event);
        break;
    case SIM_JOINS:
        twins_join(sim, event);
        break;
    case SIM_UPDATED:
        versions_updated(sim, event);
        break;
    case SIM_WRITES:
        versions_write(sim, event);
        break;
    case SIM_HEAL:
        SIM_TRACE(sim, 0, "HEAL: core %x", sim->plan.core);
        versions_heal(sim);
        checkers_on_heal(sim);
        faults_heal(sim);
        versions_healed(sim);
        users_heal(sim);
        break;
    case SIM_PUSHED:
        blobs_event(sim, event);
        break;
    case SIM_SEARCHER:
        searchers_event(sim, event);
        break;
    case SIM_LOOKS:
        users_look(sim, event);
        break;
    case SIM_COLLECTS:
    case SIM_SCRUB:
    case SIM_MEND:
        copies_event(sim, event);
        break;
    case SIM_SECOND:
        checkers_second(sim);
        workers_check_hung(sim);
        (void)sim_push(sim, sim->now_ms + 1000, SIM_SECOND, 0);
        break;
    default:
        workers_event(sim, event);
        break;
    }
}

/* The node whose tick is due first, or -1; ticks are not in the queue, since most are put off before they come. */
static int next_tick(const struct sim *sim, uint64_t *at_ms)
{
    int first = -1;
    for (uint32_t i = 0; i < sim->machines; i++) {
        const struct sim_node *node = &sim->nodes[i];
        if (node->core == NULL) {
            continue;
        }
        uint64_t due_ms = node->tick_ms > node->paused_until_ms ? node->tick_ms : node->paused_until_ms;
        if (first < 0 || due_ms < *at_ms) {
            first = (int)i;
            *at_ms = due_ms;
        }
    }
    return first;
}

static bool is_over(struct sim *sim)
{
    return sim->now_ms >= sim->plan.end_ms && !(checkers_has_choosy_trials(sim) && plan_be_choosy(&sim->plan));
}

static void run_on(struct sim *sim)
{
    while (!sim->failed && !is_over(sim)) {
        uint64_t tick_ms = 0;
        int ticking = next_tick(sim, &tick_ms);
        bool is_tick = ticking >= 0 && tick_ms < sim->heap[0].at_ms;
        if (++sim->events > EVENTS_MAX) {
            sim_fail(sim, 15, "more than %u events", EVENTS_MAX);
        } else if (is_tick) {
            sim->now_ms = tick_ms > sim->now_ms ? tick_ms : sim->now_ms;
            trace_word(sim, sim->now_ms << 8 | (uint64_t)ticking);
            struct node_event event = {.kind = NODE_EVENT_TICK};
            sim_step(sim, ticking, &event);
        } else {
            struct sim_event event = pop(sim);
            void *payload = event.payload;
            sim->now_ms = event.at_ms;
            trace_word(sim, sim->now_ms << 16 | (uint64_t)event.kind << 8 | event.node);
            dispatch(sim, &event);
            if (payload != NULL && event.payload != NULL) {
                arena_give(&sim->arena, payload, event.payload_bytes);
            }
        }
    }
    if (!sim->failed) {
        checkers_end(sim);
    }
}

void sim_write_events(const struct sim_memory *memory, int file)
{
    trace_write(&memory->sim, file);
}

void sim_run(struct sim_memory *memory, const struct sim_run *run, struct sim_result *out)
{
    struct sim *sim = &memory->sim;
    begin(memory, run);
    run_on(sim);
    memset(out, 0, sizeof *out);
    out->failed = sim->failed;
    out->invariant = sim->invariant;
    memcpy(out->failure, sim->failure, sizeof out->failure);
    out->events = sim->events;
    out->steps = sim->steps;
    out->digest = sim->digest;
    out->strikes = sim->strikes;
    for (int fault = 0; fault < FAULT_COUNT; fault++) {
        out->classes |= sim->plan.has[fault] ? 1ull << fault : 0;
    }
    for (int i = 0; run->premises != NULL && i < PREMISE_COUNT; i++) {
        run->premises[i] += checkers_premises(sim->checkers)[i];
    }
    if (sim->failed && run->tracing && !run->verbose) {
        (void)fflush(stdout);
        trace_write(sim, STDOUT_FILENO);
    }
}
