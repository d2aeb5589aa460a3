/* Nodes on the command line: slots withheld, nodes drained, invited and evicted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/document.h"
#include "gossip/token.h"
#include "tests/unit/cli_fixture.h"
#include "tools/shoal/cli.h"

#define NODE_ROWS(drained, emptied)                                                                                  \
    "\"ok\":true,\"end\":true,\"nodes\":[{\"id\":\"00112233445566778899aabbccddeeff\",\"name\":\"alpha\",\"state\":" \
    "\"alive\",\"drained\":" drained ",\"emptied\":" emptied                                                         \
    "},{\"id\":\"00119999999999999999999999999999\",\"name\":\"beta\",\"state\":\"alive\"}]"

static void owners_take_their_slots_back(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"withhold", {"\"ok\":true,\"end\":true,\"slots\":[0,2],\"stored_on\":2,\"nodes_alive\":3"}, NULL},
        {"return", {"\"ok\":true,\"end\":true,\"slots\":[1],\"stored_on\":1,\"nodes_alive\":1"}, NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("withhold", "0", "2", "--for", "2h"), CLI_DONE);
    assert_string_equal(out_text, "slots 0 2 withheld, stored on 2 nodes\n");
    msgpack_object request = last_request();
    msgpack_object_array slots = document_list(&request, "slots");
    assert_int_equal(document_number(&request, "for_s"), 7200);
    assert_int_equal(slots.size, 2);
    assert_int_equal(slots.ptr[0].via.u64, 0);
    assert_int_equal(slots.ptr[1].via.u64, 2);
    assert_int_equal(RUN("withhold", "--return", "1"), CLI_DONE);
    assert_string_equal(out_text, "slot 1 returned, stored on 1 node\n");
    request = last_request();
    assert_false(document_has(&request, "for_s"));
    assert_int_equal(RUN("withhold", "--json"), CLI_DONE);
    assert_string_equal(out_text, "{\"slots\": [0, 2], \"stored_on\": 2, \"nodes_alive\": 3}\n");
    request = last_request();
    assert_int_equal(document_find(&request, "slots")->type, MSGPACK_OBJECT_ARRAY);
    assert_int_equal(document_list(&request, "slots").size, 0); /* all */
    assert_int_equal(document_number(&request, "for_s"), 0);
    assert_int_equal(RUN("withhold", "64"), CLI_USAGE);
    assert_sentence("'64' is no slot");
    assert_int_equal(RUN("withhold", "--for", "0"), CLI_USAGE);
    assert_sentence("--for 0 is no time");
    assert_int_equal(RUN("withhold", "--for", "367d"), CLI_USAGE);
    assert_int_equal(RUN("withhold", "--for", "1h", "--return"), CLI_USAGE);
    assert_sentence("do not go together");
    fake_stop();
}

