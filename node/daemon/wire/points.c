#include "node/daemon/wire/points.h"

#include <string.h>

static bool number_of(const uint8_t *bytes, size_t count, const char *key, uint64_t *out)
{
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    if (pack_peek(&reader) != PACK_MAP) {
        return false;
    }
    struct pack_reader value = pack_find(&reader, key);
    uint64_t number = pack_read_u64(&value);
    if (value.failed) {
        return false;
    }
    *out = number;
    return true;
}

void points_add(struct points_starts *starts, const attempt_id *attempt, uint64_t generation, uint64_t step)
{
    for (uint32_t i = 0; i < starts->count; i++) {
        if (starts->items[i].generation == generation && attempt_id_equal(&starts->items[i].attempt, attempt)) {
            return;
        }
    }
    if (starts->count == POINTS_STARTS_MAX) {
        starts->count = POINTS_STARTS_MAX / 2;
        memmove(starts->items, starts->items + POINTS_STARTS_MAX / 2, starts->count * sizeof starts->items[0]);
    }
    starts->items[starts->count++] = (struct points_start){*attempt, generation, step};
}

void points_note(struct points_starts *starts, const attempt_id *attempt, const uint8_t *bytes, size_t count)
{
    uint64_t generation, start;
    if (number_of(bytes, count, "generation", &generation) && number_of(bytes, count, "start", &start)) {
        points_add(starts, attempt, generation, start);
    }
}

bool points_is_void(const struct points_starts *starts, const attempt_id *attempt, const uint8_t *bytes, size_t count)
{
    uint64_t generation, step;
    if (!number_of(bytes, count, "generation", &generation) || !number_of(bytes, count, "step", &step)) {
        return false;
    }
    for (uint32_t i = 0; i < starts->count; i++) {
        const struct points_start *start = &starts->items[i];
        if (start->generation > generation && step > start->step && attempt_id_equal(&start->attempt, attempt)) {
            return true;
        }
    }
    return false;
}

void points_begin(struct pack_writer *writer, struct points_source source, uint32_t trial, uint32_t attempt,
                  uint64_t generation, uint64_t start, uint64_t step, uint64_t wall_ms, const char *group)
{
    bool tells_start = generation > 1 && start != POINTS_START_UNKNOWN, tells_source = source.session != 0;
    pack_map(writer, 7u + tells_start + tells_source);
    if (tells_start) {
        pack_text(writer, "start");
        pack_u64(writer, start);
    }
    if (tells_source) {
        pack_text(writer, "source");
        pack_array(writer, 2);
        pack_u64(writer, source.session);
        pack_u64(writer, source.request);
    }
    pack_text(writer, "trial");
    pack_u64(writer, trial);
    pack_text(writer, "attempt");
    pack_u64(writer, attempt);
    pack_text(writer, "generation");
    pack_u64(writer, generation);
    pack_text(writer, "step");
    pack_u64(writer, step);
    pack_text(writer, "wall_ms");
    pack_u64(writer, wall_ms);
    pack_text(writer, "group");
    pack_text(writer, group);
    pack_text(writer, "metrics");
}

struct points_source points_source_of(const uint8_t *bytes, size_t count)
{
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    if (pack_peek(&reader) != PACK_MAP) {
        return (struct points_source){0};
    }
    struct pack_reader value = pack_find(&reader, "source");
    struct points_source source = {0};
    bool is_pair = pack_read_array(&value) == 2;
    source.session = pack_read_u64(&value);
    source.request = pack_read_u64(&value);
    return is_pair && !value.failed ? source : (struct points_source){0};
}

bool points_is_after(uint64_t last, const uint8_t *bytes, size_t count)
{
    uint64_t step;
    return number_of(bytes, count, "step", &step) && step > last;
}

bool points_is_before(uint64_t since_ms, const uint8_t *bytes, size_t count)
{
    uint64_t wall_ms;
    return number_of(bytes, count, "wall_ms", &wall_ms) && wall_ms < since_ms;
}

/* Reads on behind a pair with this key. False, and `reader` is as before: another pair comes next. */
static bool skip_pair(struct pack_reader *reader, const char *key)
{
    struct pack_reader behind = *reader;
    size_t length = 0;
    const char *text = pack_read_text(&behind, &length);
    if (behind.failed || !pack_text_is(text, length, key)) {
        return false;
    }
    pack_skip(&behind);
    *reader = behind;
    return true;
}

void points_show(struct pack_writer *writer, const uint8_t *bytes, size_t count, bool is_made_anew)
{
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    pack_skip(&reader);
    bool is_whole = pack_at_end(&reader);
    pack_reader_init(&reader, bytes, count);
    uint32_t pairs = is_whole && pack_peek(&reader) == PACK_MAP ? pack_read_map(&reader) : 0;
    if (pairs == 0) {
        pack_nil(writer); /* a peer sent nonsense */
        return;
    }
    pairs -= skip_pair(&reader, "start");
    pairs -= pairs > 0 && skip_pair(&reader, "source");
    pack_map(writer, pairs + (is_made_anew ? 1 : 0));
    pack_raw(writer, bytes + reader.offset, count - reader.offset);
    if (is_made_anew) {
        pack_text(writer, "void");
        pack_bool(writer, true);
    }
}

void points_show_sums(struct pack_writer *writer, const attempt_id *attempt, const uint8_t *bytes, size_t count, uint64_t *width)
{
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    pack_skip(&reader);
    bool is_whole = pack_at_end(&reader);
    pack_reader_init(&reader, bytes, count);
    if (!is_whole || pack_peek(&reader) != PACK_MAP) {
        pack_nil(writer); /* a peer sent nonsense */
        return;
    }
    (void)number_of(bytes, count, "width", width);
    uint32_t pairs = pack_read_map(&reader);
    pack_map(writer, pairs + 2);
    pack_text(writer, "trial");
    pack_u64(writer, attempt->trial);
    pack_text(writer, "attempt");
    pack_u64(writer, attempt->number);
    pack_raw(writer, bytes + reader.offset, count - reader.offset);
}
