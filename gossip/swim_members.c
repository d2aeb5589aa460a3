#include "gossip/swim_parts.h"

#include <string.h>

#include "base/check.h"
#include "base/err.h"

_Static_assert(sizeof(struct swim_member) + 7 * sizeof(uint16_t) < 200, "a member is small");

/* ---- the table and the lists ---- */

const char *swim_state_name(enum swim_state state)
{
    static const char *const names[SWIM_STATE_COUNT] = {"unknown", "alive", "suspect", "dead", "left"};
    return (unsigned)state < SWIM_STATE_COUNT ? names[state] : "invalid";
}

/* All arrays of members are in one block, so growing either succeeds or changes nothing. */
static size_t block_layout(uint16_t capacity, size_t offsets[6])
{
    size_t at = (size_t)capacity * sizeof(struct swim_member);
    for (int i = 0; i < 6; i++) {
        offsets[i] = at;
        at += (size_t)capacity * sizeof(uint16_t);
    }
    return at;
}

int swim_members_grow(struct swim *self, uint16_t capacity)
{
    size_t offsets[6];
    size_t bytes = block_layout(capacity, offsets);
    uint8_t *block = arena_take(self->arena, bytes);
    if (block == NULL) {
        return ERR_MEMORY;
    }
    uint16_t **arrays[6] = {&self->order,
                            &self->free_slots,
                            &self->lists[LIVE].items,
                            &self->lists[SUSPECTS].items,
                            &self->lists[ABSENT].items,
                            &self->lists[URGENT].items};
    if (self->capacity > 0) {
        memcpy(block, self->members, self->capacity * sizeof(struct swim_member));
    }
    self->members = (struct swim_member *)(void *)block;
    for (int i = 0; i < 6; i++) {
        uint16_t *array = (uint16_t *)(void *)(block + offsets[i]);
        if (self->capacity > 0) {
            memcpy(array, *arrays[i], self->capacity * sizeof(uint16_t));
        }
        *arrays[i] = array;
    }
    arena_give(self->arena, self->block, self->block_bytes);
    self->block = block;
    self->block_bytes = bytes;
    self->capacity = capacity;
    return 0;
}

