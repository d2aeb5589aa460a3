/* One experiment's coordinator (DESIGN 7, 8). The records hold all that counts. Gangs and the watches of attempts are volatile:
 * a successor builds them up anew. */

#include "base/probe.h"
#include "node/core/coordinator/coordinator.h"
#include "node/core/coordinator/custom.h"
#include "node/core/coordinator/elastic.h"
#include "node/core/coordinator/gangs.h"
#include "node/core/coordinator/pending.h"
#include "node/core/coordinator/placing.h"
#include "node/core/coordinator/search.h"
#include "node/core/coordinator/watch.h"
#include "node/core/ground/disk.h"
#include "node/core/ground/effects.h"
#include "node/core/ground/publish.h"
#include "node/core/members/clocks.h"
#include "node/core/members/quarantine.h"
#include "node/core/owner/slots.h"

struct core_coordination *core_find_coordination(const struct node_core *core, experiment_id experiment)
{
    for (struct core_coordination *c = core->coordinator->coordinations; c != NULL; c = c->next) {
        if (experiment_id_equal(c->experiment, experiment)) {
            return c;
        }
    }
    return NULL;
}

struct election_claim core_coordinator_highest(const struct node_core *core, experiment_id experiment)
{
    const struct core_coordination *coordination = core_find_coordination(core, experiment);
    return coordination != NULL ? coordination->election.highest : (struct election_claim){0};
}

static struct core_coordination *coordination_row(struct node_core *core, experiment_id experiment)
{
    struct core_coordination **link = &core->coordinator->coordinations;
    while (*link != NULL && experiment_id_compare((*link)->experiment, experiment) < 0) {
        link = &(*link)->next;
    }
    if (*link != NULL && experiment_id_equal((*link)->experiment, experiment)) {
        return *link;
    }
    struct core_coordination *made = arena_take(&core->arena, sizeof *made);
    if (made == NULL) {
        core->counters.full++;
        return NULL;
    }
    made->experiment = experiment;
    election_init(&made->election);
    made->next = *link;
    *link = made;
    return made;
}

const char *coordinator_name(const struct view_experiment *experiment)
{
    return experiment != NULL && experiment->known ? experiment->config->name : "?";
}

void coordinator_ask_owner(struct node_core *core, node_id owner, const struct message *message)
{
    if (node_id_equal(owner, core->options.self)) {
        core_owner_receive(core, owner, message,
                           core_coordinator_highest(core, message->u.lease.attempt.experiment));
    } else if (core_has_room(core, 64, 0)) {
        core_send(core, owner, message);
    }
}

/* ---- elections --------------------------------------------------------------------------------------------------- */

static bool leads(const struct core_coordination *coordination)
{
    return coordination->election.state == ELECTION_LEADING;
}

static void yield(struct node_core *core, struct core_coordination *coordination)
{
    TRACE_EVENT(&core->options.trace, event_of_experiment(EVENT_EXPERIMENT_HANDED_OVER, coordination->experiment),
                "another node coordinates %s now, with term %llu",
                coordinator_name(view_find_experiment(&core->view, coordination->experiment)),
                (unsigned long long)coordination->election.highest.term);
    coordination->claiming = false;
    gangs_drop(core, coordination);
    elastic_drop(core, coordination);
}

static void observe(struct node_core *core, struct core_coordination *coordination, struct election_claim claim,
                    bool released)
{
    enum election_action action = ELECTION_NOTHING;
    bool led = leads(coordination);
    if (election_take(&coordination->election, claim, released, core->options.self, &action) == 0 &&
        action == ELECTION_YIELD) {
        yield(core, coordination);
    } else if (led && !leads(coordination)) { /* our claim was released, maybe in an earlier boot */
        gangs_drop(core, coordination);
        elastic_drop(core, coordination);
    }
}

