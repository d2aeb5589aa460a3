/* What follows from the rows of a view: states, counts, the checkpoint and the result that count. */

#include "node/core/view/view.h"

#include "base/check.h"
#include "base/probe.h"

static bool is_writer(node_id writer, const node_id *but)
{
    return but != NULL && node_id_equal(writer, *but);
}

struct lamport_top view_drain_top(const struct view_member *member, const node_id *but)
{
    struct lamport_top top = {0};
    for (const struct view_drain *drain = member->drains; drain != NULL; drain = drain->next) {
        lamport_see(&top, is_writer(drain->writer, but) ? 0 : drain->fact.lamport);
    }
    return top;
}

struct lamport_top view_control_top(const struct view_experiment *experiment, const node_id *but)
{
    struct lamport_top top = {0};
    for (const struct view_control *control = experiment->controls; control != NULL; control = control->next) {
        lamport_see(&top, is_writer(control->writer, but) ? 0 : control->fact.lamport);
    }
    return top;
}

struct lamport_top view_claim_top(const struct view_experiment *experiment, const node_id *but)
{
    struct lamport_top top = {0};
    for (const struct view_claim *claim = experiment->claims; claim != NULL; claim = claim->next) {
        lamport_see(&top, is_writer(claim->writer, but) ? 0 : claim->fact.term);
    }
    return top;
}

struct fact_drain view_member_drain(const struct view_member *member)
{
    struct lamport_top top = view_drain_top(member, NULL);
    struct fact_drain now = {0};
    for (const struct view_drain *drain = member->drains; drain != NULL; drain = drain->next) {
        if (drain->fact.lamport < now.lamport || !lamport_counts(&top, drain->fact.lamport)) {
            continue;
        }
        if (drain->fact.lamport > now.lamport) {
            now = (struct fact_drain){.lamport = drain->fact.lamport};
        }
        /* Of concurrent ones (equal lamport) a drain wins. */
        now.drained |= drain->fact.drained;
        now.at_once |= drain->fact.drained && drain->fact.at_once;
        now.is_idle |= drain->fact.drained && drain->fact.is_idle && node_id_equal(drain->writer, member->id);
    }
    return now;
}

const struct view_worker *view_attempt_worker(const struct view_attempt *attempt, uint32_t rank)
{
    if (!attempt->assigned || rank >= attempt->member_count + attempt->joiner_count) {
        return NULL;
    }
    const struct fact_place *place = &attempt->members[rank];
    for (const struct view_worker *worker = attempt->workers; worker != NULL; worker = worker->next) {
        if (worker->number == place->number && node_id_equal(worker->writer, place->node)) {
            return worker;
        }
    }
    return NULL;
}

uint32_t view_attempt_rank(const struct view_attempt *attempt, node_id node, uint32_t slot, uint32_t number)
{
    for (uint32_t rank = 0; attempt->assigned && rank < attempt->member_count + attempt->joiner_count; rank++) {
        const struct fact_place *place = &attempt->members[rank];
        if (place->number == number && place->slot == slot && node_id_equal(place->node, node)) {
            return rank;
        }
    }
    return UINT32_MAX;
}

static bool has_ended(const struct view_worker *worker)
{
    return worker != NULL && worker->state == FACT_WORKER_ENDED;
}

bool view_attempt_is_elastic(const struct view_attempt *attempt)
{
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        if (worker == NULL || !worker->is_elastic) {
            return false;
        }
    }
    return attempt->assigned;
}

bool view_attempt_is_wanted_back(const struct view *view, const struct view_attempt *attempt, uint32_t rank)
{
    const struct fact_place *place = &attempt->members[rank];
    const struct view_member *node = view_find_member(view, place->node);
    const struct view_slot *slot = node != NULL ? view_member_slot(node, place->slot) : NULL;
    if (has_ended(view_attempt_worker(attempt, rank))) {
        return false; /* what becomes of its slot afterwards is not this group's matter */
    }
    return (slot != NULL && slot->withheld && attempt_id_equal(&slot->attempt, &attempt->id)) ||
           (node != NULL && view_member_drain(node).at_once);
}

