#include "node/series/levels.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "node/bulk/wire.h"
#include "node/series/sums.h"

#define FAN_BITS 4 /* 16 entries of a level make one of the next */
#define LEVEL_MAX 8
#define FRESH 256u /* entries that have no rows for a while */
#define PART_BITS 16 /* a row is several entries of the level's series: their numbers end in the number of the part */
#define BATCH_BYTES (4u << 20)
#define STOPPED 1 /* ends a reading */

static uint64_t span_of(int level)
{
    return 1ull << (FAN_BITS * level);
}

bool levels_has_points(uint8_t letter)
{
    return letter == 'm' || letter == 's';
}

/* The series of a level: the points' prefix with another letter, and the level. False: there is no room for it. */
static bool level_prefix(const uint8_t *prefix, size_t prefix_bytes, int level, uint8_t out[SERIES_PREFIX_BYTES_MAX])
{
    if (prefix_bytes < 2 || prefix_bytes + 1 > SERIES_PREFIX_BYTES_MAX || !levels_has_points(prefix[0])) {
        return false;
    }
    memcpy(out, prefix, prefix_bytes);
    out[0] = prefix[0] == 'm' ? 'M' : 'S';
    out[prefix_bytes] = (uint8_t)level;
    return true;
}

/* A series being read or down-sampled. */
struct walk {
    struct chunks *chunks;
    const uint8_t *prefix;
    size_t prefix_bytes;
    uint64_t end; /* behind the last entry */
    const struct levels_question *question; /* NULL: everything counts */
    struct sums valid, invalid; /* invalid: void points */
    int code;                   /* the first error */
    int level;                  /* the highest level to read */
};

static void walk_free(struct walk *walk)
{
    sums_free(&walk->valid);
    sums_free(&walk->invalid);
}

static void note(struct walk *walk, int code)
{
    walk->code = walk->code != 0 ? walk->code : code;
}

/* ---- what is void ------------------------------------------------------------------------------------------------ */

enum verdict { COUNTS, VOID, LEFT_OUT, UNDECIDED };

/* The verdict on points of these ranges. */
static enum verdict judge(const struct levels_question *question, uint64_t min_generation, uint64_t max_generation,
                          uint64_t min_step, uint64_t max_step)
{
    bool may_be_out = false;
    if (question == NULL) {
        return COUNTS;
    }
    for (uint32_t i = 0; i < question->start_count; i++) {
        const struct levels_start *start = &question->starts[i];
        if (start->generation > max_generation && min_step > start->step) {
            return LEFT_OUT;
        }
        may_be_out |= start->generation > min_generation && max_step > start->step;
    }
    if (may_be_out) {
        return UNDECIDED;
    }
    return max_step <= question->last_step ? COUNTS : min_step > question->last_step ? VOID : UNDECIDED;
}

