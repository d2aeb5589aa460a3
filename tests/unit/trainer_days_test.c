/* The long run of shoal-train: groups that change all the time, attempts that are killed one after the other. The samples are
 * each used once, and the bits are those that they should be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "tests/unit/trainer_fixture.h"

#define EPOCHS 8
#define STEPS (EPOCHS * TRAINED_STEPS_PER_EPOCH)

static const char hparams[] = "{\"hidden\": [16, 8], \"batch_size\": 37, \"epochs\": 8, \"report_every\": 20, "
                              "\"checkpoint_every\": 7}";

/* A checkpoint is all the state: parameters, velocities, step, counters. */
struct state {
    uint8_t *bytes;
    size_t count;
};

static struct state take_state(struct fake_daemon *daemon)
{
    struct state state = {malloc(daemon->checkpoint_bytes), daemon->checkpoint_bytes};
    assert_non_null(state.bytes);
    assert_int_equal(daemon->checkpoint_step, STEPS);
    memcpy(state.bytes, daemon->checkpoint, state.count);
    return state;
}

static struct state train(uint32_t size, uint64_t seed)
{
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, size, seed, hparams);
    assert_true(trained_run(&daemon, 0));
    trained_assert_equal(size);
    assert_int_equal(trained_prove().steps, STEPS);
    struct state state = take_state(&daemon);
    fake_daemon_stop(&daemon);
    return state;
}

static bool equals(const struct state *one, const struct state *other)
{
    return one->count == other->count && memcmp(one->bytes, other->bytes, one->count) == 0;
}

static void test_runs_of_one_seed_and_size_have_the_same_bits(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= 4; size++) {
        struct state first = train(size, 11), second = train(size, 11), other = train(size, 12);
        assert_true(equals(&first, &second));
        assert_false(equals(&first, &other));
        free(first.bytes);
        free(second.bytes);
        free(other.bytes);
    }
}

/* Attempt after attempt is killed once it has saved something, at another step each, and most of them between two
 * checkpoints. */
static void test_however_often_it_is_resumed_the_bits_are_those_of_one_run(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= 3; size++) {
        struct state whole = train(size, 5);
        struct fake_daemon daemon;
        fake_daemon_start(&daemon, size, 5, hparams);
        uint32_t attempts = 0;
        while (attempts < 8) {
            pid_t children[FAKE_RANKS_MAX];
            (void)pthread_mutex_lock(&daemon.mutex);
            daemon.hold_saves = true; /* it stands still at the third, if it is not killed before */
            daemon.held_count = 0;
            (void)pthread_mutex_unlock(&daemon.mutex);
            trained_start(&daemon, 0, size, children);
            assert_true(fake_daemon_wait(&daemon, &daemon.held_count, 1 + attempts % 2));
            trained_kill_all(children, size);
            attempts++;
            fake_daemon_next_attempt(&daemon, size);
        }
        fake_daemon_release_saves(&daemon);
        assert_true(trained_run(&daemon, 0));
        trained_assert_equal(size);
        struct state resumed = take_state(&daemon);
        assert_true(equals(&whole, &resumed));
        free(whole.bytes);
        free(resumed.bytes);
        fake_daemon_stop(&daemon);
    }
}

/* Lets training go on for at least one checkpoint and stand still again. */
static void go_on(struct fake_daemon *daemon)
{
    fake_daemon_release_saves(daemon);
    (void)pthread_mutex_lock(&daemon->mutex);
    daemon->hold_saves = true;
    (void)pthread_mutex_unlock(&daemon->mutex);
    assert_true(fake_daemon_wait(daemon, &daemon->held_count, 2));
}

/* Workers come and go: the lowest, the highest, any; never all. */
static void live_through(uint64_t seed)
{
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 3, seed, "{\"hidden\": [16, 8], \"batch_size\": 37, \"epochs\": 24, \"report_every\": 20, "
                                        "\"checkpoint_every\": 2}");
    daemon.hold_saves = true;
    daemon.tells_of_losses = seed % 2 == 0;
    struct random random;
    random_init(&random, seed);
    pid_t children[FAKE_RANKS_MAX] = {0};
    trained_start(&daemon, 0, 3, children);
    uint32_t alive = 3;
    assert_true(fake_daemon_wait(&daemon, &daemon.held_count, 2));
    for (uint32_t event = 0; event < 16; event++) {
        uint32_t number = (uint32_t)random_below(&random, FAKE_RANKS_MAX);
        (void)pthread_mutex_lock(&daemon.mutex);
        size_t groups = daemon.group_count;
        (void)pthread_mutex_unlock(&daemon.mutex);
        if (children[number] == 0) {
            trained_start(&daemon, number, number + 1, children);
            assert_true(fake_daemon_wait(&daemon, &daemon.group_count, groups + 1)); /* it waits to join */
            alive++;
        } else if (alive > 1) {
            trained_kill(children[number]);
            children[number] = 0;
            alive--;
        }
        go_on(&daemon);
    }
    fake_daemon_release_saves(&daemon);
    for (uint32_t number = 0; number < FAKE_RANKS_MAX; number++) {
        if (children[number] != 0) {
            trained_wait(children, number, number + 1);
        }
    }
    trained_read(&daemon);
    assert_string_equal(trained.errors, "");
    trained_assert_equal(alive);
    struct ledger_verdict verdict = trained_prove();
    assert_int_equal(verdict.steps, 24 * TRAINED_STEPS_PER_EPOCH);
    assert_int_equal(verdict.epochs, 24);
    assert_true(verdict.groups >= 8);
    fake_daemon_stop(&daemon);
}

static void test_through_all_changes_of_a_group_each_sample_is_used_once(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        live_through(seed);
    }
}

/* It diverges in its first epoch. */
static void test_numbers_that_are_not_finite_end_training_with_a_reason(void **state)
{
    (void)state;
    static const char wild[] = "{\"hidden\": [64, 64, 64, 64], \"batch_size\": 37, \"epochs\": 2, \"learning_rate\": 100}";
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 2, 3, wild);
    assert_true(trained_run(&daemon, 1));
    for (uint32_t rank = 0; rank < 2; rank++) {
        char begin[32];
        (void)snprintf(begin, sizeof begin, "shoal-train: rank %u: step ", rank);
        const char *line = strstr(trained.errors, begin);
        assert_non_null(line);
        unsigned step, collective, whose;
        assert_int_equal(sscanf(line + strlen(begin), "%u, collective %u: rank %u brought ", &step, &collective, &whose), 3);
        assert_true(step > 1 && collective == 1 && whose < 2);
    }
    fake_daemon_stop(&daemon);
    fake_daemon_start(&daemon, 2, 3, "{\"hidden\": [64, 64, 64, 64], \"batch_size\": 37, \"epochs\": 2, "
                                     "\"learning_rate\": 100, \"nonfinite\": \"ignore\"}");
    assert_true(trained_run(&daemon, 0));
    assert_int_equal(trained_prove().epochs, 2);
    fake_daemon_stop(&daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_of_one_seed_and_size_have_the_same_bits),
        cmocka_unit_test(test_however_often_it_is_resumed_the_bits_are_those_of_one_run),
        cmocka_unit_test(test_through_all_changes_of_a_group_each_sample_is_used_once),
        cmocka_unit_test(test_numbers_that_are_not_finite_end_training_with_a_reason),
    };
    trained_begin();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    trained_end();
    return failed;
}
