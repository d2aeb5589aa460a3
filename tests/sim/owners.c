#include "tests/sim/owners.h"

#include "node/core/members/members.h"
#include "node/core/owner/owner.h"
#include "tests/sim/checkers.h"
#include "tests/sim/world.h"

/* Before version 7. */
#define OWNERS_ONE_OF 7 /* seeds with faults */
#define OWNERS_MEAN_MS 25000

#define OWNERS_HEAL_MS 1000      /* from the heal to the first look */
#define OWNERS_TIDY_MS 5000      /* between two looks whether all is returned */

static struct random *dice(struct sim *sim)
{
    return sim->plan.version < 7 ? &sim->random[STREAM_OWNERS] : &sim->strike_random;
}

void owners_init(struct sim *sim)
{
    if (sim->plan.version > 6) {
        if (sim->plan.has[FAULT_OWNERS]) {
            (void)sim_push(sim, sim->plan.heal_ms + OWNERS_HEAL_MS, SIM_OWNER, 0);
        }
    } else if (sim->plan.fault_count > 0 && random_below(dice(sim), OWNERS_ONE_OF) == 0) {
        SIM_TRACE(sim, 0, "this seed has owners");
        (void)sim_push(sim, sim_log_between(dice(sim), 5000, 100000), SIM_OWNER, 0);
    }
}

static void ask(struct sim *sim, int node, struct node_event event, enum node_request_kind kind)
{
    SIM_TRACE(sim, node, "OWNER: request %d", (int)kind);
    event.kind = NODE_EVENT_REQUEST;
    event.u.request.kind = kind;
    uint64_t serial = sim->owners.count++;
    event.u.request.client = OWNERS_CLIENT + serial;
    struct owners_request *request = &sim->owners.requests[serial % OWNERS_REQUESTS_MAX];
    *request = (struct owners_request){.serial = serial,
                                       .kind = kind,
                                       .node = node,
                                       .whom = sim_find_node(sim, event.u.request.node),
                                       .who = event.u.request.node,
                                       .slots = event.u.request.slots,
                                       .for_s = event.u.request.for_s};
    checkers_on_owner_asks(sim, request);
    sim_step(sim, node, &event);
}

void owners_reply(struct sim *sim, const struct node_effect *effect)
{
    uint64_t serial = effect->u.reply.client - OWNERS_CLIENT;
    if (effect->u.reply.code == 0 && serial < sim->owners.count && serial + OWNERS_REQUESTS_MAX >= sim->owners.count) {
        checkers_on_owner_heard(sim, &sim->owners.requests[serial % OWNERS_REQUESTS_MAX]);
    }
}

/* The slot of a worker that may be in the midst of anything, a group or on its way to one. */
static void strike_group(struct sim *sim)
{
    uint64_t from = random_below(dice(sim), (uint64_t)sim->plan.node_count * PLAN_SLOTS_MAX);
    uint64_t for_s = sim_chance(dice(sim), 500) ? 0 : sim_between(dice(sim), 1, 100);
    for (uint32_t i = 0; i < sim->plan.node_count * PLAN_SLOTS_MAX; i++) {
        uint32_t at = (uint32_t)((from + i) % (sim->plan.node_count * PLAN_SLOTS_MAX)), slot = at % PLAN_SLOTS_MAX;
        int node = (int)(at / PLAN_SLOTS_MAX);
        const struct worker_process *process = &sim->nodes[node].processes[slot];
        if (sim_runs(sim, node) && process->is_alive && process->is_elastic) {
            struct node_event event = {.kind = NODE_EVENT_REQUEST};
            event.u.request.slots = UINT64_C(1) << slot;
            event.u.request.for_s = for_s;
            ask(sim, node, event, NODE_REQUEST_WITHHOLD);
            return;
        }
    }
}

void owners_strike(struct sim *sim)
{
    if (sim->plan.version > 4 && sim_chance(dice(sim), 400)) {
        strike_group(sim);
        return;
    }
    static const enum node_request_kind kinds[] = {NODE_REQUEST_WITHHOLD, NODE_REQUEST_WITHHOLD, NODE_REQUEST_RETURN,
                                                   NODE_REQUEST_DRAIN,    NODE_REQUEST_DRAIN,    NODE_REQUEST_UNDRAIN};
    int node = (int)random_below(dice(sim), sim->plan.node_count);
    uint32_t whom = (uint32_t)random_below(dice(sim), sim->plan.node_count);
    enum node_request_kind kind = kinds[random_below(dice(sim), sizeof kinds / sizeof kinds[0])];
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.slots = random_u64(dice(sim)) & ((1u << PLAN_SLOTS_MAX) - 1); /* perhaps of none that it has: refused */
    event.u.request.for_s = sim_chance(dice(sim), 500) ? 0 : sim_between(dice(sim), 1, 100);
    event.u.request.node = sim->nodes[whom].id;
    event.u.request.at_once = sim_chance(dice(sim), 500);
    if (sim_runs(sim, node)) {
        ask(sim, node, event, kind);
    }
}

static bool has_hold(const struct node_core *core)
{
    bool held = false;
    for (uint32_t slot = 0; slot < core->owner->lease.count; slot++) {
        held |= core->owner->lease.holds[slot].withheld;
    }
    return held;
}

/* Nothing is written where nothing is left to do, or the mesh would never be quiet. */
static void tidy(struct sim *sim)
{
    for (int node = 0; node < (int)sim->plan.node_count; node++) {
        if (sim_runs(sim, node) && has_hold(sim->nodes[node].core)) {
            struct node_event event = {.kind = NODE_EVENT_REQUEST};
            ask(sim, node, event, NODE_REQUEST_RETURN);
        }
    }
    for (int node = 0; node < (int)sim->plan.node_count; node++) {
        for (uint32_t whom = 0; whom < sim->plan.node_count && sim_runs(sim, node); whom++) {
            if (core_node_drained(sim->nodes[node].core, sim->nodes[whom].id)) {
                struct node_event event = {.kind = NODE_EVENT_REQUEST};
                event.u.request.node = sim->nodes[whom].id;
                ask(sim, node, event, NODE_REQUEST_UNDRAIN);
            }
        }
    }
}

void owners_act(struct sim *sim, struct sim_event *event)
{
    (void)event;
    if (sim->healed) {
        tidy(sim);
        (void)sim_push(sim, sim->now_ms + OWNERS_TIDY_MS, SIM_OWNER, 0);
    } else {
        owners_strike(sim);
        uint64_t next_ms = sim->now_ms + 1 + sim_wait(dice(sim), OWNERS_MEAN_MS), tidy_ms = sim->plan.heal_ms + OWNERS_HEAL_MS;
        (void)sim_push(sim, next_ms < tidy_ms ? next_ms : tidy_ms, SIM_OWNER, 0);
    }
}
