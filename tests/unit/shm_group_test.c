/* Groups over shared memory. Most ranks here are processes, as they are in life; where a test needs to reach into a rank, or
 * plays a hostile one, ranks are threads. cmocka's assertions belong to the main thread of the first process: ranks leave
 * their results in shared memory, and that thread judges them. */
#include "train/shm_group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/random.h"
#include "train/reduce_cpu.h"
#include "train/shm_meet.h"
#include "train/shm_memory.h"

#define RANKS_MAX 8
#define LONG_MS 60000 /* timeouts that nothing here reaches unless it hangs */
#define SOON_MS 20000 /* far below, and far above what a loaded machine needs */

struct rank {
    int open_result, result;
    char open_error[SHM_GROUP_ERROR_BYTES], error[SHM_GROUP_ERROR_BYTES];
    uint32_t refused;
    uint64_t took_ms;
    atomic_int progress;
};

struct world;
typedef int body(struct world *world, struct shm_group *group, uint32_t rank);

/* Lies in shared memory. */
struct world {
    uint32_t size;
    struct shm_group_member members[RANKS_MAX];
    struct shm_group_options options[RANKS_MAX];
    body *body;
    int variant; /* of what the test tries */
    atomic_int go;
    pid_t processes[RANKS_MAX];
    struct rank ranks[RANKS_MAX];
};

static uint64_t clock_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void sleep_ms(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&t, NULL);
}

static struct world *world_new(uint32_t size, body *run)
{
    static int serial;
    struct world *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(w != MAP_FAILED);
    w->size = size;
    w->body = run;
    serial++;
    for (uint32_t i = 0; i < size; i++) {
        (void)snprintf(w->members[i].name, sizeof w->members[i].name, "test-%d-%d-%u", getpid(), serial, i);
        w->options[i] = (struct shm_group_options){.rank = i,
                                                   .size = size,
                                                   .generation = 3,
                                                   .key = {1, 2, 3},
                                                   .group = "0011223344556677/4/1",
                                                   .members = w->members,
                                                   .open_timeout_ms = LONG_MS,
                                                   .stall_timeout_ms = LONG_MS};
    }
    return w;
}

static void world_end(struct world **w)
{
    (void)munmap(*w, sizeof **w);
    *w = NULL;
}

static void rank_main(struct world *w, uint32_t rank)
{
    struct rank *r = &w->ranks[rank];
    struct shm_group *group = NULL;
    int listen_fd = -1;
    r->open_result = w->size == 1 ? 0 : shm_group_listen(w->members[rank].name, &listen_fd);
    if (r->open_result == 0) {
        r->open_result = shm_group_open(&group, listen_fd, &w->options[rank], r->open_error);
    }
    if (r->open_result == 0) {
        uint64_t start_ms = clock_ms();
        r->refused = shm_group_refused(group);
        r->result = w->body(w, group, rank);
        r->took_ms = clock_ms() - start_ms;
        if (r->error[0] == 0) {
            memcpy(r->error, shm_group_error(group), sizeof r->error);
        }
        shm_group_close(&group);
    }
}

static void world_fork(struct world *w)
{
    for (uint32_t i = 0; i < w->size; i++) {
        pid_t process = fork();
        assert_true(process >= 0);
        if (process == 0) {
            rank_main(w, i);
            _exit(0);
        }
        w->processes[i] = process;
    }
}

static void world_wait(struct world *w)
{
    for (uint32_t i = 0; i < w->size; i++) {
        assert_int_equal(waitpid(w->processes[i], NULL, 0), w->processes[i]);
    }
}

struct thread {
    struct world *world;
    uint32_t rank;
};

static void *thread_main(void *argument)
{
    struct thread *t = argument;
    rank_main(t->world, t->rank);
    return NULL;
}

