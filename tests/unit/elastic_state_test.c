/* The state of a group on its way from one worker to another when the one who hands it on is gone: who has been behind has
 * none any more, and who had it already has it still. */
#include "tests/unit/elastic_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/err.h"
#include "train/group/shm/inside.h"
#include "train/group/tcp/inside.h"

#define VALUES 400000
#define SAVED_STEP 8 /* of the checkpoint */
#define SLEEP_STEP 10 /* the last worker is left behind before it */
#define HAND_STEP 20 /* it comes back while the others are about to make it */

int __real_tcp_push(struct tcp_group *group);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
int __real_shm_phase(struct shm_group *group);
int __wrap_tcp_push(struct tcp_group *group);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
int __real_shoal_step_begin(struct shoal *shoal, uint64_t *step);
int __wrap_shm_phase(struct shm_group *group);
int __wrap_shoal_step_begin(struct shoal *shoal, uint64_t *step);

/* ---- rank 0 is gone in the midst of the state ---- */

static bool is_doomed; /* from HAND_STEP on, in worker 0 */
static _Atomic uint32_t *scene; /* worker 0's flag: how far the story is */
enum { WORKS, COMES_BACK, IS_DYING, IS_DEAD };
static const struct tcp_group *pushing;
static unsigned pushes, phases;

int __wrap_tcp_push(struct tcp_group *group)
{
    bool is_state = is_doomed && group->plan.kind == PLAN_BROADCAST && group->plan.count == VALUES * sizeof(float);
    pushing = is_state ? group : NULL;
    int result = __real_tcp_push(group);
    pushing = NULL;
    return result;
}

static void wait_for(uint32_t number)
{
    while (atomic_load(scene) < number) {
        elastic_sleep_ms(1);
    }
}

static void die(void)
{
    atomic_store(scene, IS_DYING);
    wait_for(IS_DEAD);
    (void)raise(SIGKILL);
}

/* Some records, and a part of one. */
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    if (pushing != NULL && pushing->outgoing.done == 0 && ++pushes == 6) {
        (void)!send(fd, message->msg_iov[0].iov_base, message->msg_iov[0].iov_len, MSG_NOSIGNAL);
        (void)!send(fd, message->msg_iov[1].iov_base, message->msg_iov[1].iov_len / 2, MSG_NOSIGNAL);
        die();
    }
    return __real_sendmsg(fd, message, flags);
}

int __wrap_shm_phase(struct shm_group *group)
{
    bool is_state = is_doomed && group->words[COUNT] == VALUES * sizeof(float) && (group->words[WHAT] & 0xff) == PLAN_BROADCAST;
    if (is_state && ++phases == 3) {
        die();
    }
    return __real_shm_phase(group);
}

/* ---- the program ---- */

static struct saved {
    bool is_there;
    int last_error; /* of the save of a worker that was asked to stop in no group */
    int last_flush; /* then */
    float state[VALUES];
} *saved; /* the checkpoint, shared by all workers of a test */

int __wrap_shoal_step_begin(struct shoal *shoal, uint64_t *step)
{
    int result = __real_shoal_step_begin(shoal, step);
    if (result == SHOAL_STOP) {
        saved->last_error = shoal_checkpoint_save(shoal, SLEEP_STEP, "state", 5);
        saved->last_flush = shoal_flush(shoal, 20000);
    }
    return result;
}

static int load(void *context, uint64_t *step)
{
    struct elastic_worker *w = context;
    if (saved->is_there) {
        memcpy(w->state, saved->state, sizeof saved->state);
    }
    *step = saved->is_there ? SAVED_STEP : 0;
    return 0;
}

static bool is_saving = true; /* a checkpoint at SAVED_STEP */
static uint32_t last; /* worker: the one that is left behind */

static void live(struct elastic_worker *w, uint64_t step)
{
    if (step == UINT64_MAX) {
        shoal_on_load(w->shoal, load, w);
    } else if (is_saving && w->number == 0 && step == SAVED_STEP) {
        memcpy(saved->state, w->state, sizeof saved->state);
        saved->is_there = true;
    } else if (w->number == last && step == SLEEP_STEP && atomic_exchange(&w->word->flag, 1) == 0) {
        (void)raise(SIGSTOP);
    } else if (w->number == 0 && step == HAND_STEP) {
        is_doomed = true;
        scene = &w->word->flag;
        wait_for(COMES_BACK);
    }
}

static const struct elastic_plan apart = {.steps = 40, .values = VALUES, .at_step = live};
static const struct elastic_plan packed_apart = {.steps = 40, .values = VALUES, .is_packed = true, .at_step = live};
static const struct elastic_plan packed_together = {.steps = 40, .values = VALUES, .hosts = 1, .is_packed = true, .at_step = live};
static const struct elastic_plan together = {.steps = 40, .values = VALUES, .hosts = 1, .at_step = live};

