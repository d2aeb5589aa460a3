#ifndef NODE_CONFIG_HYPERPARAMETERS_H
#define NODE_CONFIG_HYPERPARAMETERS_H
/* The search space: maps of {type: ...}, of bare values and of such maps. */

#include "node/config/tree.h"

/* Packs the space into `packed`, where the config's field then points. Last of all options, as it needs the searcher.
 * `node` may be NULL: no hyperparameters. 0 or ERR_MALFORMED. */
int hyperparameters_read(struct tree *tree, const struct tree_node *node, struct pack_writer *packed,
                         struct config *config);

#endif
