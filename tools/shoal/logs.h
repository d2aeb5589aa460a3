#ifndef TOOLS_SHOAL_LOGS_H
#define TOOLS_SHOAL_LOGS_H
/* What a trial's workers write, as it comes (command_trial.c). */

#include "tools/shoal/client.h"

/* Writes the output of all attempts of a trial that has begun, from the beginning until the trial is over, as shoal logs --follow
 * does. `experiment`: a whole id. Returns an exit code; on failure its sentence is written. */
int logs_follow(struct client *client, const char *experiment, uint64_t trial);

#endif
