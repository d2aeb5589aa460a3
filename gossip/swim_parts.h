#ifndef GOSSIP_SWIM_PARTS_H
#define GOSSIP_SWIM_PARTS_H
/* What the parts of membership share; other code uses gossip/swim.h. A member is named by an index into the table here,
 * constant for as long as the node is a member.
 *
 *   swim.c            the calls of the core, and all times
 *   swim_members.c    the table of members, and the lists of members
 *   swim_rumours.c    the queue of rumours, and the content of a message
 *   swim_suspicion.c  the states of members: suspicions, and statements of other members
 *   swim_probe.c      when each member is pinged: probes, relayed probes, and extra pings */

#include "gossip/swim.h"

#define NONE UINT16_MAX
#define SELF (UINT16_MAX - 1) /* stands for ourselves among accusers */
#define WALK_MAX 64u /* steps of the longest search for a suitable member */
_Static_assert(SWIM_MEMBERS_MAX < SELF, "indices fit");

/* Alive and suspect members; suspects; unknown, dead and left members; members to ping at once. */
enum swim_list_name { LIVE, SUSPECTS, ABSENT, URGENT };

/* ---- swim.c ---- */

/* Durations that follow from the period and the number of members, in ms; swim_sends_limit: how often a rumour is sent. */
uint64_t swim_suspect_min_ms(const struct swim *self);
uint64_t swim_suspect_max_ms(const struct swim *self);
uint64_t swim_verify_gap_ms(const struct swim *self);
uint64_t swim_burst_gap_ms(const struct swim *self);
uint64_t swim_revisit_gap_ms(const struct swim *self);
uint8_t swim_sends_limit(const struct swim *self);

/* Call it when something may have become due sooner than announced. Work due in the past because of a call (a shortened
 * suspicion) was not expected then, and must not look like a stall of this node. */
void swim_expect_sooner(struct swim *self);

/* ---- swim_members.c ---- */

/* Makes room for `capacity` members, which must be more than before. ERR_MEMORY: nothing has changed. */
int swim_members_grow(struct swim *self, uint16_t capacity);
uint16_t swim_member_find(const struct swim *self, node_id node); /* NONE: not a member */

/* Swap two places of a list; remove a member from the list; put a member in the list if `wanted`, and otherwise out. */
void swim_list_swap(struct swim *self, enum swim_list_name name, uint16_t a, uint16_t b);
void swim_list_drop(struct swim *self, enum swim_list_name name, uint16_t index);
void swim_list_want(struct swim *self, enum swim_list_name name, uint16_t index, bool wanted);

/* Picks up to `count` different live members, from a random place of the list on; the list itself is in random order.
 * `except` is left out (NONE: nobody); `alive_only` leaves suspects out. Returns how many. */
unsigned swim_pick_live(struct swim *self, uint16_t except, bool alive_only, uint16_t *picked, unsigned count);

/* ---- swim_rumours.c ---- */

/* Queues what we know of the member `index`, to be sent at least `sends` times from now on. */
void swim_queue_put(struct swim *self, uint16_t index, uint8_t sends);

/* Removes the rumour about a member from the queue. */
void swim_queue_forget(struct swim *self, uint16_t index);

/* Appends an effect and returns it, valid until `out` is emptied. There is always room: see SWIM_EFFECTS_MAX. */
struct swim_effect *swim_push(struct swim_effects *out, enum swim_effect_kind kind, node_id node);

/* Sends a message with as many rumours as fit. `target` is the probed member, or NONE. `tell`: include what we believe
 * of `to` itself, whatever that is. */
void swim_send(struct swim *self, uint16_t to, enum swim_kind kind, uint32_t sequence, uint16_t target, bool tell,
               struct swim_effects *out);
uint32_t swim_next_sequence(struct swim *self); /* never 0 */

/* ---- swim_suspicion.c ---- */

void swim_suspect_first_hand(struct swim *self, uint16_t index, struct swim_effects *out); /* our own probe got no answer */

/* When a suspicion ends with death. */
uint64_t swim_suspect_deadline_ms(const struct swim *self, const struct swim_member *member);

/* Declares suspects dead when their time is over, and pings the suspects under verification. */
void swim_suspects_tick(struct swim *self, struct swim_effects *out);

/* Removes a member from the accusers of all suspects. */
void swim_accuser_forget(struct swim *self, uint16_t index);

/* Applies another member's statement; one about ourselves is refuted if needed. */
void swim_apply_rumour(struct swim *self, const struct swim_rumour *rumour, struct swim_effects *out);

/* Applies the sender's own incarnation, which is first-hand news. */
void swim_apply_sender(struct swim *self, uint16_t index, uint64_t incarnation, struct swim_effects *out);

/* ---- swim_probe.c ---- */

/* Adds to the local health multiplier, within its bounds. */
void swim_health_add(struct swim *self, int change);

/* Asks helpers, ends the probe and begins the next, each when its time has come. */
void swim_probe_tick(struct swim *self, struct swim_effects *out);

/* A helper's NACK came; an ACK came, to be used for our probe or passed on. */
void swim_probe_nack(struct swim *self, uint32_t sequence);
void swim_probe_ack(struct swim *self, uint16_t from, const struct swim_message *message, struct swim_effects *out);
void swim_relay(struct swim *self, uint16_t from, uint16_t target, uint32_t sequence, struct swim_effects *out);
void swim_relays_tick(struct swim *self, struct swim_effects *out);
void swim_probe_forget(struct swim *self, uint16_t index); /* ends our probe of a member, and relays from or to the member */

/* Extra messages: a ping to a member as soon as possible; a ping to an absent member now and then; rumours to
 * SWIM_BURST_MAX members. _want asks for a message, _tick sends those that are due. */
void swim_urgent_want(struct swim *self, uint16_t index);
void swim_urgent_tick(struct swim *self, struct swim_effects *out);
void swim_revisit_tick(struct swim *self, struct swim_effects *out);
void swim_burst_want(struct swim *self);
void swim_burst_tick(struct swim *self, struct swim_effects *out);

#endif
