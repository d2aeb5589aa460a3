#ifndef NODE_CORE_GROUND_EFFECTS_H
#define NODE_CORE_GROUND_EFFECTS_H
/* The output of a step, in core->out. The caller of a function that adds effects has asked core_has_room before. */

#include "node/core/ground/state.h"

/* A zeroed effect at the end of the step's effects, for the caller to fill in. */
struct node_effect *core_effect(struct node_core *core, enum node_effect_kind kind);

/* Copies bytes into the effects' store. The copy is valid until the effects are cleared. */
const uint8_t *core_effect_bytes(struct node_core *core, const void *bytes, uint32_t count);

/* True while there is room for so many more effects and bytes. A loop with many effects stops at false and goes on at the next
 * step. */
bool core_has_room(const struct node_core *core, uint32_t effects, uint32_t bytes);

/* Sends a message to a peer, with this node's boot. */
void core_send(struct node_core *core, node_id to, const struct message *message);

/* Answers a user's request: 0 or an error of base/err.h, the number of nodes with the record on disk, one sentence. */
void core_reply(struct node_core *core, uint64_t client, int code, uint32_t stored_on, const char *text);

/* The next secret of this boot: BLAKE2b of a counter under options.secret. `count` is 16 or 32. */
void core_secret(struct node_core *core, uint8_t *out, uint32_t count);

#endif
