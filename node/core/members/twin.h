#ifndef NODE_CORE_MEMBERS_TWIN_H
#define NODE_CORE_MEMBERS_TWIN_H
/* Another daemon with this node's key: what is known of it. roof/twin.c decides what follows. */

#include "node/core/ground/state.h"

struct core_twin {
    uint64_t life;             /* the first boot of the other daemon; 0: none has spoken to us */
    bool has_link;             /* there is a connection to `address` */
    char address[FACT_ADDRESS_BYTES];
    uint64_t heard_ms, told_ms;
    uint64_t ask_until_ms;     /* the other daemon is forgotten then unless it speaks */
    bool is_yielding;          /* this node gives way to the twin */
    bool has_key;              /* the new key is vouched for */
    bool is_stored;            /* the twin has the voucher on its disk */
    bool has_become;           /* the shell was told */
    bool is_key_used;          /* the new key that lies on the disk is, or was, another node's */
    uint64_t key_ms;           /* when the new key was asked for */
    uint8_t public_key[PUBLIC_KEY_BYTES]; /* has_key: the new one */
};

void core_twin_shift(struct core_twin *twin, uint64_t gap_ms); /* stall.c */

#endif
