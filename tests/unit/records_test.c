/* The table of records: versions, equivocation, holding back, digests, memory. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/random.h"
#include "gossip/records.h"
#include "tests/unit/put_envelope.h"

struct table {
    void *memory;
    struct arena arena;
    struct records records;
};

static void table_open(struct table *table, size_t bytes)
{
    table->memory = aligned_alloc(16, bytes);
    assert_non_null(table->memory);
    arena_init(&table->arena, table->memory, bytes);
    assert_int_equal(records_init(&table->records, &table->arena), 0);
}

static void table_close(struct table *table)
{
    free(table->memory);
    *table = (struct table){.memory = NULL};
}

struct envelope {
    uint8_t bytes[RECORD_ENVELOPE_BYTES_MAX];
    size_t count;
    record_ident ident;
    struct record_version version;
};

static void envelope_make(struct envelope *out, uint32_t number, uint64_t boot, uint64_t seq, uint16_t body_bytes,
                          uint8_t fill)
{
    static uint8_t body[RECORD_BODY_BYTES_MAX];
    memset(body, fill, body_bytes);
    uint8_t key[4];
    bytes_put_u32(key, number);
    struct record record = {.kind = 7,
                            .writer = {{(uint8_t)(1 + number % 5)}},
                            .version = {boot, seq},
                            .key = key,
                            .key_bytes = sizeof key,
                            .body = body,
                            .body_bytes = body_bytes};
    out->count = record_encode(&record, out->bytes, sizeof out->bytes);
    assert_true(out->count > 0);
    out->ident = record_ident_of(record.writer, record.kind, key, sizeof key);
    out->version = record.version;
}

static int put(struct table *table, uint32_t number, uint64_t boot, uint64_t seq, uint16_t body_bytes, uint8_t fill)
{
    struct envelope e;
    envelope_make(&e, number, boot, seq, body_bytes, fill);
    return put_envelope(&table->records, e.bytes, e.count, true, NULL);
}

/* The digests computed anew from the entries, as a check on the incremental ones. */
struct recount {
    struct records_hash hash, buckets[RECORDS_BUCKETS];
    uint32_t published[RECORDS_BUCKETS];
    uint32_t count;
    record_ident last;
};

static bool recount_visit(void *context, const struct records_entry *entry)
{
    struct recount *recount = context;
    assert_true(recount->count == 0 || record_ident_compare(recount->last, entry->ident) < 0);
    recount->last = entry->ident;
    recount->count++;
    if (entry->published) {
        for (int i = 0; i < 2; i++) {
            recount->hash.words[i] += entry->hash.words[i];
            recount->buckets[entry->ident.bytes[0]].words[i] += entry->hash.words[i];
        }
        recount->published[entry->ident.bytes[0]]++;
    }
    struct record record;
    assert_int_equal(record_decode(entry->envelope, entry->envelope_bytes, &record), 0);
    assert_true(record.key == entry->record.key && record.body == entry->record.body);
    assert_int_equal(record_version_compare(record.version, entry->record.version), 0);
    return true;
}

static void assert_digests_hold(const struct table *table)
{
    struct recount recount = {.count = 0};
    records_each(&table->records, recount_visit, &recount);
    assert_int_equal(recount.count, table->records.count);
    assert_true(records_hash_equal(recount.hash, table->records.hash));
    assert_memory_equal(recount.buckets, table->records.bucket_hashes, sizeof recount.buckets);
    assert_memory_equal(recount.published, table->records.published_counts, sizeof recount.published);
}