/* Until worker 0 is gone, as it hands its state to the last one. With `holds` there is no group after that. */
static void lose_the_holder(struct elastic_run *run, const struct elastic_plan *plan, uint32_t size, bool holds)
{
    *saved = (struct saved){0};
    last = size - 1;
    elastic_begin(run, plan, size);
    run->daemon.tells_of_losses = false; /* else it may be told before it has read what was sent */
    elastic_fork(run, 0, size);
    int status;
    assert_int_equal(waitpid(run->pids[last], &status, WUNTRACED), run->pids[last]);
    assert_true(WIFSTOPPED(status));
    fake_daemon_expel(&run->daemon, last, true);
    elastic_wait(&run->words[0].applied, HAND_STEP);
    elastic_signal(run, last, SIGCONT);
    elastic_wait_group_count(run, 2 * size); /* the others after it was left behind, and now it */
    scene = &run->words[0].flag;
    atomic_store(scene, COMES_BACK);
    wait_for(IS_DYING);
    (void)pthread_mutex_lock(&run->daemon.mutex);
    run->daemon.hold_groups = holds;
    (void)pthread_mutex_unlock(&run->daemon.mutex);
    atomic_store(scene, IS_DEAD);
    assert_int_equal(waitpid(run->pids[0], &status, 0), run->pids[0]);
    assert_true(WIFSIGNALED(status));
    run->pids[0] = 0;
}

/* It has been at SLEEP_STEP, and has a part of the state of HAND_STEP: neither counts. */
static void test_a_state_that_came_in_part_is_none(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct elastic_run run;
        lose_the_holder(&run, i == 0 ? &apart : &together, 2, false);
        elastic_assert_done(&run, 1);
        elastic_end(&run);
    }
}

static void test_a_state_that_came_in_part_comes_whole_from_another(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct elastic_run run;
        lose_the_holder(&run, i == 0 ? &apart : &together, 3, false);
        elastic_assert_done(&run, 1);
        elastic_assert_done(&run, 2);
        elastic_end(&run);
    }
}

static void test_a_state_that_came_in_part_is_not_saved(void **state)
{
    (void)state;
    struct elastic_run run;
    lose_the_holder(&run, &apart, 2, true);
    elastic_wait_group_count(&run, 6); /* it waits for the group that does not come */
    fake_daemon_notice(&run.daemon, "stop", 0);
    const char *why = elastic_assert_failed(&run, 1, SHOAL_STOP);
    assert_non_null(strstr(why, "there is no state to save"));
    assert_int_equal(saved->last_error, ERR_CORRUPT);
    assert_int_equal(run.daemon.save_count, 0);
    assert_int_equal(saved->last_flush, 0); /* it waits for that group no more either */
    elastic_end(&run);
}

/* It cannot begin from nothing: its parts are not as they were in the beginning. */
static void test_a_state_that_came_in_part_is_no_beginning(void **state)
{
    (void)state;
    struct elastic_run run;
    is_saving = false;
    lose_the_holder(&run, &apart, 2, false);
    is_saving = true;
    const char *why = elastic_assert_failed(&run, 1, ERR_CORRUPT);
    assert_non_null(strstr(why, "there is no checkpoint"));
    elastic_end(&run);
}

/* The bytes arrive beside the state that the worker has, so it goes on from SLEEP_STEP, without a checkpoint. */
static void test_a_packed_state_that_came_in_part_leaves_the_older_one(void **state)
{
    (void)state;
    is_saving = false;
    for (uint32_t i = 0; i < 2; i++) {
        struct elastic_run run;
        lose_the_holder(&run, i == 0 ? &packed_apart : &packed_together, 2, false);
        elastic_assert_done(&run, 1);
        assert_int_equal(run.words[1].unpacks, 1); /* in the beginning */
        elastic_end(&run);
    }
    is_saving = true;
}

static void test_a_packed_state_that_came_in_part_comes_whole_from_another(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct elastic_run run;
        lose_the_holder(&run, i == 0 ? &packed_apart : &packed_together, 3, false);
        elastic_assert_done(&run, 1);
        elastic_assert_done(&run, 2);
        assert_int_equal(run.words[1].packs, 1);
        assert_int_equal(run.words[2].unpacks, 2);
        elastic_end(&run);
    }
}

static int set_up(void **state)
{
    (void)state;
    saved = mmap(NULL, sizeof *saved, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return saved == MAP_FAILED;
}

static int tear_down(void **state)
{
    (void)state;
    return munmap(saved, sizeof *saved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_state_that_came_in_part_is_none),
        cmocka_unit_test(test_a_state_that_came_in_part_comes_whole_from_another),
        cmocka_unit_test(test_a_state_that_came_in_part_is_not_saved),
        cmocka_unit_test(test_a_state_that_came_in_part_is_no_beginning),
        cmocka_unit_test(test_a_packed_state_that_came_in_part_leaves_the_older_one),
        cmocka_unit_test(test_a_packed_state_that_came_in_part_comes_whole_from_another),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
