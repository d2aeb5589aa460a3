/* The words of the command line, and how text and tables are laid out: no daemon is asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "tests/unit/cli_fixture.h"
#include "tools/shoal/cli.h"
#include "tools/shoal/render.h"

/* ---- words of the command line ----------------------------------------------------------------------------------- */

static void usage_errors_name_the_nearest_word(void **state)
{
    (void)state;
    assert_int_equal(RUN("sttus"), CLI_USAGE);
    assert_sentence("did you mean status");
    assert_int_equal(RUN("ls", "--jsno"), CLI_USAGE);
    assert_sentence("did you mean --json");
    assert_int_equal(RUN("submit", "--contxt=x", "f"), CLI_USAGE);
    assert_sentence("did you mean --context");
    assert_int_equal(RUN("checkpoint", "gte", "x"), CLI_USAGE);
    assert_sentence("did you mean checkpoint get");
    assert_int_equal(RUN("chekpoint", "ls", "x"), CLI_USAGE);
    assert_sentence("did you mean checkpoint;");
    assert_int_equal(RUN("ls", "--qqqqqqq"), CLI_USAGE);
    assert_lacks(err_text_written, "did you mean");
    assert_int_equal(RUN("foo"), CLI_USAGE); /* has one letter of top */
    assert_lacks(err_text_written, "did you mean");
    assert_int_equal(RUN("show"), CLI_USAGE);
    assert_sentence("shoal show EXP");
    assert_int_equal(RUN("show", "a", "b"), CLI_USAGE);
    assert_sentence("'b' is one argument too many; usage: shoal show EXP[/TRIAL]\n");
    assert_int_equal(RUN("init", "b"), CLI_USAGE);
    assert_sentence("'b' is one argument too many; usage: shoal init\n");
    char *many[OPERANDS_MAX + 4] = {"shoal", "delete"};
    for (size_t i = 2; i < OPERANDS_MAX + 3; i++) {
        many[i] = "x";
    }
    assert_int_equal(run_words(many), CLI_USAGE);
    assert_sentence("'x' is one argument too many; at most 64 can be given");
    assert_int_equal(RUN("wait", "x", "--timeout"), CLI_USAGE);
    assert_sentence("--timeout TIME");
    assert_int_equal(RUN("ls", "--json=1"), CLI_USAGE);
    assert_int_equal(RUN("wait", "x", "--timeout", "soon"), CLI_USAGE);
    assert_int_equal(RUN("stop", "x"), CLI_USAGE);
    assert_sentence("EXP/TRIAL");
    assert_int_equal(RUN("logs", "0245/-1"), CLI_USAGE);
    assert_sentence("'0245/-1' does not say which trial; write EXP/TRIAL, for example 0245/0\n");
    assert_int_equal(RUN("checkpoint", "get", "x@700", "d"), CLI_USAGE);
    assert_sentence("'x@700' does not say which trial; write EXP/TRIAL or EXP/TRIAL@STEP, for example x/0@100\n");
    assert_int_equal(RUN("logs", "/abc"), CLI_USAGE);
    assert_sentence("for example EXP/0\n");
    assert_int_equal(RUN("checkpoint", "get", "x/1@new", "d"), CLI_USAGE);
    assert_int_equal(RUN("invite", "--expires", "0"), CLI_USAGE);
    assert_int_equal(run_words((char *[]){"shoal", NULL}), CLI_USAGE);
    assert_int_equal(RUN("checkpoint"), CLI_USAGE);
}

static void every_command_explains_itself(void **state)
{
    (void)state;
    for (const struct command *command = cli_commands; command->name != NULL; command++) {
        char words[64];
        (void)snprintf(words, sizeof words, "%s", command->name);
        char *second = strchr(words, ' ');
        if (second != NULL) {
            *second++ = '\0';
        }
        char *with[] = {"shoal", words, second != NULL ? second : "--help", second != NULL ? "--help" : NULL, NULL};
        assert_int_equal(run_words(with), CLI_DONE);
        assert_has(out_text, command->name);
        assert_has(out_text, "--json");
        for (const struct option_rule *rule = command->options; rule->name != NULL; rule++) {
            assert_has(out_text, rule->name);
        }
        assert_string_equal(err_text_written, "");
    }
    assert_int_equal(RUN("--help"), CLI_DONE);
    assert_has(out_text, "checkpoint verify");
    assert_int_equal(RUN("help", "submit"), CLI_DONE);
    assert_has(out_text, "Usage: shoal submit FILE");
    assert_int_equal(RUN("--version"), CLI_DONE);
    assert_string_equal(out_text, "shoal " SHOAL_VERSION "\n");
    assert_int_equal(RUN("run", "--help"), CLI_DONE);
    assert_has(out_text, "Usage: shoal run [OPTION]... -- COMMAND...\n"); /* behind COMMAND an option would be the command's */
    assert_int_equal(RUN("exec", "--help"), CLI_DONE);
    assert_has(out_text, "Usage: shoal exec EXP/TRIAL [OPTION]... -- COMMAND...\n");
    assert_int_equal(RUN("submit", "--help-config"), CLI_DONE);
    assert_has(out_text, "searcher.max_trials");
}

