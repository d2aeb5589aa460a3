/* Two attempts, or two generations, of one trial alive at once: what is left of the older one does not get into the newer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>

#include "base/err.h"
#include "tests/unit/elastic_fixture.h"
#include "train/group/tcp/group.h"

#define ATTEMPT "00112233aabbccdd/4/2" /* that the fake daemon tells of */

static void pace(struct elastic_worker *w, uint64_t step)
{
    (void)w;
    (void)step;
    elastic_sleep_ms(1);
}

/* What an older worker believes its group to be: rank 0, with a member of the newer group as rank 1. */
struct relic {
    struct tcp_options options;
    struct tcp_member members[2];
    int result;
    char error[TCP_ERROR_BYTES];
};

static void *relic_thread(void *argument)
{
    struct relic *r = argument;
    struct tcp_group *group = NULL;
    r->result = tcp_group_open(&group, -1, &r->options, r->error);
    tcp_group_close(&group);
    return NULL;
}

static void relic_start(struct relic *r, pthread_t *thread, const char *group, uint64_t generation, uint64_t of_key,
                        struct elastic_run *run)
{
    *r = (struct relic){
        .options = {.rank = 0, .size = 2, .generation = generation, .group = group, .open_timeout_ms = 1500,
                    .stall_timeout_ms = 1500},
        .members = {{"127.0.0.1", fake_daemon_port(&run->daemon, 0)}, {"127.0.0.2", fake_daemon_port(&run->daemon, 1)}},
    };
    r->options.members = r->members;
    fake_daemon_key(of_key, r->options.key);
    assert_int_equal(pthread_create(thread, NULL, relic_thread, r), 0);
}

static void test_an_older_generation_or_attempt_does_not_get_into_a_group(void **state)
{
    (void)state;
    static const struct {
        const char *group;
        uint64_t generation, of_key;
    } older[] = {
        {ATTEMPT, 1, 1},                /* who has not heard of the new generation */
        {ATTEMPT, 2, 1},                /* who has heard its number, and not its key */
        {ATTEMPT, 1, 2},
        {"00112233aabbccdd/4/1", 2, 2}, /* who is of the attempt before, were the keys the same */
        {"00112233aabbccdd/4/1", 2, 1},
        {"00112233aabbccdd/3/2", 2, 2},
    };
    static const struct elastic_plan plan = {.steps = 150, .values = 2000, .at_step = pace};
    struct elastic_run run;
    struct relic relics[6];
    pthread_t threads[6];
    elastic_begin(&run, &plan, 3);
    elastic_fork(&run, 0, 3);
    elastic_wait(&run.words[0].applied, 10);
    (void)pthread_mutex_lock(&run.daemon.mutex);
    run.daemon.hold_groups = true;
    (void)pthread_mutex_unlock(&run.daemon.mutex);
    elastic_signal(&run, 2, SIGKILL);
    elastic_wait_group_count(&run, 5); /* the two others are at their doors */
    for (size_t i = 0; i < 6; i++) {
        relic_start(&relics[i], &threads[i], older[i].group, older[i].generation, older[i].of_key, &run);
    }
    elastic_sleep_ms(50); /* some are at the doors already when the group forms; the others come later, and again */
    fake_daemon_let_form(&run.daemon);
    elastic_assert_done(&run, 0);
    elastic_assert_done(&run, 1);
    assert_int_equal(run.words[0].size, 2);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(relics[i].result, ERR_TIMEOUT);
    }
    elastic_end(&run);
}

/* It has slept while its slot went to another attempt. Nothing that it says counts any more, it hears so, and ends. */
static void test_a_worker_whose_lease_has_ended_is_told_and_ends(void **state)
{
    (void)state;
    static const struct elastic_plan plan = {.steps = 400, .values = 500, .timeout_ms = 700, .at_step = pace};
    struct elastic_run run;
    elastic_begin(&run, &plan, 3);
    elastic_fork(&run, 0, 3);
    elastic_wait(&run.words[1].applied, 10);
    elastic_signal(&run, 1, SIGSTOP);
    elastic_wait_group_count(&run, 5);
    (void)pthread_mutex_lock(&run.daemon.mutex);
    run.daemon.fenced = 1u << 1;
    (void)pthread_mutex_unlock(&run.daemon.mutex);
    fake_daemon_expel(&run.daemon, 1, false);
    elastic_wait(&run.words[0].generation, 2);
    elastic_signal(&run, 1, SIGCONT);
    assert_string_equal(elastic_assert_failed(&run, 1, ERR_REFUSED), "no worker here has this token");
    elastic_assert_done(&run, 0);
    elastic_assert_done(&run, 2);
    assert_int_equal(atomic_load(&run.words[1].generation), 1);
    elastic_end(&run);
}

static void save_and_report(struct elastic_worker *w, uint64_t step)
{
    static const char *const names[] = {"loss"};
    double value = 1;
    if (step == UINT64_MAX) {
        return;
    }
    (void)shoal_report(w->shoal, "training", step * 10 + w->number, names, &value, 1);
    (void)shoal_checkpoint_save(w->shoal, step * 10 + w->number, "state", 6);
    elastic_sleep_ms(1);
}

static void test_reports_and_checkpoints_of_a_fenced_worker_do_not_arrive(void **state)
{
    (void)state;
    static const struct elastic_plan plan = {.steps = 40, .values = 500, .at_step = save_and_report};
    struct elastic_run run;
    elastic_begin(&run, &plan, 2);
    run.daemon.fenced = 0;
    elastic_fork(&run, 0, 2);
    elastic_wait(&run.words[1].applied, 5);
    (void)pthread_mutex_lock(&run.daemon.mutex);
    run.daemon.fenced = 1u << 1;
    size_t reports = run.daemon.report_count, saves = run.daemon.save_count;
    (void)pthread_mutex_unlock(&run.daemon.mutex);
    elastic_assert_done(&run, 0); /* what the program makes of a refusal is its own affair: this one trains on */
    elastic_assert_done(&run, 1);
    (void)pthread_mutex_lock(&run.daemon.mutex);
    assert_true(run.daemon.report_count > reports && run.daemon.save_count > saves);
    for (size_t i = reports; i < run.daemon.report_count; i++) {
        assert_int_equal(run.daemon.reports[i].step % 10, 0);
    }
    assert_int_equal(run.daemon.checkpoint_step, 390);
    (void)pthread_mutex_unlock(&run.daemon.mutex);
    elastic_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_older_generation_or_attempt_does_not_get_into_a_group),
        cmocka_unit_test(test_a_worker_whose_lease_has_ended_is_told_and_ends),
        cmocka_unit_test(test_reports_and_checkpoints_of_a_fenced_worker_do_not_arrive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
