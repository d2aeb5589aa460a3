#ifndef TOOLS_SHOAL_BOARD_NAMES_H
#define TOOLS_SHOAL_BOARD_NAMES_H
/* Names of Shoal as TensorBoard can read them: directories of experiments, and tags of metrics. Names are kept as they are
 * where that is possible. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/shoal/hash_set.h"

#define BOARD_DIRECTORY_BYTES 256 /* of a directory's name, with the NUL */

/* Copies a text; bytes that are no UTF-8 become U+FFFD, since TensorBoard reads no further in a file with such a text. What
 * does not fit into `size` bytes with the NUL is cut off between characters. Returns the length. */
size_t board_clean(const char *text, size_t bytes, char *out, size_t size);

/* The name of an experiment's directory: '/' becomes '_', and a name that means another directory, or none, gets a '_'.
 * `id`: "", or what is added behind a '~', since another experiment has the directory without it. */
void board_directory(const char *name, const char *id, char out[BOARD_DIRECTORY_BYTES]);

/* A metric's tag: "group/name". */
struct board_tag {
    uint64_t key; /* hash of group and name; 0: free */
    char *text;   /* UTF-8, not ended by a NUL */
    size_t bytes;
    bool has_suffix; /* another metric has the tag without it */
};

/* The tags of an experiment. All zero: none. The caller owns it until board_tags_free. */
struct board_tags {
    struct board_tag *slots;
    size_t capacity, count;
    struct hash_set texts;
};

/* The tag of a metric; made at the first call for it. Valid until the next call. NULL: no memory is left. `*is_new`: this
 * was the first call. */
const struct board_tag *board_tag(struct board_tags *tags, const char *group, size_t group_bytes, const char *name,
                                  size_t name_bytes, bool *is_new);

void board_tags_free(struct board_tags *tags);

#endif
