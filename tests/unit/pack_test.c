/* base/pack against msgpack-c, both ways, and base/json on what pack writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <msgpack.h>

#include "base/err.h"
#include "base/json.h"
#include "base/pack.h"
#include "base/random.h"

#define DOCUMENT_BYTES (64 * 1024)
#define DOCUMENTS 2000

/* A random integer of a random width, so that every encoding is met. */
static int64_t random_integer(struct random *random)
{
    uint64_t value = random_u64(random) >> (1 + random_below(random, 63));
    return random_below(random, 2) != 0 ? (int64_t)value : -(int64_t)value;
}

static double random_number(struct random *random)
{
    return ((double)random_below(random, 2000001) - 1e6) / 1024;
}

/* Lengths around the borders of the encodings: 15, 31, 255, 65535. */
static uint32_t random_length(struct random *random, uint32_t most)
{
    uint64_t kind = random_below(random, 400);
    uint64_t length = kind == 0 ? random_below(random, 70000) : kind < 60 ? random_below(random, 300) : random_below(random, 34);
    return length < most ? (uint32_t)length : most;
}

static char filler[70000];

/* Writes the same random document with both libraries. */
static void write_both(struct random *random, struct pack_writer *ours, msgpack_packer *theirs, unsigned depth)
{
    uint64_t kind = random_below(random, depth < 4 ? 9 : 7);
    switch (kind) {
    case 0:
        pack_nil(ours);
        msgpack_pack_nil(theirs);
        break;
    case 1: {
        bool value = random_below(random, 2) != 0;
        pack_bool(ours, value);
        if (value) {
            msgpack_pack_true(theirs);
        } else {
            msgpack_pack_false(theirs);
        }
        break;
    }
    case 2: {
        uint64_t value = random_u64(random) >> random_below(random, 64);
        pack_u64(ours, value);
        msgpack_pack_uint64(theirs, value);
        break;
    }
    case 3: {
        int64_t value = random_integer(random);
        pack_i64(ours, value);
        msgpack_pack_int64(theirs, value);
        break;
    }
    case 4: {
        double value = random_number(random);
        pack_double(ours, value);
        msgpack_pack_double(theirs, value);
        break;
    }
    case 5: {
        uint32_t length = random_length(random, sizeof filler);
        pack_text_n(ours, filler, length);
        msgpack_pack_str_with_body(theirs, filler, length);
        break;
    }
    case 6: {
        uint32_t length = random_length(random, sizeof filler);
        pack_bin(ours, filler, length);
        msgpack_pack_bin_with_body(theirs, filler, length);
        break;
    }
    case 7: {
        uint32_t count = random_length(random, depth == 0 ? 300 : 20);
        pack_array(ours, count);
        msgpack_pack_array(theirs, count);
        for (uint32_t i = 0; i < count; i++) {
            write_both(random, ours, theirs, depth + 1);
        }
        break;
    }
    default: {
        uint32_t count = random_length(random, 20);
        pack_map(ours, count);
        msgpack_pack_map(theirs, count);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t length = 1 + random_length(random, 40);
            pack_text_n(ours, filler + i, length);
            msgpack_pack_str_with_body(theirs, filler + i, length);
            write_both(random, ours, theirs, depth + 1);
        }
        break;
    }
    }
}

