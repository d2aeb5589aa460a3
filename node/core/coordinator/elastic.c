/* The group of a living attempt from one generation to the next (DESIGN 9). A lost worker costs the group the step under way:
 * the remaining members leave the group, report the steps applied so far, and wait. The coordinator then names the members of
 * the next generation, the first step, and the members that hand on the state. Programs linked with libshoal can do so; the
 * attempt of any other program ends with the first loss (attempts.c).
 *
 * The decision is a record (FACT_GENERATION). Once the record is on the disk, the owners get the group's key in a message. A
 * successor of the coordinator has the record and not the key: if a member never entered the generation, the successor makes
 * the next generation.
 *
 *      generation g --a member is gone-------> all others wait --record--> g + 1 without the member
 *                   --a slot is wanted back-> the record says: leave g --> all wait --record--> g + 1 without the slot's worker
 *                   --slots are free--------> these are leased; the new workers start, and wait as joiners
 *                   --joiners wait----------> the record says: leave g --> all wait --record--> g + 1 with the joiners */

#include "base/probe.h"
#include "node/core/coordinator/coordinator.h"
#include "node/core/coordinator/elastic.h"
#include "node/core/coordinator/gangs.h"
#include "node/core/coordinator/placing.h"
#include "node/core/coordinator/watch.h"
#include "node/core/ground/disk.h"
#include "node/core/ground/effects.h"
#include "node/core/ground/publish.h"
#include "node/core/members/members.h"
#include "node/core/owner/groups.h"

/* The condition of the members. Each member counts for one of done, gone, dead, unsure and here. */
struct census {
    uint32_t done;     /* ended, with all steps made */
    uint32_t gone;     /* ended before all steps were made, or forgotten by the owner */
    uint32_t dead;     /* not ended; the node is dead or out of the mesh */
    uint32_t unsure;   /* not ended; the node does not answer, was restarted, or has news not known here yet */
    uint32_t here;     /* all other members */
    uint32_t left;     /* members here that have left the group */
    uint32_t unwanted; /* members here, with a slot that is wanted back */
    uint32_t coming;   /* members here that have not entered the present generation yet */
    bool has_first;    /* the lowest living rank is here */
    bool is_behind;    /* a member reports a later generation, and the record of it is missing */
    bool is_unheard;   /* a dead or unsure member may not have heard of this generation */
};

static bool is_dead(const struct node_core *core, node_id node)
{
    if (node_id_equal(node, core->options.self)) {
        return false;
    }
    enum swim_state state = swim_state_of(&core->members->swim, node);
    return state == SWIM_DEAD || state == SWIM_LEFT || coordinator_is_out(core, node) || coordinator_has_left(core, node);
}

static bool is_unsure(const struct node_core *core, node_id node, const struct view_worker *worker)
{
    if (node_id_equal(node, core->options.self)) {
        return false;
    }
    const struct core_peer *peer = core_find_peer(core, node);
    return swim_state_of(&core->members->swim, node) != SWIM_ALIVE || !core_node_in_step(core, node) ||
           (peer != NULL && worker != NULL && peer->boot > worker->boot); /* the worker's fate is not published yet */
}

/* By the owner's record the slot is leased to this very worker of the attempt. */
static bool is_leased(const struct node_core *core, const struct view_attempt *attempt, uint32_t rank)
{
    const struct view_member *member = view_find_member(&core->view, attempt->members[rank].node);
    const struct view_slot *slot = member != NULL ? view_member_slot(member, attempt->members[rank].slot) : NULL;
    return slot != NULL && slot->state == LEASE_LEASED && attempt_id_equal(&slot->attempt, &attempt->id) &&
           slot->rank == attempt->members[rank].number;
}

/* The owner is heard, and for a while its records have not named the attempt in the slot. With an old or an empty disk an owner
 * knows of no worker, and will never report the worker's end. */
static bool is_forgotten(const struct node_core *core, const struct core_watch *watch, const struct view_attempt *attempt,
                         uint32_t rank)
{
    node_id node = attempt->members[rank].node;
    bool is_heard = node_id_equal(node, core->options.self) ||
                    (swim_state_of(&core->members->swim, node) == SWIM_ALIVE && core_node_in_step(core, node));
    return is_heard && watch->idle_ms != 0 && core->now_ms - watch->idle_ms >= CORE_UNLEASED_MS &&
           !is_leased(core, attempt, rank);
}

static bool has_ended(const struct view_worker *worker)
{
    return worker != NULL && worker->state == FACT_WORKER_ENDED;
}

static bool has_left(const struct view_attempt *attempt, const struct view_worker *worker)
{
    return worker != NULL && worker->waits && worker->generation == attempt->generation;
}

