/* The parts of the simulated week, by answers worked out by hand. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "tests/sim/week.h"

#define HOUR_S 3600u
#define NEARLY(value, wanted) assert_float_equal((float)(value), (float)(wanted), 1e-4f)

static struct week_policy policy_of(enum week_order order)
{
    bool is_by_user = order == WEEK_SLOTS || order == WEEK_DEFICIT;
    return (struct week_policy){.name = "test", .order = order, .preempts = is_by_user || order == WEEK_DETERMINED, .has_bids = is_by_user,
                                .has_floor = is_by_user,
                                .half_life_h = 24, .exempt_s = 300, .per_hour = 2, .over_part = 0.2, .over_slots = 1, .horizon_h = 0.5};
}

/* A world of one-slot nodes of speed 1 for a day. */
static struct week_world *world_of(uint32_t users, uint32_t slots)
{
    struct week_world *world = calloc(1, sizeof *world);
    CHECK(world != NULL);
    world->user_count = users;
    world->node_count = world->slot_count = slots;
    world->end_s = WEEK_DAY_S;
    for (uint32_t i = 0; i < slots; i++) {
        world->slot_node[i] = i;
        world->node_speed[i] = 1;
    }
    return world;
}

static void submit(struct week_world *world, uint32_t at_s, uint32_t user, uint32_t width, uint32_t work_s)
{
    uint32_t experiment = user;
    world->trials[world->trial_count++] = (struct week_trial){at_s, user, experiment, width, 50, work_s, work_s + 10, 10, false};
}

static void change(struct week_world *world, uint32_t at_s, enum week_change_kind kind, uint32_t node)
{
    world->changes[world->change_count++] = (struct week_change){at_s, kind, node};
}

/* ---- pure parts -------------------------------------------------------------------------------------------------- */

static void max_min_meets_small_demands_first(void **state)
{
    (void)state;
    double entitled[4];
    week_max_min((const double[]){2, 10, 0, 10}, 4, 12, entitled);
    NEARLY(entitled[0], 2);
    NEARLY(entitled[1], 5);
    NEARLY(entitled[2], 0);
    NEARLY(entitled[3], 5);
    week_max_min((const double[]){2, 3, 1, 4}, 4, 12, entitled);
    NEARLY(entitled[3], 4);
    week_max_min((const double[]){1, 5, 6, 9}, 4, 13, entitled);
    NEARLY(entitled[1], 4);
    NEARLY(entitled[3], 4);
}

static void determined_offers_are_those_of_its_tests(void **state)
{
    (void)state;
    uint32_t offers[4];
    week_determined_offers((const uint32_t[]){3, 7}, (const double[]){10, 30}, (const uint32_t[]){0, 0}, 2, 8, offers);
    assert_int_equal(offers[0], 2);
    assert_int_equal(offers[1], 6);
    week_determined_offers((const uint32_t[]){1, 4}, (const double[]){1, 1}, (const uint32_t[]){1, 1}, 2, 4, offers);
    assert_int_equal(offers[0], 1);
    assert_int_equal(offers[1], 3);
    week_determined_offers((const uint32_t[]){2, 2}, (const double[]){1, 1}, (const uint32_t[]){2, 2}, 2, 2, offers);
    assert_int_equal(offers[0], 2);
    assert_int_equal(offers[1], 0);
    week_determined_offers((const uint32_t[]){3, 2, 4, 1}, (const double[]){1, 1, 1, 1}, (const uint32_t[]){3, 1, 4, 1}, 4, 7, offers);
    assert_int_equal(offers[0], 3);
    assert_int_equal(offers[1], 2);
    assert_int_equal(offers[2], 0);
    assert_int_equal(offers[3], 1);
}

static void determined_offers_go_round_when_slots_are_few(void **state)
{
    (void)state;
    uint32_t offers[3];
    week_determined_offers((const uint32_t[]){2, 1, 1}, (const double[]){1, 1, 1}, (const uint32_t[]){1, 1, 1}, 3, 2, offers);
    assert_int_equal(offers[0], 0);
    assert_int_equal(offers[1], 1);
    assert_int_equal(offers[2], 1);
}

