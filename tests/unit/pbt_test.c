/* Population-based training: which members give way, and the values of copies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "train/search/pbt.h"

#define POPULATION 6

static const struct pbt_result reached[POPULATION] = {{0.5, false}, {0.9, false}, {0.1, false}, {0.9, false}, {NAN, false}, {0, true}};

static void assert_parents(const struct pbt_result *results, uint32_t replaced, bool smaller_is_better, const uint32_t *expected)
{
    uint32_t parents[POPULATION], room[POPULATION];
    assert_int_equal(pbt_room_bytes(POPULATION), sizeof room);
    pbt_choose(results, POPULATION, replaced, smaller_is_better, room, parents);
    assert_memory_equal(parents, expected, sizeof parents);
}

static void the_worst_members_go_on_from_the_best_ones(void **state)
{
    (void)state;
    /* Largest first: 1, 3, 0, 2, 4 (NaN), 5 (over). */
    assert_parents(reached, 2, false, (const uint32_t[]){0, 1, 2, 3, 3, 1});
    assert_parents(reached, 3, false, (const uint32_t[]){0, 1, 0, 3, 3, 1});
    /* Smallest first: 2, 0, 1, 3, 4, 5. */
    assert_parents(reached, 2, true, (const uint32_t[]){0, 1, 2, 3, 0, 2});
}

static void a_member_that_is_over_always_gives_way(void **state)
{
    (void)state;
    assert_parents(reached, 0, false, (const uint32_t[]){0, 1, 2, 3, 4, 1});
    static const struct pbt_result most_over[POPULATION] = {{0, true}, {0, true}, {0, true}, {0.3, false}, {0, true}, {0, true}};
    assert_parents(most_over, 2, false, (const uint32_t[]){3, 3, 3, 3, 3, 3});
    static const struct pbt_result all_over[POPULATION] = {{0, true}, {0, true}, {0, true}, {0, true}, {0, true}, {0, true}};
    assert_parents(all_over, 2, false, (const uint32_t[]){0, 1, 2, 3, 4, 5});
}

static void the_number_of_replaced_members_is_rounded_down(void **state)
{
    (void)state;
    assert_int_equal(pbt_replaced(10, 0.25), 2);
    assert_int_equal(pbt_replaced(4, 0.2), 0);
    assert_int_equal(pbt_replaced(5, 0.2), 1);
    assert_int_equal(pbt_replaced(8, PBT_TRUNCATE_MAX), 4);
}

/* lr: a log from 1e-4 to 1e-1; layers: an int from 1 to 8; drop: a double from 0 to 0.5 with steps of 0.1; net: one of three; width:
 * an int from 16 to 64 with steps of 16, of net 1 only; name: a const. */
enum { LR, LAYERS, DROP, NET, WIDTH, NAME, PARAMETERS };

static void make_space(uint8_t *bytes, size_t size, struct search_space *out)
{
    static const uint8_t choices[] = {0x93, 0x01, 0x02, 0x03}, one[] = {0x01};
    static const uint8_t when_net_1[] = {0x91, 0x92, NET, 0x91, 0x01};
    const struct search_parameter list[PARAMETERS] = {
        {.name = "lr", .kind = SEARCH_LOG, .minval = -4, .maxval = -1, .base = 10},
        {.name = "layers", .kind = SEARCH_INT, .minval = 1, .maxval = 8},
        {.name = "drop", .kind = SEARCH_DOUBLE, .minval = 0, .maxval = 0.5, .step = 0.1},
        {.name = "net", .kind = SEARCH_CATEGORICAL, .values = choices, .values_bytes = sizeof choices},
        {.name = "width", .kind = SEARCH_INT, .minval = 16, .maxval = 64, .step = 16, .when = when_net_1, .when_bytes = sizeof when_net_1},
        {.name = "name", .kind = SEARCH_CONST, .values = one, .values_bytes = sizeof one},
    };
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, size);
    search_head_pack(&writer, &(struct search_head){.sampler = SEARCH_SAMPLER_RANDOM}, PARAMETERS);
    for (uint32_t i = 0; i < PARAMETERS; i++) {
        search_parameter_pack(&writer, &list[i]);
    }
    assert_false(writer.failed);
    *out = (struct search_space){.kind = SEARCH_PBT, .max_trials = 100, .bytes = bytes, .byte_count = (uint32_t)writer.used_bytes};
}

static const double from[PARAMETERS] = {0.01, 5, 0.3, 1, 32, 0};

static void a_copy_has_values_beside_its_parents(void **state)
{
    (void)state;
    uint8_t bytes[1024];
    struct search_space space;
    const struct pbt_explore explore = {.resample_probability = 0, .perturb_factor = 0.2};
    double point[PARAMETERS];
    uint32_t up[PARAMETERS] = {0};
    make_space(bytes, sizeof bytes, &space);
    for (uint32_t trial = 0; trial < 100; trial++) {
        assert_int_equal(pbt_explore(&space, &explore, from, 7, trial, point), 0);
        assert_true(search_point_fits(&space, point, PARAMETERS));
        assert_true(point[LR] == 0.008 || point[LR] == 0.012);
        assert_true(point[LAYERS] == 4 || point[LAYERS] == 6);
        assert_true(fabs(point[DROP] - 0.2) < 1e-9 || fabs(point[DROP] - 0.4) < 1e-9);
        assert_true(point[NET] == 1 && point[NAME] == 0);
        assert_true(point[WIDTH] == 16 || point[WIDTH] == 48); /* 25.6 and 38.4, to the next step away */
        for (uint32_t i = 0; i < PARAMETERS; i++) {
            up[i] += point[i] > from[i];
        }
    }
    for (uint32_t i = LR; i <= DROP; i++) { /* even odds: 50 of 100, by eight standard deviations */
        assert_in_range(up[i], 10, 90);
    }
}

