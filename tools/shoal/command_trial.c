/* metrics, logs, checkpoint ls|get|verify: the results of trials. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "tools/shoal/client.h"
#include "tools/shoal/document.h"
#include "tools/shoal/log_lines.h"
#include "tools/shoal/print.h"
#include "tools/shoal/render.h"
#include "tools/shoal/target.h"

#define RANK_MAX UINT16_MAX /* as worker numbers in records */
#define TRIAL_MAX UINT32_MAX

int target_read(struct cli *cli, const char *text, bool needs_trial, bool allows_step, struct target *out)
{
    memset(out, 0, sizeof *out);
    const char *slash = strrchr(text, '/');
    char tail[64] = "";
    if (slash != NULL && strlen(slash + 1) < sizeof tail) {
        (void)snprintf(tail, sizeof tail, "%s", slash + 1);
        char *at = allows_step ? strchr(tail, '@') : NULL;
        if (at != NULL) {
            *at = '\0';
            if (options_number(at + 1, UINT64_MAX, &out->step) != 0) {
                return cli_fail(cli, CLI_USAGE, "'%.40s' is no step of a checkpoint; write EXP/TRIAL@STEP", at + 1);
            }
            out->has_step = true;
        }
        out->has_trial = options_number(tail, TRIAL_MAX, &out->trial) == 0;
    }
    size_t bytes = out->has_trial ? (size_t)(slash - text) : strlen(text); /* names of older experiments may hold a '/' */
    if (needs_trial && !out->has_trial) {
        int named = (int)strcspn(text, "/@"); /* the part that may be the experiment's name */
        return cli_fail(cli, CLI_USAGE, "'%.80s' does not say which trial; write EXP/TRIAL%s, for example %.*s/0%s", text,
                        allows_step ? " or EXP/TRIAL@STEP" : "", named == 0 ? 3 : named < 40 ? named : 40,
                        named == 0 ? "EXP" : text, allows_step && strchr(text, '@') != NULL ? "@100" : "");
    }
    if (bytes == 0 || bytes >= sizeof out->experiment) {
        return cli_fail(cli, CLI_USAGE, "'%.80s' does not say which experiment; write EXP or EXP/TRIAL", text);
    }
    memcpy(out->experiment, text, bytes);
    return CLI_DONE;
}

int target_begin(struct cli *cli, const char *op, const struct target *target, uint32_t more, struct client *client)
{
    char id[CLIENT_EXPERIMENT_TEXT_BYTES];
    int code = client_open(cli, client);
    if (code != CLI_DONE) {
        return code;
    }
    code = client_find_experiment(client, target->experiment, id);
    if (code != CLI_DONE) {
        client_close(client);
        return code;
    }
    client_begin(client, op, 1u + (target->has_trial ? 1u : 0u) + more);
    pack_text(&client->request, "experiment");
    pack_text(&client->request, id);
    if (target->has_trial) {
        pack_text(&client->request, "trial");
        pack_u64(&client->request, target->trial);
    }
    return CLI_DONE;
}

/* Warns of the nodes that could not be reached and may hold more of the stream; `document` is the stream's last reply. */
static void warn_unreachable(struct cli *cli, const msgpack_object *document)
{
    char names[512] = "", name[128];
    size_t used = 0;
    msgpack_object_array list = document_list(document, "unreachable");
    for (uint32_t i = 0; i < list.size && used + sizeof name + 2 < sizeof names; i++) {
        const msgpack_object *item = &list.ptr[i];
        document_value(item, name, sizeof name);
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? ", " : "", name);
    }
    if (used > 0) {
        cli_warn(cli, "what only %s may have is not shown, since %s cannot be reached; try again when %s back", names,
                 list.size > 1 ? "they" : "it", list.size > 1 ? "they are" : "it is");
    }
}

/* ---- metrics ----------------------------------------------------------------------------------------------------- */

