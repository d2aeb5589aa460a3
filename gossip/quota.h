#ifndef GOSSIP_QUOTA_H
#define GOSSIP_QUOTA_H
/* Bounds the messages waiting in an inbox, so that no sender can crowd out another: each sender has room of its own,
 * and takes more from room shared by all. A core. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUOTA_SENDERS_MAX 2048

/* The bounds of an inbox. */
struct quota_options {
    uint32_t messages_max;   /* limit of waiting messages per sender */
    size_t bytes_max;        /* limit of waiting bytes per sender; a single message may be larger */
    size_t own_bytes;        /* part of bytes_max that is reserved for each sender */
    size_t shared_bytes_max; /* limit for all senders together, beyond their own_bytes */
};

/* The waiting messages of one sender. */
struct quota_sender {
    uint32_t messages;
    size_t bytes;
};

/* One inbox; the caller owns it, about 32 KiB. */
struct quota {
    struct quota_options options;
    size_t shared_bytes;
    struct quota_sender senders[QUOTA_SENDERS_MAX];
};

/* An empty inbox; `options` is copied. */
void quota_init(struct quota *self, const struct quota_options *options);

/* Asks to add a message of `bytes` bytes of `sender` (< QUOTA_SENDERS_MAX) to the inbox. True: it is counted, give it
 * back with quota_give. False: it exceeds a bound, and nothing has changed. */
bool quota_take(struct quota *self, uint16_t sender, size_t bytes);

/* A message that quota_take counted has left the inbox; `sender` and `bytes` must be the same as then. */
void quota_give(struct quota *self, uint16_t sender, size_t bytes);

#endif
