#include "train/group/shm/inside.h"

#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"

#define SPINS 2000   /* while each rank has a processor: some 40 us */
#define YIELD_US 200 /* otherwise: how long to yield the processor before sleeping */
/* phases to sleep after yielding took that long: other processes want the processors, and the scheduler prefers a waking
 * sleeper */
#define SLEEP_PHASES 256
#define WATCH_MS 20  /* how often a sleeper checks for dead peers and for a revocation */

static uint64_t clock_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* ---- waking and breaking ---- */

static void wake(struct shm_group *group)
{
    struct area *area = group->peers[0].area;
    if (atomic_load(&area->sleepers) != 0) {
        atomic_fetch_add(&area->gate, 1);
        (void)syscall(SYS_futex, &area->gate, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
}

static void give_up(struct shm_group *group)
{
    for (uint32_t i = 0; i < group->size; i++) {
        uint32_t none = 0;
        (void)atomic_compare_exchange_strong(&group->peers[i].area->given_up, &none, 1 + group->rank);
    }
    wake(group);
}

int shm_phase_fail(struct shm_group *group, int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(group->error, sizeof group->error, format, arguments);
    va_end(arguments);
    group->broken = error;
    give_up(group);
    return error;
}

int shm_phase_check_over(struct shm_group *group)
{
    if (group->revoke != NULL && revoke_is_set(group->revoke)) {
        return shm_phase_fail(group, ERR_CLOSED, "rank %u was told that its group is over", group->rank);
    }
    uint32_t who = atomic_load(&group->peers[group->rank].area->given_up);
    return who == 0 ? 0
                    : shm_phase_fail(group, ERR_CLOSED, "rank %u has given up the group: its own error tells why", who - 1);
}

/* ---- phases ---- */

static _Atomic uint64_t *line_of(const struct shm_group *group, uint32_t rank)
{
    return group->peers[rank].area->lines[group->phase & 1];
}

static bool arrived(const struct shm_group *group, uint32_t rank)
{
    return atomic_load(&line_of(group, rank)[ARRIVED]) == group->phase;
}

/* The first rank that has not arrived, or `size`. */
static uint32_t first_missing(const struct shm_group *group)
{
    uint32_t i = 0;
    while (i < group->size && arrived(group, i)) {
        i++;
    }
    return i;
}

/* Checks for peers that are gone. A socket hangs up and a pidfd becomes readable when the process has ended or has closed the
 * group, which is fine if the peer has done its part. */
static int watch(struct shm_group *group)
{
    struct pollfd fds[2 * SHM_GROUP_RANKS_MAX + REVOKE_FDS], *revoke_fds = fds + 2 * group->size;
    for (uint32_t i = 0; i < group->size; i++) {
        fds[2 * i] = (struct pollfd){.fd = group->peers[i].socket};
        fds[2 * i + 1] = (struct pollfd){.fd = group->peers[i].process, .events = POLLIN};
    }
    revoke_poll(group->revoke, revoke_fds);
    if (poll(fds, 2 * group->size + REVOKE_FDS, 0) <= 0) {
        return 0;
    }
    if (revoke_check(group->revoke, revoke_fds)) {
        return shm_phase_check_over(group);
    }
    for (uint32_t i = 0; i < group->size; i++) {
        if ((fds[2 * i].revents != 0 || fds[2 * i + 1].revents != 0) && !arrived(group, i)) {
            return shm_phase_fail(group, ERR_CLOSED, "rank %u lost rank %u: its process has ended or left the group",
                                  group->rank, i);
        }
    }
    return 0;
}

/* Sleeps until the gate opens, WATCH_MS at most. Either the last rank to arrive sees that all ranks are there and that there
 * are sleepers, or this rank sees that all are there: the four accesses have a single order. */
static void sleep_at_gate(struct shm_group *group)
{
    struct area *area = group->peers[0].area;
    atomic_fetch_add(&area->sleepers, 1);
    uint32_t gate = atomic_load(&area->gate);
    if (first_missing(group) < group->size && atomic_load(&group->peers[group->rank].area->given_up) == 0) {
        struct timespec limit = {.tv_nsec = WATCH_MS * 1000000};
        (void)syscall(SYS_futex, &area->gate, FUTEX_WAIT, gate, &limit, NULL, 0);
    }
    atomic_fetch_sub(&area->sleepers, 1);
}

static int wait_long(struct shm_group *group)
{
    uint64_t began_us = clock_us(), watched_us = began_us;
    uint32_t missing;
    while ((missing = first_missing(group)) < group->size) {
        int error = shm_phase_check_over(group);
        if (error != 0) {
            return error;
        }
        uint64_t now_us = clock_us();
        if (now_us - began_us >= (uint64_t)group->stall_timeout_ms * 1000) {
            return shm_phase_fail(group, ERR_TIMEOUT,
                                  "a collective stalled on rank %u: rank %u did not come within %d ms", group->rank,
                                  missing, group->stall_timeout_ms);
        }
        if (now_us - watched_us >= WATCH_MS * 1000) {
            watched_us = now_us;
            error = watch(group);
            if (error != 0) {
                return error;
            }
        }
        if (group->crowded && group->phase >= group->yield_from && now_us - began_us < YIELD_US) {
            (void)sched_yield();
            if (clock_us() - now_us >= YIELD_US) {
                group->yield_from = group->phase + SLEEP_PHASES;
            }
        } else {
            sleep_at_gate(group);
        }
    }
    return 0;
}

static int wait_all(struct shm_group *group)
{
    if (first_missing(group) == group->size) {
        wake(group);
        return 0;
    }
    if (!group->crowded) {
        uint32_t spins = 0;
        for (uint32_t i = 0; i < group->size; i++) {
            while (!arrived(group, i) && spins < SPINS) {
                pause_briefly();
                spins++;
            }
        }
        if (spins < SPINS) {
            return 0;
        }
    }
    return wait_long(group);
}

static int fail_differs(struct shm_group *group, uint32_t rank, const uint64_t theirs[LINE_WORDS])
{
    const uint64_t *ours = group->words;
    return shm_phase_fail(group, ERR_MALFORMED,
                          "rank %u is in operation %" PRIu64 " (%s of %" PRIu64 " %s, root %u), rank %u in %" PRIu64
                          " (%s of %" PRIu64 " %s, root %u): every rank must call the same collectives with the same counts",
                          rank, theirs[OPERATION], plan_kind_name(theirs[WHAT] & 0xff), theirs[COUNT],
                          element_type_name(theirs[WHAT] >> 8 & 0xff), (unsigned)(theirs[WHAT] >> 16 & 0xffff),
                          group->rank, ours[OPERATION], plan_kind_name(ours[WHAT] & 0xff), ours[COUNT],
                          element_type_name(ours[WHAT] >> 8 & 0xff), (unsigned)(ours[WHAT] >> 16 & 0xffff));
}

void shm_phase_line(const struct shm_group *group, uint32_t rank, uint64_t words[LINE_WORDS])
{
    _Atomic uint64_t *line = line_of(group, rank);
    for (size_t w = 0; w < LINE_WORDS; w++) {
        words[w] = atomic_load_explicit(&line[w], memory_order_relaxed);
    }
}

int shm_phase(struct shm_group *group)
{
    group->phase++;
    _Atomic uint64_t *line = line_of(group, group->rank);
    for (size_t w = ARRIVED + 1; w < LINE_WORDS; w++) {
        atomic_store_explicit(&line[w], group->words[w], memory_order_relaxed);
    }
    atomic_store(&line[ARRIVED], group->phase);
    int error = wait_all(group);
    for (uint32_t i = 0; i < group->size && error == 0; i++) {
        uint64_t theirs[LINE_WORDS];
        shm_phase_line(group, i, theirs);
        if (theirs[GENERATION] != group->words[GENERATION] || theirs[OPERATION] != group->words[OPERATION] ||
            theirs[COUNT] != group->words[COUNT] || theirs[WHAT] != group->words[WHAT]) {
            error = fail_differs(group, i, theirs);
        }
    }
    group->words[WHAT] += UINT64_C(1) << 32; /* the next phase of the same operation */
    return error;
}
