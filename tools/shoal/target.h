#ifndef TOOLS_SHOAL_TARGET_H
#define TOOLS_SHOAL_TARGET_H
/* The operand that names a trial (command_trial.c). */

#include "tools/shoal/client.h"

#define TARGET_BYTES 256

/* "EXP", "EXP/TRIAL" or "EXP/TRIAL@STEP". */
struct target {
    char experiment[TARGET_BYTES];
    bool has_trial, has_step;
    bool means_only; /* without a trial the experiment's only one is meant */
    uint64_t trial, step;
};

/* Reads an operand. An exit code; on failure the sentence is written. */
int target_read(struct cli *cli, const char *text, bool needs_trial, bool allows_step, struct target *out);

/* As target_read for a target that needs a trial, which "EXP" names too: target_begin then finds the experiment's only trial. */
int target_read_one(struct cli *cli, const char *text, bool allows_step, struct target *out);

/* Connects and begins a request about the target, with `more` arguments besides experiment and trial. */
int target_begin(struct cli *cli, const char *op, const struct target *target, uint32_t more, struct client *client);

/* Writes a checkpoint of the target into the directory, as shoal checkpoint get does; `name`: that of the checkpoint, "" of any. */
int target_get_checkpoint(struct cli *cli, const struct target *target, const char *name, bool unpacks, const char *dir);

/* Warns of the nodes that could not be reached and may hold more of a stream; `document` is the stream's last reply. */
void target_warn_unreachable(struct cli *cli, const msgpack_object *document);

#endif
