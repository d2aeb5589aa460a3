#ifndef NODE_DAEMON_API_CHANGE_H
#define NODE_DAEMON_API_CHANGE_H
/* Requests of users that change something, submit apart (submit.h): each becomes an event of the core and waits for the
 * core's answer, which may come at once or when copies are on other nodes. */

#include "gossip/token.h"
#include "node/daemon/api/client.h"

/* A request that the core has not answered yet. */
struct change_waiting {
    struct change_waiting *next;
    uint64_t key;        /* what the core knows its asker by */
    uint64_t serial, id; /* of the client and its request */
    experiment_id experiment;
    bool is_submit, is_invite, is_leave, is_revoke, is_eviction, is_drain, is_slots;
    node_id node; /* is_eviction, is_drain */
    uint8_t invite_key[PUBLIC_KEY_BYTES];
    uint64_t slots; /* is_slots: bit i for slot i */
    struct token token;
};

/* Handlers of the table (table.h). `kind` is the enum node_request_kind that the core is asked for. Arguments that are missing
 * or of another form are answered at once, with an error of code EXIT_USAGE; what is not known here with EXIT_NOT_FOUND. */
void change_control(struct daemon *daemon, struct client_request *request, int kind); /* cancel, pause, resume, delete */
void change_slots(struct daemon *daemon, struct client_request *request, int kind);   /* withhold, return */
void change_drain(struct daemon *daemon, struct client_request *request, int kind);   /* drain, undrain */
void change_invite(struct daemon *daemon, struct client_request *request, int kind);
void change_revoke(struct daemon *daemon, struct client_request *request, int kind);
void change_evict(struct daemon *daemon, struct client_request *request, int kind);
void change_leave(struct daemon *daemon, struct client_request *request, int kind);

/* A new entry for a request that the caller gives to the core with `key` as its client; NULL without memory: the request then
 * gets no answer. The entry is the list's, until change_reply_effect. */
struct change_waiting *change_wait(struct daemon *daemon, const struct client_request *request);

/* Performs NODE_EFFECT_REPLY: answers the request, if its client is still there, and ends the daemon after a `leave`. */
void change_reply_effect(struct daemon *daemon, const struct node_effect *effect);

/* Forgets all that wait, without an answer. */
void change_close(struct daemon *daemon);

#endif
