/* Searches that stop trials early (16 to 19; plans from version 15 on). What the coordinators have decided is computed anew from the logs
 * alone, by code that shares nothing with train/search. */

#include <math.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"
#include "tests/sim/checkers_inside.h"
#include "train/search/pbt.h"
#include "train/search/tpe.h"

#define LOGS_MAX CHECKERS_STORY_LOGS
#define CREATED_MAX CHECKERS_STORY_CREATED

const struct records_entry *checkers_log_record(const struct sim *sim, int node, experiment_id experiment, node_id writer,
                                                struct fact_log_name name, uint32_t number)
{
    struct fact_key key = fact_key_search_log(experiment, name, number);
    return records_find(&sim->nodes[node].core->records, record_ident_of(writer, FACT_SEARCH_LOG, key.bytes, key.count));
}

static uint32_t rungs_told(const struct checkers_story *story, uint32_t trial)
{
    uint32_t rungs = 0;
    for (uint32_t i = 0; i < story->count; i++) {
        rungs += story->entries[i].attempt.trial == trial;
    }
    return rungs;
}

uint32_t *checkers_taken_until(struct sim *sim, struct checkers_story *story, node_id writer, struct fact_log_name name)
{
    uint32_t i = 0;
    while (i < story->taken_count && (!node_id_equal(story->taken[i].writer, writer) ||
                                      memcmp(story->taken[i].name.bytes, name.bytes, sizeof name.bytes) != 0)) {
        i++;
    }
    if (i == story->taken_count) {
        if (story->taken_count == LOGS_MAX) {
            sim_fail(sim, 15, "an experiment has more than %d logs", LOGS_MAX);
            return &story->taken[0].until;
        }
        story->taken[i].writer = writer;
        story->taken[i].name = name;
        story->taken[i].until = 0;
        story->taken_count++;
    }
    return &story->taken[i].until;
}

/* Further trials take the brackets of the first ones in the same turn. */
static uint32_t bracket_of(const struct plan_experiment *plan, uint32_t trial)
{
    return plan->brackets.of[trial % plan->trials];
}

/* What the rule says of an entry behind those that stand before it: of n of its bracket at the rung the best n / divisor go on, and at
 * least one. */
static enum fact_decision expected(const struct plan_experiment *plan, const struct checkers_story *story, const struct fact_judged *judged)
{
    double n = 1, better = 0;
    const uint32_t bracket = bracket_of(plan, judged->attempt.trial);
    for (uint32_t i = 0; i < story->count; i++) {
        const struct fact_judged *other = &story->entries[i];
        if (other->rung == judged->rung && bracket_of(plan, other->attempt.trial) == bracket) {
            n += 1;
            better += plan->smaller_is_better ? other->metric < judged->metric : other->metric > judged->metric;
        }
    }
    if (plan->population > 0 && judged->decision == FACT_ENDS && isnan(judged->metric)) {
        return FACT_ENDS; /* that the trial is over is no matter of the log */
    }
    double best = floor(n / plan->divisor) > 1 ? floor(n / plan->divisor) : 1;
    return isnan(judged->metric)                               ? FACT_STOPS
           : judged->rung + 1 == plan->brackets.rungs[bracket] ? FACT_TOPS_OUT
           : better < best                                     ? FACT_GOES_ON
                                                               : FACT_STOPS;
}

/* ---- draws ----------------------------------------------------------------------------------------------------------- */

