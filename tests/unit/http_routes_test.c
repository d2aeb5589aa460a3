/* The routes of the HTTP API: each request of the daemon's table has its own, with the method that its rights ask for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/daemon/api/table.h"
#include "node/http/routes.h"

/* By the HTTP door come the requests that read or change; a GET must not change, since any page can have a browser send
 * one.
 */
static void each_request_of_users_has_a_route_whose_method_fits(void **state)
{
    (void)state;
    size_t count, route_count;
    const struct api_row *rows = api_rows(&count);
    const struct route *routes = routes_all(&route_count);
    for (size_t i = 0; i < count; i++) {
        bool is_for_users = rows[i].kind == API_READS || rows[i].kind == API_OWN || rows[i].kind == API_CHANGES, is_found = false;
        for (size_t k = 0; k < route_count; k++) {
            if (strcmp(routes[k].op, rows[i].op) != 0) {
                continue;
            }
            is_found = true;
            if ((strcmp(routes[k].method, "GET") == 0) != (rows[i].kind == API_READS)) {
                fail_msg("%s %s is the request %s", routes[k].method, routes[k].path, rows[i].op);
            }
        }
        if (is_found != is_for_users) {
            fail_msg("the request %s %s", rows[i].op, is_found ? "has a route" : "has no route");
        }
    }
    for (size_t k = 0; k < route_count; k++) {
        if (api_find(routes[k].op, strlen(routes[k].op)) == NULL) {
            fail_msg("%s %s stands for no request", routes[k].method, routes[k].path);
        }
    }
}

/* A path of the route, with `value` for each {NAME}. */
static void fill(const char *pattern, const char *value, char out[256])
{
    size_t used = (size_t)snprintf(out, 256, "%s", ROUTES_PREFIX);
    for (const char *c = pattern; *c != '\0'; c++) {
        if (*c == '{') {
            used += (size_t)snprintf(out + used, 256 - used, "%s", value);
            c = strchr(c, '}');
        } else {
            out[used++] = *c;
        }
    }
    out[used] = '\0';
}

static void each_route_is_found_by_its_path(void **state)
{
    (void)state;
    size_t count;
    const struct route *routes = routes_all(&count);
    for (size_t i = 0; i < count; i++) {
        char path[256], longer[260];
        struct route_match match;
        fill(routes[i].path, "7", path);
        routes_match(routes[i].method, path, &match);
        if (match.route != &routes[i]) {
            fail_msg("%s %s finds %s", routes[i].method, path, match.route != NULL ? match.route->path : "nothing");
        }
        size_t names = 0;
        for (const char *c = routes[i].path; (c = strchr(c, '{')) != NULL; c++) {
            assert_true(names < match.part_count);
            assert_int_equal(match.parts[names].name_bytes, strcspn(c + 1, "}"));
            assert_memory_equal(match.parts[names].name, c + 1, match.parts[names].name_bytes);
            assert_true(match.parts[names].value_bytes == 1 && match.parts[names].value[0] == '7');
            names++;
        }
        assert_int_equal(match.part_count, names);
        routes_match("HEAD", path, &match);
        assert_true(match.route == NULL ? strcmp(routes[i].method, "GET") != 0
                                        : strcmp(match.route->method, "GET") == 0);
        static const char *const ends[] = {"/", "//", "/x", "x"};
        for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
            (void)snprintf(longer, sizeof longer, "%s%s", path, ends[k]);
            routes_match(routes[i].method, longer, &match);
            bool ends_in_name = path[strlen(path) - 1] == '7'; /* then any text is its value */
            assert_true(match.route != &routes[i] || (ends_in_name && k == 3));
        }
    }
}

static void two_routes_never_have_one_path_and_method(void **state)
{
    (void)state;
    size_t count;
    const struct route *routes = routes_all(&count);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            assert_false(strcmp(routes[i].method, routes[k].method) == 0 &&
                         strcmp(routes[i].path, routes[k].path) == 0);
        }
    }
}

static void a_method_that_a_path_lacks_is_told_those_that_it_has(void **state)
{
    (void)state;
    struct route_match match;
    routes_match("PUT", ROUTES_PREFIX "/experiments", &match);
    assert_null(match.route);
    assert_true(match.has_path);
    assert_string_equal(match.allowed, "GET, HEAD, POST");
    routes_match("POST", ROUTES_PREFIX "/experiments/ab", &match);
    assert_true(match.route == NULL && match.has_path);
    assert_string_equal(match.allowed, "GET, HEAD, DELETE");
    routes_match("GET", ROUTES_PREFIX "/experiments/ab/pause", &match);
    assert_true(match.route == NULL && match.has_path);
    assert_string_equal(match.allowed, "POST");
    routes_match("HEAD", ROUTES_PREFIX "/experiments", &match);
    assert_string_equal(match.route->op, "ls");
    routes_match("HEAD", ROUTES_PREFIX "/experiments/ab/pause", &match);
    assert_null(match.route);
    routes_match("DELETE", ROUTES_PREFIX "/experiments/ab/trials/0/checkpoints/verify", &match);
    assert_true(match.route == NULL && match.has_path);
    assert_string_equal(match.allowed, "GET, HEAD"); /* verify, and a step: each method once */
}