static void put_claim(struct node_core *core, struct core_coordination *coordination, uint64_t term, bool released)
{
    struct fact_claim fact = {.term = term, .released = released};
    uint8_t bytes[32];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_claim_pack(&writer, &fact);
    struct core_pending *pending = core_put(core, FACT_CLAIM, fact_key_experiment(coordination->experiment), &writer);
    coordination->claim_ms = core->now_ms + CORE_RETRY_MS;
    if (pending != NULL && !released) {
        pending->action = CORE_ACTION_LED;
        pending->attempt.experiment = coordination->experiment;
        pending->term = term;
        coordination->claiming = true;
        if (BUG(leads_before_disk, "a coordinator asks for nothing before its claim is on its disk")) {
            core_coordinator_led(core, coordination->experiment, term);
        }
    }
}

void core_coordinator_led(struct node_core *core, experiment_id experiment, uint64_t term)
{
    struct core_coordination *coordination = core_find_coordination(core, experiment);
    struct view_experiment *row = view_find_experiment(&core->view, experiment);
    struct election_claim claim = {term, core->options.self};
    if (coordination == NULL || row == NULL || !coordination->claiming ||
        coordination->election.claiming_term != term) {
        return;
    }
    coordination->claiming = false;
    if (election_claim_compare(coordination->election.highest, claim) > 0) {
        MARK(claim_overtaken_on_its_way);
        return;
    }
    election_led(&coordination->election, claim);
    TRACE_EVENT(&core->options.trace, event_of_experiment(EVENT_EXPERIMENT_COORDINATED, experiment),
                "coordinates %s with term %llu", coordinator_name(row), (unsigned long long)term);
    coordination->renew_ms = core->now_ms;
    coordination->renew_from = 0;
    coordination->log_next = 0;
    watch_begin_anew(core, coordination);
    row->changed = true;
}

/* This node runs on an old disk, and another node has kept a claim of ours from a boot with a larger number. The old claim
 * has replaced the present claim in the records, so the records do not name us as the coordinator any more. */
static bool claim_is_replaced(const struct node_core *core, const struct core_coordination *coordination,
                              const struct view_claim *claim)
{
    uint64_t term = leads(coordination) ? coordination->election.highest.term : coordination->election.claiming_term;
    return (leads(coordination) || coordination->claiming) && node_id_equal(claim->writer, core->options.self) &&
           claim->fact.term < term;
}

/* The coordinator by the records: the node of the highest claim; none if the claim is released. */
static node_id on_record(const struct view_experiment *experiment, const struct lamport_top *top)
{
    struct election_claim highest = {0};
    bool is_released = true;
    for (const struct view_claim *claim = experiment->claims; claim != NULL; claim = claim->next) {
        struct election_claim next = {claim->fact.term, claim->writer};
        if (lamport_counts(top, next.term) && election_claim_compare(next, highest) > 0) {
            highest = next;
            is_released = claim->fact.released;
        }
    }
    return is_released ? (node_id){0} : highest.node;
}

/* A claim is known from its record, from an owner's fence, or from a message of an owner that obeys the claim. If the record
 * stays away although the claimant lives, the claimant has lost the record with its disk and does not know that it leads, or a
 * node has lied. After CORE_UNCONFIRMED_MS the claim counts as released, so that no node waits for ever. */
static void doubt(struct node_core *core, struct core_coordination *coordination,
                  const struct view_experiment *experiment)
{
    struct election_claim highest = coordination->election.highest;
    bool is_borne = node_id_is_none(highest.node) || coordination->election.highest_released ||
                    node_id_equal(highest.node, core->options.self) || !core_node_alive(core, highest.node);
    for (const struct view_claim *claim = experiment->claims; claim != NULL && !is_borne; claim = claim->next) {
        is_borne = node_id_equal(claim->writer, highest.node) && claim->fact.term == highest.term;
    }
    if (is_borne) {
        coordination->unconfirmed_ms = 0;
    } else if (coordination->unconfirmed_ms == 0 || election_claim_compare(coordination->unconfirmed, highest) != 0) {
        coordination->unconfirmed_ms = core->now_ms;
        coordination->unconfirmed = highest;
    } else if (core->now_ms - coordination->unconfirmed_ms >= CORE_UNCONFIRMED_MS) {
        MARK(claim_without_record);
        TRACE_EVENT(&core->options.trace, event_of_experiment(EVENT_EXPERIMENT_HANDED_OVER, coordination->experiment),
                    "no record confirms the claim to coordinate %s with term %llu: the claim counts as released",
                    coordinator_name(experiment), (unsigned long long)highest.term);
        observe(core, coordination, highest, true);
    }
}

