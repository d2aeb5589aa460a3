/* The searcher of an experiment (DESIGN 14). All that decides is in records: results, and the log of this coordinator, which takes
 * over the logs of earlier ones. */

#include "node/core/coordinator/search.h"

#include <math.h>

#include "base/probe.h"
#include "node/core/coordinator/coordinator.h"
#include "node/core/coordinator/custom.h"
#include "node/core/coordinator/promotion.h"
#include "node/core/ground/effects.h"
#include "node/core/ground/publish.h"
#include "node/core/members/members.h"

#define PROMOTION_RECORDS 16 /* of a search that promotes, in one pass */

/* ---- results --------------------------------------------------------------------------------------------------------- */

static bool was_rank_0(const struct view_attempt *attempt, node_id node)
{
    bool was = attempt->first_count > 0 && node_id_equal(attempt->first[0].node, node);
    for (const struct view_group *group = attempt->groups; group != NULL && !was; group = group->next) {
        was = group->member_count > 0 && node_id_equal(group->places[0].node, node);
    }
    return was;
}

/* True if this node hears every member of the attempt that has not ended: what else the members have reported is known here. */
static bool is_in_reach(const struct node_core *core, const struct view_attempt *attempt)
{
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        bool has_ended = worker != NULL && worker->state == FACT_WORKER_ENDED;
        if (!has_ended && !core_node_alive(core, attempt->members[rank].node)) {
            return false;
        }
    }
    return true;
}

/* A result to be judged. */
struct candidate {
    const attempt_id *attempt; /* NULL: none */
    uint32_t rung;
    struct fact_result fact;
    node_id writer;
};

/* By (rung, step, trial, attempt, writer): the same results are judged in the same order wherever they wait together. */
static bool is_before(const struct candidate *a, const struct candidate *b)
{
    int order = attempt_id_compare_order(a->attempt, b->attempt);
    return a->rung != b->rung                       ? a->rung < b->rung
           : a->fact.step != b->fact.step           ? a->fact.step < b->fact.step
           : a->attempt->trial != b->attempt->trial ? a->attempt->trial < b->attempt->trial
           : order != 0                             ? order < 0
                                                    : node_id_compare(a->writer, b->writer) < 0;
}

/* What a completed trial of tpe had reached at its end. A trial without the metric stands behind all others. */
static bool end_result(const struct node_core *core, const struct view_experiment *experiment, const struct view_trial *trial,
                       struct candidate *out)
{
    const struct view_attempt *completed = view_trial_completed(trial);
    const struct view_verdict *verdict = completed != NULL ? view_attempt_verdict(completed) : NULL;
    if (verdict == NULL || experiment->config->searcher != SEARCH_TPE) {
        return false;
    }
    uint8_t metrics[FACT_METRICS_BYTES_MAX];
    double metric = NAN;
    uint32_t bytes = view_attempt_metrics(&core->view, experiment, completed, metrics);
    (void)view_metric(metrics, bytes, "validation", experiment->config->metric, &metric);
    *out = (struct candidate){&completed->id, 0, {.step = verdict->step, .length = verdict->step, .metric = metric}, verdict->writer};
    return true;
}

/* The first result of the trial at its next rung, `judged` of whose results are in the record that is being made. Results from
 * before a retry count no more, nor those of an attempt whose end the searcher's program has heard: an end may be known before
 * the last result is. What runs beyond a cut is judged there. */
static bool next_result(const struct node_core *core, const struct view_experiment *experiment, const struct view_trial *trial,
                        uint32_t judged, struct candidate *out)
{
    uint32_t rung = experiment->search.trials[trial->index].rungs + judged, since = view_trial_retried_from(trial);
    const struct view_attempt *highest = view_trial_highest(trial);
    bool found = false;
    bool runs = highest != NULL && view_attempt_verdict(highest) == NULL;
    if (view_search_course(experiment, trial->index) != VIEW_GOES_ON || (runs && !is_in_reach(core, highest))) {
        return false;
    }
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        bool is_heard = a->id.number < experiment->search.trials[trial->index].ended;
        bool counts = a->id.number > since && !is_heard && a->results != NULL && view_trial_continues(trial, &a->id);
        for (const struct view_result *r = counts ? a->results : NULL; r != NULL; r = r->next) {
            const struct candidate candidate = {&a->id, r->rung, r->fact, r->writer};
            if (r->rung == rung && was_rank_0(a, r->writer) && view_result_counts(a, r) && (!found || is_before(&candidate, out))) {
                found = true;
                *out = candidate;
            }
        }
    }
    return found || (rung == 0 && end_result(core, experiment, trial, out));
}

