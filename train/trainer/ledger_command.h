#ifndef TRAIN_TRAINER_LEDGER_COMMAND_H
#define TRAIN_TRAINER_LEDGER_COMMAND_H
/* shoal-train ledger: proves from the logs of steps (SHOAL_STEP_LOG) that each sample of each epoch was used once. */

#include <stdbool.h>
#include <stdio.h>

#include "train/plan/ledger.h"

/* Reads a line "ms experiment trial attempt rank step generation size batch_first batch_count first count us balanced". Returns
 * false if the text is not such a line. */
bool ledger_line_read(const char *text, char experiment[64], uint32_t *trial, struct ledger_line *out);

/* argv[argc] are the arguments after "ledger". Writes a line per trial to `out`, or a sentence to `errors`. Returns the exit
 * status: 0, 1 (a sample was not used once, or a log cannot be read), or 2 for wrong usage. */
int ledger_command(int argc, char *const *argv, FILE *out, FILE *errors);

#endif
