/* Heads of HTTP requests: what can be read in two ways is refused, wherever the network cuts it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/http/gate.h"

#define HOST "Host: localhost\r\n"
#define END "\r\n"

/* Judges a copy of the exact size, so that a sanitizer sees a read behind its end. */
static enum gate_verdict judge(const char *bytes, size_t count, int *status, const char **why)
{
    char *copy = malloc(count + (count == 0));
    assert_non_null(copy);
    memcpy(copy, bytes, count);
    enum gate_verdict verdict = gate_judge(copy, count, status, why);
    free(copy);
    return verdict;
}

/* Every prefix may become a good head, and what comes behind the head changes nothing. */
static void assert_good(const char *head)
{
    int status = 7;
    const char *why = "untouched";
    size_t count = strlen(head);
    for (size_t i = 0; i < count; i++) {
        if (judge(head, i, &status, &why) != GATE_MORE) {
            fail_msg("%zu bytes of '%.60s' got %d %s", i, head, status, why);
        }
    }
    if (judge(head, count, &status, &why) != GATE_GOOD) {
        fail_msg("'%.60s' got %d %s", head, status, why);
    }
    char *more = malloc(count + 64);
    assert_non_null(more);
    size_t bytes = (size_t)snprintf(more, count + 64, "%s\n\rno head at all\n\n", head);
    assert_int_equal(judge(more, bytes, &status, &why), GATE_GOOD);
    free(more);
    assert_int_equal(status, 7);
    assert_string_equal(why, "untouched");
}

/* No prefix is good; once it is bad it stays bad, with the same sentence. */
static void assert_bad(const char *head, size_t count, int wanted, const char *part)
{
    int status = 0, first_status = 0;
    const char *why = NULL, *first_why = NULL;
    for (size_t i = 0; i <= count; i++) {
        enum gate_verdict verdict = judge(head, i, &status, &why);
        if (verdict == GATE_GOOD || (first_why != NULL && verdict != GATE_BAD)) {
            fail_msg("%zu bytes of '%.60s' got the verdict %d", i, head, (int)verdict);
        }
        if (verdict == GATE_BAD && first_why == NULL) {
            first_status = status;
            first_why = why;
        }
    }
    if (first_why == NULL || first_status != wanted || strstr(first_why, part) == NULL) {
        fail_msg("'%.60s' got %d %s", head, first_status, first_why != NULL ? first_why : "no refusal");
    }
    assert_string_equal(why, first_why);
}
#define BAD(head, status, part) assert_bad(head, sizeof(head) - 1, status, part)

static void what_clients_send_passes(void **state)
{
    (void)state;
    assert_good("GET / HTTP/1.1\r\n" HOST END);
    assert_good("HEAD /api/v1/status HTTP/1.1\r\nhost: 127.0.0.1:7412\r\nAccept: */*\r\n" END);
    assert_good("POST /api/v1/experiments?x=%20a&y=%E2%82%AC HTTP/1.1\r\n" HOST
                "Content-Length: 12\r\nContent-Type: application/json\r\n" END);
    assert_good("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: \tChunked \r\n" END);
    assert_good("PUT / HTTP/1.1\r\n" HOST "Content-Length:0\r\n" END);
    assert_good("PATCH / HTTP/1.1\r\nHOST:\r\n" END);
    assert_good("DELETE /api/v1/tokens/ab HTTP/1.1\r\n" HOST "X-Tab:\ta\tb\t\r\nX-Old: caf\xc3\xa9 \xff\r\n" END);
    assert_good("GET /healthz HTTP/1.0\r\n" END);
    assert_good("GET /%2500%0 HTTP/1.1\r\n" HOST END);
}

