/* The states of a slot's worker in the daemon. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/daemon/workers/state.h"

static void the_way_of_a_worker_is_allowed(void **state)
{
    (void)state;
    static const enum worker_state way[] = {WORKER_NONE,     WORKER_FETCHING, WORKER_UNPACKING, WORKER_FETCHING, WORKER_UNPACKING,
                                            WORKER_READY,    WORKER_SPAWNING, WORKER_RUNNING,   WORKER_NONE,     WORKER_RUNNING,
                                            WORKER_NONE,     WORKER_FETCHING, WORKER_UNPACKING, WORKER_INSTALLING, WORKER_READY};
    for (size_t i = 1; i < sizeof way / sizeof way[0]; i++) {
        assert_true(worker_state_may(way[i - 1], way[i]));
    }
}

static void a_worker_can_end_in_every_state(void **state)
{
    (void)state;
    for (int from = 0; from < WORKER_STATES; from++) {
        assert_true(worker_state_may((enum worker_state)from, WORKER_NONE));
    }
}

static void no_step_is_left_out(void **state)
{
    (void)state;
    assert_false(worker_state_may(WORKER_NONE, WORKER_UNPACKING));
    assert_false(worker_state_may(WORKER_NONE, WORKER_READY));
    assert_false(worker_state_may(WORKER_NONE, WORKER_SPAWNING));
    assert_false(worker_state_may(WORKER_FETCHING, WORKER_READY));
    assert_false(worker_state_may(WORKER_FETCHING, WORKER_INSTALLING));
    assert_false(worker_state_may(WORKER_INSTALLING, WORKER_RUNNING));
    assert_false(worker_state_may(WORKER_UNPACKING, WORKER_RUNNING));
    assert_false(worker_state_may(WORKER_READY, WORKER_RUNNING));
    for (int to = WORKER_FETCHING; to < WORKER_STATES; to++) {
        assert_false(worker_state_may(WORKER_RUNNING, (enum worker_state)to));
    }
    assert_false(worker_state_may(WORKER_STATES, WORKER_NONE));
    assert_false(worker_state_may(WORKER_NONE, WORKER_STATES));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_way_of_a_worker_is_allowed),
        cmocka_unit_test(a_worker_can_end_in_every_state),
        cmocka_unit_test(no_step_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
