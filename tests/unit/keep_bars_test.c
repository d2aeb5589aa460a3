/* Progress bars on their way into a log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/keep/bars.h"

static char kept[1 << 20];
static size_t kept_bytes;

static void keep(void *context, const uint8_t *bytes, size_t count)
{
    (void)context;
    assert_true(kept_bytes + count < sizeof kept);
    memcpy(kept + kept_bytes, bytes, count);
    kept_bytes += count;
    kept[kept_bytes] = '\0';
}

static void begin(struct keep_bars *bars)
{
    *bars = (struct keep_bars){.put = keep};
    kept_bytes = 0;
    kept[0] = '\0';
}

static void take(struct keep_bars *bars, uint64_t now_ms, const char *text)
{
    keep_bars_take(bars, now_ms, (const uint8_t *)text, strlen(text));
}

static void other_output_passes_unchanged(void **state)
{
    (void)state;
    struct keep_bars bars;
    begin(&bars);
    take(&bars, 1, "one\ntw");
    take(&bars, 1, "o\r\nthree\r");
    take(&bars, 1, "\nfour");
    assert_int_equal(keep_bars_next_ms(&bars), UINT64_MAX);
    keep_bars_end(&bars);
    assert_string_equal(kept, "one\ntwo\r\nthree\r\nfour");
}

static void the_last_state_of_a_bar_is_kept(void **state)
{
    (void)state;
    struct keep_bars bars;
    begin(&bars);
    for (int i = 0; i <= 100; i++) {
        char text[16];
        (void)snprintf(text, sizeof text, "\r%d%%|", i);
        take(&bars, 1000 + (uint64_t)i, text);
    }
    take(&bars, 1101, "\nnext\r1");
    take(&bars, 1102, "\r2\r3\r\n");
    assert_string_equal(kept, "\r0%|\r100%|\nnext\r1\r3\r\n");
    take(&bars, 1103, "\r4\r5\r");
    keep_bars_end(&bars);
    assert_string_equal(kept + 21, "\r4\r5\r");
}

static void a_bar_that_stands_still_is_kept(void **state)
{
    (void)state;
    struct keep_bars bars;
    begin(&bars);
    take(&bars, 1000, "\r1%\r2");
    assert_string_equal(kept, "\r1%");
    assert_int_equal(keep_bars_next_ms(&bars), 1000 + KEEP_BARS_MS_MIN);
    keep_bars_tick(&bars, 1499);
    assert_string_equal(kept, "\r1%");
    keep_bars_tick(&bars, 1500);
    take(&bars, 1501, "%");
    assert_string_equal(kept, "\r1%\r2%");
}

static void a_bar_of_a_day_takes_little_room(void **state)
{
    (void)state;
    struct keep_bars bars;
    begin(&bars);
    size_t states = 0;
    for (uint64_t s = 0; s < 864000; s++) {
        take(&bars, 1 + s * 100, "\rstep");
        keep_bars_tick(&bars, 1 + s * 100);
    }
    for (size_t i = 0; i < kept_bytes; i++) {
        states += kept[i] == '\r';
    }
    assert_true(states > 8000 && states < 10000);
}

/* What a terminal shows of each line is the same, in whatever pieces the output comes. */
static void final_lines(const char *text, size_t bytes, char *out)
{
    memcpy(out, text, bytes);
    out[keep_bars_fold(out, bytes)] = '\0';
}

static void a_text_is_folded(void **state)
{
    (void)state;
    char text[] = "a\n\r1\r22\r\r3\r\nb\r\n\r\rc\r";
    text[keep_bars_fold(text, sizeof text - 1)] = '\0';
    assert_string_equal(text, "a\n3\nb\nc");
}

static void no_line_ends_otherwise(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 7);
    for (int round = 0; round < 2000; round++) {
        static char given[600], wanted[600], got[600];
        struct keep_bars bars;
        begin(&bars);
        size_t bytes = random_u64(&random) % 500;
        for (size_t i = 0; i < bytes; i++) {
            static const char letters[] = "ab\r\n";
            given[i] = letters[random_u64(&random) % 4];
        }
        uint64_t now_ms = 1;
        for (size_t at = 0; at < bytes;) {
            size_t part = 1 + random_u64(&random) % 9;
            part = part < bytes - at ? part : bytes - at;
            now_ms += random_u64(&random) % 400;
            keep_bars_take(&bars, now_ms, (const uint8_t *)given + at, part);
            keep_bars_tick(&bars, now_ms);
            at += part;
        }
        keep_bars_end(&bars);
        final_lines(given, bytes, wanted);
        final_lines(kept, kept_bytes, got);
        assert_string_equal(got, wanted);
    }
}

static void a_long_state_is_kept_whole(void **state)
{
    (void)state;
    static uint8_t given[3 * KEEP_BARS_STATE_BYTES];
    memset(given, 'x', sizeof given);
    struct keep_bars bars;
    begin(&bars);
    take(&bars, 1, "\r1\r");
    for (size_t i = 0; i < sizeof given; i++) {
        keep_bars_take(&bars, 2, given + i, 1);
    }
    keep_bars_end(&bars);
    assert_int_equal(kept_bytes, sizeof given + 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_output_passes_unchanged),   cmocka_unit_test(the_last_state_of_a_bar_is_kept),
        cmocka_unit_test(a_bar_that_stands_still_is_kept), cmocka_unit_test(a_bar_of_a_day_takes_little_room),
        cmocka_unit_test(a_text_is_folded),                cmocka_unit_test(no_line_ends_otherwise),
        cmocka_unit_test(a_long_state_is_kept_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
