#include "node/daemon/local.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "gossip/token.h"
#include "node/daemon/render.h"
#include "node/daemon/request.h"

#define EXIT_REFUSED 1
#define EXIT_USAGE 2
#define EXIT_NOT_FOUND 4

/* ---- frames out ---------------------------------------------------------------------------------------------------------- */

struct daemon_client *local_find_client(struct daemon *daemon, uint64_t serial)
{
    for (struct daemon_client *client = daemon->clients; client != NULL; client = client->next) {
        if (client->serial == serial && !client->broken) {
            return client;
        }
    }
    return NULL;
}

static void frame_free(struct client_frame *frame)
{
    if (frame->fd >= 0) {
        (void)close(frame->fd);
    }
    free(frame);
}

static void flush(struct daemon_client *client)
{
    while (client->first != NULL && !client->broken) {
        struct client_frame *frame = client->first;
        size_t before = frame->sent;
        int error = frame_send_some(client->fd, frame->bytes, frame->count, frame->fd, &frame->sent);
        client->queued_bytes -= frame->sent - before;
        if (error != 0) {
            client->broken = error != ERR_AGAIN;
            return;
        }
        client->first = frame->next;
        client->last = client->first == NULL ? NULL : client->last;
        frame_free(frame);
    }
}

static void queue(struct daemon_client *client, const uint8_t *bytes, size_t count, int fd)
{
    struct client_frame *frame = malloc(sizeof *frame + count);
    if (frame == NULL || client->queued_bytes + count > CLIENT_QUEUE_MAX) {
        client->broken = true; /* it does not read, or there is no memory for it */
        free(frame);
        if (fd >= 0) {
            (void)close(fd);
        }
        return;
    }
    *frame = (struct client_frame){.fd = fd, .count = count};
    memcpy(frame->bytes, bytes, count);
    if (client->last != NULL) {
        client->last->next = frame;
    } else {
        client->first = frame;
    }
    client->last = frame;
    client->queued_bytes += FRAME_HEAD_BYTES + count;
    flush(client);
}

bool local_reply_begin(struct local_reply *reply, uint64_t id, bool end, uint32_t extra_pairs)
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

void local_reply_send(struct daemon *daemon, struct daemon_client *client, struct local_reply *reply, int fd)
{
    (void)daemon;
    if (reply->writer.failed) {
        daemon_line(daemon, "an answer on the local socket was too large and was dropped");
        client->broken = true;
    } else {
        queue(client, reply->bytes, reply->writer.used_bytes, fd);
    }
    free(reply->bytes);
    reply->bytes = NULL;
}

void local_reply_error(struct daemon *daemon, struct daemon_client *client, uint64_t id, int exit_code, const char *format,
                       ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (id == 0) {
        daemon_line(daemon, "a message on the local socket was refused: %.200s", text);
        return;
    }
    uint8_t bytes[1280];
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
    queue(client, bytes, writer.used_bytes, -1);
}

static void reply_empty(struct daemon *daemon, struct daemon_client *client, uint64_t id)
{
    struct local_reply reply;
    if (id != 0 && local_reply_begin(&reply, id, true, 0)) {
        local_reply_send(daemon, client, &reply, -1);
    }
}

/* ---- arguments ------------------------------------------------------------------------------------------------------------- */

bool local_argument_u64(const struct local_request *request, const char *key, uint64_t *out)
{
    return request_u64(&request->map, key, out);
}

static bool argument_any_experiment(struct daemon *daemon, const struct local_request *request, experiment_id *out)
{
    if (!request_experiment_id(&request->map, out)) {
        local_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                          "The request names no experiment; give its id of 16 hexadecimal digits.");
        return false;
    }
    return true;
}

bool local_argument_experiment(struct daemon *daemon, struct local_request *request, struct view_experiment **out)
{
    experiment_id id;
    if (!argument_any_experiment(daemon, request, &id)) {
        return false;
    }
    struct view_experiment *experiment = view_find_experiment(&daemon->core->view, id);
    if (experiment == NULL || !experiment->known) {
        local_reply_error(daemon, request->client, request->id, EXIT_NOT_FOUND,
                          "There is no such experiment; `shoal ls` lists them.");
        return false;
    }
    *out = experiment;
    return true;
}

/* ---- requests that wait for the core --------------------------------------------------------------------------------------- */

struct daemon_waiting {
    struct daemon_waiting *next;
    uint64_t key;
    uint64_t serial, id;
    experiment_id experiment;
    bool is_invite, is_leave, is_revoke, is_eviction, is_drain, is_slots;
    node_id node; /* is_eviction, is_drain */
    uint8_t invite_key[PUBLIC_KEY_BYTES];
    uint64_t slots; /* is_slots: bit i for slot i */
    struct token token;
};

static struct daemon_waiting *wait_for_core(struct daemon *daemon, const struct local_request *request)
{
    struct daemon_waiting *waiting = calloc(1, sizeof *waiting);
    if (waiting != NULL) {
        waiting->key = ++daemon->request_id;
        waiting->serial = request->client->serial;
        waiting->id = request->id;
        waiting->next = daemon->waiting;
        daemon->waiting = waiting;
    }
    return waiting;
}

static uint32_t nodes_alive(const struct daemon *daemon)
{
    uint32_t count = 1;
    for (uint32_t i = 0; i < daemon->core->peer_count; i++) {
        count += core_node_alive(daemon->core, daemon->core->peers[i]->id);
    }
    return count;
}

