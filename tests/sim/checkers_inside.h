#ifndef TESTS_SIM_CHECKERS_INSIDE_H
#define TESTS_SIM_CHECKERS_INSIDE_H
/* What the checkers remember, shared by their files: checkers.c hands what comes to _tokens.c (1, 2), _results.c
 * (4, 8), _attempts.c (9, 11), _policy.c (9, 13), _progress.c (11), _copies.c (10, 11), _leaders.c (12), _disk.c (3, 5, 7, 10),
 * _controls.c (3), _wishes.c (4, 10, 13), _fold.c (6), _queue.c (21) and _watch.c (what is looked at once a virtual second: 9, 10, 13, 14, 15). */

#include "node/core/ground/state.h"
#include "node/core/limits.h"
#include "tests/sim/checkers.h"
#include "tests/sim/world.h"

#define TOKENS_MAX 512   /* the latest of each node */
#define ATTEMPTS_MAX 128 /* of one trial */
#define GENERATIONS_MAX 512
#define CALM_MS 20000    /* after the last fault: all have found each other again */

/* A gang that a coordinator forms, for a trial that it chose when it began to. */
struct checkers_gang {
    uint32_t step; /* of the node, the last one after which it was there */
    uint64_t since_ms, seen_ms;
};

/* A gang that asks for its slots, and until when on its coordinator's clock. */
struct checkers_asking {
    uint8_t group_key[MESSAGE_KEY_BYTES]; /* of no two gangs it is the same; those that join a group have none */
    uint64_t until_ms;
};

/* Since when something has been so, on the simulator's clock; 0: it is not. */
/* That of the highest incarnation of a node, wherever. */
struct suspicion {
    uint64_t next_incarnation; /* the one behind it; 0: there was none */
    uint64_t since_ms;
};

struct checkers_watch {
    struct suspicion suspicion[PLAN_NODES_MAX];
    uint64_t unwanted_ms[PLAN_NODES_MAX][PLAN_SLOTS_MAX]; /* a process runs though its node knows that it should not */
    uint64_t reserved_ms[PLAN_NODES_MAX][PLAN_SLOTS_MAX];
    uint64_t orphaned_ms[PLAN_NODES_MAX][PLAN_SLOTS_MAX]; /* reserved for a gang that is no more */
    attempt_id reserved[PLAN_NODES_MAX][PLAN_SLOTS_MAX];
    uint32_t serial[PLAN_NODES_MAX][PLAN_SLOTS_MAX];
    uint64_t minority_ms[PLAN_NODES_MAX];
    bool knew_alive[PLAN_NODES_MAX][PLAN_NODES_MAX];
    node_id incumbent[PLAN_NODES_MAX][PLAN_EXPERIMENTS_MAX]; /* as the node saw it after its last step */
    uint64_t incumbent_ms[PLAN_NODES_MAX][PLAN_EXPERIMENTS_MAX]; /* since when */
    uint64_t asked_ms[PLAN_NODES_MAX][PLAN_NODES_MAX];           /* when it last asked who hears the other */
    uint32_t sent[PLAN_NODES_MAX];                               /* messages in this second */
    struct checkers_asking asking[PLAN_NODES_MAX][PLAN_EXPERIMENTS_MAX][PLAN_TRIALS_MAX];
    uint32_t steps[PLAN_NODES_MAX];
    struct checkers_gang gangs[PLAN_NODES_MAX][PLAN_EXPERIMENTS_MAX][PLAN_TRIALS_MAX];
    uint32_t side[PLAN_NODES_MAX]; /* bits: whom it trusts, itself included, */
    uint64_t side_ms[PLAN_NODES_MAX]; /* ... since when */
    bool cancelled[PLAN_NODES_MAX][PLAN_EXPERIMENTS_MAX];        /* known, in this life */
    struct fact_stop stops[PLAN_NODES_MAX][PLAN_EXPERIMENTS_MAX][PLAN_TRIALS_MAX]; /* likewise: the register */
    bool searched[PLAN_NODES_MAX][PLAN_EXPERIMENTS_MAX][PLAN_TRIALS_MAX]; /* likewise: the search's stop */
    uint32_t trials[PLAN_NODES_MAX][PLAN_EXPERIMENTS_MAX]; /* likewise: how many there are */
};

