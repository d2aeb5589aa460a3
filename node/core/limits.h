#ifndef NODE_CORE_LIMITS_H
#define NODE_CORE_LIMITS_H
/* How long the node core waits, and how much of each thing it holds: all in one place. Membership has its own times
 * (gossip/swim.h), from the same probe interval. */

#include "gossip/lease.h"

#define CORE_HOUSEKEEP_MS 500
#define CORE_ROSTER_ROOM 600        /* effects left over for the rest of a step that admits a large roster */
#define CORE_DIRECT_NODES 64        /* up to so many living nodes every change goes straight to every peer */
#define CORE_SYNC_PEER_MS 1000      /* between digests to one peer; in a larger mesh between any two */
#define CORE_SYNC_ALONE_MS 30000    /* a node on an old disk that hears nobody waits this long (DESIGN 5) */
#define CORE_SYNC_PATIENCE_MS 10000 /* peers live, but their digests never agree: go on */
#define CORE_SYNC_FILLING_MS 3000   /* ... unless much that is new has come within that time, */
#define CORE_SYNC_FILLING_RECORDS 16 /* ... so many in one message, which replace nothing, */
#define CORE_SYNC_LONG_MS 120000    /* ... up to this: of a large state some megabytes come in ten seconds */
#define CORE_REFUSED_MS 8000        /* a host that refuses for this long has lost its daemon (DESIGN 6) */
#define CORE_CHECK_LINK_MS 1000
#define CORE_CHECK_LINKS_MAX 24 /* at a time: one takes up to 800 ms, and the shell has room for 64 (gossip/control.h) */
#define CORE_REFUTE_MS 1500        /* who is called dead, and is not, has said so within this */
#define CORE_TOGETHER_MS 60000      /* nodes that fall silent within this time fell silent together */
#define CORE_PATIENCE_MS 600000     /* DESIGN 7: what may run on unreachable nodes */
#define CORE_STALL_MS 5000          /* a gap between two steps above this was a suspend or a stall */
#define CORE_STATUS_MS 2000         /* between two progress records of one worker */
#define CORE_RENEW_MS 10000
#define CORE_RESEND_MS 400          /* reservations and confirmations without an answer */
#define CORE_GANG_RESERVE_MS 5000
#define CORE_GANG_CONFIRM_MS 10000
#define CORE_JOIN_LEASE_MS 5000     /* after its lease was confirmed a record names it, and the owner's says so, */
#define CORE_JOIN_MS 60000          /* ... and its program listens; doubled each time that none came so far, */
#define CORE_JOIN_DOUBLINGS 4       /* ... so often */
#define CORE_UNHEARD_MS 5000        /* an adopted worker that waits has said so again within this */
#define CORE_LEAVE_MS 2000          /* who is told by nobody that its group is broken is told by the coordinator */
#define CORE_REGROUP_MS 30000       /* a broken group waits so long for enough members, or for word of one */
#define CORE_LEAVE_STEPS 5          /* who computes hears that its group is broken after the step; for so many is waited */
#define CORE_LEAVE_UNKNOWN_MS 600000 /* ... or for so long where nobody knows how long a step takes */
#define CORE_GENERATIONS 1000       /* numbers that a term of coordinating has for the generations of a group */
#define CORE_SLOT_BACKOFF_MS 1000   /* after a refused reservation, */
#define CORE_UNWILLING_MS 60000     /* ... and who grants nothing, its disk being full for instance, is asked last for so long */
#define CORE_SILENT_MS 2000         /* who has not answered as an owner for so long is silent, */
#define CORE_SILENT_FOR_MS 10000    /* ... and is not asked for so long, unless it answers, */
#define CORE_SILENT_DOUBT_MS 600000 /* ... and then for so long last */
#define CORE_YOUNG_MS 60000         /* what fails within this of its start may be its host's fault, or its host its victim */
#define CORE_DEATH_SETTLE_MS 10000  /* hosts that lose their power together are all found dead within this */
#define CORE_QUARANTINE_TRIALS 3    /* that failed young on a node */
#define CORE_IDLE_MS 12000          /* an attempt of which a slot's record says that it is not leased to it */
#define CORE_LOST_FIRST_MS 500      /* before a further attempt of a trial that was lost twice in a row; doubled each time */
#define CORE_LOST_WAIT_MS 30000     /* ... up to this */
#define CORE_NEVER_RAN_WAIT_MS 120000 /* ... or this, if no program of it runs before it is lost */
#define CORE_LOST_OFTEN 8           /* losses in a row after which that is waited */
#define CORE_CHOOSY_MS 600000       /* so long a trial waits for a node where it has not failed, or for more slots than its least */
#define CORE_UNSTARTED_AVOID_MS 15000 /* ... for another node than one that could not start it; doubled each time */
#define CORE_UNSTARTED_AVOID_MAX_MS 1800000 /* ... up to this */
#define CORE_FAILURE_SETTLE_MS 6000 /* a failed worker may be the echo of a node that is about to be found dead, or of a stop */
#define CORE_KILL_GRACE_MS 3000
#define CORE_ACK_MS 5000            /* how long a request waits for a second node */
#define CORE_ACK_START_MS 3000      /* ... and so long after the start for whom it has not seen yet */
#define CORE_ACKS_MAX 128           /* requests that wait for it; more are refused */
#define CORE_RETRY_MS 1000
#define CORE_FOREIGN_MS 600000      /* between two lines about a node of another version */
#define CORE_REPAIR_MS 2000         /* between two looks for checkpoints and code with too few living copies */
#define CORE_RETENTION_MS 10000     /* between two looks for checkpoints that are kept no longer, */
#define CORE_COLLECT_MS 600000      /* ... and between two collections, */
#define CORE_COLLECT_FULL_MS 60000  /* ... while the disk is full */
#define CORE_COLLECT_IDLE_S 3600    /* what is on its way is not in the records yet: so long nothing untouched goes, */
#define CORE_COLLECT_FULL_IDLE_S 600
#define CORE_COLLECT_AWAY_MS 86400000 /* a member that is away for less may know what we do not (DESIGN 10) */
#define CORE_CONFIRM_FRESH_MS 600000
#define CORE_CONFIRM_RETRY_MS 60000
#define CORE_CONFIRMS_MAX 8         /* asked at a time: each reads a whole checkpoint */
#define CORE_SWEEP_BUCKETS 16       /* of the table of records that one step looks through for what is deleted, or not folded */
#define CORE_MEMORY_SHORT 10        /* less than 1/10 of the memory is free: nothing new begins, ... */
#define CORE_MEMORY_ENOUGH 8        /* ... until 1/8 is */
#define CORE_MEMORY_RESERVE 25      /* the last 1/25 is for what frees memory, or ends something that is held here */
#define CORE_MEMORY_REFOLD 128      /* what could not be folded is tried again once 1/128 of the memory has become free */
#define CORE_TRIAL_BYTES 3072       /* of one trial, about: its attempt, its verdict and two checkpoints, */
#define CORE_TRIAL_WORKER_BYTES 1024 /* ... and each worker of it; measured in core_memory_test.c */
#define CORE_CODE_COPIES 2          /* of the code and the configuration of an experiment that is not over */
#define CORE_FAREWELL_MS 5000       /* between two words to one who is out and may not have heard */
#define CORE_FAREWELL_LATE_MS 60000 /* ... after the first CORE_FAREWELLS */
#define CORE_FAREWELLS 12
#define CORE_FAREWELL_TELLERS 3     /* living nodes that say it, so that a large mesh does not shout */
#define CORE_OUTCAST_LINKS_MAX 32   /* connections for that; of more who are out some wait for their turn, */
#define CORE_OUTCAST_LINK_MS 60000  /* ... which lasts so long */
#define CORE_UNCONFIRMED_MS 15000       /* a claim is believed for so long without its record, though its node lives */
#define CORE_HAND_OVER_MS 60000     /* between two tries of a drained coordinator to give an experiment away */
#define CORE_CODE_RETRY_MS 30000    /* code that is not here, or that a node did not take; then doubled each time */
#define CORE_CODE_RETRY_MAX_MS 600000 /* ... up to this */
#define CORE_CODE_PUSHES_MAX 8      /* under way at a time, */
#define CORE_REPAIRS_MAX 8          /* ... and checkpoints that no worker waits for, */
#define CORE_PUSHES_PEER 4          /* ... both together to one node; 1 until it has taken something */
#define CORE_TWIN_TELL_MS 1000      /* between two words to a member whose key speaks from elsewhere, too */
#define CORE_TWIN_ASK_MS 5000       /* ... who then looks there for so long */
#define CORE_TWIN_ANSWER_MS 400
#define CORE_TWIN_SILENT_MS 15000   /* who yields to one that it has not heard for this long goes on */
#define CORE_EQUIVOCATION_MS 3600000 /* how long who has written two records of one version gets no work from here */
#define CORE_REPAIR_AGAIN_MS 300000 /* a repair that made nothing better, while the same nodes live */

_Static_assert(CORE_RENEW_MS * 2 < LEASE_MS, "a lost renewal must not end a lease");
_Static_assert(CORE_GANG_RESERVE_MS <= LEASE_RESERVE_MS, "no gang waits longer than its reservations live");

#endif
