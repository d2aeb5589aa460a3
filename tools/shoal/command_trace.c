/* trace: a few steps of all ranks of a trial as a file for Chrome's about:tracing or Perfetto. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/document.h"
#include "base/units.h"
#include "tools/shoal/client.h"
#include "tools/shoal/target.h"

#define STEPS_MAX 64 /* the daemon's, too */
#define WAIT_S 50
#define WAIT_S_MAX 3500
#define MORE_S 15 /* that an answer may take beyond the time that the user gives */
#define BLOCK_BYTES 65536

static int copy(struct cli *cli, int from, uint64_t bytes, FILE *out, const char *name)
{
    static char block[BLOCK_BYTES];
    uint64_t at = 0;
    while (at < bytes) {
        ssize_t count = pread(from, block, bytes - at < sizeof block ? (size_t)(bytes - at) : sizeof block, (off_t)at);
        if (count <= 0 || fwrite(block, 1, (size_t)count, out) != (size_t)count) {
            return cli_fail(cli, CLI_REFUSED, "%.200s cannot be written: %s", name, strerror(errno));
        }
        at += (uint64_t)count;
    }
    return CLI_DONE;
}

static int save(struct cli *cli, int from, uint64_t bytes, const char *path)
{
    FILE *out = fopen(path, "we");
    if (out == NULL) {
        return cli_fail(cli, CLI_REFUSED, "%.200s cannot be written: %s", path, strerror(errno));
    }
    int code = copy(cli, from, bytes, out, path);
    if (fclose(out) != 0 && code == CLI_DONE) {
        code = cli_fail(cli, CLI_REFUSED, "%.200s cannot be written: %s", path, strerror(errno));
    }
    return code;
}

static void tell_lacks(struct cli *cli, const msgpack_object *document)
{
    unsigned long long missing = document_number(document, "missing");
    if (missing > 0) {
        cli_warn(cli, "%llu %s not in the trace: without a connection to Shoal, away, or slower than the others", missing,
                 missing == 1 ? "rank is" : "ranks are");
    }
    if (document_true(document, "apart")) {
        cli_warn(cli, "the ranks have no step in common, so the trace has all that each of them recorded");
    } else if (document_true(document, "cut")) {
        cli_warn(cli,
                 "the trace is shorter than asked for, since a rank has more spans than there is room for, or joined later");
    }
}

static void tell(struct cli *cli, const msgpack_object *document, const char *path)
{
    double error_us = 0;
    unsigned long long steps = document_number(document, "steps"), ranks = document_number(document, "ranks");
    (void)document_double(document_find(document, "clock_error_us"), &error_us);
    if (cli->json) {
        (void)document_write_reply_json(cli->out, document);
        return;
    }
    (void)fprintf(cli->out,
                  "%llu %s of %llu %s, %llu spans, times within %.3g us: %s opens in chrome://tracing and ui.perfetto.dev\n",
                  steps, steps == 1 ? "step" : "steps", ranks, ranks == 1 ? "rank" : "ranks",
                  (unsigned long long)document_number(document, "spans"), error_us, path);
}

static int read_bounds(struct cli *cli, const struct arguments *arguments, uint64_t *steps, uint64_t *seconds)
{
    const char *steps_text = options_value(arguments, "steps"), *timeout = options_value(arguments, "timeout");
    *steps = 1;
    *seconds = WAIT_S;
    if (steps_text != NULL && (options_number(steps_text, STEPS_MAX, steps) != 0 || *steps == 0)) {
        return cli_fail(cli, CLI_USAGE, "--steps %.40s is no number of steps; allowed are 1 to %d", steps_text, STEPS_MAX);
    }
    if (timeout != NULL && (units_read_time(timeout, WAIT_S_MAX, seconds) != 0 || *seconds == 0)) {
        return cli_fail(cli, CLI_USAGE, "--timeout %.40s is no time; allowed are 90, 90s, 15m, to %d s", timeout,
                        WAIT_S_MAX);
    }
    return CLI_DONE;
}

int command_trace(struct cli *cli, const struct arguments *arguments)
{
    struct target target;
    struct client client;
    struct reply reply = {.fd = -1};
    uint64_t steps, seconds;
    const char *path = options_value(arguments, "out");
    int code = read_bounds(cli, arguments, &steps, &seconds);
    if (code == CLI_DONE) {
        code = target_read_one(cli, arguments->operands[0], false, &target);
    }
    if (code == CLI_DONE) {
        code = target_begin(cli, "trace", &target, 2, &client);
    }
    if (code != CLI_DONE) {
        return code;
    }
    pack_text(&client.request, "steps");
    pack_u64(&client.request, steps);
    pack_text(&client.request, "timeout_s");
    pack_u64(&client.request, seconds);
    code = client_send(&client, -1);
    if (code == CLI_DONE) {
        code = client_next(&client, (int)(seconds + MORE_S) * 1000, true, &reply);
    }
    if (code == CLI_DONE && reply.fd < 0) {
        code = cli_fail(cli, CLI_REFUSED, "the daemon sent no trace; it may be of another version");
    }
    uint64_t bytes = code == CLI_DONE ? document_number(&reply.document, "bytes") : 0;
    if (code == CLI_DONE) {
        code = path != NULL ? save(cli, reply.fd, bytes, path) : copy(cli, reply.fd, bytes, cli->out, "standard output");
    }
    if (code == CLI_DONE) {
        tell_lacks(cli, &reply.document);
    }
    if (code == CLI_DONE && path != NULL) {
        tell(cli, &reply.document, path);
    }
    if (reply.fd >= 0) {
        (void)close(reply.fd);
    }
    client_close(&client);
    return code;
}
