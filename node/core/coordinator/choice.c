/* The choice of slots for a gang. */

#include "node/core/coordinator/choice.h"

#include "base/check.h"
#include "base/probe.h"
#include "node/core/limits.h"

#define CANDIDATES_MAX 256

/* A node with slots that can be asked for now. */
struct candidate {
    const struct placing_node *node;
    uint64_t slots;
    uint32_t slot_count;
};

/* Slots of several nodes. */
struct tally {
    uint32_t sum;
    uint32_t nodes_with[FACT_SLOTS_MAX + 1]; /* nodes with this number of slots */
};

/* Slots that a gang could have on the nodes that are not left out. */
struct at_best {
    uint32_t slots; /* if none were busy and every node answered */
    uint32_t heard; /* of `slots`, on nodes that answer */
    uint32_t idle;  /* of `slots`, idle, whether or not they can be asked for now */
    uint32_t free;  /* of `idle`, those that can be asked for now */
};

_Static_assert(FACT_SLOTS_MAX <= 64, "a mask has a bit for every slot");

uint32_t placing_count(uint64_t mask)
{
    uint32_t count = 0;
    for (; mask != 0; mask &= mask - 1) {
        count++;
    }
    return count;
}

static void tally_add(struct tally *tally, uint32_t slots)
{
    tally->sum += slots;
    tally->nodes_with[slots]++;
}

/* How many of the slots a gang can have: all; an even gang as many as can be even, up to `wanted`. */
static uint32_t tally_usable(const struct placing_snapshot *snapshot, const struct tally *tally)
{
    uint32_t most = 0, nodes = 0;
    if (!snapshot->is_even) {
        return tally->sum;
    }
    for (uint32_t each = FACT_SLOTS_MAX; each > 0; each--) { /* slots on each node */
        uint32_t fitting = snapshot->wanted / each;
        nodes += tally->nodes_with[each];
        fitting = fitting < nodes ? fitting : nodes;
        most = each * fitting > most ? each * fitting : most;
    }
    return most;
}

static bool is_avoided(const struct placing_snapshot *snapshot, const struct placing_node *node)
{
    uint32_t losses = node->unstarted_count;
    uint64_t avoid_ms = losses == 0 ? 0 : (uint64_t)CORE_UNSTARTED_AVOID_MS << (losses < 16 ? losses - 1 : 15);
    avoid_ms = avoid_ms < CORE_UNSTARTED_AVOID_MAX_MS ? avoid_ms : CORE_UNSTARTED_AVOID_MAX_MS;
    return snapshot->waited_ms < avoid_ms || (node->has_failed && snapshot->waited_ms < CORE_BETTER_PLACE_MS);
}

bool placing_leaves_out_lacking(const struct placing_snapshot *snapshot)
{
    struct tally others = {0};
    bool any_lacks = false;
    for (uint32_t i = 0; i < snapshot->node_count; i++) {
        any_lacks |= snapshot->nodes[i].lacks_program;
        tally_add(&others, snapshot->nodes[i].lacks_program ? 0 : snapshot->nodes[i].slot_count);
    }
    if (!any_lacks) {
        return false;
    }
    return tally_usable(snapshot, &others) >= snapshot->least || (snapshot->is_awaited && snapshot->waited_ms < CORE_BETTER_PLACE_MS);
}

uint32_t placing_most(const struct placing_snapshot *snapshot)
{
    struct tally all = {0};
    for (uint32_t i = 0; i < snapshot->node_count; i++) {
        tally_add(&all, placing_count(snapshot->nodes[i].usable));
    }
    return tally_usable(snapshot, &all);
}

static enum placing_omission omission(const struct placing_snapshot *snapshot, enum placing_care care, bool leaves_out,
                                      const struct placing_node *node)
{
    return leaves_out && node->lacks_program                                ? PLACING_LACKS_PROGRAM
           : care == PLACING_CARE_FOR_ALL && node->is_quarantined           ? PLACING_QUARANTINED
           : care != PLACING_CARE_FOR_NOTHING && is_avoided(snapshot, node) ? PLACING_HAS_FAILED
                                                                            : PLACING_INCLUDED;
}

