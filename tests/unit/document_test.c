/* The daemon's documents, as msgpack-c reads them, against what base/pack wrote. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/document.h"
#include "base/err.h"
#include "base/pack.h"

static msgpack_zone *zone;

static int make_zone(void **state)
{
    (void)state;
    zone = msgpack_zone_new(MSGPACK_ZONE_CHUNK_SIZE);
    return zone == NULL ? -1 : 0;
}

static int free_zone(void **state)
{
    (void)state;
    msgpack_zone_free(zone);
    return 0;
}

/* The document in the writer, whose bytes are then overwritten: nothing may point into them. */
static msgpack_object read_document(struct pack_writer *writer)
{
    msgpack_object document;
    assert_false(writer->failed);
    assert_int_equal(document_read(zone, writer->bytes, writer->used_bytes, &document), 0);
    memset(writer->bytes, 0xff, writer->used_bytes);
    writer->used_bytes = 0;
    return document;
}

static char *json_of(const msgpack_object *value, bool is_reply)
{
    static char text[4096];
    FILE *file = fmemopen(text, sizeof text, "w");
    assert_non_null(file);
    assert_true(is_reply ? document_write_reply_json(file, value) : document_write_json(file, value));
    (void)fclose(file);
    return text;
}

static void values_are_found_by_their_keys(void **state)
{
    (void)state;
    uint8_t bytes[512];
    char text[16];
    double number = 0;
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 9);
    pack_text(&writer, "id");
    pack_u64(&writer, UINT64_MAX);
    pack_text(&writer, "less");
    pack_i64(&writer, INT64_MIN);
    pack_text(&writer, "half");
    pack_double(&writer, 0.5);
    pack_text(&writer, "yes");
    pack_bool(&writer, true);
    pack_text(&writer, "nothing");
    pack_nil(&writer);
    pack_text(&writer, "text");
    pack_text(&writer, "a\x1b[31m\xc2\x9b" "b");
    pack_text(&writer, "long");
    pack_text(&writer, "0123456789abcdefghijklmnopqrstuvwxyz");
    pack_text(&writer, "list");
    pack_array(&writer, 2);
    pack_u64(&writer, 1);
    pack_bin(&writer, "\x01\xff", 2);
    pack_text(&writer, "more");
    pack_bool(&writer, false);
    msgpack_object document = read_document(&writer);
    assert_true(document_number(&document, "id") == UINT64_MAX);
    assert_int_equal(document_number(&document, "less"), 0);
    assert_true(document_double(document_find(&document, "less"), &number) && number < -9e18);
    assert_true(document_double(document_find(&document, "half"), &number) && number == 0.5);
    assert_false(document_double(document_find(&document, "text"), &number));
    assert_true(document_true(&document, "yes"));
    assert_false(document_true(&document, "id"));
    assert_false(document_has(&document, "nothing"));
    assert_false(document_has(&document, "nowhere"));
    document_text(&document, "text", text, sizeof text);
    assert_string_equal(text, "a?[31m?\x9b" "b");
    document_text(&document, "long", text, sizeof text);
    assert_string_equal(text, "0123456789abcde");
    document_text(&document, "list", text, sizeof text);
    assert_string_equal(text, "");
    assert_int_equal(document_list(&document, "list").size, 2);
    assert_int_equal(document_list(&document, "text").size, 0);
    assert_int_equal(document_pairs(document_find(&document, "list")).size, 0);
    assert_int_equal(document_find(document_find(&document, "text"), "x")->type, MSGPACK_OBJECT_NIL);
    document_value(document_find(&document, "list"), text, sizeof text);
    assert_string_equal(text, "[1, \"01ff\"]");
    document_value(&document, text, sizeof text);
    assert_string_equal(text, "...");
    assert_string_equal(json_of(&document, true),
                        "{\"less\": -9223372036854775808, \"half\": 0.5, \"yes\": true, \"nothing\": null, \"text\": "
                        "\"a\\u001b[31m\xc2\x9b" "b\", \"long\": \"0123456789abcdefghijklmnopqrstuvwxyz\", "
                        "\"list\": [1, \"01ff\"]}\n");
}

