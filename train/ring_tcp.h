#ifndef TRAIN_RING_TCP_H
#define TRAIN_RING_TCP_H
/* The transport of collectives over TCP: a shell that carries out the plans of train/ring_plan.h.
 *
 * Each rank listens, connects to the next rank and is connected to by the one before. Data flow only from a rank to the
 * next. Both ends prove that they know the group's key, and agree on fresh keys, before a byte of data moves:
 *
 *     connector -> acceptor  hello    magic, sender, receiver, generation, hash of the member list, nonce, MAC
 *     acceptor -> connector  reply    nonce, MAC over all so far
 *     connector -> acceptor  confirm  MAC
 *     acceptor -> connector  ready    MAC
 *
 * The MAC is BLAKE2b under the group's key; the data key (AES-256-GCM) is BLAKE2b under the group's key of both nonces
 * and the rest of the hello, so it is another one for every connection and direction, and the counter that is the GCM
 * nonce never repeats under one key. A replayed hello gets no further than a reply.
 *
 * Record: header of RING_HEADER_BYTES (authenticated), sealed bytes, tag of 16 bytes. The header is
 * {u32 length, u16 kind, u16 step, u64 sequence, u64 generation, u64 operation, u64 count, u64 offset, 16 bytes of the
 * hash of the member list}, big-endian; elements are little-endian.
 *
 * One thread per ring. All sizes are bounded: about 0.7 MiB per ring whatever is reduced. */

#include <stddef.h>
#include <stdint.h>

#include "train/ring_plan.h"

#define RING_KEY_BYTES 32
#define RING_HOST_BYTES 64
#define RING_PIECE_BYTES (64u * 1024)
#define RING_HEADER_BYTES 64
#define RING_TAG_BYTES 16
#define RING_ERROR_BYTES 256

struct ring_tcp;

struct ring_tcp_member {
    char host[RING_HOST_BYTES]; /* a numeric address */
    uint16_t port;
};

struct ring_tcp_options {
    uint32_t rank, size;
    uint64_t generation;
    uint8_t key[RING_KEY_BYTES];
    const char *group; /* names the attempt; part of the hash of the member list */
    const struct ring_tcp_member *members; /* [size] by rank */
    int open_timeout_ms;  /* until both neighbours are connected */
    int stall_timeout_ms; /* a collective in which no byte moved for so long fails */
};

/* Listens on host (numeric) with a port of the system's choice. 0, ERR_USAGE (not an address), ERR_IO. */
int ring_tcp_listen(const char *host, int *listen_fd, uint16_t *port);

/* Connects to both neighbours; takes `listen_fd` and closes it in every case (-1 with size 1). Strangers that connect
 * meanwhile are dropped: each has 2 s to prove itself, and at most 32 are heard at once. 0, ERR_USAGE, ERR_TIMEOUT,
 * ERR_IO, ERR_MEMORY; `error` then holds a sentence. */
int ring_tcp_open(struct ring_tcp **out, int listen_fd, const struct ring_tcp_options *options,
                  char error[RING_ERROR_BYTES]);

/* Sums `values` over all ranks, in place; every rank brings the same `count`, 0 included. On return all ranks have the same
 * bits. On an error the values are undefined and the ring is broken: every later call returns that error, and both
 * neighbours are told by closing. ERR_CLOSED (a neighbour is gone), ERR_TIMEOUT, ERR_MALFORMED (another operation,
 * length or member list), ERR_AUTH, ERR_IO. */
int ring_tcp_all_reduce(struct ring_tcp *ring, float *values, uint64_t count);

/* Copies the root's bytes to every rank. Errors as above; ERR_USAGE when there is no such root. */
int ring_tcp_broadcast(struct ring_tcp *ring, void *bytes, uint64_t count, uint32_t root);

/* Changes stall_timeout_ms. */
void ring_tcp_set_timeout(struct ring_tcp *ring, int stall_timeout_ms);

/* What broke the ring: one sentence, "" if nothing did. Valid until close. */
const char *ring_tcp_error(const struct ring_tcp *ring);

/* Strangers refused while opening. */
uint32_t ring_tcp_refused(const struct ring_tcp *ring);

/* NULL is allowed; the pointer is cleared. */
void ring_tcp_close(struct ring_tcp **ring);

#endif
