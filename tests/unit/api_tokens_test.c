/* What a request by the HTTP door may do: the rights of tokens and of sessions, for each row of the daemon's table. */
#include <poll.h>
#include <setjmp.h>
#include <sodium.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/daemon/api/sessions.h"
#include "node/daemon/api/tokens.h"
#include "tests/scenario/core_story.h"

#define HEX64 "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define FULL "shoal_f" HEX64
#define READ "shoal_r" HEX64

/* ---- the clocks of the daemon ------------------------------------------------------------------------------------ */

static uint64_t now_ms = 5000, wall_ms = 1763700000000;

uint64_t __wrap_daemon_now_ms(void);
uint64_t __wrap_daemon_now_ms(void)
{
    return now_ms;
}

uint64_t __wrap_daemon_wall_ms(void);
uint64_t __wrap_daemon_wall_ms(void)
{
    return wall_ms;
}

/* ---- a daemon with a core, and the door's end of a connection ---------------------------------------------------- */

struct heard {
    struct client client;
    uint32_t count;
    size_t bytes;
    uint8_t last[4096];
};

static void take_reply(struct client *client, const uint8_t *bytes, size_t count)
{
    struct heard *heard = (struct heard *)client;
    assert_true(count <= sizeof heard->last);
    memcpy(heard->last, bytes, count);
    heard->bytes = count;
    heard->count++;
}

static void take_reply_file(struct client *client, const uint8_t *bytes, size_t count, int fd)
{
    (void)client;
    (void)bytes;
    (void)count;
    (void)fd;
    fail();
}

static int give_file(struct client *client)
{
    (void)client;
    return -1;
}

static bool may_stream(const struct client *client)
{
    (void)client;
    return true;
}

static const struct client_door door = {take_reply, take_reply_file, give_file, may_stream};

static struct world *world;
static struct daemon *keeper;
static struct heard guest;
static char directory[64];

static void hash_token(const char *text, uint8_t out[HASH_BYTES])
{
    (void)crypto_generichash(out, HASH_BYTES, (const uint8_t *)text, strlen(text), NULL, 0);
}

static void add_token(const char *text, bool read_only)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = NODE_REQUEST_TOKEN;
    event.u.request.client = 5;
    hash_token(text, event.u.request.public_key);
    event.u.request.expires_s = node_core_mesh_wall_s(world->nodes[0].core) + 3600;
    event.u.request.read_only = read_only;
    bytes_copy_text(event.u.request.label, sizeof event.u.request.label, read_only ? "reader" : "writer");
    world_step(world, 0, &event);
    world_run(world, 1000);
}

static int begin(void **state)
{
    (void)state;
    world = world_new(1, 1);
    world_start_all(world);
    add_token(FULL, false);
    add_token(READ, true);
    keeper = calloc(1, sizeof *keeper);
    keeper->api = calloc(1, sizeof *keeper->api);
    keeper->lines = calloc(DAEMON_EVENTS_MAX, sizeof *keeper->lines);
    keeper->options.quiet = true;
    keeper->options.http = "127.0.0.1:0";
    keeper->core = world->nodes[0].core;
    memset(keeper->keys.sign_secret, 9, sizeof keeper->keys.sign_secret);
    memset(&guest, 0, sizeof guest);
    client_add(keeper, &guest.client, &door);
    guest.client.is_guest = true;
    keeper->api->http_port = 7412;
    (void)snprintf(keeper->http_address, sizeof keeper->http_address, "http://127.0.0.1:7412");
    char error[256];
    (void)snprintf(directory, sizeof directory, "/tmp/shoal-tokens-XXXXXX");
    assert_non_null(mkdtemp(directory));
    assert_int_equal(state_open(directory, &keeper->state, error, sizeof error), 0);
    assert_int_equal(jobs_open("sessions", &keeper->persist_jobs), 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    char command[128];
    client_remove(keeper, &guest.client);
    jobs_close(&keeper->persist_jobs, keeper);
    state_close(&keeper->state);
    (void)snprintf(command, sizeof command, "rm -r %s", directory);
    assert_int_equal(system(command), 0);
    free(keeper->lines);
    free(keeper->api);
    free(keeper);
    world_free(world);
    return 0;
}

/* A request with this secret (NULL: none) and one more text argument (NULL: none). */
static struct request *make_request(const char *op, const char *secret, const char *key, const char *value)
{
    static uint8_t bytes[2048];
    static struct request request;
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 3u + (secret != NULL) + (key != NULL));
    pack_text(&writer, "v");
    pack_u64(&writer, REQUEST_PROTOCOL_VERSION);
    pack_text(&writer, "id");
    pack_u64(&writer, 1);
    pack_text(&writer, "op");
    pack_text(&writer, op);
    if (secret != NULL) {
        pack_text(&writer, "auth");
        pack_text(&writer, secret);
    }
    if (key != NULL) {
        pack_text(&writer, key);
        pack_text(&writer, value);
    }
    assert_int_equal(request_read(bytes, writer.used_bytes, &request), 0);
    return &request;
}

