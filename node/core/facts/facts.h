#ifndef NODE_CORE_FACTS_FACTS_H
#define NODE_CORE_FACTS_FACTS_H
/* The contents of records: for each kind of record a struct, its key and the format of its body (MessagePack, docs/wire.md). A
 * core. The meaning of a kind never changes; a new meaning is a new kind. Decoders take bytes from anywhere and return 0 or
 * ERR_MALFORMED; after a 0 every number and length is within the bounds stated here, and every text ends in NUL. */

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "base/pack.h"
#include "gossip/record.h"

/* One row for each kind: name, number on the wire, the word in fact_WORD_read and in traces, whether the record is deleted
 * along with its experiment, and how the record enters the fold (node/core/view/fold.h). A new kind begins here. */
#define FACT_KINDS(ROW) \
    ROW(MEMBER, 1, member, false, fold_member) /* a voucher: admits a key to the roster */ \
    ROW(NODE, 2, node, false, fold_node) /* a node about itself */ \
    ROW(INVITE, 3, invite, false, fold_nothing) /* the public half of an invite token */ \
    ROW(SLOT, 4, slot, false, fold_slot) /* an owner about one of its slots and the lease */ \
    ROW(EXPERIMENT, 5, experiment, true, fold_experiment) /* what was submitted */ \
    ROW(CONTROL, 6, control, true, fold_control) /* cancel, pause and resume */ \
    ROW(CLAIM, 7, claim, true, fold_claim) /* a node claims to coordinate */ \
    ROW(ATTEMPT, 8, attempt, true, fold_attempt) /* a coordinator assigns a trial to slots */ \
    ROW(WORKER, 9, worker, true, fold_worker) /* an owner about one worker of an attempt */ \
    ROW(VERDICT, 10, verdict, true, fold_verdict) /* a coordinator ends an attempt */ \
    ROW(MANIFEST, 11, manifest, true, fold_manifest) /* a checkpoint and its holders */ \
    ROW(TOMBSTONE, 12, tombstone, false, fold_tombstone) /* a deleted experiment: kept for ever */ \
    ROW(EVICTION, 13, eviction, false, fold_eviction) /* shuts a key out for ever */ \
    ROW(DRAIN, 14, drain, false, fold_drain) /* whether a node gets new work */ \
    ROW(DEATH, 15, death, true, fold_death) /* the host of an attempt died soon after the start */ \
    ROW(QUARANTINE, 16, quarantine, false, fold_quarantine) /* a node about itself: too many trials fail here */ \
    ROW(GENERATION, 17, generation, true, fold_generation) /* a coordinator changes the group of an attempt */ \
    ROW(ADDRESSES, 18, addresses, false, fold_addresses) /* a node about itself: where it can be reached */ \
    ROW(LINKS, 19, links, false, fold_links) /* a node about itself: on which networks it reached which nodes */ \
    ROW(OUTPUT, 20, output, true, fold_output) /* files that a worker has left, and their holders */ \
    ROW(PROGRAMS, 22, programs, false, fold_programs) /* a node about itself: which programs it has */ \
    ROW(EXPERIMENT_LARGE, 25, experiment_large, true, fold_experiment_large) /* as EXPERIMENT, its configuration in a blob */ \
    ROW(ATTEMPT_LARGE, 26, attempt_large, true, fold_attempt_large) /* as ATTEMPT, for experiments of more slots */ \
    ROW(GENERATION_LARGE, 27, generation_large, true, fold_generation_large) /* as GENERATION, likewise */ \
    ROW(STOP, 28, stop, true, fold_stop) /* one trial is stopped, or retried */ \
    ROW(ANNOTATION, 29, annotation, true, fold_annotation) /* what users have noted about an experiment */ \
    ROW(RESULT, 30, result, true, fold_result) /* what a trial had reached at a rung of its search */ \
    ROW(SEARCH_LOG, 31, search_log, true, fold_search_log) /* what a coordinator has decided in a search, and from what */ \
    ROW(SEARCH_STOP, 32, search_stop, true, fold_search_stop) /* the search has stopped one trial */ \
    ROW(SEARCH_PAUSE, 35, search_pause, true, fold_search_pause) /* the search has paused the attempts of one trial */ \
    ROW(SEARCHER, 37, searcher, true, fold_searcher) /* a coordinator about the program that decides in a search */ \
    ROW(PART, 39, part, true, fold_part) /* one part of a checkpoint of several parts, and its holders */ \
    ROW(TOKEN, 40, token, false, fold_nothing) /* the hash of a token that opens the HTTP door */ \
    ROW(POLICY, 41, policy, false, fold_policy) /* a node about itself: when its machine is its owner's */ \
    ROW(SECRET, 43, secret, false, fold_secret) /* a value that only the nodes with a copy can open */ \
    ROW(WEBHOOK, 44, webhook, false, fold_webhook) /* an address that is told of the mesh's events */ \
    ROW(DELIVERY, 45, delivery, true, fold_delivery) /* what became of telling a webhook of an event */ \
    ROW(MODEL, 46, model, false, fold_model) /* a registered model, one of its versions, or what is said of either */ \
    ROW(USAGE, 47, usage, false, fold_nothing) /* an owner about the time of its slots in one day or one month */

enum fact_kind {
#define KIND(name, number, word, of_experiment, folds) FACT_##name = (number),
    FACT_KINDS(KIND)
#undef KIND
};

/* The bounds of texts (with their NUL) and lists. */
#define FACT_NAME_BYTES 64
#define FACT_ADDRESS_BYTES 64
#define FACT_ADDRESSES_MAX 4
#define FACT_ANNOUNCED_MAX 16  /* addresses in a record ADDRESSES */
#define FACT_NETWORKS_MAX 8    /* networks in a record LINKS */
#define FACT_NETWORK_BYTES 52  /* "ADDRESS/PREFIX", "4" or "6" */
#define FACT_UNREACHED_MAX 200 /* exceptions in a record LINKS */
#define FACT_SLOTS_MAX 64
#define FACT_MEMBERS_MAX 256 /* of one group with its joiners */
#define FACT_MEMBERS_PLAIN 64 /* in records of ATTEMPT; of GENERATION the members, and the joiners */
#define FACT_METRICS_BYTES_MAX 1024 /* of a packed map of group -> name -> number */
#define FACT_TAIL_BYTES 768         /* the end of a worker's log */
#define FACT_HOLDERS_MAX 8 /* of one checkpoint, by one writer */
#define FACT_PARTS_MAX FACT_MEMBERS_MAX /* of one checkpoint */
#define FACT_OUTPUTS_MAX 64 /* copies of outputs that one attempt begins with */
#define FACT_OUTPUT_PLACES 3 /* of one worker: two in turn, and one for its last output */
#define FACT_ADOPTED_MAX 64   /* prefixes of other logs in one record SEARCH_LOG */
#define FACT_JUDGED_MAX 64    /* decisions in one record SEARCH_LOG */
#define FACT_RUNGS_MAX 32     /* of one bracket of a search */
#define FACT_POINT_MAX 128    /* numbers of a point: one for each parameter of a search space */
#define FACT_ACTIONS_MAX 64   /* trials that one answer of a search's program creates; stops them, likewise */
#define FACT_SEARCHER_BYTES 320 /* a sentence about the program of a search */
#define FACT_NO_TRIAL UINT32_MAX
#define FACT_STANDING_MAX 500 /* nodes that one eviction lists: as many as fit into a body */
#define FACT_WITHHELD_S_MAX (366u * 86400) /* a year: the longest time for which an owner can withhold a slot */
#define PUBLIC_KEY_BYTES 32 /* Ed25519 */

/* A voucher. Key: the member's node id. The founder vouches for itself; mesh id = BLAKE2b-128(founder's public key, nonce). */
struct fact_member {
    uint8_t public_key[PUBLIC_KEY_BYTES]; /* Ed25519; the node id is its BLAKE2b-128 */
    char name[FACT_NAME_BYTES];
    uint8_t nonce[16]; /* of the founder's own voucher; zero in all others */
};

