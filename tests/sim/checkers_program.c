/* Searches in which a program of the user's decides (16 to 18; plans from version 19 on). From the records of a log alone
 * follows which events the program is told of, and in which order; what it answers is computed anew by a program that has
 * heard just these. Shares nothing with node/core/view/custom.c and node/core/coordinator/custom.c. */

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "tests/sim/checkers_inside.h"

/* A log's prefix, as the program that goes on with it knows it. */
struct telling {
    struct checkers_story story; /* whose values each attempt has, and how far each log is in it */
    struct own_program program;
    struct own_before before;
    uint32_t event_count, created; /* created: bits, trials with values */
    bool is_begun, has_more, is_finished;
    struct {
        uint32_t told;  /* reports: of the rungs below it */
        uint32_t ended; /* the number of the attempt whose end was told, plus 1 */
        uint32_t until; /* attempts up to this one are to stop; 0: none */
    } trials[PLAN_TRIALS_MAX];
    /* The event that is wanted, and whether it was there. */
    uint32_t wanted;
    bool is_found;
    struct own_event event;
    bool has_adopted;
};

struct asker {
    struct sim *sim;
    int node;
    uint32_t e;
    const struct plan_experiment *plan;
    struct config config;
    struct search_space space;
};

static void asker_init(struct sim *sim, int node, uint32_t e, struct asker *out)
{
    struct pack_reader reader;
    *out = (struct asker){.sim = sim, .node = node, .e = e, .plan = &sim->plan.experiments[e]};
    pack_reader_init(&reader, out->plan->config, out->plan->config_bytes);
    CHECK(config_unpack(&reader, &out->config) == 0);
    out->space = config_search_space(&out->config);
}

static void telling_begin(const struct asker *asker, uint32_t wanted, struct telling *out)
{
    out->story.count = out->story.created_count = out->story.taken_count = 0;
    own_program_begin(&asker->plan->program.style, &out->program);
    out->before = (struct own_before){.is_there = false};
    out->event_count = out->created = 0;
    out->is_begun = out->has_more = out->is_finished = out->is_found = out->has_adopted = false;
    memset(out->trials, 0, sizeof out->trials);
    out->wanted = wanted;
}

static struct own_values values_of(const struct asker *asker, const struct fact_draw *draw)
{
    uint8_t bytes[256];
    struct pack_writer writer;
    struct pack_reader reader;
    pack_writer_init(&writer, bytes, sizeof bytes);
    if (draw == NULL || draw->count == 0 || search_point_pack(&asker->space, draw->point, &writer) != 0) {
        return (struct own_values){0};
    }
    pack_reader_init(&reader, bytes, writer.used_bytes);
    return own_values_read(reader);
}

/* ---- what a record says ------------------------------------------------------------------------------------------------
 */

/* An end is told once for an attempt, a report once for a rung, in order, and not of an attempt that has ended or is to
 * stop. */
static bool is_told_already(const struct telling *telling, const struct fact_search_log *fact)
{
    if (fact->judged_count == 0) {
        return fact->answer.is_start ? telling->is_begun : !telling->has_more;
    }
    const struct fact_judged *judged = &fact->judged[0];
    uint32_t trial = judged->attempt.trial, number = judged->attempt.number;
    if (trial >= PLAN_TRIALS_MAX || number < telling->trials[trial].ended) {
        return true;
    }
    bool is_stopped = telling->trials[trial].until != 0 && number <= telling->trials[trial].until;
    return judged->decision != FACT_ENDS &&
           (judged->decision > FACT_TOPS_OUT || judged->rung != telling->trials[trial].told || is_stopped);
}

static const struct fact_created *find_created(const struct telling *telling, const attempt_id *attempt)
{
    const struct fact_created *first = NULL;
    for (uint32_t i = 0; i < telling->story.created_count; i++) {
        const struct fact_created *created = &telling->story.created[i];
        if (attempt_id_equal(&created->attempt, attempt)) {
            return created;
        }
        first = first == NULL && created->attempt.trial == attempt->trial ? created : first;
    }
    return first;
}