bool view_attempt_can_shrink(const struct view *view, const struct view_experiment *experiment,
                             const struct view_attempt *attempt, const node_id *leaver)
{
    uint32_t stay = 0;
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        bool leaves = leaver != NULL && node_id_equal(attempt->members[rank].node, *leaver);
        stay += !leaves && !has_ended(view_attempt_worker(attempt, rank)) && !view_attempt_is_wanted_back(view, attempt, rank);
    }
    return experiment->known && view_attempt_is_elastic(attempt) && stay >= experiment->config->min_slots;
}

const struct view_verdict *view_attempt_verdict(const struct view_attempt *attempt)
{
    const struct view_verdict *lowest = NULL;
    for (const struct view_verdict *verdict = attempt->verdicts; verdict != NULL; verdict = verdict->next) {
        if (lowest == NULL || verdict->reason < lowest->reason) {
            lowest = verdict;
        }
    }
    return lowest;
}

struct view_attempt *view_trial_completed(const struct view_trial *trial)
{
    for (struct view_attempt *attempt = trial->attempts; attempt != NULL; attempt = attempt->next) {
        const struct view_verdict *verdict = view_attempt_verdict(attempt);
        if (verdict != NULL && verdict->reason == FACT_COMPLETED) {
            return attempt;
        }
    }
    return NULL;
}

/* Of each coordinator the last attempt, by its own word: what others say of attempts can name whom they like. */
static struct lamport_top attempt_top(const struct view_trial *trial)
{
    struct lamport_top top = {0};
    const struct view_attempt *last = NULL;
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        if (a->assigned) {
            bool is_anothers = last != NULL && !node_id_equal(last->id.coordinator, a->id.coordinator);
            top = (struct lamport_top){a->id.number, is_anothers ? last->id.number : top.second};
            last = a;
        }
    }
    return top;
}

struct view_attempt *view_trial_highest(const struct view_trial *trial)
{
    struct lamport_top top = attempt_top(trial);
    struct view_attempt *highest = NULL;
    for (struct view_attempt *attempt = trial->attempts; attempt != NULL; attempt = attempt->next) {
        if (attempt->assigned && lamport_counts(&top, attempt->id.number)) {
            highest = attempt;
        }
    }
    return highest;
}

uint32_t view_trial_next_number(const struct view_trial *trial)
{
    const struct view_attempt *highest = view_trial_highest(trial);
    uint64_t number = highest != NULL ? (uint64_t)highest->id.number + 1 : 1;
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        number += a->id.number == number;
    }
    return number <= UINT32_MAX ? (uint32_t)number : 0;
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

/* Its group lost it. Who was to join and never came into a group cost nobody anything. */
static bool has_failed_its_group(const struct view_attempt *attempt, const struct view_worker *worker)
{
    return has_failed(worker) && worker->is_elastic && (worker->generation > 0 || worker->number < attempt->first_count);
}

struct failures {
    uint32_t before; /* each by itself */
    bool has_last;   /* of the last group */
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

/* A verdict is about all members of the last group together, who drag each other down. If none of them has failed, its
 * writer meant one whom another coordinator's group went on without: that one counts by itself. */
static uint32_t ended_attempt_failures(const struct view_attempt *attempt, enum fact_reason reason)
{
    struct failures failures = count_failures(attempt);
    bool counts = reason == FACT_FAILED && (failures.has_last || failures.before == 0) &&
                  !BUG(failures_uncounted, "a trial that fails max_restarts times is given up");
    return failures.before + counts;
}

uint32_t view_trial_failures(const struct view_trial *trial)
{
    uint32_t failures = 0;
    for (struct view_attempt *attempt = trial->attempts; attempt != NULL; attempt = attempt->next) {
        const struct view_verdict *verdict = view_attempt_verdict(attempt);
        failures += verdict != NULL && verdict->reason == FACT_LOST &&
                    BUG(losses_counted, "only the program's own failures count against max_restarts");
        failures += verdict != NULL ? ended_attempt_failures(attempt, verdict->reason) : 0;
    }
    return failures;
}

bool view_worker_is_unstarted(const struct view_worker *worker)
{
    return worker->state == FACT_WORKER_ENDED && worker->reason == FACT_LOST && !worker->has_started && worker->exit_code != 0;
}

node_id view_attempt_node(const struct view_attempt *attempt)
{
    node_id none;
    memset(&none, 0, sizeof none);
    for (uint32_t i = 1; i < attempt->member_count; i++) {
        if (!node_id_equal(attempt->members[i].node, attempt->members[0].node)) {
            return none;
        }
    }
    return attempt->assigned ? attempt->members[0].node : none;
}

/* The host of a worker that ended in the boot in which it ran was cut off or suspended, and lived. */
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

/* Failures on three nodes, none of which has brought the trial further than the one before (it starts from the same
 * step): then it is not the nodes. A trial that gets on between its failures has max_restarts of them. */
static bool fails_everywhere(const struct view_trial *trial, node_id nodes[VIEW_QUARANTINE_NODES], uint32_t *count)
{
    uint64_t step = 0;
    *count = 0;
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        const struct view_verdict *verdict = view_attempt_verdict(a);
        if (verdict == NULL || verdict->reason != FACT_FAILED || node_id_is_none(view_attempt_node(a))) {
            continue;
        }
        *count = a->start_step == step ? *count : 0;
        step = a->start_step;
        list_node(nodes, count, view_attempt_node(a));
        if (*count == VIEW_QUARANTINE_NODES) {
            return true;
        }
    }
    return false;
}

