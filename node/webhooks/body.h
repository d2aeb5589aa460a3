#ifndef NODE_WEBHOOKS_BODY_H
#define NODE_WEBHOOKS_BODY_H
/* What a webhook is told, as JSON. Pure functions. */

#include "node/core/core.h"

#define WEBHOOK_BODY_BYTES 8192

/* What a body says beside struct node_webhook_due; texts are borrowed. */
struct webhook_words {
    const char *mesh;       /* the mesh's name */
    const char *experiment; /* the experiment's name; "": of none */
    const char *metric;     /* the searcher's */
    const char *node;       /* the label of due->node */
    uint64_t now_s;
};

/* The type of the event: "experiment.completed" ... */
const char *webhook_type(enum fact_hook_event event);

/* Writes the body: {"type", "timestamp", "data"}, or for form slack {"text"}. Returns its length. */
size_t webhook_body(const struct node_webhook_due *due, const struct webhook_words *words,
                    char out[WEBHOOK_BODY_BYTES]);

#endif
