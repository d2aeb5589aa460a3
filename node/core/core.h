#ifndef NODE_CORE_CORE_H
#define NODE_CORE_CORE_H
/* The node core: the whole control plane of one node as one deterministic state machine. It is made of membership, records
 * and their exchange, slot leases, elections, the coordinator and groups. Events go in and effects come out, and the shell
 * keeps the order of both; there is no other way in or out. shoald runs the core with real sockets, disks and processes,
 * tests/sim with simulated ones.
 *
 * The order of calls: node_core_init; NODE_EVENT_LOAD_RECORD and NODE_EVENT_LOAD_FENCE for everything on the disk, in any
 * order; NODE_EVENT_ADOPT for every worker found alive; NODE_EVENT_START once; from then on all other events.
 *
 * Times are in ms by a monotonic clock of the shell, or in seconds since 1970 (wall_s). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/trace.h"
#include "gossip/lease.h"
#include "gossip/message.h"
#include "node/core/facts/config.h"
#include "node/core/facts/facts.h"
#include "node/core/facts/policy.h"

#define NODE_MEMBERS_MAX 1024 /* nodes of a mesh */
#define NODE_REPLY_BYTES 512  /* the sentence of a reply, with its NUL */

#define NODE_ZONES_MAX 4
#define NODE_ZONE_BYTES 16

/* Where this node can be reached. */
struct node_addresses {
    struct fact_addresses announced; /* best first */
    uint32_t zone_count;             /* interfaces of this node with a link-local IPv6 address, for those of peers */
    char zones[NODE_ZONES_MAX][NODE_ZONE_BYTES];
};

/* What a core needs to begin. */

struct node_options {
    node_id self;
    uint8_t public_key[PUBLIC_KEY_BYTES];
    mesh_id mesh;
    uint64_t boot; /* start number << 32 | 32 random bits: larger than every boot of the node on the disk; the core raises the
                    * boot when the mesh knows of a later one */
    uint64_t seed; /* of every random choice but the secrets */
    uint8_t secret[32]; /* from the system's generator, new in every boot: tokens and group keys are hashes under it */
    uint64_t now_ms;
    uint64_t wall_s;
    struct fact_node node; /* name, addresses, slots: what the node will publish of itself */
    struct node_addresses addresses; /* without any, those of `node` are announced */
    struct trace trace;
    void *memory; /* aligned to 16; borrowed for the core's arena until the core is done */
    size_t memory_bytes;
};

/* ---- events ---------------------------------------------------------------------------------------------------- */

