/* What trials leave behind, on the command line: metrics, logs, checkpoints, and what changes while one watches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/cli_fixture.h"
#include "tools/shoal/cli.h"
#include "tools/shoal/document.h"

static void metrics_are_one_point_per_line(void **state)
{
    (void)state;
    static const struct answer answers[] = {{"metrics",
                                             {"\"ok\":true,\"end\":false,\"points\":[{\"trial\":3,\"attempt\":1,"
                                              "\"generation\":1,\"step\":10,\"group\":\"training\","
                                              "\"metrics\":{\"loss\":0.5}}]",
                                              "\"ok\":true,\"end\":true,\"points\":[{\"trial\":3,\"attempt\":1,"
                                              "\"generation\":1,\"step\":20,\"group\":\"training\","
                                              "\"metrics\":{\"loss\":0.25}}]"},
                                             NULL},
                                            {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("metrics", "a1b2c3d4e5f60718/3"), CLI_DONE);
    assert_string_equal(out_text, "trial=3 attempt=1 generation=1 step=10 group=training loss=0.5\n"
                                  "trial=3 attempt=1 generation=1 step=20 group=training loss=0.25\n");
    msgpack_object request = last_request();
    assert_int_equal(document_number(&request, "trial"), 3);
    assert_int_equal(RUN("metrics", "a1b2c3d4e5f60718", "--json"), CLI_DONE);
    assert_has(out_text, "{\"trial\": 3, \"attempt\": 1, \"generation\": 1, \"step\": 20, \"group\": \"training\", "
                         "\"metrics\": {\"loss\": 0.25}}\n");
    request = last_request();
    assert_false(document_has(&request, "trial"));
    fake_stop();
}

static void lines_of_several_ranks_do_not_mix(void **state)
{
    (void)state;
    static const struct answer answers[] = {{"logs", {"log:0one ", "log:1other\nun", "log:0two\n", "log:1ended"}, NULL},
                                            {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0"), CLI_DONE);
    assert_string_equal(out_text, "[rank=1] other\n[rank=0] one two\n[rank=1] unended\n");
    fake_stop();
    static const struct answer short_answers[] = {{"logs",
                                                   {"log:1a\xff"
                                                    "b\nc"},
                                                   NULL},
                                                  {NULL, {NULL}, NULL}};
    fake_start(short_answers);
    assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0", "--rank", "1"), CLI_DONE);
    assert_string_equal(out_text, "a\xff"
                                  "b\nc"); /* as it was written */
    assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0", "--json"), CLI_DONE);
    assert_string_equal(
        out_text,
        "{\"attempt\": 1, \"rank\": 1, \"text\": \"a\\ufffdb\"}\n{\"attempt\": 1, \"rank\": 1, \"text\": \"c\"}\n");
    fake_stop();
}

static void checkpoints_are_listed_fetched_and_verified(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"checkpoint_ls",
         {"\"ok\":true,\"end\":true,\"checkpoints\":[{\"trial\":0,\"step\":100,\"attempt\":1,\"bytes\":2048,"
          "\"durable\":true,"
          "\"holders\":[{\"node\":\"00\",\"name\":\"alpha\"},{\"node\":\"01\",\"name\":\"beta\"}]}]"},
         NULL},
        {"checkpoint_get",
         {"\"ok\":true,\"end\":true,\"experiment\":\"a1b2c3d4e5f60718\",\"trial\":2,\"step\":100,\"attempt\":1,"
          "\"bytes\":7,"
          "\"hash\":\"00\""},
         "weights, and more that is none of it"},
        {"checkpoint_verify",
         {"\"ok\":true,\"end\":true,\"checkpoints\":[{\"trial\":0,\"step\":100,\"attempt\":1,\"bytes\":2048,"
          "\"durable\":true,"
          "\"holders\":[{\"node\":\"00\",\"name\":\"alpha\",\"state\":\"ok\"},{\"node\":\"01\",\"name\":\"beta\","
          "\"state\":"
          "\"corrupt\"}]}]"},
         NULL},
        {NULL, {NULL}, NULL}};
    char dir[128], path[256];
    (void)snprintf(dir, sizeof dir, "%s/got", root);
    fake_start(answers);
    assert_int_equal(RUN("checkpoint", "ls", "a1b2c3d4e5f60718"), CLI_DONE);
    assert_has(out_text, "    0   100        1  2.0 KiB  yes      alpha, beta\n");
    assert_int_equal(RUN("checkpoint", "get", "a1b2c3d4e5f60718/2@100", dir), CLI_DONE);
    msgpack_object request = last_request();
    assert_int_equal(document_number(&request, "step"), 100);
    (void)snprintf(path, sizeof path, "%s/checkpoint", dir);
    assert_string_equal(read_text(path), "weights");
    (void)snprintf(path, sizeof path, "%s/metadata.json", dir);
    assert_has(read_text(path), "\"step\": 100");
    assert_int_equal(RUN("checkpoint", "get", "a1b2c3d4e5f60718/2", dir), CLI_DONE);
    request = last_request();
    assert_false(document_has(&request, "step"));
    assert_int_equal(RUN("checkpoint", "get", "a1b2c3d4e5f60718/2", "/proc/nowhere"), CLI_REFUSED);
    assert_int_equal(RUN("checkpoint", "verify", "a1b2c3d4e5f60718/0"), CLI_REFUSED);
    assert_has(out_text, "alpha: ok, beta: corrupt");
    assert_sentence("not every copy");
    fake_stop();
}