static uint32_t collect(const struct placing_snapshot *snapshot, enum placing_care care, bool leaves_out,
                        struct candidate *candidates, struct at_best *at_best)
{
    struct tally slot_tally = {0}, heard = {0}, idle_tally = {0}, free_tally = {0};
    uint32_t count = 0;
    for (uint32_t i = 0; i < snapshot->node_count && count < CANDIDATES_MAX; i++) {
        const struct placing_node *node = &snapshot->nodes[i];
        CHECK(((node->idle | node->refused_long) & ~node->usable) == 0 && (node->refused & ~node->idle) == 0);
        if (omission(snapshot, care, leaves_out, node) != PLACING_INCLUDED) {
            continue;
        }
        /* A slot refused for longer than a moment is nothing to wait for. */
        uint64_t slots = care == PLACING_CARE_FOR_NOTHING ? node->usable : node->usable & ~node->refused_long;
        uint64_t idle = slots & node->idle, free = node->is_silent ? 0 : idle & ~node->refused;
        tally_add(&slot_tally, placing_count(slots));
        tally_add(&heard, node->is_silent ? 0 : placing_count(slots));
        tally_add(&idle_tally, placing_count(idle));
        tally_add(&free_tally, placing_count(free));
        if (free != 0) {
            candidates[count++] = (struct candidate){node, free, placing_count(free)};
        }
    }
    *at_best = (struct at_best){.slots = tally_usable(snapshot, &slot_tally),
                                .heard = tally_usable(snapshot, &heard),
                                .idle = tally_usable(snapshot, &idle_tally),
                                .free = tally_usable(snapshot, &free_tally)};
    return count;
}

bool placing_omits(const struct placing_snapshot *snapshot, enum placing_care care, const struct placing_node *node)
{
    return omission(snapshot, care, false, node) != PLACING_INCLUDED;
}

bool placing_could_hold(const struct placing_snapshot *snapshot, enum placing_care care)
{
    struct candidate candidates[CANDIDATES_MAX];
    struct at_best at_best;
    (void)collect(snapshot, care, placing_leaves_out_lacking(snapshot), candidates, &at_best);
    return at_best.slots >= snapshot->wanted;
}

/* The strictest rules under which the nodes could hold the gang if none were busy, and the candidates by these rules. Silent
 * nodes count: they are asked again soon, and it is better to wait for them than to take a worse node. */
static enum placing_care choose_care(const struct placing_snapshot *snapshot, bool leaves_out, struct candidate *candidates,
                             uint32_t *count, struct at_best *at_best)
{
    enum placing_care care = PLACING_CARE_FOR_ALL;
    for (;; care++) {
        *count = collect(snapshot, care, leaves_out, candidates, at_best);
        if (at_best->slots >= snapshot->wanted || care == PLACING_CARE_FOR_NOTHING) {
            return care;
        }
    }
}

void placing_omissions(const struct placing_snapshot *snapshot, enum placing_omission *out)
{
    struct candidate candidates[CANDIDATES_MAX];
    struct at_best at_best;
    uint32_t count;
    bool leaves_out = placing_leaves_out_lacking(snapshot);
    enum placing_care care = choose_care(snapshot, leaves_out, candidates, &count, &at_best);
    for (uint32_t i = 0; i < snapshot->node_count; i++) {
        out[i] = omission(snapshot, care, leaves_out, &snapshot->nodes[i]);
    }
}

static bool fits_better(const struct candidate *a, const struct candidate *b)
{
    if (a->node->has_suspect != b->node->has_suspect) {
        return b->node->has_suspect;
    }
    if (a->node->is_doubtful != b->node->is_doubtful) {
        return b->node->is_doubtful;
    }
    return a->node->has_copy != b->node->has_copy ? a->node->has_copy : a->slot_count < b->slot_count;
}

static bool has_more(const struct candidate *a, const struct candidate *b)
{
    return a->node->is_doubtful != b->node->is_doubtful ? b->node->is_doubtful : a->slot_count > b->slot_count;
}

static uint32_t add_slots(const struct candidate *from, uint32_t wanted, struct placing_choice *out)
{
    uint32_t added = 0;
    for (uint32_t slot = 0; slot < FACT_SLOTS_MAX && added < wanted; slot++) {
        if (from->slots >> slot & 1) {
            out->members[out->member_count++] = (struct fact_assignment){from->node->node, slot};
            added++;
        }
    }
    return added;
}

