/* The User-Id of a member is its node id in hex, of an invite "invite:" and the CURVE public key in hex.
 *
 * libzmq asks only once, at the handshake, so the open connections of an evicted key would go on delivering. Therefore
 * each key remembers the descriptors of its last connections (ZMQ_SRCFD). Even before a message is read, the descriptor
 * may have been closed and the number given to another file of this process. So a descriptor is remembered, and shut,
 * only for a connection to the listening port from the sender's address. In the worst case, with two daemons behind one
 * address, the wrong peer's connection is shut, and the peer opens it again within a second. */

#include "gossip/zap.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <zmq.h>

#include "base/err.h"

#define ENDPOINT "inproc://zeromq.zap.01"
#define LINKS_MAX 4 /* remembered connections of a key; a peer needs 1, or 2 during a reconnect */
#define USER_ID_BYTES 80
#define REQUEST_FRAMES 7 /* version, request id, domain, address, identity, mechanism, client key */
#define REQUESTS_PER_CALL 256
#define INVITE_PREFIX "invite:"

struct ends {
    uint8_t peer[16]; /* address; an IPv4 address is in the first 4 bytes */
    uint16_t family;
    uint16_t local_port;
};

struct link {
    int fd; /* -1: an empty place */
    struct ends ends;
};

struct zap_key {
    uint8_t curve[32];
    struct zap_identity identity; /* admission 0: the slot is free */
    char user_id[USER_ID_BYTES];
    struct link links[LINKS_MAX];
    unsigned next_link;
};

struct zap {
    void *socket;
    pthread_mutex_t mutex; /* guards all fields below */
    uint64_t admissions;
    uint32_t slots;       /* number of `keys` that have been used */
    struct zap_key *keys; /* array of ZAP_KEYS_MAX */
    struct zap_statistics statistics;
};

int zap_open(void *context, struct zap **out, char error[256])
{
    struct zap *zap = calloc(1, sizeof *zap);
    struct zap_key *keys = calloc(ZAP_KEYS_MAX, sizeof *keys);
    if (zap == NULL || keys == NULL) {
        free(zap);
        free(keys);
        (void)snprintf(error, 256, "No memory is left for the table of admitted keys.");
        return ERR_MEMORY;
    }
    zap->keys = keys;
    (void)pthread_mutex_init(&zap->mutex, NULL);
    zap->socket = zmq_socket(context, ZMQ_REP);
    int linger = 0;
    if (zap->socket != NULL) {
        (void)zmq_setsockopt(zap->socket, ZMQ_LINGER, &linger, sizeof linger);
    }
    if (zap->socket == NULL || zmq_bind(zap->socket, ENDPOINT) != 0) {
        int result = zmq_errno() == EADDRINUSE ? ERR_EXISTS : ERR_IO;
        (void)snprintf(error, 256, "The authentication handler could not start: %.100s.", zmq_strerror(zmq_errno()));
        zap_close(&zap);
        return result;
    }
    *out = zap;
    return 0;
}

void zap_close(struct zap **zap)
{
    struct zap *self = *zap;
    if (self == NULL) {
        return;
    }
    if (self->socket != NULL) {
        (void)zmq_close(self->socket);
    }
    (void)pthread_mutex_destroy(&self->mutex);
    free(self->keys);
    free(self);
    *zap = NULL;
}

void *zap_socket(struct zap *zap)
{
    return zap->socket;
}

static struct zap_key *find_curve(struct zap *zap, const uint8_t curve[32], enum zap_kind kind)
{
    for (uint32_t i = 0; i < zap->slots; i++) {
        const struct zap_identity *identity = &zap->keys[i].identity;
        if (identity->admission != 0 && identity->kind == kind && memcmp(zap->keys[i].curve, curve, 32) == 0) {
            return &zap->keys[i];
        }
    }
    return NULL;
}

/* One request, frame by frame; frames longer than any valid value are left out. */
struct request {
    char frames[REQUEST_FRAMES][256];
    size_t bytes[REQUEST_FRAMES];
    size_t count;
    bool malformed;
};

/* Takes a whole message with any number of frames. False: no message waits. */
static bool receive_request(void *socket, struct request *request)
{
    memset(request, 0, sizeof *request);
    bool more = true;
    while (more) {
        zmq_msg_t frame;
        (void)zmq_msg_init(&frame);
        if (zmq_msg_recv(&frame, socket, ZMQ_DONTWAIT) < 0) {
            (void)zmq_msg_close(&frame);
            return false; /* frames arrive together, so only the first can be missing */
        }
        size_t bytes = zmq_msg_size(&frame);
        if (request->count >= REQUEST_FRAMES || bytes > sizeof request->frames[0]) {
            request->malformed = true;
        } else {
            memcpy(request->frames[request->count], zmq_msg_data(&frame), bytes);
            request->bytes[request->count] = bytes;
            request->count++;
        }
        more = zmq_msg_more(&frame) != 0;
        (void)zmq_msg_close(&frame);
    }
    return true;
}

