/* The collectives of libshoal in groups of several processes, under a fake daemon: types, slices, and what is begun and
 * waited for. Each rank is this program once more, with its body's number and what goes with it as arguments. */
#include "train/shoal/shoal.h"

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/random.h"
#include "tests/unit/fake_daemon.h"
#include "tests/unit/hold.h"

#define COUNT_MAX 70000
#define BUCKETS 5

typedef void body(struct shoal *shoal);

enum body_number { BITS, TYPES, ALIKE, REFUSALS, MEMORY, BEGUN, ORDER, LEAVES, ELASTIC, BODIES };

/* What the bodies go by. */
static struct {
    enum body_number body;
    bool is_elastic;
    bool uses_thread;         /* for what is begun; but not rank 2: ranks need not be alike */
    uint32_t lost;            /* the rank that is killed; UINT32_MAX: none */
    bool leaves_sockets_open; /* of the lost one */
    int said[2];              /* a pipe between all ranks */
} story;

static void exec_rank(const struct fake_daemon *daemon, uint32_t rank)
{
    char arguments[8][16];
    unsigned values[] = {rank, story.body, story.is_elastic, story.uses_thread, story.lost, story.leaves_sockets_open,
                         (unsigned)story.said[0], (unsigned)story.said[1]};
    for (size_t i = 0; i < 8; i++) {
        (void)snprintf(arguments[i], sizeof arguments[i], "%u", values[i]);
    }
    fake_daemon_environment(daemon, rank);
    (void)execl("/proc/self/exe", "rank", arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5],
                arguments[6], arguments[7], (char *)NULL);
    _exit(3);
}

static unsigned number(const char *text)
{
    return (unsigned)strtoul(text, NULL, 10);
}

static int be_rank(char **arguments, body *const bodies[BODIES])
{
    char error[SHOAL_ERROR_BYTES];
    struct shoal *shoal;
    uint32_t rank = number(arguments[1]);
    story.body = number(arguments[2]);
    story.is_elastic = number(arguments[3]) != 0;
    story.uses_thread = number(arguments[4]) != 0;
    story.lost = number(arguments[5]);
    story.leaves_sockets_open = number(arguments[6]) != 0;
    story.said[0] = (int)number(arguments[7]);
    story.said[1] = (int)number(arguments[8]);
    if ((story.is_elastic ? shoal_open_elastic : shoal_open)(&shoal, error) != 0) {
        (void)fprintf(stderr, "rank %u: %s\n", rank, error);
        return 2;
    }
    shoal_use_thread(shoal, story.uses_thread && rank != 2);
    bodies[story.body](shoal);
    shoal_close(&shoal);
    return 0;
}

/* All ranks to their end: the lost one, if there is one, is killed by then, the others end well. */
static void run_group(struct fake_daemon *daemon)
{
    uint32_t size = daemon->size;
    pid_t children[FAKE_RANKS_MAX];
    assert_int_equal(pipe(story.said), 0);
    for (uint32_t rank = 0; rank < size; rank++) {
        children[rank] = fake_daemon_fork(daemon);
        assert_true(children[rank] >= 0);
        if (children[rank] == 0) {
            exec_rank(daemon, rank);
        }
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        int status;
        assert_int_equal(waitpid(children[rank], &status, 0), children[rank]);
        assert_int_equal(status, rank == story.lost ? SIGKILL : 0);
    }
    (void)close(story.said[0]);
    (void)close(story.said[1]);
}

static void run_ranks(uint32_t size, enum body_number number_of_body, bool uses_thread)
{
    struct fake_daemon daemon;
    story.body = number_of_body;
    story.is_elastic = false;
    story.uses_thread = uses_thread;
    story.lost = UINT32_MAX;
    fake_daemon_start(&daemon, size, 0, "{}");
    run_group(&daemon);
    fake_daemon_stop(&daemon);
}

/* ---- types ---- */

