/* What trials leave behind, on the command line: metrics, logs, checkpoints, and what changes while one watches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/document.h"
#include "tests/unit/cli_fixture.h"
#include "tools/shoal/cli.h"

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

#define POINT(step, more) "{\"trial\":3,\"attempt\":1,\"generation\":1,\"step\":" #step ",\"wall_ms\":1764207123456,\"group\":\"training\"," more "}"

static const struct answer three_points[] = {
    {"metrics",
     {"\"ok\":true,\"end\":false,\"points\":[" POINT(10, "\"metrics\":{\"loss\":0.5,\"epoch\":1}") ","
      POINT(15, "\"void\":true,\"metrics\":{\"loss\":7}") "]",
      "\"ok\":true,\"end\":true,\"points\":[" POINT(20, "\"metrics\":{\"loss\":0.25,\"a,\\\"b\":3,\"step\":9}") "]"},
     NULL},
    {NULL, {NULL}, NULL}};

static void void_points_are_left_out_unless_all_are_wanted(void **state)
{
    (void)state;
    fake_start(three_points);
    assert_int_equal(RUN("metrics", "a1b2c3d4e5f60718/3"), CLI_DONE);
    assert_lacks(out_text, "step=15");
    assert_has(out_text, "step=10 group=training time=2025-11-27T01:32:03.456Z loss=0.5 epoch=1\n");
    assert_int_equal(RUN("metrics", "a1b2c3d4e5f60718/3", "--all"), CLI_DONE);
    assert_has(out_text, "step=15 group=training void time=2025-11-27T01:32:03.456Z loss=7\n");
    assert_int_equal(RUN("metrics", "a1b2c3d4e5f60718/3", "--json"), CLI_DONE);
    assert_lacks(out_text, "\"void\"");
    fake_stop();
}

static void metrics_are_a_table_with_a_column_for_each(void **state)
{
    (void)state;
    fake_start(three_points);
    assert_int_equal(RUN("metrics", "a1b2c3d4e5f60718/3", "--csv"), CLI_DONE);
    assert_string_equal(out_text, "trial,attempt,generation,step,time,group,loss,epoch,\"a,\"\"b\",metric.step\n"
                                  "3,1,1,10,2025-11-27T01:32:03.456Z,training,0.5,1,,\n"
                                  "3,1,1,20,2025-11-27T01:32:03.456Z,training,0.25,,3,9\n");
    assert_int_equal(RUN("metrics", "a1b2c3d4e5f60718", "--csv", "--all", "--x", "epoch"), CLI_DONE);
    assert_string_equal(out_text, "trial,attempt,generation,step,time,group,void,x,loss,epoch,\"a,\"\"b\",metric.step\n"
                                  "3,1,1,10,2025-11-27T01:32:03.456Z,training,0,1,0.5,1,,\n"
                                  "3,1,1,15,2025-11-27T01:32:03.456Z,training,1,1,7,,,\n"
                                  "3,1,1,20,2025-11-27T01:32:03.456Z,training,0,1,0.25,,3,9\n");
    assert_int_equal(RUN("metrics", "a1b2c3d4e5f60718", "--csv", "--json"), CLI_USAGE);
    assert_has(err_text_written, "exclude each other");
    fake_stop();
}

static void points_have_an_x_of_the_users_choice(void **state)
{
    (void)state;
    fake_start(three_points);
    assert_int_equal(RUN("metrics", "a1b2c3d4e5f60718/3", "--x", "time", "--json"), CLI_DONE);
    assert_has(out_text, "{\"x\": 1764207123.456, \"trial\": 3");
    assert_int_equal(RUN("metrics", "a1b2c3d4e5f60718/3", "--x", "step"), CLI_DONE);
    assert_has(out_text, " x=20 loss=0.25");
    assert_int_equal(RUN("metrics", "a1b2c3d4e5f60718/3", "--x", "a,\"b"), CLI_DONE);
    assert_lacks(out_text, "step=10");
    assert_has(out_text, " x=3 loss=0.25");
    assert_int_equal(RUN("metrics", "a1b2c3d4e5f60718/3", "--x", "nothing"), CLI_NO_SUCH_THING);
    assert_has(err_text_written, "no group has a metric 'nothing'");
    fake_stop();
}

static void sums_are_asked_for_and_shown_with_their_parts(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"metrics",
         {"\"ok\":true,\"end\":true,\"points\":[{\"trial\":3,\"attempt\":1,\"generation\":1,\"step\":31,\"first_step\":16,\"width\":16,"
          "\"count\":16,\"cut\":true,\"group\":\"training\",\"metrics\":{\"loss\":{\"count\":16,\"min\":0.5,\"max\":2,\"mean\":1,\"last\":0.75}}}]"},
         NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("metrics", "a1b2c3d4e5f60718/3", "--points", "500"), CLI_DONE);
    assert_has(out_text, "step=16..31 group=training loss.count=16 loss.min=0.5 loss.max=2 loss.mean=1 loss.last=0.75\n");
    assert_has(err_text_written, "some sums lack metrics");
    msgpack_object request = last_request();
    assert_int_equal(document_number(&request, "points"), 500);
    assert_false(document_true(&request, "void"));
    assert_int_equal(RUN("metrics", "a1b2c3d4e5f60718/3", "--points", "500", "--csv", "--x", "loss", "--all"), CLI_DONE);
    assert_string_equal(out_text, "trial,attempt,generation,step,time,group,void,x,loss.count,loss.min,loss.max,loss.mean,loss.last\n"
                                  "3,1,1,31,,training,0,0.75,16,0.5,2,1,0.75\n");
    request = last_request();
    assert_true(document_true(&request, "void"));
    assert_int_equal(RUN("metrics", "a1b2c3d4e5f60718/3", "--points", "0"), CLI_USAGE);
    assert_has(err_text_written, "allowed are 1 to 10000");
    fake_stop();
    fake_start(three_points);
    assert_int_equal(RUN("metrics", "a1b2c3d4e5f60718/3", "--points", "500"), CLI_REFUSED);
    assert_has(err_text_written, "older than this shoal");
    fake_stop();
}

static void a_name_of_a_metric_cannot_steer_the_terminal(void **state)
{
    (void)state;
#define EVIL "\"lo\\nss\\u001b[2J\":0.5"
    static const struct answer answers[] = {
        {"metrics",
         {"\"ok\":true,\"end\":true,\"points\":[{\"trial\":3,\"attempt\":1,\"generation\":1,\"step\":10,\"group\":\"training\","
          "\"metrics\":{" EVIL "}}]"},
         NULL},
        {"show",
         {"\"ok\":true,\"end\":true,\"experiment\":{\"id\":\"a1b2c3d4e5f60718\",\"trials\":[{\"index\":0,\"metrics\":{\"training\":{" EVIL
          "}},\"hyperparameters\":{" EVIL "}}]}"},
         NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("metrics", "a1b2c3d4e5f60718/3"), CLI_DONE);
    assert_has(out_text, "group=training lo\\nss\\x1b[2J=0.5\n");
    assert_lacks(out_text, "\033");
    assert_int_equal(RUN("show", "a1b2c3d4e5f60718"), CLI_DONE);
    assert_has(out_text, "train/lo\\nss\\x1b[2J\n");
    assert_has(out_text, "hyperparameters: lo\\nss\\x1b[2J=0.5\n"); /* the value is found under the name as it is */
    assert_lacks(out_text, "\033");
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

