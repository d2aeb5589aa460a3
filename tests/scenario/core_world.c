#include "tests/scenario/core_world.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/err.h"

#define CORE_BYTES (16u << 20)
#define WALL_S 1700000000u

/* Something that will happen to a node, with copies of all that the event borrows. */
struct world_event {
    struct world_event *next;
    uint64_t at_ms;
    uint32_t node;
    uint64_t boot; /* meant for this life of the node; 0: for any */
    struct node_event event;
    struct message message;
    uint8_t *bytes;
};

/* ---- the log -------------------------------------------------------------------------------------------------------------- */

static void say(struct world *world, uint32_t node, char mark, const char *text)
{
    int written = snprintf(world->log + world->log_bytes, WORLD_LOG_BYTES - world->log_bytes, "%s%c %s\n",
                           world->nodes[node].person.name, mark, text);
    world->log_bytes += (size_t)written;
    CHECK(world->log_bytes < WORLD_LOG_BYTES);
}

struct tracer {
    struct world *world;
    uint32_t node;
};

static void trace_line(void *context, const char *text)
{
    struct tracer *tracer = context;
    say(tracer->world, tracer->node, ':', text);
}

size_t world_find(const struct world *world, size_t from, const char *part)
{
    const char *at = strstr(world->log + from, part);
    return at != NULL ? (size_t)(at - world->log) : SIZE_MAX;
}

uint32_t world_count(const struct world *world, const char *part)
{
    uint32_t count = 0;
    for (size_t at = 0; (at = world_find(world, at, part)) != SIZE_MAX; at++) {
        count++;
    }
    return count;
}

/* ---- events on their way -------------------------------------------------------------------------------------------------- */

static void enqueue(struct world *world, struct world_event *posted)
{
    struct world_event **link = &world->queue;
    while (*link != NULL && (*link)->at_ms <= posted->at_ms) {
        link = &(*link)->next;
    }
    posted->next = *link;
    *link = posted;
}

static void post(struct world *world, uint64_t at_ms, uint32_t node, uint64_t boot, const struct node_event *event)
{
    struct world_event *posted = calloc(1, sizeof *posted);
    posted->at_ms = at_ms;
    posted->node = node;
    posted->boot = boot;
    posted->event = *event;
    const uint8_t *bytes = event->bytes;
    uint32_t count = event->byte_count;
    if (event->kind == NODE_EVENT_MESSAGE) {
        posted->message = *event->u.message.message;
        bytes = posted->message.bytes;
        count = posted->message.byte_count;
    }
    posted->bytes = malloc(count + 1);
    if (count > 0) {
        memcpy(posted->bytes, bytes, count);
    }
    enqueue(world, posted);
}

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

/* ---- the disk ------------------------------------------------------------------------------------------------------------- */

static const char *describe(const struct record *record, char *out, size_t size)
{
    static const char *const slot_states[] = {"free", "reserved", "leased", "releasing", "withheld"};
    static const char *const worker_states[] = {"prepared", "running", "ended"};
    union {
        struct fact_slot slot;
        struct fact_worker worker;
        struct fact_verdict verdict;
        struct fact_claim claim;
    } fact;
    uint32_t number;
    uint64_t step;
    if (record->kind == FACT_SLOT && fact_slot_read(record, &fact.slot) == 0 && fact_key_read_slot(record, &number) == 0) {
        snprintf(out, size, "slot %u %s", number, slot_states[fact.slot.state]);
    } else if (record->kind == FACT_WORKER && fact_worker_read(record, &fact.worker) == 0) {
        snprintf(out, size, "worker %s%s%s", worker_states[fact.worker.state],
                 fact.worker.state == FACT_WORKER_ENDED ? " " : "",
                 fact.worker.state == FACT_WORKER_ENDED ? fact_reason_name(fact.worker.reason) : "");
    } else if (record->kind == FACT_VERDICT && fact_verdict_read(record, &fact.verdict) == 0) {
        snprintf(out, size, "verdict %s", fact_reason_name(fact.verdict.reason));
    } else if (record->kind == FACT_CLAIM && fact_claim_read(record, &fact.claim) == 0) {
        snprintf(out, size, "claim %llu%s", (unsigned long long)fact.claim.term, fact.claim.released ? " released" : "");
    } else if (record->kind == FACT_MANIFEST && fact_key_read_step(record, &step) == 0) {
        snprintf(out, size, "manifest %llu", (unsigned long long)step);
    } else {
        static const char *const names[FACT_GENERATION + 1] = {
            "?",       "member",  "node",     "invite", "slot",     "experiment", "control", "claim",     "attempt",
            "worker",  "verdict", "manifest", "tombstone", "eviction", "drain",      "death",   "quarantine",
            "generation"};
        snprintf(out, size, "%s", record->kind < sizeof names / sizeof names[0] ? names[record->kind] : "unknown");
    }
    return out;
}

