#include "tools/shoal/client.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/document.h"
#include "base/err.h"
#include "store/data_dir.h"

#define BUFFER_BYTES (FRAME_BYTES_MAX + 4)
#define DOCUMENT_BYTES_MAX (256u << 20)
#define ID_PREFIX_MIN 4
#define RETURN_PAUSE_MS 100
#define START_PAUSE_MS 20
#define START_FRESH_MS 1500 /* longest time in a script from the end of `shoal init` to the daemon's lock */

/* Connects once. 0 or an errno; ENAMETOOLONG: the path is too long for a socket's address. */
static int connect_quietly(const struct cli *cli, int *out)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path, sizeof address.sun_path, "%s/shoald.sock", cli->dir);
    if (length < 0 || (size_t)length >= sizeof address.sun_path) {
        return ENAMETOOLONG;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        int reason = errno;
        (void)close(fd);
        return reason;
    }
    *out = fd;
    return 0;
}

static bool is_nobody_there(int reason)
{
    return reason == ENOENT || reason == ECONNREFUSED || reason == ENOTDIR;
}

/* Connects, and waits for a daemon that is starting: the daemon holds DIR/lock before it has a socket. Right after
 * `shoal init` or `shoal join` the daemon may not even hold the lock, where a script starts it in the background; a
 * short wait covers that. `*holder`: the process that holds the lock, 0 for none. */
static int connect_to_starting(const struct cli *cli, int *out, long *holder)
{
    const struct timespec pause = {.tv_nsec = START_PAUSE_MS * 1000000l};
    int reason = connect_quietly(cli, out);
    for (int waited_ms = 0; is_nobody_there(reason); waited_ms += START_PAUSE_MS) {
        *holder = data_dir_holder(cli->dir);
        if (waited_ms >= CLIENT_START_MS || (*holder == 0 && data_dir_taken_ms(cli->dir) >= START_FRESH_MS)) {
            return reason;
        }
        (void)nanosleep(&pause, NULL);
        reason = connect_quietly(cli, out);
    }
    return reason;
}

/* False before `shoal init` and `shoal join`. */
static bool has_node(const struct cli *cli)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/key", cli->dir);
    return length < 0 || (size_t)length >= sizeof path || access(path, F_OK) == 0 || errno != ENOENT;
}

static int connect_to(struct cli *cli, int *out)
{
    long holder = 0;
    int reason = connect_to_starting(cli, out, &holder);
    if (reason == ENAMETOOLONG) {
        return cli_fail(cli, CLI_NO_DAEMON,
                        "the path %s/shoald.sock is longer than a socket's may be (%zu); use a shorter --dir", cli->dir,
                        sizeof((struct sockaddr_un *)NULL)->sun_path - 1);
    }
    if (reason != 0) {
        if (is_nobody_there(reason) && holder != 0) {
            return cli_fail(cli, CLI_NO_DAEMON,
                            "process %ld holds %s but has not answered for %d s; if it is a daemon that starts, look into its "
                            "log, and try again",
                            holder, cli->dir, CLIENT_START_MS / 1000);
        }
        if (is_nobody_there(reason) && !has_node(cli)) {
            return cli_fail(cli, CLI_NO_DAEMON,
                            "%s has no node yet: shoal init makes a mesh with a first node here, shoal join TOKEN makes a node of a "
                            "mesh that there is already",
                            cli->dir);
        }
        if (is_nobody_there(reason)) {
            return cli_fail(cli, CLI_NO_DAEMON, "no daemon runs on %s; start it with: shoald --dir %s", cli->dir,
                            cli->dir);
        }
        if (reason == EACCES || reason == EPERM) {
            return cli_fail(cli, CLI_NO_DAEMON,
                            "the node in %s is of another account, and only this account may use it: run shoal as that account, or make a "
                            "node of your own with shoal join TOKEN",
                            cli->dir);
        }
        return cli_fail(cli, CLI_NO_DAEMON, "the daemon's socket %s/shoald.sock cannot be used: %s", cli->dir,
                        strerror(reason));
    }
    return CLI_DONE;
}

int client_open(struct cli *cli, struct client *out)
{
    memset(out, 0, sizeof *out);
    out->cli = cli;
    out->fd = -1;
    uint8_t *buffer = malloc(BUFFER_BYTES);
    out->request_bytes = malloc(FRAME_BYTES_MAX);
    out->zone = msgpack_zone_new(MSGPACK_ZONE_CHUNK_SIZE);
    frame_reader_init(&out->reader, buffer, BUFFER_BYTES);
    int code = buffer == NULL || out->request_bytes == NULL || out->zone == NULL
                   ? cli_fail(cli, CLI_REFUSED, "no memory is left")
                   : connect_to(cli, &out->fd);
    if (code != CLI_DONE) {
        client_close(out);
    }
    return code;
}