static void a_profile_finds_the_first_gap(void **state)
{
    (void)state;
    struct week_profile profile;
    week_profile_init(&profile, 100, 1);
    week_profile_add(&profile, 200, 3);
    week_profile_add(&profile, 150, -1); /* from 150 to 180 somebody has the free one */
    week_profile_add(&profile, 180, 1);
    assert_int_equal(week_profile_find(&profile, 1, 50), 100);
    assert_int_equal(week_profile_find(&profile, 1, 51), 180);
    assert_int_equal(week_profile_find(&profile, 2, 10), 200);
    assert_int_equal(week_profile_find(&profile, 4, 1000000), 200);
    assert_int_equal(week_profile_find(&profile, 5, 1), UINT32_MAX);
}

/* ---- weeks of few trials ------------------------------------------------------------------------------------------- */

/* User 0 has the slot for 20 hours, user 1 asks for 10 from hour 2 on: each is entitled to half from then until one is done. */
static void two_users_share_one_slot(void **state)
{
    (void)state;
    struct week_world *world = world_of(2, 1);
    submit(world, 0, 0, 1, 20 * HOUR_S);
    submit(world, 2 * HOUR_S, 1, 1, 10 * HOUR_S);
    struct week_policy policy = policy_of(WEEK_DEFICIT);
    struct week_result result;
    struct week_trial_result trials[2];
    week_run(world, &policy, &result, trials);
    NEARLY(result.entitled_s[0][0] / HOUR_S + result.entitled_s[1][0] / HOUR_S, 24);
    assert_true(result.got_s[1][0] >= 9 * HOUR_S && result.got_s[1][0] <= result.entitled_s[1][0] * 1.1);
    assert_true(result.deviation < 0.1 && result.utilisation > 0.999);
    assert_true(trials[0].preempted >= 5);
    assert_true(trials[0].preempted + trials[1].preempted <= 24); /* a turn is about an hour */
    assert_true(trials[1].first_s - 2 * HOUR_S <= HOUR_S);

    policy = policy_of(WEEK_FIFO);
    week_run(world, &policy, &result, trials);
    assert_int_equal(trials[0].end_s, 20 * HOUR_S);
    assert_int_equal(trials[1].first_s, 20 * HOUR_S);
    NEARLY(result.got_s[1][0], 4 * HOUR_S);
    NEARLY(result.entitled_s[1][0], 9 * HOUR_S + 4 * HOUR_S); /* half of 18 hours, then all */
    assert_int_equal(result.longest_wait_s, 18 * HOUR_S);
    free(world);
}

/* Eight slots, a trickle of 100 trials of ten minutes, and a gang of eight behind it. */
static void a_gang_starts_among_a_trickle(void **state)
{
    (void)state;
    struct week_world *world = world_of(2, 8);
    for (uint32_t i = 0; i < 100; i++) {
        submit(world, i, 0, 1, 560 + (i * 7) % 80);
    }
    submit(world, 200, 1, 8, HOUR_S);
    struct week_result result;
    struct week_trial_result trials[101];
    struct week_policy policy = policy_of(WEEK_PRIORITY);
    week_run(world, &policy, &result, trials);
    assert_true(trials[100].first_s > 12 * 560); /* behind all of them */

    policy = policy_of(WEEK_DEFICIT);
    week_run(world, &policy, &result, trials);
    assert_true(trials[100].first_s <= 200 + 1800);
    assert_true(trials[100].is_done && result.completed == 101);

    policy.exempt_s = 2 * HOUR_S; /* what was lent to the gang is not exempt */
    week_run(world, &policy, &result, trials);
    assert_true(trials[100].first_s <= 200 + 1800);

    policy.preempts = false; /* it waits until eight are free at once, which is at the end */
    week_run(world, &policy, &result, trials);
    assert_true(trials[100].first_s > 10 * 560);
    free(world);
}

/* What is picked as a victim and not needed goes on: one slot is wanted, two may be taken. */
static void no_more_trials_leave_than_are_needed(void **state)
{
    (void)state;
    struct week_world *world = world_of(2, 4);
    for (uint32_t i = 0; i < 4; i++) {
        submit(world, 0, 0, 1, 12 * HOUR_S);
    }
    submit(world, HOUR_S, 1, 1, HOUR_S);
    struct week_policy policy = policy_of(WEEK_SLOTS);
    struct week_result result;
    struct week_trial_result trials[5];
    week_run(world, &policy, &result, trials);
    assert_true(trials[4].first_s <= HOUR_S + 60);
    assert_int_equal(trials[4].end_s, trials[4].first_s + HOUR_S);
    assert_int_equal(trials[0].preempted + trials[1].preempted + trials[2].preempted + trials[3].preempted, 1);
    NEARLY(result.lost * (result.got_s[0][0] + result.got_s[1][0]), 10 + 30); /* a save and a restart */
    free(world);
}

