#include "tests/sim/versions.h"

#include <string.h>

#include "base/check.h"
#include "node/core/members/twin.h"
#include "tests/sim/checkers_inside.h"
#include "tests/sim/faults.h"
#include "tests/sim/world.h"

#define STREAM_OF_UPDATES 8000
#define STREAM_OF_WRITES 9000
#define WRITES_MAX 4        /* of one life of such a program */
#define BODY_BYTES_MAX 1000

static const struct version_range old_program = {1, 1}, both_program = {1, 2}, later_program = {2, 2};

void versions_init(struct sim *sim)
{
    for (int node = 0; node < PLAN_NODES_MAX; node++) {
        sim->nodes[node].speaks = old_program;
    }
}

uint32_t versions_between(const struct sim *sim, int from, int to)
{
    uint32_t common = version_common(sim->nodes[from].speaks, sim->nodes[to].speaks);
    return common != 0 ? common : sim->nodes[from].speaks.oldest;
}

bool versions_agree(const struct sim *sim, int a, int b, uint64_t for_ms)
{
    uint64_t changed_ms = sim->nodes[a].speaks_since_ms > sim->nodes[b].speaks_since_ms ? sim->nodes[a].speaks_since_ms
                                                                                        : sim->nodes[b].speaks_since_ms;
    return version_common(sim->nodes[a].speaks, sim->nodes[b].speaks) != 0 &&
           (changed_ms == 0 || changed_ms + for_ms <= sim->now_ms);
}

void versions_refused(struct sim *sim, int node, node_id from, uint32_t version)
{
    checkers_met(sim, PREMISE_6_REFUSED_VERSION);
    SIM_TRACE(sim, node, "REFUSES a message of version %u", version);
    struct node_event event = {.kind = NODE_EVENT_FOREIGN};
    event.u.foreign.from = from;
    event.u.foreign.version = version;
    sim_step(sim, node, &event);
}

/* ---- another program ---------------------------------------------------------------------------------------------- */

static void install(struct sim *sim, int node, struct version_range speaks)
{
    struct sim_node *self = &sim->nodes[node];
    SIM_TRACE(sim, node, "UPDATE: it speaks versions %u to %u from now on", speaks.oldest, speaks.newest);
    self->speaks = speaks;
    self->speaks_since_ms = sim->now_ms;
    self->updates++;
    if (self->core != NULL) {
        sim_crash(sim, node, false);
    }
}

static void boot_later(struct sim *sim, int node, uint64_t delay_ms)
{
    faults_upset(sim, node, sim->now_ms + delay_ms);
    sim_push(sim, sim->now_ms + delay_ms, SIM_BOOT, node)->serial = sim->nodes[node].life;
}

/* Who speaks only the new version is left alone until the others are updated: here it is the one that goes back. */
void versions_strike(struct sim *sim, int node, uint64_t down_ms, uint64_t lasts_ms)
{
    struct random *random = &sim->strike_random;
    uint64_t dice = random_below(random, 5), writes = sim_between(random, 1, WRITES_MAX);
    bool is_both_next = sim_chance(random, 500);
    install(sim, node, dice == 0 ? old_program : dice < 3 ? both_program : later_program);
    boot_later(sim, node, down_ms);
    for (uint64_t i = 0; i < writes; i++) {
        struct sim_event *event = sim_push(sim, sim->now_ms + down_ms + random_below(random, lasts_ms), SIM_WRITES, node);
        event->serial = sim->nodes[node].updates;
        event->arg = (uint8_t)i;
    }
    if (sim->nodes[node].speaks.oldest > 1) {
        faults_upset(sim, node, sim->now_ms + down_ms + lasts_ms);
        struct sim_event *event = sim_push(sim, sim->now_ms + down_ms + lasts_ms, SIM_UPDATED, node);
        event->serial = sim->nodes[node].updates;
        event->arg = is_both_next;
    }
}

void versions_updated(struct sim *sim, struct sim_event *event)
{
    struct sim_node *self = &sim->nodes[event->node];
    if (self->updates != event->serial || sim->healed) {
        return;
    }
    if (self->core != NULL && sim_paused(sim, event->node)) {
        faults_upset(sim, event->node, self->paused_until_ms);
        sim_again(sim, event, self->paused_until_ms);
        return;
    }
    bool was_up = self->core != NULL;
    install(sim, event->node, event->arg != 0 ? both_program : old_program);
    if (was_up) {
        boot_later(sim, event->node, 500);
    }
}

