#ifndef BASE_JSON_H
#define BASE_JSON_H
/* MessagePack written as JSON text, without allocation. */

#include <stddef.h>

#include "base/pack.h"

/* Writes the next value of `reader`, which is taken, as one line of JSON that ends in NUL. Doubles keep a point or an
 * exponent ("1.0"), so that they stay apart from integers; not-a-number and infinities become null, binary becomes
 * hexadecimal text. Control characters and bytes that are no UTF-8 are escaped, so the output is always valid.
 * 0; ERR_MALFORMED (bytes, a key that is no text, deeper than 32); ERR_FULL (`size` too small). After an error `out` is
 * an empty text, if size > 0. */
int json_from_pack(struct pack_reader *reader, char *out, size_t size);

#endif
