#include "train/search/space.h"

#include <math.h> /* isnan and NAN only, no function is called */
#include <string.h>

#include "base/err.h"
#include "base/number.h"
#include "base/random.h"
#include "train/search/sobol.h"

/* ---- grid ---- */

/* The number of grid points of a parameter; 0: unknown (no count). */
static uint64_t grid_points(const struct search_parameter *parameter)
{
    switch (parameter->kind) {
    case SEARCH_CONST:
        return 1;
    case SEARCH_CATEGORICAL:
        return space_choice_count(parameter);
    case SEARCH_INT:
    case SEARCH_DOUBLE:
    case SEARCH_LOG:
        break;
    }
    if (!space_has_steps(parameter)) {
        return parameter->count;
    }
    uint64_t all = space_step_count(parameter) + 1;
    return parameter->count == 0 || parameter->count > all ? all : parameter->count;
}

/* The value `i` steps above minval. */
static void set_step(const struct search_parameter *parameter, uint64_t i, struct drawn *out)
{
    if (parameter->kind == SEARCH_INT) {
        out->integer = (int64_t)parameter->minval + (int64_t)(i * (parameter->step > 0 ? (uint64_t)parameter->step : 1));
    } else {
        out->number = parameter->minval + (double)i * parameter->step;
    }
}

/* The nearest integer to range * i / (points - 1), halves up, without overflow. */
static uint64_t grid_step(uint64_t range, uint64_t i, uint64_t points)
{
    if (points == 1) {
        return range / 2 + range % 2;
    }
    uint64_t steps = points - 1;
    uint64_t whole = range / steps, rest = range % steps;
    /* No overflow: i <= steps, rest < steps, and search_trial_count has checked points <= SEARCH_TRIALS_MAX. */
    return i * whole + (2 * i * rest + steps) / (2 * steps);
}

static double grid_number(double low, double high, uint64_t i, uint64_t points)
{
    if (points == 1) {
        return low + (high - low) / 2;
    }
    return low + (double)i * (high - low) / (double)(points - 1);
}

/* The integer nearest to the point on the logarithm. Where these are closer than 1 the points are the integers from `low` on, so
 * that no two points are equal: low * ratio^i - i falls and then rises, so once the points are that far apart they stay so. */
static int64_t grid_log_integer(int64_t low, int64_t high, uint64_t i, uint64_t points)
{
    double at = grid_number(number_log((double)low), number_log((double)high), i, points);
    int64_t nearest = (int64_t)(number_exp(at) + 0.5), first = low + (int64_t)i, last = high - (int64_t)(points - 1 - i);
    if (points > 1 && (i == 0 || i == points - 1)) {
        return i == 0 ? low : high; /* a large logarithm is not exact */
    }
    return nearest < first ? first : nearest > last ? last : nearest;
}

static void draw_grid(const struct search_parameter *parameter, uint64_t point, struct drawn *out)
{
    uint64_t points = grid_points(parameter);
    out->choice = point;
    if (parameter->is_log) {
        out->integer = grid_log_integer((int64_t)parameter->minval, (int64_t)parameter->maxval, point, points);
    } else if (space_has_steps(parameter)) {
        set_step(parameter, grid_step(space_step_count(parameter), point, points), out);
    } else if (parameter->kind != SEARCH_CATEGORICAL && parameter->kind != SEARCH_CONST) {
        out->number = grid_number(parameter->minval, parameter->maxval, point, points);
    }
}

static uint64_t capped(uint64_t count)
{
    return count <= SEARCH_TRIALS_MAX ? count : SEARCH_TRIALS_MAX + 1;
}

/* The number of combinations of the parameters from `at` on, at most SEARCH_TRIALS_MAX + 1. `drawn` is settled before `at`, and
 * spoiled from there on. The search goes through the values of controllers only. Each of those counts for one at least, so it ends
 * after SEARCH_TRIALS_MAX of them; the recursion is as deep as there are controllers. */
