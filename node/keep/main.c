/* shoal-keep RUN_DIRECTORY, or shoal-keep - PID ROOM (shell.h has the third form): parent, subreaper, slot lock and log of one worker. keep_spawn starts it (node/keep/keep.h
 * has its promises), with the daemon's first connection as descriptor KEEP_FD_LINK, the run's locked spec as
 * KEEP_FD_ALIVE and what the run holds besides as KEEP_FD_HELD. node/keep/core.c decides when to end processes; this
 * file does it. One thread, small, and written so that nothing it needs can fail once the worker runs. */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "node/keep/bars.h"
#include "node/keep/polite.h"
#include "node/keep/proto.h"
#include "node/keep/shell.h"
#include "node/keep/spec.h"
#include "node/keep/stacks.h"
#include "node/keep/tree.h"

#define PEERS_MAX 4 /* connected daemons: one, and perhaps its restarted successor */
#define LISTEN_QUEUE 16
#define PEER_BUFFER_BYTES 256
#define KILL_PASSES 8
#define WAIT_MS_MAX 1000 /* wake up once a second, so that a stall is noticed as one */
#define SESSIONS_MS 5000 /* between two looks for sessions that the run has begun */
#define LAST_MS_MAX 50   /* between two looks for the end of a program that was asked to stop */
#define SCRIPT_MS 10000  /* for the rest of a script whose program was asked to stop and has ended: it may copy results */

struct peer {
    int fd; /* -1: none */
    struct frame_reader reader;
    uint8_t buffer[PEER_BUFFER_BYTES];
};

struct keep {
    const char *directory;
    int directory_fd;
    int status_fd;
    int lock_fds[KEEP_LOCKS_MAX];
    size_t lock_count;
    int held_fd; /* keep_spec.held_fd; -1: nothing is held */
    int signal_fd;
    int listen_fd;
    int output_fd; /* the worker's stdout and stderr; -1: all writers are gone */
    pid_t worker;
    bool worker_is_gone;
    int worker_wait_status;
    bool is_asked;
    struct keep_program asked; /* the processes that got the stop signal, as long as they live */
    uint64_t script_ms;        /* since when none of them lives; 0: one does, or none was asked */
    bool is_stopping; /* the daemon asked the worker to leave */
    struct keep_memory memory, memory_before; /* the last two readings */
    uint64_t memory_ms;                       /* of the last one */
    uint64_t sessions_ms;                     /* when the sessions of the run were looked for last */
    enum keep_memory_cause memory_at_end;
    int stacks_fd; /* a report on the stacks of the processes; -1: none is being written */
    uint64_t stacks_until_ms, stacks_grace_ms; /* the order to end the run waits for the report until then */
    const char *arguments; /* of a worker that a warm process has forked; else NULL */
    size_t argument_bytes;
    struct keep_core core;
    struct keep_log log;
    struct keep_bars bars;
    struct keep_run spec;
    struct peer peers[PEERS_MAX];
};

static uint64_t clock_ms(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0); /* not BOOTTIME: the daemon of a sleeping machine cannot renew */
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- the spec ---- */

static int spec_read(int directory_fd, struct keep_run *out)
{
    uint8_t *bytes;
    size_t count;
    int error = keep_proto_read_file(directory_fd, KEEP_FILE_SPEC, KEEP_SPEC_FILE_BYTES_MAX, &bytes, &count);
    if (error != 0) {
        return error;
    }
    error = keep_run_read(bytes, count, out);
    explicit_bzero(bytes, count);
    free(bytes);
    return error;
}