static void write_point(struct cli *cli, const msgpack_object *point)
{
    if (cli->json) {
        (void)document_write_json(cli->out, point);
        return;
    }
    char group[64], pairs[512];
    document_text(point, "group", group, sizeof group);
    print_pairs(document_find(point, "metrics"), pairs, sizeof pairs);
    (void)fprintf(cli->out, "trial=%llu attempt=%llu generation=%llu step=%llu group=%s%s %s\n",
                  (unsigned long long)document_number(point, "trial"),
                  (unsigned long long)document_number(point, "attempt"),
                  (unsigned long long)document_number(point, "generation"),
                  (unsigned long long)document_number(point, "step"), group, document_true(point, "void") ? " void" : "", pairs);
}

int command_metrics(struct cli *cli, const struct arguments *arguments)
{
    struct target target;
    struct client client;
    int code = target_read(cli, arguments->operands[0], false, false, &target);
    if (code == CLI_DONE) {
        code = target_begin(cli, "metrics", &target, 0, &client);
    }
    if (code != CLI_DONE) {
        return code;
    }
    code = client_send(&client, -1);
    struct reply reply = {.end = false};
    while (code == CLI_DONE && !reply.end) {
        code = client_next(&client, CLIENT_ANSWER_MS, false, &reply);
        if (code == CLI_DONE && document_has(&reply.document, "points")) {
            msgpack_object_array list = document_list(&reply.document, "points");
            for (uint32_t i = 0; i < list.size; i++) {
                const msgpack_object *item = &list.ptr[i];
                write_point(cli, item);
            }
        }
    }
    if (code == CLI_DONE) {
        warn_unreachable(cli, &reply.document);
    }
    client_close(&client);
    return code;
}

/* ---- logs -------------------------------------------------------------------------------------------------------- */

/* Writes lines of several ranks, each with its rank, or as JSON. */
struct log_writer {
    struct cli *cli;
    bool has_state; /* a terminal shows a state of a line, to be drawn over */
};

static void write_json_line(struct cli *cli, const struct log_line *line)
{
    size_t size = line->bytes + 128;
    uint8_t *document = malloc(size);
    if (document == NULL) {
        return;
    }
    struct pack_writer writer;
    pack_writer_init(&writer, document, size);
    pack_map(&writer, 3u + line->is_state + line->is_cut);
    pack_text(&writer, "attempt");
    pack_u64(&writer, line->attempt);
    pack_text(&writer, "rank");
    pack_u64(&writer, line->rank);
    pack_text(&writer, "text");
    pack_text_n(&writer, line->text, line->bytes);
    if (line->is_state) {
        pack_text(&writer, "redrawn");
        pack_bool(&writer, true);
    }
    if (line->is_cut) {
        pack_text(&writer, "cut");
        pack_bool(&writer, true);
    }
    (void)document_write_packed_json(cli->out, document, writer.used_bytes);
    free(document);
}

static void write_log_line(void *context, const struct log_line *line)
{
    struct log_writer *log = context;
    struct cli *cli = log->cli;
    if (cli->json) {
        write_json_line(cli, line);
        return;
    }
    (void)fprintf(cli->out, "[rank=%llu] ", (unsigned long long)line->rank);
    (void)fwrite(line->text, 1, line->bytes, cli->out);
    if (line->is_cut) {
        (void)fputs(" [shoal: this line goes on below]", cli->out);
    }
    bool is_drawn_over = cli->out_is_terminal && line->is_state;
    if (is_drawn_over || log->has_state) {
        (void)fputs("\033[K", cli->out);
    }
    (void)fputc(is_drawn_over ? '\r' : '\n', cli->out);
    log->has_state = is_drawn_over;
}