static void what_is_on_a_node_is_a_line_for_each_slot(void **state)
{
    (void)state;
#define OWNER "\"ok\":true,\"end\":true,\"node\":\"01\",\"name\":\"beta\",\"label\":\"beta\",\"drained\":false,"
    static const struct answer answers[] = {
        {"owner",
         {OWNER "\"state\":\"alive\",\"slots\":["
                "{\"index\":0,\"state\":\"leased\",\"since_s\":1763700000,\"until_s\":null,\"experiment\":\"a1b2c3d4e5f60718\","
                "\"name\":\"sweep\",\"trial\":3,\"attempt\":1,\"user\":\"anna\",\"submitter\":\"alpha\"},"
                "{\"index\":1,\"state\":\"withheld\",\"since_s\":1763700000,\"until_s\":1763707200,\"experiment\":null},"
                "{\"index\":2,\"state\":\"withheld\",\"since_s\":null,\"until_s\":null,\"experiment\":null}]"},
         NULL},
        {NULL, {NULL}, NULL}};
    static const struct answer dead[] = {{"owner", {OWNER "\"state\":\"dead\",\"slots\":[]"}, NULL}, {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("owner"), CLI_DONE);
    assert_has(out_text, "slot 0: leased, trial 3 of sweep (a1b2c3d4) by anna from alpha since 2025-11-2");
    assert_has(out_text, "slot 1: withheld since 2025-11-2");
    assert_has(out_text, ", withheld until 2025-11-2");
    assert_has(out_text, "slot 2: withheld, until it is returned\n");
    fake_stop();
    fake_start(dead);
    assert_int_equal(RUN("owner"), CLI_DONE);
    assert_string_equal(out_text, "beta is dead: this is what was known last\nbeta has no slots\n");
    fake_stop();
}

#define POLICY(hours, why)                                                                                                    \
    "\"policy\":{\"hours\":" hours ",\"load_percent\":50,\"activity\":true,\"back_after_s\":600,\"why\":" why                    \
    ",\"since_s\":1763700000,\"until_s\":1763707200}"

static void an_owner_says_when_a_machine_is_its_own(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"owner_policy", {"\"ok\":true,\"end\":true,\"node\":\"01\",\"stored_on\":2,\"nodes_alive\":3"}, NULL},
        {"owner", {OWNER "\"state\":\"alive\"," POLICY("\"9-18 mon-fri\"", "\"hours\"") ",\"slots\":[]"}, NULL},
        {"nodes", {"\"ok\":true,\"end\":true,\"nodes\":[{\"id\":\"01\",\"name\":\"beta\",\"state\":\"alive\"," POLICY("null", "\"load\"") "}]"}, NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("owner", "policy", "--hours", "9-18 mon-fri", "--load", "50%", "--activity", "--back-after", "10m"), CLI_DONE);
    assert_string_equal(out_text, "the policy is set, stored on 2 nodes\n");
    msgpack_object request = last_request();
    char hours[32];
    document_text(&request, "hours", hours, sizeof hours);
    assert_string_equal(hours, "9-18 mon-fri");
    assert_int_equal(document_number(&request, "load_percent"), 50);
    assert_int_equal(document_number(&request, "back_after_s"), 600);
    assert_true(document_true(&request, "activity"));
    assert_int_equal(RUN("owner", "policy", "--off"), CLI_DONE);
    assert_string_equal(out_text, "this machine has no policy now, stored on 2 nodes\n");
    request = last_request();
    assert_false(document_true(&request, "activity") || document_has(&request, "hours") || document_has(&request, "load_percent"));
    assert_int_equal(RUN("owner", "policy"), CLI_DONE);
    assert_has(out_text, "hours       9-18 mon-fri\nload        50%\nactivity    yes\nback after  10m\nbeta is its owner's until 2025-11-2");
    assert_has(out_text, ": these are its hours (9-18 mon-fri)\n");
    assert_int_equal(RUN("nodes"), CLI_DONE);
    assert_has(out_text, "beta is its owner's since 2025-11-2");
    assert_has(out_text, ": other processes use 50% of its processors or more, or did less than 10m ago\n");
    assert_int_equal(RUN("owner", "policy", "--load", "0"), CLI_USAGE);
    assert_sentence("--load 0 is no part of the processors");
    assert_int_equal(RUN("owner", "policy", "--load", "150%"), CLI_USAGE);
    assert_int_equal(RUN("owner", "policy", "--off", "--activity"), CLI_USAGE);
    assert_sentence("--off goes with no other option");
    assert_int_equal(RUN("owner", "policy", "--hours", "9-18", "--back-after", "5m"), CLI_USAGE);
    assert_sentence("--back-after goes with --load or --activity");
    assert_int_equal(RUN("owner", "policy", "--load", "5", "--back-after", "8d"), CLI_USAGE);
    assert_sentence("--back-after 8d is no time");
    fake_stop();
}

static void nodes_are_drained_by_name_or_id(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"drain",
         {"\"ok\":true,\"end\":true,\"node\":\"00112233445566778899aabbccddeeff\",\"stored_on\":2,\"nodes_alive\":2"},
         NULL},
        {"undrain",
         {"\"ok\":true,\"end\":true,\"node\":\"00112233445566778899aabbccddeeff\",\"stored_on\":2,\"nodes_alive\":2"},
         NULL},
        {"nodes", {NODE_ROWS("true", "true")}, NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("drain", "alpha", "--now"), CLI_DONE);
    assert_string_equal(out_text, "alpha (00112233445566778899aabbccddeeff) drained, stored on 2 nodes\n");
    msgpack_object request = last_request();
    char id[64];
    document_text(&request, "node", id, sizeof id);
    assert_string_equal(id, "00112233445566778899aabbccddeeff");
    assert_true(document_true(&request, "now"));
    assert_int_equal(RUN("drain", "--wait"), CLI_DONE); /* this node */
    assert_has(out_text, "no worker runs there any more\n");
    assert_int_equal(RUN("undrain", "001122"), CLI_DONE);
    assert_string_equal(out_text, "00112233445566778899aabbccddeeff undrained, stored on 2 nodes\n");
    assert_int_equal(RUN("undrain"), CLI_DONE);
    assert_string_equal(out_text, "this node (00112233445566778899aabbccddeeff) undrained, stored on 2 nodes\n");
    assert_int_equal(RUN("drain", "0011"), CLI_REFUSED);
    assert_sentence("2 nodes have ids that begin with 0011");
    assert_int_equal(RUN("drain", "gamma"), CLI_NO_SUCH_THING);
    assert_sentence("there is no node with the name or id gamma; shoal nodes lists them");
    assert_int_equal(RUN("drain", "--timeout", "5"), CLI_USAGE);
    assert_sentence("--timeout goes with --wait");
    assert_int_equal(RUN("nodes"), CLI_DONE);
    assert_has(out_text, "alpha  alive  yes      ");
    assert_has(out_text, "beta   alive  -        ");
    fake_stop();
}