/* Takes the secrets that the daemon has left in the socket before it started this process. */
static int secrets_read(int fd, struct keep_run *run)
{
    uint8_t *bytes = malloc(run->secret_bytes + 1);
    size_t count = 0;
    int error = bytes == NULL ? ERR_MEMORY : 0;
    while (error == 0 && count < run->secret_bytes) {
        ssize_t n = recv(fd, bytes + count, run->secret_bytes - count, MSG_DONTWAIT);
        if (n > 0) {
            count += (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            error = ERR_CLOSED;
        }
    }
    if (error == 0 && count > 0) {
        error = keep_run_add_secrets(run, bytes, count);
    }
    if (bytes != NULL) {
        explicit_bzero(bytes, run->secret_bytes);
    }
    free(bytes);
    return error;
}

/* ---- telling daemons ---- */

static void peer_close(struct peer *peer)
{
    if (peer->fd >= 0) {
        (void)close(peer->fd);
        frame_reader_close(&peer->reader);
    }
    peer->fd = -1;
}

static void peer_tell_started(struct keep *keep, struct peer *peer)
{
    uint8_t bytes[64];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_array(&writer, 4);
    pack_u64(&writer, KEEP_TOLD_STARTED);
    pack_u64(&writer, KEEP_PROTO_VERSION);
    pack_u64(&writer, (uint64_t)getpid());
    pack_u64(&writer, (uint64_t)keep->worker);
    CHECK(!writer.failed);
    if (keep_proto_send(peer->fd, bytes, writer.used_bytes) != 0) {
        peer_close(peer);
    }
}

static void peers_tell_ended(struct keep *keep, const struct keep_status *status)
{
    uint8_t bytes[KEEP_FRAME_BYTES_MAX];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_array(&writer, 2);
    pack_u64(&writer, KEEP_TOLD_ENDED);
    keep_proto_pack_status(&writer, status);
    CHECK(!writer.failed);
    for (size_t i = 0; i < PEERS_MAX; i++) {
        if (keep->peers[i].fd >= 0) {
            /* A failure is harmless: the status file tells the same. */
            (void)keep_proto_send(keep->peers[i].fd, bytes, writer.used_bytes);
        }
    }
}

/* A free place for a connection; NULL: none. */
static struct peer *peer_place(struct keep *keep)
{
    for (size_t i = 0; i < PEERS_MAX; i++) {
        if (keep->peers[i].fd < 0) {
            return &keep->peers[i];
        }
    }
    return NULL;
}

static void peer_init(struct peer *peer, int fd)
{
    peer->fd = fd;
    frame_reader_init(&peer->reader, peer->buffer, sizeof peer->buffer);
}

static void peer_accept(struct keep *keep)
{
    struct peer *peer = peer_place(keep);
    CHECK(peer != NULL);
    int fd = accept4(keep->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        return;
    }
    struct ucred who;
    socklen_t size = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || who.uid != geteuid()) {
        (void)close(fd);
        return;
    }
    peer_init(peer, fd);
    keep_core_heard(&keep->core, clock_ms());
    peer_tell_started(keep, peer);
}

/* True: the report is on its way, and the order waits for its end. A second order does not wait. */
static bool stacks_begin(struct keep *keep, uint64_t grace_ms)
{
    if (keep->stacks_until_ms != 0 || keep->core.phase != KEEP_RUNNING || keep_stacks_start(&keep->stacks_fd) < 0) {
        return false;
    }
    keep->stacks_until_ms = clock_ms() + KEEP_STACKS_MS_MAX;
    keep->stacks_grace_ms = grace_ms;
    return true;
}

static void stacks_end(struct keep *keep)
{
    if (keep->stacks_fd >= 0) {
        (void)close(keep->stacks_fd);
        keep->stacks_fd = -1;
        keep_core_told(&keep->core, clock_ms(), keep->stacks_grace_ms);
    }
}

static void peer_command(struct keep *keep, const uint8_t *bytes, size_t count)
{
    uint64_t kind, grace_ms;
    bool stacks;
    if (keep_proto_unpack_command(bytes, count, &kind, &grace_ms, &stacks) != 0) {
        return;
    }
    keep_core_heard(&keep->core, clock_ms());
    if (kind == KEEP_COMMAND_KILL && !(stacks && stacks_begin(keep, grace_ms))) {
        keep_core_told(&keep->core, clock_ms(), grace_ms);
    }
    keep->is_stopping |= kind == KEEP_COMMAND_STOPPING;
}

static void peer_read(struct keep *keep, struct peer *peer)
{
    int error = frame_reader_fill(&peer->reader, peer->fd);
    const uint8_t *bytes;
    size_t count;
    int passed_fd;
    while (error == 0 && (error = frame_reader_next(&peer->reader, &bytes, &count, 0, &passed_fd)) == 0) {
        peer_command(keep, bytes, count);
    }
    if (error != ERR_AGAIN) {
        peer_close(peer);
    }
}

/* ---- the end ---- */

/* Writes the status into space that is reserved already, so that a full disk cannot prevent it. Not synced: after a
 * power cut no process of the run lives anyway. */
static void status_write(struct keep *keep, const struct keep_status *status)
{
    uint8_t bytes[KEEP_STATUS_FILE_BYTES];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    keep_proto_pack_status(&writer, status);
    CHECK(!writer.failed);
    if (keep->status_fd < 0 || pwrite(keep->status_fd, bytes, writer.used_bytes, 0) != (ssize_t)writer.used_bytes ||
        ftruncate(keep->status_fd, (off_t)writer.used_bytes) != 0 ||
        renameat(keep->directory_fd, KEEP_FILE_STATUS_NEW, keep->directory_fd, KEEP_FILE_STATUS) != 0) {
        (void)fprintf(stderr, "shoal-keep: the status cannot be written: %s\n", strerror(errno));
    }
}

