#include "tools/shoal/log_lines.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define FIRST_BYTES 256

struct log_rank {
    struct log_source source;
    char *text;
    size_t used, size;
    bool is_returned; /* the last byte was a carriage return: the next one but a line's end begins the line anew */
    bool is_drawn;    /* the line has had a carriage return */
    bool has_news;    /* a state that has not gone out */
};

static struct log_rank *rank_row(struct log_lines *lines, uint64_t rank)
{
    size_t at = 0;
    while (at < lines->count && lines->ranks[at].source.rank < rank) {
        at++;
    }
    if (at < lines->count && lines->ranks[at].source.rank == rank) {
        return &lines->ranks[at];
    }
    if (lines->count == lines->slots) {
        size_t slots = lines->slots == 0 ? 8 : 2 * lines->slots;
        struct log_rank *bigger = realloc(lines->ranks, slots * sizeof *bigger);
        if (bigger == NULL) {
            return NULL;
        }
        lines->ranks = bigger;
        lines->slots = slots;
    }
    memmove(&lines->ranks[at + 1], &lines->ranks[at], (lines->count - at) * sizeof lines->ranks[0]);
    lines->count++;
    lines->ranks[at] = (struct log_rank){.source = {.rank = rank}};
    return &lines->ranks[at];
}

static void put_out(struct log_lines *lines, const struct log_rank *row, size_t bytes, bool is_state, bool is_cut)
{
    struct log_line line = {.source = &row->source,
                            .text = row->text != NULL ? row->text : "",
                            .bytes = bytes,
                            .is_state = is_state,
                            .is_cut = is_cut};
    lines->out(lines->context, &line);
}

static void line_end(struct log_lines *lines, struct log_rank *row)
{
    put_out(lines, row, row->used, false, false);
    row->used = 0;
    row->is_returned = row->is_drawn = row->has_news = false;
}

/* The line is as long as it may be: all but the begin of a character goes out, and the line goes on. */
static void line_cut(struct log_lines *lines, struct log_rank *row)
{
    size_t whole = bytes_whole_utf8(row->text, row->used);
    put_out(lines, row, whole, false, true);
    memmove(row->text, row->text + whole, row->used - whole);
    row->used -= whole;
    row->has_news = false;
}

static bool append(struct log_lines *lines, struct log_rank *row, const char *bytes, size_t count)
{
    while (count > 0) {
        if (row->used == LOG_LINE_BYTES_MAX) {
            line_cut(lines, row);
        }
        size_t part = LOG_LINE_BYTES_MAX - row->used < count ? LOG_LINE_BYTES_MAX - row->used : count;
        size_t size = row->size == 0 ? FIRST_BYTES : row->size;
        while (size < row->used + part) {
            size *= 2;
        }
        char *bigger = size == row->size ? row->text : realloc(row->text, size);
        if (bigger == NULL) {
            return false;
        }
        row->text = bigger;
        row->size = size;
        memcpy(row->text + row->used, bytes, part);
        row->used += part;
        row->has_news = true;
        bytes += part;
        count -= part;
    }
    return true;
}

/* Whole lines go out at once, as they came. */
static bool take_raw(struct log_lines *lines, struct log_rank *row, const char *bytes, size_t count)
{
    size_t ended = count;
    while (ended > 0 && bytes[ended - 1] != '\n' && bytes[ended - 1] != '\r') {
        ended--;
    }
    if (!append(lines, row, bytes, ended)) {
        return false;
    }
    if (ended > 0) {
        line_end(lines, row);
    }
    return append(lines, row, bytes + ended, count - ended);
}

bool log_lines_take(struct log_lines *lines, const struct log_source *source, const char *bytes, size_t count)
{
    struct log_rank *row = rank_row(lines, source->rank);
    if (row == NULL) {
        return false;
    }
    bool is_anothers = row->source.attempt != source->attempt || strcmp(row->source.host, source->host) != 0;
    if (is_anothers && row->used > 0) {
        line_end(lines, row);
    }
    row->source = *source;
    if (lines->is_raw) {
        return take_raw(lines, row, bytes, count);
    }
    for (size_t at = 0; at < count;) {
        size_t plain = 0;
        while (at + plain < count && bytes[at + plain] != '\n' && bytes[at + plain] != '\r') {
            plain++;
        }
        if (plain > 0) {
            row->used = row->is_returned ? 0 : row->used;
            row->is_returned = false;
            if (!append(lines, row, bytes + at, plain)) {
                return false;
            }
            at += plain;
        } else if (bytes[at++] == '\n') {
            line_end(lines, row);
        } else {
            row->is_returned = row->is_drawn = true;
        }
    }
    if (lines->follows && row->is_drawn && row->has_news) {
        row->has_news = false;
        put_out(lines, row, bytes_whole_utf8(row->text, row->used), true, false);
    }
    return true;
}

void log_lines_end(struct log_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++) {
        if (lines->ranks[i].used > 0) {
            line_end(lines, &lines->ranks[i]);
        }
    }
}

void log_lines_close(struct log_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++) {
        free(lines->ranks[i].text);
    }
    free(lines->ranks);
    lines->ranks = NULL;
    lines->count = lines->slots = 0;
}
