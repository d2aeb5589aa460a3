#ifndef TOOLS_SHOAL_EXTENDS_H
#define TOOLS_SHOAL_EXTENDS_H
/* The key `extends` of a configuration file: another file, whose values count where this one has none. */

#include <stddef.h>

#include "tools/shoal/cli.h"

/* If the YAML in `*text` (from malloc) has the key, replaces it with one text in which the other file is merged: keys at the top that
 * only the other file has are taken from there, maps at the top are merged key by key, and any other value of this file stands. What
 * this file says stays in its lines. The other file's path is relative to the directory of `file`, and it may extend a third one.
 * An exit code; on failure the sentence is written, and `*text` is unchanged. YAML that cannot be read is left for the check of the
 * configuration. */
int extends_resolve(struct cli *cli, const char *file, char **text, size_t *bytes);

#endif
