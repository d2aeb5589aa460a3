/* A stream of bytes between two ends: everything arrives in order, whatever is lost on the way, and neither end takes
 * more than fits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/random.h"
#include "node/bulk/stream.h"

static uint8_t rings[4][STREAM_RING_BYTES];
static struct stream one, two;
static uint64_t now_ms;

static int start(void **state)
{
    (void)state;
    now_ms = 1000;
    stream_init(&one, now_ms, rings[0], rings[1]);
    stream_init(&two, now_ms, rings[2], rings[3]);
    return 0;
}

static uint8_t byte_at(uint64_t place)
{
    return (uint8_t)(place * 31 + place / 251);
}

/* Puts bytes in, at most `most`; returns how many. */
static size_t feed(struct stream *stream, size_t most)
{
    uint8_t *at;
    size_t count = stream_room(stream, &at);
    count = count < most ? count : most;
    for (size_t i = 0; i < count; i++) {
        at[i] = byte_at(stream->taken + i);
    }
    if (count > 0) {
        stream_took(stream, count);
    }
    return count;
}

/* Takes bytes out and compares them. */
static size_t drink(struct stream *stream, size_t most)
{
    const uint8_t *at;
    size_t count = stream_waiting(stream, &at);
    count = count < most ? count : most;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(at[i], byte_at(stream->given + i));
    }
    stream_gave(stream, count);
    return count;
}

/* Sends one segment; `is_lost`: it does not arrive. False: none was due. */
static bool carry(struct stream *from, struct stream *to, bool is_lost)
{
    struct stream_segment segment;
    if (!stream_next(from, now_ms, &segment)) {
        return false;
    }
    stream_sent(from, now_ms, &segment);
    if (!is_lost) {
        assert_int_equal(stream_receive(to, now_ms, &segment), 0);
    }
    return true;
}

static void carry_all(void)
{
    while (carry(&one, &two, false) || carry(&two, &one, false)) {
    }
}

static void bytes_arrive_in_order_and_the_ends_know_that_it_is_over(void **state)
{
    (void)state;
    assert_int_equal(feed(&one, 100000), 100000);
    assert_int_equal(feed(&two, 10), 10);
    stream_end(&one);
    carry_all();
    assert_int_equal(drink(&two, SIZE_MAX), 100000);
    assert_true(stream_gave_all(&two));
    assert_false(stream_is_over(&one));
    assert_int_equal(drink(&one, SIZE_MAX), 10);
    assert_false(stream_gave_all(&one));
    stream_end(&two);
    carry_all();
    assert_true(stream_gave_all(&one));
    assert_true(stream_is_over(&one) && stream_is_over(&two));
}

static void an_end_that_does_not_read_stops_the_other_and_lets_it_go_on_later(void **state)
{
    (void)state;
    size_t fed = 0;
    for (int i = 0; i < 100; i++) {
        fed += feed(&one, SIZE_MAX);
        carry_all();
    }
    assert_int_equal(fed, 2 * STREAM_RING_BYTES); /* one ring here, one there */
    assert_int_equal(drink(&two, 1000), 1000);
    carry_all();
    assert_int_equal(feed(&one, SIZE_MAX), 0); /* so little room is not worth a segment */
    size_t drunk = 1000;
    for (size_t more; (more = drink(&two, SIZE_MAX)) > 0;) {
        drunk += more;
        carry_all();
        fed += feed(&one, SIZE_MAX);
        carry_all();
        if (drunk > 10 * STREAM_RING_BYTES) {
            return;
        }
    }
    fail();
}

static void lost_segments_are_sent_again(void **state)
{
    (void)state;
    (void)feed(&one, 50000);
    assert_true(carry(&one, &two, true));
    assert_true(carry(&one, &two, false)); /* behind a gap: it is dropped */
    assert_int_equal(drink(&two, SIZE_MAX), 0);
    now_ms += STREAM_RESEND_MS;
    assert_true(stream_next_ms(&one) <= now_ms);
    carry_all();
    assert_int_equal(drink(&two, SIZE_MAX), 50000);
}

static void whatever_is_lost_everything_arrives(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct random random;
        random_init(&random, seed);
        (void)start(NULL);
        uint64_t wanted[2] = {random_below(&random, 2000000), random_below(&random, 300000)}, got[2] = {0, 0};
        for (int turn = 0; turn < 100000 && !(stream_is_over(&one) && stream_is_over(&two)); turn++) {
            struct stream *ends[2] = {&one, &two};
            for (int side = 0; side < 2; side++) {
                struct stream *end = ends[side];
                (void)feed(end, (size_t)random_below(&random, wanted[side] - end->taken < 60000
                                                                  ? wanted[side] - end->taken + 1
                                                                  : 60000));
                if (end->taken == wanted[side]) {
                    stream_end(end);
                }
                bool is_broken =
                    random_below(&random, 20) == 0; /* from here on all is lost, as with a connection that breaks */
                while (carry(end, ends[1 - side], is_broken)) {
                }
                got[side] += drink(end, (size_t)random_below(&random, 100000));
            }
            now_ms += random_below(&random, 4) == 0 ? 1000 : 1;
        }
        assert_true(stream_is_over(&one) && stream_is_over(&two));
        assert_int_equal(got[0], wanted[1]);
        assert_int_equal(got[1], wanted[0]);
        assert_false(stream_is_silent(&one, now_ms));
    }
}

static void an_end_with_nothing_to_say_tells_that_it_lives(void **state)
{
    (void)state;
    struct stream_segment segment;
    assert_false(stream_next(&one, now_ms, &segment));
    now_ms = stream_next_ms(&one);
    assert_true(carry(&one, &two, false));
    assert_false(stream_is_silent(&two, now_ms + STREAM_SILENCE_MS - 1));
    assert_true(stream_is_silent(&two, now_ms + STREAM_SILENCE_MS));
}

static void segments_that_no_honest_end_sends_are_refused(void **state)
{
    (void)state;
    (void)feed(&one, 10);
    struct stream before = one;
    static const uint8_t bytes[STREAM_SEGMENT_BYTES];
    const struct stream_segment bad[] = {
        {.received = 11, .limit = STREAM_RING_BYTES},                                          /* more than was sent */
        {.offset = STREAM_RING_BYTES, .limit = STREAM_RING_BYTES, .bytes = bytes, .count = 1}, /* beyond the limit */
        {.offset = UINT64_MAX, .limit = STREAM_RING_BYTES, .bytes = bytes, .count = 1},
        {.limit = UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(stream_receive(&one, now_ms, &bad[i]), ERR_MALFORMED);
        assert_memory_equal(&before, &one, sizeof one);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(bytes_arrive_in_order_and_the_ends_know_that_it_is_over, start),
        cmocka_unit_test_setup(an_end_that_does_not_read_stops_the_other_and_lets_it_go_on_later, start),
        cmocka_unit_test_setup(lost_segments_are_sent_again, start),
        cmocka_unit_test_setup(whatever_is_lost_everything_arrives, start),
        cmocka_unit_test_setup(an_end_with_nothing_to_say_tells_that_it_lives, start),
        cmocka_unit_test_setup(segments_that_no_honest_end_sends_are_refused, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
