/* The tree-structured Parzen estimator: known widths, densities and ratios, and what follows from a history. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/json.h"
#include "base/number.h"
#include "base/random.h"
#include "train/search/normal.h"
#include "train/search/parzen.h"
#include "train/search/tpe.h"

#define OBSERVATIONS_MAX 300

static void assert_near(double value, double expected, double off)
{
    if (!(fabs(value - expected) <= off)) {
        fail_msg("%.12g, expected %.12g", value, expected);
    }
}

/* ---- normals ---- */

static void the_normal_distribution_has_its_known_values(void **state)
{
    (void)state;
    static const struct { double x, below; } rows[] = {
        {0, 0.5}, {1, 0.84134474606854294859}, {-1, 0.15865525393145705142}, {2.5, 0.99379033467422384064}, {-2.5, 0.0062096653257761351670},
        {-3.6, 1.5910859015753370e-04}, {-8, 6.2209605742717841e-16},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_near(number_exp(normal_log_below(rows[i].x)) / rows[i].below, 1, 1e-12);
    }
    assert_near(normal_log_below(-20), -203.91715537109723, 1e-10);
    assert_near(normal_log_below(-100), -5005.524208694205, 1e-8);
    assert_near(normal_log_mass(-1, 1), log(0.68268949213708589717), 1e-12);
    assert_near(normal_log_mass(-1, 2), normal_log_mass(-2, 1), 1e-15);
    assert_near(normal_log_mass(9, 10), normal_log_mass(-10, -9), 1e-15);
    assert_near(normal_log_mass(-3.5, -3.5 + 1e-6), normal_log_density(-3.5) + log(1e-6), 1e-5);
    for (double low = -40; low < 40; low += 3.7) { /* an interval is as likely as its parts together */
        double parts = number_exp(normal_log_mass(low, low + 0.3) - normal_log_mass(low, low + 1)) +
                       number_exp(normal_log_mass(low + 0.3, low + 1) - normal_log_mass(low, low + 1));
        assert_near(parts, 1, 1e-11);
    }
}

static void a_truncated_draw_divides_the_probability(void **state)
{
    (void)state;
    static const double ranges[][2] = {{-1, 1}, {-0.3, 4}, {2, 2.5}, {-9, -7}, {30, 31}, {-100, 0.5}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        double low = ranges[i][0], high = ranges[i][1];
        assert_true(normal_truncated(low, high, 0) == low);
        for (double at = 0.05; at < 1; at += 0.1) {
            double value = normal_truncated(low, high, at);
            assert_true(value > low && value < high);
            assert_near(number_exp(normal_log_mass(low, value) - normal_log_mass(low, high)), at, 1e-9);
        }
    }
}

/* ---- estimators ---- */

/* Values of one dimension as observations. */
struct line {
    double values[OBSERVATIONS_MAX];
    const double *points[OBSERVATIONS_MAX];
    double room[4 * (OBSERVATIONS_MAX + 1)];
    struct parzen_dimension dimension;
    struct parzen parzen;
};

static void make_line(struct line *line, struct search_parameter parameter, const double *values, uint32_t count)
{
    static const uint32_t column = 0;
    for (uint32_t i = 0; i < count; i++) {
        line->values[i] = values[i];
        line->points[i] = &line->values[i];
    }
    line->dimension = parzen_dimension_of(&parameter);
    assert_true(parzen_room(1, count) <= sizeof line->room / sizeof line->room[0]);
    parzen_make(&line->parzen, &line->dimension, &column, 1, line->points, count, line->room);
}

static const struct search_parameter unit = {.kind = SEARCH_DOUBLE, .minval = 0, .maxval = 1};

