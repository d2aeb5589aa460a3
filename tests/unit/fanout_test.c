/* Fan-out: how often each record is told, in what order, and that a flood costs no more than its bounds. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gossip/fanout.h"
#include "tests/unit/put_envelope.h"

#define TABLE_BYTES (8u << 20)

struct table {
    void *memory;
    struct arena arena;
    struct records records;
    struct fanout fanout;
    uint8_t out[FANOUT_BYTES_MAX];
};

static int open_table(void **state)
{
    struct table *table = calloc(1, sizeof *table);
    table->memory = aligned_alloc(16, TABLE_BYTES);
    arena_init(&table->arena, table->memory, TABLE_BYTES);
    fanout_init(&table->fanout);
    *state = table;
    return records_init(&table->records, &table->arena);
}

static int close_table(void **state)
{
    struct table *table = *state;
    free(table->memory);
    free(table);
    return 0;
}

static uint8_t *body_of(size_t count)
{
    static uint8_t body[RECORD_BODY_BYTES_MAX];
    memset(body, 7, count);
    return body;
}

static record_ident hold(struct table *table, uint32_t number, uint64_t seq, uint16_t body_bytes, bool published)
{
    uint8_t key[4], envelope[RECORD_ENVELOPE_BYTES_MAX];
    bytes_put_u32(key, number);
    struct record record = {.kind = 3, .writer = {{9}}, .version = {1, seq}, .key = key, .key_bytes = sizeof key,
                            .body = body_of(body_bytes), .body_bytes = body_bytes};
    size_t count = record_encode(&record, envelope, sizeof envelope);
    assert_int_equal(put_envelope(&table->records, envelope, count, published, NULL), 0);
    return record_ident_of(record.writer, record.kind, key, sizeof key);
}

static bool tells(struct table *table, uint32_t count, record_ident ident)
{
    for (uint32_t at = 0; at < count;) {
        size_t length;
        struct record record;
        assert_int_equal(record_length(table->out + at, count - at, &length), 0);
        assert_int_equal(record_decode(table->out + at, length, &record), 0);
        if (record_ident_equal(record_ident_of(record.writer, record.kind, record.key, record.key_bytes), ident)) {
            return true;
        }
        at += (uint32_t)length;
    }
    return false;
}

static uint32_t round_at(struct table *table, uint64_t now_ms)
{
    return fanout_round(&table->fanout, now_ms, &table->records, table->out, sizeof table->out);
}

static void a_record_is_told_in_so_many_rounds_and_no_more(void **state)
{
    struct table *table = *state;
    assert_int_equal(fanout_next_ms(&table->fanout), UINT64_MAX);
    record_ident ident = hold(table, 1, 1, 50, true);
    fanout_add(&table->fanout, ident, 4);
    uint64_t now_ms = 5000;
    for (int i = 0; i < 4; i++) {
        assert_true(fanout_next_ms(&table->fanout) <= now_ms);
        assert_true(tells(table, round_at(table, now_ms), ident));
        assert_int_equal(round_at(table, now_ms + FANOUT_ROUND_MS - 1), 0);
        now_ms += FANOUT_ROUND_MS;
    }
    assert_int_equal(fanout_next_ms(&table->fanout), UINT64_MAX);
    assert_int_equal(round_at(table, now_ms), 0);
}

/* What is relayed is the envelope as it is held, of the newest version. */
static void a_newer_version_is_told_from_the_beginning(void **state)
{
    struct table *table = *state;
    record_ident ident = hold(table, 1, 1, 50, true);
    fanout_add(&table->fanout, ident, 2);
    (void)round_at(table, 0);
    (void)hold(table, 1, 2, 60, true);
    fanout_add(&table->fanout, ident, 2);
    const struct records_entry *held = records_find(&table->records, ident);
    for (uint64_t now_ms = FANOUT_ROUND_MS; now_ms <= 2 * FANOUT_ROUND_MS; now_ms += FANOUT_ROUND_MS) {
        assert_int_equal(round_at(table, now_ms), held->envelope_bytes);
        assert_memory_equal(table->out, held->envelope, held->envelope_bytes);
    }
    assert_int_equal(fanout_next_ms(&table->fanout), UINT64_MAX);
}

