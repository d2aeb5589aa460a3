#include "node/daemon/ground/events.h"

#include <stdlib.h>

#include "base/check.h"
#include "node/daemon/ground/daemon.h"

static void put(struct daemon_events *events, const struct node_event *event)
{
    CHECK(event->byte_count == 0);
    if (events->count == events->slots) {
        uint32_t slots = events->slots == 0 ? 64 : events->slots * 2;
        struct node_event *bigger = calloc(slots, sizeof *bigger);
        CHECK(bigger != NULL); /* a dropped event would leave the core waiting for ever: better to end */
        for (uint32_t i = 0; i < events->count; i++) {
            bigger[i] = events->queued[(events->first + i) % events->slots];
        }
        free(events->queued);
        events->queued = bigger;
        events->first = 0;
        events->slots = slots;
    }
    events->queued[(events->first + events->count++) % events->slots] = *event;
}

void daemon_event(struct daemon *daemon, struct node_event *event)
{
    struct daemon_events *events = &daemon->events;
    if (daemon->closed) {
        return;
    }
    if (events->is_stepping) {
        put(events, event);
        return;
    }
    events->is_stepping = true;
    events->step(daemon, event);
    while (events->count > 0) {
        struct node_event next = events->queued[events->first];
        events->first = (events->first + 1) % events->slots;
        events->count--;
        events->step(daemon, &next);
    }
    events->is_stepping = false;
}

void daemon_events_close(struct daemon *daemon)
{
    free(daemon->events.queued);
    daemon->events = (struct daemon_events){.step = daemon->events.step};
}
