#ifndef TOOLS_SHOAL_RUN_CONFIG_H
#define TOOLS_SHOAL_RUN_CONFIG_H
/* The configuration that `shoal run` makes of its command line. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/shoal/cli.h"

struct run_config {
    char *text; /* YAML; the caller frees it */
    size_t bytes;
    bool is_search; /* several trials: a hyperparameter is searched */
    bool has_drawn_seed; /* a search without a given seed: `seed` was drawn, and stands in the text */
    uint64_t seed;
};

/* Writes the configuration of these arguments. The entrypoint is the operands as words of a shell, each quoted where it needs
 * that. A hyperparameter stands where the command has its placeholder {{hp.NAME}}, else behind the command as --NAME VALUE. An
 * exit code; on failure the sentence is written, and there is nothing to free. */
int run_config_write(struct cli *cli, const struct arguments *arguments, struct run_config *out);

#endif
