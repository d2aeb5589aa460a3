/* The options below `searcher` of searchers that stop trials early: in files, in the shapes that Determined has too, and in records. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/config/advice.h"
#include "node/core/facts/config.h"
#include "node/core/facts/options.h"
#include "tests/unit/facts_make.h"

static char error_text[CONFIG_ERROR_BYTES];

/* Reads a file whose map `searcher` is given. */
static int parse(const char *searcher, struct config *out)
{
    static uint8_t scratch[CONFIG_SCRATCH_BYTES];
    char text[1024];
    (void)snprintf(text, sizeof text, "entrypoint: x\nsearcher: {%s}\nhyperparameters: {x: {type: double, minval: 0, maxval: 1, count: 2}}\n", searcher);
    return config_parse_yaml("exp.yaml", text, strlen(text), NULL, 0, scratch, sizeof scratch, out, error_text);
}

static struct config parse_good(const char *searcher)
{
    struct config config;
    if (parse(searcher, &config) != 0) {
        fail_msg("%s", error_text);
    }
    return config;
}

#define ASHA "name: asha, metric: loss, num_rungs: 3, max_trials: 9"
#define ADAPTIVE "name: adaptive_asha, metric: loss, max_trials: 64"

static void every_option_of_a_halving_is_read(void **state)
{
    (void)state;
    struct config c = parse_good("name: asha, metric: loss, smaller_is_better: false, num_rungs: 3, max_trials: 9, max_time: 900, "
                                 "time_metric: epochs, divisor: 2.5, max_concurrent_trials: 0, stop_once: true");
    struct search_halving halving = config_search_halving(&c);
    assert_int_equal(c.searcher, SEARCH_ASHA);
    assert_string_equal(c.metric, "loss");
    assert_false(c.smaller_is_better);
    assert_string_equal(c.time_metric, "epochs");
    assert_int_equal(halving.kind, SEARCH_ASHA);
    assert_int_equal(halving.rungs, 3);
    assert_int_equal(halving.max_trials, 9);
    assert_int_equal(halving.max_time, 900);
    assert_true(halving.divisor >= 2.5 && halving.divisor <= 2.5);
    assert_int_equal(halving.max_concurrent_trials, 0);
    c = parse_good("name: adaptive_asha, metric: loss, max_trials: 64, max_time: 1000, max_rungs: 4, mode: conservative, divisor: 3, "
                   "bracket_rungs: [2, 5, 1], max_concurrent_trials: 7");
    halving = config_search_halving(&c);
    assert_int_equal(halving.kind, SEARCH_ADAPTIVE_ASHA);
    assert_int_equal(halving.rungs, 4);
    assert_int_equal(halving.mode, SEARCH_CONSERVATIVE);
    assert_int_equal(halving.bracket_count, 3);
    assert_memory_equal(halving.bracket_rungs, "\2\5\1", 3);
    assert_int_equal(halving.max_concurrent_trials, 7);
    assert_true(search_halving_is_good(&halving));
}

static void the_defaults_are_those_of_determined(void **state)
{
    (void)state;
    struct config c = parse_good(ADAPTIVE ", max_time: 1000, bracket_rungs: [], stop_once: null, max_length: null");
    struct search_halving halving = config_search_halving(&c);
    assert_true(c.smaller_is_better);
    assert_int_equal(halving.rungs, 5);
    assert_int_equal(halving.mode, SEARCH_STANDARD);
    assert_true(halving.divisor >= 4 && halving.divisor <= 4);
    assert_int_equal(halving.max_concurrent_trials, 16);
    assert_int_equal(halving.bracket_count, 0);
    assert_int_equal(config_search_time(&c), CONFIG_TIME_STEPS);
    assert_int_equal(parse_good("name: async_halving, metric: x, num_rungs: 2, max_trials: 3, max_time: 5").searcher, SEARCH_ASHA);
    assert_int_equal(parse_good("name: grid").max_concurrent_trials, 16);
    assert_int_equal(parse_good("name: random, max_trials: 2").max_concurrent_trials, 16);
    assert_int_equal(parse_good("name: random, max_trials: 2, max_concurrent_trials: 0").max_concurrent_trials, 0);
    assert_int_equal(parse_good("name: single").max_concurrent_trials, 0);
}

