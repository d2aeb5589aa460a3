/* Stories of a search in which a program of the user's decides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "tests/scenario/core_story.h"

static struct config own_config(uint32_t trials)
{
    struct config config;
    make_config(&config, trials, 0);
    config.searcher = SEARCH_CUSTOM;
    config.max_time = 100;
    config.every = 25;
    config.max_concurrent_trials = 16;
    bytes_copy_text(config.metric, sizeof config.metric, "loss");
    bytes_copy_text(config.searcher_entrypoint, sizeof config.searcher_entrypoint, "python3 own.py");
    bytes_copy_text(config.time_metric, sizeof config.time_metric, "steps");
    return config;
}

static void create(struct pack_writer *actions, double rate)
{
    pack_array(actions, 2);
    pack_text(actions, "create");
    pack_map(actions, 1);
    pack_text(actions, "learning_rate");
    pack_double(actions, rate);
}

/* Two trials at first, and one more after the end of each of them. */
static bool creates_two_and_two(struct world *world, const char *kind, uint32_t trial, struct pack_writer *actions)
{
    (void)world;
    bool is_start = strcmp(kind, "start") == 0, adds = strcmp(kind, "end") == 0 && trial < 2;
    pack_array(actions, is_start ? 2 : adds ? 1 : 0);
    if (is_start) {
        create(actions, 0.02);
        create(actions, 0.03);
    } else if (adds) {
        create(actions, 0.04 + 0.01 * trial);
    }
    return true;
}

static struct world *begin(uint32_t nodes, bool (*searches)(struct world *, const char *, uint32_t, struct pack_writer *), uint32_t trials)
{
    struct world *world = world_new(nodes, 2);
    struct config config = own_config(trials);
    world->searches = searches;
    world_start_all(world);
    world_submit(world, 0, &config);
    return world;
}

static double value_of(const struct world *world, uint32_t node, uint32_t trial)
{
    const struct view_attempt *attempt = view_trial_valued(view_find_trial(world_experiment(world, node), trial));
    assert_non_null(attempt);
    assert_int_equal(attempt->point_count, 1);
    return attempt->point[0];
}

static void trials_have_the_values_that_the_program_gives_them(void **state)
{
    (void)state;
    struct world *world = begin(1, creates_two_and_two, 6);
    world_run(world, 30000);
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_COMPLETED);
    static const double values[] = {0.02, 0.03, 0.04, 0.05};
    for (uint32_t t = 0; t < 4; t++) {
        assert_int_equal(view_trial_state(world_experiment(world, 0), t), VIEW_TRIAL_COMPLETED);
    }
    for (uint32_t t = 0; t < 2; t++) { /* the others in the order of the ends */
        assert_true(value_of(world, 0, t) > values[t] - 1e-9 && value_of(world, 0, t) < values[t] + 1e-9);
    }
    assert_int_equal(view_trial_state(world_experiment(world, 0), 4), VIEW_TRIAL_STOPPED); /* never created, so never begun */
    assert_int_equal(view_trial_state(world_experiment(world, 0), 5), VIEW_TRIAL_STOPPED);
    assert_int_equal(world_count(world, "a# start"), 1);
    assert_int_equal(world_count(world, "a# end"), 4);
    assert_int_equal(world_count(world, "a> start searcher"), 1);
    assert_int_equal(world_count(world, "a> stop searcher"), 1);
    world_free(world);
}

/* What the log has, the next program is told of in the same order; the rest comes behind. */
static void a_program_that_is_started_again_is_told_of_the_same_events(void **state)
{
    (void)state;
    struct world *world = begin(1, creates_two_and_two, 6);
    assert_line(world, 20000, "a# end");
    size_t first = world_find(world, 0, "a# end");
    char event[16];
    memcpy(event, world->log + first, 8);
    event[8] = '\0'; /* "a# end N" */
    assert_line(world, 20000, "a: exp trial 2 attempt 1 from step 0");
    world_crash(world, 0);
    size_t at = world->log_bytes;
    world_restart(world, 0, true);
    assert_true(world_run_until(world, 20000, at, "a# start"));
    assert_true(world_run_until(world, 20000, at, event));
    assert_true(world_find(world, at, "a# start") < world_find(world, at, "a# end"));
    assert_int_equal(world_find(world, at, "a# end"), world_find(world, at, event));
    world_run(world, 30000);
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_COMPLETED);
    assert_int_equal(world_count(world, "answers event"), 0);
    assert_int_equal(view_trial_state(world_experiment(world, 0), 3), VIEW_TRIAL_COMPLETED);
    world_free(world);
}

