#ifndef NODE_CONFIG_ADVICE_H
#define NODE_CONFIG_ADVICE_H
/* What in a configuration is allowed and probably not meant, told at submit. Pure. */

#include "node/core/facts/config.h"

/* Calls `report` once for each such thing: braces of the entrypoint that are almost a placeholder; placeholders where none are
 * filled; variables that the daemon sets itself later, or whose own value Shoal needs. `config` is whole. */
void advice_give(const struct config *config, void (*report)(void *context, const char *sentence), void *context);

/* The same for what is in the file and not in `config`: keys and launchers of files for Determined. The arguments are those of
 * config_parse_yaml, which has accepted them; each sentence begins with its place. Also, without a place: a metric of which
 * more is better, by its name, where the file does not say so. Nothing is told when memory is short. */
void advice_give_file(const char *file_name, const char *text, size_t text_bytes, const char *const *overrides,
                      size_t override_count, void (*report)(void *context, const char *sentence), void *context);

#endif
