#ifndef GOSSIP_LEASE_H
#define GOSSIP_LEASE_H
/* The slots of one node and their leases, seen by their owner: the only one that grants, renews and ends them, so that
 * exclusivity needs no agreement between machines (DESIGN 8; leases: Gray and Cheriton, SOSP 1989). A core.
 *
 *      FREE --reserve--> RESERVED --confirm--> LEASED --release, expiry--> RELEASING --gone--> FREE
 *        ^------ expiry, cancel ----'             '------------------ gone ------------------> FREE
 *      FREE, RESERVED --withhold, busy--> WITHHELD --return, its time, idle--> FREE
 *
 * The owner may withhold a slot that is in use: it goes on as it is, for the caller to end, and then to WITHHELD instead
 * of FREE.
 *
 * Time ends things when lease_tick says so; a call that comes between the end and the tick finds them ended too, but for
 * lease_find_token, which has no clock: tick before it.
 *
 * The table below is volatile; what must survive (LEASED) is told to the caller as a change, who writes a record before
 * anything relies on it. */

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"

#define LEASE_SLOTS_MAX 64
#define LEASE_MS 30000       /* how long a lease lives without being renewed, on the owner's clock */
#define LEASE_RESERVE_MS 5000

enum lease_state { LEASE_FREE, LEASE_RESERVED, LEASE_LEASED, LEASE_RELEASING, LEASE_WITHHELD };

struct lease_slot {
    enum lease_state state;
    attempt_id attempt; /* RESERVED, LEASED, RELEASING: for whom; all zero otherwise */
    uint16_t rank;      /* in the attempt's group; known from confirm on */
    lease_token token;  /* LEASED: the only token that is valid for this slot; zero otherwise */
    uint64_t until_ms;  /* RESERVED, LEASED: when it ends by itself */
    uint32_t priority;  /* RESERVED: of the experiment; lower is more important; zero otherwise */
    uint64_t age;       /* RESERVED: submission order of the experiment; smaller is older; zero otherwise */
};

/* Why a slot shall not be granted, whatever its state is now. */
struct lease_hold {
    bool withheld;     /* its owner's word */
    bool busy;         /* a program outside Shoal uses the device */
    uint64_t for_ms;   /* withheld: for how long; 0: until it is returned */
    uint64_t until_ms; /* withheld for a time: the end of it, on this boot's clock */
};

struct lease {
    uint32_t count;
    bool granting; /* set by the caller; false: full disk, draining, syncing: no new reservation or confirmation */
    struct lease_slot slots[LEASE_SLOTS_MAX];
    struct lease_hold holds[LEASE_SLOTS_MAX];
};

/* What a call changed, in slot order; at most one change a slot and call. Every call that takes `out` overwrites it;
 * after an error it is empty. RESERVED -> RESERVED is a reservation that another attempt took over. */
struct lease_change {
    uint32_t slot;
    enum lease_state from, to;
    struct lease_slot before; /* the slot as it was: whom to kill, whose token ended */
};

struct lease_changes {
    uint32_t count;
    struct lease_change items[LEASE_SLOTS_MAX];
};

/* All slots FREE, not granting yet. slot_count <= LEASE_SLOTS_MAX. */
void lease_init(struct lease *lease, uint32_t slot_count);

/* A coordinator asks for `slot`. 0: RESERVED for LEASE_RESERVE_MS (asking again for the same attempt renews the time).
 * An unconfirmed reservation of a younger or less important experiment is taken over (order: priority, age, then the
 * attempt's experiment id and trial index, then the newer attempt). ERR_AGAIN: busy, releasing, withheld or reserved for an older one;
 * ERR_REFUSED: not granting; ERR_NOT_FOUND: no such slot. */
int lease_reserve(struct lease *lease, uint64_t now_ms, uint32_t slot, const attempt_id *attempt, uint32_t priority,
                  uint64_t age, struct lease_changes *out);

/* RESERVED for this attempt -> LEASED with `token` (drawn by the caller, not none) as `rank`, until now + LEASE_MS.
 * Confirming again what is LEASED to the same attempt and rank is 0 and changes nothing (the coordinator's message was
 * repeated). ERR_STALE: the reservation is gone; ERR_REFUSED: not granting; ERR_EXISTS: the token is valid for another
 * slot; ERR_NOT_FOUND: no such slot. */
int lease_confirm(struct lease *lease, uint64_t now_ms, uint32_t slot, const attempt_id *attempt, uint16_t rank,
                  lease_token token, struct lease_changes *out);

/* Moves the end of every slot LEASED to the attempt to now + LEASE_MS. ERR_NOT_FOUND if none is. What
 * has ended by now is not brought back. */
int lease_renew(struct lease *lease, uint64_t now_ms, const attempt_id *attempt);

/* Ends reservations (-> FREE) of the attempt, and its leases (-> RELEASING) of this rank and of those behind it: who gives
 * up what it wanted to add to a group leaves those alone who have been in it. */
void lease_release(struct lease *lease, const attempt_id *attempt, uint32_t from_rank, struct lease_changes *out);

/* Ends the reservation or the lease of one slot; nothing in other states. */
void lease_end(struct lease *lease, uint32_t slot, struct lease_changes *out);

/* The worker of `slot` is surely gone (its lock file is free, nobody on its GPU): -> FREE, or WITHHELD if it is held, from
 * LEASED or RELEASING; nothing in other states. */
void lease_gone(struct lease *lease, uint32_t slot, struct lease_changes *out);

/* At start: puts back a lease found on disk. `alive`: its worker was found and adopted with this token, the lease starts
 * anew; else -> RELEASING, and the token stays invalid for ever. So does one that is none or valid for another slot
 * already. Returns false, with nothing changed, if the machine has no such slot any more or it is not FREE: the caller
 * then ends the worker. */
bool lease_restore(struct lease *lease, uint64_t now_ms, uint32_t slot, const attempt_id *attempt, uint16_t rank,
                   lease_token token, bool alive);

/* The owner's word: FREE and RESERVED -> WITHHELD at once; what is in use becomes so when its worker is gone. Again: the
 * time begins anew. for_ms 0: until lease_return. ERR_NOT_FOUND: no such slot. */
int lease_withhold(struct lease *lease, uint64_t now_ms, uint32_t slot, uint64_t for_ms, struct lease_changes *out);

/* Takes that back: WITHHELD -> FREE, unless the device is busy. ERR_NOT_FOUND: no such slot. */
int lease_return(struct lease *lease, uint32_t slot, struct lease_changes *out);

/* Whether somebody outside Shoal uses the device: FREE and RESERVED -> WITHHELD, and back when nobody does any more. Of a
 * slot that is LEASED or RELEASING nothing is noted: its own worker uses it. ERR_NOT_FOUND: no such slot. */
int lease_busy(struct lease *lease, uint32_t slot, bool busy, struct lease_changes *out);

/* The slot that this token is valid for, or -1. Constant time in the token. */
int lease_find_token(const struct lease *lease, lease_token token);

/* Ends what is over: RESERVED -> FREE, LEASED -> RELEASING, WITHHELD for a time -> FREE. */
void lease_tick(struct lease *lease, uint64_t now_ms, struct lease_changes *out);
uint64_t lease_next_ms(const struct lease *lease); /* UINT64_MAX if nothing runs */

/* A stall or suspend of gap_ms: all ends move by it. */
void lease_shift(struct lease *lease, uint64_t gap_ms);

#endif
