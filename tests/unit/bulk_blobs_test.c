/* Blobs are fetched and pushed: whole, though disks lie, peers die and links are slow. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/rendezvous.h"
#include "store/hash.h"
#include "tests/unit/bulk_fixture.h"

static void wait_received(struct world *world, const struct side *side, uint64_t bytes)
{
    uint64_t end_ms = now_ms() + PATIENCE_MS;
    while (received_bytes(side) < bytes) {
        assert_true(now_ms() < end_ms);
        world_turn(world);
    }
}

static void assert_blob(struct side *side, hash256 manifest)
{
    char error[256] = "";
    if (chunks_verify_blob(side->chunks, manifest, NULL, error, sizeof error) != 0) {
        fail_msg("%s", error);
    }
}

static void fetches_around_a_flipped_byte(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0], *b = &world->sides[1], *c = &world->sides[2];
    for (int i = 0; i < 3; i++) {
        side_open(&world->sides[i], 0, NULL);
    }
    befriend(a, c);
    befriend(b, c);
    befriend(a, b);
    hash256 manifest = blob_put(a, 1, BLOB_BYTES);
    assert_true(hash256_equal(manifest, blob_put(b, 1, BLOB_BYTES)));
    /* The first chunk is asked of the holder with the larger weight first: that one's copy is damaged. */
    uint8_t *bytes = blob_bytes(1, BLOB_BYTES);
    hash256 first = hash_bytes(bytes, BLOB_CHUNK_BYTES);
    bool a_is_first = rendezvous_weight(a->keys.id, first.bytes, HASH_BYTES) >
                      rendezvous_weight(b->keys.id, first.bytes, HASH_BYTES);
    struct side *bad = a_is_first ? a : b, *good = a_is_first ? b : a;
    damage(bad, bytes);
    free(bytes);
    node_id holders[] = {a->keys.id, b->keys.id, c->keys.id, {{1, 2, 3}}};
    assert_int_equal(bulk_fetch(c->bulk, 7, manifest, holders, 4), 0);
    wait_ok(world, c, BULK_FETCHED, 7);
    assert_true(find_event(c, BULK_FETCHED, 7)->bytes > BLOB_BYTES);
    assert_blob(c, manifest);
    const struct bulk_event *corrupt = wait_event(world, bad, BULK_CORRUPT, 0);
    assert_true(hash256_equal(corrupt->hash, first));
    assert_true(node_id_equal(corrupt->node, bad->keys.id));
    assert_false(chunks_has(bad->chunks, first));
    assert_null(find_event(good, BULK_CORRUPT, 0));
    assert_null(find_event(c, BULK_CORRUPT, 0));
    struct bulk_statistics of_a, of_b; /* both were used */
    bulk_statistics(a->bulk, &of_a);
    bulk_statistics(b->bulk, &of_b);
    assert_true(of_a.sent_bytes > 2 * MIB && of_b.sent_bytes > 2 * MIB);
    /* The damaged copy is mended by the others, and what is complete is not moved again. */
    assert_int_equal(bulk_fetch(bad->bulk, 8, manifest, holders, 2), 0);
    wait_ok(world, bad, BULK_FETCHED, 8);
    assert_blob(bad, manifest);
    assert_int_equal(find_event(bad, BULK_FETCHED, 8)->bytes, BLOB_CHUNK_BYTES);
    assert_int_equal(bulk_fetch(c->bulk, 9, manifest, NULL, 0), 0);
    wait_ok(world, c, BULK_FETCHED, 9);
    assert_int_equal(find_event(c, BULK_FETCHED, 9)->bytes, 0);
}

