#ifndef TOOLS_SHOAL_TARGET_H
#define TOOLS_SHOAL_TARGET_H
/* The operand that names a trial (command_trial.c). */

#include "tools/shoal/client.h"

#define TARGET_BYTES 256

/* "EXP", "EXP/TRIAL" or "EXP/TRIAL@STEP". */
struct target {
    char experiment[TARGET_BYTES];
    bool has_trial, has_step;
    uint64_t trial, step;
};

/* Reads an operand. An exit code; on failure the sentence is written. */
int target_read(struct cli *cli, const char *text, bool needs_trial, bool allows_step, struct target *out);

/* Connects and begins a request about the target, with `more` arguments besides experiment and trial. */
int target_begin(struct cli *cli, const char *op, const struct target *target, uint32_t more, struct client *client);

#endif