static uint64_t code_heard(void)
{
    struct pack_reader map;
    uint64_t code = 0;
    pack_reader_init(&map, guest.last, guest.bytes);
    struct pack_reader ok = pack_find(&map, "ok");
    return pack_read_bool(&ok) ? 0 : request_u64(&map, "code", &code) ? code : 99;
}

static void text_heard(const char *key, char *out, size_t size)
{
    struct pack_reader map;
    pack_reader_init(&map, guest.last, guest.bytes);
    assert_true(request_text(&map, key, out, size));
}

/* 0: the guest may, else the code that it got. */
static uint64_t admit(const char *op, const char *secret)
{
    const struct request *decoded = make_request(op, secret, NULL, NULL);
    struct client_request request = {
        .client = &guest.client, .id = decoded->id, .op = decoded->op, .op_bytes = decoded->op_bytes, .map = decoded->map};
    uint32_t before = guest.count;
    bool may = tokens_admit(keeper, &request, api_find(op, strlen(op)));
    assert_int_equal(guest.count - before, !may);
    return may ? 0 : code_heard();
}

static void ask(const char *op, const char *secret, const char *key, const char *value)
{
    const struct request *decoded = make_request(op, secret, key, value);
    uint32_t before = guest.count;
    api_take(keeper, &guest.client, decoded, 0);
    for (int i = 0; i < 5000 && guest.count == before; i++) { /* an answer that waits for the disk */
        struct pollfd wait = {.fd = jobs_fd(keeper->persist_jobs), .events = POLLIN};
        (void)poll(&wait, 1, 10);
        jobs_collect(keeper->persist_jobs, keeper);
    }
    assert_int_equal(guest.count, before + 1);
}

/* The secret of a new session, made as `shoal open` and a browser do. */
static void log_in(bool read_only, char session[256])
{
    char code[64];
    guest.client.is_guest = false;
    static uint8_t bytes[256];
    struct pack_writer writer;
    struct request request;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 4);
    pack_text(&writer, "v");
    pack_u64(&writer, REQUEST_PROTOCOL_VERSION);
    pack_text(&writer, "id");
    pack_u64(&writer, 1);
    pack_text(&writer, "op");
    pack_text(&writer, "login_code");
    pack_text(&writer, "read_only");
    pack_bool(&writer, read_only);
    assert_int_equal(request_read(bytes, writer.used_bytes, &request), 0);
    api_take(keeper, &guest.client, &request, 0);
    guest.client.is_guest = true;
    text_heard("code", code, sizeof code);
    ask("login", NULL, "code", code);
    assert_int_equal(code_heard(), 0);
    text_heard("session", session, 256);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void rights_are_those_of_the_token_for_every_request(void **state)
{
    (void)state;
    size_t count;
    const struct api_row *rows = api_rows(&count);
    char full[256], read[256];
    log_in(false, full);
    log_in(true, read);
    for (size_t i = 0; i < count; i++) {
        const char *op = rows[i].op;
        enum api_kind kind = rows[i].kind;
        bool is_open = kind == API_OPEN, reads = kind == API_READS || kind == API_OWN, changes = kind == API_CHANGES;
        assert_int_equal(admit(op, NULL), is_open ? 0 : EXIT_NO_TOKEN);
        assert_int_equal(admit(op, "shoal_x" HEX64), is_open ? 0 : EXIT_NO_TOKEN);
        assert_int_equal(admit(op, FULL), is_open || reads || changes ? 0 : EXIT_NO_RIGHTS);
        assert_int_equal(admit(op, READ), is_open || reads ? 0 : EXIT_NO_RIGHTS);
        assert_int_equal(admit(op, full), is_open || reads || changes ? 0 : EXIT_NO_RIGHTS);
        assert_int_equal(admit(op, read), is_open || reads ? 0 : EXIT_NO_RIGHTS);
    }
    assert_true(keeper->api->tokens_refused > 0);
}

static void a_worker_and_the_local_socket_are_not_reached(void **state)
{
    (void)state;
    static const char *const closed[] = {"login_code", "node_login_code", "searcher_turn", "exec", "forward", "worker_open", "worker_save", "worker_report"};
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++) {
        ask(closed[i], FULL, NULL, NULL);
        assert_int_equal(code_heard(), EXIT_NO_RIGHTS);
        ask(closed[i], NULL, NULL, NULL);
        assert_int_equal(code_heard(), EXIT_NO_TOKEN);
    }
}

