#include "tests/sim/faults.h"

#include "base/check.h"
#include "node/core/coordinator/coordination.h"
#include "tests/sim/checkers.h"
#include "tests/sim/copies.h"
#include "tests/sim/groups.h"
#include "tests/sim/owners.h"
#include "tests/sim/world.h"

#define STREAM_OF_PAIRS 975

/* Every strike has draws of its own, so that the others stay as they are when one is left out. In plans of version 1 all
 * shared one stream. */
static struct random *draws_of(struct sim *sim, enum plan_fault fault, uint32_t strike, uint32_t part)
{
    if (sim->plan.version == 1) {
        return &sim->random[STREAM_FAULTS];
    }
    random_init_stream(&sim->strike_random, sim->seed, 1000 + ((uint64_t)fault << 32 | (uint64_t)strike << 2 | part));
    return &sim->strike_random;
}

/* Of what strikes a node at most once in each of its lives. */
static struct random *draws_of_life(struct sim *sim, enum plan_fault fault, int node)
{
    return draws_of(sim, fault, (uint32_t)node << 24 | sim->nodes[node].life, 3);
}

static struct random *draws(struct sim *sim)
{
    return sim->plan.version == 1 ? &sim->random[STREAM_FAULTS] : &sim->strike_random;
}

static void push_next(struct sim *sim, enum plan_fault fault, uint32_t strike)
{
    uint64_t at_ms = sim->now_ms + 1 + sim_wait(draws_of(sim, fault, strike, 0), sim->plan.mean_ms[fault]);
    if (at_ms < sim->plan.heal_ms) {
        struct sim_event *event = sim_push(sim, at_ms, SIM_FAULT, 0);
        event->arg = (uint8_t)fault;
        event->serial = strike;
    }
}

static void part_a_pair(struct sim *sim);

void faults_init(struct sim *sim)
{
    static const enum plan_fault lasting[] = {FAULT_LOSS, FAULT_DELAY, FAULT_DUPLICATE, FAULT_REORDER, FAULT_CAPACITY};
    for (int fault = 0; fault < FAULT_COUNT; fault++) {
        if (sim->plan.has[fault] && plan_fault_is_timed((enum plan_fault)fault)) {
            push_next(sim, (enum plan_fault)fault, 1);
        }
    }
    if (sim->plan.has[FAULT_PAIR]) {
        part_a_pair(sim);
    }
    for (size_t i = 0; i < sizeof lasting / sizeof lasting[0]; i++) {
        if (sim->plan.has[lasting[i]]) {
            sim->unstable_until_ms = sim->plan.heal_ms;
        }
    }
}

/* Who coordinates may be open for so long, though all hear each other. */
static void unsettled(struct sim *sim, uint64_t until_ms)
{
    sim->unstable_until_ms = until_ms > sim->unstable_until_ms ? until_ms : sim->unstable_until_ms;
}

static void unstable(struct sim *sim, uint64_t until_ms)
{
    unsettled(sim, until_ms);
    sim->shaken_until_ms = until_ms > sim->shaken_until_ms ? until_ms : sim->shaken_until_ms;
}

void faults_upset(struct sim *sim, int node, uint64_t until_ms)
{
    unstable(sim, until_ms);
    struct sim_node *self = &sim->nodes[node];
    self->calm_from_ms = until_ms > self->calm_from_ms ? until_ms : self->calm_from_ms;
}

static void cut(struct sim *sim, int from, int to, uint64_t until_ms)
{
    struct network_link *link = &sim->network.links[from][to];
    link->cut_until_ms = until_ms > link->cut_until_ms ? until_ms : link->cut_until_ms;
    faults_upset(sim, from, until_ms);
    faults_upset(sim, to, until_ms);
}

static void cut_sides(struct sim *sim, uint64_t sides, uint64_t duration_ms)
{
    for (int i = 0; i < (int)sim->plan.node_count; i++) {
        for (int j = 0; j < (int)sim->plan.node_count; j++) {
            if ((sides >> i & 1) != (sides >> j & 1)) {
                cut(sim, i, j, sim->now_ms + duration_ms);
            }
        }
    }
}

