/* shoal-train as real processes, under a fake daemon, on a small synthetic data set. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "tests/unit/fake_daemon.h"
#include "train/trainer_data.h"
#include "tests/unit/idx_files.h"
#include "train/trainer_state.h"

#define TRAIN_COUNT 600 /* 550 to train with, 50 for validation */
#define STEPS_PER_EPOCH 15 /* of 37 samples, the last of 32 */
#define STEPS (3 * STEPS_PER_EPOCH)

static char directory[64];
static char errors[4096]; /* what the ranks said on standard error */
static char hashes[FAKE_RANKS_MAX][80];
static char steps[1 << 16];
static size_t step_lines;

static size_t read_text(const char *name, char *out, size_t size)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "r");
    size_t used = file != NULL ? fread(out, 1, size - 1, file) : 0;
    out[used] = 0;
    if (file != NULL) {
        (void)fclose(file);
    }
    (void)unlink(path);
    return used;
}

static void exec_rank(const struct fake_daemon *daemon, uint32_t rank, const char *data)
{
    char path[128];
    fake_daemon_environment(daemon, rank);
    (void)snprintf(path, sizeof path, "%s/steps", directory);
    (void)setenv("SHOAL_STEP_LOG", path, 1);
    (void)snprintf(path, sizeof path, "%s/hashes", directory);
    (void)setenv("SHOAL_FINAL_HASH", path, 1);
    (void)snprintf(path, sizeof path, "%s/errors", directory);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0 || dup2(fd, 2) < 0 || freopen("/dev/null", "w", stdout) == NULL) {
        _exit(90);
    }
    (void)execl(SHOAL_TRAIN, SHOAL_TRAIN, "mlp", "--data", data, (char *)NULL);
    _exit(91);
}

static void start_ranks(const struct fake_daemon *daemon, uint32_t from, uint32_t to, pid_t *children)
{
    for (uint32_t rank = from; rank < to; rank++) {
        children[rank] = fork();
        assert_true(children[rank] >= 0);
        if (children[rank] == 0) {
            exec_rank(daemon, rank, directory);
        }
    }
}

/* What the ranks have left behind: the steps' log, errors, hashes. */
static void read_results(struct fake_daemon *daemon)
{
    (void)pthread_mutex_lock(&daemon->mutex); /* from here on its fields may be read */
    (void)pthread_mutex_unlock(&daemon->mutex);
    static char text[1 << 16];
    (void)read_text("errors", errors, sizeof errors);
    (void)read_text("steps", steps, sizeof steps);
    step_lines = 0;
    for (const char *c = steps; *c != 0; c++) {
        step_lines += *c == '\n';
    }
    (void)read_text("hashes", text, sizeof text);
    memset(hashes, 0, sizeof hashes);
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        unsigned trial, attempt, rank;
        char hex[80];
        assert_int_equal(sscanf(line, "%u %u %u %79s", &trial, &attempt, &rank, hex), 4);
        assert_true(rank < FAKE_RANKS_MAX && trial == 4 && attempt == 2);
        strcpy(hashes[rank], hex);
    }
}

/* Runs one worker per rank to its end; true if all ended with `status`. */
static bool run_group_on(struct fake_daemon *daemon, const char *data, int expected)
{
    uint32_t size = daemon->size;
    pid_t children[FAKE_RANKS_MAX];
    for (uint32_t rank = 0; rank < size; rank++) {
        children[rank] = fork();
        assert_true(children[rank] >= 0);
        if (children[rank] == 0) {
            exec_rank(daemon, rank, data);
        }
    }
    bool all = true;
    for (uint32_t rank = 0; rank < size; rank++) {
        int status;
        assert_int_equal(waitpid(children[rank], &status, 0), children[rank]);
        all = all && WIFEXITED(status) && WEXITSTATUS(status) == expected;
    }
    read_results(daemon);
    if (!all) {
        print_error("%s", errors);
    }
    return all;
}

static bool run_group(struct fake_daemon *daemon, int expected)
{
    return run_group_on(daemon, directory, expected);
}

static void assert_equal_hashes(uint32_t size)
{
    assert_int_equal(strlen(hashes[0]), 64);
    for (uint32_t rank = 1; rank < size; rank++) {
        assert_string_equal(hashes[rank], hashes[0]);
    }
}

