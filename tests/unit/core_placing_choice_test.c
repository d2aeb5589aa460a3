/* Where a gang begins: a snapshot of the nodes in, a choice of slots out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/core/coordinator/choice.h"
#include "node/core/limits.h"

#define NODES_MAX 300

static struct placing_node nodes[NODES_MAX];
static struct placing_snapshot snapshot;
static struct placing_choice choice;

static node_id id_of(uint32_t number)
{
    node_id id = {{(uint8_t)(number / 256), (uint8_t)number}};
    return id;
}

/* A gang of `wanted` slots, of which `least` will do, and no node yet. */
static void wish(uint32_t wanted, uint32_t least)
{
    snapshot = (struct placing_snapshot){.wanted = wanted, .least = least, .nodes = nodes};
}

/* One more node; its id is its number in the snapshot. The first `idle` of its slots are idle, the others are busy. */
static struct placing_node *add(uint32_t slots, uint32_t idle)
{
    struct placing_node *node = &nodes[snapshot.node_count];
    *node = (struct placing_node){.node = id_of(snapshot.node_count),
                                  .slot_count = slots,
                                  .usable = (UINT64_C(1) << slots) - 1,
                                  .idle = (UINT64_C(1) << idle) - 1};
    snapshot.node_count++;
    return node;
}

static bool chooses(void)
{
    return placing_choose(&snapshot, &choice);
}

/* How many members of the chosen gang are on a node. */
static uint32_t on(uint32_t number)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < choice.member_count; i++) {
        count += node_id_equal(choice.members[i].node, id_of(number));
    }
    return count;
}

/* ---- which of the nodes with room for all ------------------------------------------------------------------------- */

static void a_gang_goes_to_the_node_that_it_fits_most_tightly(void **state)
{
    (void)state;
    wish(2, 2);
    add(4, 4);
    add(2, 2);
    add(3, 3);
    assert_true(chooses());
    assert_int_equal(choice.member_count, 2);
    assert_int_equal(on(1), 2);
}

static void of_equal_fits_the_smaller_id_is_chosen(void **state)
{
    (void)state;
    wish(1, 1);
    add(2, 2);
    add(2, 2);
    assert_true(chooses());
    assert_int_equal(on(0), 1);
    assert_int_equal(choice.members[0].slot, 0);
}

static void busy_slots_are_passed_over(void **state)
{
    (void)state;
    wish(2, 2);
    struct placing_node *node = add(6, 0);
    node->idle = 1u << 1 | 1u << 4 | 1u << 5;
    assert_true(chooses());
    assert_int_equal(choice.members[0].slot, 1);
    assert_int_equal(choice.members[1].slot, 4);
}

static void a_copy_of_the_checkpoint_counts_more_than_a_tight_fit(void **state)
{
    (void)state;
    wish(1, 1);
    add(1, 1);
    add(4, 4)->has_copy = true;
    assert_true(chooses());
    assert_int_equal(on(1), 1);
}

static void a_doubtful_node_comes_after_the_others_even_with_a_copy(void **state)
{
    (void)state;
    wish(1, 1);
    struct placing_node *node = add(1, 1);
    node->is_doubtful = node->has_copy = true;
    add(4, 4);
    assert_true(chooses());
    assert_int_equal(on(1), 1);
}

static void a_doubtful_node_will_do_where_no_other_has_room(void **state)
{
    (void)state;
    wish(1, 1);
    add(1, 1)->is_doubtful = true;
    add(1, 0);
    assert_true(chooses());
    assert_int_equal(on(0), 1);
}

static void two_trials_that_have_lost_a_host_are_kept_apart_even_on_a_doubtful_node(void **state)
{
    (void)state;
    wish(1, 1);
    add(1, 1)->has_suspect = true;
    add(4, 4)->is_doubtful = true;
    assert_true(chooses());
    assert_int_equal(on(1), 1);
}

/* ---- more than one node ------------------------------------------------------------------------------------------- */