static void lines_of_a_log_are_chosen_by_the_daemon(void **state)
{
    (void)state;
    static const struct answer old[] = {{"logs", {"of1:0loss 1\n", "\"ok\":true,\"end\":true,\"attempts\":[1]"}, NULL}, {NULL, {NULL}, NULL}};
    fake_start(old);
    assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0", "--grep", "loss", "--tail", "10", "--since", "2h"), CLI_REFUSED);
    assert_has(err_text_written, "older than this shoal");
    msgpack_object request = last_request();
    char pattern[32];
    document_text(&request, "pattern", pattern, sizeof pattern);
    assert_string_equal(pattern, "loss");
    assert_int_equal(document_number(&request, "tail"), 10);
    assert_true(document_number(&request, "since_ms") > 1764000000000);
    assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0", "--tail", "0"), CLI_USAGE);
    assert_has(err_text_written, "allowed are 1 to 100000");
    assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0", "--since", "yore"), CLI_USAGE);
    assert_has(err_text_written, "--since yore is no time");
    fake_stop();
    static const struct answer chosen[] = {
        {"logs", {"oc1:0loss 1\n", "\"ok\":true,\"end\":true,\"attempts\":[1]"}, NULL}, {NULL, {NULL}, NULL}};
    fake_start(chosen);
    assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0", "--grep", "loss"), CLI_DONE);
    assert_string_equal(out_text, "loss 1\n");
    fake_stop();
}

