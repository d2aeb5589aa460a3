#ifndef NODE_CORE_GROUND_STATE_H
#define NODE_CORE_GROUND_STATE_H
/* The inside of the node core, for node/core/ and for tests that look inside. The parts:
 *
 *   core.c         init, the one step, records that are taken in
 *   disk.c         records and fences on their way to the disk, what waits for a ticket, what is told to others then
 *   members.c      membership, roster, links, exchange of records; outcasts.c: who is out (members.h); versions.c: who
 *                  speaks which protocol
 *   owner.c        the slots of this node: reservations, leases; with owner_workers.c, owner_group.c, owner_restart.c its
 *                  workers, their groups, what a new boot finds of them (owner.h)
 *   coordinator.c  elections, and with attempts.c, elastic.c, gangs.c, placing.c what a coordinator does (coordinator.h)
 *   replicas.c     checkpoints on their way to other nodes; with replicas_code.c code, too (replicas.h)
 *   requests.c     what users ask for, and with requests_members.c those who join and go (requests.h)
 *   acks.c         requests that wait for a second disk
 *   quarantine.c   trials that take machines down, and machines that take trials down
 *   deletion.c     experiments that are deleted
 *   collection.c   checkpoints that are kept no longer
 *   clone.c        two daemons with one key
 *   stall.c        what becomes of all times after a suspend of this node; who adds a time here decides it there
 */

#include "base/random.h"
#include "gossip/exchange.h"
#include "gossip/fanout.h"
#include "node/core/core.h"
#include "node/core/ground/limits.h"
#include "node/core/view/view.h"

/* What this node knows of another member beyond its records. */
struct core_peer {
    node_id id;
    enum swim_state state;
    uint64_t boot; /* that it spoke from last: on an old disk it may be a smaller one than before */
    uint64_t up_since_ms;
    uint64_t died_ms;  /* when it was last declared dead; kept when it comes back */
    bool fell_silent;  /* ... and its host did not answer either */
    uint64_t refused_since_ms; /* 0: it does not refuse */
    uint64_t silent_until_ms;  /* it did not answer as an owner: its slots are not asked for until then; 0: it did */
    uint64_t unwilling_ms;     /* when it last said as an owner that it grants nothing; 0: it has granted since */
    uint64_t check_ms;         /* last CHECK_LINK */
    uint64_t digest_ms;        /* last BUCKETS sent to it */
    record_ident send_from;    /* with which the next RECORDS of an exchange begin: there the last have ended */
    bool synced;               /* its digest once equalled ours since it is up and we are awake, or it had nothing for us */
    bool admitted;             /* NODE_EFFECT_ADMIT was said */
    uint64_t copies_boot;      /* its copies of checkpoints are looked after in this boot of it ... */
    experiment_id copies_experiment; /* ... up to this trial */
    uint32_t copies_trial;
    bool copies_done;
    bool takes_copies;          /* it took the last one that it was sent */
    uint64_t twin_told_ms;      /* when it was last told that its key is in use twice; 0: never */
    uint64_t equivocated_ms;    /* when two records of its, of one version, were last seen to differ; 0: never */
    uint32_t foreign_version;   /* of its last message, which was refused: this program does not speak it; 0: it was taken */
    uint64_t foreign_told_ms;   /* when that was last said aloud; 0: never */
    uint64_t code_refused_ms;   /* when it last did not take some code; 0: it took the last that it was sent */
    char address[FACT_ADDRESS_BYTES];
};

/* One who was a member and is none any more. It is told why, and our door is closed to its answer. */
struct core_outcast {
    struct core_outcast *next; /* by id */
    node_id id;
    uint32_t told_count;
    uint64_t tell_ms;
    bool has_link;    /* our connection to it is kept; only then it is told anything */
    uint64_t link_ms; /* since when, or when it last began; 0: never */
};