static void some_ranges_are_fetched_without_the_rest(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0], *b = &world->sides[1];
    char error[256] = "";
    side_open(a, 0, NULL);
    side_open(b, 0, NULL);
    befriend(a, b);
    hash256 manifest = blob_put(a, 9, BLOB_BYTES), blamed;
    const struct blob_range ranges[] = {{0, 1}, {3 * MIB + 5, 10}, {7 * MIB - 1, 2}, {5 * MIB, 0}};
    assert_int_equal(bulk_fetch_ranges(b->bulk, 1, manifest, &a->keys.id, 1, ranges, 0), ERR_USAGE);
    assert_int_equal(bulk_fetch_ranges(b->bulk, 1, manifest, &a->keys.id, 1, ranges, 4), 0);
    wait_ok(world, b, BULK_FETCHED, 1);
    uint64_t moved = find_event(b, BULK_FETCHED, 1)->bytes;
    assert_in_range(moved, 4 * MIB, 4 * MIB + BLOB_ENCODED_BYTES(BLOB_BYTES / MIB));
    assert_false(chunks_has(b->chunks, manifest)); /* whoever has the manifest has it all */
    uint8_t encoded[BLOB_ENCODED_BYTES(BLOB_BYTES / MIB)], *bytes = blob_bytes(9, BLOB_BYTES), *found = malloc(BLOB_BYTES);
    size_t count;
    assert_non_null(found);
    assert_int_equal(chunks_get(a->chunks, manifest, encoded, sizeof encoded, &count), 0);
    int fd = memfd_create("ranges", 0);
    assert_int_equal(chunks_read_ranges_to_fd(b->chunks, encoded, count, ranges, 4, fd, &blamed, error, sizeof error), 0);
    assert_int_equal(pread(fd, found, BLOB_BYTES, 0), BLOB_BYTES);
    static const uint8_t none[MIB];
    for (uint32_t i = 0; i < BLOB_BYTES / MIB; i++) {
        bool is_wanted = i == 0 || i == 3 || i == 6 || i == 7;
        assert_memory_equal(found + (size_t)i * MIB, is_wanted ? bytes + (size_t)i * MIB : none, MIB);
    }
    const struct blob_range beyond = {12 * MIB, 1};
    assert_int_equal(chunks_read_ranges_to_fd(b->chunks, encoded, count, &beyond, 1, fd, &blamed, error, sizeof error), ERR_NOT_FOUND);
    assert_true(hash256_equal(blamed, hash_bytes(bytes + 12 * MIB, MIB)));
    /* The rest: what is here does not come again, and then the blob is complete. */
    const struct blob_range all = {0, UINT64_MAX};
    assert_int_equal(bulk_fetch_ranges(b->bulk, 2, manifest, &a->keys.id, 1, &all, 1), 0);
    wait_ok(world, b, BULK_FETCHED, 2);
    assert_in_range(find_event(b, BULK_FETCHED, 2)->bytes, 16 * MIB, 16 * MIB + BLOB_ENCODED_BYTES(BLOB_BYTES / MIB));
    assert_blob(b, manifest);
    (void)close(fd);
    free(bytes);
    free(found);
}

static void a_local_reader_can_have_a_chunk_looked_at(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0];
    side_open(a, 0, NULL);
    hash256 manifest = blob_put(a, 2, 2 * MIB);
    uint8_t *bytes = blob_bytes(2, 2 * MIB);
    hash256 first = hash_bytes(bytes, MIB), second = hash_bytes(bytes + MIB, MIB);
    damage(a, bytes + MIB);
    free(bytes);
    assert_int_equal(bulk_discard(a->bulk, first), 0);
    assert_int_equal(bulk_discard(a->bulk, second), 0);
    assert_true(hash256_equal(wait_event(world, a, BULK_CORRUPT, 0)->hash, second));
    assert_true(chunks_has(a->chunks, first));
    assert_false(chunks_has(a->chunks, second));
    assert_int_equal(bulk_fetch(a->bulk, 1, manifest, NULL, 0), 0);
    assert_int_equal(wait_event(world, a, BULK_FETCHED, 1)->code, ERR_NOT_FOUND);
    assert_int_equal(bulk_push(a->bulk, 2, manifest, a->keys.id), 0);
    assert_int_equal(wait_event(world, a, BULK_PUSHED, 2)->code, ERR_NOT_FOUND);
}

