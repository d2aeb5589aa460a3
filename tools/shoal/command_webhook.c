/* webhook: addresses that are told of the mesh's events (docs/design.md 16). */

#include <string.h>

#include "base/document.h"
#include "tools/shoal/client.h"
#include "tools/shoal/print.h"

#define EVENTS_MAX 16

static void render_change(struct cli *cli, const msgpack_object *document, const char *what)
{
    char id[32];
    unsigned long long stored_on = document_number(document, "stored_on");
    document_text(document, "webhook", id, sizeof id);
    (void)fprintf(cli->out, "%s %s, stored on %llu node%s\n", id, what, stored_on, stored_on == 1 ? "" : "s");
}

static void render_added(struct cli *cli, const msgpack_object *document)
{
    render_change(cli, document, "added");
    print_untold_webhooks(cli, document);
}

static void render_removed(struct cli *cli, const msgpack_object *document)
{
    render_change(cli, document, "removed");
}

static void render_tested(struct cli *cli, const msgpack_object *document)
{
    render_change(cli, document, "gets a test within seconds; shoal webhook ls shows what became of it");
}

static void pack_pair(struct client *client, const char *key, const char *value)
{
    pack_text(&client->request, key);
    pack_text(&client->request, value);
}

int command_webhook_add(struct cli *cli, const struct arguments *arguments)
{
    const char *on[EVENTS_MAX] = {NULL}, *pattern = options_value(arguments, "log-match"),
               *secret = options_value(arguments, "secret");
    size_t count = options_values(arguments, "on", on, EVENTS_MAX);
    bool is_slack = options_has(arguments, "slack");
    struct client client;
    if (count == 0 && pattern == NULL) {
        return cli_fail(cli, CLI_USAGE,
                        "a webhook needs --on EVENT (completed, failed, best, node_lost) or --log-match PATTERN");
    }
    int code = client_open(cli, &client);
    if (code != CLI_DONE) {
        return code;
    }
    client_begin(&client, "webhook_add", 2u + (pattern != NULL) + (secret != NULL) + is_slack);
    pack_pair(&client, "url", arguments->operands[0]);
    pack_text(&client.request, "on");
    pack_array(&client.request, (uint32_t)(count < EVENTS_MAX ? count : EVENTS_MAX));
    for (size_t i = 0; i < count && i < EVENTS_MAX; i++) {
        pack_text(&client.request, on[i]);
    }
    if (pattern != NULL) {
        pack_pair(&client, "log_match", pattern);
    }
    if (secret != NULL) {
        pack_pair(&client, "secret", secret);
    }
    if (is_slack) {
        pack_pair(&client, "form", "slack");
    }
    code = print_reply(&client, render_added);
    client_close(&client);
    return code;
}

static int change(struct cli *cli, const char *op, const char *key, const char *value, print_fn *render)
{
    struct client client;
    int code = client_open(cli, &client);
    if (code == CLI_DONE) {
        client_begin(&client, op, 1);
        pack_pair(&client, key, value);
        code = print_reply(&client, render);
        client_close(&client);
    }
    return code;
}

int command_webhook_allow(struct cli *cli, const struct arguments *arguments)
{
    return change(cli, "webhook_allow", "host", arguments->operands[0], render_added);
}

int command_webhook_rm(struct cli *cli, const struct arguments *arguments)
{
    return change(cli, "webhook_rm", "webhook", arguments->operands[0], render_removed);
}

int command_webhook_test(struct cli *cli, const struct arguments *arguments)
{
    return change(cli, "webhook_test", "webhook", arguments->operands[0], render_tested);
}

/* "completed failed log_match:Traceback" */
static void events_text(const msgpack_object *item, char *out, size_t size)
{
    msgpack_object_array on = document_list(item, "on");
    char pattern[300];
    size_t used = 0;
    document_text(item, "log_match", pattern, sizeof pattern);
    out[0] = '\0';
    for (uint32_t i = 0; i < on.size && on.ptr[i].type == MSGPACK_OBJECT_STR && used + 40 < size; i++) {
        used += (size_t)snprintf(out + used, size - used, "%s%.*s", i > 0 ? " " : "", (int)on.ptr[i].via.str.size,
                                 on.ptr[i].via.str.ptr);
    }
    if (pattern[0] != '\0') {
        (void)snprintf(out + used, size - used, ":%.80s", pattern);
    }
}

static void render_webhooks(struct cli *cli, const msgpack_object *document)
{
    struct table table = {0};
    msgpack_object_array list = document_list(document, "webhooks"), hosts = document_list(document, "hosts");
    table_column(&table, "ID", false);
    table_column(&table, "URL", false);
    table_column(&table, "ON", false);
    table_column(&table, "STATE", false);
    table_column(&table, "TOLD", true);
    table_column(&table, "WAITING", true);
    table_column(&table, "LAST", false);
    for (uint32_t i = 0; i < list.size; i++) {
        const msgpack_object *item = &list.ptr[i];
        char text[400], state[32], when[RENDER_UNIT_BYTES] = "-";
        uint64_t last_s = document_number(item, "last_s");
        print_cell_text(&table, item, "id");
        print_cell_text(&table, item, "url");
        events_text(item, text, sizeof text);
        table_cell(&table, RENDER_PLAIN, "%s", text);
        document_text(item, "state", state, sizeof state);
        table_cell(&table, render_state_colour(state), "%s", state);
        print_cell_text(&table, item, "told");
        print_cell_text(&table, item, "waiting");
        if (last_s > 0) {
            render_time(when, 1000 * last_s);
        }
        document_text(item, "last_text", text, sizeof text);
        table_cell(&table, RENDER_PLAIN, "%s%s%.80s", when, text[0] != '\0' ? ": " : "", text);
    }
    table_write(&table, cli->out, cli->colours);
    for (uint32_t i = 0; i < hosts.size; i++) {
        char id[32], host[256];
        document_text(&hosts.ptr[i], "id", id, sizeof id);
        document_text(&hosts.ptr[i], "host", host, sizeof host);
        (void)fprintf(cli->out, "%s allowed: %s\n", id, host);
    }
}

int command_webhook_ls(struct cli *cli, const struct arguments *arguments)
{
    (void)arguments;
    return print_simple(cli, "webhooks", render_webhooks);
}
