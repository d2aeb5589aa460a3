#include "node/core/coordinator/custom.h"

#include <math.h>

#include "base/err.h"
#include "base/format.h"
#include "base/probe.h"
#include "node/core/coordinator/coordinator.h"
#include "node/core/coordinator/search.h"
#include "node/core/ground/effects.h"
#include "node/core/ground/publish.h"

#define FAILURES_MAX 8 /* in a row: then the program is not started any more */
#define AGAIN_MS 1000  /* after a failure; twice as long after each further one */
#define AGAIN_MS_MAX 60000
#define EVENT_BYTES (256u * 1024)

/* ---- what the program is ----------------------------------------------------------------------------------------------- */

/* Tells all nodes of the program, for those who ask why nothing happens. */
static void tell(struct node_core *core, struct core_coordination *coordination, const char *text)
{
    struct core_searcher *searcher = &coordination->searcher;
    struct fact_searcher fact = {.starts = searcher->starts,
                                 .failures = searcher->failures,
                                 .is_given_up = searcher->is_given_up,
                                 .differs = searcher->differs};
    uint8_t bytes[FACT_SEARCHER_BYTES + 64];
    struct pack_writer writer;
    bytes_copy_text(fact.text, sizeof fact.text, text);
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_searcher_pack(&writer, &fact);
    searcher->is_told = searcher->failures > 0 || searcher->differs;
    (void)core_put(core, FACT_SEARCHER, fact_key_experiment(coordination->experiment), &writer);
}

/* What this node has said of failures counts no more once the experiment rests: the program is tried anew when it is
 * resumed. */
static void tell_anew(struct node_core *core, struct core_coordination *coordination,
                      const struct view_experiment *experiment)
{
    const struct view_searcher *row = experiment->searchers;
    while (row != NULL && !node_id_equal(row->writer, core->options.self)) {
        row = row->next;
    }
    if (row != NULL && row->fact.failures > 0 && coordination->searcher.failures == 0) {
        tell(core, coordination, "");
    }
}

static void effect_of(struct node_core *core, const struct core_coordination *coordination, enum node_effect_kind kind)
{
    struct node_effect *effect = core_effect(core, kind);
    effect->u.searcher.experiment = coordination->experiment;
    effect->u.searcher.life = coordination->searcher.life;
}

/* A number that is another one if the event is: of the record with it. */
static uint64_t mix(uint64_t before, const struct view_event *event)
{
    const struct record *record = &event->log->records[event->number].entry->record;
    uint64_t value = before ^ UINT64_C(0xcbf29ce484222325);
    for (uint32_t i = 0; i < record->body_bytes; i++) {
        value = (value ^ record->body[i]) * UINT64_C(0x100000001b3);
    }
    return value;
}

/* A new program. What this node last said of an earlier one may not be true any more: it was given up, say. */
static void begin(struct node_core *core, struct core_coordination *coordination, const struct view_experiment *experiment)
{
    struct core_searcher *searcher = &coordination->searcher;
    const struct view_searcher *row = view_custom_searcher(experiment);
    bool is_own = row != NULL && node_id_equal(row->writer, core->options.self);
    searcher->life = ++core->coordinator->lives;
    searcher->starts++;
    searcher->told = 0;
    searcher->told_mix = 0;
    while (searcher->told < experiment->search.event_count &&
           BUG(custom_replay_left_out, "a program that is started again hears of all events of the log")) {
        searcher->told_mix = mix(searcher->told_mix, &experiment->search.events[searcher->told++]);
    }
    searcher->until_ms = 0;
    searcher->state = CORE_SEARCHER_STARTING;
    effect_of(core, coordination, NODE_EFFECT_SEARCHER_START);
    if (is_own && row->fact.failures > searcher->failures) {
        tell(core, coordination, "");
    }
}

/* Ends the program; a new one begins at again_ms. */
static void end(struct node_core *core, struct core_coordination *coordination, uint64_t again_ms)
{
    if (coordination->searcher.state != CORE_SEARCHER_NONE) {
        effect_of(core, coordination, NODE_EFFECT_SEARCHER_STOP);
    }
    coordination->searcher.state = CORE_SEARCHER_NONE;
    coordination->searcher.until_ms = 0;
    coordination->searcher.again_ms = again_ms;
}

