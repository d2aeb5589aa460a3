#include "node/http/server.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/document.h"
#include "node/http/answer.h"
#include "node/http/arguments.h"
#include "node/http/ask.h"
#include "node/http/assets.h"
#include "node/http/export.h"
#include "node/http/metrics.h"
#include "node/http/mlflow/mlflow.h"
#include "node/http/openapi.h"

#define CONNECTION_BYTES (96u << 10) /* of memory for a head */
#define CONNECTION_S 60              /* without a byte in either direction */
#define BODY_MS 30000                /* until the whole request is there */
#define ADDING_MAX 64                /* connections beyond the most, on their way in or out */
#define PAIRS_BYTES (FRAME_BYTES_MAX - 1024)
#define EMPTY_ARCHIVE_BYTES 1024 /* of a tar archive without entries: two blocks of zeros */
#define WRONG_SECRET_MS 100

static struct MHD_Daemon *server;
static const struct server_options *options;

/* A connection from its acceptance to its end. */
struct visitor {
    struct visitor *next, *previous; /* the ones before it are younger */
    int fd;                          /* open as long as the visitor is listed */
    uint64_t since_ms;
    bool is_known; /* the daemon has taken its token */
    bool is_sent_away;
};

static pthread_mutex_t visitors_lock = PTHREAD_MUTEX_INITIALIZER;
static struct visitor *youngest, *oldest;
static unsigned visitor_count;

/* A request while its body arrives. */
struct body {
    char *bytes;
    size_t count, size;
    bool is_too_large;
    struct mlflow_upload *upload; /* a file that is taken as it comes; NULL: none */
};

/* A request that is whole. */
struct call {
    struct MHD_Connection *connection;
    struct visitor *visitor;
    const char *method, *path;
    const struct body *body;
    bool is_safe; /* GET or HEAD */
    char secret[GUARD_SECRET_BYTES];
    bool has_secret, is_cookie;
};

static const char *field(const struct call *call, const char *name)
{
    return MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND, name);
}

/* ---- visitors -------------------------------------------------------------------------------------------------- */

static uint64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static struct visitor *visitor_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

/* libmicrohttpd calls it when a connection begins, and before it closes the descriptor. */
static void note_visitor(void *context, struct MHD_Connection *connection, void **socket_context,
                         enum MHD_ConnectionNotificationCode code)
{
    struct visitor *visitor = *socket_context;
    (void)context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *socket_context = visitor = info != NULL ? calloc(1, sizeof *visitor) : NULL;
        if (visitor == NULL) {
            return;
        }
        visitor->fd = info->connect_fd;
        visitor->since_ms = now_ms();
        (void)pthread_mutex_lock(&visitors_lock);
        visitor->next = youngest;
        *(youngest != NULL ? &youngest->previous : &oldest) = visitor;
        youngest = visitor;
        visitor_count++;
        (void)pthread_mutex_unlock(&visitors_lock);
    } else if (visitor != NULL) {
        (void)pthread_mutex_lock(&visitors_lock);
        *(visitor->previous != NULL ? &visitor->previous->next : &youngest) = visitor->next;
        *(visitor->next != NULL ? &visitor->next->previous : &oldest) = visitor->previous;
        visitor_count--;
        (void)pthread_mutex_unlock(&visitors_lock);
        *socket_context = NULL;
        free(visitor);
    }
}

/* A request more on the same connection: what the one before has proven counts no more. */
static void begin_anew(struct visitor *visitor)
{
    (void)pthread_mutex_lock(&visitors_lock);
    visitor->is_known = false;
    visitor->since_ms = now_ms();
    (void)pthread_mutex_unlock(&visitors_lock);
}

/* The daemon knows the visitor's token: the visitor need not give way to others. */
static void keep(struct visitor *visitor)
{
    (void)pthread_mutex_lock(&visitors_lock);
    visitor->is_known = true;
    (void)pthread_mutex_unlock(&visitors_lock);
}

