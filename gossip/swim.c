/* Every period we ping one member, in a shuffled round-robin. No ACK within ack_ms: three helpers ping it for us. None
 * by the end of the period: it is suspect, and everybody hears so.
 *
 *     ALIVE --probe failed--> SUSPECT --time over--> DEAD        any --higher incarnation--> ALIVE
 *       ^------higher incarnation-------'                        any --it said so itself--> LEFT
 *
 * A suspicion lasts suspect_max, less for each member that confirms it from its own failed pings, down to suspect_min.
 * While it lasts the suspect is pinged often, each time with the rumour (Lifeguard's buddy rule): one ping that gets
 * through makes it raise its incarnation, which all its messages carry from then on. So at 5 % loss a false suspicion
 * is common and harmless, and a false death needs some ten losses in a row.
 *
 * Every message carries the least told of the recent changes. A change is also told at once to three random members by
 * each one that hears of it, so that all know within a few round trips.
 *
 * The dead and the unknown are pinged in turn for ever, or a healed partition would never be noticed; and pings carry
 * one by one what we believe of the dead and the left, so that differing views meet. Who left is pinged too, less often:
 * it may have come back beyond a partition, and have been told there that we left.
 *
 * Known weakness: a member may lie about others (it can accuse anyone, and waste 2^48 incarnations with one rumour; the
 * accused then refutes with a still higher one). Peers are authenticated members of one lab. */
#include "gossip/swim.h"

#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/probe.h"

#define NONE UINT16_MAX
#define SELF (UINT16_MAX - 1) /* among accusers */
#define FIRST_CAPACITY 8u
#define HEALTH_MAX 2u
#define ANNOUNCEMENTS 3u
#define REVISITS_PER_LEFT 8u /* one visit in so many is to somebody who left */
#define WALK_MAX 64u /* the longest walk in search of a suitable member */
#define INCARNATION_JUMP_MAX ((uint64_t)1 << 48)
_Static_assert(SWIM_MEMBERS_MAX < SELF, "indices fit");
_Static_assert(sizeof(struct swim_member) + 7 * sizeof(uint16_t) < 200, "a member is small");

enum list_name { LIVE, SUSPECTS, ABSENT, URGENT };

/* ---- times: all of them, in periods ---- */

static uint64_t suspect_min_ms(const struct swim *self)
{
    /* Up to 64 members a refutation reaches all in well under a period; beyond that give it one per doubling. */
    uint64_t periods = 4;
    for (uint32_t n = 64; n < self->member_count + 1u; n *= 2) {
        periods++;
    }
    return periods * self->period_ms;
}

static uint64_t suspect_max_ms(const struct swim *self)
{
    return suspect_min_ms(self) * 8 / 5;
}

/* Ten pings in the shortest suspicion. */
static uint64_t verify_gap_ms(const struct swim *self)
{
    return self->period_ms * 2 / 5;
}

static uint64_t burst_gap_ms(const struct swim *self)
{
    return self->period_ms / 10;
}

/* Two periods for up to 16 absent members, shorter for more, at least a fifth of a period. */
static uint64_t revisit_gap_ms(const struct swim *self)
{
    uint64_t share = 2u * self->period_ms / (1u + self->lists[ABSENT].count / 16u);
    uint64_t least = self->period_ms / 5;
    return share > least ? share : least;
}

static uint8_t sends_limit(const struct swim *self)
{
    uint8_t bits = 0;
    for (uint32_t n = self->member_count + 1u; n > 0; n >>= 1) {
        bits++;
    }
    return (uint8_t)(3 * bits + 4);
}

/* ---- members and the lists that they are in ---- */

const char *swim_state_name(enum swim_state state)
{
    static const char *const names[SWIM_STATE_COUNT] = {"unknown", "alive", "suspect", "dead", "left"};
    return (unsigned)state < SWIM_STATE_COUNT ? names[state] : "invalid";
}

/* Members are laid out in one block, so that growing either works or changes nothing. */
static size_t block_layout(uint16_t capacity, size_t offsets[6])
{
    size_t at = (size_t)capacity * sizeof(struct swim_member);
    for (int i = 0; i < 6; i++) {
        offsets[i] = at;
        at += (size_t)capacity * sizeof(uint16_t);
    }
    return at;
}

