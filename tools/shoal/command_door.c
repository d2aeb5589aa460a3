/* open, token and session: the HTTP door of the node (docs/http.md). */

#include <stdlib.h>
#include <string.h>

#include "base/document.h"
#include "base/units.h"
#include "tools/shoal/browser.h"
#include "tools/shoal/client.h"
#include "tools/shoal/print.h"
#include "tools/shoal/target.h"

#define URL_BYTES 512
#define EXPIRES_S_MAX (3653ull * 86400)
#define EXPIRES_S_DEFAULT (90ull * 86400)

/* ---- open ------------------------------------------------------------------------------------------------------ */

/* The page that a browser is sent to: "" or "#/experiments/ID/trials/N". */
static int page_of(struct client *client, const char *operand, char out[128])
{
    struct target target;
    char id[CLIENT_EXPERIMENT_TEXT_BYTES];
    out[0] = '\0';
    if (operand == NULL) {
        return CLI_DONE;
    }
    int code = target_read(client->cli, operand, false, false, &target);
    code = code == CLI_DONE ? client_find_experiment(client, target.experiment, id) : code;
    if (code == CLI_DONE && target.has_trial) {
        (void)snprintf(out, 128, "#/experiments/%s/trials/%llu", id, (unsigned long long)target.trial);
    } else if (code == CLI_DONE) {
        (void)snprintf(out, 128, "#/experiments/%s", id);
    }
    return code;
}

int command_open(struct cli *cli, const struct arguments *arguments)
{
    struct client client;
    struct reply reply;
    char page[128], address[128], code_text[64], url[URL_BYTES];
    int code = client_open(cli, &client);
    if (code != CLI_DONE) {
        return code;
    }
    code = page_of(&client, arguments->operand_count > 0 ? arguments->operands[0] : NULL, page);
    if (code == CLI_DONE) {
        client_begin(&client, "login_code", 1);
        pack_text(&client.request, "read_only");
        pack_bool(&client.request, options_has(arguments, "read-only"));
        code = client_ask(&client, CLIENT_ANSWER_MS, &reply);
    }
    if (code == CLI_DONE) {
        document_text(&reply.document, "address", address, sizeof address);
        document_text(&reply.document, "code", code_text, sizeof code_text);
        (void)snprintf(url, sizeof url, "%s/login?code=%s%s", address, code_text, page);
        bool is_shown = !options_has(arguments, "print") && !cli->json && browser_show(cli->dir, url);
        if (cli->json) {
            (void)fprintf(cli->out, "{\"url\":\"%s\",\"expires_s\":%llu}\n", url,
                          (unsigned long long)document_number(&reply.document, "expires_s"));
        } else {
            (void)fprintf(cli->out, "%s\n", url);
        }
        if (!cli->json && cli->err_is_terminal) {
            (void)fprintf(cli->err, "%sgood for one browser, for %llu s\n",
                          is_shown ? "a browser opens it; the link is " : "",
                          (unsigned long long)document_number(&reply.document, "expires_s"));
        }
    }
    client_close(&client);
    return code;
}

/* ---- token ----------------------------------------------------------------------------------------------------- */

static void render_token(struct cli *cli, const msgpack_object *document)
{
    char text[128], id[32], when[RENDER_UNIT_BYTES];
    document_text(document, "token", text, sizeof text);
    document_text(document, "token_id", id, sizeof id);
    (void)fprintf(cli->out, "%s\n", text);
    if (cli->err_is_terminal) {
        render_time(when, 1000 * document_number(document, "expires_s"));
        (void)fprintf(cli->err, "good until %s on every node, its id is %s; it is not shown again\n", when, id);
    }
}

int command_token_create(struct cli *cli, const struct arguments *arguments)
{
    uint64_t expires_s = EXPIRES_S_DEFAULT;
    const char *expires = options_value(arguments, "expires"), *name = options_value(arguments, "name");
    struct client client;
    if (expires != NULL && (units_read_time(expires, EXPIRES_S_MAX, &expires_s) != 0 || expires_s == 0)) {
        return cli_fail(cli, CLI_USAGE, "--expires %.40s is no time; allowed are 15m, 24h, 90d, up to 3653d", expires);
    }
    if (name == NULL || name[0] == '\0') {
        return cli_fail(cli, CLI_USAGE,
                        "a token needs --name NAME, what it is for, so that it can be told from others later");
    }
    int code = client_open(cli, &client);
    if (code == CLI_DONE) {
        client_begin(&client, "token_create", 3);
        pack_text(&client.request, "name");
        pack_text(&client.request, name);
        pack_text(&client.request, "expires_s");
        pack_u64(&client.request, expires_s);
        pack_text(&client.request, "read_only");
        pack_bool(&client.request, options_has(arguments, "read-only"));
        code = print_reply(&client, render_token);
        client_close(&client);
    }
    return code;
}

