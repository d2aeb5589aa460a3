/* shoal preview: the trials that a configuration file gives, without a daemon. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/cli_fixture.h"
#include "tools/shoal/cli.h"

static char file[192];

static const char *file_of(const char *text)
{
    (void)snprintf(file, sizeof file, "%s/search.yaml", root);
    FILE *out = fopen(file, "we");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    (void)fclose(out);
    return file;
}

/* The numbers of trials in the brackets and at the rungs are those of tests/unit/asha_test.c. */
static const char search[] = "entrypoint: x\nhyperparameters: {lr: {type: log, minval: -4, maxval: -1}}\n"
                             "searcher: {name: adaptive_asha, metric: loss, max_trials: 64, max_time: 1000}\n";

static void brackets_and_rungs_are_shown_with_the_trials_that_reach_them(void **state)
{
    (void)state;
    assert_int_equal(RUN("preview", (char *)file_of(search)), CLI_DONE);
    assert_has(out_text, "adaptive_asha: 64 trials in 3 brackets, stopped by loss (the smallest is the best)\n");
    assert_has(out_text, "BRACKET  TRIALS  AT A TIME  RUNG  steps  REACHED BY\n");
    assert_has(out_text, "      0      45          6     0     15          45\n");
    assert_has(out_text, "                              1     62          11\n");
    assert_has(out_text, "                              2    250           2\n");
    assert_has(out_text, "                              3   1000           1\n");
    assert_has(out_text, "      1      14          5     0     62          14\n");
    assert_has(out_text, "      2       5          5     0    250           5\n");
    /* 45 * 15 + 11 * 47 + 2 * 188 + 750, 14 * 62 + 3 * 188 + 750, 5 * 250 + 750 */
    assert_has(out_text, "they would train 6500\nsteps together, 10 % of the 64000 of 64 full trials.");
    assert_has(out_text, "\ntrial 0: {\"lr\": ");
    assert_has(out_text, "\ntrial 2: {\"lr\": ");
    assert_has(out_text, "}\n...\n");
    assert_string_equal(err_text_written, "");
}

static void a_file_is_read_as_submit_reads_it(void **state)
{
    (void)state;
    char path[192];
    (void)snprintf(path, sizeof path, "%s/base.yaml", root);
    FILE *base = fopen(path, "we");
    assert_non_null(base);
    assert_true(fputs(search, base) >= 0);
    (void)fclose(base);
    assert_int_equal(RUN("preview", (char *)file_of("extends: base.yaml\nsearcher: {max_trials: 32}\n# shoal: set searcher.max_time=500\n")), CLI_DONE);
    assert_has(out_text, "adaptive_asha: 32 trials in 2 brackets");
    assert_has(out_text, "    500 ");
}

static void promotion_says_which_brackets_promote_none_to_the_end(void **state)
{
    (void)state;
    assert_int_equal(RUN("preview", (char *)file_of(search), "--set", "searcher.stop_once=false"), CLI_DONE);
    assert_has(out_text, "adaptive_asha: 64 trials in 3 brackets, paused and promoted by loss (the smallest is the best)\n");
    assert_has(out_text, "                              2    250           2\n");
    assert_has(out_text, "                              3   1000           0\n"); /* a quarter of two is none */
    assert_has(out_text, "      2       5          5     0    250           5\n                               1   1000           1\n");
    assert_has(out_text, "No trial of bracket 0 would reach its last rung then; ");
    assert_int_equal(RUN("preview", (char *)file_of(search), "--json", "--set", "searcher.stop_once=false"), CLI_DONE);
    assert_has(out_text, "\"stop_once\": false, \"time_metric\": ");
}

static void values_of_the_file_can_be_replaced(void **state)
{
    (void)state;
    assert_int_equal(RUN("preview", (char *)file_of(search), "--set", "searcher.mode=aggressive", "--set", "searcher.time_metric=epochs",
                         "--set", "searcher.smaller_is_better=false"),
                     CLI_DONE);
    assert_has(out_text, "adaptive_asha: 64 trials in 1 bracket, stopped by loss (the largest is the best)\n");
    assert_has(out_text, "RUNG  epochs  REACHED BY\n");
    assert_int_equal(RUN("preview", (char *)file_of(search), "--set", "searcher.mode=slow"), CLI_REFUSED);
    assert_sentence("searcher.mode is 'slow'; allowed are standard, aggressive, conservative");
    assert_int_equal(RUN("preview"), CLI_USAGE);
}

