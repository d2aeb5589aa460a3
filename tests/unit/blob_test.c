/* Hashes, cutting, manifests, the fetch plan and placement. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/pack.h"
#include "base/random.h"
#include "store/blob.h"
#include "store/hash.h"
#include "store/placement.h"

static void hash_is_blake2b_256(void **state)
{
    (void)state;
    /* RFC 7693's reference code with 32 bytes of output, for "abc" and for nothing. */
    char hex[2 * HASH_BYTES + 1];
    hash256 hash = hash_bytes("abc", 3);
    bytes_to_hex(hex, hash.bytes, HASH_BYTES);
    assert_string_equal(hex, "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
    hash = hash_bytes(NULL, 0);
    bytes_to_hex(hex, hash.bytes, HASH_BYTES);
    assert_string_equal(hex, "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");

    uint8_t bytes[1000];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * 7);
    }
    struct hash_stream stream;
    hash_stream_init(&stream);
    hash_stream_add(&stream, bytes, 1);
    hash_stream_add(&stream, bytes + 1, 500);
    hash_stream_add(&stream, bytes + 501, 499);
    assert_true(hash256_equal(hash_stream_finish(&stream), hash_bytes(bytes, sizeof bytes)));
}

static void cut_plan_covers_every_byte_once(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 1, BLOB_CHUNK_BYTES - 1, BLOB_CHUNK_BYTES, BLOB_CHUNK_BYTES + 1, 12345678};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct blob_cut cut;
        assert_int_equal(blob_cut_plan(sizes[i], 0, &cut), 0);
        uint64_t sum = 0;
        for (uint32_t c = 0; c < cut.chunk_count; c++) {
            uint64_t offset;
            uint32_t bytes;
            blob_cut_chunk(&cut, c, &offset, &bytes);
            assert_int_equal(offset, sum);
            assert_in_range(bytes, 1, BLOB_CHUNK_BYTES);
            sum += bytes;
        }
        assert_int_equal(sum, sizes[i]);
    }
    struct blob_cut cut;
    assert_int_equal(blob_cut_plan((uint64_t)BLOB_CHUNKS_MAX * BLOB_CHUNK_BYTES, 0, &cut), 0);
    assert_int_equal(cut.chunk_bytes, BLOB_CHUNK_BYTES);
    assert_int_equal(blob_cut_plan((uint64_t)BLOB_CHUNKS_MAX * BLOB_CHUNK_BYTES + 1, 0, &cut), 0);
    assert_int_equal(cut.chunk_bytes, 2 * BLOB_CHUNK_BYTES);
    assert_int_equal(blob_cut_plan(BLOB_BYTES_MAX, 0, &cut), 0);
    assert_int_equal(cut.chunk_bytes, BLOB_CHUNK_BYTES_MAX);
    assert_int_equal(cut.chunk_count, BLOB_CHUNKS_MAX);
    assert_int_equal(blob_cut_plan(BLOB_BYTES_MAX + 1, 0, &cut), ERR_FULL);
    assert_int_equal(blob_cut_plan(UINT64_MAX, 0, &cut), ERR_FULL);
    assert_int_equal(blob_cut_plan(100, 7, &cut), 0);
    assert_int_equal(cut.chunk_count, 15);
    assert_int_equal(blob_cut_plan(BLOB_CHUNKS_MAX + 1ull, 1, &cut), ERR_FULL);
    assert_int_equal(blob_cut_plan(100, BLOB_CHUNK_BYTES_MAX + 1, &cut), ERR_USAGE);
}

/* Walks over a plan, checks that the chunks lie side by side, and counts those that begin at a cut. */
static uint32_t walk_plan(const struct blob_cut *cut)
{
    struct blob_cut_walk walk = {0};
    uint64_t sum = 0;
    uint32_t count = 0, at_cuts = 0;
    for (size_t next = 0; blob_cut_next(cut, &walk); count++) {
        assert_int_equal(walk.offset, sum);
        assert_in_range(walk.bytes, 1, cut->chunk_bytes);
        while (next < cut->cut_count && cut->cuts[next] < sum) {
            next++;
        }
        at_cuts += next < cut->cut_count && cut->cuts[next] == sum;
        sum += walk.bytes;
    }
    assert_int_equal(sum, cut->total_bytes);
    assert_int_equal(count, cut->chunk_count);
    assert_false(blob_cut_next(cut, &walk));
    return at_cuts;
}