/* Reads with ours what msgpack-c read, value by value. */
static void read_both(struct pack_reader *ours, const msgpack_object *theirs)
{
    size_t bytes;
    switch (theirs->type) {
    case MSGPACK_OBJECT_NIL:
        assert_int_equal(pack_peek(ours), PACK_NIL);
        pack_read_nil(ours);
        break;
    case MSGPACK_OBJECT_BOOLEAN:
        assert_int_equal(pack_peek(ours), PACK_BOOL);
        assert_int_equal(pack_read_bool(ours), theirs->via.boolean);
        break;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        assert_int_equal(pack_peek(ours), PACK_U64);
        assert_true(pack_read_u64(ours) == theirs->via.u64);
        break;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        assert_int_equal(pack_peek(ours), PACK_I64);
        assert_true(pack_read_i64(ours) == theirs->via.i64);
        break;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64: {
        assert_int_equal(pack_peek(ours), PACK_DOUBLE);
        double value = pack_read_double(ours);
        assert_memory_equal(&value, &theirs->via.f64, sizeof value);
        break;
    }
    case MSGPACK_OBJECT_STR: {
        const char *text = pack_read_text(ours, &bytes);
        assert_int_equal(bytes, theirs->via.str.size);
        assert_memory_equal(text, theirs->via.str.ptr, bytes);
        break;
    }
    case MSGPACK_OBJECT_BIN: {
        const uint8_t *binary = pack_read_bin(ours, &bytes);
        assert_int_equal(bytes, theirs->via.bin.size);
        assert_memory_equal(binary, theirs->via.bin.ptr, bytes);
        break;
    }
    case MSGPACK_OBJECT_ARRAY:
        assert_int_equal(pack_read_array(ours), theirs->via.array.size);
        for (uint32_t i = 0; i < theirs->via.array.size; i++) {
            read_both(ours, &theirs->via.array.ptr[i]);
        }
        break;
    case MSGPACK_OBJECT_MAP:
        assert_int_equal(pack_read_map(ours), theirs->via.map.size);
        for (uint32_t i = 0; i < theirs->via.map.size; i++) {
            read_both(ours, &theirs->via.map.ptr[i].key);
            read_both(ours, &theirs->via.map.ptr[i].val);
        }
        break;
    case MSGPACK_OBJECT_EXT:
        fail();
        break;
    }
}

static void both_write_the_same_bytes_and_read_the_same_values(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 11);
    uint8_t *bytes = malloc(DOCUMENT_BYTES * 4);
    size_t compared = 0;
    for (int i = 0; i < DOCUMENTS; i++) {
        struct pack_writer writer;
        pack_writer_init(&writer, bytes, DOCUMENT_BYTES * 4);
        msgpack_sbuffer buffer;
        msgpack_sbuffer_init(&buffer);
        msgpack_packer packer;
        msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
        write_both(&random, &writer, &packer, 0);
        if (!writer.failed) { /* a few are larger than the buffer */
            assert_int_equal(writer.used_bytes, buffer.size);
            assert_memory_equal(bytes, buffer.data, buffer.size);
            msgpack_unpacked unpacked;
            msgpack_unpacked_init(&unpacked);
            assert_int_equal(msgpack_unpack_next(&unpacked, buffer.data, buffer.size, NULL), MSGPACK_UNPACK_SUCCESS);
            struct pack_reader reader;
            pack_reader_init(&reader, bytes, writer.used_bytes);
            read_both(&reader, &unpacked.data);
            assert_true(pack_at_end(&reader));
            msgpack_unpacked_destroy(&unpacked);
            compared++;
        }
        msgpack_sbuffer_destroy(&buffer);
    }
    assert_true(compared > DOCUMENTS * 9 / 10);
    free(bytes);
}

