#include "node/keep/keep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "node/keep/processes.h"
#include "node/keep/proto.h"
#include "node/keep/shell.h"
#include "node/keep/spec.h"

/* Above the descriptors that shoal-keep expects, so that setting those up overwrites no other. */
#define FD_SAFE_MIN 16
#define CONNECT_TRIES 50
#define CONNECT_TRY_MS 20

__attribute__((format(printf, 3, 4))) static int fail(char error[KEEP_ERROR_BYTES], int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(error, KEEP_ERROR_BYTES, format, arguments);
    va_end(arguments);
    return code;
}

static int code_of_errno(int error_number)
{
    return error_number == ENOSPC || error_number == EDQUOT ? ERR_NO_SPACE
           : error_number == ENOMEM                         ? ERR_MEMORY
                                                            : ERR_IO;
}

static void link_init(struct keep_link *link, const char *run_directory, int fd)
{
    *link = (struct keep_link){.fd = fd};
    (void)bytes_copy_text(link->run_directory, sizeof link->run_directory, run_directory);
    frame_reader_init(&link->reader, NULL, sizeof link->buffer);
}

/* ---- the spec on disk ---- */

#define ARGUMENTS_BYTES_MAX (6 * 1024 * 1024) /* Linux takes no more, however large the stack may become */
#define ARGUMENTS_SPARE_BYTES 8192 /* of what the kernel takes: the shell's own arguments, and what the kernel adds */

/* Linux starts no program with a variable of KEEP_VARIABLE_BYTES, nor with more than a share of the stack in all (execve(2)). An
 * entrypoint as long goes into a file. */
static int texts_check(const struct keep_spec *spec, char error[KEEP_ERROR_BYTES])
{
    long most = sysconf(_SC_ARG_MAX);
    most = most > 0 && most < ARGUMENTS_BYTES_MAX ? most : ARGUMENTS_BYTES_MAX;
    bool is_argument = strlen(spec->entrypoint) < KEEP_VARIABLE_BYTES;
    size_t bytes = (is_argument ? strlen(spec->entrypoint) : 0) + ARGUMENTS_SPARE_BYTES;
    for (size_t i = 0; i < spec->environment_count; i++) {
        const char *variable = spec->environment[i];
        bytes += strlen(variable) + 1 + sizeof(char *);
        if (strlen(variable) >= KEEP_VARIABLE_BYTES) {
            return fail(error, ERR_USAGE, "the variable %.*s has %zu bytes, and the kernel takes fewer than %u",
                        (int)(strcspn(variable, "=") < 100 ? strcspn(variable, "=") : 100), variable, strlen(variable),
                        KEEP_VARIABLE_BYTES);
        }
    }
    for (size_t i = 0; i < spec->secret_count; i++) {
        bytes += strlen(spec->secrets[i]) + 1 + sizeof(char *);
    }
    if (bytes > (size_t)most || keep_spec_bytes(spec) > KEEP_SPEC_FILE_BYTES_MAX) {
        return fail(error, ERR_USAGE,
                    "the worker's environment and entrypoint have %zu bytes, and this machine's kernel takes %ld (a quarter of "
                    "ulimit -s)",
                    bytes, most);
    }
    return 0;
}

static int spec_check(const struct keep_spec *spec, char error[KEEP_ERROR_BYTES])
{
    if (spec->run_directory[0] != '/' || strlen(spec->run_directory) >= KEEP_PATH_BYTES) {
        return fail(error, ERR_USAGE, "run directory %.200s is not an absolute path of fewer than %d chars",
                    spec->run_directory, KEEP_PATH_BYTES);
    }
    if (spec->working_directory[0] != '/') {
        return fail(error, ERR_USAGE, "working directory %.200s is not an absolute path", spec->working_directory);
    }
    if (spec->environment_count > KEEP_ENVIRONMENT_MAX) {
        return fail(error, ERR_USAGE, "the worker's environment has %zu variables, at most %d are allowed",
                    spec->environment_count, KEEP_ENVIRONMENT_MAX);
    }
    if (spec->secret_count > KEEP_SECRETS_MAX || keep_spec_secret_bytes(spec) > KEEP_SECRETS_BYTES_MAX) {
        return fail(error, ERR_USAGE, "the worker's %zu secrets are too many or too large; at most %d of %u bytes in all are allowed",
                    spec->secret_count, KEEP_SECRETS_MAX, KEEP_SECRETS_BYTES_MAX);
    }
    if (spec->lock_count > KEEP_LOCKS_MAX || spec->identity_bytes > KEEP_IDENTITY_BYTES_MAX || spec->lease_ms == 0 ||
        spec->log_cap_bytes < KEEP_LOG_CAP_BYTES_MIN) {
        return fail(error, ERR_USAGE, "a run has %zu locks, %zu bytes of identity, a lease of %llu ms or a log cap of "
                                      "%llu bytes: one is out of range",
                    spec->lock_count, spec->identity_bytes, (unsigned long long)spec->lease_ms,
                    (unsigned long long)spec->log_cap_bytes);
    }
    return texts_check(spec, error);
}