static void fill(struct random *random, float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(random_double(random) * 2 - 1);
    }
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Two ranks bring a[i] and b[i]: one addition, in float32, and one rounding to nearest, ties to even. */
static void body_bits(struct shoal *shoal)
{
    const struct {
        uint16_t a, b, sum;
    } halves[] = {
        {0x6800, 0x3c00, 0x6800}, /* 2048 + 1 is half way to 2050: the even one */
        {0x6801, 0x3c00, 0x6802}, /* 2050 + 1 */
        {0x7bff, 0x4c00, 0x7c00}, /* 65504 + 16, half way to what would come next */
        {0x7bff, 0x4bff, 0x7bff}, /* 65504 + 15.99 */
        {0x0001, 0x0001, 0x0002}, /* denormals */
        {0x0400, 0x8001, 0x03ff},
        {0x8000, 0x8000, 0x8000}, /* -0 */
        {0x7c00, 0xfc00, 0x7e00}, /* infinities of both signs */
    }, bfloats[] = {
        {0x4380, 0x3f80, 0x4380}, /* 256 + 1 is half way to 258 */
        {0x4381, 0x3f80, 0x4382}, /* 258 + 1 */
        {0x7f7f, 0x7b00, 0x7f80}, /* the largest and half of its last place */
        {0x0001, 0x0001, 0x0002},
        {0x3f80, 0xbf80, 0x0000},
        {0x7f80, 0xff80, 0x7fc0},
    };
    const struct {
        float a, b, sum;
    } floats[] = {
        {0x1p24f, 1, 0x1p24f},
        {0x1p24f, 3, 0x1.000004p24f},
        {0x1.fffffep127f, 0x1p103f, INFINITY},
        {0x1p-149f, 0x1p-149f, 0x1p-148f},
        {0.1f, 0.2f, 0.1f + 0.2f},
    };
    bool first = shoal_rank(shoal) == 0;
    uint16_t small[8];
    float large[5];
    for (size_t i = 0; i < 8; i++) {
        small[i] = first ? halves[i].a : halves[i].b;
    }
    HOLD(shoal_all_reduce(shoal, small, 8, SHOAL_F16) == 0);
    for (size_t i = 0; i < 8; i++) {
        HOLD(small[i] == halves[i].sum);
    }
    for (size_t i = 0; i < 6; i++) {
        small[i] = first ? bfloats[i].a : bfloats[i].b;
    }
    HOLD(shoal_all_reduce(shoal, small, 6, SHOAL_BF16) == 0);
    for (size_t i = 0; i < 6; i++) {
        HOLD(small[i] == bfloats[i].sum);
    }
    for (size_t i = 0; i < 5; i++) {
        large[i] = first ? floats[i].a : floats[i].b;
    }
    HOLD(shoal_all_reduce(shoal, large, 5, SHOAL_F32) == 0);
    for (size_t i = 0; i < 5; i++) {
        HOLD(bits_of(large[i]) == bits_of(floats[i].sum));
    }
}

static void test_two_ranks_sum_to_the_exact_bits(void **state)
{
    (void)state;
    run_ranks(2, BITS, false);
}

/* Whole numbers that each type holds, and their sums: exact in any order. */
static uint32_t number_of(uint32_t rank, size_t i)
{
    return (uint32_t)(i * 7 + rank * 3) % 16;
}

static uint16_t half_of(uint32_t number) /* 0 ... 127 */
{
    return number == 0 ? 0 : (uint16_t)((bits_of((float)number) >> 13) - (112u << 10));
}

static uint16_t bfloat_of(uint32_t number)
{
    return (uint16_t)(bits_of((float)number) >> 16);
}

static void fill_numbers(void *values, size_t count, enum shoal_type type, uint32_t first, uint32_t end)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t sum = 0;
        for (uint32_t rank = first; rank < end; rank++) {
            sum += number_of(rank, i);
        }
        if (type == SHOAL_F32) {
            ((float *)values)[i] = (float)sum;
        } else {
            ((uint16_t *)values)[i] = type == SHOAL_F16 ? half_of(sum) : bfloat_of(sum);
        }
    }
}

static void body_types(struct shoal *shoal)
{
    static const size_t counts[] = {0, 1, 5, 1000, COUNT_MAX};
    static float values[COUNT_MAX], expected[COUNT_MAX];
    uint32_t rank = shoal_rank(shoal), size = shoal_size(shoal);
    for (enum shoal_type type = SHOAL_F32; type <= SHOAL_BF16; type++) {
        size_t bytes = type == SHOAL_F32 ? 4 : 2;
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            size_t count = counts[c], start = count * rank / size, end = count * (rank + 1) / size;
            fill_numbers(expected, count, type, 0, size);
            fill_numbers(values, count, type, rank, rank + 1);
            HOLD(shoal_all_reduce(shoal, values, count, type) == 0);
            HOLD(memcmp(values, expected, count * bytes) == 0);
            fill_numbers(values, count, type, rank, rank + 1);
            HOLD(shoal_reduce_scatter(shoal, values, count, type) == 0);
            HOLD(memcmp((uint8_t *)values + start * bytes, (uint8_t *)expected + start * bytes, (end - start) * bytes) == 0);
            memset(values, 0x55, start * bytes); /* what the others have */
            memset((uint8_t *)values + end * bytes, 0x55, (count - end) * bytes);
            HOLD(shoal_all_gather(shoal, values, count, type) == 0);
            HOLD(memcmp(values, expected, count * bytes) == 0);
        }
    }
}