struct token {
    lease_token token;
    uint32_t slot;
    attempt_id attempt;
    bool is_revoked;
};

/* How things stood for the coordinator that made an attempt. */
struct choice_made {
    uint64_t made_ms;
    bool is_first; /* it knows of no other attempt of the trial */
    bool is_settled; /* it has been on this side for a while, and knows the whole roster */
    uint32_t side;
    uint32_t promised; /* bits: trials whose gangs it formed when it chose this one, or since */
    uint32_t unseen;   /* ... that may be running beyond the cut, as far as it can tell */
    uint32_t stopped;  /* ... that a user has stopped, as it knows */
};

struct trial {
    struct choice_made choices[ATTEMPTS_MAX];
    uint32_t attempt_count, failure_count;
    attempt_id attempts[ATTEMPTS_MAX];
    bool has_run[ATTEMPTS_MAX]; /* a worker was started */
    bool is_done[ATTEMPTS_MAX]; /* its program has made all its steps */
    attempt_id failed_last;
    uint32_t failed_on; /* bits: nodes where a process of it failed by itself */
};

struct generation {
    attempt_id attempt;
    uint32_t number;
    uint64_t term, members; /* their hash */
    bool is_by_twin;
};

#define SAVES_MAX 1024

/* A checkpoint that a worker has handed over to its daemon. */
struct save {
    attempt_id attempt;
    uint64_t step, at_ms;
    hash256 blob;
    int node;
    uint32_t asked; /* bits: who took copies then, as far as the node knew */
    bool is_part;     /* of a checkpoint of several parts */
    bool is_complete; /* it was named soon, with all that were asked for */
};

/* An attempt of which a worker is no more. */
struct missed {
    attempt_id attempt;
    uint64_t since_ms;
};

struct progress {
    uint32_t save_count, looked_at; /* ever; position modulo SAVES_MAX */
    struct save saves[SAVES_MAX];
    struct missed missed[PLAN_NODES_MAX][PLAN_EXPERIMENTS_MAX][PLAN_TRIALS_MAX]; /* by its coordinator */
};

/* What policies bound, on the simulator's clock; 0: it is not so. */
struct policy {
    uint64_t hindered_ms[PLAN_NODES_MAX]; /* when it last was down, learned what the others know, or could not write */
    uint64_t given_up_ms[PLAN_NODES_MAX][PLAN_EXPERIMENTS_MAX][PLAN_TRIALS_MAX]; /* since when its coordinator knows */
    uint64_t waits_ms[PLAN_NODES_MAX][PLAN_EXPERIMENTS_MAX][PLAN_TRIALS_MAX]; /* ... it has not begun it, though it fits */
    uint64_t twice_ms[PLAN_NODES_MAX][PLAN_SLOTS_MAX]; /* since when another attempt of its trial lives on its side */
    uint64_t quarantine_ms[PLAN_NODES_MAX]; /* when it began, or its daemon did */
    uint64_t taking_ms[PLAN_NODES_MAX][PLAN_NODES_MAX]; /* since when the other accepts work, as the node sees it; 0: it does not */
    uint64_t known_ms[PLAN_NODES_MAX][PLAN_NODES_MAX]; /* since when the node knows that the other is in quarantine */
    /* Since when the node knows, while one is in quarantine, that two others (the larger number first) have a network in
     * common on which they reached each other. */
    uint64_t joined_ms[PLAN_NODES_MAX][PLAN_NODES_MAX][PLAN_NODES_MAX];
    uint64_t withheld_ms[PLAN_NODES_MAX][PLAN_NODES_MAX][PLAN_SLOTS_MAX]; /* when the node last knew that the slot is withheld */
    uint32_t level[PLAN_NODES_MAX]; /* how often in a row it was */
};

