/* logs, checkpoint ls|get|verify: the results of trials. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/document.h"
#include "base/err.h"
#include "base/pattern.h"
#include "store/snapshot.h"
#include "tools/shoal/client.h"
#include "tools/shoal/log_lines.h"
#include "tools/shoal/log_prefix.h"
#include "tools/shoal/logs.h"
#include "tools/shoal/print.h"
#include "tools/shoal/render.h"
#include "tools/shoal/target.h"

#define LOG_TAIL_MAX 100000 /* the daemon's, too */
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

int target_read_one(struct cli *cli, const char *text, bool allows_step, struct target *out)
{
    bool is_only = strchr(text, '/') == NULL && (!allows_step || strchr(text, '@') == NULL); /* a step is one of a trial */
    int code = target_read(cli, text, !is_only, allows_step, out);
    out->means_only = is_only;
    return code;
}

/* Fails unless the experiment has exactly one trial, trial 0. */
static int check_only_trial(struct client *client, const struct target *target, const char *id)
{
    struct reply reply;
    client_begin(client, "ls", 0);
    int code = client_ask(client, CLIENT_ANSWER_MS, &reply);
    if (code != CLI_DONE) {
        return code;
    }
    msgpack_object_array list = document_list(&reply.document, "experiments");
    for (uint32_t i = 0; i < list.size; i++) {
        char listed[CLIENT_EXPERIMENT_TEXT_BYTES];
        unsigned long long total = document_number(document_find(&list.ptr[i], "trials"), "total");
        document_text(&list.ptr[i], "id", listed, sizeof listed);
        if (strcmp(listed, id) == 0 && total != 1) {
            return cli_fail(client->cli, CLI_USAGE, "%.80s has %llu trials; say which one: %.80s/0 to %.80s/%llu", target->experiment, total,
                            target->experiment, target->experiment, total > 0 ? total - 1 : 0);
        }
    }
    return CLI_DONE; /* of an unknown experiment the daemon tells */
}

int target_begin(struct cli *cli, const char *op, const struct target *target, uint32_t more, struct client *client)
{
    char id[CLIENT_EXPERIMENT_TEXT_BYTES];
    int code = client_open(cli, client);
    if (code != CLI_DONE) {
        return code;
    }
    code = client_find_experiment(client, target->experiment, id);
    if (code == CLI_DONE && target->means_only) {
        code = check_only_trial(client, target, id);
    }
    if (code != CLI_DONE) {
        client_close(client);
        return code;
    }
    bool has_trial = target->has_trial || target->means_only;
    client_begin(client, op, 1u + (has_trial ? 1u : 0u) + more);
    pack_text(&client->request, "experiment");
    pack_text(&client->request, id);
    if (has_trial) {
        pack_text(&client->request, "trial");
        pack_u64(&client->request, target->trial);
    }
    return CLI_DONE;
}

/* "a, b" from the values of the list at `key`; returns their number. */
static uint32_t list_text(const msgpack_object *document, const char *key, char *out, size_t size)
{
    char item[128];
    size_t used = 0;
    msgpack_object_array list = document_list(document, key);
    out[0] = '\0';
    for (uint32_t i = 0; i < list.size && used + sizeof item + 2 < size; i++) {
        document_value(&list.ptr[i], item, sizeof item);
        used += (size_t)snprintf(out + used, size - used, "%s%s", used > 0 ? ", " : "", item);
    }
    return list.size;
}

void target_warn_unreachable(struct cli *cli, const msgpack_object *document)
{
    char names[512];
    uint32_t count = list_text(document, "unreachable", names, sizeof names);
    if (count > 0) {
        cli_warn(cli, "what only %s may have is not shown, since %s cannot be reached; try again when %s back", names,
                 count > 1 ? "they" : "it", count > 1 ? "they are" : "it is");
    }
}

/* ---- logs -------------------------------------------------------------------------------------------------------- */

/* What the user wants of a trial's logs. */
struct log_wish {
    bool follow;
    bool one_rank, raw;
    const char *prefix; /* a template; NULL: LOG_PREFIX_STANDARD where a trial may have several workers, else nothing */
    bool all_attempts;
    uint64_t attempt; /* 0: the newest */
    const char *pattern; /* NULL: any line */
    uint64_t since_ms, tail; /* 0: no such bound */
};

