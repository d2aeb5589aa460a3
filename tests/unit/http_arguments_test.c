/* The arguments of an HTTP request: each is what its route says, comes once, and is packed as the local socket has it.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/http/arguments.h"

static const struct route route = {.method = "POST",
                                   .path = "/x/{trial}/{experiment}",
                                   .op = "x",
                                   .arguments = "must!:t count:u flag:b list:n words:a other:t"};
static uint8_t bytes[ARGUMENTS_BODY_BYTES_MAX];

static void begin(struct arguments *arguments)
{
    memset(bytes, 0xc1, sizeof bytes);
    arguments_init(arguments, &route, bytes, sizeof bytes);
}

/* What has been packed, as the value of a key; the pairs are those of a map. */
static struct pack_reader value_of(const struct arguments *arguments, const char *key)
{
    static uint8_t map[4096];
    struct pack_writer writer;
    struct pack_reader reader;
    assert_false(arguments->pairs.failed);
    pack_writer_init(&writer, map, sizeof map);
    pack_map(&writer, arguments->count);
    pack_raw(&writer, bytes, arguments->pairs.used_bytes);
    assert_false(writer.failed);
    pack_reader_init(&reader, map, writer.used_bytes);
    struct pack_reader whole = reader;
    pack_skip(&whole);
    assert_true(pack_at_end(&whole));
    return pack_find(&reader, key);
}

static void is_number(const struct arguments *arguments, const char *key, uint64_t wanted)
{
    struct pack_reader value = value_of(arguments, key);
    assert_true(pack_read_u64(&value) == wanted && !value.failed);
}

static void is_text(const struct arguments *arguments, const char *key, const char *wanted)
{
    char text[256];
    struct pack_reader value = value_of(arguments, key);
    pack_read_text_copy(&value, text, sizeof text);
    assert_false(value.failed);
    assert_string_equal(text, wanted);
}

static void is_flag(const struct arguments *arguments, const char *key, bool wanted)
{
    struct pack_reader value = value_of(arguments, key);
    assert_true(pack_read_bool(&value) == wanted && !value.failed);
}

static void a_query_becomes_typed_pairs(void **state)
{
    (void)state;
    struct arguments arguments;
    begin(&arguments);
    assert_true(arguments_add_part(&arguments, "trial}", 5, "17/x", 2));
    assert_true(arguments_add_part(&arguments, "experiment}", 10, "a1b2/", 4));
    assert_true(arguments_add_query(&arguments, "must", "caf\xc3\xa9 \"x\""));
    assert_true(arguments_add_query(&arguments, "count", "18446744073709551615"));
    assert_true(arguments_add_query(&arguments, "flag", NULL));
    assert_true(arguments_add_query(&arguments, "other", NULL));
    assert_true(arguments_finish(&arguments));
    assert_int_equal(arguments.count, 6);
    is_number(&arguments, "trial", 17);
    is_text(&arguments, "experiment", "a1b2");
    is_text(&arguments, "must", "caf\xc3\xa9 \"x\"");
    is_number(&arguments, "count", UINT64_MAX);
    is_flag(&arguments, "flag", true);
    is_text(&arguments, "other", "");
    static const struct {
        const char *value;
        bool flag;
    } flags[] = {{"", true}, {"true", true}, {"false", false}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        begin(&arguments);
        assert_true(arguments_add_query(&arguments, "flag", flags[i].value));
        is_flag(&arguments, "flag", flags[i].flag);
    }
}

static void a_body_becomes_typed_pairs(void **state)
{
    (void)state;
    static const char body[] = "{\"must\": \"a\\nb\\ud83d\\ude00\", \"count\": 0, \"flag\": false, \"list\": [1, 2, "
                               "9223372036854775807], \"words\": [\"a=1\", \"\"]}";
    struct arguments arguments;
    begin(&arguments);
    assert_true(arguments_add_json(&arguments, body, sizeof body - 1));
    assert_true(arguments_finish(&arguments));
    is_text(&arguments, "must", "a\nb\xf0\x9f\x98\x80");
    is_number(&arguments, "count", 0);
    is_flag(&arguments, "flag", false);
    struct pack_reader list = value_of(&arguments, "list");
    assert_int_equal(pack_read_array(&list), 3);
    assert_int_equal(pack_read_u64(&list), 1);
    assert_int_equal(pack_read_u64(&list), 2);
    assert_true(pack_read_u64(&list) == INT64_MAX);
    struct pack_reader words = value_of(&arguments, "words");
    assert_int_equal(pack_read_array(&words), 2);
    char text[16];
    pack_read_text_copy(&words, text, sizeof text);
    assert_string_equal(text, "a=1");
    pack_read_text_copy(&words, text, sizeof text);
    assert_string_equal(text, "");
    assert_false(words.failed);
}

