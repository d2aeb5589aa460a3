/* What a worker writes is kept, and what it knows is not told. */
#include <dirent.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/err.h"
#include "tests/unit/keep_fixture.h"

/* ---- secrets ---- */

static bool file_holds(const char *path, const char *needle)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return false;
    }
    static char bytes[1 << 16];
    size_t n = fread(bytes, 1, sizeof bytes, file);
    (void)fclose(file);
    return memmem(bytes, n, needle, strlen(needle)) != NULL;
}

static void secrets_stay_out_of_command_lines_logs_and_others_reach(void **state)
{
    (void)state;
    struct run run;
    struct keep_link link;
    struct keep_event event;
    run_make(&run, "secret", "sleep 1000");
    spawn(&run, &link);
    event_wait(&link, KEEP_EVENT_STARTED, &event);
    char path[700];
    size_t looked_at = 0;
    DIR *proc = opendir("/proc");
    assert_non_null(proc);
    struct dirent *entry;
    while ((entry = readdir(proc)) != NULL) {
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9') {
            (void)snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
            assert_false(file_holds(path, token_hex));
            assert_false(file_holds(path, "planted-secret-4711"));
            looked_at += file_holds(path, "shoal-keep") ? 1 : 0;
        }
    }
    (void)closedir(proc);
    assert_true(looked_at >= 1);
    (void)snprintf(path, sizeof path, "/proc/%d/environ", event.keep_pid);
    assert_false(file_holds(path, "planted-secret-4711"));
    const char *const files[] = {"spec", "token", "log", "keep.err", "status.new", "keep.sock"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct stat info;
        (void)snprintf(path, sizeof path, "%s/%s", run.directory, files[i]);
        if (stat(path, &info) != 0) {
            assert_string_equal(files[i], "log"); /* nothing was printed */
            continue;
        }
        assert_int_equal(info.st_mode & 077, 0);
        assert_int_equal(file_holds(path, token_hex), strcmp(files[i], "token") == 0);
        assert_int_equal(file_holds(path, "planted-secret-4711"), strcmp(files[i], "spec") == 0);
    }
    assert_int_equal(keep_kill(&link, 0), 0);
    event_wait(&link, KEEP_EVENT_ENDED, &event);
}

/* ---- logs ---- */

static uint64_t disk_bytes(const char *directory)
{
    uint64_t sum = 0;
    DIR *opened = opendir(directory);
    assert_non_null(opened);
    struct dirent *entry;
    while ((entry = readdir(opened)) != NULL) {
        struct stat info;
        if (strncmp(entry->d_name, "log", 3) == 0 && fstatat(dirfd(opened), entry->d_name, &info, 0) == 0) {
            sum += (uint64_t)info.st_size;
        }
    }
    (void)closedir(opened);
    return sum;
}

/* Lines of 16 bytes, so that the bytes at each offset are known: line k is "line %010llu\n" without the u. */
static void assert_lines_at(const uint8_t *bytes, size_t count, uint64_t offset)
{
    for (size_t i = 0; i < count; i++) {
        char line[32];
        (void)snprintf(line, sizeof line, "line %010" PRIu64 "\n", (offset + i) / 16);
        if (bytes[i] != (uint8_t)line[(offset + i) % 16]) {
            fail_msg("offset %" PRIu64 " holds another byte", offset + i);
        }
    }
}

