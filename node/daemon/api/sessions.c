#include "node/daemon/api/sessions.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"
#include "node/daemon/wire/request.h"

#define META_KEY "sessions"
#define SECRET_BYTES 32
#define ID_BYTES 8 /* of the hash: what people call a session by */
#define ID_TEXT_BYTES (2 * ID_BYTES + 1)
#define ID_PREFIX_MIN 4
#define STORED_BYTES_MAX (API_SESSIONS_MAX * 64 + 8)

/* ---- secrets --------------------------------------------------------------------------------------------------- */

/* Under a key that only this node has, so that a copy of the data directory, which gets a key of its own, has no session. */
static void hash_of(const struct daemon *daemon, const char *secret, uint8_t out[HASH_BYTES])
{
    static const char label[] = "shoal session 2";
    uint8_t key[32];
    (void)crypto_generichash(key, sizeof key, (const uint8_t *)label, sizeof label, daemon->keys.sign_secret, 32);
    (void)crypto_generichash(out, HASH_BYTES, (const uint8_t *)secret, strlen(secret), key, sizeof key);
    sodium_memzero(key, sizeof key);
}

static bool is_good(const struct api_session *session)
{
    return session->expires_s > daemon_wall_ms() / 1000;
}

/* A session is found by its hash, so that no comparison of secrets takes longer for a better guess. */
const struct api_session *sessions_find(const struct daemon *daemon, const char *secret)
{
    uint8_t hash[HASH_BYTES];
    hash_of(daemon, secret, hash);
    for (size_t i = 0; i < API_SESSIONS_MAX; i++) {
        const struct api_session *session = &daemon->api->sessions[i];
        if (is_good(session) && memcmp(session->hash, hash, sizeof hash) == 0) {
            return session;
        }
    }
    return NULL;
}

/* ---- the data directory ---------------------------------------------------------------------------------------- */

/* The table on its way to the disk, and who waits for it. */
struct store {
    struct job job;
    struct state *state;
    uint64_t client, id; /* the serial and the request of the client; serial 0: nobody waits */
    uint32_t ended;
    int code;
    size_t count;
    uint8_t bytes[STORED_BYTES_MAX];
};

void sessions_load(struct daemon *daemon)
{
    uint8_t bytes[STORED_BYTES_MAX];
    size_t count;
    struct pack_reader reader;
    if (daemon_meta_get(daemon, META_KEY, bytes, sizeof bytes, &count) != 0) {
        return;
    }
    pack_reader_init(&reader, bytes, count);
    uint32_t rows = pack_read_array(&reader);
    for (uint32_t i = 0; i < rows && i < API_SESSIONS_MAX && !reader.failed; i++) {
        struct api_session session;
        if (pack_read_array(&reader) != 4) {
            return;
        }
        pack_read_bin_exact(&reader, session.hash, sizeof session.hash);
        session.created_s = pack_read_u64(&reader);
        session.expires_s = pack_read_u64(&reader);
        session.read_only = pack_read_bool(&reader);
        if (!reader.failed) {
            daemon->api->sessions[i] = session;
        }
    }
}

static void write_table(struct job *job)
{
    struct store *store = (struct store *)job;
    struct state_op op = {.table = STATE_META,
                          .key = META_KEY,
                          .key_bytes = sizeof META_KEY - 1,
                          .value = store->bytes,
                          .value_bytes = store->count};
    store->code = state_put_batch(store->state, &op, 1);
}

static void table_written(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct store *store = (struct store *)job;
    struct client *client = store->client != 0 ? client_find(daemon, store->client) : NULL;
    struct client_reply reply;
    if (client != NULL && store->code != 0) {
        client_reply_error(daemon, client, store->id, EXIT_REFUSED,
                           "The end of the session could not be stored (%s), so it would be good again after the daemon's "
                           "next start; make room, and end it again.",
                           err_text(store->code));
    } else if (client != NULL && client_reply_begin(&reply, store->id, true, 1)) {
        pack_text(&reply.writer, "ended");
        pack_u64(&reply.writer, store->ended);
        client_reply_send(daemon, client, &reply, -1);
    }
    free(store);
}

/* Stores the table; `request`, if not NULL, is answered then. False: no memory is left. */
static bool store_table(struct daemon *daemon, const struct client_request *request, uint32_t ended)
{
    struct store *store = calloc(1, sizeof *store);
    struct pack_writer writer;
    uint32_t rows = 0;
    if (store == NULL) {
        return false;
    }
    for (size_t i = 0; i < API_SESSIONS_MAX; i++) {
        rows += is_good(&daemon->api->sessions[i]);
    }
    pack_writer_init(&writer, store->bytes, sizeof store->bytes);
    pack_array(&writer, rows);
    for (size_t i = 0; i < API_SESSIONS_MAX; i++) {
        const struct api_session *session = &daemon->api->sessions[i];
        if (is_good(session)) {
            pack_array(&writer, 4);
            pack_bin(&writer, session->hash, sizeof session->hash);
            pack_u64(&writer, session->created_s);
            pack_u64(&writer, session->expires_s);
            pack_bool(&writer, session->read_only);
        }
    }
    CHECK(!writer.failed);
    store->count = writer.used_bytes;
    store->state = daemon->state;
    store->client = request != NULL ? request->client->serial : 0;
    store->id = request != NULL ? request->id : 0;
    store->ended = ended;
    store->job = (struct job){.work = write_table, .done = table_written};
    jobs_run(daemon->persist_jobs, &store->job);
    return true;
}