static void fail(struct node_core *core, struct core_coordination *coordination, const char *name, const char *why)
{
    struct core_searcher *searcher = &coordination->searcher;
    uint64_t wait_ms = AGAIN_MS;
    for (uint32_t i = 0; i < searcher->failures && wait_ms < AGAIN_MS_MAX; i++) {
        wait_ms *= 2;
    }
    wait_ms = wait_ms < AGAIN_MS_MAX ? wait_ms : AGAIN_MS_MAX;
    searcher->failures++;
    searcher->is_given_up = searcher->failures >= FAILURES_MAX;
    TRACE_EVENT(&core->options.trace, event_of_experiment(EVENT_EXPERIMENT_SEARCHER, coordination->experiment),
                "the program of the search %s %s; %s", name, why,
                searcher->is_given_up ? "it is not started again (pause and resume the experiment to try once more)"
                                      : "it is started again");
    end(core, coordination, core->now_ms + wait_ms);
    tell(core, coordination, why);
}

void custom_leave(struct node_core *core, struct core_coordination *coordination)
{
    struct core_searcher *searcher = &coordination->searcher;
    if (searcher->state != CORE_SEARCHER_NONE && core_has_room(core, 8, 0)) {
        end(core, coordination, 0);
    }
    if (searcher->state == CORE_SEARCHER_NONE) { /* a later lead tries anew */
        searcher->again_ms = 0;
        searcher->failures = 0;
        searcher->is_given_up = false;
    }
}

/* ---- events ------------------------------------------------------------------------------------------------------------ */

/* The program has been told of what the log begins with. After a heal, or where a record of the log is another one, it may not be so. */
static bool is_in_order(const struct view_search *search, struct core_searcher *searcher)
{
    uint64_t value = 0;
    if (searcher->rebuilt == search->rebuilt && searcher->told > 0) {
        return searcher->told <= search->event_count;
    }
    searcher->rebuilt = search->rebuilt;
    for (uint32_t i = 0; i < searcher->told && i < search->event_count; i++) {
        value = mix(value, &search->events[i]);
    }
    return searcher->told <= search->event_count && value == searcher->told_mix;
}

/* The program may have been told of a report that the attempt's own record lacks, or that is behind it: where a node dies,
 * its results may be known and its progress not. */
static void know_reports(const struct view_search *search, struct fact_judged *end)
{
    const struct fact_judged *last = NULL;
    for (uint32_t i = search->judged_count; i-- > 0 && last == NULL;) {
        const struct fact_judged *judged = &search->judged[i].fact;
        bool is_report = judged->decision <= FACT_TOPS_OUT && judged->attempt.trial == end->attempt.trial;
        last = is_report ? judged : NULL;
    }
    bool is_ahead = last != NULL && attempt_id_equal(&last->attempt, &end->attempt) && last->step > end->step;
    end->metric = is_ahead || (last != NULL && isnan(end->metric)) ? last->metric : end->metric;
    end->step = is_ahead ? last->step : end->step;
}

static bool send(struct node_core *core, struct core_coordination *coordination, const struct view_experiment *experiment,
                 const struct fact_search_log *draft)
{
    struct core_searcher *searcher = &coordination->searcher;
    uint8_t *bytes = arena_take(&core->arena, EVENT_BYTES);
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, bytes != NULL ? EVENT_BYTES : 0);
    int error = draft != NULL ? view_custom_new_event(experiment, draft, &writer) : view_custom_event(experiment, searcher->told, &writer);
    bool is_sent = bytes != NULL && error == 0 && core_has_room(core, 8, EVENT_BYTES);
    if (is_sent) {
        const uint8_t *kept = core_effect_bytes(core, bytes, (uint32_t)writer.used_bytes);
        struct node_effect *effect = core_effect(core, NODE_EFFECT_SEARCHER_TELL);
        effect->u.searcher.experiment = coordination->experiment;
        effect->u.searcher.life = searcher->life;
        effect->u.searcher.event = searcher->told;
        effect->bytes = kept;
        effect->byte_count = (uint32_t)writer.used_bytes;
        searcher->state = CORE_SEARCHER_ASKED;
        searcher->is_new = draft != NULL;
        searcher->until_ms = core->now_ms + (uint64_t)experiment->config->searcher_timeout_s * 1000;
    }
    arena_give(&core->arena, bytes, EVENT_BYTES);
    return is_sent;
}

