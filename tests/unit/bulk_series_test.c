/* Series reach the nodes that keep copies of them, and are read back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/random.h"
#include "node/bulk/wire.h"
#include "tests/unit/bulk_fixture.h"

static atomic_bool is_asleep; /* a thread has begun to wait without an end; world_turn never does */

int __real_zmq_poll(zmq_pollitem_t *items, int count, long timeout_ms);
int __wrap_zmq_poll(zmq_pollitem_t *items, int count, long timeout_ms);

int __wrap_zmq_poll(zmq_pollitem_t *items, int count, long timeout_ms)
{
    if (timeout_ms < 0) {
        atomic_store(&is_asleep, true);
    }
    return __real_zmq_poll(items, count, timeout_ms);
}

static void append(struct side *side, const char *prefix, uint64_t sequence, const char *text, const node_id *to,
                   uint32_t to_count)
{
    assert_int_equal(bulk_series_append(side->bulk, 0, prefix, strlen(prefix), sequence, text, strlen(text), to, to_count), 0);
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

static void a_copy_gets_what_came_while_it_was_none(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0], *b = &world->sides[1], *c = &world->sides[2];
    for (int i = 0; i < 3; i++) {
        side_open(&world->sides[i], 0, NULL);
    }
    befriend(a, b);
    befriend(a, c);
    uint64_t id = 0;
    append(a, "loss", 1, "one", NULL, 0);
    append(a, "loss", 2, "two", &b->keys.id, 1);
    wait_series(world, a, &id, "loss", 0, b, 2);
    append(a, "loss", 3, "three", &c->keys.id, 1);
    wait_series(world, a, &id, "loss", 0, c, 3);
    append(a, "loss", 4, "four", NULL, 0);
    append(a, "loss", 5, "five", &b->keys.id, 1);
    wait_series(world, a, &id, "loss", 0, b, 5);
    assert_memory_equal(a->last_items[2], "three", 5);
    /* The peer is gone while an entry waits for it. */
    bulk_stop(&b->bulk);
    append(a, "loss", 6, "six", &b->keys.id, 1);
    assert_int_equal(bulk_peer(a->bulk, b->keys.id, b->keys.sign_public, "127.0.0.1", 0), 0);
    bulk_open(b, 0, 0);
    befriend(a, b);
    append(a, "loss", 7, "seven", &b->keys.id, 1);
    wait_series(world, a, &id, "loss", 0, b, 7);
    assert_memory_equal(a->last_items[5], "six", 3);
}

static atomic_uint stored_count; /* entries that a hook was told of */

static void count_stored(void *context, struct chunks *chunks, const struct series_entry *entries, size_t count)
{
    (void)context;
    (void)chunks;
    (void)entries;
    atomic_fetch_add(&stored_count, (unsigned)count);
}

/* Answers with the question, behind the number that it began at. */
static int echo(void *context, struct chunks *chunks, const uint8_t *prefix, size_t prefix_bytes, uint64_t from_sequence, const uint8_t *question,
                size_t question_bytes, size_t bytes_max, struct pack_writer *out, bool *more)
{
    (void)context;
    (void)chunks;
    (void)bytes_max;
    if (prefix_bytes != 4 || memcmp(prefix, "loss", 4) != 0) {
        return ERR_MALFORMED;
    }
    bulk_wire_entry_write(out, from_sequence + 1, question, question_bytes);
    *more = from_sequence == 0;
    return 0;
}

static void a_node_answers_questions_about_a_series_that_it_holds(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0], *b = &world->sides[1], *old = &world->sides[2];
    a->series = b->series = (struct bulk_series_hooks){.stored = count_stored, .answer = echo};
    atomic_store(&stored_count, 0);
    for (int i = 0; i < 3; i++) {
        side_open(&world->sides[i], 0, NULL);
    }
    befriend(a, b);
    befriend(a, old);
    uint64_t id = 0;
    append(a, "loss", 1, "one", &b->keys.id, 1);
    append(a, "loss", 2, "two", &b->keys.id, 1);
    wait_series(world, a, &id, "loss", 0, b, 2);
    assert_int_equal(atomic_load(&stored_count), 4); /* on both nodes */
    for (int round = 0; round < 2; round++) { /* another node, then itself */
        node_id node = round == 0 ? b->keys.id : a->keys.id;
        a->seen_count = 0;
        assert_int_equal(bulk_series_ask(a->bulk, ++id, "loss", 4, 7, "what", 4, node), 0);
        const struct bulk_event *event = wait_event(world, a, BULK_SERIES, id);
        assert_int_equal(event->code, 0);
        assert_int_equal(event->item_count, 1);
        assert_false(event->more);
        assert_int_equal(a->last_sequences[0], 8);
        assert_int_equal(a->last_item_bytes[0], 4);
        assert_memory_equal(a->last_items[0], "what", 4);
        assert_int_equal(bulk_series_ask(a->bulk, ++id, "loss", 4, 0, "more", 4, node), 0);
        assert_true(wait_event(world, a, BULK_SERIES, id)->more);
        assert_int_equal(bulk_series_ask(a->bulk, ++id, "lost", 4, 0, "what", 4, node), 0);
        assert_int_not_equal(wait_event(world, a, BULK_SERIES, id)->code, 0);
    }
    assert_int_equal(bulk_series_ask(a->bulk, ++id, "loss", 4, 0, "what", 4, old->keys.id), 0);
    assert_int_equal(wait_event(world, a, BULK_SERIES, id)->code, ERR_VERSION);
    static const char large[BULK_WIRE_QUESTION_BYTES_MAX + 1];
    assert_int_equal(bulk_series_ask(a->bulk, ++id, "loss", 4, 0, large, sizeof large, b->keys.id), ERR_USAGE);
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