static size_t count_reports(const struct fake_daemon *daemon, const char *group)
{
    size_t count = 0;
    for (size_t i = 0; i < daemon->report_count; i++) {
        count += strcmp(daemon->reports[i].group, group) == 0;
    }
    return count;
}

static size_t losses_of(const struct fake_daemon *daemon, double out[STEPS + 1])
{
    size_t count = 0;
    for (size_t i = 0; i < daemon->report_count; i++) {
        const struct fake_report *r = &daemon->reports[i];
        if (strcmp(r->group, "training") == 0) {
            assert_true(r->step >= 1 && r->step <= STEPS);
            out[r->step] = r->loss;
            count++;
        }
    }
    return count;
}

#define HPARAMS(batch, epochs, extra) \
    "{\"hidden\": [16, 8], \"learning_rate\": 0.05, \"learning_rate_decay\": 0.5, \"momentum\": 0.9, \"batch_size\": " batch ", \"epochs\": " epochs \
    ", \"report_every\": 1" extra "}"

static void test_the_loss_curve_does_not_depend_on_the_ranks(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 5};
    double first[STEPS + 1], losses[STEPS + 1];
    double accuracy = -1;
    for (size_t s = 0; s < 4; s++) {
        struct fake_daemon daemon;
        fake_daemon_start(&daemon, sizes[s], 11, HPARAMS("37", "3", ""));
        assert_true(run_group(&daemon, 0));
        assert_string_equal(errors, "");
        assert_equal_hashes(sizes[s]);
        assert_int_equal(step_lines, STEPS * sizes[s]);
        /* Rank 0 alone reports, and the test set is used once. */
        assert_int_equal(losses_of(&daemon, s == 0 ? first : losses), STEPS);
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

static void test_ranks_without_samples_keep_in_step(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 5, 11, HPARAMS("3", "0.2", ""));
    assert_true(run_group(&daemon, 0));
    assert_equal_hashes(5);
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
    assert_true(run_group(&daemon, 0));
    strcpy(whole, hashes[0]);
    (void)losses_of(&daemon, losses);
    assert_int_equal(daemon.checkpoint_step, STEPS);
    fake_daemon_stop(&daemon);

    /* Asked to stop in the middle: it saves and leaves with 0. The next attempt ends with the same bits. */
    fake_daemon_start(&daemon, 2, 11, HPARAMS("37", "3", ", \"checkpoint_every\": 10"));
    daemon.hold_saves = true; /* no worker is there yet */
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, stop_then_release, &daemon), 0);
    assert_true(run_group(&daemon, 0));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(hashes[0], "");
    assert_int_equal(count_reports(&daemon, "test"), 0);
    uint64_t stopped_at = daemon.checkpoint_step;
    assert_true(stopped_at > 20 && stopped_at <= 31); /* rank 0 heard it in step 30 at the latest; agreed on in the next */
    fake_daemon_next_attempt(&daemon, 2);
    assert_true(run_group(&daemon, 0));
    assert_int_equal(step_lines, 2 * (STEPS - stopped_at));
    assert_string_equal(hashes[0], whole);
    assert_equal_hashes(2);
    assert_int_equal(losses_of(&daemon, resumed), STEPS); /* each step once in all */
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
    assert_true(run_group(&daemon, 0));
    char whole[80];
    strcpy(whole, hashes[0]);
    double losses[STEPS + 1] = {0}, again[STEPS + 1] = {0};
    assert_int_equal(losses_of(&daemon, losses), 3);
    size_t saves = daemon.save_count;
    assert_int_equal(saves, 7); /* 7, 14, ... 42, and the end */
    fake_daemon_stop(&daemon);

    fake_daemon_start(&daemon, 2, 5, hparams);
    daemon.hold_saves = true; /* rank 0 waits with its third, so that it does not go on alone when rank 1 is gone */
    pid_t children[2];
    start_ranks(&daemon, 0, 2, children);
    assert_true(fake_daemon_wait(&daemon, &daemon.held_count, 2));
    for (int rank = 1; rank >= 0; rank--) {
        int status;
        assert_int_equal(kill(children[rank], SIGKILL), 0);
        assert_int_equal(waitpid(children[rank], &status, 0), children[rank]);
    }
    (void)pthread_mutex_lock(&daemon.mutex);
    daemon.hold_saves = false; /* nobody waits for the answers */
    daemon.held_count = 0;
    (void)pthread_mutex_unlock(&daemon.mutex);
    char text[4096];
    (void)read_text("errors", text, sizeof text);
    (void)read_text("steps", text, sizeof text);
    (void)read_text("hashes", text, sizeof text);
    fake_daemon_next_attempt(&daemon, 2);
    assert_true(run_group(&daemon, 0));
    assert_string_equal(hashes[0], whole);
    (void)losses_of(&daemon, again);
    for (size_t i = 1; i <= STEPS; i++) {
        assert_true(losses[i] == again[i]);
    }
    fake_daemon_stop(&daemon);
}

