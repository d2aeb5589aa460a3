#ifndef NODE_CONFIG_NAMES_H
#define NODE_CONFIG_NAMES_H
/* The allowed names of nodes and meshes, which appear in log lines and tables of other machines. */

#include <stdbool.h>

#include "node/core/facts/facts.h"

#define NAMES_NODE_WORDS "letters, digits and signs of ASCII without blanks" /* 1 to FACT_NAME_BYTES - 1 of them */

/* True if the name has 1 to FACT_NAME_BYTES - 1 printable ASCII characters; a node's name must not contain blanks. */
bool names_node_is_good(const char *name);
bool names_mesh_is_good(const char *name);

#endif