static void tpe_has_the_defaults_of_optuna(void **state)
{
    (void)state;
    struct config c = parse_good("name: tpe, metric: loss, max_trials: 50");
    assert_int_equal(c.searcher, SEARCH_TPE);
    assert_int_equal(c.n_startup_trials, 10);
    assert_int_equal(c.max_concurrent_trials, 16);
    assert_true(c.smaller_is_better && c.max_time == 0 && config_is_drawn(&c) && config_needs_search(&c));
    struct search_halving halving = config_search_halving(&c);
    assert_int_equal(halving.rungs, 1);
    assert_true(search_halving_is_good(&halving));
    c = parse_good("name: tpe, metric: loss, max_trials: 50, max_length: {epochs: 7}, n_startup_trials: 0, max_concurrent_trials: 0");
    halving = config_search_halving(&c);
    assert_int_equal(halving.max_time, 7);
    assert_int_equal(halving.max_concurrent_trials, SEARCH_TRIALS_MAX); /* also once the search is extended */
    assert_int_equal(c.n_startup_trials, 0);
    assert_string_equal(c.time_metric, "epochs");
}

#define CUSTOM "name: custom, entrypoint: python3 own.py, metric: loss, max_trials: 9"

static void a_program_is_told_of_a_trial_at_even_lengths(void **state)
{
    (void)state;
    struct config c = parse_good(CUSTOM ", max_time: 10, every: 4, timeout: 20");
    assert_int_equal(c.searcher, SEARCH_CUSTOM);
    assert_string_equal(c.searcher_entrypoint, "python3 own.py");
    assert_int_equal(c.searcher_timeout_s, 20);
    assert_int_equal(c.max_concurrent_trials, 16);
    assert_true(c.smaller_is_better && config_is_drawn(&c) && config_needs_search(&c) && config_is_custom(&c));
    struct search_halving halving = config_search_halving(&c);
    assert_true(search_halving_is_good(&halving));
    assert_int_equal(halving.rungs, 3);
    assert_int_equal(search_rung_target(&halving, 3, 0), 4);
    assert_int_equal(search_rung_target(&halving, 3, 1), 8);
    assert_int_equal(search_rung_target(&halving, 3, 2), 10);
    c = parse_good(CUSTOM ", max_length: {epochs: 7}");
    halving = config_search_halving(&c);
    assert_int_equal(halving.rungs, 1);
    assert_int_equal(search_rung_target(&halving, 1, 0), 7);
    assert_int_equal(c.searcher_timeout_s, 600);
    c = parse_good(CUSTOM ", max_time: 320, every: 10");
    assert_int_equal(config_search_halving(&c).rungs, SEARCH_RUNGS_MAX);
    c.every = 9; /* a record of another node */
    halving = config_search_halving(&c);
    assert_false(search_halving_is_good(&halving));
}

static void a_searcher_that_draws_needs_something_to_draw(void **state)
{
    (void)state;
    static uint8_t scratch[CONFIG_SCRATCH_BYTES];
    static char text[1u << 16];
    static const char empty[] = "entrypoint: x\nsearcher: {name: tpe, metric: a, max_trials: 9}\n";
    struct config config;
    assert_int_equal(config_parse_yaml("exp.yaml", empty, strlen(empty), NULL, 0, scratch, sizeof scratch, &config, error_text),
                     ERR_MALFORMED);
    assert_non_null(strstr(error_text, "there are no hyperparameters, and the searcher draws nothing else; add some, or use the searcher single"));
    size_t used = (size_t)snprintf(text, sizeof text, "%shyperparameters:\n", empty);
    for (int i = 0; i <= CONFIG_DRAWN_PARAMETERS_MAX; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "  p%d: {type: double, minval: 0, maxval: 1}\n", i);
    }
    assert_int_equal(config_parse_yaml("exp.yaml", text, used, NULL, 0, scratch, sizeof scratch, &config, error_text), ERR_MALFORMED);
    assert_non_null(strstr(error_text, "there are 129 hyperparameters; allowed are 128 with a searcher that draws from results"));
}