static void pack_slots(struct pack_writer *writer, uint64_t slots)
{
    uint32_t count = 0;
    for (uint64_t rest = slots; rest != 0; rest &= rest - 1) {
        count++;
    }
    pack_text(writer, "slots");
    pack_array(writer, count);
    for (uint32_t slot = 0; slot < FACT_SLOTS_MAX; slot++) {
        if ((slots >> slot & 1) != 0) {
            pack_u64(writer, slot);
        }
    }
}

static int exit_code_of(int code)
{
    return code == ERR_NOT_FOUND ? EXIT_NOT_FOUND : code == ERR_USAGE ? EXIT_USAGE : EXIT_REFUSED;
}

static void put_stored_on(const struct daemon *daemon, const struct node_effect *effect, struct pack_writer *writer)
{
    pack_text(writer, "stored_on");
    pack_u64(writer, effect->u.reply.stored_on);
    pack_text(writer, "nodes_alive");
    pack_u64(writer, nodes_alive(daemon));
}

static void put_invite_id(const uint8_t key[PUBLIC_KEY_BYTES], struct pack_writer *writer)
{
    char hex[2 * RENDER_INVITE_ID_BYTES + 1];
    bytes_to_hex(hex, key, RENDER_INVITE_ID_BYTES);
    pack_text(writer, "invite");
    pack_text(writer, hex);
}

void daemon_local_reply_effect(struct daemon *daemon, const struct node_effect *effect)
{
    struct daemon_waiting **link = &daemon->waiting;
    while (*link != NULL && (*link)->key != effect->u.reply.client) {
        link = &(*link)->next;
    }
    struct daemon_waiting *waiting = *link;
    if (waiting == NULL) {
        return;
    }
    *link = waiting->next;
    struct daemon_client *client = local_find_client(daemon, waiting->serial);
    if (client != NULL && effect->u.reply.code != 0) {
        local_reply_error(daemon, client, waiting->id, exit_code_of(effect->u.reply.code), "%s", effect->u.reply.text);
    } else if (client != NULL) {
        struct local_reply reply;
        if (waiting->is_eviction && local_reply_begin(&reply, waiting->id, true, 2 + RENDER_EVICTION_PAIRS)) {
            render_eviction(daemon->core, waiting->node, &reply.writer);
            put_stored_on(daemon, effect, &reply.writer);
            local_reply_send(daemon, client, &reply, -1);
        } else if (waiting->is_revoke && local_reply_begin(&reply, waiting->id, true, 3)) {
            put_invite_id(waiting->invite_key, &reply.writer);
            put_stored_on(daemon, effect, &reply.writer);
            local_reply_send(daemon, client, &reply, -1);
        } else if (waiting->is_invite && local_reply_begin(&reply, waiting->id, true, 3)) {
            char text[TOKEN_TEXT_BYTES];
            (void)token_write(&waiting->token, text);
            pack_text(&reply.writer, "token");
            pack_text(&reply.writer, text);
            pack_text(&reply.writer, "expires_s");
            pack_u64(&reply.writer, waiting->token.expires_s);
            put_invite_id(waiting->invite_key, &reply.writer);
            local_reply_send(daemon, client, &reply, -1);
        } else if (waiting->is_leave) {
            reply_empty(daemon, client, waiting->id);
        } else if (local_reply_begin(&reply, waiting->id, true, effect->u.reply.already ? 4 : 3)) {
            char hex[2 * NODE_ID_BYTES + 1];
            if (waiting->is_slots) {
                pack_slots(&reply.writer, waiting->slots);
            } else if (waiting->is_drain) {
                bytes_to_hex(hex, waiting->node.bytes, NODE_ID_BYTES);
                pack_text(&reply.writer, "node");
                pack_text(&reply.writer, hex);
            } else {
                bytes_to_hex(hex, waiting->experiment.bytes, EXPERIMENT_ID_BYTES);
                pack_text(&reply.writer, "experiment");
                pack_text(&reply.writer, hex);
            }
            put_stored_on(daemon, effect, &reply.writer);
            if (effect->u.reply.already) {
                pack_text(&reply.writer, "already");
                pack_bool(&reply.writer, true);
            }
            local_reply_send(daemon, client, &reply, -1);
        }
    }
    daemon->stopping |= waiting->is_leave && effect->u.reply.code == 0;
    free(waiting);
}

static void request_control(struct daemon *daemon, struct local_request *request, enum node_request_kind kind)
{
    experiment_id id;
    if (!argument_any_experiment(daemon, request, &id)) {
        return;
    }
    struct daemon_waiting *waiting = wait_for_core(daemon, request);
    if (waiting != NULL) {
        waiting->experiment = id;
        struct node_event event = {.kind = NODE_EVENT_REQUEST};
        event.u.request.kind = kind;
        event.u.request.client = waiting->key;
        event.u.request.experiment = id;
        daemon_event(daemon, &event);
    }
}

static void request_leave(struct daemon *daemon, struct local_request *request)
{
    struct daemon_waiting *waiting = wait_for_core(daemon, request);
    if (waiting != NULL) {
        waiting->is_leave = true;
        struct node_event event = {.kind = NODE_EVENT_REQUEST};
        event.u.request.kind = NODE_REQUEST_LEAVE;
        event.u.request.client = waiting->key;
        daemon_event(daemon, &event);
    }
}