static void chunks_begin_at_cuts(void **state)
{
    (void)state;
    struct blob_cut cut;
    /* Parts of 1 MiB and 5 bytes, of 10 bytes, of 3 MiB, and of 3 bytes: each is there again if it lies elsewhere. */
    uint64_t total = (4u << 20) + 18;
    uint64_t cuts[] = {0, (1u << 20) + 5, (1u << 20) + 15, (4u << 20) + 15};
    static const uint32_t sizes[] = {(1u << 19) + 3, (1u << 19) + 2, 10, 1u << 20, 1u << 20, 1u << 20, 3};
    assert_int_equal(blob_cut_plan_at(total, cuts, 4, &cut), 0);
    assert_int_equal(cut.chunk_count, 7);
    assert_int_equal(walk_plan(&cut), 4);
    struct blob_cut_walk walk = {0};
    for (size_t i = 0; i < 7; i++) {
        assert_true(blob_cut_next(&cut, &walk));
        assert_int_equal(walk.bytes, sizes[i]);
    }

    assert_int_equal(blob_cut_plan_at(total, NULL, 0, &cut), 0); /* without cuts as ever */
    assert_int_equal(cut.chunk_count, 5);
    assert_int_equal(walk_plan(&cut), 0);
    assert_int_equal(blob_cut_plan_at(0, NULL, 0, &cut), 0);
    assert_int_equal(walk_plan(&cut), 0);
    assert_int_equal(blob_cut_plan_at(10, cuts, 1, &cut), 0);
    assert_int_equal(walk_plan(&cut), 1);
}

static void small_parts_share_chunks(void **state)
{
    (void)state;
    uint64_t cuts[2000];
    struct blob_cut cut;
    for (uint64_t i = 0; i < 2000; i++) {
        cuts[i] = 1000 * i;
    }
    assert_int_equal(blob_cut_plan_at(2000 * 1000, cuts, 2000, &cut), 0);
    assert_int_equal(cut.chunk_count, 31); /* of 66 parts each */
    assert_int_equal(walk_plan(&cut), 31);
    assert_int_equal(blob_cut_plan_at(3000 * 1000, cuts, 2000, &cut), 0); /* and a large one behind them, that begins a chunk */
    struct blob_cut_walk walk = {0};
    uint64_t last = 0;
    while (blob_cut_next(&cut, &walk)) {
        last += walk.offset == cuts[1999];
    }
    assert_int_equal(last, 1);
}

static void cuts_that_do_not_ascend_are_refused(void **state)
{
    (void)state;
    struct blob_cut cut;
    static const uint64_t bad[][2] = {{5, 5}, {6, 5}, {0, 100}, {UINT64_MAX, 5}, {5, UINT64_MAX}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(blob_cut_plan_at(100, bad[i], 2, &cut), ERR_USAGE);
    }
    assert_int_equal(blob_cut_plan_at(0, bad[0], 1, &cut), ERR_USAGE);
    assert_int_equal(blob_cut_plan_at(BLOB_BYTES_MAX + 1, bad[0], 1, &cut), ERR_FULL);
}

