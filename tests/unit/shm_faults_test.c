/* Groups over shared memory whose ranks fail, are told that the group is over, or mean ill. */
#include "train/group/shm/group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/err.h"
#include "tests/unit/ranks.h"
#include "train/group/shm/meet.h"
#include "train/group/shm/memory.h"

/* ---- ranks that fail ---- */

static int body_until_error(struct world *w, struct shm_group *group, uint32_t rank)
{
    static float values[100000];
    void *memory;
    int error = shm_group_alloc(group, sizeof values, &memory);
    while (error == 0) {
        int turn = atomic_fetch_add(&w->ranks[rank].progress, 1);
        error = shm_group_all_reduce(group, ELEMENT_F32, turn % 3 == 0 ? values : memory, turn % 2 == 0 ? 100000 : 10);
    }
    return error == shm_group_barrier(group) ? error : ERR_USAGE; /* it stays broken */
}

static void test_a_killed_rank_ends_the_others(void **state)
{
    (void)state;
    for (int when = 10; when <= 50; when += 8) {
        struct world *w = world_of_memory(4, body_until_error);
        world_fork(w);
        while (atomic_load(&w->ranks[1].progress) < when) {
            sleep_ms(1);
        }
        assert_int_equal(kill(w->processes[1], SIGKILL), 0);
        uint64_t killed_ms = clock_ms();
        world_wait(w);
        assert_true(clock_ms() - killed_ms < SOON_MS); /* not the stall timeout */
        bool named = false;
        for (uint32_t i = 0; i < 4; i++) {
            if (i != 1) {
                assert_int_equal(w->ranks[i].result, ERR_CLOSED);
                named = named || strstr(w->ranks[i].error, "lost rank 1: its process has ended") != NULL;
            }
        }
        assert_true(named);
        world_end(&w);
    }
}

static int body_forks(struct world *w, struct shm_group *group, uint32_t rank)
{
    if (rank == 1) {
        pid_t child = fork(); /* such as one that loads data: it has the sockets too, and outlives its parent */
        if (child == 0) {
            while (atomic_load(&w->go) == 0) {
                sleep_ms(1);
            }
            _exit(0);
        }
    }
    return body_until_error(w, group, rank);
}

static void test_a_killed_rank_is_noticed_while_its_children_live(void **state)
{
    (void)state;
    struct world *w = world_of_memory(2, body_forks);
    world_fork(w);
    while (atomic_load(&w->ranks[1].progress) < 3) {
        sleep_ms(1);
    }
    assert_int_equal(kill(w->processes[1], SIGKILL), 0);
    world_wait(w);
    assert_int_equal(w->ranks[0].result, ERR_CLOSED);
    assert_non_null(strstr(w->ranks[0].error, "lost rank 1"));
    atomic_store(&w->go, 1);
    world_end(&w);
}

static int body_stopped(struct world *w, struct shm_group *group, uint32_t rank)
{
    (void)w;
    float value = 1;
    int error = shm_group_all_reduce(group, ELEMENT_F32, &value, 1);
    if (rank == 0) {
        shm_group_set_timeout(group, 300);
    } else if (rank == 1 && error == 0) {
        (void)raise(SIGSTOP);
    }
    return error != 0 ? error : shm_group_all_reduce(group, ELEMENT_F32, &value, 1);
}

static void test_a_rank_that_stops_is_a_timeout(void **state)
{
    (void)state;
    struct world *w = world_of_memory(3, body_stopped);
    world_fork(w);
    world_wait_for(w, 0);
    world_wait_for(w, 2);
    assert_int_equal(kill(w->processes[1], SIGCONT), 0);
    world_wait_for(w, 1);
    assert_int_equal(w->ranks[0].result, ERR_TIMEOUT);
    assert_non_null(strstr(w->ranks[0].error, "rank 1 did not come within 300 ms"));
    assert_int_equal(w->ranks[2].result, ERR_CLOSED);
    assert_int_equal(w->ranks[1].result, ERR_CLOSED);
    world_end(&w);
}

static int body_leaves(struct world *w, struct shm_group *group, uint32_t rank)
{
    (void)w;
    float value = 1;
    int error = shm_group_all_reduce(group, ELEMENT_F32, &value, 1);
    return error != 0 || rank == 2 ? error : shm_group_all_reduce(group, ELEMENT_F32, &value, 1);
}