bool server_make_room(void)
{
    (void)pthread_mutex_lock(&visitors_lock);
    bool has_room = visitor_count < SERVER_CONNECTIONS_MAX;
    struct visitor *visitor = has_room ? NULL : oldest;
    while (visitor != NULL && (visitor->is_known || visitor->is_sent_away)) {
        visitor = visitor->previous;
    }
    if (visitor != NULL) {
        visitor->is_sent_away = true;
        (void)shutdown(visitor->fd, SHUT_RDWR); /* its thread finds the end, and closes */
    }
    (void)pthread_mutex_unlock(&visitors_lock);
    return has_room || visitor != NULL;
}

void server_finish(unsigned timeout_ms)
{
    unsigned served = 1;
    for (uint64_t until_ms = now_ms() + timeout_ms; served > 0 && now_ms() < until_ms;) {
        (void)pthread_mutex_lock(&visitors_lock);
        served = visitor_count;
        (void)pthread_mutex_unlock(&visitors_lock);
        (void)poll(NULL, 0, served > 0 ? 5 : 0);
    }
}

/* ---- where a request comes from -------------------------------------------------------------------------------- */

/* A sentence if the request may be another site's doing, else NULL. */
static const char *foreign(const struct call *call)
{
    const char *site = field(call, "Sec-Fetch-Site"), *origin = field(call, "Origin"),
               *type = field(call, "Content-Type");
    if (call->is_safe) {
        return NULL;
    }
    if (call->body->count > 0 && !guard_type_is_json(type)) {
        return "The body has to be application/json.";
    }
    if (!call->is_cookie) {
        return NULL; /* a browser does not add a token by itself */
    }
    if (site != NULL && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0) {
        return "The request comes from a page of another site.";
    }
    if (origin != NULL && !guard_origin_is(origin, field(call, "Host"), options->is_tls)) {
        return "The request comes from a page of another origin.";
    }
    if (!guard_csrf_is(call->secret, field(call, "X-Shoal-CSRF"))) {
        return "The request lacks the field X-Shoal-CSRF with the text that /api/v1/session tells.";
    }
    return NULL;
}

/* ---- the daemon ------------------------------------------------------------------------------------------------ */

