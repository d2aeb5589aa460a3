#include "node/core/ground/state.h"
#include "tests/unit/view_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CORE_BYTES (16u << 20)

void mesh_open(struct mesh *mesh)
{
    memset(mesh, 0, sizeof *mesh);
    for (uint32_t i = 0; i < PEOPLE; i++) {
        mesh->people[i] = make_person(i);
    }
    mesh->memory = aligned_alloc(16, CORE_BYTES);
    mesh->effects.items = calloc(NODE_EFFECTS_MAX, sizeof *mesh->effects.items);
    mesh->effects.bytes = malloc(NODE_EFFECT_BYTES_MAX);
    struct node_options options = {.self = mesh->people[0].id, .mesh = make_mesh(), .boot = 9ull << 32, .now_ms = 1000,
                                   .memory = mesh->memory, .memory_bytes = CORE_BYTES};
    mesh->core = node_core_init(&options);
    assert_non_null(mesh->core);
}

void mesh_close(struct mesh *mesh)
{
    free(mesh->memory);
    free(mesh->effects.items);
    free(mesh->effects.bytes);
}

int setup(void **state)
{
    *state = malloc(sizeof(struct mesh));
    mesh_open(*state);
    return 0;
}

int teardown(void **state)
{
    mesh_close(*state);
    free(*state);
    return 0;
}

void load(struct mesh *mesh, const struct made *made)
{
    mesh->effects.count = 0;
    mesh->effects.used_bytes = 0;
    struct node_event event = {.kind = NODE_EVENT_LOAD_RECORD, .now_ms = 1000, .bytes = made->bytes,
                               .byte_count = made->count};
    node_core_step(mesh->core, &event, &mesh->effects);
}

void say(struct mesh *mesh, uint32_t writer, enum fact_kind kind, struct fact_key key, const void *fact)
{
    struct made made;
    make_record(&made, mesh->people[writer].id, 1, ++mesh->seq, kind, key, fact);
    load(mesh, &made);
}

void admit(struct mesh *mesh, uint32_t voucher, uint32_t member)
{
    struct fact_member fact = make_member(&mesh->people[member]);
    say(mesh, voucher, FACT_MEMBER, fact_key_node_id(mesh->people[member].id), &fact);
}

const struct view_experiment *submit(struct mesh *mesh, uint32_t writer, uint32_t trials, uint32_t max_restarts,
                                     uint64_t submitted_s)
{
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    struct config config;
    make_config(&config, trials, max_restarts);
    struct fact_experiment fact = {.submitted_s = submitted_s, .config = packed};
    fact.config_bytes = make_packed_config(&config, packed);
    say(mesh, writer, FACT_EXPERIMENT, fact_key_experiment(make_experiment_id(0)), &fact);
    const struct view_experiment *experiment = view_find_experiment(&mesh->core->view, make_experiment_id(0));
    assert_non_null(experiment);
    return experiment;
}

attempt_id assign(struct mesh *mesh, uint32_t trial, uint32_t number)
{
    attempt_id id = make_attempt_id(0, trial, number, 1, mesh->people[1].id);
    struct fact_attempt fact = {.member_count = 1, .members = {{mesh->people[2].id, 0}}};
    say(mesh, 1, FACT_ATTEMPT, fact_key_attempt(&id), &fact);
    return id;
}

void judge(struct mesh *mesh, uint32_t writer, const attempt_id *id, enum fact_reason reason, double accuracy)
{
    uint8_t metrics[FACT_METRICS_BYTES_MAX];
    struct fact_verdict fact = {.reason = reason, .metrics = metrics};
    fact.metrics_bytes = make_metrics(metrics, accuracy);
    say(mesh, writer, FACT_VERDICT, fact_key_verdict(id), &fact);
}