static bool frame_is(const struct request *request, size_t index, const char *text)
{
    return request->bytes[index] == strlen(text) && memcmp(request->frames[index], text, request->bytes[index]) == 0;
}

/* Decides on a request: the User-Id to answer with; empty: refused. */
static void decide(struct zap *zap, const struct request *request, char user_id[USER_ID_BYTES])
{
    user_id[0] = '\0';
    if (request->malformed || request->count != REQUEST_FRAMES || !frame_is(request, 0, "1.0") ||
        !frame_is(request, 5, "CURVE") || request->bytes[6] != 32) {
        zap->statistics.malformed++;
        return;
    }
    bool control = frame_is(request, 2, ZAP_DOMAIN_CONTROL);
    bool bulk = frame_is(request, 2, ZAP_DOMAIN_BULK);
    const uint8_t *curve = (const uint8_t *)request->frames[6];
    const struct zap_key *key = control || bulk ? find_curve(zap, curve, ZAP_MEMBER) : NULL;
    key = key == NULL && control ? find_curve(zap, curve, ZAP_INVITE) : key;
    if (key != NULL) {
        zap->statistics.admitted++;
        memcpy(user_id, key->user_id, USER_ID_BYTES);
    } else {
        zap->statistics.refused++;
    }
}

static void answer(void *socket, const struct request *request, const char *user_id)
{
    const char *status = user_id[0] != '\0' ? "200" : "300";
    const char *text = user_id[0] != '\0' ? "OK" : "Not a member";
    size_t id_bytes = request->count > 1 ? request->bytes[1] : 0;
    if (zmq_send(socket, "1.0", 3, ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0) {
        return; /* the requester is gone */
    }
    (void)zmq_send(socket, request->frames[1], id_bytes, ZMQ_DONTWAIT | ZMQ_SNDMORE);
    (void)zmq_send(socket, status, 3, ZMQ_DONTWAIT | ZMQ_SNDMORE);
    (void)zmq_send(socket, text, strlen(text), ZMQ_DONTWAIT | ZMQ_SNDMORE);
    (void)zmq_send(socket, user_id, strlen(user_id), ZMQ_DONTWAIT | ZMQ_SNDMORE);
    (void)zmq_send(socket, "", 0, ZMQ_DONTWAIT);
}

void zap_process(struct zap *zap)
{
    struct request request;
    for (int i = 0; i < REQUESTS_PER_CALL && receive_request(zap->socket, &request); i++) {
        char user_id[USER_ID_BYTES];
        (void)pthread_mutex_lock(&zap->mutex);
        decide(zap, &request, user_id);
        (void)pthread_mutex_unlock(&zap->mutex);
        answer(zap->socket, &request, user_id);
    }
}

static bool socket_ends(int fd, struct ends *out)
{
    struct sockaddr_storage peer, local;
    socklen_t peer_bytes = sizeof peer, local_bytes = sizeof local;
    memset(out, 0, sizeof *out);
    if (fd < 0 || getpeername(fd, (struct sockaddr *)&peer, &peer_bytes) != 0 ||
        getsockname(fd, (struct sockaddr *)&local, &local_bytes) != 0 || peer.ss_family != local.ss_family) {
        return false;
    }
    out->family = peer.ss_family;
    if (peer.ss_family == AF_INET) {
        memcpy(out->peer, &((struct sockaddr_in *)&peer)->sin_addr, 4);
        out->local_port = ((struct sockaddr_in *)&local)->sin_port;
    } else if (peer.ss_family == AF_INET6) {
        memcpy(out->peer, &((struct sockaddr_in6 *)&peer)->sin6_addr, 16);
        out->local_port = ((struct sockaddr_in6 *)&local)->sin6_port;
    } else {
        return false;
    }
    return true;
}

/* True if the message's descriptor is a connection that the message may have come over. */
static bool link_from(zmq_msg_t *message, uint16_t port, struct link *out)
{
    struct sockaddr_storage peer;
    socklen_t bytes = sizeof peer;
    char host[NI_MAXHOST];
    const char *from = zmq_msg_gets(message, "Peer-Address");
    out->fd = zmq_msg_get(message, ZMQ_SRCFD);
    return from != NULL && socket_ends(out->fd, &out->ends) && ntohs(out->ends.local_port) == port &&
           getpeername(out->fd, (struct sockaddr *)&peer, &bytes) == 0 &&
           getnameinfo((struct sockaddr *)&peer, bytes, host, sizeof host, NULL, 0, NI_NUMERICHOST) == 0 &&
           strcmp(host, from) == 0;
}

static void link_note(struct zap_key *key, zmq_msg_t *message, uint16_t port)
{
    int fd = zmq_msg_get(message, ZMQ_SRCFD);
    for (int i = 0; i < LINKS_MAX; i++) {
        if (key->links[i].fd == fd) {
            return;
        }
    }
    struct link link;
    if (link_from(message, port, &link)) {
        key->links[key->next_link++ % LINKS_MAX] = link;
    }
}

static bool link_cut(const struct link *link)
{
    struct ends now;
    return socket_ends(link->fd, &now) && memcmp(&now, &link->ends, sizeof now) == 0 &&
           shutdown(link->fd, SHUT_RDWR) == 0;
}

static void key_drop(struct zap *zap, struct zap_key *key)
{
    for (int i = 0; i < LINKS_MAX; i++) {
        zap->statistics.cut += link_cut(&key->links[i]);
    }
    key->identity.admission = 0;
}

/* Evicts the oldest invite if the limit is reached, so that many invites cannot crowd out members. */
static void make_room_for_invite(struct zap *zap)
{
    struct zap_key *first = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < zap->slots; i++) {
        struct zap_key *key = &zap->keys[i];
        if (key->identity.admission != 0 && key->identity.kind == ZAP_INVITE) {
            first = first == NULL || key->identity.admission < first->identity.admission ? key : first;
            count++;
        }
    }
    if (count == ZAP_INVITES_MAX) {
        key_drop(zap, first);
    }
}

