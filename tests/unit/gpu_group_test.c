/* Collectives of GPU memory in groups of real processes, under a fake CUDA and NCCL (tests/unit/fake_nccl.c): by NCCL, through host
 * memory where NCCL cannot be, and what becomes of both when a rank is lost. */
#include "train/group/group.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/err.h"
#include "tests/unit/fake_nccl.h"
#include "tests/unit/forked.h"
#include "train/group/gpu/gpu.h"
#include "train/group/gpu/group.h"
#include "train/plan/plan.h"

#define RANKS_MAX 4
#define LONG_MS 60000 /* timeouts that nothing here reaches unless it hangs */
#define NOT_REACHED 77

struct rank {
    const char *host; /* NULL: one for all */
    const char *cuda_path, *nccl_path;
    const char *environment[3]; /* "NAME=value" */
    bool allows_plain;
    /* what it came to */
    int result, results[2];
    char error[GROUP_ERROR_BYTES], path[GPU_PATH_BYTES], paths[2][GPU_PATH_BYTES];
    int alive, made, shrunk, misused;
};

struct world;
typedef int body(struct world *world, struct group *group, uint32_t rank);

/* Members of a generation, by rank. */
struct generation {
    uint32_t size, who[RANKS_MAX];
    struct tcp_member members[RANKS_MAX];
    int listeners[RANKS_MAX]; /* by who they are */
};

/* Lies in shared memory. */
struct world {
    uint32_t size;
    int stall_timeout_ms;
    body *body;
    int nccl_open_ms; /* 0: as ever */
    uint32_t revoked; /* a rank that is told by SIGALRM that the group is over */
    struct generation generations[2];
    struct rank ranks[RANKS_MAX];
};

static void generation_listen(struct generation *g, uint32_t size, const uint32_t *who)
{
    g->size = size;
    for (uint32_t i = 0; i < size; i++) {
        g->who[i] = who[i];
        (void)snprintf(g->members[i].host, sizeof g->members[i].host, "127.0.0.1");
        assert_int_equal(tcp_group_listen("127.0.0.1", &g->listeners[who[i]], &g->members[i].port), 0);
    }
}

static struct world *world_new(uint32_t size, body *run)
{
    static const uint32_t all[RANKS_MAX] = {0, 1, 2, 3};
    struct world *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(w != MAP_FAILED);
    w->size = size;
    w->stall_timeout_ms = LONG_MS;
    w->body = run;
    w->revoked = UINT32_MAX;
    for (uint32_t i = 0; i < size; i++) {
        w->ranks[i].cuda_path = w->ranks[i].nccl_path = FAKE_PATH;
        w->ranks[i].result = NOT_REACHED;
    }
    generation_listen(&w->generations[0], size, all);
    return w;
}

static void world_end(struct world **w)
{
    (void)munmap(*w, sizeof **w);
    *w = NULL;
}

/* ---- in the process of a rank ---- */

static struct {
    int (*malloc)(void **out, size_t bytes);
    int (*free)(void *memory);
    int (*copy)(void *to, const void *from, size_t bytes, int kind);
    int (*set_device)(int device);
    __typeof__(&fake_fill) fill;
    __typeof__(&fake_alive) alive;
    __typeof__(&fake_made) made;
    __typeof__(&fake_misused) misused;
} fake;

static struct gpu *gpu;
static struct revoke word;

/* The one that the rank uses, if it is one. */
static void fake_open(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    library = library != NULL ? library : dlopen(FAKE_PATH, RTLD_NOW | RTLD_LOCAL);
    const struct {
        const char *name;
        void *function_pointer;
    } symbols[] = {
        {"cudaMalloc", &fake.malloc}, {"cudaFree", &fake.free},         {"cudaMemcpy", &fake.copy},
        {"fake_fill", &fake.fill},    {"fake_alive", &fake.alive},      {"fake_made", &fake.made},
        {"fake_misused", &fake.misused}, {"cudaSetDevice", &fake.set_device},
    };
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (symbol == NULL) {
            abort();
        }
        memcpy(symbols[i].function_pointer, &symbol, sizeof symbol);
    }
}