enum fate { FATE_DONE, FATE_GONE, FATE_DEAD, FATE_UNSURE, FATE_HERE };

static enum fate fate_of(const struct node_core *core, const struct core_watch *watch, const struct view_attempt *attempt,
                         uint32_t rank)
{
    node_id node = attempt->members[rank].node;
    const struct view_worker *worker = view_attempt_worker(attempt, rank);
    if (has_ended(worker)) {
        return worker->reason == FACT_COMPLETED ? FATE_DONE : FATE_GONE;
    }
    if (is_forgotten(core, watch, attempt, rank)) {
        MARK(member_forgotten);
        return FATE_GONE;
    }
    return is_dead(core, node) ? FATE_DEAD : is_unsure(core, node, worker) ? FATE_UNSURE : FATE_HERE;
}

static struct census take_census(const struct node_core *core, const struct core_watch *watch,
                            const struct view_attempt *attempt)
{
    struct census out = {0};
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        enum fate fate = fate_of(core, watch, attempt, rank);
        bool is_first = out.dead + out.unsure + out.here == 0;
        bool is_before = worker == NULL || worker->generation < attempt->generation;
        out.is_behind |= worker != NULL && worker->generation > attempt->generation;
        out.done += fate == FATE_DONE;
        out.gone += fate == FATE_GONE;
        out.dead += fate == FATE_DEAD;
        out.unsure += fate == FATE_UNSURE;
        out.is_unheard |= (fate == FATE_DEAD || fate == FATE_UNSURE) && attempt->generation > 1 && is_before;
        if (fate == FATE_HERE) {
            out.here++;
            out.has_first |= is_first;
            out.left += has_left(attempt, worker);
            out.unwanted += view_attempt_is_wanted_back(&core->view, attempt, rank);
            out.coming += is_before;
        }
    }
    return out;
}

/* A group of one size cannot go on with fewer members, nor can one that is even. After a loss the trial begins anew from the
 * checkpoint, on any slots with room for the whole group. */
static bool has_one_size(const struct view_experiment *experiment)
{
    uint32_t least = experiment->config->min_slots;
    bool is_fixed = least == experiment->config->max_slots && least == view_experiment_max_slots(experiment);
    return is_fixed || experiment->config->even_hosts;
}

static uint32_t count_living(const struct census *census)
{
    return census->here + census->dead + census->unsure;
}

static bool is_larger_side(uint32_t count, uint32_t all, bool has_first)
{
    bool is_half = count * 2 == all;
    return count * 2 > all || (is_half && has_first) ||
           (is_half && BUG(both_halves_go_on, "of two halves of a group that of the lowest rank keeps the attempt")) ||
           BUG(both_sides_go_on, "of a group that a partition cuts one side keeps the attempt");
}

/* When a partition cuts through a group, only one side goes on: the side with more than half of the living members; at half,
 * the side with the lowest living rank. Ended members count for neither side. A side that has not heard of an end counts more
 * living members than there are, and waits.
 *
 * An absent member that may not have heard of the present generation is still in the generation before. Together with the
 * members left behind at that time, it may be the larger side of the former generation. So no side goes on from a generation
 * that an absent member has neither entered nor seen replaced. */
static bool may_go_on(const struct census *census)
{
    return !census->is_behind && !census->is_unheard &&
           is_larger_side(census->here, count_living(census), census->has_first);
}

static bool joiner_is_lost(const struct node_core *core, const struct core_coordination *coordination,
                           const struct core_watch *watch, const struct view_attempt *attempt, uint32_t rank)
{
    const struct view_worker *worker = view_attempt_worker(attempt, rank);
    uint32_t doublings = watch->join_losses < CORE_JOIN_DOUBLINGS ? watch->join_losses : CORE_JOIN_DOUBLINGS;
    uint64_t listen_ms = (uint64_t)CORE_JOIN_LISTEN_MS << doublings;
    uint64_t since_ms = watch->joined_ms == 0 || gangs_has(coordination, &attempt->id) ? 0 : core->now_ms - watch->joined_ms;
    return has_ended(worker) || is_dead(core, attempt->members[rank].node) ||
           (since_ms >= CORE_JOIN_LEASE_MS && !is_leased(core, attempt, rank)) ||
           (since_ms >= listen_ms && (worker == NULL || !worker->waits));
}

static bool joiner_is_ready(const struct node_core *core, const struct view_attempt *attempt, uint32_t rank)
{
    const struct view_worker *worker = view_attempt_worker(attempt, rank);
    return worker != NULL && worker->state == FACT_WORKER_RUNNING && worker->waits && worker->is_elastic &&
           worker->data_port != 0 && !is_dead(core, attempt->members[rank].node) &&
           !is_unsure(core, attempt->members[rank].node, worker);
}