static void a_length_is_a_time_with_its_unit(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t max_time;
        enum config_time unit;
        const char *time_metric;
    } rows[] = {
        {"max_time: 100", 100, CONFIG_TIME_STEPS, "steps"},
        {"max_time: 100, time_metric: batches", 100, CONFIG_TIME_STEPS, "batches"},
        {"max_time: 100, time_metric: seconds", 100, CONFIG_TIME_SECONDS, "seconds"},
        {"max_time: 20, time_metric: epochs", 20, CONFIG_TIME_METRIC, "epochs"},
        {"max_time: 20, time_metric: tokens/seen", 20, CONFIG_TIME_METRIC, "tokens/seen"},
        {"max_length: 100", 100, CONFIG_TIME_STEPS, "steps"},
        {"max_length: 100, time_metric: epochs", 100, CONFIG_TIME_METRIC, "epochs"},
        {"max_length: {steps: 7}", 7, CONFIG_TIME_STEPS, "steps"},
        {"max_length: {batches: 7}", 7, CONFIG_TIME_STEPS, "batches"},
        {"max_length: {batches: 7}, time_metric: batches", 7, CONFIG_TIME_STEPS, "batches"},
        {"max_length: {seconds: 600}", 600, CONFIG_TIME_SECONDS, "seconds"},
        {"max_length: {epochs: 20}", 20, CONFIG_TIME_METRIC, "epochs"},
        {"max_length: {epochs: 20}, time_metric: epoch", 20, CONFIG_TIME_METRIC, "epoch"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[256];
        (void)snprintf(text, sizeof text, ADAPTIVE ", %s", rows[i].text);
        struct config c = parse_good(text);
        assert_int_equal(c.max_time, rows[i].max_time);
        assert_int_equal(config_search_time(&c), rows[i].unit);
        assert_string_equal(c.time_metric, rows[i].time_metric);
    }
}

