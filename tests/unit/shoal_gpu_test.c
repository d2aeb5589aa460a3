/* libshoal with GPU memory, in groups of several processes under a fake daemon, CUDA and NCCL (tests/unit/fake_nccl.c): what is
 * summed, beside the computation too, the state of elastic groups, and numbers that are not finite. Each rank is this program once
 * more, with its body's number as an argument. */
#include "train/shoal/shoal.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "tests/unit/fake_daemon.h"
#include "tests/unit/fake_nccl.h"
#include "tests/unit/hold.h"

#define COUNT 70000
#define BUCKETS 4
#define LOST_STEP 3
#define STEPS (SHOAL_CHECK_STEPS + 2)
#define NOBODY UINT32_MAX
#define HOURS 10000000 /* questions of a wait that asks every ms */

/* ---- in the process of a rank ---- */

typedef void body(struct shoal *shoal);
enum body_number { SUMS, STATE, LOSES, NOT_FINITE, MIXED, REFUSALS, HEARS, BODIES };

static int (*cuda_malloc)(void **out, size_t bytes);
static int (*cuda_copy)(void *to, const void *from, size_t bytes, int kind);
static __typeof__(&fake_fill) fill;
static __typeof__(&fake_alive) alive;
static __typeof__(&fake_misused) misused;

static void fake_open(void)
{
    void *library = dlopen(FAKE_PATH, RTLD_NOW | RTLD_LOCAL);
    const struct {
        const char *name;
        void *function_pointer;
    } symbols[] = {{"cudaMalloc", &cuda_malloc},
                   {"cudaMemcpy", &cuda_copy},
                   {"fake_fill", &fill},
                   {"fake_alive", &alive},
                   {"fake_misused", &misused}};
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        memcpy(symbols[i].function_pointer, &symbol, sizeof symbol);
    }
}

static float host[COUNT];

static float *device_new(size_t count)
{
    void *memory = NULL;
    return cuda_malloc(&memory, count * sizeof(float)) == 0 ? memory : NULL;
}

static void put(float *device, size_t count, float value)
{
    for (size_t i = 0; i < count; i++) {
        host[i] = value + (float)(i % 7);
    }
    (void)cuda_copy(device, host, count * sizeof *host, 4);
}

/* Whether all have what `ranks` of put with 1, 2, ... sum to. */
static bool holds_sum(const float *device, size_t count, uint32_t ranks)
{
    (void)cuda_copy(host, device, count * sizeof *host, 4);
    for (size_t i = 0; i < count; i++) {
        if (host[i] != (float)(ranks * (ranks + 1) / 2) + (float)ranks * (float)(i % 7)) {
            return false;
        }
    }
    return true;
}

static void body_sums(struct shoal *shoal)
{
    uint32_t size = shoal_size(shoal);
    float mine = (float)shoal_rank(shoal) + 1, *buckets[BUCKETS];
    HOLD(strcmp(shoal_gpu_path(shoal), "") == 0);
    HOLD(shoal_use_gpu(shoal, 0) == 0);
    HOLD(strcmp(shoal_gpu_path(shoal), size > 1 ? "GPU memory goes by NCCL 2.28.9" : "") == 0);
    for (size_t b = 0; b < BUCKETS; b++) {
        buckets[b] = device_new(COUNT);
        put(buckets[b], COUNT, mine);
    }
    HOLD(shoal_all_reduce(shoal, buckets[0], COUNT, SHOAL_F32) == 0);
    HOLD(holds_sum(buckets[0], COUNT, size));
    for (size_t b = 1; b < BUCKETS; b++) {
        HOLD(shoal_all_reduce_begin(shoal, buckets[b], COUNT, SHOAL_F32) == 0);
    }
    float *other = device_new(100);
    put(other, 100, mine);
    HOLD(shoal_all_reduce_f32(shoal, other, 100) == 0); /* first what was begun */
    HOLD(shoal_all_reduce_wait(shoal) == 0);
    HOLD(holds_sum(other, 100, size));
    for (size_t b = 1; b < BUCKETS; b++) {
        HOLD(holds_sum(buckets[b], COUNT, size));
    }
    float plain = 1;
    HOLD(shoal_all_reduce_f32(shoal, &plain, 1) == 0 && plain == (float)size);
}

static void body_mixed(struct shoal *shoal)
{
    bool has_gpu = getenv("FAKE_CUDA") == NULL;
    static float plain[COUNT];
    float *values = has_gpu ? device_new(COUNT) : plain;
    HOLD(shoal_use_gpu(shoal, 0) == 0);
    HOLD(strstr(shoal_gpu_path(shoal), "GPU memory goes through host memory: rank 1 has no GPU that CUDA can use") != NULL);
    put(values, COUNT, (float)shoal_rank(shoal) + 1);
    HOLD(shoal_all_reduce_f32(shoal, values, COUNT) == 0);
    HOLD(holds_sum(values, COUNT, shoal_size(shoal)));
}

