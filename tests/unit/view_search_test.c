/* The fold over the logs of a search: what was decided follows from the records, in whatever order they come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/core/ground/state.h"
#include "tests/unit/view_fixture.h"

#define TRIALS 6
#define RECORDS 6

static const struct fact_log_name first_log = {{1}}, second_log = {{2}};

static struct view_experiment *submit_halving(struct mesh *mesh, bool promotes)
{
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    struct config config;
    make_config(&config, TRIALS, 5);
    config.searcher = SEARCH_ASHA;
    config.num_rungs = 3;
    config.divisor = 2;
    config.max_time = 8;
    config.promotes = promotes;
    bytes_copy_text(config.time_metric, sizeof config.time_metric, "steps");
    struct fact_experiment fact = {.submitted_s = 1, .config = packed};
    fact.config_bytes = make_packed_config(&config, packed);
    say(mesh, 0, FACT_EXPERIMENT, fact_key_experiment(make_experiment_id(0)), &fact);
    return view_find_experiment(&mesh->core->view, make_experiment_id(0));
}

static struct view_experiment *submit_search(struct mesh *mesh)
{
    return submit_halving(mesh, false);
}

static struct fact_judged judged(const struct mesh *mesh, uint32_t trial, uint32_t rung, enum fact_decision decision)
{
    return (struct fact_judged){.attempt = make_attempt_id(0, trial, 1, 1, mesh->people[1].id),
                                .rung = rung,
                                .decision = decision,
                                .step = 2u << rung,
                                .length = 2u << rung,
                                .metric = 0.1 * trial};
}

static void say_log(struct mesh *mesh, uint32_t writer, struct fact_log_name name, uint32_t number, const struct fact_search_log *fact)
{
    say(mesh, writer, FACT_SEARCH_LOG, fact_key_search_log(make_experiment_id(0), name, number), fact);
}

/* Person 1 coordinates with term 1 and writes two records; person 2 follows with term 2, and takes over what person 1 has decided. */
static void say_one(struct mesh *mesh, uint32_t which)
{
    struct fact_search_log fact = {.term = which < 3 ? 1 : 2, .boot = 1};
    struct fact_claim claim = {.term = fact.term};
    switch (which) {
    case 0:
        say(mesh, 1, FACT_CLAIM, fact_key_experiment(make_experiment_id(0)), &claim);
        break;
    case 1:
        fact.judged[fact.judged_count++] = judged(mesh, 0, 0, FACT_GOES_ON);
        fact.judged[fact.judged_count++] = judged(mesh, 1, 0, FACT_STOPS);
        say_log(mesh, 1, first_log, 0, &fact);
        break;
    case 2:
        fact.judged[fact.judged_count++] = judged(mesh, 2, 0, FACT_STOPS);
        say_log(mesh, 1, first_log, 1, &fact);
        break;
    case 3:
        say(mesh, 2, FACT_CLAIM, fact_key_experiment(make_experiment_id(0)), &claim);
        break;
    case 4:
        fact.adopted[fact.adopted_count++] = (struct fact_adopted){mesh->people[1].id, first_log, 2};
        say_log(mesh, 2, second_log, 0, &fact);
        break;
    default: /* the first entry is known already, and the last leaves a rung out */
        fact.judged[fact.judged_count++] = judged(mesh, 2, 0, FACT_GOES_ON);
        fact.judged[fact.judged_count++] = judged(mesh, 0, 1, FACT_STOPS);
        fact.judged[fact.judged_count++] = judged(mesh, 3, 1, FACT_GOES_ON);
        say_log(mesh, 2, second_log, 1, &fact);
        break;
    }
}

static void assert_whole(struct mesh *mesh, struct view_experiment *experiment)
{
    assert_true(view_search_refresh(&mesh->core->view, experiment));
    assert_int_equal(experiment->search.judged_count, 4);
    static const enum fact_decision last[] = {FACT_STOPS, FACT_STOPS, FACT_STOPS};
    for (uint32_t t = 0; t < 3; t++) {
        assert_int_equal(view_search_last(experiment, t)->fact.decision, last[t]);
        assert_int_equal(experiment->search.trials[t].rungs, t == 0 ? 2 : 1);
        assert_int_equal(view_search_course(experiment, t), VIEW_ENDS);
    }
    assert_null(view_search_last(experiment, 3));
    assert_int_equal(view_search_course(experiment, 3), VIEW_GOES_ON);
}

