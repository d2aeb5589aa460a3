/* Configuration files: what is read, what is refused and in which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/json.h"
#include "base/random.h"
#include "node/config/config_yaml.h"
#include "node/core/facts/config.h"
#include "node/core/facts/options.h"

static uint8_t scratch[CONFIG_SCRATCH_BYTES];
static char error_text[CONFIG_ERROR_BYTES];

static int parse_n(const char *text, size_t bytes, const char *const *overrides, size_t count, struct config *out)
{
    /* Exactly as long as the text, so that the address sanitizer sees a read past the end. */
    char *block = malloc(bytes > 0 ? bytes : 1);
    memcpy(block, text, bytes);
    int result = config_parse_yaml("dir/exp.yaml", block, bytes, overrides, count, scratch, sizeof scratch, out, error_text);
    free(block);
    return result;
}

static void parse_good(const char *text, const char *override, struct config *out)
{
    if (parse_n(text, strlen(text), &override, override != NULL, out) != 0) {
        fail_msg("%s", error_text);
    }
    assert_string_equal(error_text, "");
}

static void parse_bad(const char *text, const char *override, const char *expected)
{
    struct config config;
    memset(&config, 0x5a, sizeof config);
    struct config before = config;
    int result = parse_n(text, strlen(text), &override, override != NULL, &config);
    if (result != ERR_MALFORMED || strstr(error_text, expected) == NULL) {
        fail_msg("result %d, error '%s', wanted '%s'", result, error_text, expected);
    }
    assert_memory_equal(&config, &before, sizeof config);
}

/* Each line of the error is a sentence with its place. Returns the number of lines. */
static unsigned check_lines(void)
{
    unsigned count = 0;
    for (const char *line = error_text; line != NULL; line = strchr(line, '\n'), count++) {
        line += *line == '\n';
        assert_true(strncmp(line, "dir/exp.yaml:", 13) == 0 || strncmp(line, "--set ", 6) == 0);
        assert_true(strcspn(line, "\n") > 20);
    }
    return count;
}

static const char *json(const uint8_t *bytes, size_t count)
{
    static char outs[2][65536];
    static unsigned turn;
    char *out = outs[turn++ % 2]; /* two may be compared */
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    assert_int_equal(json_from_pack(&reader, out, sizeof outs[0]), 0);
    return out;
}

static const char *values_of(const struct config *config, uint32_t trial)
{
    static uint8_t bytes[SEARCH_VALUES_BYTES_MAX];
    struct search_space space = config_search_space(config);
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    assert_int_equal(search_trial_values(&space, config->seed, trial, &writer), 0);
    return json(bytes, writer.used_bytes);
}

/* A file whose searcher.initial stands on line 3. */
#define OWN(values)                                                                                                                   \
    "entrypoint: x\nhyperparameters: {lr: {type: log, minval: -4, maxval: -1}, n: {type: int, minval: 2, maxval: 8, step: 2}, opt: "    \
    "{name: {type: categorical, vals: [sgd, 2, [1, {a: b}]]}}, fixed: 7}\nsearcher: {name: random, max_trials: 4, initial: " values "}\n"

/* A file whose hyperparameter m has these conditions. */
#define WHEN(conditions)                                                                                                              \
    "entrypoint: x\nhyperparameters: {lr: {type: log, minval: -4, maxval: -1}, n: {type: int, minval: 2, maxval: 8, step: 2}, opt: "    \
    "{name: {type: categorical, vals: [sgd, 2]}}, m: {type: double, minval: 0, maxval: 1, when: " conditions "}, later: 3}\n"

static const char whole_file[] =
    "name: mnist # a comment\n"
    "description: \"two\\nlines\"\n"
    "labels: [fast, 'a b']\n"
    "entrypoint: shoal-train mlp\n"
    "environment:\n"
    "  environment_variables:\n"
    "    - A=1=2\n"
    "  variables: {B: x y, C: 3, D: }\n"
    "hyperparameters:\n"
    "  hidden: 128\n"
    "  layers: [64, 32]\n"
    "  optimizer:\n"
    "    name: {type: categorical, vals: [sgd, \"1\", 2, 2.5, true, null, [1]]}\n"
    "    rate: {type: log, minval: -3, maxval: -1, count: 3}\n"
    "  dropout: {type: double, minval: .1, maxval: 5e-1, count: 2}\n"
    "  epochs: {type: int, minval: 0x2, maxval: 4}\n"
    "  text: {type: const, val: {a: 'true'}}\n"
    "searcher:\n"
    "  name: grid\n"
    "  metric: loss\n"
    "resources:\n"
    "  slots_per_trial: 4\n"
    "  min_slots: 2\n"
    "  max_slots: 8\n"
    "  priority: 10\n"
    "  slot_kind: cuda\n"
    "checkpoint:\n"
    "  replicas: 3\n"
    "  save_experiment_best: 4\n"
    "  save_trial_best: 0\n"
    "  save_trial_latest: 2\n"
    "max_restarts: 0\n"
    "seed: 9223372036854775807\n"
    "preemption_timeout: 30\n"
    "on_partition: pause_minority\n"
    "balance: on\n";

static void every_option_is_read(void **state)
{
    (void)state;
    struct config c;
    parse_good(whole_file, NULL, &c);
    assert_string_equal(c.name, "mnist");
    assert_string_equal(c.description, "two\nlines");
    assert_string_equal(json(c.labels, c.labels_bytes), "[\"fast\", \"a b\"]");
    assert_string_equal(c.entrypoint, "shoal-train mlp");
    assert_string_equal(json(c.environment, c.environment_bytes),
                        "{\"A\": \"1=2\", \"B\": \"x y\", \"C\": \"3\", \"D\": \"\"}");
    assert_int_equal(c.searcher, SEARCH_GRID);
    assert_string_equal(c.metric, "loss");
    assert_true(c.smaller_is_better);
    assert_int_equal(c.slots_per_trial, 4);
    assert_int_equal(c.min_slots, 2);
    assert_int_equal(c.max_slots, 8);
    assert_int_equal(c.priority, 10);
    assert_int_equal(c.slot_kind, CONFIG_SLOT_CUDA);
    assert_int_equal(c.checkpoint_replicas, 3);
    assert_int_equal(c.save_experiment_best, 4);
    assert_int_equal(c.save_trial_best, 0);
    assert_int_equal(c.save_trial_latest, 2);
    assert_int_equal(c.max_restarts, 0);
    assert_true(c.seed == INT64_MAX);
    assert_int_equal(c.preemption_timeout_s, 30);
    assert_int_equal(c.on_partition, CONFIG_PARTITION_PAUSE_MINORITY);
    assert_true(c.balance);
    struct search_space space = config_search_space(&c);
    uint32_t trials;
    assert_int_equal(search_trial_count(&space, &trials), 0);
    assert_int_equal(trials, 7 * 3 * 2 * 3);
    assert_string_equal(values_of(&c, 0), "{\"hidden\": 128, \"layers\": [64, 32], \"optimizer\": {\"name\": \"sgd\", \"rate\": "
                                          "0.001}, \"dropout\": 0.1, \"epochs\": 2, \"text\": {\"a\": \"true\"}}");
    assert_string_equal(values_of(&c, trials - 1),
                        "{\"hidden\": 128, \"layers\": [64, 32], \"optimizer\": {\"name\": [1], \"rate\": 0.1}, "
                        "\"dropout\": 0.5, \"epochs\": 4, \"text\": {\"a\": \"true\"}}");
}

