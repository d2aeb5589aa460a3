#ifndef NODE_CORE_OWNER_USAGE_CHECK_H
#define NODE_CORE_OWNER_USAGE_CHECK_H
/* What other nodes count of their slots, compared with the records of these slots, which all nodes see. The owner's count is the one
 * that counts; a difference is an event line that names the owner. */

#include "node/core/owner/owner.h"

/* Looks at the slots of all nodes, and compares each node's time once an hour in which that node was alive without a break. */
void usage_check_housekeep(struct node_core *core);

/* After a suspend of this node nothing is known of the time between: all begin anew. */
void usage_check_begin_anew(struct node_core *core);

/* True if what was said of so many slots is further from what was seen than a twentieth, and than records may be late by. */
bool usage_check_differs(uint64_t seen_ms, uint64_t said_ms, uint32_t slots);

#endif
