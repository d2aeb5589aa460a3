#ifndef TOOLS_SHOAL_BOARD_INSIDE_H
#define TOOLS_SHOAL_BOARD_INSIDE_H
/* What the files of the board share (board.h). Functions that return an `int` return an exit code of cli.h; on failure they
 * have written their sentence. */

#include "store/protobuf.h"
#include "tools/shoal/board.h"
#include "tools/shoal/board_names.h"
#include "tools/shoal/event_dir.h"
#include "tools/shoal/trials.h"

#define BOARD_NAME_BYTES 256

/* A trial that has begun. */
struct board_trial {
    struct event_dir events;
    uint64_t row;           /* hash of the trial's row at the last look */
    bool is_done;           /* the trial is over, and everything is written */
    bool is_due;            /* in this round there may be new points */
    bool is_read;           /* at the last look the points were read to the end, */
    uint64_t points_ms;     /* which took so long */
    bool has_valid;         /* in this round a point was read that counts; */
    uint64_t valid_step;    /* the highest step of such points so far */
    uint64_t files_hash;    /* of the names of the last snapshots; 0: none were seen */
    uint64_t files_next_ms; /* no look at the files before, while the trial runs */
    bool is_large;          /* more is kept than is fetched unasked */
};

struct board_experiment {
    char id[CLIENT_EXPERIMENT_TEXT_BYTES], name[BOARD_NAME_BYTES];
    char *path;
    int lock; /* the open directory, locked against other writers; -1: none yet */
    struct event_dir root;
    struct board_tags tags;
    bool wants_all;              /* every trial is wanted, else those of `wanted` */
    struct board_trial **trials; /* by index; NULL: not wanted, or not begun */
    bool *wanted;                /* by index */
    uint64_t trial_capacity;
    uint64_t begun; /* how many of the wanted trials have begun */
    bool is_over;
};

struct board {
    struct cli *cli;
    const struct board_wish *wish;
    struct client client;
    struct board_experiment *experiments;
    size_t experiment_count;
    uint8_t *record; /* room for one record */
    size_t record_bytes;
    struct board_counts counts;
    msgpack_zone *unreachable_zone; /* of the last reply that named nodes that could not be reached; NULL: none did */
    msgpack_object unreachable;
};

/* ---- board.c ------------------------------------------------------------------------------------------------------- */

int board_fail_memory(struct cli *cli);
uint64_t board_now_ms(void);

/* A record is packed into the board's buffer; if that was too small, into a larger one. True: pack again. */
bool board_grow_record(struct board *board, const struct protobuf_writer *writer);

/* Appends the record that was packed to the directory's file; begins a file if this writer has none. */
int board_write_record(struct board *board, struct event_dir *dir, const struct protobuf_writer *record, double wall_s);

/* NULL: the trial is not wanted, or has not begun. */
struct board_trial *board_find_trial(const struct board_experiment *experiment, uint64_t index);

/* ---- board_points.c ------------------------------------------------------------------------------------------------ */

/* The tag of a metric; NULL: no memory is left. Tells of a tag with a suffix when it is made. */
const struct board_tag *board_tag_of(struct board *board, struct board_experiment *experiment,
                                     const msgpack_object_str *group, const msgpack_object_str *name);

/* Reads the points of a trial, or of all (UINT64_MAX), and writes those that are new. */
int board_read_points(struct board *board, struct board_experiment *experiment, uint64_t only);

/* ---- board_hparams.c ----------------------------------------------------------------------------------------------- */

/* Write the hyperparameters of a trial, and how the trial ended. */
int board_write_session(struct board *board, struct board_experiment *experiment, struct board_trial *trial,
                        const struct trials *trials, const struct trial_facts *facts);
int board_write_end(struct board *board, struct board_trial *trial, const struct trial_facts *facts);

/* Writes the columns of the page HPARAMS, once, as soon as the searcher's metric is there: TensorBoard takes no second
 * record. `row`: of the experiment. */
int board_write_columns(struct board *board, struct board_experiment *experiment, const struct trials *trials,
                        const msgpack_object *row);

/* ---- board_outputs.c ----------------------------------------------------------------------------------------------- */

/* Copies what the trial's program wrote for TensorBoard, if the kept files have changed. */
int board_copy_files(struct board *board, struct board_experiment *experiment, struct board_trial *trial, uint64_t index,
                     bool is_over);

#endif
