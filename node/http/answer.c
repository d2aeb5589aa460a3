#include "node/http/answer.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/document.h"
#include "base/err.h"
#include "node/http/ask.h"

#define KEEP_ALIVE_MS 15000
#define EVENT_BLOCK_BYTES 4096

/* ---- fields, problems, texts ----------------------------------------------------------------------------------- */

void answer_add_fields(struct MHD_Response *response, const char *policy, const char *cache)
{
    static const char *const fields[][2] = {{"X-Content-Type-Options", "nosniff"},
                                            {"Referrer-Policy", "no-referrer"},
                                            {"X-Frame-Options", "DENY"},
                                            {"Cross-Origin-Resource-Policy", "same-origin"},
                                            {"Cross-Origin-Opener-Policy", "same-origin"},
                                            {"Connection", "close"}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        (void)MHD_add_response_header(response, fields[i][0], fields[i][1]);
    }
    (void)MHD_add_response_header(response, "Content-Security-Policy", policy);
    (void)MHD_add_response_header(response, "Cache-Control", cache);
}

static struct MHD_Response *of_bytes(char *bytes, size_t count, const char *type)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(count, bytes, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        free(bytes);
        return NULL;
    }
    (void)MHD_add_response_header(response, "Content-Type", type);
    answer_add_fields(response, ANSWER_POLICY_DATA, "no-store");
    return response;
}

static void write_text(FILE *out, const char *text)
{
    const msgpack_object value = {.type = MSGPACK_OBJECT_STR, .via.str = {(uint32_t)strlen(text), text}};
    (void)document_write_json(out, &value);
}

static const char *title_of(int status)
{
    switch (status) {
    case 400:
        return "Bad Request";
    case 401:
        return "Unauthorized";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 409:
        return "Conflict";
    case 413:
        return "Content Too Large";
    case 415:
        return "Unsupported Media Type";
    case 421:
        return "Misdirected Request";
    case 503:
        return "Service Unavailable";
    case 504:
        return "Gateway Timeout";
    default:
        return "Error";
    }
}

struct MHD_Response *answer_problem(int http_status, int code, const char *detail, int *status)
{
    char *bytes = NULL;
    size_t count = 0;
    FILE *out = open_memstream(&bytes, &count);
    *status = http_status;
    if (out == NULL) {
        return NULL;
    }
    (void)fprintf(out, "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%d,\"code\":%d,\"detail\":",
                  title_of(http_status), http_status, code);
    write_text(out, detail);
    (void)fputs("}\n", out);
    if (fclose(out) != 0) {
        free(bytes);
        return NULL;
    }
    struct MHD_Response *response = of_bytes(bytes, count, "application/problem+json");
    if (response != NULL && http_status == 401) {
        (void)MHD_add_response_header(response, "WWW-Authenticate", "Bearer realm=\"shoal\"");
    }
    if (response != NULL && http_status == 503) {
        (void)MHD_add_response_header(response, "Retry-After", "2");
    }
    return response;
}

struct MHD_Response *answer_text(int http_status, const char *type, const char *text, int *status)
{
    char *copy = strdup(text);
    *status = http_status;
    return copy != NULL ? of_bytes(copy, strlen(copy), type) : NULL;
}

/* The daemon's error as a problem. */
static struct MHD_Response *of_refusal(const msgpack_object *reply, int *status)
{
    static const int statuses[] = {[1] = 409, [2] = 400, [4] = 404, [5] = 504, [6] = 401, [7] = 403};
    char detail[2048];
    uint64_t code = document_number(reply, "code");
    document_text(reply, "error", detail, sizeof detail);
    if (document_number(reply, "id") == 0) { /* turned away before it was read */
        return answer_problem(503, (int)code, detail, status);
    }
    int http_status = code < sizeof statuses / sizeof statuses[0] && statuses[code] != 0 ? statuses[code] : 409;
    return answer_problem(http_status, (int)code, detail, status);
}

static struct MHD_Response *of_failure(int code, int *status)
{
    if (code == ERR_TIMEOUT) {
        return answer_problem(504, 5, "The daemon has not answered within a minute; try again.", status);
    }
    if (code == ERR_FULL) {
        return answer_problem(409, 1, "The document is larger than 256 MiB; ask for less at a time.", status);
    }
    return answer_problem(
        503, 1, "The daemon does not answer now: it is starting, or has ended; try again in some seconds.", status);
}

/* ---- documents ------------------------------------------------------------------------------------------------- */

