#ifndef TESTS_SIM_OWNERS_H
#define TESTS_SIM_OWNERS_H
/* Owners who take slots of their machines back and return them, and people who drain nodes, in some of the seeds with
 * faults; from version 7 of plans on these are a class of faults (FAULT_OWNERS). After the heal everything is returned and undrained, as often as it takes: a word that nobody had heard of may
 * come to light. */

#include <stdint.h>

#include "node/core/core.h"

#define OWNERS_CLIENT (UINT64_C(1) << 40) /* above all users' */
#define OWNERS_REQUESTS_MAX 16            /* the latest */

struct sim;
struct sim_event;

/* WITHHOLD, RETURN, DRAIN, UNDRAIN. */
struct owners_request {
    uint64_t serial;
    enum node_request_kind kind;
    int node, whom; /* who is asked; who is drained, or not any more, */
    node_id who;    /* ... by the key that it had then */
    uint64_t slots;  /* bits, none: all that it has */
    uint64_t for_s;  /* 0: until they are returned */
};

struct owners {
    uint64_t count; /* ever; position modulo OWNERS_REQUESTS_MAX */
    struct owners_request requests[OWNERS_REQUESTS_MAX];
};

void owners_init(struct sim *sim);
void owners_strike(struct sim *sim); /* one request, with the draws of the strike under way */
void owners_act(struct sim *sim, struct sim_event *event);
void owners_reply(struct sim *sim, const struct node_effect *effect); /* to a client from OWNERS_CLIENT on */

#endif
