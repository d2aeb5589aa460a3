/* A search in which a program of the user's decides: its events with their answers, in the order of the log (DESIGN 14). */

#include "node/core/view/fold.h"

#include "base/err.h"
#include "base/probe.h"

#define VALUES_BYTES (128u * 1024) /* of all trials that one answer creates */
#define CREATES_BYTES 6000         /* the same in a record of the log */

/* ---- what a coordinator says of the program -------------------------------------------------------------------------- */

static int searcher_order(const void *row, const void *wanted)
{
    const struct view_searcher *a = row, *b = wanted;
    return node_id_compare(a->writer, b->writer);
}

int fold_searcher(struct view *view, const struct records_entry *entry)
{
    const struct record *record = &entry->record;
    struct fact_searcher fact;
    experiment_id id;
    if (fact_searcher_read(record, &fact) != 0 || fact_key_read_experiment(record, &id) != 0) {
        return ERR_MALFORMED;
    }
    const struct view_searcher wanted = {.writer = record->writer};
    struct view_experiment *experiment = view_experiment_row(view, id);
    struct view_searcher *row = experiment != NULL ? view_row(view, &experiment->searchers, &wanted, sizeof wanted, searcher_order) : NULL;
    if (row == NULL) {
        return ERR_FULL;
    }
    row->fact = fact;
    experiment->changed = true;
    return 0;
}

const struct view_searcher *view_custom_searcher(const struct view_experiment *experiment)
{
    struct lamport_top top = view_claim_top(experiment, NULL);
    const struct view_claim *highest = NULL;
    for (const struct view_claim *claim = experiment->claims; claim != NULL; claim = claim->next) {
        bool is_higher = highest == NULL || election_claim_compare((struct election_claim){claim->fact.term, claim->writer},
                                                                   (struct election_claim){highest->fact.term, highest->writer}) > 0;
        highest = lamport_counts(&top, claim->fact.term) && is_higher ? claim : highest;
    }
    const struct view_searcher *row = highest != NULL ? experiment->searchers : NULL;
    while (row != NULL && !node_id_equal(row->writer, highest->writer)) {
        row = row->next;
    }
    return row;
}

/* ---- the state ------------------------------------------------------------------------------------------------------- */

static bool has_stopped(const struct view_search *search, const struct view_searched *trial, uint32_t number)
{
    const struct fact_judged *last = trial->last > 0 ? &search->judged[trial->last - 1].fact : NULL;
    return last != NULL && last->decision != FACT_GOES_ON && last->attempt.number >= number;
}

bool view_custom_takes(const struct view_search *search, const struct fact_judged *judged)
{
    const struct view_searched *trial = &search->trials[judged->attempt.trial];
    bool is_new = judged->attempt.number >= trial->ended; /* of a later attempt than the one whose end is known */
    if (judged->decision == FACT_ENDS) {
        return is_new;
    }
    bool is_next =
        judged->rung == trial->rungs || BUG(custom_told_twice, "the program of a search hears of a trial's rung once, in order");
    return is_new && judged->decision <= FACT_TOPS_OUT && is_next &&
           !has_stopped(search, trial, judged->attempt.number);
}

bool view_custom_takes_next(const struct view_experiment *experiment, const struct fact_judged *judged)
{
    return judged->attempt.trial < experiment->search.trial_count && view_custom_takes(&experiment->search, judged);
}

static bool take_creates(struct view *view, struct view_experiment *experiment, const struct fact_answer *answer)
{
    struct view_search *search = &experiment->search;
    struct fact_actions creates = fact_answer_creates(answer);
    struct fact_created created = {.attempt = {.experiment = experiment->id}};
    while (fact_actions_create(&creates, &created.attempt.trial, &created.draw)) {
        bool is_free = created.attempt.trial < search->trial_count && search->trials[created.attempt.trial].created == 0;
        created.is_drawn = true;
        if (is_free && !view_search_take_created(view, experiment, &created)) {
            return false;
        }
    }
    return true;
}

