#include "gossip/election.h"

#include "base/check.h"
#include "base/err.h"
#include "base/probe.h"
#include "base/rendezvous.h"

int election_claim_compare(struct election_claim a, struct election_claim b)
{
    if (a.term != b.term) {
        return a.term < b.term ? -1 : 1;
    }
    return node_id_compare(a.node, b.node);
}

void election_init(struct election *election)
{
    *election = (struct election){.state = ELECTION_FOLLOWING};
}

static void follow(struct election *election)
{
    election->state = ELECTION_FOLLOWING;
    election->vacant = false;
}

int election_observe(struct election *election, struct election_claim claim, bool released, node_id self,
                     enum election_action *action)
{
    return lamport_follows(election->highest.term, claim.term) ? election_take(election, claim, released, self, action)
                                                               : ERR_REFUSED;
}

int election_take(struct election *election, struct election_claim claim, bool released, node_id self,
                  enum election_action *action)
{
    if (claim.term == 0 || node_id_is_none(claim.node)) {
        return ERR_REFUSED;
    }
    *action = ELECTION_NOTHING;
    int order = election_claim_compare(claim, election->highest);
    if (order < 0) {
        return 0;
    }
    if (order == 0) {
        if (released && !election->highest_released) {
            election->highest_released = true;
            follow(election);
        }
        return 0;
    }
    if (election->state == ELECTION_LEADING) {
        MARK(coordinator_yields);
        *action = ELECTION_YIELD;
    }
    /* Our own claim on its way to disk stays if still higher: the other node will yield. */
    struct election_claim ours = {.term = election->claiming_term, .node = self};
    if (election->claiming && election_claim_compare(claim, ours) > 0) {
        MARK(claim_overtaken);
        election->claiming = false;
    }
    election->highest = claim;
    election->highest_released = released;
    follow(election);
    return 0;
}

