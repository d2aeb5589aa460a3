#ifndef NODE_CONFIG_HYPERPARAMETERS_H
#define NODE_CONFIG_HYPERPARAMETERS_H
/* Reads the search space: maps of {type: ...}, of bare values and of further such maps. A map in which nothing is searched for is
 * one constant, whatever its keys; so are empty maps and nulls. A map with `type` that cannot be a search, such as
 * {type: ResNet, depth: 50}, is a map like any other. */

#include "node/config/tree.h"

/* Packs the space into `packed`; the config's field then points there. Call it after all other options, since it needs
 * the searcher. `node` may be NULL: no hyperparameters; `sampler` and `initial` are the searcher's
 * keys of these names, NULL if they are not given. 0, ERR_MEMORY, or ERR_MALFORMED:
 * the tree has the problems. */
int hyperparameters_read(struct tree *tree, const struct tree_node *node, const struct tree_node *sampler,
                         const struct tree_node *initial, struct pack_writer *packed, struct config *config);

#endif
