/* The quota of processors, read from made-up control groups. */
#include <ftw.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "node/slots/processors.h"

static char root[64];

static void file_write(const char *name, const char *text)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

static int setup(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof root, "/tmp/processors_test.XXXXXX");
    return mkdtemp(root) == NULL;
}

static int teardown(void **state)
{
    (void)state;
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Both hierarchies below `root`: version 1 with cpu at v1, version 2 at v2; `mounted` is the group that each mount shows. */
static void mounts(const char *mounted, const char *group)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "25 30 0:23 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n"
                   "31 25 0:27 %s %s/memory rw - cgroup cgroup rw,memory\n"
                   "32 25 0:28 %s %s/v1 rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
                   "33 25 0:29 %s %s/v2 rw shared:10 - cgroup2 cgroup2 rw,nsdelegate\n",
                   mounted, root, mounted, root, mounted, root);
    file_write("proc/mountinfo", text);
    (void)snprintf(text, sizeof text, "5:memory:/other\n4:cpu,cpuacct:%s\n0::%s\n", group, group);
    file_write("proc/cgroup", text);
}

static uint32_t quota(void)
{
    char proc[128];
    (void)snprintf(proc, sizeof proc, "%s/proc", root);
    return processors_quota(proc);
}

static void without_a_quota_there_is_none(void **state)
{
    (void)state;
    assert_int_equal(quota(), UINT32_MAX); /* no files at all */
    mounts("/", "/a");
    assert_int_equal(quota(), UINT32_MAX);
    file_write("v2/a/cpu.max", "max 100000\n");
    file_write("v1/a/cpu.cfs_quota_us", "-1\n");
    file_write("v1/a/cpu.cfs_period_us", "100000\n");
    assert_int_equal(quota(), UINT32_MAX);
    file_write("v2/a/cpu.max", "nonsense");
    assert_int_equal(quota(), UINT32_MAX);
}

static void a_quota_is_rounded_up(void **state)
{
    (void)state;
    mounts("/", "/a");
    file_write("v2/a/cpu.max", "250000 100000\n");
    assert_int_equal(quota(), 3);
    file_write("v2/a/cpu.max", "10000 100000\n");
    assert_int_equal(quota(), 1);
    file_write("v2/a/cpu.max", "max 100000\n");
    file_write("v1/a/cpu.cfs_quota_us", "400000\n");
    file_write("v1/a/cpu.cfs_period_us", "100000\n");
    assert_int_equal(quota(), 4);
}

static void the_least_of_the_group_and_those_above_counts(void **state)
{
    (void)state;
    mounts("/", "/a/b/c");
    file_write("v2/a/b/c/cpu.max", "800000 100000\n");
    file_write("v2/a/cpu.max", "200000 100000\n");
    assert_int_equal(quota(), 2);
}

static void in_a_container_the_mounted_group_is_the_top(void **state)
{
    (void)state;
    mounts("/docker/x", "/docker/x/inner");
    file_write("v2/inner/cpu.max", "500000 100000\n");
    assert_int_equal(quota(), 5);
    mounts("/", "/../../outside"); /* as a group outside of the namespace is shown */
    file_write("v2/cpu.max", "600000 100000\n");
    assert_int_equal(quota(), 6);
}

static void this_process_has_at_least_one_and_no_more_than_its_mask(void **state)
{
    (void)state;
    cpu_set_t one;
    uint32_t all = processors_usable();
    assert_true(all >= 1);
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(processors_usable(), 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(without_a_quota_there_is_none),
        T(a_quota_is_rounded_up),
        T(the_least_of_the_group_and_those_above_counts),
        T(in_a_container_the_mounted_group_is_the_top),
        T(this_process_has_at_least_one_and_no_more_than_its_mask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