/* ---- groups that change ---- */

#define SAMPLES 550
#define BATCH 37

/* Every step was applied, with the batch that is its own, and its ranks shared that batch without gap or overlap. A rank that
 * was killed may not have written down its part of a step that the others applied: it follows from theirs. */
static void assert_each_sample_once(void)
{
    bool is_applied[STEPS + 1] = {false};
    static char copy[sizeof steps];
    strcpy(copy, steps);
    for (char *save = NULL, *line = strtok_r(copy, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        unsigned rank, step, generation, size, batch_first, batch_count, first, count;
        assert_int_equal(sscanf(line, "%*u %*s %*u %*u %u %u %u %u %u %u %u %u", &rank, &step, &generation, &size,
                                &batch_first, &batch_count, &first, &count), 8);
        assert_true(step >= 1 && step <= STEPS && rank < size && generation >= 1);
        unsigned expected = (step - 1) % STEPS_PER_EPOCH * BATCH;
        assert_int_equal(batch_first, expected);
        assert_int_equal(batch_count, SAMPLES - expected < BATCH ? SAMPLES - expected : BATCH);
        uint32_t share_first, share_count;
        trainer_data_share(batch_count, rank, size, &share_first, &share_count);
        assert_true(first == batch_first + share_first && count == share_count);
        is_applied[step] = true;
    }
    for (unsigned step = 1; step <= STEPS; step++) {
        assert_true(is_applied[step]);
    }
}

/* `lost` is killed in the middle of training: the others go on in the same processes, from the step that it was in. */
static void go_on_without(uint32_t size, uint32_t lost, bool is_told)
{
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, size, 11, HPARAMS("37", "3", ", \"checkpoint_every\": 7"));
    daemon.tells_of_losses = is_told;
    daemon.hold_saves = true; /* the third one waits, and the others for rank 0 */
    pid_t children[FAKE_RANKS_MAX];
    start_ranks(&daemon, 0, size, children);
    assert_true(fake_daemon_wait(&daemon, &daemon.held_count, 2));
    assert_int_equal(kill(children[lost], SIGKILL), 0);
    fake_daemon_release_saves(&daemon);
    for (uint32_t rank = 0; rank < size; rank++) {
        int status;
        assert_int_equal(waitpid(children[rank], &status, 0), children[rank]);
        assert_true(rank == lost || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    }
    read_results(&daemon);
    assert_string_equal(errors, "");
    assert_equal_hashes(size - 1);
    assert_string_equal(hashes[size - 1], "");
    assert_int_equal(daemon.generation, 2);
    assert_each_sample_once();
    assert_true(step_lines <= 2 * size + STEPS * (size - 1) + 31); /* the lost one's, and a step twice on each */
    const struct fake_report *last = &daemon.reports[daemon.report_count - 1];
    assert_string_equal(last->group, "test");
    assert_true(last->accuracy > 0.9);
    fake_daemon_stop(&daemon);
}

static void test_a_lost_rank_costs_the_others_a_step(void **state)
{
    (void)state;
    go_on_without(3, 1, true);
    go_on_without(2, 0, true); /* and one alone goes on, too; rank 0 is another now */
    go_on_without(4, 3, false); /* the broken connection says it as well */
}

static void test_a_worker_joins_and_gets_the_state(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 2, 11, HPARAMS("37", "3", ", \"checkpoint_every\": 7"));
    daemon.hold_saves = true;
    pid_t children[FAKE_RANKS_MAX];
    start_ranks(&daemon, 0, 2, children);
    assert_true(fake_daemon_wait(&daemon, &daemon.held_count, 2));
    start_ranks(&daemon, 2, 3, children);
    assert_true(fake_daemon_wait(&daemon, &daemon.group_count, 3)); /* it waits */
    fake_daemon_release_saves(&daemon);
    for (uint32_t rank = 0; rank < 3; rank++) {
        int status;
        assert_int_equal(waitpid(children[rank], &status, 0), children[rank]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    read_results(&daemon);
    assert_string_equal(errors, "");
    assert_equal_hashes(3);
    assert_int_equal(daemon.generation, 2);
    assert_each_sample_once();
    fake_daemon_stop(&daemon);
}

static void test_a_foreign_or_damaged_checkpoint_is_refused(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 1, 11, HPARAMS("37", "0.1", ""));
    assert_true(run_group(&daemon, 0));
    daemon.seed = 12; /* no thread of the daemon is asked for it now */
    fake_daemon_next_attempt(&daemon, 1);
    assert_true(run_group(&daemon, 1));
    assert_non_null(strstr(errors, "the checkpoint is of another model, data set, seed or choice of hyperparameters"));
    daemon.seed = 11;
    daemon.checkpoint_bytes -= 4;
    fake_daemon_next_attempt(&daemon, 1);
    assert_true(run_group(&daemon, 1));
    assert_non_null(strstr(errors, "does not have the length that its head announces"));
    daemon.checkpoint[0] ^= 1;
    fake_daemon_next_attempt(&daemon, 1);
    assert_true(run_group(&daemon, 1));
    assert_non_null(strstr(errors, "is not one of shoal-train"));
    daemon.checkpoint[0] ^= 1;
    daemon.checkpoint_bytes += 4;
    fake_daemon_next_attempt(&daemon, 1);
    assert_true(run_group(&daemon, 0)); /* and whole again it is taken: the run was at its end */
    assert_int_equal(step_lines, 0);
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
        assert_true(run_group(&daemon, 1));
        if (strstr(errors, bad[i].sentence) == NULL) {
            print_error("%s", errors);
        }
        assert_non_null(strstr(errors, bad[i].sentence));
        assert_ptr_equal(strchr(errors, '\n'), errors + strlen(errors) - 1); /* one line */
        fake_daemon_stop(&daemon);
    }
}

