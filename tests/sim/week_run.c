#include "tests/sim/week_mesh.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define TICK_S 60
#define DAY_MIN_SLOT_S (2 * 3600.0)
#define NEAR 0.1

/* ---- slots and trials ---------------------------------------------------------------------------------------------- */

bool week_is_on(const struct week_mesh *mesh, uint32_t slot, uint32_t side)
{
    return side == WEEK_WHOLE || mesh->world->node_side[mesh->world->slot_node[slot]] == side;
}

static bool is_offered(const struct week_mesh *mesh, uint32_t slot)
{
    uint32_t node = mesh->world->slot_node[slot];
    return !mesh->is_withheld[node] && !mesh->is_dead[node];
}

uint32_t week_free(const struct week_mesh *mesh, uint32_t side)
{
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < mesh->world->slot_count; slot++) {
        count += mesh->occupant[slot] == WEEK_NO_TRIAL && is_offered(mesh, slot) && week_is_on(mesh, slot, side);
    }
    return count;
}

static void occupy(struct week_mesh *mesh, uint32_t slot, uint32_t trial, bool is_end)
{
    uint32_t side = mesh->world->node_side[mesh->world->slot_node[slot]], user = mesh->world->trials[trial].user;
    uint32_t by = is_end ? UINT32_MAX : 1;
    mesh->occupant[slot] = is_end ? WEEK_NO_TRIAL : trial;
    mesh->running_slots[side][user] += by;
    mesh->running_slots[WEEK_WHOLE][user] += by;
}

static void put_waiting(struct week_mesh *mesh, uint32_t trial)
{
    uint32_t i = mesh->waiting_count++;
    for (; i > 0 && mesh->waiting[i - 1] > trial; i--) {
        mesh->waiting[i] = mesh->waiting[i - 1];
    }
    mesh->waiting[i] = trial;
    mesh->jobs[trial].phase = WEEK_WAITS;
    mesh->waiting_slots[mesh->world->trials[trial].user] += mesh->world->trials[trial].width;
    mesh->waiting_narrow[mesh->world->trials[trial].user] += mesh->world->trials[trial].width == 1;
}

static void take_waiting(struct week_mesh *mesh, uint32_t trial)
{
    uint32_t i = 0;
    while (mesh->waiting[i] != trial) {
        i++;
        CHECK(i < mesh->waiting_count);
    }
    mesh->waiting_count--;
    memmove(&mesh->waiting[i], &mesh->waiting[i + 1], (mesh->waiting_count - i) * sizeof mesh->waiting[0]);
    mesh->waiting_slots[mesh->world->trials[trial].user] -= mesh->world->trials[trial].width;
    mesh->waiting_narrow[mesh->world->trials[trial].user] -= mesh->world->trials[trial].width == 1;
}

void week_start(struct week_mesh *mesh, uint32_t trial, uint32_t side, uint32_t lent_to)
{
    const struct week_trial *what = &mesh->world->trials[trial];
    struct week_job *job = &mesh->jobs[trial];
    uint32_t found = 0;
    take_waiting(mesh, trial);
    job->speed = 1e9;
    for (uint32_t i = 0; i < mesh->world->slot_count && found < what->width; i++) {
        uint32_t slot = mesh->preferred[i];
        if (mesh->occupant[slot] == WEEK_NO_TRIAL && is_offered(mesh, slot) && week_is_on(mesh, slot, side)) {
            job->slots[found++] = slot;
            job->speed = fmin(job->speed, mesh->world->node_speed[mesh->world->slot_node[slot]]);
            occupy(mesh, slot, trial, false);
        }
    }
    CHECK(found == what->width);
    bool has_run = mesh->trials[trial].has_begun;
    job->phase = WEEK_RUNS;
    job->begun_s = mesh->now_s;
    job->restart_s = has_run && !mesh->policy->is_free ? WEEK_RESTART_S : 0;
    job->end_s = mesh->now_s + job->restart_s + (uint32_t)ceil(fmax(job->left_s / job->speed, 1));
    job->lent_to = lent_to;
    if (job->was_asked_by_order) {
        mesh->lost_s += (double)job->restart_s * what->width;
        job->was_asked_by_order = false;
    }
    if (!has_run) {
        mesh->trials[trial].has_begun = true;
        mesh->trials[trial].first_s = mesh->now_s;
    }
}

