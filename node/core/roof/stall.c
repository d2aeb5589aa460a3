/* A suspend or a stall of this node: for a while it heard nobody, and nobody heard it (DESIGN 5). Here it is decided of
 * every absolute time of the core whether it moves by the gap, struct by struct in the order of state.h; tests/shape.py
 * sees that none is left out.
 *
 * What moves: deadlines that others have to meet; since when others are silent, refuse or lag; back-offs after their
 * answers. So this node concludes nothing from a silence that was its own.
 *
 * What stays:
 *   - when something was last done, or is due again: it may be done at once, since news is wanted now;
 *   - how old something is out there, where time went on: a copy that was whole before the gap is no fresh confirmation,
 *     and a worker beyond it has lived through it;
 *   - what users were told in minutes. */

#include "node/core/roof/roof.h"

static void move(uint64_t *when_ms, uint64_t gap_ms)
{
    if (*when_ms != 0) {
        *when_ms += gap_ms;
    }
}

/* Stay: check_ms, digest_ms, twin_told_ms, last done; equivocated_ms, foreign_told_ms, told in minutes. */
static void shift_peer(struct core_peer *peer, uint64_t gap_ms)
{
    move(&peer->up_since_ms, gap_ms);
    move(&peer->died_ms, gap_ms); /* the same moment as died_ms of its workers, below */
    move(&peer->refused_since_ms, gap_ms);
    move(&peer->silent_until_ms, gap_ms);
    move(&peer->unwilling_ms, gap_ms);
    move(&peer->code_refused_ms, gap_ms);
    peer->synced = false; /* what it has written meanwhile is not here */
}

/* struct core_outcast stays: tell_ms, link_ms, due again. */

/* Stays: resend_ms, due again. */
static void shift_ack(struct core_ack *ack, uint64_t gap_ms)
{
    move(&ack->until_ms, gap_ms);
}

/* Of struct core_worker stay: told_ms, last done; started_ms, since what fails after a gap may have failed of it. */
static void shift_worker(struct core_worker *worker, uint64_t gap_ms)
{
    move(&worker->wanted_ms, gap_ms);
    move(&worker->confirmed_ms, gap_ms);
}

/* Stays: resend_ms, due again. */
static void shift_gang(struct core_gang *gang, uint64_t gap_ms)
{
    move(&gang->until_ms, gap_ms);
    move(&gang->asked_ms, gap_ms);
}

static void shift_choosy(struct core_choosy *choosy, uint64_t gap_ms)
{
    move(&choosy->since_ms, gap_ms);
    move(&choosy->least_ms, gap_ms);
}

/* step_ms_max is a span. since_ms, too: who led through a gap was alone with its own workers, and they were suspended with it. */
static void shift_watch(struct core_watch *watch, uint64_t gap_ms)
{
    move(&watch->since_ms, gap_ms);
    move(&watch->failed_ms, gap_ms);
    move(&watch->stopped_ms, gap_ms);
    move(&watch->idle_ms, gap_ms);
    move(&watch->ended_ms, gap_ms);
    shift_choosy(&watch->choosy, gap_ms);
    move(&watch->wants_ms, gap_ms);
    move(&watch->joined_ms, gap_ms);
    move(&watch->join_ms, gap_ms);
    move(&watch->broken_ms, gap_ms);
    move(&watch->unsure_ms, gap_ms);
    move(&watch->gathered_ms, gap_ms);
    move(&watch->behind_ms, gap_ms);
    move(&watch->stopping_ms, gap_ms);
    move(&watch->stepped_ms, gap_ms);
}

/* struct core_regroup stays: resend_ms, due again. */

/* Stay: claim_ms and renew_ms, due again. */
static void shift_coordination(struct core_coordination *coordination, uint64_t gap_ms)
{
    election_shift(&coordination->election, gap_ms);
    for (struct core_gang *gang = coordination->gangs; gang != NULL; gang = gang->next) {
        shift_gang(gang, gap_ms);
    }
    for (uint32_t i = 0; i < coordination->watch_count; i++) {
        shift_watch(coordination->watches[i], gap_ms);
    }
    shift_choosy(&coordination->choosy, gap_ms);
    move(&coordination->unborne_ms, gap_ms);
    move(&coordination->led_ms, gap_ms);
    move(&coordination->hand_over_ms, gap_ms);
}

static void shift_backoff(struct core_backoff *backoff, uint64_t gap_ms)
{
    move(&backoff->until_ms, gap_ms);
}

