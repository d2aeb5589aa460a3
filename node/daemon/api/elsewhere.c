#include "node/daemon/api/elsewhere.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"
#include "node/daemon/render/render.h"
#include "node/daemon/wire/relayed.h"
#include "node/daemon/wire/request.h"

#define AGAIN_MS 100
#define GIVE_UP_MS 20000
#define UNKNOWN_MS 5000 /* so long the address of a node that has just come may not be known */

/* A request on its way. */
struct elsewhere {
    struct elsewhere *next;
    uint64_t serial, id;
    node_id node;
    uint64_t request; /* number of the bulk request under way; 0: none */
    uint64_t again_ms, since_ms;
    size_t question_bytes;
    uint8_t question[RELAYED_QUESTION_BYTES];
};

static void asked_free(struct daemon *daemon, struct elsewhere *asked)
{
    struct elsewhere **link = &daemon->api->elsewhere;
    while (*link != asked) {
        link = &(*link)->next;
    }
    *link = asked->next;
    free(asked);
}

static void ask(struct daemon *daemon, struct elsewhere *asked)
{
    asked->request = ++daemon->request_id;
    if (bulk_series_ask(daemon->bulk, asked->request, RELAYED_PREFIX, sizeof RELAYED_PREFIX - 1, 0, asked->question,
                        asked->question_bytes, asked->node) != 0) {
        asked->request = 0;
        asked->again_ms = daemon_now_ms() + AGAIN_MS;
    }
}

/* The request as the other node's local socket would have it. */
static size_t pack_request(const struct client_request *request, const char *op, const char *const *arguments,
                           uint8_t out[RELAYED_REQUEST_BYTES])
{
    struct pack_writer writer;
    uint32_t given = 0;
    for (const char *const *name = arguments; *name != NULL; name++) {
        given += !pack_find(&request->map, *name).failed;
    }
    pack_writer_init(&writer, out, RELAYED_REQUEST_BYTES);
    pack_map(&writer, 3 + given);
    pack_text(&writer, "v");
    pack_u64(&writer, REQUEST_PROTOCOL_VERSION);
    pack_text(&writer, "id");
    pack_u64(&writer, 1);
    pack_text(&writer, "op");
    pack_text(&writer, op);
    for (const char *const *name = arguments; *name != NULL; name++) {
        struct pack_reader value = pack_find(&request->map, *name);
        size_t bytes = 0;
        const uint8_t *raw = value.failed ? NULL : pack_read_any(&value, &bytes);
        if (raw != NULL && !value.failed) {
            pack_text(&writer, *name);
            pack_raw(&writer, raw, bytes);
        }
    }
    return writer.failed ? 0 : writer.used_bytes;
}

void elsewhere_ask(struct daemon *daemon, const struct client_request *request, node_id node, const char *op,
                   const char *const *arguments)
{
    uint8_t bytes[RELAYED_REQUEST_BYTES];
    struct relayed relayed = {.request = bytes, .request_bytes = pack_request(request, op, arguments, bytes)};
    struct elsewhere *asked = calloc(1, sizeof *asked);
    if (!node_core_is_alive(daemon->core, node)) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "%s is not alive now, and nobody else can do that for it.",
                           render_node_label(daemon->core, node).text);
        free(asked);
        return;
    }
    if (asked == NULL || relayed.request_bytes == 0 ||
        getrandom(relayed.token, sizeof relayed.token, 0) != (ssize_t)sizeof relayed.token) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "The request cannot be passed on: it is too long, or no memory is left.");
        free(asked);
        return;
    }
    asked->serial = request->client->serial;
    asked->id = request->id;
    asked->node = node;
    asked->since_ms = daemon_now_ms();
    asked->question_bytes = relayed_pack(&relayed, asked->question);
    asked->next = daemon->api->elsewhere;
    daemon->api->elsewhere = asked;
    ask(daemon, asked);
}