static void drain_waits_for_the_nodes_own_word(void **state)
{
    (void)state;
    static const char drained[] =
        "\"ok\":true,\"end\":true,\"node\":\"00112233445566778899aabbccddeeff\",\"stored_on\":2,\"nodes_alive\":2";
    static const struct answer busy[] = {
        {"drain", {drained}, NULL}, {"nodes", {NODE_ROWS("true", "false")}, NULL}, {NULL, {NULL}, NULL}};
    static const struct answer undrained[] = {
        {"drain", {drained}, NULL}, {"nodes", {NODE_ROWS("false", "false")}, NULL}, {NULL, {NULL}, NULL}};
    fake_start(busy);
    assert_int_equal(RUN("drain", "--wait", "--timeout", "1"), CLI_TIMED_OUT);
    assert_sentence("alpha (alive) has not said yet that no worker runs there");
    assert_int_equal(RUN("nodes"), CLI_DONE);
    assert_has(out_text, "alpha  alive  draining");
    fake_stop();
    fake_start(undrained);
    assert_int_equal(RUN("drain", "--wait"), CLI_REFUSED);
    assert_sentence("alpha has been undrained meanwhile");
    fake_stop();
}

static void events_and_invites_are_lines(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"events",
         {"\"ok\":true,\"end\":true,\"events\":[{\"seq\":5,\"wall_ms\":1763700000000,\"text\":\"node beta is dead\"}]"},
         NULL},
        {"invite", {"\"ok\":true,\"end\":true,\"token\":\"shoal1-abc\",\"expires_s\":1763700000"}, NULL},
        {"leave", {"\"ok\":true,\"end\":true,\"stored_on\":2,\"nodes_alive\":3"}, NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("events", "--from", "5"), CLI_DONE);
    assert_has(out_text, "    5  20"); /* the number that --from takes */
    assert_has(out_text, "  node beta is dead\n");
    msgpack_object request = last_request();
    assert_int_equal(document_number(&request, "from"), 5);
    assert_int_equal(RUN("events", "--json"), CLI_DONE);
    assert_string_equal(out_text, "{\"seq\": 5, \"wall_ms\": 1763700000000, \"text\": \"node beta is dead\"}\n");
    assert_int_equal(RUN("invite", "--expires", "15m"), CLI_DONE);
    assert_string_equal(out_text, "shoal1-abc\n"); /* so that TOKEN=$(shoal invite) works */
    request = last_request();
    assert_int_equal(document_number(&request, "expires_s"), 900);
    assert_int_equal(RUN("leave"), CLI_DONE);
    assert_string_equal(out_text, "this node has left the mesh, stored on 2 nodes\n");
    fake_stop();
}

