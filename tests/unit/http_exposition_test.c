/* The text of /metrics in both formats, and what a page has no room for. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/http/exposition.h"

static char *text;
static size_t text_bytes;

static struct exposition page_begin(bool is_open)
{
    return (struct exposition){.out = open_memstream(&text, &text_bytes), .is_open = is_open};
}

static void page_is(struct exposition *page, const char *expected)
{
    (void)fclose(page->out);
    assert_string_equal(text, expected);
    free(text);
    text = NULL;
}

static void a_counter_is_named_in_its_head_as_the_format_wants(void **state)
{
    (void)state;
    for (int is_open = 0; is_open < 2; is_open++) {
        struct exposition page = page_begin(is_open);
        exposition_begin(&page, "shoal_x_bytes", "counter", "bytes", "Bytes.");
        exposition_sample(&page, "shoal_x_bytes_total", NULL, 0.5);
        page_is(
            &page,
            is_open
                ? "# HELP shoal_x_bytes Bytes.\n# TYPE shoal_x_bytes counter\n# UNIT shoal_x_bytes "
                  "bytes\nshoal_x_bytes_total 0.5\n"
                : "# HELP shoal_x_bytes_total Bytes.\n# TYPE shoal_x_bytes_total counter\nshoal_x_bytes_total 0.5\n");
    }
}

static void labels_are_escaped_and_hold_no_byte_that_is_not_text(void **state)
{
    (void)state;
    struct exposition page = page_begin(false);
    struct exposition_labels labels = {0};
    exposition_label(&labels, "a", "x\"y\n");
    exposition_label(&labels, "b", "\xff\xc3\xa4");
    exposition_sample(&page, "m", &labels, -1);
    page_is(&page, "m{a=\"x\\\"y\\\\n\",b=\"\\\\xff\xc3\xa4\"} -1\n");
}

static void numbers_that_are_none_have_their_names(void **state)
{
    (void)state;
    struct exposition page = page_begin(false);
    exposition_sample(&page, "m", NULL, NAN);
    exposition_sample(&page, "m", NULL, INFINITY);
    exposition_sample(&page, "m", NULL, -INFINITY);
    page_is(&page, "m NaN\nm +Inf\nm -Inf\n");
}

static void buckets_rise_to_the_count(void **state)
{
    (void)state;
    const double bounds[] = {0.5, 5}, counts[] = {1, 2, 4};
    struct exposition page = page_begin(true);
    exposition_histogram(&page, "h", 2, bounds, counts, 12.5);
    page_is(&page, "h_bucket{le=\"0.5\"} 1\nh_bucket{le=\"5.0\"} 3\nh_bucket{le=\"+Inf\"} 7\nh_count 7\nh_sum 12.5\n");
    page = page_begin(false);
    exposition_histogram(&page, "h", 2, bounds, counts, 12.5);
    page_is(&page, "h_bucket{le=\"0.5\"} 1\nh_bucket{le=\"5\"} 3\nh_bucket{le=\"+Inf\"} 7\nh_count 7\nh_sum 12.5\n");
}

static void series_beyond_the_page_are_dropped_and_told(void **state)
{
    (void)state;
    const double bounds[] = {1}, counts[] = {0, 0};
    struct exposition page = page_begin(true);
    for (int i = 0; i < EXPOSITION_SERIES_MAX - 2; i++) {
        exposition_sample(&page, "m", NULL, 0);
    }
    exposition_histogram(&page, "h", 1, bounds, counts, 0);
    for (int i = 0; i < 5; i++) {
        exposition_sample(&page, "m", NULL, 0);
    }
    assert_int_equal(page.series, EXPOSITION_SERIES_MAX);
    assert_int_equal(page.dropped, 4 + 3);
    exposition_end(&page, 100);
    (void)fclose(page.out);
    assert_null(strstr(text, "h_"));
    assert_non_null(strstr(text, "\nshoal_metrics_dropped_total 107\n# EOF\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_counter_is_named_in_its_head_as_the_format_wants),
        cmocka_unit_test(labels_are_escaped_and_hold_no_byte_that_is_not_text),
        cmocka_unit_test(numbers_that_are_none_have_their_names),
        cmocka_unit_test(buckets_rise_to_the_count),
        cmocka_unit_test(series_beyond_the_page_are_dropped_and_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
