#ifndef NODE_CORE_MEMBERS_ADDRESSES_H
#define NODE_CORE_MEMBERS_ADDRESSES_H
/* The addresses of the peers: which are known, which one is in use, and when each is checked (DESIGN 6). A check proves that the
 * peer's key answers at an address. The connection to a peer moves only to an address where the key has answered; until one has,
 * the first known address is in use. */

#include "node/core/members/members.h"

enum core_address_source {
    CORE_ADDRESS_ANNOUNCED, /* by the peer's record */
    CORE_ADDRESS_HEARD,     /* the peer introduced itself so, or has a connection from there to us */
    CORE_ADDRESS_HINT,      /* by a beacon, a token or --peer: anybody may have invented it */
    CORE_ADDRESS_FORMER     /* in use, and in no record any more */
};

/* An address where a peer may be. */
struct core_address {
    struct core_address *next; /* announced ones first, in the order of the record */
    char text[FACT_ADDRESS_BYTES]; /* numeric HOST:PORT; of IPv6 link-local addresses with a zone of this node */
    enum core_address_source source;
    uint32_t prefix;        /* as announced; 0: unknown */
    uint32_t speed;         /* as announced; Mbit/s */
    bool is_pending;        /* a check is under way since checked_ms */
    bool is_reached;        /* by the last check the peer's key answers here */
    uint32_t failures;      /* checks in a row without the key's answer */
    uint32_t faster;        /* checks in a row in which this address was clearly faster than the one in use */
    uint32_t round_trip_us; /* while is_reached */
    uint64_t checked_ms;    /* when the last check began; 0: a check is due now */
    uint64_t answered_ms;   /* when the last check ended; 0: never */
    uint64_t reached_ms;    /* when the key last answered; 0: never in this boot */
};

/* Takes over the addresses in the peer's records. */
void addresses_announced(struct node_core *core, struct core_peer *peer, const struct view_member *member);

/* Takes an address that is in no record of the peer. Ignored if it is known already, or if there are too many. */
void addresses_hear(struct node_core *core, struct core_peer *peer, const char *text, enum core_address_source source);

/* A message of the peer came from this numeric host: an address that no record has, perhaps. */
void addresses_heard_from(struct node_core *core, struct core_peer *peer, const char *host);

/* Takes the result of a check (NODE_EVENT_LINK). */
void addresses_link(struct node_core *core, struct core_peer *peer, const struct node_event *event);

/* Starts the checks of one peer that are due, while `*left` > 0; counts it down. */
void addresses_check(struct node_core *core, struct core_peer *peer, uint32_t *left);

/* All addresses of the peer are to be checked anew: the peer fell silent, is back, or a path has changed. */
void addresses_doubt(struct core_peer *peer);

/* NODE_EVENT_ADDRESSES: our own addresses have changed. The caller publishes them. */
void addresses_own_changed(struct node_core *core, const struct node_addresses *own);

/* True for an address of ours, now or earlier in this boot. */
bool addresses_is_own(const struct node_core *core, const char *text);

/* The address of ours by which we introduce ourselves now: they take turns, so that a peer that knows none of them can try all.
 * "": we have none. */
const char *addresses_introduction(const struct node_core *core);

/* True if the peer's record announces the address. */
bool addresses_is_announced(const struct core_peer *peer, const char *text);

/* True if the last refusal at `address` tells that the peer's daemon is gone. */
bool addresses_refusal_counts(const struct node_core *core, const struct core_peer *peer, const struct core_address *address);

void addresses_drop_all(struct node_core *core, struct core_peer *peer);

void addresses_shift(struct core_peer *peer, uint64_t gap_ms); /* stall.c */

#endif