/* ---- decisions ------------------------------------------------------------------------------------------------------- */

/* A record of the log that is being made. */
struct drafting {
    const struct view_experiment *experiment;
    struct search_halving halving;
    struct fact_search_log draft;
};

static void judge(struct drafting *drafting, const struct candidate *candidate)
{
    const struct view_search *search = &drafting->experiment->search;
    uint32_t bracket = search->trials[candidate->attempt->trial].bracket, rung = candidate->rung;
    double metric = candidate->fact.metric;
    struct view_standing standing = view_search_standing(drafting->experiment, search->judged_count, bracket, rung, metric);
    for (uint32_t i = 0; i < drafting->draft.judged_count; i++) {
        const struct fact_judged *earlier = &drafting->draft.judged[i];
        if (earlier->rung == rung && search->trials[earlier->attempt.trial].bracket == bracket) {
            standing.entries++;
            standing.better += search_is_better(earlier->metric, metric, drafting->experiment->config->smaller_is_better);
        }
    }
    bool is_top = rung + 1 >= search->brackets.list[bracket].rungs;
    bool goes_on = search_goes_on(drafting->halving.divisor, metric, standing.better, standing.entries + 1);
    goes_on ^= BUG(search_keeps_the_worst, "a decision follows from the log before it");
    drafting->draft.judged[drafting->draft.judged_count++] =
        (struct fact_judged){.attempt = *candidate->attempt,
                             .rung = rung,
                             .decision = is_top && !isnan(metric) ? FACT_TOPS_OUT : goes_on && !is_top ? FACT_GOES_ON : FACT_STOPS,
                             .step = candidate->fact.step,
                             .length = candidate->fact.length,
                             .metric = metric};
}

/* How many results of the trial are judged in the draft. */
static uint32_t judged_in(const struct fact_search_log *draft, uint32_t trial)
{
    uint32_t judged = 0;
    for (uint32_t i = 0; i < draft->judged_count; i++) {
        judged += draft->judged[i].attempt.trial == trial;
    }
    return judged;
}

/* The first results in order that wait, as many as a record takes. */
struct queue {
    struct candidate items[FACT_JUDGED_MAX];
    uint32_t from, count; /* items[from] to items[count - 1] are left */
};

static void queue_add(struct queue *queue, const struct candidate *candidate)
{
    uint32_t at = queue->count;
    while (at > queue->from && is_before(candidate, &queue->items[at - 1])) {
        at--;
    }
    if (at < FACT_JUDGED_MAX) {
        uint32_t behind = (queue->count < FACT_JUDGED_MAX ? queue->count : FACT_JUDGED_MAX - 1) - at;
        memmove(&queue->items[at + 1], &queue->items[at], behind * sizeof queue->items[0]);
        queue->items[at] = *candidate;
        queue->count += queue->count < FACT_JUDGED_MAX;
    }
}

/* The first result that waits; attempt NULL: none. */
static struct candidate first_result(const struct node_core *core, const struct view_experiment *experiment)
{
    struct candidate candidate, first = {.attempt = NULL};
    for (uint32_t t = view_next_unsettled(experiment, 0); t < experiment->search.trial_count && t < experiment->trial_slots;
         t = view_next_unsettled(experiment, t + 1)) {
        const struct view_trial *trial = experiment->trials[t];
        if (trial != NULL && next_result(core, experiment, trial, 0, &candidate) &&
            (first.attempt == NULL || is_before(&candidate, &first))) {
            first = candidate;
        }
    }
    return first;
}

/* Of a search that promotes: one step of its ladder, from the first result that waits. */
static void climb(const struct node_core *core, struct drafting *drafting)
{
    const struct view_experiment *experiment = drafting->experiment;
    const struct candidate first = first_result(core, experiment);
    promotion_draft(experiment, first.attempt, first.rung, &first.fact, &drafting->draft);
}

