/* shoal open and shoal token: what is sent, and what is said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/document.h"
#include "tests/unit/cli_fixture.h"
#include "tools/shoal/cli.h"

#define CODE "00112233445566778899aabbccddeeff"
#define LINK "http://127.0.0.1:7412/login?code=" CODE
#define LOGIN "\"ok\":true,\"end\":true,\"address\":\"http://127.0.0.1:7412\",\"code\":\"" CODE "\",\"expires_s\":60"

static void a_link_goes_to_what_was_named(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"ls", {EXPERIMENTS}, NULL}, {"login_code", {LOGIN}, NULL}, {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("open", "--print"), CLI_DONE);
    assert_string_equal(out_text, LINK "\n");
    msgpack_object request = last_request();
    assert_true(document_has(&request, "read_only"));
    assert_false(document_true(&request, "read_only"));
    assert_int_equal(RUN("open", "mlp", "--read-only"), CLI_DONE);
    assert_string_equal(out_text, LINK "#/experiments/a1b2c3d4e5f60718\n");
    request = last_request();
    assert_true(document_true(&request, "read_only"));
    assert_int_equal(RUN("open", "mlp/3"), CLI_DONE);
    assert_string_equal(out_text, LINK "#/experiments/a1b2c3d4e5f60718/trials/3\n");
    assert_int_equal(RUN("open", "mlp/3", "--json"), CLI_DONE);
    assert_string_equal(out_text, "{\"url\":\"" LINK "#/experiments/a1b2c3d4e5f60718/trials/3\",\"expires_s\":60}\n");
    fake_stop();
    assert_string_equal(fake.ops, "login_code ls login_code ls login_code ls login_code ");
}

static void what_cannot_be_opened_gets_no_link(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"ls", {EXPERIMENTS}, NULL},
        {"login_code", {"\"ok\":false,\"end\":true,\"code\":1,\"error\":\"This node has no HTTP door now.\""}, NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("open", "nothing"), CLI_NO_SUCH_THING);
    assert_int_equal(RUN("open", "twice"), CLI_REFUSED);
    assert_int_equal(RUN("open"), CLI_REFUSED);
    assert_sentence("This node has no HTTP door now.");
    assert_string_equal(out_text, "");
    assert_int_equal(RUN("open", "mlp", "mlp"), CLI_USAGE);
    fake_stop();
}

static void prometheus_is_told_of_doors_that_it_can_reach(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"scrape_targets",
         {"\"ok\":true,\"end\":true,\"targets\":[{\"targets\":[\"127.0.0.1:7412\"],\"labels\":{\"node\":\"alder\"}}],"
          "\"others\":[\"birch\"]"},
         NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("scrape-config"), CLI_DONE);
    assert_non_null(strstr(out_text, "scrape_configs:\n  - job_name: shoal\n"));
    assert_non_null(strstr(out_text, "      - targets: [\"127.0.0.1:7412\"]\n        labels: {\"node\": \"alder\"}\n"));
    assert_non_null(strstr(out_text, "      # birch: "));
    assert_int_equal(RUN("scrape-config", "--json"), CLI_DONE);
    assert_string_equal(out_text, "[{\"targets\": [\"127.0.0.1:7412\"], \"labels\": {\"node\": \"alder\"}}]\n");
    fake_stop();
    static const struct answer none[] = {
        {"scrape_targets", {"\"ok\":true,\"end\":true,\"targets\":[],\"others\":[\"birch\"]"}, NULL}, {NULL, {NULL}, NULL}};
    fake_start(none);
    assert_int_equal(RUN("scrape-config"), CLI_REFUSED);
    assert_sentence("no HTTP door now");
    fake_stop();
}

/* The browser's starter: writes down what it was called with, and what lies there. */
static void put_opener(void)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/xdg-open", root);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fprintf(file,
                  "#!/bin/sh\necho \"$@\" >%s/words\n/usr/bin/stat -c %%a \"$1\" >>%s/words\n/bin/cat \"$1\" "
                  ">>%s/words\n/bin/mv %s/words %s/seen\n",
                  root, root, root, root, root);
    (void)fclose(file);
    assert_int_equal(chmod(path, 0700), 0);
}

