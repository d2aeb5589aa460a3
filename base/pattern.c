/* Thompson's construction: the pattern becomes an automaton with empty moves, and all states are followed at once. */
#include "base/pattern.h"

#include <string.h>

#define DEPTH_MAX 32

enum step_kind { STEP_BYTE, STEP_CLASS, STEP_ANY, STEP_BEGIN, STEP_END, STEP_FORK, STEP_MATCH };

struct compiler {
    struct pattern *out;
    const char *text;
    size_t bytes, at;
    int depth;
    const char *error; /* the first one */
};

static void fail(struct compiler *c, const char *error)
{
    c->error = c->error != NULL ? c->error : error;
}

static void emit(struct compiler *c, struct pattern_step step)
{
    if (c->out->count == PATTERN_STEPS_MAX) {
        fail(c, "it is too long");
        return;
    }
    c->out->steps[c->out->count++] = step;
}

/* Puts a step before those from `from` on. Their jumps lead to each other, and move along. */
static void insert(struct compiler *c, uint32_t from, struct pattern_step step)
{
    emit(c, step);
    if (c->error == NULL) {
        struct pattern_step *steps = c->out->steps;
        memmove(&steps[from + 1], &steps[from], (c->out->count - 1 - from) * sizeof *steps);
        steps[from] = step;
    }
}

static struct pattern_step fork_to(uint32_t to, uint32_t or_to)
{
    return (struct pattern_step){.kind = STEP_FORK, .to = (int16_t)to, .or_to = (int16_t)or_to};
}

/* ---- classes ----------------------------------------------------------------------------------------------------- */

static void class_add(uint8_t set[32], unsigned from, unsigned to)
{
    for (unsigned byte = from; byte <= to && byte < 256; byte++) {
        set[byte / 8] |= (uint8_t)(1u << (byte % 8));
    }
}

static void class_invert(uint8_t set[32])
{
    for (int i = 0; i < 32; i++) {
        set[i] = (uint8_t)~set[i];
    }
}

/* Adds what \d, \w, \s and their opposites stand for. False: `letter` is none of these. */
static bool class_named(uint8_t set[32], char letter)
{
    uint8_t named[32] = {0};
    char lower = (char)(letter | 0x20);
    if (lower == 'd' || lower == 'w') {
        class_add(named, '0', '9');
    }
    if (lower == 'w') {
        class_add(named, 'a', 'z');
        class_add(named, 'A', 'Z');
        class_add(named, '_', '_');
    }
    if (lower == 's') {
        class_add(named, ' ', ' ');
        class_add(named, '\t', '\r');
    }
    if (letter != lower) {
        class_invert(named);
    }
    for (int i = 0; i < 32; i++) {
        set[i] |= named[i];
    }
    return lower == 'd' || lower == 'w' || lower == 's';
}

static void emit_class(struct compiler *c, const uint8_t set[32])
{
    if (c->out->class_count == PATTERN_CLASSES_MAX) {
        fail(c, "it has too many classes");
        return;
    }
    memcpy(c->out->classes[c->out->class_count], set, 32);
    emit(c, (struct pattern_step){.kind = STEP_CLASS, .value = (uint8_t)c->out->class_count++});
}

/* Reads behind "[" up to "]". */
static void read_class(struct compiler *c)
{
    uint8_t set[32] = {0};
    bool is_inverse = c->at < c->bytes && c->text[c->at] == '^';
    c->at += is_inverse;
    for (bool is_first = true; c->at < c->bytes && (c->text[c->at] != ']' || is_first); is_first = false) {
        unsigned from = (uint8_t)c->text[c->at++];
        if (from == '\\' && c->at < c->bytes) {
            from = (uint8_t)c->text[c->at++];
            if (class_named(set, (char)from)) {
                continue;
            }
            from = from == 't' ? '\t' : from;
        }
        unsigned to = from;
        if (c->at + 1 < c->bytes && c->text[c->at] == '-' && c->text[c->at + 1] != ']') {
            to = (uint8_t)c->text[c->at + 1];
            c->at += 2;
        }
        if (to < from) {
            fail(c, "a range of a class ends before it begins");
        }
        class_add(set, from, to);
    }
    if (c->at == c->bytes) {
        fail(c, "a [ has no ]");
        return;
    }
    c->at++;
    if (is_inverse) {
        class_invert(set);
    }
    emit_class(c, set);
}

