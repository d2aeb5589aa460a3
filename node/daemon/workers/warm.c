#include "node/daemon/workers/warm.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/format.h"
#include "base/shift.h"
#include "node/daemon/workers/workers.h"
#include "node/keep/processes.h"
#include "store/hash.h"

#define FD_SOCKET 3 /* as warm.py has them */
#define FD_SCRIPT 4
#define FD_SAFE_MIN 16
#define ROOM "SHOAL_WARM_ROOM=000000000000000000000000000000000000000000000000" /* as long as SHOAL_TOKEN with its value, and more */
#define TITLE_BYTES 1024

/* warm.py as a text with a NUL at its end. */
static const char script[] = {
#include <warm_script.h>
};

enum warm_state {
    WARM_NONE,
    WARM_IMPORTING, /* trials wait in its socket */
    WARM_READY,
    WARM_REFUSED, /* nothing runs: the next `patience` trials of the experiment begin cold, and `why` says why */
};

struct warm {
    enum warm_state state;
    uint64_t id; /* as daemon_worker.warm_id of the workers that it has */
    hash256 key;
    experiment_id experiment;
    pid_t pid; /* 0: none; it may still be there in every state, until it is reaped */
    int fd;    /* IMPORTING, READY: its socket */
    int output_fd; /* what its imports have written */
    uint64_t began_ms, used_ms;
    uint64_t slots; /* a bit for each slot that it has served */
    uint32_t trials;
    uint32_t patience, cold_trials; /* REFUSED */
    char why[WARM_WHY_BYTES];
};

struct daemon_warm {
    struct warm items[WARM_MAX];
    uint64_t last_id;
    bool memory_is_short;
};

static struct daemon_warm *warm_of(struct daemon *daemon)
{
    if (daemon->workers->warm == NULL) {
        daemon->workers->warm = calloc(1, sizeof *daemon->workers->warm);
    }
    return daemon->workers->warm;
}

static bool lives(const struct warm *warm)
{
    return warm->state == WARM_IMPORTING || warm->state == WARM_READY;
}

/* ---- which process --------------------------------------------------------------------------------------------------- */

static void add_text(struct hash_stream *stream, const char *text)
{
    hash_stream_add(stream, text, strlen(text) + 1);
}

/* The interpreter, its options, and the script or module; later arguments differ between trials. */
static hash256 key_of(const experiment_id *experiment, const hash256 *code, const struct worker_start *start,
                      const struct warm_command *command)
{
    struct hash_stream stream;
    size_t main = strlen(command->text + command->arguments) + 1;
    main += strcmp(command->text + command->arguments, "-m") == 0 ? strlen(command->text + command->arguments + main) + 1 : 0;
    hash_stream_init(&stream);
    hash_stream_add(&stream, experiment->bytes, sizeof experiment->bytes);
    hash_stream_add(&stream, code->bytes, sizeof code->bytes);
    add_text(&stream, command->choice != NULL ? command->choice : "");
    hash_stream_add(&stream, command->text, command->arguments + main);
    for (size_t i = 0; i < start->count; i++) {
        if (!warm_differs(start->variables[i])) {
            add_text(&stream, start->variables[i]);
        }
    }
    return hash_stream_finish(&stream);
}

static struct warm *find(struct daemon_warm *all, const hash256 *key)
{
    for (uint32_t i = 0; i < WARM_MAX; i++) {
        if (all->items[i].state != WARM_NONE && memcmp(all->items[i].key.bytes, key->bytes, HASH_BYTES) == 0) {
            return &all->items[i];
        }
    }
    return NULL;
}

/* ---- the end of a process ---------------------------------------------------------------------------------------- */

/* Reaps the process if it has ended. False: it has not. */
static bool reap(struct warm *warm)
{
    int status;
    if (warm->pid != 0 && waitpid(warm->pid, &status, WNOHANG) == 0) {
        return false;
    }
    warm->pid = 0;
    return true;
}

static void close_fds(struct warm *warm)
{
    if (warm->fd > 0) {
        (void)close(warm->fd);
    }
    if (warm->output_fd > 0) {
        (void)close(warm->output_fd);
    }
    warm->fd = warm->output_fd = 0;
}

