#ifndef NODE_DAEMON_DISK_REPAIR_QUEUE_H
#define NODE_DAEMON_DISK_REPAIR_QUEUE_H
/* Blobs that lack something here and could not be fetched again. Each try looks for what is there and so touches it, and what
 * is touched keeps garbage beside it from being collected (store/chunks_lmdb.h). So they are tried more and more rarely, but at
 * once if more of their holders live than when it failed. A core. */

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"

#define REPAIR_QUEUE_MAX 256               /* of more, those that are due first are forgotten, and so tried anew */
#define REPAIR_QUEUE_FIRST_MS 600000       /* after the first failure; twice as long after each further one, */
#define REPAIR_QUEUE_LAST_MS 86400000      /* ... at most */

struct repair_row {
    hash256 blob;
    uint64_t from_ms;
    uint64_t wait_ms;
    uint32_t living;
};

/* All zero: nothing has failed. */
struct repair_queue {
    struct repair_row rows[REPAIR_QUEUE_MAX];
    uint32_t count;
};

/* May it be tried now? `living`: how many of its holders can be reached. */
bool repair_queue_may(const struct repair_queue *queue, uint64_t now_ms, hash256 blob, uint32_t living);

void repair_queue_failed(struct repair_queue *queue, uint64_t now_ms, hash256 blob, uint32_t living);

/* It is whole again. */
void repair_queue_forget(struct repair_queue *queue, hash256 blob);

#endif
