#include "node/daemon/disk/repair_queue.h"

static uint32_t find(const struct repair_queue *queue, hash256 blob)
{
    uint32_t i = 0;
    while (i < queue->count && !hash256_equal(queue->rows[i].blob, blob)) {
        i++;
    }
    return i;
}

bool repair_queue_may(const struct repair_queue *queue, uint64_t now_ms, hash256 blob, uint32_t living)
{
    uint32_t i = find(queue, blob);
    return i == queue->count || now_ms >= queue->rows[i].from_ms || living > queue->rows[i].living;
}

/* Returns the place of a free row; when the queue is full, of the row that is due first. */
static uint32_t make(struct repair_queue *queue)
{
    if (queue->count < REPAIR_QUEUE_MAX) {
        return queue->count++;
    }
    uint32_t first = 0;
    for (uint32_t i = 1; i < queue->count; i++) {
        first = queue->rows[i].from_ms < queue->rows[first].from_ms ? i : first;
    }
    return first;
}

void repair_queue_failed(struct repair_queue *queue, uint64_t now_ms, hash256 blob, uint32_t living)
{
    uint32_t i = find(queue, blob);
    uint64_t wait_ms = i < queue->count ? 2 * queue->rows[i].wait_ms : REPAIR_QUEUE_FIRST_MS;
    wait_ms = wait_ms < REPAIR_QUEUE_LAST_MS ? wait_ms : REPAIR_QUEUE_LAST_MS;
    i = i < queue->count ? i : make(queue);
    queue->rows[i] = (struct repair_row){.blob = blob, .from_ms = now_ms + wait_ms, .wait_ms = wait_ms, .living = living};
}

void repair_queue_forget(struct repair_queue *queue, hash256 blob)
{
    uint32_t i = find(queue, blob);
    if (i < queue->count) {
        queue->rows[i] = queue->rows[--queue->count];
    }
}
