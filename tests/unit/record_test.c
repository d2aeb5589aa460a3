/* The record envelope: round trips, every bound, bytes from a stranger. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/random.h"
#include "gossip/record.h"

static const struct record example = {.kind = 0x0102,
                                      .writer = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
                                      .version = {.boot = 0x0000000700000001u, .seq = 42},
                                      .key = (const uint8_t *)"slot/3",
                                      .key_bytes = 6,
                                      .body = (const uint8_t *)"body bytes",
                                      .body_bytes = 10};

static void test_layout_is_frozen(void **state)
{
    (void)state;
    uint8_t bytes[RECORD_ENVELOPE_BYTES_MAX];
    memset(bytes, 0xee, sizeof bytes);
    size_t count = record_encode(&example, bytes, sizeof bytes);
    assert_int_equal(count, 1 + 2 + 16 + 8 + 8 + 1 + 6 + 2 + 10 + 64);
    static const uint8_t head[] = {1,  1,  2,   1,   2,   3,   4,   5,   6,   7,   8,   9,   10,  11,
                                   12, 13, 14,  15,  16,  0,   0,   0,   7,   0,   0,   0,   1,   0,
                                   0,  0,  0,   0,   0,   0,   42,  6,   's', 'l', 'o', 't', '/', '3',
                                   0,  10, 'b', 'o', 'd', 'y', ' ', 'b', 'y', 't', 'e', 's'};
    assert_int_equal(sizeof head + RECORD_SIGNATURE_BYTES, count);
    assert_memory_equal(bytes, head, sizeof head);
    for (size_t i = sizeof head; i < count; i++) {
        assert_int_equal(bytes[i], 0);
    }
    assert_int_equal(bytes[count], 0xee);
}

static void test_round_trip(void **state)
{
    (void)state;
    static const uint8_t filler[RECORD_BODY_BYTES_MAX] = {9, 8, 7};
    static const struct {
        uint8_t key_bytes;
        uint16_t body_bytes;
    } shapes[] = {{0, 0}, {1, 0}, {0, 1}, {96, 8192}, {33, 700}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct record in = example;
        in.key = filler;
        in.key_bytes = shapes[i].key_bytes;
        in.body = filler;
        in.body_bytes = shapes[i].body_bytes;
        uint8_t bytes[RECORD_ENVELOPE_BYTES_MAX];
        size_t count = record_encode(&in, bytes, sizeof bytes);
        assert_true(count > 0);
        struct record out;
        assert_int_equal(record_decode(bytes, count, &out), 0);
        assert_int_equal(out.kind, in.kind);
        assert_true(node_id_equal(out.writer, in.writer));
        assert_int_equal(record_version_compare(out.version, in.version), 0);
        assert_int_equal(out.key_bytes, in.key_bytes);
        assert_memory_equal(out.key, in.key, in.key_bytes);
        assert_int_equal(out.body_bytes, in.body_bytes);
        assert_memory_equal(out.body, in.body, in.body_bytes);
        assert_true(out.body + out.body_bytes + RECORD_SIGNATURE_BYTES == bytes + count);
    }
}

static void test_encode_refuses_what_breaks_a_bound(void **state)
{
    (void)state;
    static uint8_t bytes[2 * RECORD_ENVELOPE_BYTES_MAX];
    static const uint8_t filler[RECORD_BODY_BYTES_MAX + 1];
    size_t count = record_encode(&example, bytes, sizeof bytes);
    assert_int_equal(record_encode(&example, bytes, count), count);
    assert_int_equal(record_encode(&example, bytes, count - 1), 0);
    struct record wide = example;
    wide.key = filler;
    wide.key_bytes = RECORD_KEY_BYTES_MAX + 1;
    assert_int_equal(record_encode(&wide, bytes, sizeof bytes), 0);
    struct record long_one = example;
    long_one.body = filler;
    long_one.body_bytes = RECORD_BODY_BYTES_MAX + 1;
    assert_int_equal(record_encode(&long_one, bytes, sizeof bytes), 0);
}

static void test_decode_refuses_malformed(void **state)
{
    (void)state;
    uint8_t bytes[RECORD_ENVELOPE_BYTES_MAX + 1] = {0};
    size_t count = record_encode(&example, bytes, sizeof bytes);
    struct record out;
    for (size_t cut = 0; cut < count; cut++) {
        assert_int_equal(record_decode(bytes, cut, &out), ERR_MALFORMED);
    }
    assert_int_equal(record_decode(bytes, count + 1, &out), ERR_MALFORMED);

    bytes[0] = 2;
    assert_int_equal(record_decode(bytes, count, &out), ERR_MALFORMED);
    bytes[0] = 1;
    bytes[RECORD_HEAD_BYTES - 1] = RECORD_KEY_BYTES_MAX + 1;
    assert_int_equal(record_decode(bytes, sizeof bytes, &out), ERR_MALFORMED);
    bytes[RECORD_HEAD_BYTES - 1] = example.key_bytes;
    bytes_put_u16(bytes + RECORD_HEAD_BYTES + example.key_bytes, RECORD_BODY_BYTES_MAX + 1);
    assert_int_equal(record_decode(bytes, sizeof bytes, &out), ERR_MALFORMED);
}

static void test_length_walks_a_list(void **state)
{
    (void)state;
    uint8_t bytes[4096];
    size_t used = 0;
    for (uint16_t i = 0; i < 5; i++) {
        struct record one = example;
        one.body_bytes = i;
        used += record_encode(&one, bytes + used, sizeof bytes - used);
    }
    size_t at = 0;
    for (uint16_t i = 0; i < 5; i++) {
        size_t length;
        assert_int_equal(record_length(bytes + at, used - at, &length), 0);
        struct record out;
        assert_int_equal(record_decode(bytes + at, length, &out), 0);
        assert_int_equal(out.body_bytes, i);
        at += length;
    }
    assert_int_equal(at, used);
    size_t length;
    assert_int_equal(record_length(bytes + at, 0, &length), ERR_MALFORMED);
}

/* Whatever comes in, a decoded record lies within its bytes and encodes to them again but for the signature. */
static void test_mutated_bytes(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 1);
    unsigned accepted = 0;
    for (int round = 0; round < 20000; round++) {
        uint8_t bytes[RECORD_HEAD_BYTES + 120 + RECORD_SIGNATURE_BYTES];
        size_t count = record_encode(&example, bytes, sizeof bytes);
        for (uint64_t flips = random_below(&random, 4); flips > 0; flips--) {
            bytes[random_below(&random, count)] = (uint8_t)random_u64(&random);
        }
        if (random_below(&random, 4) == 0) {
            count = random_below(&random, count + 1);
        }
        struct record out;
        if (record_decode(bytes, count, &out) != 0) {
            continue;
        }
        accepted++;
        uint8_t again[sizeof bytes];
        assert_int_equal(record_encode(&out, again, sizeof again), count);
        assert_memory_equal(again, bytes, count - RECORD_SIGNATURE_BYTES);
    }
    assert_in_range(accepted, 1000, 19999);
}