static uint64_t grid_count(const struct parameters *parameters, uint32_t at, struct drawn *drawn)
{
    uint64_t count = 1;
    for (; at < parameters->count && count <= SEARCH_TRIALS_MAX; at++) {
        drawn[at].is_active = space_is_active(parameters, at, drawn);
        uint64_t points = drawn[at].is_active ? capped(grid_points(&parameters->list[at])) : 1;
        if (!drawn[at].is_active || !parameters->is_controller[at] || points > SEARCH_TRIALS_MAX) {
            count *= points;
            continue;
        }
        uint64_t sum = 0;
        for (uint64_t point = 0; point < points && sum <= SEARCH_TRIALS_MAX; point++) {
            draw_grid(&parameters->list[at], point, &drawn[at]);
            sum += grid_count(parameters, at + 1, drawn);
        }
        return capped(count * sum);
    }
    return capped(count);
}

/* Draws combination `index`: the last parameter changes fastest. */
static void draw_combination(const struct parameters *parameters, uint64_t index, struct drawn *drawn)
{
    uint64_t count = grid_count(parameters, 0, drawn);
    for (uint32_t at = 0; at < parameters->count; at++) {
        drawn[at].is_active = space_is_active(parameters, at, drawn);
        if (!drawn[at].is_active) {
            continue;
        }
        if (!parameters->is_controller[at]) {
            count /= grid_points(&parameters->list[at]);
            draw_grid(&parameters->list[at], index / count, &drawn[at]);
            index %= count;
            continue;
        }
        for (uint64_t point = 0;; point++) {
            draw_grid(&parameters->list[at], point, &drawn[at]);
            count = grid_count(parameters, at + 1, drawn);
            if (index < count) {
                break;
            }
            index -= count;
        }
    }
}

int search_trial_count(const struct search_space *space, uint32_t *out)
{
    struct parameters parameters;
    size_t values_max;
    int error = space_read(space, &parameters, &values_max);
    if (error != 0) {
        return error;
    }
    uint64_t trials = search_draws(space->kind) ? space->max_trials : 1;
    if (trials == 0) {
        return ERR_MALFORMED;
    }
    for (uint32_t i = 0; space->kind == SEARCH_GRID && i < parameters.count; i++) {
        if (grid_points(&parameters.list[i]) == 0) {
            return ERR_REFUSED;
        }
    }
    if (space->kind == SEARCH_GRID) {
        struct drawn drawn[SEARCH_PARAMETERS_MAX];
        memset(drawn, 0, sizeof drawn);
        trials = grid_count(&parameters, 0, drawn);
    }
    struct pack_reader initial;
    if (space_initial_count(&parameters, &initial) > trials) {
        return ERR_MALFORMED;
    }
    if (trials > SEARCH_TRIALS_MAX) {
        return ERR_FULL;
    }
    *out = (uint32_t)trials;
    return 0;
}

/* ---- random draws ---- */

