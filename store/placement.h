#ifndef STORE_PLACEMENT_H
#define STORE_PLACEMENT_H
/* Which nodes should hold a blob or a series. A core: every node that knows the same candidates computes the same
 * answer, and a node's coming or going moves only what is its own. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

#define PLACEMENT_COPIES_MAX 16

/* A node that has less than this to spare after taking the blob comes after all that have more. */
#define PLACEMENT_SPARE_BYTES (1ull << 30)

struct placement_candidate {
    node_id node;
    uint64_t free_bytes;
    bool alive;
};

struct placement_options {
    const uint8_t *key; /* borrowed: usually the blob's hash, or a trial's name for a series */
    size_t key_bytes;
    uint64_t blob_bytes; /* what a copy takes */
    uint32_t copies;     /* wanted, 1 to PLACEMENT_COPIES_MAX */
    node_id first;       /* taken first if it is alive and has room, e.g. the local node; none: no preference */
};

/* Writes the chosen nodes, best first, to `out` (room for options->copies). Order: `first`; then nodes with room to
 * spare by rendezvous weight; then those with just enough room by weight. Dead nodes and those without room never.
 * Order and repetition of the candidates do not matter; of a node listed twice one of the entries counts.
 * `*out_count` is less than `copies` where there are not as many. ERR_NOT_FOUND: there is none at all. ERR_USAGE. */
int placement_choose(const struct placement_options *options, const struct placement_candidate *candidates,
                     size_t candidate_count, node_id *out, uint32_t *out_count);

#endif
