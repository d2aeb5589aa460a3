/* Documents are written with msgpack-c's packer: the bytes are those of base/pack, also where the frame is too small. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "node/daemon/render/put.h"
#include "node/daemon/render/render.h"

#define FRAME_BYTES (256u * 1024)

static uint8_t ours[FRAME_BYTES], theirs[FRAME_BYTES];
static char text[0x10001];

/* Empties both frames. */
static void begin(struct pack_writer *by_pack, struct pack_writer *by_packer, size_t capacity)
{
    memset(ours, 0xa5, sizeof ours);
    memset(theirs, 0xa5, sizeof theirs);
    pack_writer_init(by_pack, ours, capacity);
    pack_writer_init(by_packer, theirs, capacity);
}

static void assert_same(const struct pack_writer *by_pack, const struct pack_writer *by_packer)
{
    assert_int_equal(by_packer->failed, by_pack->failed);
    assert_int_equal(by_packer->used_bytes, by_pack->used_bytes);
    assert_memory_equal(theirs, ours, sizeof ours);
}

static void numbers_have_the_same_bytes(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {0, 1, 31, 32, 127, 128, 255, 256, 65535, 65536, UINT32_MAX, 1ull << 32, INT64_MAX,
                                       1ull << 63, UINT64_MAX};
    const double doubles[] = {0, -0.0, 1, -1, 0.1, 255, 1e300, 5e-324, INFINITY, -INFINITY, NAN};
    struct pack_writer by_pack, by_packer;
    begin(&by_pack, &by_packer, FRAME_BYTES);
    msgpack_packer packer = render_packer(&by_packer);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        pack_text(&by_pack, "n");
        pack_u64(&by_pack, numbers[i]);
        render_put_u64(&packer, "n", numbers[i]);
    }
    for (size_t i = 0; i < sizeof doubles / sizeof doubles[0]; i++) {
        pack_double(&by_pack, doubles[i]);
        (void)msgpack_pack_double(&packer, doubles[i]);
    }
    assert_same(&by_pack, &by_packer);
    assert_false(by_pack.failed);
}

static void texts_and_containers_have_the_same_bytes(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {0, 1, 15, 16, 31, 32, 255, 256, 65535, 65536};
    struct pack_writer by_pack, by_packer;
    begin(&by_pack, &by_packer, FRAME_BYTES);
    msgpack_packer packer = render_packer(&by_packer);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        memset(text, 'x', lengths[i]);
        text[lengths[i]] = '\0';
        pack_text(&by_pack, text);
        render_put_string(&packer, text);
        pack_array(&by_pack, lengths[i]);
        (void)msgpack_pack_array(&packer, lengths[i]);
        pack_map(&by_pack, lengths[i]);
        (void)msgpack_pack_map(&packer, lengths[i]);
    }
    pack_text(&by_pack, "yes");
    pack_bool(&by_pack, true);
    render_put_bool(&packer, "yes", true);
    pack_text(&by_pack, "no");
    pack_bool(&by_pack, false);
    render_put_bool(&packer, "no", false);
    pack_nil(&by_pack);
    render_put_text_or_nil(&packer, "");
    pack_text(&by_pack, "0a0b");
    render_put_hex(&packer, (const uint8_t *)"\x0a\x0b", 2);
    pack_raw(&by_pack, (const uint8_t *)"\x81\x01\x02", 3);
    render_put_packed(&packer, (const uint8_t *)"\x81\x01\x02", 3);
    assert_same(&by_pack, &by_packer);
    assert_false(by_pack.failed);
}

/* A list's length has four bytes, whatever it is: rows are counted as they are written. */
static void a_list_has_a_long_head(void **state)
{
    (void)state;
    for (uint32_t count = 0; count < 3; count++) {
        struct pack_writer by_pack, by_packer;
        begin(&by_pack, &by_packer, FRAME_BYTES);
        msgpack_packer packer = render_packer(&by_packer);
        uint8_t head[5] = {0xdd, 0, 0, 0, (uint8_t)count};
        pack_raw(&by_pack, head, sizeof head);
        struct render_list list = render_list_open(&packer);
        for (uint32_t i = 0; i < count; i++) {
            pack_u64(&by_pack, i);
            (void)msgpack_pack_uint64(&packer, i);
            assert_true(render_list_took_row(&list));
        }
        render_list_close(&list);
        assert_same(&by_pack, &by_packer);
    }
}

static void a_row_that_does_not_fit_is_taken_back(void **state)
{
    (void)state;
    struct pack_writer by_pack, by_packer;
    begin(&by_pack, &by_packer, RENDER_RESERVE_BYTES + 5 + 4 + 3);
    msgpack_packer packer = render_packer(&by_packer);
    struct render_list list = render_list_open(&packer);
    render_put_string(&packer, "row");
    assert_true(render_list_took_row(&list));
    render_put_string(&packer, "row");
    assert_false(render_list_took_row(&list));
    render_list_close(&list);
    assert_false(by_packer.failed);
    assert_int_equal(by_packer.used_bytes, 5 + 4);
    assert_memory_equal(theirs, "\xdd\0\0\0\1\xa3row", 9);
}

/* The callback takes a head or a payload whole or not at all, and nothing after the first that does not fit. */
static void a_frame_that_is_too_small_fails_and_is_not_overrun(void **state)
{
    (void)state;
    for (size_t capacity = 0; capacity < 64; capacity++) {
        struct pack_writer by_pack, by_packer;
        begin(&by_pack, &by_packer, capacity);
        msgpack_packer packer = render_packer(&by_packer);
        pack_map(&by_pack, 3);
        (void)msgpack_pack_map(&packer, 3);
        pack_text(&by_pack, "name");
        pack_text(&by_pack, "a text of more than thirty-one bytes");
        render_put_text(&packer, "name", "a text of more than thirty-one bytes");
        pack_text(&by_pack, "n");
        pack_u64(&by_pack, UINT64_MAX);
        render_put_u64(&packer, "n", UINT64_MAX);
        pack_nil(&by_pack);
        (void)msgpack_pack_nil(&packer);
        assert_same(&by_pack, &by_packer);
        assert_int_equal(by_pack.failed, capacity < 56);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_have_the_same_bytes),
        cmocka_unit_test(texts_and_containers_have_the_same_bytes),
        cmocka_unit_test(a_list_has_a_long_head),
        cmocka_unit_test(a_row_that_does_not_fit_is_taken_back),
        cmocka_unit_test(a_frame_that_is_too_small_fails_and_is_not_overrun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
