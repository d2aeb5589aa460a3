/* MLflow's keys in Shoal's words, paths of artifacts, and the words that are no JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/http/mlflow/keys.h"

static void a_metric_has_a_place_in_a_group(void **state)
{
    (void)state;
    static const struct {
        const char *key, *searched, *group, *name;
        bool is_bare;
    } rows[] = {
        {"train/loss", "loss", "train", "loss", false},
        {"validation/accuracy", "accuracy", "validation", "accuracy", false},
        {"a/b/c", "", "a", "b/c", false},
        {"loss", "", "training", "loss", true},
        {"loss", "accuracy", "training", "loss", true},
        {"accuracy", "accuracy", "validation", "accuracy", true},
        {"system/", "", "training", "system/", true},
        {"a_group_of_more_than_31_characters/loss", "", "training", "a_group_of_more_than_31_characters/loss", true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct metric_place place;
        assert_true(keys_place(rows[i].key, rows[i].searched, &place));
        assert_string_equal(place.group, rows[i].group);
        assert_string_equal(place.name, rows[i].name);
        assert_int_equal(place.is_bare, rows[i].is_bare);
    }
    char key[200] = "g/";
    struct metric_place place;
    memset(key + 2, 'x', KEYS_NAME_BYTES - 1);
    assert_true(keys_place(key, "", &place));
    key[2 + KEYS_NAME_BYTES - 1] = 'x';
    assert_false(keys_place(key, "", &place));
}

static void keys_are_those_that_mlflow_takes(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "a/b", "lr (", "optimizer.lr", "a b:c-d_e", "\xc3\xa4", ".hidden", "..."};
    static const char *const bad[] = {"", "/a", "a/", "a//b", ".", "..", "a/../b", "a/.", "a;b", "a\nb", "a\"b"};
    char longest[252];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(keys_is_key(good[i]), strchr(good[i], '(') == NULL);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(keys_is_key(bad[i]));
    }
    memset(longest, 'k', sizeof longest);
    longest[251] = '\0';
    assert_false(keys_is_key(longest));
    longest[250] = '\0';
    assert_true(keys_is_key(longest));
    assert_int_equal(keys_chars("\xc3\xa4\xe2\x82\xac"
                                "a"),
                     3);
}

static void a_path_does_not_lead_out(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "model/MLmodel", "a b/\xc3\xa4;c", ".config", "a/..b"};
    static const char *const bad[] = {"",     "/etc", "..",   "a/../b", "a/..", "./a",
                                      "a//b", "a/",   "a\\b", "a\x01",  "a\x7f"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(keys_is_path(good[i]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(keys_is_path(bad[i]));
    }
}

#define RUN "0123456789abcdef0000000000000007"
#define FURTHER "0123456789abcdef00c0ffee00000007"
#define MODEL "m-0123456789abcdef0000000789abcdef"

static void an_artifact_has_its_place_among_a_trials_files(void **state)
{
    (void)state;
    static const char *const good[][3] = {{"17/" RUN "/artifacts", RUN, ""},
                                          {"17/" RUN "/artifacts/", RUN, ""},
                                          {"17/" RUN "/artifacts/a/b.txt", RUN, "a/b.txt"},
                                          {"17/" FURTHER "/artifacts/a", FURTHER, "runs/00c0ffee/a"},
                                          {"17/" FURTHER "/artifacts", FURTHER, "runs/00c0ffee"},
                                          {"17/models/" MODEL "/artifacts", RUN, "models/" MODEL},
                                          {"17/models/" MODEL "/artifacts/data/w", RUN, "models/" MODEL "/data/w"}};
    static const char *const bad[] = {"",
                                      "17",
                                      "17/" RUN,
                                      "17/" RUN "/files/a",
                                      "x/" RUN "/artifacts/a",
                                      "17/0123/artifacts/a",
                                      "17/models/m-0123/artifacts/a",
                                      "17/" RUN "/artifacts/../a",
                                      "17/" RUN "/artifacts//etc",
                                      "17/" RUN "/artifacts/a/",
                                      "17//artifacts",
                                      "/17/" RUN "/artifacts/a",
                                      "17/models/" MODEL "/a"};
    struct artifact_place place;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(keys_artifact(good[i][0], &place));
        assert_string_equal(place.run, good[i][1]);
        assert_string_equal(place.path, good[i][2]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (keys_artifact(bad[i], &place)) {
            fail_msg("%s is taken", bad[i]);
        }
    }
    char longest[1200] = "17/" RUN "/artifacts/";
    memset(longest + strlen(longest), 'x', 1000);
    assert_false(keys_artifact(longest, &place));
}

static void words_that_are_no_json_get_quotes_outside_of_texts(void **state)
{
    (void)state;
    static const char *const rows[][2] = {{"{\"value\": NaN}", "{\"value\": \"NaN\"}"},
                                          {"[NaN,-Infinity,Infinity]", "[\"NaN\",\"-Infinity\",\"Infinity\"]"},
                                          {"{\"NaN\": \"a NaN\"}", "{\"NaN\": \"a NaN\"}"},
                                          {"{\"a\\\"NaN\": NaN}", "{\"a\\\"NaN\": \"NaN\"}"},
                                          {"{\"a\\\\\": NaN}", "{\"a\\\\\": \"NaN\"}"},
                                          {"-1", "-1"},
                                          {"", ""},
                                          {"\"\\", "\"\\"},
                                          {"Na", "Na"},
                                          {"NaNNaN", "\"NaN\"\"NaN\""}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char out[128];
        size_t count = strlen(rows[i][0]);
        size_t used = keys_quote(rows[i][0], count, out);
        assert_true(used <= keys_quoted_bytes(count));
        out[used] = '\0';
        assert_string_equal(out, rows[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_metric_has_a_place_in_a_group),
        cmocka_unit_test(keys_are_those_that_mlflow_takes),
        cmocka_unit_test(a_path_does_not_lead_out),
        cmocka_unit_test(an_artifact_has_its_place_among_a_trials_files),
        cmocka_unit_test(words_that_are_no_json_get_quotes_outside_of_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