enum fact_slot_kind { FACT_SLOT_CPU, FACT_SLOT_CUDA };

/* A slot of a node, as its daemon has found it. */
struct fact_slot_info {
    char uuid[48];
    char model[32];
    enum fact_slot_kind kind;
    uint64_t memory_bytes;
};

#define FACT_READS_LARGE (UINT64_C(1) << 0) /* the ..._LARGE kinds: the node can run and coordinate large experiments */
#define FACT_READS_STOP (UINT64_C(1) << 1)  /* STOP: the node obeys the stop of a trial */
#define FACT_READS_ANNOTATION (UINT64_C(1) << 2) /* ANNOTATION: the node keeps what is pinned, and goes by the priority */
#define FACT_READS_SEARCH (UINT64_C(1) << 3) /* searchers that stop trials early, and all search spaces (config_needs_search) */
#define FACT_READS_RETRY (UINT64_C(1) << 4) /* `retried` of attempts: the node begins a retried trial with a clean count of failures */
#define FACT_READS_DRAWN (UINT64_C(1) << 5) /* `draw` of attempts, `created` of logs: searchers that draw from results (config_is_drawn) */
#define FACT_READS_PROMOTION (UINT64_C(1) << 6) /* SEARCH_PAUSE, and searches that promote paused trials (config_needs_promotion) */
#define FACT_READS_POPULATION (UINT64_C(1) << 8) /* searcher.name pbt */
#define FACT_READS_EXTENSION (UINT64_C(1) << 7) /* MAX_TRIALS and MAX_SLOTS of ANNOTATION: the node knows trials that were added to a search,
                                                 * and begins no trial without the checkpoint of checkpoint.begin_from */
#define FACT_READS_DRAWN_PROMOTION (UINT64_C(1) << 10) /* the sampler tpe in searches that promote paused trials */
#define FACT_READS_PARTS (UINT64_C(1) << 11) /* PART: the node keeps, copies and begins with checkpoints of several parts */

#define FACT_READS_POLICY (UINT64_C(1) << 12) /* POLICY: the node tells why and until when its slots are its owner's */

#define FACT_READS_CUSTOM (UINT64_C(1) << 9) /* SEARCHER, `answer` of logs: searches in which a program of the user's decides (config_is_custom) */

#define FACT_READS_SECRETS (UINT64_C(1) << 14) /* SECRET, WEBHOOK, DELIVERY: the node gives programs their secrets, and tells webhooks;
                                                * and it reads event files (config.tensorboard) */

#define FACT_READS_USAGE (UINT64_C(1) << 16) /* USAGE: the node counts what its slots are used for */
#define FACT_READS_WAITS (UINT64_C(1) << 18) /* what config_needs_waits tells, `waived` of CONTROL, `overran` of STOP: the node begins no trial early,
                                              * and ends those that have run for their max_runtime */
#define FACT_READS_MODELS (UINT64_C(1) << 13) /* MODEL: the node keeps the checkpoints and files of model versions */

#define FACT_CERTIFICATE_HASH_BYTES 32

/* The HTTPS door of a node, for other machines (docs/http.md). */
struct fact_door {
    char address[FACT_ADDRESS_BYTES];           /* HOST:PORT, the host perhaps that of all addresses; empty: there is no such door */
    uint8_t certificate[FACT_CERTIFICATE_HASH_BYTES]; /* its SHA-256 */
};

#define FACT_NODE_LABELS_MAX 16
#define FACT_NODE_LABEL_BYTES 64 /* with the NUL */

/* A node about itself. Key: empty. */
struct fact_node {
    char name[FACT_NAME_BYTES];
    char version[16];
    uint32_t protocol_min, protocol_max;
    uint32_t address_count;
    char addresses[FACT_ADDRESSES_MAX][FACT_ADDRESS_BYTES]; /* HOST:PORT of the control socket, best first */
    uint32_t bulk_port;                                     /* of the bulk socket, on the same hosts */
    bool left;                                              /* the node has left the mesh */
    uint32_t slot_count;
    struct fact_slot_info slots[FACT_SLOTS_MAX];
    uint64_t reads; /* FACT_READS_...: kinds of records that earlier versions do not know; 0 of those versions */
    struct fact_door door;
    uint32_t label_count;
    char labels[FACT_NODE_LABELS_MAX][FACT_NODE_LABEL_BYTES]; /* "NAME" or "NAME=VALUE", as its owner has given them */
};

/* One address of a node. */
struct fact_address {
    char text[FACT_ADDRESS_BYTES]; /* numeric HOST:PORT of the control socket; link-local IPv6 without a zone */
    uint32_t prefix;               /* bits of the network's prefix, at most 128; 0: unknown */
    uint32_t speed;                /* of the interface, in Mbit/s, perhaps a guess; at least 1 */
};

/* A node about itself: every address that can make sense to others, best first. Key: empty. The NODE record has the first
 * FACT_ADDRESSES_MAX of them, for older daemons. */
struct fact_addresses {
    uint32_t count;
    struct fact_address items[FACT_ANNOUNCED_MAX];
};

/* A node that the writer found alive and did not reach on some networks. */
struct fact_unreached {
    uint8_t node[6];  /* the first bytes of the node's id */
    uint32_t networks; /* bit i: networks[i]; never 0 */
};

/* A node about itself: of all nodes that it found alive, it reached each on each of these networks that both nodes have, but
 * for the exceptions. Key: empty. A network that is not listed was not tried, or has too many exceptions. */
struct fact_links {
    uint32_t network_count;
    char networks[FACT_NETWORKS_MAX][FACT_NETWORK_BYTES];
    uint32_t unreached_count;
    struct fact_unreached unreached[FACT_UNREACHED_MAX]; /* by node, strictly ascending */
};

/* The public half of an invite token. Key: the invite's CURVE public key (32 bytes). */
struct fact_invite {
    uint64_t expires_s; /* seconds since 1970 */
    bool revoked;
};

/* A token of the HTTP door (docs/http.md), or the end of one. Key: the token's hash, BLAKE2b-256 of its text (32 bytes). As with
 * invites, one member's word that a token is revoked counts whatever others say, for ever. */
struct fact_token {
    uint64_t expires_s; /* seconds since 1970; 0: a revocation by a node that did not know the token */
    bool revoked;
    bool read_only; /* the token opens requests that change nothing */
    uint64_t created_s;
    char name[FACT_NAME_BYTES]; /* what it is for, as its maker said */
};

#define FACT_SECRET_BYTES_MAX 4096      /* of a value */
#define FACT_SECRET_PAD_BYTES 64        /* values are filled up to a multiple, so that records do not tell their lengths */
#define FACT_SECRET_VALUE_BYTES 16      /* the name of a value: BLAKE2b-128 of its key */
#define FACT_SECRET_SEALED_KEY_BYTES 80 /* a key in a box for one node (crypto_box_seal) */
#define FACT_SECRET_COPY_BYTES (NODE_ID_BYTES + FACT_SECRET_SEALED_KEY_BYTES)
#define FACT_SECRET_SEALED_MAX (FACT_SECRET_BYTES_MAX + FACT_SECRET_PAD_BYTES + 16) /* a value as crypto_secretbox makes it */

/* A secret (DESIGN 11): a value under a key of its own, and this key in a box for each of some nodes, which so have a copy. Key: the
 * name, NUL, u8 page: a writer has as many pages as its copies need. A register for each name: the highest lamport counts, of equal
 * ones a removal, then the greater `value`. Whoever has a copy can write further ones, for nodes that have come later. */
struct fact_secret {
    uint64_t lamport; /* at least 1 */
    bool removed;     /* then `value` is zero, and there are neither bytes nor copies */
    uint8_t value[FACT_SECRET_VALUE_BYTES]; /* names the value: records with one `value` hold the same */
    uint64_t set_s;   /* seconds since 1970, when it was set or removed */
    const uint8_t *sealed; /* of the record; 0 bytes: the writer's copies are taken back, since another value counts now */
    uint32_t sealed_bytes;
    const uint8_t *copies; /* [copy_count] of FACT_SECRET_COPY_BYTES: the node's id, then the key in its box */
    uint32_t copy_count;
};

