/* Entries of series (metric points, logs) as a peer sends them: u8 length of the prefix, the prefix, then entries. They are
 * stored, read back in order, shown, and packed, which changes nothing for readers. The whole input is read as a block, too. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/json.h"
#include "node/bulk/wire.h"
#include "node/series/hooks.h"
#include "node/series/levels.h"
#include "node/series/log_search.h"
#include "store/chunks_lmdb.h"
#include "store/series_block.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/scratch.h"

#define ENTRIES_MAX 64

struct walk {
    uint64_t next_sequence;
    size_t count;
    bool wrapped;
};

static struct chunks *store(void)
{
    static struct chunks *chunks;
    char error[512];
    if (chunks == NULL) {
        CHECK(chunks_open(scratch_directory(), &chunks, error, sizeof error) == 0);
    }
    return chunks;
}

/* A point of a metric goes to users as JSON if it is MessagePack. */
static int see_entry(void *context, uint64_t sequence, const uint8_t *bytes, size_t count)
{
    static char text[1u << 19];
    struct walk *walk = context;
    CHECK(!walk->wrapped && sequence >= walk->next_sequence);
    walk->next_sequence = sequence + 1;
    walk->wrapped = walk->next_sequence == 0;
    walk->count++;
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    (void)json_from_pack(&reader, text, sizeof text);
    return 0;
}

static size_t read_entries(const uint8_t *bytes, size_t count, const uint8_t *prefix, size_t prefix_bytes,
                           struct series_entry out[ENTRIES_MAX])
{
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    size_t entries = 0;
    const uint8_t *entry;
    while (entries < ENTRIES_MAX && bulk_wire_entry_read(&reader, &out[entries].sequence, &entry, &out[entries].count)) {
        out[entries].bytes = entry;
        out[entries].prefix = prefix;
        out[entries].prefix_bytes = prefix_bytes;
        entries++;
    }
    return entries;
}

/* Sums over what reads as points, and lines of what reads as a log. */
static void ask(const uint8_t *prefix, size_t prefix_bytes, const struct series_entry *entries, size_t count)
{
    static uint8_t question[LEVELS_QUESTION_BYTES], out[BULK_WIRE_BODY_BYTES_MAX];
    struct levels_start start = {.generation = 2, .step = 5};
    struct levels_question sums = {.points = 3, .last_step = 100, .shows_void = true, .starts = &start, .start_count = 1};
    struct log_question lines = {.tail = 2, .is_last = true, .pattern_bytes = 2, .pattern = "l+"};
    for (int round = 0; round < 3; round++) {
        struct pack_writer writer;
        size_t bytes;
        bool more;
        lines.pattern_bytes = round == 1 ? 0 : lines.pattern_bytes;
        CHECK((prefix[0] == 'l' ? log_question_pack(&lines, question, sizeof question, &bytes)
                                : levels_question_pack(&sums, question, sizeof question, &bytes)) == 0);
        pack_writer_init(&writer, out, sizeof out);
        (void)series_hooks_answer(store(), prefix, prefix_bytes, entries[0].sequence % 3, question, bytes, 1000, &writer, &more);
        series_hooks_stored(NULL, store(), entries, count);
    }
}

/* What a node makes of the entries as they come takes none of them away: they are less than any log's bound. */
static void keep(const uint8_t *prefix, size_t prefix_bytes, size_t read)
{
    struct walk kept = {0};
    CHECK(series_read(store(), prefix, prefix_bytes, 0, see_entry, &kept) == 0 && kept.count == read);
}

/* Deletes the entries and the rows of sums that were made of them: the next input begins with nothing. */
static void forget(const uint8_t *prefix, size_t prefix_bytes)
{
    uint8_t rows[SERIES_PREFIX_BYTES_MAX];
    CHECK(series_delete(store(), prefix, prefix_bytes) == 0);
    for (uint8_t level = 1; prefix[0] == 'm' && prefix_bytes < sizeof rows && level <= 8; level++) {
        memcpy(rows, prefix, prefix_bytes);
        rows[0] = 'M';
        rows[prefix_bytes] = level;
        CHECK(series_delete(store(), rows, prefix_bytes + 1) == 0);
    }
}

