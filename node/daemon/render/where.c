#include "node/daemon/render/where.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/format.h"
#include "base/number.h"
#include "base/pack.h"

#define DEPTH_MAX 8
#define KEY_BYTES 6 /* of a text: a double holds them exactly */
#define KEY_OF_TEXT 1e300 /* of the empty one: behind numbers that people use */

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bool fail(char error[WHERE_ERROR_BYTES], const char *what, const char *at)
{
    char place[41];
    (void)bytes_copy_text(place, sizeof place, at);
    format_text(error, WHERE_ERROR_BYTES,
                "%s at '%s'; conditions are such as hp.lr<0.01, hp.net=small, metric>=0.9 or step>100, joined by 'and'.", what, place);
    return false;
}

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t");
}

/* The text's length without the blanks at its end. */
static size_t trimmed(const char *text, size_t bytes)
{
    while (bytes > 0 && (text[bytes - 1] == ' ' || text[bytes - 1] == '\t')) {
        bytes--;
    }
    return bytes;
}

/* Where the condition ends: at " and ", which a value in quotes may hold. */
static size_t condition_bytes(const char *text)
{
    char quote = '\0';
    for (size_t i = 0; text[i] != '\0'; i++) {
        if (quote == '\0' && i > 0 && text[i] == ' ' && strncmp(text + i, " and ", 5) == 0) {
            return i;
        }
        bool is_mark = text[i] == '\'' || text[i] == '"';
        quote = is_mark && quote == '\0' ? text[i] : text[i] == quote ? '\0' : quote;
    }
    return strlen(text);
}

static bool read_operator(const char **at, enum where_operator *out)
{
    static const struct {
        const char *text;
        enum where_operator op;
    } operators[] = {{"<=", WHERE_AT_MOST}, {">=", WHERE_AT_LEAST}, {"!=", WHERE_UNEQUAL}, {"==", WHERE_EQUAL},
                     {"<", WHERE_LESS},     {">", WHERE_MORE},      {"=", WHERE_EQUAL}};
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        size_t bytes = strlen(operators[i].text);
        if (strncmp(*at, operators[i].text, bytes) == 0) {
            *at += bytes;
            *out = operators[i].op;
            return true;
        }
    }
    return false;
}

static bool read_subject(const char *text, size_t bytes, struct where_condition *out)
{
    static const struct {
        const char *name;
        enum where_subject subject;
    } subjects[] = {{"metric", WHERE_METRIC}, {"step", WHERE_STEP}, {"index", WHERE_INDEX}, {"trial", WHERE_INDEX}};
    size_t prefix = strlen(WHERE_PREFIX);
    for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++) {
        if (strlen(subjects[i].name) == bytes && memcmp(subjects[i].name, text, bytes) == 0) {
            out->subject = subjects[i].subject;
            return true;
        }
    }
    if (bytes <= prefix || memcmp(text, WHERE_PREFIX, prefix) != 0 || bytes - prefix >= sizeof out->name) {
        return false;
    }
    out->subject = WHERE_HYPERPARAMETER;
    memcpy(out->name, text + prefix, bytes - prefix);
    return true;
}

static bool read_value(const char *text, size_t bytes, struct where_condition *out)
{
    bool is_quoted = bytes >= 2 && (text[0] == '\'' || text[0] == '"') && text[bytes - 1] == text[0];
    text += is_quoted;
    bytes -= is_quoted ? 2 : 0;
    if ((bytes == 0 && !is_quoted) || bytes >= sizeof out->text) {
        return false;
    }
    memcpy(out->text, text, bytes);
    out->is_number = !is_quoted && number_parse(text, bytes, &out->number) == 0;
    return true;
}

static bool read_condition(const char *text, size_t bytes, struct where_condition *out, char error[WHERE_ERROR_BYTES])
{
    char whole[WHERE_BYTES];
    memset(out, 0, sizeof *out);
    bytes_copy_text_n(whole, sizeof whole, text, bytes);
    const char *at = whole + strcspn(whole, "<>=!");
    size_t name = trimmed(whole, (size_t)(at - whole));
    if (!read_operator(&at, &out->op)) {
        return fail(error, "A condition lacks its <, <=, >, >=, = or !=", whole);
    }
    if (!read_subject(whole, name, out)) {
        return fail(error, "There is nothing of this name (hyperparameters begin with hp.)", whole);
    }
    at = skip_blanks(at);
    if (!read_value(at, trimmed(at, strlen(at)), out)) {
        return fail(error, "A condition lacks its value", whole);
    }
    bool is_order = out->op != WHERE_EQUAL && out->op != WHERE_UNEQUAL;
    if (!out->is_number && (is_order || out->subject != WHERE_HYPERPARAMETER)) {
        return fail(error, "A number is compared with something that is none", whole);
    }
    return true;
}

