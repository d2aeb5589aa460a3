#include "node/http/mlflow/filter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- words ----------------------------------------------------------------------------------------------------- */

struct reader {
    const char *text, *at;
    char *error;
};

static bool fail(struct reader *reader, const char *wants)
{
    (void)snprintf(reader->error, 256, "The filter wants %s at character %zu: '%.40s'.", wants,
                   (size_t)(reader->at - reader->text) + 1, reader->at);
    return false;
}

static void skip_blanks(struct reader *reader)
{
    reader->at += strspn(reader->at, " \t\r\n");
}

/* Takes a word of letters in any case, if it is the next one. */
static bool take_word(struct reader *reader, const char *word)
{
    size_t bytes = strlen(word);
    skip_blanks(reader);
    char after = strncasecmp(reader->at, word, bytes) == 0 ? reader->at[bytes] : 'x';
    bool is_whole = !((after >= 'a' && after <= 'z') || (after >= 'A' && after <= 'Z') || after == '_' ||
                      (after >= '0' && after <= '9'));
    reader->at += is_whole ? bytes : 0;
    return is_whole;
}

static bool take_mark(struct reader *reader, const char *mark)
{
    size_t bytes = strlen(mark);
    skip_blanks(reader);
    bool is_there = strncmp(reader->at, mark, bytes) == 0;
    reader->at += is_there ? bytes : 0;
    return is_there;
}

/* Takes what stands between two quotes of this kind. */
static bool take_quoted(struct reader *reader, char out[FILTER_TEXT_BYTES], size_t *bytes_out)
{
    char quote = *reader->at;
    const char *end = strchr(reader->at + 1, quote);
    size_t bytes = end != NULL ? (size_t)(end - reader->at - 1) : FILTER_TEXT_BYTES;
    if (bytes >= FILTER_TEXT_BYTES) {
        return fail(reader, "a text in quotes of at most 255 bytes");
    }
    memcpy(out, reader->at + 1, bytes);
    out[bytes] = '\0';
    *bytes_out = bytes;
    reader->at = end + 1;
    return true;
}

/* ---- names ----------------------------------------------------------------------------------------------------- */

static bool read_of(struct reader *reader, enum filter_of *out)
{
    static const struct {
        const char *word;
        enum filter_of of;
    } words[] = {{"metrics", FILTER_METRIC},
                 {"metric", FILTER_METRIC},
                 {"params", FILTER_PARAM},
                 {"parameters", FILTER_PARAM},
                 {"param", FILTER_PARAM},
                 {"parameter", FILTER_PARAM},
                 {"tags", FILTER_TAG},
                 {"tag", FILTER_TAG},
                 {"attributes", FILTER_ATTRIBUTE},
                 {"attribute", FILTER_ATTRIBUTE},
                 {"attr", FILTER_ATTRIBUTE},
                 {"run", FILTER_ATTRIBUTE}};
    const char *before = reader->at;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        reader->at = before;
        if (take_word(reader, words[i].word) && *reader->at == '.') {
            reader->at++;
            *out = words[i].of;
            return true;
        }
    }
    reader->at = before; /* a bare word is an attribute */
    *out = FILTER_ATTRIBUTE;
    return true;
}

/* metrics.loss, metrics.`validation/loss`, params."lr", status */
static bool read_name(struct reader *reader, enum filter_of *of, char key[FILTER_TEXT_BYTES])
{
    size_t bytes;
    skip_blanks(reader);
    (void)read_of(reader, of);
    if (*reader->at == '`' || *reader->at == '"') {
        return take_quoted(reader, key, &bytes) && (bytes > 0 || fail(reader, "a name"));
    }
    bytes = strcspn(reader->at, " \t\r\n=!<>(),'\"`");
    if (bytes == 0 || bytes >= FILTER_TEXT_BYTES) {
        return fail(reader, "a name such as metrics.loss");
    }
    memcpy(key, reader->at, bytes);
    key[bytes] = '\0';
    reader->at += bytes;
    return true;
}

/* ---- terms ----------------------------------------------------------------------------------------------------- */

static bool read_op(struct reader *reader, enum filter_op *out)
{
    static const struct {
        const char *mark;
        enum filter_op op;
    } marks[] = {{"!=", FILTER_UNEQUAL}, {">=", FILTER_AT_LEAST}, {"<=", FILTER_AT_MOST},
                 {"=", FILTER_EQUAL},    {">", FILTER_MORE},      {"<", FILTER_LESS}};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        if (take_mark(reader, marks[i].mark)) {
            *out = marks[i].op;
            return true;
        }
    }
    if (take_word(reader, "LIKE")) {
        *out = FILTER_LIKE;
    } else if (take_word(reader, "ILIKE")) {
        *out = FILTER_ILIKE;
    } else if (take_word(reader, "IN")) {
        *out = FILTER_IN;
    } else if (take_word(reader, "NOT") && take_word(reader, "IN")) {
        *out = FILTER_NOT_IN;
    } else {
        return fail(reader, "one of = != > >= < <= LIKE ILIKE IN");
    }
    return true;
}

/* ('a', 'b') */
static bool read_list(struct reader *reader, struct filter_term *term)
{
    size_t used = 0;
    if (!take_mark(reader, "(")) {
        return fail(reader, "a list such as ('a', 'b')");
    }
    do {
        char text[FILTER_TEXT_BYTES];
        size_t bytes;
        skip_blanks(reader);
        if (*reader->at != '\'' && *reader->at != '"') {
            return fail(reader, "a text in quotes");
        }
        if (!take_quoted(reader, text, &bytes)) {
            return false;
        }
        if (used + bytes + 1 > sizeof term->text || term->text_count == FILTER_VALUES_MAX) {
            return fail(reader, "a shorter list");
        }
        memcpy(term->text + used, text, bytes + 1);
        used += bytes + 1;
        term->text_count++;
    } while (take_mark(reader, ","));
    return take_mark(reader, ")") || fail(reader, "a closing parenthesis");
}

