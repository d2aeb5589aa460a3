#ifndef TESTS_SIM_OWNERS_H
#define TESTS_SIM_OWNERS_H
/* Owners who take slots of their machines back and return them, and people who drain nodes, in some of the seeds with
 * faults; from version 7 of plans on these are a class of faults (FAULT_OWNERS). After the heal everything is returned and undrained, as often as it takes: a word that nobody had heard of may
 * come to light. */

struct sim;
struct sim_event;

void owners_init(struct sim *sim);
void owners_strike(struct sim *sim); /* one request, with the draws of the strike under way */
void owners_act(struct sim *sim, struct sim_event *event);

#endif
