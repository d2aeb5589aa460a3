/* submit: hands the configuration file and the packed code directory to the daemon, for storing and copying. preview: tells what
 * trials such a file gives, without a daemon. */

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/document.h"
#include "base/err.h"
#include "base/id.h"
#include "node/config/advice.h"
#include "node/config/config_yaml.h"
#include "node/core/facts/config.h"
#include "tools/shoal/client.h"
#include "tools/shoal/extends.h"
#include "tools/shoal/print.h"
#include "tools/shoal/print_program.h"
#include "tools/shoal/render.h"
#include "tools/shoal/submission.h"
#include "tools/shoal/submit_context.h"
#include "tools/shoal/warm_start.h"
#include "tools/shoal/watch.h"

#define BLOCKED_MAX 4 /* warnings about ports; shoal status has all */
#define TRIES 5

/* ---- --help-config ----------------------------------------------------------------------------------------------- */

static void help_row(void *context, const struct config_option_text *text)
{
    FILE *out = context;
    (void)fprintf(out, "%s  (%s; %s; default: %s)\n    %s\n", text->key, text->type, text->allowed, text->standard,
                  text->help);
}

static int help_config(struct cli *cli)
{
    (void)fputs("Keys of the configuration file (YAML); a.b means b inside of the map a. Anchors (&), aliases (*) and merge keys (<<)\n"
                "work; keys that begin with x- are ignored, so that anchors can stand there. extends: FILE takes what this file lacks from another\n"
                "one, maps at the top key by key.\n\n", cli->out);
    config_describe(help_row, cli->out);
    return CLI_DONE;
}

/* ---- the submission ---------------------------------------------------------------------------------------------- */

static int read_file(struct cli *cli, struct submission *submission)
{
    bool from_input = strcmp(submission->file, "-") == 0;
    FILE *file = from_input ? stdin : fopen(submission->file, "re");
    if (file == NULL) {
        return cli_fail(cli, CLI_REFUSED, "the configuration file %s cannot be read: %s", submission->file,
                        strerror(errno));
    }
    submission->text = malloc(CONFIG_TEXT_BYTES_MAX + 1);
    int reason = submission->text == NULL ? ENOMEM : 0;
    errno = 0;
    if (reason == 0) {
        submission->text_bytes = fread(submission->text, 1, CONFIG_TEXT_BYTES_MAX + 1, file);
        reason = ferror(file) ? (errno != 0 ? errno : EIO) : 0;
    }
    if (!from_input) {
        (void)fclose(file);
    }
    if (reason != 0) {
        return cli_fail(cli, CLI_REFUSED, "the configuration file %s cannot be read: %s", submission->file,
                        strerror(reason));
    }
    if (submission->text_bytes > CONFIG_TEXT_BYTES_MAX) {
        return cli_fail(cli, CLI_REFUSED, "the configuration file %s is larger than %u KiB; is it the right file?",
                        submission->file, CONFIG_TEXT_BYTES_MAX / 1024);
    }
    return CLI_DONE;
}

static void warn(void *context, const char *sentence)
{
    cli_warn(context, "%s", sentence);
}

/* A configuration that has been read, and the bytes that it borrows from. */
struct parsed {
    struct config config;
    uint8_t scratch[CONFIG_SCRATCH_BYTES];
};

/* The caller frees *out. */
static int parse(struct cli *cli, const struct submission *submission, struct parsed **out)
{
    *out = NULL;
    if (submission->override_count > SUBMISSION_OVERRIDES_MAX) {
        return cli_fail(cli, CLI_USAGE, "there are more than %d --set; write the values into a configuration file", SUBMISSION_OVERRIDES_MAX);
    }
    struct parsed *parsed = malloc(sizeof *parsed);
    char error[CONFIG_ERROR_BYTES] = "no memory is left";
    int result = ERR_MEMORY;
    if (parsed != NULL) {
        result = config_parse_yaml(submission->file, submission->text, submission->text_bytes, submission->overrides,
                                   submission->override_count, parsed->scratch, sizeof parsed->scratch, &parsed->config, error);
    }
    *out = parsed;
    return result == 0 ? CLI_DONE : cli_fail(cli, CLI_REFUSED, "%s", error);
}