static void locks_release(struct keep *keep)
{
    for (size_t i = 0; i < keep->lock_count; i++) {
        /* Unlocked explicitly: a copy of the descriptor that escaped (to another process, through a socket) must no
         * longer count, since all processes of this run are known to be gone. */
        (void)flock(keep->lock_fds[i], LOCK_UN);
        (void)close(keep->lock_fds[i]);
    }
    keep->lock_count = 0;
    if (keep->held_fd >= 0) { /* a port's lock is the address of a socket, which ends only with its last copy (base/ports.c) */
        (void)close(keep->held_fd);
    }
    keep->held_fd = -1;
}

static void output_keep(void *context, const uint8_t *bytes, size_t count)
{
    keep_log_append(&((struct keep *)context)->log, bytes, count);
}

static void finish(struct keep *keep, const struct keep_status *status)
{
    keep_log_close(&keep->log);
    status_write(keep, status);
    locks_release(keep);
    peers_tell_ended(keep, status);
    (void)unlinkat(keep->directory_fd, KEEP_FILE_SOCKET, 0);
}

__attribute__((format(printf, 2, 3))) static int finish_not_started(struct keep *keep, const char *format, ...)
{
    struct keep_status status = {.reason = KEEP_NOT_STARTED, .code = -1};
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(status.text, sizeof status.text, format, arguments);
    va_end(arguments);
    finish(keep, &status);
    return 1;
}

/* ---- the start ---- */

static void status_reserve(struct keep *keep)
{
    static const uint8_t zeros[KEEP_STATUS_FILE_BYTES];
    keep->status_fd = openat(keep->directory_fd, KEEP_FILE_STATUS_NEW, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (keep->status_fd >= 0 && pwrite(keep->status_fd, zeros, sizeof zeros, 0) != (ssize_t)sizeof zeros) {
        (void)close(keep->status_fd);
        keep->status_fd = -1;
    }
}

/* Takes all locks. Returns the index of the lock that could not be taken, with errno; -1: all are held. */
static int locks_take(struct keep *keep, const struct keep_run *spec)
{
    for (size_t i = 0; i < spec->lock_count; i++) {
        int fd = open(spec->locks[i], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0) {
            return (int)i;
        }
        keep->lock_fds[keep->lock_count++] = fd;
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            return (int)i;
        }
    }
    return -1;
}

static int listen_open(struct keep *keep)
{
    struct sockaddr_un address;
    keep_proto_address(keep->directory_fd, &address);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    mode_t before = umask(0177);
    int failed = bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 || listen(fd, LISTEN_QUEUE) != 0;
    (void)umask(before);
    if (failed) {
        int error = errno;
        (void)close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* The failed step of the child, sent through a pipe that a successful exec closes. */
struct child_failure {
    char step[64];
    int error;
};

_Noreturn static void child_fail(int report_fd, const char *step)
{
    struct child_failure failure = {.error = errno};
    (void)bytes_copy_text(failure.step, sizeof failure.step, step);
    ssize_t written = write(report_fd, &failure, sizeof failure); /* fits into a pipe: written whole or not at all */
    _exit(written == (ssize_t)sizeof failure ? 126 : 125);
}

/* When memory runs out the kernel shall end the worker, not the daemon or shoal-keep beside it. Raising the own score needs no
 * privilege; a higher score, set by the machine's owner, stays. */
static void oom_prefer_worker(void)
{
    char text[16] = "";
    int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
        if (read(fd, text, sizeof text - 1) > 0 && strtol(text, NULL, 10) < KEEP_OOM_SCORE) {
            (void)dprintf(fd, "%d", KEEP_OOM_SCORE); /* a failure leaves the score as it is */
        }
        (void)close(fd);
    }
}

/* `script`: the file with the command, if the command is too long for an argument; else NULL. */
_Noreturn static void child_run(const struct keep *keep, const struct keep_run *spec, char *script, pid_t parent, int output_fd,
                                int report_fd)
{
    if (setsid() < 0) {
        child_fail(report_fd, "setsid");
    }
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
        child_fail(report_fd, "prctl");
    }
    if (getppid() != parent) {
        _exit(125); /* the parent was killed before the death signal was set */
    }
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0 || dup2(output_fd, STDOUT_FILENO) < 0 ||
        dup2(output_fd, STDERR_FILENO) < 0) {
        child_fail(report_fd, "standard input and output");
    }
    for (size_t i = 0; i < keep->lock_count; i++) {
        /* The worker holds the lock, too: if its parent is killed, the slot stays taken until the last heir of the lock
         * is gone. */
        (void)fcntl(keep->lock_fds[i], F_SETFD, 0);
    }
    if (keep->held_fd >= 0) {
        (void)fcntl(keep->held_fd, F_SETFD, 0);
    }
    for (int signal_number = 1; signal_number < NSIG; signal_number++) {
        (void)signal(signal_number, SIG_DFL);
    }
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)umask(022);
    oom_prefer_worker();
    if (spec->is_polite) {
        keep_polite_process(0);
        (void)keep_polite_session(0);
    }
    if (chdir(spec->working_directory) != 0) {
        child_fail(report_fd, "entering the working directory");
    }
    char option[] = "-o", pipefail[] = "pipefail", run_command[] = "-c", source[] = ". \"$0\"";
    char *const command = script != NULL ? source : spec->command;
    char *const bash[] = {spec->shell, option, pipefail, run_command, command, script, NULL};
    char *const sh[] = {spec->shell, run_command, command, script, NULL};
    (void)execve(spec->shell, spec->is_bash ? bash : sh, spec->environment);
    child_fail(report_fd, "starting the shell");
}

