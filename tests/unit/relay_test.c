/* Requests of other nodes' users: each is carried out once, only some are taken, and what a node replies is read with
 * suspicion. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/bulk/wire.h"
#include "node/daemon/api/client.h"
#include "node/daemon/relay/relay.h"
#include "node/daemon/wire/relayed.h"
#include "node/daemon/wire/request.h"

#define KEPT_MS 30000

static struct daemon *daemon_new(void)
{
    struct daemon *daemon = calloc(1, sizeof *daemon);
    daemon->api = calloc(1, sizeof *daemon->api);
    daemon->lines = calloc(DAEMON_EVENTS_MAX, sizeof *daemon->lines);
    daemon->options.quiet = true;
    daemon->relay = relay_new();
    assert_non_null(daemon->relay);
    return daemon;
}

static void daemon_free(struct daemon *daemon)
{
    relay_free(daemon, daemon->relay);
    assert_null(daemon->api->clients);
    free(daemon->lines);
    free(daemon->api);
    free(daemon);
}

static size_t question(uint8_t token, const char *op, uint8_t out[RELAYED_QUESTION_BYTES])
{
    uint8_t request[256];
    struct pack_writer writer;
    pack_writer_init(&writer, request, sizeof request);
    pack_map(&writer, 3);
    pack_text(&writer, "v");
    pack_u64(&writer, REQUEST_PROTOCOL_VERSION);
    pack_text(&writer, "id");
    pack_u64(&writer, 1);
    pack_text(&writer, "op");
    pack_text(&writer, op);
    const struct relayed relayed = {.token = {token}, .request = request, .request_bytes = writer.used_bytes};
    size_t bytes = relayed_pack(&relayed, out);
    assert_true(bytes > 0);
    return bytes;
}

/* Asks; true if there is a reply. */
static bool ask(struct daemon *daemon, uint8_t token, const char *op, struct relayed_reply *out)
{
    static uint8_t answer[RELAYED_REQUEST_BYTES + 64];
    uint8_t bytes[RELAYED_QUESTION_BYTES];
    struct pack_writer writer;
    struct pack_reader reader;
    const uint8_t *reply;
    uint64_t sequence;
    size_t count, question_bytes = question(token, op, bytes);
    pack_writer_init(&writer, answer, sizeof answer);
    assert_int_equal(relay_answer(daemon->relay, bytes, question_bytes, &writer), 0);
    pack_reader_init(&reader, answer, writer.used_bytes);
    if (!bulk_wire_entry_read(&reader, &sequence, &reply, &count)) {
        return false;
    }
    assert_int_equal(relayed_reply_read(reply, count, out), 0);
    return true;
}

static void a_request_is_carried_out_once_and_its_reply_kept(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_new();
    struct relayed_reply reply;
    assert_false(ask(daemon, 1, "evict", &reply));
    assert_false(ask(daemon, 1, "evict", &reply)); /* not carried out yet */
    relay_process(daemon, 1000);
    assert_int_equal(daemon->api->client_count, 1);
    for (int i = 0; i < 3; i++) {
        assert_true(ask(daemon, 1, "evict", &reply));
        relay_process(daemon, 1000);
        assert_int_equal(daemon->api->client_count, 1);
    }
    assert_false(ask(daemon, 2, "evict", &reply)); /* another one */
    relay_process(daemon, 2000);
    assert_true(ask(daemon, 2, "evict", &reply));
    relay_process(daemon, 1000 + KEPT_MS);
    assert_int_equal(daemon->api->client_count, 1);
    assert_true(ask(daemon, 2, "evict", &reply));
    daemon_free(daemon);
}

static void only_what_any_member_may_ask_is_taken(void **state)
{
    (void)state;
    static const char *const others[] = {"evict",      "leave",       "submit", "status",
                                         "login_code", "worker_open", "",       "withholds"};
    struct daemon *daemon = daemon_new();
    struct relayed_reply reply;
    for (uint8_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_false(ask(daemon, i + 1, others[i], &reply));
        relay_process(daemon, 1000);
        assert_true(ask(daemon, i + 1, others[i], &reply));
        assert_true(!reply.ok && reply.code == EXIT_REFUSED);
    }
    assert_false(ask(daemon, 100, "node_login_code", &reply)); /* taken, but this node has no door */
    relay_process(daemon, 1000);
    assert_true(ask(daemon, 100, "node_login_code", &reply));
    assert_true(!reply.ok && memmem(reply.error, reply.error_bytes, "no door for other machines", 26) != NULL);
    daemon_free(daemon);
}

static void too_many_requests_are_refused(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_new();
    uint8_t bytes[RELAYED_QUESTION_BYTES], answer[64];
    struct pack_writer writer;
    int code = 0, taken = 0;
    for (; taken < 200 && code == 0; taken++) {
        size_t count = question((uint8_t)taken, "evict", bytes);
        pack_writer_init(&writer, answer, sizeof answer);
        code = relay_answer(daemon->relay, bytes, count, &writer);
    }
    assert_int_equal(code, ERR_MEMORY);
    pack_writer_init(&writer, answer, sizeof answer);
    assert_int_equal(relay_answer(daemon->relay, (const uint8_t *)"\xc0", 1, &writer), ERR_MALFORMED);
    relay_process(daemon, 1000);
    relay_process(daemon, 1000 + KEPT_MS);
    assert_int_equal(daemon->api->client_count, 0);
    assert_int_equal(relay_answer(daemon->relay, bytes, question(1, "evict", bytes), &writer), 0);
    daemon_free(daemon);
}

static void a_reply_has_to_be_whole(void **state)
{
    (void)state;
    uint8_t bytes[256], copied[256];
    struct pack_writer writer;
    struct pack_reader reader;
    struct relayed_reply reply;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 5);
    pack_text(&writer, "id");
    pack_u64(&writer, 1);
    pack_text(&writer, "ok");
    pack_bool(&writer, true);
    pack_text(&writer, "end");
    pack_bool(&writer, true);
    pack_text(&writer, "slots");
    pack_array(&writer, 2);
    pack_u64(&writer, 1);
    pack_u64(&writer, 2);
    pack_text(&writer, "stored_on");
    pack_u64(&writer, 2);
    assert_int_equal(relayed_reply_read(bytes, writer.used_bytes, &reply), 0);
    assert_true(reply.ok && reply.pairs == 2);
    for (size_t cut = 0; cut < writer.used_bytes; cut++) {
        assert_int_equal(relayed_reply_read(bytes, cut, &reply), ERR_MALFORMED);
    }
    bytes[writer.used_bytes] = 0;
    assert_int_equal(relayed_reply_read(bytes, writer.used_bytes + 1, &reply), ERR_MALFORMED);
    size_t count = writer.used_bytes;
    pack_writer_init(&writer, copied, sizeof copied);
    pack_map(&writer, 2);
    relayed_reply_copy(bytes, count, &writer);
    pack_reader_init(&reader, copied, writer.used_bytes);
    struct pack_reader stored_on = pack_find(&reader, "stored_on");
    assert_int_equal(pack_read_u64(&stored_on), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_carried_out_once_and_its_reply_kept),
        cmocka_unit_test(only_what_any_member_may_ask_is_taken),
        cmocka_unit_test(too_many_requests_are_refused),
        cmocka_unit_test(a_reply_has_to_be_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
