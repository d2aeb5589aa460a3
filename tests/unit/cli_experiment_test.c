/* Experiments on the command line: listed, shown, found, cancelled, deleted, waited for; and what the client makes of a
 * daemon that is not there or talks nonsense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/document.h"
#include "store/data_dir.h"
#include "tests/unit/cli_fixture.h"
#include "tools/shoal/cli.h"

static void lists_come_as_tables_or_json(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"ls", {EXPERIMENTS}, NULL},
        {"nodes",
         {"\"ok\":true,\"end\":true,\"nodes\":[{\"id\":\"00\",\"name\":\"evil\\u001b[2J\",\"address\":\"10.0.0.1:"
          "7410\",\"state\":\"alive\","
          "\"slots\":2,\"version\":\"0.1.0\",\"quarantined\":{\"minutes\":4,\"reason\":\"so\"},\"new\":[1]},"
          "{\"id\":\"01\",\"name\":\"birch\",\"address\":null,\"state\":\"dead\",\"slots\":1,\"version\":\"0.9.0\","
          "\"protocol\":{\"min\":2,\"max\":3,\"common\":null}},"
          "{\"id\":\"02\",\"name\":\"cedar\",\"address\":null,\"state\":\"alive\",\"slots\":1,\"version\":\"0.2.0\","
          "\"protocol\":{\"min\":1,\"max\":2,\"common\":1}}]"},
         NULL},
        {"slots",
         {"\"ok\":true,\"end\":true,\"slots\":[{\"node\":\"01\",\"node_name\":\"beta\",\"node_state\":\"dead\",\"index\":0,"
          "\"kind\":\"cpu\",\"model\":\"Xeon\",\"memory_bytes\":0,\"state\":\"free\",\"experiment\":null,\"trial\":null,"
          "\"attempt\":null},{\"node\":\"00\",\"node_name\":\"alpha\",\"node_state\":\"alive\",\"index\":1,\"uuid\":\"u\","
          "\"kind\":\"cpu\","
          "\"model\":\"Xeon\",\"memory_bytes\":1073741824,\"state\":\"free\",\"experiment\":null,\"trial\":null,"
          "\"attempt\":null}]"},
         NULL},
        {"status",
         {"\"ok\":true,\"end\":true,\"mesh\":{\"id\":\"aa\",\"name\":\"lab\"},\"node\":{\"id\":\"bb\",\"name\":"
          "\"alpha\","
          "\"state\":\"alive\"},\"version\":\"0.1.0\",\"address\":\"10.0.0.1:7410\",\"uptime_s\":61,\"nodes\":3,"
          "\"nodes_alive\":2,"
          "\"slots\":6,\"slots_free\":5,\"experiments\":2,\"experiments_live\":1,\"records\":40,\"memory_bytes\":"
          "1048576,\"polite\":true,"
          "\"syncing\":false,\"disk_full\":true,\"refused\":{\"handshakes\":3,\"strangers\":0}"},
         NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("ls"), CLI_DONE);
    assert_has(out_text,
               "a1b2c3d4e5f60718  mlp    running  3 of 8 completed, 1 running  trial 2 (accuracy 0.8812)  alpha");
    assert_int_equal(RUN("ls", "--json"), CLI_DONE);
    assert_has(out_text, "\"name\": \"mlp\"");
    assert_lacks(out_text, "\"ok\"");
    assert_lacks(out_text, "\"end\"");
    assert_int_equal(strncmp(out_text, "{\"experiments\": [{\"id\": \"a1b2", 25), 0);
    assert_int_equal(RUN("nodes"), CLI_DONE);
    assert_has(out_text, "evil?[2J");
    assert_has(out_text, "alive, quarantined");
    assert_has(out_text, "birch     dead, speaks protocol 2 to 3  ");
    assert_has(out_text, "cedar     alive  ");
    assert_lacks(out_text, "\033");
    assert_int_equal(RUN("slots"), CLI_DONE);
    assert_has(out_text, "beta      0  cpu   Xeon         -  free, node dead  -               -        -\n"
                         "alpha     1  cpu   Xeon   1.0 GiB  free             -               -        -\n");
    assert_int_equal(RUN("status"), CLI_DONE);
    assert_has(out_text, "2 of 3 alive");
    assert_has(out_text, "slots        5 of 6 free on living nodes\n");
    assert_has(out_text, "3 handshakes\n");
    assert_has(out_text, "up for 1 min 1 s, 1.0 MiB");
    assert_has(out_text, "FULL");
    fake_stop();
}

static void parts_of_a_document_are_joined(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"nodes",
         {"\"ok\":true,\"end\":false,\"more\":true,\"x\":{\"l\":[1]},\"nodes\":[{\"id\":\"00\"}]",
          "\"ok\":true,\"end\":false,\"more\":true,\"x\":{\"l\":[2],\"y\":3},\"nodes\":[]",
          "\"ok\":true,\"end\":true,\"nodes\":[{\"id\":\"01\"},{\"id\":\"02\"}]"},
         NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("nodes", "--json"), CLI_DONE);
    assert_string_equal(
        out_text,
        "{\"x\": {\"l\": [1, 2], \"y\": 3}, \"nodes\": [{\"id\": \"00\"}, {\"id\": \"01\"}, {\"id\": \"02\"}]}\n");
    fake_stop();
}

/* Replies to the request 1, but for: arrays in each other that are too many, a count of four thousand million (twice), a text
 * that is cut short, a value too much, an extension; and an array, and nothing. */
static void an_answer_that_is_no_document_is_refused(void **state)
{
    (void)state;
    static const char *const frames[] = {
        "hex:82a2696401a17891919191919191919191919191919191919191919191919191919191919191919191c0",
        "hex:82a2696401a178ddffffffff", "hex:82a2696401a178dfffffffff", "hex:82a2696401a178a9616263", "hex:81a269640101",
        "hex:82a2696401a178d40102", "hex:93010203", "hex:",
    };
    for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        const struct answer answers[] = {{"ls", {frames[i]}, NULL}, {NULL, {NULL}, NULL}};
        fake_start(answers);
        assert_int_equal(RUN("ls"), CLI_REFUSED);
        assert_sentence("answered with something that is no reply");
        assert_string_equal(out_text, "");
        fake_stop();
    }
}