/* Of pbt: a trial that is over without a result is judged as such, behind all results that wait. */
static void add_ends(struct drafting *drafting)
{
    const struct view_experiment *experiment = drafting->experiment;
    for (uint32_t t = view_next_unsettled(experiment, 0);
         t < experiment->search.trial_count && t < experiment->trial_slots && drafting->draft.judged_count < FACT_JUDGED_MAX;
         t = view_next_unsettled(experiment, t + 1)) {
        if (experiment->search.trials[t].rungs > 0 || !view_trial_over(view_trial_state(experiment, t))) {
            continue;
        }
        const struct view_trial *trial = view_find_trial(experiment, t);
        const struct view_attempt *highest = trial != NULL ? view_trial_highest(trial) : NULL;
        attempt_id attempt = highest != NULL ? highest->id : (attempt_id){.experiment = experiment->id, .trial = t};
        drafting->draft.judged[drafting->draft.judged_count++] =
            (struct fact_judged){.attempt = attempt, .rung = 0, .decision = FACT_ENDS, .metric = NAN};
        MARK(member_over_without_a_result);
    }
}

/* Judges what waits, in order: one look at the trials, then for each decision the next result of that trial. */
static void judge_all(const struct node_core *core, struct drafting *drafting)
{
    if (drafting->experiment->needs_promotion) {
        climb(core, drafting);
        return;
    }
    const struct view_experiment *experiment = drafting->experiment;
    struct queue queue = {.from = 0};
    struct candidate candidate;
    for (uint32_t t = view_next_unsettled(experiment, 0); t < experiment->search.trial_count && t < experiment->trial_slots;
         t = view_next_unsettled(experiment, t + 1)) {
        const struct view_trial *trial = experiment->trials[t];
        if (trial != NULL && next_result(core, experiment, trial, 0, &candidate)) {
            queue_add(&queue, &candidate);
        }
    }
    while (queue.from < queue.count && drafting->draft.judged_count < FACT_JUDGED_MAX) {
        const struct candidate first = queue.items[queue.from++];
        const struct view_trial *trial = experiment->trials[first.attempt->trial];
        judge(drafting, &first);
        bool goes_on = drafting->draft.judged[drafting->draft.judged_count - 1].decision == FACT_GOES_ON;
        if (goes_on && next_result(core, experiment, trial, judged_in(&drafting->draft, trial->index), &candidate)) {
            queue_add(&queue, &candidate);
        }
    }
    if (experiment->config->searcher == SEARCH_PBT && drafting->draft.judged_count == 0) {
        add_ends(drafting);
    }
}

/* ---- the log --------------------------------------------------------------------------------------------------------- */

static bool put_record(struct node_core *core, struct core_coordination *coordination, const struct fact_search_log *fact)
{
    uint8_t bytes[RECORD_BODY_BYTES_MAX];
    struct pack_writer writer;
    bool is_published;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_search_log_pack(&writer, fact);
    struct fact_key key = fact_key_search_log(coordination->experiment, coordination->log, coordination->log_next);
    (void)core_try_put(core, FACT_SEARCH_LOG, key, &writer, &is_published);
    coordination->log_next += is_published;
    return is_published;
}

static bool is_own(const struct node_core *core, const struct core_coordination *coordination, const struct view_log *log)
{
    return coordination->log_next > 0 && log != NULL && node_id_equal(log->writer, core->options.self) &&
           memcmp(log->name.bytes, coordination->log.bytes, sizeof log->name.bytes) == 0;
}

/* Adds the prefix to what the record adopts; a full record is put first. False: no memory, or no room in the step: the next pass goes
 * on. */
static bool adopt(struct node_core *core, struct core_coordination *coordination, const struct view_log *log, uint32_t until,
                  struct fact_search_log *draft)
{
    if (draft->adopted_count == FACT_ADOPTED_MAX) {
        if (!core_has_room(core, 64, 1u << 17) || !put_record(core, coordination, draft)) {
            return false;
        }
        draft->adopted_count = 0;
    }
    draft->adopted[draft->adopted_count++] = (struct fact_adopted){log->writer, log->name, until};
    return true;
}

