/* Which bytes of a connection with several requests go to the server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/http/gate.h"
#include "node/http/sequence.h"

#define GET "GET /assets/app.js HTTP/1.1\r\nHost: birch\r\n\r\n"
#define OLD "GET /assets/app.js HTTP/1.0\r\n\r\n"
#define BAD "GET /assets/app.js HTTP/1.1\nHost: birch\n\n"
#define POST(length) "POST /api/v1/invites HTTP/1.1\r\nHost: birch\r\nContent-Length: " length "\r\n\r\n"
#define CHUNKED "POST /api/v1/invites HTTP/1.1\r\nHost: birch\r\nTransfer-Encoding: chunked\r\n\r\n"

static char passed[4 * GATE_HEAD_BYTES_MAX];
static size_t passed_count;

/* Sends `text` in pieces of `step` bytes, as they come; returns the state after all. */
static enum sequence_state send_all(const char *text, size_t step)
{
    static char kept[4 * GATE_HEAD_BYTES_MAX];
    struct sequence sequence = {0};
    size_t count = 0, bytes = strlen(text);
    passed_count = 0;
    for (size_t at = 0; at < bytes; at += step) {
        size_t more = bytes - at < step ? bytes - at : step, pass;
        memcpy(kept + count, text + at, more);
        count += more;
        while (count > 0 && (pass = sequence_pass(&sequence, kept, count)) > 0) {
            assert_true(pass <= count);
            memcpy(passed + passed_count, kept, pass);
            passed_count += pass;
            count -= pass;
            memmove(kept, kept + pass, count);
        }
        if (sequence.state == SEQUENCE_DONE || sequence.state == SEQUENCE_BROKEN) {
            count = 0;
        }
    }
    passed[passed_count] = '\0';
    return sequence.state;
}

static const struct {
    const char *sent, *wanted;
    enum sequence_state state;
} rows[] = {
    {GET, GET, SEQUENCE_HEAD},
    {GET GET GET, GET GET GET, SEQUENCE_HEAD},
    {GET "GET /assets/app.js HTT", GET, SEQUENCE_HEAD},
    {GET BAD, GET, SEQUENCE_BROKEN},
    {GET BAD GET, GET, SEQUENCE_BROKEN},
    {GET "\r\n" GET, GET, SEQUENCE_BROKEN},
    {GET POST("3") "abc", GET POST("3") "abc", SEQUENCE_DONE},
    {POST("3") "abc" GET, POST("3") "abc", SEQUENCE_DONE},
    {POST("0") GET, POST("0"), SEQUENCE_DONE},
    {POST("3") "ab", POST("3") "ab", SEQUENCE_BODY},
    {POST("44") GET GET, POST("44") GET, SEQUENCE_DONE},
    {CHUNKED "0\r\n\r\n" GET, CHUNKED "0\r\n\r\n" GET, SEQUENCE_RAW}, /* answered by `Connection: close`, as without TLS */
    {GET CHUNKED "3\r\nabc\r\n", GET CHUNKED "3\r\nabc\r\n", SEQUENCE_RAW},
    {OLD GET, OLD, SEQUENCE_DONE},
    {GET OLD GET, GET OLD, SEQUENCE_DONE},
};

static void heads_pass_whole_and_behind_a_body_nothing_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t step = 1; step < 200; step += step < 8 ? 1 : 13) {
            enum sequence_state end = send_all(rows[i].sent, step);
            if (end != rows[i].state || strcmp(passed, rows[i].wanted) != 0) {
                fail_msg("row %zu in steps of %zu: state %d, '%s'", i, step, (int)end, passed);
            }
        }
    }
}

static void a_first_head_that_is_bad_is_left_to_the_gate(void **state)
{
    (void)state;
    assert_int_equal(send_all(BAD GET, 7), SEQUENCE_RAW);
    assert_string_equal(passed, BAD GET);
}

static void of_a_head_without_an_end_no_more_is_kept_than_the_gate_takes(void **state)
{
    (void)state;
    static char text[2 * GATE_HEAD_BYTES_MAX];
    struct sequence sequence = {0};
    int begin = snprintf(text, sizeof text, GET "GET / HTTP/1.1\r\nX: ");
    memset(text + begin, 'y', sizeof text - (size_t)begin - 1);
    assert_int_equal(sequence_pass(&sequence, text, sizeof GET - 1), sizeof GET - 1);
    assert_int_equal(sequence_pass(&sequence, text + sizeof GET - 1, GATE_HEAD_BYTES_MAX - 1), 0);
    assert_int_equal(sequence.state, SEQUENCE_HEAD);
    assert_int_equal(sequence_pass(&sequence, text + sizeof GET - 1, GATE_HEAD_BYTES_MAX), 0);
    assert_int_equal(sequence.state, SEQUENCE_BROKEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_pass_whole_and_behind_a_body_nothing_does),
        cmocka_unit_test(a_first_head_that_is_bad_is_left_to_the_gate),
        cmocka_unit_test(of_a_head_without_an_end_no_more_is_kept_than_the_gate_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
