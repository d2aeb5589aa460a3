#ifndef NODE_CONFIG_FIELDS_H
#define NODE_CONFIG_FIELDS_H
/* Options with a form of their own. The _WORDS tell what is allowed. All functions return 0 or ERR_MALFORMED, with a
 * sentence in the tree's error; `path` names the option in that sentence. */

#include "node/config/tree.h"

#define FIELDS_ENTRYPOINT_WORDS "one command line, or a list of words, of at most 1023 bytes"
#define FIELDS_LABELS_WORDS "a list of at most 16 texts of 1 ... 63 bytes"
#define FIELDS_VARIABLE_LIST_WORDS "a list of NAME=VALUE texts"
#define FIELDS_VARIABLE_MAP_WORDS "a map of names to single values"

/* Reads the entrypoint; the words of a list are quoted for a POSIX shell. */
int fields_read_entrypoint(struct tree *tree, const struct tree_node *node, const char *path, struct config *config);

/* Reads the labels and packs them into `packed`; the config's field then points there. */
int fields_read_labels(struct tree *tree, const struct tree_node *node, const char *path, struct pack_writer *packed,
                       struct config *config);

/* Reads the variables, written as a list of NAME=VALUE, as a map, or both; each may be NULL. Packs them into `packed`;
 * the config's field then points there. */
int fields_read_environment(struct tree *tree, const struct tree_node *list, const struct tree_node *map,
                            struct pack_writer *packed, struct config *config);

#endif
