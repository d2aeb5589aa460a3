#ifndef NODE_CORE_REQUESTS_TOKENS_H
#define NODE_CORE_REQUESTS_TOKENS_H
/* Tokens of the HTTP door. The record holds a token's hash, so that every node knows the token by its text and none can
 * tell it. */

#include "node/core/requests/requests.h"

/* As node_core_find_door_token. */
bool core_find_door_token(const struct node_core *core, const uint8_t hash[HASH_BYTES], struct fact_token *out);

/* NODE_REQUEST_TOKEN and TOKEN_REVOKE: write the record, and answer the client. */
void requests_token(struct node_core *core, const struct node_event *event);
void requests_token_revoke(struct node_core *core, const struct node_event *event);

#endif
