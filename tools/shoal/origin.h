#ifndef TOOLS_SHOAL_ORIGIN_H
#define TOOLS_SHOAL_ORIGIN_H
/* What an experiment was made from, as comments at the end of its configuration file, one line each:
 *
 *     # shoal: set KEY=VALUE      an override of the command line, in order; \n and \\ stand for a newline and a backslash
 *     # shoal: commit HASH        the git commit of the code directory, if it is a work tree
 *     # shoal: diff HASH          of what differed from the commit (git diff HEAD, BLAKE2b-128), if anything did
 *     # shoal: version VERSION    of Shoal
 *     # shoal: from EXP           the experiment, or EXP/TRIAL, of which this one is a fork
 *
 * They travel and are stored with the file, so every version of Shoal keeps them. When a file that ends with them is submitted again,
 * its overrides count before those of the command line, and new lines take their place. */

#include "tools/shoal/cli.h"

#define ORIGIN_HASH_BYTES 72
#define ORIGIN_FROM_BYTES 64
#define ORIGIN_VERSION_BYTES 32

struct origin {
    char commit[ORIGIN_HASH_BYTES]; /* each "": there is none */
    char diff[ORIGIN_HASH_BYTES];
    char version[ORIGIN_VERSION_BYTES];
    char from[ORIGIN_FROM_BYTES];
    char **overrides; /* [override_count], from malloc */
    size_t override_count;
};

/* Reads the lines at the end of a text, and returns how many bytes of the text are before them. The caller frees `*out`. */
size_t origin_read(const char *text, size_t bytes, struct origin *out);
void origin_free(struct origin *origin);

/* Writes the lines. `overrides` in place of those of `origin`. */
void origin_write(FILE *out, const struct origin *origin, const char *const *overrides, size_t override_count);

/* Asks git for commit and difference of a directory; without git, and outside a work tree, both are "". */
void origin_ask_git(const char *dir, struct origin *out);

#endif
