#ifndef NODE_CORE_COPIES_COPIES_H
#define NODE_CORE_COPIES_COPIES_H
/* Copies of checkpoints, code and records of requests on other nodes (DESIGN 10, 12). */

#include "node/core/ground/state.h"

struct core_ack;

enum core_push_kind {
    CORE_PUSH_SAVE,   /* a worker of this node has saved the checkpoint, and waits for its copies */
    CORE_PUSH_REPAIR, /* a holder died, or its copy; no worker waits. Becomes SAVE if a worker saves the same bytes */
    CORE_PUSH_CHECK   /* to a node that should hold the checkpoint; nothing is published */
};

/* What is published of a save before it is over. push_move (checkpoints.c) knows the allowed moves.
 *
 *      NEW --1--> SLOW --2--> PUBLISHED        NEW --2--> PUBLISHED
 *
 *   1  a repair pass (every CORE_REPAIR_MS) finds the save under way
 *   2  a manifest names the holders so far: another repair pass came, or the worker has ended
 *
 * Repairs and checks stay NEW. A push is over once it waits for no node (waiting_count 0): then the final manifest is published
 * and the push is dropped. Without memory for the manifest the push stays, until there is memory or until a worker saves the
 * same bytes and more copies are wanted. */
enum core_push_progress { CORE_PUSH_NEW, CORE_PUSH_SLOW, CORE_PUSH_PUBLISHED };

/* A checkpoint on its way to other nodes. Never on disk. */
struct core_push {
    struct core_push *next;
    enum core_push_kind kind;
    enum core_push_progress progress; /* SAVE */
    attempt_id attempt;
    uint32_t slot; /* SAVE: of the worker that waits */
    uint64_t step;
    struct fact_part_key part; /* count 0: the blob is the whole checkpoint */
    hash256 blob;
    uint64_t bytes;
    uint32_t wanted;       /* SAVE, REPAIR: copies, this node's included */
    uint32_t holder_count; /* SAVE, REPAIR: nodes with a confirmed copy */
    node_id holders[FACT_HOLDERS_MAX];
    bool has_metric;
    double metric;
    uint32_t asked_count;   /* nodes that were sent the checkpoint, and holders that need no copy */
    uint32_t waiting_count; /* asked nodes without an answer */
    node_id asked[FACT_HOLDERS_MAX * 2];
    bool is_waited[FACT_HOLDERS_MAX * 2]; /* asked[i] has not answered yet */
    bool has_copied; /* REPAIR: a node has taken a copy; without a new copy a repair publishes nothing */
};

/* Files of a worker on their way to other nodes (outputs.c). Never on disk. */
struct core_output {
    struct core_output *next;
    struct core_push push;   /* SAVE or REPAIR; the holders and nodes asked */
    uint32_t number, place;  /* of the record's key */
    struct fact_output fact; /* without holders */
};

enum advanced {
    ADVANCED_WAITS,   /* some asked node has not answered */
    ADVANCED_OVER,    /* enough copies, or no node is left to ask */
    ADVANCED_PUT_OFF, /* REPAIR: over, but a node with too many pushes under way was passed over */
};

/* A repair of the last CORE_REPAIR_AGAIN_MS: not tried again while the same nodes live. Never on disk. */
struct core_repair {
    struct core_repair *next;
    attempt_id attempt;
    uint64_t step;
    uint32_t part;
    hash256 blob;
    uint32_t living_copies; /* at the begin of the repair */
    uint64_t nodes;         /* digest of the nodes that could take a copy at the begin */
    uint64_t until_ms;
};

/* A node and the code of an experiment that is not over. Never on disk: after a restart the nodes are asked again. */
struct core_code_copy {
    node_id node;
    uint64_t boot; /* the node's boot when the row was made; another boot may have another disk, and begins a new row */
    bool has_code, has_config_text;
    uint32_t refusals; /* in a row */
    uint64_t retry_ms; /* after refusals: the node does not count as one of CORE_CODE_COPIES before */
};

