#ifndef NODE_SIGNER_H
#define NODE_SIGNER_H
/* Signatures, made and checked in a thread of their own: records enter the node core verified and leave it to be
 * signed, and the thread that answers probes computes neither (DESIGN 5). Jobs go in, results come out in the order of
 * the jobs. A shell. One thread (the protocol thread) uses it; signer_filter alone may be called by any.
 *
 * Whose signature counts: a node's, if its key is known. Known are ourselves, the founder (its member record names a
 * key and a nonce that hash to the mesh id, and is signed with that key), and whoever is named by a member record of a
 * known node. Keys are never unlearned: what an evicted member once wrote stays history, and whether it counts is the
 * core's business. Records by unknown writers are dropped; exchange brings them again. */

#include <stdint.h>

#include "base/id.h"
#include "gossip/keys.h"
#include "gossip/message.h"
#include "gossip/token.h"

#define SIGNER_JOBS_MAX 2048 /* waiting or not taken yet */
#define SIGNER_JOB_BYTES_MAX (24u << 20)
#define SIGNER_SIGN_RESERVE 512 /* of the jobs: kept free for our own records and joins, */
#define SIGNER_JOINS_MAX 64     /* ... of which these are so many at most */
#define SIGNER_WRITERS_MAX 4096 /* known keys */

struct signer;

/* Copies `keys`; starts the thread. ERR_MEMORY, ERR_IO. */
int signer_open(const struct keys *keys, mesh_id mesh, struct signer **out);

/* Stops the thread after the job that it is at, and drops the others. */
void signer_close(struct signer **signer);

/* To poll for reading: readable while results wait. */
int signer_fd(const struct signer *signer);

/* A MESSAGE_RECORDS of `from` (copied) is to be verified: it comes back as SIGNER_VERIFIED with its good records only, or
 * not at all if there are none. ERR_FULL: dropped and counted. */
int signer_verify(struct signer *signer, node_id from, const struct message *message);

/* Our own record (copied) is to be signed: comes back as SIGNER_SIGNED. ERR_FULL; ERR_MALFORMED. */
int signer_sign(struct signer *signer, uint64_t ticket, const uint8_t *envelope, size_t count);

/* A JOIN is to be decoded and verified: comes back as SIGNER_JOIN with code 0, ERR_MALFORMED, ERR_VERSION or ERR_AUTH.
 * ERR_FULL; ERR_MALFORMED if it is longer than any. */
int signer_join(struct signer *signer, uint64_t client, const uint8_t invite_key[32], const uint8_t *bytes, size_t count);

enum signer_kind { SIGNER_VERIFIED, SIGNER_SIGNED, SIGNER_JOIN };

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

/* The next result; its bytes are valid until the next call. ERR_AGAIN when there is none. */
int signer_next(struct signer *signer, struct signer_result *out);

/* At once, in the calling thread: verifies envelopes laid end to end (those of the own disk at the start, those of a
 * WELCOME) and writes the good ones to `out`, of at least `count` bytes, in their order; learns keys from them. Member
 * records may come in any order within one call. Returns the bytes written. ERR_MEMORY is a result of 0 bytes. */
size_t signer_filter(struct signer *signer, const uint8_t *bytes, size_t count, uint8_t *out);

struct signer_statistics {
    uint64_t verified;  /* records found good, by computing */
    uint64_t cached;    /* ... by remembering */
    uint64_t forged;    /* bad signature, or a member record whose key is not that node's */
    uint64_t unknown;   /* the writer's key is not known */
    uint64_t malformed; /* no record: the rest of its message is lost with it */
    uint64_t overflow;  /* messages dropped because the queue was full */
    uint64_t signed_records;
};

void signer_statistics(struct signer *signer, struct signer_statistics *out);

#endif