static void an_empty_text_is_a_text(void **state)
{
    (void)state;
    uint8_t bytes[64];
    char text[16] = "x";
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 2);
    pack_text(&writer, "");
    pack_text(&writer, "");
    pack_text(&writer, "bin");
    pack_bin(&writer, "", 0);
    msgpack_object document = read_document(&writer);
    assert_true(document_has(&document, ""));
    document_text(&document, "", text, sizeof text);
    assert_string_equal(text, "");
    assert_string_equal(json_of(&document, true), "{\"\": \"\", \"bin\": \"\"}\n");
}

static void what_is_no_document_is_malformed(void **state)
{
    (void)state;
    static const struct {
        uint8_t bytes[6];
        size_t count;
    } cases[] = {
        {{0}, 0},
        {{0xdd, 0xff, 0xff, 0xff, 0xff, 0}, 6}, /* an array of four thousand million */
        {{0xdf, 0xff, 0xff, 0xff, 0xff, 0}, 6}, {{0xdb, 0xff, 0xff, 0xff, 0xff, 'a'}, 6},
        {{0x92, 1}, 2}, /* cut short */
        {{1, 2}, 2},    /* two values */
        {{0xc1}, 1}, {{0xd4, 1, 2}, 3}, {{0xc7, 1, 1, 1}, 4},
    };
    msgpack_object document;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(document_read(zone, cases[i].bytes, cases[i].count, &document), ERR_MALFORMED);
    }
    uint8_t deep[100];
    memset(deep, 0x91, sizeof deep);
    deep[31] = 0xc0; /* 31 arrays in each other */
    assert_int_equal(document_read(zone, deep, 32, &document), 0);
    deep[31] = 0x91;
    for (size_t depth = 32; depth < sizeof deep; depth++) {
        deep[depth] = 0xc0;
        assert_int_equal(document_read(zone, deep, depth + 1, &document), ERR_MALFORMED);
        deep[depth] = 0x91;
    }
}

static void parts_are_joined_by_type(void **state)
{
    (void)state;
    uint8_t bytes[256];
    struct pack_writer writer;
    msgpack_object parts[3], joined;
    pack_writer_init(&writer, bytes, sizeof bytes);
    for (uint32_t i = 0; i < 3; i++) {
        pack_map(&writer, 4);
        pack_text(&writer, "list");
        pack_array(&writer, i);
        for (uint32_t k = 0; k < i; k++) {
            pack_u64(&writer, 10 * i + k);
        }
        pack_text(&writer, "map");
        pack_map(&writer, 1);
        pack_text(&writer, i == 1 ? "one" : "other");
        pack_u64(&writer, i);
        pack_text(&writer, "turn"); /* of another type in the second */
        if (i == 1) {
            pack_u64(&writer, i);
        } else {
            pack_array(&writer, 1);
            pack_u64(&writer, i);
        }
        pack_text(&writer, "more");
        pack_bool(&writer, i < 2);
        parts[i] = read_document(&writer);
    }
    assert_int_equal(document_join(zone, parts, 1, &joined), 0);
    assert_string_equal(json_of(&joined, false), "{\"list\": [], \"map\": {\"other\": 0}, \"turn\": [0], \"more\": true}\n");
    assert_int_equal(document_join(zone, parts, 3, &joined), 0);
    assert_string_equal(json_of(&joined, true),
                        "{\"list\": [10, 20, 21], \"map\": {\"other\": 0, \"one\": 1}, \"turn\": [0, 2]}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(values_are_found_by_their_keys, make_zone, free_zone),
        cmocka_unit_test_setup_teardown(an_empty_text_is_a_text, make_zone, free_zone),
        cmocka_unit_test_setup_teardown(what_is_no_document_is_malformed, make_zone, free_zone),
        cmocka_unit_test_setup_teardown(parts_are_joined_by_type, make_zone, free_zone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
