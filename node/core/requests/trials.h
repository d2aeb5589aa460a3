#ifndef NODE_CORE_REQUESTS_TRIALS_H
#define NODE_CORE_REQUESTS_TRIALS_H
/* Stops and retries of single trials. */

#include "node/core/ground/disk.h"
#include "node/core/requests/requests.h"

/* A living node of a version that lacks one of these FACT_READS_...; NULL: there is none. */
const struct view_member *requests_find_unable(const struct node_core *core, uint64_t reads);

/* NODE_REQUEST_STOP and RETRY: write the record, and answer the client. */
void requests_stop(struct node_core *core, const struct node_event *event);
void requests_retry(struct node_core *core, const struct node_event *event);

#endif