/* Calls `tell` with each order of `count` numbers. */
static void each_order(uint32_t *numbers, uint32_t count, uint32_t done, void (*tell)(const uint32_t *numbers))
{
    if (done == count) {
        tell(numbers);
    }
    for (uint32_t i = done; i < count; i++) {
        uint32_t moved = numbers[i];
        numbers[i] = numbers[done];
        numbers[done] = moved;
        each_order(numbers, count, done + 1, tell);
        numbers[done] = numbers[i];
        numbers[i] = moved;
    }
}

static void tell_in_order(const uint32_t *numbers)
{
    struct mesh mesh;
    mesh_open(&mesh);
    struct view_experiment *experiment = submit_search(&mesh);
    for (uint32_t i = 0; i < RECORDS; i++) {
        say_one(&mesh, numbers[i]);
        say_one(&mesh, numbers[numbers[i] % (i + 1)]); /* and one of those once more, in a newer version with the same body */
        if (i % 2 == numbers[0] % 2) {
            (void)view_search_refresh(&mesh.core->view, experiment); /* now and then, as readers do */
        }
    }
    assert_whole(&mesh, experiment);
    mesh_close(&mesh);
}

static void the_same_records_give_the_same_decisions_in_every_order(void **state)
{
    (void)state;
    uint32_t numbers[RECORDS] = {0, 1, 2, 3, 4, 5};
    each_order(numbers, RECORDS, 0, tell_in_order);
}

static void a_log_waits_for_a_record_that_it_has_adopted(void **state)
{
    struct mesh *mesh = *state;
    struct view_experiment *experiment = submit_search(mesh);
    for (uint32_t i = 0; i < RECORDS; i++) {
        if (i != 2) {
            say_one(mesh, i);
        }
    }
    assert_false(view_search_refresh(&mesh->core->view, experiment));
    assert_int_equal(experiment->search.judged_count, 2);
    assert_int_equal(view_search_course(experiment, 2), VIEW_GOES_ON);
    say_one(mesh, 2);
    assert_whole(mesh, experiment);
}

static void a_log_without_a_claim_of_its_writer_decides_nothing(void **state)
{
    struct mesh *mesh = *state;
    struct view_experiment *experiment = submit_search(mesh);
    struct fact_search_log made_up = {.term = 7, .boot = 1, .judged_count = 1};
    made_up.judged[0] = judged(mesh, 4, 0, FACT_STOPS);
    say_log(mesh, 3, first_log, 0, &made_up);
    assert_true(view_search_refresh(&mesh->core->view, experiment));
    assert_int_equal(view_search_course(experiment, 4), VIEW_GOES_ON);
    for (uint32_t i = 0; i < RECORDS; i++) {
        say_one(mesh, i);
    }
    assert_whole(mesh, experiment);
}

static void decisions_about_trials_that_are_not_there_are_passed_over(void **state)
{
    struct mesh *mesh = *state;
    struct view_experiment *experiment = submit_search(mesh);
    struct fact_claim claim = {.term = 1};
    struct fact_search_log made_up = {.term = 1, .boot = 1, .judged_count = 3};
    made_up.judged[0] = judged(mesh, TRIALS, 0, FACT_STOPS);
    made_up.judged[1] = judged(mesh, 99999, 0, FACT_STOPS);
    made_up.judged[2] = judged(mesh, 1, FACT_RUNGS_MAX - 1, FACT_STOPS);
    say(mesh, 3, FACT_CLAIM, fact_key_experiment(make_experiment_id(0)), &claim);
    say_log(mesh, 3, first_log, 0, &made_up);
    assert_true(view_search_refresh(&mesh->core->view, experiment));
    assert_int_equal(experiment->search.judged_count, 0);
    assert_null(view_search_last(experiment, TRIALS));
}

