#include "gossip/control_join.h"

#include <czmq.h>
#include <stdio.h>
#include <sys/resource.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/descriptors.h"
#include "base/err.h"
#include "gossip/control_address.h"
#include "gossip/control_socket.h"
#include "gossip/message.h"

#define JOIN_DOORS_MAX (TOKEN_MEMBERS_MAX * TOKEN_ADDRESSES_MAX)
#define JOIN_PATIENCE_MS 4000 /* with one member, before the next is asked as well; and after a refusal, with all others */
#define JOIN_LOOK_MS 250      /* in which a door that is connected already gets the request, however late it is */

/* What libzmq opens: for its context five, two threads' epolls and three mailboxes; for a socket a mailbox and a connection.
 * The context keeps its five to the end of the process, and one more must be left for verifying the answer. */
#define DESCRIPTORS_CONTEXT 5
#define DESCRIPTORS_DOOR 2
#define DESCRIPTORS_AFTERWARDS 1
#define DESCRIPTORS_OF(doors) (DESCRIPTORS_CONTEXT + DESCRIPTORS_DOOR * (doors) + DESCRIPTORS_AFTERWARDS)
_Static_assert(DESCRIPTORS_OF(JOIN_DOORS_MAX) <= DESCRIPTORS_LEFT_MAX, "they can be counted");

struct joining;

/* A member's address: waits to be connected, then to be answered. */
struct door {
    struct joining *joining;
    zsock_t *socket;
    const char *address;
    uint32_t member; /* of the token */
    bool asked, refused;
};

/* The loop is in one of two states. Asking: every door without a request yet is polled, and the first connected door gets
 * the request; after a refusal `timer` bounds the state. Waiting: a door got the request a moment ago, and `timer` ends the
 * patience with the member. Doors with a request are read in both states. */
struct joining {
    zloop_t *loop;
    struct door doors[JOIN_DOORS_MAX];
    size_t count;
    uint8_t request[JOIN_REQUEST_BYTES_MAX];
    size_t request_bytes;
    int timer; /* 0: none */
    bool has_asked, has_ended;
    int result;         /* ERR_AGAIN until a member has said yes */
    int refusal;        /* the code of the first one, whose sentence is the error then; 0: no member refused */
    int64_t refused_ms; /* zclock_mono, when the last one came */
    uint8_t *buffer;    /* the caller's */
    size_t capacity;
    struct join_answer *answer;
    char *error;
};

/* Without a handler for signals, so that Ctrl-C ends the command; and without czmq's log, by default standard output. */
static bool czmq_start(void)
{
    zsys_handler_set(NULL);
    if (zsys_init() == NULL) {
        return false;
    }
    zsys_set_logstream(NULL);
    return true;
}

static void joining_close(struct joining *joining)
{
    zloop_destroy(&joining->loop);
    for (size_t i = 0; i < joining->count; i++) {
        zsock_destroy(&joining->doors[i].socket);
    }
}

/* The addresses that can be tried; no socket is made yet. */
static void list_doors(struct joining *joining, const struct token *token)
{
    for (uint32_t m = 0; m < token->member_count; m++) {
        const struct token_member *member = &token->members[m];
        for (uint32_t a = 0; a < member->address_count; a++) {
            if (control_address_check(member->addresses[a]) == 0) {
                joining->doors[joining->count++] =
                    (struct door){.joining = joining, .address = member->addresses[a], .member = m};
            }
        }
    }
}

/* Connects the doors, and leaves out addresses and keys that libzmq refuses. */
static void open_doors(struct joining *joining, const struct token *token, const uint8_t invite_key[32])
{
    size_t opened = 0;
    for (size_t i = 0; i < joining->count; i++) {
        struct door door = joining->doors[i];
        uint8_t server[32];
        if (keys_curve_of(token->members[door.member].sign_public, server) != 0) {
            continue;
        }
        door.socket = zsock_new(ZMQ_DEALER);
        if (control_socket_set_dealer(zsock_resolve(door.socket), invite_key, token->secret, door.address, server,
                                      CONTROL_KEEPALIVE_S)) {
            zsock_set_sndtimeo(door.socket, 0); /* the loop alone waits */
            zsock_set_rcvtimeo(door.socket, 0);
            joining->doors[opened++] = door;
        } else {
            zsock_destroy(&door.socket);
        }
    }
    joining->count = opened;
}

