#include <math.h>
#include "tests/sim/workers.h"

#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/pack.h"
#include "tests/sim/checkers.h"
#include "tests/sim/outputs.h"
#include "tests/sim/world.h"

#define STREAM_OF_BAD (UINT64_C(1) << 48) /* with the process' serial */
#define STREAM_OF_HANG (UINT64_C(1) << 49) /* with the group's serial */
#define HANG_PERMILLE 300 /* of the groups, in seeds with that class */
#define HUNG_OVER_MS 90000 /* within so long of its time a hung attempt has ended everywhere, if nothing is in the way */
#define POISON_STEPS 5 /* a poison trial kills its machine after each so many steps */
#define STEP_MS_MAX 60000 /* in a slow slot; as long as the longest that a program of a plan computes for one */

/* ---- preparing ------------------------------------------------------------------------------------------------------ */

void workers_prepare(struct sim *sim, int node, const struct node_effect *effect)
{
    uint64_t delay_ms = sim_log_between(&sim->random[STREAM_WORKERS], 20, 1500);
    struct sim_event *event = sim_push(sim, sim->now_ms + delay_ms, SIM_PREPARED, node);
    event->slot = (uint8_t)effect->u.worker.slot;
    struct workers_prepare *prepare = sim_payload(sim, event, sizeof *prepare);
    prepare->attempt = effect->u.worker.attempt;
    prepare->code = effect->u.worker.code;
    prepare->checkpoint = effect->u.worker.checkpoint;
    prepare->number = effect->u.worker.number;
    prepare->size = effect->u.worker.size;
    prepare->beginning_count = effect->byte_count / (uint32_t)sizeof prepare->beginnings[0];
    CHECK(prepare->beginning_count <= PLAN_NODES_MAX * PLAN_SLOTS_MAX);
    if (effect->byte_count > 0) {
        memcpy(prepare->beginnings, effect->bytes, effect->byte_count);
    }
    prepare->life = sim->nodes[node].life;
    prepare->until_ms = sim->now_ms + WORKERS_FETCH_MS;
}

/* The checkpoint that an attempt begins with is here, or the worker's share of its parts. */
static bool fetch_checkpoint(struct sim *sim, int node, const struct workers_prepare *prepare)
{
    const struct view *view = node_core_view(sim->nodes[node].core);
    const struct view_experiment *experiment = view_find_experiment(view, prepare->attempt.experiment);
    const struct view_trial *trial = experiment != NULL ? view_find_trial(experiment, prepare->attempt.trial) : NULL;
    const struct view_set *set = trial != NULL ? view_find_set(trial, prepare->checkpoint) : NULL;
    if (set == NULL) {
        return hash256_is_none(prepare->checkpoint) || blobs_fetch(sim, prepare->checkpoint, node, UINT32_MAX);
    }
    bool is_here = true;
    for (uint32_t part = 0; part < set->key.count && is_here; part++) {
        struct view_manifest found;
        bool is_its = part % (prepare->size > 0 ? prepare->size : 1) == prepare->number;
        is_here = !is_its || (node_core_part(sim->nodes[node].core, set, part, &found) && blobs_fetch(sim, found.blob, node, UINT32_MAX));
    }
    return is_here;
}

static void prepared(struct sim *sim, struct sim_event *event)
{
    const struct workers_prepare *prepare = event->payload;
    int node = event->node;
    if (!sim_daemon_up(sim, node) || sim->nodes[node].life != prepare->life) {
        return;
    }
    bool is_here = blobs_fetch(sim, prepare->code, node, UINT32_MAX) && fetch_checkpoint(sim, node, prepare);
    for (uint32_t i = 0; i < prepare->beginning_count && is_here; i++) {
        is_here = blobs_fetch(sim, prepare->beginnings[i].blob, node, UINT32_MAX);
    }
    if (!is_here && sim->now_ms < prepare->until_ms) {
        sim_again(sim, event, sim->now_ms + 1000);
        return;
    }
    if (!is_here) {
        const struct sim_blob *code = blobs_find(sim, prepare->code);
        const struct sim_blob *saved = blobs_find(sim, prepare->checkpoint);
        SIM_TRACE(sim, node, "slot %u: not fetched: code on %x, checkpoint on %x", event->slot,
                  code != NULL ? code->holders : 0, saved != NULL ? saved->holders : 0);
        for (uint32_t i = 0; i < prepare->beginning_count; i++) {
            const struct sim_blob *files = blobs_find(sim, prepare->beginnings[i].blob);
            SIM_TRACE(sim, node, "slot %u: files of attempt %u, step %llu, on %x", event->slot,
                      files != NULL ? files->attempt.number : 0, files != NULL ? (unsigned long long)files->step : 0,
                      files != NULL ? files->holders : 0);
        }
    }
    sim->nodes[node].prepared[event->slot] = prepare->checkpoint;
    struct node_event core_event = {.kind = NODE_EVENT_PREPARED};
    core_event.u.worker.slot = event->slot;
    core_event.u.worker.attempt = prepare->attempt;
    core_event.u.worker.code = is_here ? 0 : ERR_NOT_FOUND;
    core_event.u.worker.port = 20000u + event->slot;
    core_event.u.worker.text = is_here ? NULL : "no node that can be reached has the code or the checkpoint";
    sim_step(sim, node, &core_event);
}

/* ---- groups --------------------------------------------------------------------------------------------------------- */