static void further_trials_leave_what_was_decided_as_it_is(void **state)
{
    struct mesh *mesh = *state;
    struct view_experiment *experiment = submit_search(mesh);
    struct fact_annotation more = {1, true, ""};
    struct fact_search_log fact = {.term = 2, .boot = 1, .judged_count = 1};
    for (uint32_t i = 0; i < RECORDS; i++) {
        say_one(mesh, i);
    }
    assert_whole(mesh, experiment);
    assert_int_equal(experiment->search.trial_count, TRIALS);
    assert_int_equal(experiment->search.brackets.list[0].concurrent, 4);
    say(mesh, 4, FACT_ANNOTATION, fact_key_annotation(make_experiment_id(0), FACT_MAX_TRIALS, "9"), &more);
    assert_whole(mesh, experiment);
    assert_int_equal(experiment->search.trial_count, 9);
    assert_int_equal(experiment->search.brackets.list[0].added, 3);
    fact.judged[0] = judged(mesh, 8, 0, FACT_GOES_ON);
    say_log(mesh, 2, second_log, 2, &fact);
    assert_true(view_search_refresh(&mesh->core->view, experiment));
    assert_int_equal(experiment->search.judged_count, 5);
    assert_int_equal(view_search_last(experiment, 8)->fact.decision, FACT_GOES_ON);
}

/* An attempt of a trial with values of its own. */
static attempt_id begin_drawn(struct mesh *mesh, uint32_t writer, uint32_t number, double value)
{
    attempt_id id = make_attempt_id(0, 0, number, 1, mesh->people[writer].id);
    struct fact_attempt fact = {.member_count = 1, .draw = {.count = 1, .parent = FACT_NO_TRIAL, .point = {value}}};
    fact.members[0] = (struct fact_assignment){mesh->people[writer].id, 0};
    say(mesh, writer, FACT_ATTEMPT, fact_key_attempt(&id), &fact);
    return id;
}

static struct view_experiment *submit_tpe(struct mesh *mesh)
{
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    struct config config;
    make_config(&config, TRIALS, 5);
    config.searcher = SEARCH_TPE;
    struct fact_experiment fact = {.submitted_s = 1, .config = packed};
    fact.config_bytes = make_packed_config(&config, packed);
    say(mesh, 0, FACT_EXPERIMENT, fact_key_experiment(make_experiment_id(0)), &fact);
    return view_find_experiment(&mesh->core->view, make_experiment_id(0));
}

/* Two sides of a cut have drawn a trial differently. */
static void the_values_of_a_trial_are_those_of_its_completed_or_highest_attempt(void **state)
{
    struct mesh *mesh = *state;
    struct view_experiment *experiment = submit_tpe(mesh);
    uint8_t bytes[64];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    assert_int_equal(view_attempt_values(experiment->config, NULL, 0, &writer), ERR_NOT_FOUND); /* nothing is drawn yet */
    attempt_id first = begin_drawn(mesh, 1, 1, 0.01), second = begin_drawn(mesh, 2, 2, 0.05), third = begin_drawn(mesh, 1, 3, 0.05);
    const struct view_trial *trial = view_find_trial(experiment, 0);
    assert_true(attempt_id_equal(&view_trial_valued(trial)->id, &third));
    assert_false(view_trial_continues(trial, &first));
    assert_true(view_trial_continues(trial, &second));
    assert_true(view_trial_continues(trial, &third));
    attempt_id unknown = make_attempt_id(0, 0, 9, 1, mesh->people[3].id);
    assert_false(view_trial_continues(trial, &unknown));
    assert_int_equal(view_attempt_values(experiment->config, view_trial_valued(trial), 0, &writer), 0);
    pack_writer_init(&writer, bytes, sizeof bytes);
    attempt_id odd = begin_drawn(mesh, 2, 4, 7.5); /* which the space does not have */
    assert_int_equal(view_attempt_values(experiment->config, view_find_attempt(&mesh->core->view, &odd), 0, &writer), ERR_MALFORMED);
    judge(mesh, 1, &first, FACT_COMPLETED, 0.5);
    assert_true(attempt_id_equal(&view_trial_valued(trial)->id, &first)); /* a result is never taken back */
    assert_true(view_trial_continues(trial, &first));
    assert_false(view_trial_continues(trial, &third));
}