static double clamp(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

/* The number of the part of [0, 1) that `at` falls in, of `parts` equal ones. */
static uint64_t part_of(double at, uint64_t parts)
{
    uint64_t part = (uint64_t)(at * (double)parts);
    return part < parts ? part : parts - 1; /* the product may be rounded up */
}

/* The integer whose cell, from a half below to a half above, `at` falls in: uniform on the logarithm. */
static int64_t log_integer(const struct search_parameter *parameter, double at)
{
    double from = number_log(parameter->minval - 0.5), to = number_log(parameter->maxval + 0.5);
    double value = (double)(int64_t)(number_exp(from + at * (to - from)) + 0.5);
    return (int64_t)clamp(value, parameter->minval, parameter->maxval);
}

/* The value at `at` of [0, 1): equal parts of it belong to equally likely values. */
static void draw_at(const struct search_parameter *parameter, double at, struct drawn *out)
{
    if (parameter->kind == SEARCH_CATEGORICAL) {
        out->choice = part_of(at, space_choice_count(parameter));
    } else if (parameter->is_log) {
        out->integer = log_integer(parameter, at);
    } else if (space_has_steps(parameter)) {
        set_step(parameter, part_of(at, space_step_count(parameter) + 1), out);
    } else {
        out->number = parameter->minval + at * (parameter->maxval - parameter->minval);
    }
}

/* The rule "in order" of search.h. */
static void draw_in_order(const struct search_parameter *parameter, struct random *random, struct drawn *out)
{
    double low = parameter->minval, high = parameter->maxval;
    switch (parameter->kind) {
    case SEARCH_CONST:
        break;
    case SEARCH_CATEGORICAL:
        out->choice = random_below(random, space_choice_count(parameter));
        break;
    case SEARCH_INT:
        out->integer = (int64_t)low + (int64_t)random_below(random, (uint64_t)((int64_t)high - (int64_t)low) + 1);
        break;
    case SEARCH_DOUBLE:
    case SEARCH_LOG:
        out->number = low + random_double(random) * (high - low);
        break;
    }
}

/* ---- the values of a trial ---- */

double space_rounded(const struct search_parameter *parameter, double value)
{
    double rounded = number_round9(value); /* may step over a bound with more than 9 digits */
    return parameter->kind == SEARCH_DOUBLE ? clamp(rounded, parameter->minval, parameter->maxval) : rounded;
}

/* The value of a double or a log. */
static double number_of(const struct search_parameter *parameter, const struct drawn *drawn)
{
    if (drawn->is_given) {
        return drawn->number;
    }
    return space_rounded(parameter, parameter->kind == SEARCH_LOG ? number_pow(parameter->base, drawn->number) : drawn->number);
}

/* Element `index` of a packed array; `index` is in bounds. */
static const uint8_t *array_element(const uint8_t *bytes, uint32_t byte_count, uint64_t index, size_t *element_bytes)
{
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, byte_count);
    (void)pack_read_array(&reader);
    for (uint64_t i = 0; i < index; i++) {
        pack_skip(&reader);
    }
    return pack_read_any(&reader, element_bytes);
}

static void pack_drawn(struct pack_writer *writer, const struct search_parameter *parameter, const struct drawn *drawn)
{
    size_t bytes = parameter->values_bytes;
    const uint8_t *value = parameter->values;
    switch (parameter->kind) {
    case SEARCH_CATEGORICAL:
        value = array_element(parameter->values, parameter->values_bytes, drawn->choice, &bytes);
        pack_raw(writer, value, bytes);
        break;
    case SEARCH_CONST:
        pack_raw(writer, value, bytes);
        break;
    case SEARCH_INT:
        pack_i64(writer, drawn->integer);
        break;
    case SEARCH_DOUBLE:
    case SEARCH_LOG:
        pack_double(writer, number_of(parameter, drawn));
        break;
    }
}

static size_t segment_bytes(const char *name)
{
    const char *dot = strchr(name, '.');
    return dot != NULL ? (size_t)(dot - name) : strlen(name);
}

/* True if both names start with the same `bytes` and end a segment there. */
static bool same_segment(const char *a, const char *b, size_t bytes)
{
    return strncmp(a, b, bytes) == 0 && (b[bytes] == '\0' || b[bytes] == '.');
}

/* Writes the map of the parameters whose names begin with the first `prefix_bytes` of the name at `first`, the first of them. A
 * key stands where its first parameter stood. Recursion is bounded by the levels of a name. */
static void pack_level(struct pack_writer *writer, const struct parameters *parameters, const struct drawn *drawn,
                       uint32_t first, size_t prefix_bytes)
{
    const struct search_parameter *list = parameters->list;
    uint32_t keys[SEARCH_PARAMETERS_MAX];
    uint32_t key_count = 0;
    for (uint32_t i = first; i < parameters->count; i++) {
        const char *rest = list[i].name + prefix_bytes;
        bool is_new = strncmp(list[i].name, list[first].name, prefix_bytes) == 0;
        for (uint32_t k = 0; is_new && k < key_count; k++) {
            const char *known = list[keys[k]].name + prefix_bytes;
            is_new = !same_segment(known, rest, segment_bytes(known));
        }
        if (is_new) {
            keys[key_count++] = i;
        }
    }
    pack_map(writer, key_count);
    for (uint32_t k = 0; k < key_count; k++) {
        const char *rest = list[keys[k]].name + prefix_bytes;
        size_t bytes = segment_bytes(rest);
        pack_text_n(writer, rest, bytes);
        if (rest[bytes] == '\0') {
            pack_drawn(writer, &list[keys[k]], &drawn[keys[k]]);
        } else {
            pack_level(writer, parameters, drawn, keys[k], prefix_bytes + bytes + 1);
        }
    }
}

