/* run: a program without a configuration file. Submits the directory, shows the output, and ends with the program's status. */

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/document.h"
#include "tools/shoal/client.h"
#include "tools/shoal/logs.h"
#include "tools/shoal/run_config.h"
#include "tools/shoal/submission.h"
#include "tools/shoal/submit_context.h"
#include "tools/shoal/warm_start.h"
#include "tools/shoal/watch.h"

#define SIGNAL_CODE 128 /* as shells: the status of a program that was killed by signal N is 128 + N */

struct run {
    struct cli *cli;
    const char *id;
    bool is_left; /* the user does not wait any longer */
    int code;     /* is_left: the exit code */
    bool is_cancelled;
};

/* ---- signals --------------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupts; /* Ctrl-C since the last answer */
static volatile sig_atomic_t is_ended;   /* by SIGTERM */

static void note_signal(int number)
{
    if (number == SIGTERM) {
        is_ended = 1;
    } else {
        interrupts = interrupts + 1;
    }
}

/* Without SA_RESTART, so that a second Ctrl-C ends the question. */
static void heed_signals(bool heeds)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    if (heeds) {
        action.sa_handler = note_signal;
    }
    interrupts = 0;
    is_ended = 0;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

static int cancel(struct run *run)
{
    struct client client;
    struct reply reply;
    int code = client_open(run->cli, &client);
    if (code != CLI_DONE) {
        return code;
    }
    client_begin(&client, "cancel", 1);
    pack_text(&client.request, "experiment");
    pack_text(&client.request, run->id);
    code = client_ask(&client, CLIENT_ANSWER_MS, &reply);
    client_close(&client);
    return code;
}

/* Asks what to do: 'c', 'l', '\n', or another letter for an answer that is none of these. '\0': no answer came. */
static char answer_of(struct cli *cli)
{
    char line[64] = "";
    (void)fputs("\nCancel the run (c), leave it running (l), or go on here (Enter)? ", cli->err);
    (void)fflush(cli->err);
    if (is_ended != 0 || fgets(line, sizeof line, cli->in) == NULL) {
        (void)fputc('\n', cli->err);
        clearerr(cli->in);
        return '\0';
    }
    return line[0] >= 'A' && line[0] <= 'Z' ? (char)(line[0] - 'A' + 'a') : line[0];
}

/* The answer to the question, which is asked again once. An answer that is not understood twice lets things be as they are. */
static char hear_answer(struct cli *cli)
{
    char answer = answer_of(cli);
    if (answer != '\0' && strchr("cl\n", answer) == NULL) {
        answer = answer_of(cli);
    }
    return answer;
}

/* Asked while replies are waited for. */
static bool goes_on(void *context)
{
    struct run *run = context;
    struct cli *cli = run->cli;
    if (interrupts == 0 && is_ended == 0) {
        return true;
    }
    (void)fflush(cli->out);
    /* Nothing is lost without an answer: the run goes on. */
    char answer = cli->in_is_terminal && is_ended == 0 && interrupts == 1 ? hear_answer(cli) : '\0';
    if (answer == 'c') {
        run->is_cancelled |= cancel(run) == CLI_DONE;
    }
    if (answer != 'l' && answer != '\0') {
        interrupts = 0;
        return true; /* of a cancelled run what the workers still write is shown */
    }
    run->is_left = true;
    run->code = answer == 'l' ? CLI_DONE : SIGNAL_CODE + (is_ended != 0 ? SIGTERM : SIGINT);
    cli_warn(cli, "the run goes on without this terminal; shoal logs %s/0 --follow shows its output, shoal cancel %s ends it", run->id,
             run->id);
    return false;
}

/* ---- one trial ------------------------------------------------------------------------------------------------------- */

static int begin(struct client *client, const char *op, const char *id)
{
    client_begin(client, op, 1);
    pack_text(&client->request, "experiment");
    pack_text(&client->request, id);
    return client_send(client, -1);
}

static const msgpack_object *first_trial(const struct reply *reply)
{
    static const msgpack_object none = {.type = MSGPACK_OBJECT_NIL};
    msgpack_object_array trials = document_list(document_find(&reply->document, "experiment"), "trials");
    return trials.size > 0 ? &trials.ptr[0] : &none;
}

/* Tells once for each reason why the trial has not begun. */
static void tell_waiting(struct cli *cli, const struct reply *reply, char told[256])
{
    msgpack_object_array waiting = document_list(document_find(&reply->document, "experiment"), "waiting");
    char reason[256] = "";
    if (waiting.size > 0) {
        document_text(&waiting.ptr[0], "reason", reason, sizeof reason);
    }
    if (reason[0] != '\0' && strcmp(reason, told) != 0) {
        (void)snprintf(told, 256, "%s", reason);
        cli_warn(cli, "waiting: %s", reason);
    }
}

static int connect_anew(struct run *run, struct client *client)
{
    int code = client_open(run->cli, client);
    client->goes_on = goes_on;
    client->context = run;
    return code;
}

/* Waits until the trial has an attempt, and with that a log; `*has_begun` is false if it was over before. On a connection of its
 * own, since a stream ends with its connection. */
