#include "train/plan/plan.h"

#include "base/check.h"

/* The largest power of two <= `size`, and its logarithm. */
static uint32_t core_size(uint32_t size, uint32_t *levels)
{
    uint32_t p = 1;
    *levels = 0;
    while (p * 2 <= size) {
        p *= 2;
        (*levels)++;
    }
    return p;
}

uint64_t plan_slice_start(uint64_t count, uint32_t size, uint32_t slice)
{
    CHECK(size >= 1 && size <= PLAN_RANKS_MAX && slice <= size);
    return count / size * slice + count % size * slice / size;
}

/* ---- making a plan ---- */

struct range {
    uint64_t start, end;
};

static struct plan_step *new_step(struct plan *plan)
{
    CHECK(plan->step_count < PLAN_STEPS_MAX);
    struct plan_step *step = &plan->steps[plan->step_count++];
    *step = (struct plan_step){.to = PLAN_NOBODY, .from = PLAN_NOBODY};
    return step;
}

static void step_sends(struct plan_step *step, uint32_t to, struct range range, bool added)
{
    step->to = to;
    step->send_offset = range.start;
    step->send_count = range.end - range.start;
    step->sent_is_added = added;
}

static void step_receives(struct plan_step *step, uint32_t from, struct range range, bool add)
{
    step->from = from;
    step->receive_offset = range.start;
    step->receive_count = range.end - range.start;
    step->add = add;
}

static struct range whole(const struct plan *plan)
{
    return (struct range){0, plan->count};
}

static struct range slice_of(const struct plan *plan, uint32_t slice)
{
    return (struct range){plan_slice_start(plan->count, plan->size, slice),
                          plan_slice_start(plan->count, plan->size, slice + 1)};
}

/* Once round the ring. The first slice sent is `back` before the rank's own slice. */
static void ring_round(struct plan *plan, uint32_t back, bool add)
{
    uint32_t n = plan->size, next = (plan->rank + 1) % n, previous = (plan->rank + n - 1) % n;
    for (uint32_t s = 0; s + 1 < n; s++) {
        struct plan_step *step = new_step(plan);
        uint32_t slice = (plan->rank + 2 * n - back - s) % n;
        step_sends(step, next, slice_of(plan, slice), add);
        step_receives(step, previous, slice_of(plan, (slice + n - 1) % n), add);
    }
}

/* A rank's place in the exchanges by bits: number `number` of `p`. If `out`, the rank sits the exchanges out and gives its part
 * to `twin`; otherwise `twin` is the rank that does so, or PLAN_NOBODY. */
struct place {
    uint32_t p, levels, spare; /* spare: size - p ranks sit out */
    uint32_t number, twin;
    bool out;
};

static struct place place_of(uint32_t size, uint32_t rank)
{
    struct place at = {.twin = PLAN_NOBODY};
    at.p = core_size(size, &at.levels);
    at.spare = size - at.p;
    if (rank < 2 * at.spare) {
        at.out = rank % 2 == 0;
        at.twin = rank ^ 1;
        at.number = rank / 2;
    } else {
        at.number = rank - at.spare;
    }
    return at;
}

static uint32_t rank_of(const struct place *at, uint32_t number)
{
    return number < at->spare ? 2 * number + 1 : number + at->spare;
}

/* The step before or after the exchanges, in which twins pass their arrays to each other. No step if no rank sits out. */
static void twin_step(struct plan *plan, const struct place *at, bool out_sends, struct range range, bool add)
{
    if (at->spare == 0) {
        return;
    }
    struct plan_step *step = new_step(plan);
    if (at->twin == PLAN_NOBODY) {
        return;
    }
    if (at->out == out_sends) {
        step_sends(step, at->twin, range, add);
    } else {
        step_receives(step, at->twin, range, add);
    }
}

/* The first element of the part of number `number`: an equal part of the array or, `by_slices`, its own slice and its
 * twin's. */