/* A coordinator that has changed a group has claimed the experiment, even if the record of the claim is late or lost. */
static void observe_groups(struct node_core *core, struct core_coordination *coordination,
                           const struct view_experiment *experiment)
{
    for (uint32_t i = view_next_unsettled(experiment, 0); i < experiment->trial_slots; i = view_next_unsettled(experiment, i + 1)) {
        const struct view_trial *trial = experiment->trials[i];
        for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
            struct election_claim claim = a->group_claim, highest = coordination->election.highest;
            if (a->groups == NULL || a->verdicts != NULL || election_claim_compare(claim, highest) <= 0) {
                continue;
            }
            struct lamport_top others = view_claim_top(experiment, &claim.node);
            lamport_see(&others, node_id_equal(highest.node, claim.node) ? 0 : highest.term);
            if (lamport_follows(others.first, claim.term)) {
                MARK(group_ahead_of_claims);
                observe(core, coordination, claim, false);
            }
        }
    }
}

/* The disk refused our claim, and a claim of an earlier boot with the same or a later term has taken the place: no event will
 * ever report our claim on the disk. */
static bool claim_is_lost(const struct node_core *core, const struct core_coordination *coordination)
{
    if (!coordination->claiming) {
        return false;
    }
    struct fact_key key = fact_key_experiment(coordination->experiment);
    const struct records_entry *entry =
        records_find(&core->records, record_ident_of(core->options.self, FACT_CLAIM, key.bytes, key.count));
    return entry != NULL && entry->on_disk && !core_claim_is_awaited(core, coordination->experiment);
}

static void elect(struct node_core *core, struct core_coordination *coordination,
                  const struct view_experiment *experiment)
{
    struct lamport_top top = view_claim_top(experiment, NULL);
    for (const struct view_claim *claim = experiment->claims; claim != NULL; claim = claim->next) {
        if (claim_is_replaced(core, coordination, claim)) {
            MARK(claim_replaced_by_an_earlier_one);
            TRACE_EVENT(&core->options.trace, event_of_experiment(EVENT_EXPERIMENT_HANDED_OVER, coordination->experiment),
                        "an older claim to %s has replaced the claim of this node: claims it again",
                        coordinator_name(experiment));
            coordination->claiming = false;
            gangs_drop(core, coordination);
            elastic_drop(core, coordination);
            election_lost(&coordination->election);
        }
        /* A claim next to the highest claim known here counts, even if the record of the highest claim is gone. */
        bool is_next = !node_id_equal(coordination->election.highest.node, claim->writer) &&
                       lamport_follows(coordination->election.highest.term, claim->fact.term);
        if (lamport_counts(&top, claim->fact.term) || is_next) {
            observe(core, coordination, (struct election_claim){claim->fact.term, claim->writer}, claim->fact.released);
        }
    }
    /* A claim obeyed by this node as an owner counts too: the record may never have come, or was lost with a disk. */
    struct election_claim fence = core_fence_get(core, experiment->id);
    if (!node_id_is_none(fence.node) && election_claim_compare(fence, coordination->election.highest) > 0) {
        MARK(fence_ahead_of_claims);
        observe(core, coordination, fence, false);
    }
    observe_groups(core, coordination, experiment);
    doubt(core, coordination, experiment);
    election_expect(&coordination->election, on_record(experiment, &top));
    if (claim_is_lost(core, coordination)) {
        coordination->claiming = false;
        election_lost(&coordination->election);
    }
    if (core->members->syncing || core->leaving || core->is_out || coordination->claiming) {
        return;
    }
    if (coordination->election.claiming) { /* there was no memory for the claim's record */
        if (core->now_ms >= coordination->claim_ms) {
            put_claim(core, coordination, election_next_term(&coordination->election), false);
        }
        return;
    }
    enum election_action action =
        election_step(&coordination->election, core->now_ms, core->options.self, coordination->experiment,
                      core->members->election_members, core->members->election_member_count);
    if (action == ELECTION_CLAIM) {
        put_claim(core, coordination, election_next_term(&coordination->election), false);
    } else if (action == ELECTION_ASK) {
        struct message message = {.kind = MESSAGE_INCUMBENT_ASK};
        message.u.incumbent.about = coordination->election.highest.node;
        for (uint32_t i = 0; i < core->members->peer_count && core_has_room(core, 64, 0); i++) {
            if (core_node_alive(core, core->members->peers[i]->id)) {
                core_send(core, core->members->peers[i]->id, &message);
            }
        }
    }
}