static int end(struct joining *joining)
{
    joining->has_ended = true;
    return -1; /* which ends the loop */
}

static int on_time_over(zloop_t *loop, int timer, void *context)
{
    (void)loop;
    (void)timer;
    return end(context);
}

static void set_timer(struct joining *joining, int64_t wait_ms, zloop_timer_fn *handler)
{
    if (joining->timer != 0) {
        (void)zloop_timer_end(joining->loop, joining->timer);
    }
    joining->timer = handler == NULL ? 0 : zloop_timer(joining->loop, (size_t)wait_ms, 1, handler, joining);
}

static zmq_pollitem_t item_of(const struct door *door)
{
    return (zmq_pollitem_t){.socket = zsock_resolve(door->socket), .events = ZMQ_POLLOUT};
}

static void stop_asking(struct joining *joining)
{
    for (size_t i = 0; i < joining->count; i++) {
        zmq_pollitem_t item = item_of(&joining->doors[i]);
        zloop_poller_end(joining->loop, &item);
    }
    set_timer(joining, 0, NULL);
}

static int on_open(zloop_t *loop, zmq_pollitem_t *item, void *context);

static void start_asking(struct joining *joining)
{
    stop_asking(joining);
    for (size_t i = 0; i < joining->count; i++) {
        struct door *door = &joining->doors[i];
        zmq_pollitem_t item = item_of(door);
        if (!door->asked && !door->refused) {
            (void)zloop_poller(joining->loop, &item, on_open, door);
        }
    }
    if (joining->refusal != 0) {
        int64_t left_ms = joining->refused_ms + JOIN_PATIENCE_MS - zclock_mono();
        set_timer(joining, left_ms > JOIN_LOOK_MS ? left_ms : JOIN_LOOK_MS, on_time_over);
    }
}

static int on_impatience(zloop_t *loop, int timer, void *context)
{
    (void)loop;
    (void)timer;
    struct joining *joining = context;
    joining->timer = 0; /* a timer for once: the loop takes it away */
    start_asking(joining);
    return 0;
}

/* A member says no: none of its doors is asked or read any more. The next member may know better. */
static int take_refusal(struct joining *joining, const struct door *refused, int code, const char *said)
{
    if (joining->refusal == 0) {
        joining->refusal = code;
        (void)bytes_copy_text(joining->error, 256, said);
    }
    joining->refused_ms = zclock_mono();
    bool any_is_left = false;
    for (size_t i = 0; i < joining->count; i++) {
        struct door *door = &joining->doors[i];
        if (door->member == refused->member) {
            door->refused = true;
            zloop_reader_end(joining->loop, door->socket);
        }
        any_is_left = any_is_left || !door->refused;
    }
    if (!any_is_left) {
        return end(joining);
    }
    start_asking(joining);
    return 0;
}

/* An answer is one frame. */
static int read_answer(const struct door *door, zmsg_t *message, char error[256])
{
    struct joining *joining = door->joining;
    zframe_t *frame = zmsg_first(message);
    size_t count = zframe_size(frame);
    struct join_answer decoded;
    bool fits = zmsg_size(message) == 1 && count <= joining->capacity;
    if (fits) {
        memcpy(joining->buffer, zframe_data(frame), count);
    }
    if (!fits || join_answer_decode(joining->buffer, count, &decoded) != 0) {
        (void)snprintf(error, 256,
                       "The member at %s answered something that this version of shoal does not understand; use the "
                       "version that it runs.",
                       door->address);
        return ERR_MALFORMED;
    }
    if (decoded.code != 0) {
        (void)snprintf(error, 256, "The member at %s refused: %.160s", door->address, decoded.text);
        return ERR_REFUSED;
    }
    *joining->answer = decoded;
    return 0;
}

