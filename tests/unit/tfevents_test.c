/* Event files: checksums, the wire format against bytes that the generated classes of TensorFlow made, and files that are
 * cut short or damaged anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/err.h"
#include "store/crc32c.h"
#include "store/tfevents.h"

static void the_checksum_is_that_of_rfc_3720(void **state)
{
    (void)state;
    uint8_t bytes[32] = {0};
    assert_int_equal(crc32c((const uint8_t *)"123456789", 9), 0xe3069283);
    assert_int_equal(crc32c(bytes, sizeof bytes), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(crc32c(bytes, sizeof bytes), 0x62a8ab43);
    for (uint8_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = i;
    }
    assert_int_equal(crc32c(bytes, sizeof bytes), 0x46dd794e);
    assert_int_equal(crc32c(bytes, 0), 0);
    assert_int_equal(tfevents_masked_crc((const uint8_t *)"123456789", 9), 0xc78ab0e5);
}

/* The message of the record in the writer equals these bytes. */
static void assert_message(const struct protobuf_writer *record, const char *hex)
{
    char text[1024];
    size_t count;
    assert_false(record->failed);
    assert_int_equal(tfevents_read_head(record->bytes, &count), 0);
    assert_int_equal(count + TFEVENTS_HEAD_BYTES + TFEVENTS_FOOT_BYTES, record->used_bytes);
    assert_int_equal(
        tfevents_check_foot(record->bytes + TFEVENTS_HEAD_BYTES, count, record->bytes + TFEVENTS_HEAD_BYTES + count), 0);
    assert_true(2 * count < sizeof text);
    bytes_to_hex(text, record->bytes + TFEVENTS_HEAD_BYTES, count);
    assert_string_equal(text, hex);
}

static void events_are_the_bytes_that_protobuf_makes(void **state)
{
    (void)state;
    uint8_t bytes[1024];
    struct protobuf_writer record;
    protobuf_writer_init(&record, bytes, sizeof bytes);
    size_t mark = tfevents_begin(&record, 1.5, 7), scalars = tfevents_scalars_begin(&record);
    tfevents_put_scalar(&record, "a/b", 3, 0.25);
    tfevents_scalars_end(&record, scalars);
    tfevents_end(&record, mark);
    assert_message(&record, "09000000000000f83f10072a0c0a0a0a03612f62150000803e");

    protobuf_writer_init(&record, bytes, sizeof bytes);
    mark = tfevents_begin(&record, 2, 0);
    tfevents_put_version(&record, "shoal");
    tfevents_end(&record, mark);
    assert_message(&record, "0900000000000000401a0d627261696e2e4576656e743a3252070a0573686f616c");

    protobuf_writer_init(&record, bytes, sizeof bytes);
    mark = tfevents_begin(&record, 2, 300);
    tfevents_put_start(&record, "x");
    tfevents_end(&record, mark);
    assert_message(&record, "09000000000000004010ac023a0508011a0178");

    protobuf_writer_init(&record, bytes, sizeof bytes);
    mark = tfevents_begin(&record, 2, 0);
    tfevents_put_session_end(&record, TFEVENTS_FAILURE, 3);
    tfevents_end(&record, mark);
    assert_message(&record,
                   "0900000000000000402a3a0a380a1a5f68706172616d735f2f73657373696f6e5f656e645f696e666f4a1a0a180a076870617261"
                   "6d73120d220b0802110000000000000840");
}

/* Bytes of a message whose only field has `count` bytes. */
static size_t packed_bytes(uint8_t *bytes, size_t capacity, size_t count)
{
    struct protobuf_writer writer;
    protobuf_writer_init(&writer, bytes, capacity);
    uint8_t *content = calloc(1, count + 1);
    size_t outer = protobuf_begin(&writer, 1), inner = protobuf_begin(&writer, 2);
    protobuf_put_bytes(&writer, 3, content, count);
    protobuf_end(&writer, inner);
    protobuf_end(&writer, outer);
    free(content);
    return writer.failed ? 0 : writer.used_bytes;
}