static void store_record(struct world_node *node, const uint8_t *bytes, uint32_t count)
{
    struct record record, held;
    CHECK(record_decode(bytes, count, &record) == 0);
    record_ident ident = record_ident_of(record.writer, record.kind, record.key, record.key_bytes);
    uint32_t at = 0;
    for (; at < node->record_count; at++) {
        CHECK(record_decode(node->records[at].bytes, node->records[at].count, &held) == 0);
        if (record_ident_equal(ident, record_ident_of(held.writer, held.kind, held.key, held.key_bytes))) {
            break;
        }
    }
    CHECK(at < WORLD_DISK_MAX);
    node->record_count += at == node->record_count;
    memcpy(node->records[at].bytes, bytes, count);
    node->records[at].count = count;
}

static void store_fence(struct world_node *node, const struct node_effect *effect)
{
    uint32_t at = 0;
    while (at < node->fence_count && memcmp(node->fences[at].key, effect->u.persist.key, 8) != 0) {
        at++;
    }
    CHECK(at < 16 && effect->byte_count <= sizeof node->fences[at].bytes);
    node->fence_count += at == node->fence_count;
    memcpy(node->fences[at].key, effect->u.persist.key, 8);
    memcpy(node->fences[at].bytes, effect->bytes, effect->byte_count);
    node->fences[at].count = effect->byte_count;
}

static void forget(struct world_node *node, const struct node_effect *effect)
{
    for (uint32_t at = 0; effect->kind == NODE_EFFECT_FORGET_FENCE && at < node->fence_count; at++) {
        if (memcmp(node->fences[at].key, effect->u.persist.key, 8) == 0) {
            node->fences[at] = node->fences[--node->fence_count];
        }
    }
    for (uint32_t at = 0; effect->kind == NODE_EFFECT_FORGET_RECORD && at < node->record_count; at++) {
        struct record held;
        CHECK(record_decode(node->records[at].bytes, node->records[at].count, &held) == 0);
        record_ident ident = record_ident_of(held.writer, held.kind, held.key, held.key_bytes);
        if (memcmp(ident.bytes, effect->u.persist.key, sizeof ident.bytes) == 0) {
            node->records[at] = node->records[--node->record_count];
            return;
        }
    }
}

static void persist(struct world *world, uint32_t number, const struct node_effect *effect)
{
    struct world_node *node = &world->nodes[number];
    char what[64], line[128];
    bool is_fence = effect->kind == NODE_EFFECT_PERSIST_FENCE;
    if (is_fence) {
        struct pack_reader reader;
        size_t ignored;
        pack_reader_init(&reader, effect->bytes, effect->byte_count);
        (void)pack_read_array(&reader);
        (void)pack_read_bin(&reader, &ignored);
        snprintf(what, sizeof what, "fence %llu", (unsigned long long)pack_read_u64(&reader));
    } else {
        struct record record;
        CHECK(record_decode(effect->bytes, effect->byte_count, &record) == 0);
        describe(&record, what, sizeof what);
    }
    if (is_fence || effect->u.persist.own) {
        snprintf(line, sizeof line, "persist %s #%llu", what, (unsigned long long)effect->u.persist.ticket);
        say(world, number, '>', line);
    }
    bool is_refused = node->disk_refuses || node->disk_refuses_next > 0;
    node->disk_refuses_next -= node->disk_refuses_next > 0;
    if (!is_refused && is_fence) {
        store_fence(node, effect);
    } else if (!is_refused) {
        store_record(node, effect->bytes, effect->byte_count);
    }
    if (effect->u.persist.ticket != 0) {
        struct node_event event = {.kind = NODE_EVENT_PERSISTED};
        event.u.persisted.ticket = effect->u.persist.ticket;
        event.u.persisted.ok = !is_refused;
        post(world, world->now_ms + world->disk_ms, number, node->boots, &event);
    }
}

/* ---- the network ---------------------------------------------------------------------------------------------------------- */

static bool is_asleep(const struct world *world, uint32_t number)
{
    return world->now_ms < world->nodes[number].asleep_until_ms;
}

static bool is_apart(const struct world *world, uint32_t a, uint32_t b)
{
    return is_asleep(world, a) || is_asleep(world, b) || world->nodes[a].is_cut || world->nodes[b].is_cut || world->nodes[a].side != world->nodes[b].side;
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

static void connect_peer(struct world *world, uint32_t number, const struct node_effect *effect)
{
    struct world_node *node = &world->nodes[number];
    uint32_t at = 0;
    while (at < node->link_count && !node_id_equal(node->links[at].id, effect->u.peer.node)) {
        at++;
    }
    if (effect->u.peer.gone) {
        say(world, number, '>', "disconnect");
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

static void send_message(struct world *world, uint32_t number, const struct node_effect *effect)
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
    if (to == UINT32_MAX) {
        return; /* on the roster, but nowhere in this world */
    }
    if (names[message->kind] != NULL) {
        char line[64];
        snprintf(line, sizeof line, "send %s %s", names[message->kind], world->nodes[to].person.name);
        say(world, number, '>', line);
    }
    bool is_lost = world->loses_keys && message->kind == MESSAGE_GROUP;
    if (!world->nodes[to].is_up || is_apart(world, number, to) || is_lost) {
        return;
    }
    struct node_event event = {.kind = NODE_EVENT_MESSAGE};
    event.u.message.from = world->nodes[number].person.id;
    event.u.message.message = message;
    post(world, world->now_ms, to, world->nodes[to].boots, &event);
}

static void answer_link(struct world *world, uint32_t number, const struct node_effect *effect)
{
    uint32_t to = number_of(world, effect->u.peer.node);
    bool is_silent = to == UINT32_MAX || is_apart(world, number, to);
    struct node_event event = {.kind = NODE_EVENT_LINK};
    event.u.link.peer = effect->u.peer.node;
    event.u.link.refused = !is_silent && !world->nodes[to].is_up;
    event.u.link.open = !is_silent && world->nodes[to].is_up;
    post(world, world->now_ms, number, world->nodes[number].boots, &event);
}

static void push_blob(struct world *world, uint32_t number, const struct node_effect *effect)
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
        say(world, number, '>', line);
    }
    struct world_node *node = &world->nodes[number];
    event.u.blob.is_missing = node->lacks_code && !is_checkpoint;
    event.u.blob.ok = !event.u.blob.is_missing && to != UINT32_MAX && world->nodes[to].is_up &&
                      !world->nodes[to].disk_is_full && !is_apart(world, number, to);
    node->pushes++;
    node->pushes_most = node->pushes > node->pushes_most ? node->pushes : node->pushes_most;
    post(world, world->now_ms + world->push_ms, number, world->nodes[number].boots, &event);
}

