#include "node/daemon/api/tokens.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "node/daemon/api/change.h"
#include "node/daemon/api/elsewhere.h"
#include "node/daemon/api/sessions.h"
#include "node/daemon/render/render.h"
#include "node/daemon/workers/trial_token.h"
#include "node/daemon/workers/workers.h"

#define DOOR_TOKEN_PREFIX "shoal_"
#define TOKEN_SECRET_BYTES 32
#define AUTH_BYTES 128 /* longer texts are no secret of ours */
#define TOKEN_ID_BYTES 8
#define TOKEN_ID_PREFIX_MIN 4
#define EXPIRES_S_DEFAULT (90ull * 86400)
#define TOLD_AGAIN_MS 60000
#define EXPIRES_S_MAX (3653ull * 86400)

/* What the bearer of a secret may do. */
struct rights {
    bool is_known, read_only, is_session;
    uint64_t expires_s;
    char name[FACT_NAME_BYTES]; /* of a token */
    struct daemon_worker *worker; /* whose trial's token it is; NULL: no trial's */
};

/* ---- secrets --------------------------------------------------------------------------------------------------- */

static void hash_of(const char *text, uint8_t out[HASH_BYTES])
{
    (void)crypto_generichash(out, HASH_BYTES, (const uint8_t *)text, strlen(text), NULL, 0);
}

/* The worker with this token, while its process runs and its lease lasts; NULL: there is none. */
static struct daemon_worker *find_worker(const struct daemon *daemon, const char *text)
{
    struct daemon_worker *found = NULL;
    for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
        struct daemon_worker *worker = &daemon->workers->slots[slot];
        bool runs = (worker->state == WORKER_RUNNING || worker->state == WORKER_SPAWNING) && !worker->last.is_taken;
        if (runs && trial_token_is(worker->token, text) && node_core_find_token(daemon->core, worker->token) == (int)slot) {
            found = worker;
        }
    }
    return found;
}

/* The rights of the secret that the request carries. */
static struct rights rights_of(const struct daemon *daemon, const struct client_request *request)
{
    char text[AUTH_BYTES];
    uint8_t hash[HASH_BYTES];
    struct fact_token token;
    struct rights rights = {0};
    if (!request_text(&request->map, "auth", text, sizeof text)) {
        return rights;
    }
    if (strncmp(text, SESSIONS_PREFIX, strlen(SESSIONS_PREFIX)) == 0) {
        const struct api_session *session = sessions_find(daemon, text);
        if (session != NULL) {
            rights = (struct rights){.is_known = true,
                                     .read_only = session->read_only,
                                     .is_session = true,
                                     .expires_s = session->expires_s};
        }
    } else if (strncmp(text, TRIAL_TOKEN_PREFIX, strlen(TRIAL_TOKEN_PREFIX)) == 0) {
        rights.worker = find_worker(daemon, text);
        rights.is_known = rights.read_only = rights.worker != NULL;
    } else if (strncmp(text, DOOR_TOKEN_PREFIX, strlen(DOOR_TOKEN_PREFIX)) == 0) {
        hash_of(text, hash); /* found by its hash, so that no comparison of secrets takes longer for a better guess */
        if (node_core_find_door_token(daemon->core, hash, &token)) {
            rights = (struct rights){.is_known = true, .read_only = token.read_only, .expires_s = token.expires_s};
            memcpy(rights.name, token.name, sizeof rights.name);
        }
    }
    sodium_memzero(text, sizeof text);
    return rights;
}

/* Tells of wrong tokens at most once a minute, and how many there were. */
static void tell_refused(struct daemon *daemon, uint64_t now_ms)
{
    if (daemon->api->tokens_untold > 0 && now_ms >= daemon->api->tokens_told_ms) {
        daemon_line(daemon, "HTTP: refused %llu request%s with a token, session or code that is not good",
                    (unsigned long long)daemon->api->tokens_untold, daemon->api->tokens_untold == 1 ? "" : "s");
        daemon->api->tokens_untold = 0;
        daemon->api->tokens_told_ms = now_ms + TOLD_AGAIN_MS;
    }
}

/* `has_secret`: it was a wrong one, and not none. */
static void note_refused(struct daemon *daemon, bool has_secret)
{
    daemon->api->tokens_refused++;
    daemon->api->tokens_untold += has_secret;
    tell_refused(daemon, daemon_now_ms());
}

void tokens_tick(struct daemon *daemon, uint64_t now_ms)
{
    tell_refused(daemon, now_ms);
}

