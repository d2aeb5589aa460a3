#ifndef TRAIN_GROUP_TCP_INSIDE_H
#define TRAIN_GROUP_TCP_INSIDE_H
/* The inside of train/group/tcp/group.h: meeting (meet.c), records (record.c), and the collectives (group.c). */

#include <openssl/evp.h>
#include <stdbool.h>

#include "train/group/handshake.h"
#include "train/group/tcp/group.h"
#include "train/plan/reduce.h"

/* Only the bench is built with records that are neither encrypted nor authenticated. */
#ifdef TCP_GROUP_PLAIN
#define TCP_PLAIN true
#define TCP_PIECE_BYTES (256u * 1024)
#define TCP_MAGIC "SHOALTP1"
#else
#define TCP_PLAIN false
#define TCP_PIECE_BYTES (64u * 1024) /* small enough to stay in the cache while encrypted, sent, decrypted and added */
#define TCP_MAGIC "SHOALTG1"
#endif

/* The connection to a peer. The group owns the descriptor and the ciphers. */
struct tcp_link {
    int fd; /* -1: no connection */
    EVP_CIPHER_CTX *seal, *open;
    uint64_t sealed, opened; /* records */
    bool looked_ahead;       /* in this operation: a record that came early was checked and is in order */
    bool quiet;              /* in this operation: the end of the connection is expected */
};

/* A record on its way: header, body and tag, of which `done` bytes have moved. */
struct tcp_record {
    bool active;
    uint32_t peer;
    uint8_t header[TCP_HEADER_BYTES], tag[TCP_TAG_BYTES];
    uint8_t *body; /* sending in plain: the caller's array, which is only read */
    size_t length, done;
};

/* The group, owned by its caller; used by one thread. */
struct tcp_group {
    uint32_t rank, size;
    uint64_t generation;
    uint64_t operation; /* number of the collective that runs or ran last */
    struct handshake handshake; /* while the links are made */
    uint8_t members_hash[HANDSHAKE_HASH_BYTES];
    int stall_timeout_ms, spin_us;
    struct revoke *revoke;
    void (*add)(enum element_type type, void *to, const void *from, size_t count);
    enum reduce_variant variant;
    struct tcp_link links[PLAN_RANKS_MAX]; /* by rank */
    uint32_t refused;
    int broken; /* the error that ended the group, or 0 */
    char error[TCP_ERROR_BYTES];

    struct plan plan; /* of the collective that runs */
    enum element_type type;
    uint8_t *values;
    uint32_t element_bytes;
    struct plan_cursor sent, received;
    struct tcp_record outgoing, incoming;
    uint8_t *sealed, *landing; /* TCP_PIECE_BYTES each, aligned to cache lines */
};

/* The monotonic clock in ns. */
uint64_t tcp_now_ns(void);

/* Keeps the sentence, closes the links and returns `error`. */
int tcp_fail(struct tcp_group *group, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Makes the links (meet.c). Errors as of tcp_group_open; the sentence is kept in the group. */
int tcp_meet(struct tcp_group *group, int listen_fd, const struct tcp_options *options);

/* Records (record.c). tcp_push sends and tcp_pull receives as much as possible without waiting. 1: something moved; 0: nothing
 * could move; or an error that has broken the group. */
int tcp_push(struct tcp_group *group);
int tcp_pull(struct tcp_group *group);

/* Checks a link that has no record under way: its peer has closed it or sends something early. 0, or an error that has broken
 * the group. */
int tcp_look(struct tcp_group *group, uint32_t peer, bool closed);

#endif