static void say_word(int number)
{
    (void)number;
    revoke_set(&word);
}

static struct group *open_generation(struct world *w, size_t index, uint32_t who)
{
    struct generation *g = &w->generations[index];
    struct rank *r = &w->ranks[who];
    struct tcp_options options = {
        .size = g->size,
        .generation = index + 1,
        .key = {1, 2, 3},
        .group = "0011223344556677/4/1",
        .members = g->members,
        .open_timeout_ms = LONG_MS,
        .stall_timeout_ms = w->stall_timeout_ms,
    };
    for (uint32_t i = 0; i < g->size; i++) {
        options.rank = g->who[i] == who ? i : options.rank;
        if (g->who[i] != who) {
            (void)close(g->listeners[g->who[i]]);
        }
    }
    if (w->revoked == who && revoke_open(&word) == 0) {
        options.revoke = &word;
        (void)signal(SIGALRM, say_word);
    }
    struct group *group = NULL;
    r->result = group_open(&group, g->listeners[who], &options, r->host != NULL ? r->host : "here", r->error);
    if (r->result == 0) {
        r->result = group_use_gpu(group, gpu);
        memcpy(r->error, group_error(group), sizeof r->error);
        (void)snprintf(r->paths[index], sizeof r->paths[index], "%s", group_gpu_path(group));
    }
    return group;
}

static void rank_main(struct world *w, uint32_t who)
{
    struct rank *r = &w->ranks[who];
    char bus[24];
    (void)snprintf(bus, sizeof bus, "0000:%02x:00.", who + 1);
    (void)setenv("FAKE_CUDA_BUS", bus, 1);
    for (size_t i = 0; i < 3 && r->environment[i] != NULL; i++) {
        (void)putenv((char *)(uintptr_t)r->environment[i]);
    }
    fake_open(r->cuda_path);
    if (gpu_open(&gpu, r->cuda_path, r->nccl_path, r->allows_plain) != 0) {
        abort();
    }
    gpu->nccl_open_ms = w->nccl_open_ms > 0 ? w->nccl_open_ms : gpu->nccl_open_ms;
    struct group *group = open_generation(w, 0, who);
    if (r->result == 0) {
        (void)snprintf(r->path, sizeof r->path, "%s", group_gpu_path(group));
        r->result = w->body(w, group, who);
        (void)snprintf(r->error, sizeof r->error, "%s", group_error(group));
    }
    group_close(&group);
    if (w->generations[1].size > 0) {
        r->results[0] = r->result;
        group = open_generation(w, 1, who);
        if (r->result == 0) {
            r->result = w->body(w, group, who);
            (void)snprintf(r->error, sizeof r->error, "%s", group_error(group));
        }
        group_close(&group);
    }
    gpu_close(&gpu);
    r->alive = fake.alive();
    r->made = fake.made(0);
    r->shrunk = fake.made(1);
    r->misused = fake.misused();
}

static void world_run(struct world *w)
{
    pid_t processes[RANKS_MAX];
    for (uint32_t i = 0; i < w->size; i++) {
        processes[i] = fork();
        assert_true(processes[i] >= 0);
        if (processes[i] == 0) {
            rank_main(w, i);
            if (w->ranks[i].alive > 0) {
                _exit(0); /* what belongs to a NCCL that hangs is left behind */
            }
            forked_end(0);
        }
    }
    for (size_t g = 0; g < 2; g++) {
        for (uint32_t i = 0; i < w->generations[g].size; i++) {
            (void)close(w->generations[g].listeners[w->generations[g].who[i]]);
        }
    }
    for (uint32_t i = 0; i < w->size; i++) {
        int status;
        assert_int_equal(waitpid(processes[i], &status, 0), processes[i]);
        assert_true(WIFEXITED(status) ? WEXITSTATUS(status) == 0 : WTERMSIG(status) == SIGKILL);
    }
}