static void world_threads(struct world *w)
{
    pthread_t threads[RANKS_MAX];
    struct thread arguments[RANKS_MAX];
    for (uint32_t i = 0; i < w->size; i++) {
        arguments[i] = (struct thread){w, i};
        assert_int_equal(pthread_create(&threads[i], NULL, thread_main, &arguments[i]), 0);
    }
    for (uint32_t i = 0; i < w->size; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

static void assert_all_well(const struct world *w)
{
    for (uint32_t i = 0; i < w->size; i++) {
        assert_string_equal(w->ranks[i].open_error, "");
        assert_int_equal(w->ranks[i].open_result, 0);
        assert_string_equal(w->ranks[i].error, "");
        assert_int_equal(w->ranks[i].result, 0);
    }
}

/* ---- right sums ---- */

enum { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, KINDS };
enum { GROUP_MEMORY, PROCESS_MEMORY, MIXED_MEMORY, PLACES };

/* What rank brings to case `seed`: ordinary numbers, the same wherever it is asked. */
static void fill(enum element_type type, void *values, uint64_t count, uint32_t rank, uint64_t seed)
{
    struct random random;
    random_init_stream(&random, seed, rank);
    uint32_t table[509];
    for (size_t i = 0; i < 509; i++) {
        float value = (float)(random_double(&random) - 0.5) * 10.0f;
        memcpy(&table[i], &value, 4);
        if (type == ELEMENT_F16) {
            table[i] = 0x3000 + (uint32_t)random_below(&random, 0x1400) + (uint32_t)random_below(&random, 2) * 0x8000;
        } else if (type == ELEMENT_BF16) {
            table[i] >>= 16;
        }
    }
    for (uint64_t i = 0; i < count; i++) {
        if (type == ELEMENT_F32) {
            ((uint32_t *)values)[i] = table[i % 509];
        } else {
            ((uint16_t *)values)[i] = (uint16_t)table[i % 509];
        }
    }
}

/* Checks one collective; what is wrong goes to the rank's error. */
static int check_case(struct world *w, struct shm_group *group, uint32_t rank, int kind, enum element_type type,
                      uint64_t count, int place, uint64_t seed)
{
    size_t each = element_type_bytes(type), bytes = count * each, offset = (seed % 3 == 0 ? 0 : seed % 17) * each;
    bool in_group = place == GROUP_MEMORY || (place == MIXED_MEMORY && (rank + seed) % 2 == 0);
    void *memory = NULL;
    uint8_t *all = malloc(w->size * bytes + 1), *expected = malloc(bytes + 1);
    int error = in_group ? shm_group_alloc(group, bytes + offset + 1, &memory) : 0;
    if (!in_group) {
        memory = malloc(bytes + offset + 1);
    }
    if (error != 0 || memory == NULL || all == NULL || expected == NULL) {
        return ERR_MEMORY;
    }
    uint8_t *values = (uint8_t *)memory + offset;
    const void *sources[RANKS_MAX];
    for (uint32_t i = 0; i < w->size; i++) {
        fill(type, all + i * bytes, count, i, seed);
        sources[i] = all + i * bytes;
    }
    memcpy(values, sources[rank], bytes);
    uint64_t begin = 0, end = count;
    uint32_t root = (uint32_t)(seed % w->size);
    if (kind == ALL_REDUCE || kind == REDUCE_SCATTER) {
        void *to = expected;
        reduce_sum(reduce_cpu_best(), type, sources, w->size, &to, 1, count);
    }
    if (kind == ALL_REDUCE) {
        error = shm_group_all_reduce(group, type, values, count);
    } else if (kind == REDUCE_SCATTER) {
        begin = count * rank / w->size;
        end = count * (rank + 1) / w->size;
        error = shm_group_reduce_scatter(group, type, values, count);
    } else if (kind == ALL_GATHER) {
        for (uint32_t i = 0; i < w->size; i++) {
            uint64_t from = count * i / w->size, to = count * (i + 1) / w->size;
            memcpy(expected + from * each, all + i * bytes + from * each, (to - from) * each);
        }
        error = shm_group_all_gather(group, type, values, count);
    } else {
        memcpy(expected, sources[root], bytes);
        error = shm_group_broadcast(group, values, bytes, root);
    }
    if (error == 0 && w->size > 1 && memcmp(values + begin * each, expected + begin * each, (end - begin) * each) != 0) {
        (void)snprintf(w->ranks[rank].error, SHM_GROUP_ERROR_BYTES, "kind %d type %d count %llu place %d: wrong on rank %u",
                       kind, (int)type, (unsigned long long)count, place, rank);
        error = ERR_CORRUPT;
    }
    if (in_group) {
        shm_group_free(group, memory);
    } else {
        free(memory);
    }
    free(all);
    free(expected);
    return error;
}

static int body_all_cases(struct world *w, struct shm_group *group, uint32_t rank)
{
    static const uint64_t counts[] = {0, 1, 2, 7, 9, 17, 63, 65, 255, 1024, 4097, 8192, 16384, 50001, 140001};
    static const enum element_type types[] = {ELEMENT_F32, ELEMENT_F16, ELEMENT_BF16};
    uint64_t seed = 0;
    int error = 0;
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        for (int kind = 0; kind < KINDS; kind++) {
            for (size_t t = 0; t < 3; t++) {
                for (int place = 0; place < PLACES && error == 0; place++) {
                    error = check_case(w, group, rank, kind, types[t], counts[c], place, seed++);
                }
            }
        }
        error = error == 0 ? shm_group_barrier(group) : error;
    }
    return error;
}

static void test_collectives_equal_the_reference_on_every_rank(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 4, 8};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        struct world *w = world_new(sizes[s], body_all_cases);
        world_fork(w);
        world_wait(w);
        assert_all_well(w);
        world_end(&w);
    }
}

static int body_large(struct world *w, struct shm_group *group, uint32_t rank)
{
    int error = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        for (int place = 0; place < PLACES && error == 0; place++) {
            error = check_case(w, group, rank, kind, ELEMENT_F32, 2200003, place, (uint64_t)kind + 5);
        }
    }
    return error;
}

static void test_arrays_larger_than_the_caches(void **state)
{
    (void)state;
    struct world *w = world_new(3, body_large);
    world_fork(w);
    world_wait(w);
    assert_all_well(w);
    world_end(&w);
}