static struct sums *sums_for(struct walk *walk, enum verdict verdict)
{
    bool wants_void = walk->question != NULL && walk->question->shows_void;
    return verdict == COUNTS ? &walk->valid : verdict == VOID && wants_void ? &walk->invalid : NULL;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

struct reading {
    struct walk *walk;
    uint64_t end; /* of the entries to read */
    enum verdict verdict;
    bool is_found;
};

static int read_point(void *context, uint64_t sequence, const uint8_t *bytes, size_t count)
{
    struct reading *reading = context;
    uint64_t generation, step;
    if (sequence >= reading->end) {
        return STOPPED;
    }
    if (sums_look(bytes, count, &generation, &step)) {
        struct sums *sums = sums_for(reading->walk, judge(reading->walk->question, generation, generation, step, step));
        if (sums != NULL) {
            sums_add_point(sums, bytes, count);
        }
    }
    return 0;
}

static void add_points(struct walk *walk, uint64_t from, uint64_t to)
{
    struct reading reading = {.walk = walk, .end = to};
    int code = series_read(walk->chunks, walk->prefix, walk->prefix_bytes, from, read_point, &reading);
    note(walk, code == STOPPED ? 0 : code);
}

/* The verdict on all parts of a row; parts with different verdicts are undecided. */
static int judge_part(void *context, uint64_t sequence, const uint8_t *bytes, size_t count)
{
    struct reading *reading = context;
    struct sums_group head;
    if (sequence >= reading->end) {
        return STOPPED;
    }
    enum verdict verdict = !sums_look_part(bytes, count, &head)
                               ? UNDECIDED
                               : judge(reading->walk->question, head.min_generation, head.max_generation, head.min_step,
                                       head.max_step);
    reading->verdict = reading->is_found && verdict != reading->verdict ? UNDECIDED : verdict;
    reading->is_found = true;
    return 0;
}

static int read_part(void *context, uint64_t sequence, const uint8_t *bytes, size_t count)
{
    struct reading *reading = context;
    struct sums *sums = sums_for(reading->walk, reading->verdict);
    if (sequence >= reading->end) {
        return STOPPED;
    }
    if (sums != NULL) {
        (void)sums_add_part(sums, bytes, count);
    }
    return 0;
}

/* Adds row `index` of a level. False: it is not there, or holds points with different verdicts. */
static bool add_row(struct walk *walk, int level, uint64_t index)
{
    uint8_t prefix[SERIES_PREFIX_BYTES_MAX];
    uint64_t first = index << PART_BITS;
    struct reading reading = {.walk = walk, .end = (index + 1) << PART_BITS};
    if (!level_prefix(walk->prefix, walk->prefix_bytes, level, prefix)) {
        return false;
    }
    int code = series_read(walk->chunks, prefix, walk->prefix_bytes + 1, first, judge_part, &reading);
    if ((code != 0 && code != STOPPED) || !reading.is_found || reading.verdict == UNDECIDED) {
        return false; /* the level below, or the points, tell as much */
    }
    code = series_read(walk->chunks, prefix, walk->prefix_bytes + 1, first, read_part, &reading);
    note(walk, code == STOPPED ? 0 : code);
    return true;
}

static int see_first(void *context, uint64_t sequence, const uint8_t *bytes, size_t count)
{
    (void)bytes;
    (void)count;
    *(uint64_t *)context = sequence;
    return STOPPED;
}

/* The number of the first entry from `from` on; the series' end if there is none. A peer may number its entries with gaps of any
 * length: they are jumped over, never walked through. */
static uint64_t next_entry(struct walk *walk, uint64_t from)
{
    uint64_t first = walk->end;
    int code = series_read(walk->chunks, walk->prefix, walk->prefix_bytes, from, see_first, &first);
    note(walk, code == STOPPED ? 0 : code);
    return first < walk->end ? first : walk->end;
}

/* Adds the entries from `from` to before `to`, in rows as large as possible. */
static void add_range(struct walk *walk, int level, uint64_t from, uint64_t to)
{
    to = to < walk->end ? to : walk->end;
    while (from < to && walk->code == 0) {
        int use = level;
        while (use > 0 && (from % span_of(use) != 0 || from + span_of(use) > to)) {
            use--;
        }
        uint64_t next = from + span_of(use);
        if (use == 0) {
            next = level == 0 ? to : from - from % span_of(1) + span_of(1);
            next = next < to ? next : to;
            add_points(walk, from, next);
        } else if (!add_row(walk, use, from / span_of(use))) {
            uint64_t first = next_entry(walk, from);
            if (first < next) {
                add_range(walk, use - 1, first - first % span_of(use - 1), next);
            } else {
                next = first - first % span_of(1);
            }
        }
        from = next;
    }
}

/* ---- making rows ------------------------------------------------------------------------------------------------- */

/* Rows that wait to be stored together. */
struct batch {
    struct walk *walk;
    uint8_t prefix[SERIES_PREFIX_BYTES_MAX];
    uint64_t sequence; /* of the next part */
    struct series_entry *entries;
    size_t count, capacity, bytes;
};

static void batch_clear(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        free((void *)(uintptr_t)batch->entries[i].bytes);
    }
    batch->count = batch->bytes = 0;
}