/* A coordinator that came back with an old disk has used the id of an attempt again. */
static void a_result_counts_while_the_attempt_has_the_values_that_it_was_made_with(void **state)
{
    struct mesh *mesh = *state;
    struct view_experiment *experiment = submit_tpe(mesh);
    attempt_id id = begin_drawn(mesh, 1, 1, 0.01);
    const struct view_attempt *attempt = view_find_attempt(&mesh->core->view, &id);
    const double other = 0.05;
    struct fact_result fact = {.step = 4, .length = 4, .metric = 0.5, .draw = fact_draw_mark(1, &other, FACT_NO_TRIAL)};
    assert_true(view_search_refresh(&mesh->core->view, experiment));
    say(mesh, 1, FACT_RESULT, fact_key_result(&id, 0), &fact);
    assert_false(view_result_counts(attempt, attempt->results));
    assert_false(view_search_awaits(experiment, view_find_trial(experiment, 0)));
    (void)begin_drawn(mesh, 1, 1, other);
    assert_true(view_result_counts(attempt, attempt->results));
    assert_true(view_search_awaits(experiment, view_find_trial(experiment, 0)));
    fact.draw = 0; /* of an earlier version */
    say(mesh, 1, FACT_RESULT, fact_key_result(&id, 0), &fact);
    assert_true(view_result_counts(attempt, attempt->results));
    assert_true(fact_draw_mark(0, NULL, FACT_NO_TRIAL) == 0 && view_attempt_draw(attempt) != 0);
}

static void decisions_about_rungs_that_the_search_has_not_are_passed_over(void **state)
{
    struct mesh *mesh = *state;
    struct view_experiment *experiment = submit_tpe(mesh); /* one rung */
    struct fact_claim claim = {.term = 1};
    struct fact_search_log made_up = {.term = 1, .boot = 1, .judged_count = 2};
    made_up.judged[0] = judged(mesh, 0, 0, FACT_GOES_ON);
    made_up.judged[1] = judged(mesh, 0, 1, FACT_TOPS_OUT);
    say(mesh, 3, FACT_CLAIM, fact_key_experiment(make_experiment_id(0)), &claim);
    say_log(mesh, 3, first_log, 0, &made_up);
    assert_true(view_search_refresh(&mesh->core->view, experiment));
    assert_int_equal(experiment->search.judged_count, 1);
}

static void a_log_tells_the_values_of_an_attempt_once(void **state)
{
    struct mesh *mesh = *state;
    struct view_experiment *experiment = submit_tpe(mesh);
    struct fact_claim claims[2] = {{.term = 1}, {.term = 2}};
    attempt_id first = make_attempt_id(0, 0, 1, 1, mesh->people[1].id), second = make_attempt_id(0, 0, 2, 1, mesh->people[1].id);
    struct fact_search_log fact = {.term = 1, .boot = 1, .has_created = true};
    fact.created = (struct fact_created){.attempt = first, .is_drawn = true, .draw = {.count = 1, .parent = FACT_NO_TRIAL, .point = {0.01}}};
    say(mesh, 1, FACT_CLAIM, fact_key_experiment(make_experiment_id(0)), &claims[0]);
    say_log(mesh, 1, first_log, 0, &fact);
    assert_true(view_search_refresh(&mesh->core->view, experiment));
    assert_int_equal(experiment->search.created_count, 1);
    assert_true(view_search_created(experiment, &first)->is_drawn);
    assert_null(view_search_created(experiment, &second));
    /* A successor takes it over, says it again, and what follows from it. */
    say(mesh, 2, FACT_CLAIM, fact_key_experiment(make_experiment_id(0)), &claims[1]);
    struct fact_search_log next = {.term = 2, .boot = 1, .adopted_count = 1};
    next.adopted[0] = (struct fact_adopted){mesh->people[1].id, first_log, 1};
    say_log(mesh, 2, second_log, 0, &next);
    fact.term = 2;
    fact.created.draw.point[0] = 0.07;
    say_log(mesh, 2, second_log, 1, &fact);
    fact.created.attempt = second;
    fact.created.is_drawn = false;
    fact.created.draw.point[0] = 0.01;
    say_log(mesh, 2, second_log, 2, &fact);
    fact.created.attempt.trial = TRIALS; /* there is no such trial */
    say_log(mesh, 2, second_log, 3, &fact);
    assert_true(view_search_refresh(&mesh->core->view, experiment));
    assert_int_equal(experiment->search.created_count, 2);
    assert_true(view_search_created(experiment, &first)->point[0] < 0.02);
    assert_false(view_search_created(experiment, &second)->is_drawn);
    assert_int_equal(view_search_created(experiment, &second)->before, 1);
}

