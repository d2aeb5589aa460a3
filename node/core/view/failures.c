/* Failures of a trial's program, deaths of hosts under the trial, and the quarantine of the trial (DESIGN 7). */

#include "node/core/view/view.h"

#include "base/probe.h"

bool view_worker_is_unstarted(const struct view_worker *worker)
{
    return worker->state == FACT_WORKER_ENDED && worker->reason == FACT_LOST && !worker->has_started && worker->exit_code != 0;
}

static bool is_member(const struct view_attempt *attempt, const struct view_worker *worker)
{
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        const struct fact_place *member = &attempt->members[rank];
        if (member->number == worker->number && node_id_equal(member->node, worker->writer)) {
            return true;
        }
    }
    return false;
}

static bool has_failed(const struct view_worker *worker)
{
    return worker->state == FACT_WORKER_ENDED && worker->reason == FACT_FAILED;
}

/* True if an elastic worker failed as a member of a group. A joiner that never came into a group does not count. */
static bool has_failed_its_group(const struct view_attempt *attempt, const struct view_worker *worker)
{
    return has_failed(worker) && worker->is_elastic && (worker->generation > 0 || worker->number < attempt->first_count);
}

struct failures {
    uint32_t before; /* failed workers outside of the last group: each counts */
    bool has_last;   /* a member of the last group has failed: the whole group counts once */
};

static struct failures count_failures(const struct view_attempt *attempt)
{
    struct failures out = {0};
    for (const struct view_worker *worker = attempt->workers; worker != NULL; worker = worker->next) {
        bool is_one = is_member(attempt, worker);
        out.has_last |= is_one && has_failed(worker);
        out.before += !is_one && has_failed_its_group(attempt, worker);
    }
    return out;
}

uint32_t view_attempt_failures(const struct view_attempt *attempt)
{
    struct failures failures = count_failures(attempt);
    return failures.before + failures.has_last;
}

/* A verdict is about all members of the last group together, since a failed member drags the others down. If no member of
 * the last group has failed, the verdict's writer judged an earlier group: count_failures has counted the failed worker
 * already. */
static uint32_t ended_attempt_failures(const struct view_attempt *attempt, enum fact_reason reason)
{
    struct failures failures = count_failures(attempt);
    bool counts = reason == FACT_FAILED && (failures.has_last || failures.before == 0) &&
                  !BUG(failures_uncounted, "a trial that fails max_restarts times is given up");
    return failures.before + counts;
}

bool view_attempt_counts(const struct fact_stop *stop, const struct view_attempt *attempt)
{
    if (stop->stopped || stop->lamport == 0) {
        return attempt->id.number > stop->since; /* 0 if never written */
    }
    return attempt->retried >= stop->lamport || BUG(retry_forgets_nothing, "failures from before a retry do not count");
}

/* The next attempt that counts, from `attempt` (may be NULL) on; NULL: there is none. */
static const struct view_attempt *next_counted(const struct fact_stop *stop, const struct view_attempt *attempt)
{
    while (attempt != NULL && !view_attempt_counts(stop, attempt)) {
        attempt = attempt->next;
    }
    return attempt;
}

uint32_t view_trial_failures(const struct view_trial *trial)
{
    uint32_t failures = 0;
    const struct fact_stop stop = view_trial_stop(trial);
    const struct view_attempt *attempt = next_counted(&stop, trial->attempts);
    for (; attempt != NULL; attempt = next_counted(&stop, attempt->next)) {
        const struct view_verdict *verdict = view_attempt_verdict(attempt);
        failures += verdict != NULL && verdict->reason == FACT_LOST &&
                    BUG(losses_counted, "only the program's own failures count against max_restarts");
        failures += verdict != NULL ? ended_attempt_failures(attempt, verdict->reason) : 0;
    }
    return failures;
}

/* True if a worker ended in the same boot of the node: the node was cut off or suspended, and did not die. */
static bool death_is_void(const struct view_attempt *attempt, const struct fact_death *death)
{
    for (const struct view_worker *worker = attempt->workers; worker != NULL; worker = worker->next) {
        if (node_id_equal(worker->writer, death->node) && worker->state == FACT_WORKER_ENDED &&
            worker->boot == death->boot) {
            return true;
        }
    }
    return false;
}

const struct view_death *view_attempt_death(const struct view_attempt *attempt)
{
    const struct view_verdict *verdict = view_attempt_verdict(attempt);
    const struct view_death *least = NULL;
    for (const struct view_death *death = attempt->deaths; death != NULL; death = death->next) {
        if (verdict != NULL && verdict->reason == FACT_LOST && !death_is_void(attempt, &death->fact) &&
            (least == NULL || death->fact.suspects < least->fact.suspects)) {
            least = death;
        }
    }
    return least;
}

static void list_node(node_id nodes[VIEW_QUARANTINE_NODES], uint32_t *count, node_id node)
{
    for (uint32_t i = 0; i < *count; i++) {
        if (node_id_equal(nodes[i], node)) {
            return;
        }
    }
    if (*count < VIEW_QUARANTINE_NODES) {
        nodes[(*count)++] = node;
    }
}

/* True if the attempt starts where the other one started: from the same step, and with the same kept files. */
static bool starts_as(const struct view_attempt *a, const struct view_attempt *other)
{
    uint32_t count = other != NULL ? other->beginning_count : 0;
    return a->start_step == (other != NULL ? other->start_step : 0) && a->beginning_count == count &&
           (count == 0 || hash256_equal(a->beginnings[0].blob, other->beginnings[0].blob));
}