static int batch_store(struct batch *batch)
{
    int code = batch->count > 0 ? series_append_batch(batch->walk->chunks, batch->entries, batch->count) : 0;
    batch_clear(batch);
    return code;
}

static int batch_put(void *context, const uint8_t *bytes, size_t count)
{
    struct batch *batch = context;
    if (batch->count == batch->capacity) {
        size_t bigger = batch->capacity == 0 ? 64 : 2 * batch->capacity;
        struct series_entry *entries = realloc(batch->entries, bigger * sizeof *entries);
        if (entries == NULL) {
            return ERR_MEMORY;
        }
        batch->entries = entries;
        batch->capacity = bigger;
    }
    uint8_t *copy = malloc(count + 1);
    if (copy == NULL) {
        return ERR_MEMORY;
    }
    memcpy(copy, bytes, count);
    batch->entries[batch->count++] = (struct series_entry){.prefix = batch->prefix,
                                                           .prefix_bytes = batch->walk->prefix_bytes + 1,
                                                           .sequence = batch->sequence++,
                                                           .bytes = copy,
                                                           .count = count};
    batch->bytes += count;
    return 0;
}

/* The number of rows of a level. */
static int rows_of(struct walk *walk, int level, uint64_t *rows)
{
    uint8_t prefix[SERIES_PREFIX_BYTES_MAX];
    uint64_t last;
    *rows = 0;
    if (!level_prefix(walk->prefix, walk->prefix_bytes, level, prefix)) {
        return ERR_USAGE;
    }
    int code = series_last(walk->chunks, prefix, walk->prefix_bytes + 1, &last);
    *rows = code == 0 ? (last >> PART_BITS) + 1 : 0;
    return code == ERR_NOT_FOUND ? 0 : code;
}

/* Makes the rows of a level that can be made. A row of entries that are no points has an entry, too: the next row's number
 * follows from it. Where there are no entries there is no row. */
static int make_level(struct walk *walk, int level)
{
    uint64_t row, end = walk->end / span_of(level);
    struct batch batch = {.walk = walk};
    int code = rows_of(walk, level, &row);
    if (code == 0 && !level_prefix(walk->prefix, walk->prefix_bytes, level, batch.prefix)) {
        code = ERR_USAGE;
    }
    for (;; row++) {
        row = code == 0 && row < end ? next_entry(walk, row * span_of(level)) / span_of(level) : end;
        code = code != 0 ? code : walk->code;
        if (code != 0 || row >= end) {
            break;
        }
        sums_clear(&walk->valid);
        batch.sequence = row << PART_BITS;
        add_range(walk, level - 1, row * span_of(level), (row + 1) * span_of(level));
        code = walk->code != 0 ? walk->code : sums_pack(&walk->valid, batch_put, &batch);
        if (code == 0 && batch.sequence == row << PART_BITS) {
            code = batch_put(&batch, (const uint8_t *)"", 0);
        }
        if (code == 0 && batch.bytes >= BATCH_BYTES) {
            code = batch_store(&batch);
        }
    }
    if (code == 0) {
        code = batch_store(&batch);
    }
    batch_clear(&batch);
    free(batch.entries);
    return code;
}

static int make_rows(struct chunks *chunks, const uint8_t *prefix, size_t prefix_bytes, uint64_t end)
{
    struct walk walk = {.chunks = chunks, .prefix = prefix, .prefix_bytes = prefix_bytes, .end = end};
    int code = 0;
    for (int level = 1; level <= LEVEL_MAX && code == 0 && end >= span_of(level); level++) {
        code = make_level(&walk, level);
    }
    walk_free(&walk);
    return code;
}

/* Deletes all rows of a series. */
static int throw_away(struct walk *walk)
{
    int code = 0;
    for (int level = LEVEL_MAX; level >= 1 && code == 0; level--) {
        uint8_t prefix[SERIES_PREFIX_BYTES_MAX];
        code = level_prefix(walk->prefix, walk->prefix_bytes, level, prefix)
                   ? series_delete(walk->chunks, prefix, walk->prefix_bytes + 1)
                   : ERR_USAGE;
    }
    return code;
}