static void a_holder_may_die_in_the_middle(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0], *b = &world->sides[1], *c = &world->sides[2];
    side_open(a, 8 * MIB, NULL);
    side_open(b, 2 * MIB, NULL);
    side_open(c, 0, NULL);
    befriend(a, c);
    befriend(b, c);
    hash256 manifest = blob_put(a, 3, BLOB_BYTES);
    (void)blob_put(b, 3, BLOB_BYTES);
    node_id holders[] = {b->keys.id, a->keys.id};
    assert_int_equal(bulk_fetch(c->bulk, 1, manifest, holders, 2), 0);
    wait_received(world, c, 3 * MIB);
    assert_null(find_event(c, BULK_FETCHED, 1));
    bulk_stop(&b->bulk);
    wait_ok(world, c, BULK_FETCHED, 1);
    assert_blob(c, manifest);
}

static void a_fetch_goes_on_where_it_stopped(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0], *c = &world->sides[1];
    side_open(a, 4 * MIB, NULL);
    side_open(c, 0, NULL);
    befriend(a, c);
    hash256 manifest = blob_put(a, 4, BLOB_BYTES / 2);
    assert_int_equal(bulk_fetch(c->bulk, 1, manifest, &a->keys.id, 1), 0);
    wait_received(world, c, 3 * MIB);
    assert_int_equal(bulk_peer(c->bulk, a->keys.id, a->keys.sign_public, "", 0), 0);
    assert_int_equal(wait_event(world, c, BULK_FETCHED, 1)->code, ERR_NOT_FOUND);
    assert_false(chunks_has(c->chunks, manifest)); /* whoever has the manifest has it all */
    introduce(c, a);
    assert_int_equal(bulk_fetch(c->bulk, 2, manifest, &a->keys.id, 1), 0);
    wait_ok(world, c, BULK_FETCHED, 2);
    assert_true(find_event(c, BULK_FETCHED, 2)->bytes < BLOB_BYTES / 2 - 2 * MIB);
    assert_blob(c, manifest);
}

static void a_push_sends_what_the_peer_lacks(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0], *b = &world->sides[1];
    side_open(a, 8 * MIB, NULL);
    side_open(b, 0, NULL);
    befriend(a, b);
    hash256 manifest = blob_put(a, 5, BLOB_BYTES);
    assert_int_equal(bulk_push(a->bulk, 1, manifest, b->keys.id), 0);
    wait_received(world, b, 4 * MIB);
    assert_int_equal(bulk_peer(a->bulk, b->keys.id, b->keys.sign_public, "", 0), 0);
    assert_int_equal(wait_event(world, a, BULK_PUSHED, 1)->code, ERR_CLOSED);
    assert_false(chunks_has(b->chunks, manifest));
    assert_int_equal(bulk_push(a->bulk, 2, manifest, b->keys.id), 0);
    assert_int_equal(wait_event(world, a, BULK_PUSHED, 2)->code, ERR_NOT_FOUND); /* it is not known any more */
    introduce(a, b);
    assert_int_equal(bulk_push(a->bulk, 3, manifest, b->keys.id), 0);
    wait_ok(world, a, BULK_PUSHED, 3);
    assert_true(find_event(a, BULK_PUSHED, 3)->bytes < BLOB_BYTES - 2 * MIB);
    assert_blob(b, manifest);
    assert_int_equal(bulk_push(a->bulk, 4, manifest, b->keys.id), 0);
    wait_ok(world, a, BULK_PUSHED, 4);
    assert_true(find_event(a, BULK_PUSHED, 4)->bytes < 4096); /* the manifest */
    assert_int_equal(bulk_push(a->bulk, 5, (hash256){{9}}, b->keys.id), 0);
    assert_int_equal(wait_event(world, a, BULK_PUSHED, 5)->code, ERR_NOT_FOUND);
    hash256 empty = blob_put(a, 6, 0);
    assert_int_equal(bulk_push(a->bulk, 6, empty, b->keys.id), 0);
    wait_ok(world, a, BULK_PUSHED, 6);
    assert_blob(b, empty);
}

