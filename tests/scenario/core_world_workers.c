#include "tests/scenario/core_world_inside.h"

#include <stdio.h>

#include "base/check.h"
#include "base/err.h"

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
    event.u.worker.failure = kind == NODE_EVENT_WORKER_EXITED ? world->failure : 0;
    uint8_t metrics[FACT_METRICS_BYTES_MAX];
    if (kind == NODE_EVENT_WORKER_STATUS) {
        event.bytes = metrics;
        event.byte_count = make_metrics(metrics, (double)node->workers[slot].step / 1024);
    }
    bool is_late = kind == NODE_EVENT_PREPARED && node->workers[slot].rank > 0;
    world_post(world, world->now_ms + (is_late ? world->prepare_ms : 0), number, node->boots, &event);
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
    world_post(world, world->now_ms, number, node->boots, &event);
}

void world_waits(struct world *world, uint32_t number, uint32_t slot)
{
    const struct world_worker *worker = &world->nodes[number].workers[slot];
    world_listens(world, number, slot, worker->generation, worker->has_state, worker->applied);
}

void world_leave_group(struct world *world, uint32_t number, uint32_t slot)
{
    struct world_worker *worker = &world->nodes[number].workers[slot];
    CHECK(worker->runs && worker->group_size > 0);
    worker->group_size = 0;
    world_waits(world, number, slot);
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
    world_post(world, world->now_ms, number, node->boots, &event);
}

static void spawn(struct world *world, uint32_t number, const struct node_effect *effect)
{
    struct world_node *node = &world->nodes[number];
    struct world_worker *worker = &node->workers[effect->u.worker.slot];
    CHECK(worker->ready && !worker->runs);
    CHECK(node_core_find_token(node->core, effect->u.worker.token) == (int)effect->u.worker.slot);
    worker->ready = false;
    if (node->starts_nothing) {
        struct node_event event = {.kind = NODE_EVENT_WORKER_EXITED};
        event.u.worker.slot = effect->u.worker.slot;
        event.u.worker.attempt = worker->attempt;
        event.u.worker.code = -1;
        event.u.worker.is_unstarted = true;
        event.u.worker.text = "there is no shoal-keep";
        world_post(world, world->now_ms, number, node->boots, &event);
        return;
    }
    worker->runs = true;
    worker->token = effect->u.worker.token;
    worker->number = effect->u.worker.number;
    worker->rank = effect->u.worker.rank;
    memcpy(worker->group_key, effect->u.worker.group_key, sizeof worker->group_key);
    worker->step = effect->u.worker.step;
    worker->spawned_ms = world->now_ms;
    worker->status_ms = world->now_ms + 1000;
    worker->data_port = 7000 + effect->u.worker.slot;
    worker->draw = effect->u.worker.draw;
    node->spawn_count++;
    uint32_t trial = effect->u.worker.attempt.trial;
    if (world->program == WORLD_FAILS_AT_ONCE || node->fails_programs ||
        (trial < 64 && (world->failing_trials >> trial & 1) != 0)) {
        worker_exit(world, number, effect->u.worker.slot, 3, false, "no such file: data.idx");
    } else if (world->is_elastic) {
        worker->applied = worker->step;
        if (!world->is_mute) {
            world_waits(world, number, effect->u.worker.slot);
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
    world_say(world, number, '>', line);
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

void world_told_to_leave(struct world *world, uint32_t number, const struct node_effect *effect)
{
    const struct world_worker *worker = &world->nodes[number].workers[effect->u.worker.slot];
    char line[64];
    snprintf(line, sizeof line, "leave generation %u%s", effect->u.worker.generation,
             effect->u.worker.at_once ? " at once" : "");
    world_say(world, number, '>', line);
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
                     (i == number || !world_is_apart(world, number, i));
        }
    }
    return worker->group_size > 0 && count == worker->group_size;
}

void world_worker_effect(struct world *world, uint32_t number, const struct node_effect *effect)
{
    struct world_node *node = &world->nodes[number];
    uint32_t slot = effect->u.worker.slot;
    struct world_worker *worker = &node->workers[slot];
    static const char *const names[] = {[NODE_EFFECT_PREPARE] = "prepare",     [NODE_EFFECT_SPAWN] = "spawn",
                                        [NODE_EFFECT_KILL] = "kill",           [NODE_EFFECT_STOP_WORKER] = "stop",
                                        [NODE_EFFECT_GROUP] = "group",         [NODE_EFFECT_DURABLE] = "durable"};
    char line[128];
    snprintf(line, sizeof line, "%s trial %u attempt %u rank %u slot %u%s", names[effect->kind],
             effect->u.worker.attempt.trial, effect->u.worker.attempt.number, effect->u.worker.rank, slot,
             effect->u.worker.stacks ? " with stacks" : "");
    world_say(world, number, '>', line);
    CHECK(slot < node->slot_count);
    switch (effect->kind) {
    case NODE_EFFECT_PREPARE:
        CHECK(!worker->runs);
        memset(worker, 0, sizeof *worker);
        worker->attempt = effect->u.worker.attempt;
        worker->rank = effect->u.worker.rank;
        worker->ready = true;
        bool is_lost = true; /* no node that is up has the code, or the checkpoint or the files that it starts with */
        bool needs_copies = effect->u.worker.step > 0 || effect->byte_count > 0;
        for (uint32_t i = 0; i < world->node_count && is_lost; i++) {
            const struct world_node *other = &world->nodes[i];
            is_lost = !other->is_up || other->lacks_code || (needs_copies && other->has_bad_copies);
        }
        is_lost |= node->prepares_nothing;
        worker_event(world, number, slot, NODE_EVENT_PREPARED, is_lost ? ERR_NOT_FOUND : 0, false, is_lost ? "not found" : NULL);
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
        if (world->ignores_stops) {
            break;
        }
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

void world_worker_works(struct world *world, uint32_t number, uint32_t slot)
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