static void event_of(const struct asker *asker, const struct telling *telling, const struct fact_search_log *fact,
                     struct own_event *out)
{
    const struct fact_judged *judged = &fact->judged[0];
    bool is_known = is_told_already(telling, fact), is_end = judged->decision == FACT_ENDS;
    *out = (struct own_event){.kind = is_known                 ? OWN_OTHER
                                      : fact->judged_count > 0 ? (is_end ? OWN_END : OWN_REPORT)
                                      : fact->answer.is_start  ? OWN_START
                                                               : OWN_MORE,
                              .before = telling->before};
    if (!is_known && fact->judged_count > 0) {
        const struct fact_created *created = find_created(telling, &judged->attempt);
        out->trial = judged->attempt.trial;
        out->step = judged->step;
        out->length = judged->length;
        out->metric = judged->metric;
        out->values = values_of(asker, created != NULL ? &created->draw : NULL);
    }
}

static void add_created(const struct asker *asker, struct telling *telling, const struct fact_created *created)
{
    struct checkers_story *story = &telling->story;
    for (uint32_t i = 0; i < story->created_count; i++) {
        if (attempt_id_equal(&story->created[i].attempt, &created->attempt)) {
            return;
        }
    }
    if (created->attempt.trial >= asker->plan->trials) {
        return;
    }
    if (story->created_count == CHECKERS_STORY_CREATED) {
        sim_fail(asker->sim, 15, "a search has more than %d attempts", CHECKERS_STORY_CREATED);
        return;
    }
    story->created[story->created_count++] = *created;
    telling->created |= 1u << created->attempt.trial;
}

static void take_answer(const struct asker *asker, struct telling *telling, const struct fact_answer *answer)
{
    struct fact_actions creates = fact_answer_creates(answer), stops = fact_answer_stops(answer);
    struct own_before before = {.is_there = true, .is_finished = answer->finishes};
    struct fact_created created = {.attempt = {.experiment = asker->plan->id}};
    uint32_t trial, until;
    while (fact_actions_create(&creates, &created.attempt.trial, &created.draw)) {
        bool has_values = created.attempt.trial < PLAN_TRIALS_MAX && (telling->created >> created.attempt.trial & 1) != 0;
        if (before.created_count < OWN_ACTIONS_MAX) {
            before.created[before.created_count].trial = created.attempt.trial;
            before.created[before.created_count++].values = values_of(asker, &created.draw);
        }
        if (!has_values) {
            add_created(asker, telling, &created);
        }
    }
    while (fact_actions_stop(&stops, &trial, &until)) {
        if (before.stopped_count < OWN_ACTIONS_MAX) {
            before.stopped[before.stopped_count++] = trial;
        }
        if (trial < PLAN_TRIALS_MAX && (telling->created >> trial & 1) != 0 && until > telling->trials[trial].until) {
            telling->trials[trial].until = until;
        }
    }
    telling->before = before;
    telling->is_begun |= answer->is_start;
    telling->is_finished |= answer->finishes;
}

/* The record is the log's next one: what it says is true from here on. */
static void take(const struct asker *asker, struct telling *telling, const struct fact_search_log *fact)
{
    struct own_answer said;
    if (fact->has_created) {
        add_created(asker, telling, &fact->created);
    }
    if (!fact->has_answer) {
        return;
    }
    struct own_event event;
    bool is_known = is_told_already(telling, fact);
    event_of(asker, telling, fact, &event);
    if (telling->event_count == telling->wanted) {
        telling->is_found = true;
        telling->event = event;
    }
    own_program_hear(&telling->program, &event, &said);
    if (!is_known && fact->judged_count > 0) {
        const struct fact_judged *judged = &fact->judged[0];
        uint32_t trial = judged->attempt.trial;
        bool is_end = judged->decision == FACT_ENDS;
        telling->trials[trial].ended = is_end ? judged->attempt.number + 1 : telling->trials[trial].ended;
        telling->trials[trial].told += is_end ? 0 : 1;
        uint32_t until = judged->decision == FACT_GOES_ON ? 0 : judged->attempt.number;
        telling->trials[trial].until = is_end ? telling->trials[trial].until : until;
    }
    take_answer(asker, telling, &fact->answer);
    telling->has_more = is_known ? telling->has_more : fact->answer.has_more;
    telling->event_count++;
}