static void defaults_fill_the_rest(void **state)
{
    (void)state;
    struct config c;
    parse_good("\xef\xbb\xbf" "entrypoint: [python3, 'my file.py', \"it's\", '']\nname:\nsearcher:\n", NULL, &c);
    assert_string_equal(c.name, "exp"); /* dir/exp.yaml */
    assert_string_equal(c.entrypoint, "python3 'my file.py' 'it'\\''s' ''");
    assert_string_equal(c.metric, "accuracy");
    assert_false(c.smaller_is_better);
    assert_int_equal(c.searcher, SEARCH_SINGLE);
    assert_int_equal(c.slots_per_trial, 1);
    assert_int_equal(c.min_slots, 1);
    assert_int_equal(c.max_slots, 1);
    assert_int_equal(c.priority, 42);
    assert_int_equal(c.slot_kind, CONFIG_SLOT_ANY);
    assert_int_equal(c.max_restarts, 5);
    assert_int_equal(c.preemption_timeout_s, 60);
    assert_int_equal(c.checkpoint_replicas, 2);
    assert_int_equal(c.save_experiment_best, 0);
    assert_int_equal(c.save_trial_best, 1);
    assert_int_equal(c.save_trial_latest, 1);
    assert_int_equal(c.on_partition, CONFIG_PARTITION_CONTINUE);
    assert_false(c.balance);
    assert_string_equal(json(c.labels, c.labels_bytes), "[]");
    assert_string_equal(json(c.environment, c.environment_bytes), "{}");
    assert_string_equal(values_of(&c, 0), "{}");
    parse_good("entrypoint: |\n  a b\nsearcher: {metric: accuracy, smaller_is_better: false}\n", NULL, &c);
    assert_string_equal(c.entrypoint, "a b");
    assert_false(c.smaller_is_better);
}

static void truth_values_are_also_on_and_off(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool truth;
    } cases[] = {{"on", true}, {"true", true}, {"off", false}, {"false", false}};
    for (size_t i = 0; i < 4; i++) {
        char text[64];
        struct config c;
        (void)snprintf(text, sizeof text, "entrypoint: x\nbalance: %s\nhyperparameters: {a: on}\n", cases[i].text);
        parse_good(text, NULL, &c);
        assert_int_equal(c.balance, cases[i].truth);
        assert_string_equal(values_of(&c, 0), "{\"a\": \"on\"}"); /* where anything may stand it is a text */
    }
}

static void overrides_are_applied_before_checking(void **state)
{
    (void)state;
    struct config c;
    static const char *const several[] = {"searcher.name=random", "searcher.max_trials=5", "hyperparameters.a.b=0.5",
                                          "hyperparameters.a.c={type: int, minval: 1, maxval: 1}", "seed=3", "seed=4",
                                          "entrypoint=[run, a=b]"};
    const char *text = "entrypoint: x\nhyperparameters: {a: {c: 1}}\n";
    assert_int_equal(parse_n(text, strlen(text), several, 7, &c), 0);
    assert_int_equal(c.max_trials, 5);
    assert_int_equal(c.seed, 4);
    assert_string_equal(c.entrypoint, "run a=b");
    assert_string_equal(values_of(&c, 4), "{\"a\": {\"c\": 1, \"b\": 0.5}}");
    parse_good("", "entrypoint=true", &c); /* an empty file, everything from the command line */
    assert_string_equal(c.entrypoint, "true");
}