/* A coordinator with a higher claim has changed the group: our records would not count. */
static bool is_overruled(const struct core_coordination *coordination, const struct view_attempt *attempt)
{
    return election_claim_compare(attempt->group_claim, coordination->election.highest) > 0 ||
           attempt->generation == UINT32_MAX;
}

/* ---- the record ---------------------------------------------------------------------------------------------------- */

static struct fact_generation as_it_is(const struct core_coordination *coordination, const struct view_attempt *attempt)
{
    struct fact_generation fact;
    memset(&fact, 0, sizeof fact);
    fact.generation = attempt->generation;
    fact.term = coordination->election.highest.term;
    fact.start_step = attempt->generation > 1 ? attempt->group_step : 0;
    fact.is_leaving = attempt->is_leaving;
    fact.member_count = attempt->member_count;
    fact.joiner_count = attempt->joiner_count;
    memcpy(fact.members, attempt->members, attempt->member_count * sizeof fact.members[0]);
    memcpy(fact.joiners, attempt->members + attempt->member_count, attempt->joiner_count * sizeof fact.joiners[0]);
    return fact;
}

/* All records of an attempt's groups are of one kind, so that of two of them the later one counts. */
static enum fact_kind kind_of(const struct view_attempt *attempt)
{
    return attempt->is_large ? FACT_GENERATION_LARGE : FACT_GENERATION;
}

static struct core_pending *put(struct node_core *core, const struct view_attempt *attempt,
                                const struct fact_generation *fact)
{
    uint8_t bytes[RECORD_BODY_BYTES_MAX];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    if (attempt->is_large) {
        fact_generation_large_pack(&writer, fact);
    } else {
        fact_generation_pack(&writer, fact);
    }
    return core_put(core, kind_of(attempt), fact_key_verdict(&attempt->id), &writer);
}

uint32_t elastic_next_number(const struct view_attempt *attempt)
{
    uint32_t next = attempt->first_count;
    if (BUG(number_given_twice, "a number names one worker of an attempt for good")) {
        return attempt->member_count;
    }
    for (const struct view_worker *worker = attempt->workers; worker != NULL; worker = worker->next) {
        next = worker->number >= next ? worker->number + 1 : next;
    }
    for (const struct view_group *group = attempt->groups; group != NULL; group = group->next) {
        for (uint32_t i = 0; i < group->member_count + group->joiner_count; i++) {
            next = group->places[i].number >= next ? group->places[i].number + 1 : next;
        }
    }
    return next;
}

bool elastic_record_joiners(struct node_core *core, struct core_coordination *coordination, struct core_gang *gang)
{
    const struct view_attempt *attempt = view_find_attempt(&core->view, &gang->attempt);
    if (attempt == NULL || !attempt->assigned ||
        attempt->joiner_count + attempt->member_count + gang->member_count >
            (attempt->is_large ? FACT_MEMBERS_MAX : FACT_MEMBERS_PLAIN) ||
        elastic_next_number(attempt) + gang->member_count > UINT16_MAX) {
        return false;
    }
    struct core_watch *watch = watch_row(core, coordination, &gang->attempt);
    if (watch == NULL) {
        return false;
    }
    watch->joined_ms = core->now_ms; /* each gang of joiners has the full time from now on */
    struct fact_generation fact = as_it_is(coordination, attempt);
    gang->first_number = elastic_next_number(attempt);
    for (uint32_t i = 0; i < gang->member_count; i++) {
        fact.joiners[fact.joiner_count++] =
            (struct fact_place){gang->members[i].node, gang->members[i].slot, gang->first_number + i, false};
    }
    TRACE_EVENT(&core->options.trace, event_of_attempt(EVENT_TRIAL_REGROUPED, &gang->attempt),
                "trial %u attempt %u: %u more on their way to join generation %u", gang->attempt.trial,
                gang->attempt.number, gang->member_count, fact.generation);
    struct core_pending *pending = put(core, attempt, &fact);
    if (pending == NULL) {
        return false;
    }
    pending->action = CORE_ACTION_ASSIGNED;
    pending->attempt = gang->attempt;
    gang->recorded = pending->version;
    return true;
}

/* ---- the key ------------------------------------------------------------------------------------------------------- */

static struct core_regroup *find_regroup(struct core_coordination *coordination, const attempt_id *attempt)
{
    struct core_regroup *regroup = coordination->regroups;
    while (regroup != NULL && !attempt_id_equal(&regroup->attempt, attempt)) {
        regroup = regroup->next;
    }
    return regroup;
}