/* Receives the next reply that is no progress. */
static int next(struct channel *channel, msgpack_object *out, int *fd)
{
    int code;
    do {
        code = channel_next(channel, CHANNEL_ANSWER_MS, out, fd);
    } while (code == 0 && document_has(out, "progress"));
    return code;
}

struct MHD_Response *answer_reply(int code, const msgpack_object *reply, int *status)
{
    if (code != 0 || !document_true(reply, "ok")) {
        return code != 0 ? of_failure(code, status) : of_refusal(reply, status);
    }
    char *bytes = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&bytes, &size);
    bool is_written = out != NULL && document_write_reply_json(out, reply);
    if (out == NULL || fclose(out) != 0 || !is_written) {
        free(bytes);
        return NULL;
    }
    *status = 200;
    return of_bytes(bytes, size, "application/json");
}

/* All replies as one document (`one`: only the first). */
static struct MHD_Response *of_document(struct channel *channel, bool one, int *status)
{
    msgpack_object whole = {.type = MSGPACK_OBJECT_NIL};
    int code = one ? channel_next(channel, CHANNEL_ANSWER_MS, &whole, NULL) : ask_collect(channel, &whole);
    return answer_reply(code, &whole, status);
}

/* The list `targets` of the reply. */
static struct MHD_Response *of_targets(struct channel *channel, int *status)
{
    msgpack_object whole = {.type = MSGPACK_OBJECT_NIL};
    int code = ask_collect(channel, &whole);
    if (code != 0 || !document_true(&whole, "ok")) {
        return answer_reply(code, &whole, status);
    }
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    bool is_written = out != NULL && document_write_json(out, document_find(&whole, "targets"));
    if (out == NULL || fclose(out) != 0 || !is_written) {
        free(text);
        return NULL;
    }
    *status = 200;
    return of_bytes(text, size, "application/json");
}

/* What a trial ran on: a map that comes packed. */
static struct MHD_Response *of_packed(struct channel *channel, int *status)
{
    msgpack_object reply, map = {.type = MSGPACK_OBJECT_NIL};
    int code = next(channel, &reply, NULL);
    if (code != 0 || !document_true(&reply, "ok")) {
        return code != 0 ? of_failure(code, status) : of_refusal(&reply, status);
    }
    const msgpack_object *bytes = document_find(&reply, "bytes");
    if (bytes->type == MSGPACK_OBJECT_BIN &&
        document_read(channel->zone, (const uint8_t *)bytes->via.bin.ptr, bytes->via.bin.size, &map) != 0) {
        map.type = MSGPACK_OBJECT_NIL;
    }
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    bool is_written = out != NULL && fputs("{\"platform\":", out) != EOF && document_write_json(out, &map) &&
                      fputs("}\n", out) != EOF;
    if (out == NULL || fclose(out) != 0 || !is_written) {
        free(text);
        return NULL;
    }
    *status = 200;
    return of_bytes(text, size, "application/json");
}

/* Writes what a reply has: the bytes themselves, or the reply as JSON. False: no memory is left. */
static bool write_piece(FILE *out, const msgpack_object *reply, bool as_text, bool is_first)
{
    const msgpack_object *bytes = document_find(reply, "bytes");
    if (as_text) {
        size_t count = bytes->type == MSGPACK_OBJECT_BIN ? bytes->via.bin.size : 0;
        return count == 0 || fwrite(bytes->via.bin.ptr, 1, count, out) == count;
    }
    return fputs(is_first ? "" : ",", out) != EOF && document_write_reply_json(out, reply);
}

static struct MHD_Response *of_pieces(struct channel *channel, bool as_text, int *status)
{
    char *bytes = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&bytes, &size);
    bool end = false, is_first = true, is_written = out != NULL;
    int code = 0;
    struct MHD_Response *response = NULL;
    if (out != NULL && !as_text) {
        (void)fputs("{\"pieces\":[", out);
    }
    while (!end && is_written && code == 0 && response == NULL) {
        msgpack_object reply;
        code = next(channel, &reply, NULL);
        if (code == 0 && !document_true(&reply, "ok")) {
            response = of_refusal(&reply, status);
        } else if (code == 0) {
            end = document_true(&reply, "end");
            is_written = write_piece(out, &reply, as_text, is_first);
            is_first = false;
            channel_forget(channel);
        }
    }
    if (out != NULL) {
        (void)fputs(as_text ? "" : "]}\n", out);
        is_written = fclose(out) == 0 && is_written;
    }
    if (response != NULL || code != 0 || !is_written) {
        free(bytes);
        return response != NULL ? response : code != 0 ? of_failure(code, status) : NULL;
    }
    *status = 200;
    return of_bytes(bytes, size, as_text ? "text/plain; charset=utf-8" : "application/json");
}