static void mistakes_are_named_with_line_key_and_what_is_allowed(void **state)
{
    (void)state;
    static const struct {
        const char *text, *override, *expected;
    } cases[] = {
        {"entrypoint: x\nsearcher:\n  name: rando\n", NULL, "dir/exp.yaml:3: searcher.name is 'rando'; allowed are single, grid, random"},
        {"entrypoint: x\nseracher: {}\n", NULL, "exp.yaml:2: unknown key 'seracher'; did you mean 'searcher'? (allowed are name, desc"},
        {"entrypoint: x\nresources: {sloots: 1}\n", NULL, "unknown key 'resources.sloots'; allowed are slots_per_trial, min_slots"},
        {"entrypoint: x\nresources:\n  min_slot: 1\n", NULL, "exp.yaml:3: unknown key 'resources.min_slot'; did you mean 'min_slots'?"},
        {"entrypoint: x\nmax_restarts: many\n", NULL, "exp.yaml:2: max_restarts is 'many'; allowed are 0 ... 1000"},
        {"entrypoint: x\nmax_restarts: -1\n", NULL, "max_restarts is '-1'; allowed are 0 ... 1000"},
        {"entrypoint: x\ncheckpoint: {replicas: 9}\n", NULL, "checkpoint.replicas is '9'; allowed are 1 ... 8"},
        {"entrypoint: x\nmax_restarts: 1.0\n", NULL, "max_restarts is '1.0'"},
        {"entrypoint: x\nmax_restarts: '1'\n", NULL, "max_restarts is '1'"},
        {"entrypoint: x\nmax_restarts: [1]\n", NULL, "max_restarts is a list; allowed are 0 ... 1000"},
        {"entrypoint: x\nseed: 18446744073709551617\n", NULL, "seed is '18446744073709551617'; allowed are 0 ... 9223372036854775807"},
        {"entrypoint: x\nresources: {slots_per_trial: 257}\n", NULL, "resources.slots_per_trial is '257'; allowed are 1 ... 256"},
        {"entrypoint: x\nresources: {slots_per_trial: -1}\n", NULL, "allowed are 1 ... 256"},
        {"entrypoint: x\nresources: {min_slots: 2}\n", NULL, "resources.min_slots is 2 and slots_per_trial 1; allowed are 1 ... slots_per_trial"},
        {"entrypoint: x\nresources: {slots_per_trial: 4, max_slots: 2}\n", NULL, "resources.max_slots is 2"},
        {"entrypoint: x\nresources: 4\n", NULL, "resources is '4'; allowed is a map"},
        {"entrypoint: x\nsearcher: {metric: a, smaller_is_better: yes}\n", NULL, "searcher.smaller_is_better is 'yes'; allowed are true, false, on, off"},
        {"entrypoint: x\nbalance: 'on'\n", NULL, "exp.yaml:2: balance is 'on'; allowed are true, false, on, off"},
        {"entrypoint: x\nbalance: 1\n", NULL, "balance is '1'; allowed are true, false, on, off"},
        {"entrypoint: x\nbalance: {}\n", NULL, "balance is a map; allowed are true, false, on, off"},
        {"entrypoint: x\nsearcher: {name: random}\n", NULL, "exp.yaml:2: searcher.max_trials is missing"},
        {"entrypoint: x\nsearcher: {name: random, max_trials: 4, sampler: sobl}\n", NULL, "searcher.sampler is 'sobl'; allowed are random, sobol"},
        {"entrypoint: x\nsearcher: {name: random, max_trials: 4, sampler: [sobol]}\n", NULL, "searcher.sampler is a list; allowed are random, sobol"},
        {"entrypoint: x\nsearcher: {name: grid, sampler: sobol}\n", NULL, "exp.yaml:2: searcher.sampler has no effect with searcher.name grid"},
        {WHEN("{opt.nam: sgd}"), NULL, "hyperparameters.m.when names opt.nam, which is no hyperparameter that stands above it; did you mean 'opt.name'?"},
        {WHEN("{later: 3}"), NULL, "hyperparameters.m.when names later, which is no hyperparameter that stands above it; a condition is on earlier ones"},
        {WHEN("{m: 0.5}"), NULL, "hyperparameters.m.when names m, which is no hyperparameter that stands above it"},
        {WHEN("{lr: 0.1}"), NULL, "hyperparameters.m.when names lr, whose values are no whole numbers; allowed are hyperparameters of the types"},
        {WHEN("{opt.name: rms}"), NULL, "hyperparameters.m.when gives opt.name the value 'rms', which it never has; allowed are its vals"},
        {WHEN("{n: [2, 3]}"), NULL, "hyperparameters.m.when gives n the value '3', which it never has; allowed are whole numbers, 2 ... 8 in steps of 2"},
        {WHEN("{n: []}"), NULL, "hyperparameters.m.when gives n an empty list; allowed are a value or a list of values"},
        {WHEN("{}"), NULL, "hyperparameters.m.when is a map; allowed is a map of names of hyperparameters to values"},
        {WHEN("sgd"), NULL, "hyperparameters.m.when is 'sgd'; allowed is a map of names of hyperparameters"},
        {"entrypoint: x\nhyperparameters: {a: 1, b: {when: {a: 1}, c: {type: int, minval: 1, maxval: 2}}}\n", NULL,
         "hyperparameters.b.when stands beside hyperparameters, where it would be one of them; write it inside of each one"},
        {"entrypoint: x\nhyperparameters: {a: {type: categorical, vals: [p, q]}, b: {type: int, minval: 1, maxval: 2, when: {a: p}}}\n"
         "searcher: {name: random, max_trials: 2, initial: [{a: p, b: 2}, {a: q, b: 2}]}\n", NULL,
         "exp.yaml:3: searcher.initial[1] gives b a value, and that trial does not meet its conditions; leave it out, or give"},
        {OWN("[{lrr: 0.01}]"), NULL, "exp.yaml:3: searcher.initial[0] names lrr, which is no hyperparameter; did you mean 'lr'?"},
        {OWN("[{}, {width: 3}]"), NULL, "searcher.initial[1] names width, which is no hyperparameter; allowed are the names of hyperparameters"},
        {OWN("[{lr: 0.2}]"), NULL, "searcher.initial[0] gives lr the value '0.2'; allowed are 0.0001 ... 0.1, as in hyperparameters"},
        {OWN("[{lr: '0.01'}]"), NULL, "searcher.initial[0] gives lr the value '0.01'; allowed are 0.0001 ... 0.1"},
        {OWN("[{n: 3}]"), NULL, "gives n the value '3'; allowed are whole numbers, 2 ... 8 in steps of 2, as in"},
        {OWN("[{n: 10}]"), NULL, "gives n the value '10'; allowed are whole numbers, 2 ... 8"},
        {OWN("[{opt: {name: rms}}]"), NULL, "gives opt.name the value 'rms'; allowed are its vals, as in hyperparameters"},
        {OWN("[{opt.name: .inf}]"), NULL, "gives opt.name the value '.inf'; allowed are its vals"},
        {OWN("[{opt.name: sgd, opt: {name: sgd}}]"), NULL, "searcher.initial[0] names opt.name twice; leave one of them out"},
        {OWN("[{opt: sgd}]"), NULL, "searcher.initial[0] names opt, which is no hyperparameter"},
        {OWN("[{fixed: 8}]"), NULL, "gives fixed the value '8'; allowed are its value, as in hyperparameters"},
        {OWN("[{}, {}, {}, {}, {}]"), NULL, "searcher.initial has values for 5 trials, and searcher.max_trials is 4"},
        {OWN("[3]"), NULL, "searcher.initial[0] is '3'; allowed is a map of names to values"},
        {OWN("{lr: 0.01}"), NULL, "searcher.initial is a map; allowed is a list of maps"},
        {"entrypoint: x\nsearcher: {name: grid, initial: [{}]}\n", NULL, "searcher.initial has no effect with searcher.name grid; remove it or use random"},
        {"entrypoint: x\nsearcher: {sampler: random}\n", NULL, "searcher.sampler has no effect with searcher.name single; remove it or use random"},
        {"entrypoint: x\nsearcher: {max_trials: 4}\n", NULL, "searcher.max_trials has no effect with searcher.name single"},
        {"entrypoint: x\nsync: local\n", NULL, "exp.yaml:2: sync cannot be used: local SGD is not supported yet"},
        {"name: x\n", NULL, "exp.yaml:1: entrypoint is missing"},
        {"", NULL, "entrypoint is missing"},
        {"entrypoint: ''\n", NULL, "entrypoint is empty; allowed is a command of one or more lines"},
        {"entrypoint: |\n\n  \n", NULL, "exp.yaml:1: entrypoint is"},
        {"entrypoint: [a, [b]]\n", NULL, "exp.yaml:1: entrypoint is a list"},
        {"entrypoint: {a: b}\n", NULL, "entrypoint is a map"},
        {"entrypoint: x\nname: \"a\\eb\"\n", NULL, "name is 'a?b'; allowed are texts of 1 ... 127 bytes without '/' and control characters"},
        {"entrypoint: x\nname: a/0\n", NULL, "exp.yaml:2: name is 'a/0'; allowed are texts of 1 ... 127 bytes without '/'"},
        {"entrypoint: x\nlabels: one\n", NULL, "labels is 'one'; allowed is a list"},
        {"entrypoint: x\nlabels: [[a]]\n", NULL, "labels is a list"},
        {"entrypoint: x\nseed: 1\n\nseed: 2\n", NULL, "exp.yaml:4: the key 'seed' is here a second time (first on line 2)"},
        {"entrypoint: x\nenvironment: {environment_variables: [1A=2]}\n", NULL, "'1A' has a bad name"},
        {"entrypoint: x\nenvironment: {environment_variables: [AB]}\n", NULL, "is 'AB'; allowed is a list of NAME=VALUE texts"},
        {"entrypoint: x\nenvironment: {variables: {SHOAL_TOKEN: a}}\n", NULL, "'SHOAL_TOKEN' is set by the daemon"},
        {"entrypoint: x\nenvironment: {variables: {SHOAL_PORTS: a}}\n", NULL, "'SHOAL_PORTS' is set by the daemon"},
        {"entrypoint: x\nenvironment: {variables: {SHOAL_RESTORE_DIR: a}}\n", NULL, "'SHOAL_RESTORE_DIR' is set by the daemon"},
        {"entrypoint: x\nenvironment: {variables: {SHOAL_HP_LR: a}}\n", NULL, "'SHOAL_HP_LR' is set by the daemon"},
        {"entrypoint: x\nenvironment: {variables: {RANK: 1}}\n", NULL, "'RANK' is set by the daemon for each rank"},
        {"entrypoint: x\nenvironment: {variables: {MASTER_ADDR: a}}\n", NULL, "'MASTER_ADDR' is set by the daemon for each rank"},
        {"entrypoint: x\nenvironment: {environment_variables: [A=1], variables: {A: 2}}\n", NULL, "'A' is given twice"},
        {"entrypoint: x\nsecrets: [A]\nenvironment: {variables: {A: 2}}\n", NULL, "A is a secret and a variable of environment"},
        {"entrypoint: x\nhyperparameters: 5\n", NULL, "hyperparameters is '5'; allowed is a map"},
        {"entrypoint: x\nhyperparameters:\n  a: {type: integer, minval: 1, maxval: 2}\n", NULL, "exp.yaml:3: hyperparameters.a.type is 'integer'; allowed are const"},
        {"entrypoint: x\nhyperparameters: {a: {type: lgo, base: 2}}\n", NULL, "a.type is 'lgo'; did you mean 'log'? (allowed are const, categorical, int, "
         "double, log; a map of the program's own is written {type: const, val: {...}})"},
        {"entrypoint: x\nhyperparameters: {a: {type: catgorical}}\n", NULL, "did you mean 'categorical'?"},
        {"entrypoint: x\nhyperparameters: {a: {b: {c: {type: uniform, min: 0, max: 1}}}}\n", NULL, "hyperparameters.a.b.c.type is 'uniform'; allowed are"},
        {"entrypoint: x\nhyperparameters: {a: {type: log, min: -4, max: -2}}\n", NULL, "unknown key 'hyperparameters.a.min'"},
        {"entrypoint: x\nhyperparameters: {a: {type: categorical, values: [1]}}\n", NULL, "a.values'; did you mean 'vals'?"},
        {"entrypoint: x\nhyperparameters: {a: {type: int, minval: 1}}\n", NULL, "hyperparameters.a.maxval is missing"},
        {"entrypoint: x\nhyperparameters: {a: {type: int, minval: 1, maxvall: 2}}\n", NULL, "hyperparameters.a.maxvall'; did you mean 'maxval'?"},
        {"entrypoint: x\nhyperparameters: {a: {type: int, minval: 1.5, maxval: 2}}\n", NULL, "a.minval is '1.5'; allowed are whole numbers"},
        {"entrypoint: x\nhyperparameters: {a: {type: int, minval: 3, maxval: 2}}\n", NULL, "minval must not be above maxval"},
        {"entrypoint: x\nhyperparameters: {a: {type: int, minval: 1, maxval: 2, count: 0}}\n", NULL, "a.count is '0'; allowed are 1 ... 100000"},
        {"entrypoint: x\nhyperparameters: {a: {type: log, minval: 1, maxval: 2000}}\n", NULL, "hyperparameters.a is out of range"},
        {"entrypoint: x\nhyperparameters: {a: {type: int, minval: 0, maxval: 8, log: true}}\n", NULL, "a.minval is '0'; with log: true it must be at least 1"},
        {"entrypoint: x\nhyperparameters: {a: {type: int, minval: 1, maxval: 8, log: 2}}\n", NULL, "a.log is '2'; allowed are true, false"},
        {"entrypoint: x\nhyperparameters: {a: {type: int, minval: 1, maxval: 9, log: true, step: 2}}\n", NULL, "a has both log: true and step; remove one"},
        {"entrypoint: x\nhyperparameters: {a: {type: int, minval: 1, maxval: 8, step: 0}}\n", NULL, "a.step is '0'; allowed are whole numbers from 1"},
        {"entrypoint: x\nhyperparameters: {a: {type: int, minval: 1, maxval: 8, step: 1.5}}\n", NULL, "a.step is '1.5'; allowed are whole numbers"},
        {"entrypoint: x\nhyperparameters: {a: {type: int, minval: 64, maxval: 1000, step: 64}}\n", NULL,
         "a.maxval is '1000', which no whole number of steps of '64' above minval reaches; the last one below it is 960"},
        {"entrypoint: x\nhyperparameters: {a: {type: double, minval: 0, maxval: 1, step: -.1}}\n", NULL, "a.step is '-.1'; allowed are numbers above 0"},
        {"entrypoint: x\nhyperparameters: {a: {type: double, minval: 0, maxval: 1, step: .3}}\n", NULL, "the last one below it is 0.9"},
        {"entrypoint: x\nhyperparameters: {a: {type: double, minval: 0, maxval: 1, step: 1e-20}}\n", NULL, "a.step is '1e-20', too small for minval '0'"},
        {"entrypoint: x\nhyperparameters: {a: {type: double, minval: 0, maxval: 1, log: true}}\n", NULL, "unknown key 'hyperparameters.a.log'"},
        {"entrypoint: x\nhyperparameters: {a: {type: log, minval: -4, maxval: -1, step: 1}}\n", NULL, "unknown key 'hyperparameters.a.step'"},
        {"entrypoint: x\nhyperparameters: {a: {type: log, base: -1, minval: 1, maxval: 2}}\n", NULL, "hyperparameters.a is out of range"},
        {"entrypoint: x\nhyperparameters: {a: {type: categorical, vals: []}}\n", NULL, "a.vals is an empty list"},
        {"entrypoint: x\nhyperparameters: {a: {type: categorical}}\n", NULL, "a.vals is missing"},
        {"entrypoint: x\nhyperparameters: {a: .inf}\n", NULL, "hyperparameters.a is '.inf'; allowed are finite numbers"},
        {"entrypoint: x\nhyperparameters: {a: 1e999}\n", NULL, "hyperparameters.a is '1e999'"},
        {"entrypoint: x\nhyperparameters: {a.b: 1}\n", NULL, "has a '.' or a control character"},
        {"entrypoint: x\nsearcher: {name: grid}\nhyperparameters:\n  a: {type: double, minval: 0, maxval: 1}\n", NULL,
         "exp.yaml:4: hyperparameters.a has no count; searcher.name grid needs it"},
        {"entrypoint: x\nsearcher: {name: grid}\nhyperparameters:\n  a: {type: int, minval: 0, maxval: 100000}\n", NULL, "more than 100000 trials"},
        {"entrypoint: x\nname: *a\n", NULL, "exp.yaml:2: the alias *a has no anchor before it"},
        {"entrypoint: !!str x\n", NULL, "exp.yaml:1: tags (!) are not allowed"},
        {"entrypoint: x\nhyperparameters: &a {b: *a}\n", NULL, "exp.yaml:2: the alias *a stands inside the value that it names"},
        {"entrypoint: x\nhyperparameters: {a: &a 1, <<: *a}\n", NULL, "exp.yaml:2: the merge key << has a value that is no map"},
        {"entrypoint: x\nhyperparameters: {a: &a 1, *a : 2}\n", NULL, "an alias is used as a key"},
        {"entrypoint: x\nhyperparameters: {&a b: 2}\n", NULL, "a key has an anchor"},
        {"entrypoint: x\n---\nname: y\n", NULL, "exp.yaml:2: a second document begins here"},
        {"entrypoint: [x\nname: y\n", NULL, "this is not valid YAML"},
        {"entrypoint: x\n\tname: y\n", NULL, "exp.yaml:2: this is not valid YAML"},
        {"entrypoint: x\nname: \xff\n", NULL, "exp.yaml:2: this is not UTF-8"},
        {"- a\n", NULL, "exp.yaml:1: the file is not a map of options"},
        {"? [a]\n: b\n", NULL, "a list or a map is used as a key"},
        {"entrypoint: {{hp.lr}}\n", NULL, "quote a text that begins with { or ["},
        {"entrypoint: x\nslots_per_trial: 2\n", NULL, "did you mean 'resources.slots_per_trial'?"},
        {"entrypoint: x\nlabels: [\"a\\0b\"]\n", NULL, "has a zero byte"},
        {"[[[[[[[[[[[[[[[[[[[[[[", NULL, "nested too deep; allowed are 16 levels"},
        {"entrypoint: x\nresources: {slots_per_trial: 4, max_slots: 8, even_hosts: true}\n", NULL,
         "resources.max_slots has no effect with even_hosts"},
        {"entrypoint: x\n", "seed", "--set seed: this is no assignment; allowed is key.path=value"},
        {"entrypoint: x\n", "=4", "--set =4: this is no assignment"},
        {"entrypoint: x\n", "a..b=4", "--set a..b=4: the key before '='"},
        {"entrypoint: x\n", "seed=x", "--set seed=x: seed is 'x'; allowed are 0"},
        {"entrypoint: x\n", "sead=1", "--set sead=1: unknown key 'sead'; did you mean 'seed'?"},
        {"entrypoint: x\nname: a\n", "name.b=1", "--set name.b=1: 'name' is not a map"},
        {"entrypoint: x\n", "name=[1", "--set name=[1: this is not valid YAML"},
        {"entrypoint: x\n", "name=*a", "--set name=*a: the alias *a has no anchor"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        parse_bad(cases[i].text, cases[i].override, cases[i].expected);
        (void)check_lines();
    }
}

static void packages_are_a_file_of_the_context_and_a_program(void **state)
{
    (void)state;
    struct config config;
    parse_good("name: x\nentrypoint: t\nenvironment: {requirements: a/r.txt, python: /opt/py/bin/python3}\n", NULL, &config);
    assert_string_equal(config.requirements, "a/r.txt");
    parse_bad("name: x\nentrypoint: t\nenvironment: {requirements: ../r.txt}\n", NULL, "allowed is a path below the context directory");
    parse_bad("name: x\nentrypoint: t\nenvironment: {requirements: /r.txt}\n", NULL, "allowed is a path below the context directory");
    parse_bad("name: x\nentrypoint: t\nenvironment: {python: python3.9}\n", NULL, "no effect without environment.requirements");
    parse_bad("name: x\nentrypoint: t\nenvironment: {requirements: r, python: /a=b/python3}\n", NULL, "without '='");
    parse_bad("name: x\nentrypoint: t\nenvironment: {requirements: r, python: --x}\n", NULL, "not beginning with '-'");
}

static void all_problems_of_a_file_are_told_at_once(void **state)
{
    (void)state;
    static const char text[] = "name: a/b\n"
                               "entrypont: x\n"
                               "searcher: {name: rando, max_trials: 3, metrics: x}\n"
                               "resources:\n"
                               "  slots_per_trial: 2\n"
                               "  min_slots: 3\n"
                               "  min_slots: 4\n"
                               "  pool: a\n"
                               "labels: [fine, \"\", [1]]\n"
                               "keep: [../x, y]\n"
                               "environment:\n"
                               "  variables: {2x: y, RANK: 1}\n"
                               "hyperparameters:\n"
                               "  lr: {type: duble, minval: 1}\n"
                               "  depth: {type: int, minval: x, maxval: y}\n"
                               "  c: .nan\n";
    static const char *const wanted[] = {
        "dir/exp.yaml:1: name is 'a/b'", "dir/exp.yaml:2: unknown key 'entrypont'", "dir/exp.yaml:3: searcher.name is 'rando'",
        "dir/exp.yaml:3: unknown key 'searcher.metrics'", "dir/exp.yaml:7: the key 'min_slots' is here a second time",
        "dir/exp.yaml:7: resources.min_slots is 4", "dir/exp.yaml:8: unknown key 'resources.pool'",
        "dir/exp.yaml:9: labels is empty", "dir/exp.yaml:9: labels is a list", "dir/exp.yaml:10: keep has '../x'",
        "dir/exp.yaml:12: the environment variable '2x'", "dir/exp.yaml:12: the environment variable 'RANK'",
        "dir/exp.yaml:14: hyperparameters.lr.type is 'duble'", "dir/exp.yaml:15: hyperparameters.depth.minval is 'x'",
        "dir/exp.yaml:15: hyperparameters.depth.maxval is 'y'", "dir/exp.yaml:16: hyperparameters.c is '.nan'",
        "--set seed=x: seed is 'x'",
    };
    const size_t count = sizeof wanted / sizeof wanted[0];
    parse_bad(text, "seed=x", "seed is 'x'");
    assert_int_equal(check_lines(), count); /* and nothing that follows from another problem: no missing entrypoint */
    const char *line = error_text;
    for (size_t i = 0; i < count; i++) { /* in the order of the lines */
        if (strncmp(line, wanted[i], strlen(wanted[i])) != 0) {
            fail_msg("'%s' is wanted, here is '%s'", wanted[i], line);
        }
        line = i + 1 < count ? strchr(line, '\n') + 1 : line;
    }
}

static void many_problems_are_told_up_to_a_bound(void **state)
{
    (void)state;
    char text[4096] = "entrypoint: x\n";
    for (unsigned i = 0; i < CONFIG_PROBLEMS_MAX - 1; i++) {
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "k%u: 1\n", i);
    }
    parse_bad(text, NULL, "unknown key 'k18'");
    assert_int_equal(check_lines(), CONFIG_PROBLEMS_MAX - 1);
    for (unsigned i = 0; i < 40; i++) {
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "l%u: 1\n", i);
    }
    parse_bad(text, NULL, "\ndir/exp.yaml: there may be more problems than these 20");
    assert_int_equal(check_lines(), CONFIG_PROBLEMS_MAX + 1);
    assert_non_null(strstr(error_text, "unknown key 'l0'"));
    assert_null(strstr(error_text, "unknown key 'l1'"));
}

