/* One experiment's coordinator (DESIGN 7, 8). It holds nothing that its records do not say: gangs on their way and what
 * it has noticed since when are volatile, and a successor notices them again. */

#include "base/check.h"
#include "base/err.h"
#include "base/probe.h"
#include "base/rendezvous.h"
#include "node/core/state.h"

struct core_coordination *core_find_coordination(const struct node_core *core, experiment_id experiment)
{
    for (struct core_coordination *c = core->coordinations; c != NULL; c = c->next) {
        if (experiment_id_equal(c->experiment, experiment)) {
            return c;
        }
    }
    return NULL;
}

static struct core_coordination *coordination_row(struct node_core *core, experiment_id experiment)
{
    struct core_coordination **link = &core->coordinations;
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

static const char *name_of(const struct view_experiment *experiment)
{
    return experiment != NULL && experiment->known ? experiment->config->name : "?";
}

/* To an owner, who may be this node itself. */
static void ask_owner(struct node_core *core, node_id owner, const struct message *message)
{
    if (node_id_equal(owner, core->options.self)) {
        core_owner_receive(core, owner, message);
    } else if (core_has_room(core, 64, 0)) {
        core_send(core, owner, message);
    }
}

/* ---- elections ---------------------------------------------------------------------------------------------------------- */

static void drop_gangs(struct node_core *core, struct core_coordination *coordination);

static void yield(struct node_core *core, struct core_coordination *coordination)
{
    TRACE(&core->options.trace, "another node coordinates now with term %llu",
          (unsigned long long)coordination->election.highest.term);
    coordination->claiming = false;
    drop_gangs(core, coordination);
}

static void observe(struct node_core *core, struct core_coordination *coordination, struct election_claim claim,
                    bool released)
{
    enum election_action action = ELECTION_NOTHING;
    if (election_observe(&coordination->election, claim, released, core->options.self, &action) == 0 &&
        action == ELECTION_YIELD) {
        yield(core, coordination);
    }
}

static void put_claim(struct node_core *core, struct core_coordination *coordination, uint64_t term, bool released)
{
    struct fact_claim fact = {.term = term, .released = released};
    uint8_t bytes[32];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_claim_pack(&writer, &fact);
    struct core_pending *pending =
        core_put(core, FACT_CLAIM, fact_key_experiment(coordination->experiment), &writer);
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
    if (coordination == NULL || row == NULL || !coordination->claiming) {
        return;
    }
    coordination->claiming = false;
    if (election_claim_compare(coordination->election.highest, claim) > 0) {
        MARK(claim_overtaken_on_its_way);
        return; /* overtaken on the way to the disk */
    }
    election_led(&coordination->election, claim);
    TRACE(&core->options.trace, "coordinates %s with term %llu", name_of(row),
          (unsigned long long)term);
    coordination->renew_ms = core->now_ms;
    row->changed = true;
}

static void elect(struct node_core *core, struct core_coordination *coordination,
                  const struct view_experiment *experiment)
{
    for (const struct view_claim *claim = experiment->claims; claim != NULL; claim = claim->next) {
        observe(core, coordination, (struct election_claim){claim->fact.term, claim->writer}, claim->fact.released);
    }
    /* What this owner has obeyed counts too: its record may never have come, or have been lost with a disk. */
    struct election_claim fence = core_fence_get(core, experiment->id);
    if (!node_id_is_none(fence.node) && election_claim_compare(fence, coordination->election.highest) > 0) {
        MARK(fence_ahead_of_claims);
        observe(core, coordination, fence, false);
    }
    if (core->syncing || core->leaving || core->is_out || coordination->claiming) {
        return;
    }
    enum election_action action =
        election_step(&coordination->election, core->now_ms, core->options.self, coordination->experiment,
                      core->election_members, core->election_member_count);
    if (action == ELECTION_CLAIM) {
        put_claim(core, coordination, election_next_term(&coordination->election), false);
    } else if (action == ELECTION_ASK) {
        struct message message = {.kind = MESSAGE_INCUMBENT_ASK};
        message.u.incumbent.about = coordination->election.highest.node;
        for (uint32_t i = 0; i < core->peer_count && core_has_room(core, 64, 0); i++) {
            if (core_node_alive(core, core->peers[i]->id)) {
                core_send(core, core->peers[i]->id, &message);
            }
        }
    }
}

static void answer_ask(struct node_core *core, node_id from, const struct message *asked)
{
    struct message message = {.kind = MESSAGE_INCUMBENT_ANSWER};
    message.u.incumbent.about = asked->u.incumbent.about;
    message.u.incumbent.hears = swim_state_of(&core->swim, asked->u.incumbent.about) == SWIM_ALIVE ||
                                node_id_equal(asked->u.incumbent.about, core->options.self);
    core_send(core, from, &message);
}

static bool leads(const struct core_coordination *coordination)
{
    return coordination->election.state == ELECTION_LEADING;
}

/* ---- attempts that live --------------------------------------------------------------------------------------------------- */

static struct core_watch *watch_row(struct node_core *core, struct core_coordination *coordination,
                                    const attempt_id *attempt)
{
    for (struct core_watch *watch = coordination->watches; watch != NULL; watch = watch->next) {
        if (attempt_id_equal(&watch->attempt, attempt)) {
            return watch;
        }
    }
    struct core_watch *watch = arena_take(&core->arena, sizeof *watch);
    if (watch != NULL) {
        watch->attempt = *attempt;
        watch->next = coordination->watches;
        coordination->watches = watch;
    }
    return watch;
}

static void drop_watches(struct node_core *core, struct core_coordination *coordination)
{
    struct core_watch **link = &coordination->watches;
    while (*link != NULL) {
        struct core_watch *watch = *link;
        if (watch->seen_pass != coordination->pass) {
            *link = watch->next;
            arena_give(&core->arena, watch, sizeof *watch);
        } else {
            link = &watch->next;
        }
    }
}

static void put_verdict(struct node_core *core, const struct view_attempt *attempt, enum fact_reason reason,
                        const char *why)
{
    struct fact_verdict fact = {.reason = reason, .step = attempt->start_step};
    bytes_copy_text(fact.why, sizeof fact.why, why);
    const struct view_worker *first = view_attempt_worker(attempt, 0);
    const struct records_entry *entry = first != NULL ? records_find(&core->records, first->ident) : NULL;
    struct fact_worker worker;
    if (entry != NULL && fact_worker_read(&entry->record, &worker) == 0) {
        fact.step = worker.step;
        fact.metrics = worker.metrics;
        fact.metrics_bytes = worker.metrics_bytes;
        fact.duration_s = worker.started_s > 0 && core->wall_s > worker.started_s ? core->wall_s - worker.started_s : 0;
    }
    uint8_t bytes[FACT_METRICS_BYTES_MAX + 256];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_verdict_pack(&writer, &fact);
    (void)core_put(core, FACT_VERDICT, fact_key_verdict(&attempt->id), &writer);
    TRACE(&core->options.trace, "%s trial %u attempt %u: %s, %s",
          name_of(view_find_experiment(&core->view, attempt->id.experiment)), attempt->id.trial, attempt->id.number,
          fact_reason_name(reason), why);
    const struct view_experiment *experiment = view_find_experiment(&core->view, attempt->id.experiment);
    if (reason == FACT_FAILED && experiment != NULL && experiment->known) {
        core_quarantine_told(core, experiment, attempt->id.trial);
    }
}

/* 2 x the median duration of the experiment's completed trials, in ms; at least CORE_PATIENCE_MS (DESIGN 7). */
static uint64_t patience_ms(const struct node_core *core, const struct view_experiment *experiment)
{
    uint64_t durations[64];
    uint32_t count = 0;
    for (uint32_t i = 0; i < experiment->trial_slots && count < 64; i++) {
        const struct view_attempt *done =
            experiment->trials[i] != NULL ? view_trial_completed(experiment->trials[i]) : NULL;
        const struct records_entry *entry =
            done != NULL ? records_find(&core->records, view_attempt_verdict(done)->ident) : NULL;
        struct fact_verdict fact;
        if (entry == NULL || fact_verdict_read(&entry->record, &fact) != 0) {
            continue;
        }
        uint32_t at = count++;
        for (; at > 0 && durations[at - 1] > fact.duration_s; at--) {
            durations[at] = durations[at - 1];
        }
        durations[at] = fact.duration_s;
    }
    uint64_t median_ms = count > 0 ? durations[count / 2] * 1000 : 0;
    return median_ms * 2 > CORE_PATIENCE_MS ? median_ms * 2 : CORE_PATIENCE_MS;
}

/* What the coordinator sees of the members of one attempt. */
struct attempt_sight {
    uint32_t completed, failed, stopped, lost; /* by their owners' word */
    uint32_t away;                             /* not ended, and their node is lost (DESIGN 6) */
    uint32_t unsure;                           /* not ended, and their node does not answer, or may not */
    uint32_t overdue;                          /* ... of these: for longer than patience lasts */
    uint32_t idle;                             /* not ended, but the slot is not leased to it (yet, or any more) */
    bool heard_since_failure;                  /* every other member's node has spoken since */
};

static bool is_out(const struct node_core *core, node_id node)
{
    const struct view_member *member = view_find_member(&core->view, node);
    return member != NULL && view_member_is_out(member);
}

static bool any_is_out(const struct node_core *core, const struct view_attempt *attempt)
{
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        if (is_out(core, attempt->members[rank].node)) {
            return true;
        }
    }
    return false;
}

