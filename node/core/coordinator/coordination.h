#ifndef NODE_CORE_COORDINATOR_COORDINATION_H
#define NODE_CORE_COORDINATOR_COORDINATION_H
/* The volatile state of a coordinator, beyond the records of the experiments. A successor builds the state up anew. */

#include "gossip/election.h"
#include "node/core/ground/state.h"

/* A gang: slots on the way to a new attempt, or to an attempt in need of more members.
 *
 *      RESERVING --every slot is reserved--> RECORDING --the record is on disk--> CONFIRMING --every slot is confirmed--> OVER
 *          |                                     |                                     |
 *          '-------------------------------------'-------------------------------------'--> OVER, incomplete
 *
 *   incomplete     An owner refused a slot; the time of the state is over; the gang is not wanted any more; a node of the gang
 *                  is lost; or the coordinator has given way. */
enum core_gang_state {
    CORE_GANG_RESERVING,  /* the owners are asked to reserve the slots, node after node in the order of slots */
    CORE_GANG_RECORDING,  /* the record with the members is on the way to the disk */
    CORE_GANG_CONFIRMING, /* the owners are asked to lease the slots */
    CORE_GANG_OVER,       /* complete or given up, and in no list any more */
    CORE_GANG_STATES
};

struct core_gang {
    struct core_gang *next;
    attempt_id attempt;
    enum core_gang_state state; /* changed by gang_move (gangs.c) only */
    uint32_t member_count; /* 1 ... FACT_MEMBERS_MAX */
    uint32_t reserved_count; /* how many of `reserved` are true: below member_count while RESERVING, all afterwards */
    bool reserved[FACT_MEMBERS_MAX]; /* changes while RESERVING */
    bool confirmed[FACT_MEMBERS_MAX]; /* CONFIRMING; all false before */
    struct fact_assignment members[FACT_MEMBERS_MAX]; /* in the order (node, slot) */
    char network[FACT_NETWORK_BYTES]; /* on which the members reached one another (struct fact_attempt) */
    struct record_version recorded; /* RECORDING: the version to wait for; an older version may be on the way, too */
    struct election_claim claim; /* the claim in the messages to the owners */
    uint16_t asking;       /* RESERVING: tells the answers from answers to an earlier gang of the same attempt */
    uint64_t asked_ms;     /* RESERVING, CONFIRMING: when the owner whose answer is missing was first asked */
    bool is_joining;       /* the members join a living attempt, with numbers from first_number on */
    uint32_t first_number; /* the number of the first member in the attempt; 0 where the attempt begins */
    uint8_t group_key[MESSAGE_KEY_BYTES]; /* the key of the attempt's first group; zero while joining */
    uint64_t resend_ms; /* RESERVING, CONFIRMING: when the owners without an answer are asked again */
    uint64_t until_ms;  /* when the gang is given up in the present state */
};

/* How long a trial has waited for a place, or for a better place. watch_check (watch.h) checks the rule of least_ms. */
struct core_waiting {
    uint64_t since_ms; /* 0: the trial does not wait */
    uint64_t least_ms; /* a waiting trial: since when its least number of slots has been free; 0: fewer are free */
};

/* The group of a living attempt while the group is broken. All times are 0 while the group is whole. */
struct core_broken {
    uint64_t since_ms;    /* since when the group is broken; the last look while a group may go on beyond a cut */
    uint64_t unsure_ms;   /* some member is neither known to live nor known to be lost */
    uint64_t gathered_ms; /* all present members have left the group, or the time for leaving is over */
    uint64_t stopping_ms; /* all present members are asked to stop */
    uint64_t behind_ms;   /* members name a later group than the records do, and all members are heard */
};

