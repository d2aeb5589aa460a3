#ifndef BASE_DOCUMENT_H
#define BASE_DOCUMENT_H
/* Reading the daemon's documents with msgpack-c: MessagePack maps. A value that is absent or of an unexpected type
 * reads as nothing (0, "", false, nil, an empty list), so that a newer daemon does not break an older client. */

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Decodes `bytes`, which must be exactly one value. `*out` and the values in it live in `zone`, with a copy of the
 * bytes, until the zone is cleared: at most some 50 bytes for each of `bytes`. ERR_MALFORMED (cut short, more than one
 * value, deeper than 32, extension types), ERR_MEMORY. */
int document_read(msgpack_zone *zone, const uint8_t *bytes, size_t count, msgpack_object *out);

/* The value of `key` in a map. Never NULL: a nil if the key is absent or `map` is no map. */
const msgpack_object *document_find(const msgpack_object *map, const char *key);

/* Read the value of `key` in a map. Texts are cut at `size`, end in NUL, and get '?' for control characters, so that
 * names from peers cannot steer a terminal. */
uint64_t document_number(const msgpack_object *map, const char *key);
bool document_true(const msgpack_object *map, const char *key);
bool document_has(const msgpack_object *map, const char *key); /* true: present and not nil */
void document_text(const msgpack_object *map, const char *key, char *out, size_t size);
void document_value_text(const msgpack_object *value, char *out, size_t size); /* of the value itself */
msgpack_object_array document_list(const msgpack_object *map, const char *key);

/* What a node is called where people read. `name_key` ends in "name": the text under the same key with "label" for "name" (no
 * other node's label), else (an older daemon) the text under `name_key`, else the first letters of the id under "node". `size`
 * of at least 9. */
void document_node(const msgpack_object *map, const char *name_key, char *out, size_t size);

/* The pairs of a map; no pairs for any other value. */
msgpack_object_map document_pairs(const msgpack_object *value);

/* Reads a number of any type as a double; false, and `*out` unchanged, for any other value. */
bool document_double(const msgpack_object *value, double *out);

/* Writes a value as text for people: texts as they are (control characters replaced), the rest as JSON. Cut at `size`. */
void document_value(const msgpack_object *value, char *out, size_t size);

/* Joins the parts of one document (docs/wire.md, "more"), at least one, in `zone`. Lists are concatenated and maps
 * united; of other values the first part's counts, and later values of another type are left out. The zones of the
 * parts must live as long as `*out`. ERR_MEMORY. */
int document_join(msgpack_zone *zone, const msgpack_object *parts, size_t count, msgpack_object *out);

/* Writes one value as a line of JSON. False: memory is full, or a key is no text. */
bool document_write_json(FILE *out, const msgpack_object *value);

/* As document_write_json, for a reply: a map, written without `id`, `ok`, `end` and `more`. */
bool document_write_reply_json(FILE *out, const msgpack_object *reply);

/* As document_write_json, for one value still encoded as MessagePack. */
bool document_write_packed_json(FILE *out, const uint8_t *bytes, size_t count);

#endif
