/* Living attempts: as the coordinator sees them, the end of an attempt, and the verdict (DESIGN 7, 8). */

#include "base/check.h"
#include "base/probe.h"
#include "node/core/coordinator/coordinator.h"
#include "node/core/coordinator/elastic.h"
#include "node/core/coordinator/gangs.h"
#include "node/core/coordinator/placing.h"
#include "node/core/coordinator/watch.h"
#include "node/core/copies/collection.h"
#include "node/core/ground/publish.h"
#include "node/core/members/links.h"
#include "node/core/members/quarantine.h"
#include "node/core/owner/groups.h"

/* Our record of the same verdict, if the record is in the table but not in the fold for lack of memory; or NULL. */
static struct records_entry *find_unfolded(const struct node_core *core, const struct view_attempt *attempt,
                                           enum fact_reason reason)
{
    struct fact_key key = fact_key_verdict(&attempt->id);
    struct records_entry *own =
        records_find(&core->records, record_ident_of(core->options.self, FACT_VERDICT, key.bytes, key.count));
    struct fact_verdict said;
    bool is_same = own != NULL && own->is_unfolded && fact_verdict_read(&own->record, &said) == 0 && said.reason == reason;
    return is_same ? own : NULL;
}

/* How long an attempt has run, by this node's own clock: the wall clocks of two machines may be hours apart (DESIGN 5). 0 of
 * an attempt that another coordinator has started. */
static uint64_t duration_s(const struct node_core *core, const attempt_id *attempt)
{
    const struct core_coordination *coordination = core_find_coordination(core, attempt->experiment);
    struct election_claim maker = {attempt->term, attempt->coordinator};
    if (coordination == NULL || election_claim_compare(maker, coordination->election.highest) != 0) {
        return 0;
    }
    const struct core_watch *watch = watch_find(coordination, attempt);
    return watch != NULL ? (core->now_ms - watch->since_ms) / 1000 : 0;
}

static bool any_unstarted(const struct view_attempt *attempt)
{
    bool any = false;
    for (const struct view_worker *worker = attempt->workers; worker != NULL; worker = worker->next) {
        any |= view_worker_is_unstarted(worker);
    }
    return any;
}

static enum event_kind verdict_kind(enum fact_reason reason)
{
    static const enum event_kind kinds[] = {[FACT_COMPLETED] = EVENT_TRIAL_COMPLETED,
                                            [FACT_FAILED] = EVENT_TRIAL_FAILED,
                                            [FACT_STOPPED] = EVENT_TRIAL_STOPPED,
                                            [FACT_LOST] = EVENT_TRIAL_LOST};
    CHECK(reason < FACT_REASONS);
    return kinds[reason];
}

static void put_verdict(struct node_core *core, const struct view_attempt *attempt, enum fact_reason reason, bool is_hung,
                        const char *why)
{
    struct records_entry *unfolded = find_unfolded(core, attempt, reason);
    if (unfolded != NULL) {
        core_fold_again(core, unfolded);
        return;
    }
    struct fact_verdict fact = {.reason = reason, .step = attempt->start_step, .is_hung = is_hung};
    bytes_copy_text(fact.why, sizeof fact.why, why);
    const struct view_worker *first = view_attempt_worker(attempt, 0);
    const struct records_entry *entry = first != NULL ? records_find(&core->records, first->ident) : NULL;
    struct fact_worker worker;
    if (entry != NULL && fact_worker_read(&entry->record, &worker) == 0) {
        fact.step = worker.step;
        fact.metrics = worker.metrics;
        fact.metrics_bytes = worker.metrics_bytes;
        fact.duration_s = duration_s(core, &attempt->id);
    }
    uint8_t bytes[FACT_METRICS_BYTES_MAX + 256];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_verdict_pack(&writer, &fact);
    bool is_published;
    (void)core_try_put(core, FACT_VERDICT, fact_key_verdict(&attempt->id), &writer, &is_published);
    if (!is_published) {
        return; /* the next pass judges the attempt again */
    }
    TRACE_EVENT(&core->options.trace, event_of_attempt(verdict_kind(reason), &attempt->id),
                "%s trial %u attempt %u: %s, %s",
                coordinator_name(view_find_experiment(&core->view, attempt->id.experiment)), attempt->id.trial,
                attempt->id.number, fact_reason_name(reason), why);
    const struct view_experiment *experiment = view_find_experiment(&core->view, attempt->id.experiment);
    struct core_coordination *coordination = core_find_coordination(core, attempt->id.experiment);
    if (coordination != NULL) {
        bool is_unstarted = reason == FACT_LOST && attempts_never_ran(attempt) && any_unstarted(attempt);
        coordination->unstarted_losses = is_unstarted ? coordination->unstarted_losses + 1 : 0;
    }
    if (reason == FACT_FAILED && experiment != NULL && experiment->known) {
        core_quarantine_told(core, experiment, attempt->id.trial);
    }
}

