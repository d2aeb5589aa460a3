#ifndef NODE_SIGNER_H
#define NODE_SIGNER_H
/* The signing thread: makes and checks signatures, so that the protocol thread, which answers probes, computes none
 * (docs/design.md 5). Records enter the node core verified, and our own records leave the core to be signed. Jobs go
 * in; results come out in the order of the jobs. A shell. Only the protocol thread calls these functions, except
 * signer_filter, which any thread may call.
 *
 * A signature counts if it is a node's whose key is known. Known are: our own key; the founder's (its member record
 * names a key and a nonce that hash to the mesh id, and is signed with the key); and every key in a member record of a
 * known node. A key is never unlearned: an evicted member's old records stay history, and the core decides which of
 * them count. Records by unknown writers are dropped; the record exchange brings them again. */

#include <stdint.h>

#include "base/id.h"
#include "gossip/keys.h"
#include "gossip/message.h"
#include "gossip/token.h"

#define SIGNER_JOBS_MAX 2048 /* jobs that wait, and results not yet taken */
#define SIGNER_JOB_BYTES_MAX (24u << 20)
#define SIGNER_SIGN_RESERVE 512 /* jobs kept free for our own records and for joins */
#define SIGNER_JOINS_MAX 64     /* most joins among the jobs */
#define SIGNER_WRITERS_MAX 4096 /* most known keys */

struct signer;

/* Copies `keys` and starts the thread. The caller owns `*out` until signer_close. ERR_MEMORY; ERR_IO: no thread or
 * descriptor; `*out` is then unchanged. */
int signer_open(const struct keys *keys, mesh_id mesh, struct signer **out);

/* Stops the thread after its present job, drops all other jobs and results, wipes the keys, frees the signer and sets
 * `*signer` to NULL. NULL is allowed. */
void signer_close(struct signer **signer);

/* A descriptor to poll for reading: readable while results wait. The signer owns the descriptor. */
int signer_fd(const struct signer *signer);

/* Submits a MESSAGE_RECORDS of `from` (copied) for verification. The result SIGNER_VERIFIED has only the good records;
 * a message without any good record gives no result. ERR_FULL: dropped and counted. */
int signer_verify(struct signer *signer, node_id from, const struct message *message);

/* Submits our own record (copied) for signing; the result is SIGNER_SIGNED with `ticket`. ERR_FULL: dropped and
 * counted; ERR_MALFORMED: the envelope is no record. */
int signer_sign(struct signer *signer, uint64_t ticket, const uint8_t *envelope, size_t count);

/* Submits a JOIN request (copied) for decoding and verification; the result is SIGNER_JOIN with code 0, ERR_MALFORMED,
 * ERR_VERSION or ERR_AUTH, for `client`. ERR_FULL: dropped and counted; ERR_MALFORMED: longer than
 * JOIN_REQUEST_BYTES_MAX. */
int signer_join(struct signer *signer, uint64_t client, const uint8_t invite_key[32], const uint8_t *bytes, size_t count);

enum signer_kind { SIGNER_VERIFIED, SIGNER_SIGNED, SIGNER_JOIN };

/* A result; behind a field the kinds that set it. */
struct signer_result {
    enum signer_kind kind;
    node_id from;           /* VERIFIED */
    struct message message; /* VERIFIED */
    uint64_t ticket;        /* SIGNED */
    const uint8_t *bytes;   /* SIGNED: the envelope; its signature is the last RECORD_SIGNATURE_BYTES */
    uint32_t byte_count;
    uint64_t client;             /* JOIN */
    int code;                    /* JOIN */
    uint8_t invite_key[32];      /* JOIN */
    struct join_request request; /* JOIN, code 0 */
};

/* Takes the next result. Its bytes stay valid until the next call. ERR_AGAIN: no result waits. */
int signer_next(struct signer *signer, struct signer_result *out);

/* Verifies at once, in the calling thread: `bytes` are envelopes laid end to end (of our disk at the start, or of a
 * WELCOME). The good envelopes go to `out` (at least `count` bytes; may be `bytes`) in their order, and their keys
 * become known. Member records may come in any order within one call. Returns the bytes written; 0 also when memory is
 * full. */
size_t signer_filter(struct signer *signer, const uint8_t *bytes, size_t count, uint8_t *out);

/* Numbers of records since signer_open, except `overflow`. */
struct signer_statistics {
    uint64_t verified;  /* good, by computing the signature */
    uint64_t cached;    /* good, because the same bytes were verified before */
    uint64_t forged;    /* bad signature, or a member record whose key does not hash to the node's id */
    uint64_t unknown;   /* the writer's key is not known */
    uint64_t malformed; /* no record: the rest of its message is lost with it */
    uint64_t overflow;  /* messages dropped because the queue was full */
    uint64_t signed_records;
};

/* Copies the counters. Any thread may call. */
void signer_statistics(struct signer *signer, struct signer_statistics *out);

#endif