/* An archive without entries and, behind it, the configuration. -1: no memory is left. */
static int submission(const struct arguments *arguments)
{
    static const uint8_t zeros[EMPTY_ARCHIVE_BYTES];
    (void)arguments;
    int fd = memfd_create("shoal-submit", MFD_CLOEXEC);
    if (fd >= 0 && write(fd, zeros, sizeof zeros) != (ssize_t)sizeof zeros) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* Draws an experiment's id. */
static void new_experiment(char out[17])
{
    uint8_t bytes[8];
    (void)getentropy(bytes, sizeof bytes);
    bytes[0] |= 1; /* no id is zero */
    for (size_t i = 0; i < sizeof bytes; i++) {
        (void)snprintf(out + 2 * i, 3, "%02x", (unsigned)bytes[i]);
    }
}

/* Sends a request with these pairs, and answers as the route says. */
static struct MHD_Response *ask(const struct call *call, const struct route *route, const struct arguments *arguments,
                                int *status)
{
    struct channel channel;
    struct pack_writer writer;
    bool is_submit = route->kind == ROUTE_SUBMIT;
    uint8_t *bytes = malloc(FRAME_BYTES_MAX);
    int passed = is_submit ? submission(arguments) : -1;
    if (bytes == NULL || (is_submit && passed < 0) || channel_open(&channel) != 0) {
        free(bytes);
        if (passed >= 0) {
            (void)close(passed);
        }
        return answer_problem(503, 1, "The daemon does not answer now; try again in some seconds.", status);
    }
    pack_writer_init(&writer, bytes, FRAME_BYTES_MAX);
    bool names_file = false;
    for (uint32_t i = 0; i < arguments->count; i++) {
        names_file |= strcmp(arguments->names[i], "file") == 0;
    }
    ask_begin(&writer, route->op, call->has_secret ? call->secret : NULL,
              arguments->count + (is_submit ? 2u + !names_file : 0));
    pack_raw(&writer, arguments->pairs.bytes, arguments->pairs.used_bytes);
    if (is_submit) {
        char id[17];
        new_experiment(id);
        pack_text(&writer, "experiment");
        pack_text(&writer, id);
        pack_text(&writer, "bytes");
        pack_u64(&writer, EMPTY_ARCHIVE_BYTES);
        if (!names_file) {
            pack_text(&writer, "file");
            pack_text(&writer, "the configuration");
        }
    }
    int code = writer.failed ? -1 : channel_send(&channel, bytes, writer.used_bytes, passed);
    free(bytes);
    if (passed >= 0) {
        (void)close(passed);
    }
    if (code != 0) {
        channel_close(&channel);
        return answer_problem(code == -1 ? 413 : 503, 1,
                              code == -1 ? "The request is larger than 1 MiB."
                                         : "The daemon does not answer now; try again in some seconds.",
                              status);
    }
    const char *accept = field(call, "Accept");
    bool wants_events = arguments->follows || (accept != NULL && strstr(accept, "text/event-stream") != NULL);
    bool wants_text = accept != NULL && strncmp(accept, "text/plain", 10) == 0;
    struct MHD_Response *response =
        answer_route(route, &channel, wants_events ? call->visitor->fd : -1, wants_text, status);
    if (*status == 200) {
        keep(call->visitor);
    }
    return response;
}

/* ---- the API --------------------------------------------------------------------------------------------------- */

/* A query on its way to the arguments. */
struct query {
    struct arguments *arguments;
    bool goes_on; /* `from` is given already */
};

static enum MHD_Result add_query(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct query *query = context;
    (void)kind;
    bool is_passed_over = query->goes_on && strcmp(name, "from") == 0;
    return is_passed_over || arguments_add_query(query->arguments, name, value) ? MHD_YES : MHD_NO;
}

/* A browser that comes back asks for the same address, and names the last event line that it has. True: that counts in
 * place of `from`. */
static bool go_on_from(const struct call *call, const struct route *route, struct arguments *arguments)
{
    const char *last = field(call, "Last-Event-ID");
    bool required;
    char next[24];
    if (last == NULL || last[0] == '\0' || strlen(last) > 18 || strspn(last, "0123456789") != strlen(last) ||
        routes_argument(route, "from", &required) == '\0') {
        return false;
    }
    (void)snprintf(next, sizeof next, "%llu", strtoull(last, NULL, 10) + 1);
    return arguments_add_query(arguments, "from", next);
}

static bool read_arguments(const struct call *call, const struct route_match *match, struct arguments *arguments)
{
    for (size_t i = 0; i < match->part_count; i++) {
        if (!arguments_add_part(arguments, match->parts[i].name, match->parts[i].name_bytes, match->parts[i].value,
                                match->parts[i].value_bytes)) {
            return false;
        }
    }
    if (call->is_safe) {
        struct query query = {arguments, go_on_from(call, match->route, arguments)};
        (void)MHD_get_connection_values(call->connection, MHD_GET_ARGUMENT_KIND, add_query, &query);
    } else if (call->body->count > 0) {
        (void)arguments_add_json(arguments, call->body->bytes, call->body->count);
    }
    return arguments->error[0] == '\0' && arguments_finish(arguments);
}

/* The daemon's words on the session of a browser, and the text that its changes have to carry. */
static struct MHD_Response *serve_session(const struct call *call, int *status)
{
    struct channel channel;
    msgpack_object reply = {.type = MSGPACK_OBJECT_NIL};
    char csrf[GUARD_CSRF_BYTES];
    struct MHD_Response *response = NULL;
    if (channel_open(&channel) != 0) {
        return answer_problem(503, 1, "The daemon does not answer now; try again in some seconds.", status);
    }
    int code = ask_document(&channel, "session", call->secret, &reply);
    msgpack_object_map pairs = document_pairs(&reply);
    if (code != 0 || !document_true(&reply, "ok")) {
        response = answer_reply(code, &reply, status);
    } else {
        msgpack_object_kv *more = msgpack_zone_malloc(channel.zone, (pairs.size + 1) * sizeof *more);
        if (more != NULL) {
            guard_csrf(call->secret, csrf);
            memcpy(more, pairs.ptr, pairs.size * sizeof *more);
            more[pairs.size].key = (msgpack_object){.type = MSGPACK_OBJECT_STR, .via.str = {4, "csrf"}};
            more[pairs.size].val =
                (msgpack_object){.type = MSGPACK_OBJECT_STR, .via.str = {GUARD_CSRF_BYTES - 1, csrf}};
            reply.via.map = (msgpack_object_map){pairs.size + 1, more};
            response = answer_reply(0, &reply, status);
        }
    }
    channel_close(&channel);
    return response;
}

static struct MHD_Response *serve_api(const struct call *call, int *status)
{
    struct route_match match;
    if (call->is_safe && call->is_cookie && strcmp(call->path, ROUTES_PREFIX "/session") == 0) {
        return serve_session(call, status);
    }
    routes_match(call->method, call->path, &match);
    if (match.route == NULL) {
        struct MHD_Response *response =
            match.has_path
                ? answer_problem(405, 0, "This path takes another method; the field Allow names those.", status)
                : answer_problem(404, 0, "There is no such path; /api/v1/openapi.json lists all.", status);
        if (response != NULL && match.has_path) {
            (void)MHD_add_response_header(response, "Allow", match.allowed);
        }
        return response;
    }
    struct arguments *arguments = malloc(sizeof *arguments);
    uint8_t *pairs = malloc(PAIRS_BYTES);
    if (arguments == NULL || pairs == NULL) {
        free(arguments);
        free(pairs);
        return NULL;
    }
    arguments_init(arguments, match.route, pairs, PAIRS_BYTES);
    struct MHD_Response *response;
    if (!call->has_secret) { /* before anything is said about the arguments */
        response = answer_problem(
            401, 6,
            "The request carries no token; `shoal open` opens the pages, `shoal token create` makes a token for a "
            "program.",
            status);
    } else if (!read_arguments(call, &match, arguments)) {
        response = answer_problem(400, 2, arguments->error, status);
    } else if (match.route->kind == ROUTE_EXPORT) {
        char experiment[64];
        (void)snprintf(experiment, sizeof experiment, "%.*s", (int)match.parts[0].value_bytes, match.parts[0].value);
        response = export_answer(call->secret, experiment,
                                 MHD_lookup_connection_value(call->connection, MHD_GET_ARGUMENT_KIND, "as"), status);
    } else {
        response = ask(call, match.route, arguments, status);
    }
    free(arguments);
    free(pairs);
    return response;
}

/* ---- pages ----------------------------------------------------------------------------------------------------- */

/* Whether another request may follow on the connection: where each head has passed the gate (sequence.h), and this
 * request has no body. It spares the files of the pages a handshake each. */
static bool may_go_on(const struct call *call)
{
    return options->is_tls && call->is_safe && field(call, "Content-Length") == NULL &&
           field(call, "Transfer-Encoding") == NULL;
}

static struct MHD_Response *serve_asset(const struct call *call, const char *name, int *status)
{
    const struct asset *asset = assets_find(name);
    if (asset == NULL) {
        return answer_problem(404, 0, "There is no such file.", status);
    }
    const char *known = field(call, "If-None-Match");
    bool is_known = known != NULL && strcmp(known, asset->tag) == 0;
    struct MHD_Response *response = MHD_create_response_from_buffer(
        is_known ? 0 : asset->count, (void *)(uintptr_t)asset->bytes, MHD_RESPMEM_PERSISTENT);
    if (response != NULL) {
        *status = is_known ? 304 : 200;
        (void)MHD_add_response_header(response, "Content-Type", asset->type);
        (void)MHD_add_response_header(response, "ETag", asset->tag);
        answer_add_fields(response, ANSWER_POLICY_PAGES, "no-cache");
        if (may_go_on(call)) {
            (void)MHD_del_response_header(response, "Connection", "close");
        }
    }
    return response;
}

/* A one-time code for a session: the daemon's answer becomes the cookie, and the browser goes on to the pages. */
static struct MHD_Response *serve_login(const struct call *call, int *status)
{
    static const struct route route = {.method = "GET", .path = "", .op = "login", .arguments = "code!:t"};
    const char *code = MHD_lookup_connection_value(call->connection, MHD_GET_ARGUMENT_KIND, "code");
    uint8_t bytes[512], pairs[256];
    char session[GUARD_SECRET_BYTES] = "", cookie[GUARD_SECRET_BYTES + 128];
    struct arguments arguments;
    struct channel channel;
    struct pack_writer writer;
    msgpack_object reply;
    arguments_init(&arguments, &route, pairs, sizeof pairs);
    if (code == NULL || strlen(code) > 64 || !arguments_add_query(&arguments, "code", code)) {
        return answer_problem(400, 2, "The link is not whole; `shoal open` makes another one.", status);
    }
    pack_writer_init(&writer, bytes, sizeof bytes);
    ask_begin(&writer, "login", NULL, arguments.count);
    pack_raw(&writer, arguments.pairs.bytes, arguments.pairs.used_bytes);
    if (channel_open(&channel) != 0) {
        return answer_problem(503, 1, "The daemon does not answer now; try again in some seconds.", status);
    }
    bool is_answered = channel_send(&channel, bytes, writer.used_bytes, -1) == 0 &&
                       channel_next(&channel, CHANNEL_ANSWER_MS, &reply, NULL) == 0;
    bool is_good = is_answered && document_true(&reply, "ok");
    unsigned long long lives_s = is_good ? document_number(&reply, "lives_s") : 0;
    if (is_good) {
        document_text(&reply, "session", session, sizeof session);
    }
    channel_close(&channel);
    if (!is_good) {
        return answer_problem(
            401, 6, "This link has been used, or is older than a minute; `shoal open` makes another one.", status);
    }
    (void)snprintf(cookie, sizeof cookie, "%s=%s; Path=/; HttpOnly; SameSite=Strict; Max-Age=%llu%s", options->cookie,
                   session, lives_s, options->is_tls ? "; Secure" : "");
    struct MHD_Response *response = answer_text(303, "text/plain; charset=utf-8", "", status);
    if (response != NULL) {
        (void)MHD_add_response_header(response, "Set-Cookie", cookie);
        (void)MHD_add_response_header(response, "Location", "/");
    }
    return response;
}

/* Has the browser forget its cookie. */
static void take_cookie_back(struct MHD_Response *response)
{
    char cookie[128];
    (void)snprintf(cookie, sizeof cookie, "%s=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0%s", options->cookie,
                   options->is_tls ? "; Secure" : "");
    if (response != NULL) {
        (void)MHD_add_response_header(response, "Set-Cookie", cookie);
    }
}

/* Ends the session of the cookie, and with it the cookie. */
static struct MHD_Response *serve_logout(const struct call *call, int *status)
{
    struct channel channel;
    msgpack_object reply = {.type = MSGPACK_OBJECT_NIL};
    if (channel_open(&channel) != 0) {
        return answer_problem(503, 1, "The daemon does not answer now; try again in some seconds.", status);
    }
    int code = ask_document(&channel, "logout", call->has_secret ? call->secret : NULL, &reply);
    struct MHD_Response *response = answer_reply(code, &reply, status);
    channel_close(&channel);
    take_cookie_back(response);
    return response;
}

/* ---- a request ------------------------------------------------------------------------------------------------- */

static bool begins(const char *path, const char *prefix)
{
    size_t bytes = strlen(prefix);
    return strncmp(path, prefix, bytes) == 0 && (path[bytes] == '/' || path[bytes] == '\0');
}

static struct MHD_Response *serve(struct call *call, int *status)
{
    if (!guard_host_is_ours(field(call, "Host"), options->hosts, options->host_count, options->is_beyond)) {
        return answer_problem(403, 0,
                              "The field Host names another machine than this one; shoald --http-host NAME adds a name "
                              "by which people reach it.",
                              status);
    }
    if (call->body->is_too_large) {
        return answer_problem(413, 2, "The body is larger than 1 MiB.", status);
    }
    call->has_secret = guard_secret(field(call, "Authorization"), field(call, "Cookie"), options->cookie, call->secret,
                                    &call->is_cookie);
    const char *why = foreign(call);
    if (why != NULL) {
        return answer_problem(strstr(why, "application/json") != NULL ? 415 : 403, 0, why, status);
    }
    if (strcmp(call->path, ROUTES_PREFIX "/openapi.json") == 0 && call->is_safe) {
        return openapi_answer(status);
    }
    if (strcmp(call->path, ROUTES_PREFIX "/session") == 0 && strcmp(call->method, "DELETE") == 0) {
        return serve_logout(call, status);
    }
    if (begins(call->path, ROUTES_PREFIX)) {
        return serve_api(call, status);
    }
    const char *mlflow =
        begins(call->path, "/mlflow") ? call->path + strlen("/mlflow") : call->path; /* a prefix that people may set */
    if (mlflow_has(mlflow)) {
        const struct mlflow_call asked = {.connection = call->connection,
                                          .method = call->method,
                                          .path = mlflow,
                                          .body = call->body->bytes,
                                          .body_bytes = call->body->count,
                                          .secret = call->has_secret ? call->secret : NULL};
        return mlflow_answer(&asked, status);
    }
    if (strcmp(call->path, "/metrics") == 0 && call->is_safe) {
        return metrics_answer(call->has_secret ? call->secret : NULL, field(call, "Accept"), status);
    }
    if (strcmp(call->path, "/healthz") == 0 && call->is_safe) {
        return answer_text(200, "text/plain; charset=utf-8", "OK\n", status);
    }
    if (strcmp(call->path, "/login") == 0 && strcmp(call->method, "GET") == 0) {
        return serve_login(call, status);
    }
    if (strcmp(call->path, "/logout") == 0 && strcmp(call->method, "POST") == 0) {
        return serve_logout(call, status);
    }
    if (call->is_safe && strcmp(call->path, "/") == 0) {
        return serve_asset(call, "index.html", status);
    }
    if (call->is_safe && begins(call->path, "/assets") && strlen(call->path) > 8) {
        return serve_asset(call, call->path + 8, status);
    }
    return answer_problem(404, 0, "There is no such path; / has the pages, /api/v1/openapi.json lists the API.",
                          status);
}

/* Begins an upload, if the request is one; what forbids other requests (serve, foreign) forbids it, too, and then it is
 * a body as others. */
static bool begin_upload(struct call *call, struct body *body)
{
    const char *path = begins(call->path, "/mlflow") ? call->path + strlen("/mlflow") : call->path;
    bool is_ours = guard_host_is_ours(field(call, "Host"), options->hosts, options->host_count, options->is_beyond);
    if (!mlflow_is_upload(call->method, path) || !is_ours) {
        return true;
    }
    call->has_secret = guard_secret(field(call, "Authorization"), field(call, "Cookie"), options->cookie, call->secret,
                                    &call->is_cookie);
    if (call->is_cookie) {
        return true;
    }
    const struct mlflow_call asked = {.method = "PUT", .path = path, .secret = call->has_secret ? call->secret : NULL};
    body->upload = mlflow_upload_begin(&asked);
    explicit_bzero(call->secret, sizeof call->secret);
    if (body->upload != NULL && mlflow_upload_is_good(body->upload)) {
        keep(call->visitor);
    }
    return body->upload != NULL;
}

static bool take_body(struct body *body, const char *bytes, size_t count)
{
    if (body->count + count > ARGUMENTS_BODY_BYTES_MAX) {
        body->is_too_large = true;
        return true;
    }
    if (body->count + count > body->size) {
        size_t size = 2 * (body->count + count);
        char *grown = realloc(body->bytes, size);
        if (grown == NULL) {
            return false;
        }
        body->bytes = grown;
        body->size = size;
    }
    memcpy(body->bytes + body->count, bytes, count);
    body->count += count;
    return true;
}

/* Takes a piece of the request's body. False: it has taken too long, or no memory is left. A file of a known visitor may
 * take its time. */
static bool take_piece(struct body *body, const struct visitor *visitor, const char *bytes, size_t count)
{
    bool is_in_time = now_ms() - visitor->since_ms < BODY_MS;
    if (body->upload == NULL) {
        return is_in_time && take_body(body, bytes, count);
    }
    mlflow_upload_take(body->upload, bytes, count);
    return is_in_time || mlflow_upload_is_good(body->upload);
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *upload, size_t *upload_bytes, void **state)
{
    static const struct timespec wrong = {0, WRONG_SECRET_MS * 1000000L};
    struct body *body = *state;
    struct visitor *visitor = visitor_of(connection);
    (void)context;
    (void)version;
    if (body == NULL) {
        body = *state = visitor != NULL ? calloc(1, sizeof *body) : NULL;
        if (body != NULL) {
            begin_anew(visitor);
        }
        struct call begun = {.connection = connection, .visitor = visitor, .method = method, .path = url};
        return body != NULL && begin_upload(&begun, body) ? MHD_YES : MHD_NO;
    }
    if (*upload_bytes > 0) {
        bool is_taken = take_piece(body, visitor, upload, *upload_bytes);
        *upload_bytes = 0;
        return is_taken ? MHD_YES : MHD_NO;
    }
    int status = 500;
    struct call call = {.connection = connection, .visitor = visitor, .method = method, .path = url, .body = body};
    call.is_safe = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    struct mlflow_upload *file = body->upload;
    body->upload = NULL;
    struct MHD_Response *response = file != NULL ? mlflow_upload_end(file, &status) : serve(&call, &status);
    explicit_bzero(call.secret, sizeof call.secret);
    if (status == 401) {
        (void)nanosleep(&wrong, NULL); /* a guess costs its connection this time */
    }
    if (response == NULL) {
        response = answer_problem(503, 0, "No memory is left; try again in some seconds.", &status);
    }
    if (response == NULL) {
        return MHD_NO;
    }
    enum MHD_Result queued = MHD_queue_response(connection, (unsigned)status, response);
    MHD_destroy_response(response);
    return queued;
}

static void forget(void *context, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode code)
{
    struct body *body = *state;
    (void)context;
    (void)connection;
    (void)code;
    if (body != NULL) {
        if (body->upload != NULL) {
            mlflow_upload_drop(body->upload);
        }
        free(body->bytes);
        free(body);
    }
}

bool server_start(const struct server_options *given)
{
    options = given;
    server = MHD_start_daemon(MHD_USE_NO_LISTEN_SOCKET | MHD_USE_THREAD_PER_CONNECTION |
                                  MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC,
                              0, NULL, NULL, handle, NULL, MHD_OPTION_NOTIFY_COMPLETED, forget, NULL,
                              MHD_OPTION_CONNECTION_LIMIT, (unsigned)SERVER_CONNECTIONS_MAX + ADDING_MAX,
                              MHD_OPTION_NOTIFY_CONNECTION, note_visitor, NULL, MHD_OPTION_CONNECTION_TIMEOUT,
                              (unsigned)CONNECTION_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
                              MHD_OPTION_THREAD_STACK_SIZE, (size_t)ARGUMENTS_STACK_BYTES, MHD_OPTION_END);
    return server != NULL;
}

void server_add(int fd, const void *address, size_t address_bytes)
{
    (void)MHD_add_connection(server, fd, address, (socklen_t)address_bytes); /* closes the descriptor if it fails */
}
