#ifndef NODE_DAEMON_DISK_REPAIR_QUEUE_H
#define NODE_DAEMON_DISK_REPAIR_QUEUE_H
/* Damaged blobs that could not be fetched again, and when to try next. Each try looks for the blob's chunks and so
 * marks the chunks as in use, which keeps garbage near them from being collected (store/chunks_lmdb.h). So tries become
 * more and more rare; but a blob is tried at once when more of its holders are alive than at the last failure. A core. */

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"

#define REPAIR_QUEUE_MAX 256               /* when full, the row that is due first is replaced, so its blob may be tried
                                              at once */
#define REPAIR_QUEUE_FIRST_MS 600000       /* wait after the first failure; doubles with each failure */
#define REPAIR_QUEUE_LAST_MS 86400000      /* longest wait */

/* A blob after a failed try: the next try is due at `from_ms`, `wait_ms` after the failure. `living`: how many holders
 * were alive at the failure. */
struct repair_row {
    hash256 blob;
    uint64_t from_ms;
    uint64_t wait_ms;
    uint32_t living;
};

/* All zero: no blob has failed. */
struct repair_queue {
    struct repair_row rows[REPAIR_QUEUE_MAX];
    uint32_t count;
};

/* Whether a try is allowed now. `living`: how many of the blob's holders are alive now. */
bool repair_queue_may(const struct repair_queue *queue, uint64_t now_ms, hash256 blob, uint32_t living);

/* Notes a failed try. `living`: how many of the blob's holders were alive when the try began. */
void repair_queue_failed(struct repair_queue *queue, uint64_t now_ms, hash256 blob, uint32_t living);

/* Forgets the blob: it is whole again. */
void repair_queue_forget(struct repair_queue *queue, hash256 blob);

#endif