static int on_answer(zloop_t *loop, zsock_t *socket, void *context)
{
    (void)loop;
    struct door *door = context;
    char said[256];
    zmsg_t *message = zmsg_recv(socket);
    if (message == NULL) {
        return 0; /* interrupted */
    }
    int result = read_answer(door, message, said);
    zmsg_destroy(&message);
    if (result != 0) {
        return take_refusal(door->joining, door, result, said);
    }
    door->joining->result = 0;
    return end(door->joining);
}

static int on_open(zloop_t *loop, zmq_pollitem_t *item, void *context)
{
    (void)item;
    struct door *door = context;
    struct joining *joining = door->joining;
    zmsg_t *message = zmsg_new();
    if (zmsg_addmem(message, joining->request, joining->request_bytes) == 0 && zmsg_send(&message, door->socket) == 0) {
        door->asked = true;
        joining->has_asked = true;
        stop_asking(joining);
        (void)zloop_reader(loop, door->socket, on_answer, door);
        set_timer(joining, JOIN_PATIENCE_MS, on_impatience);
    }
    zmsg_destroy(&message);
    return 0;
}

/* Runs the loop until a handler ends it. A signal interrupts zmq_poll, for example when a stopped process goes on: the loop
 * then starts again. */
static int joining_run(struct joining *joining, uint64_t timeout_ms)
{
    joining->result = ERR_AGAIN;
    joining->loop = zloop_new();
    (void)zloop_timer(joining->loop, (size_t)timeout_ms, 1, on_time_over, joining);
    start_asking(joining);
    while (!joining->has_ended) {
        (void)zloop_start(joining->loop);
        if (!joining->has_ended && zmq_errno() != EINTR) {
            (void)snprintf(joining->error, 256, "Waiting for members failed: %.100s.", zmq_strerror(zmq_errno()));
            return ERR_IO;
        }
    }
    if (joining->result == ERR_AGAIN && joining->refusal != 0) {
        return joining->refusal;
    }
    if (joining->result == ERR_AGAIN) {
        (void)snprintf(joining->error, 256,
                       joining->has_asked ? "No member answered the request to join within %llu s; try again, or ask for a "
                                            "new token."
                                          : "No member let us in within %llu s: none of the %zu addresses in the token "
                                            "can be reached from here, or the token was revoked.",
                       (unsigned long long)(timeout_ms / 1000), joining->count);
        return ERR_TIMEOUT;
    }
    return joining->result;
}

static int fail_descriptors(unsigned needed, char error[256])
{
    struct rlimit limit = {0};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    (void)snprintf(error, 256,
                   "The limit of open files (ulimit -n) is %llu, which leaves fewer than the %u that joining takes; raise it.",
                   (unsigned long long)limit.rlim_cur, needed);
    return ERR_FULL;
}

int control_join(const struct token *token, const struct keys *keys, const char *name, uint64_t timeout_ms,
                 uint8_t *buffer, size_t capacity, struct join_answer *answer, char error[256])
{
    CHECK(capacity >= MESSAGE_BYTES_MAX);
    uint8_t invite_key[32];
    struct joining joining = {.buffer = buffer, .capacity = capacity, .answer = answer, .error = error};
    list_doors(&joining, token);
    unsigned needed = DESCRIPTORS_OF((unsigned)joining.count);
    if (!descriptors_are_left(needed)) {
        return fail_descriptors(needed, error);
    }
    if (!czmq_start()) {
        (void)snprintf(error, 256, "czmq does not start: %.100s.", zmq_strerror(zmq_errno()));
        return ERR_IO;
    }
    token_invite_key(token, invite_key);
    joining.request_bytes = join_request_encode(keys, token->mesh, invite_key, name, joining.request);
    open_doors(&joining, token, invite_key);
    if (joining.count == 0) {
        (void)snprintf(error, 256,
                       "The token names no address that could be tried; ask for a new one with shoal invite.");
        return ERR_MALFORMED;
    }
    int result = joining_run(&joining, timeout_ms);
    joining_close(&joining);
    return result;
}