static void test_version_order(void **state)
{
    (void)state;
    static const struct record_version ascending[] = {{0, 0}, {0, 1}, {0, UINT64_MAX}, {1, 0}, {1, 9}, {UINT64_MAX, 0}};
    for (int i = 0; i < 6; i++) {
        for (int j = 0; j < 6; j++) {
            int order = record_version_compare(ascending[i], ascending[j]);
            assert_int_equal(order < 0, i < j);
            assert_int_equal(order > 0, i > j);
        }
    }
}

static void test_ident_depends_on_writer_kind_and_key(void **state)
{
    (void)state;
    node_id a = {{1}}, b = {{2}};
    const uint8_t *key = (const uint8_t *)"key";
    record_ident ident = record_ident_of(a, 1, key, 3);
    assert_true(record_ident_equal(ident, record_ident_of(a, 1, key, 3)));
    assert_false(record_ident_equal(ident, record_ident_of(b, 1, key, 3)));
    assert_false(record_ident_equal(ident, record_ident_of(a, 2, key, 3)));
    assert_false(record_ident_equal(ident, record_ident_of(a, 1, key, 2)));
    assert_false(record_ident_is_none(record_ident_of(a, 0, NULL, 0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout_is_frozen),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_encode_refuses_what_breaks_a_bound),
        cmocka_unit_test(test_decode_refuses_malformed),
        cmocka_unit_test(test_length_walks_a_list),
        cmocka_unit_test(test_mutated_bytes),
        cmocka_unit_test(test_version_order),
        cmocka_unit_test(test_ident_depends_on_writer_kind_and_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
