#ifndef NODE_CORE_VIEW_VIEW_H
#define NODE_CORE_VIEW_VIEW_H
/* The fold: what users and the coordinator see, computed from the records that a node holds (DESIGN 5). A core.
 *
 * view_apply is called for every entry that the table takes. The result depends on the set of newest records only, not on
 * their order: rows may come before what they belong to, and every list is sorted. Texts, metrics and log tails stay in
 * the records; rows name them by ident. Who is a member: node/core/view/roster.c. A tombstone
 * takes all rows of its experiment away, and those that come after it are never made. */

#include "base/arena.h"
#include "gossip/election.h"
#include "gossip/lamport.h"
#include "gossip/records.h"
#include "gossip/version.h"
#include "node/core/facts/config.h"
#include "node/core/facts/facts.h"

struct view_slot {
    uint32_t state; /* enum lease_state as the owner last wrote it */
    attempt_id attempt;
    uint32_t rank;
    bool withheld;
    uint64_t withheld_s;
};

struct view_drain {
    struct view_drain *next; /* by writer */
    node_id writer;
    struct fact_drain fact;
};

/* A member of the roster, or somebody whose records came before the voucher's. */
struct view_member {
    node_id id;
    bool vouched;   /* a record of some node names this key */
    bool believed;  /* a chain of vouchers ties it to the founder, evictions left aside: it is or was a member */
    bool evicted;   /* by a believed node; for ever */
    bool rooted;    /* a chain of vouchers that stand ties it to the founder; those who were evicted may be in it */
    bool admitted;  /* rooted and not evicted */
    bool is_reached; /* of the closure under way */
    node_id sponsor; /* of whom is rooted: whose voucher tied it to the founder, the founder itself; ties make no ring */
    node_id voucher; /* the smallest one whose word stands; while not rooted the smallest believed one */
    node_id evictor; /* while evicted: the smallest believed one */
    uint8_t public_key[PUBLIC_KEY_BYTES];
    char name[FACT_NAME_BYTES];
    bool has_node; /* its own record is here */
    uint64_t node_boot;
    bool left;
    struct version_range protocol; /* that it announces; newest 0: nothing is known */
    uint32_t address_count;
    char addresses[FACT_ADDRESSES_MAX][FACT_ADDRESS_BYTES];
    uint32_t bulk_port;
    uint32_t slot_count;
    enum fact_slot_kind slot_kinds[FACT_SLOTS_MAX];
    uint32_t slot_room;
    struct view_slot *slots; /* slot_room, at least slot_count: most nodes have few; see view_member_slot */
    struct view_drain *drains;
    struct fact_quarantine quarantine; /* its own word */
};

/* Somebody's word on the membership of another: a voucher or an eviction. */
struct view_statement {
    node_id about, writer;
    struct view_member *member, *author; /* rows of the two; of an eviction NULL while there is none */
    const struct records_entry *entry;   /* its newest version */
    bool is_readable;                    /* its body decodes */
    bool is_founder;                     /* the founder's word on itself */
};

struct view_statements {
    struct view_statement *items; /* by (about, writer) */
    uint32_t count, slots;
};

struct view_worker {
    struct view_worker *next; /* by (number, writer) */
    uint32_t number;
    node_id writer;
    record_ident ident; /* host, metrics and tail are there */
    uint64_t boot;      /* of the writer when it wrote this */
    enum fact_worker_state state;
    enum fact_reason reason;
    int32_t exit_code;
    bool has_started; /* its program was begun; false again once it turned out that it could not be */
    uint32_t generation;
    uint32_t master_port, data_port;
    uint64_t step;
    bool is_elastic, waits, has_state;
    uint64_t applied_step;
    /* What this node has noticed in this boot, kept by the core and no part of the fold. */
    struct {
        uint64_t running_ms; /* 0: not seen to run */
        bool is_start_seen;  /* it began then, and not long before */
        uint64_t boot;       /* of its node then */
        uint64_t died_ms;    /* its node was declared dead, ... */
        uint64_t lived_ms;   /* ... so long after the start */
        bool is_judged;
    } observed;
};

struct view_verdict {
    struct view_verdict *next; /* by writer */
    node_id writer;
    record_ident ident;
    enum fact_reason reason;
    uint64_t step;
};

struct view_death {
    struct view_death *next; /* by writer */
    node_id writer;
    struct fact_death fact;
};

