#ifndef TOOLS_SHOAL_HASH_SET_H
#define TOOLS_SHOAL_HASH_SET_H
/* A set of 64-bit hashes (base/bytes.h, bytes_hash64): 16 bytes of memory for each at most. Of a million different texts two
 * have one hash in one of 30 million sets. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: empty. The caller owns it until hash_set_free. */
struct hash_set {
    uint64_t *slots; /* 0: free */
    size_t capacity, count;
};

bool hash_set_has(const struct hash_set *set, uint64_t hash);

/* 1: added; 0: it was there; ERR_MEMORY. */
int hash_set_add(struct hash_set *set, uint64_t hash);

void hash_set_free(struct hash_set *set);

#endif
