#include "gossip/swim_parts.h"

#include <string.h>

#include "base/check.h"

/* ---- the queue ---- */

static void queue_drop(struct swim *self, size_t at)
{
    self->queue[at] = self->queue[--self->queue_count];
}

void swim_queue_put(struct swim *self, uint16_t index, uint8_t sends)
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

void swim_queue_forget(struct swim *self, uint16_t index)
{
    for (size_t i = self->queue_count; i-- > 0;) {
        if (self->queue[i].member == index) {
            queue_drop(self, i);
        }
    }
}

/* ---- what a message carries ---- */

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
        uint16_t accuser = member->accusers[turn % member->accuser_count]; /* each accuser in turn: they are confirmations */
        from = accuser == SELF ? self->self : self->members[accuser].id;
    }
    message->rumours[message->rumour_count++] = (struct swim_rumour){
        .node = member->id, .incarnation = member->incarnation, .state = (enum swim_state)member->state, .from = from};
}

/* Fills the message with the rumours sent least often, without the rumour that `to` is alive: no news there. */
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

/* Adds one dead or left member, each in turn. */
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

struct swim_effect *swim_push(struct swim_effects *out, enum swim_effect_kind kind, node_id node)
{
    CHECK(out->count < SWIM_EFFECTS_MAX);
    struct swim_effect *effect = &out->items[out->count++];
    memset(effect, 0, sizeof *effect);
    effect->kind = kind;
    effect->node = node;
    return effect;
}

void swim_send(struct swim *self, uint16_t to, enum swim_kind kind, uint32_t sequence, uint16_t target, bool tell,
               struct swim_effects *out)
{
    struct swim_message *message = &swim_push(out, SWIM_SEND, self->members[to].id)->message;
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

uint32_t swim_next_sequence(struct swim *self)
{
    self->sequence++;
    if (self->sequence == 0) {
        self->sequence = 1;
    }
    return self->sequence;
}