/* A coordinator's word on the group of an attempt. */
struct view_group {
    struct view_group *next; /* by (generation, term, writer): the last one counts */
    node_id writer;
    uint32_t generation;
    uint64_t term;
    uint64_t start_step;
    bool is_leaving;
    uint32_t member_count, joiner_count;
    struct fact_place *places; /* the members by rank, then the joiners */
};

struct view_attempt {
    struct view_attempt *next; /* by attempt_id_compare_order */
    attempt_id id;
    bool assigned; /* its coordinator's record is here; the rest may come before it */
    uint32_t first_count;
    struct fact_place *first; /* the members that it began with */
    struct view_group *groups;
    /* The group as it is now: of the last of `groups`, or of the attempt's own record. */
    uint32_t generation;
    struct election_claim group_claim; /* under which it was made */
    bool is_leaving;
    uint64_t group_step; /* steps that its members have applied when it begins */
    uint32_t member_count, joiner_count;
    const struct fact_place *members; /* by rank; the joiners behind them */
    uint64_t start_step;
    hash256 checkpoint;
    struct view_worker *workers;
    struct view_verdict *verdicts;
    struct view_death *deaths;
};

struct view_manifest {
    struct view_manifest *next; /* newest first: by step, then attempt, descending */
    attempt_id attempt;
    uint64_t step;
    node_id writer;
    hash256 blob;
    uint64_t bytes;
    uint32_t holder_count;
    node_id holders[FACT_HOLDERS_MAX];
    bool durable;
    bool has_metric;
    double metric;
    bool is_kept; /* by retention_mark, when that was last called */
    bool is_best; /* ... and is among the best of the experiment */
    bool is_safe; /* as many holders as there should be said lately that their copies are whole; set by whoever asks them */
    bool is_passed_over; /* its writer is gone, and this node has decided that it goes; false after a put */
};

struct view_trial {
    uint32_t index;
    struct view_attempt *attempts;
    struct view_manifest *manifests;
};

struct view_control {
    struct view_control *next; /* by writer, its pauses before its cancel */
    node_id writer;
    bool is_cancel; /* under fact_key_cancel */
    struct fact_control fact;
};

struct view_claim {
    struct view_claim *next; /* by writer */
    node_id writer;
    uint64_t boot;
    struct fact_claim fact;
};

struct view_experiment {
    experiment_id id;
    bool known; /* its own record is here */
    node_id submitter; /* the smallest writer, should there be several */
    uint64_t submitted_s;
    hash256 code;
    uint64_t code_bytes;
    hash256 config_text;
    struct config *config; /* borrowed parts point into config_bytes */
    uint8_t *config_bytes;
    uint32_t config_byte_count;
    uint32_t trial_count;
    struct view_trial **trials; /* by index; NULL where nothing is known */
    uint32_t trial_slots;
    struct view_trial **strays; /* of which no configuration speaks, or none yet, by index: see view_trial_row */
    uint32_t stray_count, stray_slots;
    struct view_control *controls;
    struct view_claim *claims;
    struct view_bar {   /* by retention_find_bar, when that was last called: whatever is behind this one has as many safe and */
        bool is_there;  /* ... better ones before it as the experiment keeps */
        double metric;
        uint32_t trial, position;
    } bar;
    bool changed; /* set by view_apply, cleared by whoever has looked */
};

/* An experiment that is deleted: nothing else is known of it. */
struct view_tombstone {
    experiment_id experiment;
    node_id writer; /* the smallest of those who deleted it */
};

struct view {
    struct arena *arena;
    const struct records *records;
    mesh_id mesh;
    struct view_member **members; /* by id */
    uint32_t member_count, member_slots;
    struct view_statements vouchers, evictions;
    struct view_experiment **experiments; /* by id */
    uint32_t experiment_count, experiment_slots;
    struct view_tombstone *tombstones; /* by experiment id */
    uint32_t tombstone_count, tombstone_slots;
    bool roster_changed, nodes_changed, slots_changed; /* set by view_apply, cleared by whoever has looked */
    uint64_t malformed_count;                          /* bodies that did not decode */
    uint64_t jump_count;                               /* controls, drains and claims that are refused as jumps now */
};

enum view_trial_state { VIEW_TRIAL_QUEUED, VIEW_TRIAL_RUNNING, VIEW_TRIAL_COMPLETED, VIEW_TRIAL_FAILED };

