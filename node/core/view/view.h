#ifndef NODE_CORE_VIEW_VIEW_H
#define NODE_CORE_VIEW_VIEW_H
/* The fold: what users and the coordinator see, computed from the records that a node holds (DESIGN 5). A core.
 *
 * The node calls view_apply for every new entry of the table of records. The result depends on the set of newest records
 * only, not on their order of arrival: a worker's row may be made before the row of its attempt, and every list and array is
 * sorted. Texts, metrics and log tails stay in the records; a row names its record by ident. A tombstone takes all rows of
 * its experiment away, and later records of that experiment make no rows.
 *
 * The structs come first, then one section of functions for each file of this folder. All rows are in the view's arena. A
 * row that a function returns belongs to the view, and is valid until the next view_apply. */

#include "base/arena.h"
#include "gossip/election.h"
#include "gossip/lamport.h"
#include "gossip/records.h"
#include "gossip/version.h"
#include "node/core/facts/config.h"
#include "node/core/facts/facts.h"
#include "train/search/promotion.h"

/* ---- rows: nodes -------------------------------------------------------------------------------------------------------- */

/* A slot, by the record of its owner (struct fact_slot). */
struct view_slot {
    uint32_t state; /* enum lease_state */
    attempt_id attempt;
    uint32_t rank;
    bool withheld;
    uint64_t withheld_s;
    uint64_t since_s;
};

/* The drain or undrain of a node by one writer: see view_member_drain. */
struct view_drain {
    struct view_drain *next; /* by writer */
    node_id writer;
    struct fact_drain fact;
};

/* On which networks a node reached others (struct fact_links). Networks are hashes of their names (view_network). */
struct view_links {
    uint32_t network_count;
    uint64_t networks[FACT_NETWORKS_MAX];
    uint32_t unreached_count;
    struct fact_unreached unreached[]; /* by node */
};

/* A node that some record names. The words believed, evicted, rooted and admitted are defined in roster.c. */
struct view_member {
    node_id id;
    bool vouched;    /* there is a voucher for this node, by any writer */
    bool believed;   /* a chain of vouchers connects the node to the founder, evictions left aside: a member, or a former one */
    bool evicted;    /* a believed node has evicted this one, for good */
    bool rooted;     /* a chain of standing vouchers connects the node to the founder; evicted nodes may be links */
    bool admitted;   /* the node is a member: rooted and not evicted */
    bool is_reached; /* used by the search for chains while it runs */
    node_id sponsor; /* while rooted: the writer of the voucher that connects the node to the founder; of the founder, itself.
                      * From sponsor to sponsor the way always ends at the founder */
    node_id voucher; /* the smallest writer of a standing voucher for the node; while not rooted, the smallest believed one */
    node_id evictor; /* while evicted: the smallest believed writer of an eviction of the node */
    uint8_t public_key[PUBLIC_KEY_BYTES];
    char name[FACT_NAME_BYTES]; /* from the node's own record, else from the voucher */
    bool has_node;              /* the node's own record (struct fact_node) is here: the fields up to slot_parts are valid */
    uint64_t node_boot;
    bool left;
    struct version_range protocol; /* the versions that the node announces; newest 0: unknown */
    uint32_t address_count;
    char addresses[FACT_ADDRESSES_MAX][FACT_ADDRESS_BYTES];
    uint32_t announced_count; /* 0: the node's version writes no ADDRESSES record, or the record is not here; read with
                                 view_announced */
    struct fact_address *announced; /* [announced_count], by the node's ADDRESSES record */
    uint64_t announced_boot;        /* of that record */
    struct view_links *links;       /* by the node's LINKS record; NULL: the record is not here; read with
                                       view_member_links */
    uint64_t links_boot;            /* of that record */
    uint32_t bulk_port;
    uint64_t reads; /* FACT_READS_... */
    uint32_t slot_count;
    enum fact_slot_kind slot_kinds[FACT_SLOTS_MAX];
    uint64_t slot_parts; /* bit i: slot i is a part of a GPU (a MIG device) */
    uint32_t slot_room;
    struct view_slot *slots; /* [slot_room], at least slot_count; read with view_member_slot */
    struct view_drain *drains;
    struct fact_quarantine quarantine; /* as the node itself publishes it */
    const struct records_entry *node; /* the node's own record; NULL: none */
    const struct records_entry *policy; /* the node's own record of its owner's policy; NULL: none, or it does not decode */
    const struct records_entry *programs; /* the node's own record of its programs; NULL: none, or it does not decode */
};

/* A statement of one node about the membership of another: a voucher or an eviction. */
struct view_statement {
    node_id about, writer;
    struct view_member *member; /* the row of `about`; in an eviction NULL while there is no such row */
    struct view_member *author; /* the row of `writer`; in an eviction NULL while there is no such row */
    const struct records_entry *entry; /* the newest version of the record */
    bool is_readable;                  /* the body of the record decodes */
    bool is_founder;                   /* the founder's voucher for itself */
};

struct view_statements {
    struct view_statement *items; /* by (about, writer) */
    uint32_t count, slots;
};

/* ---- rows: attempts ----------------------------------------------------------------------------------------------------- */

/* A worker, by the record of the slot's owner (struct fact_worker). */
struct view_worker {
    struct view_worker *next; /* by (number, writer) */
    uint32_t number;
    node_id writer;
    record_ident ident; /* the record with the host, the metrics and the log's tail */
    uint64_t boot;      /* the writer's boot when it wrote the record */
    enum fact_worker_state state;
    enum fact_reason reason;
    int32_t exit_code;
    bool has_started; /* the program was started; false again if the machine turned out to be unable to start it */
    uint32_t generation;
    uint32_t master_port, data_port;
    uint64_t step;
    bool is_elastic, waits, has_state;
    uint64_t applied_step;
    enum fact_stall stall;
    bool is_overdue, is_past_barrier;
    uint64_t failure, ran_s;
    /* Not from records: observations of this node since its boot, kept by members/quarantine.c. */
    struct {
        uint64_t running_ms; /* when the worker was first seen to run; 0: never */
        bool is_start_seen;  /* the worker had started just before running_ms, not long before */
        uint64_t boot;       /* the boot of the worker's node in the last record of the running worker */
        uint64_t died_ms;    /* when the worker's node was declared dead; 0: never, or the worker was heard of since */
        uint64_t lived_ms;   /* from running_ms to the last message of the dead node */
        bool is_judged;      /* whether the trial is to blame for the death has been decided */
    } observed;
};

