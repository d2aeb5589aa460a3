#ifndef GOSSIP_QUOTA_H
#define GOSSIP_QUOTA_H
/* How much may wait in an inbox, so that who sends too much starves nobody else: each sender has room of its own, and
 * takes what it needs beyond from what all share. A core. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUOTA_SENDERS_MAX 2048

struct quota_options {
    uint32_t messages_max;   /* of one sender */
    size_t bytes_max;        /* of one sender, but a single message may be larger */
    size_t own_bytes;        /* of one sender, whatever waits of others */
    size_t shared_bytes_max; /* of all senders, what is beyond their own */
};

struct quota_sender {
    uint32_t messages;
    size_t bytes;
};

struct quota {
    struct quota_options options;
    size_t shared_bytes;
    struct quota_sender senders[QUOTA_SENDERS_MAX];
};

void quota_init(struct quota *self, const struct quota_options *options);

/* A message of `sender`, below QUOTA_SENDERS_MAX, shall wait. False: it is too much, and nothing has changed. */
bool quota_take(struct quota *self, uint16_t sender, size_t bytes);

/* One that was taken waits no longer. */
void quota_give(struct quota *self, uint16_t sender, size_t bytes);

#endif
