#ifndef NODE_CORE_COORDINATOR_COORDINATION_H
#define NODE_CORE_COORDINATOR_COORDINATION_H
/* What a coordinator holds of its experiments beyond their records. All of it is volatile: a successor notices it again. */

#include "gossip/election.h"
#include "node/core/ground/state.h"

/* A gang: the slots of one attempt, or of members that join one, on their way to it.
 *
 *      RESERVING --every slot is reserved--> RECORDING --the record is on disk--> CONFIRMING --every slot is confirmed--> OVER
 *          |                                     |                                     |
 *          '-------------------------------------'-------------------------------------'--> OVER, incomplete
 *
 *   incomplete     An owner refused a slot; the time of the state is over; the gang is not wanted any more; a node of it is
 *                  lost; or this node coordinates the experiment no longer. */
enum core_gang_state {
    CORE_GANG_RESERVING,  /* its owners are asked to reserve the slots, node after node in the order of slots */
    CORE_GANG_RECORDING,  /* the record that names its members is on its way to the disk */
    CORE_GANG_CONFIRMING, /* its owners are asked to lease the slots to it */
    CORE_GANG_OVER,       /* it is in no list any more: complete, or given up */
    CORE_GANG_STATES
};

struct core_gang {
    struct core_gang *next;
    attempt_id attempt;
    enum core_gang_state state; /* changed by gang_move (gangs.c) only */
    uint32_t member_count; /* 1 ... FACT_MEMBERS_MAX */
    uint32_t reserved_count; /* how many of `reserved` are true: below member_count while RESERVING, then equal to it */
    bool reserved[FACT_MEMBERS_MAX]; /* changes while RESERVING */
    bool confirmed[FACT_MEMBERS_MAX]; /* CONFIRMING; all false before */
    struct fact_assignment members[FACT_MEMBERS_MAX]; /* in the order (node, slot) */
    struct record_version recorded; /* RECORDING: the version that is to come to the disk; an older one may be on its way, too */
    struct election_claim claim; /* the claim under which this node asks the owners */
    uint16_t asking;       /* RESERVING: tells answers to this gang from answers to an earlier gang of the same attempt */
    uint64_t asked_ms;     /* RESERVING, CONFIRMING: when the owner that has not answered was first asked */
    bool is_joining;       /* its members join an attempt that lives, with numbers from first_number on */
    uint32_t first_number; /* the number of the first member in its attempt; 0 where the attempt begins */
    uint8_t group_key[MESSAGE_KEY_BYTES]; /* the key of the attempt's first group; zero while joining */
    uint64_t resend_ms; /* RESERVING, CONFIRMING: when the owners without an answer are asked again */
    uint64_t until_ms;  /* when the gang is given up in its present state */
};

/* How long a trial has waited for a place, or for a better one. watch_check (watch.h) checks the rule of least_ms. */
struct core_waiting {
    uint64_t since_ms; /* 0: the trial does not wait */
    uint64_t least_ms; /* while it waits: since when as many slots have been free as it needs at least; 0: fewer are free */
};

/* The group of a living attempt while the group is broken. All times are 0 while the group is whole. */
struct core_broken {
    uint64_t since_ms;    /* since when the group is broken; while it may go on beyond a cut, the last look at it */
    uint64_t unsure_ms;   /* of some member it is not known whether the member lives */
    uint64_t gathered_ms; /* all members that are here have left the group, or had their time to leave it */
    uint64_t stopping_ms; /* all members that are here are asked to stop */
    uint64_t behind_ms;   /* members that are heard name a later group than the records do */
};

/* What the coordinator has noticed about one attempt. A time says since when something holds; 0: it does not hold. The
 * functions of watch.h move the times that depend on each other, and watch_check checks them after each pass.
 *
 *   the attempt    set                                   moves
 *   -----------    ----------------------------------    -----------------------------------------------------------------
 *   lives          since_ms; failed_ms, stopped_ms       The first pass that sees the attempt makes the watch. since_ms is
 *                  and idle_ms, each for itself          set anew when this node begins to lead again.
 *   given up       waiting, beside those                 A node has not answered for longer than patience lasts, and placing
 *   for lost                                             looks for another place. The attempt lives again with the answer.
 *   has ended      ended_ms from the second loss in      It has a verdict. Times of the living attempt stay as they were,
 *                  a row on; waiting while its trial     and nothing reads them. The watch is dropped once the trial does
 *                  waits for a place                     not wait any more.
 *
 * The group of a living attempt whose program can change its group (elastic.c):
 *
 *             watch_broken_begin           .------- watch_broken_anew: the larger side of a cut may go on elsewhere;
 *      WHOLE --------------------> BROKEN <'        since_ms moves to now, unsure_ms and gathered_ms are dropped
 *        ^                           |
 *        '---------------------------'
 *              watch_broken_end
 *
 *   -> BROKEN      A member is gone or dead or has left the group; or no node has the group's key; or a claim above this
 *                  node's has changed the group.
 *   -> WHOLE       The next generation has begun, and all of its members are there.
 *
 *   in `broken`    while the group is broken
 *   -----------    -------------------------------------------------------------------------------------------------------
 *   stopping_ms    Set while the group is asked to stop; the other times stay as they are meanwhile.
 *   behind_ms      Set while members name a group whose record is missing here, although every member's node is heard.
 *   unsure_ms      Set while some member is neither known to live nor known to be lost.
 *   gathered_ms    Set once the members that are here have left the group, or had their time to; kept until WHOLE or anew.
 *
 * Members that join:
 *
 *   wants_ms       Set by the first look for a place for one more member; until a joiner is ready, or waits are forgotten.
 *   joined_ms      Set while a joiner is on its way: from its record on, until no record names a joiner.
 *   join_ms        Set by each lost joiner, and kept. join_losses counts the joiners lost since one was last ready. */
