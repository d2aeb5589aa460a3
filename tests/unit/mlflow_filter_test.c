/* Filters and orders of MLflow's searches: what the official client sends, and what it must be told of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "node/http/mlflow/filter.h"

static struct filter_value number(double value)
{
    return (struct filter_value){.kind = FILTER_NUMBER, .number = value};
}

static struct filter_value text(const char *value)
{
    return (struct filter_value){.kind = value != NULL ? FILTER_TEXT : FILTER_ABSENT, .text = value};
}

static struct filter read_good(const char *filter)
{
    struct filter read;
    char error[256] = "";
    if (!filter_read(filter, &read, error)) {
        fail_msg("%s: %s", filter, error);
    }
    return read;
}

static void names_are_read_in_all_their_forms(void **state)
{
    (void)state;
    static const struct {
        const char *filter;
        enum filter_of of;
        const char *key;
    } rows[] = {{"metrics.loss < 1", FILTER_METRIC, "loss"},
                {"metric.`validation/loss` <= 1e-3", FILTER_METRIC, "validation/loss"},
                {"metrics.\"a b\" > -1", FILTER_METRIC, "a b"},
                {"params.lr = '0.1'", FILTER_PARAM, "lr"},
                {"PARAMS.lr=\"0.1\"", FILTER_PARAM, "lr"},
                {"tags.mlflow.user != 'anna'", FILTER_TAG, "mlflow.user"},
                {"attributes.status = 'FINISHED'", FILTER_ATTRIBUTE, "status"},
                {"  start_time >= 1700000000000 ", FILTER_ATTRIBUTE, "start_time"},
                {"name LIKE 'x%'", FILTER_ATTRIBUTE, "name"},
                {"metricsx = 1", FILTER_ATTRIBUTE, "metricsx"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct filter read = read_good(rows[i].filter);
        assert_int_equal(read.count, 1);
        assert_int_equal(read.terms[0].of, rows[i].of);
        assert_string_equal(read.terms[0].key, rows[i].key);
    }
    assert_int_equal(read_good(NULL).count, 0);
    assert_int_equal(read_good("  ").count, 0);
    assert_int_equal(read_good("metrics.a > 1 and params.b = 'x' AND tags.c IN ('p', 'q')").count, 3);
}

static void what_is_wrong_is_told_with_its_place(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "metrics.a",        "metrics.a >",      "metrics.a > 'x'", "metrics.a >> 3", "params.b = 'x", "= 3",
        "params.b IN x",    "params.b IN ('x'", "params.b IN ()",  "a = 1 or b = 2", "a = 1 and",     "params.b LIKE 3",
        "params.b NOT 'x'", "metrics.`` > 1",   "a = 1 b = 2",     "tags.x IN (1)"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct filter read;
        char error[256] = "";
        if (filter_read(rows[i], &read, error)) {
            fail_msg("%s is taken", rows[i]);
        }
        assert_non_null(strstr(error, "at character "));
        assert_true(error[strlen(error) - 1] == '.');
    }
    static char many[4096] = "a = 1";
    for (int i = 0; i < FILTER_TERMS_MAX; i++) {
        strcat(many, " and a = 1");
    }
    struct filter read;
    char error[256];
    assert_false(filter_read(many, &read, error));
}

static bool passes(const char *filter, struct filter_value value)
{
    struct filter read = read_good(filter);
    return filter_passes(&read.terms[0], value);
}

static void values_are_compared_as_numbers_or_as_texts(void **state)
{
    (void)state;
    assert_true(passes("metrics.a > 0.5", number(0.6)) && !passes("metrics.a > 0.5", number(0.5)));
    assert_true(passes("metrics.a >= 0.5", number(0.5)) && passes("metrics.a != 0.5", number(0.6)));
    assert_false(passes("metrics.a < 1", number(NAN)) || passes("metrics.a >= 1", number(NAN)) ||
                 passes("metrics.a = 1", number(NAN)));
    assert_true(passes("metrics.a > 1", number(INFINITY)));
    assert_true(passes("params.a = '0.1'", text("0.1")) && !passes("params.a = '0.1'", text("0.10")));
    assert_true(passes("params.a = 0.1", text("0.10"))); /* a number without quotes is compared as one */
    assert_false(passes("params.a < 5", text("x")));
    assert_true(passes("params.a IN ('x', 'y')", text("y")) && !passes("params.a IN ('x', 'y')", text("z")));
    assert_true(passes("params.a NOT IN ('x', 'y')", text("z")) && !passes("params.a NOT IN ('x', 'y')", text("x")));
    assert_false(passes("params.a = 'x'", text(NULL)) || passes("params.a != 'x'", text(NULL)) ||
                 passes("params.a NOT IN ('x')", text(NULL)));
    assert_true(passes("params.a LIKE 'x%'", text("xy")) && !passes("params.a LIKE 'X%'", text("xy")) &&
                passes("params.a ILIKE 'X%'", text("xy")));
}

static void like_takes_any_text_and_single_characters(void **state)
{
    (void)state;
    assert_true(filter_like("%", "", false) && filter_like("a%c", "abbbc", false) && filter_like("%b%", "abc", false));
    assert_true(filter_like("a_c", "abc", false) && !filter_like("a_c", "ac", false) && !filter_like("_", "", false));
    assert_true(filter_like("%ab", "aab", false) && filter_like("%a%a%", "aa", false) &&
                !filter_like("%a%a%", "a", false));
    assert_false(filter_like("", "a", false) || filter_like("a", "", false));
    static char longest[5000], pattern[200];
    memset(longest, 'a', sizeof longest - 1);
    for (size_t i = 0; i + 2 < sizeof pattern; i += 2) {
        memcpy(pattern + i, "%a", 2);
    }
    pattern[sizeof pattern - 2] = 'b';
    assert_false(filter_like(pattern, longest, false)); /* and in no time */
}

static void orders_are_read_and_absent_values_are_last(void **state)
{
    (void)state;
    struct filter_order order;
    char error[256];
    assert_true(filter_read_order("metrics.`validation/loss` DESC", &order, error));
    assert_true(order.of == FILTER_METRIC && order.descending);
    assert_string_equal(order.key, "validation/loss");
    assert_true(filter_read_order("attributes.start_time", &order, error) && !order.descending);
    assert_true(filter_read_order("params.lr asc", &order, error) && !order.descending);
    assert_false(filter_read_order("params.lr sideways", &order, error) || filter_read_order("", &order, error));
    for (int descending = 0; descending < 2; descending++) {
        assert_true(filter_compare(number(1), number(NAN), descending) < 0 &&
                    filter_compare(text(NULL), number(1), descending) > 0);
        assert_int_equal(filter_compare(text(NULL), number(NAN), descending), 0);
    }
    assert_true(filter_compare(number(1), number(2), false) < 0 && filter_compare(number(1), number(2), true) > 0);
    assert_true(filter_compare(text("a"), text("b"), false) < 0 && filter_compare(number(9), text("1"), false) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_read_in_all_their_forms),
        cmocka_unit_test(what_is_wrong_is_told_with_its_place),
        cmocka_unit_test(values_are_compared_as_numbers_or_as_texts),
        cmocka_unit_test(like_takes_any_text_and_single_characters),
        cmocka_unit_test(orders_are_read_and_absent_values_are_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
