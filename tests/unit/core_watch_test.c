/* The times of a watch that are set together and dropped together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/core/coordinator/watch.h"

static void a_time_is_kept_while_what_it_tells_holds(void **state)
{
    (void)state;
    uint64_t since_ms = 0;
    watch_since(&since_ms, true, 10);
    watch_since(&since_ms, true, 20);
    assert_int_equal(since_ms, 10);
}

static void a_time_is_dropped_once_what_it_tells_does_not_hold(void **state)
{
    (void)state;
    uint64_t since_ms = 10;
    watch_since(&since_ms, false, 20);
    assert_int_equal(since_ms, 0);
    watch_since(&since_ms, true, 30);
    assert_int_equal(since_ms, 30);
}

static void a_broken_group_is_broken_since_the_first_loss(void **state)
{
    (void)state;
    struct core_watch watch = {0};
    watch_broken_begin(&watch, 10);
    watch_broken_begin(&watch, 20);
    assert_int_equal(watch.broken.since_ms, 10);
    watch_check(&watch, 20);
}

static void a_group_that_may_go_on_elsewhere_has_its_time_to_gather_anew(void **state)
{
    (void)state;
    struct core_watch watch = {0};
    watch_broken_begin(&watch, 10);
    watch.broken.behind_ms = 15;
    watch.broken.unsure_ms = watch.broken.gathered_ms = 20;
    watch_check(&watch, 20);
    watch_broken_anew(&watch, 30);
    assert_int_equal(watch.broken.since_ms, 30);
    assert_int_equal(watch.broken.unsure_ms, 0);
    assert_int_equal(watch.broken.gathered_ms, 0);
    assert_int_equal(watch.broken.behind_ms, 15);
    watch_check(&watch, 30);
}

static void a_whole_group_has_forgotten_what_broke_it(void **state)
{
    (void)state;
    struct core_watch watch = {.since_ms = 5};
    watch_broken_begin(&watch, 10);
    watch.broken.unsure_ms = watch.broken.gathered_ms = watch.broken.stopping_ms = watch.broken.behind_ms = 20;
    watch_broken_end(&watch);
    assert_int_equal(watch.broken.since_ms + watch.broken.unsure_ms + watch.broken.gathered_ms, 0);
    assert_int_equal(watch.broken.stopping_ms + watch.broken.behind_ms, 0);
    assert_int_equal(watch.since_ms, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_time_is_kept_while_what_it_tells_holds),
        cmocka_unit_test(a_time_is_dropped_once_what_it_tells_does_not_hold),
        cmocka_unit_test(a_broken_group_is_broken_since_the_first_loss),
        cmocka_unit_test(a_group_that_may_go_on_elsewhere_has_its_time_to_gather_anew),
        cmocka_unit_test(a_whole_group_has_forgotten_what_broke_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