static void widths_are_the_larger_gaps(void **state)
{
    (void)state;
    static const double three[] = {0.9, 0.2, 0.3}, four[] = {0.1, 0.6, 0.7, 0.8}, one[] = {0.3};
    static struct line line;
    make_line(&line, unit, three, 3);
    assert_near(line.parzen.widths[0], 0.6, 1e-12); /* by observation, not by value */
    assert_near(line.parzen.widths[1], 0.2, 1e-12); /* 0.1, raised */
    assert_near(line.parzen.widths[2], 0.6, 1e-12);
    assert_near(line.parzen.centres[3], 0.5, 1e-12);
    assert_near(line.parzen.widths[3], 1, 1e-12);
    for (int k = 0; k < 4; k++) {
        assert_near(line.parzen.weights[k], 0.25, 1e-12);
    }
    make_line(&line, unit, four, 4);
    assert_near(line.parzen.widths[0], 0.5, 1e-12);
    assert_near(line.parzen.widths[1], 0.5, 1e-12);
    assert_near(line.parzen.widths[2], 1.0 / 6, 1e-12);
    assert_near(line.parzen.widths[3], 1.0 / 6, 1e-12);
    make_line(&line, unit, one, 1);
    assert_near(line.parzen.widths[0], 0.7, 1e-12);
    make_line(&line, unit, NULL, 0);
    assert_near(line.parzen.weights[0], 1, 0);
    assert_near(parzen_log_density(&line.parzen, one), log(number_exp(normal_log_density(-0.2) - normal_log_mass(-0.5, 0.5))), 1e-12);
}

static void densities_and_their_ratio_are_the_known_ones(void **state)
{
    (void)state;
    static const double good[] = {0.2, 0.3, 0.9}, bad[] = {0.1, 0.6, 0.7, 0.8};
    static const double rows[][4] = {
        {0, 0.954885, 0.587250, 0.486141},     {0.25, 1.302773, 0.683609, 0.644864}, {0.5, 0.995397, 1.002800, -0.007410},
        {0.75, 0.808791, 1.546677, -0.648323}, {1, 0.706042, 0.775762, -0.094172},
    };
    static struct line l, g;
    make_line(&l, unit, good, 3);
    make_line(&g, unit, bad, 4);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double log_l = parzen_log_density(&l.parzen, &rows[i][0]), log_g = parzen_log_density(&g.parzen, &rows[i][0]);
        assert_near(number_exp(log_l), rows[i][1], 1e-6);
        assert_near(number_exp(log_g), rows[i][2], 1e-6);
        assert_near(log_l - log_g, rows[i][3], 1e-6);
    }
}

static void choices_are_smoothed_by_the_prior(void **state)
{
    (void)state;
    static const uint8_t choices[] = {0x93, 0x01, 0x02, 0x03};
    static const double observed[] = {0, 0, 2}, all[] = {0, 1, 2}, expected[] = {0.476190, 0.190476, 0.333333};
    static struct line line;
    make_line(&line, (struct search_parameter){.kind = SEARCH_CATEGORICAL, .values = choices, .values_bytes = sizeof choices}, observed, 3);
    for (int i = 0; i < 3; i++) {
        assert_near(number_exp(parzen_log_density(&line.parzen, &all[i])), expected[i], 1e-6);
    }
}

static void old_observations_weigh_less(void **state)
{
    (void)state;
    static const struct { uint32_t count; double first, second, third, sixth, last; } rows[] = {
        {24, 1, 1, 1, 1, 1}, {25, 1, 1, 1, 1, 1}, {26, 1.0 / 26, 1, 1, 1, 1}, {30, 1.0 / 30, 0.275, 0.516667, 1, 1},
    };
    static double values[30];
    static struct line line;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t count = rows[i].count;
        for (uint32_t k = 0; k < count; k++) {
            values[k] = k / 30.0;
        }
        make_line(&line, unit, values, count);
        double prior = line.parzen.weights[count], sum = 0;
        assert_near(line.parzen.weights[0] / prior, rows[i].first, 1e-6);
        assert_near(line.parzen.weights[1] / prior, rows[i].second, 1e-6);
        assert_near(line.parzen.weights[2] / prior, rows[i].third, 1e-6);
        assert_near(line.parzen.weights[5] / prior, rows[i].sixth, 1e-6);
        assert_near(line.parzen.weights[count - 1] / prior, rows[i].last, 1e-6);
        for (uint32_t k = 0; k <= count; k++) {
            sum += line.parzen.weights[k];
        }
        assert_near(sum, 1, 1e-12);
    }
}