enum node_event_kind {
    NODE_EVENT_LOAD_RECORD, /* bytes: an envelope from this node's disk */
    NODE_EVENT_LOAD_FENCE,  /* bytes: a value that NODE_EFFECT_PERSIST_FENCE once wrote */
    NODE_EVENT_ADOPT,       /* u.adopt: a worker of an earlier daemon is still alive here */
    NODE_EVENT_START,       /* everything on the disk and all workers have been told of */
    NODE_EVENT_TICK,      /* time passed; due at node_core_next_ms, early or late is safe */
    NODE_EVENT_MESSAGE,   /* u.message, from a peer; the signatures of its records are verified */
    NODE_EVENT_JOIN,      /* u.join: a machine that has an invite's key asks for a voucher */
    NODE_EVENT_PERSISTED, /* u.persisted: a ticket is on disk; tickets come in their order */
    NODE_EVENT_LINK,      /* u.link: the answer to NODE_EFFECT_CHECK_LINK */
    NODE_EVENT_HINT,      /* u.hint: an address at which a member may be, from a beacon, a token or --peer */
    NODE_EVENT_ADDRESSES, /* u.addresses: the addresses of this node have changed */
    NODE_EVENT_DOOR,      /* u.door: the certificate of this node's door for other machines has changed */
    NODE_EVENT_REQUEST,   /* u.request: from a user */
    NODE_EVENT_PREPARED,  /* u.worker: the slot's directory is ready, or making it has failed (code, text) */
    NODE_EVENT_WORKER_LISTENS, /* u.worker: the worker is in no group (any more) and listens on `port` for the next one;
                                  is_elastic, generation, has_state and step as in struct fact_worker */
    NODE_EVENT_WORKER_STATUS,  /* u.worker: step; bytes: the latest metrics, packed as in struct fact_worker */
    NODE_EVENT_WORKER_RESULT,  /* u.worker: step, length, metric: the worker has reported searcher.metric of its validation */
    NODE_EVENT_WORKER_STALL,   /* u.worker: stall, stall_s, is_overdue, is_past_barrier: what the worker has lacked for a
                                  while has changed */
    NODE_EVENT_WORKER_EXITED,  /* u.worker: the worker is gone for certain, with all children; code; text: the last lines */
    NODE_EVENT_CHECKPOINT,     /* u.blob: the worker of `slot` saved `step`, and all chunks are on the disk; bytes: the
                                  metrics at the time of the save, packed as in struct fact_worker */
    NODE_EVENT_OUTPUT,         /* u.output: files that the worker has left, and all chunks are on the disk; answer, once no copy
                                  is under way any more: NODE_EFFECT_OUTPUT_DONE */
    NODE_EVENT_PUSHED,         /* u.blob: the answer to NODE_EFFECT_PUSH: `node` holds `blob` (ok), or the copy has failed */
    NODE_EVENT_CONFIRMED,      /* u.blob: the answer to NODE_EFFECT_CONFIRM: `node` holds `blob` undamaged (ok), or not */
    NODE_EVENT_DISK,           /* u.disk: the disk is full, or is no longer */
    NODE_EVENT_KEY,            /* u.key: the answer to NODE_EFFECT_NEW_KEY */
    NODE_EVENT_SLOT_BUSY,      /* u.busy: whether a program outside Shoal uses the slot's device; repeated now and then */
    NODE_EVENT_LOOK,           /* u.look: what the machine shows (node/core/facts/policy.h); repeated every some seconds */
    NODE_EVENT_PROGRAMS,       /* bytes: which programs this machine has, the body of a record (fact_programs_pack); repeated
                                  now and then */
    NODE_EVENT_SEARCHER_STARTED, /* u.searcher: the process of the program runs; its first words are to come */
    NODE_EVENT_SEARCHER_READY,   /* u.searcher: the program waits for its first event */
    NODE_EVENT_SEARCHER_ANSWER,  /* u.searcher: event, has_more; bytes: the actions, an array (docs/wire.md) */
    NODE_EVENT_SEARCHER_ENDED,   /* u.searcher: the program is gone, or was never there; text */
    NODE_EVENT_SECRET_COPIES,  /* bytes: an array of a secret's name, its value's name and copies for the nodes of node_core_secret_due */
    NODE_EVENT_WEBHOOK_TRIED,  /* u.webhook: what came of telling the webhook of node_core_webhook_due */
    NODE_EVENT_LOG_MATCHED,    /* u.match: a line of a worker here matches the pattern of a webhook; the first one counts */
    NODE_EVENT_FOREIGN,        /* u.foreign: a message of a version that is not spoken here was refused */
    NODE_EVENT_MALFORMED       /* a message or a request to join could not be decoded; node_core_counters counts it */
};

