#ifndef TESTS_SIM_FAULTS_H
#define TESTS_SIM_FAULTS_H
/* The storm: faults at the moments that the seed draws; and the heal, after which a core of nodes is whole again. */

#include <stdbool.h>
#include <stdint.h>

struct sim;
struct sim_event;

void faults_init(struct sim *sim);
void faults_strike(struct sim *sim, struct sim_event *event);
void faults_heal(struct sim *sim);

/* A new key that none of the others in the core was told of: nobody lets it in. */
bool faults_is_stranger(const struct sim *sim, int node);

/* The machine of a poison trial goes down, or a daemon in the middle of its commits. */
void faults_strike_down(struct sim *sim, struct sim_event *event);
void faults_crash_at_commit(struct sim *sim, int node);

/* The answer to a node's own request to leave. */
#define FAULTS_LEAVE_CLIENT (UINT64_C(1) << 41)
void faults_left(struct sim *sim, int node);

void faults_upset(struct sim *sim, int node, uint64_t until_ms); /* a fault that concerns it lasts till then */

#define FAULTS_EVICT_CLIENT (UINT64_C(1) << 42) /* nobody waits for the answer */
#define FAULTS_JOIN_CLIENT (UINT64_C(1) << 43)  /* and the machine that joins */

#endif
