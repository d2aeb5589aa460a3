/* The table of requests: what docs/wire.md names has one row each, and a door hears of everything that it cannot have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/daemon/api/table.h"
#include "node/daemon/workers/workers.h"

#define OPS_MAX 128

struct ops {
    size_t count;
    char names[OPS_MAX][32];
};

/* The names in backticks in the first cell of a row. */
static void take_row(const char *line, struct ops *ops)
{
    const char *end = strchr(line + 1, '|');
    for (const char *at = strchr(line, '`'); at != NULL && at < end; at = strchr(at, '`')) {
        const char *close = strchr(at + 1, '`');
        assert_non_null(close);
        assert_true(ops->count < OPS_MAX && (size_t)(close - at) < sizeof ops->names[0]);
        memcpy(ops->names[ops->count], at + 1, (size_t)(close - at - 1));
        ops->names[ops->count++][close - at - 1] = '\0';
        at = close + 1;
    }
}

static void read_documented(struct ops *ops)
{
    static char line[16384];
    bool is_section = false;
    FILE *file = fopen("docs/wire.md", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (line[0] == '#') {
            is_section = strncmp(line, "### Requests of ", 16) == 0;
        } else if (is_section && strncmp(line, "| `", 3) == 0) {
            take_row(line, ops);
        }
    }
    (void)fclose(file);
}

static void each_documented_operation_has_one_row(void **state)
{
    (void)state;
    struct ops *ops = calloc(1, sizeof *ops);
    read_documented(ops);
    size_t count;
    const struct api_row *rows = api_rows(&count);
    assert_int_equal(ops->count, count);
    for (size_t i = 0; i < ops->count; i++) {
        size_t found = 0;
        for (size_t r = 0; r < count; r++) {
            found += strcmp(rows[r].op, ops->names[i]) == 0;
        }
        if (found != 1) {
            fail_msg("%s has %zu rows", ops->names[i], found);
        }
        const struct api_row *row = api_find(ops->names[i], strlen(ops->names[i]));
        assert_non_null(row);
        assert_string_equal(row->op, ops->names[i]);
        assert_non_null(row->take);
        bool is_worker = strncmp(row->op, "worker_", 7) == 0;
        assert_true(is_worker == (row->kind == API_WORKER || row->kind == API_OPENS));
    }
    free(ops);
}

/* ---- a door ---------------------------------------------------------------------------------------------------------- */

struct heard {
    struct client client;
    uint32_t count;
    size_t bytes;
    uint8_t last[4096];
};

static void reply(struct client *client, const uint8_t *bytes, size_t count)
{
    struct heard *heard = (struct heard *)client;
    assert_true(count <= sizeof heard->last);
    memcpy(heard->last, bytes, count);
    heard->bytes = count;
    heard->count++;
}

static void send_file(struct client *client, const uint8_t *bytes, size_t count, int fd)
{
    (void)client;
    (void)bytes;
    (void)count;
    (void)fd;
    fail();
}

static int take_file(struct client *client)
{
    (void)client;
    return -1;
}

static bool may_stream(const struct client *client)
{
    (void)client;
    return true;
}

static const struct client_door door = {reply, send_file, take_file, may_stream};

static struct daemon *new_daemon(struct heard *heard)
{
    struct daemon *daemon = calloc(1, sizeof *daemon);
    daemon->api = calloc(1, sizeof *daemon->api);
    daemon->workers = calloc(1, sizeof *daemon->workers);
    daemon->lines = calloc(DAEMON_EVENTS_MAX, sizeof *daemon->lines);
    daemon->options.quiet = true;
    memset(heard, 0, sizeof *heard);
    client_add(daemon, &heard->client, &door);
    return daemon;
}

static void free_daemon(struct daemon *daemon, struct heard *heard)
{
    client_remove(daemon, &heard->client);
    assert_null(daemon->api->clients);
    free(daemon->lines);
    free(daemon->workers);
    free(daemon->api);
    free(daemon);
}

