#ifndef NODE_CONFIG_CONDITIONS_H
#define NODE_CONFIG_CONDITIONS_H
/* Reads the conditions of a hyperparameter: {when: {optimizer.name: sgd, layers: [3, 4]}}. */

#include "node/config/space_names.h"

#define CONDITIONS_BYTES_MAX 16384 /* SEARCH_CONDITIONS_MAX of them with SEARCH_ALLOWED_MAX values fit */

/* What the conditions of a search space have used up so far. */
struct conditions_used {
    uint32_t conditions, values;
};

/* Packs the map `when` as struct search_parameter has it. `names` has the parameters before; `path` names the parameter in
 * sentences. `writer` has room for CONDITIONS_BYTES_MAX. 0, or ERR_MALFORMED: the tree has the problem. */
int conditions_read(const struct space_names *names, const struct tree_node *when, const char *path, struct conditions_used *used,
                    struct pack_writer *writer);

/* True if the map could be conditions: all its names are those of parameters. */
bool conditions_are_meant(const struct space_names *names, const struct tree_node *map);

#endif