static void confirm_blob(struct world *world, uint32_t number, const struct node_effect *effect)
{
    uint32_t to = number_of(world, effect->u.push.to);
    bool is_there = to != UINT32_MAX && world->nodes[to].is_up && !world->nodes[to].is_cut && !world->nodes[number].is_cut;
    struct node_event event = {.kind = NODE_EVENT_CONFIRMED};
    event.u.blob.blob = effect->u.push.blob;
    event.u.blob.node = effect->u.push.to;
    event.u.blob.ok = is_there && !world->nodes[to].has_bad_copies;
    event.u.blob.is_missing = is_there && world->nodes[to].has_bad_copies;
    say(world, number, '>', "confirm");
    post(world, world->now_ms, number, world->nodes[number].boots, &event);
}

static void collect(struct world *world, uint32_t number, const struct node_effect *effect)
{
    struct world_node *node = &world->nodes[number];
    node->named_count = effect->byte_count / HASH_BYTES;
    CHECK(effect->byte_count % HASH_BYTES == 0 && node->named_count <= WORLD_NAMED_MAX && effect->u.collect.idle_s >= 600);
    memcpy(node->named, effect->bytes, effect->byte_count);
    say(world, number, '>', "collect");
}

/* ---- worker programs ------------------------------------------------------------------------------------------------------ */

static void worker_event(struct world *world, uint32_t number, uint32_t slot, enum node_event_kind kind, int32_t code,
                         bool killed, const char *text)
{
    struct world_node *node = &world->nodes[number];
    struct node_event event = {.kind = kind};
    event.u.worker.slot = slot;
    event.u.worker.attempt = node->workers[slot].attempt;
    event.u.worker.code = code;
    event.u.worker.killed = killed;
    event.u.worker.step = node->workers[slot].step;
    event.u.worker.port = kind == NODE_EVENT_PREPARED ? 6000 + slot : 7000 + slot;
    event.u.worker.text = text;
    uint8_t metrics[FACT_METRICS_BYTES_MAX];
    if (kind == NODE_EVENT_WORKER_STATUS) {
        event.bytes = metrics;
        event.byte_count = make_metrics(metrics, (double)node->workers[slot].step / 1024);
    }
    bool is_late = kind == NODE_EVENT_PREPARED && node->workers[slot].rank > 0;
    post(world, world->now_ms + (is_late ? world->prepare_ms : 0), number, node->boots, &event);
}

void world_listens(struct world *world, uint32_t number, uint32_t slot, uint32_t generation, bool has_state, uint64_t step)
{
    struct world_node *node = &world->nodes[number];
    struct node_event event = {.kind = NODE_EVENT_WORKER_LISTENS};
    event.u.worker.slot = slot;
    event.u.worker.attempt = node->workers[slot].attempt;
    event.u.worker.port = 7000 + slot;
    event.u.worker.is_elastic = true;
    event.u.worker.generation = generation;
    event.u.worker.has_state = has_state;
    event.u.worker.step = step;
    post(world, world->now_ms, number, node->boots, &event);
}

static void waits(struct world *world, uint32_t number, uint32_t slot)
{
    const struct world_worker *worker = &world->nodes[number].workers[slot];
    world_listens(world, number, slot, worker->generation, worker->has_state, worker->applied);
}

void world_leave_group(struct world *world, uint32_t number, uint32_t slot)
{
    struct world_worker *worker = &world->nodes[number].workers[slot];
    CHECK(worker->runs && worker->group_size > 0);
    worker->group_size = 0;
    waits(world, number, slot);
}

static void worker_exit(struct world *world, uint32_t number, uint32_t slot, int32_t code, bool killed, const char *text)
{
    worker_event(world, number, slot, NODE_EVENT_WORKER_EXITED, code, killed, text);
    world->nodes[number].workers[slot].runs = false;
    world->nodes[number].workers[slot].group_size = 0;
}