/* A trial that has reached its whole length is stopped by its search, and has completed. */
static enum fact_end end_of(enum view_trial_state state, const struct view_trial *trial)
{
    const struct view_search_stop *stop = view_trial_search_stop(trial);
    bool is_whole = stop != NULL && stop->fact.is_top && !view_trial_stop(trial).stopped;
    bool is_completed = state == VIEW_TRIAL_COMPLETED || (state == VIEW_TRIAL_STOPPED && is_whole);
    return is_completed ? FACT_END_COMPLETED : state == VIEW_TRIAL_FAILED ? FACT_END_FAILED : FACT_END_STOPPED;
}

/* The first trial that is over without the program's knowing. */
static bool first_end(const struct node_core *core, const struct view_experiment *experiment, struct fact_judged *out)
{
    for (uint32_t t = view_next_unsettled(experiment, 0); t < experiment->trial_slots && t < experiment->search.trial_count;
         t = view_next_unsettled(experiment, t + 1)) {
        const struct view_trial *trial = view_find_trial(experiment, t);
        if (trial == NULL || !view_custom_end_is_due(experiment, t)) {
            continue;
        }
        enum view_trial_state state = view_trial_state(experiment, t);
        const struct view_attempt *highest = view_trial_highest(trial), *completed = view_trial_completed(trial);
        const struct view_attempt *last = completed != NULL ? completed : highest;
        const struct view_verdict *verdict = last != NULL ? view_attempt_verdict(last) : NULL;
        uint8_t metrics[FACT_METRICS_BYTES_MAX];
        double metric = NAN;
        uint32_t bytes = last != NULL ? view_attempt_metrics(&core->view, experiment, last, metrics) : 0;
        (void)view_metric(metrics, bytes, "validation", experiment->config->metric, &metric);
        *out = (struct fact_judged){
            .attempt = highest != NULL ? highest->id : (attempt_id){.experiment = experiment->id, .trial = t},
            .decision = FACT_ENDS,
            .step = verdict != NULL ? verdict->step : 0,
            .length = end_of(state, trial),
            .metric = metric};
        know_reports(&experiment->search, out);
        return true;
    }
    return false;
}

/* Some trial with values is not over. */
static bool is_open(const struct view_experiment *experiment)
{
    const struct view_search *search = &experiment->search;
    bool is_open = false;
    for (uint32_t t = 0; t < search->trial_count && !is_open; t++) {
        is_open = view_custom_is_created(experiment, t) && !view_trial_over(view_trial_state(experiment, t));
    }
    return is_open;
}

static void put_finish(struct node_core *core, struct core_coordination *coordination, struct view_experiment *experiment)
{
    const struct fact_search_log fact = {.term = coordination->election.highest.term,
                                         .boot = core->options.boot,
                                         .has_answer = true,
                                         .answer = {.finishes = true}};
    TRACE_EVENT(&core->options.trace, event_of_experiment(EVENT_EXPERIMENT_SEARCHER, experiment->id),
                "the program of the search %s creates no further trials: all that it has created are over",
                experiment->config->name);
    (void)search_put_answer(core, coordination, experiment, &fact);
}

/* Tells the program the next event, one with a recorded answer first. */
static void ask(struct node_core *core, struct core_coordination *coordination, struct view_experiment *experiment)
{
    struct core_searcher *searcher = &coordination->searcher;
    struct fact_search_log draft = {.has_answer = true};
    struct view_search *search = &experiment->search;
    if (searcher->told < search->event_count) {
        (void)send(core, coordination, experiment, NULL);
        return;
    }
    searcher->is_start = !search->is_begun;
    searcher->is_trial = false;
    if (!searcher->is_start && !search->has_more) {
        searcher->is_trial =
            search_first_result(core, experiment, &searcher->draft) || first_end(core, experiment, &searcher->draft);
        if (!searcher->is_trial) {
            bool is_over =
                !is_open(experiment) || BUG(custom_closed_early, "a search is closed once its program has heard the ends of all trials");
            if (!search->is_finished && is_over) {
                put_finish(core, coordination, experiment);
            }
            return;
        }
    }
    draft.answer.is_start = searcher->is_start;
    draft.judged_count = searcher->is_trial;
    draft.judged[0] = searcher->is_trial ? searcher->draft : (struct fact_judged){.decision = FACT_GOES_ON};
    if (!searcher->is_trial || search_create_judged(core, coordination, experiment, &searcher->draft)) {
        (void)send(core, coordination, experiment, &draft);
    }
}