static void request_slots(struct daemon *daemon, struct local_request *request, enum node_request_kind kind)
{
    struct pack_reader list = pack_find(&request->map, "slots");
    bool is_given = !list.failed;
    uint32_t count = is_given ? pack_read_array(&list) : 0;
    uint64_t slots = 0, for_s = 0;
    for (uint32_t i = 0; i < count && !list.failed; i++) {
        uint64_t slot = pack_read_u64_max(&list, FACT_SLOTS_MAX - 1);
        slots |= list.failed ? 0 : UINT64_C(1) << slot;
    }
    if (is_given && list.failed) {
        local_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                          "`slots` is an array of a node's slot numbers, 0 to %d.", FACT_SLOTS_MAX - 1);
        return;
    }
    (void)local_argument_u64(request, "for_s", &for_s);
    struct daemon_waiting *waiting = wait_for_core(daemon, request);
    if (waiting != NULL) {
        uint32_t own = daemon->core->lease.count;
        waiting->is_slots = true;
        waiting->slots = slots != 0 ? slots : own == FACT_SLOTS_MAX ? UINT64_MAX : (UINT64_C(1) << own) - 1;
        struct node_event event = {.kind = NODE_EVENT_REQUEST};
        event.u.request.kind = kind;
        event.u.request.client = waiting->key;
        event.u.request.slots = slots;
        event.u.request.for_s = for_s;
        daemon_event(daemon, &event);
    }
}

static void request_drain(struct daemon *daemon, struct local_request *request, enum node_request_kind kind)
{
    node_id node = daemon->keys.id;
    char hex[2 * NODE_ID_BYTES + 1];
    struct pack_reader value = pack_find(&request->map, "node"), now = pack_find(&request->map, "now");
    if (!value.failed && (!request_text(&request->map, "node", hex, sizeof hex) ||
                          bytes_from_hex(node.bytes, NODE_ID_BYTES, hex) != 0)) {
        local_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                          "The request names no node; give its id of 32 hexadecimal digits.");
        return;
    }
    struct daemon_waiting *waiting = wait_for_core(daemon, request);
    if (waiting != NULL) {
        waiting->is_drain = true;
        waiting->node = node;
        struct node_event event = {.kind = NODE_EVENT_REQUEST};
        event.u.request.kind = kind;
        event.u.request.client = waiting->key;
        event.u.request.node = node;
        event.u.request.at_once = pack_read_bool(&now);
        daemon_event(daemon, &event);
    }
}

static void token_add_member(struct token *token, const uint8_t sign_public[32], const char *address)
{
    struct token_member *member = &token->members[token->member_count++];
    memcpy(member->sign_public, sign_public, 32);
    member->address_count = 1;
    bytes_copy_text(member->addresses[0], sizeof member->addresses[0], address);
}

static void request_invite(struct daemon *daemon, struct local_request *request)
{
    uint64_t expires_s = 24 * 3600;
    (void)local_argument_u64(request, "expires_s", &expires_s);
    if (expires_s == 0 || expires_s > 366ull * 24 * 3600) {
        local_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                          "An invite can live for at most a year and at least a second; give --expires 24h or the like.");
        return;
    }
    struct daemon_waiting *waiting = wait_for_core(daemon, request);
    if (waiting == NULL) {
        return;
    }
    waiting->is_invite = true;
    struct token *token = &waiting->token;
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    token->mesh = daemon->mesh;
    token_create(token->secret, event.u.request.public_key);
    token->expires_s = daemon_wall_ms() / 1000 + expires_s;
    token_add_member(token, daemon->keys.sign_public, daemon->core->options.node.addresses[0]);
    for (uint32_t i = 0; i < daemon->core->view.member_count && token->member_count < TOKEN_MEMBERS_MAX; i++) {
        const struct view_member *member = daemon->core->view.members[i];
        if (member->admitted && member->address_count > 0 && !node_id_equal(member->id, daemon->keys.id) &&
            core_node_alive(daemon->core, member->id)) {
            token_add_member(token, member->public_key, member->addresses[0]);
        }
    }
    memcpy(waiting->invite_key, event.u.request.public_key, sizeof waiting->invite_key);
    event.u.request.kind = NODE_REQUEST_INVITE;
    event.u.request.client = waiting->key;
    event.u.request.expires_s = token->expires_s;
    daemon_event(daemon, &event);
}

struct invite_search {
    char hex[2 * RENDER_INVITE_ID_BYTES + 1];
    size_t length;
    uint32_t count;
    uint8_t key[PUBLIC_KEY_BYTES];
};

static bool match_invite(void *context, const struct records_entry *entry)
{
    struct invite_search *search = context;
    char hex[2 * RENDER_INVITE_ID_BYTES + 1];
    if (entry->record.kind != FACT_INVITE || entry->record.key_bytes != PUBLIC_KEY_BYTES) {
        return true;
    }
    bytes_to_hex(hex, entry->record.key, RENDER_INVITE_ID_BYTES);
    bool is_same = search->count > 0 && memcmp(search->key, entry->record.key, PUBLIC_KEY_BYTES) == 0;
    if (strncmp(hex, search->hex, search->length) == 0 && !is_same) {
        memcpy(search->key, entry->record.key, PUBLIC_KEY_BYTES);
        search->count++;
    }
    return true;
}

#define INVITE_PREFIX_MIN 4