static void large_files_are_refused_in_time(void **state)
{
    (void)state;
    static char text[CONFIG_TEXT_BYTES_MAX + 1];
    struct config c;
    memset(text, '#', sizeof text);
    assert_int_equal(parse_n(text, sizeof text, NULL, 0, &c), ERR_MALFORMED);
    assert_non_null(strstr(error_text, "the file has 1048577 bytes; allowed are 1048576"));
    size_t used = (size_t)snprintf(text, sizeof text, "entrypoint: x\nlabels: [");
    while (used < CONFIG_TEXT_BYTES_MAX - 2) {
        text[used++] = 'a';
        text[used++] = ',';
    }
    assert_int_equal(parse_n(text, used, NULL, 0, &c), ERR_MALFORMED);
    assert_non_null(strstr(error_text, "there are too many values; allowed are 16384"));
    /* More than 256 hyperparameters, and values that do not fit. */
    used = (size_t)snprintf(text, sizeof text, "entrypoint: x\nhyperparameters:\n");
    for (int i = 0; i < 257; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "  h%d: 1\n", i);
    }
    assert_int_equal(parse_n(text, used, NULL, 0, &c), ERR_MALFORMED);
    assert_non_null(strstr(error_text, "exp.yaml:259: hyperparameters.h256 is one hyperparameter too many; allowed are 256"));
    used = (size_t)snprintf(text, sizeof text, "entrypoint: x\nhyperparameters: {a: ");
    memset(text + used, 'v', 70000);
    memcpy(text + used + 70000, "}\n", 3);
    assert_int_equal(parse_n(text, used + 70002, NULL, 0, &c), ERR_MALFORMED);
    assert_non_null(strstr(error_text, "too large"));
    /* Aliases of a long text: the tree is small, what it stands for is not. */
    used = (size_t)snprintf(text, sizeof text, "entrypoint: &a ");
    memset(text + used, 'v', 130000);
    used += 130000;
    used += (size_t)snprintf(text + used, sizeof text - used, "\nenvironment:\n  variables:\n");
    for (int i = 0; i < 17; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "    V%d: *a\n", i);
    }
    assert_int_equal(parse_n(text, used, NULL, 0, &c), ERR_MALFORMED);
    assert_non_null(strstr(error_text, "allowed are 2097152 bytes packed"));
}