static void drop_regroup(struct node_core *core, struct core_coordination *coordination, struct core_regroup *regroup)
{
    struct core_regroup **link = &coordination->regroups;
    while (*link != regroup) {
        link = &(*link)->next;
    }
    *link = regroup->next;
    arena_give(&core->arena, regroup, sizeof *regroup);
}

void elastic_drop(struct node_core *core, struct core_coordination *coordination)
{
    while (coordination->regroups != NULL) {
        drop_regroup(core, coordination, coordination->regroups);
    }
}

static void send_key(struct node_core *core, struct core_regroup *regroup, const struct view_attempt *attempt)
{
    struct message message = {.kind = MESSAGE_GROUP};
    message.u.lease.attempt = regroup->attempt;
    message.u.lease.claim = attempt->group_claim;
    message.u.lease.generation = regroup->generation;
    memcpy(message.u.lease.group_key, regroup->key, sizeof message.u.lease.group_key);
    regroup->resend_ms = core->now_ms + CORE_RESEND_MS;
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        bool is_in = worker != NULL && worker->generation == attempt->generation;
        bool is_asked = false;
        for (uint32_t before = 0; before < rank; before++) {
            is_asked |= node_id_equal(attempt->members[before].node, attempt->members[rank].node);
        }
        if (!is_in && !is_asked) {
            coordinator_ask_owner(core, attempt->members[rank].node, &message);
        }
    }
}

void core_coordinator_grouped(struct node_core *core, const attempt_id *id, struct record_version version)
{
    struct core_coordination *coordination = core_find_coordination(core, id->experiment);
    struct core_regroup *regroup = coordination != NULL ? find_regroup(coordination, id) : NULL;
    const struct view_attempt *attempt = view_find_attempt(&core->view, id);
    if (regroup != NULL && attempt != NULL && attempt->generation == regroup->generation &&
        record_version_compare(regroup->recorded, version) == 0) {
        regroup->on_disk = true;
        send_key(core, regroup, attempt);
    }
}

/* ---- decisions ------------------------------------------------------------------------------------------------------- */

/* The members of the present generation that go on to the next, in the order of the new ranks. */
struct next_group {
    uint32_t count, ranks[FACT_MEMBERS_MAX];
    uint32_t wanted; /* how many have slots that are not wanted back: these come first */
    bool has_first;  /* the lowest living rank is among them */
    bool has_state;  /* one of them has the state in memory */
    bool has_source; /* one of them can begin: with the state, or with the checkpoint if the group is still at the checkpoint's
                        step; or the group is at step 0 and needs neither */
};

static bool can_take_part(const struct node_core *core, const struct core_watch *watch, const struct view_attempt *attempt,
                          uint32_t rank)
{
    return fate_of(core, watch, attempt, rank) == FATE_HERE &&
           (has_left(attempt, view_attempt_worker(attempt, rank)) ||
            BUG(stale_word_taken, "a group is made of what its members say after the last one"));
}

static void admit(struct next_group *next, const struct view_attempt *attempt, uint32_t rank, uint32_t first)
{
    bool is_at_start = attempt->group_step == attempt->start_step;
    const struct view_worker *worker = view_attempt_worker(attempt, rank);
    next->ranks[next->count++] = rank;
    next->has_first |= rank == first;
    next->has_state |= worker->has_state;
    next->has_source |= worker->has_state || (is_at_start && attempt->members[rank].number < attempt->first_count);
}

/* True if the members that go on are the side of a cut that keeps the attempt. The others may already have gone on without
 * them, in a generation of another coordinator: our records about them may be old. */
static bool is_side(const struct next_group *next, const struct census *census)
{
    return is_larger_side(next->count, count_living(census), next->has_first);
}

/* Members in slots that are wanted back come last, so that a later generation can do without them. All of them go on with
 * with_all; otherwise only as many as are needed for the side that keeps the attempt. */
static struct next_group choose_next(const struct node_core *core, const struct core_watch *watch,
                                     const struct view_attempt *attempt, const struct census *census, bool with_all)
{
    struct next_group out = {.has_source = attempt->group_step == 0};
    uint32_t first = 0;
    while (first < attempt->member_count && fate_of(core, watch, attempt, first) <= FATE_GONE) {
        first++;
    }
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        if (can_take_part(core, watch, attempt, rank) && !view_attempt_is_wanted_back(&core->view, attempt, rank)) {
            admit(&out, attempt, rank, first);
        }
    }
    out.wanted = out.count;
    for (uint32_t rank = 0; rank < attempt->member_count && (with_all || !is_side(&out, census)); rank++) {
        if (can_take_part(core, watch, attempt, rank) && view_attempt_is_wanted_back(&core->view, attempt, rank)) {
            admit(&out, attempt, rank, first);
        }
    }
    return out;
}