static void test_newer_replaces_older(void **state)
{
    (void)state;
    struct table table;
    table_open(&table, 1 << 16);
    struct envelope e;
    envelope_make(&e, 1, 5, 5, 100, 'a');
    assert_null(records_find(&table.records, e.ident));

    struct records_entry *first, *second;
    assert_int_equal(put_envelope(&table.records, e.bytes, e.count, true, &first), 0);
    assert_memory_equal(first->envelope, e.bytes, e.count);
    assert_true(first->envelope != e.bytes);
    assert_ptr_equal(records_find(&table.records, e.ident), first);

    assert_int_equal(put(&table, 1, 5, 4, 100, 'b'), ERR_STALE); /* lower seq */
    assert_int_equal(put(&table, 1, 4, 9, 100, 'b'), ERR_STALE); /* lower boot */
    assert_int_equal(put(&table, 1, 5, 5, 100, 'a'), ERR_STALE); /* the same again */
    assert_int_equal(first->record.body[0], 'a');

    envelope_make(&e, 1, 5, 6, 3000, 'c');
    assert_int_equal(put_envelope(&table.records, e.bytes, e.count, true, &second), 0);
    assert_ptr_equal(first, second);
    assert_int_equal(second->record.body_bytes, 3000);
    assert_int_equal(put(&table, 1, 6, 0, 10, 'd'), 0); /* a new boot begins at seq 0 */
    assert_int_equal(table.records.count, 1);
    assert_digests_hold(&table);
    table_close(&table);
}

static void test_equal_version_with_other_bytes_is_corrupt(void **state)
{
    (void)state;
    struct table table;
    table_open(&table, 1 << 16);
    assert_int_equal(put(&table, 1, 1, 1, 50, 'a'), 0);
    struct records_hash before = table.records.hash;
    assert_int_equal(put(&table, 1, 1, 1, 50, 'b'), ERR_CORRUPT);
    assert_int_equal(put(&table, 1, 1, 1, 51, 'a'), ERR_CORRUPT);
    assert_true(records_hash_equal(before, table.records.hash));

    /* Another valid signature over the same bytes is no equivocation. */
    struct envelope e;
    envelope_make(&e, 1, 1, 1, 50, 'a');
    e.bytes[e.count - 1] = 1;
    assert_int_equal(put_envelope(&table.records, e.bytes, e.count, true, NULL), ERR_STALE);
    assert_int_equal(records_find(&table.records, e.ident)->record.body[0], 'a');
    table_close(&table);
}

static void test_malformed_changes_nothing(void **state)
{
    (void)state;
    struct table table;
    table_open(&table, 1 << 16);
    struct envelope e;
    envelope_make(&e, 1, 1, 1, 50, 'a');
    struct records_entry *out = NULL;
    assert_int_equal(put_envelope(&table.records, e.bytes, e.count - 1, true, &out), ERR_MALFORMED);
    assert_int_equal(put_envelope(&table.records, e.bytes, 0, true, &out), ERR_MALFORMED);
    assert_null(out);
    assert_int_equal(table.records.count, 0);
    table_close(&table);
}

static void test_held_back_until_published(void **state)
{
    (void)state;
    struct table table;
    table_open(&table, 1 << 16);
    static const struct records_hash none = {{0, 0}};
    static const uint8_t signature[RECORD_SIGNATURE_BYTES] = {1, 2, 3};
    struct envelope one, two;
    envelope_make(&one, 1, 1, 1, 50, 'a');
    envelope_make(&two, 1, 1, 2, 60, 'b');

    assert_int_equal(records_publish(&table.records, one.ident, one.version, signature, NULL), ERR_NOT_FOUND);
    struct records_entry *entry;
    assert_int_equal(put_envelope(&table.records, one.bytes, one.count, false, &entry), 0);
    assert_false(entry->published);
    assert_true(records_hash_equal(table.records.hash, none));

    struct records_entry *published;
    assert_int_equal(records_publish(&table.records, one.ident, one.version, signature, &published), 0);
    assert_ptr_equal(entry, published);
    assert_true(entry->published);
    assert_memory_equal(entry->envelope + entry->envelope_bytes - RECORD_SIGNATURE_BYTES, signature, sizeof signature);
    struct records_hash with_one = table.records.hash;
    assert_false(records_hash_equal(with_one, none));
    assert_int_equal(records_publish(&table.records, one.ident, one.version, signature, NULL), 0);
    assert_true(records_hash_equal(table.records.hash, with_one)); /* once only */

    /* A newer one that is held back takes the older one out of the digests, too. */
    assert_int_equal(put_envelope(&table.records, two.bytes, two.count, false, NULL), 0);
    assert_true(records_hash_equal(table.records.hash, none));
    assert_int_equal(records_publish(&table.records, one.ident, one.version, signature, NULL), ERR_NOT_FOUND);
    assert_int_equal(records_publish(&table.records, two.ident, two.version, signature, NULL), 0);
    assert_false(records_hash_equal(table.records.hash, with_one));
    assert_digests_hold(&table);
    table_close(&table);
}