bool tokens_admit(struct daemon *daemon, struct client_request *request, const struct api_row *row)
{
    if (row->kind == API_OPEN) {
        return true;
    }
    struct rights rights = rights_of(daemon, request);
    if (!rights.is_known) {
        note_refused(daemon, !pack_find(&request->map, "auth").failed);
        client_reply_error(daemon, request->client, request->id, EXIT_NO_TOKEN,
                           "The request carries no valid token; `shoal open` opens the pages, `shoal token create` "
                           "makes a token for a "
                           "program.");
        return false;
    }
    if (row->kind == API_TRIAL && rights.worker != NULL) {
        request->worker = rights.worker;
        return true;
    }
    if (row->kind == API_READS || row->kind == API_OWN || (row->kind == API_CHANGES && !rights.read_only)) {
        return true;
    }
    client_reply_error(daemon, request->client, request->id, EXIT_NO_RIGHTS,
                       row->kind == API_CHANGES && rights.worker != NULL
                           ? "The token is a trial's: it may read, and write to its own trial."
                       : row->kind == API_TRIAL
                           ? "A trial is written to by its own program, with the token that it finds in "
                             "MLFLOW_TRACKING_TOKEN."
                       : row->kind == API_CHANGES
                           ? "The token is read-only; make one with `shoal token create` without --read-only."
                           : "This request is not taken by HTTP.");
    return false;
}

bool tokens_name(const struct daemon *daemon, const struct client_request *request, char out[FACT_NAME_BYTES])
{
    struct rights rights = rights_of(daemon, request);
    memcpy(out, rights.name, sizeof rights.name);
    return rights.name[0] != '\0';
}

/* ---- sessions -------------------------------------------------------------------------------------------------- */

bool tokens_door_address(const struct daemon *daemon, char out[CONTROL_ADDRESS_BYTES])
{
    char host[CONTROL_HOST_BYTES] = "127.0.0.1";
    uint16_t port;
    if (daemon->api->http_port == 0) {
        return false;
    }
    (void)control_address_split(daemon->options.http, host, &port);
    bool is_any = strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0; /* this machine's own name will do */
    (void)snprintf(out, CONTROL_ADDRESS_BYTES, strchr(host, ':') != NULL && !is_any ? "[%s]:%u" : "%s:%u", is_any ? "localhost" : host,
                   (unsigned)daemon->api->http_port);
    return true;
}

static void make_code(struct daemon *daemon, const struct client_request *request)
{
    struct api_login *oldest = daemon->api->logins;
    for (int i = 1; i < API_LOGINS_MAX; i++) {
        oldest = daemon->api->logins[i].expires_ms < oldest->expires_ms ? &daemon->api->logins[i] : oldest;
    }
    char hex[2 * sizeof oldest->code + 1];
    randombytes_buf(oldest->code, sizeof oldest->code);
    oldest->expires_ms = daemon_now_ms() + TOKENS_LOGIN_MS;
    oldest->read_only = request_flag(&request->map, "read_only");
    bytes_to_hex(hex, oldest->code, sizeof oldest->code);
    struct client_reply reply;
    if (client_reply_begin(&reply, request->id, true, 3)) {
        pack_text(&reply.writer, "address");
        pack_text(&reply.writer, daemon->http_address);
        pack_text(&reply.writer, "code");
        pack_text(&reply.writer, hex);
        pack_text(&reply.writer, "expires_s");
        pack_u64(&reply.writer, TOKENS_LOGIN_MS / 1000);
        client_reply_send(daemon, request->client, &reply, -1);
    }
}

void tokens_login_code(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    if (daemon->http_address[0] == '\0') {
        client_reply_error(
            daemon, request->client, request->id, EXIT_REFUSED,
            "This node has no HTTP door now; shoal events says why, and shoald --http HOST:PORT opens one.");
        return;
    }
    make_code(daemon, request);
}

void tokens_node_login_code(struct daemon *daemon, struct client_request *request, int argument)
{
    static const char *const arguments[] = {"read_only", NULL};
    node_id node;
    (void)argument;
    if (!client_argument_node(daemon, request, &node)) {
        return;
    }
    if (!node_id_equal(node, daemon->keys.id)) {
        elsewhere_ask(daemon, request, node, "node_login_code", arguments);
    } else if (daemon->http_address[0] == '\0' || node_core_own_fact(daemon->core)->door.address[0] == '\0') {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "This node has no door for other machines now; shoald --http 0.0.0.0:7412 opens one.");
    } else {
        make_code(daemon, request);
        daemon_line_of(daemon, event_of_kind(EVENT_NODE_DOOR), "HTTP: a member asked for a link that opens one session here (shoal open --node)");
    }
}

