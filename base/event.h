#ifndef BASE_EVENT_H
#define BASE_EVENT_H
/* What a line of a node's events is about: its kind and its subject, for programs that do not read sentences. */

#include "base/id.h"

/* The kinds, with the words by which users know them: AREA.WHAT. A word never changes its meaning; new kinds may come. */
#define EVENT_KINDS(X)                                                                                              \
    X(OTHER, "other")                               /* a line of an earlier version, or of no kind of its own */    \
    X(NODE_STARTED, "node.started")                 /* this daemon */                                               \
    X(NODE_STOPPED, "node.stopped")                 /* this daemon */                                               \
    X(NODE_JOINED, "node.joined")                   /* it is on the roster */                                       \
    X(NODE_REFUSED, "node.refused")                 /* a request to join */                                         \
    X(NODE_ALIVE, "node.alive")                                                                                     \
    X(NODE_SUSPECT, "node.suspect")                                                                                 \
    X(NODE_DEAD, "node.dead")                                                                                       \
    X(NODE_LEFT, "node.left")                                                                                       \
    X(NODE_EVICTED, "node.evicted")                 /* or out because nobody's word for it stands */                \
    X(NODE_IN_STEP, "node.in_step")                 /* this one, with the others: it may grant and coordinate */    \
    X(NODE_RESTATED, "node.restated")               /* this one publishes records anew, which its disk had lost */  \
    X(NODE_STALLED, "node.stalled")                 /* this one stood still */                                      \
    X(NODE_DRAINED, "node.drained")                                                                                 \
    X(NODE_UNDRAINED, "node.undrained")                                                                             \
    X(NODE_EMPTIED, "node.emptied")                 /* drained, and no worker runs there any more */                \
    X(NODE_QUARANTINED, "node.quarantined")                                                                         \
    X(NODE_TRUSTED, "node.trusted")                 /* quarantined no more */                                       \
    X(NODE_FALSE, "node.false")                     /* two contents of one record, or a clock that jumps */         \
    X(NODE_TWIN, "node.twin")                       /* two daemons with one key */                                  \
    X(NODE_FOREIGN, "node.foreign")                 /* its version and this one's do not understand each other */   \
    X(NODE_ADDRESS, "node.address")                 /* another address is used, or announced */                     \
    X(NODE_UNREACHABLE, "node.unreachable")         /* its ports, or two nodes have no network in common */         \
    X(NODE_REACHABLE, "node.reachable")                                                                             \
    X(NODE_PORTS, "node.ports")                     /* of this machine */                                           \
    X(NODE_MEMORY_FULL, "node.memory_full")                                                                         \
    X(NODE_MEMORY_FREE, "node.memory_free")                                                                         \
    X(NODE_DISK_FULL, "node.disk_full")                                                                             \
    X(NODE_DISK_FREE, "node.disk_free")                                                                             \
    X(NODE_DISK_FAILED, "node.disk_failed")         /* something could not be written or read */                    \
    X(NODE_DISK_DAMAGED, "node.disk_damaged")       /* a chunk has another hash, or is gone */                      \
    X(NODE_DISK_RESTORED, "node.disk_restored")                                                                     \
    X(NODE_DISK_COLLECTED, "node.disk_collected")                                                                   \
    X(NODE_DOOR, "node.door")                       /* the HTTP door, and the local socket */                       \
    X(SLOT_WITHHELD, "slot.withheld")                                                                               \
    X(SLOT_RETURNED, "slot.returned")                                                                               \
    X(SLOT_BUSY, "slot.busy")                       /* a program outside Shoal uses it */                           \
    X(SLOT_FREE, "slot.free")                       /* such a program is gone */                                    \
    X(SLOT_EXPIRED, "slot.expired")                 /* no coordinator renewed its lease */                          \
    X(SLOT_LOST, "slot.lost")                       /* the machine has it no more */                                \
    X(EXPERIMENT_SUBMITTED, "experiment.submitted")                                                                 \
    X(EXPERIMENT_PAUSED, "experiment.paused")                                                                       \
    X(EXPERIMENT_RESUMED, "experiment.resumed")                                                                     \
    X(EXPERIMENT_CANCELLED, "experiment.cancelled")                                                                 \
    X(EXPERIMENT_DELETED, "experiment.deleted")                                                                     \
    X(EXPERIMENT_COORDINATED, "experiment.coordinated") /* by this node, from now on */                             \
    X(EXPERIMENT_HANDED_OVER, "experiment.handed_over") /* by another node, or soon so */                           \
    X(EXPERIMENT_SEARCHER, "experiment.searcher")   /* the program that decides in a search */                      \
    X(EXPERIMENT_COPIED, "experiment.copied")       /* its code is on one more node */                              \
    X(TRIAL_STARTED, "trial.started")               /* an attempt begins */                                         \
    X(TRIAL_REGROUPED, "trial.regrouped")           /* workers join or leave its group */                           \
    X(TRIAL_COMPLETED, "trial.completed")                                                                           \
    X(TRIAL_FAILED, "trial.failed")                                                                                 \
    X(TRIAL_STOPPED, "trial.stopped")               /* by a user, or by its search */                               \
    X(TRIAL_PAUSED, "trial.paused")                 /* by its search */                                             \
    X(TRIAL_RETRIED, "trial.retried")                                                                               \
    X(TRIAL_LOST, "trial.lost")                     /* its attempt, which another one follows */                    \
    X(WORKER_ADOPTED, "worker.adopted")             /* by a daemon that has been started again */                   \
    X(WORKER_ENDED, "worker.ended")                                                                                 \
    X(WORKER_FAILED, "worker.failed")               /* it could not be started, or not be prepared */               \
    X(WORKER_IDLE, "worker.idle")                                                                                   \
    X(WORKER_ACTIVE, "worker.active")               /* again */                                                     \
    X(WORKER_WARM, "worker.warm")                   /* a warm process of this node */                               \
    X(CHECKPOINT_DELETED, "checkpoint.deleted")     /* the rules of retention do not keep it */                     \
    X(CHECKPOINT_FAILED, "checkpoint.failed")       /* it, or files of a trial, could not be stored or copied */    \
    X(METRICS_LOST, "metrics.lost")                 /* a report is malformed, or comes too fast */