static struct attempt_sight look(struct node_core *core, const struct view_experiment *experiment,
                                 const struct view_attempt *attempt, const struct core_watch *watch)
{
    struct attempt_sight sight = {.heard_since_failure = true};
    uint64_t patience = 0;
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        const struct fact_assignment *member = &attempt->members[rank];
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        if (worker != NULL && worker->state == FACT_WORKER_ENDED) {
            sight.completed += worker->reason == FACT_COMPLETED;
            sight.failed += worker->reason == FACT_FAILED;
            sight.stopped += worker->reason == FACT_STOPPED;
            sight.lost += worker->reason == FACT_LOST;
            continue;
        }
        bool is_self = node_id_equal(member->node, core->options.self);
        if (!is_self && swim_state_of(&core->swim, member->node) != SWIM_ALIVE) {
            bool is_suspect = swim_state_of(&core->swim, member->node) == SWIM_SUSPECT;
            if (core_node_lost(core, member->node, UINT64_MAX) ||
                (is_suspect && BUG(lost_while_suspect, "a node that is only suspect has lost nothing yet"))) {
                sight.away++;
            } else {
                patience = patience == 0 ? patience_ms(core, experiment) : patience;
                sight.unsure++;
                sight.overdue += core_node_lost(core, member->node, patience);
            }
            continue;
        }
        const struct view_member *node = view_find_member(&core->view, member->node);
        const struct view_slot *slot = node != NULL ? view_member_slot(node, member->slot) : NULL;
        bool is_leased = slot != NULL && slot->state == LEASE_LEASED && attempt_id_equal(&slot->attempt, &attempt->id);
        const struct core_peer *peer = is_self ? NULL : core_find_peer(core, member->node);
        if (peer != NULL && worker != NULL && peer->boot > worker->boot) {
            MARK(restarted_owner_awaited);
            sight.unsure++; /* it was restarted and has not said yet what became of its workers; */
            sight.idle += !is_leased; /* ... on an old disk it never will */
            continue;
        }
        if (!is_self && watch->failed_ms != 0 && swim_heard_ms(&core->swim, member->node) <= watch->failed_ms) {
            sight.heard_since_failure = false;
        }
        sight.idle += !is_leased;
    }
    return sight;
}

static bool has_gang(const struct core_coordination *coordination, const attempt_id *attempt)
{
    for (const struct core_gang *gang = coordination->gangs; gang != NULL; gang = gang->next) {
        if (attempt_id_equal(&gang->attempt, attempt)) {
            return true;
        }
    }
    return false;
}

static void backoff(struct node_core *core, node_id node, uint32_t slot)
{
    struct core_backoff *oldest = &core->backoffs[0];
    for (uint32_t i = 0; i < CORE_BACKOFFS_MAX; i++) {
        oldest = core->backoffs[i].until_ms < oldest->until_ms ? &core->backoffs[i] : oldest;
    }
    *oldest = (struct core_backoff){node, slot, core->now_ms + CORE_SLOT_BACKOFF_MS};
}

/* The slots that lost their worker are asked last for a moment, so that the next try goes elsewhere if it can. */
static void avoid_losers(struct node_core *core, const struct view_attempt *attempt)
{
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        if (worker != NULL && worker->state == FACT_WORKER_ENDED && worker->reason == FACT_LOST) {
            backoff(core, attempt->members[rank].node, attempt->members[rank].slot);
        }
    }
}

/* When one rank was asked to stop, the owners of the others ask theirs, too, and see that they have gone by then. */
static uint64_t stop_ms(const struct view_experiment *experiment)
{
    return (uint64_t)experiment->config->preemption_timeout_s * 1000 + CORE_IDLE_MS;
}

