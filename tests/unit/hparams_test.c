/* Hyperparameters as variables and placeholders: which names and words programs get, also through real shells. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/config/hparams.h"

static uint8_t scratch[CONFIG_SCRATCH_BYTES];
static char error_text[CONFIG_ERROR_BYTES];
static uint8_t value_bytes[SEARCH_VALUES_BYTES_MAX];

/* Parses hyperparameters and an entrypoint, each in YAML on one line. */
static int parse(const char *entrypoint, const char *hyperparameters, struct config *out)
{
    char text[4096];
    (void)snprintf(text, sizeof text, "entrypoint: %s\nhyperparameters: %s\n", entrypoint, hyperparameters);
    return config_parse_yaml("exp.yaml", text, strlen(text), NULL, 0, scratch, sizeof scratch, out, error_text);
}

static struct pack_reader values_of(const struct config *config)
{
    struct search_space space = config_search_space(config);
    struct pack_writer writer;
    struct pack_reader reader;
    pack_writer_init(&writer, value_bytes, sizeof value_bytes);
    assert_int_equal(search_trial_values(&space, 1, 0, &writer), 0);
    pack_reader_init(&reader, value_bytes, writer.used_bytes);
    return reader;
}

static void variable_append(void *context, const char *variable, struct pack_reader value)
{
    char *out = context, *text = hparams_text(value);
    (void)sprintf(out + strlen(out), "%s=%s;", variable, text);
    free(text);
}

static void variables_have_flat_capital_names_and_plain_texts(void **state)
{
    (void)state;
    struct config config;
    char out[2048] = "";
    int result = parse("x",
                       "{lr: 0.5, opt: {beta-1: 0.9, Name: \"adam w\"}, on: true, list: [1, \"b\"], none: {type: const, val: null}, "
                       "model: {type: const, val: {type: ResNet, depth: 50, empty: {}}}}",
                       &config);
    assert_string_equal(error_text, "");
    assert_int_equal(result, 0);
    assert_int_equal(hparams_variables(values_of(&config), variable_append, out), 0);
    assert_string_equal(out, "SHOAL_HP_LR=0.5;SHOAL_HP_OPT__BETA_1=0.9;SHOAL_HP_OPT__NAME=adam w;SHOAL_HP_ON=true;"
                             "SHOAL_HP_LIST=[1, \"b\"];SHOAL_HP_NONE=null;SHOAL_HP_MODEL__TYPE=ResNet;SHOAL_HP_MODEL__DEPTH=50;"
                             "SHOAL_HP_MODEL__EMPTY={};");
}

static void two_hyperparameters_with_one_variable_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *hyperparameters, *says; /* NULL: taken */
    } cases[] = {
        {"{lr: 1, LR: 2}", "the hyperparameters lr and LR both give the variable SHOAL_HP_LR; rename one of them"},
        {"{a: {b: 1}, a__b: 2}", "the hyperparameters a and a__b both give the variable SHOAL_HP_A__B"},
        {"{a: {type: categorical, vals: [{b: 1}, 3]}, a__b: 2}", "a and a__b both give the variable SHOAL_HP_A__B"},
        {"{m: {type: const, val: {x-y: 1, x_y: 2}}}", "two keys in the value of hyperparameter m give"},
        {"{a: {type: categorical, vals: [{b: 1}, {b: 2}, 3]}}", NULL},
        {"{a_b: 1, a: {b: 1}}", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config config;
        int result = parse("x", cases[i].hyperparameters, &config);
        print_message("%s\n", cases[i].hyperparameters);
        assert_int_equal(result, cases[i].says != NULL ? ERR_MALFORMED : 0);
        assert_true(cases[i].says == NULL || strstr(error_text, cases[i].says) != NULL);
    }
}