static void a_path_that_is_none_is_not_found(void **state)
{
    (void)state;
    static const char *const paths[] = {"",
                                        "/",
                                        "//",
                                        "/experiments//",
                                        "/experiments//trials/0",
                                        "//experiments",
                                        "/experiments/ab/",
                                        "/experiments/ab//pause",
                                        "/experiments/ab/trials",
                                        "/experiments/ab/trials/",
                                        "/Status",
                                        "/status/",
                                        "/statu",
                                        "/statuss",
                                        "/../status",
                                        "/experiments/ab/trials/0/checkpoints/1/2",
                                        "status",
                                        ".",
                                        "/tokens/a/b"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char path[256];
        struct route_match match;
        (void)snprintf(path, sizeof path, ROUTES_PREFIX "%s", paths[i]);
        routes_match("GET", path, &match);
        if (match.route != NULL || match.has_path) {
            fail_msg("'%s' is found", path);
        }
    }
}

static void a_fixed_part_of_a_path_comes_before_a_name(void **state)
{
    (void)state;
    struct route_match match;
    routes_match("GET", ROUTES_PREFIX "/experiments/ab/trials/3/checkpoints/verify", &match);
    assert_string_equal(match.route->op, "checkpoint_verify");
    assert_int_equal(match.part_count, 2);
    routes_match("GET", ROUTES_PREFIX "/experiments/ab/trials/3/checkpoints/40", &match);
    assert_string_equal(match.route->op, "checkpoint_get");
    assert_int_equal(match.part_count, 3);
    assert_true(match.parts[2].value_bytes == 2 && memcmp(match.parts[2].value, "40", 2) == 0);
}

static void arguments_are_listed_with_type_and_need(void **state)
{
    (void)state;
    struct route_match match;
    bool required = true;
    routes_match("POST", ROUTES_PREFIX "/tokens", &match);
    assert_int_equal(routes_argument(match.route, "name", &required), 't');
    assert_true(required);
    assert_int_equal(routes_argument(match.route, "read_only", &required), 'b');
    assert_false(required);
    assert_int_equal(routes_argument(match.route, "expires_s", &required), 'u');
    assert_int_equal(routes_argument(match.route, "", &required), 0);
    assert_int_equal(routes_argument(match.route, "nam", &required), 0);
    assert_int_equal(routes_argument(match.route, "name!", &required), 0);
    assert_int_equal(routes_argument(match.route, "auth", &required), 0);
    size_t count;
    const struct route *routes = routes_all(&count);
    for (size_t i = 0; i < count; i++) {
        const char *at = NULL;
        struct route_argument argument;
        while (routes_next_argument(&routes[i], &at, &argument)) {
            char name[64];
            (void)snprintf(name, sizeof name, "%.*s", (int)argument.name_bytes, argument.name);
            assert_true(argument.name_bytes > 0 && strchr("utbna", argument.type) != NULL);
            assert_int_equal(routes_argument(&routes[i], name, &required), argument.type);
            assert_int_equal(required, argument.required);
            /* what the door itself says of a request must not be sayable by others */
            assert_true(strcmp(name, "auth") != 0 && strcmp(name, "op") != 0 && strcmp(name, "id") != 0 &&
                        strcmp(name, "v") != 0);
            assert_true(strcmp(routes[i].method, "GET") != 0 ||
                        strchr("utb", argument.type) != NULL); /* a query has no lists */
        }
        assert_true((routes[i].kind == ROUTE_FILE) == (routes[i].type != NULL));
        assert_null(strpbrk(routes[i].summary, "\"\\"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_request_of_users_has_a_route_whose_method_fits),
        cmocka_unit_test(each_route_is_found_by_its_path),
        cmocka_unit_test(two_routes_never_have_one_path_and_method),
        cmocka_unit_test(a_method_that_a_path_lacks_is_told_those_that_it_has),
        cmocka_unit_test(a_path_that_is_none_is_not_found),
        cmocka_unit_test(a_fixed_part_of_a_path_comes_before_a_name),
        cmocka_unit_test(arguments_are_listed_with_type_and_need),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