/* ---- an answer of its own ----------------------------------------------------------------------------------------------
 */

/* Whether the point has the values that the program gave; what it left out follows from the seed and the number. */
static bool has_values_of(const struct asker *asker, const struct own_action *action, uint32_t trial,
                          const struct fact_draw *draw)
{
    double drawn[SEARCH_PARAMETERS_MAX];
    const double given[] = {action->rate, action->hidden};
    const bool is_given[] = {action->has_rate, action->has_hidden};
    CHECK(search_trial_point(&asker->space, asker->config.seed, trial, drawn) == 0);
    bool is_same = draw->count == (asker->plan->program.style.has_hidden ? 2u : 1u) && draw->parent == FACT_NO_TRIAL;
    for (uint32_t i = 0; is_same && i < draw->count; i++) {
        double wanted = is_given[i] ? given[i] : drawn[i];
        is_same = fabs(draw->point[i] - wanted) <= 1e-9 * (fabs(wanted) > 1 ? fabs(wanted) : 1);
    }
    return is_same;
}

/* Each trial that the program creates is the first that has neither values nor, by a lost log, an attempt; those beyond
 * max_trials are left out. */
static bool are_its_creates(const struct asker *asker, const struct telling *telling, const struct own_answer *said,
                            const struct fact_answer *answer)
{
    struct fact_actions creates = fact_answer_creates(answer);
    struct fact_draw draw;
    uint32_t trial, next = 0, begun = asker->sim->checkers->begun[asker->e];
    bool is_left = true;
    for (uint32_t i = 0; i < said->count; i++) {
        if (said->actions[i].kind != OWN_CREATE) {
            continue;
        }
        is_left = is_left && fact_actions_create(&creates, &trial, &draw);
        uint32_t end = is_left ? trial : asker->plan->trials;
        for (; next < end; next++) {
            if (((telling->created | begun) >> next & 1) == 0) {
                return false; /* this one was free */
            }
        }
        if (is_left && (trial < next || trial >= asker->plan->trials || (telling->created >> trial & 1) != 0 ||
                        !has_values_of(asker, &said->actions[i], trial, &draw))) {
            return false;
        }
        next = end + 1;
    }
    return !fact_actions_create(&creates, &trial, &draw);
}

static bool are_its_stops(const struct own_answer *said, const struct fact_answer *answer)
{
    struct fact_actions stops = fact_answer_stops(answer);
    uint32_t trial, until;
    for (uint32_t i = 0; i < said->count; i++) {
        if (said->actions[i].kind == OWN_STOP &&
            (!fact_actions_stop(&stops, &trial, &until) || trial != said->actions[i].trial || until == 0)) {
            return false;
        }
    }
    return !fact_actions_stop(&stops, &trial, &until);
}

static bool says(const struct own_answer *said, enum own_action_kind kind, uint32_t trial)
{
    for (uint32_t i = 0; i < said->count; i++) {
        if (said->actions[i].kind == kind && (kind != OWN_STOP || said->actions[i].trial == trial)) {
            return true;
        }
    }
    return false;
}

/* A coordinator closes a search by itself, once its program has heard the end of all that has values. */
static void check_closed(const struct asker *asker, const struct telling *telling, const struct fact_answer *answer)
{
    checkers_met(asker->sim, PREMISE_17_PROGRAM_CLOSED);
    if (!answer->finishes || answer->create_count > 0 || answer->stop_count > 0) {
        sim_fail(asker->sim, 17, "n%d: the log of experiment %u has an answer to no event", asker->node, asker->e);
    }
    for (uint32_t t = 0; t < asker->plan->trials; t++) {
        if ((telling->created >> t & 1) != 0 && telling->trials[t].ended == 0 && asker->plan->retry_ms[t] == 0) {
            sim_fail(asker->sim, 17,
                     "n%d: the log of experiment %u closes the search, and its program has not heard that trial %u is over",
                     asker->node, asker->e, t);
        }
    }
}