/* Ends a process. `why`, for the trials that wait for it; `stays`: the next trials of the same kind begin cold, too. */
static void end(struct daemon *daemon, struct warm *warm, bool stays, const char *why)
{
    if (warm->pid != 0) {
        (void)kill(-warm->pid, SIGKILL); /* and what the imports have started; trials are in sessions of their own */
        (void)kill(warm->pid, SIGKILL);  /* before it has its session */
    }
    for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
        struct daemon_worker *worker = &daemon->workers->slots[slot];
        if (warm->id != 0 && worker->warm_id == warm->id) {
            bytes_copy_text(worker->warm_why, sizeof worker->warm_why, why);
        }
    }
    bytes_copy_text(warm->why, sizeof warm->why, why);
    close_fds(warm);
    (void)reap(warm);
    warm->state = stays ? WARM_REFUSED : WARM_NONE;
}

/* The last line that a process has written; "": none. */
static void last_line(int output_fd, char line[WARM_WHY_BYTES / 2])
{
    char text[WARM_WHY_BYTES];
    off_t size = lseek(output_fd, 0, SEEK_END);
    off_t from = size > (off_t)sizeof text - 1 ? size - ((off_t)sizeof text - 1) : 0;
    ssize_t n = size > 0 ? pread(output_fd, text, sizeof text - 1, from) : 0;
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\0')) {
        n--;
    }
    text[n > 0 ? n : 0] = '\0';
    const char *newline = strrchr(text, '\n');
    bytes_copy_text(line, WARM_WHY_BYTES / 2, newline != NULL ? newline + 1 : text);
}

/* ---- the start of a process -------------------------------------------------------------------------------------- */

/* A copy of the descriptor above those that the process expects. Closes the old one. */
static int lift(int fd)
{
    int lifted = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, FD_SAFE_MIN) : -1;
    if (fd >= 0) {
        (void)close(fd);
    }
    return lifted;
}

static int script_fd(void)
{
    int fd = lift(memfd_create("shoal-warm", MFD_CLOEXEC));
    if (fd >= 0 && write(fd, script, sizeof script - 1) != (ssize_t)(sizeof script - 1)) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* Runs the interpreter on the script. Returns errno. */
static int program_start(const struct warm_command *command, const struct worker_start *start, const char *work, int socket_fd,
                         int output_fd, pid_t *pid)
{
    char title[TITLE_BYTES], file[32], option[] = "-c", shell[] = "sh", env[] = "env", room[] = ROOM;
    char *choice = NULL;
    char **arguments = calloc(command->arguments + 8, sizeof *arguments); /* more than there are words */
    char **variables = calloc(start->count + 2, sizeof *variables);
    int script_file = script_fd(), error = ENOMEM;
    size_t count = 0, variable_count = 0;
    posix_spawn_file_actions_t actions;
    memset(title, ' ', sizeof title);
    title[sizeof title - 1] = '\0';
    (void)snprintf(file, sizeof file, "/proc/self/fd/%d", FD_SCRIPT);
    if (arguments == NULL || variables == NULL || script_file < 0 || posix_spawn_file_actions_init(&actions) != 0) {
        goto out;
    }
    if (command->choice != NULL) { /* env and sh find the interpreter by the PATH of the worker */
        size_t bytes = strlen(command->choice) + sizeof "exec \"$p\" \"$@\"";
        choice = malloc(bytes);
        if (choice == NULL) {
            goto out_actions;
        }
        (void)snprintf(choice, bytes, "%.*s\"$p\" \"$@\"", (int)(strlen(command->choice) - strlen("\"$p\" ")), command->choice);
        arguments[count++] = shell;
        arguments[count++] = option;
        arguments[count++] = choice;
        arguments[count++] = shell;
    } else {
        arguments[count++] = env;
    }
    for (size_t at = 0; at < command->arguments; at += strlen(command->text + at) + 1) {
        arguments[count++] = command->text + at;
    }
    arguments[count++] = file;
    arguments[count++] = title;
    variables[variable_count++] = room;
    for (size_t i = 0; i < start->count; i++) {
        if (!warm_differs(start->variables[i])) {
            variables[variable_count++] = start->variables[i];
        }
    }
    if ((error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)) == 0 &&
        (error = posix_spawn_file_actions_adddup2(&actions, output_fd, STDOUT_FILENO)) == 0 &&
        (error = posix_spawn_file_actions_adddup2(&actions, output_fd, STDERR_FILENO)) == 0 &&
        (error = posix_spawn_file_actions_adddup2(&actions, socket_fd, FD_SOCKET)) == 0 &&
        (error = posix_spawn_file_actions_adddup2(&actions, script_file, FD_SCRIPT)) == 0 &&
        (error = posix_spawn_file_actions_addclosefrom_np(&actions, FD_SCRIPT + 1)) == 0 && /* that libraries have left open */
        (error = posix_spawn_file_actions_addchdir_np(&actions, work)) == 0) {
        error = keep_process_start(pid, command->choice != NULL ? "/bin/sh" : "/usr/bin/env", &actions, arguments, variables);
    }
out_actions:
    (void)posix_spawn_file_actions_destroy(&actions);
out:
    if (script_file >= 0) {
        (void)close(script_file);
    }
    free(choice);
    free(arguments);
    free(variables);
    return error;
}