/* What happens once a ticket is on disk. */
enum core_action {
    CORE_ACTION_NONE,
    CORE_ACTION_SEND,    /* message to `node` */
    CORE_ACTION_ACK,     /* a user's request: on this disk now */
    CORE_ACTION_WELCOME, /* client */
    CORE_ACTION_LED,     /* a claim: experiment */
    CORE_ACTION_ASSIGNED, /* an attempt's record: its gang goes on */
    CORE_ACTION_GROUPED,  /* a generation: its members' owners are sent the key */
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

#define CORE_ACK_ASKED_MAX 3
_Static_assert(CORE_ACK_MS / (2 * CORE_RETRY_MS) < CORE_ACK_ASKED_MAX, "two tries each, and nobody is forgotten");

/* A node that shall hold the second copy, and what of it has come there. */
struct core_asked {
    node_id node; /* none: nobody */
    bool pushed, pushed_too, record_stored;
};

/* A user's request that waits for a second disk. */
struct core_ack {
    struct core_ack *next;
    uint64_t client;
    record_ident ident;
    struct record_version version;
    hash256 blob, blob_too; /* to be pushed first; none: nothing */
    struct core_asked asked[CORE_ACK_ASKED_MAX]; /* the last one first: others may answer late, and count as well */
    bool on_disk;
    bool is_alone; /* nobody else lives */
    bool rest_alone, rest_failed; /* of records of the same request that are settled: on this disk only, or on none */
    bool already;  /* for the answer: what was asked for was so before */
    bool is_leave; /* no answer comes of it: the leaving goes on */
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
    CORE_WORKER_ENDING /* a kill is under way, or has been (is_gone) */
};

/* The owner's side of one slot's worker. */
struct core_worker {
    enum core_worker_phase phase;
    attempt_id attempt;
    uint16_t number; /* in the attempt (struct fact_place) */
    bool lease_on_disk;
    bool stop_sent;
    bool waits;          /* it listens, is in no group, and waits for one */
    bool is_told;        /* if it does not wait: it knows of its group; else that is on its way to the disk */
    bool is_unheard;     /* adopted, waits by what the disk says, which may be old, and has not said so to this boot */
    bool is_elastic, has_state;
    uint64_t applied_step;     /* has_state: in memory, when it began to wait */
    uint32_t generation;       /* of the group that it is in, or was in last; 0: none */
    uint32_t leaving;          /* generation that it was asked to leave; */
    bool is_leaving_at_once;   /* ... and how */
    struct election_claim key_claim; /* who has sent group_key, ... */
    uint32_t key_generation;         /* ... and for which generation */
    bool is_dropped; /* PREPARING, but its lease is over: free the slot when the directory is done */
    enum fact_reason end_reason; /* what its end will mean when we kill it; is_gone: what it means, */
    int32_t exit_code;           /* ... with this and the tail */
    bool is_gone; /* ENDING: it has ended, and there was no memory yet to say so */
    uint8_t group_key[MESSAGE_KEY_BYTES];
    uint32_t master_port, data_port;
    uint64_t step;
    hash256 checkpoint; /* from which its directory was prepared */
    uint64_t started_s;
    uint64_t confirmed_ms; /* when its slot was leased; 0: not in this boot */
    uint64_t started_ms; /* 0: not in this boot */
    uint64_t wanted_ms;  /* since when its slot is wanted back and its group shall go on without it; 0: it is not */
    uint64_t told_ms;  /* last FACT_WORKER */
    bool dirty;        /* step or metrics since then */
    uint64_t metrics_step; /* at which they were reported; of those of an earlier boot a bound, not below it */
    uint32_t metrics_bytes;
    uint8_t metrics[FACT_METRICS_BYTES_MAX];
    char tail[FACT_TAIL_BYTES];
};

/* A trial on its way to an attempt: slots asked for in order, all of one node at once. */
enum core_gang_state { CORE_GANG_RESERVING, CORE_GANG_RECORDING, CORE_GANG_CONFIRMING };

struct core_gang {
    struct core_gang *next;
    attempt_id attempt;
    enum core_gang_state state;
    uint32_t member_count;
    uint32_t reserved_count; /* RESERVING: so many are ours */
    bool reserved[FACT_MEMBERS_MAX], confirmed[FACT_MEMBERS_MAX];
    struct fact_assignment members[FACT_MEMBERS_MAX];
    struct record_version recorded; /* RECORDING: what is to come to the disk; one before it may be on its way there, too */
    struct election_claim claim; /* under which its coordinator asks */
    uint16_t asking;       /* RESERVING: a gang of the same attempt before it may still be answered */
    uint64_t asked_ms;     /* when whoever has not answered was first asked */
    bool is_joining;       /* an attempt that lives, */
    uint32_t first_number; /* ... as these numbers and those behind it */
    uint8_t group_key[MESSAGE_KEY_BYTES];
    uint64_t resend_ms;
    uint64_t until_ms;
};

/* A trial that waits for a place, or a better one. */
struct core_choosy {
    uint64_t since_ms; /* 0: it does not */
    uint64_t least_ms; /* since when as many slots have been free as it needs at least; 0: fewer are */
};

/* What the coordinator has noticed about a living attempt, since when. */
struct core_watch {
    attempt_id attempt;
    uint64_t since_ms;
    uint64_t failed_ms;  /* 0: no rank has failed */
    uint64_t stopped_ms; /* 0: no rank was asked to stop */
    uint64_t idle_ms;   /* 0: every slot is leased to it */
    uint64_t ended_ms;  /* 0: it lives, or nobody has looked */
    struct core_choosy choosy; /* ended, or given up for lost: how long its trial has waited for a place */
    uint64_t wants_ms;  /* since when nobody has come into its group, which wants one more; 0: it has not looked for a place */
    uint64_t joined_ms; /* 0: nobody is on the way to its group */
    uint64_t join_ms;   /* nobody is asked to join before, since of those who were */
    uint32_t join_losses; /* ... so many in a row did not come so far as to wait for their group */
    uint64_t broken_ms; /* 0: its group is as it should be */
    uint64_t unsure_ms;   /* broken: since when nobody knows of some member whether it lives; 0: of all it is known */
    uint64_t gathered_ms; /* broken: since when all who are here have left it; 0: they have not */
    uint64_t stopping_ms; /* broken: since when all who are here are asked to stop; 0: they are not */
    uint64_t behind_ms;   /* broken: since when a later group is spoken of by members who all are heard; 0: none is */
    uint64_t step, stepped_ms, step_ms_max; /* as reported; since when, 0: not in this generation; how long one took */
    uint32_t step_generation;
    uint64_t seen_pass; /* housekeeping: watches of ended attempts are dropped */
};

/* The key of a generation that this coordinator has made, until all its members have come into the group. */
struct core_regroup {
    struct core_regroup *next;
    attempt_id attempt;
    uint32_t generation;
    struct record_version recorded; /* what is to come to the disk; that of a generation before it may be on its way, too */
    bool on_disk; /* the record */
    uint64_t resend_ms;
    uint8_t key[MESSAGE_KEY_BYTES];
};

struct core_coordination {
    struct core_coordination *next; /* by experiment id */
    experiment_id experiment;
    struct election election;
    bool claiming; /* a claim is on its way to the disk; if election.claiming alone, there was no memory for it */
    bool settled;  /* nothing left to coordinate; until its records change */
    struct core_gang *gangs;
    uint16_t askings; /* gangs that it has asked for, the last ones of 65536 */
    struct core_watch **watches; /* by trial, then attempt */
    uint32_t watch_count, watch_slots;
    struct core_regroup *regroups;
    uint64_t claim_ms; /* a claim for which there was no memory is not tried again before */
    uint64_t renew_ms;
    uint32_t unstarted_losses; /* attempts in a row, of any trial, that were lost since a node could not start them */
    uint32_t choosy_trial; /* without any attempt so far, which was asked about last; ... */
    struct core_choosy choosy; /* ... how long those without any have waited for a place for one of them */
    uint32_t renew_from;   /* the trial with which the renewals that did not fit into the last step go on */
    uint64_t unborne_ms;   /* since when no record says what the highest claim is; 0: one does, or its node does not live */
    struct election_claim unborne; /* ... which is this one */
    uint64_t led_ms;       /* when it last looked at what to do */
    uint64_t hand_over_ms; /* drained: not before, so that nodes that take it and cannot keep it do not play catch */
    uint64_t pass;
    int32_t *ranks; /* of its trials in the order of claims, as far as placing.c has asked; rank_slots of them, or NULL */
    uint32_t rank_slots;
    uint64_t ranks_of; /* a digest of what they follow from */
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

/* A trial that failed here soon after its start, or that this node could not start at all. */
struct core_young_failure {
    attempt_id attempt;
    bool is_unstarted;
    bool lacked_checkpoint; /* or something else, before it could be started, where it was to start from one */
};
#define CORE_YOUNG_FAILURES_MAX 32
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
    bool is_check;   /* to a node that should hold it; nothing is recorded */
    bool is_said;    /* a record says where it is so far: its worker has ended, or */
    bool is_slow;    /* ... its copies take long */
    bool is_unsaid;  /* it is over, and there was no memory for its record */
    uint32_t holder_count;
    node_id holders[FACT_HOLDERS_MAX];
    bool has_metric;
    double metric;
    uint32_t asked_count; /* of the candidates in rendezvous order */
    uint32_t waiting_count;
    node_id asked[FACT_HOLDERS_MAX * 2];
    bool is_waited[FACT_HOLDERS_MAX * 2]; /* of those asked: no answer yet */
    bool has_copied;  /* to one node at least: a repair that has not says nothing */
    bool was_put_off; /* a candidate has enough to do already */
};

/* A repair that was begun. Never on disk. */
struct core_repair {
    struct core_repair *next;
    attempt_id attempt;
    uint64_t step;
    hash256 blob;
    uint32_t living_copies; /* when it began */
    uint64_t nodes;         /* a digest of who could take a copy then */
    uint64_t until_ms;
};

/* Where the code of an experiment that is not over has been seen to be. Never on disk: who restarts asks again. */
struct core_code_copy {
    node_id node;
    uint64_t boot;
    bool has_code, has_config_text;
    uint32_t refusals; /* in a row */
    uint64_t retry_ms; /* after those; it does not count as one of CORE_CODE_COPIES until then */
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
    uint64_t retry_ms; /* it is not here: not before */
    struct core_code_copy copies[FACT_HOLDERS_MAX];
    uint64_t pass; /* housekeeping: those of experiments that are over are dropped */
};

/* What a holder has said of its copy. Never on disk. */
struct core_confirmation {
    struct core_confirmation *next;
    hash256 blob;
    node_id node;
    bool is_asked, is_missing; /* is_missing: of refused_ms, that it said so itself */
    uint64_t held_ms;    /* it is whole; 0: that was never said */
    uint64_t refused_ms; /* it is damaged or missing, or nobody answered; 0: never */
};

/* Another daemon with this node's key. */
struct core_twin {
    uint64_t life;             /* 0: none has spoken to us */
    bool has_link;             /* there is a connection to `address` */
    char address[FACT_ADDRESS_BYTES];
    uint64_t heard_ms, told_ms;
    uint64_t ask_until_ms; /* unless it speaks, it is forgotten then */
    bool is_yielding; /* this node, to the twin */
    bool has_key, is_stored, has_become; /* the new key is vouched for; the twin has that; the shell was told */
    bool is_key_used; /* the new key that lies on the disk is, or was, another node's */
    uint64_t key_ms;  /* when the new key was asked for */
    uint8_t public_key[PUBLIC_KEY_BYTES];
};

/* The two calls from the ground up to the roof. node_core_init sets both. */
struct core_hooks {
    void (*record_put)(struct node_core *core, struct records_entry *entry); /* a record is in the table: fold it, tell the rooms */
    void (*on_disk)(struct node_core *core, const struct core_pending *pending); /* everything that `pending` waits for is on disk */
};

struct node_core {
    struct node_options options;
    struct core_hooks hooks;
    struct arena arena;
    struct records records;
    struct view view;
    struct swim swim;
    struct lease lease;
    struct random random;
    uint64_t now_ms, wall_s, started_ms;
    uint64_t woke_ms; /* when the last suspend or stall of this node was over; 0: there was none */
    bool started, syncing, leaving, disk_full;
    bool memory_is_short;
    uint64_t filling_ms; /* when much that is new was last taken at once; 0: never */
    uint64_t leave_client;
    bool leave_asked, leave_told, leave_is_waited; /* waited: for another node to have stored that */
    uint32_t leave_stored_on;                      /* so many nodes have */
    uint64_t leave_ticket;                         /* what was put before is to be on disk, too */