struct view_verdict {
    struct view_verdict *next; /* by writer */
    node_id writer;
    record_ident ident; /* the record with the metrics and the sentence */
    enum fact_reason reason;
    bool is_hung;
    uint64_t step;
};

/* What the attempt had reached at a rung, by the record of one owner of rank 0 (struct fact_result). */
struct view_result {
    struct view_result *next; /* by (rung, writer) */
    uint32_t rung;
    node_id writer;
    struct fact_result fact;
};

struct view_death {
    struct view_death *next; /* by writer */
    node_id writer;
    struct fact_death fact;
};

/* The group of an attempt, by the record of one coordinator (struct fact_generation). */
struct view_group {
    struct view_group *next; /* by (generation, term, writer): the last one in the list counts */
    node_id writer;
    uint32_t generation;
    uint64_t term;
    uint64_t start_step;
    bool is_leaving;
    bool is_large; /* the record is a GENERATION_LARGE */
    uint32_t member_count, joiner_count;
    struct fact_place *places; /* [member_count + joiner_count]: the members by rank, then the joiners */
};

struct view_attempt {
    struct view_attempt *next; /* by attempt_id_compare_order */
    attempt_id id;
    bool assigned; /* the coordinator's record of the attempt is here; other records of the attempt may come earlier */
    bool is_large; /* that record is an ATTEMPT_LARGE */
    uint32_t first_count;
    struct fact_place *first; /* [first_count]: the members at the beginning of the attempt, by rank */
    struct view_group *groups;
    /* The present group: the last of `groups`, or without any the first group. */
    uint32_t generation;
    struct election_claim group_claim; /* the claim of the coordinator that made the group */
    bool is_leaving;                   /* the members are to leave the group */
    uint64_t group_step;               /* steps applied by the members when the group begins */
    uint32_t member_count, joiner_count;
    const struct fact_place *members; /* [member_count + joiner_count]: by rank, the joiners behind the members */
    uint64_t start_step;              /* the step of the checkpoint that the attempt starts from; 0: from nothing */
    hash256 checkpoint;
    uint64_t retried; /* as in struct fact_attempt */
    uint32_t point_count, parent; /* as in struct fact_draw */
    double *point;                /* [point_count] */
    uint32_t beginning_count;
    struct fact_beginning *beginnings; /* [beginning_count]: the files that every rank finds at its start */
    struct view_worker *workers;
    struct view_verdict *verdicts;
    struct view_death *deaths;
    struct view_result *results;
};

/* ---- rows: experiments -------------------------------------------------------------------------------------------------- */

struct view_set;

/* A checkpoint, by the record of one writer (struct fact_manifest); view_manifest_unite joins the rows of all writers. A checkpoint of
 * several parts is one row, too, in place of all of its records: `blob` is its name (fact_part_name), `bytes` are those of all parts,
 * `writer` is made up, and there are holders, of any part, only while every part has one. */
struct view_manifest {
    struct view_manifest *next; /* the newest first: by step, then attempt, descending; then by writer */
    struct view_set *set;       /* of a checkpoint of several parts, and of a part's row; else NULL */
    uint32_t part;              /* of a part's row */
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
    bool is_kept;        /* the checkpoint is kept, as of the last retention_mark */
    bool is_best;        /* the checkpoint is among the best of the experiment, as of the last retention_mark */
    bool is_safe;        /* enough holders have lately confirmed whole copies; set by copies/collection.c */
    bool is_passed_over; /* the writer is gone, and this node has let the checkpoint go; false again after a newer record */
};

/* A checkpoint of several parts: what the records of its parts say. */
struct view_set {
    struct view_set *next; /* as the checkpoints: by step, then attempt, descending; then by save and count */
    attempt_id attempt;
    struct fact_part_key key; /* without a part */
    hash256 name;
    struct view_manifest *rows;  /* of the parts, by part, then by writer */
    struct view_manifest *whole; /* in the trial's list of checkpoints; NULL: the arena was full */
};

/* Files that a worker has left, by the record of one writer. */
struct view_output {
    struct view_output *next; /* by attempt, the newest first; then by (number, place, writer) */
    attempt_id attempt;
    uint32_t number, place;
    node_id writer;
    struct fact_output fact;
};

/* The stop or retry of a trial by one writer: see view_trial_stop. */
struct view_stop {
    struct view_stop *next; /* by writer */
    node_id writer;
    struct fact_stop fact;
};

/* The stop of a trial by its search, by one writer: see view_trial_search_stop. */
struct view_search_stop {
    struct view_search_stop *next; /* by writer */
    node_id writer;
    struct fact_search_stop fact;
};

/* A pause of a trial by its search, by one writer: see view_attempt_is_paused. */
struct view_search_pause {
    struct view_search_pause *next; /* by writer */
    node_id writer;
    struct fact_search_pause fact;
};

/* A trial that is STOPPED has no running attempt: until its last attempt has its verdict the trial is RUNNING. */
enum view_trial_state {
    VIEW_TRIAL_QUEUED,
    VIEW_TRIAL_RUNNING,
    VIEW_TRIAL_COMPLETED,
    VIEW_TRIAL_FAILED,
    VIEW_TRIAL_STOPPED,
    VIEW_TRIAL_STATES
};

struct view_trial {
    uint32_t index;
    uint8_t rest_state; /* at rest: enum view_trial_state */
    struct view_stop *stops;
    struct view_search_stop *search_stops;
    struct view_search_pause *search_pauses;
    struct view_attempt *attempts;
    struct view_manifest *manifests;
    struct view_set *sets; /* of the checkpoints of several parts */
    struct view_output *outputs;
};

/* The pause, resume or cancel of an experiment by one writer. */
struct view_control {
    struct view_control *next; /* by writer; of one writer the pause register before the cancel */
    node_id writer;
    bool is_cancel; /* the record's key is fact_key_cancel */
    struct fact_control fact;
};

/* A note about an experiment by one writer: see view_annotation_find. Name and value stay in the record. */
struct view_annotation {
    struct view_annotation *next; /* by (subject, name), then by writer */
    node_id writer;
    uint32_t subject; /* enum fact_subject */
    uint64_t lamport;
    bool is_set;
    const struct records_entry *entry;
};

