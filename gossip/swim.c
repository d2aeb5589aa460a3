/* SWIM (sections 3 and 4) with Lifeguard. Every period we ping one member, in a shuffled round-robin. If no ACK comes
 * within ack_ms, three helpers ping it for us. If none comes by the end of the period, the member is suspect, and all
 * members are told.
 *
 *     ALIVE --probe failed--> SUSPECT --time over--> DEAD        any --higher incarnation--> ALIVE
 *       ^------higher incarnation-------'                        any --it said so itself--> LEFT
 *
 * A suspicion lasts suspect_max, less for each member with failed pings of its own that confirms it, at least
 * suspect_min. Meanwhile the suspect is pinged often, each time with the rumour (Lifeguard's buddy rule). One ping that
 * gets through makes the suspect raise its incarnation, carried by all its messages from then on. So at 5 % loss a
 * false suspicion is common and harmless, and a false death needs some ten losses in a row.
 *
 * Every message carries the recent changes sent least often. Each member that hears of a change also tells three random
 * members at once; so all members know within a few round trips.
 *
 * Dead and unknown members are pinged in turn for ever, or a healed partition would never be noticed; an unknown one through
 * another member, too, since the link to it may not work; and pings carry
 * our view of the dead and left members in turn, so differing views meet. Left members are pinged too, less often: a
 * member may have come back beyond a partition, with the news that we left.
 *
 * A rumour about a member's incarnation counts only near the incarnation that we last heard from the member itself: so
 * no rumour can claim an incarnation that the member could never exceed. A member raises its own incarnation by no more
 * than this distance at once. If a member is heard to be far below the believed incarnation, the member is believed:
 * the higher value was made up before we heard the member, or comes from a boot with accusations without end.
 *
 * Known weakness: a member may lie (any member can be accused; the accused then refutes). Peers are authenticated
 * members of one lab. */
#include "gossip/swim_parts.h"

#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/probe.h"

#define FIRST_CAPACITY 8u

/* ---- times: all of them, in periods ---- */

uint64_t swim_suspect_min_ms(const struct swim *self)
{
    /* Up to 64 members a refutation reaches all in well under a period; beyond that, allow one period more per
     * doubling. */
    uint64_t periods = 4;
    for (uint32_t n = 64; n < self->member_count + 1u; n *= 2) {
        periods++;
    }
    return periods * self->period_ms;
}

uint64_t swim_suspect_max_ms(const struct swim *self)
{
    return swim_suspect_min_ms(self) * 8 / 5;
}

/* Ten pings in the shortest suspicion. */
uint64_t swim_verify_gap_ms(const struct swim *self)
{
    return self->period_ms * 2 / 5;
}

uint64_t swim_burst_gap_ms(const struct swim *self)
{
    return self->period_ms / 10;
}

/* Two periods for up to 16 absent members, less for more, at least a fifth of a period. */
uint64_t swim_revisit_gap_ms(const struct swim *self)
{
    uint64_t share = 2u * self->period_ms / (1u + self->lists[ABSENT].count / 16u);
    uint64_t least = self->period_ms / 5;
    return share > least ? share : least;
}

uint8_t swim_sends_limit(const struct swim *self)
{
    uint8_t bits = 0;
    for (uint32_t n = self->member_count + 1u; n > 0; n >>= 1) {
        bits++;
    }
    return (uint8_t)(3 * bits + 4);
}

/* ---- start ---- */

int swim_init(struct swim *self, const struct swim_options *options, struct arena *arena)
{
    uint32_t period_ms = options->period_ms != 0 ? options->period_ms : 500;
    uint32_t ack_ms = options->ack_ms != 0 ? options->ack_ms : 200;
    CHECK(!node_id_is_none(options->self));
    CHECK(period_ms >= 100 && ack_ms * 2 <= period_ms);
    CHECK(options->incarnation < SWIM_INCARNATION_MAX);
    memset(self, 0, sizeof *self);
    self->arena = arena;
    int rc = swim_members_grow(self, FIRST_CAPACITY);
    if (rc != 0) {
        return rc;
    }
    self->self = options->self;
    self->now_ms = options->now_ms;
    self->ticked_ms = options->now_ms;
    self->period_ms = period_ms;
    self->ack_ms = ack_ms;
    self->incarnation = options->incarnation;
    random_init_stream(&self->random, options->seed, bytes_hash64(options->self.bytes, NODE_ID_BYTES, 0));
    self->sequence = (uint32_t)random_u64(&self->random); /* random, so that late answers to an earlier boot match no probe */
    /* Nodes that start at the same time probe out of step. */
    self->probe_end_ms = options->now_ms + random_below(&self->random, period_ms);
    self->revisit_ms = options->now_ms + 2u * period_ms;
    self->expected_ms = swim_next_ms(self);
    return 0;
}