static void test_every_type_is_summed_scattered_and_gathered(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= 5; size++) {
        run_ranks(size, TYPES, false);
    }
}

/* Sums that had to be rounded have the same bits everywhere: each rank gets to see the others'. */
static void body_alike(struct shoal *shoal)
{
    enum { COUNT = 4000 };
    static float values[COUNT];
    static uint16_t small[COUNT], all[8 * COUNT];
    uint32_t rank = shoal_rank(shoal), size = shoal_size(shoal);
    for (enum shoal_type type = SHOAL_F32; type <= SHOAL_BF16; type++) {
        struct random random;
        random_init_stream(&random, 3, rank);
        fill(&random, values, COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            small[i] = type == SHOAL_BF16 ? (uint16_t)(bits_of(values[i]) >> 16) : (uint16_t)(0x3800 + random_below(&random, 0x400));
        }
        void *array = type == SHOAL_F32 ? (void *)values : small;
        HOLD(shoal_all_reduce(shoal, array, COUNT, type) == 0);
        if (type == SHOAL_F32) {
            for (size_t i = 0; i < COUNT; i++) {
                small[i] = (uint16_t)(bits_of(values[i]) ^ bits_of(values[i]) >> 16);
            }
        }
        memcpy(all + (size_t)rank * COUNT, small, sizeof small);
        HOLD(shoal_all_gather(shoal, all, (size_t)size * sizeof small, SHOAL_BYTES) == 0);
        for (uint32_t other = 0; other < size; other++) {
            HOLD(memcmp(all + (size_t)other * COUNT, small, sizeof small) == 0);
        }
    }
}

static void test_rounded_sums_are_the_same_on_all_ranks(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 5; size++) {
        run_ranks(size, ALIKE, false);
    }
}

static void body_refusals(struct shoal *shoal)
{
    float values[4] = {1, 2, 3, 4};
    HOLD(shoal_all_reduce(shoal, values, 4, SHOAL_BYTES) == ERR_USAGE);
    HOLD(shoal_reduce_scatter(shoal, values, 4, SHOAL_BYTES) == ERR_USAGE);
    HOLD(shoal_all_reduce_begin(shoal, values, 4, (enum shoal_type)0) == ERR_USAGE);
    HOLD(shoal_all_reduce_begin(shoal, (uint8_t *)values + 1, 3, SHOAL_BF16) == ERR_USAGE);
    HOLD(shoal_all_reduce(shoal, (uint8_t *)values + 2, 3, SHOAL_F32) == ERR_USAGE);
    HOLD(strstr(shoal_error(shoal), "aligned") != NULL);
    HOLD(shoal_all_reduce_wait(shoal) == 0); /* nothing is lost by it */
    HOLD(shoal_all_reduce_f32(shoal, values, 4) == 0);
    HOLD(values[3] == 4 * (float)shoal_size(shoal));
}

static void test_what_cannot_be_summed_is_refused_without_harm(void **state)
{
    (void)state;
    run_ranks(1, REFUSALS, false);
    run_ranks(2, REFUSALS, false);
}

/* ---- memory for sums ---- */

static bool is_zero(const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (values[i] != 0) {
            return false;
        }
    }
    return true;
}

