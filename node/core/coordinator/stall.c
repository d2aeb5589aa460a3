/* How a suspend of the node moves the times of the room (roof/stall.c). */

#include "base/shift.h"
#include "node/core/coordinator/coordination.h"

/* resend_ms of struct core_regroup stays, due again; waited_ms and had_least_ms of struct placing_snapshot stay, as spans. */

/* resend_ms stays, due again. */
static void shift_gang(struct core_gang *gang, uint64_t gap_ms)
{
    time_shift(&gang->until_ms, gap_ms);
    time_shift(&gang->asked_ms, gap_ms);
}

static void shift_waiting(struct core_waiting *waiting, uint64_t gap_ms)
{
    time_shift(&waiting->since_ms, gap_ms);
    time_shift(&waiting->least_ms, gap_ms);
}

static void shift_broken(struct core_broken *broken, uint64_t gap_ms)
{
    time_shift(&broken->since_ms, gap_ms);
    time_shift(&broken->unsure_ms, gap_ms);
    time_shift(&broken->gathered_ms, gap_ms);
    time_shift(&broken->stopping_ms, gap_ms);
    time_shift(&broken->behind_ms, gap_ms);
}

/* step_ms_max stays, as a span. since_ms moves: a node that led through a gap was alone with its own workers, and these were
 * suspended, too. */
static void shift_watch(struct core_watch *watch, uint64_t gap_ms)
{
    time_shift(&watch->since_ms, gap_ms);
    time_shift(&watch->failed_ms, gap_ms);
    time_shift(&watch->stopped_ms, gap_ms);
    time_shift(&watch->idle_ms, gap_ms);
    time_shift(&watch->barrier_ms, gap_ms);
    time_shift(&watch->moved_ms, gap_ms);
    time_shift(&watch->ended_ms, gap_ms);
    shift_waiting(&watch->waiting, gap_ms);
    time_shift(&watch->wants_ms, gap_ms);
    time_shift(&watch->joined_ms, gap_ms);
    time_shift(&watch->join_ms, gap_ms);
    shift_broken(&watch->broken, gap_ms);
    time_shift(&watch->stepped_ms, gap_ms);
}

static void shift_searcher(struct core_searcher *searcher, uint64_t gap_ms)
{
    time_shift(&searcher->until_ms, gap_ms);
    time_shift(&searcher->again_ms, gap_ms);
}

/* claim_ms and renew_ms stay, due again. */
static void shift_coordination(struct core_coordination *coordination, uint64_t gap_ms)
{
    election_shift(&coordination->election, gap_ms);
    for (struct core_gang *gang = coordination->gangs; gang != NULL; gang = gang->next) {
        shift_gang(gang, gap_ms);
    }
    for (uint32_t i = 0; i < coordination->watch_count; i++) {
        shift_watch(coordination->watches[i], gap_ms);
    }
    shift_waiting(&coordination->waiting, gap_ms);
    time_shift(&coordination->unconfirmed_ms, gap_ms);
    time_shift(&coordination->led_ms, gap_ms);
    time_shift(&coordination->hand_over_ms, gap_ms);
    shift_searcher(&coordination->searcher, gap_ms);
}

static void shift_backoff(struct core_backoff *backoff, uint64_t gap_ms)
{
    time_shift(&backoff->until_ms, gap_ms);
}

/* Of struct core_coordinator stays apart_told_ms, told to users in minutes. */
void core_coordinator_shift(struct node_core *core, uint64_t gap_ms)
{
    for (struct core_coordination *c = core->coordinator->coordinations; c != NULL; c = c->next) {
        shift_coordination(c, gap_ms);
    }
    for (uint32_t i = 0; i < CORE_BACKOFFS_MAX; i++) {
        shift_backoff(&core->coordinator->backoffs[i], gap_ms);
    }
}
