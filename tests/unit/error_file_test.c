/* The message in error.json, which a program writes as it likes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/daemon/workers/error_file.h"

static const char *message(const char *text)
{
    static char out[40];
    /* Exactly as long as the text, so that the address sanitizer sees a read past the end. */
    size_t bytes = strlen(text);
    char *block = malloc(bytes > 0 ? bytes : 1);
    memcpy(block, text, bytes);
    bool is_found = error_file_message(block, bytes, out, sizeof out);
    free(block);
    assert_int_equal(is_found, out[0] != '\0');
    return out;
}

static void both_forms_are_understood(void **state)
{
    (void)state;
    assert_string_equal(message("{\"message\": {\"message\": \"ValueError: no\", \"extraInfo\": {\"py_callstack\": \"x\"}}}"),
                        "ValueError: no");
    assert_string_equal(message("{\"message\": \"plain\"}"), "plain");
    assert_string_equal(message(" {\"a\":[1,{\"b\":[]},\"}\\\"\"],\"c\":null,\"message\" :\n{\"x\":{},\"message\":\"deep\"}}"), "deep");
    assert_string_equal(message("{\"message\": \"\\u00e9\\ud83d\\ude00 \\\"q\\\" \\\\ \\ttab\\nsecond line\"}"),
                        "\xc3\xa9\xf0\x9f\x98\x80 \"q\" \\  tab");
    assert_string_equal(message("{\"message\": \"0123456789012345678901234567890123456\xc3\xa9\xc3\xa9\"}"),
                        "0123456789012345678901234567890123456\xc3\xa9");
}

static void a_broken_file_has_no_message(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "{", "{}", "[]", "null", "{\"message\"}", "{\"message\":", "{\"message\": 3}",
                                        "{\"message\": {\"message\": 3}}", "{\"message\": \"open", "{\"message\": {}}", "{\"x\": tru",
                                        "{\"x\" \"message\": \"y\"}", "{\"message\": \"\"}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_string_equal(message(texts[i]), "");
    }
    char deep[400];
    memset(deep, '[', sizeof deep - 1);
    memcpy(deep, "{\"x\":", 5);
    deep[sizeof deep - 1] = '\0';
    assert_string_equal(message(deep), "");
}

static void random_bytes_harm_nothing(void **state)
{
    (void)state;
    static const char pieces[] = "{}[]\"\\,: messageu0d8\n\xc3\xff";
    struct random random;
    random_init(&random, 7);
    for (int round = 0; round < 20000; round++) {
        char text[64];
        size_t bytes = (size_t)random_below(&random, sizeof text - 1);
        for (size_t i = 0; i < bytes; i++) {
            text[i] = pieces[random_below(&random, sizeof pieces - 1)];
        }
        text[bytes] = '\0';
        (void)message(text);
        char prefixed[96] = "{\"message\":\"";
        strcat(prefixed, text);
        (void)message(prefixed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms_are_understood),
        cmocka_unit_test(a_broken_file_has_no_message),
        cmocka_unit_test(random_bytes_harm_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