static void request_revoke(struct daemon *daemon, struct local_request *request)
{
    struct invite_search search = {0};
    if (!request_text(&request->map, "invite", search.hex, sizeof search.hex)) {
        local_reply_error(daemon, request->client, request->id, EXIT_USAGE, "The request lacks `invite`, the id of one.");
        return;
    }
    search.length = strlen(search.hex);
    if (search.length >= INVITE_PREFIX_MIN) {
        records_each(&daemon->core->records, match_invite, &search);
    }
    if (search.count != 1) {
        local_reply_error(daemon, request->client, request->id, search.count == 0 ? EXIT_NOT_FOUND : EXIT_REFUSED,
                          search.count == 0 ? "There is no invite with the id %s; `shoal invite --list` shows them."
                                            : "Several invites have ids that begin with %s; give more digits.",
                          search.hex);
        return;
    }
    struct daemon_waiting *waiting = wait_for_core(daemon, request);
    if (waiting != NULL) {
        waiting->is_revoke = true;
        memcpy(waiting->invite_key, search.key, sizeof waiting->invite_key);
        struct node_event event = {.kind = NODE_EVENT_REQUEST};
        event.u.request.kind = NODE_REQUEST_REVOKE;
        event.u.request.client = waiting->key;
        memcpy(event.u.request.public_key, search.key, sizeof event.u.request.public_key);
        daemon_event(daemon, &event);
    }
}

static void request_evict(struct daemon *daemon, struct local_request *request)
{
    char hex[2 * NODE_ID_BYTES + 1];
    node_id node;
    if (!request_text(&request->map, "node", hex, sizeof hex) || strlen(hex) != 2 * NODE_ID_BYTES ||
        bytes_from_hex(node.bytes, NODE_ID_BYTES, hex) != 0) {
        local_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                          "The request lacks `node`, the id of one in %d hexadecimal digits.", 2 * NODE_ID_BYTES);
        return;
    }
    struct daemon_waiting *waiting = wait_for_core(daemon, request);
    if (waiting != NULL) {
        waiting->is_eviction = true;
        waiting->node = node;
        struct pack_reader with_vouched = pack_find(&request->map, "with_vouched");
        struct node_event event = {.kind = NODE_EVENT_REQUEST};
        event.u.request.kind = NODE_REQUEST_EVICT;
        event.u.request.client = waiting->key;
        event.u.request.node = node;
        event.u.request.with_vouched = pack_read_bool(&with_vouched) && !with_vouched.failed;
        daemon_event(daemon, &event);
    }
}

/* ---- submit --------------------------------------------------------------------------------------------------------------- */

struct submit_job {
    struct job job;
    struct chunks *chunks;
    uint64_t serial, id;
    experiment_id experiment;
    char file[REQUEST_FILE_BYTES];
    char *text;
    size_t text_bytes;
    char *overrides[REQUEST_OVERRIDES_MAX];
    size_t override_count;
    int archive_fd;
    uint64_t archive_bytes;
    hash256 code, config_text;
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    size_t packed_bytes;
    int result;
    bool is_config_error;
    char error[CONFIG_ERROR_BYTES];
};

static int text_fd(const char *text, size_t bytes)
{
    int fd = memfd_create("shoal-config", MFD_CLOEXEC);
    if (fd >= 0 && write(fd, text, bytes) != (ssize_t)bytes) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static void submit_work(struct job *job)
{
    struct submit_job *submit = (struct submit_job *)job;
    uint8_t *scratch = malloc(CONFIG_SCRATCH_BYTES);
    struct config config;
    struct pack_writer writer;
    int fd = -1;
    if (scratch == NULL) {
        submit->result = ERR_MEMORY;
        return;
    }
    submit->result = config_parse_yaml(submit->file, submit->text, submit->text_bytes,
                                       (const char *const *)submit->overrides, submit->override_count, scratch,
                                       CONFIG_SCRATCH_BYTES, &config, submit->error);
    submit->is_config_error = submit->result != 0;
    if (submit->result == 0) {
        pack_writer_init(&writer, submit->packed, sizeof submit->packed);
        config_pack(&writer, &config);
        submit->packed_bytes = writer.used_bytes;
        submit->result = writer.failed ? ERR_FULL : 0;
    }
    if (submit->result == 0) {
        fd = text_fd(submit->text, submit->text_bytes);
        submit->result = fd < 0 ? ERR_IO
                                : chunks_put_blob_from_fd(submit->chunks, fd, submit->text_bytes, 0, &submit->config_text,
                                                          submit->error, sizeof submit->error);
    }
    if (submit->result == 0) {
        submit->result = chunks_put_blob_from_fd(submit->chunks, submit->archive_fd, submit->archive_bytes, 0,
                                                 &submit->code, submit->error, sizeof submit->error);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    free(scratch);
}

static void submit_free(struct submit_job *submit)
{
    for (size_t i = 0; i < submit->override_count; i++) {
        free(submit->overrides[i]);
    }
    if (submit->archive_fd >= 0) {
        (void)close(submit->archive_fd);
    }
    free(submit->text);
    free(submit);
}

static void submit_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct submit_job *submit = (struct submit_job *)job;
    struct daemon_client *client = local_find_client(daemon, submit->serial);
    if (submit->result != 0 && client != NULL) {
        local_reply_error(daemon, client, submit->id, EXIT_REFUSED, "%s",
                          submit->error[0] != '\0' ? submit->error : err_text(submit->result));
    } else if (submit->result == 0 && client != NULL) {
        struct local_request request = {.client = client, .id = submit->id};
        struct daemon_waiting *waiting = wait_for_core(daemon, &request);
        if (waiting != NULL) {
            waiting->experiment = submit->experiment;
            struct node_event event = {.kind = NODE_EVENT_REQUEST};
            event.u.request.kind = NODE_REQUEST_SUBMIT;
            event.u.request.client = waiting->key;
            event.u.request.experiment = submit->experiment;
            event.u.request.code = submit->code;
            event.u.request.code_bytes = submit->archive_bytes;
            event.u.request.config_text = submit->config_text;
            event.bytes = submit->packed;
            event.byte_count = (uint32_t)submit->packed_bytes;
            daemon_event(daemon, &event);
        }
    }
    submit_free(submit);
}

static void request_submit(struct daemon *daemon, struct local_request *request)
{
    struct submit_job *submit = calloc(1, sizeof *submit);
    if (submit == NULL) {
        return;
    }
    submit->archive_fd = -1;
    struct request_submit wanted;
    struct stat status;
    bool ok = request_submit_read(&request->map, &wanted) == 0 && request->fd >= 0 && fstat(request->fd, &status) == 0 &&
              S_ISREG(status.st_mode) && (uint64_t)status.st_size >= wanted.archive_bytes;
    submit->text = ok ? malloc(wanted.config_bytes + 1) : NULL;
    if (submit->text == NULL) {
        submit_free(submit);
        local_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                          "The request to submit is malformed: it wants `experiment`, `file`, `config` (at most 64 KiB), "
                          "`overrides` (at most %d texts), `bytes` and a descriptor with as many bytes.",
                          REQUEST_OVERRIDES_MAX);
        return;
    }
    submit->experiment = wanted.experiment;
    bytes_copy_text(submit->file, sizeof submit->file, wanted.file);
    memcpy(submit->text, wanted.config, wanted.config_bytes);
    submit->text[wanted.config_bytes] = '\0';
    submit->text_bytes = wanted.config_bytes;
    submit->archive_bytes = wanted.archive_bytes;
    for (uint32_t i = 0; i < wanted.override_count; i++) {
        submit->overrides[submit->override_count] = strndup(wanted.overrides[i].text, wanted.overrides[i].bytes);
        submit->override_count += submit->overrides[submit->override_count] != NULL;
    }
    submit->archive_fd = request->fd;
    request->fd = -1;
    submit->job = (struct job){.work = submit_work, .done = submit_done};
    submit->chunks = daemon->chunks;
    submit->serial = request->client->serial;
    submit->id = request->id;
    jobs_run(daemon->blob_jobs, &submit->job);
}