/* Two users have two slots each; the one that has used more gives the newer of its trials. */
static void the_user_with_most_usage_gives(void **state)
{
    (void)state;
    struct week_world *world = world_of(3, 4);
    submit(world, 0, 0, 1, 12 * HOUR_S);
    submit(world, 0, 0, 1, 12 * HOUR_S);
    submit(world, 1000, 2, 1, 12 * HOUR_S);
    submit(world, 1000, 2, 1, 12 * HOUR_S);
    submit(world, 3000, 1, 1, HOUR_S);
    struct week_policy policy = policy_of(WEEK_SLOTS);
    struct week_result result;
    struct week_trial_result trials[5];
    week_run(world, &policy, &result, trials);
    assert_int_equal(trials[4].first_s, 3010);
    assert_int_equal(trials[1].preempted, 1);
    NEARLY(result.preemptions, 1);
    free(world);
}

/* A gang of two takes a gang of two, and the trial of one slot that was looked at before goes on. */
static void the_fewest_trials_of_the_user_that_has_most_leave(void **state)
{
    (void)state;
    struct week_world *world = world_of(3, 8);
    for (uint32_t i = 0; i < 3; i++) {
        submit(world, 0, 0, 1, 12 * HOUR_S);
    }
    submit(world, 0, 2, 1, 12 * HOUR_S);
    submit(world, 0, 2, 1, 12 * HOUR_S);
    submit(world, 2000, 0, 2, 12 * HOUR_S);
    submit(world, 2600, 0, 1, 12 * HOUR_S);
    submit(world, 3000, 1, 2, HOUR_S);
    struct week_policy policy = policy_of(WEEK_SLOTS);
    struct week_result result;
    struct week_trial_result trials[8];
    week_run(world, &policy, &result, trials);
    assert_int_equal(trials[7].first_s, 3010);
    assert_int_equal(trials[5].preempted, 1);
    NEARLY(result.preemptions, 1);
    free(world);
}

/* User 1 lacks two slot-hours, but user 0 has no more than the one slot that it is entitled to. */
static void the_last_slot_is_not_taken_for_one(void **state)
{
    (void)state;
    struct week_world *world = world_of(2, 2);
    submit(world, 0, 0, 1, 3500);
    submit(world, 0, 0, 1, 8 * HOUR_S);
    submit(world, 10, 1, 1, 8 * HOUR_S);
    submit(world, 10, 1, 1, 8 * HOUR_S);
    struct week_policy policy = policy_of(WEEK_DEFICIT);
    policy.exempt_s = HOUR_S;
    struct week_result result;
    struct week_trial_result trials[4];
    week_run(world, &policy, &result, trials);
    assert_int_equal(trials[2].first_s, 3500);
    assert_int_equal(trials[1].preempted, 0);
    assert_int_equal(trials[1].end_s, 8 * HOUR_S);
    free(world);
}

/* A trial that was asked to leave twice within an hour stays for the rest of that hour. */
static void nobody_is_asked_a_third_time_in_an_hour(void **state)
{
    (void)state;
    struct week_world *world = world_of(2, 1);
    submit(world, 0, 0, 1, 20 * HOUR_S);
    submit(world, 0, 1, 1, 20 * HOUR_S);
    struct week_policy policy = policy_of(WEEK_DEFICIT);
    policy.horizon_h = 0.02; /* turns of some minutes, if the brakes let it */
    struct week_result result;
    struct week_trial_result trials[2];
    week_run(world, &policy, &result, trials);
    uint32_t often = trials[0].preempted + trials[1].preempted;
    assert_true(often > 24 && often <= 2 * 2 * 24);
    free(world);
}

/* However many trials a user submits, the other one has its half. */
static void a_flood_takes_nothing_from_others(void **state)
{
    (void)state;
    struct week_world *world = world_of(2, 10);
    for (uint32_t i = 0; i < 500; i++) {
        submit(world, 0, 0, 1, 1000 + (i * 37) % 900);
    }
    for (uint32_t i = 0; i < 30; i++) {
        submit(world, 0, 1, 1, 5 * HOUR_S);
    }
    struct week_policy policy = policy_of(WEEK_DEFICIT);
    struct week_result result;
    week_run(world, &policy, &result, NULL);
    assert_true(result.minimum >= 0.95 && result.utilisation > 0.999);
    NEARLY(result.entitled_s[1][0] / HOUR_S, 120);
    free(world);
}