/* A host that dies takes several trials with it, of which one is to blame, if any. So a first death makes suspects only,
 * of all that had just begun there; a second one convicts, unless another suspect was on the host too; three convict in
 * any case. Deaths of several hosts together (a rack without power) are not recorded at all (node/core/members/quarantine.c). */
static bool kills_hosts(const struct view_trial *trial, node_id nodes[VIEW_QUARANTINE_NODES], uint32_t *count)
{
    uint32_t deaths = 0;
    bool is_pointed_at = false;
    *count = 0;
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        const struct view_death *death = view_attempt_death(a);
        if (death != NULL) {
            deaths++;
            is_pointed_at |= deaths > 1 && death->fact.suspects == 0;
            list_node(nodes, count, death->fact.node);
        }
    }
    return deaths >= VIEW_QUARANTINE_SHARED_DEATHS || (deaths >= VIEW_QUARANTINE_HOST_DEATHS && is_pointed_at);
}

enum view_quarantine view_trial_quarantine(const struct view_trial *trial, node_id nodes[VIEW_QUARANTINE_NODES],
                                           uint32_t *count)
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
    *count = 0;
    return VIEW_NO_QUARANTINE;
}

enum view_trial_state view_trial_state(const struct view_experiment *experiment, uint32_t index)
{
    const struct view_trial *trial = view_find_trial(experiment, index);
    const struct view_attempt *highest = trial != NULL ? view_trial_highest(trial) : NULL;
    if (trial != NULL && view_trial_completed(trial) != NULL) {
        return VIEW_TRIAL_COMPLETED;
    }
    if (trial != NULL && experiment->known && (view_trial_failures(trial) > experiment->config->max_restarts ||
                              view_trial_quarantine(trial, NULL, NULL) != VIEW_NO_QUARANTINE)) {
        return VIEW_TRIAL_FAILED;
    }
    return highest != NULL && view_attempt_verdict(highest) == NULL ? VIEW_TRIAL_RUNNING : VIEW_TRIAL_QUEUED;
}

bool view_experiment_cancelled(const struct view_experiment *experiment)
{
    bool is_cancelled = false, is_paused_once = false;
    for (const struct view_control *control = experiment->controls; control != NULL; control = control->next) {
        is_cancelled |= control->fact.cancelled;
        is_paused_once |= control->fact.lamport != 0;
    }
    return is_cancelled && !(is_paused_once && BUG(pause_undoes_cancel, "a cancel absorbs pause and resume"));
}

bool view_experiment_paused(const struct view_experiment *experiment)
{
    struct lamport_top top = view_control_top(experiment, NULL);
    uint64_t newest = 0;
    bool paused = false;
    for (const struct view_control *control = experiment->controls; control != NULL; control = control->next) {
        if (control->fact.lamport < newest || !lamport_counts(&top, control->fact.lamport)) {
            continue;
        }
        /* Of concurrent ones (equal lamport) a pause wins. */
        paused = control->fact.lamport > newest ? control->fact.paused : paused || control->fact.paused;
        newest = control->fact.lamport;
    }
    return paused;
}

