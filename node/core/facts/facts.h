#ifndef NODE_CORE_FACTS_FACTS_H
#define NODE_CORE_FACTS_FACTS_H
/* What the records say: one struct per kind, with the key and body formats (MessagePack, docs/wire.md). A core. A kind's
 * meaning never changes; new meaning is a new kind. Decoders take bytes from anywhere: 0 or ERR_MALFORMED, and every
 * number and length is within the bounds stated here. Texts end in NUL. */

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "base/pack.h"
#include "gossip/record.h"

/* One row for each kind: name, number on the wire, the word in fact_WORD_read and in traces, whether the record goes with its
 * experiment when that is deleted, and how the fold takes it in (node/core/view/fold.h). A new kind begins here. */
#define FACT_KINDS(ROW) \
    ROW(MEMBER, 1, member, false, fold_member) /* a voucher admits a key to the roster */ \
    ROW(NODE, 2, node, false, fold_node) /* a node about itself */ \
    ROW(INVITE, 3, invite, false, fold_nothing) /* the public half of an invite token */ \
    ROW(SLOT, 4, slot, false, fold_slot) /* an owner about one of its slots: its lease */ \
    ROW(EXPERIMENT, 5, experiment, true, fold_experiment) /* what was submitted */ \
    ROW(CONTROL, 6, control, true, fold_control) /* cancel, pause and resume */ \
    ROW(CLAIM, 7, claim, true, fold_claim) /* which node coordinates */ \
    ROW(ATTEMPT, 8, attempt, true, fold_attempt) /* a coordinator assigns a trial to slots */ \
    ROW(WORKER, 9, worker, true, fold_worker) /* an owner about one worker of an attempt */ \
    ROW(VERDICT, 10, verdict, true, fold_verdict) /* a coordinator ends an attempt */ \
    ROW(MANIFEST, 11, manifest, true, fold_manifest) /* a checkpoint and its holders */ \
    ROW(TOMBSTONE, 12, tombstone, false, fold_tombstone) /* an experiment is deleted: kept for ever, in place of all its other records */ \
    ROW(EVICTION, 13, eviction, false, fold_eviction) /* a member shuts another member's key out for ever */ \
    ROW(DRAIN, 14, drain, false, fold_drain) /* whether a node gets new work */ \
    ROW(DEATH, 15, death, true, fold_death) /* a coordinator: the host of an attempt died soon after its start */ \
    ROW(QUARANTINE, 16, quarantine, false, fold_quarantine) /* a node about itself: trials fail here that run well elsewhere */ \
    ROW(GENERATION, 17, generation, true, fold_generation) /* a coordinator changes the group of an attempt */

enum fact_kind {
#define KIND(name, number, word, of_experiment, folds) FACT_##name = (number),
    FACT_KINDS(KIND)
#undef KIND
};

#define FACT_NAME_BYTES 64
#define FACT_ADDRESS_BYTES 64
#define FACT_ADDRESSES_MAX 4
#define FACT_SLOTS_MAX 64
#define FACT_MEMBERS_MAX 64 /* of one group */
#define FACT_METRICS_BYTES_MAX 1024
#define FACT_TAIL_BYTES 768
#define FACT_HOLDERS_MAX 8
#define FACT_STANDING_MAX 500 /* of one eviction: what fits into a body */
#define FACT_WITHHELD_S_MAX (366u * 86400)
#define PUBLIC_KEY_BYTES 32

/* Key: the member's node id. The founder vouches for itself; mesh id = BLAKE2b-128(founder's public key, nonce). */
struct fact_member {
    uint8_t public_key[PUBLIC_KEY_BYTES]; /* Ed25519; the node id is its BLAKE2b-128 */
    char name[FACT_NAME_BYTES];
    uint8_t nonce[16]; /* zero but in the founder's own */
};

enum fact_slot_kind { FACT_SLOT_CPU, FACT_SLOT_CUDA };

struct fact_slot_info {
    char uuid[48];
    char model[32];
    enum fact_slot_kind kind;
    uint64_t memory_bytes;
};

/* Key: empty. */
struct fact_node {
    char name[FACT_NAME_BYTES];
    char version[16];
    uint32_t protocol_min, protocol_max;
    uint32_t address_count;
    char addresses[FACT_ADDRESSES_MAX][FACT_ADDRESS_BYTES]; /* HOST:PORT of the control socket, best first */
    uint32_t bulk_port;                                     /* on the same hosts */
    bool left;
    uint32_t slot_count;
    struct fact_slot_info slots[FACT_SLOTS_MAX];
};