/* One record of a secret (struct fact_secret). */
struct view_secret {
    struct view_secret *next; /* by name, then by (writer, page) */
    char name[FACT_NAME_BYTES];
    node_id writer;
    uint32_t page;
    uint64_t lamport;
    bool removed;
    uint8_t value[FACT_SECRET_VALUE_BYTES];
    const struct records_entry *entry;
};

/* A webhook of the mesh, or an allowed host, by the record of one writer (struct fact_webhook). */
struct view_webhook {
    struct view_webhook *next; /* by (id, writer) */
    uint8_t id[FACT_HOOK_BYTES];
    node_id writer;
    bool removed;
    const struct records_entry *entry;
};

#define VIEW_MODEL_KEY_BYTES (FACT_MODEL_HASH_BYTES + 1 + FACT_VERSION_BYTES + FACT_MODEL_HASH_BYTES)

/* One record of the model registry (struct fact_model). */
struct view_model {
    struct view_model *next; /* by key: those of a model stand together, its versions first; then by writer */
    uint8_t key[VIEW_MODEL_KEY_BYTES]; /* with zeros behind a shorter one */
    node_id writer;
    uint64_t lamport;
    uint64_t number;
    bool removed;
    bool is_moved; /* of a version: one with a smaller id claims the same number */
    const struct records_entry *entry;
};

/* A version of a model is a checkpoint, or the files, of a trial of this experiment. */
struct view_pin {
    struct view_pin *next; /* by version */
    uint8_t version[FACT_VERSION_BYTES];
    uint32_t trial;
    hash256 blob; /* none: only files */
    bool is_removed;
};

/* An event that only a record of a delivery tells of, and that is not over by that record. */
struct view_delivery {
    struct view_delivery *next; /* by (experiment, subject, writer) */
    experiment_id experiment;
    uint8_t subject[FACT_SUBJECT_BYTES];
    node_id writer;
    bool is_open;
    const struct records_entry *entry;
};

struct view_claim {
    struct view_claim *next; /* by writer */
    node_id writer;
    uint64_t boot;
    struct fact_claim fact;
};

/* One record of a search's log. */
struct view_log_record {
    uint32_t number;
    const struct records_entry *entry;
};

/* The log of one coordinator of a search. */
struct view_log {
    struct view_log *next; /* by (writer, name) */
    node_id writer;
    struct fact_log_name name;
    uint64_t term, boot; /* of the record 0, if it is here */
    uint32_t count, slots;
    struct view_log_record *records; /* by number */
    uint32_t taken;   /* how many records are in the state of the search */
    bool is_replaced; /* a record that was taken has another content now */
};

/* A decision that stands, in the state of a search. */
struct view_judged {
    struct fact_judged fact;
    const struct view_log *log; /* in whose record `number` it stands */
    uint32_t number;
};

/* With which values an attempt was begun, in the state of a search. */
struct view_created {
    attempt_id attempt;
    bool is_drawn;
    uint32_t before; /* the index of the trial's entry before this one, plus 1; 0: this is the first */
    uint32_t point_count, parent;
    double *point; /* [point_count] */
};

/* A trial in the state of its search. */
struct view_searched {
    uint32_t bracket; /* an index into the brackets of the search */
    uint32_t rungs; /* results that are judged: of the rungs 0 to rungs - 1 */
    uint32_t last;  /* the index of the last decision about it in view_search.judged, plus 1; 0: none */
    uint32_t created; /* the index of the last entry about it in view_search.created, plus 1; 0: none */
    uint32_t parent;  /* of pbt: the trial from whose checkpoint it goes on; FACT_NO_TRIAL: not known yet, or none (the first generation) */
    uint32_t judged_members; /* of the first trial of a generation of pbt: how many trials of the generation are judged */
    uint32_t ended; /* searcher custom: the number of the attempt whose end its program knows, plus 1; 0: of none */
};

/* A part of the state: the decisions of a log below `until` that were not taken before. */
struct view_segment {
    const struct view_log *log;
    uint32_t until;
};

/* An event of the search's program with its answer: the record of a log. */
struct view_event {
    const struct view_log *log;
    uint32_t number;
    uint32_t created_count; /* of view_search.created: the entries before the event */
    bool is_known; /* another log had the event before: the program is told of what the answer has created, and of nothing else */
};

/* What a coordinator says of the search's program. */
struct view_searcher {
    struct view_searcher *next; /* by writer */
    node_id writer;
    struct fact_searcher fact;
};

/* A search that stops trials early, as this node sees it: the state of the highest log. view_search_refresh makes it. */
struct view_search {
    struct view_log *logs;
    struct view_log *highest; /* which the state follows; NULL: none */
    struct view_segment *segments; /* what the state is made of, in order */
    uint32_t segment_count, segment_slots;
    bool is_stale;                 /* logs, claims or the configuration have changed since the last refresh */
    bool is_reconfigured;          /* ... and it was the configuration */
    struct search_brackets brackets; /* of trial_count trials */
    struct view_judged *judged;     /* in the order of the log */
    uint32_t judged_count, judged_slots;
    struct view_created *created; /* in the order of the log; of searchers that draw from results */
    uint32_t created_count, created_slots;
    struct view_searched *trials; /* [trial_count] */
    uint32_t trial_count;
    struct view_event *events; /* of the searcher custom, in the order of the log */
    uint32_t event_count, event_slots;
    uint32_t rebuilt; /* how often the state was made from its beginning */
    uint32_t next_trial; /* of the searcher custom: all trials below it have values */
    bool is_begun, has_more, is_finished; /* of the searcher custom, as in struct fact_answer */
    struct search_ladder ladder; /* of a search that promotes; else empty */
    uint32_t step_slots;
};