/* Two sides, drawn anew each time. */
static void partition(struct sim *sim, uint64_t duration_ms)
{
    cut_sides(sim, random_u64(draws(sim)), duration_ms);
}

static void cut_group(struct sim *sim, uint64_t duration_ms)
{
    struct random *random = draws(sim);
    uint64_t sides = random_u64(random);
    const struct elastic_group *group = groups_pick(sim, random, true);
    int first = -1, second = -1;
    for (uint32_t rank = 0; group != NULL && rank < group->size; rank++) {
        int node = groups_member(sim, group, rank) != NULL ? group->ranks[rank].node : -1;
        second = second < 0 && first >= 0 && node >= 0 && node != first ? node : second;
        first = first < 0 ? node : first;
    }
    if (second >= 0) {
        sides = (sides & ~(UINT64_C(1) << second)) | ((sides >> first & 1) ^ 1) << second;
    }
    cut_sides(sim, sides, duration_ms);
}

/* Two that never have a link before the heal. */
static void part_a_pair(struct sim *sim)
{
    struct random random;
    random_init_stream(&random, sim->seed, STREAM_OF_PAIRS);
    int first = (int)random_below(&random, sim->plan.node_count);
    int second = (first + 1 + (int)random_below(&random, sim->plan.node_count - 1)) % (int)sim->plan.node_count;
    cut(sim, first, second, sim->plan.heal_ms);
    cut(sim, second, first, sim->plan.heal_ms);
}

static int coordinator_of(const struct sim *sim, experiment_id experiment)
{
    for (int node = 0; node < (int)sim->plan.node_count; node++) {
        const struct core_coordination *row =
            sim_runs(sim, node) ? core_find_coordination(sim->nodes[node].core, experiment) : NULL;
        if (row != NULL && row->election.state == ELECTION_LEADING) {
            return node;
        }
    }
    return -1;
}

static void kill_member(struct sim *sim, const struct elastic_group *group, uint32_t rank, uint64_t delay_ms)
{
    const struct worker_process *process = groups_member(sim, group, rank);
    if (process != NULL && sim->now_ms + delay_ms < sim->plan.heal_ms) {
        struct sim_event *event = sim_push(sim, sim->now_ms + delay_ms, SIM_DIES, group->ranks[rank].node);
        event->slot = group->ranks[rank].slot;
        event->serial = process->serial;
    }
}

/* One worker dies; the second strike comes while its group makes up its mind. */
static void strike_group(struct sim *sim)
{
    struct random *random = draws(sim);
    const struct elastic_group *group = groups_pick(sim, random, false);
    if (group == NULL) {
        return;
    }
    uint32_t rank = (uint32_t)random_below(random, group->size), other = (uint32_t)random_below(random, group->size);
    uint64_t later_ms = sim_log_between(random, 1, 5000);
    int coordinator = coordinator_of(sim, group->attempt.experiment), owner = group->ranks[other].node;
    kill_member(sim, group, rank, 1);
    switch (random_below(random, 4)) {
    case 0:
        kill_member(sim, group, other, later_ms);
        break;
    case 1:
        if (coordinator >= 0) {
            sim->nodes[coordinator].dies_at_commit = true;
        }
        break;
    case 2:
        sim->nodes[owner].dies_at_commit = groups_member(sim, group, other) != NULL;
        break;
    default:
        break;
    }
}