/* What people asked for, on the simulator's clock; 0: it is not so. */
struct wishes {
    uint64_t held_ms[PLAN_NODES_MAX][PLAN_SLOTS_MAX];  /* since when its owner knows that the slot is withheld */
    uint64_t until_ms[PLAN_NODES_MAX][PLAN_SLOTS_MAX]; /* ... surely until then */
    bool is_timed[PLAN_NODES_MAX][PLAN_SLOTS_MAX];
    uint64_t asked_last[PLAN_NODES_MAX][PLAN_SLOTS_MAX]; /* the request about the slot that came last */
    uint32_t words[PLAN_NODES_MAX];                    /* drains and undrains of the node, ever asked for */
    bool is_drained[PLAN_NODES_MAX];                     /* it knows, since an earlier step of this life; */
    attempt_id given[PLAN_NODES_MAX][PLAN_SLOTS_MAX];    /* ... whom its slots were given to before */
    uint64_t unwanted_ms[PLAN_NODES_MAX][PLAN_SLOTS_MAX]; /* since when one process lives in a slot that is to be empty */
    uint32_t serial[PLAN_NODES_MAX][PLAN_SLOTS_MAX];
};

/* A slot as it was before a step of its owner: which attempts had asked. */
struct checkers_asked {
    struct lease_slot was;
    uint32_t count;
    attempt_id attempts[CORE_ASKERS_MAX];
};

#define DRAWS_SEEN 4096
#define PROGRAMS_SEEN 4096

#define CHECKERS_USAGE_MAX 64

/* How long the slots of a node were held, by whichever machines had its key. */
struct checkers_usage {
    node_id id;
    uint64_t held_ms;
    uint32_t leases; /* records that say so */
};

struct checkers {
    uint32_t usage_count;
    struct checkers_usage usage[CHECKERS_USAGE_MAX];
    struct checkers_asked asked[PLAN_SLOTS_MAX]; /* of the node whose step it is */
    uint64_t programs_seen[PROGRAMS_SEEN]; /* logs of programs that were computed anew, by a hash */
    uint32_t begun[PLAN_EXPERIMENTS_MAX]; /* bits: trials of which an attempt was ever made, where a program decides */
    uint64_t draws_seen[DRAWS_SEEN]; /* draws of logs that were computed anew, by their hash; 0: a free place */
    uint32_t generation_count; /* ever; position modulo GENERATIONS_MAX */
    struct generation generations[GENERATIONS_MAX];
    uint64_t forgot_ms[PLAN_NODES_MAX]; /* when the node was given another disk; 0: never */
    uint64_t boots_heard[PLAN_NODES_MAX]; /* the last boot of which anything has left the node, without its random bits */
    uint64_t premises[PREMISE_COUNT];
    uint32_t token_count[PLAN_NODES_MAX]; /* ever; position modulo TOKENS_MAX */
    struct token tokens[PLAN_NODES_MAX][TOKENS_MAX];
    uint32_t tried_elsewhere[PLAN_NODES_MAX]; /* the token_count then */
    struct election_claim answered[PLAN_NODES_MAX][PLAN_EXPERIMENTS_MAX];
    struct election_claim leased[PLAN_NODES_MAX][PLAN_EXPERIMENTS_MAX]; /* in this life */
    attempt_id slot_attempt[PLAN_NODES_MAX][PLAN_SLOTS_MAX];
    uint32_t results[PLAN_NODES_MAX][PLAN_EXPERIMENTS_MAX]; /* bits: trials known as completed, in this life */
    struct trial trials[PLAN_EXPERIMENTS_MAX][PLAN_TRIALS_MAX];
    uint32_t claims[PLAN_EXPERIMENTS_MAX];
    uint64_t claimed[PLAN_NODES_MAX][PLAN_EXPERIMENTS_MAX]; /* the highest term that the node ever claimed, in all its lives */
    uint32_t ran[PLAN_NODES_MAX];        /* bits: experiments of which it ever started a worker */
    bool was_live[PLAN_EXPERIMENTS_MAX]; /* at the heal */
    uint64_t last_own_ms;
    uint64_t other_disk_ms;    /* when some node came back on another disk */
    uint64_t deleted_ms[PLAN_EXPERIMENTS_MAX]; /* since when all know that it is; 0: not all */
    uint64_t over_ms[PLAN_EXPERIMENTS_MAX];    /* since when all know that it is over, and no member is away; 0: not so */
    uint64_t apart_ms;         /* after the heal: when two of the core did not see each other yet */
    const uint8_t *sent_bytes; /* walked already */
    uint64_t sent_step;
    struct checkers_watch watch;
    struct policy policy;
    struct progress progress;
    struct wishes wishes;
};

