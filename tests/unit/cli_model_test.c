/* shoal model: what is sent, and what is said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/document.h"
#include "tests/unit/cli_fixture.h"
#include "tools/shoal/cli.h"

#define VERSION(number, claimed, trial)                                                                                 \
    "{\"kind\":\"version\",\"model\":\"net\",\"version\":" number ",\"claimed\":" claimed                                   \
    ",\"version_id\":\"0123456789abcdef\",\"created_ms\":1700000000000,\"experiment\":\"a1b2c3d4e5f60718\",\"trial\":" trial \
    ",\"step\":70,\"checkpoint\":\"00ff\",\"path\":\"\"}"
#define REGISTRY                                                                                                        \
    "\"ok\":true,\"end\":true,\"registry\":[{\"kind\":\"model\",\"model\":\"net\",\"created_ms\":1}," VERSION("1", "1", "0") "," VERSION( \
        "1423496", "1", "3") ",{\"kind\":\"tag\",\"model\":\"net\",\"version\":1,\"name\":\"team\",\"value\":\"shop\"},"                   \
                             "{\"kind\":\"alias\",\"model\":\"net\",\"version\":1,\"name\":\"champion\",\"value\":\"\"}]"
#define DONE "\"ok\":true,\"end\":true,\"model\":\"net\",\"stored_on\":2,\"nodes_alive\":2"

static void models_and_versions_are_tables(void **state)
{
    (void)state;
    static const struct answer answers[] = {{"models", {REGISTRY}, NULL}, {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("model", "ls"), CLI_DONE);
    assert_has(out_text, "champion: 1");
    assert_lacks(out_text, "a1b2c3d4e5f60718");
    assert_int_equal(RUN("model", "ls", "net"), CLI_DONE);
    assert_has(out_text, "a1b2c3d4e5f60718/0@70");
    assert_has(out_text, "1423496");
    assert_has(out_text, "was made in another part of the mesh");
    assert_has(out_text, "version 1: team = shop");
    msgpack_object request = last_request();
    char text[64];
    document_text(&request, "name", text, sizeof text);
    assert_string_equal(text, "net");
    fake_stop();
}

static void an_alias_is_set_and_taken_back(void **state)
{
    (void)state;
    static const struct answer answers[] = {{"model_alias", {DONE}, NULL}, {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("model", "alias", "net", "2", "champion"), CLI_DONE);
    assert_string_equal(out_text, "net@champion is version 2\n");
    msgpack_object request = last_request();
    assert_int_equal(document_number(&request, "version"), 2);
    assert_int_equal(RUN("model", "unalias", "net", "champion"), CLI_DONE);
    assert_string_equal(out_text, "net has no alias champion now\n");
    request = last_request();
    assert_true(document_true(&request, "remove"));
    assert_int_equal(RUN("model", "alias", "net", "two", "champion"), CLI_USAGE);
    assert_sentence("'two' is no version: versions are numbers");
    assert_int_equal(RUN("model", "alias", "net", "2", "v2"), CLI_USAGE);
    assert_sentence("'v2' is no alias");
    assert_int_equal(RUN("model", "alias", "a/b", "2", "champion"), CLI_USAGE);
    assert_sentence("'a/b' is no name of a model");
    fake_stop();
    assert_string_equal(fake.ops, "model_alias model_alias ");
}

static void a_version_or_a_model_is_removed(void **state)
{
    (void)state;
    static const struct answer answers[] = {{"model_rm", {DONE}, NULL}, {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("model", "rm", "net/3"), CLI_DONE);
    assert_string_equal(out_text, "net/3 is removed\n");
    msgpack_object request = last_request();
    assert_int_equal(document_number(&request, "version"), 3);
    assert_int_equal(RUN("model", "rm", "net"), CLI_DONE);
    request = last_request();
    assert_false(document_has(&request, "version"));
    typed = "n\n";
    assert_int_equal(RUN("model", "rm", "net"), CLI_REFUSED);
    assert_has(err_text_written, "Remove net with all of its versions?");
    typed = NULL;
    assert_int_equal(RUN("model", "rm", "net@champion"), CLI_USAGE);
    assert_sentence("give the number of the version; shoal model unalias net champion takes the alias back");
    fake_stop();
    assert_string_equal(fake.ops, "model_rm model_rm ");
}

static void what_is_not_there_is_not_got(void **state)
{
    (void)state;
    static const struct answer answers[] = {{"models", {REGISTRY}, NULL}, {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("model", "get", "net@nobody", "dir"), CLI_NO_SUCH_THING);
    assert_sentence("net has no such version; shoal model ls net lists versions and aliases");
    assert_int_equal(RUN("model", "get", "net/2", "dir"), CLI_NO_SUCH_THING);
    assert_int_equal(RUN("model", "get", "net/x", "dir"), CLI_USAGE);
    fake_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(models_and_versions_are_tables, stop_what_runs),
        cmocka_unit_test_teardown(an_alias_is_set_and_taken_back, stop_what_runs),
        cmocka_unit_test_teardown(a_version_or_a_model_is_removed, stop_what_runs),
        cmocka_unit_test_teardown(what_is_not_there_is_not_got, stop_what_runs),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
