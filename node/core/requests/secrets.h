#ifndef NODE_CORE_REQUESTS_SECRETS_H
#define NODE_CORE_REQUESTS_SECRETS_H
/* Secrets of the mesh (DESIGN 11). The shell seals and opens; this room decides who gets a copy, and writes the
 * records. */

#include "node/core/requests/requests.h"

/* NODE_REQUEST_SECRET and SECRET_REMOVE: write the records, and answer the client. */
void requests_secret(struct node_core *core, const struct node_event *event);
void requests_secret_remove(struct node_core *core, const struct node_event *event);

/* NODE_EVENT_SECRET_COPIES: writes further copies of a value that still counts. */
void requests_secret_copies(struct node_core *core, const struct node_event *event);

/* As node_core_secret_due. */
bool requests_secret_due(const struct node_core *core, struct node_secret_due *out);

/* Takes back the copies of values of this node that count no more. */
void requests_secrets_housekeep(struct node_core *core);

#endif
