/* Matching goes from left to right with two places to return to, like a glob with stars and no recursion: one for the
 * last '*' in the current path component, one for the last '**' component. An earlier star of the same kind need not be
 * remembered: it took as little as possible, so it left the most for the later ones. So there is no exponential case,
 * whatever the pattern. */
#include "store/ignore.h"

#include <string.h>

struct pattern {
    const char *at;
    const char *end;
    bool ignores_case; /* core.ignorecase: letters outside of brackets and without a backslash match both cases */
};

static unsigned char lower(unsigned char c)
{
    return c >= 'A' && c <= 'Z' ? (unsigned char)(c - 'A' + 'a') : c;
}

static unsigned char upper(unsigned char c)
{
    return c >= 'a' && c <= 'z' ? (unsigned char)(c - 'a' + 'A') : c;
}

/* False if there is no class with this name. */
static bool class_look_up(const char *name, size_t bytes, unsigned char c, bool ignores_case, bool *has)
{
    bool is_lower = c >= 'a' && c <= 'z';
    bool is_upper = c >= 'A' && c <= 'Z';
    bool digit = c >= '0' && c <= '9';
    bool graph = c > 32 && c < 127;
    const struct {
        const char *name;
        bool has;
    } classes[] = {
        {"alnum", is_lower || is_upper || digit},
        {"alpha", is_lower || is_upper},
        {"blank", c == ' ' || c == '\t'},
        {"cntrl", c < 32 || c == 127},
        {"digit", digit},
        {"graph", graph},
        {"lower", is_lower},
        {"print", graph || c == ' '},
        {"punct", graph && !is_lower && !is_upper && !digit},
        {"space", c == ' ' || c == '\t' || c == '\n' || c == '\r'}, /* as git has it: neither \v nor \f */
        {"upper", is_upper || (ignores_case && is_lower)},
        {"xdigit", digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')},
    };
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        if (strlen(classes[i].name) == bytes && memcmp(classes[i].name, name, bytes) == 0) {
            *has = classes[i].has;
            return true;
        }
    }
    return false;
}

/* At '[': true if the bracket is well-formed; `*after` is then behind it, and `*has` is true if it matches `c`. */
static bool bracket_match(struct pattern pattern, unsigned char c, const char **after, bool *has)
{
    const char *p = pattern.at + 1;
    bool negated = p < pattern.end && (*p == '!' || *p == '^');
    bool found = false;
    if (negated) {
        p++;
    }
    for (bool first = true;; first = false) {
        if (p >= pattern.end) {
            return false;
        }
        if (*p == ']' && !first) {
            break;
        }
        if (*p == '[' && p + 1 < pattern.end && p[1] == ':') {
            const char *name = p + 2;
            const char *close = name;
            while (close < pattern.end && *close != ']') {
                close++;
            }
            if (close >= pattern.end) {
                return false;
            }
            if (close > name && close[-1] == ':') {
                bool in_class;
                if (!class_look_up(name, (size_t)(close - 1 - name), c, pattern.ignores_case, &in_class)) {
                    return false;
                }
                found = found || in_class;
                p = close + 1;
                continue;
            }
        }
        if (*p == '\\' && ++p >= pattern.end) {
            return false;
        }
        unsigned char low = (unsigned char)*p++;
        unsigned char high = low;
        bool is_range = false;
        if (p + 1 < pattern.end && *p == '-' && p[1] != ']') {
            p++;
            if (*p == '\\' && ++p >= pattern.end) {
                return false;
            }
            high = (unsigned char)*p++;
            is_range = true;
        }
        /* In a range from high to low only the first end matches, as in git. */
        found = found || c == low || (c >= low && c <= high) ||
                (pattern.ignores_case && is_range && upper(c) >= low && upper(c) <= high);
    }
    *after = p + 1;
    *has = found != negated && c != '/';
    return true;
}

