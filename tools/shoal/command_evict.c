/* evict: shuts a key out of the mesh for ever. */

#include <string.h>

#include "base/document.h"
#include "base/id.h"
#include "tools/shoal/client.h"
#include "tools/shoal/print.h"

#define NODE_TEXT_BYTES (2 * NODE_ID_BYTES + 1)
#define NAMES_SHOWN_MAX 12

_Static_assert(NODE_TEXT_BYTES == CLIENT_NODE_TEXT_BYTES, "one text of an id");

struct found {
    char id[NODE_TEXT_BYTES], name[128];
};

/* Finds the node that the user means; `reply` is then the daemon's list of nodes. */
static int find_node(struct client *client, const char *text, struct reply *reply, struct found *out)
{
    int code = client_find_node(client, text, out->id);
    if (code != CLI_DONE) {
        return code;
    }
    client_begin(client, "nodes", 0);
    code = client_ask(client, CLIENT_ANSWER_MS, reply);
    if (code != CLI_DONE) {
        return code;
    }
    msgpack_object_array list = document_list(&reply->document, "nodes");
    for (uint32_t i = 0; i < list.size; i++) {
        const msgpack_object *item = &list.ptr[i];
        char id[NODE_TEXT_BYTES];
        document_text(item, "id", id, sizeof id);
        if (strcmp(id, out->id) == 0) {
            document_node(item, "name", out->name, sizeof out->name);
            return CLI_DONE;
        }
    }
    if (document_true(&reply->document, "syncing")) {
        return cli_fail(client->cli, CLI_REFUSED,
                        "this node knows no node with the id %s, but is still catching up with the others; try again in some "
                        "seconds",
                        out->id);
    }
    return cli_fail(client->cli, CLI_NO_SUCH_THING, "there is no node with the id %s; shoal nodes lists them", out->id);
}

static void write_names(FILE *out, msgpack_object_array list)
{
    for (uint32_t i = 0; i < list.size && i < NAMES_SHOWN_MAX; i++) {
        char name[128];
        document_node(&list.ptr[i], "name", name, sizeof name);
        (void)fprintf(out, "%s%s", i > 0 ? ", " : "", name);
    }
    if (list.size > NAMES_SHOWN_MAX) {
        (void)fprintf(out, " and %u more", list.size - NAMES_SHOWN_MAX);
    }
}

/* Asks on the terminal; true if the user agrees. */
static bool is_confirmed(struct cli *cli, const msgpack_object *document, const struct found *node, bool with_vouched)
{
    (void)fprintf(cli->err, "%s (%s) is shut out, and its key can never come back; its trials run again elsewhere.\n",
                  node->name, node->id);
    msgpack_object_array list = document_list(document, "nodes");
    uint32_t shown = 0;
    for (uint32_t i = 0; i < list.size; i++) {
        const msgpack_object *item = &list.ptr[i];
        char voucher[NODE_TEXT_BYTES], id[NODE_TEXT_BYTES], name[128], state[32];
        document_text(item, "voucher", voucher, sizeof voucher);
        document_text(item, "id", id, sizeof id);
        document_node(item, "name", name, sizeof name);
        document_text(item, "state", state, sizeof state);
        bool is_out = strcmp(state, "evicted") == 0 || strcmp(state, "left") == 0;
        if (strcmp(voucher, node->id) == 0 && strcmp(id, node->id) != 0 && !is_out) {
            (void)fprintf(cli->err, "%s%s", shown++ == 0 ? "It vouched for: " : ", ", name);
        }
    }
    if (shown > 0) {
        (void)fprintf(cli->err, ". They %s.\n", with_vouched ? "go too, unless others vouch for them" : "stay");
    }
    (void)fputs("Evict it for ever? [y/N] ", cli->err);
    return cli_hears_yes(cli);
}

static void render_evicted(struct cli *cli, const msgpack_object *document)
{
    char name[128], id[NODE_TEXT_BYTES];
    unsigned long long stored_on = document_number(document, "stored_on");
    msgpack_object_array standing = document_list(document, "standing"), out = document_list(document, "void");
    document_node(document, "name", name, sizeof name);
    document_text(document, "node", id, sizeof id);
    (void)fprintf(cli->out, "%s (%.12s) evicted, stored on %llu node%s\n", name, id, stored_on, stored_on == 1 ? "" : "s");
    if (standing.size > 0) {
        (void)fputs("it vouched for, and these stay: ", cli->out);
        write_names(cli->out, standing);
        (void)fputc('\n', cli->out);
    }
    if (out.size > 0) {
        (void)fputs("out too, because no member vouches for them any more: ", cli->out);
        write_names(cli->out, out);
        (void)fputc('\n', cli->out);
    }
}

int command_evict(struct cli *cli, const struct arguments *arguments)
{
    bool with_vouched = options_has(arguments, "with-vouched");
    struct client client;
    struct reply reply;
    struct found node = {0};
    int code = client_open(cli, &client);
    if (code != CLI_DONE) {
        return code;
    }
    code = find_node(&client, arguments->operands[0], &reply, &node);
    bool asks = cli->in_is_terminal && !options_has(arguments, "yes");
    if (code == CLI_DONE && asks && !is_confirmed(cli, &reply.document, &node, with_vouched)) {
        code = cli_fail(cli, CLI_REFUSED, "nothing was done");
    }
    if (code == CLI_DONE) {
        client_begin(&client, "evict", 2);
        pack_text(&client.request, "node");
        pack_text(&client.request, node.id);
        pack_text(&client.request, "with_vouched");
        pack_bool(&client.request, with_vouched);
        code = print_reply(&client, render_evicted);
    }
    client_close(&client);
    return code;
}