void custom_follow(struct node_core *core, struct core_coordination *coordination, struct view_experiment *experiment)
{
    struct core_searcher *searcher = &coordination->searcher;
    bool rests = view_experiment_cancelled(experiment) || view_experiment_paused(experiment) || coordinator_waits(core, experiment);
    if (!core_has_room(core, 128, 2 * EVENT_BYTES)) {
        return;
    }
    if (rests || experiment->search.trial_count == 0) {
        custom_leave(core, coordination);
        tell_anew(core, coordination, experiment);
        return;
    }
    if (!search_log_make_ready(core, coordination, experiment)) {
        return;
    }
    bool is_late = searcher->until_ms != 0 && core->now_ms >= searcher->until_ms;
    bool is_overtaken = searcher->state == CORE_SEARCHER_ASKED && searcher->is_new && experiment->search.event_count != searcher->told;
    if (searcher->state != CORE_SEARCHER_NONE && (is_overtaken || !is_in_order(&experiment->search, searcher))) {
        MARK(searcher_begins_anew);
        end(core, coordination, core->now_ms);
    } else if (is_late) {
        char why[128];
        format_text(why, sizeof why, searcher->state == CORE_SEARCHER_ASKED ? "has not answered event %u within %u s (searcher.timeout)"
                                                                            : "has not spoken up to event %u within %u s (searcher.timeout): does it call "
                                                                              "shoal.Searcher.run()?",
                    searcher->told, experiment->config->searcher_timeout_s);
        fail(core, coordination, experiment->config->name, why);
    }
    if (searcher->state == CORE_SEARCHER_NONE && !searcher->is_given_up && core->now_ms >= searcher->again_ms) {
        begin(core, coordination, experiment);
    } else if (searcher->state == CORE_SEARCHER_READY) {
        ask(core, coordination, experiment);
    }
}

/* ---- answers ----------------------------------------------------------------------------------------------------------- */

/* The actions of an answer on their way into a record. */
struct taking {
    const struct view_experiment *experiment;
    struct search_space space;
    uint32_t most;
    struct fact_answer answer;
    struct pack_writer creates, stops;
    uint8_t create_bytes[RECORD_BODY_BYTES_MAX], stop_bytes[FACT_ACTIONS_MAX * 16];
    uint32_t next; /* the next trial to create */
    bool is_replay;
    struct fact_actions recorded; /* creations that were recorded, in a replay */
    bool differs;                 /* from what was recorded */
    char why[FACT_SEARCHER_BYTES];
};

/* What the program leaves out is drawn as by the searcher random, unless it depends on a condition. */
static int read_values(struct taking *taking, struct pack_reader values, uint32_t trial, struct fact_draw *draw)
{
    double drawn[SEARCH_PARAMETERS_MAX], own[SEARCH_PARAMETERS_MAX];
    char wrong[SEARCH_NAME_BYTES];
    struct pack_reader reader;
    struct search_head head;
    struct search_parameter parameter;
    uint32_t count = 0;
    int error = search_point_read_strictly(&taking->space, values, own, wrong);
    if (error != 0) {
        format_text(taking->why, sizeof taking->why, "has created a trial with '%s': the hyperparameters have no such name, or not this value",
                    wrong);
        return error;
    }
    pack_reader_init(&reader, taking->space.bytes, taking->space.byte_count);
    error = search_head_read(&reader, &head, &count) != 0 || count > FACT_POINT_MAX ? ERR_MALFORMED
                                                          : search_trial_point(&taking->space, taking->experiment->config->seed, trial, drawn);
    struct pack_reader map = values;
    bool is_empty = pack_read_map(&map) == 0;
    for (uint32_t i = 0; i < count && error == 0; i++) {
        error = search_parameter_read(&reader, &parameter);
        bool is_drawn = isnan(own[i]) && (is_empty || parameter.when_bytes == 0);
        draw->point[i] = is_drawn ? drawn[i] : own[i];
    }
    draw->count = count;
    draw->parent = FACT_NO_TRIAL;
    if (error != 0 || count == 0) {
        format_text(taking->why, sizeof taking->why, "has created a trial, and the search has no hyperparameters");
        return ERR_MALFORMED;
    }
    return 0;
}

