#ifndef BASE_ARENA_H
#define BASE_ARENA_H
/* A fixed piece of memory that a core allocates from. The caller provides the bytes and keeps them until the core is
 * done; the arena asks the system for nothing. A freed block goes to the free list of its size class (powers of two
 * from 32 bytes), so state that is replaced again and again does not grow. The same calls give the same addresses,
 * relative to `base`. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARENA_CLASSES 24 /* 32 bytes ... 256 MiB */

/* The arena; the two fields of the reserve are the owner's, the others are private. */
struct arena {
    uint8_t *base;
    size_t capacity_bytes;
    size_t reserve_bytes; /* at the fresh end, set by the owner: handed out only while `takes_reserve` is set */
    bool takes_reserve;   /* set by the owner around the calls that may use the reserve */
    size_t fresh_bytes; /* bytes handed out from the fresh end so far */
    size_t used_bytes;  /* bytes in live blocks, rounded up to their size classes */
    void *free_lists[ARENA_CLASSES];
};

/* Empties the arena over `memory`, which must be aligned to 16 bytes and outlive the arena. */
void arena_init(struct arena *arena, void *memory, size_t capacity_bytes);

/* Returns a block of `bytes` zeroed bytes, aligned to 16, that is valid until arena_give; NULL if the arena is full (or
 * closed to this call by its reserve) or the block is larger than the largest class. */
void *arena_take(struct arena *arena, size_t bytes);

/* Gives a block back; `bytes` is the size it was taken with. A NULL block is ignored. */
void arena_give(struct arena *arena, void *block, size_t bytes);

/* Makes a block larger; new_bytes >= old_bytes, and the added bytes are zero. Returns the block, which may have moved
 * (the old pointer is then invalid), or NULL when the arena is full: the old block is then untouched and still valid. A
 * NULL `block` takes a new one. */
void *arena_grow(struct arena *arena, void *block, size_t old_bytes, size_t new_bytes);

#endif