static uint64_t points_in(const struct sums *sums)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < sums->group_count; i++) {
        count += sums->groups[i].count;
    }
    return count;
}

/* Whether the lowest row over an entry has as many points as there are now. */
static bool row_is_whole(struct walk *walk, uint64_t sequence)
{
    uint64_t row = sequence / span_of(1), first = row * span_of(1);
    sums_clear(&walk->valid);
    (void)add_row(walk, 1, row);
    uint64_t had = points_in(&walk->valid);
    sums_clear(&walk->valid);
    add_points(walk, first, first + span_of(1));
    return had == points_in(&walk->valid);
}

/* Looks at entries of one series that were stored. */
static int series_stored(struct chunks *chunks, const struct series_entry *entries, size_t count)
{
    struct walk walk = {.chunks = chunks, .prefix = entries->prefix, .prefix_bytes = entries->prefix_bytes};
    uint64_t rows, last = 0, lowest = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        last = entries[i].sequence > last ? entries[i].sequence : last;
        lowest = entries[i].sequence < lowest ? entries[i].sequence : lowest;
    }
    if (last >= UINT64_MAX >> PART_BITS) {
        return 0; /* no daemon numbers its points so */
    }
    int code = rows_of(&walk, 1, &rows);
    for (size_t i = 0; code == 0 && i < count; i++) {
        if (entries[i].sequence / span_of(1) < rows && !row_is_whole(&walk, entries[i].sequence)) {
            code = throw_away(&walk);
            rows = 0;
        }
    }
    walk_free(&walk);
    bool is_enough = (last + 1) / FRESH != lowest / FRESH; /* they end or pass a multiple of FRESH */
    return code == 0 && is_enough ? make_rows(chunks, entries->prefix, entries->prefix_bytes, last + 1) : code;
}