/* What a user can ask for; beside each kind the fields of u.request in use. The answer is NODE_EFFECT_REPLY. */
enum node_request_kind {
    NODE_REQUEST_SUBMIT, /* experiment, code, config_text, trial_count; bytes: the packed config, in lean form if trial_count is
                          * not 0; the blobs are on this disk already */
    NODE_REQUEST_CANCEL, /* experiment */
    NODE_REQUEST_PAUSE,  /* experiment */
    NODE_REQUEST_RESUME, /* experiment */
    NODE_REQUEST_DELETE, /* experiment */
    NODE_REQUEST_INVITE, /* public_key, expires_s */
    NODE_REQUEST_REVOKE, /* public_key: the invite's */
    NODE_REQUEST_TOKEN,  /* public_key: the token's hash; expires_s, read_only, label: its name */
    NODE_REQUEST_TOKEN_REVOKE, /* public_key: the token's hash */
    NODE_REQUEST_SECRET, /* label: the name; bytes: an array of the value's name, the sealed value and the copies (struct fact_secret),
                          * of all members */
    NODE_REQUEST_SECRET_REMOVE, /* label: the name */
    NODE_REQUEST_WEBHOOK, /* public_key: the new id in its first bytes; value: an allowed host, or "" and bytes: the webhook, a map */
    NODE_REQUEST_WEBHOOK_REMOVE, /* public_key: the id likewise */
    NODE_REQUEST_WEBHOOK_TEST,   /* public_key: the id likewise */
    NODE_REQUEST_MODEL_VERSION, /* public_key: the new version's id in its first bytes; model: name, source */
    NODE_REQUEST_MODEL_SET, /* model_subject; public_key: likewise, zeros: of the model; model: name, field, value, target, removed */
    NODE_REQUEST_EVICT,  /* node; with_vouched: nodes without another voucher are evicted, too */
    NODE_REQUEST_WITHHOLD, /* slots, for_s: the owner of the machine takes the slots back */
    NODE_REQUEST_RETURN,   /* slots: the mesh may use them again */
    NODE_REQUEST_POLICY,   /* bytes: what the owner says of its slots, the body of a record (fact_policy_pack) */
    NODE_REQUEST_DRAIN,    /* node (any of the mesh), at_once: the node gets no new work */
    NODE_REQUEST_UNDRAIN,  /* node */
    NODE_REQUEST_LEAVE,  /* the node leaves the mesh; answered once no worker runs here and all other nodes know */
    NODE_REQUEST_STOP,   /* experiment, trial */
    NODE_REQUEST_RETRY,  /* experiment, trial */
    NODE_REQUEST_ANNOTATE /* experiment, subject, is_set, label, value: a note of a user; of a pin, what it forbids */
};

/* What a webhook is to be told. */
struct node_webhook_due {
    experiment_id experiment; /* zero: of the mesh */
    uint8_t subject[FACT_SUBJECT_BYTES];
    uint8_t id[16]; /* of the message: the same at every try, on every node */
    struct fact_delivery fact;
    struct config_webhook hook;
    node_id node; /* NODE_LOST */
    double value; /* BEST */
};

/* A line of a log that matches the pattern of a webhook. */
struct node_log_match {
    attempt_id attempt;
    uint32_t rank;
    uint8_t hook[FACT_HOOK_BYTES];
    char line[FACT_DELIVERY_BYTES];
};