static bool is_same_number(double a, double b)
{
    double size = fabs(a) > fabs(b) ? fabs(a) : fabs(b);
    return (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-9 * (size > 1 ? size : 1);
}

bool checkers_is_same_draw(const struct fact_draw *a, const struct fact_draw *b)
{
    bool is_same = a->count == b->count && a->parent == b->parent;
    for (uint32_t i = 0; is_same && i < a->count; i++) {
        is_same = is_same_number(a->point[i], b->point[i]);
    }
    return is_same;
}

/* The values of the attempt, by its own record. False: it is not here. */
bool checkers_recorded_draw(const struct sim *sim, int node, const attempt_id *id, struct fact_draw *out)
{
    static struct fact_attempt fact;
    struct fact_key key = fact_key_attempt(id);
    const struct records_entry *entry = records_find(
        &sim->nodes[node].core->records, record_ident_of(id->coordinator, FACT_ATTEMPT, key.bytes, key.count));
    if (entry == NULL || fact_attempt_read(&entry->record, &fact) != 0) {
        return false;
    }
    *out = fact.draw;
    return true;
}

bool checkers_has_values(const struct view_trial *trial, const attempt_id *attempt)
{
    const struct view_attempt *of = view_trial_completed(trial), *other = trial->attempts;
    of = of != NULL ? of : view_trial_highest(trial);
    while (other != NULL && !attempt_id_equal(&other->id, attempt)) {
        other = other->next;
    }
    bool is_same = of == NULL || of->point_count == 0 || (other != NULL && other->point_count == of->point_count);
    for (uint32_t i = 0; is_same && of != NULL && i < of->point_count; i++) {
        is_same = is_same_number(of->point[i], other->point[i]);
    }
    return is_same;
}

/* The values of the attempt in the story, or NULL. Without an attempt: the last ones of the trial. */
static const struct fact_created *find_created(const struct checkers_story *story, uint32_t trial, const attempt_id *attempt)
{
    for (uint32_t i = story->created_count; i-- > 0;) {
        bool is_it = attempt != NULL ? attempt_id_equal(&story->created[i].attempt, attempt) : story->created[i].attempt.trial == trial;
        if (is_it) {
            return &story->created[i];
        }
    }
    return NULL;
}

/* The length of a rung. */
static double length_of(const struct plan_experiment *plan, uint32_t rung)
{
    double length = plan->steps;
    for (uint32_t above = rung + 1; above < plan->rungs; above++) {
        length /= plan->divisor;
    }
    return floor(length) > 1 ? floor(length) : 1;
}

/* The highest rung whose length has been reached by enough trials; plan->rungs: none. */
static uint32_t rung_to_see(const struct plan_experiment *plan, const struct checkers_story *story, uint32_t enough)
{
    for (uint32_t rung = plan->rungs; rung-- > 0;) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < story->count; i++) {
            bool is_result = story->entries[i].decision <= FACT_PAUSES;
            count += is_result && length_of(plan, story->entries[i].rung) == length_of(plan, rung);
        }
        if (count >= enough) {
            return rung;
        }
    }
    return plan->rungs;
}

/* The trial trains on, or has ended without another result. */
static bool is_on_the_way(enum fact_decision last)
{
    return last == FACT_GOES_ON || last == FACT_PROMOTES || last == FACT_ENDS;
}

/* What the sampler is to know of all trials but one: their results at the rung that is seen, and the values that they had; what was to
 * end before, or is paused there, counts as stopped there; the others run. */
static uint32_t observe(const struct plan_experiment *plan, const struct checkers_story *story, uint32_t but, uint32_t rung,
                        struct tpe_observation out[PLAN_TRIALS_MAX])
{
    uint32_t count = 0;
    for (uint32_t t = 0; t < plan->trials_then; t++) {
        const struct fact_judged *judged = NULL, *ended = NULL;
        for (uint32_t i = 0; i < story->count; i++) {
            const struct fact_judged *entry = &story->entries[i];
            bool is_own = entry->attempt.trial == t, is_result = entry->decision <= FACT_PAUSES;
            bool is_seen = is_own && is_result && rung < plan->rungs && length_of(plan, entry->rung) == length_of(plan, rung);
            judged = is_seen ? entry : judged;
            ended = !is_own ? ended : is_on_the_way(entry->decision) ? NULL : entry;
        }
        const struct fact_judged *result = judged != NULL ? judged : ended;
        const struct fact_created *created = find_created(story, t, result != NULL ? &result->attempt : NULL);
        if (created != NULL && t != but) {
            out[count++] = (struct tpe_observation){.trial = t,
                                                    .state = judged != NULL  ? TPE_COMPLETED
                                                             : ended != NULL ? TPE_STOPPED
                                                                             : TPE_RUNNING,
                                                    .metric = result != NULL ? result->metric : 0,
                                                    .step = result != NULL ? (uint64_t)length_of(plan, result->rung) : 0,
                                                    .has_metric = result != NULL,
                                                    .point = created->draw.point};
        }
    }
    return count;
}

/* True if the record was given before, of whichever node. A record of a log never changes, nor does what stands before it: one
 * computation will do. */
static bool is_seen(struct sim *sim, const struct record *record)
{
    uint64_t hash = bytes_hash64(record->body, record->body_bytes, bytes_hash64(record->key, record->key_bytes, 1)) | 1;
    for (uint32_t i = 0; i < DRAWS_SEEN; i++) {
        uint64_t *place = &sim->checkers->draws_seen[(hash / 2 + i) % DRAWS_SEEN];
        bool was_there = *place == hash;
        if (was_there || *place == 0) {
            *place = hash;
            return was_there;
        }
    }
    return false;
}

