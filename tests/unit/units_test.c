/* When a file or directory counts as at rest. The clock is the test's; what is on the disk is real. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "node/daemon/outputs/units.h"

struct place {
    char dir[64];
    int run;
    struct units units;
    struct units_moment moment;
};

static void script(const struct place *place, const char *text)
{
    char *command;
    assert_true(asprintf(&command, "cd %s && { %s; }", place->dir, text) > 0);
    assert_int_equal(system(command), 0);
    free(command);
}

/* Looks at the disk `ms` after the last look. The wall clock stands at the moment of the test: files look new to it. */
static void scan_after(struct place *place, uint64_t ms)
{
    static const char *const keep[] = {"kept", "one.log"};
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
    place->moment.now_ms += ms;
    place->moment.wall_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    assert_int_equal(units_scan(&place->units, place->run, keep, 2, &place->moment), 0);
}

static struct unit *find(struct place *place, const char *path)
{
    struct unit *unit = place->units.first;
    while (unit != NULL && strcmp(unit->path, path) != 0) {
        unit = unit->next;
    }
    return unit;
}

static bool rests(struct place *place, const char *path)
{
    struct unit *unit = find(place, path);
    return unit != NULL && units_rests(unit, place->run, &place->moment);
}

static bool is_gone(struct place *place, const char *path)
{
    return units_is_gone(&place->units, find(place, path), place->run, &place->moment);
}

static int place_make(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    snprintf(place->dir, sizeof place->dir, "/tmp/shoal-units-test-XXXXXX");
    *state = place;
    if (mkdtemp(place->dir) == NULL) {
        return -1;
    }
    script(place, "mkdir -p work/kept output checkpoint");
    place->run = open(place->dir, O_RDONLY | O_DIRECTORY);
    place->moment.now_ms = 100000;
    units_open(&place->units, place->dir, -1);
    return place->run >= 0 ? 0 : -1;
}

static int place_remove(void **state)
{
    struct place *place = *state;
    close(units_close(&place->units));
    close(place->run);
    script(place, "rm -rf ../${PWD##*/}");
    free(place);
    return 0;
}

static void a_directory_counts_once_nothing_in_it_has_changed(void **state)
{
    struct place *place = *state;
    script(place, "mkdir -p work/kept/step-1/deep; echo 1 >work/kept/step-1/deep/a; mkdir work/kept/empty");
    scan_after(place, 0);
    assert_false(rests(place, "work/kept/step-1"));
    scan_after(place, 1500);
    script(place, "echo 2 >work/kept/step-1/deep/b");
    scan_after(place, 1000);
    assert_false(rests(place, "work/kept/step-1"));
    assert_true(rests(place, "work/kept/empty"));
    scan_after(place, UNITS_REST_MS);
    assert_true(rests(place, "work/kept/step-1"));
    assert_null(find(place, "work/kept"));
}

static void a_file_that_is_open_for_writing_counts_only_after_a_long_rest(void **state)
{
    struct place *place = *state;
    script(place, "echo 1 >work/one.log; echo 1 >work/kept/closed; touch -d '1 minute ago' work/one.log work/kept/closed");
    int fd = openat(place->run, "work/one.log", O_WRONLY | O_APPEND);
    scan_after(place, 0);
    scan_after(place, UNITS_REST_MS + 1000);
    assert_false(rests(place, "work/one.log"));
    assert_true(find(place, "work/one.log")->was_open);
    assert_true(rests(place, "work/kept/closed"));
    scan_after(place, UNITS_REST_OPEN_MS);
    assert_true(rests(place, "work/one.log"));
    assert_int_equal(write(fd, "2\n", 2), 2);
    close(fd);
    scan_after(place, 1000);
    assert_false(rests(place, "work/one.log")); /* its time is now */
    scan_after(place, UNITS_REST_MS);
    assert_true(rests(place, "work/one.log"));
}

