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
    struct event_about about;
    char text[600];
};

static void hear(void *context, const struct journal_event *event)
{
    struct heard *heard = context;
    heard->first = heard->count++ == 0 ? event->seq : heard->first;
    heard->last = event->seq;
    heard->wall_ms = event->wall_ms;
    heard->about = event->about;
    (void)snprintf(heard->text, sizeof heard->text, "%s", event->text);
}

static void append(struct journal *journal, uint64_t seq, uint64_t wall_ms, const char *text)
{
    journal_append(journal, &(struct journal_event){seq, wall_ms, event_of_kind(EVENT_OTHER), text});
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
    append(&journal, 1, 1000, "one");
    append(&journal, 2, 2000, "two\nin\x1b two");
    journal_close(&journal);
    journal_open(&journal, dir, 3000);
    append(&journal, 3, 3000, "");
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
        append(&journal, i, i, text);
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
    append(&journal, 9, 9, "after");
    struct heard heard = read_from(&journal, (struct journal_place){0}, JOURNAL_LINE_BYTES_MAX);
    assert_int_equal(heard.first, 8);
    assert_int_equal(heard.last, 9);
    assert_int_equal(heard.count, 2);
    assert_string_equal(heard.text, "after");
    journal_close(&journal);
    journal = (struct journal){0};
    append(&journal, 1, 1, "no journal");
    assert_false(journal_read(&journal, &(struct journal_place){0}, 4096, hear, &heard));
}

static struct event_about kept(struct event_about about)
{
    struct journal journal;
    journal_open(&journal, dir, 1000);
    journal_append(&journal, &(struct journal_event){5, 1000, about, "a sentence, with=signs"});
    struct heard heard = read_from(&journal, (struct journal_place){0}, 4096);
    assert_string_equal(heard.text, "a sentence, with=signs");
    journal_close(&journal);
    return heard.about;
}

static void what_an_event_is_about_outlives_a_restart(void **state)
{
    (void)state;
    const attempt_id attempt = {.experiment = {{1, 2, 3, 4, 5, 6, 7, 8}}, .trial = 4000000000u, .number = 7};
    const node_id node = {{0xff, [15] = 1}};
    struct event_about about = event_of_worker(EVENT_WORKER_ENDED, &attempt, 63);
    about.node = node;
    struct event_about read = kept(about);
    assert_int_equal(read.kind, EVENT_WORKER_ENDED);
    assert_true(experiment_id_equal(read.experiment, attempt.experiment) && node_id_equal(read.node, node));
    assert_true(read.has_trial && read.trial == attempt.trial && read.attempt == 7 && read.has_slot && read.slot == 63);
    read = kept(event_of_trial(EVENT_TRIAL_STOPPED, attempt.experiment, 0));
    assert_true(read.has_trial && read.trial == 0 && read.attempt == 0 && !read.has_slot && node_id_is_none(read.node));
    for (enum event_kind kind = EVENT_OTHER; kind < EVENT_KIND_COUNT; kind++) {
        assert_int_equal(kept(event_of_kind(kind)).kind, kind);
        assert_int_equal(event_kind_of(event_kind_name(kind), strlen(event_kind_name(kind))), kind);
    }
}

static void lines_of_other_versions_are_read(void **state)
{
    (void)state;
    static const char *const lines[] = {"1 1 an earlier one", "2 2 @node.to_come,n=00,z=1,t=x,t=3 a later one", "3 3 @", "4 4 @x",
                                        "5 5 @slot.free,s=4294967296,e=1, text"};
    static const char *const texts[] = {"an earlier one", "a later one", "@", "@x", "text"};
    char path[128];
    (void)snprintf(path, sizeof path, "%s/events", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/events/1", dir);
        FILE *file = fopen(path, "w");
        (void)fprintf(file, "%s\n", lines[i]);
        (void)fclose(file);
        struct journal journal;
        journal_open(&journal, dir, 1000);
        struct heard heard = read_from(&journal, (struct journal_place){0}, 4096);
        assert_int_equal(heard.last, i + 1);
        assert_string_equal(heard.text, texts[i]);
        assert_int_equal(heard.about.kind, i == 4 ? EVENT_SLOT_FREE : EVENT_OTHER);
        assert_true(heard.about.has_trial == (i == 1) && !heard.about.has_slot);
        journal_close(&journal);
    }
}

static void a_number_that_was_given_is_remembered(void **state)
{
    (void)state;
    char path[128];
    struct journal journal;
    journal_open(&journal, dir, 1000);
    assert_int_equal(journal.next, 0);
    journal_reserve(&journal, 1025, true);
    journal_close(&journal);
    journal_open(&journal, dir, 1000);
    assert_int_equal(journal.next, 1025);
    journal_reserve(&journal, 52, false);
    journal_close(&journal);
    journal_open(&journal, dir, 1000);
    assert_int_equal(journal.next, 52);
    journal_close(&journal);
    (void)snprintf(path, sizeof path, "%s/events/next", dir);
    FILE *file = fopen(path, "w");
    (void)fputs("damaged", file);
    (void)fclose(file);
    journal_open(&journal, dir, 1000);
    assert_int_equal(journal.next, 0);
    journal_close(&journal);
}

static void an_event_is_found_by_its_number(void **state)
{
    (void)state;
    struct journal journal;
    uint64_t oldest = 1;
    journal_open(&journal, dir, 1000);
    (void)journal_find(&journal, 3, &oldest);
    assert_int_equal(oldest, 0);
    for (uint64_t i = 10; i < 20000; i++) {
        append(&journal, i, i, "a text that is long enough for files to become full of it, one after the other, soon enough");
    }
    for (uint64_t seq = 1; seq < 20100; seq += 99) {
        struct heard heard = read_from(&journal, journal_find(&journal, seq, &oldest), 65536);
        assert_int_equal(oldest, 10);
        assert_true(heard.count > 0 && heard.last == 19999 && (heard.first <= seq || heard.first == 10));
        assert_true(heard.count <= 20000 - 10 && (seq < 15000 || heard.count < 12000));
    }
    for (uint64_t bytes = 1; bytes < 2000; bytes += 7) { /* never from within a line */
        struct heard heard = read_from(&journal, journal_near_end(&journal, bytes), 4096);
        assert_int_equal(heard.count, heard.count == 0 ? 0 : 19999 - heard.first + 1);
        assert_true(heard.count <= bytes / 100 + 1);
    }
    journal_close(&journal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_outlive_a_restart, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(the_journal_is_bounded_and_read_in_pieces, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(damage_harms_no_other_line, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(what_an_event_is_about_outlives_a_restart, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(lines_of_other_versions_are_read, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_number_that_was_given_is_remembered, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(an_event_is_found_by_its_number, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
