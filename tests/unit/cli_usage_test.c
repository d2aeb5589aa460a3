/* shoal usage: what it asks for, and how it shows the sums. */
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

#define HEAD "\"ok\":true,\"end\":true,\"syncing\":false,"
#define ROWS                                                                                                           \
    "\"usage\":[{\"user\":\"ada\",\"used_s\":1800.0,\"lost_s\":0.0},"                                                   \
    "{\"user\":\"bob\",\"used_s\":7200.0,\"lost_s\":360.0},{\"user\":\"\",\"used_s\":0.25,\"lost_s\":0.0}]"
#define DAYS HEAD "\"by\":[\"user\"],\"span\":\"day\",\"since_s\":1761782400," ROWS ",\"uncounted\":[]"

static const struct answer by_user[] = {{"usage_totals", {DAYS}, NULL}, {NULL, {NULL}, NULL}};
static const struct answer by_month[] = {
    {"usage_totals",
     {HEAD "\"by\":[\"month\",\"node\"],\"span\":\"month\",\"since_s\":1759276800,\"usage\":["
           "{\"month\":\"2025-10\",\"node\":\"00112233445566778899aabbccddeeff\",\"node_label\":\"alder\",\"used_s\":3600.0,\"lost_s\":0.0},"
           "{\"month\":\"2025-11\",\"node\":\"00112233445566778899aabbccddeeff\",\"node_label\":\"alder\",\"used_s\":7200.0,\"lost_s\":0.0}],"
           "\"uncounted\":[\"birch\",\"cedar\"]"},
     NULL},
    {NULL, {NULL}, NULL}};
static const struct answer none[] = {
    {"usage_totals", {HEAD "\"by\":[\"user\"],\"span\":\"day\",\"since_s\":1761782400,\"usage\":[],\"uncounted\":[]"}, NULL},
    {NULL, {NULL}, NULL}};

static void the_largest_is_first_and_shares_are_of_all(void **state)
{
    (void)state;
    fake_start(by_user);
    assert_int_equal(RUN("usage"), CLI_DONE);
    fake_stop();
    assert_string_equal(out_text, "USER  SLOT-HOURS  LOST    SHARE\n"
                                  "bob         2.00  0.10   80.0 %\n"
                                  "ada         0.50  0.00   20.0 %\n"
                                  "-           0.00  0.00    0.0 %\n"
                                  "all         2.50  0.10  100.0 %\n");
    msgpack_object request = last_request();
    char by[64];
    document_text(&request, "by", by, sizeof by);
    assert_string_equal(by, "user");
    assert_true(document_number(&request, "since_s") > 0);
}

static void what_is_by_time_stays_in_its_order(void **state)
{
    (void)state;
    fake_start(by_month);
    assert_int_equal(RUN("usage", "--by", "month,node", "--since", "2025-10-05"), CLI_DONE);
    fake_stop();
    assert_has(out_text, "MONTH    NODE   SLOT-HOURS");
    assert_true(strstr(out_text, "2025-10  alder") < strstr(out_text, "2025-11  alder"));
    assert_has(err_text_written, "only whole months are kept: the sums begin with 2025-10-01");
    assert_has(err_text_written, "the slots of birch, cedar are used for is not counted");
    msgpack_object request = last_request();
    char by[64];
    document_text(&request, "by", by, sizeof by);
    assert_string_equal(by, "month,node");
}

static void csv_and_json_have_seconds(void **state)
{
    (void)state;
    fake_start(by_user);
    assert_int_equal(RUN("usage", "--csv"), CLI_DONE);
    assert_string_equal(out_text, "user,used_s,lost_s\nbob,7200.000,360.000\nada,1800.000,0.000\n,0.250,0.000\n");
    assert_int_equal(RUN("usage", "--json"), CLI_DONE);
    assert_has(out_text, "\"used_s\": 7200");
    fake_stop();
}

static void an_idle_mesh_has_used_nothing(void **state)
{
    (void)state;
    fake_start(none);
    assert_int_equal(RUN("usage"), CLI_DONE);
    assert_string_equal(out_text, "no slot has been used\n");
    assert_int_equal(RUN("usage", "--csv"), CLI_DONE);
    assert_string_equal(out_text, "user,used_s,lost_s\n");
    fake_stop();
}

static void wrong_words_are_named(void **state)
{
    (void)state;
    assert_int_equal(RUN("usage", "--by", "group"), CLI_USAGE);
    assert_sentence("--by: there is no column 'group'; allowed are user, label, model, node, day, month");
    assert_int_equal(RUN("usage", "--by", "user,user"), CLI_USAGE);
    assert_sentence("--by: user is there twice");
    assert_int_equal(RUN("usage", "--since", "tuesday"), CLI_USAGE);
    assert_sentence("--since tuesday is no time");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_largest_is_first_and_shares_are_of_all, stop_what_runs),
        cmocka_unit_test_teardown(what_is_by_time_stays_in_its_order, stop_what_runs),
        cmocka_unit_test_teardown(csv_and_json_have_seconds, stop_what_runs),
        cmocka_unit_test_teardown(an_idle_mesh_has_used_nothing, stop_what_runs),
        cmocka_unit_test_teardown(wrong_words_are_named, stop_what_runs),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