static void a_gang_spans_as_few_nodes_as_possible(void **state)
{
    (void)state;
    wish(4, 4);
    add(1, 1);
    add(3, 3);
    add(2, 2);
    assert_true(chooses());
    assert_int_equal(choice.member_count, 4);
    assert_int_equal(on(1), 3);
    assert_int_equal(on(2), 1);
}

static void the_members_of_a_gang_are_in_the_order_of_node_and_slot(void **state)
{
    (void)state;
    wish(5, 5);
    add(2, 2);
    add(3, 3);
    assert_true(chooses());
    for (uint32_t i = 0; i < 5; i++) {
        assert_true(node_id_equal(choice.members[i].node, id_of(i < 2 ? 0 : 1)));
        assert_int_equal(choice.members[i].slot, i < 2 ? i : i - 2);
    }
}

static void a_gang_takes_a_doubtful_node_last(void **state)
{
    (void)state;
    wish(3, 3);
    add(2, 2)->is_doubtful = true;
    add(1, 1);
    add(1, 1);
    assert_true(chooses());
    assert_int_equal(on(0), 1);
}

static void a_gang_larger_than_what_is_idle_waits(void **state)
{
    (void)state;
    wish(4, 4);
    add(2, 2);
    add(2, 1);
    assert_false(chooses());
    assert_false(choice.has_least);
}

static void a_gang_of_256_members_is_the_largest(void **state)
{
    (void)state;
    wish(FACT_MEMBERS_MAX, FACT_MEMBERS_MAX);
    for (uint32_t i = 0; i < 6; i++) {
        add(48, 48);
    }
    assert_true(chooses());
    assert_int_equal(choice.member_count, FACT_MEMBERS_MAX);
    snapshot.wanted = snapshot.least = FACT_MEMBERS_MAX + 1;
    assert_false(chooses());
}

/* So many nodes have idle slots that not all of them are looked at. */
static void a_large_mesh_has_room(void **state)
{
    (void)state;
    wish(FACT_MEMBERS_MAX, 1);
    for (uint32_t i = 0; i < NODES_MAX; i++) {
        add(1, 1);
    }
    assert_true(chooses());
    assert_int_equal(choice.member_count, FACT_MEMBERS_MAX);
    assert_int_equal(on(0), 1);
}

/* ---- nodes that are left out -------------------------------------------------------------------------------------- */

static void a_node_where_the_trial_failed_is_left_out_while_another_is_busy(void **state)
{
    (void)state;
    wish(1, 1);
    add(1, 1)->has_failed = true;
    add(1, 0);
    snapshot.waited_ms = CORE_BETTER_PLACE_MS - 1;
    assert_false(chooses());
    assert_false(choice.has_least);
    snapshot.waited_ms = CORE_BETTER_PLACE_MS;
    assert_true(chooses());
    assert_int_equal(on(0), 1);
}

static void a_node_where_the_trial_failed_will_do_where_the_others_are_too_small(void **state)
{
    (void)state;
    wish(2, 2);
    add(2, 2)->has_failed = true;
    add(1, 1);
    assert_true(chooses());
    assert_int_equal(on(0), 2);
}

static void a_node_in_quarantine_is_left_out_while_another_is_busy(void **state)
{
    (void)state;
    wish(1, 1);
    add(1, 1)->is_quarantined = true;
    add(1, 0);
    snapshot.waited_ms = 10 * CORE_BETTER_PLACE_MS;
    assert_false(chooses());
}

static void a_node_in_quarantine_is_taken_before_one_where_the_trial_failed(void **state)
{
    (void)state;
    wish(1, 1);
    add(1, 1)->has_failed = true;
    add(4, 4)->is_quarantined = true;
    assert_true(chooses());
    assert_int_equal(on(1), 1);
}

static void a_node_that_could_not_start_the_trial_is_left_out_longer_each_time(void **state)
{
    (void)state;
    for (uint32_t times = 1; times <= 3; times++) {
        wish(1, 1);
        add(1, 1)->unstarted_count = times;
        add(1, 0);
        snapshot.waited_ms = ((uint64_t)CORE_UNSTARTED_AVOID_MS << (times - 1)) - 1;
        assert_false(chooses());
        snapshot.waited_ms++;
        assert_true(chooses());
    }
}