struct wrong {
    const char *name, *value, *error;
};

static void a_query_of_the_wrong_type_is_refused_with_a_sentence(void **state)
{
    (void)state;
    static const struct wrong rows[] = {
        {"count", "", "The argument count wants a whole number."},
        {"count", NULL, "The argument count wants a whole number."},
        {"count", "-1", "The argument count wants a whole number."},
        {"count", "+1", "The argument count wants a whole number."},
        {"count", " 1", "The argument count wants a whole number."},
        {"count", "1e3", "The argument count wants a whole number."},
        {"count", "0x10", "The argument count wants a whole number."},
        {"count", "18446744073709551616", "The argument count wants a whole number."},
        {"count", "99999999999999999999999", "The argument count wants a whole number."},
        {"flag", "yes", "The argument flag wants true or false."},
        {"flag", "1", "The argument flag wants true or false."},
        {"flag", "True", "The argument flag wants true or false."},
        {"list", "1,2", "The argument list wants a list in a body of JSON."},
        {"nothing", "1", "There is no argument nothing; this route has: must, count, flag, list, words, other."},
        {"", "1", "There is no argument ; this route has: must, count, flag, list, words, other."},
        {"auth", "shoal_1", "There is no argument auth; this route has: must, count, flag, list, words, other."},
        {"op", "leave", "There is no argument op; this route has: must, count, flag, list, words, other."},
        {"trial", "1", "There is no argument trial; this route has: must, count, flag, list, words, other."},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct arguments arguments;
        begin(&arguments);
        assert_false(arguments_add_query(&arguments, rows[i].name, rows[i].value));
        assert_string_equal(arguments.error, rows[i].error);
    }
    static const struct route bare = {.method = "GET", .path = "/x", .op = "x", .arguments = ""};
    struct arguments arguments;
    arguments_init(&arguments, &bare, bytes, sizeof bytes);
    assert_false(arguments_add_query(&arguments, "a", "b"));
    assert_string_equal(arguments.error, "There is no argument a; this route has: none.");
}

static void a_path_that_wants_a_number_is_refused_another_text(void **state)
{
    (void)state;
    static const char *const values[] = {"x", "1x", "-1", "99999999999999999999", "1%20"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct arguments arguments;
        begin(&arguments);
        assert_false(arguments_add_part(&arguments, "trial", 5, values[i], strlen(values[i])));
        assert_int_equal(strncmp(arguments.error, "The path wants a number where it has '", 38), 0);
    }
}

static void a_body_that_is_wrong_is_refused_with_a_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *body, *error;
    } rows[] = {
        {"", "The body is not JSON: "},
        {"{", "The body is not JSON: "},
        {"{} {}", "The body is not JSON: "},
        {"{\"must\": \"a\\u0000b\"}", "The body is not JSON: "},
        {"{\"must\": \"\xff\"}", "The body is not JSON: "},
        {"{\"must\": NaN}", "The body is not JSON: "},
        {"{\"must\": \"a\", \"must\": \"b\"}", "The body is not JSON: "},
        {"[]", "The body is no JSON object."},
        {"null", "The body is not JSON: "},
        {"{\"must\": 1}", "The argument must wants a text."},
        {"{\"must\": null}", "The argument must wants a text."},
        {"{\"count\": \"1\"}", "The argument count wants a whole number."},
        {"{\"count\": 1.0}", "The argument count wants a whole number."},
        {"{\"count\": -1}", "The argument count wants a whole number."},
        {"{\"count\": 9223372036854775808}", "The body is not JSON: "},
        {"{\"flag\": 1}", "The argument flag wants true or false."},
        {"{\"flag\": \"true\"}", "The argument flag wants true or false."},
        {"{\"list\": 1}", "The argument list wants a list."},
        {"{\"list\": {}}", "The argument list wants a list."},
        {"{\"list\": [1, -2]}", "The argument list wants a list of whole numbers."},
        {"{\"list\": [[1]]}", "The argument list wants a list of whole numbers."},
        {"{\"words\": [1]}", "The argument words wants a list of texts."},
        {"{\"nothing\": 1}", "There is no argument nothing; this route has: "},
        {"{\"auth\": \"shoal_1\"}", "There is no argument auth; this route has: "},
        {"{\"experiment\": \"a\"}", "There is no argument experiment; this route has: "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct arguments arguments;
        begin(&arguments);
        if (arguments_add_json(&arguments, rows[i].body, strlen(rows[i].body)) ||
            strncmp(arguments.error, rows[i].error, strlen(rows[i].error)) != 0) {
            fail_msg("'%s': '%s'", rows[i].body, arguments.error);
        }
    }
}