/* The lowest log above `last` whose writer has claimed its term. A log adopts lower ones only, so in this order no decision comes before
 * one that it needs. */
static const struct view_log *next_higher(const struct view_experiment *experiment, const struct view_log *last)
{
    const struct view_log *next = NULL;
    for (const struct view_log *log = experiment->search.logs; log != NULL; log = log->next) {
        bool is_above = view_log_counts(experiment, log) && (last == NULL || view_log_is_higher(log, last));
        next = is_above && (next == NULL || view_log_is_higher(next, log)) ? log : next;
    }
    return next;
}

/* A new log takes over the state of the highest log, segment by segment. Every log takes over what it does not have of the others. False:
 * as of adopt. */
static bool adopt_all(struct node_core *core, struct core_coordination *coordination, const struct view_experiment *experiment,
                      struct fact_search_log *draft)
{
    const struct view_search *search = &experiment->search;
    bool is_new = coordination->log_next == 0;
    for (uint32_t i = 0; i < search->segment_count && is_new; i++) {
        if (!adopt(core, coordination, search->segments[i].log, search->segments[i].until, draft)) {
            return false;
        }
    }
    const struct view_log *log = NULL;
    while ((log = next_higher(experiment, log)) != NULL) {
        uint32_t whole = view_log_whole(log);
        if (whole > log->taken && !is_own(core, coordination, log) && !adopt(core, coordination, log, whole, draft)) {
            return false;
        }
    }
    return true;
}

static void stop_trial(struct node_core *core, const struct view_experiment *experiment, uint32_t trial, const struct fact_search_stop *fact)
{
    uint8_t bytes[128];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_search_stop_pack(&writer, fact);
    (void)core_put(core, FACT_SEARCH_STOP, fact_key_trial(experiment->id, trial), &writer);
}

/* The program of the search creates no more trials: those that it has not created never begin. A user's retry of one takes its
 * stop back, and the next stop is behind that. */
static void stop_uncreated(struct node_core *core, const struct view_experiment *experiment)
{
    const struct view_search *search = &experiment->search;
    bool is_finished = experiment->is_custom && search->is_finished && search->highest != NULL;
    for (uint32_t t = search->next_trial; is_finished && t < search->trial_count && core_has_room(core, 64, 1u << 16); t++) {
        if (view_search_course(experiment, t) == VIEW_ENDS && !view_custom_is_created(experiment, t) && !view_trial_over(view_trial_state(experiment, t))) {
            const struct fact_search_stop fact = {.number = view_trial_retried_from(view_find_trial(experiment, t)) + 1,
                                                  .writer = search->highest->writer,
                                                  .log = search->highest->name};
            stop_trial(core, experiment, t, &fact);
        }
    }
}

/* Stops a trial that is to end by a decision that stands. A trial that is over needs no stop. */
static void stop_decided(struct node_core *core, const struct view_experiment *experiment, uint32_t t)
{
    const struct view_trial *trial = view_find_trial(experiment, t);
    const struct view_judged *last = view_search_last(experiment, t);
    if (last == NULL || view_search_course(experiment, t) != VIEW_ENDS || view_trial_stopped(trial) ||
        view_trial_over(view_trial_state(experiment, t))) {
        return; /* without a decision: its search creates no more trials (stop_uncreated) */
    }
    const struct view_attempt *highest = trial != NULL ? view_trial_highest(trial) : NULL;
    uint32_t number = highest != NULL ? highest->id.number : 0;
    const struct fact_search_stop fact = {.number = number > last->fact.attempt.number ? number : last->fact.attempt.number,
                                          .rung = last->fact.rung,
                                          .is_top = last->fact.decision == FACT_TOPS_OUT,
                                          .writer = last->log->writer,
                                          .log = last->log->name,
                                          .record = last->number};
    TRACE_EVENT(&core->options.trace, event_of_trial(EVENT_TRIAL_STOPPED, experiment->id, t),
                "%s trial %u %s at rung %u (step %llu)", experiment->config->name, t,
                fact.is_top ? "has reached its whole length" : "is stopped by the search", fact.rung,
                (unsigned long long)last->fact.step);
    stop_trial(core, experiment, t, &fact);
}