/* One event stands for all entries of a transaction, and none is told of before. */
static void an_entry_is_on_the_disk_when_its_event_comes(void **state)
{
    enum { ROUNDS = 40 };
    struct world *world = *state;
    struct side *a = &world->sides[0];
    side_open(a, 0, NULL);
    uint64_t appended = 0, told = 0, last = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < SEEN_MAX; i++) {
            appended++;
            assert_int_equal(bulk_series_append(a->bulk, appended, "loss", 4, appended, "entry", 5, NULL, 0), 0);
        }
        for (uint64_t end_ms = now_ms() + PATIENCE_MS; told < appended;) {
            assert_true(now_ms() < end_ms);
            a->seen_count = 0;
            world_turn(world);
            for (size_t i = 0; i < a->seen_count; i++) {
                assert_int_equal(a->seen[i].kind, BULK_APPENDED);
                assert_int_equal(a->seen[i].code, 0);
                assert_true(a->seen[i].id > told);
                told = a->seen[i].id;
                assert_int_equal(series_last(a->chunks, "loss", 4, &last), 0);
                assert_true(last >= told);
            }
        }
    }
    assert_int_equal(told, appended);
}

static void an_entry_that_a_full_disk_refuses_is_told_of(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0];
    if (!side_open(a, 0, "size=8m")) {
        print_message("skipped: a tmpfs cannot be mounted on %s\n", a->dir);
        skip();
    }
    char *text = calloc(1, SERIES_ENTRY_BYTES_MAX);
    assert_non_null(text);
    struct random random;
    random_init(&random, 1);
    for (size_t i = 0; i < SERIES_ENTRY_BYTES_MAX; i++) { /* nothing that can be packed */
        text[i] = (char)random_below(&random, 256);
    }
    const struct bulk_event *event;
    uint64_t id = 0;
    do {
        a->seen_count = 0;
        id++;
        assert_int_equal(bulk_series_append(a->bulk, id, "log", 3, id, text, SERIES_ENTRY_BYTES_MAX, NULL, 0), 0);
        event = wait_event(world, a, BULK_APPENDED, id);
        assert_true(id <= 8);
    } while (event->code == 0);
    free(text);
    assert_int_equal(event->code, ERR_NO_SPACE);
    uint64_t last;
    assert_int_equal(series_last(a->chunks, "log", 3, &last), 0);
    assert_int_equal(last, id - 1);
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
        assert_int_equal(bulk_series_append(a->bulk, 0, "log", 3, i, text, i == 20 ? SERIES_ENTRY_BYTES_MAX : 50000,
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

static uint64_t forgotten(const struct side *side)
{
    struct bulk_statistics statistics;
    bulk_statistics(side->bulk, &statistics);
    return statistics.forgotten;
}

/* Appends an entry to the series `number`, which has a name of its own. */
static void append_numbered(struct side *side, uint32_t number, node_id to)
{
    char name[16];
    (void)snprintf(name, sizeof name, "s%u", number);
    append(side, name, 1, "entry", &to, 1);
}

static bool has_numbered(const struct side *side, uint32_t number)
{
    char name[16];
    uint64_t last;
    (void)snprintf(name, sizeof name, "s%u", number);
    return series_last(side->chunks, name, strlen(name), &last) == 0;
}

static void entries_wait_until_their_peer_is_known(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0], *b = &world->sides[1];
    side_open(a, 0, NULL);
    side_open(b, 0, NULL);
    assert_int_equal(zap_admit_member(b->zap, a->keys.curve_public, a->keys.id), 0);
    introduce(b, a);
    uint64_t id = 0;
    append(a, "loss", 1, "one", &b->keys.id, 1);
    append(a, "loss", 2, "two", &b->keys.id, 1);
    append(a, "log", 7, "seven", &b->keys.id, 1);
    wait_series(world, a, &id, "loss", 0, a, 2);
    introduce(a, b);
    append(a, "loss", 3, "three", &b->keys.id, 1);
    wait_series(world, a, &id, "loss", 0, b, 3);
    wait_series(world, a, &id, "log", 0, b, 1);
    assert_int_equal(forgotten(a), 0);
}

static void the_thread_sleeps_while_entries_wait_for_their_peer(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0];
    side_open(a, 0, NULL);
    uint64_t id = 0;
    append(a, "loss", 1, "one", &(node_id){{77}}, 1);
    wait_series(world, a, &id, "loss", 0, a, 1);
    atomic_store(&is_asleep, false);
    wait_series(world, a, &id, "loss", 0, a, 1); /* wakes it */
    for (uint64_t end_ms = now_ms() + PATIENCE_MS; !atomic_load(&is_asleep); world_turn(world)) {
        assert_true(now_ms() < end_ms);
    }
    assert_int_equal(forgotten(a), 0);
}