/* Ends the attempt if it is over. True while it lives. */
static bool judge(struct node_core *core, struct core_coordination *coordination,
                  const struct view_experiment *experiment, const struct view_trial *trial,
                  const struct view_attempt *attempt)
{
    struct core_watch *watch = watch_row(core, coordination, &attempt->id);
    if (watch == NULL) {
        return true;
    }
    watch->seen_pass = coordination->pass;
    struct attempt_sight sight = look(core, experiment, attempt, watch);
    uint32_t ended = sight.completed + sight.failed + sight.stopped + sight.lost;
    if (sight.failed > 0 && watch->failed_ms == 0) {
        watch->failed_ms = core->now_ms;
        sight.heard_since_failure = false;
    }
    watch->stopped_ms = sight.stopped > 0 && watch->stopped_ms == 0 ? core->now_ms : watch->stopped_ms;
    watch->idle_ms = sight.idle == 0 || has_gang(coordination, &attempt->id) ? 0
                     : watch->idle_ms == 0                                   ? core->now_ms
                                                                             : watch->idle_ms;
    bool is_idle = watch->idle_ms != 0 && core->now_ms - watch->idle_ms >= CORE_IDLE_MS;
    if (sight.completed == attempt->member_count) {
        put_verdict(core, attempt, FACT_COMPLETED, "every rank is done");
    } else if (view_trial_completed(trial) != NULL) {
        MARK(duplicate_stopped);
        put_verdict(core, attempt, FACT_STOPPED, "another attempt has completed the trial");
    } else if (view_experiment_cancelled(experiment) && ended + sight.away + sight.unsure == attempt->member_count) {
        put_verdict(core, attempt, FACT_STOPPED, "the experiment is cancelled");
    } else if (sight.away > 0) {
        put_verdict(core, attempt, FACT_LOST, any_is_out(core, attempt) ? "a node was evicted" : "a node died");
    } else if (sight.overdue > 0 && sight.unsure < attempt->member_count - ended) {
        put_verdict(core, attempt, FACT_LOST, "a node has not answered for a long time, and others wait for it");
    } else if (sight.lost > 0) {
        avoid_losers(core, attempt);
        put_verdict(core, attempt, FACT_LOST, "a worker was lost");
    } else if (sight.failed > 0 && sight.stopped > 0) {
        MARK(stop_missed_by_one);
        put_verdict(core, attempt, FACT_STOPPED, "a worker was asked to stop, and another missed it");
    } else if (sight.failed > 0 && sight.unsure == 0 &&
               (sight.heard_since_failure || ended == attempt->member_count ||
                core->now_ms - watch->failed_ms >= CORE_FAILURE_SETTLE_MS)) {
        put_verdict(core, attempt, FACT_FAILED, "a worker failed");
    } else if (sight.stopped > 0 && sight.failed == 0 && ended == attempt->member_count) {
        put_verdict(core, attempt, FACT_STOPPED, "asked to stop");
    } else if (sight.stopped > 0 && !view_experiment_paused(experiment) && ended < attempt->member_count &&
               core->now_ms - watch->stopped_ms >= stop_ms(experiment) && sight.unsure == 0) {
        put_verdict(core, attempt, FACT_STOPPED, "a worker was asked to stop");
    } else if (is_idle) {
        MARK(idle_attempt_judged);
        put_verdict(core, attempt, FACT_LOST, "a slot is not leased to it");
    } else if (view_trial_highest(trial) != attempt) {
        MARK(lower_attempt_judged);
        put_verdict(core, attempt, FACT_LOST, "a higher attempt exists");
    } else {
        return true;
    }
    return false;
}

static void renew(struct node_core *core, const struct core_coordination *coordination,
                  const struct view_attempt *attempt)
{
    if (BUG(lease_not_renewed, "the coordinator renews the leases of what runs")) {
        return;
    }
    struct message message = {.kind = MESSAGE_RENEW};
    message.u.lease.attempt = attempt->id;
    /* Leases are renewed by whichever coordinator the owner obeys; the attempt keeps its own name. */
    message.u.lease.claim = coordination->election.highest;
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        bool asked = rank > 0 && node_id_equal(attempt->members[rank].node, attempt->members[rank - 1].node);
        if (!asked) {
            ask_owner(core, attempt->members[rank].node, &message);
        }
    }
}

/* ---- partitions -------------------------------------------------------------------------------------------------------------- */

static bool has_left(const struct node_core *core, node_id node)
{
    const struct view_member *member = view_find_member(&core->view, node);
    return member != NULL && member->left;
}

/* True on the side of a partition that starts nothing new: with less than half of the roster, at half without its lowest
 * id. What runs there goes on. */
static bool minority_pauses(const struct node_core *core, const struct view_experiment *experiment)
{
    if (experiment->config->on_partition != CONFIG_PARTITION_PAUSE_MINORITY ||
        BUG(minority_starts, "with pause_minority the smaller side starts nothing")) {
        return false;
    }
    uint32_t alive = 0, total = 0;
    bool has_lowest = false;
    for (uint32_t i = 0; i < core->election_member_count; i++) {
        if (has_left(core, core->election_members[i].node)) {
            continue;
        }
        has_lowest |= total == 0 && core->election_members[i].alive;
        total++;
        alive += core->election_members[i].alive;
    }
    return alive * 2 < total || (alive * 2 == total && !has_lowest);
}

/* ---- gangs ------------------------------------------------------------------------------------------------------------------ */

static void lease_message(const struct core_gang *gang, uint32_t rank, enum message_kind kind, struct message *out)
{
    memset(out, 0, sizeof *out);
    out->kind = kind;
    out->u.lease.attempt = gang->attempt;
    out->u.lease.slot = gang->members[rank].slot;
    out->u.lease.rank = rank;
    out->u.lease.claim = (struct election_claim){gang->attempt.term, gang->attempt.coordinator};
}

static struct core_gang *find_gang(struct core_coordination *coordination, const attempt_id *attempt)
{
    struct core_gang *gang = coordination != NULL ? coordination->gangs : NULL;
    while (gang != NULL && !attempt_id_equal(&gang->attempt, attempt)) {
        gang = gang->next;
    }
    return gang;
}

static void gang_release(struct node_core *core, const struct core_gang *gang)
{
    if (BUG(gang_keeps, "a gang that gives up returns what it has reserved")) {
        return;
    }
    struct message message;
    for (uint32_t rank = 0; rank < gang->member_count; rank++) {
        bool asked = rank > 0 && node_id_equal(gang->members[rank].node, gang->members[rank - 1].node);
        if (!asked) {
            lease_message(gang, rank, MESSAGE_RELEASE, &message);
            ask_owner(core, gang->members[rank].node, &message);
        }
    }
}

static void gang_unlink(struct core_coordination *coordination, struct core_gang *gang)
{
    struct core_gang **link = &coordination->gangs;
    while (*link != gang) {
        link = &(*link)->next;
    }
    *link = gang->next;
}

/* Gives up: what was reserved is returned; what is recorded gets its verdict. Out of the list first: this node may be an
 * owner itself, whose refusal can make us yield, which drops all gangs. */