static void each_mistake_is_one_sentence_with_key_value_and_what_is_allowed(void **state)
{
    (void)state;
    static const struct {
        const char *text, *wanted;
    } rows[] = {
        {"name: ahsa", "searcher.name is 'ahsa'; allowed are single, grid, random, asha, adaptive_asha, tpe, pbt, custom"},
        {"name: tpe, max_trials: 9", "searcher.metric is missing; searcher.name tpe compares trials by it"},
        {"name: tpe, metric: a", "searcher.max_trials is missing; searcher.name tpe needs it, allowed are 1 ... 100000"},
        {"name: tpe, metric: a, max_trials: 9, sampler: random", "searcher.sampler has no effect with searcher.name tpe; remove it or use random, asha or adaptive_asha"},
        {"name: tpe, metric: a, max_trials: 9, sampler: tpe", "searcher.sampler has no effect with searcher.name tpe; remove it or use random, asha or adaptive_asha"},
        {"name: tpe, metric: a, max_trials: 9, divisor: 3", "searcher.divisor has no effect with searcher.name tpe"},
        {"name: tpe, metric: a, max_trials: 9, n_startup_trials: -1", "searcher.n_startup_trials is '-1'; allowed are 0 ... 100000"},
        {"name: random, max_trials: 9, n_startup_trials: 5", "searcher.n_startup_trials has no effect with searcher.name random; remove it or use tpe"},
        {"name: hyperband, metric: a, max_trials: 3", "searcher.name is 'hyperband'; allowed are"},
        {"name: custom, metric: a, max_trials: 3, max_time: 9", "searcher.entrypoint is missing; searcher.name custom needs the command of your program, such as python3 my_search.py"},
        {"name: custom, metric: a, max_trials: 3, entrypoint: x", "searcher.max_time is missing; searcher.name custom needs it"},
        {"name: custom, metric: a, max_trials: 3, entrypoint: x, max_time: 9, every: 10", "searcher.every is 10, longer than a whole trial (searcher.max_time 9); make it shorter, or leave it out"},
        {"name: custom, metric: a, max_trials: 3, entrypoint: x, max_time: 320, every: 9", "searcher.every is 9, so a trial would report 36 times until searcher.max_time; allowed are 32 times: make it at least 10"},
        {"name: custom, metric: a, max_trials: 3, entrypoint: x, max_time: 9, sampler: sobol", "searcher.sampler has no effect with searcher.name custom; remove it or use random, asha or adaptive_asha"},
        {"name: random, max_trials: 3, every: 2", "searcher.every has no effect with searcher.name random; remove it or use custom"},
        {"name: asha, num_rungs: 3, max_trials: 9, max_time: 9", "searcher.metric is missing; searcher.name asha compares trials by it"},
        {"name: asha, metric: a, max_trials: 9, max_time: 9", "searcher.num_rungs is missing; searcher.name asha needs it, allowed are 1 ... 32"},
        {"name: asha, metric: a, num_rungs: 3, max_time: 9", "searcher.max_trials is missing; searcher.name asha needs it, allowed are 1 ... 100000"},
        {ASHA, "searcher.max_time is missing; searcher.name asha needs it, allowed are 1 ... 1000000000000, in steps"},
        {ADAPTIVE, "searcher.max_time is missing; searcher.name adaptive_asha needs it"},
        {"name: adaptive_asha, max_trials: 4, max_time: 9", "searcher.metric is missing; searcher.name adaptive_asha compares"},
        {"name: adaptive_asha, metric: a, max_time: 9", "searcher.max_trials is missing; searcher.name adaptive_asha needs it"},
        {ADAPTIVE ", max_time: 0", "searcher.max_time is '0'; allowed are 1 ... 1000000000000"},
        {ADAPTIVE ", max_time: 1.5", "searcher.max_time is '1.5'; allowed are 1 ..."},
        {ADAPTIVE ", max_time: 1000000000001", "searcher.max_time is '1000000000001'; allowed are 1 ..."},
        {ADAPTIVE ", max_time: 9, time_metric: [a]", "searcher.time_metric is a list; allowed are texts of 1 ... 63 bytes"},
        {"name: adaptive_asha, metric: a, max_time: 9, max_trials: 100001", "searcher.max_trials is '100001'; allowed are 1 ... 100000"},
        {"name: asha, metric: a, max_trials: 9, max_time: 9, num_rungs: 0", "searcher.num_rungs is '0'; allowed are 1 ... 32"},
        {"name: asha, metric: a, max_trials: 9, max_time: 9, num_rungs: 33", "searcher.num_rungs is '33'; allowed are 1 ... 32"},
        {ADAPTIVE ", max_time: 9, max_rungs: 33", "searcher.max_rungs is '33'; allowed are 1 ... 32"},
        {ADAPTIVE ", max_time: 9, divisor: 1", "searcher.divisor is '1'; allowed are numbers above 1, up to 1000000"},
        {ADAPTIVE ", max_time: 9, divisor: .inf", "searcher.divisor is '.inf'; allowed are numbers above 1"},
        {ADAPTIVE ", max_time: 9, divisor: .nan", "searcher.divisor is '.nan'; allowed are numbers above 1"},
        {ADAPTIVE ", max_time: 9, divisor: -4", "searcher.divisor is '-4'; allowed are numbers above 1"},
        {ADAPTIVE ", max_time: 9, divisor: four", "searcher.divisor is 'four'; allowed are numbers above 1"},
        {ADAPTIVE ", max_time: 9, mode: fast", "searcher.mode is 'fast'; allowed are standard, aggressive, conservative"},
        {ADAPTIVE ", max_time: 9, bracket_rungs: 3", "searcher.bracket_rungs is '3'; allowed is a list of at most 32 whole numbers 1 ... 32"},
        {ADAPTIVE ", max_time: 9, bracket_rungs: [0]", "searcher.bracket_rungs is a list; allowed is a list of at most 32"},
        {ADAPTIVE ", max_time: 9, bracket_rungs: [33]", "searcher.bracket_rungs is a list"},
        {ADAPTIVE ", max_time: 9, bracket_rungs: [a]", "searcher.bracket_rungs is a list"},
        {ADAPTIVE ", max_time: 9, bracket_rungs: [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "bracket_rungs is a list"},
        {ADAPTIVE ", max_time: 9, max_concurrent_trials: -1", "searcher.max_concurrent_trials is '-1'; allowed are 0 ... 100000"},
        {ADAPTIVE ", max_time: 9, warm_start: old", "searcher.warm_start is 'old'; allowed is a list of at most 64 experiments (EXP) or trials"},
        {ADAPTIVE ", max_time: 9, warm_start: ['']", "searcher.warm_start is a list; allowed is a list of at most 64"},
        {ADAPTIVE ", max_time: 9, warm_start: [null]", "searcher.warm_start is a list"},
        {ADAPTIVE ", max_time: 9, warm_start: [[a]]", "searcher.warm_start is a list"},
        {"name: grid, warm_start: [a]", "searcher.warm_start has no effect with searcher.name grid; remove it or use random, asha, adaptive_asha or tpe"},
        {ADAPTIVE ", max_time: 9, stop_once: 3", "searcher.stop_once is '3'; allowed is true or false"},
        {ADAPTIVE ", max_time: 9, max_length: 9", "searcher.max_length says the same as searcher.max_time; remove one of them"},
        {ADAPTIVE ", max_length: 0", "searcher.max_length is '0'; allowed is a whole number from 1 on, or a map of one of steps, batches"},
        {ADAPTIVE ", max_length: '9'", "searcher.max_length is '9'"},
        {ADAPTIVE ", max_length: [9]", "searcher.max_length is a list"},
        {ADAPTIVE ", max_length: {}", "searcher.max_length is a map"},
        {ADAPTIVE ", max_length: {records: 9}", "searcher.max_length is a map; allowed is"},
        {ADAPTIVE ", max_length: {epochs: 0}", "searcher.max_length is a map"},
        {ADAPTIVE ", max_length: {epochs: 2, batches: 3}", "searcher.max_length is a map"},
        {ADAPTIVE ", max_length: {epochs: {a: 1}}", "searcher.max_length is a map"},
        {ADAPTIVE ", max_length: {batches: 9}, time_metric: epochs", "searcher.max_length counts batches and searcher.time_metric is 'epochs'"},
        {ADAPTIVE ", max_time: 9, num_rungs: 3", "searcher.num_rungs has no effect with searcher.name adaptive_asha; remove it or use asha"},
        {ASHA ", max_time: 9, max_rungs: 3", "searcher.max_rungs has no effect with searcher.name asha; remove it or use adaptive_asha"},
        {ASHA ", max_time: 9, mode: standard", "searcher.mode has no effect with searcher.name asha"},
        {ASHA ", max_time: 9, bracket_rungs: [1]", "searcher.bracket_rungs has no effect with searcher.name asha"},
        {"name: random, max_trials: 3, divisor: 3", "searcher.divisor has no effect with searcher.name random; remove it or use asha or adaptive_asha"},
        {"name: random, max_trials: 3, max_time: 3", "searcher.max_time has no effect with searcher.name random"},
        {"name: grid, time_metric: a", "searcher.time_metric has no effect with searcher.name grid"},
        {"name: grid, stop_once: true", "searcher.stop_once has no effect with searcher.name grid"},
        {"name: single, max_concurrent_trials: 3", "searcher.max_concurrent_trials has no effect with searcher.name single; remove it or use grid,"},
        {"name: grid, max_trials: 4", "searcher.max_trials has no effect with searcher.name grid; remove it or use random, asha, adaptive_asha, tpe or custom"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct config config;
        int result = parse(rows[i].text, &config);
        bool is_one = strchr(error_text, '\n') == NULL && strncmp(error_text, "exp.yaml:2: ", 12) == 0;
        if (result != ERR_MALFORMED || !is_one || strstr(error_text, rows[i].wanted) == NULL) {
            fail_msg("{%s}: result %d, error '%s', wanted '%s'", rows[i].text, result, error_text, rows[i].wanted);
        }
    }
}

static void a_mistyped_key_is_not_called_missing_too(void **state)
{
    (void)state;
    struct config config;
    assert_int_equal(parse("name: asha, metric: loss, num_rung: 3, max_trials: 9, max_time: 9", &config), ERR_MALFORMED);
    assert_non_null(strstr(error_text, "unknown key 'searcher.num_rung'; did you mean 'num_rungs'?"));
    assert_null(strstr(error_text, "missing"));
    assert_int_equal(parse(ADAPTIVE ", max_lenght: 9", &config), ERR_MALFORMED);
    assert_null(strstr(error_text, "missing"));
}

/* ---- what is told ---- */

static char told[1024];

static void tell(void *context, const char *sentence)
{
    (void)context;
    (void)snprintf(told + strlen(told), sizeof told - strlen(told), "%s\n", sentence);
}

static void advise(const char *searcher)
{
    char text[512];
    (void)snprintf(text, sizeof text, "entrypoint: x\nsearcher: {%s}\n", searcher);
    (void)parse_good(searcher);
    told[0] = '\0';
    advice_give_file("exp.yaml", text, strlen(text), NULL, 0, tell, NULL);
}

static void a_length_has_no_effect_with_searchers_that_stop_nothing(void **state)
{
    (void)state;
    static const char *const without[] = {"name: single, metric: m, max_length: {batches: 50}", "metric: m, max_length: 100",
                                          "name: random, metric: m, max_trials: 2, max_length: {records: 5}", "name: grid, max_length: 0"};
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++) {
        advise(without[i]);
        assert_non_null(strstr(told, "exp.yaml:2: searcher.max_length has no effect: the program decides how long it trains"));
    }
    advise(ADAPTIVE ", max_length: 100");
    assert_string_equal(told, "");
    advise("name: async_halving, metric: loss, num_rungs: 2, max_trials: 3, max_length: {epochs: 3}");
    assert_string_equal(told, "");
}

/* ---- records ---- */

static struct config config_of_search(void)
{
    struct config config;
    make_config(&config, 9, 5);
    config.searcher = SEARCH_ADAPTIVE_ASHA;
    config.max_time = 1000;
    return config;
}

static int unpack(const struct config *config, struct config *out)
{
    static uint8_t bytes[CONFIG_PACKED_BYTES_MAX];
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, make_packed_config(config, bytes));
    return config_unpack(&reader, out);
}

