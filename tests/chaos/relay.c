/* chaos_relay: a link over a long way. It makes two TAP devices in the network namespace that it runs in; every frame that is
 * sent into one of them comes out of the other DELAY ms later, and up to JITTER ms more, in the order in which they came:
 *
 *     the node's veth -- a bridge -- NEAR [chaos_relay] FAR -- the bridge of all
 *
 * TAP devices and no packet sockets, because the kernel then completes checksums and cuts large segments before it hands
 * frames over. Each way QUEUE_FRAMES wait at most; what comes while so many wait is dropped and counted.
 *
 * usage: chaos_relay NEAR FAR DELAY_MS JITTER_MS SECONDS
 * Prints "ready" when the devices are there. Ends, and the devices with it, when its standard input does (so with whoever
 * started it), and at the latest after SECONDS; then prints what became of the frames, as JSON. */

#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"

#define QUEUE_FRAMES 4096 /* 250 ms of 24 MB/s */
#define FRAME_BYTES 1600  /* Ethernet's 1514, and room for a tag */
#define READS_MAX 64      /* of one device at a time, so that the other one has its turn */
#define DELAY_MS_MAX 60000

struct frame {
    uint64_t due_ns;
    size_t bytes;
    uint8_t data[FRAME_BYTES];
};

/* One direction. */
struct way {
    int from, to;
    struct random random;
    size_t first, count; /* of the frames that wait, in a ring */
    uint64_t forwarded, dropped;
    struct frame frames[QUEUE_FRAMES];
};

static struct way ways[2];

static uint64_t clock_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int fail(const char *what)
{
    (void)fprintf(stderr, "chaos_relay: %s: %s\n", what, strerror(errno));
    return 1;
}

/* -1 on failure, with errno. */
static int open_tap(const char *name)
{
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    if (strlen(name) >= sizeof request.ifr_name) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(request.ifr_name, name, strlen(name) + 1);
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && ioctl(fd, TUNSETIFF, &request) != 0) {
        int reason = errno;
        (void)close(fd);
        errno = reason;
        fd = -1;
    }
    return fd;
}

/* Takes what has come. A frame that is due before the one ahead of it waits for that one. False: the device is gone. */
static bool take(struct way *way, uint64_t delay_ns, uint64_t jitter_ns)
{
    for (int i = 0; i < READS_MAX; i++) {
        struct frame spare, *frame = way->count < QUEUE_FRAMES ? &way->frames[(way->first + way->count) % QUEUE_FRAMES] : &spare;
        ssize_t got = read(way->from, frame->data, sizeof frame->data);
        if (got < 0) {
            return errno == EAGAIN || errno == EINTR;
        }
        if (frame == &spare) {
            way->dropped++;
            continue;
        }
        frame->due_ns = clock_ns() + delay_ns + random_below(&way->random, jitter_ns + 1);
        frame->bytes = (size_t)got;
        way->count++;
    }
    return true;
}

static void give(struct way *way, uint64_t now_ns)
{
    while (way->count > 0 && way->frames[way->first].due_ns <= now_ns) {
        const struct frame *frame = &way->frames[way->first];
        bool is_sent = write(way->to, frame->data, frame->bytes) == (ssize_t)frame->bytes;
        way->forwarded += is_sent;
        way->dropped += !is_sent && errno != EIO; /* EIO: the device is not up yet */
        way->first = (way->first + 1) % QUEUE_FRAMES;
        way->count--;
    }
}

/* When something is to be done although nothing comes. */
static uint64_t next_ns(uint64_t end_ns)
{
    uint64_t next = end_ns;
    for (size_t i = 0; i < 2; i++) {
        if (ways[i].count > 0 && ways[i].frames[ways[i].first].due_ns < next) {
            next = ways[i].frames[ways[i].first].due_ns;
        }
    }
    return next;
}

/* Until standard input ends or `end_ns` has come. */
static int relay(int poll_fd, int timer_fd, uint64_t delay_ns, uint64_t jitter_ns, uint64_t end_ns)
{
    for (;;) {
        uint64_t next = next_ns(end_ns);
        struct itimerspec when = {.it_value = {.tv_sec = (time_t)(next / 1000000000u), .tv_nsec = (long)(next % 1000000000u)}};
        struct epoll_event events[4];
        if (timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &when, NULL) != 0) {
            return fail("timerfd_settime");
        }
        int count = epoll_wait(poll_fd, events, 4, -1);
        if (count < 0 && errno != EINTR) {
            return fail("epoll_wait");
        }
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd == STDIN_FILENO) {
                return 0;
            }
            for (size_t w = 0; w < 2; w++) {
                if (events[i].data.fd == ways[w].from && !take(&ways[w], delay_ns, jitter_ns)) {
                    return fail("read");
                }
            }
        }
        uint64_t now_ns = clock_ns();
        give(&ways[0], now_ns);
        give(&ways[1], now_ns);
        if (now_ns >= end_ns) {
            return 0;
        }
    }
}

static bool read_number(const char *text, uint64_t max, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || text[0] == '-' || value > max) {
        return false;
    }
    *out = value;
    return true;
}

int main(int argc, char **argv)
{
    uint64_t delay_ms, jitter_ms, seconds;
    if (argc != 6 || !read_number(argv[3], DELAY_MS_MAX, &delay_ms) || !read_number(argv[4], DELAY_MS_MAX, &jitter_ms) ||
        !read_number(argv[5], 86400, &seconds)) {
        (void)fprintf(stderr, "usage: chaos_relay NEAR FAR DELAY_MS JITTER_MS SECONDS; at most %d ms\n", DELAY_MS_MAX);
        return 2;
    }
    uint64_t end_ns = clock_ns() + seconds * 1000000000u;
    int near = open_tap(argv[1]), far = near < 0 ? -1 : open_tap(argv[2]);
    if (far < 0) {
        return fail(near < 0 ? argv[1] : argv[2]);
    }
    ways[0].from = ways[1].to = near;
    ways[1].from = ways[0].to = far;
    int poll_fd = epoll_create1(EPOLL_CLOEXEC), timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    int watched[] = {near, far, timer_fd, STDIN_FILENO};
    for (size_t i = 0; i < sizeof watched / sizeof watched[0]; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data = {.fd = watched[i]}};
        if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, watched[i], &event) != 0) {
            return fail("epoll_ctl");
        }
    }
    for (size_t i = 0; i < 2; i++) {
        random_init_stream(&ways[i].random, delay_ms, i);
    }
    (void)puts("ready");
    (void)fflush(stdout);
    int result = relay(poll_fd, timer_fd, delay_ms * 1000000u, jitter_ms * 1000000u, end_ns);
    (void)printf("{\"forwarded\": %llu, \"dropped\": %llu, \"waiting\": %zu}\n",
                 (unsigned long long)(ways[0].forwarded + ways[1].forwarded),
                 (unsigned long long)(ways[0].dropped + ways[1].dropped), ways[0].count + ways[1].count);
    return result;
}
