#include "gossip/swim_parts.h"

#include "base/probe.h"

#define HEALTH_MAX 2u
#define REVISITS_PER_LEFT 8u /* one visit in this many goes to a left member */

/* ---- the probe ---- */

/* The round-robin: the members from the cursor on, in no particular order, have not had a turn in this round; a random
 * one is next. So each round is a fresh shuffle, at a cost of O(1) per probe. */
static void probe_start(struct swim *self, struct swim_effects *out)
{
    struct swim_list *live = &self->lists[LIVE];
    uint64_t scale = 1u + self->health;
    self->probing = false;
    self->probe_end_ms = self->now_ms + self->period_ms * scale;
    if (live->count == 0) {
        return;
    }
    if (self->probe_cursor >= live->count) {
        self->probe_cursor = 0;
    }
    uint16_t drawn =
        (uint16_t)(self->probe_cursor + random_below(&self->random, (uint64_t)live->count - self->probe_cursor));
    swim_list_swap(self, LIVE, self->probe_cursor, drawn);
    self->probe_target = live->items[self->probe_cursor++];
    self->probing = true;
    self->probe_acked = false;
    self->probe_helped = false;
    self->probe_helpers = 0;
    self->probe_nacks = 0;
    self->probe_sequence = swim_next_sequence(self);
    self->probe_help_ms = self->now_ms + self->ack_ms * scale;
    swim_send(self, self->probe_target, SWIM_PING, self->probe_sequence, NONE, false, out);
}

static void probe_help(struct swim *self, struct swim_effects *out)
{
    uint16_t helpers[SWIM_HELPERS_MAX];
    self->probe_helped = true;
    self->probe_helpers = (uint8_t)swim_pick_live(self, self->probe_target, true, helpers, SWIM_HELPERS_MAX);
    for (unsigned i = 0; i < self->probe_helpers; i++) {
        swim_send(self, helpers[i], SWIM_PING_REQ, self->probe_sequence, self->probe_target, false, out);
    }
}

static void probe_end(struct swim *self, struct swim_effects *out)
{
    if (self->probe_acked) {
        swim_health_add(self, -1);
        return;
    }
    /* Lifeguard: no helper answered either, so the problem may be ours. */
    if (self->probe_helpers > 0 && self->probe_nacks == 0) {
        MARK(no_helper_said_a_word);
        swim_health_add(self, 1);
    }
    swim_suspect_first_hand(self, self->probe_target, out);
}

void swim_probe_tick(struct swim *self, struct swim_effects *out)
{
    if (self->probing && !self->probe_acked && !self->probe_helped && self->now_ms >= self->probe_help_ms) {
        probe_help(self, out);
    }
    if (self->now_ms >= self->probe_end_ms) {
        if (self->probing) {
            probe_end(self, out);
        }
        probe_start(self, out);
    }
}

void swim_health_add(struct swim *self, int change)
{
    if (change > 0 && self->health < HEALTH_MAX) {
        self->health++;
    } else if (change < 0 && self->health > 0) {
        self->health--;
    }
}

void swim_probe_nack(struct swim *self, uint32_t sequence)
{
    if (self->probing && sequence == self->probe_sequence && self->probe_nacks < self->probe_helpers) {
        self->probe_nacks++;
    }
}

/* ---- on behalf of other members ---- */

void swim_relay(struct swim *self, uint16_t from, uint16_t target, uint32_t sequence, struct swim_effects *out)
{
    for (size_t i = 0; i < SWIM_RELAYS_MAX; i++) {
        struct swim_relay *relay = &self->relays[i];
        if (!relay->used) {
            *relay = (struct swim_relay){.used = true,
                                         .requester = from,
                                         .target = target,
                                         .sequence = sequence,
                                         .own_sequence = swim_next_sequence(self),
                                         .nack_ms = self->now_ms + self->ack_ms,
                                         .end_ms = self->now_ms + self->period_ms};
            swim_send(self, target, SWIM_PING, relay->own_sequence, NONE, false, out);
            return;
        }
    }
}

void swim_probe_ack(struct swim *self, uint16_t from, const struct swim_message *message, struct swim_effects *out)
{
    bool direct = node_id_is_none(message->target);
    if (self->probing && message->sequence == self->probe_sequence) {
        node_id target = self->members[self->probe_target].id;
        if (direct ? from == self->probe_target : node_id_equal(message->target, target)) {
            self->probe_acked = true;
        }
        return;
    }
    if (!direct) {
        return;
    }
    for (size_t i = 0; i < SWIM_RELAYS_MAX; i++) {
        struct swim_relay *relay = &self->relays[i];
        if (relay->used && relay->own_sequence == message->sequence && relay->target == from) {
            MARK(helper_relayed_an_ack);
            relay->used = false;
            swim_send(self, relay->requester, SWIM_ACK, relay->sequence, relay->target, false, out);
            return;
        }
    }
}