static const struct plan_experiment *experiment_of(struct sim *sim, const attempt_id *attempt, uint32_t *index)
{
    for (uint32_t i = 0; i < sim->plan.experiment_count; i++) {
        if (experiment_id_equal(sim->plan.experiments[i].id, attempt->experiment)) {
            *index = i;
            return &sim->plan.experiments[i];
        }
    }
    return NULL;
}

static struct worker_process *rank_process(struct sim *sim, const struct worker_group *group, uint32_t rank)
{
    if (!group->ranks[rank].is_set) {
        return NULL;
    }
    struct worker_process *process = &sim->nodes[group->ranks[rank].node].processes[group->ranks[rank].slot];
    return process->is_alive && process->serial == group->ranks[rank].serial ? process : NULL;
}

/* Whether a rank of the group is to hang, or to end and leave the others alone, and when. */
static void draw_hang(struct sim *sim, struct worker_group *group)
{
    bool hangs = sim->plan.has[FAULT_ENDLESS_HANG], ends = sim->plan.has[FAULT_QUIET_END] && group->size > 1;
    if ((!hangs && !ends) || sim->healed) {
        return;
    }
    struct random random;
    random_init_stream(&random, sim->seed, STREAM_OF_HANG + group->serial);
    bool is_in = sim_chance(&random, HANG_PERMILLE);
    group->hang_step = is_in ? sim_between(&random, 1, sim->plan.experiments[group->experiment].steps) : 0;
    group->hang_rank = (uint32_t)random_below(&random, group->size);
    group->ends_quietly = ends && (!hangs || sim_chance(&random, 500));
}

/* Two coordinators with one key, or one that has been on an older disk since, may give one name to two attempts: the keys
 * of their groups differ. */
static struct worker_group *group_take(struct sim *sim, const struct worker_process *process)
{
    struct worker_group *group = NULL;
    for (uint32_t i = 0; i < WORKERS_GROUPS_MAX; i++) {
        group = &sim->workers.groups[i];
        bool is_it = group->is_used && group->live > 0 && attempt_id_equal(&group->attempt, &process->attempt) &&
                     memcmp(group->key, process->group_key, sizeof group->key) == 0;
        if (is_it && rank_process(sim, group, process->rank) == NULL) { /* else both daemons with one key were asked */
            return group;
        }
    }
    for (uint32_t i = 0; i < WORKERS_GROUPS_MAX; i++) {
        group = &sim->workers.groups[i];
        if (!group->is_used || group->live == 0) {
            memset(group, 0, sizeof *group);
            group->is_used = true;
            group->serial = ++sim->workers.serial;
            group->attempt = process->attempt;
            memcpy(group->key, process->group_key, sizeof group->key);
            group->size = process->size;
            (void)experiment_of(sim, &process->attempt, &group->experiment);
            draw_hang(sim, group);
            return group;
        }
    }
    CHECK(!"more groups than slots");
    return NULL;
}

static bool is_whole(struct sim *sim, const struct worker_group *group)
{
    for (uint32_t rank = 0; rank < group->size; rank++) {
        const struct worker_process *process = rank_process(sim, group, rank);
        if (process == NULL || process->generation == 0 || process->is_stopping || process->is_killed) {
            return false;
        }
    }
    return true;
}

static bool can_step(struct sim *sim, const struct worker_group *group)
{
    if (!is_whole(sim, group)) {
        return false;
    }
    for (uint32_t a = 0; a < group->size; a++) {
        int node = group->ranks[a].node;
        if (sim_paused(sim, node) && sim->nodes[node].is_suspended) {
            return false;
        }
        if (!sim->healed && sim->now_ms < rank_process(sim, group, a)->hung_until_ms) {
            return false;
        }
        for (uint32_t b = a + 1; b < group->size; b++) {
            if (!network_both_ways(sim, node, group->ranks[b].node)) {
                return false;
            }
        }
    }
    return true;
}

uint64_t workers_step_ends_ms(const struct sim *sim, uint32_t experiment, int node, uint32_t slot)
{
    const struct sim_slow_slot *slow = &sim->nodes[node].slow_slots[slot];
    uint64_t step_ms = sim->plan.experiments[experiment].step_ms, usual_ms = sim->now_ms + step_ms;
    if (sim->healed || slow->until_ms <= sim->now_ms) {
        return usual_ms;
    }
    uint64_t slow_ms = step_ms * slow->factor < STEP_MS_MAX ? step_ms * slow->factor : STEP_MS_MAX;
    uint64_t ends_ms = sim->now_ms + slow_ms, healed_ms = sim->plan.heal_ms + step_ms;
    return ends_ms < healed_ms ? ends_ms : healed_ms;
}

/* Its slowest rank says how long it takes. */
static void push_step(struct sim *sim, const struct worker_group *group)
{
    uint64_t ends_ms = sim->now_ms + sim->plan.experiments[group->experiment].step_ms;
    for (uint32_t rank = 0; rank < group->size; rank++) {
        uint64_t its_ms = group->ranks[rank].is_set ? workers_step_ends_ms(sim, group->experiment, group->ranks[rank].node,
                                                                           group->ranks[rank].slot)
                                                    : 0;
        ends_ms = its_ms > ends_ms ? its_ms : ends_ms;
    }
    sim_push(sim, ends_ms, SIM_STEP, 0)->serial = group->serial;
}

