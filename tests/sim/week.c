/* A week of a lab under several orders of its queue; see week.h. tools/bench/week makes the table of several seeds. */

#include "tests/sim/week.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "tests/sim/command_line.h"

#define BY_USERS .preempts = true, .has_bids = true, .has_floor = true, .half_life_h = 24

static struct week_policy policies[] = {
    {.name = "fifo", .order = WEEK_FIFO, .half_life_h = 24},
    {.name = "slurm", .order = WEEK_SLURM, .half_life_h = 168},
    {.name = "determined", .order = WEEK_DETERMINED, .preempts = true, .half_life_h = 24},
    {.name = "before", .order = WEEK_PRIORITY, .half_life_h = 24},
    {.name = "slots", .order = WEEK_SLOTS, BY_USERS, .exempt_s = 300, .per_hour = 2, .over_part = 0.2, .over_slots = 1},
    {.name = "deficit", .order = WEEK_DEFICIT, BY_USERS, .exempt_s = 300, .per_hour = 2, .horizon_h = 0.5},
    {.name = "ideal", .order = WEEK_DEFICIT, .preempts = true, .has_bids = true, .half_life_h = 24, .is_free = true, .horizon_h = 0.25},
};

enum { POLICIES = sizeof policies / sizeof policies[0] };

static void print_days(const struct week_world *world, const struct week_result *result)
{
    for (uint32_t user = 0; user < world->user_count; user++) {
        printf("  user %2u:", user);
        for (uint32_t day = 0; day < WEEK_DAYS; day++) {
            printf(" %6.1f of %6.1f", result->got_s[user][day] / 3600, result->entitled_s[user][day] / 3600);
        }
        printf("; waited %u s\n", result->user_wait_s[user]);
    }
}

static void print_row(const char *order, uint32_t trials, const struct week_result *result)
{
    printf("%-10s %u trials, %u user-days: deviation %.3f, within %.3f, minimum %.3f, longest wait %u s (%u s for one slot), "
           "utilisation %.4f, lost %.5f, %.1f preemptions and %.1f evictions a day, %u completed\n",
           order, trials, result->user_days, result->deviation, result->within, result->minimum, result->longest_wait_s,
           result->longest_narrow_wait_s, result->utilisation, result->lost, result->preemptions, result->evictions, result->completed);
}

static void print_json(const char *order, uint32_t trials, const struct week_result *result)
{
    printf("{\"order\": \"%s\", \"trials\": %u, \"user_days\": %u, \"deviation\": %.4f, \"within\": %.4f, \"minimum\": %.4f, "
           "\"longest_wait_s\": %u, \"longest_narrow_wait_s\": %u, \"utilisation\": %.4f, \"lost\": %.5f, "
           "\"preemptions\": %.1f, \"evictions\": %.1f, \"completed\": %u}\n",
           order, trials, result->user_days, result->deviation, result->within, result->minimum, result->longest_wait_s,
           result->longest_narrow_wait_s, result->utilisation, result->lost, result->preemptions, result->evictions, result->completed);
}

static const char purpose[] = 
    "A simulated week of 12 users on 24 nodes with 40 slots, one line for each order of the queue. --half-life and what follows\n"
    "it in this list, up to --error, are about the orders slots and deficit alone.\n";

int main(int argc, char **argv)
{
    uint64_t seed = 1, exempt_s = 300, per_hour = 2;
    bool has_faults = false, has_no_floor = false, is_json = false, shows_days = false;
    double load = 0.95, fixed = 0, error = 0, half_life = 24, over = 0.2, turn = 0, horizon = 0.5, threshold = 0;
    const char *order = NULL;
    static const char *const orders[] = {"fifo", "slurm", "determined", "before", "slots", "deficit", "ideal", NULL};
    const struct command_line_option rows[] = {
        {.name = "--seed", .value = "S", .help = "of the week; else 1", .number = &seed},
        {.name = "--load", .value = "X", .help = "work in parts of what the slots can do; else 0.95", .real = &load, .max = 10},
        {.name = "--faults", .help = "nodes die, and a cut parts them for hours", .given = &has_faults},
        {.name = "--fixed", .value = "PART", .help = "of the experiments may not be preempted; else 0", .real = &fixed, .max = 1},
        {.name = "--order", .value = "NAME", .help = "this one; else all", .text = &order, .words = orders},
        {.name = "--half-life", .value = "HOURS", .help = "of usage and deficit; else 24", .real = &half_life, .min = 1, .max = 1000},
        {.name = "--exempt", .value = "S", .help = "no trial is asked to leave before; else 300", .number = &exempt_s, .max = 1000000},
        {.name = "--per-hour", .value = "N", .help = "a trial is asked to leave so often; else 2", .number = &per_hour, .min = 1, .max = 2},
        {.name = "--over", .value = "PART", .help = "of slots: more than its entitlement; else 0.2", .real = &over, .max = 10},
        {.name = "--turn", .value = "HOURS", .help = "of slots: less usage for a turn; else 0, no turns", .real = &turn, .max = 1000},
        {.name = "--horizon", .value = "HOURS", .help = "of deficit; else 0.5", .real = &horizon, .max = 1000},
        {.name = "--threshold", .value = "HOURS", .help = "of deficit; else 0", .real = &threshold, .max = 1000},
        {.name = "--no-floor", .help = "a user with nothing running takes no slot for that", .given = &has_no_floor},
        {.name = "--error", .value = "HOURS", .help = "usage and deficit are known wrongly by this; else 0", .real = &error, .max = 1000},
        {.name = "--days", .help = "also what each user got of what it was entitled to, in slot-hours", .given = &shows_days},
        {.name = "--json", .help = "one object a line", .given = &is_json},
    };
    const struct command_line line = {purpose, rows, sizeof rows / sizeof rows[0]};
    int status = command_line_read(&line, argc, argv, stdout, stderr);
    if (status != COMMAND_LINE_GO_ON) {
        return status;
    }
    struct week_world *world = malloc(sizeof *world);
    CHECK(world != NULL);
    week_world_draw(world, seed, load, fixed, has_faults);
    for (uint32_t i = 0; i < POLICIES; i++) {
        struct week_policy *policy = &policies[i];
        if (order != NULL && strcmp(order, policy->name) != 0) {
            continue;
        }
        if (strcmp(policy->name, "slots") == 0 || strcmp(policy->name, "deficit") == 0) {
            policy->half_life_h = half_life;
            policy->exempt_s = (uint32_t)exempt_s;
            policy->per_hour = (uint32_t)per_hour;
            policy->over_part = over;
            policy->turn_h = turn;
            policy->horizon_h = horizon;
            policy->threshold_h = threshold;
            policy->has_floor = !has_no_floor;
            policy->error_h = error;
        }
        struct week_result result;
        week_run(world, policy, &result, NULL);
        if (is_json) {
            print_json(policy->name, world->trial_count, &result);
        } else {
            print_row(policy->name, world->trial_count, &result);
        }
        if (shows_days) {
            print_days(world, &result);
        }
    }
    free(world);
    return 0;
}