void swim_relays_tick(struct swim *self, struct swim_effects *out)
{
    for (size_t i = 0; i < SWIM_RELAYS_MAX; i++) {
        struct swim_relay *relay = &self->relays[i];
        if (relay->used && !relay->nacked && self->now_ms >= relay->nack_ms) {
            MARK(helper_got_no_answer);
            relay->nacked = true;
            swim_send(self, relay->requester, SWIM_NACK, relay->sequence, relay->target, false, out);
        }
        if (relay->used && self->now_ms >= relay->end_ms) {
            relay->used = false;
        }
    }
}

void swim_probe_forget(struct swim *self, uint16_t index)
{
    for (size_t i = 0; i < SWIM_RELAYS_MAX; i++) {
        if (self->relays[i].requester == index || self->relays[i].target == index) {
            self->relays[i].used = false;
        }
    }
    if (self->probing && self->probe_target == index) {
        self->probing = false;
    }
}

/* ---- other pings ---- */

void swim_urgent_want(struct swim *self, uint16_t index)
{
    const struct swim_member *member = &self->members[index];
    bool lately = member->pinged_ms != 0 && self->now_ms < member->pinged_ms + self->period_ms;
    if (!lately) {
        swim_list_want(self, URGENT, index, true);
    }
}

void swim_urgent_tick(struct swim *self, struct swim_effects *out)
{
    struct swim_list *urgent = &self->lists[URGENT];
    if (urgent->count == 0 || self->now_ms < self->urgent_ms) {
        return;
    }
    for (unsigned i = 0; i < SWIM_URGENT_MAX && urgent->count > 0; i++) {
        uint16_t index = urgent->items[0];
        swim_list_drop(self, URGENT, index);
        self->members[index].pinged_ms = self->now_ms;
        swim_send(self, index, SWIM_PING, swim_next_sequence(self), NONE, false, out);
    }
    self->urgent_ms = self->now_ms + swim_burst_gap_ms(self);
}

/* The absent member visited longest ago: with `left` among the left members, otherwise among the rest. So each has a
 * turn in every round, even as members come and go. */
static uint16_t revisit_next(const struct swim *self, bool left)
{
    const struct swim_list *absent = &self->lists[ABSENT];
    uint16_t next = NONE;
    for (uint32_t i = 0; i < absent->count; i++) {
        const struct swim_member *member = &self->members[absent->items[i]];
        if ((member->state == SWIM_LEFT) == left &&
            (next == NONE || member->visited_ms < self->members[next].visited_ms)) {
            next = absent->items[i];
        }
    }
    return next;
}

void swim_revisit_tick(struct swim *self, struct swim_effects *out)
{
    if (self->now_ms < self->revisit_ms) {
        return;
    }
    self->revisit_ms = self->now_ms + swim_revisit_gap_ms(self);
    self->visits++;
    uint16_t index = self->visits % REVISITS_PER_LEFT == 0 ? revisit_next(self, true) : NONE;
    index = index == NONE ? revisit_next(self, false) : index;
    if (index == NONE) {
        return;
    }
    struct swim_member *member = &self->members[index];
    uint16_t helper;
    uint32_t sequence = swim_next_sequence(self);
    swim_send(self, index, SWIM_PING, sequence, NONE, false, out);
    /* It may be alive beyond a link that does not work. Others have no news of it, and its state is no rumour of ours that they
     * could correct: so one of them is asked. */
    if (member->state == SWIM_UNKNOWN && member->visited_ms != 0 && swim_pick_live(self, NONE, true, &helper, 1) == 1) {
        swim_send(self, helper, SWIM_PING_REQ, sequence, index, false, out);
    }
    member->visited_ms = self->now_ms;
}

void swim_burst_want(struct swim *self)
{
    if (!self->burst_wanted) {
        self->burst_wanted = true;
        uint64_t soonest = self->burst_last_ms + swim_burst_gap_ms(self);
        self->burst_ms = soonest > self->now_ms ? soonest : self->now_ms;
    }
}

void swim_burst_tick(struct swim *self, struct swim_effects *out)
{
    if (!self->burst_wanted || self->now_ms < self->burst_ms) {
        return;
    }
    self->burst_wanted = false;
    self->burst_last_ms = self->now_ms;
    uint16_t members[SWIM_BURST_MAX];
    unsigned count = swim_pick_live(self, NONE, false, members, SWIM_BURST_MAX);
    for (unsigned i = 0; i < count; i++) {
        swim_send(self, members[i], SWIM_PING, 0, NONE, false, out);
    }
    if (self->announce_left > 0) {
        self->announce_left--;
        swim_burst_want(self);
    }
}