static uint64_t part_start(const struct plan *plan, const struct place *at, uint32_t number, bool by_slices)
{
    if (!by_slices) {
        return plan_slice_start(plan->count, at->p, number);
    }
    return plan_slice_start(plan->count, plan->size, number < at->spare ? 2 * number : number + at->spare);
}

static struct range parts(const struct plan *plan, const struct place *at, uint32_t first, uint32_t end, bool by_slices)
{
    return (struct range){part_start(plan, at, first, by_slices), part_start(plan, at, end, by_slices)};
}

/* An exchange of halving: of the 2 * mask parts around this number, each side keeps its half. `backwards`: each side sends its
 * half, and both end with the whole. */
static void halving_step(struct plan *plan, const struct place *at, uint32_t mask, bool by_slices, bool backwards)
{
    struct plan_step *step = new_step(plan);
    if (at->out) {
        return;
    }
    uint32_t own_first = at->number & ~(mask - 1), other_first = own_first ^ mask;
    struct range own = parts(plan, at, own_first, own_first + mask, by_slices);
    struct range other = parts(plan, at, other_first, other_first + mask, by_slices);
    uint32_t partner = rank_of(at, at->number ^ mask);
    step_sends(step, partner, backwards ? own : other, !backwards);
    step_receives(step, partner, backwards ? other : own, !backwards);
}

static void halve(struct plan *plan, const struct place *at, bool by_slices)
{
    for (uint32_t mask = at->p / 2; mask > 0; mask /= 2) {
        halving_step(plan, at, mask, by_slices, false);
    }
}

static void append(struct plan *plan, const struct place *at, bool by_slices)
{
    for (uint32_t mask = 1; mask < at->p; mask *= 2) {
        halving_step(plan, at, mask, by_slices, true);
    }
}

static void double_up(struct plan *plan, const struct place *at)
{
    for (uint32_t mask = 1; mask < at->p; mask *= 2) {
        struct plan_step *step = new_step(plan);
        if (!at->out) {
            step_sends(step, rank_of(at, at->number ^ mask), whole(plan), true);
            step_receives(step, rank_of(at, at->number ^ mask), whole(plan), true);
        }
    }
}

static void plan_all_reduce(struct plan *plan, const struct place *at)
{
    if (plan->algorithm == PLAN_RING) {
        ring_round(plan, 1, true);
        ring_round(plan, 0, false);
        return;
    }
    twin_step(plan, at, true, whole(plan), true);
    if (plan->algorithm == PLAN_DOUBLING) {
        double_up(plan, at);
    } else {
        halve(plan, at, false);
        append(plan, at, false);
    }
    twin_step(plan, at, false, whole(plan), false);
}

static struct range slice_of_out(const struct plan *plan, const struct place *at)
{
    return at->twin == PLAN_NOBODY ? whole(plan) : slice_of(plan, plan->rank & ~1u);
}

static void plan_reduce_scatter(struct plan *plan, const struct place *at)
{
    if (plan->algorithm == PLAN_RING) {
        ring_round(plan, 1, true);
        return;
    }
    twin_step(plan, at, true, whole(plan), true);
    halve(plan, at, true);
    twin_step(plan, at, false, slice_of_out(plan, at), false);
}

static void plan_all_gather(struct plan *plan, const struct place *at)
{
    if (plan->algorithm == PLAN_RING) {
        ring_round(plan, 0, false);
        return;
    }
    twin_step(plan, at, true, slice_of_out(plan, at), false);
    append(plan, at, true);
    twin_step(plan, at, false, whole(plan), false);
}

static void plan_chain(struct plan *plan)
{
    uint32_t n = plan->size, distance = (plan->rank + n - plan->root) % n;
    for (uint32_t s = 0; s + 1 < n; s++) {
        struct plan_step *step = new_step(plan);
        if (distance == s) {
            step_sends(step, (plan->rank + 1) % n, whole(plan), false);
        } else if (distance == s + 1) {
            step_receives(step, (plan->rank + n - 1) % n, whole(plan), false);
        }
    }
}