static void ask(struct daemon *daemon, struct heard *heard, uint64_t version, uint64_t id, const char *op)
{
    uint8_t bytes[256];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 3);
    pack_text(&writer, "v");
    pack_u64(&writer, version);
    pack_text(&writer, "id");
    pack_u64(&writer, id);
    pack_text(&writer, "op");
    pack_text(&writer, op);
    struct request request;
    int error = request_read(bytes, writer.used_bytes, &request);
    api_take(daemon, &heard->client, &request, error);
}

static void is_refused(const struct heard *heard, uint64_t id, uint64_t code, const char *begins)
{
    struct pack_reader map;
    pack_reader_init(&map, heard->last, heard->bytes);
    struct pack_reader ok = pack_find(&map, "ok"), end = pack_find(&map, "end");
    uint64_t number = 0;
    char text[256];
    assert_false(pack_read_bool(&ok));
    assert_true(pack_read_bool(&end));
    assert_true(request_u64(&map, "id", &number) && number == id);
    assert_true(request_u64(&map, "code", &number) && number == code);
    assert_true(request_text(&map, "error", text, sizeof text));
    assert_int_equal(strncmp(text, begins, strlen(begins)), 0);
}

static void an_unknown_operation_is_refused(void **state)
{
    (void)state;
    static struct heard heard;
    struct daemon *daemon = new_daemon(&heard);
    static const char *const unknown[] = {"nonsense", "", "statu", "status2", "worker_", "worker_close"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        assert_null(api_find(unknown[i], strlen(unknown[i])));
        ask(daemon, &heard, 1, 7 + i, unknown[i]);
        assert_int_equal(heard.count, i + 1);
        is_refused(&heard, 7 + i, EXIT_USAGE, "There is no request `");
    }
    ask(daemon, &heard, 1, 0, "nonsense"); /* without an id nobody waits for an answer: a line says so */
    assert_int_equal(heard.count, sizeof unknown / sizeof unknown[0]);
    assert_int_equal(daemon->line_seq, 1);
    free_daemon(daemon, &heard);
}

static void another_version_of_the_protocol_is_refused(void **state)
{
    (void)state;
    static struct heard heard;
    struct daemon *daemon = new_daemon(&heard);
    ask(daemon, &heard, 2, 5, "status");
    is_refused(&heard, 5, EXIT_USAGE, "This daemon speaks version 1");
    free_daemon(daemon, &heard);
}

static void only_a_workers_connection_has_a_workers_requests(void **state)
{
    (void)state;
    static struct heard heard;
    struct daemon *daemon = new_daemon(&heard);
    size_t count;
    const struct api_row *rows = api_rows(&count);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].kind == API_WORKER) {
            ask(daemon, &heard, 1, 1 + i, rows[i].op);
            is_refused(&heard, 1 + i, EXIT_REFUSED, "This connection belongs to no worker");
        }
    }
    free_daemon(daemon, &heard);
}

static void a_submit_without_a_file_is_refused(void **state)
{
    (void)state;
    static struct heard heard;
    struct daemon *daemon = new_daemon(&heard);
    ask(daemon, &heard, 1, 3, "submit");
    is_refused(&heard, 3, EXIT_USAGE, "The request to submit is malformed");
    free_daemon(daemon, &heard);
}

static void a_client_that_is_gone_or_broken_is_not_found(void **state)
{
    (void)state;
    static struct heard heard;
    struct daemon *daemon = new_daemon(&heard);
    uint64_t serial = heard.client.serial;
    assert_ptr_equal(client_find(daemon, serial), &heard.client);
    heard.client.broken = true;
    assert_null(client_find(daemon, serial));
    free_daemon(daemon, &heard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_documented_operation_has_one_row),
        cmocka_unit_test(an_unknown_operation_is_refused),
        cmocka_unit_test(another_version_of_the_protocol_is_refused),
        cmocka_unit_test(only_a_workers_connection_has_a_workers_requests),
        cmocka_unit_test(a_submit_without_a_file_is_refused),
        cmocka_unit_test(a_client_that_is_gone_or_broken_is_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
