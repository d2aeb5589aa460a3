#ifndef NODE_CONFIG_PACKED_H
#define NODE_CONFIG_PACKED_H
/* Parts of the tree as MessagePack, as struct config contains them. */

#include "node/config/tree.h"

/* Packs any value; `path` names it in an error sentence. The recursion is bounded by TREE_DEPTH_MAX. 0 or
 * ERR_MALFORMED. */
int packed_value(struct tree *tree, const struct tree_node *node, const char *path, struct pack_writer *writer);

/* Gives the bytes that were written since `start`, inside the writer's buffer. ERR_MALFORMED, with a sentence about
 * `node`: there was no room. */
int packed_since(struct tree *tree, const struct tree_node *node, const struct pack_writer *writer, size_t start,
                 const uint8_t **bytes, uint32_t *count);

#endif