/* `raw` (one rank): writes the bytes unchanged; else whole lines, each with the rank or as JSON. */
static int write_logs(struct client *client, bool raw, bool follow)
{
    struct cli *cli = client->cli;
    struct log_writer writer = {.cli = cli};
    struct log_lines lines = {.out = write_log_line, .context = &writer, .follows = follow};
    int code = client_send(client, -1);
    struct reply reply = {.end = false};
    uint64_t shown = 0; /* the attempt whose output was shown last */
    while (code == CLI_DONE && !reply.end) {
        code = client_next(client, follow ? -1 : CLIENT_ANSWER_MS, false, &reply);
        if (code != CLI_DONE) {
            break;
        }
        const msgpack_object *bytes = document_find(&reply.document, "bytes");
        uint64_t rank = document_number(&reply.document, "rank"), attempt = document_number(&reply.document, "attempt");
        if (bytes->type != MSGPACK_OBJECT_BIN || rank > RANK_MAX) {
            continue;
        }
        if (shown != 0 && attempt != shown && !cli->json) {
            log_lines_end(&lines);
            (void)fflush(cli->out);
            (void)fprintf(cli->err, "shoal: attempt %llu of the trial\n", (unsigned long long)attempt);
        }
        shown = attempt;
        if (raw) {
            (void)fwrite(bytes->via.bin.ptr, 1, bytes->via.bin.size, cli->out);
        } else if (!log_lines_take(&lines, attempt, rank, bytes->via.bin.ptr, bytes->via.bin.size)) {
            code = cli_fail(cli, CLI_REFUSED, "no memory is left");
        }
        (void)fflush(cli->out);
    }
    log_lines_end(&lines);
    log_lines_close(&lines);
    if (code == CLI_DONE) {
        warn_unreachable(cli, &reply.document);
    }
    return code;
}

int command_logs(struct cli *cli, const struct arguments *arguments)
{
    struct target target;
    struct client client;
    uint64_t rank = 0;
    const char *rank_text = options_value(arguments, "rank");
    bool follow = options_has(arguments, "follow");
    if (rank_text != NULL && options_number(rank_text, RANK_MAX, &rank) != 0) {
        return cli_fail(cli, CLI_USAGE, "--rank %.40s is no rank; allowed are 0 to %d", rank_text, RANK_MAX);
    }
    int code = target_read(cli, arguments->operands[0], true, false, &target);
    if (code == CLI_DONE) {
        code = target_begin(cli, "logs", &target, 1 + (rank_text != NULL ? 1 : 0), &client);
    }
    if (code != CLI_DONE) {
        return code;
    }
    pack_text(&client.request, "follow");
    pack_bool(&client.request, follow);
    if (rank_text != NULL) {
        pack_text(&client.request, "rank");
        pack_u64(&client.request, rank);
    }
    code = write_logs(&client, rank_text != NULL && !cli->json, follow);
    client_close(&client);
    return code;
}

/* ---- checkpoints ------------------------------------------------------------------------------------------------- */

static void holders_text(const msgpack_object *item, char *out, size_t size)
{
    msgpack_object_array list = document_list(item, "holders");
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < list.size && used < size; i++) {
        const msgpack_object *holder = &list.ptr[i];
        char name[128], state[32];
        document_node(holder, "name", name, sizeof name);
        document_text(holder, "state", state, sizeof state);
        int written = snprintf(out + used, size - used, "%s%s%s%s", used > 0 ? ", " : "", name,
                               state[0] != '\0' ? ": " : "", state);
        used += written > 0 ? (size_t)written : 0;
    }
}

/* True unless a holder has a state other than "ok"; a holder without a state is fine. */
static bool copies_are_ok(const msgpack_object *checkpoint)
{
    msgpack_object_array list = document_list(checkpoint, "holders");
    bool ok = true;
    for (uint32_t i = 0; i < list.size; i++) {
        const msgpack_object *holder = &list.ptr[i];
        char state[32];
        document_text(holder, "state", state, sizeof state);
        ok = ok && (state[0] == '\0' || strcmp(state, "ok") == 0);
    }
    return ok;
}