static void vacate(struct week_mesh *mesh, uint32_t trial)
{
    for (uint32_t i = 0; i < mesh->world->trials[trial].width; i++) {
        occupy(mesh, mesh->jobs[trial].slots[i], trial, true);
    }
}

/* Takes the work since this start off the trial; without a save what came after the last checkpoint is lost. Returns the seconds lost. */
static double account(struct week_mesh *mesh, uint32_t trial, bool has_saved)
{
    struct week_job *job = &mesh->jobs[trial];
    uint32_t ran_s = mesh->now_s - job->begun_s;
    ran_s = ran_s > job->restart_s ? ran_s - job->restart_s : 0;
    uint32_t lost_s = has_saved ? 0 : ran_s % WEEK_CHECKPOINT_S;
    job->left_s = fmax(job->left_s - (ran_s - lost_s) * job->speed, 1);
    return lost_s;
}

/* Its slots are occupied until it has saved. Returns the slot-seconds lost. */
static double leave(struct week_mesh *mesh, uint32_t trial)
{
    struct week_job *job = &mesh->jobs[trial];
    uint32_t save_s = mesh->world->trials[trial].save_s;
    double lost_s = 0;
    if (mesh->policy->is_free) {
        account(mesh, trial, true);
        save_s = 0;
    } else {
        lost_s = account(mesh, trial, save_s <= WEEK_GRACE_S);
        save_s = save_s < WEEK_GRACE_S ? save_s : WEEK_GRACE_S;
    }
    job->phase = WEEK_LEAVES;
    job->leave_s = mesh->now_s + save_s;
    job->bidder = WEEK_NO_TRIAL;
    return (lost_s + save_s) * mesh->world->trials[trial].width;
}

static void left(struct week_mesh *mesh, uint32_t trial)
{
    vacate(mesh, trial);
    put_waiting(mesh, trial);
}

void week_ask(struct week_mesh *mesh, uint32_t trial, uint32_t bidder)
{
    struct week_job *job = &mesh->jobs[trial];
    mesh->lost_s += leave(mesh, trial);
    mesh->preempted++;
    mesh->trials[trial].preempted++;
    job->bidder = bidder;
    job->asked_s[1] = job->asked_s[0];
    job->asked_s[0] = mesh->now_s;
    job->was_asked_by_order = true;
    for (uint32_t i = 0; i < mesh->world->trials[trial].width; i++) {
        mesh->victim_s[mesh->world->slot_node[job->slots[i]]] = mesh->now_s;
    }
    if (job->leave_s <= mesh->now_s) {
        left(mesh, trial);
    }
}

/* ---- what happens -------------------------------------------------------------------------------------------------- */

static void drop_bid_of(struct week_mesh *mesh, uint32_t trial)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < mesh->bid_count; i++) {
        if (mesh->bids[i].trial != trial) {
            mesh->bids[kept++] = mesh->bids[i];
        }
    }
    mesh->bid_count = kept;
}

/* All trials on this node leave, or end at once where the node is dead. */
static void clear_node(struct week_mesh *mesh, uint32_t node, bool is_dead)
{
    for (uint32_t slot = 0; slot < mesh->world->slot_count; slot++) {
        uint32_t trial = mesh->occupant[slot];
        if (mesh->world->slot_node[slot] != node || trial == WEEK_NO_TRIAL) {
            continue;
        }
        if (mesh->jobs[trial].phase == WEEK_RUNS) {
            mesh->evicted++;
            if (is_dead) {
                account(mesh, trial, false);
            } else {
                leave(mesh, trial);
            }
        }
        if (is_dead || mesh->jobs[trial].leave_s <= mesh->now_s) {
            left(mesh, trial);
        }
    }
}

/* A gang with ranks on both sides of a cut cannot go on. */
static void part_gangs(struct week_mesh *mesh)
{
    for (uint32_t slot = 0; slot < mesh->world->slot_count; slot++) {
        uint32_t trial = mesh->occupant[slot];
        bool is_on[WEEK_SIDES] = {false, false};
        for (uint32_t i = 0; trial != WEEK_NO_TRIAL && i < mesh->world->trials[trial].width; i++) {
            is_on[mesh->world->node_side[mesh->world->slot_node[mesh->jobs[trial].slots[i]]]] = true;
        }
        if (is_on[0] && is_on[1]) {
            if (mesh->jobs[trial].phase == WEEK_RUNS) {
                mesh->evicted++;
                account(mesh, trial, false);
            }
            left(mesh, trial);
        }
    }
}

