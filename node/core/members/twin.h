#ifndef NODE_CORE_MEMBERS_TWIN_H
#define NODE_CORE_MEMBERS_TWIN_H
/* The twin: another daemon with this node's key. Here is the knowledge of the twin; roof/twin.c decides what follows. */

#include "node/core/ground/state.h"

/* What we, the daemon of this node, know of a twin, and how far we are on the way to a new key if we are to give way.
 *
 *   from                        to          when
 *   NONE                        ASKED       a member reports our key at another address (MESSAGE_TWIN of the member)
 *   ASKED                       ASKED       a member reports our key again, after CORE_TWIN_ASK_MS
 *   ASKED                       NONE        nothing came from that address for CORE_TWIN_ASK_MS
 *   NONE, ASKED, STAYS          STAYS       a twin speaks (MESSAGE_TWIN under our own id) and is to give way
 *   NONE, ASKED, STAYS          KEY_ASKED   a twin speaks, has the smaller first boot, and does not give way
 *   STAYS                       NONE        the twin was silent for CORE_TWIN_ASK_MS
 *   KEY_ASKED                   VOUCHED     the shell has the new key, and our voucher for the key is written
 *   VOUCHED                     STORED      the twin reports the voucher on its disk (MESSAGE_STORED)
 *   STORED                      BECOMES     no worker is left here, and our disk owes no refused write
 *   KEY_ASKED, VOUCHED, STORED  KEY_ASKED   the new key is in use or evicted: the shell makes a fresh key
 *   KEY_ASKED, VOUCHED          STAYS       the twin has the larger first boot and gives way too, or was silent for
 *                                           CORE_TWIN_SILENT_MS
 *
 * BECOMES lasts until the shell starts again as the new node. */
enum core_twin_state {
    CORE_TWIN_NONE,
    CORE_TWIN_ASKED,     /* we look for a twin at the address that a member named; nothing is proven yet */
    CORE_TWIN_STAYS,     /* a twin has spoken, and we go on as before */
    CORE_TWIN_KEY_ASKED, /* we give way: we take part in nothing, and wait for a new key */
    CORE_TWIN_VOUCHED,   /* our old key has vouched for the new key */
    CORE_TWIN_STORED,    /* the twin has the voucher on disk, so the mesh will let the new node in */
    CORE_TWIN_BECOMES,   /* the shell has been told to become the new node */
    CORE_TWIN_STATES
};

struct core_twin {
    enum core_twin_state state;
    uint64_t life;         /* from STAYS on: the first boot of the twin's daemon; before: 0 */
    bool has_link;         /* we have a connection to `address` */
    char address[FACT_ADDRESS_BYTES];
    uint64_t heard_ms;     /* from STAYS on: when the twin last spoke */
    uint64_t told_ms;      /* when we last sent a MESSAGE_TWIN to the twin; 0: never */
    uint64_t ask_until_ms; /* ASKED, STAYS: the twin is forgotten then, unless it speaks before */
    bool is_key_used;      /* from KEY_ASKED on: a new key turned out to be in use or evicted, so a fresh key is asked for */
    uint64_t key_ms;       /* from KEY_ASKED on: when the shell was last asked for a key */
    uint8_t public_key[PUBLIC_KEY_BYTES]; /* from VOUCHED on: the new key */
};

/* True while we give way to the twin: we are out of the mesh until we have another key, or until the twin is gone. */
static inline bool core_twin_yields(const struct core_twin *twin)
{
    return twin->state >= CORE_TWIN_KEY_ASKED;
}

void core_twin_shift(struct core_twin *twin, uint64_t gap_ms); /* stall.c */

#endif