bool where_read(const char *text, struct where *out, char error[WHERE_ERROR_BYTES])
{
    out->count = 0;
    for (text = skip_blanks(text); *text != '\0';) {
        size_t bytes = condition_bytes(text);
        if (out->count == WHERE_CONDITIONS_MAX) {
            return fail(error, "There are more than 8 conditions", text);
        }
        if (bytes >= WHERE_BYTES || !read_condition(text, bytes, &out->items[out->count], error)) {
            return bytes < WHERE_BYTES ? false : fail(error, "A condition is too long", text);
        }
        out->count++;
        text += bytes;
        if (*text != '\0') {
            text = skip_blanks(text + 5);
            if (*text == '\0') {
                return fail(error, "Nothing follows the last 'and'", "");
            }
        }
    }
    return true;
}

/* ---- values ------------------------------------------------------------------------------------------------------- */

static bool is_ordered(enum where_operator op, double value, double limit)
{
    switch (op) {
    case WHERE_LESS:
        return value < limit;
    case WHERE_AT_MOST:
        return value <= limit;
    case WHERE_MORE:
        return value > limit;
    case WHERE_AT_LEAST:
        return value >= limit;
    case WHERE_EQUAL:
        return value >= limit && value <= limit;
    case WHERE_UNEQUAL:
        break;
    }
    return value < limit || value > limit;
}

bool where_passes(const struct where_condition *condition, struct where_value value)
{
    if (value.kind == WHERE_ABSENT || (value.kind == WHERE_NUMBER && isnan(value.number))) {
        return false;
    }
    if (value.kind == WHERE_NUMBER && condition->is_number) {
        return is_ordered(condition->op, value.number, condition->number);
    }
    bool is_same = value.kind == WHERE_TEXT && value.bytes == strlen(condition->text) &&
                   memcmp(value.text, condition->text, value.bytes) == 0;
    return condition->op == WHERE_EQUAL ? is_same : condition->op == WHERE_UNEQUAL && !is_same;
}

static struct where_value read_leaf(struct pack_reader *at)
{
    struct where_value value = {.kind = WHERE_OTHER};
    struct pack_reader as_number = *at, as_text = *at, as_bool = *at;
    double number = pack_read_double(&as_number);
    if (!as_number.failed) {
        return (struct where_value){.kind = WHERE_NUMBER, .number = number};
    }
    bool flag = pack_read_bool(&as_bool);
    if (!as_bool.failed) {
        return (struct where_value){.kind = WHERE_TEXT, .text = flag ? "true" : "false", .bytes = flag ? 4 : 5};
    }
    value.text = pack_read_text(&as_text, &value.bytes);
    value.kind = as_text.failed ? WHERE_OTHER : WHERE_TEXT;
    return value;
}

/* Goes through the map, and into the maps under the beginnings of the name. */
static struct where_value find(struct pack_reader map, const char *name, uint32_t depth)
{
    struct where_value found = {.kind = WHERE_ABSENT};
    size_t wanted = strlen(name);
    struct pack_reader reader = map;
    uint32_t pairs = pack_read_map(&reader);
    for (uint32_t i = 0; i < pairs && !reader.failed && found.kind == WHERE_ABSENT; i++) {
        size_t bytes, skipped;
        const char *key = pack_read_text(&reader, &bytes);
        struct pack_reader value = reader;
        (void)pack_read_any(&reader, &skipped);
        if (reader.failed || bytes > wanted || memcmp(key, name, bytes) != 0) {
            continue;
        }
        if (bytes == wanted) {
            found = read_leaf(&value);
        } else if (name[bytes] == '.' && depth < DEPTH_MAX) {
            found = find(value, name + bytes + 1, depth + 1);
        }
    }
    return found;
}

struct where_value where_find(const uint8_t *values, size_t bytes, const char *name)
{
    struct pack_reader reader;
    pack_reader_init(&reader, values, bytes);
    return find(reader, name, 0);
}

double where_key(struct where_value value)
{
    double key = 0;
    if (value.kind == WHERE_NUMBER) {
        return value.number;
    }
    if (value.kind != WHERE_TEXT) {
        return (double)NAN;
    }
    for (size_t i = 0; i < KEY_BYTES; i++) {
        key = 256 * key + (i < value.bytes ? (double)(unsigned char)value.text[i] : 0);
    }
    return KEY_OF_TEXT * (1 + key / (double)(UINT64_C(1) << (8 * KEY_BYTES)));
}
