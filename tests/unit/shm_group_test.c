/* Groups over shared memory: their sums, their memory, and how ranks meet, strangers among them. What happens when a rank fails or
 * means ill is in shm_faults_test.c. */
#include "train/group/shm/group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/err.h"
#include "base/random.h"
#include "tests/unit/ranks.h"
#include "train/group/reduce_cpu.h"
#include "train/group/shm/memory.h"

/* ---- right sums ---- */

enum { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, KINDS };
enum { GROUP_MEMORY, PROCESS_MEMORY, MIXED_MEMORY, PLACES };

/* What rank brings to case `seed`: ordinary numbers, the same wherever it is asked. */
static void fill(enum element_type type, uint8_t *values, uint64_t count, uint32_t rank, uint64_t seed)
{
    enum { PERIOD = 509 };
    struct random random;
    random_init_stream(&random, seed, rank);
    uint8_t table[PERIOD * sizeof(float)];
    size_t each = element_type_bytes(type);
    for (size_t i = 0; i < PERIOD; i++) {
        float value = (float)(random_double(&random) - 0.5) * 10.0f;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        if (type == ELEMENT_F16) {
            bits = 0x3000 + (uint32_t)random_below(&random, 0x1400) + (uint32_t)random_below(&random, 2) * 0x8000;
        } else if (type == ELEMENT_BF16) {
            bits >>= 16;
        }
        uint16_t half = (uint16_t)bits;
        memcpy(table + i * each, each == sizeof half ? (const void *)&half : (const void *)&bits, each);
    }
    for (uint64_t i = 0; i < count; i += PERIOD) {
        memcpy(values + i * each, table, (count - i < PERIOD ? count - i : PERIOD) * each);
    }
}

/* For check_case, of arrays of so many elements at most: what all ranks bring, and what comes of it. It is used again and again,
 * since memory that is touched first costs most, with a sanitizer's shadow beside it. The caller frees it. */
static uint8_t *scratch_new(const struct world *w, uint64_t count_max)
{
    return malloc((w->size + 1) * count_max * sizeof(float));
}

/* Checks one collective; what is wrong goes to the rank's error. */
static int check_case(struct world *w, struct shm_group *group, uint32_t rank, int kind, enum element_type type,
                      uint64_t count, int place, uint64_t seed, uint8_t *scratch)
{
    size_t each = element_type_bytes(type), bytes = count * each, offset = (seed % 3 == 0 ? 0 : seed % 17) * each;
    bool in_group = place == GROUP_MEMORY || (place == MIXED_MEMORY && (rank + seed) % 2 == 0);
    void *memory = NULL;
    uint8_t *all = scratch, *expected = scratch + w->size * bytes;
    int error = in_group ? shm_group_alloc(group, bytes + offset + 1, &memory) : 0;
    if (!in_group) {
        memory = malloc(bytes + offset + 1);
    }
    if (error != 0 || memory == NULL) {
        return ERR_MEMORY;
    }
    uint8_t *values = (uint8_t *)memory + offset;
    const void *sources[RANKS_MAX];
    for (uint32_t i = 0; i < w->size; i++) {
        fill(type, all + i * bytes, count, i, seed);
        sources[i] = all + i * bytes;
    }
    memcpy(values, sources[rank], bytes);
    uint64_t begin = 0, end = count;
    uint32_t root = (uint32_t)(seed % w->size);
    if (kind == ALL_REDUCE || kind == REDUCE_SCATTER) {
        void *to = expected;
        reduce_sum(reduce_cpu_best(), type, sources, w->size, &to, 1, count);
    }
    if (kind == ALL_REDUCE) {
        error = shm_group_all_reduce(group, type, values, count);
    } else if (kind == REDUCE_SCATTER) {
        begin = count * rank / w->size;
        end = count * (rank + 1) / w->size;
        error = shm_group_reduce_scatter(group, type, values, count);
    } else if (kind == ALL_GATHER) {
        for (uint32_t i = 0; i < w->size; i++) {
            uint64_t from = count * i / w->size, to = count * (i + 1) / w->size;
            memcpy(expected + from * each, all + i * bytes + from * each, (to - from) * each);
        }
        error = shm_group_all_gather(group, type, values, count);
    } else {
        memcpy(expected, sources[root], bytes);
        error = shm_group_broadcast(group, values, bytes, root);
    }
    if (error == 0 && w->size > 1 && memcmp(values + begin * each, expected + begin * each, (end - begin) * each) != 0) {
        (void)snprintf(w->ranks[rank].error, SHM_GROUP_ERROR_BYTES, "kind %d type %d count %llu place %d: wrong on rank %u",
                       kind, (int)type, (unsigned long long)count, place, rank);
        error = ERR_CORRUPT;
    }
    if (in_group) {
        shm_group_free(group, memory);
    } else {
        free(memory);
    }
    return error;
}

