/* When a machine is its owner's: the rule, and times of the day as people write them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/config/hours.h"
#include "node/core/facts/policy.h"

#define MONDAY_NOON_S UINT64_C(1764590400) /* 2025-12-01 12:00 UTC */
#define MINUTES(hour, minute) ((hour) * 60u + (minute))

static struct fact_policy policy;
static struct policy_memory memory;
static uint64_t until_s;

static struct policy_look at(uint32_t weekday, uint32_t minute)
{
    return (struct policy_look){.now_ms = 1000, .wall_s = MONDAY_NOON_S, .weekday = weekday, .minute = minute};
}

static enum fact_policy_why decide(const struct policy_look *look)
{
    return policy_decide(&policy, look, &memory, &until_s);
}

static int setup(void **state)
{
    (void)state;
    memset(&policy, 0, sizeof policy);
    memset(&memory, 0, sizeof memory);
    return 0;
}

static void set_hours(const char *text)
{
    assert_int_equal(hours_read(text, policy.hours, &policy.hours_count), 0);
}

static void without_a_policy_nothing_is_a_reason(void **state)
{
    (void)state;
    struct policy_look look = at(0, 0);
    look.has_load = look.is_active = true;
    look.others_permille = 1000;
    for (uint32_t i = 0; i < 100; i++) {
        look.now_ms += 2000;
        assert_int_equal(decide(&look), FACT_POLICY_NONE);
    }
    assert_int_equal(until_s, 0);
}

static void hours_hold_by_the_clock(void **state)
{
    (void)state;
    set_hours("9-18 mon-fri");
    for (uint32_t day = 0; day < 7; day++) {
        for (uint32_t minute = 0; minute < FACT_DAY_MINUTES; minute++) {
            struct policy_look look = at(day, minute);
            bool is_owners = day < 5 && minute >= MINUTES(9, 0) && minute < MINUTES(18, 0);
            assert_int_equal(decide(&look), is_owners ? FACT_POLICY_HOURS : FACT_POLICY_NONE);
        }
    }
    struct policy_look noon = at(0, MINUTES(12, 0));
    noon.wall_s += 17; /* seconds into the minute */
    assert_int_equal(decide(&noon), FACT_POLICY_HOURS);
    assert_int_equal(until_s, MONDAY_NOON_S + 6 * 3600);
}

static void hours_go_over_midnight_and_the_week(void **state)
{
    (void)state;
    set_hours("22-6 sun");
    struct policy_look sunday = at(6, MINUTES(23, 0)), monday = at(0, MINUTES(5, 59)), over = at(0, MINUTES(6, 0));
    assert_int_equal(decide(&sunday), FACT_POLICY_HOURS);
    assert_int_equal(until_s, MONDAY_NOON_S + 7 * 3600);
    assert_int_equal(decide(&monday), FACT_POLICY_HOURS);
    assert_int_equal(until_s, MONDAY_NOON_S + 60);
    assert_int_equal(decide(&over), FACT_POLICY_NONE);
    struct policy_look early = at(6, MINUTES(5, 0)); /* of the night that began on Saturday */
    assert_int_equal(decide(&early), FACT_POLICY_NONE);
    set_hours("0-24 tue");
    struct policy_look first = at(1, 0), last = at(1, MINUTES(23, 59)), next = at(2, 0);
    assert_int_equal(decide(&first), FACT_POLICY_HOURS);
    assert_int_equal(decide(&last), FACT_POLICY_HOURS);
    assert_int_equal(decide(&next), FACT_POLICY_NONE);
}

static void the_longest_of_several_hours_is_told(void **state)
{
    (void)state;
    set_hours("9-13; 12-20 mon");
    struct policy_look noon = at(0, MINUTES(12, 0)), tuesday = at(1, MINUTES(12, 0));
    assert_int_equal(decide(&noon), FACT_POLICY_HOURS);
    assert_int_equal(until_s, MONDAY_NOON_S + 8 * 3600);
    assert_int_equal(decide(&tuesday), FACT_POLICY_HOURS);
    assert_int_equal(until_s, MONDAY_NOON_S + 3600);
}

