#ifndef GOSSIP_EXCHANGE_H
#define GOSSIP_EXCHANGE_H
/* Exchange of records between two nodes until both hold the same: anti-entropy over incremental set hashes (DESIGN 5).
 * A core of pure functions over struct records: what to answer to a peer. The pieces travel as bytes:
 *
 *   BUCKETS  256 x 16 bytes: the bucket hashes of the sender
 *   KEYS     u8 bucket bitmap[32], then n x (ident[16], u64 boot, u64 seq), idents ascending: all that the sender has
 *            published in the marked buckets; behind those of one unmarked bucket, of which it is a part, more differs
 *   PULL     n x ident[16]: send me these
 *   RECORDS  envelopes laid end to end
 *
 * A node whose set hash differs from a peer's (each ping and its answer carry it) sends BUCKETS; the peer answers with
 * KEYS for the buckets that differ; the node answers with RECORDS that the peer lacks or has older, and a PULL. What does
 * not fit the capacity comes at the next round, which the still differing hash brings about.
 *
 * A peer may be unable to take what it is sent, as long as it does not know the writer, say, and what makes the writer known
 * may come behind. So the RECORDS of a round begin where those of the last have ended: `start`, kept by the caller for each
 * peer, 0 at first, is the ident of the first that did not fit. */

#include "gossip/records.h"

#define EXCHANGE_BUCKETS_BYTES (RECORDS_BUCKETS * 16)
#define EXCHANGE_KEY_BYTES 32
#define EXCHANGE_MESSAGE_BYTES_MAX (60u * 1024) /* of any one message's bytes */
#define EXCHANGE_PULL_BYTES_MAX (EXCHANGE_MESSAGE_BYTES_MAX / 2) /* asks for every key of a message */

/* Every message is within EXCHANGE_MESSAGE_BYTES_MAX: a larger capacity counts as that, a longer message is
 * ERR_MALFORMED. Records that alone are larger than the capacity for them (RECORD_ENVELOPE_BYTES_MAX is always enough)
 * never travel. */

/* Writes the BUCKETS payload. */
void exchange_buckets(const struct records *records, uint8_t out[EXCHANGE_BUCKETS_BYTES]);

/* A peer's BUCKETS came in: writes the KEYS payload; `*out_bytes` 0 if nothing differs. As many whole buckets as fit,
 * chosen among the differing ones from the `rotate`-th onwards (a counter that rises by one a round gives all their
 * turn); of one that did not fit, some keys without its bitmap bit; a bucket that alone is larger than the capacity sends a
 * slice chosen by `rotate`, without the bit, too. From a slice the peer learns what it lacks, not what we lack: that comes
 * in the round that we start. ERR_MALFORMED. */
int exchange_on_buckets(const struct records *records, const uint8_t *bytes, size_t count, uint32_t rotate,
                        uint8_t *out, size_t capacity, size_t *out_bytes);

/* Of KEYS that are well-formed: whether they tell of all that differs. (Of a peer whose program is older they may say so
 * though they do not.) */
bool exchange_keys_are_all(const uint8_t *bytes, size_t count);

/* A peer's KEYS came in: writes the PULL payload (idents that the peer has newer, or that are missing here; all of them if
 * it has room for EXCHANGE_PULL_BYTES_MAX) and the RECORDS payload (what the peer lacks, within the marked buckets, or has
 * older). ERR_MALFORMED, also for keys that are not strictly ascending. */
int exchange_on_keys(const struct records *records, const uint8_t *bytes, size_t count, record_ident *start, uint8_t *pull,
                     size_t pull_capacity, size_t *pull_bytes, uint8_t *out, size_t capacity, size_t *out_bytes);

/* A peer's PULL came in: writes the RECORDS payload. Unknown idents and unpublished entries are skipped. */
int exchange_on_pull(const struct records *records, const uint8_t *bytes, size_t count, record_ident *start, uint8_t *out,
                     size_t capacity, size_t *out_bytes);

#endif
