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

void know_paused(struct world *world, uint8_t experiment, uint32_t priority)
{
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    struct config config;
    struct made submit, pause;
    struct person submitter = make_person(WORLD_NODES_MAX - 1);
    make_config(&config, 2, 5);
    config.priority = priority;
    const struct fact_experiment fact = {.submitted_s = 1000, .config = packed, .config_bytes = make_packed_config(&config, packed)};
    const struct fact_control paused = {.lamport = 1, .paused = true};
    struct fact_key key = fact_key_experiment(make_experiment_id(experiment));
    make_record(&pause, submitter.id, 99, 2u * experiment, FACT_CONTROL, key, &paused);
    make_record(&submit, submitter.id, 99, 2u * experiment + 1, FACT_EXPERIMENT, key, &fact);
    for (uint32_t i = 0; i < world->node_count; i++) {
        world_deliver(world, (i + 1) % world->node_count, i, &pause);
        world_deliver(world, (i + 1) % world->node_count, i, &submit);
    }
}
