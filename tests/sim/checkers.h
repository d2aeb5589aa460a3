#ifndef TESTS_SIM_CHECKERS_H
#define TESTS_SIM_CHECKERS_H
/* The invariants of DESIGN 13. Some are checked where an effect could break them, the others once
 * a virtual second, or at the end. Each counts how often it had something to check: a run of many seeds in which a
 * premise never occurred has shown nothing, and fails. */

#include <stdbool.h>
#include <stdint.h>

#include "node/core/core.h"
#include "tests/sim/plan.h"
#include "tests/sim/workers.h"

struct sim;
struct sim_blob;
struct users_promise;
struct users_control;
struct users_stop;

enum checkers_premise {
    PREMISE_1_WORKER_ACCEPTED,    /* a live worker's token was accepted */
    PREMISE_1_ADOPTED,            /* ... by a daemon that had adopted it */
    PREMISE_1_ZOMBIE,             /* a slot was taken back while its process still lived */
    PREMISE_2_REVOKED,            /* a revoked token was tried */
    PREMISE_2_ELSEWHERE,          /* a token that is not revoked was tried at a node that has not given it out, */
    PREMISE_2_REVOKED_ELSEWHERE,  /* ... one that is */
    PREMISE_2_NOT_FOUND,          /* a daemon came back and did not find a worker */
    PREMISE_2_OUT,                /* a node that knows that it is out was looked at */
    PREMISE_2_SHUT_OUT,
    PREMISE_2_RETURNED,           /* an evicted machine was let in with a new key */
    PREMISE_2_TWINS,              /* two daemons with one key were looked at */
    PREMISE_2_BECAME,
    PREMISE_3_SUBMIT_ON_TWO,      /* acknowledged as stored on two or more */
    PREMISE_3_CANCEL_ON_TWO,
    PREMISE_3_STOP_ON_TWO,
    PREMISE_3_RETRY_ON_TWO,
    PREMISE_3_OTHER_DISK,         /* a node came back with an old disk or none */
    PREMISE_3_LOST_ONE,
    PREMISE_3_PAUSED,             /* a node that has the last word, a pause, was looked at; */
    PREMISE_3_RESUMED,            /* ... a resume */
    PREMISE_3_PAUSE_SPREAD,       /* a node had to know of a pause, */
    PREMISE_3_RESUME_SPREAD,      /* ... of a resume */
    PREMISE_4_RESULT_SPREAD,      /* a result had to reach a node that did not have it at the heal */
    PREMISE_4_RESULT_KEPT,        /* a node looked whether it still knew a result */
    PREMISE_4_COMPLETED,          /* an attempt was called completed */
    PREMISE_5_SAME_STATE,         /* quiet after the heal, two or more nodes */
    PREMISE_6_REFOLDED,
    PREMISE_6_UNKNOWN_KIND,
    PREMISE_6_LATER_KIND,         /* a record of a later program was looked at on another node */
    PREMISE_6_REFUSED_VERSION,    /* a message came of a version that its receiver does not speak */
    PREMISE_7_RESTART,            /* a disk with records was read back */
    PREMISE_7_STORED,             /* a node said that it had stored a record */
    PREMISE_8_FINISHED,           /* an experiment that was live at the heal */
    PREMISE_8_HUNG,               /* the verdict on an attempt of which a rank hung */
    PREMISE_8_LEFT_BEHIND,        /* ... of which a rank had ended */
    PREMISE_8_ALONE,              /* ... on a core of one node */
    PREMISE_9_ONCE,               /* an attempt that nothing but a verdict may repeat */
    PREMISE_9_REPEATED,           /* a later attempt with its cause on record */
    PREMISE_9_LOST,
    PREMISE_9_ENDED,
    PREMISE_9_RENUMBERED,         /* a group's number was said again with another term */
    PREMISE_9_SIDE,               /* who reaches some only began a trial, in the order of its side */
    PREMISE_9_REGROUPED,          /* a group went on with other members */
    PREMISE_9_GROUP_LOST,         /* an attempt whose group can change is called lost, though it had begun */
    PREMISE_9_MINORITY,
    PREMISE_9_TWICE,              /* two attempts of a trial were alive at once */
    PREMISE_9_TWICE_TOGETHER,     /* ... on machines that reached each other already, or still */
    PREMISE_9_RETRIED,            /* an attempt of a trial that was retried was made; */
    PREMISE_9_RETRIED_FAILED,     /* ... though it had been given up before */
    PREMISE_9_GIVEN_UP,           /* a coordinator knew that a trial failed too often, or is in quarantine */
    PREMISE_9_QUARANTINED,        /* a node put itself in quarantine */
    PREMISE_9_BESIDE_QUARANTINE,  /* an attempt was made while a node was */
    PREMISE_10_CANCELLED,
    PREMISE_10_STOPPED,
    PREMISE_10_PAUSED,            /* a worker of a paused experiment was asked to stop, or ended */
    PREMISE_10_STOP_KNOWN,        /* a node that knew of the stop of a trial was looked at */
    PREMISE_10_TRIAL_STOPPED,     /* a worker of a stopped trial was asked to leave, or ended */
    PREMISE_10_STOP_UNDONE,       /* a node that had known of a stop learned of a later retry */
    PREMISE_10_DELETED,           /* at the end a node knew that an experiment is deleted */
    PREMISE_10_RAN,               /* ... and had run some of it */
    PREMISE_10_COLLECTED,
    PREMISE_10_CLEANED,           /* ... and its disk must be clean of it by then */
    PREMISE_10_UNASKED,           /* a node knew of an experiment that nobody had asked to end, pause or delete */
    PREMISE_11_HANDED_ON,         /* a member got steps from another's memory */
    PREMISE_11_DURABLE,           /* a manifest that says durable */
    PREMISE_11_RESUMED,
    PREMISE_11_FILES,
    PREMISE_11_UNITED,
    PREMISE_11_SAVED,             /* a checkpoint that nothing hindered was looked for */
    PREMISE_11_IN_REACH,          /* a further attempt was made where what was saved can be reached */
    PREMISE_11_MISSED,            /* a worker was no more, and its coordinator had to find out */
    PREMISE_11_NEWEST,            /* a node should hold the newest of a live trial */
    PREMISE_11_ON_SIDE,           /* a disk was cleaned on a side that has the newest of a live trial */
    PREMISE_11_LET_GO,            /* a writer took its name from a checkpoint */
    PREMISE_11_COLLECTED,
    PREMISE_11_COLLECTED_BESIDE,  /* ... of a trial that has a living attempt */
    PREMISE_11_ROTTEN,
    PREMISE_11_GOES,              /* of an experiment that is over nobody should be named for what is not kept */
    PREMISE_11_KEPT,
    PREMISE_12_LED,
    PREMISE_12_OBEYED,            /* an owner answered a second coordinator of an experiment */
    PREMISE_12_FENCE,
    PREMISE_12_ONE_COORDINATOR,   /* stable for long enough with a live experiment */
    PREMISE_13_RESERVED,
    PREMISE_13_LEASED,
    PREMISE_13_REFUSED,           /* a gang that held some slots wanted one that another held: both could have waited */
    PREMISE_13_FITS,              /* a trial waited while enough slots were free */
    PREMISE_13_WITHHELD,          /* a worker lived in a slot that its owner had been told is withheld */
    PREMISE_13_EMPTIED,           /* ... on a node that knew it is to be empty at once */
    PREMISE_13_DRAINED,           /* a node that knew it is drained was looked at */
    PREMISE_14_SUSPECTED,
    PREMISE_14_CALM,
    PREMISE_14_DEAD,
    PREMISE_15_MESSAGES,
    PREMISE_15_WAITING,           /* something waited for a node's disk */
    PREMISE_17_JUDGED,
    PREMISE_17_DRAWN,             /* from results */
    PREMISE_17_WITH_PARENT,       /* a trial of pbt goes on from one of the generation before */
    PREMISE_17_DRAWN_BESIDE_PAUSED, /* ... some of them of trials that were paused */
    PREMISE_17_TAKEN_OVER,        /* a later attempt of the trial */
    PREMISE_17_ADOPTED,           /* a log took over decisions of another */
    PREMISE_18_STOPPED_BY_SEARCH,
    PREMISE_19_BRACKET_FULL,
    PREMISE_21_WAITED,     /* a slot that had waited for a better trial was given, */
    PREMISE_21_TAKEN_OVER, /* ... or one that was reserved already */
    PREMISE_3_EXTENDED_ON_TWO,    /* further trials were acknowledged as stored on two or more */
    PREMISE_9_ADDED,              /* an attempt of a further trial was made, */
    PREMISE_17_ADDED,             /* ... and one was judged beside those from before */
    PREMISE_17_PROMOTED,
    PREMISE_17_CLOSED,
    PREMISE_18_PAUSED_BY_SEARCH,
    PREMISE_11_PARTS_BEGUN, /* an attempt began with a checkpoint of several parts */
    PREMISE_11_PARTS_TOLD,  /* a worker was told that such a checkpoint is durable */
    PREMISE_20_COUNTED,      /* a node's records of usage were compared with the time that its slots were held */
    PREMISE_20_COMPLETE,     /* ... without faults, for all of that time */
    PREMISE_18_PAUSE_OBEYED, /* a worker of a paused attempt was asked to leave */
    PREMISE_17_PROGRAM_ANSWERED,   /* an answer of the program of a search was computed anew, */
    PREMISE_17_PROGRAM_ADOPTED,    /* ... in a log that had taken over another, */
    PREMISE_17_PROGRAM_MORE,       /* ... which said that there is more to come */
    PREMISE_17_PROGRAM_REPLAYED,   /* a program that was started again was told of an event with its answer, */
    PREMISE_17_PROGRAM_OTHER,      /* ... or of one that another log had before */
    PREMISE_17_PROGRAM_CLOSED,     /* a log closed the search */
    PREMISE_17_PROGRAM_GIVEN_UP,   /* a program that had failed too often was tried once more */
    PREMISE_18_STOPPED_BY_PROGRAM, /* a stop was compared with the answer that it follows from */
    PREMISE_COUNT
};

