#ifndef NODE_CONFIG_FIELDS_H
#define NODE_CONFIG_FIELDS_H
/* Readers of the options with a form of their own. All return 0 or ERR_MALFORMED, and note in the tree what is wrong with the
 * option, also several problems. */

#include "node/config/tree.h"

/* Reads the entrypoint; the words of a list are quoted for a POSIX shell. A long one goes into `packed`, and the config's
 * `command` then points there. */
int fields_read_entrypoint(struct tree *tree, const struct tree_node *node, struct pack_writer *packed, struct config *config);

/* Reads the labels and packs them into `packed`; the config's field then points there. `node` may be NULL: no labels. */
int fields_read_labels(struct tree *tree, const struct tree_node *node, struct pack_writer *packed, struct config *config);

/* Reads the paths that are kept, without a '/' at their end, and packs them as the labels. `node` may be NULL: no paths. */
int fields_read_keep(struct tree *tree, const struct tree_node *node, struct pack_writer *packed, struct config *config);

/* Reads the variables, written as a list of NAME=VALUE, as a map, or both; each may be NULL. Packs them into `packed`;
 * the config's field then points there. */
int fields_read_environment(struct tree *tree, const struct tree_node *list, const struct tree_node *map,
                            struct pack_writer *packed, struct config *config);

/* Reads the names of secrets and packs them as the labels. Call it behind fields_read_environment: no variable may have the name of a
 * secret. `node` may be NULL: no secrets. */
int fields_read_secrets(struct tree *tree, const struct tree_node *node, struct pack_writer *packed, struct config *config);

/* Reads the names in depends_on and packs them as the labels. `node` may be NULL: no names. */
int fields_read_depends_on(struct tree *tree, const struct tree_node *node, struct pack_writer *packed, struct config *config);

/* Reads resources.constraints, a map of model, memory and labels. `node` may be NULL: none. */
int fields_read_constraints(struct tree *tree, const struct tree_node *node, struct config *config);

/* Reads start_after: a time, or how long from now. A time without a Z is one of this process's time zone. `node` may be NULL: at once. */
int fields_read_start_after(struct tree *tree, const struct tree_node *node, struct config *config);

/* Reads the webhooks and packs them as the labels. `node` may be NULL: no webhooks. */
int fields_read_webhooks(struct tree *tree, const struct tree_node *node, struct pack_writer *packed, struct config *config);

#endif