static void the_borders_of_every_encoding_agree(void **state)
{
    (void)state;
    static const int64_t values[] = {0,      1,      127,     128,     255,         256,         65535,      65536, 4294967295, 4294967296,
                                     -1,     -32,    -33,     -128,    -129,        -32768,      -32769,     -2147483648LL,
                                     -2147483649LL, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        uint8_t bytes[16];
        struct pack_writer writer;
        pack_writer_init(&writer, bytes, sizeof bytes);
        pack_i64(&writer, values[i]);
        msgpack_sbuffer buffer;
        msgpack_sbuffer_init(&buffer);
        msgpack_packer packer;
        msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
        msgpack_pack_int64(&packer, values[i]);
        assert_int_equal(writer.used_bytes, buffer.size);
        assert_memory_equal(bytes, buffer.data, buffer.size);
        struct pack_reader reader;
        pack_reader_init(&reader, bytes, writer.used_bytes);
        assert_true(pack_read_i64(&reader) == values[i]);
        assert_true(pack_at_end(&reader));
        msgpack_sbuffer_destroy(&buffer);
    }
    /* Non-negative values written as signed, and 32-bit floats, are read too. */
    static const uint8_t signed_five[] = {0xd1, 0, 5}, narrow[] = {0xca, 0x3f, 0xc0, 0, 0};
    struct pack_reader reader;
    pack_reader_init(&reader, signed_five, sizeof signed_five);
    assert_int_equal(pack_peek(&reader), PACK_U64);
    assert_int_equal(pack_read_u64(&reader), 5);
    pack_reader_init(&reader, narrow, sizeof narrow);
    assert_true(pack_read_double(&reader) == 1.5);
}

/* A small document that has every type. Returns its length. */
static size_t sample(uint8_t *bytes, size_t capacity)
{
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, capacity);
    pack_map(&writer, 3);
    pack_text(&writer, "list");
    pack_array(&writer, 6);
    pack_nil(&writer);
    pack_bool(&writer, true);
    pack_u64(&writer, 70000);
    pack_i64(&writer, -5);
    pack_double(&writer, 0.5);
    pack_bin(&writer, "\x01\xff", 2);
    pack_text(&writer, "text");
    pack_text(&writer, "value");
    pack_text(&writer, "map");
    pack_map(&writer, 1);
    pack_text(&writer, "a");
    pack_u64(&writer, 1);
    assert_false(writer.failed);
    return writer.used_bytes;
}

/* Bytes are copied to a block of exactly their size, so that the address sanitizer sees a read past the end. */
static struct pack_reader exact_reader(const uint8_t *bytes, size_t count, uint8_t **block)
{
    *block = malloc(count > 0 ? count : 1);
    memcpy(*block, bytes, count);
    struct pack_reader reader;
    pack_reader_init(&reader, *block, count);
    return reader;
}

static void cut_documents_fail_and_stay_failed(void **state)
{
    (void)state;
    uint8_t bytes[128];
    size_t count = sample(bytes, sizeof bytes);
    for (size_t cut = 0; cut <= count; cut++) {
        uint8_t *block;
        struct pack_reader reader = exact_reader(bytes, cut, &block);
        pack_skip(&reader);
        assert_int_equal(reader.failed, cut < count);
        if (reader.failed) {
            size_t length;
            assert_int_equal(pack_peek(&reader), PACK_BAD);
            assert_int_equal(pack_read_u64(&reader), 0);
            (void)pack_read_text(&reader, &length);
            assert_int_equal(length, 0);
            assert_false(pack_at_end(&reader));
        }
        free(block);
    }
    for (size_t room = 0; room < count; room++) {
        uint8_t *block = malloc(room > 0 ? room : 1);
        struct pack_writer writer;
        pack_writer_init(&writer, block, room);
        pack_raw(&writer, bytes, count);
        assert_true(writer.failed);
        assert_int_equal(writer.used_bytes, 0);
        free(block);
    }
}

/* Walks a document of unknown shape by its peeked types. */
static void walk(struct pack_reader *reader, unsigned depth)
{
    size_t bytes;
    uint32_t count;
    enum pack_type type = pack_peek(reader);
    if (depth > 40) {
        reader->failed = true;
    }
    switch (type) {
    case PACK_NIL:
        pack_read_nil(reader);
        break;
    case PACK_BOOL:
        (void)pack_read_bool(reader);
        break;
    case PACK_U64:
        (void)pack_read_u64(reader);
        break;
    case PACK_I64:
        (void)pack_read_i64(reader);
        break;
    case PACK_DOUBLE:
        (void)pack_read_double(reader);
        break;
    case PACK_TEXT:
        (void)pack_read_text(reader, &bytes);
        break;
    case PACK_BIN:
        (void)pack_read_bin(reader, &bytes);
        break;
    case PACK_ARRAY:
    case PACK_MAP:
        count = type == PACK_MAP ? 2 * pack_read_map(reader) : pack_read_array(reader);
        for (uint32_t i = 0; i < count && !reader->failed; i++) {
            walk(reader, depth + 1);
        }
        break;
    case PACK_BAD:
        reader->failed = true;
        break;
    }
}

