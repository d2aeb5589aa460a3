/* shoal-keep with real processes: what a daemon relies on when a worker ends, will not end, or outlives the daemon. Waiting
 * is always for something that is looked at again and again until a deadline, never for a time. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "node/keep/keep.h"

#define DEADLINE_MS 30000
#define LEASE_MS 60000

static char root[256];
static char runs[300];
static char lock_path[300];
static const lease_token token = {{0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4, 5, 6, 7, 8, 0xfe, 0xed, 0xfa, 0xce}};
static const char token_hex[] = "deadbeef0102030405060708feedface";
static const char identity[] = "attempt 7 of trial 3";
static const char *const environment[] = {"PATH=/usr/bin:/bin", "MARK=planted-secret-4711"};

static uint64_t clock_ms(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

#define WAIT_UNTIL(condition)                                  \
    do {                                                       \
        uint64_t end_ms_ = clock_ms() + DEADLINE_MS;           \
        while (!(condition)) {                                 \
            if (clock_ms() > end_ms_) {                        \
                fail_msg("never came true: %s", #condition);   \
            }                                                  \
            (void)poll(NULL, 0, 5);                            \
        }                                                      \
    } while (0)

static int setup(void **state)
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

static int teardown(void **state)
{
    (void)state;
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

struct run {
    char directory[600];
    char work[640];
    struct keep_spec spec;
    const char *locks[1];
};

static void run_make(struct run *run, const char *name, const char *entrypoint)
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

static void script_write(const struct run *run, const char *text)
{
    char path[700];
    (void)snprintf(path, sizeof path, "%s/worker.sh", run->work);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void spawn(const struct run *run, struct keep_link *link)
{
    char error[KEEP_ERROR_BYTES] = "";
    int result = keep_spawn(KEEP_PROGRAM, &run->spec, link, error);
    if (result != 0) {
        fail_msg("%s: %s", err_name(result), error);
    }
}

static void event_wait(struct keep_link *link, enum keep_event_kind kind, struct keep_event *out)
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

static struct keep_status end_wait(struct keep_link *link)
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

static struct keep_status run_whole(const char *name, const char *entrypoint)
{
    struct run run;
    struct keep_link link;
    run_make(&run, name, entrypoint);
    spawn(&run, &link);
    struct keep_status status = end_wait(&link);
    keep_close(&link);
    return status;
}

static const char *log_text(const char *directory)
{
    static char text[65536];
    size_t bytes;
    assert_int_equal(keep_log_tail(directory, 1000000, text, sizeof text, &bytes), 0);
    assert_int_equal(strlen(text), bytes);
    return text;
}

static bool file_has(const struct run *run, const char *name, char *text, size_t size)
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

static pid_t pid_wait(const struct run *run, const char *name)
{
    char text[32];
    WAIT_UNTIL(file_has(run, name, text, sizeof text));
    pid_t pid = (pid_t)atoi(text);
    assert_true(pid > 1);
    return pid;
}

static void touch(const struct run *run, const char *name)
{
    char path[700];
    (void)snprintf(path, sizeof path, "%s/%s", run->work, name);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
}

/* The state letter of ps; 0 if there is no such process. */
static char process_state(pid_t pid)
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

/* A zombie is gone too: whoever reaps orphans here may be slow. */
static bool is_gone(pid_t pid)
{
    char letter = process_state(pid);
    return letter == 0 || letter == 'Z' || letter == 'X';
}

static bool keep_said_nothing(const char *directory)
{
    char path[700];
    struct stat info;
    (void)snprintf(path, sizeof path, "%s/keep.err", directory);
    return stat(path, &info) == 0 && info.st_size == 0;
}

/* ---- the core ---- */

static void core_lease_ends_a_run_and_renewal_postpones_it(void **state)
{
    (void)state;
    struct keep_core core;
    keep_core_init(&core, 1000, 300);
    assert_int_equal(keep_core_next_ms(&core), 1300);
    assert_int_equal(keep_core_tick(&core, 1299), KEEP_DO_NOTHING);
    keep_core_heard(&core, 1299);
    assert_int_equal(keep_core_tick(&core, 1598), KEEP_DO_NOTHING);
    assert_int_equal(keep_core_tick(&core, 1599), KEEP_DO_TERM);
    assert_int_equal(core.reason, KEEP_LEASE);
    assert_int_equal(keep_core_tick(&core, 1599), KEEP_DO_NOTHING);
    assert_int_equal(keep_core_next_ms(&core), 1599 + KEEP_CORE_GRACE_MS);
    keep_core_heard(&core, 1700); /* too late: what has begun is finished */
    assert_int_equal(keep_core_tick(&core, 1599 + KEEP_CORE_GRACE_MS), KEEP_DO_KILL);
    keep_core_none_left(&core);
    assert_int_equal(keep_core_tick(&core, 4000), KEEP_DO_FINISH);
}

