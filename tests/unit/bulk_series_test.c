/* Series reach the nodes that keep copies of them, and are read back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/bulk/wire.h"
#include "tests/unit/bulk_fixture.h"

static void append(struct side *side, const char *prefix, uint64_t sequence, const char *text, const node_id *to,
                   uint32_t to_count)
{
    assert_int_equal(bulk_series_append(side->bulk, prefix, strlen(prefix), sequence, text, strlen(text), to, to_count), 0);
}

/* Asks a node again and again until it has `count` entries of a series. */
static void wait_series(struct world *world, struct side *asker, uint64_t *id, const char *prefix, uint64_t from,
                        const struct side *holder, uint32_t count)
{
    uint64_t end_ms = now_ms() + PATIENCE_MS;
    const struct bulk_event *event;
    do {
        assert_true(now_ms() < end_ms);
        asker->seen_count = 0;
        assert_int_equal(bulk_series_fetch(asker->bulk, ++*id, prefix, strlen(prefix), from, holder->keys.id), 0);
        event = wait_event(world, asker, BULK_SERIES, *id);
        assert_int_equal(event->code, 0);
    } while (event->item_count < count);
    assert_int_equal(event->item_count, count);
    assert_false(event->more);
}

static void series_reach_all_copies(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0], *b = &world->sides[1], *c = &world->sides[2];
    for (int i = 0; i < 3; i++) {
        side_open(&world->sides[i], 0, NULL);
    }
    befriend(a, b);
    befriend(a, c);
    befriend(b, c);
    uint64_t id = 0;
    node_id to[] = {b->keys.id, c->keys.id};
    append(a, "loss", 1, "one", to, 2);
    append(a, "loss", 2, "two", to, 2);
    append(a, "lossy", 1, "other", to, 1);
    append(a, "loss", 4, "four", to, 2);
    wait_series(world, a, &id, "loss", 0, b, 3);
    wait_series(world, b, &id, "loss", 0, c, 3);
    assert_int_equal(b->last_sequences[2], 4);
    assert_int_equal(b->last_item_bytes[2], 4);
    assert_memory_equal(b->last_items[2], "four", 4);
    wait_series(world, c, &id, "loss", 2, b, 2);
    wait_series(world, c, &id, "loss", 5, b, 0);
    wait_series(world, a, &id, "loss", 0, a, 3); /* its own */
    wait_series(world, a, &id, "lossy", 0, b, 1);
    /* What comes late goes to its place, and what comes twice changes nothing. */
    append(a, "loss", 3, "three", to, 2);
    append(a, "loss", 2, "TWO", to, 2);
    append(a, "loss", 5, "five", to, 2);
    wait_series(world, a, &id, "loss", 0, b, 5);
    assert_memory_equal(a->last_items[1], "two", 3);
    assert_memory_equal(a->last_items[2], "three", 5);
    wait_series(world, a, &id, "loss", 0, c, 5);
    assert_memory_equal(a->last_items[1], "two", 3);
    /* A copy that was away gets what it missed, once it is back at another port. */
    bulk_stop(&b->bulk);
    append(a, "loss", 6, "six", to, 2);
    append(a, "loss", 7, "seven", to, 2);
    wait_series(world, a, &id, "loss", 0, c, 7);
    bulk_open(b, 0, 0);
    introduce(b, a);
    introduce(a, b);
    wait_series(world, a, &id, "loss", 0, b, 7);
    assert_memory_equal(a->last_items[6], "seven", 5);
    assert_int_equal(bulk_series_fetch(a->bulk, 900, "x", 1, 0, (node_id){{77}}), 0);
    assert_int_equal(wait_event(world, a, BULK_SERIES, 900)->code, ERR_NOT_FOUND);
    assert_int_equal(bulk_series_fetch(a->bulk, 901, "x", 0, 0, b->keys.id), ERR_USAGE);
}

static void what_was_appended_before_is_stored_when_a_read_is_answered(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0];
    side_open(a, 0, NULL);
    for (uint64_t i = 1; i <= 200; i++) {
        uint64_t last = 0;
        a->seen_count = 0;
        append(a, "loss", i, "entry", NULL, 0);
        assert_int_equal(bulk_series_fetch(a->bulk, i, "loss", 4, UINT64_MAX, a->keys.id), 0);
        assert_int_equal(wait_event(world, a, BULK_SERIES, i)->code, 0);
        assert_int_equal(series_last(a->chunks, "loss", 4, &last), 0);
        assert_int_equal(last, i);
    }
}

static void a_read_of_ones_own_waits_for_no_transfer(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0], *b = &world->sides[1];
    side_open(a, 0, NULL);
    side_open(b, 0, NULL);
    befriend(a, b);
    bulk_stop(&b->bulk);
    for (uint64_t i = 1; i <= 2 * BULK_ACTIVE_MAX; i++) {
        hash256 nobody_has = {{(uint8_t)i}};
        assert_int_equal(bulk_fetch(a->bulk, i, nobody_has, &b->keys.id, 1), 0);
    }
    append(a, "loss", 1, "entry", NULL, 0);
    assert_int_equal(bulk_series_fetch(a->bulk, 1000, "loss", 4, 0, a->keys.id), 0);
    assert_int_equal(wait_event(world, a, BULK_SERIES, 1000)->item_count, 1);
    assert_int_equal(a->seen_count, 1);
}