void attempts_put_verdict(struct node_core *core, const struct view_attempt *attempt, enum fact_reason reason,
                          const char *why)
{
    put_verdict(core, attempt, reason, false, why);
}

/* How long a silent node may keep its attempts: twice the median duration of the experiment's completed trials, as far as
 * durations are known, and at least CORE_PATIENCE_MS (DESIGN 7). */
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
        if (entry == NULL || fact_verdict_read(&entry->record, &fact) != 0 || fact.duration_s == 0) {
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

static bool any_is_out(const struct node_core *core, const struct view_attempt *attempt)
{
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        if (coordinator_is_out(core, attempt->members[rank].node)) {
            return true;
        }
    }
    return false;
}

struct attempt_sight attempts_look(struct node_core *core, const struct view_experiment *experiment,
                                   const struct view_attempt *attempt, const struct core_watch *watch)
{
    struct attempt_sight sight = {.heard_since_failure = true};
    uint64_t patience = 0;
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        const struct fact_place *member = &attempt->members[rank];
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        if (worker != NULL && worker->state == FACT_WORKER_ENDED) {
            sight.completed += worker->reason == FACT_COMPLETED;
            sight.failed += worker->reason == FACT_FAILED;
            sight.stopped += worker->reason == FACT_STOPPED;
            sight.lost += worker->reason == FACT_LOST;
            continue;
        }
        bool is_self = node_id_equal(member->node, core->options.self);
        if (!is_self && swim_state_of(&core->members->swim, member->node) != SWIM_ALIVE) {
            bool is_suspect = swim_state_of(&core->members->swim, member->node) == SWIM_SUSPECT;
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
        bool is_leased = slot != NULL && slot->state == LEASE_LEASED && attempt_id_equal(&slot->attempt, &attempt->id) &&
                         slot->rank == member->number;
        const struct core_peer *peer = is_self ? NULL : core_find_peer(core, member->node);
        if (peer != NULL && worker != NULL && peer->boot > worker->boot) {
            MARK(restarted_owner_awaited);
            /* The node was restarted and has not published the fate of its workers yet. With an old disk it never will: then
             * the idle slot ends the attempt. */
            sight.unsure++;
            sight.idle += !is_leased;
            continue;
        }
        if (!is_self && watch->failed_ms != 0 && swim_heard_ms(&core->members->swim, member->node) <= watch->failed_ms) {
            sight.heard_since_failure = false;
        }
        sight.idle += !is_leased;
    }
    return sight;
}

/* The slots of lost workers are not asked for a moment, so that the next attempt begins elsewhere if possible. */
static void avoid_losers(struct node_core *core, const struct view_attempt *attempt)
{
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        if (worker != NULL && worker->state == FACT_WORKER_ENDED && worker->reason == FACT_LOST) {
            placing_back_off(core, attempt->members[rank].node, attempt->members[rank].slot, CORE_SLOT_BACKOFF_MS);
        }
    }
}

bool attempts_never_ran(const struct view_attempt *attempt)
{
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        if (worker != NULL && worker->has_started) {
            return false;
        }
    }
    return true;
}

uint64_t attempts_stop_ms(const struct view_experiment *experiment)
{
    return (uint64_t)experiment->config->preemption_timeout_s * 1000 + CORE_UNLEASED_MS;
}

/* A rank can fail because another rank has stopped as it was asked to: then a collective fails. The failure may be known here
 * before the stop is, since the stopping rank still saves or its network is slow. */