static void body_refusals(struct shoal *shoal)
{
    HOLD(shoal_use_gpu(shoal, 4) == ERR_USAGE);
    HOLD(shoal_use_gpu(shoal, SHOAL_GPU_PLAIN) == 0);
    HOLD(shoal_use_gpu(shoal, 0) == ERR_USAGE);
    HOLD(strstr(shoal_error(shoal), "once") != NULL);
}

static int load(void *context, uint64_t *step)
{
    put(context, COUNT, 5);
    *step = 0;
    return 0;
}

/* Parts follow speeds, and the state is in GPU memory: rank 0 has it first, the others get it there, and it is compared there. */
static void train(struct shoal *shoal, uint32_t lost)
{
    float *state = device_new(COUNT), *gradients = device_new(COUNT);
    static float sum[COUNT], parameters[COUNT];
    bool is_first_group = true;
    put(state, COUNT, 0);
    HOLD(shoal_use_gpu(shoal, 0) == 0);
    HOLD(shoal_register(shoal, state, COUNT * sizeof *state) == 0);
    shoal_on_load(shoal, load, state);
    for (;;) {
        uint64_t step;
        HOLD(shoal_step_begin(shoal, &step) == 0);
        if (step == 0 && is_first_group) {
            (void)cuda_copy(parameters, state, sizeof parameters, 4);
            HOLD(parameters[0] == 5 && parameters[COUNT - 1] == 5 + (float)((COUNT - 1) % 7));
        }
        if (step == STEPS) {
            break;
        }
        uint32_t first, count;
        HOLD(shoal_share(shoal, 100, &first, &count) == 0 && first < 100 && count > 0 && count <= 100);
        put(gradients, COUNT, (float)shoal_rank(shoal) + 1);
        if (step == LOST_STEP && is_first_group && shoal_rank(shoal) == lost) {
            (void)kill(getpid(), SIGKILL);
        }
        is_first_group = is_first_group && step != LOST_STEP;
        int error = shoal_all_reduce_f32(shoal, gradients, COUNT);
        HOLD(error == 0 || (error == SHOAL_AGAIN && lost != NOBODY));
        if (error == 0) {
            HOLD(holds_sum(gradients, COUNT, shoal_size(shoal)));
            (void)cuda_copy(sum, gradients, sizeof sum, 4);
            (void)cuda_copy(parameters, state, sizeof parameters, 4);
            for (size_t i = 0; i < COUNT; i++) {
                parameters[i] += sum[i];
            }
            (void)cuda_copy(state, parameters, sizeof parameters, 4);
            HOLD(shoal_step_commit(shoal) >= 0);
        }
    }
    HOLD(shoal_generation(shoal) == (lost != NOBODY ? 2 : 1));
    HOLD(strcmp(shoal_gpu_path(shoal), "GPU memory goes by NCCL 2.28.9") == 0);
}

static void body_state(struct shoal *shoal)
{
    train(shoal, NOBODY);
}

static void body_loses(struct shoal *shoal)
{
    train(shoal, 1);
}

static int load_zero(void *context, uint64_t *step)
{
    *(float *)context = 0;
    *step = 0;
    return 0;
}

/* Rank 1 is killed while the GPUs of the others have hours of work: rank 0 comes to a collective, rank 2 waits for one that was
 * begun. */
static void body_hears(struct shoal *shoal)
{
    static float state, values[COUNT];
    float *device = device_new(1);
    uint64_t step;
    uint32_t first, count, rank;
    HOLD(shoal_use_gpu(shoal, 0) == 0);
    HOLD(shoal_register(shoal, &state, sizeof state) == 0);
    shoal_on_load(shoal, load_zero, &state);
    HOLD(shoal_step_begin(shoal, &step) == 0 && shoal_is_balanced(shoal));
    HOLD(shoal_share(shoal, 100, &first, &count) == 0);
    rank = shoal_rank(shoal);
    if (rank == 1) {
        (void)kill(getpid(), SIGKILL);
    }
    HOLD(fill(device, 1, 1, HOURS) == 0);
    if (rank == 0) {
        HOLD(shoal_all_reduce_f32(shoal, values, COUNT) == SHOAL_AGAIN);
    } else {
        HOLD(shoal_all_reduce_begin(shoal, values, COUNT, SHOAL_F32) == 0);
        HOLD(shoal_all_reduce_wait(shoal) == SHOAL_AGAIN);
    }
    (void)cuda_copy(host, device, sizeof *host, 4);
    HOLD(host[0] == 1);
    HOLD(shoal_step_begin(shoal, &step) == 0 && step == 0 && shoal_generation(shoal) == 2);
    HOLD(shoal_share(shoal, 100, &first, &count) == 0);
    HOLD(shoal_all_reduce_f32(shoal, values, COUNT) == 0);
    HOLD(shoal_step_commit(shoal) >= 0);
}

