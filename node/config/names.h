#ifndef NODE_CONFIG_NAMES_H
#define NODE_CONFIG_NAMES_H
/* What nodes and meshes may be called: their names go into log lines and tables of other machines. */

#include <stdbool.h>

#include "node/core/facts/facts.h"

#define NAMES_NODE_WORDS "letters, digits and signs of ASCII without blanks" /* 1 to FACT_NAME_BYTES - 1 of them */

/* 1 to FACT_NAME_BYTES - 1 printable characters of ASCII, of a node's name without blanks. */
bool names_node_is_good(const char *name);
bool names_mesh_is_good(const char *name);

#endif
