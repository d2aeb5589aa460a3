#ifndef NODE_DAEMON_GROUND_EVENTS_H
#define NODE_DAEMON_GROUND_EVENTS_H
/* Events on their way into the core, one after the other. Any room may make one. What happens with it (a step of the core, and
 * the effects of the step) is the loop's business, which hands it in as `step`. */

#include <stdbool.h>
#include <stdint.h>

#include "node/core/core.h"

struct daemon;

struct daemon_events {
    /* One step of the core with this event, and its effects. Set before the first event. */
    void (*step)(struct daemon *daemon, struct node_event *event);
    bool is_stepping;
    struct node_event *queued; /* what happened while effects were performed: a ring that doubles when it is full */
    uint32_t first, count, slots;
};

/* Runs one event through the core and performs what follows. Called while effects are performed, the event waits until these
 * are done; it must then have no bytes, since what it points to would not live until its turn. Dropped once the daemon is
 * closed: nothing would perform its effects, and the next boot finds what is on the disk. */
void daemon_event(struct daemon *daemon, struct node_event *event);

/* Frees the queue. */
void daemon_events_close(struct daemon *daemon);

#endif