/* ---- when the next tick is due ---- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* When something is due; that time may be in the past. */
static uint64_t due_ms(const struct swim *self)
{
    if (self->left) {
        return self->left_cursor < self->lists[LIVE].count ? self->ticked_ms + swim_burst_gap_ms(self) : UINT64_MAX;
    }
    uint64_t due = self->probe_end_ms;
    if (self->probing && !self->probe_acked && !self->probe_helped) {
        due = earlier(due, self->probe_help_ms);
    }
    if (self->lists[URGENT].count > 0) {
        due = earlier(due, self->urgent_ms);
    }
    if (self->lists[ABSENT].count > 0) {
        due = earlier(due, self->revisit_ms);
    }
    if (self->burst_wanted) {
        due = earlier(due, self->burst_ms);
    }
    for (size_t i = 0; i < SWIM_RELAYS_MAX; i++) {
        const struct swim_relay *relay = &self->relays[i];
        if (relay->used) {
            due = earlier(due, relay->nacked ? relay->end_ms : relay->nack_ms);
        }
    }
    for (size_t i = 0; i < self->lists[SUSPECTS].count; i++) {
        const struct swim_member *member = &self->members[self->lists[SUSPECTS].items[i]];
        due = earlier(due, swim_suspect_deadline_ms(self, member));
        if (member->verifying) {
            due = earlier(due, member->verify_ms);
        }
    }
    return due;
}

uint64_t swim_next_ms(const struct swim *self)
{
    uint64_t due = due_ms(self);
    return due > self->ticked_ms ? due : self->ticked_ms + 1;
}

void swim_expect_sooner(struct swim *self)
{
    uint64_t due = due_ms(self);
    self->expected_ms = earlier(self->expected_ms, due > self->now_ms ? due : self->now_ms);
}

/* ---- received ---- */

static bool message_is_sound(const struct swim *self, node_id from, const struct swim_message *message)
{
    if (message->rumour_count > SWIM_RUMOURS_MAX || message->incarnation >= SWIM_INCARNATION_MAX) {
        return false;
    }
    for (size_t i = 0; i < message->rumour_count; i++) {
        const struct swim_rumour *rumour = &message->rumours[i];
        bool state_known = rumour->state == SWIM_ALIVE || rumour->state == SWIM_SUSPECT || rumour->state == SWIM_DEAD ||
                           rumour->state == SWIM_LEFT;
        if (!state_known || rumour->incarnation >= SWIM_INCARNATION_MAX || node_id_is_none(rumour->node)) {
            return false;
        }
    }
    bool targeted = !node_id_is_none(message->target);
    bool about_third = targeted && !node_id_equal(message->target, from) && !node_id_equal(message->target, self->self);
    switch (message->kind) {
    case SWIM_PING:
        return !targeted;
    case SWIM_ACK:
        return message->sequence != 0 && (!targeted || about_third);
    case SWIM_PING_REQ:
    case SWIM_NACK:
        return message->sequence != 0 && about_third;
    }
    return false;
}

int swim_receive(struct swim *self, uint64_t now_ms, node_id from, const struct swim_message *message,
                 struct swim_effects *out)
{
    CHECK(now_ms >= self->now_ms);
    out->count = 0;
    if (!message_is_sound(self, from, message)) {
        return ERR_MALFORMED;
    }
    uint16_t index = swim_member_find(self, from);
    if (index == NONE) {
        return ERR_NOT_FOUND;
    }
    uint16_t target = NONE;
    if (message->kind == SWIM_PING_REQ) {
        target = swim_member_find(self, message->target);
        if (target == NONE) {
            return ERR_NOT_FOUND;
        }
    }
    self->now_ms = now_ms;
    bool behind = message->incarnation < self->members[index].incarnation;
    swim_apply_sender(self, index, message->incarnation, out);
    for (size_t i = 0; i < message->rumour_count; i++) {
        swim_apply_rumour(self, &message->rumours[i], out);
    }
    switch (message->kind) {
    case SWIM_PING:
        if (message->sequence != 0) {
            swim_send(self, index, SWIM_ACK, message->sequence, NONE, behind, out);
        }
        break;
    case SWIM_ACK:
        swim_probe_ack(self, index, message, out);
        break;
    case SWIM_PING_REQ:
        if (!self->left) {
            swim_relay(self, index, target, message->sequence, out);
        }
        break;
    case SWIM_NACK:
        swim_probe_nack(self, message->sequence);
        break;
    }
    swim_expect_sooner(self);
    return 0;
}

