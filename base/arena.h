#ifndef BASE_ARENA_H
#define BASE_ARENA_H
/* A capped piece of memory that a core allocates from. The caller gives the bytes and keeps them until the core is
 * done; nothing is taken from the system. Freed blocks go to a list of their size class (powers of two from 32), so
 * state that is replaced again and again does not grow. Same calls, same addresses relative to the base. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARENA_CLASSES 24 /* 32 bytes ... 256 MiB */

struct arena {
    uint8_t *base;
    size_t capacity_bytes;
    size_t reserve_bytes; /* of the fresh end: handed out only while ... */
    bool takes_reserve;   /* ... this is set; both are the owner's to set */
    size_t fresh_bytes; /* handed out from the fresh end so far */
    size_t used_bytes;  /* in live blocks, rounded to their classes */
    void *free_lists[ARENA_CLASSES];
};

/* `memory` must be aligned to 16. */
void arena_init(struct arena *arena, void *memory, size_t capacity_bytes);

/* Zeroed bytes aligned to 16, or NULL when the cap is reached. */
void *arena_take(struct arena *arena, size_t bytes);

/* Gives back a block; `bytes` is what was asked for. NULL is allowed. */
void arena_give(struct arena *arena, void *block, size_t bytes);

/* Grows an array block, copying: NULL when the cap is reached, the old block then untouched. */
void *arena_grow(struct arena *arena, void *block, size_t old_bytes, size_t new_bytes);

#endif