static void a_leave_that_nobody_heard_says_so(void **state)
{
    (void)state;
    static const struct answer answers[] = {{"leave", {"\"ok\":true,\"end\":true,\"stored_on\":1,\"nodes_alive\":2"}, NULL},
                                            {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("leave"), CLI_DONE);
    assert_string_equal(out_text, "this node has left the mesh, stored on 1 node\n"
                                  "no other node could store this in time: the other nodes may take this one for dead\n");
    assert_int_equal(RUN("leave", "--json"), CLI_DONE);
    assert_string_equal(out_text, "{\"stored_on\": 1, \"nodes_alive\": 2}\n");
    fake_stop();
}

static void invites_are_listed_and_revoked(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"invites",
         {"\"ok\":true,\"end\":true,\"invites\":[{\"id\":\"0011223344556677\",\"writer_name\":\"alpha\",\"state\":"
          "\"good\","
          "\"expires_s\":1763700000}]"},
         NULL},
        {"invite_revoke", {"\"ok\":true,\"end\":true,\"invite\":\"0011223344556677\",\"stored_on\":2"}, NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("invite", "--list"), CLI_DONE);
    assert_has(out_text, "0011223344556677  good");
    assert_int_equal(RUN("invite", "--revoke", "0011"), CLI_DONE);
    assert_string_equal(out_text, "0011223344556677 revoked, stored on 2 nodes\n");
    char text[32];
    msgpack_object request = last_request();
    document_text(&request, "invite", text, sizeof text);
    assert_string_equal(text, "0011");

    /* The token itself does as well, even when it has expired. */
    struct token token = {
        .expires_s = 1, .member_count = 1, .members = {{.address_count = 1, .addresses = {{"127.0.0.1:1"}}}}};
    uint8_t key[32];
    char written[TOKEN_TEXT_BYTES], id[17];
    token_create(token.secret, key);
    (void)token_write(&token, written);
    bytes_to_hex(id, key, 8);
    assert_int_equal(RUN("invite", "--revoke", written), CLI_DONE);
    request = last_request();
    document_text(&request, "invite", text, sizeof text);
    assert_string_equal(text, id);
    written[30] = written[30] == 'A' ? 'B' : 'A';
    assert_int_equal(RUN("invite", "--revoke", written), CLI_USAGE);
    assert_int_equal(RUN("invite", "--list", "--revoke", "0011"), CLI_USAGE);
    fake_stop();
}

#define NODE_ROW(id_, name_, state_, voucher_) \
    "{\"id\":\"" id_ "\",\"name\":\"" name_ "\",\"state\":\"" state_ "\",\"voucher\":\"" voucher_ "\"}"
#define ALPHA "aaaa0000000000000000000000000000"
#define BETA "bbbb0000000000000000000000000000"
#define BETA_OLD "bbbb1111111111111111111111111111"
#define GAMMA "cccc0000000000000000000000000000"

static void who_was_evicted_leaves_its_name_to_the_next(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"nodes",
         {"\"ok\":true,\"end\":true,\"nodes\":[" NODE_ROW(BETA_OLD, "beta", "evicted", ALPHA) "," NODE_ROW(
             BETA, "beta", "alive", ALPHA) "," NODE_ROW(GAMMA, "gamma", "void", BETA) "," NODE_ROW(ALPHA, "cccc", "alive", ALPHA) "]"},
         NULL},
        {"drain", {"\"ok\":true,\"end\":true,\"node\":\"" BETA "\",\"stored_on\":2,\"nodes_alive\":2"}, NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("drain", "beta"), CLI_DONE);
    msgpack_object request = last_request();
    char text[64];
    document_text(&request, "node", text, sizeof text);
    assert_string_equal(text, BETA);
    assert_int_equal(RUN("drain", "gamma"), CLI_DONE); /* nobody else has the name: what to say of it is the daemon's */
    request = last_request();
    document_text(&request, "node", text, sizeof text);
    assert_string_equal(text, GAMMA);
    assert_int_equal(RUN("drain", "cccc"), CLI_REFUSED);
    assert_sentence("2 nodes fit cccc: " ALPHA ", " GAMMA "; give one of these ids");
    fake_stop();
}

static void a_name_that_a_node_which_catches_up_does_not_know_may_be_known_soon(void **state)
{
    (void)state;
    static const struct answer catches_up[] = {{"nodes", {"\"ok\":true,\"end\":true,\"syncing\":true,\"nodes\":[]"}, NULL},
                                               {NULL, {NULL}, NULL}};
    static const struct answer in_step[] = {{"nodes", {"\"ok\":true,\"end\":true,\"syncing\":false,\"nodes\":[]"}, NULL},
                                            {NULL, {NULL}, NULL}};
    fake_start(catches_up);
    assert_int_equal(RUN("drain", "beta"), CLI_REFUSED);
    assert_sentence("this node knows no node with the name or id beta, but is still catching up with the others; try again");
    assert_int_equal(RUN("drain", "bbb"), CLI_REFUSED);
    assert_sentence("with the name or id bbb (the beginning of an id needs 4 digits), but is still catching up");
    assert_int_equal(RUN("evict", "--yes", BETA), CLI_REFUSED);
    assert_sentence("this node knows no node with the id " BETA ", but is still catching up with the others; try again");
    assert_string_equal(fake.ops, "nodes nodes nodes "); /* the list itself says so: it may be complete when asked later */
    fake_stop();
    fake_start(in_step);
    assert_int_equal(RUN("drain", "beta"), CLI_NO_SUCH_THING);
    assert_sentence("there is no node with the name or id beta; shoal nodes lists them");
    assert_int_equal(RUN("evict", "--yes", BETA), CLI_NO_SUCH_THING);
    fake_stop();
}

