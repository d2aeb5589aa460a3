/* The command line against a daemon's end of the local socket that answers with given documents (it is the client that
 * is tested), and init and join against real directories and a real control socket. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/frame.h"
#include "base/pack.h"
#include "gossip/control.h"
#include "gossip/message.h"
#include "node/core/facts.h"
#include "store/archive.h"
#include "store/state_lmdb.h"
#include "tools/shoal/cli.h"
#include "tools/shoal/document.h"
#include "tools/shoal/render.h"
#include "train/hparams.h"

/* ---- running the program -------------------------------------------------------------------------------------------
 */

static char root[64]; /* a directory of this test */
static char *out_text, *err_text_written;
static const char *typed; /* on a terminal; NULL: there is none */

#define RUN(...) run_words((char *[]){"shoal", __VA_ARGS__, NULL})

static int run_words(char **words)
{
    free(out_text);
    free(err_text_written);
    size_t out_bytes, err_bytes;
    int count = 0;
    while (words[count] != NULL) {
        count++;
    }
    char *input = strdup(typed != NULL ? typed : "");
    struct cli cli = {.in = fmemopen(input, strlen(input), "r"),
                      .in_is_terminal = typed != NULL,
                      .out = open_memstream(&out_text, &out_bytes),
                      .err = open_memstream(&err_text_written, &err_bytes),
                      .shoal_dir = root};
    assert_non_null(cli.in);
    assert_non_null(cli.out);
    assert_non_null(cli.err);
    int code = cli_run(&cli, count, words);
    (void)fclose(cli.in);
    free(input);
    (void)fclose(cli.out);
    (void)fclose(cli.err);
    return code;
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("'%s' is not in:\n%s", part, text);
    }
}

static void assert_lacks(const char *text, const char *part)
{
    if (strstr(text, part) != NULL) {
        fail_msg("'%s' is in:\n%s", part, text);
    }
}

/* One line, one sentence, from the program. */
static void assert_sentence(const char *part)
{
    assert_true(strncmp(err_text_written, "shoal: ", 7) == 0);
    assert_ptr_equal(strchr(err_text_written, '\n'), err_text_written + strlen(err_text_written) - 1);
    assert_has(err_text_written, part);
}

/* ---- the daemon's end
 * ------------------------------------------------------------------------------------------------ */

#define ANSWERS_MAX 4

/* Replies to one op, as JSON without the braces and the id; NULL ends. "hang up" closes the connection. */
struct answer {
    const char *op;
    const char *replies[ANSWERS_MAX];
    const char *carried; /* bytes of a descriptor that rides along with the last reply */
};

struct fake {
    pthread_t thread;
    int listen_fd;
    const struct answer *answers; /* op NULL ends */
    const struct answer *next_answers; /* of the connections behind the first, or NULL: the same */
    bool unlink_after; /* the first connection is the last */
    /* what the last request was; read after fake_stop */
    uint8_t request[FRAME_BYTES_MAX];
    size_t request_bytes;
    char ops[256]; /* all, each with a blank behind */
    int passed_fd;
    bool runs;
};

static struct fake fake;

static int carried_fd(const char *text)
{
    int fd = memfd_create("carried", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    return fd;
}

/* False: the connection is to be closed. */
static bool answer_one(int fd, const struct answer *answer, uint64_t id)
{
    for (size_t i = 0; i < ANSWERS_MAX && answer->replies[i] != NULL; i++) {
        static uint8_t bytes[HPARAMS_BYTES_MAX];
        static char text[HPARAMS_BYTES_MAX];
        struct pack_writer writer;
        bool last = i + 1 == ANSWERS_MAX || answer->replies[i + 1] == NULL;
        if (strcmp(answer->replies[i], "hang up") == 0) {
            return false;
        }
        pack_writer_init(&writer, bytes, sizeof bytes);
        if (strncmp(answer->replies[i], "log:", 4) == 0) { /* JSON knows no binary */
            pack_map(&writer, 6);
            pack_text(&writer, "id");
            pack_u64(&writer, id);
            pack_text(&writer, "ok");
            pack_bool(&writer, true);
            pack_text(&writer, "end");
            pack_bool(&writer, last);
            pack_text(&writer, "attempt");
            pack_u64(&writer, 1);
            pack_text(&writer, "rank");
            pack_u64(&writer, (uint64_t)(answer->replies[i][4] - '0'));
            pack_text(&writer, "bytes");
            pack_bin(&writer, answer->replies[i] + 5, strlen(answer->replies[i] + 5));
        } else {
            (void)snprintf(text, sizeof text, "{\"id\":%llu,%s}", (unsigned long long)id, answer->replies[i]);
            if (hparams_from_json(text, &writer) != 0) {
                (void)fprintf(stderr, "not JSON: %s\n", text);
                abort();
            }
        }
        int carried = last && answer->carried != NULL ? carried_fd(answer->carried) : -1;
        int sent = frame_send(fd, bytes, writer.used_bytes, carried);
        if (carried >= 0) {
            (void)close(carried);
        }
        if (sent != 0) {
            return false;
        }
    }
    return true;
}

static void serve(int fd)
{
    static uint8_t buffer[FRAME_BYTES_MAX + 4];
    struct frame_reader reader;
    frame_reader_init(&reader, buffer, sizeof buffer);
    const uint8_t *bytes;
    size_t count;
    int passed_fd;
    while (frame_reader_wait(&reader, fd, -1, &bytes, &count, 1, &passed_fd) == 0) {
        memcpy(fake.request, bytes, count);
        fake.request_bytes = count;
        if (passed_fd >= 0) {
            fake.passed_fd = passed_fd;
        }
        struct pack_reader request, id;
        char op[32];
        pack_reader_init(&request, bytes, count);
        document_text(&request, "op", op, sizeof op);
        id = pack_find(&request, "id");
        size_t used = strlen(fake.ops);
        (void)snprintf(fake.ops + used, sizeof fake.ops - used, "%s ", op);
        const struct answer *answer = fake.answers;
        while (answer->op != NULL && strcmp(answer->op, op) != 0) {
            answer++;
        }
        if (answer->op == NULL || !answer_one(fd, answer, pack_read_u64(&id))) {
            break;
        }
    }
    frame_reader_close(&reader);
    (void)close(fd);
}

static int close_listener(void)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/shoald.sock", root);
    return unlink(path);
}