void space_random_by_name(struct random *out, uint64_t seed, uint32_t index, const char *name)
{
    uint64_t key = random_mix(seed);
    for (const char *p = name; *p != '\0'; p++) {
        key = random_mix(key ^ (unsigned char)*p);
    }
    random_init_stream(out, key, index);
}

/* Draws trial `index` of a searcher that is no grid, with the user's own values. */
static void draw_random(const struct parameters *parameters, uint64_t seed, uint32_t index, struct drawn *drawn)
{
    struct random random;
    uint32_t dimension = 0;
    bool is_by_name = false, is_sobol = parameters->head.sampler == SEARCH_SAMPLER_SOBOL;
    for (uint32_t i = 0; i < parameters->count; i++) {
        is_by_name |= space_later_properties(&parameters->list[i]) > 0;
    }
    random_init_stream(&random, seed, index);
    for (uint32_t i = 0; i < parameters->count; i++) {
        const struct search_parameter *parameter = &parameters->list[i];
        if (parameter->kind == SEARCH_CONST) {
            continue;
        }
        if (is_sobol) {
            draw_at(parameter, sobol_shifted_point(seed, dimension++, index) * 0x1p-32, &drawn[i]);
        } else if (is_by_name) {
            space_random_by_name(&random, seed, index, parameter->name);
            draw_at(parameter, random_double(&random), &drawn[i]);
        } else {
            draw_in_order(parameter, &random, &drawn[i]);
        }
    }
    struct pack_reader own;
    if (index < space_initial_count(parameters, &own)) {
        for (uint32_t i = 0; i < index; i++) {
            pack_skip(&own);
        }
        space_read_own_values(&own, parameters, drawn);
    }
    for (uint32_t i = 0; i < parameters->count; i++) {
        drawn[i].is_active = space_is_active(parameters, i, drawn);
    }
}

static double point_of(const struct search_parameter *parameter, const struct drawn *drawn)
{
    switch (parameter->kind) {
    case SEARCH_CONST:
        return 0;
    case SEARCH_CATEGORICAL:
        return (double)drawn->choice;
    case SEARCH_INT:
        return (double)drawn->integer;
    case SEARCH_DOUBLE:
    case SEARCH_LOG:
        break;
    }
    return number_of(parameter, drawn);
}

double space_value_at(const struct search_parameter *parameter, double at)
{
    struct drawn drawn = {.is_active = true};
    if (parameter->kind != SEARCH_CONST) {
        draw_at(parameter, at, &drawn);
    }
    return point_of(parameter, &drawn);
}

/* Reads the space and draws a trial. 0, ERR_MALFORMED or ERR_NOT_FOUND. */
static int draw_trial(const struct search_space *space, uint64_t seed, uint32_t index, struct parameters *parameters,
                      struct drawn drawn[SEARCH_PARAMETERS_MAX])
{
    uint32_t trials;
    size_t values_max;
    if (search_trial_count(space, &trials) != 0 || space_read(space, parameters, &values_max) != 0) {
        return ERR_MALFORMED;
    }
    if (index >= (search_draws(space->kind) ? SEARCH_TRIALS_MAX : trials)) {
        return ERR_NOT_FOUND;
    }
    memset(drawn, 0, SEARCH_PARAMETERS_MAX * sizeof *drawn);
    if (space->kind == SEARCH_GRID) {
        draw_combination(parameters, index, drawn);
    } else {
        draw_random(parameters, seed, index, drawn);
    }
    return 0;
}