static void a_billion_laughs_are_refused(void **state)
{
    (void)state;
    char text[4096];
    struct config c;
    size_t used = (size_t)snprintf(text, sizeof text, "entrypoint: x\nhyperparameters:\n  a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n");
    for (int i = 1; i < 10; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "  a%d: &a%d [", i, i);
        for (int j = 0; j < 10; j++) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s*a%d", j > 0 ? ", " : "", i - 1);
        }
        used += (size_t)snprintf(text + used, sizeof text - used, "]\n");
    }
    assert_int_equal(parse_n(text, used, NULL, 0, &c), ERR_MALFORMED);
    assert_non_null(strstr(error_text, "there are too many values; allowed are 16384, with all that aliases stand for"));
}

static void aliases_and_merge_keys_stand_for_what_they_name(void **state)
{
    (void)state;
    struct config c;
    parse_good("x-base: &base {lr: 0.1, depth: 3, deep: {a: 1}}\nx-more: &more {depth: 4, width: 5}\nentrypoint: x\n"
               "hyperparameters:\n  <<: [*base, *more]\n  lr: 0.2\n  again: *base\n  list: &l [1, 2]\n  lists: [*l, *l]\n"
               "  kept: {'<<': 1}\n", NULL, &c);
    assert_string_equal(values_of(&c, 0), "{\"lr\": 0.2, \"again\": {\"lr\": 0.1, \"depth\": 3, \"deep\": {\"a\": 1}}, \"list\": "
                                          "[1, 2], \"lists\": [[1, 2], [1, 2]], \"kept\": {\"<<\": 1}, \"depth\": 3, \"deep\": {\"a\": 1}, \"width\": 5}");
    parse_good("entrypoint: &run x\nname: *run\nhyperparameters: {a: &s {type: int, minval: 1, maxval: 1}, b: *s, c: {<<: *s, maxval: 9}}\n",
               "hyperparameters.c.minval=9", &c);
    assert_string_equal(c.name, "x");
    assert_string_equal(values_of(&c, 0), "{\"a\": 1, \"b\": 1, \"c\": 9}");
}