/* Matches one pattern element that is not a star against `c`; `*after` is then behind the element. */
static bool element_match(struct pattern pattern, unsigned char c, const char **after)
{
    const char *p = pattern.at;
    if (p >= pattern.end) {
        return false;
    }
    c = pattern.ignores_case ? lower(c) : c;
    if (*p == '?') {
        *after = p + 1;
        return c != '/';
    }
    if (*p == '[') {
        bool has;
        return bracket_match(pattern, c, after, &has) && has;
    }
    if (*p == '\\') {
        if (++p >= pattern.end) {
            return false; /* a backslash at the end never matches */
        }
        *after = p + 1;
        return (unsigned char)*p == c;
    }
    *after = p + 1;
    return (pattern.ignores_case ? lower((unsigned char)*p) : (unsigned char)*p) == c;
}

/* True if "**" at `stars` ... `after` is a whole component of the pattern that begins at `begin`. */
static bool is_component(const char *begin, const char *stars, const char *after, const char *end)
{
    return after - stars >= 2 && (stars == begin || stars[-1] == '/') &&
           (after == end || *after == '/' || (*after == '\\' && after + 1 < end && after[1] == '/'));
}

static bool glob_match(struct pattern pattern, const char *text)
{
    const char *p = pattern.at;
    const char *star = NULL;      /* behind the last '*' of this component */
    const char *star_text = NULL; /* where the text behind that '*' was last tried */
    const char *deep = NULL;      /* behind the last component '**' and its '/' */
    const char *deep_text = NULL;
    for (;;) {
        if (p < pattern.end && *p == '*') {
            const char *after = p;
            while (after < pattern.end && *after == '*') {
                after++;
            }
            bool is_deep = is_component(pattern.at, p, after, pattern.end);
            if (is_deep && after == pattern.end) {
                return true;
            }
            if (is_deep && *after == '\\') { /* as in git, an escaped slash wants a directory there */
                deep_text = strchr(text, '/');
                if (deep_text == NULL) {
                    return false;
                }
                p = deep = after + 2;
                text = ++deep_text;
                star = NULL;
            } else if (is_deep) {
                p = deep = after + 1;
                deep_text = text;
                star = NULL;
            } else {
                p = star = after;
                star_text = text;
            }
            continue;
        }
        if (*text == '\0' && p == pattern.end) {
            return true;
        }
        const char *after;
        if (*text != '\0' && element_match((struct pattern){p, pattern.end, pattern.ignores_case}, (unsigned char)*text,
                                           &after)) {
            if (*text == '/') {
                star = NULL;
            }
            p = after;
            text++;
        } else if (star != NULL && *star_text != '\0' && *star_text != '/') {
            p = star;
            text = ++star_text;
        } else if (deep != NULL && (deep_text = strchr(deep_text, '/')) != NULL) {
            p = deep;
            text = ++deep_text;
            star = NULL;
        } else {
            return false;
        }
    }
}

/* Cuts the CR of a CR LF, then spaces that no backslash protects at the end of a line. */
static const char *line_trim(const char *line, const char *end)
{
    if (end > line && end[-1] == '\r') {
        end--;
    }
    const char *spaces = NULL;
    for (const char *p = line; p < end; p++) {
        if (*p == ' ') {
            spaces = spaces != NULL ? spaces : p;
        } else {
            spaces = NULL;
            if (*p == '\\') {
                p++;
            }
        }
    }
    return spaces != NULL ? spaces : end;
}

/* A line as a rule. */
struct rule {
    struct pattern pattern; /* empty: the line is no rule */
    bool is_negated;
    bool is_directory_only;
    bool is_anchored; /* matched against the whole path, not only the last name */
};

static struct rule rule_read(const char *line, const char *end, bool ignores_case)
{
    struct rule rule = {.pattern = {line, line, ignores_case}};
    if (line == end || *line == '#') {
        return rule;
    }
    const char *nul = memchr(line, '\0', (size_t)(end - line));
    end = line_trim(line, nul != NULL ? nul : end); /* git ends a line at a NUL byte */
    if (line < end && *line == '!') {
        rule.is_negated = true;
        line++;
    }
    if (line < end && end[-1] == '/') {
        rule.is_directory_only = true;
        end--;
    }
    if (line < end && memchr(line, '/', (size_t)(end - line)) != NULL) {
        rule.is_anchored = true;
        line += *line == '/';
    }
    rule.pattern = (struct pattern){line, end, ignores_case};
    return rule;
}