/* ---- workers -------------------------------------------------------------------------------------------------------------- */

static struct daemon_run *run_of(struct daemon *daemon, const struct daemon_client *client)
{
    struct daemon_run *run = client->slot >= 0 ? &daemon->runs[client->slot] : NULL;
    return run != NULL && run->client == client ? run : NULL;
}

static void forget_client(struct daemon_run *run)
{
    run->client->slot = -1;
    run->client = NULL;
    run->group_request = 0; /* its number means nothing on another connection */
}

static void worker_open(struct daemon *daemon, struct local_request *request)
{
    lease_token token;
    int slot = -1;
    if (request_token(&request->map, &token)) {
        slot = node_core_find_token(daemon->core, token);
    }
    struct daemon_run *run = slot >= 0 ? &daemon->runs[slot] : NULL;
    bool has_process = run != NULL && (run->state == RUN_RUNNING || run->state == RUN_SPAWNING);
    const struct view_experiment *experiment =
        has_process ? view_find_experiment(&daemon->core->view, run->prepare.u.worker.attempt.experiment) : NULL;
    struct local_reply reply;
    if (experiment == NULL || !experiment->known) {
        local_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                          "The token is not valid here (any more): the lease of this slot has ended.");
        return;
    }
    if (!local_reply_begin(&reply, request->id, true, 10)) {
        return;
    }
    /* One connection is one worker's: run and client name each other, or neither does. */
    struct daemon_run *before = run_of(daemon, request->client);
    if (before != NULL) {
        forget_client(before);
    }
    if (run->client != NULL) {
        forget_client(run);
    }
    run->client = request->client;
    request->client->slot = slot;
    const struct node_effect *effect = &run->prepare;
    char id[2 * EXPERIMENT_ID_BYTES + 1];
    bytes_to_hex(id, effect->u.worker.attempt.experiment.bytes, EXPERIMENT_ID_BYTES);
    struct pack_writer *w = &reply.writer;
    pack_text(w, "experiment");
    pack_text(w, id);
    pack_text(w, "trial");
    pack_u64(w, effect->u.worker.attempt.trial);
    pack_text(w, "attempt");
    pack_u64(w, effect->u.worker.attempt.number);
    pack_text(w, "generation");
    pack_u64(w, 1);
    pack_text(w, "rank");
    pack_u64(w, effect->u.worker.rank);
    pack_text(w, "size");
    pack_u64(w, run->size);
    pack_text(w, "seed");
    pack_u64(w, run->seed);
    pack_text(w, "hyperparameters");
    struct search_space space = config_search_space(experiment->config);
    if (search_trial_values(&space, experiment->config->seed, effect->u.worker.attempt.trial, w) != 0) {
        pack_map(w, 0);
    }
    pack_text(w, "host");
    pack_text(w, daemon->host);
    pack_text(w, "step");
    pack_u64(w, effect->u.worker.step);
    local_reply_send(daemon, request->client, &reply, -1);
    if (run->stop_reason[0] != '\0') {
        daemon_local_stop_notice(daemon, run, run->stop_reason); /* it was asked while the daemon was away */
    }
}

static void worker_group(struct daemon *daemon, struct local_request *request, struct daemon_run *run)
{
    uint64_t port = 0;
    if (!local_argument_u64(request, "port", &port) || port == 0 || port > UINT16_MAX) {
        local_reply_error(daemon, request->client, request->id, EXIT_USAGE, "worker_group wants a `port` of 1 to 65535.");
        return;
    }
    run->group_request = request->id;
    run->data_port = (uint32_t)port;
    struct node_event event = {.kind = NODE_EVENT_WORKER_LISTENS};
    event.u.worker.slot = (uint32_t)request->client->slot;
    event.u.worker.attempt = run->prepare.u.worker.attempt;
    event.u.worker.port = (uint32_t)port;
    daemon_event(daemon, &event);
}