void world_end_worker(struct world *world, uint32_t number, uint32_t slot, int32_t code)
{
    CHECK(world->nodes[number].workers[slot].runs);
    worker_exit(world, number, slot, code, false, "killed");
}

static void worker_save(struct world *world, uint32_t number, uint32_t slot)
{
    struct world_node *node = &world->nodes[number];
    struct node_event event = {.kind = NODE_EVENT_CHECKPOINT};
    event.u.blob.slot = slot;
    event.u.blob.attempt = node->workers[slot].attempt;
    event.u.blob.step = node->workers[slot].step;
    event.u.blob.bytes = 1000;
    bytes_put_u64(event.u.blob.blob.bytes, 1 + node->workers[slot].step);
    uint8_t metrics[FACT_METRICS_BYTES_MAX];
    event.bytes = metrics;
    event.byte_count = make_metrics(metrics, (double)node->workers[slot].step / 1024);
    post(world, world->now_ms, number, node->boots, &event);
}

static void spawn(struct world *world, uint32_t number, const struct node_effect *effect)
{
    struct world_node *node = &world->nodes[number];
    struct world_worker *worker = &node->workers[effect->u.worker.slot];
    CHECK(worker->ready && !worker->runs);
    CHECK(node_core_find_token(node->core, effect->u.worker.token) == (int)effect->u.worker.slot);
    worker->ready = false;
    worker->runs = true;
    worker->token = effect->u.worker.token;
    worker->number = effect->u.worker.number;
    worker->rank = effect->u.worker.rank;
    memcpy(worker->group_key, effect->u.worker.group_key, sizeof worker->group_key);
    worker->step = effect->u.worker.step;
    worker->spawned_ms = world->now_ms;
    worker->status_ms = world->now_ms + 1000;
    worker->data_port = 7000 + effect->u.worker.slot;
    node->spawn_count++;
    uint32_t trial = effect->u.worker.attempt.trial;
    if (world->program == WORLD_FAILS_AT_ONCE || node->fails_programs ||
        (trial < 64 && (world->failing_trials >> trial & 1) != 0)) {
        worker_exit(world, number, effect->u.worker.slot, 3, false, "no such file: data.idx");
    } else if (world->is_elastic) {
        worker->applied = worker->step;
        if (!world->is_mute) {
            waits(world, number, effect->u.worker.slot);
        }
    } else {
        worker_event(world, number, effect->u.worker.slot, NODE_EVENT_WORKER_LISTENS, 0, false, NULL);
    }
}

/* "a> enter generation 2 rank 0 of 2 from step 30 states 10" */
static void enter_group(struct world *world, uint32_t number, const struct node_effect *effect)
{
    struct world_worker *worker = &world->nodes[number].workers[effect->u.worker.slot];
    uint32_t size = effect->u.worker.size;
    char states[FACT_MEMBERS_MAX + 1] = "", line[160];
    struct pack_reader reader;
    pack_reader_init(&reader, effect->bytes, effect->byte_count);
    CHECK(pack_read_array(&reader) == size && effect->u.worker.rank < size);
    for (uint32_t rank = 0; rank < size; rank++) {
        CHECK(pack_read_array(&reader) == 4 && pack_read_u64(&reader) == rank);
        pack_skip(&reader);
        pack_skip(&reader);
        states[rank] = pack_read_bool(&reader) ? '1' : '0';
        states[rank + 1] = '\0';
    }
    CHECK(!reader.failed);
    snprintf(line, sizeof line, "enter generation %u rank %u of %u from step %llu states %s", effect->u.worker.generation,
             effect->u.worker.rank, size, (unsigned long long)effect->u.worker.step, states);
    say(world, number, '>', line);
    if (worker->group_size > 0 || effect->u.worker.generation <= worker->generation) {
        return; /* it did not ask */
    }
    worker->generation = effect->u.worker.generation;
    worker->group_size = size;
    worker->rank = effect->u.worker.rank;
    worker->has_state = true;
    worker->step = worker->applied = effect->u.worker.step;
    memcpy(worker->group_key, effect->u.worker.group_key, sizeof worker->group_key);
}

static void leave_group(struct world *world, uint32_t number, const struct node_effect *effect)
{
    const struct world_worker *worker = &world->nodes[number].workers[effect->u.worker.slot];
    char line[64];
    snprintf(line, sizeof line, "leave generation %u%s", effect->u.worker.generation,
             effect->u.worker.at_once ? " at once" : "");
    say(world, number, '>', line);
    if (worker->runs && worker->group_size > 0 && worker->generation == effect->u.worker.generation &&
        !world->nodes[number].computes) {
        world_leave_group(world, number, effect->u.worker.slot);
    }
}

/* All who belong to its group are in it, under one key, and reach each other. */
static bool group_is_whole(const struct world *world, uint32_t number, const struct world_worker *worker)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->node_count; i++) {
        for (uint32_t slot = 0; slot < world->nodes[i].slot_count; slot++) {
            const struct world_worker *other = &world->nodes[i].workers[slot];
            count += other->runs && other->group_size > 0 && other->generation == worker->generation &&
                     attempt_id_equal(&other->attempt, &worker->attempt) &&
                     memcmp(other->group_key, worker->group_key, sizeof other->group_key) == 0 &&
                     (i == number || !is_apart(world, number, i));
        }
    }
    return worker->group_size > 0 && count == worker->group_size;
}