void versions_heal(struct sim *sim)
{
    for (int node = 0; node < (int)sim->plan.node_count; node++) {
        struct random random;
        random_init_stream(&random, sim->seed, STREAM_OF_UPDATES + (uint64_t)node);
        if (sim->nodes[node].speaks.oldest > 1) {
            install(sim, node, sim_chance(&random, 500) ? both_program : old_program);
        }
    }
}

void versions_healed(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->versions.count; i++) {
        struct versions_written *written = &sim->versions.written[i];
        for (int node = 0; node < (int)sim->plan.node_count; node++) {
            const struct disk_entry *entry = disk_find(&sim->nodes[node].disk, written->ident);
            written->must_spread |= checkers_in_core(sim, node) && entry != NULL && entry->is_stored &&
                                    record_version_compare(entry->version, written->version) == 0;
        }
    }
}

/* ---- what it writes ----------------------------------------------------------------------------------------------- */

/* About itself, or about an experiment, which may be deleted: of that the others know nothing either. */
static struct fact_key draw_key(const struct sim *sim, struct random *random)
{
    struct fact_key key = fact_key_empty();
    uint64_t dice = random_below(random, 3);
    if (dice > 0) {
        key = fact_key_experiment(sim->plan.experiments[random_below(random, sim->plan.experiment_count)].id);
    }
    if (dice > 1) {
        key.bytes[key.count++] = (uint8_t)random_below(random, 2);
    }
    return key;
}

void versions_write(struct sim *sim, struct sim_event *event)
{
    int node = event->node;
    const struct sim_node *self = &sim->nodes[node];
    bool is_able = !sim->healed && sim_runs(sim, node) && self->updates == event->serial && self->speaks.newest > 1;
    if (!is_able || self->core->is_out || core_twin_yields(self->core->twin) || sim->versions.count == VERSIONS_WRITTEN_MAX) {
        return;
    }
    struct random random;
    random_init_stream(&random, sim->seed,
                       STREAM_OF_WRITES + ((uint64_t)node << 40 | (uint64_t)event->serial << 8 | event->arg));
    uint8_t body[BODY_BYTES_MAX];
    uint32_t count = (uint32_t)sim_log_between(&random, 1, sizeof body);
    for (uint32_t i = 0; i < count; i++) {
        body[i] = (uint8_t)random_u64(&random); /* no MessagePack either */
    }
    uint16_t kind = (uint16_t)(SIM_UNKNOWN_KIND + 1 + random_below(&random, VERSIONS_KINDS));
    struct fact_key key = draw_key(sim, &random);
    struct versions_written *written = &sim->versions.written[sim->versions.count];
    *written = (struct versions_written){.hash = bytes_hash64(body, count, 2), .kind = kind, .writer = (uint8_t)node};
    written->ident = record_ident_of(self->id, kind, key.bytes, key.count);
    if (sim_put(sim, node, kind, &key, body, count, &written->version)) {
        sim->versions.count++;
    }
}

void versions_kept(struct sim *sim, int node)
{
    const struct node_core *core = sim->nodes[node].core;
    for (uint32_t i = 0; i < sim->versions.count; i++) {
        const struct versions_written *written = &sim->versions.written[i];
        const struct records_entry *held = records_find(&core->records, written->ident);
        int order = held != NULL ? record_version_compare(held->record.version, written->version) : -1;
        if (order < 0 && written->must_spread) {
            sim_fail(sim, 6, "n%d has no record of kind %u that n%d wrote, though it was on a disk at the heal", node,
                     (unsigned)written->kind, written->writer);
            return;
        }
        if (order != 0) {
            continue; /* there is a newer one */
        }
        if (bytes_hash64(held->record.body, held->record.body_bytes, 2) != written->hash ||
            !disk_signature_holds(held->envelope, held->envelope_bytes)) {
            sim_fail(sim, 6, "n%d has a record of kind %u that is not what n%d wrote", node, (unsigned)written->kind,
                     written->writer);
            return;
        }
        if (written->writer != node) {
            checkers_met(sim, PREMISE_6_LATER_KIND);
        }
    }
}