void daemon_local_group_effect(struct daemon *daemon, const struct node_effect *effect)
{
    struct daemon_run *run = &daemon->runs[effect->u.worker.slot];
    struct local_reply reply;
    if (run->client == NULL || run->group_request == 0 || run->client->broken ||
        !local_reply_begin(&reply, run->group_request, true, 3)) {
        return;
    }
    run->group_request = 0;
    pack_text(&reply.writer, "generation");
    pack_u64(&reply.writer, effect->u.worker.generation);
    pack_text(&reply.writer, "key");
    pack_bin(&reply.writer, effect->u.worker.group_key, MESSAGE_KEY_BYTES);
    pack_text(&reply.writer, "members");
    pack_raw(&reply.writer, effect->bytes, effect->byte_count);
    local_reply_send(daemon, run->client, &reply, -1);
}

static void notice(struct daemon_client *client, const char *name, const char *key, const char *text, uint64_t number)
{
    uint8_t bytes[128];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 2);
    pack_text(&writer, "notice");
    pack_text(&writer, name);
    pack_text(&writer, key);
    if (text != NULL) {
        pack_text(&writer, text);
    } else {
        pack_u64(&writer, number);
    }
    queue(client, bytes, writer.used_bytes, -1);
}

void daemon_local_durable_effect(struct daemon *daemon, const struct node_effect *effect)
{
    struct daemon_run *run = &daemon->runs[effect->u.worker.slot];
    if (run->client != NULL && attempt_id_equal(&run->prepare.u.worker.attempt, &effect->u.worker.attempt)) {
        notice(run->client, "durable", "step", NULL, effect->u.worker.step);
    }
}

void daemon_local_stop_notice(struct daemon *daemon, struct daemon_run *run, const char *reason)
{
    (void)daemon;
    if (run->client != NULL) {
        notice(run->client, "stop", "reason", reason, 0);
    }
}

void daemon_local_forget_run(struct daemon *daemon, struct daemon_run *run)
{
    (void)daemon;
    forget_client(run);
}

static void worker_report(struct daemon *daemon, struct local_request *request, struct daemon_run *run)
{
    struct request_report report;
    if (request_report_read(&request->map, &report) != 0) {
        local_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                          "worker_report wants `group` (at most %d bytes), `step` and `metrics`, a map of names (at most %d "
                          "bytes) to numbers.",
                          REQUEST_GROUP_BYTES - 1, REQUEST_METRIC_BYTES - 1);
        return;
    }
    daemon_runs_report(daemon, run, report.group, report.step, report.metrics);
    reply_empty(daemon, request->client, request->id);
}

struct save_job {
    struct job job;
    struct chunks *chunks;
    uint64_t serial, id;
    uint32_t slot;
    attempt_id attempt;
    uint64_t step, bytes;
    uint8_t metrics[FACT_METRICS_BYTES_MAX]; /* when it was saved */
    uint32_t metrics_bytes;
    int fd;
    hash256 blob;
    int result;
    char error[256];
};

static void save_work(struct job *job)
{
    struct save_job *save = (struct save_job *)job;
    save->result = chunks_put_blob_from_fd(save->chunks, save->fd, save->bytes, 0, &save->blob, save->error,
                                           sizeof save->error);
    (void)close(save->fd);
}

static void save_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct save_job *save = (struct save_job *)job;
    struct daemon_client *client = local_find_client(daemon, save->serial);
    if (save->result == 0) {
        struct node_event event = {.kind = NODE_EVENT_CHECKPOINT};
        event.u.blob.slot = save->slot;
        event.u.blob.attempt = save->attempt;
        event.u.blob.step = save->step;
        event.u.blob.blob = save->blob;
        event.u.blob.bytes = save->bytes;
        event.bytes = save->metrics;
        event.byte_count = save->metrics_bytes;
        daemon_event(daemon, &event);
    } else {
        daemon_line(daemon, "the checkpoint of trial %u at step %llu could not be stored: %s", save->attempt.trial,
                    (unsigned long long)save->step, save->error);
    }
    if (client != NULL && save->result == 0) {
        reply_empty(daemon, client, save->id);
    } else if (client != NULL) {
        local_reply_error(daemon, client, save->id, EXIT_REFUSED, "%s", save->error);
    }
    free(save);
}

static void worker_save(struct daemon *daemon, struct local_request *request, struct daemon_run *run)
{
    struct save_job *save = calloc(1, sizeof *save);
    struct stat status;
    bool ok = save != NULL && local_argument_u64(request, "step", &save->step) &&
              local_argument_u64(request, "bytes", &save->bytes) && request->fd >= 0 &&
              fstat(request->fd, &status) == 0 && (uint64_t)status.st_size >= save->bytes;
    if (!ok) {
        free(save);
        local_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                          "worker_save wants `step`, `bytes` and a descriptor with as many bytes.");
        return;
    }
    save->job = (struct job){.work = save_work, .done = save_done};
    save->chunks = daemon->chunks;
    save->serial = request->client->serial;
    save->id = request->id;
    save->slot = (uint32_t)request->client->slot;
    save->attempt = run->prepare.u.worker.attempt;
    save->metrics_bytes = daemon_runs_metrics(run, save->metrics);
    save->fd = request->fd;
    request->fd = -1;
    jobs_run(daemon->blob_jobs, &save->job);
}