struct view_experiment {
    experiment_id id;
    bool known;        /* the experiment's own record is here: the fields up to trial_count are valid */
    node_id submitter; /* the smallest writer, should several nodes have submitted the experiment */
    uint64_t submitted_s;
    hash256 code;
    uint64_t code_bytes;
    hash256 config_text;
    bool is_large;         /* `config` is in lean form, and the blob config_text has the whole configuration */
    bool needs_search;     /* config_needs_search */
    bool is_drawn;         /* config_is_drawn */
    bool needs_promotion;  /* config_needs_promotion */
    bool has_sets;         /* some checkpoint of it has several parts */
    bool is_custom;        /* config_is_custom */
    struct config *config; /* its borrowed parts point into config_bytes */
    uint8_t *config_bytes;
    uint32_t config_byte_count;
    uint32_t configured_count; /* trials by the configuration */
    uint32_t trial_count;      /* with those that users have added: view_experiment_is_extended */
    struct view_trial **trials; /* [trial_slots], by index; NULL: no record of the trial is here */
    uint32_t trial_slots;
    uint64_t *at_rest; /* a bit for each place in the table: see view_trials_settle */
    uint32_t rest_counts[VIEW_TRIAL_STATES]; /* trials at rest, by their state */
    struct view_trial **strays; /* by index: trials named by records and (still) by no configuration, see view_trial_row */
    uint32_t stray_count, stray_slots;
    struct view_control *controls;
    struct view_claim *claims;
    struct view_searcher *searchers;
    struct view_search search;
    struct view_annotation *annotations;
    struct view_pin *pins;
    /* As of the last retention_find_bar: the last one of the safe checkpoints that fill the experiment's quota of best ones. A
     * checkpoint behind the bar is not among the best. is_there false: there are too few safe checkpoints for a bar. */
    struct view_bar {
        bool is_there;
        double metric;
        uint32_t trial, position;
    } bar;
    bool changed; /* set by view_apply, cleared by the coordinator after a look at the experiment */
};

/* A deleted experiment. No other row of the experiment is left. */
struct view_tombstone {
    experiment_id experiment;
    node_id writer; /* of several nodes that deleted the experiment the smallest */
};

/* How many evictions of one writer count: a roster holds no more nodes. Beyond that number the smallest keys count. So a
 * writer of made-up evictions takes a bounded part of the memory, and undoes at most evictions of its own. */
#define VIEW_EVICTIONS_MAX 1024

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
    struct view_secret *secrets;
    struct view_webhook *webhooks;
    struct view_delivery *deliveries;
    struct view_model *models;
    uint64_t webhook_count, secret_count; /* changes of webhooks and of secrets so far */
    bool roster_changed, nodes_changed, slots_changed; /* set by view_apply, cleared after the reader has acted; slots: more may fit */
    uint64_t malformed_count;                          /* records whose key or body did not decode */
    uint64_t jump_count; /* registers (drain, pause, stop, claim, annotation) whose highest clock is refused as a jump at present */
};

/* ---- view.c ------------------------------------------------------------------------------------------------------------- */

/* An empty view. The arena and the table of records are borrowed for as long as the view is used. */
void view_init(struct view *view, struct arena *arena, const struct records *records, mesh_id mesh);

/* Takes one entry into the fold. 0 also for a record of an unknown kind, or of a deleted experiment: nothing changes then.
 * ERR_MALFORMED: key or body does not decode; it is counted, and the record is relayed all the same. ERR_FULL: the arena is
 * full, and the entry has to be applied again. ERR_REFUSED: one eviction more than VIEW_EVICTIONS_MAX of its writer. */
int view_apply(struct view *view, const struct records_entry *entry);

/* This node was suspended for gap_ms, until now: moves the times in the view (stall.c). */
void view_shift(struct view *view, uint64_t gap_ms);

/* ---- rows.c, fold_nodes.c, tombstones.c: finding rows ------------------------------------------------------------------- */

/* The row with this id or index, or NULL. */
struct view_member *view_find_member(const struct view *view, node_id id);
struct view_experiment *view_find_experiment(const struct view *view, experiment_id id);
struct view_trial *view_find_trial(const struct view_experiment *experiment, uint32_t index);
struct view_attempt *view_find_attempt(const struct view *view, const attempt_id *id);

/* The row of a node, made if there was none; NULL: the arena is full. */
struct view_member *view_member_row(struct view *view, node_id id);

/* How many addresses the node's ADDRESSES record gives; 0: there is no such record, or it is older than the node's own record,
 * since the node now runs a version that writes none. */
uint32_t view_announced(const struct view_member *member);

/* By the node's LINKS record, or NULL: as with view_announced. The record of the boot before counts until a node that has just
 * started publishes its own. */
const struct view_links *view_member_links(const struct view_member *member);

/* The number by which struct view_links knows a network. */
uint64_t view_network(const char *name);

/* The slot's row, or NULL: no record names the slot. A slot below slot_count always has a row. */
const struct view_slot *view_member_slot(const struct view_member *member, uint32_t slot);

/* What a node's owner has told it, and whether a reason holds now. False: nothing, or it is not known. */
bool view_member_policy(const struct view_member *member, struct fact_policy *out);

/* Whether a node has a program (node/core/facts/program.h), by its own record. `*out` is of no use if UNKNOWN. */
enum view_program { VIEW_PROGRAM_UNKNOWN, VIEW_PROGRAM_LACKING, VIEW_PROGRAM_THERE };
enum view_program view_member_program(const struct view_member *member, const char *name, struct fact_program *out);

/* The node's slots of the experiment's kind that its constraints allow: bit i is slot i. */
uint64_t view_member_fitting(const struct view_member *member, const struct config *config);

/* The tombstone of a deleted experiment, or NULL. */
const struct view_tombstone *view_find_tombstone(const struct view *view, experiment_id id);

/* True once a tombstone of the experiment is known: from then on no work of the experiment begins. */
bool view_is_deleted(const struct view *view, experiment_id id);

/* ---- waits.c: what keeps an experiment from beginning ---------------------------------------------------------------------- */

enum view_wait_cause {
    VIEW_WAITS_NOT,
    VIEW_WAITS_ENDED,      /* `dependency` is over without being completed, or deleted: a user has to act */
    VIEW_WAITS_UNFINISHED, /* `dependency` is not over, or no record of it is here yet */
    VIEW_WAITS_TIME        /* `start_s` has not come */
};

struct view_wait {
    enum view_wait_cause cause;
    experiment_id dependency; /* the first one with this cause, in the order of depends_on */
    uint32_t others;          /* how many more have it */
    uint64_t start_s;         /* seconds since 1970, or CONFIG_NEVER */
};

/* What keeps the experiment from its first attempt (depends_on, start_after), if the time is `wall_s`. Once an attempt has begun nothing
 * does any more, whatever becomes of the other experiments. */
struct view_wait view_experiment_wait(const struct view *view, const struct view_experiment *experiment, uint64_t wall_s);

/* ---- roster.c: membership ----------------------------------------------------------------------------------------------- */

/* True for a former member: evicted, or without a standing voucher. */
bool view_member_is_out(const struct view_member *member);

/* Would `node` stay rooted if some member evicted `evicted` now, and no voucher of `evicted` stood any more? Changes is_reached
 * only. */
bool view_member_would_stay(struct view *view, node_id evicted, node_id node);

