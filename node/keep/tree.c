#include "node/keep/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* By number, because C libraries before 2.36 have no names for these calls. */
static int pidfd_of(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static int pidfd_signal(int pidfd, int signal)
{
    return (int)syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, 0);
}

int keep_tree_check(void)
{
    int pidfd = pidfd_of(getpid());
    if (pidfd < 0) {
        return -errno;
    }
    int result = pidfd_signal(pidfd, 0) == 0 ? 0 : -errno;
    (void)close(pidfd);
    return result == 0 && access("/proc/self/stat", R_OK) != 0 ? -errno : result;
}

/* The parent of a process; 0: the process is gone or a zombie. */
static pid_t parent_of(pid_t pid)
{
    char path[48];
    char text[512];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    ssize_t n = read(fd, text, sizeof text - 1);
    (void)close(fd);
    if (n <= 0) {
        return 0;
    }
    text[n] = '\0';
    /* "pid (name) state ppid ...": the name may contain anything, so read on behind the last bracket. */
    const char *after = strrchr(text, ')');
    char state;
    int parent;
    if (after == NULL || sscanf(after + 1, " %c %d", &state, &parent) != 2 || state == 'Z' || state == 'X') {
        return 0;
    }
    return parent;
}

struct process {
    pid_t pid;
    pid_t parent;
    bool below;
};

struct processes {
    struct process *items;
    size_t count;
    size_t capacity;
};

static void processes_list(struct processes *list)
{
    DIR *proc = opendir("/proc");
    if (proc == NULL) {
        return;
    }
    struct dirent *entry;
    while ((entry = readdir(proc)) != NULL) {
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        pid_t parent = *end == '\0' && pid > 0 ? parent_of((pid_t)pid) : 0;
        if (parent == 0) {
            continue;
        }
        if (list->count == list->capacity) {
            size_t capacity = list->capacity == 0 ? 256 : list->capacity * 2;
            struct process *grown = realloc(list->items, capacity * sizeof *grown);
            if (grown == NULL) {
                break; /* signal the processes found so far; the next pass finds more */
            }
            list->items = grown;
            list->capacity = capacity;
        }
        list->items[list->count++] = (struct process){.pid = (pid_t)pid, .parent = parent};
    }
    (void)closedir(proc);
}

static bool is_below(const struct processes *list, pid_t pid, pid_t self)
{
    if (pid == self) {
        return true;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].pid == pid) {
            return list->items[i].below;
        }
    }
    return false;
}

static void processes_mark(struct processes *list, pid_t self)
{
    bool changed = true;
    while (changed) {
        changed = false;
        for (size_t i = 0; i < list->count; i++) {
            struct process *process = &list->items[i];
            if (!process->below && is_below(list, process->parent, self)) {
                process->below = true;
                changed = true;
            }
        }
    }
}

size_t keep_tree_list(pid_t *out, size_t capacity)
{
    struct processes list = {0};
    size_t count = 0;
    processes_list(&list);
    processes_mark(&list, getpid());
    for (size_t i = 0; i < list.count && count < capacity; i++) {
        if (list.items[i].below) {
            out[count++] = list.items[i].pid;
        }
    }
    free(list.items);
    return count;
}