enum view_experiment_state view_experiment_state(const struct view_experiment *experiment)
{
    uint32_t completed = 0, failed = 0, running = 0, begun = 0;
    for (uint32_t i = 0; experiment->known && i < experiment->trial_count && i < experiment->trial_slots; i++) {
        if (experiment->trials[i] == NULL) {
            continue;
        }
        enum view_trial_state state = view_trial_state(experiment, i);
        completed += state == VIEW_TRIAL_COMPLETED;
        failed += state == VIEW_TRIAL_FAILED;
        running += state == VIEW_TRIAL_RUNNING;
        begun += experiment->trials[i]->attempts != NULL;
    }
    if (experiment->known && completed == experiment->trial_count) {
        return VIEW_COMPLETED;
    }
    if (view_experiment_cancelled(experiment)) {
        return VIEW_CANCELLED;
    }
    if (experiment->known && completed + failed == experiment->trial_count) {
        return VIEW_FAILED;
    }
    if (view_experiment_paused(experiment)) {
        return VIEW_PAUSED;
    }
    return running > 0 || begun > 0 ? VIEW_RUNNING : VIEW_QUEUED;
}

void view_manifest_add_holder(struct view_manifest *manifest, node_id holder)
{
    bool is_known = false;
    for (uint32_t i = 0; i < manifest->holder_count; i++) {
        is_known |= node_id_equal(manifest->holders[i], holder);
    }
    if (!is_known && manifest->holder_count < FACT_HOLDERS_MAX) {
        manifest->holders[manifest->holder_count++] = holder;
    }
}

void view_manifest_clear_holders(struct view_manifest *manifest)
{
    memset(manifest->holders, 0, sizeof manifest->holders);
    manifest->holder_count = 0;
}

const struct view_manifest *view_manifest_unite(const struct view_manifest *first, struct view_manifest *out)
{
    *out = *first;
    view_manifest_clear_holders(out);
    const struct view_manifest *row = first;
    for (; row != NULL && row->step == first->step && attempt_id_equal(&row->attempt, &first->attempt) &&
           hash256_equal(row->blob, first->blob);
         row = row->next) {
        out->durable |= row->durable;
        if (row->has_metric && !out->has_metric) {
            out->has_metric = true;
            out->metric = row->metric;
        }
        for (uint32_t i = 0; i < row->holder_count; i++) {
            view_manifest_add_holder(out, row->holders[i]);
        }
    }
    out->next = NULL;
    return row;
}

bool view_experiment_over(const struct view_experiment *experiment)
{
    enum view_experiment_state state = view_experiment_state(experiment);
    return state == VIEW_COMPLETED || state == VIEW_CANCELLED || state == VIEW_FAILED;
}

bool view_experiment_live(const struct view_experiment *experiment)
{
    if (!experiment->known) {
        return false;
    }
    if (!view_experiment_over(experiment)) {
        return true;
    }
    /* Attempts that still run somewhere want their verdict, whatever became of the experiment. */
    for (uint32_t i = 0; i < experiment->trial_slots; i++) {
        const struct view_trial *trial = experiment->trials[i];
        for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
            if (a->assigned && a->verdicts == NULL) {
                return true;
            }
        }
    }
    return false;
}

bool view_metric(const uint8_t *metrics, uint32_t bytes, const char *group, const char *name, double *out)
{
    struct pack_reader reader;
    pack_reader_init(&reader, metrics, bytes);
    if (pack_peek(&reader) != PACK_MAP) {
        return false;
    }
    struct pack_reader in_group = pack_find(&reader, group);
    struct pack_reader value = pack_find(&in_group, name);
    double number = pack_read_double(&value);
    if (in_group.failed || value.failed) {
        return false;
    }
    *out = number;
    return true;
}

static uint32_t metrics_copy(const uint8_t *metrics, uint32_t bytes, uint8_t out[FACT_METRICS_BYTES_MAX])
{
    if (bytes > 0) {
        memcpy(out, metrics, bytes);
    }
    return bytes;
}

/* Of a completed attempt what the verdict froze; else the latest that rank 0 has reported. `*step`: of that. */
static uint32_t own_metrics(const struct view *view, const struct view_attempt *attempt, uint64_t *step,
                            uint8_t out[FACT_METRICS_BYTES_MAX])
{
    const struct view_verdict *verdict = view_attempt_verdict(attempt);
    const struct view_worker *first = view_attempt_worker(attempt, 0);
    const struct records_entry *judged = verdict != NULL ? records_find(view->records, verdict->ident) : NULL;
    const struct records_entry *reported = first != NULL ? records_find(view->records, first->ident) : NULL;
    struct fact_verdict fact;
    struct fact_worker worker;
    bool is_judged = judged != NULL && fact_verdict_read(&judged->record, &fact) == 0;
    if ((!is_judged || fact.reason != FACT_COMPLETED) && reported != NULL &&
        fact_worker_read(&reported->record, &worker) == 0) {
        *step = worker.step;
        return metrics_copy(worker.metrics, worker.metrics_bytes, out);
    }
    *step = is_judged ? fact.step : 0;
    return is_judged ? metrics_copy(fact.metrics, fact.metrics_bytes, out) : 0;
}

