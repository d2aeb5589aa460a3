#ifndef NODE_DAEMON_GROUND_LINES_H
#define NODE_DAEMON_GROUND_LINES_H
/* The daemon's messages for people: lines for `shoal events`, which shows the last DAEMON_EVENTS_MAX and more from the journal,
 * and for stderr. Each is an event with a number, a kind and a subject, too. */

#include <stdint.h>

#include "base/event.h"

#define DAEMON_EVENTS_MAX 2048
#define DAEMON_EVENT_BYTES 256 /* of one line, with its NUL; longer lines are cut */

struct daemon;
struct journal_event;

/* One line of the ring `daemon.lines`. */
struct daemon_line {
    uint64_t seq; /* 1, 2, ...; rises, and is never given again. There are gaps where a daemon was not closed */
    uint64_t wall_ms;
    struct event_about about;
    char text[DAEMON_EVENT_BYTES];
};

/* Opens the journal of the data directory, and fills an empty ring with its last lines. */
void lines_open(struct daemon *daemon);

/* Closes the journal. */
void lines_close(struct daemon *daemon);

/* How many lines the ring has. */
uint32_t lines_count(const struct daemon *daemon);

/* A line of the ring, from 0, the oldest, to lines_count - 1; the ring's until the next line. */
const struct daemon_line *lines_at(const struct daemon *daemon, uint32_t index);

/* Adds a line with the present time; also prints it to stderr unless --quiet. */
void daemon_line(struct daemon *daemon, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As daemon_line, with what it is about. */
void daemon_line_of(struct daemon *daemon, struct event_about about, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The trace hook of the core: adds the text as a line. `context` is the daemon. */
void daemon_trace(void *context, const struct event_about *about, const char *text);

#endif