static void lines_begin_with_what_tells_their_workers_apart(void **state)
{
    (void)state;
    static const struct answer one[] = {{"logs", {"of1:0loss 1\n\r 5%\r10%", "\"ok\":true,\"end\":true,\"attempts\":[1]"}, NULL}, {NULL, {NULL}, NULL}};
    fake_start(one);
    assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0"), CLI_DONE);
    assert_string_equal(out_text, "loss 1\n10%\n"); /* there is nothing to tell apart */
    assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0", "--prefix", "${host}| "), CLI_DONE);
    assert_string_equal(out_text, "elm| loss 1\nelm| 10%\n");
    assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0", "--raw"), CLI_DONE);
    assert_string_equal(out_text, "loss 1\n\r 5%\r10%");
    fake_stop();
    static const struct answer several[] = {{"logs", {"of4:2one ", "of4:3other\n", "of4:2line\n", "\"ok\":true,\"end\":true,\"attempts\":[1]"}, NULL},
                                            {NULL, {NULL}, NULL}};
    fake_start(several);
    assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0"), CLI_DONE);
    assert_string_equal(out_text, "[rank=3] other\n[rank=2] one line\n");
    assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0", "--raw"), CLI_DONE);
    assert_string_equal(out_text, "other\none line\n");
    assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0", "--prefix", "[${role_name}${local_rank}]:"), CLI_DONE);
    assert_string_equal(out_text, "[default1]:other\n[default1]:one line\n");
    assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0", "--json"), CLI_DONE);
    assert_has(out_text, "{\"attempt\": 1, \"rank\": 3, \"local_rank\": 1, \"host\": \"fir\", \"text\": \"other\"}\n");
    assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0", "--prefix", "${node}"), CLI_USAGE);
    assert_sentence("--prefix knows no ${node}; it knows ${rank}, ");
    assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0", "--prefix", "", "--raw"), CLI_USAGE);
    assert_sentence("exclude each other");
    assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0", "--raw", "--json"), CLI_USAGE);
    fake_stop();
    static const struct answer old[] = {{"logs", {"log:0words\n"}, NULL}, {NULL, {NULL}, NULL}};
    fake_start(old);
    assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0", "--prefix", "${host}"), CLI_REFUSED);
    assert_sentence("the daemon is older than this shoal");
    fake_stop();
}