/* Answers as the other node has. False: that makes no sense. */
static bool pass_on(struct daemon *daemon, struct client *client, const struct elsewhere *asked,
                    const struct bulk_item *item)
{
    struct relayed_reply read;
    struct client_reply reply;
    char hex[2 * NODE_ID_BYTES + 1];
    if (item->count > RELAYED_REQUEST_BYTES || relayed_reply_read(item->bytes, item->count, &read) != 0) {
        return false;
    }
    if (!read.ok) {
        client_reply_error(daemon, client, asked->id, read.code <= EXIT_TIMEOUT ? (int)read.code : EXIT_REFUSED,
                           "%s: %.*s", render_node_label(daemon->core, asked->node).text, (int)read.error_bytes,
                           read.error);
    } else if (client_reply_begin(&reply, asked->id, true, read.pairs + 1)) {
        bytes_to_hex(hex, asked->node.bytes, NODE_ID_BYTES);
        relayed_reply_copy(item->bytes, item->count, &reply.writer);
        pack_text(&reply.writer, "node");
        pack_text(&reply.writer, hex);
        client_reply_send(daemon, client, &reply, -1);
    }
    return true;
}

static void take_answer(struct daemon *daemon, struct client *client, struct elsewhere *asked,
                        const struct bulk_event *event)
{
    const char *label = render_node_label(daemon->core, asked->node).text;
    if (event->code == ERR_VERSION) {
        client_reply_error(daemon, client, asked->id, EXIT_REFUSED,
                           "%s is of an older version, which takes this on itself only; do it there, or update it.",
                           label);
    } else if (event->code == ERR_NOT_FOUND && daemon_now_ms() - asked->since_ms >= UNKNOWN_MS) {
        client_reply_error(daemon, client, asked->id, EXIT_REFUSED, "%s cannot be asked: %s", label, event->text);
    } else if (event->code != 0 || event->item_count == 0) {
        asked->again_ms = daemon_now_ms() + AGAIN_MS;
        return;
    } else if (!pass_on(daemon, client, asked, &event->items[0])) {
        client_reply_error(daemon, client, asked->id, EXIT_REFUSED, "%s gives an answer that makes no sense.", label);
    }
    asked_free(daemon, asked);
}

void elsewhere_answered(struct daemon *daemon, const struct bulk_event *event)
{
    struct elsewhere *asked = daemon->api->elsewhere;
    while (asked != NULL && asked->request != event->id) {
        asked = asked->next;
    }
    struct client *client = asked != NULL ? client_find(daemon, asked->serial) : NULL;
    if (asked != NULL) {
        asked->request = 0;
    }
    if (client != NULL) {
        take_answer(daemon, client, asked, event);
    }
}

void elsewhere_tick(struct daemon *daemon, uint64_t now_ms)
{
    for (struct elsewhere *asked = daemon->api->elsewhere, *next; asked != NULL; asked = next) {
        next = asked->next;
        struct client *client = client_find(daemon, asked->serial);
        if (client == NULL) {
            asked_free(daemon, asked);
        } else if (!node_core_is_alive(daemon->core, asked->node)) {
            client_reply_error(daemon, client, asked->id, EXIT_REFUSED,
                               "%s is not alive any more, and has not answered; it may have done that all the same.",
                               render_node_label(daemon->core, asked->node).text);
            asked_free(daemon, asked);
        } else if (now_ms - asked->since_ms >= GIVE_UP_MS) {
            client_reply_error(daemon, client, asked->id, EXIT_TIMEOUT,
                               "%s has not answered within %d s; it may do that all the same.",
                               render_node_label(daemon->core, asked->node).text, GIVE_UP_MS / 1000);
            asked_free(daemon, asked);
        } else if (asked->request == 0 && now_ms >= asked->again_ms) {
            ask(daemon, asked);
        }
    }
}

void elsewhere_close(struct daemon *daemon)
{
    while (daemon->api->elsewhere != NULL) {
        asked_free(daemon, daemon->api->elsewhere);
    }
}
