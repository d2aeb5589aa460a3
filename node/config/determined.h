#ifndef NODE_CONFIG_DETERMINED_H
#define NODE_CONFIG_DETERMINED_H
/* Configuration files that were written for Determined: keys that mean nothing to Shoal, and launchers at the beginning of an
 * entrypoint. Pure; docs/determined.md is the page for people. */

#include <stdbool.h>
#include <stddef.h>

/* What Shoal does instead of what this key ("environment.image") asks for, to follow "KEY has no effect: "; NULL for all other
 * keys. A static string. */
const char *determined_key(const char *key);

/* A launcher, `python3 -m determined.launch.NAME [OPTIONS --]`, at the beginning of an entrypoint. */
struct determined_launcher {
    const char *name; /* within the entrypoint */
    size_t name_bytes;
    bool is_dropped;    /* the command behind it is what Shoal runs */
    const char *advice; /* why it is dropped, or why the entrypoint cannot be used; a static string, to follow the name */
    size_t bytes;       /* up to the command; 0 if it is not dropped */
};

/* True if the entrypoint begins with a launcher. */
bool determined_find_launcher(const char *entrypoint, struct determined_launcher *out);

#endif
