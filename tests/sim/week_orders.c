/* The orders that are compared. Each side of a cut decides for its own slots, also where the real scheduler would need its
 * central machine. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "tests/sim/week_mesh.h"

#define HOUR_S 3600.0
#define SLURM_PASS_S 30
#define SLURM_DEPTH 100
#define SLURM_WEIGHT_FAIR 10000.0
#define SLURM_WEIGHT_AGE 1000.0
#define SLURM_AGE_MAX_S (7.0 * WEEK_DAY_S)
#define HEAL_QUIET_S 60     /* after a heal nobody is asked to leave for so long, */
#define HEAL_GENTLE_S 600   /* and for so long one trial a node and minute */
#define HELD_MAX_S (WEEK_GRACE_S + 15)

static const struct week_trial *trial_of(const struct week_mesh *mesh, uint32_t trial)
{
    return &mesh->world->trials[trial];
}

/* ---- by a list ----------------------------------------------------------------------------------------------------- */

struct ranked {
    uint32_t trial;
    double rank; /* less goes first */
};

static int by_rank(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->rank < y->rank || x->rank > y->rank) {
        return x->rank < y->rank ? -1 : 1;
    }
    return x->trial < y->trial ? -1 : x->trial > y->trial;
}

/* Fair tree with one level: the users by their usage, the least first; equals share a rank. */
static void fair_factors(const struct week_mesh *mesh, const struct week_view *view, double *factors)
{
    uint32_t count = mesh->world->user_count;
    for (uint32_t user = 0; user < count; user++) {
        uint32_t ahead = 0;
        for (uint32_t other = 0; other < count; other++) {
            ahead += view->usage[other] < view->usage[user];
        }
        factors[user] = (double)(count - ahead) / count;
    }
}

/* The waiting trials in the policy's order. Returned memory is the callee's. */
static struct ranked *rank_waiting(const struct week_mesh *mesh, uint32_t side)
{
    static struct ranked ranked[WEEK_TRIALS_MAX];
    double factors[WEEK_USERS_MAX];
    fair_factors(mesh, &mesh->views[side], factors);
    for (uint32_t i = 0; i < mesh->waiting_count; i++) {
        const struct week_trial *trial = trial_of(mesh, mesh->waiting[i]);
        double age = fmin((mesh->now_s - trial->submit_s) / SLURM_AGE_MAX_S, 1);
        double slurm = SLURM_WEIGHT_FAIR * factors[trial->user] + SLURM_WEIGHT_AGE * age;
        ranked[i].trial = mesh->waiting[i];
        ranked[i].rank = mesh->policy->order == WEEK_SLURM ? -slurm : mesh->policy->order == WEEK_PRIORITY ? trial->priority : 0;
    }
    qsort(ranked, mesh->waiting_count, sizeof ranked[0], by_rank);
    return ranked;
}

/* In the list's order; with `stops` the first that does not fit stops all behind it. */
static void decide_by_list(struct week_mesh *mesh, uint32_t side, bool stops)
{
    uint32_t room = week_free(mesh, side), count = mesh->waiting_count;
    const struct ranked *ranked = room > 0 ? rank_waiting(mesh, side) : NULL;
    for (uint32_t i = 0; i < count && room > 0; i++) {
        uint32_t width = trial_of(mesh, ranked[i].trial)->width;
        if (width <= room) {
            week_start(mesh, ranked[i].trial, side, WEEK_NO_TRIAL);
            room -= width;
        } else if (stops) {
            return;
        }
    }
}