static int grow(struct swim *self, uint16_t capacity)
{
    size_t offsets[6];
    size_t bytes = block_layout(capacity, offsets);
    uint8_t *block = arena_take(self->arena, bytes);
    if (block == NULL) {
        return ERR_MEMORY;
    }
    uint16_t **arrays[6] = {&self->order,
                            &self->free_slots,
                            &self->lists[LIVE].items,
                            &self->lists[SUSPECTS].items,
                            &self->lists[ABSENT].items,
                            &self->lists[URGENT].items};
    if (self->capacity > 0) {
        memcpy(block, self->members, self->capacity * sizeof(struct swim_member));
    }
    self->members = (struct swim_member *)(void *)block;
    for (int i = 0; i < 6; i++) {
        uint16_t *array = (uint16_t *)(void *)(block + offsets[i]);
        if (self->capacity > 0) {
            memcpy(array, *arrays[i], self->capacity * sizeof(uint16_t));
        }
        *arrays[i] = array;
    }
    arena_give(self->arena, self->block, self->block_bytes);
    self->block = block;
    self->block_bytes = bytes;
    self->capacity = capacity;
    return 0;
}

/* The place in `order` where `node` is or belongs. */
static size_t order_find(const struct swim *self, node_id node)
{
    size_t low = 0;
    size_t high = self->member_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (node_id_compare(self->members[self->order[middle]].id, node) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static uint16_t member_find(const struct swim *self, node_id node)
{
    size_t at = order_find(self, node);
    if (at < self->member_count && node_id_equal(self->members[self->order[at]].id, node)) {
        return self->order[at];
    }
    return NONE;
}

static void list_put(struct swim *self, enum list_name name, uint16_t index)
{
    struct swim_list *list = &self->lists[name];
    CHECK(self->members[index].place[name] == NONE);
    CHECK(list->count < self->capacity);
    self->members[index].place[name] = list->count;
    list->items[list->count++] = index;
}

static void list_swap(struct swim *self, enum list_name name, uint16_t a, uint16_t b)
{
    uint16_t *items = self->lists[name].items;
    uint16_t index = items[a];
    items[a] = items[b];
    items[b] = index;
    self->members[items[a]].place[name] = a;
    self->members[items[b]].place[name] = b;
}

static void list_drop(struct swim *self, enum list_name name, uint16_t index)
{
    struct swim_list *list = &self->lists[name];
    uint16_t place = self->members[index].place[name];
    CHECK(place < list->count && list->items[place] == index);
    if (name == LIVE && place < self->probe_cursor) {
        /* Those before the cursor had their turn in this round; keep it so. */
        self->probe_cursor--;
        list_swap(self, LIVE, place, self->probe_cursor);
        place = self->probe_cursor;
    }
    list_swap(self, name, place, (uint16_t)(list->count - 1));
    list->count--;
    self->members[index].place[name] = NONE;
}

static void list_want(struct swim *self, enum list_name name, uint16_t index, bool wanted)
{
    bool there = self->members[index].place[name] != NONE;
    if (wanted && !there) {
        list_put(self, name, index);
    } else if (!wanted && there) {
        list_drop(self, name, index);
    }
}

/* ---- rumours ---- */

static void queue_drop(struct swim *self, size_t at)
{
    self->queue[at] = self->queue[--self->queue_count];
}

/* Passes on what we know of `index` at least `sends` times from now on. */
static void queue_put(struct swim *self, uint16_t index, uint8_t sends)
{
    size_t worst = 0;
    for (size_t i = 0; i < self->queue_count; i++) {
        struct swim_queue_entry *entry = &self->queue[i];
        if (entry->member == index) {
            if (entry->sends_left < sends) {
                entry->sends_left = sends;
            }
            return;
        }
        const struct swim_queue_entry *least = &self->queue[worst];
        if (entry->sends_left < least->sends_left ||
            (entry->sends_left == least->sends_left && entry->order < least->order)) {
            worst = i;
        }
    }
    if (self->queue_count == SWIM_QUEUE_MAX) {
        queue_drop(self, worst);
    }
    self->queue[self->queue_count++] =
        (struct swim_queue_entry){.order = self->queue_order++, .member = index, .sends_left = sends};
}

static void burst_want(struct swim *self)
{
    if (!self->burst_wanted) {
        self->burst_wanted = true;
        uint64_t soonest = self->burst_last_ms + burst_gap_ms(self);
        self->burst_ms = soonest > self->now_ms ? soonest : self->now_ms;
    }
}

static void urgent_want(struct swim *self, uint16_t index)
{
    const struct swim_member *member = &self->members[index];
    bool lately = member->pinged_ms != 0 && self->now_ms < member->pinged_ms + self->period_ms;
    if (!lately) {
        list_want(self, URGENT, index, true);
    }
}

static bool message_has(const struct swim_message *message, node_id node)
{
    for (size_t i = 0; i < message->rumour_count; i++) {
        if (node_id_equal(message->rumours[i].node, node)) {
            return true;
        }
    }
    return false;
}

static void message_put(const struct swim *self, struct swim_message *message, uint16_t index, uint8_t turn)
{
    const struct swim_member *member = &self->members[index];
    if (member->state == SWIM_UNKNOWN || message->rumour_count == SWIM_RUMOURS_MAX ||
        message_has(message, member->id)) {
        return;
    }
    node_id from = {{0}};
    if (member->state == SWIM_SUSPECT && member->accuser_count > 0) {
        uint16_t accuser = member->accusers[turn % member->accuser_count]; /* each in turn: they are confirmations */
        from = accuser == SELF ? self->self : self->members[accuser].id;
    }
    message->rumours[message->rumour_count++] = (struct swim_rumour){
        .node = member->id, .incarnation = member->incarnation, .state = (enum swim_state)member->state, .from = from};
}

/* Fills up with the least told rumours. One that says `to` is alive would be no news to it. */
static void message_put_queue(struct swim *self, struct swim_message *message, uint16_t to)
{
    while (message->rumour_count < SWIM_RUMOURS_MAX) {
        size_t best = SIZE_MAX;
        for (size_t i = 0; i < self->queue_count; i++) {
            const struct swim_queue_entry *entry = &self->queue[i];
            const struct swim_member *member = &self->members[entry->member];
            if ((entry->member == to && member->state == SWIM_ALIVE) || message_has(message, member->id)) {
                continue;
            }
            if (best == SIZE_MAX || entry->sends_left > self->queue[best].sends_left ||
                (entry->sends_left == self->queue[best].sends_left && entry->order < self->queue[best].order)) {
                best = i;
            }
        }
        if (best == SIZE_MAX) {
            return;
        }
        struct swim_queue_entry *entry = &self->queue[best];
        message_put(self, message, entry->member, entry->sends_left);
        if (--entry->sends_left == 0) {
            queue_drop(self, best);
        }
    }
}

/* One of the dead or left, each in turn. */
static void message_put_filler(struct swim *self, struct swim_message *message)
{
    const struct swim_list *absent = &self->lists[ABSENT];
    for (uint32_t i = 0; i < absent->count && i < WALK_MAX; i++) {
        uint16_t index = absent->items[self->filler_cursor++ % absent->count];
        if (self->members[index].state != SWIM_UNKNOWN) {
            message_put(self, message, index, 0);
            return;
        }
    }
}

static struct swim_effect *push(struct swim_effects *out)
{
    CHECK(out->count < SWIM_EFFECTS_MAX);
    return &out->items[out->count++];
}

/* `tell`: let it know what we believe of it, whatever that is. */
static void send_message(struct swim *self, uint16_t to, enum swim_kind kind, uint32_t sequence, uint16_t target,
                         bool tell, struct swim_effects *out)
{
    struct swim_effect *effect = push(out);
    memset(effect, 0, sizeof *effect);
    effect->kind = SWIM_SEND;
    effect->node = self->members[to].id;
    struct swim_message *message = &effect->message;
    message->kind = kind;
    message->sequence = sequence;
    message->incarnation = self->incarnation;
    if (self->left) {
        message->rumours[message->rumour_count++] =
            (struct swim_rumour){.node = self->self, .incarnation = self->incarnation, .state = SWIM_LEFT};
    }
    if (tell || self->members[to].state != SWIM_ALIVE) {
        message_put(self, message, to, 0);
    }
    if (target != NONE) {
        message->target = self->members[target].id;
        if (self->members[target].state != SWIM_ALIVE || kind == SWIM_ACK) {
            message_put(self, message, target, 0);
        }
    }
    message_put_queue(self, message, to);
    if (kind == SWIM_PING && sequence != 0) {
        message_put_filler(self, message);
    }
}

static uint32_t next_sequence(struct swim *self)
{
    self->sequence++;
    if (self->sequence == 0) {
        self->sequence = 1;
    }
    return self->sequence;
}

/* ---- changes ---- */

static void health_add(struct swim *self, int change)
{
    if (change > 0 && self->health < HEALTH_MAX) {
        self->health++;
    } else if (change < 0 && self->health > 0) {
        self->health--;
    }
}

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
    list_want(self, LIVE, index, state == SWIM_ALIVE || state == SWIM_SUSPECT);
    list_want(self, SUSPECTS, index, state == SWIM_SUSPECT);
    list_want(self, ABSENT, index, state == SWIM_DEAD || state == SWIM_LEFT);
    queue_put(self, index, sends_limit(self));
    if (state != old) {
        struct swim_effect *effect = push(out);
        memset(effect, 0, sizeof *effect);
        effect->kind = SWIM_CHANGED;
        effect->node = member->id;
        effect->old_state = old;
        effect->new_state = state;
    }
    burst_want(self);
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

/* One more member got no answer from the suspect itself: news that shortens the suspicion everywhere. */
static void suspect_confirm(struct swim *self, uint16_t index, uint16_t accuser)
{
    if (accuser != NONE && accuser_add(&self->members[index], accuser)) {
        MARK(suspicion_confirmed);
        queue_put(self, index, sends_limit(self));
        burst_want(self);
    }
}

static void suspect_first_hand(struct swim *self, uint16_t index, struct swim_effects *out)
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

/* Lifeguard, "LHA-Suspicion": max - (max - min) * log(c + 1) / log(k + 1), with c confirmations of the k that we may
 * hope for. With nobody left to confirm it is min. */
static uint64_t suspect_deadline_ms(const struct swim *self, const struct swim_member *member)
{
    static const uint64_t log2_milli[SWIM_ACCUSERS_MAX] = {0, 1000, 1585, 2000}; /* of 1..4 */
    uint64_t hoped = self->counts[SWIM_ALIVE];
    if (hoped > SWIM_ACCUSERS_MAX - 1) {
        hoped = SWIM_ACCUSERS_MAX - 1;
    }
    uint64_t confirmed = member->accuser_count > 0 ? member->accuser_count - 1u : 0;
    uint64_t min = suspect_min_ms(self);
    uint64_t max = suspect_max_ms(self);
    uint64_t length = min;
    if (confirmed < hoped) {
        length = max - (max - min) * log2_milli[confirmed] / log2_milli[hoped];
    }
    return member->suspected_ms + length;
}

static int state_rank(enum swim_state state)
{
    return (int)state; /* the enum is in this order: alive < suspect < dead < left */
}

/* Returns true if the rumour is older than what we know and we should say so. */
static bool rumour_is_stale(const struct swim_member *member, const struct swim_rumour *rumour)
{
    return rumour->incarnation < member->incarnation ||
           (rumour->incarnation == member->incarnation && state_rank(rumour->state) < member->state);
}

static void refute(struct swim *self, const struct swim_rumour *rumour)
{
    bool wrong = rumour->incarnation > self->incarnation ||
                 (rumour->incarnation == self->incarnation && rumour->state != SWIM_ALIVE);
    if (self->left || !wrong || rumour->incarnation + 1 >= SWIM_INCARNATION_MAX) {
        return;
    }
    self->incarnation = rumour->incarnation + 1;
    if (BUG(refuted_in_silence, "who is accused raises its incarnation")) {
        self->incarnation--;
        return;
    }
    MARK(accusation_refuted);
    self->announce_left = ANNOUNCEMENTS;
    burst_want(self);
    if (rumour->state == SWIM_SUSPECT) {
        health_add(self, 1);
    }
    uint16_t accuser = member_find(self, rumour->from);
    if (accuser != NONE) {
        urgent_want(self, accuser);
    }
}

static void apply_rumour(struct swim *self, const struct swim_rumour *rumour, struct swim_effects *out)
{
    if (node_id_equal(rumour->node, self->self)) {
        refute(self, rumour);
        return;
    }
    uint16_t index = member_find(self, rumour->node);
    if (index == NONE) {
        return;
    }
    const struct swim_member *member = &self->members[index];
    if (rumour->incarnation > member->incarnation + INCARNATION_JUMP_MAX) {
        return;
    }
    if (rumour_is_stale(member, rumour)) {
        if (state_rank(rumour->state) != member->state) {
            MARK(stale_rumour_answered);
            queue_put(self, index, 2);
        }
        return;
    }
    uint16_t accuser = NONE;
    if (rumour->state == SWIM_SUSPECT && !node_id_equal(rumour->from, rumour->node)) {
        accuser = node_id_equal(rumour->from, self->self) ? NONE : member_find(self, rumour->from);
    }
    bool known = rumour->incarnation == member->incarnation && state_rank(rumour->state) == member->state;
    if (!known) {
        member_set(self, index, rumour->state, rumour->incarnation, out);
        /* See for ourselves; in a large mesh some eight members do, or the suspect would drown in pings. */
        if (rumour->state == SWIM_SUSPECT && random_below(&self->random, self->member_count) < 8) {
            verify_start(self, index);
        }
    }
    if (rumour->state == SWIM_SUSPECT) {
        suspect_confirm(self, index, accuser);
    }
}

/* The sender's own incarnation is first-hand news. */
static void apply_sender(struct swim *self, uint16_t index, uint64_t incarnation, struct swim_effects *out)
{
    struct swim_member *member = &self->members[index];
    member->heard_ms = self->now_ms;
    if (incarnation > member->incarnation || member->state == SWIM_UNKNOWN) {
        if (member->state == SWIM_ALIVE) {
            member->incarnation = incarnation;
            queue_put(self, index, sends_limit(self)); /* others may still hold an accusation that this refutes */
        } else {
            member_set(self, index, SWIM_ALIVE, incarnation, out);
        }
    } else if (member->state == SWIM_DEAD) {
        MARK(the_dead_speak);
        urgent_want(self, index);
    }
}

/* ---- when the next tick is due ---- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* When something is due, which may have passed already. */
static uint64_t due_ms(const struct swim *self)
{
    if (self->left) {
        return self->left_cursor < self->lists[LIVE].count ? self->ticked_ms + burst_gap_ms(self) : UINT64_MAX;
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
        due = earlier(due, suspect_deadline_ms(self, member));
        if (member->verifying) {
            due = earlier(due, member->verify_ms);
        }
    }
    return due;
}

/* Call when something may have become due sooner. What a call made due in the past (a suspicion that shrinks) was not
 * expected then, so it does not read as our own stall. */
static void expect_sooner(struct swim *self)
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

static void receive_ping_req(struct swim *self, uint16_t from, uint16_t target, uint32_t sequence,
                             struct swim_effects *out)
{
    for (size_t i = 0; i < SWIM_RELAYS_MAX; i++) {
        struct swim_relay *relay = &self->relays[i];
        if (!relay->used) {
            *relay = (struct swim_relay){.used = true,
                                         .requester = from,
                                         .target = target,
                                         .sequence = sequence,
                                         .own_sequence = next_sequence(self),
                                         .nack_ms = self->now_ms + self->ack_ms,
                                         .end_ms = self->now_ms + self->period_ms};
            send_message(self, target, SWIM_PING, relay->own_sequence, NONE, false, out);
            return;
        }
    }
}

static void receive_ack(struct swim *self, uint16_t from, const struct swim_message *message, struct swim_effects *out)
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
            send_message(self, relay->requester, SWIM_ACK, relay->sequence, relay->target, false, out);
            return;
        }
    }
}