static void two_readings_of_where_a_line_ends_are_refused(void **state)
{
    (void)state;
    BAD("GET / HTTP/1.1\n" HOST END, 400, "LF without CR");
    BAD("GET / HTTP/1.1\r\nHost: localhost\n\n", 400, "LF without CR");
    BAD("GET / HTTP/1.1\r\n" HOST "\n", 400, "LF without CR");
    BAD("GET / HTTP/1.1\r\n" HOST "X: a\rY: b\r\n" END, 400, "CR that no LF follows");
    BAD("GET / HTTP/1.1\r\n" HOST "\r\r\n", 400, "CR that no LF follows");
    BAD("GET /\r HTTP/1.1\r\n" HOST END, 400, "CR that no LF follows");
    BAD("\r\nGET / HTTP/1.1\r\n" HOST END, 400, "begins with an empty line");
    BAD("GET / HTTP/1.1\r\n" HOST "X: a\r\n b\r\n" END, 400, "not NAME: VALUE");
    BAD("GET / HTTP/1.1\r\n Host: localhost\r\n" END, 400, "not NAME: VALUE");
}

static void two_readings_of_the_length_are_refused(void **state)
{
    (void)state;
    BAD("POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\nContent-Length: 3\r\n" END, 400, "told twice");
    BAD("POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\ncontent-length: 4\r\n" END, 400, "told twice");
    BAD("POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n" END, 400, "told twice");
    BAD("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n" END, 400,
        "told twice");
    BAD("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n" END, 501, "not chunked");
    BAD("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n" END, 501, "not chunked");
    BAD("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding:\r\n" END, 501, "not chunked");
    BAD("POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n" END, 400, "HTTP/1.0 has no");
    BAD("POST / HTTP/1.1\r\n" HOST "Content-Length: 3, 3\r\n" END, 400, "no number");
    BAD("POST / HTTP/1.1\r\n" HOST "Content-Length: +3\r\n" END, 400, "no number");
    BAD("POST / HTTP/1.1\r\n" HOST "Content-Length: -1\r\n" END, 400, "no number");
    BAD("POST / HTTP/1.1\r\n" HOST "Content-Length: 0x3\r\n" END, 400, "no number");
    BAD("POST / HTTP/1.1\r\n" HOST "Content-Length:\r\n" END, 400, "no number");
    BAD("POST / HTTP/1.1\r\n" HOST "Content-Length: 1234567890123456789\r\n" END, 400, "no number");
    BAD("POST / HTTP/1.1\r\n" HOST "Content-Length : 3\r\n" END, 400, "not NAME: VALUE");
    BAD("POST / HTTP/1.1\r\n" HOST "Content-Length\t: 3\r\n" END, 400, "not NAME: VALUE");
}

static void two_readings_of_whom_it_is_for_are_refused(void **state)
{
    (void)state;
    BAD("GET / HTTP/1.1\r\n" HOST "Host: evil.example\r\n" END, 400, "no Host, or several");
    BAD("GET / HTTP/1.1\r\n" HOST HOST END, 400, "no Host, or several");
    BAD("GET / HTTP/1.1\r\nAccept: */*\r\n" END, 400, "no Host, or several");
    BAD("GET / HTTP/1.1\r\n" END, 400, "no Host, or several");
    BAD("GET / HTTP/1.0\r\n" HOST HOST END, 400, "no Host, or several");
    BAD("GET http://localhost/ HTTP/1.1\r\n" HOST END, 400, "does not begin with a slash");
    BAD("GET localhost:7412 HTTP/1.1\r\n" HOST END, 400, "does not begin with a slash");
    BAD("GET * HTTP/1.1\r\n" HOST END, 400, "does not begin with a slash");
    BAD("GET  HTTP/1.1\r\n" HOST END, 400, "does not begin with a slash");
}