static void a_cut_checkpoint_is_not_kept(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"checkpoint_get",
         {"\"ok\":true,\"end\":true,\"trial\":2,\"step\":100,\"attempt\":1,\"bytes\":99"},
         "too short"},
        {NULL, {NULL}, NULL}};
    char dir[128], path[256];
    (void)snprintf(dir, sizeof dir, "%s/cut", root);
    fake_start(answers);
    assert_int_equal(RUN("checkpoint", "get", "a1b2c3d4e5f60718/2", dir), CLI_REFUSED);
    assert_sentence("after 9 of 99 bytes");
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s/checkpoint%s", dir, i == 0 ? "" : ".part");
        assert_int_equal(access(path, F_OK), -1);
    }
    fake_stop();
}

static void watch_in_a_pipe_says_what_changed(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"watch",
         {SHOWN("running", "\"end\":false"), SHOWN("running", "\"end\":false"), SHOWN("failed", "\"end\":true")},
         NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("watch", "a1b2c3d4e5f60718"), CLI_DONE);
    assert_has(out_text, "experiment mlp running\n");
    assert_has(out_text, "coordinator alpha, term 2\n");
    assert_has(out_text, "nodes 3 of 3 alive\n");
    assert_has(out_text, "trial 0 completed, accuracy 0.9000\n");
    assert_has(out_text, "experiment mlp failed\n\ntrial 1: exit status 1, the last lines"); /* the end comes last */
    assert_ptr_equal(strstr(strstr(out_text, "trial 0") + 1, "trial 0"), NULL);              /* nothing is said twice */
    assert_lacks(out_text, "\033");
    assert_int_equal(RUN("watch", "a1b2c3d4e5f60718", "--json"), CLI_DONE);
    assert_int_equal(strncmp(out_text, "{\"nodes\": 3", 11), 0);
    fake_stop();
}

static void watch_says_which_slots_lack(void **state)
{
    (void)state;
    enum { TRIALS = 40 };
#define LACKING "\"experiment\":{\"id\":\"a1b2c3d4e5f60718\",\"name\":\"wide\",\"state\":\"queued\"," \
                "\"lacks\":{\"slots\":9,\"kind\":\"any\",\"present\":2},\"trials\":["
    static char queued[8192] = "\"ok\":true,\"end\":false," LACKING, ended[8192] = "\"ok\":true,\"end\":true," LACKING;
    for (int i = 0; i < TRIALS; i++) {
        char trial[128];
        (void)snprintf(trial, sizeof trial, "{\"index\":%d,\"state\":\"queued\",\"tail\":null}%s", i, i + 1 < TRIALS ? "," : "]}");
        strncat(queued, trial, sizeof queued - strlen(queued) - 1);
        strncat(ended, trial, sizeof ended - strlen(ended) - 1);
    }
    static const struct answer answers[] = {{"watch", {queued, ended}, NULL}, {NULL, {NULL}, NULL}};
    static const char said[] = "no trial can begin, for each needs 9 slots and all nodes together have 2",
                      advice[] = "machines must join, or the configuration ask for less";
    fake_start(answers);
    assert_int_equal(RUN("watch", "a1b2c3d4e5f60718"), CLI_DONE);
    assert_has(out_text, said);
    assert_null(strstr(strstr(out_text, said) + 1, said)); /* once */
    assert_has(out_text, advice);
    draws = true;
    assert_int_equal(RUN("watch", "a1b2c3d4e5f60718"), CLI_DONE);
    assert_has(out_text, said);
    assert_has(out_text, advice); /* on a line of its own: a screen of 80 columns has not room for both */
    assert_has(out_text, "... and 23 more\033"); /* 24 lines: four of the head, the table's, 17, this, the cursor */
    fake_stop();
}

static int draw_no_more(void **state)
{
    draws = false;
    return stop_what_runs(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(metrics_are_one_point_per_line, stop_what_runs),
        cmocka_unit_test_teardown(lines_of_several_ranks_do_not_mix, stop_what_runs),
        cmocka_unit_test_teardown(checkpoints_are_listed_fetched_and_verified, stop_what_runs),
        cmocka_unit_test_teardown(a_cut_checkpoint_is_not_kept, stop_what_runs),
        cmocka_unit_test_teardown(watch_in_a_pipe_says_what_changed, stop_what_runs),
        cmocka_unit_test_teardown(watch_says_which_slots_lack, draw_no_more),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