/* The watch of an attempt: since when something holds for the attempt; 0: it does not hold. Times with a common rule are moved
 * by the functions of watch.h, and checked by watch_check after each pass.
 *
 *   the attempt    set                                   moves
 *   -----------    ----------------------------------    -----------------------------------------------------------------
 *   lives          since_ms; failed_ms, stopped_ms,      The first pass over the attempt makes the watch. since_ms is set
 *                  idle_ms, barrier_ms, each for itself  anew when the node begins to lead again.
 *   given up       the same, and waiting                 A node has not answered for longer than patience lasts, and placing
 *   for lost                                             looks for another place. The attempt lives again with the answer.
 *   has ended      ended_ms from the second loss in      The attempt has a verdict. The times of the living attempt stay,
 *                  a row on; waiting while the trial     and nothing reads them. The watch is dropped once the trial does
 *                  waits for a place                     not wait any more.
 *
 * The group of a living attempt, if the program can change groups (elastic.c):
 *
 *             watch_broken_begin           .------- watch_broken_anew: the larger side of a cut may go on elsewhere;
 *      WHOLE --------------------> BROKEN <'        since_ms moves to now, unsure_ms and gathered_ms are dropped
 *        ^                           |
 *        '---------------------------'
 *              watch_broken_end
 *
 *   -> BROKEN      A member is gone or dead or has left the group; or no node has the group's key; or a coordinator with a
 *                  higher claim has changed the group.
 *   -> WHOLE       No member is missing or has left: the next generation has begun, or the missing members are back.
 *
 *   in `broken`    while the group is broken
 *   -----------    -------------------------------------------------------------------------------------------------------
 *   stopping_ms    Set while the group is asked to stop; the times below stay as before.
 *   behind_ms      Set while members name a group without a record here, although every member's node is heard.
 *   unsure_ms      Set while some member is neither known to live nor known to be lost.
 *   gathered_ms    Set once all present members have left the group, or the time for leaving is over; until WHOLE or anew.
 *
 * Joining members:
 *
 *   wants_ms       Set by the first look for a place for one more member; until a joiner is ready, or waits are forgotten.
 *   joined_ms      Set while a joiner is on the way: from the record on, until no record names a joiner.
 *   join_ms        Set by each lost joiner, and kept. join_losses counts the joiners lost since a joiner was last ready. */
struct core_watch {
    attempt_id attempt;
    uint64_t since_ms;   /* when the watch began */
    uint64_t failed_ms;  /* a member of the group has failed */
    uint64_t stopped_ms; /* a worker of the attempt has ended as asked to stop, or its trial is stopped */
    uint64_t idle_ms;    /* a slot of the attempt is not leased to the attempt */
    uint64_t barrier_ms; /* a rank has ended with status 0, and the others run on */
    uint64_t moved_ms;   /* a member's node does not announce the address any more that the group uses */
    uint64_t ended_ms;   /* the attempt has ended; 0 also before anything has asked */
    struct core_waiting waiting; /* ended, or given up for lost: the trial waits for a place */
    uint64_t wants_ms;    /* the group wants one more member, and no joiner is ready */
    uint64_t joined_ms;   /* a joiner is on the way to the group */
    uint64_t join_ms;     /* the earliest time at which a joiner is asked */
    uint32_t join_losses; /* so many joiners in a row were lost before any was ready */
    struct core_broken broken;
    uint64_t step;        /* the group's step as reported */
    uint64_t stepped_ms;  /* when `step` was reported; 0: not in step_generation */
    uint64_t step_ms_max; /* the longest time between two steps */
    uint32_t step_generation; /* the generation of `step` */
    uint64_t seen_pass; /* the last pass over the attempt: watches of ended attempts are dropped */
};

/* The key of a new generation, kept until every member has entered the generation. */
struct core_regroup {
    struct core_regroup *next;
    attempt_id attempt;
    uint32_t generation;
    struct record_version recorded; /* the version to wait for; an older version may be on the way to the disk, too */
    bool on_disk;       /* the generation's record is on the disk: the owners may have the key */
    uint64_t resend_ms; /* on_disk: when the owners of absent members get the key again */
    uint8_t key[MESSAGE_KEY_BYTES];
};

/* The trials of a bracket that are under way. */
struct core_under_way {
    uint32_t running;
    uint32_t promoted; /* promoted, and waiting for slots: new trials leave these their place */
};

