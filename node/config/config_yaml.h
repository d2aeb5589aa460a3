#ifndef NODE_CONFIG_YAML_H
#define NODE_CONFIG_YAML_H
/* The reader of configuration files (config_parse_yaml of node/core/facts/config.h) as data: one row per option, for help texts. */

struct config_option_text {
    const char *key;      /* "resources.slots_per_trial" */
    const char *type;     /* "number", "text", "true or false", "word", "list", "map", "text or list" */
    const char *allowed;  /* "1 ... 64" */
    const char *standard; /* what holds when it is not given; "required" when it must be */
    const char *help;     /* one sentence */
};

/* Calls `row` once per option, in the order of the file format. The texts are valid during the call. */
void config_describe(void (*row)(void *context, const struct config_option_text *text), void *context);

#endif