static void searchers_that_stop_nothing_have_a_number_of_trials(void **state)
{
    (void)state;
    static const char grid[] = "entrypoint: x\nsearcher: {name: grid}\nhyperparameters: {a: {type: categorical, vals: [1, 2]}, b: 3}\n";
    assert_int_equal(RUN("preview", (char *)file_of(grid)), CLI_DONE);
    assert_string_equal(out_text, "grid: 2 trials, at most 16 at a time\n\ntrial 0: {\"a\": 1, \"b\": 3}\ntrial 1: {\"a\": 2, \"b\": 3}\n");
    assert_int_equal(RUN("preview", (char *)file_of("entrypoint: x\n")), CLI_DONE);
    assert_string_equal(out_text, "single: 1 trial\n\ntrial 0: {}\n");
}

static void a_population_has_rounds_and_copies(void **state)
{
    (void)state;
    static const char pbt[] = "entrypoint: x\nhyperparameters: {lr: {type: log, minval: -4, maxval: -1}}\n"
                              "searcher: {name: pbt, metric: loss, population_size: 4, num_rounds: 3, length_per_round: {epochs: 5}}\n";
    assert_int_equal(RUN("preview", (char *)file_of(pbt)), CLI_DONE);
    assert_has(out_text, "pbt: 12 trials, compared by loss (the smallest is the best), at most 4 at a time\n\n3 rounds of 5 "
                         "epochs, of a population of 4. "
                         "After each round the worst\nmember is replaced by a copy of the best, with other values.\nThe "
                         "values of the first round are random:\ntrial 0: {\"lr\": ");
    assert_int_equal(RUN("preview", (char *)file_of(pbt), "--set", "searcher.truncate_fraction=0.2"), CLI_DONE);
    assert_has(out_text, "No member is replaced, since searcher.truncate_fraction of the population is below 1.\n");
    assert_int_equal(RUN("preview", (char *)file_of(pbt), "--json"), CLI_DONE);
    assert_has(out_text,
               "\"time_metric\": \"epochs\", \"population\": 4, \"rounds\": 3, \"length_per_round\": 5, \"replaced\": 1}\n");
    assert_int_equal(RUN("submit", (char *)file_of(pbt), "--dry-run"), CLI_DONE);
    assert_has(out_text, "12 trials in 3 rounds of 5 epochs; shoal preview tells more\n");
}

static void a_program_decides_how_many_trials_there_are(void **state)
{
    (void)state;
    static const char custom[] =
        "entrypoint: x\nhyperparameters: {lr: {type: log, minval: -4, maxval: -1}}\n"
        "searcher: {name: custom, entrypoint: python3 s.py, metric: loss, max_trials: 9, max_time: 40, every: 10}\n";
    assert_int_equal(RUN("preview", (char *)file_of(custom)), CLI_DONE);
    assert_string_equal(out_text,
                        "custom: up to 9 trials, compared by loss (the smallest is the best), at most 16 at a time\n\nThe "
                        "program (python3 s.py) says "
                        "which trials there are. It is told\nof each trial 4 times until 40 steps, and of its end.\n");
    assert_int_equal(RUN("preview", (char *)file_of(custom), "--json"), CLI_DONE);
    assert_has(out_text, "\"time_metric\": \"steps\", \"program\": \"python3 s.py\", \"reports\": 4, \"length\": 40}\n");
}

