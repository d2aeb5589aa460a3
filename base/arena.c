#include "base/arena.h"

#include <string.h>

#include "base/check.h"

#define SMALLEST_BYTES 32

static unsigned class_of(size_t bytes)
{
    unsigned class = 0;
    size_t size = SMALLEST_BYTES;
    while (size < bytes && class < ARENA_CLASSES) {
        size *= 2;
        class ++;
    }
    return class;
}

static size_t class_bytes(unsigned class)
{
    return (size_t)SMALLEST_BYTES << class;
}

void arena_init(struct arena *arena, void *memory, size_t capacity_bytes)
{
    CHECK(((uintptr_t)memory & 15) == 0);
    *arena = (struct arena){.base = memory, .capacity_bytes = capacity_bytes};
}

void *arena_take(struct arena *arena, size_t bytes)
{
    unsigned class = class_of(bytes);
    if (class >= ARENA_CLASSES) {
        return NULL;
    }
    void *block = arena->free_lists[class];
    size_t reserve_bytes = arena->takes_reserve ? 0 : arena->reserve_bytes;
    if (block != NULL) {
        memcpy(&arena->free_lists[class], block, sizeof(void *));
    } else if (class_bytes(class) + arena->fresh_bytes + reserve_bytes <= arena->capacity_bytes) {
        block = arena->base + arena->fresh_bytes;
        arena->fresh_bytes += class_bytes(class);
    } else {
        return NULL;
    }
    arena->used_bytes += class_bytes(class);
    memset(block, 0, bytes);
    return block;
}

void arena_give(struct arena *arena, void *block, size_t bytes)
{
    if (block == NULL) {
        return;
    }
    unsigned class = class_of(bytes);
    CHECK(class < ARENA_CLASSES);
    memcpy(block, &arena->free_lists[class], sizeof(void *));
    arena->free_lists[class] = block;
    arena->used_bytes -= class_bytes(class);
}

void *arena_grow(struct arena *arena, void *block, size_t old_bytes, size_t new_bytes)
{
    CHECK(new_bytes >= old_bytes);
    if (block != NULL && class_of(old_bytes) == class_of(new_bytes)) {
        memset((uint8_t *)block + old_bytes, 0, new_bytes - old_bytes);
        return block;
    }
    void *bigger = arena_take(arena, new_bytes);
    if (bigger == NULL) {
        return NULL;
    }
    if (block != NULL) {
        memcpy(bigger, block, old_bytes);
        arena_give(arena, block, old_bytes);
    }
    return bigger;
}