void client_close(struct client *client)
{
    frame_reader_close(&client->reader);
    if (client->fd >= 0) {
        (void)close(client->fd);
    }
    free(client->reader.buffer);
    free(client->request_bytes);
    free(client->parts);
    msgpack_zone_free(client->zone);
    memset(client, 0, sizeof *client);
    client->fd = -1;
    frame_reader_init(&client->reader, NULL, 0); /* no descriptors: a second close is harmless */
}

void client_begin(struct client *client, const char *op, uint32_t argument_count)
{
    pack_writer_init(&client->request, client->request_bytes, FRAME_BYTES_MAX);
    pack_map(&client->request, 3 + argument_count);
    pack_text(&client->request, "v");
    pack_u64(&client->request, 1);
    pack_text(&client->request, "id");
    pack_u64(&client->request, ++client->id);
    pack_text(&client->request, "op");
    pack_text(&client->request, op);
}

/* True for the answer to no request: the daemon turns the client away, and says why. */
static bool is_turned_away(const msgpack_object *frame)
{
    const msgpack_object *id = document_find(frame, "id");
    return id->type == MSGPACK_OBJECT_POSITIVE_INTEGER && id->via.u64 == 0 && document_has(frame, "error");
}

static int fail_gone(struct client *client)
{
    if (client->patient) {
        client->lost = true;
        return CLI_NO_DAEMON;
    }
    int fd;
    const uint8_t *bytes;
    size_t count;
    msgpack_object frame;
    if (frame_reader_wait(&client->reader, client->fd, 0, &bytes, &count, false, &fd) == 0 &&
        document_read(client->zone, bytes, count, &frame) == 0 && is_turned_away(&frame)) {
        char sentence[1024];
        document_text(&frame, "error", sentence, sizeof sentence);
        return cli_fail(client->cli, CLI_REFUSED, "%s", sentence);
    }
    if (connect_quietly(client->cli, &fd) == 0) {
        (void)close(fd);
        return cli_fail(client->cli, CLI_NO_DAEMON,
                        "the daemon on %s closed the connection before it answered, though one runs there: it serves too many "
                        "others at a time, or was restarted just now; try again",
                        client->cli->dir);
    }
    return cli_fail(client->cli, CLI_NO_DAEMON,
                    "the daemon on %s ended before it answered; look into its log, and try again", client->cli->dir);
}

int client_send(struct client *client, int passed_fd)
{
    if (client->request.failed) {
        return cli_fail(client->cli, CLI_REFUSED, "the request is larger than %u KiB", FRAME_BYTES_MAX / 1024);
    }
    int result = frame_send(client->fd, client->request.bytes, client->request.used_bytes, passed_fd);
    return result == 0 ? CLI_DONE : fail_gone(client);
}

msgpack_zone *client_keep(struct client *client)
{
    msgpack_zone *next = msgpack_zone_new(MSGPACK_ZONE_CHUNK_SIZE), *kept = next != NULL ? client->zone : NULL;
    client->zone = next != NULL ? next : client->zone;
    return kept;
}

int client_return(struct client *client)
{
    const struct timespec pause = {.tv_nsec = RETURN_PAUSE_MS * 1000000l};
    uint8_t *buffer = client->reader.buffer;
    client->lost = false;
    (void)close(client->fd);
    client->fd = -1;
    frame_reader_close(&client->reader);
    frame_reader_init(&client->reader, buffer, BUFFER_BYTES);
    while (client->attempts++ < CLIENT_RETURN_MS / RETURN_PAUSE_MS) {
        (void)nanosleep(&pause, NULL);
        if (connect_quietly(client->cli, &client->fd) == 0) {
            return CLI_DONE;
        }
    }
    return cli_fail(client->cli, CLI_NO_DAEMON,
                    "the daemon on %s ended and was not back within %d s; look into its log, and try again",
                    client->cli->dir, CLIENT_RETURN_MS / 1000);
}

static int fail_bad_answer(struct client *client)
{
    return cli_fail(client->cli, CLI_REFUSED,
                    "the daemon on %s answered with something that is no reply; are shoal and shoald of "
                    "the same version?",
                    client->cli->dir);
}