/* Packs the series, and appends entries that it has, and one between them. */
static void pack(const uint8_t *prefix, size_t prefix_bytes, const struct series_entry *entries, size_t count, size_t read)
{
    struct walk packed = {0}, more = {0};
    CHECK(series_pack(store(), prefix, prefix_bytes, true) == 0);
    CHECK(series_append_batch(store(), entries, count) == 0);
    CHECK(series_read(store(), prefix, prefix_bytes, 0, see_entry, &packed) == 0 && packed.count == read);
    uint64_t between = entries[0].sequence / 2 + entries[count - 1].sequence / 2;
    CHECK(series_append(store(), prefix, prefix_bytes, between, "x", 1) == 0);
    CHECK(series_pack(store(), prefix, prefix_bytes, true) == 0);
    CHECK(series_read(store(), prefix, prefix_bytes, 0, see_entry, &more) == 0 && (more.count == read || more.count == read + 1));
}

static void read_block(const uint8_t *data, size_t size)
{
    struct series_block block;
    struct series_block_entry entry;
    if (series_block_open(data, size, &block) != 0) {
        return;
    }
    uint64_t next = 0;
    size_t sum = 0;
    while (series_block_next(&block, &entry)) {
        CHECK(entry.sequence >= next && entry.count <= block.plain_bytes);
        next = entry.sequence;
        sum += entry.count > 0 ? entry.bytes[entry.count - 1] != 0 : 0;
    }
    CHECK(sum <= block.plain_bytes);
    series_block_close(&block);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    read_block(data, size);
    struct series_entry entries[ENTRIES_MAX];
    size_t prefix_bytes = size > 0 ? data[0] : 0;
    if (size < 1 + prefix_bytes) {
        return;
    }
    const uint8_t *prefix = data + 1;
    size_t count = read_entries(prefix + prefix_bytes, size - 1 - prefix_bytes, prefix, prefix_bytes, entries);
    if (count == 0 || series_append_batch(store(), entries, count) != 0) {
        return;
    }
    struct walk walk = {0};
    uint64_t last = 0, highest = 0;
    CHECK(series_read(store(), prefix, prefix_bytes, 0, see_entry, &walk) == 0);
    CHECK(walk.count >= 1 && walk.count <= count);
    for (size_t i = 0; i < count; i++) {
        highest = entries[i].sequence > highest ? entries[i].sequence : highest;
    }
    CHECK(series_last(store(), prefix, prefix_bytes, &last) == 0 && last == highest);
    ask(prefix, prefix_bytes, entries, count);
    keep(prefix, prefix_bytes, walk.count);
    pack(prefix, prefix_bytes, entries, count, walk.count);
    forget(prefix, prefix_bytes);
    struct walk none = {0};
    CHECK(series_read(store(), prefix, prefix_bytes, 0, see_entry, &none) == 0 && none.count == 0);
}

void fuzz_seeds(void)
{
    static const uint8_t point[] = {0x82, 0xa4, 's', 't', 'e', 'p', 0x07, 0xa1, 'm', 0x81, 0xa1, 'x', 0xcb, 0x3f, 0xe0, 0, 0, 0, 0, 0, 0};
    uint8_t input[256] = {4, 'm', 0, 1, 2};
    struct pack_writer writer;
    pack_writer_init(&writer, input + 5, sizeof input - 5);
    bulk_wire_entry_write(&writer, 3, point, sizeof point);
    bulk_wire_entry_write(&writer, 1, (const uint8_t *)"a line\n", 7);
    bulk_wire_entry_write(&writer, 3, point, sizeof point);
    bulk_wire_entry_write(&writer, UINT64_MAX, point, 0);
    CHECK(!writer.failed);
    fuzz_seed(input, 5 + writer.used_bytes);
    fuzz_seed(input, 5 + 4);
    input[1] = 'l';
    fuzz_seed(input, 5 + writer.used_bytes);
    struct series_block_entry lines[2] = {{.sequence = 7, .bytes = (const uint8_t *)"a line\n", .count = 7}, {.sequence = 300}};
    uint8_t *block;
    size_t block_bytes;
    CHECK(series_block_make(lines, 2, &block, &block_bytes) == 0);
    fuzz_seed(block, block_bytes);
    free(block);
}