static int body_all_cases(struct world *w, struct shm_group *group, uint32_t rank)
{
    static const uint64_t counts[] = {0, 1, 2, 7, 9, 17, 63, 65, 255, 1024, 4097, 8192, 16384, 50001, 140001};
    static const enum element_type types[] = {ELEMENT_F32, ELEMENT_F16, ELEMENT_BF16};
    uint64_t seed = 0;
    uint8_t *scratch = scratch_new(w, 140001);
    int error = scratch == NULL ? ERR_MEMORY : 0;
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        for (int kind = 0; kind < KINDS; kind++) {
            for (size_t t = 0; t < 3; t++) {
                for (int place = 0; place < PLACES && error == 0; place++) {
                    error = check_case(w, group, rank, kind, types[t], counts[c], place, seed++, scratch);
                }
            }
        }
        error = error == 0 ? shm_group_barrier(group) : error;
    }
    free(scratch);
    return error;
}

static void test_collectives_equal_the_reference_on_every_rank(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 4, 8};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        struct world *w = world_of_memory(sizes[s], body_all_cases);
        world_fork(w);
        world_wait(w);
        assert_all_well(w);
        world_end(&w);
    }
}

static int body_large(struct world *w, struct shm_group *group, uint32_t rank)
{
    uint8_t *scratch = scratch_new(w, 2200003);
    int error = scratch == NULL ? ERR_MEMORY : 0;
    for (int kind = 0; kind < KINDS; kind++) {
        for (int place = 0; place < PLACES && error == 0; place++) {
            error = check_case(w, group, rank, kind, ELEMENT_F32, 2200003, place, (uint64_t)kind + 5, scratch);
        }
    }
    free(scratch);
    return error;
}

static void test_arrays_larger_than_the_caches(void **state)
{
    (void)state;
    struct world *w = world_of_memory(3, body_large);
    world_fork(w);
    world_wait(w);
    assert_all_well(w);
    world_end(&w);
}

static int body_threads(struct world *w, struct shm_group *group, uint32_t rank)
{
    static const uint64_t counts[] = {0, 1, 1000, 5000, 90001};
    uint8_t *scratch = scratch_new(w, 90001);
    int error = scratch == NULL ? ERR_MEMORY : 0;
    uint64_t seed = 0;
    for (int round = 0; round < 4; round++) {
        for (size_t c = 0; c < 5; c++) {
            for (int kind = 0; kind < KINDS; kind++) {
                for (int place = 0; place < PLACES && error == 0; place++) {
                    error = check_case(w, group, rank, kind, ELEMENT_BF16, counts[c], place, seed++, scratch);
                }
            }
        }
    }
    free(scratch);
    return error;
}

static void test_ranks_may_be_threads_of_one_process(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 3; size++) {
        struct world *w = world_of_memory(size, body_threads);
        world_threads(w);
        assert_all_well(w);
        world_end(&w);
    }
}

/* One collective after the other without a pause, and uneven work between them: who is late, sleeps or spins changes all
 * the time. */
static int body_restless(struct world *w, struct shm_group *group, uint32_t rank)
{
    struct random random;
    random_init_stream(&random, 11, rank);
    void *memory;
    int error = shm_group_alloc(group, 20000 * sizeof(float), &memory);
    float *values = memory;
    for (uint32_t round = 0; round < 400 && error == 0; round++) {
        uint64_t count = round % 7 == 0 ? 20000 : round % 50;
        for (uint64_t i = 0; i < count; i++) {
            values[i] = (float)(rank + round + i);
        }
        if (random_below(&random, 40) == 0) {
            sleep_ms((long)random_below(&random, 4));
        }
        error = shm_group_all_reduce(group, ELEMENT_F32, values, count);
        for (uint64_t i = 0; i < count && error == 0; i++) {
            uint64_t sum = w->size * (round + i) + w->size * (w->size - 1) / 2;
            error = values[i] == (float)sum ? 0 : ERR_CORRUPT;
        }
    }
    return error;
}

static void test_more_ranks_than_processors_and_uneven_work(void **state)
{
    (void)state;
    struct world *w = world_of_memory(8, body_restless);
    world_fork(w);
    world_wait(w);
    assert_all_well(w);
    world_end(&w);
}

/* ---- memory ---- */

