/* Workers that outlive their daemon, and who finds them. */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "tests/unit/keep_fixture.h"

struct found_one {
    size_t count;
    struct keep_found found;
};

static void remember(void *context, struct keep_found *found)
{
    struct found_one *one = context;
    one->count++;
    one->found = *found;
    found->link.fd = -1; /* taken */
}

static struct keep_found scan_one(void)
{
    struct found_one one = {0};
    assert_int_equal(keep_scan(runs, remember, &one), 0);
    assert_int_equal(one.count, 1);
    return one.found;
}

static void assert_is_ours(const struct keep_found *found, const char *name)
{
    assert_string_equal(found->name, name);
    assert_int_equal(found->identity_bytes, sizeof identity);
    assert_memory_equal(found->identity, identity, sizeof identity);
    assert_true(lease_token_equal(found->token, token));
}

/* A process group that plays the daemon: spawns the run, then waits to be killed. */
static pid_t daemon_start(const struct run *run)
{
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct keep_link link;
        char error[KEEP_ERROR_BYTES];
        (void)setpgid(0, 0);
        (void)close(ready[0]);
        (void)fcntl(ready[1], F_SETFD, FD_CLOEXEC);
        char ok = keep_spawn(KEEP_PROGRAM, &run->spec, &link, error) == 0 ? 'y' : 'n';
        if (write(ready[1], &ok, 1) != 1) {
            _exit(1);
        }
        for (;;) {
            (void)pause();
        }
    }
    (void)close(ready[1]);
    char ok = 0;
    assert_int_equal(read(ready[0], &ok, 1), 1);
    assert_int_equal(ok, 'y');
    (void)close(ready[0]);
    return pid;
}

static void daemon_kill(pid_t pid)
{
    assert_int_equal(kill(-pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void that_a_worker_was_asked_to_leave_is_known_after_its_daemon_has_gone(void **state)
{
    (void)state;
    struct run run;
    struct keep_event event;
    run_make(&run, "stopping", "sh -c 'echo $$ > ready; until [ -e go ]; do sleep 0.02; done'");
    pid_t old_daemon = daemon_start(&run);
    daemon_kill(old_daemon);
    struct keep_found found = scan_one();
    event_wait(&found.link, KEEP_EVENT_STARTED, &event);
    (void)pid_wait(&run, "ready");
    assert_int_equal(keep_stopping(&found.link), 0);
    keep_close(&found.link); /* so does this one */
    assert_int_equal(keep_stopping(&found.link), ERR_CLOSED);
    touch(&run, "go");
    WAIT_UNTIL(is_gone(event.keep_pid));
    found = scan_one();
    assert_int_equal(found.state, KEEP_STATE_ENDED);
    assert_int_equal(found.status.reason, KEEP_EXITED);
    assert_int_equal(found.status.code, 0);
    assert_true(found.status.is_stopping);
}

static void a_worker_outlives_its_daemon_and_is_adopted(void **state)
{
    (void)state;
    struct run run;
    struct keep_event event;
    run_make(&run, "adopted", "sh -c 'echo $$ > ready; until [ -e go ]; do sleep 0.02; done; echo bye; exit 5'");
    pid_t old_daemon = daemon_start(&run);
    daemon_kill(old_daemon);
    struct keep_found found = scan_one();
    assert_int_equal(found.state, KEEP_STATE_RUNNING);
    assert_is_ours(&found, "adopted");
    event_wait(&found.link, KEEP_EVENT_STARTED, &event);
    assert_int_equal(pid_wait(&run, "ready"), event.worker_pid);
    pid_t keep_pid = event.keep_pid;
    assert_int_equal(keep_renew(&found.link), 0);
    touch(&run, "go");
    event_wait(&found.link, KEEP_EVENT_ENDED, &event);
    assert_int_equal(event.status.reason, KEEP_EXITED);
    assert_int_equal(event.status.code, 5);
    assert_false(event.status.is_stopping);
    assert_string_equal(log_text(run.directory), "bye\n");
    WAIT_UNTIL(is_gone(keep_pid));
    found = scan_one();
    assert_int_equal(found.state, KEEP_STATE_ENDED);
    assert_is_ours(&found, "adopted");
    assert_int_equal(found.status.code, 5);
    assert_int_equal(keep_connect(run.directory, &found.link), ERR_NOT_FOUND);
}

static void an_end_that_nobody_saw_is_on_disk(void **state)
{
    (void)state;
    struct run run;
    run_make(&run, "unseen", "sh -c 'until [ -e go ]; do sleep 0.02; done; exit 6'");
    daemon_kill(daemon_start(&run));
    touch(&run, "go");
    struct keep_status status;
    WAIT_UNTIL(keep_status_read(run.directory, &status) == 0);
    assert_int_equal(status.code, 6);
    struct keep_link link;
    WAIT_UNTIL(keep_connect(run.directory, &link) == ERR_NOT_FOUND);
    assert_int_equal(scan_one().state, KEEP_STATE_ENDED);
}

static void a_lease_that_nobody_renews_ends_the_worker(void **state)
{
    (void)state;
    struct run run;
    run_make(&run, "forgotten", "sh -c 'echo $$ > ready; exec sleep 1000'");
    run.spec.lease_ms = 500;
    daemon_kill(daemon_start(&run));
    pid_t worker = pid_wait(&run, "ready");
    struct keep_status status;
    WAIT_UNTIL(keep_status_read(run.directory, &status) == 0);
    assert_int_equal(status.reason, KEEP_LEASE);
    assert_int_equal(status.signal, SIGTERM);
    assert_true(is_gone(worker));
    WAIT_UNTIL(keep_lock_is_free(lock_path));
}

static void renewing_keeps_a_worker_and_mere_connection_does_not(void **state)
{
    (void)state;
    struct run run;
    struct keep_link link;
    struct keep_event event;
    run_make(&run, "renewed", "sleep 1000");
    run.spec.lease_ms = 1500; /* a stalled test machine must not end it */
    spawn(&run, &link);
    event_wait(&link, KEEP_EVENT_STARTED, &event);
    uint64_t start_ms = clock_ms();
    while (clock_ms() < start_ms + 3500) {
        assert_int_equal(keep_renew(&link), 0);
        struct pollfd item = {.fd = link.fd, .events = POLLIN};
        assert_int_equal(poll(&item, 1, 50), 0);
    }
    event_wait(&link, KEEP_EVENT_ENDED, &event);
    assert_int_equal(event.status.reason, KEEP_LEASE);
    assert_true(clock_ms() >= start_ms + 3500 + 1000);
}

static void scan_tells_broken_and_lost_runs(void **state)
{
    (void)state;
    struct found_one one = {0};
    char missing[400];
    (void)snprintf(missing, sizeof missing, "%s/none", root);
    assert_int_equal(keep_scan(missing, remember, &one), 0);
    assert_int_equal(one.count, 0);
    struct run run;
    run_make(&run, "half", "true"); /* a crash before keep_spawn */
    assert_int_equal(scan_one().state, KEEP_STATE_BROKEN);
    char path[700];
    (void)snprintf(path, sizeof path, "%s/token", run.directory);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fprintf(file, "%s\n", token_hex) > 0);
    assert_int_equal(fclose(file), 0);
    (void)snprintf(path, sizeof path, "%s/spec", run.directory);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite("\x82\xa7version\x01\xa8identity\xc4\xff", 1, 21, file), 21); /* cut short */
    assert_int_equal(fclose(file), 0);
    assert_int_equal(scan_one().state, KEEP_STATE_BROKEN);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite("\x81\xa8identity\xc4\x02hi", 1, 14, file), 14);
    assert_int_equal(fclose(file), 0);
    struct keep_found found = scan_one();
    assert_int_equal(found.state, KEEP_STATE_LOST);
    assert_int_equal(found.identity_bytes, 2);
    (void)snprintf(path, sizeof path, "%s/status", run.directory);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs("nonsense", file) >= 0);
    assert_int_equal(fclose(file), 0);
    struct keep_status status;
    assert_int_equal(keep_status_read(run.directory, &status), ERR_MALFORMED);
    assert_int_equal(scan_one().state, KEEP_STATE_LOST);
}

