/* The choice of slots for a gang. */

#include "node/core/coordinator/choice.h"

#include "base/check.h"
#include "base/probe.h"
#include "node/core/limits.h"

/* The rules by which nodes are left out, from the strictest to none. A node where everything fails at once is always idle, so
 * such a node is left out even while all others are busy. A quarantine ends by itself. But the other nodes may be busy for
 * weeks, or a process that does not die may hold the slots: hence the bound CORE_BETTER_PLACE_MS. A node that could not start
 * the trial is left out for a while only, since the lack may be over by now. */
enum care { CARE_FOR_ALL, CARE_FOR_FAILURES, CARE_FOR_NOTHING };

#define CANDIDATES_MAX 256

/* A node with slots that can be asked for now. */
struct candidate {
    const struct placing_node *node;
    uint64_t slots;
    uint32_t slot_count;
};

/* Slots of the nodes that are not left out. */
struct at_best {
    uint32_t slots; /* if none were busy and every node answered */
    uint32_t heard; /* of `slots`, on nodes that answer */
    uint32_t idle;  /* of `slots`, idle, whether or not they can be asked for now */
    uint32_t free;  /* of `idle`, those that can be asked for now */
};

_Static_assert(FACT_SLOTS_MAX <= 64, "a mask has a bit for every slot");

static uint32_t count_bits(uint64_t mask)
{
    uint32_t count = 0;
    for (; mask != 0; mask &= mask - 1) {
        count++;
    }
    return count;
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
    uint32_t others = 0;
    bool any_lacks = false;
    for (uint32_t i = 0; i < snapshot->node_count; i++) {
        any_lacks |= snapshot->nodes[i].lacks_program;
        others += snapshot->nodes[i].lacks_program ? 0 : snapshot->nodes[i].slot_count;
    }
    if (!any_lacks) {
        return false;
    }
    return others >= snapshot->least || (snapshot->is_awaited && snapshot->waited_ms < CORE_BETTER_PLACE_MS);
}

static uint32_t collect(const struct placing_snapshot *snapshot, enum care care, bool leaves_out, struct candidate *candidates,
                        struct at_best *at_best)
{
    uint32_t count = 0;
    *at_best = (struct at_best){0};
    for (uint32_t i = 0; i < snapshot->node_count && count < CANDIDATES_MAX; i++) {
        const struct placing_node *node = &snapshot->nodes[i];
        CHECK(((node->idle | node->refused_long) & ~node->usable) == 0 && (node->refused & ~node->idle) == 0);
        if ((leaves_out && node->lacks_program) || (care == CARE_FOR_ALL && node->is_quarantined) ||
            (care != CARE_FOR_NOTHING && is_avoided(snapshot, node))) {
            continue;
        }
        /* A slot refused for longer than a moment is nothing to wait for. */
        uint64_t slots = care == CARE_FOR_NOTHING ? node->usable : node->usable & ~node->refused_long;
        uint64_t idle = slots & node->idle, free = node->is_silent ? 0 : idle & ~node->refused;
        at_best->slots += count_bits(slots);
        at_best->heard += node->is_silent ? 0 : count_bits(slots);
        at_best->idle += count_bits(idle);
        at_best->free += count_bits(free);
        if (free != 0) {
            candidates[count++] = (struct candidate){node, free, count_bits(free)};
        }
    }
    return count;
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

/* Doubtful nodes come last: a gang that asks them in turns would miss the free slots elsewhere. */
static bool take_slots(struct candidate *candidates, uint32_t count, uint32_t wanted, struct placing_choice *out)
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
    struct at_best at_best = {0};
    uint32_t count = 0, wanted = snapshot->wanted, least = snapshot->least;
    bool leaves_out = placing_leaves_out_lacking(snapshot);
    for (enum care care = CARE_FOR_ALL; care <= CARE_FOR_NOTHING; care++) {
        count = collect(snapshot, care, leaves_out, candidates, &at_best);
        if (at_best.slots >= wanted) {
            break; /* silent nodes are asked again soon: better to wait for them than to take a worse node */
        }
    }
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
    return wanted <= FACT_MEMBERS_MAX && take_slots(candidates, count, wanted, out);
}
