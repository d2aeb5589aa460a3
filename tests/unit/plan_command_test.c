/* shoal-train plan. */
#include "train/trainer/plan_command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Runs with the words of `line`; `text` gets what was written to either stream. */
static int run(const char *line, char text[4096])
{
    char copy[256], *words[32], *rest = NULL;
    int count = 0;
    (void)snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        words[count++] = word;
    }
    memset(text, 0, 4096);
    FILE *stream = fmemopen(text, 4096, "w");
    assert_non_null(stream);
    int result = plan_command(count, words, stream, stream);
    (void)fclose(stream);
    return result;
}

static void test_every_transfer_is_a_line(void **state)
{
    (void)state;
    char text[4096];
    assert_int_equal(run("--ranks 3 --bytes 120 --algorithm ring", text), 0);
    assert_string_equal(text, "all-reduce of 30 f32 on 3 ranks by ring: 4 steps, 480 bytes sent, 160 by the busiest rank\n"
                              "cost: ring 80.648 us, doubling 61.464 us, halving 81.578 us\n"
                              "step 0 rank 0 sends [20, 30) to 1, which adds it\n"
                              "step 0 rank 1 sends [0, 10) to 2, which adds it\n"
                              "step 0 rank 2 sends [10, 20) to 0, which adds it\n"
                              "step 1 rank 0 sends [10, 20) to 1, which adds it\n"
                              "step 1 rank 1 sends [20, 30) to 2, which adds it\n"
                              "step 1 rank 2 sends [0, 10) to 0, which adds it\n"
                              "step 2 rank 0 sends [0, 10) to 1, which copies it\n"
                              "step 2 rank 1 sends [10, 20) to 2, which copies it\n"
                              "step 2 rank 2 sends [20, 30) to 0, which copies it\n"
                              "step 3 rank 0 sends [20, 30) to 1, which copies it\n"
                              "step 3 rank 1 sends [0, 10) to 2, which copies it\n"
                              "step 3 rank 2 sends [10, 20) to 0, which copies it\n");
}

static void test_json_has_the_same(void **state)
{
    (void)state;
    char text[4096];
    assert_int_equal(run("--ranks=2 --bytes=2K --type bf16 --algorithm=doubling --json", text), 0);
    assert_string_equal(text,
                        "{\"collective\": \"all-reduce\", \"algorithm\": \"doubling\", \"ranks\": 2, \"type\": \"bf16\", "
                        "\"count\": 1024, \"steps\": 1, \"bytes_sent\": 4096, \"bytes_sent_most\": 2048, \"cost_us\": "
                        "{\"ring\": 48.294, \"doubling\": 28.396, \"halving\": 50.342}, \"transfers\": [\n"
                        "  {\"step\": 0, \"from\": 0, \"to\": 1, \"offset\": 0, \"count\": 1024, \"add\": true},\n"
                        "  {\"step\": 0, \"from\": 1, \"to\": 0, \"offset\": 0, \"count\": 1024, \"add\": true}\n]}\n");
    assert_int_equal(run("--ranks 1 --bytes 0 --json", text), 0);
    assert_non_null(strstr(text, "\"transfers\": [\n]}"));
}

static void test_the_cheapest_is_taken_where_none_is_named(void **state)
{
    (void)state;
    char text[4096];
    assert_int_equal(run("--ranks 4 --bytes 1K", text), 0);
    assert_non_null(strstr(text, "by doubling"));
    assert_int_equal(run("--ranks 6 --bytes 64M", text), 0);
    assert_non_null(strstr(text, "by ring"));
    assert_int_equal(run("--ranks 4 --bytes 1K --collective broadcast --root 3 --type bytes", text), 0);
    assert_non_null(strstr(text, "step 0 rank 3 sends [0, 1024) to 1, which copies it"));
    assert_int_equal(run("--ranks 4 --collective barrier", text), 0);
    assert_non_null(strstr(text, "barrier of 0 f32 on 4 ranks by doubling: 2 steps, 0 bytes sent"));
}

static void test_wrong_usage_is_one_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *line, *sentence;
    } wrong[] = {
        {"", "name the number of ranks: --ranks N"},
        {"--ranks 4", "name the size of the array: --bytes SIZE"},
        {"--ranks 257 --bytes 1", "--ranks is '257'; it must be a number from 1 to 256"},
        {"--ranks 0 --bytes 1", "--ranks is '0'"},
        {"--ranks 4K --bytes 1", "--ranks is '4K'"},
        {"--ranks 4 --bytes -1", "--bytes is '-1'; it must be a number of bytes, such as 65536, 64K or 16M"},
        {"--ranks 4 --bytes 1T", "--bytes is '1T'"},
        {"--ranks 4 --bytes 18446744073709551615", "--bytes is '18446744073709551615'"},
        {"--ranks 4 --bytes 9999999999999999999G", "--bytes is"},
        {"--ranks 4 --bytes 6", "6 bytes are no whole number of f32, which have 4 bytes"},
        {"--ranks 4 --bytes 8 --type f64", "--type is 'f64'; it must be f32, f16, bf16 or bytes"},
        {"--ranks 4 --bytes 8 --algorithm star", "--algorithm is 'star'"},
        {"--ranks 4 --bytes 8 --algorithm tree", "there is no all-reduce by tree"},
        {"--ranks 4 --bytes 8 --collective all", "--collective is 'all'"},
        {"--ranks 4 --bytes 8 --root 4 --collective broadcast", "there is no rank 4 in a group of 4"},
        {"--ranks 4 --bytes 8 --colour red", "there is no option --colour"},
        {"--ranks 4 --bytes 8 now", "there is no option now"},
        {"--ranks 4 --bytes", "--bytes needs a value"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char text[4096];
        assert_int_equal(run(wrong[i].line, text), 2);
        assert_non_null(strstr(text, wrong[i].sentence));
        assert_non_null(strstr(text, "; see shoal-train --help\n"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_transfer_is_a_line),
        cmocka_unit_test(test_json_has_the_same),
        cmocka_unit_test(test_the_cheapest_is_taken_where_none_is_named),
        cmocka_unit_test(test_wrong_usage_is_one_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