static void nonsense_on_the_socket_disturbs_nothing(void **state)
{
    (void)state;
    struct run run;
    struct keep_link link;
    struct keep_event event;
    run_make(&run, "noisy", "sleep 1000");
    spawn(&run, &link);
    event_wait(&link, KEEP_EVENT_STARTED, &event);
    const char *const noise[] = {"\xff\xff\xff\xff", "garbage that is no frame at all, and long enough to be one",
                                 "\0\0\0\1\xc0", "\0\0\0\2\x91\x63", "\0\0\0\1\x90", "\0\0"};
    const size_t sizes[] = {4, 58, 5, 6, 5, 2};
    for (size_t i = 0; i < 6; i++) {
        struct keep_link other;
        WAIT_UNTIL(keep_connect(run.directory, &other) == 0);
        assert_int_equal(send(other.fd, noise[i], sizes[i], MSG_NOSIGNAL), sizes[i]);
        keep_close(&other);
    }
    assert_int_equal(keep_renew(&link), 0);
    struct keep_link after;
    WAIT_UNTIL(keep_connect(run.directory, &after) == 0);
    event_wait(&after, KEEP_EVENT_STARTED, &event);
    assert_false(is_gone(event.worker_pid));
    assert_int_equal(keep_kill(&after, 0), 0);
    event_wait(&link, KEEP_EVENT_ENDED, &event);
    event_wait(&after, KEEP_EVENT_ENDED, &event);
    assert_true(keep_said_nothing(run.directory));
}

static void more_daemons_than_places_wait_and_none_is_turned_away(void **state)
{
    (void)state;
    struct run run;
    struct keep_link links[7];
    struct keep_event event;
    run_make(&run, "crowded", "sleep 1000");
    spawn(&run, &links[0]);
    event_wait(&links[0], KEEP_EVENT_STARTED, &event);
    for (size_t i = 1; i < 7; i++) {
        WAIT_UNTIL(keep_connect(run.directory, &links[i]) == 0);
    }
    for (size_t i = 1; i < 4; i++) {
        event_wait(&links[i], KEEP_EVENT_STARTED, &event);
    }
    assert_int_equal(keep_read_event(&links[4], &event), ERR_AGAIN);
    keep_close(&links[0]);
    event_wait(&links[4], KEEP_EVENT_STARTED, &event);
    assert_int_equal(keep_kill(&links[4], 0), 0);
    for (size_t i = 1; i < 7; i++) { /* those still waiting learn it from the disk */
        event_wait(&links[i], KEEP_EVENT_ENDED, &event);
        assert_int_equal(event.status.reason, KEEP_KILLED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(that_a_worker_was_asked_to_leave_is_known_after_its_daemon_has_gone),
        T(a_worker_outlives_its_daemon_and_is_adopted),
        T(an_end_that_nobody_saw_is_on_disk),
        T(a_lease_that_nobody_renews_ends_the_worker),
        T(renewing_keeps_a_worker_and_mere_connection_does_not),
        T(scan_tells_broken_and_lost_runs),
        T(nonsense_on_the_socket_disturbs_nothing),
        T(more_daemons_than_places_wait_and_none_is_turned_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