/* Writes a refusal of the daemon as an error. */
static int fail_refused(struct client *client, const msgpack_object *frame)
{
    uint64_t code = document_number(frame, "code");
    const msgpack_object *error = document_find(frame, "error");
    msgpack_object rest = *error;
    if ((client->quiet && code == CLI_USAGE) || (client->may_lack && code == CLI_NO_SUCH_THING)) {
        return (int)code;
    }
    if (error->type != MSGPACK_OBJECT_STR || error->via.str.size == 0) {
        return cli_fail(client->cli, CLI_REFUSED, "the daemon refused without a reason");
    }
    while (rest.via.str.size > 0) { /* a line for each problem of a configuration */
        const char *end = memchr(rest.via.str.ptr, '\n', rest.via.str.size);
        uint32_t bytes = end != NULL ? (uint32_t)(end - rest.via.str.ptr) : rest.via.str.size, step = bytes + (end != NULL);
        msgpack_object line = rest;
        char sentence[1024];
        line.via.str.size = bytes;
        document_value_text(&line, sentence, sizeof sentence);
        (void)cli_fail(client->cli, CLI_REFUSED, "%s", sentence);
        rest.via.str.ptr += step;
        rest.via.str.size -= step;
    }
    return code >= CLI_REFUSED && code <= CLI_TIMED_OUT ? (int)code : CLI_REFUSED;
}

static int fail_memory(struct client *client)
{
    return cli_fail(client->cli, CLI_REFUSED, "no memory is left");
}

/* Drops the last document. */
static void document_clear(struct client *client)
{
    msgpack_zone_clear(client->zone);
    client->part_count = 0;
    client->document_bytes = 0;
}

/* Decodes a frame into the zone. */
static int read_frame(struct client *client, const uint8_t *bytes, size_t count, msgpack_object *frame)
{
    client->document_bytes += count;
    if (client->document_bytes > DOCUMENT_BYTES_MAX) {
        return cli_fail(client->cli, CLI_REFUSED, "the answer is larger than %u MiB", DOCUMENT_BYTES_MAX >> 20);
    }
    int result = document_read(client->zone, bytes, count, frame);
    if (result == ERR_MEMORY) {
        return fail_memory(client);
    }
    return result == 0 && frame->type == MSGPACK_OBJECT_MAP ? CLI_DONE : fail_bad_answer(client);
}

static bool is_answer(const struct client *client, const msgpack_object *frame)
{
    const msgpack_object *id = document_find(frame, "id");
    return id->type == MSGPACK_OBJECT_POSITIVE_INTEGER && id->via.u64 == client->id;
}

/* As frame_reader_wait; ERR_REFUSED: the caller does not go on. */
static int wait_frame(struct client *client, int timeout_ms, const uint8_t **bytes, size_t *count, bool wants_fd, int *fd)
{
    bool is_asked = client->goes_on != NULL && timeout_ms < 0;
    int result;
    do {
        if (is_asked && !client->goes_on(client->context)) {
            return ERR_REFUSED;
        }
        result = frame_reader_wait(&client->reader, client->fd, is_asked ? CLIENT_LOOK_MS : timeout_ms, bytes, count, wants_fd, fd);
    } while (is_asked && result == ERR_TIMEOUT);
    return result;
}

/* Receives the next frame that answers the last request; skips notices and late replies to earlier requests. */
static int next_frame(struct client *client, int timeout_ms, bool wants_fd, msgpack_object *frame, int *fd)
{
    for (;;) {
        const uint8_t *bytes;
        size_t count;
        int result = wait_frame(client, timeout_ms, &bytes, &count, wants_fd, fd);
        if (result == ERR_REFUSED) {
            return CLI_REFUSED;
        }
        if (result == ERR_TIMEOUT) {
            return cli_fail(client->cli, CLI_TIMED_OUT,
                            "the daemon on %s has not answered for %d s; it may be overloaded, try again",
                            client->cli->dir, timeout_ms / 1000);
        }
        if (result == ERR_CLOSED || result == ERR_IO) {
            return fail_gone(client);
        }
        if (result != 0) {
            return fail_bad_answer(client);
        }
        int code = read_frame(client, bytes, count, frame);
        if (code != CLI_DONE) {
            return code;
        }
        if (is_turned_away(frame)) {
            return client->patient ? fail_gone(client) : fail_refused(client, frame);
        }
        if (is_answer(client, frame)) {
            client->attempts = 0;
            return document_true(frame, "ok") ? CLI_DONE : fail_refused(client, frame);
        }
        if (client->part_count == 0) {
            document_clear(client);
        }
        if (*fd >= 0) {
            (void)close(*fd);
        }
    }
}

