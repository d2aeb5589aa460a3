#ifndef NODE_CONFIG_INITIAL_H
#define NODE_CONFIG_INITIAL_H
/* Reads searcher.initial: own values for the first trials of a search. */

#include "node/config/space_names.h"

/* Packs the list as struct search_head has it. 0, or ERR_MALFORMED: the tree has the problem. */
int initial_read(const struct space_names *names, const struct tree_node *list, uint32_t max_trials, struct pack_writer *writer);

#endif
