#ifndef NODE_DAEMON_RENDER_RENDER_H
#define NODE_DAEMON_RENDER_RENDER_H
/* What users see: the node core's state as MessagePack, with the names of docs/wire.md ("Requests of the command line"); here
 * the mesh and its nodes, in experiment.h what they work on. Pure functions; nothing is changed, no clock is read.
 *
 * Each function writes RENDER_..._PAIRS pairs of a map that the caller has opened, so that he can add `id`, `ok`, `end`
 * and `more` beside them:
 *
 *     uint32_t from = 0;
 *     bool more;
 *     do {
 *         pack_writer_init(&frame, bytes, capacity_bytes);
 *         pack_map(&frame, 4 + RENDER_LS_PAIRS);
 *         ... id, ok ...
 *         more = render_ls(core, &from, &frame);
 *         ... "more": more, "end": !more ...
 *     } while (more && send it);
 *
 * Documents with a list come in parts: `*from` is 0 for the first part; a part holds as many rows as fit in the frame
 * with RENDER_RESERVE_BYTES left for what the caller adds behind. True: there are more rows; call again with the `*from`
 * that it left, in the same step of the core. The frame is `failed` only when it has no room for a single row:
 * RENDER_BYTES_MIN bytes always suffice for one. Functions without a list need RENDER_BYTES_MIN too. */

#include "node/core/core.h"
#include "node/core/view/view.h"

#define RENDER_RESERVE_BYTES 256
#define RENDER_BYTES_MIN (64u * 1024)

/* What only the shell knows. Texts are borrowed for the call. */
struct render_status_extra {
    const char *mesh_name; /* "" if this node has no name for it */
    const char *version;
    const char *address; /* of the control socket; "" while it is not bound */
    uint64_t uptime_s;
    uint64_t memory_bytes; /* anonymous resident memory */
    uint64_t handshakes, strangers, oversized, overrun, malformed, forged; /* refused before the core sees it; what the core refused is added */
    node_id was; /* the node that this one was before it had a key of its own; none: it always had */
    const char *was_address; /* where the daemon was that kept that key */
    uint64_t scrub_bytes, scrub_passes, scrub_damaged, scrub_restored; /* since the daemon began */
};

/* `mesh node version address uptime_s nodes nodes_alive nodes_drained slots slots_free experiments experiments_live records
 * memory_bytes syncing disk_full memory_full refused scrub twin was`. Slots, and drained nodes, are those that live. */
#define RENDER_STATUS_PAIRS 21
void render_status(const struct node_core *core, const struct render_status_extra *extra, struct pack_writer *frame);

/* `node name standing void`: what an eviction has come to. */
#define RENDER_EVICTION_PAIRS 4
void render_eviction(const struct node_core *core, node_id node, struct pack_writer *frame);

/* `invites`: all that anybody wrote. Ids are the first bytes of their public keys. */
#define RENDER_INVITE_ID_BYTES 8
#define RENDER_INVITES_PAIRS 1
bool render_invites(const struct node_core *core, uint32_t *from, struct pack_writer *frame);

/* `nodes`: by id; nodes that are out, too. */
#define RENDER_NODES_PAIRS 1
bool render_nodes(const struct node_core *core, uint32_t *from, struct pack_writer *frame);

/* `slots`: by (node, index), without those of nodes that left. */
#define RENDER_SLOTS_PAIRS 1
bool render_slots(const struct node_core *core, uint32_t *from, struct pack_writer *frame);

/* "alive", "suspect", "dead" or "left": a node of the roster as this node sees it. Never heard of is dead. */
const char *render_node_state(const struct node_core *core, node_id node);

/* The name of a node, or "?" for one that is on no roster. Valid until the core's next step. */
const char *render_node_name(const struct node_core *core, node_id node);

/* Alive or suspect, and not on its way out. */
bool render_node_lives(const struct node_core *core, const struct view_member *member);

/* How many nodes of the roster are alive (or suspect), this one included; how many of those are drained. */
uint32_t render_nodes_alive(const struct node_core *core);
uint32_t render_nodes_drained(const struct node_core *core);

#endif
