#include "tests/unit/cli_fixture.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/document.h"
#include "base/pack.h"
#include "tools/shoal/cli.h"
#include "train/shoal/hparams.h"

char root[64];
char *out_text, *err_text_written;
const char *typed;
bool draws;
struct fake fake;
static msgpack_zone *request_zone;

int run_words(char **words)
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
                      .out_is_terminal = draws,
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

void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("'%s' is not in:\n%s", part, text);
    }
}

void assert_lacks(const char *text, const char *part)
{
    if (strstr(text, part) != NULL) {
        fail_msg("'%s' is in:\n%s", part, text);
    }
}

void assert_sentence(const char *part)
{
    assert_true(strncmp(err_text_written, "shoal: ", 7) == 0);
    assert_ptr_equal(strchr(err_text_written, '\n'), err_text_written + strlen(err_text_written) - 1);
    assert_has(err_text_written, part);
}

char *read_text(const char *path)
{
    static char text[4096];
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    return text;
}

static int carried_fd(const char *text)
{
    uint8_t bytes[256];
    size_t count = strlen(text);
    int fd = memfd_create("carried", MFD_CLOEXEC);
    assert_true(fd >= 0);
    if (strncmp(text, "hex:", 4) == 0) {
        count = (count - 4) / 2;
        assert_true(count <= sizeof bytes && bytes_from_hex(bytes, count, text + 4) == 0);
        text = (const char *)bytes;
    }
    assert_int_equal(write(fd, text, count), (ssize_t)count);
    return fd;
}

/* False: the connection is to be closed. */
/* "log:0text", or from a newer daemon "of4:0text", which knows that a trial has at most four workers. "oc4:0text": the same, as
 * lines that the daemon has chosen. "new:0text": of a second attempt. JSON knows no binary. */
static bool is_output(const char *reply)
{
    return strncmp(reply, "new", 3) == 0 || strncmp(reply, "log:", 4) == 0 || ((strncmp(reply, "of", 2) == 0 || strncmp(reply, "oc", 2) == 0) && reply[2] != '\0' && reply[3] == ':');
}

static void pack_output(struct pack_writer *writer, const char *reply, uint64_t id, bool last)
{
    bool is_new = reply[0] == 'o', is_second = reply[0] == 'n', is_chosen = is_new && reply[1] == 'c';
    pack_map(writer, (is_new ? 9u : is_second ? 7u : 6u) + is_chosen);
    if (is_chosen) {
        pack_text(writer, "chosen");
        pack_bool(writer, true);
    }
    pack_text(writer, "id");
    pack_u64(writer, id);
    pack_text(writer, "ok");
    pack_bool(writer, true);
    pack_text(writer, "end");
    pack_bool(writer, last);
    if (is_second) {
        pack_text(writer, "before");
        pack_map(writer, 2);
        pack_text(writer, "attempt");
        pack_u64(writer, 1);
        pack_text(writer, "reason");
        pack_text(writer, "a worker failed: rank 0 was killed by signal 9 (SIGKILL)");
    }
    pack_text(writer, "attempt");
    pack_u64(writer, is_second ? 2 : 1);
    pack_text(writer, "rank");
    pack_u64(writer, (uint64_t)(reply[4] - '0'));
    if (is_new) {
        pack_text(writer, "workers_max");
        pack_u64(writer, (uint64_t)(reply[2] - '0'));
        pack_text(writer, "local_rank");
        pack_u64(writer, (uint64_t)(reply[4] - '0') / 2);
        pack_text(writer, "host");
        pack_text(writer, reply[4] % 2 == 0 ? "elm" : "fir");
    }
    pack_text(writer, "bytes");
    pack_bin(writer, reply + 5, strlen(reply + 5));
}

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
        if (strncmp(answer->replies[i], "signal:", 7) == 0) {
            assert_int_equal(kill(getpid(), (int)strtol(answer->replies[i] + 7, NULL, 10)), 0);
            continue;
        }
        pack_writer_init(&writer, bytes, sizeof bytes);
        if (strncmp(answer->replies[i], "hex:", 4) == 0) {
            writer.used_bytes = strlen(answer->replies[i] + 4) / 2;
            assert_int_equal(bytes_from_hex(bytes, writer.used_bytes, answer->replies[i] + 4), 0);
        } else if (is_output(answer->replies[i])) {
            pack_output(&writer, answer->replies[i], id, last);
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
        struct pack_reader request, id, name;
        char op[32];
        pack_reader_init(&request, bytes, count);
        name = pack_find(&request, "op");
        pack_read_text_copy(&name, op, sizeof op);
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

void fake_start(const struct answer *answers)
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

void fake_stop(void)
{
    char path[128];
    fake.runs = false;
    (void)shutdown(fake.listen_fd, SHUT_RDWR); /* accept returns */
    assert_int_equal(pthread_join(fake.thread, NULL), 0);
    (void)close(fake.listen_fd);
    (void)snprintf(path, sizeof path, "%s/shoald.sock", root);
    (void)unlink(path);
}

msgpack_object last_request(void)
{
    msgpack_object request;
    request_zone = request_zone != NULL ? request_zone : msgpack_zone_new(MSGPACK_ZONE_CHUNK_SIZE);
    assert_non_null(request_zone);
    msgpack_zone_clear(request_zone);
    assert_int_equal(document_read(request_zone, fake.request, fake.request_bytes, &request), 0);
    return request;
}

int make_root(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof root, "/tmp/shoal-cli-XXXXXX");
    return mkdtemp(root) == NULL ? -1 : 0;
}

int remove_root(void **state)
{
    (void)state;
    char command[128];
    msgpack_zone_free(request_zone);
    free(out_text);
    free(err_text_written);
    (void)snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

int stop_what_runs(void **state)
{
    (void)state;
    if (fake.runs) {
        fake_stop();
    }
    return 0;
}
