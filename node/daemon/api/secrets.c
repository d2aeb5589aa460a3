#include "node/daemon/api/secrets.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "node/core/facts/config.h"
#include "node/daemon/api/change.h"
#include "node/daemon/wire/request.h"
#include "node/secret_box.h"

#define TURN_MS 3000 /* so long has each node with a copy, one after the other, to give copies to a newcomer */

/* Reads `name`. False after an error reply. */
static bool read_name(struct daemon *daemon, const struct client_request *request, char name[FACT_NAME_BYTES])
{
    if (!request_text(&request->map, "name", name, FACT_NAME_BYTES) || !config_secret_is_good(name, strlen(name))) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "The request lacks a good `name`: programs find the secret as an environment variable, so "
                           "allowed are letters, digits "
                           "and _, no digit first, at most %d bytes, and no variable that the daemon sets.",
                           FACT_NAME_BYTES - 1);
        return false;
    }
    return true;
}

/* Reads `value`. False after an error reply; the value is then empty. */
static bool read_value(struct daemon *daemon, const struct client_request *request, struct secret_box_value *out)
{
    struct pack_reader value = pack_find(&request->map, "value");
    size_t bytes = 0;
    const char *text = pack_read_text(&value, &bytes);
    if (value.failed || bytes == 0 || bytes > FACT_SECRET_BYTES_MAX || memchr(text, '\0', bytes) != NULL) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "The request lacks a good `value`: 1 to %d bytes without a NUL.", FACT_SECRET_BYTES_MAX);
        return false;
    }
    memcpy(out->text, text, bytes);
    out->bytes = (uint32_t)bytes;
    return true;
}

/* A copy for each member, those included that are away. */
static void pack_copies(struct daemon *daemon, const struct secret_box_value *value, struct pack_writer *writer)
{
    const struct view *view = node_core_view(daemon->core);
    uint8_t *copies = malloc((size_t)view->member_count * FACT_SECRET_COPY_BYTES);
    size_t used = 0;
    for (uint32_t i = 0; copies != NULL && i < view->member_count; i++) {
        const struct view_member *member = view->members[i];
        bool is_wanted = member->admitted && !member->left && !view_member_is_out(member);
        if (is_wanted && secret_box_copy(value, member->id, member->public_key, copies + used) == 0) {
            used += FACT_SECRET_COPY_BYTES;
        }
    }
    pack_bin(writer, copies, used);
    writer->failed |= copies == NULL || used == 0;
    free(copies);
}

void secrets_set(struct daemon *daemon, struct client_request *request, int kind)
{
    struct secret_box_value value = {.bytes = 0};
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    uint8_t sealed[FACT_SECRET_SEALED_MAX], name[FACT_SECRET_VALUE_BYTES];
    _Static_assert(sizeof event.u.request.label >= FACT_NAME_BYTES, "a name fits");
    if (!read_name(daemon, request, event.u.request.label) || !read_value(daemon, request, &value)) {
        return;
    }
    size_t size = sizeof sealed + 256 + (size_t)node_core_view(daemon->core)->member_count * FACT_SECRET_COPY_BYTES;
    uint8_t *bytes = malloc(size);
    struct change_waiting *waiting = bytes != NULL ? change_wait(daemon, request) : NULL;
    uint32_t sealed_bytes = secret_box_seal(&value, name, sealed);
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, bytes != NULL ? size : 0);
    pack_array(&writer, 3);
    pack_bin(&writer, name, sizeof name);
    pack_bin(&writer, sealed, sealed_bytes);
    pack_copies(daemon, &value, &writer);
    secret_box_wipe(&value);
    if (waiting != NULL && !writer.failed) {
        waiting->is_secret = true;
        memcpy(waiting->name, event.u.request.label, sizeof waiting->name);
        event.u.request.kind = (enum node_request_kind)kind;
        event.u.request.client = waiting->key;
        event.bytes = bytes;
        event.byte_count = (uint32_t)writer.used_bytes;
        daemon_event(daemon, &event);
    } else {
        request->client->broken = true; /* no memory */
    }
    free(bytes);
}