/* Values of other types than expected read as nothing. */
static void an_answer_of_other_types_is_shown_as_far_as_it_goes(void **state)
{
    (void)state;
#define STRANGE                                                                                                     \
    "\"ok\":true,\"end\":true,\"mesh\":[],\"node\":7,\"nodes\":{\"a\":1},\"slots\":\"x\",\"experiment\":[{}]," \
    "\"experiments\":[1,[],\"x\",{\"id\":{}}],\"refused\":{\"a\":\"b\"},\"checkpoints\":[null],\"points\":[0],"  \
    "\"events\":[true],\"trials\":-1"
    static const struct answer answers[] = {
        {"ls", {STRANGE}, NULL},       {"status", {STRANGE}, NULL},        {"nodes", {STRANGE}, NULL},
        {"slots", {STRANGE}, NULL},    {"show", {STRANGE}, NULL},          {"events", {STRANGE}, NULL},
        {"metrics", {STRANGE}, NULL},  {"wait", {STRANGE}, NULL},          {"checkpoint_ls", {STRANGE}, NULL},
        {"withhold", {STRANGE}, NULL}, {NULL, {NULL}, NULL},
    };
    fake_start(answers);
    assert_int_equal(RUN("ls"), CLI_DONE);
    assert_int_equal(RUN("status"), CLI_DONE);
    assert_int_equal(RUN("nodes"), CLI_DONE);
    assert_int_equal(RUN("slots"), CLI_DONE);
    assert_int_equal(RUN("show", "a1b2c3d4e5f60718"), CLI_DONE);
    assert_int_equal(RUN("events"), CLI_DONE);
    assert_int_equal(RUN("metrics", "a1b2c3d4e5f60718/0"), CLI_DONE);
    assert_int_equal(RUN("checkpoint", "ls", "a1b2c3d4e5f60718"), CLI_DONE);
    assert_int_equal(RUN("withhold"), CLI_DONE);
    assert_int_equal(RUN("wait", "a1b2c3d4e5f60718"), CLI_REFUSED);
    assert_sentence("is gone");
    fake_stop();
}

static void top_shows_what_runs_on_each_slot(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"nodes",
         {"\"ok\":true,\"end\":true,\"nodes\":[{\"id\":\"00\",\"name\":\"alpha\",\"state\":\"alive\",\"drained\":true},"
          "{\"id\":\"01\",\"name\":\"beta\",\"state\":\"dead\"},{\"id\":\"02\",\"name\":\"gone\",\"state\":\"left\"}]"},
         NULL},
        {"slots",
         {"\"ok\":true,\"end\":true,\"slots\":[{\"node\":\"00\",\"node_label\":\"alpha\",\"node_state\":\"alive\",\"index\":0,\"kind\":\"cuda\","
          "\"model\":\"H100\",\"memory_bytes\":1073741824,\"state\":\"leased\",\"experiment\":\"a1b2c3d4e5f60718\",\"trial\":1,\"attempt\":6},"
          "{\"node\":\"01\",\"node_label\":\"beta\",\"node_state\":\"dead\",\"index\":0,\"kind\":\"cpu\",\"model\":\"Xeon\",\"memory_bytes\":0,"
          "\"state\":\"free\",\"experiment\":null,\"trial\":null,\"attempt\":null}]"},
         NULL},
        {"usage",
         {"\"ok\":true,\"end\":true,\"unknown\":[],\"usage\":[{\"node\":\"00\",\"index\":0,\"cpu_percent\":150,\"memory_bytes\":2147483648,"
          "\"gpu_percent\":80,\"gpu_memory_bytes\":1073741824},"
          "{\"node\":\"01\",\"index\":0,\"cpu_percent\":0,\"memory_bytes\":0,\"gpu_percent\":null,\"gpu_memory_bytes\":null}]"},
         NULL},
        {"show", {SHOWN("running", "\"end\":true")}, NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("top", "--json"), CLI_DONE);
    assert_has(out_text, "{\"nodes\": 2, \"nodes_alive\": 1, \"nodes_drained\": 1, \"slots_in_use\": 1, \"slots\": [{\"node\": \"00\"");
    assert_has(out_text, "\"experiment_name\": \"mlp\", \"trial\": 1, \"attempt\": 6, \"step\": 0, \"steps_s\": 0.0, "
                       "\"cpu_percent\": 150.0, \"resident_bytes\": 2147483648, \"gpu_percent\": 80, \"gpu_memory_bytes\": 1073741824}");
    assert_has(out_text, "\"experiment\": null, \"experiment_name\": null, \"trial\": null, \"attempt\": null, \"step\": null, \"steps_s\": null, "
                       "\"cpu_percent\": null, \"resident_bytes\": null, \"gpu_percent\": null, \"gpu_memory_bytes\": null}]}");
    assert_int_equal(RUN("top"), CLI_DONE);
    assert_has(out_text, "nodes: 1 of 2 alive, 1 drained  slots: 1 of 1 in use, 1 on nodes that are away\n");
    assert_has(out_text, "alpha     0  leased           mlp             1     0        0  150%  2.0 GiB  80%  1.0 GiB of 1.0 GiB  cuda        6  H100\n");
    assert_has(out_text, "beta      0  free, node dead  -               -     -        -     -        -    -                   -  cpu         -  Xeon\n");
    fake_stop();
}

