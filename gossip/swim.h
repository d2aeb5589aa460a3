#ifndef GOSSIP_SWIM_H
#define GOSSIP_SWIM_H
/* Membership by gossip: which members of the roster are alive. SWIM (Das, Gupta, Motivala 2002) with the improvements
 * of Lifeguard (Dadgar, Phillips, Currey 2018): a local health multiplier, a suspicion that shortens as other members
 * confirm it, and the buddy rule. A core: no I/O, no clock, no memory but from the arena given at init.
 *
 * Times are milliseconds of any epoch and never decrease from call to call. The caller owns `struct swim`, the arena
 * and `struct swim_effects`. Every call with an `out` empties `*out` first; the caller performs the effects in order.
 * The sender of a message is not in the message: the transport, which authenticated the peer, provides it.
 *
 * The members are the nodes of the roster without ourselves: swim_member_add and swim_member_remove follow the roster.
 * Of two statements about a member, the statement with the higher incarnation wins; with equal incarnations left > dead
 * > suspect > alive. Only the member itself raises its incarnation. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/id.h"
#include "base/random.h"

#define SWIM_MEMBERS_MAX 1024u
#define SWIM_RUMOURS_MAX 6u  /* in one message */
#define SWIM_QUEUE_MAX 64u   /* rumours waiting to be passed on; when full, the rumour sent most often is dropped */
#define SWIM_HELPERS_MAX 3u  /* members asked to probe on our behalf */
#define SWIM_RELAYS_MAX 16u  /* probes on behalf of other members at a time; when full, a further request is ignored */
#define SWIM_ACCUSERS_MAX 4u /* the first accuser and three confirmations */
#define SWIM_BURST_MAX 3u    /* members told at once about a change */
#define SWIM_URGENT_MAX 8u   /* extra pings in one tick to members in the news */
#define SWIM_VERIFY_MAX 8u   /* extra pings in one tick to suspects */
#define SWIM_EXPIRE_MAX 16u  /* suspects declared dead in one tick; the next tick goes on */
#define SWIM_LEAVE_MAX 32u   /* members told of our leaving in one call */
#define SWIM_INCARNATION_MAX ((uint64_t)1 << 62)

/* The state of a member, as one node believes it. */
enum swim_state {
    SWIM_UNKNOWN, /* on the roster, but never heard of */
    SWIM_ALIVE,
    SWIM_SUSPECT, /* a member got no answer from it */
    SWIM_DEAD,    /* no member got an answer for the duration of a suspicion */
    SWIM_LEFT,    /* the member announced its leave */
};
#define SWIM_STATE_COUNT 5

/* "unknown", "alive", "suspect", "dead", "left"; "invalid" for other numbers. Static strings. */
const char *swim_state_name(enum swim_state state);

/* The kinds of messages. */
enum swim_kind {
    SWIM_PING = 1, /* with sequence 0 it only carries rumours and needs no answer */
    SWIM_ACK,
    SWIM_PING_REQ, /* asks the receiver to ping `target` and to pass the answer on with this sequence */
    SWIM_NACK,     /* the target of a PING_REQ did not answer the sender in time, but the sender is alive */
};

/* A statement about one member. */
struct swim_rumour {
    node_id node;
    uint64_t incarnation;  /* the incarnation of `node`; below SWIM_INCARNATION_MAX */
    enum swim_state state; /* not SWIM_UNKNOWN */
    node_id from; /* SUSPECT: the member that got no answer itself, or none; other states: none. Another `from` is a
                     confirmation */
};

/* One message, without its sender. */
struct swim_message {
    enum swim_kind kind;
    node_id target;       /* PING_REQ, NACK, and a relayed ACK: the probed member; otherwise none */
    uint32_t sequence;    /* chosen by the node that asks, repeated in the answer */
    uint64_t incarnation; /* the sender's own; below SWIM_INCARNATION_MAX */
    uint8_t rumour_count;
    struct swim_rumour rumours[SWIM_RUMOURS_MAX];
};

/* The kinds of effects. */
enum swim_effect_kind {
    SWIM_SEND = 1, /* send `message` to `node`; it may be lost */
    SWIM_CHANGED,  /* `node` went from `old_state` to `new_state` */
};