/* ---- label.c ------------------------------------------------------------------------------------------------------------ */

#define VIEW_LABEL_SIGN '~'
#define VIEW_LABEL_BYTES (FACT_NAME_BYTES + 2 * NODE_ID_BYTES + 1)

struct view_label {
    char text[VIEW_LABEL_BYTES];
};

/* What the node is called where people read: its name while no other member has the same, else the name, VIEW_LABEL_SIGN and
 * as many digits of its id as tell the nodes of that name apart, at least 4 ("elm~3f2a"). A member that left or is out keeps no
 * name from a present one. A name with a VIEW_LABEL_SIGN is always followed by digits, so that no name equals another node's
 * label. "?": no record gives the node a name. Compares the name with those of all members. */
struct view_label view_label(const struct view *view, node_id node);

/* ---- registers.c -------------------------------------------------------------------------------------------------------- */

/* The two highest clocks of a register (gossip/lamport.h); the clock of the writer `but` is left out (NULL: of no writer). The
 * clocks of claims are their terms; `of` is any row of the register, in no list perhaps. */
struct lamport_top view_drain_top(const struct view_member *member, const node_id *but);
struct lamport_top view_control_top(const struct view_experiment *experiment, const node_id *but);
struct lamport_top view_stop_top(const struct view_trial *trial, const node_id *but);
struct lamport_top view_secret_top(const struct view *view, const char *name, const node_id *but);
struct lamport_top view_claim_top(const struct view_experiment *experiment, const node_id *but);
struct lamport_top view_annotation_top(const struct view_experiment *experiment, const struct view_annotation *of,
                                       const node_id *but);

/* The highest claim to the experiment whose term is no jump, and whether it is given up; term 0: there is none. */
struct election_claim view_claim_highest(const struct view_experiment *experiment, bool *released);

/* The present value of the member's drain register; lamport 0: never written. Of concurrent values that count a drain wins;
 * `at_once`: at least one such drain has at_once. `is_idle`: the member itself has published is_idle with the same clock. */
struct fact_drain view_member_drain(const struct view_member *member);

bool view_experiment_cancelled(const struct view_experiment *experiment);

/* The present value of the pause register; of concurrent values a pause wins. */
bool view_experiment_paused(const struct view_experiment *experiment);

/* The present value of that register lets the experiment begin without the dependencies that ended without being completed. */
bool view_experiment_waived(const struct view_experiment *experiment);

/* The present value of the trial's stop register; lamport 0: never written, as of a NULL trial. Of concurrent values a stop wins,
 * and the highest `since` counts. */
struct fact_stop view_trial_stop(const struct view_trial *trial);

/* The lamport of the trial's present retry; 0: the trial was never retried, or has been stopped since. */
uint64_t view_trial_retried(const struct view_trial *trial);

/* A user or the search has stopped the trial: nothing of it begins any more, and what runs is asked to save and leave. */
bool view_trial_stopped(const struct view_trial *trial);

/* The highest attempt number that a user's last retry of the trial knew; 0: the last word was no retry, as of a NULL trial. */
uint32_t view_trial_retried_from(const struct view_trial *trial);

/* The search's stop of the trial, of several that of the lowest writer; NULL: none, or a user has taken it back since. */
const struct view_search_stop *view_trial_search_stop(const struct view_trial *trial);

/* ---- search.c: a search that stops trials early (DESIGN 14) ------------------------------------------------------------------ */

/* How many records of the log are here without a gap, from number 0 on. */
uint32_t view_log_whole(const struct view_log *log);

/* The log of this name; NULL: no record of it is here. */
struct view_log *view_find_log(const struct view_experiment *experiment, node_id writer, struct fact_log_name name);

/* Whether the log's writer has claimed to coordinate in the log's term, or in a later one. */
bool view_log_counts(const struct view_experiment *experiment, const struct view_log *log);

/* The order of logs: by term, coordinator, boot and name. */
bool view_log_is_higher(const struct view_log *a, const struct view_log *b);

/* True if a result of the trial may be left to be judged by its search, or if the search may still pause, promote or close it. */
bool view_search_awaits(const struct view_experiment *experiment, const struct view_trial *trial);

/* True if the trial of pbt is of the first generation, or the trials of the generation before it are judged, so that its parent is known. */
bool view_population_has_parent(const struct view_experiment *experiment, uint32_t trial);

/* The trial of pbt from whose checkpoint this one goes on while it has none of its own; NULL: none, or it is not known yet. */
const struct view_trial *view_population_parent(const struct view_experiment *experiment, uint32_t trial);

/* True while a trial of the next generation of pbt may go on from a checkpoint of this one. */
bool view_population_is_parent(const struct view_experiment *experiment, uint32_t trial);

/* Brings the state of the search up to date. False: the arena is full, or a record that the highest log adopts is not here; the state
 * lacks the newest decisions. */
bool view_search_refresh(struct view *view, struct view_experiment *experiment);

/* The last decision about the trial that stands; NULL: none. */
const struct view_judged *view_search_last(const struct view_experiment *experiment, uint32_t trial);

/* What the last decision that stands says of the trial: it goes on; it is to end (early, or at its whole length); it was to end,
 * and a user has retried it since: it is judged no more; or it is paused. */
enum view_course { VIEW_GOES_ON, VIEW_ENDS, VIEW_IS_FREED, VIEW_IS_PAUSED };
enum view_course view_search_course(const struct view_experiment *experiment, uint32_t trial);

/* How many decisions of the first `count` are about the rung of the bracket, and how many of these have a better metric. */
struct view_standing {
    uint32_t entries, better;
};
struct view_standing view_search_standing(const struct view_experiment *experiment, uint32_t count, uint32_t bracket, uint32_t rung,
                                          double metric);

/* The entry of the attempt, with its values; NULL: the state has none. */
const struct view_created *view_search_created(const struct view_experiment *experiment, const attempt_id *attempt);

/* ---- values.c: the values of a trial -------------------------------------------------------------------------------------- */

/* Whether both draws are the same: the values and the parent. */
bool view_draw_is_same(uint32_t count, const double *point, uint32_t parent, uint32_t other_count, const double *other,
                       uint32_t other_parent);

/* The attempt whose values are the trial's: the completed one that counts, else the highest; NULL: none. Two sides of a cut may
 * draw a trial differently: after the heal one of the draws is the trial's. */
const struct view_attempt *view_trial_valued(const struct view_trial *trial);