/* The entry about the trial in the story, or NULL. */
static const struct fact_judged *find_entry(const struct checkers_story *story, uint32_t trial)
{
    for (uint32_t i = 0; i < story->count; i++) {
        if (story->entries[i].attempt.trial == trial) {
            return &story->entries[i];
        }
    }
    return NULL;
}

/* Whether the member with entry `a` is a better parent than that with `b`. */
static bool is_better_parent(const struct plan_experiment *plan, const struct fact_judged *a, const struct fact_judged *b)
{
    int a_class = a->decision == FACT_ENDS ? 2 : isnan(a->metric) ? 1 : 0, b_class = b->decision == FACT_ENDS ? 2 : isnan(b->metric) ? 1 : 0;
    if (a_class != b_class) {
        return a_class < b_class;
    }
    if (a_class == 0 && fabs(a->metric - b->metric) > 0) {
        return (a->metric < b->metric) == plan->smaller_is_better;
    }
    return a->attempt.trial < b->attempt.trial;
}

/* From which trial of the generation before this one goes on, by the story. FACT_NO_TRIAL: not all of them are judged in it. */
static uint32_t expected_parent(const struct plan_experiment *plan, const struct checkers_story *story, uint32_t trial)
{
    const struct fact_judged *order[PLAN_TRIALS_MAX] = {NULL};
    uint32_t own = trial - plan->population, first = own - own % plan->population, over = 0, place = 0;
    for (uint32_t m = 0; m < plan->population; m++) {
        const struct fact_judged *entry = find_entry(story, first + m);
        uint32_t at = m;
        if (entry == NULL) {
            return FACT_NO_TRIAL;
        }
        over += entry->decision == FACT_ENDS;
        for (; at > 0 && is_better_parent(plan, entry, order[at - 1]); at--) {
            order[at] = order[at - 1];
        }
        order[at] = entry;
    }
    while (order[place]->attempt.trial != own) {
        place++;
    }
    uint32_t left = plan->population - over, copies = over > plan->replaced ? over : plan->replaced;
    uint32_t best = plan->replaced > 0 ? plan->replaced : 1, from_last = plan->population - 1 - place;
    best = best < left ? best : left;
    return from_last < copies && best > 0 ? order[from_last % best]->attempt.trial : own;
}

/* The draw of a trial of pbt by the story. False: the generation before is not judged in it. */
static bool expected_of_population(const struct plan_experiment *plan, const struct config *config, const struct checkers_story *story,
                                   uint32_t trial, struct fact_draw *out)
{
    const struct search_space space = config_search_space(config);
    const struct pbt_explore explore = {config->resample_probability, config->perturb_factor};
    out->parent = trial >= plan->population ? expected_parent(plan, story, trial) : FACT_NO_TRIAL;
    const struct fact_judged *entry = out->parent != FACT_NO_TRIAL ? find_entry(story, out->parent) : NULL;
    const struct fact_created *from = entry != NULL ? find_created(story, out->parent, &entry->attempt) : NULL;
    from = from == NULL && entry != NULL ? find_created(story, out->parent, NULL) : from;
    if (from == NULL) {
        CHECK(search_trial_point(&space, config->seed, trial, out->point) == 0);
    } else if (out->parent % plan->population == trial % plan->population) {
        memcpy(out->point, from->draw.point, out->count * sizeof out->point[0]);
    } else {
        CHECK(pbt_explore(&space, &explore, from->draw.point, config->seed, trial, out->point) == 0);
    }
    return trial < plan->population || out->parent != FACT_NO_TRIAL;
}

