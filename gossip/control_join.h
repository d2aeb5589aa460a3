#ifndef GOSSIP_CONTROL_JOIN_H
#define GOSSIP_CONTROL_JOIN_H
/* The joiner's side of the control sockets. A shell over czmq, which ends the process where memory or a socket is lacking,
 * knows one context per process and takes Ctrl-C unless it is told not to: for a command, never for a daemon. */

#include <stddef.h>
#include <stdint.h>

#include "gossip/keys.h"
#include "gossip/token.h"

/* Asks the members that the token names, one after the other, to vouch for `keys`, and waits for an answer with code 0;
 * `*answer` points into `buffer` of at least MESSAGE_BYTES_MAX bytes. Blocks for at most `timeout_ms`. Signals keep what they
 * do, and nothing is written to standard output or error. czmq's context, which has no socket any more when this returns,
 * ends with the process. On failure `error` has one sentence. ERR_REFUSED (a member said no, and none yes; the sentence of
 * the first), ERR_TIMEOUT, ERR_MALFORMED, ERR_FULL (fewer descriptors are left than the sockets need; none was made),
 * ERR_IO. */
int control_join(const struct token *token, const struct keys *keys, const char *name, uint64_t timeout_ms,
                 uint8_t *buffer, size_t capacity, struct join_answer *answer, char error[256]);

#endif
