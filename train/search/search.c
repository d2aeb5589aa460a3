#include "train/search/search.h"

#include <math.h> /* isnan only, no function is called */
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/number.h"
#include "base/random.h"

#define INTEGER_MAX 9007199254740992.0 /* 2^53: every integer up to it is a double */
#define DOUBLE_MAX 1e300               /* the difference of two such values is finite */
#define SEGMENTS_MAX 8                 /* of a dotted name: maps in maps */
#define CHOICES_MAX 1000               /* of a categorical */
#define VALUE_DEPTH_MAX 16             /* lists and maps in a value; with the maps of the names well below JSON's 32 */

/* A packed parameter is an array: [name, kind, values] for const and categorical, [name, kind, minval, maxval, count] for int
 * and double, and the same plus base for log. */

void search_parameter_pack(struct pack_writer *writer, const struct search_parameter *parameter)
{
    bool has_values = parameter->kind == SEARCH_CONST || parameter->kind == SEARCH_CATEGORICAL;
    bool is_log = parameter->kind == SEARCH_LOG;
    pack_array(writer, has_values ? 3 : is_log ? 6 : 5);
    pack_text(writer, parameter->name);
    pack_u64(writer, parameter->kind);
    if (has_values) {
        pack_raw(writer, parameter->values, parameter->values_bytes);
        return;
    }
    pack_double(writer, parameter->minval);
    pack_double(writer, parameter->maxval);
    pack_u64(writer, parameter->count);
    if (is_log) {
        pack_double(writer, parameter->base);
    }
}

/* Whether a name consists of words between single dots, at most SEGMENTS_MAX of them. */
static bool name_is_good(const char *name)
{
    unsigned segments = 1;
    char before = '.';
    for (const char *p = name; *p != '\0'; p++) {
        if (*p == '.' && before == '.') {
            return false;
        }
        segments += *p == '.';
        before = *p;
    }
    return before != '.' && segments <= SEGMENTS_MAX;
}

static bool is_between(double value, double low, double high)
{
    return !isnan(value) && value >= low && value <= high;
}

static bool is_integer(double value)
{
    return is_between(value, -INTEGER_MAX, INTEGER_MAX) && (double)(int64_t)value == value;
}

static bool range_is_good(const struct search_parameter *parameter)
{
    double low = parameter->minval, high = parameter->maxval;
    if (!is_between(low, -DOUBLE_MAX, DOUBLE_MAX) || !is_between(high, low, DOUBLE_MAX)) {
        return false;
    }
    if (parameter->kind == SEARCH_INT) {
        return is_integer(low) && is_integer(high);
    }
    if (parameter->kind == SEARCH_LOG) {
        return is_between(parameter->base, 1e-6, 1e6) &&
               is_between(number_pow(parameter->base, low), 1 / DOUBLE_MAX, DOUBLE_MAX) &&
               is_between(number_pow(parameter->base, high), 1 / DOUBLE_MAX, DOUBLE_MAX);
    }
    return true;
}

/* Reads past a value of a shape that JSON has too: not too deep, and keys are texts. */
static void skip_value(struct pack_reader *reader, unsigned depth)
{
    enum pack_type type = pack_peek(reader);
    if (type != PACK_ARRAY && type != PACK_MAP) {
        pack_skip(reader);
        return;
    }
    uint32_t count = type == PACK_MAP ? pack_read_map(reader) : pack_read_array(reader);
    if (depth == VALUE_DEPTH_MAX) {
        reader->failed = true;
    }
    for (uint32_t i = 0; i < count && !reader->failed; i++) {
        size_t bytes;
        if (type == PACK_MAP) {
            (void)pack_read_text(reader, &bytes);
        }
        skip_value(reader, depth + 1);
    }
}

static void read_values(struct pack_reader *reader, struct search_parameter *parameter)
{
    struct pack_reader inside = *reader, walk = *reader;
    size_t bytes;
    parameter->values = pack_read_any(reader, &bytes);
    skip_value(&walk, 0);
    reader->failed = reader->failed || walk.failed;
    parameter->values_bytes = (uint32_t)bytes;
    if (parameter->kind == SEARCH_CATEGORICAL) {
        uint32_t choices = pack_read_array(&inside);
        if (inside.failed || choices == 0 || choices > CHOICES_MAX) {
            reader->failed = true;
        }
    }
}

