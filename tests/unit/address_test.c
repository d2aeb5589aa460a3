#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/address.h"

static void has_host(const char *address, const char *host)
{
    char out[64];
    memset(out, 'x', sizeof out);
    address_host(address, out, sizeof out);
    assert_string_equal(out, host);
}

static void the_host_is_what_stands_before_the_last_colon(void **state)
{
    (void)state;
    has_host("1.2.3.4:5", "1.2.3.4");
    has_host("name.example:65535", "name.example");
    has_host("*:0", "*");
    has_host(":5", "");
}

static void brackets_are_no_part_of_the_host(void **state)
{
    (void)state;
    has_host("[::1]:5", "::1");
    has_host("[fe80::1%eth0]:4000", "fe80::1%eth0");
    has_host("[]:5", "");
}

static void an_address_without_a_port_is_a_host(void **state)
{
    (void)state;
    has_host("name", "name");
    has_host("", "");
    has_host("[", "");
    has_host("[:", "");
}

static void a_long_host_is_cut(void **state)
{
    (void)state;
    char out[4];
    address_host("abcdefgh:1", out, sizeof out);
    assert_string_equal(out, "abc");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_is_what_stands_before_the_last_colon),
        cmocka_unit_test(brackets_are_no_part_of_the_host),
        cmocka_unit_test(an_address_without_a_port_is_a_host),
        cmocka_unit_test(a_long_host_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
