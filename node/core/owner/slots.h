#ifndef NODE_CORE_OWNER_SLOTS_H
#define NODE_CORE_OWNER_SLOTS_H
/* The slots of this node: reservations, leases, and the records about them. */

#include "node/core/owner/owner.h"

/* RESERVE, CONFIRM, RENEW, RELEASE or GROUP of a coordinator. `heard`: the highest claim to the experiment that this node has
 * heard of as one of its coordinators; none: zero. */
void core_owner_receive(struct node_core *core, node_id from, const struct message *message, struct election_claim heard);
void core_owner_lease_on_disk(struct node_core *core, const attempt_id *attempt, uint32_t slot);
void core_owner_tick(struct node_core *core);
void core_owner_housekeep(struct node_core *core);
bool core_owner_idle(const struct node_core *core); /* no slot has a worker */
void core_owner_busy(struct node_core *core, uint32_t slot, bool is_busy); /* NODE_EVENT_SLOT_BUSY */

/* Takes a slot back for its owner, or returns it. NULL when memory is full: it counts, and is published later. */
struct core_pending *core_owner_withhold(struct node_core *core, uint32_t slot, uint64_t for_s);
struct core_pending *core_owner_return(struct node_core *core, uint32_t slot);

/* Publishes the slot's record. Returns the pending disk write, or NULL: memory is full, or the node is still syncing (peers may
 * hold a newer record than our disk; core_owner_restate publishes it later). A slot that its owner has withheld or returned
 * since this boot is published even then. */
struct core_pending *owner_put_slot(struct node_core *core, uint32_t slot);

/* Publishes the worker's record; `tail` may be NULL. Its end is published once. False: there is no memory for the record; the
 * worker is dirty then. */
bool owner_put_worker(struct node_core *core, uint32_t slot, enum fact_worker_state state, enum fact_reason reason,
                      int32_t exit_code, const char *tail);

/* An effect about the worker in this slot, with its name; the rest is for the caller to fill in. */
void owner_worker_effect(struct node_core *core, enum node_effect_kind kind, uint32_t slot, uint32_t grace_ms);

/* Frees a reserved slot. */
void owner_reservation_return(struct node_core *core, uint32_t slot);

#endif
