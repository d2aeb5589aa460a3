#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/daemon/wire/points.h"

struct point {
    uint8_t bytes[256];
    size_t count;
};

static struct point point_with(struct points_source source, uint64_t generation, uint64_t start, uint64_t step)
{
    struct point out;
    struct pack_writer writer;
    pack_writer_init(&writer, out.bytes, sizeof out.bytes);
    points_begin(&writer, source, 0, 1, generation, start, step, 1764207123456, "training");
    pack_map(&writer, 1);
    pack_text(&writer, "loss");
    pack_double(&writer, 0.5);
    assert_false(writer.failed);
    out.count = writer.used_bytes;
    return out;
}

static struct point point_of(uint64_t generation, uint64_t start, uint64_t step)
{
    return point_with((struct points_source){0}, generation, start, step);
}

static attempt_id attempt_number(uint32_t number)
{
    attempt_id id;
    memset(&id, 0, sizeof id);
    id.number = number;
    return id;
}

static bool is_void(const struct points_starts *starts, uint32_t attempt, uint64_t generation, uint64_t step)
{
    struct point point = point_of(generation, 0, step);
    attempt_id id = attempt_number(attempt);
    return points_is_void(starts, &id, point.bytes, point.count);
}

static void what_an_older_generation_made_beyond_the_next_ones_start_is_void(void **state)
{
    (void)state;
    static struct points_starts starts;
    memset(&starts, 0, sizeof starts);
    attempt_id first = attempt_number(1);
    struct point two = point_of(2, 40, 50), three = point_of(3, 30, 31), one = point_of(1, 0, 45);
    points_note(&starts, &first, one.bytes, one.count); /* the first one begins nowhere in particular */
    points_note(&starts, &first, two.bytes, two.count);
    points_note(&starts, &first, two.bytes, two.count);
    assert_int_equal(starts.count, 1);
    assert_false(is_void(&starts, 1, 1, 40));
    assert_true(is_void(&starts, 1, 1, 41));
    assert_false(is_void(&starts, 1, 2, 41));
    assert_false(is_void(&starts, 2, 1, 41)); /* of another attempt */
    points_note(&starts, &first, three.bytes, three.count);
    assert_true(is_void(&starts, 1, 1, 35));
    assert_true(is_void(&starts, 1, 2, 50));
    assert_false(is_void(&starts, 1, 3, 31));
}

static void a_start_is_not_shown(void **state)
{
    (void)state;
    struct point stored = point_of(2, 40, 41), first = point_of(1, 0, 41);
    uint8_t shown[256];
    struct pack_writer writer;
    pack_writer_init(&writer, shown, sizeof shown);
    points_show(&writer, stored.bytes, stored.count, false);
    struct pack_reader reader;
    pack_reader_init(&reader, shown, writer.used_bytes);
    struct pack_reader value = pack_find(&reader, "step");
    assert_int_equal(pack_read_u64(&value), 41);
    value = pack_find(&reader, "wall_ms");
    assert_int_equal(pack_read_u64(&value), 1764207123456);
    value = pack_find(&reader, "start");
    assert_true(value.failed);
    assert_int_equal(pack_read_map(&reader), 7);
    pack_writer_init(&writer, shown, sizeof shown);
    points_show(&writer, first.bytes, first.count, false);
    assert_int_equal(writer.used_bytes, first.count);
    assert_memory_equal(shown, first.bytes, first.count);
}