/* What is drawn has the density that the estimator says: of steps and choices as a probability. */
static void draws_follow_the_density(void **state)
{
    (void)state;
    enum { DRAWS = 40000 };
    static const uint8_t choices[] = {0x93, 0x01, 0x02, 0x03};
    static const struct search_parameter parameters[] = {
        {.kind = SEARCH_INT, .minval = 1, .maxval = 6},
        {.kind = SEARCH_INT, .minval = 1, .maxval = 6, .is_log = true},
        {.kind = SEARCH_INT, .minval = 2, .maxval = 12, .step = 2},
        {.kind = SEARCH_DOUBLE, .minval = 0.5, .maxval = 1.5, .step = 0.25},
        {.kind = SEARCH_CATEGORICAL, .values = choices, .values_bytes = sizeof choices},
    };
    static const double observed[][3] = {{1, 2, 5}, {1, 2, 6}, {4, 4, 10}, {0.5, 0.75, 1.5}, {0, 2, 2}};
    for (size_t i = 0; i < sizeof parameters / sizeof parameters[0]; i++) {
        static struct line line;
        struct random random;
        unsigned counts[16] = {0};
        random_init(&random, 17 + i);
        make_line(&line, parameters[i], observed[i], 3);
        double low = line.dimension.choices > 0 ? 0 : line.dimension.low, step = line.dimension.choices > 0 ? 1 : line.dimension.step, sum = 0;
        for (int n = 0; n < DRAWS; n++) {
            double value;
            parzen_draw(&line.parzen, &random, &value);
            double place = (value - low) / step;
            assert_true(place >= 0 && place == (double)(int)place && place < 16);
            counts[(int)place]++;
        }
        double last = line.dimension.choices > 0 ? line.dimension.choices - 1 : (line.dimension.high - low) / step;
        for (int place = 0; place <= (int)last; place++) {
            double value = low + place * step, part = number_exp(parzen_log_density(&line.parzen, &value));
            sum += part;
            assert_near((double)counts[place] / DRAWS, part, 4.5 * sqrt(part * (1 - part) / DRAWS));
        }
        assert_near(sum, 1, 1e-9);
    }
    static struct line line;
    static const double rates[] = {1e-4, 3e-2};
    struct random random;
    double part = 0;
    unsigned below = 0;
    random_init(&random, 3);
    make_line(&line, (struct search_parameter){.kind = SEARCH_LOG, .minval = -5, .maxval = -1, .base = 10}, rates, 2);
    for (int n = 0; n < DRAWS; n++) {
        double value;
        parzen_draw(&line.parzen, &random, &value);
        assert_true(value >= 1e-5 && value <= 0.1);
        below += value < 1e-3;
    }
    for (int n = 0; n < 20000; n++) { /* the integral over the logarithm, from 1e-5 to 1e-3 */
        double value = number_pow(10, -5 + (n + 0.5) * 1e-4);
        part += number_exp(parzen_log_density(&line.parzen, &value)) * 1e-4 * log(10);
    }
    assert_near((double)below / DRAWS, part, 4.5 * sqrt(part * (1 - part) / DRAWS));
}

/* The numbers are those of the estimator of Optuna 5.0.0 with its defaults (optuna/samplers/_tpe), in several dimensions at once, with a
 * stable sort in the place of numpy's: of equal values the older one stands first. */
