#include "gossip/swim_parts.h"

#include <string.h>

#include "base/check.h"
#include "base/probe.h"

#define ANNOUNCEMENTS 3u
#define INCARNATION_JUMP_MAX ((uint64_t)1 << 24) /* 256 boots of a member, whose incarnations are 2^16 apart
                                                    (node/core/roof/step.c) */

/* ---- states and suspicions ---- */

static void member_set(struct swim *self, uint16_t index, enum swim_state state, uint64_t incarnation,
                       struct swim_effects *out)
{
    struct swim_member *member = &self->members[index];
    enum swim_state old = (enum swim_state)member->state;
    CHECK(state != SWIM_UNKNOWN && incarnation >= member->incarnation);
    member->incarnation = incarnation;
    member->accuser_count = 0;
    member->verifying = false;
    member->suspected_ms = self->now_ms;
    member->state = (uint8_t)state;
    self->counts[old]--;
    self->counts[state]++;
    swim_list_want(self, LIVE, index, state == SWIM_ALIVE || state == SWIM_SUSPECT);
    swim_list_want(self, SUSPECTS, index, state == SWIM_SUSPECT);
    swim_list_want(self, ABSENT, index, state == SWIM_DEAD || state == SWIM_LEFT);
    swim_queue_put(self, index, swim_sends_limit(self));
    if (state != old) {
        struct swim_effect *effect = swim_push(out, SWIM_CHANGED, member->id);
        effect->old_state = old;
        effect->new_state = state;
    }
    swim_burst_want(self);
}

static bool accuser_add(struct swim_member *member, uint16_t accuser)
{
    for (size_t i = 0; i < member->accuser_count; i++) {
        if (member->accusers[i] == accuser) {
            return false;
        }
    }
    if (member->accuser_count == SWIM_ACCUSERS_MAX) {
        return false;
    }
    member->accusers[member->accuser_count++] = accuser;
    return true;
}

static void verify_start(struct swim *self, uint16_t index)
{
    struct swim_member *member = &self->members[index];
    member->verifying = true;
    member->verify_since_ms = self->now_ms;
    member->verify_ms = self->now_ms;
}

/* Notes a further member whose own ping to the suspect failed: the news shortens the suspicion everywhere. */
static void suspect_confirm(struct swim *self, uint16_t index, uint16_t accuser)
{
    if (accuser != NONE && accuser_add(&self->members[index], accuser)) {
        MARK(suspicion_confirmed);
        swim_queue_put(self, index, swim_sends_limit(self));
        swim_burst_want(self);
    }
}

void swim_suspect_first_hand(struct swim *self, uint16_t index, struct swim_effects *out)
{
    struct swim_member *member = &self->members[index];
    if (member->state == SWIM_ALIVE && BUG(dead_at_once, "nobody is declared dead without a suspicion")) {
        member_set(self, index, SWIM_DEAD, member->incarnation, out);
    } else if (member->state == SWIM_ALIVE) {
        member_set(self, index, SWIM_SUSPECT, member->incarnation, out);
        verify_start(self, index);
    }
    if (member->state == SWIM_SUSPECT) {
        suspect_confirm(self, index, SELF);
    }
}

/* Lifeguard, "LHA-Suspicion": max - (max - min) * log(c + 1) / log(k + 1), with c confirmations of the k that are
 * possible. If no member is left to confirm, the duration is min. */
uint64_t swim_suspect_deadline_ms(const struct swim *self, const struct swim_member *member)
{
    static const uint64_t log2_milli[SWIM_ACCUSERS_MAX] = {0, 1000, 1585, 2000}; /* log2 of 1..4, in thousandths */
    uint64_t hoped = self->counts[SWIM_ALIVE];
    if (hoped > SWIM_ACCUSERS_MAX - 1) {
        hoped = SWIM_ACCUSERS_MAX - 1;
    }
    uint64_t confirmed = member->accuser_count > 0 ? member->accuser_count - 1u : 0;
    uint64_t min = swim_suspect_min_ms(self);
    uint64_t max = swim_suspect_max_ms(self);
    uint64_t length = min;
    if (confirmed < hoped) {
        length = max - (max - min) * log2_milli[confirmed] / log2_milli[hoped];
    }
    return member->suspected_ms + length;
}

void swim_suspects_tick(struct swim *self, struct swim_effects *out)
{
    struct swim_list *suspects = &self->lists[SUSPECTS];
    unsigned expired = 0;
    unsigned pinged = 0;
    /* From the end, since dropping a suspect moves the last suspect to its place. */
    for (size_t i = suspects->count; i-- > 0;) {
        uint16_t index = suspects->items[i];
        struct swim_member *member = &self->members[index];
        if (self->now_ms >= swim_suspect_deadline_ms(self, member) &&
            !BUG(suspect_for_ever, "a suspicion that nobody refutes ends with death")) {
            if (expired < SWIM_EXPIRE_MAX) {
                expired++;
                member_set(self, index, SWIM_DEAD, member->incarnation, out);
                swim_urgent_want(self, index); /* a last ping to the member, in case it can hear */
            }
            continue;
        }
        if (!member->verifying || self->now_ms < member->verify_ms || pinged == SWIM_VERIFY_MAX) {
            continue;
        }
        if (self->now_ms >= member->verify_since_ms + self->period_ms * (1u + self->health) &&
            member->heard_ms < member->verify_since_ms) {
            suspect_confirm(self, index, SELF);
        }
        pinged++;
        member->verify_ms = self->now_ms + swim_verify_gap_ms(self);
        swim_send(self, index, SWIM_PING, swim_next_sequence(self), NONE, false, out);
    }
}

