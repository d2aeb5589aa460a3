#ifndef NODE_DAEMON_RENDER_QUEUE_H
#define NODE_DAEMON_RENDER_QUEUE_H
/* The document `queue`: which experiments wait for slots, in their order, and what each next trial waits for. Pure. */

#include "node/core/queue/queue.h"
#include "node/daemon/render/render.h"

#define RENDER_QUEUE_ROWS 32 /* of a part: each row looks at every slot of the mesh */

/* The queue at one moment. */
struct render_queue {
    const struct queue_entry *entries; /* borrowed */
    uint32_t count;
};

/* Writes `queue`: an array of maps `position experiment name priority kind slots slots_min trials trial since_s reason`. Experiments of
 * which no trial waits any more are left out. */
#define RENDER_QUEUE_PAIRS 1
bool render_queue(const struct node_core *core, const struct render_queue *queue, uint32_t *from, struct pack_writer *frame);

#endif