static void a_node_that_never_starts_the_trial_is_left_out_for_half_an_hour_at_most(void **state)
{
    (void)state;
    wish(1, 1);
    add(1, 1)->unstarted_count = UINT32_MAX;
    add(1, 0);
    snapshot.waited_ms = CORE_UNSTARTED_AVOID_MAX_MS - 1;
    assert_false(chooses());
    snapshot.waited_ms++;
    assert_true(chooses());
}

/* ---- what is waited for ------------------------------------------------------------------------------------------- */

static void a_slot_that_was_refused_a_moment_ago_is_waited_for(void **state)
{
    (void)state;
    wish(1, 1);
    add(1, 1)->refused = 1;
    add(1, 1)->has_failed = true;
    assert_false(chooses());
    assert_true(choice.has_least);
}

static void a_slot_that_is_refused_for_longer_is_not_waited_for(void **state)
{
    (void)state;
    wish(1, 1);
    struct placing_node *node = add(1, 1);
    node->refused = node->refused_long = 1;
    add(1, 1)->has_failed = true;
    assert_true(chooses());
    assert_int_equal(on(1), 1);
}

static void a_silent_node_is_not_asked_but_waited_for(void **state)
{
    (void)state;
    wish(2, 2);
    add(2, 2)->is_silent = true;
    add(1, 1);
    assert_false(chooses());
    assert_true(choice.has_least);
    nodes[0].is_silent = false;
    assert_true(chooses());
}

static void a_gang_that_may_be_smaller_does_not_wait_for_a_silent_node(void **state)
{
    (void)state;
    wish(3, 1);
    add(2, 2)->is_silent = true;
    add(1, 1);
    assert_true(chooses());
    assert_int_equal(choice.member_count, 1);
    assert_int_equal(on(1), 1);
}

static void a_gang_has_all_slots_that_there_are_if_they_are_fewer_than_wanted(void **state)
{
    (void)state;
    wish(4, 2);
    add(2, 2);
    add(1, 1);
    assert_true(chooses());
    assert_int_equal(choice.member_count, 3);
}

static void a_gang_never_has_fewer_slots_than_its_least(void **state)
{
    (void)state;
    wish(4, 3);
    add(2, 2);
    snapshot.waited_ms = snapshot.had_least_ms = 10 * CORE_BETTER_PLACE_MS;
    assert_false(chooses());
    assert_false(choice.has_least);
}

static void a_gang_waits_ten_minutes_for_busy_slots_before_it_takes_its_least(void **state)
{
    (void)state;
    wish(4, 2);
    add(4, 2);
    assert_false(chooses());
    assert_true(choice.has_least);
    snapshot.had_least_ms = CORE_BETTER_PLACE_MS - 1;
    assert_false(chooses());
    snapshot.had_least_ms = CORE_BETTER_PLACE_MS;
    assert_true(chooses());
    assert_int_equal(choice.member_count, 2);
}

static void a_node_without_the_program_is_left_out_while_the_others_are_busy(void **state)
{
    (void)state;
    wish(1, 1);
    add(2, 2)->lacks_program = true;
    add(1, 0);
    snapshot.waited_ms = 100 * CORE_BETTER_PLACE_MS;
    assert_false(chooses());
    assert_false(choice.has_least);
    nodes[1].idle = 1;
    assert_true(chooses());
    assert_int_equal(on(1), 1);
}

static void a_node_without_the_program_will_do_where_no_other_is(void **state)
{
    (void)state;
    wish(2, 2);
    add(2, 2)->lacks_program = true;
    assert_true(chooses());
    add(1, 1); /* too small for the gang */
    assert_true(chooses());
    nodes[1].usable = nodes[1].idle = 3;
    nodes[1].slot_count = 2;
    assert_true(chooses());
    assert_int_equal(on(1), 2);
}