static void core_kills_again_and_again_ever_more_slowly(void **state)
{
    (void)state;
    struct keep_core core;
    keep_core_init(&core, 0, 1000000);
    keep_core_told(&core, 10, 0);
    assert_int_equal(core.reason, KEEP_KILLED);
    uint64_t now_ms = 10;
    uint64_t before_ms = 0;
    for (int round = 0; round < 20; round++) {
        assert_int_equal(keep_core_tick(&core, now_ms), KEEP_DO_KILL);
        assert_int_equal(keep_core_tick(&core, now_ms), KEEP_DO_NOTHING);
        uint64_t gap_ms = keep_core_next_ms(&core) - now_ms;
        assert_true(gap_ms >= before_ms && gap_ms <= KEEP_CORE_KILL_MS_LAST && gap_ms > 0);
        before_ms = gap_ms;
        now_ms += gap_ms;
    }
    assert_int_equal(before_ms, KEEP_CORE_KILL_MS_LAST);
}

static void core_told_twice_takes_the_earlier_end(void **state)
{
    (void)state;
    struct keep_core core;
    keep_core_init(&core, 0, 1000000);
    keep_core_told(&core, 0, 5000);
    assert_int_equal(keep_core_tick(&core, 0), KEEP_DO_TERM);
    keep_core_told(&core, 100, 60000);
    assert_int_equal(keep_core_next_ms(&core), 5000);
    keep_core_told(&core, 200, 300);
    assert_int_equal(keep_core_next_ms(&core), 500);
    keep_core_told(&core, 300, UINT64_MAX); /* from outside: must not overflow */
    assert_int_equal(keep_core_next_ms(&core), 500);
}

static void core_worker_that_went_by_itself_stays_exited(void **state)
{
    (void)state;
    struct keep_core core;
    keep_core_init(&core, 0, 1000);
    keep_core_worker_gone(&core, 5);
    keep_core_told(&core, 6, 0);
    assert_int_equal(core.reason, KEEP_EXITED);
    keep_core_init(&core, 0, 1000);
    keep_core_told(&core, 5, 100);
    keep_core_worker_gone(&core, 6);
    assert_int_equal(core.reason, KEEP_KILLED);
    keep_core_none_left(&core);
    assert_int_equal(keep_core_tick(&core, 6), KEEP_DO_FINISH); /* nobody left to ask */
}

static void core_a_stall_does_not_end_the_lease(void **state)
{
    (void)state;
    struct keep_core core;
    keep_core_init(&core, 0, 6000);
    assert_int_equal(keep_core_tick(&core, 1000), KEEP_DO_NOTHING);
    assert_int_equal(keep_core_tick(&core, 100000), KEEP_DO_NOTHING);
    assert_int_equal(keep_core_next_ms(&core), 105000);
    assert_int_equal(keep_core_tick(&core, 103000), KEEP_DO_NOTHING);
    assert_int_equal(keep_core_tick(&core, 105000), KEEP_DO_TERM);
}

/* ---- ends ---- */

static void exit_codes_and_signals_are_reported(void **state)
{
    (void)state;
    struct keep_status status = run_whole("zero", "true");
    assert_int_equal(status.reason, KEEP_EXITED);
    assert_int_equal(status.code, 0);
    assert_int_equal(status.signal, 0);
    status = run_whole("three", "sh -c 'exit 3'");
    assert_int_equal(status.code, 3);
    status = run_whole("segv", "sh -c 'kill -SEGV $$'");
    assert_int_equal(status.reason, KEEP_EXITED);
    assert_int_equal(status.code, -1);
    assert_int_equal(status.signal, SIGSEGV);
}

