#include "tests/sim/groups.h"

#include <string.h>

#include "base/check.h"
#include "node/core/core.h"
#include "tests/sim/checkers.h"
#include "tests/sim/network.h"
#include "tests/sim/world.h"

static struct elastic_group *find(struct sim *sim, uint32_t serial)
{
    for (uint32_t i = 0; i < GROUPS_MAX; i++) {
        if (sim->groups.all[i].is_used && sim->groups.all[i].serial == serial) {
            return &sim->groups.all[i];
        }
    }
    return NULL;
}

struct worker_process *groups_member(struct sim *sim, const struct elastic_group *group, uint32_t rank)
{
    if (!group->ranks[rank].is_in) {
        return NULL;
    }
    struct worker_process *process = &sim->nodes[group->ranks[rank].node].processes[group->ranks[rank].slot];
    bool is_it = process->is_alive && process->serial == group->ranks[rank].serial && process->elastic_serial == group->serial;
    return is_it ? process : NULL;
}

static bool is_alive(struct sim *sim, const struct elastic_group *group, bool is_spread)
{
    int first = -1;
    bool has_two = false;
    for (uint32_t rank = 0; rank < group->size && group->is_used && !group->is_done; rank++) {
        if (groups_member(sim, group, rank) != NULL) {
            has_two |= first >= 0 && first != group->ranks[rank].node;
            first = group->ranks[rank].node;
        }
    }
    return is_spread ? has_two : first >= 0;
}

struct elastic_group *groups_pick(struct sim *sim, struct random *random, bool is_spread)
{
    uint64_t from = random_below(random, GROUPS_MAX);
    for (uint32_t i = 0; i < GROUPS_MAX; i++) {
        struct elastic_group *group = &sim->groups.all[(from + i) % GROUPS_MAX];
        if (is_alive(sim, group, is_spread)) {
            return group;
        }
    }
    return NULL;
}

void groups_forget(struct sim *sim)
{
    sim->groups.forgotten = sim->groups.serial;
}

static bool is_deserted(struct sim *sim, struct elastic_group *group)
{
    bool is_empty = true;
    for (uint32_t rank = 0; is_empty && rank < group->size; rank++) {
        is_empty = groups_member(sim, group, rank) == NULL;
    }
    return is_empty;
}

static void forget_empty(struct sim *sim)
{
    for (uint32_t i = 0; i < GROUPS_MAX; i++) {
        struct elastic_group *group = &sim->groups.all[i];
        if (group->is_used && group->serial <= sim->groups.forgotten && is_deserted(sim, group)) {
            group->is_used = false;
        }
    }
}

