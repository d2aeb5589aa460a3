#include "base/rendezvous.h"

#include "base/random.h"

uint64_t rendezvous_weight(node_id node, const void *key, size_t key_bytes)
{
    return random_mix(bytes_hash64(key, key_bytes, bytes_hash64(node.bytes, sizeof node.bytes, 1)));
}

void rendezvous_sort(node_id *nodes, size_t count, const void *key, size_t key_bytes)
{
    /* Insertion sort: a mesh has tens of nodes, and most calls want the first few only. */
    for (size_t i = 1; i < count; i++) {
        node_id moving = nodes[i];
        uint64_t weight = rendezvous_weight(moving, key, key_bytes);
        size_t j = i;
        while (j > 0) {
            uint64_t before = rendezvous_weight(nodes[j - 1], key, key_bytes);
            if (before > weight || (before == weight && node_id_compare(nodes[j - 1], moving) > 0)) {
                break;
            }
            nodes[j] = nodes[j - 1];
            j--;
        }
        nodes[j] = moving;
    }
}