void swim_accuser_forget(struct swim *self, uint16_t index)
{
    for (size_t i = 0; i < self->lists[SUSPECTS].count; i++) {
        struct swim_member *suspect = &self->members[self->lists[SUSPECTS].items[i]];
        for (size_t j = suspect->accuser_count; j-- > 0;) {
            if (suspect->accusers[j] == index) {
                suspect->accusers[j] = suspect->accusers[--suspect->accuser_count];
            }
        }
    }
}

/* ---- statements of other members ---- */

static int state_rank(enum swim_state state)
{
    return (int)state; /* the enum has the order alive < suspect < dead < left */
}

/* True if the rumour is older than our view, which should then be passed on. */
static bool rumour_is_stale(const struct swim_member *member, const struct swim_rumour *rumour)
{
    return rumour->incarnation < member->incarnation ||
           (rumour->incarnation == member->incarnation && state_rank(rumour->state) < member->state);
}

static void refute(struct swim *self, const struct swim_rumour *rumour)
{
    bool wrong = rumour->incarnation > self->incarnation ||
                 (rumour->incarnation == self->incarnation && rumour->state != SWIM_ALIVE);
    bool is_absurd = rumour->incarnation > self->incarnation + INCARNATION_JUMP_MAX ||
                     rumour->incarnation + 1 >= SWIM_INCARNATION_MAX;
    if (self->left || !wrong || is_absurd) {
        return;
    }
    self->incarnation = rumour->incarnation + 1;
    if (BUG(refuted_in_silence, "who is accused raises its incarnation")) {
        self->incarnation--;
        return;
    }
    MARK(accusation_refuted);
    self->announce_left = ANNOUNCEMENTS;
    swim_burst_want(self);
    if (rumour->state == SWIM_SUSPECT) {
        swim_health_add(self, 1);
    }
    uint16_t accuser = swim_member_find(self, rumour->from);
    if (accuser != NONE) {
        swim_urgent_want(self, accuser);
    }
}

void swim_apply_rumour(struct swim *self, const struct swim_rumour *rumour, struct swim_effects *out)
{
    if (node_id_equal(rumour->node, self->self)) {
        refute(self, rumour);
        return;
    }
    uint16_t index = swim_member_find(self, rumour->node);
    if (index == NONE) {
        return;
    }
    const struct swim_member *member = &self->members[index];
    if (member->own_incarnation != 0 && rumour->incarnation > member->own_incarnation + INCARNATION_JUMP_MAX) {
        return;
    }
    if (rumour_is_stale(member, rumour)) {
        if (state_rank(rumour->state) != member->state) {
            MARK(stale_rumour_answered);
            swim_queue_put(self, index, 2);
        }
        return;
    }
    uint16_t accuser = NONE;
    if (rumour->state == SWIM_SUSPECT && !node_id_equal(rumour->from, rumour->node)) {
        accuser = node_id_equal(rumour->from, self->self) ? NONE : swim_member_find(self, rumour->from);
    }
    bool known = rumour->incarnation == member->incarnation && state_rank(rumour->state) == member->state;
    if (!known) {
        member_set(self, index, rumour->state, rumour->incarnation, out);
        /* Check the suspect ourselves; in a large mesh only about eight members do, or it would drown in pings. */
        if (rumour->state == SWIM_SUSPECT && random_below(&self->random, self->member_count) < 8) {
            verify_start(self, index);
        }
    }
    if (rumour->state == SWIM_SUSPECT) {
        suspect_confirm(self, index, accuser);
    }
}

void swim_apply_sender(struct swim *self, uint16_t index, uint64_t incarnation, struct swim_effects *out)
{
    struct swim_member *member = &self->members[index];
    member->heard_ms = self->now_ms;
    member->own_incarnation = incarnation;
    bool is_far_below = member->incarnation > incarnation + INCARNATION_JUMP_MAX; /* it could never catch up: see swim.c */
    if (is_far_below) {
        member->incarnation = incarnation;
    }
    if (is_far_below || incarnation > member->incarnation || member->state == SWIM_UNKNOWN) {
        if (member->state == SWIM_ALIVE) {
            member->incarnation = incarnation;
            /* Refutes an accusation that other members may still hold. */
            swim_queue_put(self, index, swim_sends_limit(self));
        } else {
            member_set(self, index, SWIM_ALIVE, incarnation, out);
        }
    } else if (member->state == SWIM_DEAD) {
        MARK(the_dead_speak);
        swim_urgent_want(self, index);
    }
}