static void answer_ask(struct node_core *core, node_id from, const struct message *asked)
{
    struct message message = {.kind = MESSAGE_INCUMBENT_ANSWER};
    message.u.incumbent.about = asked->u.incumbent.about;
    message.u.incumbent.hears = swim_state_of(&core->members->swim, asked->u.incumbent.about) == SWIM_ALIVE ||
                                node_id_equal(asked->u.incumbent.about, core->options.self);
    core_send(core, from, &message);
}

/* ---- partitions -------------------------------------------------------------------------------------------------- */

bool coordinator_is_out(const struct node_core *core, node_id node)
{
    const struct view_member *member = view_find_member(&core->view, node);
    return member != NULL && view_member_is_out(member);
}

bool coordinator_has_left(const struct node_core *core, node_id node)
{
    const struct view_member *member = view_find_member(&core->view, node);
    return member != NULL && member->left;
}

bool coordinator_minority_pauses(const struct node_core *core, const struct view_experiment *experiment)
{
    if (experiment->config->on_partition != CONFIG_PARTITION_PAUSE_MINORITY ||
        BUG(minority_starts, "with pause_minority the smaller side starts nothing")) {
        return false;
    }
    uint32_t alive = 0, total = 0;
    bool has_lowest = false;
    for (uint32_t i = 0; i < core->members->election_member_count; i++) {
        if (coordinator_has_left(core, core->members->election_members[i].node)) {
            continue;
        }
        has_lowest |= total == 0 && core->members->election_members[i].alive;
        total++;
        alive += core->members->election_members[i].alive;
    }
    return alive * 2 < total || (alive * 2 == total && !has_lowest);
}

bool coordinator_waits(const struct node_core *core, const struct view_experiment *experiment)
{
    return config_needs_waits(experiment->config) &&
           view_experiment_wait(&core->view, experiment, core_mesh_wall_s(core)).cause != VIEW_WAITS_NOT;
}

/* An owner says that it obeys a higher claim; no signature proves so. The claim may lift our next term only so far that other
 * nodes still find our term confirmed by the claims of nodes apart from the three concerned. */
static void stale(struct node_core *core, struct core_coordination *coordination, node_id from,
                  struct election_claim claim)
{
    const struct view_experiment *experiment = view_find_experiment(&core->view, coordination->experiment);
    uint64_t base = 0;
    for (const struct view_claim *row = experiment != NULL ? experiment->claims : NULL; row != NULL; row = row->next) {
        bool is_concerned = node_id_equal(row->writer, claim.node) || node_id_equal(row->writer, from) ||
                            node_id_equal(row->writer, core->options.self);
        base = !is_concerned && row->fact.term > base ? row->fact.term : base;
    }
    if (claim.term > base && claim.term - base > LAMPORT_JUMP_MAX / 2) {
        core->counters.malformed++;
        TRACE_EVENT(&core->options.trace, event_of_node(EVENT_NODE_FALSE, from),
                    "an owner says that it obeys a term more than %u above all claims: ignored",
                    LAMPORT_JUMP_MAX / 2);
        return;
    }
    observe(core, coordination, claim, false);
}

