#ifndef TRAIN_TRAINER_PLAN_COMMAND_H
#define TRAIN_TRAINER_PLAN_COMMAND_H
/* shoal-train plan: prints a collective's plan, the transfers of every rank, as text or JSON. */

#include <stdio.h>

/* argv[argc] are the arguments after "plan". Writes the plan to `out`, or a sentence to `errors`. Returns the exit status: 0,
 * or 2 for wrong usage. */
int plan_command(int argc, char *const *argv, FILE *out, FILE *errors);

#endif
