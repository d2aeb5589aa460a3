#ifndef NODE_CORE_STATE_H
#define NODE_CORE_STATE_H
/* The inside of the node core, for node/core_*.c and for tests that look inside. The parts:
 *
 *   core.c              init, the one step, own records on their way to the disk, what waits for a ticket
 *   core_members.c      membership, roster, links, exchange of records
 *   core_owner.c        the slots of this node: reservations, leases, workers
 *   core_coordinator.c  elections, gangs, attempts, verdicts
 *   core_replicas.c     checkpoints on their way to other nodes
 *   core_requests.c     what users ask for, and those who join
 */

#include "base/random.h"
#include "gossip/exchange.h"
#include "node/core/core.h"
#include "node/core/view.h"

/* All times in one place; membership has its own (gossip/swim.h), from the same probe interval. */
#define CORE_HOUSEKEEP_MS 500
#define CORE_SYNC_PEER_MS 1000      /* between digests to one peer */
#define CORE_SYNC_ALONE_MS 30000    /* a node on an old disk that hears nobody waits this long (DESIGN 5) */
#define CORE_SYNC_PATIENCE_MS 10000 /* peers live, but their digests never agree: go on */
#define CORE_REFUSED_MS 8000        /* a host that refuses for this long has lost its daemon (DESIGN 6) */
#define CORE_CHECK_LINK_MS 1000
#define CORE_TOGETHER_MS 60000      /* nodes that fall silent within this time fell silent together */
#define CORE_PATIENCE_MS 600000     /* DESIGN 7: what may run on unreachable nodes */
#define CORE_STALL_MS 5000          /* a gap between two steps above this was a suspend or a stall */
#define CORE_STATUS_MS 2000         /* between two progress records of one worker */
#define CORE_RENEW_MS 10000
#define CORE_RESEND_MS 400          /* reservations and confirmations without an answer */
#define CORE_GANG_RESERVE_MS 5000
#define CORE_GANG_CONFIRM_MS 10000
#define CORE_SLOT_BACKOFF_MS 1000   /* after a refused reservation */
#define CORE_IDLE_MS 12000          /* an attempt of which a slot's record says that it is not leased to it */
#define CORE_LOST_FIRST_MS 500      /* before a further attempt of a trial that was lost twice in a row; doubled each time */
#define CORE_LOST_WAIT_MS 30000     /* ... up to this */
#define CORE_FAILURE_SETTLE_MS 6000 /* a failed worker may be the echo of a node that is about to be found dead */
#define CORE_KILL_GRACE_MS 3000
#define CORE_ACK_MS 5000            /* how long a request waits for a second node */
#define CORE_ACKS_MAX 128           /* requests that wait for it; more are refused */
#define CORE_RETRY_MS 1000
#define CORE_REPAIR_MS 2000         /* between two looks for checkpoints and code with too few living copies */
#define CORE_CODE_COPIES 2          /* of the code and the configuration of an experiment that is not over */
#define CORE_CODE_RETRY_MS 30000    /* code that is not here, or that a node did not take */

_Static_assert(CORE_RENEW_MS * 2 < LEASE_MS, "a lost renewal must not end a lease");
_Static_assert(CORE_GANG_RESERVE_MS <= LEASE_RESERVE_MS, "no gang waits longer than its reservations live");

/* What this node knows of another member beyond its records. */
struct core_peer {
    node_id id;
    enum swim_state state;
    uint64_t boot; /* the newest that it has spoken from */
    uint64_t up_since_ms;
    uint64_t died_ms;
    uint64_t refused_since_ms; /* 0: it does not refuse */
    uint64_t check_ms;         /* last CHECK_LINK */
    uint64_t digest_ms;        /* last BUCKETS sent to it */
    bool synced;               /* its digest once equalled ours in this boot, or it had nothing for us */
    bool admitted;             /* NODE_EFFECT_ADMIT was said */
    char address[FACT_ADDRESS_BYTES];
};

/* What happens once a ticket is on disk. */
enum core_action {
    CORE_ACTION_NONE,
    CORE_ACTION_SEND,    /* message to `node` */
    CORE_ACTION_ACK,     /* a user's request: on this disk now */
    CORE_ACTION_WELCOME, /* client */
    CORE_ACTION_LED,     /* a claim: experiment */
    CORE_ACTION_ASSIGNED, /* an attempt's record: its gang goes on */
    CORE_ACTION_DURABLE   /* a manifest: its worker is told */
};

