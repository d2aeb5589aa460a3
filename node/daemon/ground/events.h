#ifndef NODE_DAEMON_GROUND_EVENTS_H
#define NODE_DAEMON_GROUND_EVENTS_H
/* Events on their way into the core, one after the other. Any room may make an event. The loop decides what an event
 * does (a step of the core, then the effects of the step) and hands that function in as `step`. */

#include <stdbool.h>
#include <stdint.h>

#include "node/core/core.h"

struct daemon;

/* The queue, inside struct daemon; all zero but for `step` at the start. */
struct daemon_events {
    /* Runs one step of the core with the event, and performs the effects. Set before the first event. */
    void (*step)(struct daemon *daemon, struct node_event *event);
    bool is_stepping;
    struct node_event *queued; /* events made while effects were performed: a ring that doubles when full */
    uint32_t first, count, slots;
};

/* Runs one event through the core and performs the effects that follow. Sets the event's times. While effects are being
 * performed, a new event waits for its turn; such an event must have no bytes (`byte_count` 0), because borrowed bytes
 * would not live until then. Ignored once the daemon is closed: nothing would perform the effects, and the next boot
 * reads the disk. */
void daemon_event(struct daemon *daemon, struct node_event *event);

/* Frees the queue; `step` stays. */
void daemon_events_close(struct daemon *daemon);

#endif
