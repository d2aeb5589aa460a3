/* wait, stop, retry, cancel, pause, resume, delete. */

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/document.h"
#include "base/units.h"
#include "tools/shoal/client.h"
#include "tools/shoal/print.h"
#include "tools/shoal/render.h"
#include "tools/shoal/target.h"

#define WAIT_S_MAX (366ull * 86400)
#define WAIT_GRACE_MS 5000 /* the daemon keeps the time; the grace is for a daemon that hangs */

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

/* Says why a search has no best trial. */
static void tell_no_best(struct client *client, const char *id)
{
    struct reply reply;
    client_begin(client, "show", 1);
    pack_text(&client->request, "experiment");
    pack_text(&client->request, id);
    if (client_ask(client, CLIENT_ANSWER_MS, &reply) == CLI_DONE) {
        print_no_best(client->cli->out, document_find(&reply.document, "experiment"));
    }
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

/* One request until the experiment is over; `until_ms` on the clock of clock_ms, 0: for ever. `state`: the last state heard.
 * `*lacks_best`: it is over, and none of its several trials is the best. */
static int wait_once(struct client *client, const char *id, uint64_t until_ms, char state[32], bool *lacks_best)
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
    if (code == CLI_DONE) {
        code = print_halted(cli, &reply.document);
    }
    bool is_search = code == CLI_DONE && document_number(document_find(&reply.document, "trials"), "total") > 1;
    *lacks_best = is_search && !document_has(&reply.document, "best");
    return code;
}

int command_wait(struct cli *cli, const struct arguments *arguments)
{
    uint64_t timeout_s = 0;
    const char *timeout = options_value(arguments, "timeout");
    if (timeout != NULL && units_read_time(timeout, WAIT_S_MAX, &timeout_s) != 0) {
        return cli_fail(cli, CLI_USAGE, "--timeout %.40s is no time; allowed are 90, 90s, 15m, 24h, 7d", timeout);
    }
    struct client client;
    char id[CLIENT_EXPERIMENT_TEXT_BYTES], state[32] = "";
    bool lacks_best = false;
    uint64_t until_ms = timeout != NULL ? clock_ms() + timeout_s * 1000 : 0;
    int code = client_open(cli, &client);
    if (code != CLI_DONE) {
        return code;
    }
    code = client_find_experiment(&client, arguments->operands[0], id);
    client.patient = true;
    while (code == CLI_DONE) {
        code = wait_once(&client, id, until_ms, state, &lacks_best);
        if (!client.lost) {
            break;
        }
        code = client_return(&client);
    }
    client.patient = false;
    if (lacks_best && !cli->json) {
        tell_no_best(&client, id);
    }
    client_close(&client);
    return code != CLI_DONE ? code : wait_result(cli, arguments->operands[0], state);
}

/* What was done, as users read it ("cancelled"). */
struct done {
    const char *text;
    const char *already; /* if the request changed nothing; NULL: as `text` */
    const char *paused;  /* if the experiment is paused; NULL: as `text` */
};

/* Asks, says what was done about the experiment, after the words `before`, and on how many nodes that is stored; then closes the
 * client. */
static int ask_and_tell(struct client *client, const char *before, const char *experiment, const struct done *done)
{
    struct cli *cli = client->cli;
    struct reply reply;
    int code = client_ask(client, CLIENT_ANSWER_MS, &reply);
    if (code == CLI_DONE && cli->json) {
        (void)document_write_reply_json(cli->out, &reply.document);
    } else if (code == CLI_DONE) {
        char id[32], state[16], named[PRINT_NAMED_BYTES];
        unsigned long long stored_on = document_number(&reply.document, "stored_on");
        document_text(&reply.document, "experiment", id, sizeof id);
        document_text(&reply.document, "state", state, sizeof state);
        print_named(named, experiment, id);
        const char *text = done->paused != NULL && strcmp(state, "paused") == 0 ? done->paused : done->text;
        text = done->already != NULL && document_true(&reply.document, "already") ? done->already : text;
        (void)fprintf(cli->out, "%s%s %s, stored on %llu node%s\n", before, named, text, stored_on, stored_on == 1 ? "" : "s");
    }
    client_close(client);
    return code;
}

static int control(struct cli *cli, const struct arguments *arguments, const char *op, const char *text)
{
    struct client client;
    const struct done done = {.text = text};
    int code = begin_about(cli, arguments, op, &client);
    return code == CLI_DONE ? ask_and_tell(&client, "", arguments->operands[0], &done) : code;
}