static void changed_documents_never_read_past_their_end(void **state)
{
    (void)state;
    uint8_t bytes[128];
    size_t count = sample(bytes, sizeof bytes);
    struct random random;
    random_init(&random, 12);
    unsigned agreed = 0, refused = 0;
    for (int i = 0; i < 30000; i++) {
        uint8_t changed[128];
        memcpy(changed, bytes, count);
        for (uint64_t change = 1 + random_below(&random, 4); change > 0; change--) {
            changed[random_below(&random, count)] = (uint8_t)random_u64(&random);
        }
        uint8_t *block;
        struct pack_reader reader = exact_reader(changed, count, &block);
        struct pack_reader skipper = reader, finder = reader, writer_of_json = reader;
        walk(&reader, 0);
        pack_skip(&skipper);
        (void)pack_find(&finder, "map");
        char json[512];
        int error = json_from_pack(&writer_of_json, json, sizeof json);
        assert_true(error == 0 || json[0] == '\0');
        assert_int_equal(reader.failed, skipper.failed);
        if (!skipper.failed) {
            assert_int_equal(reader.offset, skipper.offset);
            msgpack_unpacked unpacked;
            msgpack_unpacked_init(&unpacked);
            size_t offset = 0;
            assert_int_equal(msgpack_unpack_next(&unpacked, (const char *)block, count, &offset), MSGPACK_UNPACK_SUCCESS);
            assert_int_equal(offset, skipper.offset);
            msgpack_unpacked_destroy(&unpacked);
            agreed++;
        } else {
            refused++;
        }
        free(block);
    }
    assert_true(agreed > 1000 && refused > 1000); /* both happened often enough to mean something */
}

static void hostile_heads_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint8_t bytes[6];
        size_t count;
    } cases[] = {
        {{0xdd, 0xff, 0xff, 0xff, 0xff, 0}, 6}, /* an array of four thousand million */
        {{0xdf, 0xff, 0xff, 0xff, 0xff, 0}, 6}, {{0xdb, 0xff, 0xff, 0xff, 0xff, 'a'}, 6}, {{0xc6, 0xff, 0xff, 0xff, 0xff, 'a'}, 6},
        {{0xc1}, 1}, /* never used */
        {{0xd4, 1, 2}, 3}, /* extension */
        {{0xc7, 1, 1, 1}, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pack_reader reader;
        pack_reader_init(&reader, cases[i].bytes, cases[i].count);
        assert_int_equal(pack_peek(&reader), PACK_BAD);
        pack_skip(&reader);
        assert_true(reader.failed);
    }
    uint8_t deep[64];
    memset(deep, 0x91, sizeof deep);
    deep[31] = 0xc0;
    struct pack_reader reader;
    pack_reader_init(&reader, deep, 32); /* 31 arrays around nil */
    pack_skip(&reader);
    assert_true(pack_at_end(&reader));
    deep[31] = 0x91;
    deep[32] = 0xc0;
    pack_reader_init(&reader, deep, 33);
    pack_skip(&reader);
    assert_true(reader.failed);
}

