#ifndef NODE_CORE_MEMBERS_QUARANTINE_H
#define NODE_CORE_MEMBERS_QUARANTINE_H
/* Trials that take machines down, and machines that take trials down (DESIGN 7). */

#include "node/core/members/members.h"

/* A trial that failed on this node soon after its start, or that this node could not start at all. */
struct core_young_failure {
    attempt_id attempt;
    bool is_unstarted;
    bool lacked_checkpoint; /* before the start something was missing, and the attempt was to begin at a checkpoint */
};
#define CORE_YOUNG_FAILURES_MAX 32

struct core_quarantine {
    struct core_young_failure young_failures[CORE_YOUNG_FAILURES_MAX]; /* since the last success or quarantine, oldest first */
    uint32_t young_failure_count;
    struct fact_quarantine own; /* what this node has published of itself */
    uint64_t until_ms;          /* the end of this node's quarantine; 0: it is in none */
    bool has_begun; /* this node's last quarantine began since this boot: an earlier boot's record does not end it */
};

void core_quarantine_start(struct node_core *core);
void core_quarantine_restate(struct node_core *core); /* publishes the own quarantine again under a new boot, or if it is not out */
void core_quarantine_housekeep(struct node_core *core);

/* A worker's record was taken in. */
void core_quarantine_worker(struct node_core *core, const struct record *record);

/* A node was declared dead. */
void core_quarantine_died(struct node_core *core, node_id node);

/* A node's own record of its quarantine replaced `before`. */
void core_quarantine_record(struct node_core *core, node_id node, const struct fact_quarantine *before);

/* A worker of the attempt could not be started on this node; `was_preparing`: its directory was not ready. */
void core_quarantine_unstarted(struct node_core *core, const attempt_id *attempt, bool was_preparing);

/* A worker of the attempt has ended on this node; it was started at `started_ms`, 0: not in this boot. */
void core_quarantine_exited(struct node_core *core, const attempt_id *attempt, uint64_t started_ms, enum fact_reason reason);

/* The coordinator about an attempt with a verdict: decides whether it counts as the death of its host. */
void core_quarantine_judge(struct node_core *core, const struct view_experiment *experiment,
                           const struct view_trial *trial, const struct view_attempt *attempt);

/* True while it is not known yet whether a host died alone under the trial. */
bool core_quarantine_waits(const struct node_core *core, const struct view_trial *trial);

/* The trial failed on this node or lost it, or has lost a host anywhere. */
bool core_quarantine_avoids(const struct view_trial *trial, node_id node);
bool core_quarantine_is_suspect(const struct view_trial *trial);

/* How often, since the trial last ran anywhere, `node` (NULL: any node) could not prepare or start a worker of it. */
uint32_t core_quarantine_unstarted_count(const struct view_trial *trial, const node_id *node);

/* Writes "quarantined: it failed on a, b and c". False: the trial is not in quarantine. */
bool core_quarantine_reason(const struct node_core *core, const struct view_trial *trial, char *out, size_t size);
void core_quarantine_told(struct node_core *core, const struct view_experiment *experiment, uint32_t index); /* traces it */

/* Two records of one version of this writer differ. */
void core_quarantine_equivocated(struct node_core *core, node_id node);

/* True if that was seen of the node within CORE_EQUIVOCATION_MS. */
bool core_quarantine_is_false(const struct node_core *core, node_id node);

#endif