bool search_initial_is_inactive(const struct search_space *space, uint64_t seed, uint32_t index, struct search_parameter *out)
{
    struct parameters parameters;
    struct drawn drawn[SEARCH_PARAMETERS_MAX];
    if (draw_trial(space, seed, index, &parameters, drawn) != 0) {
        return false;
    }
    for (uint32_t i = 0; i < parameters.count; i++) {
        if (drawn[i].is_given && !drawn[i].is_active) {
            *out = parameters.list[i];
            return true;
        }
    }
    return false;
}

/* Writes the values of the active parameters. Spoils its arguments. */
static int pack_active(struct pack_writer *writer, struct parameters *parameters, struct drawn *drawn)
{
    uint32_t active = 0;
    for (uint32_t i = 0; i < parameters->count; i++) {
        if (drawn[i].is_active) {
            parameters->list[active] = parameters->list[i];
            drawn[active++] = drawn[i];
        }
    }
    parameters->count = active;
    if (active == 0) {
        pack_map(writer, 0);
    } else {
        pack_level(writer, parameters, drawn, 0, 0);
    }
    return writer->failed ? ERR_FULL : 0;
}

int search_trial_values(const struct search_space *space, uint64_t seed, uint32_t index, struct pack_writer *writer)
{
    struct parameters parameters;
    struct drawn drawn[SEARCH_PARAMETERS_MAX];
    int error = draw_trial(space, seed, index, &parameters, drawn);
    return error != 0 ? error : pack_active(writer, &parameters, drawn);
}

/* ---- values as numbers ---- */

int search_trial_point(const struct search_space *space, uint64_t seed, uint32_t index, double *point)
{
    struct parameters parameters;
    struct drawn drawn[SEARCH_PARAMETERS_MAX];
    int error = draw_trial(space, seed, index, &parameters, drawn);
    for (uint32_t i = 0; error == 0 && i < parameters.count; i++) {
        point[i] = drawn[i].is_active ? point_of(&parameters.list[i], &drawn[i]) : NAN;
    }
    return error;
}

/* Whether the number is one that the parameter can have. */
static bool is_point(const struct search_parameter *parameter, double number)
{
    if (parameter->kind == SEARCH_CONST) {
        return number == 0;
    }
    if (parameter->kind == SEARCH_CATEGORICAL) {
        return number >= 0 && number < space_choice_count(parameter) && (double)(uint32_t)number == number;
    }
    return search_value_fits(parameter, number);
}

bool search_point_fits(const struct search_space *space, const double *point, uint32_t count)
{
    struct parameters parameters;
    size_t values_max;
    bool fits = space_read(space, &parameters, &values_max) == 0 && parameters.count == count;
    for (uint32_t i = 0; i < count && fits; i++) {
        fits = isnan(point[i]) ? parameters.list[i].when_bytes > 0 : is_point(&parameters.list[i], point[i]);
    }
    return fits;
}

int search_point_pack(const struct search_space *space, const double *point, struct pack_writer *writer)
{
    struct parameters parameters;
    struct drawn drawn[SEARCH_PARAMETERS_MAX];
    size_t values_max;
    if (space_read(space, &parameters, &values_max) != 0) {
        return ERR_MALFORMED;
    }
    for (uint32_t i = 0; i < parameters.count; i++) {
        drawn[i] = (struct drawn){.is_active = !isnan(point[i]), .is_given = true, .number = point[i]};
        if (drawn[i].is_active && !is_point(&parameters.list[i], point[i])) {
            return ERR_MALFORMED;
        }
        if (drawn[i].is_active && parameters.list[i].kind == SEARCH_INT) {
            drawn[i].integer = (int64_t)point[i];
        } else if (drawn[i].is_active && parameters.list[i].kind == SEARCH_CATEGORICAL) {
            drawn[i].choice = (uint64_t)point[i];
        }
    }
    return pack_active(writer, &parameters, drawn);
}

