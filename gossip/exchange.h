#ifndef GOSSIP_EXCHANGE_H
#define GOSSIP_EXCHANGE_H
/* Exchange of records between two nodes until both hold the same: anti-entropy over incremental set hashes
 * (docs/design.md, DESIGN 5). A core of pure functions over struct records: given a peer's message, the answer. The
 * payloads are bytes:
 *
 *   BUCKETS  256 x 16 bytes: the bucket hashes of the sender
 *   KEYS     u8 bucket bitmap[32], then n x (ident[16], u64 boot, u64 seq), idents ascending: everything that the sender
 *            has published in the marked buckets; then, perhaps, a part of an unmarked bucket with more differences
 *   PULL     n x ident[16]: asks for the records
 *   RECORDS  envelopes laid end to end
 *
 * A node whose set hash differs from a peer's (carried by each ping and each answer) sends BUCKETS. The peer answers
 * with KEYS for the buckets that differ. The node answers with RECORDS, missing or older at the peer, and with a PULL.
 * Whatever does not fit the capacity is sent in the next round, since the hashes still differ.
 *
 * A peer may be unable to take a record, for example from an unknown writer, and the record that makes the writer known
 * may come later in the order. Therefore the RECORDS of a round begin where the last round ended: `start`, kept by the
 * caller for each peer (all zero at first), is the ident of the first record that did not fit. */

#include "gossip/records.h"

#define EXCHANGE_BUCKETS_BYTES (RECORDS_BUCKETS * 16)
#define EXCHANGE_KEY_BYTES 32
#define EXCHANGE_MESSAGE_BYTES_MAX (60u * 1024) /* limit of the payload of one message */
#define EXCHANGE_PULL_BYTES_MAX (EXCHANGE_MESSAGE_BYTES_MAX / 2) /* enough to ask for every key of a message */

/* Every payload is within EXCHANGE_MESSAGE_BYTES_MAX: a larger capacity counts as that, a longer payload is
 * ERR_MALFORMED. A record that alone is larger than the capacity for records is never sent; RECORD_ENVELOPE_BYTES_MAX
 * is enough for any record. All buffers belong to the caller and are used during the call only; after an error they are
 * unchanged. */

/* Writes the BUCKETS payload. */
void exchange_buckets(const struct records *records, uint8_t out[EXCHANGE_BUCKETS_BYTES]);

/* Answers a peer's BUCKETS: writes the KEYS payload, and sets `*out_bytes` to 0 if nothing differs. The payload holds
 * as many whole buckets as fit, beginning at the `rotate`-th differing bucket (`rotate` grows by 1 each round, so every
 * bucket has a turn), then keys of a bucket that did not fit, without the bitmap bit. A bucket larger than the capacity
 * is sent in slices chosen by `rotate`, also without the bit. From a slice the peer learns which records are missing
 * there, not which are missing here; the round that we start ourselves tells us. ERR_MALFORMED. */
int exchange_on_buckets(const struct records *records, const uint8_t *bytes, size_t count, uint32_t rotate,
                        uint8_t *out, size_t capacity, size_t *out_bytes);

/* True if well-formed KEYS cover all that differs. (KEYS of an older program may look complete although more
 * differs.) */
bool exchange_keys_are_all(const uint8_t *bytes, size_t count);

/* Answers a peer's KEYS: writes the PULL payload (idents missing here, or newer at the peer; all of them, given room
 * for EXCHANGE_PULL_BYTES_MAX) and the RECORDS payload (records older at the peer, or missing there within the marked
 * buckets). ERR_MALFORMED, also for keys that are not strictly ascending. */
int exchange_on_keys(const struct records *records, const uint8_t *bytes, size_t count, record_ident *start, uint8_t *pull,
                     size_t pull_capacity, size_t *pull_bytes, uint8_t *out, size_t capacity, size_t *out_bytes);

/* Answers a peer's PULL: writes the RECORDS payload. Unknown idents and records held back are skipped. ERR_MALFORMED. */
int exchange_on_pull(const struct records *records, const uint8_t *bytes, size_t count, record_ident *start, uint8_t *out,
                     size_t capacity, size_t *out_bytes);

#endif