static void a_source_is_told_and_not_shown(void **state)
{
    (void)state;
    struct points_source source = {UINT64_MAX - 1, 77}, none = points_source_of((const uint8_t *)"\x81", 1);
    assert_int_equal(none.session, 0);
    for (uint64_t generation = 1; generation <= 2; generation++) { /* without a start and with one */
        struct point stored = point_with(source, generation, 40, 41), other = point_of(generation, 40, 41);
        struct points_source read = points_source_of(stored.bytes, stored.count);
        assert_int_equal(read.session, source.session);
        assert_int_equal(read.request, 77);
        assert_int_equal(points_source_of(other.bytes, other.count).session, 0);
        uint8_t shown[256], plain[256];
        struct pack_writer writer, of_other;
        pack_writer_init(&writer, shown, sizeof shown);
        points_show(&writer, stored.bytes, stored.count, false);
        pack_writer_init(&of_other, plain, sizeof plain);
        points_show(&of_other, other.bytes, other.count, false);
        assert_int_equal(writer.used_bytes, of_other.used_bytes);
        assert_memory_equal(shown, plain, of_other.used_bytes);
    }
}

static void a_step_that_a_later_attempt_made_anew_is_shown_as_void(void **state)
{
    (void)state;
    struct point first = point_of(1, 0, 41), second = point_of(2, 40, 41);
    assert_true(points_is_after(40, first.bytes, first.count));
    assert_false(points_is_after(41, first.bytes, first.count));
    assert_false(points_is_after(UINT64_MAX, first.bytes, first.count));
    for (const struct point *point = &first; point != NULL; point = point == &first ? &second : NULL) {
        uint8_t shown[256];
        struct pack_writer writer;
        pack_writer_init(&writer, shown, sizeof shown);
        points_show(&writer, point->bytes, point->count, true);
        struct pack_reader reader;
        pack_reader_init(&reader, shown, writer.used_bytes);
        struct pack_reader value = pack_find(&reader, "void");
        assert_true(pack_read_bool(&value));
        assert_int_equal(pack_read_map(&reader), 8);
        pack_reader_init(&reader, shown, writer.used_bytes);
        pack_skip(&reader);
        assert_true(pack_at_end(&reader));
    }
}

static void nonsense_is_nobodys_point(void **state)
{
    (void)state;
    static struct points_starts starts;
    memset(&starts, 0, sizeof starts);
    attempt_id id = attempt_number(1);
    struct point whole = point_of(2, 40, 41);
    for (size_t count = 0; count <= whole.count; count++) {
        uint8_t shown[300];
        struct pack_writer writer;
        pack_writer_init(&writer, shown, sizeof shown);
        points_show(&writer, whole.bytes, count, count % 2 == 1);
        assert_int_equal(writer.used_bytes == 1, count < whole.count); /* nil */
        (void)points_is_void(&starts, &id, whole.bytes, count);
    }
    static const uint8_t others[] = {0xc0, 0x93, 0x81, 0x2a};
    for (size_t i = 0; i < sizeof others; i++) {
        points_note(&starts, &id, others + i, 1);
        assert_false(points_is_void(&starts, &id, others + i, 1));
    }
    assert_int_equal(starts.count, 0);
}

static void more_generations_than_there_is_room_for_are_forgotten_oldest_first(void **state)
{
    (void)state;
    static struct points_starts starts;
    memset(&starts, 0, sizeof starts);
    attempt_id id = attempt_number(1);
    for (uint64_t generation = 2; generation < 4 * POINTS_STARTS_MAX; generation++) {
        points_add(&starts, &id, generation, 10 * generation);
    }
    assert_true(starts.count <= POINTS_STARTS_MAX);
    uint64_t last = 4 * POINTS_STARTS_MAX - 1;
    assert_true(is_void(&starts, 1, last - 1, 10 * last + 1));
    assert_false(is_void(&starts, 1, last - 1, 10 * last));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_an_older_generation_made_beyond_the_next_ones_start_is_void),
        cmocka_unit_test(a_start_is_not_shown),
        cmocka_unit_test(a_source_is_told_and_not_shown),
        cmocka_unit_test(a_step_that_a_later_attempt_made_anew_is_shown_as_void),
        cmocka_unit_test(nonsense_is_nobodys_point),
        cmocka_unit_test(more_generations_than_there_is_room_for_are_forgotten_oldest_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