/* Adds an override that the submission keeps, from malloc. */
static int keep_override(struct cli *cli, struct submission *submission, size_t place, char *text)
{
    submission->waits[place] = text;
    if (text == NULL) {
        return cli_fail(cli, CLI_REFUSED, "no memory is left");
    }
    if (submission->override_count >= SUBMISSION_OVERRIDES_MAX) {
        return cli_fail(cli, CLI_USAGE, "there are more than %d --set; write the values into a configuration file", SUBMISSION_OVERRIDES_MAX);
    }
    submission->overrides[submission->override_count++] = text;
    return CLI_DONE;
}

/* Writes a text as YAML has it in single quotes: a quote inside is doubled. */
static void write_quoted(FILE *out, const char *text)
{
    (void)fputc('\'', out);
    for (; *text != '\0'; text++) {
        (void)fprintf(out, *text == '\'' ? "''" : "%c", *text);
    }
    (void)fputc('\'', out);
}

/* --after and --start-after, as overrides. */
static int take_waits(struct cli *cli, const struct arguments *arguments, struct submission *submission)
{
    const char *after[CONFIG_DEPENDS_MAX + 1], *start = options_value(arguments, "start-after");
    size_t count = options_values(arguments, "after", after, CONFIG_DEPENDS_MAX + 1), bytes;
    for (size_t place = 0; place < 2; place++) {
        char *text = NULL;
        FILE *out = (place == 0 ? count > 0 : start != NULL) ? open_memstream(&text, &bytes) : NULL;
        if (out == NULL) {
            continue;
        }
        (void)fputs(place == 0 ? "depends_on=[" : "start_after=", out);
        for (size_t i = 0; i < (place == 0 ? count : 1); i++) {
            (void)fputs(i > 0 ? ", " : "", out);
            write_quoted(out, place == 0 ? after[i] : start);
        }
        (void)fputs(place == 0 ? "]" : "", out);
        int code = keep_override(cli, submission, place, fclose(out) == 0 ? text : NULL);
        if (code != CLI_DONE) {
            return code;
        }
    }
    return CLI_DONE;
}

/* The daemon, and a later fork, may run in another time zone, and at another time. */
static int fix_start(struct cli *cli, const struct config *config, struct submission *submission)
{
    char start[CONFIG_START_BYTES], text[CONFIG_START_BYTES + 16];
    struct config fixed = *config;
    uint64_t now_s = (uint64_t)time(NULL);
    if (config->start_in_s > 0) {
        (void)config_start_write(fixed.start_after, now_s + config->start_in_s);
    }
    uint64_t at_s = config_start_after(&fixed);
    if (at_s == 0 || !config_start_write(start, at_s)) {
        return CLI_DONE;
    }
    if (at_s < now_s) {
        cli_warn(cli, "start_after is %s, which is over: the experiment need not wait for it", start);
    }
    (void)snprintf(text, sizeof text, "start_after='%s'", start);
    bool is_last = submission->override_count > 0 && strcmp(submission->overrides[submission->override_count - 1], text) == 0;
    return is_last ? CLI_DONE : keep_override(cli, submission, 2, strdup(text));
}

/* The daemon checks again. */
int submission_check(struct cli *cli, struct submission *submission)
{
    struct parsed *parsed;
    int code = parse(cli, submission, &parsed);
    if (code == CLI_DONE) {
        const struct config *config = &parsed->config;
        (void)bytes_copy_text(submission->name, sizeof submission->name, config->name);
        (void)bytes_copy_text(submission->requirements, sizeof submission->requirements, config->requirements);
        preview_line(config, submission->trials);
        submission->entrypoint = strdup(config_entrypoint(config));
        code = submission->entrypoint != NULL ? CLI_DONE : cli_fail(cli, CLI_REFUSED, "no memory is left");
        submission->links = config->context_links;
        submission->slots_per_trial = config->max_slots;
        advice_give_file(submission->file, submission->text, submission->text_bytes, submission->overrides,
                         submission->override_count, warn, cli);
        advice_give(config, warn, cli);
        code = code == CLI_DONE ? fix_start(cli, config, submission) : code;
    }
    free(parsed);
    return code;
}