static void show_has_trials_and_the_last_lines_of_failed_ones(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"ls", {EXPERIMENTS}, NULL},
        {"show", {SHOWN("failed", "\"end\":true")}, NULL},
        {"tail", {"log:0more than fits into a record\nfirst\nlast \x1bline\n"}, NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("show", "mlp"), CLI_DONE);
    assert_has(out_text, "mlp  a1b2c3d4e5f60718  failed  coordinator alpha, term 2\n");
    assert_has(out_text, "1 of 2 completed, 1 failed  best: trial 0 (accuracy 0.9000)");
    assert_has(out_text, "TRIAL  STATE      STEP  accuracy    hidden  learning_rate  train/loss  CHECKPOINT            SLOTS"
                         "           ATTEMPT  RESTARTS\n"
                         "   *0  completed   300    0.9000  [64, 32]         0.0125      0.2500  step 300, on 2 nodes  alpha:0 beta:1"
                         "        1         0\n");
    assert_has(out_text, "trial 1: exit status 1, the last lines of its log:\n"
                         "    more than fits into a record\n    first\n    last ?line\n");
    msgpack_object request = last_request();
    char id[32];
    document_text(&request, "experiment", id, sizeof id);
    assert_string_equal(id, "a1b2c3d4e5f60718");
    fake_stop();
}

#define NO_BEST(trials, total) "\"ok\":true,\"end\":true,\"experiment\":{\"id\":\"a1b2c3d4e5f60718\",\"name\":\"mlp\",\"state\":\"completed\"," \
                        "\"metric\":\"accuracy\",\"best\":null,\"counts\":{\"total\":" total ",\"completed\":1},\"trials\":[" trials "]}"
#define REPORTS(index, metrics) "{\"index\":" index ",\"state\":\"completed\",\"metrics\":{" metrics "},\"tail\":null}"

static void a_search_without_a_best_trial_says_what_was_reported(void **state)
{
    (void)state;
    static const char none[] = "no trial has reported accuracy in group validation";
    static const struct { const char *shown, *said; } rows[] = {
        {NO_BEST(REPORTS("0", "\"training\":{\"loss\":0.5}") "," REPORTS("1", "\"training\":{\"loss\":0.5},\"validation\":{\"acc\\n\":1}"), "2"),
         "no trial has reported accuracy in group validation; reported are: training/loss, validation/acc\\n\n"},
        {NO_BEST(REPORTS("0", "") "," REPORTS("1", ""), "2"), "no trial has reported accuracy in group validation, nor any other metric\n"},
        {NO_BEST(REPORTS("0", "\"training\":{\"loss\":0.5}"), "1"), "reported are: training/loss\n"},
        {NO_BEST(REPORTS("0", "\"training\":{\"accuracy\":0.5}"), "1"),
         "reported are: training/accuracy; run.report(..., group=\"validation\") reports what trials are compared by\n"},
        {NO_BEST(REPORTS("0", ""), "1"), NULL}, /* a program that reports nothing is not compared */
        {NO_BEST(REPORTS("0", "\"validation\":{\"accuracy\":null}") "," REPORTS("1", ""), "2"), NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct answer answers[] = {
            {"show", {rows[i].shown}, NULL},
            {"watch", {rows[i].shown}, NULL},
            {"wait", {"\"ok\":true,\"end\":true,\"state\":\"completed\",\"trials\":{\"total\":2,\"completed\":2},\"best\":null"}, NULL},
            {NULL, {NULL}, NULL}};
        static char *const commands[] = {"show", "watch", "wait"};
        fake_start(answers);
        for (size_t k = 0; k < sizeof commands / sizeof commands[0]; k++) {
            assert_int_equal(RUN(commands[k], "a1b2c3d4e5f60718"), CLI_DONE);
            if (rows[i].said != NULL) {
                assert_has(out_text, rows[i].said);
            } else {
                assert_lacks(out_text, none);
            }
        }
        assert_int_equal(RUN("wait", "a1b2c3d4e5f60718", "--json"), CLI_DONE);
        assert_lacks(out_text, none);
        fake_stop();
    }
}

static void the_last_lines_of_an_earlier_attempt_are_said_to_be_its(void **state)
{
    (void)state;
#define EARLIER(index, state) "{\"index\":" index ",\"state\":\"" state "\",\"attempt\":2,\"reason\":\"asked to stop\",\"tail\":\"I am attempt 1\\n\"," \
                              "\"tail_attempt\":1,\"attempts\":[{\"attempt\":1,\"reason\":\"rank 0 was killed by signal 9 (SIGKILL)\"}," \
                              "{\"attempt\":2,\"reason\":\"asked to stop\"}]}"
    static const struct answer answers[] = {
        {"ls", {EXPERIMENTS}, NULL},
        {"show",
         {"\"ok\":true,\"end\":true,\"experiment\":{\"id\":\"a1b2c3d4e5f60718\",\"name\":\"mlp\",\"state\":\"running\",\"trials\":["
          EARLIER("0", "running") "," EARLIER("1", "queued") "]}"},
         NULL},
        {"tail", {"\"ok\":true,\"end\":true"}, NULL},
        {NULL, {NULL}, NULL}};
    static const char lines[] = "rank 0 was killed by signal 9 (SIGKILL), the last lines of attempt 1's log:\n    I am attempt 1\n";
    char wanted[400];
    (void)snprintf(wanted, sizeof wanted, "\ntrial 0: %s\ntrial 1: asked to stop\n\ntrial 1: %s", lines, lines);
    fake_start(answers);
    assert_int_equal(RUN("show", "mlp"), CLI_DONE);
    assert_has(out_text, wanted);
    assert_lacks(out_text, "of its log");
    fake_stop();
}

static void show_says_why_a_trial_that_waits_has_ended_before(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"ls", {EXPERIMENTS}, NULL},
        {"show",
         {"\"ok\":true,\"end\":true,\"experiment\":{\"id\":\"a1b2c3d4e5f60718\",\"name\":\"mlp\",\"state\":\"running\","
          "\"trials\":[{\"index\":0,\"state\":\"queued\",\"reason\":\"a worker was lost: on beta\\nno code\",\"tail\":null},"
          "{\"index\":1,\"state\":\"queued\",\"tail\":null},"
          "{\"index\":2,\"state\":\"completed\",\"reason\":\"every rank is done\",\"tail\":null}]}"},
         NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("show", "mlp"), CLI_DONE);
    assert_has(out_text, "\ntrial 0: a worker was lost: on beta?no code\n");
    assert_null(strstr(out_text, "trial 1"));
    assert_null(strstr(out_text, "every rank is done"));
    fake_stop();
}