static void test_a_rank_that_leaves_ends_the_others_next_collective(void **state)
{
    (void)state;
    struct world *w = world_of_memory(3, body_leaves);
    world_fork(w);
    world_wait(w);
    assert_int_equal(w->ranks[2].result, 0);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(w->ranks[i].result, ERR_CLOSED);
        assert_true(w->ranks[i].took_ms < SOON_MS);
    }
    world_end(&w);
}

static int body_differs(struct world *w, struct shm_group *group, uint32_t rank)
{
    static float values[60000];
    bool odd = rank == 1;
    int error = 0;
    switch (w->variant) {
    case 0:
        error = shm_group_all_reduce(group, ELEMENT_F32, values, odd ? 999 : 1000);
        break;
    case 1:
        error = shm_group_all_reduce(group, ELEMENT_F32, values, odd ? 60000 : 5);
        break;
    case 2:
        error = shm_group_all_reduce(group, odd ? ELEMENT_F16 : ELEMENT_BF16, values, 1000);
        break;
    case 3:
        error = odd ? shm_group_barrier(group) : shm_group_all_reduce(group, ELEMENT_F32, values, 0);
        break;
    case 4:
        error = shm_group_broadcast(group, values, 50000, odd ? 0 : 2);
        break;
    case 5:
        error = odd ? shm_group_all_gather(group, ELEMENT_F32, values, 60000)
                    : shm_group_reduce_scatter(group, ELEMENT_F32, values, 60000);
        break;
    }
    return error == shm_group_barrier(group) ? error : ERR_USAGE;
}

static void test_ranks_that_call_different_collectives_are_an_error_on_all(void **state)
{
    (void)state;
    for (int variant = 0; variant < 6; variant++) {
        struct world *w = world_of_memory(3, body_differs);
        w->variant = variant;
        world_fork(w);
        world_wait(w);
        bool named = false;
        for (uint32_t i = 0; i < 3; i++) {
            assert_true(w->ranks[i].result == ERR_MALFORMED || w->ranks[i].result == ERR_CLOSED);
            assert_true(w->ranks[i].took_ms < SOON_MS);
            named = named || (strstr(w->ranks[i].error, "rank 1 is in operation 1") != NULL &&
                              strstr(w->ranks[i].error, "same counts") != NULL);
        }
        assert_true(named);
        world_end(&w);
    }
}

/* ---- revoking ---- */

static int body_revoked(struct world *w, struct shm_group *group, uint32_t rank)
{
    atomic_fetch_add(&w->go, rank == 0);
    int error = rank == 0 ? shm_group_barrier(group) : 0; /* to which rank 1 does not come before it has ended */
    atomic_fetch_add(&w->go, rank == 0);
    while (atomic_load(&w->go) < 2) {
        sleep_ms(1);
    }
    return rank == 0 ? error : shm_group_barrier(group);
}

static void test_revoking_one_rank_ends_the_group_for_all(void **state)
{
    (void)state;
    static const int delays[] = {0, 1, 100}; /* by then it sleeps, or spins, or has not begun to wait: right in any case */
    for (size_t d = 0; d < 3; d++) {
        struct world *w = world_of_memory(2, body_revoked);
        struct revoke revoke;
        assert_int_equal(revoke_open(&revoke), 0);
        w->options[0].revoke = &revoke;
        world_thread(w, 0);
        world_thread(w, 1);
        while (atomic_load(&w->go) < 1) {
            sleep_ms(1);
        }
        sleep_ms(delays[d]);
        revoke_set(&revoke);
        world_join(w, 0);
        world_join(w, 1);
        assert_int_equal(w->ranks[0].result, ERR_CLOSED);
        assert_non_null(strstr(w->ranks[0].error, "told that its group is over"));
        assert_int_equal(w->ranks[1].result, ERR_CLOSED);
        assert_non_null(strstr(w->ranks[1].error, "rank 0 has given up the group"));
        assert_true(w->ranks[0].took_ms < SOON_MS);
        revoke_close(&revoke);
        world_end(&w);
    }
}

static void say_it(void *context)
{
    revoke_set(context);
}