static void worker_effect(struct world *world, uint32_t number, const struct node_effect *effect)
{
    struct world_node *node = &world->nodes[number];
    uint32_t slot = effect->u.worker.slot;
    struct world_worker *worker = &node->workers[slot];
    static const char *const names[] = {[NODE_EFFECT_PREPARE] = "prepare",     [NODE_EFFECT_SPAWN] = "spawn",
                                        [NODE_EFFECT_KILL] = "kill",           [NODE_EFFECT_STOP_WORKER] = "stop",
                                        [NODE_EFFECT_GROUP] = "group",         [NODE_EFFECT_DURABLE] = "durable"};
    char line[128];
    snprintf(line, sizeof line, "%s trial %u attempt %u rank %u slot %u", names[effect->kind],
             effect->u.worker.attempt.trial, effect->u.worker.attempt.number, effect->u.worker.rank, slot);
    say(world, number, '>', line);
    CHECK(slot < node->slot_count);
    switch (effect->kind) {
    case NODE_EFFECT_PREPARE:
        CHECK(!worker->runs);
        memset(worker, 0, sizeof *worker);
        worker->attempt = effect->u.worker.attempt;
        worker->rank = effect->u.worker.rank;
        worker->ready = true;
        bool is_lost = true; /* nobody who is up has the code, or the checkpoint that it starts from */
        for (uint32_t i = 0; i < world->node_count && is_lost; i++) {
            const struct world_node *other = &world->nodes[i];
            is_lost = !other->is_up || other->lacks_code || (effect->u.worker.step > 0 && other->has_bad_copies);
        }
        worker_event(world, number, slot, NODE_EVENT_PREPARED, is_lost ? ERR_NOT_FOUND : 0, false, NULL);
        break;
    case NODE_EFFECT_SPAWN:
        spawn(world, number, effect);
        break;
    case NODE_EFFECT_GROUP:
        if (world->is_elastic && worker->runs) {
            enter_group(world, number, effect);
        }
        break;
    case NODE_EFFECT_KILL:
        if (worker->runs) {
            worker_exit(world, number, slot, -15, true, NULL);
        }
        break;
    case NODE_EFFECT_STOP_WORKER:
        if (worker->runs && worker->rank == 0 && (worker->has_state || !world->is_elastic)) {
            worker_save(world, number, slot);
        }
        if (worker->runs) {
            worker_exit(world, number, slot, 0, false, NULL);
        }
        break;
    default:
        break;
    }
}

static void worker_works(struct world *world, uint32_t number, uint32_t slot)
{
    struct world_worker *worker = &world->nodes[number].workers[slot];
    worker->status_ms += world->step_ms != 0 ? world->step_ms : 1000;
    if (world->is_elastic && !group_is_whole(world, number, worker)) {
        return;
    }
    worker->step += world->step_ms != 0 ? 1 : 10;
    worker->applied = worker->step;
    worker_event(world, number, slot, NODE_EVENT_WORKER_STATUS, 0, false, NULL);
    if (world->program == WORLD_RUNS_2S && worker->step >= 20) {
        worker_exit(world, number, slot, 0, false, NULL);
    }
}

/* ---- steps ---------------------------------------------------------------------------------------------------------------- */

/* Which another node with this number's disk becomes. */
static struct person new_person(const struct world *world, uint32_t number)
{
    return make_person(WORLD_NODES_MAX * (1 + world->nodes[number].keys_made) + number);
}