/* ---- promotion ------------------------------------------------------------------------------------------------------- */

/* Two sides of a cut have judged. The second log is the higher one, and has adopted what the first side had by then. */
static void say_climb(struct mesh *mesh, uint32_t which)
{
    struct fact_search_log fact = {.term = which < 3 ? 1 : 2, .boot = 1};
    struct fact_claim claim = {.term = fact.term};
    switch (which) {
    case 0:
    case 3:
        say(mesh, which == 0 ? 1 : 2, FACT_CLAIM, fact_key_experiment(make_experiment_id(0)), &claim);
        break;
    case 1:
        fact.judged[fact.judged_count++] = judged(mesh, 0, 0, FACT_PAUSES);
        fact.judged[fact.judged_count++] = judged(mesh, 1, 0, FACT_PAUSES);
        say_log(mesh, 1, first_log, 0, &fact);
        break;
    case 2:
        fact.judged[fact.judged_count++] = judged(mesh, 0, 0, FACT_PROMOTES);
        fact.judged[fact.judged_count++] = judged(mesh, 0, 1, FACT_PAUSES);
        fact.judged[fact.judged_count++] = judged(mesh, 5, 0, FACT_ENDS);
        say_log(mesh, 1, first_log, 1, &fact);
        break;
    case 4: /* beyond the cut trial 0 was promoted, too, and trial 1 closed */
        fact.adopted[fact.adopted_count++] = (struct fact_adopted){mesh->people[1].id, first_log, 1};
        fact.judged[fact.judged_count++] = judged(mesh, 0, 0, FACT_PROMOTES);
        fact.judged[fact.judged_count++] = judged(mesh, 1, 0, FACT_CLOSES);
        fact.judged[fact.judged_count++] = judged(mesh, 2, 0, FACT_PAUSES);
        say_log(mesh, 2, second_log, 0, &fact);
        break;
    case 5: /* after the heal */
        fact.adopted[fact.adopted_count++] = (struct fact_adopted){mesh->people[1].id, first_log, 2};
        say_log(mesh, 2, second_log, 1, &fact);
        break;
    }
}

static void assert_climbed(struct mesh *mesh, struct view_experiment *experiment)
{
    assert_true(view_search_refresh(&mesh->core->view, experiment));
    const struct view_search *search = &experiment->search;
    assert_int_equal(search->judged_count, 7); /* the second promotion of trial 0 is passed over */
    assert_int_equal(search->trials[0].rungs, 2);
    assert_int_equal(view_search_course(experiment, 0), VIEW_IS_PAUSED);
    assert_int_equal(view_search_paused(experiment, 0)->fact.rung, 1);
    assert_int_equal(view_search_course(experiment, 1), VIEW_ENDS);
    assert_int_equal(view_search_course(experiment, 2), VIEW_IS_PAUSED);
    assert_int_equal(view_search_course(experiment, 5), VIEW_GOES_ON); /* its own state says that it is over */
    assert_int_equal(search->ladder.climbers[5].place, SEARCH_DONE);
    const struct view_standing standing = view_promotion_standing(experiment, search->judged_count, view_search_paused(experiment, 2));
    assert_int_equal(standing.entries, 3); /* trials 0 and 1, and the end of trial 5 */
    assert_int_equal(standing.better, 0);  /* the largest metric is the best */
}