static void a_browser_gets_the_link_by_a_file_that_only_its_owner_reads(void **state)
{
    (void)state;
    char seen[128], page[128];
    static const struct answer answers[] = {{"login_code", {LOGIN}, NULL}, {NULL, {NULL}, NULL}};
    put_opener();
    char *path = strdup(getenv("PATH"));
    assert_int_equal(setenv("PATH", root, 1), 0);
    assert_int_equal(setenv("DISPLAY", ":0", 1), 0);
    (void)snprintf(seen, sizeof seen, "%s/seen", root);
    (void)snprintf(page, sizeof page, "%s/open.html", root);
    FILE *trap = fopen(page, "w"); /* one of an earlier time that all can read */
    assert_non_null(trap);
    (void)fclose(trap);
    assert_int_equal(chmod(page, 0666), 0);
    fake_start(answers);
    assert_int_equal(RUN("open", "--print"), CLI_DONE);
    assert_int_equal(RUN("open", "--json"), CLI_DONE);
    assert_int_not_equal(access(seen, F_OK), 0);
    assert_int_equal(RUN("open"), CLI_DONE);
    assert_string_equal(out_text, LINK "\n");
    for (int i = 0; i < 1000 && access(seen, F_OK) != 0; i++) {
        (void)usleep(10000);
    }
    const char *text = read_text(seen);
    assert_int_equal(strncmp(text, page, strlen(page)), 0);
    const char *mode = strchr(text, '\n');
    assert_int_equal(strncmp(mode, "\n600\n", 5), 0);
    assert_null(memmem(text, (size_t)(mode - text), CODE, 32)); /* every account reads command lines */
    assert_has(mode, "url=" LINK "\"");
    fake_stop();
    assert_int_equal(setenv("PATH", path, 1), 0);
    assert_int_equal(unsetenv("DISPLAY"), 0);
    free(path);
}

static void a_token_is_shown_alone_so_that_a_script_can_take_it(void **state)
{
    (void)state;
    static const struct answer answers[] = {{"token_create",
                                             {"\"ok\":true,\"end\":true,\"token_id\":\"a1b2c3d4e5f60718\",\"token\":\"shoal_"
                                              "00ff\",\"expires_s\":1763700000,\"stored_on\":2,\"nodes_alive\":2"},
                                             NULL},
                                            {NULL, {NULL}, NULL}};
    char text[64];
    fake_start(answers);
    assert_int_equal(RUN("token", "create", "--name", "prometheus", "--read-only", "--expires", "30d"), CLI_DONE);
    assert_string_equal(out_text, "shoal_00ff\n");
    msgpack_object request = last_request();
    document_text(&request, "name", text, sizeof text);
    assert_string_equal(text, "prometheus");
    assert_true(document_true(&request, "read_only"));
    assert_int_equal(document_number(&request, "expires_s"), 30 * 86400);
    assert_int_equal(RUN("token", "create", "--name", "ci"), CLI_DONE);
    request = last_request();
    assert_false(document_true(&request, "read_only"));
    assert_int_equal(document_number(&request, "expires_s"), 90 * 86400);
    assert_int_equal(RUN("token", "create", "--name", "ci", "--json"), CLI_DONE);
    assert_has(out_text, "\"token\": \"shoal_00ff\"");
    fake_stop();
    assert_string_equal(fake.ops, "token_create token_create token_create ");
    assert_int_equal(RUN("token", "create"), CLI_USAGE);
    assert_sentence("a token needs --name NAME");
    assert_int_equal(RUN("token", "create", "--name", ""), CLI_USAGE);
    assert_int_equal(RUN("token", "create", "--name", "ci", "--expires", "0d"), CLI_USAGE);
    assert_int_equal(RUN("token", "create", "--name", "ci", "--expires", "4000d"), CLI_USAGE);
    assert_int_equal(RUN("token", "create", "--name", "ci", "--expires", "soon"), CLI_USAGE);
    assert_sentence("--expires soon is no time");
}

static void tokens_are_listed_and_one_is_revoked(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"tokens",
         {"\"ok\":true,\"end\":true,\"tokens\":[{\"id\":\"a1b2c3d4e5f60718\",\"name\":\"prom\\u001bheus\",\"writer_label\":"
          "\"alpha\",\"state\":\"good\","
          "\"read_only\":true,\"created_s\":1763600000,\"expires_s\":1763700000},{\"id\":\"00000000000000ff\",\"name\":"
          "\"ci\",\"writer_label\":\"\","
          "\"state\":\"revoked\",\"read_only\":false,\"created_s\":1763600000,\"expires_s\":1763700000}]"},
         NULL},
        {"token_revoke",
         {"\"ok\":true,\"end\":true,\"token_id\":\"a1b2c3d4e5f60718\",\"stored_on\":1,\"nodes_alive\":2"},
         NULL},
        {NULL, {NULL}, NULL}};
    char text[64];
    fake_start(answers);
    assert_int_equal(RUN("token", "ls"), CLI_DONE);
    assert_has(out_text, "ID                NAME       RIGHTS  STATE    EXPIRES");
    assert_has(out_text, "a1b2c3d4e5f60718  prom?heus  read    good     20"); /* no name steers the terminal */
    assert_has(out_text, "00000000000000ff  ci         all     revoked  20");
    assert_int_equal(RUN("token", "revoke", "a1b2"), CLI_DONE);
    assert_string_equal(out_text, "a1b2c3d4e5f60718 revoked, stored on 1 node\n");
    msgpack_object request = last_request();
    document_text(&request, "token", text, sizeof text);
    assert_string_equal(text, "a1b2");
    assert_int_equal(RUN("token", "ls", "--json"), CLI_DONE);
    assert_has(out_text, "\"state\": \"revoked\"");
    assert_int_equal(RUN("token", "revoke"), CLI_USAGE);
    assert_int_equal(RUN("token"), CLI_USAGE);
    fake_stop();
}

