#ifndef NODE_CORE_OWNER_OWNER_H
#define NODE_CORE_OWNER_OWNER_H
/* The slots of this node and the workers in the slots (DESIGN 8). */

#include "node/core/ground/state.h"

/* A worker from its lease to its end. owner_worker_move (workers.h) knows the allowed moves.
 *
 *      NONE --1--> CONFIRMED --2--> LEASED --3--> PREPARING --4--> PREPARED --5--> RUNNING --6--> ENDING
 *                      |              |               |               |               |             |
 *                      |              |               6               |               |             |
 *                      |              |               v               |               |             |
 *                      6              6            DROPPED            6               7             7
 *                      |              |               8               |               |             |
 *                      v              v               v               v               v             v
 *                     NONE once a record says how the worker ended; GONE until there is memory for the record
 *
 *   1  a coordinator confirms its reservation of the slot
 *   2  the slot's record is on disk
 *   3  the attempt's record names the worker: the shell makes a directory for the worker
 *   4  NODE_EVENT_PREPARED without an error
 *   5  the record of rank 0, where all ranks meet, has a port and is on disk: the shell starts the program. A worker that joins
 *      a running group needs only its own record
 *   6  the lease ends: the coordinator releases or no longer renews the lease, the attempt has a verdict, the owner of the slot
 *      takes the slot back, or the directory could not be made
 *   7  NODE_EVENT_WORKER_EXITED
 *   8  NODE_EVENT_PREPARED, with or without an error
 *
 * NODE_EVENT_ADOPT makes a worker of an earlier boot RUNNING, or ENDING if its lease is over. */
enum core_worker_phase {
    CORE_WORKER_NONE,
    CORE_WORKER_CONFIRMED, /* the slot's record is on its way to the disk */
    CORE_WORKER_LEASED,    /* the attempt's record may still be on its way to this node */
    CORE_WORKER_PREPARING, /* the shell makes the worker's directory */
    CORE_WORKER_DROPPED,   /* as PREPARING, but the lease is over: the slot becomes free with the end of the work */
    CORE_WORKER_PREPARED,
    CORE_WORKER_RUNNING,
    CORE_WORKER_ENDING, /* the shell kills the worker */
    CORE_WORKER_GONE    /* the worker has ended; the last record, with exit_code and tail, waits for memory */
};

/* A worker and the groups of its attempt (DESIGN 9). The table of allowed moves is in groups.c.
 *
 *      NONE --1--> WAITS --2--> ENTERING --3--> IN --1--> WAITS
 *      NONE --4--> UNHEARD --1--> WAITS        UNHEARD --5--> IN        NONE --4--> IN
 *
 *   1  NODE_EVENT_WORKER_LISTENS, in every state
 *   2  the attempt's record names the worker as a member of a newer group, and the key of the group has come. ENTERING stays
 *      ENTERING if a newer group takes the place of the first, and becomes WAITS if the group breaks before the worker knows it
 *   3  the worker's record of the group is on disk: the shell tells the worker
 *   4  NODE_EVENT_ADOPT: the state that the worker's record on disk has
 *   5  no report came for CORE_ADOPTED_REPORT_MS, so the record was old: the worker is in the newest group, which names it */
enum core_worker_group {
    CORE_GROUP_NONE,     /* the worker has never reported that it listens */
    CORE_GROUP_UNHEARD,  /* waits for a group by the record on disk, which may be old; no report has come in this boot */
    CORE_GROUP_WAITS,    /* listens, is in no group, and waits for one */
    CORE_GROUP_ENTERING, /* the record of the group is on its way to the disk; the worker does not know the group yet */
    CORE_GROUP_IN
};