static void assert_same(const struct search_halving *got, const struct search_halving *wanted)
{
    assert_true(got->kind == wanted->kind && got->rungs == wanted->rungs && got->mode == wanted->mode && got->promotes == wanted->promotes);
    assert_true(got->max_time == wanted->max_time && got->max_trials == wanted->max_trials);
    assert_true(got->max_concurrent_trials == wanted->max_concurrent_trials);
    assert_true(got->divisor >= wanted->divisor && got->divisor <= wanted->divisor);
    assert_int_equal(got->bracket_count, wanted->bracket_count);
    assert_memory_equal(got->bracket_rungs, wanted->bracket_rungs, sizeof got->bracket_rungs);
}

static void a_record_has_the_whole_search(void **state)
{
    (void)state;
    struct config config = config_of_search(), out, lean;
    (void)snprintf(config.time_metric, sizeof config.time_metric, "epochs");
    config.divisor = 2.718281828;
    config.max_rungs = 7;
    config.mode = SEARCH_AGGRESSIVE;
    config.max_concurrent_trials = 3;
    config.bracket_count = 2;
    memcpy(config.bracket_rungs, "\4\2", 2);
    struct search_halving wanted = config_search_halving(&config);
    assert_int_equal(unpack(&config, &out), 0);
    struct search_halving got = config_search_halving(&out);
    assert_same(&got, &wanted);
    assert_int_equal(config_search_time(&out), CONFIG_TIME_METRIC);
    config_make_lean(&config, &lean); /* coordinators decide by it */
    uint8_t bytes[CONFIG_PACKED_BYTES_MAX];
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, make_packed_config(&lean, bytes));
    assert_int_equal(config_unpack_form(&reader, CONFIG_LEAN, &out), 0);
    got = config_search_halving(&out);
    assert_same(&got, &wanted);
}