/* Why a trial is tried no more although its restarts are not used up (DESIGN 7). */
enum view_quarantine { VIEW_NO_QUARANTINE, VIEW_QUARANTINE_FAILURES, VIEW_QUARANTINE_DEATHS };

#define VIEW_QUARANTINE_NODES 3
#define VIEW_QUARANTINE_HOST_DEATHS 2
#define VIEW_QUARANTINE_SHARED_DEATHS 3

enum view_experiment_state {
    VIEW_QUEUED,
    VIEW_RUNNING,
    VIEW_PAUSED,
    VIEW_COMPLETED,
    VIEW_CANCELLED,
    VIEW_FAILED
};

/* Evictions of one writer that count: a roster holds no more nodes. Of more the smallest keys count, so that who makes up
 * evictions takes nothing but this much memory, and undoes at most its own. */
#define VIEW_EVICTIONS_MAX 1024

void view_init(struct view *view, struct arena *arena, const struct records *records, mesh_id mesh);

/* Takes one entry into the fold. ERR_MALFORMED (counted; the record is still relayed), ERR_FULL when the arena is. Kinds
 * that are not known are left alone. */
int view_apply(struct view *view, const struct records_entry *entry);

struct view_member *view_find_member(const struct view *view, node_id id);

/* What is known of a slot, or NULL. Of a slot below slot_count something is always known. */
const struct view_slot *view_member_slot(const struct view_member *member, uint32_t slot);

/* It was a member and is none any more: evicted, or nobody's word for it stands. */
bool view_member_is_out(const struct view_member *member);

/* Would `node` stay rooted if somebody evicted `evicted` now and let no voucher of it stand? */
bool view_member_would_stay(struct view *view, node_id evicted, node_id node);

/* The member's register of drain and undrain as it stands, with lamport 0 if nobody ever wrote it: `drained`, `at_once` if
 * any of the drains that count asks for it, and `is_idle` if the member itself said so of this very drain. */
struct fact_drain view_member_drain(const struct view_member *member);

/* The clocks of a register (gossip/lamport.h), those of the writer `but` (NULL: of nobody) left out. */
struct lamport_top view_drain_top(const struct view_member *member, const node_id *but);
struct lamport_top view_control_top(const struct view_experiment *experiment, const node_id *but);
struct lamport_top view_claim_top(const struct view_experiment *experiment, const node_id *but); /* terms */

struct view_experiment *view_find_experiment(const struct view *view, experiment_id id);

/* Not NULL: the experiment is deleted. */
const struct view_tombstone *view_find_tombstone(const struct view *view, experiment_id id);

/* This node was suspended for gap_ms, until now. */
void view_shift(struct view *view, uint64_t gap_ms);

/* True once a tombstone of the experiment is known: nothing of it begins any more. */
bool view_is_deleted(const struct view *view, experiment_id id);
struct view_trial *view_find_trial(const struct view_experiment *experiment, uint32_t index);
struct view_attempt *view_find_attempt(const struct view *view, const attempt_id *id);

/* The report of the rightful owner of the rank, in the group as it is now, or NULL. Ranks from member_count on are the
 * joiners. */
const struct view_worker *view_attempt_worker(const struct view_attempt *attempt, uint32_t rank);

/* The rank now of the worker with this number in this slot of this node, or UINT32_MAX. */
uint32_t view_attempt_rank(const struct view_attempt *attempt, node_id node, uint32_t slot, uint32_t number);

/* True once every member has said that its program can leave a group and enter the next one. */
bool view_attempt_is_elastic(const struct view_attempt *attempt);

/* The owner of this rank's slot wants it back, or its node is to be empty at once; and the rank has not ended. */
bool view_attempt_is_wanted_back(const struct view *view, const struct view_attempt *attempt, uint32_t rank);

/* The members that are not wanted back and have not ended are enough for a group of their own. By the records alone, so that
 * all owners and the coordinator are of one mind: else the whole group is asked to stop. `leaver` (may be NULL): its members
 * count as wanted back, too. */
bool view_attempt_can_shrink(const struct view *view, const struct view_experiment *experiment,
                             const struct view_attempt *attempt, const node_id *leaver);

/* Unites the rows of one checkpoint: `first` and the rows behind it with the same step, attempt and blob. `*out` gets all their
 * holders (the first FACT_HOLDERS_MAX; none: the checkpoint is not kept any more), is durable if one of them is, and gets the
 * metric of the first row that has one; out->next is NULL. Returns the first row of the next checkpoint, or NULL. */
