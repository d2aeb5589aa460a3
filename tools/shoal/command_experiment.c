/* ls, show, wait, cancel, pause, resume, delete. */

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/shoal/client.h"
#include "tools/shoal/document.h"
#include "tools/shoal/print.h"
#include "tools/shoal/print_program.h"
#include "tools/shoal/render.h"
#include "tools/shoal/tails.h"

#define WAIT_S_MAX (366ull * 86400)
#define WAIT_GRACE_MS 5000 /* the daemon keeps the time; the grace is for a daemon that hangs */

static int by_time(const void *left, const void *right)
{
    uint64_t a = document_number(left, "submitted_s"), b = document_number(right, "submitted_s");
    char a_id[CLIENT_EXPERIMENT_TEXT_BYTES], b_id[CLIENT_EXPERIMENT_TEXT_BYTES];
    document_text(left, "id", a_id, sizeof a_id);
    document_text(right, "id", b_id, sizeof b_id);
    return a != b ? (a > b) - (a < b) : strcmp(a_id, b_id);
}

static void render_list(struct cli *cli, const msgpack_object *document)
{
    struct table table = {0};
    table_column(&table, "ID", false);
    table_column(&table, "NAME", false);
    table_column(&table, "STATE", false);
    table_column(&table, "TRIALS", false);
    table_column(&table, "BEST", false);
    table_column(&table, "COORDINATOR", false);
    table_column(&table, "TERM", true);
    table_column(&table, "SUBMITTED", false);
    msgpack_object_array list = document_list(document, "experiments");
    if (list.size > 0) {
        qsort(list.ptr, list.size, sizeof *list.ptr, by_time); /* the newest last, where a terminal shows it */
    }
    for (uint32_t i = 0; i < list.size; i++) {
        const msgpack_object *item = &list.ptr[i];
        char text[PRINT_SUMMARY_BYTES];
        const msgpack_object *counts = document_find(item, "trials");
        print_cell_text(&table, item, "id");
        print_cell_text(&table, item, "name");
        document_text(item, "state", text, sizeof text);
        table_cell(&table, render_state_colour(text), "%s", text);
        print_counts(counts, text);
        table_cell(&table, RENDER_PLAIN, "%s", text);
        print_best(item, text);
        table_cell(&table, RENDER_PLAIN, "%s", text);
        print_coordinator(item, text);
        table_cell(&table, RENDER_PLAIN, "%s", text);
        print_cell_text(&table, item, "term");
        render_time(text, 1000 * document_number(item, "submitted_s"));
        table_cell(&table, RENDER_PLAIN, "%s", document_number(item, "submitted_s") == 0 ? "-" : text);
    }
    table_write(&table, cli->out, cli->colours);
}

int command_ls(struct cli *cli, const struct arguments *arguments)
{
    (void)arguments;
    return print_simple(cli, "ls", render_list);
}

/* Connects, finds the experiment of the first operand, and begins request `op` with the experiment's id. */
static int begin_about(struct cli *cli, const struct arguments *arguments, const char *op, struct client *client)
{
    char id[CLIENT_EXPERIMENT_TEXT_BYTES];
    int code = client_open(cli, client);
    if (code != CLI_DONE) {
        return code;
    }
    code = client_find_experiment(client, arguments->operands[0], id);
    if (code != CLI_DONE) {
        client_close(client);
        return code;
    }
    client_begin(client, op, 1);
    pack_text(&client->request, "experiment");
    pack_text(&client->request, id);
    return CLI_DONE;
}

static void show_sentence(void *context, const char *sentence)
{
    struct cli *cli = context;
    render_text(cli->out, cli->colours, RENDER_YELLOW, sentence);
    (void)fputc('\n', cli->out);
}

static void render_show(struct cli *cli, const msgpack_object *document)
{
    const msgpack_object *experiment = document_find(document, "experiment");
    print_experiment_head(cli->out, cli->colours, document);
    print_program(experiment, 1, show_sentence, cli);
    print_program_mixes(experiment, show_sentence, cli);
    print_trials(cli->out, cli->colours, experiment, 0);
    print_tails(cli->out, experiment);
}

int command_show(struct cli *cli, const struct arguments *arguments)
{
    struct client client;
    struct reply reply;
    int code = begin_about(cli, arguments, "show", &client);
    if (code != CLI_DONE) {
        return code;
    }
    code = client_ask(&client, CLIENT_ANSWER_MS, &reply);
    if (code == CLI_DONE) {
        struct tails tails = {0};
        tails_fetch(&client, document_find(&reply.document, "experiment"), &tails);
        if (!cli->json) {
            render_show(cli, &reply.document);
        } else if (!document_write_reply_json(cli->out, &reply.document)) {
            code = cli_fail(cli, CLI_REFUSED, "the daemon's answer cannot be written as JSON");
        }
        tails_free(&tails);
    }
    client_close(&client);
    return code;
}

