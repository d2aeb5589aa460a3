/* Trials that take machines down, and machines that take trials down (DESIGN 7).
 *
 * The fold alone quarantines a trial (view_trial_quarantine). But records do not tell whether a host died soon after a trial's
 * start: every node notes the deaths in its sight, and the coordinator writes them down (FACT_DEATH). A death is charged to a
 * trial if two things hold. The host fell silent: a host that refuses connections has lost its daemon, not its life. And no
 * other host fell silent at the same time, apart from hosts of the trial's other attempts: so a rack that loses its
 * power, however often, and a partition are charged to no trial.
 *
 * A node quarantines itself, since a node alone knows how long its workers lived. Coordinators read the record and avoid the
 * node while other nodes can do the work. A node takes the blame for a trial that failed here within a minute of its start only
 * if the trial's experiment works on another node (a trial completed there, or has run there for more than a minute), and if no
 * other node has seen this trial fail, or a trial of the experiment fail in the same way. For what fails wherever it is tried
 * (a command that does not exist, a typing error, a missing module) comes from the program or its configuration, and only a
 * difference between nodes tells of a node. The rule reads the records that the owners write of their workers, so it is the same
 * whichever coordinator began the attempts.
 *
 * A node also takes the blame for a trial that could not even be started here: the network lets no code through, the disk has
 * no room, the keep is gone. But code that is nowhere can be started nowhere. So such a trial counts only if another living
 * node has started some trial of the experiment, and thus has the code. A trial that was to begin at a checkpoint counts only
 * if a later attempt of this very trial was started on another node. A trial that another node could not start either never
 * counts. */

#include "base/check.h"
#include "base/probe.h"
#include "node/core/ground/publish.h"
#include "node/core/members/quarantine.h"

/* ---- trials: hosts that die ---------------------------------------------------------------------------------------------- */

void core_quarantine_worker(struct node_core *core, const struct record *record)
{
    attempt_id id;
    uint32_t number;
    struct fact_worker fact;
    if (fact_key_read_attempt(record, &id) != 0 || fact_key_read_number(record, &number) != 0 ||
        fact_worker_read(record, &fact) != 0 || fact.state != FACT_WORKER_RUNNING) {
        return;
    }
    struct view_attempt *attempt = view_find_attempt(&core->view, &id);
    for (struct view_worker *w = attempt != NULL ? attempt->workers : NULL; w != NULL; w = w->next) {
        if (w->number != number || !node_id_equal(w->writer, record->writer)) {
            continue;
        }
        if (w->observed.running_ms == 0) {
            w->observed.running_ms = core->now_ms;
            w->observed.is_start_seen = core_node_in_step(core, record->writer);
        }
        w->observed.boot = record->version.boot;
        w->observed.died_ms = 0; /* the worker lives */
    }
}

void core_quarantine_died(struct node_core *core, node_id node)
{
    uint64_t heard_ms = swim_heard_ms(&core->members->swim, node);
    for (uint32_t e = 0; e < core->view.experiment_count; e++) {
        const struct view_experiment *experiment = core->view.experiments[e];
        for (uint32_t i = 0; i < experiment->trial_slots; i++) {
            const struct view_trial *trial = experiment->trials[i];
            for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
                for (struct view_worker *w = a->verdicts == NULL ? a->workers : NULL; w != NULL; w = w->next) {
                    uint64_t lived_ms = heard_ms > w->observed.running_ms ? heard_ms - w->observed.running_ms : 0;
                    if (node_id_equal(w->writer, node) && w->state == FACT_WORKER_RUNNING && w->observed.is_start_seen &&
                        lived_ms < CORE_EARLY_END_MS) {
                        w->observed.died_ms = core->now_ms;
                        w->observed.lived_ms = lived_ms;
                        w->observed.is_judged = false;
                    }
                }
            }
        }
    }
}

