#ifndef NODE_DAEMON_DISK_REPAIR_QUEUE_H
#define NODE_DAEMON_DISK_REPAIR_QUEUE_H
/* Blobs that lack something here and could not be fetched again. Each try looks for what is there and so touches it, and what
 * is touched keeps garbage beside it from being collected (store/chunks_lmdb.h). So they are tried more and more rarely, but at
 * once if more of their holders live than when it failed. A core. */

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"

#define MENDS_LATER_MAX 256               /* of more, those that are due first are forgotten, and so tried anew */
#define MENDS_LATER_FIRST_MS 600000       /* after the first failure; twice as long after each further one, */
#define MENDS_LATER_LAST_MS 86400000      /* ... at most */

struct mend_later {
    hash256 blob;
    uint64_t from_ms;
    uint64_t wait_ms;
    uint32_t living;
};

/* All zero: nothing has failed. */
struct mends_later {
    struct mend_later rows[MENDS_LATER_MAX];
    uint32_t count;
};

/* May it be tried now? `living`: how many of its holders can be reached. */
bool mends_later_may(const struct mends_later *later, uint64_t now_ms, hash256 blob, uint32_t living);

void mends_later_failed(struct mends_later *later, uint64_t now_ms, hash256 blob, uint32_t living);

/* It is whole again. */
void mends_later_forget(struct mends_later *later, hash256 blob);

#endif