void tokens_login(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    char hex[2 * sizeof daemon->api->logins->code + 1], session[SESSIONS_TEXT_BYTES];
    uint8_t code[sizeof daemon->api->logins->code];
    struct api_login *found = NULL;
    bool is_code = request_text(&request->map, "code", hex, sizeof hex) && strlen(hex) == 2 * sizeof code &&
                   bytes_from_hex(code, sizeof code, hex) == 0;
    for (int i = 0; i < API_LOGINS_MAX && is_code; i++) {
        struct api_login *login = &daemon->api->logins[i];
        if (login->expires_ms > daemon_now_ms() && sodium_memcmp(login->code, code, sizeof code) == 0) {
            found = login;
        }
    }
    if (found == NULL) {
        note_refused(daemon, true);
        client_reply_error(daemon, request->client, request->id, EXIT_NO_TOKEN,
                           "This link has been used, or is older than a minute; `shoal open` makes another one.");
        return;
    }
    bool read_only = found->read_only;
    *found = (struct api_login){0};
    sessions_begin(daemon, read_only, session);
    struct client_reply reply;
    if (client_reply_begin(&reply, request->id, true, 2)) {
        pack_text(&reply.writer, "session");
        pack_text(&reply.writer, session);
        pack_text(&reply.writer, "lives_s");
        pack_u64(&reply.writer, SESSIONS_LIFE_S);
        client_reply_send(daemon, request->client, &reply, -1);
    }
}

static void pack_pair(struct pack_writer *writer, const char *key, const char *text)
{
    pack_text(writer, key);
    pack_text(writer, text);
}

void tokens_session(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    struct rights rights = request->client->is_guest ? rights_of(daemon, request) : (struct rights){0};
    struct client_reply reply;
    char id[2 * NODE_ID_BYTES + 1], mesh[2 * 6 + 1];
    bytes_to_hex(id, daemon->keys.id.bytes, NODE_ID_BYTES);
    bytes_to_hex(mesh, daemon->mesh.bytes, 6);
    const attempt_id *attempt = rights.worker != NULL ? &rights.worker->prepare.u.worker.attempt : NULL;
    if (client_reply_begin(&reply, request->id, true, attempt != NULL ? 12 : 9)) {
        pack_pair(&reply.writer, "node", id);
        pack_pair(&reply.writer, "label", render_node_label(daemon->core, daemon->keys.id).text);
        pack_pair(&reply.writer, "name", daemon->name);
        pack_pair(&reply.writer, "mesh", daemon->mesh_name[0] != '\0' ? daemon->mesh_name : mesh);
        pack_pair(&reply.writer, "version", SHOAL_VERSION);
        pack_pair(&reply.writer, "token", rights.name);
        pack_text(&reply.writer, "read_only");
        pack_bool(&reply.writer, rights.read_only);
        pack_text(&reply.writer, "is_session");
        pack_bool(&reply.writer, rights.is_session);
        pack_text(&reply.writer, "expires_s");
        pack_u64(&reply.writer, rights.expires_s);
        if (attempt != NULL) {
            char experiment[2 * EXPERIMENT_ID_BYTES + 1];
            bytes_to_hex(experiment, attempt->experiment.bytes, EXPERIMENT_ID_BYTES);
            pack_pair(&reply.writer, "experiment", experiment);
            pack_text(&reply.writer, "trial");
            pack_u64(&reply.writer, attempt->trial);
            pack_text(&reply.writer, "attempt");
            pack_u64(&reply.writer, attempt->number);
        }
        client_reply_send(daemon, request->client, &reply, -1);
    }
}

/* ---- tokens ---------------------------------------------------------------------------------------------------- */

struct listing {
    const struct daemon *daemon;
    struct pack_writer rows;
    uint32_t count;
};

static bool list_token(void *context, const struct records_entry *entry)
{
    struct listing *listing = context;
    const struct daemon *daemon = listing->daemon;
    struct fact_token fact, valid;
    if (entry->record.kind != FACT_TOKEN || fact_token_read(&entry->record, &fact) != 0 || fact.expires_s == 0) {
        return true; /* a revocation by another member, without the token's name */
    }
    char id[2 * TOKEN_ID_BYTES + 1];
    bool is_good = node_core_find_door_token(daemon->core, entry->record.key, &valid);
    bool is_late = fact.expires_s <= node_core_mesh_wall_s(daemon->core);
    bytes_to_hex(id, entry->record.key, TOKEN_ID_BYTES);
    pack_map(&listing->rows, 7);
    pack_pair(&listing->rows, "id", id);
    pack_pair(&listing->rows, "name", fact.name);
    pack_pair(&listing->rows, "writer_label", render_node_label(daemon->core, entry->record.writer).text);
    pack_pair(&listing->rows, "state", is_good ? "good" : is_late && !fact.revoked ? "expired" : "revoked");
    pack_text(&listing->rows, "read_only");
    pack_bool(&listing->rows, fact.read_only);
    pack_text(&listing->rows, "created_s");
    pack_u64(&listing->rows, fact.created_s);
    pack_text(&listing->rows, "expires_s");
    pack_u64(&listing->rows, fact.expires_s);
    listing->count++;
    return !listing->rows.failed;
}

