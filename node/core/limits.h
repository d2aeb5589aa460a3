#ifndef NODE_CORE_LIMITS_H
#define NODE_CORE_LIMITS_H
/* How long the node core waits, and how much of each thing it holds: all in one place, by room. Names with _MS are
 * milliseconds, with _S seconds. Membership has its own times (gossip/swim.h), from the same probe interval. */

#include "gossip/lease.h"

/* ---- the step ---------------------------------------------------------------------------------------------------- */

#define CORE_HOUSEKEEP_MS 500 /* between two rounds of regular work */
#define CORE_STALL_MS 5000    /* a longer gap between two steps was a suspend or a stall: deadlines move by the gap */
#define CORE_RETRY_MS 1000    /* between two tries of a refused disk write, of a claim, or of a request's second copy */
#define CORE_SWEEP_BUCKETS 16 /* buckets of the table of records that one step looks through for work that was left over */
#define CORE_ROSTER_ROOM 600  /* effects left free by the admission of a large roster for the rest of its step */

/* ---- memory, as parts of the arena ------------------------------------------------------------------------------- */

#define CORE_MEMORY_SHORT 10         /* no new work begins while less than 1/10 is free */
#define CORE_MEMORY_ENOUGH 8         /* new work begins again once 1/8 is free */
#define CORE_MEMORY_RESERVE 25       /* the last 1/25 is only for records to free memory, or to end something on this node */
#define CORE_MEMORY_REFOLD 128       /* records without room in the fold are tried again once a further 1/128 is free */
#define CORE_TRIAL_BYTES 3072        /* of a trial, about: attempt, verdict, two checkpoints; measured in core_memory_test.c */
#define CORE_DRAWN_BYTES 512         /* of a trial whose values are drawn from results, more: a record of the search's log */
#define CORE_DRAWN_PARAMETER_BYTES 40 /* of each of its values, about: in two records and twice in the view */
#define CORE_TRIAL_WORKER_BYTES 1024 /* of each worker of a trial, about; measured in core_memory_test.c */

/* ---- members ----------------------------------------------------------------------------------------------------- */

#define CORE_CLOCK_MS 3600000           /* between two messages to a peer that tell our wall clock */
#define CORE_CLOCK_SET_S 5              /* our wall clock was set if it is so far from where it would have gone */
#define CORE_CLOCK_APART_S 60           /* a wall clock that is so far from the others' is taken for wrong */
#define CORE_DIRECT_NODES 64            /* up to so many living nodes, every change goes straight to every peer */
#define CORE_SYNC_PEER_MS 1000          /* between two digests to one peer; above CORE_DIRECT_NODES nodes, to any two peers */
#define CORE_SYNC_ALONE_MS 30000        /* how long a starting node waits for records if no peer is heard (DESIGN 5) */
#define CORE_SYNC_PATIENCE_MS 10000     /* how long a starting node waits to agree with living peers on all records */
#define CORE_SYNC_FILLING_MS 3000       /* a starting node waits on while messages full of new records come so close together */
#define CORE_SYNC_FILLING_RECORDS 16    /* new records in one message that prolong the wait of a starting node */
#define CORE_SYNC_FILLING_MAX_MS 120000 /* the longest wait of a starting node: a large state takes 10 s for some megabytes */
#define CORE_REFUSED_MS 8000            /* a host that refuses connections for so long has lost its daemon (DESIGN 6) */
#define CORE_CHECK_LINK_MS 1000         /* between two tries to connect to the host of an absent node */
#define CORE_CHECK_LINKS_MAX 24         /* tries at one time: each takes up to 800 ms; the shell has room for 64 */
#define CORE_CHECK_ANSWER_MS 4000       /* a check without an answer for so long was not made: it is due again */
#define CORE_CHECK_USED_MS 20000        /* between two checks of the address in use, if a living peer has others */
#define CORE_CHECK_SPARE_MS 60000       /* between two checks of any other address that the key answered at */
#define CORE_CHECK_FAILED_MS 5000       /* to the next check of an address of a living peer that failed; doubled each time */
#define CORE_CHECK_FAILED_MAX_MS 300000 /* the longest such wait, where the peer is reached at another address */
#define CORE_CHECK_CUT_MAX_MS 40000     /* the longest such wait, where it is reached at none: a healed link is soon noticed */
#define CORE_CHECK_HINT_MS 3000         /* between two checks of a hint of an absent peer */
#define CORE_HINT_FAILURES 3            /* checks after which an address that the peer does not announce is forgotten */
#define CORE_HEARD_MAX 8                /* addresses of one peer that the peer does not announce */
#define CORE_FASTER_CHECKS 2            /* checks in a row in which another address is faster, before it is used */
#define CORE_INTRODUCED_MS 2000         /* for so long this node introduces itself by one address, then by the next */
#define CORE_FORMER_MAX 16              /* addresses that this node had, kept to tell a move from a twin */
#define CORE_LINKS_AT_ONCE 8            /* records of the networks (LINKS) that may follow one another without a pause */
#define CORE_LINKS_MS 5000              /* for one more such record, up to CORE_DIRECT_NODES living nodes */
#define CORE_LINKS_LARGE_MS 60000       /* the same in larger meshes */
#define CORE_APART_WAIT_MS 5000         /* a trial that waits so long for such nodes is told of */
#define CORE_APART_LINE_MS 60000        /* between two event lines about nodes without a network in common */
#define CORE_REFUTE_MS 1500             /* a living node refutes a declaration of death within so long */
#define CORE_SILENT_TOGETHER_MS 60000   /* nodes falling silent within so long of each other fell silent together */
#define CORE_PATIENCE_MS 600000         /* how long at least work may still run on nodes out of reach (DESIGN 7) */
#define CORE_FOREIGN_LINE_MS 600000     /* between two event lines about a node of another version */
#define CORE_EQUIVOCATION_MS 3600000    /* a node that signed two records of one version gets no work from here for so long */