/* A program may stop a trial that it has created and of which nothing else is known yet. */
static void stop_trials(struct node_core *core, const struct view_experiment *experiment)
{
    const struct view_search *search = &experiment->search;
    uint32_t t = view_next_unsettled(experiment, 0), end = search->trial_count;
    end = end < experiment->trial_slots ? end : experiment->trial_slots;
    for (; t < end && core_has_room(core, 64, 1u << 16); t = view_next_unsettled(experiment, t + 1)) {
        if (view_find_trial(experiment, t) != NULL) {
            stop_decided(core, experiment, t);
        }
    }
    for (uint32_t i = 0; experiment->is_custom && i < search->created_count && core_has_room(core, 64, 1u << 16); i++) {
        if (view_find_trial(experiment, search->created[i].attempt.trial) == NULL) {
            stop_decided(core, experiment, search->created[i].attempt.trial);
        }
    }
}

/* ---- trials under way ------------------------------------------------------------------------------------------------ */

/* A trial is under way while an attempt of it runs on nodes that are heard: what runs beyond a cut, or on nodes that are gone, keeps
 * no other trial from its place. */
static bool is_under_way(const struct node_core *core, const struct view_trial *trial)
{
    const struct view_attempt *highest = trial != NULL ? view_trial_highest(trial) : NULL;
    return highest != NULL && view_attempt_verdict(highest) == NULL && is_in_reach(core, highest);
}

static uint32_t bracket_of(const struct view_experiment *experiment, uint32_t trial)
{
    return trial < experiment->search.trial_count ? experiment->search.trials[trial].bracket : 0;
}

static void count_under_way(const struct node_core *core, const struct view_experiment *experiment,
                            struct core_under_way under_way[SEARCH_BRACKETS_MAX])
{
    memset(under_way, 0, SEARCH_BRACKETS_MAX * sizeof under_way[0]);
    for (uint32_t t = view_next_unsettled(experiment, 0); t < experiment->trial_slots; t = view_next_unsettled(experiment, t + 1)) {
        under_way[bracket_of(experiment, t)].running += is_under_way(core, experiment->trials[t]);
        under_way[bracket_of(experiment, t)].promoted += experiment->needs_promotion && promotion_waits(experiment, t);
    }
}

static bool is_counted(const struct view_experiment *experiment, uint32_t trial)
{
    const struct view_trial *row = view_find_trial(experiment, trial);
    const struct view_attempt *highest = row != NULL ? view_trial_highest(row) : NULL;
    return highest != NULL && view_attempt_verdict(highest) == NULL;
}

/* How many trials of the trial's bracket may be under way at a time; 0: any number. */
static uint32_t most_under_way(const struct view_experiment *experiment, uint32_t trial)
{
    if (!search_judges(experiment->config->searcher)) {
        return experiment->config->max_concurrent_trials;
    }
    return experiment->search.brackets.list[experiment->search.trials[trial].bracket].concurrent;
}

/* Of pbt: the parent is known, and its attempts up to the one that was judged have ended, so that their last checkpoint is there. */
static bool has_ended_parent(const struct view_experiment *experiment, uint32_t trial)
{
    if (!view_population_has_parent(experiment, trial)) {
        return false;
    }
    const struct view_trial *parent = view_population_parent(experiment, trial);
    if (parent != NULL && view_trial_over(view_trial_state(experiment, parent->index))) {
        return true; /* another attempt of it, beyond a cut, may have no verdict for ever */
    }
    uint32_t until = parent != NULL ? view_search_last(experiment, parent->index)->fact.attempt.number : 0;
    for (const struct view_attempt *a = parent != NULL ? parent->attempts : NULL; a != NULL; a = a->next) {
        if (a->assigned && a->id.number <= until && view_attempt_verdict(a) == NULL) {
            return false;
        }
    }
    return true;
}

