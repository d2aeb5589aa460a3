/* The interface of an address; what this machine has is asked of the kernel, too. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/interface.h"

static void every_address_of_this_machine_is_found(void **state)
{
    (void)state;
    struct ifaddrs *list;
    assert_int_equal(getifaddrs(&list), 0);
    for (const struct ifaddrs *entry = list; entry != NULL; entry = entry->ifa_next) {
        int family = entry->ifa_addr != NULL ? entry->ifa_addr->sa_family : AF_UNSPEC;
        if (family != AF_INET && family != AF_INET6) {
            continue;
        }
        char host[NI_MAXHOST], name[64] = "";
        socklen_t bytes = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        assert_int_equal(getnameinfo(entry->ifa_addr, bytes, host, sizeof host, NULL, 0, NI_NUMERICHOST), 0);
        assert_true(interface_of_address(host, name, sizeof name));
        bool is_loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
        assert_true(is_loopback || strcmp(name, entry->ifa_name) == 0);
    }
    freeifaddrs(list);
}

static void the_whole_loopback_network_is_one_interface(void **state)
{
    (void)state;
    char first[64] = "", name[64] = "";
    assert_true(interface_of_address("127.0.0.1", first, sizeof first));
    assert_true(interface_of_address("127.0.1.1", name, sizeof name));
    assert_string_equal(name, first);
    assert_true(interface_of_address("localhost", name, sizeof name));
    assert_string_equal(name, first);
}

static void what_is_not_here_has_no_interface(void **state)
{
    (void)state;
    static const char *const hosts[] = {"",          "192.0.2.77", "2001:db8::77", "alder", "1.2.3", "127.0.0.1:80", "[::1]",
                                        "fe80::1%no-such", "fe80::1%a-zone-that-is-much-too-long-for-a-name", "*"};
    char name[64] = "before";
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        assert_false(interface_of_address(hosts[i], name, sizeof name));
    }
    assert_string_equal(name, "before");
    assert_false(interface_of_address("127.0.0.1", name, 2)); /* no room */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_address_of_this_machine_is_found),
        cmocka_unit_test(the_whole_loopback_network_is_one_interface),
        cmocka_unit_test(what_is_not_here_has_no_interface),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
