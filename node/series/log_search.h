#ifndef NODE_SERIES_LOG_SEARCH_H
#define NODE_SERIES_LOG_SEARCH_H
/* Lines of a worker's log, chosen by the node that holds the log. A log is a series (prefix 'l'): pieces of output, each numbered
 * by the byte of the log that it ends before. Beside it lie the times (prefix 'w'): entries of 8 bytes, when the daemon beside the
 * worker had read so far, in ms since 1970, big-endian. Earlier versions kept no times. */

#include "base/pack.h"
#include "base/pattern.h"
#include "store/chunks_lmdb.h"

#define LOG_TAIL_MAX 100000
#define LOG_QUESTION_BYTES (PATTERN_BYTES_MAX + 64)
#define LOG_TIME_BYTES 8

/* Which lines are wanted. A line that has no end yet counts if `is_last`, else it waits for its end. */
struct log_question {
    uint64_t from;     /* byte of the log at which a line begins */
    uint64_t since_ms; /* 0, or only lines that ended since; only with `from` 0. Lines without a time come, too */
    uint64_t tail;     /* 0, or only about so many last lines: more may come; only with `from` 0, and not with a pattern */
    bool is_last;
    size_t pattern_bytes; /* 0: all lines */
    char pattern[PATTERN_BYTES_MAX + 1];
};

/* A question as bytes for another node, without `from`. ERR_FULL, ERR_MALFORMED. */
int log_question_pack(const struct log_question *question, uint8_t *out, size_t capacity, size_t *count);
int log_question_read(const uint8_t *bytes, size_t count, struct log_question *out);

/* Answers with entries (bulk_wire_entry_write): lines with their ends, and the byte of the log behind them, where the next
 * question should begin; the last entry may have no bytes. A carriage return in a line counts as its beginning: what a progress
 * bar had drawn before is neither searched nor sent. Where the log's oldest bytes are gone (log_bounds.h), the answer to the first
 * question begins with an entry without bytes, whose number is the first byte that is left; another one follows in any case. `*more`: ask again at once; one answer takes about 512 KiB of the log.
 * ERR_MEMORY, ERR_USAGE (the pattern, the prefix), ERR_IO and others of the store. */
int log_search(struct chunks *chunks, const uint8_t *prefix, size_t prefix_bytes, const struct log_question *question,
               size_t bytes_max, struct pack_writer *out, bool *more);

#endif
