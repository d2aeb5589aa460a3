/* The collectives of a group: a loop that moves records while it can, and then waits. */
#include "train/group/tcp/group.h"

#include <poll.h>
#include <sched.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"
#include "train/group/reduce_cpu.h"
#include "train/group/tcp/inside.h"

#define SPIN_US 50

uint64_t tcp_now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- open and close ---- */

static int make_buffers(struct tcp_group *group)
{
    group->landing = aligned_alloc(64, TCP_PIECE_BYTES);
    group->sealed = TCP_PLAIN ? NULL : aligned_alloc(64, TCP_PIECE_BYTES);
    if (group->landing == NULL || (!TCP_PLAIN && group->sealed == NULL)) {
        return ERR_MEMORY;
    }
    for (uint32_t peer = 0; peer < group->size; peer++) {
        if (plan_linked(group->size, group->rank, peer)) {
            group->links[peer].seal = EVP_CIPHER_CTX_new();
            group->links[peer].open = EVP_CIPHER_CTX_new();
            if (group->links[peer].seal == NULL || group->links[peer].open == NULL) {
                return ERR_MEMORY;
            }
        }
    }
    return 0;
}

int tcp_spin_us(const struct tcp_options *options)
{
    int here = 0;
    for (uint32_t i = 0; i < options->size; i++) {
        here += strcmp(options->members[i].host, options->members[options->rank].host) == 0;
    }
    cpu_set_t cores;
    return sched_getaffinity(0, sizeof cores, &cores) == 0 && here <= CPU_COUNT(&cores) ? SPIN_US : 0;
}

int tcp_group_open(struct tcp_group **out, int listen_fd, const struct tcp_options *options, char error[TCP_ERROR_BYTES])
{
    int result = ERR_USAGE;
    struct tcp_group *group = NULL;
    if (options->size < 1 || options->size > PLAN_RANKS_MAX || options->rank >= options->size || sodium_init() < 0) {
        (void)snprintf(error, TCP_ERROR_BYTES, "a group has 1 to %d ranks; rank %u of %u is none", PLAN_RANKS_MAX,
                       options->rank, options->size);
        goto out_close_listener;
    }
    result = ERR_MEMORY;
    (void)snprintf(error, TCP_ERROR_BYTES, "no memory is left for the group's buffers");
    group = calloc(1, sizeof *group);
    if (group == NULL) {
        goto out_close_listener;
    }
    group->rank = options->rank;
    group->size = options->size;
    group->generation = options->generation;
    group->stall_timeout_ms = options->stall_timeout_ms;
    group->revoke = options->revoke;
    group->add = options->add;
    group->variant = reduce_cpu_best();
    for (uint32_t peer = 0; peer < PLAN_RANKS_MAX; peer++) {
        group->links[peer].fd = -1;
    }
    if (group->size > 1) {
        group->spin_us = options->spin_us < 0 ? tcp_spin_us(options) : options->spin_us;
        if (make_buffers(group) != 0) {
            goto out_close_group;
        }
        result = tcp_meet(group, listen_fd, options);
        if (result != 0) {
            bytes_copy_text(error, TCP_ERROR_BYTES, group->error);
            goto out_close_group;
        }
    }
    error[0] = 0;
    *out = group;
    group = NULL;
    result = 0;
out_close_group:
    tcp_group_close(&group);
out_close_listener:
    if (listen_fd >= 0) {
        (void)close(listen_fd);
    }
    return result;
}

void tcp_group_close(struct tcp_group **group)
{
    struct tcp_group *g = *group;
    if (g == NULL) {
        return;
    }
    for (uint32_t peer = 0; peer < g->size; peer++) {
        if (g->links[peer].fd >= 0) {
            (void)close(g->links[peer].fd);
        }
        EVP_CIPHER_CTX_free(g->links[peer].seal);
        EVP_CIPHER_CTX_free(g->links[peer].open);
    }
    if (g->landing != NULL) {
        sodium_memzero(g->landing, TCP_PIECE_BYTES);
    }
    free(g->landing);
    free(g->sealed);
    sodium_memzero(g, sizeof *g);
    free(g);
    *group = NULL;
}

