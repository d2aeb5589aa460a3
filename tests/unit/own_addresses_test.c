/* Addresses as texts (base/address.h), and which interfaces of a machine count (node/addresses). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/address.h"
#include "node/addresses/addresses.h"

static void numeric_hosts_are_read(void **state)
{
    (void)state;
    static const char *const good[] = {"0.0.0.0", "255.255.255.255", "10.9.0.2", "::", "::1", "fd00::5", "1:2:3:4:5:6:7:8",
                                       "::ffff:10.0.0.5", "64:ff9b::10.0.0.5", "fe80::1%eth0", "1::", "1:2:3:4:5:6:7::"};
    static const char *const bad[] = {"", "elm", "10.0.0", "10.0.0.256", "10.0.0.1.2", "10.0.0.1x", "1234.0.0.1", ":", ":::", ":1",
                                      "1:", "1::2::3", "12345::", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "fd00::g",
                                      "1:2:3:4:5:6:7:10.0.0.5", "::10.0.0.5:1", "%eth0"};
    uint8_t bytes[16];
    bool is_wide;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(address_parse(good[i], bytes, &is_wide));
        assert_int_equal(is_wide, strchr(good[i], ':') != NULL);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(address_parse(bad[i], bytes, &is_wide));
    }
    assert_true(address_parse("fd00:1::5", bytes, &is_wide));
    assert_memory_equal(bytes, ((uint8_t[16]){0xfd, 0, 0, 1, [15] = 5}), 16);
    assert_true(address_parse("::ffff:1.2.3.4", bytes, &is_wide));
    assert_memory_equal(bytes + 10, ((uint8_t[6]){0xff, 0xff, 1, 2, 3, 4}), 6);
}

static void networks_have_names(void **state)
{
    (void)state;
    static const struct {
        const char *host, *network;
        uint32_t prefix;
    } cases[] = {{"10.9.0.77", "10.9.0.0/24", 24},        {"10.9.0.77", "10.9.0.64/26", 26}, {"127.0.0.1", "127.0.0.0/8", 8},
                 {"fd77:42::9", "fd77:42::/64", 64},      {"fd77::1:2:3:4:5", "fd77:0:0:1::/64", 64},
                 {"fe80::1%eth0", "fe80::/10", 10},       {"1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8/128", 128},
                 {"10.9.0.77", "", 0},                    {"10.9.0.77", "", 33},                 {"elm", "", 8}};
    char out[64];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        address_network(cases[i].host, cases[i].prefix, out, sizeof out);
        assert_string_equal(out, cases[i].network);
    }
    assert_true(address_is_link_local("169.254.3.1") && address_is_link_local("fe80::1%eth0") && address_is_link_local("febf::1"));
    assert_false(address_is_link_local("169.253.3.1") || address_is_link_local("fec0::1") || address_is_link_local("elm"));
}

/* ---- interfaces, as a directory like /sys/class/net shows them --------------------------------------------------------------- */

static char sysfs[64];

static void make(const char *path, const char *text)
{
    char full[256];
    snprintf(full, sizeof full, "%s/%s", sysfs, path);
    for (char *slash = full + strlen(sysfs) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        assert_true(mkdir(full, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    if (text == NULL) {
        assert_true(mkdir(full, 0700) == 0 || errno == EEXIST);
        return;
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(sysfs, sizeof sysfs, "/tmp/own_addresses_test.XXXXXX");
    return mkdtemp(sysfs) != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[96];
    snprintf(command, sizeof command, "rm -r %s", sysfs);
    return system(command);
}

static void bridges_of_containers_do_not_count(void **state)
{
    (void)state;
    make("eth0/device", NULL);
    make("bond0/lower_eth0", NULL);
    make("docker0/bridge", NULL);
    make("docker0/brif/veth1a2b", NULL);
    make("br-0123456789ab/bridge", NULL);
    make("virbr0/bridge", NULL);
    make("cni0/bridge", NULL);
    make("mybr/bridge", NULL);
    make("mybr/brif/veth3", NULL);
    make("br0/bridge", NULL);       /* a host with virtual machines */
    make("br0/lower_bond0", NULL);
    make("br0/brif/bond0", NULL);
    make("br0/brif/vnet0", NULL);
    make("br-lan/bridge", NULL);
    make("br-lan/lower_eth0", NULL);
    make("virbr1/bridge", NULL);    /* given the card by its owner */
    make("virbr1/lower_eth0", NULL);
    make("wlan0/device", NULL);
    make("veth9", NULL);
    static const char *const none[] = {"docker0", "br-0123456789ab", "virbr0", "cni0", "mybr", "veth9"};
    static const char *const real[] = {"eth0", "bond0", "br0", "br-lan", "virbr1", "wlan0", "eth7"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_true(addresses_is_container(sysfs, none[i], false));
    }
    for (size_t i = 0; i < sizeof real / sizeof real[0]; i++) {
        assert_false(addresses_is_container(sysfs, real[i], false));
    }
    assert_true(addresses_is_container(sysfs, "docker0", true)); /* in a nested engine it may have the default route */
    assert_false(addresses_is_container(sysfs, "mybr", true));
}

static void speeds_are_told_or_guessed(void **state)
{
    (void)state;
    make("eth0/speed", "2500\n");
    make("eth1/speed", "-1\n");
    make("wlan0/wireless", NULL);
    make("tun0/tun_flags", "0x1\n");
    make("tun0/speed", "10000\n");
    assert_int_equal(addresses_speed(sysfs, "eth0", false), 2500);
    assert_int_equal(addresses_speed(sysfs, "eth1", false), 1000);
    assert_int_equal(addresses_speed(sysfs, "wlan0", false), 300);
    assert_int_equal(addresses_speed(sysfs, "tun0", false), 100);
    assert_int_equal(addresses_speed(sysfs, "wg0", false), 100);
    assert_int_equal(addresses_speed(sysfs, "x0", true), 100);
}

static void this_machine_has_addresses_that_can_be_found(void **state)
{
    (void)state;
    struct addresses_of_ours all;
    struct address_of_ours found;
    assert_int_equal(addresses_read(&all), 0);
    for (uint32_t i = 0; i < all.count; i++) {
        assert_true(strncmp(all.items[i].host, "127.", 4) != 0 && all.items[i].speed > 0);
        assert_true(i == 0 || all.items[i - 1].is_link_local <= all.items[i].is_link_local);
        assert_true(addresses_find(all.items[i].host, &found));
    }
    assert_true(addresses_find("127.0.0.1", &found));
    assert_int_equal(found.prefix, 8);
    assert_false(addresses_find("192.0.2.1", &found));
    int fd = addresses_watch();
    assert_true(fd < 0 || !addresses_changed(fd));
    if (fd >= 0) {
        close(fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numeric_hosts_are_read),
        cmocka_unit_test(networks_have_names),
        cmocka_unit_test_setup_teardown(bridges_of_containers_do_not_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(speeds_are_told_or_guessed, set_up, tear_down),
        cmocka_unit_test(this_machine_has_addresses_that_can_be_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
