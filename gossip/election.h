#ifndef GOSSIP_ELECTION_H
#define GOSSIP_ELECTION_H
/* Elects the coordinator of an experiment. One struct election per experiment and node; a core.
 *
 * Claims are records (term, node), ordered by (term, node id). The node of the highest claim is the incumbent and stays
 * for as long as it lives. When there is no living incumbent, every node computes the order of succession by rendezvous
 * hash (base/rendezvous.h). The first candidate asks the living members whether any still hears the dead incumbent, and
 * claims term + 1 if none does. A candidate may be stuck (still syncing, or with a full disk), so the k-th candidate
 * takes its turn k x ELECTION_TURN_MS after the vacancy was seen.
 *
 *      FOLLOWING --our turn--> ASKING --nobody hears it--> (claim on its way to disk) --election_led--> LEADING
 *                              |    ^
 *              heard by another|    |ELECTION_RETRY_MS later
 *                              v    |
 *                              WAITING
 *
 * Every state goes to FOLLOWING when a higher claim is seen (from LEADING: YIELD) or the incumbent turns out to live.
 *
 * Known weakness: a daemon that lives but can neither write its claim nor release it (a broken disk) keeps its
 * experiments for as long as membership holds it alive. */

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "gossip/lamport.h"

#define ELECTION_ASK_MS 600    /* how long a candidate waits for answers */
#define ELECTION_RETRY_MS 2000 /* pause of a candidate after a member answered "I hear the incumbent" */
#define ELECTION_UP_MS 5000    /* nodes alive for this long are preferred as successors */
#define ELECTION_TURN_MS 5000  /* how long each candidate waits for the candidate before it */

/* A claim to coordinate the experiment from `term` on. */
struct election_claim {
    uint64_t term;
    node_id node; /* none: nobody has claimed */
};

/* < 0, 0 or > 0 in the order (term, node id). */
int election_claim_compare(struct election_claim a, struct election_claim b);

/* What a node knows of a member at the time of a decision. */
struct election_member {
    node_id node;
    bool alive;         /* by membership: alive or suspect */
    bool drained;       /* the member shall get no new work: it is a last choice */
    uint64_t up_since_ms; /* when the member was first seen alive in its present boot; 0: long ago */
};

/* The states of the drawing above. */
enum election_state { ELECTION_FOLLOWING, ELECTION_ASKING, ELECTION_WAITING, ELECTION_LEADING };

/* The election of one experiment, as one node sees it; no pointers, read-only for the caller. */
struct election {
    enum election_state state;
    struct election_claim highest; /* the highest claim seen, even of a dead node; highest.node is self while LEADING */
    bool highest_released;         /* the node of the highest claim handed the experiment over, or left */
    bool claiming;                 /* our claim is on its way to disk; nothing is decided before its arrival */
    uint64_t claiming_term;
    node_id expected;              /* first choice while the highest claim is released; none: no first choice */
    bool vacant;                   /* at the last step no incumbent was alive */
    uint64_t vacant_since_ms;      /* vacant: since when */
    uint64_t until_ms;             /* ASKING, WAITING: when the state ends; FOLLOWING while vacant: when our turn comes */
};

/* What the caller must do. */
enum election_action {
    ELECTION_NOTHING,
    ELECTION_ASK,   /* send INCUMBENT_ASK about highest.node to every living member */
    ELECTION_CLAIM, /* write a claim with election_next_term; call election_led when it is on disk */
    ELECTION_YIELD  /* this node led, and a higher claim exists: stop coordinating and hand over */
};

/* FOLLOWING, with no claim seen. */
void election_init(struct election *election);

/* Takes note of a claim from a record, a message or our own disk; the same claim may come any number of times, in any
 * order. `released` counts for the highest claim only and is never taken back. *action becomes ELECTION_YIELD if this
 * node `self` led with a lower claim, else ELECTION_NOTHING; when our own claim is released we become FOLLOWING without
 * an action. Call election_step afterwards. ERR_REFUSED: the term is 0 or jumps by more than LAMPORT_JUMP_MAX, or the
 * node is none; nothing has changed then. */
int election_observe(struct election *election, struct election_claim claim, bool released, node_id self,
                     enum election_action *action);

/* As election_observe, however far the term jumps: for a claim confirmed by other claims (gossip/lamport.h) or read
 * from our own disk. */
int election_take(struct election *election, struct election_claim claim, bool released, node_id self,
                  enum election_action *action);

/* Decides what to do now. Call it when members change, when a claim changes, and at election_next_ms. `members` holds
 * every member of the roster including self, sorted by id, and is read during the call only; if self is missing, this
 * node does not claim a vacancy; self counts as alive. If no other member is alive, the claim is made without asking. A
 * node that released the experiment, or is drained and not expected, is the last choice. After ELECTION_CLAIM every
 * call returns ELECTION_NOTHING until election_led, or until a claim higher than ours is seen. Not to be called by a
 * leaving node. */
enum election_action election_step(struct election *election, uint64_t now_ms, node_id self, experiment_id experiment,
                                   const struct election_member *members, uint32_t member_count);

/* Takes a member's answer to our INCUMBENT_ASK: whether the member hears the incumbent. Ignored unless we are ASKING. */
void election_answer(struct election *election, uint64_t now_ms, bool hears);

/* Drops our claim, on disk or on its way, because the claim of an earlier boot of this node took its place. We lead no
 * longer; election_step makes a new claim, as a restarted coordinator does. */
void election_lost(struct election *election);

/* Makes `node` the first choice of this node while the highest claim is released. For a claim that counts as released
 * without a release by its node: perhaps no other node has ever seen the claim; the rest of the mesh then takes `node`
 * for the incumbent and claims nothing. None: no first choice. */
void election_expect(struct election *election, node_id node);

/* Our claim is on disk: we lead now, unless a higher claim was seen meanwhile or ours was released (see `state`). */
void election_led(struct election *election, struct election_claim claim);

/* The term to claim with; while a claim is on its way to disk, the term of the claim. */
uint64_t election_next_term(const struct election *election);

/* When election_step has something to decide without an event. */
uint64_t election_next_ms(const struct election *election); /* UINT64_MAX: nothing to wait for */

/* Moves all waiting times by gap_ms after a stall or suspend of this node. */
void election_shift(struct election *election, uint64_t gap_ms);

#endif
