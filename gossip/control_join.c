#include "gossip/control_join.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <zmq.h>

#include "base/check.h"
#include "base/err.h"
#include "gossip/control_address.h"
#include "gossip/control_socket.h"
#include "gossip/message.h"

#define JOIN_DOORS_MAX (TOKEN_MEMBERS_MAX * TOKEN_ADDRESSES_MAX)
#define JOIN_PATIENCE_MS 4000 /* before the next member is asked as well; after a refusal, before we stop waiting for the
                                 others */

/* One address of a member: waits first to be connected, then for the answer. */
struct door {
    void *socket;
    const char *address;
    uint32_t member; /* index in the token */
    bool asked, refused;
};

struct joining {
    struct door doors[JOIN_DOORS_MAX];
    size_t count;
    uint8_t request[JOIN_REQUEST_BYTES_MAX];
    size_t request_bytes;
    int refusal;         /* the code of the first refusal, whose sentence becomes the error; 0: no refusal */
    uint64_t refused_ms; /* when the last refusal came */
};

static uint64_t clock_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void joining_close(struct joining *joining)
{
    for (size_t i = 0; i < joining->count; i++) {
        (void)zmq_close(joining->doors[i].socket);
    }
}

static void joining_open(struct joining *joining, void *context, const struct token *token,
                         const uint8_t invite_key[32])
{
    for (uint32_t m = 0; m < token->member_count; m++) {
        const struct token_member *member = &token->members[m];
        uint8_t server[32];
        for (uint32_t a = 0; a < member->address_count && keys_curve_of(member->sign_public, server) == 0; a++) {
            const char *address = member->addresses[a];
            void *socket = control_address_check(address) != 0
                               ? NULL
                               : control_socket_dealer(context, invite_key, token->secret, address, server,
                                                       CONTROL_KEEPALIVE_S);
            if (socket != NULL) {
                joining->doors[joining->count++] = (struct door){.socket = socket, .address = address, .member = m};
            }
        }
    }
}

static int door_read(struct door *door, uint8_t *buffer, size_t capacity, struct join_answer *answer, char error[256])
{
    int count = zmq_recv(door->socket, buffer, capacity, ZMQ_DONTWAIT);
    if (count < 0) {
        return ERR_AGAIN;
    }
    struct join_answer decoded;
    if ((size_t)count > capacity || join_answer_decode(buffer, (size_t)count, &decoded) != 0) {
        (void)snprintf(error, 256,
                       "The member at %s sent an answer that this version of shoal does not understand; use the "
                       "version that the member runs.",
                       door->address);
        return ERR_MALFORMED;
    }
    if (decoded.code != 0) {
        (void)snprintf(error, 256, "The member at %s refused: %.160s", door->address, decoded.text);
        return ERR_REFUSED;
    }
    *answer = decoded;
    return 0;
}

/* Notes the refusal of a member, on any address. Other members may decide otherwise. */
static void joining_refused(struct joining *joining, const struct door *door, int code, const char *said, char error[256])
{
    if (joining->refusal == 0) {
        joining->refusal = code;
        (void)bytes_copy_text(error, 256, said);
    }
    joining->refused_ms = clock_ms();
    for (size_t i = 0; i < joining->count; i++) {
        joining->doors[i].refused |= joining->doors[i].member == door->member;
    }
}

static bool joining_has_doors(const struct joining *joining)
{
    bool any = false;
    for (size_t i = 0; i < joining->count; i++) {
        any |= !joining->doors[i].refused;
    }
    return any;
}

/* One round: reads answers, and sends the request to a further connected address if `ask`. */
static int joining_step(struct joining *joining, bool *ask, uint64_t wait_ms, uint8_t *buffer, size_t capacity,
                        struct join_answer *answer, char error[256])
{
    zmq_pollitem_t items[JOIN_DOORS_MAX];
    for (size_t i = 0; i < joining->count; i++) {
        short events = joining->doors[i].asked ? ZMQ_POLLIN : *ask ? ZMQ_POLLOUT : 0;
        events = joining->doors[i].refused ? 0 : events;
        items[i] = (zmq_pollitem_t){.socket = joining->doors[i].socket, .events = events};
    }
    if (zmq_poll(items, (int)joining->count, (long)wait_ms) < 0) {
        return zmq_errno() == EINTR ? ERR_AGAIN : ERR_IO;
    }
    for (size_t i = 0; i < joining->count; i++) {
        struct door *door = &joining->doors[i];
        if ((items[i].revents & ZMQ_POLLIN) != 0) {
            char said[256];
            int result = door_read(door, buffer, capacity, answer, said);
            if (result == 0) {
                return 0;
            }
            if (result != ERR_AGAIN) {
                joining_refused(joining, door, result, said, error);
            }
        }
        if ((items[i].revents & ZMQ_POLLOUT) != 0 && *ask && !door->asked && !door->refused) {
            door->asked = zmq_send(door->socket, joining->request, joining->request_bytes, ZMQ_DONTWAIT) >= 0;
            *ask = !door->asked;
        }
    }
    return ERR_AGAIN;
}

int control_join(void *context, const struct token *token, const struct keys *keys, const char *name,
                 uint64_t timeout_ms, uint8_t *buffer, size_t capacity, struct join_answer *answer, char error[256])
{
    CHECK(capacity >= MESSAGE_BYTES_MAX);
    uint8_t invite_key[32];
    token_invite_key(token, invite_key);
    struct joining joining = {0};
    joining.request_bytes = join_request_encode(keys, token->mesh, invite_key, name, joining.request);
    joining_open(&joining, context, token, invite_key);
    if (joining.count == 0) {
        (void)snprintf(error, 256,
                       "The token names no address that could be tried; ask for a new one with shoal invite.");
        return ERR_MALFORMED;
    }
    uint64_t now_ms = clock_ms(), end_ms = now_ms + timeout_ms, next_ask_ms = now_ms;
    bool asked_once = false;
    int result = ERR_AGAIN;
    while (result == ERR_AGAIN && now_ms < end_ms && joining_has_doors(&joining)) {
        uint64_t refused_ms = joining.refused_ms;
        bool may_ask = now_ms >= next_ask_ms, ask = may_ask;
        uint64_t wait_ms = end_ms - now_ms < 250 ? end_ms - now_ms : 250;
        result = joining_step(&joining, &ask, wait_ms, buffer, capacity, answer, error);
        now_ms = clock_ms();
        if (may_ask && !ask) {
            asked_once = true;
            next_ask_ms = now_ms + JOIN_PATIENCE_MS;
        }
        if (joining.refused_ms != refused_ms) {
            next_ask_ms = now_ms;
        } else if (joining.refusal != 0 && ask && now_ms >= refused_ms + JOIN_PATIENCE_MS) {
            break; /* no member is left to ask */
        }
    }
    if (result == ERR_AGAIN && joining.refusal != 0) {
        result = joining.refusal;
    } else if (result == ERR_AGAIN) {
        result = ERR_TIMEOUT;
        (void)snprintf(error, 256,
                       asked_once ? "No member answered the request to join within %llu s; try again, or ask for a "
                                    "new token."
                                  : "No member let us in within %llu s: none of the %zu addresses in the token "
                                    "can be reached from here, or the token was revoked.",
                       (unsigned long long)(timeout_ms / 1000), joining.count);
    } else if (result == ERR_IO) {
        (void)snprintf(error, 256, "Waiting for members failed: %.100s.", zmq_strerror(zmq_errno()));
    }
    joining_close(&joining);
    return result;
}