static bool chooses(const struct log_wish *wish)
{
    return wish->pattern != NULL || wish->since_ms > 0 || wish->tail > 0;
}

/* Writes whole lines, each with its prefix, or as JSON. */
struct log_writer {
    struct cli *cli;
    const struct log_wish *wish;
    const char *prefix;
    bool has_state; /* a terminal shows a state of a line, to be drawn over */
};

static void write_json_line(struct cli *cli, const struct log_line *line)
{
    size_t size = line->bytes + 256;
    uint8_t *document = malloc(size);
    if (document == NULL) {
        return;
    }
    struct pack_writer writer;
    pack_writer_init(&writer, document, size);
    bool has_host = line->source->host[0] != '\0';
    pack_map(&writer, 3u + (has_host ? 2u : 0u) + line->is_state + line->is_cut);
    pack_text(&writer, "attempt");
    pack_u64(&writer, line->source->attempt);
    pack_text(&writer, "rank");
    pack_u64(&writer, line->source->rank);
    if (has_host) {
        pack_text(&writer, "local_rank");
        pack_u64(&writer, line->source->local_rank);
        pack_text(&writer, "host");
        pack_text(&writer, line->source->host);
    }
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
    if (log->wish->raw) {
        (void)fwrite(line->text, 1, line->bytes, cli->out);
        return;
    }
    char prefix[LOG_PREFIX_BYTES_MAX];
    (void)fwrite(prefix, 1, log_prefix_write(log->prefix, line->source, prefix), cli->out);
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

static int fail_old_daemon(struct cli *cli)
{
    return cli_fail(cli, CLI_REFUSED,
                    "the daemon is older than this shoal and does not know --attempt, --prefix, --grep, --since and --tail; restart it");
}

/* Warns of what the stream lacks; `end` is its last reply. */
static void warn_of_logs(struct cli *cli, const struct log_wish *wish, const msgpack_object *end, bool is_empty)
{
    char nodes[512], attempts[512];
    target_warn_unreachable(cli, end);
    uint32_t lost = list_text(end, "lost", nodes, sizeof nodes);
    if (lost > 0) {
        cli_warn(cli, "what only %s may have had is kept no more, since %s left the mesh", nodes,
                 lost > 1 ? "they have" : "it has");
    }
    bool is_sure = is_empty && !chooses(wish) && lost == 0 && document_list(end, "unreachable").size == 0;
    uint32_t count = list_text(end, "attempts", attempts, sizeof attempts);
    if (is_sure && !wish->all_attempts && count > 1) {
        cli_warn(cli, "%s attempt has written nothing; the trial has had the attempts %s (--attempt)",
                 wish->attempt != 0 ? "this" : "the newest", attempts);
    } else if (is_sure && count > 0) {
        cli_warn(cli, "nothing has been written");
    }
}

/* A piece of output on its way to the user. */
/* How many bytes of a piece are the end of a line whose beginning is not kept, up to and with the line's end; 0: the line does not
 * end in the piece. */
static size_t line_rest(const msgpack_object *bytes)
{
    size_t rest = 0;
    while (rest < bytes->via.bin.size && bytes->via.bin.ptr[rest] != '\n' && bytes->via.bin.ptr[rest] != '\r') {
        rest++;
    }
    return rest < bytes->via.bin.size ? rest + 1 : 0;
}

/* `skipped`: so many bytes at the beginning of the piece are not shown. */
static int take_piece(struct log_writer *writer, struct log_lines *lines, const msgpack_object *document, const struct log_source *source,
                      size_t skipped)
{
    const struct log_wish *wish = writer->wish;
    struct cli *cli = writer->cli;
    const msgpack_object *bytes = document_find(document, "bytes");
    bool is_old = (wish->attempt != 0 && source->attempt != wish->attempt) || (wish->prefix != NULL && source->host[0] == '\0') ||
                  (chooses(wish) && !document_true(document, "chosen"));
    if (is_old) {
        return fail_old_daemon(cli);
    }
    bool is_only = document_number(document, "workers_max") == 1; /* never more than one worker: no line needs its rank */
    writer->prefix = wish->prefix != NULL ? wish->prefix : is_only ? "" : LOG_PREFIX_STANDARD;
    if (wish->raw && (wish->one_rank || is_only)) {
        (void)fwrite(bytes->via.bin.ptr + skipped, 1, bytes->via.bin.size - skipped, cli->out); /* whole lines are not waited for */
    } else if (!log_lines_take(lines, source, bytes->via.bin.ptr + skipped, bytes->via.bin.size - skipped)) {
        return cli_fail(cli, CLI_REFUSED, "no memory is left");
    }
    return CLI_DONE;
}

/* Says which attempt follows, and why the one before it ended, if the daemon knows. */
static void tell_attempt(struct cli *cli, uint64_t number, const msgpack_object *before)
{
    char reason[1280];
    unsigned long long attempt = number;
    document_text(before, "reason", reason, sizeof reason);
    if (reason[0] == '\0') {
        cli_warn(cli, "attempt %llu of the trial", attempt);
    } else {
        cli_warn(cli, "attempt %llu of the trial; attempt %llu ended: %s", attempt,
                 (unsigned long long)document_number(before, "attempt"), reason);
    }
}

/* Says that the output before what follows is not kept: it was more than logs.max_bytes, or than the disk took. */
static void tell_dropped(struct cli *cli, const struct log_source *source, uint64_t dropped)
{
    if (cli->json) {
        uint8_t document[128];
        struct pack_writer writer;
        pack_writer_init(&writer, document, sizeof document);
        pack_map(&writer, 3);
        pack_text(&writer, "attempt");
        pack_u64(&writer, source->attempt);
        pack_text(&writer, "rank");
        pack_u64(&writer, source->rank);
        pack_text(&writer, "dropped");
        pack_u64(&writer, dropped);
        (void)document_write_packed_json(cli->out, document, writer.used_bytes);
        return;
    }
    char size[RENDER_UNIT_BYTES];
    render_bytes(size, dropped);
    cli_warn(cli, "%s of the output of rank %llu before the next line are kept no more (logs.max_bytes)", size,
             (unsigned long long)source->rank);
}

static int write_logs(struct client *client, const struct log_wish *wish)
{
    struct cli *cli = client->cli;
    struct log_writer writer = {.cli = cli, .wish = wish};
    struct log_lines lines = {.out = write_log_line, .context = &writer, .follows = wish->follow, .is_raw = wish->raw};
    int code = client_send(client, -1);
    struct reply reply = {.end = false};
    uint64_t shown = 0; /* the attempt whose output was shown last */
    while (code == CLI_DONE && !reply.end) {
        code = client_next(client, wish->follow ? -1 : CLIENT_ANSWER_MS, false, &reply);
        if (code != CLI_DONE) {
            break;
        }
        struct log_source source = {.attempt = document_number(&reply.document, "attempt"),
                                    .rank = document_number(&reply.document, "rank"),
                                    .local_rank = document_number(&reply.document, "local_rank")};
        document_text(&reply.document, "host", source.host, sizeof source.host);
        if (document_find(&reply.document, "bytes")->type != MSGPACK_OBJECT_BIN || source.rank > RANK_MAX) {
            char reason[1024];
            document_text(&reply.document, "waiting", reason, sizeof reason);
            if (reason[0] != '\0') {
                cli_warn(cli, "waiting: %s", reason);
            }
            continue;
        }
        if ((shown != 0 || wish->all_attempts) && source.attempt != shown && !cli->json) {
            log_lines_end(&lines);
            (void)fflush(cli->out);
            tell_attempt(cli, source.attempt, document_find(&reply.document, "before"));
        }
        shown = source.attempt;
        uint64_t dropped = document_number(&reply.document, "dropped");
        size_t skipped = dropped > 0 ? line_rest(document_find(&reply.document, "bytes")) : 0;
        if (dropped > 0) {
            log_lines_end(&lines);
            (void)fflush(cli->out);
            tell_dropped(cli, &source, dropped + skipped);
        }
        code = take_piece(&writer, &lines, &reply.document, &source, skipped);
        (void)fflush(cli->out);
    }
    log_lines_end(&lines);
    log_lines_close(&lines);
    if (code == CLI_DONE && wish->all_attempts && !document_has(&reply.document, "attempts")) {
        code = fail_old_daemon(cli);
    } else if (code == CLI_DONE) {
        warn_of_logs(cli, wish, &reply.document, shown == 0);
    }
    return code;
}

/* Reads the value of --attempt (may be NULL: the newest one is wanted): a number or "all". */
static int read_attempt(struct cli *cli, const char *text, struct log_wish *out)
{
    out->all_attempts = text != NULL && strcmp(text, "all") == 0;
    bool is_number = text != NULL && options_number(text, UINT32_MAX, &out->attempt) == 0 && out->attempt > 0;
    return text == NULL || out->all_attempts || is_number
               ? CLI_DONE
               : cli_fail(cli, CLI_USAGE, "--attempt %.40s is no attempt; give a number, from 1 on, or all", text);
}

/* Reads --raw and --prefix. */
static int read_form(struct cli *cli, const struct arguments *arguments, struct log_wish *out)
{
    size_t bytes = 0;
    bool is_raw = options_has(arguments, "raw");
    out->prefix = options_value(arguments, "prefix");
    out->raw = is_raw || (out->one_rank && out->prefix == NULL && !cli->json);
    const char *unknown = out->prefix != NULL ? log_prefix_unknown(out->prefix, &bytes) : NULL;
    if (unknown != NULL) {
        return cli_fail(cli, CLI_USAGE, "--prefix knows no %.*s; it knows ${rank}, ${local_rank}, ${host}, ${attempt} and ${role_name}",
                        bytes < 40 ? (int)bytes : 40, unknown);
    }
    if ((is_raw || out->prefix != NULL) && (cli->json || (is_raw && out->prefix != NULL))) {
        return cli_fail(cli, CLI_USAGE, "--raw, --prefix and --json exclude each other; give one of them");
    }
    return CLI_DONE;
}

/* Reads --grep, --since and --tail. */
static int read_choice(struct cli *cli, const struct arguments *arguments, struct log_wish *out)
{
    const char *since = options_value(arguments, "since"), *tail = options_value(arguments, "tail");
    out->pattern = options_value(arguments, "grep");
    if (out->pattern != NULL && strlen(out->pattern) > PATTERN_BYTES_MAX) {
        return cli_fail(cli, CLI_USAGE, "the pattern of --grep has %zu bytes; at most %d are allowed", strlen(out->pattern), PATTERN_BYTES_MAX);
    }
    if (since != NULL && options_since(since, (uint64_t)time(NULL), &out->since_ms) != 0) {
        return cli_fail(cli, CLI_USAGE, "--since %.40s is no time; allowed are 90s, 15m, 24h, 7d, or a local time such as "
                                        "'2026-11-25 16:00'", since);
    }
    if (tail != NULL && (options_number(tail, LOG_TAIL_MAX, &out->tail) != 0 || out->tail == 0)) {
        return cli_fail(cli, CLI_USAGE, "--tail %.40s is no number of lines; allowed are 1 to %d", tail, LOG_TAIL_MAX);
    }
    return CLI_DONE;
}

static void pack_choice(struct pack_writer *request, const struct log_wish *wish)
{
    if (wish->pattern != NULL) {
        pack_text(request, "pattern");
        pack_text(request, wish->pattern);
    }
    if (wish->since_ms > 0) {
        pack_text(request, "since_ms");
        pack_u64(request, wish->since_ms);
    }
    if (wish->tail > 0) {
        pack_text(request, "tail");
        pack_u64(request, wish->tail);
    }
}

int command_logs(struct cli *cli, const struct arguments *arguments)
{
    struct target target;
    struct client client;
    uint64_t rank = 0;
    const char *rank_text = options_value(arguments, "rank");
    struct log_wish wish = {.follow = options_has(arguments, "follow"), .one_rank = rank_text != NULL};
    if (rank_text != NULL && options_number(rank_text, RANK_MAX, &rank) != 0) {
        return cli_fail(cli, CLI_USAGE, "--rank %.40s is no rank; allowed are 0 to %d", rank_text, RANK_MAX);
    }
    int code = read_attempt(cli, options_value(arguments, "attempt"), &wish);
    if (code == CLI_DONE) {
        code = read_form(cli, arguments, &wish);
    }
    if (code == CLI_DONE) {
        code = read_choice(cli, arguments, &wish);
    }
    if (code == CLI_DONE) {
        code = target_read_one(cli, arguments->operands[0], false, &target);
    }
    if (code == CLI_DONE) {
        uint32_t chosen = (wish.pattern != NULL ? 1u : 0u) + (wish.since_ms > 0 ? 1u : 0u) + (wish.tail > 0 ? 1u : 0u);
        code = target_begin(cli, "logs", &target, 2u + (rank_text != NULL) + (wish.attempt != 0) + chosen, &client);
    }
    if (code != CLI_DONE) {
        return code;
    }
    pack_text(&client.request, "follow");
    pack_bool(&client.request, wish.follow);
    pack_text(&client.request, "all_attempts");
    pack_bool(&client.request, wish.all_attempts);
    if (rank_text != NULL) {
        pack_text(&client.request, "rank");
        pack_u64(&client.request, rank);
    }
    if (wish.attempt != 0) {
        pack_text(&client.request, "attempt");
        pack_u64(&client.request, wish.attempt);
    }
    pack_choice(&client.request, &wish);
    code = write_logs(&client, &wish);
    client_close(&client);
    return code;
}

int logs_follow(struct client *client, const char *experiment, uint64_t trial)
{
    const struct log_wish wish = {.follow = true};
    client_begin(client, "logs", 4);
    pack_text(&client->request, "experiment");
    pack_text(&client->request, experiment);
    pack_text(&client->request, "trial");
    pack_u64(&client->request, trial);
    pack_text(&client->request, "follow");
    pack_bool(&client->request, true);
    pack_text(&client->request, "all_attempts");
    pack_bool(&client->request, true);
    return write_logs(client, &wish);
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
    bool has_paths = false, has_parts = false;
    for (uint32_t i = 0; i < list.size; i++) {
        has_paths |= document_has(&list.ptr[i], "path");
        has_parts |= document_has(&list.ptr[i], "parts");
    }
    if (has_parts) {
        table_column(&table, "PARTS", false);
    }
    if (has_paths) {
        table_column(&table, "FILE", false);
    }
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
        if (has_parts && document_has(item, "part")) {
            table_cell(&table, RENDER_PLAIN, "%llu of %llu", (unsigned long long)document_number(item, "part"),
                       (unsigned long long)document_number(item, "parts"));
        } else if (has_parts && document_has(item, "parts")) {
            table_cell(&table, RENDER_PLAIN, "%llu", (unsigned long long)document_number(item, "parts"));
        } else if (has_parts) {
            table_cell(&table, RENDER_PLAIN, "-");
        }
        if (has_paths) {
            document_text(item, "path", text, sizeof text);
            table_cell(&table, RENDER_PLAIN, "%s%s", text[0] != '\0' ? "checkpoint/" : "-", text);
        }
    }
    table_write(&table, cli->out, cli->colours);
    if (has_paths) {
        (void)fputs("shoal output get EXP/TRIAL checkpoint DIR gets a checkpoint with a FILE.\n", cli->out);
    }
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

static int make_dir(struct cli *cli, const char *dir)
{
    return mkdir(dir, 0755) == 0 || errno == EEXIST
               ? CLI_DONE
               : cli_fail(cli, CLI_REFUSED, "the directory %s cannot be made: %s", dir, strerror(errno));
}

/* Writes the files of a checkpoint that is a snapshot, as run.save of the Python package makes them, into DIR. */
static int unpack_checkpoint(struct cli *cli, int from, uint64_t bytes, const char *dir)
{
    struct snapshot snapshot;
    char error[512];
    uint32_t count;
    int rc = snapshot_read(from, bytes, &snapshot);
    if (rc == ERR_MALFORMED || rc == ERR_VERSION) {
        return cli_fail(cli, CLI_REFUSED,
                        "the checkpoint cannot be unpacked, since run.save of the Python package has not written it; leave --unpack "
                        "out to get it as one file");
    }
    if (rc != 0) {
        return cli_fail(cli, CLI_REFUSED, "the checkpoint cannot be read: %s", err_text(rc));
    }
    int code = make_dir(cli, dir);
    if (code == CLI_DONE && snapshot_unpack(from, &snapshot, "", dir, &count, error, sizeof error) != 0) {
        code = cli_fail(cli, CLI_REFUSED, "%s", error);
    }
    snapshot_free(&snapshot);
    return code;
}

/* `part`: of a checkpoint of several parts, else 0. */
static int save_checkpoint(struct cli *cli, const struct reply *reply, uint32_t part, bool unpacks, const char *dir)
{
    uint64_t bytes = document_number(&reply->document, "bytes"), parts = document_number(&reply->document, "parts");
    if (reply->fd < 0) {
        return cli_fail(cli, CLI_REFUSED,
                        "the daemon's answer carries no checkpoint; are shoal and shoald of the same version?");
    }
    int code = unpacks ? unpack_checkpoint(cli, reply->fd, bytes, dir) : make_dir(cli, dir);
    if (code == CLI_DONE && !unpacks) {
        code = copy_checkpoint(cli, reply->fd, bytes, dir);
    }
    if (code == CLI_DONE) {
        code = write_metadata(cli, &reply->document, dir);
    }
    if (code == CLI_DONE && cli->json) {
        (void)document_write_reply_json(cli->out, &reply->document);
    } else if (code == CLI_DONE) {
        char size[RENDER_UNIT_BYTES];
        render_bytes(size, bytes);
        if (parts > 0) {
            (void)fprintf(cli->out, "part %u of %llu of the ", part, (unsigned long long)parts);
        }
        (void)fprintf(cli->out, "checkpoint of trial %llu at step %llu, %s, in %s\n",
                      (unsigned long long)document_number(&reply->document, "trial"),
                      (unsigned long long)document_number(&reply->document, "step"), size, dir);
    }
    return code;
}

/* What is known of a checkpoint after its first part. */
struct parts {
    uint32_t count; /* 0: the checkpoint is one blob */
    char set[80];   /* its name in the requests for further parts */
};

/* Gets the checkpoint into `dir`, or a part of it into `dir`/part-N. */
static int get_part(struct cli *cli, const struct target *target, uint32_t part, struct parts *parts, bool unpacks, const char *dir)
{
    struct client client;
    struct reply reply;
    char path[PATH_MAX];
    bool is_set_known = parts->set[0] != '\0';
    int code = target_begin(cli, "checkpoint_get", target, (target->has_step ? 2u : 1u) + is_set_known, &client);
    if (code != CLI_DONE) {
        return code;
    }
    if (target->has_step) {
        pack_text(&client.request, "step");
        pack_u64(&client.request, target->step);
    }
    pack_text(&client.request, "part"); /* older daemons, which have no parts, pass over it */
    pack_u64(&client.request, part);
    if (is_set_known) {
        pack_text(&client.request, "set");
        pack_text(&client.request, parts->set);
    }
    code = client_send(&client, -1);
    if (code == CLI_DONE) {
        code = client_next(&client, -1, true, &reply);
    }
    if (code == CLI_DONE) {
        uint64_t count = document_number(&reply.document, "parts");
        parts->count = count <= UINT16_MAX ? (uint32_t)count : 0;
        document_text(&reply.document, "set", parts->set, sizeof parts->set);
        int length = parts->count > 0 ? snprintf(path, sizeof path, "%s/part-%u", dir, part) : snprintf(path, sizeof path, "%s", dir);
        code = length < 0 || (size_t)length >= sizeof path ? cli_fail(cli, CLI_USAGE, "the path of the directory is too long")
               : parts->count > 0                          ? make_dir(cli, dir)
                                                           : CLI_DONE;
        code = code == CLI_DONE ? save_checkpoint(cli, &reply, part, unpacks, path) : code;
        if (reply.fd >= 0) {
            (void)close(reply.fd);
        }
    }
    client_close(&client);
    return code;
}

int target_get_checkpoint(struct cli *cli, const struct target *target, const char *name, bool unpacks, const char *dir)
{
    struct parts parts = {0};
    (void)snprintf(parts.set, sizeof parts.set, "%s", name);
    int code = get_part(cli, target, 0, &parts, unpacks, dir);
    for (uint32_t part = 1; part < parts.count && code == CLI_DONE; part++) {
        code = get_part(cli, target, part, &parts, unpacks, dir);
    }
    return code;
}

int command_checkpoint_get(struct cli *cli, const struct arguments *arguments)
{
    struct target target;
    int code = target_read_one(cli, arguments->operands[0], true, &target);
    return code == CLI_DONE ? target_get_checkpoint(cli, &target, "", options_has(arguments, "unpack"), arguments->operands[1]) : code;
}