static void assert_clean(const struct rank *r)
{
    assert_int_equal(r->alive, 0);
    assert_int_equal(r->misused, 0);
}

static void assert_all_well(const struct world *w, const char *path)
{
    for (uint32_t i = 0; i < w->size; i++) {
        assert_string_equal(w->ranks[i].error, "");
        assert_int_equal(w->ranks[i].result, 0);
        assert_string_equal(w->ranks[i].path, path);
        assert_clean(&w->ranks[i]);
    }
}

#define BY_NCCL "GPU memory goes by NCCL 2.28.9"
#define BY_HOST "GPU memory goes through host memory: "

/* ---- sums ---- */

/* An array on the device, or on the host where there is no GPU. */
static void *array_new(size_t bytes)
{
    void *memory = NULL;
    if (gpu->lack == GPU_LACKS_GPU) {
        return calloc(1, bytes);
    }
    return fake.malloc(&memory, bytes) == 0 ? memory : NULL;
}

static void array_put(void *array, const void *from, size_t bytes)
{
    (void)fake.copy(array, from, bytes, 4);
}

static void array_end(void *array)
{
    if (gpu->lack == GPU_LACKS_GPU) {
        free(array);
    } else {
        (void)fake.free(array);
    }
}

/* What rank r brings for element i, a whole number that floats add exactly; of `size` ranks all bring so much together. */
static float brings(uint64_t i, uint32_t rank)
{
    return (float)(i % 1000) + (float)rank;
}

static float together(uint64_t i, uint32_t size)
{
    return (float)size * (float)(i % 1000) + (float)(size * (size - 1) / 2);
}

enum { SUM, SCATTER, GATHER, BROADCAST, KINDS };

/* 0 if all that the collective promises holds, else its error, or NOT_REACHED. */
static int try_f32(struct group *group, uint32_t rank, uint32_t size, int kind, uint64_t count)
{
    float *host = malloc((count + 1) * sizeof *host), *array = array_new(count * sizeof *host);
    uint64_t first = plan_slice_start(count, size, rank), last = plan_slice_start(count, size, rank + 1);
    for (uint64_t i = 0; i < count; i++) {
        bool is_own = kind != GATHER || (i >= first && i < last);
        host[i] = kind == BROADCAST ? brings(i, rank) : !is_own ? -1 : kind == GATHER ? (float)i : brings(i, rank);
    }
    array_put(array, host, count * sizeof *host);
    int error = kind == SUM       ? group_all_reduce(group, ELEMENT_F32, array, count)
                : kind == SCATTER ? group_reduce_scatter(group, ELEMENT_F32, array, count)
                : kind == GATHER  ? group_all_gather(group, ELEMENT_F32, array, count)
                                  : group_broadcast(group, array, count * sizeof *host, size - 1);
    array_put(host, array, count * sizeof *host);
    for (uint64_t i = 0; i < count && error == 0; i++) {
        float want = kind == GATHER ? (float)i : kind == BROADCAST ? brings(i, size - 1) : together(i, size);
        bool counts = kind != SCATTER || (i >= first && i < last);
        error = counts && host[i] != want ? NOT_REACHED : 0;
    }
    array_end(array);
    free(host);
    return error;
}

static int try_bf16(struct group *group, uint32_t size)
{
    uint16_t host[5] = {0x3f80, 0x3f80, 0x3f80, 0x3f80, 0x3f80}; /* ones */
    static const uint16_t sums[] = {0, 0x3f80, 0x4000, 0x4040, 0x4080};
    void *array = array_new(sizeof host);
    array_put(array, host, sizeof host);
    int error = group_all_reduce(group, ELEMENT_BF16, array, 5);
    array_put(host, array, sizeof host);
    array_end(array);
    return error != 0 ? error : host[4] == sums[size] ? 0 : NOT_REACHED;
}

