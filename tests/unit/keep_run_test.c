/* Workers start, end by themselves, or are ended. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/ports.h"
#include "node/keep/text_file.h"
#include "tests/unit/keep_fixture.h"

static void file_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void script_write(const struct run *run, const char *text)
{
    char path[700];
    (void)snprintf(path, sizeof path, "%s/worker.sh", run->work);
    file_write(path, text);
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
        /* What people write for bash, and its pipefail. */
        {"source ./names && exit $NUMBER", 12, 0},
        {". ./names", 0, 0},
        {"[[ abc == a* ]] && exit 13", 13, 0},
        {"set -o pipefail && exit 14", 14, 0},
        {"sh -c 'exit 15' 2>&1 | cat", 15, 0},
        {"sh -c 'exit 16' | cat; exit 17", 17, 0},
        {"sh -c 'exit 18'; true", 0, 0},
        {"sh -c $'exit 19'", 19, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "shell%zu", i);
        struct run run;
        struct keep_link link;
        run_make(&run, name, cases[i].entrypoint);
        char path[700];
        (void)snprintf(path, sizeof path, "%s/names", run.work);
        file_write(path, "NUMBER=12\n");
        spawn(&run, &link);
        struct keep_status status = end_wait(&link);
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
    run_make(&run, "clean", "sh -c 'env | grep -v -e ^SHLVL= -e ^_= | sort; pwd; cat; ls -1 /proc/self/fd | wc -l; cut -d\" \" -f6 /proc/$$/stat; echo $$; "
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

/* The sessions of the run are looked for once it runs, and again while the kernel takes no change. */
static bool is_least_session(pid_t pid)
{
    char text[64];
    return !keep_text_read(text, sizeof text, "/proc/%d/autogroup", (int)pid) || strstr(text, "nice 19") != NULL;
}

static void a_polite_run_has_the_lowest_priority(void **state)
{
    (void)state;
    struct run run;
    struct keep_link link;
    struct keep_event event;
    run_make(&run, "polite", "setsid sh -c 'echo $$ > session.new; mv session.new session; exec sleep 900' & exec sleep 900");
    run.spec.is_polite = true;
    spawn(&run, &link);
    event_wait(&link, KEEP_EVENT_STARTED, &event);
    pid_t session = pid_wait(&run, "session");
    assert_int_equal(sched_getscheduler(event.worker_pid), SCHED_IDLE);
    assert_int_equal(sched_getscheduler(session), SCHED_IDLE);
    assert_int_equal(sched_getscheduler(event.keep_pid), sched_getscheduler(0));
    WAIT_UNTIL(is_least_session(event.worker_pid) && is_least_session(session));
    assert_true(!is_least_session(event.keep_pid) || access("/proc/self/autogroup", R_OK) != 0);
    assert_int_equal(keep_kill(&link, 0), 0);
    event_wait(&link, KEEP_EVENT_ENDED, &event);
    assert_int_equal(event.status.reason, KEEP_KILLED);
}

static void a_variable_is_as_long_as_the_kernel_takes(void **state)
{
    (void)state;
    struct run run;
    struct keep_link link;
    char *longest = malloc(KEEP_VARIABLE_BYTES + 1), error[KEEP_ERROR_BYTES] = "";
    assert_non_null(longest);
    memset(longest, 'x', KEEP_VARIABLE_BYTES);
    longest[KEEP_VARIABLE_BYTES] = '\0';
    memcpy(longest, "LONG=", 5);
    const char *const environment[] = {"PATH=/usr/bin:/bin", longest};
    run_make(&run, "too_long", "true");
    run.spec.environment = environment;
    assert_int_equal(keep_spawn(KEEP_PROGRAM, &run.spec, &link, error), ERR_USAGE);
    assert_non_null(strstr(error, "LONG has 131072 bytes"));
    longest[KEEP_VARIABLE_BYTES - 1] = '\0';
    run_make(&run, "longest", "[ ${#LONG} = 131066 ]");
    run.spec.environment = environment;
    spawn(&run, &link);
    assert_int_equal(end_wait(&link).code, 0);
    const char *many[128] = {"PATH=/usr/bin:/bin"};
    for (size_t i = 1; i < 128; i++) {
        many[i] = longest;
    }
    run_make(&run, "many", "true");
    run.spec.environment = many;
    run.spec.environment_count = 128;
    assert_int_equal(keep_spawn(KEEP_PROGRAM, &run.spec, &link, error), ERR_USAGE);
    assert_non_null(strstr(error, "this machine's kernel takes"));
    free(longest);
}

static void secrets_reach_the_worker_and_no_file(void **state)
{
    (void)state;
    struct run run;
    struct keep_link link;
    char *secrets[33], path[700], error[KEEP_ERROR_BYTES] = "";
    struct stat info;
    for (int i = 0; i < 33; i++) { /* as many as a configuration names, each as long as it can be */
        secrets[i] = malloc(4096 + 8);
        assert_non_null(secrets[i]);
        int head = snprintf(secrets[i], 8, "S%02d=", i);
        memset(secrets[i] + head, 'v', 4096);
        secrets[i][head + 4096] = '\0';
    }
    run_make(&run, "secrets", "[ ${#S00} = 4096 ] && [ ${#S31} = 4096 ] && [ -n \"$MARK\" ] && ! env | grep -q S32=");
    run.spec.secrets = (const char *const *)secrets;
    run.spec.secret_count = 32;
    spawn(&run, &link);
    assert_int_equal(end_wait(&link).code, 0);
    (void)snprintf(path, sizeof path, "%s/spec", run.directory);
    assert_int_equal(stat(path, &info), 0);
    assert_true(info.st_size < 4096);
    run_make(&run, "too_many", "true");
    run.spec.secrets = (const char *const *)secrets;
    run.spec.secret_count = KEEP_SECRETS_MAX + 1;
    assert_int_equal(keep_spawn(KEEP_PROGRAM, &run.spec, &link, error), ERR_USAGE);
    assert_non_null(strstr(error, "65 secrets are too many"));
    for (int i = 0; i < 33; i++) {
        free(secrets[i]);
    }
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

/* A program with a helper that it needs while it saves: the helper dies of any SIGTERM. */
static void saves_with_its_helper(const char *name, const char *entrypoint, int32_t code)
{
    struct run run;
    struct keep_link link;
    struct keep_event event;
    run_make(&run, name, entrypoint);
    script_write(&run, "import os, signal, subprocess, sys, time\n"
                       "helper = subprocess.Popen(['sleep', '1000'])\n"
                       "def save(number, frame):\n"
                       "    time.sleep(0.3)\n"
                       "    print('helper', helper.poll(), flush=True)\n"
                       "    open('saved', 'w').write('x')\n"
                       "    os._exit(5)\n"
                       "signal.signal(signal.SIGTERM, save)\n"
                       "signal.signal(signal.SIGUSR1, save)\n"
                       "open('helper.new', 'w').write('%d\\n' % helper.pid)\n"
                       "os.rename('helper.new', 'helper')\n"
                       "while True: time.sleep(1)\n");
    run.spec.stop_signal = strstr(name, "usr1") != NULL ? SIGUSR1 : 0;
    spawn(&run, &link);
    event_wait(&link, KEEP_EVENT_STARTED, &event);
    pid_t helper = pid_wait(&run, "helper");
    assert_int_equal(keep_kill(&link, 25000), 0);
    event_wait(&link, KEEP_EVENT_ENDED, &event);
    print_message("%s: %s", entrypoint, log_text(run.directory));
    assert_non_null(strstr(log_text(run.directory), "helper None\n"));
    assert_int_equal(event.status.reason, KEEP_KILLED);
    assert_int_equal(event.status.code, code);
    assert_true(is_gone(helper));
}

static void a_program_keeps_its_helpers_until_it_has_saved(void **state)
{
    (void)state;
    saves_with_its_helper("bare", "python3 worker.sh", 5);
    saves_with_its_helper("usr1", "python3 worker.sh", 5);
    saves_with_its_helper("below", "python3 worker.sh; exit $?", 5);
    saves_with_its_helper("twice", "bash -c 'python3 worker.sh; exit $?'; exit $?", 5);
    saves_with_its_helper("trap", "trap 'exit 6' TERM; python3 worker.sh & wait; exit 0", 6);
    saves_with_its_helper("after", "python3 worker.sh; test -e saved && exit 9", 9);
}

static void a_filter_gets_the_last_words_of_its_program(void **state)
{
    (void)state;
    struct run run;
    struct keep_link link;
    struct keep_event event;
    run_make(&run, "filter", "python3 worker.sh | tee copy");
    script_write(&run, "import os, signal, sys, time\n"
                       "def save(number, frame):\n"
                       "    time.sleep(0.3)\n"
                       "    print('saved', flush=True)\n"
                       "    sys.exit(0)\n"
                       "signal.signal(signal.SIGTERM, save)\n"
                       "open('ready.new', 'w').write('%d\\n' % os.getpid())\n"
                       "os.rename('ready.new', 'ready')\n"
                       "while True: time.sleep(1)\n");
    spawn(&run, &link);
    event_wait(&link, KEEP_EVENT_STARTED, &event);
    (void)pid_wait(&run, "ready");
    assert_int_equal(keep_kill(&link, 25000), 0);
    event_wait(&link, KEEP_EVENT_ENDED, &event);
    assert_int_equal(event.status.code, 0);
    assert_non_null(strstr(log_text(run.directory), "saved\n"));
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

/* Whether the lock of a port is free; takes nothing for longer than the call. */
static bool port_is_free(uint16_t port)
{
    uint16_t got;
    int lock;
    if (ports_lock((struct ports){port, port}, 0, &got, &lock) != 0) {
        return false;
    }
    (void)close(lock);
    return true;
}

static void a_port_is_held_from_before_the_start_to_the_last_process(void **state)
{
    (void)state;
    struct run run;
    struct keep_link link;
    struct keep_event event;
    uint16_t port;
    int lock;
    assert_int_equal(ports_lock((struct ports){7821, 7899}, 0, &port, &lock), 0);
    run_make(&run, "holds", "sh worker.sh");
    script_write(&run, "(setsid sh -c 'echo $$ > orphan; until [ -e go ]; do sleep 0.02; done' &)\n"
                       "until [ -s orphan ]; do sleep 0.02; done\necho $$ > worker\nwhile :; do sleep 0.1; done\n");
    run.spec.held_fd = lock;
    spawn(&run, &link);
    (void)close(lock);
    assert_false(port_is_free(port));
    event_wait(&link, KEEP_EVENT_STARTED, &event);
    pid_t worker = pid_wait(&run, "worker");
    assert_int_equal(kill(event.keep_pid, SIGKILL), 0);
    event_wait(&link, KEEP_EVENT_CLOSED, &event);
    WAIT_UNTIL(is_gone(worker));
    assert_false(port_is_free(port)); /* the orphan may use it */
    touch(&run, "go");
    WAIT_UNTIL(port_is_free(port));
}

static void a_held_port_is_free_when_the_end_is_told(void **state)
{
    (void)state;
    struct run run;
    struct keep_link link;
    uint16_t port;
    int lock;
    assert_int_equal(ports_lock((struct ports){7821, 7899}, 0, &port, &lock), 0);
    run_make(&run, "held", "true");
    run.spec.held_fd = lock;
    spawn(&run, &link);
    (void)close(lock);
    (void)end_wait(&link);
    assert_true(port_is_free(port));
}

/* A daemon that still runs after an upgrade passes two descriptors only. */
static void an_older_daemon_passes_nothing_to_hold(void **state)
{
    (void)state;
    struct run run;
    struct keep_link link;
    char program[700], text[1000], error[KEEP_ERROR_BYTES] = "";
    run_make(&run, "older", "exit 7");
    (void)snprintf(program, sizeof program, "%s/older-keep", root);
    (void)snprintf(text, sizeof text, "#!/bin/sh\nexec 5>&-\nexec %s \"$@\"\n", KEEP_PROGRAM);
    file_write(program, text);
    assert_int_equal(chmod(program, 0700), 0);
    assert_int_equal(keep_spawn(program, &run.spec, &link, error), 0);
    struct keep_status status = end_wait(&link);
    assert_int_equal(status.reason, KEEP_EXITED);
    assert_int_equal(status.code, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(exit_codes_and_signals_are_reported),
        T(whatever_a_shell_can_run_is_an_entrypoint),
        T(a_missing_program_is_127_with_a_message_in_the_log),
        T(the_worker_gets_its_environment_directory_and_session_only),
        T(secrets_reach_the_worker_and_no_file),
        T(a_polite_run_has_the_lowest_priority),
        T(a_variable_is_as_long_as_the_kernel_takes),
        T(a_missing_working_directory_is_a_failure_to_start),
        T(bad_specs_and_programs_are_refused_with_a_sentence),
        T(long_paths_are_fine),
        T(a_kill_is_sure_for_what_ignores_sigterm_and_hides),
        T(a_worker_may_use_its_grace_also_a_stopped_one),
        T(a_program_keeps_its_helpers_until_it_has_saved),
        T(a_filter_gets_the_last_words_of_its_program),
        T(what_a_worker_leaves_behind_is_ended_too),
        T(a_held_lock_refuses_the_next_worker),
        T(a_killed_keep_takes_its_worker_with_it),
        T(a_port_is_held_from_before_the_start_to_the_last_process),
        T(an_older_daemon_passes_nothing_to_hold),
        T(a_held_port_is_free_when_the_end_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
