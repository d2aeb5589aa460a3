/* What a machine shows of the people who use it, from files as the kernel writes them. */
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "node/slots/machine.h"

static char root[64];

static void file_write(const char *name, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *slash = strchr(path + strlen(root) + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof root, "/tmp/machine_test.XXXXXX");
    return mkdtemp(root) == NULL;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

static int teardown(void **state)
{
    (void)state;
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void what_waits_is_not_busy(void **state)
{
    (void)state;
    uint64_t busy, all;
    assert_false(machine_processors(root, &busy, &all));
    file_write("proc/stat", "cpu  100 20 30 1000 200 4 5 6 7 8\ncpu0 1 1 1 1 1 1 1 1 1 1\n");
    assert_true(machine_processors(root, &busy, &all));
    assert_int_equal(all, 100 + 20 + 30 + 1000 + 200 + 4 + 5 + 6);
    assert_int_equal(busy, 100 + 20 + 30 + 4 + 5);
    file_write("proc/stat", "cpu 1 2\n");
    assert_false(machine_processors(root, &busy, &all));
}

static void what_workers_use_is_nobodys_load(void **state)
{
    (void)state;
    assert_int_equal(machine_others_permille(0, 0, 0, 8), 0);
    assert_int_equal(machine_others_permille(50, 100, 0, 8), 500);
    assert_int_equal(machine_others_permille(50, 100, 2000, 8), 250);
    assert_int_equal(machine_others_permille(50, 100, 4000, 8), 0);
    assert_int_equal(machine_others_permille(50, 100, 9000, 8), 0); /* the two are not read at one time */
    assert_int_equal(machine_others_permille(100, 100, 0, 1), 1000);
}

#define INTERRUPTS(keyboard, disk)                             \
    "           CPU0       CPU1\n"                             \
    "   1:      " keyboard "          0   IO-APIC    1-edge      i8042\n" \
    "  24:       " disk "          3   PCI-MSI 512-edge      nvme0q0\n" \
    " NMI:          4          5   Non-maskable interrupts\n"

static void keyboards_and_mice_are_seen_by_their_interrupts(void **state)
{
    (void)state;
    uint64_t before = machine_activity(root);
    assert_int_equal(machine_activity(root), before); /* nothing is there */
    file_write("proc/interrupts", INTERRUPTS("9", "1"));
    before = machine_activity(root);
    file_write("proc/interrupts", INTERRUPTS("9", "2"));
    assert_int_equal(machine_activity(root), before);
    file_write("proc/interrupts", INTERRUPTS("10", "2"));
    assert_int_not_equal(machine_activity(root), before);
}

static void usb_keyboards_and_mice_are_seen_by_their_requests(void **state)
{
    (void)state;
    file_write("sys/bus/usb/devices/1-1/urbnum", "7\n");
    file_write("sys/bus/usb/devices/1-1:1.0/bInterfaceClass", "03\n");
    file_write("sys/bus/usb/devices/1-1:1.0/bInterfaceProtocol", "02\n");
    file_write("sys/bus/usb/devices/1-2/urbnum", "7\n");
    file_write("sys/bus/usb/devices/1-2:1.0/bInterfaceClass", "08\n"); /* a disk */
    file_write("sys/bus/usb/devices/1-2:1.0/bInterfaceProtocol", "50\n");
    uint64_t before = machine_activity(root);
    file_write("sys/bus/usb/devices/1-2/urbnum", "900\n");
    assert_int_equal(machine_activity(root), before);
    file_write("sys/bus/usb/devices/1-1/urbnum", "8\n");
    assert_int_not_equal(machine_activity(root), before);
}

static void used(const char *name, time_t seconds)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    const struct timespec times[] = {{.tv_sec = seconds}, {.tv_sec = 1}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void terminals_are_seen_by_their_last_use(void **state)
{
    (void)state;
    file_write("dev/tty1", "");
    file_write("dev/pts/0", "");
    file_write("dev/ttyS0", ""); /* a serial line, to which a device may be connected */
    file_write("dev/pts/ptmx", "");
    used("dev/tty1", 100);
    used("dev/pts/0", 100);
    used("dev/ttyS0", 100);
    uint64_t before = machine_activity(root);
    used("dev/ttyS0", 200);
    used("dev/pts/ptmx", 200);
    assert_int_equal(machine_activity(root), before);
    used("dev/tty1", 108);
    uint64_t after = machine_activity(root);
    assert_int_not_equal(after, before);
    used("dev/pts/0", 108);
    assert_int_not_equal(machine_activity(root), after);
    after = machine_activity(root);
    file_write("dev/pts/1", ""); /* somebody logs in */
    assert_int_not_equal(machine_activity(root), after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_waits_is_not_busy, setup, teardown),
        cmocka_unit_test(what_workers_use_is_nobodys_load),
        cmocka_unit_test_setup_teardown(keyboards_and_mice_are_seen_by_their_interrupts, setup, teardown),
        cmocka_unit_test_setup_teardown(usb_keyboards_and_mice_are_seen_by_their_requests, setup, teardown),
        cmocka_unit_test_setup_teardown(terminals_are_seen_by_their_last_use, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