static void chunks_of_many_cuts_double(void **state)
{
    (void)state;
    enum { CUTS = BLOB_CHUNKS_MAX };
    uint64_t *cuts = calloc(CUTS, sizeof *cuts);
    assert_non_null(cuts);
    for (uint64_t i = 0; i < CUTS; i++) {
        cuts[i] = i * (BLOB_CHUNK_BYTES * 11ull / 20); /* 0.55 MiB */
    }
    struct blob_cut cut;
    assert_int_equal(blob_cut_plan_at(CUTS * (BLOB_CHUNK_BYTES * 11ull / 20), cuts, CUTS, &cut), 0);
    assert_int_equal(cut.chunk_bytes, BLOB_CHUNK_BYTES);
    assert_int_equal(cut.chunk_count, CUTS);
    for (uint64_t i = 0; i < CUTS; i++) {
        cuts[i] = i * (BLOB_CHUNK_BYTES * 11ull / 10);
    }
    assert_int_equal(blob_cut_plan_at(CUTS * (BLOB_CHUNK_BYTES * 11ull / 10), cuts, CUTS, &cut), 0);
    assert_int_equal(cut.chunk_bytes, 2 * BLOB_CHUNK_BYTES);
    assert_int_equal(walk_plan(&cut), CUTS);
    for (uint64_t i = 0; i < CUTS; i++) {
        cuts[i] = i * (BLOB_CHUNK_BYTES_MAX - 5ull) + 1;
    }
    assert_int_equal(blob_cut_plan_at(BLOB_BYTES_MAX, cuts, CUTS, &cut), 0); /* no cut fits any more */
    assert_int_equal(cut.cut_count, 0);
    assert_int_equal(cut.chunk_count, BLOB_CHUNKS_MAX);
    free(cuts);
}

#define SMALL_CHUNKS 7

static struct blob_manifest small_manifest(struct blob_chunk chunks[SMALL_CHUNKS])
{
    struct blob_manifest manifest = {.chunks = chunks, .chunk_count = SMALL_CHUNKS};
    for (uint32_t i = 0; i < SMALL_CHUNKS; i++) {
        chunks[i] = (struct blob_chunk){.hash = hash_bytes(&i, sizeof i), .bytes = i == 6 ? 3 : BLOB_CHUNK_BYTES};
        manifest.total_bytes += chunks[i].bytes;
    }
    return manifest;
}

static void manifest_round_trip(void **state)
{
    (void)state;
    struct blob_chunk chunks[SMALL_CHUNKS];
    struct blob_manifest manifest = small_manifest(chunks);
    uint8_t encoded[BLOB_ENCODED_BYTES(SMALL_CHUNKS)];
    size_t encoded_bytes;
    assert_int_equal(blob_encode(&manifest, encoded, sizeof encoded, &encoded_bytes), 0);

    struct blob_chunk decoded_chunks[SMALL_CHUNKS];
    struct blob_manifest decoded;
    uint32_t count;
    uint64_t total;
    assert_int_equal(blob_decode_counts(encoded, encoded_bytes, &count, &total), 0);
    assert_int_equal(count, SMALL_CHUNKS);
    assert_int_equal(total, manifest.total_bytes);
    assert_int_equal(blob_decode(encoded, encoded_bytes, decoded_chunks, SMALL_CHUNKS - 1, &decoded), ERR_FULL);
    assert_int_equal(blob_decode(encoded, encoded_bytes, decoded_chunks, SMALL_CHUNKS, &decoded), 0);
    assert_int_equal(decoded.total_bytes, manifest.total_bytes);
    struct blob_piece piece = {0};
    uint64_t offset = 0;
    uint32_t seen = 0;
    while (blob_next(&decoded, &piece)) {
        assert_int_equal(piece.index, seen);
        assert_int_equal(piece.offset, offset);
        assert_int_equal(piece.bytes, chunks[seen].bytes);
        assert_true(hash256_equal(piece.hash, chunks[seen].hash));
        offset += piece.bytes;
        seen++;
    }
    assert_int_equal(seen, SMALL_CHUNKS);

    for (size_t capacity = 0; capacity < encoded_bytes; capacity++) {
        assert_int_equal(blob_encode(&manifest, encoded, capacity, &encoded_bytes), ERR_FULL);
    }
    manifest.total_bytes++;
    assert_int_equal(blob_encode(&manifest, encoded, sizeof encoded, &encoded_bytes), ERR_USAGE);
    manifest.total_bytes--;
    chunks[2].bytes = 0;
    assert_int_equal(blob_encode(&manifest, encoded, sizeof encoded, &encoded_bytes), ERR_USAGE);
    chunks[2].bytes = BLOB_CHUNK_BYTES_MAX + 1;
    assert_int_equal(blob_encode(&manifest, encoded, sizeof encoded, &encoded_bytes), ERR_USAGE);
}