static void apply(struct week_mesh *mesh, const struct week_change *change)
{
    switch (change->kind) {
    case WEEK_OWNER_COMES:
        mesh->is_withheld[change->node] = true;
        clear_node(mesh, change->node, false);
        break;
    case WEEK_OWNER_GOES:
        mesh->is_withheld[change->node] = false;
        break;
    case WEEK_NODE_DIES:
        mesh->is_dead[change->node] = true;
        clear_node(mesh, change->node, true);
        break;
    case WEEK_NODE_RETURNS:
        mesh->is_dead[change->node] = false;
        break;
    case WEEK_CUT:
        mesh->is_cut = true;
        mesh->bid_count = 0;
        mesh->views[0] = mesh->views[1] = mesh->views[WEEK_WHOLE];
        mesh->known[0] = mesh->known[1] = mesh->known[WEEK_WHOLE];
        part_gangs(mesh);
        break;
    case WEEK_HEAL:
        mesh->is_cut = false;
        mesh->bid_count = 0;
        mesh->heal_s = mesh->now_s;
        break;
    }
}

/* Everything that is due now. */
static void happen(struct week_mesh *mesh)
{
    const struct week_world *world = mesh->world;
    for (uint32_t slot = 0; slot < world->slot_count; slot++) {
        uint32_t trial = mesh->occupant[slot];
        struct week_job *job = trial == WEEK_NO_TRIAL ? NULL : &mesh->jobs[trial];
        if (job != NULL && job->phase == WEEK_RUNS && job->end_s <= mesh->now_s) {
            job->phase = WEEK_DONE;
            mesh->result->completed++;
            mesh->trials[trial].is_done = true;
            mesh->trials[trial].end_s = mesh->now_s;
            vacate(mesh, trial);
        } else if (job != NULL && job->phase == WEEK_LEAVES && job->leave_s <= mesh->now_s) {
            left(mesh, trial);
        }
    }
    while (mesh->next_change < world->change_count && world->changes[mesh->next_change].at_s <= mesh->now_s) {
        apply(mesh, &world->changes[mesh->next_change++]);
    }
    while (mesh->next_trial < world->trial_count && world->trials[mesh->next_trial].submit_s <= mesh->now_s) {
        mesh->jobs[mesh->next_trial].left_s = world->trials[mesh->next_trial].work_s;
        put_waiting(mesh, mesh->next_trial++);
    }
    for (uint32_t i = mesh->bid_count; i-- > 0;) {
        if (mesh->jobs[mesh->bids[i].trial].phase != WEEK_WAITS) {
            drop_bid_of(mesh, mesh->bids[i].trial);
        }
    }
}

static uint32_t next_s(const struct week_mesh *mesh)
{
    const struct week_world *world = mesh->world;
    uint32_t next = (mesh->now_s / WEEK_DAY_S + 1) * WEEK_DAY_S;
    if (mesh->waiting_count > 0) {
        uint32_t tick = (mesh->now_s / TICK_S + 1) * TICK_S;
        next = tick < next ? tick : next;
    }
    if (mesh->next_trial < world->trial_count && world->trials[mesh->next_trial].submit_s < next) {
        next = world->trials[mesh->next_trial].submit_s;
    }
    if (mesh->next_change < world->change_count && world->changes[mesh->next_change].at_s < next) {
        next = world->changes[mesh->next_change].at_s;
    }
    for (uint32_t slot = 0; slot < world->slot_count; slot++) {
        if (mesh->occupant[slot] != WEEK_NO_TRIAL) {
            const struct week_job *job = &mesh->jobs[mesh->occupant[slot]];
            uint32_t at_s = job->phase == WEEK_RUNS ? job->end_s : job->leave_s;
            next = at_s < next ? at_s : next;
        }
    }
    next = next < world->end_s ? next : world->end_s;
    CHECK(next > mesh->now_s);
    return next;
}