/* What the log says of a report is what the program of the trial has reached. */
static void check_report(const struct asker *asker, const struct fact_judged *judged, const struct own_answer *said)
{
    uint64_t target = (uint64_t)asker->plan->program.every * (judged->rung + 1);
    uint32_t trial = judged->attempt.trial;
    bool is_top = judged->rung + 1 == asker->plan->rungs;
    enum fact_decision wanted = is_top ? FACT_TOPS_OUT : says(said, OWN_STOP, trial) ? FACT_STOPS : FACT_GOES_ON;
    double metric = workers_metric(trial, judged->step);
    target = target < asker->plan->steps ? target : asker->plan->steps;
    bool is_same = (isnan(metric) && isnan(judged->metric)) || fabs(metric - judged->metric) < 1e-9;
    if (judged->rung >= asker->plan->rungs || judged->step < target || !is_same || judged->decision != wanted) {
        sim_fail(asker->sim, 17,
                 "n%d: the log of experiment %u tells of trial %u at rung %u: step %llu, %g, decision %d; it is %g, and %d",
                 asker->node, asker->e, trial, judged->rung, (unsigned long long)judged->step, judged->metric,
                 (int)judged->decision, metric, (int)wanted);
    }
}

/* The next record of the log itself, behind what stands `before` it. */
static void check_own(const struct asker *asker, const struct telling *before, const struct fact_search_log *fact,
                      const struct own_answer *said)
{
    const struct fact_answer *answer = &fact->answer;
    bool is_told = is_told_already(before, fact);
    if (fact->judged_count > 1 || (is_told && (fact->judged_count > 0 || answer->is_start))) {
        sim_fail(asker->sim, 16,
                 "n%d: event %u of experiment %u, of trial %u at rung %u, stands in its log already, or is not the next one",
                 asker->node, before->event_count, asker->e, fact->judged[0].attempt.trial, fact->judged[0].rung);
        return;
    }
    if (is_told) {
        check_closed(asker, before, answer);
        return;
    }
    checkers_met(asker->sim, PREMISE_17_PROGRAM_ANSWERED);
    if (before->has_adopted) {
        checkers_met(asker->sim, PREMISE_17_PROGRAM_ADOPTED);
    }
    if (answer->has_more) {
        checkers_met(asker->sim, PREMISE_17_PROGRAM_MORE);
    }
    if (fact->judged_count > 0 && fact->judged[0].decision != FACT_ENDS) {
        check_report(asker, &fact->judged[0], said);
    }
    if (!are_its_creates(asker, before, said, answer)) {
        sim_fail(asker->sim, 17,
                 "n%d: the answer to event %u of experiment %u creates other trials than its program, which heard the "
                 "events before it",
                 asker->node, before->event_count, asker->e);
    } else if (!are_its_stops(said, answer) || answer->has_more != said->has_more ||
               answer->finishes != says(said, OWN_FINISH, 0)) {
        sim_fail(asker->sim, 17,
                 "n%d: the answer to event %u of experiment %u says something else than its program, which heard the events "
                 "before it",
                 asker->node, before->event_count, asker->e);
    }
}

/* A trial has the values with which it was created, or those of an attempt whose log is lost. */
static void check_created(const struct asker *asker, const struct telling *telling, const struct fact_created *created)
{
    struct fact_draw recorded;
    const struct view_experiment *seen = view_find_experiment(&asker->sim->nodes[asker->node].core->view, asker->plan->id);
    const struct view_trial *trial = seen != NULL ? view_find_trial(seen, created->attempt.trial) : NULL;
    bool is_same = false;
    for (uint32_t i = 0; i < telling->story.created_count; i++) {
        const struct fact_created *other = &telling->story.created[i];
        is_same |= other->attempt.trial == created->attempt.trial && checkers_is_same_draw(&other->draw, &created->draw);
    }
    for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL && !is_same; a = a->next) {
        is_same = checkers_recorded_draw(asker->sim, asker->node, &a->id, &recorded) &&
                  checkers_is_same_draw(&recorded, &created->draw);
    }
    if (created->is_drawn || created->attempt.trial >= asker->plan->trials || !is_same) {
        sim_fail(asker->sim, 17, "n%d: attempt %u of trial %u of experiment %u has values that no program has given it",
                 asker->node, created->attempt.number, created->attempt.trial, asker->e);
    }
    if (checkers_recorded_draw(asker->sim, asker->node, &created->attempt, &recorded) &&
        !checkers_is_same_draw(&recorded, &created->draw)) {
        sim_fail(asker->sim, 17, "n%d: attempt %u of trial %u of experiment %u has other values than its log says",
                 asker->node, created->attempt.number, created->attempt.trial, asker->e);
    }
}

