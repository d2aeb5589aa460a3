#ifndef TOOLS_SHOAL_ORIGINAL_H
#define TOOLS_SHOAL_ORIGINAL_H
/* What was submitted once: code and configuration of an experiment, read back from the daemon. Each function that returns an `int`
 * returns an exit code; on failure its sentence is written. */

#include "tools/shoal/client.h"
#include "tools/shoal/origin.h"

struct original {
    char id[CLIENT_EXPERIMENT_TEXT_BYTES];
    char name[256];
    char *text;         /* the configuration file, without the lines of `origin`; ends in NUL */
    size_t text_bytes;
    struct origin origin;
    bool has_origin; /* false: an older version submitted it, and what --set changed is not known */
};

/* Reads the configuration of the experiment `id`, which client_find_experiment has found. The caller frees `*out`, also after a
 * failure. */
int original_read(struct client *client, const char *id, struct original *out);
void original_free(struct original *original);

/* Gets the packed code directory (store/archive.h) as a file, which the caller closes. `*keeps_links` (may be NULL): it may hold links
 * that lead out of it. */
int original_code(struct client *client, const char *id, int *fd, uint64_t *bytes, bool *keeps_links);

#endif