struct core_pending {
    struct core_pending *next;
    uint64_t ticket;
    bool is_retry;
    bool is_record, is_fence; /* what the ticket is for; neither: the action waits for all up to the ticket */
    record_ident ident;
    struct record_version version;
    experiment_id fenced;
    enum core_action action;
    node_id node;
    uint64_t client;
    attempt_id attempt; /* ASSIGNED; LED: the experiment in it */
    uint64_t term;      /* LED */
    uint32_t slot;      /* DURABLE */
    uint64_t step;      /* DURABLE */
    struct message message;
};

/* A user's request that waits for a second disk. */
struct core_ack {
    struct core_ack *next;
    uint64_t client;
    record_ident ident;
    struct record_version version;
    hash256 blob, blob_too; /* to be pushed first; none: nothing */
    bool pushed, pushed_too, record_stored;
    bool on_disk;
    node_id peer; /* none: nobody was asked yet, or */
    bool is_alone; /* ... nobody else lives */
    uint32_t tries;
    uint64_t resend_ms;
    uint64_t until_ms;
};

enum core_worker_phase {
    CORE_WORKER_NONE,
    CORE_WORKER_CONFIRMED, /* leased; the attempt's record may still be on its way */
    CORE_WORKER_PREPARING,
    CORE_WORKER_PREPARED,
    CORE_WORKER_RUNNING,
    CORE_WORKER_ENDING /* a kill is under way */
};

/* The owner's side of one slot's worker. */
struct core_worker {
    enum core_worker_phase phase;
    attempt_id attempt;
    uint16_t rank;
    bool lease_on_disk;
    bool stop_sent;
    bool group_sent;
    bool is_dropped; /* PREPARING, but its lease is over: free the slot when the directory is done */
    enum fact_reason end_reason; /* what its end will mean when we kill it */
    uint8_t group_key[MESSAGE_KEY_BYTES];
    uint32_t master_port, data_port;
    uint64_t step;
    uint64_t started_s;
    uint64_t told_ms;  /* last FACT_WORKER */
    bool dirty;        /* step or metrics since then */
    uint32_t metrics_bytes;
    uint8_t metrics[FACT_METRICS_BYTES_MAX];
};

/* A trial on its way to an attempt: slots asked for in order. */
enum core_gang_state { CORE_GANG_RESERVING, CORE_GANG_RECORDING, CORE_GANG_CONFIRMING };

struct core_gang {
    struct core_gang *next;
    attempt_id attempt;
    enum core_gang_state state;
    uint32_t member_count;
    uint32_t reserved_count; /* RESERVING: members [0, reserved_count) are ours */
    bool confirmed[FACT_MEMBERS_MAX];
    struct fact_assignment members[FACT_MEMBERS_MAX];
    uint8_t group_key[MESSAGE_KEY_BYTES];
    uint64_t resend_ms;
    uint64_t until_ms;
};

/* What the coordinator has noticed about a living attempt, since when. */
struct core_watch {
    struct core_watch *next;
    attempt_id attempt;
    uint64_t first_ms;
    uint64_t failed_ms; /* 0: no rank has failed */
    uint64_t idle_ms;   /* 0: every slot is leased to it */
    uint64_t ended_ms;  /* 0: it lives, or nobody has looked */
    uint64_t seen_pass; /* housekeeping: watches of ended attempts are dropped */
};

struct core_coordination {
    struct core_coordination *next; /* by experiment id */
    experiment_id experiment;
    struct election election;
    bool claiming; /* a claim is on its way to the disk */
    bool settled;  /* nothing left to coordinate; until its records change */
    struct core_gang *gangs;
    struct core_watch *watches;
    uint64_t renew_ms;
    uint64_t pass;
};

/* The highest claim that this owner has obeyed, on disk. */
struct core_fence {
    struct core_fence *next; /* by experiment id */
    experiment_id experiment;
    struct election_claim claim;
};

struct core_backoff {
    node_id node;
    uint32_t slot;
    uint64_t until_ms;
};
#define CORE_BACKOFFS_MAX 128
#define CORE_FENCES_AHEAD_MAX 256 /* of experiments that are not known here (yet) */

