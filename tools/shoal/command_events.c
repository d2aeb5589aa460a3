/* events: what happened on a node. */

#include <time.h>

#include "base/document.h"
#include "base/event.h"
#include "tools/shoal/client.h"
#include "tools/shoal/render.h"

static void write_event(struct cli *cli, const msgpack_object *item)
{
    char when[RENDER_UNIT_BYTES], text[512];
    if (cli->json) {
        (void)document_write_json(cli->out, item);
        return;
    }
    render_time(when, document_number(item, "wall_ms"));
    document_text(item, "text", text, sizeof text);
    (void)fprintf(cli->out, "%5llu  ", (unsigned long long)document_number(item, "seq"));
    render_text(cli->out, cli->colours, RENDER_DIM, when);
    (void)fprintf(cli->out, "  %s\n", text);
}

/* What `events` asks for. */
struct events_wish {
    uint64_t from, since_ms;
    const char *since, *kind, *node, *experiment;
    bool follow;
    bool chooses; /* one of the options is given that earlier daemons do not know */
};

static int read_wish(struct cli *cli, const struct arguments *arguments, struct events_wish *out)
{
    const char *from = options_value(arguments, "from");
    *out = (struct events_wish){.since = options_value(arguments, "since"),
                                .kind = options_value(arguments, "kind"),
                                .node = options_value(arguments, "node"),
                                .experiment = options_value(arguments, "experiment"),
                                .follow = options_has(arguments, "follow")};
    out->chooses = out->kind != NULL || out->node != NULL || out->experiment != NULL;
    if (from != NULL && options_number(from, UINT64_MAX, &out->from) != 0) {
        return cli_fail(cli, CLI_USAGE, "--from %.40s is no number of an event", from);
    }
    if (out->since != NULL && options_since(out->since, (uint64_t)time(NULL), &out->since_ms) != 0) {
        return cli_fail(cli, CLI_USAGE,
                        "--since %.40s is no time; allowed are 90s, 15m, 24h, 7d, or a local time such as "
                        "'2026-11-25 16:00'",
                        out->since);
    }
    if (out->kind != NULL && !event_kind_is_known(out->kind)) {
        return cli_fail(cli, CLI_USAGE,
                        "--kind %.40s is no kind of events; such are trial, trial.failed, node.dead, slot, "
                        "experiment",
                        out->kind);
    }
    return CLI_DONE;
}

static void pack_pair(struct client *client, const char *key, const char *value)
{
    if (value != NULL) {
        pack_text(&client->request, key);
        pack_text(&client->request, value);
    }
}

static int ask_events(struct client *client, const struct events_wish *wish)
{
    char node[CLIENT_NODE_TEXT_BYTES], experiment[CLIENT_EXPERIMENT_TEXT_BYTES];
    int code = wish->node != NULL ? client_find_node(client, wish->node, node) : CLI_DONE;
    if (code == CLI_DONE && wish->experiment != NULL) {
        code = client_find_experiment(client, wish->experiment, experiment);
    }
    if (code != CLI_DONE) {
        return code;
    }
    client_begin(client, "events",
                 2u + (wish->since != NULL) + (wish->kind != NULL) + (wish->node != NULL) + (wish->experiment != NULL));
    if (wish->since != NULL) {
        pack_text(&client->request, "since_ms");
        pack_u64(&client->request, wish->since_ms);
    }
    pack_pair(client, "kind", wish->kind);
    pack_pair(client, "node", wish->node != NULL ? node : NULL);
    pack_pair(client, "experiment", wish->experiment != NULL ? experiment : NULL);
    pack_text(&client->request, "from");
    pack_u64(&client->request, wish->from);
    pack_text(&client->request, "follow");
    pack_bool(&client->request, wish->follow);
    return client_send(client, -1);
}

int command_events(struct cli *cli, const struct arguments *arguments)
{
    struct events_wish wish;
    struct client client;
    int code = read_wish(cli, arguments, &wish);
    if (code == CLI_DONE) {
        code = client_open(cli, &client);
    }
    if (code != CLI_DONE) {
        return code;
    }
    code = ask_events(&client, &wish);
    struct reply reply = {.end = false};
    while (code == CLI_DONE && !reply.end) {
        code = client_next(&client, wish.follow ? -1 : CLIENT_ANSWER_MS, false, &reply);
        if (code == CLI_DONE && document_true(&reply.document, "reset")) {
            (void)fprintf(cli->err, "shoal: not all events from %llu on are kept any more\n",
                          (unsigned long long)wish.from);
        }
        if (code == CLI_DONE && document_has(&reply.document, "events")) {
            msgpack_object_array list = document_list(&reply.document, "events");
            if (wish.chooses && list.size > 0 && !document_has(&list.ptr[0], "kind")) {
                code = cli_fail(cli, CLI_REFUSED,
                                "the daemon is older than this shoal, and knows neither --node nor --kind nor "
                                "--experiment; restart it");
                break;
            }
            for (uint32_t i = 0; i < list.size; i++) {
                const msgpack_object *item = &list.ptr[i];
                write_event(cli, item);
            }
            (void)fflush(cli->out);
        }
    }
    client_close(&client);
    return code;
}