/* ---- streams --------------------------------------------------------------------------------------------------- */

struct stream {
    struct channel channel;
    int client_fd;
    bool has_first; /* `first` is the next to be written */
    msgpack_object first;
    bool is_over;
    char *bytes; /* being sent */
    size_t count, sent;
};

static void stream_free(void *context)
{
    struct stream *stream = context;
    channel_close(&stream->channel);
    free(stream->bytes);
    free(stream);
}

/* The number of the last event line in a reply, for Last-Event-ID. */
static uint64_t last_seq(const msgpack_object *reply)
{
    msgpack_object_array events = document_list(reply, "events");
    return events.size > 0 ? document_number(&events.ptr[events.size - 1], "seq") : 0;
}

/* Writes one event, or a comment that keeps the connection open. False: no memory is left. */
static bool write_event(struct stream *stream, int code, msgpack_object *reply)
{
    free(stream->bytes);
    stream->bytes = NULL;
    stream->sent = 0;
    FILE *out = open_memstream(&stream->bytes, &stream->count);
    if (out == NULL) {
        return false;
    }
    bool is_written = true;
    if (code == ERR_TIMEOUT) {
        (void)fputs(": \n\n", out);
    } else if (code != 0) {
        (void)fputs("event: lost\ndata: {\"detail\":\"The daemon has gone.\"}\n\n", out);
        stream->is_over = true;
    } else if (!document_true(reply, "ok")) {
        (void)fputs("event: refused\ndata: ", out);
        is_written = document_write_reply_json(out, reply); /* with a newline */
        (void)fputs("\n", out);
        stream->is_over = true;
    } else {
        uint64_t seq = last_seq(reply);
        if (document_true(reply, "reset")) {
            (void)fputs("event: reset\ndata: {}\n\n", out);
        }
        if (seq != 0) {
            (void)fprintf(out, "id: %llu\n", (unsigned long long)seq);
        }
        (void)fputs("data: ", out);
        is_written = document_write_reply_json(out, reply);
        (void)fputs("\n", out);
        if (document_true(reply, "end")) {
            (void)fputs("event: end\ndata: {}\n\n", out);
            stream->is_over = true;
        }
    }
    return fclose(out) == 0 && is_written;
}

/* Waits for the next reply; `*code` is that of channel_next. False: the client has gone, which a write would tell only
 * later. */
static bool await(struct stream *stream, int *code, msgpack_object *out)
{
    struct pollfd items[] = {{.fd = stream->channel.fd, .events = POLLIN},
                             {.fd = stream->client_fd, .events = POLLRDHUP}};
    *code = channel_next(&stream->channel, 0, out, NULL); /* if it is there already */
    if (*code == ERR_TIMEOUT) {
        (void)poll(items, 2, KEEP_ALIVE_MS);
        *code = items[0].revents != 0 ? channel_next(&stream->channel, KEEP_ALIVE_MS, out, NULL) : ERR_TIMEOUT;
    }
    return items[1].revents == 0;
}

/* Called in the thread of the connection: waiting here holds nobody else up. */
static ssize_t stream_read(void *context, uint64_t position, char *out, size_t size)
{
    struct stream *stream = context;
    (void)position;
    if (stream->sent == stream->count) {
        msgpack_object reply = stream->first;
        int code = 0;
        bool is_there = true;
        if (stream->is_over) {
            return MHD_CONTENT_READER_END_OF_STREAM;
        }
        if (!stream->has_first) {
            channel_forget(&stream->channel);
            is_there = await(stream, &code, &reply);
        }
        stream->has_first = false;
        if (!is_there || !write_event(stream, code, &reply)) {
            return MHD_CONTENT_READER_END_WITH_ERROR;
        }
    }
    size_t count = stream->count - stream->sent < size ? stream->count - stream->sent : size;
    memcpy(out, stream->bytes + stream->sent, count);
    stream->sent += count;
    return (ssize_t)count;
}