static void values_that_follow_from_results_are_not_known_before(void **state)
{
    (void)state;
    static const char tpe[] = "entrypoint: x\nhyperparameters: {lr: {type: log, minval: -4, maxval: -1}}\n"
                              "searcher: {name: tpe, metric: loss, max_trials: 40, max_concurrent_trials: 4}\n";
    assert_int_equal(RUN("preview", (char *)file_of(tpe)), CLI_DONE);
    assert_has(out_text, "tpe: 40 trials, compared by loss (the smallest is the best), at most 4 at a time\n\nValues are "
                         "random until 10 trials are over, then drawn from results:\n"
                         "trial 0: {\"lr\": ");
    assert_has(out_text, "}\n...\n");
    assert_int_equal(RUN("preview", (char *)file_of(tpe), "--set", "searcher.n_startup_trials=0"), CLI_DONE);
    assert_string_equal(out_text, "tpe: 40 trials, compared by loss (the smallest is the best), at most 4 at a "
                                  "time\n\nValues are drawn from what earlier trials have reached.\n");
    assert_int_equal(RUN("preview", (char *)file_of(tpe), "--json", "--set", "searcher.n_startup_trials=1"), CLI_DONE);
    assert_has(out_text, "\"searcher\": \"tpe\", \"metric\": \"loss\"");
    static const char both[] = "entrypoint: x\nhyperparameters: {lr: {type: log, minval: -4, maxval: -1}}\nsearcher: {name: asha, metric: loss, "
                               "max_trials: 40, num_rungs: 2, max_time: 9, stop_once: false, sampler: tpe}\n";
    assert_int_equal(RUN("preview", (char *)file_of(both)), CLI_DONE);
    assert_has(out_text, "asha: 40 trials in 1 bracket, paused and promoted by loss");
    assert_has(out_text, "Values are random until 10 trials or more have reached a rung, then drawn from results:\n");
}

static void programs_read_a_document(void **state)
{
    (void)state;
    assert_int_equal(RUN("preview", (char *)file_of(search), "--json"), CLI_DONE);
    assert_has(out_text, "{\"searcher\": \"adaptive_asha\", \"metric\": \"loss\", \"smaller_is_better\": true, \"trials\": 64, "
                         "\"max_concurrent_trials\": 16, \"hyperparameters\": [{\"lr\": ");
    assert_has(out_text, "\"time_metric\": \"steps\", \"brackets\": [{\"trials\": 45, \"concurrent\": 6, \"rungs\": "
                         "[{\"length\": 15, \"trials\": 45}, {\"length\": 62, \"trials\": 11}");
    assert_has(out_text, "\"length\": 6500, \"full_length\": 64000}\n");
    assert_int_equal(RUN("preview", (char *)file_of("entrypoint: x\n"), "--json"), CLI_DONE);
    assert_lacks(out_text, "brackets");
}

static void submit_tells_how_many_trials_there_are(void **state)
{
    (void)state;
    assert_int_equal(RUN("submit", (char *)file_of(search), "--dry-run"), CLI_DONE);
    assert_has(out_text, "64 trials in 3 brackets, about 10 % of the steps of 64 full trials; shoal preview tells more\n");
    static const struct answer answers[] = {
        {"submit", {"\"ok\":true,\"end\":true,\"experiment\":\"x\",\"stored_on\":2,\"nodes_alive\":3"}, NULL}, {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("submit", (char *)file_of(search)), CLI_DONE);
    assert_has(out_text, "submitted search (64 trials in 3 brackets, about 10 % of the steps of 64 full trials; ");
    fake_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(brackets_and_rungs_are_shown_with_the_trials_that_reach_them),
        cmocka_unit_test(a_file_is_read_as_submit_reads_it),
        cmocka_unit_test(promotion_says_which_brackets_promote_none_to_the_end),
        cmocka_unit_test(values_of_the_file_can_be_replaced),
        cmocka_unit_test(searchers_that_stop_nothing_have_a_number_of_trials),
        cmocka_unit_test(a_population_has_rounds_and_copies),
        cmocka_unit_test(a_program_decides_how_many_trials_there_are),
        cmocka_unit_test(values_that_follow_from_results_are_not_known_before),
        cmocka_unit_test(programs_read_a_document),
        cmocka_unit_test_teardown(submit_tells_how_many_trials_there_are, stop_what_runs),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
