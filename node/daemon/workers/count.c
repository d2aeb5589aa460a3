/* What the daemon counts of its workers for /metrics (ground/tally.h): how long trials waited, why they began again,
 * how far they are, and for how long slots were held. */

#include <string.h>

#include "node/daemon/workers/workers.h"

/* Rank 0 of the attempt runs in this slot. Ranks change in a group that changes. */
static bool is_first(const struct daemon *daemon, const struct view_attempt *attempt,
                     const struct daemon_worker *worker, uint32_t slot)
{
    return attempt != NULL && view_attempt_rank(attempt, daemon->keys.id, slot, worker->prepare.u.worker.number) == 0;
}

/* Adds the time that the slot was held since the last look. */
static void hold_until(struct daemon *daemon, uint32_t slot, uint64_t now_ms)
{
    struct tally *tally = &daemon->workers->tally;
    enum fact_slot_kind kind = daemon->slots[slot].kind == SLOT_CUDA ? FACT_SLOT_CUDA : FACT_SLOT_CPU;
    tally->slot_ms[kind] += tally->held_ms[slot] != 0 ? now_ms - tally->held_ms[slot] : 0;
    tally->held_ms[slot] = now_ms;
}

void daemon_count_ended(struct daemon *daemon, uint32_t slot)
{
    if (daemon->workers->tally.held_ms[slot] != 0) {
        hold_until(daemon, slot, daemon_now_ms());
    }
    daemon->workers->tally.held_ms[slot] = 0;
}

void daemon_count_begun(struct daemon *daemon, uint32_t slot)
{
    const struct daemon_worker *worker = &daemon->workers->slots[slot];
    const attempt_id *id = &worker->prepare.u.worker.attempt;
    const struct view_experiment *experiment = view_find_experiment(node_core_view(daemon->core), id->experiment);
    const struct view_trial *trial =
        experiment != NULL && experiment->known ? view_find_trial(experiment, id->trial) : NULL;
    const struct view_attempt *attempt = trial != NULL ? trial->attempts : NULL, *before = NULL;
    tally_forget_saves(&daemon->workers->tally, slot, id);
    daemon->workers->tally.held_ms[slot] = daemon_now_ms();
    while (attempt != NULL && !attempt_id_equal(&attempt->id, id)) {
        before = attempt;
        attempt = attempt->next;
    }
    if (!is_first(daemon, attempt, worker, slot)) {
        return;
    }
    tally_trial_begins(&daemon->workers->tally, slot, id, attempt->start_step);
    if (before == NULL) {
        uint64_t now_s = daemon_wall_ms() / 1000;
        uint64_t waited_s =
            now_s > experiment->submitted_s ? now_s - experiment->submitted_s : 0; /* another node's clock */
        tally_observe(&daemon->workers->tally.queue_wait_s, (double)waited_s);
    } else {
        const struct view_verdict *verdict = view_attempt_verdict(before);
        daemon->workers->tally.restarts[verdict != NULL ? verdict->reason : FACT_LOST]++;
    }
}

void daemon_count_step(struct daemon *daemon, const struct daemon_worker *worker, uint64_t step)
{
    uint32_t slot = worker->prepare.u.worker.slot;
    const attempt_id *id = &worker->prepare.u.worker.attempt;
    if (step > 0 && is_first(daemon, view_find_attempt(node_core_view(daemon->core), id), worker, slot)) {
        tally_trial_runs(&daemon->workers->tally, slot, id, step, daemon_now_ms());
    }
}

void daemon_count_tick(struct daemon *daemon, uint64_t now_ms)
{
    struct tally *tally = &daemon->workers->tally;
    for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
        const struct daemon_worker *worker = &daemon->workers->slots[slot];
        const attempt_id *id = &worker->prepare.u.worker.attempt;
        if (worker->state != WORKER_RUNNING || worker->ended) {
            tally_forget_saves(tally, slot, NULL);
            continue;
        }
        hold_until(daemon, slot, now_ms);
        tally_trial_lives(tally, id, now_ms);
    }
    tally_forget_trials(tally, now_ms);
}