/* ---- the grammar ------------------------------------------------------------------------------------------------- */

static void read_either(struct compiler *c);

static void read_escape(struct compiler *c)
{
    uint8_t set[32] = {0};
    if (c->at == c->bytes) {
        fail(c, "it ends with a \\");
        return;
    }
    char letter = c->text[c->at++];
    if (class_named(set, letter)) {
        emit_class(c, set);
        return;
    }
    emit(c, (struct pattern_step){.kind = STEP_BYTE, .value = letter == 't' ? '\t' : (uint8_t)letter});
}

static void read_group(struct compiler *c)
{
    if (++c->depth > DEPTH_MAX) {
        fail(c, "its groups are nested too deeply");
        return;
    }
    read_either(c);
    c->depth--;
    if (c->at == c->bytes || c->text[c->at] != ')') {
        fail(c, "a ( has no )");
        return;
    }
    c->at++;
}

static void read_one(struct compiler *c)
{
    char byte = c->text[c->at++];
    switch (byte) {
    case '.':
        emit(c, (struct pattern_step){.kind = STEP_ANY});
        break;
    case '^':
        emit(c, (struct pattern_step){.kind = STEP_BEGIN});
        break;
    case '$':
        emit(c, (struct pattern_step){.kind = STEP_END});
        break;
    case '[':
        read_class(c);
        break;
    case '(':
        read_group(c);
        break;
    case '\\':
        read_escape(c);
        break;
    case '*':
    case '+':
    case '?':
        fail(c, "a *, + or ? has nothing before it");
        break;
    default:
        emit(c, (struct pattern_step){.kind = STEP_BYTE, .value = (uint8_t)byte});
        break;
    }
}

/* Repeats the steps from `from` on. */
static void repeat(struct compiler *c, uint32_t from, char how)
{
    uint32_t length = c->out->count - from;
    if (how == '+') {
        emit(c, (struct pattern_step){.kind = STEP_FORK, .to = (int16_t)-(int)length, .or_to = 1});
        return;
    }
    insert(c, from, fork_to(1, length + 1 + (how == '*')));
    if (how == '*') {
        int16_t back = (int16_t)-(int)(length + 1);
        emit(c, (struct pattern_step){.kind = STEP_FORK, .to = back, .or_to = back});
    }
}

static void read_sequence(struct compiler *c)
{
    while (c->error == NULL && c->at < c->bytes && c->text[c->at] != '|' && c->text[c->at] != ')') {
        uint32_t from = c->out->count;
        read_one(c);
        while (c->error == NULL && c->at < c->bytes && c->text[c->at] != '\0' && strchr("*+?", c->text[c->at]) != NULL) {
            repeat(c, from, c->text[c->at++]);
        }
    }
}

static void read_either(struct compiler *c)
{
    uint32_t from = c->out->count;
    read_sequence(c);
    if (c->error != NULL || c->at == c->bytes || c->text[c->at] != '|') {
        return;
    }
    c->at++;
    insert(c, from, fork_to(1, c->out->count - from + 2));
    uint32_t jump = c->out->count;
    emit(c, fork_to(0, 0));
    if (++c->depth > DEPTH_MAX) {
        fail(c, "it has too many |");
        return;
    }
    read_either(c);
    c->depth--;
    if (c->error == NULL) {
        c->out->steps[jump] = fork_to(c->out->count - jump, c->out->count - jump);
    }
}