static void whatever_a_shell_can_run_is_an_entrypoint(void **state)
{
    (void)state;
    static const struct {
        const char *entrypoint;
        int32_t code, signal;
    } cases[] = {
        {"A=3 && exit $A", 3, 0},
        {"A=4 sh -c 'exit $A'", 4, 0},
        {"cd / && sh -c 'exit 5'", 5, 0},
        {"cd /", 0, 0},
        {"if true; then exit 6; fi", 6, 0},
        {"sh -c 'exit 0' | sh -c 'exit 7'", 7, 0},
        {"false; exit 8", 8, 0},
        {"exec sh -c 'exit 9'", 9, 0},
        {"  /bin/sh -c 'exit 10' # it's", 10, 0},
        {"/bin/sh -c 'exit 11' # a & b", 11, 0},
        {"sh -c \"kill -KILL \\$\\$\"", -1, SIGKILL},
        {"no-such-program && true", 127, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "shell%zu", i);
        struct keep_status status = run_whole(name, cases[i].entrypoint);
        print_message("%s\n", cases[i].entrypoint);
        assert_int_equal(status.reason, KEEP_EXITED);
        assert_int_equal(status.code, cases[i].code);
        assert_int_equal(status.signal, cases[i].signal);
    }
}

static void a_missing_program_is_127_with_a_message_in_the_log(void **state)
{
    (void)state;
    struct keep_status status = run_whole("missing", "no-such-program --flag");
    assert_int_equal(status.reason, KEEP_EXITED);
    assert_int_equal(status.code, 127);
    char directory[600];
    (void)snprintf(directory, sizeof directory, "%s/missing", runs);
    assert_non_null(strstr(log_text(directory), "no-such-program"));
    assert_true(keep_said_nothing(directory));
}

static void the_worker_gets_its_environment_directory_and_session_only(void **state)
{
    (void)state;
    struct run run;
    struct keep_link link;
    run_make(&run, "clean", "sh -c 'env | sort; pwd; cat; ls -1 /proc/self/fd | wc -l; cut -d\" \" -f6 /proc/$$/stat; echo $$; "
                            "echo err >&2; umask'");
    assert_int_equal(setenv("LEAKED_FROM_DAEMON", "1", 1), 0);
    int leaked = open("/dev/null", O_RDONLY); /* on purpose without close-on-exec */
    spawn(&run, &link);
    assert_int_equal(end_wait(&link).code, 0);
    (void)close(leaked);
    char expected[2048];
    char session[32] = "";
    const char *text = log_text(run.directory);
    /* 0 1 2, the slot's lock, and the one that ls reads with. */
    int at = snprintf(expected, sizeof expected, "MARK=planted-secret-4711\nPATH=/usr/bin:/bin\nPWD=%s\n%s\n5\n", run.work,
                      run.work);
    assert_memory_equal(text, expected, (size_t)at);
    assert_int_equal(sscanf(text + at, "%31[0-9]", session), 1);
    (void)snprintf(expected, sizeof expected, "%s\n%s\nerr\n0022\n", session, session);
    assert_string_equal(text + at, expected);
}

static void a_missing_working_directory_is_a_failure_to_start(void **state)
{
    (void)state;
    struct run run;
    struct keep_link link;
    struct keep_event event;
    run_make(&run, "nowhere", "true");
    run.spec.working_directory = "/nonexistent/place";
    spawn(&run, &link);
    event_wait(&link, KEEP_EVENT_ENDED, &event);
    assert_int_equal(event.status.reason, KEEP_NOT_STARTED);
    assert_non_null(strstr(event.status.text, "/nonexistent/place"));
    assert_non_null(strstr(event.status.text, strerror(ENOENT)));
    assert_true(keep_lock_is_free(lock_path));
    keep_close(&link);
}

static void bad_specs_and_programs_are_refused_with_a_sentence(void **state)
{
    (void)state;
    struct run run;
    struct keep_link link;
    char error[KEEP_ERROR_BYTES] = "";
    run_make(&run, "bad", "true");
    run.spec.run_directory = "relative";
    assert_int_equal(keep_spawn(KEEP_PROGRAM, &run.spec, &link, error), ERR_USAGE);
    run.spec.run_directory = "/nonexistent/run";
    assert_int_equal(keep_spawn(KEEP_PROGRAM, &run.spec, &link, error), ERR_IO);
    assert_non_null(strstr(error, "/nonexistent/run"));
    run.spec.run_directory = run.directory;
    run.spec.lease_ms = 0;
    assert_int_equal(keep_spawn(KEEP_PROGRAM, &run.spec, &link, error), ERR_USAGE);
    run.spec.lease_ms = LEASE_MS;
    assert_int_equal(keep_spawn("/nonexistent/shoal-keep", &run.spec, &link, error), ERR_IO);
    assert_non_null(strstr(error, "/nonexistent/shoal-keep"));
    /* That left a spec behind: the directory counts as used. */
    assert_int_equal(keep_spawn(KEEP_PROGRAM, &run.spec, &link, error), ERR_USAGE);
    assert_true(keep_lock_is_free(lock_path));
    assert_int_equal(keep_connect(run.directory, &link), ERR_NOT_FOUND);
}