/* Writes a command that is too long for an argument into a file. 0, or -1 with errno. */
static int script_write(const struct keep *keep, const char *command)
{
    size_t bytes = strlen(command), done = 0;
    int fd = openat(keep->directory_fd, KEEP_FILE_SCRIPT, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    while (fd >= 0 && done < bytes) {
        ssize_t n = write(fd, command + done, bytes - done);
        if (n < 0 && errno != EINTR) {
            int error = errno;
            (void)close(fd);
            errno = error;
            return -1;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return fd < 0 ? -1 : close(fd);
}

/* Starts the worker: 0, or -1 with `failure` filled in. */
static int worker_start(struct keep *keep, const struct keep_run *spec, struct child_failure *failure)
{
    int output[2];
    int report[2];
    char path[KEEP_PATH_BYTES + sizeof KEEP_FILE_SCRIPT + 1];
    char *script = strlen(spec->command) >= KEEP_VARIABLE_BYTES ? path : NULL;
    (void)snprintf(path, sizeof path, "%s/%s", keep->directory, KEEP_FILE_SCRIPT);
    if (script != NULL && script_write(keep, spec->command) != 0) {
        (void)bytes_copy_text(failure->step, sizeof failure->step, "writing the entrypoint into a file");
        failure->error = errno;
        return -1;
    }
    (void)bytes_copy_text(failure->step, sizeof failure->step, "making a pipe");
    if (pipe2(output, O_CLOEXEC) != 0) {
        failure->error = errno;
        return -1;
    }
    if (pipe2(report, O_CLOEXEC) != 0) {
        failure->error = errno;
        (void)close(output[0]);
        (void)close(output[1]);
        return -1;
    }
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        child_run(keep, spec, script, parent, output[1], report[1]);
    }
    int fork_error = errno;
    (void)close(output[1]);
    (void)close(report[1]);
    ssize_t n = 0;
    if (pid > 0) {
        do {
            n = read(report[0], failure, sizeof *failure);
        } while (n < 0 && errno == EINTR);
    }
    (void)close(report[0]);
    if (pid < 0 || n == (ssize_t)sizeof *failure) {
        if (pid < 0) {
            (void)bytes_copy_text(failure->step, sizeof failure->step, "fork");
            failure->error = fork_error;
        } else {
            (void)waitpid(pid, NULL, 0);
        }
        (void)close(output[0]);
        return -1;
    }
    keep->worker = pid;
    keep->output_fd = output[0];
    (void)fcntl(keep->output_fd, F_SETFL, O_NONBLOCK);
    return 0;
}

static size_t warm_argument_count(const struct keep *keep)
{
    size_t count = 0;
    for (size_t i = 0; i < keep->argument_bytes; i++) {
        count += keep->arguments[i] == '\0';
    }
    return count;
}

/* Sends the rest of some bytes to the worker. False: errno. */
static bool warm_send_bytes(const char *bytes, size_t count, size_t done)
{
    while (done < count) {
        ssize_t sent = send(KEEP_FD_WARM, bytes + done, count - done, MSG_NOSIGNAL);
        if (sent < 0) {
            return false;
        }
        done += (size_t)sent;
    }
    return true;
}

/* Sends the worker what it begins with: texts, and with their first byte the descriptors. 0, or -1 with errno. */
static int warm_send(const struct keep *keep, const int *fds, size_t fd_count)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE((KEEP_LOCKS_MAX + 2) * sizeof(int))] = {0};
    struct iovec first = {keep->spec.working_directory, strlen(keep->spec.working_directory) + 1};
    struct msghdr message = {.msg_iov = &first,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = CMSG_SPACE(fd_count * sizeof(int))};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(fd_count * sizeof(int))};
    memcpy(CMSG_DATA(header), fds, fd_count * sizeof(int));
    ssize_t sent = sendmsg(KEEP_FD_WARM, &message, MSG_NOSIGNAL);
    size_t done = sent < 0 ? 0 : (size_t)sent;
    bool is_sent = sent >= 0 && warm_send_bytes(first.iov_base, first.iov_len, done);
    char count[24];
    (void)snprintf(count, sizeof count, "%zu", warm_argument_count(keep));
    is_sent = is_sent && warm_send_bytes(count, strlen(count) + 1, 0) && warm_send_bytes(keep->arguments, keep->argument_bytes, 0);
    for (char **variable = keep->spec.environment; is_sent && *variable != NULL; variable++) {
        is_sent = warm_send_bytes(*variable, strlen(*variable) + 1, 0);
    }
    return is_sent ? shutdown(KEEP_FD_WARM, SHUT_WR) : -1;
}