/* How many copies fit into a record beside a value of so many sealed bytes. */
uint32_t fact_secret_copies_max(uint32_t sealed_bytes);

/* The key in a box for this node; NULL: the record has none. */
const uint8_t *fact_secret_copy(const struct fact_secret *fact, node_id node);

#define FACT_HOOK_BYTES 8     /* the id of a webhook: random, or of one in a configuration a hash (webhook_id) */
#define FACT_SUBJECT_BYTES 16 /* names an event for a webhook */
#define FACT_HOST_BYTES 128   /* of an allowed host, with its NUL */
#define FACT_LIVE_MAX 256     /* experiments under way, and nodes away, when a webhook was made */
#define FACT_DELIVERY_BYTES 400 /* a text of a delivery, with its NUL */
#define FACT_HOOK_RANK_NONE UINT32_MAX

/* A webhook of the mesh, or a host of this machine or its network that webhooks may name. Key: the id (FACT_HOOK_BYTES). As with
 * tokens, one member's word that it is removed counts, for ever. */
struct fact_webhook {
    bool removed;
    char host[FACT_HOST_BYTES]; /* an allowed host; "": a webhook */
    const uint8_t *hook;        /* the webhook, a map as in a configuration (config_webhook_read), of the record */
    uint32_t hook_bytes;
    uint64_t created_s;
    uint32_t live_count, away_count;
    const uint8_t *live; /* [live_count] of EXPERIMENT_ID_BYTES: experiments under way then: it is told of these and of later ones */
    const uint8_t *away; /* [away_count] of NODE_ID_BYTES + 8: nodes that were lost then, and the number of that loss */
};

enum fact_hook_event {
    FACT_HOOK_COMPLETED,
    FACT_HOOK_FAILED,
    FACT_HOOK_BEST,
    FACT_HOOK_NODE_LOST,
    FACT_HOOK_LOG_MATCH,
    FACT_HOOK_TEST,
    FACT_HOOK_EVENTS
};

enum fact_delivery_state {
    FACT_DELIVERY_PENDING,  /* of an event that no other record tells of: a line of a log, a test */
    FACT_DELIVERY_RETRYING, /* it has failed so far */
    FACT_DELIVERY_DONE,
    FACT_DELIVERY_GIVEN_UP,
    FACT_DELIVERY_GONE,     /* of the webhook itself: its receiver wants no more (410) */
    FACT_DELIVERY_STATES
};

/* What became of telling a webhook of an event. Key: experiment id (zero: of no experiment), subject. */
struct fact_delivery {
    uint64_t number; /* of events with one subject the later has the greater */
    enum fact_delivery_state state;
    uint32_t tries;
    uint32_t status; /* of HTTP, at the last try; 0: none */
    uint64_t tried_s;
    enum fact_hook_event event;
    uint8_t hook[FACT_HOOK_BYTES];
    uint32_t trial, attempt, rank; /* of LOG_MATCH */
    char text[FACT_DELIVERY_BYTES]; /* of LOG_MATCH the line; of others, after a failure, why */
};

#define FACT_USAGE_ROWS_MAX 40   /* of one record: as many of the longest rows fit into a body */
#define FACT_USAGE_TEXT_BYTES 64 /* of a user or a label, with the NUL */
#define FACT_USAGE_DAYS 35       /* records of days that a node has: the newest ones */
#define FACT_USAGE_MONTHS 60     /* records of months: the newest ones */
#define FACT_USAGE_MS_MAX (UINT64_C(1) << 40) /* of one row: 64 slots take half a year for it */

/* Days and months of UTC, counted from January 1970 on. */
enum fact_usage_span { FACT_USAGE_DAY, FACT_USAGE_MONTH, FACT_USAGE_SPANS };

/* What one user's experiments with one label had of the slots of one model. Rows of a record differ in one of the three texts. */
struct fact_usage_row {
    char user[FACT_USAGE_TEXT_BYTES];  /* "": not known */
    char label[FACT_USAGE_TEXT_BYTES]; /* "": the experiments have none */
    char model[32];                    /* of the slot, as in struct fact_slot_info */
    uint64_t used_ms;                  /* slot-milliseconds for which attempts held slots */
    uint64_t lost_ms; /* of these: behind the last checkpoint of attempts that failed or were lost; at most used_ms */
};

/* An owner about the time of its slots in one day or one month. Each slot-millisecond is in the record of its day and in that of its
 * month: a reader takes days or months, never both. Key: u8 span, u8 place, which is the number modulo FACT_USAGE_DAYS or
 * FACT_USAGE_MONTHS: so a node has a bounded number of such records, and the record of a later day takes the place of an old one.
 * Only the owner counts its slots, each version has all that the one before it had, and the newest counts: a merge adds nothing. No
 * tombstone is about usage. */
struct fact_usage {
    uint32_t number; /* of the day or the month */
    uint32_t row_count;
    struct fact_usage_row rows[FACT_USAGE_ROWS_MAX];
};

/* The month of a day. */
uint32_t fact_usage_month(uint32_t day);

/* The first day of a month. */
uint32_t fact_usage_first_day(uint32_t month);

/* Adds to the row with the same texts. A record that is full takes a new row for the user's row without a label, or for the row
 * without texts, for which there is always room. Sums end at FACT_USAGE_MS_MAX. */
void fact_usage_add(struct fact_usage *fact, const struct fact_usage_row *row);
#define FACT_MODEL_NAME_BYTES 256   /* of a model, a tag or an alias, with the NUL */
#define FACT_MODEL_VALUE_MAX 5000   /* of a description or the value of a tag */
#define FACT_MODEL_SOURCE_BYTES 1024
#define FACT_MODEL_LINK_BYTES 512
#define FACT_MODEL_HASH_BYTES 16    /* of a name, in keys */
#define FACT_VERSION_BYTES 8        /* the id of a version: drawn, never all zeros */
#define FACT_MODEL_NUMBER_MAX 999999 /* that a version can claim */

/* What a record MODEL is about. */
enum fact_model_subject {
    FACT_MODEL_VERSION,     /* a version; one member's word that it is removed counts, for ever */
    FACT_MODEL_EXISTS,      /* the model itself: registered, or removed */
    FACT_MODEL_DESCRIPTION, /* of the model or a version */
    FACT_MODEL_TAG,         /* likewise */
    FACT_MODEL_ALIAS,       /* a name for a version */
    FACT_MODEL_SUBJECTS
};

/* Part of a version: where it comes from. Never changed. */
struct fact_model_source {
    uint64_t created_ms;      /* since 1970 */
    experiment_id experiment; /* the trial whose checkpoint or files it is */
    uint32_t trial;
    uint32_t attempt;
    uint64_t step;
    hash256 blob; /* the checkpoint, of several parts their name (fact_part_name); none: files that the trial's program left */
    char run[33];   /* of MLflow; "": none; so are the others */
    char model[40]; /* the id of a logged model */
    char source[FACT_MODEL_SOURCE_BYTES]; /* as MLflow's client said */
    char path[FACT_MODEL_SOURCE_BYTES];   /* of files: where they lie among the trial's (docs/wire.md, "Outputs"); "": all of them */
    char link[FACT_MODEL_LINK_BYTES];
};

/* The model registry. Key: hash of the model's name, u8 subject, id of a version (zeros: of the model itself), and of a TAG or an
 * ALIAS the hash of its name. A version is written once, by the node that has given it its number, and perhaps removed. All others are
 * registers, in which the highest lamport counts; of equal (concurrent) ones a value that is set, an alias of the greater number, then
 * the greater writer's. */