/* Young trials are exempt: a newcomer waits until the first is five minutes old. */
static void the_young_are_not_asked(void **state)
{
    (void)state;
    struct week_world *world = world_of(2, 2);
    submit(world, 0, 0, 1, 10 * HOUR_S);
    submit(world, 0, 0, 1, 10 * HOUR_S);
    submit(world, 10, 1, 1, HOUR_S);
    struct week_policy policy = policy_of(WEEK_SLOTS);
    struct week_result result;
    struct week_trial_result trials[3];
    week_run(world, &policy, &result, trials);
    assert_int_equal(trials[2].first_s, 300 + 10);
    free(world);
}

/* A user that had more than its share for hours has one slot at once when it comes back; the last slot of another is not taken. */
static void each_user_has_a_floor(void **state)
{
    (void)state;
    struct week_world *world = world_of(3, 4);
    for (uint32_t i = 0; i < 4; i++) {
        submit(world, 0, 0, 1, HOUR_S); /* user 0 has all for an hour, */
    }
    submit(world, HOUR_S - 60, 1, 1, 8 * HOUR_S);
    for (uint32_t i = 0; i < 4; i++) {
        submit(world, HOUR_S - 60, 2, 1, 8 * HOUR_S);
    }
    submit(world, 2 * HOUR_S, 0, 1, HOUR_S); /* and comes back */
    struct week_policy policy = policy_of(WEEK_DEFICIT);
    struct week_result result;
    struct week_trial_result trials[10];
    week_run(world, &policy, &result, trials);
    assert_int_equal(trials[9].first_s, 2 * HOUR_S + 10); /* one save later */
    assert_int_equal(trials[4].preempted, 0);
    assert_int_equal(trials[9].preempted, 0);
    assert_true(result.longest_narrow_wait_s <= 70);
    free(world);
}

/* In a cut each side shares its own slots, a gang over both sides starts again, and the trials of both sides run once. */
static void a_cut_parts_gangs_and_loses_no_trial(void **state)
{
    (void)state;
    struct week_world *world = world_of(2, 4);
    world->node_side[2] = world->node_side[3] = 1;
    submit(world, 0, 0, 4, 2 * HOUR_S);
    submit(world, HOUR_S + 60, 1, 1, HOUR_S);
    submit(world, HOUR_S + 60, 1, 1, HOUR_S);
    change(world, HOUR_S, WEEK_CUT, 0);
    change(world, 4 * HOUR_S, WEEK_HEAL, 0);
    struct week_policy policy = policy_of(WEEK_DEFICIT);
    struct week_result result;
    struct week_trial_result trials[3];
    week_run(world, &policy, &result, trials);
    assert_int_equal(trials[1].end_s, 2 * HOUR_S + 60);
    assert_int_equal(trials[2].end_s, 2 * HOUR_S + 60);
    assert_int_equal(trials[0].end_s, 5 * HOUR_S + 30); /* one hour of two was made, nothing since the checkpoint at the cut */
    NEARLY(result.evictions, 1);
    NEARLY(result.got_s[1][0], 2 * HOUR_S);
    free(world);
}

/* The owner's slot is free within the grace, and the trial goes on with what it has made. */
static void an_owner_gets_the_slot_back(void **state)
{
    (void)state;
    struct week_world *world = world_of(1, 1);
    submit(world, 0, 0, 1, 2 * HOUR_S);
    change(world, HOUR_S, WEEK_OWNER_COMES, 0);
    change(world, 3 * HOUR_S, WEEK_OWNER_GOES, 0);
    struct week_policy policy = policy_of(WEEK_FIFO);
    struct week_result result;
    struct week_trial_result trials[1];
    week_run(world, &policy, &result, trials);
    assert_int_equal(trials[0].end_s, 4 * HOUR_S + 30);
    NEARLY(result.got_s[0][0], 2 * HOUR_S + 10 + 30);
    world->changes[0].kind = WEEK_NODE_DIES;
    world->changes[1].kind = WEEK_NODE_RETURNS;
    world->changes[0].at_s += 100; /* after the checkpoint at one hour */
    week_run(world, &policy, &result, trials);
    assert_int_equal(trials[0].end_s, 4 * HOUR_S + 30);
    free(world);
}

