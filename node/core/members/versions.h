#ifndef NODE_CORE_MEMBERS_VERSIONS_H
#define NODE_CORE_MEMBERS_VERSIONS_H
/* Which versions of the protocol a node speaks. */

#include "node/core/members/members.h"

/* False if we and `node` share no version of the protocol, by the record and the messages of `node`. A third node may speak
 * both versions, report `node` alive, and bring records of `node`. */
bool core_node_speaks(const struct node_core *core, node_id node);

/* The versions that the node speaks, as far as we know; newest 0: nothing is known. */
struct version_range core_node_versions(const struct node_core *core, node_id node);

/* NODE_EVENT_FOREIGN: a message came in a version that we do not speak. Counted, and traced now and then. */
void core_versions_foreign(struct node_core *core, node_id from, uint32_t version);

#endif
