/* Streams of bytes between sockets of programs on two nodes. */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/bulk/wire.h"
#include "tests/unit/bulk_fixture.h"

static struct world *two(void **state)
{
    struct world *world = *state;
    assert_true(side_open(&world->sides[0], 0, NULL));
    assert_true(side_open(&world->sides[1], 0, NULL));
    befriend(&world->sides[0], &world->sides[1]);
    return world;
}

static void pair(int ends[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
}

static const struct bulk_event *event_of(struct world *world, const struct side *side, enum bulk_event_kind kind)
{
    uint64_t end_ms = now_ms() + PATIENCE_MS;
    while (now_ms() < end_ms) {
        for (size_t i = 0; i < side->seen_count; i++) {
            if (side->seen[i].kind == kind) {
                return &side->seen[i];
            }
        }
        world_turn(world);
    }
    fail_msg("no event of kind %d came", kind);
    return NULL;
}

/* Opens stream `id` from one side to another; `*own` and `*other` are the programs' ends. */
static void join(struct world *world, struct side *from, struct side *to, uint64_t id, int *own, int *other)
{
    int here[2], there[2];
    pair(here);
    pair(there);
    assert_int_equal(bulk_stream_open(from->bulk, id, to->keys.id, "request", 7, here[1]), 0);
    const struct bulk_event *asked = event_of(world, to, BULK_STREAM_ASKED);
    assert_true(node_id_equal(asked->node, from->keys.id));
    assert_int_equal(to->last_item_bytes[0], 7);
    assert_memory_equal(to->last_items[0], "request", 7);
    assert_int_equal(bulk_stream_answer(to->bulk, asked->id, there[1], 0, ""), 0);
    (void)wait_event(world, from, BULK_STREAM_OPENED, id);
    *own = here[0];
    *other = there[0];
}

/* Reads until `count` bytes or the end have come; returns how many. */
static size_t hear(struct world *world, int fd, uint8_t *out, size_t count)
{
    size_t used = 0;
    uint64_t end_ms = now_ms() + PATIENCE_MS;
    while (used < count && now_ms() < end_ms) {
        ssize_t n = recv(fd, out + used, count - used, 0);
        if (n == 0) {
            break;
        }
        used += n > 0 ? (size_t)n : 0;
        if (n < 0) {
            world_turn(world);
        }
    }
    return used;
}

static void bytes_go_both_ways_and_each_direction_ends_by_itself(void **state)
{
    struct world *world = two(state);
    int own, other;
    uint8_t heard[16];
    join(world, &world->sides[0], &world->sides[1], 7, &own, &other);
    assert_int_equal(send(own, "there", 5, 0), 5);
    assert_int_equal(hear(world, other, heard, 5), 5);
    assert_memory_equal(heard, "there", 5);
    assert_int_equal(shutdown(own, SHUT_WR), 0);
    assert_int_equal(hear(world, other, heard, 1), 0);
    assert_int_equal(send(other, "and back", 8, 0), 8);
    assert_int_equal(close(other), 0);
    assert_int_equal(hear(world, own, heard, 16), 8);
    assert_memory_equal(heard, "and back", 8);
    wait_ok(world, &world->sides[0], BULK_STREAM_ENDED, 7);
    assert_int_equal(event_of(world, &world->sides[1], BULK_STREAM_ENDED)->code, 0);
    (void)close(own);
}

/* Sends more than all rings hold, and reads it later. */
static void exchange_much(struct world *world, int from, int to)
{
    enum { COUNT = 5 << 20 };
    uint8_t *sent = malloc(COUNT), *got = malloc(COUNT);
    size_t out = 0, in = 0;
    uint64_t end_ms = now_ms() + PATIENCE_MS, stalled = 0;
    for (size_t i = 0; i < COUNT; i++) {
        sent[i] = (uint8_t)(i * 7 + i / 300);
    }
    while (in < COUNT && now_ms() < end_ms) {
        ssize_t n = out < COUNT ? send(from, sent + out, COUNT - out, MSG_DONTWAIT) : -1;
        out += n > 0 ? (size_t)n : 0;
        stalled += n <= 0;
        if (stalled > 50) { /* nobody has read so far, and nothing more is taken */
            assert_true(in > 0 || out < 3u << 20);
            n = recv(to, got + in, COUNT - in, MSG_DONTWAIT);
            in += n > 0 ? (size_t)n : 0;
        }
        if (n <= 0) {
            world_turn(world);
        }
    }
    assert_int_equal(in, COUNT);
    assert_memory_equal(sent, got, COUNT);
    free(sent);
    free(got);
}

static void a_program_that_does_not_read_stops_the_other(void **state)
{
    struct world *world = two(state);
    int own, other;
    join(world, &world->sides[0], &world->sides[1], 1, &own, &other);
    exchange_much(world, own, other);
    exchange_much(world, other, own);
    (void)close(own);
    (void)close(other);
}

static void a_node_carries_streams_between_its_own_programs(void **state)
{
    struct world *world = *state;
    int own, other;
    assert_true(side_open(&world->sides[0], 0, NULL));
    join(world, &world->sides[0], &world->sides[0], 3, &own, &other);
    exchange_much(world, own, other);
    (void)close(other);
    uint8_t byte;
    assert_int_equal(hear(world, own, &byte, 1), 0);
    (void)close(own);
    wait_ok(world, &world->sides[0], BULK_STREAM_ENDED, 3);
}

static void the_asked_program_may_refuse(void **state)
{
    struct world *world = two(state);
    int here[2];
    pair(here);
    assert_int_equal(bulk_stream_open(world->sides[0].bulk, 9, world->sides[1].keys.id, "x", 1, here[1]), 0);
    const struct bulk_event *asked = event_of(world, &world->sides[1], BULK_STREAM_ASKED);
    assert_int_equal(bulk_stream_answer(world->sides[1].bulk, asked->id, -1, ERR_REFUSED, "It does not want to."), 0);
    const struct bulk_event *end = wait_event(world, &world->sides[0], BULK_STREAM_ENDED, 9);
    assert_int_equal(end->code, ERR_REFUSED);
    assert_string_equal(end->text, "It does not want to.");
    uint8_t byte;
    assert_int_equal(hear(world, here[0], &byte, 1), 0);
    (void)close(here[0]);
}

static void a_program_that_closes_with_bytes_unread_ends_the_stream(void **state)
{
    struct world *world = two(state);
    int own, other;
    uint8_t byte;
    join(world, &world->sides[0], &world->sides[1], 4, &own, &other);
    assert_int_equal(close(own), 0);
    assert_int_equal(hear(world, other, &byte, 1), 0);
    assert_int_equal(send(other, "late", 4, MSG_NOSIGNAL), 4);
    assert_int_equal(wait_event(world, &world->sides[0], BULK_STREAM_ENDED, 4)->code, ERR_CLOSED);
    assert_int_equal(event_of(world, &world->sides[1], BULK_STREAM_ENDED)->code, ERR_CLOSED);
    (void)close(other);
}

static void either_node_may_end_a_stream_with_a_sentence(void **state)
{
    struct world *world = two(state);
    int own, other;
    join(world, &world->sides[0], &world->sides[1], 5, &own, &other);
    uint64_t there = event_of(world, &world->sides[1], BULK_STREAM_ASKED)->id;
    assert_int_equal(bulk_stream_close(world->sides[1].bulk, there, ERR_CLOSED, "The attempt has ended."), 0);
    const struct bulk_event *end = wait_event(world, &world->sides[0], BULK_STREAM_ENDED, 5);
    assert_int_equal(end->code, ERR_CLOSED);
    assert_string_equal(end->text, "The attempt has ended.");
    (void)close(own);
    (void)close(other);
}

static void a_node_that_was_restarted_says_so(void **state)
{
    struct world *world = two(state);
    struct side *there = &world->sides[1];
    int own, other;
    join(world, &world->sides[0], there, 6, &own, &other);
    bulk_stop(&there->bulk);
    bulk_open(there, 0, 0);
    introduce(&world->sides[0], there);
    introduce(there, &world->sides[0]);
    const struct bulk_event *end = wait_event(world, &world->sides[0], BULK_STREAM_ENDED, 6);
    assert_int_equal(end->code, ERR_CLOSED);
    assert_string_equal(end->text, "The daemon of the node was restarted meanwhile.");
    (void)close(own);
    (void)close(other);
}

static void a_node_that_is_not_known_gets_no_stream(void **state)
{
    struct world *world = *state;
    int here[2];
    assert_true(side_open(&world->sides[0], 0, NULL));
    pair(here);
    assert_int_equal(bulk_stream_open(world->sides[0].bulk, 2, (node_id){{1}}, "x", 1, here[1]), 0);
    assert_int_equal(wait_event(world, &world->sides[0], BULK_STREAM_ENDED, 2)->code, ERR_NOT_FOUND);
    (void)close(here[0]);
}

static void a_peer_opens_so_many_streams_and_no_more(void **state)
{
    struct world *world = two(state);
    int programs[BULK_STREAMS_PEER + 1][2];
    for (int i = 0; i <= BULK_STREAMS_PEER; i++) {
        pair(programs[i]);
        assert_int_equal(
            bulk_stream_open(world->sides[0].bulk, 100 + (uint64_t)i, world->sides[1].keys.id, "x", 1, programs[i][1]),
            0);
    }
    assert_int_equal(event_of(world, &world->sides[0], BULK_STREAM_ENDED)->code, ERR_FULL);
    for (int i = 0; i <= BULK_STREAMS_PEER; i++) {
        (void)close(programs[i][0]);
    }
}

/* ---- another program in the place of a peer ---- */

static void say(struct world *world, void *socket, const struct bulk_message *message)
{
    uint8_t head[BULK_WIRE_HEAD_BYTES_MAX];
    size_t count;
    assert_int_equal(bulk_wire_encode(message, head, sizeof head, &count), 0);
    for (uint64_t end_ms = now_ms() + PATIENCE_MS; zmq_send(socket, head, count, ZMQ_DONTWAIT) < 0;) {
        assert_true(now_ms() < end_ms);
        world_turn(world);
    }
}

/* Waits for a message of this kind; others are passed over. */
static struct bulk_message hear_message(struct world *world, void *socket, uint8_t kind)
{
    static uint8_t head[BULK_WIRE_HEAD_BYTES_MAX];
    struct bulk_message message = {0};
    for (uint64_t end_ms = now_ms() + PATIENCE_MS; now_ms() < end_ms; world_turn(world)) {
        int got = zmq_recv(socket, head, sizeof head, ZMQ_DONTWAIT);
        if (got >= 0 && bulk_wire_decode(head, (size_t)got, NULL, 0, &message) == 0 && message.kind == kind) {
            return message;
        }
    }
    fail_msg("no message of kind %d came", kind);
    return message;
}

static size_t count_asked(const struct side *side)
{
    size_t count = 0;
    for (size_t i = 0; i < side->seen_count; i++) {
        count += side->seen[i].kind == BULK_STREAM_ASKED;
    }
    return count;
}

static void a_member_asks_twice_for_one_stream_and_loses_it_by_breaking_the_rules(void **state)
{
    struct world *world = *state;
    struct side *side = &world->sides[0];
    struct keys member;
    int program[2];
    uint8_t byte;
    static const uint8_t bytes[8] = "too far";
    assert_true(side_open(side, 0, NULL));
    rogue_admit(side, &member);
    void *socket = rogue_open(side, &member);
    rogue_connect(socket, side);

    say(world, socket,
        &(struct bulk_message){
            .kind = BULK_SEGMENT, .tag = 1, .stream = 5, .limit = 1, .bytes = bytes, .byte_count = 1});
    struct bulk_message reset = hear_message(world, socket, BULK_RESET);
    assert_true(reset.stream == 5 && reset.code == (uint8_t)-ERR_CLOSED);

    const struct bulk_message opening = {
        .kind = BULK_OPEN, .tag = 2, .stream = 77, .question = bytes, .question_bytes = sizeof bytes};
    say(world, socket, &opening);
    say(world, socket, &opening);
    const struct bulk_event *asked = event_of(world, side, BULK_STREAM_ASKED);
    pair(program);
    assert_int_equal(bulk_stream_answer(side->bulk, asked->id, program[1], 0, ""), 0);
    assert_true(hear_message(world, socket, BULK_SEGMENT).stream == 77);
    say(world, socket, &opening); /* as if the answer had been lost */
    assert_true(hear_message(world, socket, BULK_SEGMENT).stream == 77);
    assert_int_equal(count_asked(side), 1);

    say(world, socket,
        &(struct bulk_message){.kind = BULK_SEGMENT,
                               .tag = 2,
                               .stream = 77,
                               .offset = STREAM_RING_BYTES,
                               .limit = 1,
                               .bytes = bytes,
                               .byte_count = 1});
    reset = hear_message(world, socket, BULK_RESET);
    assert_true(reset.stream == 77 && reset.code == (uint8_t)-ERR_MALFORMED);
    assert_int_equal(event_of(world, side, BULK_STREAM_ENDED)->code, ERR_MALFORMED);
    assert_int_equal(hear(world, program[0], &byte, 1), 0);
    say(world, socket, &opening); /* what has ended does not begin again */
    assert_true(hear_message(world, socket, BULK_RESET).stream == 77);
    assert_int_equal(count_asked(side), 1);
    (void)close(program[0]);
    assert_int_equal(zmq_close(socket), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bytes_go_both_ways_and_each_direction_ends_by_itself),
        TEST(a_program_that_does_not_read_stops_the_other),
        TEST(a_node_carries_streams_between_its_own_programs),
        TEST(the_asked_program_may_refuse),
        TEST(a_program_that_closes_with_bytes_unread_ends_the_stream),
        TEST(either_node_may_end_a_stream_with_a_sentence),
        TEST(a_node_that_was_restarted_says_so),
        TEST(a_node_that_is_not_known_gets_no_stream),
        TEST(a_peer_opens_so_many_streams_and_no_more),
        TEST(a_member_asks_twice_for_one_stream_and_loses_it_by_breaking_the_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