static inline void checkers_met(struct sim *sim, enum checkers_premise premise)
{
    sim->checkers->premises[premise]++;
}

static inline int checkers_experiment(const struct sim *sim, experiment_id id)
{
    for (uint32_t i = 0; i < sim->plan.experiment_count; i++) {
        if (experiment_id_equal(sim->plan.experiments[i].id, id)) {
            return (int)i;
        }
    }
    return -1;
}

static inline bool checkers_in_core(const struct sim *sim, int node)
{
    return (sim->plan.core >> node & 1) != 0;
}

/* ---- tokens, results, attempts ----------------------------------------------------------------------------------- */

/* 2: once a virtual second; when a node has begun a life. */
void checkers_tokens_everywhere(struct sim *sim);
void checkers_tokens_of_others(struct sim *sim, int node);

/* 4: the node has got this verdict; it believes in the results that are wanted of it, bits by experiment. */
void checkers_learn_result(struct sim *sim, int node, const struct record *record);
void checkers_results_hold(struct sim *sim, int node, const uint32_t wanted[PLAN_EXPERIMENTS_MAX], const char *why);

/* 8: at the end. */
void checkers_finished(struct sim *sim, int node, uint32_t experiment);

/* A node writes such a record of its own. */
void checkers_on_attempt(struct sim *sim, int node, const struct record *record);
void checkers_on_verdict(struct sim *sim, int node, const struct record *record);
void checkers_on_generation(struct sim *sim, int node, const struct record *record);
void checkers_on_group_lost(struct sim *sim, int node, const attempt_id *id, const char *why);
void checkers_on_manifest(struct sim *sim, int node, const struct record *record);
void checkers_on_worker(struct sim *sim, int node, const struct record *record);
void checkers_on_slot(struct sim *sim, int node, const struct record *record);
void checkers_on_claim(struct sim *sim, int node, const struct record *record);

/* 9, 13: what policies bound. A node of which the daemon has begun; that writes an attempt, and where; its own quarantine; once
 * a virtual second. */
void checkers_policy_began(struct sim *sim, int node);
void checkers_on_begun(struct sim *sim, int node, const attempt_id *attempt);
void checkers_on_begun_where(struct sim *sim, int node, const attempt_id *id);
void checkers_on_quarantine(struct sim *sim, int node, const struct record *record);
void checkers_learn_quarantine(struct sim *sim, int node, const struct record *record); /* taken from others */
void checkers_policy(struct sim *sim);

/* Since when the two have reached each other both ways, undisturbed: they are on one side of whatever cuts the mesh. Later
 * than now: they are not. The node is what the mesh takes it for, and no other has its key. */
uint64_t checkers_together_ms(const struct sim *sim, int a, int b);
bool checkers_is_itself(const struct sim *sim, int node);