static void render_checkpoints(struct cli *cli, const msgpack_object *document)
{
    struct table table = {0};
    table_column(&table, "TRIAL", true);
    table_column(&table, "STEP", true);
    table_column(&table, "ATTEMPT", true);
    table_column(&table, "SIZE", true);
    table_column(&table, "DURABLE", false);
    table_column(&table, "HOLDERS", false);
    msgpack_object_array list = document_list(document, "checkpoints");
    for (uint32_t i = 0; i < list.size; i++) {
        const msgpack_object *item = &list.ptr[i];
        char text[512];
        bool durable = document_true(item, "durable");
        print_cell_text(&table, item, "trial");
        print_cell_text(&table, item, "step");
        print_cell_text(&table, item, "attempt");
        render_bytes(text, document_number(item, "bytes"));
        table_cell(&table, RENDER_PLAIN, "%s", text);
        table_cell(&table, durable ? RENDER_GREEN : RENDER_YELLOW, "%s", durable ? "yes" : "not yet");
        holders_text(item, text, sizeof text);
        table_cell(&table, copies_are_ok(item) ? RENDER_PLAIN : RENDER_RED, "%s", text);
    }
    table_write(&table, cli->out, cli->colours);
}

int command_checkpoint_ls(struct cli *cli, const struct arguments *arguments)
{
    struct target target = {.has_trial = false};
    struct client client;
    if (strlen(arguments->operands[0]) >= sizeof target.experiment) {
        return cli_fail(cli, CLI_USAGE, "'%.80s...' is longer than any name", arguments->operands[0]);
    }
    (void)snprintf(target.experiment, sizeof target.experiment, "%s", arguments->operands[0]);
    int code = target_begin(cli, "checkpoint_ls", &target, 0, &client);
    if (code == CLI_DONE) {
        code = print_reply(&client, render_checkpoints);
        client_close(&client);
    }
    return code;
}

int command_checkpoint_verify(struct cli *cli, const struct arguments *arguments)
{
    struct target target;
    struct client client;
    struct reply reply;
    int code = target_read(cli, arguments->operands[0], true, false, &target);
    if (code == CLI_DONE) {
        code = target_begin(cli, "checkpoint_verify", &target, 0, &client);
    }
    if (code != CLI_DONE) {
        return code;
    }
    code = client_send(&client, -1);
    if (code == CLI_DONE) {
        code = client_next(&client, -1, false, &reply); /* without a time limit: the holders read gigabytes */
    }
    if (code == CLI_DONE) {
        if (cli->json) {
            (void)document_write_reply_json(cli->out, &reply.document);
        } else {
            render_checkpoints(cli, &reply.document);
        }
        msgpack_object_array list = document_list(&reply.document, "checkpoints");
        bool all_ok = true;
        for (uint32_t i = 0; i < list.size; i++) {
            const msgpack_object *item = &list.ptr[i];
            all_ok = all_ok && copies_are_ok(item);
        }
        if (!all_ok) {
            code = cli_fail(cli, CLI_REFUSED, "not every copy of the checkpoints of trial %llu could be verified",
                            (unsigned long long)target.trial);
        }
    }
    client_close(&client);
    return code;
}

/* Copies `bytes` from offset 0 of `from` to DIR/checkpoint. Writes a draft first, so that an interrupted copy is never taken
 * for a checkpoint. */
