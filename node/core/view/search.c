/* A search that stops trials early: results, logs, and the state that follows from the highest log (DESIGN 14). */

#include "node/core/view/fold.h"

#include <string.h>

#include "base/bisect.h"
#include "base/err.h"
#include "base/probe.h"
#include "node/core/view/population.h"
#include "node/core/view/promotion.h"

static int result_order(const void *row, const void *wanted)
{
    const struct view_result *a = row, *b = wanted;
    return a->rung != b->rung ? (a->rung < b->rung ? -1 : 1) : node_id_compare(a->writer, b->writer);
}

int fold_result(struct view *view, const struct records_entry *entry)
{
    const struct record *record = &entry->record;
    struct fact_result fact;
    uint32_t rung;
    attempt_id id;
    struct view_experiment *experiment;
    struct view_trial *trial;
    struct view_attempt *attempt;
    if (fact_result_read(record, &fact) != 0 || fact_key_read_rung(record, &rung) != 0) {
        return ERR_MALFORMED;
    }
    int error = view_rows_of(view, record, &id, &experiment, &trial, &attempt);
    if (error != 0) {
        return error;
    }
    const struct view_result wanted = {.rung = rung, .writer = record->writer};
    struct view_result *result = view_row(view, &attempt->results, &wanted, sizeof wanted, result_order);
    if (result == NULL) {
        return ERR_FULL;
    }
    result->fact = fact;
    experiment->changed = true;
    return 0;
}

/* ---- logs ------------------------------------------------------------------------------------------------------------ */

static int log_order(const void *row, const void *wanted)
{
    const struct view_log *a = row, *b = wanted;
    int order = node_id_compare(a->writer, b->writer);
    return order != 0 ? order : memcmp(a->name.bytes, b->name.bytes, sizeof a->name.bytes);
}

static uint32_t record_position(const struct view_log *log, uint32_t number)
{
    struct bisection search = bisect_all(log->count);
    while (bisect_next(&search)) {
        bisect_answer(&search, log->records[search.middle].number < number);
    }
    return search.low;
}

/* The record of the log with this number, made if there was none; NULL: the arena is full. */
static struct view_log_record *record_row(struct view *view, struct view_log *log, uint32_t number)
{
    uint32_t at = record_position(log, number);
    if (at < log->count && log->records[at].number == number) {
        return &log->records[at];
    }
    if (log->count == log->slots) {
        uint32_t wanted = log->slots == 0 ? 4 : log->slots * 2;
        void *bigger = arena_grow(view->arena, log->records, log->slots * sizeof *log->records, wanted * sizeof *log->records);
        if (bigger == NULL) {
            return NULL;
        }
        log->records = bigger;
        log->slots = wanted;
    }
    memmove(log->records + at + 1, log->records + at, (log->count - at) * sizeof *log->records);
    log->records[at] = (struct view_log_record){.number = number};
    log->count++;
    return &log->records[at];
}

/* A newer version of the record does not decode: the log ends before it. */
static void forget_record(struct view *view, experiment_id id, const struct view_log *of, uint32_t number)
{
    struct view_experiment *experiment = view_find_experiment(view, id);
    struct view_log *log = experiment != NULL ? view_find_log(experiment, of->writer, of->name) : NULL;
    uint32_t at = log != NULL ? record_position(log, number) : 0;
    if (log == NULL || at >= log->count || log->records[at].number != number) {
        return;
    }
    memmove(log->records + at, log->records + at + 1, (log->count - at - 1) * sizeof *log->records);
    log->count--;
    log->is_replaced |= number < log->taken;
    experiment->search.is_stale = true;
    experiment->changed = true;
}

