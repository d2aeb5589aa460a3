#include "node/series/hooks.h"

#include <stdlib.h>

#include "base/err.h"
#include "node/series/levels.h"
#include "node/series/log_bounds.h"
#include "node/series/log_search.h"

void series_hooks_stored(void *context, struct chunks *chunks, const struct series_entry *entries, size_t count)
{
    (void)levels_stored(chunks, entries, count); /* rows that are not made now are made by the next question */
    (void)log_bounds_stored(context, chunks, entries, count); /* a log that is not packed now is packed by later entries */
}

static int answer_points(struct chunks *chunks, const uint8_t *prefix, size_t prefix_bytes, uint64_t from_sequence,
                         const uint8_t *bytes, size_t count, size_t bytes_max, struct pack_writer *out, bool *more)
{
    struct levels_start *starts = malloc(LEVELS_STARTS_MAX * sizeof *starts);
    struct levels_question question;
    int code = starts == NULL ? ERR_MEMORY : levels_question_read(bytes, count, starts, &question);
    if (code == 0) {
        question.from = from_sequence;
        code = levels_answer(chunks, prefix, prefix_bytes, &question, bytes_max, out, more);
    }
    free(starts);
    return code;
}

int series_hooks_answer(struct chunks *chunks, const uint8_t *prefix, size_t prefix_bytes, uint64_t from_sequence,
                        const uint8_t *question, size_t question_bytes, size_t bytes_max, struct pack_writer *out, bool *more)
{
    struct log_question lines;
    if (levels_has_points(prefix[0])) {
        return answer_points(chunks, prefix, prefix_bytes, from_sequence, question, question_bytes, bytes_max, out, more);
    }
    if (prefix[0] != 'l') {
        return ERR_VERSION;
    }
    int code = log_question_read(question, question_bytes, &lines);
    lines.from = from_sequence;
    return code != 0 ? code : log_search(chunks, prefix, prefix_bytes, &lines, bytes_max, out, more);
}
