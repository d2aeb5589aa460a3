#ifndef TESTS_SIM_FAULTS_H
#define TESTS_SIM_FAULTS_H
/* The storm: faults at the moments that the seed draws; and the heal, after which a core of nodes is whole again. */

struct sim;
struct sim_event;

void faults_init(struct sim *sim);
void faults_strike(struct sim *sim, struct sim_event *event);
void faults_heal(struct sim *sim);

#endif
