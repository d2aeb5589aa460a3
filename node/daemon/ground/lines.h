#ifndef NODE_DAEMON_GROUND_LINES_H
#define NODE_DAEMON_GROUND_LINES_H
/* The daemon's messages for people: lines for `shoal events`, which shows the last DAEMON_EVENTS_MAX and more from the journal,
 * and for stderr. */

#include <stdint.h>

#define DAEMON_EVENTS_MAX 2048
#define DAEMON_EVENT_BYTES 256 /* of one line, with its NUL; longer lines are cut */

struct daemon;

/* One line of the ring `daemon.lines`, at the place (seq - 1) % DAEMON_EVENTS_MAX. */
struct daemon_line {
    uint64_t seq; /* 1, 2, ...; a restarted daemon goes on with the numbers of its journal */
    uint64_t wall_ms;
    char text[DAEMON_EVENT_BYTES];
};

/* Opens the journal of the data directory, and fills an empty ring with its last lines. */
void lines_open(struct daemon *daemon);

/* The line with this number; NULL: it is not in the ring. */
const struct daemon_line *lines_find(const struct daemon *daemon, uint64_t seq);

/* Adds a line with the present time; also prints it to stderr unless --quiet. */
void daemon_line(struct daemon *daemon, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The trace hook of the core: adds the text as a line. `context` is the daemon. */
void daemon_trace(void *context, const char *text);

#endif
