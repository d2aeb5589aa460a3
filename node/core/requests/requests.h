#ifndef NODE_CORE_REQUESTS_REQUESTS_H
#define NODE_CORE_REQUESTS_REQUESTS_H
/* Requests of users: every request arrives here. Experiments, slots and drains are in requests.c, members in members.c. */

#include "node/core/ground/state.h"

/* How far this node is with leaving the mesh.
 *
 *   from      to        when
 *   STAYS     ASKED     a client asks (NODE_REQUEST_LEAVE)
 *   ASKED     TOLD      no worker runs here, no copy is under way and syncing is over: our node record, `left`, is written
 *   TOLD      ANSWERED  the record is on our disk, and stored by another node or in vain offered: the client is answered
 *   ANSWERED  TOLD      a further client asks before the daemon ends, and is answered likewise */
enum core_leave_state {
    CORE_LEAVE_STAYS,
    CORE_LEAVE_ASKED,
    CORE_LEAVE_TOLD,
    CORE_LEAVE_ANSWERED,
    CORE_LEAVE_STATES
};

struct core_requests {
    enum core_leave_state leave;
    uint64_t leave_client; /* from ASKED on: the client to answer */
    uint64_t leave_ticket; /* from TOLD on: the client is answered once every write up to here is on disk */
};

void core_requests_receive(struct node_core *core, const struct node_event *event); /* NODE_EVENT_REQUEST */
void core_requests_housekeep(struct node_core *core); /* goes on with a leave, and with requests that wait for a second disk */

/* The present value of a pause, drain or stop register that a user of this node has set since this boot; another node may have
 * overwritten it since. */
struct core_register {
    enum fact_kind kind; /* CONTROL, DRAIN or STOP; 0: no register */
    experiment_id experiment; /* CONTROL, STOP */
    uint32_t trial;           /* STOP */
    node_id node;             /* DRAIN */
    bool is_on;               /* paused, drained or stopped */
    bool at_once;             /* DRAIN */
};

/* The register whose record is about to be replaced by `given`, our own record of another boot. Kind 0: none is. */
struct core_register core_requests_register(const struct node_core *core, const struct record *given);

/* After the replacement: writes the register's value again, with a clock above all known clocks. Clients that waited for the
 * replaced record wait for the new one. */
void core_requests_restore(struct node_core *core, const struct core_register *value);

#endif