static void one_way(struct sim *sim, uint64_t duration_ms)
{
    struct random *random = draws(sim);
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
    faults_upset(sim, node, sim->now_ms + delay_ms);
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

static void alone(struct sim *sim, int node, uint64_t duration_ms)
{
    for (int other = 0; other < (int)sim->plan.node_count; other++) {
        if (other != node) {
            cut(sim, node, other, sim->now_ms + duration_ms);
            cut(sim, other, node, sim->now_ms + duration_ms);
        }
    }
}

/* Two that others reach do not reach each other; or, clogged, only much later. */
static void apart(struct sim *sim, int node, uint64_t duration_ms, bool is_clog)
{
    int other = (int)random_below(draws(sim), sim->plan.node_count);
    if (other == node) {
        return;
    }
    if (!is_clog) {
        cut(sim, node, other, sim->now_ms + duration_ms);
        cut(sim, other, node, sim->now_ms + duration_ms);
        return;
    }
    struct network_link *link = &sim->network.links[node][other];
    link->clogged_until_ms = sim->now_ms + duration_ms;
    link->queued_until_ms = link->clogged_until_ms > link->queued_until_ms ? link->clogged_until_ms : link->queued_until_ms;
    faults_upset(sim, node, sim->now_ms + duration_ms);
    faults_upset(sim, other, sim->now_ms + duration_ms);
}

/* A node that comes back on another disk is one lost and one new: what it alone had promised is gone. */
static void change_disk(struct sim *sim, int node, bool is_old, uint64_t down_ms)
{
    struct sim_node *self = &sim->nodes[node];
    if (is_old && self->backup.capacity == 0) {
        disk_remember(sim, node);
        return;
    }
    if (!is_old && !node_id_is_none(self->was)) {
        return; /* the roster that a node is given does not have its new key */
    }
    crash(sim, node, false, down_ms);
    if (is_old) {
        disk_put_back(sim, node);
        copies_unknown(sim, node);
    } else {
        disk_wipe(sim, node);
        sim_preload(sim, node);
    }
    checkers_on_other_disk(sim, node);
    groups_forget(sim);
}

static void leave(struct sim *sim, int node)
{
    bool is_spare = (sim->plan.core >> node & 1) == 0 && (sim->plan.core_refuses >> node & 1) != 0;
    if (!is_spare || sim->nodes[node].leaves || sim->nodes[node].is_twin) {
        return;
    }
    sim->nodes[node].leaves = true;
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.client = FAULTS_LEAVE_CLIENT;
    event.u.request.kind = NODE_REQUEST_LEAVE;
    sim_step(sim, node, &event);
}

void faults_left(struct sim *sim, int node)
{
    struct sim_event *event = sim_push(sim, sim->now_ms + 500, SIM_STRUCK_DOWN, node);
    event->serial = sim->nodes[node].life;
    event->slot = 1;
}

/* Only of those who are lost at the heal: a key never returns. Its machine is taken away some time later, and may come back
 * with a new key. */
static void evict(struct sim *sim, int node)
{
    struct random *random = draws(sim);
    int whom = (int)random_below(random, sim->plan.node_count);
    uint64_t stays_ms = sim_log_between(random, 1000, 120000);
    bool returns = sim_chance(random, 600);
    if (whom == node || (sim->plan.core >> whom & 1) != 0 || sim->nodes[whom].is_evicted ||
        sim->nodes[whom].is_twin || !node_id_is_none(sim->nodes[whom].was)) {
        return;
    }
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.client = FAULTS_EVICT_CLIENT;
    event.u.request.kind = NODE_REQUEST_EVICT;
    event.u.request.node = sim->nodes[whom].id;
    sim_step(sim, node, &event);
    const struct view_member *member = view_find_member(&sim->nodes[node].core->view, sim->nodes[whom].id);
    if (member == NULL || !member->evicted) {
        return; /* refused: it is out itself, or does not know that node */
    }
    sim->nodes[whom].is_evicted = true;
    faults_upset(sim, node, sim->now_ms + 1);
    faults_upset(sim, whom, sim->plan.heal_ms);
    sim_push(sim, sim->now_ms + stays_ms, SIM_STRUCK_DOWN, whom)->slot = 1;
    if (returns && whom != 0) { /* the simulated founder's key is the mesh's */
        (void)sim_push(sim, sim->now_ms + stays_ms + 5000, SIM_JOINS, whom);
    }
}

static void hang(struct sim *sim, int node, uint64_t duration_ms)
{
    for (uint32_t slot = 0; slot < sim->plan.slots[node]; slot++) {
        struct worker_process *process = &sim->nodes[node].processes[slot];
        if (process->is_alive && process->hung_until_ms <= sim->now_ms) {
            process->hung_until_ms = sim->now_ms + duration_ms;
            return;
        }
    }
}

static void slow_down(struct sim *sim, int node, uint64_t duration_ms)
{
    struct random *random = draws(sim);
    if (sim->plan.slots[node] > 0) {
        struct sim_slow_slot *slow = &sim->nodes[node].slow_slots[random_below(random, sim->plan.slots[node])];
        slow->until_ms = sim->now_ms + duration_ms;
        slow->factor = (uint32_t)sim_log_between(random, 2, 64);
    }
}

/* In a seed it is one and the same machine again and again, and one that runs several trials at once if there is any: three
 * that fail put it in quarantine. */
static void break_machine(struct sim *sim)
{
    uint64_t lasts_ms = sim_log_between(draws(sim), 60000, 600000);
    uint32_t first = (uint32_t)random_below(draws_of(sim, FAULT_BAD_MACHINE, 0, 1), sim->plan.node_count), at = first;
    for (uint32_t i = 0; i < sim->plan.node_count && sim->plan.slots[at] < 2; i++) {
        uint32_t other = (first + i) % sim->plan.node_count;
        at = sim->plan.slots[other] > sim->plan.slots[at] ? other : at;
    }
    SIM_TRACE(sim, (int)at, "is bad for %llu s", (unsigned long long)lasts_ms / 1000);
    sim->nodes[at].bad_until_ms = sim->now_ms + lasts_ms;
}

void faults_strike_down(struct sim *sim, struct sim_event *event)
{
    struct sim_node *self = &sim->nodes[event->node];
    bool has_left = event->slot != 0;
    bool is_meant = (has_left && self->is_evicted) || (self->core != NULL && self->life == event->serial);
    if (sim->healed || !is_meant) {
        return;
    }
    if (has_left) {
        sim_crash(sim, event->node, false); /* it has said that it goes: nobody starts it again */
        faults_upset(sim, event->node, sim->now_ms + 1);
        self->is_gone = true;
        return;
    }
    crash(sim, event->node, true, sim_log_between(draws_of_life(sim, FAULT_POISON, event->node), 1000, 60000));
}

void faults_crash_at_commit(struct sim *sim, int node)
{
    crash(sim, node, false, sim_log_between(draws_of_life(sim, FAULT_CRASH_COMMIT, node), 200, 20000));
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
    enum plan_fault fault = (enum plan_fault)event->arg;
    struct random *random = draws_of(sim, fault, event->serial, 1);
    int node = (int)random_below(random, sim->plan.node_count);
    uint64_t short_ms = sim_log_between(random, 200, 90000);
    uint64_t long_ms = sim_log_between(random, 1000, 120000);
    uint64_t pause_ms = sim_log_between(random, 1000, 60000);
    push_next(sim, fault, event->serial + 1);
    (void)draws_of(sim, fault, event->serial, 2);
    uint32_t strike = sim->strikes++;
    if (sim->healed || (strike < 64 && (sim->skipped >> strike & 1) != 0)) {
        return;
    }
    struct sim_node *victim = &sim->nodes[node];
    SIM_TRACE(sim, node, "FAULT: %s", plan_fault_name(fault));
    switch (fault) {
    case FAULT_PARTITION:
        partition(sim, long_ms);
        return;
    case FAULT_GROUP_CUT:
        cut_group(sim, long_ms);
        return;
    case FAULT_GROUP_STRUCK:
        strike_group(sim);
        return;
    case FAULT_ONE_WAY:
        one_way(sim, long_ms);
        return;
    case FAULT_ALONE:
        alone(sim, node, long_ms);
        return;
    case FAULT_TRIANGLE:
    case FAULT_CLOG:
        apart(sim, node, fault == FAULT_CLOG ? short_ms : long_ms, fault == FAULT_CLOG);
        return;
    case FAULT_SLOW_NODE:
        victim->slow_until_ms = sim->now_ms + long_ms;
        victim->slow_ms = (uint32_t)sim_log_between(&sim->random[STREAM_SLOWNESS], 10, 1500);
        faults_upset(sim, node, victim->slow_until_ms + 8 * victim->slow_ms);
        return;
    case FAULT_WALL_CLOCK:
        victim->wall_shift_s = (int64_t)random_below(&sim->random[STREAM_CLOCKS], 7200) - 3600;
        return;
    case FAULT_MOVE:
        twins_move(sim, node, draws(sim));
        return;
    case FAULT_ROT:
        copies_rot(sim, node, draws(sim));
        return;
    case FAULT_HUNG_WORKER:
        hang(sim, node, long_ms);
        return;
    case FAULT_OWNERS:
        owners_strike(sim);
        return;
    case FAULT_SLOW_SLOT:
        slow_down(sim, node, long_ms);
        return;
    case FAULT_BAD_MACHINE:
        break_machine(sim);
        return;
    case FAULT_DISK_FULL:
        if (sim_runs(sim, node)) {
            disk_set_full(sim, node, true);
            unsettled(sim, sim->now_ms + pause_ms); /* neither a claim nor its release can be written there */
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
    case FAULT_OLD_DISK:
    case FAULT_NO_DISK:
        change_disk(sim, node, fault == FAULT_OLD_DISK, short_ms);
        break;
    case FAULT_CRASH_COMMIT:
        victim->dies_at_commit = true;
        break;
    case FAULT_OTHER_VERSION:
        versions_strike(sim, node, short_ms, long_ms);
        break;
    case FAULT_LEAVE:
        leave(sim, node);
        break;
    case FAULT_EVICT:
        evict(sim, node);
        break;
    case FAULT_CLONE:
        twins_strike(sim, node);
        break;
    case FAULT_CRASH_HOST:
        crash(sim, node, true, long_ms);
        break;
    case FAULT_PAUSE:
    case FAULT_SUSPEND:
        victim->paused_until_ms = sim->now_ms + pause_ms;
        victim->is_suspended = fault == FAULT_SUSPEND;
        faults_upset(sim, node, victim->paused_until_ms);
        break;
    default:
        CHECK(!"not a fault of moments");
    }
}

bool faults_is_stranger(const struct sim *sim, int node)
{
    struct fact_key key = fact_key_node_id(sim->nodes[node].id);
    bool has_others = false;
    for (int other = 0; other < (int)sim->plan.node_count; other++) {
        const struct disk *disk = &sim->nodes[other].disk;
        has_others |= other != node && (sim->plan.core >> other & 1) != 0;
        for (uint32_t i = 0; other != node && (sim->plan.core >> other & 1) != 0 && i < disk->capacity; i++) {
            struct record record;
            bool is_voucher = disk->entries[i].is_stored && disk->entries[i].kind == FACT_MEMBER &&
                              record_decode(disk->entries[i].bytes, disk->entries[i].byte_count, &record) == 0;
            if (is_voucher && record.key_bytes == key.count && memcmp(record.key, key.bytes, key.count) == 0) {
                return false;
            }
        }
    }
    return has_others;
}

void faults_heal(struct sim *sim)
{
    for (int i = 0; i < (int)sim->plan.node_count; i++) {
        bool is_new = (sim->plan.core >> i & 1) != 0 && !node_id_is_none(sim->nodes[i].was);
        if (is_new && faults_is_stranger(sim, i)) {
            plan_leave_out(&sim->plan, i); /* of those who are never seen again it is one */
        }
    }
    struct random *random = &sim->random[STREAM_FAULTS];
    sim->healed = true;
    sim->healed_ms = sim->now_ms;
    twins_heal(sim);
    sim->network.is_calm = true;
    sim->unstable_until_ms = sim->shaken_until_ms = sim->now_ms;
    for (int i = 0; i < PLAN_NODES_MAX; i++) {
        sim->nodes[i].calm_from_ms = sim->now_ms;
        sim->nodes[i].slow_until_ms = 0;
        sim->nodes[i].dies_at_commit = false;
    }
    sim_hurry(sim);
    for (int i = 0; i < PLAN_NODES_MAX; i++) {
        for (int j = 0; j < PLAN_NODES_MAX; j++) {
            sim->network.links[i][j].cut_until_ms = 0;
            sim->network.links[i][j].clogged_until_ms = sim->network.links[i][j].queued_until_ms = 0;
            sim->network.links[i][j].busy_until_ms = 0;
            sim->network.links[i][j].last_at_ms = 0; /* what is on its way comes first all the same */
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