/* The code directory: --context, else the part of `file` before the last '/', else the current directory. */
static int context_of(struct cli *cli, const struct arguments *arguments, const char *file, char out[PATH_MAX])
{
    const char *given = options_value(arguments, "context");
    const char *slash = strrchr(file, '/');
    int length;
    if (given != NULL) {
        length = snprintf(out, PATH_MAX, "%s", given);
    } else if (strcmp(file, "-") == 0) {
        return cli_fail(cli, CLI_USAGE, "a configuration from standard input needs --context DIR: where the code is");
    } else if (slash == NULL) {
        length = snprintf(out, PATH_MAX, ".");
    } else {
        length = snprintf(out, PATH_MAX, "%.*s", slash == file ? 1 : (int)(slash - file), file);
    }
    if (length <= 0 || length >= PATH_MAX) {
        return cli_fail(cli, CLI_USAGE, "the path of the code directory is empty or too long");
    }
    return given != NULL ? CLI_DONE : submit_context_check_unnamed(cli, out, "--context DIR");
}

int submission_take_origin(struct cli *cli, struct submission *submission)
{
    struct origin *origin = &submission->origin;
    submission->text_bytes = origin_read(submission->text, submission->text_bytes, origin);
    if (origin->override_count > 0 && origin->override_count + submission->override_count > SUBMISSION_OVERRIDES_MAX) {
        return cli_fail(cli, CLI_USAGE, "there are more than %d --set, with those that the file brings with it; write the values into it",
                        SUBMISSION_OVERRIDES_MAX);
    }
    memmove(submission->overrides + origin->override_count, submission->overrides, submission->override_count * sizeof submission->overrides[0]);
    for (size_t i = 0; i < origin->override_count; i++) {
        submission->overrides[i] = origin->overrides[i];
    }
    submission->override_count += origin->override_count;
    origin->from[0] = '\0'; /* the file may have been changed since */
    return CLI_DONE;
}

/* The configuration goes behind the archive: it may be longer than a request. */
int submission_append_text(struct cli *cli, struct submission *submission)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    bool failed = out == NULL;
    if (out != NULL) {
        (void)bytes_copy_text(submission->origin.version, sizeof submission->origin.version, SHOAL_VERSION);
        (void)fwrite(submission->text, 1, submission->text_bytes, out);
        if (submission->text_bytes > 0 && submission->text[submission->text_bytes - 1] != '\n') {
            (void)fputc('\n', out);
        }
        origin_write(out, &submission->origin, submission->overrides, submission->override_count);
        failed = ferror(out) != 0;
        failed |= fclose(out) != 0;
    }
    if (!failed && bytes <= CONFIG_TEXT_BYTES_MAX) { /* a file that has no room for the lines goes without them */
        free(submission->text);
        submission->text = text;
        submission->text_bytes = bytes;
    } else {
        free(text);
    }
    if (pwrite(submission->archive_fd, submission->text, submission->text_bytes, (off_t)submission->archive_bytes) !=
        (ssize_t)submission->text_bytes) {
        return cli_fail(cli, CLI_REFUSED, "no memory is left for the code: %s", strerror(errno));
    }
    return CLI_DONE;
}

int submission_pack(struct cli *cli, const char *dir, struct submission *submission)
{
    struct context_list *list;
    int code = submit_context_list(cli, dir, submission->links, false, &list);
    if (code == CLI_DONE) {
        submit_context_warn(cli, list, submission->entrypoint);
        submission->code_bytes = list->total_bytes;
        code = submit_context_check_requirements(cli, list, submission->requirements);
        code = code == CLI_DONE ? submit_context_pack(cli, list, &submission->archive_fd, &submission->archive_bytes) : code;
        context_list_free(&list);
    }
    if (code == CLI_DONE) {
        origin_ask_git(dir, &submission->origin);
        code = submission_append_text(cli, submission);
    }
    return code;
}