static void lengths_of_nested_messages_take_as_many_bytes_as_they_need(void **state)
{
    (void)state;
    static uint8_t bytes[20000];
    static const size_t counts[] = {0, 1, 121, 122, 123, 124, 125, 126, 127, 128, 16370, 16374, 16376, 16378, 16380, 16384};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        size_t used = packed_bytes(bytes, sizeof bytes, counts[i]);
        struct protobuf_reader reader;
        struct protobuf_field field;
        protobuf_reader_init(&reader, bytes, used);
        for (uint32_t number = 1; number <= 3; number++) {
            assert_true(protobuf_next(&reader, &field));
            assert_int_equal(field.number, number);
            assert_false(protobuf_next(&reader, &(struct protobuf_field){0}));
            assert_false(reader.failed);
            protobuf_reader_init(&reader, field.bytes, field.count);
        }
        assert_int_equal(field.count, counts[i]);
        for (size_t capacity = used > 300 ? used - 300 : 0; capacity < used; capacity++) {
            assert_int_equal(packed_bytes(bytes, capacity, counts[i]), 0);
        }
        assert_int_equal(packed_bytes(bytes, used, counts[i]), used);
    }
}

/* A file of a version, a start and three points. */
static size_t make_file(uint8_t *bytes, size_t capacity)
{
    struct protobuf_writer writer;
    protobuf_writer_init(&writer, bytes, capacity);
    size_t mark = tfevents_begin(&writer, 1, 0);
    tfevents_put_version(&writer, "shoal 1/2");
    tfevents_end(&writer, mark);
    mark = tfevents_begin(&writer, 1, 5);
    tfevents_put_start(&writer, "attempt 2");
    tfevents_end(&writer, mark);
    for (uint64_t step = 5; step < 8; step++) {
        mark = tfevents_begin(&writer, (double)step, step);
        size_t scalars = tfevents_scalars_begin(&writer);
        tfevents_put_scalar(&writer, "training/loss", 13, 1 / (double)step);
        tfevents_put_scalar(&writer, "training/accuracy", 17, (double)step);
        tfevents_scalars_end(&writer, scalars);
        tfevents_end(&writer, mark);
    }
    return writer.failed ? 0 : writer.used_bytes;
}

/* Counts the events up to the first that is not whole. */
static unsigned count_events(const uint8_t *bytes, size_t count)
{
    unsigned events = 0;
    for (size_t at = 0, length; count - at >= TFEVENTS_HEAD_BYTES && tfevents_read_head(bytes + at, &length) == 0;
         events++) {
        struct tfevents_event event;
        at += TFEVENTS_HEAD_BYTES;
        if (count - at < length + TFEVENTS_FOOT_BYTES || tfevents_check_foot(bytes + at, length, bytes + at + length) != 0 ||
            tfevents_read_event(bytes + at, length, &event) != 0) {
            return events;
        }
        at += length + TFEVENTS_FOOT_BYTES;
    }
    return events;
}

static void a_file_that_is_cut_short_reads_up_to_the_last_whole_record(void **state)
{
    (void)state;
    uint8_t bytes[1024];
    size_t used = make_file(bytes, sizeof bytes);
    unsigned before = 0;
    for (size_t count = 0; count <= used; count++) {
        unsigned events = count_events(bytes, count);
        assert_true(events == before || events == before + 1);
        before = events;
    }
    assert_int_equal(before, 5);
    for (size_t capacity = 0; capacity < used; capacity++) {
        assert_int_equal(make_file(bytes, capacity), 0);
    }
}