static void show_and_ls_say_what_queued_trials_wait_for(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"ls",
         {"\"ok\":true,\"end\":true,\"experiments\":[{\"id\":\"a1b2c3d4e5f60718\",\"name\":\"mlp\",\"state\":\"running\","
          "\"waiting\":\"no cuda slot is free: 4 taken by other\"}]"},
         NULL},
        {"show",
         {"\"ok\":true,\"end\":true,\"experiment\":{\"id\":\"a1b2c3d4e5f60718\",\"name\":\"mlp\",\"state\":\"running\","
          "\"lacks\":null,\"waiting\":[{\"first\":2,\"last\":2,\"count\":1,\"reason\":\"it was lost\"},"
          "{\"first\":3,\"last\":9,\"count\":7,\"reason\":\"no slot\"},{\"first\":10,\"last\":30,\"count\":4,\"reason\":\"a cut\"}],"
          "\"trials\":[{\"index\":0,\"state\":\"queued\",\"tail\":null}]}"},
         NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("show", "mlp"), CLI_DONE);
    assert_has(out_text, "trial 2 waits: it was lost\n");
    assert_has(out_text, "trials 3 to 9 wait: no slot\n");
    assert_has(out_text, "4 of the trials 10 to 30 wait: a cut\n");
    assert_int_equal(RUN("ls"), CLI_DONE);
    assert_has(out_text, "mlp waits: no cuda slot is free: 4 taken by other\n");
    fake_stop();
}

/* 30 trials, of which the later ones are the better ones; the last five run, and the first seven have failed. */
static const char *many_trials(void)
{
    static char text[16384];
    size_t used = (size_t)snprintf(text, sizeof text, "\"ok\":true,\"end\":true,\"experiment\":{\"id\":\"a1b2c3d4e5f60718\",\"name\":\"wide\","
                                                      "\"state\":\"running\",\"metric\":\"accuracy\",\"trials\":[");
    for (int i = 0; i < 30; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s{\"index\":%d,\"state\":\"%s\",\"hyperparameters\":{\"lr\":%d,\"batch\":64},\"tail\":%s,"
                                 "\"metrics\":{\"validation\":{\"accuracy\":0.%02d}}}",
                                 i > 0 ? "," : "", i, i < 7 ? "failed" : i < 25 ? "completed" : "running", 100 - i,
                                 i < 7 ? "\"it broke\\n\"" : "null", i + 10);
    }
    (void)snprintf(text + used, sizeof text - used, "]}");
    return text;
}

static uint32_t count_of(const char *text, const char *part)
{
    uint32_t count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++) {
        count++;
    }
    return count;
}