static void the_log_of_one_attempt_is_asked_for_or_of_all(void **state)
{
    (void)state;
    static const struct answer answers[] = {{"logs", {"log:0words\n", "\"ok\":true,\"end\":true,\"attempts\":[1,2]"}, NULL},
                                            {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0", "--attempt", "1"), CLI_DONE);
    assert_has(out_text, "words\n");
    assert_string_equal(err_text_written, "");
    msgpack_object request = last_request();
    assert_int_equal(document_number(&request, "attempt"), 1);
    assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0", "--attempt", "all"), CLI_DONE);
    assert_string_equal(err_text_written, "shoal: attempt 1 of the trial\n"); /* says which one each part is of */
    request = last_request();
    assert_false(document_has(&request, "attempt"));
    assert_true(document_true(&request, "all_attempts"));
    assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0"), CLI_DONE);
    request = last_request();
    assert_false(document_has(&request, "attempt") || document_true(&request, "all_attempts"));
    static const char *const wrong[] = {"0", "-1", "newest", "", "4294967296"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0", "--attempt", (char *)wrong[i]), CLI_USAGE);
        assert_sentence("give a number");
    }
    /* A daemon that does not know the argument shows the newest attempt, as it always did. */
    assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0", "--attempt", "2"), CLI_REFUSED);
    assert_sentence("the daemon is older than this shoal");
    assert_string_equal(out_text, "");
    fake_stop();
    static const struct answer old_answers[] = {{"logs", {"log:0words\n", "\"ok\":true,\"end\":true"}, NULL}, {NULL, {NULL}, NULL}};
    fake_start(old_answers);
    assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0", "--attempt", "all"), CLI_REFUSED);
    assert_has(err_text_written, "the daemon is older than this shoal");
    assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0"), CLI_DONE);
    assert_string_equal(err_text_written, "");
    fake_stop();
}

static void the_only_trial_of_an_experiment_needs_no_number(void **state)
{
    (void)state;
#define COUNTED(id, name, total) "{\"id\":\"" id "\",\"name\":\"" name "\",\"trials\":{\"total\":" total "}}"
    static const struct answer answers[] = {
        {"ls",
         {"\"ok\":true,\"end\":true,\"experiments\":[" COUNTED("a1b2c3d4e5f60718", "one", "1") "," COUNTED("a1b2ffffffffffff", "many", "16") "]"},
         NULL},
        {"logs", {"log:0words\n"}, NULL},
        {"checkpoint_get", {"\"ok\":true,\"end\":true,\"trial\":0,\"step\":100,\"attempt\":1,\"bytes\":7"}, "weights"},
        {NULL, {NULL}, NULL}};
    char dir[128];
    (void)snprintf(dir, sizeof dir, "%s/only", root);
    fake_start(answers);
    static char *const names[] = {"one", "a1b2c3d4e5f60718"};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(RUN("logs", names[i]), CLI_DONE);
        assert_has(out_text, "words\n");
        msgpack_object request = last_request();
        assert_true(document_has(&request, "trial"));
        assert_int_equal(document_number(&request, "trial"), 0);
    }
    assert_int_equal(RUN("checkpoint", "get", "one", dir), CLI_DONE);
    msgpack_object request = last_request();
    assert_true(document_has(&request, "trial"));
    assert_int_equal(RUN("logs", "many"), CLI_USAGE);
    assert_sentence("many has 16 trials; say which one: many/0 to many/15");
    assert_int_equal(RUN("checkpoint", "get", "many", dir), CLI_USAGE);
    assert_sentence("many has 16 trials");
    assert_int_equal(RUN("checkpoint", "get", "one@100", dir), CLI_USAGE);
    assert_sentence("write EXP/TRIAL or EXP/TRIAL@STEP, for example one/0@100");
    fake_stop();
}

static void a_new_attempt_is_told_with_why_the_one_before_ended(void **state)
{
    (void)state;
    static const struct answer answers[] = {{"logs", {"log:0one\n", "new:0two\n", "new:0three\n", "\"ok\":true,\"end\":true,\"attempts\":[1,2]"}, NULL},
                                            {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0", "--follow"), CLI_DONE);
    assert_string_equal(out_text, "[rank=0] one\n[rank=0] two\n[rank=0] three\n");
    assert_string_equal(err_text_written,
                        "shoal: attempt 2 of the trial; attempt 1 ended: a worker failed: rank 0 was killed by signal 9 (SIGKILL)\n");
    fake_stop();
}

static void an_empty_log_is_said_to_be_empty_or_lost(void **state)
{
    (void)state;
    static const struct {
        const char *end, *said;
    } rows[] = {
        {"\"attempts\":[1]", "nothing has been written"},
        {"\"attempts\":[1,3]", "the newest attempt has written nothing; the trial has had the attempts 1, 3 (--attempt)"},
        {"\"attempts\":[1,3],\"lost\":[\"birch\"]", "what only birch may have had is kept no more, since it has left the mesh"},
        {"\"attempts\":[1,3],\"unreachable\":[\"birch\",\"elm\"]",
         "what only birch, elm may have is not shown, since they cannot be reached; try again when they are back"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char end[200];
        (void)snprintf(end, sizeof end, "\"ok\":true,\"end\":true,%s", rows[i].end);
        const struct answer answers[] = {{"logs", {end}, NULL}, {NULL, {NULL}, NULL}};
        fake_start(answers);
        assert_int_equal(RUN("logs", "a1b2c3d4e5f60718/0"), CLI_DONE);
        assert_sentence(rows[i].said);
        fake_stop();
    }
}

static void a_checkpoint_that_a_program_left_is_listed_as_a_file(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"checkpoint_ls",
         {"\"ok\":true,\"end\":true,\"checkpoints\":[{\"trial\":0,\"step\":null,\"attempt\":1,\"bytes\":2048,\"durable\":true,"
          "\"holders\":[{\"node\":\"00\",\"name\":\"alpha\"}],\"path\":\"step_300.pt\"}]"},
         NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("checkpoint", "ls", "a1b2c3d4e5f60718"), CLI_DONE);
    assert_has(out_text, "    0     -        1  2.0 KiB  yes      alpha    checkpoint/step_300.pt\n");
    assert_has(out_text, "shoal output get EXP/TRIAL checkpoint DIR gets a checkpoint with a FILE.\n");
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

/* The snapshot [1, [["state.msgpack", 1, 0644, 3, 0, ""], ["model.safetensors", 1, 0644, 4, 0, ""]], padding] and its files. */
static const char snapshot[] =
    "hex:93019296c40d73746174652e6d73677061636b01cd01a40300c40096c4116d6f64656c2e7361666574656e736f727301cd01"
    "a40400c400c40200006f6e65666f7572";

static void a_checkpoint_of_files_is_unpacked_when_asked(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"checkpoint_get",
         {"\"ok\":true,\"end\":true,\"experiment\":\"a1b2c3d4e5f60718\",\"trial\":2,\"step\":100,\"attempt\":1,\"bytes\":66"},
         snapshot},
        {NULL, {NULL}, NULL}};
    char dir[128], path[256];
    (void)snprintf(dir, sizeof dir, "%s/files", root);
    fake_start(answers);
    assert_int_equal(RUN("checkpoint", "get", "a1b2c3d4e5f60718/2", dir, "--unpack"), CLI_DONE);
    fake_stop();
    (void)snprintf(path, sizeof path, "%s/state.msgpack", dir);
    assert_string_equal(read_text(path), "one");
    (void)snprintf(path, sizeof path, "%s/model.safetensors", dir);
    assert_string_equal(read_text(path), "four");
    (void)snprintf(path, sizeof path, "%s/metadata.json", dir);
    assert_has(read_text(path), "\"step\": 100");
    (void)snprintf(path, sizeof path, "%s/checkpoint", dir);
    assert_int_equal(access(path, F_OK), -1);
}

static void a_checkpoint_that_holds_no_files_is_not_unpacked(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"checkpoint_get", {"\"ok\":true,\"end\":true,\"trial\":2,\"step\":100,\"attempt\":1,\"bytes\":7"}, "weights"},
        {NULL, {NULL}, NULL}};
    char dir[128];
    (void)snprintf(dir, sizeof dir, "%s/whole", root);
    fake_start(answers);
    assert_int_equal(RUN("checkpoint", "get", "a1b2c3d4e5f60718/2", dir, "--unpack"), CLI_REFUSED);
    assert_sentence("leave --unpack out to get it as one file");
    assert_int_equal(access(dir, F_OK), -1);
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

/* A pause changes all waiting trials at once: the line about the experiment tells that, and only the trial that ran has its own. */
static void watch_tells_of_a_pause_once(void **state)
{
    (void)state;
#define PAUSING(experiment, first, second, end)                                                                             \
    "\"ok\":true,\"end\":" end ",\"experiment\":{\"id\":\"a1b2c3d4e5f60718\",\"name\":\"mlp\",\"state\":\"" experiment       \
    "\",\"trials\":[{\"index\":0,\"attempt\":1,\"state\":\"" first "\",\"tail\":null},{\"index\":1,\"attempt\":null,\"state\":\"" \
    second "\",\"tail\":null}]}"
    static const struct answer answers[] = {
        {"watch",
         {PAUSING("running", "running", "queued", "false"), PAUSING("paused", "running", "paused", "false"),
          PAUSING("paused", "paused", "paused", "false"), PAUSING("cancelled", "cancelled", "cancelled", "true")},
         NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("watch", "a1b2c3d4e5f60718"), CLI_DONE);
    assert_has(out_text, "experiment mlp paused\n");
    assert_has(out_text, "experiment mlp cancelled\n");
    assert_has(out_text, "trial 0 paused\n");
    assert_lacks(out_text, "trial 1");
    fake_stop();
}

static void watch_tells_of_a_stop(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"watch",
         {PAUSING("running", "running", "queued", "false"), PAUSING("running", "stopping", "queued", "false"),
          PAUSING("running", "stopped", "queued", "false"), PAUSING("completed", "stopped", "stopped", "true")},
         NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("watch", "a1b2c3d4e5f60718"), CLI_DONE);
    assert_has(out_text, "trial 0 stopping\n");
    assert_has(out_text, "trial 0 stopped\n");
    assert_has(out_text, "trial 1 stopped\n");
    assert_has(out_text, "experiment mlp completed\n");
    fake_stop();
}

static void stop_names_the_trial(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"stop", {"\"ok\":true,\"end\":true,\"experiment\":\"a1b2c3d4e5f60718\",\"trial\":3,\"stored_on\":2,\"nodes_alive\":3"}, NULL},
        {"stop", {"\"ok\":true,\"end\":true,\"experiment\":\"a1b2c3d4e5f60718\",\"trial\":3,\"stored_on\":2,\"nodes_alive\":3"}, NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("stop", "a1b2c3d4e5f60718/3"), CLI_DONE);
    assert_string_equal(out_text, "trial 3 of a1b2c3d4e5f60718 is to stop, stored on 2 nodes\n");
    assert_int_equal(RUN("stop", "a1b2c3d4e5f60718/3", "--json"), CLI_DONE);
    assert_has(out_text, "\"trial\": 3");
    assert_int_equal(RUN("stop", "a1b2c3d4e5f60718"), CLI_USAGE);
    assert_sentence("does not say which trial; write EXP/TRIAL, for example a1b2c3d4e5f60718/0");
    fake_stop();
}