    uint64_t secrets;      /* given out so far in this boot */
    uint64_t seq;          /* of own records in this boot */
    bool is_misquoted;     /* an own record of another life was taken in during this step: it may not be so */
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
    struct core_outcast *outcasts;
    bool is_out; /* this node was evicted, nobody's word for it stands any more, or it yields to its twin: it does nothing
                  * but wait */
    uint64_t life; /* the boot with which this life began: unlike options.boot it is never raised */
    struct core_twin twin;
    bool members_changed;
    bool roster_is_cut_short; /* the rest of a large roster is admitted in the next step */
    bool elections_are_stale;
    struct election_member *election_members; /* peers and self, by id; rebuilt when members change */
    uint32_t election_member_count;
    uint32_t election_member_slots;

    struct core_worker workers[LEASE_SLOTS_MAX];
    bool is_node_unsaid;   /* there was no memory for its own node record, */
    uint64_t unsaid_slots; /* ... and, bit i, for that of slot i */
    uint64_t asked_slots; /* bit i: slot i was withheld or returned in this life, whatever an earlier one has said */
#ifdef SHOAL_BUGS
    uint8_t bug_token_hashes[LEASE_SLOTS_MAX][16];
#endif
    struct core_fence *fences;
    struct core_coordination *coordinations;
    struct core_backoff backoffs[CORE_BACKOFFS_MAX];
    struct core_young_failure young_failures[CORE_YOUNG_FAILURES_MAX]; /* since the last success or quarantine, oldest first */
    uint32_t young_failure_count;
    struct fact_quarantine quarantine; /* of this node */
    uint64_t quarantine_until_ms;
    bool has_quarantined; /* the last one began in this life: what an earlier one has said does not end it */
    struct core_push *pushes;
    struct core_code *codes;
    struct core_code_push code_pushes[CORE_CODE_PUSHES_MAX];
    struct core_repair *repairs;
    uint64_t repair_nodes; /* see struct core_repair; of the pass under way */
    bool repair_is_behind; /* something was put off in the last pass, first of all something of ... */
    experiment_id repair_from; /* ... this one, with which the next begins */
    struct core_confirmation *confirmations;
    struct core_ack *acks;
    uint64_t retention_ms, collect_ms;
    uint8_t *named; /* what the last NODE_EFFECT_COLLECT points to; given back at the next step that looks after things */
    uint32_t named_bytes;
    uint32_t sweep_bucket; /* the next to look through for records of deleted experiments; RECORDS_BUCKETS: all are done */
    uint32_t refold_bucket; /* the same for records that are not folded */
    uint32_t unawaited_bucket; /* the same for records of which nobody waits for the disk */
    bool has_unfolded, has_unawaited;
    bool has_unloaded;   /* there was no memory for a record that the disk has: perhaps nobody else does */
    uint64_t lacked_ms;  /* when there was last none for one of another node's; 0: there always was */
    size_t refold_bytes; /* has_unfolded: once so few are used they are tried again */

