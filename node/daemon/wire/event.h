#ifndef NODE_DAEMON_WIRE_EVENT_H
#define NODE_DAEMON_WIRE_EVENT_H
/* Events of a node as clients and peers get them (docs/wire.md), and which of them are wanted. No I/O, no allocation.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pack.h"
#include "node/daemon/ground/journal.h"
#include "node/daemon/ground/lines.h"

#define EVENTS_PREFIX "events" /* the series that a node is asked for (node/bulk) */
#define EVENT_BYTES_MAX 640    /* of an event as a map */
#define EVENT_QUESTION_BYTES 128

/* Which events are wanted. */
struct event_choice {
    uint64_t since_ms;           /* older ones are not */
    uint64_t tail;               /* 0, or the number of the newest ones that are enough */
    char kind[EVENT_KIND_BYTES]; /* a kind or an area; empty: all */
    experiment_id experiment;    /* none: all */
};

/* An event with its text. */
struct event_held {
    struct journal_event event; /* its text is `text` */
    char text[DAEMON_EVENT_BYTES];
};

/* `tail` is the caller's business. */
bool event_is_wanted(const struct event_choice *choice, const struct event_about *about, uint64_t wall_ms);

/* Writes a map: seq wall_ms text kind, and of the subject what is known: experiment trial attempt node slot. */
void event_pack(struct pack_writer *writer, const struct journal_event *event);

/* Reads such a map; a kind of a later version becomes EVENT_OTHER, a longer text is cut. ERR_MALFORMED. */
int event_read(const uint8_t *bytes, size_t count, struct event_held *out);

/* The question to a peer: an array of since_ms, tail, kind and experiment. Later versions may add elements. */
size_t event_question_pack(const struct event_choice *choice, uint8_t out[EVENT_QUESTION_BYTES]);
int event_question_read(const uint8_t *bytes, size_t count, struct event_choice *out);

#endif
