#ifndef NODE_CORE_CORE_H
#define NODE_CORE_CORE_H
/* The node core: the whole control plane of one node as one deterministic state machine. It composes membership, records
 * and their exchange, slot leases, elections, the coordinator and groups. Events go in, effects come out, in an order
 * that the shell keeps; there is no other way in or out. shoald runs it with real sockets, disks and processes, tests/sim
 * with simulated ones.
 *
 * Life: node_core_init; then, for what the disk held, NODE_EVENT_LOAD_RECORD and NODE_EVENT_LOAD_FENCE in any order;
 * NODE_EVENT_ADOPT for every worker found alive; NODE_EVENT_START once; from then on everything else. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/trace.h"
#include "gossip/lease.h"
#include "gossip/message.h"
#include "node/core/facts/config.h"
#include "node/core/facts/facts.h"

#define NODE_MEMBERS_MAX 1024
#define NODE_REPLY_BYTES 512

struct node_options {
    node_id self;
    uint8_t public_key[PUBLIC_KEY_BYTES];
    mesh_id mesh;
    uint64_t boot; /* start number << 32 | 32 random bits: larger than any that the disk knows; the core raises it when the
                    mesh knows of a later one */
    uint64_t seed; /* of every random choice but secrets */
    uint8_t secret[32]; /* tokens and group keys are hashes under it: from the system's generator, new in every boot */
    uint64_t now_ms;
    uint64_t wall_s;
    struct fact_node node; /* name, addresses, slots: what it will say of itself */
    struct trace trace;
    void *memory; /* aligned to 16; the core's arena, kept until the core is done */
    size_t memory_bytes;
};

/* ---- events ---------------------------------------------------------------------------------------------------- */

enum node_event_kind {
    NODE_EVENT_LOAD_RECORD, /* bytes: an envelope from the own disk */
    NODE_EVENT_LOAD_FENCE,  /* bytes: a value that NODE_EFFECT_PERSIST_FENCE once wrote */
    NODE_EVENT_ADOPT,       /* u.adopt */
    NODE_EVENT_START,
    NODE_EVENT_TICK,      /* time passed; due at node_core_next_ms, early or late is safe */
    NODE_EVENT_MESSAGE,   /* u.message; its records are verified */
    NODE_EVENT_JOIN,      /* u.join: somebody with an invite's key asks to be vouched for */
    NODE_EVENT_PERSISTED, /* u.persisted: a ticket is on disk. In the order of tickets. */
    NODE_EVENT_LINK,      /* u.link: the answer to NODE_EFFECT_CHECK_LINK */
    NODE_EVENT_REQUEST,   /* u.request: from a user */
    NODE_EVENT_PREPARED,  /* u.worker: slot's directory is ready, or failed (code, text) */
    NODE_EVENT_WORKER_LISTENS, /* u.worker: port; the worker is in no group (any more), and waits for the next; is_elastic,
                                  generation, has_state and step as its record has them */
    NODE_EVENT_WORKER_STATUS,  /* u.worker: step, bytes = latest metrics (map group -> map name -> number) */
    NODE_EVENT_WORKER_EXITED,  /* u.worker: surely gone, with all below it; code, text = last lines */
    NODE_EVENT_CHECKPOINT,     /* u.blob: the worker of `slot` saved `step`, and all chunks are on this disk; bytes = the
                                  latest metrics when it did, as WORKER_STATUS has them */
    NODE_EVENT_PUSHED,         /* u.blob: `node` confirmed that it holds `blob` (ok), or could not (not ok) */
    NODE_EVENT_CONFIRMED,      /* u.blob: the answer to NODE_EFFECT_CONFIRM */
    NODE_EVENT_DISK,           /* u.disk: full or not */
    NODE_EVENT_KEY,            /* u.key: the answer to NODE_EFFECT_NEW_KEY */
    NODE_EVENT_SLOT_BUSY,      /* u.busy: whether a program outside Shoal uses the slot's device; said again now and then */
    NODE_EVENT_FOREIGN,        /* u.foreign: a message was refused, since this program does not speak its version */
    NODE_EVENT_MALFORMED       /* a message or a request to join could not be decoded: counted in node_core_counters */
};

