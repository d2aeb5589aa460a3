#ifndef NODE_SERIES_LEVELS_H
#define NODE_SERIES_LEVELS_H
/* Down-sampled points. Beside the points of a series (prefix 'm': metrics, 's': profiles; entries numbered from 0) lie sums over 16, 256, 4096,
 * ... entries, in series of their own: level L has one row for each 16^L entries, and all levels together take about a tenth of
 * the points' room. Each node that holds the points makes the rows itself, from the points; they are never sent. So a question
 * for a few hundred values reads a few thousand rows, however long the series is.
 *
 * Rows are made when the entries of 256 points have come, and by a question that finds more entries without rows: nothing must
 * be remembered over a restart. An entry that comes late, for a row that is made already, throws the series' rows away. */

#include "base/pack.h"
#include "store/chunks_lmdb.h"

#define LEVELS_POINTS_MAX 10000 /* that one question may ask for */

/* The start of a later generation of the series' attempt: older points beyond `step` are void and left out. */
struct levels_start {
    uint64_t generation, step;
};

/* What is wanted of a series. */
struct levels_question {
    uint64_t from;     /* first entry */
    uint64_t points;   /* into so many buckets the whole series is cut, at most */
    uint64_t width;    /* entries of a bucket; 0: as `points` says */
    uint64_t last_step; /* points beyond it are void; UINT64_MAX: none are */
    bool shows_void;   /* void points come, too, in buckets of their own; else they are left out */
    const struct levels_start *starts; /* borrowed */
    uint32_t start_count;
};

#define LEVELS_STARTS_MAX 1024
#define LEVELS_QUESTION_BYTES (64u + 18u * LEVELS_STARTS_MAX) /* enough for any question */

/* A question as bytes for another node, without `from`. levels_question_read: `starts` has room for LEVELS_STARTS_MAX. ERR_FULL,
 * ERR_MALFORMED. */
int levels_question_pack(const struct levels_question *question, uint8_t *out, size_t capacity, size_t *count);
int levels_question_read(const uint8_t *bytes, size_t count, struct levels_start *starts, struct levels_question *out);

/* Whether a series with this letter has points. */
bool levels_has_points(uint8_t letter);

/* Answers with entries (bulk_wire_entry_write): the first entry of a bucket, and a map of sums_show. An entry without bytes tells
 * where the next question should begin. The answer ends with the bucket that makes it larger than `bytes_max`; `*more`: there are
 * further entries. ERR_MEMORY, ERR_IO and others of the store; ERR_FULL: `out` has no room for one bucket. */
int levels_answer(struct chunks *chunks, const uint8_t *prefix, size_t prefix_bytes, const struct levels_question *question,
                  size_t bytes_max, struct pack_writer *out, bool *more);

/* Call after entries of any series were stored: makes the rows that can be made. Errors are those of the store; the rows are
 * then made later. */
int levels_stored(struct chunks *chunks, const struct series_entry *entries, size_t count);

#endif