int search_parameter_read(struct pack_reader *reader, struct search_parameter *out)
{
    struct search_parameter parameter;
    memset(&parameter, 0, sizeof parameter);
    uint32_t fields = pack_read_array(reader);
    pack_read_text_copy(reader, parameter.name, sizeof parameter.name);
    parameter.kind = (enum search_parameter_kind)pack_read_u64_max(reader, SEARCH_LOG);
    bool good = !reader->failed && name_is_good(parameter.name);
    if (parameter.kind == SEARCH_CONST || parameter.kind == SEARCH_CATEGORICAL) {
        good = good && fields == 3;
        read_values(reader, &parameter);
    } else {
        good = good && fields == (parameter.kind == SEARCH_LOG ? 6 : 5);
        parameter.minval = pack_read_double(reader);
        parameter.maxval = pack_read_double(reader);
        parameter.count = (uint32_t)pack_read_u64_max(reader, SEARCH_TRIALS_MAX);
        if (parameter.kind == SEARCH_LOG) {
            parameter.base = pack_read_double(reader);
        }
        good = good && !reader->failed && range_is_good(&parameter);
    }
    if (!good || reader->failed) {
        reader->failed = true;
        return ERR_MALFORMED;
    }
    *out = parameter;
    return 0;
}

/* The parameters of a space, read anew in each call. About 32 KiB, on the stack. */
struct parameters {
    struct search_parameter list[SEARCH_PARAMETERS_MAX];
    uint32_t count;
};