static int control_trial(struct cli *cli, const struct arguments *arguments, const char *op, const struct done *done)
{
    struct target target;
    struct client client;
    char before[48];
    int code = target_read(cli, arguments->operands[0], true, false, &target);
    code = code == CLI_DONE ? target_begin(cli, op, &target, 0, &client) : code;
    if (code != CLI_DONE) {
        return code;
    }
    (void)snprintf(before, sizeof before, "trial %llu of ", (unsigned long long)target.trial);
    return ask_and_tell(&client, before, target.experiment, done);
}

int command_stop(struct cli *cli, const struct arguments *arguments)
{
    static const struct done done = {.text = "is to stop"};
    return control_trial(cli, arguments, "stop", &done);
}

int command_retry(struct cli *cli, const struct arguments *arguments)
{
    static const struct done done = {.text = "is to run again",
                                     .already = "is to run again already",
                                     .paused = "is to run again once its experiment is resumed"};
    return control_trial(cli, arguments, "retry", &done);
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

/* An experiment to be deleted. */
struct doomed {
    char id[CLIENT_EXPERIMENT_TEXT_BYTES], named[PRINT_NAMED_BYTES];
};

/* True if the user answers yes. */
static bool confirm(struct cli *cli, const struct doomed *doomed, size_t count)
{
    (void)fflush(cli->out);
    (void)fputs("Delete", cli->err);
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(cli->err, "%s %s", i == 0 ? "" : ",", doomed[i].named);
    }
    (void)fputs(" for ever, with trials, results and checkpoints? [y/N] ", cli->err);
    return cli_hears_yes(cli);
}

static int delete_one(struct client *client, const struct doomed *doomed)
{
    struct cli *cli = client->cli;
    struct reply reply;
    client_begin(client, "delete", 1);
    pack_text(&client->request, "experiment");
    pack_text(&client->request, doomed->id);
    int code = client_ask(client, CLIENT_ANSWER_MS, &reply);
    if (code == CLI_DONE && cli->json) {
        (void)document_write_reply_json(cli->out, &reply.document);
    } else if (code == CLI_DONE) {
        unsigned long long stored_on = document_number(&reply.document, "stored_on");
        (void)fprintf(cli->out, "%s %s, stored on %llu node%s\n", doomed->named,
                      document_true(&reply.document, "already") ? "had been deleted already" : "deleted", stored_on,
                      stored_on == 1 ? "" : "s");
    }
    return code;
}

/* Marks the ids that are in the daemon's list. An id outside the list was deleted before, or never existed: only the daemon
 * can tell. */
static int look_up(struct client *client, const struct doomed *doomed, size_t count, bool *listed)
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
        for (size_t k = 0; k < count; k++) {
            listed[k] |= strcmp(doomed[k].id, id) == 0;
        }
    }
    return CLI_DONE;
}

/* Ids outside the daemon's list go first, so that an unknown id ends the command before anything is deleted. After that a
 * refusal of one id does not keep the rest from being deleted. */
static int delete_all(struct client *client, const struct doomed *doomed, size_t count)
{
    bool listed[OPERANDS_MAX] = {false};
    int code = count > 1 ? look_up(client, doomed, count, listed) : CLI_DONE;
    for (size_t i = 0; code == CLI_DONE && i < count; i++) {
        code = listed[i] ? CLI_DONE : delete_one(client, &doomed[i]);
    }
    int worst = code;
    for (size_t i = 0; code == CLI_DONE && i < count; i++) {
        int result = listed[i] ? delete_one(client, &doomed[i]) : CLI_DONE;
        worst = result > worst ? result : worst;
        code = result == CLI_NO_DAEMON || result == CLI_TIMED_OUT ? result : CLI_DONE;
    }
    return worst;
}

int command_delete(struct cli *cli, const struct arguments *arguments)
{
    struct client client;
    struct doomed doomed[OPERANDS_MAX];
    int code = client_open(cli, &client);
    if (code != CLI_DONE) {
        return code;
    }
    for (size_t i = 0; code == CLI_DONE && i < arguments->operand_count; i++) {
        code = client_find_experiment(&client, arguments->operands[i], doomed[i].id);
        if (code == CLI_DONE) {
            print_named(doomed[i].named, arguments->operands[i], doomed[i].id);
        }
    }
    if (code == CLI_DONE && cli->in_is_terminal && !options_has(arguments, "yes") &&
        !confirm(cli, doomed, arguments->operand_count)) {
        code = cli_fail(cli, CLI_REFUSED, "nothing was deleted");
    }
    if (code == CLI_DONE) {
        code = delete_all(&client, doomed, arguments->operand_count);
    }
    client_close(&client);
    return code;
}