static void perform(struct world *world, uint32_t number, const struct node_effect *effect)
{
    switch (effect->kind) {
    case NODE_EFFECT_SEND:
        send_message(world, number, effect);
        break;
    case NODE_EFFECT_PERSIST_RECORD:
    case NODE_EFFECT_PERSIST_FENCE:
        persist(world, number, effect);
        break;
    case NODE_EFFECT_FORGET_RECORD:
    case NODE_EFFECT_FORGET_FENCE:
        forget(&world->nodes[number], effect);
        break;
    case NODE_EFFECT_CHECK_LINK:
        answer_link(world, number, effect);
        break;
    case NODE_EFFECT_PREPARE:
    case NODE_EFFECT_SPAWN:
    case NODE_EFFECT_KILL:
    case NODE_EFFECT_STOP_WORKER:
    case NODE_EFFECT_GROUP:
    case NODE_EFFECT_DURABLE:
        worker_effect(world, number, effect);
        break;
    case NODE_EFFECT_PUSH:
        push_blob(world, number, effect);
        break;
    case NODE_EFFECT_CONFIRM:
        confirm_blob(world, number, effect);
        break;
    case NODE_EFFECT_COLLECT:
        collect(world, number, effect);
        break;
    case NODE_EFFECT_REPLY:
        world->reply.count++;
        world->reply.code = effect->u.reply.code;
        world->reply.stored_on = effect->u.reply.stored_on;
        world->reply.already = effect->u.reply.already;
        memcpy(world->reply.text, effect->u.reply.text, sizeof world->reply.text);
        say(world, number, '>', "reply");
        break;
    case NODE_EFFECT_WELCOME:
        world->reply.code = effect->u.reply.code;
        memcpy(world->reply.text, effect->u.reply.text, sizeof world->reply.text);
        say(world, number, '>', effect->u.reply.code == 0 ? "welcome" : "no welcome");
        break;
    case NODE_EFFECT_ADMIT:
        say(world, number, '>', effect->u.peer.gone ? "shut out" : effect->u.peer.invite ? "admit invite" : "admit");
        break;
    case NODE_EFFECT_PEER:
        connect_peer(world, number, effect);
        break;
    case NODE_EFFECT_LEAVE_GROUP:
        leave_group(world, number, effect);
        break;
    case NODE_EFFECT_NEW_KEY: {
        say(world, number, '>', "new key");
        world->nodes[number].keys_made += effect->u.new_key.afresh;
        struct person person = new_person(world, number);
        struct node_event event = {.kind = NODE_EVENT_KEY};
        event.u.key.ok = true;
        memcpy(event.u.key.public_key, person.public_key, sizeof event.u.key.public_key);
        post(world, world->now_ms, number, world->nodes[number].boots, &event);
        break;
    }
    case NODE_EFFECT_BECOME:
        say(world, number, '>', "become another node");
        world->nodes[number].becomes = true;
        break;
    }
}

static uint64_t wall_of(const struct world *world, uint32_t number)
{
    return WALL_S + world->wall_shift_s + world->nodes[number].wall_shift_s + world->now_ms / 1000;
}

void world_step(struct world *world, uint32_t number, struct node_event *event)
{
    struct world_node *node = &world->nodes[number];
    event->now_ms = world->now_ms;
    event->wall_s = wall_of(world, number);
    if (event->kind == NODE_EVENT_PERSISTED) {
        char line[64];
        snprintf(line, sizeof line, "%s %llu", event->u.persisted.ok ? "persisted" : "refused",
                 (unsigned long long)event->u.persisted.ticket);
        say(world, number, '<', line);
    }
    node->pushes -= event->kind == NODE_EVENT_PUSHED;
    node->effects.count = 0;
    node->effects.used_bytes = 0;
    node_core_step(node->core, event, &node->effects);
    for (uint32_t i = 0; i < node->effects.count; i++) {
        perform(world, number, &node->effects.items[i]);
    }
    if (node->becomes) {
        node->becomes = false;
        node->is_up = false;
        node->person = new_person(world, number);
        world_restart(world, number, false);
    }
}

/* True if something was waiting for this moment. */
static bool step_queue(struct world *world)
{
    struct world_event *first = world->queue;
    if (first == NULL || first->at_ms > world->now_ms) {
        return false;
    }
    world->queue = first->next;
    const struct world_node *node = &world->nodes[first->node];
    if (node->is_up && (first->boot == 0 || first->boot == node->boots)) {
        first->event.bytes = first->bytes;
        if (first->event.kind == NODE_EVENT_MESSAGE) {
            first->message.bytes = first->bytes;
            first->event.u.message.message = &first->message;
        }
        world_step(world, first->node, &first->event);
    }
    free(first->bytes);
    free(first);
    return true;
}

/* Moves to the next moment at which something happens, `until_ms` at the latest. */
static void step_time(struct world *world, uint64_t until_ms)
{
    uint64_t next_ms = world->queue != NULL && world->queue->at_ms < until_ms ? world->queue->at_ms : until_ms;
    for (uint32_t i = 0; i < world->node_count; i++) {
        const struct world_node *node = &world->nodes[i];
        if (is_asleep(world, i)) {
            next_ms = node->asleep_until_ms < next_ms ? node->asleep_until_ms : next_ms;
            continue;
        }
        uint64_t tick_ms = node->is_up ? node_core_next_ms(node->core) : UINT64_MAX;
        next_ms = tick_ms < next_ms ? tick_ms : next_ms;
        for (uint32_t slot = 0; slot < node->slot_count && node->is_up; slot++) {
            const struct world_worker *worker = &node->workers[slot];
            next_ms = worker->runs && worker->status_ms < next_ms ? worker->status_ms : next_ms;
        }
    }
    world->now_ms = next_ms > world->now_ms ? next_ms : world->now_ms + 1;
    for (uint32_t i = 0; i < world->node_count; i++) {
        struct world_node *node = &world->nodes[i];
        if (is_asleep(world, i)) {
            continue;
        }
        for (uint32_t slot = 0; slot < node->slot_count && node->is_up; slot++) {
            if (node->workers[slot].runs && node->workers[slot].status_ms <= world->now_ms) {
                worker_works(world, i, slot);
            }
        }
        if (node->is_up && node_core_next_ms(node->core) <= world->now_ms) {
            struct node_event tick = {.kind = NODE_EVENT_TICK};
            world_step(world, i, &tick);
        }
    }
}

void world_run(struct world *world, uint64_t ms)
{
    (void)world_run_until(world, ms, 0, "\n\n"); /* never in the log */
}

