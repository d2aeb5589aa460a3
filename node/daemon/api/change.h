#ifndef NODE_DAEMON_API_CHANGE_H
#define NODE_DAEMON_API_CHANGE_H
/* Requests of users that change something, submit apart (local_submit.h): each becomes an event of the core and waits for the
 * core's answer (change_reply_effect), which may come at once or when copies are on other nodes. */

#include "gossip/token.h"
#include "node/daemon/local/local.h"

/* A request that the core has not answered yet. */
struct change_waiting {
    struct change_waiting *next;
    uint64_t key;
    uint64_t serial, id;
    experiment_id experiment;
    bool is_submit, is_invite, is_leave, is_revoke, is_eviction, is_drain, is_slots;
    node_id node; /* is_eviction, is_drain */
    uint8_t invite_key[PUBLIC_KEY_BYTES];
    uint64_t slots; /* is_slots: bit i for slot i */
    struct token token;
};

/* True if the operation is one of these. */
bool change_request(struct daemon *daemon, struct client_request *request, const char *op, size_t op_bytes);

/* A new entry for a request that the caller gives to the core with `key` as its client; NULL without memory. */
struct change_waiting *change_wait(struct daemon *daemon, const struct client_request *request);

/* Forgets all that wait. */
void change_close(struct daemon *daemon);

#endif
