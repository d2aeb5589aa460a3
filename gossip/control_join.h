#ifndef GOSSIP_CONTROL_JOIN_H
#define GOSSIP_CONTROL_JOIN_H
/* The joiner's side of the control sockets. */

#include <stddef.h>
#include <stdint.h>

#include "gossip/keys.h"
#include "gossip/token.h"

/* Asks the members that the token names, one after the other, to vouch for `keys`, and waits for an
 * answer with code 0; `*answer` points into `buffer` of at least MESSAGE_BYTES_MAX bytes. Blocks for at most
 * `timeout_ms`. Needs no control. ERR_REFUSED (a member said no, and none yes; the sentence of the first), ERR_TIMEOUT,
 * ERR_MALFORMED, ERR_IO. */
int control_join(void *context, const struct token *token, const struct keys *keys, const char *name,
                 uint64_t timeout_ms, uint8_t *buffer, size_t capacity, struct join_answer *answer, char error[256]);

#endif