static bool ran_elsewhere_on(const struct view_trial *trial, const struct view_attempt *attempt, node_id node)
{
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        for (uint32_t i = 0; i < a->member_count; i++) {
            if (a != attempt && node_id_equal(a->members[i].node, node)) {
                return true;
            }
        }
    }
    return false;
}

static bool died_alone(const struct node_core *core, const struct view_trial *trial, const struct view_attempt *attempt,
                       const struct view_worker *worker)
{
    const struct core_peer *host = core_find_peer(core, worker->writer);
    if (host == NULL || !host->fell_silent || host->died_ms != worker->observed.died_ms) {
        return false;
    }
    for (uint32_t i = 0; i < core->members->peer_count; i++) {
        const struct core_peer *other = core->members->peers[i];
        bool is_near = other->died_ms != 0 && other->died_ms + CORE_DEATH_SETTLE_MS >= worker->observed.died_ms &&
                       other->died_ms <= worker->observed.died_ms + CORE_DEATH_SETTLE_MS;
        if (other != host && is_near && other->fell_silent && !ran_elsewhere_on(trial, attempt, other->id)) {
            return false;
        }
    }
    return true;
}

static bool is_suspect(const struct view_trial *trial, const struct view_attempt *but)
{
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        if (a != but && view_attempt_death(a) != NULL) {
            return true;
        }
    }
    return false;
}

/* How many other trials lost a worker with the same host, and had lost a host before. */
static uint32_t count_suspects(const struct node_core *core, const struct view_trial *trial,
                               const struct view_worker *worker)
{
    uint32_t count = 0;
    for (uint32_t e = 0; e < core->view.experiment_count; e++) {
        const struct view_experiment *experiment = core->view.experiments[e];
        for (uint32_t i = 0; i < experiment->trial_slots; i++) {
            const struct view_trial *other = experiment->trials[i];
            for (const struct view_attempt *a = other != NULL ? other->attempts : NULL; a != NULL; a = a->next) {
                for (const struct view_worker *w = other != trial ? a->workers : NULL; w != NULL; w = w->next) {
                    count += w->observed.died_ms == worker->observed.died_ms && node_id_equal(w->writer, worker->writer) &&
                             is_suspect(other, a);
                }
            }
        }
    }
    return count;
}

/* False: there is no memory for the record. */
static bool put_death(struct node_core *core, const struct view_experiment *experiment, const struct view_trial *trial,
                      const struct view_attempt *attempt, const struct view_worker *worker)
{
    bool is_published;
    struct fact_death fact = {.node = worker->writer,
                              .boot = worker->observed.boot,
                              .lived_ms = worker->observed.lived_ms,
                              .suspects = count_suspects(core, trial, worker)};
    uint8_t bytes[64];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_death_pack(&writer, &fact);
    (void)core_try_put(core, FACT_DEATH, fact_key_verdict(&attempt->id), &writer, &is_published);
    if (!is_published) {
        return false;
    }
    TRACE_EVENT(&core->options.trace, event_of_attempt(EVENT_TRIAL_LOST, &attempt->id),
                "%s trial %u attempt %u: its host %s died %llu s after its start", experiment->config->name,
                attempt->id.trial, attempt->id.number, view_label(&core->view, worker->writer).text,
                (unsigned long long)fact.lived_ms / 1000);
    core_quarantine_told(core, experiment, attempt->id.trial);
    return true;
}

void core_quarantine_judge(struct node_core *core, const struct view_experiment *experiment,
                           const struct view_trial *trial, const struct view_attempt *attempt)
{
    const struct view_verdict *verdict = view_attempt_verdict(attempt);
    for (struct view_worker *w = attempt->workers; w != NULL; w = w->next) {
        if (w->observed.died_ms == 0 || w->observed.is_judged || core->now_ms - w->observed.died_ms < CORE_DEATH_SETTLE_MS) {
            continue;
        }
        w->observed.is_judged = true;
        if (verdict->reason == FACT_LOST && attempt->deaths == NULL && died_alone(core, trial, attempt, w)) {
            MARK(host_died_young);
            w->observed.is_judged = put_death(core, experiment, trial, attempt, w);
        }
    }
}

