#ifndef NODE_CORE_MEMBERS_QUARANTINE_H
#define NODE_CORE_MEMBERS_QUARANTINE_H
/* Trials that take machines down, and machines that take trials down (DESIGN 7). */

#include "node/core/members/members.h"

/* A trial that failed here soon after its start, or could not be started here at all. */
struct core_young_failure {
    attempt_id attempt;
    bool is_unstarted;      /* the worker could not be started */
    bool lacked_checkpoint; /* is_unstarted: the attempt was to begin at a checkpoint, and was not ready yet */
};
#define CORE_YOUNG_FAILURES_MAX 32

struct core_quarantine {
    struct core_young_failure young_failures[CORE_YOUNG_FAILURES_MAX]; /* since the last success or quarantine, oldest first */
    uint32_t young_failure_count;
    struct fact_quarantine own; /* ours, as last published */
    uint64_t until_ms;          /* own.is_active: when the quarantine ends */
    bool has_begun; /* the last quarantine began in this boot: a record of an earlier boot does not end it */
};

/* Takes over our quarantine from our own record. The time begins anew. */
void core_quarantine_start(struct node_core *core);

/* Publishes our quarantine again under a new boot, or if the record is not out. */
void core_quarantine_restate(struct node_core *core);

/* Begins and ends our quarantine. */
void core_quarantine_housekeep(struct node_core *core);

/* A worker's record was taken in: notes that the worker runs. */
void core_quarantine_worker(struct node_core *core, const struct record *record);

/* A node was declared dead: notes the young workers that died there. */
void core_quarantine_died(struct node_core *core, node_id node);

/* A node's record of its own quarantine replaced `before`. */
void core_quarantine_record(struct node_core *core, node_id node, const struct fact_quarantine *before);

/* A worker of the attempt could not be started here; `was_preparing`: the directory was not ready. */
void core_quarantine_unstarted(struct node_core *core, const attempt_id *attempt, bool was_preparing);

/* A worker of the attempt has ended here. `started_ms`: of the worker; 0: the start was in an earlier boot. */
void core_quarantine_exited(struct node_core *core, const attempt_id *attempt, uint64_t started_ms, enum fact_reason reason);

/* For the coordinator of an attempt with a verdict: writes a FACT_DEATH if the attempt's host died alone under it. */
void core_quarantine_judge(struct node_core *core, const struct view_experiment *experiment,
                           const struct view_trial *trial, const struct view_attempt *attempt);

/* True while it is open whether a host died alone under the trial. */
bool core_quarantine_waits(const struct node_core *core, const struct view_trial *trial);

/* True if the trial failed on the node, or the node died under the trial. */
bool core_quarantine_avoids(const struct view_trial *trial, node_id node);

/* True if some node died under the trial. */
bool core_quarantine_is_suspect(const struct view_trial *trial);

/* How many attempts of the trial, since one last ran, `node` (NULL: any node) could not prepare or start. */
uint32_t core_quarantine_unstarted_count(const struct view_trial *trial, const node_id *node);

/* Writes "quarantined: it failed on a, b and c". False: the trial is not in quarantine, and `out` is untouched. */
bool core_quarantine_reason(const struct node_core *core, const struct view_trial *trial, enum config_retry retry, char *out,
                                 size_t size);

/* Traces the reason, if trial `index` is in quarantine. */
void core_quarantine_told(struct node_core *core, const struct view_experiment *experiment, uint32_t index);

/* Two records of the node with one version differ: the node gets no work from here for CORE_EQUIVOCATION_MS. */
void core_quarantine_equivocated(struct node_core *core, node_id node);

/* True while CORE_EQUIVOCATION_MS last after such a find. */
bool core_quarantine_is_false(const struct node_core *core, node_id node);

#endif