static void joint_densities_are_optunas(void **state)
{
    (void)state;
    static const uint8_t choices[] = {0x93, 0x01, 0x02, 0x03};
    static const struct search_parameter parameters[] = {
        {.kind = SEARCH_DOUBLE, .minval = -2, .maxval = 3},
        {.kind = SEARCH_LOG, .minval = -5, .maxval = -1, .base = 10},
        {.kind = SEARCH_INT, .minval = 1, .maxval = 8},
        {.kind = SEARCH_INT, .minval = 16, .maxval = 1024, .is_log = true},
        {.kind = SEARCH_DOUBLE, .minval = 0, .maxval = 1, .step = 0.25},
        {.kind = SEARCH_CATEGORICAL, .values = choices, .values_bytes = sizeof choices},
    };
    static const double observed[][6] = {
        {-1.618, 6.6e-05, 5, 121, 0, 0},
        {1.9, 0.000918, 5, 28, 0.75, 1},
        {0.192, 0.000309, 6, 67, 0.25, 1},
        {1.617, 0.000812, 5, 62, 1, 2},
        {2.89, 0.000291, 8, 56, 1, 1},
        {0.692, 0.0225, 4, 32, 1, 1},
        {0.506, 0.0119, 4, 90, 0.5, 2},
        {-1.64, 0.00018, 1, 103, 0.25, 0},
        {-0.658, 0.00195, 5, 402, 0.75, 1},
        {0.499, 0.000127, 4, 439, 0.75, 2},
        {1.396, 0.000648, 1, 140, 0.5, 2},
        {2.019, 0.000258, 3, 109, 1, 2},
        {-0.095, 0.00426, 3, 407, 0, 0},
        {-1.67, 0.000303, 7, 641, 0.75, 2},
        {-0.559, 0.000686, 4, 265, 0, 0},
        {2.548, 0.00754, 8, 447, 0.25, 0},
        {-0.933, 0.000449, 8, 795, 0, 1},
        {0.261, 0.0422, 6, 19, 1, 0},
        {2.656, 5.27e-05, 3, 611, 0.75, 1},
        {-1.876, 0.00921, 8, 51, 0.25, 0},
        {1.003, 0.000489, 4, 116, 0.5, 2},
        {2.751, 0.000508, 6, 440, 0, 2},
        {-0.848, 0.00345, 5, 316, 0.5, 2},
        {0.742, 0.00123, 5, 30, 0, 0},
        {2.546, 0.000457, 8, 248, 0.5, 1},
        {-1.334, 1.01e-05, 6, 21, 0.25, 0},
        {0.617, 2.34e-05, 1, 71, 0.25, 2},
        {1.752, 0.00688, 7, 470, 0.75, 0},
        {1.345, 0.00125, 7, 95, 0.25, 0},
        {0.339, 0.00609, 6, 194, 0, 0},
    };
    static const double points[][7] = {
        {0.589, 0.0803, 3, 155, 0.25, 0, -18.389339145},
        {-0.362, 0.00161, 1, 104, 1, 0, -16.009648851},
        {-1.506, 1.94e-05, 7, 286, 0.75, 1, -19.116379116},
        {0.834, 0.000229, 8, 39, 1, 0, -14.124520427},
        {-0.924, 9.37e-05, 7, 62, 0, 0, -17.543586922},
        {-1.941, 2.69e-05, 7, 347, 0.25, 2, -15.996259159},
        {-0.504, 0.0121, 6, 34, 0.5, 1, -16.849979421},
        {-1.805, 0.000253, 4, 289, 0.5, 2, -16.110449964},
    };
    enum { COUNT = sizeof observed / sizeof observed[0] };
    static double room[19 * (COUNT + 1)];
    struct parzen_dimension dimensions[6];
    const double *rows[COUNT];
    static const uint32_t columns[] = {0, 1, 2, 3, 4, 5};
    struct parzen parzen;
    for (uint32_t d = 0; d < 6; d++) {
        dimensions[d] = parzen_dimension_of(&parameters[d]);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        rows[i] = observed[i];
    }
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        uint32_t count = i % 2 == 0 ? COUNT : 3;
        parzen_make(&parzen, dimensions, columns, 6, rows, count, room);
        assert_near(parzen_log_density(&parzen, points[i]), points[i][6], 1e-6);
    }
}

/* ---- trials ---- */

struct fixture {
    uint8_t bytes[4096], values[64], when[16];
    struct search_space space;
    struct tpe_observation observations[OBSERVATIONS_MAX];
    double points[OBSERVATIONS_MAX][4];
    uint32_t count;
};

static void add(struct pack_writer *writer, const char *name, struct search_parameter parameter)
{
    (void)bytes_copy_text(parameter.name, sizeof parameter.name, name);
    search_parameter_pack(writer, &parameter);
    assert_false(writer->failed);
}