static void an_argument_comes_once(void **state)
{
    (void)state;
    struct arguments arguments;
    begin(&arguments);
    assert_true(arguments_add_query(&arguments, "must", "a"));
    assert_false(arguments_add_query(&arguments, "must", "b"));
    assert_string_equal(arguments.error, "The argument must is given twice.");
    begin(&arguments);
    assert_true(arguments_add_query(&arguments, "must", "a"));
    assert_false(arguments_add_json(&arguments, "{\"must\":\"b\"}", 12));
    assert_string_equal(arguments.error, "The argument must is given twice.");
}

static void what_must_be_given_is_missed(void **state)
{
    (void)state;
    struct arguments arguments;
    begin(&arguments);
    assert_true(arguments_add_query(&arguments, "count", "1"));
    assert_false(arguments_finish(&arguments));
    assert_string_equal(arguments.error, "The request lacks the argument must.");
}

static void what_fits_no_request_is_refused(void **state)
{
    (void)state;
    struct arguments arguments;
    uint8_t few[16];
    arguments_init(&arguments, &route, few, sizeof few);
    assert_true(arguments_add_query(&arguments, "must", "longer than a few bytes"));
    assert_false(arguments_finish(&arguments));
    assert_string_equal(arguments.error, "The arguments are larger than a request may be.");

    static char body[64 * 1024] = "{\"must\":\"\",\"list\":[";
    size_t used = strlen(body);
    for (size_t i = 0; i <= 4096; i++) {
        used += (size_t)snprintf(body + used, sizeof body - used, "%s1", i > 0 ? "," : "");
    }
    used += (size_t)snprintf(body + used, sizeof body - used, "]}");
    begin(&arguments);
    assert_false(arguments_add_json(&arguments, body, used));
    assert_string_equal(arguments.error, "The argument list wants a list.");
}

/* A body of nothing but brackets is read by a thread with the stack that the door's threads have. */
static void *read_deep(void *context)
{
    struct arguments *arguments = context;
    static char body[256 * 1024];
    static const char *const repeated[] = {"[", "{\"a\":"};
    for (size_t k = 0; k < 2; k++) {
        size_t used = 0, bytes_each = strlen(repeated[k]);
        while (used + bytes_each < sizeof body) {
            memcpy(body + used, repeated[k], bytes_each);
            used += bytes_each;
        }
        begin(arguments);
        if (arguments_add_json(arguments, body, used)) {
            return arguments;
        }
    }
    for (size_t depth = 1; depth < 4096; depth *= 2) { /* whole: also freed again */
        for (size_t i = 0; i < depth; i++) {
            body[i] = '[';
            body[2 * depth - 1 - i] = ']';
        }
        begin(arguments);
        if (arguments_add_json(arguments, body, 2 * depth)) {
            return arguments;
        }
    }
    return NULL;
}

static void a_body_of_brackets_does_not_overrun_the_stack(void **state)
{
    (void)state;
    static struct arguments arguments;
    pthread_attr_t attributes;
    pthread_t thread;
    void *accepted = &arguments;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, ARGUMENTS_STACK_BYTES), 0);
    assert_int_equal(pthread_create(&thread, &attributes, read_deep, &arguments), 0);
    assert_int_equal(pthread_join(thread, &accepted), 0);
    assert_null(accepted);
    (void)pthread_attr_destroy(&attributes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_query_becomes_typed_pairs),
        cmocka_unit_test(a_body_becomes_typed_pairs),
        cmocka_unit_test(a_query_of_the_wrong_type_is_refused_with_a_sentence),
        cmocka_unit_test(a_path_that_wants_a_number_is_refused_another_text),
        cmocka_unit_test(a_body_that_is_wrong_is_refused_with_a_sentence),
        cmocka_unit_test(an_argument_comes_once),
        cmocka_unit_test(what_must_be_given_is_missed),
        cmocka_unit_test(what_fits_no_request_is_refused),
        cmocka_unit_test(a_body_of_brackets_does_not_overrun_the_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
