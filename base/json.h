#ifndef BASE_JSON_H
#define BASE_JSON_H
/* Writes MessagePack as JSON text, without allocation. */

#include <stddef.h>

#include "base/pack.h"

/* Takes the next value of `reader` and writes it to `out` as one line of JSON that ends in NUL. A double keeps a point
 * or an exponent ("1.0"), so that it differs from an integer; NaN and the infinities become the texts "NaN",
 * "Infinity" and "-Infinity"; binary becomes hexadecimal text. Control characters and bytes that are not UTF-8 are escaped, so the output is always valid JSON. 0;
 * ERR_MALFORMED: bad bytes, a key that is not text, or a depth above 32; ERR_FULL: `size` is too small. After an error
 * `out` is an empty text, if size > 0. */
int json_from_pack(struct pack_reader *reader, char *out, size_t size);

#endif