/* Wherever the values lie, and on whichever rank, they end as the same bits. */
static void body_memory(struct shoal *shoal)
{
    static float plain[COUNT_MAX];
    float *all[SHOAL_ALLOCATIONS_MAX];
    void *memory = NULL;
    HOLD(shoal_alloc(shoal, 0, &memory) == ERR_USAGE);
    HOLD(shoal_alloc(shoal, SIZE_MAX, &memory) == ERR_MEMORY);
    HOLD(shoal_alloc(shoal, SIZE_MAX / 2 - 1, &memory) == ERR_MEMORY && memory == NULL);
    for (size_t i = 0; i < SHOAL_ALLOCATIONS_MAX; i++) {
        HOLD(shoal_alloc(shoal, i == 0 ? sizeof plain : i, &memory) == 0);
        all[i] = memory;
        HOLD((uintptr_t)memory % 4096 == 0 && is_zero(memory, 1));
    }
    HOLD(shoal_alloc(shoal, 1, &memory) == ERR_FULL);
    for (size_t i = 1; i < SHOAL_ALLOCATIONS_MAX; i++) {
        shoal_free(shoal, all[i]);
    }
    shoal_free(shoal, NULL);
    for (uint32_t ranks = 0; ranks < 1u << shoal_size(shoal); ranks++) { /* bit r: rank r has its values in it */
        struct random random;
        random_init_stream(&random, ranks, shoal_rank(shoal));
        fill(&random, plain, COUNT_MAX);
        memcpy(all[0], plain, sizeof plain);
        float *values = (ranks >> shoal_rank(shoal) & 1) != 0 ? all[0] : plain, *others = values == plain ? all[0] : plain;
        HOLD(shoal_all_reduce_begin(shoal, values + 1000, COUNT_MAX - 1000, SHOAL_F32) == 0);
        HOLD(shoal_all_reduce_begin(shoal, values, 1000, SHOAL_F32) == 0);
        HOLD(shoal_all_reduce_wait(shoal) == 0);
        HOLD(shoal_all_reduce_f32(shoal, others, COUNT_MAX) == 0);
        HOLD(memcmp(values, others, sizeof plain) == 0);
    }
}

static void test_sums_are_the_same_in_memory_of_the_group(void **state)
{
    (void)state;
    run_ranks(1, MEMORY, false);
    run_ranks(2, MEMORY, false);
    run_ranks(3, MEMORY, true);
}

/* ---- begun and waited for ---- */

static const struct {
    size_t count;
    enum shoal_type type;
} buckets[BUCKETS] = {{3000, SHOAL_F32}, {1, SHOAL_F32}, {0, SHOAL_F32}, {COUNT_MAX, SHOAL_F32}, {500, SHOAL_BF16}};

static float bucket_values[2][BUCKETS][COUNT_MAX]; /* begun, and the same summed one by one */

static void fill_buckets(const struct shoal *shoal, uint64_t step)
{
    struct random random;
    random_init_stream(&random, step, shoal_rank(shoal));
    for (size_t b = 0; b < BUCKETS; b++) {
        fill(&random, bucket_values[0][b], buckets[b].count);
        memcpy(bucket_values[1][b], bucket_values[0][b], sizeof bucket_values[1][b]);
    }
}

static int begin_buckets(struct shoal *shoal)
{
    int error = 0;
    for (size_t b = 0; b < BUCKETS && error == 0; b++) {
        error = shoal_all_reduce_begin(shoal, bucket_values[0][b], buckets[b].count, buckets[b].type);
    }
    return error;
}

static void body_begun(struct shoal *shoal)
{
    static const char *const names[] = {"loss"};
    for (uint64_t step = 0; step < 40; step++) {
        fill_buckets(shoal, step);
        HOLD(begin_buckets(shoal) == 0);
        if (step % 3 == 0) { /* what is done with the daemon goes on beside it */
            double value = 1;
            HOLD(shoal_report(shoal, "training", step, names, &value, 1) == 0);
            HOLD(!shoal_should_stop(shoal));
        }
        if (step % 3 == 1) {
            HOLD(shoal_barrier(shoal) == 0);
        }
        HOLD(shoal_all_reduce_wait(shoal) == 0);
        for (size_t b = 0; b < BUCKETS; b++) {
            HOLD(shoal_all_reduce(shoal, bucket_values[1][b], buckets[b].count, buckets[b].type) == 0);
        }
        HOLD(memcmp(bucket_values[0], bucket_values[1], sizeof bucket_values[0]) == 0);
    }
}

static void test_what_is_begun_ends_with_the_bits_of_all_reduce(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= 4; size++) {
        run_ranks(size, BEGUN, true);
        run_ranks(size, BEGUN, false);
    }
}