static void a_text_that_is_no_token_opens_nothing(void **state)
{
    (void)state;
    char longer[512];
    memset(longer, 'a', sizeof longer);
    memcpy(longer, FULL, strlen(FULL));
    longer[sizeof longer - 1] = '\0';
    static const char *const texts[] = {"",
                                        "shoal_",
                                        "session_",
                                        "shoal_f",
                                        HEX64,
                                        "SHOAL_f" HEX64,
                                        " shoal_f" HEX64,
                                        "shoal_f" HEX64 " ",
                                        "shoal_f" HEX64 "0",
                                        "session_" HEX64,
                                        "session_00",
                                        "\xff\xfe",
                                        "shoal_\xff"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        uint64_t before = keeper->api->tokens_refused;
        assert_int_equal(admit("status", texts[i]), EXIT_NO_TOKEN);
        assert_int_equal(keeper->api->tokens_refused, before + 1);
    }
    assert_int_equal(admit("status", longer), EXIT_NO_TOKEN);
}

static void a_session_that_is_changed_in_one_bit_is_none(void **state)
{
    (void)state;
    char session[256], forged[256];
    log_in(true, session);
    assert_int_equal(admit("status", session), 0);
    size_t bytes = strlen(session), prefix = strlen("session_");
    for (size_t i = prefix; i < bytes; i++) {
        memcpy(forged, session, sizeof forged);
        forged[i] = forged[i] == '0' ? '1' : '0';
        assert_int_equal(admit("status", forged), EXIT_NO_TOKEN);
    }
    memcpy(forged, session, sizeof forged);
    forged[bytes - 1] = '\0';
    assert_int_equal(admit("status", forged), EXIT_NO_TOKEN);
    (void)snprintf(forged, sizeof forged, "%.*s00", (int)bytes, session);
    assert_int_equal(admit("status", forged), EXIT_NO_TOKEN);
}

static void a_session_is_this_nodes_and_ends_after_a_week(void **state)
{
    (void)state;
    char session[256];
    log_in(false, session);
    uint64_t began_ms = wall_ms;
    wall_ms = began_ms + 1000 * (SESSIONS_LIFE_S - 1ull);
    assert_int_equal(admit("pause", session), 0);
    wall_ms = began_ms + 1000ull * SESSIONS_LIFE_S;
    assert_int_equal(admit("pause", session), EXIT_NO_TOKEN);
    wall_ms = began_ms;
    assert_int_equal(admit("pause", session), 0);
    keeper->keys.sign_secret[0] ^= 1; /* as another node */
    assert_int_equal(admit("pause", session), EXIT_NO_TOKEN);
}

static uint64_t number_heard(const char *key)
{
    struct pack_reader map;
    uint64_t number = 0;
    pack_reader_init(&map, guest.last, guest.bytes);
    assert_true(request_u64(&map, key, &number));
    return number;
}

/* How many sessions are listed; `*id` is that of the caller's. */
static uint32_t list_sessions(const char *secret, char id[32])
{
    struct pack_reader map;
    ask("sessions", secret, NULL, NULL);
    pack_reader_init(&map, guest.last, guest.bytes);
    struct pack_reader list = pack_find(&map, "sessions");
    uint32_t count = pack_read_array(&list);
    for (uint32_t i = 0; i < count; i++) {
        struct pack_reader row = list, own = pack_find(&list, "is_own");
        if (pack_read_bool(&own)) {
            assert_true(request_text(&row, "id", id, 32));
        }
        pack_skip(&list);
    }
    return count;
}

static void a_session_that_was_ended_is_none_for_ever(void **state)
{
    (void)state;
    char first[256], second[256], third[256], id[32] = "";
    log_in(false, first);
    log_in(true, second);
    log_in(false, third);
    assert_int_equal(list_sessions(second, id), 3);
    assert_int_equal(strlen(id), 16);
    ask("session_revoke", second, "session", id); /* it may read only */
    assert_int_equal(code_heard(), EXIT_NO_RIGHTS);
    ask("session_revoke", first, "session", "000");
    assert_int_not_equal(code_heard(), 0);
    ask("session_revoke", first, "session", id);
    assert_int_equal(code_heard(), 0);
    assert_int_equal(number_heard("ended"), 1);
    assert_int_equal(admit("status", second), EXIT_NO_TOKEN);
    assert_int_equal(admit("status", first), 0);
    ask("logout", first, NULL, NULL);
    assert_int_equal(code_heard(), 0);
    assert_int_equal(admit("status", first), EXIT_NO_TOKEN);
    ask("logout", FULL, NULL, NULL); /* a token is no session */
    assert_int_equal(code_heard(), EXIT_REFUSED);
    memset(keeper->api->sessions, 0, sizeof keeper->api->sessions); /* as a new daemon */
    sessions_load(keeper);
    assert_int_equal(admit("status", first), EXIT_NO_TOKEN);
    assert_int_equal(admit("status", second), EXIT_NO_TOKEN);
    assert_int_equal(admit("status", third), 0);
    assert_int_equal(list_sessions(third, id), 1);
}