/* fact_draw_mark of the attempt's values. */
uint64_t view_attempt_draw(const struct view_attempt *attempt);

/* False: the worker trained with other values than the attempt's record has now. */
bool view_result_counts(const struct view_attempt *attempt, const struct view_result *result);

/* Whether the attempt has the trial's values, so that what it has reached and left counts. Always true where the values follow from
 * the trial's number; false of another attempt whose record is not here. */
bool view_trial_continues(const struct view_trial *trial, const attempt_id *attempt);

/* Writes the values of the trial as a nested map (search_trial_values), those of `attempt` where values belong to attempts.
 * `config`: of the experiment, whole. 0; ERR_NOT_FOUND: nothing has been drawn yet (attempt NULL or without values);
 * ERR_MALFORMED: the space has no such trial, or no such values; ERR_FULL. */
int view_attempt_values(const struct config *config, const struct view_attempt *attempt, uint32_t index, struct pack_writer *writer);

/* ---- promotion.c: a search that promotes paused trials (DESIGN 14) ------------------------------------------------------------ */

/* The search has paused the attempt: its workers are asked to save and leave. A promotion takes no pause back: the trial's next attempt
 * is a higher one. */
bool view_attempt_is_paused(const struct view_trial *trial, const attempt_id *attempt);

/* The decision by which the trial is paused now; NULL: it is not. */
const struct view_judged *view_search_paused(const struct view_experiment *experiment, uint32_t trial);

/* The last decision about the trial is its promotion. */
bool view_search_is_promoted(const struct view_experiment *experiment, uint32_t trial);

/* How many other trials are entries at the rung of the decision `of`, among the first `count` decisions, and how many of these stand
 * before its trial. Of a search that promotes. */
struct view_standing view_promotion_standing(const struct view_experiment *experiment, uint32_t count, const struct view_judged *of);

/* ---- custom.c: a search in which a program decides (DESIGN 14) ----------------------------------------------------------- */

/* The program has given the trial values, or an attempt of it has some: it may begin. */
bool view_custom_is_created(const struct view_experiment *experiment, uint32_t trial);

/* The trial is over, and the program does not know yet. */
bool view_custom_end_is_due(const struct view_experiment *experiment, uint32_t trial);

/* The decision may be the next one about its trial. */
bool view_custom_takes_next(const struct view_experiment *experiment, const struct fact_judged *judged);

/* What the coordinator with the highest claim says of the program; NULL: nothing. */
const struct view_searcher *view_custom_searcher(const struct view_experiment *experiment);

/* Writes event `number` of the log for the program: a map (docs/wire.md). ERR_FULL, or ERR_NOT_FOUND: there is no such event. */
int view_custom_event(const struct view_experiment *experiment, uint32_t number, struct pack_writer *writer);

/* The same for an event without an answer, which would be the next one. */
int view_custom_new_event(const struct view_experiment *experiment, const struct fact_search_log *draft, struct pack_writer *writer);

/* The record of event `number`. False: there is none. Pointers in `*out` are valid until the next view_apply. */
bool view_custom_record(const struct view_experiment *experiment, uint32_t number, struct fact_search_log *out);

/* How many trials one answer may create, so that it fits into a record. */
uint32_t view_custom_most(const struct config *config);

/* ---- annotations.c ------------------------------------------------------------------------------------------------------ */

/* A walk over the registers in their order: of each the row whose value counts, which may have been taken back. NULL: no register
 * is left. A register whose only clock is a jump is passed over. */
const struct view_annotation *view_annotation_first(const struct view_experiment *experiment);
const struct view_annotation *view_annotation_next(const struct view_annotation *row);

/* The row whose value counts, which may have been taken back; NULL: never written. `name`: of a label, else "". */
const struct view_annotation *view_annotation_find(const struct view_experiment *experiment, enum fact_subject subject,
                                                   const char *name);

/* Whether both rows are of one register. */
bool view_annotation_same(const struct view_annotation *a, const struct view_annotation *b);

void view_annotation_name(const struct view_annotation *row, char out[FACT_LABEL_BYTES]);
void view_annotation_value(const struct view_annotation *row, char out[FACT_NOTE_BYTES]);

bool view_experiment_archived(const struct view_experiment *experiment);
bool view_experiment_pinned(const struct view_experiment *experiment);

/* What users have set, else resources.priority. */
uint32_t view_experiment_priority(const struct view_experiment *experiment);

/* What users have set, else resources.max_slots. */
uint32_t view_experiment_max_slots(const struct view_experiment *experiment);

/* The most that resources.max_slots can be set to: more would need records of groups that the experiment's nodes may not read. */
uint32_t view_max_slots_bound(const struct view_experiment *experiment);

/* Users have added trials to those of the configuration. */
bool view_experiment_is_extended(const struct view_experiment *experiment);

/* What users have noted, else the configuration's description. */
void view_experiment_description(const struct view_experiment *experiment, char out[FACT_NOTE_BYTES]);

/* What users have noted about a trial. False: nothing. */
bool view_trial_description(const struct view_experiment *experiment, uint32_t trial, char out[FACT_NOTE_BYTES]);

#define VIEW_DESCRIBED_MAX 256 /* trials of an experiment about which something has been noted: a request for more is refused */

/* About how many trials anything has been noted, be it taken back. */
uint32_t view_described_trials(const struct view_experiment *experiment);

#define VIEW_LABELS_MAX 64 /* of one experiment: a request for more is refused, and of more records the first names count */

struct view_label_text {
    char name[FACT_LABEL_BYTES], value[FACT_NOTE_BYTES]; /* value: "" if it has none */
};

/* The labels of the configuration that no note has changed, "NAME" or "NAME=VALUE", and those that users have set. Returns how many
 * there are, at most VIEW_LABELS_MAX. An experiment in lean form has the latter only. */
uint32_t view_experiment_labels(const struct view_experiment *experiment, struct view_label_text out[VIEW_LABELS_MAX]);

/* ---- secrets.c ---------------------------------------------------------------------------------------------------------- */

/* A row of the value that counts, which may be a removal. NULL: the secret has never been set. */
const struct view_secret *view_secret_find(const struct view *view, const char *name);

/* A row of the secret with the first name behind `name` (NULL: of all); NULL: there is none. */
const struct view_secret *view_secret_next(const struct view *view, const char *name);

/* Whether both rows of one secret are about the same value. */
bool view_secret_is_same(const struct view_secret *a, const struct view_secret *b);