static void test_digest_does_not_depend_on_order(void **state)
{
    (void)state;
    enum { KEYS = 300, VERSIONS = 4, PUTS = KEYS * VERSIONS };
    struct table a, b;
    table_open(&a, 1 << 20);
    table_open(&b, 1 << 20);
    uint32_t order[PUTS];
    for (uint32_t i = 0; i < PUTS; i++) {
        order[i] = i;
    }
    for (uint32_t i = 0; i < PUTS; i++) {
        (void)put(&a, order[i] % KEYS, 1, order[i] / KEYS, (uint16_t)(order[i] % 97), 'x');
    }
    assert_digests_hold(&a);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct random random;
        random_init(&random, seed);
        for (uint32_t i = PUTS - 1; i > 0; i--) {
            uint32_t j = (uint32_t)random_below(&random, i + 1);
            uint32_t moving = order[i];
            order[i] = order[j];
            order[j] = moving;
        }
        table_close(&b);
        table_open(&b, 1 << 20);
        unsigned stale = 0;
        for (uint32_t i = 0; i < PUTS; i++) {
            int error = put(&b, order[i] % KEYS, 1, order[i] / KEYS, (uint16_t)(order[i] % 97), 'x');
            assert_true(error == 0 || error == ERR_STALE);
            stale += error == ERR_STALE;
        }
        assert_true(stale > 0);
        assert_true(records_hash_equal(a.records.hash, b.records.hash));
        assert_memory_equal(a.records.bucket_hashes, b.records.bucket_hashes, sizeof a.records.bucket_hashes);
        assert_digests_hold(&b);
    }
    table_close(&a);
    table_close(&b);
}

static void test_replacements_do_not_grow_the_arena(void **state)
{
    (void)state;
    struct table table;
    table_open(&table, 1 << 20);
    struct random random;
    random_init(&random, 3);
    /* Every size class with all ten records in it at once: more is never needed. */
    static const uint16_t bodies[] = {20, 150, 400, 900, 1900, 3900, 4096, 0};
    for (uint64_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        for (uint32_t number = 0; number < 10; number++) {
            assert_int_equal(put(&table, number, 1, i, bodies[i], 'x'), 0);
        }
    }
    size_t fresh = table.arena.fresh_bytes;
    size_t used = table.arena.used_bytes;
    for (uint64_t i = 0; i < 10000; i++) {
        assert_int_equal(put(&table, (uint32_t)(i % 10), 3, i, (uint16_t)random_below(&random, 4097), 'x'), 0);
    }
    assert_int_equal(table.arena.fresh_bytes, fresh);
    for (uint32_t number = 0; number < 10; number++) {
        assert_int_equal(put(&table, number, 4, 0, 0, 'x'), 0);
    }
    assert_int_equal(table.arena.used_bytes, used);
    table_close(&table);
}

static void test_full_refuses_and_keeps(void **state)
{
    (void)state;
    struct table table;
    table_open(&table, 1 << 15);
    uint32_t held = 0;
    int error;
    while ((error = put(&table, held, 1, 1, 200, 'x')) == 0) {
        held++;
        assert_true(held < 1000);
    }
    assert_int_equal(error, ERR_FULL);
    assert_int_equal(table.records.count, held);
    assert_true(held > 10);
    assert_digests_hold(&table);
    size_t used = table.arena.used_bytes;
    assert_int_equal(put(&table, held + 1, 1, 1, 200, 'x'), ERR_FULL);
    assert_int_equal(table.arena.used_bytes, used);

    /* Replacing by what is no longer always works; growing does not, and keeps the old one. */
    for (uint32_t i = 0; i < held; i++) {
        assert_int_equal(put(&table, i, 1, 2, 200, 'y'), 0);
    }
    assert_int_equal(put(&table, 0, 1, 3, 8000, 'z'), ERR_FULL);
    struct envelope e;
    envelope_make(&e, 0, 1, 2, 200, 'y');
    struct records_entry *entry = records_find(&table.records, e.ident);
    assert_memory_equal(entry->envelope, e.bytes, e.count);
    for (uint32_t i = 0; i < held; i++) { /* smaller blocks may not be there either: the old ones serve */
        assert_int_equal(put(&table, i, 1, 4, 0, 'y'), 0);
    }
    assert_digests_hold(&table);
    table_close(&table);
}