int swim_receive(struct swim *self, uint64_t now_ms, node_id from, const struct swim_message *message,
                 struct swim_effects *out)
{
    CHECK(now_ms >= self->now_ms);
    out->count = 0;
    if (!message_is_sound(self, from, message)) {
        return ERR_MALFORMED;
    }
    uint16_t index = member_find(self, from);
    if (index == NONE) {
        return ERR_NOT_FOUND;
    }
    uint16_t target = NONE;
    if (message->kind == SWIM_PING_REQ) {
        target = member_find(self, message->target);
        if (target == NONE) {
            return ERR_NOT_FOUND;
        }
    }
    self->now_ms = now_ms;
    bool behind = message->incarnation < self->members[index].incarnation;
    apply_sender(self, index, message->incarnation, out);
    for (size_t i = 0; i < message->rumour_count; i++) {
        apply_rumour(self, &message->rumours[i], out);
    }
    switch (message->kind) {
    case SWIM_PING:
        if (message->sequence != 0) {
            send_message(self, index, SWIM_ACK, message->sequence, NONE, behind, out);
        }
        break;
    case SWIM_ACK:
        receive_ack(self, index, message, out);
        break;
    case SWIM_PING_REQ:
        if (!self->left) {
            receive_ping_req(self, index, target, message->sequence, out);
        }
        break;
    case SWIM_NACK:
        if (self->probing && message->sequence == self->probe_sequence && self->probe_nacks < self->probe_helpers) {
            self->probe_nacks++;
        }
        break;
    }
    expect_sooner(self);
    return 0;
}