static void long_series_come_in_pieces(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0], *b = &world->sides[1];
    side_open(a, 0, NULL);
    side_open(b, 0, NULL);
    befriend(a, b);
    char *text = malloc(SERIES_ENTRY_BYTES_MAX);
    assert_non_null(text);
    memset(text, 'x', SERIES_ENTRY_BYTES_MAX);
    for (uint64_t i = 0; i < 40; i++) {
        assert_int_equal(bulk_series_append(a->bulk, "log", 3, i, text, i == 20 ? SERIES_ENTRY_BYTES_MAX : 50000,
                                            &b->keys.id, 1), 0);
    }
    free(text);
    uint64_t end_ms = now_ms() + PATIENCE_MS, last = 0;
    while (series_last(b->chunks, "log", 3, &last) != 0 || last != 39) {
        assert_true(now_ms() < end_ms);
        world_turn(world);
    }
    uint64_t from = 0, pieces = 0;
    const struct bulk_event *event;
    do {
        assert_int_equal(bulk_series_fetch(a->bulk, ++pieces, "log", 3, from, b->keys.id), 0);
        event = wait_event(world, a, BULK_SERIES, pieces);
        assert_int_equal(event->code, 0);
        assert_true(event->item_count >= 1);
        assert_int_equal(a->last_sequences[0], from);
        from += event->item_count;
    } while (event->more);
    assert_int_equal(from, 40);
    assert_true(pieces > 8);
}

/* Takes an APPEND at a peer that the test plays, checks its first entry, and leaves its routing id and tag. */
static void take_append(struct world *world, void *router, uint64_t first, uint8_t routing_id[32], int *routing_bytes,
                        uint32_t *tag)
{
    uint8_t head[256], body[4096];
    for (uint64_t end_ms = now_ms() + PATIENCE_MS;
         (*routing_bytes = zmq_recv(router, routing_id, 32, ZMQ_DONTWAIT)) < 0; world_turn(world)) {
        assert_true(now_ms() < end_ms);
    }
    int head_bytes = zmq_recv(router, head, sizeof head, 0), body_bytes = zmq_recv(router, body, sizeof body, 0);
    struct bulk_message message;
    assert_int_equal(bulk_wire_decode(head, (size_t)head_bytes, body, (size_t)body_bytes, &message), 0);
    assert_int_equal(message.kind, BULK_APPEND);
    struct pack_reader reader;
    pack_reader_init(&reader, message.body, message.body_bytes);
    uint64_t sequence;
    const uint8_t *bytes;
    size_t count;
    assert_true(bulk_wire_entry_read(&reader, &sequence, &bytes, &count));
    assert_int_equal(sequence, first);
    *tag = message.tag;
}

static void answer_append(void *router, const uint8_t *routing_id, int routing_bytes, uint32_t tag)
{
    uint8_t head[64];
    size_t count;
    struct bulk_message stored = {.kind = BULK_STATUS, .tag = tag, .status = BULK_STORED};
    assert_int_equal(bulk_wire_encode(&stored, head, sizeof head, &count), 0);
    assert_int_equal(zmq_send(router, routing_id, (size_t)routing_bytes, ZMQ_SNDMORE), routing_bytes);
    assert_int_equal(zmq_send(router, head, count, 0), (int)count);
}

static void an_entry_behind_the_ones_under_way_is_sent(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0];
    side_open(a, 0, NULL);
    struct keys keys;
    void *context = zmq_ctx_new(), *router = pretender_open(a, &keys, context);
    uint8_t routing_id[32];
    int routing_bytes;
    uint32_t tag;
    append(a, "s", 10, "ten", &keys.id, 1);
    take_append(world, router, 10, routing_id, &routing_bytes, &tag);
    append(a, "s", 5, "five", &keys.id, 1); /* while 10 is not confirmed */
    uint64_t id = 0;
    wait_series(world, a, &id, "s", 0, a, 2);
    answer_append(router, routing_id, routing_bytes, tag);
    take_append(world, router, 5, routing_id, &routing_bytes, &tag);
    append(a, "s", 11, "eleven", &keys.id, 1);
    wait_series(world, a, &id, "s", 0, a, 3);
    answer_append(router, routing_id, routing_bytes, tag);
    take_append(world, router, 11, routing_id, &routing_bytes, &tag); /* 5 and 10 are confirmed */
    answer_append(router, routing_id, routing_bytes, tag);
    assert_int_equal(zmq_close(router), 0);
    assert_int_equal(zmq_ctx_term(context), 0);
}

int main(void)
{
    if (keys_start() != 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        TEST(series_reach_all_copies),
        TEST(what_was_appended_before_is_stored_when_a_read_is_answered),
        TEST(a_read_of_ones_own_waits_for_no_transfer),
        TEST(an_entry_behind_the_ones_under_way_is_sent),
        TEST(long_series_come_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