/* x from 0 to 1, an optimizer, a momentum for the first of three optimizers only, and a constant. */
static void begin(struct fixture *f)
{
    static const struct search_head head = {.sampler = SEARCH_SAMPLER_RANDOM};
    static const uint8_t three[] = {0x93, 0xa1, 'a', 0xa1, 'b', 0xa1, 'c'}, first[] = {0x91, 0x92, 0x01, 0x91, 0x00}, seven[] = {0x07};
    struct pack_writer writer;
    memset(f, 0, sizeof *f);
    pack_writer_init(&writer, f->bytes, sizeof f->bytes);
    search_head_pack(&writer, &head, 4);
    add(&writer, "x", unit);
    add(&writer, "opt", (struct search_parameter){.kind = SEARCH_CATEGORICAL, .values = three, .values_bytes = sizeof three});
    add(&writer, "momentum", (struct search_parameter){
        .kind = SEARCH_DOUBLE, .minval = 0, .maxval = 1, .when = first, .when_bytes = sizeof first});
    add(&writer, "fixed", (struct search_parameter){.kind = SEARCH_CONST, .values = seven, .values_bytes = sizeof seven});
    f->space = (struct search_space){
        .kind = SEARCH_RANDOM, .max_trials = OBSERVATIONS_MAX, .bytes = f->bytes, .byte_count = (uint32_t)writer.used_bytes};
}

static void observe(struct fixture *f, enum tpe_state state, double metric, double x, double opt, double momentum)
{
    uint32_t i = f->count++;
    const double point[] = {x, opt, momentum, 0};
    memcpy(f->points[i], point, sizeof point);
    f->observations[i] = (struct tpe_observation){
        .trial = i, .state = state, .metric = metric, .has_metric = true, .step = 10, .point = f->points[i]};
}

static int draw(const struct fixture *f, uint64_t seed, uint32_t index, double point[4])
{
    static double room[64 * (OBSERVATIONS_MAX + 1)];
    assert_true(tpe_room_bytes(4, f->count) <= sizeof room);
    return tpe_draw(&f->space, f->observations, f->count, true, TPE_STARTUP, seed, index, room, tpe_room_bytes(4, f->count), point);
}

static void the_first_trials_are_random(void **state)
{
    (void)state;
    static struct fixture f;
    double point[4], random[SEARCH_PARAMETERS_MAX];
    begin(&f);
    for (int i = 0; i < TPE_STARTUP - 1; i++) {
        observe(&f, i % 2 == 0 ? TPE_COMPLETED : TPE_STOPPED, i, 0.1 * i, i % 3, i % 3 == 0 ? 0.5 : NAN);
    }
    for (int running = 0; running < 5; running++) { /* trials that run are not over */
        observe(&f, TPE_RUNNING, NAN, 0.5, 1, NAN);
    }
    assert_int_equal(draw(&f, 8, 50, point), 0);
    assert_int_equal(search_trial_point(&f.space, 8, 50, random), 0);
    assert_memory_equal(point, random, sizeof point);
    observe(&f, TPE_COMPLETED, 3, 0.1, 0, 0.5);
    assert_int_equal(draw(&f, 8, 50, point), 0);
    assert_true(memcmp(point, random, sizeof point) != 0);
}

static void a_tenth_of_the_trials_is_good(void **state)
{
    (void)state;
    static const uint32_t rows[][2] = {{0, 0}, {1, 1}, {10, 1}, {11, 2}, {20, 2}, {100, 10}, {250, 25}, {1000, 25}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(tpe_good_count(rows[i][0]), rows[i][1]);
    }
}

/* The mean of x over many draws. */
static double mean_x(const struct fixture *f)
{
    double sum = 0, point[4];
    for (uint32_t i = 0; i < 200; i++) {
        assert_int_equal(draw(f, i, 299, point), 0);
        assert_true(point[0] >= 0 && point[0] <= 1);
        assert_int_equal(isnan(point[2]), point[1] != 0);
        assert_true(point[3] == 0);
        sum += point[0];
    }
    return sum / 200;
}