static void an_eviction_is_confirmed_on_a_terminal(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"nodes",
         {"\"ok\":true,\"end\":true,\"nodes\":[" NODE_ROW(ALPHA, "alpha", "alive", ALPHA) "," NODE_ROW(
             BETA, "beta", "alive", ALPHA) "," NODE_ROW(BETA_OLD, "beta", "evicted",
                                                        ALPHA) "," NODE_ROW(GAMMA, "gamma", "dead", BETA) "]"},
         NULL},
        {"evict",
         {"\"ok\":true,\"end\":true,\"node\":\"" BETA
          "\",\"name\":\"beta\",\"stored_on\":2,\"standing\":[{\"id\":\"" GAMMA "\",\"name\":\"gamma\"}],\"void\":[]"},
         NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    typed = "no\n";
    assert_int_equal(RUN("evict", "beta"), CLI_REFUSED);
    assert_has(err_text_written, "beta (" BETA ") is shut out, and its key can never come back");
    assert_has(err_text_written, "Evict it for ever? [y/N] ");
    assert_has(err_text_written, "It vouched for: gamma. They stay.\n");
    typed = "";
    assert_int_equal(RUN("evict", "--yes", BETA "0"), CLI_NO_SUCH_THING); /* longer than an id */
    assert_int_equal(RUN("evict", "beta", "--with-vouched"), CLI_REFUSED);
    assert_has(err_text_written, "They go too");
    assert_lacks(fake.ops, "evict");
    typed = "Yes\n";
    assert_int_equal(RUN("evict", "beta"), CLI_DONE);
    assert_string_equal(out_text,
                        "beta (bbbb00000000) evicted, stored on 2 nodes\nit vouched for, and these stay: gamma\n");
    msgpack_object request = last_request();
    char text[64];
    document_text(&request, "node", text, sizeof text);
    assert_string_equal(text, BETA);
    assert_false(document_true(&request, "with_vouched"));
    typed = NULL;
    assert_int_equal(RUN("evict", "cccc", "--with-vouched", "--json"), CLI_DONE); /* nobody is there to be asked */
    request = last_request();
    document_text(&request, "node", text, sizeof text);
    assert_string_equal(text, GAMMA);
    assert_true(document_true(&request, "with_vouched"));
    assert_int_equal(RUN("evict", "bbbb"), CLI_REFUSED);
    assert_sentence("2 nodes have ids that begin with bbbb: " BETA ", " BETA_OLD "; give one of these ids");
    assert_int_equal(RUN("evict", "delta"), CLI_NO_SUCH_THING);
    assert_sentence("no node");
    assert_int_equal(RUN("evict"), CLI_USAGE);
    fake_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(owners_take_their_slots_back, stop_what_runs),
        cmocka_unit_test_teardown(what_is_on_a_node_is_a_line_for_each_slot, stop_what_runs),
        cmocka_unit_test_teardown(an_owner_says_when_a_machine_is_its_own, stop_what_runs),
        cmocka_unit_test_teardown(nodes_are_drained_by_name_or_id, stop_what_runs),
        cmocka_unit_test_teardown(drain_waits_for_the_nodes_own_word, stop_what_runs),
        cmocka_unit_test_teardown(events_and_invites_are_lines, stop_what_runs),
        cmocka_unit_test_teardown(a_leave_that_nobody_heard_says_so, stop_what_runs),
        cmocka_unit_test_teardown(invites_are_listed_and_revoked, stop_what_runs),
        cmocka_unit_test_teardown(who_was_evicted_leaves_its_name_to_the_next, stop_what_runs),
        cmocka_unit_test_teardown(a_name_that_a_node_which_catches_up_does_not_know_may_be_known_soon, stop_what_runs),
        cmocka_unit_test_teardown(an_eviction_is_confirmed_on_a_terminal, stop_what_runs),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