/* The looks come every 2 s; `permille` for so many of them. The last answer. */
static enum fact_policy_why looks(struct policy_look *look, uint32_t permille, uint32_t count)
{
    enum fact_policy_why why = FACT_POLICY_NONE;
    look->has_load = true;
    look->others_permille = permille;
    for (uint32_t i = 0; i < count; i++) {
        look->now_ms += 2000;
        why = decide(look);
    }
    return why;
}

static void load_counts_once_it_lasts_and_a_while_longer(void **state)
{
    (void)state;
    policy.load_percent = 50;
    policy.back_after_s = 60;
    struct policy_look look = at(0, 0);
    assert_int_equal(looks(&look, 499, 100), FACT_POLICY_NONE);
    assert_int_equal(looks(&look, 900, 5), FACT_POLICY_NONE); /* 8 s */
    assert_int_equal(looks(&look, 499, 1), FACT_POLICY_NONE);
    assert_int_equal(looks(&look, 500, 5), FACT_POLICY_NONE); /* from the beginning */
    assert_int_equal(looks(&look, 500, 1), FACT_POLICY_LOAD); /* 10 s */
    assert_int_equal(looks(&look, 0, 28), FACT_POLICY_LOAD);
    assert_int_equal(looks(&look, 500, 1), FACT_POLICY_LOAD); /* one look is enough while the slots are the owner's */
    assert_int_equal(looks(&look, 0, 29), FACT_POLICY_LOAD);
    assert_int_equal(looks(&look, 0, 1), FACT_POLICY_NONE);
    assert_int_equal(looks(&look, 1000, 5), FACT_POLICY_NONE); /* and then it has to last again */
    assert_int_equal(until_s, 0);
}

static void a_look_without_a_load_says_nothing_of_it(void **state)
{
    (void)state;
    policy.load_percent = 50;
    policy.back_after_s = 60;
    struct policy_look look = at(0, 0);
    assert_int_equal(looks(&look, 500, 5), FACT_POLICY_NONE);
    look.has_load = false;
    look.now_ms += 2000;
    assert_int_equal(decide(&look), FACT_POLICY_NONE);
    assert_int_equal(looks(&look, 500, 1), FACT_POLICY_LOAD);
}

static void activity_counts_at_once_and_a_while_longer(void **state)
{
    (void)state;
    policy.activity = true;
    policy.back_after_s = 600;
    struct policy_look look = at(0, 0);
    assert_int_equal(decide(&look), FACT_POLICY_NONE);
    look.is_active = true;
    assert_int_equal(decide(&look), FACT_POLICY_ACTIVITY);
    look.is_active = false;
    look.now_ms += 599999;
    assert_int_equal(decide(&look), FACT_POLICY_ACTIVITY);
    look.now_ms += 1;
    assert_int_equal(decide(&look), FACT_POLICY_NONE);
    policy.back_after_s = 0;
    look.is_active = true;
    assert_int_equal(decide(&look), FACT_POLICY_ACTIVITY);
    look.is_active = false;
    look.now_ms += 1;
    assert_int_equal(decide(&look), FACT_POLICY_NONE);
}

static void the_first_of_several_reasons_counts(void **state)
{
    (void)state;
    policy.activity = true;
    policy.load_percent = 1;
    policy.back_after_s = 600;
    struct policy_look look = at(0, MINUTES(8, 0));
    assert_int_equal(looks(&look, 1000, 6), FACT_POLICY_LOAD);
    look.is_active = true;
    assert_int_equal(looks(&look, 1000, 1), FACT_POLICY_ACTIVITY);
    set_hours("8-9");
    assert_int_equal(looks(&look, 1000, 1), FACT_POLICY_HOURS);
}

