#ifndef GOSSIP_FANOUT_H
#define GOSSIP_FANOUT_H
/* Fan-out gossip: how a change of a record reaches everybody in a mesh that is too large to tell each peer directly
 * (DESIGN 5). Infect and relay (Demers et al. 1987, "rumor mongering"; the dissemination of SWIM and memberlist): whoever
 * hears of a record that is new to it passes it on, byte for byte, to FANOUT_PEERS random peers at once and again in each
 * of the next rounds, and then no more. A core: this part only says what to send and when, its owner chooses the peers.
 *
 * Each of n nodes sends a record FANOUT_PEERS x fanout_rounds(n) times, so each hears it about that often, and the chance
 * that a node never does is e^-(FANOUT_PEERS x rounds), which a digest then mends. With rounds = log2(n) / 2 that is one
 * node in 160,000 for 65 nodes and in 3 million for 1,000 (tests/sim/scale shows it). memberlist's 4 x ceil(log10(n + 1))
 * messages are as many. */

#include "gossip/records.h"

#define FANOUT_PEERS 3u
#define FANOUT_ROUND_MS 100u
#define FANOUT_QUEUE_MAX 512u         /* records; full: the most often told one is dropped, and a digest brings it */
#define FANOUT_BYTES_MAX (32u * 1024) /* of one round's message: 1 MB/s at most to the three together */
#define FANOUT_ROUNDS_MAX 16u
_Static_assert(FANOUT_BYTES_MAX >= RECORD_ENVELOPE_BYTES_MAX, "every record fits a round");

struct fanout_entry {
    record_ident ident;
    uint32_t turn; /* the last round that it was in */
    uint8_t told, rounds;
};

struct fanout {
    uint64_t round_ms; /* not before */
    uint32_t turn;
    uint32_t count;
    struct fanout_entry entries[FANOUT_QUEUE_MAX];
};

void fanout_init(struct fanout *fanout);

/* For a mesh of this many living nodes, ourselves included; 1 to FANOUT_ROUNDS_MAX. */
uint8_t fanout_rounds(uint32_t node_count);

/* There is news of this record: a version that was not known here. It will be told in `rounds` rounds from now on. */
void fanout_add(struct fanout *fanout, record_ident ident, uint8_t rounds);

/* When the next round is due; UINT64_MAX if nothing is to be told. */
uint64_t fanout_next_ms(const struct fanout *fanout);

/* One round: writes the newest versions of the least told records, envelopes end to end, as far as they fit both
 * `capacity` (at least RECORD_ENVELOPE_BYTES_MAX) and FANOUT_BYTES_MAX, and returns their bytes; 0 before it is due. The
 * caller sends them to FANOUT_PEERS peers. Records that are not published are skipped. */
uint32_t fanout_round(struct fanout *fanout, uint64_t now_ms, const struct records *records, uint8_t *out,
                      uint32_t capacity);

#endif