struct core_watch {
    attempt_id attempt;
    uint64_t since_ms;   /* when the watch began */
    uint64_t failed_ms;  /* a member of the group has failed */
    uint64_t stopped_ms; /* a worker of the attempt has ended because it was asked to stop */
    uint64_t idle_ms;    /* a slot of the attempt is not leased to it */
    uint64_t ended_ms;   /* the attempt has ended; 0 also before anything has asked */
    struct core_waiting waiting; /* ended, or given up for lost: its trial waits for a place */
    uint64_t wants_ms;    /* its group wants one more member, and no joiner is ready */
    uint64_t joined_ms;   /* a joiner is on the way to its group */
    uint64_t join_ms;     /* no joiner is asked before this time */
    uint32_t join_losses; /* so many joiners in a row were lost before they waited for their group */
    struct core_broken broken;
    uint64_t step;        /* the group's step as reported */
    uint64_t stepped_ms;  /* when `step` was reported; 0: not in this generation */
    uint64_t step_ms_max; /* the longest time between two steps */
    uint32_t step_generation; /* the generation that `step` is of */
    uint64_t seen_pass; /* the last pass that looked at the attempt: watches of ended attempts are dropped */
};

/* The key of a generation that this coordinator has made, until all its members have come into the group. */
struct core_regroup {
    struct core_regroup *next;
    attempt_id attempt;
    uint32_t generation;
    struct record_version recorded; /* the version that is to come to the disk; an older one may be on its way, too */
    bool on_disk; /* the record */
    uint64_t resend_ms;
    uint8_t key[MESSAGE_KEY_BYTES];
};

/* One experiment. Rows exist on nodes that do not coordinate it, too: they follow its election. */
struct core_coordination {
    struct core_coordination *next; /* by experiment id */
    experiment_id experiment;
    struct election election;
    bool claiming; /* a claim is on its way to the disk; if election.claiming alone, there was no memory for it */
    bool settled;  /* nothing is left to coordinate until its records change */
    struct core_gang *gangs;
    uint16_t askings; /* gangs that it has asked for, modulo 65536 */
    struct core_watch **watches; /* by trial, then attempt */
    uint32_t watch_count, watch_slots;
    struct core_regroup *regroups;
    uint64_t claim_ms; /* a claim for which there was no memory is not tried again before this time */
    uint64_t renew_ms;
    uint32_t renew_from;       /* the trial with which the renewals go on that did not fit into the last step */
    uint32_t unstarted_losses; /* attempts in a row, of any trial, that were lost because a node could not start them */
    uint32_t waiting_trial;      /* the trial without any attempt that was last considered, */
    struct core_waiting waiting; /* and how long trials without any attempt have waited for a place for it */
    uint64_t unconfirmed_ms; /* since when no record confirms the highest claim; 0: one does, or its node does not live */
    struct election_claim unconfirmed; /* that claim */
    uint64_t led_ms;       /* when it last looked at what to do */
    uint64_t hand_over_ms; /* drained: it hands over at this time at the earliest, so that nodes do not play catch */
    uint64_t pass;
    int32_t *ranks;      /* of its trials in the order of claims, as far as placing.c has asked; rank_slots of them, or NULL */
    uint32_t rank_slots;
    uint64_t ranks_of;   /* a digest of what the ranks follow from */
};

/* A slot that was refused lately: it is not asked for again until then. */
struct core_backoff {
    node_id node;
    uint32_t slot;
    uint64_t until_ms;
};
#define CORE_BACKOFFS_MAX 128

struct core_coordinator {
    struct core_coordination *coordinations; /* by experiment id */
    struct core_backoff backoffs[CORE_BACKOFFS_MAX];
};

/* The row of an experiment, or NULL: this node has not looked after it yet. */
struct core_coordination *core_find_coordination(const struct node_core *core, experiment_id experiment);
void core_coordinator_shift(struct node_core *core, uint64_t gap_ms); /* stall.c */

#endif