bool world_run_until(struct world *world, uint64_t max_ms, size_t from, const char *line)
{
    uint64_t until_ms = world->now_ms + max_ms;
    size_t looked = from;
    for (;;) {
        while (step_queue(world)) {
        }
        if (world_find(world, looked, line) != SIZE_MAX) {
            return true;
        }
        looked = world->log_bytes;
        if (world->now_ms >= until_ms) {
            return false;
        }
        step_time(world, until_ms);
    }
}

/* ---- life ----------------------------------------------------------------------------------------------------------------- */

static void build_node(struct world_node *node, uint32_t slots)
{
    node->slot_count = slots;
    node->memory = aligned_alloc(16, CORE_BYTES);
    node->effects.items = calloc(NODE_EFFECTS_MAX, sizeof *node->effects.items);
    node->effects.bytes = malloc(NODE_EFFECT_BYTES_MAX);
    node->records = malloc(WORLD_DISK_MAX * sizeof *node->records);
}

uint32_t world_copy(struct world *world, uint32_t number)
{
    CHECK(world->node_count < WORLD_NODES_MAX);
    struct world_node *node = &world->nodes[world->node_count];
    const struct world_node *from = &world->nodes[number];
    build_node(node, from->slot_count);
    node->person = from->person;
    bytes_copy_text(node->person.name, sizeof node->person.name, "copy");
    bytes_copy_text(node->address, sizeof node->address, "10.0.0.200:7410");
    node->boots = from->boots;
    node->record_count = from->record_count;
    memcpy(node->records, from->records, from->record_count * sizeof *from->records);
    node->fence_count = from->fence_count;
    memcpy(node->fences, from->fences, sizeof from->fences);
    return world->node_count++;
}

struct world *world_new(uint32_t node_count, uint32_t slots_each)
{
    struct world *world = calloc(1, sizeof *world);
    world->now_ms = 1000;
    world->node_count = node_count;
    world->log = calloc(1, WORLD_LOG_BYTES);
    CHECK(node_count <= WORLD_NODES_MAX && slots_each <= WORLD_SLOTS_MAX);
    struct person founder = make_person(0);
    for (uint32_t i = 0; i < node_count; i++) {
        struct world_node *node = &world->nodes[i];
        node->person = make_person(i);
        build_node(node, slots_each);
        bytes_copy_text(node->address, sizeof node->address, make_node(&node->person, 0).addresses[0]);
        for (uint32_t j = 0; j < node_count; j++) {
            struct person person = make_person(j);
            struct fact_member member = make_member(&person);
            struct made made;
            make_record(&made, founder.id, 1, j + 1, FACT_MEMBER, fact_key_node_id(person.id), &member);
            store_record(node, made.bytes, made.count);
        }
    }
    return world;
}

void world_free(struct world *world)
{
    while (world->queue != NULL) {
        struct world_event *next = world->queue->next;
        free(world->queue->bytes);
        free(world->queue);
        world->queue = next;
    }
    for (uint32_t i = 0; i < world->node_count; i++) {
        struct world_node *node = &world->nodes[i];
        if (node->core != NULL) {
            free(node->core->options.trace.context);
        }
        free(node->memory);
        free(node->effects.items);
        free(node->effects.bytes);
        free(node->records);
    }
    free(world->log);
    free(world);
}

static void adopt_workers(struct world *world, uint32_t number)
{
    struct world_node *node = &world->nodes[number];
    for (uint32_t slot = 0; slot < node->slot_count; slot++) {
        const struct world_worker *worker = &node->workers[slot];
        if (worker->runs) {
            struct node_event event = {.kind = NODE_EVENT_ADOPT};
            event.u.adopt.slot = slot;
            event.u.adopt.attempt = worker->attempt;
            event.u.adopt.number = (uint16_t)worker->number;
            event.u.adopt.token = worker->token;
            event.u.adopt.data_port = worker->data_port;
            memcpy(event.u.adopt.group_key, worker->group_key, sizeof event.u.adopt.group_key);
            world_step(world, number, &event);
        }
    }
}