void core_coordinator_receive(struct node_core *core, node_id from, const struct message *message)
{
    if (message->kind == MESSAGE_INCUMBENT_ASK) {
        answer_ask(core, from, message);
        return;
    }
    if (message->kind == MESSAGE_INCUMBENT_ANSWER) {
        for (struct core_coordination *c = core->coordinator->coordinations; c != NULL; c = c->next) {
            if (node_id_equal(c->election.highest.node, message->u.incumbent.about)) {
                election_answer(&c->election, core->now_ms, message->u.incumbent.hears);
            }
        }
        return;
    }
    struct core_peer *peer = core_find_peer(core, from);
    if (peer != NULL) {
        peer->silent_until_ms = 0; /* any answer of an owner will do */
    }
    struct core_coordination *coordination = core_find_coordination(core, message->u.lease.attempt.experiment);
    if (coordination == NULL) {
        return;
    }
    if (message->kind == MESSAGE_STALE) {
        stale(core, coordination, from, message->u.lease.claim);
        return;
    }
    gangs_receive(core, coordination, from, message);
}

/* ---- drained ----------------------------------------------------------------------------------------------------- */

/* A drained node hands over as soon as another node can take over: a node without a drain, and up for ELECTION_UP_MS. */
static bool wants_to_hand_over(const struct node_core *core, const struct core_coordination *coordination)
{
    const struct view_experiment *experiment = view_find_experiment(&core->view, coordination->experiment);
    if (!core_node_drained(core, core->options.self) || core->now_ms < coordination->hand_over_ms || experiment == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < core->members->election_member_count; i++) {
        const struct election_member *member = &core->members->election_members[i];
        if (!node_id_equal(member->node, core->options.self) && core_node_accepts(core, member->node) &&
            core_node_reads(core, member->node, experiment) && core->now_ms - member->up_since_ms >= ELECTION_UP_MS) {
            return true;
        }
    }
    return false;
}

static void hand_over(struct node_core *core, struct core_coordination *coordination)
{
    gangs_drop(core, coordination);
    elastic_drop(core, coordination);
    put_claim(core, coordination, coordination->election.highest.term, true);
    observe(core, coordination, coordination->election.highest, true);
}

/* ---- one experiment ---------------------------------------------------------------------------------------------- */

/* Judges the attempts, and renews the leases of living attempts when renewal is due. One step has too few effects for very many
 * attempts: the next steps go on with the renewals from renew_from. True: every attempt was looked at. */
static bool look_after(struct node_core *core, struct core_coordination *coordination, struct view_experiment *experiment)
{
    bool renews = core->now_ms >= coordination->renew_ms;
    uint32_t left_off = UINT32_MAX; /* the first trial without room in the step */
    for (uint32_t i = view_next_unsettled(experiment, 0); i < experiment->trial_slots; i = view_next_unsettled(experiment, i + 1)) {
        const struct view_trial *trial = experiment->trials[i];
        for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
            if (!a->assigned || !core_has_room(core, 256, 1u << 18)) {
                left_off = a->assigned && i < left_off ? i : left_off;
                continue;
            }
            if (a->verdicts != NULL) {
                core_quarantine_judge(core, experiment, trial, a);
                continue;
            }
            if (attempts_judge(core, coordination, experiment, trial, a) && renews && i >= coordination->renew_from) {
                attempts_renew(core, coordination, a);
            }
        }
    }
    if (renews && left_off == UINT32_MAX) {
        coordination->renew_ms = core->now_ms + CORE_RENEW_MS;
        coordination->renew_from = 0;
    } else if (renews && left_off > coordination->renew_from) {
        coordination->renew_from = left_off;
    }
    return left_off == UINT32_MAX;
}