enum node_request_kind {
    NODE_REQUEST_SUBMIT, /* experiment, code, config_text, bytes = packed config; blobs are on this disk already */
    NODE_REQUEST_CANCEL,
    NODE_REQUEST_PAUSE,
    NODE_REQUEST_RESUME,
    NODE_REQUEST_DELETE,
    NODE_REQUEST_INVITE, /* public_key, expires_s */
    NODE_REQUEST_REVOKE, /* public_key: of an invite */
    NODE_REQUEST_EVICT,  /* node; with_vouched: those whom it alone vouched for go too */
    NODE_REQUEST_WITHHOLD, /* slots, for_s: this node's slots are taken back by their owner */
    NODE_REQUEST_RETURN,   /* slots */
    NODE_REQUEST_DRAIN,    /* node, at_once: any node of the mesh */
    NODE_REQUEST_UNDRAIN,  /* node */
    NODE_REQUEST_LEAVE /* answered when no worker runs here any more and the others have been told */
};

struct node_event {
    enum node_event_kind kind;
    uint64_t now_ms;
    uint64_t wall_s;
    union {
        struct {
            uint32_t slot;
            attempt_id attempt;
            uint16_t number; /* in the attempt, as SPAWN gave it */
            lease_token token;
            uint32_t data_port; /* 0: not listening yet */
            uint8_t group_key[MESSAGE_KEY_BYTES]; /* as SPAWN gave it */
        } adopt;
        struct {
            node_id from;
            const struct message *message;
        } message;
        struct {
            node_id from;
            uint32_t version;
        } foreign;
        struct {
            uint64_t client; /* for NODE_EFFECT_WELCOME */
            uint8_t invite_key[PUBLIC_KEY_BYTES];
            uint8_t public_key[PUBLIC_KEY_BYTES];
            char name[FACT_NAME_BYTES];
        } join;
        struct {
            uint64_t ticket;
            bool ok; /* false: the disk refused it */
            uint8_t signature[RECORD_SIGNATURE_BYTES]; /* own records */
        } persisted;
        struct {
            node_id peer;
            bool refused; /* its host answers and refuses; false: silence */
            bool open;    /* somebody accepts */
        } link;
        struct {
            uint64_t client; /* for NODE_EFFECT_REPLY */
            enum node_request_kind kind;
            experiment_id experiment;
            hash256 code;
            uint64_t code_bytes;
            hash256 config_text;
            uint8_t public_key[PUBLIC_KEY_BYTES];
            uint64_t expires_s;
            uint64_t slots; /* bit i: slot i; 0: all */
            uint64_t for_s; /* 0: until they are returned */
            node_id node;   /* none: this one */
            bool at_once;   /* DRAIN: its workers are asked to save and leave */
            bool with_vouched; /* EVICT */
        } request;
        struct {
            uint32_t slot;
            attempt_id attempt;
            int32_t code; /* PREPARED: 0 or an error; EXITED: exit status, or minus the signal */
            bool killed;  /* EXITED: ended by NODE_EFFECT_KILL or by its lease, not by itself */
            bool is_stopping; /* EXITED: it was asked to save and leave, perhaps by an earlier life of this daemon */
            bool is_unstarted; /* EXITED: there never was a process, since this machine could not start one; code is not 0 */
            uint32_t port; /* PREPARED: a free port for MASTER_PORT; LISTENS: the data port */
            uint64_t step;
            bool is_elastic;     /* LISTENS: it can leave a group and enter the next */
            bool has_state;      /* LISTENS: it has applied `step` steps, and can hand the state on */
            uint32_t generation; /* LISTENS: that it was in last; 0: none */
            const char *text; /* may be NULL */
        } worker;
        struct {
            uint32_t slot;
            attempt_id attempt;
            uint64_t step;
            hash256 blob;
            uint64_t bytes;
            node_id node;
            bool ok;
            bool is_missing; /* PUSHED, not ok: it is not on this node's own disk; CONFIRMED, not ok: that node has
                                answered, and has not all of it */
        } blob;
        struct {
            bool full;
        } disk;
        struct {
            uint32_t slot;
            bool is_busy;
        } busy;
        struct {
            bool ok; /* false: the disk refused it */
            uint8_t public_key[PUBLIC_KEY_BYTES];
        } key;
    } u;
    const uint8_t *bytes; /* borrowed for the call */
    uint32_t byte_count;
};

/* ---- effects --------------------------------------------------------------------------------------------------- */

