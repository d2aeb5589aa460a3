/* Texts that a trial's program writes by MLflow: what is taken, and that a parameter stays as it was first written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/daemon/wire/texts.h"

static uint8_t bytes[TEXTS_BYTES_MAX + 4096];

/* A map of one section with one pair; `value` NULL: a nil. */
static size_t make(const char *section, const char *key, const char *value)
{
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 1);
    pack_text(&writer, section);
    pack_map(&writer, 1);
    pack_text(&writer, key);
    if (value != NULL) {
        pack_text(&writer, value);
    } else {
        pack_nil(&writer);
    }
    assert_false(writer.failed);
    return writer.used_bytes;
}

static bool is_good(const char *section, const char *key, const char *value)
{
    return texts_are_good(bytes, make(section, key, value));
}

static void only_known_sections_with_texts_of_their_bounds_are_taken(void **state)
{
    (void)state;
    static char key[TEXTS_KEY_BYTES_MAX + 2], value[40000];
    memset(key, 'k', sizeof key - 1);
    memset(value, 'v', sizeof value - 1);
    assert_true(is_good("params", "lr", "0.1") && is_good("tags", "a", "") && is_good("names", "loss", "training"));
    assert_true(is_good("tags", "a", NULL) && is_good("models", "m", NULL) && is_good("runs", "r", "{}"));
    assert_false(is_good("params", "a", NULL) || is_good("names", "a", NULL) || is_good("runs", "a", NULL));
    assert_false(is_good("other", "a", "b") || is_good("tags", "", "b"));
    assert_false(is_good("tags", key, "b"));
    key[TEXTS_KEY_BYTES_MAX] = '\0';
    assert_true(is_good("tags", key, "b"));
    assert_false(is_good("params", "a", value) || is_good("tags", "a", value) || is_good("names", "a", value));
    assert_true(is_good("models", "a", value));
    value[24000] = '\0';
    assert_true(is_good("params", "a", value) && is_good("tags", "a", value));
    size_t count = make("tags", "a", "b");
    assert_false(texts_are_good(bytes, count - 1) || texts_are_good(bytes, count + 1) || texts_are_good(bytes, 0));
    assert_false(texts_are_good((const uint8_t *)"\x80", 1)); /* an empty map says nothing */
    count = make("tags", "a", "b\x01");
    bytes[count - 1] = '\0'; /* texts end where they say */
    assert_false(texts_are_good(bytes, count));
}

static void a_further_runs_metrics_are_told_by_their_group(void **state)
{
    (void)state;
    assert_true(texts_is_further("run-00c0ffee"));
    assert_false(texts_is_further("run-00c0ffe") || texts_is_further("run-00c0ffee0") ||
                 texts_is_further("run-00C0FFEE") || texts_is_further("run-") || texts_is_further("training"));
}

static int take(struct texts_params *params, const char *key, const char *value, struct texts_clash *clash)
{
    size_t count = make("params", key, value);
    assert_true(texts_are_good(bytes, count));
    return texts_params_take(params, bytes, count, clash);
}

static void a_parameter_is_written_once(void **state)
{
    (void)state;
    struct texts_params params = {0};
    struct texts_clash clash = {0};
    assert_int_equal(take(&params, "lr", "0.1", &clash), 0);
    assert_int_equal(take(&params, "lr", "0.1", &clash), 0);
    assert_int_equal(take(&params, "width", "16", &clash), 0);
    assert_int_equal(params.count, 2);
    assert_int_equal(take(&params, "lr", "0.2", &clash), ERR_EXISTS);
    assert_string_equal(clash.key, "lr");
    assert_string_equal(clash.was, "0.1");
    assert_string_equal(clash.wanted, "0.2");
    assert_int_equal(texts_params_take(&params, bytes, make("tags", "lr", "0.2"), &clash), 0);
    assert_int_equal(params.count, 2);
    texts_params_free(&params);
}

static void a_map_that_is_refused_leaves_nothing(void **state)
{
    (void)state;
    struct texts_params params = {0};
    struct texts_clash clash = {0};
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 1);
    pack_text(&writer, "params");
    pack_map(&writer, 3);
    for (int i = 0; i < 3; i++) { /* the last contradicts the first */
        pack_text(&writer, i == 1 ? "b" : "a");
        pack_text(&writer, i == 2 ? "2" : "1");
    }
    assert_true(texts_are_good(bytes, writer.used_bytes));
    assert_int_equal(texts_params_take(&params, bytes, writer.used_bytes, &clash), ERR_EXISTS);
    assert_int_equal(params.count, 0);
    assert_int_equal(params.bytes, 0);
    for (int i = 0; i < TEXTS_PARAMS_MAX; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "p%d", i);
        assert_int_equal(take(&params, key, "x", &clash), 0);
    }
    assert_int_equal(take(&params, "one more", "x", &clash), ERR_FULL);
    assert_int_equal(take(&params, "p7", "x", &clash), 0);
    texts_params_free(&params);
    assert_int_equal(params.count + params.bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_known_sections_with_texts_of_their_bounds_are_taken),
        cmocka_unit_test(a_further_runs_metrics_are_told_by_their_group),
        cmocka_unit_test(a_parameter_is_written_once),
        cmocka_unit_test(a_map_that_is_refused_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
