#ifndef NODE_CONFIG_OPTIONS_H
#define NODE_CONFIG_OPTIONS_H
/* The table of options: one row each, in the order of the file format, with the allowed values. */

#include "node/config/tree.h"

/* OPTION_OTHER: read by a function of its own (fields.h, hyperparameters.h). */
enum option_kind { OPTION_TEXT, OPTION_NAME /* a text without '/' */, OPTION_LINES, OPTION_NUMBER, OPTION_TRUTH, OPTION_WORD, OPTION_OTHER };

/* One option. */
struct config_option {
    const char *key;
    enum option_kind kind;
    size_t offset, size; /* offset and size of the field in struct config; a text may have size - 1 bytes */
    uint64_t min, max;   /* bounds of a number */
    const char *const *words;
    const char *type; /* type and allowed values of an OPTION_OTHER, in words */
    const char *allowed;
    const char *standard;
    const char *help;
};

#define CONFIG_OPTIONS 25
extern const struct config_option config_options[CONFIG_OPTIONS];

/* The reason why a known but unusable key of a file for Determined, or for a later Shoal, cannot be used; NULL for all
 * other keys. A static string. */
const char *options_refusal(const char *key);

/* The allowed values in words, also for help texts; written to `out`, or a static string. */
const char *options_allowed(const struct config_option *option, char *out, size_t size);

/* Stores a value of any kind but OPTION_OTHER into its field; false, and nothing is stored, if the value is not
 * allowed. */
bool options_store(const struct config_option *option, const struct tree_node *node, struct config *config);

/* Lists the last words of the options in a section ("" is the top level, others end in a dot), each word once; returns
 * their number. */
size_t options_section_keys(const char *section, char words[CONFIG_OPTIONS][TREE_KEY_BYTES_MAX]);

#endif