static void largest_manifest_fits_into_a_chunk(void **state)
{
    (void)state;
    struct blob_chunk *chunks = calloc(BLOB_CHUNKS_MAX, sizeof *chunks);
    uint8_t *encoded = malloc(BLOB_CHUNK_BYTES_MAX);
    assert_non_null(chunks);
    assert_non_null(encoded);
    for (uint32_t i = 0; i < BLOB_CHUNKS_MAX; i++) {
        chunks[i].bytes = BLOB_CHUNK_BYTES_MAX;
    }
    struct blob_manifest manifest = {.chunks = chunks, .chunk_count = BLOB_CHUNKS_MAX, .total_bytes = BLOB_BYTES_MAX};
    size_t encoded_bytes;
    assert_int_equal(blob_encode(&manifest, encoded, BLOB_ENCODED_BYTES(BLOB_CHUNKS_MAX), &encoded_bytes), 0);
    uint32_t count;
    uint64_t total;
    assert_int_equal(blob_decode_counts(encoded, encoded_bytes, &count, &total), 0);
    assert_int_equal(total, BLOB_BYTES_MAX);
    manifest.chunk_count++;
    assert_int_equal(blob_encode(&manifest, encoded, BLOB_CHUNK_BYTES_MAX, &encoded_bytes), ERR_USAGE);
    free(encoded);
    free(chunks);
}

/* A manifest of two chunks with one field at a time off. */
static int decode_made(uint32_t fields, uint64_t version, uint64_t total, uint32_t sizes, uint64_t size,
                       size_t hash_bytes_all, bool trailing)
{
    uint8_t encoded[400];
    uint8_t hashes[200] = {1};
    struct pack_writer writer;
    pack_writer_init(&writer, encoded, sizeof encoded);
    pack_array(&writer, fields);
    pack_u64(&writer, version);
    pack_u64(&writer, total);
    pack_array(&writer, sizes);
    for (uint32_t i = 0; i < sizes; i++) {
        pack_u64(&writer, size);
    }
    pack_bin(&writer, hashes, hash_bytes_all);
    if (trailing) {
        pack_nil(&writer);
    }
    assert_false(writer.failed);
    uint32_t count;
    uint64_t decoded_total;
    return blob_decode_counts(encoded, writer.used_bytes, &count, &decoded_total);
}

static void malformed_manifests_are_refused(void **state)
{
    (void)state;
    assert_int_equal(decode_made(4, 1, 20, 2, 10, 64, false), 0);
    assert_int_equal(decode_made(3, 1, 20, 2, 10, 64, false), ERR_MALFORMED);
    assert_int_equal(decode_made(4, 2, 20, 2, 10, 64, false), ERR_VERSION);
    assert_int_equal(decode_made(4, 1, 21, 2, 10, 64, false), ERR_MALFORMED);
    assert_int_equal(decode_made(4, 1, BLOB_BYTES_MAX + 1, 2, 10, 64, false), ERR_MALFORMED);
    assert_int_equal(decode_made(4, 1, 0, 2, 0, 64, false), ERR_MALFORMED);
    assert_int_equal(decode_made(4, 1, 2 * (BLOB_CHUNK_BYTES_MAX + 1ull), 2, BLOB_CHUNK_BYTES_MAX + 1, 64, false),
                     ERR_MALFORMED);
    assert_int_equal(decode_made(4, 1, 20, 2, 10, 63, false), ERR_MALFORMED);
    assert_int_equal(decode_made(4, 1, 20, 2, 10, 96, false), ERR_MALFORMED);
    assert_int_equal(decode_made(4, 1, 20, 2, 10, 64, true), ERR_MALFORMED);
    assert_int_equal(decode_made(4, 1, 0, 0, 0, 0, false), 0);
}

