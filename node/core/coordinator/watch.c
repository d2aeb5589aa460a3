/* The watches of an experiment's attempts: a table by trial and attempt, and the moves of the times in a watch. */

#include "node/core/coordinator/watch.h"

#include "base/check.h"

/* ---- one watch --------------------------------------------------------------------------------------------------- */

void watch_since(uint64_t *since_ms, bool holds, uint64_t now_ms)
{
    *since_ms = !holds ? 0 : *since_ms == 0 ? now_ms : *since_ms;
}

void watch_broken_begin(struct core_watch *watch, uint64_t now_ms)
{
    watch_since(&watch->broken.since_ms, true, now_ms);
}

void watch_broken_anew(struct core_watch *watch, uint64_t now_ms)
{
    CHECK(watch->broken.stopping_ms == 0);
    watch->broken.since_ms = now_ms;
    watch->broken.unsure_ms = watch->broken.gathered_ms = 0;
}

void watch_broken_end(struct core_watch *watch)
{
    watch->broken = (struct core_broken){0};
}

static bool is_between(uint64_t from_ms, uint64_t when_ms, uint64_t to_ms)
{
    return when_ms == 0 || (from_ms != 0 && from_ms <= when_ms && when_ms <= to_ms);
}

void watch_check(const struct core_watch *watch, uint64_t now_ms)
{
    const struct core_broken *broken = &watch->broken;
    CHECK(broken->since_ms <= now_ms);
    CHECK(is_between(broken->since_ms, broken->unsure_ms, now_ms));
    CHECK(is_between(broken->since_ms, broken->gathered_ms, now_ms));
    CHECK(is_between(broken->since_ms, broken->stopping_ms, now_ms));
    /* behind_ms may be older than since_ms: watch_broken_anew keeps it. */
    CHECK(broken->behind_ms == 0 || (broken->since_ms != 0 && broken->behind_ms <= now_ms));
    CHECK(watch->waiting.since_ms <= now_ms);
    CHECK(is_between(watch->waiting.since_ms, watch->waiting.least_ms, now_ms));
    CHECK(watch->since_ms <= now_ms && watch->failed_ms <= now_ms && watch->stopped_ms <= now_ms && watch->idle_ms <= now_ms);
    CHECK(watch->barrier_ms <= now_ms);
    CHECK(watch->ended_ms <= now_ms && watch->wants_ms <= now_ms && watch->joined_ms <= now_ms && watch->stepped_ms <= now_ms);
    CHECK(watch->join_losses == 0 || watch->join_ms != 0);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static int compare_attempts(const attempt_id *a, const attempt_id *b)
{
    return a->trial != b->trial ? (a->trial < b->trial ? -1 : 1) : attempt_id_compare_order(a, b);
}

static uint32_t watch_position(const struct core_coordination *coordination, const attempt_id *attempt)
{
    uint32_t low = 0, high = coordination->watch_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (compare_attempts(&coordination->watches[middle]->attempt, attempt) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct core_watch *watch_find(const struct core_coordination *coordination, const attempt_id *attempt)
{
    uint32_t at = watch_position(coordination, attempt);
    bool is_there = at < coordination->watch_count && attempt_id_equal(&coordination->watches[at]->attempt, attempt);
    return is_there ? coordination->watches[at] : NULL;
}

static bool make_room(struct node_core *core, struct core_coordination *coordination)
{
    if (coordination->watch_count < coordination->watch_slots) {
        return true;
    }
    uint32_t wanted = coordination->watch_slots == 0 ? 8 : coordination->watch_slots * 2;
    void *bigger = arena_grow(&core->arena, coordination->watches, coordination->watch_slots * sizeof(void *),
                              wanted * sizeof(void *));
    if (bigger != NULL) {
        coordination->watches = bigger;
        coordination->watch_slots = wanted;
    }
    return bigger != NULL;
}

struct core_watch *watch_row(struct node_core *core, struct core_coordination *coordination, const attempt_id *attempt)
{
    struct core_watch *watch = watch_find(coordination, attempt);
    if (watch != NULL) {
        return watch;
    }
    watch = make_room(core, coordination) ? arena_take(&core->arena, sizeof *watch) : NULL;
    if (watch != NULL) {
        uint32_t at = watch_position(coordination, attempt);
        memmove(coordination->watches + at + 1, coordination->watches + at,
                (coordination->watch_count - at) * sizeof *coordination->watches);
        coordination->watches[at] = watch;
        coordination->watch_count++;
        watch->attempt = *attempt;
        watch->since_ms = core->now_ms;
    }
    return watch;
}

/* True while placing may still ask how long the attempt's trial has waited. Placing does not ask in every pass: with no free
 * slot no trial is considered. */
static bool trial_waits_since(const struct node_core *core, const struct core_watch *watch)
{
    const struct view_experiment *experiment = view_find_experiment(&core->view, watch->attempt.experiment);
    const struct view_trial *trial = experiment != NULL ? view_find_trial(experiment, watch->attempt.trial) : NULL;
    return (watch->ended_ms != 0 || watch->waiting.since_ms != 0) && trial != NULL && view_trial_highest(trial) != NULL &&
           attempt_id_equal(&view_trial_highest(trial)->id, &watch->attempt) &&
           view_trial_state(experiment, watch->attempt.trial) == VIEW_TRIAL_QUEUED;
}

void watch_forget_unseen(struct node_core *core, struct core_coordination *coordination)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < coordination->watch_count; i++) {
        struct core_watch *watch = coordination->watches[i];
        if (watch->seen_pass != coordination->pass && !trial_waits_since(core, watch)) {
            arena_give(&core->arena, watch, sizeof *watch);
        } else {
            coordination->watches[kept++] = watch;
        }
    }
    coordination->watch_count = kept;
}

void watch_forget_waits(struct core_coordination *coordination)
{
    coordination->waiting = (struct core_waiting){0, 0};
    for (uint32_t i = 0; i < coordination->watch_count; i++) {
        coordination->watches[i]->waiting = (struct core_waiting){0, 0};
        coordination->watches[i]->wants_ms = 0;
    }
}

static void put_off(uint64_t *since_ms, uint64_t ms)
{
    *since_ms += *since_ms != 0 ? ms : 0;
}

/* For a node that has started nothing for a while, on the smaller side of a partition. The trials have not waited for places
 * meanwhile. But earlier waits count on: otherwise, on a side that is the smaller side now and then, trials would wait for the
 * best places for ever. */
void watch_hold_waits(struct core_coordination *coordination, uint64_t ms)
{
    put_off(&coordination->waiting.since_ms, ms);
    put_off(&coordination->waiting.least_ms, ms);
    for (uint32_t i = 0; i < coordination->watch_count; i++) {
        put_off(&coordination->watches[i]->waiting.since_ms, ms);
        put_off(&coordination->watches[i]->waiting.least_ms, ms);
        put_off(&coordination->watches[i]->wants_ms, ms);
    }
}

void watch_begin_anew(const struct node_core *core, struct core_coordination *coordination)
{
    watch_forget_waits(coordination);
    for (uint32_t i = 0; i < coordination->watch_count; i++) {
        struct core_watch *watch = coordination->watches[i];
        watch->since_ms = core->now_ms;
        watch->failed_ms = watch->stopped_ms = watch->idle_ms = watch->barrier_ms = watch->moved_ms = watch->joined_ms = 0;
        watch_broken_end(watch);
        watch->stepped_ms = 0;
    }
}

void watch_check_all(const struct node_core *core, const struct core_coordination *coordination)
{
    for (uint32_t i = 0; i < coordination->watch_count; i++) {
        watch_check(coordination->watches[i], core->now_ms);
    }
}
