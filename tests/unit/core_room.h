#ifndef TESTS_UNIT_CORE_ROOM_H
#define TESTS_UNIT_CORE_ROOM_H
/* One node's core without a mesh: the rooms ground, view, members and copies, filled by hand. The core is never stepped:
 * tests call the functions of a room, and read its struct and the effects. */

#include "node/core/copies/copies.h"
#include "node/core/ground/disk.h"
#include "node/core/members/members.h"
#include "tests/unit/facts_make.h"

#define ROOM_NODES 6

struct room {
    void *memory;
    struct node_core core;
    struct core_disk disk;
    struct core_members members;
    struct core_copies copies;
    struct person people[ROOM_NODES]; /* by id, ascending: a test chooses which of them this node is */
    struct core_peer peers[ROOM_NODES];
    struct core_peer *peers_by_id[ROOM_NODES]; /* all but this node */
    struct node_effects effects;
    struct room_block *taken;
    uint64_t seq; /* of the last record of another node */
};

/* Node number `self` in a mesh of ROOM_NODES nodes, which are all alive, known by a record and willing to take copies. Every
 * record that is put is folded at once. */
void room_open(struct room *room, uint32_t self);
void room_close(struct room *room);

/* Time passes, and the effects so far are forgotten, as between two steps. */
void room_pass(struct room *room, uint64_t ms);

/* A record of another node comes in; each is newer than those before it. */
void room_hear(struct room *room, uint32_t writer, enum fact_kind kind, struct fact_key key, const void *fact);

/* Leaves no memory for any record, or gives it all back. */
void room_take_memory(struct room *room);
void room_give_memory(struct room *room);

/* The node's number by its id; the id must be that of one of the people. */
uint32_t room_number(const struct room *room, node_id id);

#endif