static void *fake_run(void *context)
{
    (void)context;
    int fd;
    while ((fd = accept4(fake.listen_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        if (fake.unlink_after) {
            (void)close_listener();
        }
        serve(fd);
        fake.answers = fake.next_answers != NULL ? fake.next_answers : fake.answers;
    }
    return NULL;
}

static void fake_start(const struct answer *answers)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memset(&fake, 0, sizeof fake);
    fake.answers = answers;
    fake.passed_fd = -1;
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s/shoald.sock", root);
    fake.listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fake.listen_fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fake.listen_fd, 4), 0);
    assert_int_equal(pthread_create(&fake.thread, NULL, fake_run, NULL), 0);
    fake.runs = true;
}

static void fake_stop(void)
{
    char path[128];
    fake.runs = false;
    (void)shutdown(fake.listen_fd, SHUT_RDWR); /* accept returns */
    assert_int_equal(pthread_join(fake.thread, NULL), 0);
    (void)close(fake.listen_fd);
    (void)snprintf(path, sizeof path, "%s/shoald.sock", root);
    (void)unlink(path);
}

/* After a test that failed in the middle. */
static int stop_what_runs(void **state)
{
    (void)state;
    if (fake.runs) {
        fake_stop();
    }
    return 0;
}

static struct pack_reader last_request(void)
{
    struct pack_reader request;
    pack_reader_init(&request, fake.request, fake.request_bytes);
    return request;
}

#define EXPERIMENTS                                                                                         \
    "\"ok\":true,\"end\":true,\"experiments\":["                                                            \
    "{\"id\":\"a1b2c3d4e5f60718\",\"name\":\"mlp\",\"state\":\"running\",\"coordinator\":"                  \
    "\"00112233445566778899aabbccddeeff\","                                                                 \
    "\"coordinator_name\":\"alpha\",\"term\":2,\"submitted_s\":1763700000,"                                 \
    "\"trials\":{\"total\":8,\"queued\":4,\"running\":1,\"completed\":3,\"failed\":0},"                     \
    "\"best\":{\"trial\":2,\"metric\":\"accuracy\",\"value\":0.88125}},"                                    \
    "{\"id\":\"a1b2ffffffffffff\",\"name\":\"twice\",\"state\":\"queued\",\"coordinator\":null,\"term\":0," \
    "\"trials\":{\"total\":1,\"queued\":1,\"running\":0,\"completed\":0,\"failed\":0},\"best\":null},"      \
    "{\"id\":\"0123456789abcdef\",\"name\":\"twice\",\"state\":\"failed\",\"coordinator\":null,\"term\":1," \
    "\"trials\":{\"total\":1,\"queued\":0,\"running\":0,\"completed\":0,\"failed\":1},\"best\":null}]"

/* ---- words of the command line
 * --------------------------------------------------------------------------------------- */

static void usage_errors_name_the_nearest_word(void **state)
{
    (void)state;
    assert_int_equal(RUN("sttus"), CLI_USAGE);
    assert_sentence("did you mean status");
    assert_int_equal(RUN("ls", "--jsno"), CLI_USAGE);
    assert_sentence("did you mean --json");
    assert_int_equal(RUN("submit", "--contxt=x", "f"), CLI_USAGE);
    assert_sentence("did you mean --context");
    assert_int_equal(RUN("checkpoint", "gte", "x"), CLI_USAGE);
    assert_sentence("did you mean checkpoint get");
    assert_int_equal(RUN("chekpoint", "ls", "x"), CLI_USAGE);
    assert_sentence("did you mean checkpoint;");
    assert_int_equal(RUN("ls", "--qqqqqqq"), CLI_USAGE);
    assert_lacks(err_text_written, "did you mean");
    assert_int_equal(RUN("show"), CLI_USAGE);
    assert_sentence("shoal show EXP");
    assert_int_equal(RUN("show", "a", "b"), CLI_USAGE);
    assert_sentence("'b' is too much");
    assert_int_equal(RUN("wait", "x", "--timeout"), CLI_USAGE);
    assert_sentence("--timeout TIME");
    assert_int_equal(RUN("ls", "--json=1"), CLI_USAGE);
    assert_int_equal(RUN("wait", "x", "--timeout", "soon"), CLI_USAGE);
    assert_int_equal(RUN("logs", "x"), CLI_USAGE);
    assert_sentence("EXP/TRIAL");
    assert_int_equal(RUN("checkpoint", "get", "x/1@new", "d"), CLI_USAGE);
    assert_int_equal(RUN("invite", "--expires", "0"), CLI_USAGE);
    assert_int_equal(run_words((char *[]){"shoal", NULL}), CLI_USAGE);
    assert_int_equal(RUN("checkpoint"), CLI_USAGE);
}

static void every_command_explains_itself(void **state)
{
    (void)state;
    for (const struct command *command = cli_commands; command->name != NULL; command++) {
        char words[64];
        (void)snprintf(words, sizeof words, "%s", command->name);
        char *second = strchr(words, ' ');
        if (second != NULL) {
            *second++ = '\0';
        }
        char *with[] = {"shoal", words, second != NULL ? second : "--help", second != NULL ? "--help" : NULL, NULL};
        assert_int_equal(run_words(with), CLI_DONE);
        assert_has(out_text, command->name);
        assert_has(out_text, "--json");
        for (const struct option_rule *rule = command->options; rule->name != NULL; rule++) {
            assert_has(out_text, rule->name);
        }
        assert_string_equal(err_text_written, "");
    }
    assert_int_equal(RUN("--help"), CLI_DONE);
    assert_has(out_text, "checkpoint verify");
    assert_int_equal(RUN("help", "submit"), CLI_DONE);
    assert_has(out_text, "Usage: shoal submit FILE");
    assert_int_equal(RUN("--version"), CLI_DONE);
    assert_string_equal(out_text, "shoal " SHOAL_VERSION "\n");
    assert_int_equal(RUN("submit", "--help-config"), CLI_DONE);
    assert_has(out_text, "searcher.max_trials");
}