static int body_threads(struct world *w, struct shm_group *group, uint32_t rank)
{
    static const uint64_t counts[] = {0, 1, 1000, 5000, 90001};
    int error = 0;
    uint64_t seed = 0;
    for (int round = 0; round < 4; round++) {
        for (size_t c = 0; c < 5; c++) {
            for (int kind = 0; kind < KINDS; kind++) {
                for (int place = 0; place < PLACES && error == 0; place++) {
                    error = check_case(w, group, rank, kind, ELEMENT_BF16, counts[c], place, seed++);
                }
            }
        }
    }
    return error;
}

static void test_ranks_may_be_threads_of_one_process(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 3; size++) {
        struct world *w = world_new(size, body_threads);
        world_threads(w);
        assert_all_well(w);
        world_end(&w);
    }
}

/* One collective after the other without a pause, and uneven work between them: who is late, sleeps or spins changes all
 * the time. */
static int body_restless(struct world *w, struct shm_group *group, uint32_t rank)
{
    struct random random;
    random_init_stream(&random, 11, rank);
    void *memory;
    int error = shm_group_alloc(group, 20000 * sizeof(float), &memory);
    float *values = memory;
    for (uint32_t round = 0; round < 400 && error == 0; round++) {
        uint64_t count = round % 7 == 0 ? 20000 : round % 50;
        for (uint64_t i = 0; i < count; i++) {
            values[i] = (float)(rank + round + i);
        }
        if (random_below(&random, 40) == 0) {
            sleep_ms((long)random_below(&random, 4));
        }
        error = shm_group_all_reduce(group, ELEMENT_F32, values, count);
        for (uint64_t i = 0; i < count && error == 0; i++) {
            uint64_t sum = w->size * (round + i) + w->size * (w->size - 1) / 2;
            error = values[i] == (float)sum ? 0 : ERR_CORRUPT;
        }
    }
    return error;
}

static void test_more_ranks_than_processors_and_uneven_work(void **state)
{
    (void)state;
    struct world *w = world_new(8, body_restless);
    world_fork(w);
    world_wait(w);
    assert_all_well(w);
    world_end(&w);
}

/* ---- memory ---- */

static int body_allocations(struct world *w, struct shm_group *group, uint32_t rank)
{
    void *memory[SHM_GROUP_ALLOCATIONS_MAX + 1];
    int error = shm_group_alloc(group, 0, &memory[0]) == ERR_USAGE ? 0 : ERR_CORRUPT;
    /* As many as there may be, each used, then freed; ranks free in another order and not all of them. */
    for (int round = 0; round < 3 && error == 0; round++) {
        for (size_t i = 0; i < SHM_GROUP_ALLOCATIONS_MAX && error == 0; i++) {
            error = shm_group_alloc(group, 40000 + 100 * i, &memory[i]);
            if (error == 0) {
                ((float *)memory[i])[9999] = (float)(rank + i);
                error = shm_group_all_reduce(group, ELEMENT_F32, memory[i], 10000);
            }
            float sum = (float)(w->size * i + w->size * (w->size - 1) / 2);
            if (error == 0 && (((float *)memory[i])[9999] != sum || ((float *)memory[i])[0] != 0.0f)) {
                error = ERR_CORRUPT;
            }
        }
        if (error == 0 && shm_group_alloc(group, 1, &memory[SHM_GROUP_ALLOCATIONS_MAX]) != ERR_FULL) {
            error = ERR_CORRUPT;
        }
        for (size_t i = 0; i < SHM_GROUP_ALLOCATIONS_MAX; i++) {
            shm_group_free(group, memory[rank % 2 == 0 ? i : SHM_GROUP_ALLOCATIONS_MAX - 1 - i]);
        }
    }
    shm_group_free(group, NULL);
    return error;
}

static void test_memory_is_handed_over_and_let_go_again_and_again(void **state)
{
    (void)state;
    struct world *w = world_new(3, body_allocations);
    world_fork(w);
    world_wait(w);
    assert_all_well(w);
    world_end(&w);
}

static int body_usage(struct world *w, struct shm_group *group, uint32_t rank)
{
    (void)rank;
    float values[2] = {1, 1};
    bool refused = shm_group_all_reduce(group, ELEMENT_F32, (uint8_t *)values + 1, 1) == ERR_USAGE &&
                   shm_group_all_reduce(group, (enum element_type)9, values, 1) == ERR_USAGE &&
                   shm_group_broadcast(group, values, 4, w->size) == ERR_USAGE;
    int error = shm_group_all_reduce(group, ELEMENT_F32, values, 2); /* the group is as good as before */
    return error != 0 ? error : refused && values[1] == 2.0f ? 0 : ERR_CORRUPT;
}

static void test_wrong_arguments_leave_the_group_as_it_is(void **state)
{
    (void)state;
    struct world *w = world_new(2, body_usage);
    world_fork(w);
    world_wait(w);
    assert_all_well(w);
    world_end(&w);
}

/* ---- ranks that fail ---- */

static int body_until_error(struct world *w, struct shm_group *group, uint32_t rank)
{
    static float values[100000];
    void *memory;
    int error = shm_group_alloc(group, sizeof values, &memory);
    while (error == 0) {
        int turn = atomic_fetch_add(&w->ranks[rank].progress, 1);
        error = shm_group_all_reduce(group, ELEMENT_F32, turn % 3 == 0 ? values : memory, turn % 2 == 0 ? 100000 : 10);
    }
    return error == shm_group_barrier(group) ? error : ERR_USAGE; /* it stays broken */
}