static void a_coordinator_that_takes_over_goes_on_with_its_own_program(void **state)
{
    (void)state;
    struct world *world = begin(3, creates_two_and_two, 4);
    assert_line(world, 20000, "exp trial 2 attempt 1 from step 0");
    int coordinator = world_coordinator(world);
    assert_true(coordinator >= 0);
    world_die(world, (uint32_t)coordinator);
    world_run(world, 120000);
    uint32_t other = coordinator == 0 ? 1 : 0;
    assert_int_equal(view_experiment_state(world_experiment(world, other)), VIEW_COMPLETED);
    assert_in_range(world_count(world, "> start searcher"), 2, 3);
    assert_int_equal(world_count(world, "answers event"), 0);
    for (uint32_t t = 0; t < 4; t++) {
        assert_int_equal(view_trial_state(world_experiment(world, other), t), VIEW_TRIAL_COMPLETED);
    }
    world_free(world);
}

static void a_program_that_cannot_start_is_told_of_and_not_tried_for_ever(void **state)
{
    (void)state;
    struct world *world = begin(1, NULL, 3);
    char text[NODE_CORE_WAITING_BYTES];
    world_run(world, 60000);
    assert_true(node_core_waiting_reason(world->nodes[0].core, world_experiment(world, 0), 0, text, sizeof text));
    assert_non_null(strstr(text, "(searcher.entrypoint) has ended with status 1: SyntaxError; it is started again"));
    world_run(world, 20 * 60000);
    assert_int_equal(world_count(world, "a> start searcher"), 8);
    assert_true(node_core_waiting_reason(world->nodes[0].core, world_experiment(world, 0), 0, text, sizeof text));
    assert_non_null(strstr(text, "shoal pause and shoal resume try once more"));
    assert_true(view_custom_searcher(world_experiment(world, 0))->fact.is_given_up);
    world->searches = creates_two_and_two;
    world_request(world, 0, NODE_REQUEST_PAUSE);
    world_run(world, 3000);
    world_request(world, 0, NODE_REQUEST_RESUME);
    world_run(world, 1000);
    assert_false(view_custom_searcher(world_experiment(world, 0))->fact.is_given_up); /* it runs, and has said nothing yet */
    world_run(world, 60000);
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_COMPLETED);
    world_free(world);
}

static void a_program_that_does_not_answer_is_started_again(void **state)
{
    (void)state;
    struct world *world = begin(1, creates_two_and_two, 4);
    world->searcher_is_mute = true;
    assert_line(world, 1000000, "the program of the search exp has not answered event 0 within 600 s (searcher.timeout)");
    world->searcher_is_mute = false;
    world_run(world, 60000);
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_COMPLETED);
    world_free(world);
}

static bool stops_what_reports(struct world *world, const char *kind, uint32_t trial, struct pack_writer *actions)
{
    (void)world;
    bool is_start = strcmp(kind, "start") == 0, is_report = strcmp(kind, "report") == 0;
    pack_array(actions, is_start || is_report);
    if (is_start) {
        create(actions, 0.02);
    } else if (is_report) {
        pack_array(actions, 2);
        pack_text(actions, "stop");
        pack_u64(actions, trial);
    }
    return true;
}

/* Here the attempt's own record has no such metric. So it is where a node dies behind a result, and before the next
 * record of its progress. */
static void an_end_is_not_behind_the_reports_of_its_trial(void **state)
{
    (void)state;
    struct world *world = begin(1, stops_what_reports, 1);
    world->program = WORLD_RUNS_FOREVER;
    assert_line(world, 20000, "> spawn trial 0 attempt 1 rank 0");
    struct node_event event = {.kind = NODE_EVENT_WORKER_RESULT};
    event.u.worker.attempt = view_trial_highest(view_find_trial(world_experiment(world, 0), 0))->id;
    event.u.worker.step = event.u.worker.length = 100000;
    event.u.worker.metric = 0.25;
    world_step(world, 0, &event);
    assert_line(world, 20000, "a# end 0");
    world_run(world, 5000);
    const struct view_search *search = &world_experiment(world, 0)->search;
    const struct fact_judged *last = &search->judged[search->judged_count - 1].fact;
    assert_int_equal(last->decision, FACT_ENDS);
    assert_int_equal(last->length, FACT_END_STOPPED);
    assert_int_equal(last->step, 100000);
    assert_true(last->metric > 0.249 && last->metric < 0.251);
    world_free(world);
}