static void worker_load(struct daemon *daemon, struct local_request *request, const struct daemon_run *run)
{
    struct local_reply reply;
    if (hash256_is_none(run->prepare.u.worker.checkpoint)) {
        if (local_reply_begin(&reply, request->id, true, 3)) {
            pack_text(&reply.writer, "found");
            pack_bool(&reply.writer, false);
            pack_text(&reply.writer, "step");
            pack_u64(&reply.writer, 0);
            pack_text(&reply.writer, "bytes");
            pack_u64(&reply.writer, 0);
            local_reply_send(daemon, request->client, &reply, -1);
        }
    } else {
        query_worker_load(daemon, request, run);
    }
}

static bool worker_request(struct daemon *daemon, struct local_request *request, const char *op, size_t op_bytes)
{
    if (op_bytes < 7 || memcmp(op, "worker_", 7) != 0) {
        return false;
    }
    if (pack_text_is(op, op_bytes, "worker_open")) {
        worker_open(daemon, request);
        return true;
    }
    struct daemon_run *run = run_of(daemon, request->client);
    uint64_t step = 0;
    if (run == NULL) {
        local_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                          "This connection belongs to no worker (any more); begin with worker_open.");
    } else if (node_core_find_token(daemon->core, run->token) != request->client->slot) {
        local_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                          "The lease of this worker's slot has ended; nothing that it says counts any more.");
    } else if (pack_text_is(op, op_bytes, "worker_group")) {
        worker_group(daemon, request, run);
    } else if (pack_text_is(op, op_bytes, "worker_report")) {
        worker_report(daemon, request, run);
    } else if (pack_text_is(op, op_bytes, "worker_save")) {
        worker_save(daemon, request, run);
    } else if (pack_text_is(op, op_bytes, "worker_load")) {
        worker_load(daemon, request, run);
    } else if (pack_text_is(op, op_bytes, "worker_progress") && local_argument_u64(request, "step", &step)) {
        daemon_runs_progress(daemon, run, step);
        reply_empty(daemon, request->client, request->id);
    } else {
        return false;
    }
    return true;
}

/* ---- clients ---------------------------------------------------------------------------------------------------------------- */

static void handle(struct daemon *daemon, struct daemon_client *client, const struct request *decoded, int error, int fd)
{
    struct local_request request = {.client = client, .id = decoded->id, .map = decoded->map, .fd = fd};
    const char *op = decoded->op;
    size_t op_bytes = decoded->op_bytes;
    static const struct {
        const char *op;
        enum node_request_kind kind;
    } controls[] = {{"cancel", NODE_REQUEST_CANCEL}, {"pause", NODE_REQUEST_PAUSE}, {"resume", NODE_REQUEST_RESUME},
                  {"delete", NODE_REQUEST_DELETE}};
    bool done = error != 0;
    if (error == ERR_VERSION) {
        local_reply_error(daemon, client, request.id, EXIT_USAGE,
                          "This daemon speaks version %d of the local protocol and not %llu; use a client of its version.",
                          REQUEST_PROTOCOL_VERSION, (unsigned long long)decoded->version);
    } else if (error != 0) {
        local_reply_error(daemon, client, request.id != 0 ? request.id : 1, EXIT_USAGE,
                          "The request is not a map with `v`, `id` and `op`; see docs/wire.md.");
    }
    for (size_t i = 0; !done && i < sizeof controls / sizeof controls[0]; i++) {
        if (pack_text_is(op, op_bytes, controls[i].op)) {
            request_control(daemon, &request, controls[i].kind);
            done = true;
        }
    }
    if (!done && pack_text_is(op, op_bytes, "submit")) {
        request_submit(daemon, &request);
    } else if (!done && pack_text_is(op, op_bytes, "invite")) {
        request_invite(daemon, &request);
    } else if (!done && pack_text_is(op, op_bytes, "invite_revoke")) {
        request_revoke(daemon, &request);
    } else if (!done && pack_text_is(op, op_bytes, "evict")) {
        request_evict(daemon, &request);
    } else if (!done && pack_text_is(op, op_bytes, "withhold")) {
        request_slots(daemon, &request, NODE_REQUEST_WITHHOLD);
    } else if (!done && pack_text_is(op, op_bytes, "return")) {
        request_slots(daemon, &request, NODE_REQUEST_RETURN);
    } else if (!done && pack_text_is(op, op_bytes, "drain")) {
        request_drain(daemon, &request, NODE_REQUEST_DRAIN);
    } else if (!done && pack_text_is(op, op_bytes, "undrain")) {
        request_drain(daemon, &request, NODE_REQUEST_UNDRAIN);
    } else if (!done && pack_text_is(op, op_bytes, "leave")) {
        request_leave(daemon, &request);
    } else if (!done && !worker_request(daemon, &request, op, op_bytes) &&
               !query_request(daemon, &request, op, op_bytes)) {
        local_reply_error(daemon, client, request.id, EXIT_USAGE, "There is no request `%.*s`, or its arguments are wrong.",
                          (int)(op_bytes < 40 ? op_bytes : 40), op);
    }
    if (request.fd >= 0) {
        (void)close(request.fd);
    }
}

/* Takes whole frames that have been read. A frame may carry a descriptor; it is the one received with it, since clients
 * wait for the answer to such a request before they send another. */