static bool is_free(const struct view_experiment *experiment, uint32_t trial)
{
    const struct view_trial *row = view_find_trial(experiment, trial);
    return experiment->search.trials[trial].created == 0 && (row == NULL || row->attempts == NULL);
}

static int take_create(struct taking *taking, struct pack_reader values)
{
    const struct view_search *search = &taking->experiment->search;
    struct fact_draw draw, recorded;
    uint32_t trial = taking->next;
    if (taking->is_replay) { /* what is recorded stands; what went beyond max_trials is not recorded */
        if (!fact_actions_create(&taking->recorded, &trial, &recorded)) {
            return 0;
        }
    } else {
        while (trial < search->trial_count && !is_free(taking->experiment, trial)) {
            trial++;
        }
        taking->next = trial + 1;
        if (trial >= search->trial_count) {
            taking->next = trial;
            return 0;
        }
    }
    if (taking->answer.create_count == taking->most) {
        format_text(taking->why, sizeof taking->why, "has created more than %u trials in one answer", taking->most);
        return ERR_MALFORMED;
    }
    int error = read_values(taking, values, trial < SEARCH_TRIALS_MAX ? trial : 0, &draw);
    if (error != 0) {
        return error;
    }
    taking->answer.create_count++;
    if (taking->is_replay) {
        taking->differs |= !view_draw_is_same(draw.count, draw.point, draw.parent, recorded.count, recorded.point, recorded.parent);
    } else {
        fact_create_pack(&taking->creates, trial, &draw);
    }
    return 0;
}

static int take_stop(struct taking *taking, struct pack_reader *reader)
{
    const struct view_experiment *experiment = taking->experiment;
    uint64_t trial = pack_read_u64(reader);
    if (reader->failed || trial >= experiment->search.trial_count || experiment->search.trials[trial].created == 0) {
        format_text(taking->why, sizeof taking->why, "has stopped a trial that it has not created");
        return ERR_MALFORMED;
    }
    if (taking->answer.stop_count == FACT_ACTIONS_MAX) {
        format_text(taking->why, sizeof taking->why, "has stopped more than %u trials in one answer", FACT_ACTIONS_MAX);
        return ERR_MALFORMED;
    }
    const struct view_trial *row = view_find_trial(experiment, (uint32_t)trial);
    const struct view_attempt *highest = row != NULL ? view_trial_highest(row) : NULL;
    fact_stopped_pack(&taking->stops, (uint32_t)trial, highest != NULL ? highest->id.number : 1);
    taking->answer.stop_count++;
    return 0;
}

static int take_action(struct taking *taking, struct pack_reader *reader)
{
    size_t bytes;
    uint32_t count = pack_read_array(reader);
    const char *word = pack_read_text(reader, &bytes);
    if (!reader->failed && count == 2 && pack_text_is(word, bytes, "create")) {
        struct pack_reader values = *reader;
        pack_skip(reader);
        return reader->failed ? ERR_MALFORMED : take_create(taking, values);
    }
    if (!reader->failed && count == 2 && pack_text_is(word, bytes, "stop")) {
        return take_stop(taking, reader);
    }
    if (!reader->failed && count == 1 && pack_text_is(word, bytes, "finish")) {
        taking->answer.finishes = true;
        return 0;
    }
    format_text(taking->why, sizeof taking->why, "has answered with something that is no action (Create, Stop, Finish)");
    return ERR_MALFORMED;
}