/* What the transfer took longer for than chunks are kept that nobody asks for. */
static void collect_all(struct side *side)
{
    struct chunks_collected collected;
    assert_int_equal(chunks_collect(side->chunks, NULL, 0, 0, &collected), 0);
    assert_true(collected.chunks > 0);
}

static void what_is_collected_in_the_middle_of_a_push_is_sent_again(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0], *b = &world->sides[1];
    side_open(a, 16 * MIB, NULL);
    side_open(b, 0, NULL);
    befriend(a, b);
    hash256 manifest = blob_put(a, 30, BLOB_BYTES);
    assert_int_equal(bulk_push(a->bulk, 1, manifest, b->keys.id), 0);
    wait_received(world, b, 6 * MIB);
    collect_all(b);
    wait_ok(world, a, BULK_PUSHED, 1);
    assert_true(received_bytes(b) > BLOB_BYTES + 2 * MIB);
    assert_blob(b, manifest);
    uint8_t *encoded = malloc(BLOB_CHUNK_BYTES_MAX);
    size_t encoded_bytes;
    assert_int_equal(chunks_get(b->chunks, manifest, encoded, BLOB_CHUNK_BYTES_MAX, &encoded_bytes), 0);
    free(encoded);
    assert_int_equal(received_bytes(b) % MIB, encoded_bytes); /* sent once, when all else was there */
}

static void what_is_collected_in_the_middle_of_a_fetch_is_fetched_again(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0], *c = &world->sides[1];
    side_open(a, 16 * MIB, NULL);
    side_open(c, 0, NULL);
    befriend(a, c);
    hash256 manifest = blob_put(a, 31, BLOB_BYTES);
    assert_int_equal(bulk_fetch(c->bulk, 1, manifest, &a->keys.id, 1), 0);
    wait_received(world, c, 6 * MIB);
    collect_all(c);
    wait_ok(world, c, BULK_FETCHED, 1);
    assert_blob(c, manifest);
}

static void a_push_finds_its_own_copy_damaged(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0], *b = &world->sides[1];
    side_open(a, 0, NULL);
    side_open(b, 0, NULL);
    befriend(a, b);
    hash256 manifest = blob_put(a, 7, 4 * MIB);
    uint8_t *bytes = blob_bytes(7, 4 * MIB);
    damage(a, bytes + 2 * MIB);
    free(bytes);
    assert_int_equal(bulk_push(a->bulk, 1, manifest, b->keys.id), 0);
    assert_int_equal(wait_event(world, a, BULK_PUSHED, 1)->code, ERR_CORRUPT);
    assert_true(node_id_equal(wait_event(world, a, BULK_CORRUPT, 0)->node, a->keys.id));
    assert_false(chunks_has(b->chunks, manifest));
}

static void dead_peers_hold_up_nobody(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0], *b = &world->sides[1];
    side_open(a, 0, NULL);
    side_open(b, 0, NULL);
    befriend(a, b);
    hash256 manifest = blob_put(a, 8, 2 * MIB);
    int deaf = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* its kernel answers, nobody else does */
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    assert_true(deaf >= 0 && bind(deaf, (struct sockaddr *)&at, sizeof at) == 0 && listen(deaf, 16) == 0 &&
                getsockname(deaf, (struct sockaddr *)&at, &bytes) == 0);
    for (uint64_t i = 0; i < 3; i++) { /* more than are worked on at a time, all before the one that can succeed */
        struct keys dead;
        keys_create(&dead);
        assert_int_equal(bulk_peer(a->bulk, dead.id, dead.sign_public, "127.0.0.1", ntohs(at.sin_port)), 0);
        for (uint64_t k = 0; k < 10; k++) {
            assert_int_equal(bulk_push(a->bulk, 100 + 10 * i + k, manifest, dead.id), 0);
        }
    }
    assert_int_equal(bulk_push(a->bulk, 1, manifest, b->keys.id), 0);
    wait_ok(world, a, BULK_PUSHED, 1);
    assert_null(find_event(a, BULK_PUSHED, 100));
    for (uint64_t i = 0; i < 30; i++) {
        assert_int_equal(wait_event(world, a, BULK_PUSHED, 100 + i)->code, ERR_TIMEOUT);
    }
    assert_int_equal(close(deaf), 0);
}