/* The place of `node` in `order`, or where it belongs. */
static size_t order_find(const struct swim *self, node_id node)
{
    size_t low = 0;
    size_t high = self->member_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (node_id_compare(self->members[self->order[middle]].id, node) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

uint16_t swim_member_find(const struct swim *self, node_id node)
{
    size_t at = order_find(self, node);
    if (at < self->member_count && node_id_equal(self->members[self->order[at]].id, node)) {
        return self->order[at];
    }
    return NONE;
}

static void list_put(struct swim *self, enum swim_list_name name, uint16_t index)
{
    struct swim_list *list = &self->lists[name];
    CHECK(self->members[index].place[name] == NONE);
    CHECK(list->count < self->capacity);
    self->members[index].place[name] = list->count;
    list->items[list->count++] = index;
}

void swim_list_swap(struct swim *self, enum swim_list_name name, uint16_t a, uint16_t b)
{
    uint16_t *items = self->lists[name].items;
    uint16_t index = items[a];
    items[a] = items[b];
    items[b] = index;
    self->members[items[a]].place[name] = a;
    self->members[items[b]].place[name] = b;
}

void swim_list_drop(struct swim *self, enum swim_list_name name, uint16_t index)
{
    struct swim_list *list = &self->lists[name];
    uint16_t place = self->members[index].place[name];
    CHECK(place < list->count && list->items[place] == index);
    if (name == LIVE && place < self->probe_cursor) {
        /* Members before the cursor had a turn in this round; keep it so. */
        self->probe_cursor--;
        swim_list_swap(self, LIVE, place, self->probe_cursor);
        place = self->probe_cursor;
    }
    swim_list_swap(self, name, place, (uint16_t)(list->count - 1));
    list->count--;
    self->members[index].place[name] = NONE;
}

void swim_list_want(struct swim *self, enum swim_list_name name, uint16_t index, bool wanted)
{
    bool there = self->members[index].place[name] != NONE;
    if (wanted && !there) {
        list_put(self, name, index);
    } else if (!wanted && there) {
        swim_list_drop(self, name, index);
    }
}

unsigned swim_pick_live(struct swim *self, uint16_t except, bool alive_only, uint16_t *picked, unsigned count)
{
    const struct swim_list *live = &self->lists[LIVE];
    unsigned found = 0;
    if (live->count == 0) {
        return 0;
    }
    uint64_t start = random_below(&self->random, live->count);
    for (uint64_t i = 0; i < live->count && i < WALK_MAX && found < count; i++) {
        uint16_t index = live->items[(start + i) % live->count];
        if (index != except && (!alive_only || self->members[index].state == SWIM_ALIVE)) {
            picked[found++] = index;
        }
    }
    return found;
}

/* ---- the roster ---- */

int swim_member_add(struct swim *self, uint64_t now_ms, node_id node)
{
    CHECK(now_ms >= self->now_ms);
    if (node_id_is_none(node)) {
        return ERR_USAGE;
    }
    if (node_id_equal(node, self->self) || swim_member_find(self, node) != NONE) {
        return 0;
    }
    if (self->member_count == SWIM_MEMBERS_MAX) {
        return ERR_FULL;
    }
    if (self->member_count == self->capacity) {
        int rc = swim_members_grow(self, (uint16_t)(self->capacity * 2));
        if (rc != 0) {
            return rc;
        }
    }
    self->now_ms = now_ms;
    uint16_t index = self->free_count > 0 ? self->free_slots[--self->free_count] : self->fresh_count++;
    size_t at = order_find(self, node);
    self->members[index] = (struct swim_member){.id = node, .place = {NONE, NONE, NONE, NONE}};
    memmove(&self->order[at + 1], &self->order[at], (self->member_count - at) * sizeof self->order[0]);
    self->order[at] = index;
    self->member_count++;
    self->counts[SWIM_UNKNOWN]++;
    list_put(self, ABSENT, index);
    swim_urgent_want(self, index);
    swim_expect_sooner(self);
    return 0;
}

int swim_member_remove(struct swim *self, node_id node)
{
    uint16_t index = swim_member_find(self, node);
    if (index == NONE) {
        return ERR_NOT_FOUND;
    }
    for (int name = LIVE; name <= URGENT; name++) {
        swim_list_want(self, (enum swim_list_name)name, index, false);
    }
    swim_queue_forget(self, index);
    swim_accuser_forget(self, index);
    swim_probe_forget(self, index);
    size_t at = order_find(self, node);
    self->member_count--;
    memmove(&self->order[at], &self->order[at + 1], (self->member_count - at) * sizeof self->order[0]);
    self->counts[self->members[index].state]--;
    self->free_slots[self->free_count++] = index;
    memset(&self->members[index], 0, sizeof self->members[index]);
    return 0;
}

/* ---- questions ---- */

bool swim_is_member(const struct swim *self, node_id node)
{
    return swim_member_find(self, node) != NONE;
}

enum swim_state swim_state_of(const struct swim *self, node_id node)
{
    if (node_id_equal(node, self->self)) {
        return self->left ? SWIM_LEFT : SWIM_ALIVE;
    }
    uint16_t index = swim_member_find(self, node);
    return index == NONE ? SWIM_UNKNOWN : (enum swim_state)self->members[index].state;
}

uint64_t swim_heard_ms(const struct swim *self, node_id node)
{
    uint16_t index = swim_member_find(self, node);
    return index == NONE ? 0 : self->members[index].heard_ms;
}

uint64_t swim_incarnation_of(const struct swim *self, node_id node)
{
    if (node_id_equal(node, self->self)) {
        return self->incarnation;
    }
    uint16_t index = swim_member_find(self, node);
    return index == NONE ? 0 : self->members[index].incarnation;
}

size_t swim_member_count(const struct swim *self)
{
    return self->member_count;
}

size_t swim_state_count(const struct swim *self, enum swim_state state)
{
    CHECK((unsigned)state < SWIM_STATE_COUNT);
    return self->counts[state];
}

node_id swim_member_at(const struct swim *self, size_t index)
{
    CHECK(index < self->member_count);
    return self->members[self->order[index]].id;
}