/* 0, or ERR_MALFORMED with taking->why. */
static int take_actions(struct taking *taking, const struct node_event *event)
{
    struct pack_reader reader;
    pack_reader_init(&reader, event->bytes, event->byte_count);
    uint32_t count = pack_read_array(&reader);
    int error = reader.failed ? ERR_MALFORMED : 0;
    taking->answer.has_more = event->u.searcher.has_more;
    for (uint32_t i = 0; i < count && error == 0; i++) {
        error = take_action(taking, &reader);
    }
    if (error == 0 && (taking->creates.failed || taking->stops.failed)) {
        format_text(taking->why, sizeof taking->why, "has given an answer that is too long");
        error = ERR_MALFORMED;
    }
    if (error != 0 && taking->why[0] == '\0') {
        format_text(taking->why, sizeof taking->why, "has given an answer that is no list of actions");
    }
    taking->answer.creates = taking->create_bytes;
    taking->answer.creates_bytes = (uint32_t)taking->creates.used_bytes;
    taking->answer.stops = taking->stop_bytes;
    taking->answer.stops_bytes = (uint32_t)taking->stops.used_bytes;
    return error;
}

/* The same trials are stopped in the same order, and the same is said beside the actions. */
static bool is_same(const struct fact_answer *a, const struct fact_answer *b)
{
    struct fact_actions mine = fact_answer_stops(a), other = fact_answer_stops(b);
    uint32_t trial, other_trial, number;
    bool is_same = a->finishes == b->finishes && a->has_more == b->has_more && a->stop_count == b->stop_count && a->create_count == b->create_count;
    while (is_same && fact_actions_stop(&mine, &trial, &number) && fact_actions_stop(&other, &other_trial, &number)) {
        is_same = trial == other_trial;
    }
    return is_same;
}

/* Whether a trial is stopped by the answer to its own report. */
static bool stops_own(const struct fact_answer *answer, uint32_t trial)
{
    struct fact_actions stops = fact_answer_stops(answer);
    uint32_t other, number;
    while (fact_actions_stop(&stops, &other, &number)) {
        if (other == trial) {
            return true;
        }
    }
    return false;
}

static bool put_answer(struct node_core *core, struct core_coordination *coordination, struct view_experiment *experiment,
                       const struct taking *taking)
{
    const struct core_searcher *searcher = &coordination->searcher;
    struct fact_search_log fact = {.term = coordination->election.highest.term,
                                   .boot = core->options.boot,
                                   .judged_count = searcher->is_trial,
                                   .has_answer = true,
                                   .answer = taking->answer};
    fact.answer.is_start = searcher->is_start;
    if (searcher->is_trial) {
        fact.judged[0] = searcher->draft;
        if (fact.judged[0].decision == FACT_GOES_ON && stops_own(&fact.answer, fact.judged[0].attempt.trial)) {
            fact.judged[0].decision = FACT_STOPS;
        }
    }
    uint32_t before = experiment->search.event_count;
    return search_put_answer(core, coordination, experiment, &fact) && experiment->search.event_count == before + 1;
}

/* What is to be answered is still the next event of the log. */
static bool is_next(struct node_core *core, struct core_coordination *coordination, struct view_experiment *experiment)
{
    struct core_searcher *searcher = &coordination->searcher;
    const struct view_search *search = &experiment->search;
    bool is_new_next = searcher->told == search->event_count && searcher->is_start == !search->is_begun &&
                       (!searcher->is_trial || (view_custom_takes_next(experiment, &searcher->draft)));
    return search_log_make_ready(core, coordination, experiment) && is_in_order(search, searcher) &&
           (searcher->is_new ? is_new_next : searcher->told < search->event_count);
}

