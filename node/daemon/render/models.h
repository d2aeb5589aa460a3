#ifndef NODE_DAEMON_RENDER_MODELS_H
#define NODE_DAEMON_RENDER_MODELS_H
/* The model registry as a document; see render.h. */

#include "node/core/core.h"

/* Writes `registry`: a list of entries, of one model (`name`) or of all (""); docs/wire.md has their kinds. */
#define RENDER_MODELS_PAIRS 1
bool render_models(const struct node_core *core, const char *name, uint32_t *from, struct pack_writer *frame);

#endif