/* Lets the forked worker begin: 0, or -1 with `failure` filled in, and the worker is gone. */
static int warm_start(struct keep *keep, struct child_failure *failure)
{
    int output[2], fds[KEEP_LOCKS_MAX + 2];
    size_t fd_count = 1, used = 0;
    char answer[sizeof failure->step + 16] = "the warm start";
    (void)bytes_copy_text(failure->step, sizeof failure->step, "making a pipe");
    if (pipe2(output, O_CLOEXEC) != 0) {
        failure->error = errno;
        return -1; /* at the end of this process the worker finds its socket closed */
    }
    fds[0] = output[1];
    for (size_t i = 0; i < keep->lock_count; i++) {
        fds[fd_count++] = keep->lock_fds[i];
    }
    if (keep->held_fd >= 0) {
        fds[fd_count++] = keep->held_fd;
    }
    if (keep->spec.is_polite) {
        keep_polite_process(keep->worker); /* as long as it has one thread */
    }
    const struct timeval patience = {.tv_sec = KEEP_WARM_ANSWER_MS / 1000};
    (void)setsockopt(KEEP_FD_WARM, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    (void)setsockopt(KEEP_FD_WARM, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    ssize_t n = warm_send(keep, fds, fd_count);
    while (n >= 0 && used + 1 < sizeof answer && (n = recv(KEEP_FD_WARM, answer + used, sizeof answer - 1 - used, 0)) > 0) {
        used += (size_t)n;
    }
    failure->error = errno;
    (void)close(output[1]);
    (void)close(KEEP_FD_WARM);
    if (n != 0 || used == 0 || answer[0] != '\0') {
        bool is_told = n == 0 && used > strlen(answer) + 1;
        answer[used > 0 ? used : sizeof "the warm start" - 1] = '\0';
        (void)bytes_copy_text(failure->step, sizeof failure->step, answer);
        failure->error = is_told ? (int)strtol(answer + strlen(answer) + 1, NULL, 10) : n < 0 ? failure->error : ECONNRESET;
        (void)kill(keep->worker, SIGKILL);
        (void)waitpid(keep->worker, NULL, 0);
        (void)close(output[0]);
        return -1;
    }
    keep->output_fd = output[0];
    (void)fcntl(keep->output_fd, F_SETFL, O_NONBLOCK);
    return 0;
}

/* ---- running ---- */

/* Moves the report on stacks into the log. */
static void stacks_read(struct keep *keep)
{
    uint8_t bytes[32768];
    ssize_t n = read(keep->stacks_fd, bytes, sizeof bytes);
    if (n > 0) {
        keep_log_append(&keep->log, bytes, (size_t)n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        stacks_end(keep);
    }
}

/* Moves the worker's output into the log: one piece, or `all` that is there. */
static void output_read(struct keep *keep, bool all)
{
    uint8_t bytes[32768];
    while (keep->output_fd >= 0) {
        ssize_t n = read(keep->output_fd, bytes, sizeof bytes);
        if (n > 0) {
            keep_bars_take(&keep->bars, clock_ms(), bytes, (size_t)n);
            if (!all) {
                return;
            }
        } else if (n < 0 && errno == EINTR) {
            continue;
        } else {
            if (n == 0) {
                (void)close(keep->output_fd);
                keep->output_fd = -1;
            }
            return;
        }
    }
}

/* The program has ended once its first process has and, if it was asked to stop, all that were asked: a shell with a trap
 * may end before the program that it runs has saved. A shell that goes on without them gets SCRIPT_MS. */
static void program_look(struct keep *keep)
{
    uint64_t now_ms = clock_ms();
    if (keep->is_asked && keep->script_ms == 0 && keep_program_is_gone(&keep->asked)) {
        keep->script_ms = now_ms;
    }
    bool is_over = keep->is_asked ? keep->script_ms != 0 && (keep->worker_is_gone || now_ms - keep->script_ms >= SCRIPT_MS)
                                  : keep->worker_is_gone;
    if (is_over) {
        keep_core_worker_gone(&keep->core, now_ms);
    }
}

/* Reaps dead children: the worker, and orphans that this subreaper got. */
static void children_reap(struct keep *keep)
{
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG | __WALL);
        if (pid == keep->worker) {
            keep->worker_wait_status = status;
            keep->worker_is_gone = true;
            if ((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) ||
                (WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGKILL)) {
                struct keep_memory now;
                keep_memory_read(&now);
                keep->memory_at_end = keep_memory_compare(&keep->memory_before, &now);
            }
        } else if (pid < 0 && errno == ECHILD) {
            program_look(keep);
            if (keep->core.phase != KEEP_GONE) {
                keep_core_none_left(&keep->core); /* without a child a subreaper has no descendant either */
            }
            return;
        } else if (pid == 0 || (pid < 0 && errno != EINTR)) {
            program_look(keep);
            return;
        }
    }
}

static void signals_read(struct keep *keep)
{
    struct signalfd_siginfo info;
    while (read(keep->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGTERM) {
            keep_core_told(&keep->core, clock_ms(), KEEP_CORE_GRACE_MS); /* the machine shuts down, or a person asks */
        }
    }
}

static int wait_ms(const struct keep *keep)
{
    uint64_t now_ms = clock_ms();
    uint64_t next_ms = keep_core_next_ms(&keep->core), bar_ms = keep_bars_next_ms(&keep->bars);
    next_ms = bar_ms < next_ms ? bar_ms : next_ms;
    uint64_t left_ms = next_ms > now_ms ? next_ms - now_ms : 0;
    uint64_t most_ms = keep->core.phase == KEEP_ASKED ? LAST_MS_MAX : WAIT_MS_MAX;
    return (int)(left_ms < most_ms ? left_ms : most_ms);
}

static void events_wait(struct keep *keep)
{
    struct pollfd items[4 + PEERS_MAX] = {
        {.fd = keep->signal_fd, .events = POLLIN},
        {.fd = keep->output_fd, .events = POLLIN},
        /* With no free place a daemon waits in the queue: accepting and closing its connection would look like the end
         * of the run. */
        {.fd = peer_place(keep) != NULL ? keep->listen_fd : -1, .events = POLLIN},
    };
    for (size_t i = 0; i < PEERS_MAX; i++) {
        items[3 + i] = (struct pollfd){.fd = keep->peers[i].fd, .events = POLLIN};
    }
    items[3 + PEERS_MAX] = (struct pollfd){.fd = keep->stacks_fd, .events = POLLIN};
    int ready = poll(items, 4 + PEERS_MAX, wait_ms(keep));
    if (keep->stacks_fd >= 0 && clock_ms() >= keep->stacks_until_ms) {
        stacks_end(keep);
    }
    keep_bars_tick(&keep->bars, clock_ms());
    if (ready <= 0) {
        return;
    }
    if (items[3 + PEERS_MAX].revents != 0 && keep->stacks_fd >= 0) {
        stacks_read(keep);
    }
    if (items[0].revents != 0) {
        signals_read(keep);
    }
    if (items[1].revents != 0) {
        output_read(keep, false);
    }
    for (size_t i = 0; i < PEERS_MAX; i++) {
        if (items[3 + i].revents != 0) {
            peer_read(keep, &keep->peers[i]);
        }
    }
    if (items[2].revents != 0) {
        peer_accept(keep);
    }
}

/* A few passes in a row: a process that forks and exits all the time escapes one pass, but hardly several. */
static void kill_all(void)
{
    for (int pass = 0; pass < KILL_PASSES; pass++) {
        if (keep_tree_signal(SIGKILL) == 0) {
            return;
        }
    }
}

/* Before children are reaped, so that the readings are from before the worker's death. */
static void memory_look(struct keep *keep)
{
    uint64_t now_ms = clock_ms();
    if (!keep->worker_is_gone && now_ms - keep->memory_ms >= WAIT_MS_MAX) {
        struct keep_memory now;
        keep_memory_read(&now);
        keep->memory_before = keep->memory_ms != 0 ? keep->memory : now;
        keep->memory = now;
        keep->memory_ms = now_ms;
    }
}

/* A program may begin sessions of its own, as `setsid` and launchers of several processes do. */
static void sessions_look(struct keep *keep)
{
    uint64_t now_ms = clock_ms();
    if (!keep->spec.is_polite || (keep->sessions_ms != 0 && now_ms - keep->sessions_ms < SESSIONS_MS)) {
        return;
    }
    keep->sessions_ms = keep_polite_sessions() ? now_ms : now_ms - SESSIONS_MS + WAIT_MS_MAX;
}

static void run(struct keep *keep)
{
    for (;;) {
        memory_look(keep);
        sessions_look(keep);
        children_reap(keep);
        switch (keep_core_tick(&keep->core, clock_ms())) {
        case KEEP_DO_NOTHING:
            events_wait(keep);
            break;
        case KEEP_DO_ASK:
            keep_program_signal(keep->worker, keep->spec.stop_signal, &keep->asked);
            keep->is_asked = true;
            break;
        case KEEP_DO_TERM:
            (void)keep_tree_signal(SIGTERM);
            break;
        case KEEP_DO_KILL:
            kill_all();
            break;
        case KEEP_DO_FINISH:
            return;
        }
    }
}

static void keep_run_to_end(struct keep *keep)
{
    for (size_t i = 0; i < PEERS_MAX; i++) {
        if (keep->peers[i].fd >= 0) {
            peer_tell_started(keep, &keep->peers[i]);
        }
    }
    run(keep);
    output_read(keep, true);
    keep_bars_end(&keep->bars);
    struct keep_status status = {.reason = keep->core.reason, .code = -1, .is_stopping = keep->is_stopping};
    if (WIFEXITED(keep->worker_wait_status)) {
        status.code = WEXITSTATUS(keep->worker_wait_status);
    } else if (WIFSIGNALED(keep->worker_wait_status)) {
        status.signal = WTERMSIG(keep->worker_wait_status);
    }
    status.memory = keep->memory_at_end;
    finish(keep, &status);
}

static int signals_take(struct keep *keep)
{
    sigset_t mine;
    (void)sigemptyset(&mine);
    (void)sigaddset(&mine, SIGCHLD);
    (void)sigaddset(&mine, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &mine, NULL);
    (void)signal(SIGHUP, SIG_IGN);
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGQUIT, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file size limit is a full disk, not the end */
    keep->signal_fd = signalfd(-1, &mine, SFD_CLOEXEC | SFD_NONBLOCK);
    return keep->signal_fd < 0 ? -1 : 0;
}

static int keep_start(struct keep *keep)
{
    struct keep_run *spec = &keep->spec;
    status_reserve(keep);
    if (keep->status_fd < 0) {
        return finish_not_started(keep, "the run directory cannot be written: %s", strerror(errno));
    }
    int error = spec_read(keep->directory_fd, spec);
    if (error != 0) {
        return finish_not_started(keep, "the run's spec cannot be read: %s", err_text(error));
    }
    error = secrets_read(keep->peers[0].fd, spec);
    if (error != 0) {
        return finish_not_started(keep, "the secrets of the run cannot be read: %s", err_text(error));
    }
    int taken = locks_take(keep, spec);
    if (taken >= 0) {
        bool held = errno == EWOULDBLOCK;
        return finish_not_started(keep, "the slot's lock %.120s %s: %s", spec->locks[taken],
                                  held ? "is held: the last worker of the slot may still be alive" : "cannot be taken",
                                  strerror(errno));
    }
    error = keep_tree_check();
    if (error != 0) {
        return finish_not_started(keep, "this kernel or sandbox lacks pidfd or /proc (Linux 5.3 has them): %s",
                                  strerror(-error));
    }
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 || signals_take(keep) != 0) {
        return finish_not_started(keep, "the worker's processes cannot be watched: %s", strerror(errno));
    }
    keep->listen_fd = listen_open(keep);
    if (keep->listen_fd < 0) {
        return finish_not_started(keep, "the run's socket cannot be made: %s", strerror(errno));
    }
    struct child_failure failure = {0};
    if ((keep->worker > 0 ? warm_start(keep, &failure) : worker_start(keep, spec, &failure)) != 0) {
        return finish_not_started(keep, "%.60s failed for %.120s: %s", failure.step, spec->working_directory,
                                  strerror(failure.error));
    }
    keep_run_wipe(spec); /* the worker has its copy of the secrets, and this process forgets them */
    keep_log_init(&keep->log, keep->directory_fd, spec->log_cap_bytes);
    keep->bars = (struct keep_bars){.put = output_keep, .context = keep};
    keep_core_init(&keep->core, clock_ms(), spec->lease_ms);
    keep_run_to_end(keep);
    return 0;
}

