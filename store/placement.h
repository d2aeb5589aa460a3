#ifndef STORE_PLACEMENT_H
#define STORE_PLACEMENT_H
/* Chooses the nodes that should hold a blob or a series. A core: every node that knows the same candidates computes the
 * same answer, and when a node comes or goes, only the blobs of that node move (base/rendezvous.h). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

#define PLACEMENT_COPIES_MAX 16

/* A node with less room than this left after taking the blob comes after all nodes with more. */
#define PLACEMENT_SPARE_BYTES (1ull << 30)

/* A node that could take a copy. */
struct placement_candidate {
    node_id node;
    uint64_t free_bytes;
    bool alive;
};

/* What to place. */
struct placement_options {
    const uint8_t *key; /* borrowed: usually the blob's hash, or the trial's name for a series */
    size_t key_bytes;
    uint64_t blob_bytes; /* room that a copy takes */
    uint32_t copies;     /* wanted, 1 to PLACEMENT_COPIES_MAX */
    node_id first;       /* preferred if it is alive and has room, e.g. the local node; none: no preference */
};

/* Writes the chosen nodes, best first, to `out` (room for options->copies). Order: `first`; then nodes with room to
 * spare, by rendezvous weight; then nodes with just enough room, by weight. Dead nodes and nodes without room are never
 * chosen. The order of the candidates does not matter; of a node listed twice one entry counts. `*out_count` is less
 * than `copies` if there are fewer nodes. ERR_NOT_FOUND: there is no node at all. ERR_USAGE: `copies`. */
int placement_choose(const struct placement_options *options, const struct placement_candidate *candidates,
                     size_t candidate_count, node_id *out, uint32_t *out_count);

#endif