/* Key: the invite's CURVE public key (32 bytes). */
struct fact_invite {
    uint64_t expires_s; /* wall time */
    bool revoked;
};

/* Key: u8 slot index. `state` is an enum lease_state; RESERVED is never written. */
struct fact_slot {
    uint32_t state;
    attempt_id attempt;
    uint32_t rank; /* the worker's number in its attempt: 0 ... UINT16_MAX */
    uint8_t token_hash[16]; /* BLAKE2b-128; zero when not leased */
    bool withheld;          /* its owner takes it back: whoever is in it has been asked to leave */
    uint64_t withheld_s;    /* for so long, from the request or the owner's restart on; 0: until it is returned */
};

/* Key: experiment id. */
struct fact_experiment {
    uint64_t submitted_s; /* wall time of the submitting node: order and display only */
    hash256 code;         /* blob: the packed context directory */
    uint64_t code_bytes;
    hash256 config_text; /* blob: the YAML file as submitted */
    const uint8_t *config; /* packed struct config (node/core/facts/config.h); borrowed */
    uint32_t config_bytes;
};

/* Key: experiment id; one per writer. Pause and resume are one register ordered by (lamport, writer), a concurrent pause
 * wins; cancel absorbs. A cancel is a record of its own, under fact_key_cancel and without a clock: so a writer on an old
 * disk, who no longer knows of it, cannot put a newer pause or resume into its place. */
struct fact_control {
    uint64_t lamport; /* of the register; 0: this writer never paused nor resumed */
    bool paused;
    bool cancelled; /* with a clock only where a version before fact_key_cancel has written it */
};

/* Key: node id; one per writer. One register ordered by (lamport, writer), a concurrent drain wins. */
struct fact_drain {
    uint64_t lamport; /* at least 1 */
    bool drained;
    bool at_once; /* its workers are asked to leave, too */
    bool is_idle; /* counts from the node itself only: no worker runs there any more */
};

/* Key: experiment id; one per writer. */
struct fact_claim {
    uint64_t term;
    bool released; /* handed over, or the node leaves */
};

struct fact_assignment {
    node_id node;
    uint32_t slot;
};

/* Key: experiment id, u32 trial, u32 number, u64 term. The writer is the attempt's coordinator. Ranks are positions. */
struct fact_attempt {
    uint32_t member_count; /* 1 ... FACT_MEMBERS_MAX */
    struct fact_assignment members[FACT_MEMBERS_MAX];
    uint64_t start_step;      /* of the checkpoint it starts from; 0: from nothing */
    hash256 checkpoint;       /* none: from nothing */
    uint64_t checkpoint_bytes;
};

/* A worker of a group that has changed. Its number names it in the attempt for good: those that the attempt began with have
 * their first ranks, whoever joins the next one that was never used. */
struct fact_place {
    node_id node;
    uint32_t slot;
    uint32_t number;
    bool has_state; /* of a member: it has applied all steps up to the start step, and hands the state to those without */
};

/* Key: attempt key, coordinator id; one per writer, who coordinates the experiment now. The highest (generation, term,
 * writer) counts: of two sides of a partition only one makes generations, and what a coordinator makes that nobody obeys any
 * more is passed over. Generation 1 is the attempt's own record. Ranks are positions among the members. */
struct fact_generation {
    uint32_t generation; /* at least 2, but 1 in a record that only says who is on the way to the first group, or that it
                            is to be left */
    uint64_t term;       /* of the writer's claim */
    uint64_t start_step; /* steps applied; 0 of generation 1 */
    bool is_leaving;     /* the members are to leave it at the end of a step that they agree upon */
    uint32_t member_count; /* 1 ... FACT_MEMBERS_MAX */
    struct fact_place members[FACT_MEMBERS_MAX];
    uint32_t joiner_count; /* slots that are theirs already; they become members with a later generation */
    struct fact_place joiners[FACT_MEMBERS_MAX];
};

enum fact_worker_state { FACT_WORKER_PREPARED, FACT_WORKER_RUNNING, FACT_WORKER_ENDED };

/* Why a worker or an attempt ended. The order is the join of concurrent verdicts: the lowest wins. */
enum fact_reason {
    FACT_COMPLETED,  /* every rank ended with status 0 and nobody asked it to */
    FACT_FAILED,     /* the program's own failure: counts against max_restarts */
    FACT_STOPPED,    /* asked to: pause, cancel, preemption, leave */
    FACT_LOST,       /* its node or daemon died, its lease ran out, or its group never became complete */
    FACT_REASONS
};

