#ifndef TESTS_UNIT_VIEW_FIXTURE_H
#define TESTS_UNIT_VIEW_FIXTURE_H
/* A table of records and the fold over it, and what people write into it. */

#include <stdint.h>

#include "node/core/ground/state.h"
#include "tests/unit/facts_make.h"

#define PEOPLE 5

/* A core that is never started: a table and the fold over it, as the daemon has them. */
struct mesh {
    void *memory;
    struct node_core *core;
    struct node_effects effects;
    struct person people[PEOPLE];
    uint64_t seq;
};

void mesh_open(struct mesh *mesh);
void mesh_close(struct mesh *mesh);

/* cmocka's, of one story: *state is a struct mesh, open. */
int setup(void **state);
int teardown(void **state);

/* Takes a record in as the daemon does that has found it on its disk. */
void load(struct mesh *mesh, const struct made *made);

/* One of the people writes a record; each is newer than those before it. */
void say(struct mesh *mesh, uint32_t writer, enum fact_kind kind, struct fact_key key, const void *fact);

/* The one vouches for the other. */
void admit(struct mesh *mesh, uint32_t voucher, uint32_t member);

/* Experiment 0, valid until it is deleted or the mesh is closed. */
const struct view_experiment *submit(struct mesh *mesh, uint32_t writer, uint32_t trials, uint32_t max_restarts,
                                     uint64_t submitted_s);

/* An attempt of experiment 0: person 1 coordinates, and person 2 has its one slot. */
attempt_id assign(struct mesh *mesh, uint32_t trial, uint32_t number);

void judge(struct mesh *mesh, uint32_t writer, const attempt_id *id, enum fact_reason reason, double accuracy);

#endif