/* Writes a private file, whole or not at all, and returns its descriptor; -errno on failure. */
static int file_write(int directory_fd, const char *name, const uint8_t *bytes, size_t count)
{
    char temporary[64];
    (void)snprintf(temporary, sizeof temporary, "%s.new", name);
    int fd = openat(directory_fd, temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -errno;
    }
    size_t done = 0;
    while (done < count) {
        ssize_t n = write(fd, bytes + done, count - done);
        if (n < 0 && errno != EINTR) {
            int error = -errno;
            (void)close(fd);
            (void)unlinkat(directory_fd, temporary, 0);
            return error;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    if (renameat(directory_fd, temporary, directory_fd, name) != 0) {
        int error = -errno;
        (void)close(fd);
        return error;
    }
    return fd;
}

static int token_write(int directory_fd, const lease_token *token)
{
    char text[2 * TOKEN_BYTES + 2];
    bytes_to_hex(text, token->bytes, TOKEN_BYTES);
    text[2 * TOKEN_BYTES] = '\n';
    int fd = file_write(directory_fd, KEEP_FILE_TOKEN, (const uint8_t *)text, 2 * TOKEN_BYTES + 1);
    explicit_bzero(text, sizeof text);
    if (fd >= 0) {
        (void)close(fd);
        return 0;
    }
    return fd;
}

static int token_read(int directory_fd, lease_token *out)
{
    uint8_t *text;
    size_t count;
    int error = keep_proto_read_file(directory_fd, KEEP_FILE_TOKEN, 2 * TOKEN_BYTES + 1, &text, &count);
    if (error != 0) {
        return error;
    }
    if (count == 2 * TOKEN_BYTES + 1) {
        text[2 * TOKEN_BYTES] = '\0';
    }
    error = count < 2 * TOKEN_BYTES ? ERR_MALFORMED : bytes_from_hex(out->bytes, TOKEN_BYTES, (const char *)text);
    explicit_bzero(text, count);
    free(text);
    return error;
}

/* Writes token and spec; `*alive_fd` is the descriptor of the spec, locked. */
static int run_prepare(const struct keep_spec *spec, int *alive_fd, char error[KEEP_ERROR_BYTES])
{
    int directory_fd = open(spec->run_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory_fd < 0) {
        return fail(error, code_of_errno(errno), "run directory %.200s cannot be opened: %s", spec->run_directory,
                    strerror(errno));
    }
    int result = 0;
    size_t room = keep_spec_bytes(spec);
    uint8_t *bytes = malloc(room);
    if (bytes == NULL) {
        result = fail(error, ERR_MEMORY, "no memory is left to start a worker");
        goto out_directory;
    }
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, room);
    keep_spec_pack(&writer, spec);
    CHECK(!writer.failed);
    if (faccessat(directory_fd, KEEP_FILE_SPEC, F_OK, 0) == 0) {
        result = fail(error, ERR_USAGE, "run directory %.200s has been used before; each run needs a new one",
                      spec->run_directory);
        goto out_bytes;
    }
    int failed = token_write(directory_fd, &spec->token);
    int fd = failed != 0 ? failed : file_write(directory_fd, KEEP_FILE_SPEC, bytes, writer.used_bytes);
    if (fd < 0) {
        result = fail(error, code_of_errno(-fd), "run directory %.200s cannot be written: %s", spec->run_directory,
                      strerror(-fd));
        goto out_bytes;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        result = fail(error, ERR_IO, "%.200s/" KEEP_FILE_SPEC " cannot be locked: %s", spec->run_directory,
                      strerror(errno));
        (void)close(fd);
        goto out_bytes;
    }
    *alive_fd = fd;
out_bytes:
    explicit_bzero(bytes, writer.used_bytes);
    free(bytes);
out_directory:
    (void)close(directory_fd);
    return result;
}

/* ---- starting ---- */

/* Moves a descriptor above the low numbers and closes the old one. -1 with errno on failure. */
static int fd_lift(int fd)
{
    int lifted = fcntl(fd, F_DUPFD_CLOEXEC, FD_SAFE_MIN);
    int error = errno;
    (void)close(fd);
    errno = error;
    return lifted;
}

/* Runs `program RUN_DIRECTORY` in a new session. The program forks and its first process exits at once, so that the
 * daemon is not its parent: there is no child to reap, and a restarted daemon has the same position. Returns errno. */
static int program_start(const char *program, const char *run_directory, int link_fd, int alive_fd, int held_fd)
{
    char errors_path[KEEP_PATH_BYTES + 16];
    (void)snprintf(errors_path, sizeof errors_path, "%s/" KEEP_FILE_ERRORS, run_directory);
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        return error;
    }
    pid_t pid;
    if ((error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDWR, 0)) != 0 ||
        (error = posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDOUT_FILENO)) != 0 ||
        (error = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors_path,
                                                  O_WRONLY | O_CREAT | O_APPEND, 0600)) != 0 ||
        (error = posix_spawn_file_actions_adddup2(&actions, link_fd, KEEP_FD_LINK)) != 0 ||
        (error = posix_spawn_file_actions_adddup2(&actions, alive_fd, KEEP_FD_ALIVE)) != 0 ||
        (error = posix_spawn_file_actions_adddup2(&actions, held_fd, KEEP_FD_HELD)) != 0) {
        goto out;
    }
    char name[] = "shoal-keep";
    char *const argv[] = {name, (char *)(uintptr_t)run_directory, NULL};
    char *const environment[] = {NULL};
    error = keep_process_start(&pid, program, &actions, argv, environment);
    if (error == 0) {
        /* ECHILD: other code in this process reaps all children, or ignores SIGCHLD. The child is gone in any case. */
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
out:
    (void)posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* The secrets in a file that is only in memory, at its begin. -1: errno. */
static int secrets_hold(const char *const *secrets, size_t count)
{
    int fd = memfd_create("secrets", MFD_CLOEXEC), lifted = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FD_SAFE_MIN);
    bool is_whole = lifted >= 0;
    for (size_t i = 0; i < count && is_whole; i++) {
        size_t bytes = strlen(secrets[i]) + 1;
        is_whole = write(lifted, secrets[i], bytes) == (ssize_t)bytes;
    }
    is_whole = is_whole && lseek(lifted, 0, SEEK_SET) == 0;
    int error = errno;
    if (fd >= 0) {
        (void)close(fd);
    }
    if (!is_whole && lifted >= 0) {
        (void)close(lifted);
    }
    errno = error;
    return is_whole ? lifted : -1;
}

