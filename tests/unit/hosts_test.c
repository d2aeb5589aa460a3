/* Who is on one host, as all ranks work it out. */
#include "train/plan/hosts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"

/* One letter for each rank's host; '.' has no name. */
static struct hosts hosts_of(const char *letters)
{
    struct host_name names[PLAN_RANKS_MAX] = {0};
    for (size_t i = 0; letters[i] != 0; i++) {
        names[i].bytes[15] = letters[i] == '.' ? 0 : (uint8_t)letters[i];
    }
    struct hosts hosts;
    hosts_init(&hosts, (uint32_t)strlen(letters), names);
    return hosts;
}

static void test_the_lowest_rank_of_a_host_leads_it(void **state)
{
    (void)state;
    struct hosts hosts = hosts_of("bacab");
    uint32_t ranks[PLAN_RANKS_MAX];
    assert_int_equal(hosts_leaders(&hosts, ranks), 3);
    assert_int_equal(ranks[0], 0);
    assert_int_equal(ranks[1], 1);
    assert_int_equal(ranks[2], 2);
    assert_int_equal(hosts_around(&hosts, 3, ranks), 2);
    assert_int_equal(ranks[0], 1);
    assert_int_equal(ranks[1], 3);
    assert_int_equal(hosts_around(&hosts, 2, ranks), 1);
    assert_int_equal(ranks[0], 2);
}

static void test_ranks_without_a_hosts_name_are_alone(void **state)
{
    (void)state;
    struct hosts hosts = hosts_of("..a.a");
    uint32_t ranks[PLAN_RANKS_MAX];
    assert_int_equal(hosts_leaders(&hosts, ranks), 4);
    assert_int_equal(hosts_around(&hosts, 1, ranks), 1);
    assert_int_equal(hosts_around(&hosts, 4, ranks), 2);
}

static void test_one_that_cannot_share_splits_its_host_and_no_other(void **state)
{
    (void)state;
    struct hosts hosts = hosts_of("ababab");
    uint32_t ranks[PLAN_RANKS_MAX];
    const bool shares[] = {true, true, true, true, false, true};
    hosts_split(&hosts, shares);
    assert_int_equal(hosts_leaders(&hosts, ranks), 4); /* 0, 2 and 4 alone, and 1 for three */
    assert_int_equal(hosts_around(&hosts, 5, ranks), 3);
    for (uint32_t rank = 0; rank < 6; rank += 2) {
        assert_int_equal(hosts_around(&hosts, rank, ranks), 1);
        assert_int_equal(ranks[0], rank);
    }
}

/* Every rank is around exactly one leader, which is the lowest there, in any layout before and after a split. */
static void test_every_rank_has_one_leader(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 5);
    for (int round = 0; round < 2000; round++) {
        char letters[PLAN_RANKS_MAX + 1] = {0};
        bool shares[PLAN_RANKS_MAX];
        uint32_t size = 1 + (uint32_t)random_below(&random, PLAN_RANKS_MAX);
        for (uint32_t i = 0; i < size; i++) {
            letters[i] = ".abcdefgh"[random_below(&random, 9)];
            shares[i] = random_below(&random, 20) > 0;
        }
        struct hosts hosts = hosts_of(letters);
        for (int split = 0; split < 2; split++) {
            uint32_t leaders[PLAN_RANKS_MAX], here[PLAN_RANKS_MAX], seen = 0, count = hosts_leaders(&hosts, leaders);
            for (uint32_t l = 0; l < count; l++) {
                uint32_t around = hosts_around(&hosts, leaders[l], here);
                assert_int_equal(here[0], leaders[l]);
                for (uint32_t i = 0; i < around; i++) {
                    assert_true(around == 1 || letters[here[i]] == letters[leaders[l]]);
                    assert_int_equal(hosts.leader[here[i]], leaders[l]);
                }
                seen += around;
            }
            assert_int_equal(seen, size);
            hosts_split(&hosts, shares);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_lowest_rank_of_a_host_leads_it),
        cmocka_unit_test(test_ranks_without_a_hosts_name_are_alone),
        cmocka_unit_test(test_one_that_cannot_share_splits_its_host_and_no_other),
        cmocka_unit_test(test_every_rank_has_one_leader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
