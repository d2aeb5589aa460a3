#ifndef NODE_CORE_GROUND_PUBLISH_H
#define NODE_CORE_GROUND_PUBLISH_H
/* This node's own records. */

#include "node/core/ground/state.h"

/* Writes one of this node's own records: into table and fold at once, to the disk, and to all others once it is there. Returns
 * what waits for its ticket, so that the caller can attach an action. NULL when memory is full (traced), and when the record is
 * about a deleted experiment: then it is not written. */
struct core_pending *core_put(struct node_core *core, enum fact_kind kind, struct fact_key key,
                              const struct pack_writer *body);

/* As core_put, for a caller that publishes again what there was no memory for. `*is_published` false: the table has no memory
 * for the record. True with NULL: there was no memory to wait for its ticket, or its experiment is deleted. */
struct core_pending *core_try_put(struct node_core *core, enum fact_kind kind, struct fact_key key,
                                  const struct pack_writer *body, bool *is_published);

/* Whether a record may take the last of the memory: one that ends something or frees memory, of what is held here, and that each
 * writer can write once, so that nobody fills the reserve with inventions. From the own disk a tombstone may come before what it
 * buries. */
bool core_may_take_reserve(const struct node_core *core, const struct record *record, bool from_disk);

/* Folds a record again for whose row there was no memory, without any other effect. */
void core_fold_again(struct node_core *core, struct records_entry *entry);

#endif