static int dry_run(struct cli *cli, const char *dir, const struct submission *submission)
{
    struct context_list *list;
    int code = submit_context_list(cli, dir, submission->links, true, &list);
    if (code == CLI_DONE) {
        if (!cli->json && submission->trials[0] != '\0') {
            (void)fprintf(cli->out, "%s; shoal preview tells more\n", submission->trials);
        }
        code = submit_context_show(cli, list);
        code = code == CLI_DONE ? submit_context_check_requirements(cli, list, submission->requirements) : code;
        context_list_free(&list);
    }
    return code;
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

static void show_progress(struct cli *cli, const msgpack_object *document)
{
    const msgpack_object *progress = document_find(document, "progress");
    uint64_t done = document_number(progress, "done_bytes"), all = document_number(progress, "bytes");
    if (cli->err_is_terminal && all > 0) {
        char done_text[RENDER_UNIT_BYTES], all_text[RENDER_UNIT_BYTES];
        render_bytes(done_text, done);
        render_bytes(all_text, all);
        (void)fprintf(cli->err, "\rstoring %s of %s\033[K", done_text, all_text);
        (void)fflush(cli->err);
    }
}

static int send_submission(struct client *client, const struct submission *submission, struct reply *reply)
{
    struct cli *cli = client->cli;
    client_begin(client, "submit", 5);
    pack_text(&client->request, "experiment");
    pack_text(&client->request, submission->id);
    pack_text(&client->request, "file");
    pack_text(&client->request, submission->file);
    pack_text(&client->request, "config_bytes");
    pack_u64(&client->request, submission->text_bytes);
    pack_text(&client->request, "overrides");
    pack_array(&client->request, (uint32_t)submission->override_count);
    for (size_t i = 0; i < submission->override_count; i++) {
        pack_text(&client->request, submission->overrides[i]);
    }
    pack_text(&client->request, "bytes");
    pack_u64(&client->request, submission->archive_bytes);
    int code = client_send(client, submission->archive_fd);
    reply->end = false;
    while (code == CLI_DONE && !reply->end) {
        code = client_next(client, CLIENT_ANSWER_MS, false, reply);
        if (code == CLI_DONE && !reply->end) {
            show_progress(cli, &reply->document);
        }
    }
    if (cli->err_is_terminal) {
        (void)fputs("\r\033[K", cli->err);
    }
    return code;
}

static void report(struct cli *cli, const struct submission *submission, const msgpack_object *document, FILE *out)
{
    unsigned long long stored_on = document_number(document, "stored_on"),
                       alive = document_number(document, "nodes_alive");
    char size[RENDER_UNIT_BYTES], lacks[PRINT_SUMMARY_BYTES];
    if (print_lacks(document, lacks)) {
        cli_warn(cli, "%s; " PRINT_LACKS_ADVICE, lacks);
    }
    msgpack_object_array blocked = document_list(document, "blocked");
    for (uint32_t i = 0; i < blocked.size && i < BLOCKED_MAX; i++) {
        char text[512];
        document_text(&blocked.ptr[i], "text", text, sizeof text);
        cli_warn(cli, "%s", text);
    }
    print_program(document, submission->slots_per_trial, warn, cli);
    print_untold_webhooks(cli, document);
    if (cli->json) {
        (void)document_write_reply_json(cli->out, document);
        return;
    }
    render_bytes(size, submission->code_bytes);
    (void)fprintf(out, "submitted %s (%s%s%s of code), stored on %llu node%s: %s\n", submission->name, submission->trials,
                  submission->trials[0] != '\0' ? "; " : "", size, stored_on, stored_on == 1 ? "" : "s", submission->id);
    if (stored_on < 2) {
        cli_warn(cli, "so far it is on this node only%s; if this disk is lost now, so is the experiment",
                 alive < 2 ? ", for no other is alive" : "");
    }
}

static int follow(struct client *client, const struct submission *submission)
{
    char state[32];
    int code = watch_experiment(client, submission->id, state);
    bool is_over = strcmp(state, "completed") == 0 || strcmp(state, "cancelled") == 0 || strcmp(state, "failed") == 0;
    if (code == CLI_DONE && is_over && strcmp(state, "completed") != 0) { /* else the user has left, and the experiment goes on */
        code =
            cli_fail(client->cli, CLI_REFUSED, "the experiment is %s; shoal show %s tells more", state, submission->id);
    }
    if (!client->cli->json) {
        (void)fprintf(client->cli->out, "%s: %s\n", state, submission->id);
    }
    return code;
}

int submission_deliver(struct cli *cli, const struct submission *submission, FILE *out, struct client *client)
{
    struct reply reply;
    int code = client_open(cli, client);
    if (code != CLI_DONE) {
        return code;
    }
    code = send_submission(client, submission, &reply);
    /* The daemon ended meanwhile (an upgrade, perhaps): a repeated submit with the same id gets the first one's answer. */
    for (unsigned i = 1; i < TRIES && code == CLI_NO_DAEMON; i++) {
        client_close(client);
        cli_warn(cli, "trying again in %u s", i);
        (void)sleep(i);
        code = client_open(cli, client);
        if (code == CLI_DONE) {
            code = send_submission(client, submission, &reply);
        }
    }
    if (code == CLI_DONE) {
        report(cli, submission, &reply.document, out);
        (void)fflush(out);
    } else {
        client_close(client);
    }
    return code;
}

int submission_begin(struct cli *cli, struct submission *out)
{
    uint8_t id[EXPERIMENT_ID_BYTES];
    *out = (struct submission){.archive_fd = -1};
    if (sodium_init() < 0) {
        return cli_fail(cli, CLI_REFUSED, "libsodium does not start");
    }
    randombytes_buf(id, sizeof id);
    bytes_to_hex(out->id, id, sizeof id);
    return CLI_DONE;
}

void submission_free(struct submission *submission)
{
    if (submission->archive_fd >= 0) {
        (void)close(submission->archive_fd);
    }
    free(submission->text);
    free(submission->entrypoint);
    origin_free(&submission->origin);
    free(submission->resolved[0]);
    free(submission->resolved[1]);
    for (size_t i = 0; i < sizeof submission->waits / sizeof submission->waits[0]; i++) {
        free(submission->waits[i]);
    }
}

int command_preview(struct cli *cli, const struct arguments *arguments)
{
    struct submission submission;
    struct parsed *parsed = NULL;
    int code = submission_begin(cli, &submission);
    submission.file = arguments->operands[0];
    submission.override_count = options_values(arguments, "set", submission.overrides, SUBMISSION_OVERRIDES_MAX + 1);
    code = code == CLI_DONE ? read_file(cli, &submission) : code;
    code = code == CLI_DONE ? submission_take_origin(cli, &submission) : code;
    code = code == CLI_DONE ? extends_resolve(cli, submission.file, &submission.text, &submission.text_bytes) : code;
    code = code == CLI_DONE ? warm_start_resolve(cli, &submission) : code;
    if (code == CLI_NO_DAEMON) {
        cli_warn(cli, "the daemon is needed for searcher.warm_start; --set searcher.warm_start=[] shows the trials without it");
    }
    code = code == CLI_DONE ? parse(cli, &submission, &parsed) : code;
    code = code == CLI_DONE ? preview_show(cli, &parsed->config) : code;
    free(parsed);
    submission_free(&submission);
    return code;
}

int command_submit(struct cli *cli, const struct arguments *arguments)
{
    if (options_has(arguments, "help-config")) {
        return help_config(cli);
    }
    if (arguments->operand_count == 0) {
        return cli_fail(cli, CLI_USAGE,
                        "which configuration file? shoal submit FILE; shoal submit --help-config tells what is in one");
    }
    struct submission submission;
    char context[PATH_MAX];
    int code = submission_begin(cli, &submission);
    submission.file = arguments->operands[0];
    submission.override_count = options_values(arguments, "set", submission.overrides, SUBMISSION_OVERRIDES_MAX + 1);
    if (code == CLI_DONE) {
        code = context_of(cli, arguments, submission.file, context);
    }
    if (code == CLI_DONE) {
        code = read_file(cli, &submission);
    }
    if (code == CLI_DONE) {
        code = submission_take_origin(cli, &submission);
    }
    if (code == CLI_DONE) {
        code = take_waits(cli, arguments, &submission);
    }
    if (code == CLI_DONE) {
        code = extends_resolve(cli, submission.file, &submission.text, &submission.text_bytes);
    }
    if (code == CLI_DONE) {
        code = warm_start_resolve(cli, &submission);
    }
    if (code == CLI_DONE) {
        code = submission_check(cli, &submission);
    }
    bool is_dry = options_has(arguments, "dry-run");
    if (code == CLI_DONE) {
        code = is_dry ? dry_run(cli, context, &submission) : submission_pack(cli, context, &submission);
    }
    if (code == CLI_DONE && !is_dry) {
        struct client client;
        code = submission_deliver(cli, &submission, cli->out, &client);
        if (code == CLI_DONE && options_has(arguments, "follow")) {
            code = follow(&client, &submission);
        }
        client_close(&client);
    }
    submission_free(&submission);
    return code;
}