/* A push of code or configuration under way. */
struct core_code_push {
    bool used;
    hash256 blob;
    node_id to;
};

struct core_code {
    struct core_code *next; /* by experiment id */
    experiment_id experiment;
    uint64_t retry_ms; /* this node does not have the code, and does not look for it before */
    struct core_code_copy copies[FACT_HOLDERS_MAX];
    uint64_t pass; /* the last repair pass that looked at the row; rows of experiments that are over are dropped */
};

/* The last answer of a holder about its copy of a checkpoint. Never on disk. */
struct core_confirmation {
    struct core_confirmation *next;
    hash256 blob;
    node_id node;
    bool is_asked;       /* no answer yet */
    bool is_due;         /* an attempt waits for the answer: asked as soon as fewer than CORE_CONFIRMS_MAX are asked */
    bool is_missing;     /* refused_ms: the holder itself answered that chunks are missing */
    uint64_t held_ms;    /* when the copy was whole; 0: unknown, or not whole in the last answer */
    uint64_t refused_ms; /* when the copy was damaged or missing, or no answer came; 0: never, or whole in the last answer */
};

/* A worker's part of a checkpoint is durable, and the worker is told once all parts are. Never on disk: after a restart of the daemon
 * the worker hears of its next checkpoint. */
struct core_awaited {
    struct core_awaited *next;
    attempt_id attempt;
    uint32_t slot;
    uint64_t step;
    hash256 set; /* fact_part_name */
};

struct core_copies {
    struct core_awaited *awaited; /* the newest first */
    struct core_push *pushes;
    struct core_output *outputs;
    struct core_code *codes; /* by experiment id */
    struct core_code_push code_pushes[CORE_CODE_PUSHES_MAX];
    struct core_repair *repairs;
    uint64_t repair_nodes;     /* digest of the nodes that may take copies, in the present repair pass */
    bool repair_is_behind;     /* the last repair pass put something off */
    experiment_id repair_from; /* repair_is_behind: the next pass begins with this experiment */
    uint64_t repair_ms;        /* when the next pass is due */
    uint64_t repair_pass;      /* passes so far */
    struct core_confirmation *confirmations; /* the newest row last */
    uint64_t retention_ms;     /* when to look again for checkpoints that need not be kept */
    uint64_t collect_ms;       /* when the next collection is due */
    uint8_t *named;            /* the bytes of the last NODE_EFFECT_COLLECT; given back at the next housekeeping */
    uint32_t named_bytes;
    struct core_ack *acks;     /* acks.h */
    bool leave_is_waited;      /* this node leaves, and waits until a second node has stored the record of that */
    uint32_t leave_stored_on;  /* on so many nodes the record is stored; set with leave_is_waited false */
};

/* Moves the times of this room after a suspend of gap_ms (stall.c). */
void core_copies_shift(struct node_core *core, uint64_t gap_ms);

/* Asks the next nodes in rendezvous order of the trial until the holders and the nodes still asked are as many as wanted. */
enum advanced copies_push_advance(struct node_core *core, struct core_push *push);

/* Takes an answer. True for the first answer of each asked node. */
bool copies_push_answers(struct core_push *push, const struct node_event *event);

/* Of which part of which checkpoint the row is; count 0: it is of a whole one. */
struct fact_part_key copies_part_of(const struct view_manifest *row);

/* True if the list of `count` ids has the node. */
bool copies_list_has(const node_id *list, uint32_t count, node_id node);

/* True if the node may be sent one more copy that no worker waits for: CORE_PUSHES_PEER_MAX at a time, 1 until the node has
 * taken a copy. */
bool copies_may_push_to(const struct node_core *core, node_id to);

/* Some copy of the experiment has to wait for a place: the next repair pass begins with the experiment, and comes as soon as a
 * push has been answered. */
void copies_put_off(struct node_core *core, experiment_id experiment);

#endif
