/* The message, the call stack and the time in error.json, which a program writes as it likes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/daemon/workers/error_file.h"

static struct error_file found;

static const char *message(const char *text)
{
    /* Exactly as long as the text, so that the address sanitizer sees a read past the end. */
    size_t bytes = strlen(text);
    char *block = malloc(bytes > 0 ? bytes : 1);
    memcpy(block, text, bytes);
    bool is_found = error_file_parse(block, bytes, &found);
    free(block);
    assert_int_equal(is_found, found.message[0] != '\0');
    return found.message;
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
    char text[400] = "{\"message\": \"", wanted[ERROR_MESSAGE_BYTES] = "";
    for (int i = 0; i < 126; i++) {
        strcat(text, "\xc3\xa9");
        strcat(wanted, "\xc3\xa9");
    }
    strcat(wanted, "ab");
    assert_string_equal(message(strcat(text, "ab\xc3\xa9\"}")), wanted);
}

static void the_time_is_read_as_text_and_as_number(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t ms;
    } rows[] = {
        {"{\"message\": {\"message\": \"e\", \"extraInfo\": {\"timestamp\": \"1700000001\"}}, \"timestamp\": 5}", 1700000001000},
        {"{\"message\": {\"extraInfo\": {\"timestamp\": 1700000001.2599}, \"message\": \"e\"}}", 1700000001259},
        {"{\"timestamp\": 1700000001, \"message\": \"e\"}", 1700000001000},
        {"{\"message\": \"e\", \"timestamp\": \"1.5\"}", 1500},
        {"{\"message\": {\"message\": \"e\", \"timestamp\": 3}}", 3000},
        {"{\"message\": \"e\"}", 0},
        {"{\"message\": \"e\", \"timestamp\": \"soon\"}", 0},
        {"{\"message\": \"e\", \"timestamp\": -5}", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_string_equal(message(rows[i].text), "e");
        assert_int_equal(found.at_ms, rows[i].ms);
    }
    assert_string_equal(message("{\"message\": \"e\", \"timestamp\": 99999999999999999999999999999999999.99999}"), "e");
}

static void the_stack_is_its_last_lines_without_the_message(void **state)
{
    (void)state;
#define STACK(text) "{\"message\": {\"message\": \"E: no\", \"extraInfo\": {\"py_callstack\": \"" text "\"}}}"
    (void)message(STACK("Traceback (most recent call last):\\n  File \\\"s.py\\\", line 1\\n    x()\\nE: no\\n"));
    assert_string_equal(found.stack, "Traceback (most recent call last):\n  File \"s.py\", line 1\n    x()\n");
    (void)message(STACK("1\\n2\\n3\\n4\\n5\\n6\\n7\\n8"));
    assert_string_equal(found.stack, "3\n4\n5\n6\n7\n8\n");
    (void)message(STACK("E: no"));
    assert_string_equal(found.stack, "");
    (void)message(STACK(""));
    assert_string_equal(found.stack, "");
    char text[2000] = "{\"message\": {\"message\": \"E\", \"extraInfo\": {\"py_callstack\": \"first\\n", line[500];
    memset(line, 'x', sizeof line);
    line[ERROR_STACK_BYTES - 7] = '\0'; /* with "last" and the ends of lines it fills the room */
    strcat(strcat(text, line), "\\nlast\"}}}");
    (void)message(text);
    assert_int_equal(strlen(found.stack), ERROR_STACK_BYTES - 1);
    assert_memory_equal(found.stack, line, ERROR_STACK_BYTES - 7);
#undef STACK
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
        char stack[192] = "{\"message\":{\"message\":\"m\",\"extraInfo\":{\"timestamp\":1,\"py_callstack\":\"";
        (void)message(strcat(stack, text));
        (void)message(strcat(stack, "\"}}}"));
        char prefixed[96] = "{\"message\":\"";
        strcat(prefixed, text);
        (void)message(prefixed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms_are_understood),
        cmocka_unit_test(the_time_is_read_as_text_and_as_number),
        cmocka_unit_test(the_stack_is_its_last_lines_without_the_message),
        cmocka_unit_test(a_broken_file_has_no_message),
        cmocka_unit_test(random_bytes_harm_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
