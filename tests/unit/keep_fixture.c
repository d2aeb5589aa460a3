#include "tests/unit/keep_fixture.h"

#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
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

#include "base/err.h"

char root[256];
char runs[300];
char lock_path[300];

const lease_token token = {{0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4, 5, 6, 7, 8, 0xfe, 0xed, 0xfa, 0xce}};

const char token_hex[] = "deadbeef0102030405060708feedface";
const char identity[21] = "attempt 7 of trial 3";

static const char *const environment[] = {"PATH=/usr/bin:/bin", "MARK=planted-secret-4711"};

uint64_t clock_ms(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int setup(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof root, "/tmp/keep_test.XXXXXX");
    assert_non_null(mkdtemp(root));
    (void)snprintf(runs, sizeof runs, "%s/runs", root);
    (void)snprintf(lock_path, sizeof lock_path, "%s/slot0.lock", root);
    assert_int_equal(mkdir(runs, 0700), 0);
    return 0;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

int teardown(void **state)
{
    (void)state;
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void run_make(struct run *run, const char *name, const char *entrypoint)
{
    (void)snprintf(run->directory, sizeof run->directory, "%s/%s", runs, name);
    (void)snprintf(run->work, sizeof run->work, "%s/work", run->directory);
    assert_int_equal(mkdir(run->directory, 0700), 0);
    assert_int_equal(mkdir(run->work, 0700), 0);
    run->locks[0] = lock_path;
    run->spec = (struct keep_spec){
        .run_directory = run->directory,
        .working_directory = run->work,
        .entrypoint = entrypoint,
        .environment = environment,
        .environment_count = 2,
        .lock_paths = run->locks,
        .lock_count = 1,
        .lease_ms = LEASE_MS,
        .log_cap_bytes = 1 << 20,
        .identity = (const uint8_t *)identity,
        .identity_bytes = sizeof identity,
        .token = token,
    };
}

void spawn(const struct run *run, struct keep_link *link)
{
    char error[KEEP_ERROR_BYTES] = "";
    int result = keep_spawn(KEEP_PROGRAM, &run->spec, link, error);
    if (result != 0) {
        fail_msg("%s: %s", err_name(result), error);
    }
}

void event_wait(struct keep_link *link, enum keep_event_kind kind, struct keep_event *out)
{
    uint64_t end_ms = clock_ms() + DEADLINE_MS;
    int result;
    while ((result = keep_read_event(link, out)) == ERR_AGAIN) {
        struct pollfd item = {.fd = link->fd, .events = POLLIN};
        assert_true(clock_ms() < end_ms);
        (void)poll(&item, 1, 1000);
    }
    assert_int_equal(result, 0);
    if (out->kind == KEEP_EVENT_ENDED && kind != KEEP_EVENT_ENDED) {
        fail_msg("ended instead: reason %d code %d signal %d %s", (int)out->status.reason, out->status.code,
                 out->status.signal, out->status.text);
    }
    assert_int_equal(out->kind, kind);
}

struct keep_status end_wait(struct keep_link *link)
{
    struct keep_event event;
    event_wait(link, KEEP_EVENT_STARTED, &event);
    event_wait(link, KEEP_EVENT_ENDED, &event);
    assert_int_equal(link->fd, -1);
    struct keep_status on_disk;
    assert_int_equal(keep_status_read(link->run_directory, &on_disk), 0);
    assert_memory_equal(&on_disk, &event.status, sizeof on_disk);
    assert_true(keep_lock_is_free(lock_path));
    return event.status;
}

struct keep_status run_whole(const char *name, const char *entrypoint)
{
    struct run run;
    struct keep_link link;
    run_make(&run, name, entrypoint);
    spawn(&run, &link);
    struct keep_status status = end_wait(&link);
    keep_close(&link);
    return status;
}

const char *log_text(const char *directory)
{
    static char text[65536];
    size_t bytes;
    assert_int_equal(keep_log_tail(directory, 1000000, text, sizeof text, &bytes), 0);
    assert_int_equal(strlen(text), bytes);
    return text;
}

bool file_has(const struct run *run, const char *name, char *text, size_t size)
{
    char path[700];
    (void)snprintf(path, sizeof path, "%s/%s", run->work, name);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return false;
    }
    size_t n = fread(text, 1, size - 1, file);
    (void)fclose(file);
    text[n] = '\0';
    return n > 0 && text[n - 1] == '\n';
}

pid_t pid_wait(const struct run *run, const char *name)
{
    char text[32];
    WAIT_UNTIL(file_has(run, name, text, sizeof text));
    pid_t pid = (pid_t)atoi(text);
    assert_true(pid > 1);
    return pid;
}

void touch(const struct run *run, const char *name)
{
    char path[700];
    (void)snprintf(path, sizeof path, "%s/%s", run->work, name);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
}

char process_state(pid_t pid)
{
    char path[64];
    char text[256] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return 0;
    }
    size_t n = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[n] = '\0';
    const char *bracket = strrchr(text, ')');
    return bracket == NULL ? 0 : bracket[2];
}

bool is_gone(pid_t pid)
{
    char letter = process_state(pid);
    return letter == 0 || letter == 'Z' || letter == 'X';
}

bool keep_said_nothing(const char *directory)
{
    char path[700];
    struct stat info;
    (void)snprintf(path, sizeof path, "%s/keep.err", directory);
    return stat(path, &info) == 0 && info.st_size == 0;
}