static int wait_result(struct cli *cli, const char *name, const char *state)
{
    if (strcmp(state, "completed") == 0) {
        return CLI_DONE;
    }
    return cli_fail(cli, CLI_REFUSED, "the experiment %.80s is %s; shoal show %.80s tells more", name,
                    state[0] == '\0' ? "gone" : state, name);
}

static uint64_t clock_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* One request until the experiment is over; `until_ms` on the clock of clock_ms, 0: for ever. `state`: the last state heard. */
static int wait_once(struct client *client, const char *id, uint64_t until_ms, char state[32])
{
    struct cli *cli = client->cli;
    uint64_t now_ms = clock_ms(), left_s = until_ms <= now_ms ? 0 : (until_ms - now_ms + 999) / 1000;
    client_begin(client, "wait", until_ms != 0 ? 2 : 1);
    pack_text(&client->request, "experiment");
    pack_text(&client->request, id);
    if (until_ms != 0) {
        pack_text(&client->request, "timeout_s");
        pack_u64(&client->request, left_s);
    }
    int code = client_send(client, -1);
    struct reply reply = {.end = false};
    char counts_text[PRINT_SUMMARY_BYTES], best[PRINT_SUMMARY_BYTES];
    int patience_ms = until_ms == 0 || left_s > 1000000 ? -1 : (int)(left_s * 1000) + WAIT_GRACE_MS;
    while (code == CLI_DONE && !reply.end) {
        code = client_next(client, patience_ms, false, &reply);
        if (code == CLI_DONE) {
            document_text(&reply.document, "state", state, 32);
        }
        if (code == CLI_DONE && reply.end && cli->json) {
            (void)document_write_reply_json(cli->out, &reply.document);
        } else if (code == CLI_DONE && (reply.end || cli->err_is_terminal)) {
            const msgpack_object *counts = document_find(&reply.document, "trials");
            print_counts(counts, counts_text);
            print_best(&reply.document, best);
            (void)fprintf(reply.end ? cli->out : cli->err, "%s%s: trials %s; best %s%s",
                          cli->err_is_terminal ? "\r" : "", state, counts_text, best, reply.end ? "\n" : "  ");
            (void)fflush(cli->err);
        }
    }
    return code;
}

int command_wait(struct cli *cli, const struct arguments *arguments)
{
    uint64_t timeout_s = 0;
    const char *timeout = options_value(arguments, "timeout");
    if (timeout != NULL && options_duration(timeout, WAIT_S_MAX, &timeout_s) != 0) {
        return cli_fail(cli, CLI_USAGE, "--timeout %.40s is no time; allowed are 90, 90s, 15m, 24h, 7d", timeout);
    }
    struct client client;
    char id[CLIENT_EXPERIMENT_TEXT_BYTES], state[32] = "";
    uint64_t until_ms = timeout != NULL ? clock_ms() + timeout_s * 1000 : 0;
    int code = client_open(cli, &client);
    if (code != CLI_DONE) {
        return code;
    }
    code = client_find_experiment(&client, arguments->operands[0], id);
    client.patient = true;
    while (code == CLI_DONE) {
        code = wait_once(&client, id, until_ms, state);
        if (!client.lost) {
            break;
        }
        code = client_return(&client);
    }
    client_close(&client);
    return code != CLI_DONE ? code : wait_result(cli, arguments->operands[0], state);
}

static int control(struct cli *cli, const struct arguments *arguments, const char *op, const char *done)
{
    struct client client;
    struct reply reply;
    int code = begin_about(cli, arguments, op, &client);
    if (code != CLI_DONE) {
        return code;
    }
    code = client_ask(&client, CLIENT_ANSWER_MS, &reply);
    if (code == CLI_DONE && cli->json) {
        (void)document_write_reply_json(cli->out, &reply.document);
    } else if (code == CLI_DONE) {
        char id[32];
        unsigned long long stored_on = document_number(&reply.document, "stored_on");
        document_text(&reply.document, "experiment", id, sizeof id);
        (void)fprintf(cli->out, "%s %s, stored on %llu node%s\n", id, done, stored_on, stored_on == 1 ? "" : "s");
    }
    client_close(&client);
    return code;
}