static int take_part(struct client *client, const msgpack_object *frame)
{
    msgpack_object *parts = realloc(client->parts, (client->part_count + 1) * sizeof *parts);
    if (parts == NULL) {
        return fail_memory(client);
    }
    client->parts = parts;
    client->parts[client->part_count++] = *frame;
    return CLI_DONE;
}

/* Receives the frames of one reply, up to the last; `*fd` is the last frame's descriptor. */
static int next_parts(struct client *client, int timeout_ms, bool wants_fd, bool *end, int *fd)
{
    for (;;) {
        msgpack_object frame;
        *fd = -1;
        int code = next_frame(client, timeout_ms, wants_fd, &frame, fd);
        if (code == CLI_DONE) {
            code = take_part(client, &frame);
        }
        if (code != CLI_DONE || !document_true(&frame, "more")) {
            *end = code == CLI_DONE && document_true(&frame, "end");
            return code;
        }
        if (*fd >= 0) {
            (void)close(*fd); /* only the last part may carry a descriptor */
        }
    }
}

int client_next(struct client *client, int timeout_ms, bool wants_fd, struct reply *out)
{
    struct reply reply;
    document_clear(client);
    int code = next_parts(client, timeout_ms, wants_fd, &reply.end, &reply.fd);
    if (code == CLI_DONE && document_join(client->zone, client->parts, client->part_count, &reply.document) != 0) {
        code = fail_memory(client);
    }
    if (code == CLI_DONE) {
        *out = reply;
    } else if (reply.fd >= 0) {
        (void)close(reply.fd);
    }
    return code;
}

int client_ask(struct client *client, int timeout_ms, struct reply *out)
{
    int code = client_send(client, -1);
    return code != CLI_DONE ? code : client_next(client, timeout_ms, false, out);
}

static bool is_hex(const char *text)
{
    return text[strspn(text, "0123456789abcdefABCDEF")] == '\0';
}

/* A kind of thing to search for: its names in messages, and the request that lists all of the kind. */
struct search {
    const char *op, *list;
    const char *one, *many;
    size_t id_digits;
    bool has_labels; /* "elm~3f2a" means the thing of that name whose id begins so (node/core/view/view.h) */
    bool has_trials; /* "mlp/3" names a part of the thing */
};

#define ID_TEXT_BYTES_MAX CLIENT_NODE_TEXT_BYTES

struct search_result {
    size_t count;
    char ids[4][ID_TEXT_BYTES_MAX]; /* the first ids found */
};

static void search_result_add(struct search_result *result, const char *id)
{
    if (result->count < 4) {
        (void)bytes_copy_text(result->ids[result->count], ID_TEXT_BYTES_MAX, id);
    }
    result->count++;
}

static int choose(struct client *client, const struct search *search, const struct search_result *result,
                  const char *text, const char *how, char *out)
{
    if (result->count == 1) {
        memcpy(out, result->ids[0], search->id_digits + 1);
        return CLI_DONE;
    }
    return cli_fail(client->cli, CLI_REFUSED, "%zu %s %s %.80s: %s, %s%s%s%s%s; give one of these ids", result->count,
                    search->many, how, text, result->ids[0], result->ids[1], result->count > 2 ? ", " : "",
                    result->count > 2 ? result->ids[2] : "", result->count > 3 ? ", " : "",
                    result->count > 4   ? "..."
                    : result->count > 3 ? result->ids[3]
                                        : "");
}

/* True if the text is the name, '~' and the beginning of the id. */
static bool is_label(const char *text, const char *name, const char *id)
{
    const char *sign = strrchr(text, '~');
    size_t name_bytes = sign != NULL ? (size_t)(sign - text) : 0, digits = sign != NULL ? strlen(sign + 1) : 0;
    return digits > 0 && strlen(name) == name_bytes && memcmp(text, name, name_bytes) == 0 &&
           strncasecmp(id, sign + 1, digits) == 0;
}

/* True if the text is the name or the id of a thing, '/' and a number, as trials are written. `*bytes`: of the part before the '/'. */
static bool names_part(const char *text, const msgpack_object_array *list, size_t *bytes)
{
    const char *slash = strrchr(text, '/');
    bool is_number = slash != NULL && slash > text && slash[1] != '\0' && slash[1 + strspn(slash + 1, "0123456789")] == '\0';
    *bytes = is_number ? (size_t)(slash - text) : 0;
    for (uint32_t i = 0; is_number && i < list->size; i++) {
        char id[ID_TEXT_BYTES_MAX], name[256];
        document_text(&list->ptr[i], "id", id, sizeof id);
        document_text(&list->ptr[i], "name", name, sizeof name);
        bool is_name = strlen(name) == *bytes && memcmp(name, text, *bytes) == 0;
        if (is_name || (*bytes >= ID_PREFIX_MIN && strncasecmp(id, text, *bytes) == 0)) {
            return true;
        }
    }
    return false;
}