/* A number that no other coordinator gives to another generation of the attempt. A successor may lack the predecessor's last
 * record, and beyond a cut another node may succeed, too. So each term has CORE_GENERATIONS numbers of its own, a later term
 * higher numbers, and two coordinators of the same term begin at different places among the numbers. The coordinator that began
 * the attempt begins at 2. */
static uint32_t next_generation(const struct core_coordination *coordination, const struct view_attempt *attempt)
{
    struct election_claim own = coordination->election.highest, first = {attempt->id.term, attempt->id.coordinator};
    uint64_t next = (uint64_t)attempt->generation + 1, place = 2;
    if (election_claim_compare(own, first) != 0 &&
        !BUG(generation_without_term, "each term has numbers of its own for the generations of a group")) {
        place = (own.term - first.term) * CORE_GENERATIONS + bytes_get_u64(own.node.bytes) % (CORE_GENERATIONS / 2);
    }
    bool is_ours = place > next && place < UINT32_MAX; /* false: begun there already, or terms have jumped */
    return (uint32_t)(is_ours ? place : next);
}

static void begin_generation(struct node_core *core, struct core_coordination *coordination,
                             const struct view_experiment *experiment, const struct view_attempt *attempt,
                             const struct next_group *next)
{
    struct fact_generation fact = {.generation = next_generation(coordination, attempt),
                                   .term = coordination->election.highest.term,
                                   .start_step = attempt->group_step};
    bool has_state = false;
    for (uint32_t i = 0; i < next->count; i++) {
        const struct view_worker *worker = view_attempt_worker(attempt, next->ranks[i]);
        if (worker->has_state && (!has_state || worker->applied_step > fact.start_step)) {
            has_state = true;
            fact.start_step = worker->applied_step;
        }
        fact.members[fact.member_count++] = attempt->members[next->ranks[i]];
    }
    uint32_t most = view_experiment_max_slots(experiment);
    uint32_t unwanted = next->count - next->wanted; /* left out by the generation after the next */
    for (uint32_t rank = attempt->member_count; rank < attempt->member_count + attempt->joiner_count; rank++) {
        bool is_full = fact.member_count >= most; /* a member given up for dead was alive */
        bool has_room = fact.member_count - unwanted + fact.joiner_count < most;
        if (joiner_is_ready(core, attempt, rank) && !is_full) {
            fact.members[fact.member_count++] = attempt->members[rank];
        } else if (!has_ended(view_attempt_worker(attempt, rank)) && has_room) {
            fact.joiners[fact.joiner_count++] = attempt->members[rank];
        }
    }
    for (uint32_t i = 0; i < fact.member_count; i++) {
        uint32_t rank = view_attempt_rank(attempt, fact.members[i].node, fact.members[i].slot, fact.members[i].number);
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        fact.members[i].has_state =
            BUG(joiner_hands_on, "who has just joined has no state to hand on") ||
            (worker->has_state && (worker->applied_step == fact.start_step ||
                                   BUG(behind_hands_on, "who has not applied the start step hands no state on")));
    }
    if (BUG(stale_state_taken, "a group goes on from the highest step that anybody has applied") && has_state) {
        fact.start_step -= fact.start_step > 0;
    }
    struct core_regroup *regroup = find_regroup(coordination, &attempt->id);
    if (regroup == NULL) {
        regroup = arena_take(&core->arena, sizeof *regroup);
        if (regroup == NULL) {
            core->counters.full++;
            return;
        }
        regroup->next = coordination->regroups;
        coordination->regroups = regroup;
    }
    regroup->attempt = attempt->id;
    regroup->generation = fact.generation;
    regroup->on_disk = false;
    core_secret(core, regroup->key, sizeof regroup->key);
    MARK(group_goes_on);
    TRACE_EVENT(&core->options.trace, event_of_attempt(EVENT_TRIAL_REGROUPED, &attempt->id),
                "trial %u attempt %u: generation %u of %u members (before: %u), from step %llu",
                attempt->id.trial, attempt->id.number, fact.generation, fact.member_count, attempt->member_count,
                (unsigned long long)fact.start_step);
    struct core_pending *pending = put(core, attempt, &fact);
    regroup->recorded = (struct record_version){0};
    if (pending != NULL) {
        pending->action = CORE_ACTION_GROUPED;
        pending->attempt = attempt->id;
        regroup->recorded = pending->version;
    }
}

