/* shoal-train as real processes, under a fake daemon, on a small synthetic data set. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "tests/unit/idx_files.h"
#include "tests/unit/trainer_fixture.h"
#include "train/trainer/state.h"

#define STEPS_PER_EPOCH TRAINED_STEPS_PER_EPOCH
#define STEPS (3 * STEPS_PER_EPOCH)

static size_t count_reports(const struct fake_daemon *daemon, const char *group)
{
    size_t count = 0;
    for (size_t i = 0; i < daemon->report_count; i++) {
        count += strcmp(daemon->reports[i].group, group) == 0;
    }
    return count;
}

#define HPARAMS(batch, epochs, extra) \
    "{\"hidden\": [16, 8], \"learning_rate\": 0.05, \"learning_rate_decay\": 0.5, \"momentum\": 0.9, \"batch_size\": " batch ", \"epochs\": " epochs \
    ", \"report_every\": 1" extra "}"

static void test_the_loss_curve_does_not_depend_on_the_ranks_and_their_places(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 5, 3, 4, 5}, hosts[] = {1, 1, 1, 1, 3, 2, 3};
    double first[STEPS + 1], losses[STEPS + 1];
    double accuracy = -1;
    for (size_t s = 0; s < 7; s++) {
        struct fake_daemon daemon;
        fake_daemon_start(&daemon, sizes[s], 11, HPARAMS("37", "3", ""));
        daemon.hosts = hosts[s];
        assert_true(trained_run(&daemon, 0));
        assert_string_equal(trained.errors, "");
        trained_assert_equal(sizes[s]);
        assert_int_equal(trained.step_lines, STEPS * sizes[s]);
        /* Rank 0 alone reports, and the test set is used once. */
        assert_int_equal(trained_losses(&daemon, STEPS, s == 0 ? first : losses), STEPS);
        assert_int_equal(count_reports(&daemon, "validation"), 3);
        assert_int_equal(count_reports(&daemon, "test"), 1);
        const struct fake_report *last = &daemon.reports[daemon.report_count - 1];
        assert_string_equal(last->group, "test");
        assert_int_equal(last->step, STEPS);
        assert_true(s == 0 || fabs(last->accuracy - accuracy) < 0.021); /* at most two of the 100 may tip over */
        accuracy = last->accuracy;
        assert_true(accuracy > 0.9);
        for (size_t i = 1; i <= STEPS && s > 0; i++) {
            /* fp32 rounding of sums in another order, carried through 45 steps. */
            assert_true(fabs(losses[i] - first[i]) < 1e-4 * (1 + fabs(first[i])));
        }
        fake_daemon_stop(&daemon);
    }
}

static void test_two_runs_on_the_same_hosts_end_with_the_same_bits(void **state)
{
    (void)state;
    char first[80];
    for (int run = 0; run < 2; run++) {
        struct fake_daemon daemon;
        fake_daemon_start(&daemon, 5, 11, HPARAMS("37", "3", ""));
        daemon.hosts = 2;
        assert_true(trained_run(&daemon, 0));
        trained_assert_equal(5);
        if (run == 0) {
            strcpy(first, trained.hashes[0]);
        }
        assert_string_equal(trained.hashes[0], first);
        fake_daemon_stop(&daemon);
    }
}

static void test_ranks_without_samples_keep_in_step(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 5, 11, HPARAMS("3", "0.2", ""));
    assert_true(trained_run(&daemon, 0));
    trained_assert_equal(5);
    assert_int_equal(count_reports(&daemon, "training"), 37); /* 0.2 of 184 steps, rounded up */
    fake_daemon_stop(&daemon);
}

/* The third checkpoint waits for a buffer; what rank 0 hears meanwhile is that it shall stop. */
static void *stop_then_release(void *argument)
{
    struct fake_daemon *daemon = argument;
    if (fake_daemon_wait(daemon, &daemon->held_count, 2)) {
        fake_daemon_notice(daemon, "stop", 0);
        fake_daemon_release_saves(daemon);
    }
    return NULL;
}