/* A checkpoint that is being copied to other nodes. */
struct core_push {
    struct core_push *next;
    attempt_id attempt;
    uint32_t slot;
    uint64_t step;
    hash256 blob;
    uint64_t bytes;
    uint32_t wanted; /* copies */
    bool is_repair;  /* of a checkpoint whose holder died; no worker waits for it */
    uint32_t holder_count;
    node_id holders[FACT_HOLDERS_MAX];
    uint32_t asked_count; /* of the candidates in rendezvous order */
    uint32_t waiting_count;
    node_id asked[FACT_HOLDERS_MAX * 2];
};

/* Where the code of an experiment that is not over has been seen to be. Never on disk: who restarts asks again. */
struct core_code_copy {
    node_id node;
    uint64_t boot;
    bool is_asked; /* a push is under way */
    bool has_code, has_config_text;
};

struct core_code {
    struct core_code *next; /* by experiment id */
    experiment_id experiment;
    uint64_t retry_ms; /* it is not here, or could not be pushed: not before */
    struct core_code_copy copies[FACT_HOLDERS_MAX];
    uint64_t pass; /* housekeeping: those of experiments that are over are dropped */
};

struct node_core {
    struct node_options options;
    struct arena arena;
    struct records records;
    struct view view;
    struct swim swim;
    struct lease lease;
    struct random random;
    uint64_t now_ms, wall_s, started_ms;
    bool started, syncing, leaving, disk_full;
    uint64_t leave_client;
    bool leave_asked, leave_told;

    uint64_t secrets;      /* given out so far in this boot */
    uint64_t seq;          /* of own records in this boot */
    uint64_t seen_boot;    /* the newest in an own record that was taken in, from the disk or from others */
    uint64_t ticket;       /* last given out */
    uint64_t ticket_done;  /* all up to here are on disk, or refused */
    struct core_pending *pending_first, *pending_last;
    struct core_pending *refused; /* records and fences that the disk refused; tried again until it takes them */
    uint32_t refused_count;       /* those, and those on their way once more */
    bool waiting_left;            /* what may go on did not fit into this step */
    uint64_t retry_ms;

    uint32_t peer_count, peer_slots;
    struct core_peer **peers; /* by id */
    bool members_changed;
    struct election_member *election_members; /* peers and self, by id; rebuilt when members change */
    uint32_t election_member_count;
    uint32_t election_member_slots;

    struct core_worker workers[LEASE_SLOTS_MAX];
#ifdef SHOAL_BUGS
    uint8_t bug_token_hashes[LEASE_SLOTS_MAX][16];
#endif
    struct core_fence *fences;
    struct core_coordination *coordinations;
    struct core_backoff backoffs[CORE_BACKOFFS_MAX];
    struct core_push *pushes;
    struct core_code *codes;
    struct core_ack *acks;

    uint64_t housekeep_ms;
    uint64_t repair_ms;
    uint64_t repair_pass;
    uint32_t rotate;

    uint8_t *outbox; /* published in this step, envelopes end to end; sent to everybody at its end */
    uint32_t outbox_bytes;

    struct {
        uint64_t malformed, strangers, equivocations, stale_refused, full;
    } counters;

    struct node_effects *out; /* of the step under way */
    struct swim_effects swim_effects;
};

#define CORE_OUTBOX_BYTES EXCHANGE_MESSAGE_BYTES_MAX

/* ---- core.c ---- */

struct node_effect *core_effect(struct node_core *core, enum node_effect_kind kind);

/* Copies bytes into the effects' store, where they live until the effects are cleared. */
const uint8_t *core_effect_bytes(struct node_core *core, const void *bytes, uint32_t count);

/* True while at least this much room is left: loops that could emit much stop there and go on at the next step. */
bool core_has_room(const struct node_core *core, uint32_t effects, uint32_t bytes);

/* Writes one of this node's own records: into table and fold at once, to the disk, and to everybody once it is there.
 * Returns what waits for its ticket, so that the caller can attach an action; NULL when memory is full (traced). */
struct core_pending *core_put(struct node_core *core, enum fact_kind kind, struct fact_key key,
                              const struct pack_writer *body);

/* Takes somebody's record in. 0, or an error of records_put. */
int core_take_record(struct node_core *core, const uint8_t *envelope, uint32_t count, bool from_disk,
                     const node_id *stored_to);