/* A script that keeps its last files for less than UNITS_REST_MS. */
static void a_closed_file_counts_soon(void **state)
{
    struct place *place = *state;
    script(place, "echo 1 >work/kept/new");
    scan_after(place, 0);
    assert_false(rests(place, "work/kept/new"));
    place->moment.wall_ns += UNITS_CLOSED_MS * 1000000ll;
    assert_true(rests(place, "work/kept/new"));
}

static void a_suspend_of_the_machine_is_no_rest(void **state)
{
    struct place *place = *state;
    script(place, "mkdir work/kept/step-1; echo 1 >work/kept/step-1/a");
    scan_after(place, 0);
    units_awake(&place->units, 3600000, place->moment.now_ms + 3600500);
    scan_after(place, 3600500);
    assert_false(rests(place, "work/kept/step-1"));
    units_awake(&place->units, 3600000, place->moment.now_ms); /* a scan was under way: nothing changes in the future */
    scan_after(place, UNITS_REST_MS);
    assert_true(rests(place, "work/kept/step-1"));
}

/* Nobody can say whether the last file was complete when its writer was killed. */
static void after_a_kill_only_what_rested_before_counts(void **state)
{
    struct place *place = *state;
    script(place, "echo 1 >work/kept/old; echo 1 >work/kept/open");
    int fd = openat(place->run, "work/kept/open", O_WRONLY);
    scan_after(place, 0);
    scan_after(place, UNITS_REST_MS + 1000);
    assert_true(rests(place, "work/kept/old"));
    assert_false(rests(place, "work/kept/open"));
    script(place, "echo 1 >work/kept/torn");
    close(fd);
    place->moment.is_end = true;
    scan_after(place, 500);
    assert_true(rests(place, "work/kept/old"));
    assert_false(rests(place, "work/kept/open"));
    assert_false(rests(place, "work/kept/torn"));
}

static void what_is_gone_is_forgotten_after_a_rest(void **state)
{
    struct place *place = *state;
    script(place, "echo 1 >work/kept/a");
    scan_after(place, 0);
    find(place, "work/kept/a")->is_stored = true;
    script(place, "rm work/kept/a");
    scan_after(place, 1000);
    assert_false(is_gone(place, "work/kept/a"));
    scan_after(place, UNITS_REST_MS);
    assert_true(is_gone(place, "work/kept/a"));
    script(place, "echo 1 >work/kept/b");
    scan_after(place, 100);
    assert_false(is_gone(place, "work/kept/a")); /* its successor does not rest yet */
    scan_after(place, UNITS_REST_MS);
    assert_true(is_gone(place, "work/kept/a"));
    find(place, "work/kept/a")->is_stored = false;
    scan_after(place, 1);
    assert_null(find(place, "work/kept/a"));
}

/* The answer for one unit holds for all that are gone from a directory, and not for other directories. */
static void what_rests_in_one_directory_replaces_nothing_in_another(void **state)
{
    struct place *place = *state;
    script(place, "echo 1 >output/a; echo 1 >output/b; echo 1 >work/kept/a");
    scan_after(place, 0);
    find(place, "output/a")->is_stored = find(place, "output/b")->is_stored = find(place, "work/kept/a")->is_stored = true;
    script(place, "rm output/a output/b work/kept/a; echo 1 >output/c");
    scan_after(place, 1000);
    scan_after(place, UNITS_REST_MS);
    script(place, "echo 1 >work/kept/b");
    scan_after(place, 100);
    assert_true(is_gone(place, "output/a"));
    assert_true(is_gone(place, "output/b"));
    assert_false(is_gone(place, "work/kept/a")); /* work/kept/b does not rest yet */
    assert_true(is_gone(place, "output/a"));
    units_changed(&place->units, find(place, "output/c"), place->moment.now_ms);
    assert_false(is_gone(place, "output/b")); /* nor does output/c any more */
}