void workers_group(struct sim *sim, int node, const struct node_effect *effect)
{
    struct worker_process *process = &sim->nodes[node].processes[effect->u.worker.slot];
    if (!process->is_alive || !attempt_id_equal(&process->attempt, &effect->u.worker.attempt)) {
        return;
    }
    if (process->is_elastic) {
        groups_enter(sim, node, process, effect);
        return;
    }
    process->generation = effect->u.worker.generation + 1;
    struct worker_group *group = &sim->workers.groups[process->group];
    if (!group->is_stepping && is_whole(sim, group)) {
        group->is_stepping = true;
        push_step(sim, group);
    }
}

void workers_leave(struct sim *sim, int node, const struct node_effect *effect)
{
    uint32_t slot = effect->u.worker.slot;
    const struct worker_process *process = &sim->nodes[node].processes[slot];
    if (process->is_alive && process->is_elastic && attempt_id_equal(&process->attempt, &effect->u.worker.attempt)) {
        groups_leave(sim, node, slot, effect);
    }
}

/* ---- processes ------------------------------------------------------------------------------------------------------ */

static struct sim_event *push_process(struct sim *sim, uint64_t delay_ms, enum sim_event_kind kind, int node, uint32_t slot)
{
    struct sim_event *event = sim_push(sim, sim->now_ms + delay_ms, kind, node);
    event->slot = (uint8_t)slot;
    event->serial = sim->nodes[node].processes[slot].serial;
    return event;
}

static struct worker_process *event_process(struct sim *sim, const struct sim_event *event)
{
    struct worker_process *process = &sim->nodes[event->node].processes[event->slot];
    return process->is_alive && process->serial == event->serial ? process : NULL;
}

static void join_group(struct sim *sim, int node, uint32_t slot)
{
    struct worker_process *process = &sim->nodes[node].processes[slot];
    struct worker_group *group = group_take(sim, process);
    process->group = (uint32_t)(group - sim->workers.groups);
    CHECK(process->rank < process->size && process->size == group->size);
    group->live++;
    group->ranks[process->rank].is_set = true;
    group->ranks[process->rank].node = (uint8_t)node;
    group->ranks[process->rank].slot = (uint8_t)slot;
    group->ranks[process->rank].serial = process->serial;
    group->step = process->spawn_step;
}

/* On a machine where something is broken: memory, a driver, a full /tmp. */
static void fail_soon(struct sim *sim, int node, uint32_t slot)
{
    struct random random;
    random_init_stream(&random, sim->seed, STREAM_OF_BAD + sim->nodes[node].processes[slot].serial);
    uint64_t lives_ms = sim_log_between(&random, 50, 10000);
    if (sim->now_ms + lives_ms < sim->plan.heal_ms) {
        push_process(sim, lives_ms, SIM_EXITS, node, slot)->arg = 1;
    }
}

void workers_spawn(struct sim *sim, int node, const struct node_effect *effect)
{
    uint32_t slot = effect->u.worker.slot, index = 0;
    const struct plan_experiment *experiment = experiment_of(sim, &effect->u.worker.attempt, &index);
    CHECK(slot < sim->plan.slots[node] && experiment != NULL);
    struct worker_process *process = &sim->nodes[node].processes[slot];
    checkers_on_spawn(sim, node, effect);
    if (process->is_alive) {
        return; /* a failure; checkers_on_spawn has said so */
    }
    if (effect->u.worker.step > 0) {
        hash256 prepared = sim->nodes[node].prepared[slot];
        const struct sim_blob *blob = blobs_find(sim, prepared);
        blob = blob == NULL ? blobs_part(sim, prepared, 0) : blob;
        const struct view_attempt *seen = view_find_attempt(&sim->nodes[node].core->view, &effect->u.worker.attempt);
        uint32_t parent = experiment->population > 0 && seen != NULL ? seen->parent : FACT_NO_TRIAL;
        if (blob != NULL && ((blob->attempt.trial != effect->u.worker.attempt.trial && blob->attempt.trial != parent) ||
                             !experiment_id_equal(blob->attempt.experiment, effect->u.worker.attempt.experiment))) {
            sim_fail(sim, 11, "n%d starts trial %u from a checkpoint of trial %u", node, effect->u.worker.attempt.trial,
                     blob->attempt.trial);
        }
        if (blob == NULL || blob->step != effect->u.worker.step) {
            sim_fail(sim, 11, "n%d starts trial %u at step %llu without a checkpoint of that step", node,
                     effect->u.worker.attempt.trial, (unsigned long long)effect->u.worker.step);
        }
    }
    memset(process, 0, sizeof *process);
    process->is_alive = true;
    process->serial = ++sim->workers.serial;
    process->attempt = effect->u.worker.attempt;
    process->number = effect->u.worker.number;
    process->rank = effect->u.worker.rank;
    process->size = effect->u.worker.size;
    process->token = effect->u.worker.token;
    memcpy(process->group_key, effect->u.worker.group_key, sizeof process->group_key);
    process->draw = effect->u.worker.draw;
    process->experiment = index;
    process->is_elastic = experiment->is_elastic;
    process->spawn_step = effect->u.worker.step;
    if (!process->is_elastic) {
        join_group(sim, node, slot);
    }

    struct random *random = &sim->random[STREAM_WORKERS];
    uint64_t start_ms = sim_log_between(random, 50, 1500);
    if (experiment->fails_at_once) {
        push_process(sim, start_ms, SIM_EXITS, node, slot)->arg = 1;
        return;
    }
    (void)push_process(sim, start_ms, SIM_LISTENS, node, slot);
    if (sim->now_ms < sim->nodes[node].bad_until_ms && !sim->healed) {
        fail_soon(sim, node, slot);
    }
    if (sim->plan.has[FAULT_WORKER_CRASH]) {
        (void)push_process(sim, sim_wait(random, sim->plan.worker_crash_ms), SIM_CRASHES, node, slot);
    }
}