void tcp_group_set_timeout(struct tcp_group *group, int stall_timeout_ms)
{
    group->stall_timeout_ms = stall_timeout_ms;
}

const char *tcp_group_error(const struct tcp_group *group)
{
    return group->error;
}

uint32_t tcp_group_refused(const struct tcp_group *group)
{
    return group->refused;
}

/* Shutting down every link makes the peers' collectives fail as well, and in turn those of their peers. */
int tcp_fail(struct tcp_group *group, int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(group->error, sizeof group->error, format, arguments);
    va_end(arguments);
    group->broken = error;
    for (uint32_t peer = 0; peer < group->size; peer++) {
        if (group->links[peer].fd >= 0) {
            (void)shutdown(group->links[peer].fd, SHUT_RDWR);
        }
    }
    return error;
}

/* ---- collectives ---- */

static int revoked(struct tcp_group *group)
{
    return tcp_fail(group, ERR_CLOSED, "rank %u was told that its group is over", group->rank);
}

static int stalled(struct tcp_group *group)
{
    struct plan_transfer transfer;
    bool receives = plan_receive(&group->plan, &group->received, &transfer);
    return tcp_fail(group, ERR_TIMEOUT, "a collective stalled on rank %u: nothing moved for %d ms (waiting for rank %u)",
                    group->rank, group->stall_timeout_ms, receives ? transfer.peer : group->outgoing.peer);
}