static int body_everything(struct world *w, struct group *group, uint32_t rank)
{
    static const uint64_t counts[] = {1, 7, 1000, 200001};
    int error = 0;
    for (int kind = 0; kind < KINDS && error == 0; kind++) {
        for (size_t c = 0; c < 4 && error == 0; c++) {
            error = try_f32(group, rank, w->size, kind, counts[c]);
        }
    }
    return error != 0 ? error : try_bf16(group, w->size);
}

static void test_gpu_memory_goes_by_nccl(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= RANKS_MAX; size++) {
        struct world *w = world_new(size, body_everything);
        world_run(w);
        assert_all_well(w, BY_NCCL);
        assert_int_equal(w->ranks[0].made, 1);
        world_end(&w);
    }
}

static int body_long(struct world *w, struct group *group, uint32_t rank)
{
    return try_f32(group, rank, w->size, SUM, NCCL_CHUNK_BYTES / sizeof(float) + 1000);
}

static void test_what_is_longer_than_a_chunk_is_summed_in_parts(void **state)
{
    (void)state;
    struct world *w = world_new(2, body_long);
    world_run(w);
    assert_all_well(w, BY_NCCL);
    world_end(&w);
}

static int body_host_memory(struct world *w, struct group *group, uint32_t rank)
{
    float own[3] = {(float)rank, 1, 2};
    int error = group_all_reduce(group, ELEMENT_F32, own, 3);
    error = error != 0 ? error : try_f32(group, rank, w->size, SUM, 100);
    error = error != 0 ? error : group_all_reduce(group, ELEMENT_F32, own, 3);
    error = error != 0 ? error : group_barrier(group);
    return error != 0 ? error : own[1] == 9 ? 0 : NOT_REACHED;
}

static void test_host_memory_goes_as_ever(void **state)
{
    (void)state;
    struct world *w = world_new(3, body_host_memory);
    world_run(w);
    assert_all_well(w, BY_NCCL);
    world_end(&w);
}

static int body_late_kernel(struct world *w, struct group *group, uint32_t rank)
{
    float host[100], *array = array_new(sizeof host);
    (void)fake.fill(array, 1.0f + (float)rank, 100, 20);
    int error = group_all_reduce(group, ELEMENT_F32, array, 100);
    array_put(host, array, sizeof host);
    array_end(array);
    float want = (float)(w->size * (w->size + 1) / 2);
    return error != 0 ? error : host[0] == want && host[99] == want ? 0 : NOT_REACHED;
}

static void test_what_the_program_has_queued_comes_before(void **state)
{
    (void)state;
    for (int staged = 0; staged < 2; staged++) {
        struct world *w = world_new(2, body_late_kernel);
        w->ranks[1].nccl_path = staged != 0 ? "/nowhere/libnccl.so.2" : FAKE_PATH;
        world_run(w);
        assert_int_equal(w->ranks[0].result, 0);
        assert_int_equal(w->ranks[1].result, 0);
        assert_clean(&w->ranks[0]);
        world_end(&w);
    }
}

/* ---- through host memory ---- */