static void fail_mates(struct sim *sim, int node, const struct worker_process *process)
{
    const struct worker_group *group = &sim->workers.groups[process->group];
    if (!sim->plan.experiments[group->experiment].fails_fast || group->is_done) {
        return;
    }
    for (uint32_t rank = 0; rank < group->size; rank++) {
        const struct worker_process *mate = rank_process(sim, group, rank);
        int other = group->ranks[rank].node;
        if (mate != NULL && network_both_ways(sim, node, other)) {
            uint64_t delay_ms = sim_log_between(&sim->random[STREAM_WORKERS], 10, 2000);
            push_process(sim, delay_ms, SIM_EXITS, other, group->ranks[rank].slot)->arg = WORKERS_ECHO_STATUS;
        }
    }
}

/* The process and all below it are gone. The daemon, if there is one, hears it; else its keep has left a note. */
static void process_gone(struct sim *sim, int node, uint32_t slot, int32_t code, bool is_killed, bool is_told)
{
    struct worker_process *process = &sim->nodes[node].processes[slot];
    CHECK(process->is_alive);
    SIM_TRACE(sim, node, "slot %u: the process of trial %u rank %u is gone: %d%s", slot, process->attempt.trial,
              process->rank, code, is_killed ? ", killed" : "");
    process->is_alive = false;
    if (process->is_elastic) {
        groups_lost(sim, node, slot);
    } else {
        sim->workers.groups[process->group].live--;
    }
    checkers_on_gone(sim, node, process, code, is_killed);
    if (is_told && !process->is_elastic) {
        outputs_take(sim, node, slot, sim->workers.groups[process->group].step, true);
    }
    if (is_told) {
        struct sim_event *event =
            sim_push(sim, sim->now_ms + sim_between(&sim->random[STREAM_WORKERS], 1, 30), SIM_EXITED, node);
        event->slot = (uint8_t)slot;
        struct workers_exit *told = sim_payload(sim, event, sizeof *told);
        told->attempt = process->attempt;
        told->code = code;
        told->is_killed = is_killed;
        told->is_stopping = process->is_stopping;
    }
    if (!process->is_elastic) {
        fail_mates(sim, node, process);
    }
}

/* The keep or the daemon ends it: dead for sure after a while, and a zombie takes its time. */
static void begin_death(struct sim *sim, int node, uint32_t slot, uint64_t grace_ms)
{
    struct worker_process *process = &sim->nodes[node].processes[slot];
    struct random *random = &sim->random[STREAM_WORKERS];
    uint64_t delay_ms = sim_log_between(random, 5, grace_ms + 500);
    if (sim->plan.has[FAULT_ZOMBIE] && !sim->healed && sim_chance(random, sim->plan.zombie_permille)) {
        delay_ms = sim_between(random, 3000, 45000);
    }
    process->is_killed = true;
    if (process->dies_ms == 0 || sim->now_ms + delay_ms < process->dies_ms) {
        process->dies_ms = sim->now_ms + delay_ms;
        (void)push_process(sim, delay_ms, SIM_DIES, node, slot);
    }
}

void workers_kill(struct sim *sim, int node, const struct node_effect *effect)
{
    uint32_t slot = effect->u.worker.slot;
    CHECK(slot < sim->plan.slots[node]);
    struct worker_process *process = &sim->nodes[node].processes[slot];
    checkers_on_revoked(sim, node, slot, &effect->u.worker.attempt);
    if (process->is_alive && attempt_id_equal(&process->attempt, &effect->u.worker.attempt)) {
        begin_death(sim, node, slot, effect->u.worker.grace_ms);
        return;
    }
    /* Nothing runs there: said at once, unless the word that it ended is on its way; a second word does no harm. */
    struct sim_event *event = sim_push(sim, sim->now_ms + 5, SIM_EXITED, node);
    event->slot = (uint8_t)slot;
    struct workers_exit *told = sim_payload(sim, event, sizeof *told);
    told->attempt = effect->u.worker.attempt;
    told->code = -15;
    told->is_killed = true;
    told->life = sim->nodes[node].life;
}

void workers_stop(struct sim *sim, int node, const struct node_effect *effect)
{
    uint32_t slot = effect->u.worker.slot;
    CHECK(slot < sim->plan.slots[node]);
    struct worker_process *process = &sim->nodes[node].processes[slot];
    if (!process->is_alive || process->is_stopping || !attempt_id_equal(&process->attempt, &effect->u.worker.attempt)) {
        return;
    }
    process->is_stopping = true;
    if (process->is_elastic) {
        groups_lost(sim, node, slot);
    }
    uint64_t delay_ms = sim_log_between(&sim->random[STREAM_WORKERS], 100, 4000);
    bool is_hung = process->hangs || (!sim->healed && process->hung_until_ms > sim->now_ms);
    if (is_hung) {
        (void)push_process(sim, effect->u.worker.grace_ms, SIM_DIES, node, slot); /* it hears no request */
        process->is_killed = true;
    } else if (delay_ms > effect->u.worker.grace_ms) {
        begin_death(sim, node, slot, effect->u.worker.grace_ms);
    } else {
        (void)push_process(sim, delay_ms, SIM_STOPPED, node, slot);
    }
}

