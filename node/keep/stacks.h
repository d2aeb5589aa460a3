#ifndef NODE_KEEP_STACKS_H
#define NODE_KEEP_STACKS_H
/* What the processes below this one are doing, as text for the worker's log, before a worker that hangs is ended. */

#include <sys/types.h>

#define KEEP_STACKS_MS_MAX 10000 /* a report that takes longer is not waited for */

/* Starts a child of this process that writes the report: for each process its state and, thread by thread, the kernel
 * function and the system call that it waits in, and the kernel's stack where that may be read; for a Python process also
 * what `py-spy dump` prints, if py-spy is in the PATH of that process. The child ends by itself within KEEP_STACKS_MS_MAX.
 * `*output_fd` becomes the end of a pipe to read the report from (non-blocking, close-on-exec). -1: none was started. */
pid_t keep_stacks_start(int *output_fd);

#endif