/* What waits behind requests that all time out together starts then, and not when somebody asks for something else. */
static void what_waits_behind_dead_peers_starts_when_they_are_given_up(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0], *b = &world->sides[1];
    side_open(a, 0, NULL);
    side_open(b, 0, NULL);
    befriend(a, b);
    hash256 manifest = blob_put(a, 9, MIB);
    int deaf = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* its kernel answers, nobody else does */
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    assert_true(deaf >= 0 && bind(deaf, (struct sockaddr *)&at, sizeof at) == 0 && listen(deaf, 16) == 0 &&
                getsockname(deaf, (struct sockaddr *)&at, &bytes) == 0);
    for (uint64_t i = 0; i < BULK_ACTIVE_MAX / BULK_ACTIVE_PEER; i++) { /* all places are theirs */
        struct keys dead;
        keys_create(&dead);
        assert_int_equal(bulk_peer(a->bulk, dead.id, dead.sign_public, "127.0.0.1", ntohs(at.sin_port)), 0);
        for (uint64_t k = 0; k < BULK_ACTIVE_PEER; k++) {
            assert_int_equal(bulk_push(a->bulk, 100 + BULK_ACTIVE_PEER * i + k, manifest, dead.id), 0);
        }
    }
    assert_int_equal(bulk_push(a->bulk, 1, manifest, b->keys.id), 0);
    wait_ok(world, a, BULK_PUSHED, 1);
    for (uint64_t i = 0; i < BULK_ACTIVE_MAX; i++) {
        assert_int_equal(wait_event(world, a, BULK_PUSHED, 100 + i)->code, ERR_TIMEOUT);
    }
    assert_int_equal(close(deaf), 0);
}

static void many_requests_at_once(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0], *b = &world->sides[1];
    side_open(a, 0, NULL);
    side_open(b, 0, NULL);
    befriend(a, b);
    hash256 manifests[20];
    for (uint64_t i = 0; i < 20; i++) {
        manifests[i] = blob_put(a, 300 + i, MIB + 4096 * (size_t)i); /* takes seconds under ThreadSanitizer, and nobody turns */
    }
    for (uint64_t i = 0; i < 20; i++) {
        assert_int_equal(bulk_fetch(b->bulk, 1 + i, manifests[i], &a->keys.id, 1), 0);
        assert_int_equal(bulk_push(a->bulk, 1 + i, manifests[i], b->keys.id), 0);
    }
    for (uint64_t i = 0; i < 20; i++) {
        wait_ok(world, b, BULK_FETCHED, 1 + i);
        wait_ok(world, a, BULK_PUSHED, 1 + i);
        assert_blob(b, manifests[i]);
    }
    int refused = 0; /* what nobody takes the answers of is bounded */
    for (uint64_t i = 0; i < BULK_REQUESTS_MAX + 10; i++) {
        refused += bulk_push(a->bulk, 1000 + i, (hash256){{1}}, b->keys.id) == ERR_FULL;
    }
    assert_int_equal(refused, 10);
    bulk_stop(&a->bulk); /* with all of them waiting */
}

static void the_bandwidth_is_capped(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0], *b = &world->sides[1];
    side_open(a, 2 * MIB, NULL);
    side_open(b, 0, NULL);
    befriend(a, b);
    hash256 manifest = blob_put(a, 9, 4 * MIB);
    uint64_t begin_ms = now_ms();
    assert_int_equal(bulk_fetch(b->bulk, 1, manifest, &a->keys.id, 1), 0);
    wait_ok(world, b, BULK_FETCHED, 1);
    assert_true(now_ms() - begin_ms > 1200); /* 4 MiB less the last chunk less a quarter second's worth, at 2 MiB/s */
}

