#ifndef NODE_CORE_OWNER_SLOTS_H
#define NODE_CORE_OWNER_SLOTS_H
/* The slots of this node: reservations, leases, and records of both. */

#include "node/core/owner/owner.h"

/* RESERVE, CONFIRM, RENEW, RELEASE or GROUP of a coordinator; the answer is sent once all writes so far are on disk. A claim
 * below the highest claim ever obeyed is answered STALE. `heard`: the highest claim to the experiment in the election in which
 * this node takes part; zero: none. */
void core_owner_receive(struct node_core *core, node_id from, const struct message *message, struct election_claim heard);

/* The record of a leased slot is on disk: the worker of the attempt may be prepared. */
void core_owner_lease_on_disk(struct node_core *core, const attempt_id *attempt, uint32_t slot);

/* Ends reservations, leases and holds whose time is over. */
void core_owner_tick(struct node_core *core);

/* Publishes progress every CORE_STATUS_MS, and every record of a slot or a worker that there was no memory for. */
void core_owner_housekeep(struct node_core *core);

/* True while no slot has a worker. */
bool core_owner_idle(const struct node_core *core);

/* NODE_EVENT_SLOT_BUSY: a program outside Shoal uses the slot's device, or no longer does. */
void core_owner_busy(struct node_core *core, uint32_t slot, bool is_busy);

/* Withholds a slot for its owner, for `for_s` seconds (0: until core_owner_return), or returns the slot. A running worker ends
 * first. NULL when memory is full: the slot is withheld or returned all the same, and the record follows. */
struct core_pending *core_owner_withhold(struct node_core *core, uint32_t slot, uint64_t for_s);
struct core_pending *core_owner_return(struct node_core *core, uint32_t slot);

/* Answers a message of a coordinator, once all writes so far are on disk. */
void owner_answer(struct node_core *core, node_id to, enum message_kind kind, const struct message *asked, int code,
                  struct election_claim claim);

/* A user or a search has stopped the trial. */
bool owner_trial_is_stopped(const struct node_core *core, const attempt_id *attempt);

/* Publishes the slot's record. Returns the pending disk write, or NULL: memory is full, or the node is still syncing (peers may
 * hold a newer record than our disk; core_owner_restate publishes the slot later). A slot that a user has withheld or returned
 * in this boot is published even while the node is syncing. */
struct core_pending *owner_put_slot(struct node_core *core, uint32_t slot);

/* Writes the host of this node in the network that the attempt's group uses. */
void owner_host(const struct node_core *core, const attempt_id *attempt, char *out, size_t size);

/* Publishes the worker's record; `tail`, the end of the log, may be NULL. An end is published once: after that the call does
 * nothing and returns true. False: there is no memory for the record, and the worker is dirty. */
bool owner_put_worker(struct node_core *core, uint32_t slot, enum fact_worker_state state, enum fact_reason reason,
                      int32_t exit_code, const char *tail);

/* Adds an effect with the slot, the attempt, the number and the rank of the slot's worker; the caller fills in the rest. */
void owner_worker_effect(struct node_core *core, enum node_effect_kind kind, uint32_t slot, uint32_t grace_ms);

/* Frees a reserved slot. */
void owner_reservation_return(struct node_core *core, uint32_t slot);

#endif