/* Finds the value under a dotted name in nested maps; a reader that has failed if it is not there. */
static struct pack_reader find_nested(struct pack_reader map, const char *name)
{
    while (!map.failed && *name != '\0') {
        char segment[SEARCH_NAME_BYTES];
        size_t bytes = segment_bytes(name);
        memcpy(segment, name, bytes);
        segment[bytes] = '\0';
        if (pack_peek(&map) != PACK_MAP) {
            map.failed = true;
            break;
        }
        map = pack_find(&map, segment);
        name += bytes + (name[bytes] == '.' ? 1 : 0);
    }
    return map;
}

/* The number of the choice that has the same bytes; -1: there is none. */
static double choice_of(const struct search_parameter *parameter, const struct pack_reader *value)
{
    uint32_t count = parameter->kind == SEARCH_CONST ? 1 : space_choice_count(parameter);
    for (uint32_t i = 0; i < count; i++) {
        size_t bytes = parameter->values_bytes;
        const uint8_t *choice = parameter->kind == SEARCH_CONST
                                    ? parameter->values
                                    : array_element(parameter->values, parameter->values_bytes, i, &bytes);
        if (bytes == value->count && memcmp(choice, value->bytes, bytes) == 0) {
            return i;
        }
    }
    return -1;
}

/* Whether the first `bytes` of the name are the name of a parameter, or of a map of parameters. */
static bool has_name(const struct parameters *parameters, const char *name, size_t bytes)
{
    bool has = false;
    for (uint32_t i = 0; i < parameters->count && !has; i++) {
        const char *own = parameters->list[i].name;
        has = strncmp(own, name, bytes) == 0 && (own[bytes] == '\0' || own[bytes] == '.');
    }
    return has;
}

static bool finds_unknown(const struct parameters *parameters, struct pack_reader values, char wrong[SEARCH_NAME_BYTES])
{
    uint32_t count = pack_read_map(&values);
    for (uint32_t i = 0; i < count && !values.failed; i++) {
        size_t bytes = 0;
        const char *name = pack_read_text(&values, &bytes);
        if (values.failed || bytes >= SEARCH_NAME_BYTES || !has_name(parameters, name, bytes)) {
            bytes = values.failed ? 0 : bytes < SEARCH_NAME_BYTES ? bytes : SEARCH_NAME_BYTES - 1;
            memcpy(wrong, bytes > 0 ? name : "", bytes);
            wrong[bytes] = '\0';
            return true;
        }
        pack_skip(&values);
    }
    return values.failed;
}

static int read_point(const struct search_space *space, struct pack_reader values, double *point, char *wrong)
{
    struct parameters parameters;
    size_t values_max;
    struct pack_reader whole = values;
    bool is_map = pack_peek(&whole) == PACK_MAP;
    pack_skip(&whole);
    if (!is_map || space_read(space, &parameters, &values_max) != 0 || whole.failed) {
        return ERR_MALFORMED;
    }
    if (wrong != NULL && finds_unknown(&parameters, values, wrong)) {
        return ERR_MALFORMED;
    }
    for (uint32_t i = 0; i < parameters.count; i++) {
        const struct search_parameter *parameter = &parameters.list[i];
        struct pack_reader value = find_nested(values, parameter->name);
        bool has_choices = parameter->kind == SEARCH_CONST || parameter->kind == SEARCH_CATEGORICAL, is_absent = value.failed;
        point[i] = is_absent ? NAN : has_choices ? choice_of(parameter, &value) : pack_read_double(&value);
        if (!is_absent && (value.failed || !is_point(parameter, point[i]))) {
            if (wrong != NULL) {
                memcpy(wrong, parameter->name, SEARCH_NAME_BYTES);
            }
            return ERR_MALFORMED;
        }
    }
    return 0;
}

int search_point_read(const struct search_space *space, struct pack_reader values, double *point)
{
    return read_point(space, values, point, NULL);
}

int search_point_read_strictly(const struct search_space *space, struct pack_reader values, double *point, char wrong[SEARCH_NAME_BYTES])
{
    wrong[0] = '\0';
    return read_point(space, values, point, wrong);
}
