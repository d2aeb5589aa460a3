#include "base/document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/json.h"
#include "base/pack.h"

/* Checks the bytes with base/pack before msgpack-c reads them: base/pack compares every count with the bytes present
 * and limits the depth to 32; msgpack-c does neither. Each value takes a byte at least, so msgpack-c's memory is then
 * bounded. */
static bool is_one_value(const uint8_t *bytes, size_t count)
{
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    pack_skip(&reader);
    return pack_at_end(&reader);
}

int document_read(msgpack_zone *zone, const uint8_t *bytes, size_t count, msgpack_object *out)
{
    if (!is_one_value(bytes, count)) {
        return ERR_MALFORMED;
    }
    char *copy = msgpack_zone_malloc_no_align(zone, count); /* texts in `*out` point into the copy */
    if (copy == NULL) {
        return ERR_MEMORY;
    }
    memcpy(copy, bytes, count);
    msgpack_unpack_return result = msgpack_unpack(copy, count, NULL, zone, out);
    return result == MSGPACK_UNPACK_SUCCESS        ? 0
           : result == MSGPACK_UNPACK_NOMEM_ERROR ? ERR_MEMORY
                                                  : ERR_MALFORMED;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* An empty text of msgpack-c is a NULL pointer, which memcmp must not get. */
static bool text_is(const msgpack_object *value, const char *text, size_t bytes)
{
    return value->type == MSGPACK_OBJECT_STR && value->via.str.size == bytes &&
           (bytes == 0 || memcmp(value->via.str.ptr, text, bytes) == 0);
}

/* The value of a key; NULL: absent. */
static const msgpack_object *find_n(const msgpack_object *map, const char *key, size_t key_bytes)
{
    msgpack_object_map pairs = document_pairs(map);
    for (uint32_t i = 0; i < pairs.size; i++) {
        if (text_is(&pairs.ptr[i].key, key, key_bytes)) {
            return &pairs.ptr[i].val;
        }
    }
    return NULL;
}

const msgpack_object *document_find(const msgpack_object *map, const char *key)
{
    static const msgpack_object nothing = {.type = MSGPACK_OBJECT_NIL};
    const msgpack_object *value = find_n(map, key, strlen(key));
    return value != NULL ? value : &nothing;
}

uint64_t document_number(const msgpack_object *map, const char *key)
{
    const msgpack_object *value = document_find(map, key);
    return value->type == MSGPACK_OBJECT_POSITIVE_INTEGER ? value->via.u64 : 0;
}

bool document_true(const msgpack_object *map, const char *key)
{
    const msgpack_object *value = document_find(map, key);
    return value->type == MSGPACK_OBJECT_BOOLEAN && value->via.boolean;
}

bool document_has(const msgpack_object *map, const char *key)
{
    return document_find(map, key)->type != MSGPACK_OBJECT_NIL;
}

static void copy_clean(char *out, size_t size, const char *text, size_t bytes)
{
    size_t count = bytes < size - 1 ? bytes : size - 1;
    for (size_t i = 0; i < count; i++) {
        unsigned char c = (unsigned char)text[i];
        bool control = c < 0x20 || c == 0x7f || (c == 0xc2 && i + 1 < bytes && (unsigned char)text[i + 1] < 0xa0);
        out[i] = control ? '?' : text[i];
    }
    out[count] = '\0';
}

void document_text(const msgpack_object *map, const char *key, char *out, size_t size)
{
    document_value_text(document_find(map, key), out, size);
}

void document_value_text(const msgpack_object *value, char *out, size_t size)
{
    bool is_text = value->type == MSGPACK_OBJECT_STR;
    copy_clean(out, size, is_text ? value->via.str.ptr : "", is_text ? value->via.str.size : 0);
}

msgpack_object_array document_list(const msgpack_object *map, const char *key)
{
    const msgpack_object *value = document_find(map, key);
    return value->type == MSGPACK_OBJECT_ARRAY ? value->via.array : (msgpack_object_array){.size = 0};
}

void document_node(const msgpack_object *map, const char *name_key, char *out, size_t size)
{
    char label_key[32];
    size_t stem = strlen(name_key) - strlen("name");
    (void)snprintf(label_key, sizeof label_key, "%.*slabel", (int)stem, name_key);
    document_text(map, label_key, out, size);
    if (out[0] == '\0') {
        document_text(map, name_key, out, size);
    }
    if (out[0] == '\0') {
        document_text(map, "node", out, 9);
    }
}

msgpack_object_map document_pairs(const msgpack_object *value)
{
    return value->type == MSGPACK_OBJECT_MAP ? value->via.map : (msgpack_object_map){.size = 0};
}

bool document_double(const msgpack_object *value, double *out)
{
    switch (value->type) {
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        *out = (double)value->via.u64;
        return true;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        *out = (double)value->via.i64;
        return true;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        *out = value->via.f64;
        return true;
    default:
        return false;
    }
}

/* ---- joining parts ----------------------------------------------------------------------------------------------- */

static int join(msgpack_zone *zone, const msgpack_object *const *parts, size_t count, msgpack_object *out);

static int join_lists(msgpack_zone *zone, const msgpack_object *const *parts, size_t count, msgpack_object *out)
{
    size_t total = 0, used = 0;
    for (size_t i = 0; i < count; i++) {
        total += parts[i]->via.array.size;
    }
    msgpack_object *items = total <= UINT32_MAX ? msgpack_zone_malloc(zone, (total + 1) * sizeof *items) : NULL;
    if (items == NULL) {
        return ERR_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < parts[i]->via.array.size; k++) {
            items[used++] = parts[i]->via.array.ptr[k];
        }
    }
    *out = (msgpack_object){.type = MSGPACK_OBJECT_ARRAY, .via.array = {.size = (uint32_t)used, .ptr = items}};
    return 0;
}

