#ifndef NODE_CORE_OWNER_OWNER_H
#define NODE_CORE_OWNER_OWNER_H
/* The owner of this node's slots, and of the workers in them (DESIGN 8). */

#include "node/core/ground/state.h"

enum core_worker_phase {
    CORE_WORKER_NONE,
    CORE_WORKER_CONFIRMED, /* leased; the attempt's record may still be on its way */
    CORE_WORKER_PREPARING, /* its directory is being made */
    CORE_WORKER_PREPARED,
    CORE_WORKER_RUNNING,
    CORE_WORKER_ENDING /* a kill is under way, or it has ended (is_gone) */
};

/* One slot's worker. */
struct core_worker {
    enum core_worker_phase phase;
    attempt_id attempt;
    uint16_t number; /* in the attempt (struct fact_place) */
    bool lease_on_disk;
    bool stop_sent;
    bool waits;          /* it listens, is in no group, and waits for one */
    bool is_told;        /* not `waits`: it knows of its group; false: the group's record is on its way to the disk */
    bool is_unheard;     /* adopted as waiting by the disk's record, which may be old; it has not reported in this boot */
    bool is_elastic, has_state;
    uint64_t applied_step;     /* has_state: the step in its memory when it began to wait */
    uint32_t generation;       /* of the group that it is in, or was in last; 0: none */
    uint32_t leaving;          /* the generation that it was asked to leave */
    bool is_leaving_at_once;   /* it was asked to leave without finishing the step */
    struct election_claim key_claim; /* of the coordinator that sent group_key */
    uint32_t key_generation;         /* the generation that group_key is for */
    bool is_dropped;             /* PREPARING, but its lease is over: the slot is free once the directory is done */
    enum fact_reason end_reason; /* what its end will mean when this node kills it; is_gone: what it means */
    int32_t exit_code;           /* is_gone */
    bool is_gone;                /* ENDING: it has ended, and there was no memory to publish that, with exit_code and tail */
    uint8_t group_key[MESSAGE_KEY_BYTES];
    uint32_t master_port, data_port;
    uint64_t step;
    hash256 checkpoint;    /* that its directory was prepared with */
    uint64_t started_s;    /* wall clock */
    uint64_t confirmed_ms; /* when its slot was leased; 0: not in this boot */
    uint64_t started_ms;   /* 0: not in this boot */
    uint64_t wanted_ms;    /* since when its slot is wanted back and its group is to go on without it; 0: it is not */
    uint64_t told_ms;      /* when FACT_WORKER was last put */
    bool dirty;            /* step or metrics have changed since then */
    uint64_t metrics_step; /* at which the metrics were reported; of an earlier boot's metrics an upper bound */
    uint32_t metrics_bytes;
    uint8_t metrics[FACT_METRICS_BYTES_MAX];
    char tail[FACT_TAIL_BYTES];
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
