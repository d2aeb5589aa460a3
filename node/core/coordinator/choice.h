#ifndef NODE_CORE_COORDINATOR_CHOICE_H
#define NODE_CORE_COORDINATOR_CHOICE_H
/* On which slots a gang begins: a snapshot in, a choice out. A pure function; placing.c fills the snapshot from the core. */

#include <stdbool.h>
#include <stdint.h>

#include "node/core/facts/facts.h"

/* A node that may get new work, at the moment of the choice. Bit i of a mask is slot i. */
struct placing_node {
    node_id node;
    uint64_t usable;       /* slots of the wanted kind that their owner has not taken back, busy or not */
    uint64_t idle;         /* of these: leased to no attempt, and promised to no gang of this coordinator */
    uint64_t refused;      /* of the idle ones: refused a moment ago, and not asked for now */
    uint64_t refused_long; /* of the usable ones: not asked for now, nor after CORE_SLOT_BACKOFF_MS */
    uint32_t unstarted_count; /* how often, since the trial last ran anywhere, the node could not start a worker of it */
    bool is_quarantined;
    bool has_failed;   /* the trial failed on the node, or the node died under it */
    bool is_silent;    /* the node is suspect, or has not answered as an owner: it is not asked now, and again soon */
    bool is_doubtful;  /* a while ago the node did not answer as an owner, or granted nothing */
    bool has_suspect;  /* the trial has lost a host before, and so has a trial that runs on the node or is on its way there */
    bool has_copy;     /* the node holds the checkpoint that the trial begins with */
};

/* What is to be placed, and where it could go. */
struct placing_snapshot {
    uint32_t wanted; /* slots, at least 1 */
    uint32_t least;  /* slots that will do where no more can be had, at least 1 */
    uint64_t waited_ms;    /* how long the trial has waited for a place, or for a better one */
    uint64_t had_least_ms; /* for so long as many slots have been idle as the trial needs at least */
    const struct placing_node *nodes; /* borrowed; by id, ascending */
    uint32_t node_count;
};

struct placing_choice {
    bool has_least; /* as many slots as the trial needs at least are idle, whether or not it can have them now */
    uint32_t member_count; /* at most `wanted`, and at least the smaller of `wanted` and `least` */
    struct fact_assignment members[FACT_MEMBERS_MAX]; /* by (node, slot): every coordinator reserves slots in this order, so no
                                                         two gangs wait for each other */
};

/* Chooses the slots of a gang. False: the trial waits, and only has_least of `out` is set.
 *
 *   1  Nodes in quarantine, and nodes on which the trial failed or could not be started, are left out as long as the other
 *      nodes could hold the gang if none were busy. A node on which the trial failed is left out for CORE_CHOOSY_MS of waiting
 *      at most, and one that could not start it for a time that doubles with each try.
 *   2  The gang has `wanted` slots. If the nodes have fewer, it has as many as there are, and at least `least`. After
 *      CORE_CHOOSY_MS with `least` idle slots it takes those that are idle.
 *   3  If one node has room for the whole gang: a node without another trial that has lost a host; then a node that is not
 *      doubtful; then one with a copy of the checkpoint; then the tightest fit. Otherwise nodes that are not doubtful, those
 *      with the most idle slots first, so that the gang spans few nodes. Ties: the smaller id. */
bool placing_choose(const struct placing_snapshot *snapshot, struct placing_choice *out);

#endif