/* ---- measures ------------------------------------------------------------------------------------------------------ */

/* What each user is entitled to on a side now. Returns the slots on offer there, with those that are still occupied. */
static uint32_t entitle(struct week_mesh *mesh, uint32_t side, double *demand)
{
    uint32_t capacity = 0;
    for (uint32_t slot = 0; slot < mesh->world->slot_count; slot++) {
        capacity += week_is_on(mesh, slot, side) && (is_offered(mesh, slot) || mesh->occupant[slot] != WEEK_NO_TRIAL);
    }
    for (uint32_t user = 0; user < mesh->world->user_count; user++) {
        demand[user] = mesh->running_slots[side][user] + mesh->waiting_slots[user];
    }
    week_max_min(demand, mesh->world->user_count, capacity, mesh->views[side].entitled);
    return capacity;
}

/* The view of a side grows by `for_s` seconds of the present state. */
static void grow_view(struct week_mesh *mesh, uint32_t side, double for_s)
{
    struct week_view *view = &mesh->views[side];
    double speed[WEEK_USERS_MAX] = {0}, decay = exp2(-for_s / (mesh->policy->half_life_h * 3600));
    for (uint32_t slot = 0; slot < mesh->world->slot_count; slot++) {
        if (mesh->occupant[slot] != WEEK_NO_TRIAL && week_is_on(mesh, slot, side)) {
            speed[mesh->world->trials[mesh->occupant[slot]].user] += mesh->world->node_speed[mesh->world->slot_node[slot]];
        }
    }
    for (uint32_t user = 0; user < mesh->world->user_count; user++) {
        view->usage[user] = view->usage[user] * decay + speed[user] * for_s;
        view->deficit[user] = view->deficit[user] * decay + (view->entitled[user] - mesh->running_slots[side][user]) * for_s;
    }
}

static void wait(const struct week_mesh *mesh, struct week_wait *wait, bool is_on, uint32_t to_s)
{
    wait->since_s = is_on && !wait->is_on ? mesh->now_s : wait->since_s;
    wait->is_on = is_on;
    if (is_on && to_s - wait->since_s > wait->longest_s) {
        wait->longest_s = to_s - wait->since_s;
    }
}

/* Nothing changes from now to to_s. */
static void pass(struct week_mesh *mesh, uint32_t to_s)
{
    double demand[WEEK_USERS_MAX], for_s = to_s - mesh->now_s, wanted = 0;
    uint32_t day = mesh->now_s / WEEK_DAY_S;
    for (uint32_t side = 0; mesh->is_cut && side < WEEK_SIDES; side++) {
        entitle(mesh, side, demand);
        grow_view(mesh, side, for_s);
    }
    double capacity = entitle(mesh, WEEK_WHOLE, demand);
    grow_view(mesh, WEEK_WHOLE, for_s);
    for (uint32_t user = 0; user < mesh->world->user_count; user++) {
        uint32_t running = mesh->running_slots[WEEK_WHOLE][user];
        mesh->result->got_s[user][day] += running * for_s;
        mesh->result->entitled_s[user][day] += mesh->views[WEEK_WHOLE].entitled[user] * for_s;
        mesh->occupied_s += running * for_s;
        wanted += demand[user];
        wait(mesh, &mesh->waits[user], running == 0 && mesh->waiting_slots[user] > 0, to_s);
        wait(mesh, &mesh->narrow_waits[user], running == 0 && mesh->waiting_narrow[user] > 0, to_s);
    }
    mesh->wanted_s += fmin(capacity, wanted) * for_s;
    mesh->now_s = to_s;
}

/* Usage and deficits become known from time to time; the running and waiting trials are known at once. */
static void publish(struct week_mesh *mesh)
{
    bool is_due = mesh->policy->is_free || mesh->now_s - mesh->known_s >= WEEK_PUBLISH_S || mesh->known_s == 0;
    for (uint32_t side = 0; side <= WEEK_WHOLE; side++) {
        if (is_due) {
            mesh->known[side] = mesh->views[side];
            for (uint32_t user = 0; mesh->policy->error_h > 0 && user < mesh->world->user_count; user++) {
                double error_s = mesh->policy->error_h * 3600 * (2 * random_double(&mesh->random) - 1);
                mesh->known[side].usage[user] += error_s;
                mesh->known[side].deficit[user] += error_s;
            }
        } else {
            memcpy(mesh->known[side].entitled, mesh->views[side].entitled, sizeof mesh->known[side].entitled);
        }
    }
    mesh->known_s = is_due ? mesh->now_s : mesh->known_s;
}

