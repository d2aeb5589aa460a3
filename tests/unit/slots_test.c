/* Slot discovery: CPU slots of this machine, GPUs through the fake driver library of fake_nvml.c. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "node/slots/nvml.h"
#include "node/slots/slots.h"
#include "node/slots/usage.h"

#define GPU "GPU-11111111-2222-3333-4444-555555555555"
#define MIG_A "MIG-00000000-1111-2222-3333-444444444444"
#define MIG_B "MIG-99999999-8888-7777-6666-555555555555"

static const struct slots_options fake = {.nvml_path = FAKE_NVML_PATH};
static const struct slots_options absent = {.nvml_path = "/nonexistent/libnvidia-ml.so.1"};

static struct slot_info slots[SLOTS_MAX];
static size_t count;
static char error[SLOTS_ERROR_BYTES];

static int reset(void **state)
{
    (void)state;
    (void)unsetenv("FAKE_NVML");
    (void)unsetenv("FAKE_NVML_BUSY");
    count = 999;
    memset(error, 'x', sizeof error);
    return 0;
}

static void fault(const char *name)
{
    assert_int_equal(setenv("FAKE_NVML", name, 1), 0);
}

static size_t cpus(void)
{
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    size_t n = (size_t)CPU_COUNT(&set);
    return n < SLOTS_MAX ? n : SLOTS_MAX;
}

static void assert_cpu_slots(size_t expected)
{
    assert_int_equal(count, expected);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(slots[i].kind, SLOT_CPU);
        assert_int_equal(slots[i].index, i);
        assert_memory_equal(slots[i].uuid, "cpu-", 4);
        assert_string_equal(slots[i].visible, "");
        assert_true(slots[i].model[0] != '\0');
        assert_true(slots[i].memory_bytes > 1024 * 1024);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(slots[i].uuid, slots[j].uuid);
        }
    }
}

static void none_is_none(void **state)
{
    (void)state;
    assert_int_equal(slots_discover("none", &fake, slots, &count, error), 0);
    assert_int_equal(count, 0);
}

static void cpu_counts_are_obeyed_and_uuids_are_stable(void **state)
{
    (void)state;
    assert_int_equal(slots_discover("cpu:3", &fake, slots, &count, error), 0);
    assert_cpu_slots(3);
    assert_string_equal(error, "");
    char first[64];
    memcpy(first, slots[2].uuid, sizeof first);
    assert_int_equal(slots_discover("cpu:64", &fake, slots, &count, error), 0);
    assert_cpu_slots(64);
    assert_string_equal(slots[2].uuid, first);
    struct slots_options salted = {.nvml_path = FAKE_NVML_PATH, .salt = "another daemon"};
    assert_int_equal(slots_discover("cpu:3", &salted, slots, &count, error), 0);
    assert_string_not_equal(slots[2].uuid, first);
}

static void other_words_are_refused_with_what_is_allowed(void **state)
{
    (void)state;
    const char *const words[] = {"",      "cpu",   "cpu:",  "cpu:0",  "cpu:65", "cpu:-1", "cpu: 1",
                                 "cpu:1x", "cpu:100", "gpu:1", "AUTO", "none ",  "cpu:18446744073709551617"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        assert_int_equal(slots_discover(words[i], &fake, slots, &count, error), ERR_USAGE);
        assert_non_null(strstr(error, "auto, cpu:N with N from 1 to 64, none"));
        assert_int_equal(count, 999);
    }
}

static void auto_without_a_driver_gives_a_slot_per_cpu_and_says_so(void **state)
{
    (void)state;
    assert_int_equal(slots_discover("auto", &absent, slots, &count, error), 0);
    assert_cpu_slots(cpus());
    assert_non_null(strstr(error, "the slots are processors, for no GPU is found: "));
    assert_non_null(strstr(error, "/nonexistent/libnvidia-ml.so.1"));
}

static void assert_cuda(size_t i, const char *uuid, const char *model, uint64_t memory_bytes)
{
    assert_int_equal(slots[i].kind, SLOT_CUDA);
    assert_int_equal(slots[i].index, i);
    assert_string_equal(slots[i].uuid, uuid);
    assert_int_equal(slots[i].is_part, strncmp(uuid, "MIG-", 4) == 0);
    if (slots[i].is_part) {
        assert_string_equal(slots[i].visible, uuid);
    } else { /* the number of the GPU: here each GPU before it is whole, too */
        assert_int_equal(slots[i].visible[0], '0' + (int)i);
    }
    assert_string_equal(slots[i].model, model);
    assert_int_equal(slots[i].memory_bytes, memory_bytes);
}

