#ifndef NODE_DAEMON_API_CHANGE_H
#define NODE_DAEMON_API_CHANGE_H
/* Requests of users that change something, except submit (submit.h): each becomes an event of the core and waits for
 * the core's answer. The core may answer at once, or only after copies are on other nodes. */

#include "gossip/token.h"
#include "node/daemon/api/client.h"

/* A request that the core has not answered yet. */
struct change_waiting {
    struct change_waiting *next;
    uint64_t key;        /* the core's name for the request (its "client") */
    uint64_t serial, id; /* the client and the id of its request */
    experiment_id experiment;
    bool is_submit, is_invite, is_leave, is_revoke, is_eviction, is_drain, is_slots, is_trial, is_token, is_secret, is_webhook, is_model;
    uint32_t trial; /* is_trial */
    node_id node; /* is_eviction, is_drain */
    uint8_t invite_key[PUBLIC_KEY_BYTES]; /* is_invite, is_revoke; is_token: the token's hash; is_model: the version's id, or zeros */
    char model[FACT_MODEL_NAME_BYTES];    /* is_model */
    char secret[80];                      /* is_token: the new token; "": it is revoked */
    char name[FACT_NAME_BYTES];           /* is_secret */
    uint64_t slots; /* is_slots: bit i for slot i */
    struct token token;
};

/* Handlers of the table (table.h). `kind` is the enum node_request_kind for the core. A missing or malformed argument
 * is answered at once with EXIT_USAGE, an unknown subject with EXIT_NOT_FOUND, and the rest by change_reply_effect. */
void change_control(struct daemon *daemon, struct client_request *request, int kind); /* cancel, pause, resume, delete */
void change_trial(struct daemon *daemon, struct client_request *request, int kind); /* stop, retry */
void change_describe_trial(struct daemon *daemon, struct client_request *request, int argument);
void change_annotate(struct daemon *daemon, struct client_request *request, int subject); /* an enum fact_subject */
void change_slots(struct daemon *daemon, struct client_request *request, int kind);   /* withhold, return */
void change_policy(struct daemon *daemon, struct client_request *request, int kind);  /* owner_policy */
void change_node_slots(struct daemon *daemon, struct client_request *request, int kind); /* the same, of any node */
void change_drain(struct daemon *daemon, struct client_request *request, int kind);   /* drain, undrain */
void change_invite(struct daemon *daemon, struct client_request *request, int kind);
void change_revoke(struct daemon *daemon, struct client_request *request, int kind);
void change_evict(struct daemon *daemon, struct client_request *request, int kind);
void change_leave(struct daemon *daemon, struct client_request *request, int kind);

/* Adds an entry for a request; the caller gives the request to the core with the entry's `key` as its client. The list
 * owns the entry until change_reply_effect. NULL: memory is full; the request then gets no answer. */
struct change_waiting *change_wait(struct daemon *daemon, const struct client_request *request);

/* Performs NODE_EFFECT_REPLY: answers the request if its client is still there, and stops the daemon after a `leave`. */
void change_reply_effect(struct daemon *daemon, const struct node_effect *effect);

/* Frees all waiting entries, without answers. */
void change_close(struct daemon *daemon);

#endif
