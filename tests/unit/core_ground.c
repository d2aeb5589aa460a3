#include "tests/unit/core_ground.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/core/roof/roof.h"

#define MEMORY_BYTES (16u << 20)

static void furnish(struct ground *ground)
{
    struct node_core *core = &ground->core;
    core->disk = &ground->disk;
    core->members = &ground->members;
    core->quarantine = &ground->quarantine;
    core->hooks = (struct core_hooks){.record_put = intake_record_put, .on_disk = on_disk_run};
    core->options.self = ground->people[0].id;
    core->options.mesh = make_mesh();
    core->options.boot = 9ull << 32;
    core->now_ms = 1000000;
    core->started_ms = 900000;
    core->wall_s = 1700000000;
    core->started = true;
    core->out = &ground->effects;
    arena_init(&core->arena, ground->memory, MEMORY_BYTES);
    assert_int_equal(records_init(&core->records, &core->arena), 0);
    view_init(&core->view, &core->arena, &core->records, core->options.mesh);
    struct swim_options swim = {.self = core->options.self, .seed = 1, .now_ms = core->now_ms, .incarnation = 1};
    assert_int_equal(swim_init(&ground->members.swim, &swim, &core->arena), 0);
    fanout_init(&ground->members.fanout);
    ground->disk.outbox = arena_take(&core->arena, CORE_OUTBOX_BYTES);
    ground->disk.unawaited_bucket = RECORDS_BUCKETS;
    core->memory.refold_bucket = RECORDS_BUCKETS;
    assert_non_null(ground->disk.outbox);
}

/* Everybody is a member, and has sent a first message with this node's own digest. */
static void fill_roster(struct ground *ground)
{
    for (uint32_t i = 0; i < GROUND_PEOPLE; i++) {
        struct fact_member fact = make_member(&ground->people[i]);
        ground_take(ground, 0, FACT_MEMBER, fact_key_node_id(ground->people[i].id), &fact);
    }
    core_members_update_roster(&ground->core);
    for (uint32_t i = 1; i < GROUND_PEOPLE; i++) {
        struct message message = {.kind = MESSAGE_SWIM, .hash = ground->core.records.hash};
        message.u.swim = (struct swim_message){.kind = SWIM_PING, .incarnation = 1};
        core_members_receive_swim(&ground->core, ground->people[i].id, &message);
        assert_true(core_node_in_step(&ground->core, ground->people[i].id));
    }
}

int ground_setup(void **state)
{
    struct ground *ground = calloc(1, sizeof *ground);
    ground->memory = aligned_alloc(16, MEMORY_BYTES);
    ground->effects.items = calloc(NODE_EFFECTS_MAX, sizeof *ground->effects.items);
    ground->effects.bytes = malloc(NODE_EFFECT_BYTES_MAX);
    for (uint32_t i = 0; i < GROUND_PEOPLE; i++) {
        ground->people[i] = make_person(i);
    }
    furnish(ground);
    fill_roster(ground);
    ground->effects_seen = ground->effects.count;
    *state = ground;
    return 0;
}

int ground_teardown(void **state)
{
    struct ground *ground = *state;
    bool is_sound = core_disk_is_sound(&ground->disk);
    free(ground->memory);
    free(ground->effects.items);
    free(ground->effects.bytes);
    free(ground);
    return is_sound ? 0 : -1;
}

void ground_wait(struct ground *ground, uint64_t ms)
{
    ground->core.now_ms += ms;
}

const struct node_effect *ground_next(struct ground *ground, enum node_effect_kind kind)
{
    while (ground->effects_seen < ground->effects.count) {
        const struct node_effect *effect = &ground->effects.items[ground->effects_seen++];
        if (effect->kind == kind) {
            return effect;
        }
    }
    return NULL;
}

void ground_take(struct ground *ground, uint32_t writer, enum fact_kind kind, struct fact_key key, const void *fact)
{
    struct made made;
    struct record record;
    struct records_entry *entry;
    make_record(&made, ground->people[writer].id, 8ull << 32, ++ground->seq, kind, key, fact);
    assert_int_equal(record_decode(made.bytes, made.count, &record), 0);
    assert_int_equal(records_put(&ground->core.records, &record, made.bytes, made.count, true, &entry), 0);
    ground->core.hooks.record_put(&ground->core, entry);
}

void ground_persisted(struct ground *ground, uint64_t ticket, bool ok)
{
    struct node_event event = {.kind = NODE_EVENT_PERSISTED, .u.persisted = {.ticket = ticket, .ok = ok}};
    on_disk_persisted(&ground->core, &event);
}

void ground_fill_memory(struct ground *ground)
{
    struct arena *arena = &ground->core.arena;
    arena->reserve_bytes = arena->capacity_bytes; /* closes the fresh end */
    for (size_t bytes = 1u << 20; bytes >= 32; bytes /= 2) {
        while (arena_take(arena, bytes) != NULL) {
        }
    }
}

void ground_free_memory(struct ground *ground)
{
    ground->core.arena.reserve_bytes = 0;
}