static void test_a_killed_rank_ends_the_others(void **state)
{
    (void)state;
    for (int when = 10; when <= 50; when += 8) {
        struct world *w = world_new(4, body_until_error);
        world_fork(w);
        while (atomic_load(&w->ranks[1].progress) < when) {
            sleep_ms(1);
        }
        assert_int_equal(kill(w->processes[1], SIGKILL), 0);
        uint64_t killed_ms = clock_ms();
        world_wait(w);
        assert_true(clock_ms() - killed_ms < SOON_MS); /* not the stall timeout */
        bool named = false;
        for (uint32_t i = 0; i < 4; i++) {
            if (i != 1) {
                assert_int_equal(w->ranks[i].result, ERR_CLOSED);
                named = named || strstr(w->ranks[i].error, "lost rank 1: its process has ended") != NULL;
            }
        }
        assert_true(named);
        world_end(&w);
    }
}

static int body_forks(struct world *w, struct shm_group *group, uint32_t rank)
{
    if (rank == 1) {
        pid_t child = fork(); /* such as one that loads data: it has the sockets too, and outlives its parent */
        if (child == 0) {
            while (atomic_load(&w->go) == 0) {
                sleep_ms(1);
            }
            _exit(0);
        }
    }
    return body_until_error(w, group, rank);
}

static void test_a_killed_rank_is_noticed_while_its_children_live(void **state)
{
    (void)state;
    struct world *w = world_new(2, body_forks);
    world_fork(w);
    while (atomic_load(&w->ranks[1].progress) < 3) {
        sleep_ms(1);
    }
    assert_int_equal(kill(w->processes[1], SIGKILL), 0);
    world_wait(w);
    assert_int_equal(w->ranks[0].result, ERR_CLOSED);
    assert_non_null(strstr(w->ranks[0].error, "lost rank 1"));
    atomic_store(&w->go, 1);
    world_end(&w);
}

static int body_stopped(struct world *w, struct shm_group *group, uint32_t rank)
{
    (void)w;
    float value = 1;
    int error = shm_group_all_reduce(group, ELEMENT_F32, &value, 1);
    if (rank == 0) {
        shm_group_set_timeout(group, 300);
    } else if (rank == 1 && error == 0) {
        (void)raise(SIGSTOP);
    }
    return error != 0 ? error : shm_group_all_reduce(group, ELEMENT_F32, &value, 1);
}

static void test_a_rank_that_stops_is_a_timeout(void **state)
{
    (void)state;
    struct world *w = world_new(3, body_stopped);
    world_fork(w);
    assert_int_equal(waitpid(w->processes[0], NULL, 0), w->processes[0]);
    assert_int_equal(waitpid(w->processes[2], NULL, 0), w->processes[2]);
    assert_int_equal(kill(w->processes[1], SIGCONT), 0);
    assert_int_equal(waitpid(w->processes[1], NULL, 0), w->processes[1]);
    assert_int_equal(w->ranks[0].result, ERR_TIMEOUT);
    assert_non_null(strstr(w->ranks[0].error, "rank 1 did not come within 300 ms"));
    assert_int_equal(w->ranks[2].result, ERR_CLOSED);
    assert_int_equal(w->ranks[1].result, ERR_CLOSED);
    world_end(&w);
}

static int body_leaves(struct world *w, struct shm_group *group, uint32_t rank)
{
    (void)w;
    float value = 1;
    int error = shm_group_all_reduce(group, ELEMENT_F32, &value, 1);
    return error != 0 || rank == 2 ? error : shm_group_all_reduce(group, ELEMENT_F32, &value, 1);
}

static void test_a_rank_that_leaves_ends_the_others_next_collective(void **state)
{
    (void)state;
    struct world *w = world_new(3, body_leaves);
    world_fork(w);
    world_wait(w);
    assert_int_equal(w->ranks[2].result, 0);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(w->ranks[i].result, ERR_CLOSED);
        assert_true(w->ranks[i].took_ms < SOON_MS);
    }
    world_end(&w);
}

static int body_differs(struct world *w, struct shm_group *group, uint32_t rank)
{
    static float values[60000];
    bool odd = rank == 1;
    int error = 0;
    switch (w->variant) {
    case 0:
        error = shm_group_all_reduce(group, ELEMENT_F32, values, odd ? 999 : 1000);
        break;
    case 1:
        error = shm_group_all_reduce(group, ELEMENT_F32, values, odd ? 60000 : 5);
        break;
    case 2:
        error = shm_group_all_reduce(group, odd ? ELEMENT_F16 : ELEMENT_BF16, values, 1000);
        break;
    case 3:
        error = odd ? shm_group_barrier(group) : shm_group_all_reduce(group, ELEMENT_F32, values, 0);
        break;
    case 4:
        error = shm_group_broadcast(group, values, 50000, odd ? 0 : 2);
        break;
    case 5:
        error = odd ? shm_group_all_gather(group, ELEMENT_F32, values, 60000)
                    : shm_group_reduce_scatter(group, ELEMENT_F32, values, 60000);
        break;
    }
    return error == shm_group_barrier(group) ? error : ERR_USAGE;
}

