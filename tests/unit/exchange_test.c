/* Exchange: what each message says, that tables converge by rounds of it, and that bytes from a stranger do no harm. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/random.h"
#include "gossip/exchange.h"
#include "tests/unit/put_envelope.h"

#define TABLE_BYTES (4u << 20)
#define BITMAP_BYTES (RECORDS_BUCKETS / 8)

struct table {
    void *memory;
    struct arena arena;
    struct records records;
    record_ident start;
    record_ident only; /* unless none: it takes no other record */
};

static void table_open(struct table *table)
{
    *table = (struct table){.memory = NULL};
    table->memory = aligned_alloc(16, TABLE_BYTES);
    assert_non_null(table->memory);
    arena_init(&table->arena, table->memory, TABLE_BYTES);
    assert_int_equal(records_init(&table->records, &table->arena), 0);
}

static void table_close(struct table *table)
{
    free(table->memory);
    *table = (struct table){.memory = NULL};
}

/* Record `number` at version `seq`; its length follows from both, so that every holder has the same bytes. */
static size_t envelope_make(uint8_t *out, uint32_t number, uint64_t seq, record_ident *ident)
{
    uint8_t key[4];
    bytes_put_u32(key, number);
    uint8_t body[400];
    memset(body, (int)(number + seq), sizeof body);
    struct record record = {.kind = 3,
                            .writer = {{9}},
                            .version = {1, seq},
                            .key = key,
                            .key_bytes = sizeof key,
                            .body = body,
                            .body_bytes = (uint16_t)((number * 37 + seq * 11) % sizeof body)};
    size_t count = record_encode(&record, out, RECORD_ENVELOPE_BYTES_MAX);
    assert_true(count > 0);
    if (ident != NULL) {
        *ident = record_ident_of(record.writer, record.kind, key, sizeof key);
    }
    return count;
}

static struct records_entry *hold(struct table *table, uint32_t number, uint64_t seq, bool published)
{
    uint8_t bytes[RECORD_ENVELOPE_BYTES_MAX];
    record_ident ident;
    size_t count = envelope_make(bytes, number, seq, &ident);
    int error = put_envelope(&table->records, bytes, count, published, NULL);
    assert_true(error == 0 || error == ERR_STALE);
    return records_find(&table->records, ident);
}

/* Puts what a RECORDS payload holds; returns how many were news. */
static unsigned take_records(struct table *table, const uint8_t *bytes, size_t count)
{
    unsigned news = 0;
    while (count > 0) {
        size_t length;
        struct record record;
        assert_int_equal(record_length(bytes, count, &length), 0);
        assert_int_equal(record_decode(bytes, length, &record), 0);
        record_ident ident = record_ident_of(record.writer, record.kind, record.key, record.key_bytes);
        bool is_taken = record_ident_is_none(table->only) || record_ident_equal(table->only, ident);
        news += is_taken && put_envelope(&table->records, bytes, length, true, NULL) == 0;
        bytes += length;
        count -= length;
    }
    return news;
}

struct limits {
    size_t keys, pull, records;
};

static const struct limits wide = {EXCHANGE_MESSAGE_BYTES_MAX, EXCHANGE_MESSAGE_BYTES_MAX, EXCHANGE_MESSAGE_BYTES_MAX};

/* One round that `a` starts with `b`; returns how many records moved. */
static unsigned round_between(struct table *a, struct table *b, uint32_t rotate, struct limits limits)
{
    static uint8_t buckets[EXCHANGE_BUCKETS_BYTES], keys[EXCHANGE_MESSAGE_BYTES_MAX], pull[EXCHANGE_MESSAGE_BYTES_MAX],
        out[EXCHANGE_MESSAGE_BYTES_MAX];
    size_t key_bytes, pull_bytes, out_bytes;
    exchange_buckets(&a->records, buckets);
    assert_int_equal(exchange_on_buckets(&b->records, buckets, sizeof buckets, rotate, keys, limits.keys, &key_bytes),
                     0);
    assert_true(key_bytes <= limits.keys);
    if (key_bytes == 0) {
        return 0;
    }
    assert_int_equal(
        exchange_on_keys(&a->records, keys, key_bytes, &a->start, pull, limits.pull, &pull_bytes, out, limits.records,
                         &out_bytes),
        0);
    assert_true(pull_bytes <= limits.pull && out_bytes <= limits.records);
    unsigned moved = take_records(b, out, out_bytes);
    assert_int_equal(exchange_on_pull(&b->records, pull, pull_bytes, &b->start, out, limits.records, &out_bytes), 0);
    assert_true(out_bytes <= limits.records);
    return moved + take_records(a, out, out_bytes);
}