/* The stop of a trial is a decision without a result of its own. */
static void take_stops(struct view_experiment *experiment, const struct fact_answer *answer, const struct view_log *log, uint32_t number)
{
    struct view_search *search = &experiment->search;
    struct fact_actions stops = fact_answer_stops(answer);
    uint32_t index, until;
    while (fact_actions_stop(&stops, &index, &until)) {
        struct view_searched *trial = index < search->trial_count ? &search->trials[index] : NULL;
        if (trial == NULL || trial->created == 0 || has_stopped(search, trial, until)) {
            continue;
        }
        struct fact_judged closed = {.attempt = {.experiment = experiment->id, .trial = index, .number = until},
                                     .rung = trial->rungs > 0 ? trial->rungs - 1 : 0,
                                     .decision = FACT_CLOSES};
        search->judged[search->judged_count++] = (struct view_judged){closed, log, number};
        trial->last = search->judged_count;
    }
}

bool view_custom_take_answer(struct view *view, struct view_experiment *experiment, const struct fact_search_log *fact, bool is_taken,
                             const struct view_log *log, uint32_t number)
{
    struct view_search *search = &experiment->search;
    const struct fact_answer *answer = &fact->answer;
    uint32_t created_count = search->created_count;
    bool is_known = (fact->judged_count > 0 && !is_taken) || (answer->is_start && search->is_begun) ||
                    (fact->judged_count == 0 && !answer->is_start && !search->has_more); /* the coordinator has closed the search */
    bool is_lost =
        is_known && BUG(custom_creations_lost, "what a program has created stands, also where another log had the event before");
    if (!is_lost && !take_creates(view, experiment, answer)) {
        return false;
    }
    take_stops(experiment, answer, log, number);
    search->is_begun |= answer->is_start;
    search->has_more = is_known ? search->has_more : answer->has_more;
    search->is_finished |= answer->finishes;
    search->events[search->event_count++] = (struct view_event){log, number, created_count, is_known};
    return true;
}

bool view_custom_is_created(const struct view_experiment *experiment, uint32_t trial)
{
    const struct view_attempt *valued = view_trial_valued(view_find_trial(experiment, trial));
    return (trial < experiment->search.trial_count && experiment->search.trials[trial].created > 0) ||
           (valued != NULL && valued->point_count > 0);
}

bool view_custom_end_is_due(const struct view_experiment *experiment, uint32_t trial)
{
    const struct view_search *search = &experiment->search;
    const struct view_trial *row = view_find_trial(experiment, trial);
    const struct view_attempt *highest = row != NULL ? view_trial_highest(row) : NULL;
    return trial < search->trial_count && (highest != NULL ? highest->id.number : 0) >= search->trials[trial].ended &&
           view_search_course(experiment, trial) != VIEW_IS_FREED && view_custom_is_created(experiment, trial) &&
           view_trial_over(view_trial_state(experiment, trial));
}

/* ---- events ---------------------------------------------------------------------------------------------------------- */

uint32_t view_custom_most(const struct config *config)
{
    const struct search_space space = config_search_space(config);
    struct pack_reader reader;
    struct search_head head;
    uint32_t parameters = 0, most = FACT_ACTIONS_MAX;
    pack_reader_init(&reader, space.bytes, space.byte_count);
    (void)search_head_read(&reader, &head, &parameters);
    size_t record = 16 + (size_t)parameters * 9, values = search_values_bytes_max(&space);
    most = CREATES_BYTES / record < most ? (uint32_t)(CREATES_BYTES / record) : most;
    most = VALUES_BYTES / (values + 1) < most ? (uint32_t)(VALUES_BYTES / (values + 1)) : most;
    return most > 0 ? most : 1;
}

bool view_custom_record(const struct view_experiment *experiment, uint32_t number, struct fact_search_log *out)
{
    const struct view_search *search = &experiment->search;
    const struct view_event *event = number < search->event_count ? &search->events[number] : NULL;
    return event != NULL && event->number < event->log->count && event->log->records[event->number].number == event->number &&
           fact_search_log_read(&event->log->records[event->number].entry->record, out) == 0 && out->has_answer;
}

static void put_values(const struct view_experiment *experiment, const double *point, uint32_t count, struct pack_writer *writer)
{
    const struct search_space space = config_search_space(experiment->config);
    struct pack_writer before = *writer;
    if (count == 0 || !search_point_fits(&space, point, count) || search_point_pack(&space, point, writer) != 0) {
        *writer = before;
        pack_nil(writer);
    }
}

/* Of the attempt, else those that the trial was created with, by the first `count` entries of the state, with which the event
 * was told. */