void world_restart(struct world *world, uint32_t number, bool adopt)
{
    struct world_node *node = &world->nodes[number];
    CHECK(!node->is_up);
    if (node->core != NULL) {
        free(node->core->options.trace.context);
    }
    struct tracer *tracer = malloc(sizeof *tracer);
    *tracer = (struct tracer){world, number};
    node->boots++;
    node->pushes = 0;
    memset(node->memory, 0xa5, CORE_BYTES); /* nothing of an earlier life is to be found there */
    struct node_options options = {.self = node->person.id, .mesh = make_mesh(), .boot = node->boots << 32 | (number + 1),
                                   .seed = 100 * number + node->boots, .now_ms = world->now_ms,
                                   .wall_s = wall_of(world, number), .memory = node->memory,
                                   .memory_bytes = CORE_BYTES, .trace = {trace_line, tracer}};
    options.node = make_node(&node->person, node->slot_count);
    bytes_copy_text(options.node.addresses[0], sizeof options.node.addresses[0], node->address);
    node->link_count = 0;
    memcpy(options.public_key, node->person.public_key, sizeof options.public_key);
    options.secret[0] = (uint8_t)(1 + number);
    options.secret[1] = (uint8_t)node->boots;
    node->core = node_core_init(&options);
    CHECK(node->core != NULL);
    node->is_up = true;
    for (uint32_t i = 0; i < node->record_count; i++) {
        struct node_event event = {.kind = NODE_EVENT_LOAD_RECORD, .bytes = node->records[i].bytes,
                                   .byte_count = node->records[i].count};
        world_step(world, number, &event);
    }
    for (uint32_t i = 0; i < node->fence_count; i++) {
        struct node_event event = {.kind = NODE_EVENT_LOAD_FENCE, .bytes = node->fences[i].bytes,
                                   .byte_count = node->fences[i].count};
        world_step(world, number, &event);
    }
    if (adopt) {
        adopt_workers(world, number);
    } else {
        memset(node->workers, 0, sizeof node->workers);
    }
    struct node_event event = {.kind = NODE_EVENT_START};
    world_step(world, number, &event);
    for (uint32_t slot = 0; slot < node->slot_count && world->is_elastic; slot++) {
        if (node->workers[slot].runs && node->workers[slot].group_size == 0) {
            waits(world, number, slot); /* on a new connection it asks again */
        }
    }
}

void world_crash(struct world *world, uint32_t number)
{
    CHECK(world->nodes[number].is_up);
    world->nodes[number].is_up = false;
    say(world, number, '<', "crash");
}

void world_die(struct world *world, uint32_t number)
{
    struct world_node *node = &world->nodes[number];
    node->is_up = false;
    node->is_cut = true;
    memset(node->workers, 0, sizeof node->workers);
    say(world, number, '<', "dies");
}

void world_sleep(struct world *world, uint32_t number, uint64_t ms)
{
    struct world_event *all = world->queue;
    world->queue = NULL;
    while (all != NULL) {
        struct world_event *event = all;
        all = event->next;
        event->at_ms += event->node == number ? ms : 0;
        enqueue(world, event);
    }
    world->nodes[number].asleep_until_ms = world->now_ms + ms;
    say(world, number, '<', "sleep");
}

void world_start_all(struct world *world)
{
    for (uint32_t i = 0; i < world->node_count; i++) {
        world_restart(world, i, false);
    }
    world_run(world, ELECTION_UP_MS + 2000); /* all are old enough to coordinate */
    for (uint32_t i = 0; i < world->node_count; i++) {
        CHECK(!world->nodes[i].core->syncing);
    }
}

/* ---- users ---------------------------------------------------------------------------------------------------------------- */

void world_submit(struct world *world, uint32_t node, const struct config *config)
{
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    struct node_event event = {.kind = NODE_EVENT_REQUEST, .bytes = packed};
    event.byte_count = make_packed_config(config, packed);
    event.u.request.kind = NODE_REQUEST_SUBMIT;
    event.u.request.client = 1;
    event.u.request.experiment = make_experiment_id(0);
    event.u.request.code.bytes[0] = WORLD_CODE_BYTE;
    event.u.request.config_text.bytes[0] = 0xcf;
    world_step(world, node, &event);
}

void world_request(struct world *world, uint32_t node, enum node_request_kind kind)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = kind;
    event.u.request.client = 2;
    event.u.request.experiment = make_experiment_id(0);
    world_step(world, node, &event);
}

void world_evict(struct world *world, uint32_t node, uint32_t evicted, bool with_vouched)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = NODE_REQUEST_EVICT;
    event.u.request.client = 2;
    event.u.request.node = world->nodes[evicted].person.id;
    event.u.request.with_vouched = with_vouched;
    world_step(world, node, &event);
}

void world_store(struct world *world, uint32_t node, const struct made *made)
{
    store_record(&world->nodes[node], made->bytes, made->count);
}

void world_deliver(struct world *world, uint32_t from, uint32_t to, const struct made *made)
{
    struct message message = {.kind = MESSAGE_RECORDS, .bytes = made->bytes, .byte_count = made->count};
    message.boot = world->nodes[from].core->options.boot;
    struct node_event event = {.kind = NODE_EVENT_MESSAGE};
    event.u.message.from = world->nodes[from].person.id;
    event.u.message.message = &message;
    world_step(world, to, &event);
}

int world_coordinator(const struct world *world)
{
    int found = -1;
    for (uint32_t i = 0; i < world->node_count; i++) {
        const struct world_node *node = &world->nodes[i];
        const struct core_coordination *row =
            node->is_up ? core_find_coordination(node->core, make_experiment_id(0)) : NULL;
        if (row != NULL && row->election.state == ELECTION_LEADING) {
            if (found >= 0) {
                return -1;
            }
            found = (int)i;
        }
    }
    return found;
}

uint32_t world_spawns(const struct world *world)
{
    uint32_t spawns = 0;
    for (uint32_t i = 0; i < world->node_count; i++) {
        spawns += world->nodes[i].spawn_count;
    }
    return spawns;
}

const struct view_experiment *world_experiment(const struct world *world, uint32_t node)
{
    return view_find_experiment(&world->nodes[node].core->view, make_experiment_id(0));
}
