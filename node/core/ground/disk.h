#ifndef NODE_CORE_GROUND_DISK_H
#define NODE_CORE_GROUND_DISK_H
/* The queue in front of the disk: writes of records and fences, and the actions that wait for writes. Each write has a ticket;
 * NODE_EVENT_PERSISTED reports tickets in order. */

#include "gossip/exchange.h"
#include "node/core/ground/state.h"

/* What happens once a ticket is on disk (roof/on_disk.c). */
enum core_action {
    CORE_ACTION_NONE,
    CORE_ACTION_SEND,     /* `message` goes to `node` */
    CORE_ACTION_ACK,      /* after a user's request: `client` is answered, or waits for a second disk */
    CORE_ACTION_WELCOME,  /* after a voucher: the records for the joining `node` go to `client` */
    CORE_ACTION_LED,      /* after our claim: we coordinate the experiment */
    CORE_ACTION_ASSIGNED, /* after an attempt's record: the gang goes on */
    CORE_ACTION_GROUPED,  /* after a generation's record: the owners of the members are sent the group key */
    CORE_ACTION_DURABLE   /* after a manifest: the worker is told of a durable checkpoint */
};

/* What a ticket writes. */
enum core_write {
    CORE_WRITE_NONE, /* nothing: an action waits for every write up to the ticket */
    CORE_WRITE_RECORD,
    CORE_WRITE_FENCE
};

/* The states of a write. Once the write is on disk the write's action happens, and the write is given back to the arena.
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
 * An action without a write stays WAITING until all writes up to its ticket are on disk. Of each record or fence at most one
 * write is REFUSED: of two the older version is given back, and its action never happens. If by the time of the retry the table
 * holds a newer version of a refused record, the retry writes the newer version, and the old action is dropped. */
enum core_pending_state {
    CORE_PENDING_WAITING,
    CORE_PENDING_WRITING,  /* the shell has the write, for the first time */
    CORE_PENDING_REFUSED,  /* in core_disk.refused; the ticket counts no more */
    CORE_PENDING_RETRYING, /* the shell has the write again, under a new ticket */
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
    hash256 set;        /* DURABLE: of a part, the name of its checkpoint (fact_part_name); else none */
    struct message message; /* SEND */
};

/* The highest claim to an experiment that we have obeyed as an owner. On disk. */
struct core_fence {
    struct core_fence *next; /* by experiment id */
    experiment_id experiment;
    struct election_claim claim;
};
#define CORE_FENCES_AHEAD_MAX 256 /* fences of experiments that no record here names yet */

#define CORE_OUTBOX_BYTES EXCHANGE_MESSAGE_BYTES_MAX
_Static_assert(CORE_OUTBOX_BYTES >= RECORD_ENVELOPE_BYTES_MAX, "an empty outbox takes any record");

struct core_disk {
    uint64_t ticket;      /* last given out */
    uint64_t ticket_done; /* last reported: every ticket so far is on disk, or refused */
    struct core_pending *pending_first, *pending_last; /* WAITING, WRITING and RETRYING, by ticket */
    struct core_pending *refused; /* REFUSED: tried again until the disk takes it; one per record or fence */
    uint32_t refused_count;       /* writes in REFUSED and RETRYING: no WAITING action happens above 0 */
    uint64_t retry_ms;            /* when refused writes are tried again */
    bool waiting_left;            /* some WAITING actions may happen, and found no room in this step */
    struct core_fence *fences;    /* by experiment id */
    bool has_unawaited;           /* some records went to the disk without memory to wait for the write */
    uint32_t unawaited_bucket;    /* the next bucket to search for such records; RECORDS_BUCKETS: none */
    uint8_t *outbox;              /* envelopes published in this step, end to end: sent to every living peer when it ends */
    uint32_t outbox_bytes;
};

/* Sends a message once every write so far is on disk. A message to our own id goes to our coordinator. While the disk refuses,
 * a message equal to a waiting one replaces that one. Without memory the message is lost. */
void core_send_after_disk(struct node_core *core, node_id to, const struct message *message);

/* Makes an action that waits until every write so far is on disk; the caller fills in the action's fields. NULL when memory is
 * full: the action never happens. */
struct core_pending *core_after_disk(struct node_core *core, enum core_action action);

/* The WAITING action that will welcome the joiner, or NULL. */
struct core_pending *core_find_welcome(const struct node_core *core, node_id joiner);

/* The claim of the experiment's fence; all zero: there is no fence. */
struct election_claim core_fence_get(const struct node_core *core, experiment_id experiment);

/* Raises the fence to the claim and writes it. 0, or ERR_FULL: memory is full, and nothing may be granted under the claim. */
int core_fence_put(struct node_core *core, experiment_id experiment, struct election_claim claim);

/* Removes the fence of a deleted experiment, from the disk too: no slot is granted to the experiment any more. */
void core_fence_forget(struct node_core *core, experiment_id experiment);

/* NODE_EVENT_LOAD_FENCE: reads a fence as core_fence_put wrote it. Bytes that are no fence are counted as malformed. */
void core_fence_load(struct node_core *core, const uint8_t *bytes, uint32_t count);

/* Sends an entry to the disk under a new ticket, and returns the pending write. NULL when memory is full: the entry goes to the
 * disk all the same, and once more when there is memory. */
struct core_pending *core_persist(struct node_core *core, struct records_entry *entry);

/* True while our claim to the experiment is on its way to the disk, or refused. */
bool core_claim_is_awaited(const struct node_core *core, experiment_id experiment);

/* Takes one entry out of the queue, for the caller to give back to the arena: the write with this very ticket
 * (`is_own_ticket`), or else the first WAITING action whose ticket is no later. NULL: there is none. */
struct core_pending *core_disk_take(struct node_core *core, uint64_t ticket, bool is_own_ticket);

/* The disk has refused a write that core_disk_take has taken out: the write is tried again after CORE_RETRY_MS. Owns `pending`
 * from now on. Of each record or fence only one refused write is kept: a disk that refuses for long must not fill memory. */
void core_disk_refuse(struct node_core *core, struct core_pending *pending);

/* Sends all refused writes to the disk once more, as far as the step has room: each record in its present version, each fence
 * with its present claim. A write of a record or fence that is gone, or of a version whose successor is on disk, is dropped. */
void core_disk_retry(struct node_core *core);

/* Sends records to the disk once more that went there without memory to wait for the write, as far as there is memory now. */
void core_disk_persist_unawaited(struct node_core *core);

/* True if the two lists are sound: each state in the right list, tickets ascending, refused_count right. Takes time in
 * proportion to both lists: for a CHECK on rare paths, and for tests. */
bool core_disk_is_sound(const struct core_disk *disk);

#endif