static void options_stand_anywhere(void **state)
{
    (void)state;
    struct arguments arguments;
    char error[OPTIONS_ERROR_BYTES];
    char *words[] = {"shoal", "--dir", "d", "submit", "--set=a=1", "f", "--set", "b.c=2", "--follow", NULL};
    assert_int_equal(options_parse(cli_commands, 9, words, &arguments, error), 0);
    assert_string_equal(arguments.command->name, "submit");
    assert_string_equal(options_value(&arguments, "dir"), "d");
    const char *values[4];
    assert_int_equal(options_values(&arguments, "set", values, 4), 2);
    assert_string_equal(values[0], "a=1");
    assert_string_equal(values[1], "b.c=2");
    assert_true(options_has(&arguments, "follow"));
    assert_string_equal(arguments.operands[0], "f");
    char *after[] = {"shoal", "submit", "--", "--follow", NULL};
    assert_int_equal(options_parse(cli_commands, 4, after, &arguments, error), 0);
    assert_string_equal(arguments.operands[0], "--follow");
    assert_false(options_has(&arguments, "follow"));
}

static void numbers_and_durations_have_bounds(void **state)
{
    (void)state;
    uint64_t value = 7;
    assert_int_equal(options_duration("24h", UINT64_MAX, &value), 0);
    assert_int_equal(value, 86400);
    assert_int_equal(options_duration("90", 90, &value), 0);
    assert_int_equal(value, 90);
    assert_int_equal(options_duration("91", 90, &value), ERR_MALFORMED);
    assert_int_equal(options_duration("2m", 119, &value), ERR_MALFORMED);
    assert_int_equal(options_duration("18446744073709551615d", UINT64_MAX, &value), ERR_MALFORMED);
    assert_int_equal(options_duration("5w", UINT64_MAX, &value), ERR_MALFORMED);
    assert_int_equal(options_duration("", UINT64_MAX, &value), ERR_MALFORMED);
    assert_int_equal(options_number("18446744073709551615", UINT64_MAX, &value), 0);
    assert_true(value == UINT64_MAX);
    assert_int_equal(options_number("18446744073709551616", UINT64_MAX, &value), ERR_MALFORMED);
    assert_int_equal(options_number("-1", UINT64_MAX, &value), ERR_MALFORMED);
    assert_int_equal(options_number("9", 8, &value), ERR_MALFORMED);
    assert_int_equal(options_distance("staus", "status"), 1);
    assert_int_equal(options_distance("tsatus", "status"), 1);
    assert_int_equal(options_distance("", "abc"), 3);
}

/* ---- what is printed
 * ----------------------------------------------------------------------------------------------------- */

static void units_are_for_people(void **state)
{
    (void)state;
    char text[RENDER_UNIT_BYTES];
    render_bytes(text, 1023);
    assert_string_equal(text, "1023 B");
    render_bytes(text, 1536);
    assert_string_equal(text, "1.5 KiB");
    render_bytes(text, 1024 * 1024 - 1);
    assert_string_equal(text, "1.0 MiB");
    render_bytes(text, UINT64_MAX);
    assert_string_equal(text, "16.0 EiB");
    render_duration(text, 3700);
    assert_string_equal(text, "1 h 1 min");
    render_number(text, 0.88125);
    assert_string_equal(text, "0.8812");
    render_number(text, 12);
    assert_string_equal(text, "12");
    assert_int_equal(render_width("\033[31mna\xc3\xafve\033[0m"), 5);
    assert_int_equal(render_fit("na\xc3\xafve", 3), 4);
}

static void tables_are_aligned_and_screens_cut(void **state)
{
    (void)state;
    struct table table = {0};
    table_column(&table, "NAME", false);
    table_column(&table, "N", true);
    table_column(&table, "LAST", false);
    const char *rows[] = {"a", "1", "x", "bcdefg", "1000", "yy"};
    for (size_t i = 0; i < 6; i++) {
        table_cell(&table, i == 0 ? RENDER_RED : RENDER_PLAIN, "%s", rows[i]);
    }
    char *text;
    size_t bytes, lines_before = 0;
    FILE *out = open_memstream(&text, &bytes);
    table_write(&table, out, false);
    (void)fclose(out);
    assert_string_equal(text, "NAME       N  LAST\na          1  x\nbcdefg  1000  yy\n");
    free(text);
    out = open_memstream(&text, &bytes);
    render_screen(out, "one long line\ntwo\nthree\n", 5, 3, &lines_before);
    assert_int_equal(lines_before, 2); /* and one for the cursor */
    render_screen(out, "x\n", 5, 3, &lines_before);
    (void)fclose(out);
    assert_has(text, "\rone l\033[0m\033[K\n\rtwo\033[0m\033[K\n\033[J\033[2A\rx\033[0m\033[K\n\033[J");
    assert_lacks(text, "three");
    free(text);
}