bool core_quarantine_waits(const struct node_core *core, const struct view_trial *trial)
{
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        for (const struct view_worker *w = a->workers; w != NULL; w = w->next) {
            const struct core_peer *host = w->observed.died_ms != 0 ? core_find_peer(core, w->writer) : NULL;
            if (host != NULL && host->fell_silent && !w->observed.is_judged &&
                core->now_ms - w->observed.died_ms < CORE_DEATH_SETTLE_MS + CORE_HOUSEKEEP_MS) {
                return true;
            }
        }
    }
    return false;
}

bool core_quarantine_avoids(const struct view_trial *trial, node_id node)
{
    const struct fact_stop stop = view_trial_stop(trial);
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        const struct view_verdict *verdict = view_attempt_verdict(a);
        bool has_failed = verdict != NULL && verdict->reason == FACT_FAILED && view_attempt_counts(&stop, a);
        if ((has_failed || view_attempt_death(a) != NULL) && node_id_equal(view_attempt_node(a), node)) {
            return true;
        }
    }
    return false;
}

bool core_quarantine_is_suspect(const struct view_trial *trial)
{
    return is_suspect(trial, NULL);
}

uint32_t core_quarantine_unstarted_count(const struct view_trial *trial, const node_id *node)
{
    uint32_t count = 0;
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        const struct view_verdict *verdict = view_attempt_verdict(a);
        bool is_lost = verdict != NULL && verdict->reason == FACT_LOST, has_run = false, is_unstarted = false;
        for (const struct view_worker *w = a->workers; w != NULL; w = w->next) {
            has_run |= w->has_started;
            is_unstarted |= is_lost && view_worker_is_unstarted(w) && (node == NULL || node_id_equal(w->writer, *node));
        }
        count = is_unstarted ? count + 1 : has_run ? 0 : count;
    }
    return count;
}

void core_quarantine_told(struct node_core *core, const struct view_experiment *experiment, uint32_t index)
{
    char text[256];
    const struct view_trial *trial = view_find_trial(experiment, index);
    if (trial != NULL && core_quarantine_reason(core, trial, experiment->config->retry, text, sizeof text)) {
        TRACE_EVENT(&core->options.trace, event_of_trial(EVENT_TRIAL_FAILED, experiment->id, index),
                    "%s trial %u is %s", experiment->config->name, index, text);
    }
}

bool core_quarantine_reason(const struct node_core *core, const struct view_trial *trial, enum config_retry retry, char *out,
                                 size_t size)
{
    node_id nodes[VIEW_QUARANTINE_NODES];
    uint32_t count;
    enum view_quarantine quarantine = view_trial_quarantine(trial, retry, nodes, &count);
    if (quarantine == VIEW_NO_QUARANTINE) {
        return false;
    }
    MARK(trial_quarantined);
    size_t used = format_text(out, size, "quarantined: %s",
                              quarantine == VIEW_QUARANTINE_SAME       ? "it failed in the same way each time, within 10 s, on"
                              : quarantine == VIEW_QUARANTINE_FAILURES ? "it failed on"
                                                                       : "its host died within 60 s of its start, on");
    for (uint32_t i = 0; i < count; i++) {
        used += format_text(out + used, size - used, "%s %s", i == 0 ? "" : i + 1 < count ? "," : " and",
                            view_label(&core->view, nodes[i]).text);
    }
    return true;
}

/* ---- nodes --------------------------------------------------------------------------------------------------------------- */

static void put_quarantine(struct node_core *core)
{
    uint8_t bytes[256];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_quarantine_pack(&writer, &core->quarantine->own);
    (void)core_put(core, FACT_QUARANTINE, fact_key_empty(), &writer);
}

