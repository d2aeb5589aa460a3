#include "train/search/space.h"

#include <math.h> /* isnan only, no function is called */
#include <string.h>

#include "base/err.h"
#include "base/number.h"
#include "train/search/sobol.h"

#define INTEGER_MAX 9007199254740992.0 /* 2^53: every integer up to it is a double */
#define DOUBLE_MAX 1e300               /* the difference of two such values is finite */
#define SEGMENTS_MAX 8                 /* of a dotted name: maps in maps */
#define CHOICES_MAX 1000               /* of a categorical */
#define VALUE_DEPTH_MAX 16             /* lists and maps in a value; with the maps of the names well below JSON's 32 */

/* A packed parameter is an array: [name, kind, values] for const and categorical, [name, kind, minval, maxval, count] for int
 * and double, and the same plus base for log. A parameter with properties that the first versions did not know has one element
 * more, a map of these; the first versions refuse it for its length, and every version refuses keys that it does not know. */

#define KEY_LOG "log"
#define KEY_STEP "step"
#define KEY_WHEN "when"

static uint32_t usual_fields(enum search_parameter_kind kind)
{
    return kind == SEARCH_CONST || kind == SEARCH_CATEGORICAL ? 3 : kind == SEARCH_LOG ? 6 : 5;
}

uint32_t space_later_properties(const struct search_parameter *parameter)
{
    return (parameter->is_log ? 1u : 0u) + (parameter->step > 0 ? 1u : 0u) + (parameter->when_bytes > 0 ? 1u : 0u);
}

static void pack_later(struct pack_writer *writer, const struct search_parameter *parameter)
{
    pack_map(writer, space_later_properties(parameter));
    if (parameter->is_log) {
        pack_text(writer, KEY_LOG);
        pack_bool(writer, true);
    }
    if (parameter->step > 0) {
        pack_text(writer, KEY_STEP);
        pack_double(writer, parameter->step);
    }
    if (parameter->when_bytes > 0) {
        pack_text(writer, KEY_WHEN);
        pack_raw(writer, parameter->when, parameter->when_bytes);
    }
}