/* Tells the process what its trials run under, where the code is and what its command is. */
static bool order_imports(const struct daemon *daemon, int fd, const char *work, const struct warm_command *command)
{
    struct iovec parts[] = {{(void *)(uintptr_t)daemon->keep_program, strlen(daemon->keep_program) + 1},
                            {(void *)(uintptr_t)work, strlen(work) + 1},
                            {command->text + command->arguments, command->bytes - command->arguments - 1}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
}

/* Starts a process. 0, or ERR_USAGE with `why`. */
static int begin(const struct daemon *daemon, struct warm *warm, const struct warm_command *command, const struct worker_start *start, const char *directory,
                 char why[WARM_WHY_BYTES])
{
    char work[KEEP_PATH_BYTES + 8];
    int pair[2];
    (void)snprintf(work, sizeof work, "%s/work", directory);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
        (void)snprintf(why, WARM_WHY_BYTES, "no warm process can be started: %s", strerror(errno));
        return ERR_USAGE;
    }
    (void)fcntl(pair[1], F_SETFL, 0); /* the process waits for its packets */
    pair[1] = lift(pair[1]);
    warm->output_fd = lift(memfd_create("shoal-warm-output", MFD_CLOEXEC));
    warm->fd = pair[0];
    int error = pair[1] < 0 || warm->output_fd < 0 ? EMFILE : program_start(command, start, work, pair[1], warm->output_fd, &warm->pid);
    if (pair[1] >= 0) {
        (void)close(pair[1]);
    }
    bool is_on_its_way = error == 0 && (order_imports(daemon, warm->fd, work, command) || errno == EPIPE); /* then the socket tells its end */
    if (is_on_its_way) {
        warm->state = WARM_IMPORTING;
        return 0;
    }
    (void)snprintf(why, WARM_WHY_BYTES, "no warm process can be started: %s", strerror(error != 0 ? error : errno));
    if (warm->pid != 0) {
        (void)kill(warm->pid, SIGKILL);
    }
    warm->fd = error == 0 ? warm->fd : pair[0];
    close_fds(warm);
    return ERR_USAGE;
}

/* A place for a process: a free one, else that of the one which was used least recently. NULL: all of them have just begun. */
static struct warm *place(struct daemon *daemon)
{
    struct daemon_warm *all = daemon->workers->warm;
    struct warm *oldest = NULL;
    for (uint32_t i = 0; i < WARM_MAX; i++) {
        struct warm *warm = &all->items[i];
        if (warm->state == WARM_NONE && reap(warm)) {
            return warm;
        }
        bool may_go = warm->state == WARM_READY || (warm->state == WARM_REFUSED && warm->pid == 0);
        oldest = may_go && (oldest == NULL || warm->used_ms < oldest->used_ms) ? warm : oldest;
    }
    if (oldest != NULL) {
        end(daemon, oldest, false, "its warm process has made room for another");
    }
    return oldest != NULL && reap(oldest) ? oldest : NULL;
}

/* Why one more trial begins cold. What the imports need may come later (a package, a file, memory), so they are tried again. */
static void refuse(struct warm *warm, char why[WARM_WHY_BYTES])
{
    warm->cold_trials += warm->cold_trials < warm->patience;
    uint32_t left = warm->patience - warm->cold_trials;
    if (left > 0) {
        (void)format_text(why, WARM_WHY_BYTES, "%s; after %u more trials on this node its imports are tried again", warm->why, left);
    } else {
        (void)format_text(why, WARM_WHY_BYTES, "%s; with the next trial on this node its imports are tried again", warm->why);
    }
}

