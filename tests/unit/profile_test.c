/* The profile of a worker: means, how where the time goes is split, and how points become rarer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/daemon/workers/profile.h"

/* The number of a name in the packed map. */
static double number_of(const struct pack_writer *writer, const char *name)
{
    struct pack_reader reader;
    pack_reader_init(&reader, writer->bytes, writer->used_bytes);
    struct pack_reader value = pack_find(&reader, name);
    double number = pack_read_double(&value);
    assert_false(value.failed);
    return number;
}

static void steps_are_split_into_computing_collectives_and_data(void **state)
{
    (void)state;
    uint8_t bytes[PROFILE_POINT_BYTES_MAX];
    struct pack_writer writer;
    struct profile profile = {0};
    const struct profile_split one = {.steps = 2, .step_ns = 8000000000, .collective_ns = 1000000000, .data_ns = 3000000000};
    assert_true(profile_add_split(&profile, &one, 1000)); /* the first point comes at once */
    pack_writer_init(&writer, bytes, sizeof bytes);
    profile_take_split(&profile, 7, 1000, &writer);
    assert_true(number_of(&writer, "rank7/step_s") == 4);
    assert_true(number_of(&writer, "rank7/collective_s") == 0.5);
    assert_true(number_of(&writer, "rank7/data_s") == 1.5);
    assert_true(number_of(&writer, "rank7/compute_s") == 2);
    assert_false(profile_add_split(&profile, &one, 1900));
    const struct profile_split longer = {.steps = 2, .step_ns = 1000, .collective_ns = 9000000000, .data_ns = 0};
    assert_true(profile_add_split(&profile, &longer, 3000));
    pack_writer_init(&writer, bytes, sizeof bytes);
    profile_take_split(&profile, 7, 3000, &writer);
    assert_true(number_of(&writer, "rank7/compute_s") == 0); /* clocks that do not fit together give nothing below 0 */
    assert_int_equal(profile.entries, 2);
}

static void a_point_has_the_means_of_what_is_known(void **state)
{
    (void)state;
    uint8_t bytes[PROFILE_POINT_BYTES_MAX];
    struct pack_writer writer;
    struct profile profile = {.entries = PROFILE_ENTRIES, .system_ms = 1};
    struct profile_sample sample = {.has = {[PROFILE_CPU] = true}, .values = {[PROFILE_CPU] = 100}};
    assert_false(profile_add(&profile, &sample, 2001));
    sample.has[PROFILE_GPU_POWER] = true;
    sample.values[PROFILE_CPU] = 50;
    sample.values[PROFILE_GPU_POWER] = 250;
    assert_true(profile_add(&profile, &sample, 4001));
    pack_writer_init(&writer, bytes, sizeof bytes);
    profile_take_system(&profile, 0, 4001, &writer);
    assert_true(number_of(&writer, "rank0/cpu_percent") == 75);
    assert_true(number_of(&writer, "rank0/gpu_watts") == 250);
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, writer.used_bytes);
    assert_int_equal(pack_read_map(&reader), 2);
    memset(sample.has, true, sizeof sample.has);
    assert_true(profile_add(&profile, &sample, 100000));
    pack_writer_init(&writer, bytes, sizeof bytes);
    profile_take_system(&profile, UINT32_MAX, 100000, &writer);
    assert_false(writer.failed); /* there is room for all of them */
    assert_true(writer.used_bytes < PROFILE_POINT_BYTES_MAX / 2);
}

static void points_become_rarer_and_stay_one_a_minute(void **state)
{
    (void)state;
    assert_int_equal(profile_interval_ms(0), PROFILE_INTERVAL_MS);
    assert_int_equal(profile_interval_ms(PROFILE_ENTRIES - 1), PROFILE_INTERVAL_MS);
    assert_int_equal(profile_interval_ms(PROFILE_ENTRIES), 2 * PROFILE_INTERVAL_MS);
    assert_int_equal(profile_interval_ms(PROFILE_ENTRIES * 3 / 2), 4 * PROFILE_INTERVAL_MS);
    assert_int_equal(profile_interval_ms(1000000), PROFILE_INTERVAL_MS_MAX);
    assert_int_equal(profile_interval_ms(UINT64_MAX), PROFILE_INTERVAL_MS_MAX);
}

static void counters_become_rates(void **state)
{
    (void)state;
    const struct profile_counters none = {0};
    const struct profile_counters before = {
        .at_ms = 1000, .cpu_ms = 500, .memory_bytes = 5, .has_io = true, .read_bytes = 100, .written_bytes = 9000};
    const struct profile_counters now = {
        .at_ms = 3000, .cpu_ms = 3500, .memory_bytes = 7, .has_io = true, .read_bytes = 4100, .written_bytes = 8000};
    struct profile_sample sample = profile_between(&none, &now);
    assert_true(sample.has[PROFILE_MEMORY] && !sample.has[PROFILE_CPU] && !sample.has[PROFILE_READ]);
    sample = profile_between(&before, &now);
    assert_true(sample.has[PROFILE_CPU] && sample.values[PROFILE_CPU] == 150);
    assert_true(sample.values[PROFILE_MEMORY] == 7);
    assert_true(sample.has[PROFILE_READ] && sample.values[PROFILE_READ] == 2000);
    assert_true(sample.has[PROFILE_WRITTEN] && sample.values[PROFILE_WRITTEN] == 0); /* a process has ended */
    assert_false(sample.has[PROFILE_SENT]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_split_into_computing_collectives_and_data),
        cmocka_unit_test(a_point_has_the_means_of_what_is_known),
        cmocka_unit_test(points_become_rarer_and_stay_one_a_minute),
        cmocka_unit_test(counters_become_rates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