static void long_paths_are_fine(void **state)
{
    (void)state;
    char name[201];
    memset(name, 'd', 200);
    name[200] = '\0';
    struct run run;
    struct keep_link first;
    struct keep_link second;
    struct keep_event event;
    run_make(&run, name, "sh -c 'until [ -e go ]; do sleep 0.02; done; exit 9'");
    assert_true(strlen(run.directory) > sizeof((struct sockaddr_un *)0)->sun_path);
    spawn(&run, &first);
    event_wait(&first, KEEP_EVENT_STARTED, &event);
    assert_int_equal(keep_connect(run.directory, &second), 0);
    event_wait(&second, KEEP_EVENT_STARTED, &event);
    touch(&run, "go");
    event_wait(&second, KEEP_EVENT_ENDED, &event);
    assert_int_equal(event.status.code, 9);
    event_wait(&first, KEEP_EVENT_ENDED, &event);
    keep_close(&first);
}

/* ---- killing ---- */

static void a_kill_is_sure_for_what_ignores_sigterm_and_hides(void **state)
{
    (void)state;
    struct run run;
    struct keep_link link;
    struct keep_event event;
    run_make(&run, "stubborn", "sh worker.sh");
    /* The grandchild forks twice into a session of its own, so that its parent is gone; a third one is stopped. */
    script_write(&run, "trap '' TERM\n"
                       "(setsid sh -c 'trap \"\" TERM; echo $$ > grandchild; while :; do sleep 1; done' > /dev/null 2>&1 &)\n"
                       "(sh -c 'echo $$ > stopped; kill -STOP $$' &)\n"
                       "echo $$ > worker\n"
                       "while :; do sleep 1; done\n");
    spawn(&run, &link);
    event_wait(&link, KEEP_EVENT_STARTED, &event);
    pid_t worker = pid_wait(&run, "worker");
    pid_t grandchild = pid_wait(&run, "grandchild");
    pid_t stopped = pid_wait(&run, "stopped");
    assert_int_equal(worker, event.worker_pid);
    assert_int_equal(getpgid(worker), worker);
    assert_int_equal(getsid(grandchild), grandchild);
    assert_false(keep_lock_is_free(lock_path));
    assert_int_equal(keep_kill(&link, 100), 0);
    event_wait(&link, KEEP_EVENT_ENDED, &event);
    assert_int_equal(event.status.reason, KEEP_KILLED);
    assert_int_equal(event.status.signal, SIGKILL);
    assert_true(is_gone(worker));
    assert_true(is_gone(grandchild));
    assert_true(is_gone(stopped));
    assert_true(keep_lock_is_free(lock_path));
    assert_true(keep_said_nothing(run.directory));
}

static void a_worker_may_use_its_grace_also_a_stopped_one(void **state)
{
    (void)state;
    struct run run;
    struct keep_link link;
    struct keep_event event;
    run_make(&run, "polite", "sh worker.sh");
    script_write(&run, "trap 'echo saving; exit 7' TERM\necho $$ > ready\nkill -STOP $$\nwhile :; do sleep 0.02; done\n");
    spawn(&run, &link);
    event_wait(&link, KEEP_EVENT_STARTED, &event);
    pid_t worker = pid_wait(&run, "ready");
    WAIT_UNTIL(process_state(worker) == 'T');
    assert_int_equal(keep_kill(&link, 20000), 0);
    event_wait(&link, KEEP_EVENT_ENDED, &event);
    assert_int_equal(event.status.reason, KEEP_KILLED);
    assert_int_equal(event.status.code, 7);
    assert_non_null(strstr(log_text(run.directory), "saving\n"));
}

static void what_a_worker_leaves_behind_is_ended_too(void **state)
{
    (void)state;
    struct run run;
    struct keep_link link;
    run_make(&run, "litter", "sh worker.sh");
    script_write(&run, "setsid sh -c 'echo $$ > child; exec sleep 1000' &\n"
                       "until [ -s child ]; do sleep 0.02; done\nexit 4\n");
    spawn(&run, &link);
    pid_t child = pid_wait(&run, "child");
    struct keep_status status = end_wait(&link);
    assert_int_equal(status.reason, KEEP_EXITED);
    assert_int_equal(status.code, 4);
    assert_true(is_gone(child));
}