static const struct election_member *member_find(const struct election_member *members, uint32_t count, node_id node)
{
    uint32_t low = 0;
    while (count > 0) {
        uint32_t half = count / 2;
        int order = node_id_compare(members[low + half].node, node);
        if (order == 0) {
            return &members[low + half];
        }
        if (order < 0) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return NULL;
}

static bool incumbent_lives(const struct election *election, node_id self, const struct election_member *members,
                            uint32_t member_count)
{
    if (node_id_is_none(election->highest.node) || election->highest_released) {
        return false;
    }
    if (node_id_equal(election->highest.node, self)) {
        return true;
    }
    const struct election_member *member = member_find(members, member_count, election->highest.node);
    return member != NULL && member->alive;
}

/* Order of the classes: 0, the expected node (a drained one claims and hands over); 1, nodes up for a while; 2, new
 * nodes; 3, drained nodes and the node that released the experiment. */
static int member_class(const struct election *election, uint64_t now_ms, const struct election_member *member)
{
    if (election->highest_released && node_id_equal(member->node, election->highest.node)) {
        return 3;
    }
    if (election->highest_released && node_id_equal(member->node, election->expected)) {
        return 0;
    }
    if (member->drained) {
        return 3;
    }
    bool up_long =
        member->up_since_ms == 0 || (now_ms >= member->up_since_ms && now_ms - member->up_since_ms >= ELECTION_UP_MS);
    return up_long ? 1 : 2;
}

/* How many living members come before `mine` in the order of succession; `*others` is the number of living members. */
static uint32_t rank_of(const struct election *election, uint64_t now_ms, const struct election_member *mine,
                        experiment_id experiment, const struct election_member *members, uint32_t member_count,
                        uint32_t *others)
{
    int my_class = member_class(election, now_ms, mine);
    uint64_t my_weight = rendezvous_weight(mine->node, experiment.bytes, sizeof experiment.bytes);
    uint32_t rank = 0;
    *others = 0;
    for (uint32_t i = 0; i < member_count; i++) {
        const struct election_member *other = &members[i];
        if (other == mine || !other->alive) {
            continue;
        }
        (*others)++;
        int class = member_class(election, now_ms, other);
        uint64_t weight = rendezvous_weight(other->node, experiment.bytes, sizeof experiment.bytes);
        bool heavier = weight != my_weight ? weight > my_weight : node_id_compare(other->node, mine->node) > 0;
        if (class < my_class || (class == my_class && heavier)) {
            rank++;
        }
    }
    return rank;
}

static enum election_action claim(struct election *election)
{
    follow(election);
    election->claiming_term = election->highest.term + 1;
    election->claiming = true;
    return ELECTION_CLAIM;
}

/* Our turn has come to fill the vacancy. */
static enum election_action step_candidate(struct election *election, uint64_t now_ms, uint32_t others)
{
    bool nobody_to_miss = node_id_is_none(election->highest.node) || election->highest_released;
    if (nobody_to_miss || others == 0 ||
        BUG(candidate_asks_nobody, "a candidate first asks whether anyone still hears the incumbent")) {
        return claim(election);
    }
    if (election->state == ELECTION_ASKING) {
        return now_ms >= election->until_ms ? claim(election) : ELECTION_NOTHING;
    }
    if (election->state == ELECTION_WAITING && now_ms < election->until_ms) {
        return ELECTION_NOTHING;
    }
    election->state = ELECTION_ASKING;
    election->until_ms = now_ms + ELECTION_ASK_MS;
    return ELECTION_ASK;
}

enum election_action election_step(struct election *election, uint64_t now_ms, node_id self, experiment_id experiment,
                                   const struct election_member *members, uint32_t member_count)
{
    if (election->claiming) {
        return ELECTION_NOTHING;
    }
    uint32_t living = 0;
    const struct election_member *usurper = member_find(members, member_count, self);
    if (election->state != ELECTION_LEADING && usurper != NULL &&
        BUG(incumbent_not_sticky, "the incumbent stays while it lives") &&
        rank_of(election, now_ms, usurper, experiment, members, member_count, &living) == 0) {
        return claim(election);
    }
    if (incumbent_lives(election, self, members, member_count)) {
        if (election->state == ELECTION_LEADING) {
            CHECK(node_id_equal(election->highest.node, self));
            return ELECTION_NOTHING;
        }
        if (node_id_equal(election->highest.node, self)) {
            MARK(restarted_coordinator_claims);
            return claim(election); /* we led in an earlier boot: a restarted coordinator takes a new term */
        }
        follow(election);
        return ELECTION_NOTHING;
    }
    CHECK(election->state != ELECTION_LEADING);

    if (!election->vacant) {
        election->vacant = true;
        election->vacant_since_ms = now_ms;
    }
    const struct election_member *mine = member_find(members, member_count, self);
    if (mine == NULL) {
        election->state = ELECTION_FOLLOWING;
        election->until_ms = UINT64_MAX;
        return ELECTION_NOTHING;
    }
    uint32_t others;
    uint32_t rank = rank_of(election, now_ms, mine, experiment, members, member_count, &others);
    uint64_t turn_ms = election->vacant_since_ms + (uint64_t)rank * ELECTION_TURN_MS;
    if (now_ms < turn_ms) {
        MARK(candidate_waits_its_turn);
        election->state = ELECTION_FOLLOWING;
        election->until_ms = turn_ms;
        return ELECTION_NOTHING;
    }
    return step_candidate(election, now_ms, others);
}

void election_answer(struct election *election, uint64_t now_ms, bool hears)
{
    if (election->state == ELECTION_ASKING && hears) {
        MARK(candidate_blocked);
        election->state = ELECTION_WAITING;
        election->until_ms = now_ms + ELECTION_RETRY_MS;
    }
}

void election_lost(struct election *election)
{
    election->claiming = false;
    follow(election);
}

void election_expect(struct election *election, node_id node)
{
    election->expected = node;
}

void election_led(struct election *election, struct election_claim claimed)
{
    if (election->claiming && election->claiming_term == claimed.term) {
        election->claiming = false;
    }
    int order = election_claim_compare(claimed, election->highest);
    if (order < 0 || (order == 0 && election->highest_released)) {
        return;
    }
    election->highest = claimed;
    election->highest_released = false;
    election->claiming = false;
    election->vacant = false;
    election->state = ELECTION_LEADING;
}

uint64_t election_next_term(const struct election *election)
{
    return election->claiming ? election->claiming_term : election->highest.term + 1;
}

uint64_t election_next_ms(const struct election *election)
{
    if (election->claiming || !election->vacant) {
        return UINT64_MAX;
    }
    return election->until_ms;
}

void election_shift(struct election *election, uint64_t gap_ms)
{
    if (election->vacant) {
        election->vacant_since_ms += gap_ms;
        if (election->until_ms != UINT64_MAX) {
            election->until_ms += gap_ms;
        }
    }
}
