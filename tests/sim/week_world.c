/* The numbers are those of public traces (Philly, Helios' Venus, Alibaba PAI): skewed users, bursts, a lognormal run with a
 * heavy tail, gangs of powers of two, a day with a peak in the afternoon. */

#include "tests/sim/week.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/random.h"

#define HOUR_S 3600.0
#define RUN_MU 6.0
#define RUN_SIGMA 2.3
#define RUN_MAX_S (3 * WEEK_DAY_S)
#define ZIPF 1.2
#define BURST_MEAN 8.0
#define SEARCH_TRIALS 100
#define SEARCH_PART 0.05     /* of the bursts */
#define URGENT_PART 0.2      /* of the bursts have a better `priority` */
#define FAIL_PART 0.2
#define FAIL_MAX_S 300
#define CANCEL_PART 0.2
#define LIMIT_FACTOR_MAX 5.0 /* a limit is 1 to so many times the run */
#define SLOWEST 0.7
#define DEATHS_A_WEEK 7.0
#define DOWN_MEAN_S (2 * HOUR_S)
#define CUT_MIN_S (4 * HOUR_S)
#define CUT_MORE_S (8 * HOUR_S)

enum { STREAM_TRIALS = 1, STREAM_OWNERS, STREAM_FAULTS, STREAM_FIXED };

/* Arrivals by hour of the day and by day of the week, Monday first, in parts of the mean. */
static const double hours[24] = {0.75, 0.60, 0.50, 0.42, 0.33, 0.24, 0.19, 0.25, 0.45, 0.80, 1.15, 1.35,
                                 1.30, 1.35, 1.50, 1.65, 1.73, 1.73, 1.50, 1.30, 1.25, 1.25, 1.15, 0.95};
static const double days[WEEK_DAYS] = {1.05, 1.12, 1.27, 1.10, 1.01, 0.68, 0.77};

static double exponential(struct random *random, double mean)
{
    return -mean * log(1.0 - random_double(random));
}

static double lognormal(struct random *random, double mu, double sigma)
{
    double radius = sqrt(-2.0 * log(1.0 - random_double(random)));
    return exp(mu + sigma * radius * cos(6.283185307179586 * random_double(random)));
}

static void make_nodes(struct week_world *world)
{
    static const uint32_t slots[4] = {1, 1, 2, 3}; /* 24 nodes make 42; the last two have one less */
    static const double speeds[3] = {1.0, 1.4, SLOWEST};
    world->node_count = WEEK_NODES_MAX;
    for (uint32_t node = 0; node < world->node_count; node++) {
        world->node_speed[node] = speeds[node % 3];
        world->node_owned[node] = node % 2 == 0;
        world->node_side[node] = node >= world->node_count * 2 / 3;
        for (uint32_t i = 0; i < slots[node % 4] - (node >= world->node_count - 2); i++) {
            CHECK(world->slot_count < WEEK_SLOTS_MAX);
            world->slot_node[world->slot_count++] = node;
        }
    }
    CHECK(world->slot_count == WEEK_SLOTS_MAX);
}

/* ---- trials ------------------------------------------------------------------------------------------------------- */

static uint32_t draw_user(struct random *random, uint32_t count)
{
    double sum = 0;
    for (uint32_t user = 0; user < count; user++) {
        sum += pow(user + 1, -ZIPF);
    }
    double left = random_double(random) * sum;
    uint32_t user = 0;
    for (; user + 1 < count && left >= pow(user + 1, -ZIPF); user++) {
        left -= pow(user + 1, -ZIPF);
    }
    return user;
}

static double draw_time(struct random *random)
{
    for (;;) {
        double at_s = random_double(random) * WEEK_DAYS * WEEK_DAY_S;
        uint32_t day = (uint32_t)(at_s / WEEK_DAY_S), hour = (uint32_t)(fmod(at_s, WEEK_DAY_S) / HOUR_S);
        if (random_double(random) * 1.73 * 1.27 < hours[hour] * days[day]) {
            return at_s;
        }
    }
}

static uint32_t draw_width(struct random *random)
{
    double x = random_double(random);
    return x < 0.75 ? 1 : x < 0.88 ? 2 : x < 0.96 ? 4 : 8;
}

static uint32_t draw_burst_size(struct random *random)
{
    if (random_double(random) < SEARCH_PART) {
        return SEARCH_TRIALS;
    }
    return 1 + (uint32_t)(log(1.0 - random_double(random)) / log(1.0 - 1.0 / BURST_MEAN));
}

