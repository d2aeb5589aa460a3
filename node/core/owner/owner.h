#ifndef NODE_CORE_OWNER_OWNER_H
#define NODE_CORE_OWNER_OWNER_H
/* The owner of this node's slots, and of the workers in them (DESIGN 8). */

#include "node/core/ground/state.h"

/* A worker from its lease to its end. owner_worker_move (workers.h) knows the allowed moves.
 *
 *      NONE --1--> CONFIRMED --2--> LEASED --3--> PREPARING --4--> PREPARED --5--> RUNNING --6--> ENDING
 *                      |              |            6 |                |               |             |
 *                      |              |              v                |               |             |
 *                      6              6           DROPPED             6               7             7
 *                      |              |              8                |               |             |
 *                      v              v              v                v               v             v
 *                     NONE once a record says how the worker ended; GONE until there is memory for the record
 *
 *   1  a coordinator confirms its reservation of the slot
 *   2  the slot's record is on disk
 *   3  the attempt's record names the worker: the shell makes its directory
 *   4  NODE_EVENT_PREPARED, without an error
 *   5  the worker that the others meet at (usually rank 0) is prepared too: the shell starts the program
 *   6  the lease ends: released, not renewed, the attempt has a verdict, the slot is taken back, the directory failed, ...
 *   7  NODE_EVENT_WORKER_EXITED
 *   8  NODE_EVENT_PREPARED: the directory can be removed
 *
 * NODE_EVENT_ADOPT makes a worker of an earlier boot RUNNING, or ENDING if its lease is over. */
enum core_worker_phase {
    CORE_WORKER_NONE,
    CORE_WORKER_CONFIRMED, /* the slot's record is on its way to the disk */
    CORE_WORKER_LEASED,    /* the attempt's record may still be on its way here */
    CORE_WORKER_PREPARING, /* the shell makes the worker's directory */
    CORE_WORKER_DROPPED,   /* the lease ended while the shell makes the directory; the slot is free once that is done */
    CORE_WORKER_PREPARED,
    CORE_WORKER_RUNNING,
    CORE_WORKER_ENDING, /* the shell kills the worker */
    CORE_WORKER_GONE    /* the worker has ended; its record, with exit_code and tail, waits for memory */
};

/* A worker and the groups of its attempt (DESIGN 9). groups.c moves it, by its own table.
 *
 *      NONE --1--> WAITS --2--> ENTERING --3--> IN --1--> WAITS
 *      NONE --4--> UNHEARD --1--> WAITS,  UNHEARD --5--> IN;  NONE --4--> IN
 *
 *   1  NODE_EVENT_WORKER_LISTENS; from every state
 *   2  a record names the worker as a member of a newer group, and the key of the group is here; ENTERING goes back to WAITS
 *      if that group breaks before the worker was told, and stays ENTERING if a newer group takes its place
 *   3  the worker's own record of the group is on disk: the shell tells the worker
 *   4  NODE_EVENT_ADOPT, as the worker's record on disk says
 *   5  the worker has not reported for CORE_UNHEARD_MS, so it does not wait: it is in the newest group */
enum core_worker_group {
    CORE_GROUP_NONE,     /* the worker has not reported yet that it listens */
    CORE_GROUP_UNHEARD,  /* the disk's record, which may be old, says that the worker waits; no report since this boot */
    CORE_GROUP_WAITS,    /* the worker listens, is in no group, and waits for one */
    CORE_GROUP_ENTERING, /* the record of the group is on its way to the disk; the worker does not know the group yet */
    CORE_GROUP_IN
};

/* One slot's worker. All zero in phase NONE. */
struct core_worker {
    enum core_worker_phase phase;
    enum core_worker_group group; /* RUNNING and later; before that NONE */
    attempt_id attempt;
    uint16_t number; /* in the attempt (struct fact_place) */
    bool stop_sent;  /* RUNNING and later: asked to save and leave; end_reason counts, whatever the exit code */
    bool is_elastic, has_state; /* RUNNING and later: as last reported */
    uint64_t applied_step;      /* has_state: the step in its memory when it began to wait */
    uint32_t generation;        /* of the group that it enters, is in, or was in last; 0: none */
    uint32_t leaving;           /* IN: the generation that it was asked to leave */
    bool is_leaving_at_once;    /* IN: it was asked to leave without finishing the step */
    struct election_claim key_claim; /* of the coordinator that sent group_key */
    uint32_t key_generation;         /* the generation that group_key is for */
    enum fact_reason end_reason; /* what its end will mean when this node ends it; GONE: what it means */
    int32_t exit_code;           /* GONE */
    uint8_t group_key[MESSAGE_KEY_BYTES];
    uint32_t master_port, data_port;
    uint64_t step;
    hash256 checkpoint;    /* PREPARING and later: that its directory was prepared with */
    uint64_t started_s;    /* RUNNING and later: wall clock */
    uint64_t confirmed_ms; /* when its slot was leased; 0: not in this boot */
    uint64_t started_ms;   /* RUNNING and later; 0: not in this boot */
    uint64_t wanted_ms;    /* since when its slot is wanted back and its group is to go on without it; 0: it is not */
    uint64_t published_ms;      /* when FACT_WORKER was last put */
    bool dirty;            /* PREPARED, RUNNING, GONE: step, metrics or the end are not in the record yet */
    uint64_t metrics_step; /* at which the metrics were reported; of an earlier boot's metrics an upper bound */
    uint32_t metrics_bytes;
    uint8_t metrics[FACT_METRICS_BYTES_MAX];
    char tail[FACT_TAIL_BYTES]; /* GONE */
};

struct core_owner {
    struct lease lease;
    struct core_worker workers[LEASE_SLOTS_MAX];
    uint64_t unpublished_slots; /* bit i: there was no memory for the record of slot i */
    uint64_t asked_slots;       /* bit i: slot i was withheld or returned since this boot, so its record counts above older ones */
#ifdef SHOAL_BUGS
    uint8_t bug_token_hashes[LEASE_SLOTS_MAX][16];
#endif
};

void core_owner_shift(struct node_core *core, uint64_t gap_ms); /* stall.c */

#endif