/* The attempt that saved the checkpoint which `attempt` began from, if its place in the order is lower; else NULL. */
static const struct view_attempt *attempt_before(const struct view *view, const struct view_trial *trial,
                                                 const struct view_attempt *attempt, const struct view_manifest **saved)
{
    for (const struct view_manifest *row = trial->manifests; row != NULL && attempt->start_step > 0; row = row->next) {
        if (row->step == attempt->start_step && hash256_equal(row->blob, attempt->checkpoint) &&
            attempt_id_compare_order(&row->attempt, &attempt->id) < 0) {
            *saved = row;
            return view_find_attempt(view, &row->attempt);
        }
    }
    return NULL;
}

/* {"validation": {METRIC: value}} */
static uint32_t metric_alone(const char *name, double value, uint8_t out[FACT_METRICS_BYTES_MAX])
{
    struct pack_writer writer;
    pack_writer_init(&writer, out, FACT_METRICS_BYTES_MAX);
    pack_map(&writer, 1);
    pack_text(&writer, "validation");
    pack_map(&writer, 1);
    pack_text(&writer, name);
    pack_double(&writer, value);
    return writer.failed ? 0 : (uint32_t)writer.used_bytes;
}

uint32_t view_attempt_metrics(const struct view *view, const struct view_experiment *experiment,
                              const struct view_attempt *attempt, uint8_t out[FACT_METRICS_BYTES_MAX])
{
    const struct view_trial *trial = view_find_trial(experiment, attempt->id.trial);
    const struct view_manifest *saved = NULL;
    uint64_t start_step = attempt->start_step, step;
    uint32_t bytes = own_metrics(view, attempt, &step, out);
    while (bytes == 0 && step == start_step && trial != NULL &&
           (attempt = attempt_before(view, trial, attempt, &saved)) != NULL) {
        bytes = own_metrics(view, attempt, &step, out);
        if (bytes > 0 && step == start_step) {
            return bytes;
        }
        /* Its host may have died before its last report was out, and the checkpoint was there already. */
        if (saved->has_metric && experiment->known) {
            return metric_alone(experiment->config->metric, saved->metric, out);
        }
        if (bytes > 0 || attempt->start_step != start_step) {
            return 0; /* what it said is of another step */
        }
    }
    return bytes;
}

bool view_experiment_best(const struct view *view, const struct view_experiment *experiment, uint32_t *trial,
                          double *value)
{
    bool found = false;
    for (uint32_t i = 0; experiment->known && i < experiment->trial_count && i < experiment->trial_slots; i++) {
        const struct view_attempt *attempt =
            experiment->trials[i] != NULL ? view_trial_completed(experiment->trials[i]) : NULL;
        uint8_t metrics[FACT_METRICS_BYTES_MAX];
        uint32_t bytes = attempt != NULL ? view_attempt_metrics(view, experiment, attempt, metrics) : 0;
        double candidate;
        if (!view_metric(metrics, bytes, "validation", experiment->config->metric, &candidate) ||
            candidate - candidate != 0) {
            continue; /* not completed, not reported, or diverged: infinite or not a number */
        }
        bool better = !found || (experiment->config->smaller_is_better ? candidate < *value : candidate > *value);
        if (better) {
            found = true;
            *trial = i;
            *value = candidate;
        }
    }
    return found;
}

const char *view_trial_state_name(enum view_trial_state state)
{
    static const char *const names[] = {"queued", "running", "completed", "failed"};
    return names[state];
}

const char *view_experiment_state_name(enum view_experiment_state state)
{
    static const char *const names[] = {"queued", "running", "paused", "completed", "cancelled", "failed"};
    return names[state];
}

const char *fact_reason_name(enum fact_reason reason)
{
    static const char *const names[] = {"completed", "failed", "stopped", "lost"};
    CHECK(reason < FACT_REASONS);
    return names[reason];
}