extern const char *const checkers_premise_names[PREMISE_COUNT];

/* "At most one live worker per slot holds a valid token, zombies counted." */
const char *checkers_invariant_text(int number);

struct checkers *checkers_new(void);
void checkers_destroy(struct checkers **checkers);
void checkers_reset(struct checkers *checkers);
const uint64_t *checkers_premises(const struct checkers *checkers);

/* Where something could break. */
struct record;
struct record_version;
void checkers_on_record(struct sim *sim, int node, const struct record *record, struct record_version seen, bool own);
void checkers_on_send(struct sim *sim, int node, const struct node_effect *effect);
void checkers_on_spawn(struct sim *sim, int node, const struct node_effect *effect);
void checkers_on_revoked(struct sim *sim, int node, uint32_t slot, const attempt_id *attempt);
void checkers_on_gone(struct sim *sim, int node, const struct worker_process *process, int32_t code, bool is_killed);
/* Around a step of the node. */
void checkers_queue_before(struct sim *sim, int node);
void checkers_queue_after(struct sim *sim, int node, const struct node_event *event);
void checkers_on_hung(struct sim *sim, int node, const attempt_id *attempt);

/* A worker is asked to save and leave. */
void checkers_on_asked(struct sim *sim, int node, const attempt_id *attempt, const char *reason);
void checkers_on_down(struct sim *sim, int node);
void checkers_on_life(struct sim *sim, int node);    /* its daemon has a boot, and nothing else */
void checkers_on_adopted(struct sim *sim, int node); /* before START */
void checkers_on_boot(struct sim *sim, int node);    /* after it */
void checkers_on_other_disk(struct sim *sim, int node);
void checkers_on_promise(struct sim *sim, int node, uint32_t experiment, const struct users_promise *promise,
                         enum fact_kind kind);