/* ---- logs --------------------------------------------------------------------------------------------------------------
 */

static bool read_record(const struct asker *asker, node_id writer, struct fact_log_name name, uint32_t number,
                        struct fact_search_log *out)
{
    const struct records_entry *entry = checkers_log_record(asker->sim, asker->node, asker->plan->id, writer, name, number);
    return entry != NULL && fact_search_log_read(&entry->record, out) == 0;
}

/* The program that has heard what stands before, and hears this now, says the same. */
static void check_record(const struct asker *asker, const struct telling *telling, const struct fact_search_log *fact)
{
    struct own_program program = telling->program;
    struct own_event event;
    struct own_answer said;
    if (fact->has_created) {
        check_created(asker, telling, &fact->created);
    }
    if (fact->has_answer) {
        event_of(asker, telling, fact, &event);
        own_program_hear(&program, &event, &said);
        check_own(asker, telling, fact, &said);
    }
}

/* Walks over the log as far as the node has it. `is_checked`: compares its own answers with the program's. False: what the
 * log has taken over is not all here. */
static bool walk(const struct asker *asker, node_id writer, struct fact_log_name name, bool is_checked,
                 struct telling *telling)
{
    static struct fact_search_log fact, other;
    for (uint32_t number = 0; read_record(asker, writer, name, number, &fact); number++) {
        for (uint32_t i = 0; i < fact.adopted_count; i++) {
            uint32_t *until = checkers_taken_until(asker->sim, &telling->story, fact.adopted[i].writer, fact.adopted[i].log);
            for (; *until < fact.adopted[i].until; ++*until) {
                if (!read_record(asker, fact.adopted[i].writer, fact.adopted[i].log, *until, &other)) {
                    return false;
                }
                telling->has_adopted = true;
                take(asker, telling, &other);
            }
        }
        if (is_checked) {
            check_record(asker, telling, &fact);
        }
        take(asker, telling, &fact);
    }
    return true;
}

/* A record of a log never changes, nor does what stands before it: one walk will do, at whichever node. */
void checkers_program_log(struct sim *sim, int node, uint32_t e, const struct view_log *log)
{
    static struct telling telling;
    struct asker asker;
    uint32_t whole = view_log_whole(log);
    if (whole == 0) {
        return;
    }
    const struct record *last = &log->records[whole - 1].entry->record;
    uint64_t hash = bytes_hash64(last->body, last->body_bytes, bytes_hash64(last->key, last->key_bytes, whole));
    uint64_t *place = &sim->checkers->programs_seen[hash % PROGRAMS_SEEN];
    if (*place == hash) {
        return;
    }
    asker_init(sim, node, e, &asker);
    telling_begin(&asker, UINT32_MAX, &telling);
    *place = walk(&asker, log->writer, log->name, true, &telling) ? hash : *place;
}

/* Of the log that the node goes by, if there is one. */
static void walk_highest(const struct asker *asker, uint32_t wanted, struct telling *telling)
{
    const struct view_experiment *seen = view_find_experiment(&asker->sim->nodes[asker->node].core->view, asker->plan->id);
    const struct view_log *highest = seen != NULL ? seen->search.highest : NULL;
    telling_begin(asker, wanted, telling);
    if (highest != NULL) {
        (void)walk(asker, highest->writer, highest->name, false, telling);
    }
}