size_t keep_tree_signal(int signal)
{
    pid_t self = getpid();
    struct processes list = {0};
    processes_list(&list);
    processes_mark(&list, self);
    size_t signalled = 0;
    for (size_t i = 0; i < list.count; i++) {
        if (!list.items[i].below) {
            continue;
        }
        /* The descriptor fixes the process before its parent is read, so a pid that was given to a foreign process
         * since the listing is not signalled. */
        int pidfd = pidfd_of(list.items[i].pid);
        if (pidfd < 0) {
            continue;
        }
        pid_t parent = parent_of(list.items[i].pid);
        if (parent != 0 && is_below(&list, parent, self) && pidfd_signal(pidfd, signal) == 0) {
            signalled++;
            if (signal == SIGTERM) {
                (void)pidfd_signal(pidfd, SIGCONT);
            }
        }
        (void)close(pidfd);
    }
    free(list.items);
    return signalled;
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

static bool is_among(const char *name, const char *const *names)
{
    while (*names != NULL && strcmp(name, *names) != 0) {
        names++;
    }
    return *names != NULL;
}

/* By the file that runs, since the name of a script's process is that of the script. */
static bool is_shell(pid_t pid)
{
    static const char *const shells[] = {"sh", "bash", "dash", "zsh", "ksh", "ksh93", "mksh", "ash", "busybox", "fish", NULL};
    char path[48];
    char file[512];
    (void)snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    ssize_t n = readlink(path, file, sizeof file - 1);
    if (n <= 0) {
        return false;
    }
    file[n] = '\0';
    char *deleted = strstr(file, " (deleted)"); /* the shell's package was renewed meanwhile */
    if (deleted != NULL) {
        *deleted = '\0';
    }
    const char *slash = strrchr(file, '/');
    return is_among(slash != NULL ? slash + 1 : file, shells);
}

static bool is_filter(pid_t pid)
{
    static const char *const filters[] = {"tee", "cat", "grep", "egrep", "sed", "awk", "gawk", "mawk", "ts", "tr",
                                          "cut", "head", "tail", "uniq", "sort", "stdbuf", "logger", NULL};
    char path[48];
    char name[32] = "";
    struct stat input;
    (void)snprintf(path, sizeof path, "/proc/%d/fd/0", (int)pid);
    if (stat(path, &input) != 0 || !S_ISFIFO(input.st_mode)) {
        return false;
    }
    (void)snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, name, sizeof name - 1) : 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    name[n > 0 ? n : 0] = '\0';
    name[strcspn(name, "\n")] = '\0';
    return is_among(name, filters);
}

/* True if the process has a handler of its own for the signal. */
static bool has_handler(pid_t pid, int signal)
{
    char path[48];
    char text[4096];
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t n = read(fd, text, sizeof text - 1);
    (void)close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *line = strstr(text, "SigCgt:");
    unsigned long long mask = line != NULL ? strtoull(line + 7, NULL, 16) : 0;
    return (mask >> (signal - 1) & 1) != 0;
}

/* `parent` is 0 for the first process, which is a child of this one. */
static void program_add(struct keep_program *program, pid_t pid, pid_t parent, int signal)
{
    int pidfd = program->count < KEEP_PROGRAM_MAX ? pidfd_of(pid) : -1;
    if (pidfd < 0) {
        return;
    }
    pid_t now = parent_of(pid); /* read after the descriptor has fixed the process: see keep_tree_signal */
    bool is_meant = now != 0 && (parent == 0 || now == parent || now == getpid());
    if (!is_meant || pidfd_signal(pidfd, signal) != 0) {
        (void)close(pidfd);
        return;
    }
    (void)pidfd_signal(pidfd, SIGCONT);
    program->pidfds[program->count++] = pidfd;
}

/* `depth` bounds the way through shells that a program makes while it is looked at. */
static void signal_below(const struct processes *list, pid_t pid, pid_t parent, int signal, int depth, struct keep_program *out)
{
    size_t before = out->count;
    if (depth > 0 && is_shell(pid)) {
        for (int filters = 0; filters < 2 && out->count == before; filters++) {
            for (size_t i = 0; i < list->count; i++) {
                bool is_child = list->items[i].parent == pid;
                if (is_child && is_filter(list->items[i].pid) == (filters == 1)) {
                    signal_below(list, list->items[i].pid, pid, signal, depth - 1, out);
                }
            }
        }
        if (out->count > before && !has_handler(pid, signal)) {
            return;
        }
    }
    program_add(out, pid, parent, signal);
}

void keep_program_signal(pid_t main, int signal, struct keep_program *out)
{
    struct processes list = {0};
    processes_list(&list);
    *out = (struct keep_program){.count = 0};
    signal_below(&list, main, 0, signal, 8, out);
    free(list.items);
}

bool keep_program_is_gone(struct keep_program *program)
{
    for (size_t i = program->count; i-- > 0;) {
        struct pollfd one = {.fd = program->pidfds[i], .events = POLLIN};
        if (poll(&one, 1, 0) != 0) {
            (void)close(program->pidfds[i]);
            program->pidfds[i] = program->pidfds[--program->count];
        }
    }
    return program->count == 0;
}