/* Waits until a record can move, a peer is gone, or the group is revoked. */
static int wait_for_movement(struct tcp_group *group, uint64_t still_since_ns)
{
    uint64_t waited_ms = (tcp_now_ns() - still_since_ns) / 1000000;
    if (waited_ms >= (uint64_t)group->stall_timeout_ms) {
        return stalled(group);
    }
    struct pollfd fds[PLAN_RANKS_MAX + REVOKE_FDS];
    uint32_t peers[PLAN_RANKS_MAX];
    nfds_t count = 0;
    for (uint32_t peer = 0; peer < group->size; peer++) {
        const struct tcp_link *link = &group->links[peer];
        bool sends = group->outgoing.active && group->outgoing.peer == peer;
        bool receives = group->incoming.active && group->incoming.peer == peer;
        if (link->fd < 0 || (link->quiet && !sends && !receives)) {
            continue;
        }
        int events = POLLRDHUP | (sends ? POLLOUT : 0) | (receives || !link->looked_ahead ? POLLIN : 0);
        fds[count] = (struct pollfd){.fd = link->fd, .events = (short)events};
        peers[count++] = peer;
    }
    nfds_t links = count;
    revoke_poll(group->revoke, fds + links);
    if (poll(fds, links + REVOKE_FDS, group->stall_timeout_ms - (int)waited_ms) <= 0) {
        return 0;
    }
    if (revoke_check(group->revoke, fds + links)) {
        return revoked(group);
    }
    for (nfds_t i = 0; i < links; i++) {
        bool closed = (fds[i].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
        bool receives = group->incoming.active && group->incoming.peer == peers[i];
        if (!receives && (closed || (fds[i].revents & POLLIN) != 0)) {
            int error = tcp_look(group, peers[i], closed);
            if (error != 0) {
                return error;
            }
        }
    }
    return 0;
}

int tcp_group_look(struct tcp_group *group, uint32_t *gone)
{
    struct pollfd fds[PLAN_RANKS_MAX + REVOKE_FDS];
    uint32_t peers[PLAN_RANKS_MAX];
    nfds_t links = 0;
    for (uint32_t peer = 0; peer < group->size; peer++) {
        if (group->links[peer].fd >= 0) {
            fds[links] = (struct pollfd){.fd = group->links[peer].fd, .events = POLLRDHUP};
            peers[links++] = peer;
        }
    }
    revoke_poll(group->revoke, fds + links);
    bool news = poll(fds, links + REVOKE_FDS, 0) > 0;
    if (group->broken != 0 || (group->revoke != NULL && revoke_is_set(group->revoke)) ||
        (news && revoke_check(group->revoke, fds + links))) {
        return ERR_CLOSED;
    }
    for (nfds_t i = 0; i < links && news; i++) {
        if (fds[i].revents != 0) {
            *gone = peers[i];
            break;
        }
    }
    return 0;
}

static bool finished(const struct tcp_group *group)
{
    struct plan_transfer transfer;
    return !group->outgoing.active && !plan_send(&group->plan, &group->sent, &transfer) &&
           !plan_receive(&group->plan, &group->received, &transfer);
}

static int carry_out(struct tcp_group *group)
{
    uint64_t still_since_ns = 0;
    while (!finished(group)) {
        int pushed = tcp_push(group);
        if (pushed < 0) {
            return pushed;
        }
        int pulled = tcp_pull(group);
        if (pulled < 0) {
            return pulled;
        }
        if (pushed > 0 || pulled > 0) {
            still_since_ns = 0;
            continue;
        }
        uint64_t now_ns = tcp_now_ns();
        if (still_since_ns == 0) {
            still_since_ns = now_ns;
        }
        if (group->revoke != NULL && revoke_is_set(group->revoke)) {
            return revoked(group);
        }
        if (now_ns - still_since_ns < (uint64_t)group->spin_us * 1000) {
            (void)sched_yield();
            continue;
        }
        int error = wait_for_movement(group, still_since_ns);
        if (error != 0) {
            return error;
        }
    }
    return 0;
}

int tcp_group_run(struct tcp_group *group, enum plan_kind kind, enum plan_algorithm algorithm, enum element_type type,
                  void *values, uint64_t count, uint32_t root)
{
    if (root >= group->size || (algorithm != 0 && !plan_exists(kind, algorithm)) ||
        element_type_bytes(type) == 0 ||
        (!ELEMENT_ADDS(type) && (kind == PLAN_ALL_REDUCE || kind == PLAN_REDUCE_SCATTER))) {
        return ERR_USAGE;
    }
    if (group->broken != 0 || group->size == 1) {
        return group->broken;
    }
    if (group->revoke != NULL && revoke_is_set(group->revoke)) {
        return revoked(group);
    }
    uint32_t element_bytes = (uint32_t)element_type_bytes(type);
    CHECK(count <= UINT64_MAX / element_bytes);
    struct plan_options options = {
        .kind = kind,
        .algorithm = algorithm,
        .rank = group->rank,
        .size = group->size,
        .root = root,
        .count = count,
        .element_bytes = element_bytes,
        .piece_count = TCP_PIECE_BYTES / element_bytes,
    };
    plan_init(&group->plan, &options);
    group->type = type;
    group->values = values;
    group->element_bytes = element_bytes;
    group->sent = plan_begin(&group->plan, true);
    group->received = plan_begin(&group->plan, false);
    group->operation++;
    for (uint32_t peer = 0; peer < group->size; peer++) {
        group->links[peer].looked_ahead = group->links[peer].quiet = false;
    }
    return carry_out(group);
}

int tcp_group_all_reduce(struct tcp_group *group, enum element_type type, void *values, uint64_t count)
{
    return tcp_group_run(group, PLAN_ALL_REDUCE, 0, type, values, count, 0);
}

int tcp_group_reduce_scatter(struct tcp_group *group, enum element_type type, void *values, uint64_t count)
{
    return tcp_group_run(group, PLAN_REDUCE_SCATTER, 0, type, values, count, 0);
}

int tcp_group_all_gather(struct tcp_group *group, enum element_type type, void *values, uint64_t count)
{
    return tcp_group_run(group, PLAN_ALL_GATHER, 0, type, values, count, 0);
}

int tcp_group_broadcast(struct tcp_group *group, void *bytes, uint64_t count, uint32_t root)
{
    return tcp_group_run(group, PLAN_BROADCAST, 0, ELEMENT_BYTES, bytes, count, root);
}

int tcp_group_barrier(struct tcp_group *group)
{
    return tcp_group_run(group, PLAN_BARRIER, 0, ELEMENT_F32, NULL, 0, 0);
}
