/* Metric points out of event files: records that are whole, cut short, long or damaged, and the forms that scalars
 * have. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "node/daemon/wire/event_points.h"
#include "store/tfevents.h"

#define ROOM 4

static struct event_point points[ROOM];
static uint32_t dropped;

static size_t make(uint8_t *bytes, size_t capacity, const char *const tags[], size_t count)
{
    struct protobuf_writer writer;
    protobuf_writer_init(&writer, bytes, capacity);
    size_t mark = tfevents_begin(&writer, 1700000000.25, 7);
    size_t scalars = tfevents_scalars_begin(&writer);
    for (size_t i = 0; i < count; i++) {
        tfevents_put_scalar(&writer, tags[i], strlen(tags[i]), (double)i + 0.5);
    }
    tfevents_scalars_end(&writer, scalars);
    tfevents_end(&writer, mark);
    assert_false(writer.failed);
    return writer.used_bytes;
}

/* Reads the one event of `bytes`. */
static uint32_t read(const uint8_t *bytes, size_t count)
{
    const uint8_t *message = NULL;
    size_t message_bytes = 0;
    uint64_t whole = 0;
    dropped = 0;
    assert_int_equal(event_take(bytes, count, &message, &message_bytes, &whole), EVENT_TAKEN);
    assert_int_equal(whole, count);
    return event_points(message, message_bytes, points, ROOM, &dropped);
}

static void a_tag_is_a_group_and_a_name(void **state)
{
    (void)state;
    static const char *const tags[] = {"validation/accuracy", "loss", "train/a/b", "/x"};
    uint8_t bytes[512];
    assert_int_equal(read(bytes, make(bytes, sizeof bytes, tags, 4)), 4);
    static const char *const expected[4][2] = {
        {"validation", "accuracy"}, {"training", "loss"}, {"train", "a/b"}, {"training", "/x"}};
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(points[i].group, expected[i][0]);
        assert_string_equal(points[i].name, expected[i][1]);
        assert_true(points[i].step == 7 && points[i].wall_ms == 1700000000250 && points[i].value == (double)i + 0.5);
    }
    assert_int_equal(dropped, 0);
}

static void names_that_are_none_and_what_has_no_room_are_dropped(void **state)
{
    (void)state;
    char most[REQUEST_METRIC_BYTES], more[REQUEST_METRIC_BYTES + 1], group[REQUEST_GROUP_BYTES + 8];
    memset(most, 'n', sizeof most);
    most[sizeof most - 1] = '\0';
    memset(more, 'n', sizeof more);
    more[sizeof more - 1] = '\0';
    memset(group, 'g', sizeof group);
    memcpy(group + REQUEST_GROUP_BYTES, "/loss", 6);
    const char *const tags[] = {"", "a/", more, most, group, "1", "2", "3"};
    uint8_t bytes[1024];
    assert_int_equal(read(bytes, make(bytes, sizeof bytes, tags, 8)), ROOM);
    assert_int_equal(dropped, 4);
    assert_string_equal(points[0].name, most);
    assert_string_equal(points[1].group, "training");
    assert_string_equal(points[1].name, group);
}

static void a_record_is_waited_for_until_its_last_byte(void **state)
{
    (void)state;
    static const char *const tags[] = {"loss"};
    uint8_t bytes[256];
    size_t count = make(bytes, sizeof bytes, tags, 1);
    const uint8_t *message;
    size_t message_bytes;
    uint64_t whole;
    for (size_t cut = 0; cut < count; cut++) {
        assert_int_equal(event_take(bytes, cut, &message, &message_bytes, &whole), EVENT_WAITS);
        assert_int_equal(whole, cut < TFEVENTS_HEAD_BYTES ? 0 : count);
    }
    for (size_t i = 0; i < count; i++) {
        bytes[i] ^= 1;
        enum event_take take = event_take(bytes, count, &message, &message_bytes, &whole);
        assert_int_equal(take, EVENT_BROKEN);
        bytes[i] ^= 1;
    }
}

