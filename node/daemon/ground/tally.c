#include "node/daemon/ground/tally.h"

#include <string.h>

#include "base/check.h"

static const double wait_bounds[] = {1, 5, 15, 60, 300, 900, 3600, 14400, 86400, 604800};
static const double byte_bounds[] = {1e5, 1e6, 1e7, 1e8, 3e8, 1e9, 3e9, 1e10, 3e10, 1e11};
static const double durable_bounds[] = {0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300};

#define NEW_STEP_SHARE 0.3 /* of the last time in the smoothed time of a step */

#define COUNT(bounds) (uint32_t)(sizeof(bounds) / sizeof(bounds)[0])
_Static_assert(COUNT(wait_bounds) <= TALLY_BUCKETS_MAX && COUNT(byte_bounds) <= TALLY_BUCKETS_MAX &&
                   COUNT(durable_bounds) <= TALLY_BUCKETS_MAX,
               "a histogram has room for its bounds");

void tally_init(struct tally *tally)
{
    *tally = (struct tally){.queue_wait_s = {.bounds = wait_bounds, .count = COUNT(wait_bounds)},
                            .checkpoint_bytes = {.bounds = byte_bounds, .count = COUNT(byte_bounds)},
                            .checkpoint_s = {.bounds = durable_bounds, .count = COUNT(durable_bounds)}};
}

void tally_observe(struct tally_histogram *histogram, double value)
{
    uint32_t i = 0;
    while (i < histogram->count && value > histogram->bounds[i]) {
        i++;
    }
    histogram->in[i]++;
    histogram->sum += value;
}

/* ---- checkpoints ----------------------------------------------------------------------------------------------- */

void tally_forget_saves(struct tally *tally, uint32_t slot, const attempt_id *attempt)
{
    CHECK(slot < FACT_SLOTS_MAX);
    struct tally_saves *saves = &tally->saves[slot];
    if (attempt == NULL || !attempt_id_equal(&saves->attempt, attempt)) {
        *saves = (struct tally_saves){.count = 0};
        if (attempt != NULL) {
            saves->attempt = *attempt;
        }
    }
}

void tally_saved(struct tally *tally, uint32_t slot, const attempt_id *attempt, uint64_t step, uint64_t bytes,
                 uint64_t now_ms)
{
    tally_forget_saves(tally, slot, attempt);
    struct tally_saves *saves = &tally->saves[slot];
    tally_observe(&tally->checkpoint_bytes, (double)bytes);
    for (uint32_t i = 0; i < saves->count; i++) {
        if (saves->items[i].step == step) {
            return;
        }
    }
    uint32_t place =
        saves->count < TALLY_SAVES_MAX ? saves->count++ : TALLY_SAVES_MAX - 1; /* the oldest stay: they wait longest */
    saves->items[place].step = step;
    saves->items[place].at_ms = now_ms;
}

void tally_durable(struct tally *tally, uint32_t slot, const attempt_id *attempt, uint64_t step, uint64_t now_ms)
{
    CHECK(slot < FACT_SLOTS_MAX);
    struct tally_saves *saves = &tally->saves[slot];
    uint32_t left = 0;
    tally->durable++;
    if (!attempt_id_equal(&saves->attempt, attempt)) {
        return;
    }
    for (uint32_t i = 0; i < saves->count; i++) {
        if (saves->items[i].step == step && now_ms >= saves->items[i].at_ms) {
            tally_observe(&tally->checkpoint_s, (double)(now_ms - saves->items[i].at_ms) / 1000);
        }
        if (saves->items[i].step > step) {
            saves->items[left++] = saves->items[i];
        }
    }
    saves->count = left;
}

uint64_t tally_waiting_ms(const struct tally *tally, uint64_t now_ms)
{
    uint64_t longest = 0;
    for (uint32_t slot = 0; slot < FACT_SLOTS_MAX; slot++) {
        for (uint32_t i = 0; i < tally->saves[slot].count; i++) {
            uint64_t at_ms = tally->saves[slot].items[i].at_ms;
            longest = now_ms > at_ms && now_ms - at_ms > longest ? now_ms - at_ms : longest;
        }
    }
    return longest;
}

/* ---- trials ---------------------------------------------------------------------------------------------------- */

static struct tally_trial *find_trial(struct tally *tally, const attempt_id *attempt)
{
    for (uint32_t i = 0; i < tally->trial_count; i++) {
        if (tally->trials[i].trial == attempt->trial &&
            experiment_id_equal(tally->trials[i].experiment, attempt->experiment)) {
            return &tally->trials[i];
        }
    }
    return NULL;
}

void tally_trial_begins(struct tally *tally, uint32_t slot, const attempt_id *attempt, uint64_t step)
{
    CHECK(slot < FACT_SLOTS_MAX);
    tally->begun[slot] = (struct tally_begun){.attempt = *attempt, .step = step};
}

void tally_trial_runs(struct tally *tally, uint32_t slot, const attempt_id *attempt, uint64_t step, uint64_t now_ms)
{
    CHECK(slot < FACT_SLOTS_MAX);
    const struct tally_begun *begun = &tally->begun[slot];
    struct tally_trial *row = find_trial(tally, attempt);
    if (row == NULL) {
        if (tally->trial_count == TALLY_TRIALS_MAX) {
            tally->trials_dropped++;
            return;
        }
        row = &tally->trials[tally->trial_count++];
        *row = (struct tally_trial){.experiment = attempt->experiment, .trial = attempt->trial};
    }
    row->seen_ms = now_ms;
    if (row->attempt == attempt->number && step == row->last_step) {
        return;
    }
    if (row->attempt == attempt->number && step > row->last_step) {
        uint64_t made = step - row->last_step;
        double step_s = (double)(now_ms - row->stepped_ms) / 1000 / (double)made;
        row->steps += made;
        row->step_s = row->step_s > 0 ? row->step_s + (step_s - row->step_s) * NEW_STEP_SHARE : step_s;
    } else if (row->attempt != attempt->number && attempt_id_equal(&begun->attempt, attempt) && step > begun->step) {
        row->steps += step - begun->step;
    }
    row->attempt = attempt->number;
    row->last_step = step;
    row->stepped_ms = now_ms;
}

void tally_trial_lives(struct tally *tally, const attempt_id *attempt, uint64_t now_ms)
{
    struct tally_trial *row = find_trial(tally, attempt);
    if (row != NULL && row->attempt == attempt->number) {
        row->seen_ms = now_ms;
    }
}

void tally_forget_trials(struct tally *tally, uint64_t now_ms)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < tally->trial_count; i++) {
        if (now_ms < tally->trials[i].seen_ms + TALLY_KEPT_MS) {
            tally->trials[left++] = tally->trials[i];
        }
    }
    tally->trial_count = left;
}

void tally_shift(struct tally *tally, uint64_t gap_ms)
{
    for (uint32_t i = 0; i < tally->trial_count; i++) {
        tally->trials[i].seen_ms += gap_ms;
        tally->trials[i].stepped_ms += gap_ms;
    }
    for (uint32_t slot = 0; slot < FACT_SLOTS_MAX; slot++) {
        tally->held_ms[slot] += tally->held_ms[slot] != 0 ? gap_ms : 0;
        for (uint32_t i = 0; i < tally->saves[slot].count; i++) {
            tally->saves[slot].items[i].at_ms += gap_ms;
        }
    }
}