/* What the caller must do. */
struct swim_effect {
    enum swim_effect_kind kind;
    node_id node;
    enum swim_state old_state;   /* CHANGED */
    enum swim_state new_state;   /* CHANGED */
    struct swim_message message; /* SEND */
};

/* The most effects come from a tick: expired suspects, one NACK per relay, helpers, urgent pings, pings to suspects, a
 * probe, the suspect of the previous probe, a visit to an absent member and the helper for that, a burst. A receive makes at most a change for
 * the sender, a change per rumour, and a SEND. */
#define SWIM_EFFECTS_MAX \
    (SWIM_EXPIRE_MAX + SWIM_RELAYS_MAX + SWIM_HELPERS_MAX + SWIM_URGENT_MAX + SWIM_VERIFY_MAX + 1 + 1 + 2 + SWIM_BURST_MAX)
_Static_assert(SWIM_EFFECTS_MAX >= SWIM_LEAVE_MAX, "a leave fits");
_Static_assert(SWIM_EFFECTS_MAX >= 1 + SWIM_RUMOURS_MAX + 1, "a receive fits");

/* Belongs to the caller; the items below `count` are valid until the next call. */
struct swim_effects {
    size_t count;
    struct swim_effect items[SWIM_EFFECTS_MAX];
};

/* All other times follow from period_ms; see the top of swim.c. */
struct swim_options {
    node_id self; /* not none */
    uint64_t seed;
    uint64_t now_ms;
    uint32_t period_ms; /* between probes; 0: 500; otherwise at least 100 */
    uint32_t ack_ms;    /* how long a probe waits before helpers are asked; 0: 200; at most half a period */
    uint64_t
        incarnation; /* higher than in earlier boots (from the boot counter), so that a restart beats old rumours */
};

/* The inner state of membership: read it through the functions below. */
struct swim_member {
    node_id id;
    uint64_t incarnation;
    uint64_t own_incarnation; /* last received from the member itself, here; 0: none */
    uint64_t heard_ms;     /* when it was last heard; 0: never */
    uint64_t pinged_ms;    /* last urgent ping to it; 0: never */
    uint64_t visited_ms;   /* last ping to it while absent; 0: never */
    uint64_t suspected_ms; /* SUSPECT: since when, by our clock */
    uint64_t verify_ms;    /* SUSPECT and verifying: when to ping next */
    uint64_t verify_since_ms;
    uint16_t accusers[SWIM_ACCUSERS_MAX];
    uint8_t accuser_count;
    uint8_t state; /* enum swim_state */
    bool verifying;
    uint16_t place[4]; /* index in each of the lists, or NONE */
};

/* Members by index, in no particular order. */
struct swim_list {
    uint16_t *items;
    uint16_t count;
};

/* A rumour about `member` that is to be sent `sends_left` times more; `order` grows with each new entry. */
struct swim_queue_entry {
    uint64_t order;
    uint16_t member;
    uint8_t sends_left;
};

/* A probe of `target` on behalf of `requester`. */
struct swim_relay {
    bool used;
    bool nacked;
    uint16_t requester, target;
    uint32_t sequence, own_sequence;
    uint64_t nack_ms, end_ms;
};

/* Membership of one node; all pointers point into `block`, which comes from the arena. */
struct swim {
    struct arena *arena;
    void *block;
    size_t block_bytes;
    node_id self;
    struct random random;
    uint64_t now_ms, ticked_ms;
    uint64_t expected_ms; /* when the next tick should come, as far as the caller could know */
    uint32_t period_ms, ack_ms;
    uint64_t incarnation;
    bool left;
    uint16_t left_cursor;

    uint16_t capacity, member_count, fresh_count;
    uint16_t counts[SWIM_STATE_COUNT];
    struct swim_member *members;
    uint16_t *order; /* sorted by node_id */
    uint16_t *free_slots;
    uint16_t free_count;
    struct swim_list lists[4];
    uint16_t probe_cursor, filler_cursor;

