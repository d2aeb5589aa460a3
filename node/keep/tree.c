#include "node/keep/tree.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/keep/processes.h"
#include "node/keep/text_file.h"

int keep_tree_check(void)
{
    int pidfd = keep_process_open(getpid());
    if (pidfd < 0) {
        return -errno;
    }
    int result = keep_process_signal(pidfd, 0) == 0 ? 0 : -errno;
    (void)close(pidfd);
    return result == 0 && access("/proc/self/stat", R_OK) != 0 ? -errno : result;
}

static bool is_alive(const struct keep_process *process)
{
    return process->state != 'Z' && process->state != 'X';
}

/* The parent of a process; 0: the process is gone or a zombie. */
static pid_t parent_of(pid_t pid)
{
    struct keep_process process;
    return keep_process_read(pid, &process) && is_alive(&process) ? process.parent : 0;
}

/* A listing of living processes; a mark means that the process is below this one. */
struct processes {
    struct keep_process *items;
    size_t count;
};

/* Without memory for all processes, the next pass finds more. */
static void processes_list(struct processes *list)
{
    size_t count = keep_processes_list(&list->items);
    list->count = 0;
    for (size_t i = 0; i < count; i++) {
        if (is_alive(&list->items[i])) {
            list->items[list->count++] = list->items[i];
        }
    }
}

static bool is_below(const struct processes *list, pid_t pid, pid_t self)
{
    if (pid == self) {
        return true;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].pid == pid) {
            return list->items[i].mark;
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
            struct keep_process *process = &list->items[i];
            if (!process->mark && is_below(list, process->parent, self)) {
                process->mark = true;
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
        if (list.items[i].mark) {
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
        if (!list.items[i].mark) {
            continue;
        }
        /* The descriptor fixes the process before its parent is read, so a pid that was given to a foreign process
         * since the listing is not signalled. */
        int pidfd = keep_process_open(list.items[i].pid);
        if (pidfd < 0) {
            continue;
        }
        pid_t parent = parent_of(list.items[i].pid);
        if (parent != 0 && is_below(&list, parent, self) && keep_process_signal(pidfd, signal) == 0) {
            signalled++;
            if (signal == SIGTERM) {
                (void)keep_process_signal(pidfd, SIGCONT);
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
    (void)keep_text_read(name, sizeof name, "/proc/%d/comm", (int)pid);
    name[strcspn(name, "\n")] = '\0';
    return is_among(name, filters);
}

/* True if the process has a handler of its own for the signal. */
static bool has_handler(pid_t pid, int signal)
{
    char text[4096];
    (void)keep_text_read(text, sizeof text, "/proc/%d/status", (int)pid);
    const char *line = strstr(text, "SigCgt:");
    unsigned long long mask = line != NULL ? strtoull(line + 7, NULL, 16) : 0;
    return (mask >> (signal - 1) & 1) != 0;
}

/* `parent` is 0 for the first process, which is a child of this one. */
static void program_add(struct keep_program *program, pid_t pid, pid_t parent, int signal)
{
    int pidfd = program->count < KEEP_PROGRAM_MAX ? keep_process_open(pid) : -1;
    if (pidfd < 0) {
        return;
    }
    pid_t now = parent_of(pid); /* read after the descriptor has fixed the process: see keep_tree_signal */
    bool is_meant = now != 0 && (parent == 0 || now == parent || now == getpid());
    if (!is_meant || keep_process_signal(pidfd, signal) != 0) {
        (void)close(pidfd);
        return;
    }
    (void)keep_process_signal(pidfd, SIGCONT);
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
