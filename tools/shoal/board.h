#ifndef TOOLS_SHOAL_BOARD_H
#define TOOLS_SHOAL_BOARD_H
/* Experiments as directories for TensorBoard: DIR/<experiment>/<trial> with the points of the trial, its hyperparameters and
 * how it ended, DIR/<experiment> with the columns of the experiment, and DIR/<experiment>/<trial>/program with what the
 * trial's program wrote for TensorBoard itself. Each round writes what has come since the last one. What an earlier writer
 * has left in DIR is gone on with.
 *
 * A shell. Functions that return an `int` return an exit code of cli.h; on failure they have written their sentence. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/shoal/client.h"

/* What is wanted. */
struct board_wish {
    const char *directory; /* exists */
    bool follows;          /* there will be later rounds */
    bool has_profile;      /* also the profiles of trials */
    bool has_large;        /* files of programs also where a trial keeps more than BOARD_FILES_BYTES_MAX */
};

#define BOARD_FILES_BYTES_MAX (64ull << 20)

/* What was written so far. */
struct board_counts {
    uint64_t experiments, trials, points, files;
    uint64_t lacking; /* workers whose kept files no node in reach has */
    uint64_t large;   /* trials whose files were not looked at, since they are large */
};

struct board;

/* The operands: EXP or EXP/TRIAL. The caller closes `*out` after CLI_DONE. `wish` is borrowed. */
int board_open(struct cli *cli, const struct board_wish *wish, const char *const *operands, size_t count,
               struct board **out);
void board_close(struct board **board);

/* Writes what is new. `*is_over`: nothing more comes, since all is over. */
int board_round(struct board *board, bool *is_over);

struct board_counts board_counts(const struct board *board);

/* Warns of what could not be written, once all rounds are over. */
void board_warn(const struct board *board);

#endif