static void test_what_nccl_cannot_do_goes_through_host_memory(void **state)
{
    (void)state;
    static const struct {
        const char *fault;
        const char *cuda_path, *nccl_path;
        const char *others, *own; /* what the others say, and what the rank itself does if it is more */
    } cases[] = {
        {"FAKE_CUDA=no_device", FAKE_PATH, FAKE_PATH, "rank 1 has no GPU that CUDA can use",
         "the CUDA runtime " FAKE_PATH " finds no GPU: no CUDA-capable device is detected"},
        {NULL, "/nowhere/libcudart.so", FAKE_PATH, "rank 1 has no GPU that CUDA can use", "the CUDA runtime cannot be opened: "},
        {"FAKE_CUDA_VERSION=10020", FAKE_PATH, FAKE_PATH, "rank 1 has no GPU that CUDA can use", "is 10.2: install CUDA 11 or later"},
        {NULL, FAKE_PATH, "/nowhere/libnccl.so.2", "rank 1 has no NCCL", "NCCL cannot be opened: /nowhere/libnccl.so.2: "},
        {NULL, FAKE_PATH, FAKE_WITHOUT_BROADCAST_PATH, "rank 1 has no NCCL", "has no ncclBroadcast: it is too old, or not NCCL"},
        {"FAKE_NCCL_VERSION=21403", FAKE_PATH, FAKE_PATH, "rank 1 has an NCCL that is too old", "is version 2.14.3: install 2.18.0 or later"},
        {"FAKE_NCCL_VERSION=2708", FAKE_PATH, FAKE_PATH, "rank 1 has an NCCL that is too old", "install 2.18.0 or later"},
        {"FAKE_NCCL_VERSION=22703", FAKE_PATH, FAKE_PATH, "rank 0 has NCCL 2.28.9 and rank 1 2.27.3", NULL},
        {"NCCL_ALGO=Tree", FAKE_PATH, FAKE_PATH, "NCCL_ALGO and NCCL_PROTO of ranks 0 and 1 differ", NULL},
        {"NCCL_COMM_BLOCKING=1", FAKE_PATH, FAKE_PATH, "rank 1 cannot use its NCCL", "NCCL_COMM_BLOCKING=1 keeps NCCL from ending"},
        {"FAKE_CUDA_BUS=0000:01:00.", FAKE_PATH, FAKE_PATH, "ranks 0 and 1 share a GPU, which NCCL does not support", NULL},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct world *w = world_new(3, body_everything);
        char want[GPU_PATH_BYTES];
        w->ranks[1].cuda_path = cases[c].cuda_path;
        w->ranks[1].nccl_path = cases[c].nccl_path;
        w->ranks[1].environment[0] = cases[c].fault;
        world_run(w);
        (void)snprintf(want, sizeof want, BY_HOST "%s", cases[c].others);
        for (uint32_t i = 0; i < w->size; i++) {
            assert_string_equal(w->ranks[i].error, "");
            assert_int_equal(w->ranks[i].result, 0);
            assert_clean(&w->ranks[i]);
        }
        assert_string_equal(w->ranks[0].path, want);
        assert_string_equal(w->ranks[2].path, want);
        assert_non_null(strstr(w->ranks[1].path, want));
        assert_non_null(strstr(w->ranks[1].path, cases[c].own != NULL ? cases[c].own : want));
        world_end(&w);
    }
}

static void test_nccl_leaves_a_host_only_where_all_allow_it(void **state)
{
    (void)state;
    static const char *const hosts[] = {"a", "a", "b"};
    for (uint32_t allow = 2; allow <= 3; allow++) {
        struct world *w = world_new(3, body_everything);
        for (uint32_t i = 0; i < 3; i++) {
            w->ranks[i].host = hosts[i];
            w->ranks[i].allows_plain = i < allow;
            /* On two hosts two GPUs may be in the same place. */
            w->ranks[i].environment[0] = i == 2 ? "FAKE_CUDA_BUS=0000:01:00." : NULL;
        }
        world_run(w);
        assert_all_well(w, allow == 3 ? BY_NCCL
                                      : BY_HOST "ranks 0 and 2 are on different hosts, and NCCL's links are neither encrypted nor "
                                                "authenticated");
        world_end(&w);
    }
}

static void test_where_nccl_does_not_start_host_memory_has_to_do(void **state)
{
    (void)state;
    static const struct {
        const char *fault, *sentence;
    } cases[] = {{"FAKE_NCCL=init_fails", "NCCL did not start on rank 0: NCCL on rank 0: a communicator: unhandled system error"},
                 {"FAKE_NCCL=id_fails", "NCCL did not start on rank 0: NCCL does not start: unhandled system error"}};
    for (size_t c = 0; c < 2; c++) {
        struct world *w = world_new(3, body_everything);
        w->nccl_open_ms = 1000; /* the others wait so long for a rank whose communicator does not come */
        w->ranks[0].environment[0] = cases[c].fault;
        world_run(w);
        for (uint32_t i = 0; i < w->size; i++) {
            assert_int_equal(w->ranks[i].result, 0);
            assert_clean(&w->ranks[i]);
            assert_non_null(strstr(w->ranks[i].path, BY_HOST "NCCL did not start on rank 0"));
        }
        assert_non_null(strstr(w->ranks[0].path, cases[c].sentence));
        world_end(&w);
    }
}