struct fact_model {
    uint64_t lamport; /* of a VERSION 0, else at least 1 */
    bool removed;     /* the version is removed, or the value taken back */
    char name[FACT_MODEL_NAME_BYTES];  /* of the model */
    char field[FACT_MODEL_NAME_BYTES]; /* TAG, ALIAS: its name; else "" */
    uint64_t number; /* VERSION: which it claims (view_model_version_number); ALIAS: the one that its version claims; EXISTS: when it was
                      * registered, milliseconds since 1970; else 0 */
    uint8_t target[FACT_VERSION_BYTES]; /* ALIAS: the version; else zeros */
    const char *value; /* DESCRIPTION, TAG: a text of the record, without a NUL; else empty */
    uint32_t value_bytes;
    struct fact_model_source source; /* VERSION; else zeros */
};

/* An owner about one of its slots. Key: u8 slot index. */
struct fact_slot {
    uint32_t state; /* enum lease_state; RESERVED is never published */
    attempt_id attempt;
    uint32_t rank;          /* the worker's number in its attempt: 0 ... UINT16_MAX */
    uint8_t token_hash[16]; /* BLAKE2b-128 of the lease's token; zero when not leased */
    bool withheld;          /* the owner takes the slot back: its worker has been asked to leave */
    uint64_t withheld_s;    /* seconds from the request or the owner's restart on; 0: until the owner returns it */
    uint64_t since_s;       /* since when the slot is as the record says, in seconds since 1970 by the owner's clock, for display
                             * only; of a slot that is withheld anew from the new request on. 0: a free slot, and records of older versions */
};

/* A submitted experiment. Key: experiment id. */
struct fact_experiment {
    uint64_t submitted_s; /* seconds since 1970 by the submitting node: for order and display only */
    hash256 code;         /* blob: the packed context directory */
    uint64_t code_bytes;
    /* Blob: the YAML file as submitted; of EXPERIMENT_LARGE the whole configuration and the file (config_blob_read). */
    hash256 config_text;
    /* Packed struct config (node/core/facts/config.h), in the record's body: in plain form, of EXPERIMENT_LARGE in lean form. */
    const uint8_t *config;
    uint32_t config_bytes;
    uint32_t trial_count; /* EXPERIMENT_LARGE only: 1 ... SEARCH_TRIALS_MAX; else 0, and it follows from the configuration */
};

/* Pause, resume and cancel. Key: experiment id; one per writer. Pause and resume are a register: the highest lamport counts,
 * and of equal (concurrent) ones a pause. A cancel is final. It is a record of its own, under fact_key_cancel and without a
 * clock: so a writer on an old disk that has forgotten the cancel cannot replace it with a newer pause or resume. */
struct fact_control {
    uint64_t lamport; /* clock of the register; 0: this writer has never paused or resumed */
    bool paused;
    bool cancelled; /* together with a clock only in records of versions before fact_key_cancel */
    bool waived;    /* a user has resumed the experiment since one of depends_on ended without being completed: it is not waited for */
};

/* The stop or the retry of one trial. Key: experiment id, u32 trial; one per writer. A register: the highest lamport counts, and
 * of equal (concurrent) ones a stop. A trial that is stopped begins no more until a later value retries it. After a retry only
 * attempts count as failures that were made with knowledge of it (`retried` of struct fact_attempt). */
struct fact_stop {
    uint64_t lamport; /* at least 1 */
    bool stopped; /* false: a retry */
    uint32_t since; /* the highest number of an attempt that the writer knew; 0: none. A retry takes back the stops
                     * of a search up to it (struct fact_search_stop). Versions without FACT_READS_RETRY count failures behind it */
    bool overran; /* stopped, since the trial has run for its max_runtime */
};

/* The first validation report of an attempt at or beyond the length of a rung (train/search/asha.h). Key: attempt key, coordinator id,
 * u8 rung; the writer is the owner of rank 0. Never changed: the first report counts. */
struct fact_result {
    uint64_t step;
    uint64_t length; /* how far the trial was by then, in the unit of the rungs, cut to a whole number */
    double metric;   /* searcher.metric; may be NaN or infinite */
    uint64_t draw;   /* fact_draw_mark of the values that the worker trained with; 0: they follow from the trial's number, or a version
                      * before this field has written the record */
};

/* What a search decides of a trial at a rung. */
enum fact_decision {
    FACT_GOES_ON,
    FACT_STOPS,   /* others were better */
    FACT_TOPS_OUT, /* the trial has reached the last rung, and so its whole length */
    /* Of a search that promotes (train/search/promotion.h, enum search_word). The last three are about no result of their own. */
    FACT_PAUSES,   /* others are better so far */
    FACT_PROMOTES, /* the paused trial goes on */
    FACT_CLOSES,   /* the paused trial goes on no more */
    FACT_ENDS      /* the trial is over, with no result at its next rung */
};

/* The name of a log: random, so that no two are the same, whatever disk a node begins with. */
struct fact_log_name {
    uint8_t bytes[8];
};

/* The records of another log below `until` are a part of this one, from here on: those of their decisions that this log has not. */
struct fact_adopted {
    node_id writer;
    struct fact_log_name log;
    uint32_t until;
};

/* A decision and its cause. */
struct fact_judged {
    attempt_id attempt; /* of the result; of PROMOTES and CLOSES, of the result by which the trial was paused; of ENDS the trial's highest,
                         * number 0 and no coordinator if it had none */
    uint32_t rung;      /* below FACT_RUNGS_MAX */
    enum fact_decision decision;
    uint64_t step, length; /* as in the result; 0 of ENDS. ENDS of the searcher custom: the last step, and enum fact_end */
    double metric;         /* NaN of ENDS; of the searcher custom the last one, if any */
};

/* How a trial of the searcher custom has ended. */
enum fact_end { FACT_END_COMPLETED, FACT_END_FAILED, FACT_END_STOPPED };

/* The values of a trial whose searcher draws them from what other trials have reached (config_is_drawn): one number for each parameter
 * of the search space, as of search_trial_point. */
struct fact_draw {
    uint32_t count; /* 0: none; the values follow from the number of the trial */
    uint32_t parent; /* the trial from whose checkpoint this one begins; FACT_NO_TRIAL: none */
    double point[FACT_POINT_MAX];
};

/* A hash of a draw, never 0; 0 of none (count 0). An old disk may use the id of an attempt again, with other values: the hash tells them
 * apart. */
uint64_t fact_draw_mark(uint32_t count, const double *point, uint32_t parent);

/* What a coordinator writes into its log before it begins an attempt: with which values. */
struct fact_created {
    attempt_id attempt;
    bool is_drawn; /* the values were drawn here, from what stands before in the log; false: they are those of an earlier attempt */
    struct fact_draw draw; /* count: at least 1 */
};

/* What the program of a search has answered to an event. The event is the first decision of the record (a report of a trial, or its end);
 * without one it is the begin of the search, or the program had more to say. */
struct fact_answer {
    bool is_start;   /* the event is the begin of the search */
    bool has_more;   /* the program has more to say: its next event comes before all others */
    bool finishes;   /* no trial is created any more */
    uint32_t create_count, stop_count; /* at most FACT_ACTIONS_MAX */
    /* Read with fact_answer_creates and fact_answer_stops; borrowed from the record. */
    const uint8_t *creates, *stops;
    uint32_t creates_bytes, stops_bytes;
};

/* Walks over the actions of an answer that was read. False: no action is left. A stop is of the attempts of the trial up to `number`. */
struct fact_actions {
    struct pack_reader reader;
    uint32_t left;
};
struct fact_actions fact_answer_creates(const struct fact_answer *answer);
bool fact_actions_create(struct fact_actions *actions, uint32_t *trial, struct fact_draw *draw);
struct fact_actions fact_answer_stops(const struct fact_answer *answer);
bool fact_actions_stop(struct fact_actions *actions, uint32_t *trial, uint32_t *number);

/* The same as bytes, for the fields `creates` and `stops`. */
void fact_create_pack(struct pack_writer *writer, uint32_t trial, const struct fact_draw *draw);
void fact_stopped_pack(struct pack_writer *writer, uint32_t trial, uint32_t number);