static void a_member_that_may_have_the_program_is_awaited_for_ten_minutes(void **state)
{
    (void)state;
    wish(1, 1);
    add(2, 2)->lacks_program = true;
    snapshot.is_awaited = true;
    assert_false(chooses());
    snapshot.waited_ms = CORE_BETTER_PLACE_MS - 1;
    assert_false(chooses());
    snapshot.waited_ms = CORE_BETTER_PLACE_MS;
    assert_true(chooses());
}

static void a_gang_is_smaller_rather_than_on_a_node_without_the_program(void **state)
{
    (void)state;
    wish(4, 2);
    add(2, 2)->lacks_program = true;
    add(2, 2);
    assert_true(chooses());
    assert_int_equal(choice.member_count, 2);
    assert_int_equal(on(1), 2);
}

/* ---- even gangs --------------------------------------------------------------------------------------------------- */

static void wish_even(uint32_t wanted, uint32_t least)
{
    wish(wanted, least);
    snapshot.is_even = true;
}

static void an_even_gang_has_the_same_number_of_slots_on_each_of_its_nodes(void **state)
{
    (void)state;
    wish_even(4, 4);
    (void)add(3, 3);
    (void)add(1, 1);
    assert_false(chooses());
    assert_int_equal(placing_most(&snapshot), 3); /* never, even if none were busy */
    snapshot.is_even = false;
    assert_true(chooses());
    assert_true(on(0) == 3 && on(1) == 1);
    snapshot.is_even = true;
    (void)add(2, 2);
    assert_true(chooses());
    assert_true(on(0) == 2 && on(1) == 0 && on(2) == 2 && choice.member_count == 4);
    assert_int_equal(placing_most(&snapshot), 4);
}

static void an_even_gang_goes_to_one_node_if_that_has_room(void **state)
{
    (void)state;
    wish_even(4, 4);
    (void)add(2, 2);
    (void)add(2, 2);
    (void)add(5, 5);
    assert_true(chooses());
    assert_int_equal(on(2), 4);
}

static void an_even_gang_spans_few_nodes_and_those_that_it_fits_most_tightly(void **state)
{
    (void)state;
    wish_even(6, 6);
    (void)add(2, 2);
    (void)add(5, 5);
    (void)add(2, 2);
    (void)add(3, 3);
    (void)add(4, 4);
    (void)add(2, 2);
    assert_true(chooses());
    assert_true(on(3) == 3 && on(4) == 3 && choice.member_count == 6);
}

static void an_even_gang_takes_a_doubtful_node_only_where_no_others_are_even(void **state)
{
    (void)state;
    wish_even(4, 4);
    add(2, 2)->is_doubtful = true;
    (void)add(2, 2);
    (void)add(1, 1);
    (void)add(1, 1);
    assert_true(chooses());
    assert_true(on(0) == 2 && on(1) == 2);
    (void)add(1, 1);
    assert_true(chooses());
    assert_true(on(0) == 0 && on(1) == 1 && on(2) == 1 && on(3) == 1 && on(4) == 1);
}

static void an_even_gang_may_be_smaller_down_to_its_least(void **state)
{
    (void)state;
    wish_even(8, 3);
    (void)add(3, 3);
    (void)add(1, 1);
    assert_true(chooses());
    assert_true(on(0) == 3 && choice.member_count == 3);
    (void)add(3, 3);
    assert_true(chooses());
    assert_true(on(0) == 3 && on(2) == 3 && choice.member_count == 6);
    wish_even(7, 7); /* a prime number fits on one node or on seven */
    for (uint32_t i = 0; i < 6; i++) {
        (void)add(4, 4);
    }
    assert_false(chooses());
    (void)add(1, 1);
    assert_true(chooses());
    assert_int_equal(on(6), 1);
}

