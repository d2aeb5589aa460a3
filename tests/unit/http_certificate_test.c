/* The certificate of the HTTPS door: when one will do, and its hash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "gossip/fingerprint.h"
#include "node/http/certificate.h"

#define NOW_S UINT64_C(1800000000)
#define DAY_S UINT64_C(86400)

static struct certificate_wish wish_of(const char *owner, uint64_t now_s)
{
    return (struct certificate_wish){.owner = owner,
                                     .names = {"localhost", "127.0.0.1", "::1", "birch", "10.0.0.5", "fd00::5"},
                                     .name_count = 6,
                                     .now_s = now_s};
}

static size_t make(const struct certificate_wish *wish, char out[CERTIFICATE_PEM_BYTES_MAX])
{
    size_t count = 0;
    assert_null(certificate_make(wish, out, &count));
    assert_int_equal(strlen(out), count);
    return count;
}

static void a_certificate_lasts_until_its_end_is_near(void **state)
{
    (void)state;
    char pem[CERTIFICATE_PEM_BYTES_MAX];
    struct certificate_wish wish = wish_of("0123456789abcdef", NOW_S);
    size_t count = make(&wish, pem);
    assert_true(certificate_is_good(pem, count, &wish));
    wish.now_s = NOW_S + (CERTIFICATE_DAYS - CERTIFICATE_LEFT_DAYS) * DAY_S;
    assert_true(certificate_is_good(pem, count, &wish));
    wish.now_s++;
    assert_false(certificate_is_good(pem, count, &wish));
    wish.now_s = NOW_S - DAY_S; /* it begins a day before it was made, for clocks that are behind */
    assert_true(certificate_is_good(pem, count, &wish));
    wish.now_s--;
    assert_false(certificate_is_good(pem, count, &wish));
}

static void a_name_more_or_another_owner_asks_for_a_new_one(void **state)
{
    (void)state;
    static const char *const others[] = {"10.0.0.6", "fd00::6", "birch.lab.example", "irch", "10.0.0.5.example"};
    char pem[CERTIFICATE_PEM_BYTES_MAX];
    struct certificate_wish wish = wish_of("0123456789abcdef", NOW_S), fewer = wish, of_another = wish;
    size_t count = make(&wish, pem);
    fewer.name_count = 2;
    assert_true(certificate_is_good(pem, count, &fewer));
    of_another.owner = "0123456789abcdee";
    assert_false(certificate_is_good(pem, count, &of_another));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct certificate_wish more = wish;
        more.names[more.name_count++] = others[i];
        if (certificate_is_good(pem, count, &more)) {
            fail_msg("%s is not asked for", others[i]);
        }
        count = make(&more, pem);
        assert_true(certificate_is_good(pem, count, &more));
        count = make(&wish, pem);
    }
}

static void what_is_no_certificate_with_its_key_will_not_do(void **state)
{
    (void)state;
    char one[CERTIFICATE_PEM_BYTES_MAX], other[CERTIFICATE_PEM_BYTES_MAX], mixed[2 * CERTIFICATE_PEM_BYTES_MAX];
    struct certificate_wish wish = wish_of("0123456789abcdef", NOW_S);
    size_t count = make(&wish, one);
    (void)make(&wish, other);
    const char *key = strstr(one, "-----BEGIN PRIVATE KEY"), *other_key = strstr(other, "-----BEGIN PRIVATE KEY");
    assert_non_null(key);
    assert_non_null(other_key);
    assert_false(certificate_is_good("", 0, &wish));
    assert_false(certificate_is_good("nonsense", 8, &wish));
    assert_false(certificate_is_good(one, (size_t)(key - one), &wish));
    assert_false(certificate_is_good(key, strlen(key), &wish));
    for (size_t cut = 0; cut < count - 30; cut += 7) { /* a file that was not written to its end */
        assert_false(certificate_is_good(one, cut, &wish));
    }
    (void)snprintf(mixed, sizeof mixed, "%.*s%s", (int)(key - one), one, other_key);
    assert_false(certificate_is_good(mixed, strlen(mixed), &wish));
}

static void the_hash_is_that_of_the_certificate_alone(void **state)
{
    (void)state;
    static const char text[] = "words\n-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n"
                               "-----BEGIN CERTIFICATE-----\nZGVm\n-----END CERTIFICATE-----\n"; /* abc, def */
    uint8_t hash[FINGERPRINT_BYTES];
    char hex[2 * sizeof hash + 1];
    assert_true(fingerprint_of_pem(text, sizeof text - 1, hash));
    bytes_to_hex(hex, hash, sizeof hash);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"); /* FIPS 180-2, B.1 */
    assert_false(fingerprint_of_pem(text, 40, hash));
    assert_false(fingerprint_of_pem("", 0, hash));
    assert_false(fingerprint_of_pem("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", 56, hash));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_certificate_lasts_until_its_end_is_near),
        cmocka_unit_test(a_name_more_or_another_owner_asks_for_a_new_one),
        cmocka_unit_test(what_is_no_certificate_with_its_key_will_not_do),
        cmocka_unit_test(the_hash_is_that_of_the_certificate_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
