#ifndef NODE_KEEP_TREE_H
#define NODE_KEEP_TREE_H
/* Signals to all descendants of this process. With PR_SET_CHILD_SUBREAPER, orphans become children of this process, so
 * no descendant can hide: not in another session or process group, nor by forking twice. */

#include <stddef.h>

/* Checks that this kernel and sandbox provide what keep_tree_signal needs (pidfd_open, Linux 5.3, and /proc). */
int keep_tree_check(void); /* 0, or -errno */

/* Sends `signal` to every living descendant seen in one pass over /proc; with SIGTERM also SIGCONT, so that stopped
 * processes react. A process forked during the pass may be missed: repeat SIGKILL until waitpid reports no child. Never
 * signals a foreign process that got the pid of a dead one. Returns how many processes were signalled. */
size_t keep_tree_signal(int signal);

#endif
