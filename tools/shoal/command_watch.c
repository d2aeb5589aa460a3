/* watch: follows an experiment. On a terminal a screen is redrawn in place; elsewhere each change is one line. */

#include <stdlib.h>
#include <string.h>

#include "base/document.h"
#include "tools/shoal/print.h"
#include "tools/shoal/watch.h"
#include "tools/shoal/watching.h"

#define TAILS_SHOWN 5

static int watch_begin(struct client *client, const char *id)
{
    client_begin(client, "watch", 2);
    pack_text(&client->request, "experiment");
    pack_text(&client->request, id);
    pack_text(&client->request, "curves");
    pack_bool(&client->request, true);
    return client_send(client, -1);
}

static bool look(void *screen)
{
    return watch_screen_look(screen);
}

/* Takes one document in the form that is wanted. */
static void take(struct client *client, struct watch_screen *screen, struct watch_lines *lines, const struct reply *reply)
{
    struct cli *cli = client->cli;
    if (cli->json) {
        (void)document_write_reply_json(cli->out, &reply->document);
    } else if (screen != NULL) {
        watch_screen_take(screen, client, &reply->document);
    } else {
        watch_lines_take(lines, &reply->document, reply->end);
    }
}

/* Receives documents until the experiment is over; `state` as in watch_experiment. */
static int follow(struct client *client, const char *id, struct watch_screen *screen, struct watch_lines *lines, char *state, struct reply *reply)
{
    int code = watch_begin(client, id);
    while ((code == CLI_DONE || client->lost) && !reply->end) {
        if (client->lost) { /* `lines` remembers what was written, so only news follows */
            code = client_return(client);
            code = code == CLI_DONE ? watch_begin(client, id) : code;
            continue;
        }
        code = client_next(client, -1, false, reply);
        if (code == CLI_DONE && document_has(document_find(&reply->document, "experiment"), "state")) { /* else an end without a document */
            document_text(document_find(&reply->document, "experiment"), "state", state, 32);
            take(client, screen, lines, reply);
        }
    }
    return code;
}

int watch_experiment(struct client *client, const char *id, char *state)
{
    struct cli *cli = client->cli;
    bool is_screen = cli->out_is_terminal && !cli->json, has_keys = cli->in_is_terminal && client->goes_on == NULL;
    struct watch_screen *screen = is_screen ? watch_screen_new(cli, id, has_keys) : NULL;
    struct watch_lines *lines = is_screen ? NULL : watch_lines_new(cli);
    struct reply reply = {.end = false};
    state[0] = '\0';
    if (screen == NULL && lines == NULL) {
        return cli_fail(cli, CLI_REFUSED, "no memory is left");
    }
    if (screen != NULL && client->goes_on == NULL) {
        client->goes_on = look;
        client->context = screen;
    }
    client->patient = true;
    int code = follow(client, id, screen, lines, state, &reply);
    bool is_left = screen != NULL && code == CLI_REFUSED && watch_screen_is_left(screen);
    client->patient = false;
    if (screen != NULL && client->context == screen) {
        client->goes_on = NULL;
        client->context = NULL;
    }
    msgpack_object last = screen != NULL ? watch_screen_document(screen) : reply.document;
    watch_screen_close(screen);
    if (code == CLI_DONE && reply.end && !cli->json) {
        print_no_best(cli->out, document_find(&last, "experiment"));
        print_tails(cli->out, document_find(&last, "experiment"), TAILS_SHOWN);
    }
    if (code == CLI_DONE && reply.end) {
        code = print_halted(cli, document_find(&last, "experiment"));
    }
    watch_screen_free(screen);
    watch_lines_free(lines);
    return is_left ? CLI_DONE : code;
}

int command_watch(struct cli *cli, const struct arguments *arguments)
{
    struct client client;
    char id[CLIENT_EXPERIMENT_TEXT_BYTES], state[32];
    int code = client_open(cli, &client);
    if (code != CLI_DONE) {
        return code;
    }
    code = client_find_experiment(&client, arguments->operands[0], id);
    if (code == CLI_DONE) {
        code = watch_experiment(&client, id, state);
    }
    client_close(&client);
    return code;
}