/* The key of this value in the box for the node, and the record with it in `*fact`. NULL: the node has no copy; `*fact` is of no use. */
const uint8_t *view_secret_copy(const struct view *view, const struct view_secret *now, node_id node, struct fact_secret *fact);

bool view_secret_is_set(const struct view *view, const char *name);

/* The trials ask for a secret, then `name`, that is not set, or of which `node` (may be NULL) has no copy. */
bool view_secrets_lack(const struct view *view, const struct config *config, const node_id *node, char name[FACT_NAME_BYTES]);

/* ---- webhooks.c --------------------------------------------------------------------------------------------------------- */

/* The first webhook or allowed host behind `row` (NULL: of all) that nobody has removed; NULL: there is none. */
const struct view_webhook *view_webhook_next(const struct view *view, const struct view_webhook *row);

/* Gives back the rows of the experiment's deliveries. */
void view_deliveries_forget(struct view *view, experiment_id experiment);

/* ---- models.c ----------------------------------------------------------------------------------------------------------- */

/* The first row of the first model behind the one of `row` (NULL: of all) that exists: nobody has removed it later than it was
 * registered, or a version of it is left. NULL: there is none. A model stands for its first row in all functions below. */
const struct view_model *view_model_next(const struct view *view, const struct view_model *row);

/* The model with this name; NULL: there is none. */
const struct view_model *view_model_find(const struct view *view, const char *name);

/* The first version behind `row` (NULL: of all) that nobody has removed; NULL: there is none. */
const struct view_model *view_model_version_next(const struct view_model *model, const struct view_model *row);

/* The number of a version, for ever its own. That which it claims, unless a version with a smaller id claims the same one (each was
 * given its number in another part of the mesh): then the claimed number, followed by six digits of the version's id. */
uint64_t view_model_version_number(const struct view_model *version);

/* The version that has the number, or the id, now; NULL: none. */
const struct view_model *view_model_version(const struct view_model *model, uint64_t number);
const struct view_model *view_model_version_by_id(const struct view_model *model, const uint8_t id[FACT_VERSION_BYTES]);

/* The id of a version, also of the one that a register is about (zeros: of the model). */
const uint8_t *view_model_id(const struct view_model *row);
enum fact_model_subject view_model_subject(const struct view_model *row);

/* A number above those that versions of the model have claimed, removed ones included; 0: the largest is claimed. */
uint64_t view_model_free_number(const struct view *view, const char *name);

/* The first register behind `row` (NULL: of all), of the model or its versions, whose value counts and is set; NULL: there is none. Not
 * EXISTS. It is of no use if the version that it is about, or that an alias stands for, is removed: is_held, which looks through the
 * versions, is then false. */
const struct view_model *view_model_value_next(const struct view_model *model, const struct view_model *row);
bool view_model_value_is_held(const struct view_model *model, const struct view_model *row);

/* The same for the tags and the description of the model itself. */
const struct view_model *view_model_note_next(const struct view_model *model, const struct view_model *row);

/* The row that counts of a register of a model, which need not exist; it may have been taken back. NULL: never written. */
const struct view_model *view_model_register(const struct view *view, const char *name, enum fact_model_subject subject,
                                             const uint8_t version[FACT_VERSION_BYTES], const char *field);

/* The clock to write next in a register. */
uint64_t view_model_clock(const struct view *view, const char *name, enum fact_model_subject subject,
                          const uint8_t version[FACT_VERSION_BYTES], const char *field, node_id self);

/* Whether a version is the checkpoint `blob`, or anything, of the experiment. */
bool view_pins_checkpoint(const struct view_experiment *experiment, uint32_t trial, hash256 blob);
bool view_pins_any(const struct view_experiment *experiment);

/* ---- groups.c: the group of an attempt as it is now --------------------------------------------------------------------- */

/* The row of the worker with this rank, by the owner of the worker's slot; NULL: no record yet. Ranks from member_count on
 * are the joiners. */
const struct view_worker *view_attempt_worker(const struct view_attempt *attempt, uint32_t rank);

/* The present rank of the worker with the number in the slot of the node; UINT32_MAX: the group has no such worker. */
uint32_t view_attempt_rank(const struct view_attempt *attempt, node_id node, uint32_t slot, uint32_t number);

/* True once the record of every member has is_elastic: the program can leave a group and enter the next one. */
bool view_attempt_is_elastic(const struct view_attempt *attempt);

/* The worker of this rank (below member_count + joiner_count) has to give its slot back, and has not ended: the slot's owner
 * withholds the slot, or the node is drained at once. */
bool view_attempt_is_wanted_back(const struct view *view, const struct view_attempt *attempt, uint32_t rank);

/* True if the staying members, neither ended nor wanted back, are enough for a group of their own (min_slots; with even_hosts they
 * never are). False: the whole group is asked to stop. `leaver` (may be NULL): a node with members that count as wanted back, too.
 * The answer follows from the records alone, so that all owners and the coordinator agree. */
bool view_attempt_can_shrink(const struct view *view, const struct view_experiment *experiment,
                             const struct view_attempt *attempt, const node_id *leaver);

/* The node that runs all ranks of the attempt; none if the group spans nodes. In a group across nodes a failed rank drags
 * all ranks down, and no node can tell where the failure began. */
node_id view_attempt_node(const struct view_attempt *attempt);

/* ---- states.c ----------------------------------------------------------------------------------------------------------- */

enum view_experiment_state {
    VIEW_QUEUED,
    VIEW_RUNNING,
    VIEW_PAUSED,
    VIEW_COMPLETED,
    VIEW_CANCELLED,
    VIEW_FAILED
};

/* The verdict that counts: the lowest reason, then the lowest writer. NULL: the attempt has not ended. */
const struct view_verdict *view_attempt_verdict(const struct view_attempt *attempt);

/* The attempt with the result for users: the lowest completed attempt. NULL: none has completed. */
struct view_attempt *view_trial_completed(const struct view_trial *trial);

/* The attempt that decides the trial's state: the highest in attempt order among attempts recorded by their own coordinator,
 * numbers that jump left out (gossip/lamport.h). NULL: there is no such attempt. */
struct view_attempt *view_trial_highest(const struct view_trial *trial);

/* The number for the trial's next attempt: above all numbers that count, and not yet used in any record. 0: none is left. */
uint32_t view_trial_next_number(const struct view_trial *trial);