/* Asks the members to leave the group: at once if a member is missing, otherwise all after the same step. */
static void ask_to_leave(struct node_core *core, const struct core_coordination *coordination,
                         const struct view_attempt *attempt)
{
    if (!attempt->is_leaving) {
        struct fact_generation fact = as_it_is(coordination, attempt);
        fact.is_leaving = true;
        (void)put(core, attempt, &fact);
    }
}

/* Takes lost joiners out of the record. With no member left all joiners are lost: there is no group to join, and a new
 * attempt needs the slots. */
static void drop_lost_joiners(struct node_core *core, const struct core_coordination *coordination,
                              struct core_watch *watch, const struct view_attempt *attempt, const struct census *census)
{
    bool is_nobody_here = census->here + census->unsure + census->done == 0 && census->dead > 0;
    struct fact_generation fact = as_it_is(coordination, attempt);
    fact.joiner_count = 0;
    uint64_t wait_ms = (uint64_t)CORE_LOST_WAIT_FIRST_MS << (watch->join_losses < 16 ? watch->join_losses : 16);
    wait_ms = wait_ms < CORE_NEVER_RAN_WAIT_MAX_MS ? wait_ms : CORE_NEVER_RAN_WAIT_MAX_MS;
    for (uint32_t rank = attempt->member_count; rank < attempt->member_count + attempt->joiner_count; rank++) {
        if (!is_nobody_here && !joiner_is_lost(core, coordination, watch, attempt, rank)) {
            fact.joiners[fact.joiner_count++] = attempt->members[rank];
        } else {
            /* For longer than the pause of wait_ms, so that another slot is tried next if possible. */
            placing_back_off(core, attempt->members[rank].node, attempt->members[rank].slot, 2 * wait_ms);
        }
    }
    uint32_t lost = attempt->joiner_count - fact.joiner_count;
    watch_since(&watch->joined_ms, fact.joiner_count > 0, core->now_ms);
    if (lost > 0) {
        MARK(joiner_lost);
        watch->join_ms = core->now_ms + wait_ms;
        watch->join_losses += lost;
        (void)put(core, attempt, &fact);
    }
}

static uint32_t ready_joiners(const struct node_core *core, const struct view_attempt *attempt)
{
    uint32_t ready = 0;
    for (uint32_t rank = attempt->member_count; rank < attempt->member_count + attempt->joiner_count; rank++) {
        ready += joiner_is_ready(core, attempt, rank);
    }
    return ready;
}

static void watch_key(struct node_core *core, struct core_coordination *coordination, const struct view_attempt *attempt,
                      const struct census *census)
{
    struct core_regroup *regroup = find_regroup(coordination, &attempt->id);
    if (regroup == NULL) {
        return;
    }
    struct fact_key key = fact_key_verdict(&attempt->id);
    const struct records_entry *entry =
        records_find(&core->records, record_ident_of(core->options.self, (uint16_t)kind_of(attempt), key.bytes, key.count));
    regroup->on_disk |= entry != NULL && entry->on_disk; /* maybe a later version: a full disk can refuse the first */
    bool is_over = regroup->generation != attempt->generation || (regroup->on_disk && census->coming == 0);
    if (is_over) {
        drop_regroup(core, coordination, regroup);
    } else if (regroup->on_disk && core->now_ms >= regroup->resend_ms) {
        send_key(core, regroup, attempt);
    }
}

/* With this group's failure the program has failed more often than max_restarts allows, counted over all groups. Only while the
 * present group has a failure: a late report about an earlier group does not end a healthy group. */
static bool fails_too_often(const struct view_experiment *experiment, const struct view_trial *trial,
                            const struct view_attempt *attempt, const struct attempt_sight *sight)
{
    return sight->failed > 0 &&
           view_trial_failures(trial) + view_attempt_failures(attempt) > config_restarts(experiment->config);
}

/* Measures how long a step takes, from the reports of a whole group. */
static void measure(const struct node_core *core, struct core_watch *watch, const struct view_attempt *attempt)
{
    uint64_t step = 0;
    for (const struct view_worker *worker = attempt->workers; worker != NULL; worker = worker->next) {
        step = worker->generation == attempt->generation && worker->step > step ? worker->step : step;
    }
    bool is_new = watch->step_generation != attempt->generation;
    if (!is_new && step > watch->step && watch->stepped_ms != 0) {
        uint64_t took_ms = (core->now_ms - watch->stepped_ms) / (step - watch->step);
        watch->step_ms_max = took_ms > watch->step_ms_max ? took_ms : watch->step_ms_max;
    }
    if (is_new || step > watch->step) {
        watch->stepped_ms = is_new ? 0 : core->now_ms; /* a generation's first report only starts the clock */
        watch->step = step;
        watch->step_generation = attempt->generation;
    }
}

