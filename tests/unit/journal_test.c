/* The event lines of a node on disk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "node/daemon/ground/journal.h"

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/journal-test-XXXXXX");
    return mkdtemp(dir) == NULL;
}

static int remove_dir(void **state)
{
    (void)state;
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

struct heard {
    uint64_t count, first, last, wall_ms;
    char text[600];
};

static void hear(void *context, uint64_t seq, uint64_t wall_ms, const char *text)
{
    struct heard *heard = context;
    heard->first = heard->count++ == 0 ? seq : heard->first;
    heard->last = seq;
    heard->wall_ms = wall_ms;
    (void)snprintf(heard->text, sizeof heard->text, "%s", text);
}

static struct heard read_from(const struct journal *journal, struct journal_place place, size_t bytes_max)
{
    struct heard heard = {0};
    for (int i = 0; i < 1000000 && journal_read(journal, &place, bytes_max, hear, &heard); i++) {
    }
    return heard;
}

static void lines_outlive_a_restart(void **state)
{
    (void)state;
    struct journal journal;
    journal_open(&journal, dir, 1000);
    journal_append(&journal, 1, 1000, "one");
    journal_append(&journal, 2, 2000, "two\nin\x1b two");
    journal_close(&journal);
    journal_open(&journal, dir, 3000);
    journal_append(&journal, 3, 3000, "");
    struct heard heard = read_from(&journal, (struct journal_place){0}, JOURNAL_LINE_BYTES_MAX);
    assert_int_equal(heard.count, 3);
    assert_int_equal(heard.first, 1);
    assert_int_equal(heard.last, 3);
    assert_int_equal(heard.wall_ms, 3000);
    heard = read_from(&journal, journal_near_end(&journal, 25), 4096);
    assert_true(heard.count >= 1 && heard.count < 3);
    journal_close(&journal);
    journal_close(&journal);
}

static void the_journal_is_bounded_and_read_in_pieces(void **state)
{
    (void)state;
    struct journal journal;
    char text[401], path[128];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    journal_open(&journal, dir, 1000);
    uint64_t lines = 40ull * JOURNAL_FILE_BYTES_MAX / 400;
    for (uint64_t i = 1; i <= lines; i++) {
        journal_append(&journal, i, i, text);
    }
    struct heard heard = read_from(&journal, (struct journal_place){0}, 65536);
    assert_int_equal(heard.last, lines);
    assert_int_equal(heard.count, heard.last - heard.first + 1); /* none is missing in between */
    assert_true(heard.count > 30ull * JOURNAL_FILE_BYTES_MAX / 420 && heard.count < 33ull * JOURNAL_FILE_BYTES_MAX / 400);
    assert_string_equal(heard.text, text);
    (void)snprintf(path, sizeof path, "%s/events/1", dir);
    assert_int_equal(access(path, F_OK), -1);
    uint64_t month_later_ms = (uint64_t)time(NULL) * 1000 + (JOURNAL_DAYS + 1) * UINT64_C(86400000);
    journal_close(&journal);
    journal_open(&journal, dir, month_later_ms);
    heard = read_from(&journal, (struct journal_place){0}, 65536);
    assert_true(heard.last == lines && heard.count <= JOURNAL_FILE_BYTES_MAX / 400); /* the present file */
    journal_close(&journal);
}

static void damage_harms_no_other_line(void **state)
{
    (void)state;
    char path[128];
    static const char *const bad[] = {"7 7", "x", "", "99999999999999999999 1 huge", "0 1 zero", "8 8 good", "9 -1 y"};
    (void)snprintf(path, sizeof path, "%s/events", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/events/3", dir);
    FILE *file = fopen(path, "w");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void)fprintf(file, "%s\n", bad[i]);
    }
    for (int i = 0; i < 3000; i++) {
        (void)fputc(i % 256 == '\n' ? 1 : i % 256, file); /* no line's end for longer than a piece */
    }
    (void)fclose(file);
    (void)snprintf(path, sizeof path, "%s/events/12", dir);
    assert_int_equal(mkdir(path, 0700), 0); /* a directory in the place of the newest file */
    struct journal journal;
    journal_open(&journal, dir, 1000);
    journal_append(&journal, 9, 9, "after");
    struct heard heard = read_from(&journal, (struct journal_place){0}, JOURNAL_LINE_BYTES_MAX);
    assert_int_equal(heard.first, 8);
    assert_int_equal(heard.last, 9);
    assert_int_equal(heard.count, 2);
    assert_string_equal(heard.text, "after");
    journal_close(&journal);
    journal = (struct journal){0};
    journal_append(&journal, 1, 1, "no journal");
    assert_false(journal_read(&journal, &(struct journal_place){0}, 4096, hear, &heard));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_outlive_a_restart, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(the_journal_is_bounded_and_read_in_pieces, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(damage_harms_no_other_line, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
