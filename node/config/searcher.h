#ifndef NODE_CONFIG_SEARCHER_H
#define NODE_CONFIG_SEARCHER_H
/* The options below `searcher` that depend on searcher.name: which a searcher needs, and which mean nothing to it. Pure. */

#include "node/config/tree.h"
#include "node/core/facts/options.h"

/* Checks these options, reads those of a shape of their own (max_length, bracket_rungs, stop_once) into `config`, and sets the
 * defaults that depend on searcher.name, which must be sound. `searcher` is the file's map, or NULL; nodes[i] the node of option i,
 * or NULL. Problems are noted in `tree`. */
void searcher_finish(struct tree *tree, const struct tree_node *searcher, const struct tree_node *const nodes[CONFIG_OPTIONS_MAX],
                     struct config *config);

/* True for a searcher.name of the file, a text, that gives max_length a meaning. */
bool searcher_has_length(const char *name);

#endif
