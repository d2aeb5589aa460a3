/* What the last lines of a worker tell of its end. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/daemon/workers/cause.h"

static void a_gpu_without_memory_is_named(void **state)
{
    (void)state;
    assert_int_equal(cause_of_lines(1, "Traceback (most recent call last):\n  File \"x.py\", line 3\n"
                                       "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"),
                     FACT_CAUSE_GPU_MEMORY);
    assert_int_equal(cause_of_lines(-6, "RuntimeError: CUDA error: out of memory\n"), FACT_CAUSE_GPU_MEMORY);
    assert_int_equal(cause_of_lines(0, "skipped: CUDA out of memory\n"), FACT_CAUSE_UNKNOWN);
    assert_int_equal(cause_of_lines(1, "out of patience\n"), FACT_CAUSE_UNKNOWN);
    assert_int_equal(cause_of_lines(1, ""), FACT_CAUSE_UNKNOWN);
}

static void a_traceback_at_the_end_of_a_success_is_marked(void **state)
{
    (void)state;
    static const char trace[] = "epoch 1\nTraceback (most recent call last):\n  File \"x.py\", line 3, in f\n    g()\nKeyError: 'a'\n";
    assert_int_equal(cause_of_lines(0, trace), FACT_CAUSE_TRACEBACK);
    assert_int_equal(cause_of_lines(0, "Traceback (most recent call last):\n  File \"x\"\nE: 1\nflushed\n"), FACT_CAUSE_TRACEBACK);
    assert_int_equal(cause_of_lines(0, "Traceback (most recent call last):\n  File \"x\"\nE: 1\n1\n2\n3\n4\n5\n6\n"),
                     FACT_CAUSE_UNKNOWN);
    assert_int_equal(cause_of_lines(0, "Traceback (most recent call last):\n  File"), FACT_CAUSE_UNKNOWN);
    assert_int_equal(cause_of_lines(0, "Traceback (most recent call last):"), FACT_CAUSE_UNKNOWN);
    assert_int_equal(cause_of_lines(1, trace), FACT_CAUSE_UNKNOWN);
}

static void equal_failures_have_one_hash(void **state)
{
    (void)state;
    uint64_t one = cause_failure(127, "bash: line 1: trian: command not found\n", "/d/runs/1a2b3c4d-0-1");
    assert_true(one != 0);
    assert_true(one == cause_failure(127, "other words before\nbash: line 7: trian: command not found\n\n", ""));
    assert_true(one != cause_failure(126, "bash: line 1: trian: command not found\n", ""));
    assert_true(one != cause_failure(127, "bash: line 1: train: command not found\n", ""));
    assert_true(cause_failure(2, "12:01:07 can't open file '/d/runs/77/work/a.py' at 0x7f00aabbcc10", "/d/runs/77") ==
                cause_failure(2, "12:02:59 can't open file '/d/runs/9/work/a.py' at 0x7faa00bbcc90", "/d/runs/9"));
}

static void failures_that_may_pass_have_none(void **state)
{
    (void)state;
    assert_true(cause_failure(1, "", "") == 0);
    assert_true(cause_failure(1, "\n\n", "") == 0);
    assert_true(cause_failure(1, "1234\n", "") == 0);
    assert_true(cause_failure(0, "fine\n", "") == 0);
    assert_true(cause_failure(-SIGKILL, "x\n", "") == 0);
    assert_true(cause_failure(137, "Killed\n", "") == 0);
    assert_true(cause_failure(1, "OSError: [Errno 98] Address already in use\nfailed\n", "") == 0);
    assert_true(cause_failure(1, "torch.OutOfMemoryError: CUDA out of memory\nfailed\n", "") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gpu_without_memory_is_named),
        cmocka_unit_test(a_traceback_at_the_end_of_a_success_is_marked),
        cmocka_unit_test(equal_failures_have_one_hash),
        cmocka_unit_test(failures_that_may_pass_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