static void render_tokens(struct cli *cli, const msgpack_object *document)
{
    struct table table = {0};
    table_column(&table, "ID", false);
    table_column(&table, "NAME", false);
    table_column(&table, "RIGHTS", false);
    table_column(&table, "STATE", false);
    table_column(&table, "EXPIRES", false);
    table_column(&table, "BY", false);
    msgpack_object_array list = document_list(document, "tokens");
    for (uint32_t i = 0; i < list.size; i++) {
        const msgpack_object *item = &list.ptr[i];
        char state[32], writer[128], when[RENDER_UNIT_BYTES];
        print_cell_text(&table, item, "id");
        print_cell_text(&table, item, "name");
        table_cell(&table, RENDER_PLAIN, "%s", document_true(item, "read_only") ? "read" : "all");
        document_text(item, "state", state, sizeof state);
        table_cell(&table, render_state_colour(state), "%s", state);
        render_time(when, 1000 * document_number(item, "expires_s"));
        table_cell(&table, RENDER_PLAIN, "%s", when);
        document_text(item, "writer_label", writer, sizeof writer);
        table_cell(&table, RENDER_PLAIN, "%s", writer[0] == '\0' ? "-" : writer);
    }
    table_write(&table, cli->out, cli->colours);
}

int command_token_ls(struct cli *cli, const struct arguments *arguments)
{
    (void)arguments;
    return print_simple(cli, "tokens", render_tokens);
}

static void render_revoked(struct cli *cli, const msgpack_object *document)
{
    char id[32];
    unsigned long long stored_on = document_number(document, "stored_on");
    document_text(document, "token_id", id, sizeof id);
    (void)fprintf(cli->out, "%s revoked, stored on %llu node%s\n", id, stored_on, stored_on == 1 ? "" : "s");
}

int command_token_revoke(struct cli *cli, const struct arguments *arguments)
{
    struct client client;
    int code = client_open(cli, &client);
    if (code == CLI_DONE) {
        client_begin(&client, "token_revoke", 1);
        pack_text(&client.request, "token");
        pack_text(&client.request, arguments->operands[0]);
        code = print_reply(&client, render_revoked);
        client_close(&client);
    }
    return code;
}

/* ---- session --------------------------------------------------------------------------------------------------- */

static void render_sessions(struct cli *cli, const msgpack_object *document)
{
    struct table table = {0};
    table_column(&table, "ID", false);
    table_column(&table, "RIGHTS", false);
    table_column(&table, "BEGAN", false);
    table_column(&table, "EXPIRES", false);
    msgpack_object_array list = document_list(document, "sessions");
    for (uint32_t i = 0; i < list.size; i++) {
        const msgpack_object *item = &list.ptr[i];
        char began[RENDER_UNIT_BYTES], ends[RENDER_UNIT_BYTES];
        print_cell_text(&table, item, "id");
        table_cell(&table, RENDER_PLAIN, "%s", document_true(item, "read_only") ? "read" : "all");
        render_time(began, 1000 * document_number(item, "created_s"));
        render_time(ends, 1000 * document_number(item, "expires_s"));
        table_cell(&table, RENDER_PLAIN, "%s", began);
        table_cell(&table, RENDER_PLAIN, "%s", ends);
    }
    table_write(&table, cli->out, cli->colours);
}

int command_session_ls(struct cli *cli, const struct arguments *arguments)
{
    (void)arguments;
    return print_simple(cli, "sessions", render_sessions);
}

static void render_ended(struct cli *cli, const msgpack_object *document)
{
    unsigned long long ended = document_number(document, "ended");
    (void)fprintf(cli->out, "%llu session%s ended\n", ended, ended == 1 ? "" : "s");
}

int command_session_revoke(struct cli *cli, const struct arguments *arguments)
{
    struct client client;
    bool all = options_has(arguments, "all");
    if (all != (arguments->operand_count == 0)) {
        return cli_fail(cli, CLI_USAGE, "session revoke wants the id of a session, which shoal session ls shows, or --all");
    }
    int code = client_open(cli, &client);
    if (code == CLI_DONE) {
        client_begin(&client, "session_revoke", 1);
        pack_text(&client.request, all ? "all" : "session");
        if (all) {
            pack_bool(&client.request, true);
        } else {
            pack_text(&client.request, arguments->operands[0]);
        }
        code = print_reply(&client, render_ended);
        client_close(&client);
    }
    return code;
}