static void of_many_sessions_the_oldest_gives_way(void **state)
{
    (void)state;
    char sessions[API_SESSIONS_MAX + 2][256], id[32];
    for (size_t i = 0; i < API_SESSIONS_MAX + 2; i++) {
        log_in(false, sessions[i]);
        wall_ms += 1000;
    }
    for (size_t i = 0; i < API_SESSIONS_MAX + 2; i++) {
        assert_int_equal(admit("status", sessions[i]), i < 2 ? EXIT_NO_TOKEN : 0);
    }
    assert_int_equal(list_sessions(sessions[2], id), API_SESSIONS_MAX);
}

static void wrong_tokens_are_told_once_a_minute(void **state)
{
    (void)state;
    uint64_t lines = keeper->line_seq;
    assert_int_equal(admit("status", NULL), EXIT_NO_TOKEN); /* nobody has guessed */
    assert_int_equal(keeper->line_seq, lines);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(admit("status", "shoal_x" HEX64), EXIT_NO_TOKEN);
    }
    assert_int_equal(keeper->line_seq, lines + 1);
    tokens_tick(keeper, now_ms + 59999);
    assert_int_equal(keeper->line_seq, lines + 1);
    tokens_tick(keeper, now_ms + 60000);
    tokens_tick(keeper, now_ms + 600000);
    assert_int_equal(keeper->line_seq, lines + 2);
}

static void a_link_works_once_and_for_a_minute(void **state)
{
    (void)state;
    char code[64], session[256];
    guest.client.is_guest = false;
    ask("login_code", NULL, NULL, NULL);
    text_heard("address", session, sizeof session);
    assert_string_equal(session, "http://127.0.0.1:7412");
    text_heard("code", code, sizeof code);
    guest.client.is_guest = true;
    ask("login", NULL, "code", "00000000000000000000000000000000");
    assert_int_equal(code_heard(), EXIT_NO_TOKEN);
    ask("login", NULL, "code", code);
    assert_int_equal(code_heard(), 0);
    ask("login", NULL, "code", code);
    assert_int_equal(code_heard(), EXIT_NO_TOKEN);

    guest.client.is_guest = false;
    ask("login_code", NULL, NULL, NULL);
    text_heard("code", code, sizeof code);
    guest.client.is_guest = true;
    now_ms += TOKENS_LOGIN_MS;
    ask("login", NULL, "code", code);
    assert_int_equal(code_heard(), EXIT_NO_TOKEN);
    static const char *const others[] = {"", "0", "zz", "0000000000000000000000000000000",
                                         "000000000000000000000000000000000"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        ask("login", NULL, "code", others[i]);
        assert_int_equal(code_heard(), EXIT_NO_TOKEN);
    }
}

static void of_many_links_the_latest_work(void **state)
{
    (void)state;
    char codes[API_LOGINS_MAX + 4][64];
    for (size_t i = 0; i < API_LOGINS_MAX + 4; i++) {
        guest.client.is_guest = false;
        now_ms++;
        ask("login_code", NULL, NULL, NULL);
        guest.client.is_guest = true;
        text_heard("code", codes[i], sizeof codes[i]);
    }
    for (size_t i = 0; i < API_LOGINS_MAX + 4; i++) {
        ask("login", NULL, "code", codes[i]);
        assert_int_equal(code_heard(), i < 4 ? EXIT_NO_TOKEN : 0);
    }
}

static void without_a_door_there_is_no_link(void **state)
{
    (void)state;
    keeper->http_address[0] = '\0';
    guest.client.is_guest = false;
    ask("login_code", NULL, NULL, NULL);
    assert_int_equal(code_heard(), EXIT_REFUSED);
    (void)snprintf(keeper->http_address, sizeof keeper->http_address, "http://[::1]:9");
    ask("login_code", NULL, NULL, NULL);
    char address[64];
    text_heard("address", address, sizeof address);
    assert_string_equal(address, "http://[::1]:9");
}