/* ---- members: outcasts, which members tell that they are out of the mesh ----------------------------------------- */

#define CORE_FAREWELL_MS 5000       /* between the first CORE_FAREWELLS messages to one outcast */
#define CORE_FAREWELL_LATE_MS 60000 /* between all later messages to one outcast */
#define CORE_FAREWELLS 12           /* messages to one outcast before the pace slows down */
#define CORE_FAREWELL_TELLERS 3     /* living nodes that write to one outcast: a large mesh, too, sends few */
#define CORE_OUTCAST_LINKS_MAX 32   /* connections to outcasts at one time; further outcasts wait for their turn */
#define CORE_OUTCAST_LINK_MS 60000  /* how long an outcast keeps its connection while others wait for one */

/* ---- members: quarantine ----------------------------------------------------------------------------------------- */

#define CORE_EARLY_END_MS 60000    /* a worker that fails so soon may have a bad host; a host that dies so soon, a bad worker */
#define CORE_DEATH_SETTLE_MS 10000 /* hosts that lose their power together are all found dead within so long */
#define CORE_QUARANTINE_TRIALS 3   /* early failures of trials, none completed in between, for a quarantine */

/* ---- copies ------------------------------------------------------------------------------------------------------ */

#define CORE_ACK_MS 5000              /* how long a request waits for a second node to have the record on disk */
#define CORE_ACK_START_MS 3000        /* a node that started less than this ago may still find a peer for the second copy */
#define CORE_ACKS_MAX 128             /* requests waiting for a second copy; any further request is refused */
#define CORE_CODE_COPIES 2            /* holders of the code and configuration of an experiment that is not over */
#define CORE_CODE_RETRY_MS 30000      /* before a failed fetch or copy of code is tried again; doubled with each failure */
#define CORE_CODE_RETRY_MAX_MS 600000 /* the longest wait before a failed fetch or copy of code is tried again */
#define CORE_CODE_PUSHES_MAX 8        /* copies of code under way */
#define CORE_REPAIRS_MAX 8            /* copies of checkpoints under way without a waiting worker */
#define CORE_PUSHES_PEER_MAX 4        /* copies of either sort under way to one node; 1 until the node has taken one */
#define CORE_REPAIR_MS 2000           /* between two searches for checkpoints and code with too few living copies */
#define CORE_AWAITED_MAX 4            /* saves of one worker whose other parts are not durable yet; the oldest is forgotten */
#define CORE_REPAIR_AGAIN_MS 300000   /* before the next try of a repair without success, while the same nodes live */
#define CORE_RETENTION_MS 10000       /* between two searches for checkpoints to let go of */
#define CORE_COLLECT_MS 600000        /* between two deletions of chunks without a name in any record */
#define CORE_COLLECT_FULL_MS 60000    /* between two deletions of chunks without a name, while the disk is full */
#define CORE_COLLECT_IDLE_S 3600      /* chunks untouched for less stay: records may not name new chunks yet */
#define CORE_COLLECT_FULL_IDLE_S 600  /* chunks untouched for less stay even while the disk is full */
#define CORE_COLLECT_AWAY_MS 86400000 /* nothing is deleted while a member with its own records is away for less (DESIGN 10) */
#define CORE_CONFIRM_FRESH_MS 600000  /* how long a holder's answer counts: the copy is whole, or missing */
#define CORE_CONFIRM_RETRY_MS 60000   /* before a holder that could not answer is asked again */
#define CORE_CONFIRMS_MAX 8           /* holders asked at one time: each reads a whole checkpoint */

/* ---- owner ------------------------------------------------------------------------------------------------------- */

#define CORE_USAGE_MS 60000    /* between two writings of what slots were used for */
#define CORE_USAGE_END_MS 5000 /* the same where a worker has ended since */
#define CORE_USAGE_LOOK_MS 2000     /* between two looks at the slots of other nodes */
#define CORE_USAGE_CHECK_MS 3600000 /* what another node has counted is compared after so long */