int keep_shell_start(const char *program, const char *run_directory, int fd, const char *const *secrets, size_t secret_count,
                     pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    int lifted = fcntl(fd, F_DUPFD_CLOEXEC, FD_SAFE_MIN), held = -1, error = lifted < 0 ? errno : 0;
    if (error == 0 && secret_count > 0 && (held = secrets_hold(secrets, secret_count)) < 0) {
        error = errno;
    }
    if (error != 0 || (error = posix_spawn_file_actions_init(&actions)) != 0) {
        for (int i = 0; i < 2; i++) {
            int open = i == 0 ? lifted : held;
            if (open >= 0) {
                (void)close(open);
            }
        }
        errno = error;
        return code_of_errno(error);
    }
    char name[] = "shoal-keep", mode[] = KEEP_SHELL_MODE;
    char *const argv[] = {name, mode, (char *)(uintptr_t)run_directory, NULL};
    char *const environment[] = {NULL};
    if ((error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDWR, 0)) == 0 &&
        (error = posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDOUT_FILENO)) == 0 &&
        (error = posix_spawn_file_actions_adddup2(&actions, lifted, KEEP_FD_LINK)) == 0 &&
        (held < 0 || (error = posix_spawn_file_actions_adddup2(&actions, held, KEEP_FD_SECRETS)) == 0)) {
        error = keep_process_start(pid, program, &actions, argv, environment);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(lifted);
    if (held >= 0) {
        (void)close(held);
    }
    errno = error;
    return error == 0 ? 0 : code_of_errno(error);
}