/* 11: what restarts cost. A further attempt is recorded; what its coordinator should miss; what a node should hold. */
void checkers_saves(struct sim *sim);
void checkers_on_restart(struct sim *sim, int node, const attempt_id *attempt, uint64_t start_step);
void checkers_missed(struct sim *sim, int node, uint32_t e, const struct view_experiment *experiment);
void checkers_newest(struct sim *sim, int node);

/* ---- 10, 11: copies ---------------------------------------------------------------------------------------------- */

void checkers_on_let_go(struct sim *sim, int node, const struct record *record);
void checkers_copies_second(struct sim *sim);
void checkers_copies_end(struct sim *sim);

/* ---- 4, 10, 13: what people asked for is what is done ------------------------------------------------------------- */

void checkers_completed(struct sim *sim, int node, const attempt_id *attempt); /* it calls it that */
bool checkers_program_is_done(struct sim *sim, const attempt_id *attempt); /* all steps were made, in whichever group */
void checkers_unasked(struct sim *sim, int node);
void checkers_drained(struct sim *sim, int node);        /* after a step */
void checkers_wishes_began(struct sim *sim, int node);  /* its daemon */
void checkers_wishes_forgot(struct sim *sim, int node); /* it has another disk, or key */
void checkers_wishes(struct sim *sim);                  /* once a virtual second */

/* ---- 20: usage --------------------------------------------------------------------------------------------------- */

void checkers_usage_leased(struct sim *sim, int node, const struct record *record); /* its own record of a slot */
void checkers_usage_second(struct sim *sim);
void checkers_usage_end(struct sim *sim);

/* ---- 12 ---------------------------------------------------------------------------------------------------------- */

/* The node does what a coordinator asks; `highest`: whom it obeyed so far, by experiment. */
void checkers_obey(struct sim *sim, int node, experiment_id id, struct election_claim claim,
                   struct election_claim highest[PLAN_EXPERIMENTS_MAX]);
void checkers_on_grant(struct sim *sim, int node, const struct node_effect *effect);
void checkers_on_reserve(struct sim *sim, int node, const attempt_id *attempt);
void checkers_fences(struct sim *sim, int node);
void checkers_one_coordinator(struct sim *sim);

/* ---- disks ------------------------------------------------------------------------------------------------------- */

/* How many have lost their disk since that was asked for: perhaps they had said that it is stored there. */
struct users_promise;
uint32_t checkers_disks_lost_since(const struct sim *sim, const struct users_promise *promise);

/* 7: as new as that, or newer. */
bool checkers_is_on_disk(struct sim *sim, int node, record_ident ident, struct record_version version);
void checkers_sent_records(struct sim *sim, int node, const struct message *message);

/* 7: the node's memory holds what it had; from_disk: what it has just read back, and learns anew. */
void checkers_state(struct sim *sim, int node, bool from_disk);

/* 3, 10, 5. */
void checkers_promise_kept(struct sim *sim, int node, uint32_t experiment, const struct users_promise *promise,
                           enum fact_kind kind);
void checkers_control_kept(struct sim *sim, int node, uint32_t experiment, bool must_know);
void checkers_controls(struct sim *sim); /* once a virtual second */
void checkers_control_lost(struct sim *sim, int node, uint32_t experiment); /* perhaps: its disk is another one */
void checkers_learn_cancel(struct sim *sim, int node, const struct record *record);
void checkers_deleted(struct sim *sim, int node, uint32_t experiment);
void checkers_same_state(struct sim *sim);

/* 3, 10: single trials that people stop and retry. `what` of the attempt the node does: "makes". */
void checkers_stops(struct sim *sim, int node); /* once a virtual second */
void checkers_search(struct sim *sim, int node); /* once a virtual second */
void checkers_on_place(struct sim *sim, int node, const attempt_id *attempt); /* a coordinator has assigned it */

#define CHECKERS_STORY_ENTRIES 512
#define CHECKERS_STORY_LOGS 512
#define CHECKERS_STORY_CREATED 1024