static void the_least_told_goes_first(void **state)
{
    struct table *table = *state;
    record_ident old = hold(table, 1, 1, 8000, true);
    fanout_add(&table->fanout, old, 3);
    (void)round_at(table, 0);
    record_ident news[4];
    for (uint32_t i = 0; i < 4; i++) {
        news[i] = hold(table, 2 + i, 1, 8000, true);
        fanout_add(&table->fanout, news[i], 3);
    }
    uint32_t count = round_at(table, FANOUT_ROUND_MS); /* room for four of the five */
    assert_true(count <= FANOUT_BYTES_MAX);
    assert_false(tells(table, count, old));
    unsigned told = 0;
    for (uint32_t i = 0; i < 4; i++) {
        told += tells(table, count, news[i]);
    }
    assert_int_equal(told, 4);
}

static void what_is_not_published_is_not_told(void **state)
{
    struct table *table = *state;
    fanout_add(&table->fanout, hold(table, 1, 1, 50, false), 3);
    assert_int_equal(round_at(table, 0), 0);
}

static void a_flood_is_bounded(void **state)
{
    struct table *table = *state;
    for (uint32_t i = 0; i < 4 * FANOUT_QUEUE_MAX; i++) {
        fanout_add(&table->fanout, hold(table, i, 1, 300, true), 5);
        assert_true(table->fanout.count <= FANOUT_QUEUE_MAX);
    }
    uint64_t told_bytes = 0, now_ms = 0;
    while (fanout_next_ms(&table->fanout) != UINT64_MAX) {
        uint32_t count = round_at(table, now_ms);
        assert_in_range(count, 1, FANOUT_BYTES_MAX);
        told_bytes += count;
        now_ms += FANOUT_ROUND_MS;
    }
    uint64_t envelope_bytes = RECORD_HEAD_BYTES + 4 + 2 + 300 + RECORD_SIGNATURE_BYTES;
    assert_int_equal(told_bytes, 5 * FANOUT_QUEUE_MAX * envelope_bytes);
}

/* A flood drops what has been told most, not what is fresh. */
static void news_of_a_flood_replaces_what_has_been_told(void **state)
{
    struct table *table = *state;
    record_ident old = hold(table, 100000, 1, 50, true);
    fanout_add(&table->fanout, old, 5);
    (void)round_at(table, 0);
    for (uint32_t i = 0; i < FANOUT_QUEUE_MAX; i++) {
        fanout_add(&table->fanout, hold(table, i, 1, 10, true), 5);
    }
    bool told = false;
    for (uint64_t now_ms = FANOUT_ROUND_MS; fanout_next_ms(&table->fanout) != UINT64_MAX; now_ms += FANOUT_ROUND_MS) {
        told |= tells(table, round_at(table, now_ms), old);
    }
    assert_false(told);
}

static void rounds_grow_with_the_logarithm(void **state)
{
    (void)state;
    assert_int_equal(fanout_rounds(1), 1);
    assert_int_equal(fanout_rounds(65), 4);
    assert_int_equal(fanout_rounds(256), 4);
    assert_int_equal(fanout_rounds(257), 5);
    assert_int_equal(fanout_rounds(1024), 5);
    assert_in_range(fanout_rounds(UINT32_MAX), 1, FANOUT_ROUNDS_MAX);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_table, close_table)
    const struct CMUnitTest tests[] = {
        TEST(a_record_is_told_in_so_many_rounds_and_no_more),
        TEST(a_newer_version_is_told_from_the_beginning),
        TEST(the_least_told_goes_first),
        TEST(what_is_not_published_is_not_told),
        TEST(a_flood_is_bounded),
        TEST(news_of_a_flood_replaces_what_has_been_told),
        TEST(rounds_grow_with_the_logarithm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
