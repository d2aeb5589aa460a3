/* Regular expressions: what they match, what is refused, and that no pattern takes more than time in proportion. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/pattern.h"

static bool matches(const char *pattern, const char *text)
{
    static struct pattern compiled;
    assert_null(pattern_compile(&compiled, pattern, strlen(pattern)));
    return pattern_matches(&compiled, text, strlen(text));
}

static void patterns_match_as_regular_expressions_do(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text;
        bool is_match;
    } rows[] = {
        {"", "", true},
        {"", "anything", true},
        {"loss", "the loss is", true},
        {"loss", "the los is", false},
        {"l.ss", "the lass", true},
        {"^loss", "the loss", false},
        {"^loss", "loss", true},
        {"loss$", "the loss", true},
        {"loss$", "loss!", false},
        {"^$", "", true},
        {"^$", "a", false},
        {"ab*c", "ac", true},
        {"ab*c", "abbbc", true},
        {"ab+c", "ac", false},
        {"ab+c", "abbc", true},
        {"ab?c", "abc", true},
        {"ab?c", "abbc", false},
        {"cat|dog", "hotdog", true},
        {"cat|dog|bird", "a bird", true},
        {"cat|dog", "cow", false},
        {"^(cat|dog)s?$", "dogs", true},
        {"^(cat|dog)s?$", "dogss", false},
        {"(ab)+$", "xabab", true},
        {"^(ab)+$", "abaab", false},
        {"[a-c]x", "bx", true},
        {"[a-c]x", "dx", false},
        {"[^a-c]x", "dx", true},
        {"[^a-c]x", "ax", false},
        {"[]x]", "]", true},
        {"[a-]", "-", true},
        {"\\d+/\\d+", "step 10/20", true},
        {"\\d+/\\d+", "step x/20", false},
        {"\\D", "123", false},
        {"\\w\\s\\w", "a b", true},
        {"\\.", "a", false},
        {"\\.", ".", true},
        {"a\\tb", "a\tb", true},
        {"[\\d.]+e-5", "1.25e-5", true},
        {"(a*)*b", "aaab", true},
        {"(a*)*b", "aaac", false},
        {"(a|b)*c|d", "ababc", true},
        {"x{2}", "x{2}", true},
        {"^a.*z$", "a long way to z", true},
        {"nan|inf", "loss=nan", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (matches(rows[i].pattern, rows[i].text) != rows[i].is_match) {
            fail_msg("'%s' in '%s'", rows[i].pattern, rows[i].text);
        }
    }
}

static void what_is_wrong_with_a_pattern_is_said(void **state)
{
    (void)state;
    static struct pattern compiled;
    static char many[PATTERN_BYTES_MAX + 2], deep[200];
    memset(many, 'a', sizeof many);
    memset(deep, '(', sizeof deep);
    static const struct {
        const char *pattern, *said;
    } rows[] = {{"(a", "a ( has no )"}, {"a)", "a ) has no ("}, {"[a", "a [ has no ]"}, {"*a", "nothing before"},
                {"a|+", "nothing before"}, {"a\\", "ends with a"}, {"[z-a]", "ends before it begins"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *error = pattern_compile(&compiled, rows[i].pattern, strlen(rows[i].pattern));
        assert_non_null(error);
        assert_non_null(strstr(error, rows[i].said));
    }
    assert_non_null(strstr(pattern_compile(&compiled, many, sizeof many - 1), "256"));
    assert_non_null(strstr(pattern_compile(&compiled, deep, sizeof deep), "deeply"));
    assert_null(pattern_compile(&compiled, many, PATTERN_BYTES_MAX));
}

/* Where a program that tries one way after the other would not come to an end. */
static void a_pattern_with_many_ways_ends(void **state)
{
    (void)state;
    static char pattern[PATTERN_BYTES_MAX + 1], text[2000];
    for (size_t i = 0; i + 5 <= 250; i += 5) {
        memcpy(pattern + i, "(a*)*", 6);
    }
    memset(text, 'a', sizeof text - 1);
    strcat(pattern, "b");
    assert_false(matches(pattern, text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_as_regular_expressions_do),
        cmocka_unit_test(what_is_wrong_with_a_pattern_is_said),
        cmocka_unit_test(a_pattern_with_many_ways_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