bool attempts_failure_is_settled(const struct node_core *core, const struct view_experiment *experiment,
                                 const struct view_attempt *attempt, const struct attempt_sight *sight,
                                 const struct core_watch *watch)
{
    bool is_stopping = view_experiment_paused(experiment) || owner_group_is_stopping(core, experiment, attempt);
    uint64_t settle_ms = is_stopping ? attempts_stop_ms(experiment) : CORE_FAILURE_SETTLE_MS;
    uint32_t over = 0;
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        bool has_left = worker != NULL && worker->waits && worker->generation == attempt->generation;
        over += has_left || (worker != NULL && worker->state == FACT_WORKER_ENDED);
    }
    bool is_on_one_node = !node_id_is_none(view_attempt_node(attempt));
    return over == attempt->member_count || (is_on_one_node && sight->heard_since_failure) ||
           core->now_ms - watch->failed_ms >= settle_ms;
}

/* True if the owners of all members that have not ended are heard, and nothing else is about to end the attempt. */
static bool is_left_to_itself(const struct node_core *core, const struct view_experiment *experiment,
                              const struct view_attempt *attempt, const struct attempt_sight *sight)
{
    return sight->failed + sight->stopped + sight->lost + sight->away + sight->unsure + sight->idle == 0 &&
           !view_experiment_paused(experiment) && !view_experiment_cancelled(experiment) &&
           !owner_group_is_stopping(core, experiment, attempt);
}

/* The lowest rank whose worker has ended, or has not; UINT32_MAX: none. */
static uint32_t first_rank(const struct view_attempt *attempt, bool has_ended)
{
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        if ((worker != NULL && worker->state == FACT_WORKER_ENDED) == has_ended) {
            return rank;
        }
    }
    return UINT32_MAX;
}

/* The owners measure how long each worker has lacked output, progress and processor time, by their own clocks. Ranks that wait
 * for a hung one may spin, so they need not lack processor time; but a rank that works and only writes nothing is no reason,
 * unless another one does nothing at all. UINT32_MAX: no rank is stuck. */
static uint32_t stuck_rank(const struct view_attempt *attempt)
{
    uint32_t stuck = UINT32_MAX;
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        if (worker != NULL && worker->state == FACT_WORKER_ENDED) {
            continue;
        }
        if (worker == NULL || !worker->is_overdue) {
            return UINT32_MAX;
        }
        bool does_nothing = worker->stall == FACT_IDLE || worker->stall == FACT_SUSPENDED;
        stuck = does_nothing && (stuck == UINT32_MAX || worker->stall == FACT_SUSPENDED) ? rank : stuck;
    }
    return stuck;
}

/* True if no rank that has not ended has written or reported anything for exit_barrier: rank 0 may well export a model while
 * the others have ended. */
static bool is_rest_silent(const struct view_attempt *attempt)
{
    bool is_silent = true;
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        is_silent &= worker != NULL && (worker->state == FACT_WORKER_ENDED || worker->is_past_barrier);
    }
    return is_silent;
}

/* Ends an attempt with a rank that hangs, or one that others have left behind (DESIGN 7). */
static bool judge_hung(struct node_core *core, const struct view_experiment *experiment, const struct view_attempt *attempt,
                       const struct attempt_sight *sight, struct core_watch *watch)
{
    const struct config *config = experiment->config;
    bool is_alone = is_left_to_itself(core, experiment, attempt, sight);
    watch_since(&watch->barrier_ms, is_alone && sight->completed > 0, core->now_ms);
    char why[sizeof ((struct fact_verdict *)NULL)->why];
    if (watch->barrier_ms != 0 && config->exit_barrier_s > 0 && is_rest_silent(attempt) &&
        core->now_ms - watch->barrier_ms >= (uint64_t)config->exit_barrier_s * 1000 &&
        !BUG(left_behind_goes_on, "an attempt of which a rank has ended and the others hang is ended")) {
        format_text(why, sizeof why, "rank %u has not ended within %u s (exit_barrier) after rank %u ended with status 0",
                    first_rank(attempt, false), config->exit_barrier_s, first_rank(attempt, true));
        put_verdict(core, attempt, FACT_FAILED, true, why);
        return true;
    }
    uint32_t stuck = is_alone && config->stall_timeout_s > 0 && !BUG(hung_goes_on, "an attempt with a rank that hangs is ended")
                         ? stuck_rank(attempt)
                         : UINT32_MAX;
    if (stuck == UINT32_MAX) {
        return false;
    }
    bool is_suspended = view_attempt_worker(attempt, stuck)->stall == FACT_SUSPENDED;
    format_text(why, sizeof why, is_suspended ? "rank %u has been stopped (SIGSTOP) for %u s (stall_timeout)"
                                              : "rank %u has written nothing and used no processor time for %u s (stall_timeout)",
                stuck, config->stall_timeout_s);
    put_verdict(core, attempt, FACT_FAILED, true, why);
    return true;
}