/* A root that sits the exchanges out first gives its array to its twin. Then, with numbers relative to the root's, a rank that
 * has the array sends it to the number with the next lower bit set. */
static void plan_tree(struct plan *plan, const struct place *at)
{
    struct place top = place_of(plan->size, plan->root);
    if (at->spare > 0) {
        struct plan_step *step = new_step(plan);
        if (top.out && plan->rank == plan->root) {
            step_sends(step, top.twin, whole(plan), false);
        } else if (top.out && plan->rank == top.twin) {
            step_receives(step, plan->root, whole(plan), false);
        }
    }
    uint32_t relative = at->number ^ top.number;
    for (uint32_t mask = at->p / 2; mask > 0; mask /= 2) {
        struct plan_step *step = new_step(plan);
        uint32_t partner = rank_of(at, at->number ^ mask);
        if (!at->out && relative % (2 * mask) == 0) {
            step_sends(step, partner, whole(plan), false);
        } else if (!at->out && relative % (2 * mask) == mask) {
            step_receives(step, partner, whole(plan), false);
        }
    }
    if (at->spare > 0) {
        struct plan_step *step = new_step(plan);
        if (at->twin == PLAN_NOBODY || (top.out && (plan->rank == plan->root || at->twin == plan->root))) {
            return; /* both have the array since the first step */
        }
        if (at->out) {
            step_receives(step, at->twin, whole(plan), false);
        } else {
            step_sends(step, at->twin, whole(plan), false);
        }
    }
}

bool plan_exists(enum plan_kind kind, enum plan_algorithm algorithm)
{
    switch (kind) {
    case PLAN_ALL_REDUCE:
        return algorithm == PLAN_RING || algorithm == PLAN_DOUBLING || algorithm == PLAN_HALVING;
    case PLAN_BROADCAST:
        return algorithm == PLAN_CHAIN || algorithm == PLAN_TREE;
    case PLAN_REDUCE_SCATTER:
        return algorithm == PLAN_RING || algorithm == PLAN_HALVING;
    case PLAN_ALL_GATHER:
        return algorithm == PLAN_RING || algorithm == PLAN_DOUBLING;
    case PLAN_BARRIER:
        return algorithm == PLAN_DOUBLING;
    }
    return false;
}

void plan_init(struct plan *plan, const struct plan_options *options)
{
    CHECK(options->size >= 1 && options->size <= PLAN_RANKS_MAX);
    CHECK(options->rank < options->size);
    CHECK(options->root < options->size);
    CHECK(options->piece_count > 0);
    CHECK(options->kind != PLAN_BARRIER || options->count == 0);
    enum plan_algorithm algorithm = options->algorithm;
    if (algorithm == 0) {
        CHECK(options->element_bytes > 0 && options->count <= UINT64_MAX / options->element_bytes);
        algorithm = plan_choose(options->kind, options->size, options->count * options->element_bytes);
    }
    CHECK(plan_exists(options->kind, algorithm));
    plan->kind = options->kind;
    plan->algorithm = algorithm;
    plan->rank = options->rank;
    plan->size = options->size;
    plan->root = options->root;
    plan->count = options->count;
    plan->piece_count = options->piece_count;
    plan->step_count = 0;
    struct place at = place_of(plan->size, plan->rank);
    switch (plan->kind) {
    case PLAN_ALL_REDUCE:
        plan_all_reduce(plan, &at);
        break;
    case PLAN_BROADCAST:
        if (algorithm == PLAN_CHAIN) {
            plan_chain(plan);
        } else {
            plan_tree(plan, &at);
        }
        break;
    case PLAN_REDUCE_SCATTER:
        plan_reduce_scatter(plan, &at);
        break;
    case PLAN_ALL_GATHER:
        plan_all_gather(plan, &at);
        break;
    case PLAN_BARRIER: /* an all-reduce without elements */
        plan_all_reduce(plan, &at);
        break;
    }
}

/* ---- the choice ---- */