const char *pattern_compile(struct pattern *out, const char *text, size_t bytes)
{
    if (bytes > PATTERN_BYTES_MAX) {
        return "it has more than 256 bytes";
    }
    memset(out, 0, sizeof *out);
    memcpy(out->text, text, bytes);
    out->text_bytes = bytes;
    out->is_plain = true;
    for (size_t i = 0; i < bytes; i++) {
        out->is_plain = out->is_plain && (text[i] == '\0' || strchr(".^$[()|*+?\\", text[i]) == NULL);
    }
    struct compiler compiler = {.out = out, .text = text, .bytes = bytes};
    read_either(&compiler);
    if (compiler.error == NULL && compiler.at < bytes) {
        fail(&compiler, "a ) has no (");
    }
    emit(&compiler, (struct pattern_step){.kind = STEP_MATCH});
    return compiler.error;
}

/* ---- matching ---------------------------------------------------------------------------------------------------- */

/* The states that are followed, each once. */
struct states {
    uint32_t count;
    uint16_t list[PATTERN_STEPS_MAX];
    uint8_t has[PATTERN_STEPS_MAX];
};

/* Adds a state and what is reached from it without a byte. True: the end of the pattern is reached. */
static bool states_add(struct states *states, const struct pattern *pattern, uint32_t first, bool is_begin, bool is_end)
{
    uint16_t open[2 * PATTERN_STEPS_MAX];
    uint32_t open_count = 0;
    open[open_count++] = (uint16_t)first;
    while (open_count > 0) {
        uint32_t at = open[--open_count];
        if (states->has[at] != 0) {
            continue;
        }
        states->has[at] = 1;
        const struct pattern_step *step = &pattern->steps[at];
        if (step->kind == STEP_MATCH) {
            return true;
        }
        if (step->kind == STEP_FORK) {
            open[open_count++] = (uint16_t)((int)at + step->or_to);
            open[open_count++] = (uint16_t)((int)at + step->to);
        } else if (step->kind == STEP_BEGIN || step->kind == STEP_END) {
            if (step->kind == STEP_BEGIN ? is_begin : is_end) {
                open[open_count++] = (uint16_t)(at + 1);
            }
        } else {
            states->list[states->count++] = (uint16_t)at;
        }
    }
    return false;
}

static bool takes(const struct pattern *pattern, const struct pattern_step *step, uint8_t byte)
{
    switch (step->kind) {
    case STEP_BYTE:
        return step->value == byte;
    case STEP_CLASS:
        return (pattern->classes[step->value][byte / 8] >> (byte % 8) & 1) != 0;
    default:
        return true; /* STEP_ANY */
    }
}

static void states_clear(struct states *states, uint32_t steps)
{
    states->count = 0;
    memset(states->has, 0, steps);
}

static bool find_plain(const struct pattern *pattern, const char *text, size_t bytes)
{
    size_t length = pattern->text_bytes;
    if (length == 0) {
        return true;
    }
    const char *end = text + bytes;
    while ((size_t)(end - text) >= length) {
        const char *at = memchr(text, pattern->text[0], (size_t)(end - text) - length + 1);
        if (at == NULL) {
            return false;
        }
        if (memcmp(at, pattern->text, length) == 0) {
            return true;
        }
        text = at + 1;
    }
    return false;
}

bool pattern_matches(const struct pattern *pattern, const char *text, size_t bytes)
{
    if (pattern->is_plain) {
        return find_plain(pattern, text, bytes);
    }
    struct states sets[2], *now = &sets[0], *next = &sets[1];
    states_clear(now, pattern->count);
    if (states_add(now, pattern, 0, true, bytes == 0)) {
        return true;
    }
    for (size_t i = 0; i < bytes; i++) {
        states_clear(next, pattern->count);
        bool is_end = i + 1 == bytes;
        for (uint32_t k = 0; k < now->count; k++) {
            uint32_t at = now->list[k];
            if (takes(pattern, &pattern->steps[at], (uint8_t)text[i]) &&
                states_add(next, pattern, at + 1, false, is_end)) {
                return true;
            }
        }
        if (states_add(next, pattern, 0, false, is_end)) {
            return true;
        }
        struct states *swapped = now;
        now = next;
        next = swapped;
    }
    return false;
}