    uint64_t housekeep_ms;
    uint64_t repair_ms;
    uint64_t repair_pass;
    uint32_t rotate;
    uint32_t check_from; /* the peer that is the next to have its link checked, by its place */

    uint8_t *outbox; /* published in this step, envelopes end to end; sent to everybody at its end */
    uint32_t outbox_bytes;
    struct fanout fanout;  /* above CORE_DIRECT_NODES instead: what was heard of lately, passed on to a few at a time */
    uint64_t digest_ms;    /* above CORE_DIRECT_NODES: when a digest was last sent, or put off for news under way */
    bool digest_is_put_off;

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
 * Returns what waits for its ticket, so that the caller can attach an action; NULL when memory is full (traced), and when
 * it is about a deleted experiment: then it is not written. */
struct core_pending *core_put(struct node_core *core, enum fact_kind kind, struct fact_key key,
                              const struct pack_writer *body);

/* The same for who says it again otherwise. `*is_said` false: there was no memory for the record. (True with NULL: there was none
 * to wait for its ticket, or its experiment is deleted.) */
struct core_pending *core_try_put(struct node_core *core, enum fact_kind kind, struct fact_key key,
                                  const struct pack_writer *body, bool *is_said);

/* Whether a record may take the last of the memory: one that ends something or frees memory, of what is held here, and that each
 * writer can write once, so that nobody fills the reserve with inventions. From the own disk a tombstone may come before what it
 * buries. */
bool core_may_take_reserve(const struct node_core *core, const struct record *record, bool from_disk);

/* Tries again to fold a record for whose row there was no memory; one without any other effect than that. */
void core_fold_again(struct node_core *core, struct records_entry *entry);

void core_send(struct node_core *core, node_id to, const struct message *message);
void core_reply(struct node_core *core, uint64_t client, int code, uint32_t stored_on, const char *text);

/* The next secret of this boot: BLAKE2b of a counter under options.secret. `count` is 16 or 32. */
void core_secret(struct node_core *core, uint8_t *out, uint32_t count);

/* ---- disk.c ---- */

/* Sends (to ourselves too: the coordinator is then told directly) when everything that has a ticket so far is on disk. */
void core_send_after_disk(struct node_core *core, node_id to, const struct message *message);

/* Something else that waits for the same. NULL when memory is full: then it never happens. */
struct core_pending *core_after_disk(struct node_core *core, enum core_action action);

/* What waits so to welcome this node, or NULL. */
struct core_pending *core_find_welcome(const struct node_core *core, node_id joiner);

struct election_claim core_fence_get(const struct node_core *core, experiment_id experiment);

/* 0 or ERR_FULL: then nothing may be granted under it. */
int core_fence_put(struct node_core *core, experiment_id experiment, struct election_claim claim);

/* Removes the fence, from the disk too. The experiment is deleted: nothing is granted for it any more. */
void core_fence_forget(struct node_core *core, experiment_id experiment);
void core_fence_load(struct node_core *core, const uint8_t *bytes, uint32_t count); /* what the disk has of one */

/* Sends an entry to the disk and remembers that it is on its way. NULL when memory is full: it goes all the same, and once
 * more when there is some. */
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

/* ---- members.c ---- */

struct core_peer *core_find_peer(const struct node_core *core, node_id id);
void core_members_update_roster(struct node_core *core);
void core_members_update_elections(struct node_core *core);
void core_members_receive_swim(struct node_core *core, node_id from, const struct message *message);
void core_members_receive_exchange(struct node_core *core, node_id from, const struct message *message);
void core_members_tick(struct node_core *core);

/* True while the mesh is too large for telling every peer of every change. */
bool core_members_fans_out(const struct node_core *core);

/* A record that is new here, our own or another's, shall reach everybody by fan-out. */
void core_members_relay(struct node_core *core, const struct records_entry *entry);
/* True when the node has just finished to catch up with the records of the others. */
bool core_members_catch_up(struct node_core *core);
void core_members_housekeep(struct node_core *core);
void core_members_link(struct node_core *core, node_id peer, bool refused, bool open);
void core_members_start(struct node_core *core);
void core_members_leave(struct node_core *core);
bool core_node_in_step(const struct node_core *core, node_id node); /* all that it has said has come here; never of this one */
bool core_node_alive(const struct node_core *core, node_id node);   /* alive or suspect; self always */
bool core_node_trusted(const struct node_core *core, node_id node); /* alive, not suspect */
bool core_node_drained(const struct node_core *core, node_id node);
bool core_node_accepts(const struct node_core *core, node_id node); /* trusted, speaks as we do, not drained: may get new work */

/* DESIGN 6, third stage: may what ran there be given to others now? `patience_ms` for where it may still run. */
bool core_node_lost(const struct node_core *core, node_id node, uint64_t patience_ms);

/* ---- versions.c ---- */

/* False: no version of the protocol is spoken here and there, by what the node announces and by what comes from it. Others that
 * speak both may tell us all the same that it lives, and bring its records. */
bool core_node_speaks(const struct node_core *core, node_id node);

/* What the node speaks as far as it is known here; newest 0: nothing is. */
struct version_range core_node_versions(const struct node_core *core, node_id node);

/* A message of a version that is not understood here has come. */
void core_versions_foreign(struct node_core *core, node_id from, uint32_t version);

/* ---- owner.c ---- */

/* `heard`: the highest claim to the experiment that this node has heard of as one of its coordinators; none: zero. */
void core_owner_receive(struct node_core *core, node_id from, const struct message *message, struct election_claim heard);
void core_owner_lease_on_disk(struct node_core *core, const attempt_id *attempt, uint32_t slot);
void core_owner_tick(struct node_core *core);
void core_owner_housekeep(struct node_core *core);
bool core_owner_idle(const struct node_core *core);
void core_owner_busy(struct node_core *core, uint32_t slot, bool is_busy);

/* Takes a slot back for its owner, or returns it. NULL when memory is full: it counts, and is said later. */
struct core_pending *core_owner_withhold(struct node_core *core, uint32_t slot, uint64_t for_s);
struct core_pending *core_owner_return(struct node_core *core, uint32_t slot);

/* ---- owner_workers.c ---- */

void core_owner_experiment(struct node_core *core, const struct view_experiment *experiment);
void core_owner_worker_event(struct node_core *core, const struct node_event *event);
void core_owner_leave(struct node_core *core);
void core_owner_out(struct node_core *core); /* ends everything here at once */
void core_owner_end_deleted(struct node_core *core); /* workers and reservations of experiments that are deleted */

/* ---- owner_restart.c ---- */

void core_owner_adopt(struct node_core *core, const struct node_event *event);
void core_owner_start(struct node_core *core);
void core_owner_restate(struct node_core *core); /* in step, or under another boot: says anew what its slots hold */

/* ---- owner_group.c ---- */

/* True while all workers of the group are to save and leave. */
bool owner_group_is_stopping(const struct node_core *core, const struct view_experiment *experiment,
                             const struct view_attempt *attempt);

/* ---- coordinator.c ---- */

void core_coordinator_receive(struct node_core *core, node_id from, const struct message *message);
void core_coordinator_experiment(struct node_core *core, struct view_experiment *experiment);
void core_coordinator_housekeep(struct node_core *core);
void core_coordinator_led(struct node_core *core, experiment_id experiment, uint64_t term);
void core_coordinator_assigned(struct node_core *core, const attempt_id *attempt, struct record_version version);
void core_coordinator_grouped(struct node_core *core, const attempt_id *attempt, struct record_version version);
void core_coordinator_leave(struct node_core *core);
void core_coordinator_out(struct node_core *core); /* says nothing to anybody */
void core_coordinator_forget(struct node_core *core, experiment_id experiment);

/* The highest claim to the experiment that this node has heard of; zero if it has not looked after the experiment. */
struct election_claim core_coordinator_highest(const struct node_core *core, experiment_id experiment);
struct core_coordination *core_find_coordination(const struct node_core *core, experiment_id experiment);

/* ---- placing.c ---- */

bool core_slot_fits(enum config_slot_kind wanted, enum fact_slot_kind kind);

/* ---- replicas.c ---- */

void core_replicas_checkpoint(struct node_core *core, const struct node_event *event);
void core_replicas_pushed(struct node_core *core, const struct node_event *event);

/* A worker has gone: the next attempt begins from what it saved, and a completed trial ends with it, though the copies of that are
 * still on their way, and with this boot they would be forgotten. Its manifest says so, and is written again when they are
 * there. */
void core_replicas_ended(struct node_core *core, const attempt_id *attempt);
void core_replicas_housekeep(struct node_core *core);
void core_replicas_forget(struct node_core *core, experiment_id experiment);
void core_replicas_fetched(struct node_core *core, experiment_id experiment); /* its code is here now */
void core_replicas_durable(struct node_core *core, const attempt_id *attempt, uint32_t slot, uint64_t step);

/* As view_manifest_unite, with the holders first that live and are not known to have lost their copy. */
const struct view_manifest *core_replicas_unite(const struct node_core *core, const struct view_manifest *first,
                                                struct view_manifest *out);

/* The first checkpoint at `*row` or behind it that somebody holds, united; `*row` is then behind it. False: there is none. */
bool core_replicas_next(const struct node_core *core, const struct view_manifest **row, struct view_manifest *out);

/* The newest checkpoint of a trial that somebody alive holds, or NULL. */
const struct view_manifest *core_replicas_newest(const struct node_core *core, const struct view_trial *trial);

/* Whether a holder of a newer one was called dead just now: if it is not it has soon said so. */
bool core_replicas_may_return(const struct node_core *core, const struct view_trial *trial);

/* ---- quarantine.c ---- */

void core_quarantine_start(struct node_core *core);
void core_quarantine_restate(struct node_core *core); /* under another boot, or if it is not said yet */
void core_quarantine_housekeep(struct node_core *core);

/* A worker's record was taken; a node was declared dead; a node's own word about itself replaced `before`. */
void core_quarantine_worker(struct node_core *core, const struct record *record);
void core_quarantine_died(struct node_core *core, node_id node);
void core_quarantine_record(struct node_core *core, node_id node, const struct fact_quarantine *before);

/* A worker of this node has ended; or could not be prepared or started here. */
void core_quarantine_unstarted(struct node_core *core, const struct core_worker *worker);
void core_quarantine_exited(struct node_core *core, const struct core_worker *worker, enum fact_reason reason);

/* The coordinator about an attempt with a verdict: was it the death of its host that counts? */
void core_quarantine_judge(struct node_core *core, const struct view_experiment *experiment,
                           const struct view_trial *trial, const struct view_attempt *attempt);

/* True while it is not known yet whether a host died alone under the trial. */
bool core_quarantine_waits(const struct node_core *core, const struct view_trial *trial);

/* The trial failed on this node, or lost it; or has lost a host anywhere. */
bool core_quarantine_avoids(const struct view_trial *trial, node_id node);
bool core_quarantine_is_suspect(const struct view_trial *trial);

/* How often, since the trial last ran anywhere, this node could not prepare or start a worker of it; none: any node. */
uint32_t core_quarantine_unstarted_count(const struct view_trial *trial, const node_id *node);

/* "quarantined: it failed on a, b and c"; false if it is not. `told` traces it. */
bool core_quarantine_reason(const struct node_core *core, const struct view_trial *trial, char *out, size_t size);
void core_quarantine_told(struct node_core *core, const struct view_experiment *experiment, uint32_t index);

/* Two records of one version differ; and was it seen of this node lately? */
void core_quarantine_equivocated(struct node_core *core, node_id node);
bool core_quarantine_is_false(const struct node_core *core, node_id node);

/* ---- requests.c ---- */

void core_requests_receive(struct node_core *core, const struct node_event *event);
void core_requests_housekeep(struct node_core *core);

/* What a register says of which a user of this node wrote a word in this life: that one, or another's later one. */
struct core_word {
    enum fact_kind kind; /* CONTROL or DRAIN; 0: there is none */
    experiment_id experiment;
    node_id node;
    bool is_on; /* paused, or drained */
    bool at_once;
};

/* The word that an own record of an earlier life is about to replace. */
struct core_word core_requests_word(const struct node_core *core, const struct record *given);

/* Once it is replaced: above all that is known now. Who waits for an answer waits for that. */
void core_requests_say_again(struct node_core *core, const struct core_word *word);

/* ---- requests_members.c ---- */

void core_requests_join(struct node_core *core, const struct node_event *event);
void core_requests_welcome(struct node_core *core, uint64_t client, node_id joiner);

/* Some member's invite that nobody has revoked, not expired. */
bool core_invite_is_valid(const struct node_core *core, const uint8_t invite_key[PUBLIC_KEY_BYTES]);

/* ---- acks.c ---- */

void core_ack_on_disk(struct node_core *core, uint64_t client, record_ident ident, struct record_version version);
void core_ack_stored(struct node_core *core, node_id from, const struct message *message);
void core_ack_pushed(struct node_core *core, const struct node_event *event);
uint32_t core_ack_count(const struct node_core *core); /* clients who wait; up to CORE_ACKS_MAX. A leave comes on top */

/* NULL when memory is full; the client has not been told. */
struct core_ack *core_ack_new(struct node_core *core, uint64_t client, record_ident ident, struct record_version version);

/* Answers the client once what was put is on disk here and on one more living node, which is sent the blobs first (none:
 * nothing). NULL: the client has its answer, a refusal. */
struct core_ack *core_ack_append(struct node_core *core, uint64_t client, record_ident ident,
                                 struct record_version version, hash256 blob, hash256 blob_too);

/* The same for what core_put has just returned, NULL included. False: the client has its answer, a refusal. */
bool core_ack_begin(struct node_core *core, uint64_t client, struct core_pending *pending, hash256 blob,
                    hash256 blob_too);

/* What is waited for was put once more. */
void core_acks_renew(struct node_core *core, record_ident ident);
void core_acks_refuse(struct node_core *core); /* answers all who wait */
void core_ack_housekeep(struct node_core *core);

/* ---- collection.c ---- */

void core_collection_housekeep(struct node_core *core);
void core_collection_confirmed(struct node_core *core, const struct node_event *event);

/* A holder that lately could not say that its copy is whole. */
bool core_copy_is_doubtful(const struct node_core *core, hash256 blob, node_id node);

/* A holder that lately has answered that it has not all of it. */
bool core_copy_is_missing(const struct node_core *core, hash256 blob, node_id node);

/* A manifest has come: those that it names have got a copy since they were asked. */
void core_collection_told(struct node_core *core, const struct record *record);

/* An attempt could not start with its checkpoint: whoever is said to hold that or an older one is asked whether it does. */
void core_collection_doubt(struct node_core *core, const struct view_trial *trial, const struct view_attempt *attempt);

#endif