static void answered(struct node_core *core, struct core_coordination *coordination, struct view_experiment *experiment,
                     const struct node_event *event)
{
    struct core_searcher *searcher = &coordination->searcher;
    struct taking *taking = arena_take(&core->arena, sizeof *taking);
    if (taking == NULL || !is_next(core, coordination, experiment)) {
        MARK(searcher_answer_out_of_order);
        arena_give(&core->arena, taking, sizeof *taking);
        end(core, coordination, core->now_ms);
        return;
    }
    *taking = (struct taking){.experiment = experiment,
                              .space = config_search_space(experiment->config),
                              .most = view_custom_most(experiment->config),
                              .next = experiment->search.next_trial,
                              .is_replay = !searcher->is_new};
    struct fact_search_log recorded;
    bool is_recorded = taking->is_replay && view_custom_record(experiment, searcher->told, &recorded);
    bool is_own_event = is_recorded && !experiment->search.events[searcher->told].is_known; /* of another it only hears */
    if (is_recorded) {
        taking->recorded = fact_answer_creates(&recorded.answer);
    }
    pack_writer_init(&taking->creates, taking->create_bytes, sizeof taking->create_bytes);
    pack_writer_init(&taking->stops, taking->stop_bytes, sizeof taking->stop_bytes);
    int error = taking->is_replay && !is_own_event ? 0 : take_actions(taking, event);
    searcher->until_ms = 0;
    if (error != 0) {
        fail(core, coordination, experiment->config->name, taking->why);
    } else if (!taking->is_replay && !put_answer(core, coordination, experiment, taking)) {
        end(core, coordination, core->now_ms); /* no memory, or another coordinator */
    } else {
        bool differs = is_own_event && (taking->differs || !is_same(&taking->answer, &recorded.answer));
        if (differs && !searcher->differs) {
            MARK(searcher_answers_otherwise);
            TRACE_EVENT(&core->options.trace, event_of_experiment(EVENT_EXPERIMENT_SEARCHER, experiment->id),
                        "the program of the search %s answers event %u otherwise than before; the first answer stands",
                        experiment->config->name, searcher->told);
        }
        bool is_news = searcher->is_told && searcher->failures > 0 && !taking->is_replay;
        searcher->failures = taking->is_replay ? searcher->failures : 0;
        if ((differs && !searcher->differs) || is_news) {
            searcher->differs |= differs;
            tell(core, coordination, "");
        }
        searcher->told_mix = mix(searcher->told_mix, &experiment->search.events[searcher->told]);
        searcher->told++;
        searcher->state = CORE_SEARCHER_READY;
    }
    arena_give(&core->arena, taking, sizeof *taking);
}

void custom_receive(struct node_core *core, const struct node_event *event)
{
    struct core_coordination *coordination = core_find_coordination(core, event->u.searcher.experiment);
    struct view_experiment *experiment = view_find_experiment(&core->view, event->u.searcher.experiment);
    struct core_searcher *searcher = coordination != NULL ? &coordination->searcher : NULL;
    if (searcher == NULL || experiment == NULL || !experiment->known || !experiment->is_custom || experiment->search.trial_count == 0 ||
        searcher->state == CORE_SEARCHER_NONE || event->u.searcher.life != searcher->life) {
        return;
    }
    experiment->changed = true; /* custom_follow goes on in this step */
    switch (event->kind) {
    case NODE_EVENT_SEARCHER_STARTED:
        if (searcher->state == CORE_SEARCHER_STARTING) {
            searcher->until_ms = core->now_ms + (uint64_t)experiment->config->searcher_timeout_s * 1000;
        }
        break;
    case NODE_EVENT_SEARCHER_READY:
        if (searcher->state == CORE_SEARCHER_STARTING) {
            searcher->until_ms = 0;
            searcher->state = CORE_SEARCHER_READY;
        }
        break;
    case NODE_EVENT_SEARCHER_ANSWER:
        if (searcher->state == CORE_SEARCHER_ASKED && event->u.searcher.event == searcher->told) {
            answered(core, coordination, experiment, event);
        }
        break;
    case NODE_EVENT_SEARCHER_ENDED:
        searcher->state = CORE_SEARCHER_NONE; /* nothing is left to end */
        fail(core, coordination, experiment->config->name, event->u.searcher.text != NULL ? event->u.searcher.text : "has ended");
        break;
    default:
        break;
    }
}

bool custom_reason(const struct view_experiment *experiment, char *out, size_t size)
{
    const struct view_searcher *row = view_custom_searcher(experiment);
    if (row == NULL || row->fact.failures == 0) {
        return false;
    }
    format_text(out, size, "the program of the search (searcher.entrypoint) %s; %s", row->fact.text,
                row->fact.is_given_up ? "it is not started again after 8 failures: shoal pause and shoal resume try once more, shoal cancel ends the "
                                        "experiment"
                                      : "it is started again");
    return true;
}