/* Of the same name and key; made where there is none. One that nobody is in any more makes room. */
static struct elastic_group *take(struct sim *sim, const struct worker_process *process, const struct node_effect *effect)
{
    struct elastic_group *oldest = NULL;
    forget_empty(sim);
    for (uint32_t i = 0; i < GROUPS_MAX; i++) {
        struct elastic_group *group = &sim->groups.all[i];
        if (group->is_used && group->generation == effect->u.worker.generation &&
            attempt_id_equal(&group->attempt, &process->attempt) &&
            memcmp(group->key, effect->u.worker.group_key, sizeof group->key) == 0) {
            return group;
        }
        if (group->is_used && attempt_id_equal(&group->attempt, &process->attempt) &&
            memcmp(group->key, effect->u.worker.group_key, sizeof group->key) == 0) {
            sim_fail(sim, 12, "generations %u and %u of trial %u have one key", group->generation,
                     effect->u.worker.generation, process->attempt.trial);
        }
        bool is_older = oldest == NULL || (oldest->is_used && (!group->is_used || group->serial < oldest->serial));
        oldest = (!group->is_used || group->entered == 0) && is_older ? group : oldest;
    }
    for (uint32_t i = 0; oldest == NULL && i < GROUPS_MAX; i++) { /* in long runs: their members ended without leaving them */
        oldest = is_deserted(sim, &sim->groups.all[i]) ? &sim->groups.all[i] : NULL;
    }
    CHECK(oldest != NULL);
    memset(oldest, 0, sizeof *oldest);
    oldest->is_used = true;
    oldest->serial = ++sim->groups.serial;
    oldest->attempt = process->attempt;
    oldest->generation = effect->u.worker.generation;
    oldest->size = effect->u.worker.size;
    oldest->start_step = oldest->step = effect->u.worker.step;
    oldest->idle_ms = sim->now_ms;
    oldest->experiment = process->experiment;
    memcpy(oldest->key, effect->u.worker.group_key, sizeof oldest->key);
    CHECK(oldest->size <= GROUPS_RANKS_MAX);
    struct pack_reader reader;
    pack_reader_init(&reader, effect->bytes, effect->byte_count);
    CHECK(pack_read_array(&reader) == oldest->size);
    for (uint32_t rank = 0; rank < oldest->size; rank++) {
        CHECK(pack_read_array(&reader) == 4);
        pack_skip(&reader);
        pack_skip(&reader);
        pack_skip(&reader);
        oldest->ranks[rank].has_state = pack_read_bool(&reader);
    }
    CHECK(!reader.failed);
    struct sim_event *event = sim_push(sim, sim->now_ms + 20, SIM_GROUP_STEP, 0);
    event->serial = oldest->serial;
    return oldest;
}

static void push_leave(struct sim *sim, int node, uint32_t slot, uint64_t delay_ms)
{
    struct sim_event *event = sim_push(sim, sim->now_ms + delay_ms, SIM_LEAVES, node);
    event->slot = (uint8_t)slot;
    event->serial = sim->nodes[node].processes[slot].serial;
    uint32_t *from = sim_payload(sim, event, sizeof *from);
    *from = sim->nodes[node].processes[slot].elastic_serial; /* not from the next one */
}

/* Who computes hears it after its step. */
static uint64_t hearing_ms(struct sim *sim, const struct elastic_group *group, uint64_t delay_ms)
{
    const struct plan_experiment *plan = &sim->plan.experiments[group->experiment];
    return plan->hears_late && group->is_formed ? delay_ms + random_below(&sim->random[STREAM_GROUPS], plan->step_ms) : delay_ms;
}

static void all_leave(struct sim *sim, const struct elastic_group *group, uint64_t most_ms)
{
    for (uint32_t rank = 0; rank < group->size; rank++) {
        if (groups_member(sim, group, rank) != NULL) {
            push_leave(sim, group->ranks[rank].node, group->ranks[rank].slot,
                       sim_between(&sim->random[STREAM_GROUPS], 1, most_ms));
        }
    }
}

void groups_enter(struct sim *sim, int node, struct worker_process *process, const struct node_effect *effect)
{
    if (!process->waits || effect->u.worker.generation <= process->last_generation) {
        return; /* it did not ask */
    }
    struct elastic_group *group = take(sim, process, effect);
    uint32_t rank = effect->u.worker.rank, slot = effect->u.worker.slot;
    bool is_taken = rank < group->size && group->ranks[rank].is_in && group->ranks[rank].serial != process->serial;
    int other = is_taken ? group->ranks[rank].node : node;
    if (other != node && sim->nodes[node].is_twin && sim->nodes[other].is_twin) {
        process->last_generation = group->generation; /* both daemons with one key were asked: the second is not let in */
        workers_wait(sim, node, slot);
        return;
    }
    if (rank >= group->size || is_taken) {
        sim_fail(sim, 12, "n%d tells two workers that they are rank %u of generation %u of trial %u", node, rank,
                 group->generation, group->attempt.trial);
        return;
    }
    group->entered += !group->ranks[rank].is_in;
    group->ranks[rank].is_in = true;
    group->ranks[rank].node = (uint8_t)node;
    group->ranks[rank].slot = (uint8_t)slot;
    group->ranks[rank].serial = process->serial;
    process->waits = false;
    process->elastic_serial = group->serial;
    process->rank = rank;
    process->last_generation = group->generation;
}