static void a_link_for_another_machine_needs_a_door_for_it(void **state)
{
    (void)state;
    uint64_t lines = keeper->line_seq;
    guest.client.is_guest = false;
    ask("node_login_code", NULL, NULL, NULL); /* the door listens on this machine only */
    assert_int_equal(code_heard(), EXIT_REFUSED);
    assert_int_equal(keeper->line_seq, lines);
    ask("node_login_code", NULL, "node", "00");
    assert_int_equal(code_heard(), EXIT_USAGE);
}

static void a_session_tells_what_its_bearer_may_do(void **state)
{
    (void)state;
    char text[256], session[256];
    log_in(true, session);
    static const struct {
        const char *secret, *name;
        bool read_only, is_session;
    } rows[] = {{FULL, "writer", false, false}, {READ, "reader", true, false}, {NULL, "", true, true}};
    for (size_t i = 0; i < 3; i++) {
        struct pack_reader map;
        ask("session", rows[i].secret != NULL ? rows[i].secret : session, NULL, NULL);
        assert_int_equal(code_heard(), 0);
        text_heard("token", text, sizeof text);
        assert_string_equal(text, rows[i].name);
        pack_reader_init(&map, guest.last, guest.bytes);
        assert_int_equal(request_flag(&map, "read_only"), rows[i].read_only);
        assert_int_equal(request_flag(&map, "is_session"), rows[i].is_session);
        uint64_t expires_s = 0;
        assert_true(request_u64(&map, "expires_s", &expires_s) && expires_s > 0);
    }
    ask("session", NULL, NULL, NULL);
    assert_int_equal(code_heard(), EXIT_NO_TOKEN);
}

static void the_list_names_tokens_and_no_secret(void **state)
{
    (void)state;
    uint8_t hash[HASH_BYTES];
    char id[17];
    ask("tokens", READ, NULL, NULL);
    struct pack_reader map;
    pack_reader_init(&map, guest.last, guest.bytes);
    struct pack_reader list = pack_find(&map, "tokens");
    assert_int_equal(pack_read_array(&list), 2);
    hash_token(FULL, hash);
    bytes_to_hex(id, hash, 8);
    assert_non_null(memmem(guest.last, guest.bytes, id, 16));
    assert_non_null(memmem(guest.last, guest.bytes, "writer", 6));
    assert_null(memmem(guest.last, guest.bytes, "shoal_", 6));
    assert_null(memmem(guest.last, guest.bytes, hash, HASH_BYTES));
}

static void an_id_that_is_no_tokens_revokes_nothing(void **state)
{
    (void)state;
    static const char *const ids[] = {"", "a", "000", "zzzz", "0000000000000000", "00000000000000000"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        ask("token_revoke", FULL, "token", ids[i]);
        assert_true(code_heard() == EXIT_NOT_FOUND || code_heard() == EXIT_USAGE);
    }
    ask("token_revoke", READ, "token", "0000");
    assert_int_equal(code_heard(), EXIT_NO_RIGHTS);
    assert_int_equal(admit("pause", FULL), 0);
}

static void a_token_needs_a_name_and_a_time(void **state)
{
    (void)state;
    char name[80];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    ask("token_create", FULL, NULL, NULL);
    assert_int_equal(code_heard(), EXIT_USAGE);
    ask("token_create", FULL, "name", "");
    assert_int_equal(code_heard(), EXIT_USAGE);
    ask("token_create", FULL, "name", name);
    assert_int_equal(code_heard(), EXIT_USAGE);
    ask("token_create", READ, "name", "more");
    assert_int_equal(code_heard(), EXIT_NO_RIGHTS);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rights_are_those_of_the_token_for_every_request),
        TEST(a_worker_and_the_local_socket_are_not_reached),
        TEST(a_text_that_is_no_token_opens_nothing),
        TEST(a_session_that_is_changed_in_one_bit_is_none),
        TEST(a_session_is_this_nodes_and_ends_after_a_week),
        TEST(a_session_that_was_ended_is_none_for_ever),
        TEST(of_many_sessions_the_oldest_gives_way),
        TEST(wrong_tokens_are_told_once_a_minute),
        TEST(a_link_works_once_and_for_a_minute),
        TEST(of_many_links_the_latest_work),
        TEST(without_a_door_there_is_no_link),
        TEST(a_link_for_another_machine_needs_a_door_for_it),
        TEST(a_session_tells_what_its_bearer_may_do),
        TEST(the_list_names_tokens_and_no_secret),
        TEST(an_id_that_is_no_tokens_revokes_nothing),
        TEST(a_token_needs_a_name_and_a_time),
    };
    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
