#ifndef STORE_SMALL_FILE_H
#define STORE_SMALL_FILE_H
/* Reads files that are small or are refused: rules, configuration. A shell. */

#include <stdbool.h>
#include <stddef.h>

/* Reads the regular file `name` in the directory `dir_fd` (AT_FDCWD; `name` may be a path). `*text` comes from malloc, ends in
 * NUL behind its `*text_bytes`, and is the caller's. `follows`: a symbolic link as the last name is followed. 0;
 * ERR_NOT_FOUND: no such file, or no regular one; ERR_FULL: more than bytes_max; ERR_MEMORY; ERR_IO, with errno. */
int small_file_read(int dir_fd, const char *name, bool follows, size_t bytes_max, char **text, size_t *text_bytes);

#endif