static void lists_come_as_tables_or_json(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"ls", {EXPERIMENTS}, NULL},
        {"nodes",
         {"\"ok\":true,\"end\":true,\"nodes\":[{\"id\":\"00\",\"name\":\"evil\\u001b[2J\",\"address\":\"10.0.0.1:"
          "7410\",\"state\":\"alive\","
          "\"slots\":2,\"version\":\"0.1.0\",\"quarantined\":{\"minutes\":4,\"reason\":\"so\"},\"new\":[1]}]"},
         NULL},
        {"slots",
         {"\"ok\":true,\"end\":true,\"slots\":[{\"node\":\"00\",\"node_name\":\"alpha\",\"index\":1,\"uuid\":\"u\","
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
          "1048576,"
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
    assert_lacks(out_text, "\033");
    assert_int_equal(RUN("slots"), CLI_DONE);
    assert_has(out_text, "alpha     1  cpu   Xeon   1.0 GiB  free   -               -        -\n");
    assert_int_equal(RUN("status"), CLI_DONE);
    assert_has(out_text, "2 of 3 alive");
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

#define SHOWN(state_, more)                                                                                            \
    "\"ok\":true," more                                                                                                \
    ",\"nodes\":3,\"nodes_alive\":3,\"experiment\":{\"id\":\"a1b2c3d4e5f60718\",\"name\":\"mlp\",\"state\":\"" state_  \
    "\",\"coordinator\":\"00\",\"coordinator_name\":\"alpha\",\"term\":2,\"metric\":\"accuracy\","                     \
    "\"counts\":{\"total\":2,\"completed\":1,\"failed\":1},\"best\":{\"trial\":0,\"metric\":\"accuracy\",\"value\":0." \
    "9},"                                                                                                              \
    "\"trials\":[{\"index\":0,\"state\":\"completed\",\"attempt\":1,\"generation\":1,\"step\":300,"                    \
    "\"hyperparameters\":{\"hidden\":[64,32],\"learning_rate\":0.0125},"                                               \
    "\"metrics\":{\"training\":{\"loss\":0.25},\"validation\":{\"accuracy\":0.9}},"                                    \
    "\"slots\":[{\"node\":\"00\",\"node_name\":\"alpha\",\"index\":0},{\"node\":\"01\",\"node_name\":\"beta\","        \
    "\"index\":1}],"                                                                                                   \
    "\"checkpoint\":{\"step\":300,\"bytes\":10,\"durable\":true,\"holders\":[\"alpha\",\"beta\"]},\"restarts\":0,"     \
    "\"tail\":null},"                                                                                                  \
    "{\"index\":1,\"state\":\"failed\",\"attempt\":6,\"generation\":1,\"step\":0,\"hyperparameters\":{},\"metrics\":{" \
    "},"                                                                                                               \
    "\"slots\":[],\"checkpoint\":null,\"restarts\":5,\"reason\":\"exit status 1\",\"tail\":\"first\\nlast "            \
    "\\u0007line\\n\"}]}"

static void show_has_trials_and_the_last_lines_of_failed_ones(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"ls", {EXPERIMENTS}, NULL}, {"show", {SHOWN("failed", "\"end\":true")}, NULL}, {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("show", "mlp"), CLI_DONE);
    assert_has(out_text, "mlp  a1b2c3d4e5f60718  failed  coordinator alpha, term 2\n");
    assert_has(out_text, "1 of 2 completed, 1 failed  best: trial 0 (accuracy 0.9000)");
    assert_has(out_text, "   *0  completed        1         0   300        0.9000      0.2500  300 x2      "
                         "alpha:0 beta:1  hidden=[64, 32] learning_rate=0.0125\n");
    assert_has(out_text, "trial 1: exit status 1, the last lines of its log:\n    first\n    last ?line\n");
    struct pack_reader request = last_request();
    char id[32];
    document_text(&request, "experiment", id, sizeof id);
    assert_string_equal(id, "a1b2c3d4e5f60718");
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
    assert_string_equal(fake.ops, "ls cancel ls ls ls ls pause ls resume ");
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
    typed = "n\n";
    assert_int_equal(RUN("delete", "A1B2C", "--yes"), CLI_DONE);
    typed = NULL; /* no terminal */
    assert_int_equal(RUN("delete", "A1B2C"), CLI_DONE);
    fake_stop();
    assert_string_equal(fake.ops, "ls ls ls delete ls delete ls delete ");
}

static void delete_takes_several(void **state)
{
    (void)state;
    static const struct answer answers[] = {{"ls", {EXPERIMENTS}, NULL},
                                            {"delete", {DELETED(",\"already\":true")}, NULL},
                                            {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("delete", "A1B2C", "a1b2c3d4e5f60718"), CLI_DONE);
    assert_string_equal(out_text, "a1b2c3d4e5f60718 had been deleted already, stored on 2 nodes\n"
                                  "a1b2c3d4e5f60718 had been deleted already, stored on 2 nodes\n");
    assert_int_equal(RUN("delete", "A1B2C", "nobody"), CLI_NO_SUCH_THING); /* found all, or none is deleted */
    fake_stop();
    assert_string_equal(fake.ops, "ls delete delete ls ls ");
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
    struct pack_reader request = last_request();
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
    struct pack_reader request = last_request();
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

static void without_a_daemon_the_code_is_3(void **state)
{
    (void)state;
    static const struct answer dies[] = {{"nodes", {"hang up"}, NULL}, {NULL, {NULL}, NULL}};
    assert_int_equal(RUN("ls"), CLI_NO_DAEMON);
    assert_sentence("start it with: shoald --dir");
    assert_int_equal(RUN("nodes", "--dir", "/nonexistent"), CLI_NO_DAEMON);
    fake_start(dies);
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

/* ---- what trials leave behind
 * --------------------------------------------------------------------------------------------- */

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
    struct pack_reader request = last_request();
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

static char *read_text(const char *path)
{
    static char text[4096];
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    return text;
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
    struct pack_reader request = last_request();
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

#define NODE_ROWS(drained, emptied)                                                                                      \
    "\"ok\":true,\"end\":true,\"nodes\":[{\"id\":\"00112233445566778899aabbccddeeff\",\"name\":\"alpha\",\"state\":"    \
    "\"alive\",\"drained\":" drained ",\"emptied\":" emptied                                                           \
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
    struct pack_reader request = last_request(), slots = pack_find(&request, "slots");
    assert_int_equal(document_number(&request, "for_s"), 7200);
    assert_int_equal(pack_read_array(&slots), 2);
    assert_int_equal(pack_read_u64(&slots), 0);
    assert_int_equal(pack_read_u64(&slots), 2);
    assert_int_equal(RUN("withhold", "--return", "1"), CLI_DONE);
    assert_string_equal(out_text, "slot 1 returned, stored on 1 node\n");
    request = last_request();
    assert_false(document_has(&request, "for_s"));
    assert_int_equal(RUN("withhold", "--json"), CLI_DONE);
    assert_string_equal(out_text, "{\"slots\": [0, 2], \"stored_on\": 2, \"nodes_alive\": 3}\n");
    request = last_request();
    slots = pack_find(&request, "slots");
    assert_int_equal(pack_read_array(&slots), 0); /* all */
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
    assert_string_equal(out_text, "00112233445566778899aabbccddeeff drained, stored on 2 nodes\n");
    struct pack_reader request = last_request();
    char id[64];
    document_text(&request, "node", id, sizeof id);
    assert_string_equal(id, "00112233445566778899aabbccddeeff");
    assert_true(document_true(&request, "now"));
    assert_int_equal(RUN("drain", "--wait"), CLI_DONE); /* this node */
    assert_has(out_text, "no worker runs there any more\n");
    assert_int_equal(RUN("undrain", "001122"), CLI_DONE);
    assert_string_equal(out_text, "00112233445566778899aabbccddeeff undrained, stored on 2 nodes\n");
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
    assert_sentence("somebody has undrained alpha meanwhile");
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
        {"leave", {"\"ok\":true,\"end\":true"}, NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    assert_int_equal(RUN("events", "--from", "5"), CLI_DONE);
    assert_has(out_text, "node beta is dead\n");
    struct pack_reader request = last_request();
    assert_int_equal(document_number(&request, "from"), 5);
    assert_int_equal(RUN("events", "--json"), CLI_DONE);
    assert_string_equal(out_text, "{\"seq\": 5, \"wall_ms\": 1763700000000, \"text\": \"node beta is dead\"}\n");
    assert_int_equal(RUN("invite", "--expires", "15m"), CLI_DONE);
    assert_string_equal(out_text, "shoal1-abc\n"); /* so that TOKEN=$(shoal invite) works */
    request = last_request();
    assert_int_equal(document_number(&request, "expires_s"), 900);
    assert_int_equal(RUN("leave"), CLI_DONE);
    fake_stop();
}

static void invites_are_listed_and_revoked(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"invites",
         {"\"ok\":true,\"end\":true,\"invites\":[{\"id\":\"0011223344556677\",\"writer_name\":\"alpha\",\"state\":\"good\","
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
    struct pack_reader request = last_request();
    document_text(&request, "invite", text, sizeof text);
    assert_string_equal(text, "0011");

    /* The token itself does as well, even when it has expired. */
    struct token token = {.expires_s = 1, .member_count = 1, .members = {{.address_count = 1, .addresses = {{"127.0.0.1:1"}}}}};
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

static void an_eviction_is_confirmed_on_a_terminal(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"nodes",
         {"\"ok\":true,\"end\":true,\"nodes\":[" NODE_ROW(ALPHA, "alpha", "alive", ALPHA) "," NODE_ROW(
              BETA, "beta", "alive", ALPHA) "," NODE_ROW(BETA_OLD, "beta", "evicted", ALPHA) "," NODE_ROW(
              GAMMA, "gamma", "dead", BETA) "]"},
         NULL},
        {"evict",
         {"\"ok\":true,\"end\":true,\"node\":\"" BETA "\",\"name\":\"beta\",\"stored_on\":2,\"standing\":[{\"id\":\"" GAMMA
          "\",\"name\":\"gamma\"}],\"void\":[]"},
         NULL},
        {NULL, {NULL}, NULL}};
    fake_start(answers);
    typed = "no\n";
    assert_int_equal(RUN("evict", "beta"), CLI_REFUSED);
    assert_has(err_text_written, "Evict beta (" BETA ")?");
    assert_has(err_text_written, "It vouched for: gamma. They stay.\n");
    typed = "";
    assert_int_equal(RUN("evict", "beta", "--with-vouched"), CLI_REFUSED);
    assert_has(err_text_written, "They go too");
    assert_lacks(fake.ops, "evict");
    typed = "Yes\n";
    assert_int_equal(RUN("evict", "beta"), CLI_DONE);
    assert_string_equal(out_text, "beta (bbbb00000000) evicted, stored on 2 nodes\nit vouched for, and these stay: gamma\n");
    struct pack_reader request = last_request();
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
    assert_sentence("2 nodes fit bbbb");
    assert_int_equal(RUN("evict", "delta"), CLI_NO_SUCH_THING);
    assert_sentence("no node");
    assert_int_equal(RUN("evict"), CLI_USAGE);
    fake_stop();
}

/* ---- submit
 * ---------------------------------------------------------------------------------------------------------------- */

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    (void)fclose(file);
}

static void submit_sends_the_file_and_the_code(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"submit",
         {"\"ok\":true,\"end\":false,\"progress\":{\"done_bytes\":1,\"bytes\":2}",
          "\"ok\":true,\"end\":true,\"experiment\":\"x\",\"stored_on\":2,\"nodes_alive\":3"},
         NULL},
        {NULL, {NULL}, NULL}};
    static const char yaml[] = "name: tiny\nentrypoint: ./train.sh\n";
    char code[128], file[192], train[192], copy[128], error[256];
    (void)snprintf(code, sizeof code, "%s/code", root);
    (void)snprintf(file, sizeof file, "%s/exp.yaml", code);
    (void)snprintf(train, sizeof train, "%s/train.sh", code);
    (void)snprintf(copy, sizeof copy, "%s/copy", root);
    assert_int_equal(mkdir(code, 0755), 0);
    write_text(file, yaml);
    write_text(train, "echo\n");
    fake_start(answers);
    assert_int_equal(RUN("submit", file, "--set", "max_restarts=2", "--set", "seed=4"), CLI_DONE);
    struct pack_reader request = last_request();
    char id[32], text[128];
    document_text(&request, "experiment", id, sizeof id);
    assert_int_equal(strlen(id), 16);
    assert_has(out_text, "submitted tiny (");
    assert_has(out_text, "stored on 2 nodes: ");
    assert_string_equal(strrchr(out_text, ' ') + 1, strcat(memcpy(text, id, 17), "\n")); /* the last word */
    struct pack_reader value = pack_find(&request, "config");
    size_t bytes;
    const char *config = pack_read_text(&value, &bytes);
    assert_int_equal(bytes, sizeof yaml - 1);
    assert_memory_equal(config, yaml, bytes);
    value = pack_find(&request, "overrides");
    assert_int_equal(pack_read_array(&value), 2);
    pack_read_text_copy(&value, text, sizeof text);
    assert_string_equal(text, "max_restarts=2");
    struct stat status;
    assert_int_equal(fstat(fake.passed_fd, &status), 0);
    assert_int_equal(document_number(&request, "bytes"), status.st_size);
    assert_int_equal(lseek(fake.passed_fd, 0, SEEK_SET), 0);
    assert_int_equal(archive_unpack(fake.passed_fd, copy, 0, error, sizeof error), 0);
    (void)close(fake.passed_fd);
    (void)snprintf(train, sizeof train, "%s/train.sh", copy);
    assert_string_equal(read_text(train), "echo\n");
    fake_stop();
}

static void a_bad_file_is_refused_before_anything_is_sent(void **state)
{
    (void)state;
    char file[128];
    (void)snprintf(file, sizeof file, "%s/bad.yaml", root);
    write_text(file, "name: x\nentrypoint: true\nsearchr:\n  name: single\n");
    assert_int_equal(RUN("submit", file), CLI_REFUSED); /* no daemon is needed to see it */
    assert_sentence("bad.yaml:3");
    assert_int_equal(RUN("submit", "/nonexistent/x.yaml"), CLI_REFUSED);
    assert_sentence("/nonexistent/x.yaml cannot be read");
    write_text(file, "name: x\nentrypoint: ./t\n");
    assert_int_equal(RUN("submit", file, "--context", "/nonexistent"), CLI_REFUSED);
    assert_sentence("/nonexistent");
    assert_int_equal(RUN("submit"), CLI_USAGE);
    assert_int_equal(RUN("submit", "-"), CLI_USAGE);
}

/* ---- init and join
 * ------------------------------------------------------------------------------------------------------------ */

struct found {
    size_t record_count;
    struct fact_member member;
    mesh_id mesh;
    node_id writer;
    bool signature_good;
    uint8_t envelope[1024];
    size_t envelope_bytes;
};

static int look_at_record(void *context, const uint8_t *key, size_t key_bytes, const uint8_t *value, size_t value_bytes)
{
    struct found *found = context;
    struct record record;
    assert_int_equal(record_decode(value, value_bytes, &record), 0);
    record_ident ident = record_ident_of(record.writer, record.kind, record.key, record.key_bytes);
    assert_int_equal(key_bytes, sizeof ident.bytes);
    assert_memory_equal(key, ident.bytes, key_bytes);
    found->record_count++;
    assert_int_equal(record.kind, FACT_MEMBER);
    assert_int_equal(fact_member_read(&record, &found->member), 0);
    found->writer = record.writer;
    assert_true(value_bytes <= sizeof found->envelope);
    memcpy(found->envelope, value, value_bytes);
    found->envelope_bytes = value_bytes;
    found->signature_good = keys_verify_record(found->member.public_key, found->mesh, value, value_bytes) == 0;
    return 0;
}

static void look_at(const char *dir, struct found *out, char name[64])
{
    struct state *store;
    char error[256];
    size_t bytes;
    memset(out, 0, sizeof *out);
    assert_int_equal(state_open(dir, &store, error, sizeof error), 0);
    assert_int_equal(state_get(store, STATE_META, "mesh", 4, &out->mesh, sizeof out->mesh, &bytes), 0);
    assert_int_equal(bytes, MESH_ID_BYTES);
    assert_int_equal(state_get(store, STATE_META, "name", 4, name, 63, &bytes), 0);
    name[bytes] = '\0';
    assert_int_equal(state_each(store, STATE_RECORDS, look_at_record, out), 0);
    state_close(&store);
}

static void init_makes_a_mesh_once(void **state)
{
    (void)state;
    char dir[128], name[64], error[256];
    (void)snprintf(dir, sizeof dir, "%s/deep/init", root);
    assert_int_equal(RUN("init", "--dir", dir, "--name", "lab of x", "--node-name", "alpha"), CLI_DONE);
    struct found found;
    struct keys keys;
    look_at(dir, &found, name);
    assert_int_equal(keys_load(dir, &keys, error), 0);
    assert_string_equal(name, "alpha");
    assert_int_equal(found.record_count, 1);
    assert_true(found.signature_good);
    assert_memory_equal(found.member.public_key, keys.sign_public, 32);
    assert_string_equal(found.member.name, "alpha");
    assert_true(node_id_equal(found.writer, keys.id));
    assert_true(mesh_id_equal(found.mesh, mesh_id_of_founder(found.member.public_key, found.member.nonce)));
    assert_int_equal(RUN("init", "--dir", dir), CLI_REFUSED);
    assert_sentence("belongs to the mesh");
    struct found again;
    look_at(dir, &again, name);
    assert_memory_equal(again.envelope, found.envelope, found.envelope_bytes);
    assert_int_equal(RUN("init", "--dir", dir, "--node-name", "two words"), CLI_USAGE);
}

/* A member's door: answers JOINs as a daemon would, with the founder's record and, if it vouches, one for the joiner.
 */
struct door {
    pthread_t thread;
    void *context;
    struct zap *zap;
    struct control *control;
    struct keys keys;
    struct found founder;
    struct token token;
    uint8_t invite_key[32];
    bool vouches, refuses;
    int wake[2];
};

static size_t voucher(const struct door *door, const struct join_request *request, uint8_t *out, size_t capacity)
{
    struct fact_member fact = {.nonce = {0}};
    memcpy(fact.public_key, request->sign_public, 32);
    (void)snprintf(fact.name, sizeof fact.name, "%s", request->name);
    uint8_t body[256];
    struct pack_writer writer;
    pack_writer_init(&writer, body, sizeof body);
    fact_member_pack(&writer, &fact);
    struct fact_key key = fact_key_node_id(node_id_of_key(request->sign_public));
    struct record record = {.kind = FACT_MEMBER,
                            .writer = door->keys.id,
                            .version = {1ull << 32, 7},
                            .key = key.bytes,
                            .key_bytes = key.count,
                            .body = body,
                            .body_bytes = (uint16_t)writer.used_bytes};
    size_t count = record_encode(&record, out, capacity);
    keys_sign_record(&door->keys, door->token.mesh, out, count);
    return count;
}

static void door_answer(struct door *door, const struct control_incoming *in)
{
    static uint8_t records[4096], bytes[MESSAGE_BYTES_MAX];
    struct join_request request;
    struct join_answer answer = {.code = 0, .text = "", .records = records};
    if (in->from.kind != ZAP_INVITE ||
        join_request_decode(in->bytes, in->count, door->token.mesh, door->invite_key, &request) != 0) {
        return;
    }
    memcpy(records, door->founder.envelope, door->founder.envelope_bytes);
    size_t used = door->founder.envelope_bytes;
    if (door->vouches) {
        used += voucher(door, &request, records + used, sizeof records - used);
    }
    answer.record_bytes = (uint32_t)used;
    if (door->refuses) {
        answer = (struct join_answer){.code = ERR_REFUSED, .text = "the invite is revoked"};
    }
    size_t count = join_answer_encode(&answer, bytes, sizeof bytes);
    (void)control_reply(door->control, in->client, bytes, count);
}

static void *door_run(void *context)
{
    struct door *door = context;
    for (;;) {
        zmq_pollitem_t items[CONTROL_POLL_MAX + 1];
        size_t count = control_poll_items(door->control, items);
        items[count] = (zmq_pollitem_t){.fd = door->wake[0], .events = ZMQ_POLLIN};
        (void)zmq_poll(items, (int)count + 1, 1000);
        if ((items[count].revents & ZMQ_POLLIN) != 0) {
            return NULL;
        }
        control_process(door->control);
        struct control_incoming in;
        while (control_receive(door->control, &in) == 0) {
            door_answer(door, &in);
        }
    }
}

static void door_open(struct door *door, const char *founder_dir)
{
    char error[256] = "", name[64];
    memset(door, 0, sizeof *door);
    assert_int_equal(keys_load(founder_dir, &door->keys, error), 0);
    look_at(founder_dir, &door->founder, name);
    door->context = zmq_ctx_new();
    assert_int_equal(zap_open(door->context, &door->zap, error), 0);
    struct control_options options = {
        .context = door->context, .zap = door->zap, .keys = &door->keys, .listen = "127.0.0.1:0"};
    assert_int_equal(control_open(&options, &door->control, error), 0);
    door->token =
        (struct token){.mesh = door->founder.mesh, .expires_s = (uint64_t)time(NULL) + 600, .member_count = 1};
    token_create(door->token.secret, door->invite_key);
    memcpy(door->token.members[0].sign_public, door->keys.sign_public, 32);
    door->token.members[0].address_count = 1;
    (void)snprintf(door->token.members[0].addresses[0], TOKEN_ADDRESS_BYTES, "127.0.0.1:%u",
                   control_port(door->control));
    assert_int_equal(control_admit(door->control, door->invite_key, true, false), 0);
}

/* The thread serves while one command runs: afterwards the door may be changed. */
static int door_serve(struct door *door, char **words)
{
    assert_int_equal(pipe2(door->wake, O_CLOEXEC), 0);
    assert_int_equal(pthread_create(&door->thread, NULL, door_run, door), 0);
    int code = run_words(words);
    assert_int_equal(write(door->wake[1], "x", 1), 1);
    assert_int_equal(pthread_join(door->thread, NULL), 0);
    (void)close(door->wake[0]);
    (void)close(door->wake[1]);
    return code;
}

static void join_takes_what_the_founder_s_chain_vouches_for(void **state)
{
    (void)state;
    char founder_dir[128], dir[128], token[TOKEN_TEXT_BYTES], name[64], error[256];
    (void)snprintf(founder_dir, sizeof founder_dir, "%s/founder", root);
    (void)snprintf(dir, sizeof dir, "%s/joiner", root);
    assert_int_equal(RUN("init", "--dir", founder_dir), CLI_DONE);
    struct door door;
    door_open(&door, founder_dir);
    (void)token_write(&door.token, token);
    char *words[] = {"shoal", "join", token, "--dir", dir, "--name", "beta", NULL};

    assert_int_equal(door_serve(&door, words), CLI_REFUSED); /* it does not vouch */
    assert_sentence("vouches for this node");
    struct keys keys, same_keys;
    assert_int_equal(keys_load(dir, &keys, error), 0);
    door.refuses = true;
    assert_int_equal(door_serve(&door, words), CLI_REFUSED);
    assert_sentence("the invite is revoked");
    door.refuses = false;
    door.vouches = true;
    assert_int_equal(door_serve(&door, words), CLI_DONE);
    assert_has(out_text, "next: shoald --dir ");

    assert_int_equal(keys_load(dir, &same_keys, error), 0);
    assert_memory_equal(keys.sign_public, same_keys.sign_public, 32); /* the tries before did not waste a key */
    struct state *store;
    assert_int_equal(state_open(dir, &store, error, sizeof error), 0);
    uint8_t peers[TOKEN_TEXT_BYTES];
    size_t bytes;
    assert_int_equal(state_get(store, STATE_META, "peers", 5, peers, sizeof peers, &bytes), 0);
    struct pack_reader reader;
    uint8_t public_key[32];
    char address[TOKEN_ADDRESS_BYTES];
    pack_reader_init(&reader, peers, bytes);
    assert_int_equal(pack_read_array(&reader), 1);
    assert_int_equal(pack_read_array(&reader), 2);
    pack_read_bin_exact(&reader, public_key, 32);
    pack_read_text_copy(&reader, address, sizeof address);
    assert_true(pack_at_end(&reader));
    assert_memory_equal(public_key, door.keys.sign_public, 32);
    assert_string_equal(address, door.token.members[0].addresses[0]);
    state_close(&store);
    struct found found;
    look_at(dir, &found, name);
    assert_int_equal(found.record_count, 2);
    assert_string_equal(name, "beta");
    assert_memory_equal(found.mesh.bytes, door.token.mesh.bytes, MESH_ID_BYTES);
    assert_int_equal(RUN("join", token, "--dir", dir), CLI_REFUSED);
    assert_sentence("belongs to the mesh");

    control_close(&door.control);
    zap_close(&door.zap);
    assert_int_equal(zmq_ctx_term(door.context), 0);
}

static void bad_tokens_leave_nothing_behind(void **state)
{
    (void)state;
    char dir[128], text[TOKEN_TEXT_BYTES];
    (void)snprintf(dir, sizeof dir, "%s/nothing", root);
    struct token token = {.mesh = {{1}}, .expires_s = 1000, .member_count = 1};
    uint8_t invite_key[32];
    assert_int_equal(keys_start(), 0);
    token_create(token.secret, invite_key);
    token.members[0].address_count = 1;
    (void)snprintf(token.members[0].addresses[0], TOKEN_ADDRESS_BYTES, "127.0.0.1:1");
    (void)token_write(&token, text);
    assert_int_equal(RUN("join", text, "--dir", dir), CLI_REFUSED);
    assert_sentence("expired");
    assert_int_equal(RUN("join", "shoal1-garbage", "--dir", dir), CLI_REFUSED);
    assert_int_equal(RUN("join", "word", "--dir", dir), CLI_REFUSED);
    assert_int_equal(RUN("join", "shoal1-AAAA", "--dir", dir, "--name", "\033"), CLI_USAGE);
    assert_int_equal(access(dir, F_OK), -1);
}

/* ---- hostile documents
 * ------------------------------------------------------------------------------------------------------- */

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

static int make_root(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof root, "/tmp/shoal-cli-XXXXXX");
    return mkdtemp(root) == NULL ? -1 : 0;
}

static int remove_root(void **state)
{
    (void)state;
    char command[128];
    free(out_text);
    free(err_text_written);
    (void)snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(usage_errors_name_the_nearest_word, stop_what_runs),
        cmocka_unit_test_teardown(every_command_explains_itself, stop_what_runs),
        cmocka_unit_test_teardown(options_stand_anywhere, stop_what_runs),
        cmocka_unit_test_teardown(numbers_and_durations_have_bounds, stop_what_runs),
        cmocka_unit_test_teardown(units_are_for_people, stop_what_runs),
        cmocka_unit_test_teardown(tables_are_aligned_and_screens_cut, stop_what_runs),
        cmocka_unit_test_teardown(lists_come_as_tables_or_json, stop_what_runs),
        cmocka_unit_test_teardown(owners_take_their_slots_back, stop_what_runs),
        cmocka_unit_test_teardown(nodes_are_drained_by_name_or_id, stop_what_runs),
        cmocka_unit_test_teardown(drain_waits_for_the_nodes_own_word, stop_what_runs),
        cmocka_unit_test_teardown(parts_of_a_document_are_joined, stop_what_runs),
        cmocka_unit_test_teardown(show_has_trials_and_the_last_lines_of_failed_ones, stop_what_runs),
        cmocka_unit_test_teardown(experiments_are_found_by_name_and_prefix, stop_what_runs),
        cmocka_unit_test_teardown(delete_asks_on_a_terminal, stop_what_runs),
        cmocka_unit_test_teardown(delete_takes_several, stop_what_runs),
        cmocka_unit_test_teardown(wait_returns_the_end_as_its_code, stop_what_runs),
        cmocka_unit_test_teardown(wait_and_watch_outlive_a_restart_of_the_daemon, stop_what_runs),
        cmocka_unit_test_teardown(without_a_daemon_the_code_is_3, stop_what_runs),
        cmocka_unit_test_teardown(metrics_are_one_point_per_line, stop_what_runs),
        cmocka_unit_test_teardown(lines_of_several_ranks_do_not_mix, stop_what_runs),
        cmocka_unit_test_teardown(checkpoints_are_listed_fetched_and_verified, stop_what_runs),
        cmocka_unit_test_teardown(a_cut_checkpoint_is_not_kept, stop_what_runs),
        cmocka_unit_test_teardown(watch_in_a_pipe_says_what_changed, stop_what_runs),
        cmocka_unit_test_teardown(events_and_invites_are_lines, stop_what_runs),
        cmocka_unit_test_teardown(invites_are_listed_and_revoked, stop_what_runs),
        cmocka_unit_test_teardown(an_eviction_is_confirmed_on_a_terminal, stop_what_runs),
        cmocka_unit_test_teardown(submit_sends_the_file_and_the_code, stop_what_runs),
        cmocka_unit_test_teardown(a_bad_file_is_refused_before_anything_is_sent, stop_what_runs),
        cmocka_unit_test_teardown(init_makes_a_mesh_once, stop_what_runs),
        cmocka_unit_test_teardown(join_takes_what_the_founder_s_chain_vouches_for, stop_what_runs),
        cmocka_unit_test_teardown(bad_tokens_leave_nothing_behind, stop_what_runs),
        cmocka_unit_test_teardown(nonsense_from_the_socket_is_an_error, stop_what_runs),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
