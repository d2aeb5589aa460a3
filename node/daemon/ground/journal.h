#ifndef NODE_DAEMON_GROUND_JOURNAL_H
#define NODE_DAEMON_GROUND_JOURNAL_H
/* The event lines of this node on disk, so that they outlive a restart. A shell.
 *
 * DIR/events holds files with a number for a name, each of at most JOURNAL_FILE_BYTES_MAX. A line of a file is an event:
 *
 *     SEQ WALL_MS @KIND[,e=EXPERIMENT][,t=TRIAL][,a=ATTEMPT][,n=NODE][,s=SLOT] TEXT
 *
 * with ids in hexadecimal digits; earlier versions wrote no word with an @. Numbers rise. DIR/events/next has a number that is above
 * all that have been given, also to lines that the disk refused or a power cut has lost: a daemon that was not closed goes on there.
 *
 * Lines are appended to the file with the highest number. When that file is full, a new one begins, and the oldest files go: all
 * whose last line is older than JOURNAL_DAYS, and all but JOURNAL_FILES_MAX. Nothing waits for the disk. A line that cannot be
 * written, on a full disk for example, is missing; a line that cannot be read is passed over. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/event.h"

#define JOURNAL_DAYS 30
#define JOURNAL_FILE_BYTES_MAX (1u << 20)
#define JOURNAL_FILES_MAX 32
#define JOURNAL_SEQ_MAX (UINT64_C(1) << 53) /* a larger number is no event's */

/* A journal; all zero, or not is_open, if there is none: then nothing is written. */
struct journal {
    bool is_open;
    int directory_fd;
    int fd; /* of the file that is written; -1: none */
    uint64_t file;  /* number of the file that is written */
    uint64_t bytes; /* in that file */
    uint64_t next;  /* what the file `next` says; 0: nothing */
};

/* An event of the journal. */
struct journal_event {
    uint64_t seq;
    uint64_t wall_ms; /* since 1970 */
    struct event_about about;
    const char *text;
};

/* Opens or makes DIR/events. If that fails, the journal writes and has nothing. */
void journal_open(struct journal *journal, const char *dir, uint64_t wall_ms);

/* Closes the files; a second close is harmless. */
void journal_close(struct journal *journal);

/* Notes that no event below `next` is to be given a number again. `is_synced`: returns once that is on disk. */
void journal_reserve(struct journal *journal, uint64_t next, bool is_synced);

/* Appends a line; control characters in the text become '?'. */
void journal_append(struct journal *journal, const struct journal_event *event);

/* A place in the journal; zero is the begin. */
struct journal_place {
    uint64_t file, offset;
};

/* Calls `line` for each readable line from the place on, for at most `bytes_max` bytes of lines, at least JOURNAL_LINE_BYTES_MAX,
 * and moves the place behind them. The text ends in NUL and is valid during the call. True while there may be more. */
#define JOURNAL_LINE_BYTES_MAX 512
typedef void journal_line_fn(void *context, const struct journal_event *event);
bool journal_read(const struct journal *journal, struct journal_place *place, size_t bytes_max, journal_line_fn *line,
                  void *context);

/* The functions that read may be called by another thread than those that write, while the journal is open. */

/* A place before which there is no event from `seq` on. `*oldest`: the lowest number of an event that is left; 0: there is none. */
struct journal_place journal_find(const struct journal *journal, uint64_t seq, uint64_t *oldest);

/* The place from which on about `bytes` bytes are left; the begin if there are fewer. */
struct journal_place journal_near_end(const struct journal *journal, uint64_t bytes);

#endif