static int take(struct daemon *daemon, uint32_t slot, const experiment_id *experiment, hash256 code, const struct worker_start *start,
                const char *directory, const struct warm_command *command, struct warm_start *out, char why[WARM_WHY_BYTES])
{
    struct daemon_warm *all = warm_of(daemon);
    hash256 key = key_of(experiment, &code, start, command);
    struct warm *warm = all != NULL ? find(all, &key) : NULL;
    uint64_t now_ms = daemon_now_ms();
    bool is_due = warm != NULL && warm->state == WARM_REFUSED && warm->cold_trials >= warm->patience && !all->memory_is_short && reap(warm);
    if (warm == NULL || is_due) {
        uint32_t patience = is_due && warm->patience <= UINT32_MAX / 2 ? warm->patience * 2 : WARM_PATIENCE;
        warm = is_due ? warm : all != NULL && !all->memory_is_short ? place(daemon) : NULL;
        if (warm == NULL) {
            (void)snprintf(why, WARM_WHY_BYTES, "%s", "memory for a warm process is short");
            return ERR_USAGE;
        }
        *warm = (struct warm){.id = ++all->last_id, .key = key, .experiment = *experiment, .began_ms = now_ms, .patience = patience};
        int code_of_start = begin(daemon, warm, command, start, directory, why);
        if (code_of_start != 0) {
            return code_of_start;
        }
    }
    if (warm->state == WARM_REFUSED) {
        refuse(warm, why);
        return ERR_USAGE;
    }
    out->fd = fcntl(warm->fd, F_DUPFD_CLOEXEC, 0);
    out->argument_bytes = command->bytes - command->arguments;
    out->arguments = malloc(out->argument_bytes);
    if (out->fd < 0 || out->arguments == NULL) {
        out->fd = out->fd < 0 ? 0 : out->fd;
        warm_start_close(out);
        (void)snprintf(why, WARM_WHY_BYTES, "%s", "memory or descriptors are short");
        return ERR_USAGE;
    }
    memcpy(out->arguments, command->text + command->arguments, out->argument_bytes);
    warm->used_ms = now_ms;
    warm->slots |= UINT64_C(1) << slot;
    warm->trials++;
    daemon->workers->slots[slot].warm_id = warm->id;
    daemon->workers->slots[slot].warm_again = false;
    bytes_copy_text(daemon->workers->slots[slot].warm_why, WARM_WHY_BYTES, "its warm process could not be forked");
    return 0;
}

int daemon_warm_take(struct daemon *daemon, uint32_t slot, const attempt_id *attempt, hash256 code, const struct worker_start *start,
                     const char *directory, struct warm_start *out, char why[WARM_WHY_BYTES])
{
    struct warm_command command;
    *out = (struct warm_start){0};
    int result = warm_command_read(start->entrypoint, &command, why);
    if (result != 0) {
        (void)(result == ERR_MEMORY ? snprintf(why, WARM_WHY_BYTES, "%s", "memory is short") : 0);
        return ERR_USAGE;
    }
    if (command.bytes - command.arguments > KEEP_WARM_BYTES_MAX) {
        (void)snprintf(why, WARM_WHY_BYTES, "its command has more than %u bytes", KEEP_WARM_BYTES_MAX);
        result = ERR_USAGE;
    } else {
        result = take(daemon, slot, &attempt->experiment, code, start, directory, &command, out, why);
    }
    warm_command_close(&command);
    return result;
}

void warm_start_close(struct warm_start *start)
{
    if (start->fd > 0) {
        (void)close(start->fd);
    }
    free(start->arguments);
    *start = (struct warm_start){0};
}

/* ---- what the processes say -------------------------------------------------------------------------------------- */

void daemon_warm_give_up(struct daemon *daemon, uint32_t slot)
{
    struct daemon_warm *all = daemon->workers->warm;
    uint64_t id = daemon->workers->slots[slot].warm_id;
    for (uint32_t i = 0; all != NULL && i < WARM_MAX; i++) {
        if (all->items[i].state != WARM_IMPORTING || all->items[i].id != id) {
            continue;
        }
        end(daemon, &all->items[i], false, "its warm process was ended before its imports were done");
        for (uint32_t other = 0; other < daemon->slot_count; other++) {
            daemon->workers->slots[other].warm_again |= other != slot && daemon->workers->slots[other].warm_id == id;
        }
    }
}

uint32_t daemon_warm_fds(const struct daemon *daemon, int fds[WARM_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; daemon->workers->warm != NULL && i < WARM_MAX; i++) {
        if (lives(&daemon->workers->warm->items[i])) {
            fds[count++] = daemon->workers->warm->items[i].fd;
        }
    }
    return count;
}

