#include "tools/shoal/shell.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/frame.h"
#include "node/keep/shell_wire.h"

#define OPEN_MS 40000 /* the daemon gives up sooner */
#define END_MS 5000

int shell_open(struct cli *cli, const struct target *target, uint64_t rank, uint16_t port, int passed_fd,
               struct client *client)
{
    struct reply reply;
    int code = target_begin(cli, port != 0 ? "forward" : "exec", target, port != 0 ? 2 : 1, client);
    if (code != CLI_DONE) {
        return code;
    }
    pack_text(&client->request, "rank");
    pack_u64(&client->request, rank);
    if (port != 0) {
        pack_text(&client->request, "port");
        pack_u64(&client->request, port);
    }
    code = client_send(client, passed_fd);
    code = code == CLI_DONE ? client_next(client, OPEN_MS, false, &reply) : code;
    if (code == CLI_DONE && reply.end) {
        code = cli_fail(cli, CLI_REFUSED, "the stream has ended before it began");
    }
    if (code != CLI_DONE) {
        client_close(client);
    }
    return code;
}

int shell_ended(struct client *client)
{
    struct reply reply;
    return client_next(client, END_MS, false, &reply);
}

static int read_frames(struct frame_reader *reader, int fd, char *out, size_t size)
{
    static struct shell_frame frame;
    const uint8_t *bytes;
    size_t count, used = 0;
    int passed, code;
    out[0] = '\0';
    while ((code = frame_reader_wait(reader, fd, OPEN_MS, &bytes, &count, 0, &passed)) == 0 &&
           shell_frame_decode(bytes, count, &frame) == 0) {
        if (frame.kind == SHELL_OUTPUT) {
            size_t part = frame.count < size - 1 - used ? frame.count : size - 1 - used;
            memcpy(out + used, frame.bytes, part);
            used += part;
            out[used] = '\0';
        } else if (frame.kind == SHELL_EXIT) {
            return frame.code == 0 ? CLI_DONE : CLI_REFUSED;
        } else if (frame.kind == SHELL_FAILED) {
            return CLI_REFUSED;
        }
    }
    return CLI_REFUSED;
}

int shell_read(struct cli *cli, const struct target *target, const char *script, bool is_quiet, char *out, size_t size)
{
    static struct shell_frame run;
    uint8_t bytes[4096];
    struct client client;
    struct cli quiet = *cli;
    struct frame_reader reader;
    int ends[2];
    size_t count;
    uint8_t *buffer = malloc(SHELL_FRAME_BYTES_MAX + FRAME_HEAD_BYTES);
    if (buffer == NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        free(buffer);
        return cli_fail(cli, CLI_REFUSED, "no socket can be made: %s", strerror(errno));
    }
    FILE *nowhere = is_quiet ? fopen("/dev/null", "we") : NULL;
    quiet.err = nowhere != NULL ? nowhere : cli->err;
    int code = shell_open(&quiet, target, 0, 0, ends[1], &client);
    (void)close(ends[1]);
    if (code == CLI_DONE) {
        run = (struct shell_frame){.kind = SHELL_RUN, .word_count = 3};
        (void)snprintf(run.words, sizeof run.words, "sh%c-c%c%s", '\0', '\0', script);
        frame_reader_init(&reader, buffer, SHELL_FRAME_BYTES_MAX + FRAME_HEAD_BYTES);
        code = shell_frame_encode(&run, bytes, sizeof bytes, &count) == 0 && frame_send(ends[0], bytes, count, -1) == 0
                   ? CLI_DONE
                   : CLI_REFUSED;
        code = code == CLI_DONE ? read_frames(&reader, ends[0], out, size) : code;
        frame_reader_close(&reader);
        client_close(&client);
    }
    (void)close(ends[0]);
    if (nowhere != NULL) {
        (void)fclose(nowhere);
    }
    free(buffer);
    return code;
}