/* A coordinator about the program that decides in a search (searcher.name custom). Key: experiment id; one per writer. */
struct fact_searcher {
    uint64_t starts;   /* how often this writer has started the program */
    uint64_t failures; /* how often in a row it has failed */
    bool is_given_up;  /* it is not started any more, until the experiment is paused and resumed */
    bool differs;      /* in a replay it has answered otherwise than before */
    char text[FACT_SEARCHER_BYTES]; /* what was last wrong, the end of a sentence; "": nothing */
};

/* One record of a search's log. Key: experiment id, the log's name, u32 number. A coordinator begins a log with its first decision
 * since it began to lead. The adopted prefixes come first, then what is created, then the decisions. */
struct fact_search_log {
    uint64_t term, boot; /* of the writer when the log began; those of record 0 count */
    uint32_t adopted_count;
    struct fact_adopted adopted[FACT_ADOPTED_MAX];
    uint32_t judged_count;
    struct fact_judged judged[FACT_JUDGED_MAX]; /* all of the key's experiment */
    bool has_created; /* always false of searchers that do not draw from results */
    struct fact_created created; /* of the key's experiment */
    bool has_answer; /* of the searcher custom: judged_count is at most 1 */
    struct fact_answer answer;
};

/* The search has stopped the trial. Key: experiment id, u32 trial; one per writer, a coordinator that has decided so in its log. A
 * trial that is stopped begins no more, unless a user retries it. */
struct fact_search_stop {
    uint32_t number; /* the highest number of an attempt that the writer knew: a later retry takes the stop back */
    uint32_t rung;
    bool is_top; /* FACT_TOPS_OUT */
    node_id writer; /* of the log with the decision */
    struct fact_log_name log;
    uint32_t record;
};

/* The search has paused the trial: the named attempt, and all of the trial before it in attempt order, save and leave. Key: experiment id,
 * u32 trial; one per writer, a coordinator whose log says so. Nothing takes a pause back: a promoted trial gets a higher attempt. */
struct fact_search_pause {
    uint32_t number; /* of the attempt: at least 1 */
    uint64_t term;
    node_id coordinator;
    uint32_t rung; /* where the trial is paused; with the following as in struct fact_search_stop */
    node_id writer;
    struct fact_log_name log;
    uint32_t record;
};

#define FACT_LABEL_BYTES 64 /* the name of a label, with its NUL */
#define FACT_NOTE_BYTES 256 /* what is noted, with its NUL */

/* What an annotation is about. Readers pass over subjects of later versions. */
enum fact_subject {
    FACT_LABEL,       /* a label: it has a name, and may have a value */
    FACT_DESCRIPTION, /* takes the place of the configuration's description */
    FACT_ARCHIVED,    /* lists leave the experiment out unless it is asked for */
    FACT_PINNED,      /* the experiment is not deleted, and all of its checkpoints are kept */
    FACT_PRIORITY,    /* takes the place of resources.priority: a number in decimal digits */
    FACT_MAX_TRIALS,  /* the search has so many trials: the key's name is a number in decimal digits, and the greatest one of all counts.
                       * As a part of the key no writer can replace it by a smaller one, not even on an old disk */
    FACT_MAX_SLOTS,   /* takes the place of resources.max_slots: a number in decimal digits */
    FACT_TRIAL_DESCRIPTION, /* what is noted about one trial: the key's name is its number in decimal digits */
    FACT_SUBJECTS
};

/* A note about an experiment. Key: experiment id, u8 subject, the name of a label, a number of trials or a trial's; one per writer. Each (subject, name) is a
 * register: the highest lamport counts, and of equal (concurrent) ones a value that is set, of several the greatest writer's. */
struct fact_annotation {
    uint64_t lamport; /* at least 1 */
    bool is_set;      /* false: taken back; a label of the configuration, too. Trials of a search are never taken back */
    char value[FACT_NOTE_BYTES]; /* LABEL, DESCRIPTION, PRIORITY, MAX_SLOTS, TRIAL_DESCRIPTION */
};

/* Drain and undrain. Key: the drained node's id; one per writer. A register: the highest lamport counts, and of equal
 * (concurrent) ones a drain. */
struct fact_drain {
    uint64_t lamport; /* at least 1 */
    bool drained;
    bool at_once; /* the workers of the node are asked to leave, too */
    bool is_idle; /* no worker runs there any more; counts only in the record of the drained node itself */
};

/* A claim to coordinate. Key: experiment id; one per writer. */
struct fact_claim {
    uint64_t term;
    bool released; /* the claim is given up: handed over, or the node leaves */
};

/* Where one rank of an attempt runs at first. */
struct fact_assignment {
    node_id node;
    uint32_t slot;
};

/* Files with which an attempt begins. */
struct fact_beginning {
    uint32_t number; /* of the worker that left them, in its attempt */
    hash256 blob;
    uint64_t bytes;
};

/* A trial assigned to slots. Key: experiment id, u32 trial, u32 number, u64 term. The writer is the attempt's coordinator.
 * Ranks are positions in `members`. */
struct fact_attempt {
    uint32_t member_count; /* 1 ... FACT_MEMBERS_MAX */
    struct fact_assignment members[FACT_MEMBERS_MAX];
    uint64_t start_step;      /* step of the checkpoint that the attempt starts from; 0: from nothing */
    hash256 checkpoint;       /* blob; none: from nothing */
    uint64_t checkpoint_bytes;
    char network[FACT_NETWORK_BYTES]; /* on which all members reached one another: their hosts are addresses in this network.
                                       * Empty: there is one member node, or a member of a version before networks */
    uint32_t beginning_count; /* at most FACT_OUTPUTS_MAX */
    struct fact_beginning beginnings[FACT_OUTPUTS_MAX]; /* every rank finds the files of all of them; 0 in older records */
    uint64_t retried; /* lamport of the retry of the trial that the coordinator knew of; 0: none */
    struct fact_draw draw;
};

/* A worker of a group that has changed. Its number names it for the whole attempt: for the workers that the attempt began
 * with the number is the first rank, and each joiner gets the next number that was never used. */
struct fact_place {
    node_id node;
    uint32_t slot;
    uint32_t number;
    bool has_state; /* in a member: it has applied all steps up to the start step, and gives the state to members without */
};

/* The group of an attempt after a change. Key: attempt key, coordinator id; one per writer, the present coordinator. The record
 * with the highest (generation, term, writer) counts: of two sides of a partition only one can make generations, and those of a
 * coordinator that no owner obeys any more are overtaken. Generation 1 is the attempt's own record. Ranks are positions in
 * `members`. */
struct fact_generation {
    uint32_t generation; /* at least 2; 1 in a record that only adds joiners to the first group, or tells it to leave */
    uint64_t term;       /* of the writer's claim */
    uint64_t start_step; /* steps applied when the group begins; 0 in generation 1 */
    bool is_leaving;     /* the members are to leave the group at the end of a step that they agree upon */
    uint32_t member_count; /* at least 1; with the joiners at most FACT_MEMBERS_MAX in GENERATION_LARGE */
    struct fact_place members[FACT_MEMBERS_MAX];
    uint32_t joiner_count; /* workers that have their slots already, and become members with a later generation */
    struct fact_place joiners[FACT_MEMBERS_MAX];
};

enum fact_worker_state { FACT_WORKER_PREPARED, FACT_WORKER_RUNNING, FACT_WORKER_ENDED };

/* Why a worker or an attempt ended. Of concurrent verdicts on an attempt the lowest wins. */
enum fact_reason {
    FACT_COMPLETED,  /* every rank ended with status 0, without having been asked to stop */
    FACT_FAILED,     /* the program failed by itself: counts against max_restarts */
    FACT_STOPPED,    /* asked to stop: pause, cancel, preemption, leave */
    FACT_LOST,       /* the node or the daemon died, the lease ran out, or the group never became complete */
    FACT_REASONS
};

/* What a running worker has lacked for a while, as its owner sees it. A worker is active again at once with any of them. */
enum fact_stall {
    FACT_ACTIVE,
    FACT_SILENT,       /* no output and no progress; processor time is used */
    FACT_IDLE,         /* no output, no progress and no processor time */
    FACT_SUSPENDED,    /* a process of the program is stopped (state T) */
    FACT_STALLS
};