static void options_stand_anywhere(void **state)
{
    (void)state;
    struct arguments arguments;
    char error[OPTIONS_ERROR_BYTES];
    char *words[] = {"shoal", "--dir", "d", "submit", "--set=a=1", "f", "--set", "b.c=2", "--follow", NULL};
    assert_int_equal(options_parse(cli_commands, 9, words, &arguments, error), 0);
    assert_string_equal(arguments.command->name, "submit");
    assert_string_equal(options_value(&arguments, "dir"), "d");
    const char *values[4];
    assert_int_equal(options_values(&arguments, "set", values, 4), 2);
    assert_string_equal(values[0], "a=1");
    assert_string_equal(values[1], "b.c=2");
    assert_true(options_has(&arguments, "follow"));
    assert_string_equal(arguments.operands[0], "f");
    char *brief[] = {"shoal", "logs", "-f", "x", NULL};
    assert_int_equal(options_parse(cli_commands, 4, brief, &arguments, error), 0);
    assert_true(options_has(&arguments, "follow"));
    char *after[] = {"shoal", "submit", "--", "--follow", NULL};
    assert_int_equal(options_parse(cli_commands, 4, after, &arguments, error), 0);
    assert_string_equal(arguments.operands[0], "--follow");
    assert_false(options_has(&arguments, "follow"));
}

static void numbers_have_bounds(void **state)
{
    (void)state;
    uint64_t value = 7;
    assert_int_equal(options_number("18446744073709551615", UINT64_MAX, &value), 0);
    assert_true(value == UINT64_MAX);
    assert_int_equal(options_number("18446744073709551616", UINT64_MAX, &value), ERR_MALFORMED);
    assert_int_equal(options_number("-1", UINT64_MAX, &value), ERR_MALFORMED);
    assert_int_equal(options_number("9", 8, &value), ERR_MALFORMED);
}

/* ---- what is printed --------------------------------------------------------------------------------------------- */

static void units_are_for_people(void **state)
{
    (void)state;
    char text[RENDER_UNIT_BYTES];
    render_bytes(text, 1023);
    assert_string_equal(text, "1023 B");
    render_bytes(text, 1536);
    assert_string_equal(text, "1.5 KiB");
    render_bytes(text, 1024 * 1024 - 1);
    assert_string_equal(text, "1.0 MiB");
    render_bytes(text, UINT64_MAX);
    assert_string_equal(text, "16.0 EiB");
    render_duration(text, 3700);
    assert_string_equal(text, "1 h 1 min");
    render_number(text, 0.88125);
    assert_string_equal(text, "0.8812");
    render_number(text, 12);
    assert_string_equal(text, "12");
    assert_int_equal(render_width("\033[31mna\xc3\xafve\033[0m"), 5);
    assert_int_equal(render_fit("na\xc3\xafve", 3), 4);
}

static void tables_are_aligned_and_screens_cut(void **state)
{
    (void)state;
    struct table table = {0};
    table_column(&table, "NAME", false);
    table_column(&table, "N", true);
    table_column(&table, "LAST", false);
    const char *rows[] = {"a", "1", "x", "bcdefg", "1000", "yy"};
    for (size_t i = 0; i < 6; i++) {
        table_cell(&table, i == 0 ? RENDER_RED : RENDER_PLAIN, "%s", rows[i]);
    }
    char *text;
    size_t bytes, lines_before = 0;
    FILE *out = open_memstream(&text, &bytes);
    table_write(&table, out, false);
    (void)fclose(out);
    assert_string_equal(text, "NAME       N  LAST\na          1  x\nbcdefg  1000  yy\n");
    free(text);
    out = open_memstream(&text, &bytes);
    render_screen(out, "one long line\ntwo\nthree\n", 5, 3, &lines_before);
    assert_int_equal(lines_before, 2); /* and one for the cursor */
    render_screen(out, "x\n", 5, 3, &lines_before);
    (void)fclose(out);
    assert_has(text, "\rone l\033[0m\033[K\n\rtwo\033[0m\033[K\n\033[J\033[2A\rx\033[0m\033[K\n\033[J");
    assert_lacks(text, "three");
    free(text);
}

static void long_sentences_are_parted_at_blanks(void **state)
{
    (void)state;
    static const struct {
        size_t width, lines_max;
        const char *written;
    } rows[] = {
        {0, 1, "a lion sleeps in antarctica\n"},
        {40, 1, "a lion sleeps in antarctica\n"},
        {8, 9, "a lion\nsleeps\nin\nantarcti\nca\n"},
        {8, 2, "a lion\nsleeps\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *text;
        size_t bytes;
        FILE *out = open_memstream(&text, &bytes);
        assert_non_null(out);
        render_wrapped(out, false, RENDER_YELLOW, "a lion sleeps in antarctica", rows[i].width, rows[i].lines_max);
        (void)fclose(out);
        assert_string_equal(text, rows[i].written);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(usage_errors_name_the_nearest_word, stop_what_runs),
        cmocka_unit_test_teardown(every_command_explains_itself, stop_what_runs),
        cmocka_unit_test_teardown(options_stand_anywhere, stop_what_runs),
        cmocka_unit_test_teardown(numbers_have_bounds, stop_what_runs),
        cmocka_unit_test_teardown(units_are_for_people, stop_what_runs),
        cmocka_unit_test_teardown(long_sentences_are_parted_at_blanks, stop_what_runs),
        cmocka_unit_test_teardown(tables_are_aligned_and_screens_cut, stop_what_runs),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
