#ifndef TESTS_SIM_TRACE_H
#define TESTS_SIM_TRACE_H
/* What a run leaves to compare and to read: a hash over all that came to a core and all that it did, of an event and an
 * effect its node, time, kind, whom it is for and bytes; and the last lines in words (sim_trace, sim_fail). */

#include <stdint.h>

struct sim;
struct node_event;
struct node_effect;
struct event_about;

/* The time, and what the world did then. */
void trace_word(struct sim *sim, uint64_t word);

void trace_event(struct sim *sim, const struct node_event *event);

/* `before`: the effect before it in this step, or NULL. What goes to several peers is hashed once. */
void trace_effect(struct sim *sim, const struct node_effect *effect, const struct node_effect *before);

/* A line of the core that is at work; the context is the sim. */
void trace_core_line(void *context, const struct event_about *about, const char *text);

/* The last lines. Calls nothing that a signal's handler may not call. */
void trace_write(const struct sim *sim, int file);

#endif