/* Draws the trials of one burst until they have `left` slot-seconds of work together. Returns what they have. */
static double draw_burst(struct week_world *world, struct random *random, uint32_t experiment, double left)
{
    uint32_t user = draw_user(random, world->user_count), size = draw_burst_size(random);
    uint32_t width = size == SEARCH_TRIALS ? 1 : draw_width(random);
    uint32_t priority = random_double(random) < URGENT_PART ? 25 : 50;
    double at_s = draw_time(random), drawn = 0;
    for (uint32_t i = 0; i < size && drawn < left && at_s < world->end_s; i++) {
        double run_s = fmin(fmax(lognormal(random, RUN_MU, RUN_SIGMA), 1.0), RUN_MAX_S), work_s = run_s, end = random_double(random);
        if (end < FAIL_PART) {
            work_s = fmin(run_s, 10 + random_double(random) * (FAIL_MAX_S - 10));
        } else if (end < FAIL_PART + CANCEL_PART) {
            work_s = fmax(1.0, run_s * random_double(random));
        }
        CHECK(world->trial_count < WEEK_TRIALS_MAX);
        world->trials[world->trial_count++] = (struct week_trial){
            .submit_s = (uint32_t)at_s, .user = user, .experiment = experiment, .width = width, .priority = priority,
            .work_s = (uint32_t)ceil(work_s),
            .limit_s = (uint32_t)(60 + run_s / SLOWEST * (1 + random_double(random) * (LIMIT_FACTOR_MAX - 1))),
            .save_s = (uint32_t)fmin(1 + lognormal(random, 2.3, 1.0), 300)};
        drawn += ceil(work_s) * width;
        at_s += exponential(random, 20);
    }
    return drawn;
}

static int by_submission(const void *a, const void *b)
{
    const struct week_trial *x = a, *y = b;
    if (x->submit_s != y->submit_s) {
        return x->submit_s < y->submit_s ? -1 : 1;
    }
    if (x->experiment != y->experiment) {
        return x->experiment < y->experiment ? -1 : 1;
    }
    return x->work_s != y->work_s ? (x->work_s < y->work_s ? -1 : 1) : (int)x->save_s - (int)y->save_s;
}

static void draw_trials(struct week_world *world, struct random *random, double load)
{
    double left = 0;
    for (uint32_t slot = 0; slot < world->slot_count; slot++) {
        left += world->node_speed[world->slot_node[slot]] * world->end_s * load;
    }
    for (uint32_t experiment = 0; left > 0; experiment++) {
        left -= draw_burst(world, random, experiment, left);
    }
    qsort(world->trials, world->trial_count, sizeof world->trials[0], by_submission);
}

/* ---- owners and faults -------------------------------------------------------------------------------------------- */

static void change(struct week_world *world, double at_s, enum week_change_kind kind, uint32_t node)
{
    CHECK(world->change_count < WEEK_CHANGES_MAX);
    world->changes[world->change_count++] = (struct week_change){(uint32_t)at_s, kind, node};
}

/* From about 9 to about 18 on four of five working days an owner works for an hour, is away for two thirds of one, and so on. */
static void draw_owner(struct week_world *world, struct random *random, uint32_t node)
{
    for (uint32_t day = 0; day < 5; day++) {
        if (random_double(random) < 0.2) {
            continue;
        }
        double at_s = day * WEEK_DAY_S + (8.5 + random_double(random)) * HOUR_S;
        double end_s = day * WEEK_DAY_S + (17.5 + random_double(random)) * HOUR_S;
        while (at_s < end_s) {
            change(world, at_s, WEEK_OWNER_COMES, node);
            at_s = fmin(at_s + 60 + exponential(random, HOUR_S), end_s);
            change(world, at_s, WEEK_OWNER_GOES, node);
            at_s += 60 + exponential(random, HOUR_S * 2 / 3);
        }
    }
}

static void draw_faults(struct week_world *world, struct random *random)
{
    for (uint32_t node = 0; node < world->node_count; node++) {
        double mean_s = world->end_s * world->node_count / DEATHS_A_WEEK;
        for (double at_s = exponential(random, mean_s); at_s < world->end_s; at_s += exponential(random, mean_s)) {
            change(world, at_s, WEEK_NODE_DIES, node);
            at_s += 60 + exponential(random, DOWN_MEAN_S);
            change(world, at_s, WEEK_NODE_RETURNS, node);
        }
    }
    double cut_s = (1 + 3 * random_double(random)) * WEEK_DAY_S;
    change(world, cut_s, WEEK_CUT, 0);
    change(world, cut_s + CUT_MIN_S + CUT_MORE_S * random_double(random), WEEK_HEAL, 0);
}

static int by_time(const void *a, const void *b)
{
    const struct week_change *x = a, *y = b;
    if (x->at_s != y->at_s) {
        return x->at_s < y->at_s ? -1 : 1;
    }
    return x->node != y->node ? (x->node < y->node ? -1 : 1) : (int)x->kind - (int)y->kind;
}

void week_world_draw(struct week_world *world, uint64_t seed, double load, double fixed, bool has_faults)
{
    struct random trials, owners, faults;
    memset(world, 0, sizeof *world);
    random_init_stream(&trials, seed, STREAM_TRIALS);
    random_init_stream(&owners, seed, STREAM_OWNERS);
    random_init_stream(&faults, seed, STREAM_FAULTS);
    world->user_count = WEEK_USERS_MAX;
    world->end_s = WEEK_DAYS * WEEK_DAY_S;
    make_nodes(world);
    draw_trials(world, &trials, load);
    for (uint32_t node = 0; node < world->node_count; node++) {
        if (world->node_owned[node]) {
            draw_owner(world, &owners, node);
        }
    }
    for (uint32_t i = 0; i < world->trial_count; i++) {
        struct random one; /* of the experiment, so that another part of fixed ones moves no other number */
        random_init_stream(&one, seed + world->trials[i].experiment, STREAM_FIXED);
        world->trials[i].is_fixed = random_double(&one) < fixed;
    }
    if (has_faults) {
        draw_faults(world, &faults);
    }
    qsort(world->changes, world->change_count, sizeof world->changes[0], by_time);
}
