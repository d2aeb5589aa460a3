#ifndef NODE_KEEP_PROCESSES_H
#define NODE_KEEP_PROCESSES_H
/* The processes of this machine, as far as /proc shows them here, and signals to one of them. A shell. */

#include <dirent.h>
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A process, as /proc/PID/stat shows it. */
struct keep_process {
    pid_t pid;
    pid_t parent; /* 0: none that is visible here */
    char state;   /* 'R', 'S', 'T', 'Z' ... (proc(5)) */
    bool mark;    /* the caller's own; false at first */
    uint64_t resident_pages; /* of _SC_PAGESIZE */
    uint64_t cpu_ticks; /* of the process itself, _SC_CLK_TCK a second */
};

/* Reads one process. False: no such process. */
bool keep_process_read(pid_t pid, struct keep_process *out);

/* The bytes that a process has read from disks and written to them (/proc/PID/io). False: no such process, or one of another user. */
bool keep_process_io(pid_t pid, uint64_t *read_bytes, uint64_t *written_bytes);

/* The next process in a directory stream of /proc; 0 at its end. */
pid_t keep_process_next(DIR *proc);

/* Lists all processes, as many as memory has room for; returns how many. The caller frees `*out` (NULL if there are none). */
size_t keep_processes_list(struct keep_process **out);

/* Starts a program in a session of its own, with no signal blocked, ignored or handled. Returns errno; after 0 `*pid` is a child of
 * this process. */
int keep_process_start(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, char *const arguments[],
                       char *const environment[]);

/* A descriptor that fixes the process (pidfd_open(2)), so that no other process with the same id gets a signal; -1: errno. */
int keep_process_open(pid_t pid);

/* Sends a signal to the process of such a descriptor. 0, or -1: errno. */
int keep_process_signal(int pidfd, int signal);

#endif