static void idle_connections_close(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0], *b = &world->sides[1];
    side_open(a, 0, NULL);
    side_open(b, 0, NULL);
    bulk_stop(&a->bulk);
    bulk_open(a, 0, 300);
    befriend(a, b);
    hash256 manifest = blob_put(a, 10, 2 * MIB);
    struct bulk_statistics statistics;
    for (uint64_t round = 1; round <= 2; round++) {
        assert_int_equal(bulk_push(a->bulk, round, manifest, b->keys.id), 0);
        wait_ok(world, a, BULK_PUSHED, round);
        bulk_statistics(a->bulk, &statistics);
        assert_int_equal(statistics.connections, 1);
        for (uint64_t end_ms = now_ms() + PATIENCE_MS; statistics.connections > 0; bulk_statistics(a->bulk, &statistics)) {
            assert_true(now_ms() < end_ms);
            world_turn(world);
        }
    }
}

static void a_full_disk_is_said_so(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0], *b = &world->sides[1];
    if (!side_open(b, 0, "size=8m")) {
        print_message("skipped: a tmpfs cannot be mounted on %s: %s\n", b->dir, strerror(errno));
        skip();
    }
    side_open(a, 0, NULL);
    befriend(a, b);
    hash256 manifest = blob_put(a, 11, BLOB_BYTES);
    assert_int_equal(bulk_push(a->bulk, 1, manifest, b->keys.id), 0);
    assert_int_equal(wait_event(world, a, BULK_PUSHED, 1)->code, ERR_NO_SPACE);
    assert_int_equal(wait_event(world, b, BULK_STORE_FAILED, 0)->code, ERR_NO_SPACE);
    assert_null(find_event(a, BULK_STORE_FAILED, 0));
    assert_int_equal(bulk_fetch(b->bulk, 2, manifest, &a->keys.id, 1), 0);
    assert_int_equal(wait_event(world, b, BULK_FETCHED, 2)->code, ERR_NO_SPACE);
    assert_false(chunks_has(b->chunks, manifest));
}

static void strangers_are_refused(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0], *stranger = &world->sides[1];
    side_open(a, 0, NULL);
    side_open(stranger, 0, NULL);
    introduce(stranger, a); /* but nobody admitted it */
    hash256 manifest = blob_put(a, 12, 2 * MIB);
    hash256 theirs = blob_put(stranger, 13, 2 * MIB);
    assert_int_equal(bulk_fetch(stranger->bulk, 1, manifest, &a->keys.id, 1), 0);
    assert_int_equal(bulk_push(stranger->bulk, 2, theirs, a->keys.id), 0);
    assert_int_equal(bulk_series_fetch(stranger->bulk, 3, "s", 1, 0, a->keys.id), 0);
    assert_int_equal(wait_event(world, stranger, BULK_FETCHED, 1)->code, ERR_NOT_FOUND);
    assert_int_equal(wait_event(world, stranger, BULK_PUSHED, 2)->code, ERR_TIMEOUT);
    assert_int_equal(wait_event(world, stranger, BULK_SERIES, 3)->code, ERR_TIMEOUT);
    assert_int_equal(received_bytes(a), 0);
    struct zap_statistics statistics;
    zap_statistics(a->zap, &statistics);
    assert_true(statistics.refused > 0);
    assert_int_equal(statistics.admitted, 0);
    /* Once admitted the same works; once evicted it does no more, over the open connection either. */
    assert_int_equal(zap_admit_member(a->zap, stranger->keys.curve_public, stranger->keys.id), 0);
    assert_int_equal(bulk_push(stranger->bulk, 4, theirs, a->keys.id), 0);
    wait_ok(world, stranger, BULK_PUSHED, 4);
    assert_int_equal(zap_evict(a->zap, stranger->keys.curve_public, ZAP_MEMBER), 0);
    assert_int_equal(bulk_fetch(stranger->bulk, 5, manifest, &a->keys.id, 1), 0);
    assert_int_equal(wait_event(world, stranger, BULK_FETCHED, 5)->code, ERR_NOT_FOUND);
    assert_int_equal(bulk_port(a->bulk) > 0, 1);
}