static void a_reason_goes_on_after_a_restart(void **state)
{
    (void)state;
    policy.activity = true;
    policy.load_percent = 50;
    policy.back_after_s = 60;
    struct policy_look look = at(0, 0);
    policy_remember(FACT_POLICY_NONE, look.now_ms, &memory);
    assert_int_equal(decide(&look), FACT_POLICY_NONE);
    policy_remember(FACT_POLICY_LOAD, look.now_ms, &memory);
    assert_int_equal(decide(&look), FACT_POLICY_LOAD);
    look.now_ms += 60000;
    assert_int_equal(decide(&look), FACT_POLICY_NONE);
    policy_remember(FACT_POLICY_ACTIVITY, look.now_ms, &memory);
    assert_int_equal(decide(&look), FACT_POLICY_ACTIVITY);
}

static void hours_are_read_as_people_write_them(void **state)
{
    (void)state;
    static const struct {
        const char *text, *again;
    } good[] = {
        {"9-18 mon-fri", "9-18 mon-fri"}, {"09:00-18:30", "9-18:30"},         {"22-6 fri-mon", "22-6 mon,fri-sun"},
        {"9-18 sat,sun", "9-18 sat-sun"}, {" 0-24 ; 9-10 wed ", "0-24; 9-10 wed"}, {"9-18 mon,wed-thu,sun", "9-18 mon,wed-thu,sun"},
    };
    static const char *const bad[] = {"",          "9",        "9-",        "-18",     "25-26",   "9-18 mo",        "9-18 mon-", "9-18 mon,",
                                      "9-18 mon fri", "9:60-18", "9:5-18",  "24-6",    "9-24:01", "9-18;",          "9-18 Mon",  "9-18x",
                                      "1-2;1-2;1-2;1-2;1-2;1-2;1-2;1-2;1-2"};
    struct fact_hours hours[FACT_HOURS_MAX], again[FACT_HOURS_MAX];
    uint32_t count, again_count;
    char text[HOURS_BYTES];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        memset(hours, 0, sizeof hours);
        memset(again, 0, sizeof again);
        assert_int_equal(hours_read(good[i].text, hours, &count), 0);
        hours_write(text, hours, count);
        assert_string_equal(text, good[i].again);
        assert_int_equal(hours_read(text, again, &again_count), 0);
        assert_int_equal(count, again_count);
        assert_memory_equal(hours, again, count * sizeof hours[0]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        count = 77;
        assert_int_equal(hours_read(bad[i], hours, &count), ERR_MALFORMED);
        assert_int_equal(count, 77);
    }
}

static void the_longest_hours_fit(void **state)
{
    (void)state;
    struct fact_hours hours[FACT_HOURS_MAX];
    char text[HOURS_BYTES];
    for (uint32_t i = 0; i < FACT_HOURS_MAX; i++) {
        hours[i] = (struct fact_hours){.days = 1 | 4 | 16 | 64, .from = MINUTES(22, 22), .until = MINUTES(23, 23)};
    }
    hours_write(text, hours, FACT_HOURS_MAX);
    uint32_t count;
    assert_int_equal(hours_read(text, hours, &count), 0);
    assert_int_equal(count, FACT_HOURS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(without_a_policy_nothing_is_a_reason, setup),
        cmocka_unit_test_setup(hours_hold_by_the_clock, setup),
        cmocka_unit_test_setup(hours_go_over_midnight_and_the_week, setup),
        cmocka_unit_test_setup(the_longest_of_several_hours_is_told, setup),
        cmocka_unit_test_setup(load_counts_once_it_lasts_and_a_while_longer, setup),
        cmocka_unit_test_setup(a_look_without_a_load_says_nothing_of_it, setup),
        cmocka_unit_test_setup(activity_counts_at_once_and_a_while_longer, setup),
        cmocka_unit_test_setup(the_first_of_several_reasons_counts, setup),
        cmocka_unit_test_setup(a_reason_goes_on_after_a_restart, setup),
        cmocka_unit_test_setup(hours_are_read_as_people_write_them, setup),
        cmocka_unit_test_setup(the_longest_hours_fit, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
