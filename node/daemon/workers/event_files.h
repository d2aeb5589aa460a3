#ifndef NODE_DAEMON_WORKERS_EVENT_FILES_H
#define NODE_DAEMON_WORKERS_EVENT_FILES_H
/* The scalars in event files that rank 0's program writes to $SHOAL_TENSORBOARD_DIR become metrics of its trial, with
 * the key `tensorboard: read`. A job reads what has come, every 2 s and once more when the program has ended; the
 * protocol thread reports it, a bounded part at a time. */

#include "node/daemon/workers/workers.h"

/* Before the program starts: files that earlier attempts have left are passed over. Any thread. */
void event_files_begin(const char *directory);

/* Once a second. */
void daemon_event_files_tick(struct daemon *daemon, uint64_t now_ms);

/* Call once the worker's processes are gone. False: not all is read and reported yet, call again. */
bool daemon_event_files_end(struct daemon *daemon, uint32_t slot);

/* Forgets what the worker has; nothing more is reported. */
void event_files_forget(struct daemon_worker *worker);

#endif