/* Conservative backfill: each of the first hundred gets its earliest place by the limits; a place that is now is a start. */
static void backfill(struct week_mesh *mesh, uint32_t side)
{
    struct week_profile profile;
    uint32_t count = mesh->waiting_count < SLURM_DEPTH ? mesh->waiting_count : SLURM_DEPTH;
    if (week_free(mesh, side) == 0 || count == 0) {
        return;
    }
    struct ranked ranked[SLURM_DEPTH];
    memcpy(ranked, rank_waiting(mesh, side), count * sizeof ranked[0]);
    week_profile_init(&profile, mesh->now_s, (int32_t)week_free(mesh, side));
    for (uint32_t slot = 0; slot < mesh->world->slot_count; slot++) {
        uint32_t trial = mesh->occupant[slot];
        if (trial != WEEK_NO_TRIAL && week_is_on(mesh, slot, side)) {
            const struct week_job *job = &mesh->jobs[trial];
            uint32_t end_s = job->phase == WEEK_RUNS ? job->begun_s + trial_of(mesh, trial)->limit_s : job->leave_s;
            week_profile_add(&profile, end_s > mesh->now_s ? end_s : mesh->now_s + 1, 1);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct week_trial *trial = trial_of(mesh, ranked[i].trial);
        uint32_t at_s = week_profile_find(&profile, trial->width, trial->limit_s);
        if (at_s == UINT32_MAX) {
            continue;
        }
        if (at_s == mesh->now_s) {
            week_start(mesh, ranked[i].trial, side, WEEK_NO_TRIAL);
        }
        week_profile_add(&profile, at_s, -(int32_t)trial->width);
        week_profile_add(&profile, at_s + trial->limit_s, (int32_t)trial->width);
    }
}

/* ---- Determined's fair share --------------------------------------------------------------------------------------- */

struct group {
    uint32_t experiment, running; /* slots that are not leaving */
};

static uint32_t group_at(struct group *groups, uint32_t *count, uint32_t experiment)
{
    uint32_t i = 0;
    while (i < *count && groups[i].experiment < experiment) {
        i++;
    }
    if (i == *count || groups[i].experiment != experiment) {
        CHECK(*count < WEEK_GROUPS_MAX);
        memmove(&groups[i + 1], &groups[i], (*count - i) * sizeof groups[0]);
        groups[i] = (struct group){experiment, 0};
        ++*count;
    }
    return i;
}

/* Releases the trials of groups that are above their offer. */
static void release(struct week_mesh *mesh, uint32_t side, struct group *groups, uint32_t count, const uint32_t *offers, bool *has_released)
{
    for (uint32_t slot = 0; slot < mesh->world->slot_count; slot++) {
        uint32_t trial = mesh->occupant[slot];
        if (trial == WEEK_NO_TRIAL || mesh->jobs[trial].phase != WEEK_RUNS || !week_is_on(mesh, slot, side)) {
            continue;
        }
        uint32_t i = group_at(groups, &count, trial_of(mesh, trial)->experiment);
        if (groups[i].running > offers[i]) {
            groups[i].running -= trial_of(mesh, trial)->width;
            has_released[i] = true;
            week_ask(mesh, trial, WEEK_NO_TRIAL);
        }
    }
}

static void decide_by_groups(struct week_mesh *mesh, uint32_t side)
{
    static struct group groups[WEEK_GROUPS_MAX];
    static uint32_t demand[WEEK_GROUPS_MAX], smallest[WEEK_GROUPS_MAX], offers[WEEK_GROUPS_MAX];
    static double weight[WEEK_GROUPS_MAX];
    static bool has_released[WEEK_GROUPS_MAX];
    static uint32_t waiting[WEEK_TRIALS_MAX];
    uint32_t count = 0, waiting_count = mesh->waiting_count, capacity = week_free(mesh, side);
    memcpy(waiting, mesh->waiting, waiting_count * sizeof waiting[0]);
    for (uint32_t i = 0; i < waiting_count; i++) {
        group_at(groups, &count, trial_of(mesh, waiting[i])->experiment);
    }
    for (uint32_t slot = 0; slot < mesh->world->slot_count; slot++) {
        uint32_t trial = mesh->occupant[slot];
        if (trial != WEEK_NO_TRIAL && week_is_on(mesh, slot, side)) {
            capacity++;
            if (mesh->jobs[trial].phase == WEEK_RUNS) {
                groups[group_at(groups, &count, trial_of(mesh, trial)->experiment)].running++;
            }
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        demand[i] = groups[i].running;
        smallest[i] = groups[i].running > 0 ? 1 : 0;
        weight[i] = 1;
        has_released[i] = false;
    }
    for (uint32_t i = 0; i < waiting_count; i++) {
        const struct week_trial *trial = trial_of(mesh, waiting[i]);
        uint32_t at = group_at(groups, &count, trial->experiment);
        demand[at] += trial->width <= capacity ? trial->width : 0;
        smallest[at] = smallest[at] == 0 ? trial->width : smallest[at];
    }
    week_determined_offers(demand, weight, smallest, count, capacity, offers);
    release(mesh, side, groups, count, offers, has_released);
    for (uint32_t i = 0; i < waiting_count; i++) {
        uint32_t width = trial_of(mesh, waiting[i])->width, at = group_at(groups, &count, trial_of(mesh, waiting[i])->experiment);
        if (!has_released[at] && groups[at].running + width <= offers[at] && width <= week_free(mesh, side)) {
            week_start(mesh, waiting[i], side, WEEK_NO_TRIAL);
            groups[at].running += width;
        }
    }
}

/* ---- the order of users -------------------------------------------------------------------------------------------- */

/* What one decision on one side looks at. */
struct round {
    struct week_mesh *mesh;
    uint32_t side;
    const struct week_view *view;
    double running[WEEK_USERS_MAX]; /* slots occupied, leaving ones not, with those that a bid has been promised */
};

static struct round round_of(struct week_mesh *mesh, uint32_t side)
{
    struct round round = {.mesh = mesh, .side = side, .view = &mesh->known[side]};
    for (uint32_t slot = 0; slot < mesh->world->slot_count; slot++) {
        uint32_t trial = mesh->occupant[slot];
        if (trial != WEEK_NO_TRIAL && mesh->jobs[trial].phase == WEEK_RUNS && week_is_on(mesh, slot, side)) {
            round.running[trial_of(mesh, trial)->user]++;
        }
    }
    for (uint32_t i = 0; i < mesh->bid_count; i++) {
        if (mesh->bids[i].is_go && mesh->bids[i].side == side) {
            round.running[trial_of(mesh, mesh->bids[i].trial)->user] += trial_of(mesh, mesh->bids[i].trial)->width;
        }
    }
    return round;
}

/* How much a user lacks, in slot-hours; only DEFICIT's. */
static double lack(const struct round *round, uint32_t user)
{
    return round->view->deficit[user] / HOUR_S + round->mesh->policy->horizon_h * (round->view->entitled[user] - round->running[user]);
}

/* Whether user a goes before user b. A user that has nothing running goes first in both orders. */
static bool goes_before(const struct round *round, uint32_t a, uint32_t b)
{
    const double *running = round->running;
    if (round->mesh->policy->order == WEEK_DEFICIT) {
        bool is_bare_a = running[a] <= 0, is_bare_b = running[b] <= 0;
        if (is_bare_a != is_bare_b) {
            return is_bare_a;
        }
        return lack(round, a) > lack(round, b);
    }
    if (running[a] < running[b] || running[a] > running[b]) {
        return running[a] < running[b];
    }
    return round->view->usage[a] < round->view->usage[b];
}

/* ---- victims ------------------------------------------------------------------------------------------------------- */

/* Brakes: neither young nor asked too often; for a bid that it was lent by it may always be asked. */
static bool may_be_asked(const struct round *round, uint32_t trial, uint32_t bidder)
{
    const struct week_mesh *mesh = round->mesh;
    const struct week_policy *policy = mesh->policy;
    const struct week_job *job = &mesh->jobs[trial];
    if (trial_of(mesh, trial)->is_fixed) {
        return false;
    }
    if (policy->is_free || job->lent_to == bidder) {
        return true;
    }
    uint32_t young_s = 10 * trial_of(mesh, trial)->save_s;
    young_s = young_s > policy->exempt_s ? young_s : policy->exempt_s;
    if (mesh->now_s - job->begun_s < job->restart_s + young_s) {
        return false;
    }
    uint32_t asked_s = policy->per_hour == 1 ? job->asked_s[0] : job->asked_s[1];
    if (asked_s != 0 && mesh->now_s - asked_s < HOUR_S) {
        return false;
    }
    if (mesh->heal_s != 0 && mesh->now_s - mesh->heal_s < HEAL_GENTLE_S) {
        for (uint32_t i = 0; i < trial_of(mesh, trial)->width; i++) {
            uint32_t victim_s = mesh->victim_s[mesh->world->slot_node[job->slots[i]]];
            if (mesh->now_s - mesh->heal_s < HEAL_QUIET_S || (victim_s != 0 && mesh->now_s - victim_s < 60)) {
                return false;
            }
        }
    }
    return true;
}

/* Whether the asker's user may take this trial's slots. */
static bool is_above(const struct round *round, uint32_t trial, uint32_t bidder)
{
    const struct week_policy *policy = round->mesh->policy;
    const struct week_trial *victim = trial_of(round->mesh, trial), *asker = trial_of(round->mesh, bidder);
    double entitled = round->view->entitled[victim->user], has = round->running[victim->user], asks = round->running[asker->user];
    bool is_lent = round->mesh->jobs[trial].lent_to == bidder;
    if (policy->has_floor && asker->width == 1 && has <= 1 && entitled >= 1) {
        return false; /* only a gang may need it */
    }
    if (policy->has_floor && asker->width == 1 && asks <= 0 && has - victim->width >= 1) {
        return true;
    }
    if (policy->order == WEEK_DEFICIT) {
        double gap = lack(round, asker->user) - lack(round, victim->user);
        double both = victim->width + asker->width;
        return gap > 0 && (is_lent || gap >= policy->horizon_h * both + policy->threshold_h);
    }
    if (is_lent) {
        return goes_before(round, asker->user, victim->user);
    }
    bool is_over = has > entitled * (1 + policy->over_part) || has >= entitled + policy->over_slots;
    if (is_over && has - victim->width >= asks + asker->width) {
        return true;
    }
    double less = (round->view->usage[victim->user] - round->view->usage[asker->user]) / HOUR_S;
    double wide = victim->width > asker->width ? victim->width : asker->width;
    return policy->turn_h > 0 && asks < round->view->entitled[asker->user] && has > asks && less >= policy->turn_h * wide;
}

/* Whether trial a is a better victim than b: of the user that is furthest above, then lent ones, then the least work since its
 * start in all its slots, then the newest. */
static bool is_better_victim(const struct round *round, uint32_t a, uint32_t b, uint32_t bidder)
{
    const struct week_mesh *mesh = round->mesh;
    const struct week_trial *x = trial_of(mesh, a), *y = trial_of(mesh, b);
    if (x->user != y->user) {
        return goes_before(round, y->user, x->user);
    }
    bool is_lent_a = mesh->jobs[a].lent_to == bidder, is_lent_b = mesh->jobs[b].lent_to == bidder;
    if (is_lent_a != is_lent_b) {
        return is_lent_a;
    }
    double work_a = (double)(mesh->now_s - mesh->jobs[a].begun_s) * x->width;
    double work_b = (double)(mesh->now_s - mesh->jobs[b].begun_s) * y->width;
    return work_a < work_b || (work_a <= work_b && a > b);
}

/* Picks trials with `need` slots that may be asked to leave for the bidder. Returns how many trials; 0: there are too few. */
static uint32_t pick_victims(const struct round *before, uint32_t bidder, uint32_t need, uint32_t *victims)
{
    struct round round = *before; /* what is picked no longer runs */
    struct week_mesh *mesh = round.mesh;
    uint32_t count = 0, got = 0;
    while (got < need) {
        uint32_t best = WEEK_NO_TRIAL;
        for (uint32_t slot = 0; slot < mesh->world->slot_count; slot++) {
            uint32_t trial = mesh->occupant[slot];
            bool is_candidate = trial != WEEK_NO_TRIAL && trial != best && mesh->jobs[trial].phase == WEEK_RUNS &&
                                week_is_on(mesh, slot, round.side) && trial_of(mesh, trial)->user != trial_of(mesh, bidder)->user;
            for (uint32_t i = 0; is_candidate && i < count; i++) {
                is_candidate = victims[i] != trial;
            }
            if (is_candidate && may_be_asked(&round, trial, bidder) && is_above(&round, trial, bidder) &&
                (best == WEEK_NO_TRIAL || is_better_victim(&round, trial, best, bidder))) {
                best = trial;
            }
        }
        if (best == WEEK_NO_TRIAL) {
            return 0;
        }
        victims[count++] = best;
        got += trial_of(mesh, best)->width;
        round.running[trial_of(mesh, best)->user] -= trial_of(mesh, best)->width;
    }
    for (uint32_t i = 0; i < count;) { /* those without which it still fits are put back */
        uint32_t width = trial_of(mesh, victims[i])->width;
        if (got - width >= need) {
            got -= width;
            victims[i] = victims[--count];
        } else {
            i++;
        }
    }
    return count;
}

/* ---- bids ---------------------------------------------------------------------------------------------------------- */

static uint32_t leaving_for(const struct week_mesh *mesh, uint32_t bidder, uint32_t side)
{
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < mesh->world->slot_count; slot++) {
        uint32_t trial = mesh->occupant[slot];
        count += trial != WEEK_NO_TRIAL && mesh->jobs[trial].phase == WEEK_LEAVES && mesh->jobs[trial].bidder == bidder &&
                 week_is_on(mesh, slot, side);
    }
    return count;
}

/* Free slots of the side that no bid holds; negative where a bid has lost a slot. */
static int32_t room_of(const struct week_mesh *mesh, uint32_t side)
{
    int32_t room = (int32_t)week_free(mesh, side);
    for (uint32_t i = 0; i < mesh->bid_count; i++) {
        if (mesh->bids[i].is_go && mesh->bids[i].side == side) {
            uint32_t width = trial_of(mesh, mesh->bids[i].trial)->width, leaving = leaving_for(mesh, mesh->bids[i].trial, side);
            room -= (int32_t)(width > leaving ? width - leaving : 0);
        }
    }
    return room;
}

static struct week_bid *bid_of(struct week_mesh *mesh, uint32_t trial)
{
    for (uint32_t i = 0; i < mesh->bid_count; i++) {
        if (mesh->bids[i].trial == trial) {
            return &mesh->bids[i];
        }
    }
    return NULL;
}

static void end_bid(struct week_mesh *mesh, const struct week_bid *bid)
{
    size_t at = (size_t)(bid - mesh->bids);
    mesh->bid_count--;
    memmove(&mesh->bids[at], &mesh->bids[at + 1], (mesh->bid_count - at) * sizeof mesh->bids[0]);
}

/* The bid of a gang that waits on this side, to which what starts now is lent; or NULL. */
static struct week_bid *asked_bid(struct week_mesh *mesh, uint32_t side)
{
    for (uint32_t i = 0; i < mesh->bid_count; i++) {
        if (!mesh->bids[i].is_go && mesh->bids[i].side == side) {
            return &mesh->bids[i];
        }
    }
    return NULL;
}

/* Bids whose victims have left start; one that lost a slot and gets none holds nothing any more. */
static void serve_bids(struct week_mesh *mesh, uint32_t side)
{
    for (uint32_t i = 0; i < mesh->bid_count;) {
        struct week_bid *bid = &mesh->bids[i];
        if (!bid->is_go || bid->side != side || leaving_for(mesh, bid->trial, side) > 0) {
            i++;
        } else if (trial_of(mesh, bid->trial)->width <= week_free(mesh, side)) {
            uint32_t trial = bid->trial;
            end_bid(mesh, bid);
            week_start(mesh, trial, side, WEEK_NO_TRIAL);
        } else if (mesh->now_s - bid->go_s > HELD_MAX_S) {
            end_bid(mesh, bid);
        } else {
            i++;
        }
    }
}

/* Asks victims to leave so that the trial fits. Returns whether enough of them may be asked; then its slots are held. */
static bool go(struct round *round, uint32_t trial, int32_t room)
{
    struct week_mesh *mesh = round->mesh;
    uint32_t victims[WEEK_SLOTS_MAX], width = trial_of(mesh, trial)->width, held = room > 0 ? (uint32_t)room : 0;
    uint32_t count = mesh->policy->preempts && mesh->bid_count < WEEK_BIDS_MAX ? pick_victims(round, trial, width - held, victims) : 0;
    if (count == 0) {
        return false;
    }
    struct week_bid *bid = bid_of(mesh, trial);
    bid = bid != NULL ? bid : &mesh->bids[mesh->bid_count++];
    *bid = (struct week_bid){trial, round->side, mesh->now_s, true};
    for (uint32_t i = 0; i < count; i++) {
        week_ask(mesh, victims[i], trial);
    }
    return true;
}

/* One trial of each user at a time, the user that goes first each time. */
static void decide_by_users(struct week_mesh *mesh, uint32_t side)
{
    static uint32_t waiting[WEEK_TRIALS_MAX];
    uint32_t next[WEEK_USERS_MAX] = {0}, too_wide[WEEK_USERS_MAX], count = mesh->waiting_count;
    serve_bids(mesh, side);
    count = mesh->waiting_count;
    memcpy(waiting, mesh->waiting, count * sizeof waiting[0]);
    for (uint32_t user = 0; user < mesh->world->user_count; user++) {
        too_wide[user] = UINT32_MAX; /* trials of this width or more did not get slots */
    }
    for (;;) {
        struct round round = round_of(mesh, side);
        uint32_t best = WEEK_USERS_MAX;
        for (uint32_t user = 0; user < mesh->world->user_count; user++) {
            while (next[user] < count) {
                const struct week_bid *bid = bid_of(mesh, waiting[next[user]]);
                const struct week_trial *trial = trial_of(mesh, waiting[next[user]]);
                if (trial->user == user && trial->width < too_wide[user] && (bid == NULL || !bid->is_go)) {
                    break;
                }
                next[user]++;
            }
            best = next[user] < count && (best == WEEK_USERS_MAX || goes_before(&round, user, best)) ? user : best;
        }
        if (best == WEEK_USERS_MAX) {
            return;
        }
        uint32_t trial = waiting[next[best]++], width = trial_of(mesh, trial)->width;
        int32_t room = room_of(mesh, side);
        struct week_bid *bid = bid_of(mesh, trial), *asked = asked_bid(mesh, side);
        if ((int32_t)width <= room) {
            uint32_t lent_to = asked != NULL && asked != bid ? asked->trial : WEEK_NO_TRIAL;
            if (bid != NULL) {
                end_bid(mesh, bid);
            }
            week_start(mesh, trial, side, lent_to);
        } else if (!go(&round, trial, room)) {
            too_wide[best] = width;
            if (mesh->policy->has_bids && width > 1 && asked == NULL && mesh->bid_count < WEEK_BIDS_MAX) {
                mesh->bids[mesh->bid_count++] = (struct week_bid){trial, side, 0, false};
            }
        }
    }
}

void week_decide(struct week_mesh *mesh)
{
    bool plans = mesh->policy->order == WEEK_SLURM && (mesh->planned_s == 0 || mesh->now_s - mesh->planned_s >= SLURM_PASS_S);
    mesh->planned_s = plans ? mesh->now_s : mesh->planned_s;
    for (uint32_t side = mesh->is_cut ? 0 : WEEK_WHOLE; side <= WEEK_WHOLE && !(mesh->is_cut && side == WEEK_WHOLE); side++) {
        switch (mesh->policy->order) {
        case WEEK_FIFO:
            decide_by_list(mesh, side, true);
            break;
        case WEEK_SLURM:
            decide_by_list(mesh, side, true);
            if (plans) {
                backfill(mesh, side);
            }
            break;
        case WEEK_PRIORITY:
            decide_by_list(mesh, side, false);
            break;
        case WEEK_DETERMINED:
            decide_by_groups(mesh, side);
            break;
        case WEEK_SLOTS:
        case WEEK_DEFICIT:
            decide_by_users(mesh, side);
            break;
        }
    }
}