void search_parameter_pack(struct pack_writer *writer, const struct search_parameter *parameter)
{
    bool has_later = space_later_properties(parameter) > 0;
    pack_array(writer, usual_fields(parameter->kind) + (has_later ? 1 : 0));
    pack_text(writer, parameter->name);
    pack_u64(writer, parameter->kind);
    if (parameter->kind == SEARCH_CONST || parameter->kind == SEARCH_CATEGORICAL) {
        pack_raw(writer, parameter->values, parameter->values_bytes);
    } else {
        pack_double(writer, parameter->minval);
        pack_double(writer, parameter->maxval);
        pack_u64(writer, parameter->count);
    }
    if (parameter->kind == SEARCH_LOG) {
        pack_double(writer, parameter->base);
    }
    if (has_later) {
        pack_later(writer, parameter);
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

uint64_t space_step_count(const struct search_parameter *parameter)
{
    double low = parameter->minval, high = parameter->maxval;
    if (parameter->kind == SEARCH_INT) {
        return (uint64_t)((int64_t)high - (int64_t)low) / (parameter->step > 0 ? (uint64_t)parameter->step : 1);
    }
    return (uint64_t)((high - low) / parameter->step + 0.5);
}

/* True up to a millionth, since 3 * 0.1 is not 0.3. The value is from 0 to 2^53. */
static bool is_near_integer(double value)
{
    return is_between(value - (double)(int64_t)(value + 0.5), -1e-6, 1e-6);
}

bool search_step_fits(const struct search_parameter *parameter)
{
    double range = parameter->maxval - parameter->minval;
    if (!is_between(parameter->step, 0, DOUBLE_MAX) || parameter->step <= 0 || range / parameter->step > INTEGER_MAX) {
        return false;
    }
    if (parameter->kind == SEARCH_INT) {
        uint64_t exact = (uint64_t)((int64_t)parameter->maxval - (int64_t)parameter->minval);
        return is_integer(parameter->step) && exact % (uint64_t)parameter->step == 0;
    }
    return is_near_integer(range / parameter->step);
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

/* Reads the map of the properties that the first versions did not know. The range is good. */
static void read_later(struct pack_reader *reader, struct search_parameter *parameter)
{
    uint32_t pairs = pack_read_map(reader);
    for (uint32_t i = 0; i < pairs && !reader->failed; i++) {
        size_t bytes;
        const char *key = pack_read_text(reader, &bytes);
        if (pack_text_is(key, bytes, KEY_LOG) && parameter->kind == SEARCH_INT) {
            parameter->is_log = pack_read_bool(reader);
            reader->failed |= !parameter->is_log || parameter->minval < 1;
        } else if (pack_text_is(key, bytes, KEY_STEP) && (parameter->kind == SEARCH_INT || parameter->kind == SEARCH_DOUBLE)) {
            parameter->step = pack_read_double(reader);
            reader->failed |= reader->failed || !search_step_fits(parameter);
        } else if (pack_text_is(key, bytes, KEY_WHEN) && pack_peek(reader) == PACK_ARRAY) {
            parameter->when = pack_read_any(reader, &bytes); /* what it says depends on other parameters */
            parameter->when_bytes = (uint32_t)bytes;
        } else {
            reader->failed = true;
        }
    }
    reader->failed |= space_later_properties(parameter) != pairs || pairs == 0 || (parameter->is_log && parameter->step > 0);
}

int search_parameter_read(struct pack_reader *reader, struct search_parameter *out)
{
    struct search_parameter parameter;
    memset(&parameter, 0, sizeof parameter);
    uint32_t fields = pack_read_array(reader);
    pack_read_text_copy(reader, parameter.name, sizeof parameter.name);
    parameter.kind = (enum search_parameter_kind)pack_read_u64_max(reader, SEARCH_LOG);
    uint32_t usual = usual_fields(parameter.kind);
    bool good = !reader->failed && name_is_good(parameter.name) && (fields == usual || fields == usual + 1);
    if (parameter.kind == SEARCH_CONST || parameter.kind == SEARCH_CATEGORICAL) {
        read_values(reader, &parameter);
    } else {
        parameter.minval = pack_read_double(reader);
        parameter.maxval = pack_read_double(reader);
        parameter.count = (uint32_t)pack_read_u64_max(reader, SEARCH_TRIALS_MAX);
        if (parameter.kind == SEARCH_LOG) {
            parameter.base = pack_read_double(reader);
        }
        good = good && !reader->failed && range_is_good(&parameter);
    }
    if (good && fields > usual) {
        read_later(reader, &parameter);
    }
    if (!good || reader->failed) {
        reader->failed = true;
        return ERR_MALFORMED;
    }
    *out = parameter;
    return 0;
}

/* The head is a map before the parameters, which are arrays: so the first versions refuse it. */

#define KEY_SAMPLER "sampler"
#define KEY_INITIAL "initial"

void search_head_pack(struct pack_writer *writer, const struct search_head *head, uint32_t parameter_count)
{
    bool has_sampler = head->sampler != SEARCH_SAMPLER_RANDOM, has_initial = head->initial_bytes > 0;
    uint32_t pairs = (has_sampler ? 1u : 0u) + (has_initial ? 1u : 0u);
    pack_array(writer, parameter_count + (pairs > 0 ? 1 : 0));
    if (pairs > 0) {
        pack_map(writer, pairs);
    }
    if (has_sampler) {
        pack_text(writer, KEY_SAMPLER);
        pack_u64(writer, head->sampler);
    }
    if (has_initial) {
        pack_text(writer, KEY_INITIAL);
        pack_raw(writer, head->initial, head->initial_bytes);
    }
}

int search_head_read(struct pack_reader *reader, struct search_head *out, uint32_t *parameter_count)
{
    struct search_head head = {.sampler = SEARCH_SAMPLER_RANDOM};
    uint32_t count = pack_read_array(reader);
    bool has_head = count > 0 && pack_peek(reader) == PACK_MAP;
    for (uint32_t left = has_head ? pack_read_map(reader) : 0; left > 0 && !reader->failed; left--) {
        size_t bytes;
        const char *key = pack_read_text(reader, &bytes);
        if (pack_text_is(key, bytes, KEY_SAMPLER)) {
            head.sampler = (enum search_sampler)pack_read_u64_max(reader, SEARCH_SAMPLER_TPE);
        } else if (pack_text_is(key, bytes, KEY_INITIAL)) {
            head.initial = pack_read_any(reader, &bytes);
            head.initial_bytes = (uint32_t)bytes;
        } else {
            reader->failed = true;
        }
    }
    if (reader->failed) {
        return ERR_MALFORMED;
    }
    *out = head;
    *parameter_count = count - (has_head ? 1 : 0);
    return 0;
}

bool search_space_is_plain(const struct search_space *space)
{
    struct pack_reader reader;
    struct search_parameter parameter;
    pack_reader_init(&reader, space->bytes, space->byte_count);
    uint32_t left = pack_read_array(&reader);
    bool is_plain = pack_peek(&reader) != PACK_MAP;
    for (; left > 0 && is_plain; left--) {
        is_plain = search_parameter_read(&reader, &parameter) == 0 && space_later_properties(&parameter) == 0;
    }
    return is_plain && !reader.failed;
}

/* True if the names are equal or one names a map around the other: "a" and "a.b" cannot both have a value. */
static bool names_collide(const char *a, const char *b)
{
    size_t i = 0;
    while (a[i] != '\0' && a[i] == b[i]) {
        i++;
    }
    return (a[i] == '\0' && (b[i] == '\0' || b[i] == '.')) || (b[i] == '\0' && a[i] == '.');
}

uint32_t space_choice_count(const struct search_parameter *parameter)
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

/* Whether a trial can have the value that a condition names. */
static bool can_have(const struct search_parameter *parameter, int64_t value)
{
    if (parameter->kind == SEARCH_INT) {
        return is_between((double)value, -INTEGER_MAX, INTEGER_MAX) && search_value_fits(parameter, (double)value);
    }
    return value >= 0 && (uint64_t)value < (parameter->kind == SEARCH_CONST ? 1 : space_choice_count(parameter));
}

/* Reads the conditions of parameter `at`. */
static bool read_conditions(struct parameters *parameters, uint32_t at)
{
    const struct search_parameter *parameter = &parameters->list[at];
    struct pack_reader reader;
    pack_reader_init(&reader, parameter->when, parameter->when_bytes);
    parameters->first_condition[at] = parameters->condition_count;
    uint32_t conditions = parameter->when_bytes > 0 ? pack_read_array(&reader) : 0;
    for (uint32_t i = 0; i < conditions && !reader.failed; i++) {
        bool is_pair = pack_read_array(&reader) == 2;
        uint64_t other = pack_read_u64(&reader);
        uint32_t count = pack_read_array(&reader);
        if (reader.failed || !is_pair || other >= at || parameters->condition_count == SEARCH_CONDITIONS_MAX ||
            count > SEARCH_ALLOWED_MAX - parameters->allowed_count || parameters->list[other].kind == SEARCH_DOUBLE ||
            parameters->list[other].kind == SEARCH_LOG) {
            return false;
        }
        parameters->is_controller[other] = true;
        parameters->conditions[parameters->condition_count++] = (struct condition){(uint32_t)other, parameters->allowed_count, count};
        for (uint32_t v = 0; v < count; v++) {
            int64_t value = pack_read_i64(&reader);
            if (reader.failed || !can_have(&parameters->list[other], value)) {
                return false;
            }
            parameters->allowed[parameters->allowed_count++] = value;
        }
    }
    parameters->first_condition[at + 1] = parameters->condition_count;
    return pack_at_end(&reader) && (conditions > 0) == (parameter->when_bytes > 0);
}

bool space_is_active(const struct parameters *parameters, uint32_t at, const struct drawn *drawn)
{
    for (uint32_t c = parameters->first_condition[at]; c < parameters->first_condition[at + 1]; c++) {
        const struct condition *condition = &parameters->conditions[c];
        const struct drawn *other = &drawn[condition->other];
        int64_t value = parameters->list[condition->other].kind == SEARCH_INT ? other->integer : (int64_t)other->choice;
        bool is_met = false;
        for (uint32_t v = 0; v < condition->count && other->is_active && !is_met; v++) {
            is_met = parameters->allowed[condition->first + v] == value;
        }
        if (!is_met) {
            return false;
        }
    }
    return true;
}

bool search_value_fits(const struct search_parameter *parameter, double value)
{
    double low = parameter->minval, high = parameter->maxval;
    if (parameter->kind == SEARCH_LOG) {
        double at_low = number_pow(parameter->base, low), at_high = number_pow(parameter->base, high);
        low = at_low < at_high ? at_low : at_high; /* of a base below 1 it is the other one */
        high = at_low < at_high ? at_high : at_low;
        return is_between(value, low * (1 - 1e-9), high * (1 + 1e-9)); /* 1e-3 is not quite 10 to the -3 */
    }
    if (!is_between(value, low, high)) {
        return false;
    }
    if (parameter->kind == SEARCH_INT) {
        return is_integer(value) && (parameter->step == 0 || (uint64_t)((int64_t)value - (int64_t)low) % (uint64_t)parameter->step == 0);
    }
    return parameter->step == 0 || is_near_integer((value - low) / parameter->step);
}

void space_read_own_values(struct pack_reader *reader, const struct parameters *parameters, struct drawn *drawn)
{
    uint64_t next = 0;
    for (uint32_t left = pack_read_array(reader); left > 0 && !reader->failed; left--) {
        reader->failed |= pack_read_array(reader) != 2;
        uint64_t at = pack_read_u64(reader);
        if (reader->failed || at < next || at >= parameters->count) {
            reader->failed = true;
            return;
        }
        const struct search_parameter *parameter = &parameters->list[at];
        next = at + 1;
        drawn[at].is_given = true;
        if (parameter->kind == SEARCH_CONST) {
            reader->failed = true;
        } else if (parameter->kind == SEARCH_CATEGORICAL) {
            drawn[at].choice = pack_read_u64_max(reader, space_choice_count(parameter) - 1);
        } else if (parameter->kind == SEARCH_INT) {
            drawn[at].integer = pack_read_i64(reader);
            reader->failed |= !is_between((double)drawn[at].integer, -INTEGER_MAX, INTEGER_MAX) ||
                              !search_value_fits(parameter, (double)drawn[at].integer);
        } else {
            drawn[at].number = pack_read_double(reader);
            reader->failed |= !search_value_fits(parameter, drawn[at].number);
        }
    }
}

uint32_t space_initial_count(const struct parameters *parameters, struct pack_reader *out)
{
    pack_reader_init(out, parameters->head.initial, parameters->head.initial_bytes);
    return parameters->head.initial_bytes > 0 ? pack_read_array(out) : 0;
}

static bool initial_is_good(const struct parameters *parameters)
{
    struct drawn ignored[SEARCH_PARAMETERS_MAX];
    struct pack_reader reader;
    uint32_t count = space_initial_count(parameters, &reader);
    for (uint32_t i = 0; i < count && i < SEARCH_INITIAL_MAX && !reader.failed; i++) {
        space_read_own_values(&reader, parameters, ignored);
    }
    return pack_at_end(&reader);
}

int space_read(const struct search_space *space, struct parameters *out, size_t *values_max)
{
    struct pack_reader reader;
    pack_reader_init(&reader, space->bytes, space->byte_count);
    if (space->byte_count > SEARCH_SPACE_BYTES_MAX) {
        return ERR_MALFORMED;
    }
    if (search_head_read(&reader, &out->head, &out->count) != 0 || out->count > SEARCH_PARAMETERS_MAX) {
        return ERR_MALFORMED;
    }
    out->condition_count = out->allowed_count = 0;
    memset(out->is_controller, 0, sizeof out->is_controller);
    size_t values_bytes = 3; /* the head of the outermost map */
    uint32_t searched = 0;
    for (uint32_t i = 0; i < out->count; i++) {
        if (search_parameter_read(&reader, &out->list[i]) != 0 || !read_conditions(out, i)) {
            return ERR_MALFORMED;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (names_collide(out->list[i].name, out->list[j].name)) {
                return ERR_MALFORMED;
            }
        }
        /* Each part of the name: a text of up to 63 chars has a head of 2 bytes, the map around it a head of 3. */
        values_bytes += value_bytes_max(&out->list[i]) + 2;
        searched += out->list[i].kind != SEARCH_CONST;
        for (const char *p = out->list[i].name; *p != '\0'; p++) {
            values_bytes += *p == '.' ? 5 : 1;
        }
    }
    if (!pack_at_end(&reader) || !initial_is_good(out) || (out->head.sampler == SEARCH_SAMPLER_SOBOL && searched > SOBOL_DIMENSIONS_MAX)) {
        return ERR_MALFORMED;
    }
    *values_max = values_bytes;
    return values_bytes <= SEARCH_VALUES_BYTES_MAX ? 0 : ERR_FULL;
}

bool space_has_steps(const struct search_parameter *parameter)
{
    return parameter->kind == SEARCH_INT || parameter->step > 0;
}

size_t search_values_bytes_max(const struct search_space *space)
{
    struct parameters parameters;
    size_t values_max = SIZE_MAX;
    (void)space_read(space, &parameters, &values_max);
    return values_max;
}