static void a_request_line_that_is_none_is_refused(void **state)
{
    (void)state;
    BAD("GET /\r\n" HOST END, 400, "METHOD TARGET VERSION");
    BAD("GET\r\n" HOST END, 400, "METHOD TARGET VERSION");
    BAD("GET  / HTTP/1.1\r\n" HOST END, 400, "METHOD TARGET VERSION");
    BAD("GET /  HTTP/1.1\r\n" HOST END, 400, "METHOD TARGET VERSION");
    BAD("GET / HTTP/1.1 \r\n" HOST END, 400, "METHOD TARGET VERSION");
    BAD("GET /a b HTTP/1.1\r\n" HOST END, 400, "METHOD TARGET VERSION");
    BAD(" GET / HTTP/1.1\r\n" HOST END, 400, "METHOD TARGET VERSION");
    BAD("OPTIONS / HTTP/1.1\r\n" HOST END, 501, "none of GET");
    BAD("TRACE / HTTP/1.1\r\n" HOST END, 501, "none of GET");
    BAD("CONNECT a:1 HTTP/1.1\r\n" HOST END, 501, "none of GET");
    BAD("get / HTTP/1.1\r\n" HOST END, 501, "none of GET");
    BAD("GET\0/ / HTTP/1.1\r\n" HOST END, 501, "none of GET");
    BAD("GET / HTTP/2.0\r\n" HOST END, 505, "neither HTTP/1.1");
    BAD("GET / HTTP/1.2\r\n" HOST END, 505, "neither HTTP/1.1");
    BAD("GET / http/1.1\r\n" HOST END, 505, "neither HTTP/1.1");
    BAD("GET / HTTP/1.1x\r\n" HOST END, 505, "neither HTTP/1.1");
    BAD("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 501, "none of GET");
    BAD("GET /a%00b HTTP/1.1\r\n" HOST END, 400, "NUL");
    BAD("GET /?a=%00 HTTP/1.1\r\n" HOST END, 400, "NUL");
    BAD("GET /a\0b HTTP/1.1\r\n" HOST END, 400, "percent sign");
    BAD("GET /\xc3\xa9 HTTP/1.1\r\n" HOST END, 400, "percent sign");
    BAD("GET /\x7f HTTP/1.1\r\n" HOST END, 400, "percent sign");
    BAD("GET /\t HTTP/1.1\r\n" HOST END, 400, "percent sign");
}

static void a_field_that_is_none_is_refused(void **state)
{
    (void)state;
    BAD("GET / HTTP/1.1\r\n" HOST "nonsense\r\n" END, 400, "not NAME: VALUE");
    BAD("GET / HTTP/1.1\r\n" HOST ": x\r\n" END, 400, "not NAME: VALUE");
    BAD("GET / HTTP/1.1\r\n" HOST "A B: x\r\n" END, 400, "not NAME: VALUE");
    BAD("GET / HTTP/1.1\r\n" HOST "A(: x\r\n" END, 400, "not NAME: VALUE");
    BAD("GET / HTTP/1.1\r\n" HOST "A\0: x\r\n" END, 400, "not NAME: VALUE");
    BAD("GET / HTTP/1.1\r\n" HOST "\xc3\xa9: x\r\n" END, 400, "not NAME: VALUE");
    BAD("GET / HTTP/1.1\r\n" HOST "A: x\0y\r\n" END, 400, "control character");
    BAD("GET / HTTP/1.1\r\n" HOST "A: x\x1by\r\n" END, 400, "control character");
    BAD("GET / HTTP/1.1\r\nHost: local\x01host\r\n" END, 400, "control character");
}

/* A head of `count` bytes in all, of which its request line takes `line_bytes` with CR LF. */
static char *long_head(size_t count, size_t line_bytes)
{
    static const char version[] = " HTTP/1.1\r\n";
    char *head = malloc(count + 1);
    assert_non_null(head);
    memset(head, 'a', count);
    memcpy(head, "GET /", 5);
    memcpy(head + line_bytes - sizeof version + 1, version, sizeof version - 1);
    size_t used = line_bytes;
    memcpy(head + used, HOST, sizeof HOST - 1);
    used += sizeof HOST - 1;
    if (count > used + 2) { /* one field that fills the rest */
        memcpy(head + used, "X: ", 3);
        memcpy(head + count - 4, "\r\n", 2);
    }
    memcpy(head + count - 2, "\r\n", 2);
    head[count] = '\0';
    return head;
}

static void the_longest_head_passes_and_a_longer_one_does_not(void **state)
{
    (void)state;
    int status = 0;
    const char *why = NULL;
    static const struct {
        size_t count, line_bytes;
        int status; /* 0: good */
    } heads[] = {{GATE_HEAD_BYTES_MAX, 16, 0},
                 {GATE_HEAD_BYTES_MAX + 1, 16, 431},
                 {GATE_LINE_BYTES_MAX + 1 + sizeof HOST - 1 + 2, GATE_LINE_BYTES_MAX + 1, 0},
                 {GATE_LINE_BYTES_MAX + 2 + sizeof HOST - 1 + 2, GATE_LINE_BYTES_MAX + 2, 414}};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        char *head = long_head(heads[i].count, heads[i].line_bytes);
        size_t from = heads[i].count > 3000 ? heads[i].count - 3000 : 0;
        for (size_t k = from; k < heads[i].count; k++) {
            enum gate_verdict verdict = judge(head, k, &status, &why);
            assert_true(verdict == GATE_MORE || (verdict == GATE_BAD && heads[i].status != 0));
        }
        enum gate_verdict verdict = judge(head, heads[i].count, &status, &why);
        assert_int_equal(verdict, heads[i].status == 0 ? GATE_GOOD : GATE_BAD);
        assert_true(heads[i].status == 0 || status == heads[i].status);
        free(head);
    }
}