static void trials_go_where_results_were_good(void **state)
{
    (void)state;
    static struct fixture f;
    double point[4];
    unsigned firsts = 0;
    begin(&f);
    for (int i = 0; i < 40; i++) { /* best at x = 0.8 and optimizer 0 with much momentum */
        double x = (i * 17 % 40) / 40.0, momentum = (i * 7 % 40) / 40.0;
        observe(&f, TPE_COMPLETED, fabs(x - 0.8) + (i % 3 == 0 ? 0.3 * (1 - momentum) : 0.5), x, i % 3, i % 3 == 0 ? momentum : NAN);
    }
    double mean = mean_x(&f), momenta = 0;
    assert_true(mean > 0.7 && mean < 0.9);
    for (uint32_t i = 0; i < 200; i++) {
        assert_int_equal(draw(&f, i, 299, point), 0);
        firsts += point[1] == 0;
        momenta += point[1] == 0 ? point[2] : 0;
    }
    assert_true(firsts > 140);
    assert_true(momenta / firsts > 0.6);
    for (uint32_t i = 0; i < f.count; i++) { /* the other sense */
        f.observations[i].metric = -f.observations[i].metric;
    }
    static double room[64 * (OBSERVATIONS_MAX + 1)];
    double again[4];
    assert_int_equal(draw(&f, 5, 299, again), 0);
    for (uint32_t i = 0; i < f.count; i++) {
        f.observations[i].metric = -f.observations[i].metric;
    }
    assert_int_equal(tpe_draw(&f.space, f.observations, f.count, false, TPE_STARTUP, 5, 299, room, sizeof room, point), 0);
    assert_memory_equal(point, again, sizeof point);
}

static void the_same_history_gives_the_same_trial(void **state)
{
    (void)state;
    static struct fixture f;
    double first[4], point[4];
    begin(&f);
    for (int i = 0; i < 30; i++) {
        observe(&f, TPE_COMPLETED, i % 7, i / 30.0, i % 3, i % 3 == 0 ? i / 30.0 : NAN);
    }
    assert_int_equal(draw(&f, 1, 40, first), 0);
    assert_int_equal(draw(&f, 1, 41, point), 0);
    assert_true(memcmp(first, point, sizeof point) != 0);
    assert_int_equal(draw(&f, 1, 40, point), 0);
    assert_memory_equal(first, point, sizeof point);
    /* Recorded: another machine, compiler or version must give these very numbers. */
    assert_near(point[0], 0.0090198711, 0);
    assert_near(point[1], 1, 0);
}

/* Of twenty trials two are good. */
static void the_order_of_results_decides_what_is_good(void **state)
{
    (void)state;
    static struct fixture f;
    begin(&f);
    for (int i = 0; i < 18; i++) { /* stopped trials far to the right, with the best metrics, and one completed on the left */
        observe(&f, TPE_STOPPED, -100 - i, 0.9 + i * 0.001, 1, NAN);
    }
    observe(&f, TPE_COMPLETED, 5, 0.05, 1, NAN);
    observe(&f, TPE_COMPLETED, 6, 0.08, 1, NAN);
    assert_true(mean_x(&f) < 0.4);
    begin(&f);
    for (int i = 0; i < 18; i++) { /* of stopped trials the further one is better, whatever its metric; one without a report is last */
        observe(&f, TPE_STOPPED, -100, 0.9 + i * 0.001, 1, NAN);
        f.observations[i].has_metric = i != 3;
        f.observations[i].step = i == 3 ? 1000 : 10;
    }
    observe(&f, TPE_STOPPED, 7, 0.05, 1, NAN);
    f.observations[18].step = 30;
    observe(&f, TPE_STOPPED, NAN, 0.08, 1, NAN);
    f.observations[19].step = 31;
    assert_true(mean_x(&f) < 0.4);
    begin(&f);
    for (int i = 0; i < 20; i++) { /* NaN is worse than all numbers */
        observe(&f, TPE_COMPLETED, i == 10 || i == 11 ? 1e300 : NAN, i == 10 || i == 11 ? 0.05 + 0.003 * i : 0.9 + i * 0.001, 1, NAN);
    }
    assert_true(mean_x(&f) < 0.4);
}

/* Trials that run count as bad, so the next ones go elsewhere. */
static void running_trials_repel(void **state)
{
    (void)state;
    static struct fixture f;
    begin(&f);
    for (int i = 0; i < 20; i++) {
        observe(&f, TPE_COMPLETED, i < 2 ? 0 : 1, i == 0 ? 0.3 : i == 1 ? 0.7 : (i % 10) / 10.0, 1, NAN);
    }
    double before = mean_x(&f);
    for (int i = 0; i < 8; i++) {
        observe(&f, TPE_RUNNING, NAN, 0.69 + i * 0.003, 1, NAN);
    }
    assert_true(mean_x(&f) < before - 0.05);
}

