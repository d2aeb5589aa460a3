#ifndef NODE_CONFIG_OPTIONS_H
#define NODE_CONFIG_OPTIONS_H
/* The table of options: one row each, in the order of the file format, and what a value of it may be. */

#include "node/config/tree.h"

enum option_kind { OPTION_TEXT, OPTION_NAME /* a text without '/' */, OPTION_LINES, OPTION_NUMBER, OPTION_TRUTH, OPTION_WORD, OPTION_OTHER };

struct config_option {
    const char *key;
    enum option_kind kind;
    size_t offset, size; /* of the field; a text may have size - 1 bytes */
    uint64_t min, max;   /* of a number */
    const char *const *words;
    const char *type; /* of OPTION_OTHER, as `allowed` */
    const char *allowed;
    const char *standard;
    const char *help;
};

#define CONFIG_OPTIONS 25
extern const struct config_option config_options[CONFIG_OPTIONS];

/* Why a key that a file written for Determined, or for a later Shoal, may have cannot be used; NULL for all others. */
const char *options_refusal(const char *key);

/* `allowed` in words, also for help; in `out` or a text that stays. */
const char *options_allowed(const struct config_option *option, char *out, size_t size);

/* Writes one value of the common kinds into its field; false if it is not allowed. */
bool options_store(const struct config_option *option, const struct tree_node *node, struct config *config);

/* The last words of the options in a section ("" is the top, others end in a dot), each once; returns their number. */
size_t options_section_keys(const char *section, char words[CONFIG_OPTIONS][TREE_KEY_BYTES_MAX]);

#endif
