#include "node/trace/box.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "node/bulk/wire.h"

#define ROW_BYTES 64u /* of a packed row, but for its spans */

void trace_box_init(struct trace_box *box)
{
    memset(box->traces, 0, sizeof box->traces);
    (void)pthread_mutex_init(&box->mutex, NULL);
}

static void forget(struct trace_box *box, uint32_t place)
{
    for (uint32_t slot = 0; slot < SLOTS_MAX; slot++) {
        free(box->traces[place].rows[slot].spans);
    }
    memset(&box->traces[place], 0, sizeof box->traces[place]);
}

void trace_box_close(struct trace_box *box)
{
    for (uint32_t place = 0; place < TRACES_MAX; place++) {
        forget(box, place);
    }
    (void)pthread_mutex_destroy(&box->mutex);
}

/* The place of a trace; TRACES_MAX: it is not here. */
static uint32_t find(const struct trace_box *box, uint64_t trace)
{
    uint32_t place = 0;
    while (place < TRACES_MAX && box->traces[place].wish.trace != trace) {
        place++;
    }
    return place;
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

size_t trace_question_pack(enum trace_question kind, const struct trace_wish *wish, uint8_t out[TRACE_QUESTION_BYTES])
{
    struct pack_writer writer;
    pack_writer_init(&writer, out, TRACE_QUESTION_BYTES);
    pack_array(&writer, kind == TRACE_CLOCK ? 1 : kind == TRACE_TAKE ? 2 : 7);
    pack_u64(&writer, (uint64_t)kind);
    if (kind != TRACE_CLOCK) {
        pack_u64(&writer, wish->trace);
    }
    if (kind == TRACE_BEGIN) {
        pack_bin(&writer, wish->experiment.bytes, EXPERIMENT_ID_BYTES);
        pack_u64(&writer, wish->trial);
        pack_u64(&writer, wish->steps);
        pack_u64(&writer, wish->from_ns);
        pack_u64(&writer, wish->seconds);
    }
    return writer.used_bytes;
}

static int read_question(const uint8_t *bytes, size_t count, enum trace_question *kind, struct trace_wish *wish)
{
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    *wish = (struct trace_wish){0};
    uint32_t elements = pack_read_array(&reader);
    *kind = (enum trace_question)pack_read_u64_max(&reader, TRACE_TAKE);
    uint32_t wanted = *kind == TRACE_CLOCK ? 1 : *kind == TRACE_TAKE ? 2 : 7;
    if (*kind != TRACE_CLOCK) {
        wish->trace = pack_read_u64(&reader);
    }
    if (*kind == TRACE_BEGIN) {
        pack_read_bin_exact(&reader, wish->experiment.bytes, EXPERIMENT_ID_BYTES);
        wish->trial = (uint32_t)pack_read_u64_max(&reader, UINT32_MAX);
        wish->steps = pack_read_u64_max(&reader, TRACE_STEPS_MAX);
        wish->from_ns = pack_read_u64(&reader);
        wish->seconds = pack_read_u64_max(&reader, TRACE_SECONDS_MAX);
    }
    for (uint32_t i = wanted; i < elements && !reader.failed; i++) {
        pack_skip(&reader);
    }
    bool is_whole = elements >= wanted && pack_at_end(&reader);
    return is_whole && (*kind == TRACE_CLOCK || wish->trace != 0) ? 0 : ERR_MALFORMED;
}

static void write_clock(struct pack_writer *out, uint64_t now_ns)
{
    uint8_t bytes[16];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_u64(&writer, now_ns);
    bulk_wire_entry_write(out, 0, bytes, writer.used_bytes);
}

static int write_row(struct pack_writer *out, uint32_t slot, const struct trace_row *row)
{
    uint8_t *bytes = malloc(row->span_bytes + ROW_BYTES);
    struct pack_writer writer;
    if (bytes == NULL) {
        return ERR_MEMORY;
    }
    pack_writer_init(&writer, bytes, row->span_bytes + ROW_BYTES);
    pack_array(&writer, 5);
    pack_u64(&writer, row->number);
    pack_u64(&writer, row->rank);
    pack_u64(&writer, (uint64_t)row->state);
    pack_u64(&writer, row->lost);
    if (row->state == TRACE_DONE) {
        pack_raw(&writer, row->spans, row->span_bytes);
    } else {
        pack_nil(&writer);
    }
    bulk_wire_entry_write(out, slot, bytes, writer.used_bytes);
    free(bytes);
    return writer.failed || out->failed ? ERR_FULL : 0;
}

/* One row at a time where rows are large: the answer ends with the first that has spans. */
static int write_rows(const struct trace_box *box, uint32_t place, uint64_t from_sequence, size_t bytes_max,
                      struct pack_writer *out, bool *more)
{
    size_t before = out->used_bytes;
    for (uint64_t slot = from_sequence; slot < SLOTS_MAX; slot++) {
        const struct trace_row *row = &box->traces[place].rows[slot];
        if (!row->is_there) {
            continue;
        }
        if (out->used_bytes > before && out->used_bytes - before + row->span_bytes + ROW_BYTES > bytes_max) {
            *more = true;
            return 0;
        }
        int code = write_row(out, (uint32_t)slot, row);
        if (code != 0) {
            return code;
        }
    }
    return 0;
}

int trace_box_answer(struct trace_box *box, uint64_t from_sequence, const uint8_t *question, size_t question_bytes,
                     size_t bytes_max, uint64_t now_ns, struct pack_writer *out, bool *more)
{
    enum trace_question kind;
    struct trace_wish wish;
    int code = read_question(question, question_bytes, &kind, &wish);
    *more = false;
    if (code != 0) {
        return code;
    }
    (void)pthread_mutex_lock(&box->mutex);
    uint32_t place = kind == TRACE_CLOCK ? TRACES_MAX : find(box, wish.trace);
    if (kind == TRACE_BEGIN && place == TRACES_MAX) {
        place = find(box, 0);
        code = place < TRACES_MAX ? 0 : ERR_FULL;
        if (code == 0) {
            box->traces[place].wish = wish;
            box->traces[place].until_ms = 0;
        }
    }
    if (kind == TRACE_TAKE && place < TRACES_MAX) {
        code = write_rows(box, place, from_sequence, bytes_max, out, more);
    } else if (code == 0 && kind != TRACE_TAKE) {
        write_clock(out, now_ns);
    }
    (void)pthread_mutex_unlock(&box->mutex);
    return code;
}

/* ---- the workers of this node ------------------------------------------------------------------------------------ */

bool trace_box_get(struct trace_box *box, uint32_t place, uint64_t now_ms, struct trace_wish *wish,
                   struct trace_row rows[SLOTS_MAX])
{
    (void)pthread_mutex_lock(&box->mutex);
    bool is_there = box->traces[place].wish.trace != 0;
    if (is_there && box->traces[place].until_ms == 0) {
        box->traces[place].until_ms = now_ms + box->traces[place].wish.seconds * 1000;
    }
    if (is_there && now_ms >= box->traces[place].until_ms) {
        forget(box, place);
        is_there = false;
    }
    if (is_there) {
        *wish = box->traces[place].wish;
        memcpy(rows, box->traces[place].rows, sizeof box->traces[place].rows);
    }
    (void)pthread_mutex_unlock(&box->mutex);
    return is_there;
}

void trace_box_set(struct trace_box *box, uint64_t trace, uint32_t slot, uint32_t number, uint32_t rank,
                   enum trace_state state)
{
    (void)pthread_mutex_lock(&box->mutex);
    uint32_t place = find(box, trace);
    if (place < TRACES_MAX && box->traces[place].rows[slot].state != TRACE_DONE) {
        struct trace_row *row = &box->traces[place].rows[slot];
        *row = (struct trace_row){.is_there = true, .number = number, .rank = rank, .state = state};
    }
    (void)pthread_mutex_unlock(&box->mutex);
}

void trace_box_put(struct trace_box *box, uint64_t trace, uint32_t slot, uint32_t rank, uint64_t lost, const uint8_t *spans,
                   size_t count)
{
    uint8_t *copy = malloc(count > 0 ? count : 1);
    (void)pthread_mutex_lock(&box->mutex);
    uint32_t place = trace != 0 ? find(box, trace) : TRACES_MAX;
    struct trace_row *row = place < TRACES_MAX ? &box->traces[place].rows[slot] : NULL;
    if (copy != NULL && row != NULL && row->state == TRACE_TOLD) {
        memcpy(copy, spans, count);
        row->state = TRACE_DONE;
        row->rank = rank;
        row->lost = lost;
        row->spans = copy;
        row->span_bytes = count;
        copy = NULL;
    }
    (void)pthread_mutex_unlock(&box->mutex);
    free(copy);
}
