#ifndef NODE_CONFIG_SPACE_NAMES_H
#define NODE_CONFIG_SPACE_NAMES_H
/* The hyperparameters that have been read, by their names, and the values that a file gives them elsewhere: in searcher.initial,
 * and in the conditions of other hyperparameters. */

#include "node/config/tree.h"

struct space_names {
    struct tree *tree;
    const struct pack_writer *parameters; /* packed one after the other, without an array's head */
    uint8_t *room;                        /* SEARCH_SPACE_BYTES_MAX, for one value */
};

/* Finds the parameter of a name, with dots between nested ones; false: there is none. `*index` is its number from 0. `*prefixed`
 * becomes true if the name is that of a map around parameters. */
bool space_names_find(const struct space_names *names, const char *name, struct search_parameter *out, uint32_t *index, bool *prefixed);

/* The name that `name` is probably meant to be; "" if there is none. */
void space_names_meant(const struct space_names *names, const char *name, char out[SEARCH_NAME_BYTES]);

/* The number of the choice of a categorical that equals the node's value, of a const 0; false: none does. 1 and 1.0 are equal. */
bool space_names_choice(const struct space_names *names, const struct search_parameter *parameter, const struct tree_node *node,
                        const char *path, uint64_t *out);

/* The node's value as a number that a trial can have; false: it is none. */
bool space_names_number(const struct search_parameter *parameter, const struct tree_node *node, double *out);

/* The values of a parameter in words, to follow "allowed are"; returns `out` or a static string. */
const char *space_names_describe(const struct search_parameter *parameter, char out[TREE_WORDS_BYTES]);

#endif