void core_quarantine_restate(struct node_core *core)
{
    const struct core_quarantine *quarantine = core->quarantine;
    const struct view_member *self = view_find_member(&core->view, core->options.self);
    if (quarantine->has_begun && quarantine->own.is_active && self != NULL && !self->quarantine.is_active) {
        put_quarantine(core);
    }
}

void core_quarantine_record(struct node_core *core, node_id node, const struct fact_quarantine *before)
{
    const struct core_quarantine *quarantine = core->quarantine;
    const struct view_member *member = view_find_member(&core->view, node);
    bool is_begun_here = quarantine->has_begun && quarantine->own.is_active;
    if (core->started && node_id_equal(node, core->options.self) && !is_begun_here) {
        core_quarantine_start(core); /* perhaps of an earlier boot, lost from our disk: only we can end that quarantine */
    }
    if (!core->started || member == NULL || before->is_active == member->quarantine.is_active) {
        return;
    }
    if (member->quarantine.is_active) {
        TRACE_EVENT(&core->options.trace, event_of_node(EVENT_NODE_QUARANTINED, node),
                    "%s is quarantined for %u min: %s", view_label(&core->view, node).text,
                    member->quarantine.minutes, member->quarantine.why);
    } else {
        TRACE_EVENT(&core->options.trace, event_of_node(EVENT_NODE_TRUSTED, node),
                    "%s is quarantined no more", view_label(&core->view, node).text);
    }
    for (uint32_t i = 0; i < core->view.experiment_count; i++) {
        core->view.experiments[i]->changed = true;
    }
}

static bool could_not_start_elsewhere(const struct node_core *core, const struct view_trial *trial)
{
    for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
        for (const struct view_worker *w = a->workers; w != NULL; w = w->next) {
            if (view_worker_is_unstarted(w) && !node_id_equal(w->writer, core->options.self)) {
                return true;
            }
        }
    }
    return false;
}

/* True if a living node has started a worker, and so has the code, and the checkpoint if `failure` lacked that. */
static bool starts_elsewhere(const struct node_core *core, const struct view_experiment *experiment,
                             const struct core_young_failure *failure)
{
    for (uint32_t i = 0; i < experiment->trial_slots; i++) {
        const struct view_trial *trial =
            !failure->lacked_checkpoint || i == failure->attempt.trial ? experiment->trials[i] : NULL;
        for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
            bool is_since = !failure->lacked_checkpoint || a->id.number > failure->attempt.number;
            for (const struct view_worker *w = is_since ? a->workers : NULL; w != NULL; w = w->next) {
                if (w->has_started && !node_id_equal(w->writer, core->options.self) &&
                    swim_state_of(&core->members->swim, w->writer) == SWIM_ALIVE) {
                    return true;
                }
            }
        }
    }
    return false;
}

static bool has_failed_elsewhere(const struct node_core *core, const struct view_trial *trial)
{
    for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
        for (const struct view_worker *w = a->workers; w != NULL; w = w->next) {
            if (w->state == FACT_WORKER_ENDED && w->reason == FACT_FAILED &&
                !node_id_equal(w->writer, core->options.self)) {
                return true;
            }
        }
    }
    return false;
}

/* How the program failed here; 0: not known, or too late or too far on to be compared. */
static uint64_t failure_here(const struct node_core *core, const attempt_id *id)
{
    const struct view_attempt *attempt = view_find_attempt(&core->view, id);
    for (const struct view_worker *w = attempt != NULL ? attempt->workers : NULL; w != NULL; w = w->next) {
        if (node_id_equal(w->writer, core->options.self) && w->reason == FACT_FAILED && w->failure != 0) {
            return w->failure;
        }
    }
    return 0;
}

struct elsewhere {
    bool works, fails_alike;
};