static void a_copy_stays_within_the_bounds(void **state)
{
    (void)state;
    uint8_t bytes[1024];
    struct search_space space;
    const struct pbt_explore explore = {.resample_probability = 0, .perturb_factor = 0.9};
    static const double low[PARAMETERS] = {1e-4, 1, 0, 1, 16, 0}, high[PARAMETERS] = {0.1, 8, 0.5, 1, 64, 0};
    double point[PARAMETERS];
    make_space(bytes, sizeof bytes, &space);
    for (uint32_t trial = 0; trial < 50; trial++) {
        assert_int_equal(pbt_explore(&space, &explore, low, 7, trial, point), 0);
        assert_true(search_point_fits(&space, point, PARAMETERS));
        assert_int_equal(pbt_explore(&space, &explore, high, 7, trial, point), 0);
        assert_true(search_point_fits(&space, point, PARAMETERS));
    }
}

static void values_are_drawn_anew_by_the_given_odds(void **state)
{
    (void)state;
    uint8_t bytes[1024];
    struct search_space space;
    const struct pbt_explore always = {.resample_probability = 1, .perturb_factor = 0.2}, half = {0.5, 0.2};
    double point[PARAMETERS];
    uint32_t drawn = 0, inactive = 0;
    make_space(bytes, sizeof bytes, &space);
    for (uint32_t trial = 0; trial < 200; trial++) {
        assert_int_equal(pbt_explore(&space, &always, from, 7, trial, point), 0);
        assert_true(search_point_fits(&space, point, PARAMETERS));
        assert_int_equal(isnan(point[WIDTH]), point[NET] != 1); /* inactive where the copy has another network */
        inactive += isnan(point[WIDTH]) ? 1 : 0;
        assert_int_equal(pbt_explore(&space, &half, from, 7, trial, point), 0);
        drawn += point[LR] != 0.008 && point[LR] != 0.012;
    }
    assert_in_range(inactive, 80, 180);
    assert_in_range(drawn, 50, 150);
    double again[PARAMETERS];
    assert_int_equal(pbt_explore(&space, &half, from, 7, 199, again), 0);
    assert_memory_equal(point, again, sizeof again);
}

static void a_copy_has_the_same_values_in_every_version(void **state)
{
    (void)state;
    uint8_t bytes[1024];
    struct search_space space;
    const struct pbt_explore half = {.resample_probability = 0.5, .perturb_factor = 0.2};
    static const double expected[][PARAMETERS] = {{0.012, 6, 0.4, 1, 48, 0},         {0.008, 6, 0.2, 1, 48, 0},
                                                  {0.008, 4, 0.1, 1, 64, 0},         {0.022442817, 2, 0.2, 0, NAN, 0},
                                                  {0.00658436954, 5, 0.2, 2, NAN, 0}, {0.00499626778, 6, 0.4, 1, 48, 0}};
    double point[PARAMETERS];
    make_space(bytes, sizeof bytes, &space);
    for (uint32_t trial = 0; trial < sizeof expected / sizeof expected[0]; trial++) {
        assert_int_equal(pbt_explore(&space, &half, from, 7, trial, point), 0);
        for (uint32_t i = 0; i < PARAMETERS; i++) {
            assert_true(fabs(point[i] - expected[trial][i]) < 1e-12 || (isnan(point[i]) && isnan(expected[trial][i])));
        }
    }
}

static void values_outside_of_the_space_are_refused(void **state)
{
    (void)state;
    uint8_t bytes[1024];
    struct search_space space;
    const struct pbt_explore explore = {0.25, 0.2};
    double point[PARAMETERS], bad[PARAMETERS];
    make_space(bytes, sizeof bytes, &space);
    memcpy(bad, from, sizeof bad);
    bad[LAYERS] = 9;
    assert_int_equal(pbt_explore(&space, &explore, bad, 7, 1, point), ERR_MALFORMED);
    space.byte_count--;
    assert_int_equal(pbt_explore(&space, &explore, from, 7, 1, point), ERR_MALFORMED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worst_members_go_on_from_the_best_ones),
        cmocka_unit_test(a_member_that_is_over_always_gives_way),
        cmocka_unit_test(the_number_of_replaced_members_is_rounded_down),
        cmocka_unit_test(a_copy_has_values_beside_its_parents),
        cmocka_unit_test(a_copy_stays_within_the_bounds),
        cmocka_unit_test(values_are_drawn_anew_by_the_given_odds),
        cmocka_unit_test(a_copy_has_the_same_values_in_every_version),
        cmocka_unit_test(values_outside_of_the_space_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