static void a_held_lock_refuses_the_next_worker(void **state)
{
    (void)state;
    struct run first;
    struct run second;
    struct keep_link link;
    struct keep_link refused;
    struct keep_event event;
    run_make(&first, "holder", "sleep 1000");
    run_make(&second, "refused", "sh -c 'echo ran > ran'");
    spawn(&first, &link);
    event_wait(&link, KEEP_EVENT_STARTED, &event);
    spawn(&second, &refused);
    event_wait(&refused, KEEP_EVENT_ENDED, &event);
    assert_int_equal(event.status.reason, KEEP_NOT_STARTED);
    assert_non_null(strstr(event.status.text, lock_path));
    char text[16];
    assert_false(file_has(&second, "ran", text, sizeof text));
    assert_false(keep_lock_is_free(lock_path)); /* the first one still has it */
    assert_int_equal(keep_kill(&link, 0), 0);
    event_wait(&link, KEEP_EVENT_ENDED, &event);
    assert_true(keep_lock_is_free(lock_path));
}

static void a_killed_keep_takes_its_worker_with_it(void **state)
{
    (void)state;
    struct run run;
    struct keep_link link;
    struct keep_event event;
    run_make(&run, "murdered", "sh worker.sh");
    script_write(&run, "trap '' TERM\n(setsid sh -c 'echo $$ > orphan; until [ -e go ]; do sleep 0.02; done' &)\n"
                       "until [ -s orphan ]; do sleep 0.02; done\necho $$ > worker\nwhile :; do sleep 0.1; done\n");
    spawn(&run, &link);
    event_wait(&link, KEEP_EVENT_STARTED, &event);
    pid_t worker = pid_wait(&run, "worker");
    pid_t orphan = pid_wait(&run, "orphan");
    assert_int_equal(kill(event.keep_pid, SIGKILL), 0);
    event_wait(&link, KEEP_EVENT_CLOSED, &event);
    WAIT_UNTIL(is_gone(worker));
    /* The kernel kills the worker only; its orphan keeps the slot from being given away. */
    assert_false(is_gone(orphan));
    assert_false(keep_lock_is_free(lock_path));
    struct keep_status status;
    assert_int_equal(keep_status_read(run.directory, &status), ERR_NOT_FOUND);
    touch(&run, "go");
    WAIT_UNTIL(keep_lock_is_free(lock_path));
}

/* ---- without a daemon ---- */

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

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(core_lease_ends_a_run_and_renewal_postpones_it),
        cmocka_unit_test(core_kills_again_and_again_ever_more_slowly),
        cmocka_unit_test(core_told_twice_takes_the_earlier_end),
        cmocka_unit_test(core_worker_that_went_by_itself_stays_exited),
        cmocka_unit_test(core_a_stall_does_not_end_the_lease),
        T(exit_codes_and_signals_are_reported),
        T(whatever_a_shell_can_run_is_an_entrypoint),
        T(a_missing_program_is_127_with_a_message_in_the_log),
        T(the_worker_gets_its_environment_directory_and_session_only),
        T(a_missing_working_directory_is_a_failure_to_start),
        T(bad_specs_and_programs_are_refused_with_a_sentence),
        T(long_paths_are_fine),
        T(a_kill_is_sure_for_what_ignores_sigterm_and_hides),
        T(a_worker_may_use_its_grace_also_a_stopped_one),
        T(what_a_worker_leaves_behind_is_ended_too),
        T(a_held_lock_refuses_the_next_worker),
        T(a_killed_keep_takes_its_worker_with_it),
        T(a_worker_outlives_its_daemon_and_is_adopted),
        T(an_end_that_nobody_saw_is_on_disk),
        T(a_lease_that_nobody_renews_ends_the_worker),
        T(renewing_keeps_a_worker_and_mere_connection_does_not),
        T(scan_tells_broken_and_lost_runs),
        T(nonsense_on_the_socket_disturbs_nothing),
        T(more_daemons_than_places_wait_and_none_is_turned_away),
        T(secrets_stay_out_of_command_lines_logs_and_others_reach),
        T(output_is_capped_with_its_first_and_last_part_kept),
        T(tails_count_lines_with_and_without_newline),
        T(refused_writes_cost_output_but_neither_worker_nor_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