static void measure(struct week_mesh *mesh)
{
    struct week_result *result = mesh->result;
    double sum = 0, near = 0;
    result->minimum = 1e9;
    for (uint32_t user = 0; user < mesh->world->user_count; user++) {
        uint32_t wait_s = mesh->waits[user].longest_s, narrow_s = mesh->narrow_waits[user].longest_s;
        result->user_wait_s[user] = wait_s;
        result->longest_wait_s = wait_s > result->longest_wait_s ? wait_s : result->longest_wait_s;
        result->longest_narrow_wait_s = narrow_s > result->longest_narrow_wait_s ? narrow_s : result->longest_narrow_wait_s;
        for (uint32_t day = 0; day < WEEK_DAYS; day++) {
            if (result->entitled_s[user][day] > DAY_MIN_SLOT_S) {
                double ratio = result->got_s[user][day] / result->entitled_s[user][day];
                sum += fabs(ratio - 1);
                near += fabs(ratio - 1) <= NEAR;
                result->minimum = fmin(result->minimum, ratio);
                result->user_days++;
            }
        }
    }
    double count = result->user_days > 0 ? result->user_days : 1, week_days = mesh->world->end_s / (double)WEEK_DAY_S;
    result->deviation = sum / count;
    result->within = near / count;
    result->utilisation = mesh->wanted_s > 0 ? mesh->occupied_s / mesh->wanted_s : 1;
    result->lost = mesh->occupied_s > 0 ? mesh->lost_s / mesh->occupied_s : 0;
    result->preemptions = mesh->preempted / week_days;
    result->evictions = mesh->evicted / week_days;
}

/* Slots of machines without an owner first, then the fastest. */
static void prefer(struct week_mesh *mesh)
{
    const struct week_world *world = mesh->world;
    for (uint32_t slot = 0; slot < world->slot_count; slot++) {
        uint32_t node = world->slot_node[slot], i = slot;
        for (; i > 0; i--) {
            uint32_t other = world->slot_node[mesh->preferred[i - 1]];
            if (world->node_owned[other] != world->node_owned[node] ? world->node_owned[node]
                                                                     : world->node_speed[other] >= world->node_speed[node]) {
                break;
            }
            mesh->preferred[i] = mesh->preferred[i - 1];
        }
        mesh->preferred[i] = slot;
        mesh->occupant[slot] = WEEK_NO_TRIAL;
    }
}

void week_run(const struct week_world *world, const struct week_policy *policy, struct week_result *result,
              struct week_trial_result *trials)
{
    struct week_mesh *mesh = calloc(1, sizeof *mesh);
    CHECK(mesh != NULL);
    *mesh = (struct week_mesh){.world = world, .policy = policy, .result = result};
    mesh->jobs = calloc(world->trial_count + 1, sizeof *mesh->jobs);
    mesh->waiting = calloc(world->trial_count + 1, sizeof *mesh->waiting);
    mesh->trials = calloc(world->trial_count + 1, sizeof *mesh->trials);
    CHECK(mesh->jobs != NULL && mesh->waiting != NULL && mesh->trials != NULL);
    memset(result, 0, sizeof *result);
    random_init(&mesh->random, 1);
    prefer(mesh);
    while (mesh->now_s < world->end_s) {
        happen(mesh);
        double demand[WEEK_USERS_MAX];
        for (uint32_t side = mesh->is_cut ? 0 : WEEK_WHOLE; side <= WEEK_WHOLE; side++) {
            entitle(mesh, side, demand);
        }
        publish(mesh);
        week_decide(mesh);
        pass(mesh, next_s(mesh));
    }
    measure(mesh);
    if (trials != NULL) {
        memcpy(trials, mesh->trials, world->trial_count * sizeof trials[0]);
    }
    free(mesh->jobs);
    free(mesh->waiting);
    free(mesh->trials);
    free(mesh);
}