/* The descriptor that brings the word is looked at while rank 0 waits. */
static void test_the_word_comes_by_a_descriptor_while_a_rank_waits(void **state)
{
    (void)state;
    struct world *w = world_of_memory(2, body_revoked);
    struct revoke revoke;
    int pipe_fds[2];
    assert_int_equal(revoke_open(&revoke), 0);
    assert_int_equal(pipe(pipe_fds), 0);
    revoke.watch_fd = pipe_fds[0];
    revoke.watch = say_it;
    revoke.context = &revoke;
    w->options[0].revoke = &revoke;
    world_thread(w, 0);
    world_thread(w, 1);
    while (atomic_load(&w->go) < 1) {
        sleep_ms(1);
    }
    assert_int_equal(write(pipe_fds[1], "x", 1), 1);
    world_join(w, 0);
    world_join(w, 1);
    assert_int_equal(w->ranks[0].result, ERR_CLOSED);
    assert_int_equal(w->ranks[1].result, ERR_CLOSED);
    (void)close(pipe_fds[0]);
    (void)close(pipe_fds[1]);
    revoke_close(&revoke);
    world_end(&w);
}

static void test_revoking_ends_the_opening_too(void **state)
{
    (void)state;
    struct world *w = world_of_memory(2, NULL);
    struct revoke revoke;
    assert_int_equal(revoke_open(&revoke), 0);
    w->options[0].revoke = &revoke;
    world_thread(w, 0); /* rank 1 never comes */
    sleep_ms(20);
    revoke_set(&revoke);
    world_join(w, 0);
    assert_int_equal(w->ranks[0].open_result, ERR_CLOSED);
    assert_non_null(strstr(w->ranks[0].open_error, "told that its group is over"));
    revoke_close(&revoke);
    world_end(&w);
}

/* ---- hostile members: they know the key ---- */

#define HOSTILE_COUNT 100000

static int body_meets_hostile(struct world *w, struct shm_group *group, uint32_t rank)
{
    (void)w, (void)rank;
    static float values[HOSTILE_COUNT];
    return shm_group_all_reduce(group, ELEMENT_F32, values, HOSTILE_COUNT);
}

static int plain_memfd(size_t bytes, bool sealed)
{
    int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    if (sealed) {
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    }
    return fd;
}

static void met_end(struct shm_met *met)
{
    (void)close(met->socket);
    (void)close(met->area);
    (void)close(met->process);
}

static void test_an_area_that_could_shrink_is_refused(void **state)
{
    (void)state;
    for (int what = 0; what < 3; what++) {
        struct world *w = world_of_memory(2, body_meets_hostile);
        world_thread(w, 0);
        int area = what == 0 ? plain_memfd(1024 * 1024, false) : what == 1 ? plain_memfd(4096, true) : open("/dev/zero", O_RDWR);
        struct shm_met met[SHM_GROUP_RANKS_MAX];
        uint32_t refused = 0;
        char error[SHM_GROUP_ERROR_BYTES];
        assert_int_equal(shm_meet(&w->options[1], -1, area, met, &refused, error), 0);
        if (what == 0) { /* of the right length, so that nothing but the seal is wrong */
            struct stat status;
            assert_int_equal(fstat(met[0].area, &status), 0);
            world_join(w, 0);
            assert_int_equal(w->ranks[0].open_result, ERR_MALFORMED);
            (void)close(area);
            met_end(&met[0]);
            w->ranks[0] = (struct rank){0};
            world_thread(w, 0);
            area = plain_memfd((size_t)status.st_size, false);
            assert_int_equal(shm_meet(&w->options[1], -1, area, met, &refused, error), 0);
        }
        world_join(w, 0);
        assert_int_equal(w->ranks[0].open_result, ERR_MALFORMED);
        assert_non_null(strstr(w->ranks[0].open_error, "area of rank 1"));
        (void)close(area);
        met_end(&met[0]);
        world_end(&w);
    }
}

/* The layout of the area's two lines and of the messages, as a hostile member would know them: train/group/shm/group.c. */
struct line {
    _Atomic uint64_t arrived, generation, operation, count, what, offset, segment, unused;
};

struct message {
    uint32_t kind, segment;
    uint64_t bytes;
};

struct hostile {
    const char *expected; /* in the sentence */
    uint64_t offset;
    uint64_t segment, messages; /* as the line says */
    struct message message;
    size_t message_bytes; /* 0: none is sent */
    size_t file_bytes;    /* 0: no descriptor */
    bool sealed;
};

