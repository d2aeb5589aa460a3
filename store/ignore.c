/* Matching goes from left to right with two places to return to, like a glob with stars and no recursion: one for the
 * last '*' in the current path component, one for the last '**' component. An earlier star of the same kind need not be
 * remembered: it took as little as possible, so it left the most for the later ones. So there is no exponential case,
 * whatever the pattern. */
#include "store/ignore.h"

#include <string.h>

struct pattern {
    const char *at;
    const char *end;
};

/* False if there is no class with this name. */
static bool class_look_up(const char *name, size_t bytes, unsigned char c, bool *has)
{
    bool lower = c >= 'a' && c <= 'z';
    bool upper = c >= 'A' && c <= 'Z';
    bool digit = c >= '0' && c <= '9';
    bool graph = c > 32 && c < 127;
    const struct {
        const char *name;
        bool has;
    } classes[] = {
        {"alnum", lower || upper || digit},
        {"alpha", lower || upper},
        {"blank", c == ' ' || c == '\t'},
        {"cntrl", c < 32 || c == 127},
        {"digit", digit},
        {"graph", graph},
        {"lower", lower},
        {"print", graph || c == ' '},
        {"punct", graph && !lower && !upper && !digit},
        {"space", c == ' ' || (c >= 9 && c <= 13)},
        {"upper", upper},
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
                if (!class_look_up(name, (size_t)(close - 1 - name), c, &in_class)) {
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
        if (p + 1 < pattern.end && *p == '-' && p[1] != ']') {
            p++;
            if (*p == '\\' && ++p >= pattern.end) {
                return false;
            }
            high = (unsigned char)*p++;
        }
        found = found || c == low || (c >= low && c <= high); /* in a range from high to low only the first end matches,
                                                                 as in git */
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
    if (*p == '?') {
        *after = p + 1;
        return c != '/';
    }
    if (*p == '[') {
        bool has;
        return bracket_match(pattern, c, after, &has) && has;
    }
    if (*p == '\\' && ++p >= pattern.end) {
        return false; /* a backslash at the end never matches */
    }
    *after = p + 1;
    return (unsigned char)*p == c;
}

static bool glob_match(const char *begin, const char *end, const char *text)
{
    const char *p = begin;
    const char *star = NULL;      /* behind the last '*' of this component */
    const char *star_text = NULL; /* where the text behind that '*' was last tried */
    const char *deep = NULL;      /* behind the last component '**' */
    const char *deep_text = NULL;
    for (;;) {
        if (p < end && *p == '*') {
            const char *after = p;
            while (after < end && *after == '*') {
                after++;
            }
            bool is_component = after - p >= 2 && (p == begin || p[-1] == '/') && (after == end || *after == '/');
            if (is_component && after == end) {
                return true;
            }
            if (is_component) {
                p = deep = after + 1;
                deep_text = text;
                star = NULL;
            } else {
                p = star = after;
                star_text = text;
            }
            continue;
        }
        if (*text == '\0' && p == end) {
            return true;
        }
        const char *after;
        if (*text != '\0' && element_match((struct pattern){p, end}, (unsigned char)*text, &after)) {
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

/* Cuts spaces that no backslash protects at the end of a line, and the CR of a CR LF. */
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

static enum ignore_decision line_decide(const char *line, const char *end, const char *path, bool is_directory)
{
    if (line == end || *line == '#') {
        return IGNORE_UNDECIDED;
    }
    end = line_trim(line, end);
    enum ignore_decision decision = IGNORE_EXCLUDED;
    if (line < end && *line == '!') {
        decision = IGNORE_INCLUDED;
        line++;
    }
    if (line < end && end[-1] == '/') {
        if (!is_directory) {
            return IGNORE_UNDECIDED;
        }
        end--;
    }
    if (line == end) {
        return IGNORE_UNDECIDED;
    }
    const char *subject = path;
    if (memchr(line, '/', (size_t)(end - line)) == NULL) {
        const char *slash = strrchr(path, '/');
        subject = slash != NULL ? slash + 1 : path;
    } else if (*line == '/') {
        line++;
    }
    return glob_match(line, end, subject) ? decision : IGNORE_UNDECIDED;
}

enum ignore_decision ignore_decide(const char *text, size_t text_bytes, const char *path, bool is_directory)
{
    enum ignore_decision decision = IGNORE_UNDECIDED;
    const char *end = text + text_bytes;
    if (text_bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3; /* git skips a byte order mark */
    }
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *line_end = newline != NULL ? newline : end;
        enum ignore_decision here = line_decide(text, line_end, path, is_directory);
        decision = here != IGNORE_UNDECIDED ? here : decision;
        text = newline != NULL ? newline + 1 : end;
    }
    return decision;
}

bool ignore_excludes(const struct ignore_file *files, size_t file_count, const char *path, bool is_directory)
{
    for (size_t i = file_count; i > 0; i--) {
        const struct ignore_file *file = &files[i - 1];
        enum ignore_decision decision =
            ignore_decide(file->text, file->text_bytes, path + file->base_bytes, is_directory);
        if (decision != IGNORE_UNDECIDED) {
            return decision == IGNORE_EXCLUDED;
        }
    }
    return false;
}
