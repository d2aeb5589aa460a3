#ifndef GOSSIP_SWIM_PARTS_H
#define GOSSIP_SWIM_PARTS_H
/* What the parts of membership share; others have gossip/swim.h. Members are named by their index here, which stays the
 * same while they are members.
 *
 *   swim.c            the calls of a core, and all times
 *   swim_members.c    the table of members, and the lists that they are in
 *   swim_rumours.c    the queue of rumours, and what a message carries
 *   swim_suspicion.c  what becomes of a member's state: suspicions, and what others say
 *   swim_probe.c      who is pinged when: probes, probes on behalf of others, and the pings beside them */

#include "gossip/swim.h"

#define NONE UINT16_MAX
#define SELF (UINT16_MAX - 1) /* among accusers */
#define WALK_MAX 64u /* the longest walk in search of a suitable member */
_Static_assert(SWIM_MEMBERS_MAX < SELF, "indices fit");

enum swim_list_name { LIVE, SUSPECTS, ABSENT, URGENT };

/* ---- swim.c ---- */

uint64_t swim_suspect_min_ms(const struct swim *self);
uint64_t swim_suspect_max_ms(const struct swim *self);
uint64_t swim_verify_gap_ms(const struct swim *self);
uint64_t swim_burst_gap_ms(const struct swim *self);
uint64_t swim_revisit_gap_ms(const struct swim *self);
uint8_t swim_sends_limit(const struct swim *self);

/* Call when something may have become due sooner. What a call made due in the past (a suspicion that shrinks) was not
 * expected then, so it does not read as our own stall. */
void swim_expect_sooner(struct swim *self);

/* ---- swim_members.c ---- */

/* Room for `capacity` members, more than before. ERR_MEMORY: nothing has changed. */
int swim_members_grow(struct swim *self, uint16_t capacity);
uint16_t swim_member_find(const struct swim *self, node_id node); /* NONE: it is not a member */

/* Swaps two places; takes out who is in the list; puts in or takes out, whichever is needed. */
void swim_list_swap(struct swim *self, enum swim_list_name name, uint16_t a, uint16_t b);
void swim_list_drop(struct swim *self, enum swim_list_name name, uint16_t index);
void swim_list_want(struct swim *self, enum swim_list_name name, uint16_t index, bool wanted);

/* Up to `count` distinct live members from a random place of the list on, which is in random order itself. */
unsigned swim_pick_live(struct swim *self, uint16_t except, bool alive_only, uint16_t *picked, unsigned count);

/* ---- swim_rumours.c ---- */

/* Passes on what we know of `index` at least `sends` times from now on. */
void swim_queue_put(struct swim *self, uint16_t index, uint8_t sends);
void swim_queue_forget(struct swim *self, uint16_t index);

struct swim_effect *swim_push(struct swim_effects *out, enum swim_effect_kind kind, node_id node);

/* A message with as many rumours as fit. `target`: whom it is about, or NONE. `tell`: let `to` know what we believe of
 * it, whatever that is. */
void swim_send(struct swim *self, uint16_t to, enum swim_kind kind, uint32_t sequence, uint16_t target, bool tell,
               struct swim_effects *out);
uint32_t swim_next_sequence(struct swim *self); /* never 0 */

/* ---- swim_suspicion.c ---- */

void swim_suspect_first_hand(struct swim *self, uint16_t index, struct swim_effects *out); /* we got no answer */
uint64_t swim_suspect_deadline_ms(const struct swim *self, const struct swim_member *member);
void swim_suspects_tick(struct swim *self, struct swim_effects *out);
void swim_accuser_forget(struct swim *self, uint16_t index);

void swim_apply_rumour(struct swim *self, const struct swim_rumour *rumour, struct swim_effects *out);

/* The sender's own incarnation is first-hand news. */
void swim_apply_sender(struct swim *self, uint16_t index, uint64_t incarnation, struct swim_effects *out);

/* ---- swim_probe.c ---- */

void swim_health_add(struct swim *self, int change);
void swim_probe_tick(struct swim *self, struct swim_effects *out);
void swim_probe_nack(struct swim *self, uint32_t sequence);
void swim_probe_ack(struct swim *self, uint16_t from, const struct swim_message *message, struct swim_effects *out);
void swim_relay(struct swim *self, uint16_t from, uint16_t target, uint32_t sequence, struct swim_effects *out);
void swim_relays_tick(struct swim *self, struct swim_effects *out);
void swim_probe_forget(struct swim *self, uint16_t index); /* own probe and relays */

/* An extra ping to this member as soon as may be; and rumours to three members. */
void swim_urgent_want(struct swim *self, uint16_t index);
void swim_urgent_tick(struct swim *self, struct swim_effects *out);
void swim_revisit_tick(struct swim *self, struct swim_effects *out);
void swim_burst_want(struct swim *self);
void swim_burst_tick(struct swim *self, struct swim_effects *out);

#endif