#define NODE_ROW(id, name, https)                                                                                       \
    "{\"id\":\"" id "\",\"name\":\"" name "\",\"label\":\"" name "\",\"address\":\"127.0.0.1:7410\",\"state\":\"alive\",\"https\":" https \
    "}"
#define ID_OF(digit) digit "0000000000000000000000000000000"

static void a_door_that_cannot_be_trusted_leaves_no_file(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"nodes",
         {"\"ok\":true,\"end\":true,\"nodes\":[" NODE_ROW(ID_OF("1"), "alder", "null") "," NODE_ROW(
             ID_OF("2"), "birch", "{\"address\":\"127.0.0.1:1\",\"certificate\":\"00\"}") "," NODE_ROW(
             ID_OF("3"), "cedar", "{\"address\":\"$(reboot):7412\",\"certificate\":\"00\"}") "]"},
         NULL},
        {NULL, {NULL}, NULL}};
    char path[128];
    (void)snprintf(path, sizeof path, "%s/door.pem", root);
    fake_start(answers);
    assert_int_equal(RUN("connect", "nobody", "--out", path), CLI_NO_SUCH_THING);
    assert_int_equal(RUN("connect", "alder", "--out", path), CLI_REFUSED);
    assert_sentence("alder has no door for other machines");
    assert_int_equal(RUN("connect", "birch", "--out", path), CLI_REFUSED); /* nobody listens there */
    assert_int_equal(RUN("connect", "cedar", "--out", path), CLI_REFUSED);
    assert_sentence("cedar tells no address of its door");
    assert_int_equal(RUN("open", "--node", "birch"), CLI_REFUSED);
    assert_int_equal(RUN("open", "--node", "cedar", "--print"), CLI_REFUSED);
    assert_int_equal(RUN("open", "--node", "alder"), CLI_REFUSED);
    assert_sentence("alder has no door for other machines; start its shoald with --http 0.0.0.0:7412, or come through ssh -L");
    assert_int_equal(RUN("open", "--node", "nobody"), CLI_NO_SUCH_THING);
    assert_string_equal(out_text, "");
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(RUN("connect"), CLI_USAGE);
    fake_stop();
    assert_null(strstr(fake.ops, "node_login_code")); /* no code is made for a door that was not reached */
}

static void sessions_are_listed_and_ended(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"sessions",
         {"\"ok\":true,\"end\":true,\"sessions\":[{\"id\":\"a1b2c3d4e5f60718\",\"created_s\":1763600000,\"expires_s\":1763700000,"
          "\"read_only\":true,\"is_own\":false}]"},
         NULL},
        {"session_revoke", {"\"ok\":true,\"end\":true,\"ended\":2"}, NULL},
        {NULL, {NULL}, NULL}};
    char text[64];
    fake_start(answers);
    assert_int_equal(RUN("session", "ls"), CLI_DONE);
    assert_has(out_text, "ID                RIGHTS  BEGAN");
    assert_has(out_text, "a1b2c3d4e5f60718  read    20");
    assert_int_equal(RUN("session", "revoke", "a1b2"), CLI_DONE);
    msgpack_object request = last_request();
    document_text(&request, "session", text, sizeof text);
    assert_string_equal(text, "a1b2");
    assert_int_equal(RUN("session", "revoke", "--all"), CLI_DONE);
    assert_string_equal(out_text, "2 sessions ended\n");
    request = last_request();
    assert_true(document_true(&request, "all"));
    assert_int_equal(RUN("session", "revoke"), CLI_USAGE);
    assert_int_equal(RUN("session", "revoke", "a1b2", "--all"), CLI_USAGE);
    fake_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_link_goes_to_what_was_named, stop_what_runs),
        cmocka_unit_test_teardown(prometheus_is_told_of_doors_that_it_can_reach, stop_what_runs),
        cmocka_unit_test_teardown(what_cannot_be_opened_gets_no_link, stop_what_runs),
        cmocka_unit_test_teardown(a_browser_gets_the_link_by_a_file_that_only_its_owner_reads, stop_what_runs),
        cmocka_unit_test_teardown(a_token_is_shown_alone_so_that_a_script_can_take_it, stop_what_runs),
        cmocka_unit_test_teardown(tokens_are_listed_and_one_is_revoked, stop_what_runs),
        cmocka_unit_test_teardown(a_door_that_cannot_be_trusted_leaves_no_file, stop_what_runs),
        cmocka_unit_test_teardown(sessions_are_listed_and_ended, stop_what_runs),
    };
    (void)unsetenv("DISPLAY");
    (void)unsetenv("WAYLAND_DISPLAY");
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