static void what_a_peer_that_is_gone_did_not_get_is_counted(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0], *b = &world->sides[1];
    side_open(a, 0, NULL);
    side_open(b, 0, NULL);
    uint64_t id = 0;
    append(a, "loss", 1, "one", &b->keys.id, 1);
    assert_int_equal(bulk_peer(a->bulk, b->keys.id, b->keys.sign_public, "", 0), 0);
    wait_series(world, a, &id, "loss", 0, a, 1);
    assert_int_equal(forgotten(a), 1);
    befriend(a, b);
    append(a, "loss", 2, "two", &b->keys.id, 1);
    wait_series(world, a, &id, "loss", 0, b, 2); /* the first one comes with the second */
    assert_int_equal(forgotten(a), 1);
    struct keys keys;
    void *context = zmq_ctx_new(), *router = pretender_open(a, &keys, context);
    uint8_t routing_id[32];
    int routing_bytes;
    uint32_t tag;
    append(a, "log", 1, "one", &keys.id, 1);
    take_append(world, router, 1, routing_id, &routing_bytes, &tag);
    assert_int_equal(bulk_peer(a->bulk, keys.id, keys.sign_public, "", 0), 0); /* has not answered */
    wait_series(world, a, &id, "log", 0, a, 1);
    assert_int_equal(forgotten(a), 2);
    assert_int_equal(zmq_close(router), 0);
    assert_int_equal(zmq_ctx_term(context), 0);
}

static void entries_for_a_known_peer_displace_what_waits_the_longest(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0], *b = &world->sides[1], *late = &world->sides[2];
    for (int i = 0; i < 3; i++) {
        side_open(&world->sides[i], 0, NULL);
    }
    befriend(a, b);
    uint64_t id = 0;
    append(a, "own", 1, "entry", &a->keys.id, 1); /* is here already */
    for (uint32_t i = 0; i < BULK_CURSORS_MAX; i++) {
        append_numbered(a, i, late->keys.id);
    }
    wait_series(world, a, &id, "own", 0, a, 1);
    assert_int_equal(forgotten(a), 0);
    append_numbered(a, BULK_CURSORS_MAX, late->keys.id); /* has no better claim than those that wait */
    wait_series(world, a, &id, "own", 0, a, 1);
    assert_int_equal(forgotten(a), 1);
    append(a, "loss", 1, "one", &b->keys.id, 1);
    wait_series(world, a, &id, "loss", 0, b, 1);
    assert_int_equal(forgotten(a), 2);
    befriend(a, late);
    uint64_t end_ms = now_ms() + PATIENCE_MS;
    for (uint32_t i = 1; i < BULK_CURSORS_MAX; i++) {
        while (!has_numbered(late, i)) {
            assert_true(now_ms() < end_ms);
            world_turn(world);
        }
    }
    assert_false(has_numbered(late, 0)); /* had waited the longest */
    assert_int_equal(forgotten(a), 2);
}

int main(void)
{
    if (keys_start() != 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        TEST(series_reach_all_copies),
        TEST(a_copy_gets_what_came_while_it_was_none),
        TEST(a_node_answers_questions_about_a_series_that_it_holds),
        TEST(what_was_appended_before_is_stored_when_a_read_is_answered),
        TEST(an_entry_is_on_the_disk_when_its_event_comes),
        TEST(an_entry_that_a_full_disk_refuses_is_told_of),
        TEST(a_read_of_ones_own_waits_for_no_transfer),
        TEST(an_entry_behind_the_ones_under_way_is_sent),
        TEST(long_series_come_in_pieces),
        TEST(entries_wait_until_their_peer_is_known),
        TEST(the_thread_sleeps_while_entries_wait_for_their_peer),
        TEST(what_a_peer_that_is_gone_did_not_get_is_counted),
        TEST(entries_for_a_known_peer_displace_what_waits_the_longest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