static void gang_abort(struct node_core *core, struct core_coordination *coordination, struct core_gang *gang,
                       const char *why)
{
    MARK(gang_gives_up);
    gang_unlink(coordination, gang);
    const struct view_attempt *attempt = view_find_attempt(&core->view, &gang->attempt);
    if (attempt != NULL && attempt->assigned && view_attempt_verdict(attempt) == NULL) {
        put_verdict(core, attempt, FACT_LOST, why);
    }
    gang_release(core, gang);
    arena_give(&core->arena, gang, sizeof *gang);
}

static void drop_gangs(struct node_core *core, struct core_coordination *coordination)
{
    while (coordination->gangs != NULL) {
        gang_abort(core, coordination, coordination->gangs, "its coordinator gave way before the group was complete");
    }
}

/* Older first: by submission, then id (leases compare the id themselves). */
static uint64_t age_of(const struct view_experiment *experiment)
{
    return experiment->submitted_s;
}

static void gang_reserve_next(struct node_core *core, const struct view_experiment *experiment, struct core_gang *gang)
{
    struct message message;
    lease_message(gang, gang->reserved_count, MESSAGE_RESERVE, &message);
    message.u.lease.priority = experiment->config->priority;
    message.u.lease.age = age_of(experiment);
    gang->resend_ms = core->now_ms + CORE_RESEND_MS;
    ask_owner(core, gang->members[gang->reserved_count].node, &message);
}

/* All slots are ours for a moment: record the attempt, then confirm. Ranks follow the slots' order. */
static void gang_record(struct node_core *core, const struct view_experiment *experiment, struct core_gang *gang)
{
    struct fact_attempt fact = {.member_count = gang->member_count};
    memcpy(fact.members, gang->members, gang->member_count * sizeof fact.members[0]);
    const struct view_trial *trial = view_find_trial(experiment, gang->attempt.trial);
    const struct view_manifest *newest = trial != NULL ? core_replicas_newest(core, trial) : NULL;
    if (newest == NULL && gang->attempt.trial > 0 && view_find_trial(experiment, 0) != NULL &&
        BUG(lineages_mixed, "a trial starts from its own checkpoints")) {
        newest = core_replicas_newest(core, view_find_trial(experiment, 0));
    }
    if (newest != NULL) {
        MARK(resumed_from_checkpoint);
        fact.start_step = newest->step;
        fact.checkpoint = newest->blob;
        fact.checkpoint_bytes = newest->bytes;
    }
    const struct view_manifest *oldest = newest;
    while (oldest != NULL && oldest->next != NULL &&
           BUG(stale_start_step, "a further attempt starts from the newest checkpoint that can be reached")) {
        oldest = oldest->next;
        fact.start_step = oldest->step;
        fact.checkpoint = oldest->blob;
    }
    if (newest != NULL && BUG(start_step_invented, "an attempt starts at the step of its checkpoint")) {
        fact.start_step++;
    }
    uint8_t bytes[FACT_MEMBERS_MAX * 32 + 128];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_attempt_pack(&writer, &fact);
    gang->state = CORE_GANG_RECORDING;
    gang->until_ms = core->now_ms + CORE_GANG_RESERVE_MS;
    struct core_pending *pending = core_put(core, FACT_ATTEMPT, fact_key_attempt(&gang->attempt), &writer);
    if (pending != NULL) {
        pending->action = CORE_ACTION_ASSIGNED;
        pending->attempt = gang->attempt;
    }
    char where[160] = "";
    for (uint32_t i = 0; i < gang->member_count; i++) {
        const struct view_member *member = view_find_member(&core->view, gang->members[i].node);
        size_t used = strlen(where);
        format_text(where + used, sizeof where - used, " %s/%u", member != NULL ? member->name : "?",
                    gang->members[i].slot);
    }
    TRACE(&core->options.trace, "%s trial %u attempt %u from step %llu on%s", name_of(experiment), gang->attempt.trial,
          gang->attempt.number, (unsigned long long)fact.start_step, where);
}

/* This node may be an owner itself and answer before ask_owner returns, which can complete the gang or give it up: hence
 * the copy, and the look whether it is still there. */
static void gang_confirm(struct node_core *core, struct core_coordination *coordination, struct core_gang *gang)
{
    gang->resend_ms = core->now_ms + CORE_RESEND_MS;
    const struct core_gang asked = *gang;
    struct message message;
    for (uint32_t rank = 0; rank < asked.member_count && find_gang(coordination, &asked.attempt) != NULL; rank++) {
        if (!asked.confirmed[rank]) {
            lease_message(&asked, rank, MESSAGE_CONFIRM, &message);
            memcpy(message.u.lease.group_key, asked.group_key, sizeof message.u.lease.group_key);
            ask_owner(core, asked.members[rank].node, &message);
        }
    }
}

void core_coordinator_assigned(struct node_core *core, const attempt_id *attempt)
{
    struct core_coordination *coordination = core_find_coordination(core, attempt->experiment);
    struct core_gang *gang = find_gang(coordination, attempt);
    if (gang != NULL && gang->state == CORE_GANG_RECORDING) {
        gang->state = CORE_GANG_CONFIRMING;
        gang->until_ms = core->now_ms + CORE_GANG_CONFIRM_MS;
        gang_confirm(core, coordination, gang);
    }
}

/* While slots were being asked for, another coordinator's work may have become known, or a user's word. */
static bool gang_is_wanted(const struct node_core *core, const struct view_experiment *experiment,
                           const struct core_gang *gang)
{
    const struct view_trial *trial = view_find_trial(experiment, gang->attempt.trial);
    if (BUG(gang_never_unwanted, "a gang gives up when its trial is done or its experiment cancelled")) {
        return true;
    }
    if (view_experiment_cancelled(experiment) || view_experiment_paused(experiment) ||
        (gang->state == CORE_GANG_RESERVING && minority_pauses(core, experiment)) ||
        (trial != NULL && view_trial_completed(trial) != NULL)) {
        return false;
    }
    for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
        bool is_own = attempt_id_equal(&a->id, &gang->attempt);
        if ((is_own && a->verdicts != NULL) || (!is_own && a->assigned && a->verdicts == NULL)) {
            return false;
        }
    }
    return true;
}

static void on_reserve_answer(struct node_core *core, struct core_coordination *coordination, struct core_gang *gang,
                              node_id from, const struct message *message)
{
    const struct fact_assignment *asked = &gang->members[gang->reserved_count];
    if (gang->state != CORE_GANG_RESERVING || !node_id_equal(asked->node, from) || asked->slot != message->u.lease.slot) {
        return;
    }
    if (message->u.lease.code != 0) {
        backoff(core, asked->node, asked->slot);
        gang_abort(core, coordination, gang, "a slot was refused");
        return;
    }
    const struct view_experiment *experiment = view_find_experiment(&core->view, coordination->experiment);
    if (!gang_is_wanted(core, experiment, gang)) {
        MARK(gang_not_wanted_any_more);
        gang_abort(core, coordination, gang, "it is not wanted any more");
        return;
    }
    if (++gang->reserved_count == gang->member_count) {
        gang_record(core, experiment, gang);
    } else {
        gang_reserve_next(core, experiment, gang);
    }
}