enum node_effect_kind {
    NODE_EFFECT_SEND,           /* u.send: to one peer; lost if there is no connection */
    NODE_EFFECT_PERSIST_RECORD, /* u.persist, bytes: an envelope; `own`: sign it first */
    NODE_EFFECT_PERSIST_FENCE,  /* u.persist, key (in text), bytes; replaces what the key held */
    NODE_EFFECT_FORGET_RECORD,  /* u.persist, key: takes it off the disk, behind every earlier PERSIST; nobody waits for it */
    NODE_EFFECT_FORGET_FENCE,   /* u.persist, key: the same */
    NODE_EFFECT_PEER,           /* u.peer: keep a connection to it at this address (again with another: move); `gone`:
                                 * none any more, and nothing of its bulk either. Of this node itself: to another daemon
                                 * that has its key */
    NODE_EFFECT_ADMIT,          /* u.peer: this key may connect; `invite`: for JOIN only; `gone`: no longer */
    NODE_EFFECT_CHECK_LINK,     /* u.peer.node: try to connect to its host, answer NODE_EVENT_LINK */
    NODE_EFFECT_PREPARE,        /* u.worker: fresh directory with the code; answer NODE_EVENT_PREPARED */
    NODE_EFFECT_SPAWN,          /* u.worker */
    NODE_EFFECT_KILL,           /* u.worker: SIGTERM, after grace_ms SIGKILL; sure; answer WORKER_EXITED */
    NODE_EFFECT_STOP_WORKER,    /* u.worker: ask it to save and leave; reason in text; killed after grace_ms */
    NODE_EFFECT_GROUP,          /* u.worker, bytes: the group, an array of [rank, host, port, has_state] in MessagePack; `step`:
                                   that all have applied who have the state, and the others are to get */
    NODE_EFFECT_LEAVE_GROUP,    /* u.worker: generation; the worker is to leave it and say NODE_EVENT_WORKER_LISTENS: `at_once`
                                   (somebody in it is gone: no collective of it will ever end), or after a step of its choice,
                                   which is that of all ranks */
    NODE_EFFECT_DURABLE,        /* u.worker: tell the worker that `step` is durable */
    NODE_EFFECT_PUSH,           /* u.push: copy a blob to a peer; answer NODE_EVENT_PUSHED */
    NODE_EFFECT_CONFIRM,        /* u.push: does that node hold the blob, every chunk undamaged? answer NODE_EVENT_CONFIRMED */
    NODE_EFFECT_COLLECT,        /* u.collect, bytes: hashes laid end to end: whatever chunk is of none of these blobs, and was
                                   not touched for idle_s, may go from this disk */
    NODE_EFFECT_REPLY,          /* u.reply: the answer to a request */
    NODE_EFFECT_NEW_KEY,        /* u.new_key: makes the key of the node that this one may become, on disk beside its own, or
                                   finds it there; answer NODE_EVENT_KEY */
    NODE_EFFECT_BECOME,         /* u.become: the key of NODE_EVENT_KEY takes the place of this node's own on disk, this core is
                                   done and a new one begins with that key; said again until then */
    NODE_EFFECT_WELCOME         /* u.reply, bytes: records laid end to end for the one who joins */
};

struct node_effect {
    enum node_effect_kind kind;
    union {
        struct {
            node_id to;
            struct message message;
        } send;
        struct {
            uint64_t ticket; /* 0: nobody waits for it */
            bool own;
            uint32_t key_bytes;
            uint8_t key[RECORD_KEY_BYTES_MAX];
        } persist;
        struct {
            node_id node;
            uint8_t public_key[PUBLIC_KEY_BYTES];
            char address[FACT_ADDRESS_BYTES];
            bool invite;
            bool gone;
        } peer;
        struct {
            uint32_t slot;
            attempt_id attempt;
            uint32_t number;
            uint32_t rank; /* SPAWN, GROUP: in the group as it is then */
            uint32_t size;
            uint32_t generation; /* SPAWN, GROUP, LEAVE_GROUP */
            bool at_once;        /* LEAVE_GROUP */
            uint32_t grace_ms;
            lease_token token;          /* SPAWN */
            char master_host[FACT_ADDRESS_BYTES]; /* SPAWN */
            uint32_t master_port;       /* SPAWN */
            uint32_t local_rank, local_size, node_rank; /* SPAWN */
            hash256 code;               /* PREPARE: fetch from any living peer if not here */
            hash256 checkpoint;         /* PREPARE: fetch too, if not none */
            uint64_t step;              /* PREPARE, SPAWN: of that checkpoint; DURABLE */
            uint64_t seed;              /* SPAWN: the trial's own seed */
            uint8_t group_key[MESSAGE_KEY_BYTES]; /* SPAWN (to be given back by ADOPT), GROUP */
            char text[32];              /* STOP_WORKER: the reason */
        } worker;
        struct {
            hash256 blob;
            node_id to;
            attempt_id attempt; /* checkpoints; zero for code */
            uint64_t step;
        } push;
        struct {
            uint32_t idle_s;
        } collect;
        struct {
            bool afresh; /* what is found there will not do */
        } new_key;
        struct {
            node_id node;
            char address[FACT_ADDRESS_BYTES]; /* where the other daemon is that keeps the key */
        } become;
        struct {
            uint64_t client;
            int32_t code;                /* 0 or an error of base/err.h */
            uint32_t stored_on;          /* on how many nodes it is on disk */
            bool already;                /* DELETE: it had been deleted before */
            char text[NODE_REPLY_BYTES]; /* one sentence when refused */
        } reply;
    } u;
    const uint8_t *bytes; /* in the effects' byte store, COLLECT's in the core's memory; valid until the effects are cleared */
    uint32_t byte_count;
};

