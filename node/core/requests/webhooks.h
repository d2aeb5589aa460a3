#ifndef NODE_CORE_REQUESTS_WEBHOOKS_H
#define NODE_CORE_REQUESTS_WEBHOOKS_H
/* Webhooks (DESIGN 16). Which events there are follows from the records, and so does what has been told: whichever node
 * is the first for an event tells, and its successor begins with what no record calls told. The shell sends. */

#include "node/core/requests/requests.h"

/* NODE_REQUEST_WEBHOOK, WEBHOOK_REMOVE and WEBHOOK_TEST: write the record, and answer the client. */
void requests_webhook(struct node_core *core, const struct node_event *event);
void requests_webhook_remove(struct node_core *core, const struct node_event *event);
void requests_webhook_test(struct node_core *core, const struct node_event *event);

/* NODE_EVENT_WEBHOOK_TRIED and NODE_EVENT_LOG_MATCHED. */
void requests_webhook_tried(struct node_core *core, const struct node_event *event);
void requests_log_matched(struct node_core *core, const struct node_event *event);

/* As node_core_webhook_due. */
bool requests_webhook_due(struct node_core *core, struct node_webhook_due *out);

/* As node_core_webhook. */
bool requests_find_webhook(const struct node_core *core, experiment_id experiment, uint32_t index,
                           uint8_t id[FACT_HOOK_BYTES], struct config_webhook *out);

/* How long to wait before the next try after so many have failed, in ms; UINT64_MAX: no further one. */
uint64_t requests_webhook_pause_ms(uint32_t tries);

#endif