void groups_leave(struct sim *sim, int node, uint32_t slot, const struct node_effect *effect)
{
    struct worker_process *process = &sim->nodes[node].processes[slot];
    struct elastic_group *group = find(sim, process->elastic_serial);
    if (group == NULL || group->generation != effect->u.worker.generation) {
        return;
    }
    if (effect->u.worker.at_once || !group->is_formed) {
        push_leave(sim, node, slot, hearing_ms(sim, group, sim_between(&sim->random[STREAM_GROUPS], 1, 20)));
    } else {
        group->is_leaving = true;
    }
}

static bool reach_each_other(struct sim *sim, const struct elastic_group *group)
{
    for (uint32_t a = 0; a < group->size; a++) {
        int node = group->ranks[a].node;
        const struct worker_process *process = groups_member(sim, group, a);
        if ((sim_paused(sim, node) && sim->nodes[node].is_suspended) ||
            (!sim->healed && sim->now_ms < process->hung_until_ms)) {
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

bool groups_is_whole(struct sim *sim, const struct elastic_group *group)
{
    for (uint32_t rank = 0; rank < group->size; rank++) {
        const struct worker_process *process = groups_member(sim, group, rank);
        if (process == NULL || process->is_stopping || process->is_killed) {
            return false;
        }
    }
    return true;
}

static void form(struct sim *sim, struct elastic_group *group)
{
    group->is_formed = true;
    SIM_TRACE(sim, group->ranks[0].node, "GENERATION %u of trial %u attempt %u forms, %u ranks, from step %llu",
              group->generation, group->attempt.trial, group->attempt.number, group->size,
              (unsigned long long)group->start_step);
    checkers_on_group(sim, group);
    for (uint32_t rank = 0; rank < group->size; rank++) {
        struct worker_process *process = groups_member(sim, group, rank);
        process->has_state = true;
        process->applied = group->start_step;
    }
}

/* Of the step that was under way some may have got all that they need to apply it. */
static void cut_short(struct sim *sim, struct elastic_group *group)
{
    group->is_broken = true;
    const struct plan_experiment *plan = &sim->plan.experiments[group->experiment];
    for (uint32_t rank = 0; rank < group->size && group->step + 1 < plan->steps; rank++) {
        struct worker_process *process = groups_member(sim, group, rank);
        if (process != NULL && group->is_formed && process->applied == group->step &&
            sim_chance(&sim->random[STREAM_GROUPS], 300)) {
            process->applied++;
        }
    }
    for (uint32_t rank = 0; rank < group->size; rank++) {
        const struct worker_process *process = groups_member(sim, group, rank);
        group->step = process != NULL && process->applied > group->step ? process->applied : group->step;
    }
}

void groups_lost(struct sim *sim, int node, uint32_t slot)
{
    struct elastic_group *group = find(sim, sim->nodes[node].processes[slot].elastic_serial);
    if (group == NULL || group->is_broken || group->is_done) {
        return;
    }
    cut_short(sim, group);
    for (uint32_t rank = 0; rank < group->size; rank++) {
        int other = group->ranks[rank].node;
        bool is_told = other == node || (sim->nodes[node].host_up && network_both_ways(sim, node, other));
        if (groups_member(sim, group, rank) != NULL && is_told) {
            uint64_t delay_ms = sim_log_between(&sim->random[STREAM_GROUPS], 2, 300);
            push_leave(sim, other, group->ranks[rank].slot, hearing_ms(sim, group, delay_ms));
        }
    }
}

void groups_left(struct sim *sim, struct sim_event *event)
{
    int node = event->node;
    uint32_t slot = event->slot;
    const uint32_t *from = event->payload;
    struct worker_process *process = &sim->nodes[node].processes[slot];
    struct elastic_group *group = find(sim, process->elastic_serial);
    if (group == NULL || group->serial != *from || process->waits || process->is_stopping || group->is_done) {
        return;
    }
    uint64_t hung_ms = process->hung_until_ms < sim->plan.heal_ms ? process->hung_until_ms : sim->plan.heal_ms;
    if (sim->plan.version > 4 && sim->now_ms < hung_ms) {
        sim_again(sim, event, hung_ms); /* it hears nothing */
        return;
    }
    group->entered--;
    if (!group->is_leaving) {
        groups_lost(sim, node, slot);
    }
    process->elastic_serial = 0;
    process->waits = true;
    workers_wait(sim, node, slot);
}

static void complete(struct sim *sim, struct elastic_group *group)
{
    group->is_done = true;
    checkers_on_program_done(sim, &group->attempt);
    for (uint32_t rank = 0; rank < group->size; rank++) {
        workers_end(sim, group->ranks[rank].node, group->ranks[rank].slot,
                    sim_log_between(&sim->random[STREAM_WORKERS], 1, 300));
    }
}

static void one_step(struct sim *sim, struct elastic_group *group)
{
    const struct plan_experiment *plan = &sim->plan.experiments[group->experiment];
    group->step++;
    for (uint32_t rank = 0; rank < group->size; rank++) {
        groups_member(sim, group, rank)->applied = group->step;
    }
    checkers_on_group_step(sim, group);
    workers_report(sim, group->ranks[0].node, group->ranks[0].slot, group->step);
    if (group->step >= plan->steps) {
        complete(sim, group);
    } else if (group->step % plan->save_every == 0 && !plan->saves_parts) {
        workers_save(sim, group->ranks[0].node, group->ranks[0].slot, group->step);
    } else if (group->step % plan->save_every == 0) {
        for (uint32_t rank = 0; rank < group->size; rank++) {
            workers_save_part(sim, group->ranks[rank].node, group->ranks[rank].slot, group->step, 1u << 31 | group->serial, rank,
                              group->size);
        }
    }
}

/* The next step of its slowest rank. */
static uint64_t step_ends_ms(const struct sim *sim, const struct elastic_group *group)
{
    uint64_t ends_ms = sim->now_ms + sim->plan.experiments[group->experiment].step_ms;
    for (uint32_t rank = 0; rank < group->size; rank++) {
        uint64_t its_ms = group->ranks[rank].is_in ? workers_step_ends_ms(sim, group->experiment, group->ranks[rank].node,
                                                                          group->ranks[rank].slot)
                                                   : 0;
        ends_ms = its_ms > ends_ms ? its_ms : ends_ms;
    }
    return ends_ms;
}

void groups_step(struct sim *sim, struct sim_event *event)
{
    struct elastic_group *group = find(sim, event->serial);
    if (group == NULL || group->is_broken || group->is_done) {
        return;
    }
    uint64_t next_ms = step_ends_ms(sim, group);
    if (group->entered < group->size || !groups_is_whole(sim, group) || !reach_each_other(sim, group)) {
        next_ms = group->is_formed ? next_ms : sim->now_ms + 20;
        if (sim->now_ms - group->idle_ms >= GROUPS_PATIENCE_MS) {
            group->is_broken = true;
            all_leave(sim, group, 2000);
            return;
        }
    } else if (!group->is_formed) {
        form(sim, group);
        group->idle_ms = sim->now_ms;
    } else {
        one_step(sim, group);
        group->idle_ms = sim->now_ms;
        if (group->is_leaving && !group->is_done) {
            group->is_broken = true;
            all_leave(sim, group, 20);
            return;
        }
    }
    sim_push(sim, next_ms, SIM_GROUP_STEP, 0)->serial = group->serial;
}
