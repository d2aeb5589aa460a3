/* The calendar of slots: spans are sorted, and those of one experiment that follow each other are one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/daemon/render/calendar.h"

static struct calendar_span span(uint8_t node, uint32_t slot, uint8_t experiment, uint32_t trial, uint64_t from_s,
                                 uint64_t until_s)
{
    struct calendar_span out = {.slot = slot, .trial = trial, .trials = 1, .from_s = from_s, .until_s = until_s};
    memset(out.node.bytes, node, sizeof out.node.bytes);
    memset(out.experiment.bytes, experiment, sizeof out.experiment.bytes);
    return out;
}

static void trials_that_follow_each_other_in_a_slot_are_one_span(void **state)
{
    (void)state;
    struct calendar_span spans[] = {span(1, 0, 7, 4, 120, 130), span(1, 0, 7, 2, 100, 110), span(1, 0, 7, 3, 112, 119)};
    assert_int_equal(calendar_unite(spans, 3, 2), 1);
    assert_true(spans[0].trial == 2 && spans[0].trials == 3 && spans[0].from_s == 100 && spans[0].until_s == 130);
}

static void a_longer_gap_another_slot_another_node_and_another_experiment_part_spans(void **state)
{
    (void)state;
    struct calendar_span spans[] = {span(2, 0, 7, 0, 100, 110), span(1, 1, 7, 1, 100, 110), span(1, 0, 8, 2, 111, 120),
                                    span(1, 0, 7, 3, 100, 110), span(1, 0, 8, 4, 140, 150)};
    assert_int_equal(calendar_unite(spans, 5, 10), 5);
    for (uint32_t i = 0; i < 5; i++) {
        static const uint32_t order[] = {3, 2, 4, 1, 0};
        assert_int_equal(spans[i].trial, order[i]);
        assert_int_equal(spans[i].trials, 1);
    }
}

static void a_trial_that_ended_within_the_second_comes_before_one_that_goes_on(void **state)
{
    (void)state;
    struct calendar_span spans[] = {span(1, 0, 7, 0, 100, 100), span(1, 0, 3, 0, 101, 101), span(1, 0, 7, 1, 101, 101)};
    spans[1].is_open = true;
    assert_int_equal(calendar_unite(spans, 3, 5), 2);
    assert_true(spans[0].trials == 2 && spans[1].is_open);
}

static void a_span_within_another_and_one_that_goes_on_keep_the_later_end(void **state)
{
    (void)state;
    struct calendar_span spans[] = {span(1, 0, 7, 0, 100, 500), span(1, 0, 7, 1, 200, 210)};
    spans[1].is_open = true;
    assert_int_equal(calendar_unite(spans, 2, 0), 1);
    assert_true(spans[0].until_s == 500 && spans[0].is_open);
    assert_int_equal(calendar_unite(spans, 0, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trials_that_follow_each_other_in_a_slot_are_one_span),
        cmocka_unit_test(a_longer_gap_another_slot_another_node_and_another_experiment_part_spans),
        cmocka_unit_test(a_trial_that_ended_within_the_second_comes_before_one_that_goes_on),
        cmocka_unit_test(a_span_within_another_and_one_that_goes_on_keep_the_later_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