static void of_many_trials_the_best_are_shown(void **state)
{
    (void)state;
    const struct answer answers[] = {
        {"show", {many_trials()}, NULL}, {"tail", {"\"ok\":true,\"end\":true"}, NULL}, {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("show", "a1b2c3d4e5f60718"), CLI_DONE);
    assert_has(out_text, "in all trials: batch=64\nTRIAL  STATE      STEP  accuracy  lr\n"
                         "   29  running       -    0.3900  71\n   28  running ");
    assert_has(out_text, "   10  completed     -    0.2000  90\nand 10 more: 3 completed, 7 failed; --all shows them\n");
    assert_int_equal(count_of(out_text, "    it broke\n"), 5);
    assert_has(out_text, "\n2 more trials have such lines; shoal why EXP/TRIAL shows those of one, shoal show EXP --all those of all\n");
    assert_int_equal(RUN("show", "a1b2c3d4e5f60718", "--all", "--columns", "trial,lr"), CLI_USAGE);
    assert_sentence("--columns has no column 'lr'; columns are trial,state,");
    assert_int_equal(RUN("show", "a1b2c3d4e5f60718", "--all", "--columns", "trial,value"), CLI_DONE);
    assert_has(out_text, "TRIAL  accuracy\n    0    0.1000\n    1 ");
    assert_has(out_text, "   29    0.3900\n");
    assert_int_equal(count_of(out_text, "    it broke\n"), 7);
    assert_int_equal(RUN("show", "a1b2c3d4e5f60718", "--all", "--sort", "lr"), CLI_DONE);
    assert_true(strstr(out_text, "\n   29 ") < strstr(out_text, "\n    0 "));
    assert_int_equal(RUN("show", "a1b2c3d4e5f60718", "--all", "--sort=-lr"), CLI_DONE);
    assert_true(strstr(out_text, "\n   29 ") > strstr(out_text, "\n    0 "));
    assert_int_equal(RUN("show", "a1b2c3d4e5f60718", "--sort", "momentum"), CLI_USAGE);
    assert_has(err_text_written, "--sort momentum is no column, hyperparameter or metric of these trials");
    msgpack_object request = last_request();
    assert_true(document_true(&request, "curves") || strcmp(fake.ops + strlen(fake.ops) - 5, "tail ") == 0);
    fake_stop();
}

#define ONE_TRIAL                                                                                                                     \
    "\"ok\":true,\"end\":true,\"experiment\":{\"id\":\"a1b2c3d4e5f60718\",\"name\":\"mlp\",\"state\":\"running\","                      \
    "\"metric\":\"accuracy\",\"smaller_is_better\":false,\"trials\":4,\"replicas\":2},"                                             \
    "\"trial\":{\"index\":3,\"state\":\"failed\",\"attempt\":2,\"step\":40,\"started_s\":1700000000,\"ended_s\":1700000100,\"before_s\":0," \
    "\"hyperparameters\":{\"lr\":0.5},\"metrics\":{\"validation\":{\"accuracy\":0.5}},\"tail\":\"ouch\\n\",\"tail_attempt\":2},"          \
    "\"why\":[{\"text\":\"a worker failed: rank 0 ended with status 3\",\"at_s\":1700000100},"                                      \
    "{\"text\":\"its program failed 2 times, and max_restarts is 1\",\"at_s\":null}],"                                             \
    "\"attempts\":[{\"attempt\":1,\"state\":\"failed\",\"start_step\":0,\"step\":30,\"workers\":2,\"started_s\":1699990000,"          \
    "\"ended_s\":1699990060,\"reason\":\"a worker failed\",\"nodes\":[\"elm\",\"fir\"]},"                                           \
    "{\"attempt\":2,\"state\":\"failed\",\"start_step\":30,\"step\":40,\"workers\":1,\"started_s\":null,\"ended_s\":null,"            \
    "\"reason\":null,\"nodes\":[]}],"                                                                                               \
    "\"checkpoints\":[{\"trial\":3,\"step\":30,\"attempt\":1,\"bytes\":2048,\"durable\":false,\"holders\":[{\"label\":\"elm\"}]}]"

static void metrics_that_nothing_has_reported_are_no_silence(void **state)
{
    (void)state;
    static const struct answer answers[] = {{"metrics", {"\"ok\":true,\"end\":true,\"points\":[]"}, NULL}, {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("metrics", "a1b2c3d4e5f60718/3"), CLI_DONE);
    assert_string_equal(out_text, "");
    assert_sentence("a1b2c3d4e5f60718/3 has no metrics yet: its program has reported none");
    assert_int_equal(RUN("metrics", "a1b2c3d4e5f60718/3", "--json"), CLI_DONE);
    assert_string_equal(err_text_written, "");
    fake_stop();
}

static void one_trial_is_shown_with_its_attempts_and_checkpoints_in_words(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"trial", {ONE_TRIAL}, NULL},
        {"tail", {"\"ok\":true,\"end\":true"}, NULL},
        {"metrics",
         {"\"ok\":true,\"end\":true,\"points\":[{\"step\":10,\"group\":\"validation\",\"metrics\":{\"accuracy\":0.25}},"
          "{\"step\":20,\"group\":\"training\",\"metrics\":{\"accuracy\":9}},{\"step\":35,\"void\":true,\"group\":\"validation\","
          "\"metrics\":{\"accuracy\":9}},{\"step\":40,\"group\":\"validation\",\"metrics\":{\"accuracy\":0.5}}]"},
         NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("show", "a1b2c3d4e5f60718/3"), CLI_DONE);
    assert_has(out_text, "trial 3 of mlp  a1b2c3d4e5f60718  failed\n  a worker failed: rank 0 ended with status 3 (20");
    assert_has(out_text, ")\n  its program failed 2 times, and max_restarts is 1\nhyperparameters: lr=0.5\n");
    assert_has(out_text, "step 40, accuracy 0.5000, 0.4 steps/s, 1m40s elapsed\n");
    assert_has(out_text, "validation/accuracy\n    0.5000 "); /* the picture */
    assert_has(out_text, "    0.2500 ");
    assert_has(out_text, "\nattempts\n  attempt 1 on elm, fir, failed, step 0 to 30, from 20");
    assert_has(out_text, " (1m00s): a worker failed\n  attempt 2, failed, step 30 to 40\n");
    assert_has(out_text, "checkpoints\n  step 30, on 1 of 2 nodes so far, 2.0 KiB\n");
    assert_has(out_text, "the last lines of its log:\n    ouch\n");
    assert_int_equal(RUN("show", "a1b2c3d4e5f60718/3", "--json"), CLI_DONE);
    assert_has(out_text, "\"why\": [{\"text\": \"a worker failed");
    assert_int_equal(RUN("why", "a1b2c3d4e5f60718/3"), CLI_DONE);
    assert_int_equal(strncmp(out_text, "trial 3 is failed\n  a worker failed: rank 0 ended with status 3 (20", 60), 0);
    assert_has(out_text, "\n  its program failed 2 times, and max_restarts is 1\nthe last lines of its log:\n    ouch\n");
    assert_lacks(out_text, "checkpoints");
    assert_int_equal(RUN("why", "a1b2c3d4e5f60718/3", "--json"), CLI_DONE);
    assert_has(out_text, "\"attempts\": [{\"attempt\": 1");
    fake_stop();
}

static void experiments_are_found_by_name_and_prefix(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"ls", {EXPERIMENTS}, NULL},
        {"cancel",
         {"\"ok\":true,\"end\":true,\"experiment\":\"a1b2c3d4e5f60718\",\"stored_on\":2,\"nodes_alive\":3"},
         NULL},
        {"pause", {"\"ok\":false,\"end\":true,\"code\":4,\"error\":\"there is no experiment ffffffffffffffff\""}, NULL},
        {"resume", {"\"ok\":false,\"end\":true,\"code\":77,\"error\":\"strange\""}, NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("cancel", "A1B2C"), CLI_DONE);
    assert_string_equal(out_text, "a1b2c3d4e5f60718 cancelled, stored on 2 nodes\n");
    assert_int_equal(RUN("cancel", "mlp"), CLI_DONE);
    assert_string_equal(out_text, "mlp (a1b2c3d4e5f60718) cancelled, stored on 2 nodes\n");
    assert_int_equal(RUN("cancel", "a1b2"), CLI_REFUSED);
    assert_sentence("a1b2c3d4e5f60718, a1b2ffffffffffff");
    assert_int_equal(RUN("cancel", "a1b"), CLI_NO_SUCH_THING);
    assert_sentence("4 digits");
    assert_int_equal(RUN("cancel", "twice"), CLI_REFUSED);
    assert_sentence("2 experiments are named twice");
    assert_int_equal(RUN("cancel", "nobody"), CLI_NO_SUCH_THING);
    assert_int_equal(RUN("pause", "ffffffffffffffff"), CLI_NO_SUCH_THING);
    assert_sentence("there is no experiment ffffffffffffffff");
    assert_int_equal(RUN("resume", "mlp"), CLI_REFUSED); /* a code that DESIGN does not know */
    fake_stop();
    assert_string_equal(fake.ops, "ls cancel ls cancel ls ls ls ls pause ls resume ");
}