int fold_search_log(struct view *view, const struct records_entry *entry)
{
    const struct record *record = &entry->record;
    struct fact_search_log fact;
    experiment_id id;
    uint32_t number;
    struct view_log wanted = {.writer = record->writer};
    if (fact_key_read_log(record, &wanted.name, &number) != 0 || fact_key_read_experiment(record, &id) != 0) {
        return ERR_MALFORMED;
    }
    if (fact_search_log_read(record, &fact) != 0) {
        forget_record(view, id, &wanted, number);
        return ERR_MALFORMED;
    }
    struct view_experiment *experiment = view_experiment_row(view, id);
    struct view_log *log = experiment != NULL ? view_row(view, &experiment->search.logs, &wanted, sizeof wanted, log_order) : NULL;
    struct view_log_record *row = log != NULL ? record_row(view, log, number) : NULL;
    if (row == NULL) {
        return ERR_FULL;
    }
    log->is_replaced |= row->entry != NULL && number < log->taken;
    row->entry = entry;
    if (number == 0) {
        log->term = fact.term;
        log->boot = fact.boot;
    }
    experiment->search.is_stale = true;
    experiment->changed = true;
    return 0;
}

uint32_t view_log_whole(const struct view_log *log)
{
    struct bisection search = bisect_all(log->count);
    while (bisect_next(&search)) {
        bisect_answer(&search, log->records[search.middle].number == search.middle);
    }
    return search.low;
}

struct view_log *view_find_log(const struct view_experiment *experiment, node_id writer, struct fact_log_name name)
{
    const struct view_log wanted = {.writer = writer, .name = name};
    struct view_log *log = experiment->search.logs;
    while (log != NULL && log_order(log, &wanted) != 0) {
        log = log->next;
    }
    return log;
}

/* ---- the state ------------------------------------------------------------------------------------------------------- */

bool view_log_counts(const struct view_experiment *experiment, const struct view_log *log)
{
    struct lamport_top top = view_claim_top(experiment, NULL);
    for (const struct view_claim *claim = experiment->claims; claim != NULL; claim = claim->next) {
        if (node_id_equal(claim->writer, log->writer)) {
            return view_log_whole(log) > 0 && claim->fact.term >= log->term && lamport_counts(&top, claim->fact.term);
        }
    }
    return false;
}

bool view_log_is_higher(const struct view_log *a, const struct view_log *b)
{
    int order = election_claim_compare((struct election_claim){a->term, a->writer}, (struct election_claim){b->term, b->writer});
    return order != 0           ? order > 0
           : a->boot != b->boot ? a->boot > b->boot
                                : memcmp(a->name.bytes, b->name.bytes, sizeof a->name.bytes) > 0;
}

static struct view_log *highest_log(const struct view_experiment *experiment)
{
    struct view_log *highest = NULL;
    for (struct view_log *log = experiment->search.logs; log != NULL; log = log->next) {
        highest = view_log_counts(experiment, log) && (highest == NULL || view_log_is_higher(log, highest)) ? log : highest;
    }
    return highest;
}

/* Makes the table of trials, each with its bracket. False: no memory; the state is empty. */
static bool table_make(struct view *view, struct view_experiment *experiment)
{
    struct view_search *search = &experiment->search;
    const struct search_halving halving = config_search_halving(experiment->config);
    struct search_turns turns = {{0}};
    arena_give(view->arena, search->trials, search->trial_count * sizeof *search->trials);
    search->trial_count = 0;
    search->trials = arena_take(view->arena, experiment->trial_count * sizeof *search->trials);
    if (search->trials == NULL) {
        return false;
    }
    search->trial_count = experiment->trial_count;
    search->is_reconfigured = false;
    search_brackets_make(&halving, &search->brackets);
    for (uint32_t t = 0; t < search->trial_count; t++) {
        search->trials[t].bracket = search_next_bracket(&search->brackets, &turns);
    }
    search_brackets_extend(&halving, search->trial_count, &search->brackets);
    if (!view_promotion_make(view, experiment)) {
        arena_give(view->arena, search->trials, search->trial_count * sizeof *search->trials);
        search->trials = NULL;
        search->trial_count = 0;
        search->is_reconfigured = true;
        return false;
    }
    return true;
}

void view_search_forget_created(struct arena *arena, struct view_search *search)
{
    for (uint32_t i = 0; i < search->created_count; i++) {
        arena_give(arena, search->created[i].point, search->created[i].point_count * sizeof *search->created[i].point);
    }
    search->created_count = 0;
}