/* `failure`: as in struct fact_worker. */
static struct elsewhere look_elsewhere(const struct node_core *core, const struct view_experiment *experiment, uint64_t failure)
{
    struct elsewhere out = {false, false};
    for (uint32_t i = 0; i < experiment->trial_slots; i++) {
        const struct view_trial *trial = experiment->trials[i];
        for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
            for (const struct view_worker *w = a->workers; w != NULL; w = w->next) {
                bool is_completed = w->state == FACT_WORKER_ENDED && w->reason == FACT_COMPLETED;
                bool is_old = w->state == FACT_WORKER_RUNNING && w->observed.running_ms != 0 &&
                              core->now_ms - w->observed.running_ms >= CORE_EARLY_END_MS;
                bool is_elsewhere = !node_id_equal(w->writer, core->options.self);
                out.works |= (is_completed || is_old) && is_elsewhere;
                out.fails_alike |= failure != 0 && w->failure == failure && is_elsewhere;
            }
        }
    }
    return out;
}

/* How many of the trials that failed here are this node's fault. */
static uint32_t count_blame(const struct node_core *core)
{
    const struct core_quarantine *quarantine = core->quarantine;
    uint32_t blame = 0;
    for (uint32_t i = 0; i < quarantine->young_failure_count; i++) {
        const struct core_young_failure *failure = &quarantine->young_failures[i];
        const struct view_experiment *experiment = view_find_experiment(&core->view, failure->attempt.experiment);
        const struct view_trial *trial =
            experiment != NULL ? view_find_trial(experiment, failure->attempt.trial) : NULL;
        if (failure->is_unstarted && experiment != NULL) {
            blame += starts_elsewhere(core, experiment, failure) && !could_not_start_elsewhere(core, trial);
            continue;
        }
        if (experiment == NULL || has_failed_elsewhere(core, trial)) {
            continue;
        }
        struct elsewhere elsewhere = look_elsewhere(core, experiment, failure_here(core, &failure->attempt));
        bool works = elsewhere.works || BUG(quarantine_without_proof, "a failure counts against a node only if its experiment works elsewhere");
        blame += works && !elsewhere.fails_alike;
    }
    return blame;
}

static void begin_quarantine(struct node_core *core, uint32_t trials)
{
    struct core_quarantine *quarantine = core->quarantine;
    struct fact_quarantine *q = &quarantine->own;
    MARK(node_quarantined);
    q->is_active = true;
    q->level += q->level < FACT_QUARANTINE_LEVEL_MAX;
    q->minutes = q->level < FACT_QUARANTINE_LEVEL_MAX ? 1u << (q->level - 1) : 60;
    bool any_unstarted = false;
    for (uint32_t i = 0; i < quarantine->young_failure_count; i++) {
        any_unstarted |= quarantine->young_failures[i].is_unstarted;
    }
    format_text(q->why, sizeof q->why, "%u trials %sfailed on it within 60 s of their start, and on no other node", trials,
                any_unstarted ? "could not be started or " : "");
    quarantine->until_ms = core->now_ms + q->minutes * 60000ull;
    quarantine->young_failure_count = 0;
    quarantine->has_begun = true;
    put_quarantine(core);
}

static void note_failure(struct node_core *core, const struct core_young_failure *failure)
{
    struct core_quarantine *quarantine = core->quarantine;
    for (uint32_t i = 0; i < quarantine->young_failure_count; i++) {
        struct core_young_failure *same = &quarantine->young_failures[i];
        if (same->attempt.trial == failure->attempt.trial &&
            experiment_id_equal(same->attempt.experiment, failure->attempt.experiment)) {
            *same = same->is_unstarted ? *failure : *same;
            return;
        }
    }
    if (quarantine->young_failure_count == CORE_YOUNG_FAILURES_MAX) {
        quarantine->young_failure_count--;
        memmove(quarantine->young_failures, quarantine->young_failures + 1,
                quarantine->young_failure_count * sizeof quarantine->young_failures[0]);
    }
    quarantine->young_failures[quarantine->young_failure_count++] = *failure;
}

