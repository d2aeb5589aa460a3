/* How often the premises of the simulator's checkers have to occur. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/sim/premises.h"

#define OLDEST 1
#define NEWEST 8

static uint64_t counts[PREMISE_COUNT];
static char *said;

static bool suffice(uint64_t seeds, uint32_t plan_version)
{
    free(said);
    size_t bytes;
    FILE *out = open_memstream(&said, &bytes);
    assert_non_null(out);
    bool is_enough = premises_suffice(counts, seeds, plan_version, out);
    (void)fclose(out);
    return is_enough;
}

static const char *last_line(void)
{
    said[strlen(said) - 1] = '\0';
    return strrchr(said, '\n') + 1;
}

static int each_occurs_often(void **state)
{
    (void)state;
    for (int i = 0; i < PREMISE_COUNT; i++) {
        counts[i] = PREMISES_OFTEN;
    }
    return 0;
}

static int end_text(void **state)
{
    (void)state;
    free(said);
    return 0;
}

static void what_occurs_too_rarely_in_a_long_run_fails_it_and_is_named(void **state)
{
    (void)state;
    assert_true(suffice(PREMISES_OFTEN_SEEDS, NEWEST));
    assert_null(strstr(said, "premises"));
    counts[PREMISE_2_RETURNED] = PREMISES_OFTEN - 1;
    counts[PREMISE_11_ON_SIDE] = 0;
    assert_false(suffice(PREMISES_OFTEN_SEEDS - 1, NEWEST)); /* one never occurred */
    assert_null(strstr(last_line(), checkers_premise_names[PREMISE_2_RETURNED]));
    assert_false(suffice(PREMISES_OFTEN_SEEDS, NEWEST));
    char wanted[400];
    (void)snprintf(wanted, sizeof wanted,
                   "2 of %d premises occurred fewer than 1000 times in 100000 seeds: what is to follow from them was hardly "
                   "checked: %s (999); %s (0)",
                   PREMISE_COUNT, checkers_premise_names[PREMISE_2_RETURNED], checkers_premise_names[PREMISE_11_ON_SIDE]);
    assert_string_equal(last_line(), wanted);
}

static void shorter_runs_have_to_meet_each_or_none(void **state)
{
    (void)state;
    counts[PREMISE_2_RETURNED] = 1;
    assert_true(suffice(500, NEWEST));
    counts[PREMISE_2_RETURNED] = 0;
    assert_false(suffice(500, NEWEST));
    assert_true(suffice(499, NEWEST));
}

static void the_rarest_are_asked_for_in_longer_ones_only(void **state)
{
    (void)state;
    counts[PREMISE_11_ON_SIDE] = 0;
    assert_true(suffice(3999, NEWEST));
    assert_false(suffice(4000, NEWEST));
}

static void what_older_plans_do_not_hold_is_not_asked_of_them(void **state)
{
    (void)state;
    counts[PREMISE_11_ROTTEN] = counts[PREMISE_6_LATER_KIND] = 0;
    assert_true(suffice(PREMISES_OFTEN_SEEDS, 6));
    counts[PREMISE_9_REGROUPED] = 0;
    assert_false(suffice(PREMISES_OFTEN_SEEDS, 6));
    assert_true(suffice(PREMISES_OFTEN_SEEDS, OLDEST));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_occurs_too_rarely_in_a_long_run_fails_it_and_is_named, each_occurs_often),
        cmocka_unit_test_setup(shorter_runs_have_to_meet_each_or_none, each_occurs_often),
        cmocka_unit_test_setup(the_rarest_are_asked_for_in_longer_ones_only, each_occurs_often),
        cmocka_unit_test_setup(what_older_plans_do_not_hold_is_not_asked_of_them, each_occurs_often),
    };
    return cmocka_run_group_tests(tests, NULL, end_text);
}