/* ---- wrong calls ---- */

static int body_disagree(struct world *w, struct group *group, uint32_t rank)
{
    return try_f32(group, rank, w->size, SUM, rank == 1 ? 101 : 100);
}

static void test_ranks_that_disagree_are_told(void **state)
{
    (void)state;
    struct world *w = world_new(3, body_disagree);
    world_run(w);
    for (uint32_t i = 0; i < w->size; i++) {
        assert_int_equal(w->ranks[i].result, ERR_MALFORMED);
        assert_non_null(strstr(w->ranks[i].error, "rank 1 makes another collective of GPU memory than rank 0"));
        assert_clean(&w->ranks[i]);
    }
    world_end(&w);
}

static int body_other_thread(struct world *w, struct group *group, uint32_t rank)
{
    (void)fake.set_device(1); /* of the program's thread; the group goes on with the one that was current before */
    int error = try_f32(group, rank, w->size, SUM, 100);
    return error;
}

static void test_the_device_of_the_thread_may_change(void **state)
{
    (void)state;
    struct world *w = world_new(2, body_other_thread);
    world_run(w);
    assert_all_well(w, BY_NCCL);
    world_end(&w);
}

/* ---- losses ---- */

#define DIES "FAKE_NCCL=dies"
#define STOPS "FAKE_NCCL=stops"

/* In generation 1 all are there, in generation 2, if there is one, those of them who are left. */
static int body_sum(struct world *w, struct group *group, uint32_t who)
{
    if (w->ranks[who].paths[1][0] == 0) {
        return try_f32(group, who, w->size, SUM, 5000);
    }
    uint32_t rank = 0;
    for (uint32_t i = 0; i < w->generations[1].size; i++) {
        rank = w->generations[1].who[i] == who ? i : rank;
    }
    return try_f32(group, rank, w->generations[1].size, SUM, 5000);
}

static void test_a_rank_that_is_lost_in_nccl_ends_the_others(void **state)
{
    (void)state;
    static const char *const libraries[] = {FAKE_PATH, FAKE_WITHOUT_SHRINK_PATH};
    for (size_t c = 0; c < 2; c++) {
        struct world *w = world_new(3, body_sum);
        for (uint32_t i = 0; i < 3; i++) {
            w->ranks[i].cuda_path = w->ranks[i].nccl_path = libraries[c];
        }
        w->ranks[2].environment[0] = DIES;
        world_run(w);
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(w->ranks[i].result, ERR_CLOSED); /* not ERR_TIMEOUT, which takes a minute */
            assert_non_null(strstr(w->ranks[i].error, "it closed its links while NCCL had an all-reduce under way"));
        }
        world_end(&w);
    }
}

static void test_a_rank_that_does_not_come_is_a_timeout(void **state)
{
    (void)state;
    struct world *w = world_new(3, body_sum);
    w->stall_timeout_ms = 2000;
    w->ranks[2].environment[0] = STOPS;
    world_run(w);
    /* The one whose time is over first closes its links, by which the others may know before their own. */
    assert_true(w->ranks[0].result == ERR_TIMEOUT || w->ranks[1].result == ERR_TIMEOUT || w->ranks[2].result == ERR_TIMEOUT);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(w->ranks[i].result == ERR_TIMEOUT || w->ranks[i].result == ERR_CLOSED);
        assert_clean(&w->ranks[i]);
    }
    world_end(&w);
}

static void test_the_word_that_the_group_is_over_ends_nccl(void **state)
{
    (void)state;
    struct world *w = world_new(3, body_sum);
    w->revoked = 0;
    w->ranks[0].environment[0] = "FAKE_NCCL=signals";
    w->ranks[2].environment[0] = STOPS;
    world_run(w);
    assert_string_equal(w->ranks[0].error, "rank 0 was told that its group is over");
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(w->ranks[i].result, ERR_CLOSED);
        assert_clean(&w->ranks[i]);
    }
    world_end(&w);
}