static void test_damaged_data_fails_every_rank_cleanly(void **state)
{
    (void)state;
    char damaged[64], path[128];
    idx_directory_make(damaged);
    idx_set_write(damaged, TRAIN_COUNT, 100, 6, true);
    (void)snprintf(path, sizeof path, "%s/train-images-idx3-ubyte.gz", damaged);
    assert_int_equal(truncate(path, 3000), 0);
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 2, 0, "{}");
    assert_true(run_group_on(&daemon, damaged, 1));
    assert_non_null(strstr(errors, "train-images-idx3-ubyte.gz: the gzip stream is cut short: the file ends at byte 3000"));
    fake_daemon_stop(&daemon);
    idx_directory_remove(damaged);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_loss_curve_does_not_depend_on_the_ranks),
        cmocka_unit_test(test_ranks_without_samples_keep_in_step),
        cmocka_unit_test(test_a_resumed_run_equals_an_uninterrupted_one),
        cmocka_unit_test(test_a_killed_attempt_goes_on_from_its_checkpoint),
        cmocka_unit_test(test_a_lost_rank_costs_the_others_a_step),
        cmocka_unit_test(test_a_worker_joins_and_gets_the_state),
        cmocka_unit_test(test_a_foreign_or_damaged_checkpoint_is_refused),
        cmocka_unit_test(test_a_bad_hyperparameter_is_one_sentence),
        cmocka_unit_test(test_damaged_data_fails_every_rank_cleanly),
    };
    idx_directory_make(directory);
    idx_set_write(directory, TRAIN_COUNT, 100, 6, true);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    idx_directory_remove(directory);
    return failed;
}