/* The first reply decides whether it is a stream at all. */
static struct MHD_Response *of_stream(struct channel *channel, int client_fd, bool *is_taken, int *status)
{
    struct stream *stream = calloc(1, sizeof *stream);
    msgpack_object first;
    int code = stream != NULL ? channel_next(channel, CHANNEL_ANSWER_MS, &first, NULL) : ERR_MEMORY;
    if (code != 0 || !document_true(&first, "ok")) {
        free(stream);
        return code != 0 ? of_failure(code, status) : of_refusal(&first, status);
    }
    *stream = (struct stream){.channel = *channel, .client_fd = client_fd, .has_first = true, .first = first};
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, EVENT_BLOCK_BYTES, stream_read, stream, stream_free);
    if (response == NULL) {
        free(stream);
        return NULL;
    }
    *is_taken = true;
    *status = 200;
    (void)MHD_add_response_header(response, "Content-Type", "text/event-stream");
    answer_add_fields(response, ANSWER_POLICY_DATA, "no-store");
    return response;
}

/* ---- files ----------------------------------------------------------------------------------------------------- */

/* The media type of a file that a program has left, by its name: pages show pictures, tables and text. No type is among
 * them that a browser would run as a page. */
static const char *type_of_file(const char *path)
{
    static const char *const types[][2] = {{".png", "image/png"},
                                           {".jpg", "image/jpeg"},
                                           {".jpeg", "image/jpeg"},
                                           {".gif", "image/gif"},
                                           {".webp", "image/webp"},
                                           {".svg", "image/svg+xml"},
                                           {".csv", "text/csv; charset=utf-8"},
                                           {".tsv", "text/tab-separated-values; charset=utf-8"},
                                           {".txt", "text/plain; charset=utf-8"},
                                           {".log", "text/plain; charset=utf-8"},
                                           {".md", "text/plain; charset=utf-8"},
                                           {".yaml", "text/plain; charset=utf-8"},
                                           {".json", "text/plain; charset=utf-8"}};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot != NULL && i < sizeof types / sizeof types[0]; i++) {
        if (strcasecmp(dot, types[i][0]) == 0) {
            return types[i][1];
        }
    }
    return "application/octet-stream";
}

/* The descriptor has the bytes at `from` (absent: 0); a reply with `path` is about a file that a program has left. */
static struct MHD_Response *of_file(const struct route *route, struct channel *channel, int *status)
{
    msgpack_object reply;
    int fd = -1;
    int code = next(channel, &reply, &fd);
    if (code != 0 || !document_true(&reply, "ok")) {
        return code != 0 ? of_failure(code, status) : of_refusal(&reply, status);
    }
    uint64_t bytes = document_number(&reply, "bytes"), offset = document_number(&reply, "offset");
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0 || info.st_size < 0 || (uint64_t)info.st_size < offset ||
        (uint64_t)info.st_size - offset < bytes) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return of_failure(ERR_IO, status);
    }
    struct MHD_Response *response = MHD_create_response_from_fd_at_offset64(bytes, fd, offset);
    if (response == NULL) {
        (void)close(fd);
        return NULL;
    }
    char hash[80], field[96], path[1024];
    document_text(&reply, "path", path, sizeof path);
    document_text(&reply, "hash", hash, sizeof hash);
    if (hash[0] != '\0' && strspn(hash, "0123456789abcdef") == strlen(hash)) {
        (void)snprintf(field, sizeof field, "\"%s\"", hash);
        (void)MHD_add_response_header(response, "ETag", field);
    }
    *status = 200;
    (void)MHD_add_response_header(response, "Content-Type", path[0] != '\0' ? type_of_file(path) : route->type);
    (void)MHD_add_response_header(response, "Content-Disposition", "attachment");
    answer_add_fields(response, ANSWER_POLICY_DATA, "no-store");
    return response;
}

struct MHD_Response *answer_route(const struct route *route, struct channel *channel, int client_fd, bool wants_text,
                                  int *status)
{
    bool is_taken = false;
    struct MHD_Response *response;
    bool may_stream = route->kind == ROUTE_STREAM || route->kind == ROUTE_PIECES || route->kind == ROUTE_LIVE;
    if (may_stream && client_fd >= 0) {
        response = of_stream(channel, client_fd, &is_taken, status);
    } else if (route->kind == ROUTE_PIECES) {
        response = of_pieces(channel, wants_text, status);
    } else if (route->kind == ROUTE_PACKED) {
        response = of_packed(channel, status);
    } else if (route->kind == ROUTE_TARGETS) {
        response = of_targets(channel, status);
    } else if (route->kind == ROUTE_FILE) {
        response = of_file(route, channel, status);
    } else {
        response = of_document(channel, route->kind == ROUTE_STREAM && strcmp(route->op, "events") != 0, status);
    }
    if (!is_taken) {
        channel_close(channel);
    }
    return response;
}