void tokens_list(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    struct client_reply reply;
    uint8_t *bytes = malloc(FRAME_BYTES_MAX - 1024);
    struct listing listing = {.daemon = daemon};
    if (bytes == NULL || !client_reply_begin(&reply, request->id, true, 1)) {
        free(bytes);
        request->client->broken = true;
        return;
    }
    pack_writer_init(&listing.rows, bytes, FRAME_BYTES_MAX - 1024);
    records_each(node_core_records(daemon->core), list_token, &listing);
    pack_text(&reply.writer, "tokens");
    pack_array(&reply.writer, listing.count);
    pack_raw(&reply.writer, bytes, listing.rows.used_bytes);
    reply.writer.failed |= listing.rows.failed;
    client_reply_send(daemon, request->client, &reply, -1);
    free(bytes);
}

void tokens_create(struct daemon *daemon, struct client_request *request, int kind)
{
    uint64_t expires_s = EXPIRES_S_DEFAULT;
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    _Static_assert(sizeof event.u.request.label >= FACT_NAME_BYTES, "a name fits");
    (void)client_argument_u64(request, "expires_s", &expires_s);
    if (expires_s == 0 || expires_s > EXPIRES_S_MAX) {
        client_reply_error(
            daemon, request->client, request->id, EXIT_USAGE,
            "A token lives for at least a second and at most ten years; give --expires 90d or the like.");
        return;
    }
    if (!request_text(&request->map, "name", event.u.request.label, FACT_NAME_BYTES) ||
        event.u.request.label[0] == '\0') {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "The request lacks `name`, what the token is for, in at most %d bytes.",
                           FACT_NAME_BYTES - 1);
        return;
    }
    struct change_waiting *waiting = change_wait(daemon, request);
    if (waiting == NULL) {
        return;
    }
    uint8_t secret[TOKEN_SECRET_BYTES];
    char hex[2 * TOKEN_SECRET_BYTES + 1];
    randombytes_buf(secret, sizeof secret);
    bytes_to_hex(hex, secret, sizeof secret);
    (void)snprintf(waiting->secret, sizeof waiting->secret, DOOR_TOKEN_PREFIX "%s", hex);
    sodium_memzero(secret, sizeof secret);
    sodium_memzero(hex, sizeof hex);
    hash_of(waiting->secret, waiting->invite_key);
    waiting->is_token = true;
    waiting->token.expires_s = node_core_mesh_wall_s(daemon->core) + expires_s;
    memcpy(event.u.request.public_key, waiting->invite_key, sizeof event.u.request.public_key);
    event.u.request.kind = (enum node_request_kind)kind;
    event.u.request.client = waiting->key;
    event.u.request.expires_s = waiting->token.expires_s;
    event.u.request.read_only = request_flag(&request->map, "read_only");
    daemon_event(daemon, &event);
}

struct token_search {
    char hex[2 * TOKEN_ID_BYTES + 1];
    size_t length;
    uint32_t count;
    uint8_t key[HASH_BYTES];
};

static bool match_token(void *context, const struct records_entry *entry)
{
    struct token_search *search = context;
    char hex[2 * TOKEN_ID_BYTES + 1];
    if (entry->record.kind != FACT_TOKEN || entry->record.key_bytes != HASH_BYTES) {
        return true;
    }
    bytes_to_hex(hex, entry->record.key, TOKEN_ID_BYTES);
    bool is_same = search->count > 0 && memcmp(search->key, entry->record.key, HASH_BYTES) == 0;
    if (strncmp(hex, search->hex, search->length) == 0 && !is_same) {
        memcpy(search->key, entry->record.key, HASH_BYTES);
        search->count++;
    }
    return true;
}

void tokens_revoke(struct daemon *daemon, struct client_request *request, int kind)
{
    struct token_search search = {0};
    if (!request_text(&request->map, "token", search.hex, sizeof search.hex)) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "The request lacks `token`, the id of a token.");
        return;
    }
    search.length = strlen(search.hex);
    if (search.length >= TOKEN_ID_PREFIX_MIN) {
        records_each(node_core_records(daemon->core), match_token, &search);
    }
    if (search.count == 0) {
        client_reply_unknown(daemon, request, "token", search.hex, "token ls");
        return;
    }
    if (search.count > 1) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "Several tokens have ids that begin with %s; give more digits.", search.hex);
        return;
    }
    struct change_waiting *waiting = change_wait(daemon, request);
    if (waiting != NULL) {
        waiting->is_token = true;
        memcpy(waiting->invite_key, search.key, sizeof waiting->invite_key);
        struct node_event event = {.kind = NODE_EVENT_REQUEST};
        event.u.request.kind = (enum node_request_kind)kind;
        event.u.request.client = waiting->key;
        memcpy(event.u.request.public_key, search.key, sizeof event.u.request.public_key);
        daemon_event(daemon, &event);
    }
}