/* ---- the next generation ---- */

static void test_the_next_generation_is_made_of_what_is_left(void **state)
{
    (void)state;
    static const uint32_t left[] = {0, 1}, turned[] = {1, 0};
    static const struct {
        const char *library, *fault;
        const uint32_t *who;
        int made, shrunk;
    } cases[] = {
        {FAKE_PATH, NULL, left, 1, 1},
        {FAKE_PATH, NULL, turned, 2, 0},                  /* NCCL keeps the order of ranks */
        {FAKE_PATH, "FAKE_NCCL=shrink_fails", left, 2, 0},
        {FAKE_WITHOUT_SHRINK_PATH, NULL, left, 2, 0},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct world *w = world_new(3, body_sum);
        generation_listen(&w->generations[1], 2, cases[c].who);
        for (uint32_t i = 0; i < 3; i++) {
            w->ranks[i].cuda_path = w->ranks[i].nccl_path = cases[c].library;
            w->ranks[i].environment[0] = i == 2 ? DIES : cases[c].fault;
        }
        world_run(w);
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(w->ranks[i].results[0], ERR_CLOSED);
            assert_string_equal(w->ranks[i].error, "");
            assert_int_equal(w->ranks[i].result, 0);
            assert_non_null(strstr(w->ranks[i].paths[1], "GPU memory goes by NCCL 2."));
            assert_int_equal(w->ranks[i].made, cases[c].made);
            assert_int_equal(w->ranks[i].shrunk, cases[c].shrunk);
            assert_clean(&w->ranks[i]);
        }
        world_end(&w);
    }
}

/* A NCCL that hangs is left alone: the worker goes on without it. */
static void test_nccl_that_does_not_come_back_is_left_behind(void **state)
{
    (void)state;
    static const uint32_t left[] = {0, 1};
    struct world *w = world_new(3, body_sum);
    generation_listen(&w->generations[1], 2, left);
    w->ranks[0].environment[0] = "FAKE_NCCL=end_hangs";
    w->ranks[2].environment[0] = DIES;
    world_run(w);
    assert_int_equal(w->ranks[0].results[0], ERR_CLOSED);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(w->ranks[i].result, 0);
        assert_int_equal(w->ranks[i].misused, 0);
        assert_non_null(strstr(w->ranks[i].paths[1], BY_HOST "rank 0 cannot use its NCCL"));
    }
    assert_non_null(strstr(w->ranks[0].paths[1], "NCCL did not come back"));
    assert_int_equal(w->ranks[0].alive, 1);
    assert_int_equal(w->ranks[1].alive, 0);
    world_end(&w);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpu_memory_goes_by_nccl),
        cmocka_unit_test(test_what_is_longer_than_a_chunk_is_summed_in_parts),
        cmocka_unit_test(test_host_memory_goes_as_ever),
        cmocka_unit_test(test_what_the_program_has_queued_comes_before),
        cmocka_unit_test(test_what_nccl_cannot_do_goes_through_host_memory),
        cmocka_unit_test(test_nccl_leaves_a_host_only_where_all_allow_it),
        cmocka_unit_test(test_where_nccl_does_not_start_host_memory_has_to_do),
        cmocka_unit_test(test_ranks_that_disagree_are_told),
        cmocka_unit_test(test_the_device_of_the_thread_may_change),
        cmocka_unit_test(test_a_rank_that_is_lost_in_nccl_ends_the_others),
        cmocka_unit_test(test_a_rank_that_does_not_come_is_a_timeout),
        cmocka_unit_test(test_the_word_that_the_group_is_over_ends_nccl),
        cmocka_unit_test(test_the_next_generation_is_made_of_what_is_left),
        cmocka_unit_test(test_nccl_that_does_not_come_back_is_left_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