static void body_not_finite(struct shoal *shoal)
{
    float *values = device_new(COUNT);
    put(values, COUNT, 1);
    if (shoal_rank(shoal) == 1) {
        host[COUNT - 3] = NAN;
        (void)cuda_copy(values, host, sizeof host, 4);
    }
    shoal_check_finite(shoal, true);
    HOLD(shoal_use_gpu(shoal, 0) == 0);
    HOLD(shoal_all_reduce_f32(shoal, values, COUNT) == ERR_NOT_FINITE);
    HOLD(strstr(shoal_error(shoal), "rank 1 brought NaN as value 69997 of 70000") != NULL);
}

static int be_rank(char **arguments, body *const bodies[BODIES])
{
    char error[SHOAL_ERROR_BYTES];
    struct shoal *shoal;
    enum body_number number = (enum body_number)strtoul(arguments[1], NULL, 10);
    bool is_elastic = number == STATE || number == LOSES || number == HEARS;
    fake_open();
    if ((is_elastic ? shoal_open_elastic : shoal_open)(&shoal, error) != 0) {
        (void)fprintf(stderr, "%s\n", error);
        return 2;
    }
    shoal_use_thread(shoal, true);
    bodies[number](shoal);
    shoal_close(&shoal);
    return alive() == 0 && misused() == 0 ? 0 : 4;
}

/* ---- the tests ---- */

/* All ranks to their end: `lost`, if there is one, is killed by then, the others end well. */
static void run_ranks(uint32_t size, enum body_number number, uint32_t lost, uint32_t without_gpu)
{
    struct fake_daemon daemon;
    pid_t children[FAKE_RANKS_MAX];
    fake_daemon_start(&daemon, size, 0, "{}");
    (void)pthread_mutex_lock(&daemon.mutex);
    daemon.tells_of_losses = true;
    daemon.balances = UINT32_MAX;
    (void)pthread_mutex_unlock(&daemon.mutex);
    for (uint32_t rank = 0; rank < size; rank++) {
        children[rank] = fake_daemon_fork(&daemon);
        assert_true(children[rank] >= 0);
        if (children[rank] == 0) {
            char bus[24], argument[16];
            (void)snprintf(bus, sizeof bus, "0000:%02x:00.", rank + 1);
            (void)snprintf(argument, sizeof argument, "%d", (int)number);
            (void)setenv("FAKE_CUDA_BUS", bus, 1);
            (void)setenv("SHOAL_LIBCUDART", FAKE_PATH, 1);
            (void)setenv("SHOAL_LIBNCCL", FAKE_PATH, 1);
            if (rank == without_gpu) {
                (void)setenv("FAKE_CUDA", "no_device", 1);
            }
            fake_daemon_environment(&daemon, rank);
            (void)execl("/proc/self/exe", "rank", argument, (char *)NULL);
            _exit(3);
        }
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        int status;
        assert_int_equal(waitpid(children[rank], &status, 0), children[rank]);
        assert_int_equal(status, rank == lost ? SIGKILL : 0);
    }
    fake_daemon_stop(&daemon);
}

static void test_gpu_memory_is_summed(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= 3; size++) {
        run_ranks(size, SUMS, NOBODY, NOBODY);
    }
}

static void test_a_rank_without_a_gpu_can_be_of_the_group(void **state)
{
    (void)state;
    run_ranks(3, MIXED, NOBODY, 1);
}

static void test_it_is_said_once_that_there_is_gpu_memory(void **state)
{
    (void)state;
    run_ranks(1, REFUSALS, NOBODY, NOBODY);
    run_ranks(2, REFUSALS, NOBODY, NOBODY);
}

static void test_the_state_of_an_elastic_group_may_be_gpu_memory(void **state)
{
    (void)state;
    run_ranks(2, STATE, NOBODY, NOBODY);
}

static void test_an_elastic_group_goes_on_with_nccl_when_one_is_lost(void **state)
{
    (void)state;
    run_ranks(3, LOSES, 1, NOBODY);
}

static void test_who_waits_for_its_gpu_hears_that_the_group_is_over(void **state)
{
    (void)state;
    run_ranks(3, HEARS, 1, NOBODY);
}

static void test_numbers_that_are_not_finite_are_found_in_gpu_memory(void **state)
{
    (void)state;
    run_ranks(2, NOT_FINITE, NOBODY, NOBODY);
}

int main(int argc, char **argv)
{
    static body *const bodies[BODIES] = {
        [SUMS] = body_sums,   [STATE] = body_state,           [LOSES] = body_loses,       [HEARS] = body_hears,
        [MIXED] = body_mixed, [NOT_FINITE] = body_not_finite, [REFUSALS] = body_refusals,
    };
    if (argc == 2) {
        return be_rank(argv, bodies);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpu_memory_is_summed),
        cmocka_unit_test(test_a_rank_without_a_gpu_can_be_of_the_group),
        cmocka_unit_test(test_it_is_said_once_that_there_is_gpu_memory),
        cmocka_unit_test(test_the_state_of_an_elastic_group_may_be_gpu_memory),
        cmocka_unit_test(test_an_elastic_group_goes_on_with_nccl_when_one_is_lost),
        cmocka_unit_test(test_who_waits_for_its_gpu_hears_that_the_group_is_over),
        cmocka_unit_test(test_numbers_that_are_not_finite_are_found_in_gpu_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