static void push_save(struct sim *sim, int node, uint32_t slot, uint64_t step, const struct fact_part_key *part)
{
    const struct worker_process *process = &sim->nodes[node].processes[slot];
    uint64_t delay_ms = sim_log_between(&sim->random[STREAM_WORKERS], 20, 1000);
    struct sim_event *event = sim_push(sim, sim->now_ms + delay_ms, SIM_CHECKPOINT, node);
    event->slot = (uint8_t)slot;
    event->serial = process->serial;
    struct workers_save *save = sim_payload(sim, event, sizeof *save);
    save->attempt = process->attempt;
    save->step = step;
    save->part = *part;
}

void workers_save(struct sim *sim, int node, uint32_t slot, uint64_t step)
{
    push_save(sim, node, slot, step, &(struct fact_part_key){0});
}

void workers_save_part(struct sim *sim, int node, uint32_t slot, uint64_t step, uint64_t serial, uint32_t rank, uint32_t size)
{
    const struct fact_part_key part = {step, random_mix(serial << 32 ^ step), size, rank};
    push_save(sim, node, slot, step, &part);
}

void workers_end(struct sim *sim, int node, uint32_t slot, uint64_t delay_ms)
{
    push_process(sim, delay_ms, SIM_EXITS, node, slot)->arg = 0;
}

void workers_wait(struct sim *sim, int node, uint32_t slot)
{
    (void)push_process(sim, 0, SIM_LISTENS, node, slot);
}

static void listens(struct sim *sim, struct sim_event *event)
{
    struct worker_process *process = event_process(sim, event);
    if (process == NULL || (process->is_elastic && process->elastic_serial != 0)) {
        return;
    }
    process->is_listening = true;
    process->waits = process->is_elastic;
    process->port = 30000u + event->slot + (process->serial % 1000) * PLAN_SLOTS_MAX;
    if (!sim_daemon_up(sim, event->node) ||
        node_core_find_token(sim->nodes[event->node].core, process->token) != event->slot) {
        return; /* told by the adoption, or refused */
    }
    struct node_event core_event = {.kind = NODE_EVENT_WORKER_LISTENS};
    core_event.u.worker.slot = event->slot;
    core_event.u.worker.attempt = process->attempt;
    core_event.u.worker.port = process->port;
    core_event.u.worker.is_elastic = process->is_elastic;
    core_event.u.worker.has_state = process->has_state;
    core_event.u.worker.generation = process->last_generation;
    core_event.u.worker.step = process->applied;
    sim_step(sim, event->node, &core_event);
}

static void stopped(struct sim *sim, struct sim_event *event)
{
    struct worker_process *process = event_process(sim, event);
    if (process == NULL) {
        return;
    }
    const struct worker_group *group = &sim->workers.groups[process->group];
    uint64_t step = process->is_elastic ? process->applied : process->generation > 0 ? group->step : 0;
    bool saves_parts = !process->is_elastic && sim->plan.experiments[group->experiment].saves_parts;
    if (saves_parts && step > 0) {
        workers_save_part(sim, event->node, event->slot, step, group->serial, process->rank, group->size);
    } else if (process->rank == 0 && step > 0) {
        workers_save(sim, event->node, event->slot, step);
    }
    process_gone(sim, event->node, event->slot, 0, false, true);
}

static uint32_t pack_metric(uint8_t *out, size_t size, double value)
{
    struct pack_writer writer;
    pack_writer_init(&writer, out, size);
    pack_map(&writer, 1);
    pack_text(&writer, "validation");
    pack_map(&writer, 1);
    pack_text(&writer, "accuracy");
    pack_double(&writer, value);
    CHECK(!writer.failed);
    return (uint32_t)writer.used_bytes;
}

double workers_metric(uint32_t trial, uint64_t step)
{
    uint64_t dice = random_mix(random_mix(trial * 1009u + 7) ^ step);
    return dice % 16 == 0 ? NAN : (double)(dice >> 8 & 63);
}

static void report_result(struct sim *sim, int node, uint32_t slot, uint64_t step)
{
    const struct worker_process *process = &sim->nodes[node].processes[slot];
    struct node_event event = {.kind = NODE_EVENT_WORKER_RESULT};
    event.u.worker.slot = slot;
    event.u.worker.attempt = process->attempt;
    event.u.worker.step = event.u.worker.length = step;
    event.u.worker.metric = workers_metric(process->attempt.trial, step);
    sim_step(sim, node, &event);
}

void workers_report(struct sim *sim, int node, uint32_t slot, uint64_t step)
{
    const struct worker_process *process = &sim->nodes[node].processes[slot];
    if (!sim_runs(sim, node) || node_core_find_token(sim->nodes[node].core, process->token) != (int)slot) {
        return;
    }
    uint8_t metrics[128];
    struct node_event event = {.kind = NODE_EVENT_WORKER_STATUS, .bytes = metrics};
    event.byte_count = pack_metric(metrics, sizeof metrics, 1.0 - 1.0 / (double)(step + 1 + process->attempt.trial));
    event.u.worker.slot = slot;
    event.u.worker.attempt = process->attempt;
    event.u.worker.step = step;
    sim_step(sim, node, &event);
    if (sim->plan.version > 14 && process->rank == 0) {
        report_result(sim, node, slot, step);
    }
}

