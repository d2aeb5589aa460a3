/* Answers of a daemon as `shoal` reads them: u8 in how many parts of equal length the rest is cut (up to 4), then frames
 * without their heads. msgpack-c takes what base/pack takes, and says the same of it. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/document.h"
#include "base/err.h"
#include "base/json.h"
#include "base/pack.h"
#include "tests/fuzz/fuzz.h"

#define PARTS_MAX 4

/* Looks at a value in every way. */
static void look(const msgpack_object *value)
{
    static const char *const keys[] = {"id", "ok", "more", "nodes", "experiment", "best", ""};
    char text[64];
    double number;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const msgpack_object *found = document_find(value, keys[i]);
        CHECK(document_has(value, keys[i]) == (found->type != MSGPACK_OBJECT_NIL));
        CHECK(document_number(value, keys[i]) == 0 || document_double(found, &number));
        CHECK(!document_true(value, keys[i]) || found->type == MSGPACK_OBJECT_BOOLEAN);
        document_node(value, keys[i], text, sizeof text);
        CHECK(strlen(text) < sizeof text);
    }
    document_value(value, text, sizeof text);
    CHECK(strlen(text) < sizeof text);
}

static void look_at_all(const msgpack_object *value)
{
    msgpack_object_array list = value->type == MSGPACK_OBJECT_ARRAY ? value->via.array : (msgpack_object_array){.size = 0};
    msgpack_object_map pairs = document_pairs(value);
    look(value);
    for (uint32_t i = 0; i < list.size && i < 16; i++) {
        look_at_all(&list.ptr[i]);
    }
    for (uint32_t i = 0; i < pairs.size && i < 16; i++) {
        look_at_all(&pairs.ptr[i].key);
        look_at_all(&pairs.ptr[i].val);
    }
}

/* The line of JSON, malloc'ed; NULL if there is none. */
static char *json_line(const msgpack_object *value, bool is_reply)
{
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    CHECK(file != NULL);
    bool written = is_reply ? document_write_reply_json(file, value) : document_write_json(file, value);
    CHECK(fclose(file) == 0);
    if (!written) {
        free(text);
        return NULL;
    }
    CHECK(bytes > 0 && text[bytes - 1] == '\n');
    return text;
}

/* What msgpack-c has read is what base/pack reads. */
static void compare(const uint8_t *bytes, size_t count, const msgpack_object *value)
{
    struct pack_reader reader;
    size_t capacity = 8 * count + 64;
    char *expected = malloc(capacity), *line = json_line(value, false);
    CHECK(expected != NULL);
    pack_reader_init(&reader, bytes, count);
    bool is_json = json_from_pack(&reader, expected, capacity) == 0;
    CHECK(is_json == (line != NULL));
    CHECK(!is_json || (strlen(line) == strlen(expected) + 1 && memcmp(line, expected, strlen(expected)) == 0));
    free(expected);
    free(line);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    msgpack_object parts[PARTS_MAX], joined;
    size_t count = 0;
    if (size < 2) {
        return;
    }
    size_t part_count = 1 + data[0] % PARTS_MAX, part_bytes = (size - 1) / part_count;
    msgpack_zone *zone = msgpack_zone_new(MSGPACK_ZONE_CHUNK_SIZE);
    CHECK(zone != NULL);
    for (size_t i = 0; i < part_count; i++) {
        const uint8_t *bytes = data + 1 + i * part_bytes;
        struct pack_reader reader;
        pack_reader_init(&reader, bytes, part_bytes);
        pack_skip(&reader);
        int result = document_read(zone, bytes, part_bytes, &parts[count]);
        CHECK(result == (pack_at_end(&reader) ? 0 : ERR_MALFORMED));
        if (result == 0) {
            compare(bytes, part_bytes, &parts[count]);
            look_at_all(&parts[count++]);
        }
    }
    if (count > 0) {
        CHECK(document_join(zone, parts, count, &joined) == 0);
        CHECK(joined.type == parts[0].type);
        look_at_all(&joined);
        free(json_line(&joined, true));
    }
    msgpack_zone_free(zone);
}

/* One seed of `parts` times the document. */
static void seed(const struct pack_writer *document, uint8_t parts)
{
    static uint8_t bytes[FUZZ_INPUT_BYTES_MAX];
    CHECK(!document->failed);
    bytes[0] = (uint8_t)(parts - 1);
    for (size_t i = 0; i < parts; i++) {
        memcpy(bytes + 1 + i * document->used_bytes, document->bytes, document->used_bytes);
    }
    fuzz_seed(bytes, 1 + parts * document->used_bytes);
}

void fuzz_seeds(void)
{
    uint8_t bytes[1024];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 7);
    pack_text(&writer, "");
    pack_text(&writer, "");
    pack_text(&writer, "id");
    pack_u64(&writer, 1);
    pack_text(&writer, "ok");
    pack_bool(&writer, true);
    pack_text(&writer, "more");
    pack_bool(&writer, true);
    pack_text(&writer, "nodes");
    pack_array(&writer, 2);
    pack_map(&writer, 2);
    pack_text(&writer, "node");
    pack_text(&writer, "00112233");
    pack_text(&writer, "name");
    pack_text(&writer, "alpha");
    pack_nil(&writer);
    pack_text(&writer, "experiment");
    pack_map(&writer, 2);
    pack_text(&writer, "best");
    pack_double(&writer, 0.5);
    pack_text(&writer, "value");
    pack_i64(&writer, -70000);
    pack_text(&writer, "bytes");
    pack_bin(&writer, "\x00\xff", 2);
    for (uint8_t parts = 1; parts <= PARTS_MAX; parts++) {
        seed(&writer, parts);
    }
    for (uint32_t depth = 31; depth < 33; depth++) { /* as deep as a document may be, and one deeper */
        pack_writer_init(&writer, bytes, sizeof bytes);
        for (uint32_t i = 0; i < depth; i++) {
            pack_array(&writer, 1);
        }
        pack_nil(&writer);
        seed(&writer, 1);
    }
}