/* How long members may take to leave a broken group. A program notices the break in the next collective: after the present
 * step, however long the step takes. */
static uint64_t leave_ms(const struct core_watch *watch)
{
    uint64_t known_ms = CORE_LEAVE_STEPS * watch->step_ms_max;
    return watch->step_ms_max == 0 ? CORE_LEAVE_UNKNOWN_MS : known_ms > CORE_REGROUP_MS ? known_ms : CORE_REGROUP_MS;
}

/* The group is broken, and this side may go on: waits until all present members have left the group, or the time
 * for leaving is over, and then begins the next generation or gives up. */
static void decide(struct node_core *core, struct core_coordination *coordination,
                   const struct view_experiment *experiment, const struct view_attempt *attempt, struct core_watch *watch,
                   const struct attempt_sight *sight, const struct census *census, uint32_t ready)
{
    uint64_t since_ms = core->now_ms - watch->broken.since_ms;
    bool has_all_left = census->left == census->here ||
                        BUG(stale_word_taken, "a group is made of what its members say after the last one");
    watch_since(&watch->broken.unsure_ms, census->unsure > 0, core->now_ms);
    if (census->unsure > 0 && core->now_ms - watch->broken.unsure_ms < CORE_REGROUP_MS) {
        MARK(group_waits_for_word); /* a node on an old disk may never answer: hence the bound */
        return;
    }
    if (!has_all_left && since_ms < leave_ms(watch)) {
        if (census->gone + census->dead == 0 || since_ms >= CORE_LEAVE_ASK_MS) { /* after a loss the owners tell them */
            ask_to_leave(core, coordination, attempt);
        }
        return;
    }
    /* A worker whose slot is wanted back stays for one more generation if the group would otherwise fall below min_slots; the
     * group then saves and stops. */
    uint32_t least = census->done > 0 ? 1 : experiment->config->min_slots;
    struct next_group others = choose_next(core, watch, attempt, census, false);
    struct next_group all = choose_next(core, watch, attempt, census, true);
    bool are_enough = others.has_source && others.wanted > 0 && others.wanted + ready >= least;
    const struct next_group *next = are_enough ? &others : &all;
    bool is_on_its_way = attempt->joiner_count > ready || gangs_has(coordination, &attempt->id);
    /* A late member may have gone on elsewhere: in a group of this generation, or of the generation before if it never entered
     * this one. It has as long as a program that is asked to stop: by then the owner has ended it, too, if the slot is wanted
     * back. */
    bool has_strays = attempt->generation > 1 && census->coming > 0, is_short = has_strays || !is_side(next, census);
    if (is_short && since_ms < leave_ms(watch) + attempts_stop_ms(experiment)) {
        return;
    }
    watch_since(&watch->broken.gathered_ms, true, core->now_ms);
    if (!next->has_source || (!has_all_left && !next->has_state)) { /* a late member may have the only state */
        MARK(group_without_state);
        bool were_asked = sight->stopped > 0 && sight->lost + sight->failed + sight->away == 0; /* by a pause, over by now */
        attempts_put_verdict(core, attempt, were_asked ? FACT_STOPPED : FACT_LOST,
                             were_asked ? "every worker that had its state has stopped" : "every worker that had its state is gone");
    } else if (is_short) {
        attempts_put_verdict(core, attempt, FACT_LOST,
                             has_strays ? "a worker never came into its group" : "too many workers did not leave its group");
    } else if (next->count + ready >= least || BUG(too_few_go_on, "a group has at least min_slots members")) {
        if (next == &others && next->wanted < next->count) {
            MARK(unwanted_go_on_once_more);
        }
        if (!has_all_left) {
            MARK(late_are_left_behind); /* the owners end workers without a record */
        }
        begin_generation(core, coordination, experiment, attempt, next);
    } else if (!is_on_its_way && core->now_ms - watch->broken.gathered_ms >= CORE_REGROUP_MS) {
        MARK(group_gives_up);
        attempts_put_verdict(core, attempt, FACT_LOST, "its group could not go on");
    }
}

