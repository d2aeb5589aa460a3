/* Records of usage: days and months, and rows that are added. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "node/core/facts/facts.h"
#include "tests/unit/facts_make.h"

static struct fact_usage_row row(const char *user, const char *label, const char *model, uint64_t used_ms, uint64_t lost_ms)
{
    struct fact_usage_row made = {.used_ms = used_ms, .lost_ms = lost_ms};
    (void)snprintf(made.user, sizeof made.user, "%s", user);
    (void)snprintf(made.label, sizeof made.label, "%s", label);
    (void)snprintf(made.model, sizeof made.model, "%s", model);
    return made;
}

static void add(struct fact_usage *fact, const char *user, const char *label, const char *model, uint64_t used_ms, uint64_t lost_ms)
{
    struct fact_usage_row added = row(user, label, model, used_ms, lost_ms);
    fact_usage_add(fact, &added);
}

static uint64_t used(const struct fact_usage *fact)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < fact->row_count; i++) {
        sum += fact->rows[i].used_ms;
    }
    return sum;
}

static void each_day_of_four_centuries_is_in_its_month(void **state)
{
    (void)state;
    for (uint32_t day = 0; day < 146097 + 365; day++) {
        time_t at = (time_t)day * 86400;
        struct tm date;
        assert_non_null(gmtime_r(&at, &date));
        uint32_t month = (uint32_t)((date.tm_year - 70) * 12 + date.tm_mon);
        assert_int_equal(fact_usage_month(day), month);
        assert_int_equal(fact_usage_first_day(month), day - (uint32_t)date.tm_mday + 1);
    }
}

static void a_row_is_added_to_the_one_with_the_same_texts(void **state)
{
    (void)state;
    struct fact_usage fact = {.number = 20000};
    add(&fact, "ada", "project=a", "cpu", 1000, 0);
    add(&fact, "ada", "project=b", "cpu", 500, 500);
    add(&fact, "bob", "project=a", "cpu", 1, 0);
    add(&fact, "ada", "project=a", "H200", 7, 0);
    add(&fact, "ada", "project=a", "cpu", 2000, 100);
    assert_int_equal(fact.row_count, 4);
    assert_int_equal(fact.rows[0].used_ms, 3000);
    assert_int_equal(fact.rows[0].lost_ms, 100);
    assert_int_equal(fact.rows[1].lost_ms, 500);
    add(&fact, "ada", "project=a", "cpu", 0, FACT_USAGE_MS_MAX);
    assert_int_equal(fact.rows[0].lost_ms, 3000); /* no more than was used */
    add(&fact, "ada", "project=a", "cpu", FACT_USAGE_MS_MAX, 0);
    assert_true(fact.rows[0].used_ms == FACT_USAGE_MS_MAX);
}

/* The longest rows fill a record and fit into its body; what comes then is counted all the same. */
static void a_full_record_loses_no_time(void **state)
{
    (void)state;
    char user[FACT_USAGE_TEXT_BYTES], label[FACT_USAGE_TEXT_BYTES], model[32];
    struct fact_usage fact = {.number = 20000}, read;
    memset(label, 'l', sizeof label - 1);
    memset(model, 'm', sizeof model - 1);
    label[sizeof label - 1] = model[sizeof model - 1] = '\0';
    uint64_t wanted = 0;
    for (uint32_t i = 0; i < 100; i++) {
        (void)snprintf(user, sizeof user, "%063u", i);
        add(&fact, user, label, model, FACT_USAGE_MS_MAX / 128, 1);
        wanted += FACT_USAGE_MS_MAX / 128;
    }
    add(&fact, "ada", "", "cpu", 5, 0);
    wanted += 5;
    assert_int_equal(fact.row_count, FACT_USAGE_ROWS_MAX);
    assert_true(used(&fact) == wanted);
    assert_string_equal(fact.rows[FACT_USAGE_ROWS_MAX - 1].user, "");
    uint8_t body[RECORD_BODY_BYTES_MAX];
    struct pack_writer writer;
    pack_writer_init(&writer, body, sizeof body);
    fact_usage_pack(&writer, &fact);
    assert_false(writer.failed);
    struct fact_key key = fact_key_usage(FACT_USAGE_DAY, fact.number);
    struct record record = {.kind = FACT_USAGE, .key = key.bytes, .key_bytes = key.count, .body = body, .body_bytes = (uint16_t)writer.used_bytes};
    assert_int_equal(fact_usage_read(&record, &read), 0);
    assert_int_equal(read.row_count, FACT_USAGE_ROWS_MAX);
    assert_true(used(&read) == wanted);
}

static void a_new_label_of_a_full_record_counts_for_its_user(void **state)
{
    (void)state;
    char label[FACT_USAGE_TEXT_BYTES];
    struct fact_usage fact = {.number = 20000};
    add(&fact, "ada", "", "cpu", 10, 0);
    for (uint32_t i = 0; i < FACT_USAGE_ROWS_MAX; i++) {
        (void)snprintf(label, sizeof label, "%u", i);
        add(&fact, "ada", label, "cpu", 1, 0);
    }
    assert_int_equal(fact.row_count, FACT_USAGE_ROWS_MAX - 1);
    assert_int_equal(fact.rows[0].used_ms, 12);
}

static int read_as(struct fact_key key, const struct fact_usage *fact)
{
    uint8_t body[RECORD_BODY_BYTES_MAX];
    struct pack_writer writer;
    struct fact_usage read;
    pack_writer_init(&writer, body, sizeof body);
    fact_usage_pack(&writer, fact);
    struct record record = {.kind = FACT_USAGE, .key = key.bytes, .key_bytes = key.count, .body = body, .body_bytes = (uint16_t)writer.used_bytes};
    return fact_usage_read(&record, &read);
}

static void a_record_is_at_the_place_of_its_number(void **state)
{
    (void)state;
    struct fact_usage fact = {.number = 20000, .row_count = 1, .rows = {{"ada", "", "cpu", 5, 5}}};
    assert_int_equal(read_as(fact_key_usage(FACT_USAGE_DAY, 20000), &fact), 0);
    assert_int_equal(read_as(fact_key_usage(FACT_USAGE_DAY, 20000 + FACT_USAGE_DAYS), &fact), 0);
    assert_int_not_equal(read_as(fact_key_usage(FACT_USAGE_DAY, 20001), &fact), 0);
    assert_int_not_equal(read_as((struct fact_key){.bytes = {2, 0}, .count = 2}, &fact), 0);
    assert_int_not_equal(read_as((struct fact_key){.bytes = {0}, .count = 1}, &fact), 0);
    fact.rows[0].lost_ms = 6;
    assert_int_not_equal(read_as(fact_key_usage(FACT_USAGE_DAY, 20000), &fact), 0);
    fact.rows[0] = (struct fact_usage_row){.user = "ada", .used_ms = FACT_USAGE_MS_MAX + 1};
    assert_int_not_equal(read_as(fact_key_usage(FACT_USAGE_DAY, 20000), &fact), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_day_of_four_centuries_is_in_its_month),
        cmocka_unit_test(a_row_is_added_to_the_one_with_the_same_texts),
        cmocka_unit_test(a_full_record_loses_no_time),
        cmocka_unit_test(a_new_label_of_a_full_record_counts_for_its_user),
        cmocka_unit_test(a_record_is_at_the_place_of_its_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