/* Hands the run to a warm process. Returns errno. */
static int warm_start(const struct keep_warm *warm, const char *run_directory, int link_fd, int alive_fd, int held_fd)
{
    int fds[] = {link_fd, alive_fd, held_fd};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof fds)] = {0};
    struct iovec parts[] = {{(void *)(uintptr_t)run_directory, strlen(run_directory) + 1},
                            {(void *)(uintptr_t)warm->arguments, warm->argument_bytes}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fds)};
    memcpy(CMSG_DATA(header), fds, sizeof fds);
    ssize_t sent;
    do {
        sent = sendmsg(warm->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? errno : 0;
}

/* Leaves the secrets in the socket, where shoal-keep finds them before all else: so they are on no disk. Returns errno. */
static int secrets_send(const struct keep_spec *spec, int fd)
{
    size_t room = keep_spec_secret_bytes(spec);
    int size = (int)(2 * KEEP_SECRETS_BYTES_MAX);
    uint8_t *bytes = spec->secret_count > 0 ? malloc(room) : NULL;
    struct pack_writer writer;
    if (spec->secret_count == 0 || bytes == NULL) {
        return spec->secret_count > 0 ? ENOMEM : 0;
    }
    pack_writer_init(&writer, bytes, room);
    keep_spec_pack_secrets(&writer, spec);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    ssize_t sent = writer.used_bytes != room ? -1 : send(fd, bytes, room, MSG_NOSIGNAL | MSG_DONTWAIT);
    explicit_bzero(bytes, room);
    free(bytes);
    return sent == (ssize_t)room ? 0 : ENOBUFS;
}

/* keep_spawn, or with `warm` keep_spawn_warm (and `program` is NULL). */
static int spawn(const char *program, const struct keep_spec *spec, const struct keep_warm *warm, struct keep_link *out,
                 char error[KEEP_ERROR_BYTES])
{
    int result = spec_check(spec, error);
    if (result != 0) {
        return result;
    }
    int alive_fd = -1;
    result = run_prepare(spec, &alive_fd, error);
    if (result != 0) {
        return result;
    }
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
        (void)close(alive_fd);
        return fail(error, ERR_IO, "no socket for shoal-keep can be made: %s", strerror(errno));
    }
    alive_fd = fd_lift(alive_fd);
    pair[1] = fd_lift(pair[1]);
    int held_fd = spec->held_fd != 0 ? fcntl(spec->held_fd, F_DUPFD_CLOEXEC, FD_SAFE_MIN) : STDIN_FILENO; /* 0 is /dev/null */
    int failed = alive_fd < 0 || pair[1] < 0 || held_fd < 0 ? EMFILE : secrets_send(spec, pair[0]);
    failed = failed != 0 ? failed
                 : warm != NULL ? warm_start(warm, spec->run_directory, pair[1], alive_fd, held_fd)
                                : program_start(program, spec->run_directory, pair[1], alive_fd, held_fd);
    if (held_fd > STDIN_FILENO) {
        (void)close(held_fd);
    }
    if (alive_fd >= 0) {
        (void)close(alive_fd);
    }
    if (pair[1] >= 0) {
        (void)close(pair[1]);
    }
    if (failed != 0) {
        (void)close(pair[0]);
        int code = warm == NULL ? code_of_errno(failed) : failed == EAGAIN ? ERR_AGAIN : ERR_CLOSED;
        return fail(error, code, "%.200s cannot be started: %s", warm != NULL ? "the warm process" : program, strerror(failed));
    }
    link_init(out, spec->run_directory, pair[0]);
    return 0;
}

int keep_spawn(const char *program, const struct keep_spec *spec, struct keep_link *out, char error[KEEP_ERROR_BYTES])
{
    return spawn(program, spec, NULL, out, error);
}

int keep_spawn_warm(const struct keep_spec *spec, const struct keep_warm *warm, struct keep_link *out, char error[KEEP_ERROR_BYTES])
{
    if (warm->argument_bytes == 0 || warm->argument_bytes > KEEP_WARM_BYTES_MAX ||
        warm->arguments[warm->argument_bytes - 1] != '\0') {
        return fail(error, ERR_USAGE, "%zu bytes of arguments are none, or too many, for a warm process", warm->argument_bytes);
    }
    return spawn(NULL, spec, warm, out, error);
}

