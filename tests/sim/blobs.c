#include "tests/sim/blobs.h"

#include "base/check.h"
#include "tests/sim/copies.h"
#include "tests/sim/twins.h"
#include "tests/sim/world.h"

static struct sim_blob *place(struct sim *sim, hash256 hash)
{
    uint32_t i = (uint32_t)bytes_get_u64(hash.bytes) & (BLOBS_MAX - 1);
    while (!hash256_is_none(sim->blobs.all[i].hash) && !hash256_equal(sim->blobs.all[i].hash, hash)) {
        i = (i + 1) & (BLOBS_MAX - 1);
    }
    return &sim->blobs.all[i];
}

struct sim_blob *blobs_find(struct sim *sim, hash256 hash)
{
    struct sim_blob *blob = place(sim, hash);
    return hash256_is_none(blob->hash) ? NULL : blob;
}

struct sim_blob *blobs_part(struct sim *sim, hash256 set, uint32_t part)
{
    for (uint32_t i = 0; i < BLOBS_MAX; i++) {
        struct sim_blob *blob = &sim->blobs.all[i];
        if (blob->parts > 0 && blob->part == part && hash256_equal(blob->set, set)) {
            return blob;
        }
    }
    return NULL;
}

void blobs_put(struct sim *sim, hash256 hash, int node, bool is_code, uint64_t step)
{
    struct sim_blob *blob = place(sim, hash);
    if (hash256_is_none(blob->hash)) {
        CHECK(++sim->blobs.count < BLOBS_MAX / 2);
        blob->hash = hash;
        blob->is_code = is_code;
        blob->step = step;
    }
    blob->holders |= 1u << node;
    blob->touched_ms[node] = sim->now_ms;
}

bool blobs_hold(struct sim *sim, hash256 hash, int node)
{
    const struct sim_blob *blob = blobs_find(sim, hash);
    if (blob != NULL && (blob->rotten >> node & 1) != 0) {
        copies_found_rotten(sim, hash, node);
    }
    return blob != NULL && (blob->holders >> node & 1) != 0;
}

bool blobs_fetch(struct sim *sim, hash256 hash, int node, uint32_t from)
{
    struct sim_blob *blob = blobs_find(sim, hash);
    for (int other = 0; blob != NULL && other < (int)sim->machines; other++) {
        bool is_there = other == node || (sim_runs(sim, other) && network_both_ways(sim, node, other));
        if ((from >> other & 1) != 0 && is_there && blobs_hold(sim, hash, other)) {
            blob->holders |= 1u << node;
            blob->touched_ms[node] = sim->now_ms;
            return true;
        }
    }
    return false;
}

void blobs_push(struct sim *sim, int node, const struct node_effect *effect)
{
    bool is_self = node_id_equal(effect->u.push.to, sim->nodes[node].id); /* a question about its own disk, twin or not */
    int to = is_self ? node : twins_route(sim, node, effect->u.push.to);
    to = to >= 0 ? to : sim_find_node(sim, effect->u.push.to);
    CHECK(to >= 0);
    uint64_t delay_ms = sim_log_between(&sim->random[STREAM_WORKERS], 20, 1500);
    struct sim_event *event = sim_push(sim, sim->now_ms + delay_ms, SIM_PUSHED, node);
    struct blobs_push *push = sim_payload(sim, event, sizeof *push);
    push->attempt = effect->u.push.attempt;
    push->blob = effect->u.push.blob;
    push->step = effect->u.push.step;
    push->to = (uint8_t)to;
    push->to_id = effect->u.push.to;
    push->life = sim->nodes[node].life;
    push->is_question = effect->kind == NODE_EFFECT_CONFIRM;
}

static void pushed(struct sim *sim, struct sim_event *event)
{
    struct blobs_push *push = event->payload;
    int node = event->node, to = push->to;
    if (!sim_daemon_up(sim, node) || sim->nodes[node].life != push->life) {
        return;
    }
    bool has_key = node_id_equal(sim->nodes[to].id, push->to_id); /* another machine, or this one, may have the address by now */
    bool is_there = has_key && (to == node || (sim_runs(sim, to) && network_both_ways(sim, node, to) &&
                                               twins_admits(sim, to, node, sim->nodes[node].id)));
    bool is_refused = push->is_question ? is_there && !blobs_hold(sim, push->blob, to)
                                        : !blobs_hold(sim, push->blob, node) || sim->nodes[to].disk.is_full;
    if (!is_there && !push->is_failed) {
        push->is_failed = true; /* told after the connection's patience */
        sim_again(sim, event, sim->now_ms + 3000);
        return;
    }
    bool ok = is_there && !is_refused && !push->is_failed;
    if (ok && !push->is_question) {
        blobs_find(sim, push->blob)->holders |= 1u << to; /* a rotten copy counts: it is there by its name */
        blobs_find(sim, push->blob)->touched_ms[to] = sim->now_ms;
    }
    struct node_event core_event = {.kind = push->is_question ? NODE_EVENT_CONFIRMED : NODE_EVENT_PUSHED};
    core_event.u.blob.attempt = push->attempt;
    core_event.u.blob.step = push->step;
    core_event.u.blob.blob = push->blob;
    core_event.u.blob.node = push->to_id;
    core_event.u.blob.ok = ok;
    core_event.u.blob.is_missing =
        push->is_question ? is_there && !push->is_failed && is_refused : !blobs_hold(sim, push->blob, node);
    sim_step(sim, node, &core_event);
}

void blobs_wipe(struct sim *sim, int node)
{
    for (uint32_t i = 0; i < BLOBS_MAX; i++) {
        struct sim_blob *blob = &sim->blobs.all[i];
        if ((blob->holders >> node & 1) != 0) {
            copies_lost(sim, blob, node);
        }
    }
}

void blobs_event(struct sim *sim, struct sim_event *event)
{
    CHECK(event->kind == SIM_PUSHED);
    if (sim_paused(sim, event->node)) {
        sim_again(sim, event, sim->nodes[event->node].paused_until_ms);
    } else {
        pushed(sim, event);
    }
}