static bool begin_anew(struct view *view, struct view_experiment *experiment, struct view_log *highest)
{
    struct view_search *search = &experiment->search;
    search->judged_count = search->segment_count = search->event_count = search->next_trial = 0;
    search->rebuilt++;
    search->is_begun = search->has_more = search->is_finished = false;
    view_trials_wake(experiment);
    view_search_forget_created(view->arena, search);
    if ((search->trial_count != experiment->trial_count || search->is_reconfigured) && !table_make(view, experiment)) {
        return false;
    }
    for (uint32_t t = 0; t < search->trial_count; t++) {
        search->trials[t] = (struct view_searched){.bracket = search->trials[t].bracket, .parent = FACT_NO_TRIAL};
    }
    search_ladder_clear(&search->ladder);
    for (struct view_log *log = search->logs; log != NULL; log = log->next) {
        log->taken = 0;
        log->is_replaced = false;
    }
    search->highest = highest;
    return true;
}

static void *array_room(struct view *view, void *array, uint32_t wanted, uint32_t *slots, size_t bytes)
{
    if (wanted <= *slots) {
        return array;
    }
    uint32_t more = *slots * 2 > wanted ? *slots * 2 : wanted;
    void *bigger = arena_grow(view->arena, array, *slots * bytes, more * bytes);
    *slots = bigger != NULL ? more : *slots;
    return bigger;
}

/* Room for the decisions of one more record, and for one more segment. */
static bool has_room(struct view *view, struct view_experiment *experiment)
{
    struct view_search *search = &experiment->search;
    uint32_t actions = experiment->is_custom ? FACT_ACTIONS_MAX : 0;
    void *judged = array_room(view, search->judged, search->judged_count + FACT_JUDGED_MAX + actions, &search->judged_slots,
                              sizeof *search->judged);
    search->judged = judged != NULL ? judged : search->judged;
    void *segments = array_room(view, search->segments, search->segment_count + 1, &search->segment_slots, sizeof *search->segments);
    search->segments = segments != NULL ? segments : search->segments;
    void *created = array_room(view, search->created, search->created_count + 1 + actions, &search->created_slots,
                               sizeof *search->created);
    search->created = created != NULL ? created : search->created;
    void *events = array_room(view, search->events, search->event_count + 1, &search->event_slots, sizeof *search->events);
    search->events = events != NULL ? events : search->events;
    return events != NULL && judged != NULL && segments != NULL && created != NULL && view_promotion_has_room(view, search);
}

/* A decision that the state has already is passed over, and one that leaves a rung out. */
static bool take_judged(struct view_experiment *experiment, const struct fact_judged *judged, const struct view_log *log, uint32_t number)
{
    struct view_search *search = &experiment->search;
    struct view_searched *trial = judged->attempt.trial < search->trial_count ? &search->trials[judged->attempt.trial] : NULL;
    bool is_known_rung = trial != NULL && judged->rung < search->brackets.list[trial->bracket].rungs;
    bool is_promoting = search->ladder.climbers != NULL, is_end = experiment->config->searcher == SEARCH_PBT && judged->decision == FACT_ENDS;
    bool is_next = is_known_rung && (experiment->is_custom ? view_custom_takes(search, judged)
                                     : is_promoting ? view_promotion_take(search, judged)
                                                  : (judged->rung == trial->rungs && (judged->decision <= FACT_TOPS_OUT || is_end)) ||
                                                        BUG(judged_twice, "a rung of a trial counts once"));
    if (!is_next) {
        MARK(decision_known_already);
        return false;
    }
    search->judged[search->judged_count++] = (struct view_judged){*judged, log, number};
    trial->rungs += judged->decision <= FACT_PAUSES || is_end ? 1 : 0;
    if (experiment->is_custom && judged->decision == FACT_ENDS) {
        trial->ended = judged->attempt.number + 1; /* what stops the trial stands */
    } else {
        trial->last = search->judged_count;
    }
    view_population_note(experiment, judged->attempt.trial);
    return true;
}