static enum ignore_decision rule_decide(const struct rule *rule, const char *path, bool is_directory)
{
    if (rule->pattern.at == rule->pattern.end || (rule->is_directory_only && !is_directory)) {
        return IGNORE_UNDECIDED;
    }
    const char *subject = path;
    if (!rule->is_anchored) {
        const char *slash = strrchr(path, '/');
        subject = slash != NULL ? slash + 1 : path;
    }
    if (!glob_match(rule->pattern, subject)) {
        return IGNORE_UNDECIDED;
    }
    return rule->is_negated ? IGNORE_INCLUDED : IGNORE_EXCLUDED;
}

/* Steps through the lines of a file. */
struct lines {
    const char *next, *end;
    const char *line, *line_end;
    uint32_t number;
};

static struct lines lines_begin(const struct ignore_file *file)
{
    struct lines lines = {.next = file->text, .end = file->text + file->text_bytes};
    if (file->text_bytes >= 3 && memcmp(file->text, "\xef\xbb\xbf", 3) == 0) {
        lines.next += 3; /* git skips a byte order mark */
    }
    return lines;
}

static bool lines_step(struct lines *lines)
{
    if (lines->next >= lines->end) {
        return false;
    }
    const char *newline = memchr(lines->next, '\n', (size_t)(lines->end - lines->next));
    lines->line = lines->next;
    lines->line_end = newline != NULL ? newline : lines->end;
    lines->next = newline != NULL ? newline + 1 : lines->end;
    lines->number++;
    return true;
}

enum ignore_decision ignore_decide(const struct ignore_file *file, const char *path, bool is_directory, uint32_t *line)
{
    enum ignore_decision decision = IGNORE_UNDECIDED;
    for (struct lines lines = lines_begin(file); lines_step(&lines);) {
        struct rule rule = rule_read(lines.line, lines.line_end, file->ignores_case);
        enum ignore_decision here = rule_decide(&rule, path, is_directory);
        if (here != IGNORE_UNDECIDED) {
            decision = here;
            *line = lines.number;
        }
    }
    return decision;
}

enum ignore_decision ignore_find(const struct ignore_file *files, size_t file_count, const char *path, bool is_directory,
                                 struct ignore_place *place)
{
    for (size_t i = file_count; i > 0; i--) {
        uint32_t line = 0;
        enum ignore_decision decision =
            ignore_decide(&files[i - 1], path + files[i - 1].base_bytes, is_directory, &line);
        if (decision != IGNORE_UNDECIDED) {
            *place = (struct ignore_place){i - 1, line};
            return decision;
        }
    }
    return IGNORE_UNDECIDED;
}

/* The first names of a pattern, as many as `path` has; false if the pattern has no name behind them. `*is_any`: a "**" is
 * among them. */
static bool pattern_begin(struct pattern *pattern, const char *path, bool *is_any)
{
    const char *p = pattern->at;
    *is_any = false;
    for (;; path++) {
        const char *slash = memchr(p, '/', (size_t)(pattern->end - p));
        if (slash == NULL) {
            return false;
        }
        if (slash - p >= 2 && p[0] == '*' && p[1] == '*') {
            *is_any = true;
            return true;
        }
        path = strchr(path, '/');
        if (path == NULL) {
            pattern->end = slash;
            return true;
        }
        p = slash + 1;
    }
}

bool ignore_reaches_into(const struct ignore_file *files, size_t file_count, const char *path)
{
    for (size_t i = 0; i < file_count; i++) {
        const char *subject = path + files[i].base_bytes;
        for (struct lines lines = lines_begin(&files[i]); lines_step(&lines);) {
            struct rule rule = rule_read(lines.line, lines.line_end, files[i].ignores_case);
            bool is_any;
            if (rule.is_negated && rule.is_anchored && pattern_begin(&rule.pattern, subject, &is_any) &&
                (is_any || glob_match(rule.pattern, subject))) {
                return true;
            }
        }
    }
    return false;
}
