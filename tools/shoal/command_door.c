/* open, token and session: the HTTP door of the node (docs/http.md). */

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/document.h"
#include "base/units.h"
#include "tools/shoal/browser.h"
#include "tools/shoal/client.h"
#include "tools/shoal/door.h"
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

/* A link to the page at the door of this node, or of another one. */
struct link {
    bool is_elsewhere;
    struct door door; /* is_elsewhere */
    char page[128], address[sizeof((struct door *)0)->address + 16], url[URL_BYTES];
    uint64_t expires_s;
};

/* Finds the door of another node, and makes sure that it has the certificate of which the mesh knows. */
static int find_elsewhere(struct client *client, const char *node, struct link *link)
{
    char pem[DOOR_PEM_BYTES];
    link->is_elsewhere = true;
    int code = door_find(client, node, &link->door);
    code = code == CLI_DONE ? door_fetch(client->cli, &link->door, pem) : code;
    (void)snprintf(link->address, sizeof link->address, "https://%s", link->door.address);
    return code;
}

static int ask_for_code(struct client *client, bool read_only, struct link *link)
{
    struct reply reply;
    char text[64];
    client_begin(client, link->is_elsewhere ? "node_login_code" : "login_code", link->is_elsewhere ? 2 : 1);
    if (link->is_elsewhere) {
        pack_text(&client->request, "node");
        pack_text(&client->request, link->door.id);
    }
    pack_text(&client->request, "read_only");
    pack_bool(&client->request, read_only);
    int code = client_ask(client, CLIENT_ANSWER_MS, &reply);
    if (code == CLI_DONE && !link->is_elsewhere) {
        document_text(&reply.document, "address", link->address, sizeof link->address);
    }
    if (code == CLI_DONE) {
        document_text(&reply.document, "code", text, sizeof text);
        link->expires_s = document_number(&reply.document, "expires_s");
        (void)snprintf(link->url, sizeof link->url, "%s/login?code=%s%s", link->address, text, link->page);
    }
    return code;
}

/* The hash as browsers show it: pairs of capital digits. */
static void write_fingerprint(FILE *out, const char *hex)
{
    for (size_t i = 0; hex[i] != '\0'; i++) {
        (void)fprintf(out, "%s%c", i > 0 && i % 2 == 0 ? ":" : "", toupper((unsigned char)hex[i]));
    }
}

static void tell_link(struct cli *cli, const struct link *link, bool is_shown)
{
    if (cli->json) {
        (void)fprintf(cli->out, "{\"url\":\"%s\",\"expires_s\":%llu", link->url, (unsigned long long)link->expires_s);
        if (link->is_elsewhere) {
            (void)fprintf(cli->out, ",\"node\":\"%s\",\"certificate\":\"%s\"", link->door.id, link->door.fingerprint);
        }
        (void)fputs("}\n", cli->out);
        return;
    }
    (void)fprintf(cli->out, "%s\n", link->url);
    if (cli->err_is_terminal) {
        (void)fprintf(cli->err, "%sgood for one browser, for %llu s\n",
                      is_shown ? "a browser opens it; the link is " : "", (unsigned long long)link->expires_s);
    }
    if (link->is_elsewhere) {
        (void)fputs("no authority signed the certificate, so a browser warns of it; go on if the SHA-256 that it shows is\n", cli->err);
        write_fingerprint(cli->err, link->door.fingerprint);
        (void)fputc('\n', cli->err);
    }
}

int command_open(struct cli *cli, const struct arguments *arguments)
{
    struct client client;
    struct link link = {0};
    const char *node = options_value(arguments, "node");
    int code = client_open(cli, &client);
    if (code != CLI_DONE) {
        return code;
    }
    code = page_of(&client, arguments->operand_count > 0 ? arguments->operands[0] : NULL, link.page);
    code = code == CLI_DONE && node != NULL ? find_elsewhere(&client, node, &link) : code;
    code = code == CLI_DONE ? ask_for_code(&client, options_has(arguments, "read-only"), &link) : code;
    if (code == CLI_DONE) {
        tell_link(cli, &link, !options_has(arguments, "print") && !cli->json && browser_show(cli->dir, link.url));
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