static bool same(const struct table *a, const struct table *b)
{
    return records_hash_equal(a->records.hash, b->records.hash);
}

static bool assert_held_alike(void *context, const struct records_entry *entry)
{
    const struct table *other = context;
    const struct records_entry *theirs = records_find(&other->records, entry->ident);
    assert_non_null(theirs);
    assert_int_equal(theirs->envelope_bytes, entry->envelope_bytes);
    assert_memory_equal(theirs->envelope, entry->envelope, entry->envelope_bytes);
    return true;
}

static void assert_identical(struct table *a, struct table *b)
{
    assert_true(same(a, b));
    assert_int_equal(a->records.count, b->records.count);
    records_each(&a->records, assert_held_alike, b);
}

static void fill(struct table *table, struct random *random, uint32_t numbers, uint64_t versions, unsigned puts)
{
    for (unsigned i = 0; i < puts; i++) {
        (void)hold(table, (uint32_t)random_below(random, numbers), random_below(random, versions), true);
    }
}

static void test_one_wide_round_is_enough(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct table a, b;
        table_open(&a);
        table_open(&b);
        struct random random;
        random_init(&random, seed);
        fill(&a, &random, 150, 5, (unsigned)random_below(&random, 150));
        fill(&b, &random, 150, 5, (unsigned)random_below(&random, 150));
        (void)round_between(&a, &b, (uint32_t)seed, wide);
        assert_identical(&a, &b);
        assert_int_equal(round_between(&a, &b, 0, wide), 0);
        table_close(&a);
        table_close(&b);
    }
}

static void test_equal_tables_say_nothing(void **state)
{
    (void)state;
    struct table a, b;
    table_open(&a);
    table_open(&b);
    (void)hold(&a, 1, 1, true);
    (void)hold(&b, 1, 1, true);
    uint8_t buckets[EXCHANGE_BUCKETS_BYTES], keys[1024];
    exchange_buckets(&a.records, buckets);
    size_t key_bytes = 77;
    assert_int_equal(exchange_on_buckets(&b.records, buckets, sizeof buckets, 0, keys, sizeof keys, &key_bytes), 0);
    assert_int_equal(key_bytes, 0);
    table_close(&a);
    table_close(&b);
}

static void test_what_the_keys_say(void **state)
{
    (void)state;
    struct table a, b;
    table_open(&a);
    table_open(&b);
    struct records_entry *on_b = hold(&b, 1, 7, true);
    struct records_entry *old_on_a = hold(&a, 1, 3, true);
    uint8_t buckets[EXCHANGE_BUCKETS_BYTES], keys[1024], pull[64], out[2048];
    exchange_buckets(&a.records, buckets);
    size_t key_bytes, pull_bytes, out_bytes;
    assert_int_equal(exchange_on_buckets(&b.records, buckets, sizeof buckets, 0, keys, sizeof keys, &key_bytes), 0);
    assert_int_equal(key_bytes, BITMAP_BYTES + EXCHANGE_KEY_BYTES);
    uint8_t bucket = on_b->ident.bytes[0];
    for (int i = 0; i < BITMAP_BYTES; i++) {
        assert_int_equal(keys[i], i == bucket / 8 ? 1u << bucket % 8 : 0);
    }
    assert_memory_equal(keys + BITMAP_BYTES, on_b->ident.bytes, 16);
    assert_int_equal(bytes_get_u64(keys + BITMAP_BYTES + 16), 1);
    assert_int_equal(bytes_get_u64(keys + BITMAP_BYTES + 24), 7);

    /* The peer has it newer: pulled, not sent. */
    assert_int_equal(
        exchange_on_keys(&a.records, keys, key_bytes, &a.start, pull, sizeof pull, &pull_bytes, out, sizeof out,
                         &out_bytes), 0);
    assert_int_equal(pull_bytes, 16);
    assert_memory_equal(pull, old_on_a->ident.bytes, 16);
    assert_int_equal(out_bytes, 0);

    /* The peer has it older: sent, not pulled. */
    struct records_entry *new_on_a = hold(&a, 1, 9, true);
    assert_int_equal(
        exchange_on_keys(&a.records, keys, key_bytes, &a.start, pull, sizeof pull, &pull_bytes, out, sizeof out,
                         &out_bytes), 0);
    assert_int_equal(pull_bytes, 0);
    assert_int_equal(out_bytes, new_on_a->envelope_bytes);
    assert_memory_equal(out, new_on_a->envelope, out_bytes);

    /* What the peer lacks is sent only within the marked buckets. */
    keys[bucket / 8] = 0;
    key_bytes = BITMAP_BYTES;
    assert_int_equal(
        exchange_on_keys(&a.records, keys, key_bytes, &a.start, pull, sizeof pull, &pull_bytes, out, sizeof out,
                         &out_bytes), 0);
    assert_int_equal(out_bytes, 0);
    keys[bucket / 8] = (uint8_t)(1u << bucket % 8);
    assert_int_equal(
        exchange_on_keys(&a.records, keys, key_bytes, &a.start, pull, sizeof pull, &pull_bytes, out, sizeof out,
                         &out_bytes), 0);
    assert_int_equal(out_bytes, new_on_a->envelope_bytes);
    table_close(&a);
    table_close(&b);
}