/* True if the names are equal or one names a map around the other: "a" and "a.b" cannot both have a value. */
static bool names_collide(const char *a, const char *b)
{
    size_t i = 0;
    while (a[i] != '\0' && a[i] == b[i]) {
        i++;
    }
    return (a[i] == '\0' && (b[i] == '\0' || b[i] == '.')) || (b[i] == '\0' && a[i] == '.');
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

static uint32_t choice_count(const struct search_parameter *parameter)
{
    struct pack_reader reader;
    pack_reader_init(&reader, parameter->values, parameter->values_bytes);
    return pack_read_array(&reader);
}

/* The length of the longest value of a parameter. */
static size_t value_bytes_max(const struct search_parameter *parameter)
{
    if (parameter->kind == SEARCH_CONST) {
        return parameter->values_bytes;
    }
    if (parameter->kind != SEARCH_CATEGORICAL) {
        return 9; /* a double or a 64-bit integer */
    }
    struct pack_reader reader;
    pack_reader_init(&reader, parameter->values, parameter->values_bytes);
    size_t most = 0;
    for (uint32_t left = pack_read_array(&reader); left > 0; left--) {
        size_t bytes;
        (void)pack_read_any(&reader, &bytes);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Reads a space; *values_max becomes the most bytes that the values of a trial take. ERR_FULL: those are too many. */
static int read_space(const struct search_space *space, struct parameters *out, size_t *values_max)
{
    struct pack_reader reader;
    pack_reader_init(&reader, space->bytes, space->byte_count);
    if (space->byte_count > SEARCH_SPACE_BYTES_MAX) {
        return ERR_MALFORMED;
    }
    out->count = pack_read_array(&reader);
    if (out->count > SEARCH_PARAMETERS_MAX) {
        return ERR_MALFORMED;
    }
    size_t values_bytes = 3; /* the head of the outermost map */
    for (uint32_t i = 0; i < out->count; i++) {
        if (search_parameter_read(&reader, &out->list[i]) != 0) {
            return ERR_MALFORMED;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (names_collide(out->list[i].name, out->list[j].name)) {
                return ERR_MALFORMED;
            }
        }
        /* Each part of the name: a text of up to 63 chars has a head of 2 bytes, the map around it a head of 3. */
        values_bytes += value_bytes_max(&out->list[i]) + 2;
        for (const char *p = out->list[i].name; *p != '\0'; p++) {
            values_bytes += *p == '.' ? 5 : 1;
        }
    }
    if (!pack_at_end(&reader)) {
        return ERR_MALFORMED;
    }
    *values_max = values_bytes;
    return values_bytes <= SEARCH_VALUES_BYTES_MAX ? 0 : ERR_FULL;
}

static int read_parameters(const struct search_space *space, struct parameters *out)
{
    size_t values_max;
    return read_space(space, out, &values_max);
}

size_t search_values_bytes_max(const struct search_space *space)
{
    struct parameters parameters;
    size_t values_max = SIZE_MAX;
    (void)read_space(space, &parameters, &values_max);
    return values_max;
}

/* ---- grid ---- */

/* The number of grid points of a parameter; 0: unknown (no count). */
static uint64_t grid_points(const struct search_parameter *parameter)
{
    switch (parameter->kind) {
    case SEARCH_CONST:
        return 1;
    case SEARCH_CATEGORICAL:
        return choice_count(parameter);
    case SEARCH_INT: {
        uint64_t all = (uint64_t)((int64_t)parameter->maxval - (int64_t)parameter->minval) + 1;
        return parameter->count == 0 || parameter->count > all ? all : parameter->count;
    }
    case SEARCH_DOUBLE:
    case SEARCH_LOG:
        break;
    }
    return parameter->count;
}

/* The nearest integer to low + range * i / (points - 1), halves up, without overflow. */
static int64_t grid_integer(int64_t low, int64_t high, uint64_t i, uint64_t points)
{
    uint64_t range = (uint64_t)(high - low);
    if (points == 1) {
        return low + (int64_t)(range / 2 + range % 2);
    }
    uint64_t steps = points - 1;
    uint64_t whole = range / steps, rest = range % steps;
    /* No overflow: i <= steps, rest < steps, and search_trial_count has checked points <= SEARCH_TRIALS_MAX. */
    return low + (int64_t)(i * whole + (2 * i * rest + steps) / (2 * steps));
}

static double grid_number(double low, double high, uint64_t i, uint64_t points)
{
    if (points == 1) {
        return low + (high - low) / 2;
    }
    return low + (double)i * (high - low) / (double)(points - 1);
}

int search_trial_count(const struct search_space *space, uint32_t *out)
{
    struct parameters parameters;
    int error = read_parameters(space, &parameters);
    if (error != 0) {
        return error;
    }
    uint64_t trials = space->kind == SEARCH_RANDOM ? space->max_trials : 1;
    if (space->kind == SEARCH_RANDOM && trials == 0) {
        return ERR_MALFORMED;
    }
    for (uint32_t i = 0; space->kind == SEARCH_GRID && i < parameters.count; i++) {
        uint64_t points = grid_points(&parameters.list[i]);
        if (points == 0) {
            return ERR_REFUSED;
        }
        if (points > SEARCH_TRIALS_MAX || trials * points > SEARCH_TRIALS_MAX) {
            return ERR_FULL;
        }
        trials *= points;
    }
    if (trials > SEARCH_TRIALS_MAX) {
        return ERR_FULL;
    }
    *out = (uint32_t)trials;
    return 0;
}

/* ---- the values of a trial ---- */

/* The value of a parameter in a trial: an element of `values`, an integer or a number. */
struct drawn {
    uint64_t choice;
    int64_t integer;
    double number;
};

static double clamp(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

static void draw_random(const struct search_parameter *parameter, struct random *random, struct drawn *out)
{
    double low = parameter->minval, high = parameter->maxval;
    switch (parameter->kind) {
    case SEARCH_CONST:
        break;
    case SEARCH_CATEGORICAL:
        out->choice = random_below(random, choice_count(parameter));
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

static void draw_grid(const struct search_parameter *parameter, uint64_t point, struct drawn *out)
{
    uint64_t points = grid_points(parameter);
    out->choice = point;
    if (parameter->kind == SEARCH_INT) {
        out->integer = grid_integer((int64_t)parameter->minval, (int64_t)parameter->maxval, point, points);
    } else if (parameter->kind != SEARCH_CATEGORICAL && parameter->kind != SEARCH_CONST) {
        out->number = grid_number(parameter->minval, parameter->maxval, point, points);
    }
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
        /* Rounding may step over a bound with more than 9 digits. */
        pack_double(writer, clamp(number_round9(drawn->number), parameter->minval, parameter->maxval));
        break;
    case SEARCH_LOG:
        pack_double(writer, number_round9(number_pow(parameter->base, drawn->number)));
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
 * key stands where its first parameter stood. Recursion is bounded by SEGMENTS_MAX. */
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

int search_trial_values(const struct search_space *space, uint64_t seed, uint32_t index, struct pack_writer *writer)
{
    struct parameters parameters;
    uint32_t trials;
    if (search_trial_count(space, &trials) != 0 || read_parameters(space, &parameters) != 0) {
        return ERR_MALFORMED;
    }
    if (index >= trials) {
        return ERR_NOT_FOUND;
    }
    struct drawn drawn[SEARCH_PARAMETERS_MAX];
    memset(drawn, 0, sizeof drawn);
    if (space->kind == SEARCH_GRID) {
        uint64_t rest = index;
        for (uint32_t i = parameters.count; i-- > 0;) { /* the last parameter changes fastest */
            uint64_t points = grid_points(&parameters.list[i]);
            draw_grid(&parameters.list[i], rest % points, &drawn[i]);
            rest /= points;
        }
    } else {
        struct random random;
        random_init_stream(&random, seed, index);
        for (uint32_t i = 0; i < parameters.count; i++) {
            draw_random(&parameters.list[i], &random, &drawn[i]);
        }
    }
    if (parameters.count == 0) {
        pack_map(writer, 0);
    } else {
        pack_level(writer, &parameters, drawn, 0, 0);
    }
    return writer->failed ? ERR_FULL : 0;
}