static void body_order(struct shoal *shoal)
{
    float value = 1, size = (float)shoal_size(shoal);
    HOLD(shoal_all_reduce_begin(shoal, &value, 1, SHOAL_F32) == 0);
    float other = 1;
    HOLD(shoal_all_reduce_f32(shoal, &other, 1) == 0); /* first what was begun */
    HOLD(value == size && other == size);
    HOLD(shoal_all_reduce_wait(shoal) == 0);
    static float many[SHOAL_BEGUN_MAX + 1];
    for (size_t i = 0; i < SHOAL_BEGUN_MAX; i++) {
        many[i] = (float)i;
        HOLD(shoal_all_reduce_begin(shoal, &many[i], 1, SHOAL_F32) == 0);
    }
    HOLD(shoal_all_reduce_begin(shoal, &many[SHOAL_BEGUN_MAX], 1, SHOAL_F32) == (size > 1 ? ERR_FULL : 0));
    HOLD(shoal_all_reduce_wait(shoal) == 0);
    for (size_t i = 0; i < SHOAL_BEGUN_MAX; i++) {
        HOLD(many[i] == (float)i * size);
    }
}

static void test_a_collective_waits_for_what_was_begun(void **state)
{
    (void)state;
    run_ranks(1, ORDER, true);
    run_ranks(3, ORDER, true);
    run_ranks(3, ORDER, false);
}

/* Rank 0 begins what rank 1 never does, and leaves: that ends, and rank 1 hears of it. */
static void body_leaves(struct shoal *shoal)
{
    float value = 1;
    shoal_set_timeout(shoal, INT_MAX);
    if (shoal_rank(shoal) == 0) {
        HOLD(shoal_all_reduce_begin(shoal, &value, 1, SHOAL_F32) == 0);
        shoal_close(&shoal);
        _exit(write(story.said[1], "x", 1) == 1 ? 0 : 1);
    }
    char byte;
    HOLD(read(story.said[0], &byte, 1) == 1);
    HOLD(shoal_all_reduce_begin(shoal, &value, 1, SHOAL_F32) == 0);
    HOLD(shoal_all_reduce_begin(shoal, &value, 1, SHOAL_F32) == 0);
    HOLD(shoal_all_reduce_wait(shoal) == ERR_CLOSED);
    HOLD(shoal_error(shoal)[0] != 0);
    HOLD(shoal_all_reduce_begin(shoal, &value, 1, SHOAL_F32) == 0); /* the group stays lost */
    HOLD(shoal_all_reduce_wait(shoal) == ERR_CLOSED);
    HOLD(shoal_barrier(shoal) == ERR_CLOSED);
}

static void test_closing_ends_what_was_begun(void **state)
{
    (void)state;
    run_ranks(2, LEAVES, true);
    run_ranks(2, LEAVES, false);
}

/* ---- groups that break ---- */

#define LOST_STEP 3
#define STEPS 8

/* As a program that loads data in a process of its own: after the death of its parent that holds the sockets of the group, but not
 * the daemon's. */
static void leave_sockets_open(void)
{
    if (fork() != 0) {
        return;
    }
    (void)close(story.said[1]);
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_un address = {0};
        socklen_t length = sizeof address;
        if (getpeername(fd, (struct sockaddr *)&address, &length) == 0 && address.sun_family == AF_UNIX &&
            strcmp(address.sun_path, getenv("SHOAL_SOCKET")) == 0) {
            (void)close(fd);
        }
    }
    char byte;
    (void)!read(story.said[0], &byte, 1); /* until all others have ended */
    _exit(0);
}

