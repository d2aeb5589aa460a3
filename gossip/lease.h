#ifndef GOSSIP_LEASE_H
#define GOSSIP_LEASE_H
/* The slots of one node and their leases, as their owner sees them. Only the owner grants, renews and ends leases, so
 * that exclusivity needs no agreement between machines (DESIGN 8; leases: Gray and Cheriton, SOSP 1989). A core.
 *
 *      FREE --reserve--> RESERVED --confirm--> LEASED --release, expiry--> RELEASING --gone--> FREE
 *        ^------ expiry, cancel ----'             '------------------ gone ------------------> FREE
 *      FREE, RESERVED --withhold, busy--> WITHHELD --return, its time, idle--> FREE
 *
 * The owner may withhold a slot that is in use: the slot keeps its state until the caller has ended the worker, and
 * then becomes WITHHELD instead of FREE.
 *
 * lease_tick ends reservations, leases and holds whose time is over. A call between the end of the time and the tick
 * treats them as ended already, except lease_find_token, which has no clock: tick before it.
 *
 * The table is volatile. Every change is reported to the caller. LEASED must survive a restart: the caller writes a
 * record before anything relies on the lease. Times are ms of the owner's clock. */

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"

#define LEASE_SLOTS_MAX 64
#define LEASE_MS 30000       /* how long a lease lasts without a renewal, on the owner's clock */
#define LEASE_RESERVE_MS 5000 /* how long a reservation lasts */

enum lease_state { LEASE_FREE, LEASE_RESERVED, LEASE_LEASED, LEASE_RELEASING, LEASE_WITHHELD };

/* One slot; fields not used in the present state are zero. */
struct lease_slot {
    enum lease_state state;
    attempt_id attempt; /* RESERVED, LEASED, RELEASING: the attempt that has the slot */
    uint16_t rank;      /* LEASED, RELEASING: in the attempt's group */
    lease_token token;  /* LEASED: the only token that is valid for this slot */
    uint64_t until_ms;  /* RESERVED, LEASED: when the state ends without a renewal */
};

/* Reasons not to grant a slot, whatever its state is now. */
struct lease_hold {
    bool withheld;     /* the owner has withheld the slot */
    bool busy;         /* a program outside Shoal uses the device */
    uint64_t for_ms;   /* withheld: for how long; 0: until lease_return */
    uint64_t until_ms; /* withheld for a time: when that ends, on this boot's clock */
};

/* The slots of one node; no pointers. */
struct lease {
    uint32_t count;
    bool granting; /* set by the caller; false (full disk, draining, syncing): no new reservations and no confirmations */
    struct lease_slot slots[LEASE_SLOTS_MAX];
    struct lease_hold holds[LEASE_SLOTS_MAX];
};

/* The changes made by one call, in slot order, at most one per slot. Every call with an `out` overwrites `*out`; after
 * an error `*out` is empty. RESERVED -> RESERVED: another attempt took the reservation over. */
struct lease_change {
    uint32_t slot;
    enum lease_state from, to;
    struct lease_slot before; /* the slot before the change: which worker to end, which token has ended */
};

/* Belongs to the caller. */
struct lease_changes {
    uint32_t count;
    struct lease_change items[LEASE_SLOTS_MAX];
};

/* All slots FREE; grants nothing until `granting` is set. slot_count <= LEASE_SLOTS_MAX. */
void lease_init(struct lease *lease, uint32_t slot_count);

/* Reserves `slot` for an attempt, at the request of a coordinator. 0: RESERVED for LEASE_RESERVE_MS; a repeated request
 * for the same attempt starts the time anew. A slot that is reserved for another attempt is taken over if `is_first`: the
 * caller's order, which must be total, has this attempt before that one. ERR_AGAIN: the slot is leased, releasing, withheld, or
 * reserved for an attempt that comes first; ERR_REFUSED: not granting; ERR_NOT_FOUND: no such slot. */
int lease_reserve(struct lease *lease, uint64_t now_ms, uint32_t slot, const attempt_id *attempt, bool is_first,
                  struct lease_changes *out);

