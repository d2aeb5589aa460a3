/* The command lines of the simulator's programs. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/sim/command_line.h"

static struct {
    uint64_t seeds;
    double loss;
    const char *model;
    bool verbose;
    char *out, *err;
} line;

/* Reads one command line, the program's name included, separated by blanks. */
static int read_line(const char *text)
{
    static const char *const models[] = {"datagram", "stream", NULL};
    const struct command_line_option rows[] = {
        {.name = "--seeds", .value = "N", .help = "this many", .number = &line.seeds, .min = 1, .max = 100},
        {.name = "--loss", .value = "PERCENT", .help = "of packets", .real = &line.loss, .max = 90},
        {.name = "--model", .value = "NAME", .help = "of the network", .text = &line.model, .words = models},
        {.name = "--verbose", .help = "with the trace", .given = &line.verbose},
    };
    const struct command_line table = {"What it is for.\n", rows, sizeof rows / sizeof rows[0]};
    static char copy[256];
    char *arguments[16];
    int count = 0;
    (void)strncpy(copy, text, sizeof copy - 1);
    for (char *word = strtok(copy, " "); word != NULL && count < 15; word = strtok(NULL, " ")) {
        arguments[count++] = word;
    }
    arguments[count] = NULL;
    free(line.out);
    free(line.err);
    memset(&line, 0, sizeof line);
    line.seeds = 7;
    size_t out_bytes, err_bytes;
    FILE *out = open_memstream(&line.out, &out_bytes), *err = open_memstream(&line.err, &err_bytes);
    assert_non_null(out);
    assert_non_null(err);
    int status = command_line_read(&table, count, arguments, out, err);
    (void)fclose(out);
    (void)fclose(err);
    return status;
}

static int end_lines(void **state)
{
    (void)state;
    free(line.out);
    free(line.err);
    return 0;
}

static void what_is_given_is_set_and_nothing_else(void **state)
{
    (void)state;
    assert_int_equal(read_line("build/sim"), COMMAND_LINE_GO_ON);
    assert_int_equal(line.seeds, 7);
    assert_false(line.verbose);
    assert_int_equal(read_line("build/sim --verbose --seeds 0x10 --loss 2.5 --model stream"), COMMAND_LINE_GO_ON);
    assert_int_equal(line.seeds, 16);
    assert_true(line.loss > 2.4 && line.loss < 2.6);
    assert_string_equal(line.model, "stream");
    assert_true(line.verbose);
    assert_string_equal(line.out, "");
    assert_string_equal(line.err, "");
}

static void help_goes_to_the_output_and_is_a_success(void **state)
{
    (void)state;
    assert_int_equal(read_line("build/sim --verbose --help"), COMMAND_LINE_HELPED);
    assert_string_equal(line.out, "usage: sim [OPTION ...]\n"
                                  "\n"
                                  "What it is for.\n"
                                  "\n"
                                  "  --seeds N         this many (1 ... 100)\n"
                                  "  --loss PERCENT    of packets (0 ... 90)\n"
                                  "  --model NAME      of the network: datagram, stream\n"
                                  "  --verbose         with the trace\n"
                                  "  --help            this text\n");
    assert_string_equal(line.err, "");
}

static void what_cannot_be_used_is_named_in_one_sentence(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"sim --sedes 3", "sim: there is no option '--sedes'; sim --help lists them.\n"},
        {"sim 3", "sim: there is no option '3'; sim --help lists them.\n"},
        {"sim --seeds", "sim: --seeds lacks its value; allowed are whole numbers from 1 to 100.\n"},
        {"sim --seeds 0", "sim: --seeds is '0'; allowed are whole numbers from 1 to 100.\n"},
        {"sim --seeds 101", "sim: --seeds is '101'; allowed are whole numbers from 1 to 100.\n"},
        {"sim --seeds 1e9", "sim: --seeds is '1e9'; allowed are whole numbers from 1 to 100.\n"},
        {"sim --seeds -1", "sim: --seeds is '-1'; allowed are whole numbers from 1 to 100.\n"},
        {"sim --seeds 99999999999999999999", "sim: --seeds is '99999999999999999999'; allowed are whole numbers from 1 to 100.\n"},
        {"sim --loss 91", "sim: --loss is '91'; allowed are numbers from 0 to 90.\n"},
        {"sim --loss much", "sim: --loss is 'much'; allowed are numbers from 0 to 90.\n"},
        {"sim --model post", "sim: --model is 'post'; allowed are datagram, stream.\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(read_line(cases[i][0]), COMMAND_LINE_REFUSED);
        assert_string_equal(line.err, cases[i][1]);
        assert_string_equal(line.out, "");
        assert_int_equal(line.seeds, 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_given_is_set_and_nothing_else),
        cmocka_unit_test(help_goes_to_the_output_and_is_a_success),
        cmocka_unit_test(what_cannot_be_used_is_named_in_one_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, end_lines);
}
