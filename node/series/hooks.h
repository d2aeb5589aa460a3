#ifndef NODE_SERIES_HOOKS_H
#define NODE_SERIES_HOOKS_H
/* What a node makes of the series that it holds: rows of sums beside metric points (levels.h), smaller logs (log_bounds.h), and the
 * answers to questions about metric points and logs (log_search.h). For struct bulk_series_hooks. */

#include "node/bulk/bulk.h"

/* `context`: a struct log_bounds, or NULL. */
void series_hooks_stored(void *context, struct chunks *chunks, const struct series_entry *entries, size_t count);

/* ERR_VERSION: of a series of another kind; ERR_MALFORMED: the question is none. */
int series_hooks_answer(struct chunks *chunks, const uint8_t *prefix, size_t prefix_bytes, uint64_t from_sequence,
                        const uint8_t *question, size_t question_bytes, size_t bytes_max, struct pack_writer *out, bool *more);

#endif
