/* shoal run: the configuration that it makes, what it shows, and with which code it ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/cli_fixture.h"
#include "tools/shoal/cli.h"

static void each_word_is_quoted_as_a_shell_needs_it(void **state)
{
    (void)state;
    assert_int_equal(RUN("run", "--print", "--hp", "lr=0.1", "--hp", "size=3", "--", "python3", "a/train.py", "it's $HOME", "--lr={{hp.lr}}",
                         "", "x\"y"), CLI_DONE);
    assert_has(out_text, "name: \"train\"\n");
    assert_has(out_text, "entrypoint: \"python3 a/train.py 'it'\\\\''s $HOME' --lr={{hp.lr}} '' 'x\\\"y' --size {{hp.size}}\"\n");
    assert_has(out_text, "  \"lr\": 0.1\n  \"size\": 3\n");
    assert_has(out_text, "name: single\n");
    assert_has(out_text, "slots_per_trial: 1\n");
    assert_int_equal(RUN("run", "--print", "--", "python3", "t.py", "\\{{ hp.lr }}"), CLI_DONE); /* the text itself, one word */
    assert_has(out_text, "entrypoint: \"python3 t.py \\\\{{hp.lr}}\"\n");
}

static void more_values_than_there_is_room_for_are_refused(void **state)
{
    (void)state;
    for (int is_set = 0; is_set < 2; is_set++) {
        char values[66][32], *words[2 * 66 + 8] = {"shoal", "run", "--print"};
        int count = 3;
        for (int i = 0; i < 65; i++) {
            (void)snprintf(values[i], sizeof values[i], is_set ? "environment.variables.a%d=1" : "a%d=1", i);
            words[count++] = is_set ? "--set" : "--hp";
            words[count++] = values[i];
        }
        words[count++] = "--";
        words[count++] = "./t";
        assert_int_equal(run_words(words), CLI_USAGE);
        assert_sentence(is_set ? "more than 64 --set" : "more than 64 --hp");
    }
}

static void a_range_is_searched_at_random(void **state)
{
    (void)state;
    assert_int_equal(RUN("run", "--print", "--slots", "4", "--trials", "16", "--metric", "loss", "--hp", "lr=log:1e-4:1e-1", "--hp",
                         "n=int:1:8", "--hp", "act=categorical:relu,tanh", "--hp", "url=const:log:1:2", "--", "./t"), CLI_DONE);
    assert_has(out_text, "\"lr\": {type: log, base: 10, minval: -4, maxval: -1}\n");
    assert_has(out_text, "\"n\": {type: int, minval: 1, maxval: 8}\n");
    assert_has(out_text, "\"act\": {type: categorical, vals: [relu, tanh]}\n");
    assert_has(out_text, "\"url\": \"log:1:2\"\n");
    assert_has(out_text, "  name: random\n  metric: \"loss\"\n  max_trials: 16\n");
    assert_has(out_text, "slots_per_trial: 4\n");
    assert_int_equal(RUN("run", "--print", "--trials", "16", "--hp", "width=int:16:1024:log", "--hp", "batch=int:32:128:step=32", "--hp",
                         "drop=double:0:0.5:step=0.1", "--", "./t"), CLI_DONE);
    assert_has(out_text, "\"width\": {type: int, minval: 16, maxval: 1024, log: true}\n");
    assert_has(out_text, "\"batch\": {type: int, minval: 32, maxval: 128, step: 32}\n");
    assert_has(out_text, "\"drop\": {type: double, minval: 0, maxval: 0.5, step: 0.1}\n");
    assert_int_equal(RUN("run", "--print", "--trials", "16", "--sampler", "sobol", "--hp", "n=int:1:8", "--", "./t"), CLI_DONE);
    assert_has(out_text, "  max_trials: 16\n  sampler: sobol\n");
    assert_int_equal(RUN("run", "--print", "--trials", "16", "--initial", "n=3,act=relu", "--initial", "n=8", "--hp", "n=int:1:8", "--hp",
                         "act=categorical:relu,tanh", "--", "./t"), CLI_DONE);
    assert_has(out_text, "  max_trials: 16\n  initial:\n    - {\"n\": 3, \"act\": relu}\n    - {\"n\": 8}\n");
    assert_int_equal(RUN("run", "--print", "--trials", "16", "--searcher", "adaptive_asha", "--max-length", "900", "--metric", "loss", "--hp",
                         "n=int:1:8", "--", "./t"), CLI_DONE);
    assert_has(out_text, "  name: adaptive_asha\n  metric: \"loss\"\n  max_trials: 16\n  max_length: 900\n");
    assert_int_equal(RUN("run", "--print", "--trials", "16", "--searcher", "asha", "--max-length", "epochs=20", "--metric", "loss", "--hp",
                         "n=int:1:8", "--set", "searcher.num_rungs=3", "--", "./t"), CLI_DONE);
    assert_has(out_text, "  name: asha\n  metric: \"loss\"\n  max_trials: 16\n  max_length: {epochs: 20}\n");
    assert_int_equal(RUN("run", "--print", "--trials", "16", "--searcher", "custom", "--max-length", "epochs=20", "--metric",
                         "loss", "--hp", "n=int:1:8", "--set", "searcher.entrypoint=python3 s.py", "--", "./t"),
                     CLI_DONE);
    assert_has(out_text, "  name: custom\n  metric: \"loss\"\n  max_trials: 16\n  max_length: {epochs: 20}\n");
    assert_int_equal(RUN("run", "--print", "--metric", "f1", "--maximize", "--keep", "best.pt", "--keep", "runs/a b", "--", "./t"), CLI_DONE);
    assert_has(out_text, "  metric: \"f1\"\n  smaller_is_better: false\n");
    assert_has(out_text, "keep:\n  - \"best.pt\"\n  - \"runs/a b\"\n");
}