static void test_a_resumed_run_equals_an_uninterrupted_one(void **state)
{
    (void)state;
    char whole[80];
    double losses[STEPS + 1], resumed[STEPS + 1];
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 2, 11, HPARAMS("37", "3", ", \"checkpoint_every\": 7"));
    assert_true(trained_run(&daemon, 0));
    strcpy(whole, trained.hashes[0]);
    (void)trained_losses(&daemon, STEPS, losses);
    assert_int_equal(daemon.checkpoint_step, STEPS);
    fake_daemon_stop(&daemon);

    /* Asked to stop in the middle: it saves and leaves with 0. The next attempt ends with the same bits. */
    fake_daemon_start(&daemon, 2, 11, HPARAMS("37", "3", ", \"checkpoint_every\": 10"));
    daemon.hold_saves = true; /* no worker is there yet */
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, stop_then_release, &daemon), 0);
    assert_true(trained_run(&daemon, 0));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(trained.hashes[0], "");
    assert_int_equal(count_reports(&daemon, "test"), 0);
    uint64_t stopped_at = daemon.checkpoint_step;
    assert_true(stopped_at > 20 && stopped_at <= 31); /* rank 0 heard it in step 30 at the latest; agreed on in the next */
    fake_daemon_next_attempt(&daemon, 2);
    assert_true(trained_run(&daemon, 0));
    assert_int_equal(trained.step_lines, 2 * (STEPS - stopped_at));
    assert_string_equal(trained.hashes[0], whole);
    trained_assert_equal(2);
    assert_int_equal(trained_losses(&daemon, STEPS, resumed), STEPS); /* each step once in all */
    for (size_t i = 1; i <= STEPS; i++) {
        assert_true(losses[i] == resumed[i]);
    }
    fake_daemon_stop(&daemon);
}

/* Losses are reported every 20 steps but checkpoints are taken every 7, so the running sum must be in the checkpoint; and
 * the attempt before was killed, so what it did after its last checkpoint is done again. */
static void test_a_killed_attempt_goes_on_from_its_checkpoint(void **state)
{
    (void)state;
    static const char hparams[] = "{\"hidden\": 12, \"batch_size\": 37, \"epochs\": 3, \"report_every\": 20, \"checkpoint_every\": 7}";
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 2, 5, hparams);
    assert_true(trained_run(&daemon, 0));
    char whole[80];
    strcpy(whole, trained.hashes[0]);
    double losses[STEPS + 1] = {0}, again[STEPS + 1] = {0};
    assert_int_equal(trained_losses(&daemon, STEPS, losses), 3);
    size_t saves = daemon.save_count;
    assert_int_equal(saves, 7); /* 7, 14, ... 42, and the end */
    fake_daemon_stop(&daemon);

    fake_daemon_start(&daemon, 2, 5, hparams);
    daemon.hold_saves = true; /* rank 0 waits with its third, so that it does not go on alone when rank 1 is gone */
    pid_t children[2];
    trained_start(&daemon, 0, 2, children);
    assert_true(fake_daemon_wait(&daemon, &daemon.held_count, 2));
    trained_kill_all(children, 2);
    (void)pthread_mutex_lock(&daemon.mutex);
    daemon.hold_saves = false; /* nobody waits for the answers */
    daemon.held_count = 0;
    (void)pthread_mutex_unlock(&daemon.mutex);
    char text[4096];
    (void)trained_read_text("errors", text, sizeof text);
    (void)trained_read_text("steps", text, sizeof text);
    (void)trained_read_text("hashes", text, sizeof text);
    fake_daemon_next_attempt(&daemon, 2);
    assert_true(trained_run(&daemon, 0));
    assert_string_equal(trained.hashes[0], whole);
    (void)trained_losses(&daemon, STEPS, again);
    for (size_t i = 1; i <= STEPS; i++) {
        assert_true(losses[i] == again[i]);
    }
    fake_daemon_stop(&daemon);
}

/* ---- groups that change ---- */

/* `lost` is killed in the middle of training: the others go on in the same processes, from the step that it was in. */
static void go_on_without(uint32_t size, uint32_t lost, bool is_told, uint32_t hosts)
{
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, size, 11, HPARAMS("37", "3", ", \"checkpoint_every\": 7"));
    daemon.tells_of_losses = is_told;
    daemon.hosts = hosts;
    daemon.hold_saves = true; /* the third one waits, and the others for rank 0 */
    pid_t children[FAKE_RANKS_MAX];
    trained_start(&daemon, 0, size, children);
    assert_true(fake_daemon_wait(&daemon, &daemon.held_count, 2));
    assert_int_equal(kill(children[lost], SIGKILL), 0);
    fake_daemon_release_saves(&daemon);
    for (uint32_t rank = 0; rank < size; rank++) {
        int status;
        assert_int_equal(waitpid(children[rank], &status, 0), children[rank]);
        assert_true(rank == lost || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    }
    trained_read(&daemon);
    assert_string_equal(trained.errors, "");
    trained_assert_equal(size - 1);
    assert_string_equal(trained.hashes[size - 1], "");
    assert_true(daemon.generation >= 2); /* who ends first may be taken for a loss by the fake daemon */
    assert_int_equal(trained_prove().steps, STEPS);
    assert_true(trained.step_lines <= 2 * size + STEPS * (size - 1) + 31); /* the lost one's, and a step twice on each */
    const struct fake_report *last = &daemon.reports[daemon.report_count - 1];
    assert_string_equal(last->group, "test");
    assert_true(last->accuracy > 0.9);
    fake_daemon_stop(&daemon);
}