const struct view_manifest *view_manifest_unite(const struct view_manifest *first, struct view_manifest *out);

/* The holders of a united checkpoint in another order: clear, then add the preferred ones of all its rows first. All rows
 * together may name more holders than a manifest has room for. Adding a holder that is listed already, or one more than
 * FACT_HOLDERS_MAX, changes nothing. */
void view_manifest_clear_holders(struct view_manifest *manifest);
void view_manifest_add_holder(struct view_manifest *manifest, node_id holder);

/* The verdict that counts: the lowest reason, then the lowest writer; NULL while the attempt lives. */
const struct view_verdict *view_attempt_verdict(const struct view_attempt *attempt);

/* Its node could not prepare or start it. Who was never begun for another reason, since the lease was over, has no code. */
bool view_worker_is_unstarted(const struct view_worker *worker);

/* The attempt whose result is shown (the lowest completed one), or NULL. */
struct view_attempt *view_trial_completed(const struct view_trial *trial);

/* The one that counts: of those that their coordinators have recorded the last, but for numbers that jump
 * (gossip/lamport.h). NULL: there is none. */
struct view_attempt *view_trial_highest(const struct view_trial *trial);

/* Of the next attempt: behind all that count, and of no attempt that anybody has spoken of; 0: there is none left. */
uint32_t view_trial_next_number(const struct view_trial *trial);

/* How often its program failed by itself: attempts that ended FAILED, and workers that failed before in attempts that have
 * ended, whose groups went on without them; nothing twice. */
uint32_t view_trial_failures(const struct view_trial *trial);

/* What the attempt counts for, should it end FAILED now: each elastic worker that failed in a group that went on without it,
 * and all of the last group as one. Who was to join and never came into a group is left out: it cost nobody anything. */
uint32_t view_attempt_failures(const struct view_attempt *attempt);
enum view_trial_state view_trial_state(const struct view_experiment *experiment, uint32_t index);

/* The node that alone ran all ranks of the attempt, or none: of a group that spans nodes nobody can tell which of them it
 * failed on, since its ranks drag each other down. */
node_id view_attempt_node(const struct view_attempt *attempt);

/* The death of its host that the attempt is charged with, or NULL: of several the one with fewest suspects. */
const struct view_death *view_attempt_death(const struct view_attempt *attempt);

/* Follows from the records alone, so that all coordinators decide alike. `nodes` (may be NULL): where it failed, or which
 * hosts died; VIEW_QUARANTINE_NODES of them at most, `count` of them set. */
enum view_quarantine view_trial_quarantine(const struct view_trial *trial, node_id nodes[VIEW_QUARANTINE_NODES],
                                           uint32_t *count);

bool view_experiment_cancelled(const struct view_experiment *experiment);
bool view_experiment_paused(const struct view_experiment *experiment);
enum view_experiment_state view_experiment_state(const struct view_experiment *experiment);

/* Completed, cancelled or failed: nothing of it will begin any more. */
bool view_experiment_over(const struct view_experiment *experiment);

/* True while there may still be something to coordinate. */
bool view_experiment_live(const struct view_experiment *experiment);

/* Looks up the searcher's metric in a packed metrics map (group -> name -> number); false if it is not there. */
bool view_metric(const uint8_t *metrics, uint32_t bytes, const char *group, const char *name, double *out);

/* What is known of an attempt's metrics, copied to `out` as a packed map of group -> name -> number; returns its length, 0:
 * nothing. An attempt that began at the last step had nothing left to do and says nothing: it has those of the attempt that
 * reached its first step and saved the checkpoint there. */
uint32_t view_attempt_metrics(const struct view *view, const struct view_experiment *experiment,
                              const struct view_attempt *attempt, uint8_t out[FACT_METRICS_BYTES_MAX]);

/* The best completed trial by the searcher's metric; false if there is none yet. Ties: the lower index. */
bool view_experiment_best(const struct view *view, const struct view_experiment *experiment, uint32_t *trial,
                          double *value);

/* The row of a node, made if it is missing; NULL when memory is full. */
struct view_member *view_member_row(struct view *view, node_id id);

const char *view_trial_state_name(enum view_trial_state state);
const char *view_experiment_state_name(enum view_experiment_state state);

#endif
