#include "tests/scenario/core_faults.h"

void reserve_slot(struct world *world, uint32_t owner, uint32_t from, uint64_t term, uint8_t experiment, uint32_t slot)
{
    struct message message = {.kind = MESSAGE_RESERVE, .boot = world->nodes[from].boots};
    message.u.lease.attempt = make_attempt_id(experiment, 0, 1, term, world->nodes[from].person.id);
    message.u.lease.slot = slot;
    message.u.lease.claim = (struct election_claim){term, world->nodes[from].person.id};
    message.u.lease.priority = 42;
    struct node_event event = {.kind = NODE_EVENT_MESSAGE};
    event.u.message.from = world->nodes[from].person.id;
    event.u.message.message = &message;
    world_step(world, owner, &event);
    world_run(world, 100);
}

void reserve(struct world *world, uint32_t owner, uint32_t from, uint64_t term)
{
    reserve_slot(world, owner, from, term, 7, 0);
}