/* Writes the error for a thing that is not in the daemon's list. A node that is syncing may still get to know it. */
static int fail_unknown(struct client *client, const struct search *search, const msgpack_object *document, const char *text,
                        bool is_short)
{
    const char *hint = is_short ? " (the beginning of an id needs 4 digits)" : "";
    msgpack_object_array list = document_list(document, search->list);
    size_t whole;
    if (search->has_trials && names_part(text, &list, &whole)) {
        int bytes = whole < 80 ? (int)whole : 80;
        return cli_fail(client->cli, CLI_USAGE, "%.80s names a trial, and this is about a whole experiment; write %.*s", text, bytes, text);
    }
    if (document_true(document, "syncing")) {
        return cli_fail(client->cli, CLI_REFUSED,
                        "this node knows no %s with the name or id %.80s%s, but is still catching up with the others; try "
                        "again in some seconds",
                        search->one, text, hint);
    }
    return cli_fail(client->cli, CLI_NO_SUCH_THING, "there is no %s with the name or id %.80s%s; shoal %s lists them",
                    search->one, text, hint, search->op);
}

/* Finds the whole id for a text; `out` has room for id_digits and a NUL. */
static int find(struct client *client, const struct search *search, const char *text, char *out)
{
    size_t length = strlen(text);
    bool hex = is_hex(text);
    char lower[ID_TEXT_BYTES_MAX] = "";
    for (size_t i = 0; hex && i < length && i < search->id_digits; i++) {
        lower[i] = (char)(text[i] >= 'A' && text[i] <= 'F' ? text[i] - 'A' + 'a' : text[i]);
    }
    if (hex && length == search->id_digits) {
        memcpy(out, lower, search->id_digits + 1);
        return CLI_DONE;
    }
    client_begin(client, search->op, 0);
    struct reply reply;
    int code = client_ask(client, CLIENT_ANSWER_MS, &reply);
    if (code != CLI_DONE) {
        return code;
    }
    struct search_result named = {0}, named_out = {0}, begun = {0};
    msgpack_object_array list = document_list(&reply.document, search->list);
    for (uint32_t i = 0; i < list.size; i++) {
        const msgpack_object *item = &list.ptr[i];
        char id[ID_TEXT_BYTES_MAX], name[256], state[32];
        document_text(item, "id", id, search->id_digits + 1);
        document_text(item, "name", name, sizeof name);
        document_text(item, "state", state, sizeof state);
        if (strcmp(name, text) == 0) { /* an evicted node leaves its name to another node */
            bool is_out = strcmp(state, "evicted") == 0 || strcmp(state, "void") == 0;
            search_result_add(is_out ? &named_out : &named, id);
        } else if (hex && length >= ID_PREFIX_MIN && length < search->id_digits && strncmp(id, lower, length) == 0) {
            search_result_add(&begun, id);
        } else if (search->has_labels && is_label(text, name, id)) {
            search_result_add(&begun, id);
        }
    }
    const struct search_result *by_name = named.count > 0 ? &named : &named_out;
    if (by_name->count > 0 && begun.count > 0) { /* the beginning of an id must not hit a thing with such a name */
        struct search_result both = *by_name;
        for (size_t i = 0; i < begun.count; i++) {
            search_result_add(&both, begun.ids[i < 4 ? i : 3]);
        }
        return choose(client, search, &both, text, "fit", out);
    }
    if (by_name->count > 0) {
        return choose(client, search, by_name, text, "are named", out);
    }
    if (begun.count > 0) {
        return choose(client, search, &begun, text, hex ? "have ids that begin with" : "fit", out);
    }
    return fail_unknown(client, search, &reply.document, text, hex && length < ID_PREFIX_MIN);
}

int client_find_experiment(struct client *client, const char *text, char out[CLIENT_EXPERIMENT_TEXT_BYTES])
{
    static const struct search experiments = {"ls", "experiments", "experiment", "experiments",
                                              CLIENT_EXPERIMENT_TEXT_BYTES - 1, false, true};
    return find(client, &experiments, text, out);
}

int client_find_node(struct client *client, const char *text, char out[CLIENT_NODE_TEXT_BYTES])
{
    static const struct search nodes = {"nodes", "nodes", "node", "nodes", CLIENT_NODE_TEXT_BYTES - 1, true, false};
    return find(client, &nodes, text, out);
}