static void climb_in_order(const uint32_t order[])
{
    struct mesh mesh;
    mesh_open(&mesh);
    struct view_experiment *experiment = submit_halving(&mesh, true);
    for (uint32_t i = 0; i < RECORDS; i++) {
        say_climb(&mesh, order[i]);
        if (i % 2 == 1) {
            (void)view_search_refresh(&mesh.core->view, experiment);
        }
    }
    assert_climbed(&mesh, experiment);
    mesh_close(&mesh);
}

static void promotions_of_two_logs_merge_in_every_order(void **state)
{
    (void)state;
    uint32_t numbers[RECORDS] = {0, 1, 2, 3, 4, 5};
    each_order(numbers, RECORDS, 0, climb_in_order);
}

static void a_pause_names_the_attempts_that_leave(void **state)
{
    struct mesh *mesh = *state;
    struct view_experiment *experiment = submit_halving(mesh, true);
    struct fact_search_pause pause = {.number = 2, .term = 3, .coordinator = mesh->people[1].id, .writer = mesh->people[1].id};
    const attempt_id before = make_attempt_id(0, 4, 1, 9, mesh->people[2].id), lower = make_attempt_id(0, 4, 2, 1, mesh->people[2].id);
    const attempt_id named = make_attempt_id(0, 4, 2, 3, mesh->people[1].id), beyond_a_cut = make_attempt_id(0, 4, 2, 4, mesh->people[2].id);
    const attempt_id promoted = make_attempt_id(0, 4, 3, 1, mesh->people[2].id);
    assert_false(view_attempt_is_paused(view_find_trial(experiment, 4), &before));
    say(mesh, 1, FACT_SEARCH_PAUSE, fact_key_trial(make_experiment_id(0), 4), &pause);
    pause.number = 1; /* of an earlier coordinator, whose record comes late */
    say(mesh, 2, FACT_SEARCH_PAUSE, fact_key_trial(make_experiment_id(0), 4), &pause);
    const struct view_trial *trial = view_find_trial(experiment, 4);
    assert_true(view_attempt_is_paused(trial, &before) && view_attempt_is_paused(trial, &lower) && view_attempt_is_paused(trial, &named));
    assert_false(view_attempt_is_paused(trial, &beyond_a_cut) || view_attempt_is_paused(trial, &promoted));
}

static void a_user_lets_a_paused_trial_go_on(void **state)
{
    struct mesh *mesh = *state;
    struct view_experiment *experiment = submit_halving(mesh, true);
    for (uint32_t i = 0; i < RECORDS; i++) {
        say_climb(mesh, i);
    }
    struct fact_stop stop = {.lamport = 1, .stopped = true, .since = 1}, retry = {.lamport = 2, .since = 1};
    say(mesh, 3, FACT_STOP, fact_key_trial(make_experiment_id(0), 2), &stop);
    assert_true(view_search_refresh(&mesh->core->view, experiment));
    assert_int_equal(view_search_course(experiment, 2), VIEW_IS_PAUSED);
    say(mesh, 3, FACT_STOP, fact_key_trial(make_experiment_id(0), 2), &retry);
    say(mesh, 3, FACT_STOP, fact_key_trial(make_experiment_id(0), 1), &retry);
    assert_int_equal(view_search_course(experiment, 2), VIEW_GOES_ON);  /* and is judged at its next rung */
    assert_int_equal(view_search_course(experiment, 1), VIEW_IS_FREED); /* it was closed, and is judged no more */
}

static void a_search_that_stops_passes_over_the_words_of_one_that_promotes(void **state)
{
    struct mesh *mesh = *state;
    struct view_experiment *experiment = submit_search(mesh);
    for (uint32_t i = 0; i < RECORDS; i++) {
        say_climb(mesh, i);
    }
    assert_true(view_search_refresh(&mesh->core->view, experiment));
    assert_int_equal(experiment->search.judged_count, 0);
}

