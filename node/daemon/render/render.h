#ifndef NODE_DAEMON_RENDER_RENDER_H
#define NODE_DAEMON_RENDER_RENDER_H
/* Documents for users: the node core's state as MessagePack, with the names of docs/wire.md ("Requests of the command
 * line"). This header has the mesh and its nodes; experiment.h has experiments, trials and checkpoints. Pure functions:
 * nothing is changed, no clock is read.
 *
 * Each function writes RENDER_..._PAIRS pairs of a map that the caller has opened, so that the caller can add `id`,
 * `ok`, `end` and `more`:
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
 * Documents with a list come in parts: `*from` is 0 for the first part. A part has as many rows as fit in the frame
 * with RENDER_RESERVE_BYTES left for the caller's own pairs. True: there are more rows; call again with the new
 * `*from`, in the same step of the core. The frame is `failed` only when it has no room for a single row:
 * RENDER_BYTES_MIN bytes always suffice. Functions without a list need RENDER_BYTES_MIN, too. */

#include "node/core/core.h"
#include "node/core/view/view.h"

#define RENDER_RESERVE_BYTES 256
#define RENDER_BYTES_MIN (128u * 1024)

/* Facts of status that only the shell knows. Texts are borrowed for the call. */
struct render_status_extra {
    const char *mesh_name; /* "": this node knows no name */
    const char *version;
    const char *address; /* of the control socket; "" while not bound */
    uint64_t uptime_s;
    uint64_t memory_bytes; /* anonymous resident memory */
    bool is_polite; /* workers have the lowest priority */
    bool tells_webhooks; /* this node has the program for it */
    /* Numbers of connections and messages that the shell refused; the core's numbers are added. */
    uint64_t handshakes, strangers, oversized, overrun, malformed, forged, tokens;
    node_id was; /* our node id before the last rekey; none: the key is the first one */
    const char *was_address; /* address of the daemon that keeps the old key */
    uint64_t scrub_bytes, scrub_passes, scrub_damaged, scrub_restored; /* since the daemon started */
};

/* A node that lives, and a port of its bulk socket or of a worker there that cannot be used from here. */
struct render_blocked {
    node_id node;
    char host[FACT_ADDRESS_BYTES];
    uint16_t port;
    bool stalls; /* connections are made, and no data comes through; false: no connection is made */
    uint64_t since_s;
};

/* Writes the sentence that names the port, the node and the direction. */
void render_blocked_text(const struct node_core *core, const struct render_blocked *blocked, char *out, size_t size);

/* Writes `blocked`: the list. */
#define RENDER_BLOCKED_PAIRS 1
void render_blocked(const struct node_core *core, const struct render_blocked *blocked, uint32_t count,
                    struct pack_writer *frame);

/* A warm process of this node (workers/warm.h). */
struct render_warm {
    uint64_t slots; /* a bit for each slot that it has served */
    experiment_id experiment;
    uint32_t pid;
    bool is_ready; /* false: it is importing */
    uint32_t trials;
    uint64_t memory_bytes, idle_s;
};

/* Writes `warm`: the list. */
#define RENDER_WARM_PAIRS 1
void render_warm(const struct node_core *core, const struct render_warm *warm, uint32_t count, struct pack_writer *frame);

/* Writes `mesh node version address addresses uptime_s nodes nodes_alive nodes_drained slots slots_free experiments
 * experiments_live records memory_bytes polite syncing disk_full memory_full refused scrub twin was clock_ahead_s`. `slots` and
 * `nodes_drained` count living nodes only. */
#define RENDER_STATUS_PAIRS 25
void render_status(const struct node_core *core, const struct render_status_extra *extra, struct pack_writer *frame);

/* Writes `nodes` (map of state to number, as `nodes` lists them) and `slots` (array of maps `kind state count`, as
 * `slots` lists them). */
#define RENDER_MESH_COUNTS_PAIRS 2
void render_mesh_counts(const struct node_core *core, struct pack_writer *frame);

/* Writes `node name label standing void`: the result of an eviction. */
#define RENDER_EVICTION_PAIRS 5
void render_eviction(const struct node_core *core, node_id node, struct pack_writer *frame);

/* Writes `invites`: all invites on record, of all members. An id is the first bytes of the invite's public key. */
#define RENDER_INVITE_ID_BYTES 8
#define RENDER_INVITES_PAIRS 1
bool render_invites(const struct node_core *core, uint32_t *from, struct pack_writer *frame);

/* Writes `nodes`, sorted by id, with the nodes that are out. */
#define RENDER_NODES_PAIRS 1
bool render_nodes(const struct node_core *core, uint32_t *from, struct pack_writer *frame);

/* Writes `slots`, sorted by (node, index), without the slots of nodes that left. */
#define RENDER_SLOTS_PAIRS 1
bool render_slots(const struct node_core *core, uint32_t *from, struct pack_writer *frame);

/* Writes `node name label state drained policy slots`: what is on one node. `policy` is nil, or a map `hours load_percent activity
 * back_after_s why since_s until_s`: what its owner has said, and which reason holds now. `slots` is an array of maps `index state why
 * since_s until_s experiment name trial attempt user submitter`: since when, by the node's clock, and until when its owner withholds the slot (nil: the
 * slot is not withheld, or until it is returned); of a worker its trial, who submitted the experiment and the label of
 * the node where, else nil. */
#define RENDER_OWNER_PAIRS 7
void render_owner(const struct node_core *core, node_id node, struct pack_writer *frame);

/* "alive", "suspect", "dead" or "left": a node of the roster as this node sees it; a node never heard of is dead.
 * "evicted" or "void": the node is out. */
const char *render_node_state(const struct node_core *core, node_id node);

/* The name of a node, or "?" if no roster has the node. Valid until the core's next step. Programs read it; two nodes may have
 * one name. */
const char *render_node_name(const struct node_core *core, node_id node);

/* The name for people, which no other member has: see view_label. */
struct view_label render_node_label(const struct node_core *core, node_id node);

/* Whether the node is alive or suspect, and not on its way out. */
bool render_node_lives(const struct node_core *core, const struct view_member *member);

/* The number of nodes of the roster that are alive or suspect, this node included. */
uint32_t render_nodes_alive(const struct node_core *core);

/* The number of those nodes that are drained. */
uint32_t render_nodes_drained(const struct node_core *core);

#endif
