#ifndef NODE_CORE_COORDINATOR_CHOICE_H
#define NODE_CORE_COORDINATOR_CHOICE_H
/* The choice of slots for a gang: a snapshot in, a choice out. A pure function; placing.c fills the snapshot from the core. */

#include <stdbool.h>
#include <stdint.h>

#include "node/core/facts/facts.h"

/* A possible node for new work, at the moment of the choice. Bit i of a mask is slot i. */
struct placing_node {
    node_id node;
    uint32_t slot_count;   /* of `usable`, and of the same kind on devices that the gang cannot have with others */
    uint64_t usable;       /* slots of the wanted kind, busy or not, except slots taken back by the owner */
    uint64_t idle;         /* usable slots, leased to no attempt and promised to no gang of the coordinator */
    uint64_t refused;      /* idle slots, refused a moment ago and not asked for now */
    uint64_t refused_long; /* usable slots, not asked for now nor after CORE_SLOT_BACKOFF_MS */
    uint32_t unstarted_count; /* how often, since the trial last ran anywhere, the node could not start a worker */
    bool is_quarantined;
    bool has_failed;   /* the trial failed on the node, or the node died soon after the trial's start */
    bool is_silent;    /* the node is suspect, or has not answered as an owner: not asked now, and again soon */
    bool is_doubtful;  /* a while ago the node did not answer as an owner, or granted nothing */
    bool has_suspect;  /* the trial has lost a host before, and so has a trial on the node or on the way there */
    bool lacks_program; /* the node has looked for the program that the entrypoint names, and has it not */
    bool has_copy;     /* the node holds the checkpoint with which the trial begins */
};

/* A trial or a joiner to be placed, and the possible nodes. */
struct placing_snapshot {
    uint32_t wanted; /* slots, at least 1 */
    uint32_t least;  /* slots, at least 1: enough where no more can be had */
    uint64_t waited_ms;    /* how long the trial has waited for a place, or for a better place */
    uint64_t had_least_ms; /* for how long at least `least` slots have been idle */
    bool is_even;          /* the gang has the same number of slots on each of its nodes */
    bool is_awaited;       /* a member that is away may have the program, and slots of the wanted kind */
    const struct placing_node *nodes; /* borrowed; by id, ascending */
    uint32_t node_count;
};

struct placing_choice {
    bool has_least; /* at least `least` slots are idle, whether or not the trial can have them now */
    uint32_t member_count; /* at most `wanted`, and at least the smaller of `wanted` and `least` */
    struct fact_assignment members[FACT_MEMBERS_MAX]; /* by (node, slot), the order of all reservations: so no two gangs wait
                                                         for each other */
    char network[FACT_NETWORK_BYTES]; /* of the gang; filled in by placing.c */
};

/* Chooses the slots of a gang. False: the trial waits, and only has_least of `out` is set.
 *
 *   0  Nodes that lack the program are left out as long as the remaining nodes could hold `least` slots if none were busy; and,
 *      while a member is awaited, for CORE_BETTER_PLACE_MS of waiting at most. An attempt on them would fail, so this is no
 *      matter of patience.
 *   1  Nodes in quarantine, and nodes where the trial failed or could not be started, are left out as long as the remaining
 *      nodes could hold the gang if none were busy. A failure leaves a node out for CORE_BETTER_PLACE_MS of waiting at most, a
 *      failed start for a time that doubles with each try.
 *   2  The gang has `wanted` slots; if there are fewer, all there are, and at least `least`. After CORE_BETTER_PLACE_MS with
 *      `least` idle slots the gang takes the idle slots.
 *      An even gang counts slots only as far as they can be even: of 3 free slots here and 1 there it can have 3.
 *   3  A single node with room for the whole gang: first a node without another trial that has lost a host; then a node without
 *      doubt; then a node with a copy of the checkpoint; then the tightest fit. Several nodes: first nodes without doubt, then
 *      nodes with the most idle slots, so that the gang spans few nodes. An even gang: as few nodes as possible, without
 *      doubtful ones if it can be, and of those with enough slots the ones that a single node would be chosen by. Ties: the
 *      smaller id. */
bool placing_choose(const struct placing_snapshot *snapshot, struct placing_choice *out);

/* The number of slots in a mask. */
uint32_t placing_count(uint64_t mask);

/* The most slots that the gang could have if none were busy; of an even gang at most `wanted`. */
uint32_t placing_most(const struct placing_snapshot *snapshot);

/* True if nodes that lack the program are left out (0 above). */
bool placing_leaves_out_lacking(const struct placing_snapshot *snapshot);

/* Why a node is left out now (0 and 1 above). */
enum placing_omission { PLACING_INCLUDED, PLACING_LACKS_PROGRAM, PLACING_QUARANTINED, PLACING_HAS_FAILED };

/* Writes the answer for each node of the snapshot to `out`, which has node_count places. */
void placing_omissions(const struct placing_snapshot *snapshot, enum placing_omission *out);

/* The rules by which nodes are left out (1 above), from the strictest to none. A node where everything fails at once is always
 * idle, so such a node is left out even while all others are busy. A quarantine ends by itself. But the other nodes may be busy
 * for weeks, or a process that does not die may hold the slots: hence the bound CORE_BETTER_PLACE_MS. A node that could not
 * start the trial is left out for a while only, since the lack may be over by now. */
enum placing_care { PLACING_CARE_FOR_ALL, PLACING_CARE_FOR_FAILURES, PLACING_CARE_FOR_NOTHING };

/* True if the rules leave the node out of the snapshot's gang. */
bool placing_omits(const struct placing_snapshot *snapshot, enum placing_care care, const struct placing_node *node);

/* True if the nodes that the rules do not leave out could hold `wanted` slots if none were busy. */
bool placing_could_hold(const struct placing_snapshot *snapshot, enum placing_care care);

#endif
