#include "train/plan/balance.h"

#include <string.h>

#include "base/check.h"
#include "train/plan/ledger.h"

#define SPEED_BITS 42
#define SPEED_MAX ((uint64_t)1 << 56)
#define WEIGHT_MAX ((uint32_t)1 << 20)

/* Every product below has at most a weight, a sum of weights and a small number as factors. */
_Static_assert((uint64_t)WEIGHT_MAX * WEIGHT_MAX <= UINT64_MAX / (17 * PLAN_RANKS_MAX), "products of weights fit 64 bits");
_Static_assert(SPEED_MAX <= UINT64_MAX / BALANCE_RATIO_MAX, "and those of speeds");

static uint64_t bounded(uint64_t value, uint64_t least, uint64_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* Items per 2^SPEED_BITS ns; 0: nothing was measured. */
static uint64_t speed_of(struct balance_measure m)
{
    if (m.items == 0 || m.ns == 0) {
        return 0;
    }
    while (m.items >> (64 - SPEED_BITS) != 0) {
        m.items >>= 1;
        m.ns >>= 1;
    }
    return bounded((m.items << SPEED_BITS) / (m.ns > 0 ? m.ns : 1), 1, SPEED_MAX);
}

static void follow(uint64_t *speed, bool *is_changing, uint64_t measured)
{
    uint64_t old = *speed;
    if (measured == 0 || old == 0) {
        *speed = measured == 0 ? old : measured;
        return;
    }
    bool is_off = measured < old - old / 4 || measured > old + old / 4;
    if (is_off || *is_changing) {
        *speed = bounded(measured, old - old / 2, 2 * old);
    } else {
        *speed = measured < old ? old - (old - measured) / 8 : old + (measured - old) / 8;
    }
    *is_changing = is_off;
}

/* The median of the known speeds, the lower of two in the middle; 0: no speed is known. */
static uint64_t median(const struct balance *b)
{
    uint64_t sorted[PLAN_RANKS_MAX];
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < b->size; rank++) {
        uint32_t at = count;
        for (; b->speeds[rank] > 0 && at > 0 && sorted[at - 1] > b->speeds[rank]; at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = b->speeds[rank];
        count += b->speeds[rank] > 0;
    }
    return count > 0 ? sorted[(count - 1) / 2] : 0;
}

static uint64_t sum(const struct balance *b, const uint32_t *weights)
{
    uint64_t all = 0;
    for (uint32_t rank = 0; rank < b->size; rank++) {
        all += weights[rank];
    }
    return all;
}

/* Bounds the speeds and computes weights in proportion to them. Returns false if no speed is known. */
static bool weigh(struct balance *b, uint32_t *weights)
{
    uint64_t middle = median(b), most = 0;
    if (middle == 0) {
        return false;
    }
    uint64_t least = middle / BALANCE_RATIO_MAX > 0 ? middle / BALANCE_RATIO_MAX : 1;
    for (uint32_t rank = 0; rank < b->size; rank++) {
        if (b->speeds[rank] > 0) {
            b->speeds[rank] = bounded(b->speeds[rank], least, bounded(middle * BALANCE_RATIO_MAX, 1, SPEED_MAX));
        }
        most = b->speeds[rank] > most ? b->speeds[rank] : most;
    }
    uint32_t shift = 0;
    while (most >> shift >= (uint64_t)1 << 40) {
        shift++;
    }
    for (uint32_t rank = 0; rank < b->size; rank++) {
        uint64_t speed = b->speeds[rank] > 0 ? b->speeds[rank] : middle;
        weights[rank] = (uint32_t)bounded((speed >> shift) * WEIGHT_MAX / (most >> shift), 1, WEIGHT_MAX);
    }
    return true;
}

/* Whether some rank is slow enough for a new cut. A rank's time is its weight / its speed; with parts in proportion it would be
 * the sum of weights / the sum of speeds. */
static bool is_worth_it(const struct balance *b, const uint32_t *better)
{
    uint64_t gain = b->agreements < BALANCE_SETTLED ? 8 : 16; /* a shortening by 1 in this many */
    uint64_t now = sum(b, b->weights), then = sum(b, better);
    for (uint32_t rank = 0; rank < b->size; rank++) {
        if (b->weights[rank] * then * gain > better[rank] * now * (gain + 1)) {
            return true;
        }
    }
    return false;
}

/* Takes parts in proportion to the speeds if the step becomes enough shorter. */
static void cut_anew(struct balance *b)
{
    uint32_t better[PLAN_RANKS_MAX];
    if (weigh(b, better) && is_worth_it(b, better)) {
        memcpy(b->weights, better, b->size * sizeof *better);
    }
}

void balance_init(struct balance *b, uint32_t size, const uint64_t *speeds)
{
    CHECK(size > 0 && size <= PLAN_RANKS_MAX);
    *b = (struct balance){.size = size};
    for (uint32_t rank = 0; rank < size; rank++) {
        b->speeds[rank] = speeds != NULL ? bounded(speeds[rank], 0, SPEED_MAX) : 0;
        b->weights[rank] = WEIGHT_MAX;
    }
    cut_anew(b);
}

static uint64_t add(uint64_t sum_so_far, uint64_t more)
{
    return more > UINT64_MAX - sum_so_far ? UINT64_MAX : sum_so_far + more;
}

void balance_agree(struct balance *b, const struct balance_measure *measures)
{
    uint64_t longest_ns = 0;
    for (uint32_t rank = 0; rank < b->size; rank++) {
        struct balance_measure *of = &b->sums[rank];
        *of = (struct balance_measure){add(of->items, measures[rank].items), add(of->ns, measures[rank].ns)};
        longest_ns = of->ns > longest_ns ? of->ns : longest_ns;
    }
    if (longest_ns < BALANCE_NS) {
        return;
    }
    for (uint32_t rank = 0; rank < b->size; rank++) {
        follow(&b->speeds[rank], &b->is_changing[rank], speed_of(b->sums[rank]));
    }
    memset(b->sums, 0, sizeof b->sums);
    cut_anew(b);
    b->agreements += b->agreements < BALANCE_SETTLED;
}

/* ---- parts ---- */

static bool are_equal(const struct balance *b)
{
    uint32_t rank = 1;
    while (rank < b->size && b->weights[rank] == b->weights[0]) {
        rank++;
    }
    return rank == b->size;
}

/* by = 1: the rank with the shortest time after one more item. by = -1: the rank with the longest time, of those with an item
 * to spare. */
static uint32_t next_to_change(const struct balance *b, const uint32_t *counts, int by)
{
    uint32_t best = b->size;
    for (uint32_t rank = 0; rank < b->size; rank++) {
        if (by < 0 && counts[rank] == 1) {
            continue;
        }
        uint64_t extra = by > 0 ? 1 : 0;
        uint64_t own = best == b->size ? 0 : (counts[rank] + extra) * b->weights[best];
        uint64_t other = best == b->size ? 0 : (counts[best] + extra) * b->weights[rank];
        if (best == b->size || (by > 0 ? own < other : own > other)) {
            best = rank;
        }
    }
    CHECK(best < b->size);
    return best;
}

void balance_share(const struct balance *b, uint32_t total, uint32_t rank, uint32_t *first, uint32_t *count)
{
    CHECK(rank < b->size);
    if (total < b->size || are_equal(b)) {
        ledger_share(total, rank, b->size, first, count);
        return;
    }
    uint32_t counts[PLAN_RANKS_MAX];
    uint64_t given = 0, all = sum(b, b->weights);
    for (uint32_t i = 0; i < b->size; i++) {
        counts[i] = (uint32_t)((uint64_t)total * b->weights[i] / all);
        counts[i] += counts[i] == 0;
        given += counts[i];
    }
    for (; given < total; given++) {
        counts[next_to_change(b, counts, 1)]++;
    }
    for (; given > total; given--) {
        counts[next_to_change(b, counts, -1)]--;
    }
    *first = 0;
    for (uint32_t i = 0; i < rank; i++) {
        *first += counts[i];
    }
    *count = counts[rank];
}

bool balance_is_due(uint64_t steps)
{
    bool is_early = steps >= BALANCE_FIRST && steps < BALANCE_EVERY;
    return is_early ? (steps & (steps - 1)) == 0 : steps > 0 && steps % BALANCE_EVERY == 0;
}