static int admit(struct zap *zap, const uint8_t curve[32], const struct zap_identity *identity, const char *user_id)
{
    int result = 0;
    (void)pthread_mutex_lock(&zap->mutex);
    if (find_curve(zap, curve, identity->kind) == NULL) {
        if (identity->kind == ZAP_INVITE) {
            make_room_for_invite(zap);
        }
        uint32_t slot = 0;
        while (slot < zap->slots && zap->keys[slot].identity.admission != 0) {
            slot++;
        }
        if (slot == ZAP_KEYS_MAX) {
            result = ERR_FULL;
        } else {
            struct zap_key *key = &zap->keys[slot];
            zap->slots += slot == zap->slots;
            memset(key, 0, sizeof *key);
            memcpy(key->curve, curve, 32);
            key->identity = *identity;
            key->identity.slot = (uint16_t)slot;
            key->identity.admission = ++zap->admissions;
            (void)bytes_copy_text(key->user_id, sizeof key->user_id, user_id);
            for (int i = 0; i < LINKS_MAX; i++) {
                key->links[i].fd = -1;
            }
        }
    }
    (void)pthread_mutex_unlock(&zap->mutex);
    return result;
}

int zap_admit_member(struct zap *zap, const uint8_t curve_public[32], node_id node)
{
    struct zap_identity identity = {.kind = ZAP_MEMBER, .node = node};
    char user_id[USER_ID_BYTES];
    bytes_to_hex(user_id, node.bytes, NODE_ID_BYTES);
    return admit(zap, curve_public, &identity, user_id);
}

int zap_admit_invite(struct zap *zap, const uint8_t curve_public[32])
{
    struct zap_identity identity = {.kind = ZAP_INVITE};
    memcpy(identity.invite_key, curve_public, 32);
    char user_id[USER_ID_BYTES] = INVITE_PREFIX;
    bytes_to_hex(user_id + strlen(INVITE_PREFIX), curve_public, 32);
    return admit(zap, curve_public, &identity, user_id);
}

int zap_evict(struct zap *zap, const uint8_t curve_public[32], enum zap_kind kind)
{
    int result = ERR_NOT_FOUND;
    (void)pthread_mutex_lock(&zap->mutex);
    struct zap_key *key = find_curve(zap, curve_public, kind);
    if (key != NULL) {
        key_drop(zap, key);
        result = 0;
    }
    (void)pthread_mutex_unlock(&zap->mutex);
    return result;
}

int zap_identify(struct zap *zap, zmq_msg_t *message, uint16_t port, struct zap_identity *out)
{
    int result = ERR_AUTH;
    const char *user_id = zmq_msg_gets(message, "User-Id");
    (void)pthread_mutex_lock(&zap->mutex);
    for (uint32_t i = 0; user_id != NULL && i < zap->slots; i++) {
        struct zap_key *key = &zap->keys[i];
        if (key->identity.admission != 0 && strcmp(key->user_id, user_id) == 0) {
            /* The holder of the invite has meanwhile become a member, and must connect again as a member. */
            if (key->identity.kind == ZAP_INVITE && find_curve(zap, key->curve, ZAP_MEMBER) != NULL) {
                break;
            }
            link_note(key, message, port);
            *out = key->identity;
            result = 0;
            break;
        }
    }
    struct link link;
    if (result != 0 && link_from(message, port, &link) && shutdown(link.fd, SHUT_RDWR) == 0) {
        zap->statistics.cut++;
    }
    (void)pthread_mutex_unlock(&zap->mutex);
    return result;
}

bool zap_admits(struct zap *zap, const struct zap_identity *identity)
{
    (void)pthread_mutex_lock(&zap->mutex);
    bool admitted = zap->keys[identity->slot].identity.admission == identity->admission;
    (void)pthread_mutex_unlock(&zap->mutex);
    return admitted;
}

void zap_statistics(struct zap *zap, struct zap_statistics *out)
{
    (void)pthread_mutex_lock(&zap->mutex);
    *out = zap->statistics;
    (void)pthread_mutex_unlock(&zap->mutex);
}
