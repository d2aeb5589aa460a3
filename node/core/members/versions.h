#ifndef NODE_CORE_MEMBERS_VERSIONS_H
#define NODE_CORE_MEMBERS_VERSIONS_H
/* Which versions of the protocol a node speaks. */

#include "node/core/members/members.h"

/* False: this node and that one share no version of the protocol, by what that one announces and by its messages. A third node
 * that speaks both may still report that it lives, and bring its records. */
bool core_node_speaks(const struct node_core *core, node_id node);

/* The versions that the node speaks as far as they are known here; newest 0: nothing is known. */
struct version_range core_node_versions(const struct node_core *core, node_id node);

/* A message of a version came that is not understood here. */
void core_versions_foreign(struct node_core *core, node_id from, uint32_t version);

#endif
