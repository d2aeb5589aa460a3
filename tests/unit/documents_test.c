/* Documents on their way to clients: part by part, as the turns of the loop have time for them and as the clients take
 * them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/daemon/api/documents.h"
#include "tests/unit/facts_make.h"

#define PARTS 5
#define BYTES (16u << 20)

/* A client that counts what it gets. */
struct listener {
    struct client client; /* first */
    uint32_t count, last_from;
    bool is_slow, has_end;
};

static void reply(struct client *client, const uint8_t *bytes, size_t count)
{
    struct listener *listener = (struct listener *)client;
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    struct pack_reader end = pack_find(&reader, "end"), more = pack_find(&reader, "more"),
                       from = pack_find(&reader, "from");
    listener->count++;
    listener->has_end |= pack_read_bool(&end);
    listener->last_from = (uint32_t)pack_read_u64(&from);
    assert_false(from.failed);
    assert_int_equal(!more.failed, listener->last_from + 1 < PARTS);
}

static bool may_stream(const struct client *client)
{
    return !((const struct listener *)client)->is_slow;
}

static const struct client_door door = {.reply = reply, .may_stream = may_stream};

/* Writes its number, and takes more than a microsecond. */
static bool part(const struct node_core *core, const struct shown *shown, uint32_t *from, struct pack_writer *writer)
{
    (void)core;
    (void)shown;
    for (uint64_t since = daemon_now_us(); daemon_now_us() <= since + 1;) {
    }
    pack_text(writer, "from");
    pack_u64(writer, (*from)++);
    return *from < PARTS;
}

/* A daemon whose core nobody asks but for whether it is syncing. */
struct ground {
    struct daemon daemon;
    struct daemon_api api;
    void *memory;
};

static struct ground *ground_new(void)
{
    struct ground *ground = calloc(1, sizeof *ground);
    ground->daemon.api = &ground->api;
    ground->memory = aligned_alloc(16, BYTES);
    struct person self = make_person(0);
    struct node_options options = {.self = self.id,
                                   .mesh = make_mesh(),
                                   .boot = (uint64_t)1 << 32,
                                   .seed = 1,
                                   .now_ms = 1000,
                                   .node = make_node(&self, 1),
                                   .memory = ground->memory,
                                   .memory_bytes = BYTES};
    memcpy(options.public_key, self.public_key, sizeof options.public_key);
    ground->daemon.core = node_core_init(&options);
    assert_non_null(ground->daemon.core);
    return ground;
}

static void ground_free(struct ground *ground)
{
    documents_close(&ground->daemon);
    free(ground->memory);
    free(ground);
}

static const struct document plain = {.part = part, .end = true};

static void a_document_goes_out_part_by_part(void **state)
{
    (void)state;
    struct ground *ground = ground_new();
    struct listener listener = {.count = 0};
    client_add(&ground->daemon, &listener.client, &door);
    documents_send(&ground->daemon, &listener.client, 9, &plain);
    assert_true(listener.count == 1 && documents_has(&ground->daemon, &listener.client, 9));
    assert_false(documents_has(&ground->daemon, &listener.client, 8));
    assert_true(documents_tick(&ground->daemon, 0)); /* a turn without time */
    assert_int_equal(listener.count, 1);
    while (documents_tick(&ground->daemon, UINT64_MAX)) {
    }
    assert_true(listener.count == PARTS && listener.has_end && listener.last_from == PARTS - 1);
    assert_false(documents_has(&ground->daemon, &listener.client, 9));
    ground_free(ground);
}

static void a_client_that_does_not_read_holds_up_no_other(void **state)
{
    (void)state;
    struct ground *ground = ground_new();
    struct listener slow = {.is_slow = true}, other = {.count = 0}, gone = {.count = 0};
    client_add(&ground->daemon, &slow.client, &door);
    client_add(&ground->daemon, &other.client, &door);
    client_add(&ground->daemon, &gone.client, &door);
    documents_send(&ground->daemon, &slow.client, 1, &plain);
    documents_send(&ground->daemon, &gone.client, 1, &plain);
    documents_send(&ground->daemon, &other.client, 1, &plain);
    gone.client.broken = true;
    for (int i = 0; i < 2 * PARTS; i++) {
        (void)documents_tick(&ground->daemon, UINT64_MAX);
    }
    assert_true(other.count == PARTS && slow.count == 1 && gone.count == 1);
    assert_false(documents_tick(&ground->daemon, UINT64_MAX)); /* what waits for a client is no work */
    slow.is_slow = false;
    while (documents_tick(&ground->daemon, UINT64_MAX)) {
    }
    assert_int_equal(slow.count, PARTS);
    ground_free(ground);
}

static void a_first_part_comes_before_later_ones(void **state)
{
    (void)state;
    struct ground *ground = ground_new();
    struct listener early = {.count = 0}, late = {.count = 0};
    client_add(&ground->daemon, &early.client, &door);
    client_add(&ground->daemon, &late.client, &door);
    documents_send(&ground->daemon, &early.client, 1, &plain);
    ground->api.spent_us = DOCUMENTS_TURN_US; /* this turn has done enough */
    documents_send(&ground->daemon, &late.client, 1, &plain);
    assert_int_equal(late.count, 0);
    while (late.count == 0) { /* one part at a time */
        (void)documents_tick(&ground->daemon, daemon_now_us() + 1);
        assert_int_equal(early.count, 1);
    }
    ground_free(ground);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_document_goes_out_part_by_part),
        cmocka_unit_test(a_client_that_does_not_read_holds_up_no_other),
        cmocka_unit_test(a_first_part_comes_before_later_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