static void histories_that_are_broken_are_refused(void **state)
{
    (void)state;
    static struct fixture f;
    double point[4], room[8];
    begin(&f);
    for (int i = 0; i < 12; i++) {
        observe(&f, TPE_COMPLETED, i, 0.5, 0, 0.5);
    }
    assert_int_equal(draw(&f, 1, 20, point), 0);
    assert_int_equal(draw(&f, 1, 5, point), ERR_MALFORMED); /* trial 5 is there */
    assert_int_equal(draw(&f, 1, OBSERVATIONS_MAX, point), 0); /* of a search that was extended */
    assert_int_equal(draw(&f, 1, SEARCH_TRIALS_MAX, point), ERR_NOT_FOUND);
    assert_int_equal(tpe_draw(&f.space, f.observations, f.count, true, TPE_STARTUP, 1, 20, room, sizeof room, point), ERR_FULL);
    f.points[3][0] = 1.5;
    assert_int_equal(draw(&f, 1, 20, point), ERR_MALFORMED);
    f.points[3][0] = 0.5;
    f.points[3][1] = 3;
    assert_int_equal(draw(&f, 1, 20, point), ERR_MALFORMED);
    f.points[3][1] = 0;
    f.observations[4].trial = 3;
    assert_int_equal(draw(&f, 1, 20, point), ERR_MALFORMED);
    f.observations[4].trial = 4;
    f.space.byte_count--;
    assert_int_equal(draw(&f, 1, 20, point), ERR_MALFORMED);
}

static void the_number_of_random_trials_can_be_chosen(void **state)
{
    (void)state;
    static struct fixture f;
    static double room[64 * (OBSERVATIONS_MAX + 1)];
    double point[4], random[4];
    begin(&f);
    for (int i = 0; i < 5; i++) {
        observe(&f, TPE_COMPLETED, i, 0.1 * i, i % 3, 0.5);
    }
    assert_int_equal(search_trial_point(&f.space, 3, 20, random), 0);
    assert_int_equal(tpe_draw(&f.space, f.observations, f.count, true, 6, 3, 20, room, sizeof room, point), 0);
    assert_memory_equal(point, random, sizeof point[0]);
    assert_int_equal(tpe_draw(&f.space, f.observations, f.count, true, 5, 3, 20, room, sizeof room, point), 0);
    assert_true(point[0] < random[0] || point[0] > random[0]);
    assert_int_equal(tpe_draw(&f.space, f.observations, 0, true, 0, 3, 20, room, sizeof room, point), 0); /* the prior alone */
    assert_true(search_point_fits(&f.space, point, 4));
}

static void records_of_other_nodes_do_not_stop_a_search(void **state)
{
    (void)state;
    static struct fixture f;
    double point[4];
    begin(&f);
    for (int i = 0; i < 14; i++) {
        observe(&f, TPE_COMPLETED, i, 0.05 * i, i % 3, 0.5);
    }
    f.points[3][0] = 1.5; /* out of the range */
    f.points[4][1] = 2.5; /* no choice */
    f.observations[7].trial = 50; /* behind the others in the order of trials */
    f.observations[9].trial = 20; /* the trial to be drawn */
    assert_int_equal(draw(&f, 1, 20, point), ERR_MALFORMED);
    f.count = tpe_keep_good(&f.space, f.observations, f.count, 20);
    assert_int_equal(f.count, 11);
    assert_int_equal(f.observations[10].trial, 50);
    assert_int_equal(draw(&f, 1, 20, point), 0);
    assert_true(search_point_fits(&f.space, point, 4));
    assert_false(search_point_fits(&f.space, point, 3));
}