static void shift_repair(struct core_repair *repair, uint64_t gap_ms)
{
    move(&repair->until_ms, gap_ms);
}

static void shift_code_copy(struct core_code_copy *copy, uint64_t gap_ms)
{
    move(&copy->retry_ms, gap_ms);
}

static void shift_code(struct core_code *code, uint64_t gap_ms)
{
    move(&code->retry_ms, gap_ms);
    for (uint32_t i = 0; i < FACT_HOLDERS_MAX; i++) {
        shift_code_copy(&code->copies[i], gap_ms);
    }
}

/* Stays: held_ms, how old the holder's word is: copies of checkpoints are deleted upon it. */
static void shift_confirmation(struct core_confirmation *confirmation, uint64_t gap_ms)
{
    move(&confirmation->refused_ms, gap_ms);
}

/* Stay: told_ms, key_ms, last done. */
static void shift_twin(struct core_twin *twin, uint64_t gap_ms)
{
    move(&twin->heard_ms, gap_ms);
    move(&twin->ask_until_ms, gap_ms);
}

/* Stays: running_ms, since its worker went on meanwhile; lived_ms is a span. */
static void shift_view_worker(struct view_worker *worker, uint64_t gap_ms)
{
    move(&worker->noted.died_ms, gap_ms);
}

static void shift_view_trial(const struct view_trial *trial, uint64_t gap_ms)
{
    for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
        for (struct view_worker *worker = a->workers; worker != NULL; worker = worker->next) {
            shift_view_worker(worker, gap_ms);
        }
    }
}

static void shift_view(struct view *view, uint64_t gap_ms)
{
    for (uint32_t e = 0; e < view->experiment_count; e++) {
        const struct view_experiment *experiment = view->experiments[e];
        for (uint32_t i = 0; i < experiment->trial_slots; i++) {
            shift_view_trial(experiment->trials[i], gap_ms);
        }
        for (uint32_t i = 0; i < experiment->stray_count; i++) {
            shift_view_trial(experiment->strays[i], gap_ms);
        }
    }
}

/* A collection deletes what nobody has touched for a while, and for the length of the gap nobody could: whoever was sending
 * or saving something goes on first. (A long gap is as good as one of CORE_COLLECT_MS: who is there speaks within that.) */
static void put_off_collection(struct node_core *core, uint64_t gap_ms)
{
    uint64_t from_ms = core->now_ms + (gap_ms < CORE_COLLECT_MS ? gap_ms : CORE_COLLECT_MS);
    core->collect_ms = core->collect_ms > from_ms ? core->collect_ms : from_ms;
}

/* struct node_core. Stay: quarantine_until_ms, told in minutes; retry_ms, retention_ms, housekeep_ms, repair_ms, digest_ms and
 * the next round of `fanout`, due again; collect_ms, but for the collection that would come too early. now_ms and woke_ms are
 * set by the step. */
void stall_shift(struct node_core *core, uint64_t gap_ms)
{
    put_off_collection(core, gap_ms);
    swim_shift(&core->swim, gap_ms);
    lease_shift(&core->lease, gap_ms);
    shift_view(&core->view, gap_ms);
    move(&core->filling_ms, gap_ms);
    move(&core->lacked_ms, gap_ms);
    move(&core->started_ms, gap_ms);
    for (uint32_t i = 0; i < core->peer_count; i++) {
        shift_peer(core->peers[i], gap_ms);
    }
    for (uint32_t i = 0; i < core->election_member_count; i++) {
        move(&core->election_members[i].up_since_ms, gap_ms);
    }
    for (uint32_t slot = 0; slot < LEASE_SLOTS_MAX; slot++) {
        shift_worker(&core->workers[slot], gap_ms);
    }
    for (struct core_ack *ack = core->acks; ack != NULL; ack = ack->next) {
        shift_ack(ack, gap_ms);
    }
    for (struct core_coordination *c = core->coordinations; c != NULL; c = c->next) {
        shift_coordination(c, gap_ms);
    }
    for (uint32_t i = 0; i < CORE_BACKOFFS_MAX; i++) {
        shift_backoff(&core->backoffs[i], gap_ms);
    }
    for (struct core_repair *repair = core->repairs; repair != NULL; repair = repair->next) {
        shift_repair(repair, gap_ms);
    }
    for (struct core_code *code = core->codes; code != NULL; code = code->next) {
        shift_code(code, gap_ms);
    }
    for (struct core_confirmation *row = core->confirmations; row != NULL; row = row->next) {
        shift_confirmation(row, gap_ms);
    }
    shift_twin(&core->twin, gap_ms);
}
