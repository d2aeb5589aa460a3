#include "node/daemon/relay/relay.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "node/bulk/wire.h"
#include "node/daemon/api/table.h"
#include "node/daemon/wire/relayed.h"

#define ERRANDS_MAX 64
#define KEEP_MS 30000 /* a reply is kept so long after its question came */

/* One request of another node. */
struct errand {
    struct client
        client; /* first: a pointer to the client is a pointer to the errand. In the daemon's list from the begin on */
    struct errand *next;
    struct relay *relay;
    uint8_t token[RELAYED_TOKEN_BYTES];
    bool has_begun, is_answered;
    uint64_t until_ms; /* has_begun: when it is forgotten */
    size_t request_bytes, reply_bytes;
    uint8_t request[RELAYED_REQUEST_BYTES], reply[RELAYED_REQUEST_BYTES];
};

/* The mutex is for the list, and for an errand's token and reply. */
struct relay {
    pthread_mutex_t mutex;
    int fd;
    struct errand *errands;
    uint32_t count;
};

struct relay *relay_new(void)
{
    struct relay *relay = calloc(1, sizeof *relay);
    if (relay == NULL) {
        return NULL;
    }
    relay->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (relay->fd < 0 || pthread_mutex_init(&relay->mutex, NULL) != 0) {
        if (relay->fd >= 0) {
            (void)close(relay->fd);
        }
        free(relay);
        return NULL;
    }
    return relay;
}

int relay_fd(const struct relay *relay)
{
    return relay->fd;
}

/* ---- the bulk's thread ----------------------------------------------------------------------------------------- */

static struct errand *find(struct relay *relay, const uint8_t token[RELAYED_TOKEN_BYTES])
{
    struct errand *errand = relay->errands;
    while (errand != NULL && memcmp(errand->token, token, RELAYED_TOKEN_BYTES) != 0) {
        errand = errand->next;
    }
    return errand;
}

static int take(struct relay *relay, const struct relayed *relayed)
{
    static const uint64_t one = 1;
    struct errand *errand = relay->count < ERRANDS_MAX ? calloc(1, sizeof *errand) : NULL;
    if (errand == NULL) {
        return ERR_MEMORY;
    }
    memcpy(errand->token, relayed->token, sizeof errand->token);
    memcpy(errand->request, relayed->request, relayed->request_bytes);
    errand->request_bytes = relayed->request_bytes;
    errand->relay = relay;
    errand->next = relay->errands;
    relay->errands = errand;
    relay->count++;
    (void)(write(relay->fd, &one, sizeof one) != sizeof one);
    return 0;
}

int relay_answer(struct relay *relay, const uint8_t *question, size_t question_bytes, struct pack_writer *out)
{
    struct relayed relayed;
    int code = relayed_read(question, question_bytes, &relayed);
    if (code != 0) {
        return code;
    }
    (void)pthread_mutex_lock(&relay->mutex);
    const struct errand *errand = find(relay, relayed.token);
    if (errand == NULL) {
        code = take(relay, &relayed);
    } else if (errand->is_answered) {
        bulk_wire_entry_write(out, 1, errand->reply, errand->reply_bytes);
    }
    (void)pthread_mutex_unlock(&relay->mutex);
    return code;
}

/* ---- the protocol thread --------------------------------------------------------------------------------------- */

/* Only the last reply counts, and one that is too long is none: the asker gives up then. */
static void reply(struct client *client, const uint8_t *bytes, size_t count)
{
    struct errand *errand = (struct errand *)client;
    (void)pthread_mutex_lock(&errand->relay->mutex);
    if (count <= sizeof errand->reply && !errand->is_answered) {
        memcpy(errand->reply, bytes, count);
        errand->reply_bytes = count;
        errand->is_answered = true;
    }
    (void)pthread_mutex_unlock(&errand->relay->mutex);
}

static void send_file(struct client *client, const uint8_t *bytes, size_t count, int fd)
{
    (void)close(fd);
    reply(client, bytes, count);
}

static int take_file(struct client *client)
{
    (void)client;
    return -1;
}

static bool may_stream(const struct client *client)
{
    (void)client;
    return false;
}

static const struct client_door door = {
    .reply = reply, .send_file = send_file, .take_file = take_file, .may_stream = may_stream};

/* What any member may ask of another node. A code for the door is no more than the token that any member can make. */
static bool is_allowed(const struct request *request)
{
    static const char *const ops[] = {"withhold", "return", "node_login_code", "model_grant"};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        if (pack_text_is(request->op, request->op_bytes, ops[i])) {
            return true;
        }
    }
    return false;
}

static void begin(struct daemon *daemon, struct errand *errand, uint64_t now_ms)
{
    struct request request;
    int error = request_read(errand->request, errand->request_bytes, &request);
    errand->has_begun = true;
    errand->until_ms = now_ms + KEEP_MS;
    client_add(daemon, &errand->client, &door);
    if (error == 0 && !is_allowed(&request)) {
        client_reply_error(daemon, &errand->client, 1, EXIT_REFUSED,
                           "This node does not take the request `%.*s` from other nodes.",
                           (int)(request.op_bytes < 40 ? request.op_bytes : 40), request.op);
    } else {
        api_take(daemon, &errand->client, &request, error);
    }
}

/* An errand that has not begun; NULL: there is none. */
static struct errand *next_new(struct relay *relay)
{
    (void)pthread_mutex_lock(&relay->mutex);
    struct errand *errand = relay->errands;
    while (errand != NULL && errand->has_begun) {
        errand = errand->next;
    }
    (void)pthread_mutex_unlock(&relay->mutex);
    return errand;
}

static void forget(struct daemon *daemon, struct relay *relay, uint64_t now_ms)
{
    (void)pthread_mutex_lock(&relay->mutex);
    for (struct errand **link = &relay->errands; *link != NULL;) {
        struct errand *errand = *link;
        if (errand->has_begun && now_ms >= errand->until_ms) {
            *link = errand->next;
            relay->count--;
            client_remove(daemon, &errand->client);
            free(errand);
        } else {
            link = &errand->next;
        }
    }
    (void)pthread_mutex_unlock(&relay->mutex);
}

void relay_process(struct daemon *daemon, uint64_t now_ms)
{
    uint64_t count;
    struct errand *errand;
    if (read(daemon->relay->fd, &count, sizeof count) == sizeof count) {
        while ((errand = next_new(daemon->relay)) != NULL) {
            begin(daemon, errand, now_ms);
        }
    }
    forget(daemon, daemon->relay, now_ms);
}

void relay_free(struct daemon *daemon, struct relay *relay)
{
    while (relay != NULL && relay->errands != NULL) {
        struct errand *errand = relay->errands;
        relay->errands = errand->next;
        if (errand->has_begun) {
            client_remove(daemon, &errand->client);
        }
        free(errand);
    }
    if (relay != NULL) {
        (void)close(relay->fd);
        (void)pthread_mutex_destroy(&relay->mutex);
        free(relay);
    }
}
