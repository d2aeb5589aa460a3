/* Where a request comes from: the fields Host, Origin, Authorization and Cookie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/http/guard.h"

static void a_host_that_is_not_this_machine_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"alder", "mesh.lab.example", ""};
    static const char *const ours[] = {
        "localhost",  "LocalHost:7412", "127.0.0.1", "127.0.0.1:7412",        "127.74.3.255:1", "[::1]",
        "[::1]:7412", "alder",          "ALDER:80",  "mesh.lab.example:7412", "localhost:"};
    static const char *const foreign[] = {"",
                                          ":7412",
                                          "evil.example",
                                          "evil.example:7412",
                                          "localhost.evil.example",
                                          "localhost.",
                                          "xlocalhost",
                                          "127.0.0.1.evil.example",
                                          "127.0.0.1.",
                                          "127.0.0",
                                          "127.1",
                                          "128.0.0.1",
                                          "0.0.0.0",
                                          "10.0.0.5",
                                          "127.0.0.256",
                                          "127.0.0.1:7412x",
                                          "127.0.0.1:7412:1",
                                          "127.0.0.1 ",
                                          " 127.0.0.1",
                                          "[::1",
                                          "[::1]x",
                                          "[::1]:x",
                                          "[::2]",
                                          "::1",
                                          "[::ffff:127.0.0.1]",
                                          "alder.evil.example",
                                          "lder",
                                          "localhost@evil.example",
                                          "2130706433",
                                          "0x7f.0.0.1",
                                          "127.0.0.1,evil.example",
                                          "127..0.1",
                                          "127.0.0.-1",
                                          "127.0. 0.1"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        if (!guard_host_is_ours(ours[i], names, 3, false)) {
            fail_msg("'%s' is refused", ours[i]);
        }
    }
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        if (guard_host_is_ours(foreign[i], names, 3, false)) {
            fail_msg("'%s' is taken", foreign[i]);
        }
    }
    assert_false(guard_host_is_ours(NULL, names, 3, true));
    assert_false(guard_host_is_ours("alder", NULL, 0, true));
    assert_true(guard_host_is_ours("localhost:7412", NULL, 0, false));
}

static void an_origin_is_the_host_that_is_asked(void **state)
{
    (void)state;
    assert_true(guard_origin_is("http://localhost:7412", "localhost:7412", false));
    assert_true(guard_origin_is("http://LOCALHOST:7412", "localhost:7412", false));
    assert_true(guard_origin_is("http://[::1]:7412", "[::1]:7412", false));
    static const char *const others[] = {"null",
                                         "",
                                         "http://",
                                         "localhost:7412",
                                         "https://localhost:7412",
                                         "http://localhost",
                                         "http://localhost:8888",
                                         "http://localhost:74120",
                                         "http://localhost:7412/",
                                         "http://localhost:7412@evil.example",
                                         "http://evil.example",
                                         "HTTP:/localhost:7412",
                                         "http://localhost:7412 http://evil.example"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (guard_origin_is(others[i], "localhost:7412", false)) {
            fail_msg("'%s' is taken", others[i]);
        }
    }
    assert_false(guard_origin_is("http://localhost:7412", NULL, false));
    assert_true(guard_origin_is("https://birch:7412", "birch:7412", true));
    assert_false(guard_origin_is("http://birch:7412", "birch:7412", true));
    assert_false(guard_origin_is("https://birch", "birch:7412", true));
}

static void a_door_for_others_takes_addresses_and_no_names_more(void **state)
{
    (void)state;
    static const char *const names[] = {"birch"};
    static const char *const ours[] = {"10.0.0.5",     "10.0.0.5:7412", "127.0.0.1", "[fd00::5]:7412",
                                       "[2001:db8::1]", "birch:7412",    "localhost"};
    static const char *const foreign[] = {"",         "evil.example", "10.0.0.5.evil.example", "10.0.5",  "10.0.0.05", "[]",
                                          "fd00::5",  "[fd00::5",     "[10.0.0.5]",            "[fe80::1%eth0]", "010.0.0.5",
                                          "10.0.0.5@evil.example"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        if (!guard_host_is_ours(ours[i], names, 1, true)) {
            fail_msg("'%s' is refused", ours[i]);
        }
    }
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        if (guard_host_is_ours(foreign[i], names, 1, true)) {
            fail_msg("'%s' is taken", foreign[i]);
        }
    }
}

struct wanted {
    const char *authorization, *cookies, *secret; /* secret NULL: there is none */
    bool is_cookie;
};