static int body_allocations(struct world *w, struct shm_group *group, uint32_t rank)
{
    void *memory[SHM_GROUP_ALLOCATIONS_MAX + 1];
    int error = shm_group_alloc(group, 0, &memory[0]) == ERR_USAGE ? 0 : ERR_CORRUPT;
    /* As many as there may be, each used, then freed; ranks free in another order and not all of them. */
    for (int round = 0; round < 3 && error == 0; round++) {
        for (size_t i = 0; i < SHM_GROUP_ALLOCATIONS_MAX && error == 0; i++) {
            error = shm_group_alloc(group, 40000 + 100 * i, &memory[i]);
            if (error == 0) {
                ((float *)memory[i])[9999] = (float)(rank + i);
                error = shm_group_all_reduce(group, ELEMENT_F32, memory[i], 10000);
            }
            float sum = (float)(w->size * i + w->size * (w->size - 1) / 2);
            if (error == 0 && (((float *)memory[i])[9999] != sum || ((float *)memory[i])[0] != 0.0f)) {
                error = ERR_CORRUPT;
            }
        }
        if (error == 0 && shm_group_alloc(group, 1, &memory[SHM_GROUP_ALLOCATIONS_MAX]) != ERR_FULL) {
            error = ERR_CORRUPT;
        }
        for (size_t i = 0; i < SHM_GROUP_ALLOCATIONS_MAX; i++) {
            shm_group_free(group, memory[rank % 2 == 0 ? i : SHM_GROUP_ALLOCATIONS_MAX - 1 - i]);
        }
    }
    shm_group_free(group, NULL);
    return error;
}

static void test_memory_is_handed_over_and_let_go_again_and_again(void **state)
{
    (void)state;
    struct world *w = world_of_memory(3, body_allocations);
    world_fork(w);
    world_wait(w);
    assert_all_well(w);
    world_end(&w);
}

static int body_usage(struct world *w, struct shm_group *group, uint32_t rank)
{
    (void)rank;
    float values[2] = {1, 1};
    bool refused = shm_group_all_reduce(group, ELEMENT_F32, (uint8_t *)values + 1, 1) == ERR_USAGE &&
                   shm_group_all_reduce(group, (enum element_type)9, values, 1) == ERR_USAGE &&
                   shm_group_broadcast(group, values, 4, w->size) == ERR_USAGE;
    int error = shm_group_all_reduce(group, ELEMENT_F32, values, 2); /* the group is as good as before */
    return error != 0 ? error : refused && values[1] == 2.0f ? 0 : ERR_CORRUPT;
}

static void test_wrong_arguments_leave_the_group_as_it_is(void **state)
{
    (void)state;
    struct world *w = world_of_memory(2, body_usage);
    world_fork(w);
    world_wait(w);
    assert_all_well(w);
    world_end(&w);
}

/* ---- meeting ---- */

static int body_sum(struct world *w, struct shm_group *group, uint32_t rank)
{
    float value = (float)rank;
    int error = shm_group_all_reduce(group, ELEMENT_F32, &value, 1);
    return error != 0 || value == (float)(w->size * (w->size - 1) / 2) ? error : ERR_CORRUPT;
}

static void test_another_key_generation_or_member_list_never_meets(void **state)
{
    (void)state;
    for (int what = 0; what < 4; what++) {
        struct world *w = world_of_memory(2, body_sum);
        world_set_timeouts(w, 700, LONG_MS);
        struct shm_group_member others[RANKS_MAX];
        memcpy(others, w->members, sizeof others);
        if (what == 0) {
            w->options[1].key[31] ^= 1;
        } else if (what == 1) {
            w->options[1].generation++;
        } else if (what == 2) {
            w->options[1].group = "0011223344556677/4/2";
        } else {
            strcpy(others[1].name, "another");
            w->options[1].members = others;
        }
        world_fork(w);
        world_wait(w);
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(w->ranks[i].open_result, ERR_TIMEOUT);
            assert_non_null(strstr(w->ranks[i].open_error, "did not meet rank"));
        }
        world_end(&w);
    }
}