/* One event. The comment beside the kind names the part of `u` in use. */
struct node_event {
    enum node_event_kind kind;
    uint64_t now_ms;
    uint64_t wall_s;
    union {
        struct {
            uint32_t slot;
            attempt_id attempt;
            uint16_t number; /* the worker's number in the attempt, as SPAWN gave it */
            lease_token token;
            uint32_t data_port; /* 0: the worker does not listen yet */
            uint64_t draw;      /* as SPAWN gave it; 0 also of workers of a version that did not keep it */
            uint8_t group_key[MESSAGE_KEY_BYTES]; /* as SPAWN gave it */
        } adopt;
        struct {
            node_id from;
            const struct message *message; /* borrowed for the call */
            const char *host; /* numeric, of the other end of the connection; NULL or "": unknown; borrowed for the call */
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
            uint8_t signature[RECORD_SIGNATURE_BYTES]; /* of an own record */
        } persisted;
        struct {
            node_id peer;
            char address[FACT_ADDRESS_BYTES]; /* as in the effect; "": the address in use */
            bool refused; /* the host answers and refuses the connection */
            bool open;    /* the host accepts the connection; neither: no answer */
            bool reached; /* open, and the peer's key answers */
            uint32_t round_trip_us; /* reached: of connection and handshake */
        } link;
        struct {
            node_id node;
            char address[FACT_ADDRESS_BYTES];
        } hint;
        struct node_addresses addresses;
        struct fact_door door;
        struct {
            uint64_t client; /* for NODE_EFFECT_REPLY */
            enum node_request_kind kind;
            experiment_id experiment;
            uint32_t trial; /* STOP, RETRY */
            hash256 code;
            uint64_t code_bytes;
            hash256 config_text;
            hash256 checkpoint; /* SUBMIT, with checkpoint.begin_from: on this disk already, like code and config_text; else none */
            uint64_t checkpoint_bytes;
            uint32_t checkpoint_parts; /* 0: the checkpoint is one blob; else it has so many parts, and `checkpoint` is its name */
            uint32_t trial_count; /* of a large experiment, whose whole configuration is in config_text; else 0 */
            uint8_t public_key[PUBLIC_KEY_BYTES];
            uint64_t expires_s;
            enum fact_model_subject model_subject;
            const struct fact_model *model; /* borrowed for the call */
            bool read_only; /* TOKEN */
            uint64_t slots; /* bit i: slot i; 0: all */
            uint64_t for_s; /* 0: until they are returned */
            node_id node;   /* none: this node */
            bool at_once;   /* DRAIN: the workers there are asked to save and leave */
            bool with_vouched; /* EVICT */
            enum fact_subject subject; /* ANNOTATE */
            bool is_set;               /* ANNOTATE; false: the note is taken back */
            char label[FACT_LABEL_BYTES]; /* ANNOTATE: of LABEL the name, of MAX_TRIALS the number in decimal digits, else "" */
            char value[FACT_NOTE_BYTES];  /* ANNOTATE: of LABEL, DESCRIPTION, PRIORITY and MAX_SLOTS */
        } request;
        struct {
            uint32_t slot;
            attempt_id attempt;
            int32_t code; /* PREPARED: 0 or an error; EXITED: exit status, or minus the signal */
            bool killed;  /* EXITED: ended by NODE_EFFECT_KILL or because the lease was over, not by itself */
            bool is_stopping; /* EXITED: the worker was asked to save and leave, perhaps by an earlier daemon */
            bool is_unstarted; /* EXITED: this machine could not start a process; code is not 0 */
            bool lacks_packages; /* EXITED: the packages of the experiment could not be installed: no fault of this node */
            uint32_t port; /* PREPARED: a free port for MASTER_PORT; LISTENS: the data port */
            uint64_t step;
            uint64_t length;     /* RESULT, as in struct fact_result; of no use if max_time counts seconds */
            double metric;       /* RESULT */
            bool is_elastic;     /* LISTENS: the program can leave a group and enter the next */
            bool has_state;      /* LISTENS: the worker has applied `step` steps, and can give the state to others */
            uint32_t generation; /* LISTENS: of the last group; 0: none */
            enum fact_stall stall; /* STALL, as in struct fact_worker */
            uint64_t stall_s;
            bool is_overdue, is_past_barrier;
            enum fact_cause cause; /* EXITED */
            uint64_t failure;      /* EXITED: a hash of status and last line as in struct fact_worker; 0: not to be compared */
            uint64_t error_ms;     /* EXITED: as in struct fact_worker */
            const char *text; /* borrowed for the call; may be NULL */
        } worker;
        struct {
            uint32_t slot;
            attempt_id attempt;
            uint64_t step;
            hash256 blob;
            struct fact_part_key part; /* CHECKPOINT: which part of which checkpoint; count 0: the whole checkpoint */
            uint64_t bytes;
            node_id node;
            bool ok;
            bool is_missing; /* PUSHED, not ok: the blob is not on the disk here; CONFIRMED, not ok: by the answer of `node`,
                              * chunks of the blob are missing or damaged */
        } blob;
        struct {
            uint32_t slot;
            attempt_id attempt;
            uint32_t number;
            hash256 blob;
            uint64_t bytes, files;
            uint64_t after; /* struct fact_output */
            bool is_final;
            struct fact_saved saved;
        } output;
        struct {
            experiment_id experiment;
            uint64_t life; /* as in NODE_EFFECT_SEARCHER_START */
            uint64_t event;
            bool has_more;
            const char *text; /* why, the end of a sentence; borrowed for the call; may be NULL */
        } searcher;
        struct {
            const struct node_webhook_due *due; /* borrowed for the call */
            bool ok;
            uint32_t status;  /* of HTTP; 0: there was no answer */
            const char *text; /* not ok: why, in some words; borrowed for the call */
        } webhook;
        const struct node_log_match *match; /* borrowed for the call */
        struct {
            bool full;
        } disk;
        struct {
            uint32_t slot;
            bool is_busy;
        } busy;
        struct policy_look look;
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
    NODE_EFFECT_SEND,           /* u.send: a message to one peer; lost if there is no connection */
    NODE_EFFECT_PERSIST_RECORD, /* u.persist; bytes: an envelope; `own`: sign it first */
    NODE_EFFECT_PERSIST_FENCE,  /* u.persist; bytes: the value of the key, in place of an earlier value */
    NODE_EFFECT_FORGET_RECORD,  /* u.persist: deletes the key, after every earlier PERSIST; without answer */
    NODE_EFFECT_FORGET_FENCE,   /* u.persist: deletes the key, after every earlier PERSIST; without answer */
    NODE_EFFECT_PEER,           /* u.peer: keep a connection to the node at this address (given again with another
                                 * address: move); `gone`: close it, and all bulk transfers with the node. With the
                                 * id of the node itself: a connection to another daemon with the same key */
    NODE_EFFECT_ADMIT,          /* u.peer: this key may connect; `invite`: only to join; `gone`: no longer */
    NODE_EFFECT_CHECK_LINK,     /* u.peer: find out whether the node's key answers at the address; answer: NODE_EVENT_LINK.
                                 * Without an answer the core asks again */
    NODE_EFFECT_PREPARE,        /* u.worker: make a fresh directory with the code; bytes: the files of earlier attempts that go
                                 * into it, an array of struct fact_beginning; answer: NODE_EVENT_PREPARED */
    NODE_EFFECT_SPAWN,          /* u.worker: start the program in the prepared directory */
    NODE_EFFECT_KILL,           /* u.worker: SIGTERM, after grace_ms SIGKILL; answer for certain: WORKER_EXITED */
    NODE_EFFECT_STOP_WORKER,    /* u.worker: ask the worker to save and leave, for the reason in text; killed after grace_ms */
    NODE_EFFECT_GROUP,          /* u.worker: the worker enters a group; bytes: an array of [rank, host, port, has_state] in
                                 * MessagePack; `step`: the step of the state, which members with has_state give to those
                                 * without */
    NODE_EFFECT_LEAVE_GROUP,    /* u.worker: the worker leaves the group `generation`; answer: NODE_EVENT_WORKER_LISTENS.
                                 * `at_once`: a member is gone, so no collective of the group will ever end; else after a
                                 * step upon which all ranks agree */
    NODE_EFFECT_DURABLE,        /* u.worker: tell the worker that the checkpoint of `step` is durable */
    NODE_EFFECT_OUTPUT_DONE,    /* u.worker: the worker's last output (`step`: its sequence) has its copies, or no node is left
                                 * to ask: the next output may come */
    NODE_EFFECT_PUSH,           /* u.push: copy a blob to a peer; answer: NODE_EVENT_PUSHED */
    NODE_EFFECT_CONFIRM,        /* u.push: ask the node whether it holds the blob undamaged; answer: NODE_EVENT_CONFIRMED */
    NODE_EFFECT_SEARCHER_START, /* u.searcher: start the program that decides in a search, in a copy of the code; `life` tells it from
                                 * earlier ones. Answers: NODE_EVENT_SEARCHER_..., for certain ENDED in the end */
    NODE_EFFECT_SEARCHER_TELL,  /* u.searcher: event; bytes: the event, a map (docs/wire.md), for the program that waits for it */
    NODE_EFFECT_SEARCHER_STOP,  /* u.searcher: end the program; no answer is wanted */
    NODE_EFFECT_COLLECT,        /* u.collect; bytes: hashes of blobs, end to end: chunks of none of these blobs, and
                                 * untouched for idle_s, may be deleted from the disk */
    NODE_EFFECT_REPLY,          /* u.reply: the answer to a request */
    NODE_EFFECT_NEW_KEY,        /* u.new_key: make, or find on the disk, a second key beside the node's own, with which the node
                                 * may become another one; answer: NODE_EVENT_KEY */
    NODE_EFFECT_BECOME,         /* u.become: put the key of NODE_EVENT_KEY in the place of the node's own on the disk, end the
                                 * core and begin a new core with the new key; repeated until then */
    NODE_EFFECT_WELCOME         /* u.reply.client; bytes: records end to end, for the machine that joins */
};

/* One effect. The comment beside the kind names the part of `u` in use. */
struct node_effect {
    enum node_effect_kind kind;
    union {
        struct {
            node_id to;
            struct message message;
        } send;
        struct {
            uint64_t ticket; /* for NODE_EVENT_PERSISTED; 0: no answer is wanted */
            bool own;
            uint32_t key_bytes;
            uint8_t key[RECORD_KEY_BYTES_MAX]; /* of a record: its ident; of a fence: the experiment's id */
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
            uint32_t rank; /* SPAWN, GROUP: rank and size of the group */
            uint32_t size;
            uint32_t generation; /* SPAWN, GROUP, LEAVE_GROUP */
            bool at_once;        /* LEAVE_GROUP */
            uint32_t grace_ms;
            lease_token token;          /* SPAWN */
            char master_host[FACT_ADDRESS_BYTES]; /* SPAWN */
            char host[FACT_ADDRESS_BYTES]; /* SPAWN: of this node in the network that the group uses */
            uint32_t master_port;       /* SPAWN */
            uint32_t local_rank, local_size; /* SPAWN: among the group's workers on this node */
            uint32_t node_rank, node_count;  /* SPAWN: the group's nodes, in the order of their first ranks */
            uint8_t local_slots[FACT_SLOTS_MAX]; /* SPAWN: [local_size], the slots of those workers by local rank */
            hash256 code;               /* PREPARE: fetched from any living peer if not on this disk */
            hash256 config;             /* PREPARE: the whole configuration, fetched likewise; none: the record has it */
            hash256 checkpoint;         /* PREPARE: fetched likewise; none: there is no checkpoint */
            uint64_t step;              /* PREPARE, SPAWN: of that checkpoint; GROUP; DURABLE */
            uint64_t seed;              /* SPAWN: the trial's seed */
            uint64_t draw;              /* SPAWN (ADOPT gives it back): fact_draw_mark of the values that the program is given */
            uint8_t group_key[MESSAGE_KEY_BYTES]; /* SPAWN (ADOPT gives it back), GROUP */
            char text[32];              /* STOP_WORKER: the reason */
            bool stacks;                /* KILL: the worker hangs: write its stacks into its log first, for some seconds at most */
        } worker;
        struct {
            hash256 blob;
            node_id to;
            attempt_id attempt; /* checkpoints; zero for code */
            uint64_t step;
        } push;
        struct {
            experiment_id experiment;
            uint64_t life;
            uint64_t event;
        } searcher;
        struct {
            uint32_t idle_s;
        } collect;
        struct {
            bool afresh; /* make a new key, even if there is a second key on the disk: it cannot be used */
        } new_key;
        struct {
            node_id node;
            char address[FACT_ADDRESS_BYTES]; /* of the other daemon, which keeps the present key */
        } become;
        struct {
            uint64_t client;
            int32_t code;                /* 0 or an error of base/err.h */
            uint32_t stored_on;          /* nodes on whose disks the request's record is */
            bool already;                /* DELETE, RETRY: it had been done before */
            char text[NODE_REPLY_BYTES]; /* if refused: why, in one sentence */
        } reply;
    } u;
    const uint8_t *bytes; /* in the effects' byte store, of COLLECT in the core's memory; valid until `out` is cleared */
    uint32_t byte_count;
};

/* Room for the effects of one event: a change of membership or of a claim can concern every slot, every member and every trial
 * that fits the slots. The core does the rest, if there is more, at the next step, and asks for that tick at once. */
#define NODE_EFFECTS_MAX 2048
#define NODE_EFFECT_BYTES_MAX (4u << 20)

/* The effects of steps. The shell performs them in order. */
struct node_effects {
    uint32_t count;
    uint32_t used_bytes;
    struct node_effect *items; /* [NODE_EFFECTS_MAX], the caller's */
    uint8_t *bytes;            /* [NODE_EFFECT_BYTES_MAX], the caller's */
};

/* ---- the machine ------------------------------------------------------------------------------------------------ */

struct node_core; /* defined in node/core/ground/state.h, for node/core/ and for tests that look inside */

/* A core in options->memory, which is the struct node_core and its arena; NULL: the memory is too small. There is nothing to
 * close: the core is done when the caller takes the memory back. */
struct node_core *node_core_init(const struct node_options *options);

/* One step. Appends effects to `out`, which the caller has cleared. An event->now_ms below an earlier event's counts as
 * the earlier time. A malformed or late event is ignored, with a trace line, and counted; no message of a peer makes a step
 * fail. */
void node_core_step(struct node_core *core, const struct node_event *event, struct node_effects *out);

/* When the core needs its next NODE_EVENT_TICK, in ms by the clock of the events. */
uint64_t node_core_next_ms(const struct node_core *core);

/* The slot with the lease of this token, or -1: no lease has the token (any more). The shell takes messages of a worker only
 * while the worker's token has a slot. */
int node_core_find_token(const struct node_core *core, lease_token token);

/* ---- readers ---------------------------------------------------------------------------------------------------- */

/* What the shell may know of the core's state. Readers change nothing, read no clock and allocate nothing; all times are
 * those of the last event. A pointer that a reader returns is the core's: it is valid until the next step, unless the
 * reader says otherwise. */

struct records;        /* gossip/records.h */
struct view;           /* node/core/view/view.h */
struct view_experiment;
struct view_manifest;
struct view_set;
struct view_member;
struct view_output;
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

/* The addresses that this node announces now. Valid until the next step. */
const struct fact_addresses *node_core_own_addresses(const struct node_core *core);

/* Writes the host of this node in the network that the attempt's group uses; empty: the node has no address. */
void node_core_host(const struct node_core *core, const attempt_id *attempt, char *out, size_t size);

/* Seconds since 1970 by this node's clock, as the last event had them. */
uint64_t node_core_wall_s(const struct node_core *core);

/* The time by which invites expire: most members' clock, where this node's own is far from that (members/clocks.h). */
uint64_t node_core_mesh_wall_s(const struct node_core *core);

/* By how many seconds the peer's wall clock is ahead of this node's (negative: behind). False: not known. */
bool node_core_clock_ahead_s(const struct node_core *core, node_id node, int64_t *ahead_s);

/* True until this node has caught up with the records of the others after its start. */
bool node_core_is_syncing(const struct node_core *core);

/* This node is no member (evicted, nobody vouches for it any more) or yields to another daemon with its key: it only waits. */
bool node_core_is_out(const struct node_core *core);

/* The disk is full, as the last NODE_EVENT_DISK said; memory is short, so that nothing new is granted. */
bool node_core_is_disk_full(const struct node_core *core);
bool node_core_is_memory_short(const struct node_core *core);

/* What was refused, and repaired, since node_core_init. */
struct node_counters {
    uint64_t malformed;     /* messages, records and requests that could not be decoded */
    uint64_t strangers;     /* messages of nodes that are no members */
    uint64_t equivocations; /* two records of one version that differ */
    uint64_t stale_claims;  /* messages of coordinators whose claim is overtaken */
    uint64_t jumps;         /* terms and numbers that are too far ahead of all others to count */
    uint64_t full;          /* records for which there was no memory */
    uint64_t copies_repaired; /* no refusal: copies of checkpoints that were made again, as their holders were gone */
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

/* Reads a member's token with this hash that no member has revoked and that has not expired. False: there is none, `*out` is
 * untouched. */
bool node_core_find_door_token(const struct node_core *core, const uint8_t hash[HASH_BYTES], struct fact_token *out);

/* Members without a copy of a secret of which this node has one. */
#define NODE_SECRET_DUE_MAX 32
struct node_secret_due {
    char name[FACT_NAME_BYTES];
    uint8_t value[FACT_SECRET_VALUE_BYTES];
    uint32_t rank; /* so many living nodes with a copy come before this one: they give copies first */
    uint32_t count;
    node_id nodes[NODE_SECRET_DUE_MAX];
    uint8_t public_keys[NODE_SECRET_DUE_MAX][PUBLIC_KEY_BYTES];
};

/* The first secret that such members lack. False: none; `*out` is of no use. Answer: NODE_EVENT_SECRET_COPIES. */
bool node_core_secret_due(const struct node_core *core, struct node_secret_due *out);

/* What a webhook is to be told by this node now; the next call gives the next one. False: nothing; `*out` is of no use. Answer, for
 * certain: NODE_EVENT_WEBHOOK_TRIED. */
bool node_core_webhook_due(struct node_core *core, struct node_webhook_due *out);

/* The webhook at `index` of those that are told of the experiment (zero: of the mesh). False: there are no more. */
bool node_core_webhook(const struct node_core *core, experiment_id experiment, uint32_t index, uint8_t id[FACT_HOOK_BYTES],
                       struct config_webhook *out);

/* All records of the checkpoint of `first` as one: every holder, first those that live and are not known to have lost their
 * copy. Returns the next checkpoint's row, or NULL. `out->next` is of no use. */
const struct view_manifest *node_core_unite_checkpoint(const struct node_core *core, const struct view_manifest *first,
                                                       struct view_manifest *out);

/* The first checkpoint at `*row` or behind it that has a holder, united as above; `*row` is then behind it. False: there is
 * none, `*out` is of no use. To see all: begin with `*row` = the trial's manifests. */
bool node_core_next_checkpoint(const struct node_core *core, const struct view_manifest **row, struct view_manifest *out);

/* The part of a checkpoint of several parts, united likewise. False: no node is known to hold it. */
bool node_core_part(const struct node_core *core, const struct view_set *set, uint32_t part, struct view_manifest *out);

/* A living node whose version does not know checkpoints of several parts; NULL: there is none, and such checkpoints may be made. */
const struct view_member *node_core_lacks_parts(const struct node_core *core);

/* The outputs with which an attempt would begin now: of the highest attempt that has left any, as the experiment's keep_ranks
 * says. Returns their number; the rows are valid until the next step. */
uint32_t node_core_outputs(const struct node_core *core, const struct view_experiment *experiment,
                           const struct view_trial *trial, const struct view_output *out[FACT_OUTPUTS_MAX]);

/* The nodes that hold the output, by all records of it, living holders first; returns their number. */
uint32_t node_core_output_holders(const struct node_core *core, const struct view_trial *trial, const struct view_output *output,
                                  node_id out[FACT_HOLDERS_MAX]);

/* The outputs of this trial are kept, as the keys checkpoint.save_... say. */
bool node_core_keeps_outputs(const struct view_experiment *experiment, const struct view_trial *trial);

/* The highest sequence of an output of rank 0 of the attempt, by any record; 0: none. */
uint64_t node_core_output_sequence(const struct node_core *core, const attempt_id *attempt);

/* Every other worker of the attempt has looked at its files since rank 0's output with this sequence, or has ended. */
bool node_core_output_is_united(const struct node_core *core, const attempt_id *attempt, uint64_t sequence);

/* "quarantined: it failed on a, b and c" in `out`; false if the trial is not quarantined. */
bool node_core_quarantine_reason(const struct node_core *core, const struct view_trial *trial, enum config_retry retry, char *out,
                                 size_t size);

#define NODE_CORE_WAITING_BYTES 640 /* suffices for a reason of node_core_waiting_reason */

/* Why a queued trial has not begun, in one sentence (coordinator/waiting.h). False: the trial does not wait; `out` is untouched.
 * Looks at every slot of every node. */
bool node_core_waiting_reason(const struct node_core *core, const struct view_experiment *experiment, uint32_t trial, char *out,
                              size_t size);

/* What is wrong with the program of a search (searcher custom), in one sentence. False: nothing is known to be; `out` is
 * untouched. */
bool node_core_search_trouble(const struct view_experiment *experiment, char *out, size_t size);

/* Nothing of the experiment happens any more unless somebody acts: the program of its search is not started any more, and
 * all trials that it has created are over. */
bool node_core_is_halted(const struct node_core *core, const struct view_experiment *experiment);

/* ---- readers of the workers here; slot < node_core_lease(core)->count ---- */

/* The attempt has the lease of this slot, its directory is ready and its worker is not started yet. */
bool node_core_is_prepared(const struct node_core *core, uint32_t slot, const attempt_id *attempt);

/* The attempt's lease of this slot has ended while the directory is being made: the slot is free once the shell says PREPARED. */
bool node_core_is_dropped(const struct node_core *core, uint32_t slot, const attempt_id *attempt);

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
