#ifndef TOOLS_SHOAL_PREVIEW_H
#define TOOLS_SHOAL_PREVIEW_H
/* What trials an experiment would have: how many, how long they would train, and with which hyperparameters. It follows from the
 * configuration alone. */

#include "node/core/facts/config.h"
#include "tools/shoal/cli.h"

#define PREVIEW_LINE_BYTES 192

/* "64 trials in 3 brackets, about 28 % of the steps of 64 full trials", or "12 trials"; "" for one trial. */
void preview_line(const struct config *config, char out[PREVIEW_LINE_BYTES]);

/* Writes the whole of it to cli->out, as text or as JSON. `config` is whole. Returns an exit code. */
int preview_show(struct cli *cli, const struct config *config);

#endif
