#include "gossip/quota.h"

#include <string.h>

#include "base/check.h"

static size_t shared_part(const struct quota *self, const struct quota_sender *sender)
{
    return sender->bytes > self->options.own_bytes ? sender->bytes - self->options.own_bytes : 0;
}

void quota_init(struct quota *self, const struct quota_options *options)
{
    memset(self, 0, sizeof *self);
    self->options = *options;
}

bool quota_take(struct quota *self, uint16_t sender, size_t bytes)
{
    CHECK(sender < QUOTA_SENDERS_MAX);
    struct quota_sender *row = &self->senders[sender];
    struct quota_sender then = {row->messages + 1, row->bytes + bytes};
    size_t shared_bytes = self->shared_bytes - shared_part(self, row) + shared_part(self, &then);
    if (then.messages > self->options.messages_max || (then.bytes > self->options.bytes_max && row->messages > 0) ||
        shared_bytes > self->options.shared_bytes_max) { /* does not change for a sender within its own room */
        return false;
    }
    *row = then;
    self->shared_bytes = shared_bytes;
    return true;
}

void quota_give(struct quota *self, uint16_t sender, size_t bytes)
{
    CHECK(sender < QUOTA_SENDERS_MAX);
    struct quota_sender *row = &self->senders[sender];
    CHECK(row->messages > 0 && row->bytes >= bytes);
    self->shared_bytes -= shared_part(self, row);
    row->messages--;
    row->bytes -= bytes;
    self->shared_bytes += shared_part(self, row);
}