static void lead(struct node_core *core, struct core_coordination *coordination, struct view_experiment *experiment)
{
    uint64_t passed_ms = core->now_ms - coordination->led_ms;
    coordination->led_ms = core->now_ms;
    coordination->pass++;
    search_follow(core, coordination, experiment); /* first: an experiment that is over is judged no more */
    bool has_seen_all = look_after(core, coordination, experiment);
    gangs_tick(core, coordination, experiment);
    if (wants_to_hand_over(core, coordination)) {
        if (coordination->gangs == NULL && leads(coordination)) { /* gangs on their way come first */
            TRACE_EVENT(&core->options.trace, event_of_experiment(EVENT_EXPERIMENT_HANDED_OVER, coordination->experiment),
                        "hands %s over: this node is drained", coordinator_name(experiment));
            coordination->hand_over_ms = core->now_ms + CORE_HAND_OVER_MS;
            hand_over(core, coordination);
        }
        return;
    }
    if (view_experiment_cancelled(experiment) || view_experiment_paused(experiment)) {
        watch_forget_waits(coordination);
        return;
    }
    if (coordinator_waits(core, experiment)) {
        return;
    }
    if (coordinator_minority_pauses(core, experiment)) {
        watch_hold_waits(coordination, passed_ms);
        return;
    }
    for (uint32_t i = 0; i < 16 && leads(coordination) && core_has_room(core, 256, 1u << 18); i++) {
        if (!placing_refill_one(core, coordination, experiment) && !placing_start_one(core, coordination, experiment) &&
            !placing_claim_overdue(core, coordination, experiment) &&
            !placing_grow_one(core, coordination, experiment)) {
            break;
        }
    }
    if (has_seen_all) {
        watch_forget_unseen(core, coordination);
    }
}

void core_coordinator_experiment(struct node_core *core, struct view_experiment *experiment)
{
    if (core->is_out) {
        return;
    }
    view_trials_settle(experiment);
    if (!view_experiment_live(experiment)) {
        struct core_coordination *coordination = core_find_coordination(core, experiment->id);
        if (coordination != NULL && !coordination->settled) {
            coordination->settled = true;
            gangs_drop(core, coordination);
            elastic_drop(core, coordination);
            pending_forget_ranks(core, coordination);
        }
        if (coordination != NULL) {
            custom_leave(core, coordination);
        }
        return;
    }
    struct core_coordination *coordination = coordination_row(core, experiment->id);
    if (coordination == NULL) {
        return;
    }
    coordination->settled = false;
    elect(core, coordination, experiment);
    if (leads(coordination)) {
        lead(core, coordination, experiment);
        watch_check_all(core, coordination);
    } else {
        custom_leave(core, coordination);
    }
}

/* Experiments that are over need no coordinator. Housekeeping goes on where the step has no room. */
void core_coordinator_leave(struct node_core *core)
{
    struct core_coordination *c = core->coordinator->coordinations;
    for (; c != NULL && core_has_room(core, 512, 1u << 20); c = c->next) {
        if (leads(c) && !c->settled) {
            hand_over(core, c);
        }
    }
}

/* Settle (roof/step.c) looks at the experiments in this step. */
static void look_again(struct node_core *core, bool only_led)
{
    for (struct core_coordination *c = core->coordinator->coordinations; c != NULL; c = c->next) {
        bool is_wanted = !c->settled && (!only_led || leads(c));
        struct view_experiment *experiment = is_wanted ? view_find_experiment(&core->view, c->experiment) : NULL;
        if (experiment != NULL) {
            experiment->changed = true;
        }
    }
}

void core_coordinator_housekeep(struct node_core *core)
{
    if (core->leaving) {
        core_coordinator_leave(core);
    }
    look_again(core, false);
}

void core_coordinator_slot_freed(struct node_core *core)
{
    look_again(core, true);
}

void core_coordinator_forget(struct node_core *core, experiment_id experiment)
{
    struct core_coordination *coordination = core_find_coordination(core, experiment);
    if (coordination == NULL) {
        return;
    }
    custom_leave(core, coordination);
    gangs_drop(core, coordination);
    elastic_drop(core, coordination);
    pending_forget_ranks(core, coordination);
    coordination->pass++; /* so that no watch counts as seen */
    watch_forget_unseen(core, coordination);
    arena_give(&core->arena, coordination->watches, coordination->watch_slots * sizeof *coordination->watches);
    struct core_coordination **link = &core->coordinator->coordinations;
    while (*link != coordination) {
        link = &(*link)->next;
    }
    *link = coordination->next;
    arena_give(&core->arena, coordination, sizeof *coordination);
}

void core_coordinator_out(struct node_core *core)
{
    for (struct core_coordination *c = core->coordinator->coordinations; c != NULL; c = c->next) {
        gangs_forget(core, c);
        elastic_drop(core, c);
        c->claiming = false;
        election_init(&c->election);
    }
}
