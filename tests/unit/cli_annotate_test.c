/* shoal label, describe, archive, pin: what is sent, and what is said. */
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

#define NOTED "\"ok\":true,\"end\":true,\"experiment\":\"a1b2c3d4e5f60718\",\"stored_on\":2,\"nodes_alive\":2"

static void labels_are_set_one_by_one_and_taken_back_by_name(void **state)
{
    (void)state;
    static const struct answer answers[] = {{"ls", {EXPERIMENTS}, NULL}, {"label", {NOTED}, NULL}, {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("label", "mlp", "best", "lr=low=er"), CLI_DONE);
    assert_string_equal(out_text, "mlp (a1b2c3d4e5f60718) labelled, stored on 2 nodes\n");
    msgpack_object request = last_request();
    char text[64];
    document_text(&request, "label", text, sizeof text);
    assert_string_equal(text, "lr");
    document_text(&request, "value", text, sizeof text);
    assert_string_equal(text, "low=er");
    assert_false(document_true(&request, "remove"));
    assert_int_equal(RUN("label", "mlp", "lr", "--remove"), CLI_DONE);
    request = last_request();
    assert_true(document_true(&request, "remove"));
    assert_false(document_has(&request, "value"));
    assert_int_equal(RUN("label", "mlp", "=low"), CLI_USAGE);
    assert_sentence("=low names no label");
    assert_int_equal(RUN("label", "mlp", "lr=low", "--remove"), CLI_USAGE);
    assert_sentence("--remove takes the names of labels without their values, so lr");
    assert_int_equal(RUN("label", "mlp"), CLI_USAGE);
    fake_stop();
    assert_string_equal(fake.ops, "ls label label ls label ");
}

static void one_that_is_refused_keeps_no_other_from_being_pinned(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"ls", {EXPERIMENTS}, NULL}, {"pin", {NOTED}, NULL}, {"archive", {"\"ok\":false,\"code\":1,\"error\":\"It runs.\""}, NULL},
        {"describe", {NOTED}, NULL}, {"describe_trial", {NOTED}, NULL}, {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("pin", "mlp", "0123456789abcdef"), CLI_DONE);
    assert_string_equal(out_text, "mlp (a1b2c3d4e5f60718) pinned, stored on 2 nodes\n0123456789abcdef pinned, stored on 2 nodes\n");
    assert_int_equal(RUN("archive", "mlp", "0123456789abcdef"), CLI_REFUSED);
    assert_has(err_text_written, "It runs");
    assert_int_equal(RUN("unpin", "nothing"), CLI_NO_SUCH_THING);
    assert_int_equal(RUN("describe", "mlp", "warm restarts"), CLI_DONE);
    msgpack_object request = last_request();
    char text[64];
    document_text(&request, "value", text, sizeof text);
    assert_string_equal(text, "warm restarts");
    assert_int_equal(RUN("describe", "mlp/3", "odd"), CLI_DONE);
    assert_string_equal(out_text, "mlp (a1b2c3d4e5f60718) trial 3 described, stored on 2 nodes\n");
    request = last_request();
    assert_int_equal(document_number(&request, "trial"), 3);
    document_text(&request, "value", text, sizeof text);
    assert_string_equal(text, "odd");
    fake_stop();
    assert_string_equal(fake.ops, "ls pin pin ls archive archive ls ls describe ls describe_trial ");
}

static void only_a_priority_can_be_set(void **state)
{
    (void)state;
    static const struct answer answers[] = {{"ls", {EXPERIMENTS}, NULL}, {"priority", {NOTED}, NULL}, {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("set", "mlp", "priority=7"), CLI_DONE);
    assert_string_equal(out_text, "mlp (a1b2c3d4e5f60718) has priority 7, stored on 2 nodes\n");
    msgpack_object request = last_request();
    assert_int_equal(document_number(&request, "priority"), 7);
    assert_int_equal(RUN("set", "mlp", "priority=100"), CLI_USAGE);
    assert_sentence("'100' is no priority; allowed are 1, the first in the queue, to 99");
    assert_int_equal(RUN("set", "mlp", "max_restarts=7"), CLI_USAGE);
    assert_sentence("max_restarts cannot be changed, only priority=N, max_slots=N and max_trials=N; shoal fork mlp --set max_restarts=7");
    assert_int_equal(RUN("set", "mlp", "hyperparameters.lr=7"), CLI_USAGE);
    assert_sentence("hyperparameters.lr cannot be changed, only priority=N, max_slots=N and max_trials=N; shoal fork mlp "
                    "--set hyperparameters.lr=7");
    assert_int_equal(RUN("set", "mlp", "colour=7"), CLI_USAGE);
    assert_sentence("colour cannot be changed, only priority=N, max_slots=N and max_trials=N\n");
    fake_stop();
}

static void a_search_is_extended_and_groups_get_another_bound(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"ls", {EXPERIMENTS}, NULL}, {"max_trials", {NOTED}, NULL}, {"max_slots", {NOTED}, NULL}, {NULL, {NULL}, NULL}};
    fake_start(answers);
    char *extends[][4] = {
        {"extend", "mlp", "--max-trials", "64"}, {"set", "mlp", "max_trials=64", NULL}, {"set", "mlp", "searcher.max_trials=64", NULL}};
    for (size_t i = 0; i < sizeof extends / sizeof extends[0]; i++) {
        int code = extends[i][3] != NULL ? RUN(extends[i][0], extends[i][1], extends[i][2], extends[i][3])
                                         : RUN(extends[i][0], extends[i][1], extends[i][2]);
        assert_int_equal(code, CLI_DONE);
        assert_string_equal(out_text, "mlp (a1b2c3d4e5f60718) has 64 trials, stored on 2 nodes\n");
        msgpack_object request = last_request();
        assert_int_equal(document_number(&request, "max_trials"), 64);
    }
    assert_int_equal(RUN("set", "mlp", "max_slots=8"), CLI_DONE);
    assert_string_equal(out_text, "mlp (a1b2c3d4e5f60718) has groups of at most 8 workers, if its program is elastic, stored on 2 nodes\n");
    assert_int_equal(RUN("extend", "mlp"), CLI_USAGE);
    assert_sentence("say how many trials mlp has then, all together: shoal extend mlp --max-trials 64");
    assert_int_equal(RUN("extend", "mlp", "--max-trials", "100001"), CLI_USAGE);
    assert_sentence("'100001' is no max_trials; allowed are 1 to 100000: all trials together");
    assert_int_equal(RUN("set", "mlp", "max_slots=many"), CLI_USAGE);
    assert_sentence("'many' is no max_slots; allowed are 1 to 256, and not less than slots_per_trial");
    fake_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(labels_are_set_one_by_one_and_taken_back_by_name, stop_what_runs),
        cmocka_unit_test_teardown(only_a_priority_can_be_set, stop_what_runs),
        cmocka_unit_test_teardown(a_search_is_extended_and_groups_get_another_bound, stop_what_runs),
        cmocka_unit_test_teardown(one_that_is_refused_keeps_no_other_from_being_pinned, stop_what_runs),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