static void test_no_memory_at_init(void **state)
{
    (void)state;
    _Alignas(16) uint8_t memory[64];
    struct arena arena;
    arena_init(&arena, memory, sizeof memory);
    struct records records;
    assert_int_equal(records_init(&records, &arena), ERR_MEMORY);
}

static void test_many_entries_are_found(void **state)
{
    (void)state;
    struct table table;
    table_open(&table, 8 << 20);
    enum { COUNT = 5000 };
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(put(&table, i, 1, i, 8, 'x'), 0);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        struct envelope e;
        envelope_make(&e, i, 1, i, 8, 'x');
        struct records_entry *entry = records_find(&table.records, e.ident);
        assert_non_null(entry);
        assert_memory_equal(entry->envelope, e.bytes, e.count);
    }
    struct envelope absent;
    envelope_make(&absent, COUNT, 1, 1, 8, 'x');
    assert_null(records_find(&table.records, absent.ident));
    assert_digests_hold(&table);
    table_close(&table);
}

static bool stop_at_third(void *context, const struct records_entry *entry)
{
    (void)entry;
    unsigned *seen = context;
    return ++*seen < 3;
}

static void test_each_stops_when_told(void **state)
{
    (void)state;
    struct table table;
    table_open(&table, 1 << 16);
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(put(&table, i, 1, 1, 8, 'x'), 0);
    }
    unsigned seen = 0;
    records_each(&table.records, stop_at_third, &seen);
    assert_int_equal(seen, 3);
    table_close(&table);
}

static void test_what_is_forgotten_was_never_there(void **state)
{
    (void)state;
    struct table table, never;
    table_open(&table, 1 << 20);
    table_open(&never, 1 << 20);
    struct random random;
    random_init(&random, 5);
    bool held[600] = {false};
    for (uint32_t i = 0; i < 600; i++) {
        struct envelope e;
        envelope_make(&e, i, 1, 1, (uint16_t)(i % 50), 'a');
        assert_int_equal(put_envelope(&table.records, e.bytes, e.count, i % 7 != 0, NULL), 0);
        held[i] = random_u64(&random) % 3 == 0;
        if (held[i]) {
            assert_int_equal(put_envelope(&never.records, e.bytes, e.count, i % 7 != 0, NULL), 0);
        }
    }
    for (uint32_t i = 0; i < 600; i++) {
        struct envelope e;
        envelope_make(&e, i, 1, 1, 0, 'a');
        if (!held[i]) {
            assert_int_equal(records_forget(&table.records, e.ident), 0);
            assert_int_equal(records_forget(&table.records, e.ident), ERR_NOT_FOUND);
        }
        if (i % 100 == 0) {
            assert_digests_hold(&table);
        }
    }
    assert_digests_hold(&table);
    assert_int_equal(table.records.count, never.records.count);
    assert_true(records_hash_equal(table.records.hash, never.records.hash));
    for (uint32_t i = 0; i < 600; i++) {
        struct envelope e;
        envelope_make(&e, i, 1, 1, 0, 'a');
        assert_int_equal(records_find(&table.records, e.ident) != NULL, held[i]);
    }
    assert_int_equal(put(&table, 1, 1, 1, 5, 'b'), held[1] ? ERR_CORRUPT : 0); /* it may come again */
    table_close(&table);
    table_close(&never);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_newer_replaces_older),
        cmocka_unit_test(test_equal_version_with_other_bytes_is_corrupt),
        cmocka_unit_test(test_malformed_changes_nothing),
        cmocka_unit_test(test_held_back_until_published),
        cmocka_unit_test(test_digest_does_not_depend_on_order),
        cmocka_unit_test(test_replacements_do_not_grow_the_arena),
        cmocka_unit_test(test_full_refuses_and_keeps),
        cmocka_unit_test(test_no_memory_at_init),
        cmocka_unit_test(test_many_entries_are_found),
        cmocka_unit_test(test_what_is_forgotten_was_never_there),
        cmocka_unit_test(test_each_stops_when_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
