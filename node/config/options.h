#ifndef NODE_CONFIG_OPTIONS_H
#define NODE_CONFIG_OPTIONS_H
/* The options of the table (node/core/facts/options.h) in a YAML file, and in words for people. */

#include "node/config/tree.h"
#include "node/core/facts/options.h"

/* The reason why a key of a later Shoal cannot be used; NULL for all other keys. A static string. */
const char *options_refusal(const char *key);

/* The allowed values in words, for error sentences and help; written to `out`, or a static string. */
const char *options_allowed(const struct config_option *option, char *out, size_t size);

/* The default in words; written to `out`, or a static string. */
const char *options_standard(const struct config_option *option, char *out, size_t size);

/* Stores a value into the option's field; false, and nothing is stored, if the value is not allowed. Only for options
 * without a reader of their own (option->allowed is NULL). */
bool options_store(const struct config_option *option, const struct tree_node *node, struct config *config);

/* Lists the last words of the options in a section ("" is the top level, others end in a dot), each word once; returns
 * their number. */
size_t options_section_keys(const char *section, char words[CONFIG_OPTIONS_MAX][TREE_KEY_BYTES_MAX]);

#endif