static void a_record_without_a_whole_search_is_malformed(void **state)
{
    (void)state;
    struct config good = config_of_search(), bad, out;
    assert_int_equal(unpack(&good, &out), 0);
    bad = good;
    bad.max_time = 0;
    assert_int_equal(unpack(&bad, &out), ERR_MALFORMED);
    bad = good;
    bad.max_trials = 0;
    assert_int_equal(unpack(&bad, &out), ERR_MALFORMED);
    bad = good;
    bad.searcher = SEARCH_ASHA; /* without num_rungs */
    assert_int_equal(unpack(&bad, &out), ERR_MALFORMED);
    bad.num_rungs = 1;
    assert_int_equal(unpack(&bad, &out), 0);
    bad = good;
    bad.divisor = 1;
    assert_int_equal(unpack(&bad, &out), ERR_MALFORMED);
    bad.divisor = (double)NAN;
    assert_int_equal(unpack(&bad, &out), ERR_MALFORMED);
    bad = good;
    bad.bracket_count = 2;
    bad.bracket_rungs[0] = 3;
    assert_int_equal(unpack(&bad, &out), ERR_MALFORMED); /* a bracket of no rungs */
    bad.bracket_count = 1;
    bad.bracket_rungs[0] = SEARCH_RUNGS_MAX + 1;
    assert_int_equal(unpack(&bad, &out), ERR_MALFORMED);
    bad.bracket_rungs[0] = SEARCH_RUNGS_MAX;
    assert_int_equal(unpack(&bad, &out), 0);
}