static void a_trial_in_the_place_of_an_experiment_is_called_one(void **state)
{
    (void)state;
    static const struct answer answers[] = {{"ls", {EXPERIMENTS}, NULL}, {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("cancel", "mlp/3"), CLI_USAGE);
    assert_sentence("mlp/3 names a trial, and this is about a whole experiment; write mlp\n");
    assert_int_equal(RUN("label", "A1B2C/0", "x=1"), CLI_USAGE);
    assert_sentence("write A1B2C\n");
    assert_int_equal(RUN("rungs", "nobody/0"), CLI_NO_SUCH_THING);
    assert_sentence("there is no experiment with the name or id nobody/0");
    assert_int_equal(RUN("config", "mlp/x"), CLI_NO_SUCH_THING);
    assert_int_equal(RUN("config", "/3"), CLI_NO_SUCH_THING);
    fake_stop();
}

static void a_name_that_is_the_beginning_of_another_id_is_neither(void **state)
{
    (void)state;
#define ROW(id, name) "{\"id\":\"" id "\",\"name\":\"" name "\",\"state\":\"running\"}"
    static const struct answer answers[] = {
        {"ls",
         {"\"ok\":true,\"end\":true,\"experiments\":[" ROW("024544d100000000", "mine") "," ROW("ffff000000000000", "0245") "," ROW(
             "aaaa000000000000", "beef") "," ROW("beefbeefbeefbeef", "beef cake") "," ROW("cafe000000000000", "cafe") "]"},
         NULL},
        {"cancel", {"\"ok\":true,\"end\":true,\"experiment\":\"cafe000000000000\",\"stored_on\":1"}, NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("delete", "0245"), CLI_REFUSED);
    assert_sentence("2 experiments fit 0245: ffff000000000000, 024544d100000000; give one of these ids");
    assert_int_equal(RUN("show", "beef"), CLI_REFUSED);
    assert_sentence("2 experiments fit beef: aaaa000000000000, beefbeefbeefbeef;");
    assert_int_equal(RUN("delete", "--yes", "024544d1000000007"), CLI_NO_SUCH_THING); /* longer than an id */
    assert_int_equal(RUN("cancel", "cafe"), CLI_DONE); /* one, both ways */
    assert_int_equal(RUN("cancel", "024544d100000000"), CLI_DONE); /* a whole id is one */
    fake_stop();
    assert_string_equal(fake.ops, "ls ls ls ls cancel cancel ");
}

static void delete_asks_on_a_terminal(void **state)
{
    (void)state;
#define DELETED(more) \
    "\"ok\":true,\"end\":true,\"experiment\":\"a1b2c3d4e5f60718\",\"stored_on\":2,\"nodes_alive\":3" more
    static const struct answer answers[] = {
        {"ls", {EXPERIMENTS}, NULL}, {"delete", {DELETED("")}, NULL}, {NULL, {NULL}, NULL}};
    fake_start(answers);
    typed = "n\n";
    assert_int_equal(RUN("delete", "A1B2C"), CLI_REFUSED);
    assert_has(err_text_written, "Delete a1b2c3d4e5f60718 for ever, with trials, results and checkpoints? [y/N] ");
    typed = "";
    assert_int_equal(RUN("delete", "A1B2C"), CLI_REFUSED); /* the end of the input is no yes */
    typed = "y\n";
    assert_int_equal(RUN("delete", "A1B2C"), CLI_DONE);
    assert_string_equal(out_text, "a1b2c3d4e5f60718 deleted, stored on 2 nodes\n");
    assert_int_equal(RUN("delete", "mlp"), CLI_DONE);
    assert_has(err_text_written, "Delete mlp (a1b2c3d4e5f60718) for ever, ");
    assert_string_equal(out_text, "mlp (a1b2c3d4e5f60718) deleted, stored on 2 nodes\n");
    typed = "n\n";
    assert_int_equal(RUN("delete", "A1B2C", "--yes"), CLI_DONE);
    typed = NULL; /* no terminal */
    assert_int_equal(RUN("delete", "A1B2C"), CLI_DONE);
    fake_stop();
    assert_string_equal(fake.ops, "ls ls ls delete ls delete ls delete ls delete ");
}

static void delete_takes_several(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"ls", {EXPERIMENTS}, NULL}, {"delete", {DELETED(",\"already\":true")}, NULL}, {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("delete", "A1B2C", "a1b2c3d4e5f60718"), CLI_DONE);
    assert_string_equal(out_text, "a1b2c3d4e5f60718 had been deleted already, stored on 2 nodes\n"
                                  "a1b2c3d4e5f60718 had been deleted already, stored on 2 nodes\n");
    assert_int_equal(RUN("delete", "A1B2C", "nobody"), CLI_NO_SUCH_THING); /* found all, or none is deleted */
    fake_stop();
    assert_string_equal(fake.ops, "ls ls delete delete ls ls ");
}

static void delete_finds_a_whole_id_that_nothing_has_before_anything_is_gone(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"ls", {EXPERIMENTS}, NULL},
        {"delete", {"\"ok\":false,\"end\":true,\"code\":4,\"error\":\"There is no experiment ffffffffffffffff\""}, NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("delete", "a1b2c3d4e5f60718", "0123456789abcdef", "ffffffffffffffff"), CLI_NO_SUCH_THING);
    assert_sentence("ffffffffffffffff");
    msgpack_object request = last_request();
    char id[32];
    document_text(&request, "experiment", id, sizeof id);
    assert_string_equal(id, "ffffffffffffffff");
    fake_stop();
    assert_string_equal(fake.ops, "ls delete ");
}