/* A short trial runs beside the drain of a gang, a long one does not. */
static void backfill_keeps_the_place_of_the_first(void **state)
{
    (void)state;
    struct week_world *world = world_of(3, 2);
    submit(world, 0, 0, 1, 2 * HOUR_S);
    submit(world, 10, 1, 2, HOUR_S);
    submit(world, 20, 2, 1, 3 * HOUR_S);
    submit(world, 30, 2, 1, HOUR_S);
    struct week_policy policy = policy_of(WEEK_SLURM);
    struct week_result result;
    struct week_trial_result trials[4];
    week_run(world, &policy, &result, trials);
    assert_true(trials[1].first_s <= 2 * HOUR_S + 60);
    assert_true(trials[3].first_s <= 90);
    assert_true(trials[2].first_s >= trials[1].end_s);
    free(world);
}

/* ---- the drawn world ---------------------------------------------------------------------------------------------- */

static void a_drawn_week_is_what_its_numbers_say(void **state)
{
    (void)state;
    struct week_world *world = calloc(1, sizeof *world);
    CHECK(world != NULL);
    week_world_draw(world, 7, 0.95, 0, true);
    double work = 0, capacity = 0;
    for (uint32_t i = 0; i < world->trial_count; i++) {
        assert_true(world->trials[i].limit_s >= world->trials[i].work_s);
        assert_true(i == 0 || world->trials[i - 1].submit_s <= world->trials[i].submit_s);
        work += (double)world->trials[i].work_s * world->trials[i].width;
    }
    for (uint32_t slot = 0; slot < world->slot_count; slot++) {
        capacity += world->node_speed[world->slot_node[slot]] * world->end_s;
    }
    assert_int_equal(world->slot_count, 40);
    assert_true(work >= 0.95 * capacity && work < 1.3 * capacity);
    uint32_t trial_count = world->trial_count, change_count = world->change_count;
    week_world_draw(world, 7, 0.95, 0, false);
    assert_int_equal(world->trial_count, trial_count); /* faults do not move the trials */
    assert_true(world->change_count < change_count);
    free(world);
}

/* Whatever the order: no slot is used twice, and a completed trial had its work. */
static void every_order_keeps_the_books(void **state)
{
    (void)state;
    struct week_world *world = calloc(1, sizeof *world);
    CHECK(world != NULL);
    week_world_draw(world, 3, 0.7, 0, true);
    struct week_trial_result *trials = calloc(WEEK_TRIALS_MAX, sizeof *trials);
    CHECK(trials != NULL);
    for (enum week_order order = WEEK_FIFO; order <= WEEK_DEFICIT; order++) {
        struct week_policy policy = policy_of(order);
        struct week_result result;
        week_run(world, &policy, &result, trials);
        double got = 0, work = 0;
        for (uint32_t user = 0; user < world->user_count; user++) {
            for (uint32_t day = 0; day < WEEK_DAYS; day++) {
                got += result.got_s[user][day];
            }
        }
        for (uint32_t i = 0; i < world->trial_count; i++) {
            work += trials[i].is_done ? (double)world->trials[i].work_s * world->trials[i].width : 0;
        }
        assert_true(got * 1.4 >= work && got <= (double)world->slot_count * world->end_s);
        assert_true(result.utilisation > 0 && result.utilisation <= 1 + 1e-9);
        assert_true(result.completed > world->trial_count / 2);
    }
    free(trials);
    free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(max_min_meets_small_demands_first),
        cmocka_unit_test(determined_offers_are_those_of_its_tests),
        cmocka_unit_test(determined_offers_go_round_when_slots_are_few),
        cmocka_unit_test(a_profile_finds_the_first_gap),
        cmocka_unit_test(two_users_share_one_slot),
        cmocka_unit_test(a_gang_starts_among_a_trickle),
        cmocka_unit_test(no_more_trials_leave_than_are_needed),
        cmocka_unit_test(the_user_with_most_usage_gives),
        cmocka_unit_test(the_fewest_trials_of_the_user_that_has_most_leave),
        cmocka_unit_test(the_last_slot_is_not_taken_for_one),
        cmocka_unit_test(nobody_is_asked_a_third_time_in_an_hour),
        cmocka_unit_test(a_flood_takes_nothing_from_others),
        cmocka_unit_test(the_young_are_not_asked),
        cmocka_unit_test(each_user_has_a_floor),
        cmocka_unit_test(a_cut_parts_gangs_and_loses_no_trial),
        cmocka_unit_test(an_owner_gets_the_slot_back),
        cmocka_unit_test(backfill_keeps_the_place_of_the_first),
        cmocka_unit_test(a_drawn_week_is_what_its_numbers_say),
        cmocka_unit_test(every_order_keeps_the_books),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