/* What the owner knows of how a worker ended, beyond its status. */
enum fact_cause {
    FACT_CAUSE_UNKNOWN,
    FACT_CAUSE_MEMORY_LIMIT, /* killed by the kernel: its control group had reached its memory limit */
    FACT_CAUSE_MEMORY,       /* killed by the kernel: the machine had no memory left */
    FACT_CAUSE_GPU_MEMORY,   /* by its last lines CUDA was out of memory */
    FACT_CAUSE_TRACEBACK,    /* ended with status 0, but its last lines are a Python traceback */
    FACT_CAUSES
};

/* An owner about a worker in one of its slots. Key: attempt key, coordinator id, u16 number (struct fact_place). */
struct fact_worker {
    enum fact_worker_state state;
    char host[FACT_ADDRESS_BYTES]; /* of the data socket and, for rank 0, of MASTER_PORT */
    uint32_t master_port;
    uint32_t data_port; /* 0: the worker does not listen (yet) */
    uint32_t generation;     /* of the group that the worker is in, or was in last; 0: none yet */
    uint64_t step;
    enum fact_reason reason; /* ENDED */
    int32_t exit_code;       /* ENDED: status, or minus the signal */
    uint64_t started_s;      /* seconds since 1970, for display; 0: not started */
    const uint8_t *metrics;  /* rank 0: packed map group -> name -> number, the latest values; in the record's body */
    uint32_t metrics_bytes;
    char tail[FACT_TAIL_BYTES]; /* ENDED: if FAILED the last lines of the log, if LOST and never started the reason */
    bool is_elastic;            /* the program can leave a group and enter the next one */
    bool waits;                 /* RUNNING: the worker is in no group, and listens for the next group */
    bool has_state;             /* waits: the worker has the training's state in memory */
    uint64_t applied_step;      /* has_state: steps applied to that state */
    enum fact_stall stall;      /* RUNNING */
    uint64_t stall_s;           /* stall: seconds since 1970 when it began, for display */
    bool is_overdue;            /* stall: it has lasted for the experiment's stall_timeout */
    bool is_past_barrier;       /* stall: no output and no progress for the experiment's exit_barrier */
    uint64_t ended_s;           /* ENDED: seconds since 1970, for display; 0: not known */
    enum fact_cause cause;      /* ENDED */
    uint64_t failure; /* ENDED, FAILED within CORE_QUICK_MS of the start and before a first step: a hash of status and last line,
                         without the digits in it, so that two tries can be compared; 0: not such a failure */
    uint64_t error_ms; /* ENDED, FAILED: milliseconds since 1970 when the program met its error, as its error.json says by the
                          host's clock; 0: it does not */
    uint64_t ran_s; /* rank 0, of an experiment with max_runtime: for how long the trial has run, with earlier attempts (owner/runtime.h) */
};

/* The end of an attempt. Key: attempt key, coordinator id; one per deciding coordinator. */
struct fact_verdict {
    enum fact_reason reason;
    uint64_t step;
    const uint8_t *metrics; /* of rank 0 at the end, packed as in struct fact_worker; in the record's body */
    uint32_t metrics_bytes;
    uint64_t duration_s;    /* from the assignment on; 0: the attempt never ran, or another coordinator has started it */
    char why[128];          /* one sentence, for users */
    bool is_hung;           /* FAILED: no worker failed, but one hangs; the owners write its stacks into its log */
};

/* The death of an attempt's host. Key: attempt key, coordinator id; one per deciding coordinator, written beside a verdict
 * FACT_LOST. `node` fell silent, no other node with it, within a minute of the worker's start. The record is void if by the
 * worker's own record the worker ended in `boot`: then the host was only cut off. */
struct fact_death {
    node_id node;
    uint64_t boot;     /* the node's boot when the worker ran */
    uint64_t lived_ms; /* from the start to the last message of the node */
    uint32_t suspects; /* other trials that had just begun on the node and had lost a host before */
};

#define FACT_QUARANTINE_LEVEL_MAX 7 /* level 1: 1 minute, doubled by each further level up to 60 */

/* A node about itself: no new work, since too many trials fail there. Key: empty. */
struct fact_quarantine {
    bool is_active;
    uint32_t level;   /* quarantines in a row; 0: a trial has ended well since the last one */
    uint32_t minutes; /* how long this quarantine lasts; it begins anew when the daemon restarts */
    char why[128];    /* one sentence, for users */
};

#define FACT_HOURS_MAX 8
#define FACT_DAY_MINUTES 1440
#define FACT_BACK_AFTER_S_MAX (7u * 86400)

/* A time of the day, by the node's clock and time zone, in minutes since midnight. `until` below or equal to `from`: of the next
 * day; 0 is midnight. */
struct fact_hours {
    uint32_t days; /* on which it begins: bit 0 Monday ... bit 6 Sunday; never 0 */
    uint32_t from, until; /* 0 ... FACT_DAY_MINUTES - 1 */
};

/* Why the slots of a machine are its owner's. */
enum fact_policy_why { FACT_POLICY_NONE, FACT_POLICY_HOURS, FACT_POLICY_ACTIVITY, FACT_POLICY_LOAD };

/* A node about itself: the reasons for which it takes its slots back by itself, and whether one of them holds now. Key: empty. */
struct fact_policy {
    uint32_t hours_count;
    struct fact_hours hours[FACT_HOURS_MAX];
    uint32_t load_percent;  /* of all processors, which the other processes of the machine use; 1 ... 100; 0: no reason */
    bool activity;          /* somebody uses the keyboard, the mouse or a terminal */
    uint32_t back_after_s;  /* the slots return so long after the last load or activity */
    enum fact_policy_why why;
    uint64_t since_s;       /* since when, in seconds since 1970 by the node's clock, for display only; 0 without a reason */
    uint64_t until_s;       /* HOURS: until when; 0: not known */
    uint64_t slots;         /* bit i: the policy has taken slot i back, and nobody else */
};

#define FACT_PROGRAM_BYTES 64 /* a program's name */
#define FACT_PROGRAM_VERSION_BYTES 32
#define FACT_PROGRAMS_MAX 24

/* A program that a node has looked for. */
struct fact_program {
    char name[FACT_PROGRAM_BYTES]; /* as an entrypoint names it (node/core/facts/program.h): "python3", "/opt/x/bin/python" */
    bool is_there;
    char version[FACT_PROGRAM_VERSION_BYTES]; /* of the Python that it is or, a script, that runs it: "3.11.2"; "": unknown */
    char torch[FACT_PROGRAM_VERSION_BYTES];   /* of the PyTorch that this Python finds; "": none, or unknown */
};

/* A node about itself. Key: empty. */
struct fact_programs {
    uint32_t count;
    struct fact_program items[FACT_PROGRAMS_MAX]; /* by name, ascending, each name once */
};

/* A checkpoint. Key: attempt key, coordinator id, u64 step. The writer is the node that has stored the checkpoint first, or
 * a node that has copied it since. Without holders: the checkpoint is not kept any more (node/core/view/retention.h). */
struct fact_manifest {
    hash256 blob;
    uint64_t bytes;
    uint32_t holder_count;
    node_id holders[FACT_HOLDERS_MAX];
    bool durable; /* there are as many confirmed holders as the experiment asks for */
    bool has_metric;
    double metric; /* the searcher's metric, as last reported before the save; finite */
};

/* Which part of which checkpoint a record of PART is about: a part of its key. The records with one attempt, step, save and count
 * are those of one checkpoint, a set. */
struct fact_part_key {
    uint64_t step;
    uint64_t save;  /* tells the saves of an attempt apart: a number that all ranks agree on and that no other save has */
    uint32_t count; /* parts of the checkpoint: 1 ... FACT_PARTS_MAX */
    uint32_t part;  /* below count */
};

