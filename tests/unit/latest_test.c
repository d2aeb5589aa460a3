#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/daemon/wire/points.h"
#include "node/daemon/workers/latest.h"

#define METRIC "mean_average_precision_at_a_large_intersection_over_union_00000"

static struct latest latest;

static int clear(void **state)
{
    (void)state;
    memset(&latest, 0, sizeof latest);
    return 0;
}

static bool finds(const uint8_t *bytes, uint32_t count, const char *group, const char *name, double wanted)
{
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    struct pack_reader in_group = pack_find(&reader, group);
    struct pack_reader value = pack_find(&in_group, name);
    double number = pack_read_double(&value);
    return !value.failed && number > wanted - 0.001 && number < wanted + 0.001;
}

static bool shows(const char *searched, const char *group, const char *name, double wanted)
{
    uint8_t bytes[FACT_METRICS_BYTES_MAX];
    uint32_t count = latest_pack(&latest, searched, bytes);
    struct pack_reader whole;
    pack_reader_init(&whole, bytes, count);
    pack_skip(&whole);
    assert_true(pack_at_end(&whole));
    return finds(bytes, count, group, name, wanted);
}

static void the_latest_value_of_each_metric_is_shown(void **state)
{
    (void)state;
    uint8_t bytes[FACT_METRICS_BYTES_MAX];
    assert_int_equal(latest_pack(&latest, "accuracy", bytes), 0);
    latest_set(&latest, "accuracy", "training", "loss", 1, 0.5);
    latest_set(&latest, "accuracy", "validation", "loss", 1, 0.75);
    latest_set(&latest, "accuracy", "training", "loss", 2, 0.25);
    assert_true(shows("accuracy", "training", "loss", 0.25));
    assert_true(shows("accuracy", "validation", "loss", 0.75));
}

static void the_searchers_metric_has_room_before_all_others(void **state)
{
    (void)state;
    char name[REQUEST_METRIC_BYTES];
    for (int i = 0; i < LATEST_METRICS_MAX + 8; i++) {
        (void)snprintf(name, sizeof name, "%0120d", i);
        latest_set(&latest, METRIC, i % 2 == 0 ? "training" : "validation", name, 1, i);
    }
    latest_set(&latest, METRIC, "validation", METRIC, 1, 0.5);
    latest_set(&latest, METRIC, "validation", METRIC, 2, 0.75);
    assert_int_equal(latest.count, LATEST_METRICS_MAX);
    assert_true(shows(METRIC, "validation", METRIC, 0.75));
    (void)snprintf(name, sizeof name, "%0120d", 0);
    assert_true(shows(METRIC, "training", name, 0)); /* and then as many others as fit */
    (void)snprintf(name, sizeof name, "%0120d", 20);
    assert_false(shows(METRIC, "training", name, 20));
}

static void only_what_a_group_took_back_is_forgotten(void **state)
{
    (void)state;
    latest_set(&latest, "accuracy", "validation", "accuracy", 100, 0.5);
    latest_set(&latest, "accuracy", "training", "loss", 105, 0.25);
    latest_take_back(&latest, 104);
    assert_true(shows("accuracy", "validation", "accuracy", 0.5));
    assert_false(shows("accuracy", "training", "loss", 0.25));
}

static void note_point(uint64_t generation, uint64_t start, uint64_t step, const char *group, const char *name, double value)
{
    uint8_t bytes[256];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    points_begin(&writer, (struct points_source){0}, 0, 1, generation, start, step, 0, group);
    pack_map(&writer, 1);
    pack_text(&writer, name);
    pack_double(&writer, value);
    assert_false(writer.failed);
    latest_note(&latest, "accuracy", bytes, writer.used_bytes);
}

static void after_a_restart_the_record_and_the_end_of_the_series_tell_it(void **state)
{
    (void)state;
    latest_set(&latest, "accuracy", "validation", "accuracy", 100, 0.5);
    latest_set(&latest, "accuracy", "training", "loss", 100, 1);
    uint8_t record[FACT_METRICS_BYTES_MAX];
    uint32_t count = latest_pack(&latest, "accuracy", record);
    memset(&latest, 0, sizeof latest);
    latest_read(&latest, "accuracy", 1, 100, record, count);
    note_point(1, 0, 101, "training", "loss", 0.75);
    note_point(1, 0, 102, "training", "rate", 8);
    note_point(2, 101, 103, "training", "loss", 0.25); /* the second generation made step 102 anew ... */
    note_point(2, 101, 104, "training", "beta", 4);    /* ... and has taken back nothing since */
    assert_true(shows("accuracy", "validation", "accuracy", 0.5));
    assert_true(shows("accuracy", "training", "loss", 0.25));
    assert_true(shows("accuracy", "training", "beta", 4));
    assert_false(shows("accuracy", "training", "rate", 8));
}

/* Its disk was slow, or full: what came last is in the record only. */
static void after_a_restart_a_series_that_is_behind_takes_nothing_back(void **state)
{
    (void)state;
    uint8_t record[FACT_METRICS_BYTES_MAX];
    latest_set(&latest, "accuracy", "validation", "accuracy", 20, 0.75);
    uint32_t count = latest_pack(&latest, "accuracy", record);
    for (uint64_t generation = 1; generation <= 2; generation++) { /* of the series */
        memset(&latest, 0, sizeof latest);
        latest_read(&latest, "accuracy", 2, 20, record, count);
        note_point(generation, 0, 5, "validation", "accuracy", 0.75);
        note_point(generation, 0, 10, "validation", "accuracy", 0.5);
        note_point(generation, 0, 10, "training", "loss", 2); /* there was no room for it in the record */
        assert_true(shows("accuracy", "validation", "accuracy", 0.75));
        assert_true(shows("accuracy", "training", "loss", 2));
        note_point(2, 0, 21, "validation", "accuracy", 0.25);
        assert_true(shows("accuracy", "validation", "accuracy", 0.25));
    }
}

static void bytes_that_are_none_teach_nothing(void **state)
{
    (void)state;
    const uint8_t nonsense[] = {0x82, 0xa1, 'x', 0x01, 0xc1};
    for (size_t count = 0; count <= sizeof nonsense; count++) {
        latest_read(&latest, "accuracy", 1, 1, nonsense, count);
        latest_note(&latest, "accuracy", nonsense, count);
    }
    assert_int_equal(latest.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_latest_value_of_each_metric_is_shown, clear),
        cmocka_unit_test_setup(the_searchers_metric_has_room_before_all_others, clear),
        cmocka_unit_test_setup(only_what_a_group_took_back_is_forgotten, clear),
        cmocka_unit_test_setup(after_a_restart_the_record_and_the_end_of_the_series_tell_it, clear),
        cmocka_unit_test_setup(after_a_restart_a_series_that_is_behind_takes_nothing_back, clear),
        cmocka_unit_test_setup(bytes_that_are_none_teach_nothing, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