static void rounds_of_a_population_follow_from_all_its_trials(void **state)
{
    (void)state;
    static const struct {
        char *trials, *length, *set;
        const char *written; /* an error begins with "--" */
    } rows[] = {
        {"16", "400", "seed=1", "  population_size: 4\n  num_rounds: 4\n  length_per_round: 100\n"},
        {"8", "epochs=11", "seed=1", "  population_size: 2\n  num_rounds: 4\n  length_per_round: {epochs: 2}\n"},
        {"16", "400", "searcher.num_rounds=8", "  metric: \"loss\"\n  population_size: 2\n  length_per_round: 50\n"},
        {"15", "400", "searcher.population_size=5", "  metric: \"loss\"\n  num_rounds: 3\n  length_per_round: 133\n"},
        {"18", "400", "seed=1",
         "--trials 18 cannot be shared by 4 rounds of pbt with 4 trials each; give --trials 16, or other rounds by --set "},
        {"4", "400", "seed=1", "--trials 4 cannot be shared by 4 rounds of pbt with 2 trials each; give --trials 8, or"},
        {"16", "400", "searcher.num_rounds=x", "--set searcher.num_rounds=x is no number from 1 on"},
        {"16", "3", "seed=1",
         "--max-length 3 is shorter than 4 rounds of pbt; make it longer, or give --set searcher.num_rounds=N"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool is_wrong = strncmp(rows[i].written, "--", 2) == 0;
        assert_int_equal(RUN("run", "--print", "--searcher", "pbt", "--metric", "loss", "--hp", "n=int:1:8", "--trials",
                             rows[i].trials, "--max-length", rows[i].length, "--set", rows[i].set, "--", "./t"),
                         is_wrong ? CLI_USAGE : CLI_DONE);
        if (is_wrong) {
            assert_sentence(rows[i].written);
        } else {
            assert_has(out_text, rows[i].written);
        }
    }
    assert_int_equal(RUN("run", "--print", "--searcher", "pbt", "--metric", "loss", "--hp", "n=int:1:8", "--trials", "8",
                         "--set", "searcher.length_per_round=7", "--", "./t"),
                     CLI_DONE);
    assert_has(out_text, "  population_size: 2\n  num_rounds: 4\n");
    assert_null(strstr(out_text, "length"));
}

/* The seed that the printed configuration has; -1: none. */
static long long printed_seed(void)
{
    const char *line = strstr(out_text, "\nseed: ");
    return line != NULL ? strtoll(line + 7, NULL, 10) : -1;
}

static void each_search_has_a_seed_of_its_own_unless_one_is_given(void **state)
{
    (void)state;
    long long seeds[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(RUN("run", "--print", "--trials", "3", "--hp", "lr=log:1e-4:1e-1", "--", "./t"), CLI_DONE);
        seeds[i] = printed_seed();
        assert_true(seeds[i] >= 0);
    }
    assert_true(seeds[0] != seeds[1]); /* of four billion */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(RUN("run", "--print", "--trials", "3", "--seed", "17", "--hp", "lr=log:1e-4:1e-1", "--", "./t"), CLI_DONE);
        assert_int_equal(printed_seed(), 17);
    }
    assert_int_equal(RUN("run", "--print", "--seed", "3", "--", "./t"), CLI_DONE);
    assert_int_equal(printed_seed(), 3);
    assert_int_equal(RUN("run", "--print", "--hp", "lr=0.1", "--", "./t"), CLI_DONE); /* nothing is drawn */
    assert_int_equal(printed_seed(), -1);
    assert_int_equal(RUN("run", "--print", "--trials", "3", "--set", "seed=5", "--hp", "n=int:1:9", "--", "./t"), CLI_DONE);
    assert_int_equal(printed_seed(), -1); /* that of --set counts */
    assert_int_equal(RUN("run", "--print", "--seed", "many", "--", "./t"), CLI_USAGE);
    assert_sentence("--seed many is no seed; give a whole number from 0 to 9223372036854775807");
}