void keep_unspawn(const char *run_directory)
{
    static const char *const names[] = {KEEP_FILE_SPEC, KEEP_FILE_TOKEN};
    int directory_fd = open(run_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; directory_fd >= 0 && i < sizeof names / sizeof names[0]; i++) {
        (void)unlinkat(directory_fd, names[i], 0);
    }
    if (directory_fd >= 0) {
        (void)close(directory_fd);
    }
}

/* ---- the link ---- */

/* 0: a shoal-keep of the run is alive. ERR_NOT_FOUND: none is, or there is no such run. */
static int run_is_alive(int directory_fd)
{
    int fd = openat(directory_fd, KEEP_FILE_SPEC, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? ERR_NOT_FOUND : ERR_IO;
    }
    int result = flock(fd, LOCK_SH | LOCK_NB) == 0 ? ERR_NOT_FOUND : errno == EWOULDBLOCK ? 0 : ERR_IO;
    (void)close(fd);
    return result;
}

static int run_connect(int directory_fd, const char *run_directory, struct keep_link *out)
{
    int result = run_is_alive(directory_fd);
    if (result != 0) {
        return result;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return ERR_IO;
    }
    struct sockaddr_un address;
    keep_proto_address(directory_fd, &address);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        (void)close(fd);
        return errno == ENOENT || errno == ECONNREFUSED || errno == EAGAIN ? ERR_AGAIN : ERR_IO;
    }
    link_init(out, run_directory, fd);
    return 0;
}

int keep_connect(const char *run_directory, struct keep_link *out)
{
    if (strlen(run_directory) >= KEEP_PATH_BYTES) {
        return ERR_USAGE;
    }
    int directory_fd = open(run_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory_fd < 0) {
        return errno == ENOENT ? ERR_NOT_FOUND : ERR_IO;
    }
    int result = run_connect(directory_fd, run_directory, out);
    (void)close(directory_fd);
    return result;
}

void keep_close(struct keep_link *link)
{
    if (link->fd >= 0) {
        (void)close(link->fd);
        frame_reader_close(&link->reader);
    }
    link->fd = -1;
}

static int send_bare(struct keep_link *link, enum keep_command command)
{
    if (link->fd < 0) {
        return ERR_CLOSED;
    }
    uint8_t bytes[16];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_array(&writer, 1);
    pack_u64(&writer, command);
    return keep_proto_send(link->fd, bytes, writer.used_bytes);
}

int keep_renew(struct keep_link *link)
{
    return send_bare(link, KEEP_COMMAND_PING);
}

static int send_kill(struct keep_link *link, uint64_t grace_ms, bool stacks)
{
    if (link->fd < 0) {
        return ERR_CLOSED;
    }
    uint8_t bytes[32];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_array(&writer, stacks ? 3 : 2);
    pack_u64(&writer, KEEP_COMMAND_KILL);
    pack_u64(&writer, grace_ms);
    if (stacks) {
        pack_bool(&writer, true);
    }
    return keep_proto_send(link->fd, bytes, writer.used_bytes);
}

int keep_kill(struct keep_link *link, uint64_t grace_ms)
{
    return send_kill(link, grace_ms, false);
}

int keep_kill_hung(struct keep_link *link, uint64_t grace_ms)
{
    return send_kill(link, grace_ms, true);
}

int keep_stopping(struct keep_link *link)
{
    return send_bare(link, KEEP_COMMAND_STOPPING);
}

/* The event for a shoal-keep that is gone or sends malformed frames: the status file decides. */
static int event_of_end(struct keep_link *link, struct keep_event *out)
{
    struct keep_event event = {.kind = KEEP_EVENT_CLOSED};
    if (keep_status_read(link->run_directory, &event.status) == 0) {
        event.kind = KEEP_EVENT_ENDED;
    }
    keep_close(link);
    *out = event;
    return 0;
}

