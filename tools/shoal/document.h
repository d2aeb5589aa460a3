#ifndef TOOLS_SHOAL_DOCUMENT_H
#define TOOLS_SHOAL_DOCUMENT_H
/* Reading the daemon's documents: MessagePack maps whose values may be absent or of another type than expected.
 * Whatever is not there reads as nothing (0, "", false); a newer daemon does not break an older client. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/pack.h"

/* The value of `key` in the map that `map` stands before. Texts are cut at `size`, end in NUL, and control characters
 * become '?', so that names from other machines cannot steer a terminal. */
uint64_t document_number(const struct pack_reader *map, const char *key);
bool document_true(const struct pack_reader *map, const char *key);
bool document_has(const struct pack_reader *map, const char *key); /* there, and not nil */
void document_text(const struct pack_reader *map, const char *key, char *out, size_t size);

/* A node by its name, under `name_key`, or by the first letters of its id; `size` of at least 9. */
void document_node(const struct pack_reader *map, const char *name_key, char *out, size_t size);

/* Takes the next value of an array (after pack_read_array) as `*item`, which stands before it; false when malformed. */
bool document_each(struct pack_reader *array, struct pack_reader *item);

/* A value as text for people: texts as they are (control characters replaced), the rest as JSON. Cut at `size`. */
void document_value(struct pack_reader value, char *out, size_t size);

/* Two parts of one document (docs/wire.md, "more"): lists are concatenated, maps united, of other values `a`'s counts.
 * `a` NULL: a copy of `b`. `*out` is malloc'ed and the caller's. ERR_MALFORMED, ERR_MEMORY. */
int document_join(const struct pack_reader *a, const struct pack_reader *b, uint8_t **out, size_t *out_bytes);

/* Writes one value as a line of JSON; of a map that is a reply, leaves out id, ok, end and more. False: malformed, or
 * no memory. */
bool document_write_json(FILE *out, struct pack_reader value);
bool document_write_reply_json(FILE *out, const struct pack_reader *reply);

#endif