static void sort_members(struct placing_choice *out)
{
    for (uint32_t i = 1; i < out->member_count; i++) {
        struct fact_assignment moving = out->members[i];
        uint32_t at = i;
        for (; at > 0; at--) {
            int order = node_id_compare(out->members[at - 1].node, moving.node);
            if (order < 0 || (order == 0 && out->members[at - 1].slot < moving.slot)) {
                break;
            }
            out->members[at] = out->members[at - 1];
        }
        out->members[at] = moving;
    }
}

/* The candidate that fits best of those with at least `each` slots, without doubt or with; NULL: none. */
static struct candidate *best_with(struct candidate *candidates, uint32_t count, uint32_t each, bool doubtful)
{
    struct candidate *best = NULL;
    for (uint32_t i = 0; i < count; i++) {
        bool is_fit = candidates[i].slot_count >= each && (doubtful || !candidates[i].node->is_doubtful);
        best = is_fit && (best == NULL || fits_better(&candidates[i], best)) ? &candidates[i] : best;
    }
    return best;
}

static uint32_t count_with(const struct candidate *candidates, uint32_t count, uint32_t each, bool doubtful)
{
    uint32_t fitting = 0;
    for (uint32_t i = 0; i < count; i++) {
        fitting += candidates[i].slot_count >= each && (doubtful || !candidates[i].node->is_doubtful);
    }
    return fitting;
}

/* Takes the same number of slots on each of as few nodes as possible. */
static bool take_even(struct candidate *candidates, uint32_t count, uint32_t wanted, bool doubtful, struct placing_choice *out)
{
    for (uint32_t each = wanted < FACT_SLOTS_MAX ? wanted : FACT_SLOTS_MAX; each > 0; each--) {
        uint32_t node_count = wanted / each;
        if (wanted % each != 0 || count_with(candidates, count, each, doubtful) < node_count) {
            continue;
        }
        for (uint32_t i = 0; i < node_count; i++) {
            struct candidate *best = best_with(candidates, count, each, doubtful);
            (void)add_slots(best, each, out);
            best->slot_count = 0;
        }
        sort_members(out);
        return true;
    }
    return false;
}

/* Doubtful nodes come last: a gang that asks them in turns would miss the free slots elsewhere. */
static bool take_slots(struct candidate *candidates, uint32_t count, uint32_t wanted, bool is_even, struct placing_choice *out)
{
    const struct candidate *tightest = NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (candidates[i].slot_count >= wanted && (tightest == NULL || fits_better(&candidates[i], tightest))) {
            tightest = &candidates[i];
        }
    }
    if (tightest != NULL) {
        (void)add_slots(tightest, wanted, out);
        return true;
    }
    if (is_even) {
        return take_even(candidates, count, wanted, false, out) || take_even(candidates, count, wanted, true, out);
    }
    while (wanted > 0) {
        struct candidate *most = NULL;
        for (uint32_t i = 0; i < count; i++) {
            most = candidates[i].slot_count > 0 && (most == NULL || has_more(&candidates[i], most)) ? &candidates[i] : most;
        }
        if (most == NULL) {
            return false;
        }
        MARK(gang_spans_hosts);
        wanted -= add_slots(most, wanted, out);
        most->slot_count = 0;
    }
    sort_members(out);
    return true;
}

bool placing_choose(const struct placing_snapshot *snapshot, struct placing_choice *out)
{
    CHECK(snapshot->wanted > 0 && snapshot->least > 0);
    struct candidate candidates[CANDIDATES_MAX];
    struct at_best at_best;
    uint32_t count, wanted = snapshot->wanted, least = snapshot->least;
    bool leaves_out = placing_leaves_out_lacking(snapshot);
    (void)choose_care(snapshot, leaves_out, candidates, &count, &at_best);
    uint32_t best = at_best.heard >= least ? at_best.heard : at_best.slots;
    if (snapshot->had_least_ms >= CORE_BETTER_PLACE_MS && at_best.free >= least) {
        best = at_best.free;
    }
    if (best < wanted && best >= least) {
        MARK(gang_smaller_than_wanted);
        wanted = best;
    }
    /* By the idle slots, not by the free ones: a node that is suspect for a moment does not begin the wait anew. */
    *out = (struct placing_choice){.has_least = at_best.idle >= least};
    return wanted <= FACT_MEMBERS_MAX && take_slots(candidates, count, wanted, snapshot->is_even, out);
}