/* Key: attempt key, coordinator id, u16 number (struct fact_place). The writer is the slot's owner. */
struct fact_worker {
    enum fact_worker_state state;
    char host[FACT_ADDRESS_BYTES]; /* where its data socket and, for rank 0, MASTER_PORT are */
    uint32_t master_port;
    uint32_t data_port; /* 0: not listening (yet) */
    uint32_t generation;     /* that it is in, or was in last; 0: none yet */
    uint64_t step;
    enum fact_reason reason; /* ENDED */
    int32_t exit_code;       /* ENDED: status, or minus the signal */
    uint64_t started_s;      /* wall time, for display */
    const uint8_t *metrics;  /* rank 0: MessagePack map group -> map name -> number, the latest values; borrowed */
    uint32_t metrics_bytes;
    char tail[FACT_TAIL_BYTES]; /* ENDED and FAILED: the last lines of its log; LOST and never started: why */
    bool is_elastic;            /* its program can leave a group and enter the next one */
    bool waits;                 /* RUNNING: it is in no group, but listens and waits for the next */
    bool has_state;             /* waits: it has the training's state in memory, ... */
    uint64_t applied_step;      /* ... with so many steps applied */
};

/* Key: attempt key, coordinator id; one per deciding coordinator. */
struct fact_verdict {
    enum fact_reason reason;
    uint64_t step;
    const uint8_t *metrics; /* of rank 0 at the end; borrowed */
    uint32_t metrics_bytes;
    uint64_t duration_s;    /* from its assignment on; 0: it never ran, or another coordinator has started it */
    char why[128];          /* one sentence */
};

/* Key: attempt key, coordinator id; one per deciding coordinator, written beside a verdict FACT_LOST. `node` fell silent
 * alone and within a minute of the worker's start. It is void if the worker's record says that it ended in `boot`: then
 * the host was cut off, and lived. */
struct fact_death {
    node_id node;
    uint64_t boot;     /* of the node when the worker ran */
    uint64_t lived_ms; /* from the start to the last word of the node */
    uint32_t suspects; /* other trials that had just begun there and had lost a host before */
};

#define FACT_QUARANTINE_LEVEL_MAX 7 /* 1, 2, 4 ... 60 minutes */

/* Key: empty. */
struct fact_quarantine {
    bool is_active;
    uint32_t level;   /* how often in a row it has come to this; 0: a trial has ended well since */
    uint32_t minutes; /* how long this one lasts; begins anew when the daemon restarts */
    char why[128];    /* one sentence */
};

/* Key: attempt key, coordinator id, u64 step. The writer is the node that stored it first, or one that has made a copy
 * since. Without holders: the checkpoint is not kept any more (retention.h). */
struct fact_manifest {
    hash256 blob;
    uint64_t bytes;
    uint32_t holder_count;
    node_id holders[FACT_HOLDERS_MAX];
    bool durable; /* as many confirmed holders as asked for */
    bool has_metric;
    double metric; /* the searcher's, as last reported when it was saved; finite */
};

/* Key: the evicted node's id, not the writer's own. Whose admission by the evicted node stands all the same; what it said for
 * others is void. For whom there is no room here the writer vouches itself. */
struct fact_eviction {
    uint32_t standing_count;
    node_id standing[FACT_STANDING_MAX]; /* strictly ascending */
};

/* A tombstone's key: experiment id; one per writer. Its body is empty (an array without elements). */

/* Keys. Every writer of a key returns its length; readers return ERR_MALFORMED for another length. */
struct fact_key {
    uint8_t bytes[RECORD_KEY_BYTES_MAX];
    uint8_t count;
};
struct fact_key fact_key_node_id(node_id node);
struct fact_key fact_key_empty(void);
struct fact_key fact_key_public_key(const uint8_t key[PUBLIC_KEY_BYTES]);
struct fact_key fact_key_slot(uint32_t slot);
struct fact_key fact_key_experiment(experiment_id experiment);
struct fact_key fact_key_cancel(experiment_id experiment); /* CONTROL, with {.cancelled = true} */
struct fact_key fact_key_attempt(const attempt_id *attempt); /* without the coordinator: it is the writer */
struct fact_key fact_key_worker(const attempt_id *attempt, uint32_t number);
struct fact_key fact_key_verdict(const attempt_id *attempt); /* VERDICT, DEATH, GENERATION */
struct fact_key fact_key_manifest(const attempt_id *attempt, uint64_t step);