void checkers_on_told(struct sim *sim, int node, uint32_t e, uint64_t told, uint64_t number, bool is_replay,
                      const struct own_event *event)
{
    static struct telling telling;
    struct asker asker;
    if (number != told) {
        sim_fail(sim, 17, "n%d tells the program of experiment %u of event %llu, and event %llu is the next", node, e,
                 (unsigned long long)number, (unsigned long long)told);
        return;
    }
    asker_init(sim, node, e, &asker);
    walk_highest(&asker, (uint32_t)number, &telling);
    if (is_replay) {
        checkers_met(sim, event->kind == OWN_OTHER ? PREMISE_17_PROGRAM_OTHER : PREMISE_17_PROGRAM_REPLAYED);
        if (!telling.is_found || !own_event_is_same(event, &telling.event)) {
            sim_fail(sim, 17,
                     "n%d tells the program of experiment %u of event %llu otherwise than its log has it: kind %d, trial "
                     "%u; the log: %d, %u",
                     node, e, (unsigned long long)number, (int)event->kind, event->trial,
                     telling.is_found ? (int)telling.event.kind : -1, telling.event.trial);
        }
        return;
    }
    telling.event = *event;
    telling.event.before = telling.before;
    bool is_next = event->kind == (telling.has_more ? OWN_MORE : OWN_START) || (telling.is_begun && !telling.has_more);
    if (telling.event_count != number || !own_event_is_same(event, &telling.event) || !is_next) {
        sim_fail(sim, 17, "n%d tells the program of experiment %u of event %llu, kind %d, and its log has %u", node, e,
                 (unsigned long long)number, (int)event->kind, telling.event_count);
    }
}

/* ---- attempts and stops ------------------------------------------------------------------------------------------------
 */

void checkers_program_begins(struct sim *sim, int node, const attempt_id *attempt)
{
    static struct telling telling;
    struct asker asker;
    struct fact_draw recorded;
    int e = checkers_experiment(sim, attempt->experiment);
    if (e < 0 || !sim->plan.experiments[e].program.is_there) {
        return;
    }
    asker_init(sim, node, (uint32_t)e, &asker);
    walk_highest(&asker, UINT32_MAX, &telling);
    const struct fact_created *created = find_created(&telling, attempt);
    bool is_there = created != NULL && attempt_id_equal(&created->attempt, attempt);
    sim->checkers->begun[e] |= attempt->trial < PLAN_TRIALS_MAX ? 1u << attempt->trial : 0;
    if (!is_there || !checkers_recorded_draw(sim, node, attempt, &recorded) ||
        !checkers_is_same_draw(&recorded, &created->draw)) {
        sim_fail(sim, 17, "n%d makes attempt %u of trial %u of experiment %d with values that its log does not have", node,
                 attempt->number, attempt->trial, e);
        return;
    }
    const struct view_trial *trial =
        view_find_trial(view_find_experiment(&sim->nodes[node].core->view, attempt->experiment), attempt->trial);
    uint32_t until = telling.trials[attempt->trial].until;
    if (until > view_trial_retried_from(trial)) {
        sim_fail(sim, 18, "n%d makes attempt %u of trial %u of experiment %d, and its log stops the trial", node,
                 attempt->number, attempt->trial, e);
    }
}

bool checkers_program_stops(struct sim *sim, int node, uint32_t e, uint32_t trial, const struct fact_search_stop *stop,
                            const struct fact_search_log *fact)
{
    static struct telling telling;
    struct asker asker;
    struct fact_actions stops = fact_answer_stops(&fact->answer);
    uint32_t other, until;
    while (fact->has_answer && fact_actions_stop(&stops, &other, &until)) {
        if (other == trial) {
            checkers_met(sim, PREMISE_18_STOPPED_BY_PROGRAM);
            return true;
        }
    }
    /* Nothing is created any more: a trial without values never begins. Whether that is so the writer of the log knows. */
    bool is_of_all = stop->record == 0 && !stop->is_top;
    if (!is_of_all || !node_id_equal(stop->writer, sim->nodes[node].id) || sim->checkers->forgot_ms[node] != 0 ||
        sim->nodes[node].is_twin) {
        return is_of_all;
    }
    asker_init(sim, node, e, &asker);
    telling_begin(&asker, UINT32_MAX, &telling);
    (void)walk(&asker, stop->writer, stop->log, false, &telling);
    return telling.is_finished;
}