static void a_long_record_is_passed_over(void **state)
{
    (void)state;
    size_t capacity = EVENT_MESSAGE_BYTES_MAX + 4096;
    uint8_t *bytes = malloc(capacity);
    char *tag = malloc(EVENT_MESSAGE_BYTES_MAX);
    assert_true(bytes != NULL && tag != NULL);
    memset(tag, 'x', EVENT_MESSAGE_BYTES_MAX);
    tag[EVENT_MESSAGE_BYTES_MAX - 1] = '\0';
    const char *const tags[] = {tag};
    size_t count = make(bytes, capacity, tags, 1);
    const uint8_t *message;
    size_t message_bytes;
    uint64_t whole;
    assert_int_equal(event_take(bytes, TFEVENTS_HEAD_BYTES, &message, &message_bytes, &whole), EVENT_LONG);
    assert_int_equal(whole, count);
    free(tag);
    free(bytes);
}

/* A summary with one value: a tag, metadata and a tensor, in hexadecimal text. */
static uint32_t of_tensor(const char *plugin, const char *tensor_hex)
{
    uint8_t bytes[256], tensor[64];
    struct protobuf_writer writer;
    assert_int_equal(bytes_from_hex(tensor, strlen(tensor_hex) / 2, tensor_hex), 0);
    protobuf_writer_init(&writer, bytes, sizeof bytes);
    size_t mark = tfevents_begin(&writer, 1, 3), summary = protobuf_begin(&writer, 5),
           value = protobuf_begin(&writer, 1);
    protobuf_put_text(&writer, 1, "loss");
    if (plugin != NULL) {
        size_t metadata = protobuf_begin(&writer, 9), data = protobuf_begin(&writer, 1);
        protobuf_put_text(&writer, 1, plugin);
        protobuf_end(&writer, data);
        protobuf_end(&writer, metadata);
    }
    protobuf_put_bytes(&writer, 8, tensor, strlen(tensor_hex) / 2);
    protobuf_end(&writer, value);
    protobuf_end(&writer, summary);
    tfevents_end(&writer, mark);
    return read(bytes, writer.used_bytes);
}

static void a_tensor_without_dimensions_is_a_scalar(void **state)
{
    (void)state;
    static const struct {
        const char *tensor;
        double value;
    } cases[] = {
        {"08011200"
         "2a040000c03f",
         1.5}, /* float, packed float_val */
        {"0801"
         "2d0000c03f",
         1.5}, /* not packed, no shape */
        {"08011200"
         "22040000c0bf",
         -1.5}, /* tensor_content */
        {"08021200"
         "2208000000000000f83f",
         1.5}, /* double */
        {"0802"
         "3208000000000000f83f",
         1.5}, /* double_val, packed */
        {"0802"
         "31000000000000f83f",
         1.5},
        {"08031200"
         "3a0105",
         5}, /* int_val, packed */
        {"0803"
         "38fbffffffffffffffff01",
         -5},
        {"0809"
         "5205ffffffff0f",
         4294967295.0}, /* int64_val, packed */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (of_tensor("scalars", cases[i].tensor) != 1 || points[0].value != cases[i].value) {
            fail_msg("tensor %zu is %f", i, points[0].value);
        }
    }
    assert_int_equal(of_tensor("scalars", "08012a040000c07f"), 1);
    assert_true(isnan(points[0].value));
}

static void other_tensors_are_no_scalars(void **state)
{
    (void)state;
    static const char *const tensors[] = {
        "0801120412020802"
        "2a080000c03f0000c03f", /* two */
        "0801120412020801"
        "2a040000c03f", /* a list of one */
        "0807"
        "420161",                       /* a text */
        "0801",                         /* nothing */
        "08012a040000c03f2a040000c03f", /* two numbers in all */
        "08033a020506",
        "08033a0180",
        "2a040000c03f",   /* no type */
        "08012a040000c0", /* malformed */
    };
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        if (of_tensor("scalars", tensors[i]) != 0) {
            fail_msg("tensor %zu is taken for a scalar", i);
        }
    }
    assert_int_equal(of_tensor("histograms", "08012a040000c03f"), 0);
    assert_int_equal(of_tensor(NULL, "08012a040000c03f"), 0);
    assert_int_equal(dropped, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tag_is_a_group_and_a_name),
        cmocka_unit_test(names_that_are_none_and_what_has_no_room_are_dropped),
        cmocka_unit_test(a_record_is_waited_for_until_its_last_byte),
        cmocka_unit_test(a_long_record_is_passed_over),
        cmocka_unit_test(a_tensor_without_dimensions_is_a_scalar),
        cmocka_unit_test(other_tensors_are_no_scalars),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
