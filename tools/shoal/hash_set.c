#include "tools/shoal/hash_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#define FIRST_CAPACITY 64 /* a power of two, as all capacities are */

/* The slot that holds the hash, or the free one where it belongs. `set` is not full. */
static uint64_t *slot_of(const struct hash_set *set, uint64_t hash)
{
    size_t at = (size_t)hash & (set->capacity - 1);
    while (set->slots[at] != 0 && set->slots[at] != hash) {
        at = (at + 1) & (set->capacity - 1);
    }
    return &set->slots[at];
}

static uint64_t without_zero(uint64_t hash)
{
    return hash == 0 ? 1 : hash;
}

bool hash_set_has(const struct hash_set *set, uint64_t hash)
{
    return set->count > 0 && *slot_of(set, without_zero(hash)) != 0;
}

static int grow(struct hash_set *set)
{
    struct hash_set bigger = {.capacity = set->capacity == 0 ? FIRST_CAPACITY : 2 * set->capacity, .count = set->count};
    bigger.slots = calloc(bigger.capacity, sizeof *bigger.slots);
    if (bigger.slots == NULL) {
        return ERR_MEMORY;
    }
    for (size_t i = 0; i < set->capacity; i++) {
        if (set->slots[i] != 0) {
            *slot_of(&bigger, set->slots[i]) = set->slots[i];
        }
    }
    free(set->slots);
    *set = bigger;
    return 0;
}

int hash_set_add(struct hash_set *set, uint64_t hash)
{
    if (4 * (set->count + 1) > 3 * set->capacity && grow(set) != 0) {
        return ERR_MEMORY;
    }
    uint64_t *slot = slot_of(set, without_zero(hash));
    if (*slot != 0) {
        return 0;
    }
    *slot = without_zero(hash);
    set->count++;
    return 1;
}

void hash_set_free(struct hash_set *set)
{
    free(set->slots);
    *set = (struct hash_set){0};
}