static void test_held_back_records_do_not_travel(void **state)
{
    (void)state;
    struct table a, b;
    table_open(&a);
    table_open(&b);
    struct records_entry *entry = hold(&a, 1, 5, false);
    (void)hold(&a, 2, 1, true);
    (void)hold(&b, 1, 4, true); /* the version before, which b still has */
    for (uint32_t i = 0; i < 4; i++) {
        (void)round_between(&a, &b, i, wide);
        (void)round_between(&b, &a, i, wide);
    }
    assert_int_equal(records_find(&b.records, entry->ident)->record.version.seq, 4);
    assert_int_equal(entry->record.version.seq, 5);
    size_t out_bytes = 1;
    uint8_t out[2048];
    assert_int_equal(exchange_on_pull(&a.records, entry->ident.bytes, 16, &a.start, out, sizeof out, &out_bytes), 0);
    assert_int_equal(out_bytes, 0);

    static const uint8_t signature[RECORD_SIGNATURE_BYTES] = {1};
    assert_int_equal(records_publish(&a.records, entry->ident, entry->record.version, signature, NULL), 0);
    (void)round_between(&a, &b, 9, wide);
    assert_identical(&a, &b);
    table_close(&a);
    table_close(&b);
}

static void test_small_messages_converge_in_bounded_rounds(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct table a, b;
        table_open(&a);
        table_open(&b);
        struct random random;
        random_init(&random, seed);
        fill(&a, &random, 300, 4, 250);
        fill(&b, &random, 300, 4, 250);
        /* Six keys a message: some buckets of 300 records in 256 are near it. Two or three records a message. */
        struct limits limits = {BITMAP_BYTES + 6 * EXCHANGE_KEY_BYTES, 3 * 16, 1200};
        unsigned rounds = 0;
        while (!same(&a, &b)) {
            (void)round_between(rounds % 2 == 0 ? &a : &b, rounds % 2 == 0 ? &b : &a, rounds / 2, limits);
            rounds++;
            assert_true(rounds < 600); /* at most 300 records differ, and a round moves at least one */
        }
        assert_true(rounds > 20);
        assert_identical(&a, &b);
        table_close(&a);
        table_close(&b);
    }
}

static void test_buckets_larger_than_a_message_converge(void **state)
{
    (void)state;
    struct table a, b;
    table_open(&a);
    table_open(&b);
    struct random random;
    random_init(&random, 5);
    fill(&a, &random, 3000, 3, 2000); /* some eight to a bucket, and two keys a message */
    fill(&b, &random, 3000, 3, 2000);
    struct limits limits = {BITMAP_BYTES + 2 * EXCHANGE_KEY_BYTES, 4 * 16, 2400};
    unsigned rounds = 0;
    while (!same(&a, &b)) {
        (void)round_between(rounds % 2 == 0 ? &a : &b, rounds % 2 == 0 ? &b : &a, rounds / 2, limits);
        rounds++;
        assert_true(rounds < 40000); /* 256 buckets x 10 slices x both directions, a few times over */
    }
    assert_identical(&a, &b);
    table_close(&a);
    table_close(&b);
}

static void test_three_tables_converge(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct table tables[3];
        struct random random;
        random_init(&random, seed);
        for (int i = 0; i < 3; i++) {
            table_open(&tables[i]);
            fill(&tables[i], &random, 200, 6, (unsigned)random_below(&random, 200));
        }
        struct limits limits = {BITMAP_BYTES + 20 * EXCHANGE_KEY_BYTES, 10 * 16, 3000};
        unsigned rounds = 0;
        while (!same(&tables[0], &tables[1]) || !same(&tables[1], &tables[2])) {
            uint64_t from = random_below(&random, 3);
            uint64_t to = (from + 1 + random_below(&random, 2)) % 3;
            (void)round_between(&tables[from], &tables[to], rounds, limits);
            rounds++;
            assert_true(rounds < 1000);
        }
        assert_identical(&tables[0], &tables[1]);
        assert_identical(&tables[1], &tables[2]);
        for (int i = 0; i < 3; i++) {
            table_close(&tables[i]);
        }
    }
}

