#ifndef NODE_CORE_GROUND_PUBLISH_H
#define NODE_CORE_GROUND_PUBLISH_H
/* The records that this node writes. */

#include "node/core/ground/state.h"

/* Writes one of our own records: into table and fold at once, to the disk, and from the disk to all peers. Returns the pending
 * write, to which the caller may attach an action. NULL: memory is full (traced; the record may be on its way all the same, see
 * core_try_put), or the record is about a deleted experiment and was not written. */
struct core_pending *core_put(struct node_core *core, enum fact_kind kind, struct fact_key key,
                              const struct pack_writer *body);

/* As core_put, for a caller that tries again when there was no memory. `*is_published` false: the table has no memory for the
 * record. True with NULL: no memory was left to wait for the write, or the experiment is deleted. */
struct core_pending *core_try_put(struct node_core *core, enum fact_kind kind, struct fact_key key,
                                  const struct pack_writer *body, bool *is_published);

/* True if a record may take the last of the memory: it ends something or frees memory, and concerns an experiment or attempt
 * known here. Each writer can write only one such record for each, so no writer fills the reserve with inventions. A tombstone,
 * a control record or a stop from our own disk may always: it may be read before the records that it is about. */
bool core_may_take_reserve(const struct node_core *core, const struct record *record, bool from_disk);

/* Folds a record again that found no memory for its row. Tells no room. */
void core_fold_again(struct node_core *core, struct records_entry *entry);

#endif