static void an_even_gang_waits_for_slots_that_are_busy_now(void **state)
{
    (void)state;
    wish_even(4, 2);
    (void)add(2, 2);
    (void)add(2, 1);
    assert_false(chooses()); /* all four will be even */
    assert_true(choice.has_least);
    snapshot.had_least_ms = CORE_BETTER_PLACE_MS;
    assert_true(chooses());
    assert_true(choice.member_count == 2 && on(0) == 2);
}

static void without_nodes_a_trial_waits(void **state)
{
    (void)state;
    wish(1, 1);
    assert_false(chooses());
    assert_false(choice.has_least);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gang_goes_to_the_node_that_it_fits_most_tightly),
        cmocka_unit_test(of_equal_fits_the_smaller_id_is_chosen),
        cmocka_unit_test(busy_slots_are_passed_over),
        cmocka_unit_test(a_copy_of_the_checkpoint_counts_more_than_a_tight_fit),
        cmocka_unit_test(a_doubtful_node_comes_after_the_others_even_with_a_copy),
        cmocka_unit_test(a_doubtful_node_will_do_where_no_other_has_room),
        cmocka_unit_test(two_trials_that_have_lost_a_host_are_kept_apart_even_on_a_doubtful_node),
        cmocka_unit_test(a_gang_spans_as_few_nodes_as_possible),
        cmocka_unit_test(the_members_of_a_gang_are_in_the_order_of_node_and_slot),
        cmocka_unit_test(a_gang_takes_a_doubtful_node_last),
        cmocka_unit_test(a_gang_larger_than_what_is_idle_waits),
        cmocka_unit_test(a_gang_of_256_members_is_the_largest),
        cmocka_unit_test(a_large_mesh_has_room),
        cmocka_unit_test(a_node_where_the_trial_failed_is_left_out_while_another_is_busy),
        cmocka_unit_test(a_node_where_the_trial_failed_will_do_where_the_others_are_too_small),
        cmocka_unit_test(a_node_in_quarantine_is_left_out_while_another_is_busy),
        cmocka_unit_test(a_node_in_quarantine_is_taken_before_one_where_the_trial_failed),
        cmocka_unit_test(a_node_that_could_not_start_the_trial_is_left_out_longer_each_time),
        cmocka_unit_test(a_node_that_never_starts_the_trial_is_left_out_for_half_an_hour_at_most),
        cmocka_unit_test(a_slot_that_was_refused_a_moment_ago_is_waited_for),
        cmocka_unit_test(a_slot_that_is_refused_for_longer_is_not_waited_for),
        cmocka_unit_test(a_silent_node_is_not_asked_but_waited_for),
        cmocka_unit_test(a_gang_that_may_be_smaller_does_not_wait_for_a_silent_node),
        cmocka_unit_test(a_gang_has_all_slots_that_there_are_if_they_are_fewer_than_wanted),
        cmocka_unit_test(a_gang_never_has_fewer_slots_than_its_least),
        cmocka_unit_test(a_gang_waits_ten_minutes_for_busy_slots_before_it_takes_its_least),
        cmocka_unit_test(a_node_without_the_program_is_left_out_while_the_others_are_busy),
        cmocka_unit_test(a_node_without_the_program_will_do_where_no_other_is),
        cmocka_unit_test(a_member_that_may_have_the_program_is_awaited_for_ten_minutes),
        cmocka_unit_test(a_gang_is_smaller_rather_than_on_a_node_without_the_program),
        cmocka_unit_test(an_even_gang_has_the_same_number_of_slots_on_each_of_its_nodes),
        cmocka_unit_test(an_even_gang_goes_to_one_node_if_that_has_room),
        cmocka_unit_test(an_even_gang_spans_few_nodes_and_those_that_it_fits_most_tightly),
        cmocka_unit_test(an_even_gang_takes_a_doubtful_node_only_where_no_others_are_even),
        cmocka_unit_test(an_even_gang_may_be_smaller_down_to_its_least),
        cmocka_unit_test(an_even_gang_waits_for_slots_that_are_busy_now),
        cmocka_unit_test(without_nodes_a_trial_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