static void ranges_have_steps_and_logarithms(void **state)
{
    (void)state;
    struct config c;
    parse_good("entrypoint: x\nsearcher: {name: grid}\nhyperparameters:\n  width: {type: int, minval: 16, maxval: 64, count: 3, log: true}\n"
               "  batch: {type: int, minval: 32, maxval: 96, step: 32, log: false}\n  drop: {type: double, minval: 0, maxval: .2, step: .1}\n",
               NULL, &c);
    struct search_space space = config_search_space(&c);
    uint32_t trials = 0;
    assert_int_equal(search_trial_count(&space, &trials), 0);
    assert_int_equal(trials, 27);
    assert_string_equal(values_of(&c, 0), "{\"width\": 16, \"batch\": 32, \"drop\": 0.0}");
    assert_string_equal(values_of(&c, 13), "{\"width\": 32, \"batch\": 64, \"drop\": 0.1}");
    assert_string_equal(values_of(&c, 26), "{\"width\": 64, \"batch\": 96, \"drop\": 0.2}");
}

static void conditions_make_hyperparameters_absent(void **state)
{
    (void)state;
    struct config c;
    parse_good("entrypoint: x\nsearcher: {name: grid}\nhyperparameters:\n  opt:\n    name: {type: categorical, vals: [sgd, adam, [1, 2]]}\n"
               "    momentum: {type: categorical, vals: [0.8, 0.9], when: {opt.name: sgd}}\n"
               "    beta: {type: const, val: {a: 1}, when: {opt: {name: [adam, [1, 2]]}}}\n  fixed: 3.0\n"
               "  n: {type: int, minval: 1, maxval: 2, when: {fixed: 3, opt.name: [sgd, adam]}}\n"
               "  never: {type: double, minval: 1, maxval: 2, count: 2, when: {fixed: 4}}\n", NULL, &c);
    struct search_space space = config_search_space(&c);
    uint32_t trials = 0;
    assert_int_equal(search_trial_count(&space, &trials), 0);
    assert_int_equal(trials, 2 * 2 + 2 + 1);
    assert_string_equal(values_of(&c, 3), "{\"opt\": {\"name\": \"sgd\", \"momentum\": 0.9}, \"fixed\": 3.0, \"n\": 2}");
    assert_string_equal(values_of(&c, 4), "{\"opt\": {\"name\": \"adam\", \"beta\": {\"a\": 1}}, \"fixed\": 3.0, \"n\": 1}");
    assert_string_equal(values_of(&c, 6), "{\"opt\": {\"name\": [1, 2], \"beta\": {\"a\": 1}}, \"fixed\": 3.0}");
    /* A map called `when` that names no hyperparameters is a value, as before. */
    parse_good("entrypoint: x\nhyperparameters: {a: 1, b: {when: {hour: 1}, c: {type: int, minval: 2, maxval: 2}}, kind: {type: int, when: {a: 1}}}\n",
               NULL, &c);
    assert_string_equal(values_of(&c, 0), "{\"a\": 1, \"b\": {\"when\": {\"hour\": 1}, \"c\": 2}, \"kind\": {\"type\": \"int\", \"when\": {\"a\": 1}}}");
}

static void own_values_are_those_of_the_first_trials(void **state)
{
    (void)state;
    struct config c;
    parse_good(OWN("[{opt.name: 2.0, lr: 0.0123456789012}, {opt: {name: [1, {a: b}]}, fixed: 7.0, n: 8}]"), NULL, &c);
    const char *values = values_of(&c, 0);
    assert_non_null(strstr(values, "{\"lr\": 0.0123456789012, \"n\": "));
    assert_non_null(strstr(values, "\"opt\": {\"name\": 2}, \"fixed\": 7}"));
    assert_non_null(strstr(values_of(&c, 1), "\"n\": 8, \"opt\": {\"name\": [1, {\"a\": \"b\"}]}, \"fixed\": 7}"));
    parse_good("entrypoint: x\nsearcher: {name: random, max_trials: 1, initial: []}\n", NULL, &c);
    struct search_space space = config_search_space(&c);
    assert_true(search_space_is_plain(&space));
}

static void a_sampler_belongs_to_the_space(void **state)
{
    (void)state;
    static const char *const body = "entrypoint: x\nhyperparameters: {x: {type: double, minval: 0, maxval: 1}, n: 3}\n"
                                    "searcher: {name: random, max_trials: 4}\n";
    struct config c;
    char independent[64];
    parse_good(body, "searcher.sampler=random", &c);
    struct search_space space = config_search_space(&c);
    assert_true(search_space_is_plain(&space));
    strcpy(independent, values_of(&c, 1));
    parse_good(body, "searcher.sampler=sobol", &c);
    space = config_search_space(&c);
    assert_false(search_space_is_plain(&space));
    assert_string_not_equal(values_of(&c, 1), independent);
    char text[8192], error[CONFIG_ERROR_BYTES];
    size_t used = (size_t)sprintf(text, "entrypoint: x\nsearcher: {name: random, max_trials: 4, sampler: sobol}\nhyperparameters:\n");
    for (int i = 0; i < 65; i++) {
        used += (size_t)sprintf(text + used, "  p%d: {type: int, minval: 0, maxval: 9}\n", i);
    }
    assert_int_equal(config_parse_yaml("exp.yaml", text, used, NULL, 0, scratch, sizeof scratch, &c, error), ERR_MALFORMED);
    assert_non_null(strstr(error, "exp.yaml:2: searcher.sampler is sobol, and 65 hyperparameters are searched; allowed are 64 with it"));
    /* A space that is too large for the record leaves its form there, so that the first versions refuse the record, too. */
    used = (size_t)sprintf(text, "%s  long: ", "entrypoint: x\nsearcher: {name: random, max_trials: 4}\nhyperparameters:\n");
    memset(text + used, 'x', 5000);
    strcpy(text + used + 5000, "\n");
    for (int is_sobol = 0; is_sobol <= 1; is_sobol++) {
        struct config lean;
        parse_good(text, is_sobol ? "searcher.sampler=sobol" : NULL, &c);
        config_make_lean(&c, &lean);
        space = config_search_space(&lean);
        assert_true(lean.hyperparameters_bytes < 3);
        assert_int_equal(search_space_is_plain(&space), !is_sobol);
    }
}

static void a_map_that_cannot_be_a_search_is_a_value(void **state)
{
    (void)state;
    struct config c;
    parse_good("entrypoint: x\nhyperparameters:\n  model: {type: ResNet, depth: 50}\n"
               "  optimizer: {type: int8_adam, lr: {type: int, minval: 7, maxval: 7}}\n"
               "  logger: {type: log, path: /tmp}\n  counter: {type: int, step: 5, log: true}\n  kind: {type: integer}\n  written: {type: const, val: {type: log, minval: 1}}\n"
               "  nothing:\n  null: null\n  empty: {}\n  deep: {a.b: {}, c: ~, d: []}\n", NULL, &c);
    assert_string_equal(values_of(&c, 0),
                        "{\"model\": {\"type\": \"ResNet\", \"depth\": 50}, \"optimizer\": {\"type\": \"int8_adam\", \"lr\": 7}, "
                        "\"logger\": {\"type\": \"log\", \"path\": \"/tmp\"}, \"counter\": {\"type\": \"int\", \"step\": 5, \"log\": true}, \"kind\": {\"type\": \"integer\"}, \"written\": "
                        "{\"type\": \"log\", \"minval\": 1}, \"nothing\": null, \"null\": null, \"empty\": {}, \"deep\": {\"a.b\": "
                        "{}, \"c\": null, \"d\": []}}");
}

/* What does not fit into a record: the record has the lean form, and a blob the whole. */
static void check_large(const struct config *c)
{
    static uint8_t bytes[CONFIG_PACKED_BYTES_MAX], blob[CONFIG_BLOB_BYTES_MAX];
    struct config lean, read;
    struct pack_writer writer;
    struct pack_reader reader;
    assert_false(config_is_plain(c));
    config_make_lean(c, &lean);
    assert_string_equal(config_entrypoint(&lean), "");
    pack_writer_init(&writer, bytes, sizeof bytes);
    config_pack(&writer, &lean);
    assert_false(writer.failed);
    pack_reader_init(&reader, bytes, writer.used_bytes);
    assert_int_equal(config_unpack_form(&reader, CONFIG_PLAIN, &read), ERR_MALFORMED); /* no version runs it by mistake */
    pack_reader_init(&reader, bytes, writer.used_bytes);
    assert_int_equal(config_unpack_form(&reader, CONFIG_LEAN, &read), 0);
    assert_int_equal(read.slots_per_trial, c->slots_per_trial);
    assert_int_equal(read.max_trials, c->max_trials);
    pack_writer_init(&writer, blob, sizeof blob);
    config_blob_pack(&writer, c, "the file", 8);
    assert_false(writer.failed);
    assert_int_equal(config_blob_read(blob, writer.used_bytes, &read), 0);
    assert_string_equal(config_entrypoint(&read), config_entrypoint(c));
    assert_int_equal(read.environment_bytes, c->environment_bytes);
    assert_string_equal(values_of(&read, 0), values_of(c, 0));
}