static void a_line_without_an_end_is_not_waited_for(void **state)
{
    (void)state;
    static char line[GATE_HEAD_BYTES_MAX + 1];
    int status = 0;
    const char *why;
    memset(line, 'G', sizeof line);
    assert_int_equal(judge(line, GATE_LINE_BYTES_MAX, &status, &why), GATE_MORE);
    assert_int_equal(judge(line, GATE_LINE_BYTES_MAX + 1, &status, &why), GATE_BAD);
    assert_int_equal(status, 414);
    memcpy(line, "GET / HTTP/1.1\r\n", 16);
    assert_int_equal(judge(line, GATE_HEAD_BYTES_MAX - 1, &status, &why), GATE_MORE);
    assert_int_equal(judge(line, GATE_HEAD_BYTES_MAX, &status, &why), GATE_BAD);
    assert_int_equal(status, 431);
}

static void a_hundred_fields_pass_and_one_more_does_not(void **state)
{
    (void)state;
    for (unsigned fields = GATE_FIELDS_MAX; fields <= GATE_FIELDS_MAX + 1; fields++) {
        char head[8192] = "GET / HTTP/1.1\r\n" HOST;
        for (unsigned i = 1; i < fields; i++) {
            size_t used = strlen(head);
            (void)snprintf(head + used, sizeof head - used, "X-%u: y\r\n", i);
        }
        strcat(head, END);
        if (fields == GATE_FIELDS_MAX) {
            assert_good(head);
        } else {
            assert_bad(head, strlen(head), 431, "more than 100 fields");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_clients_send_passes),
        cmocka_unit_test(two_readings_of_where_a_line_ends_are_refused),
        cmocka_unit_test(two_readings_of_the_length_are_refused),
        cmocka_unit_test(two_readings_of_whom_it_is_for_are_refused),
        cmocka_unit_test(a_request_line_that_is_none_is_refused),
        cmocka_unit_test(a_field_that_is_none_is_refused),
        cmocka_unit_test(the_longest_head_passes_and_a_longer_one_does_not),
        cmocka_unit_test(a_line_without_an_end_is_not_waited_for),
        cmocka_unit_test(a_hundred_fields_pass_and_one_more_does_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
