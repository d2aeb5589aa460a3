#ifndef NODE_CONFIG_DOCUMENT_H
#define NODE_CONFIG_DOCUMENT_H
/* The options of a configuration as they are in force, with all defaults filled in. Pure. */

#include "node/core/facts/config.h"

/* Appends a map with the keys of the file, nested as there, without the search space (`hyperparameters`). Options without a value,
 * such as searcher.max_trials of a grid, are left out; all environment variables are under `environment.variables`. The writer fails
 * if its buffer is too small. */
void config_document(struct pack_writer *writer, const struct config *config);

#endif
