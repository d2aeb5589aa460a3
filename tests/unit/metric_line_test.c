/* Metrics in a program's output: what is one, and what is only a line of the log. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/daemon/wire/metric_line.h"

/* Feeds the text in pieces of `piece` bytes; returns the number of metrics, the last of them in `*out`. */
static uint32_t feed(const char *text, size_t piece, struct request_report *out, double *value)
{
    struct metric_lines lines = {.used = 0};
    uint8_t packed[METRIC_LINE_BYTES];
    uint32_t count = 0;
    for (size_t from = 0; from < strlen(text); from += piece) {
        size_t bytes = strlen(text) - from < piece ? strlen(text) - from : piece, at = 0;
        while (metric_lines_next(&lines, (const uint8_t *)text + from, bytes, &at, 7, packed, out)) {
            struct pack_reader reader = out->metrics;
            char name[REQUEST_METRIC_BYTES];
            assert_true(pack_read_map(&reader) > 0);
            pack_read_text_copy(&reader, name, sizeof name);
            *value = pack_read_double(&reader);
            count++;
        }
    }
    return count;
}

static void a_line_is_a_metric_however_it_is_cut(void **state)
{
    (void)state;
    static const char text[] = "hello\n::shoal metric validation accuracy=0.91 loss=1e-3 step=120\r\nbye\n";
    for (size_t piece = 1; piece < sizeof text; piece++) {
        struct request_report report;
        double value = 0;
        assert_int_equal(feed(text, piece, &report, &value), 1);
        assert_string_equal(report.group, "validation");
        assert_int_equal(report.step, 120);
        assert_true(value == 0.91);
    }
}

static void a_line_without_a_step_has_the_last_one(void **state)
{
    (void)state;
    struct request_report report;
    double value = 0;
    assert_int_equal(feed("::shoal metric  training \t loss=nan\n", 100, &report, &value), 1);
    assert_int_equal(report.step, 7);
    assert_true(isnan(value));
}

static void other_lines_are_lines_of_the_log(void **state)
{
    (void)state;
    static const char *const lines[] = {"::shoal metric validation", "::shoal metric", "::shoal metric  ", ":shoal metric v a=1",
                                        "::shoal metric v a", "::shoal metric v a=", "::shoal metric v =1", "::shoal metric v a=1x",
                                        "::shoal metric v a=0x10", "::shoal metric v a=1 step=-1", "::shoal metric v a=1 step=",
                                        "::shoal metric v a=1 step=99999999999999999999", "::shoal metric a=1", "::shoal metrics v a=1",
                                        "::shoal metric v step=3", "::shoal metric v a=1 b"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char text[200];
        struct request_report report;
        double value;
        strcpy(text, lines[i]);
        strcat(text, "\n::shoal metric v a=5\n");
        assert_int_equal(feed(text, 13, &report, &value), 1);
        assert_true(value == 5);
    }
    struct metric_lines all = {.used = 0};
    uint8_t packed[METRIC_LINE_BYTES], byte = 'x';
    struct request_report report;
    const char *beginning = "::shoal metric v a=1 ";
    size_t at = 0;
    assert_false(metric_lines_next(&all, (const uint8_t *)beginning, strlen(beginning), &at, 0, packed, &report));
    for (int i = 0; i < 10000; i++) {
        at = 0;
        assert_false(metric_lines_next(&all, &byte, 1, &at, 0, packed, &report));
    }
    at = 0;
    byte = '\n';
    assert_false(metric_lines_next(&all, &byte, 1, &at, 0, packed, &report)); /* longer than any metric */
}

static void a_progress_bar_before_a_metric_does_no_harm(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "\r4/20 [####    ]::shoal metric v a=3 step=4\n", "\r::shoal metric v a=3 step=4\n", "a::shoal metric v a=3 step=4\r5/20 [#",
        "x:::shoal metric v a=3 step=4\n", "::shoal metric v a=::shoal metric v a=3 step=4\n", "::shoal ::shoal metric v a=3 step=4\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        for (size_t piece = 1; piece < 60; piece += 7) {
            struct request_report report;
            double value = 0;
            assert_int_equal(feed(texts[i], piece, &report, &value), 1);
            assert_int_equal(report.step, 4);
            assert_true(value == 3);
        }
    }
}