static bool read_value(struct reader *reader, struct filter_term *term)
{
    size_t bytes;
    if (term->op == FILTER_IN || term->op == FILTER_NOT_IN) {
        return read_list(reader, term);
    }
    skip_blanks(reader);
    if (*reader->at == '\'' || *reader->at == '"') {
        return take_quoted(reader, term->text, &bytes);
    }
    char *end;
    term->number = strtod(reader->at, &end);
    term->is_number = end != reader->at;
    if (!term->is_number) {
        return fail(reader, "a number, or a text in quotes");
    }
    reader->at = end;
    return true;
}

bool filter_read(const char *text, struct filter *out, char error[256])
{
    struct reader reader = {.text = text, .at = text, .error = error};
    out->count = 0;
    if (text == NULL) {
        return true;
    }
    skip_blanks(&reader);
    if (*reader.at == '\0') {
        return true;
    }
    do {
        if (out->count == FILTER_TERMS_MAX) {
            return fail(&reader, "no more than 32 comparisons");
        }
        struct filter_term *term = &out->terms[out->count++];
        memset(term, 0, sizeof *term);
        if (!read_name(&reader, &term->of, term->key) || !read_op(&reader, &term->op) || !read_value(&reader, term)) {
            return false;
        }
        bool is_like = term->op == FILTER_LIKE || term->op == FILTER_ILIKE;
        if (term->of == FILTER_METRIC && !term->is_number) {
            return fail(&reader, "a metric to be compared with a number");
        }
        if (is_like && term->is_number) {
            return fail(&reader, "a text behind LIKE");
        }
    } while (take_word(&reader, "AND"));
    skip_blanks(&reader);
    return *reader.at == '\0' || fail(&reader, "`and`, or the end,");
}

bool filter_read_order(const char *text, struct filter_order *out, char error[256])
{
    struct reader reader = {.text = text, .at = text, .error = error};
    if (!read_name(&reader, &out->of, out->key)) {
        return false;
    }
    out->descending = take_word(&reader, "DESC");
    if (!out->descending) {
        (void)take_word(&reader, "ASC");
    }
    skip_blanks(&reader);
    return *reader.at == '\0' || fail(&reader, "ASC, DESC or the end");
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

static char lower(char c, bool ignores_case)
{
    return ignores_case && c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool filter_like(const char *pattern, const char *text, bool ignores_case)
{
    const char *again_pattern = NULL, *again_text = NULL; /* where the last % may take one character more */
    while (*text != '\0') {
        if (*pattern == '%') {
            again_pattern = ++pattern;
            again_text = text;
        } else if (*pattern != '\0' &&
                   (*pattern == '_' || lower(*pattern, ignores_case) == lower(*text, ignores_case))) {
            pattern++;
            text++;
        } else if (again_pattern != NULL) {
            pattern = again_pattern;
            text = ++again_text;
        } else {
            return false;
        }
    }
    return pattern[strspn(pattern, "%")] == '\0';
}

static bool is_among(const struct filter_term *term, const char *text)
{
    const char *at = term->text;
    for (size_t i = 0; i < term->text_count; i++, at += strlen(at) + 1) {
        if (strcmp(at, text) == 0) {
            return true;
        }
    }
    return false;
}

static bool holds(enum filter_op op, int order)
{
    switch (op) {
    case FILTER_EQUAL:
        return order == 0;
    case FILTER_UNEQUAL:
        return order != 0;
    case FILTER_LESS:
        return order < 0;
    case FILTER_AT_MOST:
        return order <= 0;
    case FILTER_MORE:
        return order > 0;
    case FILTER_AT_LEAST:
        return order >= 0;
    default:
        return false;
    }
}

bool filter_passes(const struct filter_term *term, struct filter_value value)
{
    char text[32];
    if (value.kind == FILTER_ABSENT) {
        return false;
    }
    if (term->is_number) {
        double number = value.number;
        char *end = NULL;
        if (value.kind == FILTER_TEXT) {
            number = strtod(value.text, &end);
        }
        if (isnan(number) || (value.kind == FILTER_TEXT && (end == value.text || *end != '\0'))) {
            return term->op == FILTER_UNEQUAL;
        }
        return holds(term->op, number < term->number ? -1 : number > term->number);
    }
    if (value.kind == FILTER_NUMBER) {
        (void)snprintf(text, sizeof text, "%.17g", value.number);
        value.text = text;
    }
    switch (term->op) {
    case FILTER_LIKE:
    case FILTER_ILIKE:
        return filter_like(term->text, value.text, term->op == FILTER_ILIKE);
    case FILTER_IN:
    case FILTER_NOT_IN:
        return is_among(term, value.text) == (term->op == FILTER_IN);
    default:
        return holds(term->op, strcmp(value.text, term->text));
    }
}

static bool is_last(struct filter_value value)
{
    return value.kind == FILTER_ABSENT || (value.kind == FILTER_NUMBER && isnan(value.number));
}

int filter_compare(struct filter_value a, struct filter_value b, bool descending)
{
    int order;
    if (is_last(a) || is_last(b)) {
        return is_last(a) - is_last(b);
    }
    if (a.kind != b.kind) {
        order = a.kind == FILTER_NUMBER ? -1 : 1;
    } else if (a.kind == FILTER_NUMBER) {
        order = a.number < b.number ? -1 : a.number > b.number;
    } else {
        order = strcmp(a.text, b.text);
    }
    return descending ? -order : order;
}
