#ifndef BASE_VISIBLE_H
#define BASE_VISIBLE_H
/* File names and other bytes of strangers as text that can be printed: control characters and bytes that are not UTF-8 become
 * \n, \t, \r, \\ or \xHH. A core. */

#include <stddef.h>

/* Writes `bytes` (ends in NUL) to `out`, which always ends in NUL. Text that does not fit loses its middle: "a/b ... y/z".
 * `size` is at least 16. Returns the length. */
size_t visible_text(char *out, size_t size, const char *bytes);

#endif
