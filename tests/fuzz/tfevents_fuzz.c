/* Event files, from any program: a file, and the message of an event without the checksums that keep most inputs away from
 * it. */
#include <stdbool.h>
#include <string.h>

#include "base/check.h"
#include "node/daemon/wire/event_points.h"
#include "store/tfevents.h"
#include "tests/fuzz/fuzz.h"

static bool is_inside(const uint8_t *part, size_t part_bytes, const uint8_t *data, size_t size)
{
    return part == NULL ? part_bytes == 0 : part >= data && part_bytes <= size && (size_t)(part - data) <= size - part_bytes;
}

static void read_message(const uint8_t *data, size_t size)
{
    struct tfevents_event event;
    struct tfevents_value value;
    if (tfevents_read_event(data, size, &event) != 0) {
        return;
    }
    CHECK(is_inside(event.source, event.source_bytes, data, size));
    CHECK(is_inside(event.start_text, event.start_text_bytes, data, size));
    while (tfevents_next_value(&event.summary, &value)) {
        CHECK(is_inside(value.tag, value.tag_bytes, data, size));
        struct protobuf_reader hparams;
        struct tfevents_hparam hparam;
        bool is_start = tfevents_session_start(&value, &hparams);
        while (is_start && tfevents_next_hparam(&hparams, &hparam)) {
            CHECK(is_inside(hparam.name, hparam.name_bytes, data, size));
            CHECK(is_inside(hparam.text, hparam.text_bytes, data, size));
        }
    }
}

/* As the daemon reads what a program writes. */
static void read_points(const uint8_t *data, size_t size)
{
    static struct event_point points[8];
    const uint8_t *message = NULL;
    size_t message_bytes = 0;
    uint64_t whole = 0;
    uint32_t dropped = 0;
    for (size_t at = 0; at < size && event_take(data + at, size - at, &message, &message_bytes, &whole) == EVENT_TAKEN;
         at += (size_t)whole) {
        CHECK(whole <= size - at && is_inside(message, message_bytes, data, size));
        uint32_t count = event_points(message, message_bytes, points, 8, &dropped);
        CHECK(count <= 8);
    }
    uint32_t count = event_points(data, size, points, 8, &dropped);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(points[i].group[0] != '\0' && points[i].name[0] != '\0');
    }
}

void fuzz_one(const uint8_t *data, size_t size)
{
    read_message(data, size);
    read_points(data, size);
    for (size_t at = 0, count; size - at >= TFEVENTS_HEAD_BYTES && tfevents_read_head(data + at, &count) == 0;) {
        at += TFEVENTS_HEAD_BYTES;
        if (size - at < count + TFEVENTS_FOOT_BYTES || tfevents_check_foot(data + at, count, data + at + count) != 0) {
            break;
        }
        read_message(data + at, count);
        at += count + TFEVENTS_FOOT_BYTES;
    }
}

void fuzz_seeds(void)
{
    uint8_t bytes[1024];
    struct protobuf_writer writer;
    protobuf_writer_init(&writer, bytes, sizeof bytes);
    size_t mark = tfevents_begin(&writer, 1, 0);
    tfevents_put_version(&writer, "shoal 1/2");
    tfevents_end(&writer, mark);
    fuzz_seed(bytes + TFEVENTS_HEAD_BYTES, writer.used_bytes - TFEVENTS_HEAD_BYTES - TFEVENTS_FOOT_BYTES);
    size_t start = writer.used_bytes;
    mark = tfevents_begin(&writer, 1, 5);
    tfevents_put_start(&writer, "attempt 2 generation 1");
    tfevents_end(&writer, mark);
    fuzz_seed(bytes + start + TFEVENTS_HEAD_BYTES, writer.used_bytes - start - TFEVENTS_HEAD_BYTES - TFEVENTS_FOOT_BYTES);
    start = writer.used_bytes;
    mark = tfevents_begin(&writer, 2, 5);
    size_t scalars = tfevents_scalars_begin(&writer);
    tfevents_put_scalar(&writer, "training/loss", 13, 0.5);
    tfevents_put_scalar(&writer, "training/accuracy", 17, 0.75);
    tfevents_scalars_end(&writer, scalars);
    tfevents_end(&writer, mark);
    fuzz_seed(bytes + start + TFEVENTS_HEAD_BYTES, writer.used_bytes - start - TFEVENTS_HEAD_BYTES - TFEVENTS_FOOT_BYTES);
    start = writer.used_bytes;
    mark = tfevents_begin(&writer, 2, 0);
    struct tfevents_hparams marks = tfevents_session_begin(&writer, "mlp/0", 2);
    tfevents_put_hparam_number(&writer, "lr", 0.1);
    tfevents_put_hparam_boolean(&writer, "nesterov", true);
    tfevents_put_hparam_text(&writer, "optimizer.name", "sgd");
    tfevents_hparams_end(&writer, &marks);
    tfevents_end(&writer, mark);
    fuzz_seed(bytes + start + TFEVENTS_HEAD_BYTES, writer.used_bytes - start - TFEVENTS_HEAD_BYTES - TFEVENTS_FOOT_BYTES);
    fuzz_seed(bytes, writer.used_bytes);
}