void secrets_remove(struct daemon *daemon, struct client_request *request, int kind)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    if (!read_name(daemon, request, event.u.request.label)) {
        return;
    }
    struct change_waiting *waiting = change_wait(daemon, request);
    if (waiting != NULL) {
        waiting->is_secret = true;
        memcpy(waiting->name, event.u.request.label, sizeof waiting->name);
        event.u.request.kind = (enum node_request_kind)kind;
        event.u.request.client = waiting->key;
        daemon_event(daemon, &event);
    }
}

/* ---- the list -------------------------------------------------------------------------------------------------- */

static void put_secret(const struct daemon *daemon, const struct view_secret *now, struct pack_writer *writer)
{
    const struct view *view = node_core_view(daemon->core);
    struct fact_secret fact;
    uint32_t copies = 0, nodes = 0;
    for (uint32_t i = 0; i < view->member_count; i++) {
        const struct view_member *member = view->members[i];
        bool is_wanted = member->admitted && !member->left && !view_member_is_out(member);
        nodes += is_wanted;
        copies += is_wanted && view_secret_copy(view, now, member->id, &fact) != NULL;
    }
    bool is_read = fact_secret_read(&now->entry->record, &fact) == 0;
    pack_map(writer, 4);
    pack_text(writer, "name");
    pack_text(writer, now->name);
    pack_text(writer, "set_s");
    pack_u64(writer, is_read ? fact.set_s : 0);
    pack_text(writer, "copies");
    pack_u64(writer, copies);
    pack_text(writer, "nodes");
    pack_u64(writer, nodes);
}

void secrets_list(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    const struct view *view = node_core_view(daemon->core);
    struct client_reply reply;
    uint32_t count = 0;
    for (const struct view_secret *row = view_secret_next(view, NULL); row != NULL;
         row = view_secret_next(view, row->name)) {
        count += view_secret_is_set(view, row->name);
    }
    if (!client_reply_begin(&reply, request->id, true, 1)) {
        request->client->broken = true;
        return;
    }
    pack_text(&reply.writer, "secrets");
    pack_array(&reply.writer, count);
    for (const struct view_secret *row = view_secret_next(view, NULL); row != NULL;
         row = view_secret_next(view, row->name)) {
        if (view_secret_is_set(view, row->name)) {
            put_secret(daemon, view_secret_find(view, row->name), &reply.writer);
        }
    }
    client_reply_send(daemon, request->client, &reply, -1);
}

/* ---- members that have come later ------------------------------------------------------------------------------ */

void secrets_tick(struct daemon *daemon, uint64_t now_ms)
{
    struct node_secret_due due;
    struct fact_secret fact;
    struct secret_box_value value;
    if (!node_core_secret_due(daemon->core, &due)) {
        daemon->api->secret_due_ms = 0;
        return;
    }
    daemon->api->secret_due_ms = daemon->api->secret_due_ms == 0 ? now_ms : daemon->api->secret_due_ms;
    if (now_ms - daemon->api->secret_due_ms < (uint64_t)due.rank * TURN_MS) {
        return;
    }
    const struct view *view = node_core_view(daemon->core);
    const struct view_secret *now = view_secret_find(view, due.name);
    const uint8_t *box = now != NULL ? view_secret_copy(view, now, daemon->keys.id, &fact) : NULL;
    if (box == NULL || secret_box_open(&daemon->keys, &fact, box, &value) != 0) {
        return; /* another node gives them */
    }
    uint8_t copies[NODE_SECRET_DUE_MAX * FACT_SECRET_COPY_BYTES], bytes[sizeof copies + 256];
    size_t used = 0;
    for (uint32_t i = 0; i < due.count; i++) {
        used +=
            secret_box_copy(&value, due.nodes[i], due.public_keys[i], copies + used) == 0 ? FACT_SECRET_COPY_BYTES : 0;
    }
    secret_box_wipe(&value);
    struct node_event event = {.kind = NODE_EVENT_SECRET_COPIES, .bytes = bytes};
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_array(&writer, 3);
    pack_text(&writer, due.name);
    pack_bin(&writer, due.value, sizeof due.value);
    pack_bin(&writer, copies, used);
    event.byte_count = (uint32_t)writer.used_bytes;
    daemon_event(daemon, &event);
}
