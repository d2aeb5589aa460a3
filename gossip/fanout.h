#ifndef GOSSIP_FANOUT_H
#define GOSSIP_FANOUT_H
/* Fan-out gossip: how a change of a record reaches all nodes of a mesh too large for telling each peer directly (DESIGN
 * 5). Infect and relay (Demers et al. 1987, "rumor mongering"; the dissemination of SWIM and memberlist): a node that
 * receives a new version of a record passes it on, byte for byte, to FANOUT_PEERS random peers at once and again in
 * each of the next rounds, and then stops. A core: decides on records and times; the caller chooses the peers.
 *
 * Each of n nodes sends a record FANOUT_PEERS x fanout_rounds(n) times, so each node receives the record about as
 * often. A node misses it with probability e^-(FANOUT_PEERS x rounds); the digests (gossip/exchange.h) then repair the
 * gap. With rounds = log2(n) / 2 this is 1 node in 160,000 for 65 nodes and 1 in 3 million for 1,000 (measured by
 * tests/sim/scale). memberlist's 4 x ceil(log10(n + 1)) messages are as many. */

#include "gossip/records.h"

#define FANOUT_PEERS 3u
#define FANOUT_ROUND_MS 100u
#define FANOUT_QUEUE_MAX 512u         /* records; when full, the record sent most often is dropped, and a digest delivers it */
#define FANOUT_BYTES_MAX (32u * 1024) /* limit of one round's message: at most 1 MB/s to the three peers together */
#define FANOUT_ROUNDS_MAX 16u
_Static_assert(FANOUT_BYTES_MAX >= RECORD_ENVELOPE_BYTES_MAX, "every record fits a round");

/* A record that is being spread. */
struct fanout_entry {
    record_ident ident;
    uint32_t turn; /* the last round that contained the record */
    uint8_t told, rounds; /* rounds that contained the record, and the number of rounds to make */
};

/* The queue of one node; no pointers, so a copy is a value. */
struct fanout {
    uint64_t round_ms; /* no round before this time */
    uint32_t turn;
    uint32_t count;
    struct fanout_entry entries[FANOUT_QUEUE_MAX];
};

/* An empty queue. */
void fanout_init(struct fanout *fanout);

/* The number of rounds for a mesh of `node_count` living nodes, ourselves included: 1 to FANOUT_ROUNDS_MAX. */
uint8_t fanout_rounds(uint32_t node_count);

/* Queues a record after a new version came in; the record is sent in `rounds` rounds from now on. */
void fanout_add(struct fanout *fanout, record_ident ident, uint8_t rounds);

/* When the next round is due, in ms of the caller's clock; UINT64_MAX if nothing is queued. */
uint64_t fanout_next_ms(const struct fanout *fanout);

/* Makes one round: writes the newest versions of the records sent least often, envelopes end to end, as far as they fit
 * both `capacity` (at least RECORD_ENVELOPE_BYTES_MAX) and FANOUT_BYTES_MAX, and returns their bytes; 0 before the
 * round is due. The caller sends the bytes to FANOUT_PEERS peers. Records that are forgotten or held back are dropped
 * from the queue. */
uint32_t fanout_round(struct fanout *fanout, uint64_t now_ms, const struct records *records, uint8_t *out,
                      uint32_t capacity);

#endif