enum event_kind {
#define EVENT_ENUM(name, word) EVENT_##name,
    EVENT_KINDS(EVENT_ENUM)
#undef EVENT_ENUM
        EVENT_KIND_COUNT
};

#define EVENT_KIND_BYTES 32 /* of a kind's word, with its NUL */

/* The kind and the subject of an event. What is none (ids), 0 (attempt) or not there (has_...) is not known, or does not apply. */
struct event_about {
    enum event_kind kind;
    bool has_trial, has_slot;
    experiment_id experiment;
    uint32_t trial, attempt; /* of the experiment */
    node_id node;            /* none with a slot: this node's */
    uint32_t slot;
};

/* The kind's word; "other" for a number that is no kind. */
const char *event_kind_name(enum event_kind kind);

/* The kind with this word; EVENT_KIND_COUNT: there is none. */
enum event_kind event_kind_of(const char *word, size_t bytes);

/* True if the kind is the one with this word, or is in the area that it names ("trial" has "trial.failed"). */
bool event_kind_is(enum event_kind kind, const char *word);

/* True if the word names a kind or an area. */
bool event_kind_is_known(const char *word);

static inline struct event_about event_of_kind(enum event_kind kind)
{
    return (struct event_about){.kind = kind};
}

static inline struct event_about event_of_node(enum event_kind kind, node_id node)
{
    return (struct event_about){.kind = kind, .node = node};
}

static inline struct event_about event_of_slot(enum event_kind kind, uint32_t slot)
{
    return (struct event_about){.kind = kind, .has_slot = true, .slot = slot};
}

static inline struct event_about event_of_experiment(enum event_kind kind, experiment_id experiment)
{
    return (struct event_about){.kind = kind, .experiment = experiment};
}

static inline struct event_about event_of_trial(enum event_kind kind, experiment_id experiment, uint32_t trial)
{
    return (struct event_about){.kind = kind, .experiment = experiment, .has_trial = true, .trial = trial};
}

static inline struct event_about event_of_attempt(enum event_kind kind, const attempt_id *attempt)
{
    return (struct event_about){
        .kind = kind, .experiment = attempt->experiment, .has_trial = true, .trial = attempt->trial, .attempt = attempt->number};
}

/* As event_of_attempt, of the worker in one of this node's slots. */
static inline struct event_about event_of_worker(enum event_kind kind, const attempt_id *attempt, uint32_t slot)
{
    struct event_about about = event_of_attempt(kind, attempt);
    about.has_slot = true;
    about.slot = slot;
    return about;
}

#endif