static void on_confirm_answer(struct node_core *core, struct core_coordination *coordination, struct core_gang *gang,
                              node_id from, const struct message *message)
{
    uint32_t rank = message->u.lease.rank;
    if (gang->state != CORE_GANG_CONFIRMING || rank >= gang->member_count ||
        !node_id_equal(gang->members[rank].node, from) || gang->members[rank].slot != message->u.lease.slot) {
        return;
    }
    if (message->u.lease.code != 0) {
        backoff(core, from, message->u.lease.slot);
        gang_abort(core, coordination, gang, "a slot was not confirmed");
        return;
    }
    gang->confirmed[rank] = true;
    for (uint32_t i = 0; i < gang->member_count; i++) {
        if (!gang->confirmed[i]) {
            return;
        }
    }
    gang_unlink(coordination, gang); /* complete: from here on the records speak */
    arena_give(&core->arena, gang, sizeof *gang);
}

void core_coordinator_receive(struct node_core *core, node_id from, const struct message *message)
{
    if (message->kind == MESSAGE_INCUMBENT_ASK) {
        answer_ask(core, from, message);
        return;
    }
    if (message->kind == MESSAGE_INCUMBENT_ANSWER) {
        for (struct core_coordination *c = core->coordinations; c != NULL; c = c->next) {
            if (node_id_equal(c->election.highest.node, message->u.incumbent.about)) {
                election_answer(&c->election, core->now_ms, message->u.incumbent.hears);
            }
        }
        return;
    }
    struct core_coordination *coordination = core_find_coordination(core, message->u.lease.attempt.experiment);
    if (coordination == NULL) {
        return;
    }
    if (message->kind == MESSAGE_STALE) {
        observe(core, coordination, message->u.lease.claim, false);
        return;
    }
    struct core_gang *gang = find_gang(coordination, &message->u.lease.attempt);
    if (gang != NULL && message->kind == MESSAGE_RESERVE_ANSWER) {
        on_reserve_answer(core, coordination, gang, from, message);
    } else if (gang != NULL && message->kind == MESSAGE_CONFIRM_ANSWER) {
        on_confirm_answer(core, coordination, gang, from, message);
    }
}

/* True if something was done: gangs may have come to their end meanwhile, so the caller starts over. Each is looked at
 * once a tick, since what is done moves its next time. */
static bool gangs_step(struct node_core *core, struct core_coordination *coordination,
                       const struct view_experiment *experiment)
{
    for (struct core_gang *gang = coordination->gangs; gang != NULL; gang = gang->next) {
        bool unreachable = false;
        for (uint32_t i = 0; i < gang->member_count; i++) {
            unreachable |= !core_node_alive(core, gang->members[i].node);
        }
        if (unreachable && gang->state == CORE_GANG_CONFIRMING) {
            MARK(gang_loses_sight);
            /* Its workers may have begun over there: no verdict now, judge() knows when one may be given. */
            gang_unlink(coordination, gang);
            arena_give(&core->arena, gang, sizeof *gang);
            return true;
        }
        if (core->now_ms >= gang->until_ms || unreachable || !gang_is_wanted(core, experiment, gang)) {
            gang_abort(core, coordination, gang, "its group did not become complete");
            return true;
        }
        if (core->now_ms >= gang->resend_ms && gang->state == CORE_GANG_RESERVING) {
            gang_reserve_next(core, experiment, gang);
            return true;
        }
        if (core->now_ms >= gang->resend_ms && gang->state == CORE_GANG_CONFIRMING) {
            gang_confirm(core, coordination, gang);
            return true;
        }
    }
    return false;
}

static void gangs_tick(struct node_core *core, struct core_coordination *coordination,
                       const struct view_experiment *experiment)
{
    while (core_has_room(core, 256, 1u << 18) && gangs_step(core, coordination, experiment)) {
    }
}

/* ---- choosing ------------------------------------------------------------------------------------------------------------------ */

struct choice {
    node_id node;
    uint32_t free_count;
    uint8_t slots[FACT_SLOTS_MAX];
    bool has_copy;
    bool has_suspect; /* a trial that has lost a host before, as this one has: two of them are better kept apart */
};

/* Nodes in quarantine, and those on which the trial failed, are left out as long as the others could hold its gang, be they
 * busy now: a node on which everything fails at once is always free. */
enum choice_care { CARE_FOR_ALL, CARE_FOR_FAILURES, CARE_FOR_NOTHING };

#define CHOICES_MAX 256

static bool is_backed_off(const struct node_core *core, node_id node, uint32_t slot)
{
    for (uint32_t i = 0; i < CORE_BACKOFFS_MAX; i++) {
        const struct core_backoff *b = &core->backoffs[i];
        if (b->until_ms > core->now_ms && b->slot == slot && node_id_equal(b->node, node)) {
            return true;
        }
    }
    return false;
}

static bool slot_is_promised(const struct node_core *core, node_id node, uint32_t slot)
{
    for (const struct core_coordination *c = core->coordinations; c != NULL; c = c->next) {
        for (const struct core_gang *gang = c->gangs; gang != NULL; gang = gang->next) {
            for (uint32_t i = 0; i < gang->member_count; i++) {
                if (gang->members[i].slot == slot && node_id_equal(gang->members[i].node, node)) {
                    return true;
                }
            }
        }
    }
    return false;
}

static bool holds_suspect(const struct node_core *core, const struct view_member *member)
{
    for (const struct core_coordination *c = core->coordinations; c != NULL; c = c->next) {
        const struct view_experiment *experiment = c->gangs != NULL ? view_find_experiment(&core->view, c->experiment) : NULL;
        for (const struct core_gang *gang = c->gangs; gang != NULL && experiment != NULL; gang = gang->next) {
            const struct view_trial *trial = view_find_trial(experiment, gang->attempt.trial);
            for (uint32_t i = 0; trial != NULL && i < gang->member_count; i++) {
                if (node_id_equal(gang->members[i].node, member->id) && core_quarantine_is_suspect(trial)) {
                    return true;
                }
            }
        }
    }
    for (uint32_t slot = 0; slot < member->slot_count; slot++) {
        const struct view_attempt *attempt =
            member->slots[slot].state == LEASE_LEASED ? view_find_attempt(&core->view, &member->slots[slot].attempt) : NULL;
        const struct view_experiment *experiment =
            attempt != NULL ? view_find_experiment(&core->view, attempt->id.experiment) : NULL;
        if (experiment != NULL && core_quarantine_is_suspect(view_find_trial(experiment, attempt->id.trial))) {
            return true;
        }
    }
    return false;
}