static void output_is_capped_with_its_first_and_last_part_kept(void **state)
{
    (void)state;
    struct run run;
    struct keep_link link;
    run_make(&run, "chatty", "awk 'BEGIN { for (i = 0; i < 50000; i++) printf \"line %010d\\n\", i }'");
    run.spec.log_cap_bytes = 65536;
    spawn(&run, &link);
    assert_int_equal(end_wait(&link).code, 0);
    uint64_t end;
    assert_int_equal(keep_log_end(run.directory, &end), 0);
    assert_int_equal(end, 800000);
    assert_true(disk_bytes(run.directory) <= 65536);
    uint64_t offset = 0;
    uint64_t kept = 0;
    uint64_t lost = 0;
    uint8_t buffer[1000]; /* not a divisor of anything */
    for (;;) {
        size_t got;
        uint64_t dropped;
        assert_int_equal(keep_log_read(run.directory, offset, buffer, sizeof buffer, &got, &dropped), 0);
        if (got == 0) {
            assert_int_equal(dropped, 0);
            break;
        }
        assert_true(dropped == 0 || offset == 32768); /* one gap, behind the first half */
        lost += dropped;
        kept += got;
        assert_lines_at(buffer, got, offset + dropped);
        offset += dropped + got;
    }
    assert_int_equal(offset, 800000);
    assert_int_equal(kept + lost, 800000);
    assert_int_equal(kept, disk_bytes(run.directory));
    assert_true(kept >= 32768 + 16384); /* half of the cap, and one whole segment of a quarter */
    char tail[256];
    size_t bytes;
    assert_int_equal(keep_log_tail(run.directory, 2, tail, sizeof tail, &bytes), 0);
    assert_string_equal(tail, "line 0000049998\nline 0000049999\n");
    char mark[96];
    (void)snprintf(mark, sizeof mark, "[shoal: %" PRIu64 " bytes of output were dropped here]\n", lost);
    const char *text = log_text(run.directory);
    const char *at = strstr(text, mark);
    assert_non_null(at);
    (void)snprintf(mark, sizeof mark, "dropped here]\nline %010" PRIu64 "\n", (32768 + lost) / 16);
    assert_non_null(strstr(at, mark));
}

static void tails_count_lines_with_and_without_newline(void **state)
{
    (void)state;
    assert_int_equal(run_whole("short", "printf 'one\\ntwo\\nthree'").code, 0);
    assert_int_equal(run_whole("quiet", "true").code, 0);
    char directory[600];
    char tail[256];
    size_t bytes = 99;
    (void)snprintf(directory, sizeof directory, "%s/short", runs);
    assert_int_equal(keep_log_tail(directory, 1, tail, sizeof tail, &bytes), 0);
    assert_string_equal(tail, "three");
    assert_int_equal(keep_log_tail(directory, 2, tail, sizeof tail, &bytes), 0);
    assert_string_equal(tail, "two\nthree");
    assert_int_equal(keep_log_tail(directory, 9, tail, sizeof tail, &bytes), 0);
    assert_string_equal(tail, "one\ntwo\nthree");
    assert_int_equal(keep_log_tail(directory, 0, tail, sizeof tail, &bytes), 0);
    assert_int_equal(bytes, 0);
    (void)snprintf(directory, sizeof directory, "%s/quiet", runs);
    assert_int_equal(keep_log_tail(directory, 5, tail, sizeof tail, &bytes), 0);
    assert_int_equal(bytes, 0);
    (void)snprintf(directory, sizeof directory, "%s/none", runs);
    assert_int_equal(keep_log_tail(directory, 5, tail, sizeof tail, &bytes), ERR_NOT_FOUND);
}

/* A file size limit refuses writes as a full disk does, for shoal-keep and all that it starts. */
static void refused_writes_cost_output_but_neither_worker_nor_status(void **state)
{
    (void)state;
    struct run run;
    struct keep_link link;
    struct rlimit before;
    run_make(&run, "full", "sh -c 'awk \"BEGIN { for (i = 0; i < 2000; i++) printf \\\"line %010d\\\\n\\\", i }\"; exit 8'");
    run.spec.log_cap_bytes = 1 << 20;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit small = {.rlim_cur = 5000, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    spawn(&run, &link);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(end_wait(&link).code, 8);
    uint64_t offset = 0;
    uint64_t lost = 0;
    size_t got;
    do {
        uint8_t buffer[4096];
        uint64_t dropped;
        assert_int_equal(keep_log_read(run.directory, offset, buffer, sizeof buffer, &got, &dropped), 0);
        assert_lines_at(buffer, got, offset + dropped);
        lost += dropped;
        offset += dropped + got;
        assert_true(offset > 5000 || dropped == 0);
    } while (got > 0);
    assert_true(offset >= 5000 && offset <= 32000);
    assert_true(offset < 32000 || lost > 0);
    assert_true(disk_bytes(run.directory) <= 20000);
    assert_true(keep_said_nothing(run.directory));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(secrets_stay_out_of_command_lines_logs_and_others_reach),
        T(output_is_capped_with_its_first_and_last_part_kept),
        T(tails_count_lines_with_and_without_newline),
        T(refused_writes_cost_output_but_neither_worker_nor_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