/* Values are drawn once for a trial, from what stands before in the log; each later attempt has them, too. */
static void check_created(struct sim *sim, int node, uint32_t e, const struct checkers_story *story, const struct fact_created *created,
                          const struct record *record)
{
    static double room[1u << 16];
    const struct plan_experiment *plan = &sim->plan.experiments[e];
    struct tpe_observation observations[PLAN_TRIALS_MAX];
    struct config config;
    struct pack_reader reader;
    struct fact_draw wanted = {.parent = FACT_NO_TRIAL}, recorded;
    const struct fact_created *before = find_created(story, created->attempt.trial, NULL);
    if (created->attempt.trial >= plan->trials_then || !plan->is_drawn) {
        sim_fail(sim, 17, "n%d: trial %u of experiment %u is drawn, and that is none of a search that draws", node, created->attempt.trial, e);
        return;
    }
    if (checkers_recorded_draw(sim, node, &created->attempt, &recorded) && !checkers_is_same_draw(&recorded, &created->draw)) {
        sim_fail(sim, 17, "n%d: attempt %u of trial %u of experiment %u has other values than its log says", node, created->attempt.number,
                 created->attempt.trial, e);
    }
    if (!created->is_drawn) {
        checkers_met(sim, PREMISE_17_TAKEN_OVER);
        return;
    }
    if (before != NULL) {
        sim_fail(sim, 17, "n%d: trial %u of experiment %u is drawn again in one log", node, created->attempt.trial, e);
        return;
    }
    checkers_met(sim, PREMISE_17_DRAWN);
    for (uint32_t i = 0; i < story->count; i++) {
        if (story->entries[i].decision == FACT_PAUSES) {
            checkers_met(sim, PREMISE_17_DRAWN_BESIDE_PAUSED);
            break;
        }
    }
    if (is_seen(sim, record)) {
        return;
    }
    pack_reader_init(&reader, plan->config, plan->config_bytes);
    CHECK(config_unpack(&reader, &config) == 0);
    if (plan->population > 0) {
        wanted.count = created->draw.count;
        if (!expected_of_population(plan, &config, story, created->attempt.trial, &wanted)) {
            sim_fail(sim, 17, "n%d: trial %u of experiment %u begins before its log has judged the generation before it", node,
                     created->attempt.trial, e);
        } else if (!checkers_is_same_draw(&wanted, &created->draw)) {
            sim_fail(sim, 17, "n%d: trial %u of experiment %u goes on from trial %u with other values than its log says, from trial %u", node,
                     created->attempt.trial, e, created->draw.parent, wanted.parent);
        }
        checkers_met(sim, created->draw.parent != FACT_NO_TRIAL ? PREMISE_17_WITH_PARENT : PREMISE_17_DRAWN);
        return;
    }
    struct search_space space = config_search_space(&config);
    uint32_t enough = plan->startup;
    if (config.searcher == SEARCH_ASHA && enough < created->draw.count + 1) {
        enough = created->draw.count + 1; /* the plans' parameters are all searched */
    }
    uint32_t rung = rung_to_see(plan, story, enough);
    uint32_t count = observe(plan, story, created->attempt.trial, rung, observations);
    enough = rung < plan->rungs ? enough : UINT32_MAX; /* all at random */
    wanted.count = created->draw.count;
    int error = tpe_draw(&space, observations, count, plan->smaller_is_better, enough, config.seed, created->attempt.trial, room,
                         sizeof room, wanted.point);
    if (error != 0 || !checkers_is_same_draw(&wanted, &created->draw)) {
        sim_fail(sim, 17, "n%d: trial %u of experiment %u is drawn otherwise than the %u results before it in its log say", node,
                 created->attempt.trial, e, count);
    }
}

/* Whatever is taken from a log, in its order: each attempt once. */
static void tell_created(struct sim *sim, struct checkers_story *story, const struct fact_search_log *fact)
{
    if (!fact->has_created || find_created(story, 0, &fact->created.attempt) != NULL) {
        return;
    }
    if (story->created_count == CREATED_MAX) {
        sim_fail(sim, 15, "a search has more than %d attempts", CREATED_MAX);
        return;
    }
    story->created[story->created_count++] = fact->created;
}

/* A drawn attempt has values, and what it begins with was made with the same ones. */
static void check_attempts(struct sim *sim, int node, uint32_t e, const struct view_trial *trial)
{
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        if (!a->assigned) {
            continue;
        }
        if (a->point_count == 0) {
            sim_fail(sim, 17, "n%d: attempt %u of trial %u of experiment %u has no values", node, a->id.number, trial->index, e);
            return;
        }
        bool is_found = false, is_known = false;
        for (const struct view_manifest *row = trial->manifests; row != NULL && a->start_step > 0; row = row->next) {
            struct fact_draw left, right;
            if (row->step == a->start_step && hash256_equal(row->blob, a->checkpoint) && checkers_recorded_draw(sim, node, &row->attempt, &left) &&
                checkers_recorded_draw(sim, node, &a->id, &right)) {
                is_known = true;
                is_found |= checkers_is_same_draw(&left, &right);
            }
        }
        if (is_known && !is_found) {
            sim_fail(sim, 11, "n%d: attempt %u of trial %u of experiment %u begins with a checkpoint of other values than its own", node,
                     a->id.number, trial->index, e);
        }
    }
}

