/* What a worker has lacked for a while. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/daemon/workers/stall.h"

static void a_worker_without_output_is_silent_or_idle(void **state)
{
    (void)state;
    struct worker_stall works = {0}, waits = {0};
    uint64_t now_ms = 1000;
    for (; now_ms <= 1000 + STALL_SHOWN_MS; now_ms += 2000) {
        worker_stall_sample(&works, now_ms, now_ms / 10, false);
        worker_stall_sample(&waits, now_ms, now_ms / 1000, false); /* a thread that polls */
        bool is_shown = now_ms == 1000 + STALL_SHOWN_MS;
        assert_int_equal(worker_stall_look(&works, now_ms, 0, 0).stall, is_shown ? FACT_SILENT : FACT_ACTIVE);
        assert_int_equal(worker_stall_look(&waits, now_ms, 0, 0).stall, is_shown ? FACT_IDLE : FACT_ACTIVE);
    }
    now_ms -= 2000;
    assert_int_equal(worker_stall_look(&works, now_ms, 0, 0).since_ms, 1000);
    assert_false(worker_stall_look(&waits, now_ms, 0, 0).is_overdue);
    assert_false(worker_stall_look(&waits, now_ms, STALL_SHOWN_MS + 1, 0).is_overdue);
    assert_true(worker_stall_look(&waits, now_ms, STALL_SHOWN_MS, 0).is_overdue);
    worker_stall_heard(&waits, now_ms);
    assert_int_equal(worker_stall_look(&waits, now_ms, 0, 0).stall, FACT_ACTIVE);
}

static void a_short_timeout_is_shown_when_it_is_over(void **state)
{
    (void)state;
    struct worker_stall stall = {0};
    worker_stall_sample(&stall, 5000, 70, false);
    worker_stall_sample(&stall, 7000, 70, false);
    assert_int_equal(worker_stall_look(&stall, 7999, 3000, 0).stall, FACT_ACTIVE);
    assert_int_equal(worker_stall_look(&stall, 8000, 3000, 0).stall, FACT_IDLE);
    assert_true(worker_stall_look(&stall, 8000, 3000, 0).is_overdue);
    worker_stall_sample(&stall, 8000, 30, false); /* a process has ended */
    assert_int_equal(worker_stall_look(&stall, 8000, 3000, 0).stall, FACT_SILENT);
}

static void a_stopped_worker_is_told_from_a_moment_under_a_debugger(void **state)
{
    (void)state;
    struct worker_stall stall = {0};
    worker_stall_sample(&stall, 2000, 0, true);
    assert_int_equal(worker_stall_look(&stall, 2000 + STALL_SUSPENDED_MS - 1, 0, 0).stall, FACT_ACTIVE);
    assert_int_equal(worker_stall_look(&stall, 2000 + STALL_SUSPENDED_MS, 0, 0).stall, FACT_SUSPENDED);
    worker_stall_heard(&stall, 6000);
    assert_int_equal(worker_stall_look(&stall, 7000, 5000, 0).stall, FACT_SUSPENDED);
    assert_true(worker_stall_look(&stall, 7000, 5000, 0).is_overdue);
    worker_stall_shift(&stall, 1000);
    assert_false(worker_stall_look(&stall, 7000, 5000, 0).is_overdue);
    worker_stall_sample(&stall, 8000, 0, false);
    assert_int_equal(worker_stall_look(&stall, 8000, 0, 0).stall, FACT_ACTIVE);
}

static void silence_since_the_exit_barrier_is_told_apart(void **state)
{
    (void)state;
    struct worker_stall stall = {0};
    worker_stall_sample(&stall, 1000, 0, false);
    worker_stall_sample(&stall, 20000, 10000, false); /* it computes */
    assert_int_equal(worker_stall_look(&stall, 20999, 0, 20000).stall, FACT_ACTIVE);
    assert_int_equal(worker_stall_look(&stall, 21000, 0, 20000).stall, FACT_SILENT);
    assert_true(worker_stall_look(&stall, 21000, 0, 20000).is_past_barrier);
    assert_false(worker_stall_look(&stall, 21000, 0, 20000).is_overdue);
    assert_false(worker_stall_look(&stall, 21000 + STALL_SHOWN_MS, 0, 2 * STALL_SHOWN_MS).is_past_barrier);
}

static void a_worker_is_active_before_the_first_look(void **state)
{
    (void)state;
    struct worker_stall stall = {0};
    assert_int_equal(worker_stall_look(&stall, STALL_SHOWN_MS * 2, 1, 0).stall, FACT_ACTIVE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_without_output_is_silent_or_idle),
        cmocka_unit_test(a_short_timeout_is_shown_when_it_is_over),
        cmocka_unit_test(a_stopped_worker_is_told_from_a_moment_under_a_debugger),
        cmocka_unit_test(silence_since_the_exit_barrier_is_told_apart),
        cmocka_unit_test(a_worker_is_active_before_the_first_look),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
