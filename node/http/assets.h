#ifndef NODE_HTTP_ASSETS_H
#define NODE_HTTP_ASSETS_H
/* The files of the dashboard (node/http/web), built into the program. */

#include <stddef.h>
#include <stdint.h>

struct asset {
    const char *name;
    const char *type; /* media type */
    const uint8_t *bytes;
    size_t count;
    char tag[2 * 8 + 3]; /* ETag: a hash of the bytes, in quotes */
};

/* Computes the tags. Call it once, before assets_find. */
void assets_init(void);

/* The file of a name; NULL: there is none. */
const struct asset *assets_find(const char *name);

#endif