static void auto_finds_gpus_and_the_devices_of_a_split_one(void **state)
{
    (void)state;
    assert_int_equal(slots_discover("auto", &fake, slots, &count, error), 0);
    assert_string_equal(error, "");
    assert_int_equal(count, 3);
    assert_cuda(0, GPU, "NVIDIA RTX A6000", 51527024640ull);
    assert_cuda(1, MIG_A, "NVIDIA A100-SXM4-40GB MIG 3g.20gb", 20937965568ull);
    assert_cuda(2, MIG_B, "NVIDIA A100-SXM4-40GB MIG 3g.20gb", 20937965568ull);
}

static void a_driver_older_than_mig_gives_whole_gpus(void **state)
{
    (void)state;
    struct slots_options old = {.nvml_path = FAKE_NVML_WITHOUT_MIG_PATH};
    assert_int_equal(slots_discover("auto", &old, slots, &count, error), 0);
    assert_int_equal(count, 2);
    assert_cuda(1, "GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", "NVIDIA A100-SXM4-40GB", 42949672960ull);
}

static void whole_gpus_are_numbered_in_the_order_of_the_bus(void **state)
{
    (void)state;
    fault("whole");
    assert_int_equal(slots_discover("auto", &fake, slots, &count, error), 0);
    assert_int_equal(count, 2);
    assert_cuda(0, GPU, "NVIDIA RTX A6000", 51527024640ull);
    assert_cuda(1, "GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", "NVIDIA A100-SXM4-40GB", 42949672960ull);
    assert_string_equal(slots[1].visible, "1");
}

static void a_library_without_a_function_is_named_and_not_used(void **state)
{
    (void)state;
    struct slots_options broken = {.nvml_path = FAKE_NVML_WITHOUT_MEMORY_PATH};
    assert_int_equal(slots_discover("auto", &broken, slots, &count, error), 0);
    assert_cpu_slots(cpus());
    assert_non_null(strstr(error, "nvmlDeviceGetMemoryInfo"));
}

static void driver_errors_fall_back_to_cpus_with_a_remark(void **state)
{
    (void)state;
    const struct {
        const char *fault;
        const char *remark;
    } cases[] = {{"init", "NVML error 9"}, {"count", "NVML error 999"}, {"empty", "no GPU"}};
    for (size_t i = 0; i < 3; i++) {
        fault(cases[i].fault);
        assert_int_equal(slots_discover("auto", &fake, slots, &count, error), 0);
        assert_cpu_slots(cpus());
        assert_non_null(strstr(error, cases[i].remark));
    }
}

static void a_lost_gpu_is_left_out_and_named(void **state)
{
    (void)state;
    fault("lost");
    assert_int_equal(slots_discover("auto", &fake, slots, &count, error), 0);
    assert_int_equal(count, 2);
    assert_cuda(0, MIG_A, "NVIDIA A100-SXM4-40GB MIG 3g.20gb", 20937965568ull);
    assert_non_null(strstr(error, "GPU 0"));
    assert_non_null(strstr(error, "NVML error 15"));
}