/* An attempt has one entry: a second log may have written the same again. False: no memory. */
bool view_search_take_created(struct view *view, struct view_experiment *experiment, const struct fact_created *fact)
{
    struct view_search *search = &experiment->search;
    if (fact->attempt.trial >= search->trial_count || view_search_created(experiment, &fact->attempt) != NULL) {
        return true;
    }
    double *point = arena_take(view->arena, fact->draw.count * sizeof *point);
    if (point == NULL) {
        return false;
    }
    memcpy(point, fact->draw.point, fact->draw.count * sizeof *point);
    struct view_searched *trial = &search->trials[fact->attempt.trial];
    search->created[search->created_count++] = (struct view_created){.attempt = fact->attempt,
                                                                     .is_drawn = fact->is_drawn,
                                                                     .before = trial->created,
                                                                     .point_count = fact->draw.count,
                                                                     .parent = fact->draw.parent,
                                                                     .point = point};
    trial->created = search->created_count;
    while (search->next_trial < search->trial_count && search->trials[search->next_trial].created > 0) {
        search->next_trial++;
    }
    return true;
}

static void note_segment(struct view_search *search, const struct view_log *log)
{
    struct view_segment *last = search->segment_count > 0 ? &search->segments[search->segment_count - 1] : NULL;
    if (last == NULL || last->log != log) {
        last = &search->segments[search->segment_count++];
    }
    *last = (struct view_segment){log, log->taken};
}

/* Takes the decisions of the log's next record, but what it adopts. False: no memory, or no such record. */
static bool take_record(struct view *view, struct view_experiment *experiment, struct view_log *log, struct fact_search_log *fact)
{
    struct view_search *search = &experiment->search;
    if (log->taken >= log->count || log->records[log->taken].number != log->taken || !has_room(view, experiment) ||
        fact_search_log_read(&log->records[log->taken].entry->record, fact) != 0) {
        return false;
    }
    if (fact->has_created && !view_search_take_created(view, experiment, &fact->created)) {
        return false;
    }
    bool is_taken = false;
    for (uint32_t i = 0; i < fact->judged_count && (fact->has_answer || !experiment->is_custom); i++) {
        is_taken |= take_judged(experiment, &fact->judged[i], log, log->taken);
    }
    if (!view_population_follow(view, experiment)) {
        return false; /* what was taken of the record is passed over the next time */
    }
    if (experiment->is_custom && fact->has_answer && !view_custom_take_answer(view, experiment, fact, is_taken, log, log->taken)) {
        return false;
    }
    log->taken++;
    note_segment(search, log);
    return true;
}

/* Takes what the next record of the highest log adopts. False: no memory, or a record of another log is not here: the state waits
 * for it. A successor that never gets it adopts what is there. */
static bool take_adopted(struct view *view, struct view_experiment *experiment, struct view_log *highest)
{
    struct fact_search_log fact, other;
    if (fact_search_log_read(&highest->records[highest->taken].entry->record, &fact) != 0) {
        return false;
    }
    for (uint32_t i = 0; i < fact.adopted_count && !BUG(adoption_left_out, "a log takes over what earlier ones have decided"); i++) {
        struct view_log *log = view_find_log(experiment, fact.adopted[i].writer, fact.adopted[i].log);
        while (log == NULL || log->taken < fact.adopted[i].until) {
            if (log == NULL || log == highest || !take_record(view, experiment, log, &other)) {
                MARK(adopted_record_is_missing);
                return false;
            }
        }
    }
    return true;
}

bool view_search_awaits(const struct view_experiment *experiment, const struct view_trial *trial)
{
    const struct view_search *search = &experiment->search;
    if (!search_judges(experiment->config->searcher) || trial->index >= search->trial_count) {
        return false;
    }
    if (trial->index < search->ladder.climber_count && search->ladder.climbers[trial->index].place != SEARCH_DONE) {
        return true; /* it may be promoted or closed, or its end is to be noted */
    }
    if (experiment->is_custom && view_custom_end_is_due(experiment, trial->index)) {
        return true;
    }
    if (view_search_course(experiment, trial->index) != VIEW_GOES_ON) {
        return false;
    }
    if (experiment->config->searcher == SEARCH_PBT && search->trials[trial->index].rungs == 0) {
        return true; /* its end is to be noted, if it has no result */
    }
    if (experiment->config->searcher == SEARCH_TPE && search->trials[trial->index].rungs == 0 && view_trial_completed(trial) != NULL) {
        return true; /* what it had reached at its end is its result */
    }
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        bool is_heard = a->id.number < search->trials[trial->index].ended;
        for (const struct view_result *r = is_heard ? NULL : a->results; r != NULL; r = r->next) {
            if (r->rung >= search->trials[trial->index].rungs && view_result_counts(a, r)) {
                return true;
            }
        }
    }
    return false;
}