/* The decisions of a log of a search, with what it has adopted, in its order. */
struct checkers_story {
    uint32_t count;
    struct fact_judged entries[CHECKERS_STORY_ENTRIES];
    uint32_t created_count; /* attempts with their values */
    struct fact_created created[CHECKERS_STORY_CREATED];
    uint32_t taken_count; /* how far each log is in it */
    struct {
        node_id writer;
        struct fact_log_name name;
        uint32_t until;
    } taken[CHECKERS_STORY_LOGS];
};

/* The record of a log, if the node has it; how far the log of this name is in the story; draws of logs and of attempts' own
 * records. */
const struct records_entry *checkers_log_record(const struct sim *sim, int node, experiment_id experiment, node_id writer,
                                                struct fact_log_name name, uint32_t number);
uint32_t *checkers_taken_until(struct sim *sim, struct checkers_story *story, node_id writer, struct fact_log_name name);
bool checkers_is_same_draw(const struct fact_draw *a, const struct fact_draw *b);
bool checkers_recorded_draw(const struct sim *sim, int node, const attempt_id *id, struct fact_draw *out);

/* Of a search in which a program decides: a log; an attempt that the node makes; whether the log says that the trial stops,
 * `fact` in the record that the stop names. */
void checkers_program_log(struct sim *sim, int node, uint32_t e, const struct view_log *log);
void checkers_program_begins(struct sim *sim, int node, const attempt_id *attempt);
bool checkers_program_stops(struct sim *sim, int node, uint32_t e, uint32_t trial, const struct fact_search_stop *stop,
                            const struct fact_search_log *fact);

/* Of a search that promotes: whether a story can go on with the entry, and whether an entry that can is what the rule says. */
bool checkers_promotion_follows(const struct checkers_story *story, const struct plan_experiment *plan, const struct fact_judged *entry);
void checkers_promotion(struct sim *sim, int node, uint32_t e, const struct checkers_story *story, const struct fact_judged *entry);

void checkers_stops_kept(struct sim *sim, int node, uint32_t experiment); /* at the end */
void checkers_stops_lost(struct sim *sim, int node, uint32_t experiment); /* perhaps: its disk is another one */
void checkers_extensions(struct sim *sim, int node); /* once a virtual second */
void checkers_extension_kept(struct sim *sim, int node, uint32_t experiment); /* at the end */
void checkers_extension_lost(struct sim *sim, int node, uint32_t experiment); /* perhaps: its disk is another one */
void checkers_begins_stopped(struct sim *sim, int node, const attempt_id *attempt, const char *what);

/* The checkpoint was made before the trial's present retry: it may have been let go while the trial was over. */
bool checkers_is_before_retry(const struct view_trial *trial, const struct view_manifest *row);

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* 6: the node's records in another order, some twice, give what it believes. */
void checkers_fold(struct sim *sim, int node);

/* 14: what it says of others' deaths. */
void checkers_rumours(struct sim *sim, int node, const struct swim_message *message);

/* The node believes to be on a side with less than half of the roster. */
bool checkers_in_minority(const struct sim *sim, int node);

/* 13: an owner sends a refusal to a coordinator. */
void checkers_on_refused(struct sim *sim, int node, const struct node_effect *effect);

/* 9: on which side of a cut the node believes to be: looked at every second, and seen to be another one, if only for a moment,
 * as it chooses what to begin. */
void checkers_watch_side(struct sim *sim, int node);
void checkers_see_side(struct sim *sim, int node);

/* Who made it has been given another disk since, and may give its name again (DESIGN 13.7); or its key was in use twice. */
bool checkers_name_is_ambiguous(const struct sim *sim, const attempt_id *attempt);

/* Once a virtual second. */
void checkers_watch(struct sim *sim);

/* Whether the attempt has the values that the trial has by its records: always, where values follow from the number
 * (checkers_search.c). */
bool checkers_has_values(const struct view_trial *trial, const attempt_id *attempt);

#endif