/* Sends (to ourselves too: the coordinator is then told directly) when everything that has a ticket so far is on disk. */
void core_send_after_disk(struct node_core *core, node_id to, const struct message *message);

/* 0 or ERR_FULL: then nothing may be granted under it. */
int core_fence_put(struct node_core *core, experiment_id experiment, struct election_claim claim);
struct election_claim core_fence_get(const struct node_core *core, experiment_id experiment);

void core_send(struct node_core *core, node_id to, const struct message *message);
void core_reply(struct node_core *core, uint64_t client, int code, uint32_t stored_on, const char *text);

/* The next secret of this boot: BLAKE2b of a counter under options.secret. `count` is 16 or 32. */
void core_secret(struct node_core *core, uint8_t *out, uint32_t count);

/* ---- core_members.c ---- */

struct core_peer *core_find_peer(const struct node_core *core, node_id id);
void core_members_update_roster(struct node_core *core);
void core_members_update_elections(struct node_core *core);
void core_members_receive_swim(struct node_core *core, node_id from, const struct message *message);
void core_members_receive_exchange(struct node_core *core, node_id from, const struct message *message);
void core_members_tick(struct node_core *core);
void core_members_housekeep(struct node_core *core);
void core_members_link(struct node_core *core, node_id peer, bool refused, bool open);
void core_members_start(struct node_core *core);
void core_members_leave(struct node_core *core);
bool core_node_alive(const struct node_core *core, node_id node);   /* alive or suspect; self always */
bool core_node_trusted(const struct node_core *core, node_id node); /* alive, not suspect: may get new work */

/* DESIGN 6, third stage: may what ran there be given to others now? `patience_ms` for where it may still run. */
bool core_node_lost(const struct node_core *core, node_id node, uint64_t patience_ms);

/* ---- core_owner.c ---- */

void core_owner_start(struct node_core *core);
void core_owner_restate(struct node_core *core); /* says anew what its slots hold, under another boot */
void core_owner_receive(struct node_core *core, node_id from, const struct message *message);
void core_owner_experiment(struct node_core *core, const struct view_experiment *experiment);
void core_owner_worker_event(struct node_core *core, const struct node_event *event);
void core_owner_adopt(struct node_core *core, const struct node_event *event);
void core_owner_tick(struct node_core *core);
void core_owner_housekeep(struct node_core *core);
void core_owner_lease_on_disk(struct node_core *core, const attempt_id *attempt, uint32_t slot);
void core_owner_leave(struct node_core *core);
bool core_owner_idle(const struct node_core *core);

/* ---- core_coordinator.c ---- */

void core_coordinator_receive(struct node_core *core, node_id from, const struct message *message);
void core_coordinator_experiment(struct node_core *core, struct view_experiment *experiment);
void core_coordinator_housekeep(struct node_core *core);
void core_coordinator_led(struct node_core *core, experiment_id experiment, uint64_t term);
void core_coordinator_assigned(struct node_core *core, const attempt_id *attempt);
void core_coordinator_leave(struct node_core *core);
struct core_coordination *core_find_coordination(const struct node_core *core, experiment_id experiment);

/* ---- core_replicas.c ---- */

void core_replicas_checkpoint(struct node_core *core, const struct node_event *event);
void core_replicas_pushed(struct node_core *core, const struct node_event *event);
void core_replicas_housekeep(struct node_core *core);
void core_replicas_fetched(struct node_core *core, experiment_id experiment); /* its code is here now */
void core_replicas_durable(struct node_core *core, const attempt_id *attempt, uint32_t slot, uint64_t step);

/* The newest checkpoint of a trial that somebody alive holds, or NULL. */
const struct view_manifest *core_replicas_newest(const struct node_core *core, const struct view_trial *trial);

/* ---- core_requests.c ---- */

void core_requests_receive(struct node_core *core, const struct node_event *event);
void core_requests_join(struct node_core *core, const struct node_event *event);
void core_requests_welcome(struct node_core *core, uint64_t client);
void core_requests_on_disk(struct node_core *core, uint64_t client);
void core_requests_stored(struct node_core *core, node_id from, const struct message *message);
void core_requests_pushed(struct node_core *core, const struct node_event *event);
void core_requests_housekeep(struct node_core *core);

#endif
