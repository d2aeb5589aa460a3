#ifndef GOSSIP_CONTROL_JOIN_H
#define GOSSIP_CONTROL_JOIN_H
/* The joiner's side of the control sockets. */

#include <stddef.h>
#include <stdint.h>

#include "gossip/keys.h"
#include "gossip/token.h"

/* Asks the members named by the token, in turn, to vouch for `keys`, and waits for an answer with code 0. Blocks for at
 * most `timeout_ms`; opens sockets of its own in the libzmq `context` and needs no control. On 0 `*answer` points into
 * `buffer`, which must have at least MESSAGE_BYTES_MAX bytes. ERR_REFUSED: at least one member refused and none agreed;
 * `error` is the sentence of the first refusal. ERR_TIMEOUT, ERR_MALFORMED, ERR_IO: `error` is a sentence. */
int control_join(void *context, const struct token *token, const struct keys *keys, const char *name,
                 uint64_t timeout_ms, uint8_t *buffer, size_t capacity, struct join_answer *answer, char error[256]);

#endif
