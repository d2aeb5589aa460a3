/* The real NCCL on a real GPU, where there are any; else it says what is missing and is skipped (status 77). With one GPU it
 * is a group of one rank: NCCL does not take two ranks on one GPU, so two ranks need two. What is told of those comes from
 * tests/unit/gpu_group_test.c, under a fake.
 *
 * SHOAL_LIBCUDART and SHOAL_LIBNCCL name the libraries where the loader does not find them. */
#include "train/group/gpu/nccl_group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "train/group/gpu/gpu.h"
#include "train/group/gpu/library.h"

#define COUNT 100003
#define SKIPPED 77

static struct gpu *gpu;
static int (*cuda_malloc)(void **out, size_t bytes);
static int (*cuda_free)(void *memory);

static struct nccl_group *open_alone(void)
{
    struct nccl_options options = {
        .nccl = &gpu->nccl, .cuda = &gpu->cuda, .rank = 0, .size = 1, .open_timeout_ms = 60000, .stall_timeout_ms = 60000};
    struct nccl_id id;
    struct nccl_group *group = NULL;
    char error[NCCL_GROUP_ERROR_BYTES] = "";
    assert_int_equal(nccl_group_id(&gpu->nccl, &id, error), 0);
    int result = nccl_group_open(&group, &options, &id, error);
    assert_string_equal(error, "");
    assert_int_equal(result, 0);
    return group;
}

static void test_a_group_of_one_keeps_its_values(void **state)
{
    (void)state;
    static float before[COUNT], after[COUNT];
    char error[NCCL_GROUP_ERROR_BYTES] = "";
    void *values;
    struct nccl_group *group = open_alone();
    assert_int_equal(cuda_malloc(&values, sizeof before), 0);
    int device = -1;
    assert_true(gpu_owns(gpu, values, &device));
    assert_false(gpu_owns(gpu, before, &device));
    assert_int_equal(device, gpu->device);
    for (size_t i = 0; i < COUNT; i++) {
        before[i] = (float)i;
    }
    assert_int_equal(gpu_copy(gpu, &gpu->program, values, before, sizeof before, NULL, error), 0);
    for (enum plan_kind kind = PLAN_ALL_REDUCE; kind <= PLAN_ALL_GATHER; kind++) {
        assert_int_equal(nccl_group_run(group, kind, ELEMENT_F32, values, COUNT, 0), 0);
        assert_string_equal(nccl_group_error(group), "");
    }
    assert_int_equal(nccl_group_run(group, PLAN_ALL_REDUCE, ELEMENT_F16, values, COUNT, 0), 0);
    assert_int_equal(nccl_group_run(group, PLAN_ALL_REDUCE, ELEMENT_BF16, values, COUNT, 0), 0);
    assert_int_equal(gpu_copy(gpu, &gpu->program, after, values, sizeof after, NULL, error), 0);
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(cuda_free(values), 0);
    assert_true(nccl_group_close(&group));
}

static void test_one_communicator_comes_after_the_other(void **state)
{
    (void)state;
    for (int generation = 0; generation < 3; generation++) {
        struct nccl_group *group = open_alone();
        assert_true(nccl_group_close(&group));
    }
}

int main(void)
{
    if (gpu_open(&gpu, getenv("SHOAL_LIBCUDART"), getenv("SHOAL_LIBNCCL"), false) != 0) {
        return 1;
    }
    if (gpu->lack != GPU_LACKS_NOTHING) {
        struct nccl_library nccl;
        char version[NCCL_VERSION_TEXT_BYTES], error[LIBRARY_ERROR_BYTES] = "";
        (void)printf("skipped, for it needs a GPU and NCCL: %s\n", gpu->why);
        if (gpu->lack == GPU_LACKS_GPU && nccl_library_open(getenv("SHOAL_LIBNCCL"), &nccl, error) == 0) {
            nccl_version_text(nccl.number, version);
            (void)printf("NCCL %s is there\n", version);
        }
        gpu_close(&gpu);
        return SKIPPED;
    }
    const struct library_symbol symbols[] = {{"cudaMalloc", &cuda_malloc}, {"cudaFree", &cuda_free}};
    if (library_find(gpu->cuda.handle, symbols, 2) != NULL) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_group_of_one_keeps_its_values),
        cmocka_unit_test(test_one_communicator_comes_after_the_other),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    gpu_close(&gpu);
    return failed;
}
