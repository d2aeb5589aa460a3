#ifndef NODE_CONFIG_YAML_H
#define NODE_CONFIG_YAML_H
/* The reader of configuration files (config_parse_yaml of node/core/facts/config.h) as data: one row per option, for
 * help texts. */

#include <stdbool.h>

struct tree_node;

/* One option, described for people. */
struct config_option_text {
    const char *key;      /* "resources.slots_per_trial" */
    const char *type;     /* "number", "time", "size", "text", "true or false", "word", "list", "map", "text or list" */
    const char *allowed;  /* "1 ... 64" */
    const char *standard; /* the value of an option that is not given; "required" if it must be given */
    const char *help;     /* one sentence */
};

/* Calls `row` once per option, in the order of the file format. The texts are valid during the call; `context` is
 * passed through. */
void config_describe(void (*row)(void *context, const struct config_option_text *text), void *context);

/* True for a trial without a slot, as Determined has it: it gets one. `key` is the option's, `node` its value. */
bool config_is_no_slot(const char *key, const struct tree_node *node);

#endif