static void what_a_gpu_is_used_is_told(void **state)
{
    (void)state;
    struct slots_nvml *nvml;
    struct slots_nvml_use use = {0};
    assert_int_equal(slots_nvml_open(FAKE_NVML_PATH, &nvml, error), 0);
    assert_int_equal(slots_nvml_use(nvml, GPU, &use), 0);
    assert_true(use.percent == 37 && use.memory_bytes == 51527024640ull / 4);
    assert_true(use.celsius == 61 && use.milliwatts == 212500 && use.millijoules == 7000500);
    assert_int_equal(slots_nvml_use(nvml, MIG_A, &use), 0);
    assert_true(use.percent > 100 && use.memory_bytes == 20937965568ull / 4);
    assert_true(use.celsius == SLOTS_NVML_UNKNOWN && use.milliwatts == SLOTS_NVML_UNKNOWN &&
                use.millijoules == SLOTS_NVML_UNKNOWN);
    assert_int_equal(slots_nvml_use(nvml, "GPU-none", &use), ERR_NOT_FOUND);
    slots_nvml_close(&nvml);
    assert_int_equal(slots_nvml_open(FAKE_NVML_WITHOUT_MIG_PATH, &nvml, error), 0);
    assert_int_equal(slots_nvml_use(nvml, GPU, &use), 0);
    assert_true(use.percent > 100);
    slots_nvml_close(&nvml);
}

static void errors_of_gpus_are_taken_once(void **state)
{
    (void)state;
    struct slots_nvml *nvml;
    char path[] = "/tmp/shoal-xid-XXXXXX", uuid[SLOTS_NVML_UUID_BYTES];
    uint64_t xid = 0;
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, "0 79\n1 48\n", 10) == 10 && close(fd) == 0);
    assert_int_equal(setenv("FAKE_NVML_XID_FILE", path, 1), 0);
    assert_int_equal(slots_nvml_open(FAKE_NVML_PATH, &nvml, error), 0);
    assert_false(slots_nvml_next_error(nvml, uuid, &xid)); /* nobody listens yet */
    assert_true(slots_nvml_listen(nvml) && slots_nvml_listen(nvml));
    assert_true(slots_nvml_next_error(nvml, uuid, &xid));
    assert_string_equal(uuid, GPU);
    assert_int_equal(xid, 79);
    assert_true(slots_nvml_next_error(nvml, uuid, &xid));
    assert_string_not_equal(uuid, GPU);
    assert_int_equal(xid, 48);
    assert_false(slots_nvml_next_error(nvml, uuid, &xid));
    slots_nvml_close(&nvml);
    assert_int_equal(unsetenv("FAKE_NVML_XID_FILE"), 0);
    (void)unlink(path);
    assert_int_equal(slots_nvml_open(FAKE_NVML_WITHOUT_MIG_PATH, &nvml, error), 0);
    slots_nvml_close(&nvml);
}