/* Whatever the bytes: no crash, and what is accepted keeps its promises and encodes again. */
static void mutated_manifests_never_break_the_decoder(void **state)
{
    (void)state;
    struct blob_chunk chunks[SMALL_CHUNKS];
    struct blob_manifest manifest = small_manifest(chunks);
    uint8_t good[BLOB_ENCODED_BYTES(SMALL_CHUNKS)];
    size_t good_bytes;
    assert_int_equal(blob_encode(&manifest, good, sizeof good, &good_bytes), 0);
    struct random random;
    random_init(&random, 20240607);
    unsigned accepted = 0;
    unsigned refused = 0;
    for (int round = 0; round < 20000; round++) {
        size_t bytes = random_below(&random, 4) == 0 ? random_below(&random, good_bytes + 1) : good_bytes;
        uint8_t *copy = malloc(bytes + 1); /* exactly as large: the sanitizer sees a read beyond */
        assert_non_null(copy);
        memcpy(copy, good, bytes);
        uint64_t changes = 1 + random_below(&random, 4);
        for (uint64_t i = 0; i < changes && bytes > 0; i++) {
            /* The heads are where it matters: half of the changes go there. */
            uint64_t at = random_below(&random, random_below(&random, 2) == 0 && bytes > 60 ? 60 : bytes);
            copy[at] = (uint8_t)random_u64(&random);
        }
        copy = realloc(copy, bytes > 0 ? bytes : 1);
        struct blob_chunk decoded_chunks[SMALL_CHUNKS + 3];
        struct blob_manifest decoded;
        int rc = blob_decode(copy, bytes, decoded_chunks, SMALL_CHUNKS + 3, &decoded);
        if (rc == 0) {
            uint8_t again[BLOB_ENCODED_BYTES(SMALL_CHUNKS + 3)];
            size_t again_bytes;
            assert_int_equal(blob_encode(&decoded, again, sizeof again, &again_bytes), 0);
            accepted++;
        } else {
            assert_true(rc == ERR_MALFORMED || rc == ERR_VERSION || rc == ERR_FULL);
            refused++;
        }
        free(copy);
    }
    assert_true(accepted > 100 && refused > 100);
}

/* ---- fetch plan ---- */

static node_id node_of(uint8_t number)
{
    node_id node = {{0}};
    node.bytes[0] = number;
    return node;
}

#define FETCH_CHUNKS 100

struct fetch_world {
    struct blob_chunk chunks[FETCH_CHUNKS];
    struct blob_fetch_slot slots[FETCH_CHUNKS];
    struct blob_manifest manifest;
    struct blob_fetch fetch;
};

static void world_init(struct fetch_world *world, uint32_t in_flight_max)
{
    world->manifest = (struct blob_manifest){.chunks = world->chunks, .chunk_count = FETCH_CHUNKS};
    for (uint32_t i = 0; i < FETCH_CHUNKS; i++) {
        world->chunks[i] = (struct blob_chunk){.hash = hash_bytes(&i, sizeof i), .bytes = 10 + i};
        world->manifest.total_bytes += 10 + i;
    }
    blob_fetch_init(&world->fetch, &world->manifest, world->slots, in_flight_max);
}

static void fetch_spreads_over_holders_within_the_bound(void **state)
{
    (void)state;
    struct fetch_world world;
    world_init(&world, 6);
    for (uint8_t n = 1; n <= 3; n++) {
        assert_int_equal(blob_fetch_add_holder(&world.fetch, node_of(n)), 0);
    }
    assert_int_equal(blob_fetch_present(&world.fetch, 5), 0);
    assert_int_equal(blob_fetch_present(&world.fetch, FETCH_CHUNKS), ERR_USAGE);
    unsigned asked_of[4] = {0};
    unsigned asked_count[FETCH_CHUNKS] = {0};
    struct blob_ask queue[6];
    size_t queued = 0;
    for (;;) {
        struct blob_ask ask;
        int rc = blob_fetch_next(&world.fetch, &ask);
        if (rc == ERR_EXISTS) {
            break;
        }
        if (rc == 0) {
            assert_true(queued < 6);
            assert_int_equal(ask.piece.bytes, 10 + ask.piece.index);
            asked_of[ask.holder.bytes[0]]++;
            asked_count[ask.piece.index]++;
            queue[queued++] = ask;
            continue;
        }
        assert_int_equal(rc, ERR_AGAIN);
        assert_true(queued > 0);
        assert_int_equal(blob_fetch_answer(&world.fetch, queue[0].piece.index, queue[0].holder, BLOB_ANSWER_STORED), 0);
        memmove(queue, queue + 1, --queued * sizeof *queue);
    }
    assert_true(blob_fetch_done(&world.fetch));
    assert_int_equal(asked_count[5], 0);
    for (uint32_t i = 0; i < FETCH_CHUNKS; i++) {
        assert_int_equal(asked_count[i], i == 5 ? 0 : 1);
    }
    for (uint8_t n = 1; n <= 3; n++) {
        assert_true(asked_of[n] >= 25);
    }
}

