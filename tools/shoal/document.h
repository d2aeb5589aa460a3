#ifndef TOOLS_SHOAL_DOCUMENT_H
#define TOOLS_SHOAL_DOCUMENT_H
/* Reading the daemon's documents with msgpack-c: MessagePack maps whose values may be absent or of another type than
 * expected. Whatever is not there reads as nothing (0, "", false, nil, an empty list); a newer daemon does not break an older client. */

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Reads the one value that `bytes` are. `*out` and all that is in it lie in `zone`, with a copy of the bytes, until the zone
 * is cleared: at most some 50 bytes for each of `bytes`. ERR_MALFORMED (cut short, more than one value, deeper than 32,
 * extension types), ERR_MEMORY. */
int document_read(msgpack_zone *zone, const uint8_t *bytes, size_t count, msgpack_object *out);

/* The value of `key` in a map: never NULL, a nil if it is not there or `map` is none. */
const msgpack_object *document_find(const msgpack_object *map, const char *key);

/* What `key` has in a map. Texts are cut at `size`, end in NUL, and control characters become '?', so that names from other
 * machines cannot steer a terminal. */
uint64_t document_number(const msgpack_object *map, const char *key);
bool document_true(const msgpack_object *map, const char *key);
bool document_has(const msgpack_object *map, const char *key); /* there, and not nil */
void document_text(const msgpack_object *map, const char *key, char *out, size_t size);
msgpack_object_array document_list(const msgpack_object *map, const char *key);

/* A node by its name, under `name_key`, or by the first letters of its id; `size` of at least 9. */
void document_node(const msgpack_object *map, const char *name_key, char *out, size_t size);

/* A value alone. Pairs of what is no map: none. A double is any number; false: it is none. */
msgpack_object_map document_pairs(const msgpack_object *value);
bool document_double(const msgpack_object *value, double *out);

/* A value as text for people: texts as they are (control characters replaced), the rest as JSON. Cut at `size`. */
void document_value(const msgpack_object *value, char *out, size_t size);

/* The parts of one document (docs/wire.md, "more"), at least one, as one in `zone`: lists are concatenated, maps united, of
 * other values the first part's counts, and values of another type than it are left out. What lies in the zone of a part must
 * live as long as `*out`. ERR_MEMORY. */
int document_join(msgpack_zone *zone, const msgpack_object *parts, size_t count, msgpack_object *out);

/* Writes one value as a line of JSON, of a map that is a reply without id, ok, end and more; or one that is packed still.
 * False: a key that is no text, or no memory. */
bool document_write_json(FILE *out, const msgpack_object *value);
bool document_write_reply_json(FILE *out, const msgpack_object *reply);
bool document_write_packed_json(FILE *out, const uint8_t *bytes, size_t count);

#endif