static bool kind_fits(enum config_slot_kind wanted, enum fact_slot_kind kind)
{
    return wanted == CONFIG_SLOT_ANY || (wanted == CONFIG_SLOT_CUDA) == (kind == FACT_SLOT_CUDA);
}

/* Free slots by node, and how many there would be at best, busy ones counted. */
static uint32_t collect_choices(const struct node_core *core, const struct view_experiment *experiment,
                                const struct view_trial *trial, enum choice_care care, struct choice *choices,
                                uint32_t *at_best)
{
    bool is_suspect = trial != NULL && core_quarantine_is_suspect(trial);
    const struct view_manifest *newest = trial != NULL ? core_replicas_newest(core, trial) : NULL;
    struct view_manifest united = {0};
    if (newest != NULL) {
        (void)core_replicas_unite(core, newest, &united);
    }
    uint32_t count = 0;
    *at_best = 0;
    for (uint32_t i = 0; i < core->view.member_count && count < CHOICES_MAX; i++) {
        const struct view_member *member = core->view.members[i];
        if (!member->has_node || member->slots == NULL || !core_node_accepts(core, member->id)) {
            continue;
        }
        bool is_quarantined = member->quarantine.is_active || core_quarantine_is_false(core, member->id);
        if ((care == CARE_FOR_ALL && is_quarantined) ||
            (care != CARE_FOR_NOTHING && trial != NULL && core_quarantine_avoids(trial, member->id))) {
            continue;
        }
        struct choice *choice = &choices[count];
        *choice = (struct choice){.node = member->id, .has_suspect = is_suspect && holds_suspect(core, member)};
        for (uint32_t slot = 0; slot < member->slot_count; slot++) {
            if (!kind_fits(experiment->config->slot_kind, member->slot_kinds[slot]) ||
                member->slots[slot].state == LEASE_WITHHELD || member->slots[slot].withheld ||
                (member->slots[slot].state == LEASE_FREE && care != CARE_FOR_NOTHING &&
                 is_backed_off(core, member->id, slot))) {
                continue; /* one that refuses, because its disk is full for instance, is nothing to wait for */
            }
            (*at_best)++;
            if (member->slots[slot].state == LEASE_FREE && !slot_is_promised(core, member->id, slot) &&
                !is_backed_off(core, member->id, slot)) {
                choice->slots[choice->free_count++] = (uint8_t)slot;
            }
        }
        for (uint32_t h = 0; h < united.holder_count; h++) {
            choice->has_copy |= node_id_equal(united.holders[h], member->id);
        }
        count += choice->free_count > 0;
    }
    return count;
}

/* One host that has room for all, the tightest fit, with a copy of the checkpoint if possible; else the hosts with most
 * free slots first, so that a group spans as few as possible. Ties: the smaller id. Fills members in slot order. */
static bool choose(struct choice *choices, uint32_t count, uint32_t wanted, struct fact_assignment *members)
{
    uint32_t chosen = 0;
    const struct choice *tightest = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const struct choice *c = &choices[i];
        bool better = tightest == NULL || c->has_suspect < tightest->has_suspect;
        if (tightest != NULL && c->has_suspect == tightest->has_suspect) {
            better = c->has_copy > tightest->has_copy ||
                     (c->has_copy == tightest->has_copy && c->free_count < tightest->free_count);
        }
        if (c->free_count >= wanted && better) {
            tightest = c;
        }
    }
    while (chosen < wanted) {
        struct choice *most = NULL;
        for (uint32_t i = 0; tightest == NULL && i < count; i++) {
            most = choices[i].free_count > 0 && (most == NULL || choices[i].free_count > most->free_count) ? &choices[i]
                                                                                                          : most;
        }
        const struct choice *from = tightest != NULL ? tightest : most;
        if (from == NULL) {
            return false;
        }
        for (uint32_t s = 0; s < from->free_count && chosen < wanted; s++) {
            members[chosen++] = (struct fact_assignment){from->node, from->slots[s]};
        }
        if (most != NULL) {
            most->free_count = 0;
        }
    }
    /* Reservations are asked for in slot order (node, index) everywhere, so that no two gangs wait for each other. */
    for (uint32_t i = 1; i < chosen; i++) {
        struct fact_assignment moving = members[i];
        uint32_t at = i;
        for (; at > 0; at--) {
            int order = node_id_compare(members[at - 1].node, moving.node);
            if (order < 0 || (order == 0 && members[at - 1].slot < moving.slot)) {
                break;
            }
            members[at] = members[at - 1];
        }
        members[at] = moving;
    }
    return true;
}

/* During a partition both sides claim trials in the order of their rendezvous rank over the full roster, so that they
 * first do different work. A side's rank of a trial is how many nodes of the others stand before the first of its own;
 * where that is 0, those come first of which the others' rank is highest. So the order of one side is that of the other
 * side backwards (equal ranks by index, on the other side from the end), and two sides meet only when all is done. */
struct claim_order {
    int32_t rank; /* below 0: ours, and this is minus the others' rank; 0: nobody is away */
    uint32_t index;
};

static bool claimed_before(struct claim_order a, struct claim_order b)
{
    if (a.rank != b.rank) {
        return a.rank < b.rank;
    }
    return a.rank <= 0 ? a.index < b.index : a.index > b.index;
}

static struct claim_order claim_order_of(const struct node_core *core, experiment_id experiment, uint32_t trial)
{
    uint8_t key[EXPERIMENT_ID_BYTES + 4];
    memcpy(key, experiment.bytes, EXPERIMENT_ID_BYTES);
    bytes_put_u32(key + EXPERIMENT_ID_BYTES, trial);
    uint64_t weights[NODE_MEMBERS_MAX];
    uint64_t best[2] = {0, 0}; /* of those away, of ours */
    uint32_t count = core->election_member_count < NODE_MEMBERS_MAX ? core->election_member_count : NODE_MEMBERS_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const struct election_member *member = &core->election_members[i];
        weights[i] = has_left(core, member->node) ? 0 : rendezvous_weight(member->node, key, sizeof key);
        bool is_ours = core_node_trusted(core, member->node);
        best[is_ours] = weights[i] > best[is_ours] ? weights[i] : best[is_ours];
    }
    struct claim_order order = {0, trial};
    for (uint32_t i = 0; i < count; i++) {
        bool is_ours = core_node_trusted(core, core->election_members[i].node);
        order.rank += !is_ours && weights[i] > best[1];
        order.rank -= is_ours && best[0] > 0 && weights[i] > best[0];
    }
    return order;
}

/* A trial that is lost again and again (its code cannot be fetched, its node reboots) waits longer each time, so that the
 * mesh does not spin on it: from the second loss in a row on, 0.5 s, 1 s, ... CORE_LOST_WAIT_MS. */