static void take_frames(struct daemon *daemon, struct daemon_client *client)
{
    const uint8_t *bytes;
    size_t count;
    int fd, error;
    while (!client->broken && (error = frame_reader_next(&client->reader, &bytes, &count, 0, &fd)) != ERR_AGAIN) {
        if (error != 0) {
            client->broken = true;
            return;
        }
        struct request request;
        error = request_read(bytes, count, &request);
        handle(daemon, client, &request, error, request.wants_fd ? frame_reader_take_fd(&client->reader) : -1);
    }
}

static void read_client(struct daemon *daemon, struct daemon_client *client)
{
    for (int i = 0; i < 16 && !client->broken; i++) {
        int error = frame_reader_fill(&client->reader, client->fd);
        if (error == ERR_AGAIN) {
            return;
        }
        client->broken |= error != 0;
        if (error == 0 || error == ERR_CLOSED) {
            bool was_broken = client->broken;
            client->broken = false;
            take_frames(daemon, client);
            client->broken |= was_broken;
        }
    }
}

void daemon_local_drain(struct daemon *daemon, struct daemon_client *client)
{
    read_client(daemon, client);
}

static void close_client(struct daemon *daemon, struct daemon_client *client)
{
    struct daemon_run *run = run_of(daemon, client);
    if (run != NULL) {
        forget_client(run);
    }
    frame_reader_close(&client->reader);
    (void)close(client->fd);
    while (client->first != NULL) {
        struct client_frame *frame = client->first;
        client->first = frame->next;
        frame_free(frame);
    }
    free(client->buffer);
    free(client);
    daemon->client_count--;
}

static void accept_clients(struct daemon *daemon)
{
    int fd;
    while ((fd = accept4(daemon->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        struct daemon_client *client = daemon->client_count < DAEMON_CLIENTS_MAX ? calloc(1, sizeof *client) : NULL;
        uint8_t *buffer = client != NULL ? malloc(FRAME_BYTES_MAX + 4) : NULL;
        if (buffer == NULL) {
            free(client);
            (void)close(fd);
            daemon_line(daemon, "too many clients on the local socket: one was turned away");
            continue;
        }
        client->fd = fd;
        client->slot = -1;
        client->serial = ++daemon->request_id;
        client->buffer = buffer;
        frame_reader_init(&client->reader, buffer, FRAME_BYTES_MAX + 4);
        client->next = daemon->clients;
        daemon->clients = client;
        daemon->client_count++;
    }
}

int daemon_local_open(struct daemon *daemon, char error[256])
{
    char path[KEEP_PATH_BYTES + 16];
    (void)snprintf(path, sizeof path, "%s/shoald.sock", daemon->dir);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    /* A directory's path may be longer than an address holds: bind through its descriptor. */
    int directory = open(daemon->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/shoald.sock", directory);
    daemon->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)unlink(path); /* of an earlier daemon: the lock says that there is no other */
    mode_t mask = umask(0177);
    int failed = directory < 0 || daemon->listen_fd < 0 ||
                 bind(daemon->listen_fd, (struct sockaddr *)&address, sizeof address) != 0 ||
                 listen(daemon->listen_fd, 64) != 0;
    (void)umask(mask);
    if (failed) {
        (void)snprintf(error, 256, "The local socket %.150s cannot be made: %s.", path, strerror(errno));
    }
    if (directory >= 0) {
        (void)close(directory);
    }
    return failed ? ERR_IO : 0;
}

void daemon_local_close(struct daemon *daemon)
{
    while (daemon->clients != NULL) {
        struct daemon_client *client = daemon->clients;
        daemon->clients = client->next;
        flush(client);
        close_client(daemon, client);
    }
    if (daemon->listen_fd >= 0) {
        char path[KEEP_PATH_BYTES + 16];
        (void)close(daemon->listen_fd);
        (void)snprintf(path, sizeof path, "%s/shoald.sock", daemon->dir);
        (void)unlink(path);
    }
    while (daemon->waiting != NULL) {
        struct daemon_waiting *waiting = daemon->waiting;
        daemon->waiting = waiting->next;
        free(waiting);
    }
}

uint32_t daemon_local_poll(struct daemon *daemon, zmq_pollitem_t *items, uint32_t capacity)
{
    uint32_t count = 0;
    items[count++] = (zmq_pollitem_t){.fd = daemon->listen_fd, .events = ZMQ_POLLIN};
    for (struct daemon_client *client = daemon->clients; client != NULL && count < capacity; client = client->next) {
        short events = client->first != NULL ? ZMQ_POLLIN | ZMQ_POLLOUT : ZMQ_POLLIN;
        items[count++] = (zmq_pollitem_t){.fd = client->fd, .events = events};
    }
    return count;
}

void daemon_local_process(struct daemon *daemon, const zmq_pollitem_t *items, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        struct daemon_client *client = daemon->clients;
        while (client != NULL && client->fd != items[i].fd) {
            client = client->next;
        }
        if (client != NULL && (items[i].revents & ZMQ_POLLOUT) != 0) {
            flush(client);
        }
        if (client != NULL && (items[i].revents & (ZMQ_POLLIN | ZMQ_POLLERR)) != 0) {
            read_client(daemon, client);
        }
    }
    struct daemon_client **link = &daemon->clients;
    while (*link != NULL) {
        struct daemon_client *client = *link;
        if (client->broken) {
            *link = client->next;
            close_client(daemon, client);
        } else {
            link = &client->next;
        }
    }
    if (count > 0 && items[0].revents != 0) {
        accept_clients(daemon);
    }
}

void daemon_local_tick(struct daemon *daemon, uint64_t now_ms)
{
    query_tick(daemon, now_ms);
}