static void fetch_asks_another_after_failure_and_gives_up_when_none_is_left(void **state)
{
    (void)state;
    struct fetch_world world;
    world_init(&world, 1);
    struct blob_ask first;
    assert_int_equal(blob_fetch_next(&world.fetch, &first), ERR_NOT_FOUND);
    assert_int_equal(blob_fetch_add_holder(&world.fetch, node_of(1)), 0);
    assert_int_equal(blob_fetch_add_holder(&world.fetch, node_of(2)), 0);
    assert_int_equal(blob_fetch_next(&world.fetch, &first), 0);
    struct blob_ask second;
    assert_int_equal(blob_fetch_next(&world.fetch, &second), ERR_AGAIN);
    assert_int_equal(blob_fetch_answer(&world.fetch, 1, first.holder, BLOB_ANSWER_STORED), ERR_STALE);
    assert_int_equal(blob_fetch_answer(&world.fetch, 0, node_of(9), BLOB_ANSWER_STORED), ERR_STALE);
    assert_int_equal(blob_fetch_answer(&world.fetch, FETCH_CHUNKS, first.holder, BLOB_ANSWER_STORED), ERR_STALE);
    assert_int_equal(blob_fetch_answer(&world.fetch, 0, first.holder, BLOB_ANSWER_CORRUPT), 0);
    assert_int_equal(blob_fetch_answer(&world.fetch, 0, first.holder, BLOB_ANSWER_STORED), ERR_STALE);
    assert_int_equal(blob_fetch_next(&world.fetch, &second), 0);
    assert_int_equal(second.piece.index, 0);
    assert_false(node_id_equal(second.holder, first.holder));
    assert_int_equal(blob_fetch_answer(&world.fetch, 0, second.holder, BLOB_ANSWER_FAILED), 0);
    struct blob_ask none;
    assert_int_equal(blob_fetch_next(&world.fetch, &none), ERR_NOT_FOUND);
    assert_int_equal(none.piece.index, 0);
    assert_true(node_id_is_none(none.holder));
    /* Added again, its failures are forgiven. */
    assert_int_equal(blob_fetch_add_holder(&world.fetch, second.holder), 0);
    assert_int_equal(blob_fetch_next(&world.fetch, &none), 0);
    assert_true(node_id_equal(none.holder, second.holder));
    assert_int_equal(blob_fetch_answer(&world.fetch, 0, none.holder, BLOB_ANSWER_STORED), 0);
    /* Later chunks avoid the one that failed last and has not made it good. */
    for (uint32_t i = 1; i < FETCH_CHUNKS; i++) {
        assert_int_equal(blob_fetch_next(&world.fetch, &none), 0);
        assert_true(node_id_equal(none.holder, second.holder));
        assert_int_equal(blob_fetch_answer(&world.fetch, i, none.holder, BLOB_ANSWER_STORED), 0);
    }
    assert_true(blob_fetch_done(&world.fetch));
}