/* Joins the values under one key: `pair` is the first part's pair, `later` are the maps of the later parts. */
static int join_pair(msgpack_zone *zone, const msgpack_object_kv *pair, const msgpack_object *const *later, size_t later_count,
                     msgpack_object_kv *out)
{
    const msgpack_object **same = msgpack_zone_malloc(zone, (later_count + 1) * sizeof *same);
    if (same == NULL) {
        return ERR_MEMORY;
    }
    size_t same_count = 0;
    same[same_count++] = &pair->val;
    for (size_t i = 0; i < later_count; i++) {
        const msgpack_object *value = find_n(later[i], pair->key.via.str.ptr, pair->key.via.str.size);
        if (value != NULL && value->type == pair->val.type) {
            same[same_count++] = value;
        }
    }
    out->key = pair->key;
    return join(zone, same, same_count, &out->val);
}

static int join_maps(msgpack_zone *zone, const msgpack_object *const *parts, size_t count, msgpack_object *out)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        total += parts[i]->via.map.size;
    }
    msgpack_object_kv *pairs = total <= UINT32_MAX ? msgpack_zone_malloc(zone, (total + 1) * sizeof *pairs) : NULL;
    if (pairs == NULL) {
        return ERR_MEMORY;
    }
    *out = (msgpack_object){.type = MSGPACK_OBJECT_MAP, .via.map = {.size = 0, .ptr = pairs}};
    for (size_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < parts[i]->via.map.size; k++) {
            const msgpack_object_kv *pair = &parts[i]->via.map.ptr[k];
            bool is_text = pair->key.type == MSGPACK_OBJECT_STR;
            if (is_text && find_n(out, pair->key.via.str.ptr, pair->key.via.str.size) == NULL) {
                int result = join_pair(zone, pair, parts + i + 1, count - i - 1, &pairs[out->via.map.size]);
                if (result != 0) {
                    return result;
                }
                out->via.map.size++;
            }
        }
    }
    return 0;
}

/* Joins values of one type. Recurses as deep as the documents are. */
static int join(msgpack_zone *zone, const msgpack_object *const *parts, size_t count, msgpack_object *out)
{
    *out = *parts[0];
    if (count > 1 && out->type == MSGPACK_OBJECT_ARRAY) {
        return join_lists(zone, parts, count, out);
    }
    return count > 1 && out->type == MSGPACK_OBJECT_MAP ? join_maps(zone, parts, count, out) : 0;
}

int document_join(msgpack_zone *zone, const msgpack_object *parts, size_t count, msgpack_object *out)
{
    const msgpack_object **same = msgpack_zone_malloc(zone, count * sizeof *same);
    if (same == NULL) {
        return ERR_MEMORY;
    }
    size_t same_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].type == parts[0].type) {
            same[same_count++] = &parts[i];
        }
    }
    return join(zone, same, same_count, out);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* msgpack_packer_write. An empty text is a NULL pointer, which memcpy must not get. */
static int write_packed(void *buffer, const char *bytes, size_t count)
{
    return count == 0 ? 0 : msgpack_sbuffer_write(buffer, bytes, count);
}

/* Packs a value; the caller destroys `out`. */
static bool pack_value(const msgpack_object *value, msgpack_sbuffer *out)
{
    msgpack_packer packer;
    msgpack_sbuffer_init(out);
    msgpack_packer_init(&packer, out, write_packed);
    return msgpack_pack_object(&packer, *value) == 0;
}

bool document_write_packed_json(FILE *out, const uint8_t *bytes, size_t count)
{
    /* One byte becomes at most six ("\u0000") and a comma; a double's nine bytes become up to 25. */
    size_t capacity = count * 8 + 64;
    char *text = malloc(capacity);
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    bool written = text != NULL && json_from_pack(&reader, text, capacity) == 0;
    if (written) {
        (void)fprintf(out, "%s\n", text);
        (void)fflush(out);
    }
    free(text);
    return written;
}

bool document_write_json(FILE *out, const msgpack_object *value)
{
    msgpack_sbuffer packed;
    bool written = pack_value(value, &packed) && document_write_packed_json(out, (const uint8_t *)packed.data, packed.size);
    msgpack_sbuffer_destroy(&packed);
    return written;
}

static bool is_envelope(const msgpack_object *key)
{
    return text_is(key, "id", 2) || text_is(key, "ok", 2) || text_is(key, "end", 3) || text_is(key, "more", 4);
}

bool document_write_reply_json(FILE *out, const msgpack_object *reply)
{
    msgpack_object_map pairs = document_pairs(reply), kept = {.size = 0};
    kept.ptr = malloc(((size_t)pairs.size + 1) * sizeof *kept.ptr);
    if (kept.ptr == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < pairs.size; i++) {
        if (!is_envelope(&pairs.ptr[i].key)) {
            kept.ptr[kept.size++] = pairs.ptr[i];
        }
    }
    msgpack_object document = {.type = MSGPACK_OBJECT_MAP, .via.map = kept};
    bool written = document_write_json(out, &document);
    free(kept.ptr);
    return written;
}

void document_value(const msgpack_object *value, char *out, size_t size)
{
    if (value->type == MSGPACK_OBJECT_STR) {
        copy_clean(out, size, value->via.str.ptr, value->via.str.size);
        return;
    }
    msgpack_sbuffer packed;
    bool is_packed = pack_value(value, &packed);
    struct pack_reader reader;
    pack_reader_init(&reader, (const uint8_t *)packed.data, packed.size);
    if (!is_packed || json_from_pack(&reader, out, size) != 0) {
        (void)bytes_copy_text(out, size, "...");
    }
    msgpack_sbuffer_destroy(&packed);
}
