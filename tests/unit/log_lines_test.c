/* What workers print, cut into lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "tools/shoal/log_lines.h"
#include "tools/shoal/log_prefix.h"

static char said[4096];
static size_t longest, cuts, lines_out, bytes_out;

static void say(void *context, const struct log_line *line)
{
    (void)context;
    size_t used = strlen(said);
    (void)snprintf(said + used, sizeof said - used, "%d%s%.*s%s", (int)line->source->rank, line->is_state ? "~" : ":",
                   line->bytes < 64 ? (int)line->bytes : 64, line->text, line->is_cut ? "+;" : ";");
    longest = line->bytes > longest ? line->bytes : longest;
    cuts += line->is_cut;
    lines_out++;
    bytes_out += line->bytes;
    assert_int_equal(bytes_whole_utf8(line->text, line->bytes), line->bytes);
}

static struct log_lines begin(bool follows)
{
    said[0] = '\0';
    longest = cuts = lines_out = bytes_out = 0;
    return (struct log_lines){.out = say, .follows = follows};
}

static void take(struct log_lines *lines, uint64_t rank, const char *text)
{
    const struct log_source source = {.attempt = 1, .rank = rank};
    assert_true(log_lines_take(lines, &source, text, strlen(text)));
}

static void finish(struct log_lines *lines)
{
    log_lines_end(lines);
    log_lines_close(lines);
}

static void lines_of_several_ranks_do_not_mix(void **state)
{
    (void)state;
    struct log_lines lines = begin(false);
    take(&lines, 300, "b1");
    take(&lines, 0, "a1\na");
    take(&lines, 300, "\n");
    take(&lines, 0, "2");
    const struct log_source next = {.attempt = 2};
    assert_true(log_lines_take(&lines, &next, "next\n", 5)); /* another attempt ends the line before */
    finish(&lines);
    assert_string_equal(said, "0:a1;300:b1;0:a2;0:next;");
}

static void a_bar_is_its_last_state(void **state)
{
    (void)state;
    struct log_lines lines = begin(false);
    take(&lines, 0, "\r 1%");
    take(&lines, 0, "\r 2%\r100%\n");
    take(&lines, 0, "dos\r\n\rnext\r");
    finish(&lines);
    assert_string_equal(said, "0:100%;0:dos;0:next;");
}

static void a_follower_sees_each_state(void **state)
{
    (void)state;
    struct log_lines lines = begin(true);
    take(&lines, 0, "unfinished ");
    take(&lines, 0, "line\n\r 1%");
    take(&lines, 0, "\r");
    take(&lines, 0, " 2%\r 3%");
    take(&lines, 0, "\r100%\n");
    finish(&lines);
    assert_string_equal(said, "0:unfinished line;0~ 1%;0~ 3%;0:100%;");
}

static void a_line_may_be_a_mebibyte_long(void **state)
{
    (void)state;
    enum { CHARACTERS = 700000 }; /* of three bytes each: two cuts, neither at a multiple of three */
    char *text = malloc(3 * CHARACTERS);
    assert_non_null(text);
    for (size_t i = 0; i < CHARACTERS; i++) {
        memcpy(text + 3 * i, "\xe2\x82\xac", 3);
    }
    struct log_lines lines = begin(false);
    for (size_t at = 0; at < 3 * CHARACTERS;) {
        size_t part = 3 * CHARACTERS - at < 48 * 1024 ? 3 * CHARACTERS - at : 48 * 1024;
        const struct log_source source = {.attempt = 1};
        assert_true(log_lines_take(&lines, &source, text + at, part));
        at += part;
    }
    finish(&lines);
    assert_true(longest <= LOG_LINE_BYTES_MAX && longest > LOG_LINE_BYTES_MAX - 4);
    assert_int_equal(cuts, 2);
    assert_int_equal(lines_out, 3);
    assert_int_equal(bytes_out, 3 * CHARACTERS);
    free(text);
}

static void raw_lines_are_as_they_came_and_do_not_mix(void **state)
{
    (void)state;
    struct log_lines lines = begin(true);
    lines.is_raw = true;
    take(&lines, 0, "one\r\ntw");
    take(&lines, 1, "other\n 1%\r 2%");
    take(&lines, 0, "o\n");
    take(&lines, 1, "\r");
    take(&lines, 0, "unended");
    finish(&lines);
    assert_string_equal(said, "0:one\r\n;1:other\n 1%\r;0:two\n;1: 2%\r;0:unended;");
}

static void a_prefix_is_made_of_a_template(void **state)
{
    (void)state;
    const struct log_source source = {.attempt = 3, .rank = 12, .local_rank = 4, .host = "elm~3f2a"};
    static const struct {
        const char *template, *prefix;
    } rows[] = {
        {LOG_PREFIX_STANDARD, "[rank=12] "},
        {"[${role_name}${local_rank}]:", "[default4]:"}, /* torchrun's own */
        {"${host}/${attempt}|", "elm~3f2a/3|"},
        {"$rank $ {rank} $$ ${", "$rank $ {rank} $$ ${"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char out[LOG_PREFIX_BYTES_MAX];
        size_t bytes;
        assert_null(log_prefix_unknown(rows[i].template, &bytes));
        assert_int_equal(log_prefix_write(rows[i].template, &source, out), strlen(rows[i].prefix));
        assert_memory_equal(out, rows[i].prefix, strlen(rows[i].prefix));
    }
    size_t bytes;
    assert_string_equal(log_prefix_unknown("${rank} ${ranks}", &bytes), "${ranks}");
    assert_int_equal(bytes, 8);
    assert_string_equal(log_prefix_unknown("${}${rank}", &bytes), "${}${rank}");
    assert_int_equal(bytes, 3);
    char wide[3000], out[LOG_PREFIX_BYTES_MAX];
    for (size_t i = 0; i + 7 < sizeof wide; i += 7) {
        memcpy(wide + i, "${host}", 8);
    }
    assert_true(log_prefix_write(wide, &source, out) <= LOG_PREFIX_BYTES_MAX);
}

static void bytes_that_are_no_text_pass(void **state)
{
    (void)state;
    assert_int_equal(bytes_whole_utf8("\xff\xff", 2), 2);
    assert_int_equal(bytes_whole_utf8("a\xe2\x82", 3), 1);
    assert_int_equal(bytes_whole_utf8("\xf0\x9f\x98", 3), 0);
    assert_int_equal(bytes_whole_utf8("\xf0\x9f\x98\x80", 4), 4);
    assert_int_equal(bytes_whole_utf8("\x80\x80\x80\x80", 4), 4);
    assert_int_equal(bytes_whole_utf8("", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_several_ranks_do_not_mix), cmocka_unit_test(a_bar_is_its_last_state),
        cmocka_unit_test(a_follower_sees_each_state),        cmocka_unit_test(a_line_may_be_a_mebibyte_long),
        cmocka_unit_test(bytes_that_are_no_text_pass),       cmocka_unit_test(raw_lines_are_as_they_came_and_do_not_mix),
        cmocka_unit_test(a_prefix_is_made_of_a_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