/* One slot's worker. All zero in phase NONE. */
struct core_worker {
    enum core_worker_phase phase;
    enum core_worker_group group; /* RUNNING and later; NONE before */
    attempt_id attempt;
    uint16_t number; /* in the attempt (struct fact_place) */
    bool stop_sent;  /* RUNNING and later: asked to save and leave, so end_reason counts, whatever the exit code */
    bool is_elastic, has_state; /* RUNNING and later: as last reported */
    uint64_t applied_step;      /* has_state: steps applied to the state in the worker's memory when it began to wait */
    uint32_t generation;        /* of the group that the worker enters, is in, or was in last; 0: none */
    uint32_t leaving;           /* IN: the generation that the worker was asked to leave; 0: none */
    bool is_leaving_at_once;    /* IN: the request was to leave without finishing the step */
    struct election_claim key_claim; /* of the coordinator that sent group_key */
    uint32_t key_generation;         /* the generation that group_key is for */
    enum fact_reason end_reason; /* to publish if this node ends the worker; GONE: to publish once there is memory */
    int32_t exit_code;           /* GONE */
    uint8_t group_key[MESSAGE_KEY_BYTES];
    uint32_t master_port, data_port;
    uint64_t step;
    uint64_t draw;         /* RUNNING and later: fact_draw_mark of the values that the program was given; 0: none, or not known */
    hash256 checkpoint;    /* PREPARING and later: in the worker's directory; none: the worker begins without a checkpoint */
    uint64_t started_s;    /* RUNNING and later: wall clock */
    uint64_t confirmed_ms; /* when the slot was leased; 0: in an earlier boot */
    uint64_t started_ms;   /* RUNNING and later; 0: in an earlier boot */
    uint64_t wanted_ms;    /* since when the slot is wanted back and the group is to go on without the worker; 0: not */
    uint64_t ran_since_ms; /* RUNNING: since when this node counts the trial's running time (runtime.h); 0: it does not */
    uint64_t ran_before_s; /* ... which was this then, */
    uint64_t ran_s;        /* ... and is this now */
    uint64_t moved_ms;     /* RUNNING: since when this node lacks the address where the worker listens; 0: it has the address */
    enum fact_stall stall; /* RUNNING: as in struct fact_worker */
    uint64_t stall_s;
    bool is_overdue, is_past_barrier;
    bool is_hung;          /* RUNNING and later: the attempt has ended since a worker hangs */
    uint64_t ended_s;      /* GONE: as in struct fact_worker */
    enum fact_cause cause; /* GONE */
    uint64_t failure;      /* GONE */
    uint64_t error_ms;     /* GONE */
    uint64_t published_ms; /* when FACT_WORKER was last put */
    bool dirty;            /* step or metrics changed since published_ms, or there was no memory for the record */
    uint64_t metrics_step; /* at which the metrics were reported; an upper bound for metrics of an earlier boot */
    uint32_t metrics_bytes;
    uint8_t metrics[FACT_METRICS_BYTES_MAX];
    char tail[FACT_TAIL_BYTES]; /* GONE: the end of the log */
};

/* An attempt that its coordinator wants a slot for, while the slot waits for a better one. */
struct core_asker {
    attempt_id attempt;
    node_id from;
    uint16_t asking;   /* of the last message */
    uint32_t priority; /* the message's, and not believed */
};

/* A free slot that waits (askers.h). All zero if it does not. */
struct core_slot_wait {
    uint32_t count;
    struct core_asker askers[CORE_ASKERS_MAX];
    uint64_t until_ms, look_ms;
};

/* An experiment for which no slot waits, since it has not asked when one did. */
struct core_passed {
    experiment_id experiment;
    uint64_t until_ms; /* 0: a free place */
};

#define CORE_USAGE_ROWS 32

/* What is counted of a slot whose worker it has. All zero: the slot is free. */
struct core_usage_slot {
    uint64_t counted_ms;          /* until when its time is counted */
    uint64_t unsaved_ms;          /* the time since the attempt's last checkpoint */
    uint64_t saved;               /* which that was; 0: none */
    struct fact_usage_row row;    /* the texts */
};

/* The time of slots that no record of this node has yet. */
struct core_usage {
    struct core_usage_slot slots[LEASE_SLOTS_MAX];
    uint32_t day;       /* today */
    uint64_t tried_ms;  /* when the records were last written, or there was no memory for them */
    bool has_end;       /* a worker has ended since */
    uint32_t row_count;
    struct core_usage_row {
        uint32_t day;
        bool is_in[FACT_USAGE_SPANS]; /* the record of the day, of the month has it already */
        struct fact_usage_row row;
    } rows[CORE_USAGE_ROWS];
};

/* What the slots of another node did, as this node sees it. */
struct core_usage_check {
    struct core_usage_check *next; /* by id, ascending */
    node_id node;
    uint64_t since_ms;  /* when the hour began; 0: it begins with the next look */
    uint64_t looked_ms;
    uint64_t seen_ms;   /* since then the node's slots were held for so long */
    uint64_t said_ms;   /* what its records had then */
};

struct core_owner {
    struct core_usage usage;
    struct core_usage_check *usage_checks;
    struct lease lease;
    struct core_slot_wait waits[LEASE_SLOTS_MAX];
    struct core_passed passed[CORE_PASSED_MAX];
    struct core_worker workers[LEASE_SLOTS_MAX];
    struct fact_policy policy;          /* of this machine's owner: as published, or newer if is_policy_unpublished */
    struct policy_memory policy_memory; /* what the looks so far have shown */
    bool is_policy_unpublished;
    uint64_t unpublished_slots; /* bit i: there was no memory for the record of slot i */
    uint64_t anew_slots;        /* bit i: slot i is withheld since now, whatever its published record says */
    uint64_t asked_slots;       /* bit i: a user has withheld or returned slot i in this boot (see owner_put_slot) */
#ifdef SHOAL_BUGS
    uint8_t bug_token_hashes[LEASE_SLOTS_MAX][16];
#endif
};

/* Moves the times of this room after a suspend of gap_ms (stall.c). */
void core_owner_shift(struct node_core *core, uint64_t gap_ms);

#endif