/* The owners notice once it has lasted; a daemon that begins meanwhile looks anew. */
static void push_stalls(struct sim *sim, const struct worker_group *group, uint32_t rank)
{
    const struct plan_experiment *experiment = &sim->plan.experiments[group->experiment];
    uint64_t timeout_s = group->ends_quietly ? experiment->exit_barrier_s : experiment->stall_timeout_s;
    if (rank_process(sim, group, rank) != NULL) {
        push_process(sim, timeout_s * 1000, SIM_STALLS, group->ranks[rank].node, group->ranks[rank].slot)->arg =
            rank == group->hang_rank ? FACT_IDLE : FACT_SILENT;
    }
}

static void begin_hang(struct sim *sim, struct worker_group *group)
{
    group->hung_ms = sim->now_ms;
    checkers_on_hung(sim, group->ranks[group->hang_rank].node, &group->attempt);
    SIM_TRACE(sim, group->ranks[group->hang_rank].node, "rank %u of trial %u %s", group->hang_rank, group->attempt.trial,
              group->ends_quietly ? "ends quietly" : "hangs");
    if (group->ends_quietly) {
        push_process(sim, 1, SIM_EXITS, group->ranks[group->hang_rank].node, group->ranks[group->hang_rank].slot)->arg = 0;
    }
    rank_process(sim, group, group->hang_rank)->hangs = !group->ends_quietly;
    for (uint32_t rank = 0; rank < group->size; rank++) {
        push_stalls(sim, group, rank);
    }
}

static void stalls(struct sim *sim, struct sim_event *event)
{
    const struct worker_process *process = event_process(sim, event);
    if (process == NULL) {
        return;
    }
    if (!sim_daemon_up(sim, event->node)) {
        return; /* the next daemon begins anew */
    }
    struct node_event core_event = {.kind = NODE_EVENT_WORKER_STALL};
    core_event.u.worker.slot = event->slot;
    core_event.u.worker.attempt = process->attempt;
    core_event.u.worker.stall = (enum fact_stall)event->arg;
    core_event.u.worker.stall_s = sim->now_ms / 1000;
    bool ends_quietly = sim->workers.groups[process->group].ends_quietly;
    core_event.u.worker.is_overdue = !ends_quietly;
    core_event.u.worker.is_past_barrier = ends_quietly;
    sim_step(sim, event->node, &core_event);
}

void workers_check_hung(struct sim *sim)
{
    for (uint32_t i = 0; i < WORKERS_GROUPS_MAX && sim->healed; i++) {
        const struct worker_group *group = &sim->workers.groups[i];
        bool is_hung = group->is_used && group->live > 0 && group->hung_ms != 0 && !sim->plan.needs_patience;
        for (uint32_t rank = 0; rank < group->size && is_hung; rank++) {
            is_hung = !group->ranks[rank].is_set || (sim->plan.core >> group->ranks[rank].node & 1) != 0;
        }
        const struct plan_experiment *experiment = &sim->plan.experiments[group->experiment];
        uint64_t from_ms = group->hung_ms > sim->healed_ms ? group->hung_ms : sim->healed_ms;
        uint64_t allowed_s = group->ends_quietly ? experiment->exit_barrier_s : experiment->stall_timeout_s;
        if (is_hung && sim->now_ms - from_ms > allowed_s * 1000 + HUNG_OVER_MS) {
            sim_fail(sim, 8, "attempt %u of trial %u still runs, %llu s after a rank of it %s", group->attempt.number,
                     group->attempt.trial, (unsigned long long)((sim->now_ms - group->hung_ms) / 1000),
                     group->ends_quietly ? "ended" : "hung");
        }
    }
}

static void step(struct sim *sim, struct sim_event *event)
{
    struct worker_group *group = NULL;
    for (uint32_t i = 0; i < WORKERS_GROUPS_MAX && group == NULL; i++) {
        bool is_it = sim->workers.groups[i].is_used && sim->workers.groups[i].serial == event->serial;
        group = is_it ? &sim->workers.groups[i] : NULL;
    }
    if (group == NULL || group->live == 0) {
        return;
    }
    if (!can_step(sim, group)) {
        push_step(sim, group);
        return;
    }
    const struct plan_experiment *experiment = &sim->plan.experiments[group->experiment];
    group->step++;
    if (group->step == group->hang_step && !sim->healed) {
        begin_hang(sim, group);
        return;
    }
    if (sim->plan.has[FAULT_POISON] && !sim->healed && group->experiment == 0 && group->attempt.trial == 0 &&
        group->step % POISON_STEPS == 1) {
        sim_push(sim, sim->now_ms + 1, SIM_STRUCK_DOWN, group->ranks[0].node)->serial =
            sim->nodes[group->ranks[0].node].life;
    }
    workers_report(sim, group->ranks[0].node, group->ranks[0].slot, group->step);
    for (uint32_t rank = 0; rank < group->size; rank++) {
        if (group->ranks[rank].is_set && sim->nodes[group->ranks[rank].node].processes[group->ranks[rank].slot].is_alive) {
            outputs_take(sim, group->ranks[rank].node, group->ranks[rank].slot, group->step, false);
        }
    }
    if (group->step >= experiment->steps) {
        group->is_done = true;
        checkers_on_program_done(sim, &group->attempt);
        for (uint32_t rank = 0; rank < group->size; rank++) {
            uint64_t delay_ms = sim_log_between(&sim->random[STREAM_WORKERS], 1, 300);
            push_process(sim, delay_ms, SIM_EXITS, group->ranks[rank].node, group->ranks[rank].slot)->arg = 0;
        }
        return;
    }
    bool is_save = group->step % experiment->save_every == 0;
    if (is_save && !experiment->saves_parts) {
        workers_save(sim, group->ranks[0].node, group->ranks[0].slot, group->step);
    }
    for (uint32_t rank = 0; rank < group->size && is_save && experiment->saves_parts; rank++) {
        if (group->ranks[rank].is_set) {
            workers_save_part(sim, group->ranks[rank].node, group->ranks[rank].slot, group->step, group->serial, rank, group->size);
        }
    }
    push_step(sim, group);
}

