#ifndef NODE_CORE_COPIES_COPIES_H
#define NODE_CORE_COPIES_COPIES_H
/* Copies of checkpoints, code and requests on other nodes (DESIGN 10). */

#include "node/core/ground/state.h"

struct core_ack;

enum core_push_kind {
    CORE_PUSH_SAVE,   /* of a checkpoint that a worker of this node has saved */
    CORE_PUSH_REPAIR, /* of a checkpoint whose holder died; no worker waits for it. SAVE once a worker saves the same bytes */
    CORE_PUSH_CHECK   /* to a node that should hold the checkpoint; nothing is recorded */
};

/* What the records say of a save before it is over. push_move (checkpoints.c) knows the allowed moves.
 *
 *      NEW --1--> SLOW --2--> PUBLISHED,  NEW --2--> PUBLISHED
 *
 *   1  a repair pass (every CORE_REPAIR_MS) finds the save under way
 *   2  a record names the holders so far: the next repair pass came, or the worker has ended
 *
 * Repairs and checks stay NEW. A push of any kind is over when it waits for no node (waiting_count 0): then its last record is
 * published, and the push is dropped. Without memory for the record it stays until there is some, or until a worker saves the
 * same bytes and more copies are wanted. */
enum core_push_progress { CORE_PUSH_NEW, CORE_PUSH_SLOW, CORE_PUSH_PUBLISHED };

/* A checkpoint on its way to other nodes. */
struct core_push {
    struct core_push *next;
    enum core_push_kind kind;
    enum core_push_progress progress; /* SAVE */
    attempt_id attempt;
    uint32_t slot;
    uint64_t step;
    hash256 blob;
    uint64_t bytes;
    uint32_t wanted;      /* copies */
    uint32_t holder_count;
    node_id holders[FACT_HOLDERS_MAX];
    bool has_metric;
    double metric;
    uint32_t asked_count; /* of the candidates in rendezvous order */
    uint32_t waiting_count;
    node_id asked[FACT_HOLDERS_MAX * 2];
    bool is_waited[FACT_HOLDERS_MAX * 2]; /* of those asked: no answer yet */
    bool has_copied;      /* REPAIR: to one node at least; a repair that has not records nothing */
};

/* A repair that was begun. Never on disk. */
struct core_repair {
    struct core_repair *next;
    attempt_id attempt;
    uint64_t step;
    hash256 blob;
    uint32_t living_copies; /* when it began */
    uint64_t nodes;         /* a digest of the nodes that could take a copy then */
    uint64_t until_ms;
};

/* A node where the code of an experiment that is not over has been seen. Never on disk: after a restart nodes are asked again. */
struct core_code_copy {
    node_id node;
    uint64_t boot;
    bool has_code, has_config_text;
    uint32_t refusals; /* in a row */
    uint64_t retry_ms; /* after refusals: the node does not count as one of CORE_CODE_COPIES until then */
};

/* A push of code or configuration that is under way. */
struct core_code_push {
    bool used;
    hash256 blob;
    node_id to;
};

struct core_code {
    struct core_code *next; /* by experiment id */
    experiment_id experiment;
    uint64_t retry_ms; /* the code is not on this node: it is not looked for before */
    struct core_code_copy copies[FACT_HOLDERS_MAX];
    uint64_t pass; /* the housekeeping that looked at it last: rows of experiments that are over are dropped */
};

/* What a holder has answered about its copy. Never on disk. */
struct core_confirmation {
    struct core_confirmation *next;
    hash256 blob;
    node_id node;
    bool is_asked;       /* no answer yet */
    bool is_missing;     /* refused_ms: the holder itself answered that it has not all of it */
    uint64_t held_ms;    /* when it was whole; 0: never */
    uint64_t refused_ms; /* when it was damaged or missing, or no answer came; 0: never */
};

struct core_copies {
    struct core_push *pushes;
    struct core_code *codes; /* by experiment id */
    struct core_code_push code_pushes[CORE_CODE_PUSHES_MAX];
    struct core_repair *repairs;
    uint64_t repair_nodes;     /* struct core_repair's `nodes` of the pass under way */
    bool repair_is_behind;     /* the last pass put something off: */
    experiment_id repair_from; /* the next pass begins with this experiment */
    uint64_t repair_ms;        /* when the next pass is due */
    uint64_t repair_pass;      /* passes so far */
    struct core_confirmation *confirmations;
    uint64_t retention_ms;     /* when checkpoints that are kept no longer are looked for again */
    uint64_t collect_ms;       /* when the next collection is due */
    uint8_t *named;            /* what the last NODE_EFFECT_COLLECT points to; given back in the next housekeeping */
    uint32_t named_bytes;
    struct core_ack *acks;     /* acks.h */
    bool leave_is_waited;      /* this node leaves: another node is still to store that */
    uint32_t leave_stored_on;  /* so many nodes have */
};

void core_copies_shift(struct node_core *core, uint64_t gap_ms); /* stall.c */

bool copies_list_has(const node_id *list, uint32_t count, node_id node);

/* False while as many copies that no worker waits for are on their way to that node as it may be sent at once. */
bool copies_may_push_to(const struct node_core *core, node_id to);

/* Something of this experiment is to be done once there is a place: the next pass begins with it. */
void copies_put_off(struct node_core *core, experiment_id experiment);

#endif