static void put_values_of(const struct view_experiment *experiment, const attempt_id *attempt, uint32_t count,
                          struct pack_writer *writer)
{
    const struct view_search *search = &experiment->search;
    const struct view_created *found = NULL;
    bool is_own = false;
    for (uint32_t at = attempt->trial < search->trial_count ? search->trials[attempt->trial].created : 0; at > 0 && !is_own;
         at = search->created[at - 1].before) {
        const struct view_created *created = &search->created[at - 1];
        is_own = at <= count && attempt_id_equal(&created->attempt, attempt);
        found = at <= count ? created : found;
    }
    put_values(experiment, found != NULL ? found->point : NULL, found != NULL ? found->point_count : 0, writer);
}

/* What came of the answer to the event before: so the program knows, at each event, of the same trials in every life. */
static void put_before(const struct view_experiment *experiment, uint32_t number, struct pack_writer *writer)
{
    struct fact_search_log fact;
    const struct fact_answer *answer = &fact.answer;
    pack_text(writer, "before");
    if (number == 0 || !view_custom_record(experiment, number - 1, &fact)) {
        pack_nil(writer);
        return;
    }
    struct fact_actions creates = fact_answer_creates(answer), stops = fact_answer_stops(answer);
    struct fact_draw draw;
    uint32_t trial, until;
    pack_map(writer, 3);
    pack_text(writer, "created");
    pack_array(writer, answer->create_count);
    while (fact_actions_create(&creates, &trial, &draw)) {
        pack_array(writer, 2);
        pack_u64(writer, trial);
        put_values(experiment, draw.point, draw.count, writer);
    }
    pack_text(writer, "stopped");
    pack_array(writer, answer->stop_count);
    while (fact_actions_stop(&stops, &trial, &until)) {
        pack_u64(writer, trial);
    }
    pack_text(writer, "finished");
    pack_bool(writer, answer->finishes);
}

static int put_event(const struct view_experiment *experiment, uint32_t number, const struct fact_search_log *fact, bool is_known,
                     bool is_replay, struct pack_writer *writer)
{
    static const char *const ends[] = {[FACT_END_COMPLETED] = "completed", [FACT_END_FAILED] = "failed", [FACT_END_STOPPED] = "stopped"};
    const struct fact_judged *judged = fact->judged_count > 0 ? &fact->judged[0] : NULL;
    uint32_t created_count = is_replay ? experiment->search.events[number].created_count : experiment->search.created_count;
    bool is_end = judged != NULL && judged->decision == FACT_ENDS;
    bool is_trial = judged != NULL && !is_known;
    pack_map(writer, 5 + (is_trial ? 5u : 0u));
    pack_text(writer, "event");
    pack_u64(writer, number);
    pack_text(writer, "kind");
    pack_text(writer, is_known ? "other" : is_end ? "end" : is_trial ? "report" : fact->answer.is_start ? "start" : "more");
    pack_text(writer, "most");
    pack_u64(writer, view_custom_most(experiment->config));
    pack_text(writer, "replay");
    pack_bool(writer, is_replay);
    put_before(experiment, number, writer);
    if (is_trial) {
        pack_text(writer, "trial");
        pack_u64(writer, judged->attempt.trial);
        pack_text(writer, "step");
        pack_u64(writer, judged->step);
        pack_text(writer, "metric");
        pack_double(writer, judged->metric);
        pack_text(writer, is_end ? "how" : "length");
        if (is_end) {
            pack_text(writer, ends[judged->length <= FACT_END_STOPPED ? judged->length : FACT_END_STOPPED]);
        } else {
            pack_u64(writer, judged->length);
        }
        pack_text(writer, "values");
        put_values_of(experiment, &judged->attempt, created_count, writer);
    }
    return writer->failed ? ERR_FULL : 0;
}

int view_custom_event(const struct view_experiment *experiment, uint32_t number, struct pack_writer *writer)
{
    const struct view_search *search = &experiment->search;
    uint32_t at = number;
    struct fact_search_log fact;
    if (at + 1 < search->event_count &&
        BUG(custom_events_reordered, "a program that is started again hears of all events in the order of the log")) {
        at ^= 1;
    }
    if (!view_custom_record(experiment, at, &fact)) {
        return ERR_NOT_FOUND;
    }
    return put_event(experiment, number, &fact, search->events[at].is_known, true, writer);
}

int view_custom_new_event(const struct view_experiment *experiment, const struct fact_search_log *draft, struct pack_writer *writer)
{
    return put_event(experiment, experiment->search.event_count, draft, false, false, writer);
}