static void a_checkpoint_counts_when_it_is_renamed_and_replaces_the_last(void **state)
{
    struct place *place = *state;
    script(place, "mkdir -p restore/step-1; echo 1 >restore/step-1/a");
    scan_after(place, 0);
    scan_after(place, UNITS_REST_MS);
    assert_true(rests(place, "checkpoint/step-1"));
    assert_string_equal(find(place, "checkpoint/step-1")->disk_path, "restore/step-1");
    script(place, "mkdir checkpoint/.part; echo 2 >checkpoint/.part/a; mv checkpoint/.part checkpoint/step-2; mkdir checkpoint/.next");
    scan_after(place, 100);
    assert_true(rests(place, "checkpoint/step-2"));
    assert_null(find(place, "checkpoint/step-1"));
    assert_false(rests(place, "checkpoint/.next"));
}

static void a_descriptor_tells_the_next_watch_nothing_of_the_last(void **state)
{
    struct place *place = *state;
    scan_after(place, 0);
    script(place, "mkdir checkpoint/.part; mv checkpoint/.part checkpoint/step-1");
    int spare_fd = units_close(&place->units);
    assert_true(spare_fd >= 0);
    units_open(&place->units, place->dir, spare_fd);
    scan_after(place, 100);
    assert_false(rests(place, "checkpoint/step-1")); /* was renamed in the time of the last watch */
    script(place, "mkdir checkpoint/.part; mv checkpoint/.part checkpoint/step-2");
    scan_after(place, 100);
    assert_true(rests(place, "checkpoint/step-2"));
}

/* Each second a scan looks at all of them. */
static void very_many_files_are_scanned_in_moments(void **state)
{
    struct place *place = *state;
    script(place, "cd work/kept; seq 30000 | xargs touch; touch ../../output/last");
    for (int i = 0; i < 3; i++) {
        scan_after(place, UNITS_REST_MS);
    }
    assert_int_equal(place->units.count, 30001);
    const struct unit *unit = place->units.first;
    for (; unit->next != NULL; unit = unit->next) {
        assert_true(strcmp(unit->path, unit->next->path) < 0);
    }
    script(place, "cd work/kept; seq 2 2 30000 | xargs rm");
    scan_after(place, UNITS_REST_MS);
    assert_int_equal(place->units.count, 15001);
    /* Processor time: about a second, and minutes if each look were to begin at the first file. */
    assert_true(clock() < 30 * CLOCKS_PER_SEC);
}

static void links_out_of_the_run_directory_are_not_followed(void **state)
{
    struct place *place = *state;
    script(place, "rmdir work/kept; ln -s /etc work/kept; rmdir output; ln -s /etc output");
    scan_after(place, 0);
    assert_non_null(find(place, "work/kept"));
    assert_null(find(place, "work/kept/passwd"));
    assert_null(find(place, "output/passwd"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_directory_counts_once_nothing_in_it_has_changed, place_make, place_remove),
        cmocka_unit_test_setup_teardown(a_file_that_is_open_for_writing_counts_only_after_a_long_rest, place_make, place_remove),
        cmocka_unit_test_setup_teardown(a_closed_file_counts_soon, place_make, place_remove),
        cmocka_unit_test_setup_teardown(a_suspend_of_the_machine_is_no_rest, place_make, place_remove),
        cmocka_unit_test_setup_teardown(after_a_kill_only_what_rested_before_counts, place_make, place_remove),
        cmocka_unit_test_setup_teardown(what_is_gone_is_forgotten_after_a_rest, place_make, place_remove),
        cmocka_unit_test_setup_teardown(what_rests_in_one_directory_replaces_nothing_in_another, place_make, place_remove),
        cmocka_unit_test_setup_teardown(a_descriptor_tells_the_next_watch_nothing_of_the_last, place_make, place_remove),
        cmocka_unit_test_setup_teardown(a_checkpoint_counts_when_it_is_renamed_and_replaces_the_last, place_make, place_remove),
        cmocka_unit_test_setup_teardown(very_many_files_are_scanned_in_moments, place_make, place_remove),
        cmocka_unit_test_setup_teardown(links_out_of_the_run_directory_are_not_followed, place_make, place_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
