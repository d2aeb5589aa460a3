#ifndef NODE_CORE_GROUND_DISK_H
#define NODE_CORE_GROUND_DISK_H
/* Records and fences on their way to the disk, and what waits for them. Each write has a ticket; NODE_EVENT_PERSISTED reports
 * tickets in order. */

#include "gossip/exchange.h"
#include "node/core/ground/state.h"

/* What happens once a ticket is on disk. */
enum core_action {
    CORE_ACTION_NONE,
    CORE_ACTION_SEND,     /* message to `node` */
    CORE_ACTION_ACK,      /* a user's request is on this disk */
    CORE_ACTION_WELCOME,  /* the records for a node that joins go to `client` */
    CORE_ACTION_LED,      /* a claim: this node coordinates the experiment */
    CORE_ACTION_ASSIGNED, /* an attempt's record: its gang goes on */
    CORE_ACTION_GROUPED,  /* a generation's record: the owners of its members are sent the group key */
    CORE_ACTION_DURABLE   /* a manifest: its worker is told */
};

/* What a ticket writes. */
enum core_write {
    CORE_WRITE_NONE, /* nothing: an action that waits for every write up to a ticket */
    CORE_WRITE_RECORD,
    CORE_WRITE_FENCE
};

/* The life of a write. Its action happens once the write is on disk, and the write is then given back to the arena.
 *
 *                  core_persist,                       the disk has it
 *    WAITING ---- core_fence_put ----> WRITING ---------------------------> given back
 *       |                                 |                                     ^
 *       | all up to the                   | the disk refuses                    |
 *       | ticket is on disk               v          nothing left to write      |
 *       v                              REFUSED ---------------------------------+
 *    given back                         |   ^                                   |
 *                      core_disk_retry  |   |  the disk refuses                 |
 *                                       v   |                                   |
 *                                      RETRYING --------------------------------+
 *                                                      the disk has it
 *
 * An action without a write stays WAITING until it happens. Of each record or fence one write is REFUSED at most, the one
 * whose version is newer: the other is given back, and its action never happens. A refused record for which the table holds a
 * newer version by the time of the retry writes that version, and its action is dropped. */
enum core_pending_state {
    CORE_PENDING_WAITING,
    CORE_PENDING_WRITING,  /* its ticket is with the shell for the first time */
    CORE_PENDING_REFUSED,  /* in core_disk.refused, without a ticket that counts */
    CORE_PENDING_RETRYING, /* with the shell again, under a new ticket */
    CORE_PENDING_STATES
};

/* One write, or one action that waits for all writes up to a ticket. In the arena, in one of core_disk's two lists. */
struct core_pending {
    struct core_pending *next;
    uint64_t ticket;
    enum core_pending_state state;
    enum core_write write;
    record_ident ident;            /* RECORD */
    struct record_version version; /* RECORD */
    experiment_id fenced;          /* FENCE */
    enum core_action action;
    node_id node;       /* SEND, WELCOME */
    uint64_t client;    /* ACK, WELCOME */
    attempt_id attempt; /* ASSIGNED, GROUPED, DURABLE; LED: the experiment in it */
    uint64_t term;      /* LED */
    uint32_t slot;      /* DURABLE */
    uint64_t step;      /* DURABLE */
    struct message message; /* SEND */
};

/* The highest claim to an experiment that this node has obeyed as an owner. On disk. */
struct core_fence {
    struct core_fence *next; /* by experiment id */
    experiment_id experiment;
    struct election_claim claim;
};
#define CORE_FENCES_AHEAD_MAX 256 /* of experiments whose record has not come */

#define CORE_OUTBOX_BYTES EXCHANGE_MESSAGE_BYTES_MAX
_Static_assert(CORE_OUTBOX_BYTES >= RECORD_ENVELOPE_BYTES_MAX, "an empty outbox takes any record");

struct core_disk {
    uint64_t ticket;      /* last given out */
    uint64_t ticket_done; /* all up to this one are on disk, or refused */
    struct core_pending *pending_first, *pending_last; /* WAITING, WRITING and RETRYING, by ticket */
    struct core_pending *refused; /* REFUSED: tried again until the disk takes them; one per record or fence */
    uint32_t refused_count;       /* REFUSED and RETRYING: while there are any no WAITING action happens */
    uint64_t retry_ms;            /* when the refused are tried again */
    bool waiting_left;            /* what may go on did not fit into this step */
    struct core_fence *fences;    /* by experiment id */
    bool has_unawaited;           /* some records went to the disk without memory to wait for it */
    uint32_t unawaited_bucket;    /* the next bucket to look through for those; RECORDS_BUCKETS: none */
    uint8_t *outbox;              /* envelopes published in this step, end to end: sent to every peer at its end */
    uint32_t outbox_bytes;
};

/* Sends a message when everything that has a ticket so far is on disk. To this node itself too: its coordinator then gets it. */
void core_send_after_disk(struct node_core *core, node_id to, const struct message *message);

/* An action that waits for the same. NULL when memory is full: then the action never happens. */
struct core_pending *core_after_disk(struct node_core *core, enum core_action action);

/* The action that waits to welcome this node, or NULL. */
struct core_pending *core_find_welcome(const struct node_core *core, node_id joiner);

/* The highest claim that was obeyed; zero: none. */
struct election_claim core_fence_get(const struct node_core *core, experiment_id experiment);

/* 0 or ERR_FULL: then nothing may be granted under the claim. */
int core_fence_put(struct node_core *core, experiment_id experiment, struct election_claim claim);

/* Removes the fence of a deleted experiment, from the disk too: nothing is granted for it any more. */
void core_fence_forget(struct node_core *core, experiment_id experiment);

/* NODE_EVENT_LOAD_FENCE. Bytes that are no fence are counted as malformed. */
void core_fence_load(struct node_core *core, const uint8_t *bytes, uint32_t count);

/* Sends an entry to the disk and remembers that it is on its way. NULL when memory is full: the entry goes all the same, and
 * once more when there is memory. */
struct core_pending *core_persist(struct node_core *core, struct records_entry *entry);

/* True while the ticket of a claim of this node to the experiment is still out, or refused and to be tried again. */
bool core_claim_is_awaited(const struct node_core *core, experiment_id experiment);

/* Takes out of what waits: the entry that is for this very ticket, or the first that waits for all tickets up to it. The caller
 * gives it back to the arena. NULL: there is none. */
struct core_pending *core_disk_take(struct node_core *core, uint64_t ticket, bool is_own_ticket);

/* The disk has refused the ticket of `pending`, which is tried again after CORE_RETRY_MS. Takes `pending`. Of each record or
 * fence one entry is kept, so that a disk that refuses for long does not fill the memory. */
void core_disk_refuse(struct node_core *core, struct core_pending *pending);

/* Sends all that was refused to the disk once more, each record in its present version. What waits for an older version is
 * dropped, and goes on with the newer one. */
void core_disk_retry(struct node_core *core);

/* Sends the records to the disk once more for which there was no memory to wait, as far as there is some now. */
void core_disk_persist_unawaited(struct node_core *core);

/* True if the two lists are as enum core_pending_state says: each state in its list, tickets ascending, refused_count right.
 * Takes time in the length of the lists: for a CHECK on rare paths, and for tests. */
bool core_disk_is_sound(const struct core_disk *disk);

#endif