static void every_bit_that_flips_is_noticed(void **state)
{
    (void)state;
    uint8_t bytes[1024];
    size_t used = make_file(bytes, sizeof bytes);
    for (size_t bit = 0; bit < 8 * used; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_true(count_events(bytes, used) < 5);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(count_events(bytes, used), 5);
}

static void what_was_written_is_read(void **state)
{
    (void)state;
    uint8_t bytes[1024];
    size_t length, at = 0;
    struct tfevents_event event;
    struct tfevents_value value;
    assert_true(make_file(bytes, sizeof bytes) > 0);
    assert_int_equal(tfevents_read_head(bytes, &length), 0);
    assert_int_equal(tfevents_read_event(bytes + TFEVENTS_HEAD_BYTES, length, &event), 0);
    assert_true(event.has_version && event.source_bytes == 9 && memcmp(event.source, "shoal 1/2", 9) == 0);
    at += TFEVENTS_HEAD_BYTES + length + TFEVENTS_FOOT_BYTES;
    assert_int_equal(tfevents_read_head(bytes + at, &length), 0);
    assert_int_equal(tfevents_read_event(bytes + at + TFEVENTS_HEAD_BYTES, length, &event), 0);
    assert_true(event.is_start && event.step == 5 && event.start_text_bytes == 9 &&
                memcmp(event.start_text, "attempt 2", 9) == 0);
    at += TFEVENTS_HEAD_BYTES + length + TFEVENTS_FOOT_BYTES;
    assert_int_equal(tfevents_read_head(bytes + at, &length), 0);
    assert_int_equal(tfevents_read_event(bytes + at + TFEVENTS_HEAD_BYTES, length, &event), 0);
    assert_true(event.wall_s == 5.0 && event.step == 5);
    assert_true(tfevents_next_value(&event.summary, &value));
    assert_true(value.has_scalar && value.scalar == (double)0.2f && value.tag_bytes == 13 &&
                memcmp(value.tag, "training/loss", 13) == 0);
    assert_true(tfevents_next_value(&event.summary, &value));
    assert_true(value.scalar == 5.0);
    assert_false(tfevents_next_value(&event.summary, &value));
    assert_false(event.summary.failed);
}

static void hyperparameters_that_were_written_are_read(void **state)
{
    (void)state;
    uint8_t bytes[1024];
    struct protobuf_writer writer;
    protobuf_writer_init(&writer, bytes, sizeof bytes);
    size_t mark = tfevents_begin(&writer, 1, 0);
    struct tfevents_hparams session = tfevents_session_begin(&writer, "0", 1);
    tfevents_put_hparam_number(&writer, "lr", 0.25);
    tfevents_put_hparam_boolean(&writer, "deep", true);
    tfevents_put_hparam_text(&writer, "optimizer.name", "sgd");
    tfevents_hparams_end(&writer, &session);
    tfevents_end(&writer, mark);
    size_t length;
    struct tfevents_event event;
    struct tfevents_value value;
    struct tfevents_hparam hparam;
    struct protobuf_reader hparams;
    assert_int_equal(tfevents_read_head(bytes, &length), 0);
    assert_int_equal(tfevents_read_event(bytes + TFEVENTS_HEAD_BYTES, length, &event), 0);
    assert_true(tfevents_next_value(&event.summary, &value) && !value.has_scalar);
    assert_true(tfevents_session_start(&value, &hparams));
    assert_true(tfevents_next_hparam(&hparams, &hparam));
    assert_true(hparam.type == TFEVENTS_NUMBER && hparam.number == 0.25 && hparam.name_bytes == 2);
    assert_true(tfevents_next_hparam(&hparams, &hparam));
    assert_true(hparam.type == TFEVENTS_BOOLEAN && hparam.number == 1 && memcmp(hparam.name, "deep", 4) == 0);
    assert_true(tfevents_next_hparam(&hparams, &hparam));
    assert_true(hparam.type == TFEVENTS_TEXT && hparam.text_bytes == 3 && memcmp(hparam.text, "sgd", 3) == 0);
    assert_false(tfevents_next_hparam(&hparams, &hparam));
}

/* Reads all fields; true if the bytes are a message. */
static bool is_message(const char *hex)
{
    uint8_t bytes[64];
    size_t count = strlen(hex) / 2;
    struct protobuf_reader reader;
    struct protobuf_field field;
    assert_int_equal(bytes_from_hex(bytes, count, hex), 0);
    protobuf_reader_init(&reader, bytes, count);
    while (protobuf_next(&reader, &field)) {
    }
    return !reader.failed;
}

static void bytes_that_are_no_message_are_refused(void **state)
{
    (void)state;
    assert_true(is_message(""));
    assert_true(is_message("0801"));
    assert_true(is_message("088080808080808080807f")); /* ten bytes */
    assert_false(is_message("08808080808080808080807f"));
    assert_false(is_message("08"));
    assert_false(is_message("0880"));
    assert_false(is_message("0001"));                   /* field 0 */
    assert_false(is_message("0900000000000000"));       /* seven bytes of eight */
    assert_false(is_message("0d000000"));               /* three of four */
    assert_false(is_message("0a0261"));                 /* one of two */
    assert_false(is_message("0affffffffffffffffff01")); /* 2^64 - 1 bytes */
    assert_false(is_message("0b0c"));                   /* a group */
    assert_false(is_message("0e"));                     /* no such type */
    assert_false(is_message("80808080808080808001"
                            "00")); /* a field above 2^29 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_checksum_is_that_of_rfc_3720),
        cmocka_unit_test(events_are_the_bytes_that_protobuf_makes),
        cmocka_unit_test(lengths_of_nested_messages_take_as_many_bytes_as_they_need),
        cmocka_unit_test(a_file_that_is_cut_short_reads_up_to_the_last_whole_record),
        cmocka_unit_test(every_bit_that_flips_is_noticed),
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(hyperparameters_that_were_written_are_read),
        cmocka_unit_test(bytes_that_are_no_message_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