static void retry_names_the_trial(void **state)
{
    (void)state;
#define RETRIED(more) "\"ok\":true,\"end\":true,\"experiment\":\"a1b2c3d4e5f60718\",\"trial\":3,\"stored_on\":2,\"nodes_alive\":3," more
    static const struct {
        struct answer answers[2];
        const char *told;
    } cases[] = {
        {{{"retry", {RETRIED("\"state\":\"running\"")}, NULL}, {NULL, {NULL}, NULL}}, "is to run again"},
        {{{"retry", {RETRIED("\"state\":\"running\",\"already\":true")}, NULL}, {NULL, {NULL}, NULL}}, "is to run again already"},
        {{{"retry", {RETRIED("\"state\":\"paused\"")}, NULL}, {NULL, {NULL}, NULL}}, "is to run again once its experiment is resumed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char wanted[160];
        (void)snprintf(wanted, sizeof wanted, "trial 3 of a1b2c3d4e5f60718 %s, stored on 2 nodes\n", cases[i].told);
        fake_start(cases[i].answers);
        assert_int_equal(RUN("retry", "a1b2c3d4e5f60718/3"), CLI_DONE);
        assert_string_equal(out_text, wanted);
        fake_stop();
    }
    fake_start(cases[0].answers);
    assert_int_equal(RUN("retry", "a1b2c3d4e5f60718/3", "--json"), CLI_DONE);
    assert_has(out_text, "\"trial\": 3");
    assert_int_equal(RUN("retry", "a1b2c3d4e5f60718"), CLI_USAGE);
    assert_sentence("does not say which trial; write EXP/TRIAL, for example a1b2c3d4e5f60718/0");
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
        cmocka_unit_test_teardown(void_points_are_left_out_unless_all_are_wanted, stop_what_runs),
        cmocka_unit_test_teardown(metrics_are_a_table_with_a_column_for_each, stop_what_runs),
        cmocka_unit_test_teardown(points_have_an_x_of_the_users_choice, stop_what_runs),
        cmocka_unit_test_teardown(sums_are_asked_for_and_shown_with_their_parts, stop_what_runs),
        cmocka_unit_test_teardown(lines_of_a_log_are_chosen_by_the_daemon, stop_what_runs),
        cmocka_unit_test_teardown(a_name_of_a_metric_cannot_steer_the_terminal, stop_what_runs),
        cmocka_unit_test_teardown(lines_of_several_ranks_do_not_mix, stop_what_runs),
        cmocka_unit_test_teardown(lines_begin_with_what_tells_their_workers_apart, stop_what_runs),
        cmocka_unit_test_teardown(the_log_of_one_attempt_is_asked_for_or_of_all, stop_what_runs),
        cmocka_unit_test_teardown(the_only_trial_of_an_experiment_needs_no_number, stop_what_runs),
        cmocka_unit_test_teardown(a_new_attempt_is_told_with_why_the_one_before_ended, stop_what_runs),
        cmocka_unit_test_teardown(an_empty_log_is_said_to_be_empty_or_lost, stop_what_runs),
        cmocka_unit_test_teardown(a_checkpoint_that_a_program_left_is_listed_as_a_file, stop_what_runs),
        cmocka_unit_test_teardown(checkpoints_are_listed_fetched_and_verified, stop_what_runs),
        cmocka_unit_test_teardown(a_checkpoint_of_files_is_unpacked_when_asked, stop_what_runs),
        cmocka_unit_test_teardown(a_checkpoint_that_holds_no_files_is_not_unpacked, stop_what_runs),
        cmocka_unit_test_teardown(a_cut_checkpoint_is_not_kept, stop_what_runs),
        cmocka_unit_test_teardown(watch_in_a_pipe_says_what_changed, stop_what_runs),
        cmocka_unit_test_teardown(watch_tells_of_a_pause_once, stop_what_runs),
        cmocka_unit_test_teardown(watch_tells_of_a_stop, stop_what_runs),
        cmocka_unit_test_teardown(stop_names_the_trial, stop_what_runs),
        cmocka_unit_test_teardown(retry_names_the_trial, stop_what_runs),
        cmocka_unit_test_teardown(watch_says_which_slots_lack, draw_no_more),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