/* True if a node of a group over several nodes has lost the address that the group uses: connections to it are broken, or hang. */
static bool has_moved(const struct node_core *core, const struct view_attempt *attempt)
{
    for (uint32_t rank = 0; rank < attempt->member_count && node_id_is_none(view_attempt_node(attempt)); rank++) {
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        bool is_over = worker == NULL || (worker->state == FACT_WORKER_ENDED && worker->reason == FACT_COMPLETED);
        const struct records_entry *entry = is_over ? NULL : records_find(&core->records, worker->ident);
        struct fact_worker fact;
        if (entry != NULL && fact_worker_read(&entry->record, &fact) == 0 &&
            !links_announces(core, attempt->members[rank].node, fact.host)) {
            return true;
        }
    }
    return false;
}

bool attempts_judge(struct node_core *core, struct core_coordination *coordination,
                    const struct view_experiment *experiment, const struct view_trial *trial,
                    const struct view_attempt *attempt)
{
    struct core_watch *watch = watch_row(core, coordination, &attempt->id);
    if (watch == NULL) {
        return true;
    }
    watch->seen_pass = coordination->pass;
    struct attempt_sight sight = attempts_look(core, experiment, attempt, watch);
    uint32_t ended = sight.completed + sight.failed + sight.stopped + sight.lost;
    if (coordination->unstarted_losses > 0 && !attempts_never_ran(attempt)) {
        coordination->unstarted_losses = 0;
    }
    watch->failed_ms = sight.failed == 0 ? 0 : watch->failed_ms; /* 0: the group goes on without the failed member */
    if (sight.failed > 0 && watch->failed_ms == 0) {
        watch->failed_ms = core->now_ms;
        sight.heard_since_failure = false;
    }
    if (sight.overdue == 0) {
        watch->waiting = (struct core_waiting){0, 0}; /* the attempt, given up for lost, is there again */
    }
    bool is_paused = view_attempt_is_paused(trial, &attempt->id), is_stopped = view_trial_stopped(trial) || is_paused;
    watch_since(&watch->stopped_ms, watch->stopped_ms != 0 || sight.stopped > 0 || is_stopped, core->now_ms);
    bool is_stop_over = core->now_ms - watch->stopped_ms >= attempts_stop_ms(experiment);
    watch_since(&watch->idle_ms, sight.idle > 0 && !gangs_begins(coordination, &attempt->id), core->now_ms);
    bool has_lost_address = !view_attempt_is_elastic(attempt) && has_moved(core, attempt); /* an elastic group goes on without */
    watch_since(&watch->moved_ms, has_lost_address, core->now_ms);
    has_lost_address &= sight.failed > 0 || core->now_ms - watch->moved_ms >= CORE_MOVED_MS;
    bool is_idle = watch->idle_ms != 0 && core->now_ms - watch->idle_ms >= CORE_UNLEASED_MS &&
                   !BUG(idle_goes_on, "an attempt that a slot is not leased to is over");
    bool has_failed = sight.failed > 0 && attempts_failure_is_settled(core, experiment, attempt, &sight, watch);
    if (sight.completed == attempt->member_count) {
        attempts_put_verdict(core, attempt, FACT_COMPLETED, "every rank is done");
    } else if (view_trial_completed(trial) != NULL) {
        MARK(duplicate_stopped);
        attempts_put_verdict(core, attempt, FACT_STOPPED, "another attempt has completed the trial");
    } else if (view_experiment_cancelled(experiment) && ended + sight.away + sight.unsure == attempt->member_count) {
        attempts_put_verdict(core, attempt, FACT_STOPPED, "the experiment is cancelled");
    } else if (is_stopped && (ended + sight.away == attempt->member_count || is_stop_over)) {
        /* After that time also for nodes that may be beyond a cut, or of a version that does not obey a stop. */
        attempts_put_verdict(core, attempt, FACT_STOPPED, is_paused                          ? "the search has paused the trial"
                             : view_trial_stop(trial).overran ? "the trial has run for its max_runtime"
                                                              : "the trial is stopped");
    } else if (has_lost_address && sight.away == 0) {
        MARK(group_lost_an_address);
        attempts_put_verdict(core, attempt, FACT_LOST, "the address of a node changed under its group");
    } else if (judge_hung(core, experiment, attempt, &sight, watch)) {
        return view_attempt_verdict(attempt) == NULL;
    } else if (elastic_follow(core, coordination, experiment, trial, attempt, &sight, watch)) {
        return view_attempt_verdict(attempt) == NULL;
    } else if (sight.away > 0) {
        attempts_put_verdict(core, attempt, FACT_LOST,
                             any_is_out(core, attempt) ? "a node was evicted" : "a node died");
    } else if (sight.overdue > 0 && sight.unsure < attempt->member_count + attempt->joiner_count - ended) {
        attempts_put_verdict(core, attempt, FACT_LOST,
                             "a node has not answered for a long time, and others wait for it");
    } else if (sight.overdue > 0 && view_trial_state(experiment, attempt->id.trial) == VIEW_TRIAL_FAILED) {
        attempts_put_verdict(core, attempt, FACT_LOST, "a node has not answered for a long time, and the trial has failed");
    } else if (sight.lost > 0) {
        avoid_losers(core, attempt);
        if ((attempt->start_step > 0 || attempt->beginning_count > 0) &&
            (attempts_never_ran(attempt) || any_unstarted(attempt))) {
            /* Maybe the checkpoint is not where the manifest says: a holder has lost its disk, or was another daemon with the
             * same key. */
            MARK(checkpoint_doubted);
            core_collection_doubt(core, trial, attempt);
        }
        attempts_put_verdict(core, attempt, FACT_LOST, "a worker was lost");
    } else if (has_failed && sight.stopped > 0) {
        MARK(stop_missed_by_one);
        attempts_put_verdict(core, attempt, FACT_STOPPED, "a worker was asked to stop, and another missed it");
    } else if (has_failed && sight.unsure == 0) {
        attempts_put_verdict(core, attempt, FACT_FAILED, "a worker failed");
    } else if (sight.stopped > 0 && sight.failed == 0 && ended == attempt->member_count) {
        attempts_put_verdict(core, attempt, FACT_STOPPED, "asked to stop");
    } else if (sight.stopped > 0 && !view_experiment_paused(experiment) && ended < attempt->member_count && is_stop_over &&
               sight.unsure == 0) {
        attempts_put_verdict(core, attempt, FACT_STOPPED, "a worker was asked to stop");
    } else if (is_idle) {
        MARK(idle_attempt_judged);
        attempts_put_verdict(core, attempt, FACT_LOST, "a slot is not leased to it");
    } else if (view_trial_highest(trial) != attempt &&
               !BUG(lower_goes_on, "of two attempts of a trial that both run the lower ends")) {
        MARK(lower_attempt_judged);
        attempts_put_verdict(core, attempt, FACT_LOST, "a higher attempt exists");
    } else {
        return true;
    }
    return false;
}

void attempts_renew(struct node_core *core, const struct core_coordination *coordination,
                    const struct view_attempt *attempt)
{
    if (BUG(lease_not_renewed, "the coordinator renews the leases of what runs")) {
        return;
    }
    struct message message = {.kind = MESSAGE_RENEW};
    message.u.lease.attempt = attempt->id;
    /* An owner takes renewals from the coordinator that it obeys, whichever coordinator the attempt is named after. */
    message.u.lease.claim = coordination->election.highest;
    for (uint32_t rank = 0; rank < attempt->member_count + attempt->joiner_count; rank++) {
        bool asked = rank > 0 && node_id_equal(attempt->members[rank].node, attempt->members[rank - 1].node);
        if (!asked) {
            coordinator_ask_owner(core, attempt->members[rank].node, &message);
        }
    }
}