/* Failures on three nodes, without progress in between (each attempt starts from the same state), are the trial's fault and
 * not the nodes'. A trial with progress between failures may fail max_restarts times. */
static bool fails_everywhere(const struct view_trial *trial, node_id nodes[VIEW_QUARANTINE_NODES], uint32_t *count)
{
    const struct fact_stop stop = view_trial_stop(trial);
    const struct view_attempt *last = NULL;
    *count = 0;
    for (const struct view_attempt *a = next_counted(&stop, trial->attempts); a != NULL; a = next_counted(&stop, a->next)) {
        const struct view_verdict *verdict = view_attempt_verdict(a);
        if (verdict == NULL || verdict->reason != FACT_FAILED || node_id_is_none(view_attempt_node(a))) {
            continue;
        }
        *count = starts_as(a, last) ? *count : 0;
        last = a;
        list_node(nodes, count, view_attempt_node(a));
        if (*count == VIEW_QUARANTINE_NODES) {
            return true;
        }
    }
    return false;
}

/* A dying host takes several trials down, and at most one trial is to blame. So after a first death every trial that had
 * just begun on the host is a suspect; a second death convicts a suspect, unless another suspect was on the host, too; a
 * third death convicts in any case. Deaths of several hosts together (a rack without power) are not recorded
 * (members/quarantine.c). */
static bool kills_hosts(const struct view_trial *trial, node_id nodes[VIEW_QUARANTINE_NODES], uint32_t *count)
{
    const struct fact_stop stop = view_trial_stop(trial);
    uint32_t deaths = 0;
    bool is_pointed_at = false;
    *count = 0;
    for (const struct view_attempt *a = next_counted(&stop, trial->attempts); a != NULL; a = next_counted(&stop, a->next)) {
        const struct view_death *death = view_attempt_death(a);
        if (death != NULL) {
            deaths++;
            is_pointed_at |= deaths > 1 && death->fact.suspects == 0;
            list_node(nodes, count, death->fact.node);
        }
    }
    return deaths >= VIEW_QUARANTINE_SHARED_DEATHS || (deaths >= VIEW_QUARANTINE_HOST_DEATHS && is_pointed_at);
}

/* Whether each failure of a worker in one attempt has an equal one in the other. Ranks that only echo another rank's failure
 * end in many ways, so in doubt two attempts differ. */
static bool are_all_in(const struct view_attempt *a, const struct view_attempt *b)
{
    bool any = false, all = true;
    for (const struct view_worker *worker = a->workers; worker != NULL; worker = worker->next) {
        bool is_there = false;
        for (const struct view_worker *other = b->workers; other != NULL; other = other->next) {
            is_there |= has_failed(other) && other->failure == worker->failure;
        }
        any |= has_failed(worker);
        all &= !has_failed(worker) || (worker->failure != 0 && is_there);
    }
    return any && all;
}

static bool is_quick_failure(const struct view_attempt *attempt)
{
    const struct view_verdict *verdict = view_attempt_verdict(attempt);
    return verdict != NULL && verdict->reason == FACT_FAILED && !verdict->is_hung && attempt->assigned &&
           attempt->start_step == 0;
}

/* The program failed in the same way on two nodes, within seconds and before a first step: a word that is no command, a module
 * that is missing. Placing takes another node for the second try if there is one that grants slots (choice.c); without one,
 * VIEW_SAME_FAILURES times on one node is enough. A trial that has gone on from a checkpoint is not meant: fails_everywhere
 * looks at that. */
static bool fails_in_the_same_way(const struct view_trial *trial, node_id nodes[VIEW_QUARANTINE_NODES], uint32_t *count)
{
    const struct fact_stop stop = view_trial_stop(trial);
    for (const struct view_attempt *a = next_counted(&stop, trial->attempts); a != NULL; a = next_counted(&stop, a->next)) {
        uint32_t failures = 0;
        *count = 0;
        for (const struct view_attempt *b = a; b != NULL && is_quick_failure(a); b = next_counted(&stop, b->next)) {
            if (is_quick_failure(b) && are_all_in(a, b) && are_all_in(b, a)) {
                list_node(nodes, count, b->members[0].node);
                failures++;
            }
        }
        if (*count > 1 || failures >= VIEW_SAME_FAILURES) {
            return true;
        }
    }
    *count = 0;
    return false;
}

enum view_quarantine view_trial_quarantine(const struct view_trial *trial, enum config_retry retry,
                                           node_id nodes[VIEW_QUARANTINE_NODES], uint32_t *count)
{
    node_id unused[VIEW_QUARANTINE_NODES];
    uint32_t unused_count;
    nodes = nodes != NULL ? nodes : unused;
    count = count != NULL ? count : &unused_count;
    if (fails_everywhere(trial, nodes, count)) {
        return VIEW_QUARANTINE_FAILURES;
    }
    if (kills_hosts(trial, nodes, count)) {
        return VIEW_QUARANTINE_DEATHS;
    }
    if (retry == CONFIG_RETRY_NODE && fails_in_the_same_way(trial, nodes, count)) {
        return VIEW_QUARANTINE_SAME;
    }
    *count = 0;
    return VIEW_NO_QUARANTINE;
}
