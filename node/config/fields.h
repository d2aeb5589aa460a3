#ifndef NODE_CONFIG_FIELDS_H
#define NODE_CONFIG_FIELDS_H
/* Options with a shape of their own, and what is allowed in them, in words. All return 0 or ERR_MALFORMED. */

#include "node/config/tree.h"

#define FIELDS_ENTRYPOINT_WORDS "one command line, or a list of words, of at most 1023 bytes"
#define FIELDS_LABELS_WORDS "a list of at most 16 texts of 1 ... 63 bytes"
#define FIELDS_VARIABLE_LIST_WORDS "a list of NAME=VALUE texts"
#define FIELDS_VARIABLE_MAP_WORDS "a map of names to single values"

/* Words of a list are quoted for a POSIX shell. */
int fields_read_entrypoint(struct tree *tree, const struct tree_node *node, const char *path, struct config *config);

/* Packed into `packed`, where the config's field then points. */
int fields_read_labels(struct tree *tree, const struct tree_node *node, const char *path, struct pack_writer *packed,
                       struct config *config);

/* Both ways to write variables, a list of NAME=VALUE and a map; each may be NULL. Packed as the labels are. */
int fields_read_environment(struct tree *tree, const struct tree_node *list, const struct tree_node *map,
                            struct pack_writer *packed, struct config *config);

#endif