#define COST_BYTES_MAX (1ull << 40)    /* above, the order of the costs no longer changes */
#define CHAIN_PIECE_BYTES (64ull * 1024) /* the next rank waits for this much */

struct cost {
    uint64_t steps, sent_bytes, added_bytes;
};

static struct cost cost_of(enum plan_kind kind, enum plan_algorithm algorithm, uint32_t n, uint64_t bytes)
{
    uint32_t levels, p = core_size(n, &levels);
    uint64_t twins = p < n ? 2 : 0, ring_part = bytes / n * (n - 1), halving_part = bytes / p * (p - 1);
    uint64_t exchanged = halving_part + halving_part / 4;
    uint64_t piece = bytes < CHAIN_PIECE_BYTES ? bytes : CHAIN_PIECE_BYTES;
    struct cost cost = {0};
    switch (algorithm) {
    case PLAN_RING:
        cost = (struct cost){n - 1, ring_part, kind == PLAN_ALL_GATHER ? 0 : ring_part};
        if (kind == PLAN_ALL_REDUCE) {
            cost.steps *= 2;
            cost.sent_bytes *= 2;
        }
        break;
    case PLAN_DOUBLING:
        cost = (struct cost){levels + twins, (levels + twins) * bytes, (levels + twins / 2) * bytes};
        if (kind == PLAN_ALL_GATHER) {
            cost.sent_bytes = exchanged + twins / 2 * (bytes + bytes / n);
            cost.added_bytes = 0;
        }
        break;
    case PLAN_HALVING:
        cost = (struct cost){2 * levels + twins, 2 * exchanged + twins * bytes, halving_part + twins / 2 * bytes};
        if (kind == PLAN_REDUCE_SCATTER) {
            cost.steps = levels + twins;
            cost.sent_bytes = exchanged + twins / 2 * (bytes + bytes / n);
        }
        break;
    case PLAN_CHAIN:
        cost = (struct cost){n - 1, bytes + (n > 2 ? (n - 2) * piece : 0), 0};
        break;
    case PLAN_TREE:
        cost = (struct cost){levels + twins, (levels + twins) * bytes, 0};
        break;
    case PLAN_ALGORITHMS:
        break;
    }
    return cost;
}

uint64_t plan_cost_ns(enum plan_kind kind, enum plan_algorithm algorithm, uint32_t size, uint64_t bytes)
{
    CHECK(size >= 1 && size <= PLAN_RANKS_MAX);
    CHECK(plan_exists(kind, algorithm));
    if (size == 1) {
        return 0;
    }
    struct cost cost = cost_of(kind, algorithm, size, bytes < COST_BYTES_MAX ? bytes : COST_BYTES_MAX);
    return cost.steps * PLAN_STEP_NS + (cost.sent_bytes * PLAN_BYTE_PS + cost.added_bytes * PLAN_ADD_PS) / 1000;
}

enum plan_algorithm plan_choose(enum plan_kind kind, uint32_t size, uint64_t bytes)
{
    enum plan_algorithm best = PLAN_ALGORITHMS;
    uint64_t best_ns = UINT64_MAX;
    for (enum plan_algorithm algorithm = PLAN_RING; algorithm < PLAN_ALGORITHMS; algorithm++) {
        if (plan_exists(kind, algorithm) && plan_cost_ns(kind, algorithm, size, bytes) < best_ns) {
            best = algorithm;
            best_ns = plan_cost_ns(kind, algorithm, size, bytes);
        }
    }
    return best;
}

bool plan_linked(uint32_t size, uint32_t one, uint32_t other)
{
    CHECK(one < size && other < size);
    if (one == other) {
        return false;
    }
    if (size <= PLAN_ALL_LINKED_MAX || (one + 1) % size == other || (other + 1) % size == one) {
        return true; /* twins are neighbours */
    }
    struct place a = place_of(size, one), b = place_of(size, other);
    uint32_t bits = a.number ^ b.number;
    return !a.out && !b.out && (bits & (bits - 1)) == 0;
}