static void test_ranks_that_call_different_collectives_are_an_error_on_all(void **state)
{
    (void)state;
    for (int variant = 0; variant < 6; variant++) {
        struct world *w = world_new(3, body_differs);
        w->variant = variant;
        world_fork(w);
        world_wait(w);
        bool named = false;
        for (uint32_t i = 0; i < 3; i++) {
            assert_true(w->ranks[i].result == ERR_MALFORMED || w->ranks[i].result == ERR_CLOSED);
            assert_true(w->ranks[i].took_ms < SOON_MS);
            named = named || (strstr(w->ranks[i].error, "rank 1 is in operation 1") != NULL &&
                              strstr(w->ranks[i].error, "same counts") != NULL);
        }
        assert_true(named);
        world_end(&w);
    }
}

/* ---- revoking ---- */

static int body_revoked(struct world *w, struct shm_group *group, uint32_t rank)
{
    atomic_fetch_add(&w->go, rank == 0);
    int error = rank == 0 ? shm_group_barrier(group) : 0; /* to which rank 1 does not come before it has ended */
    atomic_fetch_add(&w->go, rank == 0);
    while (atomic_load(&w->go) < 2) {
        sleep_ms(1);
    }
    return rank == 0 ? error : shm_group_barrier(group);
}

static void test_revoking_one_rank_ends_the_group_for_all(void **state)
{
    (void)state;
    static const int delays[] = {0, 1, 100}; /* by then it sleeps, or spins, or has not begun to wait: right in any case */
    for (size_t d = 0; d < 3; d++) {
        struct world *w = world_new(2, body_revoked);
        struct revoke revoke;
        assert_int_equal(revoke_open(&revoke), 0);
        w->options[0].revoke = &revoke;
        pthread_t threads[2];
        struct thread arguments[2] = {{w, 0}, {w, 1}};
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, thread_main, &arguments[i]), 0);
        }
        while (atomic_load(&w->go) < 1) {
            sleep_ms(1);
        }
        sleep_ms(delays[d]);
        revoke_say(&revoke);
        assert_int_equal(pthread_join(threads[0], NULL), 0);
        assert_int_equal(pthread_join(threads[1], NULL), 0);
        assert_int_equal(w->ranks[0].result, ERR_CLOSED);
        assert_non_null(strstr(w->ranks[0].error, "told that its group is over"));
        assert_int_equal(w->ranks[1].result, ERR_CLOSED);
        assert_non_null(strstr(w->ranks[1].error, "rank 0 has given up the group"));
        assert_true(w->ranks[0].took_ms < SOON_MS);
        revoke_close(&revoke);
        world_end(&w);
    }
}

static void say_it(void *context)
{
    revoke_say(context);
}

/* The descriptor that brings the word is looked at while rank 0 waits. */
static void test_the_word_comes_by_a_descriptor_while_a_rank_waits(void **state)
{
    (void)state;
    struct world *w = world_new(2, body_revoked);
    struct revoke revoke;
    int pipe_fds[2];
    assert_int_equal(revoke_open(&revoke), 0);
    assert_int_equal(pipe(pipe_fds), 0);
    revoke.heed_fd = pipe_fds[0];
    revoke.heed = say_it;
    revoke.context = &revoke;
    w->options[0].revoke = &revoke;
    pthread_t threads[2];
    struct thread arguments[2] = {{w, 0}, {w, 1}};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, thread_main, &arguments[i]), 0);
    }
    while (atomic_load(&w->go) < 1) {
        sleep_ms(1);
    }
    assert_int_equal(write(pipe_fds[1], "x", 1), 1);
    assert_int_equal(pthread_join(threads[0], NULL), 0);
    assert_int_equal(pthread_join(threads[1], NULL), 0);
    assert_int_equal(w->ranks[0].result, ERR_CLOSED);
    assert_int_equal(w->ranks[1].result, ERR_CLOSED);
    (void)close(pipe_fds[0]);
    (void)close(pipe_fds[1]);
    revoke_close(&revoke);
    world_end(&w);
}

static void test_revoking_ends_the_opening_too(void **state)
{
    (void)state;
    struct world *w = world_new(2, NULL);
    struct revoke revoke;
    assert_int_equal(revoke_open(&revoke), 0);
    w->options[0].revoke = &revoke;
    struct thread argument = {w, 0}; /* rank 1 never comes */
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, thread_main, &argument), 0);
    sleep_ms(20);
    revoke_say(&revoke);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(w->ranks[0].open_result, ERR_CLOSED);
    assert_non_null(strstr(w->ranks[0].open_error, "told that its group is over"));
    revoke_close(&revoke);
    world_end(&w);
}

/* ---- meeting ---- */

static int body_sum(struct world *w, struct shm_group *group, uint32_t rank)
{
    float value = (float)rank;
    int error = shm_group_all_reduce(group, ELEMENT_F32, &value, 1);
    return error != 0 || value == (float)(w->size * (w->size - 1) / 2) ? error : ERR_CORRUPT;
}

