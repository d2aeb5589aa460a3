#ifndef NODE_CORE_MEMBERS_PROGRAMS_H
#define NODE_CORE_MEMBERS_PROGRAMS_H
/* Which programs this node has, told to the mesh: coordinators prefer nodes that have what an entrypoint names. */

#include "node/core/ground/state.h"

/* Publishes the list (the body of a FACT_PROGRAMS) if it differs from our record. Nothing while this node catches up: others may
 * hold a newer record. The shell repeats the event. */
void core_programs_found(struct node_core *core, const uint8_t *body, uint32_t body_bytes);

#endif