static bool may_begin(const struct core_coordination *coordination, const struct core_under_way under_way[SEARCH_BRACKETS_MAX],
                      const struct view_experiment *experiment, uint32_t trial)
{
    bool halves = search_judges(experiment->config->searcher);
    if (experiment->is_custom && !view_custom_is_created(experiment, trial)) {
        return false;
    }
    bool is_bad = BUG(searched_goes_on, "a trial that its search has stopped begins no more");
    enum view_course course = halves ? view_search_course(experiment, trial) : VIEW_GOES_ON;
    if (halves && (trial >= experiment->search.trial_count || (course == VIEW_ENDS && !is_bad) || course == VIEW_IS_PAUSED)) {
        return false;
    }
    if (experiment->config->searcher == SEARCH_PBT && !has_ended_parent(experiment, trial)) {
        return false;
    }
    const struct view_trial *row = view_find_trial(experiment, trial);
    bool has_begun = row != NULL && view_trial_highest(row) != NULL, is_promoted = halves && view_search_is_promoted(experiment, trial);
    if (has_begun && !is_promoted) {
        return true; /* it goes on */
    }
    uint32_t bracket = bracket_of(experiment, trial), most = most_under_way(experiment, trial);
    uint32_t count = under_way[bracket].running + (is_promoted ? 0 : under_way[bracket].promoted); /* promoted trials come first */
    for (const struct core_gang *gang = coordination->gangs; gang != NULL; gang = gang->next) {
        bool is_here = bracket_of(experiment, gang->attempt.trial) == bracket;
        count += is_here && !gang->is_joining && !is_counted(experiment, gang->attempt.trial);
    }
    return most == 0 || count < most || BUG(bracket_overfull, "no more trials of a bracket train at a time than may");
}

bool search_lets_begin(const struct core_coordination *coordination, const struct view_experiment *experiment, uint32_t trial)
{
    return may_begin(coordination, coordination->under_way, experiment, trial);
}

bool search_is_full(const struct node_core *core, const struct core_coordination *coordination,
                    const struct view_experiment *experiment, uint32_t trial)
{
    struct core_under_way under_way[SEARCH_BRACKETS_MAX];
    count_under_way(core, experiment, under_way);
    return !may_begin(coordination, under_way, experiment, trial);
}

/* Opens this lead's log, if there is none yet, and takes over what earlier logs have decided: in a record of its own, since what comes
 * next follows from it. `*has_adopted`: the state has changed. False: no room or memory, or this node's claim is not the highest any
 * more, as it is about to see. */
static bool log_make_ready(struct node_core *core, struct core_coordination *coordination, struct view_experiment *experiment,
                           bool *has_adopted)
{
    struct fact_search_log adopting = {.term = coordination->election.highest.term, .boot = core->options.boot};
    bool is_open = coordination->log_next > 0;
    if (is_open && !is_own(core, coordination, experiment->search.highest)) {
        return false;
    }
    if (!is_open) {
        uint8_t name[16] = {0};
        if (!BUG(log_named_again, "no two logs have the same name")) {
            core_secret(core, name, sizeof name);
        }
        memcpy(coordination->log.bytes, name, sizeof coordination->log.bytes);
    }
    if (!adopt_all(core, coordination, experiment, &adopting)) {
        return false;
    }
    *has_adopted = adopting.adopted_count > 0;
    return !*has_adopted || (put_record(core, coordination, &adopting) && view_search_refresh(&core->view, experiment));
}

bool search_log_make_ready(struct node_core *core, struct core_coordination *coordination, struct view_experiment *experiment)
{
    bool has_adopted;
    (void)view_search_refresh(&core->view, experiment);
    return experiment->search.trial_count > 0 && core_has_room(core, 64, 1u << 17) &&
           log_make_ready(core, coordination, experiment, &has_adopted);
}

bool search_put_created(struct node_core *core, struct core_coordination *coordination, struct view_experiment *experiment,
                        const struct fact_created *created)
{
    const struct fact_search_log fact = {.term = coordination->election.highest.term,
                                         .boot = core->options.boot,
                                         .has_created = true,
                                         .created = *created};
    return put_record(core, coordination, &fact) && view_search_refresh(&core->view, experiment);
}

