#ifndef NODE_DAEMON_RENDER_STATS_H
#define NODE_DAEMON_RENDER_STATS_H
/* The document `stats` (docs/wire.md): what /metrics has beyond `status`. Pairs as in render.h. */

#include "node/daemon/ground/tally.h"
#include "node/daemon/render/render.h"

#define RENDER_STATS_UNKNOWN UINT64_MAX /* of a number */

/* One slot of this node now. */
struct render_stats_slot {
    const char *uuid, *model;
    bool is_gpu;
    uint64_t memory_bytes; /* of the GPU */
    uint64_t cpu_permille, worker_bytes;
    uint64_t gpu_percent, gpu_used_bytes, celsius, milliwatts, millijoules, errors;
};

/* A living peer. */
struct render_stats_link {
    node_id node;
    uint64_t sent_bytes, received_bytes;
    uint64_t round_trip_us; /* 0: not known */
};

/* What the daemon's process uses. */
struct render_stats_process {
    double cpu_s;
    uint64_t resident_bytes, virtual_bytes, started_s, descriptors, descriptors_max;
};

/* What only the shell knows. Borrowed for the call. */
struct render_stats_extra {
    uint64_t now_ms;
    uint32_t protocol; /* the newest version that is spoken here */
    const struct tally *tally;
    uint32_t slot_count, link_count;
    const struct render_stats_slot *slots;
    const struct render_stats_link *links;
    struct render_stats_process process;
    uint64_t chunks_restored;
};

/* Writes `protocol nodes slots experiments trials coordinated queue_wait_s checkpoint_bytes checkpoint_s
 * checkpoints_durable checkpoint_waiting_s restarts slot_s repairs own_slots links running_dropped running process`. */
#define RENDER_STATS_PAIRS 19
void render_stats(const struct node_core *core, const struct render_stats_extra *extra, struct pack_writer *frame);

#endif