    uint32_t sequence;
    bool probing, probe_acked, probe_helped;
    uint16_t probe_target;
    uint32_t probe_sequence;
    uint8_t probe_helpers, probe_nacks;
    uint64_t probe_help_ms, probe_end_ms;
    uint8_t health; /* Lifeguard's local health multiplier; 0: healthy */

    uint64_t urgent_ms, revisit_ms, burst_ms, burst_last_ms;
    uint32_t visits; /* counts the pings to absent members */
    bool burst_wanted;
    uint8_t announce_left; /* bursts still to send that only announce our incarnation */
    struct swim_queue_entry queue[SWIM_QUEUE_MAX];
    uint8_t queue_count;
    uint64_t queue_order;
    struct swim_relay relays[SWIM_RELAYS_MAX];
};

/* Starts with no members. `arena` is kept and must outlive `self`; 1,024 members take 128 KiB of it, and blocks
 * outgrown on the way as much again. 0, or ERR_MEMORY: the arena has no room for the first few members. */
int swim_init(struct swim *self, const struct swim_options *options, struct arena *arena);

/* Adds a node of the roster as UNKNOWN; it is pinged at once. 0 also if the node is a member already, or is ourselves.
 * ERR_USAGE: the id is none; ERR_FULL: SWIM_MEMBERS_MAX; ERR_MEMORY: the arena is exhausted. Nothing has changed then. */
int swim_member_add(struct swim *self, uint64_t now_ms, node_id node);

/* Forgets an evicted node; its messages are refused from now on. ERR_NOT_FOUND: it is not a member. */
int swim_member_remove(struct swim *self, node_id node);

/* Processes a message of `from`; any content is allowed. ERR_MALFORMED: no honest peer sends this; ERR_NOT_FOUND:
 * `from`, or the target of a PING_REQ, is not a member (we are not a member either). After an error nothing has
 * changed. Rumours about nodes that are not members are skipped, since rosters may differ for a while. */
int swim_receive(struct swim *self, uint64_t now_ms, node_id from, const struct swim_message *message,
                 struct swim_effects *out);

/* Lets time pass to now_ms; early and late calls are safe. A call more than a period late means that this node stalled,
 * and not the others: all timers move by the delay. After a stall, pass the messages that wait in the sockets to
 * swim_receive before the tick. */
void swim_tick(struct swim *self, uint64_t now_ms, struct swim_effects *out);

/* When swim_tick is needed next: after a tick always later than its now_ms; after other calls perhaps now. */
uint64_t swim_next_ms(const struct swim *self);

/* Another authenticated message of `node` arrived over its own link. No proof of life (without ACKs a peer is not
 * healthy), but an unknown or dead member is pinged at once. Nodes that are not members are ignored. */
void swim_heard(struct swim *self, uint64_t now_ms, node_id node);

/* Moves all timers, and the times of the last signs of life, by gap_ms after this node was suspended or stalled, so
 * that no member is accused for the gap. The next call's now_ms must be at least gap_ms later than the last one's. */
void swim_shift(struct swim *self, uint64_t gap_ms);

/* Announces that we leave: the first SWIM_LEAVE_MAX members are told now, the others in the next ticks, which do
 * nothing else. Later calls do nothing. Pings are still answered. The only way back is a new boot with a higher
 * incarnation. */
void swim_leave(struct swim *self, uint64_t now_ms, struct swim_effects *out);

/* False for ourselves. */
bool swim_is_member(const struct swim *self, node_id node);

/* Our view of a member's state; for ourselves ALIVE (LEFT after swim_leave), for nodes that are not members UNKNOWN. */
enum swim_state swim_state_of(const struct swim *self, node_id node);

/* When the last message came directly from `node`; 0: never, or not a member. */
uint64_t swim_heard_ms(const struct swim *self, node_id node);

/* The highest known incarnation of a member, or our own; 0: not a member. */
uint64_t swim_incarnation_of(const struct swim *self, node_id node);

/* The number of members in all, and in one state; we are not counted. */
size_t swim_member_count(const struct swim *self);
size_t swim_state_count(const struct swim *self, enum swim_state state);

/* The member at `index` < swim_member_count, in ascending order of ids. Indexes change when members are added or
 * removed. */
node_id swim_member_at(const struct swim *self, size_t index);

#endif
