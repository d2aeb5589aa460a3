#ifndef NODE_DAEMON_RELAY_RELAY_H
#define NODE_DAEMON_RELAY_RELAY_H
/* A door for other nodes: their users' requests that concern this node, for example to withhold its slots. They come as
 * questions in the bulk's thread; the protocol thread carries each out once, and the question that is asked again gets
 * the reply. Only what any member may ask of another node is taken. */

#include <stddef.h>
#include <stdint.h>

#include "base/pack.h"

struct daemon;
struct relay;

/* NULL: no memory, or no descriptor is left. */
struct relay *relay_new(void);

/* Removes the clients of this door and frees it; NULL is allowed. Call once no other thread uses it. */
void relay_free(struct daemon *daemon, struct relay *relay);

/* Answers a question (wire/relayed.h), in any thread: an entry with the reply, or none while there is no reply.
 * ERR_MALFORMED; ERR_MEMORY: too many requests wait. */
int relay_answer(struct relay *relay, const uint8_t *question, size_t question_bytes, struct pack_writer *out);

/* A descriptor to poll: readable while requests wait for relay_process. */
int relay_fd(const struct relay *relay);

/* Carries out what has come, and forgets replies that nobody has asked for any more. */
void relay_process(struct daemon *daemon, uint64_t now_ms);

#endif
