#ifndef TOOLS_SHOAL_BOARD_FILES_H
#define TOOLS_SHOAL_BOARD_FILES_H
/* What programs write for TensorBoard themselves, below $SHOAL_TENSORBOARD_DIR, from the snapshots of their kept files. A
 * shell. */

#include <stdint.h>

#include "store/snapshot.h"
#include "tools/shoal/cli.h"

/* Copies the files of a snapshot (in the open file `fd`) that lie below $SHOAL_TENSORBOARD_DIR into the directory `path`,
 * which is made if there is one. Files that one of the `lower_count` snapshots `lower`, of lower ranks, has too are left
 * out. An event file that is there already is continued, never replaced: TensorBoard has read it up to its end. `*files`
 * grows by the number of files that are new or longer now. An exit code of cli.h; on failure the sentence is written. */
int board_files_copy(struct cli *cli, int fd, const struct snapshot *snapshot, const struct snapshot *lower,
                     uint32_t lower_count, const char *path, uint64_t *files);

#endif