static int connect_to(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "shoal-group/%s", name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    if (connect(fd, (struct sockaddr *)&address, bytes) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* Some say nothing, some send noise of a hello's length and of others, some hand over descriptors, some leave at once. */
static void test_strangers_do_not_keep_the_real_ranks_out(void **state)
{
    (void)state;
    struct world *w = world_of_memory(3, body_sum);
    struct random random;
    random_init(&random, 4);
    int strangers[100];
    /* The queue of rank 0 is full of them before it begins to listen to anybody. */
    assert_int_equal(shm_group_listen(w->members[0].name, &w->listeners[0]), 0);
    for (size_t i = 0; i < 100; i++) {
        strangers[i] = connect_to(w->members[0].name);
        assert_true(strangers[i] >= 0);
        uint8_t noise[300];
        for (size_t k = 0; k < sizeof noise; k++) {
            noise[k] = (uint8_t)random_u64(&random);
        }
        memcpy(noise, "SHOALSM1", 8);
        if (i % 5 == 0) {
            (void)close(strangers[i]);
            strangers[i] = -1;
        } else if (i % 5 < 4) {
            (void)shm_message_send(strangers[i], noise, i % 5 == 1 ? 120 : i * 3, i % 2 == 0 ? w->listeners[0] : -1);
        }
    }
    world_fork(w);
    world_wait(w);
    assert_all_well(w);
    assert_true(w->ranks[0].refused > 0);
    for (size_t i = 0; i < 100; i++) {
        if (strangers[i] >= 0) {
            (void)close(strangers[i]);
        }
    }
    world_end(&w);
}

static void test_names_are_found_while_somebody_listens(void **state)
{
    (void)state;
    char name[SHM_GROUP_NAME_BYTES], too_long[SHM_GROUP_NAME_BYTES + 1];
    int fd, other = -1;
    (void)snprintf(name, sizeof name, "probe-%d", getpid());
    memset(too_long, 'x', SHM_GROUP_NAME_BYTES);
    too_long[SHM_GROUP_NAME_BYTES] = 0;
    assert_false(shm_group_probe(name));
    assert_int_equal(shm_group_listen(name, &fd), 0);
    assert_true(shm_group_probe(name));
    assert_int_equal(shm_group_listen(name, &other), ERR_EXISTS);
    (void)close(fd);
    assert_false(shm_group_probe(name));
    assert_int_equal(shm_group_listen("", &other), ERR_USAGE);
    assert_int_equal(shm_group_listen(too_long, &other), ERR_USAGE);
    assert_false(shm_group_probe(too_long));
    assert_int_equal(other, -1);
}

/* ---- messages ---- */

static void test_messages_have_one_length_and_one_descriptor_at_most(void **state)
{
    (void)state;
    int ends[2], fd;
    uint8_t bytes[64] = {0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    assert_int_equal(shm_message_receive(ends[1], bytes, 16, &fd, NULL), ERR_AGAIN);
    for (size_t length = 1; length <= 64; length++) {
        assert_int_equal(shm_message_send(ends[0], bytes, length, length % 2 == 0 ? ends[0] : -1), 0);
        int result = shm_message_receive(ends[1], bytes, 16, &fd, NULL);
        assert_int_equal(result, length == 16 ? 0 : ERR_MALFORMED);
        if (result == 0) {
            assert_true(fd >= 0);
            (void)close(fd);
        }
    }
    assert_int_equal(shm_message_send(ends[0], bytes, 16, ends[0]), 0);
    assert_int_equal(shm_message_receive(ends[1], bytes, 16, NULL, NULL), ERR_MALFORMED);

    int sender = -1;
    assert_int_equal(shm_message_send(ends[0], bytes, 16, -1), 0);
    assert_int_equal(shm_message_receive(ends[1], bytes, 16, NULL, &sender), 0);
    assert_int_equal(sender, 0); /* nobody has asked for it */
    assert_int_equal(shm_message_want_sender(ends[1]), 0);
    assert_int_equal(shm_message_send(ends[0], bytes, 16, ends[0]), 0);
    assert_int_equal(shm_message_receive(ends[1], bytes, 16, &fd, &sender), 0);
    assert_int_equal(sender, getpid());
    (void)close(fd);

    /* Several at once: none of them stays open. */
    int before = dup(0);
    (void)close(before);
    union {
        struct cmsghdr header;
        uint8_t space[CMSG_SPACE(4 * sizeof(int))];
    } control = {0};
    struct iovec part = {.iov_base = bytes, .iov_len = 16};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&packet);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(4 * sizeof(int));
    for (size_t i = 0; i < 4; i++) {
        memcpy(CMSG_DATA(header) + i * sizeof(int), &ends[0], sizeof(int));
    }
    assert_int_equal(sendmsg(ends[0], &packet, 0), 16);
    assert_int_equal(shm_message_receive(ends[1], bytes, 16, &fd, NULL), ERR_MALFORMED);
    int after = dup(0);
    (void)close(after);
    assert_int_equal(after, before);

    (void)close(ends[0]);
    assert_int_equal(shm_message_receive(ends[1], bytes, 16, &fd, NULL), ERR_CLOSED);
    assert_int_equal(shm_message_send(ends[1], bytes, 16, -1), ERR_CLOSED);
    (void)close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_collectives_equal_the_reference_on_every_rank),
        cmocka_unit_test(test_arrays_larger_than_the_caches),
        cmocka_unit_test(test_ranks_may_be_threads_of_one_process),
        cmocka_unit_test(test_more_ranks_than_processors_and_uneven_work),
        cmocka_unit_test(test_memory_is_handed_over_and_let_go_again_and_again),
        cmocka_unit_test(test_wrong_arguments_leave_the_group_as_it_is),
        cmocka_unit_test(test_another_key_generation_or_member_list_never_meets),
        cmocka_unit_test(test_strangers_do_not_keep_the_real_ranks_out),
        cmocka_unit_test(test_names_are_found_while_somebody_listens),
        cmocka_unit_test(test_messages_have_one_length_and_one_descriptor_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