static uint32_t wrong; /* which mistake it makes */

static bool is_wrong(struct world *world, const char *kind, uint32_t trial, struct pack_writer *actions)
{
    (void)world;
    (void)kind;
    (void)trial;
    pack_array(actions, 1);
    switch (wrong) {
    case 0:
        create(actions, 7.5);
        break;
    case 1:
        pack_array(actions, 2);
        pack_text(actions, "create");
        pack_map(actions, 1);
        pack_text(actions, "rate");
        pack_double(actions, 0.05);
        break;
    case 2:
        pack_array(actions, 2);
        pack_text(actions, "stop");
        pack_u64(actions, 0);
        break;
    case 3:
        pack_array(actions, 1);
        pack_text(actions, "dance");
        break;
    case 4:
        actions->used_bytes = 0; /* nothing at all */
        break;
    default:
        return false;
    }
    return true;
}

static void a_wrong_answer_is_the_fault_of_the_program(void **state)
{
    (void)state;
    static const char *const sentences[] = {
        "has created a trial with 'learning_rate': the hyperparameters have no such name, or not this value",
        "has created a trial with 'rate': the hyperparameters have no such name, or not this value",
        "has stopped a trial that it has not created",
        "has answered with something that is no action (Create, Stop, Finish)",
        "has given an answer that is no list of actions",
        "was ended by signal 9",
    };
    for (wrong = 0; wrong < sizeof sentences / sizeof sentences[0]; wrong++) {
        struct world *world = begin(1, is_wrong, 2);
        assert_line(world, 20000, sentences[wrong]);
        assert_int_equal(world_spawns(world), 0);
        assert_int_equal(world_experiment(world, 0)->search.event_count, 0);
        world_free(world);
    }
}

/* Three trials at once, of which one runs at a time; once one of them is over the others are stopped. */
static bool stops_what_waits(struct world *world, const char *kind, uint32_t trial, struct pack_writer *actions)
{
    bool is_start = strcmp(kind, "start") == 0, is_first = strcmp(kind, "end") == 0 && world_count(world, "# end") == 1;
    pack_array(actions, is_start ? 3 : is_first ? 2 : 0);
    for (uint32_t i = 0; i < 3 && is_start; i++) {
        create(actions, 0.02 + 0.01 * i);
    }
    for (uint32_t i = 0; i < 3 && is_first; i++) {
        if (i != trial) {
            pack_array(actions, 2);
            pack_text(actions, "stop");
            pack_u64(actions, i);
        }
    }
    return true;
}

static void a_trial_that_has_not_begun_can_be_stopped(void **state)
{
    (void)state;
    struct world *world = world_new(1, 2);
    struct config config = own_config(4);
    config.max_concurrent_trials = 1;
    world->searches = stops_what_waits;
    world_start_all(world);
    world_submit(world, 0, &config);
    world_run(world, 60000);
    assert_in_range(world_spawns(world), 1, 2);
    assert_int_equal(world_count(world, "# end"), 3); /* the program hears of each, also of the one that never began */
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_COMPLETED);
    world_free(world);
}

/* It never begins, so there is nothing to retry; a retry that was accepted beyond a cut, where that was not known, is undone. */
static void a_trial_that_was_never_created_is_not_retried(void **state)
{
    (void)state;
    struct world *world = begin(2, creates_two_and_two, 6);
    world_run(world, 30000);
    assert_int_equal(view_trial_state(world_experiment(world, 0), 5), VIEW_TRIAL_STOPPED);
    world_retry(world, 0, 5);
    assert_int_equal(world->reply.code, ERR_REFUSED);
    assert_string_equal(world->reply.text,
                        "The program of the search has never created trial 5, and creates no more, so there is nothing to retry.");
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_COMPLETED);
    struct made made;
    const struct fact_stop retry = {.lamport = 1, .since = 1};
    for (uint32_t node = 0; node < 2; node++) {
        make_record(&made, world->nodes[1].person.id, 1, 5000, FACT_STOP, fact_key_trial(make_experiment_id(0), 5), &retry);
        world_deliver(world, 1, node, &made);
    }
    world_run(world, 30000);
    assert_int_equal(view_trial_state(world_experiment(world, 0), 5), VIEW_TRIAL_STOPPED);
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_COMPLETED);
    assert_int_equal(world_count(world, "exp trial 5 attempt"), 0);
    world_free(world);
}