/* The values of an attempt are in the log before its results are, also where the log of its coordinator is lost. */
static bool create_judged(struct node_core *core, struct core_coordination *coordination, struct view_experiment *experiment,
                          const struct fact_search_log *draft)
{
    for (uint32_t i = 0; i < draft->judged_count && experiment->is_drawn; i++) {
        const struct view_attempt *attempt = view_find_attempt(&core->view, &draft->judged[i].attempt);
        if (attempt == NULL || attempt->point_count == 0 || view_search_created(experiment, &attempt->id) != NULL) {
            continue;
        }
        MARK(values_restored_to_a_log);
        struct fact_created created = {.attempt = attempt->id, .draw = {.count = attempt->point_count, .parent = attempt->parent}};
        memcpy(created.draw.point, attempt->point, attempt->point_count * sizeof created.draw.point[0]);
        if (!core_has_room(core, 64, 1u << 17) || !search_put_created(core, coordination, experiment, &created)) {
            return false;
        }
    }
    return true;
}

bool search_first_result(const struct node_core *core, const struct view_experiment *experiment, struct fact_judged *out)
{
    const struct candidate first = first_result(core, experiment);
    if (first.attempt == NULL) {
        return false;
    }
    bool is_top = first.rung + 1 >= experiment->search.brackets.list[experiment->search.trials[first.attempt->trial].bracket].rungs;
    *out = (struct fact_judged){.attempt = *first.attempt,
                                .rung = first.rung,
                                .decision = is_top ? FACT_TOPS_OUT : FACT_GOES_ON,
                                .step = first.fact.step,
                                .length = first.fact.length,
                                .metric = first.fact.metric};
    return true;
}

bool search_create_judged(struct node_core *core, struct core_coordination *coordination, struct view_experiment *experiment,
                          const struct fact_judged *judged)
{
    struct fact_search_log draft = {.judged_count = 1};
    draft.judged[0] = *judged;
    return create_judged(core, coordination, experiment, &draft);
}

bool search_put_answer(struct node_core *core, struct core_coordination *coordination, struct view_experiment *experiment,
                       const struct fact_search_log *fact)
{
    return put_record(core, coordination, fact) && view_search_refresh(&core->view, experiment);
}

/* True: a record of decisions was put, and the state has it. */
static bool extend_log(struct node_core *core, struct core_coordination *coordination, struct view_experiment *experiment,
                       struct drafting *drafting)
{
    bool has_adopted = false;
    judge_all(core, drafting);
    if (coordination->log_next == 0 && drafting->draft.judged_count == 0) {
        return false;
    }
    if (!log_make_ready(core, coordination, experiment, &has_adopted)) {
        return false;
    }
    if (has_adopted) {
        drafting->draft.judged_count = 0;
        judge_all(core, drafting);
    }
    drafting->draft.term = coordination->election.highest.term;
    drafting->draft.boot = core->options.boot;
    return drafting->draft.judged_count > 0 && create_judged(core, coordination, experiment, &drafting->draft) &&
           put_record(core, coordination, &drafting->draft) && view_search_refresh(&core->view, experiment);
}

void search_follow(struct node_core *core, struct core_coordination *coordination, struct view_experiment *experiment)
{
    if (!search_judges(experiment->config->searcher)) {
        count_under_way(core, experiment, coordination->under_way);
        return;
    }
    /* If a record that the highest log adopts is missing, the state is incomplete, and a new log adopts what is there. */
    (void)view_search_refresh(&core->view, experiment);
    if (experiment->is_custom) {
        custom_follow(core, coordination, experiment);
    }
    if (experiment->search.trial_count == 0 || view_experiment_cancelled(experiment)) {
        return;
    }
    bool goes_on = !experiment->is_custom; /* of a search that promotes, each record has one decision; the rest comes in the next pass */
    for (uint32_t i = 0; goes_on && i < (experiment->needs_promotion ? PROMOTION_RECORDS : 1) && core_has_room(core, 64, 1u << 17); i++) {
        struct drafting drafting = {.experiment = experiment, .halving = config_search_halving(experiment->config)};
        goes_on = extend_log(core, coordination, experiment, &drafting);
    }
    stop_trials(core, experiment);
    stop_uncreated(core, experiment);
    promotion_pause_trials(core, experiment);
    count_under_way(core, experiment, coordination->under_way);
}