static void the_first_malformed_line_is_kept(void **state)
{
    (void)state;
    static const char text[] = "::shoal metric v a=1\n::shoal metric v a=oops step=2\n::shoal metric\n::shoal metric v\n";
    struct metric_lines lines = {.used = 0};
    uint8_t packed[METRIC_LINE_BYTES];
    struct request_report report;
    size_t at = 0;
    assert_true(metric_lines_next(&lines, (const uint8_t *)text, strlen(text), &at, 0, packed, &report));
    assert_false(lines.is_malformed);
    assert_false(metric_lines_next(&lines, (const uint8_t *)text, strlen(text), &at, 0, packed, &report));
    assert_true(lines.is_malformed);
    assert_string_equal(lines.malformed, "::shoal metric v a=oops step=2");
}

/* A program that writes escape sequences there must not draw on the terminal of the person who reads the event. */
static void a_malformed_line_is_kept_with_its_control_characters_visible(void **state)
{
    (void)state;
    static const struct {
        const char *line, *kept;
    } rows[] = {
        {"::shoal metric v a=\033[2J\a step=2\n", "::shoal metric v a=\\x1b[2J\\x07 step=2"},
        {"::shoal metric v\ta=x\r", "::shoal metric v\\ta=x"},
        {"::shoal metric v a=\xc2\x9b" "1m \xff\n", "::shoal metric v a=\\xc2\\x9b1m \\xff"}, /* CSI in one character */
        {"::shoal metric v \xc3\xa9=x\n", "::shoal metric v \xc3\xa9=x"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct metric_lines lines = {.used = 0};
        uint8_t packed[METRIC_LINE_BYTES];
        struct request_report report;
        size_t at = 0;
        assert_false(metric_lines_next(&lines, (const uint8_t *)rows[i].line, strlen(rows[i].line), &at, 0, packed, &report));
        assert_string_equal(lines.malformed, rows[i].kept);
    }
}

static void a_long_malformed_line_is_cut_between_characters(void **state)
{
    (void)state;
    static const struct {
        const char *repeated;
        size_t times; /* behind "::shoal metric v " */
    } rows[] = {{"a", 97}, {"\a", 300}}; /* the last of 100 bytes is the first half of a character; escapes are longer than bytes */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[400] = "::shoal metric v ";
        struct metric_lines lines = {.used = 0};
        uint8_t packed[METRIC_LINE_BYTES];
        struct request_report report;
        size_t at = 0, used = strlen(text);
        memset(text + used, rows[i].repeated[0], rows[i].times);
        strcpy(text + used + rows[i].times, "\xc3\xa9\n");
        assert_false(metric_lines_next(&lines, (const uint8_t *)text, strlen(text), &at, 0, packed, &report));
        assert_true(strlen(lines.malformed) < sizeof lines.malformed);
        assert_null(strchr(lines.malformed, '\a'));
        assert_null(strstr(lines.malformed, "\\xc3"));
        assert_null(strchr(lines.malformed, '\xc3'));
        assert_non_null(strstr(lines.malformed, i == 0 ? "v aaaa" : "v \\x07\\x07"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_a_metric_however_it_is_cut),
        cmocka_unit_test(a_line_without_a_step_has_the_last_one),
        cmocka_unit_test(other_lines_are_lines_of_the_log),
        cmocka_unit_test(a_progress_bar_before_a_metric_does_no_harm),
        cmocka_unit_test(the_first_malformed_line_is_kept),
        cmocka_unit_test(a_malformed_line_is_kept_with_its_control_characters_visible),
        cmocka_unit_test(a_long_malformed_line_is_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
