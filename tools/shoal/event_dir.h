#ifndef TOOLS_SHOAL_EVENT_DIR_H
#define TOOLS_SHOAL_EVENT_DIR_H
/* A directory of event files (store/tfevents.h), which TensorBoard shows as one run. Its files are named
 * events.out.tfevents.<10 digits>.<host>; TensorBoard reads the files in the order of the names, each to the end before the
 * next. Each record is one write, and files change in no other way: a writer that is killed leaves whole records, and at
 * most one behind them that is cut short. The next writer reads the files, goes on in a new file, and writes no point twice.
 *
 * A shell. Functions that return an `int` return an exit code of cli.h; on failure they have written their sentence. */

#include <stdbool.h>
#include <stdint.h>

#include "store/protobuf.h"
#include "tools/shoal/cli.h"
#include "tools/shoal/hash_set.h"

#define EVENT_SOURCE_BYTES 64

struct event_dir {
    char *path;
    char source[EVENT_SOURCE_BYTES];           /* in the first record of each of our files: the experiment, or the trial */
    int fd;                                    /* the file that is written; -1: none is open */
    uint64_t stamp;                            /* the digits in the newest name; 0: there is no event file */
    bool has_file;                             /* the newest file is of this writer, and is written on */
    bool is_ours;                              /* there is a file with our source */
    bool is_foreign;                           /* there are files of others, and none with our source */
    uint64_t attempt, generation;              /* of the last start that is written; 0: none is */
    bool has_experiment, has_session, has_end; /* the records of hyperparameters that are written */
    bool remembers;                            /* points that are written join `seen` */
    struct hash_set seen;                      /* hashes of the messages of points */
};

/* Makes the directory, unless it is there, and reads our files in it. `remembers`: a point is not to be written again later
 * on. The caller closes `*out` after CLI_DONE. */
int event_dir_open(struct cli *cli, const char *path, const char *source, bool remembers, struct event_dir *out);

/* Frees the memory; a second close is harmless. */
void event_dir_close(struct event_dir *dir);

/* Begins a new file, named by the time `wall_s` (in seconds since 1970), or the next second for which there is no file,
 * behind all others. */
int event_dir_begin(struct cli *cli, struct event_dir *dir, double wall_s);

/* Appends the record that is in the writer. */
int event_dir_write(struct cli *cli, struct event_dir *dir, const struct protobuf_writer *record);

/* Closes the file until the next write: there may be more directories than descriptors. */
void event_dir_rest(struct event_dir *dir);

/* Whether a point with this message is in one of the files. */
bool event_dir_has(const struct event_dir *dir, uint64_t hash);

/* The hash of the message in a record of one point. */
uint64_t event_dir_hash(const struct protobuf_writer *record);

/* Writes a point, the record in the writer, and remembers its hash if that is wanted. */
int event_dir_write_point(struct cli *cli, struct event_dir *dir, const struct protobuf_writer *record, uint64_t hash);

/* Writes that an attempt, or a generation of its group, starts at this step. */
int event_dir_start(struct cli *cli, struct event_dir *dir, uint64_t attempt, uint64_t generation, uint64_t step,
                    double wall_s);

#endif