static void typed_reads_refuse_other_types_and_ranges(void **state)
{
    (void)state;
    uint8_t bytes[128];
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, sample(bytes, sizeof bytes));
    struct pack_reader text = pack_find(&reader, "text");
    char small[5], exact[6];
    struct pack_reader again = text;
    pack_read_text_copy(&again, small, sizeof small);
    assert_true(again.failed);
    assert_string_equal(small, "");
    again = text;
    pack_read_text_copy(&again, exact, sizeof exact);
    assert_true(pack_at_end(&again));
    assert_string_equal(exact, "value");
    again = text;
    (void)pack_read_u64(&again);
    assert_true(again.failed);
    struct pack_reader list = pack_find(&reader, "list");
    assert_int_equal(pack_read_array(&list), 6);
    pack_read_nil(&list);
    assert_true(pack_read_bool(&list));
    again = list;
    assert_int_equal(pack_read_u64_max(&again, 69999), 0);
    assert_true(again.failed);
    assert_int_equal(pack_read_u64_max(&list, 70000), 70000);
    again = list;
    (void)pack_read_u64(&again); /* negative */
    assert_true(again.failed);
    assert_int_equal(pack_read_i64(&list), -5);
    assert_true(pack_read_double(&list) == 0.5);
    again = list;
    uint8_t three[3];
    pack_read_bin_exact(&again, three, sizeof three);
    assert_true(again.failed);
    uint8_t two[2];
    pack_read_bin_exact(&list, two, sizeof two);
    assert_true(pack_at_end(&list));
    assert_int_equal(two[1], 0xff);
    struct pack_reader none = pack_find(&reader, "lis");
    assert_true(none.failed);
    none = pack_find(&text, "text"); /* not a map */
    assert_true(none.failed);
}

static void json_has_the_values_and_escapes_text(void **state)
{
    (void)state;
    uint8_t bytes[256];
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, sample(bytes, sizeof bytes));
    char out[256];
    assert_int_equal(json_from_pack(&reader, out, sizeof out), 0);
    assert_string_equal(out, "{\"list\": [null, true, 70000, -5, 0.5, \"01ff\"], \"text\": \"value\", \"map\": {\"a\": 1}}");
    assert_true(pack_at_end(&reader));
    size_t length = strlen(out);
    for (size_t size = 0; size <= length; size++) {
        pack_reader_init(&reader, bytes, sample(bytes, sizeof bytes));
        char *block = malloc(size > 0 ? size : 1);
        assert_int_equal(json_from_pack(&reader, block, size), ERR_FULL);
        free(block);
    }
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_array(&writer, 7);
    pack_double(&writer, 2);
    pack_double(&writer, 0.001);
    pack_double(&writer, (double)__builtin_inff());
    pack_double(&writer, -(double)__builtin_inff());
    pack_double(&writer, (double)__builtin_nanf(""));
    pack_text(&writer, "a\"\\\n\x01\x7f\xc3\xa9");
    pack_text(&writer, "\xff\xe2\x82\xed\xa0\x80");
    pack_reader_init(&reader, bytes, writer.used_bytes);
    assert_int_equal(json_from_pack(&reader, out, sizeof out), 0);
    assert_string_equal(out, "[2.0, 0.001, \"Infinity\", \"-Infinity\", \"NaN\", \"a\\\"\\\\\\n\\u0001\\u007f\xc3\xa9\", "
                             "\"\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\"]");
    static const uint8_t number_key[] = {0x81, 0x01, 0x02};
    pack_reader_init(&reader, number_key, sizeof number_key);
    assert_int_equal(json_from_pack(&reader, out, sizeof out), ERR_MALFORMED);
    assert_string_equal(out, "");
}

int main(void)
{
    for (size_t i = 0; i < sizeof filler; i++) {
        filler[i] = (char)('a' + i % 26);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_write_the_same_bytes_and_read_the_same_values),
        cmocka_unit_test(the_borders_of_every_encoding_agree),
        cmocka_unit_test(cut_documents_fail_and_stay_failed),
        cmocka_unit_test(changed_documents_never_read_past_their_end),
        cmocka_unit_test(hostile_heads_are_refused),
        cmocka_unit_test(typed_reads_refuse_other_types_and_ranges),
        cmocka_unit_test(json_has_the_values_and_escapes_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