/* ---- time ---- */

static void tick_suspects(struct swim *self, struct swim_effects *out)
{
    struct swim_list *suspects = &self->lists[SUSPECTS];
    unsigned expired = 0;
    unsigned pinged = 0;
    /* From the end, since those that are dropped are replaced by the last. */
    for (size_t i = suspects->count; i-- > 0;) {
        uint16_t index = suspects->items[i];
        struct swim_member *member = &self->members[index];
        if (self->now_ms >= suspect_deadline_ms(self, member) &&
            !BUG(suspect_for_ever, "a suspicion that nobody refutes ends with death")) {
            if (expired < SWIM_EXPIRE_MAX) {
                expired++;
                member_set(self, index, SWIM_DEAD, member->incarnation, out);
                urgent_want(self, index); /* one last word to it, in case that it can hear */
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
        member->verify_ms = self->now_ms + verify_gap_ms(self);
        send_message(self, index, SWIM_PING, next_sequence(self), NONE, false, out);
    }
}

static void tick_relays(struct swim *self, struct swim_effects *out)
{
    for (size_t i = 0; i < SWIM_RELAYS_MAX; i++) {
        struct swim_relay *relay = &self->relays[i];
        if (relay->used && !relay->nacked && self->now_ms >= relay->nack_ms) {
            MARK(helper_got_no_answer);
            relay->nacked = true;
            send_message(self, relay->requester, SWIM_NACK, relay->sequence, relay->target, false, out);
        }
        if (relay->used && self->now_ms >= relay->end_ms) {
            relay->used = false;
        }
    }
}

/* Up to `count` distinct live members from a random place of the list on, which is in random order itself. */
static unsigned pick_live(struct swim *self, uint16_t except, bool alive_only, uint16_t *picked, unsigned count)
{
    const struct swim_list *live = &self->lists[LIVE];
    unsigned found = 0;
    if (live->count == 0) {
        return 0;
    }
    uint64_t start = random_below(&self->random, live->count);
    for (uint64_t i = 0; i < live->count && i < WALK_MAX && found < count; i++) {
        uint16_t index = live->items[(start + i) % live->count];
        if (index != except && (!alive_only || self->members[index].state == SWIM_ALIVE)) {
            picked[found++] = index;
        }
    }
    return found;
}

/* The round-robin: from the cursor on are those whose turn is still to come, in no particular order; one of them is
 * drawn. So each round is a fresh shuffle at a cost of O(1) per probe. */
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
    list_swap(self, LIVE, self->probe_cursor, drawn);
    self->probe_target = live->items[self->probe_cursor++];
    self->probing = true;
    self->probe_acked = false;
    self->probe_helped = false;
    self->probe_helpers = 0;
    self->probe_nacks = 0;
    self->probe_sequence = next_sequence(self);
    self->probe_help_ms = self->now_ms + self->ack_ms * scale;
    send_message(self, self->probe_target, SWIM_PING, self->probe_sequence, NONE, false, out);
}

static void probe_help(struct swim *self, struct swim_effects *out)
{
    uint16_t helpers[SWIM_HELPERS_MAX];
    self->probe_helped = true;
    self->probe_helpers = (uint8_t)pick_live(self, self->probe_target, true, helpers, SWIM_HELPERS_MAX);
    for (unsigned i = 0; i < self->probe_helpers; i++) {
        send_message(self, helpers[i], SWIM_PING_REQ, self->probe_sequence, self->probe_target, false, out);
    }
}

static void probe_end(struct swim *self, struct swim_effects *out)
{
    if (self->probe_acked) {
        health_add(self, -1);
        return;
    }
    /* Lifeguard: not even a helper said a word, so it may be us. */
    if (self->probe_helpers > 0 && self->probe_nacks == 0) {
        MARK(no_helper_said_a_word);
        health_add(self, 1);
    }
    suspect_first_hand(self, self->probe_target, out);
}

static void tick_probe(struct swim *self, struct swim_effects *out)
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

static void tick_urgent(struct swim *self, struct swim_effects *out)
{
    struct swim_list *urgent = &self->lists[URGENT];
    if (urgent->count == 0 || self->now_ms < self->urgent_ms) {
        return;
    }
    for (unsigned i = 0; i < SWIM_URGENT_MAX && urgent->count > 0; i++) {
        uint16_t index = urgent->items[0];
        list_drop(self, URGENT, index);
        self->members[index].pinged_ms = self->now_ms;
        send_message(self, index, SWIM_PING, next_sequence(self), NONE, false, out);
    }
    self->urgent_ms = self->now_ms + burst_gap_ms(self);
}

/* Of the absent who left, or of the others, the one whose last visit is the longest ago: so each has its turn in every
 * round, whoever comes and goes meanwhile. */
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

static void tick_revisit(struct swim *self, struct swim_effects *out)
{
    if (self->now_ms < self->revisit_ms) {
        return;
    }
    self->revisit_ms = self->now_ms + revisit_gap_ms(self);
    self->visits++;
    uint16_t index = self->visits % REVISITS_PER_LEFT == 0 ? revisit_next(self, true) : NONE;
    index = index == NONE ? revisit_next(self, false) : index;
    if (index != NONE) {
        self->members[index].visited_ms = self->now_ms;
        send_message(self, index, SWIM_PING, next_sequence(self), NONE, false, out);
    }
}

static void tick_burst(struct swim *self, struct swim_effects *out)
{
    if (!self->burst_wanted || self->now_ms < self->burst_ms) {
        return;
    }
    self->burst_wanted = false;
    self->burst_last_ms = self->now_ms;
    uint16_t members[SWIM_BURST_MAX];
    unsigned count = pick_live(self, NONE, false, members, SWIM_BURST_MAX);
    for (unsigned i = 0; i < count; i++) {
        send_message(self, members[i], SWIM_PING, 0, NONE, false, out);
    }
    if (self->announce_left > 0) {
        self->announce_left--;
        burst_want(self);
    }
}

static void tell_leaving(struct swim *self, struct swim_effects *out)
{
    for (unsigned i = 0; i < SWIM_LEAVE_MAX && self->left_cursor < self->lists[LIVE].count; i++) {
        send_message(self, self->lists[LIVE].items[self->left_cursor++], SWIM_PING, 0, NONE, false, out);
    }
}

uint64_t swim_next_ms(const struct swim *self)
{
    uint64_t due = due_ms(self);
    return due > self->ticked_ms ? due : self->ticked_ms + 1;
}

static void shift_time(uint64_t *time_ms, uint64_t gap_ms, uint64_t limit_ms)
{
    if (*time_ms != 0) {
        uint64_t moved_ms = *time_ms + gap_ms;
        *time_ms = moved_ms < limit_ms ? moved_ms : limit_ms;
    }
}

/* Moves all times by the gap, those of the past not beyond `limit_ms`: what we received after the gap, but before we
 * noticed it, bears the right time already. */
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

void swim_tick(struct swim *self, uint64_t now_ms, struct swim_effects *out)
{
    CHECK(now_ms >= self->now_ms);
    out->count = 0;
    if (now_ms > self->expected_ms && now_ms - self->expected_ms > self->period_ms) {
        MARK(own_stall_noticed);
        shift(self, now_ms - self->expected_ms, now_ms);
        health_add(self, 1);
    }
    self->now_ms = now_ms;
    self->ticked_ms = now_ms;
    if (self->left) {
        tell_leaving(self, out);
        self->expected_ms = swim_next_ms(self);
        return;
    }
    tick_suspects(self, out);
    tick_relays(self, out);
    tick_probe(self, out);
    tick_urgent(self, out);
    tick_revisit(self, out);
    tick_burst(self, out);
    self->expected_ms = swim_next_ms(self);
    CHECK(self->expected_ms > now_ms);
}

void swim_shift(struct swim *self, uint64_t gap_ms)
{
    shift(self, gap_ms, UINT64_MAX);
}

void swim_heard(struct swim *self, uint64_t now_ms, node_id node)
{
    CHECK(now_ms >= self->now_ms);
    uint16_t index = member_find(self, node);
    if (index == NONE) {
        return;
    }
    self->now_ms = now_ms;
    struct swim_member *member = &self->members[index];
    member->heard_ms = now_ms;
    if (member->state == SWIM_UNKNOWN || member->state == SWIM_DEAD) {
        urgent_want(self, index);
        expect_sooner(self);
    }
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

/* ---- life cycle ---- */

int swim_init(struct swim *self, const struct swim_options *options, struct arena *arena)
{
    uint32_t period_ms = options->period_ms != 0 ? options->period_ms : 500;
    uint32_t ack_ms = options->ack_ms != 0 ? options->ack_ms : 200;
    CHECK(!node_id_is_none(options->self));
    CHECK(period_ms >= 100 && ack_ms * 2 <= period_ms);
    CHECK(options->incarnation < SWIM_INCARNATION_MAX);
    memset(self, 0, sizeof *self);
    self->arena = arena;
    int rc = grow(self, FIRST_CAPACITY);
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
    self->sequence = (uint32_t)random_u64(&self->random); /* so that late answers to an earlier life match nothing */
    /* Nodes started together probe out of step. */
    self->probe_end_ms = options->now_ms + random_below(&self->random, period_ms);
    self->revisit_ms = options->now_ms + 2u * period_ms;
    self->expected_ms = swim_next_ms(self);
    return 0;
}

int swim_member_add(struct swim *self, uint64_t now_ms, node_id node)
{
    CHECK(now_ms >= self->now_ms);
    if (node_id_is_none(node)) {
        return ERR_USAGE;
    }
    if (node_id_equal(node, self->self) || member_find(self, node) != NONE) {
        return 0;
    }
    if (self->member_count == SWIM_MEMBERS_MAX) {
        return ERR_FULL;
    }
    if (self->member_count == self->capacity) {
        int rc = grow(self, (uint16_t)(self->capacity * 2));
        if (rc != 0) {
            return rc;
        }
    }
    self->now_ms = now_ms;
    uint16_t index = self->free_count > 0 ? self->free_slots[--self->free_count] : self->fresh_count++;
    size_t at = order_find(self, node);
    self->members[index] = (struct swim_member){.id = node, .place = {NONE, NONE, NONE, NONE}};
    memmove(&self->order[at + 1], &self->order[at], (self->member_count - at) * sizeof self->order[0]);
    self->order[at] = index;
    self->member_count++;
    self->counts[SWIM_UNKNOWN]++;
    list_put(self, ABSENT, index);
    urgent_want(self, index);
    expect_sooner(self);
    return 0;
}

int swim_member_remove(struct swim *self, node_id node)
{
    uint16_t index = member_find(self, node);
    if (index == NONE) {
        return ERR_NOT_FOUND;
    }
    for (int name = LIVE; name <= URGENT; name++) {
        list_want(self, (enum list_name)name, index, false);
    }
    for (size_t i = self->queue_count; i-- > 0;) {
        if (self->queue[i].member == index) {
            queue_drop(self, i);
        }
    }
    for (size_t i = 0; i < SWIM_RELAYS_MAX; i++) {
        if (self->relays[i].requester == index || self->relays[i].target == index) {
            self->relays[i].used = false;
        }
    }
    for (size_t i = 0; i < self->lists[SUSPECTS].count; i++) {
        struct swim_member *suspect = &self->members[self->lists[SUSPECTS].items[i]];
        for (size_t j = suspect->accuser_count; j-- > 0;) {
            if (suspect->accusers[j] == index) {
                suspect->accusers[j] = suspect->accusers[--suspect->accuser_count];
            }
        }
    }
    if (self->probing && self->probe_target == index) {
        self->probing = false;
    }
    size_t at = order_find(self, node);
    self->member_count--;
    memmove(&self->order[at], &self->order[at + 1], (self->member_count - at) * sizeof self->order[0]);
    self->counts[self->members[index].state]--;
    self->free_slots[self->free_count++] = index;
    memset(&self->members[index], 0, sizeof self->members[index]);
    return 0;
}

/* ---- questions ---- */

bool swim_is_member(const struct swim *self, node_id node)
{
    return member_find(self, node) != NONE;
}

enum swim_state swim_state_of(const struct swim *self, node_id node)
{
    if (node_id_equal(node, self->self)) {
        return self->left ? SWIM_LEFT : SWIM_ALIVE;
    }
    uint16_t index = member_find(self, node);
    return index == NONE ? SWIM_UNKNOWN : (enum swim_state)self->members[index].state;
}

uint64_t swim_heard_ms(const struct swim *self, node_id node)
{
    uint16_t index = member_find(self, node);
    return index == NONE ? 0 : self->members[index].heard_ms;
}

uint64_t swim_incarnation_of(const struct swim *self, node_id node)
{
    if (node_id_equal(node, self->self)) {
        return self->incarnation;
    }
    uint16_t index = member_find(self, node);
    return index == NONE ? 0 : self->members[index].incarnation;
}

size_t swim_member_count(const struct swim *self)
{
    return self->member_count;
}

size_t swim_state_count(const struct swim *self, enum swim_state state)
{
    CHECK((unsigned)state < SWIM_STATE_COUNT);
    return self->counts[state];
}

node_id swim_member_at(const struct swim *self, size_t index)
{
    CHECK(index < self->member_count);
    return self->members[self->order[index]].id;
}