static void a_slip_on_the_command_line_is_named(void **state)
{
    (void)state;
    assert_int_equal(RUN("run", "--hp", "lr=log:1e-4:1e-1", "--", "./t"), CLI_USAGE);
    assert_sentence("say with how many trials");
    assert_int_equal(RUN("run", "--trials", "3", "--", "./t"), CLI_USAGE);
    assert_sentence("--trials needs a hyperparameter that is searched");
    assert_int_equal(RUN("run", "--sampler", "sobol", "--hp", "lr=1", "--", "./t"), CLI_USAGE);
    assert_sentence("--sampler needs a hyperparameter that is searched");
    assert_int_equal(RUN("run", "--searcher", "asha", "--hp", "lr=1", "--", "./t"), CLI_USAGE);
    assert_sentence("--searcher needs a hyperparameter that is searched");
    assert_int_equal(RUN("run", "--max-length", "10", "--hp", "lr=1", "--", "./t"), CLI_USAGE);
    assert_sentence("--max-length needs a hyperparameter that is searched");
    assert_int_equal(RUN("run", "--trials", "3", "--max-length", "=4", "--hp", "n=int:1:8", "--", "./t"), CLI_USAGE);
    assert_sentence("--max-length =4 is no length; write --max-length 1000, in steps, or --max-length epochs=20");
    assert_int_equal(RUN("run", "--trials", "3", "--searcher", "asha", "--hp", "n=int:1:8", "--", "./t"), CLI_USAGE);
    assert_sentence("--searcher asha needs --metric NAME");
    assert_int_equal(RUN("run", "--trials", "3", "--searcher", "asha", "--metric", "loss", "--hp", "n=int:1:8", "--", "./t"), CLI_USAGE);
    assert_sentence("--searcher asha needs --max-length: ");
    assert_int_equal(RUN("run", "--trials", "3", "--searcher", "asha", "--metric", "loss", "--max-length", "9", "--hp", "n=int:1:8", "--", "./t"),
                     CLI_USAGE);
    assert_sentence("--searcher asha needs --set searcher.num_rungs=N");
    assert_int_equal(RUN("run", "--trials", "8", "--searcher", "pbt", "--metric", "loss", "--hp", "n=int:1:8", "--", "./t"),
                     CLI_USAGE);
    assert_sentence("--searcher pbt needs --max-length: how long a trial that is never replaced trains");
    assert_int_equal(RUN("run", "--trials", "8", "--searcher", "custom", "--hp", "n=int:1:8", "--", "./t"), CLI_USAGE);
    assert_sentence("--searcher custom needs --metric NAME");
    assert_int_equal(RUN("run", "--trials", "8", "--searcher", "custom", "--metric", "loss", "--max-length", "9", "--hp",
                         "n=int:1:8", "--", "./t"),
                     CLI_USAGE);
    assert_sentence("--searcher custom needs --set searcher.entrypoint=COMMAND: the command of your program");
    assert_int_equal(RUN("run", "--trials", "3", "--searcher", "tpe", "--hp", "n=int:1:8", "--", "./t"), CLI_USAGE);
    assert_sentence("--searcher tpe needs --metric NAME");
    assert_int_equal(RUN("run", "--print", "--trials", "3", "--searcher", "tpe", "--set", "searcher.metric=loss", "--hp", "n=int:1:8", "--", "./t"),
                     CLI_DONE);
    assert_int_equal(RUN("run", "--trials", "3", "--searcher", "ashes", "--hp", "n=int:1:8", "--", "./t"), CLI_REFUSED);
    assert_has(err_text_written, "searcher.name is 'ashes'");
    assert_int_equal(RUN("run", "--initial", "lr=2", "--hp", "lr=1", "--", "./t"), CLI_USAGE);
    assert_sentence("--initial needs a hyperparameter that is searched");
    assert_int_equal(RUN("run", "--trials", "3", "--initial", "n=2,8", "--hp", "n=int:1:8", "--", "./t"), CLI_USAGE);
    assert_sentence("--initial n=2,8 is no list of NAME=VALUE; write --initial lr=0.1,units=64");
    assert_int_equal(RUN("run", "--trials", "3", "--initial", "n=9", "--hp", "n=int:1:8", "--", "./t"), CLI_REFUSED);
    assert_has(err_text_written, "searcher.initial[0] gives n the value '9'; allowed are whole numbers, 1 ... 8");
    assert_int_equal(RUN("run", "--trials", "3", "--sampler", "sobl", "--hp", "n=int:1:8", "--", "./t"), CLI_REFUSED);
    assert_has(err_text_written, "searcher.sampler is 'sobl'; allowed are random, sobol");
    assert_int_equal(RUN("run", "--trials", "3", "--hp", "lr=log:0:1", "--", "./t"), CLI_USAGE);
    assert_sentence("needs two numbers above 0");
    assert_int_equal(RUN("run", "--trials", "3", "--hp", "lr=lgo:1:2", "--", "./t"), CLI_USAGE);
    assert_sentence("no kind of search that is known");
    static const struct { char *given; const char *says; } ends[] = {
        {"n=int:1:8:lgo", "--hp n=int:1:8:lgo ends in 'lgo'; allowed behind int:LOW:HIGH are :log and :step=N"},
        {"n=int:1:8:step=", "ends in 'step='; allowed behind int:LOW:HIGH are :log and :step=N"},
        {"n=double:1:8:log", "ends in 'log'; allowed behind double:LOW:HIGH is :step=N"},
        {"n=log:1:8:step=2", "ends in 'step=2'; allowed behind log:LOW:HIGH is nothing"},
    };
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        assert_int_equal(RUN("run", "--trials", "3", "--hp", ends[i].given, "--", "./t"), CLI_USAGE);
        assert_sentence(ends[i].says);
    }
    assert_int_equal(RUN("run", "--trials", "3", "--hp", "n=int:1:8:step=3", "--", "./t"), CLI_REFUSED); /* as of the key in a file */
    assert_has(err_text_written, "the last one below it is 7");
    assert_int_equal(RUN("run", "--hp", "0.1", "--", "./t"), CLI_USAGE);
    assert_sentence("is no NAME=VALUE");
    assert_int_equal(RUN("run", "--", "./t", "{{hp.lr}}"), CLI_REFUSED); /* as at submit: there is no such hyperparameter */
    assert_has(err_text_written, "{{hp.lr}}");
    assert_int_equal(RUN("run", "--slots", "2"), CLI_USAGE);
    assert_int_equal(RUN("run", "--maximize", "--", "./t"), CLI_USAGE);
    assert_sentence("--maximize needs --metric NAME");
    assert_int_equal(RUN("run", "--keep", "../x", "--", "./t"), CLI_REFUSED); /* as of the key in a file */
    assert_has(err_text_written, "../x");
    assert_int_equal(RUN("run", "--slots", "2", "python3", "hello.py", "--alpha", "3"), CLI_USAGE);
    assert_sentence("there is no option --alpha here; put -- before the command: shoal run -- python3");
    assert_int_equal(RUN("run", "--slot=2", "python3"), CLI_USAGE); /* the command has not begun */
    assert_sentence("there is no option --slot=2 here, did you mean --slots; shoal run --help lists them");
}

