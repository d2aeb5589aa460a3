#ifndef NODE_CONFIG_WARM_START_H
#define NODE_CONFIG_WARM_START_H
/* searcher.warm_start of a configuration file: earlier experiments whose best trials give the first trials their values. The names are
 * resolved where the file is submitted: into searcher.initial, and warm_start then names the trials that were taken. Pure. */

#include <stddef.h>

#define WARM_START_MAX 64 /* names in the list */

/* Calls `name` for each text of searcher.warm_start, in order, and `own` for each element of searcher.initial with the element as YAML
 * in one line, valid during the call. `overrides` are the texts of --set. A file that is no YAML, or whose keys have other
 * shapes, gives nothing: config_parse_yaml says what is wrong with it. 0 or ERR_MEMORY. */
int warm_start_read(const char *text, size_t text_bytes, const char *const *overrides, size_t override_count,
                    void (*name)(void *context, const char *text), void (*own)(void *context, const char *yaml), void *context);

#endif