/* Room for what one event can cause at most: a change of membership or claim can concern every slot, every member and
 * every trial that fits the slots; whatever does not fit is done at the next step (the core asks for a tick at once). */
#define NODE_EFFECTS_MAX 2048
#define NODE_EFFECT_BYTES_MAX (4u << 20)

struct node_effects {
    uint32_t count;
    uint32_t used_bytes;
    struct node_effect *items; /* NODE_EFFECTS_MAX, the caller's */
    uint8_t *bytes;            /* NODE_EFFECT_BYTES_MAX, the caller's */
};

/* ---- the machine ------------------------------------------------------------------------------------------------ */

struct node_core; /* its inside: node/core/ground/state.h, for node/core/ and for tests that look inside */

/* The bytes that a struct node_core takes from options.memory are inside it too. NULL when memory is too small. */
struct node_core *node_core_init(const struct node_options *options);

/* One step. Effects are appended to `out`, which the caller has cleared. Events that are malformed or come too late are
 * ignored with a trace line and counted; nothing a peer sends makes it fail. */
void node_core_step(struct node_core *core, const struct node_event *event, struct node_effects *out);

/* When it wants the next TICK. */
uint64_t node_core_next_ms(const struct node_core *core);

/* The slot whose lease has this token, or -1: no lease has it (any more). Whatever a worker says is taken only after this
 * has found its token. */
int node_core_find_token(const struct node_core *core, lease_token token);

/* ---- readers ---------------------------------------------------------------------------------------------------- */

/* What the shell may know of the core's state. Readers change nothing, read no clock and allocate nothing; all times are
 * those of the last event. A pointer that a reader returns is the core's: it is valid until the next step, unless the
 * reader says otherwise. */

struct records;        /* gossip/records.h */
struct view;           /* node/core/view/view.h */
struct view_manifest;
struct view_trial;

/* The fold of all records and the table of records themselves. The pointer is valid as long as the core; the rows in it
 * until the next step. */
const struct view *node_core_view(const struct node_core *core);
const struct records *node_core_records(const struct node_core *core);

/* This node's slots, leases and reservations: of its own slots the owner knows more than its records say. The pointer is
 * valid as long as the core. */
const struct lease *node_core_lease(const struct node_core *core);

/* This node, its mesh, and what the node says of itself (name, addresses, slots, whether it has left). */
node_id node_core_self(const struct node_core *core);
mesh_id node_core_mesh(const struct node_core *core);
const struct fact_node *node_core_own_fact(const struct node_core *core);

/* Seconds since 1970 by this node's clock, as the last event had them. */
uint64_t node_core_wall_s(const struct node_core *core);

/* True until this node has caught up with the records of the others after its start. */
bool node_core_is_syncing(const struct node_core *core);

/* This node is no member (evicted, nobody vouches for it any more) or yields to another daemon with its key: it only waits. */
bool node_core_is_out(const struct node_core *core);

/* The disk is full, as the last NODE_EVENT_DISK said; memory is short, so that nothing new is granted. */
bool node_core_is_disk_full(const struct node_core *core);
bool node_core_is_memory_short(const struct node_core *core);