/* ---- checkpoints ---------------------------------------------------------------------------------------------------- */

/* A checkpoint's name follows from what is in it: here, whose it is. */
static hash256 blob_of(const attempt_id *attempt, uint64_t step)
{
    hash256 hash;
    for (uint64_t i = 0; i < 4; i++) {
        uint64_t word = bytes_hash64(attempt->experiment.bytes, sizeof attempt->experiment.bytes, step * 4 + i);
        word = random_mix(word ^ ((uint64_t)attempt->trial << 32 | attempt->number) ^ random_mix(attempt->term));
        word ^= bytes_hash64(attempt->coordinator.bytes, sizeof attempt->coordinator.bytes, i);
        bytes_put_u64(hash.bytes + 8 * i, word);
    }
    return hash;
}

static void checkpoint(struct sim *sim, struct sim_event *event)
{
    const struct workers_save *save = event->payload;
    int node = event->node;
    const struct worker_process *process = event_process(sim, event);
    if (!sim_daemon_up(sim, node)) {
        if (process != NULL) {
            sim_again(sim, event, sim->now_ms + 1000); /* the worker asks again */
        }
        return;
    }
    if (sim->nodes[node].disk.is_full) {
        return;
    }
    if (process != NULL && node_core_find_token(sim->nodes[node].core, process->token) != event->slot) {
        return; /* a checkpoint with a token that is no longer valid is refused */
    }
    hash256 blob = blob_of(&save->attempt, save->step);
    if (save->part.count > 0) {
        bytes_put_u64(blob.bytes, random_mix(bytes_get_u64(blob.bytes) ^ save->part.save) + save->part.part + 1);
    }
    blobs_put(sim, blob, node, false, save->step);
    struct sim_blob *stored = blobs_find(sim, blob);
    stored->attempt = save->attempt;
    if (save->part.count > 0) {
        stored->set = fact_part_name(&save->attempt, &save->part);
        stored->part = save->part.part;
        stored->parts = save->part.count;
    }
    checkers_on_saved(sim, node, &save->attempt, save->step, blob);
    struct node_event core_event = {.kind = NODE_EVENT_CHECKPOINT};
    core_event.u.blob.slot = event->slot;
    core_event.u.blob.attempt = save->attempt;
    core_event.u.blob.step = save->step;
    core_event.u.blob.part = save->part;
    core_event.u.blob.blob = blob;
    core_event.u.blob.bytes = 1000;
    core_event.u.blob.node = sim->nodes[node].id;
    core_event.u.blob.ok = true;
    uint8_t metrics[128];
    if (sim->plan.version > 6) {
        core_event.bytes = metrics;
        core_event.byte_count = pack_metric(metrics, sizeof metrics, (double)(random_mix(save->step) % 1000) / 1000);
    }
    sim_step(sim, node, &core_event);
}

/* ---- the daemon comes and goes -------------------------------------------------------------------------------------- */

void workers_daemon_down(struct sim *sim, int node)
{
    for (uint32_t slot = 0; slot < sim->plan.slots[node]; slot++) {
        sim->nodes[node].processes[slot].output_waits = false;
        if (sim->nodes[node].processes[slot].is_alive) {
            (void)push_process(sim, WORKERS_KEEP_MS, SIM_ORPHANED, node, slot);
        }
    }
}

void workers_host_down(struct sim *sim, int node)
{
    for (uint32_t slot = 0; slot < sim->plan.slots[node]; slot++) {
        if (sim->nodes[node].processes[slot].is_alive) {
            process_gone(sim, node, slot, -9, true, false);
        }
        sim->nodes[node].reports[slot].is_waiting = false; /* the note was not synced */
    }
}

void workers_adopt(struct sim *sim, int node)
{
    sim->blobs.opened_ms[node] = sim->now_ms;
    for (uint32_t slot = 0; slot < sim->plan.slots[node]; slot++) {
        const struct worker_process *process = &sim->nodes[node].processes[slot];
        const struct worker_report *note = &sim->nodes[node].reports[slot];
        if (!process->is_alive && !note->is_waiting) {
            continue;
        }
        /* One that has ended and left a note is adopted too, so that its end is heard as what it was. */
        struct node_event event = {.kind = NODE_EVENT_ADOPT};
        event.u.adopt.slot = slot;
        event.u.adopt.attempt = process->attempt;
        event.u.adopt.number = (uint16_t)process->number;
        event.u.adopt.token = process->token;
        event.u.adopt.data_port = process->is_listening ? process->port : 0;
        event.u.adopt.draw = process->draw;
        memcpy(event.u.adopt.group_key, process->group_key, sizeof event.u.adopt.group_key);
        sim_step(sim, node, &event);
    }
}

