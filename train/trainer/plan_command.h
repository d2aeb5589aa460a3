#ifndef TRAIN_TRAINER_PLAN_COMMAND_H
#define TRAIN_TRAINER_PLAN_COMMAND_H
/* shoal-train plan: prints a collective's plan, every rank's transfers, for people or as JSON. */

#include <stdio.h>

/* argv[argc] are the words after "plan". Writes the plan to `out`, or one sentence to `errors`. The exit status: 0, or 2 for
 * wrong usage. */
int plan_command(int argc, char *const *argv, FILE *out, FILE *errors);

#endif