/* ---- begin and end --------------------------------------------------------------------------------------------- */

void sessions_begin(struct daemon *daemon, bool read_only, char secret[SESSIONS_TEXT_BYTES])
{
    uint8_t bytes[SECRET_BYTES];
    char hex[2 * SECRET_BYTES + 1];
    struct api_session *place = &daemon->api->sessions[0];
    for (size_t i = 1; i < API_SESSIONS_MAX && is_good(place); i++) {
        struct api_session *session = &daemon->api->sessions[i];
        place = !is_good(session) || session->created_s < place->created_s ? session : place;
    }
    randombytes_buf(bytes, sizeof bytes);
    bytes_to_hex(hex, bytes, sizeof bytes);
    (void)snprintf(secret, SESSIONS_TEXT_BYTES, SESSIONS_PREFIX "%s", hex);
    sodium_memzero(bytes, sizeof bytes);
    sodium_memzero(hex, sizeof hex);
    uint64_t now_s = daemon_wall_ms() / 1000;
    *place = (struct api_session){.created_s = now_s, .expires_s = now_s + SESSIONS_LIFE_S, .read_only = read_only};
    hash_of(daemon, secret, place->hash);
    (void)store_table(daemon, NULL, 0); /* a session that is not stored ends with this daemon */
}

static void answer_when_stored(struct daemon *daemon, const struct client_request *request, uint32_t ended)
{
    if (!store_table(daemon, request, ended)) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "No memory is left; try again in some seconds.");
    }
}

void sessions_revoke(struct daemon *daemon, struct client_request *request, int argument)
{
    char wanted[ID_TEXT_BYTES] = "", id[ID_TEXT_BYTES];
    struct api_session *found[API_SESSIONS_MAX];
    uint32_t count = 0;
    bool all = request_flag(&request->map, "all");
    (void)argument;
    if (!all && !request_text(&request->map, "session", wanted, sizeof wanted)) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "The request lacks `session`, the id of a session.");
        return;
    }
    for (size_t i = 0; i < API_SESSIONS_MAX; i++) {
        struct api_session *session = &daemon->api->sessions[i];
        bytes_to_hex(id, session->hash, ID_BYTES);
        bool is_meant = all || (strlen(wanted) >= ID_PREFIX_MIN && strncmp(id, wanted, strlen(wanted)) == 0);
        if (is_good(session) && is_meant) {
            found[count++] = session;
        }
    }
    if (!all && count == 0) {
        client_reply_unknown(daemon, request, "session", wanted, "session ls");
        return;
    }
    if (!all && count > 1) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "Several sessions have ids that begin with %s; give more digits.", wanted);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        *found[i] = (struct api_session){0};
    }
    answer_when_stored(daemon, request, count);
}

/* The caller's session; NULL: the caller has none. */
static struct api_session *own(struct daemon *daemon, const struct client_request *request)
{
    char secret[SESSIONS_TEXT_BYTES];
    const struct api_session *session = NULL;
    if (request->client->is_guest && request_text(&request->map, "auth", secret, sizeof secret)) {
        session = sessions_find(daemon, secret);
        sodium_memzero(secret, sizeof secret);
    }
    return session != NULL ? &daemon->api->sessions[session - daemon->api->sessions] : NULL;
}

void sessions_end(struct daemon *daemon, struct client_request *request, int argument)
{
    struct api_session *session = own(daemon, request);
    (void)argument;
    if (session == NULL) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "The request carries no session, which could end; a token ends by `shoal token revoke`.");
        return;
    }
    *session = (struct api_session){0};
    answer_when_stored(daemon, request, 1);
}

void sessions_list(struct daemon *daemon, struct client_request *request, int argument)
{
    struct client_reply reply;
    const struct api_session *mine = own(daemon, request);
    uint32_t count = 0;
    (void)argument;
    for (size_t i = 0; i < API_SESSIONS_MAX; i++) {
        count += is_good(&daemon->api->sessions[i]);
    }
    if (!client_reply_begin(&reply, request->id, true, 1)) {
        return;
    }
    pack_text(&reply.writer, "sessions");
    pack_array(&reply.writer, count);
    for (size_t i = 0; i < API_SESSIONS_MAX; i++) {
        const struct api_session *session = &daemon->api->sessions[i];
        char id[ID_TEXT_BYTES];
        if (!is_good(session)) {
            continue;
        }
        bytes_to_hex(id, session->hash, ID_BYTES);
        pack_map(&reply.writer, 5);
        pack_text(&reply.writer, "id");
        pack_text(&reply.writer, id);
        pack_text(&reply.writer, "created_s");
        pack_u64(&reply.writer, session->created_s);
        pack_text(&reply.writer, "expires_s");
        pack_u64(&reply.writer, session->expires_s);
        pack_text(&reply.writer, "read_only");
        pack_bool(&reply.writer, session->read_only);
        pack_text(&reply.writer, "is_own");
        pack_bool(&reply.writer, session == mine);
    }
    client_reply_send(daemon, request->client, &reply, -1);
}