static void poll_one(struct daemon *daemon, struct warm *warm)
{
    char text[WARM_WHY_BYTES], line[WARM_WHY_BYTES / 2];
    ssize_t n = recv(warm->fd, text, sizeof text - 1, MSG_DONTWAIT);
    if (n < 0 && errno == ECONNRESET) { /* it has ended with trials unread, and what it has said is still to be read */
        n = recv(warm->fd, text, sizeof text - 1, MSG_DONTWAIT);
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    text[n > 0 ? n : 0] = '\0';
    if (strcmp(text, "ready") == 0) {
        warm->state = WARM_READY;
        daemon_line_of(daemon, event_of_kind(EVENT_WORKER_WARM),
                       "a warm process (%d) is ready: its imports took %llu ms", (int)warm->pid,
                       (unsigned long long)(daemon_now_ms() - warm->began_ms));
        return;
    }
    if (strncmp(text, "cold ", 5) == 0) {
        end(daemon, warm, true, text + 5);
        return;
    }
    bool was_ready = warm->state == WARM_READY;
    last_line(warm->output_fd, line);
    (void)snprintf(text, sizeof text, "its warm process has ended%s%s%s", was_ready ? "" : " during its imports", line[0] != '\0' ? ": " : "",
                   line);
    end(daemon, warm, !was_ready, text);
}

void daemon_warm_poll(struct daemon *daemon)
{
    struct daemon_warm *all = daemon->workers->warm;
    for (uint32_t i = 0; all != NULL && i < WARM_MAX; i++) {
        if (lives(&all->items[i])) {
            poll_one(daemon, &all->items[i]);
        }
    }
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

static bool memory_is_short(void)
{
    char line[128];
    unsigned long long value, total = 0, available = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        total = sscanf(line, "MemTotal: %llu", &value) == 1 ? value : total;
        available = sscanf(line, "MemAvailable: %llu", &value) == 1 ? value : available;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return total > 0 && warm_memory_is_short(available, total);
}

static void tick_one(struct daemon *daemon, struct daemon_warm *all, struct warm *warm, uint64_t now_ms)
{
    const struct view_experiment *experiment = view_find_experiment(node_core_view(daemon->core), warm->experiment);
    bool is_over = experiment == NULL || !view_experiment_live(experiment);
    if (is_over) {
        end(daemon, warm, false, "its experiment is over");
    } else if (all->memory_is_short && lives(warm)) {
        daemon_line_of(daemon, event_of_kind(EVENT_WORKER_WARM),
                       "a warm process (%d) ends: less than a tenth of the memory is available", (int)warm->pid);
        end(daemon, warm, false, "memory for its warm process is short");
    } else if (warm->state == WARM_READY && now_ms >= warm->used_ms + WARM_IDLE_MS) {
        end(daemon, warm, false, "its warm process was idle");
    } else if (warm->state == WARM_IMPORTING && now_ms >= warm->began_ms + WARM_IMPORT_MS) {
        end(daemon, warm, true, "the imports of its warm process take too long");
    }
}

void daemon_warm_tick(struct daemon *daemon, uint64_t now_ms)
{
    struct daemon_warm *all = daemon->workers->warm;
    if (all == NULL) {
        return;
    }
    all->memory_is_short = memory_is_short();
    for (uint32_t i = 0; i < WARM_MAX; i++) {
        (void)reap(&all->items[i]);
        if (all->items[i].state != WARM_NONE) {
            tick_one(daemon, all, &all->items[i], now_ms);
        }
    }
}

void daemon_warm_awake(struct daemon *daemon, uint64_t gap_ms)
{
    for (uint32_t i = 0; daemon->workers->warm != NULL && i < WARM_MAX; i++) {
        time_shift(&daemon->workers->warm->items[i].began_ms, gap_ms);
        time_shift(&daemon->workers->warm->items[i].used_ms, gap_ms);
    }
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

/* The resident memory of a process, with what it shares with its trials. */
static uint64_t memory_of(pid_t pid)
{
    char path[48];
    unsigned long long size, resident = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL || fscanf(file, "%llu %llu", &size, &resident) != 2) {
        resident = 0;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint32_t daemon_warm_list(const struct daemon *daemon, struct render_warm out[WARM_MAX])
{
    uint32_t count = 0;
    uint64_t now_ms = daemon_now_ms();
    for (uint32_t i = 0; daemon->workers->warm != NULL && i < WARM_MAX; i++) {
        const struct warm *warm = &daemon->workers->warm->items[i];
        if (lives(warm)) {
            out[count++] = (struct render_warm){.slots = warm->slots,
                                                .experiment = warm->experiment,
                                                .pid = (uint32_t)warm->pid,
                                                .is_ready = warm->state == WARM_READY,
                                                .trials = warm->trials,
                                                .memory_bytes = memory_of(warm->pid),
                                                .idle_s = (now_ms - warm->used_ms) / 1000};
        }
    }
    return count;
}

void daemon_warm_close(struct daemon *daemon)
{
    struct daemon_warm *all = daemon->workers->warm;
    for (uint32_t i = 0; all != NULL && i < WARM_MAX; i++) {
        end(daemon, &all->items[i], false, "the daemon ends");
    }
    free(all);
    daemon->workers->warm = NULL;
}
