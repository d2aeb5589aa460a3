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

#define CORE_TOLD_MAX 64
#define CORE_TOLD_FORGET_MS 7200000 /* longer than any pause between two tries */
#define CORE_SETTLED_MAX 512

/* An event that this node tells a webhook (webhooks.h). */
struct core_told {
    bool is_used, is_sending;
    experiment_id experiment;
    uint8_t subject[FACT_SUBJECT_BYTES];
    uint64_t number;
    uint64_t next_ms; /* not before */
    uint64_t seen_ms; /* when the event was last found untold */
};

/* An experiment of which nothing is left to be told while its signature stays. */
struct core_settled {
    experiment_id experiment;
    uint64_t signature;
};

struct core_requests {
    enum core_leave_state leave;
    uint64_t leave_client; /* from ASKED on: the client to answer */
    struct core_told told[CORE_TOLD_MAX];
    struct core_settled settled[CORE_SETTLED_MAX];
    uint64_t secrets_due, secrets_stale; /* view.secret_count when no member lacked a copy, and no copy was stale; 0: not known */
    uint64_t secrets_roster;             /* the members by then */
    uint32_t webhook_turn; /* the experiment that was last looked at for events */
    uint64_t tests;        /* of webhooks in this boot */
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
