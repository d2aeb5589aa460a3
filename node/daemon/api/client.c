#include "node/daemon/api/client.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/frame.h"
#include "node/daemon/api/worker.h"
#include "node/daemon/wire/request.h"

/* ---- clients --------------------------------------------------------------------------------------------------- */

void client_add(struct daemon *daemon, struct client *client, const struct client_door *door)
{
    client->door = door;
    client->slot = -1;
    client->account = CLIENT_NO_ACCOUNT;
    client->serial = ++daemon->request_id;
    client->next = daemon->api->clients;
    daemon->api->clients = client;
    daemon->api->client_count++;
}

void client_remove(struct daemon *daemon, struct client *client)
{
    struct client **link = &daemon->api->clients;
    while (*link != client) {
        link = &(*link)->next;
    }
    *link = client->next;
    daemon->api->client_count--;
    api_worker_gone(daemon, client);
}

struct client *client_find(struct daemon *daemon, uint64_t serial)
{
    for (struct client *client = daemon->api->clients; client != NULL; client = client->next) {
        if (client->serial == serial && !client->broken) {
            return client;
        }
    }
    return NULL;
}

bool client_may_stream(const struct client *client)
{
    return client->door->may_stream(client);
}

int client_take_file(const struct client_request *request)
{
    return request->client->door->take_file(request->client);
}

/* ---- answers --------------------------------------------------------------------------------------------------- */

void client_send(struct client *client, const uint8_t *bytes, size_t count)
{
    client->door->reply(client, bytes, count);
}

bool client_reply_begin(struct client_reply *reply, uint64_t id, bool end, uint32_t extra_pairs)
{
    reply->bytes = malloc(FRAME_BYTES_MAX);
    if (reply->bytes == NULL) {
        return false;
    }
    pack_writer_init(&reply->writer, reply->bytes, FRAME_BYTES_MAX);
    pack_map(&reply->writer, 3 + extra_pairs);
    pack_text(&reply->writer, "id");
    pack_u64(&reply->writer, id);
    pack_text(&reply->writer, "ok");
    pack_bool(&reply->writer, true);
    pack_text(&reply->writer, "end");
    pack_bool(&reply->writer, end);
    return true;
}

void client_reply_send(struct daemon *daemon, struct client *client, struct client_reply *reply, int file)
{
    if (reply->writer.failed) {
        daemon_line_of(daemon, event_of_kind(EVENT_NODE_DOOR),
                       "an answer on the local socket was too large and was dropped");
        client->broken = true;
        if (file >= 0) {
            (void)close(file);
        }
    } else if (file >= 0) {
        client->door->send_file(client, reply->bytes, reply->writer.used_bytes, file);
    } else {
        client_send(client, reply->bytes, reply->writer.used_bytes);
    }
    free(reply->bytes);
    reply->bytes = NULL;
}

void client_reply_error(struct daemon *daemon, struct client *client, uint64_t id, int exit_code, const char *format,
                        ...)
{
    char text[CONFIG_ERROR_BYTES]; /* the longest are the problems of a configuration */
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (id == 0) {
        daemon_line_of(daemon, event_of_kind(EVENT_NODE_DOOR), "a message on the local socket was refused: %.200s", text);
        return;
    }
    uint8_t bytes[sizeof text + 256];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 5);
    pack_text(&writer, "id");
    pack_u64(&writer, id);
    pack_text(&writer, "ok");
    pack_bool(&writer, false);
    pack_text(&writer, "end");
    pack_bool(&writer, true);
    pack_text(&writer, "code");
    pack_u64(&writer, (uint64_t)exit_code);
    pack_text(&writer, "error");
    pack_text(&writer, text);
    client_send(client, bytes, writer.used_bytes);
}

void client_reply_empty(struct daemon *daemon, struct client *client, uint64_t id)
{
    struct client_reply reply;
    if (id != 0 && client_reply_begin(&reply, id, true, 0)) {
        client_reply_send(daemon, client, &reply, -1);
    }
}

void client_reply_no_request(struct daemon *daemon, const struct client_request *request)
{
    client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                       "There is no request `%.*s`, or its arguments are wrong.",
                       (int)(request->op_bytes < 40 ? request->op_bytes : 40), request->op);
}

/* ---- arguments ------------------------------------------------------------------------------------------------- */

bool client_argument_u64(const struct client_request *request, const char *key, uint64_t *out)
{
    return request_u64(&request->map, key, out);
}

bool client_argument_any_experiment(struct daemon *daemon, const struct client_request *request, experiment_id *out)
{
    if (!request_experiment_id(&request->map, out)) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "The request names no experiment; give its id of 16 hexadecimal digits.");
        return false;
    }
    return true;
}

void client_reply_unknown(struct daemon *daemon, const struct client_request *request, const char *what, const char *id,
                          const char *list)
{
    if (node_core_is_syncing(daemon->core)) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "This node knows no %s with the id %s, but is still catching up with the others; try again in "
                           "some seconds.",
                           what, id);
        return;
    }
    client_reply_error(daemon, request->client, request->id, EXIT_NOT_FOUND,
                       "There is no %s with the id %s; `shoal %s` lists them.", what, id, list);
}

void client_reply_unknown_experiment(struct daemon *daemon, const struct client_request *request, experiment_id id)
{
    char hex[2 * EXPERIMENT_ID_BYTES + 1];
    bytes_to_hex(hex, id.bytes, EXPERIMENT_ID_BYTES);
    /* Final: no peer's record can bring the experiment back. */
    if (view_find_tombstone(node_core_view(daemon->core), id) != NULL) {
        client_reply_error(daemon, request->client, request->id, EXIT_NOT_FOUND,
                           "The experiment with the id %s was deleted; `shoal ls` lists those that are left.", hex);
        return;
    }
    client_reply_unknown(daemon, request, "experiment", hex, "ls");
}

bool client_argument_experiment(struct daemon *daemon, struct client_request *request, struct view_experiment **out)
{
    experiment_id id;
    if (!client_argument_any_experiment(daemon, request, &id)) {
        return false;
    }
    struct view_experiment *experiment = view_find_experiment(node_core_view(daemon->core), id);
    if (experiment == NULL || !experiment->known) {
        client_reply_unknown_experiment(daemon, request, id);
        return false;
    }
    *out = experiment;
    return true;
}

bool client_argument_node(struct daemon *daemon, const struct client_request *request, node_id *out)
{
    char hex[2 * NODE_ID_BYTES + 1];
    node_id node = daemon->keys.id;
    bool is_given = !pack_find(&request->map, "node").failed;
    if (is_given && (!request_text(&request->map, "node", hex, sizeof hex) ||
                     bytes_from_hex(node.bytes, NODE_ID_BYTES, hex) != 0)) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "The request names no node; give its id of 32 hexadecimal digits.");
        return false;
    }
    if (is_given && view_find_member(node_core_view(daemon->core), node) == NULL && !node_id_equal(node, daemon->keys.id)) {
        client_reply_unknown(daemon, request, "node", hex, "nodes");
        return false;
    }
    *out = node;
    return true;
}
