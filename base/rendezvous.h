#ifndef BASE_RENDEZVOUS_H
#define BASE_RENDEZVOUS_H
/* Highest-random-weight hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998):
 * every node can compute, alone, which nodes come first for a key, and a node's coming or going moves only its own. */

#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

/* The weight of `node` for a key; higher comes first. Equal weights: the larger id comes first. */
uint64_t rendezvous_weight(node_id node, const void *key, size_t key_bytes);

/* Sorts `nodes` in place, first choice first. */
void rendezvous_sort(node_id *nodes, size_t count, const void *key, size_t key_bytes);

#endif