/* Takes what the highest log has more by now. False: as of view_search_refresh. */
static bool take_new(struct view *view, struct view_experiment *experiment)
{
    struct view_search *search = &experiment->search;
    struct view_log *highest = highest_log(experiment);
    bool is_anew = highest != search->highest || search->trial_count != experiment->trial_count || search->is_reconfigured;
    for (const struct view_log *log = search->logs; log != NULL; log = log->next) {
        is_anew |= log->is_replaced;
    }
    if (is_anew && !begin_anew(view, experiment, highest)) {
        return false;
    }
    uint32_t whole = highest != NULL ? view_log_whole(highest) : 0;
    struct fact_search_log fact;
    while (highest != NULL && highest->taken < whole) {
        if (!take_adopted(view, experiment, highest) || !take_record(view, experiment, highest, &fact)) {
            return false;
        }
    }
    search->is_stale = false;
    return true;
}

/* A trial about which a decision was taken may wait for the next one, with a result that is here already. */
bool view_search_refresh(struct view *view, struct view_experiment *experiment)
{
    struct view_search *search = &experiment->search;
    if (!search->is_stale || !experiment->known || !search_judges(experiment->config->searcher)) {
        return true;
    }
    uint32_t before = search->judged_count;
    bool is_whole = take_new(view, experiment);
    for (uint32_t i = before; i < search->judged_count; i++) {
        view_trial_wake(experiment, search->judged[i].fact.attempt.trial);
    }
    return is_whole;
}

const struct view_judged *view_search_last(const struct view_experiment *experiment, uint32_t trial)
{
    const struct view_search *search = &experiment->search;
    return trial < search->trial_count && search->trials[trial].last > 0 ? &search->judged[search->trials[trial].last - 1] : NULL;
}

enum view_course view_search_course(const struct view_experiment *experiment, uint32_t trial)
{
    const struct view_judged *last = view_search_last(experiment, trial);
    if (experiment->is_custom && last == NULL && experiment->search.is_finished && !view_custom_is_created(experiment, trial)) {
        return VIEW_ENDS;
    }
    if (last == NULL || last->fact.decision == FACT_GOES_ON || last->fact.decision == FACT_PROMOTES || last->fact.decision == FACT_ENDS) {
        return VIEW_GOES_ON;
    }
    if (last->fact.decision == FACT_PAUSES) { /* a user that stops and retries a paused trial lets it go on */
        bool is_retried = last->fact.attempt.number <= view_trial_retried_from(view_find_trial(experiment, trial));
        return is_retried ? VIEW_GOES_ON : VIEW_IS_PAUSED;
    }
    return last->fact.attempt.number > view_trial_retried_from(view_find_trial(experiment, trial)) ? VIEW_ENDS : VIEW_IS_FREED;
}

struct view_standing view_search_standing(const struct view_experiment *experiment, uint32_t count, uint32_t bracket, uint32_t rung,
                                          double metric)
{
    const struct view_search *search = &experiment->search;
    struct view_standing standing = {0, 0};
    for (uint32_t i = 0; i < count; i++) {
        const struct fact_judged *judged = &search->judged[i].fact;
        bool is_compared = search->trials[judged->attempt.trial].bracket == bracket;
        if (judged->rung == rung && (is_compared || BUG(brackets_compared, "brackets are never compared with each other"))) {
            standing.entries++;
            standing.better += search_is_better(judged->metric, metric, experiment->config->smaller_is_better);
        }
    }
    return standing;
}

const struct view_created *view_search_created(const struct view_experiment *experiment, const attempt_id *attempt)
{
    const struct view_search *search = &experiment->search;
    uint32_t at = attempt->trial < search->trial_count ? search->trials[attempt->trial].created : 0;
    while (at > 0 && !attempt_id_equal(&search->created[at - 1].attempt, attempt)) {
        at = search->created[at - 1].before;
    }
    return at > 0 ? &search->created[at - 1] : NULL;
}