static void a_record_says_that_the_search_promotes(void **state)
{
    (void)state;
    static uint8_t bytes[CONFIG_PACKED_BYTES_MAX];
    struct config config = config_of_search(), out;
    struct pack_reader map;
    config.promotes = true;
    for (config.bracket_count = 0; config.bracket_count <= SEARCH_BRACKETS_MAX; config.bracket_count++) {
        pack_reader_init(&map, bytes, make_packed_config(&config, bytes));
        struct pack_reader rungs = pack_find(&map, "bracket_rungs");
        assert_int_equal(pack_read_array(&rungs), config.bracket_count + 1);
        assert_int_equal(pack_read_u64(&rungs), 0); /* no number of rungs: a version that does not promote refuses the record */
        assert_int_equal(unpack(&config, &out), 0);
        assert_true(config_needs_promotion(&out) && config_search_halving(&out).promotes);
        assert_int_equal(out.bracket_count, config.bracket_count);
        assert_memory_equal(out.bracket_rungs, config.bracket_rungs, config.bracket_count);
        config.bracket_rungs[config.bracket_count % SEARCH_BRACKETS_MAX] = (uint8_t)(1 + config.bracket_count);
    }
    config = parse_good(ASHA ", max_time: 9, stop_once: false");
    assert_true(config_needs_promotion(&config));
    config = parse_good(ADAPTIVE ", max_time: 9, stop_once: true");
    assert_false(config_needs_promotion(&config));
    config = parse_good(ADAPTIVE ", max_time: 9, stop_once: false, sampler: tpe");
    assert_true(config_needs_promotion(&config) && config_is_drawn(&config));
    assert_int_equal(unpack(&config, &out), 0);
    assert_true(config_needs_promotion(&out) && config_is_drawn(&out));
    config.searcher = SEARCH_RANDOM;
    config.promotes = true; /* a search that compares no trials promotes none */
    assert_int_equal(unpack(&config, &out), ERR_MALFORMED);
}

static void trials_get_the_values_that_a_random_search_gives_them(void **state)
{
    (void)state;
    struct config config = config_of_search(), random = config;
    random.searcher = SEARCH_RANDOM;
    struct search_space a = config_search_space(&config), b = config_search_space(&random);
    uint32_t count = 0;
    assert_int_equal(search_trial_count(&a, &count), 0);
    assert_int_equal(count, 9);
    for (uint32_t trial = 0; trial < count; trial++) {
        uint8_t bytes[2][512];
        struct pack_writer writers[2];
        pack_writer_init(&writers[0], bytes[0], sizeof bytes[0]);
        pack_writer_init(&writers[1], bytes[1], sizeof bytes[1]);
        assert_int_equal(search_trial_values(&a, config.seed, trial, &writers[0]), 0);
        assert_int_equal(search_trial_values(&b, config.seed, trial, &writers[1]), 0);
        assert_int_equal(writers[0].used_bytes, writers[1].used_bytes);
        assert_memory_equal(bytes[0], bytes[1], writers[0].used_bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_of_a_halving_is_read),
        cmocka_unit_test(the_defaults_are_those_of_determined),
        cmocka_unit_test(tpe_has_the_defaults_of_optuna),
        cmocka_unit_test(a_program_is_told_of_a_trial_at_even_lengths),
        cmocka_unit_test(a_searcher_that_draws_needs_something_to_draw),
        cmocka_unit_test(a_length_is_a_time_with_its_unit),
        cmocka_unit_test(each_mistake_is_one_sentence_with_key_value_and_what_is_allowed),
        cmocka_unit_test(a_mistyped_key_is_not_called_missing_too),
        cmocka_unit_test(a_length_has_no_effect_with_searchers_that_stop_nothing),
        cmocka_unit_test(a_record_has_the_whole_search),
        cmocka_unit_test(a_record_without_a_whole_search_is_malformed),
        cmocka_unit_test(a_record_says_that_the_search_promotes),
        cmocka_unit_test(trials_get_the_values_that_a_random_search_gives_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