/* In a replay a program answers what it likes; what was recorded stands. */
static bool answers_otherwise(struct world *world, const char *kind, uint32_t trial, struct pack_writer *actions)
{
    if (world_count(world, "# start") > 1) {
        pack_array(actions, 1);
        create(actions, 0.09);
        return true;
    }
    return creates_two_and_two(world, kind, trial, actions);
}

static void the_first_answer_stands(void **state)
{
    (void)state;
    struct world *world = begin(1, answers_otherwise, 4);
    assert_line(world, 20000, "a: exp trial 0 attempt 1 from step 0");
    world_crash(world, 0);
    world_restart(world, 0, true);
    assert_line(world, 20000, "the program of the search exp answers event 0 otherwise than before; the first answer stands");
    world_run(world, 60000);
    assert_true(value_of(world, 0, 0) < 0.021 && value_of(world, 0, 1) < 0.031);
    world_free(world);
}

/* A node of the mesh may write anything into a log. */
static void recorded_answers_that_make_no_sense_harm_nothing(void **state)
{
    (void)state;
    struct world *world = begin(2, creates_two_and_two, 4);
    assert_line(world, 20000, "exp trial 0 attempt 1 from step 0");
    uint8_t create_bytes[128], stop_bytes[64];
    struct pack_writer creates, stops;
    struct fact_draw odd = {.count = 3, .parent = FACT_NO_TRIAL, .point = {7.5, -1, 1e300}};
    pack_writer_init(&creates, create_bytes, sizeof create_bytes);
    fact_create_pack(&creates, 3, &odd);
    fact_create_pack(&creates, SEARCH_TRIALS_MAX - 1, &odd);
    pack_writer_init(&stops, stop_bytes, sizeof stop_bytes);
    fact_stopped_pack(&stops, SEARCH_TRIALS_MAX - 1, 1);
    fact_stopped_pack(&stops, 1, UINT32_MAX);
    struct fact_search_log fact = {.term = 1, .boot = 1, .has_answer = true, .judged_count = 1};
    fact.judged[0] = (struct fact_judged){.attempt = make_attempt_id(0, 2, 1, 1, world->nodes[1].person.id), .rung = 31,
                                          .decision = FACT_ENDS, .length = UINT64_MAX};
    fact.answer = (struct fact_answer){.create_count = 2,
                                       .stop_count = 2,
                                       .creates = create_bytes,
                                       .stops = stop_bytes,
                                       .creates_bytes = (uint32_t)creates.used_bytes,
                                       .stops_bytes = (uint32_t)stops.used_bytes};
    for (uint32_t node = 0; node < 2; node++) {
        struct made made;
        struct fact_log_name name = {{9}};
        struct fact_claim claim = {.term = 1};
        make_record(&made, world->nodes[1].person.id, 1, 5000, FACT_CLAIM, fact_key_experiment(world_experiment(world, 0)->id), &claim);
        world_deliver(world, 1, node, &made);
        make_record(&made, world->nodes[1].person.id, 1, 5001, FACT_SEARCH_LOG, fact_key_search_log(world_experiment(world, 0)->id, name, 0),
                    &fact);
        world_deliver(world, 1, node, &made);
    }
    world_run(world, 120000);
    const struct view_experiment *experiment = world_experiment(world, 0);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_COMPLETED);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trials_have_the_values_that_the_program_gives_them),
        cmocka_unit_test(a_program_that_is_started_again_is_told_of_the_same_events),
        cmocka_unit_test(a_coordinator_that_takes_over_goes_on_with_its_own_program),
        cmocka_unit_test(a_program_that_cannot_start_is_told_of_and_not_tried_for_ever),
        cmocka_unit_test(a_program_that_does_not_answer_is_started_again),
        cmocka_unit_test(an_end_is_not_behind_the_reports_of_its_trial),
        cmocka_unit_test(a_wrong_answer_is_the_fault_of_the_program),
        cmocka_unit_test(a_trial_that_has_not_begun_can_be_stopped),
        cmocka_unit_test(a_trial_that_was_never_created_is_not_retried),
        cmocka_unit_test(the_first_answer_stands),
        cmocka_unit_test(recorded_answers_that_make_no_sense_harm_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
