#include "node/daemon/api/searcher.h"

#include "node/daemon/wire/request.h"
#include "node/daemon/workers/searcher.h"

void api_searcher_turn(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    lease_token token;
    uint64_t event = 0;
    struct daemon_searcher *searcher = request_token(&request->map, &token) ? daemon_searcher_find(daemon, token) : NULL;
    bool is_answer = client_argument_u64(request, "event", &event);
    struct pack_reader actions = pack_find(&request->map, "actions");
    size_t count = 0;
    const uint8_t *bytes = is_answer ? pack_read_any(&actions, &count) : NULL;
    if (searcher == NULL) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "The token is not valid here (any more): the program of this search was ended, or begun anew.");
    } else if (request->id == 0 || (is_answer && (actions.failed || count > UINT32_MAX))) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE, "searcher_turn with `event` wants `actions`, a list.");
    } else {
        daemon_searcher_turn(daemon, searcher, request->client->serial, request->id, event, bytes, count, request_flag(&request->map, "more"));
    }
}

void api_searcher_tell_effect(struct daemon *daemon, const struct node_effect *effect)
{
    uint64_t serial, id;
    struct client_reply reply;
    struct client *client = daemon_searcher_take_request(daemon, effect, &serial, &id) ? client_find(daemon, serial) : NULL;
    if (client != NULL && client_reply_begin(&reply, id, true, 1)) {
        pack_text(&reply.writer, "event");
        pack_raw(&reply.writer, effect->bytes, effect->byte_count);
        client_reply_send(daemon, client, &reply, -1);
    }
}