/* Of a trial for which several are true the first: completed, stopped, failed. So a result outlives a stop and a retry, and a
 * stopped trial stays so until it is retried, whatever becomes known of its earlier attempts. */
enum view_trial_state view_trial_state(const struct view_experiment *experiment, uint32_t index);

/* The trial is completed, failed or stopped: no further attempt of it begins, unless a user retries it. */
bool view_trial_over(enum view_trial_state state);

/* Marks the trials at rest: trials of the table that have begun and are over, all attempts of which have verdicts, and of which no
 * death of a host and no result for the search is left to be judged. Such a trial stays as it is until a record of it is folded,
 * which takes the mark away. So what looks for work skips the trials at rest, and an experiment with very many trials costs as
 * much as its trials that are not over. */
void view_trials_settle(struct view_experiment *experiment);

/* The first index from `from` on that is of no trial at rest. There may be no row of that trial, or no such trial. */
uint32_t view_next_unsettled(const struct view_experiment *experiment, uint32_t from);

/* An experiment of which every trial is over has failed if all of them have, and is completed otherwise. */
enum view_experiment_state view_experiment_state(const struct view_experiment *experiment);

/* Completed, cancelled or failed: no further work of the experiment begins, unless a user retries a trial. */
bool view_experiment_over(const struct view_experiment *experiment);

/* True while a coordinator may be needed: the experiment is not over, or an attempt has no verdict yet, or the program of
 * its search is to be told of an end. */
bool view_experiment_live(const struct view_experiment *experiment);

/* The states as users read them: "queued", "running" ... */
const char *view_trial_state_name(enum view_trial_state state);
const char *view_experiment_state_name(enum view_experiment_state state);

/* ---- failures.c --------------------------------------------------------------------------------------------------------- */

/* Why a trial gets no further attempt although its restarts are not used up (DESIGN 7). */
enum view_quarantine { VIEW_NO_QUARANTINE, VIEW_QUARANTINE_FAILURES, VIEW_QUARANTINE_DEATHS, VIEW_QUARANTINE_SAME };

#define VIEW_QUARANTINE_NODES 3         /* failures on so many nodes, without progress between them */
#define VIEW_SAME_FAILURES 3            /* equal quick failures, if all of them are on one node */
#define VIEW_QUARANTINE_HOST_DEATHS 2   /* deaths of hosts, if no other trial is suspected of the last death */
#define VIEW_QUARANTINE_SHARED_DEATHS 3 /* deaths of hosts, whatever other trials are suspected */

/* Whether failures and losses of the attempt count. `stop`: view_trial_stop of its trial. After a retry only attempts count that
 * were made with knowledge of it: not those of a side of a cut that failed on without that knowledge. While the trial is
 * stopped, attempts up to stop->since count no more. */
bool view_attempt_counts(const struct fact_stop *stop, const struct view_attempt *attempt);

/* True if the node could not prepare or start the worker. (A worker without a start because the lease ended first has exit code
 * 0.) */
bool view_worker_is_unstarted(const struct view_worker *worker);

/* How often the trial's program failed by itself: attempts that ended FAILED, and in ended attempts each elastic worker that
 * failed earlier, in a group that went on. No failure counts twice, and only those of attempts with view_attempt_counts do. */
uint32_t view_trial_failures(const struct view_trial *trial);

/* How many failures the attempt counts for if the verdict is FAILED now: one for each elastic worker that failed in a group
 * that went on, and one for the whole last group. A joiner that failed before entering a group does not count: the failure
 * cost no other worker anything. */
uint32_t view_attempt_failures(const struct view_attempt *attempt);

/* The death of a host with which the attempt is charged, or NULL; of several deaths the one with the fewest suspects. */
const struct view_death *view_attempt_death(const struct view_attempt *attempt);

/* Whether the trial is in quarantine; `retry` is the option of its experiment. `nodes` and `count` (may be NULL) get the nodes of
 * the failures, or the dead hosts, at most VIEW_QUARANTINE_NODES. The answer follows from the records alone, so that all coordinators agree. */
enum view_quarantine view_trial_quarantine(const struct view_trial *trial, enum config_retry retry,
                                           node_id nodes[VIEW_QUARANTINE_NODES], uint32_t *count);

/* ---- results.c: checkpoints and metrics --------------------------------------------------------------------------------- */

/* Unites the rows of one checkpoint, or of one part: `first` and the rows behind it with the same step, attempt, part and blob. `*out` gets the
 * holders of all rows (the first FACT_HOLDERS_MAX; none: the checkpoint is not kept any more), is durable if a row is, and
 * gets the metric of the first row with a metric; out->next is NULL. Returns the first row of the next checkpoint, or NULL. */
const struct view_manifest *view_manifest_unite(const struct view_manifest *first, struct view_manifest *out);

/* The checkpoint of several parts with this name, which attempts that begin with it have for the hash of a blob; or NULL. */
const struct view_set *view_find_set(const struct view_trial *trial, hash256 name);

/* The first row of the part that has holders. NULL: none has, or such rows name different bytes, and then nobody knows which are right. */
const struct view_manifest *view_set_part(const struct view_set *set, uint32_t part);

/* The holders of a united checkpoint in another order: clear, then add the preferred holders of all rows first. All rows
 * together may name more holders than a manifest has room for. Adding a listed holder again, or more than FACT_HOLDERS_MAX,
 * changes nothing. */
void view_manifest_clear_holders(struct view_manifest *manifest);
void view_manifest_add_holder(struct view_manifest *manifest, node_id holder);

/* Looks up one metric in a packed map of group -> name -> number. False: the metric is not there, and `*out` is untouched. */
bool view_metric(const uint8_t *metrics, uint32_t bytes, const char *group, const char *name, double *out);

/* Copies the attempt's metrics to `out` as a packed map of group -> name -> number, and returns its length; 0: none are
 * known. An attempt that began at the last step has nothing left to do and reports no metrics: `out` gets the metrics of the
 * attempt that saved the checkpoint of that step. */
uint32_t view_attempt_metrics(const struct view *view, const struct view_experiment *experiment,
                              const struct view_attempt *attempt, uint8_t out[FACT_METRICS_BYTES_MAX]);

/* The best completed or stopped trial by the searcher's metric; of equal ones the lower index. A stopped trial has the last metric
 * that its last attempt reported. False: no trial has completed or was stopped with a finite metric, and `*trial` and `*value` are untouched. */
bool view_experiment_best(const struct view *view, const struct view_experiment *experiment, uint32_t *trial,
                          double *value);

#endif
