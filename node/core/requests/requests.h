#ifndef NODE_CORE_REQUESTS_REQUESTS_H
#define NODE_CORE_REQUESTS_REQUESTS_H
/* What users ask of experiments, slots and drains. Every request arrives here. */

#include "node/core/ground/state.h"

/* How far this node is with leaving the mesh.
 *
 *   from      to        when
 *   STAYS     ASKED     a user asks for it (NODE_REQUEST_LEAVE)
 *   ASKED     TOLD      no worker runs here, no copy is on its way and the node is in step: its record that it leaves is written
 *   TOLD      ANSWERED  that record is on disk, and on another node's if one can be reached: the client hears it
 *   ANSWERED  TOLD      a further client asks before the daemon ends: it is answered in the same way */
enum core_leave_state {
    CORE_LEAVE_STAYS,
    CORE_LEAVE_ASKED,
    CORE_LEAVE_TOLD,
    CORE_LEAVE_ANSWERED,
    CORE_LEAVE_STATES
};

struct core_requests {
    enum core_leave_state leave;
    uint64_t leave_client; /* from ASKED on: the client that asked first; ANSWERED -> TOLD: the one that asked then */
    uint64_t leave_ticket; /* from TOLD on: every write up to this ticket is to be on disk before the client is answered */
};

void core_requests_receive(struct node_core *core, const struct node_event *event); /* NODE_EVENT_REQUEST */
void core_requests_housekeep(struct node_core *core);

/* The present value of a pause or drain register that a user of this node has set since this boot; another node may have
 * overwritten it since. */
struct core_register {
    enum fact_kind kind; /* CONTROL or DRAIN; 0: there is none */
    experiment_id experiment;
    node_id node;
    bool is_on; /* paused, or drained */
    bool at_once;
};

/* The register whose record an own record of an earlier boot, `given`, is about to replace. */
struct core_register core_requests_register(const struct node_core *core, const struct record *given);

/* After the replacement: writes the register's value again, above all that is known now. Clients that waited for the replaced
 * record wait for this one. */
void core_requests_restore(struct node_core *core, const struct core_register *value);

#endif