static bool waits_after_losses(struct node_core *core, struct core_coordination *coordination,
                               const struct view_trial *trial)
{
    uint32_t losses = 0;
    const struct view_attempt *last = NULL;
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        const struct view_verdict *verdict = view_attempt_verdict(a);
        if (verdict != NULL) {
            losses = verdict->reason == FACT_LOST ? losses + 1 : 0;
            last = a;
        }
    }
    if (losses < 2) {
        return false;
    }
    struct core_watch *watch = watch_row(core, coordination, &last->id);
    if (watch == NULL) {
        return false;
    }
    watch->seen_pass = coordination->pass;
    MARK(waits_after_losses);
    watch->ended_ms = watch->ended_ms == 0 ? core->now_ms : watch->ended_ms;
    uint64_t wait_ms = losses < 8 ? (uint64_t)CORE_LOST_FIRST_MS << (losses - 2) : CORE_LOST_WAIT_MS;
    return core->now_ms - watch->ended_ms < wait_ms;
}

static bool trial_is_pending(struct node_core *core, struct core_coordination *coordination,
                             const struct view_experiment *experiment, uint32_t index)
{
    if (view_trial_state(experiment, index) != VIEW_TRIAL_QUEUED) {
        return false;
    }
    const struct view_trial *trial = view_find_trial(experiment, index);
    for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
        if (a->assigned && a->verdicts == NULL) {
            return false; /* a lower attempt still lives: it is judged first */
        }
    }
    if (trial != NULL && (waits_after_losses(core, coordination, trial) || core_quarantine_waits(core, trial))) {
        return false;
    }
    for (const struct core_gang *gang = coordination->gangs; gang != NULL; gang = gang->next) {
        if (gang->attempt.trial == index) {
            return false;
        }
    }
    return true;
}

static bool is_whole(const struct node_core *core)
{
    for (uint32_t i = 0; i < core->election_member_count; i++) {
        node_id node = core->election_members[i].node;
        if (!core_node_trusted(core, node) && !has_left(core, node)) {
            return false;
        }
    }
    return true;
}

/* A coordinator that was cut off went on by index until it noticed: the trials behind the last one that it is known to
 * have started may be running over there, as many as fit there. */
struct unseen {
    uint32_t from, count;
};

static struct unseen unseen_starts(const struct node_core *core, const struct view_experiment *experiment)
{
    struct unseen unseen = {0, 0};
    for (uint32_t i = experiment->trial_slots; i-- > 0 && unseen.from == 0;) {
        const struct view_trial *trial = experiment->trials[i];
        for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
            unseen.from = core_node_trusted(core, a->id.coordinator) ? unseen.from : i + 1;
        }
    }
    for (uint32_t i = 0; i < core->view.member_count && unseen.from > 0; i++) {
        const struct view_member *member = core->view.members[i];
        unseen.count += core_node_trusted(core, member->id) || member->left ? 0 : member->slot_count;
    }
    return unseen;
}

/* The next trial to be claimed, behind `after` if that is not NULL. */
static bool next_pending(struct node_core *core, struct core_coordination *coordination,
                         const struct view_experiment *experiment, const struct claim_order *after,
                         struct claim_order *out)
{
    bool by_index = is_whole(core), found = false;
    struct claim_order best = {0, 0};
    struct unseen unseen = by_index ? (struct unseen){0, 0} : unseen_starts(core, experiment);
    for (uint32_t i = 0; i < experiment->trial_count && !(found && by_index); i++) {
        if (!trial_is_pending(core, coordination, experiment, i)) {
            continue;
        }
        struct claim_order order = by_index ? (struct claim_order){0, i} : claim_order_of(core, experiment->id, i);
        order.rank += i >= unseen.from && i - unseen.from < unseen.count ? 2 * NODE_MEMBERS_MAX : 0;
        if ((after == NULL || claimed_before(*after, order)) && (!found || claimed_before(order, best))) {
            found = true;
            best = order;
        }
    }
    *out = best;
    return found;
}

static bool has_free_slot(const struct node_core *core)
{
    for (uint32_t i = 0; i < core->view.member_count; i++) {
        const struct view_member *member = core->view.members[i];
        for (uint32_t slot = 0; slot < member->slot_count && member->slots != NULL; slot++) {
            if (member->slots[slot].state == LEASE_FREE && core_node_trusted(core, member->id)) {
                return true;
            }
        }
    }
    return false;
}

/* Where a gang could go now. */
struct place {
    uint32_t member_count;
    struct fact_assignment members[FACT_MEMBERS_MAX];
};

static bool find_place(const struct node_core *core, const struct view_experiment *experiment,
                       const struct view_trial *trial, struct place *out)
{
    struct choice choices[CHOICES_MAX];
    uint32_t at_best = 0, count = 0;
    uint32_t wanted = experiment->config->slots_per_trial;
    for (enum choice_care care = CARE_FOR_ALL; care <= CARE_FOR_NOTHING; care++) {
        count = collect_choices(core, experiment, trial, care, choices, &at_best);
        if (at_best >= wanted) {
            break;
        }
    }
    if (at_best < wanted && at_best >= experiment->config->min_slots) {
        wanted = at_best;
    }
    out->member_count = wanted;
    return wanted <= FACT_MEMBERS_MAX && choose(choices, count, wanted, out->members);
}

/* True for a trial that waits for a node on which it has not failed, while others could use what is free. */
static bool is_picky(const struct view_trial *trial)
{
    return trial != NULL && (view_trial_failures(trial) > 0 || core_quarantine_is_suspect(trial));
}
#define PICKY_MAX 16 /* trials passed over at a time */

/* Starts one gang for the first pending trial that has a place. */
static bool start_one(struct node_core *core, struct core_coordination *coordination,
                      const struct view_experiment *experiment)
{
    struct claim_order order, after;
    struct place place;
    bool has_place = false, found = has_free_slot(core) && next_pending(core, coordination, experiment, NULL, &order);
    for (uint32_t tries = 0; found && tries < PICKY_MAX; tries++) {
        has_place = find_place(core, experiment, view_find_trial(experiment, order.index), &place);
        if (has_place || !is_picky(view_find_trial(experiment, order.index))) {
            break;
        }
        after = order;
        found = next_pending(core, coordination, experiment, &after, &order);
    }
    if (!has_place) {
        return false;
    }
    uint32_t index = order.index;
    const struct view_trial *trial = view_find_trial(experiment, index);
    struct core_gang *gang = arena_take(&core->arena, sizeof *gang);
    if (gang == NULL) {
        core->counters.full++;
        return false;
    }
    uint32_t number = 1;
    for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
        number = a->id.number >= number ? a->id.number + 1 : number;
    }
    memset(&gang->attempt, 0, sizeof gang->attempt);
    gang->attempt.experiment = experiment->id;
    gang->attempt.trial = index;
    gang->attempt.number = number;
    gang->attempt.term = coordination->election.highest.term;
    gang->attempt.coordinator = core->options.self;
    gang->member_count = place.member_count;
    memcpy(gang->members, place.members, place.member_count * sizeof place.members[0]);
    gang->until_ms = core->now_ms + CORE_GANG_RESERVE_MS;
    core_secret(core, gang->group_key, sizeof gang->group_key);
    gang->next = coordination->gangs;
    coordination->gangs = gang;
    gang_reserve_next(core, experiment, gang);
    return true;
}