static void body_elastic(struct shoal *shoal)
{
    static double sum;
    bool is_first_group = true;
    void *memory;
    HOLD(shoal_alloc(shoal, buckets[0].count * sizeof(float), &memory) == 0);
    float *first = memory;
    HOLD(shoal_register(shoal, &sum, sizeof sum) == 0);
    HOLD(shoal_all_reduce_begin(shoal, bucket_values, 1, SHOAL_F32) == SHOAL_AGAIN); /* in no group yet */
    HOLD(shoal_all_reduce_wait(shoal) == SHOAL_AGAIN);
    for (;;) {
        uint64_t step;
        HOLD(shoal_step_begin(shoal, &step) == 0);
        if (step == STEPS) {
            break;
        }
        shoal_set_timeout(shoal, INT_MAX);
        fill_buckets(shoal, step);
        memcpy(first, bucket_values[0][0], buckets[0].count * sizeof *first);
        HOLD(shoal_all_reduce_begin(shoal, first, buckets[0].count, SHOAL_F32) == 0);
        if (step == LOST_STEP && is_first_group && shoal_rank(shoal) == story.lost) {
            if (story.leaves_sockets_open) {
                leave_sockets_open();
            }
            (void)kill(getpid(), SIGKILL);
        }
        is_first_group = is_first_group && step != LOST_STEP;
        for (size_t b = 1; b < BUCKETS; b++) {
            HOLD(shoal_all_reduce_begin(shoal, bucket_values[0][b], buckets[b].count, buckets[b].type) >= 0);
        }
        HOLD(shoal_size(shoal) == 1 || shoal_step_commit(shoal) == ERR_USAGE); /* not before the wait */
        int error = shoal_all_reduce_wait(shoal);
        HOLD(error == (step == LOST_STEP && shoal_generation(shoal) == 1 ? SHOAL_AGAIN : 0));
        if (error == 0) {
            HOLD(shoal_all_reduce(shoal, bucket_values[0][0], buckets[0].count, SHOAL_F32) == 0);
            HOLD(memcmp(first, bucket_values[0][0], buckets[0].count * sizeof *first) == 0);
            sum += (double)first[0];
            HOLD(shoal_step_commit(shoal) >= 0);
        } else {
            HOLD(is_zero(first, buckets[0].count)); /* no rank of the former group has it any more */
            HOLD(shoal_all_reduce_begin(shoal, bucket_values[0][0], 1, SHOAL_F32) == SHOAL_AGAIN);
            HOLD(shoal_barrier(shoal) == SHOAL_AGAIN && shoal_step_commit(shoal) == SHOAL_AGAIN);
        }
    }
    HOLD(shoal_generation(shoal) == 2);
}

static void go_on_without(uint32_t size, uint32_t lost, bool uses_thread, bool is_told)
{
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, size, 0, "{}");
    (void)pthread_mutex_lock(&daemon.mutex);
    daemon.tells_of_losses = is_told;
    (void)pthread_mutex_unlock(&daemon.mutex);
    story.body = ELASTIC;
    story.is_elastic = true;
    story.uses_thread = uses_thread;
    story.lost = lost;
    run_group(&daemon);
    fake_daemon_stop(&daemon);
}

static void test_a_rank_that_is_killed_breaks_what_was_begun(void **state)
{
    (void)state;
    story.leaves_sockets_open = false;
    for (uint32_t size = 2; size <= 4; size++) {
        go_on_without(size, size / 2, true, true);
        go_on_without(size, size - 1, true, false);
        go_on_without(size, 0, true, false);
        go_on_without(size, size - 1, false, true);
    }
}

/* The connections of the lost rank stay open: only the daemon knows, and its word reaches the thread that waits. */
static void test_the_daemons_word_breaks_what_was_begun(void **state)
{
    (void)state;
    story.leaves_sockets_open = true;
    go_on_without(2, 1, true, true);
    go_on_without(3, 0, true, true);
    go_on_without(2, 1, false, true);
}

int main(int argc, char **argv)
{
    static body *const bodies[BODIES] = {
        [BITS] = body_bits,   [TYPES] = body_types, [ALIKE] = body_alike,   [REFUSALS] = body_refusals,
        [MEMORY] = body_memory,
        [BEGUN] = body_begun, [ORDER] = body_order, [LEAVES] = body_leaves, [ELASTIC] = body_elastic,
    };
    if (argc == 9) {
        return be_rank(argv, bodies);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_ranks_sum_to_the_exact_bits),
        cmocka_unit_test(test_every_type_is_summed_scattered_and_gathered),
        cmocka_unit_test(test_rounded_sums_are_the_same_on_all_ranks),
        cmocka_unit_test(test_what_cannot_be_summed_is_refused_without_harm),
        cmocka_unit_test(test_sums_are_the_same_in_memory_of_the_group),
        cmocka_unit_test(test_what_is_begun_ends_with_the_bits_of_all_reduce),
        cmocka_unit_test(test_a_collective_waits_for_what_was_begun),
        cmocka_unit_test(test_closing_ends_what_was_begun),
        cmocka_unit_test(test_a_rank_that_is_killed_breaks_what_was_begun),
        cmocka_unit_test(test_the_daemons_word_breaks_what_was_begun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