/* ---- logs ------------------------------------------------------------------------------------------------------------ */

static bool follows(const struct plan_experiment *plan, const struct checkers_story *story, const struct fact_judged *judged)
{
    return plan->promotes ? checkers_promotion_follows(story, plan, judged) : judged->rung == rungs_told(story, judged->attempt.trial);
}

static void add_entry(struct sim *sim, struct checkers_story *story, const struct fact_judged *judged)
{
    if (story->count == CHECKERS_STORY_ENTRIES) {
        sim_fail(sim, 16, "a log has more than %d entries", CHECKERS_STORY_ENTRIES);
        return;
    }
    story->entries[story->count++] = *judged;
}

/* Tells the story of one log as far as the node has it, and compares the log's own decisions with the rule. */
static void check_log(struct sim *sim, int node, uint32_t e, const struct view_log *log)
{
    const struct plan_experiment *plan = &sim->plan.experiments[e];
    static struct checkers_story story;
    static struct fact_search_log fact, other;
    if (plan->program.is_there) {
        checkers_program_log(sim, node, e, log);
        return;
    }
    story.count = story.created_count = story.taken_count = 0;
    for (uint32_t number = 0;; number++) {
        const struct records_entry *entry = checkers_log_record(sim, node, plan->id, log->writer, log->name, number);
        if (entry == NULL || fact_search_log_read(&entry->record, &fact) != 0) {
            return;
        }
        for (uint32_t i = 0; i < fact.adopted_count; i++) {
            uint32_t *until = checkers_taken_until(sim, &story, fact.adopted[i].writer, fact.adopted[i].log);
            for (; *until < fact.adopted[i].until; ++*until) {
                entry = checkers_log_record(sim, node, plan->id, fact.adopted[i].writer, fact.adopted[i].log, *until);
                if (entry == NULL || fact_search_log_read(&entry->record, &other) != 0) {
                    return; /* the rest of the story is not known here */
                }
                tell_created(sim, &story, &other);
                for (uint32_t k = 0; k < other.judged_count; k++) {
                    if (follows(plan, &story, &other.judged[k])) {
                        add_entry(sim, &story, &other.judged[k]);
                    }
                }
            }
        }
        if (fact.has_created) {
            check_created(sim, node, e, &story, &fact.created, &entry->record);
            tell_created(sim, &story, &fact);
        }
        for (uint32_t i = 0; i < fact.judged_count; i++) {
            const struct fact_judged *judged = &fact.judged[i];
            if (judged->attempt.trial >= plan->trials_then ||
                judged->rung >= plan->brackets.rungs[bracket_of(plan, judged->attempt.trial)] || !follows(plan, &story, judged)) {
                sim_fail(sim, 16, "n%d: trial %u of experiment %u is judged at rung %u, and rung %u is its next in that log", node,
                         judged->attempt.trial, e, judged->rung, rungs_told(&story, judged->attempt.trial));
                return;
            }
            checkers_met(sim, PREMISE_17_JUDGED);
            if (judged->attempt.trial >= plan->trials) {
                checkers_met(sim, PREMISE_17_ADDED);
            }
            if (story.taken_count > 0) {
                checkers_met(sim, PREMISE_17_ADOPTED);
            }
            if (plan->promotes) {
                checkers_promotion(sim, node, e, &story, judged);
            } else if (judged->decision != expected(plan, &story, judged)) {
                sim_fail(sim, 17, "n%d: the log decides %d of trial %u of experiment %u at rung %u (%g), and what stands before it %d",
                         node, (int)judged->decision, judged->attempt.trial, e, judged->rung, judged->metric,
                         (int)expected(plan, &story, judged));
            }
            add_entry(sim, &story, judged);
        }
    }
}

/* A stop says which decision it follows from. */
static void check_stop(struct sim *sim, int node, uint32_t e, uint32_t trial, const struct fact_search_stop *stop)
{
    static struct fact_search_log fact;
    experiment_id id = sim->plan.experiments[e].id;
    const struct records_entry *entry = checkers_log_record(sim, node, id, stop->writer, stop->log, stop->record);
    if (entry == NULL || fact_search_log_read(&entry->record, &fact) != 0) {
        return;
    }
    bool found = false;
    for (uint32_t i = 0; i < fact.judged_count; i++) {
        bool is_meant = fact.judged[i].decision == (stop->is_top ? FACT_TOPS_OUT : FACT_STOPS) ||
                        (fact.judged[i].decision == FACT_CLOSES && !stop->is_top);
        found |= fact.judged[i].attempt.trial == trial && fact.judged[i].rung == stop->rung && is_meant;
    }
    found = found || (sim->plan.experiments[e].program.is_there && checkers_program_stops(sim, node, e, trial, stop, &fact));
    checkers_met(sim, PREMISE_18_STOPPED_BY_SEARCH);
    if (!found) {
        sim_fail(sim, 18, "n%d takes trial %u of experiment %u for stopped by its search, whose log does not say so", node, trial, e);
    }
}

