#ifndef NODE_CORE_MEMBERS_TWIN_H
#define NODE_CORE_MEMBERS_TWIN_H
/* The twin: another daemon with this node's key. Here is what is known of it; roof/twin.c decides what follows. */

#include "node/core/ground/state.h"

/* What this node knows of a twin, and how far it is on its way to a key of its own if this node gives way.
 *
 *   from                        to          when
 *   NONE                        ASKED       a member reports this node's key at another address (MESSAGE_TWIN of the member)
 *   ASKED                       ASKED       a member reports the key again, after CORE_TWIN_ASK_MS
 *   ASKED                       NONE        nothing came from that address for CORE_TWIN_ASK_MS
 *   NONE, ASKED, STAYS          STAYS       a twin speaks (MESSAGE_TWIN under this node's id) and is the one to give way
 *   NONE, ASKED, STAYS          KEY_ASKED   a twin speaks, its first boot is the smaller, and it does not give way
 *   STAYS                       NONE        the twin was silent for CORE_TWIN_ASK_MS
 *   KEY_ASKED                   VOUCHED     the shell has the new key, and the voucher for it is written
 *   VOUCHED                     STORED      the twin reports the voucher on its disk (MESSAGE_STORED)
 *   STORED                      BECOMES     no worker is left here, and the disk has all that it refused
 *   KEY_ASKED, VOUCHED, STORED  KEY_ASKED   the new key is another node's, or evicted: the shell makes a fresh one
 *   KEY_ASKED, VOUCHED          STAYS       the twin gives way too though its first boot is larger, or was silent for
 *                                           CORE_TWIN_SILENT_MS
 *
 * BECOMES is the last one: the shell restarts as the other node. */
enum core_twin_state {
    CORE_TWIN_NONE,
    CORE_TWIN_ASKED,     /* this node looks for a twin at the address that a member named; nothing is proven yet */
    CORE_TWIN_STAYS,     /* a twin has spoken, and this node goes on as it is */
    CORE_TWIN_KEY_ASKED, /* this node gives way: it takes part in nothing, and waits for a new key */
    CORE_TWIN_VOUCHED,   /* this node's key has vouched for the new one */
    CORE_TWIN_STORED,    /* the twin has that voucher on its disk, so the mesh will let the new node in */
    CORE_TWIN_BECOMES,   /* the shell has been told to become the new node */
    CORE_TWIN_STATES
};

struct core_twin {
    enum core_twin_state state;
    uint64_t life;         /* from STAYS on: the first boot of the twin's daemon; before: 0 */
    bool has_link;         /* there is a connection to `address` */
    char address[FACT_ADDRESS_BYTES];
    uint64_t heard_ms;     /* from STAYS on: when the twin last spoke */
    uint64_t told_ms;      /* when this node last sent the twin a MESSAGE_TWIN; 0: never */
    uint64_t ask_until_ms; /* ASKED, STAYS: the twin is forgotten then, unless it speaks */
    bool is_key_used;      /* from KEY_ASKED on: a new key turned out to be used or evicted, so the shell is asked for a fresh one */
    uint64_t key_ms;       /* from KEY_ASKED on: when the shell was last asked for a key */
    uint8_t public_key[PUBLIC_KEY_BYTES]; /* from VOUCHED on: the new key */
};

/* True while this node gives way to its twin: it is out of the mesh until it has another key, or until the twin is gone. */
static inline bool core_twin_yields(const struct core_twin *twin)
{
    return twin->state >= CORE_TWIN_KEY_ASKED;
}

void core_twin_shift(struct core_twin *twin, uint64_t gap_ms); /* stall.c */

#endif
