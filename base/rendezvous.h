#ifndef BASE_RENDEZVOUS_H
#define BASE_RENDEZVOUS_H
/* Highest-random-weight hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998).
 * Every node can compute alone which nodes come first for a key, and when a node comes or goes, only the keys of that
 * node move. */

#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

/* The weight of `node` for a key. The node with the highest weight comes first; of equal weights, the larger id. */
uint64_t rendezvous_weight(node_id node, const void *key, size_t key_bytes);

/* Sorts `nodes` in place, first choice first. */
void rendezvous_sort(node_id *nodes, size_t count, const void *key, size_t key_bytes);

#endif