static void wait_returns_the_end_as_its_code(void **state)
{
    (void)state;
#define STATE(state_, end) \
    "\"ok\":true,\"end\":" end ",\"state\":\"" state_ "\",\"trials\":{\"total\":1,\"completed\":1},\"best\":null"
    static const struct answer completed[] = {{"wait", {STATE("running", "false"), STATE("completed", "true")}, NULL},
                                              {NULL, {NULL}, NULL}};
    static const struct answer failed[] = {{"wait", {STATE("failed", "true")}, NULL}, {NULL, {NULL}, NULL}};
    static const struct answer late[] = {
        {"wait", {STATE("running", "false"), "\"ok\":false,\"end\":true,\"code\":5,\"error\":\"it still runs\""}, NULL},
        {NULL, {NULL}, NULL}};
    fake_start(completed);
    assert_int_equal(RUN("wait", "a1b2c3d4e5f60718", "--timeout", "2m"), CLI_DONE);
    assert_string_equal(out_text, "completed: trials 1 of 1 completed; best -\n");
    msgpack_object request = last_request();
    assert_int_equal(document_number(&request, "timeout_s"), 120);
    fake_stop();
    fake_start(failed);
    assert_int_equal(RUN("wait", "a1b2c3d4e5f60718", "--json"), CLI_REFUSED);
    assert_sentence("is failed");
    assert_has(out_text, "{\"state\": \"failed\"");
    fake_stop();
    fake_start(late);
    assert_int_equal(RUN("wait", "a1b2c3d4e5f60718", "--timeout", "1"), CLI_TIMED_OUT);
    assert_sentence("it still runs");
    fake_stop();
}

#define HALTED ",\"halted\":true,\"trouble\":\"its program is gone; it is not started again\""
#define TROUBLED ",\"halted\":false,\"trouble\":\"its program is gone; it is started again\""

static void wait_and_watch_end_when_nothing_happens_any_more(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"wait", {STATE("queued", "false") TROUBLED, STATE("queued", "true") HALTED}, NULL},
        {"watch",
         {"\"ok\":true,\"end\":false,\"experiment\":{\"id\":\"x\",\"name\":\"mlp\",\"state\":\"queued\",\"trials\":["
          "]" TROUBLED "}",
          "\"ok\":true,\"end\":true,\"experiment\":{\"id\":\"x\",\"name\":\"mlp\",\"state\":\"queued\",\"trials\":[]" HALTED
          "}"},
         NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("wait", "a1b2c3d4e5f60718"), CLI_REFUSED);
    assert_sentence("the search goes no further: its program is gone; it is not started again");
    assert_int_equal(RUN("watch", "a1b2c3d4e5f60718"), CLI_REFUSED);
    assert_has(out_text, "  its program is gone; it is started again\n");
    assert_sentence("the search goes no further: its program is gone; it is not started again");
    fake_stop();
}

static void wait_and_watch_outlive_a_restart_of_the_daemon(void **state)
{
    (void)state;
    /* Each connection is one life of the daemon. */
    static const struct answer first[] = {{"wait", {STATE("running", "false"), "hang up"}, NULL},
                                          {"watch", {SHOWN("running", "\"end\":false"), "hang up"}, NULL},
                                          {NULL, {NULL}, NULL}};
    static const struct answer later[] = {{"wait", {STATE("completed", "true")}, NULL},
                                          {"watch", {SHOWN("failed", "\"end\":true")}, NULL},
                                          {NULL, {NULL}, NULL}};
    fake_start(first);
    fake.next_answers = later;
    assert_int_equal(RUN("wait", "a1b2c3d4e5f60718", "--timeout", "100"), CLI_DONE);
    assert_string_equal(out_text, "completed: trials 1 of 1 completed; best -\n");
    assert_string_equal(err_text_written, "");
    assert_string_equal(fake.ops, "wait wait ");
    msgpack_object request = last_request();
    uint64_t left_s = document_number(&request, "timeout_s"); /* what is left of it */
    assert_true(left_s > 50 && left_s <= 100);
    fake_stop();
    fake_start(first);
    fake.next_answers = later;
    assert_int_equal(RUN("watch", "a1b2c3d4e5f60718"), CLI_DONE);
    assert_has(out_text, "experiment mlp running\n");
    assert_has(out_text, "experiment mlp failed\n");
    assert_ptr_equal(strstr(strstr(out_text, "trial 0") + 1, "trial 0"), NULL); /* nothing is said twice */
    assert_string_equal(fake.ops, "watch watch ");
    fake_stop();
    /* It does not come back: a listener that nobody can reach any more. */
    fake_start(first);
    fake.unlink_after = true;
    assert_int_equal(RUN("wait", "a1b2c3d4e5f60718"), CLI_NO_DAEMON);
    assert_sentence("was not back within 10 s");
    fake_stop();
}