static void placeholders_that_cannot_be_filled_are_refused(void **state)
{
    (void)state;
    static const char *const hyperparameters = "{lr: {type: log, minval: -3, maxval: -1}, opt: {name: sgd, prompt: \"it's $x\"}, "
                                               "pick: {type: categorical, vals: [{a: 1}, {b: 2}]}, "
                                               "decay: {type: double, minval: 0, maxval: 1, when: {pick: {a: 1}}}, "
                                               "part: {rate: {type: double, minval: 0, maxval: 1, when: {pick: {a: 1}}}}}";
    static const struct {
        const char *entrypoint, *says;
    } cases[] = {
        {"'t {{hp.lr}} ${{ hp.lr }} \"{{hp.lr}}\" {{hp.opt.name}} {{hp.opt.prompt}} {{hp.opt}} {{hp.pick}}'", NULL},
        {"'t {{hp.rate}}'", "{{hp.rate}}, and there is no such hyperparameter; hyperparameters of nested maps"},
        {"'t {{hp.lrr}}'", "{{hp.lrr}}, and there is no such hyperparameter; did you mean {{hp.lr}}?"},
        {"'t {{hp.rate}} {{hp.'", "{{hp.rate}}, and there is no such"}, /* and both are told */
        {"'t {{hp.rate}} {{hp.'", "'{{hp.', which begins a placeholder and is not closed"},
        {"'t {{hp.lr.x}}'", "{{hp.lr.x}}, and not every trial has it"},
        {"'t {{hp.pick.a}}'", "{{hp.pick.a}}, and not every trial has it"},
        {"'t $${{hp.lr}}'", "several $ before {{hp.lr}}"},
        {"'t {{hp.decay}}'", "{{hp.decay}}, and trials that do not meet its conditions (when) lack it; let the program read the variable"},
        {"'t {{hp.part}}'", "{{hp.part}}, and trials that do not meet its conditions"},
        {"'t {{hp.lr'", "'{{hp.lr', which begins a placeholder and is not closed"},
        {"'t {{hp.}}'", "'{{hp.}}', which begins a placeholder"},
        {"'t \"{{hp.opt.prompt}}\"'", "{{hp.opt.prompt}} in quotes"},
        {"'t ''say {{hp.opt.prompt}}'''", "{{hp.opt.prompt}} in quotes"},
        {"'t `u` {{hp.opt.prompt}}'", "behind a backquote"},
        {"'t \"$(u \"v\")\" {{hp.opt.prompt}}'", "{{hp.opt.prompt}} in quotes"},
        {"[t, \"--a={{hp.opt.prompt}}\"]", NULL},
        {"[t, \"say {{hp.opt.prompt}}\"]", "{{hp.opt.prompt}} in quotes"},
        {"'docker inspect -f \"{{.Id}}\" {{x}} {{ hpx }}'", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config config;
        int result = parse(cases[i].entrypoint, hyperparameters, &config);
        print_message("%s: %s\n", cases[i].entrypoint, error_text);
        assert_int_equal(result, cases[i].says != NULL ? ERR_MALFORMED : 0);
        assert_true(cases[i].says == NULL || strstr(error_text, cases[i].says) != NULL);
    }
}

/* What the command writes in a shell. */
static const char *run(const char *shell, const char *command)
{
    static char out[1024];
    char quoted[2048];
    size_t used = (size_t)snprintf(quoted, sizeof quoted, "%s -c '", shell);
    for (const char *at = command; *at != '\0'; at++) {
        used += (size_t)snprintf(quoted + used, sizeof quoted - used, *at == '\'' ? "'\\''" : "%c", *at);
    }
    (void)snprintf(quoted + used, sizeof quoted - used, "'");
    FILE *pipe = popen(quoted, "r");
    assert_non_null(pipe);
    out[fread(out, 1, sizeof out - 1, pipe)] = '\0';
    assert_int_equal(pclose(pipe), 0);
    return out;
}

static void a_value_is_one_word_in_every_shell(void **state)
{
    (void)state;
    static const char *const values[] = {"0.001",   "a b",          "it's",   "$HOME",        "`id`", "$(id)", "a\nb", "\\n \\",
                                         "\"quoted", "* ? [a] {b,c}", "# not",  "a;b|c&d<e>f", "",     "-n",    "~",    "!x"};
    static const char *const entrypoints[] = {
        "printf %s {{hp.v}}", "printf %s ${{hp.v}}", "x={{ hp.v }}; printf %s \"$x\"", "printf %s%s '' {{hp.v}} # don't",
        "# it's a comment\nprintf %s {{hp.v}}", "printf '%s' \"${NONE}\"{{hp.v}}", "printf \"%s\" \\'{{hp.v}}",
    };
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        uint8_t bytes[256];
        struct pack_writer writer;
        struct pack_reader reader;
        pack_writer_init(&writer, bytes, sizeof bytes);
        pack_map(&writer, 1);
        pack_text(&writer, "v");
        pack_text(&writer, values[v]);
        pack_reader_init(&reader, bytes, writer.used_bytes);
        for (size_t e = 0; e < sizeof entrypoints / sizeof *entrypoints; e++) {
            char *command = hparams_fill(entrypoints[e], reader), expected[64];
            assert_non_null(command);
            (void)snprintf(expected, sizeof expected, "%s%s", strstr(entrypoints[e], "\\'") != NULL ? "'" : "", values[v]);
            assert_string_equal(run("sh", command), expected);
            if (access("/bin/bash", X_OK) == 0) {
                assert_string_equal(run("bash", command), expected);
            }
            free(command);
        }
    }
}

static void what_is_no_placeholder_stays_as_it_is(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "t", "t {{.Id}} ${x} $y {{ z }}", "{{hp.", "{{hp.gone}} $", "\\{{hp.v}}",
                                        "$${{hp.v}}", "t '{{hp.q}}'", "{{hp.v", "t \\"};
    uint8_t bytes[64];
    struct pack_writer writer;
    struct pack_reader reader;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 2);
    pack_text(&writer, "v");
    pack_u64(&writer, 7);
    pack_text(&writer, "q");
    pack_text(&writer, "a b");
    pack_reader_init(&reader, bytes, writer.used_bytes);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *out = hparams_fill(texts[i], reader);
        assert_string_equal(out, texts[i]);
        free(out);
    }
    char *out = hparams_fill("a{{hp.v}}b '{{hp.v}}' \"${{hp.v}}\"", reader);
    assert_string_equal(out, "a7b '7' \"7\"");
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_have_flat_capital_names_and_plain_texts),
        cmocka_unit_test(two_hyperparameters_with_one_variable_are_refused),
        cmocka_unit_test(placeholders_that_cannot_be_filled_are_refused),
        cmocka_unit_test(a_value_is_one_word_in_every_shell),
        cmocka_unit_test(what_is_no_placeholder_stays_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