/* The program of a search with the searcher custom, on this node while it coordinates (custom.h). */
enum core_searcher_state {
    CORE_SEARCHER_NONE,     /* not started, until again_ms */
    CORE_SEARCHER_STARTING, /* its process is on the way, or has not spoken yet */
    CORE_SEARCHER_READY,    /* waits for an event */
    CORE_SEARCHER_ASKED     /* has an event and owes the answer */
};

struct core_searcher {
    enum core_searcher_state state;
    uint64_t life;     /* of the program that was started last */
    uint32_t told;     /* events of the log that it has answered, or been told */
    uint64_t told_mix; /* of their records: an event that is another one now ends the program */
    uint32_t rebuilt;  /* of the state in which told_mix was last compared */
    bool is_new;       /* ASKED: the event is in no log yet, and `draft` is it */
    struct fact_judged draft;
    bool is_start, is_trial; /* of the draft */
    uint64_t until_ms; /* the program fails if it has not spoken by then; 0: never */
    uint64_t again_ms;
    uint64_t starts;
    uint32_t failures; /* in a row */
    bool is_given_up, is_resting;
    bool differs;
    bool is_told;      /* a record tells of failures or a difference */
};

/* One experiment. Every node has a row for each experiment, to follow the election. */
struct core_coordination {
    struct core_coordination *next; /* by experiment id */
    experiment_id experiment;
    struct election election;
    bool claiming; /* our claim is on the way to the disk; false while election.claiming is true: there was no memory */
    bool settled;  /* nothing is left to coordinate until a record of the experiment changes */
    struct core_gang *gangs;
    uint16_t askings; /* gangs made so far, modulo 65536 */
    struct core_watch **watches; /* by trial, then by attempt */
    uint32_t watch_count, watch_slots;
    struct core_regroup *regroups;
    uint64_t claim_ms; /* the earliest time for another try to claim, after a lack of memory */
    uint64_t renew_ms;         /* when the leases of living attempts are renewed next */
    uint32_t renew_from;       /* the first trial without room for renewals in the last step; 0: none */
    uint32_t unstarted_losses; /* attempts in a row, of any trial, lost because a node could not start a worker */
    uint32_t waiting_trial;      /* the last trial without any attempt considered by placing */
    struct core_waiting waiting; /* the common wait of all trials without any attempt */
    uint64_t unconfirmed_ms; /* since when no record confirms the claim `unconfirmed`; 0: confirmed, or the claimant is dead */
    struct election_claim unconfirmed; /* the highest claim when unconfirmed_ms was set */
    uint64_t led_ms;       /* when the coordinator made the last pass over the experiment */
    uint64_t hand_over_ms; /* the earliest time for a drained node to hand over, so that nodes do not play catch */
    uint64_t pass;         /* passes so far */
    struct fact_log_name log; /* of this lead, if log_next is not 0 */
    uint32_t log_next;        /* the number of the log's next record; 0: no log was begun since the node leads */
    struct core_searcher searcher;
    struct core_under_way under_way[SEARCH_BRACKETS_MAX]; /* by bracket, as of the last search_follow */
    int32_t *ranks;      /* the kept ranks of pending.c, by trial, rank_slots in number; or NULL */
    uint32_t rank_slots;
    uint64_t ranks_of;   /* the ranks hold for this digest of struct order_sides */
};

/* A slot refused lately: not asked for again before until_ms. */
struct core_backoff {
    node_id node;
    uint32_t slot;
    uint64_t until_ms;
};
#define CORE_BACKOFFS_MAX 128

struct core_coordinator {
    struct core_coordination *coordinations; /* by experiment id */
    uint64_t lives; /* of programs of searches, given out so far */
    struct core_backoff backoffs[CORE_BACKOFFS_MAX];
    uint64_t apart_told_ms; /* when a line last told of nodes without a network in common; 0: never */
};

/* The row of an experiment, or NULL before the first look at the election of the experiment. */
struct core_coordination *core_find_coordination(const struct node_core *core, experiment_id experiment);

/* Moves the times of the room by a suspend of gap_ms (stall.c). */
void core_coordinator_shift(struct node_core *core, uint64_t gap_ms);

#endif
