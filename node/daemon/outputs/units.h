#ifndef NODE_DAEMON_OUTPUTS_UNITS_H
#define NODE_DAEMON_OUTPUTS_UNITS_H
/* The kept files of a worker, in units. A unit counts as a whole: a direct child of a kept directory (a file, or a directory with
 * all that is in it), or a kept file. A unit counts once it has come to rest: without a change for UNITS_REST_MS, or for
 * UNITS_REST_OPEN_MS while a program has a file of the unit open for writing. A file that no program has open for writing rests
 * after UNITS_CLOSED_MS already: otherwise a script that saves each second and keeps three files would leave nothing.
 * A file or directory that is renamed into $SHOAL_CHECKPOINT_DIR counts at once.
 *
 * After a program was killed, nothing tells whether a file was open at the end. So then a file rests if the file had not changed
 * for UNITS_CLOSED_AT_END_MS, and was closed at the last look before the end.
 *
 * A run directory holds work/ (the copy of the code, where the kept paths are), output/ ($SHOAL_OUTPUT_DIR), checkpoint/
 * ($SHOAL_CHECKPOINT_DIR) and restore/ ($SHOAL_RESTORE_DIR). Of the checkpoints only the newest is a unit; before the first
 * checkpoint, the restored checkpoint is.
 *
 * A shell: reads the disk. All functions are for one thread at a time. */

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "store/snapshot.h"

#define UNITS_REST_MS 2000
#define UNITS_REST_OPEN_MS 10000
#define UNITS_CLOSED_MS 500
#define UNITS_CLOSED_AT_END_MS 1000
#define UNITS_MAX SNAPSHOT_ENTRIES_MAX

/* The moment at which a unit is to be at rest. */
struct units_moment {
    uint64_t now_ms;
    int64_t wall_ns; /* since 1970, the clock of the files' times */
    bool is_end;     /* the moment when the program was killed; the program is gone now */
};

struct unit {
    struct unit *next; /* by path */
    char *path;        /* in a snapshot: work/checkpoints/epoch_1.pt, output/x, checkpoint/NAME */
    char *disk_path;   /* below the run directory */
    uint64_t digest;   /* of the names, sizes and times in the unit */
    int64_t ctime_ns;  /* of the unit itself */
    int64_t changed_ns; /* the later one of ctime and mtime of the unit itself */
    bool is_file;
    bool is_there;
    bool was_open; /* with the present digest a program had a file of the unit open for writing */
    bool is_moved; /* renamed into $SHOAL_CHECKPOINT_DIR: counts at once */
    uint64_t changed_ms; /* when a scan first saw the present digest, or that the unit is gone */
    bool is_stored; /* the last snapshot has the unit, */
    uint64_t stored; /* of the unit with the present digest */
    uint32_t pass;
};

struct units {
    struct unit *first;
    struct unit *before; /* the row of the last search, where the next search begins; NULL: none */
    uint32_t count;
    uint32_t pass;
    const char *asked;   /* the path of which units_is_gone last looked at the directory; NULL: none since the scan */
    uint64_t asked_ms;   /* the moment of that look */
    bool asked_is_gone;  /* the answer, for every unit of that directory that is not there */
    int moves_fd; /* inotify on $SHOAL_CHECKPOINT_DIR; -1: none */
    int moves_wd; /* the watch; earlier users of the descriptor had others */
};

/* `run_directory`: the worker's. `spare_fd`: of an earlier units_close, or -1. */
void units_open(struct units *units, const char *run_directory, int spare_fd);

/* Returns a descriptor of inotify that watches nothing any more, for a later units_open, or for the caller to close; -1: none. The
 * kernel takes 10 ms and more to close one, since it waits for all of its own readers of such lists. */
int units_close(struct units *units);

/* Looks at the disk: paths `keep` (`keep_count` of them, below work/) below the open run directory. Units gone for
 * good are forgotten. ERR_FULL: there are more than UNITS_MAX files. ERR_MEMORY. */
int units_scan(struct units *units, int run, const char *const *keep, uint32_t keep_count, const struct units_moment *moment);

/* The machine was suspended for so long until `now_ms`, or shortly before: that was no rest. */
void units_awake(struct units *units, uint64_t gap_ms, uint64_t now_ms);

/* The unit has changed since the scan, so it does not rest. */
void units_changed(struct units *units, struct unit *unit, uint64_t now_ms);

/* Looks at one unit again. False: the unit has changed since the scan. */
bool units_is_same(const struct unit *unit, int run);

/* True if the unit rests at the moment (see above). Looks for open files only where an open file decides. */
bool units_rests(struct unit *unit, int run, const struct units_moment *moment);

/* True if the unit is gone for good: gone for UNITS_REST_MS, while another unit of the directory rests or nothing is left there.
 * Otherwise a program that replaces its files fast, and is killed, would leave only files that do not rest. */
bool units_is_gone(struct units *units, const struct unit *unit, int run, const struct units_moment *moment);

#endif