static void what_is_too_large_for_a_record_goes_beside_it(void **state)
{
    (void)state;
    static char text[CONFIG_TEXT_BYTES_MAX];
    struct config c;
    parse_good("entrypoint: |\n  cd a\n  exec b\n", NULL, &c);
    assert_string_equal(config_entrypoint(&c), "cd a\nexec b");
    assert_true(config_is_plain(&c));
    size_t used = (size_t)snprintf(text, sizeof text, "searcher: {name: random, max_trials: 3}\nentrypoint: |\n");
    for (int i = 0; i < 20000; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "  echo line %d of a script\n", i);
    }
    assert_int_equal(parse_n(text, used, NULL, 0, &c), 0);
    assert_non_null(strstr(config_entrypoint(&c), "\necho line 19999 of a script"));
    assert_string_equal(c.entrypoint, "");
    check_large(&c);
    used = (size_t)snprintf(text, sizeof text, "entrypoint: x\nenvironment:\n  variables:\n");
    for (int i = 0; i < 256; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "    V%d: %0200d\n", i, i);
    }
    assert_int_equal(parse_n(text, used, NULL, 0, &c), 0);
    check_large(&c);
    used = (size_t)snprintf(text, sizeof text, "searcher: {name: grid}\nentrypoint: x\nhyperparameters:\n");
    for (int i = 0; i < 256; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "  a_name_of_some_length_%d: {type: int, minval: %d, maxval: %d}\n", i, i, i);
    }
    assert_int_equal(parse_n(text, used, NULL, 0, &c), 0);
    check_large(&c);
    used = (size_t)snprintf(text, sizeof text, "entrypoint: [echo, '%01500d', \"it's\"]\n", 7);
    assert_int_equal(parse_n(text, used, NULL, 0, &c), 0);
    assert_non_null(strstr(config_entrypoint(&c), "7 'it'\\''s'"));
    check_large(&c);
}

static void a_single_trial_may_begin_from_a_checkpoint(void **state)
{
    (void)state;
    struct config c;
    struct config_begin begin;
    parse_good("entrypoint: x\ncheckpoint: {begin_from: A1b2c3d4e5f60718/12@400}\n", NULL, &c);
    assert_true(config_begin(&c, &begin));
    assert_int_equal(begin.experiment.bytes[0], 0xa1);
    assert_int_equal(begin.trial, 12);
    assert_int_equal(begin.step, 400);
    parse_good("entrypoint: x\n", NULL, &c);
    assert_false(config_begin(&c, &begin));
    static const char *const bad[] = {"a1b2c3d4e5f60718/0", "a1b2c3d4e5f60718/0@0", "a1b2c3d4e5f6071/0@4", "a1b2c3d4e5f60718@4", "mlp/0@4",
                                      "a1b2c3d4e5f60718/0@4x", "a1b2c3d4e5f60718/100000@4", "a1b2c3d4e5f60718/-1@4", "a1b2c3d4e5f60718/@4",
                                      "a1b2c3d4e5f6071g/0@4", "a1b2c3d4e5f60718/0@99999999999999999999", "a1b2c3d4e5f60718/"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char override[96];
        (void)snprintf(override, sizeof override, "checkpoint.begin_from=%s", bad[i]);
        parse_bad("entrypoint: x\n", override, "allowed is EXPERIMENT/TRIAL@STEP with the whole id, such as a1b2c3d4e5f60718/0@400");
    }
    parse_bad("entrypoint: x\nsearcher: {name: random, max_trials: 2, metric: a}\ncheckpoint: {begin_from: a1b2c3d4e5f60718/0@4}\n", NULL,
              "checkpoint.begin_from is for one trial; remove it, or use searcher.name single");
}

static void a_start_is_a_time_here_or_of_utc_or_some_time_from_now(void **state)
{
    (void)state;
    struct config c;
    (void)setenv("TZ", "UTC-2", 1); /* two hours ahead of UTC */
    tzset();
    parse_good("entrypoint: x\nstart_after: 2026-12-01 18:00\n", NULL, &c);
    assert_string_equal(c.start_after, "2026-12-01T16:00:00Z");
    parse_good("entrypoint: x\nstart_after: 2026-12-01T18:00:30Z\n", NULL, &c);
    assert_string_equal(c.start_after, "2026-12-01T18:00:30Z");
    assert_int_equal(c.start_in_s, 0);
    parse_good("entrypoint: x\n", "start_after=2h30m", &c);
    assert_string_equal(c.start_after, "");
    assert_int_equal(c.start_in_s, 9000);
    parse_good("entrypoint: x\nstart_after: 2h\n", "start_after=null", &c);
    assert_int_equal(c.start_in_s, 0);
    parse_bad("entrypoint: x\n", "start_after=1970-01-01 01:00", "start_after is '1970-01-01 01:00'");
}

static void constraints_are_lines_of_the_record(void **state)
{
    (void)state;
    struct config c;
    parse_good("entrypoint: x\nresources: {constraints: {model: RTX 4090, memory: 24G, labels: [fast, room=12]}}\n", NULL, &c);
    assert_string_equal(c.constraints, "model=RTX 4090\nmemory=25769803776\nlabel=fast\nlabel=room=12");
    parse_good("entrypoint: x\n", "resources.constraints={model: [A100, H100]}", &c);
    assert_string_equal(c.constraints, "model=A100\nmodel=H100");
    parse_good("entrypoint: x\n", "resources.constraints={}", &c);
    assert_string_equal(c.constraints, "");
}

static void the_names_that_it_depends_on_are_kept_for_the_daemon(void **state)
{
    (void)state;
    struct config c;
    struct pack_reader reader;
    char name[CONFIG_NAME_BYTES];
    parse_good("entrypoint: x\ndepends_on: [prep, 'it''s, done']\n", NULL, &c);
    pack_reader_init(&reader, c.dependencies, c.dependencies_bytes);
    assert_int_equal(pack_read_array(&reader), 2);
    pack_read_text_copy(&reader, name, sizeof name);
    assert_string_equal(name, "prep");
    pack_read_text_copy(&reader, name, sizeof name);
    assert_string_equal(name, "it's, done");
    assert_string_equal(c.depends_on, "");
    parse_good("entrypoint: x\ndepends_on: [prep]\n", "depends_on=[]", &c);
    assert_int_equal(c.dependencies_bytes, 0);
    parse_bad("entrypoint: x\n", "depends_on=[a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q]", "at most 16 experiments");
}

static size_t packed_sample(uint8_t bytes[CONFIG_PACKED_BYTES_MAX], struct config *c)
{
    parse_good(whole_file, NULL, c);
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, CONFIG_PACKED_BYTES_MAX);
    config_pack(&writer, c);
    assert_false(writer.failed);
    return writer.used_bytes;
}