/* Leases a slot that is RESERVED for this attempt, as `rank`, until now + LEASE_MS. The caller draws `token`, which
 * must not be none. Repeating the call for the same attempt and rank (the coordinator's message came twice) is 0 and
 * changes nothing: the first token stays valid. ERR_STALE: the reservation is gone, or the slot is leased with another
 * rank; ERR_REFUSED: not granting; ERR_EXISTS: the token is valid for another slot; ERR_NOT_FOUND: no such slot. */
int lease_confirm(struct lease *lease, uint64_t now_ms, uint32_t slot, const attempt_id *attempt, uint16_t rank,
                  lease_token token, struct lease_changes *out);

/* Extends every lease of the attempt to now + LEASE_MS. A lease whose time is over by now is not extended.
 * ERR_NOT_FOUND: the attempt has no lease here. */
int lease_renew(struct lease *lease, uint64_t now_ms, const attempt_id *attempt);

/* Frees the attempt's reservations and moves its leases of ranks >= from_rank to RELEASING. With from_rank > 0 a
 * coordinator gives up a gang that wanted to join a running group, without touching the ranks that are already in the
 * group. */
void lease_release(struct lease *lease, const attempt_id *attempt, uint32_t from_rank, struct lease_changes *out);

/* Ends the reservation (-> FREE) or the lease (-> RELEASING) of one slot; does nothing in other states or to unknown
 * slots. */
void lease_end(struct lease *lease, uint32_t slot, struct lease_changes *out);

/* The worker of `slot` is surely gone (its lock file is free and its GPU is idle): LEASED or RELEASING -> FREE, or ->
 * WITHHELD if the slot is held. Does nothing in other states. */
void lease_gone(struct lease *lease, uint32_t slot, struct lease_changes *out);

/* Puts back a lease that was found on disk, at the start of the node. `alive`: the worker was found and adopted with
 * this token; the slot is LEASED, and its time begins anew. Otherwise, or if the token is none or valid for another
 * slot: the slot is RELEASING, and the token never becomes valid. False, with nothing changed: the machine no longer
 * has such a slot, or it is not FREE; the caller must then end the worker. */
bool lease_restore(struct lease *lease, uint64_t now_ms, uint32_t slot, const attempt_id *attempt, uint16_t rank,
                   lease_token token, bool alive);

/* Withholds a slot for its owner, for `for_ms` (0: until lease_return); repeating it starts the time anew. FREE and
 * RESERVED -> WITHHELD at once; a slot in use becomes WITHHELD when its worker is gone. ERR_NOT_FOUND: no such slot. */
int lease_withhold(struct lease *lease, uint64_t now_ms, uint32_t slot, uint64_t for_ms, struct lease_changes *out);

/* Ends lease_withhold: WITHHELD -> FREE, unless the device is busy. ERR_NOT_FOUND: no such slot. */
int lease_return(struct lease *lease, uint32_t slot, struct lease_changes *out);

/* Tells whether a program outside Shoal uses the device. Busy: FREE and RESERVED -> WITHHELD; no longer busy: back to
 * FREE. Ignored for a slot that is LEASED or RELEASING, whose own worker uses the device. ERR_NOT_FOUND: no such slot. */
int lease_busy(struct lease *lease, uint32_t slot, bool busy, struct lease_changes *out);

/* The slot for which `token` is valid, or -1. The time that it takes does not depend on the bytes of the token. */
int lease_find_token(const struct lease *lease, lease_token token);

/* Ends what is over at now_ms: RESERVED -> FREE, LEASED -> RELEASING, WITHHELD for a time -> FREE. */
void lease_tick(struct lease *lease, uint64_t now_ms, struct lease_changes *out);

/* When lease_tick has something to end. */
uint64_t lease_next_ms(const struct lease *lease); /* UINT64_MAX: nothing has a time limit */

/* Moves all ends by gap_ms after a stall or suspend of this node. */
void lease_shift(struct lease *lease, uint64_t gap_ms);

#endif