/* Waits for the run of a worker that is forked already, and places its descriptors. Returns false when the warm process has ended
 * without one; the worker then finds its socket closed. */
static bool warm_wait(struct keep *keep)
{
    static char packet[KEEP_PATH_BYTES + KEEP_WARM_BYTES_MAX];
    int fds[3];
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof fds)];
    struct iovec all = {packet, sizeof packet};
    struct msghdr message = {.msg_iov = &all, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n;
    do {
        n = recvmsg(KEEP_FD_LINK, &message, MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    struct cmsghdr *header = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    size_t directory_bytes = n > 0 ? strnlen(packet, (size_t)n) + 1 : 0;
    if (header == NULL || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof fds) || packet[n - 1] != '\0' ||
        directory_bytes >= (size_t)n) {
        return false;
    }
    memcpy(fds, CMSG_DATA(header), sizeof fds);
    for (size_t i = 0; i < 3; i++) { /* above the places that they are put into */
        fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, KEEP_FD_WARM + 1);
    }
    bool is_placed = dup2(fds[0], KEEP_FD_LINK) >= 0 && dup2(fds[1], KEEP_FD_ALIVE) >= 0 && dup2(fds[2], KEEP_FD_HELD) >= 0;
    char errors[KEEP_PATH_BYTES + 16];
    (void)snprintf(errors, sizeof errors, "%s/" KEEP_FILE_ERRORS, packet);
    int errors_fd = open(errors, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (errors_fd >= 0) {
        (void)dup2(errors_fd, STDERR_FILENO);
    }
    keep->directory = packet;
    keep->arguments = packet + directory_bytes;
    keep->argument_bytes = (size_t)n - directory_bytes;
    return is_placed;
}

int main(int argc, char **argv)
{
    static struct keep keep;
    char *end = NULL;
    long worker = argc == 4 && strcmp(argv[1], "-") == 0 ? strtol(argv[2], &end, 10) : 0;
    if (argc == 3 && strcmp(argv[1], KEEP_SHELL_MODE) == 0 && fcntl(KEEP_FD_LINK, F_GETFD) >= 0) {
        return keep_shell_main(argv[2]);
    }
    bool is_warm = worker > 0 && worker <= INT_MAX && *end == '\0' && fcntl(KEEP_FD_WARM, F_GETFD) >= 0;
    if ((argc != 2 && !is_warm) || fcntl(KEEP_FD_LINK, F_GETFD) < 0 || (!is_warm && fcntl(KEEP_FD_ALIVE, F_GETFD) < 0)) {
        (void)fprintf(stderr, "shoal-keep (Shoal %s) is started by shoald, once per worker; it cannot be used by hand.\n",
                      SHOAL_VERSION);
        return 2;
    }
    keep.directory = argv[1];
    if (is_warm && !warm_wait(&keep)) {
        return 0;
    }
    if (is_warm) { /* the texts of the arguments lie one behind the other (execve(2)) */
        size_t room = (size_t)(argv[3] + strlen(argv[3]) + 1 - argv[1]);
        memset(argv[1], '\0', room);
        (void)bytes_copy_text(argv[1], room, keep.directory);
    }
    struct stat held; /* daemons of versions before KEEP_FD_HELD do not pass the descriptor */
    bool is_held = fstat(KEEP_FD_HELD, &held) == 0 && !S_ISCHR(held.st_mode);
    /* Descriptors that the daemon's libraries left open without close-on-exec must not live on in the worker. */
    (void)close_range(is_warm ? KEEP_FD_WARM + 1 : is_held ? KEEP_FD_HELD + 1 : KEEP_FD_HELD, ~0u, 0);
    keep.directory_fd = open(keep.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (keep.directory_fd < 0) {
        (void)fprintf(stderr, "shoal-keep: run directory %s cannot be opened: %s\n", keep.directory, strerror(errno));
        return 1;
    }
    pid_t pid = is_warm ? 0 : fork();
    if (pid < 0) {
        (void)fprintf(stderr, "shoal-keep: fork: %s\n", strerror(errno));
        return 1;
    }
    if (pid > 0) {
        _exit(0); /* keep_spawn waits for this process */
    }
    keep.worker = is_warm ? (pid_t)worker : 0;
    if (is_warm) {
        (void)fcntl(KEEP_FD_WARM, F_SETFD, FD_CLOEXEC);
    }
    (void)fcntl(KEEP_FD_LINK, F_SETFD, FD_CLOEXEC);
    (void)fcntl(KEEP_FD_ALIVE, F_SETFD, FD_CLOEXEC);
    if (is_held) {
        (void)fcntl(KEEP_FD_HELD, F_SETFD, FD_CLOEXEC);
    }
    keep.held_fd = is_held ? KEEP_FD_HELD : -1;
    keep.status_fd = -1;
    keep.signal_fd = -1;
    keep.listen_fd = -1;
    keep.output_fd = -1;
    keep.stacks_fd = -1;
    keep.log.fd = -1;
    for (size_t i = 0; i < PEERS_MAX; i++) {
        keep.peers[i].fd = -1;
    }
    peer_init(&keep.peers[0], KEEP_FD_LINK);
    return keep_start(&keep);
}