/* As `shoal init`. */
static void node_make(void)
{
    char key[128];
    (void)snprintf(key, sizeof key, "%s/key", root);
    int fd = open(key, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
}

static void without_a_daemon_the_code_is_3(void **state)
{
    (void)state;
    static const struct answer dies[] = {{"nodes", {"hang up"}, NULL}, {NULL, {NULL}, NULL}};
    node_make();
    assert_int_equal(RUN("ls"), CLI_NO_DAEMON);
    assert_sentence("start it with: shoald --dir");
    assert_int_equal(RUN("nodes", "--dir", "/nonexistent"), CLI_NO_DAEMON);
    assert_sentence("/nonexistent has no node yet: shoal init makes a mesh");
    fake_start(dies);
    assert_int_equal(RUN("nodes"), CLI_NO_DAEMON);
    assert_sentence("though one runs there: it serves too many others");
    fake_stop();
    fake_start(dies);
    fake.unlink_after = true;
    assert_int_equal(RUN("nodes"), CLI_NO_DAEMON);
    assert_sentence("ended before it answered");
    fake_stop();
    char path[128]; /* the socket of a daemon that was killed */
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(path, sizeof path, "%s/shoald.sock", root);
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    (void)close(fd);
    assert_int_equal(RUN("ls"), CLI_NO_DAEMON);
    (void)unlink(path);
}

static void *start_late(void *answers)
{
    (void)usleep(300000);
    fake_start(answers);
    return NULL;
}

static uint64_t clock_ms(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void a_daemon_that_is_just_starting_is_waited_for(void **state)
{
    (void)state;
    static struct answer answers[] = {{"ls", {EXPERIMENTS}, NULL}, {NULL, {NULL}, NULL}};
    char lock[128], error[256];
    int lock_fd;
    pthread_t thread;
    (void)snprintf(lock, sizeof lock, "%s/lock", root);
    node_make();
    /* It holds the lock, for longer than one that is only fresh is waited for. */
    assert_int_equal(data_dir_open(root, &lock_fd, error, sizeof error), 0);
    const struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, lock, old, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, start_late, answers), 0);
    assert_int_equal(RUN("ls"), CLI_DONE);
    assert_int_equal(pthread_join(thread, NULL), 0);
    fake_stop();
    /* Nobody holds it any more, and the last one has for long not: no wait. */
    (void)close(lock_fd);
    uint64_t begin_ms = clock_ms();
    assert_int_equal(RUN("ls"), CLI_NO_DAEMON);
    assert_sentence("start it with: shoald --dir");
    assert_true(clock_ms() - begin_ms < 1000);
    /* Somebody has just held it: `shoal init`. */
    assert_int_equal(utimensat(AT_FDCWD, lock, NULL, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, start_late, answers), 0);
    assert_int_equal(RUN("ls"), CLI_DONE);
    assert_int_equal(pthread_join(thread, NULL), 0);
    fake_stop();
    assert_int_equal(unlink(lock), 0);
}

static void nonsense_from_the_socket_is_an_error(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"ls", {"\"ok\":true,\"end\":true,\"experiments\":{\"id\":[1]}"}, NULL},
        {"nodes", {"\"ok\":true,\"end\":true,\"nodes\":[1,\"x\",null,{\"id\":7,\"name\":{\"a\":1}}]"}, NULL},
        {"status", {"\"ok\":true,\"end\":true,\"mesh\":3,\"node\":[],\"refused\":{\"a\":-1}"}, NULL},
        {"show", {"\"ok\":true,\"end\":true,\"experiment\":{\"trials\":[{\"metrics\":3},7],\"counts\":[]}"}, NULL},
        {"slots", {"\"ok\":3"}, NULL},
        {"watch", {"\"ok\":true,\"end\":true"}, NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("ls"), CLI_DONE);
    assert_int_equal(RUN("nodes"), CLI_DONE);
    assert_has(out_text, "{\"a\": 1}");
    assert_int_equal(RUN("status"), CLI_DONE);
    assert_int_equal(RUN("show", "a1b2c3d4e5f60718"), CLI_DONE);
    assert_int_equal(RUN("slots"), CLI_REFUSED);
    assert_sentence("without a reason");
    assert_int_equal(RUN("watch", "a1b2c3d4e5f60718"), CLI_DONE);
    fake_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(lists_come_as_tables_or_json, stop_what_runs),
        cmocka_unit_test_teardown(parts_of_a_document_are_joined, stop_what_runs),
        cmocka_unit_test_teardown(an_answer_that_is_no_document_is_refused, stop_what_runs),
        cmocka_unit_test_teardown(an_answer_of_other_types_is_shown_as_far_as_it_goes, stop_what_runs),
        cmocka_unit_test_teardown(top_shows_what_runs_on_each_slot, stop_what_runs),
        cmocka_unit_test_teardown(show_has_trials_and_the_last_lines_of_failed_ones, stop_what_runs),
        cmocka_unit_test_teardown(a_search_without_a_best_trial_says_what_was_reported, stop_what_runs),
        cmocka_unit_test_teardown(the_last_lines_of_an_earlier_attempt_are_said_to_be_its, stop_what_runs),
        cmocka_unit_test_teardown(show_says_why_a_trial_that_waits_has_ended_before, stop_what_runs),
        cmocka_unit_test_teardown(of_many_trials_the_best_are_shown, stop_what_runs),
        cmocka_unit_test_teardown(metrics_that_nothing_has_reported_are_no_silence, stop_what_runs),
        cmocka_unit_test_teardown(one_trial_is_shown_with_its_attempts_and_checkpoints_in_words, stop_what_runs),
        cmocka_unit_test_teardown(show_and_ls_say_what_queued_trials_wait_for, stop_what_runs),
        cmocka_unit_test_teardown(experiments_are_found_by_name_and_prefix, stop_what_runs),
        cmocka_unit_test_teardown(a_trial_in_the_place_of_an_experiment_is_called_one, stop_what_runs),
        cmocka_unit_test_teardown(a_name_that_is_the_beginning_of_another_id_is_neither, stop_what_runs),
        cmocka_unit_test_teardown(delete_asks_on_a_terminal, stop_what_runs),
        cmocka_unit_test_teardown(delete_takes_several, stop_what_runs),
        cmocka_unit_test_teardown(delete_finds_a_whole_id_that_nothing_has_before_anything_is_gone, stop_what_runs),
        cmocka_unit_test_teardown(wait_returns_the_end_as_its_code, stop_what_runs),
        cmocka_unit_test_teardown(wait_and_watch_end_when_nothing_happens_any_more, stop_what_runs),
        cmocka_unit_test_teardown(wait_and_watch_outlive_a_restart_of_the_daemon, stop_what_runs),
        cmocka_unit_test_teardown(without_a_daemon_the_code_is_3, stop_what_runs),
        cmocka_unit_test_teardown(a_daemon_that_is_just_starting_is_waited_for, stop_what_runs),
        cmocka_unit_test_teardown(nonsense_from_the_socket_is_an_error, stop_what_runs),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