/* What may be running on unreachable nodes alone comes last: only when nothing else is pending and there is room for it, and
 * only once patience is over. Until then no verdict is given, since after a heal it would end a worker that is well. */
static bool claim_overdue(struct node_core *core, struct core_coordination *coordination,
                          const struct view_experiment *experiment)
{
    struct place place;
    const struct view_attempt *claimed = NULL;
    struct claim_order best = {0, 0}, pending;
    if (is_whole(core) || !has_free_slot(core) || next_pending(core, coordination, experiment, NULL, &pending)) {
        return false;
    }
    for (uint32_t i = 0; i < experiment->trial_slots; i++) {
        const struct view_trial *trial = experiment->trials[i];
        const struct view_attempt *highest = trial != NULL ? view_trial_highest(trial) : NULL;
        if (highest == NULL || !highest->assigned || highest->verdicts != NULL || view_trial_completed(trial) != NULL ||
            view_trial_state(experiment, i) != VIEW_TRIAL_RUNNING) {
            continue;
        }
        struct core_watch *watch = watch_row(core, coordination, &highest->id);
        struct claim_order order = claim_order_of(core, experiment->id, i);
        if (watch != NULL && look(core, experiment, highest, watch).overdue > 0 &&
            (claimed == NULL || claimed_before(order, best))) {
            claimed = highest;
            best = order;
        }
    }
    if (claimed == NULL || !find_place(core, experiment, experiment->trials[best.index], &place)) {
        return false;
    }
    put_verdict(core, claimed, FACT_LOST, "its node has not answered for a long time, and nothing else is left to do");
    return true;
}

/* ---- drained ------------------------------------------------------------------------------------------------------------------- */

/* A drained node gives away what it coordinates as soon as somebody can take it: a node that has been up for a while and
 * is not drained itself. */
static bool wants_to_hand_over(const struct node_core *core, const struct core_coordination *coordination)
{
    if (!core_node_drained(core, core->options.self) || core->now_ms < coordination->hand_over_ms) {
        return false;
    }
    for (uint32_t i = 0; i < core->election_member_count; i++) {
        const struct election_member *member = &core->election_members[i];
        if (!node_id_equal(member->node, core->options.self) && core_node_accepts(core, member->node) &&
            core->now_ms - member->up_since_ms >= ELECTION_UP_MS) {
            return true;
        }
    }
    return false;
}

static void hand_over(struct node_core *core, struct core_coordination *coordination)
{
    drop_gangs(core, coordination);
    put_claim(core, coordination, coordination->election.highest.term, true);
    observe(core, coordination, coordination->election.highest, true);
}

/* ---- one experiment ---------------------------------------------------------------------------------------------------------- */

static void lead(struct node_core *core, struct core_coordination *coordination, struct view_experiment *experiment)
{
    coordination->pass++;
    bool renews = core->now_ms >= coordination->renew_ms;
    for (uint32_t i = 0; i < experiment->trial_slots; i++) {
        const struct view_trial *trial = experiment->trials[i];
        for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
            if (!a->assigned || !core_has_room(core, 256, 1u << 18)) {
                continue;
            }
            if (a->verdicts != NULL) {
                core_quarantine_judge(core, experiment, trial, a);
                continue;
            }
            if (judge(core, coordination, experiment, trial, a) && renews) {
                renew(core, coordination, a);
            }
        }
    }
    if (renews) {
        coordination->renew_ms = core->now_ms + CORE_RENEW_MS;
    }
    gangs_tick(core, coordination, experiment);
    if (wants_to_hand_over(core, coordination)) {
        if (coordination->gangs == NULL && leads(coordination)) { /* else as soon as they are complete */
            TRACE(&core->options.trace, "hands %s over: this node is drained", name_of(experiment));
            coordination->hand_over_ms = core->now_ms + CORE_HAND_OVER_MS;
            hand_over(core, coordination);
        }
        return;
    }
    if (view_experiment_cancelled(experiment) || view_experiment_paused(experiment) ||
        minority_pauses(core, experiment)) {
        return;
    }
    for (uint32_t i = 0; i < 16 && leads(coordination) && core_has_room(core, 256, 1u << 18); i++) {
        if (!start_one(core, coordination, experiment) && !claim_overdue(core, coordination, experiment)) {
            break;
        }
    }
    drop_watches(core, coordination);
}

void core_coordinator_experiment(struct node_core *core, struct view_experiment *experiment)
{
    if (core->is_out) {
        return;
    }
    if (!view_experiment_live(experiment)) {
        struct core_coordination *coordination = core_find_coordination(core, experiment->id);
        if (coordination != NULL && !coordination->settled) {
            coordination->settled = true;
            drop_gangs(core, coordination);
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
    }
}

void core_coordinator_housekeep(struct node_core *core)
{
    for (struct core_coordination *c = core->coordinations; c != NULL; c = c->next) {
        struct view_experiment *experiment = c->settled ? NULL : view_find_experiment(&core->view, c->experiment);
        if (experiment != NULL) {
            experiment->changed = true; /* settle looks at it in this step */
        }
    }
}

void core_coordinator_forget(struct node_core *core, experiment_id experiment)
{
    struct core_coordination *coordination = core_find_coordination(core, experiment);
    if (coordination == NULL) {
        return;
    }
    drop_gangs(core, coordination);
    coordination->pass++; /* of all watches */
    drop_watches(core, coordination);
    struct core_coordination **link = &core->coordinations;
    while (*link != coordination) {
        link = &(*link)->next;
    }
    *link = coordination->next;
    arena_give(&core->arena, coordination, sizeof *coordination);
}

void core_coordinator_leave(struct node_core *core)
{
    for (struct core_coordination *c = core->coordinations; c != NULL; c = c->next) {
        if (leads(c)) {
            hand_over(core, c);
        }
    }
}

void core_coordinator_restart(struct node_core *core)
{
    for (struct core_coordination *c = core->coordinations; c != NULL; c = c->next) {
        drop_gangs(core, c);
        c->claiming = false;
        c->election.claiming = false;
        c->election.vacant = false;
        c->election.state = ELECTION_FOLLOWING;
    }
}

void core_coordinator_out(struct node_core *core)
{
    for (struct core_coordination *c = core->coordinations; c != NULL; c = c->next) {
        while (c->gangs != NULL) {
            struct core_gang *gang = c->gangs;
            gang_unlink(c, gang);
            arena_give(&core->arena, gang, sizeof *gang);
        }
        c->claiming = false;
        election_init(&c->election);
    }
}
