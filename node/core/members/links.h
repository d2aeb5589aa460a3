#ifndef NODE_CORE_MEMBERS_LINKS_H
#define NODE_CORE_MEMBERS_LINKS_H
/* Which nodes reached one another on which network (DESIGN 6, 8). Each node publishes what it found itself (struct fact_links).
 *
 * A network is named by its prefix, "10.9.0.0/24", or "4" and "6": all of IPv4 or IPv6, where each node counts by the first address
 * of that family that it announces and that is not link-local. Link-local IPv6 is no network: its addresses need a zone, and
 * programs cannot be given one that is right on every node. */

#include "node/core/members/members.h"

struct core_links {
    bool has_own;   /* `own` was published in this boot */
    uint64_t looked_ms; /* when it was last looked at; 0: never */
    uint32_t count; /* publications so far, or more: unused ones are kept up to CORE_LINKS_AT_ONCE only */
    struct fact_links own;
};

/* Publishes what this node found, if it differs from what it published: CORE_LINKS_AT_ONCE times, then one time in
 * CORE_LINKS_MS. */
void links_housekeep(struct node_core *core);

/* Publishes it again under a new boot. */
void links_restate(struct node_core *core);

/* Writes the networks of a node, prefixes first, at most FACT_NETWORKS_MAX; returns how many. */
uint32_t links_networks(const struct node_core *core, node_id node, char out[FACT_NETWORKS_MAX][FACT_NETWORK_BYTES]);

/* True if the two nodes reached each other on the network. A node of a version without LINKS records counts by what the other
 * one found. */
bool links_joins(const struct node_core *core, node_id a, node_id b, const char *network);

/* True if the node's version tells no networks. */
bool links_is_older(const struct node_core *core, node_id node);

/* Writes a network on which all of the nodes reached one another: the fastest prefix, else "4" or "6". False: there is none; `a`
 * and `b` are then two nodes that share none at all, or the first two. */
bool links_common(const struct node_core *core, const node_id *nodes, uint32_t count, char out[FACT_NETWORK_BYTES], node_id *a,
                  node_id *b);

/* Writes the network of an attempt, by its record; empty: it names none, or is not here. */
void links_of_attempt(const struct node_core *core, const attempt_id *attempt, char out[FACT_NETWORK_BYTES]);

/* False if the node announces addresses, and none with this host. */
bool links_announces(const struct node_core *core, node_id node, const char *host);

/* Writes the host of this node in a network of links_common; of its first address if it has none there any more, or if
 * `network` is empty. Empty: this node has no address. */
void links_own_host(const struct node_core *core, const char *network, char *out, size_t size);

#endif