static void test_malformed_is_refused(void **state)
{
    (void)state;
    struct table a;
    table_open(&a);
    uint8_t bytes[EXCHANGE_BUCKETS_BYTES + 16] = {0}, out[512], pull[512];
    size_t n = 5, m = 6;
    assert_int_equal(exchange_on_buckets(&a.records, bytes, EXCHANGE_BUCKETS_BYTES - 1, 0, out, sizeof out, &n),
                     ERR_MALFORMED);
    assert_int_equal(exchange_on_buckets(&a.records, bytes, EXCHANGE_BUCKETS_BYTES + 16, 0, out, sizeof out, &n),
                     ERR_MALFORMED);
    static const size_t lengths[] = {0, BITMAP_BYTES - 1, BITMAP_BYTES + 1, BITMAP_BYTES + EXCHANGE_KEY_BYTES - 1};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(exchange_on_keys(&a.records, bytes, lengths[i], &a.start, pull, sizeof pull, &n, out, sizeof out, &m),
                         ERR_MALFORMED);
    }
    /* The same key twice, and keys that descend. */
    assert_int_equal(exchange_on_keys(&a.records, bytes, BITMAP_BYTES + 64, &a.start, pull, sizeof pull, &n, out, sizeof out,
                                      &m),
                     ERR_MALFORMED);
    bytes[BITMAP_BYTES] = 1;
    assert_int_equal(exchange_on_keys(&a.records, bytes, BITMAP_BYTES + 64, &a.start, pull, sizeof pull, &n, out, sizeof out,
                                      &m),
                     ERR_MALFORMED);
    assert_int_equal(exchange_on_pull(&a.records, bytes, 15, &a.start, out, sizeof out, &n), ERR_MALFORMED);
    static uint8_t huge[EXCHANGE_MESSAGE_BYTES_MAX + 64];
    assert_int_equal(exchange_on_pull(&a.records, huge, EXCHANGE_MESSAGE_BYTES_MAX + 16, &a.start, out, sizeof out, &n),
                     ERR_MALFORMED);
    assert_int_equal(
        exchange_on_keys(&a.records, huge, EXCHANGE_MESSAGE_BYTES_MAX + 32, &a.start, pull, sizeof pull, &n, out,
                         sizeof out, &m),
        ERR_MALFORMED);
    assert_int_equal(n, 5);
    assert_int_equal(m, 6);
    table_close(&a);
}

/* Mutated and random messages: answered within the capacity or refused, and the table stays as it was. The buffers have
 * exactly their capacity, so that the sanitizers see a byte too many. */
static void test_mutated_bytes_do_no_harm(void **state)
{
    (void)state;
    struct table a, b;
    table_open(&a);
    table_open(&b);
    struct random random;
    random_init(&random, 8);
    fill(&a, &random, 60, 4, 60);
    fill(&b, &random, 60, 4, 60);
    struct records_hash before = a.records.hash;
    unsigned answered = 0, refused = 0;
    uint8_t buckets[EXCHANGE_BUCKETS_BYTES];
    for (int round = 0; round < 3000; round++) {
        size_t capacity = random_below(&random, 3000), pull_capacity = random_below(&random, 200);
        uint8_t *message = malloc(8192), *out = malloc(capacity + 1), *pull = malloc(pull_capacity + 1);
        assert_true(message != NULL && out != NULL && pull != NULL);
        size_t count, n = 0, m = 0;
        exchange_buckets(&b.records, buckets);
        assert_int_equal(
            exchange_on_buckets(&a.records, buckets, sizeof buckets, (uint32_t)round, message, 8192, &count), 0);
        for (uint64_t flips = random_below(&random, 3); flips > 0 && count > 0; flips--) {
            message[random_below(&random, count)] = (uint8_t)random_u64(&random);
        }
        if (random_below(&random, 8) == 0) {
            count = random_below(&random, count + 1);
        }
        uint8_t *exact = malloc(count + 1);
        assert_non_null(exact);
        memcpy(exact, message, count);
        int error = exchange_on_keys(&a.records, exact, count, &a.start, pull, pull_capacity, &n, out, capacity, &m);
        assert_true(error == 0 || error == ERR_MALFORMED);
        assert_true(n <= pull_capacity && m <= capacity);
        answered += error == 0;
        refused += error != 0;
        error = exchange_on_pull(&a.records, exact, count, &a.start, out, capacity, &m);
        assert_true(error == 0 || error == ERR_MALFORMED);
        buckets[random_below(&random, sizeof buckets)] ^= 1;
        assert_int_equal(
            exchange_on_buckets(&a.records, buckets, sizeof buckets, (uint32_t)random_u64(&random), out, capacity, &m),
            0);
        assert_true(m <= capacity);
        free(exact);
        free(message);
        free(out);
        free(pull);
    }
    assert_true(answered > 100 && refused > 100);
    assert_true(records_hash_equal(before, a.records.hash));
    table_close(&a);
    table_close(&b);
}