static void test_a_lost_rank_costs_the_others_a_step(void **state)
{
    (void)state;
    go_on_without(3, 1, true, 1);
    go_on_without(2, 0, true, 1); /* and one alone goes on, too; rank 0 is another now */
    go_on_without(4, 3, false, 1); /* what they share says it as well */
    go_on_without(3, 1, false, 3); /* or the broken connection */
    go_on_without(5, 0, true, 2); /* of two hosts, one who speaks for his, */
    go_on_without(5, 1, false, 2);
    go_on_without(5, 2, true, 2); /* and one who does not */
    go_on_without(5, 4, false, 2);
}

static void test_a_worker_joins_and_gets_the_state(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 2, 11, HPARAMS("37", "3", ", \"checkpoint_every\": 7"));
    daemon.hold_saves = true;
    pid_t children[FAKE_RANKS_MAX];
    trained_start(&daemon, 0, 2, children);
    assert_true(fake_daemon_wait(&daemon, &daemon.held_count, 2));
    trained_start(&daemon, 2, 3, children);
    assert_true(fake_daemon_wait(&daemon, &daemon.group_count, 3)); /* it waits */
    fake_daemon_release_saves(&daemon);
    for (uint32_t rank = 0; rank < 3; rank++) {
        int status;
        assert_int_equal(waitpid(children[rank], &status, 0), children[rank]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    trained_read(&daemon);
    assert_string_equal(trained.errors, "");
    trained_assert_equal(3);
    assert_true(daemon.generation >= 2); /* who ends first may be taken for a loss by the fake daemon */
    assert_int_equal(trained_prove().steps, STEPS);
    fake_daemon_stop(&daemon);
}

static void test_a_foreign_or_damaged_checkpoint_is_refused(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 1, 11, HPARAMS("37", "0.1", ""));
    assert_true(trained_run(&daemon, 0));
    daemon.seed = 12; /* no thread of the daemon is asked for it now */
    fake_daemon_next_attempt(&daemon, 1);
    assert_true(trained_run(&daemon, 1));
    assert_non_null(strstr(trained.errors, "the checkpoint is of another model, data set, seed or choice of hyperparameters"));
    daemon.seed = 11;
    daemon.checkpoint_bytes -= 4;
    fake_daemon_next_attempt(&daemon, 1);
    assert_true(trained_run(&daemon, 1));
    assert_non_null(strstr(trained.errors, "does not have the length that its head announces"));
    daemon.checkpoint[0] ^= 1;
    fake_daemon_next_attempt(&daemon, 1);
    assert_true(trained_run(&daemon, 1));
    assert_non_null(strstr(trained.errors, "is not one of shoal-train"));
    daemon.checkpoint[0] ^= 1;
    daemon.checkpoint_bytes += 4;
    fake_daemon_next_attempt(&daemon, 1);
    assert_true(trained_run(&daemon, 0)); /* and whole again it is taken: the run was at its end */
    assert_int_equal(trained.step_lines, 0);
    fake_daemon_stop(&daemon);
}

static void test_a_bad_hyperparameter_is_one_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *json, *sentence;
    } bad[] = {
        {"{\"learning_rate\": -1}", "hyperparameter 'learning_rate' is -1; it must be a number from 1e-9 to 100"},
        {"{\"learning_rate\": \"fast\"}", "hyperparameter 'learning_rate' must be a number"},
        {"{\"learning_rate_decay\": 1.5}", "hyperparameter 'learning_rate_decay' is 1.5; it must be a number from 0 to 1"},
        {"{\"momentum\": 1}", "hyperparameter 'momentum' is 1"},
        {"{\"epochs\": 0}", "hyperparameter 'epochs' is 0"},
        {"{\"hidden\": [64, 0]}", "hyperparameter 'hidden' has a layer of 0 units"},
        {"{\"hidden\": \"wide\"}", "hyperparameter 'hidden' must be a whole number or a list"},
        {"{\"hidden\": [1,1,1,1,1,1,1,1,1]}", "hyperparameter 'hidden' has more than 8 entries"},
        {"{\"batch_size\": 64.5}", "hyperparameter 'batch_size' must be a whole number"},
        {"{\"batch_size\": 0}", "hyperparameter 'batch_size' is 0"},
        {"{\"batch_size\": 551}", "hyperparameter 'batch_size' is 551; there are 550 training samples"},
        {"{\"checkpoint_every\": 0}", "hyperparameter 'checkpoint_every' is 0"},
        {"{\"report_every\": -3}", "hyperparameter 'report_every' is -3"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct fake_daemon daemon;
        fake_daemon_start(&daemon, 1, 0, bad[i].json);
        assert_true(trained_run(&daemon, 1));
        if (strstr(trained.errors, bad[i].sentence) == NULL) {
            print_error("%s", trained.errors);
        }
        assert_non_null(strstr(trained.errors, bad[i].sentence));
        assert_ptr_equal(strchr(trained.errors, '\n'), trained.errors + strlen(trained.errors) - 1); /* one line */
        fake_daemon_stop(&daemon);
    }
}