/* One part of a checkpoint that several ranks have saved together: its body is a struct fact_manifest. Key: attempt key, coordinator id,
 * u64 step, u64 save, u16 count, u16 part. The writer is the node that has stored the part first, or a node that has copied it since.
 * A checkpoint counts while every part has a holder, and is durable when every part is. */

#define FACT_SAVED_NAME_BYTES 64

/* The files that a worker has left so far (store/snapshot.h). Key: attempt key, coordinator id, u16 number, u8 place; the places
 * 0 and 1 in turn, so that an output without enough copies never replaces the last one that has them; 2 for the worker's last
 * output. The writer is the worker's node, or a node that has copied the output since. */
struct fact_output {
    struct fact_saved {
        char name[FACT_SAVED_NAME_BYTES]; /* in $SHOAL_CHECKPOINT_DIR, printable (base/visible.h); "": no checkpoint, or an older
                                             version wrote the record */
        uint64_t bytes;
        uint64_t step; /* which the worker had reported when the checkpoint was first seen; 0: none */
    } saved; /* the checkpoint among the files, for display */
    hash256 blob;
    uint64_t bytes;
    uint64_t files;
    uint32_t generation; /* of the attempt's group */
    uint64_t sequence;   /* at least 1; rises over all workers of the attempt */
    uint64_t after;      /* with keep_ranks all: the newest sequence of rank 0 that was known before these files were looked at;
                          * UINT64_MAX: the worker had ended */
    bool is_final;       /* the worker had ended */
    bool durable;        /* there are as many confirmed holders as the experiment asks for */
    uint32_t holder_count;
    node_id holders[FACT_HOLDERS_MAX];
};

/* An eviction. Key: the evicted node's id, not the writer's own. The evicted node's vouchers for the listed nodes stand, its
 * other vouchers are void. If the list is too short for all, the writer vouches for the remaining nodes itself. */
struct fact_eviction {
    uint32_t standing_count;
    node_id standing[FACT_STANDING_MAX]; /* strictly ascending */
};

/* A tombstone deletes an experiment. It has no struct: key: experiment id; one per writer; the body is an empty array. */

/* ---- keys --------------------------------------------------------------------------------------------------------------- */

/* The key of a record. Beside each function the kinds that have this key. */
struct fact_key {
    uint8_t bytes[RECORD_KEY_BYTES_MAX];
    uint8_t count;
};
struct fact_key fact_key_node_id(node_id node); /* MEMBER, EVICTION, DRAIN: the node that the record is about */
struct fact_key fact_key_empty(void); /* NODE, QUARANTINE, ADDRESSES, LINKS, PROGRAMS */
struct fact_key fact_key_public_key(const uint8_t key[PUBLIC_KEY_BYTES]); /* INVITE; TOKEN: of the hash */
struct fact_key fact_key_slot(uint32_t slot); /* SLOT; slot < FACT_SLOTS_MAX */
struct fact_key fact_key_experiment(experiment_id experiment); /* EXPERIMENT, EXPERIMENT_LARGE, CONTROL (pause), CLAIM,
                                                                 TOMBSTONE */
struct fact_key fact_key_cancel(experiment_id experiment); /* CONTROL, of a cancel: {.cancelled = true} */
struct fact_key fact_key_attempt(const attempt_id *attempt); /* ATTEMPT, ATTEMPT_LARGE; the coordinator is the writer, not in the key */
struct fact_key fact_key_worker(const attempt_id *attempt, uint32_t number); /* WORKER; number <= UINT16_MAX */
struct fact_key fact_key_verdict(const attempt_id *attempt); /* VERDICT, DEATH, GENERATION, GENERATION_LARGE */
struct fact_key fact_key_manifest(const attempt_id *attempt, uint64_t step); /* MANIFEST */
struct fact_key fact_key_part(const attempt_id *attempt, const struct fact_part_key *key); /* PART */
struct fact_key fact_key_output(const attempt_id *attempt, uint32_t number, uint32_t place); /* OUTPUT; place < 3 */

/* ANNOTATION; `name`: of a label, 1 ... FACT_LABEL_BYTES - 1 bytes; of MAX_TRIALS the number, without leading zeros; else "". */
struct fact_key fact_key_annotation(experiment_id experiment, enum fact_subject subject, const char *name);

struct fact_key fact_key_result(const attempt_id *attempt, uint32_t rung); /* RESULT; rung < FACT_RUNGS_MAX */
struct fact_key fact_key_search_log(experiment_id experiment, struct fact_log_name log, uint32_t number); /* SEARCH_LOG */

struct fact_key fact_key_secret(const char *name, uint32_t page); /* SECRET; the name is shorter than FACT_NAME_BYTES */

struct fact_key fact_key_usage(enum fact_usage_span span, uint32_t number); /* USAGE */

struct fact_key fact_key_webhook(const uint8_t id[FACT_HOOK_BYTES]); /* WEBHOOK */
struct fact_key fact_key_delivery(experiment_id experiment, const uint8_t subject[FACT_SUBJECT_BYTES]); /* DELIVERY */

/* MODEL; `field`: of TAG and ALIAS its name, else "". */
struct fact_key fact_key_model(const char *name, enum fact_model_subject subject, const uint8_t version[FACT_VERSION_BYTES],
                               const char *field);

/* STOP, SEARCH_STOP, SEARCH_PAUSE; also the key by which rendezvous hashing ranks the nodes for a trial's checkpoints, series and the like. */
struct fact_key fact_key_trial(experiment_id experiment, uint32_t trial);

/* Reads a part of a record's key. 0, or ERR_MALFORMED: the key has another length or a value out of bounds; `*out` is then
 * of no use. Beside each function the kinds that have this part. */
int fact_key_read_node(const struct record *record, node_id *out);       /* MEMBER, EVICTION, DRAIN */
int fact_key_read_experiment(const struct record *record, experiment_id *out); /* TOMBSTONE and every kind of an experiment */
int fact_key_read_trial(const struct record *record, experiment_id *experiment, uint32_t *trial); /* STOP, SEARCH_... */
/* ANNOTATION: experiment and subject, which may be of a later version; the bytes behind them are a label's name or a number. */
/* Reads the trial of a TRIAL_DESCRIPTION. ERR_MALFORMED. */
int fact_key_read_described(const struct record *record, uint32_t *trial);
int fact_key_read_annotation(const struct record *record, experiment_id *experiment, uint32_t *subject);
int fact_key_read_max_trials(const struct record *record, uint32_t *out); /* ANNOTATION, MAX_TRIALS: 1 ... SEARCH_TRIALS_MAX */
int fact_key_read_attempt(const struct record *record, attempt_id *out); /* ATTEMPT ... MANIFEST, DEATH, GENERATION, OUTPUT, RESULT, PART */
int fact_key_read_number(const struct record *record, uint32_t *out);    /* WORKER, OUTPUT */
int fact_key_read_place(const struct record *record, uint32_t *out);     /* OUTPUT: below FACT_OUTPUT_PLACES */
int fact_key_read_step(const struct record *record, uint64_t *out);      /* MANIFEST */
hash256 fact_part_name(const attempt_id *attempt, const struct fact_part_key *key); /* of all parts together: view_find_set */
int fact_key_read_part(const struct record *record, struct fact_part_key *out); /* PART */
int fact_key_read_usage(const struct record *record, enum fact_usage_span *span, uint32_t *place); /* USAGE */
int fact_key_read_rung(const struct record *record, uint32_t *out);      /* RESULT: below FACT_RUNGS_MAX */
int fact_key_read_log(const struct record *record, struct fact_log_name *log, uint32_t *number); /* SEARCH_LOG */
int fact_key_read_slot(const struct record *record, uint32_t *out);      /* SLOT */
int fact_key_read_secret(const struct record *record, char name[FACT_NAME_BYTES], uint32_t *page); /* SECRET */

/* MODEL: the subject, which may be of a later version, and the version's id. */
int fact_key_read_model(const struct record *record, uint32_t *subject, uint8_t version[FACT_VERSION_BYTES]);

