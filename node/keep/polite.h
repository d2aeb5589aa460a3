#ifndef NODE_KEEP_POLITE_H
#define NODE_KEEP_POLITE_H
/* The lowest priority for the processes of a run, so that the other processes of the machine get the processor and the
 * disks first. Whatever the kernel refuses stays as it is. */

#include <stdbool.h>
#include <sys/types.h>

/* For a process that has one thread, and for all that it starts later: the processor only when no other process wants it
 * (SCHED_IDLE, else nice 19), and the disks likewise. 0: this process. */
void keep_polite_process(pid_t pid);

/* Where the kernel shares the processor among sessions first (autogroup of sched(7)), the priority of a process counts inside
 * its session only. Gives the session of a process the least share, unless it is this process's session, too; 0: this
 * process, and its session in any case. False: the kernel takes no change just now, since it takes ten in a second from all processes together. */
bool keep_polite_session(pid_t pid);

/* The same for every session of a living descendant of this process. */
bool keep_polite_sessions(void);

#endif