/* What was refused since node_core_init. */
struct node_counters {
    uint64_t malformed;     /* messages, records and requests that could not be decoded */
    uint64_t strangers;     /* messages of nodes that are no members */
    uint64_t equivocations; /* two records of one version that differ */
    uint64_t stale_claims;  /* messages of coordinators whose claim is overtaken */
    uint64_t jumps;         /* terms and numbers that are too far ahead of all others to count */
    uint64_t full;          /* records for which there was no memory */
};
void node_core_counters(const struct node_core *core, struct node_counters *out);

/* Another member, as this node sees it beyond its records. */
struct node_peer {
    node_id id;
    enum swim_state state;
    const char *address; /* where the core wants a connection to it; "" if it knows no address */
};

/* Peers in the order of their ids; places move when the membership changes. `place` < node_core_peer_count. */
uint32_t node_core_peer_count(const struct node_core *core);
struct node_peer node_core_peer(const struct node_core *core, uint32_t place);

/* The peer with this id; false if there is none (the node itself is no peer of its own), `*out` is then untouched. */
bool node_core_find_peer(const struct node_core *core, node_id node, struct node_peer *out);

/* Alive or suspect; this node always is. How many peers are (without this node). */
bool node_core_is_alive(const struct node_core *core, node_id node);
uint32_t node_core_peers_alive(const struct node_core *core);

/* A user has asked that the node gets no new work. */
bool node_core_is_drained(const struct node_core *core, node_id node);

/* Which versions of the protocol the node speaks, as far as this node knows; newest 0: nothing is known. */
struct version_range node_core_versions(const struct node_core *core, node_id node);

/* False: this node and that one have no version in common, by what the node announces and by what comes from it. */
bool node_core_speaks(const struct node_core *core, node_id node);

/* Another daemon has this node's key. False: no other was found; `*out` is then untouched. */
struct node_twin {
    const char *address; /* of the other daemon */
    bool is_yielding;    /* this node waits, and will become another one */
};
bool node_core_twin(const struct node_core *core, struct node_twin *out);

/* The highest claim to an experiment, by the rules of the election in which this node takes part; `*released`: its node has
 * given it up. False if this node takes part in no election for it, or has heard of no claim; both are then untouched. */
bool node_core_highest_claim(const struct node_core *core, experiment_id experiment, struct election_claim *claim,
                             bool *released);

/* Some member's invite with this key that is neither revoked nor expired. */
bool node_core_invite_is_valid(const struct node_core *core, const uint8_t invite_key[PUBLIC_KEY_BYTES]);

/* All records of the checkpoint of `first` as one: every holder, first those that live and are not known to have lost their
 * copy. Returns the next checkpoint's row, or NULL. `out->next` is of no use. */
const struct view_manifest *node_core_unite_checkpoint(const struct node_core *core, const struct view_manifest *first,
                                                       struct view_manifest *out);

/* The first checkpoint at `*row` or behind it that has a holder, united as above; `*row` is then behind it. False: there is
 * none, `*out` is of no use. To see all: begin with `*row` = the trial's manifests. */
bool node_core_next_checkpoint(const struct node_core *core, const struct view_manifest **row, struct view_manifest *out);

/* "quarantined: it failed on a, b and c" in `out`; false if the trial is not quarantined. */
bool node_core_quarantine_reason(const struct node_core *core, const struct view_trial *trial, char *out, size_t size);

/* Whether a slot of this kind is one of those that a trial wants. */
bool node_core_slot_fits(enum config_slot_kind wanted, enum fact_slot_kind kind);

/* ---- readers of the workers here; slot < node_core_lease(core)->count ---- */

/* The attempt has the lease of this slot, its directory is ready and its worker is not started yet. */
bool node_core_is_prepared(const struct node_core *core, uint32_t slot, const attempt_id *attempt);

/* How far the worker in this slot is, as last published. All zero without a worker. */
struct node_progress {
    uint32_t generation; /* of the group that it is in, or was in last; 0: none */
    uint64_t step;
    const uint8_t *metrics; /* a MessagePack map group -> map name -> number */
    uint32_t metrics_bytes;
};
struct node_progress node_core_progress(const struct node_core *core, uint32_t slot);

/* The core knows that this worker of this node has ended (NODE_EVENT_WORKER_EXITED), but the record that says so is not on
 * the disk yet: what else on the disk shows the end must stay. */
bool node_core_end_is_unwritten(const struct node_core *core, const attempt_id *attempt, uint32_t number);

#endif
