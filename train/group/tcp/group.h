#ifndef TRAIN_GROUP_TCP_GROUP_H
#define TRAIN_GROUP_TCP_GROUP_H
/* Collectives over TCP: a shell that carries out the plans of train/plan/plan.h.
 *
 * Each rank listens. Every pair of ranks that some plan may need (plan_linked) has a connection, made while the group opens, by
 * the lower rank to the higher, and used in both directions at once. Between hosts a single connection fills a wire of 1
 * Gbit/s; over loopback a bare ring on two connections per neighbour was faster and slower than on one in turn, within the
 * noise. Both ends prove that they know the group's key and agree on fresh keys before a byte of data moves
 * (train/group/handshake.h). The data keys (AES-256-GCM), one for each direction, are derived from the handshake, so every
 * connection has its own, and the counter used as the GCM nonce never repeats under a key.
 *
 * Record: header of TCP_HEADER_BYTES, sealed bytes, tag of TCP_TAG_BYTES. The header is {u32 length, u8 kind, u8 algorithm, u8
 * type, u8 step modulo 256, u64 operation, u64 count, u64 offset}, big-endian; elements are little-endian. The tag authenticates the
 * header, too, and the generation and the hash of the member list, which are the same for all records and do not travel. A
 * record is a piece of a plan.
 *
 * One thread per group; it polls only when nothing can move. Memory is bounded: about 0.2 MiB for any array. */

#include <stddef.h>
#include <stdint.h>

#include "base/ports.h"
#include "train/group/revoke.h"
#include "train/plan/element.h"
#include "train/plan/plan.h"

/* Sizes of a key, of an address with its NUL, of a record's header and tag, and of an error sentence with its NUL. */
#define TCP_KEY_BYTES 32
#define TCP_HOST_BYTES 64
#define TCP_HEADER_BYTES 32
#define TCP_TAG_BYTES 16
#define TCP_ERROR_BYTES 320
#define TCP_SLOW_MS 8000 /* the members listen before they are told of each other */

/* A group; opaque, owned by its opener. */
struct tcp_group;

/* Where a rank listens. */
struct tcp_member {
    char host[TCP_HOST_BYTES]; /* a numeric address */
    uint16_t port;
};

/* The arguments of tcp_group_open. Pointers are borrowed for that call, except `revoke`. */
struct tcp_options {
    uint32_t rank, size;
    uint64_t generation;
    uint8_t key[TCP_KEY_BYTES];
    const char *group; /* names the attempt; part of the hash of the member list */
    const struct tcp_member *members; /* [size] by rank */
    int open_timeout_ms;  /* until all links are made */
    int stall_timeout_ms; /* a collective without a moved byte for this long fails */
    int spin_us;          /* how long a collective tries before it sleeps; 0: not at all; below 0: tcp_spin_us */
    /* Told once about each member to which no connection could be made for TCP_SLOW_MS while the group opens; NULL: nobody. */
    void (*slow)(void *context, const struct tcp_member *member);
    void *slow_context;
    struct revoke *revoke; /* ends open and every collective at once; may be NULL; outlives the group */
    /* Adds to[i] += from[i] for `count` elements, always to the same bits; NULL: train/plan/reduce.h does. */
    void (*add)(enum element_type type, void *to, const void *from, size_t count);
};

/* Listens on `host` (a numeric address) at a port chosen by the system. The caller owns *listen_fd. Returns 0, ERR_USAGE (no
 * address) or ERR_IO. */
int tcp_group_listen(const char *host, int *listen_fd, uint16_t *port);

/* Listens on `host` at a port of `range` that no other program has, `from` first (as ports_lock). The caller owns *listen_fd,
 * and *lock_fd: closed once neither the listener nor a connection made through it is in use. ERR_USAGE (no address), ERR_FULL
 * (all ports are in use) or ERR_IO. */
int tcp_group_listen_in(const char *host, struct ports range, uint16_t from, int *listen_fd, uint16_t *port, int *lock_fd);

/* Listens again on `host` at `port`, whose lock the caller has. ERR_USAGE (no address), ERR_EXISTS (in use) or ERR_IO. */
int tcp_group_listen_at(const char *host, uint16_t port, int *listen_fd);

/* Connects the links; takes `listen_fd` and closes it in every case (-1 with size 1). Strangers that connect meanwhile are
 * dropped: each has 2 s to authenticate, and at most 32 are pending at once. The caller owns *out and closes it with
 * tcp_group_close. 0, ERR_USAGE, ERR_TIMEOUT, ERR_CLOSED (revoked), ERR_IO, ERR_MEMORY; `error` then holds a sentence and *out
 * is untouched. */
int tcp_group_open(struct tcp_group **out, int listen_fd, const struct tcp_options *options,
                   char error[TCP_ERROR_BYTES]);

/* Collectives, in place. Every rank makes the same calls in the same order with the same counts; counts are in elements, and in
 * bytes for broadcast. On an error the values are undefined and the group is broken: every later call returns the same error,
 * and all links are closed, so that the collectives of the other ranks end too. ERR_CLOSED (a rank is gone, or the group is
 * revoked), ERR_TIMEOUT, ERR_MALFORMED (another operation, length or member list), ERR_AUTH, ERR_IO. ERR_USAGE breaks nothing:
 * a type without sums, a root that does not exist. The sentence of tcp_group_error names the rank at fault if there is one.
 *
 * all_reduce: the sum over the ranks, with the same bits on every rank. reduce_scatter: slice r becomes the sum on rank r, the
 * rest is undefined. all_gather: slice r of rank r reaches all ranks. broadcast: the root's array reaches all ranks. barrier:
 * returns when all ranks have called it. The slices are those of plan_slice_start. */
int tcp_group_all_reduce(struct tcp_group *group, enum element_type type, void *values, uint64_t count);
int tcp_group_reduce_scatter(struct tcp_group *group, enum element_type type, void *values, uint64_t count);
int tcp_group_all_gather(struct tcp_group *group, enum element_type type, void *values, uint64_t count);
int tcp_group_broadcast(struct tcp_group *group, void *bytes, uint64_t count, uint32_t root);
int tcp_group_barrier(struct tcp_group *group);

/* Runs any collective by the named algorithm (0: the cheapest). ERR_USAGE if the kind has no such algorithm, otherwise as
 * above. `root` matters for a broadcast only. */
int tcp_group_run(struct tcp_group *group, enum plan_kind kind, enum plan_algorithm algorithm, enum element_type type,
                  void *values, uint64_t count, uint32_t root);

/* Checks the links without waiting, for a caller that waits for the same ranks elsewhere. *gone becomes a rank whose link is
 * closed and is otherwise left as it is. A closed link breaks nothing, because that rank may have received all it needed.
 * Returns 0, or ERR_CLOSED: the group is revoked or broken. */
int tcp_group_look(struct tcp_group *group, uint32_t *gone);

/* Changes stall_timeout_ms. */
void tcp_group_set_timeout(struct tcp_group *group, int stall_timeout_ms);

/* The reason why the group broke: one sentence, "" if it did not. Valid until close. */
const char *tcp_group_error(const struct tcp_group *group);

/* Strangers refused while opening. */
uint32_t tcp_group_refused(const struct tcp_group *group);

/* The default for spin_us: 50 if every member on this host can have a processor core of its own, else 0. */
int tcp_spin_us(const struct tcp_options *options);

/* Closes the links, frees the group and clears the pointer. NULL is allowed. */
void tcp_group_close(struct tcp_group **group);

#endif