#define CORE_RUNTIME_MS 20000       /* between two records of how long a trial has run (max_runtime) */
#define CORE_STATUS_MS 2000         /* between two progress records of one worker */
#define CORE_KILL_GRACE_MS 3000     /* from SIGTERM to SIGKILL */
#define CORE_QUICK_MS 10000         /* a program that fails so soon without a step may fail again in the same way (option retry) */
#define CORE_ASK_MS 300             /* how long a free slot waits for a better trial than the one that has been asked for */
#define CORE_ASK_LOOK_MS 50         /* between two looks whether a better trial still waits */
#define CORE_ASK_PASSED_MS 600000   /* how long no slot waits for an experiment again that has not asked in its CORE_ASK_MS */
#define CORE_ASKERS_MAX 4           /* attempts noted for one free slot; the last in the order is refused for another */
#define CORE_PASSED_MAX 256         /* experiments for which no slot waits */
#define CORE_ADOPTED_REPORT_MS 5000 /* an adopted worker that waits for a group has reported so within so long of the start */

/* ---- coordinator: claims and leases ------------------------------------------------------------------------------ */

#define CORE_RENEW_MS 10000       /* between two renewals of a lease */
#define CORE_UNCONFIRMED_MS 15000 /* how long the claim of a living node is believed without its record */
#define CORE_HAND_OVER_MS 60000   /* between two tries of a drained coordinator to hand an experiment over */

/* ---- coordinator: gangs and placing ------------------------------------------------------------------------------ */

#define CORE_RESEND_MS 400                  /* before an unanswered reservation or confirmation is sent again */
#define CORE_GANG_RESERVE_MS 5000           /* a gang whose slots are not all reserved within so long is given up */
#define CORE_GANG_CONFIRM_MS 10000          /* a gang whose leases are not all confirmed within so long is given up */
#define CORE_SLOT_BACKOFF_MS 1000           /* how long a slot is left alone after a refused reservation */
#define CORE_OWNER_UNWILLING_MS 60000       /* how long an owner that grants nothing (its disk is full, say) is asked last */
#define CORE_OWNER_SILENT_MS 2000           /* an owner that does not answer for so long is silent */
#define CORE_OWNER_SKIPPED_MS 10000         /* how long a silent owner is not asked, unless it answers */
#define CORE_OWNER_DOUBTED_MS 600000        /* how long an owner is asked last after it was silent */
#define CORE_BETTER_PLACE_MS 600000         /* how long a trial waits for a node where it has not failed, or for all slots */
#define CORE_UNSTARTED_AVOID_MS 15000       /* how long a trial avoids a node that could not start it; doubled each time */
#define CORE_UNSTARTED_AVOID_MAX_MS 1800000 /* the longest time for which a trial avoids a node that could not start it */
#define CORE_LOST_WAIT_FIRST_MS 500         /* before the next attempt of a trial lost twice in a row; doubled with each loss */
#define CORE_LOST_OFTEN 8                   /* losses in a row from which on a trial waits the longest */
#define CORE_LOST_WAIT_MAX_MS 30000         /* the longest wait of a lost trial whose program ran before the last loss */
#define CORE_NEVER_RAN_WAIT_MAX_MS 120000   /* the longest wait of a lost trial whose program did not run */

/* ---- coordinator: attempts --------------------------------------------------------------------------------------- */

#define CORE_UNLEASED_MS 12000      /* an attempt is over once a record of one of its slots has lacked the lease so long */
#define CORE_MOVED_MS 10000 /* a group ends, or goes on without the member, when a node has lacked the address it uses so long */
#define CORE_FAILURE_SETTLE_MS 6000 /* before a failed worker counts: it may echo a node's death, not yet found, or a stop */

/* ---- coordinator: groups that change ----------------------------------------------------------------------------- */

#define CORE_JOIN_LEASE_MS 5000      /* the records of coordinator and owner name a joiner within so long of its lease */
#define CORE_JOIN_LISTEN_MS 60000    /* a joiner whose program does not listen within so long is lost; doubled each time */
#define CORE_JOIN_DOUBLINGS 4        /* how often the time for a joiner's program to listen is doubled */
#define CORE_LEAVE_ASK_MS 2000       /* from then on the coordinator itself tells members of a broken group to leave it */
#define CORE_REGROUP_MS 30000        /* how long a broken group waits for enough members, or for a message of one of them */
#define CORE_LEAVE_STEPS 5           /* how many of its longest steps a broken group has to leave */
#define CORE_LEAVE_UNKNOWN_MS 600000 /* how long a broken group has to leave if the length of its steps is unknown */
#define CORE_GENERATIONS 1000        /* numbers that one term of coordinating has for the generations of a group */

/* ---- two daemons with one key ------------------------------------------------------------------------------------ */

#define CORE_TWIN_TELL_MS 1000    /* between two messages to a member whose key is in use at another address, too */
#define CORE_TWIN_ASK_MS 5000     /* how long a member looks for another daemon with its key */
#define CORE_TWIN_ANSWER_MS 400   /* between two answers to the other daemon */
#define CORE_TWIN_SILENT_MS 15000 /* a daemon that yields to its twin resumes when the twin has been silent for so long */

_Static_assert(CORE_RENEW_MS * 2 < LEASE_MS, "a lost renewal must not end a lease");
_Static_assert(CORE_GANG_RESERVE_MS <= LEASE_RESERVE_MS, "no gang waits longer than its reservations live");

#endif