#define SUBMITTED {"submit", {"\"ok\":true,\"end\":true,\"experiment\":\"x\",\"stored_on\":2,\"nodes_alive\":2"}, NULL}
#define TRIAL(more) "\"experiment\":{\"id\":\"x\",\"state\":\"running\",\"trials\":[{\"index\":0," more "}]}"
#define BEGUN {"watch", {"\"ok\":true,\"end\":false," TRIAL("\"state\":\"queued\",\"attempt\":null"), \
                         "\"ok\":true,\"end\":false," TRIAL("\"state\":\"running\",\"attempt\":1")}, NULL}
#define WROTE {"logs", {"of4:0hello\n", "of4:1there\n", "\"ok\":true,\"end\":true,\"attempts\":[1]"}, NULL}

/* Runs in an empty directory of its own. */
static int run_there(const struct answer *answers, const char *name)
{
    char code[128];
    (void)snprintf(code, sizeof code, "%s/%s", root, name);
    assert_int_equal(mkdir(code, 0755), 0);
    fake_start(answers);
    return RUN("run", "--slots", "2", "--context", code, "--", "./t");
}

static void the_output_and_the_status_of_the_program_come_back(void **state)
{
    (void)state;
    static const struct { const char *trial; int code; } rows[] = {
        {"\"ok\":true,\"end\":true," TRIAL("\"state\":\"completed\",\"attempt\":1"), 0},
        {"\"ok\":true,\"end\":true," TRIAL("\"state\":\"failed\",\"attempt\":1,\"exit_code\":7"), 7},
        {"\"ok\":true,\"end\":true," TRIAL("\"state\":\"failed\",\"attempt\":1,\"exit_code\":-9"), 137},
        {"\"ok\":true,\"end\":true," TRIAL("\"state\":\"failed\",\"attempt\":1,\"reason\":\"three hosts died\""), 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char name[16];
        const struct answer answers[] = {SUBMITTED, BEGUN, WROTE, {"show", {rows[i].trial}, NULL}, {NULL, {NULL}, NULL}};
        (void)snprintf(name, sizeof name, "code%zu", i);
        assert_int_equal(run_there(answers, name), rows[i].code);
        assert_string_equal(out_text, "[rank=0] hello\n[rank=1] there\n");
        assert_has(err_text_written, "submitted t (");
        fake_stop();
    }
}

#define LEFT "the run goes on without this terminal; shoal logs "
#define QUESTION "Cancel the run (c), leave it running (l), or go on here (Enter)? "

static void a_run_that_is_left_is_said_to_go_on(void **state)
{
    (void)state;
    static const struct answer interrupted[] = {SUBMITTED, {"watch", {"signal:2"}, NULL}, {NULL, {NULL}, NULL}},
                               ended[] = {SUBMITTED, {"watch", {"signal:15"}, NULL}, {NULL, {NULL}, NULL}};
    static const struct { const struct answer *answers; const char *typed; int code; unsigned questions; } rows[] = {
        {interrupted, "l\n", 0, 1},
        {interrupted, "", 130, 1}, /* as after a second Ctrl-C: nothing is read */
        {interrupted, "what?\nL\n", 0, 2},
        {interrupted, NULL, 130, 0}, /* no terminal to ask on */
        {ended, "c\n", 143, 0},
        {ended, NULL, 143, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char name[16];
        unsigned questions = 0;
        (void)snprintf(name, sizeof name, "left%zu", i);
        typed = rows[i].typed;
        assert_int_equal(run_there(rows[i].answers, name), rows[i].code);
        assert_has(err_text_written, LEFT);
        for (const char *at = err_text_written; (at = strstr(at, QUESTION)) != NULL; at++) {
            questions++;
        }
        assert_int_equal(questions, rows[i].questions);
        assert_null(strstr(fake.ops, "cancel"));
        fake_stop();
    }
}

static void a_drawn_seed_is_told(void **state)
{
    (void)state;
    static const struct answer answers[] = {SUBMITTED, {"watch", {"signal:15"}, NULL}, {NULL, {NULL}, NULL}};
    for (int is_given = 0; is_given < 2; is_given++) {
        char code[128];
        (void)snprintf(code, sizeof code, "%s/seed%d", root, is_given);
        assert_int_equal(mkdir(code, 0755), 0);
        fake_start(answers);
        assert_int_equal(RUN("run", "--trials", "3", "--hp", "n=int:1:9", is_given ? "--seed=17" : "--slots=1", "--context", code, "--", "./t"),
                         143);
        assert_int_equal(strstr(err_text_written, "the seed is ") == NULL, is_given);
        fake_stop();
    }
}

static int answer_no_more(void **state)
{
    typed = NULL;
    return stop_what_runs(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_word_is_quoted_as_a_shell_needs_it),
        cmocka_unit_test(more_values_than_there_is_room_for_are_refused),
        cmocka_unit_test(a_range_is_searched_at_random),
        cmocka_unit_test(rounds_of_a_population_follow_from_all_its_trials),
        cmocka_unit_test(each_search_has_a_seed_of_its_own_unless_one_is_given),
        cmocka_unit_test(a_slip_on_the_command_line_is_named),
        cmocka_unit_test_teardown(the_output_and_the_status_of_the_program_come_back, stop_what_runs),
        cmocka_unit_test_teardown(a_run_that_is_left_is_said_to_go_on, answer_no_more),
        cmocka_unit_test_teardown(a_drawn_seed_is_told, stop_what_runs),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