/* Whether users may call a model or an alias so: text of at most 255 bytes that MLflow's addresses (models:/NAME/VERSION,
 * models:/NAME@ALIAS) can hold. An alias has letters, digits, _ and - only, and is neither `latest` nor like v1. */
bool fact_model_name_is_good(const char *name);
bool fact_model_alias_is_good(const char *alias);

/* True if the record is deleted along with its experiment (FACT_KINDS) and its key names one; `*out` is then the experiment. */
bool fact_is_of_experiment(const struct record *record, experiment_id *out);

/* ---- names -------------------------------------------------------------------------------------------------------------- */

/* The word of FACT_KINDS, as in event lines; "unknown" for a kind of another version. */
const char *fact_kind_name(uint16_t kind);

/* "completed", "failed", "stopped" or "lost". */
const char *fact_reason_name(enum fact_reason reason);

/* The node id of a public key, and the mesh id of a founder (both BLAKE2b-128). */
node_id node_id_of_key(const uint8_t public_key[PUBLIC_KEY_BYTES]);
mesh_id mesh_id_of_founder(const uint8_t public_key[PUBLIC_KEY_BYTES], const uint8_t nonce[16]);

/* ---- bodies ------------------------------------------------------------------------------------------------------------- */

/* Packs the body of a record. writer->failed is set if it does not fit. */
void fact_member_pack(struct pack_writer *writer, const struct fact_member *fact);
void fact_node_pack(struct pack_writer *writer, const struct fact_node *fact);
void fact_invite_pack(struct pack_writer *writer, const struct fact_invite *fact);
void fact_token_pack(struct pack_writer *writer, const struct fact_token *fact);
void fact_secret_pack(struct pack_writer *writer, const struct fact_secret *fact);
void fact_webhook_pack(struct pack_writer *writer, const struct fact_webhook *fact);
void fact_delivery_pack(struct pack_writer *writer, const struct fact_delivery *fact);
void fact_usage_pack(struct pack_writer *writer, const struct fact_usage *fact);
void fact_model_pack(struct pack_writer *writer, const struct fact_model *fact);
void fact_slot_pack(struct pack_writer *writer, const struct fact_slot *fact);
void fact_experiment_pack(struct pack_writer *writer, const struct fact_experiment *fact);
void fact_experiment_large_pack(struct pack_writer *writer, const struct fact_experiment *fact);
void fact_control_pack(struct pack_writer *writer, const struct fact_control *fact);
void fact_stop_pack(struct pack_writer *writer, const struct fact_stop *fact);
void fact_result_pack(struct pack_writer *writer, const struct fact_result *fact);
void fact_search_log_pack(struct pack_writer *writer, const struct fact_search_log *fact);
void fact_search_stop_pack(struct pack_writer *writer, const struct fact_search_stop *fact);
void fact_searcher_pack(struct pack_writer *writer, const struct fact_searcher *fact);
void fact_search_pause_pack(struct pack_writer *writer, const struct fact_search_pause *fact);
void fact_annotation_pack(struct pack_writer *writer, const struct fact_annotation *fact);
void fact_claim_pack(struct pack_writer *writer, const struct fact_claim *fact);
void fact_attempt_pack(struct pack_writer *writer, const struct fact_attempt *fact);
void fact_attempt_large_pack(struct pack_writer *writer, const struct fact_attempt *fact);
void fact_worker_pack(struct pack_writer *writer, const struct fact_worker *fact);
void fact_verdict_pack(struct pack_writer *writer, const struct fact_verdict *fact);
void fact_manifest_pack(struct pack_writer *writer, const struct fact_manifest *fact);
void fact_part_pack(struct pack_writer *writer, const struct fact_manifest *fact);
void fact_output_pack(struct pack_writer *writer, const struct fact_output *fact);
void fact_eviction_pack(struct pack_writer *writer, const struct fact_eviction *fact);
void fact_drain_pack(struct pack_writer *writer, const struct fact_drain *fact);
void fact_death_pack(struct pack_writer *writer, const struct fact_death *fact);
void fact_generation_pack(struct pack_writer *writer, const struct fact_generation *fact);
void fact_generation_large_pack(struct pack_writer *writer, const struct fact_generation *fact);
void fact_quarantine_pack(struct pack_writer *writer, const struct fact_quarantine *fact);
void fact_addresses_pack(struct pack_writer *writer, const struct fact_addresses *fact);
void fact_links_pack(struct pack_writer *writer, const struct fact_links *fact);
void fact_policy_pack(struct pack_writer *writer, const struct fact_policy *fact);
void fact_programs_pack(struct pack_writer *writer, const struct fact_programs *fact);
void fact_tombstone_pack(struct pack_writer *writer);

/* Decodes the body of a record of this kind, and checks the key where the kind has one that nothing else reads. 0, or
 * ERR_MALFORMED: `*out` is then of no use. Pointers in `*out` point into the record, and are valid as long as its bytes. */
int fact_member_read(const struct record *record, struct fact_member *out);
int fact_node_read(const struct record *record, struct fact_node *out);
int fact_invite_read(const struct record *record, struct fact_invite *out);
int fact_token_read(const struct record *record, struct fact_token *out);
int fact_secret_read(const struct record *record, struct fact_secret *out);
int fact_webhook_read(const struct record *record, struct fact_webhook *out);
int fact_delivery_read(const struct record *record, struct fact_delivery *out);
int fact_usage_read(const struct record *record, struct fact_usage *out);
int fact_model_read(const struct record *record, struct fact_model *out);
int fact_slot_read(const struct record *record, struct fact_slot *out);
int fact_experiment_read(const struct record *record, struct fact_experiment *out);
int fact_experiment_large_read(const struct record *record, struct fact_experiment *out);
int fact_control_read(const struct record *record, struct fact_control *out);
int fact_stop_read(const struct record *record, struct fact_stop *out);
int fact_result_read(const struct record *record, struct fact_result *out);
int fact_search_log_read(const struct record *record, struct fact_search_log *out);
int fact_search_stop_read(const struct record *record, struct fact_search_stop *out);
int fact_searcher_read(const struct record *record, struct fact_searcher *out);
int fact_search_pause_read(const struct record *record, struct fact_search_pause *out);
int fact_annotation_read(const struct record *record, struct fact_annotation *out);
int fact_claim_read(const struct record *record, struct fact_claim *out);
int fact_attempt_read(const struct record *record, struct fact_attempt *out);
int fact_attempt_large_read(const struct record *record, struct fact_attempt *out);
int fact_worker_read(const struct record *record, struct fact_worker *out);
int fact_verdict_read(const struct record *record, struct fact_verdict *out);
int fact_manifest_read(const struct record *record, struct fact_manifest *out);
int fact_part_read(const struct record *record, struct fact_manifest *out);
#define FACT_SEQUENCE_MAX ((uint64_t)1 << 62) /* so that the next one is a number, too */
int fact_output_read(const struct record *record, struct fact_output *out);
int fact_eviction_read(const struct record *record, struct fact_eviction *out);
int fact_drain_read(const struct record *record, struct fact_drain *out);
int fact_death_read(const struct record *record, struct fact_death *out);
int fact_generation_read(const struct record *record, struct fact_generation *out);
int fact_generation_large_read(const struct record *record, struct fact_generation *out);
int fact_quarantine_read(const struct record *record, struct fact_quarantine *out);
int fact_addresses_read(const struct record *record, struct fact_addresses *out);
int fact_links_read(const struct record *record, struct fact_links *out);
int fact_policy_read(const struct record *record, struct fact_policy *out);
int fact_programs_read(const struct record *record, struct fact_programs *out);
int fact_tombstone_read(const struct record *record);

/* True if a well-formed eviction lists this node. Copies nothing, since the roster asks this often. */
bool fact_eviction_lists(const struct record *record, node_id node);

/* Finds a program in a well-formed record of programs. False: the node has not looked for it; `*out` is then of no use. */
bool fact_programs_find(const struct record *record, const char *name, struct fact_program *out);

#endif