/* The daemon names the port to its users, until something comes through. */
static void a_port_that_leads_nowhere_is_told_and_so_is_its_end(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0], *b = &world->sides[1];
    side_open(a, 0, NULL);
    side_open(b, 0, NULL);
    befriend(a, b);
    int deaf = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* has a port, and does not listen */
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    assert_true(deaf >= 0 && bind(deaf, (struct sockaddr *)&at, sizeof at) == 0 &&
                getsockname(deaf, (struct sockaddr *)&at, &bytes) == 0);
    assert_int_equal(bulk_peer(a->bulk, b->keys.id, b->keys.sign_public, "127.0.0.1", ntohs(at.sin_port)), 0);
    assert_int_equal(bulk_series_fetch(a->bulk, 1, "s", 1, 0, b->keys.id), 0);
    const struct bulk_event *told = wait_event(world, a, BULK_WAY, 0);
    assert_true(node_id_equal(told->node, b->keys.id));
    assert_int_equal(told->way, BULK_WAY_CLOSED);
    assert_int_equal(wait_event(world, a, BULK_SERIES, 1)->code, ERR_TIMEOUT);
    assert_int_equal(close(deaf), 0);
    a->seen_count = 0;
    introduce(a, b);
    assert_int_equal(bulk_series_fetch(a->bulk, 2, "s", 1, 0, b->keys.id), 0);
    wait_ok(world, a, BULK_SERIES, 2);
    assert_int_equal(wait_event(world, a, BULK_WAY, 0)->way, BULK_WAY_GOOD);
}

static void wrong_addresses_are_refused(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0];
    side_open(a, 0, NULL);
    static const char *const listens[] = {"", "127.0.0.1", "localhost:0", "127.0.0.1:", "127.0.0.1:99999", "::1:0", ":5"};
    for (size_t i = 0; i < sizeof listens / sizeof listens[0]; i++) {
        char error[256] = "";
        struct bulk *bulk = NULL;
        struct bulk_options options = {.context = a->context, .zap = a->zap, .keys = &a->keys, .listen = listens[i],
                                       .chunks = a->chunks};
        assert_int_equal(bulk_start(&options, &bulk, error), ERR_USAGE);
        assert_true(strlen(error) > 20);
        assert_null(bulk);
    }
    char error[256] = "", taken[32];
    (void)snprintf(taken, sizeof taken, "127.0.0.1:%u", bulk_port(a->bulk));
    struct bulk *bulk = NULL;
    struct bulk_options options = {.context = a->context, .zap = a->zap, .keys = &a->keys, .listen = taken,
                                   .chunks = a->chunks};
    assert_int_equal(bulk_start(&options, &bulk, error), ERR_EXISTS);
    assert_int_equal(bulk_peer(a->bulk, (node_id){{1}}, a->keys.sign_public, "localhost", 80), ERR_USAGE);
    assert_int_equal(bulk_peer(a->bulk, (node_id){{1}}, a->keys.sign_public, "*", 80), ERR_USAGE);
    assert_int_equal(bulk_peer(a->bulk, (node_id){{1}}, a->keys.sign_public, "fe80::1", 80), 0);
}

int main(void)
{
    if (keys_start() != 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        TEST(a_port_that_leads_nowhere_is_told_and_so_is_its_end),
        TEST(wrong_addresses_are_refused),
        TEST(fetches_around_a_flipped_byte),
        TEST(some_ranges_are_fetched_without_the_rest),
        TEST(a_local_reader_can_have_a_chunk_looked_at),
        TEST(a_holder_may_die_in_the_middle),
        TEST(a_fetch_goes_on_where_it_stopped),
        TEST(a_push_sends_what_the_peer_lacks),
        TEST(what_is_collected_in_the_middle_of_a_push_is_sent_again),
        TEST(what_is_collected_in_the_middle_of_a_fetch_is_fetched_again),
        TEST(a_push_finds_its_own_copy_damaged),
        TEST(dead_peers_hold_up_nobody),
        TEST(what_waits_behind_dead_peers_starts_when_they_are_given_up),
        TEST(many_requests_at_once),
        TEST(the_bandwidth_is_capped),
        TEST(idle_connections_close),
        TEST(a_full_disk_is_said_so),
        TEST(strangers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
