#include "node/series/log_search.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "node/bulk/wire.h"

#define SCAN_BYTES (512u << 10) /* of the log, for one answer */
#define LINE_BYTES_MAX (64u << 10) /* a longer line counts as several */
#define TAIL_BYTES_MAX (64u << 20) /* of a log, looked through for its last lines */
#define STOPPED 1

int log_question_pack(const struct log_question *question, uint8_t *out, size_t capacity, size_t *count)
{
    struct pack_writer writer;
    pack_writer_init(&writer, out, capacity);
    pack_array(&writer, 4);
    pack_u64(&writer, question->since_ms);
    pack_u64(&writer, question->tail);
    pack_bool(&writer, question->is_last);
    pack_bin(&writer, question->pattern, question->pattern_bytes);
    *count = writer.used_bytes;
    return writer.failed ? ERR_FULL : 0;
}

int log_question_read(const uint8_t *bytes, size_t count, struct log_question *out)
{
    struct pack_reader reader;
    struct log_question question = {.from = 0};
    pack_reader_init(&reader, bytes, count);
    bool is_question = pack_read_array(&reader) == 4;
    question.since_ms = pack_read_u64(&reader);
    question.tail = pack_read_u64(&reader);
    question.is_last = pack_read_bool(&reader);
    const uint8_t *pattern = pack_read_bin(&reader, &question.pattern_bytes);
    if (!is_question || !pack_at_end(&reader) || question.pattern_bytes > PATTERN_BYTES_MAX || question.tail > LOG_TAIL_MAX) {
        return ERR_MALFORMED;
    }
    memcpy(question.pattern, pattern, question.pattern_bytes);
    *out = question;
    return 0;
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* Gets a line with its end, if it has one; `end`: the byte of the log behind it. A result other than 0 ends the reading. */
typedef int line_fn(void *context, const char *text, size_t bytes, uint64_t end);

/* Cuts pieces of a log into lines. */
struct cutter {
    uint64_t at;    /* the byte of the log behind what was taken */
    char *part;     /* the beginning of a line whose end has not come */
    size_t part_bytes;
    uint64_t taken; /* bytes of the log */
    line_fn *line;
    void *context;
    int code;
};

static int end_part(struct cutter *cutter)
{
    size_t bytes = cutter->part_bytes;
    cutter->part_bytes = 0;
    return bytes > 0 ? cutter->line(cutter->context, cutter->part, bytes, cutter->at) : 0;
}

/* Takes bytes up to the end of a line, or of the piece. */
static int take(struct cutter *cutter, const char *text, size_t bytes, bool is_end)
{
    if (is_end && cutter->part_bytes == 0 && bytes <= LINE_BYTES_MAX) {
        cutter->at += bytes;
        return cutter->line(cutter->context, text, bytes, cutter->at);
    }
    while (bytes > 0) {
        size_t room = LINE_BYTES_MAX - cutter->part_bytes, some = bytes < room ? bytes : room;
        memcpy(cutter->part + cutter->part_bytes, text, some);
        cutter->part_bytes += some;
        cutter->at += some;
        text += some;
        bytes -= some;
        int stopped = bytes > 0 || (is_end && bytes == 0) ? end_part(cutter) : 0;
        if (stopped != 0) {
            return stopped;
        }
    }
    return 0;
}

static int cut_piece(void *context, uint64_t sequence, const uint8_t *bytes, size_t count)
{
    struct cutter *cutter = context;
    uint64_t first = sequence - count;
    const char *text = (const char *)bytes;
    if (count > sequence || sequence <= cutter->at) {
        return 0; /* no daemon numbers pieces so */
    }
    if (first > cutter->at) { /* output between was dropped */
        int stopped = end_part(cutter);
        if (stopped != 0) {
            return stopped;
        }
        cutter->at = first;
    }
    size_t skipped = (size_t)(cutter->at - first), left = count - skipped;
    text += skipped;
    cutter->taken += left;
    while (left > 0) {
        const char *end = memchr(text, '\n', left);
        size_t length = end != NULL ? (size_t)(end - text) + 1 : left;
        int stopped = take(cutter, text, length, end != NULL);
        if (stopped != 0) {
            return stopped;
        }
        text += length;
        left -= length;
    }
    return cutter->taken >= SCAN_BYTES ? STOPPED : 0;
}

/* ---- where to begin ---------------------------------------------------------------------------------------------- */

struct finding_time {
    uint64_t since_ms, before;
    bool is_found, has_any;
};

static int find_time(void *context, uint64_t sequence, const uint8_t *bytes, size_t count)
{
    struct finding_time *finding = context;
    if (count != LOG_TIME_BYTES) {
        return 0;
    }
    finding->has_any = true;
    if (bytes_get_u64(bytes) >= finding->since_ms) {
        finding->is_found = true;
        return STOPPED;
    }
    finding->before = sequence;
    return 0;
}

struct finding_end {
    uint64_t at, line;
};

/* Of the piece that ends at a byte: where the line that is open there began. */
static int find_line(void *context, uint64_t sequence, const uint8_t *bytes, size_t count)
{
    struct finding_end *finding = context;
    if (sequence == finding->at && count <= sequence) {
        size_t open = 0;
        while (open < count && bytes[count - 1 - open] != '\n') {
            open++;
        }
        finding->line = sequence - open;
    }
    return STOPPED;
}

/* The byte at which the first line begins that ended at `since_ms` or later. */
static int begin_since(struct chunks *chunks, const uint8_t *prefix, size_t prefix_bytes, uint64_t since_ms, uint64_t *from)
{
    uint8_t times[SERIES_PREFIX_BYTES_MAX];
    struct finding_time finding = {.since_ms = since_ms};
    memcpy(times, prefix, prefix_bytes);
    times[0] = 'w';
    int code = series_read(chunks, times, prefix_bytes, 0, find_time, &finding);
    if ((code != 0 && code != STOPPED) || finding.before == 0) {
        return code == STOPPED ? 0 : code;
    }
    struct finding_end end = {.at = finding.before, .line = finding.before};
    code = series_read(chunks, prefix, prefix_bytes, finding.before, find_line, &end);
    *from = end.line;
    return code == STOPPED ? 0 : code;
}

/* The last lines that were seen, in a ring: where each begins. */
struct last_lines {
    uint64_t *begins;
    uint64_t most, count, next_begin;
    bool is_first; /* the next line may have begun before the part of the log that is read */
};

static int see_line(void *context, const char *text, size_t bytes, uint64_t end)
{
    struct last_lines *last = context;
    (void)text;
    (void)bytes;
    if (!last->is_first) {
        last->begins[last->count++ % last->most] = last->next_begin;
    }
    last->is_first = false;
    last->next_begin = end;
    return 0;
}

/* Reads the log from the byte `begin` to its end. */
static int look_back(struct chunks *chunks, const uint8_t *prefix, size_t prefix_bytes, uint64_t begin, struct last_lines *last, char *part)
{
    struct cutter cutter = {.at = begin, .part = part, .line = see_line, .context = last};
    last->count = 0;
    last->is_first = begin > 0;
    last->next_begin = begin;
    int code = 0;
    do {
        cutter.taken = 0;
        code = series_read(chunks, prefix, prefix_bytes, cutter.at + 1, cut_piece, &cutter);
    } while (code == STOPPED);
    return code != 0 ? code : end_part(&cutter);
}

/* The byte at which the last `tail` lines begin, if that is behind `*from`. */
static int begin_tail(struct chunks *chunks, const uint8_t *prefix, size_t prefix_bytes, uint64_t tail, char *part, uint64_t *from)
{
    struct last_lines last = {.begins = calloc(tail, sizeof *last.begins), .most = tail};
    int code = last.begins == NULL ? ERR_MEMORY : 0;
    for (uint64_t bytes = 64u << 10; code == 0; bytes *= 4) {
        uint64_t older = 0;
        code = series_older(chunks, prefix, prefix_bytes, bytes, &older);
        bool is_all = code == ERR_NOT_FOUND;
        code = code == 0 || is_all ? look_back(chunks, prefix, prefix_bytes, is_all ? 0 : older, &last, part) : code;
        bool is_enough = last.count >= tail || is_all || bytes >= TAIL_BYTES_MAX;
        if (code == 0 && is_enough) {
            uint64_t begin = last.count == 0 ? *from : last.begins[last.count >= tail ? last.count % tail : 0];
            *from = begin > *from ? begin : *from;
            break;
        }
    }
    free(last.begins);
    return code;
}

static int find_begin(void *context, uint64_t sequence, const uint8_t *bytes, size_t count)
{
    (void)bytes;
    *(uint64_t *)context = count <= sequence ? sequence - count : 0;
    return STOPPED;
}

/* Tells if bytes behind `from` are gone, and goes on behind them. */
static int tell_begin(struct chunks *chunks, const uint8_t *prefix, size_t prefix_bytes, struct pack_writer *out, uint64_t *from)
{
    uint64_t begin = 0;
    int code = series_read(chunks, prefix, prefix_bytes, 0, find_begin, &begin);
    if (code == STOPPED && begin > *from) {
        bulk_wire_entry_write(out, begin, NULL, 0);
        *from = begin;
    }
    return code == STOPPED ? 0 : code;
}

/* ---- the search -------------------------------------------------------------------------------------------------- */

/* Lines that were chosen and not written yet. */
struct choosing {
    const struct pattern *pattern; /* NULL: all lines */
    struct pack_writer *out;
    size_t bytes_max;
    char *lines;
    size_t lines_bytes;
    uint64_t end; /* behind the last line that was looked at */
};

#define LINES_BYTES (2 * LINE_BYTES_MAX)

static void write_lines(struct choosing *choosing)
{
    bulk_wire_entry_write(choosing->out, choosing->end, (const uint8_t *)choosing->lines, choosing->lines_bytes);
    choosing->lines_bytes = 0;
}

static int choose(void *context, const char *text, size_t bytes, uint64_t end)
{
    struct choosing *choosing = context;
    bool has_end = text[bytes - 1] == '\n';
    size_t length = bytes - has_end;
    while (length > 0 && text[length - 1] == '\r') {
        length--;
    }
    const char *last = memrchr(text, '\r', length);
    size_t drawn = last != NULL ? (size_t)(last - text) + 1 : 0;
    bool is_chosen = choosing->pattern == NULL || pattern_matches(choosing->pattern, text + drawn, length - drawn);
    if (is_chosen && choosing->lines_bytes + bytes + 1 > LINES_BYTES) {
        write_lines(choosing);
    }
    if (is_chosen) {
        memcpy(choosing->lines + choosing->lines_bytes, text + drawn, length - drawn);
        choosing->lines_bytes += length - drawn;
        choosing->lines[choosing->lines_bytes++] = '\n';
    }
    choosing->end = end;
    return choosing->out->used_bytes + choosing->lines_bytes > choosing->bytes_max ? STOPPED : 0;
}

static int search(struct chunks *chunks, const uint8_t *prefix, size_t prefix_bytes, const struct log_question *question,
                  uint64_t from, char *part, struct choosing *choosing, bool *more)
{
    struct cutter cutter = {.at = from, .part = part, .line = choose, .context = choosing};
    int code = from == UINT64_MAX ? 0 : series_read(chunks, prefix, prefix_bytes, from + 1, cut_piece, &cutter);
    *more = code == STOPPED;
    if (code == 0 && question->is_last) {
        (void)end_part(&cutter);
    }
    write_lines(choosing);
    return code == STOPPED ? 0 : code;
}

int log_search(struct chunks *chunks, const uint8_t *prefix, size_t prefix_bytes, const struct log_question *question,
               size_t bytes_max, struct pack_writer *out, bool *more)
{
    if (prefix_bytes < 2 || prefix_bytes > SERIES_PREFIX_BYTES_MAX || prefix[0] != 'l') {
        return ERR_USAGE;
    }
    uint64_t from = question->from;
    struct pattern *pattern = malloc(sizeof *pattern);
    char *part = malloc(LINE_BYTES_MAX), *lines = malloc(LINES_BYTES);
    int code = pattern == NULL || part == NULL || lines == NULL ? ERR_MEMORY : 0;
    if (code == 0 && pattern_compile(pattern, question->pattern, question->pattern_bytes) != NULL) {
        code = ERR_USAGE;
    }
    if (code == 0 && from == 0 && question->since_ms > 0) {
        code = begin_since(chunks, prefix, prefix_bytes, question->since_ms, &from);
    }
    if (code == 0 && question->from == 0 && question->tail > 0 && question->pattern_bytes == 0) {
        code = begin_tail(chunks, prefix, prefix_bytes, question->tail, part, &from);
    }
    if (code == 0 && question->from == 0) {
        code = tell_begin(chunks, prefix, prefix_bytes, out, &from);
    }
    if (code == 0) {
        struct choosing choosing = {.pattern = question->pattern_bytes > 0 ? pattern : NULL,
                                    .out = out,
                                    .bytes_max = bytes_max,
                                    .lines = lines,
                                    .end = from};
        code = search(chunks, prefix, prefix_bytes, question, from, part, &choosing, more);
    }
    free(pattern);
    free(part);
    free(lines);
    return code != 0 ? code : out->failed ? ERR_FULL : 0;
}
