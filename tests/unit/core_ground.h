#ifndef TESTS_UNIT_CORE_GROUND_H
#define TESTS_UNIT_CORE_GROUND_H
/* The ground of a node core and the room above it, members/, without the rooms further up: for tests of the disk's queue and of
 * quarantine. No mesh, no other node core and no events: the test calls the functions of the rooms. */

#include "node/core/ground/disk.h"
#include "node/core/members/quarantine.h"
#include "tests/unit/facts_make.h"

#define GROUND_PEOPLE 5

struct ground {
    void *memory;
    struct node_core core; /* of people[0], at now_ms 1,000,000 in boot 9; the pointers to higher rooms are NULL */
    struct core_disk disk;
    struct core_members members;
    struct core_quarantine quarantine;
    struct node_effects effects;
    uint32_t effects_seen; /* ground_next has returned so many */
    struct person people[GROUND_PEOPLE]; /* all of them members; people[1] and further are peers that live and are in step */
    uint64_t seq;
};

/* Makes and frees a ground: the functions that cmocka calls before and after each test. *state is a struct ground. */
int ground_setup(void **state);
int ground_teardown(void **state);

/* Lets time pass; nothing happens by itself. */
void ground_wait(struct ground *ground, uint64_t ms);

/* The next effect of this kind that the core has put out, or NULL. Effects of other kinds before it are skipped for good. */
const struct node_effect *ground_next(struct ground *ground, enum node_effect_kind kind);

/* A record of another node comes in and is folded: one of the people writes it, newer than every record before. */
void ground_take(struct ground *ground, uint32_t writer, enum fact_kind kind, struct fact_key key, const void *fact);

/* The shell reports a ticket: it is on the disk, or the disk has refused it. */
void ground_persisted(struct ground *ground, uint64_t ticket, bool ok);

/* Takes all memory that is left, or gives it back. */
void ground_fill_memory(struct ground *ground);
void ground_free_memory(struct ground *ground);

#endif