/* No record's key: what rendezvous hashing ranks nodes by for a trial, for its claims, checkpoints and series. */
struct fact_key fact_key_trial(experiment_id experiment, uint32_t trial);

int fact_key_read_node(const struct record *record, node_id *out); /* MEMBER, EVICTION, DRAIN: whom it is about */
int fact_key_read_experiment(const struct record *record, experiment_id *out);

/* The word of FACT_KINDS, or "unknown". */
const char *fact_kind_name(uint16_t kind);

/* "completed", "failed", "stopped" or "lost". */
const char *fact_reason_name(enum fact_reason reason);

/* True for a record that goes with its experiment when that is deleted, by FACT_KINDS, and whose key names one. */
bool fact_is_of_experiment(const struct record *record, experiment_id *out);
int fact_key_read_attempt(const struct record *record, attempt_id *out); /* ATTEMPT ... MANIFEST, DEATH, GENERATION */
int fact_key_read_number(const struct record *record, uint32_t *out);    /* WORKER */
int fact_key_read_step(const struct record *record, uint64_t *out);      /* MANIFEST */
int fact_key_read_slot(const struct record *record, uint32_t *out);      /* SLOT */

/* Bodies. */
void fact_member_pack(struct pack_writer *writer, const struct fact_member *fact);
void fact_node_pack(struct pack_writer *writer, const struct fact_node *fact);
void fact_invite_pack(struct pack_writer *writer, const struct fact_invite *fact);
void fact_slot_pack(struct pack_writer *writer, const struct fact_slot *fact);
void fact_experiment_pack(struct pack_writer *writer, const struct fact_experiment *fact);
void fact_control_pack(struct pack_writer *writer, const struct fact_control *fact);
void fact_claim_pack(struct pack_writer *writer, const struct fact_claim *fact);
void fact_attempt_pack(struct pack_writer *writer, const struct fact_attempt *fact);
void fact_worker_pack(struct pack_writer *writer, const struct fact_worker *fact);
void fact_verdict_pack(struct pack_writer *writer, const struct fact_verdict *fact);
void fact_manifest_pack(struct pack_writer *writer, const struct fact_manifest *fact);
void fact_eviction_pack(struct pack_writer *writer, const struct fact_eviction *fact);
void fact_drain_pack(struct pack_writer *writer, const struct fact_drain *fact);
void fact_death_pack(struct pack_writer *writer, const struct fact_death *fact);
void fact_generation_pack(struct pack_writer *writer, const struct fact_generation *fact);
void fact_quarantine_pack(struct pack_writer *writer, const struct fact_quarantine *fact);
void fact_tombstone_pack(struct pack_writer *writer);

int fact_member_read(const struct record *record, struct fact_member *out);
int fact_node_read(const struct record *record, struct fact_node *out);
int fact_invite_read(const struct record *record, struct fact_invite *out);
int fact_slot_read(const struct record *record, struct fact_slot *out);
int fact_experiment_read(const struct record *record, struct fact_experiment *out);
int fact_control_read(const struct record *record, struct fact_control *out);
int fact_claim_read(const struct record *record, struct fact_claim *out);
int fact_attempt_read(const struct record *record, struct fact_attempt *out);
int fact_worker_read(const struct record *record, struct fact_worker *out);
int fact_verdict_read(const struct record *record, struct fact_verdict *out);
int fact_manifest_read(const struct record *record, struct fact_manifest *out);
int fact_eviction_read(const struct record *record, struct fact_eviction *out);

/* Does a well-formed eviction let this node stand? Copies nothing, since rosters ask it often. */
bool fact_eviction_lists(const struct record *record, node_id node);
int fact_drain_read(const struct record *record, struct fact_drain *out);
int fact_death_read(const struct record *record, struct fact_death *out);
int fact_generation_read(const struct record *record, struct fact_generation *out);
int fact_quarantine_read(const struct record *record, struct fact_quarantine *out);
int fact_tombstone_read(const struct record *record);

/* The node id of a public key, and the mesh id of a founder. */
node_id node_id_of_key(const uint8_t public_key[PUBLIC_KEY_BYTES]);
mesh_id mesh_id_of_founder(const uint8_t public_key[PUBLIC_KEY_BYTES], const uint8_t nonce[16]);

#endif