static bool is_retried(const struct plan_experiment *plan)
{
    uint64_t retries_ms = 0;
    for (uint32_t t = 0; t < plan->trials; t++) {
        retries_ms |= plan->retry_ms[t];
    }
    return retries_ms != 0;
}

/* A trial begins only while its bracket has a place. What has begun goes on whatever is full: so not where trials are retried or more are added, nor beside
 * trials that ran where nobody saw it. */
void checkers_on_place(struct sim *sim, int node, const attempt_id *attempt)
{
    int e = checkers_experiment(sim, attempt->experiment);
    const struct plan_experiment *plan = &sim->plan.experiments[e];
    const struct view_experiment *seen = view_find_experiment(&sim->nodes[node].core->view, attempt->experiment);
    if (plan->rungs == 0 || plan->extend_ms != 0 || attempt->number > 1 || !plan_is_quiet(&sim->plan) || is_retried(plan)) {
        return;
    }
    uint32_t bracket = plan->brackets.of[attempt->trial], training = 0;
    for (uint32_t t = 0; t < plan->trials; t++) {
        const struct view_trial *trial = view_find_trial(seen, t);
        const struct view_attempt *highest = trial != NULL ? view_trial_highest(trial) : NULL;
        bool is_other = t != attempt->trial && plan->brackets.of[t] == bracket;
        training += is_other && highest != NULL && view_attempt_verdict(highest) == NULL;
    }
    if (training + 1 == plan->brackets.places[bracket]) {
        checkers_met(sim, PREMISE_19_BRACKET_FULL);
    }
    if (training >= plan->brackets.places[bracket]) {
        sim_fail(sim, 19, "n%d begins trial %u of experiment %d beside %u others of its bracket, which has %u places", node, attempt->trial, e,
                 training, plan->brackets.places[bracket]);
    }
}

/* A pause says which decision it follows from. */
static void check_pause(struct sim *sim, int node, uint32_t e, uint32_t trial, const struct fact_search_pause *pause)
{
    static struct fact_search_log fact;
    experiment_id id = sim->plan.experiments[e].id;
    const struct records_entry *entry = checkers_log_record(sim, node, id, pause->writer, pause->log, pause->record);
    if (entry == NULL || fact_search_log_read(&entry->record, &fact) != 0) {
        return;
    }
    bool found = false;
    for (uint32_t i = 0; i < fact.judged_count; i++) {
        found |= fact.judged[i].attempt.trial == trial && fact.judged[i].rung == pause->rung && fact.judged[i].decision == FACT_PAUSES;
    }
    checkers_met(sim, PREMISE_18_PAUSED_BY_SEARCH);
    if (!found) {
        sim_fail(sim, 18, "n%d takes trial %u of experiment %u for paused by its search, whose log does not say so", node, trial, e);
    }
}

void checkers_search(struct sim *sim, int node)
{
    for (uint32_t e = 0; e < sim->plan.experiment_count; e++) {
        const struct view_experiment *seen =
            view_find_experiment(&sim->nodes[node].core->view, sim->plan.experiments[e].id);
        for (const struct view_log *log = seen != NULL ? seen->search.logs : NULL; log != NULL; log = log->next) {
            check_log(sim, node, e, log);
        }
        for (uint32_t t = 0; seen != NULL && t < sim->plan.experiments[e].trials_then; t++) {
            if (sim->plan.experiments[e].is_drawn && view_find_trial(seen, t) != NULL) {
                check_attempts(sim, node, e, view_find_trial(seen, t));
            }
            const struct view_search_stop *stop = view_trial_search_stop(view_find_trial(seen, t));
            if (stop != NULL) {
                check_stop(sim, node, e, t, &stop->fact);
            }
            const struct view_trial *trial = view_find_trial(seen, t);
            for (const struct view_search_pause *pause = trial != NULL ? trial->search_pauses : NULL; pause != NULL; pause = pause->next) {
                check_pause(sim, node, e, t, &pause->fact);
            }
        }
    }
}
