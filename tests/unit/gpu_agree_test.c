/* How GPU memory travels, by what the ranks say they have. */
#include "train/plan/gpu_agree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const uint32_t one_host[] = {0, 0, 0, 0}, two_hosts[] = {0, 0, 2, 2};

/* Four ranks that all have the same, each its own GPU. */
static void all_well(struct gpu_offer offers[4])
{
    memset(offers, 0, 4 * sizeof offers[0]);
    for (uint32_t rank = 0; rank < 4; rank++) {
        offers[rank].nccl = 22809;
        offers[rank].settings = 7;
        (void)snprintf(offers[rank].bus, sizeof offers[rank].bus, "0000:0%u:00.0", rank);
    }
}

static void assert_reason(const struct gpu_agreement *agreement, enum gpu_reason reason, uint32_t rank, uint32_t other)
{
    assert_int_equal(agreement->reason, reason);
    assert_int_equal(agreement->rank, rank);
    assert_int_equal(agreement->other, other);
    assert_false(agreement->shrinks);
}

static void test_where_all_have_the_same_it_is_nccl(void **state)
{
    (void)state;
    struct gpu_offer offers[4];
    struct gpu_agreement agreement;
    all_well(offers);
    gpu_agree(&agreement, 4, offers, one_host);
    assert_reason(&agreement, GPU_REASON_NONE, 0, 0);
}

static void test_one_who_lacks_something_keeps_all_from_nccl(void **state)
{
    (void)state;
    struct gpu_offer offers[4];
    struct gpu_agreement agreement;
    for (uint8_t lack = GPU_LACKS_GPU; lack <= GPU_LACKS_WORKING_NCCL; lack++) {
        all_well(offers);
        offers[2].lack = lack;
        gpu_agree(&agreement, 4, offers, one_host);
        assert_reason(&agreement, GPU_REASON_LACK, 2, 0);
        assert_int_equal(agreement.lack, lack);
    }
    offers[1].lack = 200; /* of a libshoal that is newer */
    gpu_agree(&agreement, 4, offers, one_host);
    assert_reason(&agreement, GPU_REASON_LACK, 1, 0);
    assert_int_equal(agreement.lack, GPU_LACKS_WORKING_NCCL);
}

static void test_two_who_differ_keep_all_from_nccl(void **state)
{
    (void)state;
    struct gpu_offer offers[4];
    struct gpu_agreement agreement;
    all_well(offers);
    offers[3].nccl = 22703;
    gpu_agree(&agreement, 4, offers, one_host);
    assert_reason(&agreement, GPU_REASON_VERSIONS, 0, 3);
    all_well(offers);
    offers[2].settings = 8;
    gpu_agree(&agreement, 4, offers, one_host);
    assert_reason(&agreement, GPU_REASON_SETTINGS, 0, 2);
    all_well(offers);
    memcpy(offers[3].bus, offers[1].bus, sizeof offers[3].bus);
    gpu_agree(&agreement, 4, offers, one_host);
    assert_reason(&agreement, GPU_REASON_SHARED, 1, 3);
}

static void test_hosts_are_joined_by_nccl_where_all_allow_it(void **state)
{
    (void)state;
    struct gpu_offer offers[4];
    struct gpu_agreement agreement;
    all_well(offers);
    for (uint32_t rank = 0; rank < 4; rank++) {
        offers[rank].allows_plain = rank != 3;
    }
    gpu_agree(&agreement, 4, offers, two_hosts);
    assert_reason(&agreement, GPU_REASON_HOSTS, 0, 3);
    offers[3].allows_plain = 1;
    memcpy(offers[3].bus, offers[1].bus, sizeof offers[3].bus); /* of another host */
    gpu_agree(&agreement, 4, offers, two_hosts);
    assert_reason(&agreement, GPU_REASON_NONE, 0, 0);
}

static void test_a_communicator_that_all_have_is_made_smaller(void **state)
{
    (void)state;
    static const struct {
        uint32_t ranks[4], size, before;
        uint64_t odd; /* what the last one calls it */
        bool shrinks;
        uint32_t excluded[4], excluded_count;
    } cases[] = {
        {{0, 1, 3}, 3, 4, 5, true, {2}, 1},
        {{1, 4}, 2, 6, 5, true, {0, 2, 3, 5}, 4},
        {{0, 1, 2}, 3, 3, 5, false, {0}, 0}, /* nobody to leave out */
        {{0, 3, 1}, 3, 4, 5, false, {0}, 0}, /* another order */
        {{0, 1, 1}, 3, 4, 5, false, {0}, 0},
        {{0, 1, 4}, 3, 4, 5, false, {0}, 0}, /* no such rank */
        {{0, 1, 3}, 3, 4, 6, false, {0}, 0}, /* another communicator */
        {{0, 1, 3}, 3, 4, 0, false, {0}, 0}, /* none */
        {{0, 1, 270}, 3, 300, 5, false, {0}, 0}, /* more than a group has */
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct gpu_offer offers[4];
        struct gpu_agreement agreement;
        all_well(offers);
        for (uint32_t rank = 0; rank < cases[c].size; rank++) {
            offers[rank].earlier = rank + 1 == cases[c].size ? cases[c].odd : 5;
            offers[rank].earlier_rank = cases[c].ranks[rank];
            offers[rank].earlier_size = cases[c].before;
        }
        gpu_agree(&agreement, cases[c].size, offers, one_host);
        assert_int_equal(agreement.reason, GPU_REASON_NONE);
        assert_int_equal(agreement.shrinks, cases[c].shrinks);
        assert_int_equal(agreement.excluded_count, cases[c].excluded_count);
        assert_memory_equal(agreement.excluded, cases[c].excluded, cases[c].excluded_count * sizeof(uint32_t));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where_all_have_the_same_it_is_nccl),
        cmocka_unit_test(test_one_who_lacks_something_keeps_all_from_nccl),
        cmocka_unit_test(test_two_who_differ_keep_all_from_nccl),
        cmocka_unit_test(test_hosts_are_joined_by_nccl_where_all_allow_it),
        cmocka_unit_test(test_a_communicator_that_all_have_is_made_smaller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