static void fetch_goes_on_when_a_holder_is_gone(void **state)
{
    (void)state;
    struct fetch_world world;
    world_init(&world, 8);
    for (uint8_t n = 1; n <= BLOB_HOLDERS_MAX; n++) {
        assert_int_equal(blob_fetch_add_holder(&world.fetch, node_of(n)), 0);
    }
    assert_int_equal(blob_fetch_add_holder(&world.fetch, node_of(77)), ERR_FULL);
    assert_int_equal(blob_fetch_holder_gone(&world.fetch, node_of(77)), ERR_NOT_FOUND);
    struct blob_ask ask;
    for (int i = 0; i < 8; i++) {
        assert_int_equal(blob_fetch_next(&world.fetch, &ask), 0);
    }
    assert_int_equal(world.fetch.in_flight, 8);
    for (uint8_t n = 2; n <= BLOB_HOLDERS_MAX; n++) {
        assert_int_equal(blob_fetch_holder_gone(&world.fetch, node_of(n)), 0);
    }
    unsigned answered = 0;
    for (uint32_t i = 0; i < FETCH_CHUNKS; i++) {
        answered += blob_fetch_answer(&world.fetch, i, node_of(1), BLOB_ANSWER_STORED) == 0;
    }
    assert_int_equal(world.fetch.in_flight, 0);
    while (blob_fetch_next(&world.fetch, &ask) == 0) {
        assert_true(node_id_equal(ask.holder, node_of(1)));
        assert_int_equal(blob_fetch_answer(&world.fetch, ask.piece.index, ask.holder, BLOB_ANSWER_STORED), 0);
        answered++;
    }
    assert_int_equal(answered, FETCH_CHUNKS);
    assert_true(blob_fetch_done(&world.fetch));
}

/* Random failures, arrivals from elsewhere and deaths: each chunk is obtained once, the counts stay right. */
static void fetch_survives_random_histories(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct random random;
        random_init(&random, seed);
        struct fetch_world world;
        world_init(&world, 1 + (uint32_t)random_below(&random, 9));
        for (uint8_t n = 1; n <= 5; n++) {
            assert_int_equal(blob_fetch_add_holder(&world.fetch, node_of(n)), 0);
        }
        struct blob_ask asks[BLOB_IN_FLIGHT_MAX];
        size_t open = 0;
        bool gave_up = false;
        for (int step = 0; step < 20000 && !gave_up && !blob_fetch_done(&world.fetch); step++) {
            struct blob_ask ask;
            int rc = blob_fetch_next(&world.fetch, &ask);
            if (rc == 0) {
                asks[open++] = ask;
            } else if (rc == ERR_NOT_FOUND) {
                gave_up = true;
            } else {
                assert_int_equal(rc, ERR_AGAIN);
                assert_true(open > 0);
                size_t i = random_below(&random, open);
                uint64_t dice = random_below(&random, 20);
                if (dice == 0) {
                    assert_int_equal(blob_fetch_present(&world.fetch, asks[i].piece.index), 0);
                }
                int answered = blob_fetch_answer(&world.fetch, asks[i].piece.index, asks[i].holder,
                                                 dice < 3 ? BLOB_ANSWER_FAILED : BLOB_ANSWER_STORED);
                assert_int_equal(answered, dice == 0 ? ERR_STALE : 0);
                asks[i] = asks[--open];
            }
            uint32_t present = 0;
            uint32_t in_flight = 0;
            for (uint32_t c = 0; c < FETCH_CHUNKS; c++) {
                present += world.slots[c].state == BLOB_FETCH_PRESENT;
                in_flight += world.slots[c].state == BLOB_FETCH_ASKED;
            }
            assert_int_equal(present, world.fetch.present_count);
            assert_int_equal(in_flight, world.fetch.in_flight);
            assert_int_equal(in_flight, open);
            assert_true(in_flight <= world.fetch.in_flight_max);
        }
        assert_true(gave_up || blob_fetch_done(&world.fetch));
    }
}

/* ---- placement ---- */