static int copy_checkpoint(struct cli *cli, int from, uint64_t bytes, const char *dir)
{
    char path[PATH_MAX], draft[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/checkpoint", dir);
    int draft_length = snprintf(draft, sizeof draft, "%s/checkpoint.part", dir);
    if (length <= 0 || (size_t)length >= sizeof path || draft_length <= 0 || (size_t)draft_length >= sizeof draft) {
        return cli_fail(cli, CLI_USAGE, "the path of the directory is too long");
    }
    int to = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (to < 0) {
        return cli_fail(cli, CLI_REFUSED, "%s cannot be written: %s", draft, strerror(errno));
    }
    static uint8_t buffer[1 << 20];
    uint64_t done = 0;
    int reason = 0;
    while (done < bytes && reason == 0) {
        uint64_t left = bytes - done;
        ssize_t got = pread(from, buffer, left < sizeof buffer ? (size_t)left : sizeof buffer, (off_t)done);
        if (got == 0) {
            reason = EIO; /* shorter than the daemon said */
        }
        for (ssize_t at = 0; at < got && reason == 0;) {
            ssize_t put = write(to, buffer + at, (size_t)(got - at));
            if (put < 0 && errno != EINTR) {
                reason = errno;
            }
            at += put > 0 ? put : 0;
        }
        if (got < 0 && errno != EINTR) {
            reason = errno;
        }
        done += got > 0 ? (uint64_t)got : 0;
    }
    if (reason == 0 && fsync(to) != 0) {
        reason = errno;
    }
    if (close(to) != 0 && reason == 0) {
        reason = errno;
    }
    if (reason == 0 && rename(draft, path) != 0) {
        reason = errno;
    }
    if (reason != 0) {
        (void)unlink(draft);
        return cli_fail(cli, CLI_REFUSED, "writing %s failed after %llu of %llu bytes: %s", path,
                        (unsigned long long)done, (unsigned long long)bytes, strerror(reason));
    }
    return CLI_DONE;
}

static int write_metadata(struct cli *cli, const msgpack_object *document, const char *dir)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/metadata.json", dir);
    FILE *file = length > 0 && (size_t)length < sizeof path ? fopen(path, "we") : NULL;
    if (file == NULL) {
        return cli_fail(cli, CLI_REFUSED, "%s/metadata.json cannot be written: %s", dir, strerror(errno));
    }
    bool written = document_write_reply_json(file, document);
    if (fclose(file) != 0 || !written) {
        return cli_fail(cli, CLI_REFUSED, "%s could not be written; is the disk full?", path);
    }
    return CLI_DONE;
}

static int save_checkpoint(struct cli *cli, const struct reply *reply, const char *dir)
{
    uint64_t bytes = document_number(&reply->document, "bytes");
    if (reply->fd < 0) {
        return cli_fail(cli, CLI_REFUSED,
                        "the daemon's answer carries no checkpoint; are shoal and shoald of the same version?");
    }
    if (mkdir(dir, 0755) != 0 && errno != EEXIST) {
        return cli_fail(cli, CLI_REFUSED, "the directory %s cannot be made: %s", dir, strerror(errno));
    }
    int code = copy_checkpoint(cli, reply->fd, bytes, dir);
    if (code == CLI_DONE) {
        code = write_metadata(cli, &reply->document, dir);
    }
    if (code == CLI_DONE && cli->json) {
        (void)document_write_reply_json(cli->out, &reply->document);
    } else if (code == CLI_DONE) {
        char size[RENDER_UNIT_BYTES];
        render_bytes(size, bytes);
        (void)fprintf(cli->out, "checkpoint of trial %llu at step %llu, %s, in %s\n",
                      (unsigned long long)document_number(&reply->document, "trial"),
                      (unsigned long long)document_number(&reply->document, "step"), size, dir);
    }
    return code;
}

int command_checkpoint_get(struct cli *cli, const struct arguments *arguments)
{
    struct target target;
    struct client client;
    struct reply reply;
    int code = target_read(cli, arguments->operands[0], true, true, &target);
    if (code == CLI_DONE) {
        code = target_begin(cli, "checkpoint_get", &target, target.has_step ? 1 : 0, &client);
    }
    if (code != CLI_DONE) {
        return code;
    }
    if (target.has_step) {
        pack_text(&client.request, "step");
        pack_u64(&client.request, target.step);
    }
    code = client_send(&client, -1);
    if (code == CLI_DONE) {
        code = client_next(&client, -1, true, &reply);
    }
    if (code == CLI_DONE) {
        code = save_checkpoint(cli, &reply, arguments->operands[1]);
        if (reply.fd >= 0) {
            (void)close(reply.fd);
        }
    }
    client_close(&client);
    return code;
}