static void further_trials_join_a_ladder(void **state)
{
    struct mesh *mesh = *state;
    struct view_experiment *experiment = submit_halving(mesh, true);
    struct fact_annotation more = {1, true, ""};
    struct fact_search_log fact = {.term = 2, .boot = 1};
    for (uint32_t i = 0; i < RECORDS; i++) {
        say_climb(mesh, i);
    }
    assert_climbed(mesh, experiment);
    say(mesh, 4, FACT_ANNOTATION, fact_key_annotation(make_experiment_id(0), FACT_MAX_TRIALS, "9"), &more);
    assert_climbed(mesh, experiment);
    assert_int_equal(experiment->search.ladder.climber_count, 9);
    fact.judged[fact.judged_count++] = judged(mesh, 8, 0, FACT_PAUSES);
    say_log(mesh, 2, second_log, 2, &fact);
    assert_true(view_search_refresh(&mesh->core->view, experiment));
    assert_int_equal(view_search_course(experiment, 8), VIEW_IS_PAUSED);
}

static void a_trial_is_not_at_rest_before_its_ladder_knows_its_end(void **state)
{
    struct mesh *mesh = *state;
    struct view_experiment *experiment = submit_halving(mesh, true);
    attempt_id id = make_attempt_id(0, 3, 1, 1, mesh->people[1].id);
    struct fact_attempt attempt = {.member_count = 1};
    struct fact_search_log fact = {.term = 2, .boot = 1};
    for (uint32_t i = 0; i < RECORDS; i++) {
        say_climb(mesh, i);
    }
    attempt.members[0] = (struct fact_assignment){mesh->people[1].id, 0};
    say(mesh, 1, FACT_ATTEMPT, fact_key_attempt(&id), &attempt);
    judge(mesh, 1, &id, FACT_COMPLETED, 0.5); /* below its first rung */
    assert_true(view_search_refresh(&mesh->core->view, experiment));
    view_trials_settle(experiment);
    assert_int_equal(view_next_unsettled(experiment, 3), 3);
    fact.judged[fact.judged_count++] = judged(mesh, 3, 0, FACT_ENDS);
    say_log(mesh, 2, second_log, 2, &fact);
    assert_true(view_search_refresh(&mesh->core->view, experiment));
    view_trials_settle(experiment);
    assert_int_not_equal(view_next_unsettled(experiment, 3), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_records_give_the_same_decisions_in_every_order),
        cmocka_unit_test_setup_teardown(a_log_waits_for_a_record_that_it_has_adopted, setup, teardown),
        cmocka_unit_test_setup_teardown(a_log_without_a_claim_of_its_writer_decides_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(further_trials_leave_what_was_decided_as_it_is, setup, teardown),
        cmocka_unit_test_setup_teardown(the_values_of_a_trial_are_those_of_its_completed_or_highest_attempt, setup, teardown),
        cmocka_unit_test_setup_teardown(a_result_counts_while_the_attempt_has_the_values_that_it_was_made_with, setup, teardown),
        cmocka_unit_test_setup_teardown(decisions_about_rungs_that_the_search_has_not_are_passed_over, setup, teardown),
        cmocka_unit_test_setup_teardown(a_log_tells_the_values_of_an_attempt_once, setup, teardown),
        cmocka_unit_test_setup_teardown(decisions_about_trials_that_are_not_there_are_passed_over, setup, teardown),
        cmocka_unit_test(promotions_of_two_logs_merge_in_every_order),
        cmocka_unit_test_setup_teardown(a_pause_names_the_attempts_that_leave, setup, teardown),
        cmocka_unit_test_setup_teardown(a_user_lets_a_paused_trial_go_on, setup, teardown),
        cmocka_unit_test_setup_teardown(a_search_that_stops_passes_over_the_words_of_one_that_promotes, setup, teardown),
        cmocka_unit_test_setup_teardown(further_trials_join_a_ladder, setup, teardown),
        cmocka_unit_test_setup_teardown(a_trial_is_not_at_rest_before_its_ladder_knows_its_end, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