static int await_attempt(struct run *run, bool *has_begun)
{
    struct client client;
    char told[256] = "";
    struct reply reply = {.end = false};
    int code = connect_anew(run, &client);
    *has_begun = false;
    if (code != CLI_DONE) {
        return code;
    }
    code = begin(&client, "watch", run->id);
    while (code == CLI_DONE && !reply.end && !*has_begun) {
        code = client_next(&client, -1, false, &reply);
        if (code == CLI_DONE) {
            *has_begun = document_has(first_trial(&reply), "attempt");
            tell_waiting(run->cli, &reply, told);
        }
    }
    client_close(&client);
    return code;
}

/* The exit code of a trial that is over. */
static int code_of(struct run *run, const struct reply *reply)
{
    struct cli *cli = run->cli;
    const msgpack_object *trial = first_trial(reply), *status = document_find(trial, "exit_code");
    char state[32], reason[1024];
    document_text(trial, "state", state, sizeof state);
    document_text(trial, "reason", reason, sizeof reason);
    if (strcmp(state, "completed") == 0) {
        return CLI_DONE;
    }
    if (run->is_cancelled) {
        return cli_fail(cli, SIGNAL_CODE + SIGINT, "the run is cancelled");
    }
    int code = CLI_REFUSED;
    if (status->type == MSGPACK_OBJECT_POSITIVE_INTEGER && status->via.u64 > 0 && status->via.u64 < 256) {
        code = (int)status->via.u64;
    } else if (status->type == MSGPACK_OBJECT_NEGATIVE_INTEGER && status->via.i64 > -SIGNAL_CODE) {
        code = SIGNAL_CODE - (int)status->via.i64;
    }
    return cli_fail(cli, code, "the run is %s%s%s; shoal show %s tells more", state, reason[0] != '\0' ? ": " : "", reason, run->id);
}

static int follow_one(struct run *run)
{
    bool has_begun;
    struct client client;
    struct reply reply;
    int code = await_attempt(run, &has_begun);
    if (code == CLI_DONE) {
        code = connect_anew(run, &client);
    }
    if (code != CLI_DONE) {
        return code;
    }
    if (has_begun) {
        code = logs_follow(&client, run->id, 0);
    }
    if (code == CLI_DONE) {
        code = begin(&client, "show", run->id);
    }
    if (code == CLI_DONE) {
        code = client_next(&client, CLIENT_ANSWER_MS, false, &reply);
    }
    code = code == CLI_DONE ? code_of(run, &reply) : code;
    client_close(&client);
    return code;
}

/* ---- several trials -------------------------------------------------------------------------------------------------- */

/* A line for each change, no screen: a question may come between. */
static int follow_all(struct run *run)
{
    struct client client;
    char state[32];
    run->cli->out_is_terminal = false;
    int code = connect_anew(run, &client);
    if (code != CLI_DONE) {
        return code;
    }
    code = watch_experiment(&client, run->id, state);
    client_close(&client);
    if (code == CLI_DONE && strcmp(state, "completed") != 0) {
        code = run->is_cancelled ? SIGNAL_CODE + SIGINT : CLI_REFUSED;
        code = cli_fail(run->cli, code, "the run is %s; shoal show %s tells more", state, run->id);
    } else if (code == CLI_DONE) {
        cli_warn(run->cli, "the run is completed; shoal show %s has its trials, the best one with a *", run->id);
    }
    return code;
}

/* ---- the command ----------------------------------------------------------------------------------------------------- */

static int deliver(struct cli *cli, const struct submission *submission, bool is_search)
{
    struct client client;
    struct run run = {.cli = cli, .id = submission->id};
    int code = submission_deliver(cli, submission, cli->json ? cli->out : cli->err, &client);
    if (code != CLI_DONE) {
        return code;
    }
    client_close(&client);
    heed_signals(true);
    code = is_search ? follow_all(&run) : follow_one(&run);
    heed_signals(false);
    return run.is_left ? run.code : code;
}

int command_run(struct cli *cli, const struct arguments *arguments)
{
    struct submission submission;
    struct run_config config;
    const char *context = options_value(arguments, "context");
    int code = run_config_write(cli, arguments, &config);
    if (code != CLI_DONE) {
        return code;
    }
    code = submission_begin(cli, &submission);
    submission.file = "shoal run";
    submission.text = config.text;
    submission.text_bytes = config.bytes;
    submission.override_count = options_values(arguments, "set", submission.overrides, SUBMISSION_OVERRIDES_MAX + 1);
    if (code == CLI_DONE && !options_has(arguments, "print")) {
        code = warm_start_resolve(cli, &submission);
    }
    if (code == CLI_DONE) {
        code = submission_check(cli, &submission);
    }
    if (code == CLI_DONE && options_has(arguments, "print")) {
        (void)fwrite(config.text, 1, config.bytes, cli->out);
    } else if (code == CLI_DONE) {
        code = context != NULL ? CLI_DONE : submit_context_check_unnamed(cli, ".", "--context DIR");
        code = code == CLI_DONE ? submission_pack(cli, context != NULL ? context : ".", &submission) : code;
        if (code == CLI_DONE && config.has_drawn_seed) {
            cli_warn(cli, "the seed is %llu; with --seed %llu the same values are drawn again", (unsigned long long)config.seed,
                     (unsigned long long)config.seed);
        }
        code = code == CLI_DONE ? deliver(cli, &submission, config.is_search) : code;
    }
    submission_free(&submission);
    return code;
}
