#include "node/keep/processes.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "node/keep/text_file.h"

bool keep_process_read(pid_t pid, struct keep_process *out)
{
    char text[1024];
    if (!keep_text_read(text, sizeof text, "/proc/%d/stat", (int)pid)) {
        return false;
    }
    /* "pid (name) state ppid ...": the name may contain anything, so read on behind the last bracket. */
    const char *after = strrchr(text, ')');
    unsigned long long user, system, resident = 0;
    int parent;
    if (after == NULL || sscanf(after + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d %*d %*u %*u %llu",
                                &out->state, &parent, &user, &system, &resident) != 5) {
        return false;
    }
    out->pid = pid;
    out->parent = (pid_t)parent;
    out->mark = false;
    out->resident_pages = resident;
    out->cpu_ticks = user + system;
    return true;
}

bool keep_process_io(pid_t pid, uint64_t *read_bytes, uint64_t *written_bytes)
{
    char text[512];
    unsigned long long in, out;
    if (!keep_text_read(text, sizeof text, "/proc/%d/io", (int)pid)) {
        return false;
    }
    const char *read_line = strstr(text, "\nread_bytes: "), *write_line = strstr(text, "\nwrite_bytes: ");
    if (read_line == NULL || write_line == NULL || sscanf(read_line, " read_bytes: %llu", &in) != 1 ||
        sscanf(write_line, " write_bytes: %llu", &out) != 1) {
        return false;
    }
    *read_bytes = in;
    *written_bytes = out;
    return true;
}

pid_t keep_process_next(DIR *proc)
{
    struct dirent *entry;
    while ((entry = readdir(proc)) != NULL) {
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        if (*end == '\0' && pid > 0) {
            return (pid_t)pid;
        }
    }
    return 0;
}

size_t keep_processes_list(struct keep_process **out)
{
    DIR *proc = opendir("/proc");
    size_t count = 0, capacity = 0;
    pid_t pid;
    *out = NULL;
    while (proc != NULL && (pid = keep_process_next(proc)) != 0) {
        if (count == capacity) {
            capacity = capacity == 0 ? 256 : capacity * 2;
            struct keep_process *grown = realloc(*out, capacity * sizeof *grown);
            if (grown == NULL) {
                break;
            }
            *out = grown;
        }
        count += keep_process_read(pid, &(*out)[count]);
    }
    if (proc != NULL) {
        (void)closedir(proc);
    }
    return count;
}

int keep_process_start(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, char *const arguments[],
                       char *const environment[])
{
    posix_spawnattr_t attributes;
    sigset_t none, all;
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    int error = posix_spawnattr_init(&attributes);
    if (error != 0) {
        return error;
    }
    if ((error = posix_spawnattr_setsigmask(&attributes, &none)) == 0 &&
        (error = posix_spawnattr_setsigdefault(&attributes, &all)) == 0 &&
        (error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF)) == 0) {
        error = posix_spawn(pid, path, actions, &attributes, arguments, environment);
    }
    (void)posix_spawnattr_destroy(&attributes);
    return error;
}

/* By number, because C libraries before 2.36 have no names for these calls. */
int keep_process_open(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

int keep_process_signal(int pidfd, int signal)
{
    return (int)syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, 0);
}
