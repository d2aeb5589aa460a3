#include "node/keep/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