static const struct hostile hostiles[] = {
    {"handed over", 0, 7, 1, {1, 7, 0}, 3, 0, false},                          /* noise */
    {"handed over", 0, 7, 1, {9, 7, 400000}, 16, 400000, true},                /* no such message */
    {"handed over", 0, 7, 1, {1, 7, 400000}, 16, 0, false},                    /* without a descriptor */
    {"handed over", 0, 7, 1, {1, 7, 400000}, 16, 400000, false},               /* could be truncated */
    {"handed over", 0, 7, 1, {1, 7, 400000}, 16, 399999, true},                /* shorter than it says */
    {"handed over", 0, 7, 1, {1, 7, UINT64_MAX}, 16, 400000, true},            /* longer than there is */
    {"handed over", 0, 7, 1, {1, 7, 0}, 16, 400000, true},                     /* of nothing */
    {"handed over", 0, 7, 1, {1, 0, 400000}, 16, 400000, true},                /* with no number */
    {"handed over", 0, 7, 1, {2, 7, 0}, 16, 0, false},                         /* takes back what it never gave */
    {"handed over", 0, 7, 2, {1, 7, 400000}, 16, 400000, true},                /* says that it sent more */
    {"names memory", 0, 8, 1, {1, 7, 400000}, 16, 400000, true},               /* another one */
    {"names memory", 0, 7, 0, {1, 7, 400000}, 0, 0, false},                    /* none at all */
    {"names memory", 4, 7, 1, {1, 7, 400000}, 16, 400000, true},               /* past its end */
    {"names memory", 400004, 7, 1, {1, 7, 400000}, 16, 400000, true},          /* from past its end */
    {"names memory", UINT64_MAX - 3, 7, 1, {1, 7, 400000}, 16, 400000, true},  /* wraps round */
    {"names memory", 2, 7, 1, {1, 7, 500000}, 16, 500000, true},               /* not aligned to its elements */
};

static void run_hostile(const struct hostile *h)
{
    struct world *w = world_of_memory(2, body_meets_hostile);
    world_thread(w, 0);
    struct shm_met met[SHM_GROUP_RANKS_MAX];
    uint32_t refused = 0;
    char error[SHM_GROUP_ERROR_BYTES];
    /* As long as a real one: the length is learnt from a first meeting that fails. */
    int area = plain_memfd(1, true);
    assert_int_equal(shm_meet(&w->options[1], -1, area, met, &refused, error), 0);
    struct stat status;
    assert_int_equal(fstat(met[0].area, &status), 0);
    world_join(w, 0);
    (void)close(area);
    met_end(&met[0]);
    w->ranks[0] = (struct rank){0};

    world_thread(w, 0);
    area = plain_memfd((size_t)status.st_size, true);
    struct line *lines = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, area, 0);
    assert_true(lines != MAP_FAILED);
    int file = h->file_bytes > 0 ? plain_memfd(h->file_bytes, h->sealed) : -1;
    assert_int_equal(shm_meet(&w->options[1], -1, area, met, &refused, error), 0);
    if (h->message_bytes > 0) {
        assert_int_equal(shm_message_send(met[0].socket, &h->message, h->message_bytes, file), 0);
    }
    struct line *line = &lines[1]; /* of phase 1 */
    line->generation = 3;
    line->operation = 1;
    line->count = HOSTILE_COUNT;
    line->what = 1 | 1 << 8; /* all-reduce of float32 */
    line->offset = h->offset;
    line->segment = h->segment << 32 | h->messages;
    line->arrived = 1;
    world_join(w, 0);
    assert_int_equal(w->ranks[0].open_result, 0);
    assert_int_equal(w->ranks[0].result, ERR_MALFORMED);
    assert_non_null(strstr(w->ranks[0].error, h->expected));
    assert_non_null(strstr(w->ranks[0].error, "rank 1"));
    (void)munmap(lines, (size_t)status.st_size);
    if (file >= 0) {
        (void)close(file);
    }
    (void)close(area);
    met_end(&met[0]);
    world_end(&w);
}

static void test_what_a_hostile_member_says_of_its_memory_is_checked(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof hostiles / sizeof hostiles[0]; i++) {
        run_hostile(&hostiles[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_killed_rank_ends_the_others),
        cmocka_unit_test(test_a_killed_rank_is_noticed_while_its_children_live),
        cmocka_unit_test(test_a_rank_that_stops_is_a_timeout),
        cmocka_unit_test(test_a_rank_that_leaves_ends_the_others_next_collective),
        cmocka_unit_test(test_ranks_that_call_different_collectives_are_an_error_on_all),
        cmocka_unit_test(test_revoking_one_rank_ends_the_group_for_all),
        cmocka_unit_test(test_the_word_comes_by_a_descriptor_while_a_rank_waits),
        cmocka_unit_test(test_revoking_ends_the_opening_too),
        cmocka_unit_test(test_an_area_that_could_shrink_is_refused),
        cmocka_unit_test(test_what_a_hostile_member_says_of_its_memory_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
