#ifndef NODE_KEEP_TREE_H
#define NODE_KEEP_TREE_H
/* Signals to everything below this process. Together with PR_SET_CHILD_SUBREAPER, by which orphans come back to this
 * process, nothing below can hide: not in another session or process group, nor by forking twice. */

#include <stddef.h>

/* True if this kernel and sandbox give what keep_tree_signal needs (pidfd_open, Linux 5.3, and /proc). */
int keep_tree_check(void); /* 0, or -errno */

/* Sends `signal` to every living descendant seen in one pass over /proc, and SIGCONT too where that is SIGTERM, so that
 * stopped ones can heed it. One that is forked during the pass may be missed: repeat SIGKILL until waitpid knows no
 * child. Never hits a stranger that got a dead one's pid. Returns how many were signalled. */
size_t keep_tree_signal(int signal);

#endif