bool elastic_follow(struct node_core *core, struct core_coordination *coordination,
                    const struct view_experiment *experiment, const struct view_trial *trial,
                    const struct view_attempt *attempt, const struct attempt_sight *sight, struct core_watch *watch)
{
    if (!view_attempt_is_elastic(attempt) || !core_has_room(core, 256, 1u << 16)) {
        return false;
    }
    bool is_lower = view_trial_highest(trial) != attempt &&
                    !BUG(lower_goes_on, "of two attempts of a trial that both run the lower ends");
    if (is_overruled(coordination, attempt) && !is_lower) {
        watch_broken_begin(watch, core->now_ms);
        if (core->now_ms - watch->broken.since_ms >= CORE_REGROUP_MS) {
            attempts_put_verdict(core, attempt, FACT_LOST, "a node that does not coordinate it has changed its group");
        }
        return true;
    }
    struct census census = take_census(core, watch, attempt);
    if (has_one_size(experiment) && census.gone + census.dead > 0) {
        return false;
    }
    drop_lost_joiners(core, coordination, watch, attempt, &census);
    watch_key(core, coordination, attempt, &census);
    bool is_keyless = census.coming > 0 && attempt->generation > 1 && find_regroup(coordination, &attempt->id) == NULL;
    bool is_stopping =
        view_experiment_paused(experiment) || owner_group_is_stopping(core, experiment, attempt);
    uint32_t ready = ready_joiners(core, attempt);
    watch->join_losses = ready > 0 ? 0 : watch->join_losses;
    watch->wants_ms = ready > 0 ? 0 : watch->wants_ms;
    if (census.gone + census.dead + census.left == 0 && !is_keyless) {
        watch_broken_end(watch);
        measure(core, watch, attempt);
        bool is_due = (ready > 0 && ready == attempt->joiner_count) ||
                      (census.unwanted > 0 && view_attempt_can_shrink(&core->view, experiment, attempt, NULL));
        if (is_due && !is_stopping && census.done + census.unsure + census.coming == 0) {
            ask_to_leave(core, coordination, attempt);
        }
        return false;
    }
    watch_broken_begin(watch, core->now_ms);
    if (census.gone + census.dead > 0 && BUG(loss_ends_attempt, "a lost worker costs its group a step, not the attempt")) {
        return false;
    }
    watch_since(&watch->broken.stopping_ms, is_stopping, core->now_ms);
    if (is_stopping) { /* members are asked to save and leave; attempts.c judges once all have left or had their time */
        return census.here > 0 && core->now_ms - watch->broken.stopping_ms < attempts_stop_ms(experiment);
    }
    bool is_elsewhere = !may_go_on(&census) && (census.dead + census.unsure > 0 || census.is_behind) && !is_lower;
    bool lacks_record = census.is_behind && census.dead + census.unsure == 0; /* all are heard: the record comes soon */
    watch_since(&watch->broken.behind_ms, lacks_record, core->now_ms);
    if (lacks_record && core->now_ms - watch->broken.behind_ms >= CORE_REGROUP_MS) {
        attempts_put_verdict(core, attempt, FACT_LOST, "the record of its last group is lost");
        return true;
    }
    if (is_elsewhere && sight->away + sight->overdue == 0) {
        MARK(group_may_go_on_elsewhere);
        watch_broken_anew(watch, core->now_ms); /* the time to gather begins after the heal */
        return true;
    }
    if (census.here == 0 || !may_go_on(&census)) {
        return false; /* the attempt is over: attempts.c knows why */
    }
    if (fails_too_often(experiment, trial, attempt, sight)) {
        /* The failure may be the echo of a node's death. */
        bool may_be_echo = census.unsure > 0 && core->now_ms - watch->failed_ms < CORE_FAILURE_SETTLE_MS;
        if (may_be_echo || !attempts_failure_is_settled(core, experiment, attempt, sight, watch)) {
            return true;
        }
        if (census.dead > 0) {
            return false;
        }
        attempts_put_verdict(core, attempt, FACT_FAILED, "a worker failed"); /* losses beside the failure do not count */
        return true;
    }
    if (is_lower) { /* the attempt would end as soon as its group had gathered */
        MARK(lower_attempt_judged);
        attempts_put_verdict(core, attempt, FACT_LOST, "a higher attempt exists");
        return true;
    }
    decide(core, coordination, experiment, attempt, watch, sight, &census, ready);
    return true;
}

uint32_t elastic_wants(struct node_core *core, struct core_coordination *coordination,
                       const struct view_experiment *experiment, const struct view_attempt *attempt, uint32_t size)
{
    if (!view_attempt_is_elastic(attempt) || has_one_size(experiment) || attempt->verdicts != NULL ||
        gangs_has(coordination, &attempt->id) || is_overruled(coordination, attempt)) {
        return 0;
    }
    const struct core_watch *watch = watch_row(core, coordination, &attempt->id);
    if (watch == NULL || core->now_ms < watch->join_ms) {
        return 0;
    }
    struct census census = take_census(core, watch, attempt);
    if (census.done > 0 || census.here == 0 || !may_go_on(&census) || owner_group_is_stopping(core, experiment, attempt)) {
        return 0;
    }
    uint32_t have = census.here - census.unwanted + census.unsure + attempt->joiner_count;
    return have < size ? size - have : 0;
}
