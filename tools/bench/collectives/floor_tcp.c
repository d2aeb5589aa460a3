/* A reachable floor for an all-reduce of float32 over TCP: a ring in one thread, in which each rank is a filter of a byte
 * stream. Bytes that were received and added can be sent at once, at any grain, straight from the array; there are no headers
 * and no checks, and the only extra memory is a landing area that stays in the cache. A rank spins if every rank has a core
 * to itself, else it polls.
 *
 * usage: bench_floor_tcp RANK RANKS DIRECTORY ADDRESS SIZES BLOCKS RANKS_HERE (tools/bench/allreduce_net runs it) */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/bench/collectives/bench.h"

#define LANDING_BYTES (256u * 1024)

static uint32_t own, ranks;
static int next_fd, previous_fd;
static bool spins;
static _Alignas(64) uint8_t landing[LANDING_BYTES];

static void add(float *restrict to, const float *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        to[i] += from[i];
    }
}

/* The slice `back` places before the rank's own slice, round the ring. */
static uint8_t *slice_at(uint8_t *array, size_t slice_bytes, size_t back)
{
    size_t n = ranks;
    return array + (own + 2 * n - back) % n * slice_bytes;
}

/* The stream to the next rank is slices own, own - 1, ... for 2 (n - 1) slices; the stream from the previous rank begins with
 * own - 1. The first half is added, the second half replaces. `count` is a multiple of the number of ranks. */
static void all_reduce(void *context, float *in, float *out, size_t count)
{
    (void)context, (void)out;
    uint8_t *array = (uint8_t *)in;
    size_t slice = count * sizeof(float) / (size_t)ranks, total = 2 * (size_t)(ranks - 1) * slice;
    size_t sent = 0, received = 0, torn = 0; /* torn: bytes of an incomplete element */
    while (sent < total || received < total) {
        bool moved = false;
        if (received < total) {
            size_t within = received % slice, want = slice - within;
            uint8_t *place = slice_at(array, slice, received / slice + 1) + within;
            bool adds = received < total / 2;
            if (adds && want > LANDING_BYTES) {
                want = LANDING_BYTES;
            }
            ssize_t n = adds ? recv(previous_fd, landing + torn, want - torn, MSG_DONTWAIT)
                             : recv(previous_fd, place, want, MSG_DONTWAIT);
            if (n == 0 || (n < 0 && errno != EAGAIN)) {
                bench_die("recv failed");
            }
            moved = n > 0;
            if (n > 0 && adds) {
                size_t there = torn + (size_t)n, elements = there / sizeof(float);
                add((float *)(void *)place, (const float *)(const void *)landing, elements);
                torn = there % sizeof(float);
                memmove(landing, landing + elements * sizeof(float), torn);
                received += elements * sizeof(float);
            } else if (n > 0) {
                received += (size_t)n;
            }
        }
        size_t ready = received + slice < total ? received + slice : total;
        if (sent < ready) {
            size_t within = sent % slice, left = slice - within < ready - sent ? slice - within : ready - sent;
            ssize_t n = send(next_fd, slice_at(array, slice, sent / slice) + within, left, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (n < 0 && errno != EAGAIN) {
                bench_die("send failed");
            }
            moved = moved || n > 0;
            sent += n > 0 ? (size_t)n : 0;
        }
        if (!moved && !spins) {
            struct pollfd fds[2] = {{.fd = received < total ? previous_fd : -1, .events = POLLIN},
                                    {.fd = sent < ready ? next_fd : -1, .events = POLLOUT}};
            (void)poll(fds, 2, -1);
        }
    }
}

static void meet(const char *directory, const char *address)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t at_bytes = sizeof at;
    int on = 1, listen_fd = socket(AF_INET, SOCK_STREAM, 0);
    if (inet_pton(AF_INET, address, &at.sin_addr) != 1 || bind(listen_fd, (struct sockaddr *)&at, sizeof at) != 0 ||
        listen(listen_fd, 1) != 0 || getsockname(listen_fd, (struct sockaddr *)&at, &at_bytes) != 0) {
        bench_die("cannot listen on the address");
    }
    bench_publish(directory, own, address, ntohs(at.sin_port));
    char host[64];
    uint16_t port;
    bench_find(directory, (own + 1) % ranks, host, &port);
    at.sin_port = htons(port);
    next_fd = socket(AF_INET, SOCK_STREAM, 0);
    if (inet_pton(AF_INET, host, &at.sin_addr) != 1 || connect(next_fd, (struct sockaddr *)&at, sizeof at) != 0) {
        bench_die("cannot connect to the next rank");
    }
    previous_fd = accept(listen_fd, NULL, NULL);
    (void)setsockopt(next_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)close(listen_fd);
}

static double worst_of(void *context, double own_s)
{
    float all[BENCH_RANKS_MAX] = {0};
    all[own] = (float)own_s;
    all_reduce(context, all, all, ranks);
    double worst = 0;
    for (uint32_t i = 0; i < ranks; i++) {
        worst = all[i] > worst ? all[i] : worst;
    }
    return worst;
}

int main(int count, char **words)
{
    if (count != 8) {
        bench_die("usage: bench_floor_tcp RANK RANKS DIRECTORY ADDRESS SIZES BLOCKS RANKS_HERE");
    }
    own = (uint32_t)atoi(words[1]);
    ranks = (uint32_t)atoi(words[2]);
    if (ranks < 2 || ranks > BENCH_RANKS_MAX || own >= ranks) {
        bench_die("the floor has 2 to 64 ranks");
    }
    spins = bench_pin_apart(own, (uint32_t)atoi(words[7]));
    meet(words[3], words[4]);
    const struct bench bench = {.rank = own, .size = ranks, .all_reduce = all_reduce, .worst = worst_of};
    size_t sizes[BENCH_SIZES_MAX], kinds = bench_sizes(words[5], sizes);
    for (size_t s = 0; s < kinds; s++) {
        size_t step = (size_t)ranks * 16, floats = (sizes[s] / sizeof(float) + step - 1) / step * step; /* equal, aligned slices */
        float *values = bench_floats(floats);
        bench_measure(&bench, values, values, floats, sizes[s], atoi(words[6]));
        free(values);
    }
    return 0;
}
