/* No memory is left in one worker: it ends with a sentence, wherever it happens, and the others go on without it. The test is
 * linked so that the allocations of libshoal go through here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "tests/unit/elastic_fixture.h"

static size_t victim, fails_at; /* set before the workers are forked */
static size_t allocations;      /* of a victim, since it has opened; 0: not counted */

/* This one fails: the n-th since counting began, and all after it. */
static bool is_out_of_memory(void)
{
    return allocations > 0 && allocations++ >= fails_at;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

void *__wrap_malloc(size_t size)
{
    return is_out_of_memory() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return is_out_of_memory() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return is_out_of_memory() ? NULL : __real_realloc(old, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return is_out_of_memory() ? NULL : __real_aligned_alloc(alignment, size);
}

static int load(void *context, uint64_t *step)
{
    struct elastic_worker *w = context;
    void *bytes;
    size_t count;
    int error = shoal_checkpoint_load(w->shoal, &bytes, &count, step);
    if (error == ERR_NOT_FOUND) {
        *step = 0;
        return 0;
    }
    if (error == 0) {
        memcpy(w->state, bytes, count);
        free(bytes);
    }
    return error;
}

static void count_allocations(struct elastic_worker *w, uint64_t step)
{
    if (step == UINT64_MAX) {
        shoal_on_load(w->shoal, load, w);
        allocations = w->number == victim ? 1 : 0;
    } else {
        elastic_sleep_ms(1);
        atomic_store(&w->word->flag, (uint32_t)allocations);
    }
}

static const struct elastic_plan plan = {.steps = 60, .values = 300, .at_step = count_allocations};

/* The victim is a member of the first group (0 takes the state from the daemon and hands it on, 1 gets it), or joins (2). Returns
 * whether it lived. */
static bool run_out(size_t who, size_t at)
{
    struct elastic_run run;
    victim = who;
    fails_at = at;
    uint32_t first = who == 2 ? 2 : 3;
    elastic_begin(&run, &plan, first);
    run.daemon.checkpoint = calloc(plan.values, sizeof(float)); /* the daemon frees it */
    run.daemon.checkpoint_bytes = plan.values * sizeof(float);
    assert_non_null(run.daemon.checkpoint);
    elastic_fork(&run, 0, first);
    if (who == 2) {
        elastic_wait(&run.words[0].applied, 3);
        elastic_fork(&run, 2, 3);
    }
    bool lives = elastic_wait_end(&run, (uint32_t)who) == 0;
    if (!lives) {
        assert_int_equal(run.words[who].result, ERR_MEMORY);
        assert_non_null(strstr(run.words[who].error, "no memory "));
        assert_true(fake_daemon_wait(&run.daemon, &run.daemon.open_count, 3)); /* all are let in */
        (void)pthread_mutex_lock(&run.daemon.mutex);
        run.daemon.size = 2; /* if it ended before there was a group, the first one is smaller */
        (void)pthread_mutex_unlock(&run.daemon.mutex);
        fake_daemon_let_form(&run.daemon);
    }
    for (uint32_t number = 0; number < 3; number++) {
        if (number != who) {
            elastic_assert_done(&run, number);
        }
    }
    elastic_end(&run);
    return lives;
}

static void run_out_everywhere(size_t who)
{
    size_t at = 1;
    while (!run_out(who, at)) {
        at++;
    }
    assert_true(at > 5); /* requests, answers, buffers, the roll call */
}

static void test_who_takes_the_state_from_the_daemon_ends_alone(void **state)
{
    (void)state;
    run_out_everywhere(0);
}

static void test_who_gets_the_state_from_a_member_ends_alone(void **state)
{
    (void)state;
    run_out_everywhere(1);
}

static void test_who_joins_ends_alone(void **state)
{
    (void)state;
    run_out_everywhere(2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_takes_the_state_from_the_daemon_ends_alone),
        cmocka_unit_test(test_who_gets_the_state_from_a_member_ends_alone),
        cmocka_unit_test(test_who_joins_ends_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