static void use_of_a_slot_is_read_as_it_was_packed(void **state)
{
    (void)state;
    static const struct slot_usage cases[] = {
        {.gpu_percent = UINT64_MAX},
        {.has_worker = true, .cpu_permille = 2500, .memory_bytes = 1ull << 33, .gpu_percent = UINT64_MAX},
        {.has_worker = true, .has_gpu = true, .gpu_percent = 99, .gpu_memory_bytes = 1ull << 34},
        {.has_gpu = true, .gpu_percent = UINT64_MAX, .gpu_memory_bytes = UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t bytes[SLOT_USAGE_BYTES];
        struct pack_writer writer;
        struct slot_usage read = {0};
        pack_writer_init(&writer, bytes, sizeof bytes);
        slot_usage_pack(&writer, &cases[i]);
        assert_false(writer.failed);
        assert_int_equal(slot_usage_read(bytes, writer.used_bytes, &read), 0);
        assert_true(read.has_worker == cases[i].has_worker && read.has_gpu == cases[i].has_gpu);
        assert_true(read.cpu_permille == cases[i].cpu_permille && read.memory_bytes == cases[i].memory_bytes);
        assert_true(read.gpu_percent == cases[i].gpu_percent && read.gpu_memory_bytes == cases[i].gpu_memory_bytes);
        for (size_t cut = 0; cut < writer.used_bytes; cut++) {
            assert_int_equal(slot_usage_read(bytes, cut, &read), ERR_MALFORMED);
        }
    }
    struct slot_usage read;
    assert_int_equal(slot_usage_read((const uint8_t *)"\x94\xc0\xc0\xcc\xc8\xc0", 6, &read), ERR_MALFORMED); /* 200 percent */
    assert_int_equal(slot_usage_read((const uint8_t *)"\x94\x01\xc0\xc0\xc0", 5, &read), ERR_MALFORMED); /* half of a worker */
    assert_int_equal(slot_usage_read((const uint8_t *)"\x95\xc0\xc0\xc0\xc0\x07", 6, &read), 0); /* a later version's */
}

static bool is_pid(void *context, uint32_t pid)
{
    return *(const uint32_t *)context == pid;
}

static void busy_is_seen_per_device(void **state)
{
    (void)state;
    bool busy = true;
    assert_int_equal(slots_gpu_busy(&fake, GPU, &busy), 0);
    assert_false(busy);
    assert_int_equal(setenv("FAKE_NVML_BUSY", MIG_B, 1), 0);
    assert_int_equal(slots_gpu_busy(&fake, MIG_A, &busy), 0);
    assert_false(busy);
    assert_int_equal(slots_gpu_busy(&fake, MIG_B, &busy), 0);
    assert_true(busy);
    assert_int_equal(setenv("FAKE_NVML_BUSY", GPU, 1), 0);
    struct slots_nvml *nvml = NULL;
    assert_int_equal(slots_nvml_open(FAKE_NVML_PATH, &nvml, error), 0);
    busy = false;
    assert_int_equal(slots_nvml_busy(nvml, GPU, NULL, NULL, &busy), 0);
    assert_true(busy);
    uint32_t ours = 1, others = 2; /* the process is number 1 */
    assert_int_equal(slots_nvml_busy(nvml, GPU, is_pid, &ours, &busy), 0);
    assert_false(busy);
    assert_int_equal(slots_nvml_busy(nvml, GPU, is_pid, &others, &busy), 0);
    assert_true(busy);
    slots_nvml_close(&nvml);
    assert_null(nvml);
    slots_nvml_close(&nvml);
}

static void busy_does_not_guess(void **state)
{
    (void)state;
    bool busy = true;
    assert_int_equal(slots_gpu_busy(&fake, "GPU-unknown", &busy), ERR_NOT_FOUND);
    assert_int_equal(slots_gpu_busy(&absent, GPU, &busy), ERR_NOT_FOUND);
    fault("silent");
    assert_int_equal(slots_gpu_busy(&fake, GPU, &busy), ERR_REFUSED);
    assert_true(busy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(none_is_none, reset),
        cmocka_unit_test_setup(cpu_counts_are_obeyed_and_uuids_are_stable, reset),
        cmocka_unit_test_setup(other_words_are_refused_with_what_is_allowed, reset),
        cmocka_unit_test_setup(auto_without_a_driver_gives_a_slot_per_cpu_and_says_so, reset),
        cmocka_unit_test_setup(auto_finds_gpus_and_the_devices_of_a_split_one, reset),
        cmocka_unit_test_setup(whole_gpus_are_numbered_in_the_order_of_the_bus, reset),
        cmocka_unit_test_setup(a_driver_older_than_mig_gives_whole_gpus, reset),
        cmocka_unit_test_setup(a_library_without_a_function_is_named_and_not_used, reset),
        cmocka_unit_test_setup(driver_errors_fall_back_to_cpus_with_a_remark, reset),
        cmocka_unit_test_setup(a_lost_gpu_is_left_out_and_named, reset),
        cmocka_unit_test_setup(what_a_gpu_is_used_is_told, reset),
        cmocka_unit_test_setup(errors_of_gpus_are_taken_once, reset),
        cmocka_unit_test_setup(use_of_a_slot_is_read_as_it_was_packed, reset),
        cmocka_unit_test_setup(busy_is_seen_per_device, reset),
        cmocka_unit_test_setup(busy_does_not_guess, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