static void placement_prefers_living_nodes_with_room(void **state)
{
    (void)state;
    struct placement_candidate candidates[8];
    for (uint8_t i = 0; i < 8; i++) {
        candidates[i] =
            (struct placement_candidate){.node = node_of((uint8_t)(i + 1)), .free_bytes = 10ull << 30, .alive = true};
    }
    hash256 hash = hash_bytes("blob", 4);
    struct placement_options options = {.key = hash.bytes, .key_bytes = HASH_BYTES, .blob_bytes = 1 << 20, .copies = 3};
    node_id chosen[PLACEMENT_COPIES_MAX];
    uint32_t count;
    assert_int_equal(placement_choose(&options, candidates, 8, chosen, &count), 0);
    assert_int_equal(count, 3);
    node_id before[3];
    memcpy(before, chosen, sizeof before);

    /* Another order and repetitions: the same answer. */
    struct placement_candidate shuffled[16];
    for (size_t i = 0; i < 16; i++) {
        shuffled[i] = candidates[(i * 5 + 3) % 8];
    }
    assert_int_equal(placement_choose(&options, shuffled, 16, chosen, &count), 0);
    assert_memory_equal(chosen, before, sizeof before);

    /* The second dies: the others keep their places. */
    candidates[before[1].bytes[0] - 1].alive = false;
    assert_int_equal(placement_choose(&options, candidates, 8, chosen, &count), 0);
    assert_true(node_id_equal(chosen[0], before[0]));
    assert_true(node_id_equal(chosen[1], before[2]));
    assert_false(node_id_equal(chosen[2], before[1]));

    /* The first gets tight: it comes after all with room to spare; without room, never. */
    candidates[before[0].bytes[0] - 1].free_bytes = 2 << 20;
    options.copies = 8;
    assert_int_equal(placement_choose(&options, candidates, 8, chosen, &count), 0);
    assert_int_equal(count, 7);
    assert_true(node_id_equal(chosen[6], before[0]));
    options.first = before[0];
    assert_int_equal(placement_choose(&options, candidates, 8, chosen, &count), 0);
    assert_true(node_id_equal(chosen[0], before[0]));
    candidates[before[0].bytes[0] - 1].free_bytes = 1 << 10;
    assert_int_equal(placement_choose(&options, candidates, 8, chosen, &count), 0);
    assert_int_equal(count, 6);

    assert_int_equal(placement_choose(&options, candidates, 0, chosen, &count), ERR_NOT_FOUND);
    options.copies = 0;
    assert_int_equal(placement_choose(&options, candidates, 8, chosen, &count), ERR_USAGE);
    options.copies = PLACEMENT_COPIES_MAX + 1;
    assert_int_equal(placement_choose(&options, candidates, 8, chosen, &count), ERR_USAGE);
}

static void placement_spreads_blobs(void **state)
{
    (void)state;
    struct placement_candidate candidates[5];
    unsigned load[6] = {0};
    for (uint8_t i = 0; i < 5; i++) {
        candidates[i] =
            (struct placement_candidate){.node = node_of((uint8_t)(i + 1)), .free_bytes = 10ull << 30, .alive = true};
    }
    for (uint32_t blob = 0; blob < 1000; blob++) {
        hash256 hash = hash_bytes(&blob, sizeof blob);
        struct placement_options options = {.key = hash.bytes, .key_bytes = HASH_BYTES, .copies = 2};
        node_id chosen[2];
        uint32_t count;
        assert_int_equal(placement_choose(&options, candidates, 5, chosen, &count), 0);
        load[chosen[0].bytes[0]]++;
        load[chosen[1].bytes[0]]++;
    }
    for (size_t i = 1; i <= 5; i++) {
        assert_in_range(load[i], 300, 500); /* 400 each; six standard deviations are about 90 */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hash_is_blake2b_256),
        cmocka_unit_test(cut_plan_covers_every_byte_once),
        cmocka_unit_test(chunks_begin_at_cuts),
        cmocka_unit_test(small_parts_share_chunks),
        cmocka_unit_test(cuts_that_do_not_ascend_are_refused),
        cmocka_unit_test(chunks_of_many_cuts_double),
        cmocka_unit_test(manifest_round_trip),
        cmocka_unit_test(largest_manifest_fits_into_a_chunk),
        cmocka_unit_test(malformed_manifests_are_refused),
        cmocka_unit_test(mutated_manifests_never_break_the_decoder),
        cmocka_unit_test(fetch_spreads_over_holders_within_the_bound),
        cmocka_unit_test(fetch_asks_another_after_failure_and_gives_up_when_none_is_left),
        cmocka_unit_test(fetch_goes_on_when_a_holder_is_gone),
        cmocka_unit_test(fetch_survives_random_histories),
        cmocka_unit_test(placement_prefers_living_nodes_with_room),
        cmocka_unit_test(placement_spreads_blobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