static void test_another_key_generation_or_member_list_never_meets(void **state)
{
    (void)state;
    for (int what = 0; what < 4; what++) {
        struct world *w = world_new(2, body_sum);
        w->options[0].open_timeout_ms = w->options[1].open_timeout_ms = 700;
        struct shm_group_member others[RANKS_MAX];
        memcpy(others, w->members, sizeof others);
        if (what == 0) {
            w->options[1].key[31] ^= 1;
        } else if (what == 1) {
            w->options[1].generation++;
        } else if (what == 2) {
            w->options[1].group = "0011223344556677/4/2";
        } else {
            strcpy(others[1].name, "another");
            w->options[1].members = others;
        }
        world_fork(w);
        world_wait(w);
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(w->ranks[i].open_result, ERR_TIMEOUT);
            assert_non_null(strstr(w->ranks[i].open_error, "did not meet rank"));
        }
        world_end(&w);
    }
}

static int connect_to(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "shoal-group/%s", name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    if (connect(fd, (struct sockaddr *)&address, bytes) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* Some say nothing, some send noise of a hello's length and of others, some hand over descriptors, some leave at once. */
static void test_strangers_do_not_keep_the_real_ranks_out(void **state)
{
    (void)state;
    struct world *w = world_new(3, body_sum);
    struct random random;
    random_init(&random, 4);
    int listener, strangers[100];
    /* The queue of rank 0 is full of them before it begins to listen to anybody. */
    assert_int_equal(shm_group_listen(w->members[0].name, &listener), 0);
    for (size_t i = 0; i < 100; i++) {
        strangers[i] = connect_to(w->members[0].name);
        assert_true(strangers[i] >= 0);
        uint8_t noise[300];
        for (size_t k = 0; k < sizeof noise; k++) {
            noise[k] = (uint8_t)random_u64(&random);
        }
        memcpy(noise, "SHOALSM1", 8);
        if (i % 5 == 0) {
            (void)close(strangers[i]);
            strangers[i] = -1;
        } else if (i % 5 < 4) {
            (void)shm_message_send(strangers[i], noise, i % 5 == 1 ? 120 : i * 3, i % 2 == 0 ? listener : -1);
        }
    }
    for (uint32_t i = 0; i < 3; i++) {
        pid_t process = fork();
        assert_true(process >= 0);
        if (process == 0) {
            struct shm_group *group = NULL;
            struct rank *r = &w->ranks[i];
            int fd = listener;
            r->open_result = i == 0 ? 0 : shm_group_listen(w->members[i].name, &fd);
            if (r->open_result == 0) {
                r->open_result = shm_group_open(&group, fd, &w->options[i], r->open_error);
            }
            if (r->open_result == 0) {
                r->refused = shm_group_refused(group);
                r->result = body_sum(w, group, i);
                shm_group_close(&group);
            }
            _exit(0);
        }
        w->processes[i] = process;
    }
    world_wait(w);
    assert_all_well(w);
    assert_true(w->ranks[0].refused > 0);
    for (size_t i = 0; i < 100; i++) {
        if (strangers[i] >= 0) {
            (void)close(strangers[i]);
        }
    }
    (void)close(listener);
    world_end(&w);
}

static void test_names_are_found_while_somebody_listens(void **state)
{
    (void)state;
    char name[SHM_GROUP_NAME_BYTES], too_long[SHM_GROUP_NAME_BYTES + 1];
    int fd, other = -1;
    (void)snprintf(name, sizeof name, "probe-%d", getpid());
    memset(too_long, 'x', SHM_GROUP_NAME_BYTES);
    too_long[SHM_GROUP_NAME_BYTES] = 0;
    assert_false(shm_group_probe(name));
    assert_int_equal(shm_group_listen(name, &fd), 0);
    assert_true(shm_group_probe(name));
    assert_int_equal(shm_group_listen(name, &other), ERR_EXISTS);
    (void)close(fd);
    assert_false(shm_group_probe(name));
    assert_int_equal(shm_group_listen("", &other), ERR_USAGE);
    assert_int_equal(shm_group_listen(too_long, &other), ERR_USAGE);
    assert_false(shm_group_probe(too_long));
    assert_int_equal(other, -1);
}

/* ---- hostile members: they know the key ---- */

static int plain_memfd(size_t bytes, bool sealed)
{
    int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    if (sealed) {
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    }
    return fd;
}

static void met_end(struct shm_met *met)
{
    (void)close(met->socket);
    (void)close(met->area);
    (void)close(met->process);
}

static pthread_t start_rank_0(struct world *w, struct thread *argument)
{
    pthread_t thread;
    *argument = (struct thread){w, 0};
    assert_int_equal(pthread_create(&thread, NULL, thread_main, argument), 0);
    return thread;
}

static void test_an_area_that_could_shrink_is_refused(void **state)
{
    (void)state;
    for (int what = 0; what < 3; what++) {
        struct world *w = world_new(2, body_sum);
        struct thread argument;
        pthread_t thread = start_rank_0(w, &argument);
        int area = what == 0 ? plain_memfd(1024 * 1024, false) : what == 1 ? plain_memfd(4096, true) : open("/dev/zero", O_RDWR);
        struct shm_met met[SHM_GROUP_RANKS_MAX];
        uint32_t refused = 0;
        char error[SHM_GROUP_ERROR_BYTES];
        assert_int_equal(shm_meet(&w->options[1], -1, area, met, &refused, error), 0);
        if (what == 0) { /* of the right length, so that nothing but the seal is wrong */
            struct stat status;
            assert_int_equal(fstat(met[0].area, &status), 0);
            assert_int_equal(pthread_join(thread, NULL), 0);
            assert_int_equal(w->ranks[0].open_result, ERR_MALFORMED);
            (void)close(area);
            met_end(&met[0]);
            w->ranks[0] = (struct rank){0};
            thread = start_rank_0(w, &argument);
            area = plain_memfd((size_t)status.st_size, false);
            assert_int_equal(shm_meet(&w->options[1], -1, area, met, &refused, error), 0);
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(w->ranks[0].open_result, ERR_MALFORMED);
        assert_non_null(strstr(w->ranks[0].open_error, "area of rank 1"));
        (void)close(area);
        met_end(&met[0]);
        world_end(&w);
    }
}

#define HOSTILE_COUNT 100000

/* The layout of the area's two lines and of the messages, as a hostile member would know them: train/shm_group.c. */
struct line {
    _Atomic uint64_t arrived, generation, operation, count, what, offset, segment, unused;
};

struct message {
    uint32_t kind, segment;
    uint64_t bytes;
};

static int body_meets_hostile(struct world *w, struct shm_group *group, uint32_t rank)
{
    (void)w, (void)rank;
    static float values[HOSTILE_COUNT];
    return shm_group_all_reduce(group, ELEMENT_F32, values, HOSTILE_COUNT);
}

struct hostile {
    const char *expected; /* in the sentence */
    uint64_t offset;
    uint64_t segment, messages; /* as the line says */
    struct message message;
    size_t message_bytes; /* 0: none is sent */
    size_t file_bytes;    /* 0: no descriptor */
    bool sealed;
};

static const struct hostile hostiles[] = {
    {"handed over", 0, 7, 1, {1, 7, 0}, 3, 0, false},                          /* noise */
    {"handed over", 0, 7, 1, {9, 7, 400000}, 16, 400000, true},                /* no such message */
    {"handed over", 0, 7, 1, {1, 7, 400000}, 16, 0, false},                    /* without a descriptor */
    {"handed over", 0, 7, 1, {1, 7, 400000}, 16, 400000, false},               /* could be truncated */
    {"handed over", 0, 7, 1, {1, 7, 400000}, 16, 399999, true},                /* shorter than it says */
    {"handed over", 0, 7, 1, {1, 7, UINT64_MAX}, 16, 400000, true},            /* longer than there is */
    {"handed over", 0, 7, 1, {1, 7, 0}, 16, 400000, true},                     /* of nothing */
    {"handed over", 0, 7, 1, {1, 0, 400000}, 16, 400000, true},                /* with no number */
    {"handed over", 0, 7, 1, {2, 7, 0}, 16, 0, false},                         /* takes back what it never gave */
    {"handed over", 0, 7, 2, {1, 7, 400000}, 16, 400000, true},                /* says that it sent more */
    {"names memory", 0, 8, 1, {1, 7, 400000}, 16, 400000, true},               /* another one */
    {"names memory", 0, 7, 0, {1, 7, 400000}, 0, 0, false},                    /* none at all */
    {"names memory", 4, 7, 1, {1, 7, 400000}, 16, 400000, true},               /* past its end */
    {"names memory", 400004, 7, 1, {1, 7, 400000}, 16, 400000, true},          /* from past its end */
    {"names memory", UINT64_MAX - 3, 7, 1, {1, 7, 400000}, 16, 400000, true},  /* wraps round */
    {"names memory", 2, 7, 1, {1, 7, 500000}, 16, 500000, true},               /* not aligned to its elements */
};

static void run_hostile(const struct hostile *h)
{
    struct world *w = world_new(2, body_meets_hostile);
    struct thread argument;
    pthread_t thread = start_rank_0(w, &argument);
    struct shm_met met[SHM_GROUP_RANKS_MAX];
    uint32_t refused = 0;
    char error[SHM_GROUP_ERROR_BYTES];
    /* As long as a real one: the length is learnt from a first meeting that fails. */
    int area = plain_memfd(1, true);
    assert_int_equal(shm_meet(&w->options[1], -1, area, met, &refused, error), 0);
    struct stat status;
    assert_int_equal(fstat(met[0].area, &status), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)close(area);
    met_end(&met[0]);
    w->ranks[0] = (struct rank){0};

    thread = start_rank_0(w, &argument);
    area = plain_memfd((size_t)status.st_size, true);
    struct line *lines = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, area, 0);
    assert_true(lines != MAP_FAILED);
    int file = h->file_bytes > 0 ? plain_memfd(h->file_bytes, h->sealed) : -1;
    assert_int_equal(shm_meet(&w->options[1], -1, area, met, &refused, error), 0);
    if (h->message_bytes > 0) {
        assert_int_equal(shm_message_send(met[0].socket, &h->message, h->message_bytes, file), 0);
    }
    struct line *line = &lines[1]; /* of phase 1 */
    line->generation = 3;
    line->operation = 1;
    line->count = HOSTILE_COUNT;
    line->what = 1 | 1 << 8; /* all-reduce of float32 */
    line->offset = h->offset;
    line->segment = h->segment << 32 | h->messages;
    line->arrived = 1;
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(w->ranks[0].open_result, 0);
    assert_int_equal(w->ranks[0].result, ERR_MALFORMED);
    assert_non_null(strstr(w->ranks[0].error, h->expected));
    assert_non_null(strstr(w->ranks[0].error, "rank 1"));
    (void)munmap(lines, (size_t)status.st_size);
    if (file >= 0) {
        (void)close(file);
    }
    (void)close(area);
    met_end(&met[0]);
    world_end(&w);
}

static void test_what_a_hostile_member_says_of_its_memory_is_checked(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof hostiles / sizeof hostiles[0]; i++) {
        run_hostile(&hostiles[i]);
    }
}

static void test_messages_have_one_length_and_one_descriptor_at_most(void **state)
{
    (void)state;
    int ends[2], fd;
    uint8_t bytes[64] = {0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    assert_int_equal(shm_message_receive(ends[1], bytes, 16, &fd, NULL), ERR_AGAIN);
    for (size_t length = 1; length <= 64; length++) {
        assert_int_equal(shm_message_send(ends[0], bytes, length, length % 2 == 0 ? ends[0] : -1), 0);
        int result = shm_message_receive(ends[1], bytes, 16, &fd, NULL);
        assert_int_equal(result, length == 16 ? 0 : ERR_MALFORMED);
        if (result == 0) {
            assert_true(fd >= 0);
            (void)close(fd);
        }
    }
    assert_int_equal(shm_message_send(ends[0], bytes, 16, ends[0]), 0);
    assert_int_equal(shm_message_receive(ends[1], bytes, 16, NULL, NULL), ERR_MALFORMED);

    int sender = -1;
    assert_int_equal(shm_message_send(ends[0], bytes, 16, -1), 0);
    assert_int_equal(shm_message_receive(ends[1], bytes, 16, NULL, &sender), 0);
    assert_int_equal(sender, 0); /* nobody has asked for it */
    assert_int_equal(shm_message_want_sender(ends[1]), 0);
    assert_int_equal(shm_message_send(ends[0], bytes, 16, ends[0]), 0);
    assert_int_equal(shm_message_receive(ends[1], bytes, 16, &fd, &sender), 0);
    assert_int_equal(sender, getpid());
    (void)close(fd);

    /* Several at once: none of them stays open. */
    int before = dup(0);
    (void)close(before);
    union {
        struct cmsghdr header;
        uint8_t space[CMSG_SPACE(4 * sizeof(int))];
    } control = {0};
    struct iovec part = {.iov_base = bytes, .iov_len = 16};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&packet);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(4 * sizeof(int));
    for (size_t i = 0; i < 4; i++) {
        memcpy(CMSG_DATA(header) + i * sizeof(int), &ends[0], sizeof(int));
    }
    assert_int_equal(sendmsg(ends[0], &packet, 0), 16);
    assert_int_equal(shm_message_receive(ends[1], bytes, 16, &fd, NULL), ERR_MALFORMED);
    int after = dup(0);
    (void)close(after);
    assert_int_equal(after, before);

    (void)close(ends[0]);
    assert_int_equal(shm_message_receive(ends[1], bytes, 16, &fd, NULL), ERR_CLOSED);
    assert_int_equal(shm_message_send(ends[1], bytes, 16, -1), ERR_CLOSED);
    (void)close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_collectives_equal_the_reference_on_every_rank),
        cmocka_unit_test(test_arrays_larger_than_the_caches),
        cmocka_unit_test(test_ranks_may_be_threads_of_one_process),
        cmocka_unit_test(test_more_ranks_than_processors_and_uneven_work),
        cmocka_unit_test(test_memory_is_handed_over_and_let_go_again_and_again),
        cmocka_unit_test(test_wrong_arguments_leave_the_group_as_it_is),
        cmocka_unit_test(test_a_killed_rank_ends_the_others),
        cmocka_unit_test(test_a_killed_rank_is_noticed_while_its_children_live),
        cmocka_unit_test(test_a_rank_that_stops_is_a_timeout),
        cmocka_unit_test(test_a_rank_that_leaves_ends_the_others_next_collective),
        cmocka_unit_test(test_ranks_that_call_different_collectives_are_an_error_on_all),
        cmocka_unit_test(test_revoking_one_rank_ends_the_group_for_all),
        cmocka_unit_test(test_the_word_comes_by_a_descriptor_while_a_rank_waits),
        cmocka_unit_test(test_revoking_ends_the_opening_too),
        cmocka_unit_test(test_another_key_generation_or_member_list_never_meets),
        cmocka_unit_test(test_strangers_do_not_keep_the_real_ranks_out),
        cmocka_unit_test(test_names_are_found_while_somebody_listens),
        cmocka_unit_test(test_an_area_that_could_shrink_is_refused),
        cmocka_unit_test(test_what_a_hostile_member_says_of_its_memory_is_checked),
        cmocka_unit_test(test_messages_have_one_length_and_one_descriptor_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