static void many_bad_trials_take_no_longer(void **state)
{
    (void)state;
    assert_int_equal(tpe_bad_max(1), 1000);
    assert_int_equal(tpe_bad_max(10), 256);
    assert_int_equal(tpe_bad_max(128), 50);
    for (uint32_t d = 1; d <= SEARCH_PARAMETERS_MAX; d++) { /* the room has both densities, whichever parameters are drawn together */
        size_t most = parzen_room(d, tpe_bad_max(d)) + parzen_room(d, TPE_GOOD_MAX);
        assert_true(most * sizeof(double) <= tpe_room_bytes(d, 100000) - 100000 * 13);
        assert_true((parzen_room(1, 1000) + parzen_room(1, TPE_GOOD_MAX)) * sizeof(double) <= tpe_room_bytes(d, 100000) - 100000 * 13);
    }
}

static void points_and_maps_are_the_same_values(void **state)
{
    (void)state;
    static struct fixture f;
    uint8_t bytes[512], again[512];
    begin(&f);
    for (uint32_t i = 0; i < 40; i++) {
        double point[SEARCH_PARAMETERS_MAX], read[SEARCH_PARAMETERS_MAX];
        struct pack_writer writer, other;
        struct pack_reader values;
        pack_writer_init(&writer, bytes, sizeof bytes);
        pack_writer_init(&other, again, sizeof again);
        assert_int_equal(search_trial_values(&f.space, 3, i, &writer), 0);
        assert_int_equal(search_trial_point(&f.space, 3, i, point), 0);
        assert_int_equal(search_point_pack(&f.space, point, &other), 0);
        assert_int_equal(writer.used_bytes, other.used_bytes);
        assert_memory_equal(bytes, again, writer.used_bytes);
        pack_reader_init(&values, bytes, writer.used_bytes);
        assert_int_equal(search_point_read(&f.space, values, read), 0);
        for (int p = 0; p < 4; p++) {
            assert_true(read[p] == point[p] || (isnan(read[p]) && isnan(point[p])));
        }
    }
    static const double wrong[][4] = {{1.5, 0, 0, 0}, {0.5, 3, 0, 0}, {0.5, 0.5, 0, 0}, {0.5, 0, 0, 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct pack_writer writer;
        pack_writer_init(&writer, bytes, sizeof bytes);
        assert_int_equal(search_point_pack(&f.space, wrong[i], &writer), ERR_MALFORMED);
    }
    static const uint8_t unknown[] = {0x81, 0xa3, 'o', 'p', 't', 0xa1, 'd'}, text[] = {0x81, 0xa1, 'x', 0xa1, 'd'}, list[] = {0x90};
    double point[SEARCH_PARAMETERS_MAX];
    struct pack_reader values;
    pack_reader_init(&values, unknown, sizeof unknown);
    assert_int_equal(search_point_read(&f.space, values, point), ERR_MALFORMED);
    pack_reader_init(&values, text, sizeof text);
    assert_int_equal(search_point_read(&f.space, values, point), ERR_MALFORMED);
    pack_reader_init(&values, list, sizeof list);
    assert_int_equal(search_point_read(&f.space, values, point), ERR_MALFORMED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_normal_distribution_has_its_known_values),
        cmocka_unit_test(a_truncated_draw_divides_the_probability),
        cmocka_unit_test(widths_are_the_larger_gaps),
        cmocka_unit_test(densities_and_their_ratio_are_the_known_ones),
        cmocka_unit_test(choices_are_smoothed_by_the_prior),
        cmocka_unit_test(old_observations_weigh_less),
        cmocka_unit_test(draws_follow_the_density),
        cmocka_unit_test(joint_densities_are_optunas),
        cmocka_unit_test(the_first_trials_are_random),
        cmocka_unit_test(a_tenth_of_the_trials_is_good),
        cmocka_unit_test(trials_go_where_results_were_good),
        cmocka_unit_test(the_same_history_gives_the_same_trial),
        cmocka_unit_test(the_order_of_results_decides_what_is_good),
        cmocka_unit_test(running_trials_repel),
        cmocka_unit_test(histories_that_are_broken_are_refused),
        cmocka_unit_test(the_number_of_random_trials_can_be_chosen),
        cmocka_unit_test(records_of_other_nodes_do_not_stop_a_search),
        cmocka_unit_test(many_bad_trials_take_no_longer),
        cmocka_unit_test(points_and_maps_are_the_same_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