static void tell_exit(struct sim *sim, int node, uint32_t slot, const struct workers_exit *told)
{
    struct node_event event = {.kind = NODE_EVENT_WORKER_EXITED};
    event.u.worker.slot = slot;
    event.u.worker.attempt = told->attempt;
    event.u.worker.code = told->code;
    event.u.worker.killed = told->is_killed;
    event.u.worker.is_stopping = told->is_stopping;
    event.u.worker.text = told->code == 0 ? "" : "Traceback: it failed";
    event.u.worker.failure = sim->plan.version > 11 && told->code == 1 ? 1 : 0; /* one that fails at once, or on a bad machine */
    checkers_on_revoked(sim, node, slot, &told->attempt);
    sim_step(sim, node, &event);
}

void workers_daemon_up(struct sim *sim, int node)
{
    for (uint32_t slot = 0; slot < sim->plan.slots[node]; slot++) {
        const struct worker_process *process = &sim->nodes[node].processes[slot];
        bool waits = process->is_elastic ? process->waits : process->generation == 0;
        if (process->is_alive && process->is_listening && waits) {
            /* It connects again, and repeats what got no reply: it still waits for its group. */
            (void)push_process(sim, sim_between(&sim->random[STREAM_WORKERS], 10, 1000), SIM_LISTENS, node, slot);
        }
        if (process->is_alive && !process->is_elastic && sim->workers.groups[process->group].hung_ms != 0) {
            push_stalls(sim, &sim->workers.groups[process->group], process->rank);
        }
        struct worker_report *note = &sim->nodes[node].reports[slot];
        if (note->is_waiting) {
            struct workers_exit told = {.attempt = note->attempt, .code = note->code, .is_killed = note->is_killed,
                                        .is_stopping = note->is_stopping};
            note->is_waiting = false;
            tell_exit(sim, node, slot, &told);
        }
    }
}

static void exited(struct sim *sim, struct sim_event *event)
{
    const struct workers_exit *told = event->payload;
    int node = event->node;
    if (told->life != 0 && told->life != sim->nodes[node].life) {
        return;
    }
    if (sim_daemon_up(sim, node)) {
        tell_exit(sim, node, event->slot, told);
    } else if (sim->nodes[node].host_up) {
        struct worker_report *note = &sim->nodes[node].reports[event->slot];
        note->is_waiting = true;
        note->attempt = told->attempt;
        note->code = told->code;
        note->is_killed = told->is_killed;
        note->is_stopping = told->is_stopping;
    }
}

static void orphaned(struct sim *sim, struct sim_event *event)
{
    struct worker_process *process = event_process(sim, event);
    bool is_long = !sim_daemon_up(sim, event->node) &&
                   sim->now_ms - sim->nodes[event->node].down_since_ms >= WORKERS_KEEP_MS;
    if (process != NULL && is_long) {
        begin_death(sim, event->node, event->slot, 2000);
    }
}

/* ---- events --------------------------------------------------------------------------------------------------------- */

static bool needs_daemon_awake(enum sim_event_kind kind)
{
    return kind == SIM_PREPARED || kind == SIM_LISTENS || kind == SIM_STALLS || kind == SIM_EXITED || kind == SIM_CHECKPOINT;
}

void workers_event(struct sim *sim, struct sim_event *event)
{
    bool is_of_group = event->kind == SIM_STEP || event->kind == SIM_GROUP_STEP;
    if (!is_of_group && sim_paused(sim, event->node) &&
        (needs_daemon_awake(event->kind) || sim->nodes[event->node].is_suspended)) {
        sim_again(sim, event, sim->nodes[event->node].paused_until_ms);
        return;
    }
    switch ((enum sim_event_kind)event->kind) {
    case SIM_PREPARED:
        prepared(sim, event);
        break;
    case SIM_LISTENS:
        listens(sim, event);
        break;
    case SIM_GROUP_STEP:
        groups_step(sim, event);
        break;
    case SIM_LEAVES:
        if (event_process(sim, event) != NULL) {
            groups_left(sim, event);
        }
        break;
    case SIM_STOPPED:
        stopped(sim, event);
        break;
    case SIM_DIES:
        if (event_process(sim, event) != NULL) {
            process_gone(sim, event->node, event->slot, -9, true,
                         !sim->nodes[event->node].processes[event->slot].is_lost);
        }
        break;
    case SIM_EXITS:
        if (event_process(sim, event) != NULL) {
            process_gone(sim, event->node, event->slot, event->arg, false, true);
        }
        break;
    case SIM_CRASHES:
        if (event_process(sim, event) != NULL && !sim->healed) {
            process_gone(sim, event->node, event->slot, -11, false, true);
        }
        break;
    case SIM_ORPHANED:
        orphaned(sim, event);
        break;
    case SIM_EXITED:
        exited(sim, event);
        break;
    case SIM_STALLS:
        stalls(sim, event);
        break;
    case SIM_STEP:
        step(sim, event);
        break;
    case SIM_CHECKPOINT:
        checkpoint(sim, event);
        break;
    default:
        CHECK(!"not an event of workers");
    }
}