static bool find_last(void *context, const struct records_entry *entry)
{
    *(record_ident *)context = entry->ident;
    return true;
}

/* What the peer asks for and what it is given unasked; the last one is all that it can take for now. */
static void test_what_is_not_taken_holds_nothing_back(void **state)
{
    (void)state;
    for (int is_starter = 0; is_starter < 2; is_starter++) {
        struct table a, b;
        table_open(&a);
        table_open(&b);
        struct random random;
        random_init(&random, 3);
        fill(&a, &random, 100, 1, 100);
        records_each(&a.records, find_last, &b.only);
        struct limits limits = {EXCHANGE_MESSAGE_BYTES_MAX, EXCHANGE_PULL_BYTES_MAX, 1200};
        uint32_t rounds = 0;
        while (records_find(&b.records, b.only) == NULL) {
            (void)round_between(is_starter ? &b : &a, is_starter ? &a : &b, rounds++, limits);
            assert_true(rounds < 100); /* each sends two or more */
        }
        b.only = (record_ident){{0}};
        for (rounds = 0; !same(&a, &b); rounds++) {
            (void)round_between(is_starter ? &b : &a, is_starter ? &a : &b, rounds, limits);
            assert_true(rounds < 100);
        }
        table_close(&a);
        table_close(&b);
    }
}

static bool assert_held(void *context, const struct records_entry *entry)
{
    const struct table *other = context;
    const struct records_entry *theirs = records_find(&other->records, entry->ident);
    assert_non_null(theirs);
    assert_true(record_version_compare(theirs->record.version, entry->record.version) >= 0);
    return true;
}

/* Whoever has pulled what such keys name lacks nothing of their sender. */
static void test_keys_that_are_not_all_say_so(void **state)
{
    (void)state;
    static uint8_t buckets[EXCHANGE_BUCKETS_BYTES], keys[EXCHANGE_MESSAGE_BYTES_MAX], pull[EXCHANGE_MESSAGE_BYTES_MAX],
        out[EXCHANGE_MESSAGE_BYTES_MAX];
    size_t key_bytes, pull_bytes, out_bytes;
    uint32_t all = 0, parts = 0;
    for (uint32_t seed = 1; seed <= 60; seed++) {
        struct table a, b;
        table_open(&a);
        table_open(&b);
        struct random random;
        random_init(&random, seed);
        fill(&a, &random, 100, 3, 60);
        fill(&b, &random, 100, 3, 60);
        size_t capacity = BITMAP_BYTES + random_below(&random, 70) * EXCHANGE_KEY_BYTES;
        exchange_buckets(&a.records, buckets);
        assert_int_equal(exchange_on_buckets(&b.records, buckets, sizeof buckets, seed, keys, capacity, &key_bytes), 0);
        assert_true(key_bytes <= capacity);
        if (key_bytes > 0 && exchange_keys_are_all(keys, key_bytes)) {
            assert_int_equal(exchange_on_keys(&a.records, keys, key_bytes, &a.start, pull, sizeof pull, &pull_bytes, out,
                                              sizeof out, &out_bytes), 0);
            assert_int_equal(exchange_on_pull(&b.records, pull, pull_bytes, &b.start, out, sizeof out, &out_bytes), 0);
            (void)take_records(&a, out, out_bytes);
            records_each(&b.records, assert_held, &a);
            all++;
        } else {
            parts++;
        }
        table_close(&a);
        table_close(&b);
    }
    assert_true(all > 5 && parts > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_wide_round_is_enough),
        cmocka_unit_test(test_equal_tables_say_nothing),
        cmocka_unit_test(test_what_the_keys_say),
        cmocka_unit_test(test_held_back_records_do_not_travel),
        cmocka_unit_test(test_small_messages_converge_in_bounded_rounds),
        cmocka_unit_test(test_buckets_larger_than_a_message_converge),
        cmocka_unit_test(test_three_tables_converge),
        cmocka_unit_test(test_malformed_is_refused),
        cmocka_unit_test(test_mutated_bytes_do_no_harm),
        cmocka_unit_test(test_what_is_not_taken_holds_nothing_back),
        cmocka_unit_test(test_keys_that_are_not_all_say_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