int command_cancel(struct cli *cli, const struct arguments *arguments)
{
    return control(cli, arguments, "cancel", "cancelled");
}

int command_pause(struct cli *cli, const struct arguments *arguments)
{
    return control(cli, arguments, "pause", "paused");
}

int command_resume(struct cli *cli, const struct arguments *arguments)
{
    return control(cli, arguments, "resume", "resumed");
}

/* True if the user answers yes. */
static bool confirm(struct cli *cli, const char (*ids)[CLIENT_EXPERIMENT_TEXT_BYTES], size_t count)
{
    (void)fflush(cli->out);
    (void)fputs("Delete", cli->err);
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(cli->err, "%s %s", i == 0 ? "" : ",", ids[i]);
    }
    (void)fputs(" for ever, with trials, results and checkpoints? [y/N] ", cli->err);
    return cli_hears_yes(cli);
}

static int delete_one(struct client *client, const char *id)
{
    struct cli *cli = client->cli;
    struct reply reply;
    client_begin(client, "delete", 1);
    pack_text(&client->request, "experiment");
    pack_text(&client->request, id);
    int code = client_ask(client, CLIENT_ANSWER_MS, &reply);
    if (code == CLI_DONE && cli->json) {
        (void)document_write_reply_json(cli->out, &reply.document);
    } else if (code == CLI_DONE) {
        unsigned long long stored_on = document_number(&reply.document, "stored_on");
        (void)fprintf(cli->out, "%s %s, stored on %llu node%s\n", id,
                      document_true(&reply.document, "already") ? "had been deleted already" : "deleted", stored_on,
                      stored_on == 1 ? "" : "s");
    }
    return code;
}

/* Marks the ids that are in the daemon's list. An id outside the list was deleted before, or never existed: only the daemon
 * can tell. */
static int look_up(struct client *client, const char (*ids)[CLIENT_EXPERIMENT_TEXT_BYTES], size_t id_count, bool *listed)
{
    struct reply reply;
    client_begin(client, "ls", 0);
    int code = client_ask(client, CLIENT_ANSWER_MS, &reply);
    if (code != CLI_DONE) {
        return code;
    }
    msgpack_object_array list = document_list(&reply.document, "experiments");
    for (uint32_t i = 0; i < list.size; i++) {
        const msgpack_object *item = &list.ptr[i];
        char id[CLIENT_EXPERIMENT_TEXT_BYTES];
        document_text(item, "id", id, sizeof id);
        for (size_t k = 0; k < id_count; k++) {
            listed[k] |= strcmp(ids[k], id) == 0;
        }
    }
    return CLI_DONE;
}

/* Ids outside the daemon's list go first, so that an unknown id ends the command before anything is deleted. After that a
 * refusal of one id does not keep the rest from being deleted. */
static int delete_all(struct client *client, const char (*ids)[CLIENT_EXPERIMENT_TEXT_BYTES], size_t count)
{
    bool listed[OPERANDS_MAX] = {false};
    int code = count > 1 ? look_up(client, ids, count, listed) : CLI_DONE;
    for (size_t i = 0; code == CLI_DONE && i < count; i++) {
        code = listed[i] ? CLI_DONE : delete_one(client, ids[i]);
    }
    int worst = code;
    for (size_t i = 0; code == CLI_DONE && i < count; i++) {
        int result = listed[i] ? delete_one(client, ids[i]) : CLI_DONE;
        worst = result > worst ? result : worst;
        code = result == CLI_NO_DAEMON || result == CLI_TIMED_OUT ? result : CLI_DONE;
    }
    return worst;
}

int command_delete(struct cli *cli, const struct arguments *arguments)
{
    struct client client;
    char ids[OPERANDS_MAX][CLIENT_EXPERIMENT_TEXT_BYTES];
    int code = client_open(cli, &client);
    if (code != CLI_DONE) {
        return code;
    }
    for (size_t i = 0; code == CLI_DONE && i < arguments->operand_count; i++) {
        code = client_find_experiment(&client, arguments->operands[i], ids[i]);
    }
    if (code == CLI_DONE && cli->in_is_terminal && !options_has(arguments, "yes") &&
        !confirm(cli, (const char(*)[CLIENT_EXPERIMENT_TEXT_BYTES])ids, arguments->operand_count)) {
        code = cli_fail(cli, CLI_REFUSED, "nothing was deleted");
    }
    if (code == CLI_DONE) {
        code = delete_all(&client, (const char(*)[CLIENT_EXPERIMENT_TEXT_BYTES])ids, arguments->operand_count);
    }
    client_close(&client);
    return code;
}