void core_quarantine_unstarted(struct node_core *core, const attempt_id *failed, bool was_preparing)
{
    const struct view_attempt *attempt = view_find_attempt(&core->view, failed);
    struct core_young_failure failure = {
        .attempt = *failed,
        .is_unstarted = true,
        .lacked_checkpoint = was_preparing && (attempt == NULL || attempt->start_step > 0)};
    note_failure(core, &failure);
}

void core_quarantine_exited(struct node_core *core, const attempt_id *ended, uint64_t started_ms, enum fact_reason reason)
{
    struct core_quarantine *quarantine = core->quarantine;
    if (reason == FACT_COMPLETED) {
        quarantine->young_failure_count = 0;
        if (quarantine->own.level > 0) {
            memset(&quarantine->own, 0, sizeof quarantine->own);
            put_quarantine(core);
        }
        return;
    }
    const struct view_attempt *attempt = view_find_attempt(&core->view, ended);
    bool is_young = started_ms != 0 && core->now_ms - started_ms < CORE_EARLY_END_MS;
    if (reason != FACT_FAILED || !is_young || attempt == NULL ||
        !node_id_equal(view_attempt_node(attempt), core->options.self)) {
        return;
    }
    note_failure(core, &(struct core_young_failure){.attempt = *ended});
}

void core_quarantine_housekeep(struct node_core *core)
{
    struct core_quarantine *quarantine = core->quarantine;
    if (quarantine->own.is_active && core->now_ms >= quarantine->until_ms &&
        !BUG(quarantine_stays, "a quarantine ends with its time")) {
        MARK(quarantine_over);
        quarantine->own.is_active = false;
        put_quarantine(core);
    }
    if (!quarantine->own.is_active && quarantine->young_failure_count >= CORE_QUARANTINE_TRIALS) {
        uint32_t blame = count_blame(core);
        if (blame >= CORE_QUARANTINE_TRIALS) {
            begin_quarantine(core, blame);
        }
    }
    if (core->rotate % (CORE_STATUS_MS / CORE_HOUSEKEEP_MS) == 0) {
        core_quarantine_restate(core); /* there may have been no memory for the record */
    }
}

/* ---- two records of one version ------------------------------------------------------------------------------------------ */

void core_quarantine_equivocated(struct node_core *core, node_id node)
{
    struct core_peer *peer = core_find_peer(core, node);
    if (node_id_equal(node, core->options.self)) {
        TRACE_EVENT(&core->options.trace, event_of_node(EVENT_NODE_FALSE, node),
                    "two records of one version by this node differ: a copy of this running machine runs, too; "
                    "end one of them, and start it with a new data directory");
    } else if (peer == NULL || !core_quarantine_is_false(core, node)) {
        TRACE_EVENT(&core->options.trace, event_of_node(EVENT_NODE_FALSE, node),
                    "two records of one version by %s differ: its running machine has been copied, or it lies; quarantined "
                    "here for %u minutes",
                    view_label(&core->view, node).text, CORE_EQUIVOCATION_MS / 60000);
    }
    if (peer != NULL) {
        peer->equivocated_ms = core->now_ms;
    }
}

bool core_quarantine_is_false(const struct node_core *core, node_id node)
{
    const struct core_peer *peer = core_find_peer(core, node);
    return peer != NULL && peer->equivocated_ms != 0 && core->now_ms - peer->equivocated_ms < CORE_EQUIVOCATION_MS;
}

void core_quarantine_start(struct node_core *core)
{
    struct core_quarantine *quarantine = core->quarantine;
    const struct view_member *self = view_find_member(&core->view, core->options.self);
    if (self != NULL) {
        quarantine->own = self->quarantine;
        quarantine->until_ms = core->now_ms + self->quarantine.minutes * 60000ull;
    }
}
