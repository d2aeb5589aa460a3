#ifndef NODE_DAEMON_API_MODELS_H
#define NODE_DAEMON_API_MODELS_H
/* The model registry (docs/mlflow.md): requests that read it, and that write into it. */

#include "node/daemon/api/client.h"

/* Handlers of the table (table.h). */
void models_list(struct daemon *daemon, struct client_request *request, int argument);

/* A new version. Its number comes from one node for all of the mesh that it reaches, so that two that are made at the same time get two
 * numbers: the request is passed on to that node as model_grant (models_grant), with the version's record. */
void models_register(struct daemon *daemon, struct client_request *request, int argument);
void models_grant(struct daemon *daemon, struct client_request *request, int argument);

/* `subject`: an enum fact_model_subject. EXISTS begins a model; VERSION removes a version, or without one the model. */
void models_set(struct daemon *daemon, struct client_request *request, int subject);

#endif