int levels_stored(struct chunks *chunks, const struct series_entry *entries, size_t count)
{
    int code = 0;
    for (size_t first = 0, end; first < count; first = end) {
        const struct series_entry *one = &entries[first];
        for (end = first + 1; end < count && entries[end].prefix_bytes == one->prefix_bytes &&
                              memcmp(entries[end].prefix, one->prefix, one->prefix_bytes) == 0;
             end++) {
        }
        uint8_t prefix[SERIES_PREFIX_BYTES_MAX];
        if (level_prefix(one->prefix, one->prefix_bytes, 1, prefix)) {
            int result = series_stored(chunks, one, end - first);
            code = code != 0 ? code : result;
        }
    }
    return code;
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

int levels_question_pack(const struct levels_question *question, uint8_t *out, size_t capacity, size_t *count)
{
    struct pack_writer writer;
    pack_writer_init(&writer, out, capacity);
    pack_array(&writer, 5);
    pack_u64(&writer, question->points);
    pack_u64(&writer, question->width);
    pack_u64(&writer, question->last_step);
    pack_bool(&writer, question->shows_void);
    pack_array(&writer, 2 * question->start_count);
    for (uint32_t i = 0; i < question->start_count; i++) {
        pack_u64(&writer, question->starts[i].generation);
        pack_u64(&writer, question->starts[i].step);
    }
    *count = writer.used_bytes;
    return writer.failed ? ERR_FULL : 0;
}

int levels_question_read(const uint8_t *bytes, size_t count, struct levels_start *starts, struct levels_question *out)
{
    struct pack_reader reader;
    struct levels_question question = {.starts = starts};
    pack_reader_init(&reader, bytes, count);
    bool is_question = pack_read_array(&reader) == 5;
    question.points = pack_read_u64(&reader);
    question.width = pack_read_u64(&reader);
    question.last_step = pack_read_u64(&reader);
    question.shows_void = pack_read_bool(&reader);
    uint32_t numbers = pack_read_array(&reader);
    if (!is_question || reader.failed || numbers % 2 != 0 || numbers / 2 > LEVELS_STARTS_MAX || question.points == 0 ||
        question.points > LEVELS_POINTS_MAX || question.width > UINT64_MAX >> PART_BITS) {
        return ERR_MALFORMED;
    }
    question.start_count = numbers / 2;
    for (uint32_t i = 0; i < question.start_count; i++) {
        starts[i].generation = pack_read_u64(&reader);
        starts[i].step = pack_read_u64(&reader);
    }
    if (!pack_at_end(&reader)) {
        return ERR_MALFORMED;
    }
    *out = question;
    return 0;
}

/* A bucket on its way out. */
struct showing {
    struct pack_writer *out;
    uint64_t first;
};

static int show_part(void *context, const uint8_t *bytes, size_t count)
{
    struct showing *showing = context;
    bulk_wire_entry_write(showing->out, showing->first, bytes, count);
    return showing->out->failed ? ERR_FULL : 0;
}

/* Writes the bucket of the entries from `from` to before `to`. */
static int show_bucket(struct walk *walk, uint64_t from, uint64_t to, uint64_t width, struct pack_writer *out)
{
    struct showing showing = {.out = out, .first = from};
    sums_clear(&walk->valid);
    sums_clear(&walk->invalid);
    add_range(walk, walk->level, from, to);
    int code = walk->code;
    if (code == 0) {
        code = sums_show(&walk->valid, width, false, show_part, &showing);
    }
    return code == 0 ? sums_show(&walk->invalid, width, true, show_part, &showing) : code;
}

/* The entries of a bucket, rounded up to whole rows of the highest level that fits into it. */
static uint64_t choose_width(struct walk *walk, const struct levels_question *question)
{
    uint64_t width = question->width != 0 ? question->width : (walk->end + question->points - 1) / question->points;
    width = width == 0 ? 1 : width;
    while (walk->level < LEVEL_MAX && span_of(walk->level + 1) <= width) {
        walk->level++;
    }
    uint64_t span = span_of(walk->level);
    return (width + span - 1) / span * span;
}

/* Makes the rows that an earlier version of the program, or a full disk, has not made. Without them all is read from the points. */
static void make_missing(struct walk *walk)
{
    uint64_t rows;
    if (rows_of(walk, 1, &rows) == 0 && rows * span_of(1) + 2 * FRESH <= walk->end) {
        (void)make_rows(walk->chunks, walk->prefix, walk->prefix_bytes, walk->end);
    }
}

int levels_answer(struct chunks *chunks, const uint8_t *prefix, size_t prefix_bytes, const struct levels_question *question,
                  size_t bytes_max, struct pack_writer *out, bool *more)
{
    struct walk walk = {.chunks = chunks, .prefix = prefix, .prefix_bytes = prefix_bytes, .question = question};
    uint8_t scratch[SERIES_PREFIX_BYTES_MAX];
    uint64_t last;
    if (!level_prefix(prefix, prefix_bytes, 1, scratch)) {
        return ERR_USAGE;
    }
    int code = series_last(chunks, prefix, prefix_bytes, &last);
    *more = false;
    if (code != 0 || last >= UINT64_MAX >> PART_BITS) {
        return code == ERR_NOT_FOUND ? 0 : code;
    }
    walk.end = last + 1;
    make_missing(&walk);
    uint64_t width = choose_width(&walk, question), at = question->from;
    bool is_full = false;
    while (at < walk.end && code == 0 && !is_full) {
        uint64_t next = at - at % width + width, first = next_entry(&walk, at);
        if (first >= next) {
            at = first < walk.end ? first - first % width : walk.end;
            continue;
        }
        struct pack_writer before = *out;
        code = show_bucket(&walk, at, next, width, out);
        is_full = code == ERR_FULL && before.used_bytes > 0;
        if (is_full) { /* the next answer begins with this bucket */
            *out = before;
            code = 0;
        } else {
            at = next;
            is_full = out->used_bytes > bytes_max;
        }
    }
    *more = at < walk.end;
    walk_free(&walk);
    if (code == 0) {
        bulk_wire_entry_write(out, at < walk.end ? at : walk.end, (const uint8_t *)"", 0);
    }
    return code != 0 ? code : out->failed ? ERR_FULL : 0;
}
