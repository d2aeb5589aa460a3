#include "tests/unit/core_room.h"

#include <stdlib.h>

#include "base/check.h"
#include "tests/unit/put_envelope.h"

#define ROOM_BYTES (8u << 20)

struct room_block {
    struct room_block *next;
    size_t bytes;
};

static void fold(struct node_core *core, struct records_entry *entry)
{
    CHECK(view_apply(&core->view, entry) == 0);
}

static int compare_people(const void *a, const void *b)
{
    return node_id_compare(((const struct person *)a)->id, ((const struct person *)b)->id);
}

static void add_peers(struct room *room, uint32_t self)
{
    for (uint32_t i = 0; i < ROOM_NODES; i++) {
        struct fact_node fact = make_node(&room->people[i], 1);
        room_hear(room, i, FACT_NODE, fact_key_empty(), &fact);
        room->peers[i] = (struct core_peer){.id = room->people[i].id, .state = SWIM_ALIVE, .takes_copies = true};
        if (i != self) {
            room->peers_by_id[room->members.peer_count++] = &room->peers[i];
        }
    }
    room->members.peers = room->peers_by_id;
}

void room_open(struct room *room, uint32_t self)
{
    *room = (struct room){.memory = aligned_alloc(16, ROOM_BYTES)};
    room->effects.items = calloc(NODE_EFFECTS_MAX, sizeof *room->effects.items);
    room->effects.bytes = malloc(NODE_EFFECT_BYTES_MAX);
    CHECK(room->memory != NULL && room->effects.items != NULL && room->effects.bytes != NULL);
    for (uint32_t i = 0; i < ROOM_NODES; i++) {
        room->people[i] = make_person(i);
    }
    qsort(room->people, ROOM_NODES, sizeof room->people[0], compare_people);
    struct node_core *core = &room->core;
    core->options = (struct node_options){.self = room->people[self].id, .mesh = make_mesh(), .boot = 9ull << 32,
                                          .node = make_node(&room->people[self], 1)};
    core->hooks.record_put = fold;
    core->now_ms = core->started_ms = 1000;
    core->disk = &room->disk;
    core->members = &room->members;
    core->copies = &room->copies;
    core->out = &room->effects;
    arena_init(&core->arena, room->memory, ROOM_BYTES);
    CHECK(records_init(&core->records, &core->arena) == 0);
    view_init(&core->view, &core->arena, &core->records, make_mesh());
    add_peers(room, self);
}

void room_close(struct room *room)
{
    free(room->memory);
    free(room->effects.items);
    free(room->effects.bytes);
}

void room_pass(struct room *room, uint64_t ms)
{
    room->core.now_ms += ms;
    room->effects.count = 0;
    room->effects.used_bytes = 0;
}

void room_hear(struct room *room, uint32_t writer, enum fact_kind kind, struct fact_key key, const void *fact)
{
    struct made made;
    struct records_entry *entry;
    make_record(&made, room->people[writer].id, 1, ++room->seq, kind, key, fact);
    CHECK(put_envelope(&room->core.records, made.bytes, made.count, true, &entry) == 0);
    fold(&room->core, entry);
}

/* In blocks of all the sizes that records and rows have, in turns: a block that is given back keeps its size. */
void room_take_memory(struct room *room)
{
    for (bool has_taken = true; has_taken;) {
        has_taken = false;
        for (size_t bytes = 4096; bytes >= 32; bytes /= 2) {
            struct room_block *block = arena_take(&room->core.arena, bytes);
            if (block != NULL) {
                *block = (struct room_block){room->taken, bytes};
                room->taken = block;
                has_taken = true;
            }
        }
    }
}

void room_give_memory(struct room *room)
{
    while (room->taken != NULL) {
        struct room_block *block = room->taken;
        room->taken = block->next;
        arena_give(&room->core.arena, block, block->bytes);
    }
}

uint32_t room_number(const struct room *room, node_id id)
{
    uint32_t number = 0;
    while (number < ROOM_NODES && !node_id_equal(room->people[number].id, id)) {
        number++;
    }
    CHECK(number < ROOM_NODES);
    return number;
}