static void a_secret_is_found_where_clients_put_it(void **state)
{
    (void)state;
    static const struct wanted rows[] = {
        {"Bearer shoal_1", NULL, "shoal_1", false},
        {"bearer   shoal_1", NULL, "shoal_1", false},
        {"Basic dXNlcjpzaG9hbF8x", NULL, "shoal_1", false}, /* user:shoal_1 */
        {"Basic OnNob2FsXzE=", NULL, "shoal_1", false},     /* :shoal_1 */
        {"basic YTpiOmM=", NULL, "b:c", false},             /* a:b:c */
        {NULL, "shoal-ab=session_1", "session_1", true},
        {NULL, "a=b; shoal-ab=session_1; c=d", "session_1", true},
        {NULL, "a=b;shoal-ab=session_1", "session_1", true},
        {NULL, "shoal-ab=session_1; shoal-ab=session_2", "session_1", true},
        {NULL, "xshoal-ab=x; shoal-abc=y; SHOAL-AB=z; shoal-ab=session_1", "session_1", true},
        {"Bearer shoal_1", "shoal-ab=session_1", "shoal_1", false}, /* the field that no browser adds counts */
        {"Bearer ", "shoal-ab=session_1", NULL, false},
        {"Negotiate YTpi", "shoal-ab=session_1", NULL, false},
        {"Bearershoal_1", NULL, NULL, false},
        {"Basic dXNlcg==", NULL, NULL, false},     /* user */
        {"Basic dXNlcjo=", NULL, NULL, false},     /* user: */
        {"Basic dXNlcgA6eA==", NULL, NULL, false}, /* user NUL :x */
        {"Basic !!!!", NULL, NULL, false},
        {"Basic", NULL, NULL, false},
        {"", NULL, NULL, false},
        {NULL, NULL, NULL, false},
        {NULL, "", NULL, false},
        {NULL, "; ;;  ;", NULL, false},
        {NULL, "shoal-ab", NULL, false},
        {NULL, "shoal-ab=", NULL, false},
        {NULL, "a=shoal-ab=session_1", NULL, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[GUARD_SECRET_BYTES] = "untouched";
        bool is_cookie = true;
        bool is_found = guard_secret(rows[i].authorization, rows[i].cookies, "shoal-ab", out, &is_cookie);
        if (is_found != (rows[i].secret != NULL) || (is_found && strcmp(out, rows[i].secret) != 0) ||
            is_cookie != rows[i].is_cookie) {
            fail_msg("row %zu: found %d, '%s', cookie %d", i, is_found, out, is_cookie);
        }
    }
}

static void a_secret_that_is_too_long_is_none(void **state)
{
    (void)state;
    char text[2 * GUARD_SECRET_BYTES], out[GUARD_SECRET_BYTES];
    bool is_cookie;
    for (size_t bytes = GUARD_SECRET_BYTES - 2; bytes <= GUARD_SECRET_BYTES + 1; bytes++) {
        memset(text, 'x', sizeof text);
        memcpy(text, "Bearer ", 7);
        text[7 + bytes] = '\0';
        assert_int_equal(guard_secret(text, NULL, "c", out, &is_cookie), bytes < GUARD_SECRET_BYTES);
        memcpy(text, "     c=", 7);
        assert_int_equal(guard_secret(NULL, text, "c", out, &is_cookie), bytes < GUARD_SECRET_BYTES);
    }
    char large[4096] = "Basic ";
    memset(large + 6, 'Q', sizeof large - 7);
    large[sizeof large - 1] = '\0';
    assert_false(guard_secret(large, NULL, "c", out, &is_cookie));
}

static void the_text_of_a_page_follows_from_its_cookie_only(void **state)
{
    (void)state;
    char one[GUARD_CSRF_BYTES], again[GUARD_CSRF_BYTES], other[GUARD_CSRF_BYTES];
    guard_csrf("session_1", one);
    guard_csrf("session_1", again);
    guard_csrf("session_2", other);
    assert_int_equal(strlen(one), GUARD_CSRF_BYTES - 1);
    assert_string_equal(one, again);
    assert_string_not_equal(one, other);
    assert_null(strstr(one, "session"));
    assert_true(guard_csrf_is("session_1", one));
    one[3] ^= 1;
    assert_false(guard_csrf_is("session_1", one));
    assert_false(guard_csrf_is("session_1", other));
    assert_false(guard_csrf_is("session_1", ""));
    assert_false(guard_csrf_is("session_1", NULL));
    again[GUARD_CSRF_BYTES - 2] = '\0';
    assert_false(guard_csrf_is("session_1", again));
}

static void only_a_body_that_no_form_can_send_is_json(void **state)
{
    (void)state;
    static const char *const json[] = {"application/json", "Application/JSON", "application/json; charset=utf-8",
                                       "application/json;x", "application/json "};
    static const char *const others[] = {"",
                                         "text/plain",
                                         "application/json-seq",
                                         "application/jsonx",
                                         "application/x-www-form-urlencoded",
                                         "multipart/form-data; boundary=application/json",
                                         "text/plain;application/json",
                                         " application/json"};
    for (size_t i = 0; i < sizeof json / sizeof *json; i++) {
        assert_true(guard_type_is_json(json[i]));
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_false(guard_type_is_json(others[i]));
    }
    assert_false(guard_type_is_json(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_that_is_not_this_machine_is_refused),
        cmocka_unit_test(an_origin_is_the_host_that_is_asked),
        cmocka_unit_test(a_door_for_others_takes_addresses_and_no_names_more),
        cmocka_unit_test(a_secret_is_found_where_clients_put_it),
        cmocka_unit_test(a_secret_that_is_too_long_is_none),
        cmocka_unit_test(the_text_of_a_page_follows_from_its_cookie_only),
        cmocka_unit_test(only_a_body_that_no_form_can_send_is_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
