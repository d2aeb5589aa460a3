/* When a run ends and how often it is killed: the deciding part of shoal-keep. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/keep/core.h"

static void core_lease_ends_a_run_and_renewal_postpones_it(void **state)
{
    (void)state;
    struct keep_core core;
    keep_core_init(&core, 1000, 300);
    assert_int_equal(keep_core_next_ms(&core), 1300);
    assert_int_equal(keep_core_tick(&core, 1299), KEEP_DO_NOTHING);
    keep_core_heard(&core, 1299);
    assert_int_equal(keep_core_tick(&core, 1598), KEEP_DO_NOTHING);
    assert_int_equal(keep_core_tick(&core, 1599), KEEP_DO_ASK);
    assert_int_equal(core.reason, KEEP_LEASE);
    assert_int_equal(keep_core_tick(&core, 1599), KEEP_DO_NOTHING);
    assert_int_equal(keep_core_next_ms(&core), 1599 + KEEP_CORE_GRACE_MS);
    keep_core_heard(&core, 1700); /* too late: what has begun is finished */
    uint64_t end_ms = 1599 + KEEP_CORE_GRACE_MS;
    assert_int_equal(keep_core_tick(&core, end_ms), KEEP_DO_TERM);
    assert_int_equal(keep_core_tick(&core, end_ms), KEEP_DO_NOTHING);
    assert_int_equal(keep_core_tick(&core, end_ms + KEEP_CORE_HELPERS_MS), KEEP_DO_KILL);
    keep_core_none_left(&core);
    assert_int_equal(keep_core_tick(&core, 4000), KEEP_DO_FINISH);
}

static void core_helpers_are_ended_after_their_program(void **state)
{
    (void)state;
    struct keep_core core;
    keep_core_init(&core, 0, 1000000);
    keep_core_told(&core, 0, 60000);
    assert_int_equal(keep_core_tick(&core, 0), KEEP_DO_ASK);
    assert_int_equal(keep_core_tick(&core, 59999), KEEP_DO_NOTHING); /* the whole grace is the program's */
    assert_int_equal(keep_core_next_ms(&core), 60000);
    keep_core_worker_gone(&core, 59999);
    assert_int_equal(keep_core_tick(&core, 59999), KEEP_DO_TERM);
    assert_int_equal(keep_core_tick(&core, 60000), KEEP_DO_KILL); /* and the end is where it was */
    keep_core_init(&core, 0, 1000000);
    keep_core_told(&core, 0, 60000);
    assert_int_equal(keep_core_tick(&core, 0), KEEP_DO_ASK);
    keep_core_worker_gone(&core, 100);
    assert_int_equal(keep_core_tick(&core, 100), KEEP_DO_TERM);
    assert_int_equal(keep_core_next_ms(&core), 100 + KEEP_CORE_GRACE_MS);
    keep_core_told(&core, 200, 300);
    assert_int_equal(keep_core_tick(&core, 500), KEEP_DO_KILL);
}

static void core_kills_again_and_again_ever_more_slowly(void **state)
{
    (void)state;
    struct keep_core core;
    keep_core_init(&core, 0, 1000000);
    keep_core_told(&core, 10, 0);
    assert_int_equal(core.reason, KEEP_KILLED);
    uint64_t now_ms = 10;
    uint64_t before_ms = 0;
    for (int round = 0; round < 20; round++) {
        assert_int_equal(keep_core_tick(&core, now_ms), KEEP_DO_KILL);
        assert_int_equal(keep_core_tick(&core, now_ms), KEEP_DO_NOTHING);
        uint64_t gap_ms = keep_core_next_ms(&core) - now_ms;
        assert_true(gap_ms >= before_ms && gap_ms <= KEEP_CORE_KILL_MS_LAST && gap_ms > 0);
        before_ms = gap_ms;
        now_ms += gap_ms;
    }
    assert_int_equal(before_ms, KEEP_CORE_KILL_MS_LAST);
}

static void core_told_twice_takes_the_earlier_end(void **state)
{
    (void)state;
    struct keep_core core;
    keep_core_init(&core, 0, 1000000);
    keep_core_told(&core, 0, 5000);
    assert_int_equal(keep_core_tick(&core, 0), KEEP_DO_ASK);
    keep_core_told(&core, 100, 60000);
    assert_int_equal(keep_core_next_ms(&core), 5000);
    keep_core_told(&core, 200, 300);
    assert_int_equal(keep_core_next_ms(&core), 500);
    keep_core_told(&core, 300, UINT64_MAX); /* from outside: must not overflow */
    assert_int_equal(keep_core_next_ms(&core), 500);
}

static void core_worker_that_went_by_itself_stays_exited(void **state)
{
    (void)state;
    struct keep_core core;
    keep_core_init(&core, 0, 1000);
    keep_core_worker_gone(&core, 5);
    keep_core_told(&core, 6, 0);
    assert_int_equal(core.reason, KEEP_EXITED);
    keep_core_init(&core, 0, 1000);
    keep_core_told(&core, 5, 100);
    keep_core_worker_gone(&core, 6);
    assert_int_equal(core.reason, KEEP_KILLED);
    keep_core_none_left(&core);
    assert_int_equal(keep_core_tick(&core, 6), KEEP_DO_FINISH); /* nobody left to ask */
}

static void core_a_stall_does_not_end_the_lease(void **state)
{
    (void)state;
    struct keep_core core;
    keep_core_init(&core, 0, 6000);
    assert_int_equal(keep_core_tick(&core, 1000), KEEP_DO_NOTHING);
    assert_int_equal(keep_core_tick(&core, 100000), KEEP_DO_NOTHING);
    assert_int_equal(keep_core_next_ms(&core), 105000);
    assert_int_equal(keep_core_tick(&core, 103000), KEEP_DO_NOTHING);
    assert_int_equal(keep_core_tick(&core, 105000), KEEP_DO_ASK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(core_lease_ends_a_run_and_renewal_postpones_it),
        cmocka_unit_test(core_kills_again_and_again_ever_more_slowly),
        cmocka_unit_test(core_helpers_are_ended_after_their_program),
        cmocka_unit_test(core_told_twice_takes_the_earlier_end),
        cmocka_unit_test(core_worker_that_went_by_itself_stays_exited),
        cmocka_unit_test(core_a_stall_does_not_end_the_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