static void test_damaged_data_fails_every_rank_cleanly(void **state)
{
    (void)state;
    char damaged[64], path[128];
    idx_directory_make(damaged);
    idx_set_write(damaged, TRAINED_IMAGES, 100, 6, true);
    (void)snprintf(path, sizeof path, "%s/train-images-idx3-ubyte.gz", damaged);
    assert_int_equal(truncate(path, 3000), 0);
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 2, 0, "{}");
    assert_true(trained_run_on(&daemon, damaged, 1));
    assert_non_null(strstr(trained.errors, "train-images-idx3-ubyte.gz: the gzip stream is cut short: the file ends at byte 3000"));
    fake_daemon_stop(&daemon);
    idx_directory_remove(damaged);
}

/* Rank 0 is gone, and before there is another group all are to stop: whoever has the state saves it. */
static void test_who_is_to_stop_in_no_group_saves_what_it_has(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 3, 11, HPARAMS("37", "3", ", \"checkpoint_every\": 7"));
    daemon.tells_of_losses = daemon.hold_saves = true; /* rank 0 waits with the third, and the others for it */
    pid_t children[3];
    trained_start(&daemon, 0, 3, children);
    assert_true(fake_daemon_wait(&daemon, &daemon.held_count, 2));
    (void)pthread_mutex_lock(&daemon.mutex);
    daemon.hold_groups = true;
    (void)pthread_mutex_unlock(&daemon.mutex);
    trained_kill(children[0]);
    fake_daemon_release_saves(&daemon);
    assert_true(fake_daemon_wait(&daemon, &daemon.group_count, 5));
    fake_daemon_notice(&daemon, "stop", 0);
    trained_wait(children, 1, 3);
    trained_read(&daemon);
    assert_string_equal(trained.errors, "");
    assert_int_equal(daemon.save_count, 4); /* two of rank 0, and one of each other */
    assert_in_range(daemon.checkpoint_step, 14, 21);
    fake_daemon_stop(&daemon);
}

/* It is said once, and costs that one: not the next, which may be the last. */
static void test_a_checkpoint_that_is_refused_costs_no_other(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 1, 11, HPARAMS("37", "1", ", \"checkpoint_every\": 1"));
    daemon.refuse_saves = 1; /* which is heard before the fourth: there are two buffers */
    assert_true(trained_run(&daemon, 0));
    assert_int_equal(daemon.save_count, STEPS_PER_EPOCH - 1);
    assert_int_equal(daemon.checkpoint_step, STEPS_PER_EPOCH);
    assert_non_null(strstr(trained.errors, "no worker here has this token")); /* what the fake daemon says */
    fake_daemon_stop(&daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_loss_curve_does_not_depend_on_the_ranks_and_their_places),
        cmocka_unit_test(test_two_runs_on_the_same_hosts_end_with_the_same_bits),
        cmocka_unit_test(test_ranks_without_samples_keep_in_step),
        cmocka_unit_test(test_a_resumed_run_equals_an_uninterrupted_one),
        cmocka_unit_test(test_a_killed_attempt_goes_on_from_its_checkpoint),
        cmocka_unit_test(test_a_lost_rank_costs_the_others_a_step),
        cmocka_unit_test(test_a_worker_joins_and_gets_the_state),
        cmocka_unit_test(test_a_foreign_or_damaged_checkpoint_is_refused),
        cmocka_unit_test(test_a_bad_hyperparameter_is_one_sentence),
        cmocka_unit_test(test_damaged_data_fails_every_rank_cleanly),
        cmocka_unit_test(test_who_is_to_stop_in_no_group_saves_what_it_has),
        cmocka_unit_test(test_a_checkpoint_that_is_refused_costs_no_other),
    };
    trained_begin();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    trained_end();
    return failed;
}
