/* shoal-train where parts follow speeds: unequal parts are summed to the same loss, and whatever becomes of the group, each
 * sample is used once. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/trainer_fixture.h"
#include "train/plan/balance.h"
#include "train/trainer/ledger_command.h"

#define EPOCHS 3
#define STEPS (EPOCHS * TRAINED_STEPS_PER_EPOCH)

static const char hparams[] = "{\"hidden\": [16, 8], \"batch_size\": 37, \"epochs\": 3, \"report_every\": 1, \"checkpoint_every\": 7}";

static void set_paces(unsigned a, unsigned b, unsigned c)
{
    const unsigned paces[] = {a, b, c};
    memset(trained.pace, 0, sizeof trained.pace);
    memcpy(trained.pace, paces, sizeof paces);
}

/* Samples that a rank of a group of `size` had in a step; UINT32_MAX if the log has no such line. */
static uint32_t part(uint64_t step, uint32_t rank, uint32_t size)
{
    uint32_t found = UINT32_MAX;
    for (const char *text = trained.steps; *text != 0; text = strchr(text, '\n') + 1) {
        char experiment[64], one[256];
        uint32_t trial;
        struct ledger_line line;
        (void)snprintf(one, sizeof one, "%.*s", (int)strcspn(text, "\n") + 1, text);
        assert_true(ledger_line_read(one, experiment, &trial, &line));
        if (line.step == step && line.rank == rank && line.size == size) {
            found = line.count;
        }
    }
    return found;
}

static void train(uint32_t balances, double losses[STEPS + 1])
{
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 3, 11, hparams);
    daemon.balances = balances;
    assert_true(trained_run(&daemon, 0));
    assert_string_equal(trained.errors, "");
    trained_assert_equal(3);
    assert_int_equal(trained_prove().steps, STEPS);
    assert_int_equal(trained_losses(&daemon, STEPS, losses), STEPS);
    fake_daemon_stop(&daemon);
}

static void test_unequal_parts_give_the_loss_of_equal_ones(void **state)
{
    (void)state;
    double equal[STEPS + 1], unequal[STEPS + 1];
    set_paces(1, 2, 4);
    train(0, equal);
    for (uint64_t step = 1; step <= STEPS; step++) {
        uint32_t all = step % TRAINED_STEPS_PER_EPOCH == 0 ? 32 : 37;
        for (uint32_t rank = 0; rank < 3; rank++) {
            uint32_t first, count;
            ledger_share(all, rank, 3, &first, &count);
            assert_int_equal(part(step, rank, 3), count);
        }
    }
    train(UINT32_MAX, unequal);
    assert_int_equal(part(BALANCE_FIRST, 0, 3), 12);
    assert_true(part(BALANCE_FIRST + 1, 0, 3) > 18 && part(BALANCE_FIRST + 1, 2, 3) < 8);
    assert_true(part(STEPS, 0, 3) > 18 && part(STEPS, 2, 3) < 8);
    for (uint64_t step = 1; step <= STEPS; step++) {
        /* As in trainer_test: fp32 rounding of sums in another order, carried through 45 steps. */
        assert_true(fabs(unequal[step] - equal[step]) < 1e-4 * (1 + fabs(equal[step])));
    }
    set_paces(0, 0, 0);
}

/* Rank 0 stands still with a checkpoint that nobody takes, and the others wait for it in the next step; one is killed there. */
static void lose(uint32_t lost, uint32_t joins)
{
    struct fake_daemon daemon;
    pid_t children[FAKE_RANKS_MAX];
    fake_daemon_start(&daemon, 3, 11, hparams);
    daemon.tells_of_losses = true;
    daemon.balances = UINT32_MAX;
    daemon.hold_saves = true; /* the third one, of step 21, waits */
    trained_start(&daemon, 0, 3, children);
    assert_true(fake_daemon_wait(&daemon, &daemon.held_count, 2));
    trained_kill(children[lost]);
    trained_start(&daemon, 3, 3 + joins, children);
    if (joins > 0) { /* it waits, and so does the one of the others that does not stand still */
        assert_true(fake_daemon_wait(&daemon, &daemon.group_count, 3 + joins + 1));
    }
    fake_daemon_release_saves(&daemon);
    for (uint32_t rank = 0; rank < 3 + joins; rank++) {
        if (rank != lost) {
            trained_wait(children, rank, rank + 1);
        }
    }
    trained_read(&daemon);
    assert_string_equal(trained.errors, "");
    trained_assert_equal(2 + joins);
    assert_int_equal(trained_prove().steps, STEPS);
    assert_true(part(13, 2, 3) < 8);
    if (joins == 0) { /* speeds are brought: no step of the next group has equal parts */
        for (uint64_t step = 25; step <= STEPS; step++) {
            assert_true(part(step, 0, 2) > 22 || part(step, 0, 2) == UINT32_MAX);
        }
    }
    fake_daemon_stop(&daemon);
}

static void test_each_sample_is_used_once_when_a_rank_is_lost_or_joins(void **state)
{
    (void)state;
    set_paces(1, 2, 4);
    lose(1, 0);
    lose(2, 0);
    trained.pace[3] = 3;
    lose(1, 1);
    set_paces(0, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unequal_parts_give_the_loss_of_equal_ones),
        cmocka_unit_test(test_each_sample_is_used_once_when_a_rank_is_lost_or_joins),
    };
    trained_begin();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    trained_end();
    return failed;
}
