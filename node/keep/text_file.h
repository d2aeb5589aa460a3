#ifndef NODE_KEEP_TEXT_FILE_H
#define NODE_KEEP_TEXT_FILE_H
/* Short files of the kernel, in /proc and /sys. A shell. */

#include <stdbool.h>
#include <stddef.h>

/* Reads the start of the file at the path "format" as text that ends in NUL, at most size - 1 bytes. False: the file cannot be
 * opened, or not be read to its end (`out` then has what came before, at least the NUL). */
__attribute__((format(printf, 3, 4))) bool keep_text_read(char *out, size_t size, const char *format, ...);

#endif