void swim_heard(struct swim *self, uint64_t now_ms, node_id node)
{
    CHECK(now_ms >= self->now_ms);
    uint16_t index = swim_member_find(self, node);
    if (index == NONE) {
        return;
    }
    self->now_ms = now_ms;
    struct swim_member *member = &self->members[index];
    member->heard_ms = now_ms;
    if (member->state == SWIM_UNKNOWN || member->state == SWIM_DEAD) {
        swim_urgent_want(self, index);
        swim_expect_sooner(self);
    }
}

/* ---- time ---- */

static void shift_time(uint64_t *time_ms, uint64_t gap_ms, uint64_t limit_ms)
{
    if (*time_ms != 0) {
        uint64_t moved_ms = *time_ms + gap_ms;
        *time_ms = moved_ms < limit_ms ? moved_ms : limit_ms;
    }
}

/* Moves all times by the gap, past times at most to `limit_ms`: messages that came after the gap, but before we noticed
 * it, have the right time already. */
static void shift(struct swim *self, uint64_t gap_ms, uint64_t limit_ms)
{
    if (self->expected_ms != UINT64_MAX) {
        self->expected_ms += gap_ms;
    }
    shift_time(&self->probe_help_ms, gap_ms, UINT64_MAX);
    shift_time(&self->probe_end_ms, gap_ms, UINT64_MAX);
    shift_time(&self->urgent_ms, gap_ms, limit_ms);
    shift_time(&self->revisit_ms, gap_ms, UINT64_MAX);
    shift_time(&self->burst_ms, gap_ms, limit_ms);
    shift_time(&self->burst_last_ms, gap_ms, limit_ms);
    for (size_t i = 0; i < SWIM_RELAYS_MAX; i++) {
        shift_time(&self->relays[i].nack_ms, gap_ms, UINT64_MAX);
        shift_time(&self->relays[i].end_ms, gap_ms, UINT64_MAX);
    }
    for (size_t i = 0; i < self->member_count; i++) {
        struct swim_member *member = &self->members[self->order[i]];
        shift_time(&member->heard_ms, gap_ms, limit_ms);
        shift_time(&member->pinged_ms, gap_ms, limit_ms);
        shift_time(&member->visited_ms, gap_ms, limit_ms);
        shift_time(&member->suspected_ms, gap_ms, limit_ms);
        shift_time(&member->verify_ms, gap_ms, limit_ms);
        shift_time(&member->verify_since_ms, gap_ms, limit_ms);
    }
}

void swim_shift(struct swim *self, uint64_t gap_ms)
{
    shift(self, gap_ms, UINT64_MAX);
}

static void tell_leaving(struct swim *self, struct swim_effects *out)
{
    for (unsigned i = 0; i < SWIM_LEAVE_MAX && self->left_cursor < self->lists[LIVE].count; i++) {
        swim_send(self, self->lists[LIVE].items[self->left_cursor++], SWIM_PING, 0, NONE, false, out);
    }
}

void swim_tick(struct swim *self, uint64_t now_ms, struct swim_effects *out)
{
    CHECK(now_ms >= self->now_ms);
    out->count = 0;
    if (now_ms > self->expected_ms && now_ms - self->expected_ms > self->period_ms) {
        MARK(own_stall_noticed);
        shift(self, now_ms - self->expected_ms, now_ms);
        swim_health_add(self, 1);
    }
    self->now_ms = now_ms;
    self->ticked_ms = now_ms;
    if (self->left) {
        tell_leaving(self, out);
        self->expected_ms = swim_next_ms(self);
        return;
    }
    swim_suspects_tick(self, out);
    swim_relays_tick(self, out);
    swim_probe_tick(self, out);
    swim_urgent_tick(self, out);
    swim_revisit_tick(self, out);
    swim_burst_tick(self, out);
    self->expected_ms = swim_next_ms(self);
    CHECK(self->expected_ms > now_ms);
}

void swim_leave(struct swim *self, uint64_t now_ms, struct swim_effects *out)
{
    CHECK(now_ms >= self->now_ms);
    out->count = 0;
    if (self->left) {
        return;
    }
    self->now_ms = now_ms;
    self->ticked_ms = now_ms;
    self->left = true;
    self->left_cursor = 0;
    tell_leaving(self, out);
    self->expected_ms = swim_next_ms(self);
}