static void packed_configurations_read_back(void **state)
{
    (void)state;
    static uint8_t bytes[CONFIG_PACKED_BYTES_MAX], again[CONFIG_PACKED_BYTES_MAX];
    struct config c, back;
    size_t count = packed_sample(bytes, &c);
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    assert_int_equal(config_unpack(&reader, &back), 0);
    assert_true(pack_at_end(&reader));
    assert_string_equal(back.name, c.name);
    assert_true(back.seed == c.seed);
    assert_int_equal(back.max_slots, 8);
    assert_int_equal(back.slot_kind, CONFIG_SLOT_CUDA);
    assert_true(back.smaller_is_better);
    assert_true(back.balance);
    struct pack_writer writer;
    pack_writer_init(&writer, again, sizeof again);
    config_pack(&writer, &back);
    assert_int_equal(writer.used_bytes, count);
    assert_memory_equal(again, bytes, count);
}

/* As those that were written before there was the key. */
static void records_say_balance_only_where_it_is_on(void **state)
{
    (void)state;
    static uint8_t bytes[CONFIG_PACKED_BYTES_MAX];
    struct config c, back;
    for (int on = 0; on <= 1; on++) {
        parse_good("entrypoint: x\n", on == 1 ? "balance=on" : NULL, &c);
        struct pack_writer writer;
        pack_writer_init(&writer, bytes, sizeof bytes);
        config_pack(&writer, &c);
        struct pack_reader map, reader;
        pack_reader_init(&map, bytes, writer.used_bytes);
        assert_int_equal(!pack_find(&map, "balance").failed, on);
        pack_reader_init(&reader, bytes, writer.used_bytes);
        assert_int_equal(config_unpack(&reader, &back), 0);
        assert_true(pack_at_end(&reader));
        assert_int_equal(back.balance, on);
    }
}

static void changed_records_never_give_values_out_of_bounds(void **state)
{
    (void)state;
    static uint8_t bytes[CONFIG_PACKED_BYTES_MAX];
    struct config c, out;
    size_t count = packed_sample(bytes, &c);
    struct random random;
    random_init(&random, 21);
    unsigned good = 0, refused = 0;
    for (int i = 0; i < 20000; i++) {
        size_t kept = random_below(&random, 8) == 0 ? random_below(&random, count) : count;
        uint8_t *block = malloc(kept > 0 ? kept : 1);
        memcpy(block, bytes, kept);
        for (uint64_t changes = random_below(&random, 4); changes > 0 && kept > 0; changes--) {
            block[random_below(&random, kept)] = (uint8_t)random_u64(&random);
        }
        struct pack_reader reader;
        pack_reader_init(&reader, block, kept);
        memset(&out, 0x77, sizeof out);
        if (config_unpack(&reader, &out) == 0) {
            assert_true(memchr(out.entrypoint, 0, sizeof out.entrypoint) != NULL && out.entrypoint[0] != '\0');
            assert_in_range(out.slots_per_trial, 1, CONFIG_SLOTS_MAX);
            assert_in_range(out.min_slots, 1, out.slots_per_trial);
            assert_in_range(out.max_slots, out.slots_per_trial, CONFIG_SLOTS_MAX);
            assert_in_range(out.priority, 1, 99);
            assert_in_range(out.checkpoint_replicas, 1, CONFIG_REPLICAS_MAX);
            (void)values_of(&out, 0);
            (void)json(out.environment, out.environment_bytes);
            good++;
        } else {
            assert_int_equal(out.priority, 0x77777777);
            refused++;
        }
        free(block);
    }
    assert_true(good > 1000 && refused > 1000);
}

static void changed_files_are_refused_with_sentences(void **state)
{
    (void)state;
    static const char letters[] = "{}[]:,-&*!|>'\"%@`#\n\t ?~.0189xe=\\\xff\xc3";
    struct random random;
    random_init(&random, 22);
    unsigned good = 0, refused = 0;
    for (int i = 0; i < 6000; i++) {
        char text[sizeof whole_file + 8];
        size_t bytes = sizeof whole_file - 1;
        memcpy(text, whole_file, bytes);
        for (uint64_t changes = 1 + random_below(&random, 3); changes > 0; changes--) {
            size_t at = random_below(&random, bytes);
            char letter = random_below(&random, 10) == 0 ? (char)random_u64(&random) : letters[random_below(&random, sizeof letters - 1)];
            switch (random_below(&random, 3)) {
            case 0:
                text[at] = letter;
                break;
            case 1:
                memmove(text + at, text + at + 1, bytes - at - 1);
                bytes--;
                break;
            default:
                memmove(text + at + 1, text + at, bytes - at);
                text[at] = letter;
                bytes++;
                break;
            }
        }
        if (random_below(&random, 10) == 0) {
            bytes = random_below(&random, bytes);
        }
        struct config c;
        const char *override = "seed=7";
        int result = parse_n(text, bytes, &override, random_below(&random, 2), &c);
        if (result == 0) {
            static uint8_t packed[CONFIG_PACKED_BYTES_MAX];
            struct pack_writer writer;
            pack_writer_init(&writer, packed, sizeof packed);
            config_pack(&writer, &c);
            struct pack_reader reader;
            pack_reader_init(&reader, packed, writer.used_bytes);
            assert_int_equal(config_unpack(&reader, &c), 0); /* the core agrees with the shell */
            good++;
        } else {
            assert_int_equal(result, ERR_MALFORMED);
            assert_in_range(check_lines(), 1, CONFIG_PROBLEMS_MAX + 1);
            refused++;
        }
    }
    assert_true(good > 500 && refused > 500);
}

struct seen {
    unsigned rows;
    unsigned required;
    bool has_slots;
};

static void see_row(void *context, const struct config_option_text *text)
{
    struct seen *seen = context;
    assert_true(strlen(text->key) > 0 && strlen(text->type) > 0 && strlen(text->allowed) > 0 && strlen(text->help) > 0);
    seen->rows++;
    seen->required += strcmp(text->standard, "required") == 0;
    seen->has_slots |= strcmp(text->key, "resources.slots_per_trial") == 0 && strcmp(text->allowed, "1 ... 256") == 0 &&
                       strcmp(text->type, "number") == 0 && strcmp(text->standard, "1") == 0;
}

static void every_option_is_described(void **state)
{
    (void)state;
    struct seen seen = {0, 0, false};
    config_describe(see_row, &seen);
    assert_int_equal(seen.rows, config_option_count - 1); /* all but `user` */
    assert_int_equal(seen.required, 1);
    assert_true(seen.has_slots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_is_read),
        cmocka_unit_test(defaults_fill_the_rest),
        cmocka_unit_test(truth_values_are_also_on_and_off),
        cmocka_unit_test(overrides_are_applied_before_checking),
        cmocka_unit_test(mistakes_are_named_with_line_key_and_what_is_allowed),
        cmocka_unit_test(packages_are_a_file_of_the_context_and_a_program),
        cmocka_unit_test(all_problems_of_a_file_are_told_at_once),
        cmocka_unit_test(many_problems_are_told_up_to_a_bound),
        cmocka_unit_test(large_files_are_refused_in_time),
        cmocka_unit_test(a_billion_laughs_are_refused),
        cmocka_unit_test(aliases_and_merge_keys_stand_for_what_they_name),
        cmocka_unit_test(ranges_have_steps_and_logarithms),
        cmocka_unit_test(conditions_make_hyperparameters_absent),
        cmocka_unit_test(own_values_are_those_of_the_first_trials),
        cmocka_unit_test(a_sampler_belongs_to_the_space),
        cmocka_unit_test(a_map_that_cannot_be_a_search_is_a_value),
        cmocka_unit_test(what_is_too_large_for_a_record_goes_beside_it),
        cmocka_unit_test(packed_configurations_read_back),
        cmocka_unit_test(records_say_balance_only_where_it_is_on),
        cmocka_unit_test(changed_records_never_give_values_out_of_bounds),
        cmocka_unit_test(changed_files_are_refused_with_sentences),
        cmocka_unit_test(a_single_trial_may_begin_from_a_checkpoint),
        cmocka_unit_test(a_start_is_a_time_here_or_of_utc_or_some_time_from_now),
        cmocka_unit_test(constraints_are_lines_of_the_record),
        cmocka_unit_test(the_names_that_it_depends_on_are_kept_for_the_daemon),
        cmocka_unit_test(every_option_is_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