int keep_read_event(struct keep_link *link, struct keep_event *out)
{
    if (link->fd < 0) {
        return ERR_AGAIN;
    }
    link->reader.buffer = link->buffer; /* the link may have been copied */
    for (;;) {
        const uint8_t *bytes;
        size_t count;
        int passed_fd;
        int error = frame_reader_next(&link->reader, &bytes, &count, 0, &passed_fd);
        if (error == 0) {
            error = keep_proto_unpack_event(bytes, count, out);
            if (error == 0 && out->kind == KEEP_EVENT_ENDED) {
                keep_close(link);
            }
            if (error == ERR_AGAIN) {
                continue;
            }
            return error == 0 ? 0 : event_of_end(link, out);
        }
        if (error == ERR_AGAIN) {
            error = frame_reader_fill(&link->reader, link->fd);
            if (error == 0) {
                continue;
            }
        }
        return error == ERR_AGAIN ? ERR_AGAIN : event_of_end(link, out);
    }
}

static int status_read_at(int directory_fd, struct keep_status *out)
{
    uint8_t *bytes;
    size_t count;
    int error = keep_proto_read_file(directory_fd, KEEP_FILE_STATUS, KEEP_STATUS_FILE_BYTES, &bytes, &count);
    if (error != 0) {
        return error;
    }
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    error = keep_proto_unpack_status(&reader, out);
    free(bytes);
    return error;
}

int keep_status_read(const char *run_directory, struct keep_status *out)
{
    int directory_fd = open(run_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory_fd < 0) {
        return errno == ENOENT ? ERR_NOT_FOUND : ERR_IO;
    }
    int result = status_read_at(directory_fd, out);
    (void)close(directory_fd);
    return result;
}

bool keep_lock_is_free(const char *lock_path)
{
    int fd = open(lock_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT;
    }
    bool is_free = flock(fd, LOCK_SH | LOCK_NB) == 0;
    (void)close(fd);
    return is_free;
}

/* ---- adoption ---- */

static int identity_read(int directory_fd, struct keep_found *found)
{
    uint8_t *bytes;
    size_t count;
    int error = keep_proto_read_file(directory_fd, KEEP_FILE_SPEC, KEEP_SPEC_FILE_BYTES_MAX, &bytes, &count);
    if (error != 0) {
        return error;
    }
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    struct pack_reader value = pack_find(&reader, "identity");
    size_t identity_bytes;
    const uint8_t *identity = pack_read_bin(&value, &identity_bytes);
    if (value.failed || identity_bytes > sizeof found->identity) {
        error = ERR_MALFORMED;
    } else {
        memcpy(found->identity, identity, identity_bytes);
        found->identity_bytes = identity_bytes;
    }
    explicit_bzero(bytes, count);
    free(bytes);
    return error;
}

static enum keep_state run_find(int directory_fd, struct keep_found *found)
{
    if (identity_read(directory_fd, found) != 0 || token_read(directory_fd, &found->token) != 0) {
        return KEEP_STATE_BROKEN;
    }
    for (int tries = 0; tries < CONNECT_TRIES; tries++) {
        int error = run_connect(directory_fd, found->run_directory, &found->link);
        if (error == 0) {
            return KEEP_STATE_RUNNING;
        }
        if (error == ERR_NOT_FOUND) {
            /* it is dead, so a missing status will never appear */
            return status_read_at(directory_fd, &found->status) == 0 ? KEEP_STATE_ENDED : KEEP_STATE_LOST;
        }
        /* It is alive without a socket: in its first or last milliseconds. */
        (void)poll(NULL, 0, CONNECT_TRY_MS);
    }
    return KEEP_STATE_BUSY;
}

int keep_scan(const char *runs_directory, void (*found)(void *context, struct keep_found *found), void *context)
{
    DIR *directory = opendir(runs_directory);
    if (directory == NULL) {
        return errno == ENOENT ? 0 : ERR_IO;
    }
    struct keep_found *one = malloc(sizeof *one);
    if (one == NULL) {
        (void)closedir(directory);
        return ERR_MEMORY;
    }
    struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        memset(one, 0, sizeof *one);
        one->link.fd = -1;
        int length =
            snprintf(one->run_directory, sizeof one->run_directory, "%s/%s", runs_directory, entry->d_name);
        int fd = length > 0 && (size_t)length < sizeof one->run_directory
                     ? openat(dirfd(directory), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                     : -1;
        if (fd < 0) {
            continue;
        }
        (void)bytes_copy_text(one->name, sizeof one->name, entry->d_name);
        one->state = run_find(fd, one);
        found(context, one);
        keep_close(&one->link);
        (void)close(fd);
    }
    explicit_bzero(one, sizeof *one);
    free(one);
    (void)closedir(directory);
    return 0;
}