void checkers_on_stop(struct sim *sim, int node, uint32_t experiment, uint32_t trial, struct users_stop *stop); /* completes it */
void checkers_on_extension(struct sim *sim, int node, uint32_t experiment, struct users_promise *promise); /* completes it */
void checkers_on_control(struct sim *sim, int node, uint32_t experiment, struct users_control *control); /* completes it */
void checkers_on_heal(struct sim *sim);

/* An owner asks (tests/sim/owners.h), and hears that it is done. */
struct owners_request;
void checkers_on_owner_asks(struct sim *sim, const struct owners_request *request);
void checkers_on_owner_heard(struct sim *sim, const struct owners_request *request);

/* The program of a search is told of an event, after `told` others in its life; people have seen that one was given up. */
struct own_event;
void checkers_on_told(struct sim *sim, int node, uint32_t e, uint64_t told, uint64_t number, bool is_replay,
                      const struct own_event *event);
void checkers_on_given_up(struct sim *sim);

/* The program of the attempt has made its last step. */
void checkers_on_program_done(struct sim *sim, const attempt_id *attempt);

/* NODE_EFFECT_DURABLE. */
void checkers_on_durable(struct sim *sim, int node, const struct node_effect *effect);

/* A worker has handed a checkpoint over. */
void checkers_on_saved(struct sim *sim, int node, const attempt_id *attempt, uint64_t step, hash256 blob);

/* A node has said what its disk is to be cleaned but of; it is about to be cleaned of these; a copy was found rotten. */
void checkers_on_listed(struct sim *sim, int node, const hash256 *named, uint32_t count);
void checkers_on_collected(struct sim *sim, int node, struct sim_blob *const *blobs, uint32_t count, bool is_full);
void checkers_on_rotten(struct sim *sim);

/* After a node's step, if tokens may have changed in it. */
void checkers_tokens(struct sim *sim, int node);

/* After a node's step: what it left behind. */
void checkers_on_step(struct sim *sim, int node);

/* After a node's step: whom it takes for the coordinators, and whose gangs it forms. */
void checkers_incumbents(struct sim *sim, int node);

void checkers_second(struct sim *sim);
bool checkers_has_choosy_trials(const struct sim *sim); /* of what is left some avoid a node that lives */
void checkers_end(struct sim *sim);

/* The disks, bits, that hold the experiment's record, one that cancels it (FACT_CONTROL) or its tombstone. */
uint32_t checkers_disks_with(struct sim *sim, uint32_t experiment, enum fact_kind kind);

/* A group of workers has come together, with all its members in it; it has made a step. */
struct elastic_group;
void checkers_on_group(struct sim *sim, const struct elastic_group *group);
void checkers_on_group_step(struct sim *sim, const struct elastic_group *group);

#endif
