#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/bytes.h"
#include "tests/unit/forked.h"
#include "tests/unit/ranks.h"

_Static_assert(SHM_GROUP_ERROR_BYTES <= GROUP_ERROR_BYTES, "both leave their sentences in a rank");

uint64_t clock_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void sleep_ms(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&t, NULL);
}

/* ---- a rank ---- */

static void keep_error(struct rank *r, const char *error)
{
    if (r->error[0] == 0) { /* else the body has said it better */
        bytes_copy_text(r->error, sizeof r->error, error);
    }
}

static void run_in_hosts(struct world *w, uint32_t rank)
{
    struct rank *r = &w->ranks[rank];
    struct group *group = NULL;
    const char *host = w->hosts[rank][0] != 0 ? w->hosts[rank] : NULL;
    r->open_result = group_open(&group, w->listeners[rank], &w->links[rank], host, r->open_error);
    if (r->open_result == 0) {
        uint64_t start_ms = clock_ms();
        r->hosts = group_hosts(group);
        r->result = w->group_body(w, group, rank);
        r->took_ms = clock_ms() - start_ms;
        keep_error(r, group_error(group));
        group_close(&group);
    }
}

static void run_in_memory(struct world *w, uint32_t rank)
{
    struct rank *r = &w->ranks[rank];
    struct shm_group *group = NULL;
    int listen_fd = w->listeners[rank];
    if (listen_fd < 0 && w->size > 1) {
        r->open_result = shm_group_listen(w->members[rank].name, &listen_fd);
    }
    if (r->open_result == 0) {
        r->open_result = shm_group_open(&group, listen_fd, &w->options[rank], r->open_error);
    }
    if (r->open_result == 0) {
        uint64_t start_ms = clock_ms();
        r->refused = shm_group_refused(group);
        r->result = w->memory_body(w, group, rank);
        r->took_ms = clock_ms() - start_ms;
        keep_error(r, shm_group_error(group));
        shm_group_close(&group);
    }
}

static void be_rank(struct world *w, uint32_t rank)
{
    if (w->before != NULL) {
        w->before(w, rank);
    }
    w->run(w, rank);
    atomic_store(&w->ranks[rank].ended, true);
}

/* ---- worlds ---- */

static struct world *world_new(uint32_t size)
{
    struct world *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(w != MAP_FAILED && size <= RANKS_MAX);
    w->size = size;
    for (uint32_t i = 0; i < RANKS_MAX; i++) {
        w->listeners[i] = -1;
        w->threads[i].world = w;
        w->threads[i].rank = i;
    }
    return w;
}

struct world *world_of_hosts(const char *hosts, group_body *body)
{
    struct world *w = world_new((uint32_t)strlen(hosts));
    w->run = run_in_hosts;
    w->group_body = body;
    for (uint32_t i = 0; i < w->size; i++) {
        if (hosts[i] != '-') {
            (void)snprintf(w->hosts[i], sizeof w->hosts[i], "host %c", hosts[i]);
        }
        (void)snprintf(w->addresses[i].host, sizeof w->addresses[i].host, "127.0.0.1");
        assert_int_equal(tcp_group_listen("127.0.0.1", &w->listeners[i], &w->addresses[i].port), 0);
        w->links[i] = (struct tcp_options){.rank = i,
                                           .size = w->size,
                                           .generation = 4,
                                           .key = {1, 2, 3},
                                           .group = "0011223344556677/4/1",
                                           .members = w->addresses};
    }
    world_set_timeouts(w, LONG_MS, LONG_MS);
    return w;
}

struct world *world_of_memory(uint32_t size, memory_body *body)
{
    static int serial;
    struct world *w = world_new(size);
    w->run = run_in_memory;
    w->memory_body = body;
    serial++;
    for (uint32_t i = 0; i < size; i++) {
        (void)snprintf(w->members[i].name, sizeof w->members[i].name, "test-%d-%d-%u", getpid(), serial, i);
        w->options[i] = (struct shm_group_options){.rank = i,
                                                   .size = size,
                                                   .generation = 3,
                                                   .key = {1, 2, 3},
                                                   .group = "0011223344556677/4/1",
                                                   .members = w->members};
    }
    world_set_timeouts(w, LONG_MS, LONG_MS);
    return w;
}

void world_end(struct world **w)
{
    (void)munmap(*w, sizeof **w);
    *w = NULL;
}

void world_set_timeouts(struct world *w, int open_timeout_ms, int stall_timeout_ms)
{
    for (uint32_t i = 0; i < w->size; i++) {
        w->links[i].open_timeout_ms = w->options[i].open_timeout_ms = open_timeout_ms;
        w->links[i].stall_timeout_ms = w->options[i].stall_timeout_ms = stall_timeout_ms;
    }
}

/* ---- processes ---- */

static void close_listeners(struct world *w, uint32_t but)
{
    for (uint32_t i = 0; i < w->size; i++) {
        if (i != but && w->listeners[i] >= 0) {
            (void)close(w->listeners[i]);
        }
    }
}

void world_fork(struct world *w)
{
    for (uint32_t i = 0; i < w->size; i++) {
        pid_t process = fork();
        assert_true(process >= 0);
        if (process == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves them behind, waiting or stopped */
            close_listeners(w, i);
            be_rank(w, i);
            forked_end(0);
        }
        w->processes[i] = process;
    }
    close_listeners(w, w->size);
}

void world_wait_for(struct world *w, uint32_t rank)
{
    int status;
    assert_int_equal(waitpid(w->processes[rank], &status, 0), w->processes[rank]);
    assert_true(WIFEXITED(status) ? WEXITSTATUS(status) == 0 : WTERMSIG(status) == SIGKILL);
}

void world_wait(struct world *w)
{
    for (uint32_t i = 0; i < w->size; i++) {
        world_wait_for(w, i);
    }
}

/* ---- threads ---- */

static void *thread_main(void *argument)
{
    struct rank_thread *thread = argument;
    be_rank(thread->world, thread->rank);
    return NULL;
}

void world_thread(struct world *w, uint32_t rank)
{
    assert_int_equal(pthread_create(&w->threads[rank].thread, NULL, thread_main, &w->threads[rank]), 0);
}

void world_join(struct world *w, uint32_t rank)
{
    assert_int_equal(pthread_join(w->threads[rank].thread, NULL), 0);
}

void world_threads(struct world *w)
{
    for (uint32_t i = 0; i < w->size; i++) {
        world_thread(w, i);
    }
    for (uint32_t i = 0; i < w->size; i++) {
        world_join(w, i);
    }
}

void assert_all_well(const struct world *w)
{
    for (uint32_t i = 0; i < w->size; i++) {
        assert_true(atomic_load(&w->ranks[i].ended));
        assert_string_equal(w->ranks[i].open_error, "");
        assert_int_equal(w->ranks[i].open_result, 0);
        assert_string_equal(w->ranks[i].error, "");
        assert_int_equal(w->ranks[i].result, 0);
    }
}
