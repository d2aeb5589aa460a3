#include "tests/sim/faults.h"

#include "base/check.h"
#include "tests/sim/world.h"

static void push_next(struct sim *sim, enum plan_fault fault)
{
    uint64_t at_ms = sim->now_ms + 1 + sim_wait(&sim->random[STREAM_FAULTS], sim->plan.mean_ms[fault]);
    if (at_ms < sim->plan.heal_ms) {
        sim_push(sim, at_ms, SIM_FAULT, 0)->arg = (uint8_t)fault;
    }
}

void faults_init(struct sim *sim)
{
    static const enum plan_fault lasting[] = {FAULT_LOSS, FAULT_DELAY, FAULT_DUPLICATE, FAULT_REORDER};
    for (int fault = FAULT_TIMED_FIRST; fault <= FAULT_TIMED_LAST; fault++) {
        if (sim->plan.has[fault]) {
            push_next(sim, (enum plan_fault)fault);
        }
    }
    for (size_t i = 0; i < sizeof lasting / sizeof lasting[0]; i++) {
        if (sim->plan.has[lasting[i]]) {
            sim->unstable_until_ms = sim->plan.heal_ms;
        }
    }
}

static void unstable(struct sim *sim, uint64_t until_ms)
{
    sim->unstable_until_ms = until_ms > sim->unstable_until_ms ? until_ms : sim->unstable_until_ms;
}

static void cut(struct sim *sim, int from, int to, uint64_t until_ms)
{
    struct network_link *link = &sim->network.links[from][to];
    link->cut_until_ms = until_ms > link->cut_until_ms ? until_ms : link->cut_until_ms;
    unstable(sim, until_ms);
}

/* Two sides, drawn anew each time. */
static void partition(struct sim *sim, uint64_t duration_ms)
{
    uint64_t sides = random_u64(&sim->random[STREAM_FAULTS]);
    for (int i = 0; i < (int)sim->plan.node_count; i++) {
        for (int j = 0; j < (int)sim->plan.node_count; j++) {
            if ((sides >> i & 1) != (sides >> j & 1)) {
                cut(sim, i, j, sim->now_ms + duration_ms);
            }
        }
    }
}

static void one_way(struct sim *sim, uint64_t duration_ms)
{
    struct random *random = &sim->random[STREAM_FAULTS];
    uint64_t count = sim_between(random, 1, sim->plan.node_count);
    for (uint64_t i = 0; i < count; i++) {
        int from = (int)random_below(random, sim->plan.node_count);
        int to = (int)random_below(random, sim->plan.node_count);
        if (from != to) {
            cut(sim, from, to, sim->now_ms + duration_ms);
        }
    }
}

static void boot_later(struct sim *sim, int node, uint64_t delay_ms)
{
    unstable(sim, sim->now_ms + delay_ms);
    sim_push(sim, sim->now_ms + delay_ms, SIM_BOOT, node)->serial = sim->nodes[node].life;
}

static void crash(struct sim *sim, int node, bool is_host, uint64_t down_ms)
{
    sim_crash(sim, node, is_host);
    if (is_host) {
        uint64_t on_ms = 1 + down_ms / 2;
        sim_push(sim, sim->now_ms + on_ms, SIM_HOST_UP, node)->serial = sim->nodes[node].life;
    }
    boot_later(sim, node, down_ms);
}

/* The daemon is killed with one of its keeps, and the worker below it dies unseen. */
static void lose_keep(struct sim *sim, int node, uint64_t down_ms)
{
    crash(sim, node, false, down_ms);
    for (uint32_t slot = 0; slot < sim->plan.slots[node]; slot++) {
        struct worker_process *process = &sim->nodes[node].processes[slot];
        if (process->is_alive) {
            process->is_lost = true;
            struct sim_event *event = sim_push(sim, sim->now_ms + 1, SIM_DIES, node);
            event->slot = (uint8_t)slot;
            event->serial = process->serial;
            return;
        }
    }
}

void faults_strike(struct sim *sim, struct sim_event *event)
{
    struct random *random = &sim->random[STREAM_FAULTS];
    enum plan_fault fault = (enum plan_fault)event->arg;
    int node = (int)random_below(random, sim->plan.node_count);
    uint64_t short_ms = sim_log_between(random, 200, 90000);
    uint64_t long_ms = sim_log_between(random, 1000, 120000);
    uint64_t pause_ms = sim_log_between(random, 1000, 60000);
    push_next(sim, fault);
    if (sim->healed) {
        return;
    }
    struct sim_node *victim = &sim->nodes[node];
    SIM_TRACE(sim, node, "FAULT: %s", plan_fault_name(fault));
    switch (fault) {
    case FAULT_PARTITION:
        partition(sim, long_ms);
        return;
    case FAULT_ONE_WAY:
        one_way(sim, long_ms);
        return;
    case FAULT_DISK_FULL:
        if (sim_runs(sim, node)) {
            disk_set_full(sim, node, true);
            (void)sim_push(sim, sim->now_ms + pause_ms, SIM_DISK_ROOM, node);
        }
        return;
    default:
        break;
    }
    if (!sim_runs(sim, node)) {
        return; /* down or paused already */
    }
    switch (fault) {
    case FAULT_CRASH_DAEMON:
        crash(sim, node, false, short_ms);
        break;
    case FAULT_LOSE_KEEP:
        lose_keep(sim, node, short_ms);
        break;
    case FAULT_CRASH_HOST:
        crash(sim, node, true, long_ms);
        break;
    case FAULT_PAUSE:
    case FAULT_SUSPEND:
        victim->paused_until_ms = sim->now_ms + pause_ms;
        victim->is_suspended = fault == FAULT_SUSPEND;
        unstable(sim, victim->paused_until_ms);
        break;
    default:
        CHECK(!"not a fault of moments");
    }
}

void faults_heal(struct sim *sim)
{
    struct random *random = &sim->random[STREAM_FAULTS];
    sim->healed = true;
    sim->healed_ms = sim->now_ms;
    sim->network.is_calm = true;
    sim->unstable_until_ms = sim->now_ms;
    sim_hurry(sim);
    for (int i = 0; i < PLAN_NODES_MAX; i++) {
        for (int j = 0; j < PLAN_NODES_MAX; j++) {
            sim->network.links[i][j].cut_until_ms = 0;
        }
    }
    for (int i = 0; i < (int)sim->plan.node_count; i++) {
        struct sim_node *node = &sim->nodes[i];
        if ((sim->plan.core >> i & 1) == 0) {
            bool refuses = (sim->plan.core_refuses >> i & 1) != 0;
            sim_crash(sim, i, !refuses);
            node->host_up = refuses;
            node->is_gone = true;
            node->refuses = refuses;
            continue;
        }
        node->host_up = true;
        disk_set_full(sim, i, false);
        if (node->core == NULL) {
            boot_later(sim, i, sim_between(random, 1, 3000));
        }
    }
}
