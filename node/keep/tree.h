#ifndef NODE_KEEP_TREE_H
#define NODE_KEEP_TREE_H
/* Signals to all descendants of this process. With PR_SET_CHILD_SUBREAPER, orphans become children of this process, so
 * no descendant can hide: not in another session or process group, nor by forking twice. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define KEEP_PROGRAM_MAX 64

/* The processes of a program that got the stop signal. */
struct keep_program {
    int pidfds[KEEP_PROGRAM_MAX]; /* [count] */
    size_t count;
};

/* Checks that this kernel and sandbox provide what keep_tree_signal needs (pidfd_open, Linux 5.3, and /proc). */
int keep_tree_check(void); /* 0, or -errno */

/* Sends `signal`, and SIGCONT, to the program whose first process is `main`, and to none of the processes that the
 * program itself has started, such as the workers of a data loader. The program is `main`; if that is a shell, the
 * programs that the shell runs, and so on through shells below it. A shell gets the signal, too, if it has a handler
 * for it (a trap) or runs no program just now; else not, since it would die and leave its program alone. A filter behind a
 * pipe (tee, grep, ...) does not get it: it ends with the program that writes to it. `*out` holds what was signalled, at
 * most KEEP_PROGRAM_MAX processes. */
void keep_program_signal(pid_t main, int signal, struct keep_program *out);

/* True if none of the signalled processes lives; closes the descriptors of those that have ended. */
bool keep_program_is_gone(struct keep_program *program);

/* The ids of the living descendants, at most `capacity`; returns how many. */
size_t keep_tree_list(pid_t *out, size_t capacity);

/* Sends `signal` to every living descendant seen in one pass over /proc; with SIGTERM also SIGCONT, so that stopped
 * processes react. A process forked during the pass may be missed: repeat SIGKILL until waitpid reports no child. Never
 * signals a foreign process that got the pid of a dead one. Returns how many processes were signalled. */
size_t keep_tree_signal(int signal);

#endif
