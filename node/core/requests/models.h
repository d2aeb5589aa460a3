#ifndef NODE_CORE_REQUESTS_MODELS_H
#define NODE_CORE_REQUESTS_MODELS_H
/* What users write into the model registry. */

#include "node/core/ground/state.h"

/* NODE_REQUEST_MODEL_VERSION and MODEL_SET: write the records, and answer the client. */
void requests_model_version(struct node_core *core, const struct node_event *event);
void requests_model_set(struct node_core *core, const struct node_event *event);

#endif
